/* SPDX-License-Identifier: ISC */
/*
 * Which statements a client executes (track_statements), and which it may ([statements]).
 *
 *   Query                    -->  digest of its text         -->  a call
 *   Parse, Bind, Execute     -->  digest of the Parse, kept  -->  a call for each Execute
 *
 *   call: an entry in clients->calls, by its place, and in the server's queue of calls, which
 *   reports the end of each
 *
 * Hard here: a statement may leave the table at any time. So only digests are kept, and if an
 * Execute finds that its statement has left, it enters again, without its text if nobody has that
 * any more.
 */
#include "relay_priv.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "pgweir/base/text.h"

#include "../statements/statements_priv.h"

#define UNKNOWN_TEXT "(text not known)"
#define FUNCTION_TEXT "(function call)"

struct track {
	uint64_t pool_key;               /* of database and user */
	const struct params *params;     /* one reference; those that name the application */
	struct application *application; /* of that name; the client counts in it */
	unsigned int generation;         /* of the configuration that this is by: */
	bool has_times;                  /* [applications] has that name, */
	struct server_times times;       /* and these are its limits */
	usec_t xact_at;                  /* start of the last transaction counted */
	uint64_t batch_digest;           /* of the first statement of a batch, */
	usec_t batch_at;                 /* which began then, */
	bool is_wait_counted;            /* and whose wait is that of a call */
	uint64_t unnamed, portal;        /* digests of those without a name; 0: not known */
	struct calls_names names;
};

static const struct hash_key *secret(const struct client *client)
{
	return &client->clients->shared->digest_key;
}

/* ---- what a message says ---- */

/* It concerns this statement, if it is not NULL. */
static void said_is_of(struct said *said, struct statement *prepared)
{
	said->prepared = prepared;
	if (prepared)
		said->text = statement_query(prepared);
}

struct said said_read(const struct client *client, const struct frame *frame, struct bytes in)
{
	struct said said = { .type = frame->type, .is_whole = in.count >= frame->length };
	struct object_names names;

	if (fields_sql(frame, in, &said.name, &said.text))
		return said;
	said.text = bytes_of(NULL, 0);
	fields_names(frame->type, frame_received(in, frame), frame->length - FRAME_HEADER_SIZE,
	             &names);
	said.name = names.statement;
	said.portal = names.portal;
	if (frame->type == 'B' && said.name && *said.name)
		said_is_of(&said, statements_find(client, said.name));
	return said;
}

/* ---- who ---- */

static uint64_t pool_key_of(const struct client *client)
{
	const struct pool *pool = client->borrower.pool;
	char names[CONFIG_DATABASE_NAME_MAX + CONFIG_USER_NAME_MAX + 2];
	struct strbuf out = strbuf_begin(names, sizeof(names));

	strbuf_add(&out, pool->database->name);
	strbuf_add_bytes(&out, "", 1);
	strbuf_add(&out, pool->role->name);
	return hash_bytes(secret(client), names, out.count);
}

/* Its application_name may have changed, or the configuration. false: no memory. */
__attribute__((noinline)) static bool prepare(struct client *client)
{
	struct applications *applications = &client->clients->applications;
	struct params_table *table = client->clients->pools->shared.params;
	struct track *track = client->track;
	struct config_times times;
	const char *name;

	if (!track) {
		track = client->track = calloc(1, sizeof(*track));
		if (!track)
			return false;
		track->pool_key = pool_key_of(client);
		track->params = params_none(table);
	}
	params_release(table, &track->params);
	track->params = params_hold(client->params);
	name = params_find(track->params, "application_name");
	applications_leave(applications, &track->application);
	track->application = applications_join(applications, name ? name : "");
	track->generation = client->clients->generation;
	track->has_times = client_times(client, client->borrower.pool->role->entry, &times);
	if (track->has_times)
		track->times = server_times_of(client->clients->loop, &times);
	return true;
}

/* Whether client->track is there, and knows the client's application. */
static inline bool is_prepared(struct client *client)
{
	const struct track *track = client->track;

	return (track && track->params == client->params && track->application &&
	        track->generation == client->clients->generation) ||
	       prepare(client);
}

