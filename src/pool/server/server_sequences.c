/* SPDX-License-Identifier: ISC */
/*
 * Whose values of sequences currval() and lastval() may give on a server. DISCARD SEQUENCES
 * forgets them. It travels ahead of the borrower's first message, in the same write.
 *
 * Hard here: it may fail, because a request to cancel the borrower's statement may come while it
 * runs. Then a statement behind it that asks must not be answered: the server is closed before.
 */
#include "server_priv.h"

#include "pgweir/base/banned.h"

void server_discard_begin(struct server *server)
{
	server->is_discarding = true;
	server->relies_on_discard = false;
	server->sequences = SEQUENCES_OWN;
}

void server_discard_end(struct server *server, bool is_done)
{
	if (!server->is_discarding)
		return;
	server->is_discarding = false;
	if (is_done)
		return;
	server->sequences = SEQUENCES_FOREIGN;
	server->is_discard_failed = server->relies_on_discard;
}
