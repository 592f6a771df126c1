/* SPDX-License-Identifier: ISC */
/*
 * Checks results. One function for each kind of expected result, in one table. The function checks
 * a result with a valid status; any other status is wrong, except for a canceled statement if that
 * is allowed.
 */
#include "answers.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "statement.h"

#define QUERY_CANCELED "57014"

struct due *answers_expect(struct answers *answers, enum due_kind kind)
{
	struct due *due;

	assert(answers->count < AUTH_CACHE_MAX);
	due = &answers->due[(answers->first + answers->count++) % AUTH_CACHE_MAX];
	*due = (struct due){ .kind = kind };
	return due;
}

struct due *answers_expect_words(struct answers *answers, enum due_kind kind, const char *words)
{
	struct due *due = answers_expect(answers, kind);

	snprintf(due->words, sizeof(due->words), "%s", words);
	return due;
}

struct due *answers_next(struct answers *answers)
{
	return answers->count ? &answers->due[answers->first] : NULL;
}

static void answers_drop_first(struct answers *answers)
{
	answers->first = (answers->first + 1) % AUTH_CACHE_MAX;
	answers->count--;
}

void answers_clear(struct answers *answers)
{
	answers->count = 0;
	answers->notice[0] = '\0';
	answers->was_cancelled = false;
}

__attribute__((format(printf, 2, 3))) static bool complain(struct answers *answers,
                                                           const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(answers->complaint, sizeof(answers->complaint), format, args);
	va_end(args);
	return false;
}

/* One row of DUE_ROWS or DUE_COPY_OUT: tag, number, sum, text. */
static bool judge_row(struct answers *answers, struct due *due, const char *const field[ROW_FIELDS])
{
	unsigned int number = ++due->seen;
	const char *text = field[3];
	char letter = statement_letter(number);

	if (strcmp(field[0], due->tag) != 0)
		return complain(answers, "row %u is of %.40s", number, field[0]);
	if (strtoul(field[1], NULL, 10) != number)
		return complain(answers, "row %u is number %.20s", number, field[1]);
	if (strtoul(field[2], NULL, 10) != statement_sum(due->seed, number))
		return complain(answers, "row %u has the wrong sum %.20s", number, field[2]);
	if (strlen(text) != due->width)
		return complain(answers, "row %u has %zu letters, not %u", number, strlen(text),
		                due->width);
	for (unsigned int i = 0; i < due->width; i++)
		if (text[i] != letter)
			return complain(answers, "row %u has a wrong letter at %u", number, i);
	return true;
}

static bool judge_rows(struct answers *answers, struct due *due, const PGresult *result)
{
	char tag[WORDS_SIZE];

	if (PQnfields(result) != ROW_FIELDS)
		return complain(answers, "%d columns", PQnfields(result));
	for (int row = 0; row < PQntuples(result); row++) {
		const char *field[ROW_FIELDS];

		for (int i = 0; i < ROW_FIELDS; i++)
			field[i] = PQgetvalue(result, row, i);
		if (!judge_row(answers, due, field))
			return false;
	}
	if (PQresultStatus(result) == PGRES_SINGLE_TUPLE)
		return true;
	if (due->seen != due->rows)
		return complain(answers, "%u rows, not %u", due->seen, due->rows);
	snprintf(tag, sizeof(tag), "SELECT %u", due->rows);
	if (strcmp(PQcmdStatus((PGresult *)result), tag) != 0)
		return complain(answers, "command tag %s", PQcmdStatus((PGresult *)result));
	return true;
}

static bool judge_value(struct answers *answers, struct due *due, const PGresult *result)
{
	if (PQntuples(result) != 1 || PQnfields(result) != 1)
		return complain(answers, "%d rows of %d columns, not one value", PQntuples(result),
		                PQnfields(result));
	if (due->kind == DUE_KEEP)
		snprintf(answers->kept, sizeof(answers->kept), "%s", PQgetvalue(result, 0, 0));
	else if (strcmp(PQgetvalue(result, 0, 0), due->words) != 0)
		return complain(answers, "value %.60s, not %s", PQgetvalue(result, 0, 0),
		                due->words);
	return true;
}

static bool judge_command(struct answers *answers, struct due *due, const PGresult *result)
{
	const char *words = PQcmdStatus((PGresult *)result);

	if (strcmp(words, due->words) != 0)
		return complain(answers, "command tag %s, not %s", words, due->words);
	return true;
}

static bool judge_description(struct answers *answers, struct due *due, const PGresult *result)
{
	if (PQnparams(result) != ROW_FIELDS || PQnfields(result) != ROW_FIELDS)
		return complain(answers, "%d parameters, %d columns", PQnparams(result),
		                PQnfields(result));
	if (strcmp(PQfname(result, 2), due->words) != 0)
		return complain(answers, "column %s, not %s", PQfname(result, 2), due->words);
	return true;
}

static bool judge_error(struct answers *answers, struct due *due, const PGresult *result)
{
	const char *sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);
	const char *message = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);

	if (!sqlstate || strcmp(sqlstate, due->words) != 0)
		return complain(answers, "error %s (%.200s), not %s", sqlstate ? sqlstate : "-",
		                PQresultErrorMessage(result), due->words);
	if (due->tag[0] && (!message || strcmp(message, due->tag) != 0))
		return complain(answers, "error text is %.100s", message ? message : "-");
	return true;
}

