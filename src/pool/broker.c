/* SPDX-License-Identifier: ISC */
/*
 * The broker, its shares and their tallies: see broker.h.
 *
 * Hard here: a share belongs to a loop, and only that loop may close it, so another loop may use it
 * only while it holds the lock. on_woken() is called in the share's own loop: of a pool maybe with
 * the lock, as it only wakes the pool (broker_wake()), of all others without it.
 */
#include "broker_priv.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "pgweir/base/bytes.h"
#include "pgweir/base/container_of.h"
#include "pgweir/base/text.h"

/* ---- members ---- */

struct broker *broker_new(unsigned int loops, struct err *err)
{
	struct broker *broker = err_calloc(sizeof(*broker), "out of memory", err);

	if (!broker)
		return NULL;
	lock_init(&broker->lock);
	hash_key_draw(&broker->secret);
	reach_init(&broker->reach);
	broker->loop_count = loops;
	return broker;
}

void broker_free(struct broker **broker)
{
	if (!*broker)
		return;
	assert(!(*broker)->tallies && (*broker)->member_count == 0);
	reach_done(&(*broker)->reach);
	clusters_done(*broker);
	pthread_mutex_destroy(&(*broker)->lock);
	free(*broker);
	*broker = NULL;
}

static struct share *next_woken(struct broker_member *member)
{
	LOCKED(&member->broker->lock);
	struct share *share = TAILQ_FIRST(&member->woken);

	if (share) {
		TAILQ_REMOVE(&member->woken, share, woken_node);
		share->is_woken = false;
	}
	return share;
}

static void wake_shares(struct broker_member *member)
{
	struct share *share;

	while ((share = next_woken(member)))
		share->on_woken(share);
}

static void on_letter(struct letter *letter)
{
	if (!letter->is_late)
		wake_shares(container_of(letter, struct broker_member, letter));
}

static void on_task(struct task *task)
{
	wake_shares(container_of(task, struct broker_member, task));
}

void broker_post_woken(struct share *share)
{
	struct broker_member *member = share->member;

	assert_locked(&share->member->broker->lock);
	if (share->is_woken)
		return;
	share->is_woken = true;
	TAILQ_INSERT_TAIL(&member->woken, share, woken_node);
	if (member->broker->loop_count < 2)
		loop_defer(member->loop, &member->task); /* sooner than a letter */
	else
		loop_post(member->loop, &member->letter);
}

void broker_post_others(const struct tally *tally, const struct broker_member *except)
{
	TAILQ_EACH (share, &tally->shares, node) {
		if (share->member != except)
			broker_post_woken(share);
	}
}

void broker_join(struct broker *broker, struct broker_member *member, struct loop *loop)
{
	member->broker = broker;
	member->loop = loop;
	member->letter.open = on_letter;
	member->task.run = on_task;
	TAILQ_INIT(&member->woken);
	LOCKED(&broker->lock);
	broker->member_count++;
}

void broker_leave(struct broker_member *member)
{
	struct broker *broker = member->broker;

	if (!broker)
		return;
	pthread_mutex_lock(&broker->lock);
	assert(TAILQ_EMPTY(&member->woken));
	broker->member_count--;
	pthread_mutex_unlock(&broker->lock);
	loop_take_back(member->loop, &member->letter);
	loop_undefer(member->loop, &member->task);
	member->broker = NULL;
}

/* ---- ids ---- */

void broker_skip_ids(struct broker *broker, uint64_t last)
{
	uint_fast64_t before = atomic_load(&broker->last_id);

	while (before < last && !atomic_compare_exchange_weak(&broker->last_id, &before, last))
		continue;
}

/*
 * ---- outages ----
 *
 * Whether a line about a target is due.
 *
 *   fails --> WARNING --> still fails --> a WARNING each REPEAT --> answers --> LOG
 *
 * Hard here: neither too many nor too few lines. Attempts may fail every 50 ms, and a host may go
 * down and up as fast. So two WARNINGs about one target are at least SPACING apart. An outage that
 * ends before its WARNING is due is not logged, but its failures are included in the next line.
 * There is no timer: a line is written when an attempt fails, so there are no lines about a host
 * that no pool connects to.
 */

#define SPACING (60 * USEC_PER_SEC)
#define REPEAT (300 * USEC_PER_SEC)
#define OUTAGES_MAX 64 /* targets noted for one database; the one that changed first is dropped */

static struct outage *find_outage(const struct tally *tally, const char *where)
{
	assert_locked(&tally->broker->lock);
	TAILQ_EACH (outage, &tally->outages, node) {
		if (strcmp(outage->where, where) == 0)
			return outage;
	}
	return NULL;
}

static void forget_outage(struct tally *tally, struct outage *outage)
{
	assert_locked(&tally->broker->lock);
	TAILQ_REMOVE(&tally->outages, outage, node);
	tally->outage_count--;
	free(outage);
}

