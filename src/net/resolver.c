/* SPDX-License-Identifier: ISC */
/*
 * The resolver: a cache of names, above dns.c.
 *
 *   ask --> name is known   --> task at the end of the turn --> on_answer()
 *      \--> name is not known --> query ----------------------> on_answer()
 *
 * A name is removed from the table and freed when its time is over and nobody uses it: no query,
 * no ask, no watch.
 */
#include "pgweir/net/resolver.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "pgweir/base/container_of.h"
#define HASH_NONFATAL_OOM 1 /* out of memory: the element is not added and its hh.tbl is NULL */
#include "pgweir/base/table.h"

#include "dns_priv.h"

#define NAMES_MAX 16384

TAILQ_HEAD(ask_list, resolver_ask);
TAILQ_HEAD(watch_list, resolver_watch);
TAILQ_HEAD(name_list, resolver_name);

struct resolver_name {
	struct resolver *resolver;
	UT_hash_handle hh; /* tbl NULL: a numeric address, for one ask */
	unsigned long serial;
	struct timer expiry; /* set: the stored result is valid */
	struct task task;    /* answers `asks` */
	struct ask_list asks;
	struct watch_list watches;
	struct dns_query *query;    /* NULL: none is running */
	struct resolver_zone *zone; /* NULL: none */
	TAILQ_ENTRY(resolver_name) zone_node;
	struct address *addresses;
	unsigned int address_count;
	unsigned int next;   /* index of the next address to return */
	const char *failure; /* NULL: never looked up; why there is no address, a static text */
	bool is_busy;        /* owners are being called */
	char host[];
};

struct resolver {
	struct loop *loop;
	struct dns *dns;
	usec_t good_ttl;
	usec_t bad_ttl;
	struct resolver_name *names;
	struct resolver_name *last_row; /* for resolver_next_row() */
	struct resolver_zone *zones;
	usec_t zone_period;
	unsigned long serial;
	unsigned int rotation; /* index of the first address for the next result */
	struct resolver *next; /* a ring of the resolvers of all loops */
};

/* A zone: what follows the first dot of a name. It ends with its last name. */
struct resolver_zone {
	struct resolver *resolver;
	UT_hash_handle hh;
	unsigned long number; /* for resolver_next_zone() */
	struct name_list names;
	unsigned int name_count;
	struct timer timer; /* when to query the serial number again */
	struct dns_query *query;
	uint32_t serial;
	bool has_serial;
	char text[];
};

/* What one loop has found, for another one. */
struct resolver_note {
	struct letter letter;
	struct resolver *to; /* may be gone if the letter is late */
	struct dns_answer found;
	usec_t found_at, ttl;
	char host[];
};

/* ---- zones ---- */

static void on_zone_due(struct timer *timer);
static bool start_query(struct resolver_name *name, struct err *err);
static void tidy(struct resolver_name *name);

static void wait_period(struct resolver_zone *zone)
{
	struct resolver *resolver = zone->resolver;

	timer_begin(&zone->timer, resolver->loop, resolver->zone_period, on_zone_due);
}

static void on_serial(struct dns_query **query, struct dns_answer *answer)
{
	struct resolver_zone *zone = container_of(query, struct resolver_zone, query);
	/* Serial number arithmetic (RFC 1982): the value after the largest is 0. */
	bool is_news = zone->has_serial && (int32_t)(answer->serial - zone->serial) > 0;
	struct resolver_name *name, *next;
	struct err err;

	wait_period(zone);
	if (!answer->count)
		return;
	zone->serial = answer->serial;
	zone->has_serial = true;
	if (!is_news)
		return;
	/* Each one may end, and with the last one the zone. */
	TAILQ_FOREACH_SAFE (name, &zone->names, zone_node, next) {
		if (!start_query(name, &err))
			tidy(name);
	}
}

static void on_zone_due(struct timer *timer)
{
	struct resolver_zone *zone = container_of(timer, struct resolver_zone, timer);
	struct err err;

	if (!dns_query(zone->resolver->dns, DNS_SERIAL, zone->text, &zone->query, on_serial, &err))
		wait_period(zone);
}

