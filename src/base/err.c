/* SPDX-License-Identifier: ISC */
/*
 * Errors: the table from codes to SQLSTATEs, and functions that set the text.
 */
#include "pgweir/base/err.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "pgweir/base/banned.h"

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
