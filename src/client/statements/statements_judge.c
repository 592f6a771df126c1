/* SPDX-License-Identifier: ISC */
/*
 * Prepared statements of the protocol, named and unnamed; passes other frames to the file that
 * handles their kind of statement.
 */
#include "statements_priv.h"

#include <stdlib.h>

#include "pgweir/pgwire/message.h"

/*
 * ---- frames that must be complete ----
 *
 *   Parse with a name                        all of it
 *   Parse without, Query                     all, if short (only a Parse) or if its text may
 *                                            begin with PREPARE, EXECUTE or DEALLOCATE
 *   Bind, Describe, Close, Execute           the names at the front
 *
 * Hard here: a text may begin with comments, and only what follows them shows what it is.
 * The text is kept up to max_statement_size. A text with longer comments is forwarded like
 * any other.
 */

/* Judges a text of which the bytes in `have` have been received. */
static enum wire_result judge_text(const struct frame *frame, struct bytes have, size_t most)
{
	switch (sql_glance(have)) {
	case WIRE_OK:
		return frame->length > most ? WIRE_BAD : WIRE_MORE;
	case WIRE_MORE:
		return have.count >= most ? WIRE_OK : WIRE_MORE;
	case WIRE_BAD:
		break;
	}
	return WIRE_OK;
}

enum wire_result whole_judge(const struct frame *frame, struct bytes in, size_t most)
{
	struct bytes have = bytes_skip(in, FRAME_HEADER_SIZE);
	struct object_names names;

	if (in.count >= frame->length)
		return WIRE_OK;
	if (frame->type == 'Q')
		return judge_text(frame, have, most);
	if (frame->type == 'P' && have.count && have.at[0])
		return frame->length > most ? WIRE_BAD : WIRE_MORE;
	if (frame->type == 'P')
		return !have.count || frame->length <= WHOLE_TEXT_MAX
		           ? WIRE_MORE
		           : judge_text(frame, bytes_skip(have, 1), most);
	if (fields_names(frame->type, have, frame->length - FRAME_HEADER_SIZE, &names) != WIRE_MORE)
		return WIRE_OK;
	return have.count > WHOLE_NAMES_MAX ? WIRE_BAD : WIRE_MORE;
}

/* Whether a frame of this type names a statement or a portal, or may name one in its text. */
static bool has_names(char type) { return type == 'Q' || frame_is_extended(type); }

static enum wire_result whole_of(const struct client *client, const struct frame *frame,
                                 struct bytes in)
{
	return whole_judge(frame, in, client->clients->config->max_statement_size);
}

bool statements_need_more(const struct client *client, const struct frame *frame, struct bytes in)
{
	return has_names(frame->type) && whole_of(client, frame, in) == WIRE_MORE;
}

static bool err_long_name(struct err *err)
{
	return err_set(err, ERR_TOO_LONG,
	               "the name of a statement or a portal is longer than %zu bytes",
	               WHOLE_NAMES_MAX);
}

/* The frame must be complete, but is longer than allowed: the client gets an error. */
static enum judgement refuse_long(struct client *client, const struct frame *frame,
                                  struct batch *batch)
{
	size_t most = client->clients->config->max_statement_size;
	struct err err;

	if (frame->type == 'P')
		err_set(&err, ERR_TOO_LONG,
		        "a prepared statement of %u bytes is longer than max_statement_size (%zu): "
		        "prepare it without a name, or raise the setting",
		        frame->length, most);
	else if (frame->type == 'Q')
		err_set(&err, ERR_TOO_LONG,
		        "PREPARE, EXECUTE or DEALLOCATE of %u bytes is longer than "
		        "max_statement_size (%zu): raise the setting",
		        frame->length, most);
	else
		err_long_name(&err);
	return statements_refuse(client, frame->type, &err, batch);
}

/*
 * ---- replan ----
 *
 * After "cached plan must not change result type", the statement is prepared again
 * and the client's messages are sent again, if nothing of a transaction has run yet.
 *
 * Hard here: the client must not notice it. So the Bind must be the first message to an
 * idle server, the whole batch must have been received, and its Sync must be the only one
 * that is owed (pool/server/replay.h, ledger_drop_sync()). Also the client must ask for the
 * columns again, with a Describe between Bind and Execute: a client that relies on an
 * earlier description would misread the rows. And it must not have given a format for each
 * column, as there may be another number of them now. Such a client gets the error.
 */

