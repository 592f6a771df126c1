/* SPDX-License-Identifier: ISC */
/*
 * A new configuration: at the start, by RELOAD, by SET, and by hosts that were found.
 *
 * Hard here: a RELOAD applies all changes or none. Everything that can fail (files, certificates,
 * listeners, the log) is prepared before the first module is changed, so that an error in any line
 * leaves everything as it was. To apply it cannot fail.
 */
#include "daemon_priv.h"

#include <stdlib.h>
#include <string.h>

#include "pgweir/config/entries.h"

/* ---- to all modules ---- */

static void apply_to_lane(struct lane *lane, const struct parts *now)
{
	const struct config *config = now->config;

	pools_configure(lane->pools, config, now->users);
	clients_configure(lane->clients, config, now->users);
	pools_set_tls(lane->pools, now->tls.server);
	resolver_configure(lane->resolver, config->dns_max_ttl, config->dns_nxdomain_ttl,
	                   config->dns_zone_check_period);
	loop_poll(lane->loop, config->busy_poll);
	outbox_use_ring(lane->streams.outbox, config->io_uring);
}

static void apply_to_all(struct clients_shared *shared, const struct parts *now)
{
	struct gate_rules *main = &shared->gates.main.rules;

	gate_rules_done(main);
	*main = (struct gate_rules){ .hba = hba_hold(now->hba),
		                     .tls = tls_context_ref(now->tls.client) };
	ranges_release(&shared->proxies);
	shared->proxies = ranges_hold(now->proxies);
}

void reload_apply(struct daemon *daemon)
{
	/* At once: the rules of logins and the settings fit together. */
	lanes_hold(&daemon->lanes);
	apply_to_all(&daemon->shared, &daemon->now);
	if (!statement_limits_configure(&daemon->shared.limits, daemon->now.config))
		log_warning(&daemon->logger, "out of memory: not all of [statements] is in force");
	LANES_EACH (lane, &daemon->lanes)
		apply_to_lane(lane, &daemon->now);
	lanes_release(&daemon->lanes);
	doors_set_options(daemon);
}

/* Puts the parts in force, and owns them. */
static void put_in_force(struct daemon *daemon, struct parts *parts)
{
	/* SET and new hosts leave the users as they are: at a failover all servers log in again. */
	if (parts->users != daemon->now.users)
		verifiers_forget(daemon->verifiers);
	parts_done(&daemon->now);
	daemon->now = *parts;
	*parts = (struct parts){ 0 };
	reload_apply(daemon);
	web_allow(daemon->web, web_rights_hold(daemon->now.web));
}

/* ---- SET, and hosts that were found ---- */

/* Applies all of it, or nothing: settings that only fit together are changed by a RELOAD. */
enum config_change reload_set(struct daemon *daemon, const char *name, const char *value,
                              struct err *err)
{
	const struct config *config;
	enum config_change result = config_with(daemon->now.config, name, value, &config, err);
	struct problems problems = { 0 };
	struct parts parts;
	bool is_good;

	if (result != CONFIG_CHANGED)
		return result;
	parts = parts_hold(&daemon->now, config);
	is_good = parts_make(&parts, name, daemon->now.config, &problems) ||
	          problems_first(&problems, err);
	load_log_problems(&daemon->logger, LOG_LEVEL_WARNING, &problems);
	problems_done(&problems);
	if (is_good && load_log(daemon->log, daemon->options, config, err)) {
		put_in_force(daemon, &parts);
		return CONFIG_CHANGED;
	}
	parts_done(&parts);
	return CONFIG_REFUSED;
}

void reload_hosts(void *owner, const char *source, const char *list)
{
	struct daemon *daemon = owner;
	const struct config *config = config_with_found(daemon->now.config, source, list);
	struct parts parts;

	if (!config) {
		log_error(&daemon->logger, "hosts_from: no memory for a new list of hosts");
		return;
	}
	parts = parts_hold(&daemon->now, config);
	lanes_hold(&daemon->lanes);
	put_in_force(daemon, &parts);
	lanes_release(&daemon->lanes);
}

/* ---- counts of the rules and users that are new and gone ---- */

void recount_rule(struct buf *lines, const char *const *columns)
{
	for (size_t i = 0; i < RECOUNT_RULE_COLUMNS; i++)
		buf_printf(lines, "%s\t", columns[i] ? columns[i] : "");
	buf_add_byte(lines, 0);
}

