/* SPDX-License-Identifier: ISC */
/* Threads beside the loop's. */
#ifndef PGWEIR_LOOP_THREAD_PRIV_H
#define PGWEIR_LOOP_THREAD_PRIV_H

#include <pthread.h>
#include <stdbool.h>

#include "pgweir/base/err.h"

/* Signals are the loop's: a thread is born with all of them blocked. false: *err says why. */
bool thread_start(pthread_t *thread, void *(*run)(void *arg), void *arg, struct err *err);

#endif
