/* SPDX-License-Identifier: ISC */
/*
 * The limits on servers that several pools share: of a database, of a role, of one address of
 * PostgreSQL, and of the process.
 *
 * If such a limit is reached, the longest unused idle servers of other pools are evicted, side by
 * side, in this loop or else in others: as many as the blocked pools need. A pool is blocked until
 * PostgreSQL has ended such a session; or, without an idle server, until one that counts there is
 * returned or closed. Blocked pools are served in the order of their claims, in all loops;
 * and nobody passes them: a permit is refused while another claim comes before (permits.c).
 *
 * Hard here: the address is known only when the host was chosen and its name looked up, and the
 * server has its other permits by then. If the address is full, the server is closed, and the pool
 * asks for that address in advance from then on, together with the rest.
 */
#include "pool_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

struct cap *pool_blocked_by(const struct pool *pool)
{
	const struct tally *cap = pool->block.claim.cap;

	return cap ? cap_of(pool, pool->block.wanted_host, cap->kind - TALLY_DATABASE) : NULL;
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
	share_close(&host->cap.share);
	free(host);
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
	permit_set_limit(&host->cap.share, pools->config->max_host_connections, 0);
	TABLE_ADD(hh, &pools->secret, pools->host_table, host->name, name.count, host);
	return host;
}

struct cap_host *pools_find_cap_host(const struct pools *pools, const char *name)
{
	return TABLE_GET(hh, &pools->secret, pools->host_table, name, strlen(name));
}

