/* SPDX-License-Identifier: ISC */
/*
 * The hosts of a pool: their list, their addresses, and what is noted about them.
 * hosts_choose.c says which may be used, and chooses.
 */
#include <stdlib.h>
#include <string.h>

#include "hosts_priv.h"

/* ---- addresses ---- */

struct host_addr *hosts_find_addr(struct host *host, const struct address *address)
{
	for (unsigned int i = 0; address && i < host->count; i++) {
		if (address_equal_host(&host->list[i].address, address))
			return &host->list[i];
	}
	return &host->self;
}

static bool is_same_list(const struct host *host, const struct address *addresses,
                         unsigned int count)
{
	if (count != host->count)
		return false;
	for (unsigned int i = 0; i < count; i++) {
		if (!address_equal_host(&host->list[i].address, &addresses[i]))
			return false;
	}
	return true;
}

static void release_list(const struct hosts *hosts, struct host *host)
{
	for (unsigned int i = 0; i < host->count; i++)
		reach_release(hosts->reach, &host->list[i].target);
	free(host->list);
}

bool hosts_learn(const struct hosts *hosts, struct host *host, const struct address *addresses,
                 unsigned int count)
{
	struct host_addr *list;

	if (is_same_list(host, addresses, count))
		return true;
	list = calloc(count, sizeof(*list));
	if (!list)
		return false;
	for (unsigned int i = 0; i < count; i++) {
		const struct host_addr *known = hosts_find_addr(host, &addresses[i]);

		if (known != &host->self)
			list[i] = *known;
		list[i].address = addresses[i];
		list[i].target = reach_hold(hosts->reach, host->name, &addresses[i], hosts->port);
	}
	release_list(hosts, host);
	host->list = list;
	host->count = count;
	return true;
}

/* ---- counting ---- */

static void leave_target(const struct hosts *hosts, struct reach_target **target)
{
	if (*target)
		reach_count(*target, -1);
	reach_release(hosts->reach, target);
}

void hosts_leave(struct hosts *hosts, struct hosts_place *place)
{
	leave_target(hosts, &place->host);
	leave_target(hosts, &place->address);
}

static struct reach_target *enter_target(const struct hosts *hosts, unsigned int index,
                                         const struct address *address)
{
	struct reach_target *target =
	    reach_hold(hosts->reach, hosts->list[index].name, address, hosts->port);

	if (target)
		reach_count(target, 1);
	return target;
}

void hosts_enter(struct hosts *hosts, struct hosts_place *place, unsigned int index,
                 const struct address *address)
{
	hosts_leave(hosts, place);
	if (index >= hosts->count)
		return;
	place->host = enter_target(hosts, index, NULL);
	if (address)
		place->address = enter_target(hosts, index, address);
}

/* ---- outcomes ---- */

static void note_refusal(struct host_addr *addr, usec_t now)
{
	addr->is_refused = true;
	addr->refused_at = now;
}

/* The caller has the lock. */
static bool note(struct hosts *hosts, struct host_addr *addr, const struct hosts_note *note)
{
	if (note->outcome == HOST_UNREACHABLE && addr->target) {
		reach_failed(hosts->reach, addr->target, note->now, note->gap, note->err);
		return false;
	}
	if (note->outcome == HOST_WORKED) {
		addr->is_refused = false;
		addr->unfit_at = 0;
	} else if (note->outcome != HOST_ANSWERED) { /* or no memory for the target */
		note_refusal(addr, note->now);
	}
	return addr->target && reach_worked(hosts->reach, addr->target);
}

bool hosts_note(struct hosts *hosts, const struct hosts_note *outcome)
{
	bool is_back = false;
	struct host *host;
	struct host_addr *addr;

	if (outcome->host >= hosts->count)
		return false;
	hosts_lock(hosts);
	host = &hosts->list[outcome->host];
	addr = hosts_find_addr(host, outcome->address);
	/* An address that left the list in the meantime says nothing about the others. */
	if (!outcome->address || addr != &host->self || host->count == 0)
		is_back = note(hosts, addr, outcome);
	hosts_unlock(hosts);
	return is_back;
}

void hosts_learn_protocol(struct hosts *hosts, unsigned int index, const struct address *address,
                          enum host_protocol protocol)
{
	if (index >= hosts->count)
		return;
	hosts_lock(hosts);
	hosts_find_addr(&hosts->list[index], address)->protocol = protocol;
	hosts_unlock(hosts);
}

