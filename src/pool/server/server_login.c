/* SPDX-License-Identifier: ISC */
/*
 * The login of a server: its host, TLS, the startup packet, and what follows up to its first
 * ReadyForQuery.
 *
 *   server_launch --> its host --> on_server_connected --> TLS --> send_startup
 *                 --> server_login_frame --> its role (server_host.c) --> connect_query
 *
 * Protocol 3.2 is requested, for its long cancel keys. A server that rejects it is connected to
 * again at once with 3.0, and that is noted for its address.
 *
 * Hard here: a worker thread derives the key from a password. Until the key is available the server
 * is not read, so what it sends stays in the kernel.
 */
#include "server_priv.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pgweir/base/container_of.h"
#include "pgweir/base/hash.h"
#include "pgweir/pgwire/fields.h"
#include "pgweir/pgwire/message.h"
#include "pgweir/pgwire/startup.h"

/*
 * ---- securing ----
 *
 * Asks a server for encryption.
 *
 *   SSLRequest -->   <-- 'S' and no further byte    handshake
 *                    <-- 'N'                        plain, if allowed
 *
 * Hard here: nothing that arrives before the end of the handshake can be trusted. Bytes after the
 * 'S' are not encrypted, so an attacker may have inserted them.
 */

/* reason: CLOSE_NONE: none of the table. */
static void fail(struct stream *stream, enum close_reason reason, const char *words)
{
	struct err err;

	err_set(&err, ERR_SERVER_CONNECT, "%s", words);
	if (reason)
		err_reason(&err, reason);
	stream->ops->on_secured(stream, &err);
}

static void shake(struct stream *stream, const struct securing_how *how)
{
	struct err err;

	if (!(how->like ? stream_secure_like(stream, how->like, &err)
	                : stream_secure(stream, how->tls, how->host, (struct bytes){ 0 }, &err)))
		stream->ops->on_secured(stream, &err);
}

void securing_begin(struct stream *stream, const struct securing_how *how)
{
	struct buf out = { 0 };

	if (!how->tls && !how->like) {
		stream->ops->on_secured(stream, NULL);
		return;
	}
	if (how->is_direct) {
		shake(stream, how);
		return;
	}
	message_tls_request(&out);
	if (!buf_ok(&out) || !stream_send(stream, buf_bytes(&out)) ||
	    !stream_want(stream, WANT_INPUT))
		fail(stream, CLOSE_NONE, "server closed the connection");
	buf_free(&out);
}

void securing_answer(struct stream *stream, const struct securing_how *how)
{
	enum stream_result result;
	struct bytes in;

	result = stream_read(stream, &in);
	if (result == STREAM_NOTHING)
		return;
	if (result == STREAM_END)
		fail(stream, CLOSE_SERVER_LOGIN_CLOSED,
		     "server closed the connection during login");
	else if (in.count > 1)
		fail(stream, CLOSE_EARLY_DATA, "received unencrypted data after SSL response");
	else if (in.at[0] == 'N' && how->is_required)
		fail(stream, CLOSE_NONE, "server refused SSL");
	else if (in.at[0] == 'N')
		stream->ops->on_secured(stream, NULL);
	else if (in.at[0] != 'S')
		fail(stream, CLOSE_NONE,
		     "server gave no answer to the SSL request that makes sense");
	else if (!how->tls && !how->like) /* a reload came between the SSLRequest and the reply */
		fail(stream, CLOSE_SERVER_TLS_STOPPED, "database configuration changed");
	else
		shake(stream, how);
}

/*
 * ---- whom to blame ----
 *
 * Adds context to the error of a failed login at PostgreSQL.
 *
 * A wrong password of a client and a wrong password of ours have the same error text. So the DETAIL
 * says that it was our login, at which address and for which entry, and where our secret came from;
 * also what PostgreSQL asked for, and what its SCRAM challenge reveals about a different secret.
 * The secret itself is never included.
 */

/* PostgreSQL asks for a kind of secret that we do not have. */
static void add_asked(const struct auth_client *auth, bool is_wrong_type, struct buf *out)
{
	const char *mismatch = auth_client_mismatch(auth);

	if (is_wrong_type && auth_client_asked(auth))
		buf_printf(out, "; PostgreSQL asks for %s", auth_client_asked(auth));
	if (mismatch)
		buf_printf(out, "; the %s of that secret is not the one that PostgreSQL has",
		           mismatch);
}

