/* SPDX-License-Identifier: ISC */
/*
 * Applies a configuration to each module.
 *
 * Hard here: nothing may fail. Everything that can fail (files, certificates, the log) is
 * prepared before, so that a RELOAD applies all changes or none.
 */
#include "daemon_priv.h"

#include "pgweir/config/hosts_from.h"

static void apply_to_lane(struct daemon *daemon, struct lane *lane, struct ranges *proxies)
{
	const struct config *config = daemon->config;

	pools_configure(lane->pools, config, daemon->users);
	clients_set_parts(lane->clients, daemon->hba, daemon->tls.client, proxies);
	clients_configure(lane->clients, config, daemon->users);
	pools_set_tls(lane->pools, daemon->tls.server);
	resolver_set_ttl(lane->resolver, config->dns_max_ttl, config->dns_nxdomain_ttl);
	resolver_set_zone_period(lane->resolver, config->dns_zone_check_period);
	loop_poll(lane->loop, config->busy_poll);
	outbox_use_ring(lane->streams.outbox, config->io_uring);
}

void apply_settings(struct daemon *daemon, struct ranges *proxies)
{
	struct lane *lane;

	lanes_hold(&daemon->lanes);
	if (!statement_limits_configure(&daemon->statement_limits, daemon->config))
		log_warning(&daemon->logger, "out of memory: not all of [statements] is in force");
	lanes_release(&daemon->lanes);
	LANES_HELD(lane, &daemon->lanes)
	apply_to_lane(daemon, lane, proxies);
	doors_set_options(daemon);
	console_configure(daemon->console);
}

void apply_snapshot(struct daemon *daemon, struct parts *parts)
{
	/* SET and new hosts leave the users as they are: at a failover all servers log in again. */
	if (parts->users != daemon->users)
		verifiers_forget(daemon->verifiers);
	config_unref(&daemon->config);
	users_release(&daemon->users);
	hba_release(&daemon->hba);
	tls_sets_done(&daemon->tls);
	daemon->config = parts->config;
	daemon->users = parts->users;
	daemon->hba = parts->hba;
	daemon->tls = parts->tls;
	apply_settings(daemon, parts->proxies);
	ranges_release(&parts->proxies);
	if (parts->web)
		web_allow(daemon->web, parts->web);
	*parts = (struct parts){ 0 };
}

struct parts apply_hold(const struct daemon *daemon, const struct config *config)
{
	return (struct parts){
		.config = config,
		.users = users_hold(daemon->users),
		.hba = hba_hold(daemon->hba),
		.tls.client = tls_context_ref(daemon->tls.client),
		.tls.server = tls_context_ref(daemon->tls.server),
	};
}

/* Applies all of it, or nothing: settings that only fit together are changed by a RELOAD. */
enum config_change set_setting(struct daemon *daemon, const char *name, const char *value,
                               struct err *err)
{
	const struct config *config;
	enum config_change result = config_with(daemon->config, name, value, &config, err);
	struct problems problems = { 0 };
	struct parts parts;
	bool is_good;

	if (result != CONFIG_CHANGED)
		return result;
	parts = apply_hold(daemon, config);
	is_good =
	    parts_make(&parts, name, daemon->config, &problems) || problems_first(&problems, err);
	load_log_problems(&daemon->logger, LOG_LEVEL_WARNING, &problems);
	problems_done(&problems);
	if (is_good && load_log(daemon->log, daemon->options, config, err)) {
		apply_snapshot(daemon, &parts);
		return CONFIG_CHANGED;
	}
	parts_done(&parts);
	return CONFIG_REFUSED;
}

void apply_hosts(void *owner, const char *source, const char *list)
{
	struct daemon *daemon = owner;
	const struct config *config = config_with_found(daemon->config, source, list);
	struct parts parts;

	if (!config) {
		log_error(&daemon->logger, "hosts_from: no memory for a new list of hosts");
		return;
	}
	parts = apply_hold(daemon, config);
	lanes_hold(&daemon->lanes);
	apply_snapshot(daemon, &parts);
	lanes_release(&daemon->lanes);
}
