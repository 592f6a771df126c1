/* SPDX-License-Identifier: ISC */
/*
 * Session parameters: immutable maps from name to value, held once however many
 * clients and servers share one, so that equal maps are equal pointers.
 *
 * Names are PostgreSQL's: case does not count. Values do not end a connection's
 * memory: a map is limited to PARAMS_SIZE_MAX bytes.
 */
#ifndef PGWEIR_POOL_PARAMS_H
#define PGWEIR_POOL_PARAMS_H

#include <stdbool.h>
#include <stddef.h>

#define PARAMS_SIZE_MAX ((size_t)64 * 1024)

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

/* The value of a name, or NULL. Good as long as the map is held. */
const char *params_find(const struct params *params, const char *name);

/*
 * Goes through a map in the order of its names: begin with *at = NULL. false: no more.
 */
bool params_next(const struct params *params, const char **at, const char **name,
                 const char **value);

/* How many names are in the map; how many maps are in the table. */
unsigned int params_count(const struct params *params);
size_t params_table_count(const struct params_table *table);

#endif
