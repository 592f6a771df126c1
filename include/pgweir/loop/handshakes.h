/* SPDX-License-Identifier: ISC */
/*
 * TLS handshakes on helper threads: work that takes long and needs the peer's next message
 * several times. The threads wait for the sockets themselves; the loop is notified when a
 * handshake is over.
 */
#ifndef PGWEIR_LOOP_HANDSHAKES_H
#define PGWEIR_LOOP_HANDSHAKES_H

#include "pgweir/loop/loop.h"

struct handshakes;

/*
 * One handshake. Lives inside an object of its owner that holds everything go_on() needs:
 * the owner may be gone while the handshake runs.
 */
struct handshake_job {
	TAILQ_ENTRY(handshake_job) node;
	int fd; /* a connected, non-blocking socket that nobody else watches */
	/*
	 * On a helper thread, one call at a time: the socket is ready for what was asked.
	 * Uses nothing but this object and the socket. Returns what to wait for
	 * next (enum watch_what); 0: it is over.
	 */
	unsigned int (*go_on)(struct handshake_job *handshake_job);
	void (*done)(struct handshake_job *handshake_job); /* from the loop, when it is over */
	bool is_abandoned; /* the owner is gone: done() only cleans up */
	bool is_waiting;   /* for its socket; used by the threads only */
};

/* The threads start with the first handshake. NULL: *err says why. */
struct handshakes *handshakes_new(struct loop *loop, unsigned int threads, struct err *err);

/* Waits for running steps, then calls done() of every handshake, with is_abandoned set. */
void handshakes_free(struct handshakes **handshakes);

/*
 * Calls go_on() when the socket is ready for `what` (enum watch_what). Until done() the
 * object and the socket belong to the threads.
 * false: no thread can be started, or the kernel refused; done() will not be called.
 */
bool handshakes_begin(struct handshakes *handshakes, struct handshake_job *handshake_job,
                      unsigned int what, struct err *err);

/*
 * The owner ends: the connection is shut down, which ends the handshake, and done() is still
 * called, with is_abandoned set. Close the socket there and not before.
 */
void handshakes_abandon(struct handshake_job *handshake_job);

#endif
