/* SPDX-License-Identifier: ISC */
/*
 * Loads a configuration file and what it names: users, rules, certificates, proxies. Nothing is
 * applied here. What fails is added to a list of problems, so that --check finds all of them.
 */
#include "daemon_priv.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "pgweir/auth/auth_methods.h"
#include "pgweir/base/text.h"
#include "pgweir/config/entries.h"
#include "pgweir/pgwire/startup.h"

bool load_complain(const struct config *config, struct problems *problems, const struct err *err)
{
	return problems_add(problems, config_source_pos_of_text(config, err->text), "%s",
	                    err->text);
}

/* ---- settings that only fit together: those of all clients, and those of a listener ---- */

/* entry NULL: those of all clients. */
static bool complain(const struct config *config, const struct config_listener *entry,
                     struct problems *problems, const struct err *err)
{
	if (!entry)
		return load_complain(config, problems, err);
	return problems_add(problems, entry->pos, "listener \"%s\": %s", entry->name, err->text);
}

/* Also checks methods that are not auth_type: a rule may use them, and SET may change auth_type. */
static bool fits_method(const struct config *config, enum auth_method method, struct err *err)
{
	const struct auth_method_row *row = &auth_methods[method];
	const char *options = auth_methods_options(method, config);

	if (!row->outside)
		return true;
	if (row->may_be_unset && (!options || !*options))
		return config->auth_type != method ||
		       err_set(err, ERR_CONFIG, "auth_type = %s needs %s", row->name, row->setting);
	return row->outside->check(options, err) == OUTSIDE_FIT ||
	       err_prefix(err, "%s: ", row->setting);
}

static bool check_fit(const struct config *config, const struct config_listener *entry,
                      struct problems *problems)
{
	bool is_verified = config->client_tls_sslmode == TLS_MODE_VERIFY_FULL, is_good = true;
	const struct auth_method_row *method = &auth_methods[config->auth_type];
	const struct {
		bool is_so;
		const char *says;
	} lacks[] = {
		{ config->auth_type == AUTH_METHOD_HBA && !*config->auth_hba_file,
		  "auth_type = hba needs auth_hba_file" },
		{ method->voucher == AUTH_BY_CERTIFICATE && !is_verified,
		  "auth_type = cert needs client_tls_sslmode = verify-full" },
		{ config->proxy_protocol != PROXY_PROTOCOL_OFF &&
		      !config->proxy_protocol_from.count,
		  "proxy_protocol needs proxy_protocol_from" },
		{ is_verified && !*config->client_tls_ca_file,
		  "client_tls_sslmode = verify-full needs client_tls_ca_file" },
	};
	struct err err;

	for (size_t i = 0; i < sizeof(lacks) / sizeof(lacks[0]); i++) {
		err_set(&err, ERR_CONFIG, "%s", lacks[i].says);
		is_good &= !lacks[i].is_so || complain(config, entry, problems, &err);
	}
	for (int i = 0; (!entry || entry->auth_type) && i < AUTH_METHODS; i++)
		is_good &= fits_method(config, (enum auth_method)i, &err) ||
		           complain(config, entry, problems, &err);
	return is_good;
}

/* ---- who may log in ---- */

/* *hba is NULL if auth_type is not hba. */
static bool load_hba(const struct config *config, struct hba **hba, struct problems *problems)
{
	*hba = NULL;
	if (config->auth_type != AUTH_METHOD_HBA || !*config->auth_hba_file)
		return true;
	*hba = hba_load(config->auth_hba_file, config->auth_ident_file, problems);
	return *hba != NULL;
}

static bool has_same_rules(const struct config *a, const struct config *b)
{
	return a->auth_type == b->auth_type && text_same(a->auth_hba_file, b->auth_hba_file) &&
	       text_same(a->auth_ident_file, b->auth_ident_file);
}

static bool needs_users(const struct config_listener *listener)
{
	for (int method = 0; listener->auth_type && method < AUTH_METHODS; method++) {
		if (!auth_methods[method].needs_no_file &&
		    strcasecmp(auth_methods[method].name, listener->auth_type) == 0)
			return true;
	}
	return false;
}

static bool needs_any_users(const struct config *config)
{
	const struct config_listener *listener = NULL;

	while ((listener = config_entry_next(config, ENTRY_LISTENER, listener))) {
		if (needs_users(listener))
			return true;
	}
	return !auth_methods[config->auth_type].needs_no_file;
}

