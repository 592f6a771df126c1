/* SPDX-License-Identifier: ISC */
/*
 * Resend: what a server was sent and has certainly not run is sent to another one.
 */
#ifndef PGWEIR_CLIENT_RELAY_RESEND_PRIV_H
#define PGWEIR_CLIENT_RELAY_RESEND_PRIV_H

#include "../client_priv.h"

/* Input that may be sent again, and the opening of its transaction before it: replay.h. */
struct resend {
	bool is_first;        /* in its transaction, but for the opening */
	bool has_begun;       /* that was answered by the server */
	struct bytes opening; /* its texts; empty: none */
	char late[REPLAY_OPENING_MAX];
};

/* Before input of a client with CLIENT_HAS_HOSTS is judged. */
void resend_begin(struct client *client, struct resend *resend);

/*
 * Such input was judged, as far as it goes. is_sent: all of it was sent as it is, and has no reply
 * yet; else nothing of it was handled, because more must be received. Keeps it, if it can be sent
 * again.
 */
void resend_keep(struct client *client, const struct resend *resend, struct bytes input,
                 bool is_sent);

/* on_unrun() of the borrower. */
void resend_unrun(struct borrower *borrower, const struct err *err, const struct replay *unrun);

/* wants_writer() of the borrower. */
bool resend_wants_writer(struct borrower *borrower, const struct replay *kept, const char *words);

#endif
