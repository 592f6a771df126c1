/* SPDX-License-Identifier: ISC */
/*
 * Pools and servers pass from one process to another: how they are written down, let go
 * without a word to PostgreSQL, and taken up. See net/channel.h for the order of things.
 *
 * Who goes writes, and lets go when the other side has said that it could go on with all;
 * until then nothing has changed. Who comes judges each record when it arrives, without
 * making anything of it, and takes all of them up when they are its own.
 */
#ifndef PGWEIR_POOL_HANDOVER_H
#define PGWEIR_POOL_HANDOVER_H

#include "pgweir/net/channel.h"
#include "pgweir/base/record.h"
#include "pgweir/pool/pools.h"

/* ---- who goes ---- */

/* Whether it stands between two statements with nothing under way, and may be written. */
bool handover_server_may_leave(const struct server *server);

/*
 * What is counted, set and known of databases, users and pools. is_first: all; else only
 * what has been counted since the last time.
 */
bool pools_write(struct pools *pools, struct channel *channel, bool is_first);

/* The statement, unless it has been written before. */
bool handover_write_statement(struct statement *statement, struct channel *channel);

/* A server that may leave. It is marked as leaving; who lends it is not written here. */
bool handover_server_write(struct server *server, struct channel *channel);

/* All servers that may leave and are lent to nobody; later than first: of pools without clients. */
bool handover_write_idle_servers(struct pools *pools, struct channel *channel, bool is_first);

/* What was marked is let go, what was counted begins at zero. pools->is_leaving from now on. */
void pools_let_go(struct pools *pools);

/* It stays after all: the marks go. is_all: the other process is gone, and knows nothing. */
void pools_keep(struct pools *pools, bool is_all);

/* ---- who comes ---- */

struct arrived_statement;

/* Lives as long as the channel. Zeroed but for `pools`. */
struct pools_arrival {
	struct pools *pools;
	bool is_later;                        /* the first round is over */
	uint64_t server_statements_id;        /* ids up to here are those of the other process */
	struct arrived_statement *statements; /* by their numbers there */
	struct server *lent;                  /* has come, and waits for its client */
};

/* Whether a record is whole and speaks of what is there. For all kinds that the above write. */
bool pools_judge(const struct pools *pools, char kind, struct bytes body, struct err *err);

/* Takes up what was judged; *fd becomes -1 where it is used. */
void pools_take(struct pools_arrival *arrival, char kind, struct bytes body, int *fd);

/* The statement of that number; NULL: it was not told of. */
struct statement *handover_arrival_statement(const struct pools_arrival *arrival, uint64_t number);

/* Whether that statement has the same name on servers here. */
bool handover_arrival_has_name(const struct pools_arrival *arrival, uint64_t number);

/* The borrower has the server that has just come; it is its pool's member already. */
void handover_server_rejoin(struct server *server, struct borrower *borrower);

/* The pool that a borrower had there, by its very names. NULL: no memory, or no such database. */
struct pool *handover_arrival_pool(struct pools *pools, const char *database, const char *role);

/* The last server has nobody who would take it: closed. */
void pools_take_end(struct pools_arrival *arrival);

void pools_arrival_done(struct pools_arrival *arrival);

/* ---- parts of records: handover_records.c ---- */

/* A parameter map as params_text() gives it, and back. */
bool handover_params_are_good(struct bytes pairs);
void handover_params_read(struct pools *pools, struct bytes pairs, const struct params **params);

bool handover_address_is_good(const struct address *address);

/* Says which field of such a record is bad; returns false. */
bool handover_refuse(const struct record *record, const char *what, struct err *err);

/* See record_hash(): the format of all records that the above write. */
uint64_t handover_pools_hash(uint64_t hash);

#endif
