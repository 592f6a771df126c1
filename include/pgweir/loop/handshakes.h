/* SPDX-License-Identifier: ISC */
/*
 * TLS handshakes on helper threads. A handshake takes long and needs several messages of the
 * peer, so these threads wait for the sockets themselves. Several loops may use the same
 * threads; the loop that began a handshake gets a letter when it is over.
 */
#ifndef PGWEIR_LOOP_HANDSHAKES_H
#define PGWEIR_LOOP_HANDSHAKES_H

#include "pgweir/loop/loop.h"

struct handshakes;

/*
 * One handshake. Embedded in an object that holds everything go_on() needs: the owner may be
 * closed while the handshake runs.
 */
struct handshake_job {
	struct letter letter; /* the first four fields: for handshakes.c only */
	TAILQ_ENTRY(handshake_job) node;
	struct loop *loop;
	struct handshakes *handshakes;
	int fd; /* a connected, non-blocking socket, watched by nothing else */
	/*
	 * Called on a helper thread, one call at a time, when the socket is ready for what was
	 * requested. May use only this object and the socket. Returns what to wait for next
	 * (enum watch_what); 0: the handshake is over.
	 */
	unsigned int (*go_on)(struct handshake_job *job);
	/* called in its loop when the handshake is over */
	void (*done)(struct handshake_job *job);
	bool is_abandoned; /* the owner is closed: done() must only clean up */
	bool is_waiting;   /* waits for its socket; for the threads only */
};

/* The threads start with the first handshake. NULL: *err says why. */
struct handshakes *handshakes_new(unsigned int threads, struct err *err);

/*
 * Waits for running steps, then calls done() of every handshake with is_abandoned set, on the
 * caller's thread. Of the loops that have handshakes here, none may run but the caller's.
 */
void handshakes_free(struct handshakes **handshakes);

/*
 * Starts a handshake: go_on() is called when the socket is ready for `what` (enum watch_what),
 * and done() in `loop` at the end. To be called by the thread of that loop. The object and the
 * socket belong to the threads until done(). false: no thread could be started, or epoll refused
 * the socket; done() will not be called.
 */
bool handshakes_begin(struct handshakes *handshakes, struct loop *loop, struct handshake_job *job,
                      unsigned int what, struct err *err);

/*
 * To be called by its loop when the owner closes. Shuts the connection down, which ends the
 * handshake. done() is still called, with is_abandoned set; close the socket there, not earlier.
 */
void handshakes_abandon(struct handshake_job *job);

#endif
