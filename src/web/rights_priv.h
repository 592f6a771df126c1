/* SPDX-License-Identifier: ISC */
/*
 * Which clients the web server answers.
 */
#ifndef PGWEIR_WEB_RIGHTS_PRIV_H
#define PGWEIR_WEB_RIGHTS_PRIV_H

#include "pgweir/web/web.h"

#include "connection_priv.h"

/* Whether this address may connect at all. */
bool rights_allow(const struct web_rights *rights, const struct address *peer);

/* For new TCP connections; NULL: no TLS. Valid as long as the rights. */
struct tls_context *rights_tls(const struct web_rights *rights);

/* auth_failure_delay and auth_failure_limit. */
usec_t rights_failure_delay(const struct web_rights *rights);
int rights_failure_limit(const struct web_rights *rights);

/*
 * Whether a request may be answered. 0: yes; else the status of the refusal, and *why.
 * needs_secret: for what is not open to every client of an allowed address.
 */
int rights_judge(const struct web_rights *rights, const struct connection *connection,
                 const struct http_head *head, bool needs_secret, const char **why);

#endif
