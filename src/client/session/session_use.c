/* SPDX-License-Identifier: ISC */
/*
 * What a client's texts touch, before they run.
 *
 * Hard here: a text may be refused only before it runs, but only PostgreSQL knows what it did. So a
 * statement that may make the server stay gets a place of max_pinned_servers first, and gives it
 * back if the server need not stay after all.
 */
#include <stdlib.h>

#include "pgweir/pgwire/sql.h"
#include "pgweir/pgwire/sql_token.h"
#include "pgweir/pool/server/params.h"

#include "session_priv.h"

/* What a DISCARD ALL touches. */
#define DISCARDS (SQL_TOUCH_PARAMS | SQL_TOUCH_DEFAULT | SQL_TOUCH_UNLISTEN | SQL_TOUCH_RELEASE)

/* The server may have to stay. */
#define PINS (SQL_TOUCH_PINS | SQL_TOUCH_PREPARE)

/* What is noted of a client that is not pinned. */
#define NOTED                                                                                   \
	(SQL_TOUCH_PARAMS | SQL_TOUCH_DEFAULT | SQL_TOUCH_LIBRARY | SQL_TOUCH_LISTEN |          \
	 SQL_TOUCH_UNLISTEN | SQL_TOUCH_NOTIFY | PINS | SQL_TOUCH_SEQUENCE | SQL_TOUCH_HIDDEN | \
	 SQL_TOUCH_CREATE | SESSION_TOUCH_NAMED | SESSION_TOUCH_EARLY)

/* What changes nothing in how statements are read: all else may, and SQL_TOUCH_SCOPE says so. */
#define READS_ALIKE                                                                       \
	(SQL_TOUCH_PARAMS | SQL_TOUCH_DEFAULT | SQL_TOUCH_LISTEN | SQL_TOUCH_UNLISTEN |   \
	 SQL_TOUCH_NOTIFY | SQL_TOUCH_CURSOR | SQL_TOUCH_LOCK | SQL_TOUCH_SEQUENCE |      \
	 SQL_TOUCH_EXECUTE | SQL_TOUCH_RELEASE | SQL_TOUCH_WRITE | SQL_TOUCH_FORGET |     \
	 SQL_TOUCH_PREPARE | SQL_TOUCH_XACT_LOCK | SQL_TOUCH_DATABASE | SQL_TOUCH_LOCAL | \
	 SQL_TOUCH_REPORTED | SESSION_TOUCH_NAMED)

/* ---- what texts touch ---- */

/* Placeholders may be set. */
#define NAMES (SQL_TOUCH_PARAMS | SQL_TOUCH_HIDDEN | SESSION_TOUCH_EARLY)

unsigned int session_add_names(const struct client *client, unsigned int touches, struct bytes text)
{
	unsigned int named = 0, scope;

	if (!text.count)
		return touches; /* it runs nothing, and is not taken for a text that is not known */
	if (client->touched & SESSION_TOUCH_SAMPLE)
		touches |= SQL_TOUCH_HIDDEN | SESSION_TOUCH_NAMED;
	if (pool_has_names(client->borrower.pool, client->borrower.server))
		named = pool_touches(client->borrower.pool, client->borrower.server, text, NULL);
	/* A DO block or a CALL may define something. */
	if ((touches & SQL_TOUCH_HIDDEN) && !(touches & SESSION_TOUCH_NAMED) &&
	    ((named & (SQL_TOUCH_TEMP | SQL_TOUCH_HIDDEN)) || bytes_contain(text, "create") ||
	     bytes_contain(text, "alter") || bytes_contain(text, "execute")))
		touches |= SQL_TOUCH_CREATE;
	/* Who does not listen gets no notifications. */
	if (!client->listening)
		named &= ~(unsigned int)SQL_TOUCH_NOTIFY;
	/* It ends with the transaction: nothing is left by it. */
	scope = named & SQL_TOUCH_SCOPE;
	named &= ~scope;
	return scope | (named ? touches | named | SESSION_TOUCH_NAMED : touches);
}

/* PostgreSQL's own functions have lower numbers, the same in all versions. */
#define FIRST_FOREIGN_FUNCTION 16384
#define SET_CONFIG 2078

/*
 * A FunctionCall has a number, by which nobody here knows a function of an extension: it may be
 * dblink_connect(). Those of large objects are PostgreSQL's own.
 */