void track_free(struct client *client)
{
	struct track *track = client->track;

	if (!track)
		return;
	client->track = NULL;
	calls_names_done(&track->names);
	applications_leave(&client->clients->applications, &track->application);
	params_release(client->clients->pools->shared.params, &track->params);
	free(track);
}

/* ---- statements ---- */

/* Portals and statements have names of their own. */
static uint64_t hash_of_name(const struct client *client, char kind, const char *name)
{
	uint64_t hash = hash_bytes(secret(client), name, strlen(name));

	return (hash ^ (uint64_t)kind) | 1;
}

/* Clients can choose texts with the same digest, but not with the same key. */
static uint64_t key_of(const struct client *client, uint64_t digest)
{
	struct hash_stream sum = hash_begin(secret(client));

	hash_add(&sum, digest);
	hash_add(&sum, client->track->pool_key);
	return hash_end(&sum);
}

/* A new entry, or one that was there without its text. */
__attribute__((noinline)) static struct calls_statement *
enter(struct client *client, uint64_t digest, struct bytes sql, struct calls_statement *found)
{
	const struct pool *pool = client->borrower.pool;
	char buffer[CALLS_TEXT_MAX + 1];
	struct strbuf text = strbuf_begin(buffer, sizeof(buffer));

	if (sql.at)
		sql_digest_query(sql, &text);
	else
		strbuf_add(&text, UNKNOWN_TEXT);
	if (found) {
		calls_explain(found, bytes_of(text.at, text.count));
		return found;
	}
	return calls_enter(&client->clients->calls,
	                   &(struct calls_new){ .key = key_of(client, digest),
	                                        .digest = digest,
	                                        .database = pool->database->name,
	                                        .user = pool->role->name,
	                                        .text = bytes_of(text.at, text.count),
	                                        .has_text = sql.at != NULL,
	                                        .now = client_now(client) });
}

/* sql: the text as the client sent it, at NULL: not known. NULL: no memory. */
static struct calls_statement *statement_for(struct client *client, uint64_t digest,
                                             struct bytes sql)
{
	struct calls_statement *found = calls_find(&client->clients->calls, key_of(client, digest));

	return found && (found->has_text || !sql.at) ? found : enter(client, digest, sql, found);
}

/* An entry with a text of ours. */
static struct calls_statement *statement_of_ours(struct client *client, const char *text)
{
	uint64_t digest = hash_bytes(secret(client), text, strlen(text));

	return statement_for(client, digest, bytes_text(text));
}

/* A frame, as what it prepares or executes: an EXECUTE is its statement, if that is known. */
static struct said read_what(const struct client *client, const struct frame *frame,
                             struct bytes in)
{
	struct said said = said_read(client, frame, in);

	if (said.text.at && !said.prepared && !sql_is_other(said.text))
		said_is_of(&said, statements_executed(client, said.text));
	return said;
}

/* 0: not known. A statement that several clients may have has its digest made once. */
static uint64_t digest_of(const struct client *client, const struct said *said)
{
	const struct track *track = client->track;
	uint64_t *kept = said->prepared ? &said->prepared->digest : NULL, digest;

	if (said->type == 'E' && said->portal && *said->portal)
		return calls_names_get(&track->names, hash_of_name(client, 'P', said->portal));
	if (said->type == 'E')
		return track->portal;
	if (kept && *kept)
		return *kept;
	digest = said->text.at ? sql_digest(said->text) : 0;
	if (said->text.at && !digest)
		digest = 1;
	if (kept)
		*kept = digest;
	return digest;
}

/* ---- calls ---- */

/* A statement of the client's batch: the first one counts. */
static void begin_batch(const struct client *client, uint64_t digest)
{
	struct track *track = client->track;

	if (track->batch_at == client->request_at)
		return;
	track->batch_at = client->request_at;
	track->batch_digest = digest;
	track->is_wait_counted = false;
}

