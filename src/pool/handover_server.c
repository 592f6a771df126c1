/* SPDX-License-Identifier: ISC */
/*
 * Servers that pass from one process to another.
 *
 * Only one that rests goes: PostgreSQL has answered all that it was asked, nothing is
 * half sent or half read, no cancel is on its way to it. Where its session stands (in a
 * transaction, say) is PostgreSQL's to know.
 */
#include <stdio.h>

#include "handover_priv.h"
#include "pool_priv.h"
#include "server_priv.h"

#include "pgweir/base/banned.h"

#define HOST_NAME_MAX_SIZE 1024
#define PLACE_MAX_SIZE 1024

/* ---- who goes ---- */

static bool is_plain(const struct stream *stream)
{
	return stream_is_open(stream) && !stream->tls && !stream->error;
}

bool server_may_leave(const struct server *server)
{
	bool is_there = server->state == SERVER_IDLE || server->state == SERVER_USED ||
	                (server->state == SERVER_LENT && server->borrower);

	return is_there && is_plain(&server->stream) && server->replication == REPLICATION_NONE &&
	       server->errand == ERRAND_NONE && server->is_ready && !server->login &&
	       !server->frame_left && !stream_kept(&server->stream).count &&
	       !stream_unsent(&server->stream) && ledger_is_at_rest(&server->ledger) &&
	       !server->is_mid_response && !server->is_mid_request && !server->got_fatal &&
	       !server->cancel_count && !server->pool->cancel_waiting_count &&
	       !server->replay.is_failed && !server->replacement.count &&
	       !server->free_task.is_waiting;
}

/* Where a server of this pool goes, in words that are compared. */
static void name_place(const struct pool *pool, char *out, size_t size)
{
	const struct config_database *entry = pool->database->entry;

	snprintf(out, size, "%s:%d/%s", entry && entry->host ? entry->host : "",
	         entry ? entry->port : 0,
	         entry ? config_database_dbname(entry, pool->database->name) : "");
}

struct server_statements_out {
	struct channel *channel;
	struct buf *record;
	bool ok;
};

static void write_known(void *arg, struct statement *statement, bool is_stale)
{
	struct server_statements_out *out = arg;

	out->ok = out->ok && statement_write(statement, out->channel);
	record_add_number(out->record, is_stale ? 'N' : 'n', statement_number(statement));
}

bool server_write(struct server *server, struct channel *channel)
{
	const struct hosts *hosts = &server->pool->hosts;
	char place[PLACE_MAX_SIZE];
	struct buf record = { .is_secret = true };
	struct server_statements_out out = { channel, &record, true };

	name_place(server->pool, place, sizeof(place));
	record_add_number(&record, 'i', server->id);
	record_add_text(&record, 'd', server->pool->database->name);
	record_add_text(&record, 'u', server->pool->role->name);
	record_add_number(&record, 'l', server->pool->is_for_lookups);
	record_add_number(&record, 'L', server->state == SERVER_LENT);
	record_add_number(&record, 'U', server->state == SERVER_USED);
	record_add_text(&record, 'D', place);
	record_add_text(&record, 'h',
	                server->host < hosts->count ? hosts->list[server->host].name : "");
	address_write(&record, 'P', &server->peer);
	record_add_text(&record, 'p', server->path);
	record_add_number(&record, 'T', (unsigned char)server->status);
	record_add_number(&record, 'c', server->is_close_needed);
	record_add_number(&record, 'S', server->has_session);
	record_add_number(&record, 'r', server->is_rest_unknown);
	params_write(&record, 'v', server->params);
	params_write(&record, 'b', server->baseline);
	record_add_bytes(&record, 'k', bytes_of(server->key, server->key_size));
	record_add_number(&record, 't', (uint64_t)server->connected_at);
	record_add_number(&record, 'a', (uint64_t)server->used_at);
	record_add_number(&record, 'q', (uint64_t)server->request_at);
	record_add_number(&record, 'x', (uint64_t)server->xact_at);
	record_add_number(&record, 'w', (uint64_t)server->connect_wall);
	record_add_number(&record, 'W', (uint64_t)server->request_wall);
	server_statements_each(&server->statements, write_known, &out);
	server->is_leaving = out.ok && channel_send_record(channel, HANDOVER_SERVER, &record,
	                                                   server->stream.watch.fd);
	buf_wipe(&record);
	return server->is_leaving;
}

