/* SPDX-License-Identifier: ISC */
/*
 * Sends cancel requests to PostgreSQL.
 *
 * Hard here: a cancel hits whatever query its server runs when the request arrives. So the request
 * is sent only while the server is still lent to the borrower that asked for it, or is lent to
 * nobody any more (ENDING). From then until the cancel connection has ended, the server is not lent
 * to another borrower.
 */
#include "pgweir/pool/cancel.h"

#include <stdio.h>

#include "pgweir/base/container_of.h"
#include "pgweir/base/text.h"
#include "pgweir/pgwire/message.h"

#include "pool_priv.h"
#include "server/server_priv.h"

static void free_cancel(struct task *task)
{
	struct cancel *cancel = container_of(task, struct cancel, end_task);
	struct pools *pools = cancel->pool->pools;
	struct pool *pool = cancel->pool;

	slab_put(&pools->cancel_slab, cancel);
	pool->cancel_count--;
	pool_arm_expiry(pool);
}

/*
 * Servers and cancel connections of a pool together may be up to twice pool_size, in all loops. A
 * pool may have more servers (a reserve, a smaller pool_size now, a take-over): one request can go
 * nevertheless.
 */
static bool has_space_for_cancel(const struct pool *pool)
{
	unsigned int cancels = share_cancels(&pool->share);
	unsigned int used = share_servers(&pool->share) + cancels;

	return pool->limits.size == 0 || cancels == 0 || used < 2 * (unsigned int)pool->limits.size;
}

static void pool_ending_told(struct server *server, bool is_delivered);

static void detach_cancel(struct cancel *cancel)
{
	struct pool *pool = cancel->pool;
	struct server *server = cancel->server;

	if (cancel->is_active) {
		bool was_full = !has_space_for_cancel(pool);

		TAILQ_REMOVE(&pool->cancels_active, cancel, node);
		pool->cancel_active_count--;
		share_count_cancel(&pool->share, -1);
		if (was_full)
			share_wake_others(&pool->share); /* cancel requests may wait there */
	} else {
		TAILQ_REMOVE(&pool->cancels_waiting, cancel, node);
		pool->cancel_waiting_count--;
	}
	pool->pools->cancel_count--;
	timer_clear(&cancel->wait);
	timer_clear(&cancel->way);
	dial_cancel(&cancel->dial);
	stream_close(&cancel->stream);
	farewell_end(&cancel->farewell);
	cancel->server = NULL;
	if (!server)
		return;
	server->lease.cancel_count -= cancel->is_sent;
	if (server->lease.cancel_count)
		return;
	if (!cancel->is_sent && cancel->target)
		return;
	if (server->state == SERVER_ENDING)
		pool_ending_told(server, cancel->is_sent);
	else if (server->state == SERVER_CANCELED)
		pool_home(server);
	/* The borrower may have waited for this to return the server. */
	else if (server->state == SERVER_LENT && server->lease.borrower && server->wire.is_ready)
		server->lease.borrower->ops->on_writable(server->lease.borrower);
}

static void finish_cancel(struct cancel *cancel)
{
	if (cancel->is_ended)
		return;
	cancel->is_ended = true;
	detach_cancel(cancel);
	cancel->end_task.run = free_cancel;
	loop_defer(cancel->pool->pools->with.loop, &cancel->end_task);
	pool_wake(cancel->pool);
	if (cancel->on_end)
		cancel->on_end(cancel->arg);
}

/* Logs each request that was sent or timed out: where the request came from, and its server. */
static void log_cancel(const struct cancel *cancel, const char *what)
{
	const struct server *server = cancel->server;
	char address[ADDRESS_TEXT_SIZE];

	log_info(&cancel->pool->log, "%s, asked by %s, for server %s, pid %u", what, cancel->asker,
	         address_format(&cancel->address, address, sizeof(address)),
	         server && server->key.size >= 4 ? load_be32((const char *)server->key.bytes) : 0);
}

static void on_cancel_wait_over(struct timer *timer)
{
	struct cancel *cancel = container_of(timer, struct cancel, wait);

	log_cancel(cancel, "cancel request not sent within cancel_wait_timeout");
	finish_cancel(cancel);
}

static void on_cancel_way_over(struct timer *timer)
{
	struct cancel *cancel = container_of(timer, struct cancel, way);

	log_cancel(cancel,
	           cancel->is_sent
	               ? "cancel request sent, and not dealt with within server_connect_timeout"
	               : "cancel request not sent within server_connect_timeout");
	/* It may still arrive, and would cancel the next borrower's query. */
	if (cancel->is_sent && cancel->server)
		server_need_close(cancel->server, CLOSE_CANCEL_UNDER_WAY);
	finish_cancel(cancel);
}

