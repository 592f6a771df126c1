/* SPDX-License-Identifier: ISC */
/*
 * Looks up a host name that can be trusted.
 *
 *   address --> its name (PTR) --> that name's addresses --> is ours among them?
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

static void end_query(struct reverse_query *query)
{
	struct resolver *resolver = query->resolver;

	loop_undefer(resolver->loop, &query->task);
	TAILQ_REMOVE(&resolver->reverses, query, node);
	resolver->reverse_count--;
	free(query->host);
	free(query);
}

static void answer(struct reverse_query *query, const char *host)
{
	struct reverse *owner = query->owner;

	query->owner = NULL;
	if (owner) {
		owner->query = NULL;
		owner->on_host(owner, host);
	}
	end_query(query);
}

static void on_addresses(void *arg, const struct address *addresses, unsigned int count,
                         const char *failure)
{
	struct reverse_query *query = arg;

	(void)failure;
	for (unsigned int i = 0; i < count; i++) {
		if (address_equal_host(&addresses[i], &query->address))
			query->is_proven = true;
	}
	query->is_done = true;
	loop_defer(query->resolver->loop, &query->task);
}

static void on_name(void *arg, const char *name, const char *failure)
{
	struct reverse_query *query = arg;

	(void)failure;
	query->host = name ? strdup(name) : NULL;
	query->is_done = query->host == NULL;
	loop_defer(query->resolver->loop, &query->task);
}

/* Does the next step. */
static void step(struct task *task)
{
	struct reverse_query *query = container_of(task, struct reverse_query, task);

	if (query->is_done || !query->owner)
		answer(query, query->is_proven ? query->host : NULL);
	else if (!dns_query(query->resolver->dns, query->host, on_addresses, query, NULL))
		answer(query, NULL);
}

bool reverse_start(struct resolver *resolver, struct reverse *reverse,
                   const struct address *address,
                   void (*on_host)(struct reverse *reverse, const char *host), struct err *err)
{
	struct reverse_query *query;

	assert(!reverse->query);
	if (resolver->reverse_count >= REVERSE_MAX)
		return err_set(err, ERR_LIMIT, "too many client host names are being looked up");
	query = calloc(1, sizeof(*query));
	if (!query)
		return err_set(err, ERR_MEMORY, "out of memory");
	query->resolver = resolver;
	query->task.run = step;
	query->address = *address;
	TAILQ_INSERT_TAIL(&resolver->reverses, query, node);
	resolver->reverse_count++;
	query->owner = reverse;
	if (!dns_query_name(resolver->dns, address, on_name, query, err)) {
		end_query(query);
		return false;
	}
	reverse->on_host = on_host;
	reverse->query = query;
	return true;
}

void reverse_cancel(struct reverse *reverse)
{
	if (reverse->query)
		reverse->query->owner = NULL;
	reverse->query = NULL;
}

void reverse_end_all(struct resolver *resolver)
{
	struct reverse_query *query;

	while ((query = TAILQ_FIRST(&resolver->reverses)))
		end_query(query);
}
