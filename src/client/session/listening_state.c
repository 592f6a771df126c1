/* SPDX-License-Identifier: ISC */
/*
 * What other files ask about a client's channels.
 */
#include "listening_state_priv.h"

bool listening_has_any(const struct client *client)
{
	return client->listening && client->listening->listener.count;
}

const char *listening_next_channel(const struct client *client, const struct subscription **at)
{
	return client->listening ? listening_next(&client->listening->listener, at) : NULL;
}

const struct listener *listening_listener(const struct client *client)
{
	const struct client_listening *listening = client->listening;

	return listening && listening->listener.listening ? &listening->listener : NULL;
}

const char *listening_encoding_of(const struct params *params)
{
	const char *value = params_find(params, "client_encoding");

	return value ? value : "";
}

bool listening_is_ours(const struct client_listening *listening, const char *name)
{
	const char *channel = listening_mark_channel(&listening->listener);

	return strncmp(name, channel, strlen(channel)) == 0;
}
