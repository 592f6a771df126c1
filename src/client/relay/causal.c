/* SPDX-License-Identifier: ISC */
/*
 * Reads on standbys: which transactions are reads, and what a read must show.
 *
 * Causal reads. Each client has a position in the WAL, up to which it has written and read; and
 * what it has seen on one standby since (seen_on), whose position nobody has asked for:
 *
 *   a transaction on the primary ends   --> the primary's insert position is the client's
 *   a read on a standby ends            --> what that shows was seen
 *   a read begins on a standby          --> waits until the standby has replayed the position;
 *                                           if something was seen, that must be shown
 *
 * The position is asked for behind the transaction: in the same write as what ends it, if that is
 * certain (course), else when that was answered. A transaction that only reads is asked for, too:
 * what it has seen of others must be seen again. The insert position, as a commit that is not
 * flushed yet (synchronous_commit = off) is visible already.
 *
 * What was seen is shown by each server that was connected to the same PostgreSQL before the read
 * that saw it (pool_standby_shows). So the pool lends such a server if it can. Another one may show
 * less: then the primary serves the read, and so the client has a position again. Only a server
 * whose PostgreSQL is not known is asked behind a read: it tells which one it is.
 *
 * While a transaction runs on the primary, and if no position came, it is not known. Then the
 * primary serves the client's next read. So it does for clients that are older than the setting,
 * which includes those of another process.
 *
 * After a failover the new primary may have less than the client has seen. What it lacks is lost,
 * and no read waits for that: as soon as a watch has asked the new primary, its position replaces
 * the client's. Without a watch the read waits in vain, and the primary serves it.
 */
#include "relay_priv.h"

#include <stdlib.h>

#include "pgweir/base/clock.h"
#include "pgweir/pgwire/sql_token.h"
#include "pgweir/pgwire/startup.h"

/*
 * ---- course ----
 *
 *   Query                     its text
 *   Parse, Bind, Execute      the text, by the unnamed portal; named ones are not followed
 *
 * Hard here: any message may fail. After an error the server skips all up to the Sync, and a
 * transaction block has failed, if one is open. So a block that the messages end is either closed
 * or has failed when the Sync is answered; it is never open and usable. That is true because an END
 * or a ROLLBACK is skipped only behind an error of its own Sync epoch, and an error leaves no block
 * usable but by ROLLBACK TO, which is not followed.
 */

#define COURSE_TEXT_MAX ((size_t)16 * 1024) /* a longer text is not read */

static enum course_block effect_of(struct bytes text)
{
	if (!text.at || text.count > COURSE_TEXT_MAX)
		return COURSE_UNSURE;
	switch (sql_block_read(text).kind) {
	case SQL_BLOCK_BEGIN:
	case SQL_BLOCK_START:
		return COURSE_OPEN;
	case SQL_BLOCK_COMMIT:
	case SQL_BLOCK_ROLLBACK:
		return COURSE_CLOSED;
	case SQL_BLOCK_SET:
		return COURSE_SAME;
	case SQL_BLOCK_OTHER:
		break;
	}
	return sql_single(text, bytes_of("", 0)) == SQL_SINGLE_NOT ? COURSE_UNSURE : COURSE_SAME;
}

static void run(struct course *course, enum course_block effect)
{
	if (effect != COURSE_SAME && course->block != COURSE_UNSURE)
		course->block = effect;
}

void course_begin(struct course *course, bool is_open)
{
	course->block = is_open ? COURSE_OPEN : COURSE_CLOSED;
}

static void note_named(struct course *course, const struct frame *frame, struct bytes in,
                       struct bytes text)
{
	struct bytes body = frame_body(in, frame);
	struct object_names names;

	if (fields_names(frame->type, body, body.count, &names) != WIRE_OK)
		course->block = COURSE_UNSURE;
	else if (frame->type == 'E')
		run(course, *names.portal ? COURSE_UNSURE : course->portal);
	else if (!*names.portal)
		course->portal = *names.statement ? effect_of(text) : course->statement;
}

void course_note(struct course *course, const struct frame *frame, struct bytes in,
                 struct bytes text)
{
	bool is_whole = in.count >= frame->length;

