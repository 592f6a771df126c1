/* SPDX-License-Identifier: ISC */
/*
 * What the catalog of a database says: which of its functions and relations can touch session state
 * or notify, which no text of a client shows, unless it has their names. A transaction whose texts
 * have no such name is known to leave nothing by them.
 *
 * A reading is immutable, and shared by all pools and loops of the database: pool_catalog.c decides
 * when a server is asked. Between a definition and the next reading nothing is known.
 */
#ifndef PGWEIR_POOL_CATALOG_H
#define PGWEIR_POOL_CATALOG_H

#include <stdatomic.h>

#include "pgweir/base/clock.h"
#include "pgweir/pgwire/sql_touch.h"

#define CATALOG_NAMES_MAX 1000
#define CATALOG_SIZE_MAX ((size_t)64 * 1024) /* bytes of all names */
#define CATALOG_CHANGES_SIZE 64
#define CATALOG_WHY_SIZE 128

enum catalog_state {
	CATALOG_QUIET,   /* nothing can touch session state; some may notify */
	CATALOG_TOUCHES, /* some names can */
	CATALOG_ANY,     /* and what has no name, or there are too many */
	CATALOG_UNREAD   /* PostgreSQL has refused to answer */
};

/* Which texts may use a sequence: call nextval(), currval() or lastval(), directly or not. */
enum catalog_sequences {
	CATALOG_SEQUENCES_CALLED,  /* any text, by what it calls or reads; or it is not known */
	CATALOG_SEQUENCES_WRITTEN, /* those that write, and those that name these functions */
	CATALOG_SEQUENCES_NONE     /* there are no sequences but temporary ones */
};

/* The kinds of names: sql_toucher.kind. */
enum catalog_kind {
	CATALOG_FUNCTION,
	CATALOG_PROCEDURE,
	CATALOG_AGGREGATE,
	CATALOG_TABLE,
	CATALOG_VIEW,
	CATALOG_MATERIALIZED_VIEW,
	CATALOG_FOREIGN_TABLE,
	CATALOG_DEFINITION, /* a word of statements that start event triggers */
	CATALOG_INDEX,      /* a word of statements that work on any index */
	CATALOG_KINDS
};

const char *catalog_kind_name(enum catalog_kind kind);

/* A server that is asked has one that is being made. */
struct catalog_reading {
	atomic_uint holder_count;
	bool is_look; /* no reading: only how much PostgreSQL has counted is asked */
	bool has_row;
	usec_t asked_at;
	enum catalog_state state;
	bool is_of_standby; /* which may not have replayed a definition that was seen */
	enum catalog_sequences sequences, sequences_if_any; /* the latter: when some are made */
	uint64_t id;                                        /* of this process; never used again */
	/* how often definitions were known to have changed when it was asked: tally.ddl_count */
	unsigned int ddl_count;
	unsigned int relation_count; /* and tally.relation_count */
	uint64_t digest;             /* of all rows */
	int64_t since_wall;
	struct sql_touchers names;
	struct buf parameters;              /* placeholders that they may set: name\0name\0 */
	char changes[CATALOG_CHANGES_SIZE]; /* how much PostgreSQL had counted */
	char why[CATALOG_WHY_SIZE];         /* for CATALOG_ANY and CATALOG_UNREAD */
};

/* NULL: no memory. */
struct catalog_reading *catalog_ask(bool reads_all, unsigned int ddl_count, usec_t now);

struct catalog_reading *catalog_reading_hold(struct catalog_reading *reading);
void catalog_reading_release(struct catalog_reading **reading);

/*
 * Whether it says enough of what these texts (text\0text\0), which defined nothing but relations,
 * have defined: that can touch something only if it calls, or is made like, what has a name.
 */
bool catalog_knows(const struct catalog_reading *reading, struct bytes texts);

/*
 * The texts of the question: begin; changes; and, for a reading, names.
 *
 * changes: one row. names: rows of four columns: kind, name, letters of what it may touch, "". Of
 * kind "parameter": a name that a body may set. "sequences": how they are used, or would be. "any
 * text": texts need not show a name; its name is "*" or the reason. "event trigger": definitions.
 */
extern const char catalog_sql_begin[], catalog_sql_changes[], catalog_sql_names[];

/* Writes the question, with a zero. */
void catalog_text(const struct catalog_reading *reading, struct buf *out);

/* A row of the answer: the body of a DataRow. */
void catalog_row(struct catalog_reading *reading, struct bytes body);

/* The answer is complete: settles the state of the reading. Returns whether it is an answer. */
bool catalog_end(struct catalog_reading *reading, bool has_failed);

/*
 * Whether a look says that something has changed since a reading. One of another server, after a
 * failover, or with several hosts, has other counts.
 */
bool catalog_has_changed(const struct catalog_reading *look, const struct catalog_reading *reading,
                         bool *is_other_server);

#endif
