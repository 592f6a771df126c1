/* SPDX-License-Identifier: ISC */
/*
 * The question at the end of a client's transaction, pins, and values of sequences. session_use.c
 * notes what the texts of the transaction touch.
 *
 * Hard here: from the moment when session state may exist until it is known that none is left, the
 * server holds it (HELD_STATE): however the client ends, the server is reset before anybody else
 * gets it.
 */
#include <stdlib.h>

#include "pgweir/config/entries.h"
#include "pgweir/pgwire/sql.h"
#include "pgweir/pgwire/sql_digest.h"
#include "pgweir/pgwire/sql_token.h"

#include "session_priv.h"

/* A function may have set placeholders, whose names need not be in any text of the client. */
#define INSIDE (SQL_TOUCH_HIDDEN | SESSION_TOUCH_SAMPLE | SESSION_TOUCH_NAMED)

/* Nobody knows what was done: the server is asked for everything. */
#define ANYTHING (SQL_TOUCH_HIDDEN | SESSION_TOUCH_SAMPLE | SESSION_TOUCH_EARLY)

/* Pins that the question cannot find. */
#define LASTING ((unsigned int)(SESSION_PIN_EXTENSION | SESSION_PIN_PARAMS | SESSION_PIN_LIBRARY))

struct session *session_get(struct client *client)
{
	if (!client->session)
		client->session = calloc(1, sizeof(*client->session));
	if (client->session)
		client->session->client = client;
	return client->session;
}

/* ---- the question ---- */

/* Takes the effect of the only statement from its text. false: the server must be asked. */
static bool take_set(struct client *client)
{
	const struct session_set *set = client->session ? client->session->set : NULL;

	if (!set || set->errors != client->borrower.server->lease.error_count ||
	    client->touched != SQL_TOUCH_PARAMS || client->session->pinning ||
	    client->session->pins || client->session->names.is_unknown)
		return false;
	return server_take_set(client->borrower.server, set->set.name, set->set.value);
}

/* Which parts of the session state may have changed. */
static unsigned int parts_of(const struct client *client)
{
	unsigned int touched = client->touched, parts = 0, pins = 0;

	if (touched & SESSION_TOUCH_EXPOSED)
		parts |= QUESTION_EXPOSED;
	if (touched & ANYTHING)
		return parts | QUESTION_ALL;
	if ((touched & SQL_TOUCH_RELEASE) && client->session)
		pins = client->session->pins;
	return parts | features_parts(touched, pins);
}

static void forget_transaction(struct session *session)
{
	session->was_discarded = false;
	session->place = PLACE_OPEN;
	session->pinning = 0;
	sql_names_free(&session->names);
	buf_free(&session->libraries);
	session->library_count = 0;
	free(session->set);
	resets_free(session->client);
	session->set = NULL;
}

/*
 * ---- values of sequences ----
 *
 * currval() and lastval() in transaction mode: the client's own value, or an error; never the value
 * of another client. The pool knows whose values a server may have: pool_sequences.c.
 *
 *   a statement that may call nextval(), or asks,
 *     where no foreign values can be       --> PostgreSQL answers
 *     where there may be such              --> DISCARD SEQUENCES ahead, then the same
 *
 * So within a transaction all values are those of the transaction, or older ones of this client; it
 * does not matter what precedes the question. If its own values are on a server that somebody else
 * has, a client waits for that, as long as it is between two transactions.
 *
 * A client that has asked once, and any client behind a statement that a question mostly follows,
 * keeps its server from a transaction that may call nextval() to its next statement, but not longer
 * than HOLD_MAX. If others wait for a server: HOLD_WANTED, and HOLD behind statements that a
 * question rarely follows.
 */

#define HOLD ((usec_t)20 * 1000)
#define HOLD_WANTED ((usec_t)200 * 1000)
#define HOLD_MAX USEC_PER_SEC

static bool may_ask(const struct client *client, unsigned int touches)
{
	return (touches & SQL_TOUCH_SEQUENCE) ||
	       ((touches & SQL_TOUCH_HIDDEN) &&
	        pool_sequences(&client->borrower) == CATALOG_SEQUENCES_CALLED);
}

