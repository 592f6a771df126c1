/* SPDX-License-Identifier: ISC */
/*
 * Why a borrower waits. The reason is determined on request, so waiting itself costs nothing.
 *
 * The order of the checks: first what blocks all pools, then what is in progress already, then the
 * limits in the order of pool_grow.c.
 */
#include <time.h>

#include "pgweir/base/container_of.h"

#include "pool_priv.h"

#define PINNED_HINT                                                                  \
	"SHOW PINNED in the console lists the clients with which servers stay, and " \
	"why."

static const char *const names[WAIT_REASONS] = {
	[WAIT_SUSPENDED] = "suspended",
	[WAIT_PAUSED] = "paused",
	[WAIT_DATABASE_PAUSED] = "database paused",
	[WAIT_NO_PRIMARY] = "no primary",
	[WAIT_NO_STANDBY] = "no standby",
	[WAIT_NO_HOST] = "no host",
	[WAIT_RETRY] = "retry after failure",
	[WAIT_LOGIN] = "server login",
	[WAIT_CHECK] = "server check",
	[WAIT_PINNED] = "pinned",
	[WAIT_SEQUENCE] = "sequence",
	[WAIT_SHARE] = "share",
	[WAIT_POOL_FULL] = "pool full",
	[WAIT_DATABASE_LIMIT] = "database limit",
	[WAIT_USER_LIMIT] = "user limit",
	[WAIT_HOST_LIMIT] = "host limit",
	[WAIT_SERVER_LIMIT] = "server limit",
	[WAIT_TURN] = "served next",
};

static const char *const hints[WAIT_REASONS] = {
	[WAIT_SUSPENDED] = "RESUME in the console ends it.",
	[WAIT_PAUSED] = "RESUME in the console ends it.",
	[WAIT_DATABASE_PAUSED] = "RESUME of this database in the console ends it.",
	[WAIT_NO_PRIMARY] = "Promote a standby, or see SHOW HOSTS for why a primary is not used.",
	[WAIT_NO_STANDBY] = "See SHOW HOSTS for why no standby is used.",
	[WAIT_NO_HOST] = "ENABLE HOST in the console ends it.",
	[WAIT_PINNED] = PINNED_HINT,
	[WAIT_SEQUENCE] = "Use INSERT ... RETURNING, or call currval() and lastval() in the "
			  "transaction that called nextval().",
	[WAIT_SHARE] = "Shorten what holds the servers, or see fair_by, weight and priority.",
	[WAIT_POOL_FULL] =
	    "Shorten what holds the servers, or raise default_pool_size, or pool_size "
	    "of the entry.",
	[WAIT_DATABASE_LIMIT] = "Shorten what holds the servers, or raise max_db_connections.",
	[WAIT_USER_LIMIT] = "Shorten what holds the servers, or raise max_user_connections.",
	[WAIT_HOST_LIMIT] = "Shorten what holds the servers, or raise max_host_connections.",
	[WAIT_SERVER_LIMIT] = "Shorten what holds the servers, or raise max_server_connections.",
};

const char *pool_wait_reason_name(enum wait_reason reason) { return names[reason]; }

static bool holds_all(const struct pool *pool, enum wait_reason *reason)
{
	const struct pools *pools = pool->pools;

	if (pools->suspend != SUSPEND_NONE)
		*reason = WAIT_SUSPENDED;
	else if (pools->is_paused)
		*reason = WAIT_PAUSED;
	else if (pool->database->is_paused)
		*reason = WAIT_DATABASE_PAUSED;
	else
		return false;
	return true;
}

static enum wait_reason reason_of_target(const struct pool *pool)
{
	switch (pool->site.target) {
	case TARGET_READ_WRITE:
	case TARGET_PRIMARY:
		return WAIT_NO_PRIMARY;
	case TARGET_READ_ONLY:
	case TARGET_STANDBY:
		return WAIT_NO_STANDBY;
	case TARGET_ANY:
	case TARGET_PREFER_STANDBY:
		return WAIT_NO_HOST;
	}
	return WAIT_NO_HOST;
}

/* None fits. With a target, also if the one that does is unreachable and nobody is there. */
static bool is_without_host(const struct pool *pool)
{
	bool is_any = pool->site.target == TARGET_ANY || pool->site.target == TARGET_PREFER_STANDBY;

	return pool_due(pool) == INT64_MAX ||
	       (!is_any && pool_live_count(pool) == 0 && !pool_has_host(pool));
}

enum wait_reason pool_wait_reason(const struct borrower *borrower, unsigned int position)
{
	const struct pool *pool = borrower->pool;
	unsigned int coming = pool_login_count(pool);
	enum wait_reason reason;

