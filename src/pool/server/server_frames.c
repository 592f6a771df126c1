/* SPDX-License-Identifier: ISC */
/*
 * Reads from a server, frame by frame.
 *
 *   stream --> [examine the header] --> borrower      replies to its requests
 *                   |
 *                   +--> handled here                  replies to orders; the login; an ending
 *
 * Consecutive frames that are forwarded form a run, which is passed on in one call. A frame may be
 * longer than our buffers: its header is examined, and the rest is forwarded by count. Only frames
 * that must be parsed are awaited in full.
 *
 * server_errors.c handles errors. All code that runs for each message of a query is in this file,
 * so that the compiler can inline it.
 */
#include "pgweir/pgwire/fields.h"
#include "pgweir/base/container_of.h"
#include "pgweir/pgwire/message.h"

#include "server_priv.h"

#include <string.h>

/*
 * The longest frame that is parsed as a whole: the types of 65535 parameters. PostgreSQL lets the
 * count of more overflow: nothing can be bound.
 */
#define WHOLE_MAX ((uint32_t)(FRAME_HEADER_SIZE + 2 + 4 * 65535))
#define TAG_MAX 64 /* the longest CommandComplete that is examined */

/* In session mode the client's own are those of the process ID that its login has told. */
static bool watches_notifications(const struct server *server)
{
	return (server->lease.watches & SERVER_WATCHES_NOTIFICATIONS) ||
	       (server_holds(server, HELD_SESSION) && server->lease.borrower &&
	        server->lease.borrower->ops->takes_notification);
}

/* What it sends matters no more. In ENDING, it does. */
static inline bool is_closed(const struct server *server)
{
	return server->state == SERVER_CLOSING;
}

/* Bytes needed: severity and text of an error, all of a ParameterStatus, a row's header. */
static uint32_t wanted_of_frame(const struct server *server, const struct frame *frame)
{
	if (server->state == SERVER_LOGIN)
		return frame->length;
	switch (frame->type) {
	case 'Z':
	case 'S':
		return frame->length;
	case 'C':
		return frame->length <= TAG_MAX ? frame->length : FRAME_HEADER_SIZE;
	case 'E':
		return frame->length < ERROR_PREFIX ? frame->length : ERROR_PREFIX;
	case 'N':
		return frame->length <= ERROR_PREFIX && server_has_no_effect(server)
		           ? frame->length
		           : FRAME_HEADER_SIZE;
	case 'D':
		/* a short one may be the mark of the cleaning: server_ending.c */
		return server->orders.on_row || (server->wire.ending.how == ENDING_CLEANS &&
		                                 frame->length <= TAG_MAX)
		           ? frame->length
		           : FRAME_HEADER_SIZE;
	case 'A':
		return watches_notifications(server) ? frame->length : FRAME_HEADER_SIZE;
	case 't':
	case 'T':
		return ledger_awaits_types(&server->wire.ledger) && frame->length <= WHOLE_MAX
		           ? frame->length
		           : FRAME_HEADER_SIZE;
	default:
		return FRAME_HEADER_SIZE;
	}
}

/*
 * ---- calls: requests whose execution a borrower measures ----
 *
 * They are described in the ledger. The borrower gets one that was answered; after an error,
 * the calls behind that were skipped.
 *
 * Hard here: the bytes of a reply come in pieces and are not looked at. They are counted by their
 * positions in all that the server has sent: from the end of the call before to the end of this
 * one.
 */

struct ledger_call *server_note_call(struct server *server, enum ledger_kind kind)
{
	struct server_calls *calls = &server->wire.calls;
	bool is_first = server->wire.ledger.call_count == 0;
	struct ledger_call *call = ledger_mark_call(&server->wire.ledger, kind);

	if (call && is_first) {
		server_watch(server, SERVER_WATCHES_CALLS);
		calls->mark = calls->received;
		calls->rows = 0;
		calls->sqlstate[0] = 0;
	}
	return call;
}

