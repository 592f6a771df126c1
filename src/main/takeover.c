/* SPDX-License-Identifier: ISC */
/*
 * Take-over from a running process: its sockets, then its connections in rounds.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "pgweir/client/handover.h"
#include "pgweir/pgwire/fields.h"

#include "daemon_priv.h"

/* ---- records ---- */

static const struct record_field hello_fields[] = {
	RECORD_FIELD('p', struct hello_record, pid),
	RECORD_FIELD('v', struct hello_record, version),
	RECORD_FIELD('g', struct hello_record, is_given),
};

const struct record_table hello_record_table = RECORD_TABLE("hello", hello_fields, NULL);

static const struct record_field cancel_fields[] = {
	RECORD_BYTES_FIELD('k', struct cancel_record, key, FORWARD_KEY_MAX),
	RECORD_BYTES_FIELD('l', struct cancel_record, last, CANCEL_LAST_MAX, RECORD_OPTIONAL),
};

const struct record_table cancel_record_table = RECORD_TABLE("cancel", cancel_fields, NULL);

/* ---- the sockets: the answer to TAKEOVER is an error, or the listening sockets ---- */

#define ANSWER_LIMIT (5 * USEC_PER_SEC)

static bool take_hello(struct takeover *takeover, struct bytes body, struct err *err)
{
	struct record record = { .rest = body };
	struct hello_record hello;

	record_read(&record, &hello_record_table, &hello);
	takeover->pid = (pid_t)hello.pid;
	takeover->is_given = hello.is_given;
	return record_is_whole(&record) ||
	       err_set(err, ERR_PROTOCOL, "the running process does not identify itself");
}

static bool take_error(struct takeover *takeover, struct bytes body, struct err *err)
{
	struct report report;

	if (fields_report(body, &report) != WIRE_OK)
		return err_set(err, ERR_PROTOCOL, "the peer is not a pgweir console");
	takeover->is_other_version = strcmp(report.sqlstate, err_sqlstate(ERR_UNSUPPORTED)) == 0;
	return err_set(err, ERR_CONFIG, "the running process refuses the take-over: %s",
	               report.text);
}

/* The body is the name of its listener. */
static bool take_listener(struct handed_sockets *sockets, struct channel_message *message,
                          struct err *err)
{
	struct bytes name = buf_bytes(&message->body);

	if (message->fd < 0 || sockets->count == HANDED_SOCKETS_MAX)
		return err_set(err, ERR_PROTOCOL, "a listening socket was lost");
	snprintf(sockets->names[sockets->count], sizeof(sockets->names[0]), "%.*s", (int)name.count,
	         name.count ? name.at : "");
	sockets->fds[sockets->count++] = message->fd;
	message->fd = -1;
	return true;
}

/* Handles one message. false: *err has the reason for which the take-over ends. */
static bool take_answer(struct takeover *takeover, struct channel_message *message, struct err *err)
{
	switch (message->kind) {
	case HANDOVER_ERROR:
		return take_error(takeover, buf_bytes(&message->body), err);
	case HANDOVER_HELLO:
		return take_hello(takeover, buf_bytes(&message->body), err);
	case HANDOVER_LISTENER:
		return take_listener(&takeover->sockets, message, err);
	case HANDOVER_END:
		return takeover->pid > 0 ||
		       err_set(err, ERR_PROTOCOL, "the running process does not identify itself");
	default:
		return err_set(err, ERR_PROTOCOL, "unexpected response");
	}
}

static bool take_answers(struct takeover *takeover, struct err *err)
{
	struct channel *channel = &takeover->channel;
	struct channel_message message;
	bool is_good = true, is_over = false;

	channel->deadline = clock_now() + ANSWER_LIMIT;
	while (is_good && !is_over) {
		if (!channel_receive(channel, &message)) {
			*err = channel->err;
			return false;
		}
		is_over = message.kind == HANDOVER_END;
		is_good = take_answer(takeover, &message, err);
		channel_message_done(&message);
	}
	return is_good;
}

/*
 * The answering process hands over sockets and secrets, so it must run as our own system user. Also
 * true, without a channel, if nothing listens there.
 */
static bool ask_for_it(struct takeover *takeover, const char *path, const char *version,
                       struct err *err)
{
	struct ask_whom whom = { .owner = geteuid(), .is_strict = true };
	char command[64];
	struct ask ask;

	snprintf(whom.path, sizeof(whom.path), "%s", path);
	if (!ask_open(&ask, &whom, err))
		return ask.is_nobody;
	snprintf(command, sizeof(command), "TAKEOVER %s", version);
	if (!ask_say(&ask, command, err)) {
		ask_close(&ask);
		return false;
	}
	takeover->channel.fd = ask.fd;
	ask.fd = -1;
	ask_close(&ask);
	return take_answers(takeover, err);
}

