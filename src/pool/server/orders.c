/* SPDX-License-Identifier: ISC */
/*
 * Orders: what we ask a server ourselves.
 *
 *   server_order() --> written, noted and sent --> its rows and errors --> server_order_done()
 *                                                                          ahead: settle_ahead()
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
 * runs. Nothing that relies on it may be answered then: the server is closed before. Within a batch
 * of the borrower, PostgreSQL skips it behind an error, and what is behind it up to the Sync. What
 * asks behind that Sync waits until it is answered.
 */

void server_discard_end(struct server *server, bool is_done)
{
	enum server_discard discard = server->lease.sequences.discard;

	server->lease.sequences.discard = DISCARD_NONE;
	if (discard == DISCARD_NONE || is_done)
		return;
	server->lease.sequences.state = SEQUENCES_FOREIGN;
	if (discard == DISCARD_NEEDED)
		server->orders.failure = CLOSE_SEQUENCES_KEPT;
}

static void settle_ahead(struct ledger_change *change, bool is_done)
{
	struct server *server = container_of(change, struct server, orders.ahead_change);

	server_discard_end(server, is_done);
	if (is_done || server_is_over(server))
		return;
	log_warning(&server->log, "parameters could not be set; it is closed after this client");
	server_need_close(server, CLOSE_PARAMETERS_NOT_SET);
}

/* ---- what is written ---- */

static bool note(struct server *server, enum ledger_kind kind, struct ledger_change *change)
{
	return server_note_change(server, kind, LEDGER_OURS, change);
}

/* Closes the portal and the statement with the scratch name. */
static bool add_closes(struct server *server, enum ledger_fate fate, struct buf *out)
{
	MESSAGE_STATIC(portal, 'C', "P" SCRATCH_NAME);
	MESSAGE_STATIC(statement, 'C', "S" SCRATCH_NAME);

	buf_add(out, (const char *)&portal, sizeof(portal));
	buf_add(out, (const char *)&statement, sizeof(statement));
	return server_note_change(server, LEDGER_CLOSE, fate, NULL) &&
	       server_note_change(server, LEDGER_CLOSE, fate, NULL);
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
	return server_note_change(server, LEDGER_PARSE, fate, NULL) &&
	       server_note_change(server, LEDGER_BIND, fate, NULL) &&
	       server_note_change(server, LEDGER_EXECUTE, fate, change) &&
	       add_closes(server, fate, out);
}

/* All is one transaction. */
static bool add_all_apart(struct server *server, const char *text, struct buf *out)
{
	bool is_noted = true;

	for (; is_noted && *text; text += strcspn(text, ";"), text += *text == ';')
		is_noted = server_add_apart(server, bytes_of(text, strcspn(text, ";")), LEDGER_OURS,
		                            NULL, out);
	message_bare(out, 'S');
	return is_noted && note(server, LEDGER_SYNC, NULL);
}

static bool add_named_closes(struct server *server, struct bytes names, struct buf *out)
{
	bool is_noted = true;

	for (const char *name; is_noted && bytes_take_text(&names, &name);) {
		size_t at = message_begin(out, 'C');

		buf_add_byte(out, 'S');
		buf_add_cstr(out, name);
		message_end(out, at);
		is_noted = note(server, LEDGER_CLOSE, NULL);
	}
	message_bare(out, 'S');
	return is_noted && note(server, LEDGER_SYNC, NULL);
}

static bool add_question(struct server *server, bool is_apart, struct buf *out)
{
	const char *version = params_find(server->session.baseline, "server_version");
	struct server_question *question = server->orders.question;
	struct buf text = { 0 };
	bool is_added;

	question->try_count++;
	question_text(question->facts.parts, buf_bytes(&question->names),
	              version ? (unsigned int)strtoul(version, NULL, 10) : 0, &question->wait,
	              &text);
	buf_add_byte(&text, 0);
	is_added = buf_ok(&question->names) && buf_ok(&text);
	if (is_added && is_apart)
		is_added = add_all_apart(server, text.at, out);
	else if (is_added) {
		message_query(out, text.at);
		is_added = buf_ok(out) && note(server, LEDGER_QUERY, NULL);
	}
	buf_free(&text);
	return is_added;
}

