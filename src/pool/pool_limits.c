/* SPDX-License-Identifier: ISC */
/*
 * The limits on servers that several pools share: of a database, of a role, of one address of
 * PostgreSQL, and of the process.
 *
 * If such a limit is reached, the longest unused idle servers of other pools are evicted, side by
 * side, in this loop or else in others: as many as the blocked pools need. A pool is blocked until
 * PostgreSQL has ended such a session; or, without an idle server, until one that counts there is
 * returned or closed. Blocked pools are served in the order of their claims (claim.h), in all
 * loops; and nobody passes them: a permit is refused while another claim comes before.
 *
 * Hard here: the address is known only when the host was chosen and its name looked up, and the
 * server has its other permits by then. If the address is full, the server is closed, and the pool
 * asks for that address in advance from then on, together with the rest.
 */
#include "pool_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pgweir/base/container_of.h"

#include "server/server_priv.h"

static const struct {
	const char *setting;
	enum close_reason evicted;
} kinds[CAPS] = {
	[CAP_DATABASE] = { "max_db_connections", CLOSE_EVICTED_DATABASE },
	[CAP_ROLE] = { "max_user_connections", CLOSE_EVICTED_USER },
	[CAP_HOST] = { "max_host_connections", CLOSE_EVICTED_HOST },
	[CAP_ALL] = { "max_server_connections", CLOSE_EVICTED_ALL },
};

const char *pool_cap_setting(enum cap_kind kind) { return kinds[kind].setting; }

/* ---- caps ---- */

bool pool_cap_open(struct cap *cap, struct pools *pools, enum cap_kind kind, const char *name)
{
	cap->kind = kind;
	cap->share.on_woken = kind == CAP_DATABASE ? pool_database_woken : pool_cap_woken;
	TAILQ_INIT(&cap->idle);
	return share_open(&cap->share, &pools->member, TALLY_DATABASE + kind, name, "");
}

void pool_cap_close(struct cap *cap)
{
	heap_done(&cap->blocked);
	share_close(&cap->share);
}

/* The cap of a pool, and of a server of it at this host. NULL: the host is not known. */
static struct cap *cap_of(const struct pool *pool, struct cap_host *host, enum cap_kind kind)
{
	switch (kind) {
	case CAP_DATABASE:
		return &pool->database->cap;
	case CAP_ROLE:
		return &pool->role->cap;
	case CAP_HOST:
		return host ? &host->cap : NULL;
	default:
		return &pool->pools->cap;
	}
}

/* The cap that applies to a pool. NULL: no host that it waits for. */
static struct cap *pool_cap(const struct pool *pool, enum cap_kind kind)
{
	return cap_of(pool, pool->block.wanted_host, kind);
}

static struct cap *server_cap(const struct server *server, enum cap_kind kind)
{
	return cap_of(server->pool, server->place.cap_host, kind);
}

/* ---- hosts ---- */

static struct cap_host *hold_host(struct cap_host *host)
{
	host->user_count++;
	return host;
}

static void release_host(struct pools *pools, struct cap_host **hostp)
{
	struct cap_host *host = *hostp;

	*hostp = NULL;
	if (!host || --host->user_count)
		return;
	HASH_DEL(pools->host_table, host);
	pool_cap_close(&host->cap);
	free(host);
}

#define MARGIN_PART \
	10 /* of what PostgreSQL grants: for sessions that are not over yet, and others */
#define MARGIN_LEAST 3
#define UNKNOWN_MORE 4 /* servers more than there are, until one has logged in and asked */

/* The first loop that asks says it for all. */
static unsigned int allowed_at(struct cap_host *host)
{
	unsigned int allowed = 0, first = share_servers(&host->cap.share) + UNKNOWN_MORE;

	return atomic_compare_exchange_strong(&host->cap.share.tally->allowed, &allowed, first)
	           ? first
	           : allowed;
}

