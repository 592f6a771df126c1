/* SPDX-License-Identifier: ISC */
/*
 * Scope: the parameters of a session by which PostgreSQL reads a text differently when
 * it prepares it. search_path and role say which table a name stands for, TimeZone and
 * DateStyle what a constant like '01/02/2024' is worth, client_encoding what its bytes are.
 * A text that two sessions prepare in different scopes is two statements.
 */
#ifndef PGWEIR_POOL_SERVER_TEXT_SCOPE_H
#define PGWEIR_POOL_SERVER_TEXT_SCOPE_H

#include "pgweir/base/buf.h"
#include "pgweir/pool/server/params.h"

/* The scope of the last map that was asked for. At rest ({0}) it owns nothing. */
struct text_scope {
	const struct params *params; /* held; NULL: none yet */
	struct buf text;             /* name\0value\0..., in the order of the names; mostly empty */
};

/* The scope of a map; good until the next call. false: no memory. */
bool text_scope_read(struct text_scope *scope, struct params_table *table,
                     const struct params *params, struct bytes *text);

void text_scope_done(struct text_scope *scope, struct params_table *table);

#endif
