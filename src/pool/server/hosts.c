/* SPDX-License-Identifier: ISC */
/*
 * Chooses a host, and one of its addresses.
 *
 * The health of an address is up (it has not failed), retry (it has failed, and its gap is over) or
 * down. Addresses that are up are preferred. One in retry is chosen if none is up, or if the
 * connection is not needed at once. It counts as failed again from that moment, so that no other
 * connection tries it at the same time.
 */
#include "pgweir/pool/server/hosts.h"

#include <stdlib.h>
#include <string.h>

#include "pgweir/base/banned.h"

enum health { HEALTH_DOWN, HEALTH_RETRY, HEALTH_UP };

static void lock_hosts(struct hosts *hosts) { pthread_mutex_lock(&hosts->lock); }

static void unlock_hosts(struct hosts *hosts) { pthread_mutex_unlock(&hosts->lock); }

/* ---- health ---- */

static enum health address_health(const struct host_addr *addr, usec_t now, usec_t gap)
{
	if (!addr->has_failed)
		return HEALTH_UP;
	return now >= addr->failed_at + gap ? HEALTH_RETRY : HEALTH_DOWN;
}

/* The health of a host is that of its best address, unless the host's own is worse. */
static enum health host_health(const struct host *host, usec_t now, usec_t gap)
{
	enum health self = address_health(&host->self, now, gap), best = HEALTH_DOWN;

	if (host->count == 0)
		return self;
	for (unsigned int i = 0; i < host->count; i++) {
		enum health one = address_health(&host->list[i], now, gap);

		best = one > best ? one : best;
	}
	return best < self ? best : self;
}

/* When the health becomes retry; 0: it is up. */
static usec_t host_due(const struct host *host, usec_t gap)
{
	usec_t self = host->self.has_failed ? host->self.failed_at + gap : 0;
	usec_t first = host->count ? INT64_MAX : 0;

	for (unsigned int i = 0; i < host->count; i++) {
		const struct host_addr *addr = &host->list[i];
		usec_t due = addr->has_failed ? addr->failed_at + gap : 0;

		first = due < first ? due : first;
	}
	return first > self ? first : self;
}

usec_t hosts_due(struct hosts *hosts, usec_t gap)
{
	usec_t first = INT64_MAX;

	lock_hosts(hosts);
	for (unsigned int i = 0; i < hosts->count; i++) {
		usec_t due = host_due(&hosts->list[i], gap);

		first = due < first ? due : first;
	}
	unlock_hosts(hosts);
	return first;
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
		has |= host_health(&hosts->list[i], 0, INT64_MAX / 2) == HEALTH_UP;
	unlock_hosts(hosts);
	return has;
}

static bool has_other(const struct hosts *hosts, unsigned int index, const struct address *address)
{
	for (unsigned int i = 0; i < hosts->count; i++) {
		struct host *host = &hosts->list[i];
		const struct host_addr *own = i == index ? find_addr(host, address) : NULL;

		if (!own && host_health(host, 0, INT64_MAX / 2) == HEALTH_UP)
			return true;
		for (unsigned int at = 0; own && at < host->count; at++) {
			if (&host->list[at] != own && !host->list[at].has_failed)
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

		if (host_health(&hosts->list[at], when->now, when->gap) >= least)
			return at;
	}
	return hosts->count;
}

unsigned int hosts_choose(struct hosts *hosts, const struct hosts_when *when)
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
	unlock_hosts(hosts);
	return chosen;
}

/* No other connection may try the address until its gap is over again. */
static bool begin_test(struct host_addr *addr, usec_t now)
{
	if (addr->has_failed)
		addr->failed_at = now;
	return addr->has_failed;
}

bool hosts_pick_self(struct hosts *hosts, unsigned int index, usec_t now)
{
	bool is_test;

	lock_hosts(hosts);
	is_test = begin_test(&hosts->list[index].self, now);
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

/* Sets the addresses. Those that were in the list before keep their state. */
static bool learn(struct host *host, const struct address *addresses, unsigned int count)
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
	}
	free(host->list);
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

		if (address_health(addr, when->now, when->gap) >= least)
			return addr;
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
	ok = count > 0 && learn(host, addresses, count);
	if (ok) {
		host->self.has_failed = false; /* its name was found */
		addr = pick(host, address, when);
		*is_test = begin_test(addr, when->now);
		*address = addr->address;
	}
	unlock_hosts(hosts);
	return ok;
}

/* ---- outcomes ---- */

static void note_failure(struct host *host, const struct address *address, usec_t now)
{
	struct host_addr *addr = find_addr(host, address);

	/* An address that left the list in the meantime says nothing about the others. */
	if (address && addr == &host->self && host->count > 0)
		return;
	addr->has_failed = true;
	addr->failed_at = now;
}

void hosts_failed(struct hosts *hosts, unsigned int index, const struct address *address,
                  usec_t now)
{
	if (index >= hosts->count)
		return;
	lock_hosts(hosts);
	note_failure(&hosts->list[index], address, now);
	unlock_hosts(hosts);
}

void hosts_worked(struct hosts *hosts, unsigned int index, const struct address *address)
{
	if (index >= hosts->count)
		return;
	lock_hosts(hosts);
	find_addr(&hosts->list[index], address)->has_failed = false;
	unlock_hosts(hosts);
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
	addr->has_failed = false;
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

void hosts_init(struct hosts *hosts)
{
	*hosts = (struct hosts){ 0 };
	pthread_mutex_init(&hosts->lock, NULL);
}

static void clear(struct hosts *hosts)
{
	for (unsigned int i = 0; i < hosts->count; i++)
		free(hosts->list[i].list);
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
		hosts->list[hosts->count++].name = name;
	}
}

static bool set_list(struct hosts *hosts, const char *text)
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
	fill(hosts);
	return true;
}

bool hosts_configure(struct hosts *hosts, const char *text, enum load_balance_hosts how)
{
	bool ok = true;

	lock_hosts(hosts);
	if (!hosts->text || strcmp(hosts->text, text) != 0 || hosts->how != how)
		ok = set_list(hosts, text);
	if (ok)
		hosts->how = how;
	unlock_hosts(hosts);
	return ok;
}
