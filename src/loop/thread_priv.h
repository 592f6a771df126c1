/* SPDX-License-Identifier: ISC */
/* Threads beside the loop's. */
#ifndef PGWEIR_LOOP_THREAD_PRIV_H
#define PGWEIR_LOOP_THREAD_PRIV_H

#include <pthread.h>
#include <stdbool.h>

#include "pgweir/base/err.h"

/*
 * Starts a thread with all signals blocked: signals are handled by the loop's thread only.
 * false: *err says why.
 */
bool thread_start(pthread_t *thread, void *(*run)(void *arg), void *arg, struct err *err);

#endif