/* The rows of a tag: SELECT 5, INSERT 0 5, COPY 5, ... 0: it has none. */
static uint64_t rows_of(struct bytes tag)
{
	uint64_t rows = 0, place = 1;
	size_t at = tag.count ? tag.count - 1 : 0; /* the zero */

	if (tag.count > 4 && memcmp(tag.at, "MOVE", 4) == 0)
		return 0;
	while (at && tag.at[at - 1] >= '0' && tag.at[at - 1] <= '9' && place) {
		at--;
		rows += place * (uint64_t)(tag.at[at] - '0');
		place *= 10;
	}
	return at && tag.at[at - 1] == ' ' ? rows : 0;
}

__attribute__((noinline)) static void note_call_error(struct server_calls *calls, struct bytes body)
{
	struct report report = { .sqlstate = "" };

	fields_report(body, &report);
	memcpy(calls->sqlstate, "?????", SQLSTATE_SIZE);
	if (strlen(report.sqlstate) == SQLSTATE_SIZE - 1)
		memcpy(calls->sqlstate, report.sqlstate, SQLSTATE_SIZE);
}

/* position: behind its last byte. */
static void end_call(struct server *server, const struct ledger_call *call, uint64_t position)
{
	struct server_calls *calls = &server->wire.calls;
	usec_t now = loop_now(server->site->shared->loop);
	usec_t from = call->sent_at > calls->ended_at ? call->sent_at : calls->ended_at;
	struct server_call_end end = {
		.now = now,
		.running = now - from,
		.rows = calls->rows,
		.bytes = position > calls->mark ? position - calls->mark : 0,
		.sqlstate = *calls->sqlstate ? calls->sqlstate : NULL,
	};

	if (call->is_parse && !end.sqlstate)
		return;
	if (server->lease.borrower)
		server->lease.borrower->ops->on_call(server->lease.borrower, call, &end);
	calls->rows = 0;
	calls->sqlstate[0] = 0;
	calls->ended_at = now;
	calls->mark = position;
}

/* Ends the call that was answered by this reply, if any. After a FATAL, none is answered. */
static inline void settle_calls(struct server *server, bool is_skipped, uint64_t position)
{
	struct ledger *ledger = &server->wire.ledger;
	bool is_last = server_got_fatal(server);
	const struct ledger_call *call = ledger->ended;

	ledger->ended = NULL;
	if (is_last)
		call = ledger_first_call(ledger);
	if (call && !is_skipped)
		end_call(server, call, position);
	if (is_last || ledger->call_count == 0)
		server_unwatch(server, SERVER_WATCHES_CALLS);
}

/* A frame of a server with SERVER_WATCHES_CALLS was judged. `in` begins with it. */
static void follow_calls(struct server *server, const struct frame *frame, struct bytes in,
                         enum frame_fate fate)
{
	struct server_calls *calls = &server->wire.calls;

	if (fate == FRAME_DROP)
		calls->mark += frame->length;
	else if (frame->type == 'C')
		calls->rows += rows_of(frame_received(in, frame));
	else if (frame->type == 's')
		calls->rows += server->wire.ledger.ended ? server->wire.ledger.ended->row_limit : 0;
	else if (frame->type == 'E')
		note_call_error(calls, frame_received(in, frame));
	settle_calls(server, fate == FRAME_DROP, calls->received - in.count + frame->length);
	if (frame->type == 'Z')
		calls->sqlstate[0] = 0; /* of a Sync: of a transaction, and of no call */
}

/* ---- what may come at any time ---- */

static enum frame_fate parameter_frame(struct server *server, struct bytes body)
{
	const char *name, *value;
	bool is_news;

	if (fields_parameter(body, &name, &value) != WIRE_OK)
		return server_bad_frame(server, "broken ParameterStatus");
	if (server->lease.replay.count || server->lease.replay.opening_count)
		server_see_read_only(server, name);
	if (!server_report(server, name, value, &is_news))
		return server_bad_frame(server, "server reports parameters without end");
	if (server->site->target != TARGET_ANY)
		server_role_reported(server, name, value);
	if (server->state != SERVER_LENT)
		return FRAME_DROP;
	if ((server->lease.watches & SERVER_WATCHES_PARAMETERS) && server->lease.borrower &&
	    server->orders.running == ORDER_NONE &&
	    server->lease.borrower->ops->takes_parameter(server->lease.borrower, name))
		return FRAME_DROP;
	/* The reply to our own SET is forwarded only if the value is spelled differently. */
	return !is_news && (server->orders.running == ORDER_REPLAY ||
	                    (server->orders.running == ORDER_NONE &&
	                     ledger_owes(&server->wire.ledger, LEDGER_OURS)))
	           ? FRAME_DROP
	           : FRAME_PASS;
}

