/* SPDX-License-Identifier: ISC */
/*
 * Errors: the table from codes to SQLSTATEs, functions that set the text, and counts.
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

static const char states[ERR_CODES][6] = { ERR_CODE_LIST(SQLSTATE) };

const char *err_sqlstate(enum err_code code) { return states[code]; }

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
	memcpy(err->sqlstate, states[code], sizeof(err->sqlstate));
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

/* ---- counts of errors by SQLSTATE: a sorted array, searched in halves ---- */

static const char *const severity_names[] = {
	[SQLSTATE_ERROR] = "ERROR",
	[SQLSTATE_FATAL] = "FATAL",
	[SQLSTATE_PANIC] = "PANIC",
};

const char *sqlstates_severity_name(enum sqlstate_severity severity)
{
	return severity_names[severity];
}

/* An unknown word, such as one in another language, counts as ERROR. */
static enum sqlstate_severity severity_of(const char *name)
{
	for (int i = SQLSTATE_FATAL; i <= SQLSTATE_PANIC; i++) {
		if (name && strcmp(name, severity_names[i]) == 0)
			return (enum sqlstate_severity)i;
	}
	return SQLSTATE_ERROR;
}

static sqlstate_key key_of(const char *sqlstate, bool is_ours, enum sqlstate_severity severity)
{
	sqlstate_key key = (sqlstate_key)severity | (is_ours ? 0x100 : 0);

	for (int i = 0; i < SQLSTATE_SIZE - 1; i++)
		key |= (sqlstate_key)(unsigned char)sqlstate[i] << (56 - 8 * i);
	return key;
}

static size_t find_place(const struct sqlstates *sqlstates, sqlstate_key key)
{
	return array_find(sqlstates->counts, sqlstates->count, sizeof(*sqlstates->counts), key);
}

const struct sqlstate_count *sqlstates_from(const struct sqlstates *sqlstates, sqlstate_key key)
{
	size_t at = find_place(sqlstates, key);

	return at < sqlstates->count ? &sqlstates->counts[at] : NULL;
}

/* Whether its class is one of PostgreSQL's. */
static bool has_known_class(const char *sqlstate)
{
	static const char classes[] = "000102030809202122232425262728343839404244535455575872"
				      "0A0B0F0L0P0Z2B2D2F3B3D3FF0HVP0XX";
	const char *at = classes;

	while (*at && memcmp(at, sqlstate, 2) != 0)
		at += 2;
	return *at;
}

/* NULL: there is none, and may be none, or no memory. */
static struct sqlstate_count *count_of(struct sqlstates *sqlstates, const char *sqlstate,
                                       sqlstate_key key, bool may_add)
{
	size_t at = find_place(sqlstates, key);
	struct sqlstate_count *counts;

	if (at < sqlstates->count && sqlstates->counts[at].key == key)
		return &sqlstates->counts[at];
	counts = may_add ? array_room(sqlstates->counts, sqlstates->count, &sqlstates->room,
	                              sizeof(*counts))
	                 : NULL;
	if (!counts)
		return NULL;
	sqlstates->counts = counts;
	counts += at;
	memmove(counts + 1, counts, (sqlstates->count - at) * sizeof(*counts));
	*counts = (struct sqlstate_count){ .key = key };
	text_copy(counts->sqlstate, sizeof(counts->sqlstate), sqlstate);
	sqlstates->count++;
	return counts;
}

/* If there is no room for one more, that of its class counts it, or that of all others. */
void sqlstates_note(struct sqlstates *sqlstates, const struct sqlstate_said *said)
{
	enum sqlstate_severity severity = severity_of(said->severity);
	bool has_room = said->is_ours || sqlstates->count < SQLSTATES_MAX;
	char sqlstate[SQLSTATE_SIZE] = SQLSTATES_OTHER;
	struct sqlstate_count *count;

	sqlstates->total++;
	if (strlen(said->sqlstate) == SQLSTATE_SIZE - 1)
		memcpy(sqlstate, said->sqlstate, SQLSTATE_SIZE);
	count = count_of(sqlstates, sqlstate, key_of(sqlstate, said->is_ours, severity), has_room);
	if (!count && !has_room) {
		if (has_known_class(sqlstate))
			memcpy(sqlstate + 2, "000", 3);
		else
			memcpy(sqlstate, SQLSTATES_OTHER, SQLSTATE_SIZE);
		count = count_of(sqlstates, sqlstate, key_of(sqlstate, false, severity), true);
	}
	if (!count)
		return;
	count->count++;
	count->wall_last = wall_now();
	text_copy(count->database, sizeof(count->database), said->database ? said->database : "");
	text_copy(count->user, sizeof(count->user), said->user ? said->user : "");
}

void sqlstates_done(struct sqlstates *sqlstates)
{
	free(sqlstates->counts);
	*sqlstates = (struct sqlstates){ 0 };
}
