/* SPDX-License-Identifier: ISC */
/*
 * Wrong secrets: answered later, as failed logins of clients are (auth_failure_delay), and bounded
 * for each address (auth_failure_limit). client/login/throttle.c says why a secret is looked at
 * only if its failure can still be delayed.
 *
 * There are never more than DELAYED_MAX: for one more, the oldest is answered early.
 */
#include <stdlib.h>

#include "pgweir/base/container_of.h"

#include "web_priv.h"

#define DELAYED_MAX 32 /* half of all answers that are being made */

struct wrong_secret {
	struct answer_maker maker;
	TAILQ_ENTRY(wrong_secret) node; /* oldest first */
	struct wrong_secrets *secrets;
	struct connection *connection;
	struct failure *failure;
	struct timer timer;
};

void wrong_secrets_init(struct wrong_secrets *secrets, struct loop *loop)
{
	secrets->loop = loop;
	failures_init(&secrets->failures);
	TAILQ_INIT(&secrets->list);
}

static void free_secret(struct wrong_secret *secret)
{
	struct wrong_secrets *secrets = secret->secrets;

	TAILQ_REMOVE(&secrets->list, secret, node);
	secrets->count--;
	failures_forget(&secrets->failures, secret->failure);
	timer_clear(&secret->timer);
	free(secret);
}

static void on_secret_gone(struct answer_maker *maker)
{
	free_secret(container_of(maker, struct wrong_secret, maker));
}

static void refuse_now(struct wrong_secret *secret)
{
	struct connection *connection = secret->connection;

	free_secret(secret);
	connection_answer_error(connection, 401, WRONG_SECRET_TEXT, NULL);
}

static void on_secret_due(struct timer *timer)
{
	refuse_now(container_of(timer, struct wrong_secret, timer));
}

void wrong_secrets_answer(struct wrong_secrets *secrets, struct connection *connection,
                          usec_t delay)
{
	struct wrong_secret *secret = delay > 0 ? calloc(1, sizeof(*secret)) : NULL;

	if (!secret) {
		connection_answer_error(connection, 401, WRONG_SECRET_TEXT, NULL);
		return;
	}
	if (secrets->count >= DELAYED_MAX)
		refuse_now(TAILQ_FIRST(&secrets->list));
	secret->maker.on_gone = on_secret_gone;
	secret->secrets = secrets;
	secret->connection = connection;
	secret->failure = failures_count(&secrets->failures, &connection->peer);
	TAILQ_INSERT_TAIL(&secrets->list, secret, node);
	secrets->count++;
	connection_keep(connection, &secret->maker);
	timer_set(&secret->timer, loop_timer_queue(secrets->loop, delay, on_secret_due),
	          loop_now(secrets->loop));
}
