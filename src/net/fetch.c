/* SPDX-License-Identifier: ISC */
/*
 * One GET by HTTP/1.0: the server closes the connection behind its answer.
 *
 *   name --> address --> connection --> (TLS) --> request --> answer
 *
 * Hard here: the server is not trusted with our memory or time. The answer has a greatest size,
 * the whole of it one time limit, and its head is looked for only in what is new.
 */
#include "pgweir/net/fetch.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "pgweir/base/container_of.h"
#include "pgweir/net/tls.h"

#define HEAD_END "\r\n\r\n"

static void end(struct fetch *fetch)
{
	timer_clear(&fetch->timer);
	resolver_cancel(&fetch->ask);
	dial_cancel(&fetch->dial);
	stream_close(&fetch->stream);
	buf_wipe(&fetch->request);
	tls_context_unref(&fetch->with.tls);
}

void fetch_cancel(struct fetch *fetch)
{
	end(fetch);
	buf_free(&fetch->in);
}

/* The fetch may be used again by the callback. */
static void finish(struct fetch *fetch, struct bytes body, const struct err *err)
{
	struct buf in = fetch->in;

	end(fetch);
	fetch->in = (struct buf){ 0 };
	fetch->on_done(fetch, body, err);
	buf_free(&in);
}

static void fail(struct fetch *fetch, const char *text)
{
	struct err err;

	err_set(&err, ERR_SERVER_CONNECT, "%s", text);
	finish(fetch, bytes_of(NULL, 0), &err);
}

static void on_due(struct timer *timer)
{
	fail(container_of(timer, struct fetch, timer), "no answer in time");
}

/* ---- the answer ---- */

/* The value of a line of the head; empty: it has no such line. */
static struct bytes find_line(struct bytes head, const char *name)
{
	size_t count = strlen(name);
	const char *line;

	while ((line = memchr(head.at, '\n', head.count))) {
		head = bytes_skip(head, (size_t)(line + 1 - head.at));
		if (head.count > count && strncasecmp(head.at, name, count) == 0)
			return bytes_skip(head, count);
	}
	return bytes_of(NULL, 0);
}

/* The body that the head promises; SIZE_MAX: all that comes. */
static size_t promised(struct bytes head)
{
	struct bytes value = find_line(head, "Content-Length:");
	size_t size = 0;

	if (!value.at)
		return SIZE_MAX;
	while (value.count && value.at[0] == ' ')
		value = bytes_skip(value, 1);
	for (; value.count && value.at[0] >= '0' && value.at[0] <= '9';
	     value = bytes_skip(value, 1)) {
		if (size > FETCH_MAX)
			break;
		size = size * 10 + (size_t)(value.at[0] - '0');
	}
	return size;
}

#define BAD(err, ...) (err_set((err), ERR_PROTOCOL, __VA_ARGS__), FETCH_BAD)

enum fetch_answer fetch_read(struct bytes in, size_t *seen, bool is_all, struct bytes *body,
                             struct err *err)
{
	size_t from = *seen > 3 ? *seen - 3 : 0, size;
	const char *found = in.count ? memmem(in.at + from, in.count - from, HEAD_END, 4) : NULL;
	struct bytes head;

	*seen = found ? from : in.count; /* the head's end is found at once again */
	if (in.count > FETCH_MAX)
		return BAD(err, "its answer is longer than %d bytes", FETCH_MAX);
	if (!found && !is_all)
		return FETCH_MORE;
	/* The digits end at the latest where the head does. */
	if (!found || in.count < 13 || memcmp(in.at, "HTTP/1.", 7) != 0 ||
	    strspn(in.at + 9, "0123456789") < 3)
		return BAD(err, "its answer is no HTTP");
	if (memcmp(in.at + 8, " 200", 4) != 0)
		return BAD(err, "it answers with status %.3s", in.at + 9);
	head = bytes_of(in.at, (size_t)(found - in.at) + 2);
	if (find_line(head, "Transfer-Encoding:").at)
		return BAD(err, "its answer has a transfer encoding");
	size = promised(head);
	*body = bytes_skip(in, head.count + 2);
	if (size == SIZE_MAX && is_all)
		return FETCH_WHOLE;
	if (body->count >= size) {
		body->count = size;
		return FETCH_WHOLE;
	}
	if (!is_all)
		return FETCH_MORE;
	return BAD(err, "its answer was cut");
}

