/* SPDX-License-Identifier: ISC */
/*
 * Outages: whether a line about a target is due.
 *
 *   fails --> WARNING --> still fails --> a WARNING each REPEAT --> answers --> LOG
 *
 * Hard here: neither too many nor too few lines. Attempts may fail every 50 ms, and a host may go
 * down and up as fast. So two WARNINGs about one target are at least SPACING apart. An outage that
 * ends before its WARNING is due is not logged, but its failures are included in the next line.
 * There is no timer: a line is written when an attempt fails, so there are no lines about a host
 * that no pool connects to.
 */
#include "pgweir/pool/outages.h"

#include <stdlib.h>
#include <string.h>

#include "pgweir/base/container_of.h"
#include "pgweir/base/lock.h"
#include "pgweir/base/text.h"

#define SPACING (60 * USEC_PER_SEC)
#define REPEAT (300 * USEC_PER_SEC)
#define OUTAGES_MAX 64 /* targets noted for one database; the one that changed first is dropped */

/* All static functions are called with the lock held. */

static struct outage *find_outage(const struct outages *outages, const char *where)
{
	assert_locked(&outages->lock);
	TAILQ_EACH (outage, &outages->list, node) {
		if (strcmp(outage->where, where) == 0)
			return outage;
	}
	return NULL;
}

static void forget_outage(struct outages *outages, struct outage *outage)
{
	assert_locked(&outages->lock);
	TAILQ_REMOVE(&outages->list, outage, node);
	outages->count--;
	free(outage);
}

static struct outage *add_outage(struct outages *outages, const char *where)
{
	struct outage *outage = calloc(1, sizeof(*outage));

	if (!outage)
		return NULL;
	if (outages->count == OUTAGES_MAX)
		forget_outage(outages, TAILQ_FIRST(&outages->list));
	text_copy(outage->where, sizeof(outage->where), where);
	TAILQ_INSERT_TAIL(&outages->list, outage, node);
	outages->count++;
	return outage;
}

void outages_init(struct outages *outages)
{
	lock_init(&outages->lock);
	TAILQ_INIT(&outages->list);
	outages->count = 0;
}

bool outages_failed(struct outages *outages, const char *where, usec_t now, struct outage *due)
{
	LOCKED(&outages->lock);
	struct outage *outage = find_outage(outages, where);

	if (!outage && !(outage = add_outage(outages, where)))
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

bool outages_over(struct outages *outages, const char *where, usec_t now, usec_t *lasted)
{
	LOCKED(&outages->lock);
	struct outage *outage = find_outage(outages, where);

	if (!outage || !outage->is_bad)
		return false;
	outage->is_bad = false;
	*lasted = now - outage->since;
	return outage->is_said;
}

void outages_clear(struct outages *outages)
{
	LOCKED(&outages->lock);
	while (outages->count)
		forget_outage(outages, TAILQ_FIRST(&outages->list));
}

void outages_done(struct outages *outages)
{
	outages_clear(outages);
	pthread_mutex_destroy(&outages->lock);
}
