/* SPDX-License-Identifier: ISC */
/*
 * Resend: what a server was sent and has certainly not run is sent to another one, once. The client
 * waits for that server as if it had none before.
 *
 * Hard here: what is certain? A connection that breaks says nothing about the statement: it may run
 * still, or its COMMIT may have been the last thing that the server did. An error that ends the
 * session (57P01) may interrupt a statement whose effects outside of its transaction stay: values
 * of sequences, other connections, a COMMIT within CALL. So a batch is sent again only if
 *
 *   - nothing was sent yet, because the server's parameters were being set;
 *   - its last executable message has not left this machine in full, or never arrived: the server's
 *     end of the connection was closed before (stream_undelivered());
 *   - or the server has ended an idle session (57P05);
 *   - or it has refused a text as a whole because its host accepts no writes any more (25006);
 *   - or it has nothing to execute that could have an effect beyond its transaction: BEGIN, SET
 *     TRANSACTION, SET LOCAL, an empty query, Parse and Describe.
 *
 * A BEGIN that was answered, with nothing behind it but SET TRANSACTION and SET LOCAL, becomes a
 * late BEGIN, and these with it: the opening of the transaction. It is sent again together with the
 * first batch behind it, too, if that is sent again.
 *
 * Only the first batch of a transaction, and only if nothing of the client is on the server: no
 * session state, no listening connection. What was sent is kept only for entries with several
 * hosts, as that costs a copy.
 */
#include "resend_priv.h"

#include <ctype.h>
#include <string.h>

#include "pgweir/base/container_of.h"
#include "pgweir/pgwire/fields.h"
#include "pgweir/pgwire/sql.h"
#include "pgweir/pgwire/sql_block.h"

#include "../session/session_mode_priv.h"
#include "../session/session_priv.h"
#include "../statements/statements_priv.h"
#include "late_begin_priv.h"
#include "relay_priv.h"
#include "route_priv.h"

#include "pgweir/base/banned.h"

/* Bytes of a Sync, and at least one of the Execute before it. */
#define EXECUTE_AND_SYNC (FRAME_HEADER_SIZE + 1)

/* ---- what can be kept ---- */

/* Whether nothing of this client, or of its transaction, would be lost with its server. */
static bool is_plain(const struct client *client)
{
	return !client->touched && !client->listening && !client->sql && !session_stays(client);
}

/* Whether its next message is one that is relayed to a server of any transaction. */
static bool is_pooled(const struct client *client)
{
	return !client->frame_left && !client->is_skipping && !client->replication &&
	       !relay_is_session(client) && !(client_features(client) & CLIENT_HAS_SQL_NAMES);
}

/* A query of ours may be ahead, which sets application_name. */
static bool is_between_transactions(const struct server *server)
{
	return server->status == 'I' && !ledger_owes_borrower(&server->ledger) &&
	       ledger_is_certain(&server->ledger);
}

/* Takes the opening that precedes what comes now. The server has it again by resend_keep(). */
static void take_opening(const struct client *client, struct resend *resend)
{
	struct server *server = client->borrower.server;

	if (client->late) {
		struct bytes texts = late_begin_texts(client);

		memcpy(resend->late, texts.at, texts.count);
		resend->opening = bytes_of(resend->late, texts.count);
	} else if (server && server_has_only_begun(server)) {
		resend->opening = replay_opening(&server->replay);
		resend->has_begun = true;
	}
	if (server)
		replay_forget_opening(&server->replay);
}

void resend_begin(struct client *client, struct resend *resend)
{
	struct server *server = client->borrower.server;
	const struct pool *pool = client->borrower.pool;

	resend->is_first = resend->has_begun = false;
	resend->opening = bytes_of(NULL, 0);
	if (!client->request_at) /* a new batch */
		client->is_resent = false;
	take_opening(client, resend);
	if (server && !resend->has_begun && !is_between_transactions(server)) {
		server->replay.may_resend = false; /* more follows the batch that is kept */
		return;
	}
	resend->is_first =
	    pool && pool->site.hosts->count > 1 && !client->is_resent && is_pooled(client);
}

/* ---- what is in a batch ---- */

/* What a batch executes. */
struct reading {
	const struct client *client;
	struct bytes opening; /* texts, in a place of REPLAY_OPENING_MAX bytes */
	bool is_opening;      /* nothing else is executed, and all of it is there */
	bool has_effect;      /* something is executed that may have an effect */
	/* the unnamed statement and the statement of the last Bind; `at` is NULL if not known */
	struct bytes unnamed, bound;
	const char *portal; /* of a Bind that was not executed; NULL: none */
};

/* Most texts begin otherwise, and need not be read: BEGIN, START, SET. */
static bool may_open(const char *text)
{
	char first = (char)(text[0] | 0x20), second = (char)(text[1] | 0x20);

	return (first == 'b' && second == 'e') || (first == 's' && second == 't') ||
	       (first == 's' && second == 'e' && (text[2] | 0x20) == 't');
}