/* Called twice: at the start of the data, and with the command tag after it. */
static bool judge_copy_out(struct answers *answers, struct due *due, const PGresult *result)
{
	char tag[WORDS_SIZE];

	if (PQresultStatus(result) == PGRES_COPY_OUT) {
		due->is_copying = true;
		return true;
	}
	snprintf(tag, sizeof(tag), "COPY %u", due->rows);
	if (due->seen != due->rows)
		return complain(answers, "%u lines, not %u", due->seen, due->rows);
	if (strcmp(PQcmdStatus((PGresult *)result), tag) != 0)
		return complain(answers, "command tag %s", PQcmdStatus((PGresult *)result));
	return true;
}

#define STATUS(status) (1u << (status))
#define ROWS (STATUS(PGRES_TUPLES_OK) | STATUS(PGRES_SINGLE_TUPLE))

static const struct {
	const char *name;
	unsigned int statuses; /* STATUS() of each valid one */
	bool (*judge)(struct answers *answers, struct due *due, const PGresult *result);
} judges[] = {
	[DUE_ROWS] = { "rows", ROWS, judge_rows },
	[DUE_VALUE] = { "a value", STATUS(PGRES_TUPLES_OK), judge_value },
	[DUE_KEEP] = { "some value", STATUS(PGRES_TUPLES_OK), judge_value },
	[DUE_COMMAND] = { "a command tag", STATUS(PGRES_COMMAND_OK), judge_command },
	[DUE_DESCRIPTION] = { "a description", STATUS(PGRES_COMMAND_OK), judge_description },
	[DUE_ERROR] = { "an error", STATUS(PGRES_FATAL_ERROR), judge_error },
	[DUE_EMPTY] = { "an empty answer", STATUS(PGRES_EMPTY_QUERY), NULL },
	[DUE_ABORTED] = { "an aborted statement", STATUS(PGRES_PIPELINE_ABORTED), NULL },
	[DUE_SYNC] = { "a sync", STATUS(PGRES_PIPELINE_SYNC), NULL },
	[DUE_COPY_OUT] = { "copy data", STATUS(PGRES_COPY_OUT) | STATUS(PGRES_COMMAND_OK),
	                   judge_copy_out },
	[DUE_COPY_OUT_BEGUN] = { "the begin of copy data", STATUS(PGRES_COPY_OUT), NULL },
	[DUE_COPY_IN_BEGUN] = { "leave to copy in", STATUS(PGRES_COPY_IN), NULL },
	[DUE_END] = { "the end of the statement", 0, NULL },
};

const char *answers_kind_name(enum due_kind kind) { return judges[kind].name; }

static bool is_cancelled(const PGresult *result)
{
	const char *sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);

	return sqlstate && strcmp(sqlstate, QUERY_CANCELED) == 0;
}

/* Some results are only a part of the expected one. */
static bool is_whole(const struct due *due, const PGresult *result)
{
	return !due->is_copying && PQresultStatus(result) != PGRES_SINGLE_TUPLE;
}

static void count_answer(const struct due *due, struct tally *tally)
{
	if (due->kind == DUE_ROWS || due->kind == DUE_COPY_OUT)
		tally_add(tally, TALLY_ROWS, due->rows);
	if (due->kind == DUE_ERROR)
		tally_add(tally, TALLY_ERRORS, 1);
}

bool answers_judge(struct answers *answers, const PGresult *result, struct tally *tally)
{
	struct due *due = answers_next(answers);
	ExecStatusType status = PQresultStatus(result);

	if (!result) {
		if (due->kind != DUE_END)
			return complain(answers, "nothing, not %s", judges[due->kind].name);
		answers_drop_first(answers);
		return true;
	}
	if (due->may_be_cancelled && is_cancelled(result)) {
		answers->was_cancelled = true;
		tally_add(tally, TALLY_CANCELLED, 1);
		answers_drop_first(answers);
		return true;
	}
	if (!(judges[due->kind].statuses & STATUS(status)))
		return complain(answers, "%s (%.300s), not %s", PQresStatus(status),
		                PQresultErrorMessage(result), judges[due->kind].name);
	if (judges[due->kind].judge && !judges[due->kind].judge(answers, due, result))
		return false;
	if (is_whole(due, result)) {
		count_answer(due, tally);
		answers_drop_first(answers);
	}
	return true;
}

bool answers_judge_line(struct answers *answers, char *line)
{
	const char *field[ROW_FIELDS];
	char *rest = line;

	for (int i = 0; i < ROW_FIELDS; i++) {
		field[i] = strsep(&rest, "\t\n");
		if (!field[i])
			return complain(answers, "a line of %d fields", i);
	}
	if (!rest || *rest != '\0')
		return complain(answers, "a line with no end, or with more behind it");
	return judge_row(answers, answers_next(answers), field);
}

bool answers_judge_notice(struct answers *answers, const PGresult *notice, struct tally *tally)
{
	const char *text = PQresultErrorField(notice, PG_DIAG_MESSAGE_PRIMARY);

	if (text && strstr(text, "client being queued"))
		return true;
	if (!text || !answers->notice[0] || strcmp(text, answers->notice) != 0)
		return complain(answers, "a notice that is not ours: %.200s", text ? text : "-");
	answers->notice[0] = '\0';
	tally_add(tally, TALLY_NOTICES, 1);
	return true;
}