void server_let_go(struct server *server)
{
	struct pool *pool = server->pool;
	struct borrower *borrower = server->borrower;
	struct loop *loop = pool->pools->with.loop;

	log_debug(&server->log, "handed over");
	server->is_leaving = false;
	loop_close_later(loop, stream_take_socket(&server->stream));
	if (borrower) {
		borrower->server = NULL;
		borrower->state = BORROWER_RESTING;
		server->borrower = NULL;
		pool->served_count--;
	}
	server_forget(server);
}

/* ---- who comes ---- */

struct fields {
	char database[CONFIG_DATABASE_NAME_MAX + 1];
	char role[CONFIG_USER_NAME_MAX + 1];
	char place[PLACE_MAX_SIZE];
	char host[HOST_NAME_MAX_SIZE];
	char path[sizeof(((struct server *)0)->path)];
	uint64_t id, status;
	bool is_for_lookups, is_lent, is_used, is_close_needed, has_session;
	bool is_rest_unknown;
	struct address peer;
	struct bytes params, baseline, key;
	usec_t connected_at, used_at, request_at, xact_at;
	int64_t connect_wall, request_wall;
	struct bytes known; /* the rest of the record */
};

static void read_times(struct record *record, struct fields *fields)
{
	fields->connected_at = record_time(record, 't');
	fields->used_at = record_time(record, 'a');
	fields->request_at = record_time(record, 'q');
	fields->xact_at = record_time(record, 'x');
	fields->connect_wall = record_time(record, 'w');
	fields->request_wall = record_time(record, 'W');
}

/* The next statement of the list at the end. false: no more. */
static bool next_known(struct record *record, uint64_t *number, bool *is_stale)
{
	*is_stale = record_has(record, 'N');
	if (!*is_stale && !record_has(record, 'n'))
		return false;
	*number = record_number(record, *is_stale ? 'N' : 'n');
	return !record->is_bad;
}

static bool read_server(struct bytes body, struct fields *fields)
{
	struct record record = { .rest = body };
	uint64_t number;
	bool is_stale;

	fields->id = record_number(&record, 'i');
	record_text(&record, 'd', fields->database, sizeof(fields->database));
	record_text(&record, 'u', fields->role, sizeof(fields->role));
	fields->is_for_lookups = record_flag(&record, 'l');
	fields->is_lent = record_flag(&record, 'L');
	fields->is_used = record_flag(&record, 'U');
	record_text(&record, 'D', fields->place, sizeof(fields->place));
	record_text(&record, 'h', fields->host, sizeof(fields->host));
	address_read(&record, 'P', &fields->peer);
	record_text(&record, 'p', fields->path, sizeof(fields->path));
	fields->status = record_number(&record, 'T');
	fields->is_close_needed = record_flag(&record, 'c');
	fields->has_session = record_flag(&record, 'S');
	fields->is_rest_unknown = record_flag(&record, 'r');
	fields->params = record_bytes(&record, 'v', PARAMS_SIZE_MAX);
	fields->baseline = record_bytes(&record, 'b', PARAMS_SIZE_MAX);
	fields->key = record_bytes(&record, 'k', SERVER_KEY_MAX);
	read_times(&record, fields);
	fields->known = record.rest;
	while (next_known(&record, &number, &is_stale))
		;
	return record_is_whole(&record) && params_check(fields->params) &&
	       params_check(fields->baseline) &&
	       (fields->status == 'I' || fields->status == 'T' || fields->status == 'E') &&
	       (fields->is_lent || fields->status == 'I');
}

bool server_judge(struct bytes body, char *database, struct err *err)
{
	struct fields fields;

	if (!read_server(body, &fields))
		return err_set(err, ERR_PROTOCOL, "the hand-over is broken: a bad server");
	memcpy(database, fields.database, sizeof(fields.database));
	return true;
}

static void fill(struct server *server, const struct fields *fields)
{
	struct pools *pools = server->pool->pools;

	server->status = (char)fields->status;
	server->is_ready = true;
	server->is_rest_unknown = fields->is_rest_unknown;
	server->peer = fields->peer;
	memcpy(server->path, fields->path, sizeof(server->path));
	params_read(pools, fields->params, &server->params);
	params_read(pools, fields->baseline, &server->baseline);
	server->key_size = (uint16_t)fields->key.count;
	memcpy(server->key, fields->key.at, fields->key.count);
	server->connected_at = fields->connected_at;
	server->used_at = fields->used_at;
	server->request_at = fields->request_at;
	server->xact_at = fields->xact_at;
	/* When it was lent is not handed over: its transaction began then, or later. */
	server->lent_at = fields->xact_at ? fields->xact_at : fields->used_at;
	server->connect_wall = fields->connect_wall;
	server->request_wall = fields->request_wall;
}

