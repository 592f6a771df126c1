/* SPDX-License-Identifier: ISC */
/*
 * SQL's own PREPARE, EXECUTE and DEALLOCATE.
 *
 *   PREPARE s (int) AS ...  -->  PREPARE "PGBOUNCER_0" (int) AS ...     and the name is there
 *   EXECUTE s (1)           -->  [Parse "PGBOUNCER_7" ...] EXECUTE "PGBOUNCER_7" (1)
 *   DEALLOCATE s            -->  [Parse "PGBOUNCER_0" ""] DEALLOCATE "PGBOUNCER_0"
 *
 * These statements share their names with the protocol's prepared statements: a statement
 * of PREPARE can be bound, and a statement of a driver can be EXECUTEd. PostgreSQL itself
 * checks a PREPARE, under a scratch name that is closed again. If PostgreSQL accepts the
 * PREPARE, the text becomes a statement like any other.
 *
 * Hard here: a message that is injected before a Query may fail. Then the server skips
 * everything up to a Sync, also the Query, and the client does not send a Sync after a
 * Query. So a Sync of ours follows: see LEDGER_DROPPED. In the extended protocol nothing
 * takes effect before the Execute, so what the unnamed statement contains is kept until
 * then.
 */
#include "statements_priv.h"

#include <stdlib.h>

#include "pgweir/pgwire/message.h"

#include "../session/listening_priv.h"

void sql_drop(struct sql_unnamed **sqlp)
{
	struct sql_unnamed *sql = *sqlp;

	*sqlp = NULL;
	if (!sql)
		return;
	statement_release(&sql->statement);
	free(sql);
}

/* Refuses what cannot be tracked. type: of the frame. */
static enum judgement refuse(struct client *client, char type, const char *reason,
                             struct batch *batch)
{
	struct err err;

	err_set(&err, ERR_UNSUPPORTED,
	        "PREPARE, EXECUTE and DEALLOCATE cannot be tracked %s: in this pool mode, use "
	        "the protocol's prepared statements, or send each one alone in a simple query",
	        reason);
	return statements_refuse(client, type, &err, batch);
}

static void read_text(const struct client *client, const char *text, struct sql_statement *sql)
{
	struct bytes bytes = bytes_text(text);

	sql_read(bytes, sql);
	if (sql->kind == SQL_OTHER || bytes_are_ascii(bytes) ||
	    !session_encoding_is_unclear(client))
		return;
	if (sql->kind == SQL_FORGET) { /* the server's answer shows it */
		sql->kind = SQL_OTHER;
		return;
	}
	sql->kind = SQL_UNSURE;
	sql->reason = "in this client_encoding";
}

bool sql_is_lone(const struct statement *statement)
{
	return (statement->touches & SQL_TOUCH_BY_NAME) &&
	       sql_kind_of(statement_query(statement)) != SQL_OTHER;
}

struct statement *statements_executed(const struct client *client, struct bytes text)
{
	const struct client_statement *entry = NULL;
	struct sql_statement sql;

	sql_read(text, &sql);
	if (sql.kind == SQL_EXECUTE)
		entry = names_find(client, sql.name);
	return entry ? names_statement(entry) : NULL;
}

/*
 * The statement that a PREPARE makes, as a Parse would make it. The caller owns the result.
 * NULL: no memory.
 */
static struct statement *make_statement(const struct client *client,
                                        const struct sql_statement *sql)
{
	struct statement *statement = NULL;
	struct buf text = { 0 };
	struct bytes scope;

	buf_add(&text, sql->body.at, sql->body.count);
	buf_add_byte(&text, 0);
	buf_add_be16(&text, sql->type_count);
	for (size_t i = 0; i < sql->type_count; i++)
		buf_add_be32(&text, sql->types[i]);
	if (buf_ok(&text) && server_scope(client->borrower.server, &scope))
		statement = statement_of(names_store(client), buf_bytes(&text), scope);
	buf_free(&text);
	return statement;
}

/* ---- messages to the server ---- */

/* Adds a message with another name in its text, in place of `token`. */
static void batch_renamed(struct batch *batch, char type, struct bytes body, struct bytes token,
                          struct bytes name)
{
	const char *behind = token.at + token.count, *end = body.at + body.count;
	char front[FRAME_HEADER_SIZE] = { type };