static void limit_host(struct pools *pools, struct cap_host *host)
{
	struct tally *tally = host->cap.share.tally;
	unsigned int granted = atomic_load(&tally->granted);
	unsigned int margin = granted / MARGIN_PART;

	if (pools->config->max_host_connections != CONFIG_CAP_AUTO) {
		atomic_store(&tally->allowed, 0);
		host->cap.limit = pools->config->max_host_connections;
		return;
	}
	if (margin < MARGIN_LEAST)
		margin = MARGIN_LEAST;
	if (!granted)
		host->cap.limit = (int)allowed_at(host);
	else
		host->cap.limit = granted > margin ? (int)(granted - margin) : 1;
}

/* NULL: no memory. */
static struct cap_host *add_host(struct pools *pools, struct bytes name)
{
	struct cap_host *host = calloc(1, sizeof(*host) + name.count + 1);

	if (!host)
		return NULL;
	memcpy(host->name, name.at, name.count);
	if (!pool_cap_open(&host->cap, pools, CAP_HOST, host->name)) {
		free(host);
		return NULL;
	}
	limit_host(pools, host);
	TABLE_ADD(hh, &pools->secret, pools->host_table, host->name, name.count, host);
	return host;
}

struct cap_host *pools_find_cap_host(const struct pools *pools, const char *name)
{
	return TABLE_GET(hh, &pools->secret, pools->host_table, name, strlen(name));
}

/* Where a server is or connects to, by address. NULL: it is not known yet, or no memory. */
static struct cap_host *host_of(struct pools *pools, const struct server *server)
{
	char text[CAP_HOST_NAME_MAX + 1];
	struct strbuf out = strbuf_begin(text, sizeof(text));
	struct cap_host *host;

	if (*server->place.path)
		strbuf_add(&out, server->place.path);
	else if (server->place.peer.family == AF_INET || server->place.peer.family == AF_INET6)
		address_add(&server->place.peer, &out);
	else
		return NULL;
	host = pools_find_cap_host(pools, text);
	if (!host)
		host = add_host(pools, bytes_text(text));
	return host ? hold_host(host) : NULL;
}

/* ---- idle servers ---- */

void pool_file_idle(struct server *server)
{
	server->place.idle_count = server->pool->pools->is_capped ? CAPS : CAP_HOST;
	for (unsigned int i = 0; i < server->place.idle_count; i++) {
		struct cap *cap = server_cap(server, (enum cap_kind)i);

		if (cap)
			TAILQ_INSERT_TAIL(&cap->idle, server, place.idle_nodes[i]);
	}
}

void pool_unfile_idle(struct server *server)
{
	for (unsigned int i = 0; i < server->place.idle_count; i++) {
		struct cap *cap = server_cap(server, (enum cap_kind)i);

		if (cap)
			TAILQ_REMOVE(&cap->idle, server, place.idle_nodes[i]);
	}
}

void pools_set_caps(struct pools *pools)
{
	const struct config *config = pools->config;
	bool was_capped = pools->is_capped;
	struct cap_host *host, *next;
	struct server *server;

	pools->cap.limit = config->max_server_connections;
	HASH_ITER (hh, pools->host_table, host, next)
		limit_host(pools, host);
	pools->is_capped = config->max_server_connections || config->max_host_connections;
	if (pools->is_capped == was_capped)
		return;
	TAILQ_FOREACH (server, &pools->servers, place.all_node) {
		if (!pool_is_home(server->state))
			continue;
		pool_unfile_idle(server);
		pool_file_idle(server);
	}
}

/* The longest unused one, of a pool without waiting borrowers in any loop. */
static struct server *find_idle(const struct cap *cap)
{
	struct server *server = TAILQ_FIRST(&cap->idle);

	/* Those of a pool with waiting borrowers are about to be lent, or to move. */
	while (server && (server->pool->queues[BORROWER_WAITING].count ||
	                  share_is_asked(&server->pool->share)))
		server = TAILQ_NEXT(server, place.idle_nodes[cap->kind]);
	return server;
}

static unsigned int most_of(int limit) { return limit > 0 ? (unsigned int)limit : PERMIT_NO_LIMIT; }

