/* SPDX-License-Identifier: ISC */
/*
 * Applies a configuration to each module.
 *
 * Hard here: nothing may fail. Everything that can fail (files, certificates, the log) is
 * prepared before, so that a RELOAD applies all changes or none.
 */
#include "apply.h"

#include "daemon_priv.h"
#include "load.h"

bool apply_log(struct log *log, const struct options *options, const struct config *config,
               struct err *err)
{
	struct log_options wanted = load_log_options(options, config);

	return log_configure(log, &wanted, err);
}

static void apply_to_lane(struct daemon *daemon, struct lane *lane, struct ranges *proxies)
{
	const struct config *config = daemon->config;

	pools_configure(lane->pools, config, daemon->users);
	clients_set_hba(lane->clients, daemon->hba);
	clients_configure(lane->clients, config, daemon->users);
	clients_set_tls(lane->clients, daemon->tls.client);
	if (proxies)
		clients_set_proxies(lane->clients, proxies);
	pools_set_tls(lane->pools, daemon->tls.server);
	resolver_set_ttl(lane->resolver, config->dns_max_ttl, config->dns_nxdomain_ttl);
	resolver_set_zone_period(lane->resolver, config->dns_zone_check_period);
	loop_poll(lane->loop, config->busy_poll);
	outbox_use_ring(lane->streams.outbox, config->io_uring);
}

void apply_settings(struct daemon *daemon, struct ranges *proxies)
{
	const struct config *config = daemon->config;
	struct lane *lane;

	lanes_hold(&daemon->lanes);
	LANES_EACH(lane, &daemon->lanes)
	apply_to_lane(daemon, lane, proxies);
	lanes_release(&daemon->lanes);
	ranges_release(&proxies);
	verifiers_trim(daemon->verifiers, daemon->users);
	listener_set_options(daemon->listener, &daemon->lanes.at[0].pools->server_sockets,
	                     config->tcp_defer_accept);
	console_configure(daemon->console);
}

void apply_snapshot(struct daemon *daemon, const struct config *config, struct parts *parts)
{
	config_unref(&daemon->config);
	users_release(&daemon->users);
	hba_release(&daemon->hba);
	tls_sets_done(&daemon->tls);
	daemon->config = config;
	daemon->users = parts->users;
	daemon->hba = parts->hba;
	daemon->tls = parts->tls;
	apply_settings(daemon, parts->proxies);
	if (parts->web)
		web_allow(daemon->web, parts->web);
	*parts = (struct parts){ 0 };
}