/* Adds the messages, and notes them. */
static bool add_order(struct server *server, const struct order *order, struct buf *out)
{
	switch (order->kind) {
	case ORDER_ASK:
		return add_question(server, order->is_apart, out);
	case ORDER_CLOSES:
		return add_named_closes(server, order->names, out);
	default:
		if (order->is_apart)
			return add_all_apart(server, order->text, out);
		message_query(out, order->text);
		return note(server, LEDGER_QUERY,
		            order->where == SENT_AHEAD ? &server->orders.ahead_change : NULL);
	}
}

/* ---- given ---- */

static void question_row(struct server *server, struct bytes row)
{
	facts_row(&server->orders.question->facts, row);
}

static void begin(struct server *server, const struct order *order)
{
	assert(server->orders.running == ORDER_NONE);
	server->orders.running = order->kind;
	server->orders.has_failed = server->orders.has_cleaned = false;
	server->orders.on_row = order->kind == ORDER_ASK ? question_row : order->on_row;
	server->orders.on_done = order->on_done;
	if (server->state == SERVER_LENT) /* the other states have this limit anyway */
		timer_set(&server->timer, server->site->limits.connect,
		          loop_now(server->site->shared->loop));
}

static bool give(struct server *server, const struct order *order)
{
	struct buf *out = server->site->shared->order_message;
	bool is_sent;

	switch (order->where) {
	case SENT_BEHIND:
		is_sent = add_order(server, order, order->out);
		server->orders.behind_size = is_sent ? (uint32_t)order->out->count : 0;
		return is_sent;
	case SENT_AHEAD:
		server->orders.ahead_change = (struct ledger_change){ .settle = settle_ahead };
		return add_order(server, order, &server->orders.ahead) &&
		       buf_ok(&server->orders.ahead);
	case SENT_AT_REST:
		begin(server, order);
		__attribute__((fallthrough));
	default:
		is_sent = add_order(server, order, out) && buf_ok(out) &&
		          stream_send(&server->wire.stream, buf_bytes(out));
		buf_reuse(out, ORDER_KEEP_MAX);
		return is_sent;
	}
}

static bool begin_question(struct server *server, const struct order *order)
{
	struct server_question *question = calloc(1, sizeof(*question));

	if (!question)
		return false;
	question->is_apart = order->is_apart;
	question->facts.parts = order->parts;
	if (!server->orders.cannot_wait)
		question->wait = order->wait;
	buf_add(&question->names, order->names.at, order->names.count);
	server->orders.question = question;
	return true;
}

bool server_order(struct server *server, const struct order *order)
{
	bool is_given =
	    (order->kind != ORDER_ASK || begin_question(server, order)) && give(server, order);

	if (!is_given && order->where == SENT_BEHIND)
		server_question_free(&server->orders.question);
	else if (!is_given)
		server_break(server);
	return is_given;
}

void server_begin_behind(struct server *server)
{
	server->orders.behind_size = 0;
	begin(server, &(struct order){ .kind = ORDER_ASK });
}

void server_drop_behind(struct server *server)
{
	server->orders.behind_size = 0;
	server_question_free(&server->orders.question);
}

/* ---- their end ---- */

#define QUESTION_TRIES 5

/* Whoever may have such state keeps the server, so the question may go without an answer. */
#define NOT_VITAL                                                                             \
	((unsigned int)(QUESTION_PARAMS | QUESTION_CURSORS | QUESTION_TEMP | QUESTION_LOCKS | \
	                QUESTION_STATEMENTS))

static const struct {
	const char *name;
	enum close_reason failure; /* CLOSE_NONE: a failure is only logged */
} orders[] = {
	[ORDER_NONE] = { "nothing", CLOSE_NONE },
	[ORDER_CONNECT] = { "connect_query", CLOSE_NONE },
	[ORDER_CHECK] = { "server_check_query", CLOSE_NONE },
	[ORDER_RESET] = { "server_reset_query", CLOSE_RESET_FAILED },
	[ORDER_REPLAY] = { "parameters", CLOSE_NONE },
	[ORDER_CHANNELS] = { "UNLISTEN", CLOSE_QUESTION_FAILED },
	[ORDER_CLOSES] = { "Close", CLOSE_QUESTION_FAILED },
	[ORDER_PROOF] = { "the proof that replies are in step", CLOSE_QUESTION_FAILED },
	[ORDER_ASK] = { "the question about session state", CLOSE_QUESTION_FAILED },
	[ORDER_CATALOG] = { "the question about the catalog", CLOSE_NONE },
	[ORDER_ROLE] = { "the role question", CLOSE_NONE },
	[ORDER_SLOTS] = { "the question how many sessions PostgreSQL grants", CLOSE_NONE },
};