static bool is_full(const struct cap *cap)
{
	return share_servers(&cap->share) >= most_of(cap->limit);
}

static bool is_short(const struct cap *cap)
{
	return share_is_short(&cap->share, most_of(cap->limit), 0);
}

/*
 * Idle servers of this loop leave side by side, until the cap has space for what the pools need
 * that it blocks, in any loop, and for so many more: PostgreSQL may end each session late.
 */
static void evict(struct cap *cap, unsigned int more)
{
	unsigned int most = most_of(cap->limit);
	struct server *server;

	while (share_is_short(&cap->share, most, more) && (server = find_idle(cap)) &&
	       share_begin_eviction(&cap->share, most, more)) {
		server_close_for(server, kinds[cap->kind].evicted);
		share_end_eviction(&cap->share, most);
	}
}

/* ---- blocked pools ---- */

static struct claim_pool what_it_has(const struct pool *pool)
{
	const struct cap *database = &pool->database->cap, *role = &pool->role->cap;

	return (struct claim_pool){
		.servers = share_staying(&pool->share),
		.weight = pool->limits.weight,
		.is_spare = pool->block.is_spare,
		.owners = { { share_staying(&database->share), database->guaranteed,
		              database->share.tally },
		            { share_staying(&role->share), role->guaranteed, role->share.tally } },
	};
}

static struct pool *blocked_at(const struct cap *cap, size_t place)
{
	return container_of(cap->blocked.list[place], struct pool, block.node);
}

/* The claim of a blocked pool may have changed. */
static void rank_again(struct pool *pool)
{
	const struct claim_pool has = what_it_has(pool);
	struct heap_node *node = &pool->block.node;
	uint64_t rank = claim_rank(&has);

	if (node->key == rank)
		return;
	node->key = rank;
	heap_moved(&pool->block.cap->blocked, node);
}

/* A claim that has become a later one is moved when it is the first. */
static struct pool *first_blocked(struct cap *cap)
{
	struct pool *first = NULL;

	while (cap->blocked.count && first != blocked_at(cap, 0)) {
		first = blocked_at(cap, 0);
		rank_again(first);
	}
	return first;
}

/* The first blocked pool waits in the name of this loop. */
static bool want_for(struct cap *cap)
{
	const struct pool *first = first_blocked(cap);
	struct share *share = &cap->share;

	/* Other loops see the last claim until share_want() has the lock: not one before all. */
	if (!first)
		return share_want(share, 0, 0);
	atomic_store_explicit(&share->wanted_rank, first->block.node.key, memory_order_relaxed);
	atomic_store_explicit(&share->wanted_by[0], first->database->cap.share.tally,
	                      memory_order_relaxed);
	atomic_store_explicit(&share->wanted_by[1], first->role->cap.share.tally,
	                      memory_order_relaxed);
	return share_want(share, first->block.since, 1);
}

static void count_blocked(const struct cap *cap, int change)
{
	atomic_fetch_add_explicit(&cap->share.tally->blocked_count, (unsigned int)change,
	                          memory_order_relaxed);
}

static void note_met(struct pool *pool, const struct cap *cap)
{
	char counted[sizeof("the servers of host ") + CAP_HOST_NAME_MAX] = "the servers";
	const struct limit_event event = {
		.limit = pool_cap_setting(cap->kind),
		.value = cap->limit,
		.counted = counted,
		.database = cap->kind == CAP_DATABASE ? pool->database->name : NULL,
		.user = cap->kind == CAP_ROLE ? pool->role->name : NULL,
	};

	if (cap->kind == CAP_HOST)
		snprintf(counted, sizeof(counted), "the servers of host %s",
		         pool->block.wanted_host->name);
	limit_event_note(&cap->share.tally->servers_met, pool_now(pool), pool->log.log, &event);
}

static void begin_to_claim(struct pool *pool)
{
	pool->block.since = pool_now(pool);
	pool->block.node.order = ++pool->pools->last_blocked_number;
}

