/* SPDX-License-Identifier: ISC */
/*
 * Loads a configuration file and what it names: users, rules, proxies. Nothing is applied
 * here.
 */
#include "load.h"

#include <string.h>

#include "pgweir/auth/outside.h"
#include "pgweir/config/entries.h"
#include "pgweir/config/changes.h"
#include "pgweir/net/tls.h"
#include "pgweir/web/web.h"

/* Also checks methods that are not auth_type: a rule may use them, and SET may change auth_type. */
static bool check_options(const struct config *config, enum auth_method method, struct err *err)
{
	const struct auth_method_row *row = &auth_methods[method];
	const char *options = auth_methods_options(method, config);

	if (row->may_be_unset && (!options || !*options))
		return config->auth_type != method ||
		       err_set(err, ERR_UNFIT, "auth_type = %s needs %s", row->name, row->setting);
	return outside_check(method, options, err) == OUTSIDE_FIT ||
	       err_prefix(err, "%s: ", row->setting);
}

bool load_check_options(const struct config *config, struct err *err)
{
	for (int method = 0; method < AUTH_METHODS; method++) {
		if (auth_methods[method].is_outside &&
		    !check_options(config, (enum auth_method)method, err))
			return false;
	}
	return true;
}

bool load_hba(const struct config *config, struct hba **hba, struct problems *problems)
{
	struct err err;
	bool is_good = load_check_options(config, &err);

	*hba = NULL;
	if (!is_good)
		problems_add(problems, config_source_pos_of_text(config, err.text), "%s", err.text);
	if (config->auth_type != AUTH_METHOD_HBA)
		return is_good;
	if (!*config->auth_hba_file)
		return problems_add(problems, config_source_pos(config, "auth_type"),
		                    "auth_type = hba needs auth_hba_file");
	*hba = hba_load(config->auth_hba_file, config->auth_ident_file, problems);
	if (!is_good)
		hba_release(hba);
	return *hba != NULL;
}

bool load_proxies(const struct config *config, struct ranges **proxies, struct err *err)
{
	const struct config_list *list = &config->proxy_protocol_from;

	if (config->proxy_protocol != PROXY_PROTOCOL_OFF && list->count == 0)
		return err_set(err, ERR_UNFIT, "proxy_protocol needs proxy_protocol_from");
	*proxies = ranges_new(list->names, list->count, err);
	return *proxies || err_prefix(err, "proxy_protocol_from: ");
}

struct users *load_users(const struct config *config, struct err *err)
{
	bool has_users = !auth_methods[config->auth_type].needs_no_file;

	if (has_users && config->auth_file && *config->auth_file)
		return users_load(config->auth_file, err);
	err_set(err, ERR_MEMORY, "out of memory");
	return users_none();
}

#define CERTIFICATE_SOON (14 * 24 * 3600)

static void judge_certificate(const struct config *config, const char *setting, const char *path,
                              struct problems *problems)
{
	struct source_pos pos = config_source_pos(config, setting);
	int64_t left;

	if (!path || !*path || !tls_time_left(path, &left) || left > CERTIFICATE_SOON)
		return;
	if (left <= 0)
		problems_warn(problems, pos, "%s: the certificate in %s has expired", setting,
		              path);
	else
		problems_warn(problems, pos, "%s: the certificate in %s expires in %lld hours",
		              setting, path, (long long)left / 3600);
}

void load_judge_certificates(const struct config *config, struct problems *problems)
{
	if (config->client_tls_sslmode != TLS_MODE_DISABLE || config->metrics_tls)
		judge_certificate(config, "client_tls_cert_file", config->client_tls_cert_file,
		                  problems);
	if (config->server_tls_sslmode != TLS_MODE_DISABLE)
		judge_certificate(config, "server_tls_cert_file", config->server_tls_cert_file,
		                  problems);
}

bool load_all(const char *file, const struct config **config, struct users **users,
              struct hba **hba, struct problems *problems)
{
	struct err err;
	bool is_good;

	*users = NULL;
	*config = config_load(file, problems);
	if (!*config)
		return false;
	is_good = load_hba(*config, hba, problems);
	load_judge_certificates(*config, problems);
	web_warn(*config, problems);
	*users = load_users(*config, &err);
	if (!*users)
		problems_add_text(problems, err.text);
	if (*users && is_good)
		return true;
	config_unref(config);
	users_release(users);
	hba_release(hba);
	return false;
}

unsigned long load_expected_files(const struct config *config)
{
	size_t pools = config_database_count(config) ? config_database_count(config) : 1;
	unsigned long size =
	    (unsigned long)config->default_pool_size + (unsigned long)config->reserve_pool_size;

	unsigned long web =
	    config->metrics_listen.count ? WEB_CONNECTIONS_MAX + config->metrics_listen.count : 0;

	return (unsigned long)config->max_client_conn + size * pools + web + 32;
}

void load_log_warnings(const struct logger *logger, const struct problems *problems)
{
	for (size_t i = 0; i < problems->warning_count; i++)
		log_warning(logger, "%s", problems->warnings[i]);
	if (problems->dropped_warning_count)
		log_warning(logger, "... and %zu more warnings", problems->dropped_warning_count);
}

struct log_options load_log_options(const struct options *options, const struct config *config)
{
	return (struct log_options){
		.file = config->logfile,
		.to_stderr = !options->quiet,
		.to_syslog = config->syslog,
		.is_json = config->log_format == LOG_FORMAT_JSON,
		.rate = (unsigned int)config->log_rate_limit,
		.ident = config->syslog_ident,
		.facility = config->syslog_facility,
		.verbosity = config->verbose == CONFIG_UNSET ? options->verbosity : config->verbose,
	};
}

void load_say_where(const struct config *config, struct err *err)
{
	struct source_pos pos = config_source_pos_of_text(config, err->text);

	if (pos.file && pos.line)
		err_prefix(err, "%s:%d: ", pos.file, pos.line);
}
