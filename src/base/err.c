/* SPDX-License-Identifier: ISC */
/*
 * Errors: the table from codes to SQLSTATEs, and functions that set the text.
 */
#include "pgweir/base/err.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "pgweir/base/close_reason.h"
#include "pgweir/base/text.h"

static const char sqlstates[ERR_CODES][6] = {
	[ERR_NONE] = "00000",
	[ERR_PROTOCOL] = "08P01",
	[ERR_SERVER_LOST] = "08006",
	[ERR_SERVER_CONNECT] = "08001",
	[ERR_PASSWORD] = "28P01",
	[ERR_NOT_ALLOWED] = "28000",
	[ERR_NO_DATABASE] = "3D000",
	[ERR_LIMIT] = "53300",
	[ERR_MEMORY] = "53200",
	[ERR_FILES] = "53000",
	[ERR_ADMIN_SHUTDOWN] = "57P01",
	[ERR_CANNOT_CONNECT] = "57P03",
	[ERR_UNREACHABLE] = "57P03",
	[ERR_QUERY_CANCELED] = "57014",
	[ERR_IDLE_TRANSACTION] = "25P03",
	[ERR_TRANSACTION_TIME] = "25P04",
	[ERR_IDLE_SESSION] = "57P05",
	[ERR_STATEMENT_NAME] = "26000",
	[ERR_STATEMENT_TWICE] = "42P05",
	[ERR_PLAN_CHANGED] = "0A000",
	[ERR_UNSUPPORTED] = "0A000",
	[ERR_TOO_LONG] = "54000",
	[ERR_PARAMETER] = "22023",
	[ERR_NO_PARAMETER] = "42704",
	[ERR_SYNTAX] = "42601",
	[ERR_RIGHTS] = "42501",
	[ERR_STATE] = "55000",
	[ERR_CONFIG] = "F0000",
	[ERR_UNFIT] = "F0000",
	[ERR_SYSTEM] = "58000",
	[ERR_INTERNAL] = "XX000",
	[ERR_FOREIGN] = "XX000",
};

const char *err_sqlstate(enum err_code code) { return sqlstates[code]; }

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
	vsnprintf(err->text, sizeof(err->text), format, args);
	return false;
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

bool err_detail(struct err *err, const char *text)
{
	if (err)
		snprintf(err->detail, sizeof(err->detail), "%s", text);
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
	vsnprintf(err->text, sizeof(err->text), format, args);
	va_end(args);
	size_t used = strlen(err->text);
	snprintf(err->text + used, sizeof(err->text) - used, "%s", words);
	return false;
}

bool err_suffix(struct err *err, const char *format, ...)
{
	size_t used = err ? strlen(err->text) : 0;
	va_list args;

	if (!err)
		return false;
	va_start(args, format);
	vsnprintf(err->text + used, sizeof(err->text) - used, format, args);
	va_end(args);
	return false;
}

/*
 * ---- close reason ----
 *
 * The table of close reasons, and the counters of closed connections.
 */

#define ROW(id, code, is_error, name, words) [CLOSE_##id] = { name, is_error, code, words },

