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
 *   - or it has nothing to execute: BEGIN, an empty query, Parse and Describe.
 *
 * Only the first batch of a transaction, and only if nothing of the client is on the server: no
 * session state, no listening connection. What was sent is kept only for entries with several
 * hosts, as that costs a copy.
 */
#include "resend_priv.h"

#include <ctype.h>
#include <string.h>

#include "pgweir/base/container_of.h"
#include "pgweir/pgwire/sql.h"
#include "pgweir/pgwire/sql_block.h"

#include "../session/session_mode_priv.h"
#include "../session/session_priv.h"
#include "../statements/statements_priv.h"
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
	return !client->frame_left && !client->late && !client->is_skipping &&
	       !client->replication && !relay_is_session(client) &&
	       !(client_features(client) & CLIENT_HAS_SQL_NAMES);
}

static bool is_between_transactions(const struct server *server)
{
	return server->status == 'I' && ledger_is_empty(&server->ledger) &&
	       ledger_is_certain(&server->ledger);
}

bool resend_begin(struct client *client)
{
	struct server *server = client->borrower.server;
	const struct pool *pool = client->borrower.pool;

	if (!client->request_at) /* a new batch */
		client->is_resent = false;
	if (server && !is_between_transactions(server)) {
		server->replay.may_resend = false; /* more follows the batch that is kept */
		return false;
	}
	return pool && pool->site.hosts->count > 1 && !client->is_resent && is_pooled(client);
}

/* Most texts begin otherwise, and need not be read: BEGIN, START. */
static bool may_begin(const char *text)
{
	char first = (char)(text[0] | 0x20), second = (char)(text[1] | 0x20);

	return (first == 'b' && second == 'e') || (first == 's' && second == 't');
}

/* Whether a Query has nothing to execute that could have an effect. */
static bool is_without_effect(struct bytes body)
{
	struct sql_block block;

	if (body.count < 2)
		return body.count == 1 && !body.at[0];
	if (!may_begin(body.at))
		return false;
	block = sql_block_read(bytes_of(body.at, body.count - 1));
	return block.kind == SQL_BLOCK_BEGIN || block.kind == SQL_BLOCK_START;
}

static inline bool is_step(char type)
{
	return type == 'P' || type == 'B' || type == 'D' || type == 'E' || type == 'C';
}

/*
 * Reads a batch that ends with a Sync. It may execute one thing, as its last message before the
 * Sync. *least: see struct replay.
 */
static bool read_extended(struct bytes in, uint8_t *least)
{
	bool has_bind = false, has_execute = false;
	struct frame frame;

	while (frame_peek(in, UINT32_MAX, &frame) == WIRE_OK && in.count >= frame.length) {
		if (frame.type == 'S') {
			*least = has_execute ? EXECUTE_AND_SYNC : 0;
			return in.count == frame.length && has_bind == has_execute;
		}
		if (has_execute || !is_step(frame.type))
			return false;
		has_bind |= frame.type == 'B';
		has_execute = frame.type == 'E';
		in = bytes_skip(in, frame.length);
	}
	return false;
}

static bool read_batch(struct bytes in, uint8_t *least)
{
	struct frame frame;

	if (frame_peek(in, UINT32_MAX, &frame) != WIRE_OK || in.count < frame.length)
		return false;
	if (frame.type != 'Q')
		return read_extended(in, least);
	*least = is_without_effect(frame_body(in, &frame)) ? 0 : 1;
	return in.count == frame.length;
}

void resend_keep(struct client *client, struct bytes input)
{
	struct replay *replay = &client->borrower.server->replay;
	uint8_t least;

	if (client->frame_left || input.count > REPLAY_MAX || !is_plain(client) ||
	    !read_batch(input, &least))
		return;
	if (replay->count != input.count)
		replay_keep(replay, input);
	replay->may_resend = true;
	replay->unsent_least = least;
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
	if (!pool_ask(&client->borrower, &err)) {
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

bool resend_wants_writer(struct borrower *borrower, struct bytes batch, const char *words)
{
	struct client *client = container_of(borrower, struct client, borrower);
	struct bytes text;

	return may_ask_again(client) && route_text(client, batch, &text) && is_about(words, text);
}

void resend_unrun(struct borrower *borrower, const struct err *err, struct bytes batch)
{
	struct client *client = container_of(borrower, struct client, borrower);

	if (!may_ask_again(client)) {
		client_fatal(client, err);
		return;
	}
	log_info(&client->log, "the server was lost before it ran the statement, which is sent to "
	                       "another one");
	ask_again(client, batch);
}