/* In the plain format, if our version is refused. The error is about our version. */
static bool ask_for_either(struct takeover *takeover, const char *path, struct err *err)
{
	struct err ignored;

	if (ask_for_it(takeover, path, HANDOVER_VERSION, err))
		return true;
	if (!takeover->is_other_version)
		return false;
	takeover_end(takeover);
	takeover->arrival.is_plain = true;
	return ask_for_it(takeover, path, HANDOVER_VERSION_PLAIN, &ignored);
}

bool takeover_begin(struct takeover *takeover, const struct config *config, struct err *err)
{
	char path[ADDRESS_UNIX_PATH_SIZE];

	*takeover = (struct takeover){ .channel.fd = -1 };
	if (!*address_unix_path(path, config->unix_socket_dir, config->listen_port))
		return err_set(
		    err, ERR_CONFIG,
		    "-R needs unix_socket_dir, to reach the running process through its Unix "
		    "socket");
	if (ask_for_either(takeover, path, err))
		return true;
	err_prefix(err, "cannot take over: ");
	takeover_end(takeover);
	return false;
}

static void close_sockets(struct handed_sockets *sockets)
{
	for (unsigned int i = 0; i < sockets->count; i++) {
		if (sockets->fds[i] >= 0)
			close(sockets->fds[i]);
	}
	sockets->count = 0;
}

static void leave_daemon(struct takeover *takeover)
{
	struct daemon *daemon = takeover->daemon;

	timer_clear(&takeover->look);
	watch_done(&takeover->watch);
	lanes_hold(&daemon->lanes);
	pools_arrival_done(&takeover->arrival);
	lanes_release(&daemon->lanes);
	daemon->takeover = NULL;
	takeover->daemon = NULL;
}

void takeover_end(struct takeover *takeover)
{
	if (takeover->daemon)
		leave_daemon(takeover);
	close_sockets(&takeover->sockets);
	if (takeover->channel.fd >= 0)
		close(takeover->channel.fd);
	takeover->channel = (struct channel){ .fd = -1 };
}

/*
 * ---- the records of a round are dealt to the lanes; the old process may have had any number ----
 *
 *   a client              the lane to which its cancel key leads
 *   a listening client    the lane of its listening connection, by its number
 *   a lent server, a listening connection    the lane of the client whose record comes next
 *   an idle server        the lane where most clients of its pool are, for each server there
 *   all other records     each lane
 *
 * Hard here: the order. A statement comes before what knows it, clients before the idle servers. An
 * older release writes these first, so that they go to all lanes alike.
 */

static struct bytes body_of(const struct channel_message *message)
{
	return buf_bytes(&message->body);
}

static void take(const struct lane *lane, struct pools_arrival *arrival,
                 struct channel_message *message)
{
	if (message->kind == HANDOVER_CLIENT)
		client_take(lane->clients, arrival, body_of(message), &message->fd);
	else
		pools_take(lane->pools, arrival, message->kind, body_of(message), &message->fd);
}

/* From `at` on. */
static const struct lane *lane_of_next_client(const struct lanes *lanes,
                                              const struct channel_messages *round, size_t at)
{
	for (; at < round->count; at++) {
		if (round->at[at].kind == HANDOVER_CLIENT)
			return client_lane(lanes, body_of(&round->at[at]));
	}
	return lanes->at; /* a server without its client is closed there */
}

static struct lane *lane_in_need(const struct lanes *lanes, struct bytes body)
{
	struct lane *found = lanes->at;
	unsigned long need, most = 0;

	LANES_EACH (lane, lanes) {
		need = handover_server_need(lane->pools, body);
		if (need > most ||
		    (need == most && lane->pools->server_count < found->pools->server_count)) {
			most = need;
			found = lane;
		}
	}
	return found;
}

static void deal_one(const struct lanes *lanes, struct pools_arrival *arrival,
                     struct channel_messages *round, size_t at)
{
	struct channel_message *message = &round->at[at];
	bool is_server = message->kind == HANDOVER_SERVER;

	if (message->kind == HANDOVER_CLIENT ||
	    (is_server && handover_server_is_lent(body_of(message)))) {
		take(lane_of_next_client(lanes, round, at), arrival, message);
	} else if (is_server) {
		take(lane_in_need(lanes, body_of(message)), arrival, message);
	} else {
		LANES_EACH (lane, lanes)
			take(lane, arrival, message);
	}
}