/* Whether another server of the client's pool would execute it, too. */
static bool fits_any_host(const struct client *client, const struct sql_block *block)
{
	enum target_session_attrs target = client->borrower.server->site->target;

	return !block->is_for_primary || target == TARGET_PRIMARY || target == TARGET_READ_WRITE;
}

/* A text is executed, which has a zero behind it. It has no effect, if it is part of an opening. */
static void read_executed(struct reading *reading, struct bytes text)
{
	struct sql_block block = { 0 };
	size_t count = reading->opening.count;
	bool is_begin, is_part = false;

	if (text.at && may_open(text.at)) {
		block = sql_block_read(text);
		is_part = block.kind == SQL_BLOCK_SET || sql_is_set_local(text);
	}
	is_begin = block.kind == SQL_BLOCK_BEGIN || block.kind == SQL_BLOCK_START;
	reading->has_effect |= !is_begin && !is_part;
	if ((!is_begin && (!is_part || !count)) || !fits_any_host(reading->client, &block) ||
	    text.count + 1 > REPLAY_OPENING_MAX - count) {
		reading->is_opening = false;
		return;
	}
	memcpy((char *)reading->opening.at + count, text.at, text.count + 1);
	reading->opening.count += text.count + 1;
}

static void read_parse(struct reading *reading, struct bytes body)
{
	const char *name, *text;

	if (bytes_take_text(&body, &name) && bytes_take_text(&body, &text) && !*name)
		reading->unnamed = bytes_text(text);
}

/* A Bind may call functions, so it must be executed. false: the batch cannot be sent again. */
static bool read_bind(struct reading *reading, struct bytes body)
{
	struct object_names names;
	const char *text;

	if (reading->portal || fields_names('B', body, body.count, &names) != WIRE_OK)
		return false;
	reading->portal = names.portal;
	reading->bound = reading->unnamed;
	if (*names.statement) {
		text = statements_text(reading->client, names.statement);
		reading->bound = text ? bytes_text(text) : bytes_of(NULL, 0);
	}
	return true;
}

static bool read_execute(struct reading *reading, struct bytes body)
{
	const char *portal;

	if (!reading->portal || !bytes_take_text(&body, &portal) ||
	    strcmp(portal, reading->portal) != 0)
		return false;
	reading->portal = NULL;
	read_executed(reading, reading->bound);
	return true;
}

static bool read_step(struct reading *reading, const struct frame *frame, struct bytes in)
{
	struct bytes body = frame_body(in, frame);

	switch (frame->type) {
	case 'P':
		read_parse(reading, body);
		return true;
	case 'B':
		return read_bind(reading, body);
	case 'E':
		return read_execute(reading, body);
	case 'C':
	case 'D':
		return true;
	default:
		return false;
	}
}

/*
 * Reads a batch that ends with a Sync. If it executes what may have an effect, that is its last
 * message before the Sync.
 */
static bool read_extended(struct reading *reading, struct bytes in)
{
	struct frame frame;

	while (frame_peek(in, UINT32_MAX, &frame) == WIRE_OK && in.count >= frame.length) {
		if (frame.type == 'S')
			return in.count == frame.length && !reading->portal;
		if (reading->has_effect || !read_step(reading, &frame, in))
			return false;
		in = bytes_skip(in, frame.length);
	}
	return false;
}

/* *least: see struct replay. */
static bool read_batch(struct reading *reading, struct bytes in, uint16_t *least)
{
	struct frame frame;
	struct bytes text;

	if (frame_peek(in, UINT32_MAX, &frame) != WIRE_OK || in.count < frame.length)
		return false;
	if (frame.type != 'Q') {
		bool is_good = read_extended(reading, in);

		*least = reading->has_effect ? EXECUTE_AND_SYNC : 0;
		return is_good;
	}
	text = frame_body(in, &frame);
	if (!text.count || text.at[text.count - 1])
		return false;
	if (text.count > 1) /* an empty text has no effect */
		read_executed(reading, bytes_of(text.at, text.count - 1));
	*least = reading->has_effect;
	return in.count == frame.length;
}

void resend_keep(struct client *client, const struct resend *resend, struct bytes input,
                 bool is_sent)
{
	const struct server *server = client->borrower.server;
	struct replay *replay = &client->borrower.server->replay;
	struct bytes opening = resend->opening;
	struct reading reading = { .client = client, .is_opening = true };
	uint16_t least;

	if (!is_sent) {
		replay->opening_count = resend->has_begun ? (uint16_t)opening.count : 0;
		return;
	}
	if (client->frame_left || input.count > REPLAY_MAX || !is_plain(client) ||
	    !replay_has_memory(replay))
		return;
	if (opening.count && !resend->has_begun)
		memcpy(replay->at + REPLAY_MAX, opening.at, opening.count);
	reading.opening = bytes_of(replay->at + REPLAY_MAX, opening.count);
	if (!read_batch(&reading, input, &least))
		return;
	if (replay->count != input.count)
		replay_keep(replay, input);
	replay->may_resend = true;
	/* a question behind it is not the client's */
	replay->unsent_least = least ? least + server->ask_size : 0;
	replay->is_opening = reading.is_opening;
	replay->opening_count = (uint16_t)opening.count;
	replay->opening_more =
	    reading.is_opening ? (uint16_t)(reading.opening.count - opening.count) : 0;
}

