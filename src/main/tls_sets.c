/* SPDX-License-Identifier: ISC */
/*
 * Makes TLS contexts from settings.
 */
#include "tls_sets.h"

#include "pgweir/auth/auth_methods.h"
#include "pgweir/auth/client_tls.h"

static const enum tls_check server_checks[] = {
	[TLS_MODE_DISABLE] = TLS_CHECK_NONE,    [TLS_MODE_ALLOW] = TLS_CHECK_NONE,
	[TLS_MODE_PREFER] = TLS_CHECK_NONE,     [TLS_MODE_REQUIRE] = TLS_CHECK_NONE,
	[TLS_MODE_VERIFY_CA] = TLS_CHECK_CHAIN, [TLS_MODE_VERIFY_FULL] = TLS_CHECK_NAME,
};

bool tls_sets_fit_logins(const struct config *config, struct err *err)
{
	return auth_methods[config->auth_type].voucher != AUTH_BY_CERTIFICATE ||
	       config->client_tls_sslmode == TLS_MODE_VERIFY_FULL ||
	       err_set(err, ERR_UNFIT, "auth_type = %s needs client_tls_sslmode = verify-full",
	               auth_methods[config->auth_type].name);
}

static bool make_client(struct tls_context **context, const struct config *config, struct err *err)
{
	struct tls_options options;

	*context = NULL;
	if (!tls_sets_fit_logins(config, err))
		return false;
	if (config->client_tls_sslmode == TLS_MODE_DISABLE)
		return true;
	if (config->client_tls_sslmode == TLS_MODE_VERIFY_FULL && !*config->client_tls_ca_file)
		return err_set(err, ERR_UNFIT,
		               "client_tls_sslmode = verify-full needs client_tls_ca_file");
	options = client_tls_options(config, NULL);
	*context = tls_context_new(&options, err);
	return *context != NULL;
}

static bool make_server(struct tls_context **context, const struct config *config, struct err *err)
{
	*context = NULL;
	if (config->server_tls_negotiation == TLS_NEGOTIATION_DIRECT &&
	    config->server_tls_sslmode < TLS_MODE_REQUIRE)
		return err_set(err, ERR_UNFIT,
		               "server_tls_negotiation = direct needs a server_tls_sslmode of "
		               "require or stricter");
	if (config->server_tls_sslmode == TLS_MODE_DISABLE)
		return true;
	*context = tls_context_new(
	    &(struct tls_options){
		.role = TLS_CONNECTS,
		.check = server_checks[config->server_tls_sslmode],
		.prefix = "server_tls",
		.ca_file = config->server_tls_ca_file,
		.cert_file = config->server_tls_cert_file,
		.key_file = config->server_tls_key_file,
		.protocols = config->server_tls_protocols,
		.ciphers = config->server_tls_ciphers,
		.ciphersuites = config->server_tls13_ciphers,
	    },
	    err);
	return *context != NULL;
}

static void keep_same(struct tls_context **fresh, struct tls_context *old)
{
	if (!old || *fresh == old || !tls_context_same(*fresh, old))
		return;
	tls_context_unref(fresh);
	*fresh = tls_context_ref(old);
}

bool tls_sets_make(struct tls_sets *sets, const struct config *config, const struct tls_sets *old,
                   struct err *err)
{
	*sets = (struct tls_sets){ 0 };
	if (!make_client(&sets->client, config, err) || !make_server(&sets->server, config, err)) {
		tls_sets_done(sets);
		return false;
	}
	if (old) {
		keep_same(&sets->client, old->client);
		keep_same(&sets->server, old->server);
	}
	return true;
}

static bool remake(struct tls_context **context, const struct config *config,
                   bool (*make)(struct tls_context **, const struct config *, struct err *),
                   struct err *err)
{
	struct tls_context *fresh;

	if (!make(&fresh, config, err))
		return false;
	keep_same(&fresh, *context);
	tls_context_unref(context);
	*context = fresh;
	return true;
}

bool tls_sets_remake_client(struct tls_sets *sets, const struct config *config, struct err *err)
{
	return remake(&sets->client, config, make_client, err);
}

bool tls_sets_remake_server(struct tls_sets *sets, const struct config *config, struct err *err)
{
	return remake(&sets->server, config, make_server, err);
}

struct tls_sets tls_sets_hold(const struct tls_sets *other)
{
	return (struct tls_sets){
		.client = other->client ? tls_context_ref(other->client) : NULL,
		.server = other->server ? tls_context_ref(other->server) : NULL,
	};
}

void tls_sets_judge(const struct config *config, void (*report)(void *arg, const struct err *err),
                    void *arg)
{
	struct tls_sets sets = { 0 };
	struct err err;

	if (!make_client(&sets.client, config, &err))
		report(arg, &err);
	if (!make_server(&sets.server, config, &err))
		report(arg, &err);
	tls_sets_done(&sets);
}

void tls_sets_done(struct tls_sets *sets)
{
	tls_context_unref(&sets->client);
	tls_context_unref(&sets->server);
}
