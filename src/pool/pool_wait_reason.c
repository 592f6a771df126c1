/* SPDX-License-Identifier: ISC */
/*
 * Why a borrower waits. The reason is determined on request, so waiting itself costs nothing.
 *
 * The order of the checks: first what blocks all pools, then what is in progress already, then the
 * limits in the order of pool_grow.c.
 */
#include <time.h>

#include "pool_priv.h"

static enum wait_reason reason_of_target(enum target_session_attrs target)
{
	if (target == TARGET_READ_WRITE || target == TARGET_PRIMARY)
		return WAIT_NO_PRIMARY;
	return target == TARGET_READ_ONLY || target == TARGET_STANDBY ? WAIT_NO_STANDBY
	                                                              : WAIT_NO_HOST;
}

/* None fits. With a target, also if the one that does is unreachable and nobody is there. */
static bool is_without_host(const struct pool *pool)
{
	return pool_due(pool) == INT64_MAX ||
	       (reason_of_target(pool->site.target) != WAIT_NO_HOST && pool_live_count(pool) == 0 &&
	        !pool_has_host(pool));
}

enum wait_reason pool_wait_reason(const struct borrower *borrower, unsigned int position)
{
	const struct pool *pool = borrower->pool;
	unsigned int coming = pool_login_count(pool);

	if (borrower->awaits_place)
		return WAIT_PINNED;
	if (pool->pools->suspend != SUSPEND_NONE)
		return WAIT_SUSPENDED;
	if (pool_is_paused(pool))
		return pool->pools->is_paused ? WAIT_PAUSED : WAIT_DATABASE_PAUSED;
	if (borrower->state == BORROWER_WAIT_PLACE)
		return WAIT_PINNED;
	if (borrower->state == BORROWER_WAIT_OWN)
		return WAIT_SEQUENCE;
	if (borrower->state == BORROWER_CONNECT_DEDICATED)
		return WAIT_LOGIN;
	if (is_without_host(pool))
		return reason_of_target(pool->site.target);
	if (pool_is_backing_off(pool) && pool_live_count(pool) == 0)
		return WAIT_RETRY;
	if (position <= coming || (borrower->state == BORROWER_NEWCOMER && coming))
		return WAIT_LOGIN;
	coming += pool->server_counts[SERVER_CHECKING] + pool->server_counts[SERVER_RESETTING];
	if (position <= coming)
		return WAIT_CHECK;
	if (pool_is_full(pool))
		return pool_fair_passes(borrower) ? WAIT_SHARE : WAIT_POOL_FULL;
	if (pool_is_blocked(pool))
		return pool_fair_passes(borrower)
		           ? WAIT_SHARE
		           : WAIT_DATABASE_LIMIT + pool_blocked_by(pool)->kind;
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
	usec_t since = pool_is_held(pool) ? 0 : share_waits_since(&pool->share);

	for (size_t i = 0; i < sizeof(first) / sizeof(first[0]); i++) {
		if (is_kept_out(first[i]) && (!since || first[i]->waiting_since < since))
			since = first[i]->waiting_since;
	}
	return since && since < pool->relieved_at ? pool->relieved_at : since;
}

/* ---- the client that holds a server ---- */

/* How many pools are searched for the client that has held a server for the longest time. */
#define HOLDER_POOLS_MAX 64

static const char *work_of(const struct server *server)
{
	switch (server_rest(server)) {
	case REST_WORKING:
		return "running";
	case REST_IN_TRANSACTION:
		return "idle in transaction";
	default:
		return "idle";
	}
}

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
static const struct server *longest_of(const struct database *database)
{
	const struct server *longest = NULL;

	if (!database || HASH_COUNT(database->pool_table) > HOLDER_POOLS_MAX)
		return NULL;
	for (const struct pool *pool = database->pool_table; pool; pool = pool->hh.next)
		longest = pool_wait_longer(longest, longest_lent(pool));
	return longest;
}

