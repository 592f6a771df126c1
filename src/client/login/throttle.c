/* SPDX-License-Identifier: ISC */
/*
 * Login throttle: the error of a failed login is delayed (auth_failure_delay). While the
 * maximum number of failures of one address is delayed, further logins from that address
 * are refused without a check of the password (auth_failure_limit).
 *
 * Hard here: parallel guesses. A password is checked only if its failure could still be
 * delayed; otherwise a client could see at once that a guess was right. The number of
 * delayed logins is bounded. Beyond the bound the oldest one is answered early, and the log
 * reports it. So a flood from many networks shortens the delay. Refusing to check any
 * password at the bound would prevent that, but would also lock out legitimate users.
 */
#include <stdlib.h>

#include "pgweir/base/container_of.h"

#include "login_priv.h"

#include "pgweir/base/banned.h"

#define DELAYED_MAX 256

/* What failures are counted for: an IPv4 address, or a /64 network of IPv6. */
struct network {
	uint32_t family;
	unsigned char bytes[8];
};

struct login_failures {
	UT_hash_handle hh;
	struct network network;
	unsigned int count;
};

struct delayed_login {
	TAILQ_ENTRY(delayed_login) node; /* oldest first */
	struct client *client;
	struct login_failures *failures; /* NULL: not counted (Unix socket, or no memory) */
	struct err err;
};

/* false: the address has no network. */
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

static struct login_failures *find_failures(const struct client *client)
{
	struct login_failures *failures = NULL;
	struct network network;

	if (network_of(&client->peer, &network))
		TABLE_FIND(hh, &client->clients->with.pools->secret,
		           client->clients->login_failures, &network, sizeof(network), failures);
	return failures;
}

bool throttle_admits(struct client *client)
{
	int limit = client->clients->config->auth_failure_limit;
	const struct login_failures *failures = limit > 0 ? find_failures(client) : NULL;

	if (!failures || failures->count < (unsigned int)limit)
		return true;
	client_refuse(client, ERR_LIMIT,
	              "too many failed logins from this address, try again later");
	return false;
}

/* NULL: the address has no network, or no memory. */
static struct login_failures *count_failure(struct client *client)
{
	struct login_failures *failures = find_failures(client);
	struct network network;

	if (!failures && network_of(&client->peer, &network)) {
		failures = calloc(1, sizeof(*failures));
		if (!failures)
			return NULL;
		failures->network = network;
		TABLE_ADD(hh, &client->clients->with.pools->secret, client->clients->login_failures,
		          &failures->network, sizeof(failures->network), failures);
	}
	if (failures)
		failures->count++;
	return failures;
}

void throttle_drop(struct client *client)
{
	struct clients *clients = client->clients;
	struct delayed_login *delayed = client->login->delayed;

	if (!delayed)
		return;
	client->login->delayed = NULL;
	TAILQ_REMOVE(&clients->delayed_logins, delayed, node);
	clients->delayed_count--;
	if (clients->delayed_count <= DELAYED_MAX / 2)
		clients->is_delay_cut = false;
	if (delayed->failures && --delayed->failures->count == 0) {
		HASH_DEL(clients->login_failures, delayed->failures);
		free(delayed->failures);
	}
	free(delayed);
}

static void send_delayed_error(struct client *client)
{
	client_fatal(client, &client->login->delayed->err);
}

static void on_delay_due(struct timer *timer)
{
	send_delayed_error(container_of(timer, struct client, timer));
}

/* Waits for the delay, but not beyond client_login_timeout. */
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

/* Too many logins are delayed: answers the oldest. Only the first of a series is logged. */
static void cut_delay(struct clients *clients)
{
	const struct logger log = { clients->with.log, NULL };

	if (!clients->is_delay_cut)
		log_warning(&log,
		            "more than %d failed logins wait for auth_failure_delay: the oldest "
		            "are answered early; auth_failure_limit bounds those of one address",
		            DELAYED_MAX);
	clients->is_delay_cut = true;
	send_delayed_error(TAILQ_FIRST(&clients->delayed_logins)->client);
}

void throttle_refuse(struct client *client, const struct err *err)
{
	struct clients *clients = client->clients;
	usec_t delay = clients->config->auth_failure_delay;
	struct delayed_login *delayed = delay > 0 ? calloc(1, sizeof(*delayed)) : NULL;

	if (!delayed) {
		client_fatal(client, err);
		return;
	}
	if (clients->delayed_count >= DELAYED_MAX)
		cut_delay(clients);
	delayed->client = client;
	delayed->err = *err;
	delayed->failures = count_failure(client);
	TAILQ_INSERT_TAIL(&clients->delayed_logins, delayed, node);
	clients->delayed_count++;
	client->login->delayed = delayed;
	auth_server_free(&client->login->auth); /* frees secrets early */
	client_release_admission(client);
	client_enter(client, CLIENT_DELAYED);
	set_timer(client, delay);
	if (!stream_want(&client->stream, WANT_END))
		client_close(client, CLOSE_NOT_WATCHED);
}