/* An empty set if auth_type does not need the file; NULL if it cannot be read. */
static bool load_users(const struct config *config, struct users **users, struct problems *problems)
{
	size_t count = problems_count(problems);

	if (!needs_any_users(config) || !config->auth_file || !*config->auth_file)
		*users = users_none();
	else
		*users =
		    users_load(config->auth_file, config_source_pos(config, "auth_file"), problems);
	return *users && problems_count(problems) == count;
}

/* ---- entries of [listeners] ---- */

static bool is_address(const char *word, uint16_t port)
{
	struct address address;

	return strcmp(word, "*") == 0 || address_parse(&address, word, port);
}

static bool check_addresses(const struct config_listener *entry, struct err *err)
{
	char *list = strdup(entry->addr ? entry->addr : ""), *rest = list, *word;
	bool is_good = list || err_set(err, ERR_MEMORY, "out of memory");

	while (is_good && (word = strsep(&rest, ","))) {
		if (*word && !is_address(word, (uint16_t)entry->port))
			is_good = err_set(err, ERR_CONFIG, "addr: \"%s\" is no IP address", word);
	}
	free(list);
	return is_good;
}

static bool check_startup(const struct config_listener *entry, struct err *err)
{
	struct options_walk walk = { .rest = entry->options ? entry->options : "" };
	enum walk_result result;
	const char *name, *value;

	while ((result = startup_options_next(&walk, &name, &value, err)) == WALK_ITEM)
		continue;
	startup_options_done(&walk);
	return result != WALK_BAD || err_prefix(err, "options: ");
}

static bool is_same_socket(const struct config_listener *a, const char *addr, const char *dir,
                           int port)
{
	bool is_any = a->addr && addr && *addr && (*a->addr == '*' || *addr == '*');

	return a->port == port && (is_any || (a->addr && text_same(a->addr, addr)) ||
	                           (a->unix_socket_dir && text_same(a->unix_socket_dir, dir)));
}

/* Those before it in the file, and the main listener. Addresses that overlap fail at the start. */
static bool check_places(const struct config *config, const struct config_listener *entry,
                         struct err *err)
{
	const struct config_listener *other = NULL;

	if (is_same_socket(entry, config->listen_addr.text, config->unix_socket_dir,
	                   config->listen_port))
		return err_set(err, ERR_CONFIG,
		               "listen_addr or unix_socket_dir has it with port %d", entry->port);
	while ((other = config_entry_next(config, ENTRY_LISTENER, other)) != entry) {
		if (is_same_socket(entry, other->addr, other->unix_socket_dir, other->port))
			return err_set(err, ERR_CONFIG, "listener \"%s\" has the same place",
			               other->name);
	}
	return true;
}

static bool load_gate(struct gate_rules *rules, const struct config *main, const struct hba *hba,
                      struct problems *problems)
{
	const struct config_listener *entry = rules->entry;
	struct err err;

	rules->config = config_of_listener(main, entry, &err);
	if (!rules->config || !check_places(main, entry, &err) || !check_addresses(entry, &err) ||
	    !check_startup(entry, &err))
		return complain(main, entry, problems, &err);
	if (!check_fit(rules->config, entry, problems))
		return false;
	if (!hba || !has_same_rules(rules->config, main))
		return load_hba(rules->config, &rules->hba, problems);
	rules->hba = hba_hold((struct hba *)hba);
	return true;
}

static bool load_gates(const struct config *config, const struct hba *hba, struct gates *gates,
                       struct problems *problems)
{
	const struct config_listener *entry = NULL;
	bool is_good = true;

	gates->count = 0;
	while ((entry = config_entry_next(config, ENTRY_LISTENER, entry))) {
		struct gate_rules *rules = &gates->at[gates->count++];

		*rules = (struct gate_rules){ .entry = entry };
		is_good &= load_gate(rules, config, hba, problems);
	}
	return is_good;
}

/* ---- all of it ---- */

bool load_files(struct parts *parts, struct problems *problems)
{
	const struct config *config = parts->config;
	bool is_good = load_users(config, &parts->users, problems);

	is_good &= check_fit(config, NULL, problems);
	is_good &= load_hba(config, &parts->hba, problems);
	is_good &= load_gates(config, parts->hba, &parts->gates, problems);
	web_warn(config, problems);
	return is_good;
}

