/* SPDX-License-Identifier: ISC */
/*
 * Begins a take-over: sends TAKEOVER to the console of the running process, which answers
 * with an error or with its listening sockets.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "pgweir/net/channel.h"
#include "pgweir/net/address.h"
#include "pgweir/pgwire/fields.h"

#include "handover_priv.h"
#include "takeover.h"

#define ANSWER_LIMIT (5 * USEC_PER_SEC)

/* Whether a process listens on that socket. If not, the daemon starts normally. */
static bool is_somebody_there(const char *path)
{
	struct sockaddr_un name;
	socklen_t size;
	struct err err;
	bool is_there;
	int fd;

	if (!address_unix_name(&name, &size, path, &err))
		return false;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return false;
	is_there = connect(fd, (const struct sockaddr *)&name, size) == 0 ||
	           (errno != ENOENT && errno != ECONNREFUSED);
	close(fd);
	return is_there;
}

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

/* Handles one message. false: *err has the reason for which the take-over ends. */
static bool take_answer(struct takeover *takeover, struct channel_message *message, struct err *err)
{
	switch (message->kind) {
	case HANDOVER_ERROR:
		return take_error(takeover, buf_bytes(&message->body), err);
	case HANDOVER_HELLO:
		return take_hello(takeover, buf_bytes(&message->body), err);
	case HANDOVER_LISTENER:
		if (message->fd < 0 || takeover->listener_count == TAKEOVER_LISTENERS_MAX)
			return err_set(err, ERR_PROTOCOL, "a listening socket was lost");
		takeover->listeners[takeover->listener_count++] = message->fd;
		message->fd = -1;
		return true;
	case HANDOVER_END:
		return takeover->pid > 0 ||
		       err_set(err, ERR_PROTOCOL, "the running process does not identify itself");
	default:
		return err_set(err, ERR_PROTOCOL, "unexpected response");
	}
}

static bool take_answers(struct takeover *takeover, struct err *err)
{
	struct channel channel = { .fd = takeover->fd, .deadline = clock_now() + ANSWER_LIMIT };
	struct channel_message message;
	bool is_good = true, is_over = false;

	while (is_good && !is_over) {
		if (!channel_receive(&channel, &message)) {
			*err = channel.err;
			return false;
		}
		is_over = message.kind == HANDOVER_END;
		is_good = take_answer(takeover, &message, err);
		channel_message_done(&message);
	}
	return is_good;
}

/* The answering process hands over sockets and secrets, so it must run as our own system user. */
static bool ask_for_it(struct takeover *takeover, const char *path, const char *version,
                       struct err *err)
{
	struct ask_whom whom = { .owner = geteuid(), .is_strict = true };
	char command[64];
	struct ask ask;

	snprintf(whom.path, sizeof(whom.path), "%s", path);
	if (!ask_open(&ask, &whom, err))
		return false;
	snprintf(command, sizeof(command), "TAKEOVER %s", version);
	if (!ask_say(&ask, command, err)) {
		ask_close(&ask);
		return false;
	}
	takeover->fd = ask.fd;
	ask.fd = -1;
	ask_close(&ask);
	return take_answers(takeover, err);
}

/*
 * Asks for our version of a hand-over; a release that refuses it is asked for the plain format. The
 * error is about our version.
 */
static bool ask_for_either(struct takeover *takeover, const char *path, struct err *err)
{
	char version[HANDOVER_VERSION_SIZE];
	struct err ignored;

	handover_version(version, sizeof(version));
	if (ask_for_it(takeover, path, version, err))
		return true;
	if (!takeover->is_other_version)
		return false;
	takeover_end(takeover);
	takeover->is_plain = true;
	return ask_for_it(takeover, path, handover_version_plain(), &ignored);
}

bool takeover_begin(struct takeover *takeover, const struct config *config, struct err *err)
{
	char path[ASK_PATH_SIZE];

	*takeover = (struct takeover){ .fd = -1 };
	if (!ask_socket_path(config, path, sizeof(path)))
		return err_set(
		    err, ERR_CONFIG,
		    "-R needs unix_socket_dir, to reach the running process through its Unix "
		    "socket");
	if (!is_somebody_there(path))
		return true;
	if (ask_for_either(takeover, path, err))
		return true;
	err_prefix(err, "cannot take over: ");
	takeover_end(takeover);
	return false;
}

void takeover_end(struct takeover *takeover)
{
	for (unsigned int i = 0; i < takeover->listener_count; i++) {
		if (takeover->listeners[i] >= 0)
			close(takeover->listeners[i]);
	}
	takeover->listener_count = 0;
	if (takeover->fd >= 0)
		close(takeover->fd);
	takeover->fd = -1;
}
