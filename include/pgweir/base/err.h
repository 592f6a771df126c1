/* SPDX-License-Identifier: ISC */
/*
 * An error: a code from one table, and a text that says what failed, where and why.
 *
 * The code decides the SQLSTATE (see PostgreSQL's manual, Appendix A). The function that can
 * act on an error logs it, once; functions that only pass it on do not log it.
 */
#ifndef PGWEIR_BASE_ERR_H
#define PGWEIR_BASE_ERR_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include "pgweir/base/close_reason.h"

struct buf;

#define ERR_TEXT_SIZE 512
#define ERR_DETAIL_SIZE 1024

struct err {
	enum err_code code;
	enum close_reason reason;     /* why it closes a connection */
	char sqlstate[6];             /* that of the code; only ERR_FOREIGN has others */
	char text[ERR_TEXT_SIZE];     /* longer texts are truncated */
	char detail[ERR_DETAIL_SIZE]; /* the DETAIL field for a client; "" = none; truncated too */
	const char *hint;             /* the HINT field for a client; NULL = none */
};

/* Fills *err (which may be NULL) and returns false: return err_set(...). */
bool err_set(struct err *err, enum err_code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
bool err_vset(struct err *err, enum err_code code, const char *format, va_list args)
    __attribute__((format(printf, 3, 0)));

/* Zeroed memory, as from calloc(). NULL: *err has this text. */
void *err_calloc(size_t size, const char *text, struct err *err);

/* Sets the error of this close reason: code and text of its row. Returns false. */
bool err_close(struct err *err, enum close_reason reason);

/* Gives an error another code, or another close reason. Returns false. */
bool err_recode(struct err *err, enum err_code code);
bool err_reason(struct err *err, enum close_reason reason);

/* Adds a detail to an error. Returns false. The second one frees the text; it may be broken. */
bool err_detail(struct err *err, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool err_detail_take(struct err *err, struct buf *text);

/* Adds a hint to an error: a static text, which is not copied. Returns false. */
bool err_hint(struct err *err, const char *text);

/* PostgreSQL sent it. The SQLSTATE becomes XX000 unless it has five characters. */
bool err_set_foreign(struct err *err, const char *sqlstate, const char *text);

/* Puts a text such as "file:line: " in front of an error's text. Returns false. */
bool err_prefix(struct err *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

bool err_suffix(struct err *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Returns the SQLSTATE of a code. Static. */
const char *err_sqlstate(enum err_code code);

#endif
