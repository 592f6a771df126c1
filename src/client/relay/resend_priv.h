/* SPDX-License-Identifier: ISC */
/*
 * Resend: what a server was sent and has certainly not run is sent to another one.
 */
#ifndef PGWEIR_CLIENT_RELAY_RESEND_PRIV_H
#define PGWEIR_CLIENT_RELAY_RESEND_PRIV_H

#include "../client_priv.h"

/* Before input of a client with CLIENT_RESENDS is judged: whether it begins a transaction. */
bool resend_begin(struct client *client);

/* Such input was judged and sent, as a whole: keeps it, if it can be sent again. */
void resend_keep(struct client *client, struct bytes input);

/* on_unrun() of the borrower. */
void resend_unrun(struct borrower *borrower, const struct err *err, struct bytes batch);

/* wants_writer() of the borrower. */
bool resend_wants_writer(struct borrower *borrower, struct bytes batch, const char *words);

#endif
