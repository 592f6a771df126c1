/* SPDX-License-Identifier: ISC */
/*
 * What a server's ErrorResponse means: who gets the error, and in which form.
 *
 *   no request, or FATAL --> the borrower's last message, or the reason to close the server
 *   of an order         --> the log; the borrower if its parameters are refused
 *                            (the server is kept: its own parameters are unchanged)
 *   of a request         --> the borrower: unchanged, or with the client's name of the
 *                            statement, or replaced by ours; or nobody: the request is retried
 *
 * Hard here: an error may be longer than what is awaited, so only its start may be available.
 * Severity and SQLSTATE come first. A name in the text is replaced only if the whole error is
 * available.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pgweir/base/probes.h"
#include "pgweir/base/close_reason.h"
#include "pgweir/pgwire/fields.h"
#include "pgweir/pgwire/message.h"

#include "server_priv.h"

void server_read_error(struct server_error *error, struct bytes body)
{
	struct report *report = &error->report;
	const char *severity;

	error->body = body;
	error->is_whole = fields_report(body, report) == WIRE_OK;
	if (!error->is_whole) {
		char *start = error->start;
		size_t count = body.count < ERROR_PREFIX - 2 ? body.count : ERROR_PREFIX - 2;

		memcpy(start, body.at, count);
		start[count] = start[count + 1] = 0; /* end a cut field, and the list */
		fields_report(bytes_of(start, count + (count && start[count - 1] == 0 ? 1 : 2)),
		              report);
	}
	severity = report->verbatim ? report->verbatim : report->severity;
	error->is_fatal = strcmp(severity, "FATAL") == 0 || strcmp(severity, "PANIC") == 0;
}

/* Counts an error that the client gets. */
static void note_said(const struct server *server, const char *sqlstate, const char *severity,
                      bool is_ours)
{
	const struct server_site *site = server->site;

	PROBE_ERROR(borrower_client_id(server->lease.borrower), site->database, site->user,
	            sqlstate, is_ours);
	if (site->sqlstates)
		sqlstates_note(site->sqlstates, &(struct sqlstate_said){ .sqlstate = sqlstate,
		                                                         .severity = severity,
		                                                         .is_ours = is_ours,
		                                                         .database = site->database,
		                                                         .user = site->user });
}

/* The same, of an error as PostgreSQL has sent it. */
static void note_error(const struct server *server, const struct report *report)
{
	note_said(server, report->sqlstate, report->verbatim ? report->verbatim : report->severity,
	          false);
}

/*
 * Whether a FATAL error is the first reply to a batch that has not run, and can be sent to another
 * server; or ends a session that has only begun a transaction, but not because that was idle for
 * too long (25P03), or took too long (25P04). idle_session_timeout (57P05) ends only a session that
 * is idle, or has just read a message and not executed any of it. An end by an administrator
 * (57P01) may interrupt a statement; but not one behind a BEGIN, if the session has ended before
 * the reply to that. Only PostgreSQL itself knows this, and its errors name a routine of its
 * source. A pooler in between may end the session while PostgreSQL has sent the reply already.
 */
static bool is_before_batch(const struct server *server, const struct report *report)
{
	bool is_end = strncmp(report->sqlstate, "57P", 3) == 0;
	/* BEGIN, or more of the opening, is to be answered before the rest can run */
	bool owes_opening = replay_count_opening(&server->lease.replay) ||
	                    ledger_owes(&server->wire.ledger, LEDGER_OURS);

	if (server_has_only_begun(server))
		return is_end;
	if (server_has_not_run(server))
		return true;
	return server_may_resend(server) && (strcmp(report->sqlstate, "57P05") == 0 ||
	                                     (is_end && report->routine && owes_opening));
}

/*
 * A request of ours was refused. If that is the cleaning, for good, DISCARD ALL comes instead; but
 * not if a parameter was refused that the borrower wants.
 */
static void ours_refused(struct server *server, const struct report *report)
{
	struct ledger_change *change = ledger_take_failed(&server->wire.ledger);

	if (server_is_cleaning(server) && !server->orders.has_cleaned) {
		log_warning(&server->log, "cleaning failed: %s %s: %s", report->severity,
		            report->sqlstate, report->text);
		/* a right is missing, or this PostgreSQL does not have a statement: for good */
		server->site->cannot_clean |= strncmp(report->sqlstate, "42", 2) == 0 ||
		                              strncmp(report->sqlstate, "0A", 2) == 0;
	}
	/* At once: behind it, no Query is answered. */
	if (change)
		change->settle(change, false);
}

