/* SPDX-License-Identifier: ISC */
/*
 * Passes a frame to the file that handles its kind of statement.
 */
#include "statements_priv.h"

#include "pgweir/pgwire/fields.h"
#include "pgweir/pgwire/sql.h"

#include "../client_priv.h"
#include "exposed_priv.h"
#include "inject_priv.h"
#include "names_priv.h"
#include "prepared_priv.h"
#include "replan_priv.h"
#include "sql_priv.h"
#include "unnamed_priv.h"
#include "whole_priv.h"

bool statements_follow(const struct client *client)
{
	if (client_statement_count(client))
		return true;
	return !client->replication && client->borrower.pool->limits.mode != POOL_MODE_SESSION &&
	       client->clients->config->max_prepared_statements > 0;
}

/* Whether a frame of this type names a statement, or may name one in its text. */
static bool has_names(const struct client *client, char type)
{
	return type == 'P' || type == 'B' || type == 'D' || type == 'C' || type == 'Q' ||
	       (type == 'E' && client->sql);
}

/* ---- frames that must be complete ---- */

static enum whole whole_of(const struct client *client, const struct frame *frame, struct bytes in)
{
	return whole_judge(frame, in, client->clients->config->max_statement_size);
}

bool statements_need_more(const struct client *client, const struct frame *frame, struct bytes in)
{
	return has_names(client, frame->type) && whole_of(client, frame, in) == WHOLE_MORE;
}

enum statements_result statements_refuse(struct client *client, char type, const struct err *err,
                                         struct batch *batch)
{
	return type == 'Q' ? sql_refuse_query(client, err, batch)
	                   : inject_refuse(client, err, batch);
}

/* The frame must be complete, but is longer than allowed: the client gets an error. */
static enum statements_result refuse_long(struct client *client, const struct frame *frame,
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
		err_set(&err, ERR_TOO_LONG,
		        "the name of a statement or a portal is longer than %zu bytes",
		        WHOLE_NAMES_MAX);
	return statements_refuse(client, frame->type, &err, batch);
}

/* ---- judge frames ---- */

/* Keeps the frames that may have to be sent again. Any further frame drops the earlier replay. */
static void watch_for_replan(struct client *client, const struct frame *frame, struct bytes in,
                             struct batch *batch)
{
	struct server *server = client->borrower.server;

	replay_drop(&server->replay);
	if (batch->replay || (frame->type == 'B' && ledger_is_empty(&server->ledger)))
		replan_watch(client, frame, in, batch);
}

static enum statements_result judge_parse(struct client *client, const struct frame *frame,
                                          struct bytes in, struct batch *batch)
{
	if (in.count <= FRAME_HEADER_SIZE)
		return frame->length > FRAME_HEADER_SIZE ? STATEMENTS_MORE : STATEMENTS_PASS;
	if (in.at[FRAME_HEADER_SIZE] == 0)
		return unnamed_parse(client, frame, in, batch);
	return prepared_parse(client, frame, in, batch);
}

/* Whether the frame is a Bind or Describe of the unnamed statement. */
static bool is_use_of_unnamed(const struct frame *frame, const struct object_names *names)
{
	return (frame->type == 'B' || frame->type == 'D') && names->statement &&
	       !*names->statement && names->target != 'P';
}

/* Judges a frame that names a statement, or may name one in its text. */
static enum statements_result judge_names(struct client *client, const struct frame *frame,
                                          struct bytes in, struct batch *batch, size_t *head)
{
	struct bytes have = bytes_skip(in, FRAME_HEADER_SIZE);
	size_t length = frame->length - FRAME_HEADER_SIZE;
	enum statements_result result = STATEMENTS_PASS;
	struct object_names names;

