/* SPDX-License-Identifier: ISC */
/*
 * The two sets of certificates and rules that a configuration asks for: towards
 * clients and towards servers.
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
 * Reads all files that the settings name. One that is the same as in `old` (which
 * may be NULL) is that one. false: *err says which setting, which file, why.
 */
bool tls_sets_make(struct tls_sets *sets, const struct config *config, const struct tls_sets *old,
                   struct err *err);

/* One of them, in the same way; the one before is given back. *context stays as it was if false. */
bool tls_sets_remake_client(struct tls_sets *sets, const struct config *config, struct err *err);
bool tls_sets_remake_server(struct tls_sets *sets, const struct config *config, struct err *err);

/* Those of `other` once more. */
struct tls_sets tls_sets_hold(const struct tls_sets *other);

/* Whether clients show the certificates that auth_type asks for. false: *err, ERR_UNFIT. */
bool tls_sets_fit_logins(const struct config *config, struct err *err);

/* Makes both and lets them go, to find what is wrong with each; the words begin with a setting's
 * name. */
void tls_sets_judge(const struct config *config, void (*report)(void *arg, const struct err *err),
                    void *arg);

/* Gives both back. */
void tls_sets_done(struct tls_sets *sets);

#endif
