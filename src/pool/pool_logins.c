/* SPDX-License-Identifier: ISC */
/* Logins at servers that have ended, well or not. */
#include "pool_priv.h"

#include <stdio.h>
#include <string.h>

#include "pgweir/base/text.h"

#include "server/server_priv.h"

/*
 * ---- outages ----
 *
 * One WARNING when a host of an entry fails, one LOG when it answers again.
 *
 * Noted for each database, not for each pool, and for all loops: a hundred pools of different users
 * notice one after the other that the same host is down.
 */

static const char connect_words[] = "connect failed: ";

static struct outages *outages_of(const struct server *server)
{
	return share_outages(&server->pool->database->cap.share);
}

/* The target of a server: its host as in the entry, and the address if that is different. */
static const char *where_is(const struct server *server, char *out, size_t size)
{
	const struct hosts *hosts = server->pool->site.hosts;
	const struct host *host =
	    server->place.host < hosts->count ? &hosts->list[server->place.host] : NULL;
	const char *name = host && *host->at ? host->at : "(no host)";
	char at[ADDRESS_TEXT_SIZE], address[ADDRESS_TEXT_SIZE];

	address_format(&server->place.peer, address, sizeof(address));
	if (*server->place.path)
		snprintf(out, size, "%s", server->place.path);
	else if (server->place.peer.family != AF_INET && server->place.peer.family != AF_INET6)
		snprintf(out, size, "%s:%u", name, host ? host->port : 0U);
	else if (strcmp(address_format_host(&server->place.peer, at, sizeof(at)), name) == 0)
		snprintf(out, size, "%s", address);
	else
		snprintf(out, size, "%s (%s)", name, address);
	return out;
}

static const char *reason_of(const struct err *err)
{
	size_t count = sizeof(connect_words) - 1;

	return strncmp(err->text, connect_words, count) == 0 ? err->text + count : err->text;
}

/* It has answered, even if only to refuse the login. */
static bool is_answer(const struct err *err)
{
	return err->code == ERR_NOT_ALLOWED ||
	       (err->code == ERR_FOREIGN && !pool_is_worth_waiting(err));
}

static void log_outage(const struct server *server, const struct outage *outage,
                       const struct err *err, usec_t now)
{
	const struct database *database = server->pool->database;
	struct logger log = { server->pool->pools->with.log, NULL };
	unsigned int waiting = share_waiting(&database->cap.share);
	char more[80] = "";

	if (outage->said_at)
		snprintf(more, sizeof(more), "; %u attempts failed in the last %lld s",
		         outage->failures, (long long)((now - outage->said_at) / USEC_PER_SEC));
	log_kept(&log, LOG_LEVEL_WARNING, "host down",
	         "%s: PostgreSQL at %s cannot be reached: %s; %u client%s%s", database->name,
	         outage->where, reason_of(err), waiting, waiting == 1 ? " waits" : "s wait", more);
}

/* PostgreSQL at this server's address has answered. */
static void outage_of_server_over(struct server *server)
{
	const struct database *database = server->pool->database;
	struct logger log = { server->pool->pools->with.log, NULL };
	char where[OUTAGE_WHERE_SIZE];
	usec_t lasted;

	if (!outages_of(server)->count)
		return;
	if (outages_over(outages_of(server), where_is(server, where, sizeof(where)),
	                 loop_now(server->pool->pools->with.loop), &lasted))
		log_kept(&log, LOG_LEVEL_INFO, "host up",
		         "%s: PostgreSQL at %s answers again after %lld s", database->name, where,
		         (long long)(lasted / USEC_PER_SEC));
}

/* The login of this server has failed, for any reason. */
static void outage_of_server(struct server *server, const struct err *err)
{
	usec_t now = loop_now(server->pool->pools->with.loop);
	char where[OUTAGE_WHERE_SIZE];
	struct outage outage;

	if (is_answer(err)) {
		outage_of_server_over(server);
		if (err->code != ERR_FOREIGN) /* an error of PostgreSQL is in the log already */
			log_warning(&server->log, "%s", err->text);
		return;
	}
	if (outages_failed(outages_of(server), where_is(server, where, sizeof(where)), now,
	                   &outage))
		log_outage(server, &outage, err, now);
}

/*
 * ---- logins ----
 *
 * How the login of a server ended, and what that means for the pool.
 *
 *   pool_login_done    the server can be lent
 *   pool_login_failed  another host, a later attempt, or waiting borrowers are refused
 */

void pool_login_done(struct server *server)
{
	struct pool *pool = server->pool;
	usec_t now = loop_now(pool_loop(pool));

	outage_of_server_over(server);
	latency_note(&pool->latency, &pool->pools->latency, LATENCY_SERVER_LOGIN,
	             now - server->connected_at, now);
	if (server->replication) {
		pool_dedicated_login_done(server);
		return;
	}
	if (server->is_listening) {
		listening_login_done(server);
		return;
	}
	if (pool->site.roster && pool->pools->config->host_check_borrow)
		cluster_lend_login(pool->pools->with.broker, share_cluster(&pool->share),
		                   pool->site.user, pool_credentials(pool));
	if (!pool->has_welcome)
		pool_learn_welcome(server);
	pool_note_success(server);
	pool_end_login(server);
	if (share_servers(&pool->share) < (unsigned int)pool->limits.min_size)
		share_wake_others(&pool->share); /* if their clients are all that is left */
	server->lease.sequences.state = SEQUENCES_NONE;
	server_login_free(server);
	timer_set(&server->life, pool->site.limits.life, server->connected_at);
	pool_home(server);
	pool_wake(pool);
}

void pool_login_failed(struct server *server, const struct err *err)
{
	struct pool *pool = server->pool;

	bool is_ours = err->code == ERR_ADMIN_SHUTDOWN || pool_is_unfit(err);

	if (!is_ours) { /* else we closed it ourselves */
		pool->failed_at = loop_now(pool->pools->with.loop);
		outage_of_server(server, err);
	}
	if (server->replication) {
		pool_dedicated_login_failed(server, err);
		return;
	}
	if (server->is_listening) {
		listening_login_failed(server, err);
		return;
	}
	if (!is_ours) {
		pool_note_failure(server, err);
		pool_refuse_for_failure(pool);
	}
	if (pool_is_unfit(err))
		pool_note_answer(server);
	pool_wake(pool);
	pool_end_login(server);
}
