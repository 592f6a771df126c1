/* SPDX-License-Identifier: ISC */
/*
 * The outbox of a loop: short output of many streams is sent together at the end of a turn.
 *
 * One system call for many short writes costs less than one call for each. And it wakes the
 * receiving processes together, so that they interrupt this process once, not after each write.
 * If io_uring is not available or not wanted, each write is its own system call, but still at
 * the end of the turn.
 *
 * stream_push() sends what a stream has here without waiting for the end of the turn.
 */
#ifndef PGWEIR_NET_OUTBOX_H
#define PGWEIR_NET_OUTBOX_H

#include <stdbool.h>

#include "pgweir/base/log.h"
#include "pgweir/loop/loop.h"

struct outbox;

/* One for each loop. The logger is borrowed. NULL: no memory. */
struct outbox *outbox_new(struct loop *loop, const struct logger *logger);

/* All streams that used it must be closed. */
void outbox_free(struct outbox **outbox);

void outbox_send(struct outbox *outbox);

/* Whether to use io_uring; by default it is not used. */
void outbox_use_ring(struct outbox *outbox, bool is_wanted);

#endif
