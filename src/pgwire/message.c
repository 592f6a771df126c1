/* SPDX-License-Identifier: ISC */
/*
 * Builds messages.
 *
 *   type | int32 length (itself included) | body
 *
 * The length is filled in when the body is complete.
 */
#include "pgweir/pgwire/message.h"

#include "pgweir/pgwire/fields.h"

#define CANCEL_CODE 80877102
#define TLS_CODE 80877103

size_t message_begin(struct buf *buf, char type)
{
	size_t at = buf->count;
	char *header = buf_reserve(buf, FRAME_HEADER_SIZE);

	if (header) {
		header[0] = type;
		buf->count += FRAME_HEADER_SIZE;
	}
	return at;
}

void message_end(struct buf *buf, size_t at)
{
	if (buf_ok(buf))
		store_be32(buf->at + at + 1, (uint32_t)(buf->count - at - 1));
}

void message_bare(struct buf *buf, char type) { message_end(buf, message_begin(buf, type)); }

/* A whole message whose body is these bytes. */
static void whole(struct buf *buf, char type, struct bytes body)
{
	size_t at = message_begin(buf, type);

	buf_add(buf, body.at, body.count);
	message_end(buf, at);
}

/* A whole message whose body is one text. */
static void text_message(struct buf *buf, char type, const char *text)
{
	whole(buf, type, bytes_of(text, strlen(text) + 1));
}

static void report_field(struct buf *buf, char field, const char *text)
{
	if (!text)
		return;
	buf_add_byte(buf, field);
	buf_add_cstr(buf, text);
}

static void add_report(struct buf *buf, char type, const struct report *report)
{
	size_t at = message_begin(buf, type);

	report_field(buf, 'S', report->severity);
	report_field(buf, 'V', report->verbatim);
	report_field(buf, 'C', report->sqlstate);
	report_field(buf, 'M', report->text);
	report_field(buf, 'D', report->detail);
	report_field(buf, 'H', report->hint);
	report_field(buf, 'R', report->routine);
	buf_add_byte(buf, 0);
	message_end(buf, at);
}

void message_error(struct buf *buf, const struct report *report) { add_report(buf, 'E', report); }

void message_notice(struct buf *buf, const struct report *report) { add_report(buf, 'N', report); }

void message_err(struct buf *buf, const char *severity, const struct err *err)
{
	struct report report = { .severity = severity,
		                 .sqlstate = err->sqlstate,
		                 .text = err->text,
		                 .detail = *err->detail ? err->detail : NULL,
		                 .hint = err->hint };

	message_error(buf, &report);
}

void message_ready(struct buf *buf, char state) { whole(buf, 'Z', bytes_of(&state, 1)); }

void message_parameter(struct buf *buf, const char *name, const char *value)
{
	size_t at = message_begin(buf, 'S');

	buf_add_cstr(buf, name);
	buf_add_cstr(buf, value);
	message_end(buf, at);
}

void message_key(struct buf *buf, struct bytes key) { whole(buf, 'K', key); }

void message_complete(struct buf *buf, const char *tag) { text_message(buf, 'C', tag); }

void message_negotiate(struct buf *buf, uint32_t version, struct bytes names)
{
	size_t at = message_begin(buf, 'v');
	uint32_t count = 0;

	for (size_t i = 0; i < names.count; i++)
		count += names.at[i] == 0;
	buf_add_be32(buf, version);
	buf_add_be32(buf, count);
	buf_add(buf, names.at, names.count);
	message_end(buf, at);
}

void message_auth(struct buf *buf, enum auth_kind kind, struct bytes data)
{
	size_t at = message_begin(buf, 'R');

	buf_add_be32(buf, kind);
	buf_add(buf, data.at, data.count);
	message_end(buf, at);
}

void message_auth_sasl(struct buf *buf, const char *const *mechanisms, size_t count)
{
	size_t at = message_begin(buf, 'R');

	buf_add_be32(buf, AUTH_SASL);
	for (size_t i = 0; i < count; i++)
		buf_add_cstr(buf, mechanisms[i]);
	buf_add_byte(buf, 0);
	message_end(buf, at);
}

void message_parameter_types(struct buf *buf, const uint32_t *types, size_t count)
{
	size_t at = message_begin(buf, 't');

	buf_add_be16(buf, (uint16_t)count);
	for (size_t i = 0; i < count; i++)
		buf_add_be32(buf, types[i]);
	message_end(buf, at);
}

size_t message_columns_begin(struct buf *buf, uint16_t count)
{
	size_t at = message_begin(buf, 'T');

	buf_add_be16(buf, count);
	return at;
}

void message_column(struct buf *buf, const struct message_column *column)
{
	buf_add_cstr(buf, column->name);
	buf_add_be32(buf, 0); /* no table */
	buf_add_be16(buf, 0); /* no column of a table */
	buf_add_be32(buf, column->type);
	buf_add_be16(buf, (uint16_t)column->size);
	buf_add_be32(buf, UINT32_MAX); /* no type modifier */
	buf_add_be16(buf, (uint16_t)column->format);
}

size_t message_row_begin(struct buf *buf, uint16_t count)
{
	size_t at = message_begin(buf, 'D');

	buf_add_be16(buf, count);
	return at;
}

void message_row_text(struct buf *buf, const char *text)
{
	if (text)
		message_row_bytes(buf, bytes_text(text));
	else
		message_row_null(buf);
}

void message_row_bytes(struct buf *buf, struct bytes value)
{
	buf_add_be32(buf, (uint32_t)value.count);
	buf_add(buf, value.at, value.count);
}

void message_row_null(struct buf *buf) { buf_add_be32(buf, UINT32_MAX); }

/* ---- messages of a client ---- */

/* A packet without a type byte. version: or the code of a request. */
size_t message_startup_begin(struct buf *buf, uint32_t version)
{
	size_t at = buf->count;

	buf_add_be32(buf, 0);
	buf_add_be32(buf, version);
	return at;
}

static void packet_end(struct buf *buf, size_t at)
{
	if (buf_ok(buf))
		store_be32(buf->at + at, (uint32_t)(buf->count - at));
}

void message_startup_pair(struct buf *buf, const char *name, const char *value)
{
	buf_add_cstr(buf, name);
	buf_add_cstr(buf, value);
}

void message_startup_end(struct buf *buf, size_t at)
{
	buf_add_byte(buf, 0);
	packet_end(buf, at);
}

void message_tls_request(struct buf *buf) { packet_end(buf, message_startup_begin(buf, TLS_CODE)); }

void message_cancel(struct buf *buf, struct bytes key)
{
	size_t at = message_startup_begin(buf, CANCEL_CODE);

	buf_add(buf, key.at, key.count);
	packet_end(buf, at);
}

void message_password(struct buf *buf, const char *password) { text_message(buf, 'p', password); }

void message_sasl_initial(struct buf *buf, const char *mechanism, struct bytes data)
{
	size_t at = message_begin(buf, 'p');

	buf_add_cstr(buf, mechanism);
	buf_add_be32(buf, (uint32_t)data.count);
	buf_add(buf, data.at, data.count);
	message_end(buf, at);
}

void message_sasl_response(struct buf *buf, struct bytes data) { whole(buf, 'p', data); }

void message_query(struct buf *buf, const char *text) { text_message(buf, 'Q', text); }
