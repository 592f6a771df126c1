/* SPDX-License-Identifier: ISC */
/*
 * The new process of a take-over: receives the connections of the old one.
 *
 *   GO --> records and descriptors, END --> all of them judged --> ACCEPTED --> YOURS --> used
 *
 * No record is used before YOURS: until then the old process may continue with all
 * connections, and must find each of them unchanged. So if something fails here before, it
 * is enough to close our descriptors.
 *
 * Later rounds have connections that were not at rest before. A round is received in one
 * go.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "pgweir/base/container_of.h"
#include "pgweir/client/handover.h"
#include "takeover.h"

#include "daemon_priv.h"
#include "takeover_deal.h"

#include "pgweir/base/banned.h"

/* How long the old process may be silent. */
#define ROUND_LIMIT (10 * USEC_PER_SEC)
/* The old process decides within a limit of its own. This limit only matters if it was stopped. */
#define DECISION_LIMIT (60 * USEC_PER_SEC)

/* The channel to the old process, while the daemon runs. */
struct successor {
	struct daemon *daemon;
	struct channel channel;
	struct watch watch;
	struct pools_arrival arrivals[LANES_MAX]; /* of each lane */
	bool has_begun;                           /* the first round was completed */
};

static void round_done(struct takeover_round *round)
{
	while (round->count)
		channel_message_done(&round->messages[--round->count]);
	free(round->messages);
	*round = (struct takeover_round){ 0 };
}

static bool keep(struct takeover_round *round, const struct channel_message *message)
{
	if (round->count == round->capacity) {
		size_t capacity = round->capacity ? 2 * round->capacity : 256;
		struct channel_message *messages =
		    realloc(round->messages, capacity * sizeof(*messages));

		if (!messages)
			return false;
		round->messages = messages;
		round->capacity = capacity;
	}
	round->messages[round->count++] = *message;
	return true;
}

static bool judge(const struct daemon *daemon, const struct channel_message *message,
                  struct err *err)
{
	struct bytes body = buf_bytes(&message->body);
	bool needs_fd = message->kind == HANDOVER_SERVER || message->kind == HANDOVER_CLIENT;

	if (needs_fd != (message->fd >= 0))
		return err_set(err, ERR_PROTOCOL,
		               "protocol error in the hand-over: a socket was lost");
	if (message->kind == HANDOVER_CLIENT)
		return client_judge(daemon->lanes.at[0].clients, body, err);
	return pools_judge(daemon->lanes.at[0].pools, message->kind, body, err);
}

/* Receives and judges records up to END or DONE. */
static bool receive(struct successor *successor, struct takeover_round *round, struct err *err)
{
	struct channel *channel = &successor->channel;
	struct channel_message message;

	channel->deadline = clock_now() + ROUND_LIMIT;
	for (;;) {
		if (!channel_receive(channel, &message)) {
			*err = channel->err;
			return false;
		}
		round->is_done = message.kind == HANDOVER_DONE;
		if (round->is_done || message.kind == HANDOVER_END) {
			channel_message_done(&message);
			return true;
		}
		if (!judge(successor->daemon, &message, err) || !keep(round, &message)) {
			channel_message_done(&message);
			return false;
		}
	}
}

/* Tells the old process that all records can be used, and waits for YOURS. */
static bool accept_it(struct successor *successor, struct err *err)
{
	struct channel *channel = &successor->channel;
	struct channel_message message;
	bool is_ours;

	channel->deadline = clock_now() + DECISION_LIMIT;
	if (!channel_send(channel, HANDOVER_ACCEPTED, bytes_of("", 0), -1) ||
	    !channel_receive(channel, &message)) {
		*err = channel->err;
		return false;
	}
	is_ours = message.kind == HANDOVER_YOURS;
	channel_message_done(&message);
	return is_ours ||
	       err_set(err, ERR_PROTOCOL, "protocol error in the hand-over: not a pgweir socket");
}

static void use(struct successor *successor, struct takeover_round *round)
{
	const struct lanes *lanes = &successor->daemon->lanes;

	lanes_hold(lanes);
	takeover_deal(lanes, successor->arrivals, round);
	lanes_release(lanes);
	successor->has_begun = true;
}