static struct resolver_zone *add_zone(struct resolver *resolver, const char *text)
{
	size_t size = strlen(text) + 1;
	struct resolver_zone *zone = calloc(1, sizeof(*zone) + size);

	if (!zone)
		return NULL;
	memcpy(zone->text, text, size);
	zone->resolver = resolver;
	zone->number = ++resolver->serial;
	TAILQ_INIT(&zone->names);
	HASH_ADD_KEYPTR(hh, resolver->zones, zone->text, size - 1, zone);
	if (zone->hh.tbl)
		return zone;
	free(zone);
	return NULL;
}

static void zone_enter(struct resolver_name *name)
{
	struct resolver *resolver = name->resolver;
	const char *dot = strchr(name->host, '.');
	struct resolver_zone *zone;

	if (resolver->zone_period <= 0 || !dot || !dot[1] || name->zone)
		return;
	HASH_FIND(hh, resolver->zones, dot + 1, strlen(dot + 1), zone);
	if (!zone)
		zone = add_zone(resolver, dot + 1);
	if (!zone)
		return; /* no memory: the name is looked up again when its time is over */
	name->zone = zone;
	TAILQ_INSERT_TAIL(&zone->names, name, zone_node);
	if (zone->name_count++ == 0)
		on_zone_due(&zone->timer);
}

static void zone_leave(struct resolver_name *name)
{
	struct resolver_zone *zone = name->zone;

	if (!zone)
		return;
	name->zone = NULL;
	TAILQ_REMOVE(&zone->names, name, zone_node);
	if (--zone->name_count > 0)
		return;
	HASH_DEL(name->resolver->zones, zone);
	timer_clear(&zone->timer);
	dns_forget(&zone->query);
	free(zone);
}

/* ---- names ---- */

static void name_free(struct resolver_name *name)
{
	struct resolver *resolver = name->resolver;

	if (resolver->last_row == name)
		resolver->last_row = NULL;
	zone_leave(name);
	if (name->hh.tbl)
		HASH_DEL(resolver->names, name);
	timer_clear(&name->expiry);
	dns_forget(&name->query);
	loop_undefer(resolver->loop, &name->task);
	free(name->addresses);
	free(name);
}

static void tidy(struct resolver_name *name)
{
	if (!timer_is_set(&name->expiry) && !name->query && !name->is_busy &&
	    TAILQ_EMPTY(&name->asks) && TAILQ_EMPTY(&name->watches))
		name_free(name);
}

static void on_expired(struct timer *timer)
{
	tidy(container_of(timer, struct resolver_name, expiry));
}

static void answer(struct resolver_name *name, struct resolver_ask *ask)
{
	struct address address;
	struct err err;

	TAILQ_REMOVE(&name->asks, ask, node);
	ask->name = NULL;
	if (name->address_count == 0) {
		err_set(&err, ERR_SERVER_CONNECT, "server DNS lookup failed: %s: %s", name->host,
		        name->failure);
		ask->on_answer(ask, NULL, &err);
		return;
	}
	address = name->addresses[name->next++ % name->address_count];
	address_set_port(&address, ask->port);
	ask->addresses = name->addresses;
	ask->address_count = name->address_count;
	ask->on_answer(ask, &address, NULL);
}

/* Those that were waiting at the start: one that asks again waits for the next turn. */
static void answer_all(struct resolver_name *name)
{
	struct resolver_ask *ask;
	size_t count = 0;

	TAILQ_FOREACH (ask, &name->asks, node)
		count++;
	name->is_busy = true;
	while (count-- > 0 && (ask = TAILQ_FIRST(&name->asks)))
		answer(name, ask);
	name->is_busy = false;
	if (!TAILQ_EMPTY(&name->asks) && !name->query)
		loop_defer(name->resolver->loop, &name->task);
	tidy(name);
}

static void run_answers(struct task *task)
{
	answer_all(container_of(task, struct resolver_name, task));
}

/* ---- watches of addresses ---- */

