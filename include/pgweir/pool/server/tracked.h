/* SPDX-License-Identifier: ISC */
/*
 * The tracked parameters: stored for each client, and set on a server before it runs that client's
 * queries.
 */
#ifndef PGWEIR_POOL_SERVER_TRACKED_H
#define PGWEIR_POOL_SERVER_TRACKED_H

#include <stdbool.h>
#include <stddef.h>
#include <strings.h>

#include "pgweir/config/config.h"

/*
 * The role whose rights apply to queries. A role other than the login role may not be allowed to
 * set all parameters, so it is reset before all other parameters are set, and set after them.
 */
#define SESSION_AUTHORIZATION "session_authorization"

/*
 * A library that was loaded by LOAD has an entry in the map, too. Its name is this prefix and the
 * library's name, its value the library's name.
 */
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

#endif
