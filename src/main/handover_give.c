/* SPDX-License-Identifier: ISC */
/*
 * The old process of a take-over: hands over its connections to the new process.
 *
 *   TAKEOVER --> GREETED --[GO]--> a round --> MOVING --[more rounds]--> DONE
 *                   |                |           |
 *                   +--- the new process is gone +--> continues and accepts clients again;
 *                                                     or stops, if it got a STOP
 *
 * A round is written while the loop does not run: no connection can change between its
 * record and the answer of the new process. This costs some microseconds for each
 * connection.
 *
 * What cannot be handed over (OpenSSL's TLS, replication, logins, consoles) is served here. When
 * the last of these clients has disconnected, this process stops.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pgweir/base/version.h"
#include "pgweir/client/client.h"
#include "pgweir/client/handover.h"

#include "daemon_priv.h"

/* How long the new process may be silent within a round. No client is served in that time. */
#define ROUND_LIMIT (5 * USEC_PER_SEC)
/* The same for a message of which the first bytes have come. */
#define MESSAGE_LIMIT USEC_PER_SEC
/* How often connections that were not at rest are looked at again. */
#define LOOK_PERIOD (20 * USEC_PER_MS)
#define REQUEST_SIZE_MAX 1024
#define REQUESTS_MAX 256

enum handover_state {
	HANDOVER_GREETED, /* nothing has moved */
	HANDOVER_MOVING,  /* the new process accepts the clients */
	HANDOVER_WAITING, /* for its answer to a round that was kept; no other round before it */
	HANDOVER_OVER     /* there will be no more rounds */
};

struct handover {
	struct daemon *daemon;
	enum handover_state state;
	struct channel channel;
	struct watch watch;
	struct timer look;
	struct timer deadline;
	unsigned int moved;               /* clients handed over so far */
	struct channel_messages requests; /* that came within a round, for after it */
	bool is_to_stop; /* the new process has sent STOP: this process stops with it */
};

void handover_free(struct handover **handoverp)
{
	struct handover *handover = *handoverp;

	if (!handover)
		return;
	*handoverp = NULL;
	timer_clear(&handover->look);
	timer_clear(&handover->deadline);
	watch_done(&handover->watch);
	close(handover->channel.fd);
	channel_messages_done(&handover->requests);
	free(handover);
}

/* ---- requests of the new process ---- */

static void cancel_in_lane(struct daemon *daemon, struct bytes key, struct farewell *farewell)
{
	struct lane *found = daemon->lanes.at;

	lanes_hold(&daemon->lanes);
	LANES_EACH (lane, &daemon->lanes) {
		if (clients_know_key(lane->clients, key))
			found = lane;
	}
	/* the first one may know another process */
	clients_cancel(found->clients, key, farewell);
	lanes_release(&daemon->lanes);
}

/* Takes the descriptor of the message. */
static void obey_cancel(struct daemon *daemon, struct channel_message *message)
{
	struct record record = { .rest = buf_bytes(&message->body) };
	struct farewell farewell = { .fd = message->fd };
	struct cancel_record cancel = { .key = record.rest };

	message->fd = -1;
	if (!daemon->lanes.at[0].pools->is_handover_plain) {
		record_read(&record, &cancel_record_table, &cancel);
		if (!record_is_whole(&record))
			cancel = (struct cancel_record){ 0 };
		buf_add(&farewell.last, cancel.last.at, cancel.last.count);
	}
	cancel_in_lane(daemon, cancel.key, &farewell);
}

/* Clients that stay here are paused like those that have left. Consoles are in the new process. */
static void obey_resume(struct daemon *daemon, struct bytes name)
{
	char text[CONFIG_DATABASE_NAME_MAX + 1];
	struct database *database;

	if (daemon->lanes.at[0].clients->is_shutting_down)
		return;
	snprintf(text, sizeof(text), "%.*s", (int)name.count, name.count ? name.at : "");
	LANES_HELD (lane, &daemon->lanes) {
		database = pools_find_database(lane->pools, text);
		if (database || !*text)
			pools_resume(lane->pools, database);
	}
	takeover_resume(daemon, text);
}

static void obey(struct handover *handover, struct channel_message *message)
{
	struct daemon *daemon = handover->daemon;
	struct bytes body = buf_bytes(&message->body);

	if (handover->state == HANDOVER_GREETED)
		return; /* requests count only after the first round */
	if (message->kind == HANDOVER_CANCEL)
		obey_cancel(daemon, message);
	if (message->kind == HANDOVER_RESUME)
		obey_resume(daemon, body);
	if (message->kind == HANDOVER_STOP && body.count == 1) {
		handover->is_to_stop = true;
		lifecycle_stop(daemon, (enum shutdown_kind)body.at[0]);
	}
}

