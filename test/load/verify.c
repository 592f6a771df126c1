/* SPDX-License-Identifier: ISC */
/* Compares the table with the ledgers, by a direct blocking connection to PostgreSQL. */
#include "verify.h"

#include <stdio.h>
#include <stdlib.h>
#include <libpq-fe.h>

#include "client.h"

static const char prepare_text[] =
    "DROP TABLE IF EXISTS load_write;"
    "CREATE UNLOGGED TABLE load_write (client int, number int, payload text, filler text);"
    "CREATE INDEX ON load_write (client, number)";

/* No primary key on purpose: a statement that ran twice must not be refused. */
static const char compare_text[] = "SELECT client, number, count(*),"
				   " bool_and(payload = 'c' || client || '.w' || number)"
				   " FROM load_write GROUP BY client, number";

static PGresult *ask(const char *conninfo, const char *text, ExecStatusType wanted)
{
	PGconn *conn = PQconnectdb(conninfo);
	PGresult *result = NULL;

	if (PQstatus(conn) == CONNECTION_OK) {
		PQclear(PQexec(conn, "SET client_min_messages = warning"));
		result = PQexec(conn, text);
	}
	if (PQresultStatus(result) != wanted) {
		fprintf(stderr, "load: the table: %s", PQerrorMessage(conn));
		PQclear(result);
		result = NULL;
	}
	PQfinish(conn);
	return result;
}

bool verify_prepare(const struct load *load)
{
	PGresult *result = ask(load->options.verify_conninfo, prepare_text, PGRES_COMMAND_OK);
	bool is_made = result != NULL;

	PQclear(result);
	return is_made;
}

static void compare_row(struct load *load, struct client *clients, const PGresult *result, int row)
{
	unsigned long id = strtoul(PQgetvalue(result, row, 0), NULL, 10);
	unsigned long number = strtoul(PQgetvalue(result, row, 1), NULL, 10);
	unsigned long count = strtoul(PQgetvalue(result, row, 2), NULL, 10);
	struct ledger *writes;

	if (id == 0 || id > load->options.clients || number >= clients[id - 1].writes.count) {
		tally_wrong(&load->tally, "the table holds row %lu of client %lu: nobody wrote it",
		            number, id);
		return;
	}
	writes = &clients[id - 1].writes;
	if (count != 1)
		tally_wrong(&load->tally, "row %lu of client %lu is in the table %lu times", number,
		            id, count);
	if (PQgetvalue(result, row, 3)[0] != 't')
		tally_wrong(&load->tally, "row %lu of client %lu has a payload not its own", number,
		            id);
	if (writes->states[number] == WRITE_ABSENT)
		tally_wrong(&load->tally, "row %lu of client %lu was never committed", number, id);
	if (writes->states[number] == WRITE_COMMITTED)
		ledger_settle(writes, number, 1, WRITE_FOUND);
}

static void find_lost(struct load *load, const struct client *client)
{
	tally_add(&load->tally, TALLY_DOUBTS, ledger_count(&client->writes, WRITE_IN_DOUBT));
	for (size_t number = 0; number < client->writes.count; number++)
		if (client->writes.states[number] == WRITE_COMMITTED)
			tally_wrong(&load->tally, "row %zu of client %u is lost", number,
			            client->id);
}

bool verify_table(struct load *load, struct client *clients)
{
	PGresult *result = ask(load->options.verify_conninfo, compare_text, PGRES_TUPLES_OK);

	if (!result)
		return false;
	for (int row = 0; row < PQntuples(result); row++)
		compare_row(load, clients, result, row);
	for (unsigned int i = 0; i < load->options.clients; i++)
		find_lost(load, &clients[i]);
	PQclear(result);
	return true;
}
