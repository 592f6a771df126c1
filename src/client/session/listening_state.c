/* SPDX-License-Identifier: ISC */
/*
 * What the files listening*.c and others ask about a client's channels.
 */
#include "listening_state_priv.h"

#include <stdlib.h>
#include <string.h>

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

/* ---- lists of channels ---- */

static int by_name(const void *one, const void *other)
{
	return strcmp(*(const char *const *)one, *(const char *const *)other);
}

bool listening_names_read(struct listening_names *names, struct bytes channels)
{
	const char *name;
	size_t count = 0;

	for (size_t i = 0; i < channels.count; i++)
		count += channels.at[i] == 0;
	names->list = calloc(count + 1, sizeof(*names->list));
	names->count = 0;
	if (!names->list)
		return false;
	while (bytes_take_text(&channels, &name))
		names->list[names->count++] = name;
	qsort(names->list, names->count, sizeof(*names->list), by_name);
	return true;
}

bool listening_names_have(const struct listening_names *names, const char *name)
{
	return bsearch(&name, names->list, names->count, sizeof(*names->list), by_name);
}

void listening_names_free(struct listening_names *names)
{
	free(names->list);
	names->list = NULL;
	names->count = 0;
}

bool listening_names_of_text(struct bytes list, struct bytes name)
{
	const char *other;

	while (bytes_take_text(&list, &other)) {
		if (bytes_equal(bytes_text(other), name))
			return true;
	}
	return false;
}