enum host_protocol hosts_protocol(struct hosts *hosts, unsigned int index,
                                  const struct address *address)
{
	enum host_protocol protocol;

	if (index >= hosts->count)
		return HOST_UNTRIED;
	hosts_lock(hosts);
	protocol = hosts_find_addr(&hosts->list[index], address)->protocol;
	hosts_unlock(hosts);
	return protocol;
}

static void reset_addr(struct host_addr *addr)
{
	addr->is_refused = false;
	addr->unfit_at = 0;
	addr->protocol = HOST_UNTRIED;
}

void hosts_reset(struct hosts *hosts)
{
	hosts_lock(hosts);
	for (unsigned int i = 0; i < hosts->count; i++) {
		struct host *host = &hosts->list[i];

		reset_addr(&host->self);
		for (unsigned int at = 0; at < host->count; at++)
			reset_addr(&host->list[at]);
	}
	hosts_unlock(hosts);
}

void hosts_unfit(struct hosts *hosts, unsigned int index, const struct address *address, usec_t now)
{
	if (index >= hosts->count)
		return;
	hosts_lock(hosts);
	hosts_find_addr(&hosts->list[index], address)->unfit_at = now;
	hosts_unlock(hosts);
}

void hosts_set_roles(struct hosts *hosts, struct roster *roster, enum target_session_attrs target)
{
	hosts_lock(hosts);
	if (hosts->roster != roster || hosts->target != target) {
		hosts->roster = roster;
		hosts->target = target;
	}
	hosts_unlock(hosts);
}

void hosts_set_limit(struct hosts *hosts, const struct roster_limit *limit, bool is_strict)
{
	hosts_lock(hosts);
	hosts->limit = *limit;
	hosts->is_strict = is_strict;
	hosts_unlock(hosts);
}

/* ---- the list ---- */

void hosts_init(struct hosts *hosts, struct reach *reach)
{
	*hosts = (struct hosts){ .reach = reach };
	pthread_mutex_init(&hosts->lock, NULL);
}

static void clear(struct hosts *hosts)
{
	for (unsigned int i = 0; i < hosts->count; i++) {
		release_list(hosts, &hosts->list[i]);
		reach_release(hosts->reach, &hosts->list[i].self.target);
	}
	free(hosts->list);
	free(hosts->names);
	free(hosts->text);
	hosts->list = NULL;
	hosts->names = hosts->text = NULL;
	hosts->count = hosts->next = 0;
}

void hosts_done(struct hosts *hosts)
{
	clear(hosts);
	pthread_mutex_destroy(&hosts->lock);
}

/* Splits the list into names. The texts are there, and the list is empty. */
static void fill(struct hosts *hosts)
{
	const char *list = hosts->text;
	struct bytes host;

	while (config_host_next(&list, &host)) {
		char *name = hosts->names + (host.at - hosts->text);

		name[host.count] = '\0';
		hosts->list[hosts->count].name = name;
		hosts->list[hosts->count++].self.target =
		    reach_hold(hosts->reach, name, NULL, hosts->port);
	}
}

static bool set_list(struct hosts *hosts, const char *text, uint16_t port)
{
	struct hosts fresh = { 0 };
	unsigned int count = 0;
	struct bytes host;

	for (const char *list = text; config_host_next(&list, &host);)
		count++;
	fresh.text = strdup(text);
	fresh.names = strdup(text);
	fresh.list = calloc(count, sizeof(*fresh.list));
	if (!fresh.text || !fresh.names || !fresh.list) {
		clear(&fresh);
		return false;
	}
	clear(hosts);
	hosts->text = fresh.text;
	hosts->names = fresh.names;
	hosts->list = fresh.list;
	hosts->port = port;
	fill(hosts);
	return true;
}

bool hosts_configure(struct hosts *hosts, const char *text, uint16_t port,
                     enum load_balance_hosts how)
{
	bool ok = true;

	hosts_lock(hosts);
	if (!hosts->text || strcmp(hosts->text, text) != 0 || hosts->port != port ||
	    hosts->how != how)
		ok = set_list(hosts, text, port);
	if (ok)
		hosts->how = how;
	hosts_unlock(hosts);
	return ok;
}
