/* SPDX-License-Identifier: ISC */
/*
 * Hand-over of clients.
 *
 *   IDLE: nothing is in progress
 *   WAITING: its query is handed over with it, and it keeps its position
 *   ACTIVE: its server is at rest, too, within a transaction or a session
 *
 * Hard here: a client under load is never at rest at the moment of the check. So it is not read any
 * more as soon as it has sent all that its current batch needs; after the reply it is at rest. A
 * client that must send more first (a Sync, the data of a COPY) is read.
 *
 * Clients that listen are handed over together, with their listening connection. Those at rest wait
 * for the others without being read, but only for a few looks: another one may work for long.
 */

#include <stdlib.h>
#include <string.h>

#include "pgweir/base/text.h"
#include "pgweir/client/cancel_keys.h"
#include "pgweir/net/stream.h"
#include "pgweir/pool/homes.h"
#include "pgweir/pool/handover.h"

#include "relay/relay_priv.h"
#include "session/session_priv.h"
#include "statements/statements_priv.h"

/* What these do is known when their transaction has ended, and not to another process. */
#define NOT_NOW (SQL_TOUCH_LISTEN | SQL_TOUCH_UNLISTEN | SQL_TOUCH_NOTIFY | SQL_TOUCH_LIBRARY)

/* ---- the record ---- */

static const struct record_field client_fields[] = {
	RECORD_FIELD('i', struct client_record, id),
	RECORD_FIELD('d', struct client_record, database),
	RECORD_FIELD('u', struct client_record, role),
	RECORD_FIELD('U', struct client_record, pool),
	RECORD_FIELD('L', struct client_record, is_lent),
	RECORD_BLOCK_FIELD('P', struct client_record, peer),
	RECORD_BYTES_FIELD('v', struct client_record, params, PARAMS_SIZE_MAX),
	RECORD_BYTES_FIELD('s', struct client_record, startup, PARAMS_SIZE_MAX),
	RECORD_BYTES_FIELD('k', struct client_record, key, CANCEL_KEY_LONG_SIZE),
	RECORD_FIELD('t', struct client_record, connected_at),
	RECORD_FIELD('q', struct client_record, request_at),
	RECORD_FIELD('x', struct client_record, xact_at),
	RECORD_FIELD('e', struct client_record, idle_since),
	RECORD_FIELD('w', struct client_record, waiting_since),
	RECORD_FIELD('l', struct client_record, wait_number),
	RECORD_FIELD('n', struct client_record, was_notified),
	RECORD_FIELD('S', struct client_record, is_skipping),
	RECORD_BYTES_FIELD('I', struct client_record, kept, CHANNEL_MESSAGE_MAX),
	RECORD_BYTES_FIELD('O', struct client_record, unsent, CHANNEL_MESSAGE_MAX),
	RECORD_FIELD('G', struct client_record, gate, RECORD_OPTIONAL),
	RECORD_FIELD('M', struct client_record, rules, RECORD_OPTIONAL),
	RECORD_FIELD('p', struct client_record, patience, RECORD_OPTIONAL),
	RECORD_FIELD('A', struct client_record, has_session, RECORD_OPTIONAL),
	RECORD_FIELD('T', struct client_record, touched, RECORD_OPTIONAL),
	RECORD_FIELD('r', struct client_record, pins, RECORD_OPTIONAL),
	RECORD_FIELD('g', struct client_record, pinning, RECORD_OPTIONAL),
	RECORD_FIELD('F', struct client_record, has_slot, RECORD_OPTIONAL),
	RECORD_FIELD('D', struct client_record, was_discarded, RECORD_OPTIONAL),
	RECORD_FIELD('W', struct client_record, was_told, RECORD_OPTIONAL),
	RECORD_FIELD('a', struct client_record, asks_sequences, RECORD_OPTIONAL),
	RECORD_FIELD('o', struct client_record, pinned_at, RECORD_OPTIONAL),
	RECORD_BYTES_FIELD('y', struct client_record, text, SESSION_TEXT_MAX, RECORD_OPTIONAL),
	RECORD_BYTES_FIELD('m', struct client_record, names, PARAMS_SIZE_MAX, RECORD_OPTIONAL),
	RECORD_BYTES_FIELD('h', struct client_record, held, SESSION_HELD_MAX, RECORD_OPTIONAL),
	RECORD_FIELD('B', struct client_record, listening, RECORD_OPTIONAL),
	RECORD_BYTES_FIELD('C', struct client_record, channels, CHANNEL_MESSAGE_MAX,
	                   RECORD_OPTIONAL),
	RECORD_BYTES_FIELD('R', struct client_record, unread, CHANNEL_MESSAGE_MAX, RECORD_OPTIONAL),
};