/* Each callback may end other watches, or begin new ones, so the list is searched again. */
static void report_removed(struct resolver_name *name)
{
	struct resolver_watch *watch = TAILQ_FIRST(&name->watches);

	name->is_busy = true;
	while (watch) {
		if (address_is_among(&watch->address, name->addresses, name->address_count)) {
			watch = TAILQ_NEXT(watch, node);
			continue;
		}
		TAILQ_REMOVE(&name->watches, watch, node);
		watch->name = NULL;
		watch->on_removed(watch);
		watch = TAILQ_FIRST(&name->watches);
	}
	name->is_busy = false;
}

void resolver_watch_end(struct resolver_watch *watch)
{
	struct resolver_name *name = watch->name;

	if (!name)
		return;
	TAILQ_REMOVE(&name->watches, watch, node);
	watch->name = NULL;
	tidy(name);
}

/* ---- names are made ---- */

static struct resolver_name *name_new(struct resolver *resolver, const char *host, struct err *err)
{
	size_t size = strlen(host) + 1;
	struct resolver_name *name = calloc(1, sizeof(*name) + size);

	if (!name) {
		err_set(err, ERR_MEMORY, "no memory for the DNS name %s", host);
		return NULL;
	}
	memcpy(name->host, host, size);
	name->resolver = resolver;
	name->serial = ++resolver->serial;
	name->task.run = run_answers;
	TAILQ_INIT(&name->asks);
	TAILQ_INIT(&name->watches);
	return name;
}

/* A numeric address needs no query: makes a name for this one ask, outside the table. */
static struct resolver_name *numeric_name(struct resolver *resolver, const char *host,
                                          const struct address *address, struct err *err)
{
	struct resolver_name *name = name_new(resolver, host, err);

	if (!name)
		return NULL;
	name->addresses = malloc(sizeof(*address));
	if (name->addresses) {
		*name->addresses = *address;
		name->address_count = 1;
	}
	name->failure = "out of memory";
	return name;
}

static struct resolver_name *filed_name(struct resolver *resolver, const char *host,
                                        struct err *err)
{
	struct resolver_name *name;

	HASH_FIND(hh, resolver->names, host, strlen(host), name);
	if (name)
		return name;
	if (HASH_COUNT(resolver->names) >= NAMES_MAX) {
		err_set(err, ERR_LIMIT, "too many DNS names (%d) at once", NAMES_MAX);
		return NULL;
	}
	name = name_new(resolver, host, err);
	if (!name)
		return NULL;
	HASH_ADD_KEYPTR(hh, resolver->names, name->host, strlen(name->host), name);
	if (name->hh.tbl) {
		zone_enter(name);
		return name;
	}
	name_free(name);
	err_set(err, ERR_MEMORY, "no memory for the DNS name %s", host);
	return NULL;
}

/* ---- results ---- */

/* Takes the addresses. They are valid for `ttl`, or only for those that wait. */
static void use(struct resolver_name *name, struct dns_answer *found, usec_t ttl, usec_t found_at)
{
	struct resolver *resolver = name->resolver;

	free(name->addresses);
	name->addresses = found->addresses;
	name->address_count = found->count;
	name->failure = found->failure;
	found->addresses = NULL;
	/* Names with the same addresses should not all begin with the same one. */
	name->next = resolver->rotation++;
	timer_set(&name->expiry, loop_timer_queue(resolver->loop, ttl, on_expired), found_at);
	if (name->address_count)
		report_removed(name);
	answer_all(name);
}

static void on_note(struct letter *letter)
{
	struct resolver_note *note = container_of(letter, struct resolver_note, letter);
	struct resolver_name *name = NULL;

	if (!letter->is_late)
		name = filed_name(note->to, note->host, NULL);
	if (name && !name->query)
		use(name, &note->found, note->ttl, note->found_at);
	free(note->found.addresses);
	free(note);
}

/* Without memory the others find it out by their own queries. */
static void tell_others(const struct resolver_name *name, const struct dns_answer *found,
                        usec_t ttl, usec_t now)
{
	size_t size = found->count * sizeof(*found->addresses), host = strlen(name->host) + 1;
	struct resolver *to = name->resolver->next;

	for (; to != name->resolver; to = to->next) {
		struct resolver_note *note = calloc(1, sizeof(*note) + host);
		struct address *addresses = malloc(size);

		if (!note || (size && !addresses)) {
			free(addresses);
			free(note);
			return;
		}
		*note = (struct resolver_note){ { .open = on_note }, to, *found, now, ttl };
		note->found.addresses = addresses;
		if (size)
			memcpy(addresses, found->addresses, size);
		memcpy(note->host, name->host, host);
		loop_post(to->loop, &note->letter);
	}
}