	if (borrower->awaits_place)
		return WAIT_PINNED;
	if (holds_all(pool, &reason))
		return reason;
	if (borrower->state == BORROWER_WAIT_PLACE)
		return WAIT_PINNED;
	if (borrower->state == BORROWER_WAIT_OWN)
		return WAIT_SEQUENCE;
	if (borrower->state == BORROWER_CONNECT_DEDICATED)
		return WAIT_LOGIN;
	if (is_without_host(pool))
		return reason_of_target(pool);
	if (pool_is_backing_off(pool) && pool_live_count(pool) == 0)
		return WAIT_RETRY;
	if (position <= coming || (borrower->state == BORROWER_NEWCOMER && coming))
		return WAIT_LOGIN;
	coming += pool->server_counts[SERVER_CHECKING] + pool->server_counts[SERVER_RESETTING];
	if (position <= coming)
		return WAIT_CHECK;
	if (pool_is_full(pool))
		return pool_fair_passes(borrower) ? WAIT_SHARE : WAIT_POOL_FULL;
	for (unsigned int i = 0; i < CAPS; i++) {
		if (pool->blocks[i].is_blocked)
			return pool_fair_passes(borrower) ? WAIT_SHARE : WAIT_DATABASE_LIMIT + i;
	}
	if (pool_is_backing_off(pool))
		return WAIT_RETRY;
	return coming ? WAIT_LOGIN : WAIT_TURN;
}

/* ---- those who wait for what pins keep ---- */

/* Whether the first of a wait queue waits because servers are held, and not for something else. */
static bool is_kept_out(const struct borrower *borrower)
{
	enum wait_reason reason = borrower ? pool_wait_reason(borrower, 1) : WAIT_TURN;

	return reason == WAIT_PINNED || (reason >= WAIT_SHARE && reason <= WAIT_SERVER_LIMIT);
}

usec_t pool_wait_for_pins_since(const struct pool *pool)
{
	const struct borrower *first[] = { pool_first(pool, BORROWER_WAITING),
		                           pool_first(pool, BORROWER_WAIT_PLACE),
		                           pool_first(pool, BORROWER_SERVED) };
	usec_t since = pool_is_held(pool) ? 0 : share_asked_since(&pool->share);

	for (size_t i = 0; i < sizeof(first) / sizeof(first[0]); i++) {
		if (is_kept_out(first[i]) && (!since || first[i]->waiting_since < since))
			since = first[i]->waiting_since;
	}
	return since && since < pool->relieved_at ? pool->relieved_at : since;
}

/* ---- the client that holds a server ---- */

/* How many pools are searched for the client that has held a server for the longest time. */
#define HOLDER_POOLS_MAX 64

/* Servers are in the order of lending. For one turn, one may be without its client. */
static const struct server *longest_lent(const struct pool *pool)
{
	const struct server *server = TAILQ_FIRST(&pool->servers[SERVER_LENT]);

	while (server && server->is_listening)
		server = TAILQ_NEXT(server, place.node);
	return server && server->lease.borrower ? server : NULL;
}

const struct server *pool_wait_longer(const struct server *a, const struct server *b)
{
	if (!a || !b)
		return a ? a : b;
	return b->lease.lent_at < a->lease.lent_at ? b : a;
}

/* Also NULL if there are more pools than are searched. */
static const struct server *longest_of_database(const struct database *database)
{
	const struct server *longest = NULL;

	if (HASH_COUNT(database->pool_table) > HOLDER_POOLS_MAX)
		return NULL;
	for (const struct pool *pool = database->pool_table; pool; pool = pool->hh.next)
		longest = pool_wait_longer(longest, longest_lent(pool));
	return longest;
}

static const struct server *longest_of_role(const struct role *role, const struct pools *pools)
{
	const struct server *longest = NULL;
	const struct pool *pool;

	if (pools->pool_count > HOLDER_POOLS_MAX)
		return NULL;
	TAILQ_FOREACH (pool, &pools->list, node) {
		if (pool->role == role)
			longest = pool_wait_longer(longest, longest_lent(pool));
	}
	return longest;
}

const struct server *pool_wait_holder(const struct pools *pools, const struct pool *waiting,
                                      enum wait_reason reason)
{
	const char *database = waiting->database->name, *role = waiting->role->name;
	bool is_here = pools == waiting->pools;
	const struct pool *pool;
	const void *limited;

	switch (reason) {
	case WAIT_POOL_FULL:
		pool = is_here ? waiting
		               : pools_find_exact_pool(pools, database, role, waiting->purpose);
		return pool ? longest_lent(pool) : NULL;
	case WAIT_DATABASE_LIMIT:
		limited = pools_find_any_database(pools, database);
		return limited ? longest_of_database(limited) : NULL;
	case WAIT_USER_LIMIT:
		limited = pools_find_role(pools, role);
		return limited ? longest_of_role(limited, pools) : NULL;
	default:
		return NULL;
	}
}

static void add_holder(const struct server *server, struct buf *out)
{
	usec_t now;

	if (!server)
		return;
	now = loop_now(server->pool->pools->with.loop);
	buf_add_text(out, "; longest held by ");
	server->lease.borrower->ops->tell_who(server->lease.borrower, out);
	buf_printf(out, " for %lld s, %s",
	           (long long)((now - server->lease.lent_at) / USEC_PER_SEC), server_work(server));
}

/* ---- details ---- */

static void add_servers(unsigned int count, struct buf *out)
{
	buf_printf(out, "%u server%s", count, count == 1 ? "" : "s");
}