void server_out_of_step(struct server *server, enum ledger_verdict verdict)
{
	if (verdict == LEDGER_DOUBT)
		server_close_as(server, ERR_PROTOCOL, CLOSE_COPY_OUT_OF_STEP);
	else if (server_got_fatal(server))
		server_close_as(server, ERR_PROTOCOL, CLOSE_SERVER_ENDED);
	else
		server_close_with(server, ERR_PROTOCOL,
		                  "unexpected message from server: out of step");
}

/*
 * It answers no request, or one of a listening connection, which ends. FATAL is forwarded, as the
 * last message, unless the batch is sent to another server, or the borrower goes on without this
 * one: then it does not get it. With others the server is out of step.
 */
static enum frame_fate unasked_error(struct server *server, const struct server_error *error)
{
	const struct borrower *borrower = server->lease.borrower;
	/* a client that waits with its server until another one has read the catalog goes on */
	bool goes_on =
	    borrower && borrower->ops->needs_no_server && borrower->ops->needs_no_server(borrower);
	bool is_for_borrower = server->state == SERVER_LENT && !server->is_listening &&
	                       server->orders.running == ORDER_NONE && error->is_fatal && !goes_on;
	bool is_again = is_for_borrower && server_got_fatal(server);
	const struct report *report = &error->report;
	struct err err;

	if (!is_again)
		log_warning(&server->log, "server said: %s %s: %s", report->severity,
		            report->sqlstate, report->text);
	err_set_foreign(&err, report->sqlstate, report->text);
	err_prefix(&err, "server said: %s ", report->severity);
	if (!is_for_borrower)
		return server_close(server, &err), FRAME_STOP;
	if (!is_again && is_before_batch(server, report))
		return server_close_unrun(server, &err), FRAME_STOP;
	server->wire.farewell = FAREWELL_FATAL;
	note_error(server, report);
	return FRAME_PASS;
}

static void order_error(struct server *server, const struct report *report)
{
	server->orders.has_failed = true;
	if (server->orders.running == ORDER_ROLE) {
		/* asked again in a shorter form */
		log_debug(&server->log, "%s %s: %s", report->severity, report->sqlstate,
		          report->text);
		return;
	}
	log_warning(&server->log, "%s %s: %s", report->severity, report->sqlstate, report->text);
	if (server->orders.running == ORDER_ASK) {
		server->orders.question->was_canceled = strcmp(report->sqlstate, "57014") == 0;
		server->orders.question->lacks_rights = strcmp(report->sqlstate, "42501") == 0;
	}
	if (server->orders.running != ORDER_REPLAY || server->orders.refusal)
		return;
	/* Kept for the borrower, which gets this error when the order is complete. */
	server->orders.refusal = calloc(1, sizeof(*server->orders.refusal));
	if (server->orders.refusal)
		err_set_foreign(server->orders.refusal, report->sqlstate, report->text);
}

/* ---- errors in another form for the client ---- */

/* The server was made to refuse a request: the client gets our error. */
struct refusal {
	struct ledger_change base;
	char sqlstate[SQLSTATE_SIZE];
	struct buf message;
};

static void settle_refusal(struct ledger_change *change, bool is_done)
{
	(void)is_done;
	buf_free(&((struct refusal *)change)->message);
	free(change);
}

struct ledger_change *server_refusal(const struct err *err)
{
	struct refusal *refusal = calloc(1, sizeof(*refusal));

	if (!refusal)
		return NULL;
	refusal->base.settle = settle_refusal;
	memcpy(refusal->sqlstate, err->sqlstate, sizeof(refusal->sqlstate));
	/* pgjdbc and asyncpg prepare again if the routine is this one. */
	message_error(&refusal->message,
	              &(struct report){ .severity = "ERROR",
	                                .verbatim = "ERROR",
	                                .sqlstate = err->sqlstate,
	                                .text = err->text,
	                                .detail = *err->detail ? err->detail : NULL,
	                                .hint = err->hint,
	                                .routine = err->code == ERR_PLAN_CHANGED
	                                               ? "RevalidateCachedQuery"
	                                               : NULL });
	if (buf_ok(&refusal->message))
		return &refusal->base;
	settle_refusal(&refusal->base, false);
	return NULL;
}