unsigned int session_call_touches(const struct frame *frame, struct bytes in)
{
	static const uint32_t keepers[] = {
		1599,            /* setseed() */
		2172,            /* pg_backup_start() */
		6006,            /* pg_replication_origin_session_setup() */
		3779,            /* pg_create_physical_replication_slot() */
		3786,            /* pg_create_logical_replication_slot() */
		4220, 4221,      /* pg_copy_physical_replication_slot() */
		4222, 4223, 4224 /* pg_copy_logical_replication_slot() */
	};
	struct bytes body = frame_received(in, frame);
	uint32_t number = body.count < 4 ? FIRST_FOREIGN_FUNCTION : load_be32(body.at);
	bool keeps = number >= FIRST_FOREIGN_FUNCTION;

	if (number == SET_CONFIG) /* of which parameter is not looked for */
		return SQL_TOUCH_HIDDEN | SQL_TOUCH_PARAMS;
	for (size_t i = 0; i < sizeof(keepers) / sizeof(keepers[0]); i++)
		keeps |= number == keepers[i];
	return keeps ? SQL_TOUCH_HIDDEN | SQL_TOUCH_EXTENSION : SQL_TOUCH_HIDDEN;
}

/* ---- what is refused ---- */

/* The first one that is touched and has a name. NULL: there is none. */
static const struct feature *first_feature(unsigned int touches)
{
	for (size_t i = 0; i < FEATURES; i++) {
		if (session_features[i].error && (session_features[i].touch & touches))
			return &session_features[i];
	}
	return NULL;
}

/* One text for the client and for the log: *err. These return false. */
static bool refuse(const struct client *client, const struct feature *feature, struct err *err)
{
	struct log_facts facts = { .event = "error",
		                   .sqlstate = err->sqlstate,
		                   .reason = err->text };

	if (client->clients->config->log_pooler_errors)
		log_event(&client->log, LOG_LEVEL_WARNING, &facts, "pooler error: %s: %s",
		          err->text, err->detail);
	return err_hint(err, feature->way_out);
}

static bool refuse_feature(const struct client *client, const struct feature *feature,
                           struct err *err)
{
	bool is_statement_mode = client_rules(client)->mode == POOL_MODE_STATEMENT;

	client->borrower.pool->state_refused++;
	err_set(err, ERR_UNSUPPORTED, "%s is not available here (%s)", feature->error,
	        is_statement_mode ? "pool_mode = statement" : "session_state = refuse");
	err_detail(err,
	           "It concerns the session, and the client's next %s may run on another server.",
	           is_statement_mode ? "statement" : "transaction");
	return refuse(client, feature, err);
}

static bool refuse_pin(const struct client *client, const struct feature *feature, struct err *err)
{
	const struct pool *pool = client->borrower.pool;

	err_set(err, ERR_LIMIT, "%s needs a server of its own (max_pinned_servers)",
	        feature->error);
	err_detail(err,
	           "Servers of this pool that stay with clients: %u of %d. SHOW PINNED in the "
	           "console lists them.",
	           pool->share.tally->pinned_count, pool->limits.max_pinned);
	return refuse(client, feature, err);
}

/*
 * ---- on a standby ----
 *
 * Clients with a server on a standby, because their transaction was a read.
 *
 * Hard here: where a transaction runs is decided before its first statement (relay/causal.c). What
 * comes later, and is for the primary, cannot go there. An advisory lock would be another one than
 * on the primary, which nobody would notice, so it is refused. All else PostgreSQL refuses itself.
 */

#define LOCKS (SQL_TOUCH_LOCK | SQL_TOUCH_XACT_LOCK)

/* Whether the client did not choose this for its session as a whole. */
static bool is_routed(const struct client *client)
{
	return client->borrower.pool->purpose == POOL_FOR_READS &&
	       client_rules(client)->mode != POOL_MODE_SESSION;
}

/* The server stays with its client, and does not become the primary. */
static const char release_hint[] =
    "End what keeps the server (DISCARD ALL ends most of it), and begin such a transaction with "
    "READ WRITE: it runs on the primary.";

static void say_why_it_stays(const struct client *client, struct buf *out)
{
	buf_add_text(out, "The client's server is a standby, and stays with the client because of "
	                  "session state that a read has left there: ");
	session_tell_pins(client, out);
	buf_add_text(out, ".");
}