/* The last request that was noted, of this kind, has this statement. NULL: it is not counted. */
static struct ledger_call *note_call(const struct client *client, enum ledger_kind kind,
                                     const struct calls_statement *statement)
{
	struct ledger_call *call = server_note_call(client->borrower.server, kind);

	if (call)
		*call =
		    (struct ledger_call){ .tag = calls_place(&client->clients->calls, statement),
			                  .sent_at = client_now(client) };
	return call;
}

/* And executes it. */
static void run(struct client *client, enum ledger_kind kind, struct calls_statement *statement,
                uint32_t row_limit)
{
	struct track *track = client->track;
	usec_t wait = client->borrower.waited;
	struct ledger_call *call;

	if (!statement)
		return;
	calls_sent(&client->clients->calls, statement);
	if (track->xact_at != client->xact_at && track->application) {
		track->xact_at = client->xact_at;
		track->application->xact_count++;
	}
	begin_batch(client, statement->digest);
	call = note_call(client, kind, statement);
	if (!call)
		return;
	call->row_limit = row_limit;
	/* The time that the batch has waited for a server: for its first call only. */
	if (!track->is_wait_counted)
		call->wait = wait < UINT32_MAX ? (uint32_t)wait : UINT32_MAX;
	track->is_wait_counted = true;
}

uint64_t track_batch_digest(const struct client *client)
{
	const struct track *track = client->track;

	return track && track->batch_at == client->request_at ? track->batch_digest : 0;
}

void track_call(struct borrower *borrower, const struct ledger_call *call,
                const struct server_call_end *end)
{
	struct client *client = client_of(borrower);
	struct calls_statement *statement = calls_at(&client->clients->calls, call->tag);
	struct application *application = client->track ? client->track->application : NULL;

	if (application) {
		application->error_count += end->sqlstate != NULL;
		if (statement)
			calls_by(statement, application->hash, application->name);
	}
	if (!statement)
		return; /* it has left, or the table was emptied */
	if (call->is_parse)
		calls_failed(statement, end->sqlstate);
	else
		calls_ended(statement, end, call->wait);
}

/* ---- frames ---- */

static void see_parse(struct client *client, struct said *said, uint64_t digest)
{
	struct track *track = client->track;
	struct calls_statement *statement;
	struct statement *prepared;
	struct ledger_call *call;

	if (!said->name)
		return;
	prepared = *said->name ? statements_find(client, said->name) : NULL;
	if (!digest) {
		if (prepared)
			said_is_of(said, prepared);
		digest = digest_of(client, said);
	}
	statement = statement_for(client, digest, said->text);
	if (!*said->name)
		track->unnamed = digest;
	else if (!prepared)
		calls_names_put(&track->names, hash_of_name(client, 'S', said->name), digest);
	call = statement ? note_call(client, LEDGER_PARSE, statement) : NULL;
	if (call)
		call->is_parse = true;
}

/* What was received of a frame may end before its names. */
static void see_bind(struct client *client, const struct said *said)
{
	struct track *track = client->track;
	uint64_t digest = 0;

	if (said->prepared) {
		digest = digest_of(client, said);
		statement_for(client, digest, said->text); /* enters with its text */
	} else if (said->name) {
		digest = *said->name
		             ? calls_names_get(&track->names, hash_of_name(client, 'S', said->name))
		             : track->unnamed;
	}
	if (said->name && *said->portal)
		calls_names_put(&track->names, hash_of_name(client, 'P', said->portal), digest);
	else
		track->portal = digest;
}

static void see_execute(struct client *client, const struct said *said, struct bytes body)
{
	uint64_t digest = digest_of(client, said);
	struct calls_statement *statement = digest
	                                        ? statement_for(client, digest, bytes_of(NULL, 0))
	                                        : statement_of_ours(client, UNKNOWN_TEXT);
	const char *portal;
	uint32_t limit = 0;

	if (said->is_whole)
		fields_execute(body, &portal, &limit);
	run(client, LEDGER_EXECUTE, statement, limit);
}

