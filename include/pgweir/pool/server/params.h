/* SPDX-License-Identifier: ISC */
/*
 * Session parameters: immutable maps from name to value. Equal maps are stored once and shared by
 * all clients and servers, so equal maps are equal pointers.
 *
 * Names compare like PostgreSQL's, without regard to case. Clients and servers fill these maps, so
 * their size is limited to PARAMS_SIZE_MAX bytes and PARAMS_NAMES_MAX names. The cost of a change
 * grows with the size of the map, so many changes are made together.
 */
#ifndef PGWEIR_POOL_SERVER_PARAMS_H
#define PGWEIR_POOL_SERVER_PARAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <strings.h>

#include "pgweir/base/buf.h"
#include "pgweir/config/config.h"

#define PARAMS_SIZE_MAX ((size_t)64 * 1024)
#define PARAMS_NAMES_MAX 500 /* PostgreSQL has about 350 parameters */

struct params;
struct params_table;

/* All maps that are compared must be in one table. NULL: no memory. */
struct params_table *params_table_new(void);

/* All maps must have been released. */
void params_table_free(struct params_table **table);

/* The empty map. Never NULL; needs no release. */
const struct params *params_none(const struct params_table *table);

/* Adds or removes one owner. Release sets the pointer to params_none(). */
const struct params *params_hold(const struct params *params);
void params_release(struct params_table *table, const struct params **params);

/* Releases the old map. value NULL: without the name. false: no memory or too large; unchanged. */
bool params_change(struct params_table *table, const struct params **params, const char *name,
                   const char *value);

/* The same for several names at once. If a name occurs more than once, its last value counts. */
struct params_pair {
	const char *name;
	const char *value; /* NULL: remove the name */
};
bool params_change_all(struct params_table *table, const struct params **params,
                       const struct params_pair *pairs, size_t count);

/* The same for a text "name\0value\0name\0value\0...". An incomplete last pair is ignored. */
bool params_add_text(struct params_table *table, const struct params **params, struct bytes text);

/* The map as such a text, ordered by name. Valid while the map has an owner. */
struct bytes params_text(const struct params *params);

/* The value of a name, or NULL. Valid while the map has an owner. */
const char *params_find(const struct params *params, const char *name);

/* Walks a map in the order of its names: start with *at = NULL. false: no more. */
bool params_next(const struct params *params, const char **at, const char **name,
                 const char **value);

#define PARAMS_EACH(name, value, params)                  \
	for (const char *at_##name = NULL, *name, *value; \
	     params_next(params, &at_##name, &name, &value);)

/* The number of names in the map, and of maps in the table. */
unsigned int params_count(const struct params *params);
size_t params_table_count(const struct params_table *table);

/*
 * ---- tracked parameters ----
 *
 * Stored for each client, and set on a server before it runs that client's
 * queries.
 */

/*
 * The role whose rights apply to queries. A role other than the login role may not be allowed to
 * set all parameters, so it is reset before all other parameters are set, and set after them.
 */
#define SESSION_AUTHORIZATION "session_authorization"

/* A LOADed library is an entry of the map, too: this prefix and its name, its name as value. */
#define LIBRARY_PREFIX "load:"

/* Whether an entry is one of a library. Maps compare names without regard to case. */
static inline bool tracked_is_library(const char *name)
{
	return strncasecmp(name, LIBRARY_PREFIX, sizeof(LIBRARY_PREFIX) - 1) == 0;
}

/* The tracked parameter of this name, in PostgreSQL's spelling. NULL: it is not tracked. */
const char *tracked_find(const struct config *config, const char *name);

/* The tracked parameters in the order of the welcome; NULL after the last. */
const char *tracked_at(const struct config *config, size_t index);

/*
 * ---- scope ----
 *
 * The session parameters that change how PostgreSQL reads a text when it prepares the text.
 * search_path and role determine which table a name refers to, TimeZone and DateStyle the value of
 * a constant like '01/02/2024', client_encoding its bytes. The same text prepared in two scopes is
 * two statements.
 */

/*
 * Of a map: name\0value\0..., ordered by name; usually empty. It lives with the map. false: no
 * memory.
 */
bool params_scope(struct params_table *table, const struct params *params, struct bytes *scope);

/*
 * The scope of a text that was prepared in the scope `first` and is prepared again in the scope
 * `now`. PostgreSQL converts and parses a text only once, so what decides over that stays as it
 * was: client_encoding if the text is not ASCII, standard_conforming_strings and backslash_quote if
 * it has backslashes. It may look up names and literals again at any time. Adds to *out. false: no
 * memory.
 */
bool text_scope_merge(struct bytes text, struct bytes first, struct bytes now, struct buf *out);

#endif
