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
#include "names_priv.h"

void sql_forget(struct client *client)
{
	struct sql_unnamed *sql = client->sql;

	if (!sql)
		return;
	client->sql = NULL;
	statement_release(&sql->statement);
	free(sql);
}

/* ---- unsupported ---- */

static void set_err(struct err *err, const char *reason)
{
	err_set(err, ERR_UNSUPPORTED,
	        "PREPARE, EXECUTE and DEALLOCATE cannot be tracked %s: in this pool mode, use "
	        "the protocol's prepared statements, or send each one alone in a simple query",
	        reason);
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

/*
 * Whether the server may have statements under names of the client that are not followed: then it
 * says whether a name is taken, and what it prepares makes it stay.
 */
static bool has_unfollowed(const struct client *client)
{
	return (client->touched & SQL_TOUCH_PREPARE) ||
	       (session_stays(client) && (client->session->pins & SESSION_PIN_STATEMENT));
}

static bool is_left_to_server(struct client *client, const struct sql_statement *sql)
{
	bool is_left =
	    exposed_has(client, sql->name) ||
	    (sql->kind == SQL_PREPARE && !names_find(client, sql->name) && has_unfollowed(client));

	if (is_left)
		session_run_unknown(client);
	return is_left;
}

bool sql_is_by_name(struct bytes text, bool *is_forgetting)
{
	struct sql_statement sql;

	*is_forgetting = false;
	if (sql_glance(text, true) != WIRE_OK)
		return false;
	sql_read(text, &sql);
	*is_forgetting = sql.kind == SQL_FORGET;
	return sql.kind != SQL_OTHER && sql.kind != SQL_FORGET;
}

enum judgement sql_before_named(struct client *client, const char *text, struct batch *batch)
{
	const struct client_statement *entry;
	struct sql_statement sql;
	struct err err;

	if (names_are_unsure(client))
		return batch_wait(batch, LEDGER_WAIT_READY);
	read_text(client, text, &sql);
	entry = names_find(client, sql.name);
	if (!session_is_followed(client) || sql.kind == SQL_UNSURE ||
	    (entry && !exposed_has(client, sql.name) && !exposed_can(client, entry))) {
		set_err(&err, "in a statement that has a name itself");
		return inject_refuse(client, &err, batch);
	}
	if (!entry || exposed_has(client, sql.name))
		return JUDGE_SEND;
	return exposed_add(client, entry, batch) ? JUDGE_SEND : JUDGE_MEMORY;
}

enum judgement sql_refuse_query(struct client *client, const struct err *err, struct batch *batch)
{
	MESSAGE_STATIC(query, 'Q', "EXECUTE \"\"");
	struct refusal *refusal = inject_refusal(err);

	if (!refusal)
		return JUDGE_MEMORY;
	batch_run(batch, MESSAGE_BYTES(query));
	return server_note_change(client->borrower.server, LEDGER_REFUSED_QUERY, LEDGER_CLIENT,
	                          &refusal->base)
	           ? JUDGE_DROP
	           : JUDGE_MEMORY;
}

/* Refuses a Query that cannot be tracked. */
static enum judgement refuse_query(struct client *client, const char *reason, struct batch *batch)
{
	struct err err;

	set_err(&err, reason);
	return sql_refuse_query(client, &err, batch);
}

/* ---- changes ---- */

/* Changes nothing. It has the client's name, which replaces the server's name in an error. */
struct renaming {
	struct ledger_change base;
	struct statement *statement; /* holds one reference; or NULL */
	char name[SQL_NAME_MAX + 1];
};

static void settle_renaming(struct ledger_change *change, bool is_done)
{
	struct renaming *renaming = (struct renaming *)change;

	(void)is_done;
	statement_release(&renaming->statement);
	free(renaming);
}

/* statement: the server knows it by this statement's name. NULL: by the scratch name. */
static struct ledger_change *rename_only(const char *name, struct statement *statement)
{
	struct renaming *renaming = calloc(1, sizeof(*renaming));

	if (!renaming)
		return NULL;
	memcpy(renaming->name, name, strlen(name) + 1);
	renaming->statement = statement ? statement_hold(statement) : NULL;
	renaming->base =
	    (struct ledger_change){ settle_renaming, renaming->statement, renaming->name };
	return &renaming->base;
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

static bool close_scratch(struct client *client, struct batch *batch)
{
	inject_named(batch, 'C', bytes_text(SCRATCH_NAME));
	return server_note_change(client->borrower.server, LEDGER_CLOSE, LEDGER_DROPPED, NULL);
}

/* Makes the scratch name exist, with an empty statement: that works in a failed transaction too. */
static bool take_scratch(struct client *client, struct batch *batch)
{
	MESSAGE_STATIC(parse, 'P', SCRATCH_NAME "\0\0\0");

	if (!close_scratch(client, batch))
		return false;
	batch_run(batch, MESSAGE_BYTES(parse));
	return server_note_change(client->borrower.server, LEDGER_PARSE, LEDGER_DROPPED, NULL);
}

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

/* `name`, quoted, replaces a token of the text. */
static struct server_renaming renaming_of(const struct client *client, const char *text,
                                          struct bytes token, struct bytes name)
{
	struct server_renaming renaming = { .ours = (uint32_t)name.count + 2 };
	struct bytes before = bytes_of(text, (size_t)(token.at - text));

	renaming.is_known = count_characters(client, before, &renaming.before) &&
	                    count_characters(client, token, &renaming.theirs);
	return renaming;
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

	if (!(is_there ? take_scratch(client, batch) : close_scratch(client, batch)))
		return NULL;
	if (kind == SQL_PREPARE && !is_there)
		change = names_come(client, name, statement, NULL);
	else if (kind == SQL_DEALLOCATE && is_there)
		change = names_go(client, name);
	else
		change = rename_only(name, NULL);
	if (change)
		change->statement = NULL; /* the server uses the scratch name */
	if (change && kind == SQL_PREPARE && !is_there) {
		names_find(client, name)->is_sql = true;
		names_watch_texts(client);
	}
	return change;
}

/* ---- Query ---- */

static const char no_sync[] = "after messages without a Sync";

/* A Query that was parsed. */
struct query {
	struct client *client;
	struct batch *batch;
	struct bytes body;
	const struct sql_statement *sql;
};

static struct bytes text_of(const struct query *query)
{
	return bytes_of(query->body.at, query->body.count - 1);
}

/*
 * Whether it is unknown if the server will skip a Query: then nothing can be put before the
 * Query. If it is known, the Query may have to wait until everything before it is answered.
 */
static bool is_unclear(const struct client *client)
{
	const struct ledger *ledger = &client->borrower.server->wire.ledger;

	return ledger->is_open || !ledger_is_certain(ledger);
}

/* A PREPARE or DEALLOCATE, or an EXECUTE of a reserved name that the client does not have. */
static enum judgement on_stage(const struct query *query)
{
	struct client *client = query->client;
	const struct sql_statement *sql = query->sql;
	struct statement *statement = NULL;
	struct server_renaming renaming;
	struct ledger_change *change;
	struct err err;

	if (is_unclear(client))
		return refuse_query(client, no_sync, query->batch);
	if (!ledger_is_empty(&client->borrower.server->wire.ledger))
		return batch_wait(query->batch, LEDGER_WAIT_EMPTY);
	if (sql->kind == SQL_PREPARE) {
		statement = make_statement(client, sql);
		if (!statement)
			return JUDGE_MEMORY;
		if (!names_have_room(client, statement, &err)) {
			statement_release(&statement);
			return sql_refuse_query(client, &err, query->batch);
		}
	}
	change = set_stage(client, sql->kind, sql->name, statement, query->batch);
	statement_release(&statement);
	if (!change)
		return JUDGE_MEMORY;
	renaming = renaming_of(client, query->body.at, sql->token, bytes_text(SCRATCH_NAME));
	change = server_renamed(change, &renaming);
	if (!change ||
	    !server_note_change(client->borrower.server, LEDGER_QUERY, LEDGER_CLIENT, change))
		return JUDGE_MEMORY;
	batch_renamed(query->batch, 'Q', query->body, sql->token, bytes_text(SCRATCH_NAME));
	return guard(client, query->batch) ? JUDGE_DROP : JUDGE_MEMORY;
}

/* A statement is executed by its name. false: it must be refused with *err. */
static bool use_statement(struct client *client, struct statement *statement, struct batch *batch,
                          struct err *err)
{
	unsigned int touches = session_statement_touches(client, statement);

	return !touches ||
	       session_use(client, touches, session_text_of(statement, batch), true, err);
}

static enum judgement execute_known(const struct query *query, struct client_statement *entry)
{
	struct client *client = query->client;
	struct server *server = client->borrower.server;
	enum judgement judgement = JUDGE_SEND;
	struct server_renaming renaming;
	struct ledger_change *change;
	unsigned int touches;
	struct bytes name;
	struct err err;
	bool is_there;

	if (!names_enter_scope(client, entry))
		return JUDGE_MEMORY;
	touches = session_statement_touches(client, names_statement(entry));
	if (touches)
		judgement = place_before(client, touches,
		                         bytes_text(statement_text(names_statement(entry)).at),
		                         query->batch);
	if (judgement != JUDGE_SEND)
		return judgement;
	if (!use_statement(client, names_statement(entry), query->batch, &err))
		return sql_refuse_query(client, &err, query->batch);
	if (touches)
		session_use_execute(client, names_statement(entry), text_of(query));
	is_there = server_statements_use(&server->session.statements, names_statement(entry)) &&
	           !server_statements_is_stale(&server->session.statements, names_statement(entry));
	if (!server_statements_is_sure(&server->session.statements, names_statement(entry)))
		return batch_wait(query->batch, LEDGER_WAIT_READY);
	if (!names_can_run(client, entry, true, &err))
		return sql_refuse_query(client, &err, query->batch);
	if (!is_there && is_unclear(client))
		return refuse_query(client, no_sync, query->batch);
	if (!is_there && !ledger_is_empty(&server->wire.ledger))
		return batch_wait(query->batch, LEDGER_WAIT_EMPTY);
	if (!inject_statement(client, query->batch, names_statement(entry), NULL))
		return JUDGE_MEMORY;
	entry->use_count++;
	name = statement_name(names_statement(entry));
	renaming = renaming_of(client, query->body.at, query->sql->token, name);
	change = server_renamed(&entry->use, &renaming);
	if (!change || !server_note_change(server, LEDGER_QUERY, LEDGER_CLIENT, change))
		return JUDGE_MEMORY;
	batch_renamed(query->batch, 'Q', query->body, query->sql->token, name);
	return is_there || guard(client, query->batch) ? JUDGE_DROP : JUDGE_MEMORY;
}

/*
 * All statements will be dropped: what the server knows is unsure for later messages. NULL:
 * no memory.
 */
static struct ledger_change *forget_all(struct client *client)
{
	server_statements_distrust_sent(&client->borrower.server->session.statements);
	return names_go_all(client);
}

static enum judgement judge_forget(struct client *client, struct batch *batch)
{
	struct ledger_change *change;

	if (names_are_unsure(client))
		return batch_wait(batch, LEDGER_WAIT_READY);
	change = forget_all(client);
	return change && server_note_change(client->borrower.server, LEDGER_QUERY, LEDGER_CLIENT,
	                                    change)
	           ? JUDGE_HEAD
	           : JUDGE_MEMORY;
}

static enum judgement judge_query(const struct query *query)
{
	struct client *client = query->client;
	const struct sql_statement *sql = query->sql;
	struct client_statement *entry;

	if (sql->kind == SQL_OTHER || server_is_in_failed_block(client->borrower.server))
		return JUDGE_SEND;
	if (sql->kind == SQL_FORGET)
		return judge_forget(client, query->batch);
	if (sql->kind == SQL_UNSURE && session_is_followed(client)) {
		/* The names that it may use are exposed; what it prepares makes the server stay. */
		session_run_unknown(client);
		return JUDGE_SEND;
	}
	if (sql->kind == SQL_UNSURE)
		return refuse_query(client, sql->reason, query->batch);
	if (names_are_unsure(client))
		return batch_wait(query->batch, LEDGER_WAIT_READY);
	if (is_left_to_server(client, sql)) {
		session_use_execute(client, NULL, text_of(query));
		return JUDGE_SEND;
	}
	entry = names_find(client, sql->name);
	if (sql->kind != SQL_PREPARE && !entry && !statement_name_is_reserved(sql->name)) {
		/* a Query of several statements may have prepared the name */
		session_use_execute(client, NULL, text_of(query));
		return JUDGE_SEND;
	}
	return sql->kind == SQL_EXECUTE && entry ? execute_known(query, entry) : on_stage(query);
}

/*
 * Whether the text may contain one of these statements. If so, statements_judge.c has kept it until
 * it was complete.
 */
static bool is_worth_reading(struct bytes have, bool is_whole)
{
	return is_whole && sql_glance(have, true) == WIRE_OK;
}

enum judgement sql_query(struct client *client, const struct frame *frame, struct bytes in,
                         struct batch *batch)
{
	struct bytes have = frame_received(in, frame);
	struct sql_statement sql;
	const char *text;

	sql_forget(client);
	if (client->borrower.server->wire.ledger.is_copying)
		return JUDGE_SEND; /* in COPY mode a Query only makes the COPY fail */
	if (sql_is_other(have) || !is_worth_reading(have, in.count >= frame->length) ||
	    fields_text(have, &text) != WIRE_OK)
		return JUDGE_SEND;
	read_text(client, text, &sql);
	return judge_query(&(struct query){ client, batch, have, &sql });
}

/* ---- the extended protocol ---- */

bool sql_remember(struct client *client, const struct sql_statement *read,
                  struct statement *statement)
{
	struct sql_unnamed *sql = calloc(1, sizeof(*sql));

	if (!sql)
		return false;
	sql->kind = read->kind;
	sql->statement = statement ? statement_hold(statement) : NULL;
	memcpy(sql->name, read->name, sizeof(sql->name));
	client->sql = sql;
	return true;
}

static enum judgement parse_execute(struct client *client, const struct sql_statement *sql,
                                    struct client_statement *entry, struct bytes body,
                                    struct batch *batch)
{
	struct server *server = client->borrower.server;
	struct err err;

	if (!names_enter_scope(client, entry))
		return JUDGE_MEMORY;
	if (!server_statements_is_sure(&server->session.statements, names_statement(entry)))
		return batch_wait(batch, LEDGER_WAIT_READY);
	if (!names_can_run(client, entry, true, &err))
		return inject_refuse(client, &err, batch);
	if (!inject_statement(client, batch, names_statement(entry), NULL) ||
	    !sql_remember(client, sql, names_statement(entry)))
		return JUDGE_MEMORY;
	client->sql->renaming =
	    renaming_of(client, body.at + 1, sql->token, statement_name(names_statement(entry)));
	batch_renamed(batch, 'P', body, sql->token, statement_name(names_statement(entry)));
	return JUDGE_HEAD;
}

static enum judgement parse_on_stage(struct client *client, const struct sql_statement *sql,
                                     struct bytes body, struct batch *batch)
{
	struct statement *statement = NULL;
	struct err err;
	bool is_good;

	if (sql->kind == SQL_PREPARE && !(statement = make_statement(client, sql)))
		return JUDGE_MEMORY;
	if (statement && !names_have_room(client, statement, &err)) {
		statement_release(&statement);
		return inject_refuse(client, &err, batch);
	}
	is_good = sql_remember(client, sql, statement);
	statement_release(&statement);
	if (!is_good)
		return JUDGE_MEMORY;
	client->sql->renaming =
	    renaming_of(client, body.at + 1, sql->token, bytes_text(SCRATCH_NAME));
	batch_renamed(batch, 'P', body, sql->token, bytes_text(SCRATCH_NAME));
	return JUDGE_HEAD;
}

static enum judgement judge_parse(struct client *client, const struct sql_statement *sql,
                                  struct bytes body, struct batch *batch)
{
	struct client_statement *entry;
	struct err err;

	if (sql->kind == SQL_OTHER || server_is_in_failed_block(client->borrower.server))
		return JUDGE_SEND;
	if (sql->kind == SQL_UNSURE) {
		set_err(&err, sql->reason);
		return inject_refuse(client, &err, batch);
	}
	if (sql->kind == SQL_FORGET)
		return sql_remember(client, sql, NULL) ? JUDGE_SEND : JUDGE_MEMORY;
	if (names_are_unsure(client))
		return batch_wait(batch, LEDGER_WAIT_READY);
	if (is_left_to_server(client, sql))
		return JUDGE_SEND;
	entry = names_find(client, sql->name);
	if (sql->kind == SQL_EXECUTE && entry)
		return parse_execute(client, sql, entry, body, batch);
	if (sql->kind == SQL_PREPARE || entry || statement_name_is_reserved(sql->name))
		return parse_on_stage(client, sql, body, batch);
	return JUDGE_SEND;
}

enum judgement sql_parse(struct client *client, struct bytes body, size_t length,
                         struct batch *batch)
{
	struct parse_fields parse;
	struct sql_statement sql;

	sql_forget(client);
	if (!is_worth_reading(bytes_skip(body, 1), body.count == length) ||
	    fields_parse(body, &parse) != WIRE_OK)
		return JUDGE_SEND;
	read_text(client, parse.query, &sql);
	return judge_parse(client, &sql, body, batch);
}

enum judgement sql_bind(struct client *client, const char *portal, const char *statement,
                        struct batch *batch)
{
	struct err err;

	batch->is_query = false;
	if (!*statement && client->sql->kind == SQL_EXECUTE && client->sql->statement &&
	    !use_statement(client, client->sql->statement, batch, &err))
		return inject_refuse(client, &err, batch);
	if (*portal && !*statement && client->sql->kind != SQL_EXECUTE &&
	    client->sql->kind != SQL_FORGET) {
		set_err(&err, "in a portal that has a name");
		return inject_refuse(client, &err, batch);
	}
	if (*portal && client->sql->kind == SQL_FORGET)
		server_statements_distrust_sent(
		    &client->borrower.server->session.statements); /* its Execute is not examined */
	if (!*portal)
		client->sql->is_bound = !*statement;
	return JUDGE_SEND;
}

enum judgement sql_execute(struct client *client, const char *portal, struct batch *batch)
{
	struct server *server = client->borrower.server;
	struct sql_unnamed *sql = client->sql;
	struct ledger_change *change;

	if (*portal || !sql->is_bound)
		return JUDGE_SEND;
	if (names_are_unsure(client))
		return batch_wait(batch, LEDGER_WAIT_READY);
	if (sql->kind == SQL_EXECUTE && sql->statement) {
		if (!server_statements_is_sure(&server->session.statements, sql->statement))
			return batch_wait(batch, LEDGER_WAIT_READY);
		if (!inject_statement(client, batch, sql->statement, NULL))
			return JUDGE_MEMORY;
		change = rename_only(sql->name, sql->statement);
	} else if (sql->kind == SQL_FORGET) {
		change = forget_all(client);
	} else {
		change = set_stage(client, sql->kind, sql->name, sql->statement, batch);
	}
	if (change && sql->kind != SQL_FORGET)
		change = server_renamed(change, &sql->renaming);
	return change && server_note_change(server, LEDGER_EXECUTE, LEDGER_CLIENT, change)
	           ? JUDGE_HEAD
	           : JUDGE_MEMORY;
}
