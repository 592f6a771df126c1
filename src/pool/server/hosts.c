/* SPDX-License-Identifier: ISC */
/*
 * The hosts of a pool: their list, their addresses and what is noted about them; and the choice of
 * a host and of one of its addresses.
 *
 * The health of an address is up (it has not failed), retry (it has failed, and its gap is over) or
 * down. Addresses that are up are preferred. One in retry is chosen if none is up, or if the
 * connection is not needed at once. It counts as failed again from that moment, so that no other
 * connection tries it at the same time: none of this pool, and none of any pool if it could not be
 * reached. That moment is the choice of the host, before its name is looked up, as many pools may
 * choose in one turn.
 *
 * A host whose role does not fit is down or in retry as well. Of those that are up, one that is
 * known to fit is chosen before one whose role is not known. Only hosts that are equally good are
 * compared by the number of their servers.
 *
 * Functions of a pool's hosts that are static are called with the lock.
 */
#include "pgweir/pool/server/hosts.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "pgweir/base/lock.h"

/* ---- reach ---- */

void reach_init(struct reach *reach)
{
	*reach = (struct reach){ 0 };
	lock_init(&reach->lock);
	hash_key_draw(&reach->secret);
}

void reach_done(struct reach *reach)
{
	assert(!reach->targets);
	pthread_mutex_destroy(&reach->lock);
}

static struct reach_target *hold_target(struct reach *reach, struct bytes key)
{
	LOCKED(&reach->lock);
	struct reach_target *target;

	TABLE_FIND(hh, &reach->secret, reach->targets, key.at, key.count, target);
	if (!target) {
		target = calloc(1, sizeof(*target) + key.count);
		if (!target)
			return NULL;
		memcpy(target->key, key.at, key.count);
		TABLE_ADD(hh, &reach->secret, reach->targets, target->key, key.count, target);
	}
	target->holder_count++;
	return target;
}

struct reach_target *reach_hold(struct reach *reach, const char *name,
                                const struct address *address, uint16_t port)
{
	struct reach_target *target = NULL;
	char text[ADDRESS_TEXT_SIZE];
	struct buf key = { 0 };

	/* a name is no address: they are not equal */
	buf_printf(&key, "%c%s %u", address ? 'a' : 'n',
	           address ? address_format_host(address, text, sizeof(text)) : name, port);
	if (buf_ok(&key))
		target = hold_target(reach, buf_bytes(&key));
	buf_free(&key);
	return target;
}

/* Called with the lock held. */
static void forget_failure(struct reach *reach, struct reach_target *target)
{
	if (target->gap)
		atomic_fetch_sub(&reach->failing_count, 1);
	target->gap = 0;
	atomic_store(&target->is_tested, false);
	atomic_store(&target->due, 0);
}

void reach_release(struct reach *reach, struct reach_target **held)
{
	struct reach_target *target = *held;

	*held = NULL;
	if (!target)
		return;
	LOCKED(&reach->lock);
	if (--target->holder_count == 0) {
		HASH_DEL(reach->targets, target);
		forget_failure(reach, target);
		free(target);
	}
}

bool reach_begin_test(struct reach *reach, struct reach_target *target, usec_t now)
{
	LOCKED(&reach->lock);
	if (!target->gap || now < reach_due(target))
		return false;
	atomic_store(&target->is_tested, true);
	atomic_store(&target->due, now + REACH_TEST_MAX);
	return true;
}

static usec_t next_gap(usec_t gap, usec_t most)
{
	gap = gap ? 2 * gap : REACH_GAP_MIN;
	return gap < most ? gap : most;
}

void reach_failed(struct reach *reach, struct reach_target *target, usec_t now, usec_t most,
                  const struct err *err)
{
	LOCKED(&reach->lock);
	if (!target->gap)
		atomic_fetch_add(&reach->failing_count, 1);
	target->gap = next_gap(target->gap, most < REACH_GAP_MAX ? most : REACH_GAP_MAX);
	target->failure = *err;
	atomic_store(&target->is_tested, false);
	atomic_store(&target->due, now + target->gap);
}