/* PostgreSQL's WARNING before it ends a session at once: at a crash, an immediate shutdown. */
static bool is_last_notice(struct bytes body)
{
	struct report report;

	return fields_report(body, &report) == WIRE_OK &&
	       (strcmp(report.sqlstate, "57P01") == 0 || strcmp(report.sqlstate, "57P02") == 0);
}

/* A Parse that is repeated elsewhere, and a corrected SET LOCAL: the client has had those. */
static enum frame_fate notice_fate(struct server *server, struct bytes body)
{
	if (server_has_no_effect(server) && is_last_notice(body))
		return FRAME_DROP;               /* the client continues on another server */
	server->lease.replay.may_resend = false; /* the client would get it twice */
	return server->state == SERVER_LENT && server->orders.running == ORDER_NONE &&
	               !ledger_owes_injected(&server->wire.ledger)
	           ? FRAME_PASS
	           : FRAME_DROP;
}

static enum frame_fate notification_frame(struct server *server, struct bytes frame)
{
	/* What comes before the cleaning is done is for who had the server before. */
	if (server->state != SERVER_LENT || server_is_cleaning(server))
		return FRAME_DROP;
	if (!watches_notifications(server) || !server->lease.borrower ||
	    !server->lease.borrower->ops->takes_notification(server->lease.borrower, frame,
	                                                     &server->wire.replacement))
		return FRAME_PASS;
	return server->wire.replacement.count ? FRAME_REPLACE : FRAME_DROP;
}

/* ---- replies ---- */

/* Whether a tag with these first letters may be one that complete_frame() examines. */
static inline bool may_be_examined(struct bytes tag)
{
	switch (tag.at[0]) {
	case 'A':
	case 'D':
	case 'L':
	case 'R':
		return true;
	case 'C':
		return tag.at[1] == 'R' ||
		       (tag.at[1] == 'O' && tag.count == sizeof("COMMIT PREPARED"));
	case 'I':
		return tag.at[1] == 'M';
	default:
		return false;
	}
}

/* DO and CALL are known by their texts; DROP ends only. COMMIT is examined behind anything only. */
static enum server_definition definition_of(struct bytes tag)
{
	static const struct {
		const char *beginning;
		enum server_definition what;
	} tags[] = {
		{ "CREATE TABLE", DEFINES_RELATION },     { "CREATE INDEX", DEFINES_RELATION },
		{ "CREATE SEQUENCE", DEFINES_RELATION },  { "ALTER TABLE", DEFINES_RELATION },
		{ "ALTER INDEX", DEFINES_RELATION },      { "ALTER SEQUENCE", DEFINES_RELATION },
		{ "PREPARE TRANSACTION", DEFINES_LATER }, { "COMMIT PREPARED", DEFINES_PREPARED },
		{ "COMMIT", DEFINES_ANYTHING },           { "ALTER ", DEFINES_ANYTHING },
		{ "CREATE ", DEFINES_ANYTHING },          { "IMPORT ", DEFINES_ANYTHING },
	};

	for (size_t i = 0; i < sizeof(tags) / sizeof(tags[0]); i++) {
		size_t size = strlen(tags[i].beginning);

		if (tag.count >= size && memcmp(tag.at, tags[i].beginning, size) == 0)
			return tags[i].what;
	}
	return DEFINES_NOTHING;
}