/* false: refuse with *err, as it takes a lock that is not the one that the client means. */
static bool standby_allows(const struct client *client, unsigned int touches, struct err *err)
{
	struct buf detail = { 0 };

	if (!(touches & LOCKS) || !is_routed(client))
		return true;
	err_set(err, ERR_UNSUPPORTED,
	        "an advisory lock is not available on a standby (route_reads)");
	if (session_stays(client)) {
		say_why_it_stays(client, &detail);
		err_detail_take(err, &detail);
		return err_hint(err, release_hint);
	}
	err_detail(err, "The client's transaction began as a read and runs on a standby, whose "
	                "locks are not those of the primary.");
	return err_hint(err, "Take the lock in the first statement of the transaction, or begin it "
	                     "with READ WRITE.");
}

const char *standby_explains(struct borrower *borrower, struct buf *detail)
{
	const struct client *client = client_of(borrower);

	if (!is_routed(client))
		return NULL;
	if (session_stays(client)) {
		say_why_it_stays(client, detail);
		return release_hint;
	}
	if (borrower->server->wire.status != 'I')
		return NULL; /* the client has said READ ONLY */
	buf_add_text(detail, "It ran on a standby, as a read (route_reads).");
	return "Send it in a transaction that begins with READ WRITE: it runs on the primary.";
}

/* ---- a statement is used ---- */

/*
 * Whether a text may run although session state is refused: what sets parameters back does no harm,
 * and parameters that PostgreSQL reports follow their client anyway.
 */
static bool is_harmless(const struct client *client, unsigned int touches, struct bytes text)
{
	struct scanner scanner = { .rest = text };
	char name[SQL_SET_NAME_MAX + 1];

	if (first_feature(touches & ~(unsigned int)SQL_TOUCH_PARAMS))
		return false;
	if (sql_takes(&scanner, "reset") || sql_takes(&scanner, "discard"))
		return sql_is_last(&scanner, sql_token(&scanner));
	return sql_set_name(text, name) &&
	       params_find(client->borrower.server->session.baseline, name);
}

/* Whether a text is one PREPARE or EXECUTE, which is followed or refused elsewhere:
 * sql_statements.c. */
static bool is_followed(const struct client *client, struct bytes text, enum sql_kind kind)
{
	enum sql_kind found = sql_kind_of(text);

	return client->clients->config->max_prepared_statements > 0 &&
	       (found == kind || (found == SQL_UNSURE && !session_is_followed(client)));
}

/*
 * ---- placeholders ----
 *
 * The names in a text that touches parameters are noted (sql_names.h), and those values of a Bind
 * that are names. Where functions may set what they get, names are noted that are none; PostgreSQL
 * answers that there is no such parameter.
 *
 * What runs inside of a function is in no text. For that the catalog has the names in the bodies of
 * the database's functions (session_state.c).
 */

bool session_encoding_is_unclear(const struct client *client)
{
	static const char *const unclear[] = { "SJIS",    "BIG5",  "GBK",           "UHC",
		                               "GB18030", "JOHAB", "SHIFT_JIS_2004" };
	const char *encoding = session_encoding(client);

	for (size_t i = 0; encoding && i < sizeof(unclear) / sizeof(unclear[0]); i++) {
		if (strcasecmp(encoding, unclear[i]) == 0)
			return true;
	}
	return false;
}

/* Whether what a text says to functions may be names. */
static bool is_inside(unsigned int touches)
{
	return touches & (SQL_TOUCH_HIDDEN | SESSION_TOUCH_NAMED);
}

/*
 * Notes the placeholders that a text may set; client->session exists. own: what the text touches
 * without the catalog: if that is no parameter, it need not say which.
 */
static void note_text(struct client *client, unsigned int touches, unsigned int own,
                      struct bytes text)
{
	struct sql_names names = { 0 };

	sql_names_read(&names, text, is_inside(touches));
	if (is_inside(touches))
		names.parameters |= SQL_PARAMETERS_ALL;
	names.is_unknown |= names.is_unclear && session_encoding_is_unclear(client);
	if ((touches & SESSION_TOUCH_NAMED) && !(touches & SQL_TOUCH_EXECUTE) && !(own & NAMES))
		names.is_unknown = false;
	/* It was long, and is gone; or there was none. */
	names.is_unknown |= !text.count && (touches & SQL_TOUCH_PARAMS);
	sql_names_merge(&client->session->names, &names);
	sql_names_free(&names);
}

