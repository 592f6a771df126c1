/* SPDX-License-Identifier: ISC */
/*
 * A vacancy: a database that must have no sessions, because a statement of a borrower wants to drop
 * or rename it, or to make a copy of it. While PostgreSQL waits for that, the idle servers of that
 * database are closed, in all loops.
 *
 * It belongs to the server that runs the statement, and ends with it.
 */
#ifndef PGWEIR_POOL_VACANCY_H
#define PGWEIR_POOL_VACANCY_H

#include "pgweir/base/bytes.h"

struct database;
struct ledger_change;
struct server;
struct vacancy;

enum vacancy_state {
	VACANCY_PARSED, /* by the unnamed statement, which is to be bound */
	VACANCY_BOUND,  /* to the unnamed portal, which is to be executed; a Query: to be sent */
	VACANCY_SENT,   /* what was sent before it may still run */
	VACANCY_RUNS
};

/*
 * A text is about to be sent: if it is such a statement, the server has a vacancy. But not behind
 * messages that are not answered and have no Sync.
 */
void vacancy_begin(struct server *server, struct bytes text, enum vacancy_state state);

/* Before a message is judged; and when it is sent: returns the change to note with it, or NULL. */
void vacancy_before(struct server *server, char type);
struct ledger_change *vacancy_follow(struct server *server, char type, struct bytes body);

/* Of a server that has a vacancy: ends it, if it was not sent. */
void vacancy_forget(struct server *server);

/* Another loop has changed the tally of a database: closes idle servers if it has a vacancy. */
void vacancy_hear(struct database *database);

#endif