/* Handles a frame that is no Query. */
__attribute__((noinline)) static void see_other(struct client *client, const struct frame *frame,
                                                struct bytes in, uint64_t digest)
{
	struct said said = read_what(client, frame, in);

	if (said.type == 'P')
		see_parse(client, &said, digest);
	else if (said.type == 'B')
		see_bind(client, &said);
	else if (said.type == 'E')
		see_execute(client, &said, frame_received(in, frame));
	else
		run(client, LEDGER_FUNCTION, statement_of_ours(client, FUNCTION_TEXT), 0);
}

void track_frame(struct client *client, const struct frame *frame, struct bytes in, uint64_t digest)
{
	struct said said;

	if (!strchr("QPBEF", frame->type) || !is_prepared(client))
		return;
	if (frame->type != 'Q') {
		see_other(client, frame, in, digest);
		return;
	}
	if (!client->clients->calls.capacity)
		return;
	said = read_what(client, frame, in);
	if (!digest)
		digest = digest_of(client, &said);
	run(client, LEDGER_QUERY, statement_for(client, digest, said.text), 0);
}

/* ---- [statements] and [applications] ---- */

/* The statement is about to be executed by the client's server. */
static bool begin_run(struct client *client, struct statement_limit *limit)
{
	struct server *server = client->borrower.server;
	usec_t time = limit->entry->query_timeout, other = server->lease.statement_limit;

	if (limit->entry->max_running &&
	    !server_begin_run(server, &limit->running, (unsigned int)limit->entry->max_running))
		return false;
	if (time > 0 && (!other || time < other))
		server_limit_statement(server, time);
	return true;
}

bool track_allows(struct client *client, const struct frame *frame, struct bytes in,
                  uint64_t *digest, struct err *err)
{
	bool is_active = client->state == CLIENT_ACTIVE, is_run = frame->type != 'P';
	bool is_good = true;
	struct statement_limit *limit;
	unsigned int most;
	struct said said;

	if (!is_prepared(client))
		return true;
	if (!*digest) {
		said = read_what(client, frame, in);
		*digest = digest_of(client, &said);
	}
	if (is_active && is_run)
		begin_batch(client, *digest);
	limit = statement_limits_find(&client->clients->shared->limits, *digest);
	if (!limit)
		return true;
	most = (unsigned int)limit->entry->max_running;
	if (limit->entry->block)
		is_good = false;
	else if (is_run && is_active)
		is_good = begin_run(client, limit);
	else if (is_run)
		is_good = !most || atomic_load(&limit->running) < most;
	return is_good || statement_limit_refuse(limit, err);
}

void track_set_times(struct client *client)
{
	if (is_prepared(client))
		client->borrower.server->lease.times =
		    client->track->has_times ? &client->track->times : NULL;
}

void track_rearm(struct client *client)
{
	struct server *server = client->borrower.server;
	struct statement_limit *limit;

	if (!server || !(client->track || (client_features(client) & CLIENT_IS_TRACKED)))
		return;
	track_set_times(client);
	if (!client->track)
		return;
	limit = statement_limits_find(&client->clients->shared->limits, track_batch_digest(client));
	if (limit && limit->entry->max_running)
		server_begin_run(server, &limit->running, UINT_MAX);
	server->lease.statement_limit = 0;
	server_rearm(server);
	if (limit && limit->entry->query_timeout > 0)
		server_limit_statement(server, limit->entry->query_timeout);
}

void track_answered(struct client *client, const struct frame *frame, struct bytes in)
{
	struct calls_statement *statement;
	struct said said;

	if (!client->clients->calls.capacity || !is_prepared(client))
		return;
	said = read_what(client, frame, in);
	statement = statement_for(client, digest_of(client, &said), said.text);
	if (!statement)
		return;
	calls_sent(&client->clients->calls, statement);
	if (client->track->application)
		calls_by(statement, client->track->application->hash,
		         client->track->application->name);
	calls_ended(statement, &(struct server_call_end){ .now = client_now(client) }, 0);
}

