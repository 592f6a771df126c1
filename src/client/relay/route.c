/* SPDX-License-Identifier: ISC */
/*
 * Which transactions are reads (route_reads).
 *
 *   BEGIN READ ONLY                                       a read
 *   BEGIN, then SET TRANSACTION READ ONLY                 a read: the BEGIN is late (late_begin.c)
 *   BEGIN, or a statement alone                           as default_transaction_read_only says
 *
 *   SELECT outside of a transaction                       a read with route_reads = statements
 *
 * Hard here: only the first message decides, with the rest of its batch, before it is sent. What is
 * not certain is no read, so the primary gets it: a text that cannot be read, and what a standby
 * would refuse although a read-only transaction on a primary may do it (SERIALIZABLE, LISTEN), or
 * would do in another sense (advisory locks). Nor is a statement that may leave something in the
 * session: it would keep its client on a standby.
 */
#include "relay_priv.h"

#include <string.h>
#include <strings.h>

#include "pgweir/pgwire/sql_single.h"

#include "../session/session_priv.h"
#include "../statements/statements_priv.h"

/* A longer text is not awaited: it is no read. */
#define TEXT_MAX ((uint32_t)64 * 1024)

/* What a read may touch: these are made and followed on a standby as on a primary. */
#define HARMLESS (SQL_TOUCH_PARAMS | SQL_TOUCH_DEFAULT | SQL_TOUCH_EXECUTE | SQL_TOUCH_RELEASE)

/* ---- parameters ---- */

/* As PostgreSQL reads a Boolean that is true. */
static bool is_true(const char *value)
{
	static const char *const words[] = { "on", "true", "yes", "1" };
	size_t count = strlen(value);

	if (count == 0 || strcasecmp(value, "o") == 0)
		return false;
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strncasecmp(value, words[i], count) == 0)
			return true;
	}
	return false;
}

/* The value in the client's session. NULL: not known. */
static const char *value_of(const struct client *client, const char *name)
{
	const struct pool *pool = pools_find_twin(client->borrower.pool, POOL_FOR_CLIENTS);
	const char *value = params_find(client->params, name);

	return value || !pool ? value : params_find(pool->baseline, name);
}

/* A standby refuses it. */
static bool is_serializable(const struct client *client)
{
	const char *level = value_of(client, "default_transaction_isolation");

	return level && strcasecmp(level, "serializable") == 0;
}

static bool is_read_by_default(const struct client *client)
{
	const char *value = value_of(client, "default_transaction_read_only");

	return value && is_true(value) && !is_serializable(client);
}

static bool is_read_only_session(const struct client *client)
{
	const char *value = params_find(client->startup, "default_transaction_read_only");

	return value && is_true(value);
}

/* ---- texts ---- */

static bool is_read_by(const struct client *client, const struct sql_block *block)
{
	if (block->is_for_primary || (!block->has_isolation && is_serializable(client)))
		return false;
	return block->access == SQL_ACCESS_READ_ONLY || is_read_by_default(client);
}

/* A WITH may write, but a read-only transaction refuses that on a primary as well. */
static bool begins_with_with(struct bytes text)
{
	struct bytes word = sql_first_word(text);

	return word.count == 4 && strncasecmp(word.at, "with", 4) == 0;
}

/* Whether a text that is none of the above may run on a standby, but for what is `allowed`. */
static bool may_read(struct bytes text, unsigned int allowed)
{
	unsigned int touches = sql_touch(text);

	if ((touches & SQL_TOUCH_WRITE) && begins_with_with(text))
		allowed |= SQL_TOUCH_WRITE;
	return !(touches & ~allowed) && sql_is_no_block(text) && !sql_is_for_primary(text);
}

/* The first text of a transaction whose BEGIN is late. */
static bool is_read_after_begin(const struct client *client, struct bytes text)
{
	const struct sql_block *begin = &client->late->block;
	struct sql_block block = sql_block_read(text);

	if (block.kind == SQL_BLOCK_SET && block.access == SQL_ACCESS_READ_ONLY) {
		block.is_for_primary |= begin->is_for_primary;
		block.has_isolation |= begin->has_isolation;
		return is_read_by(client, &block);
	}
	if (block.kind == SQL_BLOCK_SET)
		return !block.is_for_primary && is_read_by(client, begin);
	return is_read_by(client, begin) && may_read(text, HARMLESS);
}

