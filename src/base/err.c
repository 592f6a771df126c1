/* SPDX-License-Identifier: ISC */
/*
 * Errors: the table from codes to SQLSTATEs, and functions that set the text.
 */
#include "pgweir/base/err.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pgweir/base/buf.h"
#include "pgweir/base/close_reason.h"
#include "pgweir/base/text.h"

#define SQLSTATE(id, sqlstate, is_error, name, words) [ERR_##id] = sqlstate,

static const char sqlstates[ERR_CODES][6] = { ERR_CODE_LIST(SQLSTATE) };

const char *err_sqlstate(enum err_code code) { return sqlstates[code]; }

/* Writes to the rest of a text. */
__attribute__((format(printf, 3, 0))) static void add(char *at, size_t size, const char *format,
                                                      va_list args)
{
	struct strbuf text = { .at = at, .size = size };

	strbuf_vprintf(&text, format, args);
}

bool err_set(struct err *err, enum err_code code, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	err_vset(err, code, format, args);
	va_end(args);
	return false;
}

bool err_vset(struct err *err, enum err_code code, const char *format, va_list args)
{
	if (!err)
		return false;
	err->reason = (enum close_reason)code;
	err_recode(err, code);
	err->detail[0] = 0;
	err->hint = NULL;
	add(err->text, sizeof(err->text), format, args);
	return false;
}

void *err_calloc(size_t size, const char *text, struct err *err)
{
	void *at = calloc(1, size);

	if (!at)
		err_set(err, ERR_MEMORY, "%s", text);
	return at;
}

bool err_recode(struct err *err, enum err_code code)
{
	err->code = code;
	memcpy(err->sqlstate, sqlstates[code], sizeof(err->sqlstate));
	return false;
}

bool err_reason(struct err *err, enum close_reason reason)
{
	err->reason = reason;
	return false;
}

bool err_close(struct err *err, enum close_reason reason)
{
	const struct close_reason_row *row = close_reason_row(reason);

	assert(row->words);
	err_set(err, row->code, "%s", row->words);
	return err_reason(err, reason);
}

bool err_detail(struct err *err, const char *format, ...)
{
	va_list args;

	if (!err)
		return false;
	va_start(args, format);
	add(err->detail, sizeof(err->detail), format, args);
	va_end(args);
	return false;
}

bool err_detail_take(struct err *err, struct buf *text)
{
	if (buf_ok(text))
		err_detail(err, "%s", buf_text(text));
	buf_free(text);
	return false;
}

bool err_hint(struct err *err, const char *text)
{
	if (err)
		err->hint = text;
	return false;
}

bool err_set_foreign(struct err *err, const char *sqlstate, const char *text)
{
	if (!err)
		return false;
	err_set(err, ERR_FOREIGN, "%s", text);
	if (strlen(sqlstate) == 5)
		memcpy(err->sqlstate, sqlstate, sizeof(err->sqlstate));
	return false;
}

bool err_prefix(struct err *err, const char *format, ...)
{
	char words[ERR_TEXT_SIZE];
	va_list args;

	if (!err)
		return false;
	memcpy(words, err->text, sizeof(words));
	va_start(args, format);
	add(err->text, sizeof(err->text), format, args);
	va_end(args);
	return err_suffix(err, "%s", words);
}

bool err_suffix(struct err *err, const char *format, ...)
{
	size_t used = err ? strlen(err->text) : 0;
	va_list args;

	if (!err)
		return false;
	va_start(args, format);
	add(err->text + used, sizeof(err->text) - used, format, args);
	va_end(args);
	return false;
}

/* ---- close reason ---- */

#define CODE_ROW(id, sqlstate, is_error, name, words) \
	[ERR_##id] = { name, is_error, ERR_##id, words },
#define ROW(id, code, is_error, name, words) [CLOSE_##id] = { name, is_error, code, words },

static const struct close_reason_row rows[CLOSE_REASONS] = { ERR_CODE_LIST(CODE_ROW)
	                                                         CLOSE_REASON_LIST(ROW) };

const struct close_reason_row *close_reason_row(enum close_reason reason)
{
	assert(reason < CLOSE_REASONS);
	return &rows[reason];
}

static void note_message(struct close_count *count, const struct close_told *told)
{
	struct strbuf message = strbuf_begin(count->message, sizeof(count->message));

	strbuf_add(&message, told->words);
	if (told->detail) {
		strbuf_add(&message, ": ");
		strbuf_add(&message, told->detail);
	}
	for (char *at = count->message; *at; at++) {
		if ((unsigned char)*at < ' ' || *at == 0x7f)
			*at = ' ';
	}
}

void close_reason_note(struct close_counts *counts, const struct close_told *told)
{
	struct close_count *count = &counts->counts[told->reason];

	count->count++;
	sparse_sum_note(told->of_database ? told->of_database : &counts->of_none, told->reason);
	count->wall_last = wall_now();
	text_copy(count->database, sizeof(count->database), told->database);
	text_copy(count->user, sizeof(count->user), told->user);
	note_message(count, told);
}
