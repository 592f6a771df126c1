/* SPDX-License-Identifier: ISC */
/*
 * Shares, their tallies, and permits: see broker.h.
 *
 * Hard here: a share belongs to a loop, and only that loop may close it, so another loop may use it
 * only while it holds the lock. on_woken() is called without the lock, in the share's own loop.
 */
#include "broker_priv.h"

#include <stdlib.h>

#include "pgweir/base/bytes.h"

/* Wakes the shares of all other loops. */
static void post_others(const struct tally *tally, const struct broker_member *except)
{
	struct share *share;

	assert_locked(&except->broker->lock);
	TAILQ_FOREACH (share, &tally->shares, node) {
		if (share->member != except)
			broker_post_woken(share);
	}
}

/* ---- tallies ---- */

/* Takes the name. */
static struct tally *make_tally(struct broker *broker, enum tally_kind kind, struct buf *name)
{
	struct tally *tally = calloc(1, sizeof(*tally));

	assert_locked(&broker->lock);
	if (!tally)
		return NULL;
	tally->kind = kind;
	tally->name = *name;
	*name = (struct buf){ 0 };
	TAILQ_INIT(&tally->shares);
	TAILQ_INIT(&tally->wants);
	hosts_init(&tally->hosts, &broker->reach);
	outages_init(&tally->outages);
	TABLE_ADD(hh, &broker->secret, broker->tallies, tally->name.at, tally->name.count, tally);
	return tally;
}

static void free_tally(struct broker *broker, struct tally *tally)
{
	HASH_DEL(broker->tallies, tally);
	buf_free(&tally->name);
	buf_free(&tally->welcome);
	buf_free(&tally->baseline);
	cluster_part(broker, tally);
	hosts_done(&tally->hosts);
	outages_done(&tally->outages);
	credentials_done(&tally->shown);
	catalog_reading_release(&tally->reading);
	free(tally->sizing);
	free(tally);
}

bool share_open(struct share *share, struct broker_member *member, enum tally_kind kind,
                const char *first, const char *second)
{
	struct broker *broker = member->broker;
	LOCKED(&broker->lock);
	struct buf name = { 0 };
	struct tally *tally = NULL;

	buf_add_byte(&name, (char)kind);
	buf_add_cstr(&name, first);
	buf_add_text(&name, second);
	if (buf_ok(&name)) {
		TABLE_FIND(hh, &broker->secret, broker->tallies, name.at, name.count, tally);
		if (!tally)
			tally = make_tally(broker, kind, &name);
	}
	if (tally) {
		share->tally = tally;
		share->member = member;
		TAILQ_INSERT_TAIL(&tally->shares, share, node);
		tally->owner_count++;
	}
	buf_free(&name);
	return tally != NULL;
}

static void drop_tally(struct broker *broker, struct tally *tally)
{
	assert_locked(&broker->lock);
	if (--tally->owner_count == 0)
		free_tally(broker, tally);
}

static usec_t wanted_since(const struct share *share)
{
	return atomic_load_explicit(&share->wanted_since, memory_order_relaxed);
}

/* Called with the lock held. There are as many wants as loops at most. NULL: there is none. */
static struct share *longest_wanting(const struct tally *tally)
{
	struct share *longest = NULL, *share;
	struct claim first = { 0 }, claim;

	TAILQ_FOREACH (share, &tally->wants, want_node) {
		claim = share_claim(share);
		if (longest && !claim_is_before(&claim, &first))
			continue;
		longest = share;
		first = claim;
	}
	return longest;
}

/*
 * What a pool may use now wakes all loops that want it: one that is
 * served in the meantime does not tell the others. Pools within a cap do, one after the
 * other: the first claim comes first. Returns the share of this loop if it is to be woken, too.
 */
static struct share *post_waiting(const struct tally *tally, const struct broker_member *here)
{
	bool is_for_all = tally->kind <= TALLY_READS_POOL;
	const struct share *first = is_for_all ? NULL : longest_wanting(tally);
	struct share *share, *own = NULL;

