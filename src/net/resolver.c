/* SPDX-License-Identifier: ISC */
/*
 * The resolver: a table of names above dns.c.
 *
 *   ask --> name known   -------------------------> task --> on_answer()
 *      \--> name unknown --> query --> name known --/
 *
 * Hard here: an answer may come from within the call that asks, and from places
 * where nothing may be asked; so it only changes the name, and whoever waits is
 * told by a task at the end of the turn.
 *
 * A name leaves the table when its time is over, and leaves the memory when
 * nobody needs it any more: no query, no ask, no answering under way.
 */
#include "pgweir/net/resolver.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* uthash's own choice falls through its cases, which clang warns of. */
#define HASH_FUNCTION HASH_FNV
#define HASH_NONFATAL_OOM 1
#define uthash_nonfatal_oom(name) ((name)->is_lost = true)
#include <uthash.h>

#include "dns_priv.h"

#include "pgweir/base/banned.h"

#define NAMES_MAX 16384

TAILQ_HEAD(ask_list, resolver_ask);

struct resolver_name {
	struct resolver *resolver;
	UT_hash_handle hh;
	unsigned long serial;
	struct timer expiry;
	struct task task; /* answers `asks` */
	struct ask_list asks;
	struct address *addresses;
	unsigned int address_count;
	unsigned int next;   /* address to hand out */
	const char *failure; /* why there is no address; static */
	bool is_asking;      /* a query is under way */
	bool is_answering;
	bool is_filed; /* in the table */
	bool is_lost;  /* there was no memory to file it */
	char host[];
};

struct resolver {
	struct loop *loop;
	struct dns *dns;
	usec_t good_ttl;
	usec_t bad_ttl;
	struct resolver_name *names;
	struct resolver_name *last_row; /* of resolver_next_row() */
	unsigned long serial;
	unsigned int rotation; /* where the next name that is found begins */
	bool is_ending;
};

#define NAME_OF(part, member) \
	((struct resolver_name *)((char *)(part)-offsetof(struct resolver_name, member)))

/* ---- names ---- */

/* Frees a name that nobody needs any more. */
static void release(struct resolver_name *name)
{
	if (name->is_filed || name->is_asking || name->is_answering || !TAILQ_EMPTY(&name->asks))
		return;
	loop_undefer(name->resolver->loop, &name->task);
	free(name->addresses);
	free(name);
}

/* Takes it off the table: the next who asks for it gets a new one. */
static void unfile(struct resolver_name *name)
{
	struct resolver *resolver = name->resolver;

	if (!name->is_filed)
		return;
	if (resolver->last_row == name)
		resolver->last_row = NULL;
	timer_clear(&name->expiry);
	HASH_DEL(resolver->names, name);
	name->is_filed = false;
}

static void on_expired(struct timer *timer)
{
	struct resolver_name *name = NAME_OF(timer, expiry);

	unfile(name);
	release(name);
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
	ask->on_answer(ask, &address, NULL);
}

/* Those who waited when it began: who asks again from within waits for the next turn. */
static void run_answers(struct task *task)
{
	struct resolver_name *name = NAME_OF(task, task);
	struct resolver_ask *ask;
	size_t count = 0;

	TAILQ_FOREACH (ask, &name->asks, node)
		count++;
	name->is_answering = true;
	while (count-- > 0 && (ask = TAILQ_FIRST(&name->asks)))
		answer(name, ask);
	name->is_answering = false;
	if (!TAILQ_EMPTY(&name->asks))
		loop_defer(name->resolver->loop, &name->task);
	release(name);
}

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
	TAILQ_INIT(&name->asks);
	return name;
}

