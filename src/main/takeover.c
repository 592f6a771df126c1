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
 * go. If one of them fails, the old process serves its connections to their end. As it would accept
 * clients again if this process closed the channel, that stays open until the old process has
 * ended.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "pgweir/base/container_of.h"
#include "pgweir/client/handover.h"
#include "takeover.h"

#include "daemon_priv.h"
#include "handover_priv.h"
#include "takeover_deal.h"

/* How long the old process may be silent. */
#define ROUND_LIMIT (10 * USEC_PER_SEC)
/* The old process decides within a limit of its own. This limit only matters if it was stopped. */
#define DECISION_LIMIT (60 * USEC_PER_SEC)

/* How often a process that hands nothing over any more is looked at. */
#define LOOK_PERIOD (100 * USEC_PER_MS)

/* The channel to the old process, while the daemon runs. */
struct successor {
	struct daemon *daemon;
	struct channel channel;
	struct watch watch;
	struct timer
	    look; /* set: there are no more rounds, the old process serves its last clients */
	struct pools_arrival arrivals[LANES_MAX]; /* of each lane */
	bool has_begun;                           /* the first round was completed */
	bool is_plain; /* the old process knows the plain format only: handover_priv.h */
};

static bool judge(const struct daemon *daemon, const struct channel_message *message,
                  struct err *err)
{
	struct bytes body = buf_bytes(&message->body);
	bool needs_fd = message->kind == HANDOVER_SERVER || message->kind == HANDOVER_CLIENT;

	if (needs_fd && message->fd < 0) /* the kernel drops it if no descriptor is left */
		return err_set(err, ERR_FILES, "a socket was lost on the way");
	if (!needs_fd && message->fd >= 0)
		return err_set(err, ERR_PROTOCOL,
		               "protocol error in the hand-over: an unexpected socket");
	if (message->kind == HANDOVER_CLIENT)
		return client_judge(daemon->lanes.at[0].clients, body, err);
	return pools_judge(daemon->lanes.at[0].pools, message->kind, body, err);
}

enum round_end {
	ROUND_USED,
	ROUND_KEPT,    /* the old process keeps what it has written; another round follows */
	ROUND_REFUSED, /* a record cannot be used */
	ROUND_LAST,    /* there is nothing more to hand over */
	ROUND_LOST     /* the channel has failed */
};

/*
 * Receives and judges records up to END or DONE: ROUND_USED or ROUND_LAST. Those behind a record
 * that is refused are only read.
 */
static enum round_end receive(struct successor *successor, struct channel_messages *round,
                              struct err *err)
{
	struct channel *channel = &successor->channel;
	enum round_end end = ROUND_USED;
	struct channel_message message;
	bool is_end = false;

	channel->deadline = clock_now() + ROUND_LIMIT;
	while (!is_end) {
		if (!channel_receive(channel, &message)) {
			*err = channel->err;
			return ROUND_LOST;
		}
		is_end = message.kind == HANDOVER_DONE || message.kind == HANDOVER_END;
		if (message.kind == HANDOVER_DONE)
			end = ROUND_LAST;
		if (!is_end && end == ROUND_USED && judge(successor->daemon, &message, err) &&
		    channel_messages_add(round, &message))
			continue;
		channel_message_done(&message);
		if (!is_end)
			end = ROUND_REFUSED;
	}
	return end;
}

/* Tells the old process that all records can be used, and waits for its decision. */
static enum round_end accept_it(struct successor *successor, struct err *err)
{
	struct channel *channel = &successor->channel;
	struct channel_message message;
	char kind;

	channel->deadline = clock_now() + DECISION_LIMIT;
	if (!channel_send(channel, HANDOVER_ACCEPTED, bytes_of("", 0), -1) ||
	    !channel_receive(channel, &message)) {
		*err = channel->err;
		return ROUND_LOST;
	}
	kind = message.kind;
	channel_message_done(&message);
	switch (kind) {
	case HANDOVER_YOURS:
		return ROUND_USED;
	case HANDOVER_KEPT:
		return ROUND_KEPT;
	case HANDOVER_DONE:
		return ROUND_LAST;
	default:
		err_set(err, ERR_PROTOCOL, "protocol error in the hand-over: not a pgweir socket");
		return ROUND_LOST;
	}
}

static void use(struct successor *successor, struct channel_messages *round)
{
	const struct lanes *lanes = &successor->daemon->lanes;

	lanes_hold(lanes);
	takeover_deal(lanes, successor->arrivals, round);
	lanes_release(lanes);
	successor->has_begun = true;
}

