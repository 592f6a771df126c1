/* SPDX-License-Identifier: ISC */
/*
 * Hand-over of servers, those that listen included.
 *
 * Only a server at rest is handed over: PostgreSQL has answered all requests, nothing is half sent
 * or half read, and no cancel for the server is in progress. The state of the session (such as an
 * open transaction) remains in PostgreSQL.
 */
#include <stdio.h>

#include "pgweir/base/text.h"
#include "pgweir/net/stream_parcel.h"
#include "pgweir/pool/handover.h"

#include "handover_priv.h"
#include "host_watch_priv.h"
#include "listening_priv.h"
#include "pool_priv.h"
#include "server/server_priv.h"

/* ---- the process that hands over ---- */

/* Whether the server must be reset or cleaned before anybody else gets it. */
static bool needs_reset(const struct server *server)
{
	return (server->session.left & LEFT_STATE) || server->session.doubt != DOUBT_NONE;
}

/* Whether the plain format can describe the server. */
static bool is_plain_enough(const struct server *server)
{
	return !server->pool->pools->is_handover_plain ||
	       (!needs_reset(server) && handover_params_are_plain(server->session.params));
}

bool handover_server_can_move(const struct server *server)
{
	const struct stream *stream = &server->wire.stream;

	return stream_can_move(stream) && !(stream->tls && server->pool->pools->is_handover_plain);
}

bool handover_server_is_at_rest(const struct server *server)
{
	return stream_is_open(&server->wire.stream) && !server->wire.stream.error &&
	       server->replication == REPLICATION_NONE && !server->login &&
	       server_has_nothing_pending(server) && !server->lease.cancel_count;
}

bool handover_server_may_leave(const struct server *server)
{
	bool is_there = server->state == SERVER_IDLE || server->state == SERVER_USED ||
	                (server->state == SERVER_LENT && server->lease.borrower);

	/* The format has no pools for reads: the other process opens servers of its own. */
	return is_there && handover_server_can_move(server) && is_plain_enough(server) &&
	       server->pool->purpose != POOL_FOR_READS &&
	       !server->pool->cancels.counts[CANCEL_WAITING] && handover_server_is_at_rest(server);
}

/* The destination of the pool's servers as a text, to be compared with the other process's. */
static void name_destination(const struct pool *pool, char *out, size_t size)
{
	const struct config_database *entry = pool->database->entry;

	snprintf(out, size, "%s:%d/%s", entry && entry->host ? entry->host : "",
	         entry ? entry->port : 0,
	         entry ? config_database_dbname(entry, pool->database->name) : "");
}

/* false: no number. */
static bool write_known(const struct server *server, struct statement_numbers *numbers,
                        struct buf *out)
{
	const struct server_statement *entry;
	bool is_given = true;

	TAILQ_FOREACH (entry, &server->session.statements.list, node) {
		bool is_stale =
		    entry->state.is_stale ||
		    (server->session.scope == SCOPE_OPEN_USED && server_statement_is_marked(entry));
		struct on_server_record record = { 0 };

		if (!entry->is_confirmed)
			continue;
		if (!server->pool->pools->is_handover_plain)
			record.state = entry->state;
		is_given = is_given &&
		           numbers->give(numbers, entry->statement, entry->image, &record.number);
		record_write(out, is_stale ? &stale_record_table : &on_server_record_table,
		             &record);
	}
	return is_given;
}

static void note_names(const struct server *server, struct server_record *record)
{
	const struct pool *pool = server->pool;
	const struct hosts *hosts = pool->site.hosts;
	const char *host =
	    server->place.host < hosts->count ? hosts->list[server->place.host].name : "";

	text_copy(record->database, sizeof(record->database), pool->database->name);
	text_copy(record->role, sizeof(record->role), pool->role->name);
	name_destination(pool, record->destination, sizeof(record->destination));
	text_copy(record->host, sizeof(record->host), host);
	text_copy(record->path, sizeof(record->path), server->place.path);
}

static struct server_record record_of(const struct server *server)
{
	struct server_record record = {
		.id = server->id,
		.is_for_lookups = server->pool->purpose == POOL_FOR_LOOKUPS,
		.is_lent = server->state == SERVER_LENT,
		.is_used = server->state == SERVER_USED,
		.peer = server->place.peer,
		.status = (unsigned char)server->wire.status,
		.is_close_needed = server->close_reason,
		.has_session = server->session.left & LEFT_SESSION,
		.is_rest_unknown = server->session.unsure & UNSURE_REST,
		.params = params_text(server->session.params),
		.baseline = params_text(server->session.baseline),
		.key = bytes_of(server->key.bytes, server->key.size),
		.connected_at = server->connected_at,
		.used_at = server->used_at,
		.request_at = server->lease.request_at,
		.xact_at = server->lease.xact_at,
		.is_dirty = needs_reset(server),
	};

