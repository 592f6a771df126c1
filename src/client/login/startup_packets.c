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
#include <strings.h>

#include "pgweir/base/text.h"
#include "pgweir/config/entries.h"
#include "pgweir/pgwire/proxy.h"
#include "pgweir/pgwire/startup.h"
#include "pgweir/pool/homes.h"

#include "login_priv.h"

#define HEX_MAX 16 /* bytes of an invalid packet that its error shows */

/*
 * ---- the loop ----
 *
 * The loop for a client: its startup packet says who it is, and which pool it will use.
 *
 *   the console's database    the loop that has the console
 *   a pool with few servers   one of the pool's homes (pool/homes.h)
 *   all others                the loop to which the connection was dealt
 *
 * The client is not authenticated yet, so this looks at settings only.
 */

/* The number of the loop in which its pool is at home; its own loop if that will do. */
static unsigned int home_of(const struct client *client)
{
	const struct client_login *login = client->login;
	const struct clients *clients = client->clients;
	const struct config *config = clients->config;
	struct homes *homes = &clients->shared->homes;
	const struct config_database *entry = config_database_of(config, login->database);
	unsigned int count;
	const char *role;

	if (!entry)
		return clients->keys.loop_number;
	role = entry->user ? entry->user : login->user;
	count = homes_count(homes,
	                    config_pool_size(config, entry, config_entry(config, ENTRY_USER, role)),
	                    config->servers_per_loop);
	if (count == homes->loop_count)
		return clients->keys.loop_number;
	return clients->shared->pick_home(clients, homes_first(homes, login->database, role),
	                                  count);
}

/* Whether the client has gone to another loop, where its startup packet is parsed again. */
static bool startup_goes(struct client *client)
{
	const struct clients_shared *shared = client->clients->shared;
	unsigned int home;

	if (!shared->send_elsewhere || client->login->shown.has_moved)
		return false;
	if (strcmp(client->login->database, CONFIG_CONSOLE_DATABASE) == 0)
		return shared->send_elsewhere(client, CLIENT_GOES_TO_CONSOLE, 0);
	home = home_of(client);
	/* It moves by a copy of its descriptor: not when descriptors run short. */
	return home != client->clients->keys.loop_number && !unauthenticated_is_short(client) &&
	       shared->send_elsewhere(client, CLIENT_GOES_HOME, home);
}

/*
 * ---- the PROXY header ----
 *
 * Hard here: a host whose header is trusted can claim any client address. So a header is accepted
 * only from the addresses in proxy_protocol_from, once, and as the first bytes of a connection.
 * If a header has no client address, the proxy's own address counts. But over a Unix socket the
 * proxy's system user does not count, because it could give the client rights.
 */

static void set_peer(struct client *client, const struct proxy *proxy)
{
	struct address *peer = &client->peer;
	char where[ADDRESS_TEXT_SIZE];

	log_debug(&client->log, "through the proxy at %s",
	          address_format(peer, where, sizeof(where)));
	switch (proxy->source) {
	case PROXY_ITSELF:
		return;
	case PROXY_UNKNOWN:
		/* The peer of a Unix socket is the proxy's system user, not the client's. */
		if (address_is_unix(peer)) {
			peer->un.pid = 0;
			peer->un.uid = (uid_t)-1;
		}
		return;
	case PROXY_IPV4:
		*peer = (struct address){ .in = { .sin_family = AF_INET } };
		memcpy(&peer->in.sin_addr, proxy->host, 4);
		break;
	case PROXY_IPV6:
		*peer = (struct address){ .in6 = { .sin6_family = AF_INET6 } };
		memcpy(&peer->in6.sin6_addr, proxy->host, 16);
		break;
	}
	address_set_port(peer, proxy->port);
}

/* Parses a header. The proxy is allowed to send one. */
static enum wire_result read_header(struct client *client, struct bytes *in)
{
	struct proxy proxy;
	struct err err;
	enum wire_result result = proxy_read(*in, &proxy, &err);

