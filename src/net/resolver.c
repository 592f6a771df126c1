/* SPDX-License-Identifier: ISC */
/*
 * The resolver: a cache of names, above dns.c.
 *
 *   ask --> name is known   -----------------------------> task --> on_answer()
 *      \--> name is not known --> query --> name is known --/
 *
 * Hard here: the result of a query may arrive while dns_query() is still running, and in places
 * where nothing else may be called. So a result only changes the name, and a task at the end of
 * the turn calls those that wait.
 *
 * A name is removed from the table when its time is over and no resolver_watch uses it. It is
 * freed when nothing refers to it: no query, no ask, no task that is running.
 */
#include "pgweir/net/resolver.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "resolver_priv.h"

#include "pgweir/base/container_of.h"

#include "pgweir/base/banned.h"

#define NAMES_MAX 16384

/* ---- names ---- */

/* Frees a name if nothing refers to it any more. */
static void release(struct resolver_name *name)
{
	if (name->is_filed || name->is_asking || name->is_answering || !TAILQ_EMPTY(&name->asks))
		return;
	loop_undefer(name->resolver->loop, &name->task);
	loop_undefer(name->resolver->loop, &name->removed_task);
	free(name->addresses);
	free(name);
}

/* Removes the name from the table: the next ask for it creates a new one. */
static void unfile(struct resolver_name *name)
{
	struct resolver *resolver = name->resolver;

	if (!name->is_filed)
		return;
	if (resolver->last_row == name)
		resolver->last_row = NULL;
	timer_clear(&name->expiry);
	resolver_zone_leave(name);
	HASH_DEL(resolver->names, name);
	name->is_filed = false;
}

/* The name stays in the table as long as its result is valid, or a resolver_watch uses it. */
static void tidy(struct resolver_name *name)
{
	if (!name->is_known && !name->is_asking && TAILQ_EMPTY(&name->watches))
		unfile(name);
	release(name);
}

