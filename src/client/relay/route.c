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

#include "pgweir/pgwire/sql_token.h"
#include "pgweir/pgwire/startup.h"

/* A longer text is not awaited: it is no read. */
#define TEXT_MAX ((uint32_t)64 * 1024)

/* What ends with the transaction. */
#define OF_TRANSACTION ((unsigned int)(SQL_TOUCH_LOCAL | SQL_TOUCH_SCOPE | SQL_TOUCH_REPORTED))

/* What a read may touch: these are made and followed on a standby as on a primary. */
#define HARMLESS (SQL_TOUCH_PARAMS | SQL_TOUCH_DEFAULT | SQL_TOUCH_EXECUTE | SQL_TOUCH_RELEASE)

/* ---- parameters ---- */

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

	return value && startup_is_true(value) && !is_serializable(client);
}

static bool is_read_only_session(const struct client *client)
{
	const char *value = params_find(client->startup, "default_transaction_read_only");

	return value && startup_is_true(value);
}

/* ---- texts ---- */

static bool is_read_by(const struct client *client, const struct sql_block *block)
{
	if (block->is_for_primary || (!block->has_isolation && is_serializable(client)))
		return false;
	return block->access == SQL_ACCESS_READ_ONLY || is_read_by_default(client);
}

/* Whether a text that is none of the above may run on a standby, but for what is `allowed`. */
static bool may_read(struct bytes text, unsigned int allowed)
{
	unsigned int touches = sql_touch(text) & ~OF_TRANSACTION;
	struct scanner scanner = { .rest = text };

	/* A WITH may write, but a read-only transaction refuses that on a primary as well. */
	if ((touches & SQL_TOUCH_WRITE) && sql_takes(&scanner, "with"))
		allowed |= SQL_TOUCH_WRITE;
	return !(touches & ~allowed) && sql_is_no_block(text) && !sql_is_for_primary(text);
}

/* The first text of a transaction whose BEGIN is late: SET TRANSACTION adds to what that says. */
static bool is_read_after_begin(const struct client *client, struct bytes text)
{
	struct sql_block all = late_begin_read(bytes_of(client->late->texts, client->late->size));
	struct sql_block block = sql_block_read(text);

	if (block.kind != SQL_BLOCK_SET)
		return is_read_by(client, &all) && may_read(text, HARMLESS);
	all.is_for_primary |= block.is_for_primary;
	all.has_isolation |= block.has_isolation;
	if (block.access != SQL_ACCESS_UNSAID)
		all.access = block.access;
	return is_read_by(client, &all);
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

/* Whether a text is one statement that only reads. */
static bool is_select(const struct client *client, struct bytes text)
{
	struct bytes functions = buf_bytes(&client->borrower.pool->read_functions);

	return sql_single(text, functions) == SQL_SINGLE_READ && !is_serializable(client) &&
	       /* WITH may write, too */
	       !(sql_touch(text) & ~(SQL_TOUCH_WRITE | OF_TRANSACTION));
}

/* ---- messages ---- */

/*
 * A walk through the first batch of a client, which may begin a transaction. Drivers send BEGIN and
 * the first statement in one.
 */
struct walk {
	const struct client *client;
	bool is_begun;    /* a text was found: the first one says what the transaction is */
	bool is_read;     /* that is one, and so far nothing behind it needs the primary */
	bool are_selects; /* all are single SELECTs */
	bool has_unnamed; /* the unnamed statement is one of the batch */
};

static void see(struct walk *walk, const struct said *said)
{
	bool is_unnamed = said->name && !*said->name;

	if (!walk->is_begun)
		walk->is_read = said->text.at && is_read(walk->client, said->text);
	else if (walk->is_read && said->text.at)
		walk->is_read = may_follow(walk->client, said->text);
	/* The text of an older unnamed statement is not known. */
	if (walk->are_selects && !(said->type == 'B' && is_unnamed && walk->has_unnamed))
		walk->are_selects = said->text.at && is_select(walk->client, said->text);
	walk->has_unnamed |= said->type == 'P' && is_unnamed;
	walk->is_begun = true;
}

/*
 * WIRE_MORE: what has come does not decide. WIRE_BAD: what follows is not looked at: a long batch,
 * or one with a Flush.
 */
static enum wire_result walk_batch(struct walk *walk, struct bytes in)
{
	struct frame frame;

	for (size_t size = 0; size <= TEXT_MAX; size += frame.length) {
		struct bytes rest = bytes_skip(in, size);
		enum wire_result result = frame_peek(rest, TEXT_MAX, &frame);
		bool is_text, is_query;

		if (result == WIRE_BAD)
			return WIRE_BAD;
		/* What prepares nothing and comes first need not wait for what is behind it. */
		if (result == WIRE_MORE || rest.count < frame.length)
			return size && !walk->is_begun ? WIRE_OK : WIRE_MORE;
		is_text = frame.type == 'P' || frame.type == 'B';
		is_query = frame.type == 'Q' && !walk->is_begun;
		if (is_text || is_query) {
			struct said said = said_read(walk->client, &frame, rest);

			see(walk, &said);
		}
		if (frame.type == 'S' || is_query ||
		    (walk->is_begun && !walk->is_read && !walk->are_selects))
			return WIRE_OK;
		if (!is_text && !strchr("DEC", frame.type))
			return WIRE_BAD;
	}
	return WIRE_BAD;
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

enum wire_result route_judge(const struct client *client, struct bytes in, bool *is_read_on_standby)
{
	struct walk walk = {
		.client = client,
		.are_selects =
		    !client->late && client_rules(client)->route_reads == ROUTE_READS_STATEMENTS,
	};
	enum wire_result result;

	if (is_settled(client, is_read_on_standby))
		return WIRE_OK;
	result = walk_batch(&walk, in);
	*is_read_on_standby =
	    walk.is_begun && (walk.is_read || (walk.are_selects && result == WIRE_OK));
	return result == WIRE_MORE ? WIRE_MORE : WIRE_OK;
}

bool route_client(struct client *client, struct bytes in)
{
	bool is_standby;

	if (route_judge(client, in, &is_standby) == WIRE_MORE)
		return false;
	if (!client_rules(client)->is_causal) {
		pool_route(&client->borrower, is_standby);
		return true;
	}
	pool_route(&client->borrower, is_standby && causal_may_read(client));
	causal_begin(client);
	return true;
}