/* Whether each of the texts, if there are any, has its end. */
static bool are_texts(struct bytes texts) { return !texts.count || texts.at[texts.count - 1] == 0; }

static bool is_client_good(const void *values)
{
	const struct client_record *record = values;

	return handover_address_is_good(&record->peer) &&
	       handover_params_are_good(record->params) &&
	       handover_params_are_good(record->startup) &&
	       (record->key.count == CANCEL_KEY_SIZE ||
	        record->key.count == CANCEL_KEY_LONG_SIZE) &&
	       record->rules <= POOL_MODE_INHERIT && record->patience <= UINT8_MAX &&
	       !(record->text.count && memchr(record->text.at, 0, record->text.count)) &&
	       are_texts(record->names) && are_texts(record->held) && are_texts(record->channels) &&
	       !record->listening == !record->channels.count;
}

const struct record_table client_record_table =
    RECORD_TABLE("client", client_fields, is_client_good);

/* ---- the process that hands over ---- */

/* The listeners of a connection wait for each other in so many of so many looks. */
#define CALM_WAITS 5U
#define CALM_ROUND 50U

/* Whether only its current work prevents the hand-over; the other listeners do not count. */
static bool can_ever_leave(const struct client *client)
{
	const struct server *server = client->borrower.server;

	if (!stream_is_open(&client->stream) || !stream_can_move(&client->stream) ||
	    client->stream.error || client->replication || !client->borrower.pool || client->late)
		return false; /* a late BEGIN: the client can be handed over when that was sent */
	if (client->clients->pools->is_handover_plain &&
	    (client->stream.tls || session_has_record(client) || listening_listener(client) ||
	     client->borrower.gate || client->borrower.rules || client->borrower.patience ||
	     !handover_params_are_plain(client->params)))
		return false;
	return !server || handover_server_can_move(server);
}

/* Whether its transaction must end before it can leave. */
static bool is_undecided(const struct client *client)
{
	return client->state == CLIENT_ACTIVE &&
	       ((client->touched & NOT_NOW) || server_holds(client->borrower.server, HELD_LOADS) ||
	        client->borrower.server->pool->purpose == POOL_FOR_READS || exposed_any(client) ||
	        sql_has_portal(client) || !listening_is_at_rest(client));
}

static bool is_at_rest(const struct client *client)
{
	if (client->frame_left || !listening_is_at_rest(client))
		return false;
	switch (client->state) {
	case CLIENT_IDLE:
		return client->borrower.state == BORROWER_RESTING;
	case CLIENT_WAITING:
		return client->borrower.state == BORROWER_WAITING;
	case CLIENT_ACTIVE:
		return !is_undecided(client) && handover_server_may_leave(client->borrower.server);
	default:
		return false;
	}
}

/* Whether its batch, or its transaction, must go on before it can leave, with more of its input. */
static bool needs_more(const struct client *client)
{
	const struct server *server = client->borrower.server;

	return client->frame_left ||
	       (stream_kept(&client->stream).count && client->stream.want == WANT_INPUT) ||
	       (is_undecided(client) && server_rest(server) != REST_WORKING) ||
	       (client->state == CLIENT_ACTIVE && ledger_needs_more(&server->wire.ledger));
}

static enum listener_rest rest_of(const struct client *client)
{
	bool is_at_work = client->state == CLIENT_ACTIVE || client->state == CLIENT_PREPARING ||
	                  client->state == CLIENT_SETTLING || client->state == CLIENT_CATCHING_UP;

	if (!can_ever_leave(client))
		return LISTENER_STAYS;
	if (is_at_rest(client))
		return LISTENER_AT_REST;
	return is_at_work && !needs_more(client) ? LISTENER_ENDS : LISTENER_WORKS;
}