static struct outage *add_outage(struct tally *tally, const char *where)
{
	struct outage *outage = calloc(1, sizeof(*outage));

	if (!outage)
		return NULL;
	if (tally->outage_count == OUTAGES_MAX)
		forget_outage(tally, TAILQ_FIRST(&tally->outages));
	text_copy(outage->where, sizeof(outage->where), where);
	TAILQ_INSERT_TAIL(&tally->outages, outage, node);
	tally->outage_count++;
	return outage;
}

bool share_note_outage(struct share *database, const char *where, usec_t now, struct outage *due)
{
	LOCKED(&database->member->broker->lock);
	struct outage *outage = find_outage(database->tally, where);

	if (!outage && !(outage = add_outage(database->tally, where)))
		return false;
	if (!outage->is_bad) {
		outage->is_bad = true;
		outage->is_said = false;
		outage->since = now;
	}
	outage->failures++;
	if (outage->said_at && now - outage->said_at < (outage->is_said ? REPEAT : SPACING))
		return false;
	*due = *outage;
	outage->is_said = true;
	outage->said_at = now;
	outage->failures = 0;
	return true;
}

bool share_end_outage(struct share *database, const char *where, usec_t now, usec_t *lasted)
{
	LOCKED(&database->member->broker->lock);
	struct outage *outage = find_outage(database->tally, where);

	if (!outage || !outage->is_bad)
		return false;
	outage->is_bad = false;
	*lasted = now - outage->since;
	return outage->is_said;
}

static void forget_outages(struct tally *tally)
{
	while (tally->outage_count)
		forget_outage(tally, TAILQ_FIRST(&tally->outages));
}

void share_forget_outages(struct share *database)
{
	LOCKED(&database->member->broker->lock);
	forget_outages(database->tally);
}
/* ---- tallies ---- */

/* Takes the name. */
static struct tally *make_tally(struct broker *broker, enum tally_kind kind, struct buf *name)
{
	struct tally *tally = calloc(1, sizeof(*tally));

	assert_locked(&broker->lock);
	if (!tally)
		return NULL;
	tally->broker = broker;
	tally->kind = kind;
	tally->name = *name;
	*name = (struct buf){ 0 };
	TAILQ_INIT(&tally->shares);
	TAILQ_INIT(&tally->wants);
	TAILQ_INIT(&tally->claims);
	tally->hosts.reach = &broker->reach;
	TAILQ_INIT(&tally->outages);
	TABLE_ADD(hh, &broker->secret, broker->tallies, tally->name.at, tally->name.count, tally);
	return tally;
}

static void free_tally(struct tally *tally)
{
	struct broker *broker = tally->broker;

	assert(!tally->catalog.under_way && !tally->catalog.asked_count);
	HASH_DEL(broker->tallies, tally);
	heap_done(&tally->queue);
	buf_free(&tally->name);
	buf_free(&tally->welcome);
	buf_free(&tally->baseline);
	cluster_part(tally);
	hosts_done(&tally->hosts);
	forget_outages(tally);
	credentials_release(&tally->shown);
	catalog_reading_release(&tally->catalog.reading);
	free(tally->sizing);
	free(tally);
}

/* The one of this name, which is made if there is none. NULL: no memory. */
static struct tally *get_tally(struct broker *broker, enum tally_kind kind, const char *first,
                               const char *second)
{
	struct tally *tally = NULL;
	struct buf name = { 0 };

	assert_locked(&broker->lock);
	buf_add_byte(&name, (char)kind);
	buf_add_cstr(&name, first);
	buf_add_text(&name, second);
	if (buf_ok(&name)) {
		TABLE_FIND(hh, &broker->secret, broker->tallies, name.at, name.count, tally);
		if (!tally)
			tally = make_tally(broker, kind, &name);
	}
	buf_free(&name);
	return tally;
}

void broker_drop_tally(struct tally *tally)
{
	assert_locked(&tally->broker->lock);
	if (--tally->owner_count == 0)
		free_tally(tally);
}

/* All of them: one that is served in the meantime does not tell the others. */
void broker_wake_wanting(const struct tally *tally, const struct broker_member *here)
{
	TAILQ_EACH (share, &tally->wants, want_node)
		broker_wake(share, here);
}

static void stop_wanting(struct share *share)
{
	assert_locked(&share->member->broker->lock);
	if (!share->is_wanting)
		return;
	TAILQ_REMOVE(&share->tally->wants, share, want_node);
	share->is_wanting = false;
	share->tally->want_count--;
}

static void leave(struct share *share)
{
	assert_locked(&share->member->broker->lock);
	stop_wanting(share);
	if (share->is_woken)
		TAILQ_REMOVE(&share->member->woken, share, woken_node);
	share->is_woken = false;
	TAILQ_REMOVE(&share->tally->shares, share, node);
	broker_drop_tally(share->tally);
	share->tally = NULL;
}

