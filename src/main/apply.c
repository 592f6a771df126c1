/* SPDX-License-Identifier: ISC */
/*
 * Applies a configuration to each module.
 *
 * Hard here: nothing may fail. Everything that can fail (files, certificates, the log) is
 * prepared before, so that a RELOAD applies all changes or none.
 */
#include <string.h>

#include "daemon_priv.h"

#include "pgweir/config/hosts_from.h"

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
	struct lane *lane;

	lanes_hold(&daemon->lanes);
	if (!statement_limits_configure(&daemon->statement_limits, daemon->config))
		log_warning(&daemon->logger, "out of memory: not all of [statements] is in force");
	lanes_release(&daemon->lanes);
	LANES_HELD(lane, &daemon->lanes)
	apply_to_lane(daemon, lane, proxies);
	ranges_release(&proxies);
	verifiers_trim(daemon->verifiers, daemon->users);
	doors_set_options(daemon);
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

/*
 * ---- SET ----
 *
 * Hard here: some settings only fit together, such as a certificate and its key, but SET
 * changes one at a time. So there are two snapshots. `wanted` has every accepted value.
 * `config`, which is in force, keeps the old values of a part (load.h) as long as its new
 * values do not fit. A value that does not fit with any value of other settings is refused.
 */

#define BIT(part) (1u << (part))

/* The change that a SET is about to apply. */
struct change {
	struct daemon *daemon;
	const char *name;
	const struct config *wanted;
	struct parts parts;
	part_set held;
};

/* The snapshot `wanted`, with the values in force for the parts that are held. NULL: no memory. */
static const struct config *mix(const struct change *change, part_set held)
{
	const struct config *mixed = config_ref(change->wanted);

	for (int part = 0; mixed && part < PARTS; part++) {
		const struct config *before = mixed;

		if (!(held & BIT(part)))
			continue;
		mixed = config_keep(before, change->daemon->config, part_settings((enum part)part));
		config_unref(&before);
	}
	return mixed;
}

/* Makes the part if its new values fit now. The part is not held any more then. */
static bool try_part(struct change *change, enum part part, struct err *err)
{
	const struct config *mixed = mix(change, change->held & ~BIT(part));
	bool is_made;

	if (!mixed)
		return err_set(err, ERR_MEMORY, "out of memory");
	is_made = parts_make(&change->parts, part, mixed, change->daemon->config,
	                     &change->daemon->logger, err);
	config_unref(&mixed);
	if (is_made)
		change->held &= ~BIT(part);
	return is_made;
}

/* Tries all held parts, again after a success: a part that fits may make another one fit. */
static void try_all(struct change *change, struct err why[PARTS])
{
	bool is_better = true;

	while (is_better) {
		is_better = false;
		for (int part = 0; part < PARTS; part++) {
			if (change->held & BIT(part))
				is_better |= try_part(change, (enum part)part, &why[part]);
		}
	}
}

/* Whether only another value of this same setting can help. */
static bool is_own_fault(const char *name, const struct err *why)
{
	static const char rules[] = "auth_hba_file: ";
	size_t count = strlen(name);

	if (why->code == ERR_UNFIT)
		return false;
	/* The maps are read with the rules, so their error names auth_hba_file. */
	if (strcmp(name, "auth_ident_file") == 0 && strncmp(why->text, rules, strlen(rules)) == 0)
		return true;
	return why->code == ERR_MEMORY ||
	       (strncmp(why->text, name, count) == 0 && why->text[count] == ':');
}

static void log_change(const struct change *change, const struct err why[PARTS])
{
	const struct logger *logger = &change->daemon->logger;
	part_set old = change->daemon->held;
	enum part touched = part_of(change->name);

	for (int part = 0; part < PARTS; part++) {
		if (old & ~change->held & BIT(part))
			log_info(logger, "%s: the SET value is in effect now",
			         part_name((enum part)part));
	}
	if (touched < PARTS && change->held & BIT(touched))
		log_warning(
		    logger,
		    "SET %s: not in effect: %s; %s: the old values stay in effect until the "
		    "new ones fit together",
		    change->name, why[touched].text, part_name(touched));
}

