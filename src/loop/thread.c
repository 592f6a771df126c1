/* SPDX-License-Identifier: ISC */
/*
 * Starts threads.
 */
#include "thread_priv.h"

#include <signal.h>
#include <string.h>

#include "pgweir/base/banned.h"

bool thread_start(pthread_t *thread, void *(*run)(void *arg), void *arg, size_t stack_size,
                  struct err *err)
{
	pthread_attr_t attributes;
	sigset_t all, before;
	int failure;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, stack_size);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	failure = pthread_create(thread, &attributes, run, arg);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attributes);
	return !failure || err_set(err, ERR_FILES, "cannot start a thread: %s", strerror(failure));
}
