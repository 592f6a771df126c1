/* SPDX-License-Identifier: ISC */
/*
 * Passes a frame to the file that handles its kind of statement.
 */
#include "statements_priv.h"

#include "pgweir/base/text.h"

#include "../client_priv.h"
#include "../client_records_priv.h"

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
static enum whole judge_text(const struct frame *frame, struct bytes have, size_t most)
{
	switch (sql_glance(have, false)) {
	case WIRE_OK:
		return frame->length > most ? WHOLE_TOO_LONG : WHOLE_MORE;
	case WIRE_MORE:
		return have.count >= most ? WHOLE_ENOUGH : WHOLE_MORE;
	case WIRE_BAD:
		break;
	}
	return WHOLE_ENOUGH;
}

static enum whole judge_name_and_text(const struct frame *frame, struct bytes have, size_t most)
{
	if (have.count == 0)
		return WHOLE_MORE;
	if (have.at[0])
		return frame->length > most ? WHOLE_TOO_LONG : WHOLE_MORE;
	if (frame->length <= UNNAMED_KEPT_MAX)
		return WHOLE_MORE;
	return judge_text(frame, bytes_skip(have, 1), most);
}

enum whole whole_judge(const struct frame *frame, struct bytes in, size_t most)
{
	struct bytes have = bytes_skip(in, FRAME_HEADER_SIZE);
	struct object_names names;

	if (in.count >= frame->length)
		return WHOLE_ENOUGH;
	if (frame->type == 'Q')
		return judge_text(frame, have, most);
	if (frame->type == 'P')
		return judge_name_and_text(frame, have, most);
	if (fields_names(frame->type, have, frame->length - FRAME_HEADER_SIZE, &names) != WIRE_MORE)
		return WHOLE_ENOUGH;
	return have.count > WHOLE_NAMES_MAX ? WHOLE_TOO_LONG : WHOLE_MORE;
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

/* Whether the Bind fits any number of result columns. */
static bool fits_any_columns(const struct frame *frame, struct bytes in)
{
	struct bind_fields bind;

	return fields_bind(frame_body(in, frame), &bind) == WIRE_OK &&
	       bind.result_format_count <= 1;
}

/* Begins a replay with a Bind of a named statement, if the server is idle and owes nothing. */
static void begin_replay(const struct server *server, const struct frame *frame, struct bytes in,
                         struct batch *batch)
{
	struct object_names names;

	if (frame->type == 'B' && !batch->is_again && server->wire.status == 'I' &&
	    ledger_is_empty(&server->wire.ledger) && ledger_is_certain(&server->wire.ledger) &&
	    !server->wire.ledger.is_open && !server->wire.ledger.is_skipping &&
	    read_names(frame, in, &names) && *names.statement && fits_any_columns(frame, in))
		batch->replay = in.at;
}

/* Whether this is a Describe of the Bind's portal. It must follow the Bind directly. */
static bool is_description(const struct batch *batch, const struct frame *frame, struct bytes in)
{
	const char *portal = batch->replay + FRAME_HEADER_SIZE;
	struct object_names names;

	return frame->type == 'D' && read_names(frame, in, &names) && names.target == 'P' &&
	       strcmp(names.portal, portal) == 0;
}

/* Keeps what may have to be sent again. */
static void replan_watch(struct client *client, const struct frame *frame, struct bytes in,
                         struct batch *batch)
{
	struct server *server = client->borrower.server;

	if (!batch->replay) {
		begin_replay(server, frame, in, batch);
		return;
	}
	if (!batch->is_described) {
		batch->is_described = is_description(batch, frame, in);
		if (!batch->is_described)
			batch->replay = NULL;
		return;
	}
	if (frame->type == 'S' && in.count >= frame->length) {
		/* else it is kept with what is before it */
		if (!server->lease.replay.count)
			server->lease.replay.may_replan =
			    replay_add(&server->lease.replay,
			               bytes_of(batch->replay,
			                        (size_t)(in.at + frame->length - batch->replay)));
		batch->replay = NULL;
		batch->is_described = false;
	} else if (!frame_is_extended(frame->type)) {
		batch->replay = NULL;
		batch->is_described = false;
	}
}

/* ---- hand-over to another process ---- */

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
	return handover_write_statement(statement, channel);
}

static bool write_sql(const struct sql_unnamed *sql, struct buf *record, struct channel *channel)
{
	struct sql_record values = {
		.kind = sql->kind,
		.is_bound = sql->is_bound,
		.number = sql->statement ? statement_number(sql->statement) : 0,
	};

	text_copy(values.name, sizeof(values.name), sql->name);
	record_write(record, &sql_record_table, &values);
	return !sql->statement || handover_write_statement(sql->statement, channel);
}

bool statements_write(const struct client *client, struct buf *record, struct channel *channel)
{
	bool is_plain = client->clients->pools->is_handover_plain;
	bool ok = !client->unnamed || unnamed_write(client, record, channel);

	if (ok && client->sql)
		ok = write_sql(client->sql, record, channel);
	for (uint32_t i = 0; ok && i < client_statement_count(client); i++)
		ok = write_name(client->names->at[i], is_plain, record, channel);
	return ok;
}

