/* SPDX-License-Identifier: ISC */
/*
 * Which statement a name of one client means, for track_statements: portals with names, and
 * prepared statements that pgweir does not follow (session mode). A table of hashes, bounded: of a
 * client with more names, some are forgotten.
 */
#ifndef PGWEIR_CLIENT_RELAY_TRACK_NAMES_PRIV_H
#define PGWEIR_CLIENT_RELAY_TRACK_NAMES_PRIV_H

#include <stddef.h>
#include <stdint.h>

/* A zeroed table owns nothing. */
struct track_names {
	struct track_name {
		uint64_t hash;   /* of the name; 0: free */
		uint64_t digest; /* of the statement */
	} * at;
	size_t capacity, count;
};

void track_names_done(struct track_names *names);

/* Does nothing without memory. */
void track_names_put(struct track_names *names, uint64_t hash, uint64_t digest);

/* 0: not known. */
uint64_t track_names_get(const struct track_names *names, uint64_t hash);

#endif
