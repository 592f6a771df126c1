/* SPDX-License-Identifier: ISC */
/*
 * The channel.
 *
 * A message has a kind (one byte), a length and a body. The length has four bytes and counts
 * itself but not the kind, as in PostgreSQL's messages. A descriptor is sent with the first of
 * these bytes.
 *
 * Hard here: the peer may send something unexpected. It may send several descriptors: all are
 * received, so that they can be closed.
 */
#include "pgweir/net/channel.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define HEADER_SIZE 5
#define FDS_MAX 4
#define PIECE_SIZE ((size_t)256 * 1024)

static bool channel_fail(struct channel *channel, const char *what, int failure)
{
	if (!channel->is_broken && !channel->is_deaf)
		err_set(&channel->err, ERR_SYSTEM, "%s: %s", what, strerror(failure));
	return false;
}

static bool channel_refuse(struct channel *channel, const char *why)
{
	if (!channel->is_broken && !channel->is_deaf)
		err_set(&channel->err, ERR_PROTOCOL, "protocol error in the hand-over: %s", why);
	return false;
}

/* Waits until the descriptor is ready for `events`. false: not before the deadline. */
static bool await(struct channel *channel, short events)
{
	struct pollfd pollfd = { .fd = channel->fd, .events = events };

	for (;;) {
		usec_t left = channel->deadline - clock_now();
		int count = poll(&pollfd, 1, left > 0 ? (int)(left / USEC_PER_MS) + 1 : 0);

		if (count > 0)
			return true;
		if (count == 0)
			return channel_fail(channel, "the other process does not respond",
			                    ETIMEDOUT);
		if (errno != EINTR)
			return channel_fail(channel, "cannot wait for the other process", errno);
	}
}

static bool is_ready(const struct channel *channel, short events)
{
	struct pollfd pollfd = { .fd = channel->fd, .events = events };

	return poll(&pollfd, 1, 0) > 0;
}

bool channel_is_gone(const struct channel *channel) { return is_ready(channel, 0); }

/* The kernel says so as long as at most a quarter of the socket's buffer is in use. */
bool channel_has_room(const struct channel *channel) { return is_ready(channel, POLLOUT); }

static bool is_passing(int failure) { return failure == EAGAIN || failure == EINTR; }

/* ---- sending ---- */

static void attach(struct msghdr *message, void *buffer, size_t size, int fd)
{
	struct cmsghdr *head;

	memset(buffer, 0, size);
	message->msg_control = buffer;
	message->msg_controllen = size;
	head = CMSG_FIRSTHDR(message);
	head->cmsg_level = SOL_SOCKET;
	head->cmsg_type = SCM_RIGHTS;
	head->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(head), &fd, sizeof(int));
}

static bool send_bytes(struct channel *channel, struct bytes rest, int fd)
{
	_Alignas(struct cmsghdr) char buffer[CMSG_SPACE(sizeof(int))];

	while (rest.count) {
		struct iovec piece = { (void *)rest.at, rest.count };
		struct msghdr message = { .msg_iov = &piece, .msg_iovlen = 1 };
		ssize_t done;

		if (fd >= 0)
			attach(&message, buffer, sizeof(buffer), fd);
		done = sendmsg(channel->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (done > 0) {
			rest = bytes_skip(rest, (size_t)done);
			fd = -1; /* it went with the first byte */
		} else if (!is_passing(errno) && errno != ETOOMANYREFS) {
			return channel_fail(channel, "cannot send to the other process", errno);
		} else if (!await(channel, POLLOUT)) {
			/* ETOOMANYREFS: until the other process has received some descriptors */
			return false;
		}
	}
	return true;
}

bool channel_send(struct channel *channel, enum handover_kind kind, struct bytes body, int fd)
{
	char header[HEADER_SIZE] = { (char)kind };
	bool ok = body.count <= CHANNEL_MESSAGE_MAX;

	if (channel->is_broken)
		return false;
	if (!ok)
		channel_refuse(channel, "a record is too long");
	store_be32(header + 1, (uint32_t)(body.count + 4));
	ok = ok && send_bytes(channel, bytes_of(header, sizeof(header)), fd) &&
	     send_bytes(channel, body, -1);
	channel->is_broken = !ok;
	return ok;
}

bool channel_send_record(struct channel *channel, enum handover_kind kind, const struct buf *body,
                         int fd)
{
	if (!buf_ok(body)) {
		channel_fail(channel, "cannot write a record", ENOMEM);
		channel->is_broken = true;
		return false;
	}
	return channel_send(channel, kind, buf_bytes(body), fd);
}

bool channel_send_table(struct channel *channel, enum handover_kind kind,
                        const struct record_table *table, const void *values, int fd)
{
	struct buf record = { .is_secret = true };
	bool ok;

	record_write(&record, table, values);
	ok = channel_send_record(channel, kind, &record, fd);
	buf_wipe(&record);
	return ok;
}

/* ---- receiving ---- */

/* Keeps the first descriptor and closes all others. */
static void take_fds(struct msghdr *message, int *kept)
{
	struct cmsghdr *head = CMSG_FIRSTHDR(message);

	for (; head; head = CMSG_NXTHDR(message, head)) {
		size_t count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < count; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(head) + i * sizeof(int), sizeof(int));
			if (*kept < 0)
				*kept = fd;
			else
				close(fd);
		}
	}
}