/* Adds to the error of a failed login which login, at which address, with which secret. */
static void server_blame(const struct server *server, struct err *err)
{
	const struct server_site *site = server->site;
	const struct auth_client *auth = server->login ? server->login->auth : NULL;
	/* not with ERR_FILES: no thread had time for our secret, which may be right */
	bool is_ours = err->code != ERR_FOREIGN && err->code != ERR_FILES;
	struct buf words = { .limit = ERR_DETAIL_SIZE - 1 };
	char text[ADDRESS_TEXT_SIZE];

	buf_printf(&words, "pgweir's own login as \"%s\" at %s, for the entry \"%s\"", site->user,
	           address_is_unix(&server->place.peer)
	               ? server->place.path
	               : address_format(&server->place.peer, text, sizeof(text)),
	           site->database);
	if (is_ours || strncmp(err->sqlstate, "28", 2) == 0) {
		site->ops->tell_secret(server, &words);
		if (auth)
			add_asked(auth, is_ours, &words);
	}
	/* Names may be too long for the DETAIL; a part of it would mislead. */
	err_detail_take(err, &words);
}

/* ---- authentication ---- */

/* The next step: a message has come. NULL: a key was derived. false: the server is closing. */
static bool login_step(struct server *server, const struct bytes *body)
{
	struct server_login *login = server->login;
	struct buf out = { 0 };
	bool goes_on = true;
	struct err err;

	login->is_working = false;
	switch (body ? auth_client_answer(login->auth, *body, &out, &err)
	             : auth_client_resume(login->auth, &out, &err)) {
	case AUTH_CLIENT_OK:
		stream_defer(&server->wire.stream); /* no more secrets */
		auth_client_free(&login->auth);
		break;
	case AUTH_CLIENT_MORE:
		goes_on = buf_ok(&out) &&
		          (out.count == 0 || stream_send(&server->wire.stream, buf_bytes(&out)));
		if (!goes_on)
			server_close_for(server, CLOSE_SERVER_LOGIN_CLOSED);
		break;
	case AUTH_CLIENT_WORK:
		login->is_working = true;
		stream_want(&server->wire.stream, WANT_NOTHING);
		break;
	case AUTH_CLIENT_FAILED:
		server_blame(server, &err);
		log_warning(&server->log, "%s: %s", err.text, err.detail);
		server_close(server, &err);
		goes_on = false;
	}
	buf_wipe(&out);
	return goes_on;
}

/*
 * ---- its host ----
 *
 * Chooses one of the pool's hosts, and looks the name up or connects to a Unix socket directly.
 *
 * Hard here: a host that accepts the connection but sends nothing would block waiting borrowers for
 * the whole server_connect_timeout. If another host is not known to be down, the first message must
 * arrive within a part of that time.
 */

/* Of server_connect_timeout, for the first message while there is another host; less in a test. */
#define PATIENCE_PART 5
#define PATIENCE_MAX (3 * USEC_PER_SEC)

static bool is_unix(const char *host) { return *host == '/' || *host == '@'; }

/* It counts where it will be from the choice on, as others may choose before it is there. */
static void count_at_host(struct server *server)
{
	struct roster_at at = server_roster_at(server);

	hosts_enter(server->site->hosts, &server->place.counted, at.host, at.address);
}

/* No borrower relies on a retry, so there must be space for another server beside it. */
static struct hosts_when when_of(const struct server *server)
{
	int most = server->site->shared->config->max_host_connections;

	return (struct hosts_when){
		.now = loop_now(server->site->shared->loop),
		.gap = server->site->limits.retry_gap,
		.most = most > 0 ? (unsigned int)most : 0,
		.may_test = server->site->is_watch || server->site->ops->may_probe(server),
	};
}

static void on_patience(struct timer *timer)
{
	struct server_login *login = container_of(timer, struct server_login, patience);
	struct server *server = login->server;
	struct roster_at at = server_roster_at(server);

	if (hosts_due(server->site->hosts, &at) == 0)
		server_close_for(server, CLOSE_ANOTHER_HOST);
	else if (login->is_test && login->dial.is_active)
		server_close_with(server, ERR_SERVER_CONNECT,
		                  "connect failed: Connection timed out");
}

static void set_patience(struct server *server)
{
	usec_t limit = server->site->shared->config->server_connect_timeout / PATIENCE_PART;

	if (limit <= 0 || limit > PATIENCE_MAX)
		limit = PATIENCE_MAX;
	if (server->login->is_test && limit > REACH_TEST_MAX)
		limit = REACH_TEST_MAX;
	timer_begin(&server->login->patience, server->site->shared->loop, limit, on_patience);
}