bool load_all(const char *file, struct parts *parts, struct problems *problems)
{
	*parts = (struct parts){ .config = config_load(file, problems) };
	if (parts->config && load_files(parts, problems))
		return true;
	parts_done(parts);
	return false;
}

struct parts parts_hold(const struct parts *parts, const struct config *config)
{
	return (struct parts){
		.config = config,
		.users = users_hold(parts->users),
		.hba = hba_hold(parts->hba),
		.tls.client = tls_context_ref(parts->tls.client),
		.tls.server = tls_context_ref(parts->tls.server),
		.proxies = ranges_hold(parts->proxies),
		.web = web_rights_hold(parts->web),
	};
}

void parts_done(struct parts *parts)
{
	config_unref(&parts->config);
	users_release(&parts->users);
	hba_release(&parts->hba);
	for (size_t i = 0; i < parts->gates.count; i++)
		gate_rules_done(&parts->gates.at[i]);
	parts->gates.count = 0;
	tls_context_unref(&parts->tls.client);
	tls_context_unref(&parts->tls.server);
	ranges_release(&parts->proxies);
	web_rights_release(&parts->web);
}

unsigned long load_expected_files(const struct config *config)
{
	size_t pools = config_entry_count(config, ENTRY_DATABASE)
	                   ? config_entry_count(config, ENTRY_DATABASE)
	                   : 1;
	unsigned long size =
	    (unsigned long)config->default_pool_size + (unsigned long)config->reserve_pool_size;

	unsigned long web =
	    config->metrics_listen.count ? WEB_CONNECTIONS_MAX + config->metrics_listen.count : 0;

	return (unsigned long)config->max_client_conn + size * pools + web + 32;
}

static void log_list(const struct logger *logger, enum log_level level,
                     const struct problem_list *list, const char *what)
{
	for (size_t i = 0; i < list->count; i++)
		log_at(logger, level, "%s", list->texts[i]);
	if (list->dropped_count)
		log_at(logger, level, "... and %zu more %s", list->dropped_count, what);
}

void load_log_problems(const struct logger *logger, enum log_level level,
                       const struct problems *problems)
{
	log_list(logger, LOG_LEVEL_WARNING, &problems->warnings, "warnings");
	log_list(logger, level, &problems->errors, "problems");
}

bool load_log(struct log *log, const struct options *options, const struct config *config,
              struct err *err)
{
	const struct log_options wanted = {
		.file = config->logfile,
		.to_stderr = !options->quiet,
		.to_syslog = config->syslog,
		.is_json = config->log_format == LOG_FORMAT_JSON,
		.rate = (unsigned int)config->log_rate_limit,
		.ident = config->syslog_ident,
		.facility = config->syslog_facility,
		.verbosity = config->verbose == CONFIG_UNSET ? options->verbosity : config->verbose,
	};

	return log_configure(log, &wanted, err);
}

void load_say_where(const struct config *config, struct err *err)
{
	struct source_pos pos = config_source_pos_of_text(config, err->text);
	char where[SOURCE_POS_SIZE];

	if (pos.file && pos.line)
		err_prefix(err, "%s: ", source_pos_text(pos, where));
}

/* ---- TLS contexts ---- */

static const enum tls_check server_checks[] = {
	[TLS_MODE_DISABLE] = TLS_CHECK_NONE,    [TLS_MODE_ALLOW] = TLS_CHECK_NONE,
	[TLS_MODE_PREFER] = TLS_CHECK_NONE,     [TLS_MODE_REQUIRE] = TLS_CHECK_NONE,
	[TLS_MODE_VERIFY_CA] = TLS_CHECK_CHAIN, [TLS_MODE_VERIFY_FULL] = TLS_CHECK_NAME,
};

static bool make_client(struct tls_context **context, const struct config *config, struct err *err)
{
	struct tls_options options;

	*context = NULL;
	if (config->client_tls_sslmode == TLS_MODE_DISABLE)
		return true;
	options = client_tls_options(config, NULL);
	*context = tls_context_new(&options, err);
	return *context != NULL;
}

static bool make_server(struct tls_context **context, const struct config *config, struct err *err)
{
	*context = NULL;
	if (config->server_tls_negotiation == TLS_NEGOTIATION_DIRECT &&
	    config->server_tls_sslmode < TLS_MODE_REQUIRE)
		return err_set(err, ERR_CONFIG,
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
		.has_own_records = config->tls_records == TLS_RECORDS_OWN,
	    },
	    err);
	return *context != NULL;
}

