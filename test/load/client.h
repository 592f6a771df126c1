/* SPDX-License-Identifier: ISC */
/*
 * One client of the load: a connection, its current activity, and its expected results. It chooses
 * an activity by weight, runs it step by step, and begins the next one, until the run ends. A step
 * runs when all results of the previous step have arrived.
 */
#ifndef TEST_LOAD_CLIENT_H
#define TEST_LOAD_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <libpq-fe.h>

#include "answers.h"
#include "ledger.h"
#include "load.h"

struct activity;
struct event;

#define NAMES 20 /* of prepared statements, for each client */

enum step_result {
	STEP_SENT,  /* continue with the next step after all results */
	STEP_AGAIN, /* the socket is full: the same step again when it is writable */
	STEP_DONE,  /* the activity is over; the step sent nothing */
	STEP_GONE   /* client_vanish() was called */
};

enum client_state {
	CLIENT_CONNECTING, /* libpq logs in */
	CLIENT_WORKING,    /* an activity is under way */
	CLIENT_AWAY,       /* no connection; reconnects after a delay */
	CLIENT_FINISHED    /* the run is over for it */
};

/* In an array of main.c, which outlives the event loop. */
struct client {
	struct load *load;
	unsigned int id;
	enum client_state state;
	PGconn *conn;
	struct event *readable;
	struct event *writable;
	struct event *deadline; /* no result for too long */
	struct event *later; /* the next attempt to connect, or the time to send a cancel request */

	const struct activity *activity;
	unsigned int step;
	bool is_step_open;     /* it returned STEP_AGAIN */
	unsigned int sequence; /* statements so far: makes tags */
	struct answers answers;

	struct ledger writes;
	size_t write_first; /* the writes of the current activity */
	size_t write_count;
	size_t copied; /* lines of COPY data sent so far */

	unsigned int prepared[NAMES]; /* the text under each name, from 1; 0: none */
	unsigned int name;            /* the one of the current activity */

	unsigned int cancel_ticket; /* incremented with each cancel and each lost connection */
	bool is_cancelling;         /* a cancel request must be sent, or is being sent */
};

/* How a connection is left. */
enum vanish_how {
	VANISH_POLITELY, /* Terminate is sent: not abrupt at all */
	VANISH_FIN,      /* the socket is shut down */
	VANISH_RESET     /* closed with a reset */
};

/* Begins to connect. Its events are in load->base. */
void client_start(struct client *client, struct load *load, unsigned int id);

/* A new tag into `tag`, of at least TAG_SIZE bytes. */
void client_tag(struct client *client, char *tag);

/* Allocates numbers for rows to be written by the activity; see ledger.h. */
void client_take_writes(struct client *client, size_t count, enum write_state state);

/* The activity's writes have been confirmed. */
void client_commit_writes(struct client *client);

/* Sends a cancel request after this many milliseconds; the step waits for its delivery. */
void client_cancel_after(struct client *client, unsigned int milliseconds);

/* From canceller.h: a request has been delivered. */
void client_on_cancelled(void *client, unsigned int ticket, bool is_sent);

/* Closes the connection at once; the client reconnects after a delay. */
void client_vanish(struct client *client, enum vanish_how how);

/* Frees what the client holds, whatever its state. */
void client_done(struct client *client);

#endif