static const struct close_reason_row rows[CLOSE_REASONS] = {
	[ERR_NONE] = { "other", false, ERR_NONE, NULL },
	[ERR_PROTOCOL] = { "other: broken protocol", true, ERR_PROTOCOL, NULL },
	[ERR_SERVER_LOST] = { "other: server lost", true, ERR_SERVER_LOST, NULL },
	[ERR_SERVER_CONNECT] = { "server could not be reached", true, ERR_SERVER_CONNECT, NULL },
	[ERR_PASSWORD] = { "other: wrong password", true, ERR_PASSWORD, NULL },
	[ERR_NOT_ALLOWED] = { "other: not allowed", true, ERR_NOT_ALLOWED, NULL },
	[ERR_NO_DATABASE] = { "other: no such database", true, ERR_NO_DATABASE, NULL },
	[ERR_LIMIT] = { "other: a limit was reached", true, ERR_LIMIT, NULL },
	[ERR_MEMORY] = { "out of memory", true, ERR_MEMORY, "out of memory" },
	[ERR_FILES] = { "out of descriptors or threads", true, ERR_FILES, NULL },
	[ERR_ADMIN_SHUTDOWN] = { "other: ended by an administrator", false, ERR_ADMIN_SHUTDOWN,
	                         NULL },
	[ERR_CANNOT_CONNECT] = { "other: not now", true, ERR_CANNOT_CONNECT, NULL },
	[ERR_UNREACHABLE] = { "PostgreSQL cannot be reached (fail_fast)", true, ERR_UNREACHABLE,
	                      NULL },
	[ERR_QUERY_CANCELED] = { "other: query canceled", true, ERR_QUERY_CANCELED, NULL },
	[ERR_IDLE_TRANSACTION] = { "other: idle in a transaction", true, ERR_IDLE_TRANSACTION,
	                           NULL },
	[ERR_TRANSACTION_TIME] = { "other: transaction too long", true, ERR_TRANSACTION_TIME,
	                           NULL },
	[ERR_IDLE_SESSION] = { "other: idle for too long", true, ERR_IDLE_SESSION, NULL },
	[ERR_STATEMENT_NAME] = { "unknown prepared statement", true, ERR_STATEMENT_NAME, NULL },
	[ERR_STATEMENT_TWICE] = { "prepared statement named twice", true, ERR_STATEMENT_TWICE,
	                          NULL },
	[ERR_PLAN_CHANGED] = { "cached plan with other columns", true, ERR_PLAN_CHANGED, NULL },
	[ERR_UNSUPPORTED] = { "other: not supported", true, ERR_UNSUPPORTED, NULL },
	[ERR_TOO_LONG] = { "other: too long", true, ERR_TOO_LONG, NULL },
	[ERR_PARAMETER] = { "other: a bad parameter", true, ERR_PARAMETER, NULL },
	[ERR_NO_PARAMETER] = { "other: unknown parameter", true, ERR_NO_PARAMETER, NULL },
	[ERR_SYNTAX] = { "other: syntax", true, ERR_SYNTAX, NULL },
	[ERR_RIGHTS] = { "other: not permitted", true, ERR_RIGHTS, NULL },
	[ERR_STATE] = { "other: not in this state", true, ERR_STATE, NULL },
	[ERR_CONFIG] = { "other: configuration", true, ERR_CONFIG, NULL },
	[ERR_UNFIT] = { "other: settings that do not fit together", true, ERR_UNFIT, NULL },
	[ERR_SYSTEM] = { "other: the operating system", true, ERR_SYSTEM, NULL },
	[ERR_INTERNAL] = { "other: internal error", true, ERR_INTERNAL, NULL },
	[ERR_FOREIGN] = { "refused by PostgreSQL", true, ERR_FOREIGN, NULL },
	CLOSE_REASON_LIST(ROW)
};

const struct close_reason_row *close_reason_row(enum close_reason reason)
{
	assert(reason < CLOSE_REASONS);
	return &rows[reason];
}

/* If the text ends with an incomplete UTF-8 character, removes that character. */
static void cut(char *text)
{
	size_t count = strlen(text), tail = 0;

	while (tail < count && tail < 3 && ((unsigned char)text[count - 1 - tail] & 0xc0) == 0x80)
		tail++;
	if (tail < count && (unsigned char)text[count - 1 - tail] >= 0xc0)
		text[count - 1 - tail] = 0;
}

static void note_message(struct close_count *count, const struct close_told *told)
{
	struct strbuf message = strbuf_begin(count->message, sizeof(count->message));

	strbuf_add(&message, told->words);
	if (told->detail) {
		strbuf_add(&message, ": ");
		strbuf_add(&message, told->detail);
	}
	if (message.count + 1 == sizeof(count->message))
		cut(count->message);
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
