/* SPDX-License-Identifier: ISC */
/*
 * A statement that may make the server stay, while max_pinned_servers others do. The first one of a
 * transaction waits without a server (judge.c); a later one waits here, with its server, which
 * answers nothing meanwhile. When the wait has ended in whatever way, the statement is judged
 * again: session_use() takes the place, or refuses with what is noted in session->place.
 */
#include "pgweir/base/container_of.h"

#include "listening_priv.h"

/* A statement that fails anyway needs no place. */
static bool must_wait(const struct client *client, unsigned int touches, struct bytes text)
{
	const struct server *server = client->borrower.server;

	return session_awaits_place(client, touches, text) && !server->wire.ledger.is_skipping &&
	       !server_is_in_failed_block(server) &&
	       !(client->session && client->session->place != PLACE_OPEN);
}

enum judgement place_before(struct client *client, unsigned int touches, struct bytes text,
                            struct batch *batch)
{
	if (!must_wait(client, touches, text))
		return listening_before(client, touches, text, batch);
	if (!session_get(client))
		return JUDGE_MEMORY;
	return batch_wait(batch, ledger_is_empty(&client->borrower.server->wire.ledger)
	                             ? LEDGER_WAIT_PLACE
	                             : LEDGER_WAIT_EMPTY);
}

/* The statement is judged again. */
static void go_on(struct client *client)
{
	timer_clear(&client->timer);
	client->borrower.waits_for = LEDGER_WAIT_NOT;
	client_read_on(client);
}

static void end_with(struct client *client, enum session_place place)
{
	pool_leave_place(&client->borrower);
	client->session->place = place;
	go_on(client);
}

static void on_place_due(struct timer *timer)
{
	end_with(container_of(timer, struct client, timer), PLACE_TIMED_OUT);
}

static struct timer_queue *limit_of(const struct client *client)
{
	return loop_timer_queue(client->clients->loop, client_wait_limit(client), on_place_due);
}

void place_await(struct client *client)
{
	pool_await_place(&client->borrower);
	/* the time for which it has waited for its server counts, too */
	timer_set(&client->timer, limit_of(client),
	          client->borrower.waiting_since - client->borrower.waited);
	stream_want(&client->stream, WANT_END);
}

void place_rearm(struct client *client)
{
	if (client->borrower.awaits_place)
		timer_change(&client->timer, limit_of(client));
	else
		session_rearm(client);
}

void place_given(struct borrower *borrower) { go_on(client_of(borrower)); }

bool place_cancel(struct client *client)
{
	if (!client->borrower.awaits_place)
		return false;
	end_with(client, PLACE_CANCELED);
	return true;
}