	assert_locked(&here->broker->lock);
	TAILQ_FOREACH (share, &tally->wants, want_node) {
		if (!is_for_all && share != first)
			continue;
		if (share->member == here)
			own = share;
		else
			broker_post_woken(share);
	}
	return own;
}

static void stop_wanting(struct share *share)
{
	assert_locked(&share->member->broker->lock);
	if (!share_is_wanting(share))
		return;
	TAILQ_REMOVE(&share->tally->wants, share, want_node);
	atomic_store_explicit(&share->is_wanting, false, memory_order_relaxed);
	atomic_fetch_sub_explicit(&share->tally->want_count, 1, memory_order_relaxed);
}

void share_close(struct share *share)
{
	struct tally *tally = share->tally;

	if (!tally)
		return;
	LOCKED(&share->member->broker->lock);
	stop_wanting(share);
	if (share->is_woken)
		TAILQ_REMOVE(&share->member->woken, share, woken_node);
	share->is_woken = false;
	TAILQ_REMOVE(&tally->shares, share, node);
	drop_tally(share->member->broker, tally);
	share->tally = NULL;
}

void share_set_cluster(struct share *share, struct cluster *cluster)
{
	struct broker *broker = share->member->broker;
	struct tally *tally = share->tally;

	pthread_mutex_lock(&broker->lock);
	/* Another loop may have made the same pool just now, and uses its cluster already. */
	if (tally->cluster != cluster) {
		cluster_part(broker, tally);
		cluster_join(broker, tally, cluster);
		cluster = NULL;
	}
	pthread_mutex_unlock(&broker->lock);
	clusters_release(broker, &cluster);
}

/* ---- clients and pins ---- */

unsigned int share_add_client(struct share *share)
{
	return atomic_fetch_add_explicit(&share->tally->client_count, 1, memory_order_relaxed) + 1;
}

void share_remove_client(struct share *share)
{
	atomic_fetch_sub_explicit(&share->tally->client_count, 1, memory_order_relaxed);
}

bool share_pin(struct share *share, unsigned int most)
{
	return broker_count_below(&share->tally->pinned_count, most);
}

void share_unpin(struct share *share) { atomic_fetch_sub(&share->tally->pinned_count, 1); }

/* ---- wants ---- */

/* It must not want anything yet. */
static void start_wanting(struct share *share)
{
	assert_locked(&share->member->broker->lock);
	TAILQ_INSERT_TAIL(&share->tally->wants, share, want_node);
	atomic_store_explicit(&share->is_wanting, true, memory_order_relaxed);
	atomic_fetch_add(&share->tally->want_count, 1);
	atomic_fetch_add_explicit(&share->tally->want_number, 1, memory_order_relaxed);
}

static void set_want(struct share *share, usec_t since, unsigned int count)
{
	atomic_store_explicit(&share->wanted_since, since, memory_order_relaxed);
	atomic_store_explicit(&share->wanted_count, count, memory_order_relaxed);
}

bool share_is_alone(const struct share *share)
{
	return share->member->broker->loop_count < 2 && share->tally->kind <= TALLY_READS_POOL;
}

bool share_want(struct share *share, usec_t since, unsigned int count)
{
	struct broker *broker = share->member->broker;
	bool is_new = false;

	if (share_is_alone(share) || (!count && !share_is_wanting(share)))
		return false;
	if (count && share_is_wanting(share)) {
		/* No lock: a promise may end the want; this is posted when that server comes. */
		set_want(share, since, count);
		return false;
	}
	LOCKED(&broker->lock);
	set_want(share, since, count);
	if (!count) {
		stop_wanting(share);
	} else if (!share_is_wanting(share)) {
		start_wanting(share);
		post_others(share->tally, share->member);
		is_new = broker->loop_count > 1;
	}
	return is_new;
}

