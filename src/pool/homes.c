/* SPDX-License-Identifier: ISC */
#include "pgweir/pool/homes.h"

#include <stdbool.h>
#include <string.h>

void homes_init(struct homes *homes, unsigned int loop_count)
{
	memset(homes, 0, sizeof(*homes));
	hash_key_draw(&homes->secret);
	homes->loop_count = loop_count;
}

unsigned int homes_count(const struct homes *homes, int pool_size, int servers_per_loop)
{
	unsigned int count;

	if (pool_size <= 0 || servers_per_loop <= 0)
		return homes->loop_count;
	count = ((unsigned int)pool_size - 1) / (unsigned int)servers_per_loop + 1;
	return count < homes->loop_count ? count : homes->loop_count;
}

static _Atomic unsigned char *slot_of(struct homes *homes, const char *database, const char *role)
{
	uint64_t words[2] = { hash_bytes(&homes->secret, database, strlen(database)),
		              hash_bytes(&homes->secret, role, strlen(role)) };

	return &homes->slots[hash_bytes(&homes->secret, words, sizeof(words)) % HOMES_SLOTS];
}

/* Another loop may be faster. Returns the number that the slot has then. */
static unsigned int take_slot(_Atomic unsigned char *slot, unsigned int loop)
{
	unsigned char before = 0;

	atomic_compare_exchange_strong(slot, &before, (unsigned char)(loop + 1));
	return before ? before - 1U : loop;
}

unsigned int homes_first(struct homes *homes, const char *database, const char *role)
{
	_Atomic unsigned char *slot = slot_of(homes, database, role);
	unsigned int taken = atomic_load(slot);

	return taken
	           ? taken - 1
	           : take_slot(slot, atomic_fetch_add(&homes->given_count, 1) % homes->loop_count);
}

void homes_note(struct homes *homes, const char *database, const char *role, unsigned int loop)
{
	take_slot(slot_of(homes, database, role), loop);
}

static bool is_one_busy(const struct homes *homes, unsigned int loop, uint64_t busy)
{
	return busy >> loop % homes->loop_count & 1;
}

unsigned int homes_widen(const struct homes *homes, unsigned int first, unsigned int count,
                         uint64_t busy)
{
	for (unsigned int i = 0; i < count; i++) {
		if (!is_one_busy(homes, first + i, busy))
			return count;
	}
	while (count < homes->loop_count) {
		if (!is_one_busy(homes, first + count++, busy))
			break;
	}
	return count;
}
