/* SPDX-License-Identifier: ISC */
/*
 * The first packets of a client: a PROXY header, requests for encryption, a cancel request,
 * or the startup packet with user, database and parameters.
 *
 * Hard here: all of this comes from clients that have not authenticated. The packet's
 * length is limited, and the packet is parsed once. Its parameters are only copied; they
 * become the client's parameters after authentication.
 */
#include <stdlib.h>
#include <string.h>

#include "pgweir/base/text.h"
#include "pgweir/config/entries.h"
#include "pgweir/pgwire/startup.h"

#include "login_priv.h"

#define HEX_MAX 16 /* bytes of an invalid packet that its error shows */

/* ---- parameters ---- */

/* PostgreSQL's names: letters, digits, _ and $, with dots in custom parameters. */
static bool is_parameter_name(const char *name)
{
	size_t count = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	                            "0123456789_$.");

	return count > 0 && count < 128 && name[count] == 0 && !(name[0] >= '0' && name[0] <= '9');
}

static bool is_ignored(const struct client *client, const char *name)
{
	return config_list_has(&client->clients->config->ignore_startup_parameters, name);
}

/*
 * PostgreSQL replaces these bytes in application_name too: every user can see the name, in
 * any encoding.
 */
static void clean_ascii(char *text)
{
	for (; *text; text++) {
		if (*text < ' ' || *text > '~')
			*text = '?';
	}
}

static bool note_parameter(struct client *client, const char *name, const char *value,
                           struct err *err)
{
	struct buf *parameters = &client->login->parameters;
	size_t at;
	const char *tracked = tracked_find(client->clients->with.pools->config, name);

	if (!tracked && !is_parameter_name(name)) {
		err_set(err, ERR_NO_PARAMETER, "unsupported startup parameter: %s", name);
		return err_reason(err, CLOSE_STARTUP_PARAMETER);
	}
	if (client->login->parameter_count++ == PARAMS_NAMES_MAX)
		return err_set(err, ERR_LIMIT,
		               "too many startup parameters: at most %d are accepted",
		               PARAMS_NAMES_MAX);
	buf_add_cstr(parameters, tracked ? tracked : name);
	at = parameters->count;
	buf_add_cstr(parameters, value);
	if (tracked && strcmp(tracked, "application_name") == 0 && buf_ok(parameters))
		clean_ascii(parameters->at + at);
	return true;
}

/* Stores a parameter of the session, given directly or in `options`. */
static bool take_parameter(struct client *client, const char *name, const char *value,
                           struct err *err)
{
	return is_ignored(client, name) || note_parameter(client, name, value, err);
}

static bool take_options(struct client *client, const char *value, struct err *err)
{
	struct options_walk walk = { .rest = value };
	bool ignores = is_ignored(client, "options");
	enum walk_result result;
	bool is_good = true;
	const char *option, *setting;

	if (client->replication) {
		free(client->login->options);
		client->login->options = strdup(value);
		return client->login->options || err_set(err, ERR_MEMORY, "out of memory");
	}
	while (is_good &&
	       (result = startup_options_next(&walk, &option, &setting, err)) == WALK_ITEM) {
		if (ignores && !tracked_find(client->clients->with.pools->config, option))
			continue;
		is_good = take_parameter(client, option, setting, err);
	}
	startup_options_done(&walk);
	return is_good && (result != WALK_BAD || ignores);
}

/* take_first() has taken it already. */
static bool is_taken(struct client *client, const char *name, const char *value, struct err *err)
{
	(void)client;
	(void)name;
	(void)value;
	(void)err;
	return true;
}

static bool take_user(struct client *client, const char *name, const char *value, struct err *err)
{
	(void)name;
	free(client->login->user);
	client->login->user = strdup(value);
	return client->login->user || err_set(err, ERR_MEMORY, "out of memory");
}

static bool take_database(struct client *client, const char *name, const char *value,
                          struct err *err)
{
	(void)name;
	free(client->login->database);
	client->login->database = strdup(value);
	return client->login->database || err_set(err, ERR_MEMORY, "out of memory");
}

static bool take_application_name(struct client *client, const char *name, const char *value,
                                  struct err *err)
{
	char where[ADDRESS_TEXT_SIZE];
	struct buf text = { 0 };
	bool is_good;

	if (!client->clients->config->application_name_add_host)
		return take_parameter(client, name, value, err);
	if (is_ignored(client, name))
		value = ""; /* only the host is used */
	buf_printf(&text, "%s - %s", *value ? value : "app",
	           address_format(&client->peer, where, sizeof(where)));
	is_good = note_parameter(client, name, buf_text(&text), err);
	buf_free(&text);
	return is_good;
}

static const struct {
	const char *name;
	bool (*take)(struct client *client, const char *name, const char *value, struct err *err);
} takers[] = {
	{ "user", take_user },
	{ "database", take_database },
	{ "options", is_taken },
	{ "replication", is_taken },
	{ "application_name", take_application_name },
};

static bool take_pair(struct client *client, const char *name, const char *value, struct err *err)
{
	if (strncmp(name, "_pq_.", 5) == 0) {
		buf_add_cstr(&client->login->unknown, name);
		return true;
	}
	for (size_t i = 0; i < sizeof(takers) / sizeof(takers[0]); i++) {
		if (strcmp(takers[i].name, name) == 0)
			return takers[i].take(client, name, value, err);
	}
	return take_parameter(client, name, value, err);
}

/*
 * Takes `replication` and then `options` before all other parameters, wherever they are: whether a
 * client replicates decides what is done with `options`, and a parameter that is given directly
 * wins over one in `options`.
 */
