/* SPDX-License-Identifier: ISC */
/*
 * auth_type hba: finds the rule of a client, which determines how the client authenticates.
 *
 *   find the rule --> how to authenticate
 *     ^       |
 *     |       +--> look up the name of the host or of the system user --+
 *     +-----------------------------------------------------------------+
 *
 * Hard here: lookups of names take time, and a reload may change the rules in that time. So
 * no rule is kept: after a lookup, the search begins again with the first rule in force.
 */
#include <pwd.h>
#include <stdlib.h>

#include "pgweir/base/container_of.h"
#include "pgweir/auth/hba.h"
#include "pgweir/loop/workers.h"
#include "pgweir/net/resolver.h"

#include "login_priv.h"

#define PASSWD_SIZE 65536 /* buffer for one entry of the user database */

/* Finds the name of a system user on a helper thread. */
struct name_job {
	struct job job;
	struct hba_check *owner;
	uid_t uid;
	char *name; /* NULL: no such user; owned */
};

/* What was found out about one client. */
struct hba_check {
	struct client *client;
	struct reverse reverse;
	struct name_job *job; /* NULL: none is running */
	char *host, *system_user;
	bool is_host_known, is_system_user_known; /* the lookup has ended; NULL above: no name */
};

/* The options of the method: the rule's own, or else those of the settings. */
static const char *options_of(const struct client *client, const struct hba_rule *rule)
{
	const char *options = hba_rule_options(rule);

	return options ? options
	               : auth_methods_options(hba_rule_method(rule), client->clients->config);
}

/* ---- facts ---- */

static struct hba_facts facts_of(const struct client *client)
{
	const struct client_login *login = client->login;
	const struct hba_check *hba_check = login->hba_check;

	return (struct hba_facts){
		.peer = &client->peer,
		.database = login->database,
		.user = login->user,
		.is_tls = client_is_tls(client),
		.is_physical = client_is_physical(client),
		.is_host_known = hba_check && hba_check->is_host_known,
		.host = hba_check ? hba_check->host : NULL,
	};
}

/* The struct of this client, made if needed. NULL: no memory, and the client was refused. */
static struct hba_check *hba_check_of(struct client *client)
{
	struct client_login *login = client->login;

	if (!login->hba_check)
		login->hba_check = calloc(1, sizeof(*login->hba_check));
	if (login->hba_check)
		login->hba_check->client = client;
	else
		client_refuse_for(client, CLOSE_MEMORY);
	return login->hba_check;
}

void hba_check_free(struct client_login *login)
{
	struct hba_check *hba_check = login->hba_check;

	login->hba_check = NULL;
	if (!hba_check)
		return;
	reverse_cancel(&hba_check->reverse);
	if (hba_check->job)
		workers_abandon(&hba_check->job->job);
	free(hba_check->host);
	free(hba_check->system_user);
	free(hba_check);
}

/* ---- names ---- */

static void on_host(struct reverse *reverse, const char *host)
{
	struct hba_check *hba_check = container_of(reverse, struct hba_check, reverse);

	hba_check->is_host_known = true;
	hba_check->host = host ? strdup(host) : NULL;
	hba_check->client->login->on_looked_up(hba_check->client); /* searches the rules again */
}

static enum hba_check_result look_host_up(struct client *client)
{
	struct hba_check *hba_check = hba_check_of(client);
	struct err err;

	if (!hba_check)
		return HBA_CHECK_OVER;
	if (reverse_start(client->clients->with.resolver, &hba_check->reverse, &client->peer,
	                  on_host, &err))
		return HBA_CHECK_LOOKING;
	client_fatal(client, &err);
	return HBA_CHECK_OVER;
}

static void run_name(struct job *job)
{
	struct name_job *work = (struct name_job *)job;
	struct passwd entry, *found = NULL;
	char *buffer = malloc(PASSWD_SIZE);

	if (buffer && getpwuid_r(work->uid, &entry, buffer, PASSWD_SIZE, &found) == 0 && found)
		work->name = strdup(entry.pw_name);
	free(buffer);
}

static void done_name(struct job *job)
{
	struct name_job *work = (struct name_job *)job;
	struct hba_check *hba_check = job->is_abandoned ? NULL : work->owner;

	_Static_assert(offsetof(struct name_job, job) == 0, "jobs are found by it");
	if (hba_check) {
		hba_check->job = NULL;
		hba_check->is_system_user_known = true;
		hba_check->system_user = work->name;
	} else {
		free(work->name);
	}
	free(work);
	if (hba_check)
		hba_check->client->login->on_looked_up(hba_check->client);
}

static enum hba_check_result look_system_user_up(struct client *client)
{
	struct hba_check *hba_check = hba_check_of(client);
	struct err err;

