/* SPDX-License-Identifier: ISC */
/*
 * One client of the load: a connection, the activity it is at, and the answers it has coming.
 * It picks an activity by weight, takes it step by step, and begins the next one, until the run
 * is ending. A step is taken when everything that the one before asked for has been answered.
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
	STEP_SENT,  /* go on with the next step when all is answered */
	STEP_AGAIN, /* the socket is full: the same step again when it has room */
	STEP_DONE,  /* the activity is over; the step sent nothing */
	STEP_GONE   /* client_vanish() was called */
};

enum client_state {
	CLIENT_CONNECTING, /* libpq logs in */
	CLIENT_WORKING,    /* an activity is under way */
	CLIENT_AWAY,       /* no connection; comes again after a moment */
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
	struct event *deadline; /* no answer for too long */
	struct event *later;    /* the next try to connect, or when a cancel is to go out */

	const struct activity *activity;
	unsigned int step;
	bool is_step_open;     /* STEP_AGAIN was its answer */
	unsigned int sequence; /* statements so far: makes tags */
	struct answers answers;

	struct ledger writes;
	size_t write_first; /* the writes of the activity at hand */
	size_t write_count;
	size_t copied; /* lines of COPY data sent so far */

	unsigned int prepared[NAMES]; /* the text under each name, from 1; 0: none */
	unsigned int name;            /* the one of the activity at hand */

	unsigned int cancel_ticket; /* goes up with each cancel, and with each lost connection */
	bool is_cancelling;         /* a cancel is to be sent, or on its way */
};

/* How a connection is left. */
enum vanish_how {
	VANISH_POLITELY, /* Terminate is sent: not abrupt at all */
	VANISH_FIN,      /* the socket is shut down */
	VANISH_RESET     /* what is under way is thrown away */
};

/* Begins to connect. Its events hang in load->base. */
void client_start(struct client *client, struct load *load, unsigned int id);

/* A new tag into `tag`, of at least TAG_SIZE bytes. */
void client_tag(struct client *client, char *tag);

/* Takes numbers for rows that will be written, as the activity's writes; see ledger.h. */
void client_take_writes(struct client *client, size_t count, enum write_state state);

/* The activity's writes have been confirmed. */
void client_commit_writes(struct client *client);

/* Sends a cancel request after so many milliseconds; the step waits until it was delivered. */
void client_cancel_after(struct client *client, unsigned int milliseconds);

/* From canceller.h: a request has been delivered. */
void client_on_cancelled(void *client, unsigned int ticket, bool is_sent);

/* Closes the connection at once; the client connects again after a moment. */
void client_vanish(struct client *client, enum vanish_how how);

/* Frees what the client holds, whatever its state. */
void client_done(struct client *client);

#endif