static bool read_names(const struct frame *frame, struct bytes in, struct object_names *names)
{
	return in.count >= frame->length &&
	       fields_names(frame->type, frame_body(in, frame), frame->length - FRAME_HEADER_SIZE,
	                    names) == WIRE_OK;
}

/* Whether a Describe of the portal comes directly after its Bind: the client is told again. */
static bool is_described_next(const struct frame *frame, struct bytes in, const char *portal)
{
	struct bytes next = bytes_skip(in, frame->length < in.count ? frame->length : in.count);
	struct object_names names;
	struct frame describe;

	return frame_peek(next, UINT32_MAX, &describe) == WIRE_OK && describe.type == 'D' &&
	       read_names(&describe, next, &names) && names.target == 'P' &&
	       strcmp(names.portal, portal) == 0;
}

/* Whether what begins with this frame may be sent again: the server is idle and owes nothing. */
static bool may_replan(const struct server *server, const struct frame *frame, struct bytes in,
                       const struct batch *batch)
{
	struct object_names names;
	struct bind_fields bind;

	return frame->type == 'B' && !batch->is_again && server_is_between(server) &&
	       read_names(frame, in, &names) && *names.statement &&
	       fields_bind(frame_body(in, frame), &bind) == WIRE_OK &&
	       bind.result_format_count <= 1 /* it fits any number of columns */ &&
	       is_described_next(frame, in, names.portal);
}

/* Keeps what may have to be sent again. Any further frame drops the earlier replay. */
static void watch_for_replan(struct client *client, const struct frame *frame, struct bytes in,
                             struct batch *batch)
{
	struct server *server = client->borrower.server;
	struct replay *replay = &server->lease.replay;

	replay_end_replan(replay);
	if (!batch->replay) {
		if (may_replan(server, frame, in, batch))
			batch->replay = in.at;
		return;
	}
	/* what is kept for another host stays with what is before it */
	if (frame->type == 'S' && in.count >= frame->length && !replay->count)
		replay->may_replan =
		    replay_add(replay, bytes_of(batch->replay,
		                                (size_t)(in.at + frame->length - batch->replay)));
	if (frame->type == 'S' || !frame_is_extended(frame->type))
		batch->replay = NULL;
}

/*
 * ---- named statements ----
 *
 *   Parse "s1" <text>  -->  [Close] Parse "PGBOUNCER_7" <text>
 *   Bind "" "s1" ...   -->  [Parse "PGBOUNCER_7"] Bind "" "PGBOUNCER_7" ...
 *   Close "s1"         -->  nothing: the statement stays for others
 *
 * Hard here: each message is handled when the client sends it, long before the server
 * answers. The change is in force at once, and the ledger reverts it if the server refuses
 * or skips the message. So a name exists for the Bind after its Parse, and disappears if
 * the Parse fails. A message after a Sync that is not answered yet has to wait, because
 * what failed before that Sync is unknown. An answer of our own must be sent where the
 * server's answer would be, so it has an entry in the ledger.
 *
 * PostgreSQL reports what is wrong with a name: an unknown name is sent unchanged, and a
 * name that exists is made to fail on the server. So a transaction fails exactly as without
 * a pooler.
 */

/*
 * The name exists already. PostgreSQL reports that only if the text has no other error and
 * the transaction has not failed. So the text is parsed under a scratch name that exists, too.
 */
static enum judgement refuse_twice(struct client *client, const char *name, struct bytes text,
                                   struct batch *batch)
{
	static const char scratch[] = SCRATCH_NAME;

	if (!inject_scratch(client, batch, true))
		return JUDGE_MEMORY;
	batch_header(batch, 'P', sizeof(scratch) + text.count);
	batch_run(batch, bytes_of(scratch, sizeof(scratch)));
	batch_run(batch, text);
	return statements_note(client, LEDGER_PARSE, LEDGER_CLIENT,
	                       names_mention(client, name, NULL), JUDGE_DROP);
}

/*
 * Each Parse is sent, also if another client has prepared the text on this server: it is analyzed
 * as if nobody had. What others know of the statement then is what the server has analyzed last.
 */
static bool send_parse(struct client *client, const char *name, struct statement *statement,
                       struct batch *batch)
{
	struct ledger_change *parse, *change;