void load_keep_same(struct tls_context **fresh, struct tls_context *old)
{
	if (!old || !*fresh || *fresh == old || !tls_context_same(*fresh, old))
		return;
	tls_context_unref(fresh);
	*fresh = tls_context_ref(old);
}

typedef bool make_context(struct tls_context **context, const struct config *config,
                          struct err *err);

/* Makes one of the two again, and releases the one before. */
static bool remake(struct tls_context **context, const struct config *config, make_context *make,
                   struct problems *problems)
{
	struct tls_context *old = *context;
	struct err err;
	bool is_made = make(context, config, &err) || load_complain(config, problems, &err);

	if (is_made)
		load_keep_same(context, old);
	tls_context_unref(&old);
	return is_made;
}

static bool make_gates(struct parts *parts, struct problems *problems)
{
	bool is_good = true;
	struct err err;

	for (size_t i = 0; i < parts->gates.count; i++) {
		struct gate_rules *rules = &parts->gates.at[i];

		/* of a draft it may be missing */
		if (!rules->config)
			continue;
		if (make_client(&rules->tls, rules->config, &err))
			load_keep_same(&rules->tls, parts->tls.client);
		else
			is_good = complain(rules->config, rules->entry, problems, &err);
	}
	return is_good;
}

static bool make_proxies(struct parts *parts, struct problems *problems)
{
	const struct config *config = parts->config;
	const struct config_list *list = &config->proxy_protocol_from;
	struct err err;

	ranges_release(&parts->proxies);
	parts->proxies = ranges_new(list->names, list->count, &err);
	if (parts->proxies)
		return true;
	err_prefix(&err, "proxy_protocol_from: ");
	return load_complain(config, problems, &err);
}

static bool make_web(struct parts *parts, struct problems *problems)
{
	struct err err;

	web_rights_release(&parts->web);
	if (!parts->config->metrics_listen.count)
		return true;
	parts->web = web_rights_new(parts->config, &err);
	return parts->web || load_complain(parts->config, problems, &err);
}

/*
 * ---- certificates of ours: which are in use, and warnings before they expire ----
 *
 * Those that were read count: a file may have been replaced since.
 */

#define DAY ((int64_t)24 * 3600)

/* Seconds before a certificate expires: each gives a warning. From the greatest to the least. */
static const int64_t thresholds[] = { 30 * DAY, 7 * DAY, DAY, 0 };

static bool passes_threshold(int64_t left, int64_t left_before)
{
	for (size_t i = 0; i < sizeof(thresholds) / sizeof(thresholds[0]); i++) {
		if (left <= thresholds[i] && thresholds[i] < left_before)
			return true;
	}
	return false;
}

static const char *say_left(int64_t left, char out[32])
{
	if (left <= 0)
		return "has expired";
	if (left > 2 * DAY)
		snprintf(out, 32, "expires in %lld days", (long long)(left / DAY));
	else
		snprintf(out, 32, "expires in %lld hours", (long long)left / 3600);
	return out;
}

/* Those of the settings first, then those of listeners. */
struct contexts {
	size_t count;
	const struct tls_context *at[1 + CONFIG_LISTENERS_MAX], *server;
	const struct config_listener *entries[1 + CONFIG_LISTENERS_MAX];
};

static void add_gate(struct contexts *contexts, const struct gate_rules *rules)
{
	contexts->entries[contexts->count] = rules->entry;
	contexts->at[contexts->count++] = rules->tls;
}

/* If only the web server shows certificates of the settings, it has them. */
static struct contexts contexts_of(const struct parts *parts)
{
	const struct tls_context *client = parts->tls.client;
	struct contexts contexts = { .count = 1,
		                     .at = { client ? client : web_rights_tls(parts->web) },
		                     .server = parts->tls.server };

	for (size_t i = 0; i < parts->gates.count; i++)
		add_gate(&contexts, &parts->gates.at[i]);
	return contexts;
}

/* Whether one of the first contexts has this certificate. */
static bool is_known(const struct contexts *contexts, size_t count, const char *file)
{
	struct tls_certificate other;

	for (size_t i = 0; i < count; i++) {
		for (size_t j = 0; tls_context_certificate(contexts->at[i], j, &other); j++) {
			if (strcmp(other.file, file) == 0)
				return true;
		}
	}
	return false;
}