static const struct server *longest_of_role(const struct pools *pools, const char *role)
{
	const struct server *longest = NULL;
	unsigned int left = HOLDER_POOLS_MAX;

	TAILQ_EACH (pool, &pools->list, node) {
		if (!left--)
			return NULL;
		if (strcmp(pool->role->name, role) == 0)
			longest = pool_wait_longer(longest, longest_lent(pool));
	}
	return longest;
}

const struct server *pool_wait_holder(const struct pools *pools, const struct pool *waiting,
                                      enum wait_reason reason)
{
	const char *database = waiting->database->name, *role = waiting->role->name;
	const struct pool *pool;

	switch (reason) {
	case WAIT_POOL_FULL:
		pool = pools_find_exact_pool(pools, database, role, waiting->purpose);
		return pool ? longest_lent(pool) : NULL;
	case WAIT_DATABASE_LIMIT:
		return longest_of(pools_find_any_database(pools, database));
	case WAIT_USER_LIMIT:
		return longest_of_role(pools, role);
	default:
		return NULL;
	}
}

static void add_holder(const struct server *server, struct buf *out)
{
	usec_t now = pool_now(server->pool);

	buf_add_text(out, "; longest held by ");
	server->lease.borrower->ops->tell_who(server->lease.borrower, out);
	buf_printf(out, " for %lld s, %s",
	           (long long)((now - server->lease.lent_at) / USEC_PER_SEC), work_of(server));
}

/* ---- details ---- */

static void add_servers(unsigned int count, struct buf *out)
{
	buf_printf(out, "%u server%s", count, count == 1 ? "" : "s");
}

static void explain_full(const struct pool *pool, struct buf *out)
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
}

static void explain_failure(const struct pool *pool, struct buf *out)
{
	usec_t now = pool_now(pool), due = pool_due(pool);
	struct err failure;

	if (!hosts_are_failing(pool->site.hosts, &failure))
		return;
	buf_add_text(out, failure.text);
	if (due > now && due < INT64_MAX)
		buf_printf(out, "; next try in %lld s",
		           (long long)((due - now + USEC_PER_SEC - 1) / USEC_PER_SEC));
}

static void explain_cap(const struct pool *pool, struct buf *out)
{
	const struct cap *cap = pool_blocked_by(pool);

	if (!cap)
		return;
	add_servers(share_servers(&cap->share), out);
	buf_printf(out, ", %s %d", pool_cap_setting(cap->kind), (int)cap->share.tally->most);
	if (cap->kind == CAP_HOST)
		buf_printf(out, ", host %s", container_of(cap, struct cap_host, cap)->name);
	pool_tell_pins(pool, out);
}

