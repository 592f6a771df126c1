/* SPDX-License-Identifier: ISC */
/*
 * What a crew needs of its loops.
 */
#ifndef PGWEIR_LOOP_LOOP_PRIV_H
#define PGWEIR_LOOP_LOOP_PRIV_H

#include <assert.h>
#include <pthread.h>
#include <stdbool.h>

#include "pgweir/base/container_of.h"
#include "pgweir/base/err.h"
#include "pgweir/base/lock.h"
#include "pgweir/loop/loop.h"

/* What the loop calls between two turns when it is called; returns when it may go on. */
void loop_parks_by(struct loop *loop, void (*park)(void *arg), void *arg);

/*
 * Calls the loop to park between two turns, until it is called off. Wakes it if it sleeps.
 * From any thread, after loop_parks_by().
 */
void loop_call(struct loop *loop);
void loop_call_off(struct loop *loop);

#endif