static void on_looked_up(struct dns_query **query, struct dns_answer *found)
{
	struct resolver_name *name = container_of(query, struct resolver_name, query);
	struct resolver *resolver = name->resolver;
	usec_t now = loop_now(resolver->loop);
	usec_t ttl = found->count ? resolver->good_ttl : resolver->bad_ttl;

	tell_others(name, found, ttl, now);
	use(name, found, ttl, now);
}

static bool start_query(struct resolver_name *name, struct err *err)
{
	dns_forget(&name->query);
	timer_clear(&name->expiry);
	return dns_query(name->resolver->dns, DNS_ADDRESSES, name->host, &name->query, on_looked_up,
	                 err);
}

/* ---- creation and end ---- */

struct resolver *resolver_new(struct loop *loop, const struct resolver_options *options,
                              struct err *err)
{
	struct resolver *resolver =
	    err_calloc(sizeof(*resolver), "no memory for the DNS resolver", err);

	if (!resolver)
		return NULL;
	resolver->loop = loop;
	resolver->good_ttl = options->good_ttl;
	resolver->bad_ttl = options->bad_ttl;
	resolver->next = resolver;
	if (options->other) {
		resolver->next = options->other->next;
		options->other->next = resolver;
	}
	resolver->dns = dns_new(loop, options, err);
	if (!resolver->dns)
		resolver_free(&resolver);
	return resolver;
}

void resolver_free(struct resolver **resolverp)
{
	struct resolver *resolver = *resolverp, *before = resolver;
	struct resolver_name *name, *next;

	if (!resolver)
		return;
	while (before->next != resolver)
		before = before->next;
	before->next = resolver->next;
	HASH_ITER (hh, resolver->names, name, next) {
		assert(TAILQ_EMPTY(&name->asks));
		name_free(name);
	}
	dns_free(&resolver->dns);
	free(resolver);
	*resolverp = NULL;
}

void resolver_configure(struct resolver *resolver, usec_t good_ttl, usec_t bad_ttl, usec_t period)
{
	struct resolver_name *name, *next_name;
	struct resolver_zone *zone, *next;

	resolver->good_ttl = good_ttl;
	resolver->bad_ttl = bad_ttl;
	if (period == resolver->zone_period)
		return;
	resolver->zone_period = period;
	HASH_ITER (hh, resolver->zones, zone, next) {
		if (!zone->query)
			wait_period(zone);
	}
	HASH_ITER (hh, resolver->names, name, next_name) {
		if (period > 0)
			zone_enter(name);
		else
			zone_leave(name);
	}
}

/* ---- asking ---- */

bool resolver_start(struct resolver *resolver, struct resolver_ask *ask, const char *host,
                    uint16_t port,
                    void (*on_answer)(struct resolver_ask *ask, const struct address *address,
                                      const struct err *err),
                    struct err *err)
{
	struct resolver_name *name;
	struct address address;
	bool is_known = address_parse(&address, host, 0);

	name = is_known ? numeric_name(resolver, host, &address, err)
	                : filed_name(resolver, host, err);
	if (!name)
		return false;
	*ask = (struct resolver_ask){ .on_answer = on_answer, .name = name, .port = port };
	TAILQ_INSERT_TAIL(&name->asks, ask, node);
	if (is_known || timer_is_set(&name->expiry))
		loop_defer(resolver->loop, &name->task);
	else if (!name->query && !start_query(name, err))
		resolver_cancel(ask);
	return ask->name != NULL;
}

void resolver_cancel(struct resolver_ask *ask)
{
	struct resolver_name *name = ask->name;

	if (!name)
		return;
	TAILQ_REMOVE(&name->asks, ask, node);
	ask->name = NULL;
	tidy(name);
}

