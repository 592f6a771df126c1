/* SPDX-License-Identifier: ISC */
/*
 * Errands: what we ask a server ourselves. There is one at a time; the replies are ours.
 *
 *   server_errand()       --> sent at once; its end: server_errand_done()
 *   server_errand_ahead() --> sent ahead of the borrower's next message; nobody waits for its end
 *   server_ask()          --> the question about session state; if it fails, asked in another way
 *   server_ask_behind()   --> the same, behind the borrower's last message
 *
 * What is done for a borrower ends with its on_answer().
 */
#include "server_priv.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "pgweir/base/container_of.h"
#include "pgweir/pgwire/message.h"
#include "pgweir/pool/server/question.h"

/*
 * ---- sequences ----
 *
 * DISCARD SEQUENCES goes ahead of a message that asks for their values or calls nextval().
 *
 * Hard here: it may fail, because a request to cancel the borrower's statement may come while it
 * runs. Nothing that relies on it may be answered then: the server is closed before.
 */

void server_discard_begin(struct server *server)
{
	server->session.discard = DISCARD_SENT;
	server->session.sequences = SEQUENCES_OWN;
}

void server_discard_end(struct server *server, bool is_done)
{
	enum server_discard discard = server->session.discard;

	server->session.discard = DISCARD_NONE;
	if (discard == DISCARD_NONE || is_done)
		return;
	server->session.sequences = SEQUENCES_FOREIGN;
	if (discard == DISCARD_NEEDED)
		server->wire.prefix_failure = CLOSE_SEQUENCES_KEPT;
}

/* The reply to a query of ours has arrived, which has the cleaning in it if server->is_cleaning. */
static void server_cleaning_end(struct server *server, bool is_done)
{
	if (!server->is_cleaning)
		return;
	server->is_cleaning = false;
	if (is_done)
		server->session.doubt = DOUBT_NONE;
	/* More may be sent now, which is kept only where there are other hosts. */
	if (is_done && server->site->hosts->count == 1)
		replay_end_resend(&server->lease.replay);
}

/* ---- errands ---- */

#define QUESTION_TRIES 5

/* Whoever may have such state keeps the server, so the question may go without an answer. */
#define NOT_VITAL                                                                             \
	((unsigned int)(QUESTION_PARAMS | QUESTION_CURSORS | QUESTION_TEMP | QUESTION_LOCKS | \
	                QUESTION_STATEMENTS))

static const struct {
	const char *name;
	enum close_reason failure; /* CLOSE_NONE: a failure is only logged */
} errands[] = {
	[ERRAND_NONE] = { "nothing", CLOSE_NONE },
	[ERRAND_CONNECT] = { "connect_query", CLOSE_NONE },
	[ERRAND_CHECK] = { "server_check_query", CLOSE_NONE },
	[ERRAND_RESET] = { "server_reset_query", CLOSE_RESET_FAILED },
	[ERRAND_REPLAY] = { "parameters", CLOSE_NONE },
	[ERRAND_SET_BACK] = { "parameters", CLOSE_BAD_SERVER_PARAMETER },
	[ERRAND_CHANNELS] = { "UNLISTEN", CLOSE_QUESTION_FAILED },
	[ERRAND_CLOSES] = { "Close", CLOSE_QUESTION_FAILED },
	[ERRAND_ASK] = { "the question about session state", CLOSE_QUESTION_FAILED },
	[ERRAND_CATALOG] = { "the question about the catalog", CLOSE_NONE },
	[ERRAND_ROLE] = { "the role question", CLOSE_NONE },
};

static void begin_errand(struct server *server, enum errand_kind kind)
{
	assert(server->errand == ERRAND_NONE);
	server->errand = kind;
	server->errand_failed = false;
	server->wire.is_ready = false;
	if (server->state == SERVER_LENT) /* the other states have this limit anyway */
		timer_set(&server->timer, server->site->limits.connect,
		          loop_now(server->site->shared->loop));
}

/* Sends the messages, which are in the ledger if is_noted. */
static bool send_errand(struct server *server, bool is_noted)
{
	struct buf *out = server->site->shared->errand_message;
	bool is_sent = is_noted && buf_ok(out) && stream_send(&server->wire.stream, buf_bytes(out));

	buf_reuse(out, ERRAND_KEEP_MAX);
	if (!is_sent)
		server_break(server);
	return is_sent;
}

