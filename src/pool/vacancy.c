/* SPDX-License-Identifier: ISC */
/*
 * Vacancies: DROP DATABASE and the like.
 *
 *   the statement is sent --> 100 ms without an answer --> idle servers are closed --> 100 ms ...
 *
 * PostgreSQL refuses such a statement if the database has other sessions, but first it waits up to
 * 5 s for their end. Idle servers are such sessions, and nobody needs them.
 *
 * Hard here: any client may send such a text. PostgreSQL refuses at once if a right is missing, and
 * the 100 ms are there for that answer: only a statement that PostgreSQL has begun closes anything.
 * So it must be certain that it is this statement that is not answered yet: the vacancy is a change
 * in the ledger, with nothing before it that takes time. A Parse and a Describe of something else
 * may wait for a lock.
 */
#include <stdlib.h>
#include <string.h>

#include "pgweir/config/entries.h"
#include "pgweir/pgwire/sql_block.h"

#include "pool_priv.h"
#include "server/server_priv.h"

#define AGAIN_AFTER (100 * USEC_PER_MS)

struct vacancy {
	struct ledger_change change; /* of its Query or Execute */
	struct server *server;
	enum vacancy_state state;
	unsigned int bind_count; /* that the statement needs */
	struct timer timer;
	char name[SQL_DATABASE_SIZE];
};

static void end(struct vacancy *vacancy)
{
	vacancy->server->lease.vacancy = NULL;
	timer_clear(&vacancy->timer);
	free(vacancy);
}

static void settle_vacancy(struct ledger_change *change, bool is_done)
{
	(void)is_done;
	end(container_of(change, struct vacancy, change));
}

/* ---- closing idle servers ---- */

static void close_idle(struct database *database)
{
	struct server *server, *next;

	TAILQ_FOREACH_SAFE (server, &database->cap.idle, place.idle_nodes[CAP_DATABASE], next)
		server_close_as(server, ERR_ADMIN_SHUTDOWN, CLOSE_VACATED);
}

void vacancy_hear(struct database *database)
{
	unsigned int count = atomic_load(&database->cap.share.tally->vacated);

	if (count == database->vacated)
		return;
	database->vacated = count;
	close_idle(database);
}

/* Another loop may know an entry of this name that was made by `*`, and this loop does not. */
static void vacate_elsewhere(struct pools *pools, const char *name)
{
	struct share share = { 0 };

	if (!share_open(&share, &pools->member, TALLY_DATABASE, name, ""))
		return;
	share_vacate(&share);
	share_close(&share);
}

static void vacate(struct pools *pools, const char *name)
{
	bool is_known = false;

	TAILQ_EACH (database, &pools->databases, node) {
		if (!database->entry ||
		    strcmp(config_database_dbname(database->entry, database->name), name) != 0)
			continue;
		is_known |= strcmp(database->name, name) == 0;
		database->vacated = share_vacate(&database->cap.share);
		close_idle(database);
	}
	if (!is_known)
		vacate_elsewhere(pools, name);
}

static void look_later(struct vacancy *vacancy);

/* The statement runs, if its turn has come. Its Parse and Bind may have no answer before it has. */
static void note_turn(struct vacancy *vacancy)
{
	if (ledger_is_turn(&vacancy->server->wire.ledger, &vacancy->change, vacancy->bind_count))
		vacancy->state = VACANCY_RUNS;
}

static void on_unanswered(struct timer *timer)
{
	struct vacancy *vacancy = container_of(timer, struct vacancy, timer);

	if (vacancy->state == VACANCY_RUNS)
		vacate(vacancy->server->pool->pools, vacancy->name);
	else
		note_turn(vacancy);
	look_later(vacancy);
}

static void look_later(struct vacancy *vacancy)
{
	struct loop *loop = vacancy->server->site->shared->loop;

	timer_begin(&vacancy->timer, loop, AGAIN_AFTER, on_unanswered);
}

/* ---- from the text to the statement ---- */

void vacancy_begin(struct server *server, struct bytes text, enum vacancy_state state)
{
	const struct ledger *ledger = &server->wire.ledger;
	bool is_alone = !ledger->is_open || ledger_is_empty(ledger);
	struct vacancy *vacancy =
	    is_alone && !server->lease.vacancy ? calloc(1, sizeof(*vacancy)) : NULL;

	if (!vacancy)
		return;
	if (!sql_database(text, vacancy->name)) {
		free(vacancy);
		return;
	}
	vacancy->change.settle = settle_vacancy;
	vacancy->server = server;
	vacancy->state = state;
	server->lease.vacancy = vacancy;
}

void vacancy_forget(struct server *server)
{
	if (server->lease.vacancy->state < VACANCY_SENT)
		end(server->lease.vacancy);
}

void vacancy_before(struct server *server, char type)
{
	if (type == 'Q' || type == 'P' ||
	    (type == 'B' && server->lease.vacancy->state == VACANCY_BOUND))
		vacancy_forget(server);
}

/* Whether a Bind is of the unnamed statement, if that counts, and makes the unnamed portal. */
static bool is_unnamed(const struct vacancy *vacancy, struct bytes body)
{
	size_t names = vacancy->state == VACANCY_PARSED ? 2 : 1;

	return body.count >= names && body.at[0] == 0 && body.at[names - 1] == 0;
}

/* The body of a Describe: not of a portal, nor of the unnamed statement. */
static bool is_other_statement(struct bytes description)
{
	return description.count < 2 || (description.at[0] == 'S' && description.at[1]);
}

struct ledger_change *vacancy_follow(struct server *server, char type, struct bytes body)
{
	struct vacancy *vacancy = server->lease.vacancy;

	if (vacancy->state >= VACANCY_SENT)
		return NULL;
	if ((type == 'B' && !is_unnamed(vacancy, body)) ||
	    (type == 'P' && (!body.count || body.at[0])) ||
	    (type == 'D' && is_other_statement(body))) {
		vacancy_forget(server);
		return NULL;
	}
	if (type == 'B')
		vacancy->state = VACANCY_BOUND;
	if (type != 'Q' &&
	    (type != 'E' || vacancy->state != VACANCY_BOUND || !body.count || body.at[0]))
		return NULL;
	vacancy->state = VACANCY_SENT;
	vacancy->bind_count = type == 'E';
	note_turn(vacancy);
	look_later(vacancy);
	return &vacancy->change;
}