void recount_rules(struct buf *lines, const struct hba *hba)
{
	static const size_t places[] = { 1, 2, 3, 4, 6 }; /* of hba_rule_texts() */
	struct buf texts = { 0 };

	for (size_t i = 0; hba && i < hba->count; i++) {
		const struct hba_rule *rule = &hba->rules[i];
		const char *columns[RECOUNT_RULE_COLUMNS] = {
			[0] = hba_type_name(rule->type), [5] = auth_methods[rule->method].hba_name
		};
		struct bytes rest;

		buf_clear(&texts);
		hba_rule_texts(rule, &texts);
		rest = buf_bytes(&texts);
		lines->is_broken |= !buf_ok(&texts);
		for (size_t j = 0; j < sizeof(places) / sizeof(places[0]); j++)
			bytes_take_text(&rest, &columns[places[j]]);
		recount_rule(lines, columns);
	}
	buf_free(&texts);
}

struct line {
	const char *text;
	int count; /* -1: of the rules in force; 1: of the new ones */
};

/* Returns how many there are. lines NULL: only that. */
static size_t take_lines(const struct buf *from, int count, struct line *lines)
{
	struct bytes rest = buf_bytes(from);
	const char *text;
	size_t taken = 0;

	for (; bytes_take_text(&rest, &text); taken++) {
		if (lines)
			lines[taken] = (struct line){ text, count };
	}
	return taken;
}

static int by_text(const void *a, const void *b)
{
	return strcmp(((const struct line *)a)->text, ((const struct line *)b)->text);
}

bool recount(const struct buf *old, const struct buf *fresh, struct buf *out)
{
	size_t before = take_lines(old, 0, NULL), count = take_lines(fresh, 0, NULL);
	struct line *lines = calloc(before + count + 1, sizeof(*lines));
	int more = 0, added = 0, gone = 0; /* more: of equal lines */

	if (lines && buf_ok(old) && buf_ok(fresh)) {
		take_lines(old, -1, lines);
		take_lines(fresh, 1, lines + before);
		qsort(lines, before + count, sizeof(*lines), by_text);
		for (const struct line *line = lines; line->text; line++) {
			more += line->count;
			if (line[1].text && strcmp(line->text, line[1].text) == 0)
				continue;
			added += more > 0 ? more : 0;
			gone -= more < 0 ? more : 0;
			more = 0;
		}
	}
	free(lines);
	if (added || gone)
		buf_printf(out, "%zu rule%s (%d new, %d gone)", count, count == 1 ? "" : "s", added,
		           gone);
	return added || gone;
}

struct census {
	const struct users *old;
	size_t added, changed, kept;
};

static void count_user(const struct user *user, void *arg)
{
	struct census *census = arg;
	const struct user *before = users_find(census->old, user->name);
	const char *secret = before && before->secret.text ? before->secret.text : "";

	census->added += !before;
	census->kept += before != NULL;
	if (before && strcmp(secret, user->secret.text ? user->secret.text : "") != 0)
		census->changed++;
}

/* For example "7 users (1 new, 0 gone, 2 changed)". */
static bool recount_users(const struct users *old, const struct users *fresh, struct buf *out)
{
	struct census census = { .old = old };
	size_t gone;

	users_each(fresh, count_user, &census);
	gone = users_count(old) - census.kept;
	if (census.added == 0 && gone == 0 && census.changed == 0)
		return false;
	buf_printf(out, "%zu user%s (%zu new, %zu gone, %zu changed)", users_count(fresh),
	           users_count(fresh) == 1 ? "" : "s", census.added, gone, census.changed);
	return true;
}

/* ---- RELOAD ---- */

/* Makes all that is needed, and opens the log, before anything changes. Takes the parts. */
static bool change_config(struct daemon *daemon, struct parts *parts, struct problems *problems)
{
	struct doors_change doors = { .daemon = daemon };
	struct err err;

	parts->tls.client = tls_context_ref(daemon->now.tls.client);
	parts->tls.server = tls_context_ref(daemon->now.tls.server);
	if (!load_make(parts, problems))
		return false;
	if (!doors_prepare(&doors, &parts->gates, &err) ||
	    !load_log(daemon->log, daemon->options, parts->config, &err)) {
		doors_abandon(&doors);
		load_say_where(parts->config, &err);
		return problems_add(problems, (struct source_pos){ 0 }, "%s", err.text);
	}
	put_in_force(daemon, parts);
	doors_commit(&doors, &daemon->now.gates);
	return true;
}

/* The changes of a reload: as lines to the console that asked for it, by name to the log. */
struct telling {
	config_tell *tell; /* NULL: no console asked */
	void *arg;
	struct buf names;
};