static bool note(struct server *server, enum ledger_kind kind)
{
	return ledger_add(&server->wire.ledger, kind, LEDGER_INTERNAL) == LEDGER_SENT;
}

/* Closes the portal and the statement with the scratch name. */
static bool add_closes(struct server *server, enum ledger_fate fate, struct buf *out)
{
	MESSAGE_STATIC(portal, 'C', "P" SCRATCH_NAME);
	MESSAGE_STATIC(statement, 'C', "S" SCRATCH_NAME);

	buf_add(out, (const char *)&portal, sizeof(portal));
	buf_add(out, (const char *)&statement, sizeof(statement));
	return server_note_change(server, LEDGER_CLOSE, fate, NULL) == LEDGER_SENT &&
	       server_note_change(server, LEDGER_CLOSE, fate, NULL) == LEDGER_SENT;
}

bool server_add_apart(struct server *server, struct bytes statement, enum ledger_fate fate,
                      struct ledger_change *change, struct buf *out)
{
	/* without parameters and formats, and all rows of it */
	MESSAGE_STATIC(bind, 'B', SCRATCH_NAME "\0" SCRATCH_NAME "\0\0\0\0\0\0");
	MESSAGE_STATIC(execute, 'E', SCRATCH_NAME "\0\0\0\0");
	size_t at;

	if (!add_closes(server, fate, out))
		return false;
	at = message_begin(out, 'P');
	buf_add_cstr(out, SCRATCH_NAME);
	buf_add(out, statement.at, statement.count);
	buf_add(out, "\0\0", 3);
	message_end(out, at);
	buf_add(out, (const char *)&bind, sizeof(bind));
	buf_add(out, (const char *)&execute, sizeof(execute));
	return server_note_change(server, LEDGER_PARSE, fate, NULL) == LEDGER_SENT &&
	       server_note_change(server, LEDGER_BIND, fate, NULL) == LEDGER_SENT &&
	       server_note_change(server, LEDGER_EXECUTE, fate, change) == LEDGER_SENT &&
	       add_closes(server, fate, out);
}

/* The statements of the text have no semicolon but between them. All is one transaction. */
static bool add_all_apart(struct server *server, const char *text, struct buf *out)
{
	bool is_noted = true;

	for (; is_noted && *text; text += strcspn(text, ";"), text += *text == ';')
		is_noted = server_add_apart(server, bytes_of(text, strcspn(text, ";")),
		                            LEDGER_INTERNAL, NULL, out);
	message_sync(out);
	return is_noted && note(server, LEDGER_SYNC);
}

bool server_errand(struct server *server, enum errand_kind kind, enum errand_how how,
                   const char *text)
{
	struct buf *out = server->site->shared->errand_message;

	begin_errand(server, kind);
	if (how == ERRAND_APART)
		return send_errand(server, add_all_apart(server, text, out));
	message_query(out, text);
	return send_errand(server, note(server, LEDGER_QUERY));
}

void server_close_statements(struct server *server, struct bytes names)
{
	struct buf *out = server->site->shared->errand_message;
	bool is_noted = true;
	const char *name;

	begin_errand(server, ERRAND_CLOSES);
	while (is_noted && bytes_take_text(&names, &name)) {
		size_t at = message_begin(out, 'C');

		buf_add_byte(out, 'S');
		buf_add_cstr(out, name);
		message_end(out, at);
		is_noted = note(server, LEDGER_CLOSE);
	}
	message_sync(out);
	send_errand(server, is_noted && note(server, LEDGER_SYNC));
}

static void settle_ahead(struct ledger_change *change, bool is_done)
{
	struct server *server = container_of(change, struct server, wire.prefix_change);
	bool was_cleaning = server->is_cleaning;

	server_discard_end(server, is_done);
	server_cleaning_end(server, is_done);
	if (is_done || server_is_over(server))
		return;
	if (was_cleaning) {
		server->wire.prefix_failure = CLOSE_CLEANING_FAILED;
		return;
	}
	log_warning(&server->log, "parameters could not be set; it is closed after this client");
	server_need_close(server, CLOSE_PARAMETERS_NOT_SET);
}

static bool note_ahead(struct server *server, enum ledger_kind kind, struct ledger_change *change)
{
	return server_note_change(server, kind, LEDGER_IGNORE, change) == LEDGER_SENT;
}