static void on_server_address_removed(struct resolver_watch *watch)
{
	struct server *server = container_of(watch, struct server, place.address_watch);

	server->site->ops->on_address_removed(server);
}

static void watch_address(struct server *server)
{
	const struct host *host = &server->site->hosts->list[server->place.host];

	if (!is_unix(host->at))
		resolver_watch_begin(server->site->shared->resolver, &server->place.address_watch,
		                     host->at, &server->place.peer, on_server_address_removed);
}

static void on_server_connected(struct dial *dial, int fd, const struct err *err);

static void dial_host(struct server *server)
{
	struct server_login *login = server->login;

	dial_start(&login->dial, server->site->shared->loop, &server->place.peer,
	           address_is_unix(&server->place.peer) ? server->place.path : NULL,
	           server->site->shared->sockets, on_server_connected);
}

/* To one of these addresses, in turn from `address`; count 0: to that one, a Unix socket. */
static bool go_to(struct server *server, const struct address *addresses, unsigned int count,
                  struct address address, struct err *err)
{
	const struct hosts_when when = when_of(server);
	struct server_login *login = server->login;

	if (!hosts_pick(server->site->hosts, server->place.host, addresses, count, &when, &address,
	                &login->is_test, err))
		return false;
	server->place.peer = address;
	if (!server->site->ops->may_connect(server))
		return err_close(err, CLOSE_HOST_FULL);
	count_at_host(server);
	watch_address(server);
	/* a dedicated server is launched for one borrower, so no other one relies on it */
	if (login->is_test && !server_is_dedicated(server) && !server->site->is_watch) {
		login->is_probe = true;
		server->site->ops->on_probe(server, 1);
	}
	set_patience(server);
	dial_host(server);
	return true;
}

static void on_server_address(struct resolver_ask *ask, const struct address *address,
                              const struct err *err)
{
	struct server *server = container_of(ask, struct server_login, ask)->server;
	struct err failure;

	if (!address)
		server_close(server, err);
	else if (!go_to(server, ask->addresses, ask->address_count, *address, &failure))
		server_close(server, &failure);
}

static bool find_host(struct server *server, struct err *err)
{
	struct server_site *site = server->site;
	const struct hosts_when when = when_of(server);
	struct address local = { 0 };
	const struct host *host;

	if (site->hosts->count == 0 || !site->roster)
		return err_set(err, ERR_MEMORY, "out of memory");
	server->place.host = hosts_choose(site->hosts, &when, &server->login->is_test);
	if (server->place.host == site->hosts->count)
		return err_close(err, CLOSE_HOST_ROLE);
	count_at_host(server);
	host = &site->hosts->list[server->place.host];
	if (!*host->name && site->entry->hosts_from)
		return err_set(err, ERR_SERVER_CONNECT,
		               "the hosts of database \"%s\" are not known yet: hosts_from has "
		               "not answered",
		               site->database);
	if (!*host->name)
		return err_set(err, ERR_SERVER_CONNECT,
		               "database \"%s\" has no host, and unix_socket_dir is empty",
		               site->database);
	if (!is_unix(host->at))
		return resolver_start(site->shared->resolver, &server->login->ask, host->at,
		                      host->port, on_server_address, err);
	if (snprintf(server->place.path, sizeof(server->place.path), "%s/.s.PGSQL.%d", host->at,
	             host->port) >= (int)sizeof(server->place.path)) {
		*server->place.path = 0; /* a part of it could be the path of another one */
		return err_set(err, ERR_SERVER_CONNECT, "connect failed: %s",
		               strerror(ENAMETOOLONG));
	}
	local.un = (struct address_unix){ AF_UNIX, 0, (uid_t)-1, host->port };
	return go_to(server, NULL, 0, local, err);
}

bool server_find_again(struct server *server, const char *host)
{
	const struct hosts *hosts = server->site->hosts;

	for (unsigned int i = 0; i < hosts->count; i++) {
		if (strcmp(hosts->list[i].name, host) != 0)
			continue;
		server->place.host = i;
		watch_address(server);
		count_at_host(server);
		return true;
	}
	return false;
}

/* ---- the protocol version ---- */

static enum host_protocol protocol_of(const struct server *server)
{
	const struct reach_target *target = hosts_target(&server->place.counted);

	return target ? target->protocol : HOST_UNTRIED;
}