void resolver_watch_begin(struct resolver *resolver, struct resolver_watch *watch, const char *host,
                          const struct address *address,
                          void (*on_removed)(struct resolver_watch *watch))
{
	struct address numeric;
	struct resolver_name *name = NULL;

	if (!address_parse(&numeric, host, 0))
		name = filed_name(resolver, host, NULL);
	if (!name)
		return;
	*watch =
	    (struct resolver_watch){ .on_removed = on_removed, .name = name, .address = *address };
	TAILQ_INSERT_TAIL(&name->watches, watch, node);
}

/*
 * ---- what is not cached: the name of an address, the hosts of a service ----
 *
 *   address --> its name (PTR) --> that name's addresses --> is ours among them?
 */

static void end_reverse(struct reverse *reverse, const char *host)
{
	char *own = reverse->host;

	reverse->host = NULL;
	reverse->on_host(reverse, host);
	free(own);
}

static void on_addresses(struct dns_query **query, struct dns_answer *answer)
{
	struct reverse *reverse = container_of(query, struct reverse, query);
	bool is_proven = address_is_among(&reverse->address, answer->addresses, answer->count);

	end_reverse(reverse, is_proven ? reverse->host : NULL);
}

static void on_name(struct dns_query **query, struct dns_answer *answer)
{
	struct reverse *reverse = container_of(query, struct reverse, query);

	reverse->host = answer->name;
	answer->name = NULL;
	if (!reverse->host || !dns_query(reverse->resolver->dns, DNS_ADDRESSES, reverse->host,
	                                 &reverse->query, on_addresses, NULL))
		end_reverse(reverse, NULL);
}

bool reverse_start(struct resolver *resolver, struct reverse *reverse,
                   const struct address *address,
                   void (*on_host)(struct reverse *reverse, const char *host), struct err *err)
{
	assert(!reverse->query);
	if (resolver_query_count(resolver) >= REVERSE_MAX)
		return err_set(err, ERR_LIMIT, "too many client host names are being looked up");
	*reverse =
	    (struct reverse){ .on_host = on_host, .resolver = resolver, .address = *address };
	return dns_query_name(resolver->dns, address, &reverse->query, on_name, err);
}

void reverse_cancel(struct reverse *reverse)
{
	dns_forget(&reverse->query);
	free(reverse->host);
	reverse->host = NULL;
}

bool resolver_find_services(struct resolver *resolver, const char *name, struct dns_query **query,
                            dns_on_answer *on_answer, struct err *err)
{
	assert(!*query);
	return dns_query(resolver->dns, DNS_SERVICES, name, query, on_answer, err);
}

/* ---- for SHOW ---- */

unsigned int resolver_name_count(const struct resolver *resolver)
{
	return HASH_COUNT(resolver->names);
}

unsigned int resolver_query_count(const struct resolver *resolver)
{
	return dns_running_count(resolver->dns);
}

bool resolver_next_row(struct resolver *resolver, unsigned long *cursor, struct resolver_row *row)
{
	struct resolver_name *name = resolver->names;
	usec_t now = loop_now(resolver->loop);

	/* They stay in the table in the order of their serials. */
	if (resolver->last_row && resolver->last_row->serial == *cursor)
		name = resolver->last_row->hh.next;
	while (name && name->serial <= *cursor)
		name = name->hh.next;

	/* A name may be kept only because a connection still uses one of its old addresses. */
	while (name && !name->addresses && !name->failure && !name->query)
		name = name->hh.next;
	if (!name)
		return false;
	*row = (struct resolver_row){ .host = name->host,
		                      .addresses = name->addresses,
		                      .address_count = name->address_count };
	if (timer_is_set(&name->expiry) && name->expiry.due > now)
		row->ttl_left = name->expiry.due - now;
	*cursor = name->serial;
	resolver->last_row = name;
	return true;
}

unsigned int resolver_zone_count(const struct resolver *resolver)
{
	return HASH_COUNT(resolver->zones);
}

bool resolver_next_zone(struct resolver *resolver, unsigned long *cursor,
                        struct resolver_zone_row *row)
{
	struct resolver_zone *zone = resolver->zones;

	while (zone && zone->number <= *cursor)
		zone = zone->hh.next;
	if (!zone)
		return false;
	*cursor = zone->number;
	*row = (struct resolver_zone_row){ zone->text, zone->serial, zone->name_count };
	return true;
}