	if (result == WIRE_BAD)
		client_fatal(client, &err);
	if (result != WIRE_OK)
		return result;
	client->login->shown.is_proxy_header_done = true;
	set_peer(client, &proxy);
	*in = bytes_skip(*in, proxy.length);
	return WIRE_OK;
}

/*
 * Removes the PROXY header from the front of *in, if the client may send one and does.
 * WIRE_MORE: wait for its end. WIRE_BAD: the client was refused.
 */
static enum wire_result proxy_header_read(struct client *client, struct bytes *in)
{
	const struct clients *clients = client->clients;
	enum proxy_protocol wanted = login_config(client)->proxy_protocol;
	const char *problem = NULL;
	bool is_trusted;

	if (client->login->shown.is_proxy_header_done || in->count == 0)
		return WIRE_OK;
	is_trusted =
	    wanted != PROXY_PROTOCOL_OFF && ranges_have(clients->shared->proxies, &client->peer);
	if (is_trusted && proxy_begins(*in))
		return read_header(client, in);
	if (wanted != PROXY_PROTOCOL_OFF && proxy_begins(*in))
		problem = "a PROXY header from an address that is not in proxy_protocol_from";
	else if (is_trusted && wanted == PROXY_PROTOCOL_REQUIRE)
		problem = "no PROXY header, and proxy_protocol = require";
	client->login->shown.is_proxy_header_done = true;
	if (!problem)
		return WIRE_OK;
	client_refuse(client, ERR_NOT_ALLOWED, "%s", problem);
	return WIRE_BAD;
}

/*
 * ---- TLS ----
 *
 * The client asks with SSLRequest, or begins with a ClientHello.
 *
 * Hard here: bytes that follow an SSLRequest in the same packet are not encrypted, and an
 * attacker may have inserted them. They must never be handled as if they had come
 * encrypted.
 */

static bool may_encrypt(const struct client *client)
{
	return login_rules(client)->tls && !address_is_unix(&client->peer);
}

/* Begins the handshake. Always false: there is nothing more to parse now. */
static bool secure(struct client *client, struct bytes early)
{
	struct err err;

	if (stream_secure(&client->stream, login_rules(client)->tls, NULL, early, &err))
		return false;
	err_reason(&err, CLOSE_CLIENT_TLS);
	return client_close_err(client, &err);
}

/*
 * Answers a request for encryption: an SSLRequest, or is_gss, for which the answer is no. has_more:
 * unencrypted bytes follow it. false: stop parsing; TLS begins or the client was closed.
 */
static bool encryption_asked(struct client *client, bool is_gss, bool has_more)
{
	struct client_shown *shown = &client->login->shown;
	bool *was_answered = is_gss ? &shown->was_gss_refused : &shown->was_tls_answered;

	if (has_more)
		return client_refuse(
		    client, CLOSE_EARLY_DATA,
		    is_gss ? "received unencrypted data after GSSAPI encryption request"
			   : "received unencrypted data after SSL request");
	if (*was_answered || (!is_gss && stream_is_encrypted(&client->stream)))
		return client_close(client, CLOSE_ENCRYPTION_TWICE);
	*was_answered = true;
	if (is_gss || !may_encrypt(client))
		return client_send(client, bytes_of("N", 1));
	if (!stream_keep(&client->stream, (struct bytes){ 0 }) ||
	    !client_send(client, bytes_of("S", 1)))
		return false;
	return secure(client, (struct bytes){ 0 });
}

/*
 * The client begins with a ClientHello. true: TLS is not possible here. false: stop
 * parsing; TLS begins or the client was closed.
 */
static bool tls_hello(struct client *client, struct bytes hello)
{
	if (!may_encrypt(client) || client->login->shown.was_tls_answered ||
	    stream_is_encrypted(&client->stream))
		return true;
	client->login->shown.was_tls_answered = true;
	return secure(client, hello);
}

