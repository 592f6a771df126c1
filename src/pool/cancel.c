/* SPDX-License-Identifier: ISC */
/*
 * Sends cancel requests to PostgreSQL, and what requests to peers have in common with them.
 *
 * Hard here: a cancel hits whatever query its server runs when the request arrives. So the request
 * is sent only while the server is still lent to the borrower that asked for it, or is lent to
 * nobody any more (ENDING). From then until the cancel connection has ended, the server is not lent
 * to another borrower.
 */
#include "pgweir/pool/cancel.h"

#include <assert.h>
#include <stdio.h>

#include "pgweir/base/text.h"
#include "pgweir/pgwire/message.h"

#include "pool_priv.h"
#include "server/server_priv.h"

/* ---- the way of a request ---- */

static struct loop *loop_of(const struct cancel *cancel)
{
	return cancel->queue->pools->shared.loop;
}

static void free_ended(struct task *task)
{
	struct pools *pools = container_of(task, struct pools, cancel_task);
	struct cancel *cancel;

	while ((cancel = TAILQ_FIRST(&pools->cancels_ended))) {
		TAILQ_REMOVE(&pools->cancels_ended, cancel, node);
		slab_put(cancel->slab, cancel);
	}
}

void cancel_enter(struct cancel *cancel, enum cancel_state next)
{
	struct cancel_queue *queue = cancel->queue;
	enum cancel_state from = cancel->state;

	assert(next > from);
	TAILQ_REMOVE(&queue->lists[from], cancel, node);
	queue->counts[from]--;
	if (next == CANCEL_ENDED) {
		TAILQ_INSERT_TAIL(&queue->pools->cancels_ended, cancel, node);
		queue->count--;
	} else {
		TAILQ_INSERT_TAIL(&queue->lists[next], cancel, node);
		queue->counts[next]++;
	}
	cancel->state = next;
	cancel->ops->on_state(cancel, from);
}

void cancel_finish(struct cancel *cancel)
{
	if (cancel->state == CANCEL_ENDED)
		return;
	timer_clear(&cancel->wait);
	timer_clear(&cancel->way);
	dial_cancel(&cancel->dial);
	stream_close(&cancel->stream);
	loop_defer(loop_of(cancel), &cancel->queue->pools->cancel_task);
	cancel_enter(cancel, CANCEL_ENDED);
	if (cancel->on_end)
		cancel->on_end(cancel->arg);
}

static void end(struct cancel *cancel, enum cancel_end how, const char *text)
{
	cancel->ops->tell(cancel, how, text);
	cancel_finish(cancel);
}

void cancel_fail(struct cancel *cancel, const char *text) { end(cancel, CANCEL_FAILED, text); }

static void on_wait_over(struct timer *timer)
{
	end(container_of(timer, struct cancel, wait), CANCEL_WAIT_OVER, NULL);
}

static void on_way_over(struct timer *timer)
{
	end(container_of(timer, struct cancel, way), CANCEL_WAY_OVER, NULL);
}

static void send_key(struct cancel *cancel, struct bytes key)
{
	struct buf out = { 0 };

	message_cancel(&out, key);
	cancel_enter(cancel, CANCEL_SENT);
	if (!buf_ok(&out) || !stream_send(&cancel->stream, buf_bytes(&out)) ||
	    !stream_want(&cancel->stream, WANT_INPUT))
		cancel_fail(cancel, "the connection was closed");
	buf_wipe(&out);
}

/* The next step of a connection that has not sent the key; NULL: the handshake is over. */
static void go_on(struct cancel *cancel,
                  void (*step)(struct stream *stream, const struct securing_how *how))
{
	struct securing_how how = { 0 };
	struct bytes key;

	if (!cancel->ops->prepare(cancel, &key, &how))
		cancel_finish(cancel);
	else if (step)
		step(&cancel->stream, &how);
	else
		send_key(cancel, key);
}

