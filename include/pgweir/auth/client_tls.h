/* SPDX-License-Identifier: ISC */
/*
 * The settings client_tls_* as options of TLS. Clients of the pooler and of the web server have the
 * same.
 */
#ifndef PGWEIR_AUTH_CLIENT_TLS_H
#define PGWEIR_AUTH_CLIENT_TLS_H

#include "pgweir/config/config.h"
#include "pgweir/net/tls.h"

/* protocol: name for ALPN, static; NULL = PostgreSQL's. Texts are borrowed from the snapshot. */
struct tls_options client_tls_options(const struct config *config, const char *protocol);

#endif
