/* SPDX-License-Identifier: ISC */
/*
 * Session parameters: immutable maps from name to value, held once however many
 * clients and servers share one, so that equal maps are equal pointers.
 *
 * Names are PostgreSQL's: case does not count. Both sides of a connection fill these maps,
 * so they are limited: to PARAMS_SIZE_MAX bytes and PARAMS_NAMES_MAX names. What a change
 * costs grows with the size of the map, so many changes are made at once.
 */
#ifndef PGWEIR_POOL_SERVER_PARAMS_H
#define PGWEIR_POOL_SERVER_PARAMS_H

#include <stdbool.h>
#include <stddef.h>

#include "pgweir/base/bytes.h"

#define PARAMS_SIZE_MAX ((size_t)64 * 1024)
#define PARAMS_NAMES_MAX 500 /* PostgreSQL has some 350 of its own */

struct params;
struct params_table;

/* One table for all maps that are to be compared. NULL: no memory. */
struct params_table *params_table_new(void);

/* All maps must have been let go. */
void params_table_free(struct params_table **table);

/* The map without any name; needs no letting go, and is never NULL. */
const struct params *params_none(const struct params_table *table);

/* One more owner / one less. Letting go leaves params_none() behind. */
const struct params *params_hold(const struct params *params);
void params_release(struct params_table *table, const struct params **params);

/*
 * Puts into *params the map that differs from it in one name: `value`, or
 * without it when value is NULL. The old one is let go. false: no memory or too
 * large, *params is as before.
 */
bool params_change(struct params_table *table, const struct params **params, const char *name,
                   const char *value);

/* The same for many names at once; of several of one name the last counts. */
struct params_pair {
	const char *name;
	const char *value; /* NULL: the map is without it */
};
bool params_change_all(struct params_table *table, const struct params **params,
                       const struct params_pair *pairs, size_t count);

/* The same for a text "name\0value\0name\0value\0..."; what is cut at its end is ignored. */
bool params_add_text(struct params_table *table, const struct params **params, struct bytes text);

/* A map as such a text, in the order of its names. Good as long as the map is held. */
struct bytes params_text(const struct params *params);

/* The value of a name, or NULL. Good as long as the map is held. */
const char *params_find(const struct params *params, const char *name);

/*
 * Goes through a map in the order of its names: begin with *at = NULL. false: no more.
 */
bool params_next(const struct params *params, const char **at, const char **name,
                 const char **value);

/*
 * Finds names that are asked for in their order, and goes over the map once for all of them:
 * begin with a seek that is zero. false: it does not have this name.
 */
struct params_seek {
	const char *at;
};
bool params_seek(const struct params *params, struct params_seek *seek, const char *name,
                 const char **value);

/* How many names are in the map; how many maps are in the table. */
unsigned int params_count(const struct params *params);
size_t params_table_count(const struct params_table *table);

#endif