/* The first message has arrived, and was no error about the protocol. */
static void learn_protocol(struct server *server, bool is_error)
{
	struct reach_target *target = hosts_target(&server->place.counted);
	struct server_login *login = server->login;

	if (login->has_spoken)
		return;
	login->has_spoken = true;
	if (!target)
		return;
	if (login->asked != PROTOCOL_3_0)
		target->protocol = HOST_NEGOTIATES;
	else if (login->is_again && !is_error)
		target->protocol = HOST_OLD;
}

static void ask_again(struct server *server)
{
	struct server_login *login = server->login;

	log_debug(&server->log, "no answer to protocol 3.2: asking for 3.0");
	login->is_again = true;
	auth_client_free(&login->auth);
	stream_close(&server->wire.stream);
	server_enter(server, SERVER_CONNECTING);
	dial_host(server);
}

bool server_asks_again(struct server *server)
{
	const struct server_login *login = server->login;

	if (!login || login->has_spoken || login->asked == PROTOCOL_3_0 ||
	    protocol_of(server) != HOST_UNTRIED)
		return false;
	ask_again(server);
	return true;
}

/* 0A000 from a PostgreSQL that is too old to negotiate the version, 08... from others. */
static bool is_misunderstanding(const struct server *server, const struct report *report)
{
	const struct server_login *login = server->login;

	if (login->has_spoken || login->asked == PROTOCOL_3_0)
		return false;
	return strncmp(report->sqlstate, "0A", 2) == 0 ||
	       (strncmp(report->sqlstate, "08", 2) == 0 && protocol_of(server) == HOST_UNTRIED);
}

static enum frame_fate negotiation_frame(struct server *server, struct bytes body)
{
	const struct server_login *login = server->login;
	struct negotiation told;

	if (login->has_spoken || fields_negotiation(body, &told) != WIRE_OK ||
	    told.version > login->asked || told.count)
		return server_bad_frame(server, "broken NegotiateProtocolVersion");
	learn_protocol(server, false);
	return FRAME_DROP;
}

/* ---- messages of a login ---- */

/* PostgreSQL refuses the login. Waiting borrowers get its text and its SQLSTATE. */
static enum frame_fate refused_login(struct server *server, struct bytes body)
{
	struct report report = { 0 };
	struct err err;

	if (fields_report(body, &report) != WIRE_OK)
		return server_bad_frame(server, "broken ErrorResponse");
	if (is_misunderstanding(server, &report))
		return ask_again(server), FRAME_STOP;
	learn_protocol(server, true);
	err_set_foreign(&err, report.sqlstate, report.text);
	server_blame(server, &err);
	/* One that starts is asked often; of a watch, only the first is logged. */
	if (strcmp(report.sqlstate, "57P03") != 0 && !server->site->is_watch)
		log_warning(&server->log, "server login failed: %s %s: %s", report.severity,
		            report.text, err.detail);
	server_close(server, &err);
	return FRAME_STOP;
}

/*
 * PostgreSQL warns at each login of a password that expires soon, or is kept as MD5; only we see
 * it. The log has each WARNING once: it has a bit by its text.
 */
static enum frame_fate notice_frame(struct server *server, struct bytes body)
{
	const struct hash_key no_key = { { 0 } };
	struct report report = { 0 };
	uint64_t bit;

	if (fields_report(body, &report) != WIRE_OK)
		return server_bad_frame(server, "broken NoticeResponse");
	if (!report.verbatim || strcmp(report.verbatim, "WARNING") != 0 || server->site->is_watch)
		return FRAME_DROP;
	bit = UINT64_C(1) << hash_bytes(&no_key, report.text, strlen(report.text)) % 64;
	if (!(server->site->warnings & bit))
		log_warning(&server->log, "server says at login: %s%s%s", report.text,
		            report.detail ? ": " : "", report.detail ? report.detail : "");
	server->site->warnings |= bit;
	return FRAME_DROP;
}

static enum frame_fate report_frame(struct server *server, struct bytes body)
{
	const char *name, *value;
	struct buf *parameters = &server->login->parameters;

	if (fields_parameter(body, &name, &value) != WIRE_OK)
		return server_bad_frame(server, "broken ParameterStatus");
	parameters->limit = PARAMS_SIZE_MAX;
	buf_add_cstr(parameters, name);
	buf_add_cstr(parameters, value);
	return ++server->session.reports.count <= PARAMS_NAMES_MAX && buf_ok(parameters)
	           ? FRAME_DROP
	           : server_bad_frame(server, "too many parameters");
}

static enum frame_fate key_frame(struct server *server, struct bytes body)
{
	struct bytes key;

