/* SPDX-License-Identifier: ISC */
/*
 * Hands over to another process what a client's unnamed statement contains.
 */
#include "sql_priv.h"

#include "pgweir/base/text.h"

#include "../client_priv.h"
#include "../handover_priv.h"

bool sql_unnamed_write(const struct client *client, struct buf *record, struct channel *channel)
{
	const struct sql_unnamed *sql = client->sql;
	struct sql_record values;

	if (!sql)
		return true;
	values = (struct sql_record){
		.kind = sql->kind,
		.is_bound = sql->is_bound,
		.number = sql->statement ? statement_number(sql->statement) : 0,
	};
	text_copy(values.name, sizeof(values.name), sql->name);
	record_write(record, &sql_record_table, &values);
	return !sql->statement || handover_write_statement(sql->statement, channel);
}

void sql_unnamed_read(struct client *client, struct record *record,
                      const struct pools_arrival *arrival)
{
	struct sql_statement read = { 0 };
	struct statement *statement = NULL;
	struct sql_record values;

	if (!record_has_table(record, &sql_record_table))
		return;
	record_read(record, &sql_record_table, &values);
	if (!arrival || record->is_bad)
		return;
	read.kind = (enum sql_kind)values.kind;
	text_copy(read.name, sizeof(read.name), values.name);
	if (values.number)
		statement = handover_arrival_statement(arrival, values.number);
	if (sql_remember(client, &read, statement))
		client->sql->is_bound = values.is_bound && client->borrower.server;
}
