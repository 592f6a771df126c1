/* SPDX-License-Identifier: ISC */
/*
 * A pool and the roles of its hosts.
 *
 *   a login, a server, a watch --> roster --> the pools are woken --> pool_hear_roster()
 *
 * An idle server whose host does not fit any more is closed, and so is one whose borrower would not
 * notice that. A lent one ends with its transaction; but if its host is fenced or disabled, it is
 * closed at once. One that waits for a host that does not answer is left to the limits of its
 * query: the host may answer yet, and while there is no other primary nothing would be won.
 */
#include "pool_priv.h"
#include "server/server_priv.h"

void pool_note_report(struct server *server, const struct host_report *report)
{
	struct pool *pool = server->pool;
	struct roster_at at = server_roster_at(server);
	struct roster_changes changes = { 0 };

	roster_note(server->site->roster, &at, report, pool_now(pool), &changes);
	cluster_changed(pool->share.tally->cluster, &changes, pool->pools->shared.log);
}

/* ---- servers whose host does not fit any more ---- */

/* In session mode the session would be lost. */
static bool is_unnoticed(const struct server *server)
{
	return pool_rules_at(server)->mode != POOL_MODE_SESSION && server_can_go_unnoticed(server);
}

enum close_reason pool_host_reason(const struct server *server)
{
	const struct server_site *site = server->site;
	struct roster_at at = server_roster_at(server);

	return site->roster ? roster_stay(site->roster, &at, site->target) : CLOSE_NONE;
}

bool pool_host_answers(const struct server *server)
{
	enum close_reason reason = pool_host_reason(server);

	return reason != CLOSE_HOST_FENCED && reason != CLOSE_HOST_LOST;
}

static void leave(struct server *server, enum close_reason reason)
{
	if (server->state == SERVER_ENDING) {
		server_keep_not(server);
		if (server->state == SERVER_ENDING && !pool_host_answers(server))
			server_forget(server);
		return;
	}
	if (server->state <= SERVER_USED || is_unnoticed(server) || reason == CLOSE_HOST_FENCED ||
	    reason == CLOSE_HOST_DISABLED) {
		server_leave_host(server, reason);
		return;
	}
	server_need_close(server, reason);
	if (reason == CLOSE_HOST_LOST)
		return; /* it answers nothing that a replacement would wait for */
	if (server->is_listening && server->state == SERVER_LENT)
		listening_replace(server);
	else if (server_is_dedicated(server))
		server_close_for(server, reason);
}

void pool_hear_roster(struct pool *pool)
{
	unsigned int number = pool->site.roster ? roster_number(pool->site.roster) : 0;

	if (pool->roster_number == number)
		return;
	pool->roster_number = number;
	pool_forget_host(pool);
	for (int state = 0; state < SERVER_CLOSING; state++) {
		struct server *server, *next;

		TAILQ_FOREACH_SAFE (server, &pool->servers[state], place.node, next) {
			enum close_reason reason = pool_host_reason(server);

			if (reason != CLOSE_NONE)
				leave(server, reason);
		}
	}
}

/* ---- is there a host? ---- */

usec_t pool_due(const struct pool *pool) { return hosts_due(pool->site.hosts, NULL); }

bool pool_has_host(const struct pool *pool) { return pool_due(pool) == 0; }

bool pool_is_unfit(const struct err *err)
{
	switch (err->reason) {
	case CLOSE_HOST_ROLE:
	case CLOSE_HOST_LOST:
	case CLOSE_HOST_DRAINED:
	case CLOSE_HOST_DISABLED:
	case CLOSE_HOST_FENCED:
		return true;
	default:
		return false;
	}
}

/* ---- for people ---- */

static const char *state_of(const struct roster_row *row, enum host_admin admin)
{
	if (admin != HOST_ENABLED)
		return admin == HOST_DRAINING ? "drained" : "disabled";
	if (row->is_lost)
		return "lost";
	return row->is_fenced ? "fenced" : roster_role_name(row->known.role);
}

void pool_tell_hosts(const struct pool *pool, struct buf *out)
{
	const struct hosts *hosts = pool->site.hosts;
	struct roster_row row;

	for (unsigned int i = 0; roster_row_at(pool->site.roster, i, &row); i++) {
		const char *name = row.host < hosts->count ? hosts->list[row.host].name : "";
		char address[ADDRESS_TEXT_SIZE];

		buf_printf(out, "%s%s %s", i ? ", " : "",
		           row.address.family == AF_UNSPEC
		               ? name
		               : address_format_host(&row.address, address, sizeof(address)),
		           state_of(&row, clusters_admin(pool->pools->with.broker, name)));
	}
}