/* Stores a message until the round is over in which it may have come, or drops it. */
static void note_request(struct handover *handover, struct channel_message *message)
{
	if (message->body.count > REQUEST_SIZE_MAX || handover->requests.count == REQUESTS_MAX ||
	    !channel_messages_add(&handover->requests, message))
		channel_message_done(message);
}

static void obey_requests(struct handover *handover)
{
	struct channel_messages requests = handover->requests;

	handover->requests = (struct channel_messages){ 0 };
	for (size_t i = 0; i < requests.count; i++)
		obey(handover, &requests.at[i]);
	channel_messages_done(&requests);
}

/* ---- the new process is gone ---- */

/* The new process may have sent a STOP before it ended, in the middle of a round. */
static void hear_last_words(struct handover *handover)
{
	struct channel_message message;

	handover->channel.deadline = clock_now();
	while (channel_receive(&handover->channel, &message))
		note_request(handover, &message);
	obey_requests(handover);
}

/* Serves all connections that were not handed over, if nothing else has stopped them. */
static void keep_all(const struct handover *handover, bool is_gone)
{
	LANES_HELD (lane, &handover->daemon->lanes) {
		pools_keep(lane->pools, is_gone);
		clients_go_on(lane->clients);
	}
}

/* Continues to serve; or stops, if the new process has sent STOP. */
static void serve_on(struct handover *handover)
{
	struct daemon *daemon = handover->daemon;
	struct err err = handover->channel.err;

	keep_all(handover, true);
	hear_last_words(handover);
	if (handover->is_to_stop) {
		log_info(&daemon->logger, "the other process has ended, shutting down as well");
	} else {
		log_kept(&daemon->logger, LOG_LEVEL_WARNING, "take-over",
		         "take-over failed, this process continues: %s", err.text);
		if (handover->state != HANDOVER_GREETED) {
			doors_serve(daemon, true);
			web_listen(daemon->web, true);
			notify_send(&daemon->notify, "READY=1\nSTATUS=ready\nMAINPID=%ld",
			            (long)getpid());
		}
	}
	handover_free(&daemon->handover);
}

/* ---- a round ---- */

static bool is_answer(char kind) { return kind == HANDOVER_ACCEPTED || kind == HANDOVER_REFUSED; }

/* To a round: ACCEPTED, REFUSED or NONE. */
static char await_answer(struct handover *handover)
{
	struct channel_message message;

	while (channel_receive(&handover->channel, &message)) {
		char kind = message.kind;

		note_request(handover, &message);
		if (is_answer(kind))
			return kind;
	}
	return HANDOVER_NONE;
}

/*
 * Hosts after all pools, since the new process keeps what a pool uses. Idle servers after all
 * clients: they go to the loop where most clients of their pool are.
 */
static bool write_all(struct handover *handover, bool is_first)
{
	const struct lanes *lanes = &handover->daemon->lanes;
	struct channel *channel = &handover->channel;
	bool ok = true;

	LANES_EACH (lane, lanes) {
		/* send what is queued: what a socket does not accept is known then */
		outbox_send(lane->streams.outbox);
		ok = ok && pools_write(lane->pools, channel, is_first);
	}
	if (ok && is_first)
		ok = handover_write_hosts(lanes->at->pools, channel);
	LANES_EACH (lane, lanes)
		ok = ok && clients_write(lane->clients, channel);
	LANES_EACH (lane, lanes)
		ok = ok && handover_write_idle_servers(lane->pools, channel, is_first);
	return ok && channel_send(channel, HANDOVER_END, bytes_of("", 0), -1);
}

/* Unless it is ACCEPTED, all connections are as they were before. */
static char make_round(struct handover *handover)
{
	const struct lanes *lanes = &handover->daemon->lanes;
	char answer = HANDOVER_NONE;

	lanes_hold(lanes);
	handover->channel.deadline = clock_now() + ROUND_LIMIT;
	if (write_all(handover, handover->state == HANDOVER_GREETED))
		answer = await_answer(handover);
	if (answer == HANDOVER_ACCEPTED &&
	    !channel_send(&handover->channel, HANDOVER_YOURS, bytes_of("", 0), -1))
		answer = HANDOVER_NONE;
	if (answer == HANDOVER_ACCEPTED) {
		LANES_EACH (lane, lanes) {
			/* first: a client that is let go returns its server */
			pools_let_go(lane->pools);
			handover->moved += clients_let_go(lane->clients);
		}
	}
	lanes_release(lanes);
	return answer;
}

