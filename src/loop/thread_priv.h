/* SPDX-License-Identifier: ISC */
/* Threads beside the main thread. */
#ifndef PGWEIR_LOOP_THREAD_PRIV_H
#define PGWEIR_LOOP_THREAD_PRIV_H

#include <pthread.h>
#include <stdbool.h>

#include "pgweir/base/err.h"

/* For threads that call little; a loop needs more. */
#define THREAD_STACK_SIZE ((size_t)1024 * 1024)

/*
 * Starts a thread with all signals blocked: signals are handled by the main thread only.
 * false: *err says why.
 */
bool thread_start(pthread_t *thread, void *(*run)(void *arg), void *arg, size_t stack_size,
                  struct err *err);

#endif