/* Nothing is sent in reply: the connection is closed when the request was dealt with. */
static void on_cancel_input(struct stream *stream)
{
	struct cancel *cancel = container_of(stream, struct cancel, stream);
	struct bytes in;

	if (cancel->state != CANCEL_SENT)
		go_on(cancel, securing_answer);
	else if (stream_read(stream, &in) == STREAM_END)
		end(cancel, CANCEL_DELIVERED, NULL);
}

static void on_cancel_gone(struct stream *stream)
{
	struct cancel *cancel = container_of(stream, struct cancel, stream);

	if (cancel->state == CANCEL_SENT)
		end(cancel, CANCEL_DELIVERED, NULL);
	else
		cancel_finish(cancel);
}

static void on_cancel_secured(struct stream *stream, const struct err *err)
{
	struct cancel *cancel = container_of(stream, struct cancel, stream);

	if (err)
		cancel_fail(cancel, err->text);
	else
		go_on(cancel, NULL);
}

static const struct stream_ops stream_ops = { .on_input = on_cancel_input,
	                                      .on_gone = on_cancel_gone,
	                                      .on_secured = on_cancel_secured };

static void on_connected(struct dial *dial, int fd, const struct err *err)
{
	struct cancel *cancel = container_of(dial, struct cancel, dial);

	if (fd < 0) {
		cancel_fail(cancel, err->text);
		return;
	}
	stream_open(&cancel->stream, loop_of(cancel), cancel->queue->pools->shared.streams, fd,
	            &stream_ops);
	go_on(cancel, securing_begin);
}

void cancel_launch(struct cancel *cancel)
{
	timer_begin(&cancel->way, loop_of(cancel),
	            cancel->queue->pools->config->server_connect_timeout, on_way_over);
	cancel_enter(cancel, CANCEL_CONNECTING);
}

void cancel_connect(struct cancel *cancel, const struct address *address, const char *path)
{
	dial_start(&cancel->dial, loop_of(cancel), address, path,
	           &cancel->queue->pools->server_sockets, on_connected);
}

void cancel_drop(struct cancel *cancel)
{
	cancel->on_end = NULL;
	if (cancel->state != CANCEL_SENT)
		cancel_finish(cancel);
}

/* ---- queues ---- */

void cancel_add(struct cancel *cancel, struct cancel_queue *queue, const struct cancel_ops *ops,
                struct slab *slab)
{
	cancel->queue = queue;
	cancel->ops = ops;
	cancel->slab = slab;
	TAILQ_INSERT_TAIL(&queue->lists[CANCEL_WAITING], cancel, node);
	queue->counts[CANCEL_WAITING]++;
	queue->count++;
	timer_begin(&cancel->wait, loop_of(cancel), queue->pools->config->cancel_wait_timeout,
	            on_wait_over);
}

void cancel_queue_init(struct cancel_queue *queue, struct pools *pools)
{
	queue->pools = pools;
	for (int state = 0; state < CANCEL_ENDED; state++)
		TAILQ_INIT(&queue->lists[state]);
}

void cancel_queue_drop(struct cancel_queue *queue)
{
	struct cancel *cancel;

	for (int state = 0; state < CANCEL_ENDED; state++) {
		while ((cancel = TAILQ_FIRST(&queue->lists[state]))) {
			cancel->on_end = NULL;
			cancel_finish(cancel);
		}
	}
}

void cancel_queue_rearm(struct cancel_queue *queue)
{
	struct pools *pools = queue->pools;
	struct timer_queue *line =
	    loop_timer_queue(pools->shared.loop, pools->config->cancel_wait_timeout, on_wait_over);

	TAILQ_EACH (cancel, &queue->lists[CANCEL_WAITING], node)
		timer_change(&cancel->wait, line);
	TAILQ_EACH (cancel, &queue->lists[CANCEL_CONNECTING], node) {
		if (timer_is_set(&cancel->wait))
			timer_change(&cancel->wait, line);
	}
}

/* ---- requests to PostgreSQL ---- */

struct server_cancel {
	struct cancel cancel;
	struct server *server; /* the server lent to `target`; NULL: that one is gone */
	/* whose query is cancelled; only compared, never called. NULL: an ending */
	const struct borrower *target;
	struct farewell farewell; /* the connection of the request, if another process got it */
	struct address address;
	char asker[CANCEL_ASKER_SIZE]; /* where the request came from, for the log */
};