/* ---- later rounds, and the end ---- */

/* Of all lanes, and those between two lanes. */
static unsigned int served_count(const struct daemon *daemon)
{
	unsigned int count = 0;

	LANES_HELD (lane, &daemon->lanes)
		count += lane->clients->count - lane->clients->state_counts[CLIENT_CONSOLE] +
		         atomic_load_explicit(&lane->arriving_count, memory_order_relaxed);
	return count;
}

/* Statements that are being cancelled are awaited, too. */
static bool is_empty(const struct daemon *daemon)
{
	bool is_ending = false;

	LANES_HELD (lane, &daemon->lanes)
		is_ending |= lane->pools->ending_count > 0;
	return !is_ending && served_count(daemon) == 0 && !daemon->takeover;
}

/* Whether a client can leave now; brings those that must rest closer to it. */
static bool have_leavers(struct daemon *daemon)
{
	bool have = false;

	LANES_HELD (lane, &daemon->lanes)
		have |= clients_look(lane->clients);
	return have;
}

/* Tells the new process that no message follows. It does not accept clients for that. */
static void give_up(struct handover *handover, const char *why)
{
	struct daemon *daemon = handover->daemon;

	handover->state = HANDOVER_OVER;
	if (handover->channel.is_broken)
		shutdown(handover->channel.fd, SHUT_WR); /* what it waits for does not come */
	if (handover->channel.is_deaf)
		watch_set(&handover->watch, 0); /* look() notices its end */
	log_kept(&daemon->logger, LOG_LEVEL_WARNING, "take-over",
	         "%s: the last %u clients stay in this process until they disconnect", why,
	         served_count(daemon));
}

/* After a round that the new process has not accepted. */
static void keep_round(struct handover *handover, char answer)
{
	const struct channel *channel = &handover->channel;

	if (channel_is_gone(channel)) {
		serve_on(handover);
		return;
	}
	keep_all(handover, false);
	if (answer == HANDOVER_REFUSED) {
		give_up(handover, "the new process refuses them, its log has the reason");
	} else if (channel->is_broken || channel->is_deaf) {
		give_up(handover, channel->err.text);
	} else {
		handover->state = HANDOVER_WAITING;
		log_kept(&handover->daemon->logger, LOG_LEVEL_WARNING, "take-over",
		         "the new process does not respond: waiting for it to hand over more");
	}
}

/* It comes too late, as this process has served these clients since. */
static void answer_late(struct handover *handover, char kind)
{
	if (handover->state != HANDOVER_WAITING || !is_answer(kind))
		return;
	if (kind == HANDOVER_REFUSED) {
		give_up(handover, "the new process refuses them, its log has the reason");
	} else {
		handover->state = HANDOVER_MOVING;
		channel_send(&handover->channel, HANDOVER_KEPT, bytes_of("", 0), -1);
	}
}

static void finish_handover(struct handover *handover)
{
	struct daemon *daemon = handover->daemon;

	log_kept(&daemon->logger, LOG_LEVEL_INFO, "take-over", "%s, shutting down",
	         handover->state == HANDOVER_MOVING ? "everything is handed over"
	                                            : "the last client has disconnected");
	handover->channel.deadline = clock_now() + ROUND_LIMIT;
	channel_send(&handover->channel, HANDOVER_DONE, bytes_of("", 0), -1);
	handover_free(&daemon->handover);
	loop_stop(daemon->loop);
}

static void on_deadline(struct timer *timer)
{
	struct handover *handover = container_of(timer, struct handover, deadline);
	struct err err;

	err_close(&err, CLOSE_TAKEOVER_TIMEOUT);
	log_kept(&handover->daemon->logger, LOG_LEVEL_WARNING, "take-over",
	         "takeover_timeout: closing the last %u clients", served_count(handover->daemon));
	LANES_HELD (lane, &handover->daemon->lanes)
		clients_dismiss(lane->clients, &err);
}

static void look(struct timer *timer)
{
	struct handover *handover = container_of(timer, struct handover, look);
	struct daemon *daemon = handover->daemon;
	bool is_last = is_empty(daemon), may_try = handover->state == HANDOVER_MOVING;
	char answer = HANDOVER_ACCEPTED;

	if (handover->state == HANDOVER_OVER && channel_is_gone(&handover->channel)) {
		serve_on(handover);
		return;
	}
	timer_begin(timer, daemon->loop, LOOK_PERIOD, look);
	if (may_try && (is_last || have_leavers(daemon)))
		answer = make_round(handover);
	if (answer != HANDOVER_ACCEPTED)
		keep_round(handover, answer);
	else if (is_last)
		finish_handover(handover);
	else
		obey_requests(handover);
}

