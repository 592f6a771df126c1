/* SPDX-License-Identifier: ISC */
/*
 * The loops of one process: the first belongs to the main thread, each other one has a thread.
 *
 * A loop's objects belong to its thread. What is rare and concerns all loops (a RELOAD, a row
 * of the console) is done by the main thread while the others are held: they are parked between
 * two turns, and the main thread may read and change whatever belongs to them.
 */
#ifndef PGWEIR_LOOP_CREW_H
#define PGWEIR_LOOP_CREW_H

#include "pgweir/loop/loop.h"

struct crew;

/*
 * Makes a crew of `count` loops, which the caller owns and frees after it. To be called by
 * the main thread. NULL: *err says why.
 */
struct crew *crew_new(struct loop *const *loops, unsigned int count, struct err *err);

/* No thread may run: see crew_stop(). */
void crew_free(struct crew **crew);

/* Starts a thread for each loop but the first, which the caller runs. false: none runs, *err. */
bool crew_start(struct crew *crew, struct err *err);

/*
 * Stops the loops of the threads at the end of a turn, and waits for the threads. Safe if
 * nothing was started. Afterwards all loops belong to the main thread.
 */
void crew_stop(struct crew *crew);

/*
 * Returns when all loops but the first are parked between two turns. Until crew_release() they
 * and all their objects belong to the main thread: it may also close what they have, defer
 * tasks, and set timers and watches. Calls nest. A held loop's loop_now() is the clock's.
 *
 * Only the main thread may call these two, and without any lock that a loop may wait for.
 * After each release a loop makes at least one turn before it is held again, and it begins
 * that turn at once, so what was deferred or written for it is not delayed by its sleep.
 */
void crew_hold(struct crew *crew);
void crew_release(struct crew *crew);

/*
 * ---- solo ----
 *
 * A loop with a thread of its own that is not in the crew: it is never held, so it goes on while
 * the others stand still. Its only connection to other loops are letters.
 */

struct solo;

/* `name` is that of the thread, at most 15 bytes; static. NULL: *err says why. */
struct solo *solo_new(const char *name, struct err *err);

/* Until solo_start() and after solo_stop() its loop belongs to the caller. */
struct loop *solo_loop(const struct solo *solo);

/* false: no thread runs, *err says why. */
bool solo_start(struct solo *solo, struct err *err);

/* Stops the loop at the end of a turn and waits for the thread. Safe if it was not started. */
void solo_stop(struct solo *solo);

/* The thread must not run. Opens letters that are left with is_late set. */
void solo_free(struct solo **solo);

#endif
