/* SPDX-License-Identifier: ISC */
/*
 * Resend: what a server was sent and has certainly not run is sent to another one.
 */
#ifndef PGWEIR_CLIENT_RELAY_RESEND_PRIV_H
#define PGWEIR_CLIENT_RELAY_RESEND_PRIV_H

#include "../client_priv.h"

/* Input that may be sent again, and what precedes it: replay.h. */
struct resend {
	bool is_first;        /* in its transaction, but for the opening */
	bool has_begun;       /* that was answered by the server */
	bool is_more;         /* of what the server has not answered yet */
	struct bytes opening; /* its texts; empty: none */
	const struct server *server;
	struct replay before; /* of that server, if there is one; borrowed */
	char late[REPLAY_OPENING_MAX];
};

/* Before input of a client with CLIENT_HAS_HOSTS is judged. */
void resend_begin(struct client *client, struct resend *resend);

/* Input that has gone behind the cleaning of a server that the client has just got. */
void resend_begin_behind(struct client *client, struct resend *resend);

/*
 * Some of such input was judged and sent as it is, and has no reply yet; or nothing of it was
 * handled, because more must be received. Keeps it, if it can be sent again. late: the text of a
 * BEGIN in it that was answered here; empty: none.
 */
void resend_keep(struct client *client, const struct resend *resend, struct bytes input,
                 struct bytes late);

/* on_unrun() of the borrower. */
void resend_unrun(struct borrower *borrower, const struct err *err, const struct replay *unrun);

/* wants_writer() of the borrower. */
bool resend_wants_writer(struct borrower *borrower, const struct replay *kept, const char *words);

#endif