/* Uses all records of a round. */
static void deal(struct takeover *takeover, struct channel_messages *round)
{
	const struct lanes *lanes = &takeover->daemon->lanes;

	lanes_hold(lanes);
	for (size_t i = 0; i < round->count; i++)
		deal_one(lanes, &takeover->arrival, round, i);
	LANES_EACH (lane, lanes) {
		pools_take_end(lane->pools, &takeover->arrival);
		clients_start(lane->clients);
		if (lane->pools->suspend == SUSPEND_NONE)
			continue;
		/* it has begun before these arrived */
		pools_quiesce(lane->pools);
		clients_quiesce(lane->clients);
	}
	lanes_release(lanes);
}

/* ---- rounds: net/channel.h ---- */

/* How long the old process may be silent. */
#define ROUND_LIMIT (10 * USEC_PER_SEC)
/* The old process decides within a limit of its own. This limit only matters if it was stopped. */
#define DECISION_LIMIT (60 * USEC_PER_SEC)

/* How often a process that hands nothing over any more is looked at. */
#define LOOK_PERIOD (100 * USEC_PER_MS)

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

/*
 * Up to END or DONE, which is returned; REFUSED: a record cannot be used, and those behind it were
 * only read.
 */
static char receive(struct takeover *takeover, struct channel_messages *round, struct err *err)
{
	struct channel *channel = &takeover->channel;
	struct channel_message message;
	bool is_good = true, is_last;
	char kind;

	channel->deadline = clock_now() + ROUND_LIMIT;
	do {
		if (!channel_receive(channel, &message)) {
			*err = channel->err;
			return HANDOVER_NONE;
		}
		kind = message.kind;
		is_last = kind == HANDOVER_END || kind == HANDOVER_DONE;
		if (!is_last)
			is_good = is_good && judge(takeover->daemon, &message, err) &&
			          channel_messages_add(round, &message);
		if (is_last || !is_good)
			channel_message_done(&message);
	} while (!is_last);
	return is_good || kind == HANDOVER_DONE ? kind : HANDOVER_REFUSED;
}

/* Tells the old process that all records can be used, and waits for its decision. */
static char accept_it(struct takeover *takeover, struct err *err)
{
	struct channel *channel = &takeover->channel;
	struct channel_message message;
	char kind;

	channel->deadline = clock_now() + DECISION_LIMIT;
	if (!channel_send(channel, HANDOVER_ACCEPTED, bytes_of("", 0), -1) ||
	    !channel_receive(channel, &message)) {
		*err = channel->err;
		return HANDOVER_NONE;
	}
	kind = message.kind;
	channel_message_done(&message);
	if (kind == HANDOVER_YOURS || kind == HANDOVER_KEPT || kind == HANDOVER_DONE)
		return kind;
	err_set(err, ERR_PROTOCOL, "protocol error in the hand-over: not a pgweir socket");
	return HANDOVER_NONE;
}

/* Says what to do about a record that was refused. After the first round there is less to do. */
static void suggest(const struct takeover *takeover, struct err *err)
{
	if (err->code == ERR_FILES)
		err_suffix(err, ": raise the limit on open files of the new process");
	else if (err->code == ERR_CONFIG && !takeover->arrival.is_later)
		err_suffix(err, ": RELOAD the running process with it first");
	else if (err->code == ERR_CONFIG)
		err_suffix(err, ": a RELOAD has removed it during the take-over");
}

/*
 * How it ends: YOURS, and it is used; KEPT: the old process keeps what it has written, and another
 * round follows; DONE: there is nothing more to hand over; else see *err.
 */
static char make_round(struct takeover *takeover, struct err *err)
{
	struct channel_messages round = { 0 };
	char end;

	err_set(err, ERR_MEMORY, "out of memory");
	end = receive(takeover, &round, err);
	if (end == HANDOVER_REFUSED)
		suggest(takeover, err);
	if (end == HANDOVER_END)
		end = accept_it(takeover, err);
	if (end == HANDOVER_YOURS)
		deal(takeover, &round);
	channel_messages_done(&round);
	return end;
}

/* ---- while the daemon runs ---- */

static void look_for_end(struct timer *timer)
{
	struct takeover *takeover = container_of(timer, struct takeover, look);
	struct daemon *daemon = takeover->daemon;

	if (channel_is_gone(&takeover->channel)) {
		log_kept(&daemon->logger, LOG_LEVEL_INFO, "take-over", "the old process has ended");
		takeover_end(takeover);
		return;
	}
	timer_begin(timer, daemon->loop, LOOK_PERIOD, look_for_end);
}

