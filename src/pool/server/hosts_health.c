/* SPDX-License-Identifier: ISC */
/*
 * Which hosts and addresses may be used now, and when the others may be tried.
 *
 * Three things decide: PostgreSQL refused a login there, or it could not be reached (reach.h), or
 * its role does not fit (roster.h). Each has a time from which it may be tried again; the latest
 * counts. A host is as good as its best address.
 */
#include "hosts_priv.h"

static usec_t later(usec_t a, usec_t b) { return a > b ? a : b; }

static usec_t earlier(usec_t a, usec_t b) { return a < b ? a : b; }

static enum roster_fit fit_of_role(const struct place *place, const struct roster_at *at,
                                   usec_t *due)
{
	const struct hosts *hosts = place->hosts;

	if (!place->addr)
		return roster_fit_host(hosts->roster, place->index, hosts->target, HOSTS_ROLE_GAP,
		                       due);
	return roster_fit(hosts->roster, at, hosts->target, HOSTS_ROLE_GAP, due);
}

static enum roster_fit place_fit(const struct place *place, usec_t *due)
{
	const struct hosts *hosts = place->hosts;
	struct roster_at at = { .host = place->index };
	enum roster_fit fit;

	*due = 0;
	if (!hosts->roster)
		return ROSTER_GOOD;
	if (place->addr && place->addr->address.family != AF_UNSPEC)
		at.address = &place->addr->address;
	fit = fit_of_role(place, &at, due);
	if (fit == ROSTER_NO || !roster_has_limit(&hosts->limit) ||
	    !roster_is_behind(hosts->roster, &at, &hosts->limit))
		return fit;
	if (hosts->is_strict)
		*due = INT64_MAX; /* its watch finds out when it has caught up */
	return hosts->is_strict ? ROSTER_NO : ROSTER_BEHIND;
}

enum roster_fit hosts_fit(const struct place *place)
{
	usec_t due;

	return place_fit(place, &due);
}

/* When the role of an address may be tried; 0: it fits. */
static usec_t role_due(const struct place *place)
{
	const struct host_addr *addr = place->addr;
	usec_t due;

	place_fit(place, &due);
	return later(due, addr && addr->unfit_at ? addr->unfit_at + HOSTS_ROLE_GAP : 0);
}

/* When it may be used or tried, whatever its role is; 0: it has not failed. */
static usec_t reachable_due(const struct host_addr *addr, usec_t gap)
{
	usec_t refused = addr->is_refused ? addr->refused_at + gap : 0;

	return addr->target ? later(refused, reach_due(addr->target)) : refused;
}

usec_t hosts_address_due(const struct hosts *hosts, unsigned int index,
                         const struct host_addr *addr, usec_t gap)
{
	return later(reachable_due(addr, gap), role_due(&(struct place){ hosts, index, addr }));
}

static bool is_unix(const struct host *host) { return *host->name == '/' || *host->name == '@'; }

struct place hosts_self_place(const struct hosts *hosts, unsigned int index)
{
	const struct host *host = &hosts->list[index];

	return (struct place){ hosts, index, is_unix(host) ? &host->self : NULL };
}

/* The host is as good as its best address, unless the host itself is worse. */
usec_t hosts_host_due(const struct hosts *hosts, unsigned int index, usec_t gap)
{
	const struct host *host = &hosts->list[index];
	struct place self = hosts_self_place(hosts, index);
	usec_t first = host->count ? INT64_MAX : role_due(&self);

	for (unsigned int i = 0; i < host->count; i++)
		first = earlier(first, hosts_address_due(hosts, index, &host->list[i], gap));
	return later(first, reachable_due(&host->self, gap));
}

bool hosts_is_up(const struct hosts *hosts, unsigned int index)
{
	return hosts_host_due(hosts, index, 1) == 0;
}

usec_t hosts_due(struct hosts *hosts, usec_t gap)
{
	usec_t first = INT64_MAX;

	hosts_lock(hosts);
	for (unsigned int i = 0; i < hosts->count; i++)
		first = earlier(first, hosts_host_due(hosts, i, gap));
	hosts_unlock(hosts);
	return first;
}

static bool is_unreachable(const struct hosts *hosts, const struct host_addr *addr, struct err *err)
{
	struct err unused;

	return addr->target && reach_due(addr->target) &&
	       reach_failure(hosts->reach, addr->target, err ? err : &unused);
}

bool hosts_are_unreachable(struct hosts *hosts, struct err *err)
{
	bool is = false;

	hosts_lock(hosts);
	for (unsigned int i = 0; i < hosts->count && !is; i++) {
		const struct host *host = &hosts->list[i];

		is = is_unreachable(hosts, &host->self, err);
		for (unsigned int at = 0; at < host->count && !is; at++)
			is = is_unreachable(hosts, &host->list[at], err);
	}
	hosts_unlock(hosts);
	return is;
}

bool hosts_has_up(struct hosts *hosts)
{
	bool has = false;

	hosts_lock(hosts);
	for (unsigned int i = 0; i < hosts->count; i++)
		has |= hosts_is_up(hosts, i);
	hosts_unlock(hosts);
	return has;
}

static bool has_other(const struct hosts *hosts, unsigned int index, const struct address *address)
{
	for (unsigned int i = 0; i < hosts->count; i++) {
		struct host *host = &hosts->list[i];
		const struct host_addr *own = i == index ? hosts_find_addr(host, address) : NULL;

		if (!own && hosts_is_up(hosts, i))
			return true;
		for (unsigned int at = 0; own && at < host->count; at++) {
			if (&host->list[at] != own &&
			    hosts_address_due(hosts, i, &host->list[at], 1) == 0)
				return true;
		}
	}
	return false;
}

bool hosts_has_other(struct hosts *hosts, unsigned int index, const struct address *address)
{
	bool has;

	hosts_lock(hosts);
	has = has_other(hosts, index, address);
	hosts_unlock(hosts);
	return has;
}
