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
	for (unsigned int i = 0; i < REACH_CHAINS; i++)
		assert(!reach->chains[i]);
	pthread_mutex_destroy(&reach->lock);
}

/* ---- targets ---- */

/* Targets with a name are few, and so are those that share a chain. */
static struct reach_target **chain_of(struct reach *reach, const char *name,
                                      const struct address *address, uint16_t port)
{
	char text[ADDRESS_TEXT_SIZE];
	const char *key = address ? address_format_host(address, text, sizeof(text)) : name;
	uint64_t hash = hash_bytes(&reach->secret, key, strlen(key));

	return &reach->chains[(hash + port) % REACH_CHAINS];
}

static bool is_same(const struct reach_target *target, const char *name,
                    const struct address *address, uint16_t port)
{
	if (target->port != port)
		return false;
	if (target->address.family == AF_UNSPEC)
		return !address && strcmp(target->name, name) == 0;
	return address && address_equal_host(&target->address, address);
}

static struct reach_target *make_target(const char *name, const struct address *address,
                                        uint16_t port)
{
	size_t count = address ? 0 : strlen(name);
	struct reach_target *target = calloc(1, sizeof(*target) + count + 1);

	if (!target)
		return NULL;
	target->port = port;
	if (address) {
		target->address = *address;
		address_set_port(&target->address, 0);
	} else {
		memcpy(target->name, name, count);
	}
	return target;
}

struct reach_target *reach_hold(struct reach *reach, const char *name,
                                const struct address *address, uint16_t port)
{
	struct reach_target **chain = chain_of(reach, name, address, port), *target;

	lock_reach(reach);
	for (target = *chain; target && !is_same(target, name, address, port);)
		target = target->next;
	if (!target && (target = make_target(name, address, port))) {
		target->next = *chain;
		*chain = target;
	}
	if (target)
		target->holder_count++;
	unlock_reach(reach);
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
	struct reach_target *target = *held, **at;

	*held = NULL;
	if (!target)
		return;
	at = chain_of(reach, target->name,
	              target->address.family == AF_UNSPEC ? NULL : &target->address, target->port);
	lock_reach(reach);
	if (--target->holder_count == 0) {
		while (*at != target)
			at = &(*at)->next;
		*at = target->next;
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