static void fill_known(struct server *server, const struct pools_arrival *arrival,
                       struct bytes list)
{
	struct record record = { .rest = list };
	uint64_t number;
	bool is_stale;

	while (next_known(&record, &number, &is_stale)) {
		struct statement *statement = arrival_statement(arrival, number);

		/* The same text may have another name here: then it is not known by that. */
		if (statement && arrival_has_name(arrival, number))
			server_statements_restore(&server->statements, statement, is_stale);
	}
}

/* It keeps its id if that cannot be another's here. */
static void keep_id(struct server *server, const struct pools_arrival *arrival, uint64_t id)
{
	struct pools *pools = server->pool->pools;
	struct server *before;

	if (id == 0 || id > arrival->server_statements_id)
		return;
	server->id = id;
	TAILQ_REMOVE(&pools->servers, server, all_node);
	before = TAILQ_LAST(&pools->servers, server_list);
	while (before && before->id > id)
		before = TAILQ_PREV(before, server_list, all_node);
	if (before)
		TAILQ_INSERT_AFTER(&pools->servers, before, server, all_node);
	else
		TAILQ_INSERT_HEAD(&pools->servers, server, all_node);
}

/* Goes the way that a login would have gone. */
static void enter(struct server *server, const struct fields *fields)
{
	const struct pool *pool = server->pool;
	char place[PLACE_MAX_SIZE];
	bool is_at_host = server_find_again(server, fields->host);

	name_place(pool, place, sizeof(place));
	server_enter(server, SERVER_LOGIN);
	if (fields->is_lent) {
		server_enter(server, SERVER_LENT);
	} else {
		server_enter(server, SERVER_IDLE);
		if (fields->is_used)
			server_enter(server, SERVER_USED);
	}
	/* The mode may be another one here. */
	server->has_session =
	    fields->has_session || (fields->is_lent && pool->limits.mode == POOL_MODE_SESSION);
	if (fields->is_close_needed || !is_at_host || strcmp(place, fields->place) != 0)
		server_set_close_needed(server, SERVER_OUTDATED);
	else if (!fields->is_lent && server_is_left_over(server))
		server_set_close_needed(server, SERVER_LEFT_OVER);
	timer_set(&server->life,
	          loop_timer_queue(pool->pools->with.loop, pool->limits.lifetime, server_life_due),
	          server->connected_at);
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

void server_take(struct pools_arrival *arrival, struct bytes body, int *fd)
{
	struct pools *pools = arrival->pools;
	struct fields fields;
	struct database *database = NULL;
	struct pool *pool = NULL;
	struct server *server = NULL;

	close_lent(arrival);
	if (*fd >= 0 && read_server(body, &fields))
		database = pools_database(pools, fields.database);
	if (database)
		pool = pools_exact_pool(database, fields.role, fields.is_for_lookups);
	if (pool)
		server = pools_add_server(pool);
	if (!server)
		return;
	server_name(server);
	keep_id(server, arrival, fields.id);
	fill(server, &fields);
	stream_open(&server->stream, pools->with.loop, pools->with.streams, *fd,
	            &server_stream_ops);
	stream_defer(&server->stream);
	*fd = -1;
	fill_known(server, arrival, fields.known);
	enter(server, &fields);
	if (fields.is_lent)
		arrival->lent = server;
	stream_want(&server->stream, WANT_INPUT);
	pool_wake(pool);
}

void server_rejoin(struct server *server, struct borrower *borrower)
{
	server->borrower = borrower;
	borrower->server = server;
	borrower->state = BORROWER_SERVED;
	server->pool->served_count++;
	server_rearm(server);
}

void pools_take_end(struct pools_arrival *arrival)
{
	struct pools *pools = arrival->pools;
	struct role *role, *next;

	close_lent(arrival);
	arrival->is_later = true;
	for (role = TAILQ_FIRST(&pools->roles); role; role = next) {
		next = TAILQ_NEXT(role, node);
		role_forget_unused(pools, role);
	}
}