	note_names(server, &record);
	if (server->is_listening)
		listening_describe(server, &record);
	return record;
}

bool handover_server_record(const struct server *server, struct statement_numbers *numbers,
                            struct buf *record)
{
	struct server_record values = record_of(server);

	record_write(record, &server_record_table, &values);
	return write_known(server, numbers, record) && buf_ok(record);
}

/* Numbers for another process, which gets the statements in records of their own. */
struct numbers_sent {
	struct statement_numbers base;
	struct channel *channel;
};

static bool send_statement(struct statement_numbers *numbers, struct statement *statement,
                           struct statement_image *image, uint64_t *number)
{
	*number = statement_image_number(image);
	return handover_write_statement(statement, image,
	                                ((struct numbers_sent *)numbers)->channel);
}

bool handover_server_write(struct server *server, struct channel *channel)
{
	struct numbers_sent numbers = { { send_statement }, channel };
	struct buf record = { .is_secret = true };
	bool is_written;

	is_written = handover_server_record(server, &numbers.base, &record);
	stream_write_tls(&server->wire.stream, &record);
	is_written = is_written && channel_send_record(channel, HANDOVER_SERVER, &record,
	                                               server->wire.stream.watch.fd);
	server->place.going = is_written ? SERVER_HANDED_OVER : SERVER_STAYS;
	buf_wipe(&record);
	return is_written;
}

void handover_server_let_go(struct server *server)
{
	struct pool *pool = server->pool;
	struct borrower *borrower = server->lease.borrower;
	struct loop *loop = pool->pools->shared.loop;

	log_debug(&server->log, "handed over");
	server->place.going = SERVER_STAYS;
	loop_close_later(loop, stream_take_socket(&server->wire.stream));
	if (borrower) {
		borrower->server = NULL;
		borrower->state = BORROWER_RESTING;
		server->lease.borrower = NULL;
		pool_part(pool, borrower, server);
	}
	server_forget(server);
}

/* ---- the process that takes over ---- */

/* Reads the next statement of the list at the end of a record. false: no more. */
static bool next_known(struct record *record, struct on_server_record *next)
{
	bool is_stale = record_has_table(record, &stale_record_table);

	if (!is_stale && !record_has_table(record, &on_server_record_table))
		return false;
	record_read(record, is_stale ? &stale_record_table : &on_server_record_table, next);
	next->state.is_stale = is_stale;
	return !record->is_bad;
}

void handover_server_check_rest(struct record *record)
{
	struct on_server_record next;
	bool is_same;

	while (next_known(record, &next))
		continue;
	stream_read_tls(NULL, record, false, NULL, &is_same);
}

static void fill_server(struct server *server, const struct server_record *record)
{
	struct params_table *table = server->site->shared->params;

	server->place.peer = record->peer;
	memcpy(server->place.path, record->path, sizeof(server->place.path));
	server->wire.status = (char)record->status;
	server->session.unsure = record->is_rest_unknown ? UNSURE_REST : 0;
	server->wire.is_ready = true;
	params_add_text(table, &server->session.params, record->params);
	params_add_text(table, &server->session.baseline, record->baseline);
	server_find_libraries(server);
	server->key.size = (uint16_t)record->key.count;
	memcpy(server->key.bytes, record->key.at, record->key.count);
	server->connected_at = record->connected_at;
	server->used_at = record->used_at;
	server->lease.request_at = record->request_at;
	server->lease.xact_at = record->xact_at;
	/* lent_at is not handed over: the current transaction started then, or later. */
	server->lease.lent_at = record->xact_at ? record->xact_at : record->used_at;
}

/* false: at least one of them is not known here. */
static bool fill_known(struct server *server, struct server_source *source, struct record *record)
{
	struct on_server_record next;
	bool is_whole = true;

	while (next_known(record, &next)) {
		struct statement_image *image;
		struct statement *statement = source->statement(source, next.number, &image);

		is_whole &= statement && server_statements_restore(&server->session.statements,
		                                                   statement, image, &next.state);
		statement_release(&statement);
	}
	return is_whole;
}

/* The server keeps its id if no client or server of this process can have it. */
static void keep_id(struct server *server, const struct server_source *source, uint64_t id)
{
	struct pools *pools = server->pool->pools;
	struct server *before;

	if (id == 0 || id > source->last_id)
		return;
	server->id = id;
	TAILQ_REMOVE(&pools->servers, server, place.all_node);
	before = TAILQ_LAST(&pools->servers, server_list);
	while (before && before->id > id)
		before = TAILQ_PREV(before, server_list, place.all_node);
	if (before)
		TAILQ_INSERT_AFTER(&pools->servers, before, server, place.all_node);
	else
		TAILQ_INSERT_HEAD(&pools->servers, server, place.all_node);
}

