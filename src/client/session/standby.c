/* SPDX-License-Identifier: ISC */
/*
 * Clients with a server on a standby, because their transaction was a read.
 *
 * Hard here: where a transaction runs is decided before its first statement (relay/route.c). What
 * comes later, and is for the primary, cannot go there. An advisory lock would be another one than
 * on the primary, which nobody would notice, so it is refused. All else PostgreSQL refuses itself.
 */
#include "standby_priv.h"

#include "pgweir/base/container_of.h"
#include "pgweir/client/session.h"

#define LOCKS (SQL_TOUCH_LOCK | SQL_TOUCH_XACT_LOCK)

/* Whether the client did not choose this for its session as a whole. */
static bool is_routed(const struct client *client)
{
	const struct pool *pool = client->borrower.pool;

	return pool->purpose == POOL_FOR_READS && pool->limits.mode != POOL_MODE_SESSION;
}

/* The server stays with its client, and does not become the primary. */
static const char release_hint[] =
    "End what keeps the server (DISCARD ALL ends most of it), and begin such a transaction with "
    "READ WRITE: it runs on the primary.";

static void say_why_it_stays(const struct client *client, struct buf *out)
{
	buf_add_text(out, "The client's server is a standby, and stays with the client because of "
	                  "session state that a read has left there: ");
	session_tell_pins(client, out);
	buf_add_text(out, ".");
}

bool standby_allows(const struct client *client, unsigned int touches, struct err *err)
{
	struct buf detail = { 0 };

	if (!(touches & LOCKS) || !is_routed(client))
		return true;
	err_set(err, ERR_UNSUPPORTED,
	        "an advisory lock is not available on a standby (route_reads)");
	if (session_stays(client)) {
		say_why_it_stays(client, &detail);
		err_detail(err, buf_text(&detail));
		buf_free(&detail);
		return err_hint(err, release_hint);
	}
	err_detail(err, "The client's transaction began as a read and runs on a standby, whose "
	                "locks are not those of the primary.");
	return err_hint(err, "Take the lock in the first statement of the transaction, or begin it "
	                     "with READ WRITE.");
}

const char *standby_explains(struct borrower *borrower, struct buf *detail)
{
	const struct client *client = container_of(borrower, struct client, borrower);

	if (!is_routed(client))
		return NULL;
	if (session_stays(client)) {
		say_why_it_stays(client, detail);
		return release_hint;
	}
	if (borrower->server->status != 'I')
		return NULL; /* the client has said READ ONLY */
	buf_add_text(detail, "It ran on a standby, as a read (route_reads).");
	return "Send it in a transaction that begins with READ WRITE: it runs on the primary.";
}