static bool channel_fill(struct channel *channel, char *at, size_t count, int *fd)
{
	_Alignas(struct cmsghdr) char buffer[CMSG_SPACE(FDS_MAX * sizeof(int))];
	size_t have = 0;

	while (have < count) {
		struct iovec piece = { at + have, count - have };
		struct msghdr message = { .msg_iov = &piece,
			                  .msg_iovlen = 1,
			                  .msg_control = buffer,
			                  .msg_controllen = sizeof(buffer) };
		ssize_t done = recvmsg(channel->fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

		if (done > 0) {
			take_fds(&message, fd);
			have += (size_t)done;
		} else if (done == 0) {
			return channel_fail(channel, "the other process has ended", EPIPE);
		} else if (!is_passing(errno)) {
			return channel_fail(channel, "cannot read from the other process", errno);
		} else if (!await(channel, POLLIN)) {
			return false;
		}
	}
	return true;
}

/* Allocates memory as bytes arrive: a length alone must not cause a large allocation. */
static bool fill_body(struct channel *channel, struct channel_message *message, size_t count)
{
	while (count) {
		size_t piece = count < PIECE_SIZE ? count : PIECE_SIZE;
		char *at = buf_reserve(&message->body, piece);

		if (!at)
			return channel_fail(channel, "cannot keep a record", ENOMEM);
		if (!channel_fill(channel, at, piece, &message->fd))
			return false;
		message->body.count += piece;
		count -= piece;
	}
	return true;
}

static bool receive(struct channel *channel, struct channel_message *message)
{
	char header[HEADER_SIZE];
	uint32_t length;

	if (!channel_fill(channel, header, sizeof(header), &message->fd))
		return false;
	message->kind = header[0];
	length = load_be32(header + 1);
	if (length < 4 || length - 4 > CHANNEL_MESSAGE_MAX)
		return channel_refuse(channel, "impossible length");
	return fill_body(channel, message, length - 4);
}

bool channel_receive(struct channel *channel, struct channel_message *message)
{
	*message = (struct channel_message){ .fd = -1, .body.is_secret = true };
	if (channel->is_deaf || !await(channel, POLLIN))
		return false;
	if (receive(channel, message))
		return true;
	channel->is_deaf = true;
	channel_message_done(message);
	return false;
}

void channel_message_done(struct channel_message *message)
{
	buf_wipe(&message->body);
	if (message->fd >= 0)
		close(message->fd);
	message->fd = -1;
}

/* ---- kept messages ---- */

bool channel_messages_add(struct channel_messages *messages, const struct channel_message *message)
{
	struct channel_message *at =
	    array_room(messages->at, messages->count, &messages->capacity, sizeof(*at));

	if (!at)
		return false;
	messages->at = at;
	messages->at[messages->count++] = *message;
	return true;
}

void channel_messages_done(struct channel_messages *messages)
{
	while (messages->count)
		channel_message_done(&messages->at[--messages->count]);
	free(messages->at);
	*messages = (struct channel_messages){ 0 };
}
