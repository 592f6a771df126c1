/* SPDX-License-Identifier: ISC */
/*
 * The question: an internal query that asks a server for its session state, and the facts
 * that it answers.
 *
 * The query changes nothing: it is one transaction, and what it sets in it is local. It works in
 * PostgreSQL 14 to 19, on a standby, with any search_path, role and client_encoding. Names and
 * values come as the bytes that the server stores, not in client_encoding, so nothing needs a
 * conversion that could fail.
 */
#ifndef PGWEIR_POOL_SERVER_QUESTION_H
#define PGWEIR_POOL_SERVER_QUESTION_H

#include "pgweir/base/buf.h"
#include "pgweir/base/bytes.h"
#include "pgweir/pool/server/roster.h"

enum question_part {
	QUESTION_PARAMS = 1 << 0,
	QUESTION_CHANNELS = 1 << 1,
	QUESTION_CURSORS = 1 << 2, /* WITH HOLD */
	QUESTION_TEMP = 1 << 3,    /* objects in the session's temporary schema */
	QUESTION_LOCKS = 1 << 4,   /* advisory locks; between transactions all are of the session */
	QUESTION_STATEMENTS = 1 << 5, /* how many are of SQL's PREPARE, and how many are ours */
	/* the names of those of the protocol, without those of ours */
	QUESTION_EXPOSED = 1 << 6,
	/* in the WAL: where a primary inserts next, or what a standby has replayed */
	QUESTION_POSITION = 1 << 8
};

/* What can make a server stay, or can be carried. */
#define QUESTION_ALL                                                                               \
	(QUESTION_PARAMS | QUESTION_CHANNELS | QUESTION_CURSORS | QUESTION_TEMP | QUESTION_LOCKS | \
	 QUESTION_STATEMENTS)

/*
 * With QUESTION_POSITION: a standby of PostgreSQL 19 answers when it has replayed `position`, but
 * after `limit` at the latest.
 */
struct question_wait {
	uint64_t position; /* 0: it answers at once, as older ones do anyway */
	usec_t limit;
};

/*
 * Adds the text of the question. `names`: the placeholders to ask for with QUESTION_PARAMS,
 * name\0name\0; those that cannot be asked for (sql_name_judge()) are left out. `major`:
 * PostgreSQL's major version, 0 if it is not known.
 */
void question_text(unsigned int parts, struct bytes names, unsigned int major,
                   const struct question_wait *wait, struct buf *out);

/*
 * ---- the role question ----
 *
 * One query that asks a host whether it is primary or a standby, and how far it is. It works for
 * any user, on a primary and on a standby.
 *
 * No socket and no clock.
 */

/* All that PostgreSQL 10 and later can say; and what older ones, and strict ones, say too. */
#define ROLE_QUESTION_COLUMNS 7
#define ROLE_QUESTION_SHORT_COLUMNS 2

const char *role_question_text(bool is_short);

/*
 * The values of a DataRow, of which there are `most` at most: returns how many. 0: it is broken.
 */
size_t question_values(struct bytes row, struct bytes *columns, size_t most);

/* Only digits. false: there are none, or the number is too great. */
bool question_number(struct bytes text, int base, uint64_t max, uint64_t *value);

/* Reads the body of the DataRow. false: it is not an answer. report->is_full: not a short one. */
bool role_question_answer(struct bytes body, struct host_report *report);

/*
 * ---- facts ----
 *
 * What a server has answered. Names and values are the bytes that it stores: they are in its
 * server_encoding.
 */

/* A zeroed one is empty. */
struct facts {
	unsigned int parts;    /* enum question_part: those that were asked; see struct order */
	bool lacks_names;      /* placeholders could not be asked for, so `params` has none */
	unsigned int unknown;  /* not in `parts`: PostgreSQL has refused to answer these */
	unsigned int too_long; /* those whose answer is too long and was not kept */
	/* name\0value\0: set in the session; roles if they differ from their defaults */
	struct buf params;
	struct buf role;     /* its default, with a zero, if that is not "none" */
	struct buf channels; /* name\0 */
	struct buf exposed;  /* name\0: statements of the protocol that have no name of ours */
	/* what keeps a server: how many of each kind, and the first ones as kind name\0 */
	struct buf held;
	unsigned int cursor_count;
	unsigned int temp_count;
	unsigned int lock_count;
	unsigned int statement_count; /* of SQL's PREPARE */
	unsigned int own_count;       /* statements of ours */
	bool has_own_count;           /* it was answered */
	uint64_t position;            /* in the WAL; 0: not known */
	uint64_t started;             /* when PostgreSQL was started; as in struct host_report */
	bool is_broken; /* a row that the question does not ask for: the server must be closed */
};

/* The body of a DataRow. */
void facts_row(struct facts *facts, struct bytes row);

static inline void facts_done(struct facts *facts)
{
	buf_free(&facts->params);
	buf_free(&facts->role);
	buf_free(&facts->channels);
	buf_free(&facts->exposed);
	buf_free(&facts->held);
	*facts = (struct facts){ 0 };
}

#endif