	store_be32(front + 1, (uint32_t)(4 + body.count - token.count + name.count + 2));
	batch_copy(batch, bytes_of(front, sizeof(front)));
	batch_run(batch, bytes_of(body.at, (size_t)(token.at - body.at)));
	batch_copy(batch, bytes_of("\"", 1));
	batch_copy(batch, name);
	batch_copy(batch, bytes_of("\"", 1));
	batch_run(batch, bytes_of(behind, (size_t)(end - behind)));
}

/* Counts the characters of a text. false: they cannot be counted. */
static bool count_characters(const struct client *client, struct bytes text, uint32_t *count)
{
	const char *encoding = session_encoding(client);
	const char *stored =
	    params_find(client->borrower.server->session.baseline, "server_encoding");
	bool is_utf8 = encoding && strcasecmp(encoding, "UTF8") == 0 && stored &&
	               strcasecmp(stored, "UTF8") == 0;

	*count = 0;
	for (size_t i = 0; i < text.count; i++) {
		if ((text.at[i] & 0x80) && !is_utf8)
			return false;
		*count += (text.at[i] & 0xc0) != 0x80;
	}
	return true;
}

static bool guard(struct client *client, struct batch *batch)
{
	static const char sync[] = { 'S', 0, 0, 0, 4 };

	batch_run(batch, bytes_of(sync, sizeof(sync)));
	return server_note_change(client->borrower.server, LEDGER_SYNC, LEDGER_DROPPED, NULL);
}

/*
 * Prepares the server so that a PREPARE (of `statement`) or DEALLOCATE of the scratch name
 * succeeds or fails as it would with the client's name. Returns the change to note with it.
 * NULL: no memory.
 */
static struct ledger_change *set_stage(struct client *client, enum sql_kind kind, const char *name,
                                       struct statement *statement, struct batch *batch)
{
	bool is_there = names_find(client, name);
	struct ledger_change *change;

	if (!inject_scratch(client, batch, is_there))
		return NULL;
	if (kind == SQL_DEALLOCATE)
		return names_go(client, name);
	if (is_there || kind != SQL_PREPARE)
		return names_mention(client, name, NULL);
	change = names_come(client, name, statement, NULL);
	if (!change)
		return NULL;
	change->statement = NULL; /* the server uses the scratch name */
	names_find(client, name)->is_sql = true;
	names_watch_texts(client);
	return change;
}

/* ---- texts ---- */

/* A text that is one of these statements alone: of a Query, or of a Parse without a name. */
struct lone {
	struct client *client;
	struct batch *batch;
	char type;
	struct bytes body;
	const char *text;
	const struct sql_statement *sql;
};

/*
 * Whether something may be put before the text. JUDGE_SEND: it may. If it is unknown whether the
 * server will skip a Query, nothing can be; if it is known, the Query may have to wait until
 * everything before it is answered.
 */
static enum judgement judge_room(const struct lone *lone)
{
	const struct ledger *ledger = &lone->client->borrower.server->wire.ledger;

	if (lone->type == 'P')
		return JUDGE_SEND;
	if (ledger->is_open || !ledger_is_certain(ledger))
		return refuse(lone->client, 'Q', "after messages without a Sync", lone->batch);
	return ledger_is_empty(ledger) ? JUDGE_SEND : batch_wait(lone->batch, LEDGER_WAIT_EMPTY);
}

/* A Parse: what it prepares takes effect when it is executed. false: no memory. */
static bool remember(const struct lone *lone, struct statement *statement)
{
	return sql_remember(lone->client, lone->sql->kind, lone->sql->name, statement);
}

/*
 * Adds the text with `name` in place of the client's. change: of a Query. is_guarded: something was
 * put before it.
 */
static enum judgement send_renamed(const struct lone *lone, struct bytes name,
                                   struct ledger_change *change, bool is_guarded)
{
	struct client *client = lone->client;
	struct bytes token = lone->sql->token;
	struct bytes before = bytes_of(lone->text, (size_t)(token.at - lone->text));
	struct server_renaming renaming = { .ours = (uint32_t)name.count + 2 };

	renaming.is_known = count_characters(client, before, &renaming.before) &&
	                    count_characters(client, token, &renaming.theirs);
	if (lone->type == 'P')
		client->unnamed->own.sql->renaming = renaming;
	else if (!(change = server_renamed(change, &renaming)) ||
	         !server_note_change(client->borrower.server, LEDGER_QUERY, LEDGER_CLIENT, change))
		return JUDGE_MEMORY;
	batch_renamed(lone->batch, lone->type, lone->body, token, name);
	if (lone->type == 'P')
		return JUDGE_HEAD;
	return !is_guarded || guard(client, lone->batch) ? JUDGE_DROP : JUDGE_MEMORY;
}

