/* SPDX-License-Identifier: ISC */
/*
 * Hand-over of servers, those that listen included: to another process, and to another loop.
 *
 * Only a server at rest is handed over: PostgreSQL has answered all requests, nothing is half sent
 * or half read, and no cancel for the server is in progress. The state of the session (such as an
 * open transaction) remains in PostgreSQL.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "pgweir/base/text.h"
#include "pgweir/net/stream.h"
#include "pgweir/pgwire/message.h"
#include "pgweir/pool/handover.h"

#include "handover_priv.h"
#include "listening_priv.h"
#include "pool_priv.h"
#include "server/server_priv.h"

/* ---- the process that hands over ---- */

/* Whether the plain format can describe the server. Of what it holds, that has sessions only. */
static bool is_plain_enough(const struct server *server)
{
	return !server->pool->pools->is_handover_plain ||
	       (!server_holds(server, HELD_DOUBT | HELD_STATE | HELD_FORMER) &&
	        handover_params_are_plain(server->session.params));
}

bool handover_server_can_move(const struct server *server)
{
	const struct stream *stream = &server->wire.stream;

	return stream_can_move(stream) && !(stream->tls && server->pool->pools->is_handover_plain);
}

static bool is_at_rest(const struct server *server)
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
	       !server->pool->cancels.counts[CANCEL_WAITING] && is_at_rest(server);
}

/* The destination of the pool's servers as a text, to be compared with the other process's. */
static void name_destination(const struct pool *pool, char *out, size_t size)
{
	const struct config_database *entry = pool->database->entry;

	snprintf(out, size, "%s:%d/%s", entry && entry->host ? entry->host : "",
	         entry ? entry->port : 0,
	         entry ? config_database_dbname(entry, pool->database->name) : "");
}