bool share_has_new_want(struct share *share)
{
	unsigned int number =
	    atomic_load_explicit(&share->tally->want_number, memory_order_relaxed);
	bool is_new = number != share->seen_number;

	share->seen_number = number;
	return is_new;
}

void share_wake_own(struct share *share)
{
	LOCKED(&share->member->broker->lock);
	broker_post_woken(share);
}

void share_wake_others(struct share *share)
{
	LOCKED(&share->member->broker->lock);
	post_others(share->tally, share->member);
}

unsigned int share_vacate(struct share *share)
{
	unsigned int count = atomic_fetch_add(&share->tally->vacated, 1) + 1;

	share_wake_others(share);
	return count;
}

void share_wake_pools(struct broker_member *member)
{
	struct broker *broker = member->broker;

	if (broker->loop_count < 2)
		return;
	LOCKED(&broker->lock);
	for (const struct tally *tally = broker->tallies; tally; tally = tally->hh.next) {
		if (tally->kind <= TALLY_LOOKUP_POOL)
			post_others(tally, member);
	}
}

void share_tell_load(struct share *share, uint64_t demand, unsigned int servers)
{
	atomic_store_explicit(&share->demand, demand, memory_order_relaxed);
	atomic_store_explicit(&share->servers, servers, memory_order_relaxed);
}

/* Whether `other` would still not have more than its part of the servers with one of `share`. */
static bool has_less(const struct share *other, const struct share *share)
{
	uint64_t demand = atomic_load_explicit(&other->demand, memory_order_relaxed);
	uint64_t servers = atomic_load_explicit(&other->servers, memory_order_relaxed);
	uint64_t own = atomic_load_explicit(&share->servers, memory_order_relaxed);

	return own > 1 &&
	       demand * (own - 1) >= (servers + share_promised(other) + 1) *
	                                 atomic_load_explicit(&share->demand, memory_order_relaxed);
}

static bool is_served(const struct share *other, const struct share *share,
                      const struct share_fair *fair)
{
	bool has_any =
	    atomic_load_explicit(&other->servers, memory_order_relaxed) || share_promised(other);

	return other != share &&
	       (!fair || wanted_since(other) < (has_any ? fair->before : fair->before_any) ||
	        has_less(other, share));
}

/* The longest waiting one of those that are served. NULL: there is none. */
static struct share *first_served(const struct share *share, const struct share_fair *fair)
{
	struct share *first = NULL, *other;

	assert_locked(&share->member->broker->lock);
	TAILQ_FOREACH (other, &share->tally->wants, want_node) {
		if ((!first || wanted_since(other) < wanted_since(first)) &&
		    is_served(other, share, fair))
			first = other;
	}
	return first;
}

usec_t share_asked_since(const struct share *share)
{
	const struct share *first;

	if (!share_is_asked(share))
		return 0;
	LOCKED(&share->member->broker->lock);
	first = longest_wanting(share->tally);
	return first ? wanted_since(first) : 0;
}

bool share_first_claim(const struct share *share, struct claim *claim)
{
	LOCKED(&share->member->broker->lock);
	const struct share *first = longest_wanting(share->tally);

	if (first)
		*claim = share_claim(first);
	return first != NULL;
}

void share_favour_first(struct share *share)
{
	LOCKED(&share->member->broker->lock);
	struct share *first = longest_wanting(share->tally);

	if (first)
		atomic_store_explicit(&first->wanted_rank, 0, memory_order_relaxed);
}

struct broker_member *share_promise(struct share *share, const struct share_fair *fair)
{
	struct broker_member *to = NULL;
	struct share *first;

	if (!share_is_asked(share))
		return NULL;
	LOCKED(&share->member->broker->lock);
	first = first_served(share, fair);
	if (first) {
		to = first->member;
		atomic_fetch_add_explicit(&first->promised_count, 1, memory_order_relaxed);
		if (atomic_fetch_sub_explicit(&first->wanted_count, 1, memory_order_relaxed) == 1)
			stop_wanting(first);
	}
	return to;
}