	if (!inject_make_way(client, batch, statement, &parse))
		return false;
	change = names_come(client, name, statement, parse);
	if (!change) {
		parse->settle(parse, false);
		return false;
	}
	inject_parse(client, batch, statement);
	return server_note_change(client->borrower.server, LEDGER_PARSE, LEDGER_CLIENT, change);
}

static enum judgement named_parse(struct client *client, const struct frame *frame, struct bytes in,
                                  struct batch *batch)
{
	struct bytes body, text, scope;
	struct parse_fields parse;
	struct statement *statement;
	const struct client_statement *entry;
	enum judgement result;
	struct err err;

	if (in.count < frame->length)
		return JUDGE_MORE;
	body = frame_body(in, frame);
	if (fields_parse(body, &parse) != WIRE_OK)
		return JUDGE_SEND; /* PostgreSQL reports the error */
	entry = names_find(client, parse.statement);
	if (names_are_unsure(client, entry, batch))
		return JUDGE_WAIT;
	text = bytes_skip(body, strlen(parse.statement) + 1);
	if (!server_scope(client->borrower.server, &scope))
		return JUDGE_MEMORY;
	statement = statement_of(&client->clients->pools->statements, text, scope);
	if (!statement)
		return JUDGE_MEMORY;
	if (!server_statements_is_sure(&client->borrower.server->session.statements, statement)) {
		result = batch_wait(batch, LEDGER_WAIT_READY);
	} else if (entry) {
		result = refuse_twice(client, parse.statement, text, batch);
	} else if ((strlen(parse.statement) > WHOLE_NAMES_MAX && !err_long_name(&err)) ||
	           !names_have_room(client, parse.statement, statement, &err)) {
		result = statements_refuse(client, frame->type, &err, batch);
	} else {
		result = send_parse(client, parse.statement, statement, batch) ? JUDGE_DROP
		                                                               : JUDGE_MEMORY;
	}
	client->borrower.pool->stats.client_parse_count += result != JUDGE_WAIT;
	/* the name and the server hold it now */
	statement_release(&statement);
	return result;
}

/*
 * Adds the front of a message, with the statement's name on the server. The rest is sent as
 * it is.
 */
static void replace_head(const struct frame *frame, const struct object_names *names,
                         struct bytes name, struct batch *batch, size_t *head)
{
	size_t portal_size = names->portal ? strlen(names->portal) + 1 : 0;
	size_t front_size = FRAME_HEADER_SIZE + (names->target ? 1 : 0);
	char front[FRAME_HEADER_SIZE + 1] = { frame->type, 0, 0, 0, 0, names->target };

	*head = FRAME_HEADER_SIZE + names->count;
	store_be32(front + 1, (uint32_t)(frame->length - 1 - *head + front_size + portal_size +
	                                 name.count + 1));
	batch_copy(batch, bytes_of(front, front_size));
	if (portal_size)
		batch_run(batch, bytes_of(names->portal, portal_size));
	batch_copy(batch, bytes_of(name.at, name.count + 1));
}

/* Whether the client was told the result columns that the statement has on its server. */
static bool knows_columns(struct client *client, const struct client_statement *entry)
{
	return entry->columns &&
	       server_statements_columns(&client->borrower.server->session.statements,
	                                 names_statement(entry)) == entry->columns;
}

/* Adds a Describe whose answer has the types and the columns. */
static enum judgement note_types(struct client *client, struct client_statement *entry,
                                 enum ledger_fate fate, enum judgement good)
{
	return statements_note(client, LEDGER_TYPES, fate,
	                       names_describe(client, entry, fate == LEDGER_CLIENT), good);
}

/* Adds a Bind or Describe to the ledger. JUDGE_HEAD: it is noted. */
static enum judgement note_use(struct client *client, char type, struct client_statement *entry)
{
	if (type == 'D' && !(names_statement(entry)->is_typed && knows_columns(client, entry)))
		return note_types(client, entry, LEDGER_CLIENT, JUDGE_HEAD);
	entry->use_count++; /* cannot overflow: the ledger's length is bounded */
	return statements_note(client, type == 'B' ? LEDGER_BIND : LEDGER_DESCRIBE, LEDGER_CLIENT,
	                       &entry->use, JUDGE_HEAD);
}

/*
 * The statement is a PREPARE, EXECUTE or the like itself. What it means by a name is found with
 * each use, so its text is used as the unnamed statement. JUDGE_SEND: it is used as any other.
 */
