/* SPDX-License-Identifier: ISC */
/*
 * Names of statements and portals of one client.
 */
#include "track_names_priv.h"

#include <stdlib.h>

#define FIRST_CAPACITY 8
#define CAPACITY_MAX 2048 /* half of it is used */

void track_names_done(struct track_names *names)
{
	free(names->at);
	*names = (struct track_names){ 0 };
}

/* The entry with this hash, or the free one where it would be. */
static struct track_name *seek(const struct track_names *names, uint64_t hash)
{
	size_t at = hash & (names->capacity - 1);

	while (names->at[at].hash && names->at[at].hash != hash)
		at = (at + 1) & (names->capacity - 1);
	return &names->at[at];
}

static void grow(struct track_names *names)
{
	size_t capacity = names->capacity ? 2 * names->capacity : FIRST_CAPACITY;
	struct track_names grown = { .at = calloc(capacity, sizeof(*grown.at)),
		                     .capacity = capacity,
		                     .count = names->count };

	if (!grown.at)
		return;
	for (size_t i = 0; i < names->capacity; i++) {
		if (names->at[i].hash)
			*seek(&grown, names->at[i].hash) = names->at[i];
	}
	free(names->at);
	*names = grown;
}

void track_names_put(struct track_names *names, uint64_t hash, uint64_t digest)
{
	struct track_name *name;

	if (2 * names->count >= names->capacity && names->capacity < CAPACITY_MAX)
		grow(names);
	if (!names->capacity)
		return;
	name = seek(names, hash);
	if (!name->hash && 2 * names->count >= names->capacity) {
		/* No room: all begin again. Names in use come back with their next Parse. */
		for (size_t i = 0; i < names->capacity; i++)
			names->at[i] = (struct track_name){ 0 };
		names->count = 0;
		name = seek(names, hash);
	}
	names->count += !name->hash;
	*name = (struct track_name){ hash, digest };
}

uint64_t track_names_get(const struct track_names *names, uint64_t hash)
{
	return names->capacity ? seek(names, hash)->digest : 0;
}