/* A PREPARE or DEALLOCATE, or an EXECUTE of a reserved name that the client does not have. */
static enum judgement on_stage(const struct lone *lone)
{
	struct client *client = lone->client;
	const struct sql_statement *sql = lone->sql;
	enum judgement judgement = judge_room(lone);
	struct ledger_change *change = NULL;
	struct statement *statement = NULL;
	struct err err;
	bool is_good;

	if (judgement != JUDGE_SEND)
		return judgement;
	if (sql->kind == SQL_PREPARE && !(statement = make_statement(client, sql)))
		return JUDGE_MEMORY;
	if (statement && !names_have_room(client, statement, &err)) {
		statement_release(&statement);
		return statements_refuse(client, lone->type, &err, lone->batch);
	}
	if (lone->type == 'Q') {
		change = set_stage(client, sql->kind, sql->name, statement, lone->batch);
		is_good = change;
	} else {
		is_good = remember(lone, statement);
	}
	statement_release(&statement);
	return is_good ? send_renamed(lone, bytes_text(SCRATCH_NAME), change, true) : JUDGE_MEMORY;
}

/* An EXECUTE as a Query is executed now, that of a Parse with its Bind. JUDGE_SEND: go on. */
static enum judgement use_now(const struct lone *lone, struct statement *statement)
{
	struct client *client = lone->client;
	unsigned int touches = session_statement_touches(client, statement);
	enum judgement judgement =
	    statements_run(client, 'Q', touches, statement_query(statement), true, lone->batch);

	if (touches && judgement == JUDGE_SEND)
		session_use_execute(client, statement, bytes_text(lone->text));
	return judgement;
}

static enum judgement execute(const struct lone *lone, struct client_statement *entry)
{
	struct client *client = lone->client;
	enum judgement judgement = names_enter(client, entry, lone->type, lone->batch);
	struct statement *statement = names_statement(entry);
	struct ledger_change *change = NULL;
	bool is_there;

	/* PostgreSQL runs its text as it is, whose name need not be the client's. */
	if (judgement == JUDGE_SEND && !session_is_followed(client) && sql_is_lone(statement))
		judgement = refuse(client, lone->type, "within an EXECUTE", lone->batch);
	if (judgement == JUDGE_SEND && lone->type == 'Q')
		judgement = use_now(lone, statement);
	is_there = statements_has(client, statement);
	if (judgement == JUDGE_SEND && !is_there)
		judgement = judge_room(lone);
	if (judgement != JUDGE_SEND)
		return judgement;
	if (!inject_statement(client, lone->batch, statement, NULL))
		return JUDGE_MEMORY;
	if (lone->type == 'P') {
		if (!remember(lone, statement))
			return JUDGE_MEMORY;
	} else {
		entry->use_count++;
		change = &entry->use;
	}
	return send_renamed(lone, statement_name(statement), change, !is_there);
}

/* What all statements are dropped by was sent. When the server has done it, names_forget() comes.
 */
static void expect_loss(struct client *client)
{
	if (client->names)
		client->names->is_forgetting = true;
}

/*
 * Whether only the server knows what the name is. It may also have statements under names of the
 * client that are not followed: then it says whether a name is taken, and what it prepares makes it
 * stay.
 */
static bool is_for_server(const struct client *client, const struct sql_statement *sql,
                          const struct client_statement *entry)
{
	if (entry)
		return entry->is_exposed;
	if (sql->kind != SQL_PREPARE) /* a Query of several statements may have prepared it */
		return !statement_name_is_reserved(sql->name);
	return (client->touched & SQL_TOUCH_PREPARE) ||
	       (session_stays(client) && (client->session->pins & SESSION_PIN_STATEMENT));
}

/* The text is sent as it is. */
static enum judgement leave_to_server(const struct lone *lone, const struct client_statement *entry)
{
	struct client *client = lone->client;

	if (entry || lone->sql->kind == SQL_PREPARE)
		session_run_unknown(client);
	if (lone->type == 'P')
		return JUDGE_SEND;
	session_use_execute(client, NULL, bytes_text(lone->text));
	if (!entry || lone->sql->kind != SQL_DEALLOCATE)
		return JUDGE_SEND;
	return statements_note(client, LEDGER_QUERY, LEDGER_CLIENT,
	                       names_go(client, lone->sql->name), JUDGE_HEAD);
}

static enum judgement judge(const struct lone *lone)
{
	struct client *client = lone->client;
	const struct sql_statement *sql = lone->sql;
	struct client_statement *entry;