/*
 * Adds a transaction block, and behind it a Parse that fails if the block has failed: then
 * PostgreSQL skips all that it reads before the next Sync, Queries too. The statement of the Parse
 * is never executed. The session's own modes may be others: to wait, or to be refused on a standby.
 */
static bool add_fenced(struct server *server, const char *query)
{
	MESSAGE_STATIC(close, 'C', "S" SCRATCH_NAME);
	MESSAGE_STATIC(parse, 'P', SCRATCH_NAME "\0CLOSE ALL\0\0");
	struct buf *prefix = &server->wire.prefix;
	size_t at = message_begin(prefix, 'Q');

	buf_add_text(prefix, "BEGIN ISOLATION LEVEL READ COMMITTED,READ ONLY;");
	buf_add_text(prefix, query);
	buf_add_text(prefix, "COMMIT");
	buf_add_byte(prefix, 0);
	message_end(prefix, at);
	buf_add(prefix, (const char *)&close, sizeof(close));
	buf_add(prefix, (const char *)&parse, sizeof(parse));
	buf_add(prefix, (const char *)&close, sizeof(close));
	return note_ahead(server, LEDGER_QUERY, NULL) && note_ahead(server, LEDGER_CLOSE, NULL) &&
	       note_ahead(server, LEDGER_PARSE, &server->wire.prefix_change) &&
	       note_ahead(server, LEDGER_CLOSE, NULL);
}

bool server_errand_ahead(struct server *server, const char *query)
{
	bool is_noted;

	server->wire.prefix_change = (struct ledger_change){ .settle = settle_ahead };
	if (server->is_cleaning) {
		is_noted = add_fenced(server, query);
	} else {
		message_query(&server->wire.prefix, query);
		is_noted = note_ahead(server, LEDGER_QUERY, &server->wire.prefix_change);
	}
	if (is_noted && buf_ok(&server->wire.prefix))
		return true;
	server_break(server);
	return false;
}

/* ---- the question ---- */

static void write_question(const struct server *server, struct buf *text)
{
	const char *version = params_find(server->session.baseline, "server_version");
	struct server_question *question = server->question;

	question->try_count++;
	question_text(question->facts.parts, buf_bytes(&question->names),
	              version ? (unsigned int)strtoul(version, NULL, 10) : 0, text);
	buf_add_byte(text, 0);
}

static void send_question(struct server *server)
{
	struct buf text = { 0 };

	write_question(server, &text);
	if (!buf_ok(&server->question->names) || !buf_ok(&text))
		server_break(server);
	else
		server_errand(server, ERRAND_ASK, server->question->how, text.at);
	buf_free(&text);
}

void server_ask(struct server *server, enum errand_how how, unsigned int parts, struct bytes names)
{
	server->question = calloc(1, sizeof(*server->question));
	if (!server->question) {
		server_break(server);
		return;
	}
	server->question->how = how;
	server->question->facts.parts = parts;
	buf_add(&server->question->names, names.at, names.count);
	send_question(server);
}

bool server_ask_behind(struct server *server, unsigned int parts, struct buf *out)
{
	struct buf text = { 0 };
	bool is_added;

	server->question = calloc(1, sizeof(*server->question));
	if (!server->question)
		return false;
	server->question->facts.parts = parts;
	write_question(server, &text);
	if (buf_ok(&text))
		message_query(out, text.at);
	is_added =
	    buf_ok(&text) && buf_ok(out) && out->count <= UINT16_MAX && note(server, LEDGER_QUERY);
	if (is_added)
		server->ask_size = (uint16_t)out->count;
	else
		server_question_free(&server->question);
	buf_free(&text);
	return is_added;
}

void server_begin_ask(struct server *server)
{
	server->ask_size = 0;
	server->errand = ERRAND_ASK;
	server->errand_failed = false;
	timer_set(&server->timer, server->site->limits.connect,
	          loop_now(server->site->shared->loop));
}

void server_drop_question(struct server *server)
{
	if (!server->ask_size)
		return;
	ledger_ignore_question(&server->wire.ledger);
	server->ask_size = 0;
	server_question_free(&server->question);
}

/*
 * The question has failed. It is canceled by a cancel request that came late, or by a short
 * statement_timeout before that is put aside. Otherwise a name may be one that this role must not
 * ask for, or it must not call a function that the question needs. false: it is not asked again;
 * then facts.parts is 0 if that does not matter.
 */