/*
 * Ahead of the next message, in its protocol. But a Query of ours would end what messages without a
 * Sync have begun, and makes PostgreSQL forget the unnamed statement; without a Sync, a CREATE
 * DATABASE could not follow. One that is not answered yet, within the same batch, is enough. false:
 * no memory.
 */
static bool discard(struct client *client, unsigned int touches, struct batch *batch)
{
	static const char text[] = "DISCARD SEQUENCES";
	struct server *server = client->borrower.server;
	bool is_open = server->wire.ledger.is_open, is_query;

	if ((is_open && batch->is_query && !may_ask(client, touches)) ||
	    server->lease.sequences.discard == DISCARD_IN_BATCH)
		return true; /* then they stay foreign */
	is_query = !is_open && (batch->is_query || client->clients->ops->spare_unnamed(client));
	return batch_add_statements(
	    batch, server, is_query, bytes_of(text, sizeof(text)),
	    pool_discard_sequences(server, is_query ? DISCARD_SENT : DISCARD_IN_BATCH));
}

/*
 * What asks, behind the Sync of a batch in which they are discarded: that may be skipped. Or in a
 * block that may have failed, where it could not be done.
 */
bool sequences_must_wait(const struct client *client, unsigned int touches)
{
	const struct server *server = client->borrower.server;

	if (!may_ask(client, touches) || ledger_ends_wait(&server->wire.ledger, LEDGER_WAIT_READY))
		return false;
	return server->lease.sequences.discard == DISCARD_IN_BATCH ||
	       ((touches & SQL_TOUCH_SEQUENCE) && server->wire.status != 'I' &&
	        pool_has_foreign_values(server));
}

static void note_question(struct client *client, unsigned int touches)
{
	struct pool *pool = client->borrower.pool;

	client->asks_sequences = true;
	pool_ask_sequences(pool);
	if ((client->touched | touches) & SQL_TOUCH_WRITE)
		return;
	pool_sequences_note(pool, client->wrote, true);
	client->wrote = 0;
}

bool sequences_use(struct client *client, unsigned int touches, struct bytes text,
                   struct batch *batch)
{
	struct borrower *borrower = &client->borrower;
	bool may_change = touches & (SQL_TOUCH_WRITE | SQL_TOUCH_HIDDEN), is_used;

	if (touches & SQL_TOUCH_FORGET)
		pool_forget_sequences(borrower);
	/* A Parse of a DISCARD alone: it has no value to show, and allows no pipeline. */
	if (!batch->is_query && (touches & SQL_TOUCH_FORGET) &&
	    sql_takes(&(struct scanner){ .rest = text }, "discard"))
		return true;
	if (touches & SQL_TOUCH_SEQUENCE)
		note_question(client, touches);
	is_used = pool_sequences(borrower) != CATALOG_SEQUENCES_NONE;
	/* In a failed block nothing can be discarded. Behind its end nothing is answered. */
	if (is_used && pool_has_foreign_values(borrower->server) &&
	    (server_is_in_failed_block(borrower->server)
	         ? (touches & SQL_TOUCH_SEQUENCE) && session_may_be_several(text)
	         : may_change || (touches & SQL_TOUCH_SEQUENCE)) &&
	    !discard(client, touches, batch))
		return false;
	if (is_used && may_change)
		pool_own_sequences(borrower);
	if (touches & SQL_TOUCH_SEQUENCE)
		server_rely_on_discard(borrower->server);
	if ((touches & SQL_TOUCH_WRITE) && borrower->pool->asks_sequences)
		client->wrote = pool_sequences_statement(sql_digest(text));
	return true;
}

static int score_of(const struct client *client)
{
	return pool_sequences_score(client->borrower.pool, client->wrote);
}

/* SESSION_PIN_SEQUENCE, or 0 if it need not keep its server. */
static unsigned int sequences_pin(const struct client *client)
{
	bool may_ask = client->asks_sequences || score_of(client) > 0;

	/* A standby gives no values, and the next statement may be a write. */
	if (client->borrower.pool->purpose == POOL_FOR_READS)
		return 0;
	return may_ask && (client->touched & (SQL_TOUCH_WRITE | SQL_TOUCH_SEQUENCE))
	           ? SESSION_PIN_SEQUENCE
	           : 0;
}

static void on_hold_due(struct timer *timer);

