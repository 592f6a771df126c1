/* SPDX-License-Identifier: ISC */
/*
 * The hosts that were found where hosts_from says, as part of a snapshot.
 */
#ifndef PGWEIR_CONFIG_HOSTS_FROM_H
#define PGWEIR_CONFIG_HOSTS_FROM_H

#include "pgweir/config/config.h"

/* The list that was found for a text of hosts_from; NULL: none yet. */
const char *config_found_hosts(const struct config *config, const char *source);

/* A snapshot with this list. The caller owns a new reference; NULL: no memory. */
const struct config *config_with_found(const struct config *old, const char *source,
                                       const char *list);

#endif