/*
 * Without what names show: they may be those of other objects, so they are no reason to refuse,
 * unless the settings have them.
 */
static unsigned int own_touches(unsigned int touches, struct bytes text)
{
	return touches & SESSION_TOUCH_NAMED ? touches & (sql_touch(text) | SQL_TOUCH_EXTENSION)
	                                     : touches;
}

/* false: refuse with *err. own: what the text itself touches. */
static bool may_run(const struct client *client, unsigned int own, struct bytes text, bool is_run,
                    struct err *err)
{
	bool refuses = client_rules(client)->session_state == SESSION_STATE_REFUSE;
	const struct feature *feature = first_feature(own);

	if (refuses && feature && !is_harmless(client, own, text))
		return refuse_feature(client, feature, err);
	return !is_run || standby_allows(client, own, err);
}

/*
 * ---- libraries ----
 *
 * Libraries that a client loads by LOAD. They become part of the client's parameters, and are
 * loaded on each server before it is used.
 */

#define NAMES_SIZE_MAX ((size_t)4096) /* bytes of the names of one transaction */

static void note_library(void *context, const struct sql_item *item)
{
	struct session *session = context;

	session->libraries.limit = NAMES_SIZE_MAX;
	if (item->kind == SQL_ITEM_UNSURE)
		session->libraries.is_broken = true;
	if (item->kind != SQL_ITEM_LIBRARY)
		return;
	session->library_count++;
	buf_add_cstr(&session->libraries, item->name);
}

/* ---- what is done before it runs ---- */

/* SET LOCAL ... TO DEFAULT: PostgreSQL has all defaults but those of the startup packet. */
static bool follow_resets(struct client *client, unsigned int *touches, struct bytes text,
                          const struct batch *batch, struct err *err)
{
	bool has_startup = params_count(client->startup) != 0;

	if (!has_startup && !(*touches & SQL_TOUCH_PARAMS))
		*touches &= ~(unsigned int)SQL_TOUCH_DEFAULT;
	if (!(*touches & SQL_TOUCH_DEFAULT) || !(has_startup || (*touches & SQL_TOUCH_FORGET)))
		return true;
	return resets_use(client, text, batch->is_query, true, err);
}

/* In a failed transaction, with PostgreSQL's error; but the first of several may end it. */
static bool fails_anyway(const struct client *client, struct bytes text)
{
	return server_is_in_failed_block(client->borrower.server) && !session_may_be_several(text);
}

/* The server may have to stay. */
static bool take_place(struct client *client, unsigned int own, struct bytes text, struct err *err)
{
	struct session *session = client->session;
	enum session_place place = own & PINS ? session->place : PLACE_OPEN;

	if (client->borrower.has_place)
		return true;
	session->place = PLACE_OPEN;
	if (place == PLACE_CANCELED)
		return err_set(err, ERR_QUERY_CANCELED, "canceling statement due to user request");
	return (place == PLACE_OPEN && pool_take_place(&client->borrower)) || !(own & PINS) ||
	       fails_anyway(client, text) || refuse_pin(client, first_feature(own & PINS), err);
}

void session_change_scope(struct server *server, unsigned int touches)
{
	if (touches & ~(unsigned int)READS_ALIKE)
		server_open_scope(server);
	else if (touches & SQL_TOUCH_REPORTED)
		server_watch_scope(server);
}

/* What a text that defines relations touches at most, if nothing that it calls matters. */
#define DEFINES \
	(SQL_TOUCH_CREATE | SQL_TOUCH_TEMP | SQL_TOUCH_WRITE | SQL_TOUCH_RELEASE | SQL_TOUCH_SCOPE)

/* What an ALTER does, beside other texts. */
#define ALTERS ((unsigned int)(SQL_TOUCH_WRITE | SQL_TOUCH_SCOPE))

/* Others see what it defines as soon as it is committed. */
static void note_definition(struct client *client, unsigned int touches, unsigned int own,
                            struct bytes text)
{
	struct server *server = client->borrower.server;
	/* while the catalog is not known, any text has SQL_TOUCH_SCOPE */
	bool defines = (touches & SQL_TOUCH_CREATE) ||
	               ((own & ALTERS) == ALTERS && (sql_touch(text) & ALTERS) == ALTERS);

