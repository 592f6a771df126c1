/* SPDX-License-Identifier: ISC */
/*
 * What other files ask about a client's channels, and when a transaction of it must be a sample.
 */
#include "listening_state_priv.h"

#include <stdlib.h>

#include "pgweir/pool/notification.h"

#include "pgweir/base/banned.h"

bool listening_has_any(const struct client *client)
{
	return client->listening && client->listening->listener.count;
}

bool listening_has_others(const struct client *client, struct bytes channels)
{
	const struct listener *listener = listening_listener(client);
	const char *name;

	while (bytes_take_text(&channels, &name)) {
		if (!listener || (!listening_is_ours(client->listening, name) &&
		                  !listening_has(listener, bytes_text(name))))
			return true;
	}
	return false;
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

/* ---- samples ---- */

void listening_suspect(struct client_listening *listening, const struct notification *notification)
{
	if (listening->last_pid && notification->pid == listening->last_pid)
		listening->is_suspect = true;
}

bool listening_wants_sample(struct client *client)
{
	struct client_listening *listening = client->listening;

	if (!listening->is_suspect)
		return false;
	listening->is_suspect = false;
	if (listening->sample_wait) {
		listening->sample_wait--;
		return false;
	}
	return true;
}

bool listening_keeps_sample(struct client *client, struct session_sample *sample)
{
	struct client_listening *listening = client->listening;

	if (!listening || !listening->is_sampled)
		return false;
	free(listening->sample);
	listening->sample = sample;
	return true;
}
