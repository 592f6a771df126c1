/* SPDX-License-Identifier: ISC */
/*
 * The hosts of a pool: their list, their addresses and what is noted about them; and the choice of
 * a host and of one of its addresses.
 *
 * An address in retry is chosen if none is up, or if the connection is not needed at once. It
 * counts as failed again from that moment, so that no other connection tries it at the same time:
 * none of this pool, and none of any pool if it could not be reached. That moment is the choice of
 * the host, before its name is looked up, as many pools may choose in one turn.
 *
 * A host whose role does not fit is down or in retry as well. Of those that are up, one that is
 * known to fit is chosen before one whose role is not known. Only hosts that are equally good are
 * compared by the number of their servers.
 *
 * Functions that are static are called with the lock, that of reach.
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

/* The target of an address (NULL: a name) and port, until release(). NULL: no memory. */
static struct reach_target *hold(struct reach *reach, const char *name,
                                 const struct address *address, uint16_t port)
{
	char text[ADDRESS_TEXT_SIZE];
	struct reach_target *target = NULL;
	struct buf key = { 0 };

	/* a name is no address: they are not equal */
	buf_printf(&key, "%c%s %u", address ? 'a' : 'n',
	           address ? address_format_host(address, text, sizeof(text)) : name, port);
	if (buf_ok(&key))
		TABLE_FIND(hh, &reach->secret, reach->targets, key.at, key.count, target);
	if (buf_ok(&key) && !target && (target = calloc(1, sizeof(*target) + key.count))) {
		memcpy(target->key, key.at, key.count);
		TABLE_ADD(hh, &reach->secret, reach->targets, target->key, key.count, target);
	}
	if (target)
		target->holder_count++;
	buf_free(&key);
	return target;
}

/* It has answered, or nobody needs it any more. true: it had failed. */
static bool forget_failure(struct reach_target *target)
{
	bool had_failed = target->gap > 0;

	target->gap = 0;
	target->is_tested = false;
	target->due = 0;
	return had_failed;
}

static void release(struct reach *reach, struct reach_target **held)
{
	struct reach_target *target = *held;

	*held = NULL;
	if (!target || --target->holder_count > 0)
		return;
	HASH_DEL(reach->targets, target);
	forget_failure(target);
	free(target);
}

/* If it has failed and is due, and nobody else tries it: only the caller tries it now. */
static bool begin_test(struct reach_target *target, usec_t now)
{
	if (!target->gap || now < target->due)
		return false;
	target->is_tested = true;
	target->due = now + REACH_TEST_MAX;
	return true;
}

/* A connection attempt has failed. */
static void note_failure(struct reach_target *target, const struct hosts_when *when,
                         const struct err *err)
{
	usec_t most = when->gap < REACH_GAP_MAX ? when->gap : REACH_GAP_MAX;
	usec_t next = target->gap ? 2 * target->gap : REACH_GAP_MIN;

	target->gap = next < most ? next : most;
	target->failure = *err;
	target->is_tested = false;
	target->due = when->now + target->gap;
}

/* ---- addresses ---- */

/* Its addresses and, last, the host itself; then NULL. */
static struct host_addr *addr_at(struct host *host, unsigned int number)
{
	if (number < host->count)
		return &host->list[number];
	return number == host->count ? &host->self : NULL;
}

/* The host itself if the address is NULL or not in the list. */
static struct host_addr *find_addr(struct host *host, const struct address *address)
{
	for (unsigned int i = 0; address && i < host->count; i++) {
		if (address_equal_host(&host->list[i].address, address))
			return &host->list[i];
	}
	return &host->self;
}

static void release_list(const struct hosts *hosts, struct host *host)
{
	for (unsigned int i = 0; i < host->count; i++)
		release(hosts->reach, &host->list[i].target);
	free(host->list);
}