/* ---- sending it again ---- */

/* The batch becomes input of the client again, and waits for a server. */
static void ask_again(struct client *client, struct bytes batch)
{
	struct err err;

	client->is_resent = true;
	client->seen = 0;
	statements_leave_server(client);
	if (batch.count && !stream_keep(&client->stream, batch)) {
		client_close(client, CLOSE_MEMORY);
		return;
	}
	client_hurry(client);
	if (!pool_ask_first(&client->borrower, client->request_at, &err)) {
		client_turn_away(client, &err);
		return;
	}
	client_enter(client, CLIENT_WAITING);
	client->was_notified = false;
	client_wait_begin(client);
	stream_want(&client->stream, WANT_END);
}

static bool may_ask_again(const struct client *client)
{
	if (client->is_resent || relay_is_session(client))
		return false;
	if (client->state == CLIENT_PREPARING) /* its messages were not judged yet */
		return !session_stays(client);
	/* The client may have sent more, which has not been judged. */
	return client->state == CLIENT_ACTIVE && !client->frame_left &&
	       !stream_kept(&client->stream).count;
}

/* Whether the words have this one, between others. */
static bool has_word(const char *words, const char *word)
{
	size_t size = strlen(word);
	const char *at = words;

	while ((at = strstr(at, word))) {
		bool is_begin = at == words || !isalnum((unsigned char)at[-1]);

		if (is_begin && !isalnum((unsigned char)at[size]) && at[size] != '(')
			return true;
		at += size;
	}
	return false;
}

/*
 * Whether the words name the command with which the text begins: "cannot execute INSERT in a
 * read-only transaction", in any language. Then it was refused as a whole; a function that was
 * refused while the text ran ("nextval()") is another word.
 */
static bool is_about(const char *words, struct bytes text)
{
	static const char *const with[] = { "SELECT", "INSERT", "UPDATE", "DELETE", "MERGE" };
	struct bytes first = sql_first_word(text);
	char name[32];

	if (!first.count || first.count >= sizeof(name))
		return false;
	for (size_t i = 0; i < first.count; i++)
		name[i] = (char)toupper((unsigned char)first.at[i]);
	name[first.count] = 0;
	if (strcmp(name, "WITH") != 0)
		return has_word(words, name);
	for (size_t i = 0; i < sizeof(with) / sizeof(with[0]); i++) {
		if (has_word(words, with[i]))
			return true;
	}
	return false;
}

/* Whether the transaction was begun in such a way that any host would refuse a write. */
static bool is_read_only(const struct replay *kept)
{
	struct bytes texts = bytes_of(NULL, 0);
	bool is_read_only = false;
	const char *text;

	if (kept->opening_count)
		texts = replay_opening(kept);
	while (bytes_take_text(&texts, &text)) {
		enum sql_access access = sql_block_read(bytes_text(text)).access;

		if (access != SQL_ACCESS_UNSAID)
			is_read_only = access == SQL_ACCESS_READ_ONLY;
	}
	return is_read_only;
}

bool resend_wants_writer(struct borrower *borrower, const struct replay *kept, const char *words)
{
	struct client *client = container_of(borrower, struct client, borrower);
	struct bytes text;

	return may_ask_again(client) && !is_read_only(kept) &&
	       route_text(client, bytes_of(kept->at, kept->count), &text) && is_about(words, text);
}

/* Nothing but an opening has run: it becomes late, and the client does not notice anything. */
static void begin_again(struct client *client)
{
	log_info(&client->log, "the server was lost after BEGIN, which is sent to another one");
	statements_leave_server(client);
	client_enter(client, CLIENT_LATE);
	late_begin_arm(client);
}

/* Whether the client has read the reply to BEGIN, and its next message is still to come. */
static bool may_begin_again(const struct client *client)
{
	return client->state == CLIENT_ACTIVE && !relay_is_session(client) && !client->frame_left &&
	       client->stream.want == WANT_INPUT;
}

void resend_unrun(struct borrower *borrower, const struct err *err, const struct replay *unrun)
{
	struct client *client = container_of(borrower, struct client, borrower);
	bool has_begun = unrun->opening_count;

	if (has_begun && !unrun->count ? !may_begin_again(client) : !may_ask_again(client)) {
		client_fatal(client, err);
		return;
	}
	if (has_begun && !late_begin_again(client, replay_opening(unrun))) {
		client_close(client, CLOSE_MEMORY);
		return;
	}
	if (has_begun && !unrun->count) {
		begin_again(client);
		return;
	}
	log_info(&client->log, "the server was lost before it ran the statement, which is sent to "
	                       "another one");
	ask_again(client, bytes_of(unrun->at, unrun->count));
}
