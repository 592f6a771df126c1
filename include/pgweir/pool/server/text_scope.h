/* SPDX-License-Identifier: ISC */
/*
 * Scope: the session parameters that change how PostgreSQL reads a text when it prepares the text.
 * search_path and role determine which table a name refers to, TimeZone and DateStyle the value of
 * a constant like '01/02/2024', client_encoding its bytes. The same text prepared in two scopes is
 * two statements.
 */
#ifndef PGWEIR_POOL_SERVER_TEXT_SCOPE_H
#define PGWEIR_POOL_SERVER_TEXT_SCOPE_H

#include "pgweir/base/buf.h"
#include "pgweir/pool/server/params.h"

/* The scope of the map that was last asked for. A zeroed one owns nothing. */
struct text_scope {
	const struct params *params; /* held; NULL: none yet */
	struct buf text;             /* name\0value\0..., ordered by name; usually empty */
};

/* The scope of a map. Valid until the next call. false: no memory. */
bool text_scope_read(struct text_scope *scope, struct params_table *table,
                     const struct params *params, struct bytes *text);

/*
 * The scope of a text that was prepared in the scope `first` and is prepared again in the scope
 * `now`. PostgreSQL converts and parses a text only once, so what decides over that stays as it
 * was: client_encoding if the text is not ASCII, standard_conforming_strings and backslash_quote if
 * it has backslashes. It may look up names and literals again at any time. Adds to *out. false: no
 * memory.
 */
bool text_scope_merge(struct bytes text, struct bytes first, struct bytes now, struct buf *out);

/*
 * Whether a text that sets parameters may set one of the scope. search_path and role do not count:
 * PostgreSQL itself looks at them again whenever a statement is used.
 */
bool text_scope_is_named(struct bytes text);

void text_scope_done(struct text_scope *scope, struct params_table *table);

#endif