/* The position of one of our names in an error. NULL: not found. */
static const char *find_name(struct bytes body, struct bytes name)
{
	const char *at = name.count ? memmem(body.at, body.count, name.at, name.count) : NULL;
	const char *end = body.at + body.count, *behind = at ? at + name.count : NULL;

	return !at || (behind < end && *behind >= '0' && *behind <= '9') ? NULL : at;
}

/* The name of a statement that the error uses. NULL: the scratch name. Empty: none. */
static struct bytes find_ours(struct server *server, struct bytes body,
                              const struct statement *statement)
{
	struct bytes name = statement ? statement_name(statement) : bytes_text(SCRATCH_NAME);
	const struct server_statement *there = NULL;
	const char *at = find_name(body, name);

	if (!at && statement)
		there = server_statements_find(&server->session.statements, statement, false);
	if (there) {
		name = statement_image_name(there->image);
		at = find_name(body, name);
	}
	return at ? bytes_of(at, name.count) : bytes_of("", 0);
}

/*
 * The position of an error in the client's text. 0: none. In an EXECUTE, it may be a position in
 * the text of the prepared statement, which PostgreSQL has analyzed again; but then the error is
 * not about a value.
 */
static unsigned long position_of(const struct ledger_change *change, const char *position,
                                 const char *sqlstate)
{
	const struct server_renaming *renaming = change->renaming;
	unsigned long at = strtoul(position, NULL, 10);
	bool is_behind = at > (unsigned long)renaming->before + renaming->ours;

	if (!renaming->is_known ||
	    (change->statement && !(is_behind && strncmp(sqlstate, "22", 2) == 0)))
		return 0;
	if (is_behind)
		return at - renaming->ours + renaming->theirs;
	return at <= renaming->before ? at : (unsigned long)renaming->before + 1;
}

/* Adds the fields of an error. renamed: of a text with our name, or NULL. */
static void add_fields(struct buf *out, struct bytes body, const struct ledger_change *renamed,
                       const char *sqlstate)
{
	const char *text;

	while (body.count && body.at[0]) {
		char type = body.at[0], digits[24];

		body = bytes_skip(body, 1);
		if (!bytes_take_text(&body, &text))
			return;
		if (type == 'P' && renamed) {
			unsigned long at = position_of(renamed, text, sqlstate);

			if (!at)
				continue;
			snprintf(digits, sizeof(digits), "%lu", at);
			text = digits;
		}
		buf_add_byte(out, type);
		buf_add_cstr(out, text);
	}
}

/* The borrower's HINT for a refusal, and its DETAIL. NULL: the error says enough. */
static const char *explain(const struct server *server, const struct report *report,
                           struct buf *detail)
{
	struct borrower *borrower = server->lease.borrower;

	if (strcmp(report->sqlstate, "25006") != 0 || report->detail || report->hint || !borrower ||
	    !borrower->ops->explains_refusal)
		return NULL;
	return borrower->ops->explains_refusal(borrower, detail);
}

/*
 * With the client's name of the statement and its position, or else with the borrower's words.
 * false: no change is needed.
 */
static bool say_changed(struct server *server, struct bytes body, const struct report *report,
                        const struct ledger_change *change)
{
	bool is_text = change && change->renaming;
	struct bytes name =
	    change && change->name ? find_ours(server, body, change->statement) : bytes_of("", 0);
	struct buf *out = &server->wire.replacement, renamed = { 0 }, detail = { 0 };
	const char *hint = name.count || is_text ? NULL : explain(server, report, &detail);
	size_t frame;

	if (name.count) {
		const char *behind = name.at + name.count;

		buf_add(&renamed, body.at, (size_t)(name.at - body.at));
		buf_add_text(&renamed, change->name);
		buf_add(&renamed, behind, (size_t)(body.at + body.count - behind));
		body = buf_bytes(&renamed);
	}
	if (name.count || is_text || hint) {
		frame = message_begin(out, 'E');
		add_fields(out, body, is_text ? change : NULL, report->sqlstate);
		if (hint) {
			buf_add_byte(out, 'D');
			buf_add_cstr(out, buf_text(&detail));
			buf_add_byte(out, 'H');
			buf_add_cstr(out, hint);
		}
		buf_add_byte(out, 0);
		message_end(out, frame);
	}
	if (!buf_ok(out) || !buf_ok(&renamed) || !buf_ok(&detail))
		buf_free(out);
	buf_free(&renamed);
	buf_free(&detail);
	return out->count;
}

