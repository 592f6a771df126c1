/* SPDX-License-Identifier: ISC */
/*
 * What one loop has found out about a pool, for the other loops; and counts of each loop, summed.
 *
 *   share_put_...()  -->  the tally, its news_number  -->  on_woken() in other loops
 *                                                     -->  share_has_news(), share_get_...()
 *
 * Each kind has a number of its own, so that a loop takes only what it does not know.
 */
#include <stdlib.h>

#include "broker_priv.h"

static void lock_of(const struct share *share) { pthread_mutex_lock(&share->member->broker->lock); }

static void unlock_of(const struct share *share)
{
	pthread_mutex_unlock(&share->member->broker->lock);
}

/* Called with the lock held. */
static void announce(struct share *share)
{
	atomic_fetch_add_explicit(&share->tally->news_number, 1, memory_order_release);
	share_post_others(share);
}

static bool is_alone(const struct share *share) { return share->member->broker->loop_count < 2; }

/* ---- outcomes of logins ---- */

void share_put_outcome(struct share *share, const struct err *failure)
{
	struct tally *tally = share->tally;

	if (is_alone(share) || (!failure && !tally->is_failing))
		return;
	lock_of(share);
	tally->is_failing = failure != NULL;
	if (failure)
		tally->failure = *failure;
	share->outcome_number = ++tally->outcome_number;
	announce(share);
	unlock_of(share);
}

bool share_get_outcome(struct share *share, bool *is_failing, struct err *err)
{
	const struct tally *tally = share->tally;
	bool is_new;

	lock_of(share);
	is_new = share->outcome_number != tally->outcome_number;
	share->outcome_number = tally->outcome_number;
	*is_failing = tally->is_failing;
	if (is_new && *is_failing)
		*err = tally->failure;
	unlock_of(share);
	return is_new;
}

/* ---- what clients have authenticated with ---- */

void share_put_shown(struct share *share, const struct credentials *shown)
{
	struct tally *tally = share->tally;

	if (is_alone(share))
		return;
	lock_of(share);
	credentials_done(&tally->shown);
	/* Without memory, the other loops learn it from clients of their own. */
	if (credentials_copy(&tally->shown, shown)) {
		share->shown_number = ++tally->shown_number;
		announce(share);
	}
	unlock_of(share);
}

bool share_get_shown(struct share *share, struct credentials *shown)
{
	bool is_new;

	*shown = (struct credentials){ 0 };
	lock_of(share);
	is_new = share->shown_number != share->tally->shown_number &&
	         credentials_copy(shown, &share->tally->shown);
	share->shown_number = share->tally->shown_number;
	unlock_of(share);
	return is_new;
}

/* ---- what the catalog of a database says ---- */

void share_put_reading(struct share *share, struct catalog_reading *reading)
{
	struct tally *tally = share->tally;

	lock_of(share);
	catalog_reading_release(&tally->reading);
	tally->reading = catalog_reading_hold(reading);
	reading->id = ++share->member->broker->reading_id;
	atomic_fetch_add_explicit(&tally->catalog_version, 1, memory_order_release);
	if (!is_alone(share))
		share_post_others(share);
	unlock_of(share);
}

struct catalog_reading *share_get_reading(const struct share *share)
{
	struct catalog_reading *reading;

	lock_of(share);
	reading = share->tally->reading ? catalog_reading_hold(share->tally->reading) : NULL;
	unlock_of(share);
	return reading;
}

/* ---- sums over all loops ---- */

unsigned int share_waiting(const struct share *share)
{
	const struct share *other;
	unsigned int sum = 0;

	lock_of(share);
	TAILQ_FOREACH (other, &share->tally->shares, node)
		sum += atomic_load_explicit(&other->waiting, memory_order_relaxed);
	unlock_of(share);
	return sum;
}

unsigned int share_stuck(const struct share *share)
{
	const struct share *other;
	unsigned int sum = 0;

	lock_of(share);
	TAILQ_FOREACH (other, &share->tally->shares, node)
		sum += atomic_load_explicit(&other->stuck, memory_order_relaxed);
	unlock_of(share);
	return sum;
}