/* The share of the loop that was promised one. NULL: it was closed. */
static struct share *settle_promise(struct tally *tally, const struct broker_member *to)
{
	struct share *share;

	assert_locked(&to->broker->lock);
	TAILQ_FOREACH (share, &tally->shares, node) {
		if (share->member == to)
			break;
	}
	/* A share opened after the promise was promised nothing. */
	if (share && share_promised(share))
		atomic_fetch_sub_explicit(&share->promised_count, 1, memory_order_relaxed);
	return share;
}

/* Nobody is woken: it was tried just now. */
void share_unpromise(struct share *share, struct broker_member *to)
{
	LOCKED(&share->member->broker->lock);
	struct share *other = settle_promise(share->tally, to);

	if (other && share_is_wanting(other)) {
		atomic_fetch_add_explicit(&other->wanted_count, 1, memory_order_relaxed);
	} else if (other) {
		atomic_store_explicit(&other->wanted_count, 1, memory_order_relaxed);
		start_wanting(other);
	}
}

void share_wake_first(struct share *share)
{
	struct share *own;

	if (!share_want_count(share))
		return;
	pthread_mutex_lock(&share->member->broker->lock);
	own = post_waiting(share->tally, share->member);
	pthread_mutex_unlock(&share->member->broker->lock);
	if (own)
		own->on_woken(own);
}

bool share_begin_eviction(struct share *share, unsigned int most, unsigned int more)
{
	LOCKED(&share->member->broker->lock);
	bool is_short = share_is_short(share, most, more);

	if (is_short)
		atomic_fetch_add_explicit(&share->tally->leaving_count, 1, memory_order_relaxed);
	return is_short;
}

void share_end_eviction(struct share *share, unsigned int most)
{
	LOCKED(&share->member->broker->lock);
	atomic_fetch_sub_explicit(&share->tally->leaving_count, 1, memory_order_relaxed);
	if (share_is_short(share, most, 0))
		post_others(share->tally, share->member);
}

/* ---- logins ---- */

bool share_begin_login(struct share *share, unsigned int most)
{
	return broker_count_below(&share->tally->login_count, most);
}

void share_end_login(struct share *share) { atomic_fetch_sub(&share->tally->login_count, 1); }

void share_wake_logins(struct share *share)
{
	/* Without a welcome, and after a failure, one loop tries for all. */
	if (!share->tally->has_welcome || share->tally->is_failing)
		share_wake_others(share);
	else
		share_wake_first(share);
}

/* ---- the welcome of a pool ---- */

void share_put_welcome(struct share *share, struct bytes welcome, struct bytes baseline)
{
	struct broker *broker = share->member->broker;
	struct tally *tally = share->tally;

	LOCKED(&broker->lock);
	if (broker->loop_count > 1 && !tally->has_welcome) {
		buf_clear(&tally->welcome);
		buf_clear(&tally->baseline);
		buf_add(&tally->welcome, welcome.at, welcome.count);
		buf_add(&tally->baseline, baseline.at, baseline.count);
		tally->has_welcome = buf_ok(&tally->welcome) && buf_ok(&tally->baseline);
		post_others(share->tally, share->member);
	}
}

bool share_get_welcome(struct share *share, struct buf *welcome, struct buf *baseline)
{
	const struct tally *tally = share->tally;

	if (!tally->has_welcome)
		return false;
	LOCKED(&share->member->broker->lock);
	if (!tally->has_welcome)
		return false;
	buf_add(welcome, tally->welcome.at, tally->welcome.count);
	buf_add(baseline, tally->baseline.at, tally->baseline.count);
	return buf_ok(welcome) && buf_ok(baseline);
}

void share_forget_welcome(struct share *share)
{
	LOCKED(&share->member->broker->lock);
	share->tally->has_welcome = false;
}