static void tell_change(void *arg, const char *name, const char *line)
{
	struct telling *telling = arg;

	buf_printf(&telling->names, "%s%s", telling->names.count ? ", " : "", name);
	if (telling->tell)
		telling->tell(telling->arg, name, line);
}

/* Reports and logs a line like "auth_file: 7 users (1 new, 0 gone, 2 changed)". */
static void tell_count(struct daemon *daemon, struct telling *telling, const char *setting,
                       struct buf *count)
{
	struct buf line = { 0 };

	buf_printf(&line, "%s: %s", setting, buf_text(count));
	log_info(&daemon->logger, "%s", buf_text(&line));
	tell_change(telling, setting, buf_text(&line));
	buf_free(&line);
}

static void tell_counts(struct daemon *daemon, const struct parts *old, struct telling *telling)
{
	struct buf count = { 0 }, before = { 0 }, after = { 0 };

	if (recount_users(old->users, daemon->now.users, &count))
		tell_count(daemon, telling, "auth_file", &count);
	buf_clear(&count);
	recount_rules(&before, old->hba);
	recount_rules(&after, daemon->now.hba);
	if (recount(&before, &after, &count))
		tell_count(daemon, telling, "auth_hba_file", &count);
	buf_free(&before);
	buf_free(&after);
	buf_free(&count);
}

static void tell_changes(struct daemon *daemon, const struct parts *old, const struct config *fresh,
                         config_tell *tell, void *arg)
{
	struct telling telling = { .tell = tell, .arg = arg };

	config_compare(old->config, fresh, tell_change, &telling);
	tell_counts(daemon, old, &telling);
	if (telling.names.count)
		log_kept(&daemon->logger, LOG_LEVEL_INFO, "reload",
		         "changed in the configuration: %s", buf_text(&telling.names));
	buf_free(&telling.names);
}

/* The console that asked for the reload also gets the warnings. */
static void tell_warnings(const struct problems *problems, config_tell *tell, void *arg)
{
	for (size_t i = 0; tell && i < problems->warnings.count; i++) {
		struct buf line = { 0 };

		buf_printf(&line, "warning: %s", problems->warnings.texts[i]);
		tell(arg, "warning", buf_text(&line));
		buf_free(&line);
	}
}

/* Settings that need a restart keep their values. */
static const struct config *keep_boot_only(struct daemon *daemon, const struct config *config,
                                           struct problems *problems)
{
	struct buf differ = { 0 };
	const struct config *kept = config_keep_boot_only(config, daemon->now.config, &differ);

	if (differ.count)
		log_kept(&daemon->logger, LOG_LEVEL_WARNING, "reload",
		         "changes that need a restart: %s", buf_text(&differ));
	buf_free(&differ);
	if (!kept)
		problems_add(problems, (struct source_pos){ 0 }, "out of memory");
	return kept;
}

static bool load_again(struct daemon *daemon, config_tell *tell, void *tell_arg, struct err *err)
{
	struct parts old = parts_hold(&daemon->now, config_ref(daemon->now.config)), fresh;
	const struct config *config = NULL; /* as it is in the file */
	struct problems problems = { 0 };
	bool is_done = load_all(daemon->now.config->conffile, &fresh, &problems);

	if (is_done) {
		config = fresh.config;
		fresh.config = keep_boot_only(daemon, config, &problems);
		is_done = fresh.config && change_config(daemon, &fresh, &problems);
		parts_done(&fresh);
	}
	load_log_problems(&daemon->logger, LOG_LEVEL_ERROR, &problems);
	tell_warnings(&problems, tell, tell_arg);
	if (is_done)
		tell_changes(daemon, &old, config, tell, tell_arg);
	else
		problems_first(&problems, err);
	problems_done(&problems);
	config_unref(&config);
	parts_done(&old);
	return is_done;
}

bool reload_config(struct daemon *daemon, config_tell *tell, void *tell_arg, struct err *err)
{
	bool is_done;

	notify_send(&daemon->notify, "RELOADING=1\nMONOTONIC_USEC=%lld\nSTATUS=reloading",
	            (long long)clock_now());
	is_done = load_again(daemon, tell, tell_arg, err);
	if (!is_done)
		log_kept(&daemon->logger, LOG_LEVEL_ERROR, "reload",
		         "reload failed, keeping the old configuration");
	notify_send(&daemon->notify, "READY=1\nSTATUS=%s",
	            is_done ? "reloaded" : "reload failed, keeping the old configuration");
	return is_done;
}