void share_close(struct share *share)
{
	if (!share->tally)
		return;
	LOCKED(&share->member->broker->lock);
	leave(share);
}

bool share_open(struct share *share, struct broker_member *member, enum tally_kind kind,
                const char *first, const char *second)
{
	LOCKED(&member->broker->lock);
	struct tally *tally = get_tally(member->broker, kind, first, second);

	if (!tally || tally == share->tally)
		return tally != NULL;
	if (share->tally)
		leave(share);
	share->tally = tally;
	share->member = member;
	TAILQ_INSERT_TAIL(&tally->shares, share, node);
	tally->owner_count++;
	return true;
}

/* ---- wants ---- */

/* It must not want anything yet. */
static void start_wanting(struct share *share)
{
	assert_locked(&share->member->broker->lock);
	TAILQ_INSERT_TAIL(&share->tally->wants, share, want_node);
	share->is_wanting = true;
	share->tally->want_count++;
	share->tally->want_number++;
}

static void set_want(struct share *share, usec_t since, unsigned int count)
{
	atomic_store_explicit(&share->wanted_since, since, memory_order_relaxed);
	atomic_store_explicit(&share->wanted_count, count, memory_order_relaxed);
}

bool share_want(struct share *share, usec_t since, unsigned int count)
{
	struct broker *broker = share->member->broker;
	bool is_new = false;

	if (share_is_alone(share) || (!count && !share->is_wanting))
		return false;
	if (count && share->is_wanting) {
		/* No lock: a promise may end the want; this is posted when that server comes. */
		set_want(share, since, count);
		return false;
	}
	LOCKED(&broker->lock);
	set_want(share, since, count);
	if (!count) {
		stop_wanting(share);
	} else if (!share->is_wanting) {
		start_wanting(share);
		broker_post_others(share->tally, share->member);
		is_new = true;
	}
	return is_new;
}

bool share_has_new_want(struct share *share)
{
	unsigned int number = share->tally->want_number;
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
	broker_post_others(share->tally, share->member);
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
		if (tally->kind < TALLY_DATABASE)
			broker_post_others(tally, member);
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
	uint64_t servers = other->servers, own = share->servers;

	return own > 1 &&
	       other->demand * (own - 1) >= (servers + other->promised_count + 1) * share->demand;
}

static bool is_served(const struct share *other, const struct share *share,
                      const struct share_fair *fair)
{
	bool has_any = other->servers || other->promised_count;

	return other != share &&
	       (!fair || other->wanted_since < (has_any ? fair->before : fair->before_any) ||
	        has_less(other, share));
}

/* The longest waiting one of those that are served. NULL: there is none. */
static struct share *first_served(const struct share *share, const struct share_fair *fair)
{
	struct share *first = NULL;

	assert_locked(&share->member->broker->lock);
	TAILQ_EACH (other, &share->tally->wants, want_node) {
		if ((!first || other->wanted_since < first->wanted_since) &&
		    is_served(other, share, fair))
			first = other;
	}
	return first;
}

usec_t share_waits_since(const struct share *share)
{
	usec_t first = INT64_MAX;

	LOCKED(&share->member->broker->lock);
	TAILQ_EACH (other, &share->tally->shares, node) {
		usec_t place = other->place_since,
		       wanted = other->is_wanting ? other->wanted_since : 0;

		if (other != share && place && place < first)
			first = place;
		if (other != share && wanted && wanted < first)
			first = wanted;
	}
	return first < INT64_MAX ? first : 0;
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
		first->promised_count++;
		if (--first->wanted_count == 0)
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
	if (share && share->promised_count)
		share->promised_count--;
	return share;
}

void share_keep_promise(struct tally *pool, struct broker_member *to)
{
	LOCKED(&pool->broker->lock);
	struct share *share = settle_promise(pool, to);

	if (share)
		broker_wake(share, to);
}

/* Nobody is woken: it was tried just now. */
void share_unpromise(struct share *share, struct broker_member *to)
{
	LOCKED(&share->member->broker->lock);
	struct share *other = settle_promise(share->tally, to);

	if (other && other->is_wanting) {
		other->wanted_count++;
	} else if (other) {
		other->wanted_count = 1;
		start_wanting(other);
	}
}

/* ---- logins ---- */