/* A tag: parameters may have been reset, statements deallocated, a library loaded. */
static void complete_frame(struct server *server, struct bytes body, bool is_followed)
{
	enum server_definition what;
	bool is_discard;

	if (body.count < 2 || !(server_defines_anything(server) || may_be_examined(body)))
		return;
	what = definition_of(body);
	if (server->state == SERVER_LENT && what != DEFINES_NOTHING)
		server->site->ops->on_definition(server, what);
	is_discard = bytes_equal(body, bytes_of("DISCARD ALL", 12));
	if (is_discard || bytes_equal(body, bytes_of("DEALLOCATE ALL", 15))) {
		server_statements_forget_confirmed(&server->session.statements);
		if (server->lease.borrower && server->orders.running == ORDER_NONE)
			server->lease.borrower->ops->on_deallocated(server->lease.borrower);
	}
	/* In a text of several statements, the DEALLOCATE may be of any statement. */
	if (!is_followed && bytes_equal(body, bytes_of("DEALLOCATE", 11)))
		server_statements_distrust(&server->session.statements);
	if (bytes_equal(body, bytes_of("LOAD", 5))) {
		server->session.load_count++;
		server_hold(server, HELD_LOADS);
	}
	if (is_discard)
		server_forget_rest(server, true);
	else if (bytes_equal(body, bytes_of("RESET", 6)))
		server_forget_rest(server, false);
}

/* One that a change waits for. false: the server is closed. */
static bool description_frame(struct server *server, char type, struct bytes body)
{
	struct description *description =
	    (struct description *)ledger_awaits_types(&server->wire.ledger);

	if (!description)
		return true;
	if (type != 't') {
		if (description->on_columns)
			description->on_columns(description, type == 'n' ? FIELDS_NO_COLUMNS
			                                                 : fields_columns(body));
		return true;
	}
	if (!body.at)
		return true;
	if (fields_types(body) != WIRE_OK)
		server_bad_frame(server, "broken ParameterDescription");
	else if (!description->on_types(description, body))
		server_close_as(server, ERR_PROTOCOL, CLOSE_MEMORY);
	return !server_is_over(server);
}

static enum frame_fate order_frame(struct server *server, char type, struct bytes body, bool is_end)
{
	if (type == 'D' && server->orders.on_row)
		server->orders.on_row(server, body);
	/* The SQL that sets our own parameters resets no others. */
	if (type == 'C' && server->orders.running != ORDER_REPLAY)
		complete_frame(server, body, false);
	else if (type == 'C' && bytes_equal(body, bytes_of("DISCARD SEQUENCES", 18)))
		server->orders.has_cleaned = true; /* server_clean_text() */
	if (is_end) {
		server_order_done(server);
		return is_closed(server) ? FRAME_STOP : FRAME_DROP;
	}
	return FRAME_DROP;
}

/* A request that is not answered, or to come. Not while a batch is to be sent again. */
static bool has_more(const struct server *server)
{
	return !ledger_is_empty(&server->wire.ledger) ||
	       (server->lease.borrower && server->lease.borrower->waits_for != LEDGER_WAIT_NOT &&
	        !server->lease.replay.is_failed);
}

/* A reply that nobody gets. */
static enum frame_fate our_frame(struct server *server, char type, enum ledger_verdict verdict)
{
	if (server->orders.failure)
		return server_close_as(server, ERR_PROTOCOL, server->orders.failure), FRAME_STOP;
	if (type != 'Z' || (verdict == LEDGER_ANSWERED && has_more(server)))
		return FRAME_DROP;
	return FRAME_SETTLED;
}

/* Classifies a reply by the ledger. `body` is empty if the reply need not be parsed. */
static enum frame_fate answer_frame(struct server *server, char type, struct bytes body)
{
	bool is_end, is_followed;
	enum ledger_verdict verdict;

	if (type == 'Z') {
		if (fields_ready(body, &server->wire.status) != WIRE_OK)
			return server_bad_frame(server, "broken ReadyForQuery");
		if (server->session.reports.list.count)
			server_settle_reports(server);
		server->session.reports.count = 0;
		if (server->state == SERVER_LENT && ledger_passes_ready(&server->wire.ledger)) {
			replay_drop(&server->lease.replay);
			return FRAME_READY;
		}
	}
	if (type == 'E')
		return server_error_frame(server, body);
	if ((type == 't' || type == 'T' || type == 'n') && !description_frame(server, type, body))
		return FRAME_STOP;
	is_followed = ledger_is_followed(&server->wire.ledger);
	verdict = ledger_reply(&server->wire.ledger, type, &is_end);
	if (verdict == LEDGER_ANSWERED && server->orders.running != ORDER_NONE)
		return order_frame(server, type, body, is_end && type == 'Z');
	if (verdict == LEDGER_ANSWERED || verdict == LEDGER_DROP)
		return our_frame(server, type, verdict);
	if (verdict != LEDGER_PASS || server->state != SERVER_LENT)
		return server_out_of_step(server, verdict), FRAME_STOP;
	if (type == 'Z') {
		if (server->lease.replay.count)
			replay_ready(&server->lease.replay, server->wire.status);
		return FRAME_READY;
	}
	if (server->lease.replay.count)
		replay_reply(&server->lease.replay);
	if (type == 'C' && (server->lease.watches & SERVER_WATCHES_READY) && server->lease.borrower)
		server->lease.borrower->ops->on_tag(server->lease.borrower, body);
	if (type == 'C')
		complete_frame(server, body, is_followed);
	return FRAME_PASS;
}