/* Where a server that does not count there yet is, by address; held. NULL: not known, no memory. */
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
	return host && host != server->place.cap_host ? hold_host(host) : NULL;
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

	permit_set_limit(&pools->cap.share, config->max_server_connections, 0);
	HASH_ITER (hh, pools->host_table, host, next)
		permit_set_limit(&host->cap.share, config->max_host_connections, 0);
	pools->is_capped = config->max_server_connections || config->max_host_connections;
	if (pools->is_capped == was_capped)
		return;
	TAILQ_EACH (server, &pools->servers, place.all_node) {
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

/*
 * Idle servers of this loop leave side by side, until the cap has space for what the pools need
 * that it blocks, in any loop: PostgreSQL may end each session late.
 */
static void evict(struct cap *cap)
{
	struct server *server;

	while (tally_is_short(cap->share.tally) && (server = find_idle(cap)) &&
	       permit_begin_eviction(&cap->share)) {
		server_close_for(server, kinds[cap->kind].evicted);
		permit_end_eviction(&cap->share);
	}
}

/* ---- blocked pools ---- */

static void note_met(struct pool *pool, const struct cap *cap)
{
	char counted[sizeof("the servers of host ") + CAP_HOST_NAME_MAX] = "the servers";
	const struct limit_event event = {
		.limit = pool_cap_setting(cap->kind),
		.value = (int)cap->share.tally->most,
		.counted = counted,
		.database = cap->kind == CAP_DATABASE ? pool->database->name : NULL,
		.user = cap->kind == CAP_ROLE ? pool->role->name : NULL,
	};

	if (cap->kind == CAP_HOST)
		snprintf(counted, sizeof(counted), "the servers of host %s",
		         pool->block.wanted_host->name);
	limit_event_note(&cap->share.tally->servers_met, pool_now(pool), pool->log.log, &event);
}

/* A permit was refused. former: by this cap, or another one, it was blocked before. */
static void note_refusal(struct pool *pool, struct cap *cap, const struct tally *former,
                         bool is_new)
{
	struct pool_block *block = &pool->block;

	block->is_refused = true;
	if (!block->claim.cap)
		log_error(&pool->log, "no memory to wait for %s", pool_cap_setting(cap->kind));
	if (block->claim.cap == former)
		return;
	cap->hits += is_new;
	note_met(pool, cap);
}

/* ---- permits ---- */

static struct permit_ask ask_for(struct pool *pool, struct cap_host *host, unsigned int most)
{
	struct permit_ask ask = {
		.permit.of[OF_POOL] = most ? pool->share.tally : NULL,
		.most = most ? most : PERMIT_NO_LIMIT,
		.claimant = &pool->block.claim,
		.is_spare = pool->block.claim.is_spare,
		.waits = true,
	};

	for (int i = 0; i < CAPS; i++) {
		const struct cap *cap = cap_of(pool, host, (enum cap_kind)i);

		ask.permit.of[OF_CAPS + i] = cap ? cap->share.tally : NULL;
	}
	return ask;
}

bool pool_take_permit(struct pool *pool, unsigned int most, enum permit_for whom,
                      struct permit *permit)
{
	struct pool_block *block = &pool->block;
	const struct tally *former = block->claim.cap;
	bool is_new = former || !block->claim.node.order;
	struct permit_ask ask = ask_for(pool, block->wanted_host, most);
	enum permit_answer answer;
	struct cap *cap;

	if (whom == FOR_BORROWERS && most != PERMIT_FOR_LISTENING)
		ask.needed = pool_missing(pool);
	if (whom == FOR_BORROWERS && !ask.needed)
		ask.needed = 1;
	/* Somebody may wait for what it was refused before, in this turn. */
	if (whom != FOR_MINIMUM || !block->is_refused)
		ask.is_spare = whom == FOR_MINIMUM;
	if (block->is_refused && ask.needed < block->claim.needed)
		ask.needed = block->claim.needed;
	do {
		answer = permit_take(&ask, &pool->pools->member);
		if (answer == PERMIT_GRANTED) {
			*permit = ask.permit;
			return true;
		}
		if (answer == PERMIT_POOL_FULL)
			return false;
		cap = cap_of(pool, block->wanted_host, (answer - PERMIT_CAP_FULL) % CAPS);
		if (answer >= PERMIT_PASSED || whom != FOR_BORROWERS)
			break;
		evict(cap); /* in this loop; in others: pool_make_way() */
	} while (share_servers(&cap->share) < share_most(&cap->share));
	note_refusal(pool, cap, former, is_new);
	return false;
}

struct permit pool_take_permit_anyway(struct pool *pool, bool is_listening)
{
	struct permit_ask ask =
	    ask_for(pool, NULL, is_listening ? PERMIT_FOR_LISTENING : PERMIT_NO_LIMIT);

	permit_add(&ask.permit, &pool->pools->member);
	return ask.permit;
}

void pool_pass_permit(struct server *server, struct permit *permit)
{
	struct pool_block *block = &server->pool->block;
	struct cap_host *host = block->wanted_host;

	server->place.permit = permit_move(permit);
	/* While the pool waits for it, the permit is that of a server from another loop. */
	if (!host || host->cap.share.tally != server->place.permit.of[OF_HOST] ||
	    block->claim.cap == host->cap.share.tally)
		return;
	server->place.cap_host = host; /* and holds it */
	block->wanted_host = NULL;
}

void pools_give_permit(struct pools *pools, struct server *server)
{
	permit_give(&server->place.permit, &pools->member);
	release_host(pools, &server->place.cap_host);
}

/* ---- the permit of the host ---- */

static void give_host(struct server *server)
{
	struct permit *permit = &server->place.permit;
	struct permit of_host = { .of[OF_HOST] = permit->of[OF_HOST] };

	permit->of[OF_HOST] = NULL;
	permit_give(&of_host, &server->pool->pools->member);
	release_host(server->pool->pools, &server->place.cap_host);
}

/* The server counts there from now on, and holds the host. */
static void settle_at(struct server *server, struct cap_host *host)
{
	server->place.permit.of[OF_HOST] = host->cap.share.tally;
	server->place.cap_host = host;
}

bool pool_may_connect(struct server *server)
{
	struct pool *pool = server->pool;
	struct cap_host *host = host_of(pool->pools, server);
	struct pool_block *block = &pool->block;
	struct permit_ask ask = {
		.claimant = &block->claim,
		.is_spare = block->claim.is_spare,
		.waits = !block->wanted_host && !pool_is_blocked(pool),
	};

	if (!host)
		return true;
	give_host(server);
	ask.permit.of[OF_HOST] = host->cap.share.tally;
	if (permit_take(&ask, &pool->pools->member) == PERMIT_GRANTED) {
		settle_at(server, host);
		return true;
	}
	/* The pool asks for the address in advance from now on, and for what it needs there. */
	if (!block->wanted_host)
		block->wanted_host = hold_host(host);
	if (ask.waits)
		note_refusal(pool, &host->cap, NULL, true);
	release_host(pool->pools, &host);
	return false;
}

void pools_note_host(struct pools *pools, struct server *server)
{
	struct cap_host *host = host_of(pools, server);
	struct permit *permit = &server->place.permit, there = { 0 };

	if (!host)
		return;
	there.of[OF_HOST] = host->cap.share.tally;
	if (server->site->is_watch) /* no limit keeps it from its host */
		permit->of[OF_ALL] = there.of[OF_ALL] = pools->cap.share.tally;
	if (!permit->of[OF_HOST])
		permit_add(&there, &pools->member);
	settle_at(server, host);
}

void pool_note_slots(struct server *server, unsigned int count)
{
	struct cap_host *host = server->place.cap_host;

	if (!host || !permit_note_granted(&host->cap.share, count))
		return;
	log_info(&server->log, "PostgreSQL grants %u sessions: max_host_connections is %d for %s",
	         count, (int)host->cap.share.tally->most, host->name);
}

/* ---- what others may use ---- */

/* This loop looks for idle servers that may leave, but not before the end of this turn. */
static void offer(struct cap *cap)
{
	if (tally_is_short(cap->share.tally))
		share_wake_own(&cap->share);
}

/*
 * Idle servers of all loops leave for what a cap keeps from the pool. When the other loops know
 * what it wants: an idle server of the same pool rather moves.
 */
static void evict_for(struct pool *pool)
{
	struct cap *cap = pool_blocked_by(pool);

	if (!cap || !pool->block.claim.needs_more)
		return;
	pool->block.claim.needs_more = false;
	evict(cap);
	if (tally_is_short(cap->share.tally))
		share_wake_others(&cap->share);
}

/* Of the hosts where the pool has such servers: mostly one. */
static void offer_hosts(const struct pool *pool, enum server_state state)
{
	const struct cap_host *last = NULL;

	TAILQ_EACH (server, &pool->servers[state], place.node) {
		struct cap_host *host = server->place.cap_host;

		if (host && host != last)
			offer(&host->cap);
		last = host;
	}
}

void pool_make_way(struct pool *pool)
{
	evict_for(pool);
	if (pool->queues[BORROWER_WAITING].count || !pool->pools->with.broker->blocked_count ||
	    !(pool->server_counts[SERVER_IDLE] || pool->server_counts[SERVER_USED]))
		return;
	/* Its borrowers have left, or got another: another pool may use the slot. */
	offer(&pool->database->cap);
	offer(&pool->role->cap);
	offer(&pool->pools->cap);
	if (!pool->pools->config->max_host_connections)
		return;
	offer_hosts(pool, SERVER_IDLE);
	offer_hosts(pool, SERVER_USED);
}

bool pool_is_claimed(const struct server *server)
{
	for (int i = 0; i < CAPS; i++) {
		const struct cap *cap = server_cap(server, (enum cap_kind)i);

		if (cap && cap->share.tally->blocked_count)
			return true;
	}
	return false;
}

/*
 * ---- giving up a server ----
 *
 * While clients of a pool wait, its servers are never idle for long, so nobody would evict them.
 */

#define YIELD_AFTER USEC_PER_MS /* a look takes the lock of the broker */

static bool yields(struct pool *pool, struct server *server)
{
	usec_t age = pool_now(pool) - server->connected_at;

	for (int i = CAPS - 1; i >= 0; i--) {
		struct cap *cap = server_cap(server, (enum cap_kind)i);

		if (!cap || age < CLAIM_TURN || !cap->share.tally->blocked_count ||
		    !permit_yields(&cap->share, &pool->block.claim, age))
			continue;
		permit_leave_queue(&pool->block.claim);
		pool->block.claim.node.order = 0; /* it is the last among equals from now on */
		server_close_for(server, kinds[i].evicted);
		return true;
	}
	return false;
}

void pool_yield(struct pool *pool)
{
	usec_t now = pool_now(pool);

	if (now - pool->yield_at < YIELD_AFTER || !pool->pools->with.broker->blocked_count)
		return;
	pool->yield_at = now;
	TAILQ_EACH (server, &pool->servers[SERVER_IDLE], place.node) {
		if (yields(pool, server))
			return;
	}
}

/* Another loop needs space. The last server of a host does not take away the cap that is used. */
static void hear(struct pools *pools, struct cap *cap)
{
	struct cap_host *host =
	    cap->kind == CAP_HOST ? hold_host(container_of(cap, struct cap_host, cap)) : NULL;

	evict(cap);
	release_host(pools, &host);
}

static void on_cap_woken(struct share *share)
{
	struct pools *pools = container_of(share->member, struct pools, member);

	hear(pools, container_of(share, struct cap, share));
}

static void on_database_woken(struct share *share)
{
	struct database *database = container_of(share, struct database, cap.share);

	vacancy_hear(database);
	hear(database->pools, &database->cap);
}

bool pool_cap_open(struct cap *cap, struct pools *pools, enum cap_kind kind, const char *name)
{
	cap->kind = kind;
	cap->share.on_woken = kind == CAP_DATABASE ? on_database_woken : on_cap_woken;
	TAILQ_INIT(&cap->idle);
	return share_open(&cap->share, &pools->member, TALLY_DATABASE + kind, name, "");
}

static bool is_blocked_at_host(const struct pool *pool)
{
	return pool_is_blocked(pool) && pool->block.claim.cap->kind == TALLY_HOST;
}

void pool_forget_host(struct pool *pool)
{
	if (is_blocked_at_host(pool))
		permit_leave_queue(&pool->block.claim);
	release_host(pool->pools, &pool->block.wanted_host);
}

void pool_pass_on(struct pool *pool)
{
	struct pool_block *block = &pool->block;

	if (!block->is_refused)
		permit_leave_queue(&block->claim);
	if (!block->claim.cap)
		block->claim.node.order = 0;
	if (!is_blocked_at_host(pool))
		release_host(pool->pools, &block->wanted_host);
}
