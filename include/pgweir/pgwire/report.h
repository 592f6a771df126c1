/* SPDX-License-Identifier: ISC */
/*
 * What an ErrorResponse or a NoticeResponse says. The texts are borrowed.
 */
#ifndef PGWEIR_PGWIRE_REPORT_H
#define PGWEIR_PGWIRE_REPORT_H

struct report {
	const char *severity; /* field S, as the server's language has it */
	const char *verbatim; /* field V, never translated; NULL = none */
	const char *sqlstate; /* field C */
	const char *text;     /* field M */
	const char *detail;   /* field D; NULL = none */
	const char *hint;     /* field H; NULL = none */
};

#endif
