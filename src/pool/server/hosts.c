/* SPDX-License-Identifier: ISC */
/*
 * Chooses a host, and one of its addresses.
 *
 * The health of an address is up (it has not failed), retry (it has failed, and its gap is over) or
 * down. Addresses that are up are preferred. One in retry is chosen if none is up, or if the
 * connection is not needed at once. It counts as failed again from that moment, so that no other
 * connection tries it at the same time: none of this pool, and none of any pool if it could not be
 * reached. That moment is the choice of the host, before its name is looked up, as many pools may
 * choose in one turn.
 */
#include "pgweir/pool/server/hosts.h"

#include <stdlib.h>
#include <string.h>

#include "pgweir/base/banned.h"

enum health { HEALTH_DOWN, HEALTH_RETRY, HEALTH_UP };

static void lock_hosts(struct hosts *hosts) { pthread_mutex_lock(&hosts->lock); }

static void unlock_hosts(struct hosts *hosts) { pthread_mutex_unlock(&hosts->lock); }

/* ---- health ---- */

static usec_t later(usec_t a, usec_t b) { return a > b ? a : b; }

static usec_t earlier(usec_t a, usec_t b) { return a < b ? a : b; }

/* When the health becomes retry; 0: it is up. */
static usec_t address_due(const struct host_addr *addr, usec_t gap)
{
	usec_t refused = addr->is_refused ? addr->refused_at + gap : 0;

	return addr->target ? later(refused, reach_due(addr->target)) : refused;
}

/* The host is as good as its best address, unless the host itself is worse. */
static usec_t host_due(const struct host *host, usec_t gap)
{
	usec_t first = host->count ? INT64_MAX : 0;

	for (unsigned int i = 0; i < host->count; i++)
		first = earlier(first, address_due(&host->list[i], gap));
	return later(first, address_due(&host->self, gap));
}

static enum health health_at(usec_t due, usec_t now)
{
	if (!due)
		return HEALTH_UP;
	return now >= due ? HEALTH_RETRY : HEALTH_DOWN;
}

static enum health address_health(const struct host_addr *addr, const struct hosts_when *when)
{
	return health_at(address_due(addr, when->gap), when->now);
}

static enum health host_health(const struct host *host, const struct hosts_when *when)
{
	return health_at(host_due(host, when->gap), when->now);
}

static bool is_up(const struct host *host) { return host_due(host, 1) == 0; }

usec_t hosts_due(struct hosts *hosts, usec_t gap)
{
	usec_t first = INT64_MAX;

	lock_hosts(hosts);
	for (unsigned int i = 0; i < hosts->count; i++)
		first = earlier(first, host_due(&hosts->list[i], gap));
	unlock_hosts(hosts);
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

	lock_hosts(hosts);
	for (unsigned int i = 0; i < hosts->count && !is; i++) {
		const struct host *host = &hosts->list[i];

		is = is_unreachable(hosts, &host->self, err);
		for (unsigned int at = 0; at < host->count && !is; at++)
			is = is_unreachable(hosts, &host->list[at], err);
	}
	unlock_hosts(hosts);
	return is;
}

static struct host_addr *find_addr(struct host *host, const struct address *address)
{
	for (unsigned int i = 0; address && i < host->count; i++) {
		if (address_equal_host(&host->list[i].address, address))
			return &host->list[i];
	}
	return &host->self;
}

bool hosts_has_up(struct hosts *hosts)
{
	bool has = false;

	lock_hosts(hosts);
	for (unsigned int i = 0; i < hosts->count; i++)
		has |= is_up(&hosts->list[i]);
	unlock_hosts(hosts);
	return has;
}

static bool has_other(const struct hosts *hosts, unsigned int index, const struct address *address)
{
	for (unsigned int i = 0; i < hosts->count; i++) {
		struct host *host = &hosts->list[i];
		const struct host_addr *own = i == index ? find_addr(host, address) : NULL;

		if (!own && is_up(host))
			return true;
		for (unsigned int at = 0; own && at < host->count; at++) {
			if (&host->list[at] != own && address_due(&host->list[at], 1) == 0)
				return true;
		}
	}
	return false;
}