/* *entry: of the listener that it belongs to; NULL: of none. false: no more. */
static bool find(const struct contexts *contexts, size_t number, struct certificate_shown *shown,
                 const struct config_listener **entry)
{
	struct tls_certificate *found = &shown->certificate;

	for (size_t i = 0; i < contexts->count; i++) {
		*entry = contexts->entries[i];
		for (size_t j = 0; tls_context_certificate(contexts->at[i], j, found); j++) {
			shown->setting = j ? "client_tls_name_files" : "client_tls_cert_file";
			if (!is_known(contexts, i, found->file) && number-- == 0)
				return true;
		}
	}
	*entry = NULL;
	shown->setting = "server_tls_cert_file";
	return number == 0 && tls_context_certificate(contexts->server, 0, found);
}

/* Warns of those that have expired, or will soon. */
static void certificates_judge(const struct parts *parts, struct problems *problems)
{
	struct contexts contexts = contexts_of(parts);
	const struct config_listener *entry;
	struct certificate_shown shown;
	char words[32];

	for (size_t i = 0; find(&contexts, i, &shown, &entry); i++) {
		if (shown.certificate.seconds_left <= thresholds[0])
			problems_warn(
			    problems,
			    entry ? entry->pos : config_source_pos(parts->config, shown.setting),
			    "%s: the certificate in %s %s", shown.setting, shown.certificate.file,
			    say_left(shown.certificate.seconds_left, words));
	}
}

bool certificates_show(struct daemon *daemon, size_t number, struct certificate_shown *shown)
{
	struct contexts contexts = contexts_of(&daemon->now);
	const struct config_listener *entry;

	TAILQ_EACH (door, &daemon->doors, node) {
		if (door->gate)
			add_gate(&contexts, &door->gate->rules);
	}
	return find(&contexts, number, shown, &entry);
}

void certificates_look(struct daemon *daemon)
{
	struct certificate_shown shown;
	int64_t now = wall_now() / USEC_PER_SEC, passed = now - daemon->certificates_at;
	char words[32];

	for (size_t i = 0; certificates_show(daemon, i, &shown); i++) {
		int64_t left = shown.certificate.seconds_left;

		if (passes_threshold(left, left + passed))
			log_warning(&daemon->logger, "%s: the certificate in %s %s", shown.setting,
			            shown.certificate.file, say_left(left, words));
	}
	daemon->certificates_at = now;
}

/* ---- all that is made ---- */

bool load_make(struct parts *parts, struct problems *problems)
{
	bool is_good = remake(&parts->tls.client, parts->config, make_client, problems);

	is_good &= remake(&parts->tls.server, parts->config, make_server, problems);
	is_good &= make_gates(parts, problems);
	is_good &= make_proxies(parts, problems);
	is_good &= make_web(parts, problems);
	certificates_judge(parts, problems);
	return is_good;
}

/* ---- what a SET changes ---- */

static bool make_logins(struct parts *parts, const struct config *running,
                        struct problems *problems)
{
	const struct config *fresh = parts->config;

	if (!has_same_rules(fresh, running)) {
		hba_release(&parts->hba);
		if (!load_hba(fresh, &parts->hba, problems))
			return false;
	}
	if (fresh->auth_type == running->auth_type &&
	    text_same(fresh->auth_file, running->auth_file))
		return true;
	users_release(&parts->users);
	return load_users(fresh, &parts->users, problems);
}

static bool is_of(const char *setting, const char *group)
{
	return strncmp(setting, group, strlen(group)) == 0;
}

bool parts_make(struct parts *parts, const char *setting, const struct config *running,
                struct problems *problems)
{
	const struct config *fresh = parts->config;

	if (!check_fit(fresh, NULL, problems))
		return false;
	if (is_of(setting, "client_tls")) /* the web server has the same certificate */
		return remake(&parts->tls.client, fresh, make_client, problems) &&
		       (!fresh->metrics_tls || make_web(parts, problems));
	if (is_of(setting, "server_tls"))
		return remake(&parts->tls.server, fresh, make_server, problems);
	if (is_of(setting, "proxy_protocol"))
		return make_proxies(parts, problems);
	if (is_of(setting, "metrics_") || is_of(setting, "auth_failure_"))
		return make_web(parts, problems);
	return !is_of(setting, "auth_") || make_logins(parts, running, problems);
}
