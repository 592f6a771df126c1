/* SPDX-License-Identifier: ISC */
/*
 * The error of a failed login is delayed (auth_failure_delay), and while so many failures of
 * one address are delayed, all its other logins are refused unseen (auth_failure_limit).
 *
 * Hard here: guesses that are under way together. Each is judged only if there is room
 * for its failure; otherwise a right one could be told from the wrong ones at once.
 * The number of delayed logins is bounded, and past the bound the oldest is answered early,
 * with a line in the log. So a flood from many networks shortens the delay. To judge no proof
 * at all while the bound is reached would prevent that, but would lock honest users out.
 */
#include <stdlib.h>

#include "login_priv.h"

#include "pgweir/base/banned.h"

#define DELAYED_MAX 256

/* Whose failures are counted together: an IPv4 address, a /64 network of IPv6. */
struct network {
	uint32_t family;
	unsigned char bytes[8];
};

struct failing {
	UT_hash_handle hh;
	struct network network;
	unsigned int count;
};

struct delayed {
	TAILQ_ENTRY(delayed) node; /* the longest first */
	struct client *client;
	struct failing *failing; /* NULL: a Unix socket */
	struct err err;
};

/* false: it has none. */
static bool network_of(const struct address *address, struct network *network)
{
	*network = (struct network){ .family = address->family };
	if (address->family == AF_INET)
		memcpy(network->bytes, &address->in.sin_addr, 4);
	else if (address->family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&address->in6.sin6_addr))
		memcpy(network->bytes, address->in6.sin6_addr.s6_addr + 8, 8);
	else if (address->family == AF_INET6)
		memcpy(network->bytes, address->in6.sin6_addr.s6_addr, 8);
	else
		return false;
	return true;
}

static struct failing *find(const struct client *client)
{
	struct failing *failing = NULL;
	struct network network;

	if (network_of(&client->peer, &network))
		TABLE_FIND(hh, &client->clients->with.pools->secret, client->clients->failing,
		           &network, sizeof(network), failing);
	return failing;
}

bool throttle_admits(struct client *client)
{
	int limit = client->clients->config->auth_failure_limit;
	const struct failing *failing = limit > 0 ? find(client) : NULL;

	if (!failing || failing->count < (unsigned int)limit)
		return true;
	client_refuse(client, ERR_LIMIT,
	              "too many failed logins from this address, try again later");
	return false;
}

/* NULL: it has no network, or there is no memory. */
static struct failing *count_failure(struct client *client)
{
	struct failing *failing = find(client);
	struct network network;

	if (!failing && network_of(&client->peer, &network)) {
		failing = calloc(1, sizeof(*failing));
		if (!failing)
			return NULL;
		failing->network = network;
		TABLE_ADD(hh, &client->clients->with.pools->secret, client->clients->failing,
		          &failing->network, sizeof(failing->network), failing);
	}
	if (failing)
		failing->count++;
	return failing;
}

void throttle_forget(struct client *client)
{
	struct clients *clients = client->clients;
	struct delayed *delayed = client->login->delayed;

	if (!delayed)
		return;
	client->login->delayed = NULL;
	TAILQ_REMOVE(&clients->delayed, delayed, node);
	clients->delayed_count--;
	if (clients->delayed_count <= DELAYED_MAX / 2)
		clients->is_delay_cut = false;
	if (delayed->failing && --delayed->failing->count == 0) {
		HASH_DEL(clients->failing, delayed->failing);
		free(delayed->failing);
	}
	free(delayed);
}

static void tell(struct client *client) { client_fatal(client, &client->login->delayed->err); }

static void on_delay_due(struct timer *timer) { tell(CLIENT_OF(timer, timer)); }

/* The delay, but not past the time that a login has. */
static void set_timer(struct client *client, usec_t delay)
{
	struct loop *loop = client->clients->with.loop;
	usec_t limit = client->clients->config->client_login_timeout;

	if (limit && client->connected_at + limit < loop_now(loop) + delay)
		timer_set(&client->timer, loop_timer_queue(loop, limit, on_delay_due),
		          client->connected_at);
	else
		timer_set(&client->timer, loop_timer_queue(loop, delay, on_delay_due),
		          loop_now(loop));
}

/* Too many wait: answers the oldest. Logs the first of a run of these. */
static void cut_delay(struct clients *clients)
{
	const struct logger log = { clients->with.log, NULL };

	if (!clients->is_delay_cut)
		log_warning(&log,
		            "more than %d failed logins wait for auth_failure_delay: the oldest "
		            "are answered early; auth_failure_limit bounds those of one address",
		            DELAYED_MAX);
	clients->is_delay_cut = true;
	tell(TAILQ_FIRST(&clients->delayed)->client);
}

void throttle_refuse(struct client *client, const struct err *err)
{
	struct clients *clients = client->clients;
	usec_t delay = clients->config->auth_failure_delay;
	struct delayed *delayed = delay > 0 ? calloc(1, sizeof(*delayed)) : NULL;

	if (!delayed) {
		client_fatal(client, err);
		return;
	}
	if (clients->delayed_count >= DELAYED_MAX)
		cut_delay(clients);
	delayed->client = client;
	delayed->err = *err;
	delayed->failing = count_failure(client);
	TAILQ_INSERT_TAIL(&clients->delayed, delayed, node);
	clients->delayed_count++;
	client->login->delayed = delayed;
	auth_server_free(&client->login->auth); /* what it knew is not needed any more */
	client_release_admission(client);
	client_enter(client, CLIENT_DELAYED);
	set_timer(client, delay);
	if (!stream_want(&client->stream, WANT_END))
		client_close(client, CLOSE_NOT_WATCHED);
}
