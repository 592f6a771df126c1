/* SPDX-License-Identifier: ISC */
/*
 * Applications: what clients of one application_name have done, while track_statements is on. One
 * table for each loop. Clients choose these names, so only APPLICATIONS_KEPT of those that no
 * client has any more are kept; what the others have counted is in `gone`.
 */
#ifndef PGWEIR_CLIENT_APPLICATIONS_H
#define PGWEIR_CLIENT_APPLICATIONS_H

#include <stdint.h>
#include <sys/queue.h>

#include "pgweir/base/table.h"

#define APPLICATIONS_KEPT 1000
#define APPLICATION_NAME_SIZE 64 /* as NAMEDATALEN in PostgreSQL: longer names are cut off */

struct application {
	UT_hash_handle hh;
	TAILQ_ENTRY(application) node; /* in `unused`, if it has no client */
	unsigned int client_count;
	uint64_t hash; /* of its name; the same in all loops */
	uint64_t xact_count, error_count;
	char name[APPLICATION_NAME_SIZE];
};

TAILQ_HEAD(application_list, application);

struct applications {
	const struct hash_key *key;
	struct application *table;
	struct application_list unused; /* the one that lost its last client first comes first */
	unsigned int unused_count;
	uint64_t gone_xact_count, gone_error_count;
};

void applications_init(struct applications *applications, const struct hash_key *key);
void applications_done(struct applications *applications);

/* The application of this name, for one more client. NULL: no memory. */
struct application *applications_join(struct applications *applications, const char *name);

/* A client leaves. Sets the pointer to NULL, and accepts NULL. */
void applications_leave(struct applications *applications, struct application **application);

/* NULL: there is none. */
const struct application *applications_find(const struct applications *applications,
                                            const char *name);

/* All counters are 0 again. */
void applications_reset(struct applications *applications);

#endif
