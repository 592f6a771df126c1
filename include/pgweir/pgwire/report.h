/* SPDX-License-Identifier: ISC */
/*
 * The fields of an ErrorResponse or a NoticeResponse. The texts are borrowed.
 */
#ifndef PGWEIR_PGWIRE_REPORT_H
#define PGWEIR_PGWIRE_REPORT_H

struct report {
	const char *severity; /* field S, in the server's language */
	const char *verbatim; /* field V, never translated; NULL = none */
	const char *sqlstate; /* field C */
	const char *text;     /* field M */
	const char *detail;   /* field D; NULL = none */
	const char *hint;     /* field H; NULL = none */
	const char *routine;  /* field R, in PostgreSQL's source; NULL = none */
	/* only read, not written */
	const char *context; /* field W; NULL = none */
};

#endif
