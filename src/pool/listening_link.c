/* SPDX-License-Identifier: ISC */
/*
 * One server connection that listens: opened, asked, closed.
 */
#include "pgweir/base/container_of.h"
#include "pgweir/pgwire/message.h"

#include "listening_priv.h"
#include "server/server_priv.h"

void listening_wake(struct listening *listening)
{
	loop_defer(pool_loop(listening->pool), &listening->task);
}

struct listening_link *listening_link_of(struct borrower *borrower)
{
	return container_of(borrower, struct listening_link, borrower);
}

struct listening *listening_of(struct borrower *borrower)
{
	return listening_link_of(borrower)->listening;
}

void listening_link_open(struct listening_link *link, struct server *server)
{
	struct pool *pool = server->pool;

	server->borrower = &link->borrower;
	link->borrower.pool = pool;
	link->borrower.server = server;
	link->borrower.state = BORROWER_SERVED;
	pool->served_count++;
	server->request_at = 0;
	listening_wake(link->listening);
}

struct buf *listening_link_begin(struct listening_link *link)
{
	struct buf *out = &link->listening->text;

	buf_reuse(out, LISTENING_TEXT_KEEP_MAX);
	message_begin(out, 'Q');
	return out;
}

void listening_link_send(struct listening_link *link, uint64_t number)
{
	struct server *server = link->borrower.server;
	usec_t now = loop_now(pool_loop(link->listening->pool));
	struct buf *out = &link->listening->text;

	buf_add_byte(out, 0);
	message_end(out, 0);
	link->is_running = true;
	link->query = number;
	server_begin_query(server, now, now);
	if (!buf_ok(out) || server_note(server, LEDGER_QUERY) != LEDGER_SENT)
		server_close_for(server, CLOSE_MEMORY);
	else
		server_send(server, buf_bytes(out)); /* if it fails, on_lost() is called */
	buf_reuse(out, LISTENING_TEXT_KEEP_MAX);
}

void listening_link_reset(struct listening_link *link)
{
	buf_free(&link->in);
	link->is_running = link->is_mark_here = link->has_error = false;
}

void listening_link_close(struct listening_link *link, enum err_code code, enum close_reason reason)
{
	struct server *server = link->borrower.server;
	struct server *expected = link->wish.expected;

	if (expected) {
		expected->expected_by = NULL;
		link->wish.expected = NULL;
		server_close_as(expected, ERR_ADMIN_SHUTDOWN, reason);
	}
	if (server) {
		link->borrower.server = NULL;
		server->borrower = NULL;
		link->listening->pool->served_count--;
		server_close_as(server, code, reason);
	}
	listening_link_reset(link);
}

void listening_fail(struct listening *listening, const struct err *err)
{
	struct err cause = listening->now->has_error ? listening->now->err : *err;

	if (listening->is_lost)
		return;
	listening->is_lost = true;
	err_close(&listening->err, CLOSE_LISTENING_LOST);
	err_suffix(&listening->err, ": %s", cause.text);
	listening_wake(listening);
}
