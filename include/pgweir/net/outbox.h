/* SPDX-License-Identifier: ISC */
/*
 * The outbox of a loop: what streams send in a turn goes out together at its end.
 *
 * One system call for many short writes costs less than one for each, and wakes those who
 * wait for them together: the process is interrupted once by those whom it woke, not after
 * every write. Where the kernel has no io_uring for us, or is not to be asked for it,
 * the writes are done one by one, still at the end.
 *
 * Nobody needs to wait for the end: stream_push() sends what a stream has here.
 */
#ifndef PGWEIR_NET_OUTBOX_H
#define PGWEIR_NET_OUTBOX_H

#include <stdbool.h>

#include "pgweir/base/log.h"
#include "pgweir/loop/loop.h"

struct outbox;

/* Sends at the end of the loop's turns; one for a loop. The logger is borrowed. NULL: no memory. */
struct outbox *outbox_new(struct loop *loop, const struct logger *logger);

/* All streams that used it are closed. */
void outbox_free(struct outbox **outbox);

/* Sends all of it now. */
void outbox_send(struct outbox *outbox);

/* Whether the kernel's io_uring is asked for; at first it is not. */
void outbox_use_ring(struct outbox *outbox, bool is_wanted);

#endif
