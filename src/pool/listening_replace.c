/* SPDX-License-Identifier: ISC */
/*
 * Replacement of a listening connection by a successor: see listening_priv.h.
 *
 * Hard here: each connection may end at any time, and a notification must come from one of them
 * only. PostgreSQL sends all notifications to all sessions of a database in the same order, so what
 * comes before the mark on the one connection is what comes before it on the other.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "pgweir/base/container_of.h"
#include "pgweir/pool/listening.h"

#include "listening_priv.h"

#define MARK_SIZE 17

bool listening_replace_is_wanted(const struct listening *listening)
{
	const struct server *server = listening->now->borrower.server;
	const struct listening_link *next = listening->next;

	return server && server->close_reason && !listening->is_lost && listening->is_mark_on &&
	       !next->borrower.server && !next->wish.expected &&
	       listening->replace.state == REPLACE_NONE;
}

static void end_replacing(struct listening *listening)
{
	timer_clear(&listening->replace.timer);
	listening->replace.state = REPLACE_NONE;
	listening->now->is_mark_here = false;
}

void listening_replace(struct server *server)
{
	struct listening *listening;

	if (!server->lease.borrower)
		return; /* it is being closed */
	if (!pool_is_current(server->pool)) {
		server_close_as(server, ERR_ADMIN_SHUTDOWN, server->close_reason);
		return;
	}
	listening = listening_of(server->lease.borrower);
	if (listening->replace.state == REPLACE_LATER)
		end_replacing(listening);
	listening->replace.is_told = false;
	listening_wake(listening);
}

void listening_replace_blocked(struct listening *listening)
{
	if (!listening->replace.is_told)
		log_warning(&listening->pool->log,
		            "the listening connection cannot be replaced yet: max_db_connections "
		            "or max_user_connections is reached; it stays in use until there is "
		            "space for a second one");
	listening->replace.is_told = true;
}

/* ---- time limits ---- */

static void wait_at_most(struct listening *listening, usec_t limit,
                         void (*on_due)(struct timer *timer))
{
	struct loop *loop = pool_loop(listening->pool);

	timer_begin(&listening->replace.timer, loop, limit, on_due);
}

static void on_next_attempt(struct timer *timer)
{
	struct listening *listening = container_of(timer, struct listening, replace.timer);

	end_replacing(listening);
	listening_wake(listening);
}

static void fail_for(struct listening *listening, const char *text)
{
	struct err err;

	err_set(&err, ERR_SERVER_LOST, "%s", text);
	listening_fail(listening, &err);
}

static void on_limit(struct timer *timer)
{
	struct listening *listening = container_of(timer, struct listening, replace.timer);

	/* During a SUSPEND nobody answers. */
	if (listening->pool->pools->suspend != SUSPEND_NONE)
		wait_at_most(listening, USEC_PER_SEC, on_limit);
	else if (listening->next->is_mark_here)
		fail_for(listening, "it did not answer while it was replaced");
	else
		server_close_with(listening->next->borrower.server, ERR_SERVER_LOST,
		                  "LISTEN was not completed within server_connect_timeout");
}

/* ---- the steps ---- */

static const char *mark_of(const struct listening *listening, char out[MARK_SIZE])
{
	snprintf(out, MARK_SIZE, "%016" PRIx64, listening->replace.mark);
	return out;
}

/* Both listen to the same channels from now on, as no query is sent to the old connection. */
void listening_replace_open(struct listening *listening, struct server *server)
{
	struct hash_key key;
	char mark[MARK_SIZE];
	struct buf *out;

	hash_key_draw(&key);
	listening->replace.state = REPLACE_MARK;
	listening->replace.mark = key.half[0];
	listening_link_open(listening->next, server);
	out = listening_link_begin(listening->next);
	listening_write_all(listening, out);
	buf_printf(out, "NOTIFY %s,'%s'", listening->mark_channel, mark_of(listening, mark));
	wait_at_most(listening, listening->pool->pools->config->server_connect_timeout, on_limit);
	listening_link_send(listening->next, 0);
}

/* A mark that was notified before comes before its answer. If it does not, it never comes. */
static void send_proof(struct listening *listening)
{
	listening_link_begin(listening->now);
	listening->replace.state = REPLACE_PROVING;
	listening_link_send(listening->now, 0);
}

bool listening_replace_is_mark(const struct listening *listening,
                               const struct notification *notification)
{
	char mark[MARK_SIZE];

	return listening->replace.state >= REPLACE_MARK &&
	       strcmp(notification->channel, listening->mark_channel) == 0 &&
	       strcmp(notification->payload, mark_of(listening, mark)) == 0;
}

bool listening_replace_drops(const struct listening_link *link)
{
	const struct listening *listening = link->listening;

	return link == listening->next || listening->now->is_mark_here;
}

void listening_replace_answered(struct listening_link *link)
{
	struct listening *listening = link->listening;

	if (link != listening->now || listening->replace.state != REPLACE_PROVING)
		return;
	listening->replace.state = REPLACE_MARK;
	if (!link->is_mark_here)
		fail_for(listening, "its successor is connected to another server or database");
}

static void switch_links(struct listening *listening)
{
	struct listening_link *old = listening->now;
	const struct server *server = old->borrower.server;

	listening->now = listening->next;
	listening->next = old;
	end_replacing(listening);
	listening_link_close(old, ERR_ADMIN_SHUTDOWN,
	                     server ? server->close_reason : CLOSE_LISTENING_OVER);
	log_info(&listening->pool->log, "the listening connection was replaced");
}

bool listening_replace_has_both_marks(const struct listening *listening)
{
	return listening->now->is_mark_here && listening->next->is_mark_here;
}

bool listening_replace_go_on(struct listening *listening)
{
	if (listening->replace.state < REPLACE_MARK || !listening->next->is_mark_here)
		return false;
	if (listening->now->is_mark_here) {
		switch_links(listening);
		return true;
	}
	if (!listening->now->is_running)
		send_proof(listening);
	return false;
}

void listening_replace_failed(struct listening *listening, const struct err *err)
{
	const struct listening_link *next = listening->next;
	struct err cause = next->has_error ? next->err : *err;

	if (listening->now->is_mark_here) {
		listening_fail(listening, err); /* what came after the mark was dropped */
		return;
	}
	end_replacing(listening);
	listening_link_reset(listening->next);
	listening_wake(listening);
	if (cause.code == ERR_ADMIN_SHUTDOWN || listening->is_lost)
		return; /* we closed it */
	log_warning(&listening->pool->log,
	            "the listening connection was not replaced, it stays in use: %s", cause.text);
	listening->replace.state = REPLACE_LATER;
	wait_at_most(listening, listening->pool->site.limits.retry_gap, on_next_attempt);
}
