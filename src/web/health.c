/* SPDX-License-Identifier: ISC */
/*
 * /healthz: whether all loops turn, as they must for any SHOW. /readyz: whether new work is
 * accepted, as SHOW READY says.
 *
 * One SHOW READY is read at a time, for all requests.
 */
#include "web_priv.h"

#include <stdio.h>
#include <stdlib.h>

#include "pgweir/base/container_of.h"

#define HEALTH_LIMIT (5 * USEC_PER_SEC) /* a loop that turns answers within milliseconds */

/* A request that waits for SHOW READY. */
struct health_waiter {
	struct answer_maker maker;
	TAILQ_ENTRY(health_waiter) node;
	struct web *web;
	struct connection *connection;
	struct timer timer;
	bool is_about_work; /* /readyz */
};

static void on_waiter_over(struct answer_maker *maker)
{
	struct health_waiter *waiter = container_of(maker, struct health_waiter, maker);

	TAILQ_REMOVE(&waiter->web->health.waiters, waiter, node);
	timer_clear(&waiter->timer);
	free(waiter);
}

static void answer_waiter(struct health_waiter *waiter, int status, const char *text)
{
	const struct answer_head head = { .status = status, .type = "text/plain; charset=utf-8" };
	struct buf out = { 0 };

	buf_printf(&out, "%s\n", text);
	connection_answer(waiter->connection, &head, buf_bytes(&out));
	buf_free(&out);
}

static void on_health_limit(struct timer *timer)
{
	struct health_waiter *waiter = container_of(timer, struct health_waiter, timer);

	answer_waiter(waiter, 503, "an event loop does not answer");
}

static void on_ready_piece(void *arg)
{
	struct health *health = arg;
	struct bytes piece = buf_bytes(&health->reader->piece);
	struct bytes values[TABLE_COLUMNS_MAX];
	struct health_waiter *waiter;
	char reason[128] = "not known";
	bool is_ready = false;

	if (health->reader->result != READER_FAILED && reader_take(&piece, values)) {
		is_ready = bytes_are(values[0], "yes");
		snprintf(reason, sizeof(reason), "%.*s", (int)values[1].count, values[1].at);
	}
	reader_end(&health->reader);
	while ((waiter = TAILQ_FIRST(&health->waiters))) {
		if (!waiter->is_about_work)
			answer_waiter(waiter, 200, "ok");
		else if (is_ready)
			answer_waiter(waiter, 200, "ready");
		else
			answer_waiter(waiter, 503, reason);
	}
}

/* Without memory, the waiters get their answer at the limit. */
static void ask_ready(struct web *web)
{
	struct health *health = &web->health;

	if (health->reader)
		return;
	health->reader = reader_new(&web->readers, "READY", on_ready_piece, health);
	if (!health->reader)
		return;
	health->reader->budget = &health->budget;
	reader_next(health->reader);
}

static void wait_for_answer(struct web *web, struct connection *connection, bool is_about_work)
{
	struct health_waiter *waiter = calloc(1, sizeof(*waiter));

	if (!waiter) {
		connection_close(connection);
		return;
	}
	waiter->maker.on_over = on_waiter_over;
	waiter->web = web;
	waiter->connection = connection;
	waiter->is_about_work = is_about_work;
	connection_keep(connection, &waiter->maker);
	timer_begin(&waiter->timer, web->loop, HEALTH_LIMIT, on_health_limit);
	TAILQ_INSERT_TAIL(&web->health.waiters, waiter, node);
	ask_ready(web);
}

void health_answer(struct web *web, struct connection *connection, const struct http_head *head)
{
	(void)head;
	wait_for_answer(web, connection, false);
}

void health_answer_ready(struct web *web, struct connection *connection,
                         const struct http_head *head)
{
	(void)head;
	wait_for_answer(web, connection, true);
}