static void claim_again(struct pool *pool)
{
	if (!pool_is_blocked(pool))
		return;
	rank_again(pool);
	want_for(pool->block.cap);
}

static void count_needed(struct pool_block *block)
{
	share_count_needed(&block->cap->share, (int)(block->needed - block->counted));
	block->counted = block->needed;
}

void pool_leave_blocked(struct pool *pool)
{
	struct pool_block *block = &pool->block;
	struct cap *cap = block->cap;

	if (!cap)
		return;
	block->needed = 0;
	count_needed(block);
	block->cap = NULL;
	TAILQ_REMOVE(&pool->pools->claiming, pool, claiming);
	count_blocked(cap, -1);
	heap_remove(&cap->blocked, &block->node);
	want_for(cap);
	if (!is_full(cap))
		share_wake_first(&cap->share);
	/* Idle servers of it in other loops, which it wanted itself, may leave for others. */
	if (is_short(cap))
		share_wake_others(&cap->share);
}

/* One that was unblocked, and found another loop faster, has waited longer than the others. */
static void block_pool(struct pool *pool, struct cap *cap, unsigned int needed)
{
	struct pool_block *block = &pool->block;
	bool is_again = block->is_refused; /* in this turn, for another kind of borrower */
	const struct claim_pool has = what_it_has(pool);

	block->is_refused = true;
	if (block->cap == cap) {
		if (!is_again || needed > block->needed)
			block->needed = needed;
		claim_again(pool);
		return;
	}
	if (!block->is_unblocked && !pool_is_blocked(pool))
		begin_to_claim(pool);
	pool_leave_blocked(pool);
	block->node.key = claim_rank(&has);
	if (!heap_add(&cap->blocked, &block->node)) {
		log_error(&pool->log, "no memory to wait for %s", pool_cap_setting(cap->kind));
		return;
	}
	block->cap = cap;
	block->needed = needed;
	TAILQ_INSERT_TAIL(&pool->pools->claiming, pool, claiming);
	count_blocked(cap, 1);
	cap->hits += !block->is_unblocked;
	if (want_for(cap))
		pool_wake(pool);
	note_met(pool, cap);
}

/* The owner, a database or user, has what it is guaranteed, or does not have it any more. */
static bool may_be_owed(const struct cap *owner)
{
	return owner->guaranteed && share_servers(&owner->share) <= owner->guaranteed;
}

/* However many pools there are: only those that claim something are looked at. */
static void claim_for(struct pools *pools, const struct cap *owner)
{
	struct pool *pool;

	TAILQ_FOREACH (pool, &pools->claiming, claiming) {
		if (owner == &pool->database->cap || owner == &pool->role->cap)
			claim_again(pool);
	}
}

static void note_change_of(struct pools *pools, struct cap *owner)
{
	if (!may_be_owed(owner))
		return;
	claim_for(pools, owner);
	share_wake_others(&owner->share);
}

/* A server more or less: what other pools of its owners claim may have changed, in all loops. */
static void note_change(struct pool *pool)
{
	claim_again(pool);
	note_change_of(pool->pools, &pool->database->cap);
	note_change_of(pool->pools, &pool->role->cap);
}

/* ---- permits ---- */

static struct claim claim_of(const struct pool *pool)
{
	const struct claim_pool has = what_it_has(pool);

	return (struct claim){
		.rank = claim_rank(&has),
		.since = pool_is_blocked(pool) || pool->block.is_unblocked ? pool->block.since
		                                                           : pool_now(pool),
	};
}

static struct permit_ask ask_for(struct pool *pool, struct cap_host *host, unsigned int most)
{
	struct permit_ask ask = { .pool = most ? &pool->share : NULL, .pool_most = most };

	for (int i = 0; i < CAPS; i++) {
		struct cap *cap = cap_of(pool, host, (enum cap_kind)i);

		ask.caps[i] = cap ? &cap->share : NULL;
		ask.most[i] = cap ? most_of(cap->limit) : 0;
	}
	return ask;
}