/* Those that were in the list before keep their state. false: no memory. */
static bool learn(const struct hosts *hosts, struct host *host, const struct address *addresses,
                  unsigned int count)
{
	struct host_addr *list = calloc(count, sizeof(*list));

	if (!list)
		return false;
	for (unsigned int i = 0; i < count; i++) {
		const struct host_addr *known = find_addr(host, &addresses[i]);

		if (known != &host->self)
			list[i] = *known;
		list[i].address = addresses[i];
		list[i].target = hold(hosts->reach, host->at, &addresses[i], host->port);
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
		(*target)->server_count--;
	release(hosts->reach, target);
}

static void leave(const struct hosts *hosts, struct hosts_place *place)
{
	leave_target(hosts, &place->host);
	leave_target(hosts, &place->address);
}

void hosts_leave(struct hosts *hosts, struct hosts_place *place)
{
	LOCKED(&hosts->reach->lock);
	leave(hosts, place);
}

static struct reach_target *enter_target(const struct hosts *hosts, unsigned int index,
                                         const struct address *address)
{
	const struct host *host = &hosts->list[index];
	struct reach_target *target = hold(hosts->reach, host->at, address, host->port);

	if (target)
		target->server_count++;
	return target;
}

void hosts_enter(struct hosts *hosts, struct hosts_place *place, unsigned int index,
                 const struct address *address)
{
	LOCKED(&hosts->reach->lock);
	leave(hosts, place);
	if (index >= hosts->count)
		return;
	place->host = enter_target(hosts, index, NULL);
	if (address)
		place->address = enter_target(hosts, index, address);
}

/* ---- outcomes ---- */

/* A login was refused there, and none has succeeded since. */
static bool has_failed(const struct host_addr *addr) { return addr->gap && !addr->is_unfit; }

static void leave_out(struct host_addr *addr, usec_t now, usec_t gap, bool is_unfit)
{
	addr->failed_at = now;
	addr->gap = gap;
	addr->is_unfit = is_unfit;
}

bool hosts_note(struct hosts *hosts, const struct roster_at *at, enum host_outcome outcome,
                const struct hosts_when *when, const struct err *err)
{
	LOCKED(&hosts->reach->lock);
	struct host *host;
	struct host_addr *addr;
	bool had_failed;

	if (outcome >= HOST_REFUSED)
		hosts->failure_count++;
	if (at->host >= hosts->count)
		return false;
	host = &hosts->list[at->host];
	addr = find_addr(host, at->address);
	/* An address that left the list in the meantime says nothing about the others. */
	if (at->address && addr == &host->self && host->count > 0)
		return false;
	if (outcome == HOST_UNREACHABLE && addr->target) {
		note_failure(addr->target, when, err);
		return false;
	}
	if (outcome == HOST_UNFIT) {
		leave_out(addr, when->now, ROSTER_GAP, true);
		return false;
	}
	had_failed = outcome == HOST_WORKED && has_failed(addr);
	if (outcome == HOST_WORKED) {
		addr->gap = 0;
	} else if (outcome != HOST_ANSWERED) { /* or no memory for the target */
		leave_out(addr, when->now, when->gap, false);
		hosts->refusal = *err;
	}
	return (addr->target && forget_failure(addr->target)) || had_failed;
}

void hosts_reset(struct hosts *hosts)
{
	LOCKED(&hosts->reach->lock);
	for (unsigned int i = 0; i < hosts->count; i++) {
		struct host_addr *addr;

		for (unsigned int at = 0; (addr = addr_at(&hosts->list[i], at)); at++) {
			addr->gap = 0;
			if (addr->target)
				addr->target->protocol = HOST_UNTRIED;
		}
	}
}

void hosts_set_roles(struct hosts *hosts, struct roster *roster, const struct roster_want *want)
{
	LOCKED(&hosts->reach->lock);
	hosts->roster = roster;
	hosts->want = *want;
}

/* ---- the list ---- */

static void clear(struct hosts *hosts)
{
	for (unsigned int i = 0; i < hosts->count; i++) {
		release_list(hosts, &hosts->list[i]);
		release(hosts->reach, &hosts->list[i].self.target);
	}
	free(hosts->list);
	free(hosts->text);
	hosts->list = NULL;
	hosts->text = NULL;
	hosts->count = hosts->next = 0;
}

void hosts_done(struct hosts *hosts)
{
	LOCKED(&hosts->reach->lock);
	clear(hosts);
}

/* The same part of a copy of the list, ended by a zero. */
static const char *part_of(const struct hosts *hosts, char *copy, struct bytes part)
{
	char *at = copy + (part.at - hosts->text);

	at[part.count] = '\0';
	return at;
}

/* The text is there three times: the second one is cut into names, the third into places. */
static bool set_list(struct hosts *hosts, const char *text, uint16_t port)
{
	size_t size = strlen(text) + 1;
	struct host *list = calloc(config_host_count(text), sizeof(*list));
	char *texts = malloc(3 * size);
	struct bytes part;

	if (!list || !texts) {
		free(list);
		free(texts);
		return false;
	}
	clear(hosts);
	for (int i = 0; i < 3; i++)
		memcpy(texts + i * size, text, size);
	hosts->text = texts;
	hosts->list = list;
	hosts->port = port;
	for (const char *rest = texts; config_host_next(&rest, &part);) {
		struct host *host = &list[hosts->count++];

		host->name = part_of(hosts, texts + size, part);
		host->port = (uint16_t)config_host_port(&part, port);
		host->at = part_of(hosts, texts + 2 * size, part);
		host->self.target = hold(hosts->reach, host->at, NULL, host->port);
	}
	return true;
}

bool hosts_configure(struct hosts *hosts, const char *text, uint16_t port,
                     enum load_balance_hosts how)
{
	LOCKED(&hosts->reach->lock);
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
 * Three things decide: a login has failed there, or it could not be reached (reach), or its role
 * does not fit (roster.h). Each has a time from which it may be tried again; the latest counts. A
 * host is as good as its best address, unless the host itself is worse.
 */

/* Of an address, for the next connection; or of a host. */
struct merit {
	usec_t due; /* when it may be tried; 0: it is up */
	int rank;   /* greater is better; 0: it is down; -1: it does not fit, whatever the time */
	uint64_t load; /* how many servers are there, if that makes a difference */
};

static const struct merit no_merit = { INT64_MAX, -1, 0 };

static usec_t later(usec_t a, usec_t b) { return a > b ? a : b; }

/* Of those that are down the one that was down for the longest time. */
static bool is_better(const struct merit *a, const struct merit *b)
{
	if (a->rank != b->rank)
		return a->rank > b->rank;
	return a->rank > 0 ? a->load < b->load : a->due < b->due;
}

static struct roster_at roster_place(unsigned int index, const struct host_addr *addr)
{
	bool has_address = addr->address.family != AF_UNSPEC;

	return (struct roster_at){ index, has_address ? &addr->address : NULL };
}

/* When it may be used or tried, whatever its role is; 0: it has not failed. */
static usec_t failed_due(const struct host_addr *addr)
{
	usec_t refused = addr->gap ? addr->failed_at + addr->gap : 0;

	return addr->target ? later(refused, addr->target->due) : refused;
}

/* Without least-connections servers make a difference only where it is full. */
static uint64_t load_of(const struct hosts *hosts, const struct host_addr *addr,
                        const struct hosts_when *when)
{
	unsigned int servers = addr->target ? addr->target->server_count : 0;

	if (when->most && servers >= when->most)
		return UINT64_MAX;
	return hosts->how == LOAD_BALANCE_LEAST ? servers : 0;
}

/* least: of the host itself. What is not needed at once finds out unknown roles as well. */
static struct merit judge(const struct hosts *hosts, unsigned int index,
                          const struct host_addr *addr, usec_t least, const struct hosts_when *when)
{
	struct roster_at at = roster_place(index, addr);
	struct merit merit = { .load = load_of(hosts, addr, when) };
	int fit = ROSTER_GOOD;

	if (hosts->roster)
		fit = roster_fit(hosts->roster, &at, &hosts->want, &merit.due);
	if (when->may_test && fit == ROSTER_GOOD)
		fit = ROSTER_MAYBE;
	merit.due = later(later(merit.due, failed_due(addr)), least);
	if (!merit.due || (when->may_test && merit.due <= when->now))
		merit.rank = 2 * (ROSTER_GOOD + 1) + fit;
	else if (merit.due <= when->now)
		merit.rank = ROSTER_GOOD + 1 + fit;
	else if (merit.due == INT64_MAX)
		merit.rank = -1;
	return merit;
}

/* but: an address of it that is left out; NULL: none. */
static struct merit judge_host(const struct hosts *hosts, unsigned int index,
                               const struct host_addr *but, const struct hosts_when *when)
{
	const struct host *host = &hosts->list[index];
	usec_t least = failed_due(&host->self);
	struct merit best = no_merit;

	if (host->count == 0)
		return but ? no_merit : judge(hosts, index, &host->self, 0, when);
	for (unsigned int i = 0; i < host->count; i++) {
		struct merit one = judge(hosts, index, &host->list[i], least, when);

		if (&host->list[i] != but && is_better(&one, &best))
			best = one;
	}
	best.load = load_of(hosts, &host->self, when);
	return best;
}

static usec_t host_due(const struct hosts *hosts, unsigned int index, const struct host_addr *but)
{
	return judge_host(hosts, index, but, &(struct hosts_when){ 0 }).due;
}

static usec_t first_due(const struct hosts *hosts, const struct roster_at *but)
{
	usec_t first = INT64_MAX;

	for (unsigned int i = 0; i < hosts->count && first > 0; i++) {
		bool is_there = but && but->host == i;
		usec_t due =
		    host_due(hosts, i, is_there ? find_addr(&hosts->list[i], but->address) : NULL);

		first = due < first ? due : first;
	}
	return first;
}

usec_t hosts_due(struct hosts *hosts, const struct roster_at *but)
{
	LOCKED(&hosts->reach->lock);
	return first_due(hosts, but);
}

bool hosts_are_failing(struct hosts *hosts, struct err *err)
{
	LOCKED(&hosts->reach->lock);
	const struct err *failure = NULL;

	if (first_due(hosts, NULL) == 0)
		return false;
	for (unsigned int i = 0; i < hosts->count; i++) {
		const struct host_addr *addr;

		for (unsigned int at = 0; (addr = addr_at(&hosts->list[i], at)); at++) {
			if (addr->target && addr->target->gap)
				failure = &addr->target->failure;
			else if (!failure && has_failed(addr))
				failure = &hosts->refusal;
		}
	}
	if (failure && err)
		*err = *failure;
	return failure != NULL;
}

/* ---- choice: a host ---- */

/* The caller tries the host, if one of its addresses could not be reached and is due. */
static bool begin_reach_test(struct host *host, usec_t now)
{
	const struct host_addr *addr;

	for (unsigned int i = 0; (addr = addr_at(host, i)); i++) {
		if (addr->target && begin_test(addr->target, now))
			return true;
	}
	return false;
}

unsigned int hosts_choose(struct hosts *hosts, const struct hosts_when *caller, bool *is_test)
{
	LOCKED(&hosts->reach->lock);
	bool takes_turns = hosts->how != LOAD_BALANCE_DISABLE;
	unsigned int chosen = hosts->count;
	struct merit best = no_merit;
	struct hosts_when when = *caller;

	when.may_test &= takes_turns;
	for (unsigned int i = 0; i < hosts->count; i++) {
		unsigned int at = (hosts->next + i) % hosts->count;
		struct merit one = judge_host(hosts, at, NULL, &when);

		if (is_better(&one, &best)) {
			best = one;
			chosen = at;
		}
	}
	if (chosen < hosts->count) {
		hosts->next = takes_turns ? (chosen + 1) % hosts->count : chosen;
		*is_test = host_due(hosts, chosen, NULL) &&
		           begin_reach_test(&hosts->list[chosen], when.now);
	}
	return chosen;
}

/* ---- choice: one of its addresses ---- */

/* Nobody else may try it until its gap is over again. Whether it had failed. */
static bool begin_try(const struct hosts *hosts, unsigned int index, struct host_addr *addr,
                      usec_t now)
{
	struct roster_at at = roster_place(index, addr);

	addr->failed_at = now;
	if (hosts->roster && hosts->want.target != TARGET_ANY)
		roster_try(hosts->roster, &at, now);
	if (!addr->target || !addr->target->due)
		return has_failed(addr);
	begin_test(addr->target, now);
	return true;
}

/* The address for which hosts_choose() has begun a test. NULL: none. */
static struct host_addr *tested(const struct host *host)
{
	for (unsigned int i = 0; i < host->count; i++) {
		const struct reach_target *target = host->list[i].target;

		if (target && target->is_tested)
			return &host->list[i];
	}
	return NULL;
}

/* Turns are taken from `next`. NULL: none fits. */
static struct host_addr *best_of(const struct hosts *hosts, unsigned int index,
                                 const struct address *next, const struct hosts_when *when)
{
	struct host *host = &hosts->list[index];
	const struct host_addr *from = find_addr(host, next);
	size_t start = from == &host->self ? 0 : (size_t)(from - host->list);
	struct host_addr *found = NULL;
	struct merit best = no_merit;

	for (unsigned int i = 0; i < host->count; i++) {
		struct host_addr *addr = &host->list[(start + i) % host->count];
		struct merit one = judge(hosts, index, addr, 0, when);

		if (is_better(&one, &best)) {
			best = one;
			found = addr;
		}
	}
	return found;
}

bool hosts_pick(struct hosts *hosts, unsigned int index, const struct address *addresses,
                unsigned int count, const struct hosts_when *when, struct address *address,
                bool *is_test, struct err *err)
{
	LOCKED(&hosts->reach->lock);
	struct host *host = &hosts->list[index];
	struct host_addr *addr;

	if (count == 0) {
		*is_test |= begin_try(hosts, index, &host->self, when->now);
		return true;
	}
	if (!learn(hosts, host, addresses, count))
		return err_set(err, ERR_MEMORY, "out of memory");
	host->self.gap = 0; /* its name was found */
	if (host->self.target)
		forget_failure(host->self.target);
	addr = *is_test ? tested(host) : NULL;
	if (!addr)
		addr = best_of(hosts, index, address, when);
	if (!addr)
		return err_close(err, CLOSE_HOST_ROLE);
	*is_test = begin_try(hosts, index, addr, when->now);
	*address = addr->address;
	address_set_port(address, host->port);
	return true;
}
