/* SPDX-License-Identifier: ISC */
/*
 * What goes to a server ahead of its borrower's first message, in the same write, and must be done
 * before that message runs: DISCARD SEQUENCES, and the cleaning of a server in doubt.
 *
 * Hard here: it may fail, because a request to cancel the borrower's statement may come while it
 * runs. Nothing that relies on it may be answered then: the server is closed before. The cleaning
 * leaves a failed transaction block if it fails, so what is behind it does not even run, and is
 * sent to another server.
 */
#include "server_priv.h"

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
	if (server->relies_on_discard)
		server->prefix_failure = CLOSE_SEQUENCES_KEPT;
}

void server_cleaning_end(struct server *server, bool is_done)
{
	if (!server->is_cleaning)
		return;
	server->is_cleaning = false;
	if (is_done)
		server->doubt = DOUBT_NONE;
	/* More may be sent now, which is kept only where there are other hosts. */
	if (is_done && server->site->hosts->count == 1)
		replay_end_resend(&server->replay);
}