static struct permit_ask ask_at(struct cap_host *host)
{
	return (struct permit_ask){
		.caps = { [CAP_HOST] = &host->cap.share },
		.most = { [CAP_HOST] = most_of(host->cap.limit) },
	};
}

/* How many servers its waiting borrowers need, of those that it may have. */
static unsigned int needed_by(const struct pool *pool, unsigned int most, enum permit_for whom)
{
	unsigned int servers = share_servers(&pool->share), missing = pool_missing(pool);
	unsigned int space = most > servers ? most - servers : 1;

	if (whom != FOR_BORROWERS)
		return 0;
	return missing > space ? space : missing ? missing : 1;
}

/* Idle servers of this loop leave for it; those of others: pool_evict(). */
static bool make_space(struct pool *pool, enum permit permit, unsigned int needed)
{
	bool is_passed = permit >= PERMIT_PASSED;
	struct cap *cap = pool_cap(pool, permit - (is_passed ? PERMIT_PASSED : PERMIT_CAP_FULL));
	unsigned int counted = pool->block.cap == cap ? pool->block.counted : 0;

	if (!is_passed && needed > counted)
		evict(cap, needed - counted);
	if (!is_passed && needed && !is_full(cap))
		return true;
	block_pool(pool, cap, needed);
	if (is_passed)
		share_wake_first(&cap->share); /* what it claims may have changed */
	return false;
}

void pool_evict(struct pool *pool)
{
	struct pool_block *block = &pool->block;
	bool is_more = block->needed > block->counted;

	if (!block->cap || block->needed == block->counted)
		return;
	count_needed(block);
	evict(block->cap, 0);
	if (is_more && block->cap && is_short(block->cap))
		share_wake_others(&block->cap->share);
}

bool pool_take_permit(struct pool *pool, unsigned int most, enum permit_for whom)
{
	struct permit_ask ask = ask_for(pool, pool->block.wanted_host, most);
	unsigned int needed = needed_by(pool, most, whom);
	enum permit permit;

	/* Somebody may wait for what it was refused before. */
	if (whom != FOR_MINIMUM || !pool->block.is_refused)
		pool->block.is_spare = whom == FOR_MINIMUM;
	ask.claim = claim_of(pool);
	while ((permit = broker_take(&ask)) != PERMIT_GRANTED) {
		if (permit == PERMIT_POOL_FULL || !make_space(pool, permit, needed))
			return false;
	}
	pool_leave_blocked(pool);
	note_change(pool);
	return true;
}

void pool_take_permit_anyway(struct pool *pool, bool is_listening)
{
	struct permit_ask ask =
	    ask_for(pool, NULL, is_listening ? PERMIT_FOR_LISTENING : PERMIT_NO_LIMIT);

	for (int i = 0; i < CAPS; i++)
		ask.most[i] = PERMIT_NO_LIMIT;
	broker_take(&ask);
}

static bool is_blocked_at_host(const struct pool *pool)
{
	return pool_is_blocked(pool) && pool->block.cap->kind == CAP_HOST;
}

/* The host that the permit was for, held. While the pool waits for one, it has no permit there. */
static struct cap_host *take_wanted(struct pool *pool)
{
	struct cap_host *host = pool->block.wanted_host;

	if (is_blocked_at_host(pool))
		return NULL;
	pool->block.wanted_host = NULL;
	return host;
}

void pool_drop_permit(struct pool *pool, bool is_listening)
{
	struct cap_host *host = take_wanted(pool);
	struct permit_ask ask =
	    ask_for(pool, host, is_listening ? PERMIT_FOR_LISTENING : PERMIT_NO_LIMIT);

	broker_give(&ask);
	release_host(pool->pools, &host);
}

void pool_pass_permit(struct server *server)
{
	struct cap_host *host = take_wanted(server->pool);

	server->place.cap_host = host;
	if (host)
		share_wake_first(&host->cap.share); /* as pool_pass_on() for the other caps */
}

static struct permit_ask ask_of(const struct server *server)
{
	return ask_for(server->pool, server->place.cap_host,
	               server->is_listening ? PERMIT_FOR_LISTENING : PERMIT_NO_LIMIT);
}