bool hosts_has_other(struct hosts *hosts, unsigned int index, const struct address *address)
{
	bool has;

	lock_hosts(hosts);
	has = has_other(hosts, index, address);
	unlock_hosts(hosts);
	return has;
}

/* ---- choosing ---- */

/* The host that was down for the longest time. */
static unsigned int nearest(const struct hosts *hosts, usec_t gap)
{
	unsigned int best = 0;

	for (unsigned int i = 1; i < hosts->count; i++) {
		if (host_due(&hosts->list[i], gap) < host_due(&hosts->list[best], gap))
			best = i;
	}
	return best;
}

static unsigned int look_for(const struct hosts *hosts, enum health least,
                             const struct hosts_when *when)
{
	for (unsigned int i = 0; i < hosts->count; i++) {
		unsigned int at = (hosts->next + i) % hosts->count;

		if (host_health(&hosts->list[at], when) >= least)
			return at;
	}
	return hosts->count;
}

/* The caller tries the host, if one of its addresses could not be reached and is due. */
static bool begin_reach_test(const struct hosts *hosts, struct host *host, usec_t now)
{
	struct host_addr *self = &host->self;

	if (self->target && reach_begin_test(hosts->reach, self->target, now))
		return true;
	for (unsigned int i = 0; i < host->count; i++) {
		struct host_addr *addr = &host->list[i];

		if (addr->target && reach_begin_test(hosts->reach, addr->target, now))
			return true;
	}
	return false;
}

unsigned int hosts_choose(struct hosts *hosts, const struct hosts_when *when, bool *is_test)
{
	bool takes_turns, may_test;
	unsigned int chosen;

	lock_hosts(hosts);
	takes_turns = hosts->how == LOAD_BALANCE_ROUND_ROBIN;
	may_test = takes_turns && when->may_test;
	chosen = look_for(hosts, may_test ? HEALTH_RETRY : HEALTH_UP, when);
	if (chosen == hosts->count)
		chosen = look_for(hosts, HEALTH_RETRY, when);
	if (chosen == hosts->count)
		chosen = nearest(hosts, when->gap);
	hosts->next = takes_turns ? (chosen + 1) % hosts->count : chosen;
	*is_test = !is_up(&hosts->list[chosen]) &&
	           begin_reach_test(hosts, &hosts->list[chosen], when->now);
	unlock_hosts(hosts);
	return chosen;
}

/* No other connection of this pool may try the address until its gap is over again. */
static bool begin_test(const struct hosts *hosts, struct host_addr *addr, usec_t now)
{
	if (addr->is_refused)
		addr->refused_at = now;
	if (!addr->target || !reach_due(addr->target))
		return addr->is_refused;
	reach_begin_test(hosts->reach, addr->target, now);
	return true;
}