static bool is_read(const struct client *client, struct bytes text)
{
	struct sql_block block;

	if (client->late)
		return is_read_after_begin(client, text);
	block = sql_block_read(text);
	switch (block.kind) {
	case SQL_BLOCK_BEGIN:
	case SQL_BLOCK_START:
		return is_read_by(client, &block);
	case SQL_BLOCK_OTHER:
		return is_read_by_default(client) && may_read(text, 0);
	default:
		return false;
	}
}

/* ---- messages ---- */

bool route_frame_text(const struct client *client, const struct frame *frame, struct bytes in,
                      struct bytes *text)
{
	struct bytes body = frame_received(in, frame);
	struct object_names names;
	struct statement *statement;
	const char *name;

	if (frame->type != 'B')
		return fields_sql(frame, in, &name, text);
	if (fields_names('B', body, frame->length - FRAME_HEADER_SIZE, &names) != WIRE_OK ||
	    !*names.statement)
		return false;
	statement = statements_find(client, names.statement);
	if (statement)
		*text = bytes_text(statement_text(statement).at);
	return statement != NULL;
}

/* Whether the frame only prepares what comes behind it, so that the next one decides. */
static bool is_before(char type) { return type == 'C' || type == 'D' || type == 'H'; }

/* The first frame that decides. WIRE_MORE: it has not been received in full. */
static enum wire_result find_frame(struct bytes *in, struct frame *frame)
{
	enum wire_result result;

	while ((result = frame_peek(*in, UINT32_MAX, frame)) == WIRE_OK) {
		if (frame->length > TEXT_MAX)
			return WIRE_BAD;
		if (in->count < frame->length)
			return WIRE_MORE;
		if (!is_before(frame->type))
			return WIRE_OK;
		*in = bytes_skip(*in, frame->length);
	}
	return result;
}

/* ---- batches ---- */

static bool is_bind_of_unnamed(struct bytes body)
{
	struct object_names names;

	return fields_names('B', body, body.count, &names) == WIRE_OK && !*names.statement;
}

/* The bytes of a batch, from its first message to its Sync. A Flush before that is no batch. */
static enum wire_result measure_batch(struct bytes in, size_t *size)
{
	enum wire_result result;
	struct frame frame;

	for (*size = 0; *size <= TEXT_MAX; *size += frame.length) {
		struct bytes rest = bytes_skip(in, *size);

		result = frame_peek(rest, UINT32_MAX, &frame);
		if (result != WIRE_OK)
			return result;
		if (!strchr("PBDECS", frame.type) || frame.length > TEXT_MAX)
			return WIRE_BAD;
		if (rest.count < frame.length)
			return WIRE_MORE;
		if (frame.type == 'S')
			return WIRE_OK;
	}
	return WIRE_BAD;
}

/* Whether a text behind the first one of its batch does not need the primary. */
static bool may_follow(const struct client *client, struct bytes text)
{
	struct sql_block block = sql_block_read(text);

	if (block.kind == SQL_BLOCK_BEGIN || block.kind == SQL_BLOCK_START)
		return is_read_by(client, &block);
	if (block.kind != SQL_BLOCK_OTHER)
		return !block.is_for_primary;
	return may_read(text, HARMLESS);
}

/*
 * Drivers send BEGIN and the first statement in one batch. `first`: where the frame is in it that
 * was judged already. A batch with a Flush, or a long one, is not looked at. WIRE_MORE: its Sync
 * has not been received.
 */
static enum wire_result judge_followers(const struct client *client, struct bytes in, size_t first,
                                        bool *are_reads)
{
	enum wire_result result;
	struct frame frame;
	struct bytes text;
	size_t size;

	*are_reads = true;
	result = measure_batch(in, &size);
	if (result != WIRE_OK)
		return result == WIRE_MORE ? WIRE_MORE : WIRE_OK;
	for (size_t at = first; at < size && *are_reads; at += frame.length) {
		struct bytes rest = bytes_skip(in, at);

		frame_peek(rest, UINT32_MAX, &frame);
		if (at != first && (frame.type == 'P' || frame.type == 'B') &&
		    route_frame_text(client, &frame, rest, &text))
			*are_reads = may_follow(client, text);
	}
	return WIRE_OK;
}

/* ---- single SELECTs ---- */

