/* SPDX-License-Identifier: ISC */
/*
 * Adds to a batch what the client did not send: a Parse or Close of a statement before the
 * message that needs it, and messages that must fail in place of a refused one.
 */
#include "statements_priv.h"

#include "pgweir/pgwire/message.h"

void inject_named(struct batch *batch, char type, struct bytes name)
{
	batch_header(batch, type, 1 + name.count + 1);
	batch_copy(batch, bytes_of("S", 1));
	batch_copy(batch, bytes_of(name.at, name.count + 1));
}

/*
 * The message is part of the statement, which is held by a client's name or by the server's
 * entry until the batch is sent.
 */
void inject_parse(struct client *client, struct batch *batch, const struct statement *statement)
{
	batch_run(batch, statement_message(statement));
	client->borrower.pool->stats.server_parse_count++;
}

/* Adds a Close of a statement that the server knows. false: no memory. */
static bool inject_close(struct client *client, struct batch *batch, struct server_statement *there)
{
	inject_named(batch, 'C', statement_image_name(there->image));
	return server_note_change(client->borrower.server, LEDGER_CLOSE, LEDGER_DROPPED,
	                          server_statements_forget(there));
}

/* Closes the statements that were not used longest until there is space for one more. */
static bool evict(struct client *client, struct batch *batch)
{
	struct server_statements *known = &client->borrower.server->session.statements;
	int limit = client->clients->config->max_prepared_statements;
	struct server_statement *oldest;
	bool is_done = true;

	while (is_done &&
	       (oldest = server_statements_oldest(known, limit > 0 ? (unsigned int)limit : 1)))
		is_done = inject_close(client, batch, oldest);
	return is_done;
}

bool inject_make_way(struct client *client, struct batch *batch, struct statement *statement,
                     struct ledger_change **parse)
{
	struct server_statements *known = &client->borrower.server->session.statements;
	struct server_statement *there = server_statements_find(known, statement, true);
	bool is_done = there ? inject_close(client, batch, there) : evict(client, batch);

	*parse = is_done ? server_statements_learn(known, statement) : NULL;
	return *parse;
}

bool inject_statement(struct client *client, struct batch *batch, struct statement *statement,
                      struct bytes *name)
{
	static const struct server_renaming unknown = { 0 };
	struct server *server = client->borrower.server;
	struct ledger_change *change;
	bool is_sql = !name;
	const struct server_statement *there =
	    server_statements_use(&server->session.statements, statement, is_sql);

	if (name)
		*name = statement_image_name(there ? there->image : statement->image);
	if (there)
		return true;
	if (!inject_make_way(client, batch, statement, &change))
		return false;
	inject_parse(client, batch, statement);
	if (is_sql) /* in the text of an EXECUTE the position of an error means nothing */
		change->renaming = &unknown;
	return server_note_change(server, LEDGER_PARSE, LEDGER_DROPPED, change);
}

bool inject_scratch(struct client *client, struct batch *batch, bool is_there)
{
	MESSAGE_STATIC(parse, 'P', SCRATCH_NAME "\0\0\0");
	struct server *server = client->borrower.server;

	inject_named(batch, 'C', bytes_text(SCRATCH_NAME));
	if (!server_note_change(server, LEDGER_CLOSE, LEDGER_DROPPED, NULL))
		return false;
	if (!is_there)
		return true;
	batch_run(batch, MESSAGE_BYTES(parse));
	return server_note_change(server, LEDGER_PARSE, LEDGER_DROPPED, NULL);
}

enum judgement statements_run(struct client *client, char type, unsigned int touches,
                              struct bytes text, bool is_run, struct batch *batch)
{
	enum judgement judgement = JUDGE_SEND;
	struct err err;

	if (!touches)
		return JUDGE_SEND;
	if (is_run)
		judgement = place_before(client, touches, text, batch);
	if (judgement == JUDGE_SEND && !session_use(client, touches, text, is_run, batch, &err))
		return statements_refuse(client, type, &err, batch);
	return judgement;
}

/* ---- refusals ---- */

/*
 * Sends a Query or a Parse that fails in every state of the server: EXECUTE of an empty name is a
 * syntax error. The error is then replaced by *err, so the transaction fails as PostgreSQL
 * would let it fail.
 */
enum judgement statements_refuse(struct client *client, char type, const struct err *err,
                                 struct batch *batch)
{
	MESSAGE_STATIC(query, 'Q', "EXECUTE \"\"");
	MESSAGE_STATIC(parse, 'P', SCRATCH_NAME "\0EXECUTE \"\"\0\0");

	batch_run(batch, type == 'Q' ? MESSAGE_BYTES(query) : MESSAGE_BYTES(parse));
	return statements_note(client, type == 'Q' ? LEDGER_REFUSED_QUERY : LEDGER_REFUSED_PARSE,
	                       LEDGER_CLIENT, server_refusal(err), JUDGE_DROP);
}

enum judgement statements_refuse_name(struct client *client, char type, const char *name,
                                      struct batch *batch)
{
	struct err err;

	err_set(&err, ERR_STATEMENT_NAME, "prepared statement \"%s\" does not exist", name);
	return statements_refuse(client, type, &err, batch);
}
