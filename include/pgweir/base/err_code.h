/* SPDX-License-Identifier: ISC */
/*
 * Codes of errors. Each has one SQLSTATE: see err_sqlstate().
 */
#ifndef PGWEIR_BASE_ERR_CODE_H
#define PGWEIR_BASE_ERR_CODE_H

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

#endif
