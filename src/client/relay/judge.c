/* SPDX-License-Identifier: ISC */
/*
 * Decides for each frame of a client, from its header: is it allowed now, does it need a server,
 * and what does the server owe for it?
 *
 * Hard here: the order of the checks. A message that is refused must not take a server, a message
 * that has to wait must not be in the ledger, and the millions of frames of one COPY must not pass
 * all the checks.
 */
#include "relay_priv.h"

#include "pgweir/pgwire/message.h"
#include "pgweir/pgwire/sql_token.h"

#include "../statements/statements_priv.h"

/* The messages that a client may send, and what the server owes for each. */
static const struct request {
	bool is_known;
	bool needs_server; /* has no meaning without a server */
	bool may_touch;    /* session state: it has a text, or calls a function */
	enum ledger_kind kind;
} requests[128] = {
	['Q'] = { true, true, true, LEDGER_QUERY },
	['P'] = { true, true, true, LEDGER_PARSE },
	['B'] = { true, true, false, LEDGER_BIND },
	['D'] = { true, true, false, LEDGER_DESCRIBE },
	['E'] = { true, true, false, LEDGER_EXECUTE },
	['C'] = { true, true, false, LEDGER_CLOSE },
	['S'] = { true, true, false, LEDGER_SYNC },
	['F'] = { true, true, true, LEDGER_FUNCTION },
	['H'] = { true, false, false, LEDGER_NONE },
	['d'] = { true, false, false, LEDGER_COPY_DATA },
	['c'] = { true, false, false, LEDGER_COPY_END },
	['f'] = { true, false, false, LEDGER_COPY_END },
	['X'] = { true, false, false, LEDGER_NONE },
};

static enum judgement refuse_message(struct client *client, enum close_reason reason)
{
	client_refuse_for(client, reason);
	return JUDGE_END;
}

/*
 * After an error of ours in the extended protocol: drops messages up to the Sync, which we answer.
 */
static enum judgement skip(struct client *client, const struct frame *frame, struct bytes in,
                           struct batch *batch)
{
	struct buf out = { 0 };

	if (frame->type == 'S') {
		client->is_skipping = false;
		batch->rest = in.at + frame->length;
		/* The error has also failed a transaction whose BEGIN is late. */
		message_ready(&out, client->late ? 'E' : 'I');
	}
	return client_send_all(client, &out) ? JUDGE_DROP : JUDGE_END;
}

/* NULL: a client may not send such a message. */
static inline const struct request *request_of(char type)
{
	unsigned char at = (unsigned char)type;

	return at < sizeof(requests) / sizeof(requests[0]) && requests[at].is_known ? &requests[at]
	                                                                            : NULL;
}

/*
 * Handles a Query of a client without a server, if its BEGIN may be late. JUDGE_SEND: it needs a
 * server.
 */
static enum judgement judge_late(struct client *client, const struct frame *frame, struct bytes in,
                                 struct batch *batch)
{
	enum judgement judgement = late_begin_judge(client, frame, in);

	if (judgement != JUDGE_DROP)
		return judgement;
	batch->rest = in.at + frame->length;
	if (client_features(client) & CLIENT_IS_TRACKED)
		track_answered(client, frame, in);
	/* PostgreSQL drops the unnamed statement at any Query. */
	statements_forget_unnamed(client, batch);
	relay_begin_batch(client);
	relay_end_batch(client, client->late ? 'T' : 'I');
	if (client->late)
		late_begin_arm(client);
	else
		client_idle_begin(client);
	return JUDGE_DROP;
}

/* What the first statement of a transaction touches, as far as that is known. */
static unsigned int first_touches(const struct client *client, const struct frame *frame,
                                  struct bytes in, struct bytes *text)
{
	struct said said;

	*text = bytes_text("");
	if (in.count < frame->length)
		return 0;
	if (frame->type == 'Q' || frame->type == 'P') {
		unsigned int touches = session_touches(client, frame, in, text);
		const struct statement *executed =
		    touches & SQL_TOUCH_EXECUTE ? statements_executed(client, *text) : NULL;

		return executed ? touches | executed->touches : touches;
	}
	said = said_read(client, frame, in);
	if (said.type != 'B' || !said.name)
		return 0;
	if (!*said.name)
		return client->unnamed ? client->unnamed->touches : 0;
	if (!said.prepared)
		return 0;
	*text = said.text;
	return said.prepared->touches;
}