	if (sql->kind == SQL_OTHER || server_is_in_failed_block(client->borrower.server))
		return JUDGE_SEND;
	if (sql->kind == SQL_UNSURE && (lone->type == 'P' || !session_is_followed(client)))
		return refuse(client, lone->type, sql->reason, lone->batch);
	if (sql->kind == SQL_UNSURE) {
		/* The names that it may use are exposed; what it prepares makes the server stay. */
		session_run_unknown(client);
		return JUDGE_SEND;
	}
	if (sql->kind == SQL_FORGET && lone->type == 'P')
		return remember(lone, NULL) ? JUDGE_SEND : JUDGE_MEMORY;
	if (sql->kind == SQL_FORGET) {
		expect_loss(client);
		return JUDGE_SEND;
	}
	entry = names_find(client, sql->name);
	if (names_are_unsure(client, entry, lone->batch))
		return JUDGE_WAIT;
	if (is_for_server(client, sql, entry))
		return leave_to_server(lone, entry);
	return sql->kind == SQL_EXECUTE && entry ? execute(lone, entry) : on_stage(lone);
}

/*
 * The text is complete if it may contain one of these statements: statements_judge.c has kept it
 * until it was.
 */
static enum judgement judge_text(struct client *client, char type, struct bytes body,
                                 const char *text, struct batch *batch)
{
	struct sql_statement sql;

	read_text(client, text, &sql);
	return judge(&(struct lone){ client, batch, type, body, text, &sql });
}

enum judgement sql_query(struct client *client, const struct frame *frame, struct bytes in,
                         struct batch *batch)
{
	struct bytes have = frame_received(in, frame);
	const char *text;

	if (client->borrower.server->wire.ledger.copy)
		return JUDGE_SEND; /* in COPY mode a Query only makes the COPY fail */
	if (sql_is_other(have) || in.count < frame->length || fields_text(have, &text) != WIRE_OK)
		return JUDGE_SEND;
	return judge_text(client, 'Q', have, text, batch);
}

enum judgement sql_parse(struct client *client, struct bytes body, size_t length,
                         struct batch *batch)
{
	struct parse_fields parse;

	sql_drop(&client->unnamed->own.sql);
	if (body.count < length || sql_glance(bytes_skip(body, 1)) != WIRE_OK ||
	    fields_parse(body, &parse) != WIRE_OK)
		return JUDGE_SEND;
	return judge_text(client, 'P', body, parse.query, batch);
}

/* ---- the extended protocol ---- */

bool sql_remember(struct client *client, enum sql_kind kind, const char *name,
                  struct statement *statement)
{
	struct sql_unnamed *sql = calloc(1, sizeof(*sql));

	if (!sql)
		return false;
	sql->kind = kind;
	sql->statement = statement ? statement_hold(statement) : NULL;
	memcpy(sql->name, name, strlen(name) + 1);
	client->unnamed->own.sql = sql;
	return true;
}

enum judgement sql_bind(struct client *client, const char *portal, const char *statement,
                        struct batch *batch)
{
	struct sql_unnamed *sql = unnamed_sql(client);

	if (*portal && !*statement && sql->kind != SQL_EXECUTE && sql->kind != SQL_FORGET)
		return refuse(client, 'B', "in a portal that has a name", batch);
	if (!*statement && sql->kind == SQL_FORGET)
		expect_loss(client);
	if (!*portal)
		sql->is_bound = !*statement;
	return JUDGE_SEND;
}

enum judgement sql_execute(struct client *client, const char *portal, struct batch *batch)
{
	struct server *server = client->borrower.server;
	struct sql_unnamed *sql = unnamed_sql(client);
	struct ledger_change *change;

	if (*portal || !sql->is_bound || sql->kind == SQL_FORGET)
		return JUDGE_SEND;
	if (names_are_unsure(client, names_find(client, sql->name), batch))
		return JUDGE_WAIT;
	if (sql->kind == SQL_EXECUTE && sql->statement) {
		if (!server_statements_is_sure(&server->session.statements, sql->statement))
			return batch_wait(batch, LEDGER_WAIT_READY);
		if (!inject_statement(client, batch, sql->statement, NULL))
			return JUDGE_MEMORY;
		change = names_mention(client, sql->name, sql->statement);
	} else {
		change = set_stage(client, sql->kind, sql->name, sql->statement, batch);
	}
	if (change)
		change = server_renamed(change, &sql->renaming);
	return statements_note(client, LEDGER_EXECUTE, LEDGER_CLIENT, change, JUDGE_HEAD);
}
