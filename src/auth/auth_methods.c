/* SPDX-License-Identifier: ISC */
/*
 * The table of authentication methods. Of what performs a method it knows only who else may check a
 * password, so that the others can use the table.
 */
#include "pgweir/auth/auth_methods.h"

#include <string.h>

#include "pgweir/auth/outside.h"

#define OPTIONS_IN(field) .setting = #field, .setting_at = offsetof(struct config, field)

const struct auth_method_row auth_methods[AUTH_METHODS] = {
	[AUTH_METHOD_ANY] = { .name = "any", .takes_anybody = true, .needs_no_file = true },
	[AUTH_METHOD_TRUST] = { .name = "trust", .hba_name = "trust", .refusal = CLOSE_AUTH_TRUST },
	[AUTH_METHOD_PLAIN] = { .name = "plain",
	                        .hba_name = "password",
	                        .hba_alias = "plain",
	                        .question = AUTH_ASKS_PASSWORD,
	                        .refusal = CLOSE_AUTH_PASSWORD },
	[AUTH_METHOD_MD5] = { .name = "md5",
	                      .hba_name = "md5",
	                      .question = AUTH_ASKS_MD5,
	                      .refusal = CLOSE_AUTH_PASSWORD },
	[AUTH_METHOD_SCRAM] = { .name = "scram-sha-256",
	                        .hba_name = "scram-sha-256",
	                        .question = AUTH_ASKS_SCRAM,
	                        .refusal = CLOSE_AUTH_PASSWORD },
	[AUTH_METHOD_HBA] = { .name = "hba" },
	[AUTH_METHOD_CERT] = { .name = "cert",
	                       .hba_name = "cert",
	                       .hba_only = "hostssl",
	                       .voucher = AUTH_BY_CERTIFICATE,
	                       .refusal = CLOSE_AUTH_CERTIFICATE },
	[AUTH_METHOD_PAM] = { .name = "pam",
	                      .hba_name = "pam",
	                      .question = AUTH_ASKS_PASSWORD,
	                      .needs_no_file = true,
	                      .outside = &outside_pam,
	                      OPTIONS_IN(auth_pam_service),
	                      .threads = 4,
	                      .refusal = CLOSE_AUTH_PAM },
	[AUTH_METHOD_LDAP] = { .name = "ldap",
	                       .hba_name = "ldap",
	                       .question = AUTH_ASKS_PASSWORD,
	                       .outside = &outside_ldap,
	                       OPTIONS_IN(auth_ldap_options),
	                       .may_be_unset = true,
	                       .threads = 8,
	                       .refusal = CLOSE_AUTH_LDAP },
	[AUTH_METHOD_PEER] = { .name = "peer",
	                       .hba_name = "peer",
	                       .hba_only = "local",
	                       .voucher = AUTH_BY_SYSTEM_USER,
	                       .threads = 2,
	                       .refusal = CLOSE_AUTH_PEER },
	[AUTH_METHOD_REJECT] = { .name = "reject", .hba_name = "reject" },
};

enum auth_method auth_methods_by_hba_name(const char *word)
{
	for (int method = 0; method < AUTH_METHODS; method++) {
		const struct auth_method_row *row = &auth_methods[method];

		if ((row->hba_name && strcmp(row->hba_name, word) == 0) ||
		    (row->hba_alias && strcmp(row->hba_alias, word) == 0))
			return (enum auth_method)method;
	}
	return AUTH_METHODS;
}

const char *auth_methods_options(enum auth_method method, const struct config *config)
{
	const struct auth_method_row *row = &auth_methods[method];

	return row->setting ? *(char *const *)((const char *)config + row->setting_at) : NULL;
}

/* ---- TLS of clients ---- */

struct tls_options client_tls_options(const struct config *config, const char *protocol)
{
	/* Without a CA, clients are asked for a certificate only if the mode requires one. */
	enum tls_check check = *config->client_tls_ca_file ? TLS_CHECK_GIVEN : TLS_CHECK_NONE;

	if (config->client_tls_sslmode >= TLS_MODE_VERIFY_CA)
		check = TLS_CHECK_CHAIN;
	return (struct tls_options){
		.role = TLS_ACCEPTS,
		.check = check,
		.prefix = "client_tls",
		.ca_file = config->client_tls_ca_file,
		.cert_file = config->client_tls_cert_file,
		.key_file = config->client_tls_key_file,
		.name_files = config->client_tls_name_files.names,
		.name_file_count = config->client_tls_name_files.count,
		.protocols = config->client_tls_protocols,
		.ciphers = config->client_tls_ciphers,
		.ciphersuites = config->client_tls13_ciphers,
		.curve = config->client_tls_ecdhcurve,
		.dheparams = config->client_tls_dheparams,
		.has_own_records = config->tls_records == TLS_RECORDS_OWN,
		.protocol = protocol,
	};
}
