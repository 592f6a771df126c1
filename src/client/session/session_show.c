/* SPDX-License-Identifier: ISC */
/*
 * The session state of a client in words, for the console and the log.
 */
#include "pgweir/client/session.h"

#include <string.h>

#include "pgweir/pool/server/params.h"

#include "listening_priv.h"
#include "session_priv.h"

usec_t session_pinned_at(const struct client *client)
{
	return session_is_pinned(client) ? client->session->pinned_at : 0;
}

const char *session_pin_text(const struct client *client)
{
	return session_is_pinned(client) ? client->session->text : NULL;
}

static void add_name(struct buf *out, bool *has_any, const char *name)
{
	if (*has_any)
		buf_add_text(out, ", ");
	buf_add_text(out, name);
	*has_any = true;
}

static const struct {
	enum session_pin pin;
	const char *name;
} pins[] = {
	{ SESSION_PIN_CURSOR, "held cursor" },
	{ SESSION_PIN_TEMP, "temporary object" },
	{ SESSION_PIN_LOCK, "session lock" },
	{ SESSION_PIN_EXTENSION, "function of an extension" },
	{ SESSION_PIN_PARAMS, "parameters" },
	{ SESSION_PIN_LIBRARY, "library" },
	{ SESSION_PIN_STATEMENT, "prepared statement" },
	{ SESSION_PIN_SEQUENCE, "sequence" },
};

#define PINS (sizeof(pins) / sizeof(pins[0]))

bool session_list_pins(const struct client *client, struct buf *out)
{
	bool has_any = false;

	for (size_t i = 0; i < PINS; i++) {
		if (client->session && (client->session->pins & pins[i].pin))
			add_name(out, &has_any, pins[i].name);
	}
	return has_any;
}

bool session_list_held(const struct client *client, struct buf *out)
{
	const struct session *session = client->session;
	bool has_any = false;

	for (size_t i = 0; session && i < PINS; i++) {
		if (!(session->pins & pins[i].pin))
			continue;
		if (has_any)
			buf_add_text(out, "; ");
		if (!held_list(session, pins[i].pin, out))
			buf_add_text(out, pins[i].name);
		has_any = true;
	}
	return has_any;
}

void session_tell_pins(const struct client *client, struct buf *out)
{
	size_t begin = out->count;

	session_list_held(client, out);
	for (size_t i = begin; buf_ok(out) && i < out->count; i++) {
		if (out->at[i] < ' ' || out->at[i] > '~' || out->at[i] == '"')
			out->at[i] = '?';
	}
}

/* Adds the names of `some` that `others` does not have, or not with this value. */
static void add_others(struct buf *out, bool *has_any, const struct params *some,
                       const struct params *others, bool is_value_compared)
{
	const char *at = NULL, *name, *value, *other;
	struct params_seek seek = { 0 };

	while (params_next(some, &at, &name, &value)) {
		bool is_there = params_seek(others, &seek, name, &other);

		if (tracked_is_library(name) ||
		    (is_there && (!is_value_compared || strcmp(value, other) == 0)))
			continue;
		add_name(out, has_any, name);
	}
}

bool session_list_parameters(const struct client *client, struct buf *out)
{
	bool has_any = false;

	if (client->params == client->startup)
		return false;
	add_others(out, &has_any, client->params, client->startup, true);
	add_others(out, &has_any, client->startup, client->params, false);
	return has_any;
}

bool session_list_libraries(const struct client *client, struct buf *out)
{
	const char *at = NULL, *name, *value;
	bool has_any = false;

	while (params_next(client->params, &at, &name, &value)) {
		if (tracked_is_library(name))
			add_name(out, &has_any, name + strlen(LIBRARY_PREFIX));
	}
	return has_any;
}

bool session_list_channels(const struct client *client, struct buf *out)
{
	const struct subscription *at = NULL;
	const char *channel;
	bool has_any = false;

	while ((channel = listening_next_channel(client, &at)))
		add_name(out, &has_any, channel);
	return has_any;
}