	if (fields_key(body, &key) != WIRE_OK || key.count > sizeof(server->key.bytes))
		return server_bad_frame(server, "broken BackendKeyData");
	server->key.size = (uint16_t)key.count;
	memcpy(server->key.bytes, key.at, key.count);
	return FRAME_DROP;
}

static enum frame_fate first_ready(struct server *server, struct bytes body)
{
	if (fields_ready(body, &server->wire.status) != WIRE_OK || server->login->auth)
		return server_bad_frame(server, "broken login of the server");
	if (!params_add_text(server->site->shared->params, &server->session.baseline,
	                     buf_bytes(&server->login->parameters)))
		return server_close_with(server, ERR_MEMORY, "out of memory"), FRAME_STOP;
	server->session.reports.count = 0;
	server->wire.is_ready = true;
	server_check_role(server);
	return server_is_over(server) ? FRAME_STOP : FRAME_DROP;
}

enum frame_fate server_login_frame(struct server *server, const struct frame *frame,
                                   struct bytes in)
{
	struct bytes body = frame_body(in, frame);

	if (server->login->is_working)
		return FRAME_STAY;
	timer_clear(&server->login->patience);
	if (frame->type == 'E')
		return refused_login(server, body);
	if (frame->type == 'v')
		return negotiation_frame(server, body);
	learn_protocol(server, false);
	switch (frame->type) {
	case 'R':
		if (!server->login->auth)
			return server_bad_frame(server, "server asks again after it let us in");
		return login_step(server, &body) ? FRAME_DROP : FRAME_STOP;
	case 'S':
		return report_frame(server, body);
	case 'K':
		return key_frame(server, body);
	case 'Z':
		return first_ready(server, body);
	case 'N':
		return notice_frame(server, body);
	default:
		return server_bad_frame(server, "unexpected message from server during login");
	}
}

/* ---- the startup packet ---- */

/* The startup parameters of a dedicated server's borrower are sent unchanged. */
static void add_wish(struct buf *out, const struct server_wish *wish)
{
	if (wish->replication)
		message_startup_pair(out, "replication",
		                     wish->replication == REPLICATION_LOGICAL ? "database"
		                                                              : "true");
	if (wish->options)
		message_startup_pair(out, "options", wish->options);
	PARAMS_EACH (name, value, wish->params)
		message_startup_pair(out, name, value);
}

static void add_startup(struct buf *out, const struct server *server, uint32_t version)
{
	const struct server_site *site = server->site;
	const struct server_wish *wish =
	    server->lease.expected_by ? server->lease.expected_by->wish : NULL;
	const struct config_database *entry = site->entry;
	size_t at = message_startup_begin(out, version);
	const struct {
		const char *name, *value;
	} pairs[] = {
		{ "user", site->user },
		{ "database", config_database_dbname(entry, site->database) },
		{ "client_encoding", entry->client_encoding },
		{ "DateStyle", entry->datestyle },
		{ "TimeZone", entry->timezone },
		{ "application_name", entry->application_name },
	};

	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
		if (pairs[i].value && !(wish && params_find(wish->params, pairs[i].name)))
			message_startup_pair(out, pairs[i].name, pairs[i].value);
	}
	if (wish)
		add_wish(out, wish);
	message_startup_end(out, at);
}

static bool submit(void *arg, struct job *job, bool is_slow)
{
	const struct server *server = arg;
	const struct server_shared *shared = server->site->shared;
	struct err err;

	return workers_submit(is_slow ? shared->slow_workers : shared->workers, shared->loop, job,
	                      &err);
}

/* A key was derived. */
static void on_work(void *arg)
{
	struct server *server = arg;

	if (!login_step(server, NULL) || server->login->is_working)
		return;
	stream_want(&server->wire.stream, WANT_INPUT);
	server_judge_kept(server);
}

static void send_startup(struct server *server)
{
	struct server_login *login = server->login;
	const struct server_shared *shared = server->site->shared;
	unsigned char binding[TLS_BINDING_MAX];
	size_t binding_count = tls_channel_binding(&server->wire.stream, binding);
	struct buf out = { 0 };

	server->wire.stream.ops = &server_stream_ops;
	login->asked =
	    login->is_again || protocol_of(server) == HOST_OLD ? PROTOCOL_3_0 : PROTOCOL_3_2;
	add_startup(&out, server, login->asked);
	login->auth = auth_client_new(&(struct auth_client_who){
	    .user = server->site->user,
	    .credentials = server->site->ops->credentials(server),
	    .require = &shared->config->server_require_auth,
	    .binding = bytes_of(binding, binding_count),
	    .verifiers = shared->verifiers,
	    .runner = { submit, on_work, server },
	});
	server_enter(server, SERVER_LOGIN);
	if (!login->auth || !buf_ok(&out))
		server_close_with(server, ERR_MEMORY, "out of memory");
	else if (!stream_send(&server->wire.stream, buf_bytes(&out)) ||
	         !stream_want(&server->wire.stream, WANT_INPUT))
		server_close_for(server, CLOSE_SERVER_LOGIN_CLOSED);
	buf_free(&out);
}

