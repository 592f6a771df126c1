/* SPDX-License-Identifier: ISC */
/*
 * A client's socket: what comes over it, by the client's state, and what goes on
 * when it takes bytes again.
 *
 * Hard here: whatever is done with input may close the client or stop its reading, so each
 * step says whether to go on; and a turn has no more than sbuf_loopcnt reads for one client.
 */
#include "client_priv.h"

#include "pgweir/base/banned.h"

bool client_send(struct client *client, struct bytes bytes)
{
	if (stream_send(&client->stream, bytes))
		return true;
	client_close(client, "client unexpected eof");
	return false;
}

/* What each state does with what comes; NULL: it is thrown away. */
static bool (*const inputs[CLIENT_STATES])(struct client *client, struct bytes in) = {
	[CLIENT_STARTUP] = startup_input, [CLIENT_AUTHENTICATION] = authentication_input,
	[CLIENT_IDLE] = relay_input,      [CLIENT_LATE] = relay_input,
	[CLIENT_ACTIVE] = relay_input,    [CLIENT_CONSOLE] = console_input,
};

static bool consume(struct client *client, struct bytes in)
{
	if (inputs[client->state])
		return inputs[client->state](client, in);
	if (client->state == CLIENT_LINGERING)
		return stream_keep(&client->stream, bytes_skip(in, in.count));
	/* Nothing is read in the other states, but what was kept may be looked at. */
	if (!stream_keep(&client->stream, in))
		client_close(client, "out of memory");
	return false;
}

void client_judge_kept(struct client *client)
{
	struct bytes in = stream_kept(&client->stream);

	if (in.count)
		consume(client, in);
}

bool client_is_nobody(const struct client *client)
{
	const struct client_login *login = client->login;

	return login && login->client && !login->has_answered;
}

static void on_end(struct client *client)
{
	bool is_silent = client_is_nobody(client) && !client->stream.error;

	/* Monitors connect and go, after their startup packet as well; that is not worth a line. */
	if (stream_is_flooded(&client->stream))
		client_close(client, "too many TLS key updates");
	else
		client_close(client, is_silent ? NULL : "client unexpected eof");
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
	struct client *client = CLIENT_OF(stream, stream);

	take_input(client);
	drain_look(client);
}

static void go_on(struct client *client)
{
	struct stream *stream = &client->stream;

	switch (client->state) {
	case CLIENT_LINGERING:
		stream_finish(stream);
		return;
	case CLIENT_CONSOLE:
		client->clients->with.door->on_writable(client->console);
		return;
	case CLIENT_PREPARING:
		server_read_on(client->borrower.server);
		return;
	case CLIENT_ACTIVE:
		server_read_on(client->borrower.server);
		/* What it said before its answer had gone may have got it a server. */
		if (stream->want == WANT_NOTHING && server_can_take(client->borrower.server))
			client_borrower_ops.on_writable(&client->borrower);
		return;
	case CLIENT_IDLE:
	case CLIENT_LATE:
		if (stream_want(stream, WANT_INPUT))
			client_judge_kept(client);
		return;
	default:
		return;
	}
}

static void on_flushed(struct stream *stream)
{
	struct client *client = CLIENT_OF(stream, stream);

	go_on(client);
	drain_look(client);
}

static void on_gone(struct stream *stream) { on_end(CLIENT_OF(stream, stream)); }

const struct stream_ops client_stream_ops = { on_input, on_flushed, on_gone, client_tls_done };