	switch (frame->type) {
	case 'Q':
		run(course, effect_of(text));
		return;
	case 'P':
		if (!is_whole || frame->length == FRAME_HEADER_SIZE || !in.at[FRAME_HEADER_SIZE])
			course->statement = effect_of(text);
		return;
	case 'B':
	case 'E':
		if (is_whole)
			note_named(course, frame, in, text);
		else
			course->block = COURSE_UNSURE;
		return;
	case 'C':
	case 'D':
	case 'H':
	case 'S':
		return;
	default:
		course->block = COURSE_UNSURE;
	}
}

#define PAUSE_MIN USEC_PER_MS
#define PAUSE_MAX (16 * USEC_PER_MS)

static bool is_on_standby(const struct client *client)
{
	return client->borrower.pool->purpose == POOL_FOR_READS;
}

bool causal_may_read(const struct client *client)
{
	const struct pool *pool = client->borrower.pool;
	const struct causal *causal = client->causal;

	if (causal && (causal->position || causal->seen_on))
		return causal->position != CAUSAL_NOT_KNOWN;
	/* It has not done anything, or that was not followed. */
	return client->connected_at >= pool->causal_since;
}

void causal_begin(struct client *client)
{
	client->is_position_due = true;
	if (!client->causal)
		client->causal = calloc(1, sizeof(*client->causal));
	if (!client->causal)
		return;
	course_begin(&client->causal->course, client->late); /* that BEGIN is sent first */
	if (!is_on_standby(client))
		client->causal->position = CAUSAL_NOT_KNOWN;
}

void causal_free(struct client *client)
{
	free(client->causal);
	client->causal = NULL;
	client->is_position_due = false;
}

/* ---- before a read ---- */

/* Not longer, so that a failover is noticed, and the server's own limit for an order is not met. */
#define WAIT_MAX (100 * USEC_PER_MS)

static void ask_position(struct client *client)
{
	struct order order = { .kind = ORDER_ASK, .parts = QUESTION_POSITION };
	struct server *server = client->borrower.server;
	usec_t left;

	if (client->state == CLIENT_CATCHING_UP && !client->causal->seen_on) {
		left = server->lease.lent_at + client->clients->config->causal_reads_wait -
		       client_now(client);
		left = left < WAIT_MAX ? left : WAIT_MAX;
		order.wait =
		    (struct question_wait){ client->causal->position, left > 0 ? left : 0 };
	}
	server_order(server, &order);
}

void causal_lost(struct client *client)
{
	client->borrower.pool->reads.behind++;
	client->causal->position = CAUSAL_NOT_KNOWN;
	timer_clear(&client->timer);
	client_enter(client, client->late ? CLIENT_LATE : CLIENT_IDLE);
	client_read_on(client);
}

static void on_pause_over(struct timer *timer)
{
	ask_position(container_of(timer, struct client, timer));
}

bool causal_suits(const struct borrower *borrower, const struct server *server)
{
	const struct causal *causal = container_of(borrower, struct client, borrower)->causal;

	return !causal || !causal->seen_on ||
	       pool_standby_shows(server, causal->seen_on, causal->seen_since);
}

/* Whether the client's server, on a standby, shows all that is left of what it has seen. */
static bool has_replayed(struct client *client)
{
	struct server *server = client->borrower.server;
	struct causal *causal = client->causal;

	if (causal->seen_on)
		return causal_suits(&client->borrower, server) &&
		       pool_standby_follows_primary(server);
	if (pool_standby_has_replayed(server, causal->position))
		return true;
	causal->position =
	    pool_standby_left_of(server, causal->position, causal->timeline, causal->position_at);
	return pool_standby_has_replayed(server, causal->position);
}

bool causal_is_caught_up(struct client *client)
{
	if (!client->causal)
		return client_refuse_for(client, CLOSE_MEMORY);
	if (!client_rules(client)->is_causal || !is_on_standby(client))
		return true;
	client->causal->began_at = client_now(client);
	if (has_replayed(client))
		return true;
	client_enter(client, CLIENT_CATCHING_UP);
	ask_position(client);
	return false;
}

