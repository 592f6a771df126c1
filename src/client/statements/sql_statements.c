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
 * PREPARE, the text becomes a statement like any other, with the types that a Describe of the
 * scratch name tells.
 *
 * Hard here: a message that is injected before a Query may fail. Then the server skips
 * everything up to a Sync, also the Query, and the client does not send a Sync after a
 * Query. So a Sync of ours follows: see LEDGER_DROPPED.
 *
 * In the extended protocol a Parse is sent as it is. What its text means by a name is found with
 * each use: ahead of a Bind, the text with our name is parsed as the unnamed statement. Nothing
 * takes effect before the Execute, so what is bound to the unnamed portal is kept until then.
 */
#include "statements_priv.h"

#include <stdlib.h>

#include "pgweir/pgwire/message.h"

/* What the unnamed portal is going to execute. */
struct sql_portal {
	bool is_execute;             /* else PREPARE, or DEALLOCATE, which has no statement */
	struct statement *statement; /* holds one reference; or NULL */
	struct server_renaming renaming;
	char name[SQL_NAME_MAX + 1]; /* the client's name for the statement */
};

void sql_drop_portal(struct client *client)
{
	struct sql_portal *portal = client->unnamed ? client->unnamed->portal : NULL;

	if (!portal)
		return;
	client->unnamed->portal = NULL;
	statement_release(&portal->statement);
	free(portal);
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
 * The statement that a PREPARE makes, as a Parse would make it, but without its types: see
 * ask_types(). The caller owns the result. NULL: no memory.
 */
static struct statement *make_statement(const struct client *client,
                                        const struct sql_statement *sql)
{
	struct statement *statement = NULL;
	struct buf text = { 0 };
	struct bytes scope;

	buf_add(&text, sql->body.at, sql->body.count);
	buf_add_byte(&text, 0);
	buf_add_be16(&text, 0);
	if (buf_ok(&text) && server_scope(client->borrower.server, &scope))
		statement =
		    statement_of(&client->clients->pools->statements, buf_bytes(&text), scope);
	buf_free(&text);
	return statement;
}

/* ---- messages to the server ---- */

/* Adds a message with another name in its text, in place of `token`. */
static void batch_renamed(struct batch *batch, char type, struct bytes body, struct bytes token,
                          struct bytes name)
{
	const char *behind = token.at + token.count, *end = body.at + body.count;

	batch_header(batch, type, body.count - token.count + name.count + 2);
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

/*
 * Has the scratch name described to us, behind the PREPARE that has made it: only PostgreSQL knows
 * which types the text names, and which it has found. false: no memory.
 */
static bool ask_types(struct client *client, struct client_statement *entry, struct batch *batch,
                      enum ledger_fate fate)
{
	struct ledger_change *change = names_await_types(client, entry);

	inject_named(batch, 'D', bytes_text(SCRATCH_NAME));
	return change && server_note_change(client->borrower.server, LEDGER_TYPES, fate, change);
}

/*
 * Prepares the server so that a PREPARE of the scratch name, or a DEALLOCATE (statement NULL),
 * succeeds or fails as it would with the client's name. Returns the change to note with it. NULL:
 * no memory. *made: the name that the PREPARE makes; else NULL.
 */
static struct ledger_change *set_stage(struct client *client, const char *name,
                                       struct statement *statement, struct batch *batch,
                                       struct client_statement **made)
{
	struct client_statement *entry = names_find(client, name);
	struct ledger_change *change;

	*made = NULL;
	if (!inject_scratch(client, batch, entry))
		return NULL;
	if (entry && !statement)
		return names_go(client, entry);
	if (entry || !statement)
		return names_mention(client, name, NULL);
	change = names_come(client, name, statement, NULL);
	if (!change)
		return NULL;
	change->statement = NULL; /* the server uses the scratch name */
	*made = names_find(client, name);
	(*made)->is_sql = true;
	client->features |= CLIENT_HAS_SQL_NAMES;
	return change;
}

/* ---- texts ---- */

/* A text that is one of these statements alone. */
struct lone {
	struct client *client;
	struct batch *batch;
	char type;            /* 'Q': of a Query; 'P': of a statement that is bound or described */
	const char *portal;   /* to which it is bound; NULL: it is described */
	unsigned int touches; /* of such a text */
	struct bytes body;    /* of a Query, or of its Parse without a name */
	const char *text;
	const struct sql_statement *sql;
};

/* Whether it is going to be executed. */
static bool is_run(const struct lone *lone) { return lone->type == 'Q' || lone->portal; }

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

/* Where `name` is in the text, in place of the client's. */
static struct server_renaming renaming_of(const struct lone *lone, struct bytes name)
{
	struct bytes token = lone->sql->token;
	struct bytes before = bytes_of(lone->text, (size_t)(token.at - lone->text));
	struct server_renaming renaming = { .ours = (uint32_t)name.count + 2 };

	renaming.is_known = count_characters(lone->client, before, &renaming.before) &&
	                    count_characters(lone->client, token, &renaming.theirs);
	return renaming;
}

/* It is bound: it takes effect when it is executed. false: no memory. */
static bool remember(const struct lone *lone, struct bytes name, struct statement *statement)
{
	struct sql_portal *portal = calloc(1, sizeof(*portal));

	if (!portal)
		return false;
	portal->is_execute = lone->sql->kind == SQL_EXECUTE;
	portal->statement = statement ? statement_hold(statement) : NULL;
	portal->renaming = renaming_of(lone, name);
	memcpy(portal->name, lone->sql->name, sizeof(portal->name));
	lone->client->unnamed->portal = portal;
	return true;
}

/*
 * Adds a Parse without a name of the text with `name`, that of the statement, in place of the
 * client's. JUDGE_HEAD: done.
 */
static enum judgement parse_renamed(const struct lone *lone, struct bytes name,
                                    struct statement *statement)
{
	if (!unnamed_lend(lone->client, lone->batch) ||
	    (lone->portal && !*lone->portal && !remember(lone, name, statement)))
		return JUDGE_MEMORY;
	batch_renamed(lone->batch, 'P', lone->body, lone->sql->token, name);
	lone->batch->is_borrowed = true;
	return server_note_change(lone->client->borrower.server, LEDGER_PARSE, LEDGER_DROPPED, NULL)
	           ? JUDGE_HEAD
	           : JUDGE_MEMORY;
}

/* Adds a Query with `name` in place of the client's. Owns the change. false: no memory. */
static bool query_renamed(const struct lone *lone, struct bytes name, struct ledger_change *change)
{
	struct server_renaming renaming = renaming_of(lone, name);

	batch_renamed(lone->batch, 'Q', lone->body, lone->sql->token, name);
	change = names_rename(change, &renaming);
	return change && server_note_change(lone->client->borrower.server, LEDGER_QUERY,
	                                    LEDGER_CLIENT, change);
}

/* A Query that is a PREPARE, or a DEALLOCATE. false: no memory. */
static bool query_on_stage(const struct lone *lone, struct statement *statement)
{
	struct client *client = lone->client;
	struct client_statement *made;
	struct ledger_change *change =
	    set_stage(client, lone->sql->name, statement, lone->batch, &made);

	if (!query_renamed(lone, bytes_text(SCRATCH_NAME), change))
		return false;
	if (!made)
		return batch_sync(lone->batch, client->borrower.server, LEDGER_DROPPED);
	/* If the PREPARE has failed, so does this, which is nobody's; else see ledger_reply(). */
	return ask_types(client, made, lone->batch, LEDGER_OURS) &&
	       batch_sync(lone->batch, client->borrower.server, LEDGER_OURS);
}

/* A PREPARE, or a DEALLOCATE of a name that the client has. */
static enum judgement on_stage(const struct lone *lone)
{
	struct client *client = lone->client;
	const struct sql_statement *sql = lone->sql;
	enum judgement judgement = judge_room(lone);
	struct statement *statement = NULL;
	struct err err;

	if (judgement == JUDGE_SEND && lone->portal && *lone->portal)
		judgement = refuse(client, 'P', "in a portal that has a name", lone->batch);
	if (judgement == JUDGE_SEND)
		judgement = statements_run(client, 'P', lone->touches, bytes_text(lone->text), true,
		                           lone->batch);
	if (judgement != JUDGE_SEND)
		return judgement;
	if (sql->kind == SQL_PREPARE && is_run(lone) && !(statement = make_statement(client, sql)))
		return JUDGE_MEMORY;
	if (statement && !names_have_room(client, sql->name, statement, &err))
		judgement = statements_refuse(client, lone->type, &err, lone->batch);
	else if (lone->type == 'Q')
		judgement = query_on_stage(lone, statement) ? JUDGE_DROP : JUDGE_MEMORY;
	else
		judgement = parse_renamed(lone, bytes_text(SCRATCH_NAME), statement);
	statement_release(&statement);
	return judgement;
}

/* An EXECUTE is executed by its Query, or with its Bind. JUDGE_SEND: go on. */
static enum judgement use_now(const struct lone *lone, struct statement *statement)
{
	struct client *client = lone->client;
	struct bytes text = bytes_text(lone->text);
	unsigned int touches = session_statement_touches(client, statement);
	enum judgement judgement = statements_run(client, lone->type, touches,
	                                          statement_query(statement), true, lone->batch);

	if (judgement == JUDGE_SEND)
		judgement = statements_run(client, 'P', lone->touches, text, true, lone->batch);
	if (touches && judgement == JUDGE_SEND)
		session_use_execute(client, statement, text);
	return judgement;
}

static enum judgement execute(const struct lone *lone, struct client_statement *entry)
{
	struct client *client = lone->client;
	enum judgement judgement = names_enter(client, entry, lone->type, lone->batch);
	struct statement *statement = names_statement(entry);
	bool is_there;

	/* PostgreSQL runs its text as it is, whose name need not be the client's. */
	if (judgement == JUDGE_SEND && !session_is_followed(client) && sql_is_lone(statement))
		judgement = refuse(client, lone->type, "within an EXECUTE", lone->batch);
	if (judgement == JUDGE_SEND && is_run(lone))
		judgement = use_now(lone, statement);
	is_there =
	    server_statements_use(&client->borrower.server->session.statements, statement, true);
	if (judgement == JUDGE_SEND && !is_there)
		judgement = judge_room(lone);
	if (judgement != JUDGE_SEND)
		return judgement;
	if (!inject_statement(client, lone->batch, statement, NULL))
		return JUDGE_MEMORY;
	if (lone->type == 'P')
		return parse_renamed(lone, statement_name(statement), statement);
	return query_renamed(lone, statement_name(statement),
	                     names_mention(client, entry->name, statement)) &&
	               (is_there ||
	                batch_sync(lone->batch, client->borrower.server, LEDGER_DROPPED))
	           ? JUDGE_DROP
	           : JUDGE_MEMORY;
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
static enum judgement leave_to_server(const struct lone *lone, struct client_statement *entry)
{
	struct client *client = lone->client;

	if (!is_run(lone))
		return JUDGE_SEND;
	if (entry || lone->sql->kind == SQL_PREPARE)
		session_run_unknown(client);
	session_use_execute(client, NULL, bytes_text(lone->text));
	if (lone->type == 'P' || !entry || lone->sql->kind != SQL_DEALLOCATE)
		return JUDGE_SEND;
	return statements_note(client, LEDGER_QUERY, LEDGER_CLIENT, names_go(client, entry),
	                       JUDGE_HEAD);
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
	if (sql->kind == SQL_FORGET) {
		if (is_run(lone) && client->names) /* names_forget() comes when it was done */
			client->names->is_forgetting = true;
		return JUDGE_SEND;
	}
	entry = names_find(client, sql->name);
	if (names_are_unsure(client, entry, lone->batch))
		return JUDGE_WAIT;
	if (is_for_server(client, sql, entry))
		return leave_to_server(lone, entry);
	if (!entry && sql->kind != SQL_PREPARE)
		return statements_refuse_name(client, lone->type, sql->name, lone->batch);
	return sql->kind == SQL_EXECUTE ? execute(lone, entry) : on_stage(lone);
}

/*
 * The text is complete if it may contain one of these statements: statements_judge.c has kept it
 * until it was.
 */
enum judgement sql_query(struct client *client, const struct frame *frame, struct bytes in,
                         struct batch *batch)
{
	struct lone lone = { .client = client, .batch = batch, .type = 'Q' };
	struct sql_statement sql;

	lone.body = frame_received(in, frame);
	lone.sql = &sql;
	if (client->borrower.server->wire.ledger.copy)
		return JUDGE_SEND; /* in COPY mode a Query only makes the COPY fail */
	if (sql_is_other(lone.body) || in.count < frame->length ||
	    fields_text(lone.body, &lone.text) != WIRE_OK)
		return JUDGE_SEND;
	read_text(client, lone.text, &sql);
	return judge(&lone);
}

/* ---- the extended protocol ---- */

enum judgement sql_parse(struct client *client, struct bytes body, size_t length,
                         struct batch *batch)
{
	struct sql_statement sql;
	struct parse_fields parse;

	if (body.count < length || sql_glance(bytes_skip(body, 1)) != WIRE_OK ||
	    fields_parse(body, &parse) != WIRE_OK)
		return JUDGE_SEND;
	read_text(client, parse.query, &sql);
	if (sql.kind == SQL_UNSURE && !server_is_in_failed_block(client->borrower.server))
		return refuse(client, 'P', sql.reason, batch);
	return sql.kind == SQL_OTHER ? JUDGE_SEND : JUDGE_HEAD;
}

enum judgement sql_use(struct client *client, const char *portal, struct statement *statement,
                       unsigned int touches, struct batch *batch)
{
	/* keep the zero of the empty name */
	struct bytes body = bytes_skip(statement_message(statement),
	                               FRAME_HEADER_SIZE + statement_name(statement).count);
	struct sql_statement sql;

	read_text(client, body.at + 1, &sql);
	return judge(
	    &(struct lone){ client, batch, 'P', portal, touches, body, body.at + 1, &sql });
}

static enum judgement execute_portal(struct client *client, struct batch *batch)
{
	const struct sql_portal *portal = client->unnamed->portal;
	struct server *server = client->borrower.server;
	struct ledger_change *change;
	struct bytes scope;

	if (!server_statements_is_sure(&server->session.statements, portal->statement))
		return batch_wait(batch, LEDGER_WAIT_READY);
	/* It may have made way for others since the Bind, and is parsed in another scope now. */
	if (!server_statements_use(&server->session.statements, portal->statement, true))
		server_open_scope(server);
	if (!server_scope(server, &scope))
		return JUDGE_MEMORY;
	if (!inject_statement(client, batch, portal->statement, NULL))
		return JUDGE_MEMORY;
	change =
	    names_rename(names_mention(client, portal->name, portal->statement), &portal->renaming);
	return statements_note(client, LEDGER_EXECUTE, LEDGER_CLIENT, change, JUDGE_HEAD);
}

/* A PREPARE or DEALLOCATE. */
static enum judgement execute_on_stage(struct client *client, struct bytes frame,
                                       struct batch *batch)
{
	const struct sql_portal *portal = client->unnamed->portal;
	struct client_statement *made;
	struct ledger_change *change =
	    set_stage(client, portal->name, portal->statement, batch, &made);

	change = names_rename(change, &portal->renaming);
	batch_run(batch, frame);
	if (statements_note(client, LEDGER_EXECUTE, LEDGER_CLIENT, change, JUDGE_DROP) ==
	        JUDGE_DROP &&
	    (!made || ask_types(client, made, batch, LEDGER_DROPPED)))
		return JUDGE_DROP;
	return JUDGE_MEMORY;
}

enum judgement sql_execute(struct client *client, const struct frame *frame, struct bytes in,
                           struct batch *batch)
{
	const struct sql_portal *portal = client->unnamed->portal;
	const struct client_statement *entry = names_find(client, portal->name);
	enum judgement result;

	if (in.count < frame->length)
		return JUDGE_MORE;
	if (names_are_unsure(client, entry, batch))
		return JUDGE_WAIT;
	if (!portal->is_execute)
		result = execute_on_stage(client, bytes_of(in.at, frame->length), batch);
	else if (entry)
		result = execute_portal(client, batch);
	else
		result = statements_refuse_name(client, frame->type, portal->name, batch);
	/* PostgreSQL runs it once: a further Execute gets the rest of its rows. */
	if (result <= JUDGE_DROP)
		sql_drop_portal(client);
	return result;
}
