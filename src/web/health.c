/* SPDX-License-Identifier: ISC */
/*
 * /healthz: whether all loops turn. /readyz: whether new work is accepted, as SHOW READY says.
 *
 * Loops are only woken by a request. Requests that come while one is being answered wait for the
 * same letters.
 */
#include "web_priv.h"

#include <stdio.h>
#include <stdlib.h>

#include "pgweir/base/container_of.h"

#define HEALTH_LIMIT (5 * USEC_PER_SEC) /* a loop that turns answers within milliseconds */

/* A request that waits for the loops, or for SHOW READY. */
struct health_waiter {
	struct answer_maker maker;
	TAILQ_ENTRY(health_waiter) node; /* for the loops */
	struct web *web;
	struct connection *connection;
	struct timer timer;
	struct reader *reader; /* of SHOW READY; NULL: waits for the loops */
};

static void free_waiter(struct health_waiter *waiter)
{
	if (!waiter->reader)
		TAILQ_REMOVE(&waiter->web->health.waiters, waiter, node);
	timer_clear(&waiter->timer);
	reader_end(&waiter->reader);
	free(waiter);
}

static void on_waiter_gone(struct answer_maker *maker)
{
	free_waiter(container_of(maker, struct health_waiter, maker));
}

static void answer_waiter(struct health_waiter *waiter, int status, const char *text)
{
	const struct answer_head head = { .status = status, .type = "text/plain; charset=utf-8" };
	struct connection *connection = waiter->connection;
	struct buf out = { 0 };

	free_waiter(waiter);
	buf_printf(&out, "%s\n", text);
	connection_answer(connection, &head, buf_bytes(&out));
	buf_free(&out);
}

static void on_health_limit(struct timer *timer)
{
	struct health_waiter *waiter = container_of(timer, struct health_waiter, timer);

	answer_waiter(waiter, 503, "an event loop does not answer");
}

static struct health_waiter *new_waiter(struct web *web, struct connection *connection)
{
	struct health_waiter *waiter = calloc(1, sizeof(*waiter));

	if (!waiter) {
		connection_abort(connection);
		return NULL;
	}
	waiter->maker.on_gone = on_waiter_gone;
	waiter->web = web;
	waiter->connection = connection;
	connection_keep(connection, &waiter->maker);
	timer_set(&waiter->timer, loop_timer_queue(web->loop, HEALTH_LIMIT, on_health_limit),
	          loop_now(web->loop));
	return waiter;
}

/* ---- the loops ---- */

static void on_health_pulse(struct letter *letter)
{
	struct health *health = container_of(letter, struct health_pulse, letter)->health;

	if (atomic_fetch_sub(&health->missing_count, 1) == 1 && !letter->is_late)
		loop_post(health->web_loop, &health->back);
}

static void on_health_back(struct letter *letter)
{
	struct health *health = container_of(letter, struct health, back);
	struct health_waiter *waiter;

	health->is_asking = false;
	while (!letter->is_late && (waiter = TAILQ_FIRST(&health->waiters)))
		answer_waiter(waiter, 200, "ok");
}

bool health_init(struct health *health, const struct lanes *lanes, struct loop *web_loop)
{
	TAILQ_INIT(&health->waiters);
	health->web_loop = web_loop;
	health->back.open = on_health_back;
	health->pulses = calloc(lanes->count, sizeof(*health->pulses));
	if (!health->pulses)
		return false;
	health->count = lanes->count;
	for (unsigned int i = 0; i < lanes->count; i++)
		health->pulses[i] = (struct health_pulse){ .letter.open = on_health_pulse,
			                                   .loop = lanes->at[i].loop,
			                                   .health = health };
	return true;
}

void health_done(struct health *health)
{
	for (unsigned int i = 0; i < health->count; i++)
		loop_take_back(health->pulses[i].loop, &health->pulses[i].letter);
	if (health->web_loop)
		loop_take_back(health->web_loop, &health->back);
	free(health->pulses);
	health->pulses = NULL;
	health->count = 0;
}

void health_answer(struct web *web, struct connection *connection, const struct http_head *head)
{
	struct health_waiter *waiter = new_waiter(web, connection);
	struct health *health = &web->health;

	(void)head;
	if (!waiter)
		return;
	TAILQ_INSERT_TAIL(&health->waiters, waiter, node);
	if (health->is_asking)
		return;
	health->is_asking = true;
	atomic_store(&health->missing_count, health->count);
	for (unsigned int i = 0; i < health->count; i++)
		loop_post(health->pulses[i].loop, &health->pulses[i].letter);
}

/* ---- SHOW READY ---- */

static void on_ready_piece(void *arg, enum reader_result result, struct bytes piece)
{
	struct health_waiter *waiter = arg;
	struct reader_message message = { 0 };
	char reason[128] = "";

	while (result != READER_FAILED && !message.is_row && reader_take(&piece, &message))
		;
	if (!message.is_row) {
		answer_waiter(waiter, 503, "not known");
	} else if (bytes_are(message.values[0], "yes")) {
		answer_waiter(waiter, 200, "ready");
	} else {
		snprintf(reason, sizeof(reason), "%.*s", (int)message.values[1].count,
		         message.values[1].at);
		answer_waiter(waiter, 503, reason);
	}
}

void health_answer_ready(struct web *web, struct connection *connection,
                         const struct http_head *head)
{
	struct reader *reader = reader_new(&web->readers, "READY", on_ready_piece, NULL);
	struct health_waiter *waiter;

	(void)head;
	if (!reader) {
		connection_abort(connection);
		return;
	}
	waiter = new_waiter(web, connection);
	if (!waiter) {
		reader_end(&reader);
		return;
	}
	waiter->reader = reader;
	reader->arg = waiter;
	reader_next(reader);
}
