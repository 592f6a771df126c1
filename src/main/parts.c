/* SPDX-License-Identifier: ISC */
/*
 * Makes the parts of a configuration.
 */
#include "parts.h"

#include <string.h>

#include "load.h"

static const struct {
	const char *name;
	const char *settings[16];
} rows[PARTS] = {
	[PART_LOGINS] = { "auth_type and its files",
	                  { "auth_type", "auth_file", "auth_hba_file", "auth_ident_file",
	                    "auth_ldap_options", "auth_pam_service" } },
	[PART_CLIENT_TLS] = { "client_tls_...",
	                      { "client_tls_sslmode", "client_tls_ca_file", "client_tls_cert_file",
	                        "client_tls_key_file", "client_tls_protocols", "client_tls_ciphers",
	                        "client_tls13_ciphers", "client_tls_dheparams",
	                        "client_tls_ecdhcurve" } },
	[PART_SERVER_TLS] = { "server_tls_...",
	                      { "server_tls_sslmode", "server_tls_negotiation",
	                        "server_tls_ca_file", "server_tls_cert_file", "server_tls_key_file",
	                        "server_tls_protocols", "server_tls_ciphers",
	                        "server_tls13_ciphers" } },
	[PART_PROXIES] = { "proxy_protocol", { "proxy_protocol", "proxy_protocol_from" } },
	[PART_WEB] = { "metrics_...",
	               { "metrics_allow", "metrics_hosts", "metrics_secret_file", "metrics_tls",
	                 "auth_failure_delay", "auth_failure_limit" } },
};

enum part part_of(const char *setting)
{
	for (int part = 0; part < PARTS; part++) {
		for (const char *const *at = rows[part].settings; *at; at++) {
			if (strcmp(*at, setting) == 0)
				return (enum part)part;
		}
	}
	return PARTS;
}

const char *const *part_settings(enum part part) { return rows[part].settings; }

const char *part_name(enum part part) { return rows[part].name; }

static bool same_text(const char *a, const char *b) { return strcmp(a ? a : "", b ? b : "") == 0; }

/* ---- logins ---- */

/* The first problem becomes the error. All problems are logged. */
static void take_problems(const struct problems *problems, const char *setting,
                          const struct logger *logger, struct err *err)
{
	bool is_unfit = problems->unfit_count == problems->count + problems->dropped_count;

	load_log_warnings(logger, problems);
	for (size_t i = 0; i < problems->count; i++)
		log_warning(logger, "%s", problems->texts[i]);
	err_set(err, is_unfit ? ERR_UNFIT : ERR_CONFIG, "%s: %s", setting,
	        problems->count ? problems->texts[0] : "out of memory");
}

static bool has_same_rules(const struct config *a, const struct config *b)
{
	return a->auth_type == b->auth_type && same_text(a->auth_hba_file, b->auth_hba_file) &&
	       same_text(a->auth_ident_file, b->auth_ident_file);
}

static bool make_rules(struct hba **hba, const struct config *config, const struct logger *logger,
                       struct err *err)
{
	struct problems problems = { 0 };

	*hba = NULL;
	if (config->auth_type != AUTH_METHOD_HBA)
		return true;
	if (!*config->auth_hba_file)
		return err_set(err, ERR_UNFIT, "auth_type = hba needs auth_hba_file");
	*hba = hba_load(config->auth_hba_file, config->auth_ident_file, &problems);
	if (*hba)
		load_log_warnings(logger, &problems);
	else
		take_problems(&problems, "auth_hba_file", logger, err);
	problems_done(&problems);
	return *hba != NULL;
}

static struct users *make_users(const struct config *config, struct err *err)
{
	struct users *users = load_users(config, err);

	if (!users)
		err_prefix(err, "auth_file: ");
	return users;
}

static bool make_logins(struct parts *parts, const struct config *fresh,
                        const struct config *running, const struct logger *logger, struct err *err)
{
	bool has_same_users = fresh->auth_type == running->auth_type &&
	                      same_text(fresh->auth_file, running->auth_file);
	struct users *users;
	struct hba *hba;

	if (!tls_sets_fit_logins(fresh, err) || !load_check_options(fresh, err))
		return false;
	if (has_same_rules(fresh, running))
		hba = parts->hba ? hba_hold(parts->hba) : NULL;
	else if (!make_rules(&hba, fresh, logger, err))
		return false;
	users = has_same_users ? users_hold(parts->users) : make_users(fresh, err);
	if (!users) {
		hba_release(&hba);
		return false;
	}
	users_release(&parts->users);
	hba_release(&parts->hba);
	parts->users = users;
	parts->hba = hba;
	return true;
}

/* ---- all parts ---- */

static bool make_proxies(struct parts *parts, const struct config *config, struct err *err)
{
	struct ranges *proxies;

	if (!load_proxies(config, &proxies, err))
		return false;
	ranges_release(&parts->proxies);
	parts->proxies = proxies;
	return true;
}

static bool make_web(struct parts *parts, const struct config *config, struct err *err)
{
	struct web_rights *rights = web_rights_new(config, err);

	if (!rights)
		return false;
	web_rights_release(&parts->web);
	parts->web = rights;
	return true;
}

bool parts_make(struct parts *parts, enum part part, const struct config *fresh,
                const struct config *running, const struct logger *logger, struct err *err)
{
	switch (part) {
	case PART_LOGINS:
		return make_logins(parts, fresh, running, logger, err);
	case PART_CLIENT_TLS: /* the web server has the same certificate */
		return tls_sets_remake_client(&parts->tls, fresh, err) &&
		       (!fresh->metrics_tls || make_web(parts, fresh, err));
	case PART_SERVER_TLS:
		return tls_sets_remake_server(&parts->tls, fresh, err);
	case PART_PROXIES:
		return make_proxies(parts, fresh, err);
	case PART_WEB:
		return make_web(parts, fresh, err);
	case PARTS:
		break;
	}
	return true;
}

void parts_done(struct parts *parts)
{
	users_release(&parts->users);
	hba_release(&parts->hba);
	tls_sets_done(&parts->tls);
	ranges_release(&parts->proxies);
	web_rights_release(&parts->web);
}