static enum judgement use_unnamed(struct client *client, const struct frame *frame,
                                  const struct object_names *names, struct statement *statement,
                                  unsigned int touches, struct batch *batch, size_t *head)
{
	bool is_bind = frame->type == 'B';
	enum judgement result = sql_use(client, names->portal, statement, touches, batch);

	if (result != JUDGE_HEAD)
		return result;
	client->borrower.pool->stats.bind_count += is_bind;
	replace_head(frame, names, bytes_text(""), batch, head);
	return server_note(client->borrower.server, is_bind ? LEDGER_BIND : LEDGER_DESCRIBE)
	           ? JUDGE_HEAD
	           : JUDGE_MEMORY;
}

/* Has the statement described to us, before the client's Bind of it is sent. */
static enum judgement ask_columns(struct client *client, struct client_statement *entry,
                                  struct batch *batch)
{
	struct bytes name;

	if (!inject_statement(client, batch, names_statement(entry), &name))
		return JUDGE_MEMORY;
	inject_named(batch, 'D', name);
	batch->waits_for = LEDGER_WAIT_EMPTY;
	return note_types(client, entry, LEDGER_DROPPED, JUDGE_WAIT);
}

/*
 * PostgreSQL refuses to run a statement whose result would have other columns than the client was
 * told. A server that has parsed it later does not know what that was. JUDGE_SEND: no objection.
 */
static enum judgement check_columns(struct client *client, const struct frame *frame,
                                    struct bytes in, const struct object_names *names,
                                    struct client_statement *entry, struct batch *batch)
{
	struct err err;

	if (entry->columns <= FIELDS_NO_COLUMNS || knows_columns(client, entry) ||
	    is_described_next(frame, in, names->portal))
		return JUDGE_SEND;
	if (!server_statements_columns(&client->borrower.server->session.statements,
	                               names_statement(entry)))
		return ask_columns(client, entry, batch);
	err_set(&err, ERR_PLAN_CHANGED, "cached plan must not change result type");
	return statements_refuse(client, frame->type, &err, batch);
}

static enum judgement named_use(struct client *client, const struct frame *frame, struct bytes in,
                                const struct object_names *names, struct batch *batch, size_t *head)
{
	struct client_statement *entry = names_find(client, names->statement);
	unsigned int touches = 0;
	enum judgement result;
	struct bytes name;

	if (names_are_unsure(client, entry, batch))
		return JUDGE_WAIT;
	if (!entry) {
		client->borrower.pool->stats.bind_count += frame->type == 'B';
		return statement_name_is_reserved(names->statement)
		           ? statements_refuse_name(client, frame->type, names->statement, batch)
		           : JUDGE_SEND; /* PostgreSQL knows whether SQL has made it */
	}
	batch->is_query = false;
	if (frame->type == 'B')
		touches = session_relevant(
		    client, session_statement_touches(client, names_statement(entry)));
	result = JUDGE_SEND;
	if (sql_is_lone(names_statement(entry)))
		result =
		    use_unnamed(client, frame, names, names_statement(entry), touches, batch, head);
	if (result == JUDGE_SEND)
		result = names_enter(client, entry, frame->type, batch);
	if (result == JUDGE_SEND && frame->type == 'B')
		result = check_columns(client, frame, in, names, entry, batch);
	if (result != JUDGE_SEND)
		return result;
	client->borrower.pool->stats.bind_count += frame->type == 'B';
	result = statements_run(client, frame->type, touches,
	                        statement_query(names_statement(entry)), true, batch);
	if (result != JUDGE_SEND)
		return result;
	if (!inject_statement(client, batch, names_statement(entry), &name))
		return JUDGE_MEMORY;
	if (frame->type == 'B') {
		batch->bound = entry;
		batch->bound_portal = names->portal;
	}
	replace_head(frame, names, name, batch, head);
	return note_use(client, frame->type, entry);
}

static enum judgement named_close(struct client *client, const char *name, struct batch *batch)
{
	struct client_statement *entry = names_find(client, name);
	bool is_here; /* the server has no such name of the client */

	if (names_are_unsure(client, entry, batch))
		return JUDGE_WAIT;
	is_here = entry ? !entry->is_exposed : statement_name_is_reserved(name);
	if (!entry && !is_here)
		return JUDGE_SEND; /* it may be a name of SQL's PREPARE */
	if (!entry)
		return server_note(client->borrower.server, LEDGER_CLOSE_HERE) ? JUDGE_DROP
		                                                               : JUDGE_MEMORY;
	return statements_note(client, is_here ? LEDGER_CLOSE_HERE : LEDGER_CLOSE, LEDGER_CLIENT,
	                       names_go(client, entry), is_here ? JUDGE_DROP : JUDGE_HEAD);
}

