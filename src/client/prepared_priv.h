/* SPDX-License-Identifier: ISC */
/*
 * Named prepared statements in transaction and statement mode: each client has
 * names of its own for statements that live under names of ours on the servers.
 */
#ifndef PGWEIR_CLIENT_PREPARED_PRIV_H
#define PGWEIR_CLIENT_PREPARED_PRIV_H

#include "gather_priv.h"

#include "pgweir/client/client.h"
#include "pgweir/pgwire/frame.h"

enum prepared_result {
	PREPARED_PASS, /* none of ours: it goes on as it is, and has not been noted */
	PREPARED_HEAD, /* noted; the first *head bytes are replaced in `gather`, the rest goes on */
	PREPARED_DROP, /* noted; nothing of the frame itself goes on */
	PREPARED_MORE, /* more of the frame is needed */
	PREPARED_WAIT, /* the server has to answer a Sync before */
	PREPARED_END   /* no memory */
};

/* Whether this client's statements are followed. */
bool prepared_follows(const struct client *client);

/*
 * Judges a Parse, Bind, Describe or Close of a client that has a server: `in` is
 * what has come of the frame and behind it.
 */
enum prepared_result prepared_judge(struct client *client, const struct frame *frame,
                                    struct bytes in, struct gather *gather, size_t *head);

#endif