void pool_pack_permit(const struct server *server, struct packed_permit *packed)
{
	struct permit_ask ask = ask_of(server);

	broker_pack_permit(&ask, packed);
}

void pool_count_leaving(struct server *server, int change)
{
	struct permit_ask ask = ask_of(server);

	broker_count_leaving(&ask, change);
}

void pool_give_permit(struct server *server)
{
	struct permit_ask ask = ask_of(server);

	if (server->place.going != SERVER_MOVES)
		broker_give(&ask);
	release_host(server->pool->pools, &server->place.cap_host);
	note_change(server->pool);
}

/* ---- the permit of the host ---- */

static void give_host(struct server *server)
{
	struct permit_ask ask;

	if (!server->place.cap_host)
		return;
	ask = ask_at(server->place.cap_host);
	broker_give(&ask);
	release_host(server->pool->pools, &server->place.cap_host);
}

bool pool_may_connect(struct server *server)
{
	struct pool *pool = server->pool;
	struct cap_host *host = host_of(pool->pools, server);
	struct permit_ask ask;

	if (!host || host == server->place.cap_host) {
		release_host(pool->pools, &host);
		return true;
	}
	give_host(server);
	ask = ask_at(host);
	ask.claim = claim_of(pool);
	if (broker_take(&ask) == PERMIT_GRANTED) {
		server->place.cap_host = host;
		return true;
	}
	/* The pool asks for the address in advance from now on, and for what it needs there. */
	if (!pool->block.wanted_host) {
		pool->block.wanted_host = hold_host(host);
		if (!pool_is_blocked(pool))
			block_pool(pool, &host->cap, 0);
	}
	release_host(pool->pools, &host);
	return false;
}

void pool_note_host(struct server *server, bool has_permit)
{
	struct cap_host *host = host_of(server->pool->pools, server);
	struct permit_ask ask;

	if (host && !has_permit) {
		ask = ask_at(host);
		ask.most[CAP_HOST] = PERMIT_NO_LIMIT;
		broker_take(&ask);
		atomic_fetch_add(&host->cap.share.tally->allowed, 1);
		limit_host(server->pool->pools, host);
	}
	server->place.cap_host = host;
}

void pool_note_slots(struct server *server, unsigned int count)
{
	struct cap_host *host = server->place.cap_host;

	if (!host || atomic_exchange(&host->cap.share.tally->granted, count) == count)
		return;
	limit_host(server->pool->pools, host);
	log_info(&server->log, "PostgreSQL grants %u sessions: max_host_connections is %d for %s",
	         count, host->cap.limit, host->name);
	share_wake_others(&host->cap.share);
	share_wake_first(&host->cap.share);
}

/* ---- host watches: they count, and no limit keeps them from their host ---- */

void pools_count_watch(struct pools *pools, struct server *server, bool is_counted)
{
	struct cap_host *host = is_counted ? host_of(pools, server) : server->place.cap_host;
	struct permit_ask ask = {
		.caps = { [CAP_HOST] = host ? &host->cap.share : NULL,
		          [CAP_ALL] = &pools->cap.share },
		.most = { [CAP_HOST] = PERMIT_NO_LIMIT, [CAP_ALL] = PERMIT_NO_LIMIT },
	};

	if (!host)
		return;
	if (is_counted) {
		broker_take(&ask);
		server->place.cap_host = host;
	} else {
		broker_give(&ask);
		release_host(pools, &server->place.cap_host);
	}
}

/* ---- what others may use ---- */

/* This loop looks for idle servers that may leave, but not before the end of this turn. */
static void offer(struct cap *cap)
{
	if (cap && is_short(cap))
		share_wake_own(&cap->share);
}

static void offer_hosts(const struct server_list *resting)
{
	const struct server *server;

	TAILQ_FOREACH (server, resting, place.node)
		offer(server_cap(server, CAP_HOST));
}

