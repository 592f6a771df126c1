/* SPDX-License-Identifier: ISC */
/*
 * A database (an entry of [databases], or one made by `*`) and a role (a user as PostgreSQL
 * knows it). They stay while configurations change.
 */
#ifndef PGWEIR_POOL_DATABASE_H
#define PGWEIR_POOL_DATABASE_H

#include "pgweir/base/table.h"

#include "pgweir/auth/credentials.h"
#include "pgweir/config/entries.h"
#include "pgweir/pool/server/server.h"
#include "pgweir/pool/stats.h"

TAILQ_HEAD(pool_list, pool);

#define HOLD_BY_SIZE 128

/* Since when something is held back, and by what: "PAUSE by admin@127.0.0.1". Zeroed: not known. */
struct hold {
	usec_t since;
	char by[HOLD_BY_SIZE];
};

/* What is remembered of places that cannot be reached: pool/outage.c. At rest it is zeroed. */
struct outages {
	TAILQ_HEAD(outage_list, outage) list;
	unsigned int count;
};

struct database {
	UT_hash_handle hh; /* by name */
	TAILQ_ENTRY(database) node;
	struct pools *pools;
	const struct config_database *entry; /* of the present snapshot; NULL: being removed */
	struct pool *pool_table;             /* its pools, by role */
	struct pool_list blocked;            /* pools that wait for max_db_connections */
	struct server_list idle;             /* IDLE and USED, longest unused first */
	unsigned int pool_count;
	unsigned int server_count; /* all but CLOSING */
	unsigned int busy_count;   /* LENT, CHECKING, RESETTING, CANCELED */
	unsigned int close_needed_count;
	unsigned int waiting_count; /* borrowers in any line of its pools */
	struct outages outages;
	unsigned int client_count;  /* counted by the client module */
	int server_limit;           /* max_db_connections; 0 = none */
	uint64_t server_limit_hits; /* pools that had to wait because of it */
	uint64_t client_limit_hits; /* clients refused by max_db_client_connections */
	bool is_auto;               /* made by `*` */
	bool is_paused;
	bool is_disabled;
	struct hold hold;  /* good while it is paused */
	struct timer rest; /* autodb_idle_timeout */
	bool has_gone;     /* a pool of it has been forgotten, or killed */
	struct stats gone; /* and what it had counted: totals never shrink */
	char name[CONFIG_DATABASE_NAME_MAX + 1];
};

struct role {
	UT_hash_handle hh; /* by name */
	TAILQ_ENTRY(role) node;
	const struct config_user *entry; /* of [users]; NULL: none */
	struct pool_list blocked;        /* pools that wait for max_user_connections */
	struct server_list idle;
	unsigned int server_count;
	unsigned int pool_count;   /* pools that log in as it */
	unsigned int client_count; /* logged in under this name: role_enter() */
	unsigned int exempt_count; /* of them: those that no limit of clients is for */
	int server_limit;          /* max_user_connections; 0 = none */
	uint64_t server_limit_hits, client_limit_hits; /* as those of a database */
	struct credentials credentials;                /* what the secret is good for */
	char *secret;                                  /* as auth_file has it; NULL: not there */
	unsigned int secret_version; /* another one after each change of the secret */
	char name[CONFIG_USER_NAME_MAX + 1];
};

TAILQ_HEAD(database_list, database);
TAILQ_HEAD(role_list, role);

#endif