/* channel: of another process, which gets the statements in records of their own. */
static bool write_known(const struct server *server, struct channel *channel, struct buf *out)
{
	bool is_plain = channel && server->pool->pools->is_handover_plain;

	TAILQ_EACH (entry, &server->session.statements.list, node) {
		bool is_stale =
		    entry->state.is_stale ||
		    (server->session.scope == SCOPE_OPEN_USED && server_statement_is_marked(entry));
		struct on_server_record record = { .number = statement_image_number(entry->image) };

		if (!entry->is_confirmed)
			continue;
		if (!is_plain)
			record.state = entry->state;
		if (channel && !handover_write_statement(entry->statement, entry->image, channel))
			return false;
		record_write(out, is_stale ? &stale_record_table : &on_server_record_table,
		             &record);
	}
	return true;
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

static bool write_record(const struct server *server, struct channel *channel, struct buf *record)
{
	struct server_record values = {
		.id = server->id,
		.is_for_lookups = server->pool->purpose == POOL_FOR_LOOKUPS,
		.is_lent = server->state == SERVER_LENT,
		.is_used = server->state == SERVER_USED,
		.peer = server->place.peer,
		.status = (unsigned char)server->wire.status,
		.is_close_needed = server->close_reason,
		.has_session = server_holds(server, HELD_SESSION),
		.is_rest_unknown = server_holds(server, HELD_REST),
		.params = params_text(server->session.params),
		.baseline = params_text(server->session.baseline),
		.key = bytes_of(server->key.bytes, server->key.size),
		.connected_at = server->connected_at,
		.used_at = server->used_at,
		.request_at = server->lease.request_at,
		.xact_at = server->lease.xact_at,
		.held = server->session.held | (server->lease.definition.state ? HELD_DDL : 0u),
	};

	note_names(server, &values);
	if (server->is_listening)
		listening_describe(server, &values);
	record_write(record, &server_record_table, &values);
	return write_known(server, channel, record) && buf_ok(record);
}

bool handover_server_write(struct server *server, struct channel *channel)
{
	struct buf record = { .is_secret = true };
	bool ok = write_record(server, channel, &record);

	stream_write_tls(&server->wire.stream, &record);
	server->place.is_written = ok && channel_send_record(channel, HANDOVER_SERVER, &record,
	                                                     server->wire.stream.watch.fd);
	buf_wipe(&record);
	return server->place.is_written;
}

void handover_server_let_go(struct server *server)
{
	struct pool *pool = server->pool;
	struct borrower *borrower = server->lease.borrower;
	struct loop *loop = pool->pools->shared.loop;

	log_debug(&server->log, "handed over");
	server->place.is_written = false; /* it is in the list until the end of the turn */
	loop_close_later(loop, stream_take_socket(&server->wire.stream));
	if (borrower)
		pool_part(pool, borrower, server);
	server_forget(server);
}

/* ---- the process or the loop that takes over ---- */

/* Where a server comes from whose record is read. */
struct server_source {
	struct pools *pools;
	struct server_parcel *parcel;  /* another loop; NULL: another process */
	struct pools_arrival *arrival; /* of that */
	int *fd;                       /* -1 when the server has it */
};

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

/* The statement that is next in a parcel. The caller gets a reference. NULL: no memory. */
static struct statement *next_packed(struct server_parcel *parcel, struct pools *pools,
                                     struct statement_image **image)
{
	const struct packed_statement *packed = &parcel->statements[parcel->read_count++];
	struct statement *statement;

	assert(parcel->read_count <= parcel->statement_count);
	statement = statement_of_image(&pools->statements, packed->image);
	*image = packed->image;
	if (statement)
		statement->is_typed |= packed->is_typed;
	return statement;
}

/* false: at least one of them is not known here. */
static bool fill_known(struct server *server, const struct server_source *source,
                       struct record *record)
{
	struct on_server_record next;
	bool is_whole = true;

	while (next_known(record, &next)) {
		struct statement_image *image;
		struct statement *statement =
		    source->parcel ? next_packed(source->parcel, source->pools, &image)
				   : handover_arrival_statement(source->arrival, source->pools,
		                                                next.number, &image);

		is_whole &= statement && server_statements_restore(&server->session.statements,
		                                                   statement, image, &next.state);
		statement_release(&statement);
	}
	return is_whole;
}

/* The server keeps its id if no client or server of this process can have it. */
static void keep_id(struct server *server, uint64_t last_id, uint64_t id)
{
	struct pools *pools = server->pool->pools;
	struct server *before;

	if (id == 0 || id > last_id)
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
	if (record->is_lent && pool_own_rules(pool)->mode == POOL_MODE_SESSION)
		server_hold(server, HELD_SESSION);
	if (record->is_close_needed || !is_at_host || strcmp(destination, record->destination) != 0)
		server_need_close(server, CLOSE_TAKEN_OVER);
	else if (pool->site.knows_defaults && pool->site.entry && pool->site.entry->connect_query &&
	         !server->session.has_defaults && !server->is_listening)
		server_need_close(server, CLOSE_TAKEN_OVER); /* what it has set is not known */
	else if (!record->is_lent && pool_unfit(server))
		server_need_close(server, pool_unfit(server));
	timer_set(&server->life, pool->site.limits.life, server->connected_at);
}

/* Whether its session was judged by less than what is known here. */
static bool was_trusted_more(struct server *server, const struct server_source *source)
{
	struct pool *pool = server->pool;

	/* Another process may have isolated clients less, or not have noticed a function. */
	if (!source->parcel)
		return pool->limits.isolates && !server->is_listening;
	pool_catalog_look(pool->database);
	return pool->limits.isolates_known &&
	       source->parcel->catalog_version != pool->database->catalog_version;
}

static void take_held(struct server *server, const struct server_source *source,
                      const struct server_record *record)
{
	uint64_t all = record->held & ~(uint64_t)HELD_DEFINITIONS;
	unsigned int held = (unsigned int)all & ((1u << HELD_KINDS) - 1);

	/* Its libraries are in its map. */
	server_hold(server, held & ~(unsigned int)HELD_LIBRARY);
	server_hold(server, (record->has_session ? HELD_SESSION : 0) |
	                        (record->is_rest_unknown ? HELD_REST : 0));
	if (held != all) /* of a newer release: nobody here knows what ends it */
		server_hold(server, HELD_LASTING);
	if (was_trusted_more(server, source))
		server_hold(server, HELD_UNKNOWN);
	if (record->held & HELD_DEFINITIONS) /* without the texts that show it */
		server_defines(server, DEFINITION_ANYTHING);
	if (!record->is_lent)
		server_held_after(server, HELD_LENT);
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

/* The encryption of a server that another process had, if it is next. false: no memory. */
static bool open_tls(struct server *server, struct record *record, bool *is_same)
{
	const struct pools *pools = server->pool->pools;

	if (record_has_table(record, &stream_tls_table))
		server->is_tls_direct =
		    pools->config->server_tls_negotiation == TLS_NEGOTIATION_DIRECT;
	return stream_read_tls(&server->wire.stream, record, false, pools->shared.tls, is_same);
}

/* Opens the stream, and fills what is not in the record. false: no memory. */
static bool open_stream(struct server *server, const struct server_source *source)
{
	const struct server_shared *shared = &source->pools->shared;
	struct server_parcel *parcel = source->parcel;

	if (!parcel) {
		stream_open(&server->wire.stream, shared->loop, shared->streams, *source->fd,
		            &server_stream_ops);
		stream_defer(&server->wire.stream);
		*source->fd = -1;
		return true;
	}
	server->is_tls_direct = parcel->is_tls_direct;
	server->place.standby = parcel->standby;
	server->session.has_defaults = parcel->has_defaults;
	params_add_text(shared->params, &server->session.unreported, buf_bytes(&parcel->defaults));
	return stream_attach(&server->wire.stream, shared->loop, shared->streams, &parcel->stream,
	                     &server_stream_ops);
}

struct pool *handover_arrival_pool(struct pools *pools, const char *database, const char *role,
                                   enum pool_purpose purpose)
{
	struct database *found = pools_database(pools, database);

	return found ? pools_exact_pool(found, role, purpose) : NULL;
}

/* *values: its record. NULL: bad, no such database, or no memory. */
static struct server *make(const struct server_source *source, struct bytes body,
                           struct server_record *values)
{
	struct record record = { .rest = body };
	struct pool *pool = NULL;
	struct server *server;
	bool is_same = true, knows_all, is_listening;
	enum pool_purpose purpose = POOL_FOR_CLIENTS;
	struct permit permit = { 0 };

	record_read(&record, &server_record_table, values);
	if (source->parcel && source->parcel->is_for_reads)
		purpose = POOL_FOR_READS;
	else if (values->is_for_lookups)
		purpose = POOL_FOR_LOOKUPS;
	if (!record.is_bad)
		pool =
		    handover_arrival_pool(source->pools, values->database, values->role, purpose);
	if (!pool)
		return NULL;
	is_listening = *values->mark_channel;
	if (source->parcel)
		permit = permit_move(&source->parcel->permit);
	else
		permit = pool_take_permit_anyway(pool, is_listening);
	server = pool_add_server(pool, is_listening, &permit);
	if (!server)
		return NULL;
	if (source->parcel)
		server->id = values->id;
	else
		keep_id(server, source->arrival->last_id, values->id);
	fill_server(server, values);
	pools_note_host(source->pools, server);
	knows_all = fill_known(server, source, &record);
	if (!open_stream(server, source) || !open_tls(server, &record, &is_same)) {
		stream_close(&server->wire.stream);
		server_forget(server);
		return NULL;
	}
	/* A statement that is there and not known could not be prepared there. */
	if (!knows_all)
		server_need_close(server, CLOSE_STATEMENT_NAME_TAKEN);
	take_held(server, source, values);
	enter_state(server, values);
	if (!is_same)
		server_need_close(server, CLOSE_TAKEN_OVER);
	stream_want(&server->wire.stream, WANT_INPUT);
	if (is_listening)
		listening_take(server, values);
	if (is_listening && server->state == SERVER_LENT && server->close_reason)
		listening_replace(server);
	pool_wake(pool);
	return server;
}

void handover_server_take(struct pools *pools, struct pools_arrival *arrival, struct bytes body,
                          int *fd)
{
	const struct server_source source = { .pools = pools, .arrival = arrival, .fd = fd };
	struct server_record values;
	struct server *server;

	close_lent(arrival);
	server = *fd >= 0 ? make(&source, body, &values) : NULL;
	if (!server)
		return;
	pool_keep_size(server->pool);
	if (arrival->is_plain && pool_own_rules(server->pool)->mode != POOL_MODE_SESSION &&
	    pool_own_rules(server->pool)->session_state != SESSION_STATE_OFF)
		server_need_close(server, CLOSE_TAKEN_OVER);
	server->pool->roster_number = 0; /* its host may have been disabled here before */
	if (values.is_lent && !server->is_listening)
		arrival->lent = server;
	else if (!values.is_lent && pool_is_paused(server->pool))
		pool_close_server(server, CLOSE_PAUSED);
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
		server_hold(server, HELD_SESSION);
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
 * ---- to another loop ----
 *
 *   server_pack() --> [server record | its statements] + stream + images
 *                 --> server_unpack()
 *
 * Hard here: a reload or a command of the administrator closes or replaces the servers of all
 * pools, but does not find those between two loops. So a server that was packed before the last
 * such event of the pools it comes to (pools->changed_at) is closed there.
 */

#define RECORD_SIZE ((size_t)2048)  /* bytes of most records, so that the buffer does not grow */
#define STATEMENT_SIZE ((size_t)16) /* bytes of the record of a statement */

static void parcel_free(struct server_parcel **parcel)
{
	permit_give(&(*parcel)->permit, NULL);
	for (unsigned int i = 0; i < (*parcel)->statement_count; i++)
		statement_image_release(&(*parcel)->statements[i].image);
	buf_free(&(*parcel)->defaults);
	buf_wipe(&(*parcel)->record); /* it has the cancel key */
	free(*parcel);
	*parcel = NULL;
}

void server_parcel_end(struct server_parcel **parcel)
{
	struct buf out = { 0 };

	message_bare(&out, 'X');
	stream_parcel_end(&(*parcel)->stream, buf_bytes(&out));
	buf_free(&out);
	parcel_free(parcel);
}

bool server_may_move(struct server *server)
{
	if (!pool_is_home(server->state) || server->is_listening || server->place.is_written ||
	    server->wire.has_flooded || pool_unfit(server) || !is_at_rest(server))
		return false;
	if (server->session.reports.list.count)
		server_settle_reports(server); /* it may report too much: then it must be closed */
	return !server->close_reason;
}

static void pack_statements(const struct server *server, struct server_parcel *parcel)
{
	TAILQ_EACH (entry, &server->session.statements.list, node) {
		if (entry->is_confirmed)
			parcel->statements[parcel->statement_count++] = (struct packed_statement){
				.image = statement_image_hold(entry->image),
				.is_typed = entry->statement->is_typed,
			};
	}
}

static bool pack_facts(const struct server *server, struct server_parcel *parcel)
{
	struct bytes pairs = params_text(server->session.unreported);

	parcel->standby = server->place.standby;
	parcel->packed_at = pool_now(server->pool);
	parcel->catalog_version = server->pool->database->catalog_version;
	parcel->is_tls_direct = server->is_tls_direct;
	parcel->is_for_reads = server->pool->purpose == POOL_FOR_READS;
	parcel->has_defaults = server->session.has_defaults;
	buf_add(&parcel->defaults, pairs.at, pairs.count);
	return buf_ok(&parcel->defaults) && write_record(server, NULL, &parcel->record);
}

struct server_parcel *server_pack(struct server *server)
{
	struct server_parcel *parcel;
	unsigned int count;

	if (!server_may_move(server))
		return NULL;
	count = server_statements_count(&server->session.statements);
	parcel = calloc(1, sizeof(*parcel) + count * sizeof(parcel->statements[0]));
	if (!parcel)
		return NULL;
	parcel->record.is_secret = true;
	buf_reserve(&parcel->record, RECORD_SIZE + count * STATEMENT_SIZE);
	pack_statements(server, parcel);
	if (!pack_facts(server, parcel) || !stream_detach(&server->wire.stream, &parcel->stream)) {
		parcel_free(&parcel);
		return NULL;
	}
	parcel->permit = permit_move(&server->place.permit);
	log_debug(&server->log, "moves to another loop");
	server_forget(server);
	return parcel;
}

/* The same as for a server that comes home, in pool_home(). */
static struct server *settle_in(struct server *server, usec_t packed_at)
{
	struct pool *pool = server->pool;
	enum close_reason reason = server->close_reason;

	if (packed_at <= pool->pools->changed_at)
		reason = CLOSE_RECONNECT;
	else if (reason == CLOSE_NONE)
		reason = pool_is_paused(pool) ? CLOSE_PAUSED : pool_host_reason(server);
	if (reason != CLOSE_NONE) {
		pool_close_server(server, reason);
		return NULL;
	}
	if (pool->pools->suspend != SUSPEND_NONE)
		stream_halt(&server->wire.stream, 0);
	pool_note_home(server);
	return server;
}

struct server *server_unpack(struct pools *pools, struct server_parcel **parcelp)
{
	struct server_parcel *parcel = *parcelp;
	const struct server_source source = { .pools = pools, .parcel = parcel };
	struct logger log = { pools->shared.log, NULL };
	struct server_record values;
	struct server *server = NULL;

	if (!pools->is_closing)
		server = make(&source, buf_bytes(&parcel->record), &values);
	if (!server) {
		log_warning(&log, "closing a server connection from another loop: "
		                  "its database was removed, or there is no memory");
		server_parcel_end(parcelp);
		return NULL;
	}
	server = settle_in(server, parcel->packed_at);
	parcel_free(parcelp);
	return server;
}

/*
 * ---- listening connections ----
 *
 * The records of the listeners are their owner's.
 */

void listening_look_note(const struct listener *listener, unsigned int look,
                         enum listener_rest rest)
{
	struct listening *listening = listener->listening;

	if (listening->look != look || rest > listening->rest)
		listening->rest = rest;
	listening->look = look;
}

/* Whether the connection does nothing but listen. */
static bool listening_is_at_rest(const struct listening *listening)
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
	if (listening->rest == LISTENER_AT_REST && !listening_is_at_rest(listening))
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

	return server->place.is_written || handover_server_write(server, channel);
}

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
