/* SPDX-License-Identifier: ISC */
/*
 * A loop with a thread of its own that is not in the crew: it is never held, so it goes on while
 * the others stand still. Its only connection to other loops are letters.
 */
#ifndef PGWEIR_LOOP_SOLO_H
#define PGWEIR_LOOP_SOLO_H

#include "pgweir/loop/letter.h"
#include "pgweir/loop/loop.h"

struct solo;

/* `name` is that of the thread, at most 15 bytes; static. NULL: *err says why. */
struct solo *solo_new(const char *name, struct err *err);

/* Its loop takes letters. Until solo_start() and after solo_stop() it belongs to the caller. */
struct loop *solo_loop(const struct solo *solo);

/* false: no thread runs, *err says why. */
bool solo_start(struct solo *solo, struct err *err);

/* Stops the loop at the end of a turn and waits for the thread. Safe if it was not started. */
void solo_stop(struct solo *solo);

/* The thread must not run. Opens letters that are left with is_late set. */
void solo_free(struct solo **solo);

#endif