	if (!hba_check)
		return HBA_CHECK_OVER;
	hba_check->job = calloc(1, sizeof(*hba_check->job));
	if (!hba_check->job) {
		client_refuse_for(client, CLOSE_MEMORY);
		return HBA_CHECK_OVER;
	}
	*hba_check->job = (struct name_job){ .job = { .run = run_name, .done = done_name },
		                             .owner = hba_check,
		                             .uid = client->peer.un.uid };
	if (workers_submit(client->clients->with.lookups, client->clients->with.loop,
	                   &hba_check->job->job, &err))
		return HBA_CHECK_LOOKING;
	free(hba_check->job);
	hba_check->job = NULL;
	client_refuse_with(client, CLOSE_TOO_MANY_LOGINS, "too many logins at once, try again");
	return HBA_CHECK_OVER;
}

/* ---- rules ---- */

/*
 * Refuses the client. As in PostgreSQL, the error repeats what the client sent (host, user,
 * database, encryption) and reveals nothing about the rules.
 */
static enum hba_check_result refuse_by_rules(struct client *client, enum close_reason reason,
                                             const char *words)
{
	char host[ADDRESS_TEXT_SIZE];
	bool is_unix = address_is_unix(&client->peer);
	struct err err;

	err_set(&err, ERR_NOT_ALLOWED, "%s %s \"%s\", user \"%.127s\", database \"%.127s\", %s",
	        words, client_is_physical(client) ? "replication from host" : "host",
	        is_unix ? "[local]" : address_format_host(&client->peer, host, sizeof(host)),
	        client->login->user, client->login->database,
	        client_is_tls(client) ? "TLS encryption" : "no encryption");
	err_reason(&err, reason);
	throttle_refuse(client, &err);
	return HBA_CHECK_OVER;
}

/*
 * Whether `name`, from the certificate or of the system user, is the client's user or is
 * mapped to it.
 */
static bool is_named(const struct client *client, const struct hba_rule *rule, const char *name)
{
	return name && hba_rule_admits(client->clients->hba, rule, name, client->login->user);
}

static bool has_certificate(const struct client *client, const struct hba_rule *rule)
{
	switch (hba_rule_client_cert(rule)) {
	case HBA_CERT_ANY:
		return true;
	case HBA_CERT_VALID:
		return client->login->has_certificate;
	case HBA_CERT_NAMED:
		return is_named(client, rule, login_certificate_name(client));
	}
	return false;
}

static enum hba_check_result follow(struct client *client, const struct hba_rule *rule,
                                    struct authentication_way *way)
{
	const struct hba_check *hba_check = client->login->hba_check;
	enum auth_method method = hba_rule_method(rule);
	const struct auth_method_row *row = &auth_methods[method];
	struct source_pos pos = hba_rule_source_pos(rule);
	bool is_proven = false;

	log_debug(&client->log, "by %s:%d: %s", pos.file, pos.line, row->hba_name);
	if (method == AUTH_METHOD_REJECT)
		return refuse_by_rules(client, CLOSE_HBA_REJECT,
		                       "login rejected: an HBA rule rejects");
	if (hba_rule_flaw(rule)) {
		log_info(&client->log, "login refused by %s:%d: %s", pos.file, pos.line,
		         hba_rule_flaw(rule));
		return refuse_by_rules(client, CLOSE_HBA_REJECT,
		                       "login rejected: an HBA rule that allows no login matches");
	}
	if (row->voucher == AUTH_BY_SYSTEM_USER && !(hba_check && hba_check->is_system_user_known))
		return look_system_user_up(client);
	if (!has_certificate(client, rule)) {
		client_refuse_for(client, CLOSE_AUTH_CERTIFICATE);
		return HBA_CHECK_OVER;
	}
	if (row->voucher == AUTH_BY_SYSTEM_USER)
		is_proven = is_named(client, rule, hba_check->system_user);
	else if (row->voucher == AUTH_BY_CERTIFICATE)
		is_proven = is_named(client, rule, login_certificate_name(client));
	*way = (struct authentication_way){ method, is_proven, options_of(client, rule) };
	return HBA_CHECK_FOUND;
}

enum hba_check_result hba_check_decide(struct client *client, struct authentication_way *way)
{
	const struct hba *hba = client->clients->hba;
	const struct hba_facts facts = facts_of(client);
	const struct hba_rule *rule;

	switch (hba_find(hba, &facts, &rule)) {
	case HBA_RULE:
		return follow(client, rule, way);
	case HBA_NEEDS_HOST:
		return look_host_up(client);
	case HBA_NO_RULE:
		break;
	}
	return refuse_by_rules(client, CLOSE_HBA_NO_RULE,
	                       "no authentication method is found: no rule for");
}

bool hba_check_is_by(const struct client *client, enum auth_method method, const char *options)
{
	const struct hba_facts facts = facts_of(client);
	const struct hba_rule *rule;

	return hba_find(client->clients->hba, &facts, &rule) == HBA_RULE &&
	       hba_rule_method(rule) != AUTH_METHOD_REJECT && !hba_rule_flaw(rule) &&
	       hba_rule_method(rule) == method &&
	       login_same_options(options, options_of(client, rule)) &&
	       has_certificate(client, rule);
}