static void hold(struct client *client)
{
	client_arm(client, HOLD, on_hold_due, client_now(client));
}

/* The server's last ReadyForQuery was when the client's transaction ended. */
static void on_hold_due(struct timer *timer)
{
	struct client *client = container_of(timer, struct client, timer);
	const struct pool *pool = client->borrower.pool;
	usec_t since = client_now(client) - client->borrower.server->used_at;
	bool is_wanted = pool->queues[BORROWER_WAITING].count || share_is_asked(&pool->share);
	usec_t limit = HOLD_MAX;

	if (is_wanted)
		limit = client->wrote && score_of(client) >= 0 ? HOLD_WANTED : HOLD;
	if (since < limit) {
		hold(client);
		return;
	}
	if (is_wanted)
		pool_sequences_note(client->borrower.pool, client->wrote, false);
	client->session->pins = 0;
	client->borrower.ops->on_writable(&client->borrower); /* returns the server */
}

/* It is idle with a server that only sequences_pin() keeps: it does so for a while. */
static void sequences_idle_begin(struct client *client)
{
	if (!timer_is_set(&client->timer))
		hold(client);
}

/* ---- pins ---- */

static void on_stay_due(struct timer *timer)
{
	struct client *client = container_of(timer, struct session, told)->client;
	usec_t stay = client_now(client) - client->session->pinned_at;
	struct buf why = { 0 };
	char line[CLIENT_PLAIN_SIZE + 32] = "";
	struct strbuf name = strbuf_begin(line, sizeof(line));

	client->session->was_told = true;
	session_tell_pins(client, &why);
	client_add_application_name(client, &name);
	log_warning(&client->log,
	            "its server has stayed with it for %lld s because of session state: %s%s",
	            (long long)(stay / USEC_PER_SEC), buf_text(&why), line);
	buf_free(&why);
}

/* The server has begun to stay: after log_pin_duration the log has a line. */
static void watch_stay(struct client *client)
{
	usec_t limit = client->clients->config->log_pin_duration;
	struct session *session = client->session;

	timer_set(&session->told, loop_timer_queue(client->clients->loop, limit, on_stay_due),
	          session->pinned_at);
}

/* The transaction has ended with these pins, which are known. */
static void settle_pins(struct client *client, unsigned int pins)
{
	struct session *session;
	struct server *server = client->borrower.server;
	unsigned int held = sequences_pin(client);

	/* It is still there if nothing was executed since. */
	held |= client->session ? client->session->pins & SESSION_PIN_SEQUENCE : 0;
	pins &= ~(unsigned int)SESSION_PIN_SEQUENCE;
	client->touched = 0;
	if (pins)
		pool_keep_sequences(&client->borrower);
	else
		pool_drop_place(&client->borrower);
	if (pins) {
		/* What lasts cannot be removed, or is not known: nobody else gets this server. */
		server_hold(server, pins & LASTING ? HELD_STATE | HELD_LASTING : HELD_STATE);
	} else {
		server_held_after(server, HELD_SETTLED);
		/* What made it stay may decide how statements are read: a temporary table. */
		server_close_scope(server);
	}
	session = held ? session_get(client) : client->session;
	if (!session)
		return;
	if (!pins && !held) {
		session_free(client);
		return;
	}
	forget_transaction(session);
	if (pins && !session_is_pinned(client)) {
		session->pinned_at = client_now(client);
		pool_take_place_anyway(&client->borrower);
		session->was_told = false;
		watch_stay(client);
	}
	if (!pins)
		timer_clear(&session->told);
	session->pins = pins | held;
}

static unsigned int lasting_pins(const struct client *client)
{
	const struct session *session = client->session;
	unsigned int pins;

	if (!session)
		return 0;
	/* DISCARD ALL leaves all but parameters as it is. */
	pins = session->pins &
	       (session->was_discarded ? LASTING & ~(unsigned int)SESSION_PIN_PARAMS : LASTING);
	return pins | session->pinning | (session->names.is_unknown ? SESSION_PIN_PARAMS : 0u);
}

void session_add_placeholder(struct session *session, struct bytes name)
{
	if (sql_name_judge(name) == SQL_NAME_PLACEHOLDER)
		sql_names_add(&session->names, name);
}