	if (defines || (own & SQL_TOUCH_HIDDEN) || server_defines_anything(server))
		server_note_definition(server, text, !(own & ~(unsigned int)DEFINES), defines);
}

/* It is going to run. */
static void note_run(struct client *client, unsigned int touches, unsigned int own,
                     struct bytes text)
{
	struct server *server = client->borrower.server;
	struct session *session = client->session;
	size_t size = text.count < SESSION_TEXT_MAX ? text.count : SESSION_TEXT_MAX;

	if ((touches & PINS) && !session->pins) {
		free(session->text);
		session->text = text.count ? strndup(text.at, size) : NULL;
	}
	if (touches & SQL_TOUCH_EXTENSION)
		session->pinning |= SESSION_PIN_EXTENSION;
	if (touches & SQL_TOUCH_LIBRARY) {
		server_hold(server, HELD_LOADS);
		session->libraries.is_broken |= !sql_items(text, note_library, session);
	}
	/* The server does not say what a DO block loads. */
	if ((touches & SQL_TOUCH_LIBRARY) && (own & SQL_TOUCH_HIDDEN))
		session->pinning |= SESSION_PIN_LIBRARY;
	/* DISCARD ALL leaves it, also if the client goes before the transaction ends. */
	if (session && session->pinning)
		server_hold(server, HELD_LASTING);
	if (touches & SQL_TOUCH_DATABASE)
		vacancy_begin(server, text, VACANCY_BOUND);
	session_change_scope(server, touches);
	note_definition(client, touches, own, text);
	/* It may be a function; or it is temporary, by a search_path that no text has shown. */
	if ((touches & (SQL_TOUCH_CREATE | SQL_TOUCH_TEMP)) == SQL_TOUCH_CREATE)
		server_hold(server, HELD_UNKNOWN);
}

/* own: what the text itself touches. false: refuse with *err. */
static bool begin(struct client *client, unsigned int *touches, unsigned int own, struct bytes text,
                  struct batch *batch, struct err *err)
{
	if (((*touches & (NAMES | PINS | SQL_TOUCH_LIBRARY)) && !session_get(client)) ||
	    ((*touches & SEQUENCES_CONCERN) && !sequences_use(client, *touches, text, batch)))
		return err_close(err, CLOSE_MEMORY);
	if (*touches & NAMES)
		note_text(client, *touches, own, text);
	if (((*touches & SQL_TOUCH_DEFAULT) && !follow_resets(client, touches, text, batch, err)) ||
	    ((*touches & PINS) && !take_place(client, own, text, err)))
		return false;
	note_run(client, *touches, own, text);
	return true;
}

static void note_touched(struct client *client, unsigned int touches)
{
	touches &= NOTED | (session_stays(client) ? SQL_TOUCH_RELEASE : 0u) |
	           (client->borrower.pool->asks_sequences ? SQL_TOUCH_WRITE : 0u);
	if (touches && client->session) {
		free(client->session->set);
		client->session->set = NULL;
	}
	client->touched |= touches;
	if (touches & ~(unsigned int)(SQL_TOUCH_SEQUENCE | SQL_TOUCH_WRITE | SQL_TOUCH_CREATE))
		server_hold(client->borrower.server, HELD_STATE);
}

/* What a text touches, with what is known of this client. */
static unsigned int touches_here(const struct client *client, unsigned int touches,
                                 struct bytes text)
{
	if ((touches & SQL_TOUCH_PREPARE) && is_followed(client, text, SQL_PREPARE))
		touches &= ~(unsigned int)SQL_TOUCH_PREPARE;
	return touches;
}

bool session_use(struct client *client, unsigned int touches, struct bytes text, bool is_run,
                 struct batch *batch, struct err *err)
{
	unsigned int own;

	touches = touches_here(client, touches, text);
	if ((touches & ~(SESSION_TOUCH_NAMED | SESSION_TOUCH_EARLY)) == SQL_TOUCH_EXECUTE &&
	    is_followed(client, text, SQL_EXECUTE))
		return true; /* the statement that it executes counts: sql_statements.c */
	if (touches & SQL_TOUCH_EXECUTE)
		touches |= SQL_TOUCH_HIDDEN;
	own = own_touches(touches, text);
	if (!may_run(client, own, text, is_run, err))
		return false;
	if (!is_run)
		return true;
	if (!begin(client, &touches, own, text, batch, err))
		return false;
	note_touched(client, touches);
	return true;
}

