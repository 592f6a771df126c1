/* SPDX-License-Identifier: ISC */
/*
 * Hands pools and servers over from one process to another: the old process writes records and
 * releases its sockets without sending anything to PostgreSQL; the new one reads them.
 * net/channel.h has the order of the steps.
 */
#ifndef PGWEIR_POOL_HANDOVER_H
#define PGWEIR_POOL_HANDOVER_H

#include "pgweir/base/record.h"
#include "pgweir/net/channel.h"
#include "pgweir/pool/listening.h"
#include "pgweir/pool/pools.h"

/* ---- the process that hands over ---- */

/* Between two statements, nothing pending; for is_handover_plain also without session state. */
bool handover_server_may_leave(const struct server *server);

/* Whether its connection does not prevent that, now or later: it is plain, or has our TLS records.
 */
bool handover_server_can_move(const struct server *server);

/* Writes pools, databases and users; !is_first: only what was counted since the last call. */
bool pools_write(struct pools *pools, struct channel *channel, bool is_first);

/* What is known of hosts, and what an administrator has set. Once, behind all pools. */
bool handover_write_hosts(struct pools *pools, struct channel *channel);

/* Writes the statement, unless it was written before; image: its own, or that of a server. */
bool handover_write_statement(struct statement *statement, const struct statement_image *image,
                              struct channel *channel);

/* Writes a server that may leave, without its borrower, and marks it. */
bool handover_server_write(struct server *server, struct channel *channel);

/* Of all that may leave and are not lent. !is_first: only those of pools without clients. */
bool handover_write_idle_servers(struct pools *pools, struct channel *channel, bool is_first);

/* Releases the marked servers and sets the counters to zero. Sets pools->is_leaving. */
void pools_let_go(struct pools *pools);

/* Unmarks all servers and statements, which stay. is_gone: nobody has taken over any more. */
void pools_keep(struct pools *pools, bool is_gone);

/* ---- the process that takes over ---- */

struct arrived_statement;

/* State of a take-over, as long as the channel. Zeroed but for `first`. */
struct pools_arrival {
	struct pools *first; /* of the first loop, which gets what is for all of them */
	bool is_later;       /* the first round is over */
	/* the other process knows no session state, so its servers may have some of strangers */
	bool is_plain;
	/* ids of clients and servers up to this one are from the other process */
	uint64_t last_id;
	struct arrived_statement *statements; /* by their numbers in the other process */
	/* has arrived, and waits for the record of its client */
	struct server *lent;
};

/* Whether a record is complete and refers to existing objects. false: *err has the reason. */
bool pools_judge(const struct pools *pools, char kind, struct bytes body, struct err *err);

/* Whether there can be pools of a database of that name. false: *err is an ERR_CONFIG. */
bool pools_judge_database(const struct pools *pools, const char *name, struct err *err);

/*
 * Uses a checked record. *fd becomes -1 if a server owns it now. With several loops, servers go to
 * one of them, all other records to each.
 */
void pools_take(struct pools *pools, struct pools_arrival *arrival, char kind, struct bytes body,
                int *fd);

/*
 * The statement with this number in the other process, for a loop. The caller gets a reference.
 * *image, unless image is NULL: the same with the name that servers have it by. NULL: there is
 * none.
 */
struct statement *handover_arrival_statement(const struct pools_arrival *arrival,
                                             struct pools *pools, uint64_t number,
                                             struct statement_image **image);

/* Whether the server of a checked record belongs to the client whose record comes next. */
bool handover_server_is_lent(struct bytes body);

/* How much these pools need it: clients for each server, in thousandths. 0: no such pool. */
unsigned long handover_server_need(struct pools *pools, struct bytes body);

/* Lends the server that has just arrived to this member of its pool. */
void handover_server_rejoin(struct server *server, struct borrower *borrower);

/* The role is the one its servers log in as. NULL: no memory, or no such database. */
struct pool *handover_arrival_pool(struct pools *pools, const char *database, const char *role,
                                   enum pool_purpose purpose);

/* Closes the last server if no client record followed it. For each loop. */
void pools_take_end(struct pools *pools, struct pools_arrival *arrival);

void pools_arrival_done(struct pools_arrival *arrival);

/* ---- parts of records ---- */

/* Checks a parameter map as params_text() writes it. */
bool handover_params_are_good(struct bytes pairs);

/* Whether a process that knows no session state can use this map: it has no roles, no libraries. */
bool handover_params_are_plain(const struct params *params);

bool handover_address_is_good(const struct address *address);

/* Sets *err to name the first bad field of a record. Returns false. */
bool handover_refuse(const struct record *record, const char *what, struct err *err);

/*
 * ---- listening connections ----
 *
 * A connection is handed over together with all its listeners,
 * or stays with all of them: only one process can read it. What PostgreSQL has sent and this
 * process has not read yet, the other process reads. So nothing is lost or comes twice.
 *
 *   listening_look_note()      for each listener
 *   listening_rest(), listening_write()
 */

/* look: the number of this look, of the same thread; what was noted at another one is forgotten. */
void listening_look_note(const struct listener *listener, unsigned int look,
                         enum listener_rest rest);

/* Whether the connection can be handed over, with all its listeners: the worst of their answers. */
enum listener_rest listening_rest(const struct listener *listener);

/* Writes the connection, unless it was written in this round. */
bool listening_write(const struct listener *listener, struct channel *channel);

/* The number that the records of the listeners have. */
uint64_t listening_number(const struct listener *listener);

/* Joins the connection that has arrived with this number. false: none has. */
bool listening_rejoin(struct listener *listener, struct pool *pool, uint64_t number);

#endif