/*
 * Whether the client has to wait for more than any server, without one: its first statement may
 * make the server stay, as each session does in a pool that is not for sessions only, and there is
 * no place for one more; or it asks for values of sequences that
 * are on a server which another client has.
 */
static void note_wants(struct client *client, const struct frame *frame, struct bytes in)
{
	struct borrower *borrower = &client->borrower;
	bool lacks_place = pool_lacks_place(borrower);
	unsigned int touches;
	struct bytes text;

	borrower->wants_place = borrower->wants_own = false;
	if (borrower->pool->limits.is_mixed && client_rules(client)->mode == POOL_MODE_SESSION) {
		if (!lacks_place && borrower->pool->limits.max_pinned > 0)
			pool_take_place(borrower);
		borrower->wants_place = lacks_place;
		return;
	}
	if ((!lacks_place && !pool_may_lack_own(borrower)) || !session_is_watched(client))
		return;
	touches = first_touches(client, frame, in, &text);
	borrower->wants_place = lacks_place && session_awaits_place(client, touches, text);
	/* A text that writes, too, mostly asks for what it has written. */
	borrower->wants_own =
	    (touches & (SQL_TOUCH_SEQUENCE | SQL_TOUCH_WRITE)) == SQL_TOUCH_SEQUENCE &&
	    !borrower->wants_place;
}

void relay_lacks_place(const struct client *client, const struct frame *frame, struct bytes in,
                       struct err *err)
{
	struct bytes text;
	unsigned int touches = first_touches(client, frame, in, &text);

	session_refuse_place(client, touches, text, err);
}

/* How long this statement waits, if a comment of its text says so, as sqlcommenter writes it. */
static void read_patience(struct client *client, const struct frame *frame, struct bytes in)
{
	struct said said = said_read(client, frame, in);
	struct bytes value;
	char duration[32];
	usec_t time;

	if (!said.is_whole || !said.text.at ||
	    !sql_traceparent_key(said.text, "pgweir.wait_timeout='", &value) ||
	    value.count >= sizeof(duration))
		return;
	memcpy(duration, value.at, value.count);
	duration[value.count] = 0;
	if (!value_time(duration, USEC_PER_SEC, 10, &time, NULL) || time <= 0)
		return;
	client->borrower.patience_now = client_patience(time);
	client_wait_begin(client);
}

/* Handles a frame of a client without a server. JUDGE_SEND: the client has one now. */
static enum judgement judge_without(struct client *client, const struct frame *frame,
                                    struct bytes in, struct batch *batch)
{
	enum client_state state = client->state;
	struct err err;

	if (frame->type == 'Q' && (client->late || client_rules(client)->late_begin)) {
		enum judgement judgement = judge_late(client, frame, in, batch);

		if (judgement != JUDGE_SEND)
			return judgement;
	}
	if (client_rules(client)->route_reads && !route_client(client, in))
		return JUDGE_MORE;
	/* Refused, if at all, when it shows what it begins, and so only once. */
	if (client->borrower.pool->limits.guards_queue && in.count < frame->length &&
	    frame->length <= STREAM_AHEAD_MAX)
		return JUDGE_MORE;
	note_wants(client, frame, in);
	if (!relay_get_server(client, &err)) {
		if (client->state == state) { /* it does not wait for one, either */
			pool_drop_place(&client->borrower);
			if (relay_fails_alone(client, frame, in, &err))
				return relay_fail(client, frame, in, &err, batch);
			client_turn_away(client, &err);
		} else if (client->state == CLIENT_WAITING) {
			read_patience(client, frame, in);
		}
		return client_is_over(client) ? JUDGE_END : JUDGE_WAIT;
	}
	if (client->late && !late_begin_send(client, frame->type, batch))
		return JUDGE_MEMORY;
	return JUDGE_SEND;
}

/* Whether the next message begins a transaction, as no BEGIN is sent ahead of it, either. */
static bool is_first(const struct client *client)
{
	return server_is_between(client->borrower.server) && !client->late;
}

