/* SPDX-License-Identifier: ISC */
/*
 * An error: a code out of one table, and words that say who, where, why.
 *
 * The code decides the SQLSTATE (PostgreSQL's own, Appendix A of its manual).
 * Whoever can act on an error logs it, once; whoever passes it on does not.
 */
#ifndef PGWEIR_BASE_ERR_H
#define PGWEIR_BASE_ERR_H

#include <stdarg.h>
#include <stdbool.h>

#include "pgweir/base/close_reason.h"
#include "pgweir/base/err_code.h"

#define ERR_TEXT_SIZE 512
#define ERR_DETAIL_SIZE 384

struct err {
	enum err_code code;
	enum close_reason reason;     /* of a connection that it closes */
	char sqlstate[6];             /* as the code's row says; another only for ERR_FOREIGN */
	char text[ERR_TEXT_SIZE];     /* longer words are cut */
	char detail[ERR_DETAIL_SIZE]; /* the DETAIL for a client; "" = none */
};

/* Fills *err (which may be NULL) and returns false, so that a failure is one line. */
bool err_set(struct err *err, enum err_code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The error that closes a connection for this reason: code and words of its row. Returns false. */
bool err_close(struct err *err, enum close_reason reason);

/* Gives an error that is set another code, or another reason. Returns false. */
bool err_recode(struct err *err, enum err_code code);
bool err_reason(struct err *err, enum close_reason reason);

/* Adds a detail to an error that is set. Returns false. */
bool err_detail(struct err *err, const char *text);

/* An error that PostgreSQL sent: its SQLSTATE (five characters, else XX000) and its words. */
bool err_set_foreign(struct err *err, const char *sqlstate, const char *text);

/* Puts words in front of an error's words: "file:line: " and the like. Returns false. */
bool err_prefix(struct err *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The same behind them. */
bool err_suffix(struct err *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The SQLSTATE of a code. Static. */
const char *err_sqlstate(enum err_code code);

#endif
