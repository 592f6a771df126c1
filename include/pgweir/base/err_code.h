/* SPDX-License-Identifier: ISC */
/*
 * Error codes. Each has one SQLSTATE: see err_sqlstate().
 */
#ifndef PGWEIR_BASE_ERR_CODE_H
#define PGWEIR_BASE_ERR_CODE_H

enum err_code {
	ERR_NONE,
	ERR_PROTOCOL,         /* 08P01: protocol violation */
	ERR_SERVER_LOST,      /* 08006: connection to PostgreSQL lost */
	ERR_SERVER_CONNECT,   /* 08001: cannot connect to PostgreSQL */
	ERR_PASSWORD,         /* 28P01: wrong password */
	ERR_NOT_ALLOWED,      /* 28000: this user may not log in this way */
	ERR_NO_DATABASE,      /* 3D000 */
	ERR_LIMIT,            /* 53300: one of our limits, or query_wait_timeout */
	ERR_MEMORY,           /* 53200 */
	ERR_FILES,            /* 53000: no file descriptor or thread available */
	ERR_ADMIN_SHUTDOWN,   /* 57P01: shutdown, KILL */
	ERR_CANNOT_CONNECT,   /* 57P03: cannot be served now */
	ERR_UNREACHABLE,      /* 57P03: no host can be reached, and fail_fast is on */
	ERR_QUERY_CANCELED,   /* 57014: query_timeout */
	ERR_IDLE_TRANSACTION, /* 25P03 */
	ERR_TRANSACTION_TIME, /* 25P04 */
	ERR_IDLE_SESSION,     /* 57P05 */
	ERR_STATEMENT_NAME,   /* 26000 */
	ERR_STATEMENT_TWICE,  /* 42P05 */
	ERR_PLAN_CHANGED,     /* 0A000, of PostgreSQL's routine that says so */
	ERR_UNSUPPORTED,      /* 0A000 */
	ERR_TOO_LONG,         /* 54000 */
	ERR_PARAMETER,        /* 22023: invalid value */
	ERR_NO_PARAMETER,     /* 42704: unknown setting */
	ERR_SYNTAX,           /* 42601 */
	ERR_RIGHTS,           /* 42501 */
	ERR_STATE,            /* 55000: not in this state */
	ERR_CONFIG,           /* F0000 */
	ERR_UNFIT,            /* F0000: a valid value that contradicts another setting */
	ERR_SYSTEM,           /* 58000: error of the operating system */
	ERR_INTERNAL,         /* XX000: a bug of pgweir */
	ERR_FOREIGN,          /* an error sent by PostgreSQL, with its own SQLSTATE */
	ERR_CODES
};

#endif
