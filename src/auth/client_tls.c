/* SPDX-License-Identifier: ISC */
/*
 * The settings client_tls_* as options of TLS.
 */
#include "pgweir/auth/client_tls.h"

/* If no CA is set, clients are asked for a certificate only if the mode requires one. */
static enum tls_check check_for_clients(const struct config *config)
{
	if (config->client_tls_sslmode >= TLS_MODE_VERIFY_CA)
		return TLS_CHECK_CHAIN;
	return *config->client_tls_ca_file ? TLS_CHECK_GIVEN : TLS_CHECK_NONE;
}

struct tls_options client_tls_options(const struct config *config, const char *protocol)
{
	return (struct tls_options){
		.role = TLS_ACCEPTS,
		.check = check_for_clients(config),
		.prefix = "client_tls",
		.ca_file = config->client_tls_ca_file,
		.cert_file = config->client_tls_cert_file,
		.key_file = config->client_tls_key_file,
		.protocols = config->client_tls_protocols,
		.ciphers = config->client_tls_ciphers,
		.ciphersuites = config->client_tls13_ciphers,
		.curve = config->client_tls_ecdhcurve,
		.dheparams = config->client_tls_dheparams,
		.protocol = protocol,
	};
}