/* A ReadyForQuery of a server that its borrower watches, and may send itself. */
static enum frame_fate watched_ready(struct server *server)
{
	struct borrower *borrower = server->lease.borrower;

	if (!borrower)
		return FRAME_READY;
	if ((server->lease.watches & SERVER_WATCHES_PARAMETERS) &&
	    ledger_is_empty(&server->wire.ledger))
		borrower->ops->before_ready(borrower, &server->wire.replacement);
	return (server->lease.watches & SERVER_WATCHES_READY) && server->wire.status == 'I' &&
	               !ledger_owes_borrower(&server->wire.ledger) &&
	               borrower->ops->holds_ready(borrower)
	           ? FRAME_SETTLED
	           : FRAME_READY;
}

static enum frame_fate reply_frame(struct server *server, const struct frame *frame,
                                   struct bytes in)
{
	bool has_calls = server->lease.watches & SERVER_WATCHES_CALLS;
	bool is_too_long = (frame->type == 't' || frame->type == 'T') && frame->length > WHOLE_MAX;
	enum frame_fate fate = answer_frame(
	    server, frame->type, is_too_long ? bytes_of(NULL, 0) : frame_received(in, frame));

	if (fate == FRAME_READY && (server->lease.watches & ~SERVER_WATCHES_CALLS))
		fate = watched_ready(server);
	if (has_calls && fate != FRAME_STOP && server->state == SERVER_LENT)
		follow_calls(server, frame, in, fate);
	return fate;
}

static enum frame_fate judge_frame(struct server *server, const struct frame *frame,
                                   struct bytes in)
{
	/* Rows are the most frequent frames: a shortcut for them. */
	if ((frame->type == 'D' || frame->type == 'd') && server->state == SERVER_LENT &&
	    ledger_passes_rows(&server->wire.ledger))
		return FRAME_PASS;
	if (server->state == SERVER_LOGIN && server->orders.running == ORDER_NONE)
		return server_login_frame(server, frame, in);
	switch (frame->type) {
	case 'S':
		return parameter_frame(server, frame_received(in, frame));
	case 'N':
		return notice_fate(server, frame_received(in, frame));
	case 'A':
		return notification_frame(
		    server, bytes_of(in.at, in.count < frame->length ? in.count : frame->length));
	default:
		if (server->state == SERVER_ENDING)
			return server_ending_frame(server, frame->type, frame_received(in, frame));
		return reply_frame(server, frame, in);
	}
}

/* ---- runs ---- */

/* Passes a run of bytes on to the borrower. is_mid_response: the run ends within a frame. */
static void pass_run(struct server *server, const char *from, const char *to, bool is_mid_response)
{
	if (from == to || !server->lease.borrower)
		return;
	server->wire.is_mid_response = is_mid_response;
	if (!server->lease.borrower->ops->on_bytes(server->lease.borrower,
	                                           bytes_of(from, (size_t)(to - from))) &&
	    server->state == SERVER_LENT)
		stream_want(&server->wire.stream, WANT_NOTHING);
}

/* Nothing more is owed: what was defined can be seen by others if it was committed. */
static void settle_definition(struct server *server)
{
	struct definition *definition = &server->lease.definition;

	if (server->wire.status == 'I') {
		server_end_definition(server);
	} else if (definition->may_commit) {
		definition->may_commit = definition->is_unclear = false;
		server->site->ops->on_definition(server, DEFINES_BY_TEXT);
	}
}