/*
 * ---- the unnamed statement ----
 *
 * The unnamed statement, when each transaction may be on another server. Drivers that first
 * ask for a description need the statement on two of them:
 *
 *   Parse "" <text>, Describe, Sync   on one server
 *   [Parse "" <text>] Bind ...        on another: it has another client's, or none
 *
 * Hard here: most drivers send Parse and Bind together, which must cost nothing. So a text
 * is kept only if it is still not bound at the end of the received bytes. A Bind must not
 * find another client's statement on the server. And the parameters must have the same
 * types on every server as in the description that the client got.
 */

static void settle(struct ledger_change *change, bool is_done)
{
	struct unnamed *unnamed = container_of(change, struct unnamed, change);

	unnamed->open_count--;
	/* A later Parse that is still open replaces this one: its result counts. */
	if (is_done || unnamed->open_count)
		return;
	unnamed->has_text = false;
	unnamed->is_here = false;
}

/* NULL: no memory. */
static struct unnamed *get_unnamed(struct client *client)
{
	if (client->unnamed)
		return client->unnamed;
	client->unnamed = calloc(1, sizeof(*client->unnamed));
	if (client->unnamed)
		client->unnamed->change.settle = settle;
	return client->unnamed;
}

void unnamed_keep(struct client *client, struct batch *batch)
{
	struct unnamed *unnamed = client->unnamed;
	struct statement *statement =
	    statement_of(&client->clients->pools->statements, batch->unnamed, bytes_of("", 0));

	batch->unnamed = bytes_of(NULL, 0);
	names_drop(&unnamed->kept);
	unnamed->kept = statement ? names_make(bytes_text(""), statement) : NULL;
	unnamed->has_text = unnamed->kept;
	statement_release(&statement);
}

/* The same before that. */
static void keep_now(struct client *client, struct batch *batch)
{
	if (batch->unnamed.count && batch->is_borrowed)
		batch_send(batch);
	if (batch->unnamed.count)
		unnamed_keep(client, batch);
}

/* There is no unnamed statement any more. */
static void unnamed_drop(struct client *client, struct batch *batch)
{
	batch->unnamed = bytes_of(NULL, 0);
	if (!client->unnamed)
		return;
	client->unnamed->has_text = false;
	client->unnamed->is_here = false;
}

/* Handles a Parse. The text points into `in` until unnamed_keep(). */
static enum judgement unnamed_parse(struct client *client, const struct frame *frame,
                                    struct bytes in, struct batch *batch)
{
	struct bytes body = frame_received(in, frame);
	struct server *server = client->borrower.server;
	struct unnamed *unnamed = get_unnamed(client);
	struct parse_fields parse;
	enum judgement result;

	if (!unnamed)
		return JUDGE_MEMORY;
	unnamed_drop(client, batch);
	result = sql_parse(client, body, frame->length - FRAME_HEADER_SIZE, batch);
	if (result > JUDGE_HEAD)
		return result;
	unnamed->touches = batch->touches;
	unnamed->is_here = true;
	unnamed->open_count++;
	unnamed->sync_epoch = server->wire.ledger.sync_epoch;
	if (!server_note_change(server, LEDGER_PARSE, LEDGER_CLIENT, &unnamed->change))
		return JUDGE_MEMORY;
	if (unnamed->is_here && (result == JUDGE_HEAD || frame->length <= WHOLE_TEXT_MAX) &&
	    fields_parse(body, &parse) == WIRE_OK)
		batch->unnamed = bytes_skip(body, 1);
	/* It is read again with each use; without memory there is none. */
	if (result == JUDGE_HEAD) {
		keep_now(client, batch);
		unnamed->is_here &= unnamed->has_text;
	}
	return JUDGE_HEAD; /* it is noted, and sent as it is */
}

/*
 * Injects a Parse of the kept text before the message that needs it, and before each further one:
 * it may be skipped behind an error. false: no memory.
 */
