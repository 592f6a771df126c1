/* SPDX-License-Identifier: ISC */
/*
 * /api/v1/show: SHOW tables as JSON.
 *
 *   {"name":"POOLS","at":"...Z","columns":[{"name":"database","type":"text"},...],"rows":[[...],...]}
 */
#include "pgweir/base/text.h"

#include "web_priv.h"

#define API_SHOW "/api/v1/show/"
#define JSON_TYPE "application/json"

/* A table that is being sent to a client. */
struct api_answer {
	struct answer answer;
	bool has_row;
	const struct show *table;
};

/* ---- JSON ---- */

static void add_columns(const struct show *table, struct buf *out)
{
	char now[TEXT_UTC_SIZE];

	buf_add_text(out, "{\"name\":");
	json_add_text(out, bytes_text(table->item));
	buf_printf(out, ",\"at\":\"%s\",\"columns\":[", text_utc(wall_now(), now));
	for (size_t i = 0; i < table->columns.count; i++) {
		buf_add_text(out, i ? ",{\"name\":" : "{\"name\":");
		json_add_text(out, bytes_text(table->columns.at[i].name));
		buf_printf(out, ",\"type\":\"%s\"}", rows_type_name(table->columns.at[i].type));
	}
	buf_add_text(out, "],\"rows\":[");
}

static void add_row(struct api_answer *answer, const struct bytes *values, struct buf *out)
{
	buf_add_text(out, answer->has_row ? ",\n[" : "\n[");
	answer->has_row = true;
	for (size_t i = 0; i < answer->table->columns.count; i++) {
		if (i)
			buf_add_byte(out, ',');
		if (!values[i].at)
			buf_add_text(out, "null");
		else if (rows_is_number(answer->table->columns.at[i].type))
			buf_add(out, values[i].at, values[i].count);
		else
			json_add_text(out, values[i]);
	}
	buf_add_byte(out, ']');
}

/* ---- a table ---- */

static enum table_result next_part(struct answer *answer, struct buf *out)
{
	struct api_answer *api = container_of(answer, struct api_answer, answer);
	struct bytes values[COLUMNS_MAX], piece = buf_bytes(&answer->reader->piece);

	if (!answer->connection->is_begun)
		add_columns(api->table, out);
	while (reader_take(&piece, values))
		add_row(api, values, out);
	if (answer->reader->result == TABLE_MORE)
		return TABLE_MORE;
	buf_add_text(out, "\n]}\n");
	return TABLE_END;
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

void api_show(struct connection *connection, const struct http_head *head)
{
	struct api_answer *api;
	struct buf words = { 0 };

	if (!http_decode(bytes_skip(head->path, strlen(API_SHOW)), false, &words) ||
	    !api_read_arguments(head->query, "argument", &words)) {
		connection_answer_error(connection, 400, API_BAD_ADDRESS, NULL);
	} else if ((api =
	                connection_begin_answer(connection, sizeof(*api), JSON_TYPE, next_part))) {
		api->table = tables_find(buf_text(&words));
		if (!connection_read_table(&api->answer, buf_text(&words)))
			connection_close(connection);
	}
	buf_free(&words);
}

/* ---- the list ---- */

void api_list(struct connection *connection, const struct http_head *head)
{
	const struct show *table;
	const char *argument;
	struct buf out = { 0 };
	size_t count = 0;

	(void)head;
	buf_add_text(&out, "{\"tables\":[");
	for (size_t i = 0; (table = shows[i]); i++) {
		if (table->role > CONSOLE_STATS)
			continue;
		argument = show_argument_name(table->argument);
		buf_add_text(&out, count++ ? ",\n{\"name\":" : "\n{\"name\":");
		json_add_text(&out, bytes_text(table->item));
		buf_add_text(&out, ",\"argument\":");
		json_add_text(&out, bytes_text(argument + (*argument == ' ')));
		buf_add_text(&out, ",\"help\":");
		json_add_text(&out, bytes_text(table->help));
		buf_add_byte(&out, '}');
	}
	buf_add_text(&out, "\n]}\n");
	connection_answer(connection, &(struct answer_head){ .status = 200, .type = JSON_TYPE },
	                  buf_bytes(&out));
	buf_free(&out);
}