bool hosts_pick_self(struct hosts *hosts, unsigned int index, usec_t now, bool is_test)
{
	lock_hosts(hosts);
	is_test |= begin_test(hosts, &hosts->list[index].self, now);
	unlock_hosts(hosts);
	return is_test;
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

/* Sets the addresses. Those that were in the list before keep their state. */
static bool learn(const struct hosts *hosts, struct host *host, const struct address *addresses,
                  unsigned int count)
{
	struct host_addr *list;

	if (is_same_list(host, addresses, count))
		return true;
	list = calloc(count, sizeof(*list));
	if (!list)
		return false;
	for (unsigned int i = 0; i < count; i++) {
		const struct host_addr *known = find_addr(host, &addresses[i]);

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

static struct host_addr *look_in(struct host *host, const struct address *next, enum health least,
                                 const struct hosts_when *when)
{
	struct host_addr *from = find_addr(host, next);
	unsigned int start = from == &host->self ? 0 : (unsigned int)(from - host->list);

	for (unsigned int i = 0; i < host->count; i++) {
		struct host_addr *addr = &host->list[(start + i) % host->count];

		if (address_health(addr, when) >= least)
			return addr;
	}
	return NULL;
}

/* The address for which hosts_choose() has begun a test. NULL: none. */
static struct host_addr *tested(const struct host *host)
{
	for (unsigned int i = 0; i < host->count; i++) {
		const struct reach_target *target = host->list[i].target;

		if (target && reach_is_tested(target))
			return &host->list[i];
	}
	return NULL;
}

/* The address for a connection; the host has addresses. Turns are taken from `next`. */
static struct host_addr *pick(struct host *host, const struct address *next,
                              const struct hosts_when *when)
{
	struct host_addr *addr =
	    look_in(host, next, when->may_test ? HEALTH_RETRY : HEALTH_UP, when);

	if (!addr)
		addr = look_in(host, next, HEALTH_RETRY, when);
	return addr ? addr : look_in(host, next, HEALTH_DOWN, when);
}

bool hosts_pick(struct hosts *hosts, unsigned int index, const struct address *addresses,
                unsigned int count, const struct hosts_when *when, struct address *address,
                bool *is_test)
{
	struct host *host = &hosts->list[index];
	struct host_addr *addr;
	bool ok;

	lock_hosts(hosts);
	ok = count > 0 && learn(hosts, host, addresses, count);
	if (ok) {
		host->self.is_refused = false; /* its name was found */
		if (host->self.target)
			reach_worked(hosts->reach, host->self.target);
		addr = *is_test ? tested(host) : NULL;
		if (!addr)
			addr = pick(host, address, when);
		*is_test = begin_test(hosts, addr, when->now);
		*address = addr->address;
	}
	unlock_hosts(hosts);
	return ok;
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
	if (note->outcome == HOST_WORKED)
		addr->is_refused = false;
	else /* or no memory for the target */
		note_refusal(addr, note->now);
	return addr->target && reach_worked(hosts->reach, addr->target);
}

bool hosts_note(struct hosts *hosts, const struct hosts_note *outcome)
{
	bool is_back = false;
	struct host *host;
	struct host_addr *addr;

	if (outcome->host >= hosts->count)
		return false;
	lock_hosts(hosts);
	host = &hosts->list[outcome->host];
	addr = find_addr(host, outcome->address);
	/* An address that left the list in the meantime says nothing about the others. */
	if (!outcome->address || addr != &host->self || host->count == 0)
		is_back = note(hosts, addr, outcome);
	unlock_hosts(hosts);
	return is_back;
}

void hosts_learn_protocol(struct hosts *hosts, unsigned int index, const struct address *address,
                          enum host_protocol protocol)
{
	if (index >= hosts->count)
		return;
	lock_hosts(hosts);
	find_addr(&hosts->list[index], address)->protocol = protocol;
	unlock_hosts(hosts);
}

enum host_protocol hosts_protocol(struct hosts *hosts, unsigned int index,
                                  const struct address *address)
{
	enum host_protocol protocol;

	if (index >= hosts->count)
		return HOST_UNTRIED;
	lock_hosts(hosts);
	protocol = find_addr(&hosts->list[index], address)->protocol;
	unlock_hosts(hosts);
	return protocol;
}

static void reset_addr(struct host_addr *addr)
{
	addr->is_refused = false;
	addr->protocol = HOST_UNTRIED;
}

void hosts_reset(struct hosts *hosts)
{
	lock_hosts(hosts);
	for (unsigned int i = 0; i < hosts->count; i++) {
		struct host *host = &hosts->list[i];

		reset_addr(&host->self);
		for (unsigned int at = 0; at < host->count; at++)
			reset_addr(&host->list[at]);
	}
	unlock_hosts(hosts);
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

	lock_hosts(hosts);
	if (!hosts->text || strcmp(hosts->text, text) != 0 || hosts->port != port ||
	    hosts->how != how)
		ok = set_list(hosts, text, port);
	if (ok)
		hosts->how = how;
	unlock_hosts(hosts);
	return ok;
}
