/* SPDX-License-Identifier: ISC */
/*
 * Facts: what a server has answered to the question (question.h). Names and values are the bytes
 * that the server stores: they are in its server_encoding.
 */
#ifndef PGWEIR_POOL_SERVER_FACTS_H
#define PGWEIR_POOL_SERVER_FACTS_H

#include "pgweir/base/buf.h"

/* A zeroed one is empty. */
struct facts {
	unsigned int parts; /* enum question_part: those that were asked; the caller of server_ask()
	                       sets it */
	bool lacks_names;   /* placeholders could not be asked for, so `params` has none */
	unsigned int unknown;  /* not in `parts`: PostgreSQL has refused to answer these */
	unsigned int too_long; /* those whose answer is too long and was not kept */
	/*
	 * name\0value\0: the parameters that were set in the session and the placeholders that have
	 * a value; role and session_authorization if they differ from their defaults.
	 */
	struct buf params;
	struct buf defaults; /* name\0value\0: the default of role, if it is not "none" */
	struct buf channels; /* name\0 */
	struct buf exposed;  /* name\0: statements of the protocol that have no name of ours */
	/* what keeps a server: how many of each kind, and the first ones as kind name\0 (facts.c)
	 */
	struct buf held;
	unsigned int cursor_count;
	unsigned int temp_count;
	unsigned int lock_count;
	unsigned int statement_count; /* of SQL's PREPARE */
	unsigned int own_count;       /* statements of ours; */
	bool has_own_count;           /* it was answered */
	uint64_t position;            /* in the WAL; 0: not known */
	uint64_t started;             /* when PostgreSQL was started; as in struct host_report */
	bool is_broken; /* a row that the question does not ask for: the server must be closed */
};

/* The body of a DataRow. */
void facts_row(struct facts *facts, struct bytes row);

void facts_done(struct facts *facts);

#endif
