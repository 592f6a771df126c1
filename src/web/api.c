/* SPDX-License-Identifier: ISC */
/*
 * /api/v1/show: SHOW tables as JSON.
 *
 *   {"name":"POOLS","at":"...Z","columns":[{"name":"database","type":"text"},...],"rows":[[...],...]}
 */
#include <stdlib.h>

#include "pgweir/base/container_of.h"
#include "pgweir/base/text.h"

#include "web_priv.h"

#define API_SHOW "/api/v1/show/"
#define JSON_TYPE "application/json"

/* A table that is being sent to a client. */
struct api_answer {
	struct answer_maker maker;
	struct connection *connection;
	struct reader *reader;
	bool has_columns, has_row;
	enum reader_result result; /* of the last piece */
	struct table_listed table;
	struct buf out;
};

static void free_answer(struct api_answer *answer)
{
	reader_end(&answer->reader);
	buf_free(&answer->out);
	free(answer);
}

static void on_api_gone(struct answer_maker *maker)
{
	free_answer(container_of(maker, struct api_answer, maker));
}

/* ---- JSON ---- */

static void add_columns(struct api_answer *answer)
{
	const struct table_listed *table = &answer->table;
	struct buf *out = &answer->out;
	char now[TEXT_UTC_SIZE];

	answer->has_columns = true;
	buf_add_text(out, "{\"name\":");
	json_add_text(out, bytes_text(table->name));
	buf_printf(out, ",\"at\":\"%s\",\"columns\":[", text_utc(wall_now(), now));
	for (size_t i = 0; i < table->column_count; i++) {
		buf_add_text(out, i ? ",{\"name\":" : "{\"name\":");
		json_add_text(out, bytes_text(table->columns[i].name));
		buf_printf(out, ",\"type\":\"%s\"}", table->columns[i].type);
	}
	buf_add_text(out, "],\"rows\":[");
}

static void add_row(struct api_answer *answer, const struct bytes *values)
{
	struct buf *out = &answer->out;

	buf_add_text(out, answer->has_row ? ",\n[" : "\n[");
	answer->has_row = true;
	for (size_t i = 0; i < answer->table.column_count; i++) {
		if (i)
			buf_add_byte(out, ',');
		if (!values[i].at)
			buf_add_text(out, "null");
		else if (answer->table.columns[i].is_number)
			buf_add(out, values[i].at, values[i].count);
		else
			json_add_text(out, values[i]);
	}
	buf_add_byte(out, ']');
}

/* ---- a table ---- */

void api_refuse(struct connection *connection, const struct err *err)
{
	int status = err->code == ERR_SYNTAX || err->code == ERR_NO_DATABASE ? 404
	             : err->code == ERR_RIGHTS                               ? 403
	                                                                     : 503;

	connection_answer_error(connection, status,
	                        err->code == ERR_SYNTAX ? "no such table, or not with these words"
	                                                : err->text,
	                        "GET /api/v1/show lists the tables");
}

static void end_api(struct api_answer *answer)
{
	struct connection *connection = answer->connection;

	free_answer(answer);
	connection_end(connection);
}

static void on_api_room(struct answer_maker *maker)
{
	struct api_answer *answer = container_of(maker, struct api_answer, maker);

	if (answer->reader->is_away)
		return; /* the flushed bytes were the head's */
	if (answer->result == READER_MORE)
		reader_next(answer->reader);
	else
		end_api(answer);
}

static void convert(struct api_answer *answer, struct bytes piece)
{
	struct bytes values[TABLE_COLUMNS_MAX];

	buf_clear(&answer->out);
	if (!answer->has_columns)
		add_columns(answer);
	while (reader_take(&piece, values))
		add_row(answer, values);
	if (answer->result == READER_END)
		buf_add_text(&answer->out, "\n]}\n");
}

/* Sends what was converted. The answer is gone if the connection is. */
static void send_converted(struct api_answer *answer)
{
	struct connection *connection = answer->connection;

	if (!connection->is_begun)
		connection_begin(connection,
		                 &(struct answer_head){ .status = 200, .type = JSON_TYPE });
	if (!connection_is_answering(connection))
		return;
	if (connection->is_head)
		end_api(answer);
	else if (connection_add(connection, buf_bytes(&answer->out)))
		on_api_room(&answer->maker);
}

static void on_api_piece(void *arg, enum reader_result result, struct bytes piece)
{
	struct api_answer *answer = arg;
	struct connection *connection = answer->connection;

	answer->result = result;
	if (result == READER_FAILED && !connection->is_begun) {
		struct err err = answer->reader->err;

		free_answer(answer);
		api_refuse(connection, &err);
		return;
	}
	/* after the first piece the client cannot get an error any more */
	if (result != READER_FAILED)
		convert(answer, piece);
	if (result != READER_FAILED && buf_ok(&answer->out)) {
		send_converted(answer);
		return;
	}
	free_answer(answer);
	connection_abort(connection);
}

/* ---- the request ---- */

bool api_read_arguments(struct bytes query, const char *wanted, struct buf *words)
{
	struct bytes name, value;

	while (http_query_next(&query, &name, &value)) {
		if (!http_is(name, wanted))
			continue;
		buf_add_byte(words, ' ');
		if (!http_decode(value, true, words))
			return false;
	}
	return true;
}

static void begin_show(struct web *web, struct connection *connection, struct buf *words)
{
	struct api_answer *answer = calloc(1, sizeof(*answer));

	if (answer)
		answer->reader = reader_new(&web->readers, buf_text(words), on_api_piece, answer);
	if (!answer || !answer->reader) {
		free(answer);
		connection_abort(connection);
		return;
	}
	answer->maker = (struct answer_maker){ on_api_room, on_api_gone };
	answer->connection = connection;
	tables_find(buf_text(words), &answer->table);
	connection_keep(connection, &answer->maker);
	reader_next(answer->reader);
}

void api_show(struct web *web, struct connection *connection, const struct http_head *head)
{
	struct buf words = { 0 };

	if (http_decode(bytes_skip(head->path, strlen(API_SHOW)), false, &words) &&
	    api_read_arguments(head->query, "argument", &words))
		begin_show(web, connection, &words);
	else
		connection_answer_error(connection, 400, API_BAD_ADDRESS, NULL);
	buf_free(&words);
}

/* ---- the list ---- */

void api_list(struct web *web, struct connection *connection, const struct http_head *head)
{
	struct table_listed listed;
	struct buf out = { 0 };
	size_t count = 0;

	(void)web;
	(void)head;
	buf_add_text(&out, "{\"tables\":[");
	for (size_t i = 0; tables_list(i, &listed); i++) {
		if (listed.is_for_admins)
			continue;
		buf_add_text(&out, count++ ? ",\n{\"name\":" : "\n{\"name\":");
		json_add_text(&out, bytes_text(listed.name));
		buf_add_text(&out, ",\"argument\":");
		json_add_text(&out, bytes_text(listed.argument));
		buf_add_text(&out, ",\"help\":");
		json_add_text(&out, bytes_text(listed.help));
		buf_add_byte(&out, '}');
	}
	buf_add_text(&out, "\n]}\n");
	connection_answer(connection, &(struct answer_head){ .status = 200, .type = JSON_TYPE },
	                  buf_bytes(&out));
	buf_free(&out);
}