/* Says what to do about a record that was refused. After the first round there is less to do. */
static void suggest(const struct successor *successor, struct err *err)
{
	if (err->code == ERR_FILES)
		err_suffix(err, ": raise the limit on open files of the new process");
	else if (err->code == ERR_CONFIG && !successor->has_begun)
		err_suffix(err, ": RELOAD the running process with it first");
	else if (err->code == ERR_CONFIG)
		err_suffix(err, ": a RELOAD has removed it during the take-over");
}

static enum round_end make_round(struct successor *successor, struct err *err)
{
	struct channel_messages round = { 0 };
	enum round_end end;

	err_set(err, ERR_MEMORY, "out of memory");
	end = receive(successor, &round, err);
	if (end == ROUND_REFUSED)
		suggest(successor, err);
	if (end == ROUND_USED)
		end = accept_it(successor, err);
	if (end == ROUND_USED)
		use(successor, &round);
	channel_messages_done(&round);
	return end;
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
	timer_clear(&successor->look);
	watch_done(&successor->watch);
	close(successor->channel.fd);
	atomic_store(&daemon->has_old_process, false);
	lanes_hold(&daemon->lanes);
	for (unsigned int i = 0; i < daemon->lanes.count; i++)
		pools_arrival_done(&successor->arrivals[i]);
	lanes_release(&daemon->lanes);
	free(successor);
}

static void look_for_end(struct timer *timer)
{
	struct successor *successor = container_of(timer, struct successor, look);
	struct daemon *daemon = successor->daemon;

	if (channel_is_gone(&successor->channel)) {
		log_kept(&daemon->logger, LOG_LEVEL_INFO, "take-over", "the old process has ended");
		takeover_free(&daemon->takeover);
		return;
	}
	timer_set(timer, loop_timer_queue(daemon->loop, LOOK_PERIOD, look_for_end),
	          loop_now(daemon->loop));
}

/* No more rounds. Cancel keys and a STOP can still be sent. */
static void give_up(struct successor *successor, const struct err *err)
{
	struct daemon *daemon = successor->daemon;

	if (channel_is_gone(&successor->channel)) {
		log_kept(&daemon->logger, LOG_LEVEL_WARNING, "take-over",
		         "lost the connection to the old process: %s", err->text);
		takeover_free(&daemon->takeover);
		return;
	}
	log_kept(&daemon->logger, LOG_LEVEL_WARNING, "take-over",
	         "the old process keeps its last clients until they disconnect: %s", err->text);
	channel_send(&successor->channel, HANDOVER_REFUSED, bytes_of("", 0), -1);
	watch_set(&successor->watch, 0);
	look_for_end(&successor->look);
}

static void on_round(struct watch *watch, unsigned int what)
{
	struct successor *successor = container_of(watch, struct successor, watch);
	struct daemon *daemon = successor->daemon;
	struct err err;

	(void)what;
	switch (make_round(successor, &err)) {
	case ROUND_REFUSED:
	case ROUND_LOST:
		give_up(successor, &err);
		break;
	case ROUND_LAST:
		log_kept(&daemon->logger, LOG_LEVEL_INFO, "take-over", "the take-over is complete");
		takeover_free(&daemon->takeover);
		break;
	default:
		break;
	}
}

bool takeover_pass_key(struct successor *successor, struct bytes key, struct farewell *farewell)
{
	struct cancel_record cancel = { .key = key, .last = buf_bytes(&farewell->last) };
	struct buf record = { .is_secret = true };

	if (!successor)
		return false;
	successor->channel.deadline = clock_now() + USEC_PER_SEC;
	if (successor->is_plain)
		return channel_send(&successor->channel, HANDOVER_CANCEL, key, -1);
	record_write(&record, &cancel_record_table, &cancel);
	if (channel_send_record(&successor->channel, HANDOVER_CANCEL, &record, farewell->fd))
		farewell_leave(farewell);
	buf_wipe(&record);
	return !successor->channel.is_broken;
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

	if (!successor)
		return err_set(err, ERR_MEMORY, "out of memory");
	daemon->takeover = successor;
	successor->daemon = daemon;
	successor->channel.fd = takeover->fd;
	takeover->fd = -1;
	successor->is_plain = takeover->is_plain;
	begin_arrivals(successor, takeover->is_plain);
	watch_init(&successor->watch, daemon->loop, successor->channel.fd, on_round);
	successor->channel.deadline = clock_now() + ROUND_LIMIT;
	if (!channel_send(&successor->channel, HANDOVER_GO, bytes_of("", 0), -1)) {
		*err = successor->channel.err;
		return false;
	}
	if (make_round(successor, err) != ROUND_USED)
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