/* Of those that share its listening connection; after note_listeners(). */
static enum listener_rest rest_of_others(const struct client *client)
{
	const struct listener *listener = listening_listener(client);

	return listener ? listening_rest(listener) : LISTENER_AT_REST;
}

/* A new look: tells each listening connection whether its listeners can leave. */
static void note_listeners(struct clients *clients)
{
	const struct listener *listener;

	clients->look_count++;
	TAILQ_EACH (client, &clients->list, node) {
		if ((listener = listening_listener(client)))
			listening_look_note(listener, clients->look_count, rest_of(client));
	}
}

static bool shall_be_still(const struct client *client, enum listener_rest rest,
                           enum listener_rest others)
{
	/* A client that has disconnected needs no reply: its statement must end at once. */
	if (rest == LISTENER_ENDS)
		return !stream_has_hung_up(&client->stream) && others != LISTENER_STAYS;
	return rest == LISTENER_AT_REST && listening_listener(client) && others <= LISTENER_ENDS &&
	       client->clients->look_count % CALM_ROUND < CALM_WAITS;
}

static void calm(struct client *client, bool is_still)
{
	struct stream *stream = &client->stream;

	if (!stream_is_open(stream) || !stream_can_move(stream) ||
	    stream_is_halted(stream) == is_still)
		return;
	if (is_still)
		stream_halt(stream, 0);
	else
		stream_go_on(stream);
}

bool clients_look(struct clients *clients)
{
	bool is_suspended = clients->pools->suspend != SUSPEND_NONE;
	bool have_leavers = false;

	note_listeners(clients);
	TAILQ_EACH (client, &clients->list, node) {
		enum listener_rest rest = rest_of(client), others = rest_of_others(client);

		have_leavers |= rest == LISTENER_AT_REST && others == LISTENER_AT_REST;
		if (!is_suspended)
			calm(client, shall_be_still(client, rest, others));
	}
	return have_leavers;
}

static void write_facts(const struct client *client, struct buf *record)
{
	struct buf channels = { 0 };
	const struct borrower *borrower = &client->borrower;
	bool is_waiting = client->state == CLIENT_WAITING;
	struct client_record values = {
		.id = client->id,
		.is_lent = borrower->server != NULL,
		.peer = client->peer,
		.params = params_text(client->params),
		.startup = params_text(client->startup),
		.key = client_key(client),
		.connected_at = client->connected_at,
		.request_at = client->request_at,
		.xact_at = client->xact_at,
		.idle_since = client_idle_since(client),
		.waiting_since = is_waiting ? borrower->waiting_since : 0,
		.wait_number = is_waiting ? borrower->wait_number : 0,
		.was_notified = client->was_notified,
		.is_skipping = client->is_skipping,
		.kept = stream_kept(&client->stream),
		.unsent = stream_unsent_bytes(&client->stream),
		.rules = borrower->rules,
		.patience = borrower->patience,
	};

	text_copy(values.database, sizeof(values.database), client->database->name);
	text_copy(values.role, sizeof(values.role), client->role->name);
	text_copy(values.pool, sizeof(values.pool), borrower->pool->role->name);
	text_copy(values.gate, sizeof(values.gate), client_gate(client)->name);
	session_write(client, &values);
	listening_write_channels(client, &values, &channels);
	record_write(record, &client_record_table, &values);
	stream_write_tls(&client->stream, record);
	if (!buf_ok(&channels))
		record->is_broken = true;
	buf_free(&channels);
}

static bool write_client(struct client *client, struct channel *channel)
{
	struct buf record = { .is_secret = true };
	const struct listener *listener = listening_listener(client);
	bool ok = !listener || listening_write(listener, channel);

	if (ok && client->borrower.server)
		ok = handover_server_write(client->borrower.server, channel);
	write_facts(client, &record);
	ok = ok && statements_write(client, &record, channel) &&
	     channel_send_record(channel, HANDOVER_CLIENT, &record, client->stream.watch.fd);
	buf_wipe(&record);
	client->is_written = ok;
	return ok;
}

bool clients_write(struct clients *clients, struct channel *channel)
{
	bool ok = true;

	note_listeners(clients);
	TAILQ_EACH (client, &clients->list, node) {
		client->is_written = false;
		if (ok && rest_of(client) == LISTENER_AT_REST &&
		    rest_of_others(client) == LISTENER_AT_REST)
			ok = write_client(client, channel);
	}
	return ok;
}