/* The same state changes as after a login. */
static void enter_state(struct server *server, const struct server_record *record)
{
	const struct pool *pool = server->pool;
	char destination[HANDOVER_DESTINATION_SIZE];
	bool is_at_host = server_find_again(server, record->host);

	name_destination(pool, destination, sizeof(destination));
	server_enter(server, SERVER_LOGIN);
	if (record->is_lent) {
		server_enter(server, SERVER_LENT);
		server_open_scope(server); /* the record does not say what its client has set */
	} else {
		server_enter(server, SERVER_IDLE);
		if (record->is_used)
			server_enter(server, SERVER_USED);
	}
	/* This process may have another pool_mode. */
	if (record->has_session ||
	    (record->is_lent && pool_own_rules(pool)->mode == POOL_MODE_SESSION))
		server_begin_session(server);
	if (record->is_close_needed || !is_at_host || strcmp(destination, record->destination) != 0)
		server_need_close(server, CLOSE_TAKEN_OVER);
	else if (pool->site.is_followed && pool->site.entry && pool->site.entry->connect_query &&
	         !server->session.has_defaults && !server->is_listening)
		server_need_close(server, CLOSE_TAKEN_OVER); /* what it has set is not known */
	else if (!record->is_lent && pool_is_left_over(server))
		server_need_close(server, CLOSE_POOL_MODE_CHANGED);
	timer_set(&server->life, pool->site.limits.life, server->connected_at);
}

static void close_lent(struct pools_arrival *arrival)
{
	struct server *server = arrival->lent;
	struct err err;

	arrival->lent = NULL;
	if (!server)
		return;
	err_set(&err, ERR_SERVER_LOST, "its client was not handed over with it");
	server_close(server, &err);
}

static void take_listening(struct server *server, const struct server_record *record)
{
	listening_take(server, record);
	if (server->state == SERVER_LENT && server->close_reason)
		listening_replace(server);
}

static enum pool_purpose purpose_of(const struct server_source *source,
                                    const struct server_record *record)
{
	if (source->is_for_reads)
		return POOL_FOR_READS;
	return record->is_for_lookups ? POOL_FOR_LOOKUPS : POOL_FOR_CLIENTS;
}

/* The encryption of a server that another process had, if it is next. false: no memory. */
static bool open_tls(struct server *server, struct record *record, bool *is_same)
{
	const struct pools *pools = server->pool->pools;

	if (record_has_table(record, &stream_tls_table))
		server->is_tls_direct =
		    pools->config->server_tls_negotiation == TLS_NEGOTIATION_DIRECT;
	return stream_read_tls(&server->wire.stream, record, false, pools->shared.tls, is_same);
}

struct server *handover_server_make(struct server_source *source, struct bytes body,
                                    struct server_record *values)
{
	struct record record = { .rest = body };
	struct pools *pools = source->pools;
	struct database *database = NULL;
	struct pool *pool = NULL;
	struct server *server = NULL;
	bool is_same = true, knows_all, is_listening;
	struct permit permit = { 0 };

	record_read(&record, &server_record_table, values);
	if (!record.is_bad)
		database = pools_database(pools, values->database);
	if (database)
		pool = pools_exact_pool(database, values->role, purpose_of(source, values));
	if (!pool)
		return NULL;
	is_listening = *values->mark_channel;
	if (source->permit)
		permit = permit_move(source->permit);
	else
		permit = pool_take_permit_anyway(pool, is_listening);
	server = pool_add_server(pool, is_listening, &permit);
	if (!server)
		return NULL;
	if (source->last_id == UINT64_MAX)
		server->id = values->id;
	else
		keep_id(server, source, values->id);
	fill_server(server, values);
	pool_note_host(server);
	knows_all = fill_known(server, source, &record);
	if (!source->open(source, server) || !open_tls(server, &record, &is_same)) {
		stream_close(&server->wire.stream);
		server_forget(server);
		return NULL;
	}
	/* A statement that is there and not known could not be prepared there. */
	if (!knows_all)
		server_need_close(server, CLOSE_STATEMENT_NAME_TAKEN);
	server_set_dirty(server, values->is_dirty && values->is_lent);
	if (values->is_dirty && !values->is_lent) {
		server_set_doubt(server);
		server_pass_doubt(server);
	}
	enter_state(server, values);
	if (!is_same)
		server_need_close(server, CLOSE_TAKEN_OVER);
	stream_want(&server->wire.stream, WANT_INPUT);
	if (is_listening)
		take_listening(server, values);
	pool_wake(pool);
	return server;
}

struct server_taken {
	struct server_source base;
	struct pools_arrival *arrival;
	int *fd;
};

