/* SPDX-License-Identifier: ISC */
/*
 * What the files about a server's parameters have in common: names and values.
 */
#ifndef PGWEIR_POOL_SERVER_SERVER_PARAMS_PRIV_H
#define PGWEIR_POOL_SERVER_SERVER_PARAMS_PRIV_H

#include <strings.h>

#include "pgweir/pool/server/tracked.h"

#include "server_priv.h"

/*
 * The value of a parameter that is not known. No client asks for it: a control character has no
 * meaning in any parameter of PostgreSQL.
 */
#define PARAM_UNKNOWN "\001"

static inline bool server_param_is_role(const char *name) { return strcasecmp(name, "role") == 0; }

/* Whether a value need not be set. "Foo" and "foo" are two schemas in a search_path. */
bool server_param_is_same(const char *name, const char *have, const char *want);

/* Whether a value that was reported with these parameters has the bytes that the server has. */
bool server_is_native(const struct server *server, const struct params *params, const char *value);

/* A default that connect_query has set and the server does not report. */
static inline const char *server_find_unreported(const struct server *server, const char *name)
{
	return server->unreported ? params_find(server->unreported, name) : NULL;
}

/* If a map does not match the server's parameters any more, the server must not be lent again. */
void server_check_map(struct server *server, bool is_done);

#endif
