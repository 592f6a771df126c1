/* SPDX-License-Identifier: ISC */
/*
 * The session state of a client in words, for the console and the log.
 */
#include "pgweir/client/session.h"

#include <string.h>

#include "pgweir/pool/server/tracked.h"

#include "listening_priv.h"
#include "session_priv.h"

#include "pgweir/base/banned.h"

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

bool session_list_pins(const struct client *client, struct buf *out)
{
	static const struct {
		unsigned int pin;
		const char *name;
	} names[] = {
		{ SESSION_PIN_CURSOR, "held cursor" },
		{ SESSION_PIN_TEMP, "temporary object" },
		{ SESSION_PIN_LOCK, "session lock" },
		{ SESSION_PIN_EXTENSION, "function of an extension" },
		{ SESSION_PIN_PARAMS, "parameters" },
		{ SESSION_PIN_LIBRARY, "library" },
		{ SESSION_PIN_STATEMENT, "prepared statement" },
		{ SESSION_PIN_SEQUENCE, "sequence" },
	};
	bool has_any = false;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (client->session && (client->session->pins & names[i].pin))
			add_name(out, &has_any, names[i].name);
	}
	return has_any;
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