/* Those in the bodies of functions that may set some, as far as the pool knows them. */
static void note_catalog(struct session *session)
{
	bool is_current;
	const struct catalog_reading *reading =
	    pool_catalog(session->client->borrower.pool, &is_current);
	struct bytes names = reading ? buf_bytes(&reading->parameters) : bytes_of("", 0);

	for (const char *name; bytes_take_text(&names, &name);)
		session_add_placeholder(session, bytes_text(name));
}

static void note_map(struct session *session, const struct params *params)
{
	PARAMS_EACH (name, value, params) {
		if (strchr(name, '.'))
			session_add_placeholder(session, bytes_text(name));
	}
}

/*
 * Asks, also for the placeholders that the server had before: their values may have been changed by
 * statements that do not name them. And for those of the startup packet: one that is not in the
 * answer counts as set back, and a map may lack it because it cannot have its value.
 */
static void ask_server(struct client *client, unsigned int parts)
{
	/* Without that, the unnamed statement there is lost. */
	bool is_apart =
	    session_keeps_server(client) || !client->clients->ops->spare_unnamed(client);
	struct server *server = client->borrower.server;
	struct session *session = session_get(client);
	struct bytes names = bytes_of("", 0);

	/* A parameter may have been named in a way that nobody has seen. */
	if ((parts & QUESTION_PARAMS) && !session_keeps_server(client))
		server_hold(server, HELD_UNKNOWN);
	if (session && (parts & QUESTION_PARAMS)) {
		note_map(session, server->session.params);
		note_map(session, client->startup);
	}
	if (session && (parts & QUESTION_PARAMS) && (client->touched & INSIDE))
		note_catalog(session);
	if (session)
		names = buf_bytes(&session->names.list);
	server_order(server,
	             &(struct order){
			 .kind = ORDER_ASK, .is_apart = is_apart, .parts = parts, .names = names });
}

/*
 * What was loaded becomes part of the server's parameters. The texts have the names, and the server
 * says only how many LOADs have succeeded: if that is another number, the server stays.
 */
static void take_libraries(struct client *client)
{
	struct server *server = client->borrower.server;
	struct session *session;
	struct bytes names;
	bool is_known;

	if (!server_holds(server, HELD_LOADS))
		return;
	session = session_get(client);
	if (!session)
		return; /* HELD_LOADS closes the server */
	names = buf_bytes(&session->libraries);
	is_known =
	    buf_ok(&session->libraries) && session->library_count == server->session.load_count;
	for (const char *name; is_known && bytes_take_text(&names, &name);)
		is_known = server_add_library(server, name);
	if (is_known || server->session.load_count == 0) /* or all have failed */
		server_settle_loads(server);
	else
		session->pinning |= SESSION_PIN_LIBRARY;
	buf_free(&session->libraries);
	session->library_count = 0;
}

static void on_pause_over(struct timer *timer);

/* What may have set parameters is asked for those that the catalog has. */
static void ask_everything(struct client *client)
{
	bool is_needed = client->touched & (SQL_TOUCH_HIDDEN | SESSION_TOUCH_SAMPLE);

	switch (pool_read_catalog_now(&client->borrower, is_needed)) {
	case POOL_READING_NONE:
		ask_server(client, parts_of(client));
		return;
	case POOL_READING_ELSEWHERE:
		client_arm(client, POOL_READING_PAUSE, on_pause_over, client_now(client));
		return;
	case POOL_READING_ASKED:
		return;
	}
}

static void on_pause_over(struct timer *timer)
{
	ask_everything(container_of(timer, struct client, timer));
}

bool session_ask(struct client *client)
{
	unsigned int parts = parts_of(client), pins;

	if (session_keeps_server(client)) {
		ask_server(client,
		           client->touched & SESSION_TOUCH_SAMPLE ? QUESTION_ALL : QUESTION_PARAMS);
		return true;
	}
	take_libraries(client);
	pins = lasting_pins(client);
	if (!parts || take_set(client)) {
		resets_settle(client, client->borrower.server->session.params);
		settle_pins(client, pins | (client->session ? client->session->pins : 0));
		return false;
	}
	if (client->touched & ANYTHING)
		ask_everything(client);
	else
		ask_server(client, parts);
	return true;
}