static struct server_cancel *of_server(const struct cancel *cancel)
{
	return container_of(cancel, struct server_cancel, cancel);
}

static struct pool *pool_of(const struct cancel *cancel)
{
	return container_of(cancel->queue, struct pool, cancels);
}

/*
 * Servers and cancel connections of a pool together may be up to twice pool_size, in all loops. A
 * pool may have more servers (a reserve, a smaller pool_size now, a take-over): one request can go
 * nevertheless.
 */
static bool has_space_for_cancel(const struct pool *pool)
{
	unsigned int cancels = pool->share.tally->cancel_count;
	unsigned int used = share_servers(&pool->share) + cancels;

	return pool->limits.size == 0 || cancels == 0 || used < 2 * (unsigned int)pool->limits.size;
}

static void count_connection(struct pool *pool, int change)
{
	bool was_full = !has_space_for_cancel(pool);

	pool->share.tally->cancel_count += (unsigned int)change;
	if (change < 0 && was_full)
		share_wake_others(&pool->share); /* cancel requests may wait there */
}

static void pool_ending_told(struct server *server, bool is_delivered);

/* The request has ended. */
static void settle_server(const struct server_cancel *cancel, bool was_sent)
{
	struct server *server = cancel->server;

	server->lease.cancel_count -= was_sent;
	if (server->lease.cancel_count || (!was_sent && cancel->target))
		return;
	if (server->state == SERVER_ENDING)
		pool_ending_told(server, was_sent);
	else if (server->state == SERVER_CANCELED)
		pool_home(server);
	/* The borrower may have waited for this to return the server. */
	else if (server->state == SERVER_LENT && server->lease.borrower && server->wire.is_ready)
		server->lease.borrower->ops->on_writable(server->lease.borrower);
}

static void on_cancel_state(struct cancel *cancel, enum cancel_state from)
{
	struct server_cancel *its = of_server(cancel);
	struct pool *pool = pool_of(cancel);

	switch (cancel->state) {
	case CANCEL_CONNECTING:
		count_connection(pool, 1);
		break;
	case CANCEL_SENT:
		timer_clear(&cancel->wait);
		its->server->lease.cancel_count++;
		break;
	default:
		if (from != CANCEL_WAITING)
			count_connection(pool, -1);
		farewell_end(&its->farewell);
		if (its->server)
			settle_server(its, from == CANCEL_SENT);
		pool_arm_expiry(pool);
		pool_wake(pool);
	}
}

/* Logs where the request came from, and its server. */
static void tell_cancel(struct cancel *cancel, enum cancel_end end, const char *text)
{
	static const char *const words[] = {
		[CANCEL_DELIVERED] = "delivered",
		[CANCEL_WAIT_OVER] = "not sent within cancel_wait_timeout",
		[CANCEL_WAY_OVER] = "not sent within server_connect_timeout",
	};
	const struct server_cancel *its = of_server(cancel);
	const struct logger *log = &pool_of(cancel)->log;
	struct server *server = its->server;
	bool is_late = end == CANCEL_WAY_OVER && cancel->state == CANCEL_SENT;
	char address[ADDRESS_TEXT_SIZE];

	if (end == CANCEL_FAILED) {
		log_info(log, "failed cancel request: %s, asked by %s", text, its->asker);
		return;
	}
	log_info(log, "cancel request %s, asked by %s, for server %s, pid %u",
	         is_late ? "sent, and not dealt with within server_connect_timeout" : words[end],
	         its->asker, address_format(&its->address, address, sizeof(address)),
	         server && server->key.size >= 4 ? load_be32((const char *)server->key.bytes) : 0);
	/* It may still arrive, and would cancel the next borrower's query. */
	if (is_late && server)
		server_need_close(server, CLOSE_CANCEL_UNDER_WAY);
}

/* Whether the server still runs the query that is to be cancelled. */
static bool is_wanted(const struct server_cancel *cancel)
{
	const struct server *server = cancel->server;

	if (server && server->state == SERVER_ENDING)
		return true; /* nobody gets it any more */
	return server && server->state == SERVER_LENT && server->lease.borrower == cancel->target &&
	       server->orders.running == ORDER_NONE;
}

