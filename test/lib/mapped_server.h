/* SPDX-License-Identifier: ISC */
/*
 * A server that is only its maps of parameters: nothing is connected.
 */
#ifndef PGWEIR_TEST_MAPPED_SERVER_H
#define PGWEIR_TEST_MAPPED_SERVER_H

#include "../../src/pool/server/server_priv.h"

#define MAP_MAX 4

struct pair {
	const char *name;
	const char *value;
};

/* Only the struct of a server, without a connection. */
struct mapped_server {
	struct server_shared shared;
	struct server_site site;
	struct server server;
};

/* A map of these. The caller releases it. */
const struct params *param_map(struct params_table *table, const struct pair *pairs);

/* The server has reported `baseline` at its login, and `have` is set. */
void mapped_make(struct mapped_server *mapped, const struct pair *baseline,
                 const struct pair *have);
void mapped_done(struct mapped_server *mapped);

/* Checks both maps. */
void mapped_check(const struct mapped_server *mapped, const char *says, const struct pair *baseline,
                  const struct pair *have);

#endif