static bool take_first(struct client *client, struct bytes list, struct err *err)
{
	const char *name, *value, *options = NULL;
	struct err ignored;

	while (startup_next(&list, &name, &value, &ignored) == WALK_ITEM) {
		if (strcmp(name, "replication") == 0)
			client->replication = (uint8_t)startup_replication(value);
		else if (strcmp(name, "options") == 0)
			options = value;
	}
	return !options || take_options(client, options, err);
}

static bool take_pairs(struct client *client, struct bytes packet, struct err *err)
{
	struct bytes list = startup_pairs(packet);
	const char *name, *value;
	bool has_application_name = false;
	enum walk_result result;

	if (!take_first(client, list, err))
		return false;
	while ((result = startup_next(&list, &name, &value, err)) == WALK_ITEM) {
		if (strcmp(name, "application_name") == 0)
			has_application_name = true;
		if (!take_pair(client, name, value, err))
			return false;
	}
	if (result == WALK_BAD)
		return false;
	if (!has_application_name && client->clients->config->application_name_add_host &&
	    !take_application_name(client, "application_name", "", err))
		return false;
	if (!client->login->user || !*client->login->user)
		return err_close(err, CLOSE_NO_USER);
	if (!client->login->database || !*client->login->database)
		return take_database(client, "database", client->login->user, err);
	return true;
}

/* ---- packets ---- */

static bool take_startup(struct client *client, struct bytes packet, unsigned int minor)
{
	struct err err;

	client->login->minor = minor;
	if (tls_is_missing(client)) {
		client_refuse_for(client, CLOSE_TLS_REQUIRED);
		return false;
	}
	buf_reserve(&client->login->parameters, packet.count); /* one allocation instead of many */
	if (!take_pairs(client, packet, &err)) {
		client_fatal(client, &err);
		return false;
	}
	authentication_begin(client);
	return !client_is_over(client);
}

/* Refuses GSSAPI encryption: answers 'N'. */
static bool refuse_gss(struct client *client, bool has_more)
{
	if (has_more) {
		client_refuse_with(client, CLOSE_EARLY_DATA,
		                   "received unencrypted data after GSSAPI encryption request");
		return false;
	}
	if (client->login->was_gss_refused) {
		client_close(client, CLOSE_ENCRYPTION_TWICE);
		return false;
	}
	client->login->was_gss_refused = true;
	return client_send(client, bytes_of("N", 1));
}

static bool refuse_packet(struct client *client, const struct startup *startup, struct bytes in)
{
	static const char terminate[] = { 'X', 0, 0, 0, 4 };
	char hex[2 * HEX_MAX + 1];

	if (in.count >= sizeof(terminate) && memcmp(in.at, terminate, sizeof(terminate)) == 0) {
		client_close(client, CLOSE_CLIENT_QUIT); /* it has changed its mind */
		return false;
	}
	if (startup->kind == STARTUP_TOO_LONG) {
		client_refuse(client, ERR_PROTOCOL,
		              "startup packet of %u bytes is too long: at most %d are accepted",
		              startup->length, STARTUP_MAX);
		return false;
	}
	text_hex(hex, in.at, in.count < HEX_MAX ? in.count : HEX_MAX);
	client_refuse_with(client, CLOSE_BAD_HEADER, "bad packet header: '%s'", hex);
	return false;
}

/* Handles a complete packet at the front of `in`. */
static bool take_packet(struct client *client, const struct startup *startup, struct bytes in)
{
	struct bytes packet = bytes_of(in.at, startup->length);
	bool has_more = in.count > startup->length;

	switch (startup->kind) {
	case STARTUP_TLS_REQUEST:
		return tls_asked(client, has_more);
	case STARTUP_GSS_REQUEST:
		return refuse_gss(client, has_more);
	case STARTUP_CANCEL:
		cancel_request_begin(client, startup_cancel_key(packet));
		return false;
	case STARTUP_VERSION_2:
		client_refuse_for(client, CLOSE_PROTOCOL_V2);
		return false;
	case STARTUP_VERSION_3:
		return !startup_goes(client, packet) &&
		       take_startup(client, packet, startup->minor);
	default:
		return refuse_packet(client, startup, in);
	}
}

/* Handles the packet at the front of *in, and removes it. false: do not parse more. */
static bool judge_packet(struct client *client, struct bytes *in)
{
	struct startup startup;

	switch (startup_peek(*in, &startup)) {
	case WIRE_BAD:
		if (startup.kind != STARTUP_CANCEL)
			return refuse_packet(client, &startup, *in);
		client_close(client, CLOSE_CANCEL_BAD);
		return false;
	case WIRE_OK:
		if (startup.kind == STARTUP_TLS_HELLO && !tls_hello(client, *in))
			return false;
		if (startup.kind == STARTUP_TLS_HELLO || startup.kind == STARTUP_OTHER)
			return refuse_packet(client, &startup, *in);
		/* While suspended, a cancel request is still handled: it may end a query. */
		if (startup.kind != STARTUP_CANCEL && suspend_holds(client))
			break;
		if (in->count < startup.length)
			break;
		client->login->unread = *in;
		if (!take_packet(client, &startup, *in))
			return false;
		if (client->login)
			client->login->unread = (struct bytes){ 0 };
		*in = bytes_skip(*in, startup.length);
		break;
	case WIRE_MORE:
		break;
	}
	return true;
}

bool startup_input(struct client *client, struct bytes in)
{
	enum wire_result result = proxy_header_read(client, &in);

	if (result == WIRE_BAD || (result == WIRE_OK && !judge_packet(client, &in)))
		return false;
	if (!stream_keep(&client->stream, in)) {
		client_close(client, CLOSE_MEMORY);
		return false;
	}
	if (client->state != CLIENT_STARTUP)
		client_judge_kept(client);
	return client->stream.want == WANT_INPUT && client->state != CLIENT_CLOSED;
}