/* The first round. After it the new process accepts the clients. */
static void move(struct handover *handover)
{
	struct daemon *daemon = handover->daemon;
	bool is_suspended = daemon->lanes.at[0].pools->suspend != SUSPEND_NONE;
	usec_t since = clock_now();

	if (is_suspended)
		err_set(&handover->channel.err, ERR_STATE, "everything is suspended");
	if (is_suspended || make_round(handover) != HANDOVER_ACCEPTED) {
		serve_on(handover);
		return;
	}
	handover->state = HANDOVER_MOVING;
	doors_serve(daemon, false);
	web_listen(daemon->web, false);
	log_kept(&daemon->logger, LOG_LEVEL_INFO, "take-over",
	         "handed over %u clients in %lld ms, %u remain; accepting no new clients",
	         handover->moved, (long long)((clock_now() - since) / USEC_PER_MS),
	         served_count(daemon));
	timer_begin(&handover->deadline, daemon->loop, daemon->now.config->takeover_timeout,
	            on_deadline);
	look(&handover->look);
}

/* ---- the channel ---- */

static void on_message(struct watch *watch, unsigned int what)
{
	struct handover *handover = container_of(watch, struct handover, watch);
	struct channel_message message;
	char kind;

	(void)what;
	handover->channel.deadline = clock_now() + MESSAGE_LIMIT;
	if (!channel_receive(&handover->channel, &message)) {
		if (handover->state == HANDOVER_GREETED || channel_is_gone(&handover->channel))
			serve_on(handover);
		else
			give_up(handover, handover->channel.err.text);
		return;
	}
	kind = message.kind;
	note_request(handover, &message);
	answer_late(handover, kind);
	if (kind == HANDOVER_GO && handover->state == HANDOVER_GREETED)
		move(handover);
	else
		obey_requests(handover);
}

static bool send_hello(struct handover *handover)
{
	struct daemon *daemon = handover->daemon;
	struct channel *channel = &handover->channel;
	struct hello_record hello = {
		.pid = (uint64_t)getpid(),
		.version = VERSION_OWN,
		.is_given = listener_is_given(TAILQ_FIRST(&daemon->doors)->listener),
	};
	struct address address;
	int fd;

	channel_send_table(channel, HANDOVER_HELLO, &hello_record_table, &hello, -1);
	TAILQ_EACH (door, &daemon->doors, node) {
		for (size_t i = 0; (fd = listener_fd(door->listener, i, &address)) >= 0; i++)
			channel_send(channel, HANDOVER_LISTENER,
			             bytes_text(door->gate ? door->gate->name : ""), fd);
	}
	return channel_send(channel, HANDOVER_END, bytes_of("", 0), -1);
}

static bool may_start(struct daemon *daemon, bool is_plain, const char *version, struct err *err)
{
	if (!is_plain && strcmp(version, HANDOVER_VERSION) != 0)
		return err_set(
		    err, ERR_UNSUPPORTED,
		    "hand-over version %s was requested, but the running process supports "
		    "version %s: stop it, then start the new one",
		    *version ? version : "(none)", HANDOVER_VERSION);
	if (daemon->handover)
		return err_set(err, ERR_STATE, "another process is already taking over");
	if (daemon->lanes.at[0].clients->is_shutting_down)
		return err_set(err, ERR_STATE, "pooler is shutting down");
	if (daemon->lanes.at[0].pools->suspend != SUSPEND_NONE)
		return err_set(err, ERR_STATE, "everything is suspended: RESUME first");
	return true;
}

bool handover_start(struct daemon *daemon, struct client *client, const char *version,
                    struct err *err)
{
	bool is_plain = strcmp(version, HANDOVER_VERSION_PLAIN) == 0;
	struct handover *handover;

	if (!may_start(daemon, is_plain, version, err))
		return false;
	handover = calloc(1, sizeof(*handover));
	if (!handover)
		return err_set(err, ERR_MEMORY, "out of memory");
	LANES_HELD (lane, &daemon->lanes)
		lane->pools->is_handover_plain = is_plain;
	log_kept(&daemon->logger, LOG_LEVEL_INFO, "take-over", "another process is taking over");
	daemon->handover = handover;
	handover->daemon = daemon;
	handover->channel.fd = client_console_detach(client);
	watch_init(&handover->watch, daemon->loop, handover->channel.fd, on_message);
	handover->channel.deadline = clock_now() + MESSAGE_LIMIT;
	if (!send_hello(handover) || !watch_set(&handover->watch, WATCH_READ))
		serve_on(handover);
	return true;
}
