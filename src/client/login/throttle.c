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
 *
 * All loops count together, under a lock. A client is answered by its own loop, which gets a
 * letter if another one has found it to be the oldest.
 */
#include "pgweir/client/login.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

#include "pgweir/auth/failures.h"
#include "pgweir/base/container_of.h"
#include "pgweir/base/lock.h"

#include "login_priv.h"

#define DELAYED_MAX 256

struct delayed_login {
	TAILQ_ENTRY(delayed_login) node; /* oldest first; under the lock */
	struct client *client;
	struct failure *failure; /* NULL: not counted (Unix socket, or no memory) */
	bool is_early;           /* in the list `early` of its loop; under the lock */
	struct err err;
};

struct throttle {
	pthread_mutex_t lock; /* guards all other fields, and those of each member */
	struct failures failures;
	struct delayed_login_list delayed; /* without those that are answered early */
	unsigned int delayed_count;
	bool is_cut; /* more logins failed than can be delayed, and that was logged */
};

struct throttle *throttle_new(struct err *err)
{
	struct throttle *throttle = calloc(1, sizeof(*throttle));

	if (!throttle) {
		err_set(err, ERR_MEMORY, "out of memory");
		return NULL;
	}
	lock_init(&throttle->lock);
	failures_init(&throttle->failures);
	TAILQ_INIT(&throttle->delayed);
	return throttle;
}

void throttle_free(struct throttle **throttlep)
{
	struct throttle *throttle = *throttlep;

	if (!throttle)
		return;
	assert(TAILQ_EMPTY(&throttle->delayed) && !throttle->failures.table);
	pthread_mutex_destroy(&throttle->lock);
	free(throttle);
	*throttlep = NULL;
}

static struct throttle *lock(const struct clients *clients)
{
	struct throttle *throttle = clients->with.throttle;

	pthread_mutex_lock(&throttle->lock);
	return throttle;
}

static void unlock(struct throttle *throttle) { pthread_mutex_unlock(&throttle->lock); }

static bool is_over(const struct client *client, int limit)
{
	struct throttle *throttle = lock(client->clients);
	bool is_over = failures_reach(&throttle->failures, &client->peer, limit);

	unlock(throttle);
	return is_over;
}

bool throttle_admits(struct client *client)
{
	int limit = client->clients->config->auth_failure_limit;

	if (limit <= 0 || !is_over(client, limit))
		return true;
	limit_event_note(&client->clients->with.told->failures_met,
	                 loop_now(client->clients->with.loop), client->clients->with.log,
	                 &(struct limit_event){ .limit = "auth_failure_limit",
	                                        .value = limit,
	                                        .counted = "failed logins of one address" });
	client_refuse(client, ERR_LIMIT,
	              "too many failed logins from this address, try again later");
	return false;
}

static void take_out(struct throttle *throttle, struct delayed_login *delayed)
{
	assert_locked(&throttle->lock);
	TAILQ_REMOVE(&throttle->delayed, delayed, node);
	throttle->delayed_count--;
	if (throttle->delayed_count <= DELAYED_MAX / 2)
		throttle->is_cut = false;
}

void throttle_drop(struct client *client)
{
	struct clients *clients = client->clients;
	struct delayed_login *delayed = client->login->delayed;
	struct throttle *throttle;

	if (!delayed)
		return;
	client->login->delayed = NULL;
	throttle = lock(clients);
	if (delayed->is_early)
		TAILQ_REMOVE(&clients->throttled.early, delayed, node);
	else
		take_out(throttle, delayed);
	failures_forget(&throttle->failures, delayed->failure);
	unlock(throttle);
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

/* ---- too many ---- */

static struct delayed_login *first_early(struct clients *clients)
{
	struct throttle *throttle = lock(clients);
	struct delayed_login *first = TAILQ_FIRST(&clients->throttled.early);

	unlock(throttle);
	return first;
}

static void answer_early(struct clients *clients)
{
	struct delayed_login *delayed;

	/* Only this loop ends the delays of its clients. */
	while ((delayed = first_early(clients)))
		send_delayed_error(delayed->client);
}

static void on_early(struct letter *letter)
{
	struct clients *clients = container_of(letter, struct clients, throttled.letter);
	struct throttle *throttle = lock(clients);

	clients->throttled.is_posted = false;
	unlock(throttle);
	if (!letter->is_late)
		answer_early(clients);
}

/* Called with the lock held. */
static void post_to(struct clients *clients)
{
	if (clients->throttled.is_posted)
		return;
	clients->throttled.is_posted = true;
	loop_post(clients->with.loop, &clients->throttled.letter);
}

static void answer_oldest_early(struct throttle *throttle, struct clients *here)
{
	struct delayed_login *oldest = TAILQ_FIRST(&throttle->delayed);
	struct clients *clients = oldest->client->clients;

	assert_locked(&throttle->lock);
	take_out(throttle, oldest);
	oldest->is_early = true;
	TAILQ_INSERT_TAIL(&clients->throttled.early, oldest, node);
	if (clients != here)
		post_to(clients);
}

/* Only the first of a series is logged. */
static void say_cut(const struct clients *clients)
{
	const struct logger log = { clients->with.log, NULL };

	log_warning(&log,
	            "more than %d failed logins wait for auth_failure_delay: the oldest "
	            "are answered early; auth_failure_limit bounds those of one address",
	            DELAYED_MAX);
}

static void enlist(struct delayed_login *delayed)
{
	struct client *client = delayed->client;
	struct throttle *throttle = lock(client->clients);
	bool was_cut = throttle->is_cut;
	bool is_full = throttle->delayed_count >= DELAYED_MAX;

	if (is_full) {
		answer_oldest_early(throttle, client->clients);
		throttle->is_cut = true;
	}
	delayed->failure = failures_count(&throttle->failures, &client->peer);
	TAILQ_INSERT_TAIL(&throttle->delayed, delayed, node);
	throttle->delayed_count++;
	unlock(throttle);
	client->login->delayed = delayed;
	if (is_full && !was_cut)
		say_cut(client->clients);
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
	delayed->client = client;
	delayed->err = *err;
	enlist(delayed);
	answer_early(clients);
	auth_server_free(&client->login->auth); /* frees secrets early */
	client_release_admission(client);
	client_enter(client, CLIENT_DELAYED);
	set_timer(client, delay);
	if (!stream_want(&client->stream, WANT_END))
		client_close(client, CLOSE_NOT_WATCHED);
}

/* ---- of one loop ---- */

void throttle_join(struct clients *clients)
{
	TAILQ_INIT(&clients->throttled.early);
	clients->throttled.letter.open = on_early;
}

void throttle_leave(struct clients *clients)
{
	loop_take_back(clients->with.loop, &clients->throttled.letter);
}