/* Whether the server still runs the query that is to be cancelled. */
static bool is_wanted(const struct cancel *cancel)
{
	const struct server *server = cancel->server;

	if (server && server->state == SERVER_ENDING)
		return true; /* nobody gets it any more */
	return server && server->state == SERVER_LENT && server->lease.borrower == cancel->target &&
	       server->orders.running == ORDER_NONE;
}

static void fail_cancel(struct cancel *cancel, const struct err *err)
{
	log_info(&cancel->pool->log, "failed cancel request: %s, asked by %s", err->text,
	         cancel->asker);
	finish_cancel(cancel);
}

static void send_cancel_key(struct cancel *cancel)
{
	struct buf out = { 0 };

	if (!is_wanted(cancel)) {
		finish_cancel(cancel);
		return;
	}
	message_cancel(&out, bytes_of(cancel->server->key.bytes, cancel->server->key.size));
	cancel->is_sent = true;
	cancel->server->lease.cancel_count++;
	timer_clear(&cancel->wait);
	if (!buf_ok(&out) || !stream_send(&cancel->stream, buf_bytes(&out)) ||
	    !stream_want(&cancel->stream, WANT_INPUT))
		finish_cancel(cancel);
	buf_wipe(&out);
}

/* ---- connecting ---- */

/* If the server is encrypted, the cancel connection must be, too: the key must not be readable. */
static struct securing_how cancel_securing(const struct cancel *cancel)
{
	const struct server *server = cancel->server;
	const struct stream *like =
	    stream_is_encrypted(&server->wire.stream) ? &server->wire.stream : NULL;

	return (struct securing_how){ .like = like,
		                      .is_required = true,
		                      .is_direct = server->is_tls_direct };
}

/* PostgreSQL sends no reply; it closes the connection when the signal was sent. */
static void finish_delivered(struct cancel *cancel)
{
	log_cancel(cancel, "cancel request delivered");
	finish_cancel(cancel);
}

static void on_cancel_input(struct stream *stream)
{
	struct cancel *cancel = container_of(stream, struct cancel, stream);
	struct securing_how how;
	struct bytes in;

	if (cancel->is_sent) {
		if (stream_read(stream, &in) == STREAM_END)
			finish_delivered(cancel);
		return;
	}
	if (!is_wanted(cancel)) {
		finish_cancel(cancel);
		return;
	}
	how = cancel_securing(cancel);
	securing_answer(stream, &how);
}

static void on_cancel_gone(struct stream *stream)
{
	struct cancel *cancel = container_of(stream, struct cancel, stream);

	if (cancel->is_sent)
		finish_delivered(cancel);
	else
		finish_cancel(cancel);
}

static void on_cancel_secured(struct stream *stream, const struct err *err)
{
	struct cancel *cancel = container_of(stream, struct cancel, stream);

	if (err)
		fail_cancel(cancel, err);
	else
		send_cancel_key(cancel);
}

static const struct stream_ops ops = { .on_input = on_cancel_input,
	                               .on_gone = on_cancel_gone,
	                               .on_secured = on_cancel_secured };

static void on_cancel_connected(struct dial *dial, int fd, const struct err *failure)
{
	struct cancel *cancel = container_of(dial, struct cancel, dial);
	struct pools *pools = cancel->pool->pools;
	struct securing_how how;

	if (fd < 0) {
		fail_cancel(cancel, failure);
		return;
	}
	stream_open(&cancel->stream, pools->with.loop, pools->with.streams, fd, &ops);
	if (!is_wanted(cancel)) {
		finish_cancel(cancel);
		return;
	}
	how = cancel_securing(cancel);
	securing_begin(&cancel->stream, &how);
}

static void launch_cancel(struct cancel *cancel)
{
	struct pool *pool = cancel->pool;
	struct pools *pools = pool->pools;
	const struct address *peer = &cancel->server->place.peer;
	char path[sizeof(cancel->server->place.path)];

	TAILQ_REMOVE(&pool->cancels_waiting, cancel, node);
	pool->cancel_waiting_count--;
	TAILQ_INSERT_TAIL(&pool->cancels_active, cancel, node);
	pool->cancel_active_count++;
	share_count_cancel(&pool->share, 1);
	cancel->is_active = true;
	timer_begin(&cancel->way, pools->with.loop, pools->config->server_connect_timeout,
	            on_cancel_way_over);
	if (address_is_unix(peer)) {
		snprintf(path, sizeof(path), "%s", cancel->server->place.path);
		dial_start_unix(&cancel->dial, pools->with.loop, path, on_cancel_connected);
	} else {
		dial_start(&cancel->dial, pools->with.loop, peer, &pools->server_sockets,
		           on_cancel_connected);
	}
}

