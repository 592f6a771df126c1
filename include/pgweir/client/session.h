/* SPDX-License-Identifier: ISC */
/*
 * The kinds of session state, and that of a client in transaction mode, as the console shows it:
 * what follows the client, and what makes its server stay with it. And the audit of session mode.
 */
#ifndef PGWEIR_CLIENT_SESSION_H
#define PGWEIR_CLIENT_SESSION_H

#include "pgweir/base/hash.h"
#include "pgweir/client/client.h"

struct facts;
struct frame;

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

/*
 * ---- audit ----
 *
 * The audit of session mode (session_audit): which session features clients use, and how many
 * servers transaction mode would have needed for them.
 *
 *   client --> audit_client --> row of its database, user and application_name
 *                           \-> row of its database and user, where sessions are counted
 *
 * The texts of clients are looked at, with sql_touch(). What functions and DO blocks do inside is
 * not seen there: after one transaction in session_sample the server is asked for it. A client
 * needs a server while it is in a transaction, and, from its first use of a feature with which the
 * server stays, until it disconnects or says DISCARD ALL: so the number of servers may be too
 * large, but not too small for what was seen.
 *
 * Hard here: database, user and application_name are chosen by clients, so there is a maximum of
 * rows. When it is reached, the row without clients that was used longest ago makes room; if all
 * have clients, a new client belongs to the row of the others.
 */

#define AUDIT_ROWS_MAX 1000
#define AUDIT_EXAMPLE_MAX 160 /* bytes of an example; longer ones are cut */

struct audit_row {
	UT_hash_handle hh;
	TAILQ_ENTRY(audit_row) node;   /* in audit->rows: by number */
	TAILQ_ENTRY(audit_row) unused; /* in audit->unused, while it has no clients */
	const char *database, *user;   /* NULL: the row of the others */
	const char *application_name;  /* NULL: all clients of database and user together */
	uint64_t number;               /* of its first use; never used again */
	unsigned int sessions, sessions_peak;
	unsigned int servers, servers_peak; /* that its clients need at once */
	uint64_t counts[FEATURES];          /* how often statements used it */
	uint64_t found[FEATURES];           /* in how many sessions the server had it anyway */
	char *examples[FEATURES];           /* a statement without its constants; or NULL */
	size_t key_size;
	char key[]; /* the names, each with a zero after it; empty: the row of the others */
};

TAILQ_HEAD(audit_row_list, audit_row);

struct audit {
	struct hash_key secret;
	struct audit_row *table;
	struct audit_row_list rows, unused;
	uint64_t next_number;
};

void audit_init(struct audit *audit);

/* After the last client has left. */
void audit_done(struct audit *audit);

/* session_audit was switched on: what was counted before is forgotten. */
void audit_restart(struct audit *audit);

/* The row with this number, or the next one after it. NULL: there are no more. */
const struct audit_row *audit_find(const struct audit *audit, uint64_t number);

/* The row of the same names in this audit, which is of another lane. NULL: there is none. */
const struct audit_row *audit_like(const struct audit *audit, const struct audit_row *row);

/* In session mode: `in` is what has come of the frame. It belongs to a row from then on. */
void audit_frame(struct client *client, const struct frame *frame, struct bytes in);

/* A transaction of a client that belongs to a row has begun or ended. */
void audit_transaction(struct client *client);

/*
 * A transaction of a client in session mode has ended, with its server at rest. Whether the server
 * is to be asked what the session has now; then audit_facts() is called with the answer.
 */
bool audit_is_sample(struct client *client);
void audit_facts(struct client *client, const struct facts *facts);

/* The client leaves its pool. */
void audit_leave(struct client *client);

#endif
