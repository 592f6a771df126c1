/* SPDX-License-Identifier: ISC */
/*
 * What the unnamed statement of a client is about, from one process to another.
 */
#include "sql_priv.h"

#include "pgweir/pool/handover.h"

#include "client_priv.h"

#include "pgweir/base/banned.h"

bool sql_unnamed_write(const struct client *client, struct buf *record, struct channel *channel)
{
	const struct sql_unnamed *sql = client->sql;

	if (!sql)
		return true;
	record_add_number(record, 'Q', sql->kind);
	record_add_number(record, 'b', sql->is_bound);
	record_add_text(record, 'q', sql->name);
	record_add_number(record, 'z', sql->statement ? statement_number(sql->statement) : 0);
	return !sql->statement || statement_write(sql->statement, channel);
}

void sql_unnamed_read(struct client *client, struct record *record,
                      const struct pools_arrival *arrival)
{
	struct sql_statement read = { 0 };
	struct statement *statement = NULL;
	uint64_t number;
	bool is_bound;

	if (!record_has(record, 'Q'))
		return;
	read.kind = (enum sql_kind)record_number(record, 'Q');
	is_bound = record_flag(record, 'b');
	record_text(record, 'q', read.name, sizeof(read.name));
	number = record_number(record, 'z');
	if (read.kind != SQL_PREPARE && read.kind != SQL_EXECUTE && read.kind != SQL_DEALLOCATE &&
	    read.kind != SQL_FORGET)
		record->is_bad = true;
	if (!arrival || record->is_bad)
		return;
	if (number)
		statement = arrival_statement(arrival, number);
	if (sql_remember(client, &read, statement))
		client->sql->is_bound = is_bound && client->borrower.server;
}