/* ---- a host that accepts no writes any more ---- */

/* More than the replies to a Parse, a Bind and a Describe is not kept. */
#define REFUSAL_MAX ((size_t)16 * 1024)

#define READ_ONLY "default_transaction_read_only"

/* The value of the session, as the server has reported it. */
static bool may_write(const struct server *server)
{
	const char *value = server_value(server, server->session.params, READ_ONLY);

	return value && strcmp(value, "off") == 0;
}

void server_see_read_only(struct server *server, const char *name)
{
	server->lease.replay.was_writable |= strcmp(name, READ_ONLY) == 0 && may_write(server);
}

/* 25006 without a context: PostgreSQL checks first; what a function has tried has one. */
static bool is_refusal(const struct server *server, struct bytes body)
{
	const struct borrower *borrower = server->lease.borrower;
	struct report report;

	return fields_report(body, &report) == WIRE_OK && !report.context &&
	       strcmp(report.sqlstate, "25006") == 0 && borrower->ops->wants_writer &&
	       borrower->ops->wants_writer(server->lease.borrower, &server->lease.replay,
	                                   report.text);
}

/* Whether a refusal may be among the next replies. The last batch that is kept can be refused. */
static bool may_refuse(const struct server *server)
{
	enum target_session_attrs target = server->site->target;

	return (target == TARGET_PRIMARY || target == TARGET_READ_WRITE) &&
	       server_may_resend(server) && server->lease.replay.batches.count == 1 &&
	       ledger_owes(&server->wire.ledger, LEDGER_CLIENT) &&
	       (may_write(server) || server->lease.replay.was_writable);
}

/* Replies to an opening in the same batch are held back, unless the batch has no end yet. */
enum wire_result server_sees_refusal(const struct server *server, struct bytes in)
{
	size_t limit = in.count < REFUSAL_MAX ? in.count : REFUSAL_MAX;
	const struct replay *replay = &server->lease.replay;
	enum wire_result result;
	unsigned int opening;
	const char *before;
	struct frame frame;

	if (!may_refuse(server))
		return WIRE_BAD;
	before = replay->at[0] == 'Q' ? "E" : "12tnTCE";
	opening = replay_count_opening(replay);
	for (in.count = limit;; in = bytes_skip(in, frame.length)) {
		result = frame_peek(in, UINT32_MAX, &frame);
		if (result == WIRE_OK &&
		    (!strchr(before, frame.type) || (frame.type == 'C' && opening-- == 0)))
			return WIRE_BAD; /* it runs */
		if (result != WIRE_OK || in.count < frame.length)
			break;
		if (frame.type == 'E')
			return !opening && is_refusal(server, frame_body(in, &frame)) ? WIRE_OK
			                                                              : WIRE_BAD;
	}
	return result == WIRE_BAD || limit == REFUSAL_MAX || !replay->is_whole ? WIRE_BAD
	                                                                       : WIRE_MORE;
}

void server_refuse_write(struct server *server)
{
	struct err err;

	log_info(&server->log, "the host accepts no writes any more (25006)");
	server_role_doubted(server);
	err_close(&err, CLOSE_HOST_ROLE);
	server_close_unrun(server, &err);
}

/*
 * A statement's result would have other columns now, or the statement is gone. If that was the
 * first message since the server was idle, the statement is prepared again and the batch is sent
 * again (replan).
 */
static bool tries_again(struct server *server)
{
	if (!server->lease.replay.count || !server->lease.replay.may_replan ||
	    !ledger_drop_sync(&server->wire.ledger))
		return false;
	server_drop_behind(server);
	replay_end_resend(&server->lease.replay);
	server->lease.replay.is_failed = true;
	return true;
}

