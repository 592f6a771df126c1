/* SPDX-License-Identifier: ISC */
/*
 * All clients in turn: DRAIN and SUSPEND.
 *
 * DRAIN: clients are disconnected, each at a moment when none of its work is interrupted. Main
 * sets the deadline and logs the progress, for all lanes together.
 *
 *   drain_begin()   --> all clients are looked at once, some in each turn: closes those at rest
 *   a transaction ends, bytes arrive, bytes were sent
 *                   --> drain_look(): the same for one client
 *   drain_overrun() --> all clients are looked at again: closes all
 *
 * Hard here: a client at rest may have sent a message that is still in flight. Messages that have
 * reached us are executed first; messages that have not are never started. So a client that gets
 * 57P01 from a DRAIN before its deadline knows that nothing it has sent since its last
 * ReadyForQuery was executed, and may send that again elsewhere.
 */
#include <inttypes.h>
#include <stdio.h>

#include "pgweir/client/lanes.h"

#include "client_priv.h"

#define VISITED_A_TURN 256

/* ---- walks ---- */

/* Not inline: gcc 12 would not see that a walk on the stack is taken out of the list again. */
__attribute__((noinline)) void clients_walk_start(struct clients *clients,
                                                  struct clients_walk *walk)
{
	walk->next = TAILQ_FIRST(&clients->list);
	TAILQ_INSERT_TAIL(&clients->walks, walk, node);
}

void clients_walk_stop(struct clients *clients, struct clients_walk *walk)
{
	TAILQ_REMOVE(&clients->walks, walk, node);
}

void clients_visit_stop(struct clients *clients)
{
	if (!clients->visit.task.is_waiting)
		return;
	loop_undefer(clients->loop, &clients->visit.task);
	clients_walk_stop(clients, &clients->visit.walk);
}

static void visit_some(struct task *task)
{
	struct clients *clients = container_of(task, struct clients, visit.task);
	struct clients_walk *walk = &clients->visit.walk;
	struct client *client;

	for (int i = 0; i < VISITED_A_TURN && (client = walk->next); i++) {
		walk->next = TAILQ_NEXT(client, node);
		if (clients->ops->states[client->state].rearm)
			clients->ops->states[client->state].rearm(client);
		drain_look(client);
	}
	if (walk->next)
		loop_defer(clients->loop, task);
	else
		clients_walk_stop(clients, walk);
}

void clients_visit(struct clients *clients)
{
	clients_visit_stop(clients);
	clients->visit.task.run = visit_some;
	clients_walk_start(clients, &clients->visit.walk);
	loop_defer(clients->loop, &clients->visit.task);
}

/* ---- DRAIN: one client ---- */

/* The states of admitted clients, without those of the console. */
static const bool is_inside[CLIENT_STATES] = {
	[CLIENT_NEWCOMER] = true, [CLIENT_IDLE] = true,        [CLIENT_LATE] = true,
	[CLIENT_WAITING] = true,  [CLIENT_PREPARING] = true,   [CLIENT_ACTIVE] = true,
	[CLIENT_SETTLING] = true, [CLIENT_CATCHING_UP] = true,
};

/* Clients that are connected, and clients that may still read the error. */
static unsigned int count_left(const struct clients *clients)
{
	unsigned int count = clients->drain.leaving_count;

	for (size_t i = 0; i < CLIENT_STATES; i++)
		count += is_inside[i] ? clients->state_counts[i] : 0;
	return count;
}

/* Whether nothing of the client or its server is in progress, in either direction. */
static bool is_at_rest(const struct client *client)
{
	const struct server *server = client->borrower.server;

	if (client->request_at || client->xact_at || client->frame_left || client->is_skipping)
		return false;
	if (client->state == CLIENT_ACTIVE && server_rest(server) != REST_FULL)
		return false;
	return (client->state == CLIENT_IDLE || client->state == CLIENT_ACTIVE) &&
	       !stream_unsent(&client->stream) && !stream_kept(&client->stream).count &&
	       !stream_has_unread(&client->stream);
}

static void send_off(struct client *client, enum err_code code, enum close_reason reason)
{
	struct err err;

	client->is_leaving = true;
	client->clients->drain.leaving_count++;
	err_close(&err, reason);
	err_recode(&err, code);
	client_fatal(client, &err);
}

void drain_check(struct client *client)
{
	struct drain *drain = &client->clients->drain;

	if (!is_inside[client->state])
		return;
	if (client->state == CLIENT_NEWCOMER) {
		send_off(client, ERR_CANNOT_CONNECT, CLOSE_DRAINING);
	} else if (is_at_rest(client)) {
		drain->closed_count++;
		send_off(client, ERR_ADMIN_SHUTDOWN, CLOSE_DRAINING);
	} else if (drain->is_overdue) {
		drain->cut_count++;
		send_off(client, ERR_ADMIN_SHUTDOWN, CLOSE_DRAIN_OVERDUE);
	}
}

/* ---- progress ---- */