static bool open_taken(struct server_source *source, struct server *server)
{
	const struct server_shared *shared = &source->pools->shared;
	int *fd = ((struct server_taken *)source)->fd;

	stream_open(&server->wire.stream, shared->loop, shared->streams, *fd, &server_stream_ops);
	stream_defer(&server->wire.stream);
	*fd = -1;
	return true;
}

static struct statement *find_taken(struct server_source *source, uint64_t number,
                                    struct statement_image **image)
{
	const struct pools_arrival *arrival = ((struct server_taken *)source)->arrival;

	return handover_arrival_statement(arrival, source->pools, number, image);
}

void handover_server_take(struct pools *pools, struct pools_arrival *arrival, struct bytes body,
                          int *fd)
{
	struct server_taken taken = {
		{ pools, arrival->last_id, NULL, false, open_taken, find_taken },
		arrival,
		fd,
	};
	struct server_record values;
	struct server *server;

	close_lent(arrival);
	server = *fd >= 0 ? handover_server_make(&taken.base, body, &values) : NULL;
	if (!server)
		return;
	pool_keep_size(server->pool);
	if (arrival->is_plain && pool_own_rules(server->pool)->mode != POOL_MODE_SESSION &&
	    pool_own_rules(server->pool)->session_state != SESSION_STATE_OFF)
		server_need_close(server, CLOSE_TAKEN_OVER);
	if (values.is_lent && !server->is_listening)
		arrival->lent = server;
}

bool handover_server_is_lent(struct bytes body)
{
	struct record record = { .rest = body };
	struct server_record values;

	record_read(&record, &server_record_table, &values);
	return values.is_lent;
}

unsigned long handover_server_need(struct pools *pools, struct bytes body)
{
	struct record record = { .rest = body };
	struct server_record values;
	const struct pool *pool;

	record_read(&record, &server_record_table, &values);
	pool = pools_find_exact_pool(pools, values.database, values.role,
	                             values.is_for_lookups ? POOL_FOR_LOOKUPS : POOL_FOR_CLIENTS);
	return pool ? 1000UL * pool->member_count / (pool->server_count + 1) : 0;
}

void handover_server_rejoin(struct server *server, struct borrower *borrower)
{
	server->lease.borrower = borrower;
	borrower->server = server;
	borrower->state = BORROWER_SERVED;
	if (pool_rules(borrower)->mode == POOL_MODE_SESSION)
		server_begin_session(server);
	pool_count_served(server->pool, 1);
	if (server->pool->fair)
		pool_fair_lend(borrower);
	server_rearm(server);
}

void pools_take_end(struct pools *pools, struct pools_arrival *arrival)
{
	struct role *role, *next;

	close_lent(arrival);
	arrival->is_later = true;
	host_watches_update(pools); /* what is paused is known now */
	TAILQ_FOREACH_SAFE (role, &pools->roles, node, next)
		role_forget_unused(pools, role);
}

/*
 * ---- listening connections ----
 *
 * The records of the listeners are their owner's.
 */

/* ---- the process that hands over ---- */

void listening_look_note(const struct listener *listener, unsigned int look,
                         enum listener_rest rest)
{
	struct listening *listening = listener->listening;

	if (listening->look != look || rest > listening->rest)
		listening->rest = rest;
	listening->look = look;
}

/* Whether the connection does nothing but listen. */
static bool is_at_rest(const struct listening *listening)
{
	const struct listening_link *now = listening->now, *next = listening->next;

	return now->borrower.server && !listening->is_lost && !next->borrower.server &&
	       !next->wish.expected && TAILQ_EMPTY(&listening->stale) &&
	       TAILQ_EMPTY(&listening->asking) && handover_server_may_leave(now->borrower.server);
}

enum listener_rest listening_rest(const struct listener *listener)
{
	const struct listening *listening = listener->listening;
	const struct server *server = listening->now->borrower.server;

	if (listening->pool->pools->is_handover_plain ||
	    (server && !handover_server_can_move(server)))
		return LISTENER_STAYS;
	if (listening->rest == LISTENER_AT_REST && !is_at_rest(listening))
		return LISTENER_ENDS; /* what the connection does besides listening ends */
	return listening->rest;
}

uint64_t listening_number(const struct listener *listener)
{
	return listener->listening->now->borrower.server->id;
}

bool listening_write(const struct listener *listener, struct channel *channel)
{
	struct server *server = listener->listening->now->borrower.server;

	return server->place.going == SERVER_HANDED_OVER || handover_server_write(server, channel);
}

/* ---- the process that takes over ---- */

bool listening_rejoin(struct listener *listener, struct pool *pool, uint64_t number)
{
	struct listening *listening;

	TAILQ_FOREACH (listening, &pool->listenings, node) {
		if (listening->number == number)
			break;
	}
	if (listening)
		listening_enter(listening, listener);
	return listening;
}
