/* SPDX-License-Identifier: ISC */
/*
 * The parameters that are followed: kept for each client, and set on a server before it runs
 * that client's work.
 */
#ifndef PGWEIR_POOL_SERVER_TRACKED_H
#define PGWEIR_POOL_SERVER_TRACKED_H

#include <stddef.h>

#include "pgweir/config/config.h"

/*
 * The user with whose rights statements run. Others than the user of the login may set less,
 * so it is set back before all other parameters, and set after them.
 */
#define SESSION_AUTHORIZATION "session_authorization"

/* The followed parameter of this name, in PostgreSQL's spelling; NULL: it is not followed. */
const char *tracked_find(const struct config *config, const char *name);

/* The followed parameters in the order of the welcome; NULL after the last. */
const char *tracked_at(const struct config *config, size_t index);

#endif
