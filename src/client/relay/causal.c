/* SPDX-License-Identifier: ISC */
/*
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

#include <stdlib.h>

#include "pgweir/base/clock.h"

#include "relay_priv.h"

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

#define TEXT_MAX ((size_t)16 * 1024) /* a longer text is not read */

static enum course_block effect_of(struct bytes text)
{
	if (!text.at || text.count > TEXT_MAX)
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