static void on_expired(struct timer *timer)
{
	struct resolver_name *name = container_of(timer, struct resolver_name, expiry);

	name->is_known = false;
	tidy(name);
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

/*
 * Answers those that were waiting at the start: one that asks again from its callback waits for
 * the next turn.
 */
static void run_answers(struct task *task)
{
	struct resolver_name *name = container_of(task, struct resolver_name, task);
	struct resolver_ask *ask;
	size_t count = 0;

	TAILQ_FOREACH (ask, &name->asks, node)
		count++;
	name->is_answering = true;
	while (count-- > 0 && (ask = TAILQ_FIRST(&name->asks)))
		answer(name, ask);
	name->is_answering = false;
	if (!TAILQ_EMPTY(&name->asks) && !name->is_asking)
		loop_defer(name->resolver->loop, &name->task);
	release(name);
}

/* ---- watches of addresses ---- */

static bool has_address(const struct resolver_name *name, const struct address *address)
{
	for (unsigned int i = 0; i < name->address_count; i++) {
		if (address_equal_host(&name->addresses[i], address))
			return true;
	}
	return false;
}

static void mark_removed(struct resolver_name *name)
{
	struct resolver_watch *watch;

	TAILQ_FOREACH (watch, &name->watches, node) {
		watch->is_removed = !has_address(name, &watch->address);
		if (watch->is_removed)
			loop_defer(name->resolver->loop, &name->removed_task);
	}
}

static struct resolver_watch *first_removed(const struct resolver_name *name)
{
	struct resolver_watch *watch;

	TAILQ_FOREACH (watch, &name->watches, node) {
		if (watch->is_removed)
			return watch;
	}
	return NULL;
}

/* Each callback may end other watches, or begin new ones, so the list is searched again. */
static void report_removed(struct task *task)
{
	struct resolver_name *name = container_of(task, struct resolver_name, removed_task);
	struct resolver_watch *watch;

	name->is_answering = true;
	while ((watch = first_removed(name))) {
		TAILQ_REMOVE(&name->watches, watch, node);
		watch->name = NULL;
		watch->on_removed(watch);
	}
	name->is_answering = false;
	if (!name->is_stale) {
		tidy(name);
		return;
	}
	/* The zone changed while the query was running, so its result may be old. */
	name->is_stale = false;
	resolver_refresh_name(name);
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

/* ---- answers ---- */

static struct resolver_name *name_new(struct resolver *resolver, const char *host)
{
	size_t size = strlen(host) + 1;
	struct resolver_name *name = calloc(1, sizeof(*name) + size);

	if (!name)
		return NULL;
	memcpy(name->host, host, size);
	name->resolver = resolver;
	name->serial = ++resolver->serial;
	name->task.run = run_answers;
	name->removed_task.run = report_removed;
	TAILQ_INIT(&name->asks);
	TAILQ_INIT(&name->watches);
	return name;
}

/* Stores the result of a query, addresses or failure: for `ttl`, or only for those that wait. */
static void keep(struct resolver_name *name, usec_t ttl)
{
	struct resolver *resolver = name->resolver;

	if (ttl > 0 && !resolver->is_ending)
		timer_set(&name->expiry, loop_timer_queue(resolver->loop, ttl, on_expired),
		          loop_now(resolver->loop));
	name->is_known = timer_is_set(&name->expiry);
	if (!TAILQ_EMPTY(&name->asks))
		loop_defer(resolver->loop, &name->task);
	tidy(name);
}

static void on_found(void *arg, const struct address *addresses, unsigned int count,
                     const char *failure)
{
	struct resolver_name *name = arg;
	struct resolver *resolver = name->resolver;

	name->is_asking = false;
	name->failure = failure;
	/* Names with the same addresses should not all begin with the same one. */
	name->next = resolver->rotation++;
	free(name->addresses);
	name->addresses = count > 0 ? malloc(count * sizeof(*addresses)) : NULL;
	name->address_count = name->addresses ? count : 0;
	if (name->addresses) {
		memcpy(name->addresses, addresses, count * sizeof(*addresses));
		mark_removed(name);
	} else if (count > 0) {
		name->failure = "out of memory";
	}
	if (name->is_stale)
		loop_defer(resolver->loop, &name->removed_task);
	keep(name, name->address_count ? resolver->good_ttl : resolver->bad_ttl);
}

/* ---- creation and end ---- */

struct resolver *resolver_new(struct loop *loop, const struct resolver_options *options,
                              struct err *err)
{
	struct resolver *resolver = calloc(1, sizeof(*resolver));

	if (!resolver) {
		err_set(err, ERR_MEMORY, "no memory for the DNS resolver");
		return NULL;
	}
	resolver->loop = loop;
	resolver_set_ttl(resolver, options->good_ttl, options->bad_ttl);
	resolver->zone_period = options->zone_period;
	TAILQ_INIT(&resolver->reverses);
	resolver->dns = dns_new(loop, options, err);
	if (!resolver->dns)
		resolver_free(&resolver);
	return resolver;
}

void resolver_free(struct resolver **resolver)
{
	if (!*resolver)
		return;
	(*resolver)->is_ending = true;
	dns_free(&(*resolver)->dns);
	reverse_end_all(*resolver);
	resolver_forget(*resolver);
	assert(!(*resolver)->names && !(*resolver)->zones);
	free(*resolver);
	*resolver = NULL;
}

const char *resolver_library(void) { return dns_library(); }

void resolver_set_ttl(struct resolver *resolver, usec_t good_ttl, usec_t bad_ttl)
{
	resolver->good_ttl = good_ttl;
	resolver->bad_ttl = bad_ttl;
}

void resolver_forget(struct resolver *resolver)
{
	struct resolver_name *name, *next;

	HASH_ITER (hh, resolver->names, name, next) {
		if (name->is_asking)
			continue;
		name->is_known = false;
		timer_clear(&name->expiry);
		tidy(name);
	}
}

/* ---- asking ---- */

/* A numeric address needs no query: makes a name for this one ask, outside the table. */
static struct resolver_name *numeric_name(struct resolver *resolver, const char *host,
                                          const struct address *address, struct err *err)
{
	struct resolver_name *name = name_new(resolver, host);

	if (name && (name->addresses = malloc(sizeof(*address)))) {
		name->addresses[0] = *address;
		name->address_count = 1;
		name->is_known = true;
		return name;
	}
	free(name);
	err_set(err, ERR_MEMORY, "no memory for the address %s", host);
	return NULL;
}

static struct resolver_name *filed_name(struct resolver *resolver, const char *host,
                                        struct err *err)
{
	struct resolver_name *name;

	if (HASH_COUNT(resolver->names) >= NAMES_MAX) {
		err_set(err, ERR_LIMIT, "too many DNS names (%d) at once", NAMES_MAX);
		return NULL;
	}
	name = name_new(resolver, host);
	if (name)
		HASH_ADD_KEYPTR(hh, resolver->names, name->host, strlen(name->host), name);
	if (name && !name->is_lost) {
		name->is_filed = true;
		resolver_zone_enter(name);
		return name;
	}
	free(name);
	err_set(err, ERR_MEMORY, "no memory for the DNS name %s", host);
	return NULL;
}

/* on_found() may be called before this returns. */
static bool start_query(struct resolver_name *name, struct err *err)
{
	name->is_asking = true;
	name->is_known = false;
	timer_clear(&name->expiry);
	if (dns_query(name->resolver->dns, name->host, on_found, name, err))
		return true;
	name->is_asking = false;
	return false;
}

void resolver_refresh_name(struct resolver_name *name)
{
	struct err err;

	if (name->is_asking)
		name->is_stale = true;
	else if (!start_query(name, &err))
		tidy(name);
}

bool resolver_start(struct resolver *resolver, struct resolver_ask *ask, const char *host,
                    uint16_t port,
                    void (*on_answer)(struct resolver_ask *ask, const struct address *address,
                                      const struct err *err),
                    struct err *err)
{
	struct resolver_name *name;
	struct address address;

	HASH_FIND(hh, resolver->names, host, strlen(host), name);
	if (!name && address_parse(&address, host, 0))
		name = numeric_name(resolver, host, &address, err);
	else if (!name)
		name = filed_name(resolver, host, err);
	if (!name)
		return false;
	*ask = (struct resolver_ask){ .on_answer = on_answer, .name = name, .port = port };
	TAILQ_INSERT_TAIL(&name->asks, ask, node);
	if (name->is_asking)
		return true;
	if (name->is_known) {
		loop_defer(resolver->loop, &name->task);
		return true;
	}
	if (start_query(name, err))
		return true;
	resolver_cancel(ask);
	return false;
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
	struct resolver_name *name;
	struct address numeric;
	struct err err;

	HASH_FIND(hh, resolver->names, host, strlen(host), name);
	if (!name && !address_parse(&numeric, host, 0))
		name = filed_name(resolver, host, &err);
	if (!name)
		return;
	*watch =
	    (struct resolver_watch){ .on_removed = on_removed, .name = name, .address = *address };
	TAILQ_INSERT_TAIL(&name->watches, watch, node);
}

/* ---- for SHOW ---- */

unsigned int resolver_name_count(const struct resolver *resolver)
{
	return HASH_COUNT(resolver->names);
}

unsigned int resolver_query_count(const struct resolver *resolver)
{
	return dns_query_count(resolver->dns);
}

/*
 * Names stay in the table in the order in which they were added, which is that of their serial.
 */
static struct resolver_name *name_after(const struct resolver *resolver, unsigned long cursor)
{
	struct resolver_name *name = resolver->names;

	if (resolver->last_row && resolver->last_row->serial == cursor)
		return resolver->last_row->hh.next;
	while (name && name->serial <= cursor)
		name = name->hh.next;
	return name;
}

/* A name may be kept only because a connection still uses one of its old addresses. */
static bool is_row(const struct resolver_name *name) { return name->failure || name->is_asking; }

bool resolver_has_row(const struct resolver *resolver, const char *host)
{
	const struct resolver_name *name;

	HASH_FIND(hh, resolver->names, host, strlen(host), name);
	return name && is_row(name);
}

bool resolver_next_row(struct resolver *resolver, unsigned long *cursor, struct resolver_row *row)
{
	struct resolver_name *name = name_after(resolver, *cursor);
	usec_t now = loop_now(resolver->loop);

	while (name && !is_row(name))
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