static void explain_full(const struct pool *pool, const struct server *holder, struct buf *out)
{
	int size = pool->limits.size;

	add_servers(share_servers(&pool->share), out);
	buf_printf(out, ", pool_size %d", size);
	if (pool->limits.reserve_size > 0)
		buf_printf(out, ", reserve_pool_size %d", pool->limits.reserve_size);
	pool_tell_pins(pool, out);
	if (pool->server_counts[SERVER_ENDING])
		buf_printf(out, "; %u being canceled or closed",
		           pool->server_counts[SERVER_ENDING]);
	add_holder(holder, out);
}

static void explain_failure(const struct pool *pool, struct buf *out)
{
	usec_t now = loop_now(pool->pools->with.loop), due = pool_due(pool);

	if (!pool->is_failing)
		return;
	buf_printf(out, "%s", pool->failure.text);
	if (due > now && due < INT64_MAX)
		buf_printf(out, "; next try in %lld s",
		           (long long)((due - now + USEC_PER_SEC - 1) / USEC_PER_SEC));
}

static void explain_cap(const struct pool *pool, const struct cap *cap, const struct server *holder,
                        struct buf *out)
{
	if (!cap)
		return;
	add_servers(share_servers(&cap->share), out);
	buf_printf(out, ", %s %d", pool_cap_setting(cap->kind), cap->limit);
	if (cap->kind == CAP_HOST)
		buf_printf(out, ", host %s", container_of(cap, struct cap_host, cap)->name);
	pool_tell_pins(pool, out);
	add_holder(holder, out);
}

static void explain_reason(const struct pool *pool, enum wait_reason reason,
                           const struct server *holder, struct buf *out)
{
	switch (reason) {
	case WAIT_RETRY:
	case WAIT_LOGIN:
		explain_failure(pool, out);
		return;
	case WAIT_NO_PRIMARY:
	case WAIT_NO_STANDBY:
	case WAIT_NO_HOST:
		pool_tell_hosts(pool, out);
		return;
	case WAIT_PINNED:
		buf_printf(out, "max_pinned_servers %d", pool->limits.max_pinned);
		pool_tell_pins(pool, out);
		return;
	case WAIT_SHARE:
		pool_fair_tell(pool, out);
		pool_tell_pins(pool, out);
		return;
	case WAIT_POOL_FULL:
		explain_full(pool, holder, out);
		return;
	case WAIT_DATABASE_LIMIT:
	case WAIT_USER_LIMIT:
	case WAIT_HOST_LIMIT:
	case WAIT_SERVER_LIMIT:
		explain_cap(pool, pool_cap(pool, reason - WAIT_DATABASE_LIMIT), holder, out);
		return;
	default:
		return;
	}
}

/* ---- PAUSE and SUSPEND ---- */

static void add_hold(const struct pools *pools, const struct hold *hold, struct buf *out)
{
	time_t wall =
	    (time_t)((wall_now() - (loop_now(pools->with.loop) - hold->since)) / USEC_PER_SEC);
	char text[64];
	struct tm parts;

	if (!*hold->by || !localtime_r(&wall, &parts) ||
	    !strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S %Z", &parts))
		return;
	buf_printf(out, "%s since %s", hold->by, text);
}

void pool_wait_explain_all(const struct pool *pool, enum wait_reason reason,
                           const struct server *holder, struct buf *out)
{
	switch (reason) {
	case WAIT_SUSPENDED:
	case WAIT_PAUSED:
		add_hold(pool->pools, &pool->pools->hold, out);
		return;
	case WAIT_DATABASE_PAUSED:
		add_hold(pool->pools, &pool->database->hold, out);
		return;
	default:
		explain_reason(pool, reason, holder, out);
		return;
	}
}

/* From 1. Beyond what servers can serve it does not matter: a long queue is not walked. */
static unsigned int position_of(const struct borrower *borrower)
{
	unsigned int position = 1, limit = borrower->pool->server_count + 1;

	while (position <= limit) {
		borrower = TAILQ_PREV(borrower, borrower_list, wait_node);
		if (!borrower)
			break;
		position++;
	}
	return position;
}

const char *pool_wait_tell(const struct borrower *borrower, struct buf *out)
{
	const struct pool *pool = borrower->pool;
	enum wait_reason reason = pool_wait_reason(borrower, position_of(borrower));
	struct buf more = { 0 };

	explain_reason(pool, reason, pool_wait_holder(pool->pools, pool, reason), &more);
	buf_add_text(out, pool_wait_reason_name(reason));
	if (more.count)
		buf_printf(out, ": %s", buf_text(&more));
	if (pool->is_failing && reason != WAIT_RETRY && reason != WAIT_LOGIN)
		buf_printf(out, "; the last login failed: %s", pool->failure.text);
	buf_free(&more);
	/* Of the servers that could become free, more are kept by pins than by transactions. */
	if (reason == WAIT_POOL_FULL && 2 * share_pins(&pool->share) > share_servers(&pool->share))
		return PINNED_HINT;
	return hints[reason];
}
