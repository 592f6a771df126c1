/* SPDX-License-Identifier: ISC */
/*
 * Locks that are held until the end of a block, and whose holder can be asked for in builds with
 * AddressSanitizer; others check nothing.
 */
#ifndef PGWEIR_BASE_LOCK_H
#define PGWEIR_BASE_LOCK_H

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>

#if defined(__SANITIZE_ADDRESS__)
#define RULES_ARE_CHECKED true
#else
#define RULES_ARE_CHECKED false
#endif

/* Makes a lock for assert_locked(). Ended by pthread_mutex_destroy(). */
static inline void lock_init(pthread_mutex_t *lock)
{
	pthread_mutexattr_t kind;

	pthread_mutexattr_init(&kind);
	if (RULES_ARE_CHECKED)
		pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_ERRORCHECK);
	pthread_mutex_init(lock, &kind);
	pthread_mutexattr_destroy(&kind);
}

static inline pthread_mutex_t *lock_hold(pthread_mutex_t *lock)
{
	pthread_mutex_lock(lock);
	return lock;
}

static inline void lock_release(pthread_mutex_t *const *lock) { pthread_mutex_unlock(*lock); }

/* The lock is held until the end of the block, behind what a return there computes. */
#define LOCKED(lock)                                                                           \
	__attribute__((cleanup(lock_release), unused)) pthread_mutex_t *const lock_held_here = \
	    lock_hold(lock)

static inline void assert_locked(const pthread_mutex_t *lock)
{
	assert(!RULES_ARE_CHECKED || pthread_mutex_lock((pthread_mutex_t *)lock) == EDEADLK);
}

#endif
