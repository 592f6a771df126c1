/* SPDX-License-Identifier: ISC */
/*
 * Looks up the hosts of a service: SRV records.
 *
 * Hard here: dns_query_services() may call back before it returns, so the answer is a task at the
 * end of the turn. A lookup whose owner is gone ends with its result.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "resolver_priv.h"

#include "pgweir/base/container_of.h"

static void end_query(struct services_query *query)
{
	struct resolver *resolver = query->resolver;

	loop_undefer(resolver->loop, &query->task);
	TAILQ_REMOVE(&resolver->services, query, node);
	free(query->list);
	free(query);
}

static void on_services(void *arg, const struct service_host *list, unsigned int count,
                        const char *failure)
{
	struct services_query *query = arg;

	query->failure = failure;
	query->list = count ? malloc(count * sizeof(*list)) : NULL;
	if (query->list)
		memcpy(query->list, list, count * sizeof(*list));
	query->count = query->list ? count : 0;
	loop_defer(query->resolver->loop, &query->task);
}

static void answer(struct task *task)
{
	struct services_query *query = container_of(task, struct services_query, task);
	struct services *owner = query->owner;

	if (owner) {
		owner->query = NULL;
		owner->on_found(owner, query->list, query->count, query->failure);
	}
	end_query(query);
}

bool services_start(struct resolver *resolver, struct services *services, const char *name,
                    services_on_found *on_found, struct err *err)
{
	struct services_query *query = calloc(1, sizeof(*query));

	assert(!services->query);
	if (!query)
		return err_set(err, ERR_MEMORY, "out of memory");
	query->resolver = resolver;
	query->task.run = answer;
	TAILQ_INSERT_TAIL(&resolver->services, query, node);
	if (!dns_query_services(resolver->dns, name, on_services, query, err)) {
		end_query(query);
		return false;
	}
	query->owner = services;
	services->on_found = on_found;
	services->query = query;
	return true;
}

void services_cancel(struct services *services)
{
	if (services->query)
		services->query->owner = NULL;
	services->query = NULL;
}

void services_end_all(struct resolver *resolver)
{
	struct services_query *query;

	while ((query = TAILQ_FIRST(&resolver->services)))
		end_query(query);
}
