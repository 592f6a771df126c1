/* SPDX-License-Identifier: ISC */
/*
 * A client's socket: input and flushed output are handled by the functions of the client's state
 * (client_ops).
 *
 * Hard here: handling input may close the client or stop reading, so each step returns whether to
 * continue. And one client gets at most sbuf_loopcnt reads in a turn.
 */
#include "client_priv.h"

#include "pgweir/base/container_of.h"

static bool consume(struct client *client, struct bytes in)
{
	const struct client_state_ops *ops = &client->clients->ops->states[client->state];

	if (ops->on_input)
		return ops->on_input(client, in);
	/* The other states do not read, but get buffered input. */
	if (!stream_keep(&client->stream, in))
		client_close(client, CLOSE_MEMORY);
	return false;
}

void client_judge_kept(struct client *client)
{
	struct bytes in = stream_kept(&client->stream);

	if (in.count)
		consume(client, in);
}

void client_read_on(struct client *client)
{
	if (stream_want(&client->stream, WANT_INPUT))
		client_judge_kept(client);
}

/* The client closed the connection, and was not asked to authenticate, or did not answer. */
static enum close_reason left_reason(const struct client *client)
{
	return client->state == CLIENT_STARTUP ? CLOSE_LEFT_EARLY : CLOSE_LEFT_UNAUTHENTICATED;
}

static void on_end(struct client *client)
{
	bool is_silent = client_is_nobody(client) && !client->stream.error;

	/*
	 * Its server only owes what we have asked, and is fit for others as soon as it has
	 * answered. A client that connects for each transaction leaves just then.
	 */
	if (client->state == CLIENT_SETTLING &&
	    server_rest(client->borrower.server) == REST_WORKING) {
		client->is_gone = true;
		return;
	}
	/*
	 * Monitoring connects and disconnects, also after the startup packet: not worth a log line.
	 */
	if (stream_is_flooded(&client->stream))
		client_close(client, CLOSE_TLS_KEY_UPDATES);
	else
		client_close(client, is_silent ? left_reason(client) : CLOSE_CLIENT_EOF);
}

static void take_input(struct client *client)
{
	struct stream *stream = &client->stream;
	int rounds = client->clients->config->sbuf_loopcnt;
	enum stream_result result;

	do {
		struct bytes in;

		result = stream_read(stream, &in);
		if (result == STREAM_NOTHING)
			return;
		if (result == STREAM_END) {
			on_end(client);
			return;
		}
		if (!consume(client, in))
			return;
	} while (result == STREAM_DATA && (rounds == 0 || --rounds > 0));
}

static void on_input(struct stream *stream)
{
	struct client *client = container_of(stream, struct client, stream);

	take_input(client);
	drain_look(client);
}

static void on_flushed(struct stream *stream)
{
	struct client *client = container_of(stream, struct client, stream);
	const struct client_state_ops *ops = &client->clients->ops->states[client->state];

	if (ops->on_flushed)
		ops->on_flushed(client);
	drain_look(client);
}

static void on_secured(struct stream *stream, const struct err *err)
{
	struct client *client = container_of(stream, struct client, stream);

	client->clients->ops->on_secured(client, err);
}

static void on_gone(struct stream *stream) { on_end(container_of(stream, struct client, stream)); }

const struct stream_ops client_stream_ops = { on_input, on_flushed, on_gone, on_secured };