/* ---- TLS as server_tls_sslmode requires ---- */

static struct securing_how server_securing(const struct server *server)
{
	const struct server_shared *shared = server->site->shared;
	const struct hosts *hosts = server->site->hosts;

	return (struct securing_how){
		.tls = address_is_unix(&server->place.peer) ? NULL : shared->tls,
		.host = server->site->tls_host              ? server->site->tls_host
		        : server->place.host < hosts->count ? hosts->list[server->place.host].at
		                                            : "",
		.is_required = shared->config->server_tls_sslmode >= TLS_MODE_REQUIRE,
		.is_direct = shared->config->server_tls_negotiation == TLS_NEGOTIATION_DIRECT,
	};
}

static void on_securing_input(struct stream *stream)
{
	struct server *server = container_of(stream, struct server, wire.stream);
	struct securing_how how = server_securing(server);

	timer_clear(&server->login->patience);
	securing_answer(stream, &how);
}

static void on_server_secured(struct stream *stream, const struct err *failure)
{
	struct server *server = container_of(stream, struct server, wire.stream);
	char text[TLS_TEXT_SIZE];
	const char *name;

	if (failure) {
		server_close(server, failure);
		return;
	}
	if (!stream_is_encrypted(stream)) {
		send_startup(server);
		return;
	}
	/* Without ALPN, the peer could be a server of another protocol. */
	if (server->is_tls_direct && tls_agreed_protocol(stream, &name) <= 0) {
		server_close_with(server, ERR_SERVER_CONNECT,
		                  "server did not agree on PostgreSQL's protocol");
		return;
	}
	if (server->site->shared->config->log_connections)
		log_info(&server->log, "SSL established: %s", tls_text(stream, text, sizeof(text)));
	log_debug(&server->log, "TLS records: %s", tls_records_text(stream));
	send_startup(server);
}

static const struct stream_ops securing_ops = { .on_input = on_securing_input,
	                                        .on_gone = on_securing_input,
	                                        .on_secured = on_server_secured };

/* ---- launch ---- */

static void log_connected(struct server *server)
{
	static const struct log_facts facts = { .event = "connect" };
	struct address self;
	char text[ADDRESS_TEXT_SIZE];

	if (!server->site->shared->config->log_connections || server->site->is_watch)
		return;
	if (address_is_unix(&server->place.peer) ||
	    !address_of_self(&self, server->wire.stream.watch.fd, 0)) {
		log_event(&server->log, LOG_LEVEL_INFO, &facts, "new connection to server");
		return;
	}
	log_event(&server->log, LOG_LEVEL_INFO, &facts, "new connection to server (from %s)",
	          address_format(&self, text, sizeof(text)));
}

static void on_server_connected(struct dial *dial, int fd, const struct err *err)
{
	struct server_login *login = container_of(dial, struct server_login, dial);
	struct server *server = login->server;
	const struct server_shared *shared = server->site->shared;
	struct securing_how how;

	if (fd < 0) {
		server_close(server, err);
		return;
	}
	stream_open(&server->wire.stream, shared->loop, shared->streams, fd, &securing_ops);
	if (address_is_unix(&server->place.peer))
		address_of_peer(&server->place.peer, fd, address_port(&server->place.peer));
	log_connected(server);
	how = server_securing(server);
	server->is_tls_direct = how.is_direct;
	securing_begin(&server->wire.stream, &how);
}

bool server_launch(struct server *server)
{
	struct loop *loop = server->site->shared->loop;
	struct err err;

	server->login = calloc(1, sizeof(*server->login));
	server->connected_at = server->used_at = loop_now(loop);
	timer_set(&server->timer, server->site->limits.connect, server->connected_at);
	if (!server->login) {
		server_close_with(server, ERR_MEMORY, "out of memory");
		return false;
	}
	server->login->server = server;
	if (!find_host(server, &err)) {
		server_close(server, &err);
		return false;
	}
	return true;
}