/* Handles a frame with a text that may touch session state. JUDGE_SEND: no objection. */
static enum judgement judge_touching(struct client *client, const struct frame *frame,
                                     struct bytes in, struct bytes text, struct batch *batch)
{
	unsigned int touches = batch->touches;
	bool is_run = frame->type != 'P' || !statements_follow(client);
	enum judgement judgement = JUDGE_SEND;

	/* With CLIENT_HAS_SQL_NAMES, that was done for each text. */
	if ((touches & SQL_TOUCH_BY_NAME) && !(client_features(client) & CLIENT_HAS_SQL_NAMES))
		judgement = exposed_before(client, frame, in, batch);
	if (judgement != JUDGE_SEND)
		return judgement;
	batch->is_query = frame->type != 'P';
	judgement = statements_run(client, frame->type, touches, text, is_run, batch);
	if (judgement == JUDGE_SEND && frame->type == 'Q' && is_first(client))
		session_note_alone(client, text);
	return judgement;
}

/* Handles a frame with a text. JUDGE_SEND: no objection. */
static enum judgement judge_session(struct client *client, const struct frame *frame,
                                    struct bytes in, struct batch *batch)
{
	struct bytes text;

	if (session_is_watched(client)) {
		batch->touches = session_touches(client, frame, in, &text);
		if (session_relevant(client, batch->touches))
			return judge_touching(client, frame, in, text, batch);
	} else if (session_is_in_session_mode(client)) {
		return session_mode_note(client, frame, in) ? JUDGE_SEND : JUDGE_MEMORY;
	}
	return JUDGE_SEND;
}

/* Starts the client's batch and the server's query, unless they have started. */
static void begin_query(struct client *client, struct server *server, const struct frame *frame,
                        struct bytes in)
{
	if (session_stays(client)) {
		session_idle_end(client, frame, in);
		if (!client->xact_at)
			session_begin_sample(client);
	}
	if (!client->request_at) {
		relay_begin_batch(client);
		relay_begin_query(client, client->request_at);
	} else if (!server->lease.request_at) {
		relay_begin_query(client, client_now(client));
	}
}

/* Bytes of a frame with a text that are enough for the name before it and the digest. */
#define TRACK_ENOUGH (SQL_DIGEST_MAX + 1024)

/*
 * Whether more of a frame must be received before it is judged: what it touches, its digest and its
 * names must not depend on how it was cut by the network. Needs no server.
 */
static bool needs_more(struct client *client, const struct frame *frame, struct bytes in,
                       unsigned int features)
{
	bool has_text = frame->type == 'Q' || frame->type == 'P';
	bool is_tracked = features & CLIENT_IS_TRACKED;

	if (has_text && frame->length <= WHOLE_TEXT_MAX &&
	    (session_is_watched(client) || session_is_in_session_mode(client)))
		return true;
	if (has_text && is_tracked && in.count < TRACK_ENOUGH)
		return true;
	return ((is_tracked && !has_text) ||
	        ((features & CLIENT_FOLLOWS_STATEMENTS) && statements_follow(client))) &&
	       statements_need_more(client, frame, in);
}

static bool note(struct server *server, enum ledger_kind kind, struct batch *batch)
{
	struct ledger_change *change = batch->change;

	if (!change)
		return server_note(server, kind);
	batch->change = NULL;
	return server_note_change(server, kind, LEDGER_CLIENT, change);
}

/*
 * The same as is_decided(), of the messages that do not need a server: Terminate, Flush, and those
 * of a COPY.
 */
static bool is_decided_alone(struct client *client, char type, enum judgement *judgement)
{
	const struct server *server = client->borrower.server;
	bool is_active = client->state == CLIENT_ACTIVE;

	/* More data of a COPY: there may be millions of such frames, and none adds an entry. */
	if (type == 'd' && is_active && server->wire.ledger.has_data && !server->wire.is_ready)
		*judgement = JUDGE_SEND;
	/* Before the next check: PostgreSQL, too, obeys Terminate while it ignores messages. */
	else if (type == 'X')
		*judgement = JUDGE_LEAVE;
	/* The rest of a COPY that has failed, or a Flush with nothing to flush. */
	else if (client->is_skipping || !is_active || server->wire.is_ready)
		*judgement = JUDGE_DROP;
	else
		return false;
	return true;
}