/* Applies the change. Only the first steps can fail. */
static bool put_in_force(struct change *change, const struct err why[PARTS], struct err *err)
{
	struct daemon *daemon = change->daemon;
	const struct config *config = mix(change, change->held);

	if (!config)
		return err_set(err, ERR_MEMORY, "out of memory");
	if (!load_log(daemon->log, daemon->options, config, err)) {
		config_unref(&config);
		return false;
	}
	log_change(change, why);
	apply_snapshot(daemon, config, &change->parts);
	config_unref(&daemon->wanted);
	daemon->wanted = config_ref(change->wanted);
	daemon->held = change->held;
	memcpy(daemon->why_held, why, sizeof(daemon->why_held));
	return true;
}

static enum config_change change_one(struct change *change, struct err *err)
{
	struct daemon *daemon = change->daemon;
	enum part touched = part_of(change->name);
	struct err why[PARTS];

	memcpy(why, daemon->why_held, sizeof(why));
	if (touched < PARTS) {
		change->held |= BIT(touched);
		try_all(change, why);
	}
	if (touched < PARTS && change->held & BIT(touched) &&
	    is_own_fault(change->name, &why[touched])) {
		*err = why[touched];
		return CONFIG_REFUSED;
	}
	if (!put_in_force(change, why, err))
		return CONFIG_REFUSED;
	if (touched == PARTS || !(change->held & BIT(touched)))
		return CONFIG_CHANGED;
	err_set(err, ERR_UNFIT,
	        "accepted, but not in effect: %s; %s: the old values stay in effect "
	        "until the new ones fit together (SHOW PENDING)",
	        why[touched].text, part_name(touched));
	return CONFIG_HELD;
}

enum config_change set_setting(struct daemon *daemon, const char *name, const char *value,
                               struct err *err)
{
	struct change change = { .daemon = daemon, .name = name, .held = daemon->held };
	enum config_change result = config_with(daemon->wanted, name, value, &change.wanted, err);

	if (result != CONFIG_CHANGED)
		return result;
	change.parts = (struct parts){
		.users = users_hold(daemon->users),
		.hba = hba_hold(daemon->hba),
		.tls = tls_sets_hold(&daemon->tls),
	};
	result = change_one(&change, err);
	parts_done(&change.parts);
	config_unref(&change.wanted);
	return result;
}

/* ---- hosts that were found ---- */

static bool take_hosts(const struct config **snapshot, const char *source, const char *list)
{
	const struct config *fresh = config_with_found(*snapshot, source, list);

	if (!fresh)
		return false;
	config_unref(snapshot);
	*snapshot = fresh;
	return true;
}

void apply_hosts(void *owner, const char *source, const char *list)
{
	struct daemon *daemon = owner;
	const struct config *config = config_ref(daemon->config);
	struct parts parts = {
		.users = users_hold(daemon->users),
		.hba = hba_hold(daemon->hba),
		.tls = tls_sets_hold(&daemon->tls),
	};

	lanes_hold(&daemon->lanes);
	if (take_hosts(&daemon->wanted, source, list) && take_hosts(&config, source, list)) {
		apply_snapshot(daemon, config, &parts);
	} else {
		log_error(&daemon->logger, "hosts_from: no memory for a new list of hosts");
		config_unref(&config);
		parts_done(&parts);
	}
	lanes_release(&daemon->lanes);
}

void set_forget_all(struct daemon *daemon)
{
	config_unref(&daemon->wanted);
	daemon->wanted = config_ref(daemon->config);
	daemon->held = 0;
}

const char *set_why_held(struct daemon *daemon, const char *name)
{
	enum part part = part_of(name);

	return part < PARTS && daemon->held & BIT(part) ? daemon->why_held[part].text : NULL;
}
