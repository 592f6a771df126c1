/* SPDX-License-Identifier: ISC */
/*
 * SHOW tables for readers other than the console's sessions: the same rows, made in pieces.
 *
 * A piece is what the console would send: one RowDescription at the beginning, then DataRows, all
 * values as text. A table is read with the rights of stats_users.
 */
#ifndef PGWEIR_ADMIN_TABLES_H
#define PGWEIR_ADMIN_TABLES_H

#include "pgweir/admin/console.h"
#include "pgweir/base/buf.h"

/* What SHOW HELP knows of a table. Static texts. */
struct table_listed {
	const char *name;
	const char *argument; /* what may follow the name: "", "[db]" */
	const char *help;
	bool is_for_admins; /* table_begin() refuses it */
};

/* The table at this place of SHOW HELP. Any thread may call it. false: no more tables. */
bool tables_list(size_t index, struct table_listed *listed);

struct table;

enum table_result {
	TABLE_MORE, /* there may be more rows: ask again in a later turn */
	TABLE_END,
	TABLE_BROKEN /* out of memory */
};

/*
 * Begins to read. `words` is what would follow SHOW; only tables, not settings. skips_unused: of
 * more than a thousand databases or users, those that were never used are left out. The caller ends
 * it with table_end(), before the console is freed. NULL: *err says why (ERR_SYNTAX: there is no
 * such table; ERR_RIGHTS; ERR_NO_DATABASE; ERR_MEMORY).
 */
struct table *table_begin(struct console *console, const char *words, bool skips_unused,
                          struct err *err);

/*
 * Adds a piece to `out`, of which each turn of the main thread may make one: it takes a
 * fraction of a millisecond, in which all lanes are held.
 */
enum table_result table_next(struct table *table, struct buf *out);

/* Accepts NULL. */
void table_end(struct table **table);

#endif