static void on_input(struct stream *stream)
{
	struct fetch *fetch = container_of(stream, struct fetch, stream);
	enum stream_result result;
	struct bytes in, body = { 0 };
	struct err err;

	do {
		result = stream_read(stream, &in);
		if (result == STREAM_DATA || result == STREAM_SHORT)
			buf_add(&fetch->in, in.at, in.count);
	} while (result == STREAM_DATA && fetch->in.count <= FETCH_MAX);
	if (!buf_ok(&fetch->in)) {
		fail(fetch, "out of memory");
		return;
	}
	switch (
	    fetch_read(buf_bytes(&fetch->in), &fetch->seen, result == STREAM_END, &body, &err)) {
	case FETCH_WHOLE:
		finish(fetch, body, NULL);
		break;
	case FETCH_BAD:
		finish(fetch, body, &err);
		break;
	case FETCH_MORE:
		break;
	}
}

/* ---- asking ---- */

static void on_gone(struct stream *stream)
{
	fail(container_of(stream, struct fetch, stream), "the connection was closed");
}

static void send_request(struct fetch *fetch)
{
	if (!stream_send(&fetch->stream, buf_bytes(&fetch->request)) ||
	    !stream_want(&fetch->stream, WANT_INPUT))
		fail(fetch, "the connection was closed");
}

static void on_secured(struct stream *stream, const struct err *err)
{
	struct fetch *fetch = container_of(stream, struct fetch, stream);

	if (err)
		fail(fetch, err->text);
	else
		send_request(fetch);
}

static const struct stream_ops ops = { .on_input = on_input,
	                               .on_gone = on_gone,
	                               .on_secured = on_secured };

static void on_connected(struct dial *dial, int fd, const struct err *err)
{
	struct fetch *fetch = container_of(dial, struct fetch, dial);
	struct err failure;

	if (fd < 0) {
		fail(fetch, err->text);
		return;
	}
	stream_open(&fetch->stream, fetch->with.loop, fetch->with.streams, fd, &ops);
	if (!fetch->with.tls)
		send_request(fetch);
	else if (!stream_secure(&fetch->stream, fetch->with.tls, fetch->host, bytes_of(NULL, 0),
	                        &failure))
		fail(fetch, failure.text);
}

static void on_address(struct resolver_ask *ask, const struct address *address,
                       const struct err *err)
{
	struct fetch *fetch = container_of(ask, struct fetch, ask);

	if (address)
		dial_start(&fetch->dial, fetch->with.loop, address, NULL, fetch->with.sockets,
		           on_connected);
	else
		fail(fetch, err->text);
}

static void write_request(struct fetch *fetch, uint16_t port, struct bytes path, const char *login)
{
	struct buf *out = &fetch->request;
	bool is_v6 = strchr(fetch->host, ':') != NULL;

	buf_add_text(out, "GET ");
	buf_add(out, path.at, path.count);
	buf_printf(out, " HTTP/1.0\r\nHost: %s%s%s:%u\r\nAccept: application/json\r\n",
	           is_v6 ? "[" : "", fetch->host, is_v6 ? "]" : "", port);
	if (*login)
		buf_printf(out, "Authorization: Basic %s\r\n", login);
	buf_add_text(out, "Connection: close\r\n\r\n");
}

bool fetch_start(struct fetch *fetch, const struct fetch_with *with, struct bytes host,
                 uint16_t port, struct bytes path, const char *login, fetch_on_done *on_done,
                 struct err *err)
{
	if (host.count >= sizeof(fetch->host))
		return err_set(err, ERR_CONFIG, "the name of the host is too long");
	fetch->with = *with;
	fetch->with.tls = NULL;
	fetch->on_done = on_done;
	fetch->seen = 0;
	memcpy(fetch->host, host.at, host.count);
	fetch->host[host.count] = 0;
	write_request(fetch, port, path, login);
	if (!buf_ok(&fetch->request))
		err_set(err, ERR_MEMORY, "out of memory");
	else if (resolver_start(with->resolver, &fetch->ask, fetch->host, port, on_address, err)) {
		fetch->with.tls = with->tls ? tls_context_ref(with->tls) : NULL;
		timer_begin(&fetch->timer, with->loop, with->limit, on_due);
		return true;
	}
	buf_wipe(&fetch->request);
	return false;
}