static void read_sql(struct client *client, struct record *record,
                     const struct pools_arrival *arrival)
{
	struct statement *statement = NULL;
	struct sql_record values;

	record_read(record, &sql_record_table, &values);
	if (!client || record->is_bad)
		return;
	if (values.number)
		statement = handover_arrival_statement(arrival, values.number);
	if (sql_remember(client, (enum sql_kind)values.kind, values.name, statement))
		client->sql->is_bound = values.is_bound && client->borrower.server;
}

static void read_name(struct client *client, struct record *record,
                      const struct pools_arrival *arrival)
{
	struct client_statement *entry;
	struct statement *statement;
	struct name_record values;

	record_read(record, &name_record_table, &values);
	statement = client ? handover_arrival_statement(arrival, values.number) : NULL;
	if (record->is_bad || !statement)
		return;
	entry = names_restore(client, values.name, statement);
	if (entry) {
		entry->columns = values.columns;
		entry->parsed_at = values.parsed_at;
	}
}

void statements_read(struct client *client, struct record *record,
                     const struct pools_arrival *arrival)
{
	if (record_has_table(record, &unnamed_record_table))
		unnamed_read(client, record, arrival);
	if (record_has_table(record, &sql_record_table))
		read_sql(client, record, arrival);
	while (record_has_table(record, &name_record_table))
		read_name(client, record, arrival);
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

	replay_end_replan(&server->lease.replay);
	if (batch->replay || (frame->type == 'B' && ledger_is_empty(&server->wire.ledger)))
		replan_watch(client, frame, in, batch);
}

static enum judgement judge_parse(struct client *client, const struct frame *frame, struct bytes in,
                                  struct batch *batch)
{
	if (in.count <= FRAME_HEADER_SIZE)
		return frame->length > FRAME_HEADER_SIZE ? JUDGE_MORE : JUDGE_SEND;
	if (in.at[FRAME_HEADER_SIZE] == 0)
		return unnamed_parse(client, frame, in, batch);
	return prepared_parse(client, frame, in, batch);
}

/* A Bind, or a Describe of a statement. */
static enum judgement judge_use(struct client *client, const struct frame *frame, struct bytes in,
                                const struct object_names *names, struct batch *batch, size_t *head)
{
	bool is_unnamed = !*names->statement;
	enum judgement result = JUDGE_SEND;

	if (frame->type == 'B')
		batch->bound = NULL;
	if (is_unnamed)
		result = unnamed_use(client, frame->type, batch);
	if (result == JUDGE_SEND && frame->type == 'B' && client->sql)
		result = sql_bind(client, names->portal, names->statement, batch);
	return result == JUDGE_SEND && !is_unnamed
	           ? prepared_use(client, frame, in, names, batch, head)
	           : result;
}

/* A Close of a statement. */
static enum judgement judge_close(struct client *client, const char *name, bool is_whole,
                                  struct batch *batch)
{
	if (!*name)
		unnamed_drop(client, batch);
	/* PostgreSQL refuses a Close with bytes after its name */
	return *name && is_whole ? prepared_close(client, name, batch) : JUDGE_SEND;
}

/* Judges a frame that names a statement, or may name one in its text. */
static enum judgement judge_names(struct client *client, const struct frame *frame, struct bytes in,
                                  struct batch *batch, size_t *head)
{
	size_t length = frame->length - FRAME_HEADER_SIZE;
	struct object_names names;

	if (frame->type == 'P')
		return judge_parse(client, frame, in, batch);
	if (frame->type == 'Q')
		return sql_query(client, frame, in, batch);
	switch (fields_names(frame->type, frame_received(in, frame), length, &names)) {
	case WIRE_MORE:
		return JUDGE_MORE;
	case WIRE_BAD:
		return JUDGE_SEND; /* PostgreSQL reports the error */
	case WIRE_OK:
		break;
	}
	if (frame->type == 'E')
		return client->sql ? sql_execute(client, names.portal, batch) : JUDGE_SEND;
	if (frame->type == 'C')
		return names.statement
		           ? judge_close(client, names.statement, names.count == length, batch)
		           : JUDGE_SEND;
	if (names.target == 'P')
		return batch->bound && strcmp(names.portal, batch->bound_portal) == 0
		           ? prepared_describe_portal(client, batch)
		           : JUDGE_SEND;
	return judge_use(client, frame, in, &names, batch, head);
}

enum judgement statements_judge(struct client *client, const struct frame *frame, struct bytes in,
                                struct batch *batch, size_t *head)
{
	*head = 0;
	watch_for_replan(client, frame, in, batch);
	if (!has_names(client, frame->type))
		return JUDGE_SEND;
	if (in.count < frame->length && whole_of(client, frame, in) == WHOLE_TOO_LONG)
		return refuse_long(client, frame, batch);
	if (client->borrower.server->wire.ledger.is_skipping)
		return JUDGE_SEND; /* an error occurred: the server skips the frame */
	return judge_names(client, frame, in, batch, head);
}

/* ---- events of the client ---- */

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

struct statement *statements_executed(const struct client *client, struct bytes text)
{
	struct sql_statement sql;

	if (sql_glance(text, true) != WIRE_OK)
		return NULL;
	sql_read(text, &sql);
	return sql.kind == SQL_EXECUTE ? statements_find(client, sql.name) : NULL;
}