/* For what a statement may need a place. */
static unsigned int own_pins(const struct client *client, unsigned int touches, struct bytes text)
{
	return own_touches(touches_here(client, touches, text), text) & PINS;
}

bool session_awaits_place(const struct client *client, unsigned int touches, struct bytes text)
{
	return session_is_followed(client) && pool_lacks_place(&client->borrower) &&
	       own_pins(client, touches, text);
}

void session_refuse_place(const struct client *client, unsigned int touches, struct bytes text,
                          struct err *err)
{
	const struct feature *feature = first_feature(own_pins(client, touches, text));

	if (feature)
		refuse_pin(client, feature, err);
	else /* what its names touch has changed while it waited */
		err_close(err, CLOSE_QUERY_WAIT_TIMEOUT);
}

/*
 * ---- a place ----
 *
 * A statement that may make the server stay, while max_pinned_servers others do. The first one of a
 * transaction waits without a server (judge.c); a later one waits here, with its server, which then
 * answers nothing. However the wait has ended, the statement is judged again: session_use() takes
 * the place, or refuses with what is noted in session->place.
 */

enum judgement place_before(struct client *client, unsigned int touches, struct bytes text,
                            struct batch *batch)
{
	const struct ledger *ledger = &client->borrower.server->wire.ledger;

	if (sequences_must_wait(client, touches))
		return batch_wait(batch, LEDGER_WAIT_READY);
	/* Only one that is alone can have a vacancy: what is ahead of it may take time. */
	if ((touches & SQL_TOUCH_DATABASE) && !ledger_ends_wait(ledger, LEDGER_WAIT_EMPTY))
		return batch_wait(batch, LEDGER_WAIT_EMPTY);
	/* A statement that fails anyway needs no place. */
	if (!session_awaits_place(client, touches, text) || ledger->is_skipping ||
	    fails_anyway(client, text) || (client->session && client->session->place != PLACE_OPEN))
		return listening_before(client, touches, text, batch);
	if (!session_get(client))
		return JUDGE_MEMORY;
	return batch_wait(batch, ledger_is_empty(ledger) ? LEDGER_WAIT_PLACE : LEDGER_WAIT_EMPTY);
}

/* The statement is judged again. */
static void go_on(struct client *client)
{
	timer_clear(&client->timer);
	client->borrower.waits_for = LEDGER_WAIT_NOT;
	client_read_on(client);
}

static void end_with(struct client *client, enum session_place place)
{
	pool_leave_place(&client->borrower);
	client->session->place = place;
	go_on(client);
}

static void on_place_due(struct timer *timer)
{
	end_with(container_of(timer, struct client, timer), PLACE_TIMED_OUT);
}

static struct timer_queue *limit_of(const struct client *client)
{
	return loop_timer_queue(client->clients->loop, client_wait_limit(client), on_place_due);
}

void place_await(struct client *client)
{
	pool_await_place(&client->borrower);
	/* the time for which it has waited for its server counts, too */
	timer_set(&client->timer, limit_of(client),
	          client->borrower.waiting_since - client->borrower.waited);
	stream_want(&client->stream, WANT_END);
}

void place_rearm(struct client *client)
{
	if (client->borrower.awaits_place)
		timer_change(&client->timer, limit_of(client));
	else
		session_rearm(client);
}

void place_given(struct borrower *borrower) { go_on(client_of(borrower)); }

bool place_cancel(struct client *client)
{
	if (!client->borrower.awaits_place)
		return false;
	end_with(client, PLACE_CANCELED);
	return true;
}

/* ---- placeholders: values, and other ways in which a statement runs ---- */

/* A value that a function gets need not be a name: it is one if it can be asked for. */
static void note_values(struct session *session, struct row_walk values)
{
	uint64_t bound = session->names.parameters;
	struct bytes value;

	for (unsigned int number = 1; fields_value(&values, &value) == WALK_ITEM; number++) {
		bool is_name = number <= SQL_PARAMETER_LAST && bound >> number & 1;

		if (value.at && is_name)
			sql_names_add(&session->names, value);
		else if (value.at && (bound & SQL_PARAMETERS_ALL))
			session_add_placeholder(session, value);
	}
}

