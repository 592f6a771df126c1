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

#define ERR_TEXT_SIZE 512
#define ERR_DETAIL_SIZE 384

enum err_code {
	ERR_NONE,
	ERR_PROTOCOL,         /* 08P01: a broken protocol */
	ERR_SERVER_LOST,      /* 08006: the connection to PostgreSQL is gone */
	ERR_SERVER_CONNECT,   /* 08001: it could not be made */
	ERR_PASSWORD,         /* 28P01: wrong password */
	ERR_NOT_ALLOWED,      /* 28000: this user may not come in this way */
	ERR_NO_DATABASE,      /* 3D000 */
	ERR_LIMIT,            /* 53300: one of our limits, or waited too long for a server */
	ERR_MEMORY,           /* 53200 */
	ERR_FILES,            /* 53000: descriptors, threads */
	ERR_ADMIN_SHUTDOWN,   /* 57P01: shutdown, KILL */
	ERR_CANNOT_CONNECT,   /* 57P03: not now */
	ERR_UNREACHABLE,      /* 57P03: no host can be reached, and fail_fast is on */
	ERR_QUERY_CANCELED,   /* 57014: query_timeout */
	ERR_IDLE_TRANSACTION, /* 25P03 */
	ERR_TRANSACTION_TIME, /* 25P04 */
	ERR_IDLE_SESSION,     /* 57P05 */
	ERR_STATEMENT_NAME,   /* 26000 */
	ERR_STATEMENT_TWICE,  /* 42P05 */
	ERR_UNSUPPORTED,      /* 0A000 */
	ERR_TOO_LONG,         /* 54000 */
	ERR_PARAMETER,        /* 22023: a value that is not one */
	ERR_NO_PARAMETER,     /* 42704: no such setting */
	ERR_SYNTAX,           /* 42601 */
	ERR_RIGHTS,           /* 42501 */
	ERR_STATE,            /* 55000: not in this state */
	ERR_CONFIG,           /* F0000 */
	ERR_UNFIT,            /* F0000: a value that is good, but does not fit another setting's */
	ERR_SYSTEM,           /* 58000: an error of the operating system */
	ERR_INTERNAL,         /* XX000: only we could cause it */
	ERR_FOREIGN,          /* PostgreSQL's own error, with its own SQLSTATE */
	ERR_CODES
};

struct err {
	enum err_code code;
	char sqlstate[6];             /* as the code's row says; another only for ERR_FOREIGN */
	char text[ERR_TEXT_SIZE];     /* longer words are cut */
	char detail[ERR_DETAIL_SIZE]; /* the DETAIL for a client; "" = none */
};

/* Fills *err (which may be NULL) and returns false, so that a failure is one line. */
bool err_set(struct err *err, enum err_code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

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