static bool catch_up(struct client *client)
{
	struct pool *pool = client->borrower.pool;
	struct server *server = client->borrower.server;
	usec_t waited = client_now(client) - server->lease.lent_at, pause = PAUSE_MIN;
	bool is_there = has_replayed(client), may_wait = !client->causal->seen_on;

	if (!is_there && may_wait && waited < client->clients->config->causal_reads_wait &&
	    pool_standby_follows_primary(server)) {
		/* each is about as long as all before it */
		while (pause < PAUSE_MAX && pause * 2 <= waited)
			pause *= 2;
		client_arm(client, pause, on_pause_over, client_now(client));
		return false;
	}
	client->causal->began_at = client_now(client);
	pool->reads.wait_count++;
	pool->reads.wait_time += (uint64_t)waited;
	if (!is_there) {
		pool_standby_tell_former(server);
		pool_return(&client->borrower);
		causal_lost(client); /* the primary serves the read */
	}
	return is_there;
}

/* ---- behind a transaction ---- */

/*
 * What a read shows is followed without a question if its server can be recognized: has_replayed().
 */
static bool is_followed(const struct client *client)
{
	return is_on_standby(client) && client->borrower.server->place.standby.started;
}

bool causal_ends_unasked(struct client *client)
{
	struct causal *causal = client->causal;

	if (!is_followed(client))
		return false;
	causal->seen_on = client->borrower.server->place.standby.started;
	causal->seen_since = causal->began_at;
	client->is_position_due = false;
	return true;
}

void causal_ask(struct client *client)
{
	client_enter(client, CLIENT_SETTLING);
	ask_position(client);
}

/* Whether nothing but the position must be asked for when the transaction has ended. */
static bool is_plain(const struct client *client)
{
	return client_rules(client)->is_causal && !client->touched && !client->listening &&
	       !session_stays(client) && !session_keeps_server(client);
}

void causal_note(struct client *client, const struct frame *frame, struct bytes in)
{
	const struct server *server = client->borrower.server;
	struct said said;

	if (is_followed(client))
		return;
	if (ledger_is_at_rest(&server->wire.ledger))
		course_begin(&client->causal->course, server->wire.status != 'I');
	said = said_read(client, frame, in);
	course_note(&client->causal->course, frame, in,
	            said.is_whole ? said.text : bytes_of(NULL, 0));
}

/* Behind messages without a Sync, a Query may be skipped, and then so would be the question. */
bool causal_ends(const struct client *client, const struct frame *frame, struct bytes in)
{
	const struct server *server = client->borrower.server;

	return (frame->type == 'Q' || frame->type == 'S') && in.count == frame->length &&
	       client->causal->course.block == COURSE_CLOSED && !is_followed(client) &&
	       !ledger_may_skip(&server->wire.ledger) && !server->lease.cancel_count &&
	       is_plain(client);
}

void causal_ask_behind(struct client *client, struct batch *batch)
{
	struct buf out = { 0 };

	if (server_order(client->borrower.server, &(struct order){ .kind = ORDER_ASK,
	                                                           .where = SENT_BEHIND,
	                                                           .parts = QUESTION_POSITION,
	                                                           .out = &out }))
		batch_copy(batch, buf_bytes(&out));
	buf_free(&out);
}

bool causal_needs_no_server(const struct client *client)
{
	return client->state == CLIENT_SETTLING && client->is_position_due && client->causal &&
	       is_plain(client);
}

void causal_ends_without(struct client *client)
{
	if (!client->is_position_due)
		return;
	client->is_position_due = false;
	client->causal->seen_on = 0;
	client->causal->position = CAUSAL_NOT_KNOWN;
}

bool causal_facts(struct client *client, const struct facts *facts)
{
	struct causal *causal = client->causal;

	if (is_on_standby(client))
		pool_standby_note(client->borrower.server, facts);
	if (client->state == CLIENT_CATCHING_UP)
		return catch_up(client);
	client->is_position_due = false;
	causal->seen_on = 0;
	if (facts->position && is_on_standby(client) && facts->position <= causal->position)
		return true;
	causal->position = facts->position ? facts->position : CAUSAL_NOT_KNOWN;
	causal->position_at = clock_now(); /* of the turn: it may have come later */
	causal->timeline = pool_standby_timeline(client->borrower.server);
	return true;
}

/*
 * ---- route ----
 *
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