void cancel_serve(struct pool *pool)
{
	struct cancel *cancel;

	while ((cancel = TAILQ_FIRST(&pool->cancels_waiting)) && has_space_for_cancel(pool)) {
		if (is_wanted(cancel))
			launch_cancel(cancel);
		else
			finish_cancel(cancel);
	}
}

/* target: NULL if the server is ENDING. */
static struct cancel *start(struct server *server, const struct borrower *target, const char *asker,
                            struct err *err)
{
	struct pool *pool = server->pool;
	struct cancel *cancel = slab_take(&pool->pools->cancel_slab);

	if (!cancel) {
		err_set(err, ERR_MEMORY, "out of memory");
		return NULL;
	}
	*cancel = (struct cancel){
		.pool = pool,
		.server = server,
		.target = target,
		.farewell = { .fd = -1 },
		.address = server->place.peer,
	};
	text_copy(cancel->asker, sizeof(cancel->asker), asker);
	TAILQ_INSERT_TAIL(&pool->cancels_waiting, cancel, node);
	pool->cancel_waiting_count++;
	pool->cancel_count++;
	pool->pools->cancel_count++;
	timer_begin(&cancel->wait, pool->pools->with.loop, pool->pools->config->cancel_wait_timeout,
	            on_cancel_wait_over);
	cancel_serve(pool);
	if (cancel->is_ended) {
		err_close(err, CLOSE_CANCEL_FAILED);
		return NULL;
	}
	return cancel;
}

struct cancel *cancel_start(struct borrower *target, const char *asker, void (*on_end)(void *arg),
                            void *arg, struct err *err)
{
	struct server *server = target->server;
	struct cancel *cancel;

	if (!server || server_is_between_transactions(server)) {
		err_close(err, CLOSE_CANCEL_IDLE);
		return NULL;
	}
	if (server->orders.running != ORDER_NONE) {
		err_close(err, CLOSE_CANCEL_SETTING);
		return NULL;
	}
	cancel = start(server, target, asker, err);
	if (cancel) {
		cancel->on_end = on_end;
		cancel->arg = arg;
	}
	return cancel;
}

void cancel_keep_asker(struct cancel *cancel, struct farewell *farewell)
{
	cancel->farewell = *farewell;
	*farewell = (struct farewell){ .fd = -1 };
}

void cancel_rearm_waiting(struct pool *pool)
{
	struct pools *pools = pool->pools;
	struct timer_queue *line = loop_timer_queue(
	    pools->with.loop, pools->config->cancel_wait_timeout, on_cancel_wait_over);
	struct cancel *cancel;

	TAILQ_FOREACH (cancel, &pool->cancels_waiting, node)
		timer_change(&cancel->wait, line);
	TAILQ_FOREACH (cancel, &pool->cancels_active, node) {
		if (!cancel->is_sent)
			timer_change(&cancel->wait, line);
	}
}

void cancel_drop(struct cancel *cancel)
{
	cancel->on_end = NULL;
	if (!cancel->is_sent)
		finish_cancel(cancel);
}

/* Ends cancels in `list` for this server: it is being freed, or was returned by the borrower. */
static void forget_in(struct cancel_list *list, const struct borrower *target,
                      const struct server *server)
{
	struct cancel *cancel, *next;

	TAILQ_FOREACH_SAFE (cancel, list, node, next) {
		if (server && cancel->server == server)
			cancel->server = NULL;
		if (target && cancel->target == target && !cancel->is_sent)
			finish_cancel(cancel);
	}
}

void cancel_forget_target(struct borrower *target, struct pool *pool)
{
	forget_in(&pool->cancels_waiting, target, NULL);
	forget_in(&pool->cancels_active, target, NULL);
}

void cancel_forget_server(struct server *server)
{
	forget_in(&server->pool->cancels_waiting, NULL, server);
	forget_in(&server->pool->cancels_active, NULL, server);
}