static bool inject_unnamed(struct client *client, struct batch *batch)
{
	const struct statement *statement = names_statement(client->unnamed->kept);
	/* keep the zero of the empty name */
	struct bytes body = bytes_skip(statement_message(statement),
	                               FRAME_HEADER_SIZE + statement_name(statement).count);

	batch_header(batch, 'P', body.count);
	batch_run(batch, body);
	batch->is_borrowed = true;
	return server_note_change(client->borrower.server, LEDGER_PARSE, LEDGER_DROPPED, NULL);
}

/*
 * Closes the unnamed statement on the server, because it is another client's. PostgreSQL
 * then reports that there is none.
 */
static bool empty(struct client *client, struct batch *batch)
{
	MESSAGE_STATIC(message, 'C', "S");

	batch_copy(batch, MESSAGE_BYTES(message));
	return server_note_change(client->borrower.server, LEDGER_CLOSE, LEDGER_DROPPED, NULL);
}

/* Adds a Describe whose answer has the types. JUDGE_HEAD: it is noted. */
static enum judgement note_description(struct client *client, struct batch *batch)
{
	struct unnamed *unnamed = client->unnamed;

	keep_now(client, batch);
	if (!unnamed || !unnamed->has_text || names_statement(unnamed->kept)->is_typed)
		return JUDGE_SEND;
	return statements_note(client, LEDGER_TYPES, LEDGER_CLIENT,
	                       names_describe(client, unnamed->kept, true), JUDGE_HEAD);
}

struct bytes unnamed_known(const struct client *client)
{
	const struct unnamed *unnamed = client->unnamed;

	return unnamed && unnamed->has_text ? statement_query(names_statement(unnamed->kept))
	                                    : bytes_text("");
}

bool unnamed_is_sql(const struct client *client)
{
	const struct unnamed *unnamed = client->unnamed;

	return unnamed && unnamed->has_text && sql_is_lone(names_statement(unnamed->kept));
}

/* Handles a Bind to this portal, or a Describe. JUDGE_SEND: what it needs was added before it. */
static enum judgement unnamed_use(struct client *client, char type, const char *portal,
                                  struct batch *batch)
{
	struct unnamed *unnamed = client->unnamed;
	enum judgement result = JUDGE_SEND;
	unsigned int touches = 0;
	struct bytes text;

	/* A Parse of an earlier Sync epoch is not answered: it may fail without this message. */
	if (unnamed && unnamed->open_count &&
	    unnamed->sync_epoch != client->borrower.server->wire.ledger.sync_epoch)
		return batch_wait(batch, LEDGER_WAIT_READY);
	batch->is_query = false;
	if (type == 'B' && unnamed)
		touches = session_relevant(client, unnamed->touches);
	if (unnamed_is_sql(client)) {
		result = sql_use(client, portal, names_statement(unnamed->kept), touches, batch);
		if (result != JUDGE_SEND)
			return result == JUDGE_HEAD ? JUDGE_SEND : result;
	}
	if (touches) {
		text = batch->unnamed.count ? bytes_text(batch->unnamed.at) : unnamed_known(client);
		result = statements_run(client, 'B', touches, text, true, batch);
		if (result == JUDGE_SEND && (touches & SQL_TOUCH_EXECUTE))
			session_use_execute(client, NULL, text);
	}
	if (result != JUDGE_SEND)
		return result;
	if (type == 'B')
		batch->unnamed = bytes_of(NULL, 0);
	if (unnamed && !unnamed->is_here && unnamed->has_text)
		result = inject_unnamed(client, batch) ? JUDGE_SEND : JUDGE_MEMORY;
	else if (!unnamed || !unnamed->is_here)
		result = empty(client, batch) ? JUDGE_SEND : JUDGE_MEMORY;
	return type == 'D' && result == JUDGE_SEND ? note_description(client, batch) : result;
}

bool unnamed_lend(struct client *client, struct batch *batch)
{
	if (!get_unnamed(client))
		return false;
	keep_now(client, batch);
	client->unnamed->is_here = false;
	return true;
}

void statements_forget_unnamed(struct client *client, struct batch *batch)
{
	unnamed_drop(client, batch);
	sql_drop_portal(client);
}

void statements_leave(struct client *client)
{
	client->unnamed->is_here = false;
	sql_drop_portal(client);
}

bool statements_spare_unnamed(struct client *client)
{
	const struct unnamed *unnamed = client->unnamed;

	if (!statements_follow(client) || (unnamed && unnamed->is_here && !unnamed->has_text))
		return false;
	statements_leave_server(client);
	return true;
}