unsigned int clients_let_go(struct clients *clients)
{
	struct client *client, *next;
	unsigned int count = 0;

	TAILQ_FOREACH_SAFE (client, &clients->list, node, next) {
		if (!client->is_written)
			continue;
		/* The process that lends it a server counts the time it has waited. */
		client->borrower.waiting_since = loop_now(clients->loop);
		client_forget(client);
		count++;
	}
	return count;
}

void clients_dismiss(struct clients *clients, const struct err *err)
{
	struct client *client, *next;

	TAILQ_FOREACH_SAFE (client, &clients->list, node, next) {
		if (client->state == CLIENT_CANCELING)
			client_close(client, CLOSE_CANCEL_DELIVERED);
		else
			client_fatal(client, err);
	}
}

/* ---- the process that takes over ---- */

bool client_judge(const struct clients *clients, struct bytes body, struct err *err)
{
	struct record record = { .rest = body };
	struct client_record values;
	bool is_same;

	record_read(&record, &client_record_table, &values);
	stream_read_tls(NULL, &record, true, NULL, &is_same);
	statements_read(NULL, &record, NULL);
	if (!record_is_whole(&record))
		return handover_refuse(&record, "client", err);
	return pools_judge_database(clients->pools, values.database, err);
}

struct lane *client_lane(const struct lanes *lanes, struct bytes body)
{
	struct record record = { .rest = body };
	struct client_record values;

	record_read(&record, &client_record_table, &values);
	if (values.listening)
		return &lanes->at[values.listening % lanes->count];
	return &lanes->at[cancel_key_loop(values.key, lanes->count)];
}

/* It keeps its mode, also if its listener has another one here, or none of the name is left. */
static void take_rules(struct client *client, const struct client_record *record)
{
	client->borrower.rules = (uint8_t)record->rules;
	client->borrower.patience = (uint8_t)record->patience;
	if (record->rules)
		pools_serve_mode(client->clients->pools, (enum pool_mode)(record->rules - 1));
}

/* Links the client with its database, user and pool. false: no memory, or no such database. */
static bool enter_house(struct client *client, const struct client_record *record)
{
	struct clients *clients = client->clients;
	struct pools *pools = clients->pools;
	struct pool *pool =
	    handover_arrival_pool(pools, record->database, record->pool, POOL_FOR_CLIENTS);

	client->database = pools_database(pools, record->database);
	client->role = role_of_name(pools, record->role);
	if (!pool || !client->database || !client->role)
		return false;
	database_count_client(client->database, 1);
	role_enter(client->role, false);
	client->count = CLIENT_COUNTED;
	pool_join(pool, &client->borrower);
	homes_note(&clients->shared->homes, client->database->name, pool->role->name,
	           clients->keys.loop_number);
	return true;
}

/* false: no memory. */
static bool fill(struct client *client, const struct client_record *record)
{
	struct clients *clients = client->clients;
	struct params_table *table = clients->pools->shared.params;

	params_add_text(table, &client->params, record->params);
	params_add_text(table, &client->startup, record->startup);
	client->connected_at = record->connected_at;
	client->request_at = record->request_at;
	client->xact_at = record->xact_at;
	client->is_skipping = record->is_skipping;
	client->was_notified = record->was_notified;
	client->borrower.waiting_since = record->waiting_since;
	client->borrower.wait_number = record->wait_number;
	return cancel_keys_add(&clients->keys, client, record->key);
}

static void take_server(struct client *client, struct pools_arrival *arrival)
{
	handover_server_rejoin(arrival->lent, &client->borrower);
	if (client->borrower.pool->limits.is_mixed &&
	    client_rules(client)->mode == POOL_MODE_SESSION)
		pool_take_place_anyway(&client->borrower);
	arrival->lent = NULL;
	client_enter(client, CLIENT_ACTIVE);
	track_rearm(client);
}

/* All but its connection. CLOSE_NONE: it can go on. */
static enum close_reason restore(struct client *client, const struct client_record *values,
                                 struct record *rest, struct pools_arrival *arrival)
{
	const struct server *lent = values->is_lent ? arrival->lent : NULL;

