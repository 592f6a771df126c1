/* SPDX-License-Identifier: ISC */
/*
 * The time limits of a server: when those of the query and the transaction that it runs begin and
 * end, and what happens when one has passed.
 */
#include "pgweir/base/container_of.h"

#include "server_priv.h"

void server_connect_due(struct timer *timer)
{
	struct server *server = container_of(timer, struct server, timer);

	if (server->state == SERVER_CHECKING)
		server_close_for(server, CLOSE_CHECK_TIMEOUT);
	else if (server->state == SERVER_RESETTING)
		server_close_for(server, CLOSE_RESET_TIMEOUT);
	else if (server->state == SERVER_LENT)
		server_close_for(server, CLOSE_PARAMETERS_TIMEOUT);
	else if (server->login && server->login->dial.is_active)
		server_close_with(server, ERR_SERVER_CONNECT,
		                  "connect failed: Connection timed out");
	else
		server_close_for(server, CLOSE_CONNECT_TIMEOUT);
}

void server_check_due(struct timer *timer)
{
	server_enter(container_of(timer, struct server, timer), SERVER_USED);
}

void server_query_due(struct timer *timer)
{
	struct server *server = container_of(timer, struct server, timer);

	/* Nothing is owed and only the client's Sync is missing: no query is running. */
	if (server->state == SERVER_LENT && ledger_is_empty(&server->ledger)) {
		server->request_at = 0;
		timer_set(timer, server->site->limits.idle_transaction,
		          loop_now(server->site->shared->loop));
		return;
	}
	server_close_for(server, CLOSE_QUERY_TIMEOUT);
}

void server_idle_transaction_due(struct timer *timer)
{
	server_close_for(container_of(timer, struct server, timer), CLOSE_IDLE_TRANSACTION);
}

void server_transaction_due(struct timer *timer)
{
	server_close_for(container_of(timer, struct server, xact), CLOSE_TRANSACTION_TIMEOUT);
}

/* No query_timeout for replication: a stream or a base backup is no query. */
static struct timer_queue *query_limit(const struct server *server)
{
	return server->replication ? NULL : server->site->limits.query;
}

static struct timer_queue *transaction_limit(const struct server *server)
{
	return server->replication ? NULL : server->site->limits.transaction;
}

void server_begin_query(struct server *server, usec_t query_since, usec_t xact_since)
{
	if (query_limit(server) || timer_is_set(&server->timer))
		timer_set(&server->timer, query_limit(server), query_since);
	if (transaction_limit(server) && !timer_is_set(&server->xact))
		timer_set(&server->xact, transaction_limit(server), xact_since);
	server->request_at = query_since;
	server->xact_at = xact_since;
	server->is_ready = false;
}

void server_end_transaction(struct server *server, bool is_settled)
{
	server->xact_at = is_settled ? 0 : loop_now(server->site->shared->loop);
	timer_set(&server->xact, is_settled ? NULL : transaction_limit(server), server->xact_at);
}

void server_begin_limit(struct server *server)
{
	server->is_limited = true;
	timer_set(&server->timer, server->site->limits.connect,
	          loop_now(server->site->shared->loop));
}

void server_end_limit(struct server *server)
{
	server->is_limited = false;
	timer_clear(&server->timer);
}

void server_rearm(struct server *server)
{
	const struct server_limits *limits = &server->site->limits;

	if (server->state == SERVER_CHECKING || server->state == SERVER_RESETTING)
		timer_change(&server->timer, limits->connect);
	else if (server->state != SERVER_LENT)
		server_set_state_timer(server);
	else if (server->errand != ERRAND_NONE || server->is_limited)
		timer_change(&server->timer, limits->connect);
	else if (server->is_ready)
		timer_set(&server->timer, server->status == 'I' ? NULL : limits->idle_transaction,
		          server->used_at);
	else
		timer_set(&server->timer, query_limit(server), server->request_at);
	if (server->state == SERVER_LENT && server->xact_at)
		timer_set(&server->xact, transaction_limit(server), server->xact_at);
	if (server->state != SERVER_CONNECTING && server->state != SERVER_LOGIN)
		timer_set(&server->life, limits->life, server->connected_at);
}