void unnamed_free(struct client *client)
{
	if (!client->unnamed)
		return;
	sql_drop_portal(client);
	names_drop(&client->unnamed->kept);
	free(client->unnamed);
	client->unnamed = NULL;
}

/* ---- judge frames ---- */

/* Judges a frame that names a statement, or may name one in its text. */
static enum judgement judge_names(struct client *client, const struct frame *frame, struct bytes in,
                                  struct batch *batch, size_t *head)
{
	size_t length = frame->length - FRAME_HEADER_SIZE;
	struct object_names names;

	if (frame->type == 'Q')
		return sql_query(client, frame, in, batch);
	if (frame->type == 'P' && in.count > FRAME_HEADER_SIZE)
		return in.at[FRAME_HEADER_SIZE] ? named_parse(client, frame, in, batch)
		                                : unnamed_parse(client, frame, in, batch);
	switch (fields_names(frame->type, frame_received(in, frame), length, &names)) {
	case WIRE_MORE:
		return JUDGE_MORE;
	case WIRE_BAD:
		return JUDGE_SEND; /* PostgreSQL reports the error */
	case WIRE_OK:
		break;
	}
	if (frame->type == 'E')
		return sql_has_portal(client) && !*names.portal
		           ? sql_execute(client, frame, in, batch)
		           : JUDGE_SEND;
	if (frame->type == 'C') {
		if (names.statement && !*names.statement)
			unnamed_drop(client, batch);
		/* PostgreSQL refuses a Close with bytes after its name */
		return names.statement && *names.statement && names.count == length
		           ? named_close(client, names.statement, batch)
		           : JUDGE_SEND;
	}
	if (names.target == 'P')
		return batch->bound && strcmp(names.portal, batch->bound_portal) == 0 &&
		               !knows_columns(client, batch->bound)
		           ? note_types(client, batch->bound, LEDGER_CLIENT, JUDGE_HEAD)
		           : JUDGE_SEND;
	if (frame->type == 'B') {
		batch->bound = NULL;
		if (!*names.portal && sql_has_portal(client))
			sql_drop_portal(client);
	}
	return *names.statement ? named_use(client, frame, in, &names, batch, head)
	                        : unnamed_use(client, frame->type, names.portal, batch);
}

enum judgement statements_judge(struct client *client, const struct frame *frame, struct bytes in,
                                struct batch *batch, size_t *head)
{
	*head = 0;
	watch_for_replan(client, frame, in, batch);
	if (!has_names(frame->type))
		return JUDGE_SEND;
	if (in.count < frame->length && whole_of(client, frame, in) == WIRE_BAD)
		return refuse_long(client, frame, batch);
	if (client->borrower.server->wire.ledger.is_skipping)
		return JUDGE_SEND; /* an error occurred: the server skips the frame */
	return judge_names(client, frame, in, batch, head);
}

struct statement *statements_find(const struct client *client, const char *name)
{
	const struct client_statement *entry = names_find(client, name);

	return entry ? names_statement(entry) : NULL;
}

/* ---- hand-over to another process ---- */

/* The unnamed statement; no record if there is none. */
struct unnamed_record {
	bool has_text, is_here;
	uint64_t number; /* 0: no statement */
};

/*
 * Not written any more: older releases say by it that the unnamed statement is a PREPARE, EXECUTE
 * or DEALLOCATE, with another name on the server.
 */
struct sql_record {
	uint64_t kind; /* enum sql_kind */
	bool is_bound;
	char name[sizeof(((struct sql_statement *)0)->name)];
	uint64_t number;
};

static const struct record_field unnamed_fields[] = {
	RECORD_FIELD('X', struct unnamed_record, has_text),
	RECORD_FIELD('x', struct unnamed_record, is_here),
	RECORD_FIELD('y', struct unnamed_record, number),
};

const struct record_table unnamed_record_table =
    RECORD_TABLE("unnamed statement", unnamed_fields, NULL);

static const struct record_field sql_fields[] = {
	RECORD_FIELD('Q', struct sql_record, kind),
	RECORD_FIELD('b', struct sql_record, is_bound),
	RECORD_FIELD('q', struct sql_record, name),
	RECORD_FIELD('z', struct sql_record, number),
};

static bool is_sql_good(const void *values)
{
	const struct sql_record *record = values;

	return record->kind == SQL_PREPARE || record->kind == SQL_EXECUTE ||
	       record->kind == SQL_DEALLOCATE || record->kind == SQL_FORGET;
}

