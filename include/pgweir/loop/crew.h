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

#include "pgweir/loop/letter.h"
#include "pgweir/loop/loop.h"

struct crew;

/*
 * Makes a crew of `count` loops, which the caller owns and frees after it. Prepares them for
 * letters if there are several. To be called by the main thread. NULL: *err says why.
 */
struct crew *crew_new(struct loop *const *loops, unsigned int count, struct err *err);

/* No thread may run: see crew_stop(). */
void crew_free(struct crew **crew);

/*
 * Starts a thread for each loop but the first. The caller runs the first one itself. With one
 * loop there is nothing to start. false: no thread runs, *err says why.
 */
bool crew_start(struct crew *crew, struct err *err);

/*
 * Stops the loops of the threads at the end of a turn, and waits for the threads to end. The
 * first loop is not stopped. Safe if nothing was started. Afterwards all loops belong to the
 * main thread.
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

/* Whether the loops are held now. With one loop: whether crew_hold() was called. */
bool crew_is_held(const struct crew *crew);

#endif