struct drain_progress lanes_drain(const struct lanes *lanes)
{
	const struct drain *drain = &lanes->at->clients->drain;
	usec_t left = drain->began_at + drain->limit - loop_now(lanes->at->loop);
	struct drain_progress sum = { .is_on = drain->is_on, .time_left = DRAIN_NO_LIMIT };

	LANES_HELD (lane, lanes) {
		const unsigned int *counts = lane->clients->state_counts;

		drain = &lane->clients->drain;
		sum.left += count_left(lane->clients);
		sum.leaving += drain->leaving_count;
		sum.working += counts[CLIENT_ACTIVE] + counts[CLIENT_PREPARING] +
		               counts[CLIENT_SETTLING] + counts[CLIENT_CATCHING_UP];
		sum.waiting += counts[CLIENT_WAITING];
		sum.newcomers += counts[CLIENT_NEWCOMER];
		sum.closed += drain->closed_count;
		sum.cut += drain->cut_count;
	}
	sum.is_overdue = drain->is_overdue;
	if (drain->limit)
		sum.time_left = drain->is_overdue || left < 0 ? 0 : left;
	return sum;
}

void drain_describe(const struct lanes *lanes, char *text, size_t size)
{
	struct drain_progress sum = lanes_drain(lanes);
	char deadline[64] = "no deadline";

	if (sum.time_left != DRAIN_NO_LIMIT)
		snprintf(deadline, sizeof(deadline), "%lld s left",
		         (long long)((sum.time_left + USEC_PER_SEC - 1) / USEC_PER_SEC));
	snprintf(text, size,
	         "draining: %u clients left, %u of them at work, %u waiting for a server; %" PRIu64
	         " closed between transactions, %" PRIu64 " at the deadline; %s",
	         sum.left, sum.working, sum.waiting, sum.closed, sum.cut, deadline);
}

/* ---- begin and end ---- */

void drain_begin(struct clients *clients, usec_t limit)
{
	struct drain *drain = &clients->drain;

	if (!drain->is_on)
		drain->closed_count = drain->cut_count = 0;
	drain->is_on = true;
	drain->is_overdue = limit == 0;
	drain->began_at = loop_now(clients->loop);
	drain->limit = limit == DRAIN_NO_LIMIT ? 0 : limit ? limit : 1;
	clients_visit(clients);
}

void drain_overrun(struct clients *clients)
{
	clients->drain.is_overdue = true;
	clients_visit(clients);
}

void drain_end(struct clients *clients)
{
	clients->drain.is_on = clients->drain.is_overdue = false;
}

/*
 * ---- SUSPEND ----
 *
 * Each client is stopped between two messages, except console clients, which issue
 * RESUME.
 *
 * A client that connects during SUSPEND may send a CancelRequest, which may end what the SUSPEND
 * waits for. Any other startup packet is not read until RESUME: suspend_holds().
 */

/* The states of clients that are not stopped. */
static const bool goes_on[CLIENT_STATES] = {
	[CLIENT_STARTUP] = true,   [CLIENT_CONSOLE] = true, [CLIENT_CANCELING] = true,
	[CLIENT_LINGERING] = true, [CLIENT_CLOSED] = true,
};

static bool is_drained(const struct client *client)
{
	const struct server *server = client->borrower.server;

	if (!stream_is_halted(&client->stream))
		return false;
	if (server && !server_is_quiescent(server))
		return false;
	return client->stream.tls ||
	       (client->frame_left == 0 && stream_unsent(&client->stream) == 0);
}

bool clients_quiesce(struct clients *clients)
{
	bool is_done = true;

	TAILQ_EACH (client, &clients->list, node) {
		if (goes_on[client->state])
			continue;
		if (!stream_is_halted(&client->stream))
			stream_halt(&client->stream, client->frame_left);
		is_done &= is_drained(client);
	}
	return is_done;
}

void clients_drop_busy(struct clients *clients, const struct err *err)
{
	struct client *client, *next;

	TAILQ_FOREACH_SAFE (client, &clients->list, node, next) {
		if (!goes_on[client->state] && !is_drained(client))
			client_fatal(client, err);
	}
}

void clients_go_on(struct clients *clients)
{
	struct clients_walk walk;
	struct client *client;

	/* A take-over may end during a SUSPEND. */
	if (clients->pools->suspend != SUSPEND_NONE)
		return;
	clients_walk_start(clients, &walk);
	while ((client = walk.next)) {
		walk.next = TAILQ_NEXT(client, node);
		if (!stream_is_open(&client->stream) || !stream_is_halted(&client->stream))
			continue;
		stream_go_on(&client->stream);
		if (client->state == CLIENT_STARTUP)
			client_judge_kept(client);
	}
	clients_walk_stop(clients, &walk);
}

bool suspend_holds(struct client *client)
{
	if (client->clients->pools->suspend == SUSPEND_NONE)
		return false;
	stream_halt(&client->stream, 0);
	return true;
}