const struct record_table sql_record_table =
    RECORD_TABLE("unnamed statement in SQL", sql_fields, is_sql_good);

static bool unnamed_write(const struct client *client, struct buf *record, struct channel *channel)
{
	const struct unnamed *unnamed = client->unnamed;
	struct statement *statement = unnamed->kept ? names_statement(unnamed->kept) : NULL;
	struct unnamed_record values = {
		.has_text = unnamed->has_text,
		/* older releases have another name in such a text there */
		.is_here = unnamed->is_here && !unnamed_is_sql(client),
		.number = statement ? statement_number(statement) : 0,
	};

	record_write(record, &unnamed_record_table, &values);
	return !statement || handover_write_statement(statement, statement->image, channel);
}

static void unnamed_read(struct client *client, struct record *record,
                         const struct pools_arrival *arrival)
{
	struct unnamed_record values;
	struct statement *statement;
	struct sql_record renamed;
	struct unnamed *unnamed;

	if (!record_has_table(record, &unnamed_record_table))
		return;
	record_read(record, &unnamed_record_table, &values);
	/* Of older releases: the server has the text with another name in it. */
	if (record_has_table(record, &sql_record_table)) {
		record_read(record, &sql_record_table, &renamed);
		values.is_here = false;
	}
	if (!client || !(unnamed = get_unnamed(client)))
		return;
	statement =
	    handover_arrival_statement(arrival, client->clients->pools, values.number, NULL);
	unnamed->kept = statement ? names_make(bytes_text(""), statement) : NULL;
	/* a text that is not kept may touch anything */
	unnamed->touches =
	    statement ? session_statement_touches(client, statement) : SQL_TOUCH_HIDDEN;
	unnamed->has_text = values.has_text && unnamed->kept;
	unnamed->is_here = values.is_here && client->borrower.server;
	statement_release(&statement);
}

#define NAME_MAX_SIZE ((size_t)1024 * 1024)

/* A client's record ends with any number of these. */
struct name_record {
	struct bytes name;
	uint64_t number;
	/* as the client knows that statement */
	uint32_t columns;
	usec_t parsed_at;
};

static const struct record_field name_fields[] = {
	RECORD_BYTES_FIELD('N', struct name_record, name, NAME_MAX_SIZE),
	RECORD_FIELD('m', struct name_record, number),
	RECORD_FIELD('T', struct name_record, columns, RECORD_OPTIONAL),
	RECORD_FIELD('p', struct name_record, parsed_at, RECORD_OPTIONAL),
};

static bool is_name_good(const void *values)
{
	const struct name_record *record = values;

	return record->name.count && !memchr(record->name.at, 0, record->name.count);
}

const struct record_table name_record_table =
    RECORD_TABLE("named statement", name_fields, is_name_good);

static bool write_name(const struct client_statement *entry, bool is_plain, struct buf *record,
                       struct channel *channel)
{
	struct statement *statement = names_statement(entry);
	struct name_record values = { bytes_text(entry->name), statement_number(statement), 0, 0 };

	if (!is_plain) {
		values.columns = entry->columns;
		values.parsed_at = entry->parsed_at;
	}
	record_write(record, &name_record_table, &values);
	return handover_write_statement(statement, statement->image, channel);
}

bool statements_write(const struct client *client, struct buf *record, struct channel *channel)
{
	bool is_plain = client->clients->pools->is_handover_plain;
	bool ok = !client->unnamed || unnamed_write(client, record, channel);

	for (uint32_t i = 0; ok && i < client_statement_count(client); i++)
		ok = write_name(client->names->at[i], is_plain, record, channel);
	return ok;
}

static void read_name(struct client *client, struct record *record,
                      const struct pools_arrival *arrival)
{
	struct client_statement *entry;
	struct statement *statement;
	struct name_record values;

	record_read(record, &name_record_table, &values);
	if (!client || record->is_bad)
		return;
	statement =
	    handover_arrival_statement(arrival, client->clients->pools, values.number, NULL);
	entry = statement ? names_restore(client, values.name, statement) : NULL;
	if (entry) {
		entry->columns = values.columns;
		entry->parsed_at = values.parsed_at;
	}
	statement_release(&statement);
}

void statements_read(struct client *client, struct record *record,
                     const struct pools_arrival *arrival)
{
	unnamed_read(client, record, arrival);
	while (record_has_table(record, &name_record_table))
		read_name(client, record, arrival);
}