static bool ask_again(struct server *server)
{
	struct server_question *question = server->question;
	unsigned int parts = question->facts.parts;
	unsigned int unknown = question->facts.unknown;
	bool lacks_names = question->facts.lacks_names;

	if (server->wire.status != 'I' || question->try_count >= QUESTION_TRIES)
		return false;
	facts_done(&question->facts);
	question->facts.parts = parts;
	if (question->was_canceled) {
		/* the same again */
	} else if (question->names.count) {
		buf_free(&question->names);
		lacks_names = true;
	} else if (question->lacks_rights && (parts & NOT_VITAL)) {
		unknown |= parts & NOT_VITAL;
		parts &= ~NOT_VITAL;
	} else {
		return false;
	}
	question->was_canceled = false;
	question->facts.parts = parts;
	question->facts.unknown = unknown;
	question->facts.lacks_names = lacks_names;
	if (parts)
		send_question(server);
	return parts;
}

void server_change_channels(struct server *server, const char *before, const char *query)
{
	struct buf out = { 0 };
	bool is_sent = true;

	if (before) {
		message_query(&out, before);
		is_sent =
		    buf_ok(&out) && stream_send(&server->wire.stream, buf_bytes(&out)) &&
		    ledger_add(&server->wire.ledger, LEDGER_QUERY, LEDGER_IGNORE) == LEDGER_SENT;
	}
	buf_free(&out);
	if (is_sent)
		server_errand(server, ERRAND_CHANNELS, ERRAND_AT_ONCE, query);
	else
		server_break(server);
}

/* An errand for the borrower is done. */
static void answer(struct server *server, enum errand_kind kind)
{
	struct server_question *question = server->question;
	const struct borrower_ops *ops = server->lease.borrower->ops;

	server->question = NULL;
	timer_clear(&server->timer);
	if (question && question->facts.is_broken)
		server_close_for(server, CLOSE_QUESTION_FAILED);
	else
		ops->on_answer(server->lease.borrower, kind, question ? &question->facts : NULL);
	server_question_free(&question);
}

/* The errand has done what it is for, or its failure does not matter. */
static void go_on_after(struct server *server, enum errand_kind kind)
{
	switch (kind) {
	case ERRAND_CONNECT:
		if (server->site->is_followed && !server_is_dedicated(server))
			server_ask_defaults(server);
		else
			server->site->ops->on_login_done(server);
		return;
	case ERRAND_REPLAY:
		server_discard_end(server, !server->errand_failed);
		server_cleaning_end(server, !server->errand_failed);
		if (server->errand_failed) {
			server->site->ops->on_params_refused(server);
			return;
		}
		params_release(server->site->shared->params, &server->session.before);
		timer_clear(&server->timer);
		server->lease.borrower->ops->on_lent(server->lease.borrower);
		return;
	case ERRAND_ASK:
		if (server->state != SERVER_LOGIN)
			break;
		server_take_defaults(server, &server->question->facts);
		server_question_free(&server->question);
		server->site->ops->on_login_done(server);
		return;
	case ERRAND_CATALOG:
		server->site->ops->on_catalog_end(server, server->errand_failed);
		break;
	case ERRAND_RESET:
		server->session.has_session = server->session.is_dirty = false;
		server->session.doubt = DOUBT_NONE;
		break;
	default:
		break;
	}
	if (server->state == SERVER_LENT)
		answer(server, kind);
	else
		server->site->ops->on_home(server);
}

void server_errand_done(struct server *server)
{
	enum errand_kind kind = server->errand;

	server->errand = ERRAND_NONE;
	if (server->errand_failed && kind != ERRAND_ROLE)
		log_warning(&server->log, "%s failed", errands[kind].name);
	if (server->errand_failed && kind == ERRAND_ASK && ask_again(server))
		return;
	if (server->errand_failed && errands[kind].failure && server->state != SERVER_LOGIN &&
	    (kind != ERRAND_ASK || server->question->facts.parts)) {
		server_close_for(server, errands[kind].failure);
		return;
	}
	if (server->wire.status != 'I') {
		server_close_with(server, ERR_STATE, "a query of our own left a transaction open");
		return;
	}
	server->wire.is_ready = true;
	go_on_after(server, kind);
}