void pool_help_others(const struct pool *pool)
{
	offer(&pool->database->cap);
	offer(&pool->role->cap);
	offer(&pool->pools->cap);
	/* A walk over all idle servers, at each return of one. */
	if (pool->pools->config->max_host_connections) {
		offer_hosts(&pool->servers[SERVER_IDLE]);
		offer_hosts(&pool->servers[SERVER_USED]);
	}
}

bool pool_is_wanted(const struct server *server)
{
	for (int i = 0; i < CAPS; i++) {
		const struct cap *cap = server_cap(server, (enum cap_kind)i);

		if (cap && share_want_count(&cap->share))
			return true;
	}
	return share_want_count(&server->pool->share);
}

/*
 * ---- giving up a server ----
 *
 * While clients of a pool wait, its servers are never idle for long, so nobody would evict them.
 */

#define YIELD_AFTER USEC_PER_MS /* a look takes the lock of the broker */

static bool yields(struct pool *pool, struct server *server, const struct claim_pool *has)
{
	usec_t age = pool_now(pool) - server->connected_at;

	for (int i = CAPS - 1; i >= 0; i--) {
		struct cap *cap = server_cap(server, (enum cap_kind)i);
		struct claim claim;

		if (!cap || age < CLAIM_TURN ||
		    share_leaving(&cap->share) >= share_blocked(&cap->share) ||
		    !share_first_claim(&cap->share, &claim) || !claim_takes(&claim, has, age))
			continue;
		pool_leave_blocked(pool);
		begin_to_claim(pool);
		/* Without this server, its owners may be owed one at once, and others not yet. */
		share_favour_first(&cap->share);
		server_close_for(server, kinds[i].evicted);
		return true;
	}
	return false;
}

void pool_yield(struct pool *pool)
{
	const struct claim_pool has = what_it_has(pool);
	usec_t now = pool_now(pool);
	struct server *server;

	if (now - pool->yield_at < YIELD_AFTER)
		return;
	pool->yield_at = now;
	TAILQ_FOREACH (server, &pool->servers[SERVER_IDLE], place.node) {
		if (yields(pool, server, &has))
			return;
	}
}

/* The last server of a host must not take its cap away meanwhile. */
static struct cap_host *hold_cap(struct cap *cap)
{
	return cap->kind == CAP_HOST ? hold_host(container_of(cap, struct cap_host, cap)) : NULL;
}

/* Woken only once for several permits: without a blocked pool it tells the next share. */
static void hear(struct pools *pools, struct cap *cap)
{
	struct cap_host *held = hold_cap(cap);
	struct share *share = &cap->share;
	struct pool *first;

	if (held)
		limit_host(pools, held);
	if (may_be_owed(cap))
		claim_for(pools, cap);
	first = first_blocked(cap);
	/* It keeps its place and its want until it has tried: a new want would wake all loops. */
	if (first) {
		first->block.is_unblocked = true;
		pool_wake(first);
	}
	evict(cap, 0);
	if (!cap->blocked.count && !is_full(cap))
		share_wake_first(share);
	release_host(pools, &held);
}

void pool_cap_woken(struct share *share)
{
	struct pools *pools = container_of(share->member, struct pools, member);

	hear(pools, container_of(share, struct cap, share));
}

void pool_database_woken(struct share *share)
{
	struct database *database = container_of(share, struct database, cap.share);

	pool_catalog_look(database);
	vacancy_hear(database);
	hear(database->pools, &database->cap);
}

void pool_pass_on(struct pool *pool)
{
	struct pool_block *block = &pool->block;
	bool was_unblocked = block->is_unblocked;

	block->is_unblocked = false;
	if (!block->is_refused)
		pool_leave_blocked(pool);
	for (int i = 0; was_unblocked && i < CAPS; i++) {
		struct cap *cap = pool_cap(pool, (enum cap_kind)i);

		if (cap && cap != block->cap)
			share_wake_first(&cap->share);
	}
	if (!is_blocked_at_host(pool))
		release_host(pool->pools, &block->wanted_host);
}