bool session_needs_no_server(const struct client *client)
{
	const uint32_t harmless = SESSION_TOUCH_EARLY | SESSION_TOUCH_NAMED | SQL_TOUCH_WRITE;

	return client->state == CLIENT_SETTLING && (client->touched & SESSION_TOUCH_EARLY) &&
	       !(client->touched & ~harmless) && !client->listening && !client->is_position_due &&
	       !session_stays(client) && client_rules(client)->mode != POOL_MODE_SESSION;
}

void session_go_on(struct client *client) { ask_server(client, parts_of(client)); }

/* The answer about parameters. false: they are not all known. */
static bool take_params(struct client *client, const struct facts *facts)
{
	struct server *server = client->borrower.server;
	const struct params *had = params_hold(server->session.params);
	bool is_known = true;

	if (facts->parts & QUESTION_PARAMS)
		is_known = !facts->lacks_names &&
		           server_take_facts(server, facts, client->startup, resets_before(client),
		                             resets_back(client));
	resets_settle(client, had);
	params_release(client->clients->pools->shared.params, &had);
	return is_known;
}

/* PostgreSQL refuses to tell: a right is missing, for all clients of the pool. */
static unsigned int pins_of_unknown(struct client *client, const struct facts *facts)
{
	struct pool *pool = client->borrower.pool;

	if (!facts->unknown)
		return 0;
	if (!pool->was_told_unknown)
		log_warning(&client->log,
		            "the session state of a server could not be read, so the server stays "
		            "with its client: see PostgreSQL's error above; said once per pool");
	pool->was_told_unknown = true;
	return SESSION_PIN_PARAMS;
}

void session_facts(struct client *client, const struct facts *facts)
{
	struct server_statements *known = &client->borrower.server->session.statements;
	struct session *session = client->session;
	unsigned int pins = lasting_pins(client);

	/* In session mode, a client keeps its server whatever is there. */
	if (session_keeps_server(client)) {
		if (client->touched & SESSION_TOUCH_SAMPLE)
			audit_facts(client, facts);
		if (client->touched & SQL_TOUCH_DEFAULT)
			take_params(client, facts);
		client->touched = 0;
		session_free(client);
		return;
	}
	pins |= features_pins(session ? session->pins : 0, facts);
	pins |= pins_of_unknown(client, facts);
	pins |= listening_is_hidden(client, facts) ? SESSION_PIN_LISTEN : 0;
	/* If some statements have gone, none is relied on. */
	if (facts->has_own_count && facts->own_count < server_statements_count(known))
		server_statements_distrust(known);
	pins |= take_params(client, facts) ? 0 : SESSION_PIN_PARAMS;
	if (pins && !session_get(client)) {
		client_close(client, CLOSE_MEMORY);
		return;
	}
	if (pins)
		held_take(client->session, facts);
	settle_pins(client, pins);
	server_held_after(client->borrower.server, HELD_ASKED);
}

/* ---- idle ---- */

/*
 * It has been idle for so long: closed if another client has waited for so long, too. Else looks
 * again when that could be.
 */
static void on_pin_due(struct timer *timer)
{
	struct client *client = container_of(timer, struct client, timer);
	struct pool *pool = client->borrower.pool;
	usec_t limit = config_pin_idle_timeout(client->clients->config, client->role->entry);
	usec_t now = client_now(client), since = pool_wait_for_pins_since(pool);
	struct buf detail = { 0 };
	struct err err;

	if (!since || since + limit > now) {
		client_arm(client, limit, on_pin_due, since ? since : now);
		return;
	}
	pool_note_relief(pool);
	buf_add_text(&detail, "Others waited, and its server stayed with it because of session "
	                      "state: ");
	session_tell_pins(client, &detail);
	err_close(&err, CLOSE_PIN_IDLE_TIMEOUT);
	err_detail_take(&err, &detail);
	client_fatal(client, &err);
}

void session_idle_begin(struct client *client)
{
	usec_t limit = config_pin_idle_timeout(client->clients->config, client->role->entry);

	if (client->session->pins == SESSION_PIN_SEQUENCE) {
		sequences_idle_begin(client);
		return;
	}
	if (limit || timer_is_set(&client->timer))
		client_arm(client, limit, on_pin_due, client_now(client));
}