/* No more rounds. Cancel keys and a STOP can still be sent. */
static void give_up(struct takeover *takeover, const struct err *err)
{
	struct daemon *daemon = takeover->daemon;

	if (channel_is_gone(&takeover->channel)) {
		log_kept(&daemon->logger, LOG_LEVEL_WARNING, "take-over",
		         "lost the connection to the old process: %s", err->text);
		takeover_end(takeover);
		return;
	}
	log_kept(&daemon->logger, LOG_LEVEL_WARNING, "take-over",
	         "the old process keeps its last clients until they disconnect: %s", err->text);
	channel_send(&takeover->channel, HANDOVER_REFUSED, bytes_of("", 0), -1);
	watch_set(&takeover->watch, 0);
	look_for_end(&takeover->look);
}

static void on_round(struct watch *watch, unsigned int what)
{
	struct takeover *takeover = container_of(watch, struct takeover, watch);
	struct daemon *daemon = takeover->daemon;
	struct err err;
	char end;

	(void)what;
	end = make_round(takeover, &err);
	if (end == HANDOVER_DONE) {
		log_kept(&daemon->logger, LOG_LEVEL_INFO, "take-over", "the take-over is complete");
		takeover_end(takeover);
	} else if (end != HANDOVER_YOURS && end != HANDOVER_KEPT) {
		give_up(takeover, &err);
	}
}

bool takeover_pass_key(struct clients *clients, struct bytes key, struct farewell *farewell)
{
	struct daemon *daemon = container_of(clients->shared, struct daemon, shared);
	struct takeover *takeover = clients->keys.loop_number == 0 ? daemon->takeover : NULL;
	struct cancel_record cancel = { .key = key, .last = buf_bytes(&farewell->last) };

	/* Strangers send keys, too: they must not make this process wait for the old one. */
	if (!takeover || !channel_has_room(&takeover->channel))
		return false;
	takeover->channel.deadline = clock_now() + USEC_PER_SEC;
	if (takeover->arrival.is_plain)
		return channel_send(&takeover->channel, HANDOVER_CANCEL, key, -1);
	if (channel_send_table(&takeover->channel, HANDOVER_CANCEL, &cancel_record_table, &cancel,
	                       farewell->fd))
		farewell_leave(farewell);
	return !takeover->channel.is_broken;
}

/* A command, to an old process that has handed over its first round. */
static void pass_command(struct daemon *daemon, enum handover_kind kind, struct bytes body)
{
	struct takeover *takeover = daemon->takeover;

	if (!takeover || !takeover->arrival.is_later)
		return; /* the old process continues to serve */
	takeover->channel.deadline = clock_now() + USEC_PER_SEC;
	channel_send(&takeover->channel, kind, body, -1);
}

void takeover_stop(struct daemon *daemon, enum shutdown_kind kind)
{
	char byte = (char)kind;

	pass_command(daemon, HANDOVER_STOP, bytes_of(&byte, 1));
}

void takeover_resume(struct daemon *daemon, const char *database)
{
	const struct takeover *takeover = daemon->takeover;

	if (takeover && !takeover->arrival.is_plain) /* releases before 0.4.0 do not know it */
		pass_command(daemon, HANDOVER_RESUME, bytes_text(database));
}

static void tell_taken(const struct daemon *daemon, const struct takeover *takeover)
{
	unsigned int client_count = 0, server_count = 0;

	LANES_HELD (lane, &daemon->lanes) {
		client_count += lane->clients->count;
		server_count += lane->pools->server_count;
	}
	log_kept(&daemon->logger, LOG_LEVEL_INFO, "take-over",
	         "took over %u clients and %u servers from process %d", client_count, server_count,
	         (int)takeover->pid);
}

bool takeover_run(struct daemon *daemon, struct takeover *takeover, struct err *err)
{
	close_sockets(&takeover->sockets);
	daemon->takeover = takeover;
	takeover->daemon = daemon;
	takeover->arrival.first = daemon->lanes.at->pools;
	watch_init(&takeover->watch, daemon->loop, takeover->channel.fd, on_round);
	takeover->channel.deadline = clock_now() + ROUND_LIMIT;
	if (!channel_send(&takeover->channel, HANDOVER_GO, bytes_of("", 0), -1)) {
		*err = takeover->channel.err;
		return false;
	}
	if (make_round(takeover, err) != HANDOVER_YOURS)
		return err_prefix(err, "cannot take over: ");
	tell_taken(daemon, takeover);
	console_begin_at(daemon->console);
	doors_serve(daemon, true);
	if (!watch_set(&takeover->watch, WATCH_READ))
		log_warning(&daemon->logger, "cannot watch the old process");
	return true;
}
