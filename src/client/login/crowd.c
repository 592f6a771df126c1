/* SPDX-License-Identifier: ISC */
/*
 * Refuses a client because max_client_conn is reached. The log names the user with most
 * clients.
 *
 * Hard here: the refused client has not authenticated, so its error contains the number of
 * clients and no user. There may be thousands of refused clients per second, so the user
 * with most clients is searched at most once in SPACING, among the first ROLES_MAX users.
 */
#include <stdio.h>

#include "login_priv.h"

#define SPACING (10 * USEC_PER_SEC)
#define ROLES_MAX 10000

/* The user with most clients, of those with a client in this loop. NULL: there are no clients. */
static const struct role *largest(const struct clients *clients)
{
	const struct role *role, *found = NULL;
	unsigned int left = ROLES_MAX;

	TAILQ_FOREACH (role, &clients->with.pools->roles, node) {
		if (role->client_count &&
		    (!found || share_clients(&role->share) > share_clients(&found->share)))
			found = role;
		if (--left == 0)
			break;
	}
	return found;
}

static void say(struct clients *clients, const char *detail)
{
	struct logger log = { clients->with.pools->with.log, NULL };
	usec_t now = loop_now(clients->with.loop);
	bool begins = limit_event_begins(&clients->with.told->all_met, now);
	const struct log_facts facts = { .kept = begins ? LIMIT_EVENT_KIND : NULL };
	const struct role *role;

	if (!login_may_tell(&clients->with.told->limit_at, now, SPACING) && !begins)
		return;
	role = largest(clients);
	if (role)
		log_event(&log, LOG_LEVEL_WARNING, &facts,
		          "max_client_conn is reached: %s; user %s has most of them: %u", detail,
		          role->name, share_clients(&role->share));
	else
		log_event(&log, LOG_LEVEL_WARNING, &facts,
		          "max_client_conn is reached: %s; no user is logged in", detail);
}

void crowd_refuse(struct client *client)
{
	struct clients *clients = client->clients;
	struct err err;
	char detail[64];

	clients->limit_hits++;
	snprintf(detail, sizeof(detail), "%u of %d",
	         broker_admitted(clients->with.pools->with.broker),
	         clients->config->max_client_conn);
	say(clients, detail);
	err_close(&err, CLOSE_CLIENT_LIMIT);
	client_fatal_detailed(client, &err, detail,
	                      "Close clients that are idle, or raise max_client_conn.");
}