void startup_secured(struct client *client, const struct err *err)
{
	struct client_shown *shown = &client->login->shown;

	if (err) {
		struct err failure = *err;

		err_reason(&failure, CLOSE_CLIENT_TLS);
		client_close_err(client, &failure);
		return;
	}
	shown->has_certificate = tls_peer_name(&client->stream, &shown->certificate_name);
	tls_forget_peer(&client->stream);
	log_debug(&client->log, "TLS records: %s", tls_records_text(&client->stream));
	if (!stream_want(&client->stream, WANT_INPUT))
		client_close(client, CLOSE_NOT_WATCHED);
	else
		client_judge_kept(client);
}

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

static bool note_parameter(struct client *client, const char *name, const char *value,
                           struct err *err)
{
	struct buf *parameters = &client->login->parameters;
	size_t at;
	char *text;
	const char *tracked = tracked_find(client->clients->pools->config, name);

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
	/*
	 * PostgreSQL replaces these bytes in application_name too: every user can see the name, in
	 * any encoding.
	 */
	text = tracked && strcmp(tracked, "application_name") == 0 && buf_ok(parameters)
	           ? parameters->at + at
	           : NULL;
	for (; text && *text; text++) {
		if (*text < ' ' || *text > '~')
			*text = '?';
	}
	return true;
}

/* The one parameter that is ours: how long the client waits for a server. */
static bool take_patience(struct client *client, const char *value, struct err *err)
{
	usec_t time;

	if (!value_time(value, USEC_PER_SEC, 10, &time, err) ||
	    (time < 0 && !err_set(err, ERR_PARAMETER, "must be at least 0"))) {
		err_prefix(err, "startup parameter pgweir.wait_timeout: ");
		return err_reason(err, CLOSE_STARTUP_PARAMETER);
	}
	client->borrower.patience = client_patience(time);
	return true;
}

/* Stores a parameter of the session, given directly or in `options`. */
static bool take_parameter(struct client *client, const char *name, const char *value,
                           struct err *err)
{
	if (strcasecmp(name, "pgweir.wait_timeout") == 0)
		return take_patience(client, value, err);
	return is_ignored(client, name) || note_parameter(client, name, value, err);
}

/* ignores: those that are not tracked, and errors. */
static bool take_each(struct client *client, const char *options, bool ignores, struct err *err)
{
	struct options_walk walk = { .rest = options };
	enum walk_result result;
	bool is_good = true;
	const char *option, *setting;

	while (is_good &&
	       (result = startup_options_next(&walk, &option, &setting, err)) == WALK_ITEM) {
		if (ignores && !tracked_find(client->clients->pools->config, option))
			continue;
		is_good = take_parameter(client, option, setting, err);
	}
	startup_options_done(&walk);
	return is_good && (result != WALK_BAD || ignores);
}

static bool take_text(char **text, const char *value, struct err *err)
{
	free(*text);
	*text = strdup(value);
	return *text || err_set(err, ERR_MEMORY, "out of memory");
}