static void pass_ready(struct server *server)
{
	struct borrower *borrower = server->lease.borrower;
	bool is_asked = server->orders.behind_size && server->wire.ledger.count == 1;
	bool is_settled;

	if (!borrower)
		return;
	if (is_asked && server->wire.status == 'E') {
		/* PostgreSQL refuses the question, as all but ROLLBACK */
		server_drop_behind(server);
		is_asked = false;
	}
	is_settled = is_asked || ledger_is_empty(&server->wire.ledger);
	if (is_asked && server->wire.status != 'I') {
		server_bad_frame(server, "a transaction is open that should have ended");
		return;
	}
	server->wire.is_ready = is_settled && !is_asked;
	if (is_settled) {
		server->lease.request_at = 0;
		server->used_at = loop_now(server->site->shared->loop);
		server_idle_transaction_begin(server);
		if (server->lease.runs)
			server_end_runs(server);
	}
	if (is_asked)
		server_begin_behind(server);
	if (server->wire.status == 'I')
		server_end_transaction(server, is_settled);
	if (is_settled && server->lease.definition.state)
		settle_definition(server);
	if (server->lease.replay.withheld.count)
		buf_free(&server->lease.replay.withheld);
	borrower->ops->on_ready(borrower, server->wire.status, is_settled);
}

/* The reply to an internal Sync has arrived, or to the Sync of a batch that is sent again. */
static void pass_settled(struct server *server)
{
	bool is_again = server->lease.replay.is_failed;

	if (server->state != SERVER_LENT || !server->lease.borrower)
		return;
	if (!is_again) {
		pass_ready(server);
		return;
	}
	if (!ledger_is_empty(&server->wire.ledger))
		return; /* a question behind it was dropped */
	server->lease.replay.is_failed = false;
	server->lease.borrower->ops->on_retry(
	    server->lease.borrower, bytes_of(server->lease.replay.at, server->lease.replay.count));
}

/* ---- messages sent in the server's place ---- */

static void say_instead(struct server *server)
{
	if (server->lease.borrower && buf_ok(&server->wire.replacement))
		pass_run(server, server->wire.replacement.at,
		         server->wire.replacement.at + server->wire.replacement.count, false);
	buf_free(&server->wire.replacement);
}

bool server_answer(struct server *server)
{
	static const char closed[] = { '3', 0, 0, 0, 4 };
	bool has_space = true;

	while (server->state == SERVER_LENT && server->lease.borrower &&
	       ledger_answer(&server->wire.ledger))
		has_space = server->lease.borrower->ops->on_bytes(server->lease.borrower,
		                                                  bytes_of(closed, sizeof(closed)));
	return has_space;
}

/* Parses the header of the frame at the start of `in`. MORE: not enough bytes are available. */
static enum wire_result next_frame(struct server *server, struct bytes in, struct frame *frame)
{
	uint32_t max = (uint32_t)server->site->shared->config->max_packet_size;
	enum wire_result result = frame_peek(in, max, frame);
	uint32_t wanted;

	if (result != WIRE_OK)
		return result;
	wanted = wanted_of_frame(server, frame);
	if (wanted > WHOLE_MAX)
		return WIRE_BAD;
	return in.count < wanted ? WIRE_MORE : WIRE_OK;
}

/* After input: the borrower's wait may be over, or the borrower may return the server now. */
static void tell_space(struct server *server, bool was_within)
{
	struct borrower *borrower = server->lease.borrower;

	if (server->state != SERVER_LENT || !borrower || server->orders.running != ORDER_NONE)
		return;
	if (borrower->waits_for != LEDGER_WAIT_NOT
	        ? !ledger_ends_wait(&server->wire.ledger, borrower->waits_for)
	        : !was_within || server->wire.is_mid_response || !server->wire.is_ready)
		return;
	borrower->ops->on_writable(borrower);
}

