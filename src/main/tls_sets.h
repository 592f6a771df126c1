/* SPDX-License-Identifier: ISC */
/*
 * The two TLS contexts of a configuration: for client and for server connections.
 */
#ifndef PGWEIR_MAIN_TLS_SETS_H
#define PGWEIR_MAIN_TLS_SETS_H

#include "pgweir/config/config.h"
#include "pgweir/net/tls.h"

struct tls_sets {
	struct tls_context *client; /* NULL: no TLS on this side */
	struct tls_context *server;
};

/*
 * Reads all files that the settings name. A context that is equal to that of `old` (which
 * may be NULL) is shared with it. false: *err has the setting, the file and the reason.
 */
bool tls_sets_make(struct tls_sets *sets, const struct config *config, const struct tls_sets *old,
                   struct err *err);

/* Makes one of the two again, and releases the one before. false: it is unchanged. */
bool tls_sets_remake_client(struct tls_sets *sets, const struct config *config, struct err *err);
bool tls_sets_remake_server(struct tls_sets *sets, const struct config *config, struct err *err);

/* A copy with its own references. */
struct tls_sets tls_sets_hold(const struct tls_sets *other);

/* Whether clients must show the certificates that auth_type needs. false: *err, ERR_UNFIT. */
bool tls_sets_fit_logins(const struct config *config, struct err *err);

/* Makes both contexts only to report their errors. Each error begins with a setting's name. */
void tls_sets_judge(const struct config *config, void (*report)(void *arg, const struct err *err),
                    void *arg);

/* Releases both. */
void tls_sets_done(struct tls_sets *sets);

#endif