void share_wake_logins(struct share *share)
{
	const struct tally *tally = share->tally;
	/* Without a welcome, and after a failure, one loop tries for all. */
	bool is_for_all = !tally->has_welcome || hosts_are_failing(&share->tally->hosts, NULL);

	if (!is_for_all && !tally->want_count)
		return;
	LOCKED(&share->member->broker->lock);
	if (is_for_all)
		broker_post_others(tally, share->member);
	else
		broker_wake_wanting(tally, share->member);
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
		broker_post_others(share->tally, share->member);
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

/* ---- what clients have authenticated with ---- */

void share_put_shown(struct share *share, const struct credentials *shown)
{
	struct tally *tally = share->tally;

	if (share_is_alone(share))
		return;
	LOCKED(&share->member->broker->lock);
	credentials_release(&tally->shown);
	tally->shown = credentials_hold(shown);
	share->shown_number = ++tally->shown_number;
	broker_post_others(tally, share->member);
}

bool share_get_shown(struct share *share, const struct credentials **shown)
{
	LOCKED(&share->member->broker->lock);
	bool is_new = share->shown_number != share->tally->shown_number;

	*shown = is_new ? credentials_hold(share->tally->shown) : NULL;
	share->shown_number = share->tally->shown_number;
	return is_new;
}

/* ---- what the catalog of a database says ---- */

static bool is_current(const struct catalog_news *news)
{
	return news->reading && news->reading->ddl_count == atomic_load(&news->ddl_count);
}

static bool is_relied_on(const struct catalog_news *news)
{
	return is_current(news) && !atomic_load(&news->uncertain_count);
}

static bool is_uncertain(const struct catalog_news *news, const struct definition *definition)
{
	return definition->is_under_way &&
	       (!news->reading || definition->known_by != news->reading->id);
}

bool share_judge_definition(struct share *share, struct definition *definition, bool is_over)
{
	struct catalog_news *news = &share->tally->catalog;
	bool is_anything = definition->state == DEFINITION_ANYTHING;
	const struct buf *texts = &definition->texts;
	bool was_counted = definition->is_under_way, was_uncertain, was_relied_on;
	bool is_known, is_harmless, is_news;

	LOCKED(&share->member->broker->lock);
	was_relied_on = is_relied_on(news);
	was_uncertain = is_uncertain(news, definition);
	is_known = !is_anything && news->reading && texts->count && buf_ok(texts) &&
	           catalog_knows(news->reading, buf_bytes(texts));
	is_harmless = is_known || (!is_anything && !is_current(news));
	definition->known_by = is_known && !definition->is_unclear ? news->reading->id : 0;
	definition->is_under_way = !is_over && (definition->may_commit || is_harmless);
	/* Not over: it may have been committed since the next reading was asked for. */
	is_news = !is_harmless && !definition->is_under_way && (is_over || was_counted);
	if (is_over && !is_news && atomic_load(&news->asked_count)) {
		news->has_ended = true;
		news->is_doubted |= !is_known;
	}
	/* Other loops read these without the lock: at no time they may rely on what is old. */
	atomic_fetch_add(&news->ddl_count, is_news);
	news->under_way += (unsigned int)definition->is_under_way - was_counted;
	atomic_fetch_add(&news->uncertain_count,
	                 (unsigned int)is_uncertain(news, definition) - was_uncertain);
	atomic_fetch_add(&news->version, is_news || is_relied_on(news) != was_relied_on);
	return is_harmless;
}

/*
 * A reading says what there was when PostgreSQL was asked. What has ended since then was judged by
 * the one before: if this one says anything else, it counts as old.
 */
void share_put_reading(struct share *share, struct catalog_reading *reading)
{
	struct tally *tally = share->tally;
	struct catalog_news *news = &tally->catalog;
	const struct catalog_reading *before;
	bool is_other;

	LOCKED(&share->member->broker->lock);
	before = news->reading;
	is_other = !before || before->digest != reading->digest || before->state != reading->state;
	reading->id = is_other ? ++share->member->broker->reading_id : before->id;
	catalog_reading_release(&news->reading);
	news->reading = catalog_reading_hold(reading);
	if (is_other) /* each loop judges its own when it hears of this one */
		atomic_store(&news->uncertain_count, news->under_way);
	news->is_doubted |= is_other && news->has_ended;
	if (is_current(news)) {
		atomic_fetch_add(&news->ddl_count, news->is_doubted);
		news->has_ended = news->is_doubted = false;
	}
	atomic_fetch_add_explicit(&news->version, 1, memory_order_release);
	broker_post_others(tally, NULL); /* this loop may have other entries that lead there */
}

struct catalog_reading *share_get_reading(const struct share *share)
{
	LOCKED(&share->member->broker->lock);
	struct catalog_reading *reading = share->tally->catalog.reading;

	return reading ? catalog_reading_hold(reading) : NULL;
}

/* ---- sums over all loops ---- */

unsigned int share_waiting(const struct share *share)
{
	unsigned int sum = 0;

	LOCKED(&share->member->broker->lock);
	TAILQ_EACH (other, &share->tally->shares, node)
		sum += other->waiting;
	return sum;
}