/* If the server is encrypted, the cancel connection must be, too: the key must not be readable. */
static bool prepare_cancel(const struct cancel *cancel, struct bytes *key, struct securing_how *how)
{
	const struct server *server = of_server(cancel)->server;

	if (!is_wanted(of_server(cancel)))
		return false;
	*key = bytes_of(server->key.bytes, server->key.size);
	how->like = stream_is_encrypted(&server->wire.stream) ? &server->wire.stream : NULL;
	how->is_required = true;
	how->is_direct = server->is_tls_direct;
	return true;
}

static const struct cancel_ops server_ops = { .prepare = prepare_cancel,
	                                      .on_state = on_cancel_state,
	                                      .tell = tell_cancel };

void cancel_serve(struct pool *pool)
{
	struct cancel *cancel;

	while ((cancel = TAILQ_FIRST(&pool->cancels.lists[CANCEL_WAITING])) &&
	       has_space_for_cancel(pool)) {
		const struct server *server = of_server(cancel)->server;

		if (!is_wanted(of_server(cancel))) {
			cancel_finish(cancel);
			continue;
		}
		cancel_launch(cancel);
		cancel_connect(cancel, &server->place.peer,
		               address_is_unix(&server->place.peer) ? server->place.path : NULL);
	}
}

/* target: NULL if the server is ENDING. */
static struct cancel *start(struct server *server, const struct borrower *target, const char *asker,
                            struct err *err)
{
	struct pool *pool = server->pool;
	struct server_cancel *cancel = slab_take(&pool->pools->cancel_slab);

	if (!cancel) {
		err_set(err, ERR_MEMORY, "out of memory");
		return NULL;
	}
	cancel->server = server;
	cancel->target = target;
	cancel->farewell.fd = -1;
	cancel->address = server->place.peer;
	text_copy(cancel->asker, sizeof(cancel->asker), asker);
	cancel_add(&cancel->cancel, &pool->cancels, &server_ops, &pool->pools->cancel_slab);
	cancel_serve(pool);
	if (cancel->cancel.state == CANCEL_ENDED) {
		err_close(err, CLOSE_CANCEL_FAILED);
		return NULL;
	}
	return &cancel->cancel;
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
	of_server(cancel)->farewell = *farewell;
	*farewell = (struct farewell){ .fd = -1 };
}

void cancel_forget_target(struct borrower *target, struct pool *pool)
{
	struct cancel *cancel, *next;

	for (int state = 0; state < CANCEL_SENT; state++) {
		TAILQ_FOREACH_SAFE (cancel, &pool->cancels.lists[state], node, next) {
			if (of_server(cancel)->target == target)
				cancel_finish(cancel);
		}
	}
}

void cancel_forget_server(struct server *server)
{
	for (int state = 0; state < CANCEL_ENDED; state++) {
		TAILQ_EACH (cancel, &server->pool->cancels.lists[state], node) {
			if (of_server(cancel)->server == server)
				of_server(cancel)->server = NULL;
		}
	}
}

void cancels_init(struct pools *pools)
{
	pools->cancel_task.run = free_ended;
	TAILQ_INIT(&pools->cancels_ended);
	slab_init(&pools->cancel_slab, "cancel_cache", sizeof(struct server_cancel));
}

void cancels_done(struct pools *pools)
{
	loop_undefer(pools->shared.loop, &pools->cancel_task);
	free_ended(&pools->cancel_task);
	slab_done(&pools->cancel_slab);
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

void pool_ending_due(struct timer *timer)
{
	struct server *server = container_of(timer, struct server, timer);

	log_warning(&server->log,
	            "PostgreSQL has not ended the %s within cancel_wait_timeout, or 10 s",
	            server->wire.ending.how == ENDING_LEAVES ? "session" : "statement");
	server_forget(server);
}

void pool_grace_due(struct timer *timer)
{
	server_keep_not(container_of(timer, struct server, timer));
}