	if (frame->type == 'P')
		return judge_parse(client, frame, in, batch);
	if (frame->type == 'Q')
		return sql_query(client, frame, in, batch);
	if (have.count > length)
		have.count = length;
	switch (fields_names(frame->type, have, length, &names)) {
	case WIRE_MORE:
		return STATEMENTS_MORE;
	case WIRE_BAD:
		return STATEMENTS_PASS; /* PostgreSQL reports the error */
	case WIRE_OK:
		break;
	}
	if (frame->type == 'E')
		return client->sql ? sql_execute(client, names.portal, batch) : STATEMENTS_PASS;
	if (frame->type == 'C' && names.statement && !*names.statement)
		unnamed_drop(client, batch);
	if (frame->type == 'B')
		batch->bound = NULL;
	if (batch->bound && names.target == 'P' && strcmp(names.portal, batch->bound_portal) == 0 &&
	    frame->type == 'D')
		return prepared_describe_portal(client, batch);
	if (is_use_of_unnamed(frame, &names))
		result = unnamed_use(client, frame->type, batch);
	if (result == STATEMENTS_PASS && frame->type == 'B' && client->sql)
		result = sql_bind(client, names.portal, names.statement, batch);
	if (result != STATEMENTS_PASS)
		return result;
	if (!names.statement || !*names.statement || names.target == 'P')
		return STATEMENTS_PASS;
	if (frame->type == 'C') /* PostgreSQL refuses a Close with bytes after its name */
		return names.count == length ? prepared_close(client, names.statement)
		                             : STATEMENTS_PASS;
	return prepared_use(client, frame, in, &names, batch, head);
}

enum statements_result statements_judge(struct client *client, const struct frame *frame,
                                        struct bytes in, struct batch *batch, size_t *head)
{
	*head = 0;
	watch_for_replan(client, frame, in, batch);
	if (!has_names(client, frame->type))
		return STATEMENTS_PASS;
	if (in.count < frame->length && whole_of(client, frame, in) == WHOLE_TOO_LONG)
		return refuse_long(client, frame, batch);
	if (client->borrower.server->ledger.is_skipping)
		return STATEMENTS_PASS; /* an error occurred: the server skips the frame */
	return judge_names(client, frame, in, batch, head);
}

/* ---- names on the server ---- */

enum statements_result statements_expose(struct client *client, const struct frame *frame,
                                         struct bytes in, struct batch *batch)
{
	return exposed_before(client, frame, in, batch);
}

void statements_settle(struct client *client, const struct facts *facts)
{
	exposed_settle(client, facts);
}

bool statements_withdraw(struct client *client) { return exposed_withdraw(client); }

bool statements_are_exposed(const struct client *client)
{
	const struct buf *exposed = names_exposed(client);

	return exposed && exposed->count;
}

/* ---- events of the client ---- */

void statements_forget_unnamed(struct client *client, struct batch *batch)
{
	unnamed_drop(client, batch);
	sql_forget(client);
}

void statements_drop_unnamed(struct client *client, struct batch *batch)
{
	unnamed_drop(client, batch);
}

void statements_keep_unnamed(struct client *client, const struct batch *batch)
{
	unnamed_keep(client, batch);
}

void statements_leave(struct client *client)
{
	unnamed_leave_server(client);
	sql_leave(client);
}

bool statements_spare_unnamed(struct client *client)
{
	if (!statements_follow(client) || !unnamed_can_leave(client))
		return false;
	statements_leave(client);
	return true;
}

void statements_deallocated(struct client *client) { names_forget(client); }

void statements_free(struct client *client)
{
	sql_forget(client);
	names_free(client); /* the ledger has reverted what was open */
	unnamed_free(client);
}

struct statement *statements_find(const struct client *client, const char *name)
{
	const struct client_statement *entry = names_find(client, name);

	return entry ? names_statement(entry) : NULL;
}

unsigned int statements_touches(const struct client *client, const char *name, struct bytes *text)
{
	struct statement *statement = statements_find(client, name);

	if (!*name)
		return unnamed_touches(client);
	if (!statement)
		return 0;
	*text = bytes_text(statement_text(statement).at);
	return statement->touches;
}

unsigned int statements_executed(const struct client *client, struct bytes text)
{
	struct sql_statement sql;

	sql_read(text, &sql);
	return sql.kind == SQL_EXECUTE ? statements_touches(client, sql.name, &text) : 0;
}

const char *statements_text(const struct client *client, const char *name)
{
	const struct statement *statement = statements_find(client, name);

	return statement ? statement_text(statement).at : NULL;
}
