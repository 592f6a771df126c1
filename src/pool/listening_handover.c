/* SPDX-License-Identifier: ISC */
/*
 * Hand-over of listening connections. The records of the listeners are their owner's.
 */
#include "pgweir/pool/listening_handover.h"

#include "handover_priv.h"
#include "listening_priv.h"
#include "server/server_priv.h"

/* ---- the process that hands over ---- */

void listening_look_begin(const struct listener *listener)
{
	memset(listener->listening->rests, 0, sizeof(listener->listening->rests));
}

void listening_look_note(const struct listener *listener, enum listener_rest rest)
{
	listener->listening->rests[rest]++;
}

bool listening_can_ever_leave(const struct listener *listener)
{
	const struct listening *listening = listener->listening;
	const struct server *server = listening->now->borrower.server;

	return !listening->rests[LISTENER_STAYS] && !listening->pool->pools->is_handover_plain &&
	       !(server && server->stream.tls);
}

/* Whether the connection does nothing but listen. */
static bool is_at_rest(const struct listening *listening)
{
	const struct listening_link *now = listening->now, *next = listening->next;

	return now->borrower.server && !listening->is_lost && !now->has_error &&
	       listening->is_mark_on && !now->is_running && !next->borrower.server &&
	       !next->wish.expected && TAILQ_EMPTY(&listening->stale) &&
	       TAILQ_EMPTY(&listening->asking) && !listening->marks &&
	       handover_server_may_leave(listening->now->borrower.server);
}

bool listening_may_leave(const struct listener *listener)
{
	const struct listening *listening = listener->listening;

	return listening->rests[LISTENER_AT_REST] == listening->listener_count &&
	       listening_can_ever_leave(listener) && is_at_rest(listening);
}

bool listening_leaves_soon(const struct listener *listener)
{
	const struct listening *listening = listener->listening;

	return listening->rests[LISTENER_AT_REST] + listening->rests[LISTENER_ENDS] ==
	           listening->listener_count &&
	       listening_can_ever_leave(listener);
}

uint64_t listening_number(const struct listener *listener)
{
	return listener->listening->now->borrower.server->id;
}

bool listening_write(const struct listener *listener, struct channel *channel)
{
	struct server *server = listener->listening->now->borrower.server;

	return server->is_leaving || handover_server_write(server, channel);
}

/* ---- the process that takes over ---- */

static struct listening *find_arrived(const struct pool *pool, uint64_t number)
{
	struct listening *listening;

	TAILQ_FOREACH (listening, &pool->listenings, node) {
		if (listening->number == number)
			break;
	}
	return listening;
}

bool listening_has_arrived(struct pools *pools, const char *database, const char *role,
                           uint64_t number)
{
	const struct pool *pool = pools_find_pool(pools, database, role);

	return pool && find_arrived(pool, number);
}

bool listening_rejoin(struct listener *listener, struct pool *pool, uint64_t number)
{
	struct listening *listening = find_arrived(pool, number);

	if (listening)
		listening_enter(listening, listener);
	return listening;
}
