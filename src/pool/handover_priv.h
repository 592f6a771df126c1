/* SPDX-License-Identifier: ISC */
/*
 * Hand-over of pools and servers, internal to the module: the records.
 *
 * Texts and bytes in a record are borrowed: when a record is written, from the object it describes;
 * when it was read, from the message.
 *
 * Optional fields at the end of a table are not in the plain format (main/daemon_priv.h): what a
 * process writes for one of an older release has none of them.
 */
#ifndef PGWEIR_POOL_HANDOVER_PRIV_H
#define PGWEIR_POOL_HANDOVER_PRIV_H

#include "pgweir/pool/handover.h"

#include "pgweir/auth/scram.h"

#include "listening_priv.h"

/* ---- records: handover.c ---- */

#define HANDOVER_HOST_SIZE 1024

struct global_record {
	uint64_t last_id, last_number;
	bool is_paused;
	struct stats stats;
};

/* A host that an administrator has drained or disabled. */
struct closed_host_record {
	char host[HANDOVER_HOST_SIZE];
	bool is_disabled;
};

/* A row of a cluster's roster. */
struct cluster_record {
	struct bytes name; /* hosts, port and user of its watches, each with a zero */
	uint32_t timeline; /* of the roster */
	uint64_t system;
	struct roster_row row;
};

struct pool_record {
	char database[CONFIG_DATABASE_NAME_MAX + 1];
	char role[CONFIG_USER_NAME_MAX + 1];
	bool is_for_lookups, has_welcome, is_shown;
	struct bytes welcome, baseline;
	uint64_t size_hits, reserve_hits;
	/* What a client authenticated with, and the secret of auth_file at that time. */
	uint64_t learnt_kind, iterations;
	struct bytes learnt_text, learnt_keys, salt, secret;
	struct stats stats;
};

struct statement_record {
	uint64_t number;
	struct bytes text, scope;
	char stem[STATEMENT_STEM_MAX];
	bool is_typed;
	bool is_forgetting; /* for 0.3.0; not read */
};

#define HANDOVER_DESTINATION_SIZE 1024

struct server_record {
	char database[CONFIG_DATABASE_NAME_MAX + 1];
	char role[CONFIG_USER_NAME_MAX + 1];
	char destination[HANDOVER_DESTINATION_SIZE];
	char host[HANDOVER_HOST_SIZE];
	char path[sizeof(((struct server *)0)->place.path)];
	uint64_t id, status;
	bool is_for_lookups, is_lent, is_used, is_close_needed, has_session, is_rest_unknown;
	struct address peer;
	struct bytes params, baseline, key;
	usec_t connected_at, used_at, request_at, xact_at;
	int64_t connect_wall, request_wall; /* of older releases; not used */
	uint64_t held;                      /* what its session may hold: enum held_kind */
	/* of a listening connection, else empty; its listeners follow as clients */
	char mark_channel[LISTENING_MARK_CHANNEL_SIZE];
	char encoding[LISTENING_ENCODING_SIZE];
};

/* A server's record ends with any number of these, from two tables: a statement may be stale. */
struct on_server_record {
	uint64_t number;
	struct server_statement_state state;
};

/* Those of a database and of a role are about the structs themselves. */
extern const struct record_table global_record_table, database_record_table, role_record_table,
    pool_record_table, statement_record_table, server_record_table, on_server_record_table,
    stale_record_table, closed_host_record_table, cluster_record_table;

/* ---- servers: handover_server.c ---- */

/*
 * A server parcel: an idle server between the pools of one loop and those of another, maybe in
 * another thread. It has the records by which servers go from one process to another, and the
 * connection itself (net/stream.h). PostgreSQL notices nothing.
 *
 * The server keeps its id, its times, its parameters and its prepared statements. Between the two
 * loops it counts for no pool, but keeps its permit.
 */
struct packed_statement {
	struct statement_image *image; /* one reference */
	bool is_typed;
};

struct server_parcel {
	struct letter letter;     /* of pool_trade.c, */
	struct broker_member *to; /* as this one */
	struct stream_parcel stream;
	struct permit permit;
	struct server_standby standby;
	usec_t packed_at;
	unsigned int catalog_version; /* of its database, when it was packed */
	bool is_tls_direct, is_for_reads, has_defaults;
	struct buf defaults; /* what its connect_query had set */
	struct buf record;
	/* in the order of the record */
	unsigned int statement_count, read_count;
	struct packed_statement statements[];
};

/* It is idle or used, nothing is pending, no cancel is under way, and it stays open. */
bool server_may_move(struct server *server);

/* Out of its pool, freed at the end of the turn. NULL: it cannot, or no memory; nothing changed. */
struct server_parcel *server_pack(struct server *server);

/*
 * Puts the server into the pool of the same database and role, which is made if necessary, and
 * frees the parcel. To be called in the thread of the pools. No limit is checked. A pool without a
 * welcome gets that of the old pool. NULL: the server cannot be used here, and was closed.
 */
struct server *server_unpack(struct pools *pools, struct server_parcel **parcel);

/* Closes a server that no pool takes: the loop it was for has ended. */
void server_parcel_end(struct server_parcel **parcel);

/* Reads what follows the table of a server, to see whether it is good. */
void handover_server_check_rest(struct record *record);

void handover_server_take(struct pools *pools, struct pools_arrival *arrival, struct bytes body,
                          int *fd);

/* Releases the server's socket: nothing is sent to PostgreSQL, and the borrower is not called. */
void handover_server_let_go(struct server *server);

/* ---- listening connections: listening.c ---- */

/* Fills what the record of its server has in addition. */
void listening_describe(const struct server *server, struct server_record *record);

/* Makes the listening connection of a server that has arrived; may close the server. */
void listening_take(struct server *server, const struct server_record *record);

#endif
