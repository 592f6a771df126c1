/* SPDX-License-Identifier: ISC */
/*
 * Options of TCP sockets, as a table.
 *
 * Hard here: an option that is 0 is left at the system's default, even if the listener had
 * another value before: the default cannot be found out any more. Only keepalive can be
 * switched off again.
 */
#include "pgweir/net/socket_options.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "pgweir/base/container_of.h"

#include "stream_priv.h"

static const struct row {
	const char *name;
	int level;
	int option;
	size_t at; /* offset of an int in struct socket_options */
	bool is_for_keepalive;
} rows[] = {
	{ "tcp_keepcnt", IPPROTO_TCP, TCP_KEEPCNT, offsetof(struct socket_options, tcp_keepcnt),
	  true },
	{ "tcp_keepidle", IPPROTO_TCP, TCP_KEEPIDLE, offsetof(struct socket_options, tcp_keepidle),
	  true },
	{ "tcp_keepintvl", IPPROTO_TCP, TCP_KEEPINTVL,
	  offsetof(struct socket_options, tcp_keepintvl), true },
	{ "tcp_user_timeout", IPPROTO_TCP, TCP_USER_TIMEOUT,
	  offsetof(struct socket_options, tcp_user_timeout), false },
	{ "tcp_socket_buffer", SOL_SOCKET, SO_SNDBUF,
	  offsetof(struct socket_options, tcp_socket_buffer), false },
	{ "tcp_socket_buffer", SOL_SOCKET, SO_RCVBUF,
	  offsetof(struct socket_options, tcp_socket_buffer), false },
};

struct refused {
	const char *name;
	int why;
};

static void set(int fd, int level, int option, int value, const char *name, struct refused *refused)
{
	if (setsockopt(fd, level, option, &value, sizeof(value)) == 0 || refused->name)
		return;
	refused->name = name;
	refused->why = errno;
}

const char *socket_options_apply(int fd, const struct socket_options *options)
{
	struct refused refused = { NULL, 0 };

	set(fd, IPPROTO_TCP, TCP_NODELAY, 1, "TCP_NODELAY", &refused);
	set(fd, SOL_SOCKET, SO_KEEPALIVE, options->tcp_keepalive, "tcp_keepalive", &refused);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		int value;

		memcpy(&value, (const char *)options + rows[i].at, sizeof(value));
		if (value == 0 || (rows[i].is_for_keepalive && !options->tcp_keepalive))
			continue;
		set(fd, rows[i].level, rows[i].option, value, rows[i].name, &refused);
	}
	errno = refused.why;
	return refused.name;
}

int socket_open(int family)
{
	return socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

/*
 * ---- bulk ----
 *
 * Bulk reading.
 *
 *   much has come --> a slot, lowat = BULK_LEAST --> read, read, read ... --> pause, or we
 *                                                                          send: lowat = 1
 *
 * Hard here: the end of the data cannot be seen, so its last bytes wait until the pause has
 * passed. After a pause the bytes are counted from 0 again. So a peer that sends a little now
 * and then is delayed once per BULK_BEGIN bytes, not each time.
 */

void bulk_slots_free(struct bulk_slots **slots)
{
	free(*slots);
	*slots = NULL;
}

static bool set_least(const struct stream *stream, int least)
{
	return setsockopt(stream->watch.fd, SOL_SOCKET, SO_RCVLOWAT, &least, sizeof(least)) == 0;
}

/*
 * After setsockopt() the kernel checks at once whether enough has arrived, so nothing is
 * missed.
 */
void bulk_end(struct stream *stream)
{
	struct bulk *bulk = &stream->pool->bulk_slots->slots[stream->slot - 1];

	timer_clear(&bulk->pause);
	bulk->stream = NULL;
	stream->slot = 0;
	stream->flow = 0;
	set_least(stream, 1);
}

static void on_pause(struct timer *timer)
{
	bulk_end(container_of(timer, struct bulk, pause)->stream);
}

/* Returns NULL if there is no memory. */
static struct bulk_slots *slots_new(struct loop *loop)
{
	struct bulk_slots *slots = calloc(1, sizeof(*slots));

	if (slots)
		slots->queue = loop_timer_queue(loop, BULK_PAUSE, on_pause);
	if (slots && !slots->queue)
		bulk_slots_free(&slots);
	return slots;
}

/* Gives the stream a slot, if one is free. */
static void take_slot(struct bulk_slots *slots, struct stream *stream)
{
	unsigned int i = 0;

	while (i < BULK_SLOTS && slots->slots[i].stream)
		i++;
	if (i == BULK_SLOTS || !set_least(stream, BULK_LEAST))
		return;
	slots->slots[i].stream = stream;
	stream->slot = i + 1;
}

void bulk_go_on(struct stream *stream)
{
	struct loop *loop = stream->watch.loop;
	struct bulk_slots **slots = &stream->pool->bulk_slots;

	stream->flow = 0; /* without a slot it tries again after another BULK_BEGIN bytes */
	if (!*slots)
		*slots = slots_new(loop);
	if (*slots && !stream->slot)
		take_slot(*slots, stream);
	if (!stream->slot)
		return;
	stream->flow = BULK_BEGIN;
	timer_set(&(*slots)->slots[stream->slot - 1].pause, (*slots)->queue, loop_now(loop));
}