void cancel_drop_all(struct pool *pool)
{
	struct cancel *cancel;

	while ((cancel = TAILQ_FIRST(&pool->cancels_waiting)) ||
	       (cancel = TAILQ_FIRST(&pool->cancels_active))) {
		cancel->on_end = NULL;
		finish_cancel(cancel);
		loop_undefer(pool->pools->with.loop, &cancel->end_task);
		slab_put(&pool->pools->cancel_slab, cancel);
		pool->cancel_count--;
	}
}

/*
 * ---- endings ----
 *
 * A server that nobody waits for while PostgreSQL works for it: the statement is cancelled first.
 *
 *   ENDING --> cancel request --> server_canceled() --> cleaned, or Terminate: server_ending.c
 *                    ^                |
 *                    +--- a second ---+
 *
 * PostgreSQL notices that a connection is gone only when it has something to send. Until it has
 * ended the statement, its process counts for its limits, so the server counts for ours.
 *
 * Hard here: a request may arrive before the statement has begun, or between two statements that
 * were sent at once, and then it cancels nothing. So it is repeated until the connection has ended,
 * or the cleaning has begun. Terminate follows the first request: a pooler in PostgreSQL's place
 * forgets the key with it.
 */

#define AGAIN_AFTER USEC_PER_SEC
#define MOST (10 * USEC_PER_SEC) /* what happens without cancel_wait_timeout, too */

static void cancel_statement(struct server *server)
{
	char asker[CANCEL_ASKER_SIZE];
	struct err err;

	snprintf(asker, sizeof(asker), "pgweir because: %s",
	         close_reason_row(server->close_reason)->words);
	/* pool_ending_told() comes, and may have come before this fails */
	if (!start(server, NULL, asker, &err) && server->state == SERVER_ENDING)
		server_give_up(server);
}

static void on_again(struct timer *timer);

/* A client that has left may be given time: its statement runs on, and what ends it waits behind.
 */
static bool may_run_on(struct server *server)
{
	usec_t limit = server->pool->pools->config->cancel_abandoned;

	if (server->close_reason != CLOSE_CLIENT_LEFT || !limit)
		return false;
	timer_clear(&server->timer); /* it is set when the request is made */
	timer_begin(&server->xact, pool_loop(server->pool), limit, on_again);
	return true;
}

void pool_begin_ending(struct server *server, enum ending_how how)
{
	bool must_cancel = server_begin_ending(server, how);

	pool_disown(server);
	if (server->lease.vacancy)
		vacancy_forget(server);
	if (server->pool->pools->is_closing || !pool_host_answers(server)) {
		server_say_goodbye(server); /* nobody waits for what it does */
		server_give_up(server);
	} else if (!must_cancel || may_run_on(server)) {
		server_canceled(server);
	} else if (!server->lease.cancel_count) { /* a request of the client's may be under way */
		cancel_statement(server);
	}
}

static void on_again(struct timer *timer)
{
	struct server *server = container_of(timer, struct server, xact);

	if (!timer_is_set(&server->timer))
		server_set_state_timer(server);
	/* A request would cancel the cleaning. */
	if (server->wire.ending.how != ENDING_CLEANS || !server->wire.ending.cleaned)
		cancel_statement(server);
}

/* A cancel request for it was delivered, or could not be. */
static void pool_ending_told(struct server *server, bool is_delivered)
{
	struct loop *loop = pool_loop(server->pool);

	if (server->wire.ending.how == ENDING_LEAVES)
		return; /* it was the client's, and Terminate was sent */
	if (!is_delivered) {
		server_give_up(server); /* nothing answers there */
		return;
	}
	server_canceled(server);
	if (server->state != SERVER_ENDING)
		return;
	timer_begin(&server->xact, loop, AGAIN_AFTER, on_again);
}

static void on_ending_over(struct timer *timer)
{
	struct server *server = container_of(timer, struct server, timer);

	log_warning(&server->log,
	            "PostgreSQL has not ended the %s within cancel_wait_timeout, or 10 s",
	            server->wire.ending.how == ENDING_LEAVES ? "session" : "statement");
	server_forget(server);
}

static void on_grace_over(struct timer *timer)
{
	server_keep_not(container_of(timer, struct server, timer));
}

struct timer_queue *pool_grace_limit(const struct pool *pool)
{
	return loop_timer_queue(pool_loop(pool), pool->pools->config->cancel_grace, on_grace_over);
}

struct timer_queue *pool_ending_limit(const struct pool *pool)
{
	usec_t limit = pool->pools->config->cancel_wait_timeout;

	return loop_timer_queue(pool_loop(pool), limit && limit < MOST ? limit : MOST,
	                        on_ending_over);
}