/*
 * Whether the header says enough, without a server: then *judgement is the answer. A frame that is
 * refused or incomplete must not take a server.
 */
static bool is_decided(struct client *client, const struct request *request,
                       const struct frame *frame, struct bytes in, unsigned int features,
                       struct batch *batch, enum judgement *judgement)
{
	if (!request)
		*judgement = refuse_message(client, CLOSE_UNKNOWN_MESSAGE);
	else if (!request->needs_server && is_decided_alone(client, frame->type, judgement))
		return true;
	else if (client->is_skipping)
		*judgement = skip(client, frame, in, batch);
	else if ((features & CLIENT_REFUSES_QUERY) && frame->type == 'Q')
		*judgement = refuse_message(client, CLOSE_PQEXEC);
	else if (in.count < frame->length && needs_more(client, frame, in, features))
		*judgement = JUDGE_MORE;
	else
		return false;
	return true;
}

/* Whether a frame has to wait for the server: then it must not be in the ledger. */
static enum judgement judge_turn(struct client *client, struct batch *batch)
{
	const struct server *server = client->borrower.server;

	/* Nothing of the client may be behind the question: it may end the transaction. */
	if (server->orders.behind_size)
		return batch_wait(batch, LEDGER_WAIT_EMPTY);
	if (ledger_is_full(&server->wire.ledger))
		return batch_wait(batch, LEDGER_WAIT_SPACE);
	/* The batch that is sent again comes first. */
	if (server->lease.replay.is_failed)
		return batch_wait(batch, LEDGER_WAIT_READY);
	/* pool_mode was not session when it began to listen. */
	if (client->listening && session_keeps_server(client) && is_first(client) &&
	    listening_has_any(client))
		return refuse_message(client, CLOSE_LISTENING_MODE);
	return JUDGE_SEND;
}

/* Adds what must come before the frame: at first, behind the last text with RESET or UNLISTEN. */
static enum judgement judge_before(struct client *client, const struct request *request,
                                   const struct frame *frame, struct bytes in, struct batch *batch)
{
	enum judgement judgement = JUDGE_SEND;

	if (client->touched & RESETS_FOLLOWED)
		judgement = resets_follow(client, frame->type, batch);
	if (judgement == JUDGE_SEND && listening_is_followed(client))
		judgement = listening_follow(client, batch);
	if (judgement != JUDGE_SEND)
		return judgement;
	if (frame->type == 'Q' && client->unnamed)
		statements_forget_unnamed(client, batch);
	if (request->may_touch && (client_features(client) & CLIENT_HAS_SQL_NAMES))
		return exposed_before(client, frame, in, batch);
	return JUDGE_SEND;
}

/* Handles what the frame has: a text, and names of statements. */
static enum judgement judge_content(struct client *client, const struct request *request,
                                    const struct frame *frame, struct bytes in, struct batch *batch,
                                    size_t *head)
{
	struct server *server = client->borrower.server;
	unsigned int features = client_features(client);
	enum judgement judgement = JUDGE_SEND;

	if (server->lease.vacancy)
		vacancy_before(server, frame->type);
	if (request->may_touch)
		judgement = judge_session(client, frame, in, batch);
	if (judgement == JUDGE_SEND && (features & CLIENT_FOLLOWS_STATEMENTS) &&
	    statements_concern(client, frame, in, batch) && statements_follow(client))
		judgement = statements_judge(client, frame, in, batch, head);
	if (frame->type == 'B' && client->session && client->session->names.parameters &&
	    judgement <= JUDGE_HEAD) {
		session_bind(client, frame, in);
		/* What the next one binds is noted by itself, if its statement is known. */
		if (statements_follow(client))
			client->session->names.parameters = 0;
	}
	if (frame->type == 'E' && judgement <= JUDGE_DROP)
		resets_execute(client);
	if (server->lease.vacancy && judgement <= JUDGE_HEAD && !batch->change)
		batch->change = vacancy_follow(server, frame->type, frame_body(in, frame));
	if ((features & CLIENT_IS_AUDITED) && judgement <= JUDGE_HEAD)
		audit_frame(client, frame, in);
	return judgement;
}