/*
 * ---- slow ----
 *
 * Slow requests: if log_min_duration is set, the start of each batch is noted, and logged if the
 * batch took that long.
 *
 * Hard here: only SQL text may be logged. That is the text of a simple query or of a Parse, but not
 * the values of a Bind. Of a statement that has arrived only in part, that part is noted.
 */

#define SLOW_TEXT_MAX 1000
#define DIGEST_SIZE 17 /* hexadecimal digits, and the zero */

void slow_note(struct client *client, const struct frame *frame, struct bytes in)
{
	struct said said;
	struct bytes text, value;
	struct slow *slow;

	if (client->slow && !client->slow->is_over)
		return;
	slow_forget(client);
	said = said_read(client, frame, in);
	text = said.text;
	if (!text.at || in.count == FRAME_HEADER_SIZE)
		return;
	if (text.count > SLOW_TEXT_MAX)
		text.count = SLOW_TEXT_MAX;
	client->slow = slow = malloc(sizeof(*slow) + text.count + 1);
	if (!slow)
		return;
	slow->is_over = false;
	slow->is_whole = (said.prepared || said.is_whole) && text.count == said.text.count;
	memcpy(slow->text, text.at, text.count);
	slow->text[text.count] = 0;
	slow->traceparent[0] = 0;
	if (sql_traceparent(said.text, &value)) {
		memcpy(slow->traceparent, value.at, SQL_TRACEPARENT_SIZE);
		slow->traceparent[SQL_TRACEPARENT_SIZE] = 0;
	}
}

static void add_ms(struct strbuf *out, usec_t duration)
{
	unsigned long long usec = (unsigned long long)duration;

	strbuf_printf(out, "%llu.%03llu ms", usec / 1000, usec % 1000);
}

/* The text is chosen by the client, so it is the last field. */
static void log_slow(const struct client *client, usec_t duration, usec_t wait)
{
	const struct slow *slow = client->slow;
	uint64_t digest = track_batch_digest(client);
	char hex[DIGEST_SIZE] = "";
	struct log_facts facts = { .event = "slow_statement",
		                   .statement = slow ? slow->text : NULL,
		                   .traceparent =
		                       slow && *slow->traceparent ? slow->traceparent : NULL,
		                   .has_duration = true,
		                   .duration = duration,
		                   .has_wait = true,
		                   .wait = wait };
	struct log_entry entry;

	if (!log_begin(&client->log, LOG_LEVEL_INFO, &entry))
		return;
	if (!digest && slow && slow->is_whole)
		digest = sql_digest(bytes_text(slow->text));
	if (digest)
		snprintf(hex, sizeof(hex), "%016" PRIx64, digest);
	facts.digest = digest ? hex : NULL;
	entry.who.facts = &facts;
	strbuf_add(&entry.line, "slow statement: ");
	add_ms(&entry.line, duration);
	if (wait) {
		strbuf_add(&entry.line, " (waiting ");
		add_ms(&entry.line, wait);
		strbuf_add(&entry.line, ", running ");
		add_ms(&entry.line, duration - wait);
		strbuf_add(&entry.line, ")");
	}
	if (!entry.who.is_json) {
		client_add_application_name(client, &entry.line);
		if (facts.digest)
			strbuf_printf(&entry.line, " digest=%s", facts.digest);
		if (facts.traceparent)
			strbuf_printf(&entry.line, " traceparent=%s", facts.traceparent);
	}
	strbuf_add(&entry.line, ": ");
	strbuf_add(&entry.line, slow ? slow->text : "(unknown text)");
	log_end(&client->log, LOG_LEVEL_INFO, &entry);
}

void slow_end(struct client *client, usec_t duration, bool is_kept)
{
	usec_t limit = client->clients->config->log_min_duration;

	if (limit && duration >= limit)
		log_slow(client, duration, client->borrower.waited);
	if (!is_kept)
		slow_forget(client);
	else if (client->slow)
		client->slow->is_over = true;
}

void slow_forget(struct client *client)
{
	free(client->slow);
	client->slow = NULL;
}