/* The frequent replies, whole, but for rows and tags that are examined. */
static bool is_plain(struct server *server, struct bytes in, uint32_t length)
{
	char type = in.at[0];

	if (type == 'C' &&
	    (length <= 5 || may_be_examined(bytes_of(in.at + FRAME_HEADER_SIZE, length - 4)) ||
	     server_defines_anything(server) || (server->lease.watches & SERVER_WATCHES_READY)))
		return false;
	if (ledger_plain_kind(type) == LEDGER_NONE ||
	    !ledger_passes_plain(&server->wire.ledger, type))
		return false;
	if ((server->lease.watches & SERVER_WATCHES_CALLS) && (type == 'C' || type == '1'))
		follow_calls(server, &(struct frame){ type, length + 1 }, in, FRAME_PASS);
	return true;
}

/* Skips the frames at the front that are whole and forwarded without further handling. */
static struct bytes skip_plain(struct server *server, struct bytes in)
{
	uint32_t max = (uint32_t)server->site->shared->config->max_packet_size;
	const char *start = in.at;
	bool is_row = false; /* the last frame was a row: so may be the next */

	if (server->state != SERVER_LENT)
		return in;
	while (in.count >= FRAME_HEADER_SIZE) {
		const char *frame = in.at;
		uint32_t length = load_be32(frame + 1);

		if (length < 4 || length >= max || length >= in.count)
			break;
		if (frame[0] != 'D' && frame[0] != 'd') {
			is_row = false;
			if (!is_plain(server, in, length))
				break;
		} else if (!is_row) {
			is_row = ledger_passes_rows(&server->wire.ledger);
			if (!is_row)
				break;
		}
		in = bytes_skip(in, (size_t)length + 1);
	}
	if (in.at != start && server->lease.replay.count)
		replay_reply(&server->lease.replay);
	return in;
}

/* Forwards the run. The next one begins where it ends: here. */
static inline void end_run(struct server *server, const char **run, const char *here,
                           bool is_mid_response)
{
	pass_run(server, *run, here, is_mid_response);
	*run = here;
}

/*
 * Decides what becomes of the next frame that is not plain. MORE: nothing yet. BAD: the server is
 * closing, or its batch must run on another host, as this one refuses to write.
 */
static inline enum wire_result begin_frame(struct server *server, struct bytes *in,
                                           const char **run, enum frame_fate *fate)
{
	enum wire_result result = WIRE_BAD;
	struct frame frame;

	if (server->lease.replay.count)
		result = server_sees_refusal(server, *in);
	if (result == WIRE_OK) {
		pass_run(server, *run, in->at, false);
		server_refuse_write(server);
		return WIRE_BAD;
	}
	if (result == WIRE_MORE)
		return WIRE_MORE;
	*in = skip_plain(server, *in);
	if (in->count == 0)
		return WIRE_MORE;
	result = next_frame(server, *in, &frame);
	if (result == WIRE_BAD)
		server_close_as(server, ERR_PROTOCOL, CLOSE_BAD_HEADER);
	if (result != WIRE_OK)
		return result;
	*fate = judge_frame(server, &frame, *in);
	if (*fate == FRAME_STOP || is_closed(server))
		return WIRE_BAD;
	if (*fate == FRAME_STAY)
		return WIRE_MORE;
	if (*fate == FRAME_READY && server->wire.replacement.count) {
		end_run(server, run, in->at, false);
		say_instead(server);
	}
	server->wire.frame_left = frame.length;
	return WIRE_OK;
}

/* What follows from a frame, or from the part of it that has been received: up to `here`. */
static inline void end_frame(struct server *server, const char *here, const char **run,
                             enum frame_fate fate, bool is_mid_frame)
{
	if (fate == FRAME_READY || server_got_fatal(server)) {
		/* Forward the run now: the frames after it may close the server. */
		end_run(server, run, here, is_mid_frame);
	}
	if (fate == FRAME_READY && server->state == SERVER_LENT)
		pass_ready(server);
	if (fate == FRAME_REPLACE)
		say_instead(server);
	if (fate == FRAME_SETTLED)
		pass_settled(server);
	if (server->wire.frame_left == 0 && server->state == SERVER_LENT &&
	    ledger_owes_answer(&server->wire.ledger)) {
		end_run(server, run, here, false);
		server_answer(server);
	}
}