/* Not inlined: most clients have no such limits. */
__attribute__((noinline)) static enum judgement judge_limits(struct client *client,
                                                             const struct frame *frame,
                                                             struct bytes in, struct batch *batch,
                                                             uint64_t *digest)
{
	struct err err;

	if (track_allows(client, frame, in, digest, &err))
		return JUDGE_SEND;
	return client->state == CLIENT_ACTIVE ? statements_refuse(client, frame->type, &err, batch)
	                                      : relay_fail(client, frame, in, &err, batch);
}

static inline enum judgement judge(struct client *client, const struct frame *frame,
                                   struct bytes in, struct batch *batch, size_t *head)
{
	const struct request *request = request_of(frame->type);
	unsigned int features = client_features(client);
	bool is_limited = (features & CLIENT_IS_TRACKED) && client->clients->shared->limits.table &&
	                  (frame->type == 'Q' || frame->type == 'P' || frame->type == 'E');
	enum judgement judgement = JUDGE_SEND;
	uint64_t digest = 0;
	struct server *server;

	if (is_decided(client, request, frame, in, features, batch, &judgement))
		return judgement;
	if (client->state != CLIENT_ACTIVE) {
		if (stream_unsent(&client->stream))
			return JUDGE_WAIT;
		if (is_limited)
			judgement = judge_limits(client, frame, in, batch, &digest);
		if (judgement == JUDGE_SEND)
			judgement = judge_without(client, frame, in, batch);
	} else if ((features & CLIENT_HAS_HOSTS) &&
	           !ledger_ends_wait(&client->borrower.server->wire.ledger, LEDGER_WAIT_READY) &&
	           route_is_for_now(client)) {
		/* It may begin the next transaction, which need not be a read. */
		judgement = batch_wait(batch, LEDGER_WAIT_READY);
	}
	if (judgement == JUDGE_SEND)
		judgement = judge_turn(client, batch);
	if (judgement != JUDGE_SEND)
		return judgement;
	server = client->borrower.server;
	if (features & CLIENT_NOTES_SLOW)
		slow_note(client, frame, in);
	batch->server = server;
	begin_query(client, server, frame, in);
	if (is_limited)
		judgement = judge_limits(client, frame, in, batch, &digest);
	if (judgement != JUDGE_SEND)
		return judgement;
	if (client->is_position_due)
		causal_note(client, frame, in);
	judgement = judge_before(client, request, frame, in, batch);
	if (judgement == JUDGE_SEND)
		judgement = judge_content(client, request, frame, in, batch, head);
	if (judgement == JUDGE_SEND && !note(server, request->kind, batch))
		return JUDGE_MEMORY;
	if (client->is_position_due && judgement <= JUDGE_HEAD)
		batch->ends = causal_ends(client, frame, in);
	if (client->listening && judgement <= JUDGE_DROP)
		listening_sent(client);
	if ((features & CLIENT_IS_TRACKED) && judgement <= JUDGE_DROP)
		track_frame(client, frame, in, digest);
	return judgement;
}

enum judgement judge_all(struct client *client, struct bytes *in, struct batch *batch)
{
	uint32_t max = (uint32_t)client->clients->config->max_packet_size;

	while (in->count) {
		size_t count, head = 0;

		if (client->frame_left == 0) {
			struct frame frame;
			enum wire_result result = frame_peek(*in, max, &frame);
			enum judgement judgement;

			if (result == WIRE_MORE)
				return JUDGE_MORE;
			if (result == WIRE_BAD)
				return refuse_message(client, CLOSE_BAD_HEADER);
			if (statements_can_wait(client->seen, in->count, frame.length))
				return JUDGE_MORE;
			judgement = judge(client, &frame, *in, batch, &head);
			if (judgement == JUDGE_MEMORY)
				return refuse_message(client, CLOSE_MEMORY);
			client->seen = judgement == JUDGE_MORE ? (uint32_t)in->count : 0;
			if (judgement > JUDGE_DROP)
				return judgement;
			client->frame_left = frame.length - (uint32_t)head;
			client->forwards_rest = judgement <= JUDGE_HEAD;
			*in = bytes_skip(*in, head);
		}
		count = client->frame_left < in->count ? client->frame_left : in->count;
		if (client->forwards_rest)
			batch_run(batch, bytes_of(in->at, count));
		client->frame_left -= (uint32_t)count;
		*in = bytes_skip(*in, count);
	}
	return JUDGE_SEND;
}
