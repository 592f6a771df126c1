/* SPDX-License-Identifier: ISC */
/*
 * Reach: see reach.h.
 */
#include "pgweir/pool/server/reach.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static void lock_reach(struct reach *reach) { pthread_mutex_lock(&reach->lock); }

static void unlock_reach(struct reach *reach) { pthread_mutex_unlock(&reach->lock); }

void reach_init(struct reach *reach)
{
	*reach = (struct reach){ 0 };
	pthread_mutex_init(&reach->lock, NULL);
	hash_key_draw(&reach->secret);
}

void reach_done(struct reach *reach)
{
	assert(!reach->targets);
	pthread_mutex_destroy(&reach->lock);
}

/* ---- targets ---- */

static struct reach_target *find_target(struct reach *reach, struct bytes key)
{
	struct reach_target *target;

	TABLE_FIND(hh, &reach->secret, reach->targets, key.at, key.count, target);
	if (target)
		return target;
	target = calloc(1, sizeof(*target) + key.count);
	if (!target)
		return NULL;
	memcpy(target->key, key.at, key.count);
	TABLE_ADD(hh, &reach->secret, reach->targets, target->key, key.count, target);
	return target;
}

struct reach_target *reach_hold(struct reach *reach, const char *name,
                                const struct address *address, uint16_t port)
{
	struct reach_target *target = NULL;
	char text[ADDRESS_TEXT_SIZE];
	struct buf key = { 0 };

	/* a name is no address: they are not equal */
	buf_printf(&key, "%c%s %u", address ? 'a' : 'n',
	           address ? address_format_host(address, text, sizeof(text)) : name, port);
	lock_reach(reach);
	if (buf_ok(&key))
		target = find_target(reach, buf_bytes(&key));
	if (target)
		target->holder_count++;
	unlock_reach(reach);
	buf_free(&key);
	return target;
}

/* Called with the lock held. */
static void forget_failure(struct reach *reach, struct reach_target *target)
{
	if (target->gap)
		atomic_fetch_sub(&reach->failing_count, 1);
	target->gap = 0;
	atomic_store(&target->is_tested, false);
	atomic_store(&target->due, 0);
}

void reach_release(struct reach *reach, struct reach_target **held)
{
	struct reach_target *target = *held;

	*held = NULL;
	if (!target)
		return;
	lock_reach(reach);
	if (--target->holder_count == 0) {
		HASH_DEL(reach->targets, target);
		forget_failure(reach, target);
		free(target);
	}
	unlock_reach(reach);
}

/* ---- attempts and their outcomes ---- */

bool reach_begin_test(struct reach *reach, struct reach_target *target, usec_t now)
{
	bool is_begun;

	lock_reach(reach);
	is_begun = target->gap && now >= reach_due(target);
	if (is_begun) {
		atomic_store(&target->is_tested, true);
		atomic_store(&target->due, now + REACH_TEST_MAX);
	}
	unlock_reach(reach);
	return is_begun;
}

static usec_t next_gap(usec_t gap, usec_t most)
{
	gap = gap ? 2 * gap : REACH_GAP_MIN;
	return gap < most ? gap : most;
}

void reach_failed(struct reach *reach, struct reach_target *target, usec_t now, usec_t most,
                  const struct err *err)
{
	lock_reach(reach);
	if (!target->gap)
		atomic_fetch_add(&reach->failing_count, 1);
	target->gap = next_gap(target->gap, most < REACH_GAP_MAX ? most : REACH_GAP_MAX);
	target->failure = *err;
	atomic_store(&target->is_tested, false);
	atomic_store(&target->due, now + target->gap);
	unlock_reach(reach);
}

bool reach_worked(struct reach *reach, struct reach_target *target)
{
	bool had_failed;

	if (!reach_due(target))
		return false;
	lock_reach(reach);
	had_failed = target->gap > 0;
	forget_failure(reach, target);
	unlock_reach(reach);
	return had_failed;
}

bool reach_failure(struct reach *reach, const struct reach_target *target, struct err *err)
{
	bool has_failed;

	lock_reach(reach);
	has_failed = target->gap > 0;
	if (has_failed)
		*err = target->failure;
	unlock_reach(reach);
	return has_failed;
}