/*
 * ---- news ----
 *
 * What one loop has found out about a pool, for the other loops; and counts of each loop, summed.
 *
 *   share_put_...()  -->  the tally, a number  -->  on_woken() in other loops
 *                                              -->  share_has_news(), share_get_...()
 *
 * Each kind has a number of its own, so that a loop takes only what it does not know.
 */

static bool is_alone(const struct share *share) { return share->member->broker->loop_count < 2; }

/* ---- outcomes of logins ---- */

void share_put_outcome(struct share *share, const struct err *failure)
{
	struct tally *tally = share->tally;

	if (is_alone(share) || (!failure && !tally->is_failing))
		return;
	LOCKED(&share->member->broker->lock);
	tally->is_failing = failure != NULL;
	if (failure)
		tally->failure = *failure;
	share->outcome_number = ++tally->outcome_number;
	post_others(tally, share->member);
}

bool share_get_outcome(struct share *share, bool *is_failing, struct err *err)
{
	LOCKED(&share->member->broker->lock);
	const struct tally *tally = share->tally;
	bool is_new = share->outcome_number != tally->outcome_number;

	share->outcome_number = tally->outcome_number;
	*is_failing = tally->is_failing;
	if (is_new && *is_failing)
		*err = tally->failure;
	return is_new;
}

/* ---- what clients have authenticated with ---- */

void share_put_shown(struct share *share, const struct credentials *shown)
{
	struct tally *tally = share->tally;

	if (is_alone(share))
		return;
	LOCKED(&share->member->broker->lock);
	credentials_done(&tally->shown);
	/* Without memory, the other loops learn it from clients of their own. */
	if (credentials_copy(&tally->shown, shown)) {
		share->shown_number = ++tally->shown_number;
		post_others(tally, share->member);
	}
}

bool share_get_shown(struct share *share, struct credentials *shown)
{
	bool is_new;

	*shown = (struct credentials){ 0 };
	LOCKED(&share->member->broker->lock);
	is_new = share->shown_number != share->tally->shown_number &&
	         credentials_copy(shown, &share->tally->shown);
	share->shown_number = share->tally->shown_number;
	return is_new;
}

/* ---- what the catalog of a database says ---- */

void share_put_reading(struct share *share, struct catalog_reading *reading)
{
	struct tally *tally = share->tally;

	LOCKED(&share->member->broker->lock);
	catalog_reading_release(&tally->reading);
	tally->reading = catalog_reading_hold(reading);
	reading->id = ++share->member->broker->reading_id;
	atomic_fetch_add_explicit(&tally->catalog_version, 1, memory_order_release);
	if (!is_alone(share))
		post_others(share->tally, share->member);
}

struct catalog_reading *share_get_reading(const struct share *share)
{
	LOCKED(&share->member->broker->lock);
	return share->tally->reading ? catalog_reading_hold(share->tally->reading) : NULL;
}

/* ---- sums over all loops ---- */

static unsigned int sum_up(const struct share *share, size_t offset)
{
	const struct share *other;
	unsigned int sum = 0;

	LOCKED(&share->member->broker->lock);
	TAILQ_FOREACH (other, &share->tally->shares, node)
		sum += atomic_load_explicit((const atomic_uint *)((const char *)other + offset),
		                            memory_order_relaxed);
	return sum;
}

unsigned int share_waiting(const struct share *share)
{
	return sum_up(share, offsetof(struct share, waiting));
}

unsigned int share_stuck(const struct share *share)
{
	return sum_up(share, offsetof(struct share, stuck));
}

/* ---- permits ---- */

static void add_to(const struct share *share, int servers, int leaving)
{
	if (!share)
		return;
	atomic_fetch_add_explicit(&share->tally->server_count, (unsigned int)servers,
	                          memory_order_relaxed);
	atomic_fetch_add_explicit(&share->tally->leaving_count, (unsigned int)leaving,
	                          memory_order_relaxed);
}