void session_bind(struct client *client, const struct frame *frame, struct bytes in)
{
	struct session *session = client->session;
	struct bind_fields bind;

	/* If it is not whole, a name may be in what follows. */
	if (in.count < frame->length)
		session->names.is_unknown |= (session->names.parameters & ~SQL_PARAMETERS_ALL) != 0;
	else if (fields_bind(frame_body(in, frame), &bind) == WIRE_OK)
		note_values(session, bind.parameters);
}

void session_note_alone(struct client *client, struct bytes text)
{
	struct session_set alone = { .errors = client->borrower.server->lease.error_count };
	struct session *session = client->session;

	if (client->touched != SQL_TOUCH_PARAMS || !sql_set_read(text, &alone.set))
		return;
	session->set = malloc(sizeof(*session->set));
	if (session->set)
		*session->set = alone;
}

void session_run_unknown(struct client *client)
{
	if (!session_is_watched(client))
		return;
	if (pool_sequences(&client->borrower) != CATALOG_SEQUENCES_NONE)
		pool_own_sequences(&client->borrower);
	client->touched |= SQL_TOUCH_HIDDEN;
	server_open_scope(client->borrower.server);
	server_hold(client->borrower.server, HELD_STATE);
}

void session_use_execute(struct client *client, struct statement *statement, struct bytes text)
{
	struct sql_names names = { 0 };
	unsigned int touches = statement ? statement->touches : 0;
	/* it names a statement itself: one of the server, which need not be the client's */
	bool is_nested =
	    (touches & (SQL_TOUCH_EXECUTE | SQL_TOUCH_PREPARE)) ||
	    ((touches & SQL_TOUCH_RELEASE) && sql_kind_of(statement_query(statement)) != SQL_OTHER);

	if (!session_is_watched(client))
		return;
	if (!statement || is_nested)
		session_run_unknown(client);
	touches = SQL_TOUCH_HIDDEN;
	if (statement && !is_nested)
		touches = session_statement_touches(client, statement);
	if (!(touches & NAMES))
		return;
	if (is_inside(touches))
		sql_names_read(&names, text, true);
	if ((touches & SESSION_TOUCH_NAMED) && !(statement->touches & NAMES))
		names.is_unknown = false;
	/* An argument may say which parameter is set: rare as that is, the server stays. */
	names.is_unknown |=
	    (is_nested && (statement->touches & SQL_TOUCH_EXECUTE)) ||
	    ((!statement || (statement->touches & SQL_TOUCH_PARAMS)) && bytes_contain(text, "(")) ||
	    (names.is_unclear && session_encoding_is_unclear(client));
	if (session_get(client)) {
		sql_names_merge(&client->session->names, &names);
		client->session->names.parameters = 0;
	}
	sql_names_free(&names);
}

void session_deallocated(struct client *client)
{
	if ((client->touched & DISCARDS) == DISCARDS && client->session)
		client->session->was_discarded = true;
}

/*
 * ---- session mode: what DISCARD ALL does not do between two clients ----
 *
 * What some functions keep in the session (connections of dblink, a replication origin) outlives
 * DISCARD ALL. So a server on which a client may have called them is closed when the client leaves.
 *
 * And a client that resets a parameter of its startup packet gets that value again, as it would
 * from PostgreSQL.
 *
 * A server does not report most parameters, and "SET x TO DEFAULT" is confirmed as any other SET
 * is. So a text that resets parameters is noted, and the server is asked for its parameters when
 * that transaction is over.
 */

bool session_mode_note(struct client *client, const struct frame *frame, struct bytes in)
{
	struct bytes text;
	struct err err;
	unsigned int touches = session_touches(client, frame, in, &text);

	if (touches & SQL_TOUCH_EXTENSION)
		server_hold(client->borrower.server, HELD_LASTING);
	if (touches & SQL_TOUCH_LIBRARY)
		server_hold(client->borrower.server, HELD_LOADS);
	note_definition(client, touches, own_touches(touches, text), text);
	if (touches & SQL_TOUCH_DATABASE)
		vacancy_begin(client->borrower.server, text,
		              frame->type == 'P' ? VACANCY_PARSED : VACANCY_BOUND);
	if (!(touches & SQL_TOUCH_DEFAULT) || !params_count(client->startup))
		return true;
	client->touched |= SQL_TOUCH_DEFAULT;
	return resets_use(client, text, frame->type == 'Q', false, &err);
}
