/* SPDX-License-Identifier: ISC */
/*
 * Looks up what is not cached: the name of an address, the hosts of a service.
 *
 *   address --> its name (PTR) --> that name's addresses --> is ours among them?
 *   service --> its hosts (SRV)
 *
 * Hard here: dns_*() may call back before they return, and no query may be made from a
 * callback. So each step is a task at the end of the turn. A lookup whose owner is gone ends
 * with its next result.
 */

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "resolver_priv.h"

#include "pgweir/base/container_of.h"

/* NULL: no memory. */
static struct lookup *lookup_new(struct resolver *resolver, void (*step)(struct task *task))
{
	struct lookup *lookup = calloc(1, sizeof(*lookup));

	if (!lookup)
		return NULL;
	lookup->resolver = resolver;
	lookup->task.run = step;
	TAILQ_INSERT_TAIL(&resolver->lookups, lookup, node);
	resolver->lookup_count++;
	return lookup;
}

static void end(struct lookup *lookup)
{
	struct resolver *resolver = lookup->resolver;

	loop_undefer(resolver->loop, &lookup->task);
	TAILQ_REMOVE(&resolver->lookups, lookup, node);
	resolver->lookup_count--;
	free(lookup->host);
	free(lookup->list);
	free(lookup);
}

/* Its query has begun, or failed at once: then it ends. Returns `has_begun`. */
static bool keep(struct lookup *lookup, struct lookup **slot, bool has_begun)
{
	if (!has_begun) {
		end(lookup);
		return false;
	}
	lookup->slot = slot;
	*slot = lookup;
	return true;
}

/* Takes the lookup from its owner. NULL: the owner is gone. */
static struct lookup **leave_owner(struct lookup *lookup)
{
	struct lookup **slot = lookup->slot;

	lookup->slot = NULL;
	if (slot)
		*slot = NULL;
	return slot;
}

void lookup_cancel(struct lookup **slot)
{
	if (*slot)
		leave_owner(*slot);
}

void lookups_end_all(struct resolver *resolver)
{
	struct lookup *lookup;

	while ((lookup = TAILQ_FIRST(&resolver->lookups)))
		end(lookup);
}

/* ---- the name of an address ---- */

static void answer_host(struct lookup *lookup, const char *host)
{
	struct lookup **slot = leave_owner(lookup);
	struct reverse *owner = slot ? container_of(slot, struct reverse, lookup) : NULL;

	if (owner)
		owner->on_host(owner, host);
	end(lookup);
}

static void on_addresses(void *arg, const struct dns_answer *answer)
{
	struct lookup *lookup = arg;

	lookup->is_proven = address_is_among(&lookup->address, answer->addresses, answer->count);
	lookup->is_done = true;
	loop_defer(lookup->resolver->loop, &lookup->task);
}

static void on_name(void *arg, const struct dns_answer *answer)
{
	struct lookup *lookup = arg;

	lookup->host = answer->name ? strdup(answer->name) : NULL;
	lookup->is_done = lookup->host == NULL;
	loop_defer(lookup->resolver->loop, &lookup->task);
}

static void step(struct task *task)
{
	struct lookup *lookup = container_of(task, struct lookup, task);

	if (lookup->is_done || !lookup->slot)
		answer_host(lookup, lookup->is_proven ? lookup->host : NULL);
	else if (!dns_query(lookup->resolver->dns, lookup->host, on_addresses, lookup, NULL))
		answer_host(lookup, NULL);
}

bool lookup_reverse(struct resolver *resolver, struct reverse *reverse,
                    const struct address *address,
                    void (*on_host)(struct reverse *reverse, const char *host), struct err *err)
{
	struct lookup *lookup;

	assert(!reverse->lookup);
	if (resolver->lookup_count >= REVERSE_MAX)
		return err_set(err, ERR_LIMIT, "too many client host names are being looked up");
	lookup = lookup_new(resolver, step);
	if (!lookup)
		return err_set(err, ERR_MEMORY, "out of memory");
	lookup->address = *address;
	reverse->on_host = on_host;
	return keep(lookup, &reverse->lookup,
	            dns_query_name(resolver->dns, address, on_name, lookup, err));
}

/* ---- the hosts of a service ---- */

static void on_services(void *arg, const struct dns_answer *answer)
{
	struct lookup *lookup = arg;
	size_t size = answer->count * sizeof(*lookup->list);

	lookup->failure = answer->failure;
	lookup->list = answer->count ? malloc(size) : NULL;
	if (lookup->list)
		memcpy(lookup->list, answer->services, size);
	lookup->count = lookup->list ? answer->count : 0;
	loop_defer(lookup->resolver->loop, &lookup->task);
}

static void answer_services(struct task *task)
{
	struct lookup *lookup = container_of(task, struct lookup, task);
	struct lookup **slot = leave_owner(lookup);
	struct services *owner = slot ? container_of(slot, struct services, lookup) : NULL;

	if (owner)
		owner->on_found(owner, lookup->list, lookup->count, lookup->failure);
	end(lookup);
}

bool lookup_services(struct resolver *resolver, struct services *services, const char *name,
                     services_on_found *on_found, struct err *err)
{
	struct lookup *lookup = lookup_new(resolver, answer_services);

	assert(!services->lookup);
	if (!lookup)
		return err_set(err, ERR_MEMORY, "out of memory");
	services->on_found = on_found;
	return keep(lookup, &services->lookup,
	            dns_query_services(resolver->dns, name, on_services, lookup, err));
}
