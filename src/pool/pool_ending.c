/* SPDX-License-Identifier: ISC */
/*
 * A server that is closed while PostgreSQL works for it: the statement is cancelled first.
 *
 *   ENDING --> cancel request --> Terminate --> PostgreSQL ends the connection --> CLOSING
 *                    ^                |
 *                    +--- a second ---+
 *
 * PostgreSQL notices that a connection is gone only when it has something to send. Until it has
 * ended the statement, its process counts for its limits, so the server counts for ours.
 *
 * Hard here: a request may arrive before the statement has begun, or between two statements that
 * were sent at once, and then it cancels nothing. So it is repeated until the connection has ended.
 * Terminate follows the first request: a pooler in PostgreSQL's place forgets the key with it.
 */
#include <stdio.h>

#include "pgweir/base/container_of.h"
#include "pgweir/pool/cancel.h"

#include "pool_priv.h"
#include "server/server_priv.h"

#define AGAIN_AFTER USEC_PER_SEC
#define MOST (10 * USEC_PER_SEC) /* what happens without cancel_wait_timeout, too */

static void cancel_statement(struct server *server)
{
	char asker[CANCEL_ASKER_SIZE];
	struct err err;

	snprintf(asker, sizeof(asker), "pgweir because: %s",
	         close_reason_row(server->close_reason)->words);
	if (!cancel_start_ending(server, asker, &err) && server->state == SERVER_ENDING)
		server_forget(server);
}

void pool_begin_ending(struct server *server)
{
	pool_disown(server);
	if (server->pool->pools->is_closing || !pool_host_answers(server))
		server_forget(server);
	else if (!server->cancel_count) /* a request of the client's may be under way */
		cancel_statement(server);
}

static void on_again(struct timer *timer)
{
	cancel_statement(container_of(timer, struct server, xact));
}

void pool_ending_told(struct server *server, bool is_delivered)
{
	struct loop *loop = pool_loop(server->pool);

	if (!is_delivered) {
		server_forget(server); /* nothing answers there */
		return;
	}
	server_say_no_more(server);
	timer_set(&server->xact, loop_timer_queue(loop, AGAIN_AFTER, on_again), loop_now(loop));
}

static void on_ending_over(struct timer *timer)
{
	struct server *server = container_of(timer, struct server, timer);

	log_warning(&server->log,
	            "PostgreSQL has not ended the statement within cancel_wait_timeout, or 10 s");
	server_forget(server);
}

struct timer_queue *pool_ending_limit(const struct pool *pool)
{
	usec_t limit = pool->pools->config->cancel_wait_timeout;

	return loop_timer_queue(pool_loop(pool), limit && limit < MOST ? limit : MOST,
	                        on_ending_over);
}