/*
 * The question has failed. It is canceled by a cancel request that came late, or by a short
 * statement_timeout before that is put aside. Otherwise it may not be able to wait, or a name may
 * be one that this role must not ask for, or it must not call a function that the question needs.
 * false: it is not asked again; then facts.parts is 0 if that does not matter.
 */
static bool ask_again(struct server *server)
{
	struct server_question *question = server->orders.question;
	struct facts next = { .parts = question->facts.parts,
		              .unknown = question->facts.unknown,
		              .lacks_names = question->facts.lacks_names };

	if (server->wire.status != 'I' || question->try_count >= QUESTION_TRIES)
		return false;
	facts_done(&question->facts);
	question->facts = next;
	if (question->was_canceled) {
		/* the same again */
	} else if (question->wait.position) {
		server->orders.cannot_wait = true;
		question->wait.position = 0;
	} else if (question->names.count) {
		buf_free(&question->names);
		next.lacks_names = true;
	} else if (question->lacks_rights && (next.parts & NOT_VITAL)) {
		next.unknown |= next.parts & NOT_VITAL;
		next.parts &= ~NOT_VITAL;
	} else {
		return false;
	}
	question->was_canceled = false;
	question->facts = next;
	if (next.parts &&
	    !give(server, &(struct order){ .kind = ORDER_ASK, .is_apart = question->is_apart }))
		server_break(server);
	return next.parts;
}

/* An order for the borrower is done. */
static void answer(struct server *server, enum order_kind kind)
{
	struct server_question *question = server->orders.question;
	const struct borrower_ops *ops = server->lease.borrower->ops;

	server->orders.question = NULL;
	timer_clear(&server->timer);
	if (question &&
	    (question->facts.channels.count || (question->facts.too_long & QUESTION_CHANNELS)))
		server_hold(server, HELD_CHANNELS);
	if (question && question->facts.is_broken)
		server_close_for(server, CLOSE_QUESTION_FAILED);
	else
		ops->on_answer(server->lease.borrower, kind, question ? &question->facts : NULL);
	server_question_free(&question);
}

/* The order has done what it is for, or its failure does not matter. */
static void go_on_after(struct server *server, enum order_kind kind)
{
	bool is_all = server->state == SERVER_LOGIN || kind == ORDER_REPLAY;

	if (server->orders.on_done)
		server->orders.on_done(server);
	if (is_all || server_is_over(server))
		return;
	if (server->state == SERVER_LENT)
		answer(server, kind);
	else
		server->site->ops->on_home(server);
}

void server_order_done(struct server *server)
{
	enum order_kind kind = server->orders.running;

	/* The borrower has not sent anything: it gets another server. */
	if (kind == ORDER_REPLAY && server->orders.has_failed && !server->orders.has_cleaned &&
	    server_is_cleaning(server)) {
		server_close_for(server, CLOSE_CLEANING_FAILED);
		return;
	}
	server->orders.running = ORDER_NONE;
	server->orders.on_row = NULL;
	if (server->orders.has_failed && kind != ORDER_ROLE)
		log_warning(&server->log, "%s failed", orders[kind].name);
	if (server->orders.has_failed && kind == ORDER_ASK && ask_again(server))
		return;
	if (server->orders.has_failed && orders[kind].failure && server->state != SERVER_LOGIN &&
	    (kind != ORDER_ASK || server->orders.question->facts.parts)) {
		server_close_for(server, orders[kind].failure);
		return;
	}
	if (server->wire.status != 'I') {
		server_close_with(server, ERR_STATE, "a query of our own left a transaction open");
		return;
	}
	server->wire.is_ready = true;
	go_on_after(server, kind);
}