	take_rules(client, values);
	if (!enter_house(client, values) ||
	    (values->is_lent && !(lent && lent->pool == client->borrower.pool)))
		return CLOSE_DATABASE_REMOVED;
	if (!fill(client, values))
		return CLOSE_MEMORY;
	if (lent)
		take_server(client, arrival);
	statements_read(client, rest, arrival);
	return session_read(client, values) ? listening_read(client, values) : CLOSE_MEMORY;
}

void client_take(struct clients *clients, struct pools_arrival *arrival, struct bytes body, int *fd)
{
	struct record record = { .rest = body };
	struct client_record values;
	enum close_reason reason;
	struct client *client;
	bool is_known, is_same;

	record_read(&record, &client_record_table, &values);
	if (record.is_bad || *fd < 0)
		return;
	is_known = values.id && values.id <= arrival->last_id;
	client = clients_revive(clients, *fd, &values.peer,
	                        gate_find(&clients->shared->gates, values.gate),
	                        is_known ? values.id : 0);
	if (!client)
		return;
	*fd = -1;
	if (!stream_read_tls(&client->stream, &record, true, clients->shared->gates.main.rules.tls,
	                     &is_same)) {
		client_close(client, CLOSE_MEMORY);
		return;
	}
	stream_defer(&client->stream);
	reason = restore(client, &values, &record, arrival);
	if (reason != CLOSE_NONE) {
		client_refuse_for(client, reason);
		return;
	}
	client->is_arriving = true;
	if (client->state == CLIENT_IDLE)
		client->timer.due = values.idle_since; /* not set yet: see clients_start() */
	if (!stream_keep(&client->stream, values.kept) ||
	    !stream_send_unsent(&client->stream, values.unsent))
		client_close(client, CLOSE_CLIENT_EOF);
}

/* Handles the buffered input from the other process, then starts reading. */
static void start(struct client *client)
{
	usec_t waiting_since = client->borrower.waiting_since;
	bool was_notified = client->was_notified;

	client->is_arriving = false;
	if (stream_unsent(&client->stream))
		return; /* on_flushed() continues */
	if (!stream_want(&client->stream, WANT_INPUT)) {
		client_close(client, CLOSE_NOT_WATCHED);
		return;
	}
	listening_deliver(client);
	if (client->state == CLIENT_CLOSED)
		return;
	client_judge_kept(client);
	drain_look(client); /* a DRAIN may have begun before it arrived */
	if (client->state != CLIENT_WAITING || !waiting_since)
		return;
	client->borrower.waiting_since = waiting_since;
	client->was_notified = was_notified;
	client_wait_begin(client);
}

static int order(uint64_t one, uint64_t other) { return (one > other) - (one < other); }

/*
 * Those from a wait queue enter one again, in the same order, after all others. An idle timer is
 * inserted among those that are due earlier: in this order nothing is passed over.
 */
static int by_line(const void *one, const void *other)
{
	const struct client *a = *(struct client *const *)one, *b = *(struct client *const *)other;

	/* Each loop of the other process had its own numbers. */
	if (a->borrower.waiting_since != b->borrower.waiting_since)
		return order((uint64_t)a->borrower.waiting_since,
		             (uint64_t)b->borrower.waiting_since);
	if (a->borrower.wait_number != b->borrower.wait_number)
		return order(a->borrower.wait_number, b->borrower.wait_number);
	return order((uint64_t)a->timer.due, (uint64_t)b->timer.due);
}

void clients_start(struct clients *clients)
{
	struct client **arrived = calloc(clients->count + 1, sizeof(*arrived));
	struct client *client;
	size_t count = 0;

	TAILQ_FOREACH (client, &clients->list, node) {
		if (arrived && client->is_arriving)
			arrived[count++] = client;
	}
	if (arrived)
		qsort(arrived, count, sizeof(*arrived), by_line);
	for (size_t i = 0; i < count; i++) {
		if (arrived[i]->state == CLIENT_IDLE)
			client_idle_resume(arrived[i], arrived[i]->timer.due);
	}
	for (size_t i = 0; i < count; i++) {
		if (arrived[i]->state != CLIENT_CLOSED)
			start(arrived[i]);
	}
	free(arrived);
}
