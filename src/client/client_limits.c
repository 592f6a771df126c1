/* SPDX-License-Identifier: ISC */
/*
 * Time limits of a client without a server: of its login, of idle time, of waiting. A client has
 * one timer, for the limit of its state.
 */
#include "pgweir/config/entries.h"
#include "pgweir/base/container_of.h"
#include "pgweir/pgwire/message.h"

#include "client_priv.h"

/* ---- login ---- */

usec_t client_login_due(const struct client *client)
{
	usec_t limit = client->clients->config->client_login_timeout;

	return limit ? client->connected_at + limit : 0;
}

static void on_login_due(struct timer *timer)
{
	struct client *client = container_of(timer, struct client, timer);

	if (client->state == CLIENT_NEWCOMER)
		client_give_up(client, CLOSE_LOGIN_TIMEOUT_SERVER);
	else
		client_refuse_for(client, CLOSE_LOGIN_TIMEOUT);
}

void client_login_begin(struct client *client)
{
	struct clients *clients = client->clients;

	timer_set(&client->timer,
	          loop_timer_queue(clients->with.loop, clients->config->client_login_timeout,
	                           on_login_due),
	          client->connected_at);
}

/* ---- idle ---- */

static void on_idle_due(struct timer *timer)
{
	client_refuse_for(container_of(timer, struct client, timer), CLOSE_CLIENT_IDLE_TIMEOUT);
}

static usec_t idle_limit(const struct client *client)
{
	return config_client_idle_timeout(client->clients->config, client->role->entry);
}

void client_idle_begin(struct client *client)
{
	struct loop *loop = client->clients->with.loop;
	usec_t limit = idle_limit(client);

	if (limit || timer_is_set(&client->timer))
		timer_set(&client->timer, loop_timer_queue(loop, limit, on_idle_due),
		          loop_now(loop));
}

void client_idle_resume(struct client *client, usec_t since)
{
	struct loop *loop = client->clients->with.loop;

	timer_set(&client->timer, loop_timer_queue(loop, idle_limit(client), on_idle_due), since);
}

usec_t client_idle_since(const struct client *client)
{
	usec_t now = loop_now(client->clients->with.loop), since = now;

	if (timer_is_set(&client->timer))
		since = client->timer.due - idle_limit(client);
	/* A changed limit is not in all timers yet. */
	return since > 0 && since < now ? since : now;
}

void client_idle_rearm(struct client *client)
{
	struct loop *loop = client->clients->with.loop;

	timer_change(&client->timer, loop_timer_queue(loop, idle_limit(client), on_idle_due));
}

/* ---- waiting ---- */

void client_hurry(struct client *client)
{
	pool_hurry(&client->borrower,
	           config_fail_fast(client->clients->config, client->database->entry,
	                            client->role->entry));
}

static void arm_wait(struct client *client, usec_t since);

/* A statement that has waited for a place is refused instead, which needs a server. */
static void on_wait_due(struct timer *timer)
{
	struct client *client = container_of(timer, struct client, timer);

	if (pool_forgo_place(&client->borrower))
		arm_wait(client, loop_now(client->clients->with.loop));
	else
		client_give_up(client, CLOSE_QUERY_WAIT_TIMEOUT);
}

static void on_query_due(struct timer *timer)
{
	client_give_up(container_of(timer, struct client, timer), CLOSE_QUERY_TIMEOUT_WAITING);
}

/* Sets the limit of waiting: query_wait_timeout, or query_timeout if that is shorter. */
static void arm_wait(struct client *client, usec_t since)
{
	const struct config *config = client->clients->config;
	struct loop *loop = client->clients->with.loop;
	usec_t wait =
	    config_query_wait_timeout(config, client->database->entry, client->role->entry);
	usec_t query = config_query_timeout(config, client->role->entry);

	if (query && (!wait || query < wait))
		timer_set(&client->timer, loop_timer_queue(loop, query, on_query_due), since);
	else
		timer_set(&client->timer, loop_timer_queue(loop, wait, on_wait_due), since);
}

static void on_notify_due(struct timer *timer)
{
	struct client *client = container_of(timer, struct client, timer);
	struct buf out = { 0 };

	arm_wait(client, client->request_at);
	client->was_notified = true;
	message_notice(&out, &(struct report){
				 .severity = "NOTICE",
				 .sqlstate = "00000",
				 .text = "No server connection available in postgres backend, "
					 "client being queued",
			     });
	if (buf_ok(&out))
		client_send(client, buf_bytes(&out));
	buf_free(&out);
}

void client_wait_begin(struct client *client)
{
	const struct config *config = client->clients->config;
	struct loop *loop = client->clients->with.loop;
	usec_t notify = config->query_wait_notify;

	arm_wait(client, client->request_at);
	if (!notify || client->was_notified)
		return;
	/* The timer is for the notice if the notice is due first. */
	if (!timer_is_set(&client->timer) || client->timer.due > client->request_at + notify)
		timer_set(&client->timer, loop_timer_queue(loop, notify, on_notify_due),
		          client->request_at);
}

/* The limit of the login still applies: the one that ends first counts. */
void client_newcomer_begin(struct client *client)
{
	usec_t login_due = client_login_due(client);

	if (client->borrower
	        .server) { /* it tries the client's parameters, with a limit of its own */
		client_login_begin(client);
		return;
	}
	arm_wait(client, client->borrower.waiting_since);
	if (login_due && (!timer_is_set(&client->timer) || login_due < client->timer.due))
		client_login_begin(client);
}

void client_newcomer_rearm(struct client *client)
{
	client_hurry(client);
	client_newcomer_begin(client);
}

void client_wait_rearm(struct client *client)
{
	client_hurry(client);
	client_wait_begin(client);
}
