/* SPDX-License-Identifier: ISC */
/*
 * Canceller: sends cancel requests. PQcancel() blocks until the far end has closed, so a few
 * threads do it; they share nothing with the clients but the request.
 */
#ifndef TEST_LOAD_CANCELLER_H
#define TEST_LOAD_CANCELLER_H

#include <stdbool.h>
#include <libpq-fe.h>

struct canceller;
struct event_base;

/*
 * answer: called from the event loop when PQcancel() has returned, once for each request.
 * `owner` and `ticket` are those of the request. NULL if threads or pipes cannot be had.
 */
struct canceller *canceller_new(struct event_base *base,
                                void (*answer)(void *owner, unsigned int ticket, bool is_sent));

/* Queues a request; takes `cancel` over. `owner` must live until the canceller is freed. */
void canceller_ask(struct canceller *canceller, PGcancel *cancel, void *owner, unsigned int ticket);

/* Waits for running requests; queued ones are dropped without calling answer. */
void canceller_free(struct canceller **canceller);

#endif