static bool take_application_name(struct client *client, const char *value, struct err *err)
{
	static const char name[] = "application_name";
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

static bool take_pair(struct client *client, const char *name, const char *value, struct err *err)
{
	struct client_login *login = client->login;

	if (strncmp(name, "_pq_.", 5) == 0) {
		buf_add_cstr(&login->unknown, name);
		return true;
	}
	if (strcmp(name, "options") == 0 || strcmp(name, "replication") == 0)
		return true; /* take_first() has taken it */
	if (strcmp(name, "user") == 0)
		return take_text(&login->user, value, err);
	if (strcmp(name, "database") == 0)
		return take_text(&login->database, value, err);
	if (strcmp(name, "application_name") == 0)
		return take_application_name(client, value, err);
	return take_parameter(client, name, value, err);
}

/*
 * Takes `replication` and then `options` before all other parameters, wherever they are: whether a
 * client replicates decides what is done with `options`, and a parameter that is given directly
 * wins over one in `options`, and both over one of the listener.
 */
static bool take_first(struct client *client, struct bytes list, struct err *err)
{
	const struct config_listener *entry = login_rules(client)->entry;
	const char *defaults = entry ? entry->options : NULL;
	const char *name, *value, *options = NULL;
	struct err ignored;

	while (startup_next(&list, &name, &value, &ignored) == WALK_ITEM) {
		if (strcmp(name, "replication") == 0)
			client->replication = (uint8_t)startup_replication(value);
		else if (strcmp(name, "options") == 0)
			options = value;
	}
	if (defaults && !client->replication && !take_each(client, defaults, false, err))
		return false;
	if (!options)
		return true;
	return client->replication ? take_text(&client->login->options, options, err)
	                           : take_each(client, options, is_ignored(client, "options"), err);
}

static bool take_pairs(struct client *client, struct bytes packet, struct err *err)
{
	struct bytes list = startup_body(packet);
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
	    !take_application_name(client, "", err))
		return false;
	if (!client->login->user || !*client->login->user)
		return err_close(err, CLOSE_NO_USER);
	if (!client->login->database || !*client->login->database)
		return take_text(&client->login->database, client->login->user, err);
	return true;
}

/* ---- packets ---- */

static bool take_startup(struct client *client, struct bytes packet, unsigned int minor)
{
	struct err err;

	client->login->minor = minor;
	if (login_config(client)->client_tls_sslmode >= TLS_MODE_REQUIRE &&
	    !stream_is_encrypted(&client->stream) && !address_is_unix(&client->peer))
		return client_refuse_for(client, CLOSE_TLS_REQUIRED);
	buf_reserve(&client->login->parameters, packet.count); /* one allocation instead of many */
	if (!take_pairs(client, packet, &err))
		return client_fatal(client, &err);
	if (startup_goes(client))
		return false;
	authentication_begin(client);
	return !client_is_over(client);
}

static bool refuse_packet(struct client *client, const struct startup *startup, struct bytes in)
{
	static const char terminate[] = { 'X', 0, 0, 0, 4 };
	char hex[2 * HEX_MAX + 1];

	if (in.count >= sizeof(terminate) && memcmp(in.at, terminate, sizeof(terminate)) == 0) {
		client_close(client, CLOSE_CLIENT_QUIT); /* it has changed its mind */
		return false;
	}
	if (startup->kind == STARTUP_TOO_LONG)
		return client_refuse(
		    client, ERR_PROTOCOL,
		    "startup packet of %u bytes is too long: at most %d are accepted",
		    startup->length, STARTUP_MAX);
	text_hex(hex, in.at, in.count < HEX_MAX ? in.count : HEX_MAX);
	return client_refuse(client, CLOSE_BAD_HEADER, "bad packet header: '%s'", hex);
}

static bool take_packet(struct client *client, const struct startup *startup, struct bytes in)
{
	struct bytes packet = bytes_of(in.at, startup->length);
	bool has_more = in.count > startup->length;

	switch (startup->kind) {
	case STARTUP_TLS_REQUEST:
	case STARTUP_GSS_REQUEST:
		return encryption_asked(client, startup->kind == STARTUP_GSS_REQUEST, has_more);
	case STARTUP_CANCEL:
		cancel_request_begin(client, startup_body(packet));
		return false;
	case STARTUP_VERSION_2:
		return client_refuse_for(client, CLOSE_PROTOCOL_V2);
	case STARTUP_VERSION_3:
		return take_startup(client, packet, startup->minor);
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
		return client_close(client, CLOSE_CANCEL_BAD);
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
	if (!stream_keep(&client->stream, in))
		return client_close(client, CLOSE_MEMORY);
	if (client->state != CLIENT_STARTUP)
		client_judge_kept(client);
	return client->stream.want == WANT_INPUT && client->state != CLIENT_CLOSED;
}
