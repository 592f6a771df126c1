/* SPDX-License-Identifier: ISC */
/*
 * Dialogues that helper threads hold with a far end: for work that takes long and needs the
 * far end's next word again and again, as the handshake of TLS does. The threads wait for
 * the sockets by themselves; the loop hears of a dialogue when it is over.
 */
#ifndef PGWEIR_LOOP_HANDSHAKES_H
#define PGWEIR_LOOP_HANDSHAKES_H

#include "pgweir/loop/loop.h"

struct handshakes;

/*
 * One of them. Lives inside its owner's own object, which must hold all that go_on()
 * needs: the owner may be gone while it is held.
 */
struct handshake_job {
	TAILQ_ENTRY(handshake_job) node;
	int fd; /* a connected, non-blocking socket that nobody else watches */
	/*
	 * On a helper thread, one call at a time: the socket is ready for what was asked.
	 * Touches nothing but the dialogue's object and the socket. Says what to wait for
	 * next (enum watch_what); 0: it is over.
	 */
	unsigned int (*go_on)(struct handshake_job *handshake_job);
	void (*done)(struct handshake_job *handshake_job); /* from the loop, when it is over */
	bool is_abandoned; /* the owner went away: done() only cleans up */
	bool is_waiting;   /* for its socket; the threads' own */
};

/* `threads` start with the first dialogue. NULL: *err says why. */
struct handshakes *handshakes_new(struct loop *loop, unsigned int threads, struct err *err);

/* Waits for what is being done; calls done() of all handshakes with is_abandoned set. */
void handshakes_free(struct handshakes **handshakes);

/*
 * Calls go_on() when the socket is ready for `what` (enum watch_what). Until done() the
 * object and the socket's reading and writing are the threads'.
 * false: no thread can be started, or the kernel refused; done() will not be called.
 */
bool handshakes_begin(struct handshakes *handshakes, struct handshake_job *handshake_job,
                      unsigned int what, struct err *err);

/*
 * The owner goes: the connection is shut down, which ends the dialogue, and done() is still
 * called, with is_abandoned set. The socket is to be closed there and not before.
 */
void handshakes_abandon(struct handshake_job *handshake_job);

#endif
