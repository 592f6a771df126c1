/* SPDX-License-Identifier: ISC */
/* A database (an entry, or made by `*`) and a role (a user's name). They outlive the snapshots. */
#ifndef PGWEIR_POOL_DATABASE_H
#define PGWEIR_POOL_DATABASE_H

#include "pgweir/base/table.h"

#include "pgweir/auth/users.h"
#include "pgweir/config/entries.h"
#include "pgweir/pool/catalog.h"
#include "pgweir/pool/broker.h"
#include "pgweir/pool/latency.h"
#include "pgweir/pool/server/server.h"
#include "pgweir/pool/stats.h"

TAILQ_HEAD(pool_list, pool);

#define HOLD_BY_SIZE 128

/* Since when, and by which command: "PAUSE by admin@127.0.0.1". Zeroed: not known. */
struct hold {
	usec_t since;
	char by[HOLD_BY_SIZE];
};

/* Reads that servers of this host were lent for, by its name in the entry. */
struct host_reads {
	TAILQ_ENTRY(host_reads) node;
	uint64_t count;
	char host[];
};

TAILQ_HEAD(host_reads_list, host_reads);

/*
 * A limit on servers that several pools share: of a database, of a role, of one address of
 * PostgreSQL, or of the process. This is what one loop has to do with it.
 */
struct cap {
	enum cap_kind kind;
	struct share share;      /* in the counts of all loops, with the limit */
	uint64_t hits;           /* how often a pool was blocked by it */
	uint64_t queue_hits;     /* clients refused by max_waiting of the database or user */
	struct server_list idle; /* in IDLE and USED, the longest unused first */
};

#define CAP_HOST_NAME_MAX 128

/* One address of PostgreSQL, while servers are there or pools wait for it. */
struct cap_host {
	struct cap cap;
	UT_hash_handle hh; /* by name */
	unsigned int user_count;
	char name[]; /* 10.0.0.5:5432, or the path of a socket */
};

struct database {
	UT_hash_handle hh; /* by name */
	TAILQ_ENTRY(database) node;
	struct pools *pools;
	struct cap cap;                      /* max_db_connections */
	const struct config_database *entry; /* of the current snapshot; NULL: being removed */
	struct pool *pool_table;             /* its pools, by role */
	unsigned int server_count;           /* all but CLOSING; in this loop */
	unsigned int busy_count;             /* in LENT, CHECKING, RESETTING and CANCELED */
	unsigned int close_needed_count;
	unsigned int client_count;  /* by database_count_client() */
	uint64_t client_limit_hits; /* clients refused by max_db_client_connections */
	bool is_auto;               /* made by `*` */
	bool is_paused;
	bool is_disabled;
	struct hold hold;     /* valid while is_paused */
	struct share catalog; /* with other entries and loops: pool_catalog.c */
	/* what this loop knows of it; NULL: nothing yet */
	struct catalog_reading *reading;
	unsigned int catalog_version; /* its version when it was looked at, */
	bool is_current;              /* whether nothing had changed since the reading, */
	bool is_quiet;                /* and no name matters */
	unsigned int vacated;   /* tally->vacated when its idle servers were closed: vacancy.c */
	usec_t unused_since;    /* since then or later: autodb_idle_timeout */
	struct stats gone;      /* the counters of freed pools, so that totals never decrease */
	struct stats_past past; /* of all its pools; for the console */
	struct latency gone_latency;
	bool has_gone; /* the counts of a pool were moved there: freed, or killed */
	struct sparse_sum client_closes, server_closes; /* by reason */
	struct host_reads_list reads;
	char name[CONFIG_DATABASE_NAME_MAX + 1];
};

struct role {
	UT_hash_handle hh; /* by name */
	TAILQ_ENTRY(role) node;
	struct cap cap;                        /* max_user_connections */
	const struct config_user *entry;       /* its entry of [users]; NULL: none */
	unsigned int pool_count;               /* pools that log in as this role */
	unsigned int client_count;             /* clients logged in under this name: role_enter() */
	uint64_t client_limit_hits;            /* clients refused by max_user_client_connections */
	const struct credentials *credentials; /* derived from `secret`; NULL: of no use */
	const char *secret;                    /* as in pools->users; NULL: not in auth_file */
	unsigned int secret_version;           /* changes with each change of the secret */
	char name[CONFIG_USER_NAME_MAX + 1];
};

TAILQ_HEAD(database_list, database);
TAILQ_HEAD(role_list, role);

#endif
