/* SPDX-License-Identifier: ISC */
/*
 * The interface to the console: gives it whole messages, and sends its bytes.
 */
#include "pgweir/client/client.h"

#include "client_priv.h"

void console_begin(struct client *client)
{
	struct clients *clients = client->clients;
	enum console_role role = client->login->console_role;

	if (!client_key_give(client))
		return;
	client_login_free(client);
	timer_clear(&client->timer);
	client_enter(client, CLIENT_CONSOLE);
	client->console = clients->with.door->open(clients->with.door->arg, client, role);
	if (client->state != CLIENT_CONSOLE)
		return;
	if (client->console)
		stream_want(&client->stream, WANT_INPUT);
	else
		client_close(client, CLOSE_MEMORY);
}

bool console_input(struct client *client, struct bytes in)
{
	const struct console_door *door = client->clients->with.door;

	while (in.count && !client->is_busy) {
		struct frame frame;
		enum wire_result result = frame_peek(in, CONSOLE_MESSAGE_MAX, &frame);

		if (result == WIRE_BAD) {
			client_refuse_for(client, CLOSE_BAD_HEADER);
			return false;
		}
		if (result == WIRE_MORE || in.count < frame.length)
			break;
		client->request_at = loop_now(client->clients->with.loop);
		client->is_busy = true;
		if (door->message(client->console, frame.type, frame_body(in, &frame))) {
			client->is_busy = false;
			client->request_at = 0;
		}
		if (client->state != CLIENT_CONSOLE)
			return false;
		in = bytes_skip(in, frame.length);
	}
	if (!stream_keep(&client->stream, in)) {
		client_close(client, CLOSE_MEMORY);
		return false;
	}
	return stream_want(&client->stream, client->is_busy ? WANT_END : WANT_INPUT) &&
	       !client->is_busy;
}

bool client_console_send(struct client *client, struct bytes bytes)
{
	/* The loop detects a broken connection: the session is in the middle of its work. */
	if (client->state != CLIENT_CONSOLE || client->stream.error)
		return true;
	if (!stream_send(&client->stream, bytes))
		return true;
	return stream_unsent(&client->stream) == 0;
}

void client_console_next(struct client *client)
{
	client->is_busy = false;
	client->request_at = 0;
	if (client->state == CLIENT_CONSOLE && stream_want(&client->stream, WANT_INPUT))
		client_judge_kept(client);
}

void client_console_end(struct client *client, enum close_reason reason)
{
	struct err err;

	err_close(&err, reason);
	client_leave(client, &err);
}

int client_console_detach(struct client *client)
{
	int fd = stream_take_socket(&client->stream);

	client_close(client, CLOSE_CONSOLE_TAKEN_OVER);
	return fd;
}

/* ---- what the core calls, in CLIENT_CONSOLE ---- */

void console_flushed(struct client *client)
{
	client->clients->with.door->on_writable(client->console);
}

bool console_cancel(struct client *client)
{
	client->clients->with.door->cancel(client->console);
	return true;
}

void console_end(struct client *client)
{
	if (client->console)
		client->clients->with.door->close(client->console);
	client->console = NULL;
}