bool reach_worked(struct reach *reach, struct reach_target *target)
{
	bool had_failed;

	if (!reach_due(target))
		return false;
	LOCKED(&reach->lock);
	had_failed = target->gap > 0;
	forget_failure(reach, target);
	return had_failed;
}

bool reach_failure(struct reach *reach, const struct reach_target *target, struct err *err)
{
	LOCKED(&reach->lock);
	if (target->gap > 0)
		*err = target->failure;
	return target->gap > 0;
}

/* ---- the hosts of a pool ---- */

/* ---- addresses ---- */

/* The host itself if the address is NULL or not in the list. */
static struct host_addr *find_addr(struct host *host, const struct address *address)
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

/* Those that were in the list before keep their state. false: no memory. */
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
		list[i].target = reach_hold(hosts->reach, host->at, &addresses[i], host->port);
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
	const struct host *host = &hosts->list[index];
	struct reach_target *target = reach_hold(hosts->reach, host->at, address, host->port);

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
		addr->is_refused = true;
		addr->refused_at = note->now;
	}
	return addr->target && reach_worked(hosts->reach, addr->target);
}

bool hosts_note(struct hosts *hosts, const struct hosts_note *outcome)
{
	LOCKED(&hosts->lock);
	struct host *host;
	struct host_addr *addr;

	if (outcome->host >= hosts->count)
		return false;
	host = &hosts->list[outcome->host];
	addr = find_addr(host, outcome->address);
	/* An address that left the list in the meantime says nothing about the others. */
	return (!outcome->address || addr != &host->self || host->count == 0) &&
	       note(hosts, addr, outcome);
}

void hosts_learn_protocol(struct hosts *hosts, unsigned int index, const struct address *address,
                          enum host_protocol protocol)
{
	if (index >= hosts->count)
		return;
	LOCKED(&hosts->lock);
	find_addr(&hosts->list[index], address)->protocol = protocol;
}

enum host_protocol hosts_protocol(struct hosts *hosts, unsigned int index,
                                  const struct address *address)
{
	LOCKED(&hosts->lock);
	return index < hosts->count ? find_addr(&hosts->list[index], address)->protocol
	                            : HOST_UNTRIED;
}

static void reset_addr(struct host_addr *addr)
{
	addr->is_refused = false;
	addr->unfit_at = 0;
	addr->protocol = HOST_UNTRIED;
}

void hosts_reset(struct hosts *hosts)
{
	LOCKED(&hosts->lock);
	for (unsigned int i = 0; i < hosts->count; i++) {
		struct host *host = &hosts->list[i];

		reset_addr(&host->self);
		for (unsigned int at = 0; at < host->count; at++)
			reset_addr(&host->list[at]);
	}
}

void hosts_unfit(struct hosts *hosts, unsigned int index, const struct address *address, usec_t now)
{
	if (index >= hosts->count)
		return;
	LOCKED(&hosts->lock);
	find_addr(&hosts->list[index], address)->unfit_at = now;
}

void hosts_set_roles(struct hosts *hosts, struct roster *roster, enum target_session_attrs target)
{
	LOCKED(&hosts->lock);
	hosts->roster = roster;
	hosts->target = target;
}

void hosts_set_limit(struct hosts *hosts, const struct roster_limit *limit, bool is_strict)
{
	LOCKED(&hosts->lock);
	hosts->limit = *limit;
	hosts->is_strict = is_strict;
}

/* ---- the list ---- */

void hosts_init(struct hosts *hosts, struct reach *reach)
{
	*hosts = (struct hosts){ .reach = reach };
	lock_init(&hosts->lock);
}

static void clear(struct hosts *hosts)
{
	for (unsigned int i = 0; i < hosts->count; i++) {
		release_list(hosts, &hosts->list[i]);
		reach_release(hosts->reach, &hosts->list[i].self.target);
	}
	free(hosts->list);
	free(hosts->names);
	free(hosts->places);
	free(hosts->text);
	hosts->list = NULL;
	hosts->names = hosts->places = hosts->text = NULL;
	hosts->count = hosts->next = 0;
}

void hosts_done(struct hosts *hosts)
{
	clear(hosts);
	pthread_mutex_destroy(&hosts->lock);
}

/* The same part of a copy of the list, ended by a zero. */
static const char *part_of(const struct hosts *hosts, char *copy, struct bytes part)
{
	char *at = copy + (part.at - hosts->text);

	at[part.count] = '\0';
	return at;
}