static bool make_round(struct successor *successor, bool *is_done, struct err *err)
{
	struct takeover_round round = { 0 };
	bool is_good;

	err_set(err, ERR_MEMORY, "out of memory");
	is_good = receive(successor, &round, err);
	*is_done = is_good && round.is_done;
	if (is_good && !round.is_done)
		is_good = accept_it(successor, err);
	if (is_good && !round.is_done)
		use(successor, &round);
	round_done(&round);
	return is_good;
}

/* ---- while the daemon runs ---- */

void takeover_free(struct successor **successorp)
{
	struct successor *successor = *successorp;
	struct daemon *daemon;

	if (!successor)
		return;
	*successorp = NULL;
	daemon = successor->daemon;
	watch_done(&successor->watch);
	close(successor->channel.fd);
	atomic_store(&daemon->has_old_process, false);
	lanes_hold(&daemon->lanes);
	for (unsigned int i = 0; i < daemon->lanes.count; i++)
		pools_arrival_done(&successor->arrivals[i]);
	lanes_release(&daemon->lanes);
	free(successor);
}

static void on_round(struct watch *watch, unsigned int what)
{
	struct successor *successor = container_of(watch, struct successor, watch);
	struct daemon *daemon = successor->daemon;
	bool is_done;
	struct err err;

	(void)what;
	if (!make_round(successor, &is_done, &err)) {
		log_kept(&daemon->logger, LOG_LEVEL_WARNING, "take-over",
		         "lost the connection to the old process: %s", err.text);
		takeover_free(&daemon->takeover);
	} else if (is_done) {
		log_kept(&daemon->logger, LOG_LEVEL_INFO, "take-over", "the take-over is complete");
		takeover_free(&daemon->takeover);
	}
}

bool takeover_pass_key(struct successor *successor, struct bytes key)
{
	if (!successor)
		return false;
	successor->channel.deadline = clock_now() + USEC_PER_SEC;
	return channel_send(&successor->channel, HANDOVER_CANCEL, key, -1);
}

void takeover_stop(struct successor *successor, enum shutdown_kind kind)
{
	char byte = (char)kind;

	if (!successor || !successor->has_begun)
		return; /* the old process continues to serve */
	successor->channel.deadline = clock_now() + USEC_PER_SEC;
	channel_send(&successor->channel, HANDOVER_STOP, bytes_of(&byte, 1), -1);
}

static void begin_arrivals(struct successor *successor, bool is_plain)
{
	struct pools_arrival *arrivals = successor->arrivals;
	struct lane *lane;

	LANES_EACH(lane, &successor->daemon->lanes)
	arrivals[lane->number] = (struct pools_arrival){
		.pools = lane->pools,
		.first = lane->number ? arrivals : NULL,
		.is_plain = is_plain,
	};
}

static void tell_taken(const struct daemon *daemon, const struct takeover *takeover)
{
	unsigned int client_count = 0, server_count = 0;
	const struct lane *lane;

	lanes_hold(&daemon->lanes);
	LANES_EACH(lane, &daemon->lanes)
	{
		client_count += lane->clients->count;
		server_count += lane->pools->server_count;
	}
	lanes_release(&daemon->lanes);
	log_kept(&daemon->logger, LOG_LEVEL_INFO, "take-over",
	         "took over %u clients and %u servers from process %d", client_count, server_count,
	         (int)takeover->pid);
}

bool takeover_run(struct daemon *daemon, struct takeover *takeover, struct err *err)
{
	struct successor *successor = calloc(1, sizeof(*successor));
	bool is_done;

	if (!successor)
		return err_set(err, ERR_MEMORY, "out of memory");
	daemon->takeover = successor;
	successor->daemon = daemon;
	successor->channel.fd = takeover->fd;
	takeover->fd = -1;
	begin_arrivals(successor, takeover->is_plain);
	watch_init(&successor->watch, daemon->loop, successor->channel.fd, on_round);
	successor->channel.deadline = clock_now() + ROUND_LIMIT;
	if (!channel_send(&successor->channel, HANDOVER_GO, bytes_of("", 0), -1)) {
		*err = successor->channel.err;
		return false;
	}
	if (!make_round(successor, &is_done, err))
		return err_prefix(err, "cannot take over: ");
	atomic_store(&daemon->has_old_process, true);
	tell_taken(daemon, takeover);
	console_begin_at(daemon->console);
	listener_own_file(daemon->listener, true);
	listener_resume(daemon->listener);
	if (!watch_set(&successor->watch, WATCH_READ))
		log_warning(&daemon->logger, "cannot watch the old process");
	return true;
}