/* Whether our view of the statement is wrong: it cannot run, or is not there. */
static bool is_belief_wrong(struct server *server, struct bytes body, const char *sqlstate,
                            const struct statement *statement)
{
	struct server_statement *entry;

	if (strcmp(sqlstate, "0A000") == 0) {
		entry = server_statements_find(&server->session.statements, statement, false);
		if (entry)
			entry->state.is_stale = true;
		return true;
	}
	if (strcmp(sqlstate, "26000") != 0 || find_ours(server, body, statement).count == 0)
		return false;
	/* By a DO block or a function, which the tag does not show: maybe all of them. */
	server_statements_distrust(&server->session.statements);
	return true;
}

/* Keeps the error, in the form that the borrower would get. */
static void withhold(struct server *server, struct bytes body)
{
	size_t frame;

	server->lease.replay.withheld = server->wire.replacement;
	server->wire.replacement = (struct buf){ 0 };
	if (server->lease.replay.withheld.count)
		return;
	frame = message_begin(&server->lease.replay.withheld, 'E');
	buf_add(&server->lease.replay.withheld, body.at, body.count);
	message_end(&server->lease.replay.withheld, frame);
}

/* The error of a request; all requests after that, up to the Sync, have failed, too. */
static enum frame_fate request_failed(struct server *server, const struct server_error *error,
                                      enum ledger_verdict verdict)
{
	struct ledger_change *change = ledger_take_failed(&server->wire.ledger);
	const struct report *report = &error->report;
	bool is_replaced = change && verdict == LEDGER_REPLACED;
	enum frame_fate fate = FRAME_PASS;

	/* By a session, under a name of ours: it cannot be prepared here. */
	if (strcmp(report->sqlstate, "42P05") == 0 && strstr(report->text, STATEMENT_NAMES) &&
	    !strstr(report->text, "\"" SCRATCH_NAME "\""))
		server_need_close(server, CLOSE_STATEMENT_NAME_TAKEN);
	if (is_replaced) {
		struct refusal *refusal = (struct refusal *)change;

		note_said(server, refusal->sqlstate, "ERROR", true);
		server->wire.replacement = refusal->message;
		refusal->message = (struct buf){ 0 };
		fate = FRAME_REPLACE;
	} else if (error->is_whole) {
		bool is_wrong =
		    change && change->name && change->statement &&
		    is_belief_wrong(server, error->body, report->sqlstate, change->statement);

		if (change && server->lease.replay.withheld.count) {
			/* what drivers would prepare again after the first error */
			server->wire.replacement = server->lease.replay.withheld;
			server->lease.replay.withheld = (struct buf){ 0 };
			fate = FRAME_REPLACE;
		} else if (say_changed(server, error->body, report, change)) {
			fate = FRAME_REPLACE;
		}
		if (is_wrong && tries_again(server)) {
			withhold(server, error->body);
			fate = FRAME_DROP;
		}
	}
	if (fate != FRAME_DROP) {
		replay_drop(&server->lease.replay);
		if (!is_replaced)
			note_error(server, report);
	}
	if (change)
		change->settle(change, false);
	return fate;
}

enum frame_fate server_error_frame(struct server *server, struct bytes body)
{
	struct server_error error;
	enum ledger_verdict verdict;
	bool is_end;

	server_read_error(&error, body);
	if (ledger_is_empty(&server->wire.ledger) || error.is_fatal)
		return unasked_error(server, &error);
	if (server_holds(server, HELD_CHANNELS | HELD_SESSION))
		server_hold(server, HELD_STEP);
	verdict = ledger_reply(&server->wire.ledger, 'E', &is_end);
	if (verdict == LEDGER_ANSWERED)
		ours_refused(server, &error.report);
	if (verdict == LEDGER_ANSWERED && server->orders.running != ORDER_NONE) {
		order_error(server, &error.report);
		return FRAME_DROP;
	}
	if (verdict == LEDGER_ANSWERED || verdict == LEDGER_FATAL) {
		if (server->orders.failure)
			server_close_as(server, ERR_PROTOCOL, server->orders.failure);
		else if (verdict == LEDGER_ANSWERED && !server->is_listening)
			return FRAME_DROP;
		else /* the borrower's requests behind it are skipped: out of step */
			return unasked_error(server, &error);
		return FRAME_STOP;
	}
	if ((verdict == LEDGER_PASS || verdict == LEDGER_REPLACED) &&
	    server->state == SERVER_LENT) {
		server->lease.error_count++;
		return request_failed(server, &error, verdict);
	}
	server_out_of_step(server, verdict);
	return FRAME_STOP;
}