/* Whether a text is one statement that only reads. */
static bool is_select(const struct client *client, struct bytes text)
{
	struct bytes functions = buf_bytes(&client->borrower.pool->read_functions);

	return sql_single(text, functions) == SQL_SINGLE_READ && !is_serializable(client) &&
	       !(sql_touch(text) & ~(unsigned int)SQL_TOUCH_WRITE); /* WITH may write, too */
}

static bool routes_selects(const struct client *client)
{
	return client_rules(client)->route_reads == ROUTE_READS_STATEMENTS;
}

/*
 * Whether all that a batch prepares or binds are reads. The unnamed statement must be one of the
 * batch, as the text of an older one is not known.
 */
static bool is_batch_of_selects(const struct client *client, struct bytes batch)
{
	bool has_unnamed = false, has_any = false;
	struct frame frame;
	struct bytes text;

	while (frame_peek(batch, UINT32_MAX, &frame) == WIRE_OK) {
		struct bytes body = frame_body(batch, &frame);
		bool is_unnamed = frame.type == 'B' && has_unnamed && is_bind_of_unnamed(body);

		if ((frame.type == 'P' || frame.type == 'B') && !is_unnamed) {
			if (!route_frame_text(client, &frame, batch, &text) ||
			    !is_select(client, text))
				return false;
			has_unnamed |= frame.type == 'P' && body.count && !body.at[0];
			has_any = true;
		}
		batch = bytes_skip(batch, frame.length);
	}
	return has_any;
}

/* Whether the client begins with SELECTs alone. WIRE_MORE: it is not known yet. */
static enum wire_result find_selects(const struct client *client, struct bytes in, bool *are_reads)
{
	enum wire_result result;
	struct frame frame;
	struct bytes text;
	size_t size;

	*are_reads = false;
	if (client->late || frame_peek(in, UINT32_MAX, &frame) != WIRE_OK)
		return WIRE_OK;
	if (frame.type == 'Q') { /* it is there in full */
		*are_reads = route_frame_text(client, &frame, in, &text) && is_select(client, text);
		return WIRE_OK;
	}
	result = measure_batch(in, &size);
	if (result == WIRE_OK)
		*are_reads = is_batch_of_selects(client, bytes_of(in.at, size));
	return result;
}

/* Whether no text says where the client goes: in session mode it stays where it is at first. */
static bool is_settled(const struct client *client, bool *is_standby)
{
	const struct pool_rules *rules = client_rules(client);

	*is_standby = false;
	if (client->replication || client->listening || client->asks_sequences)
		return true;
	if (rules->route_reads != ROUTE_READS_SESSIONS)
		return false;
	*is_standby = is_read_only_session(client) && rules->mode == POOL_MODE_SESSION;
	return !is_read_only_session(client) || *is_standby;
}

bool route_is_for_now(const struct client *client)
{
	return client->borrower.pool->purpose == POOL_FOR_READS && !session_keeps_server(client) &&
	       !session_stays(client);
}

enum wire_result route_judge(const struct client *client, const struct frame *frame,
                             struct bytes in, bool *is_read_on_standby)
{
	struct bytes rest = in;
	enum wire_result result;
	struct frame first;
	struct bytes text;
	bool is_one;

	if (is_settled(client, is_read_on_standby))
		return WIRE_OK;
	result = find_frame(&rest, &first);
	/* What has come is enough to go on with the frames that do not decide. */
	if (result == WIRE_MORE && !is_before(frame->type))
		return WIRE_MORE;
	is_one = result == WIRE_OK && route_frame_text(client, &first, rest, &text) &&
	         is_read(client, text);
	if (is_one && first.type != 'Q' &&
	    judge_followers(client, in, in.count - rest.count, &is_one) == WIRE_MORE)
		return WIRE_MORE;
	if (result == WIRE_OK && !is_one && routes_selects(client) &&
	    find_selects(client, in, &is_one) == WIRE_MORE)
		return WIRE_MORE;
	*is_read_on_standby = is_one;
	return WIRE_OK;
}

bool route_client(struct client *client, const struct frame *frame, struct bytes in)
{
	bool is_standby;

	if (route_judge(client, frame, in, &is_standby) == WIRE_MORE)
		return false;
	if (!client_rules(client)->is_causal) {
		pool_route(&client->borrower, is_standby);
		return true;
	}
	pool_route(&client->borrower, is_standby && causal_may_read(client));
	causal_begin(client);
	return true;
}