/* Its addresses are known from now on, or that it has none; for a time, or for those who wait. */
static void keep(struct resolver_name *name, usec_t ttl)
{
	struct resolver *resolver = name->resolver;

	if (ttl > 0 && !resolver->is_ending)
		timer_set(&name->expiry, loop_line(resolver->loop, ttl, on_expired),
		          loop_now(resolver->loop));
	if (!timer_is_set(&name->expiry))
		unfile(name);
	if (!TAILQ_EMPTY(&name->asks))
		loop_defer(resolver->loop, &name->task);
	release(name);
}

static void on_found(void *arg, const struct address *addresses, unsigned int count,
                     const char *failure)
{
	struct resolver_name *name = arg;
	struct resolver *resolver = name->resolver;

	name->is_asking = false;
	name->failure = failure;
	name->next = resolver->rotation++;
	if (count > 0)
		name->addresses = malloc(count * sizeof(*addresses));
	if (name->addresses) {
		memcpy(name->addresses, addresses, count * sizeof(*addresses));
		name->address_count = count;
	} else if (count > 0) {
		name->failure = "out of memory";
	}
	keep(name, name->address_count ? resolver->good_ttl : resolver->bad_ttl);
}

/* ---- its life ---- */

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
	resolver_forget(*resolver);
	assert(!(*resolver)->names);
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
		unfile(name);
		release(name);
	}
}

/* ---- asking ---- */

/* A numeric address needs no query: a name for this one ask, which is not filed. */
static struct resolver_name *numeric_name(struct resolver *resolver, const char *host,
                                          const struct address *address, struct err *err)
{
	struct resolver_name *name = name_new(resolver, host);

	if (name && (name->addresses = malloc(sizeof(*address)))) {
		name->addresses[0] = *address;
		name->address_count = 1;
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
		return name;
	}
	free(name);
	err_set(err, ERR_MEMORY, "no memory for the DNS name %s", host);
	return NULL;
}

/* The name's first ask starts its query. It may be answered at once: for this the ask is there. */
static bool start_query(struct resolver_name *name, struct resolver_ask *ask, struct err *err)
{
	name->is_asking = true;
	if (dns_query(name->resolver->dns, name->host, on_found, name, err))
		return true;
	name->is_asking = false;
	unfile(name);
	resolver_cancel(ask);
	return false;
}

bool resolver_start(struct resolver *resolver, struct resolver_ask *ask, const char *host,
                    uint16_t port,
                    void (*on_answer)(struct resolver_ask *ask, const struct address *address,
                                      const struct err *err),
                    struct err *err)
{
	struct resolver_name *name;
	struct address address;
	bool is_known = true;

	HASH_FIND(hh, resolver->names, host, strlen(host), name);
	if (!name && address_parse(&address, host, 0)) {
		name = numeric_name(resolver, host, &address, err);
	} else if (!name) {
		name = filed_name(resolver, host, err);
		is_known = false;
	}
	if (!name)
		return false;
	*ask = (struct resolver_ask){ .on_answer = on_answer, .name = name, .port = port };
	TAILQ_INSERT_TAIL(&name->asks, ask, node);
	if (!is_known)
		return start_query(name, ask, err);
	if (!name->is_asking)
		loop_defer(resolver->loop, &name->task);
	return true;
}

void resolver_cancel(struct resolver_ask *ask)
{
	struct resolver_name *name = ask->name;

	if (!name)
		return;
	TAILQ_REMOVE(&name->asks, ask, node);
	ask->name = NULL;
	release(name);
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

/* The table keeps names in the order in which they came: by their serial. */
static struct resolver_name *name_behind(const struct resolver *resolver, unsigned long cursor)
{
	struct resolver_name *name = resolver->names;

	if (resolver->last_row && resolver->last_row->serial == cursor)
		return resolver->last_row->hh.next;
	while (name && name->serial <= cursor)
		name = name->hh.next;
	return name;
}

bool resolver_next_row(struct resolver *resolver, unsigned long *cursor, struct resolver_row *row)
{
	struct resolver_name *name = name_behind(resolver, *cursor);
	usec_t now = loop_now(resolver->loop);

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