void session_rearm(struct client *client)
{
	const struct config *config = client->clients->config;
	struct loop *loop = client->clients->loop;
	usec_t limit = config_pin_idle_timeout(config, client->role->entry);

	if (!session_is_pinned(client))
		return;
	if (!client->request_at && !client->xact_at)
		timer_change(&client->timer, loop_timer_queue(loop, limit, on_pin_due));
	if (!client->session->was_told)
		timer_change(&client->session->told,
		             loop_timer_queue(loop, config->log_pin_duration, on_stay_due));
}

static bool only_deallocates(struct bytes text)
{
	return text.count && !sql_is_other(text) &&
	       sql_kind_of(bytes_of(text.at, text.count - 1)) == SQL_DEALLOCATE;
}

void session_idle_end(struct client *client, const struct frame *frame, struct bytes in)
{
	/*
	 * Whether this is the next statement. Drivers prepare it in a batch of its own, and drop
	 * the one before by DEALLOCATE: neither is yet.
	 */
	bool is_next = frame->type == 'B' || frame->type == 'E' || frame->type == 'F' ||
	               (frame->type == 'Q' &&
	                (in.count < frame->length || !only_deallocates(frame_body(in, frame))));

	timer_clear(&client->timer);
	if (is_next)
		client->session->pins &= ~(unsigned int)SESSION_PIN_SEQUENCE;
}

/* ---- end ---- */

void session_free(struct client *client)
{
	struct session *session = client->session;

	if (!session)
		return;
	timer_clear(&session->told);
	forget_transaction(session);
	client->session = NULL;
	buf_free(&session->held);
	free(session->text);
	free(session);
}

/*
 * ---- hand-over ----
 *
 * A client whose server stays with it passes to the other process together with that server, and
 * so does a transaction that has touched session state.
 */

bool session_has_record(const struct client *client) { return client->session || client->touched; }

void session_write(const struct client *client, struct client_record *values)
{
	const struct session *session = client->session;

	values->has_session = session_has_record(client);
	values->touched = client->touched;
	values->asks_sequences =
	    client->asks_sequences && !client->clients->pools->is_handover_plain;
	if (!session)
		return;
	values->pins = session->pins;
	/* too many names were not all noted: session_ask() */
	values->pinning =
	    session->pinning | (session->names.is_unknown ? (unsigned int)SESSION_PIN_PARAMS : 0);
	values->has_slot = client->borrower.has_place && !session_keeps_server(client);
	values->was_discarded = session->was_discarded;
	values->was_told = session->was_told;
	values->pinned_at = session->pinned_at;
	values->text = bytes_text(session->text ? session->text : "");
	values->names = buf_bytes(&session->names.list);
	if (buf_ok(&session->held))
		values->held = buf_bytes(&session->held);
}

static void restore_pins(struct client *client, const struct client_record *values)
{
	struct session *session = client->session;

	session->pins = values->pins;
	session->pinning = values->pinning;
	session->pinned_at = values->pinned_at;
	session->was_told = values->was_told;
	if (values->text.count)
		session->text = strndup(values->text.at, values->text.count);
	buf_add(&session->held, values->held.at, values->held.count);
	if (values->has_slot)
		pool_take_place_anyway(&client->borrower);
	if (session_is_pinned(client) && !session->was_told)
		watch_stay(client);
	if (session->pins == SESSION_PIN_SEQUENCE)
		sequences_idle_begin(client);
}

bool session_read(struct client *client, const struct client_record *values)
{
	bool is_lent = client->borrower.server != NULL;
	struct bytes names = values->names;

	client->asks_sequences = values->asks_sequences;
	if (values->asks_sequences)
		pool_ask_sequences(client->borrower.pool);
	if (!values->has_session)
		return true;
	/* What its only statement is (session->set) is not handed over: the server is asked. */
	if (is_lent && values->touched) {
		client->touched = values->touched | SQL_TOUCH_HIDDEN;
		/* nor what it has defined */
		server_defines(client->borrower.server, DEFINITION_ANYTHING);
	}
	if (!session_get(client))
		return false;
	client->session->was_discarded = values->was_discarded;
	if (is_lent)
		restore_pins(client, values);
	for (const char *name; bytes_take_text(&names, &name);)
		sql_names_add(&client->session->names, bytes_text(name));
	return true;
}
