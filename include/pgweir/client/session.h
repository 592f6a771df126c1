/* SPDX-License-Identifier: ISC */
/*
 * The kinds of session state, and that of a client in transaction mode, as the console shows it:
 * what follows the client, and what makes its server stay with it.
 */
#ifndef PGWEIR_CLIENT_SESSION_H
#define PGWEIR_CLIENT_SESSION_H

#include "pgweir/client/client.h"

/*
 * ---- the kinds of session state ----
 *
 * One table, of which SHOW AUDIT, SHOW CATALOG, SHOW PINNED, errors and the manual page are made.
 */

/*
 * What touches a kind of session state, how it is asked for, what becomes of it with session_state
 * = follow, and what ends it. A pin that cannot be asked for lasts.
 */
struct feature {
	unsigned int touch; /* enum sql_touch */
	unsigned int pin;   /* enum session_pin: if it is there and cannot be carried; 0: never */
	unsigned int parts; /* enum question_part */
	char letter;        /* of its names among the facts; 0: they have none */
	const char *why;    /* SHOW PINNED; NULL: no pin */
	const char *held;   /* ahead of its names in SHOW PINNED; NULL: why */
	const char *state;  /* what of it there may be, in the plural: SHOW CATALOG; or NULL */
	const char *used;   /* how statements use it: SHOW AUDIT; NULL: it is not counted */
	const char *fate;   /* what transaction mode does with it */
	const char *end;    /* statements that end it; NULL: none */
	const char *error;  /* its name in an error; NULL: it is never refused */
	const char *way_out;
};

#define FEATURES 15

extern const struct feature session_features[FEATURES];

/* ---- that of a client ---- */

/* Since when the server stays with the client (monotonic). 0: it does not. */
usec_t session_pinned_at(const struct client *client);

/* The beginning of the statement that made it stay. NULL: not known. */
const char *session_pin_text(const struct client *client);

/*
 * These add lists, separated by ", ": why the server stays; the names of the parameters that are
 * not as they were after the login, of the libraries, of the channels.
 */
void session_list_pins(const struct client *client, struct buf *out);
void session_list_parameters(const struct client *client, struct buf *out);
void session_list_libraries(const struct client *client, struct buf *out);
void session_list_channels(const struct client *client, struct buf *out);

/*
 * As session_list_pins(), with the names of the objects, separated by "; ". session_tell_pins(): in
 * printable ASCII, for the log and for errors.
 */
void session_list_held(const struct client *client, struct buf *out);
void session_tell_pins(const struct client *client, struct buf *out);

#endif