/* PAUSE and SUSPEND, of all databases or of this one. */
static void explain_hold(const struct pool *pool, struct buf *out)
{
	bool is_of_all = pools_are_held(pool->pools);
	const struct hold *hold = is_of_all ? &pool->pools->hold : &pool->database->hold;
	time_t wall = (time_t)((wall_now() - (pool_now(pool) - hold->since)) / USEC_PER_SEC);
	char text[64];
	struct tm parts;

	if (!*hold->by || !localtime_r(&wall, &parts) ||
	    !strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S %Z", &parts))
		return;
	buf_printf(out, "%s since %s", hold->by, text);
}

static const char *state_of(const struct roster_row *row, enum host_admin admin)
{
	if (admin != HOST_ENABLED)
		return admin == HOST_DRAINING ? "drained" : "disabled";
	if (row->is_lost)
		return "lost";
	return row->is_fenced ? "fenced" : roster_role_name(row->known.role);
}

static void explain_hosts(const struct pool *pool, struct buf *out)
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

static void explain_pins(const struct pool *pool, struct buf *out)
{
	buf_printf(out, "max_pinned_servers %d", pool->limits.max_pinned);
	pool_tell_pins(pool, out);
}

static void explain_share(const struct pool *pool, struct buf *out)
{
	pool_fair_tell(pool, out);
	pool_tell_pins(pool, out);
}

/* ---- all reasons ---- */

#define PINNED_HINT "SHOW PINNED in the console lists the clients with which servers stay, and why."
#define SHORTEN "Shorten what holds the servers, or "

static const struct {
	const char *name, *hint;
	void (*explain)(const struct pool *pool, struct buf *out);
} reasons[WAIT_REASONS] = {
	[WAIT_SUSPENDED] = { "suspended", "RESUME in the console ends it.", explain_hold },
	[WAIT_PAUSED] = { "paused", "RESUME in the console ends it.", explain_hold },
	[WAIT_DATABASE_PAUSED] = { "database paused",
	                           "RESUME of this database in the console ends it.",
	                           explain_hold },
	[WAIT_NO_PRIMARY] = { "no primary",
	                      "Promote a standby, or see SHOW HOSTS for why a primary is not used.",
	                      explain_hosts },
	[WAIT_NO_STANDBY] = { "no standby", "See SHOW HOSTS for why no standby is used.",
	                      explain_hosts },
	[WAIT_NO_HOST] = { "no host", "ENABLE HOST in the console ends it.", explain_hosts },
	[WAIT_RETRY] = { "retry after failure", NULL, explain_failure },
	[WAIT_LOGIN] = { "server login", NULL, explain_failure },
	[WAIT_CHECK] = { "server check", NULL, NULL },
	[WAIT_PINNED] = { "pinned", PINNED_HINT, explain_pins },
	[WAIT_SEQUENCE] = { "sequence",
	                    "Use INSERT ... RETURNING, or call currval() and lastval() in the "
	                    "transaction that called nextval().",
	                    NULL },
	[WAIT_SHARE] = { "share", SHORTEN "see fair_by, weight and priority.", explain_share },
	[WAIT_POOL_FULL] = { "pool full",
	                     SHORTEN "raise default_pool_size, or pool_size of the entry.",
	                     explain_full },
	[WAIT_DATABASE_LIMIT] = { "database limit", SHORTEN "raise max_db_connections.",
	                          explain_cap },
	[WAIT_USER_LIMIT] = { "user limit", SHORTEN "raise max_user_connections.", explain_cap },
	[WAIT_HOST_LIMIT] = { "host limit", SHORTEN "raise max_host_connections.", explain_cap },
	[WAIT_SERVER_LIMIT] = { "server limit", SHORTEN "raise max_server_connections.",
	                        explain_cap },
	[WAIT_TURN] = { "served next", NULL, NULL },
};

const char *pool_wait_reason_name(enum wait_reason reason) { return reasons[reason].name; }

void pool_wait_explain_all(const struct pool *pool, enum wait_reason reason,
                           const struct server *holder, struct buf *out)
{
	size_t before = out->count;

	if (reasons[reason].explain)
		reasons[reason].explain(pool, out);
	if (holder && out->count > before)
		add_holder(holder, out);
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
	struct err failure;

	/* clients are not told who holds all */
	if (reason > WAIT_DATABASE_PAUSED)
		pool_wait_explain_all(pool, reason, pool_wait_holder(pool->pools, pool, reason),
		                      &more);
	buf_add_text(out, pool_wait_reason_name(reason));
	if (more.count)
		buf_printf(out, ": %s", buf_text(&more));
	if (reason != WAIT_RETRY && reason != WAIT_LOGIN &&
	    hosts_are_failing(pool->site.hosts, &failure))
		buf_printf(out, "; the last login failed: %s", failure.text);
	buf_free(&more);
	/* Of the servers that could become free, more are kept by pins than by transactions. */
	if (reason == WAIT_POOL_FULL &&
	    2 * pool->share.tally->pinned_count > share_servers(&pool->share))
		return PINNED_HINT;
	return reasons[reason].hint;
}