static void count_server(const struct permit_ask *ask, int servers, int leaving)
{
	add_to(ask->pool, servers, leaving);
	for (int i = 0; i < CAPS; i++)
		add_to(ask->caps[i], servers, leaving);
}

void broker_count_leaving(const struct permit_ask *ask, int change)
{
	count_server(ask, 0, change);
}

static struct broker *broker_of(const struct permit_ask *ask)
{
	const struct share *share = ask->pool;

	for (int i = 0; !share; i++)
		share = ask->caps[i];
	return share->member->broker;
}

/* Whether the claim of another pool comes before. */
static bool is_passed(const struct share *share, const struct claim *claim)
{
	const struct share *other = longest_wanting(share->tally);
	struct claim first;

	if (!other)
		return false;
	first = share_claim(other);
	return claim_is_before(&first, claim);
}

static enum permit judge(const struct permit_ask *ask)
{
	if (ask->pool && share_servers(ask->pool) >= ask->pool_most)
		return PERMIT_POOL_FULL;
	for (unsigned int i = 0; i < CAPS; i++) {
		if (ask->caps[i] && share_servers(ask->caps[i]) >= ask->most[i])
			return PERMIT_CAP_FULL + i;
	}
	for (unsigned int i = 0; i < CAPS; i++) {
		if (ask->caps[i] && ask->most[i] != PERMIT_NO_LIMIT &&
		    is_passed(ask->caps[i], &ask->claim))
			return PERMIT_PASSED + i;
	}
	return PERMIT_GRANTED;
}

enum permit broker_take(const struct permit_ask *ask)
{
	LOCKED(&broker_of(ask)->lock);
	enum permit permit = judge(ask);

	if (permit == PERMIT_GRANTED)
		count_server(ask, 1, 0);
	return permit;
}

void broker_give(const struct permit_ask *ask)
{
	struct broker *broker = broker_of(ask);

	pthread_mutex_lock(&broker->lock);
	count_server(ask, -1, 0);
	pthread_mutex_unlock(&broker->lock);
	if (ask->pool)
		share_wake_first(ask->pool);
	for (int i = 0; i < CAPS; i++) {
		if (ask->caps[i])
			share_wake_first(ask->caps[i]);
	}
}

/* ---- on the way from one loop to another ---- */

static struct tally *pack(const struct share *share)
{
	if (!share)
		return NULL;
	share->tally->owner_count++;
	return share->tally;
}

void broker_pack_permit(const struct permit_ask *ask, struct packed_permit *packed)
{
	struct broker *broker = broker_of(ask);

	LOCKED(&broker->lock);
	*packed = (struct packed_permit){ .broker = broker, .pool = pack(ask->pool) };
	for (int i = 0; i < CAPS; i++)
		packed->caps[i] = pack(ask->caps[i]);
}

static void unpack(const struct packed_permit *packed, struct tally *tally, bool has_server)
{
	if (!tally)
		return;
	if (!has_server) {
		atomic_fetch_sub_explicit(&tally->server_count, 1, memory_order_relaxed);
		broker_post_all(tally); /* who was promised the server does not want any more */
	}
	drop_tally(packed->broker, tally);
}

void broker_unpack_permit(struct packed_permit *packed, bool has_server)
{
	struct broker *broker = packed->broker;

	if (!broker)
		return;
	pthread_mutex_lock(&broker->lock);
	unpack(packed, packed->pool, has_server);
	for (int i = 0; i < CAPS; i++)
		unpack(packed, packed->caps[i], has_server);
	pthread_mutex_unlock(&broker->lock);
	*packed = (struct packed_permit){ 0 };
}

void broker_keep_promise(const struct packed_permit *packed, struct broker_member *to)
{
	LOCKED(&packed->broker->lock);
	settle_promise(packed->pool, to);
}