/* Handles input. false: the server is closing, or must not be read now. */
static bool consume_input(struct server *server, struct bytes in)
{
	const char *run = in.at; /* the bytes from here to in.at are forwarded */
	bool was_within = server->wire.is_mid_response;
	bool forwards = was_within && server->lease.borrower; /* the current frame, or drops it */

	if (server->state == SERVER_ENDING && server->wire.ending.how < ENDING_KEEPS)
		in = bytes_skip(in, in.count); /* nothing matters but the end */
	while (in.count) {
		enum wire_result result = WIRE_OK;
		enum frame_fate fate;
		size_t count;

		if (server->wire.frame_left == 0) {
			result = begin_frame(server, &in, &run, &fate);
			if (result == WIRE_BAD)
				return false;
			if (result == WIRE_MORE)
				break;
			forwards = fate == FRAME_PASS || fate == FRAME_READY;
		} else {
			fate = forwards ? FRAME_PASS : FRAME_DROP;
		}
		count = server->wire.frame_left < in.count ? server->wire.frame_left : in.count;
		if (!forwards) {
			pass_run(server, run, in.at, false);
			run = in.at + count;
		}
		server->wire.frame_left -= (uint32_t)count;
		in = bytes_skip(in, count);
		end_frame(server, in.at, &run, fate, server->wire.frame_left && forwards);
		if (is_closed(server))
			return false;
	}
	pass_run(server, run, in.at, server->wire.frame_left && forwards);
	if (is_closed(server))
		return false;
	if (!stream_keep(&server->wire.stream, in)) /* what could not be handled yet */
		server_close_as(server, ERR_PROTOCOL, CLOSE_MEMORY);
	tell_space(server, was_within);
	return !is_closed(server) && server->wire.stream.want == WANT_INPUT;
}

void server_judge_kept(struct server *server)
{
	consume_input(server, stream_kept(&server->wire.stream));
}

static void on_server_end(struct server *server)
{
	enum close_reason fault = stream_tls_fault(&server->wire.stream);
	struct err err;

	if (server->state == SERVER_ENDING)
		server_give_up(server);
	if (is_closed(server) || server_asks_again(server))
		return;
	if (server->state == SERVER_LOGIN)
		err_close(&err, CLOSE_SERVER_LOGIN_CLOSED);
	else if (server_got_fatal(server))
		err_close(&err, CLOSE_SERVER_ENDED);
	else
		err_close(&err, fault ? fault : CLOSE_SERVER_CRASHED);
	if (fault)
		err_recode(&err, ERR_SERVER_LOST); /* to a client it is no fault of its own */
	if (!server_got_fatal(server) && server_has_not_run(server))
		server_close_unrun(server, &err);
	else
		server_close(server, &err);
}

static void on_server_input(struct stream *stream)
{
	struct server *server = container_of(stream, struct server, wire.stream);
	int rounds = server->site->shared->config->sbuf_loopcnt;
	enum stream_result result;

	server->wire.has_flooded = false;
	do {
		struct bytes in;
		size_t before = stream_kept(stream).count;

		result = stream_read(stream, &in);
		if (result == STREAM_NOTHING)
			return;
		if (result == STREAM_END) {
			on_server_end(server);
			return;
		}
		if (server->state != SERVER_LOGIN) {
			*server->site->server_bytes += in.count - before;
			*server->site->all_server_bytes += in.count - before;
		}
		server->wire.calls.received += in.count - before;
		if (!consume_input(server, in))
			return;
	} while (result == STREAM_DATA && !server->wire.has_flooded &&
	         (rounds == 0 || --rounds > 0));
}

static void on_server_flushed(struct stream *stream)
{
	struct server *server = container_of(stream, struct server, wire.stream);

	if (server->state == SERVER_LENT && server->lease.borrower &&
	    server->orders.running == ORDER_NONE)
		server->lease.borrower->ops->on_writable(server->lease.borrower);
}

static void on_server_gone(struct stream *stream)
{
	struct server *server = container_of(stream, struct server, wire.stream);

	/* The server closed the connection: handle what it sent before. */
	if (stream_want(stream, WANT_INPUT))
		on_server_input(stream);
	if (server->state != SERVER_CONNECTING)
		on_server_end(server);
}

const struct stream_ops server_stream_ops = { on_server_input, on_server_flushed, on_server_gone,
	                                      NULL };