/* Splits the list into hosts. The texts are there, and the list is empty. */
static void fill(struct hosts *hosts)
{
	const char *list = hosts->text;
	struct bytes part;

	while (config_host_next(&list, &part)) {
		struct host *host = &hosts->list[hosts->count++];

		host->name = part_of(hosts, hosts->names, part);
		host->port = (uint16_t)config_host_port(&part, hosts->port);
		host->at = part_of(hosts, hosts->places, part);
		host->self.target = reach_hold(hosts->reach, host->at, NULL, host->port);
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
	fresh.places = strdup(text);
	fresh.list = calloc(count, sizeof(*fresh.list));
	if (!fresh.text || !fresh.names || !fresh.places || !fresh.list) {
		clear(&fresh);
		return false;
	}
	clear(hosts);
	hosts->text = fresh.text;
	hosts->names = fresh.names;
	hosts->places = fresh.places;
	hosts->list = fresh.list;
	hosts->port = port;
	fill(hosts);
	return true;
}

bool hosts_configure(struct hosts *hosts, const char *text, uint16_t port,
                     enum load_balance_hosts how)
{
	LOCKED(&hosts->lock);
	if ((!hosts->text || strcmp(hosts->text, text) != 0 || hosts->port != port ||
	     hosts->how != how) &&
	    !set_list(hosts, text, port))
		return false;
	hosts->how = how;
	return true;
}

/*
 * ---- health ----
 *
 * Which hosts and addresses may be used now, and when the others may be tried.
 *
 * Three things decide: PostgreSQL refused a login there, or it could not be reached (reach), or
 * its role does not fit (roster.h). Each has a time from which it may be tried again; the latest
 * counts. A host is as good as its best address.
 */

static usec_t later(usec_t a, usec_t b) { return a > b ? a : b; }

static usec_t earlier(usec_t a, usec_t b) { return a < b ? a : b; }

/* One address, or (addr NULL) a host whose addresses are not known. */
struct place {
	const struct hosts *hosts;
	unsigned int index;
	const struct host_addr *addr;
};

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

static enum roster_fit fit_of(const struct place *place)
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

static usec_t address_due(const struct hosts *hosts, unsigned int index,
                          const struct host_addr *addr, usec_t gap)
{
	return later(reachable_due(addr, gap), role_due(&(struct place){ hosts, index, addr }));
}

static bool is_unix(const struct host *host) { return *host->name == '/' || *host->name == '@'; }

/* The place that a host without addresses is. */
static struct place self_place(const struct hosts *hosts, unsigned int index)
{
	const struct host *host = &hosts->list[index];

	return (struct place){ hosts, index, is_unix(host) ? &host->self : NULL };
}

/* The host is as good as its best address, unless the host itself is worse. */
static usec_t host_due(const struct hosts *hosts, unsigned int index, usec_t gap)
{
	const struct host *host = &hosts->list[index];
	struct place self = self_place(hosts, index);
	usec_t first = host->count ? INT64_MAX : role_due(&self);

	for (unsigned int i = 0; i < host->count; i++)
		first = earlier(first, address_due(hosts, index, &host->list[i], gap));
	return later(first, reachable_due(&host->self, gap));
}

static bool is_up(const struct hosts *hosts, unsigned int index)
{
	return host_due(hosts, index, 1) == 0;
}

usec_t hosts_due(struct hosts *hosts, usec_t gap)
{
	usec_t first = INT64_MAX;

	LOCKED(&hosts->lock);
	for (unsigned int i = 0; i < hosts->count; i++)
		first = earlier(first, host_due(hosts, i, gap));
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
	LOCKED(&hosts->lock);
	for (unsigned int i = 0; i < hosts->count; i++) {
		const struct host *host = &hosts->list[i];

		if (is_unreachable(hosts, &host->self, err))
			return true;
		for (unsigned int at = 0; at < host->count; at++) {
			if (is_unreachable(hosts, &host->list[at], err))
				return true;
		}
	}
	return false;
}

bool hosts_has_up(struct hosts *hosts)
{
	LOCKED(&hosts->lock);
	for (unsigned int i = 0; i < hosts->count; i++) {
		if (is_up(hosts, i))
			return true;
	}
	return false;
}

bool hosts_has_other(struct hosts *hosts, unsigned int index, const struct address *address)
{
	LOCKED(&hosts->lock);
	for (unsigned int i = 0; i < hosts->count; i++) {
		struct host *host = &hosts->list[i];
		const struct host_addr *own = i == index ? find_addr(host, address) : NULL;

		if (!own && is_up(hosts, i))
			return true;
		for (unsigned int at = 0; own && at < host->count; at++) {
			if (&host->list[at] != own &&
			    address_due(hosts, i, &host->list[at], 1) == 0)
				return true;
		}
	}
	return false;
}

/* ---- choice ---- */

enum health { HEALTH_DOWN, HEALTH_RETRY, HEALTH_UP };

static enum health health_at(usec_t due, usec_t now)
{
	if (!due)
		return HEALTH_UP;
	return now >= due ? HEALTH_RETRY : HEALTH_DOWN;
}

/* ---- a host ---- */

/* The host that was down for the longest time. hosts->count: none fits. */
static unsigned int nearest(const struct hosts *hosts, usec_t gap)
{
	unsigned int best = hosts->count;
	usec_t first = INT64_MAX;

	for (unsigned int i = 0; i < hosts->count; i++) {
		usec_t due = host_due(hosts, i, gap);

		if (due < first) {
			first = due;
			best = i;
		}
	}
	return best;
}

/* The fits from best to worst, each with all better ones. What does not fit may be in retry. */
static const enum roster_fit fits[] = { ROSTER_GOOD, ROSTER_MAYBE, ROSTER_SPARE, ROSTER_BEHIND,
	                                ROSTER_NO };

#define FITS (sizeof(fits) / sizeof(fits[0]))

#define NO_LOAD UINT64_MAX
#define FULL_LOAD (NO_LOAD - 1)

/* How many servers are there. With least-connections, or if it is full, they make a difference. */
static uint64_t load_of(const struct hosts *hosts, const struct host_addr *addr,
                        const struct hosts_when *when)
{
	unsigned int servers = addr->target ? reach_servers(addr->target) : 0;

	if (when->most && servers >= when->most)
		return FULL_LOAD;
	return hosts->how == LOAD_BALANCE_LEAST ? servers : 0;
}

/* Whether the host has an address that is so healthy and fits so well, or better. */
static bool has_fitting(const struct hosts *hosts, unsigned int index, enum health least,
                        enum roster_fit fit, const struct hosts_when *when)
{
	const struct host *host = &hosts->list[index];
	struct place self = self_place(hosts, index);

	if (health_at(host_due(hosts, index, when->gap), when->now) < least)
		return false;
	if (host->count == 0)
		return fit_of(&self) >= fit;
	for (unsigned int i = 0; i < host->count; i++) {
		struct place place = { hosts, index, &host->list[i] };

		usec_t due = address_due(hosts, index, &host->list[i], when->gap);

		if (health_at(due, when->now) >= least && fit_of(&place) >= fit)
			return true;
	}
	return false;
}

/* Without loads, the first one that fits. */
static unsigned int look_for_fit(const struct hosts *hosts, enum health least, enum roster_fit fit,
                                 const struct hosts_when *when)
{
	unsigned int best = hosts->count;
	uint64_t smallest = NO_LOAD;

	for (unsigned int i = 0; i < hosts->count && smallest > 0; i++) {
		unsigned int at = (hosts->next + i) % hosts->count;
		uint64_t load = load_of(hosts, &hosts->list[at].self, when);

		if (load < smallest && has_fitting(hosts, at, least, fit, when)) {
			smallest = load;
			best = at;
		}
	}
	return best;
}

/* A host whose role is not known is as good, if the connection is not needed at once. */
static unsigned int look_for(const struct hosts *hosts, enum health least,
                             const struct hosts_when *when)
{
	unsigned int chosen = hosts->count;

	for (size_t i = when->may_test ? 1 : 0; i < FITS && chosen == hosts->count; i++)
		chosen = look_for_fit(hosts, least, fits[i], when);
	return chosen;
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
	LOCKED(&hosts->lock);
	bool takes_turns = hosts->how != LOAD_BALANCE_DISABLE;
	bool may_test = takes_turns && when->may_test;
	unsigned int chosen = look_for(hosts, may_test ? HEALTH_RETRY : HEALTH_UP, when);

	if (chosen == hosts->count)
		chosen = look_for(hosts, HEALTH_RETRY, when);
	if (chosen == hosts->count)
		chosen = nearest(hosts, when->gap);
	if (chosen < hosts->count) {
		hosts->next = takes_turns ? (chosen + 1) % hosts->count : chosen;
		*is_test = !is_up(hosts, chosen) &&
		           begin_reach_test(hosts, &hosts->list[chosen], when->now);
	}
	return chosen;
}

/* ---- one of its addresses ---- */

/* No other pool may try it although its role did not fit, until that is old again. */
static void begin_try(const struct hosts *hosts, unsigned int index, const struct host_addr *addr,
                      usec_t now)
{
	struct roster_at at = { .host = index };

	if (addr->address.family != AF_UNSPEC)
		at.address = &addr->address;
	if (hosts->roster && hosts->target != TARGET_ANY)
		roster_try(hosts->roster, &at, now);
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
	LOCKED(&hosts->lock);
	is_test |= begin_test(hosts, &hosts->list[index].self, now);
	begin_try(hosts, index, &hosts->list[index].self, now);
	return is_test;
}

static struct host_addr *look_in_fit(const struct hosts *hosts, unsigned int index,
                                     unsigned int start, enum health least, enum roster_fit fit,
                                     const struct hosts_when *when)
{
	struct host *host = &hosts->list[index];
	struct host_addr *best = NULL;
	uint64_t smallest = NO_LOAD;

	for (unsigned int i = 0; i < host->count && smallest > 0; i++) {
		struct host_addr *addr = &host->list[(start + i) % host->count];
		struct place place = { hosts, index, addr };
		usec_t due = address_due(hosts, index, addr, when->gap);
		uint64_t load = load_of(hosts, addr, when);

		if (load < smallest && due < INT64_MAX && health_at(due, when->now) >= least &&
		    fit_of(&place) >= fit) {
			smallest = load;
			best = addr;
		}
	}
	return best;
}

static struct host_addr *look_in(const struct hosts *hosts, unsigned int index,
                                 const struct address *next, enum health least,
                                 const struct hosts_when *when)
{
	struct host *host = &hosts->list[index];
	struct host_addr *from = find_addr(host, next), *addr = NULL;
	unsigned int start = from == &host->self ? 0 : (unsigned int)(from - host->list);

	for (size_t i = 0; i < FITS && !addr; i++)
		addr = look_in_fit(hosts, index, start, least, fits[i], when);
	return addr;
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

/* The address for a connection; the host has addresses. Turns are taken from *address. */
static enum hosts_picked pick_for(struct hosts *hosts, unsigned int index,
                                  const struct hosts_when *when, struct address *address,
                                  bool *is_test)
{
	struct host *host = &hosts->list[index];
	struct host_addr *addr = *is_test ? tested(host) : NULL;

	if (!addr)
		addr =
		    look_in(hosts, index, address, when->may_test ? HEALTH_RETRY : HEALTH_UP, when);
	for (int least = HEALTH_RETRY; !addr && least >= HEALTH_DOWN; least--)
		addr = look_in(hosts, index, address, (enum health)least, when);
	if (!addr)
		return HOSTS_NONE_FITS;
	*is_test = begin_test(hosts, addr, when->now);
	begin_try(hosts, index, addr, when->now);
	*address = addr->address;
	return HOSTS_PICKED;
}

enum hosts_picked hosts_pick(struct hosts *hosts, unsigned int index,
                             const struct address *addresses, unsigned int count,
                             const struct hosts_when *when, struct address *address, bool *is_test)
{
	LOCKED(&hosts->lock);
	struct host *host = &hosts->list[index];

	if (count == 0 || !learn(hosts, host, addresses, count))
		return HOSTS_NO_MEMORY;
	host->self.is_refused = false; /* its name was found */
	if (host->self.target)
		reach_worked(hosts->reach, host->self.target);
	return pick_for(hosts, index, when, address, is_test);
}
