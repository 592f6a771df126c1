/* SPDX-License-Identifier: ISC */
/*
 * The login of a server, from its first message to its first ReadyForQuery.
 *
 * Protocol 3.2 is requested, for its long cancel keys. A server that rejects it is connected to
 * again at once with 3.0, and that is noted for its address.
 *
 * Hard here: a worker thread derives the key from a password. Until the key is available the server
 * is not read, so what it sends stays in the kernel.
 */
#include "server_priv.h"

#include <string.h>

#include "pgweir/pgwire/fields.h"
#include "pgweir/pgwire/startup.h"
#include "pgweir/pool/server/question.h"

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

static void add_address(const struct server *server, struct buf *out)
{
	char text[ADDRESS_TEXT_SIZE];

	buf_add_text(out, address_is_unix(&server->place.peer)
	                      ? server->place.path
	                      : address_format(&server->place.peer, text, sizeof(text)));
}

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

/*
 * Adds to the error of a failed login which login it was, at which address, and with which secret.
 */
static void server_blame(const struct server *server, struct err *err)
{
	const struct server_site *site = server->site;
	const struct auth_client *auth = server->login ? server->login->auth : NULL;
	bool is_ours = err->code != ERR_FOREIGN;
	struct buf words = { .limit = ERR_DETAIL_SIZE - 1 };

	buf_printf(&words, "pgweir's own login as \"%s\" at ", site->user);
	add_address(server, &words);
	buf_printf(&words, ", for the entry \"%s\"", site->database);
	if (is_ours || strncmp(err->sqlstate, "28", 2) == 0) {
		site->ops->tell_secret(server, &words);
		if (auth)
			add_asked(auth, is_ours, &words);
	}
	/* Names may be too long for the DETAIL; a part of it would mislead. */
	if (buf_ok(&words))
		err_detail(err, buf_text(&words));
	buf_free(&words);
}

/*
 * ---- the role of the host ----
 *
 * The role of a server's host: at its login, and when it changes.
 *
 * PostgreSQL 14 and later report in_hot_standby and default_transaction_read_only at the login.
 * That is enough if the host was asked before, by a watch or another login; else the role question
 * is asked, as a report does not tell a former primary that has come back from the current one.
 *
 * A promotion keeps the sessions of a standby: they report in_hot_standby when they are used next.
 */

static bool is_on(const char *value) { return strcmp(value, "on") == 0; }

static void close_unfit(struct server *server, enum close_reason reason)
{
	server_unfit(server);
	server_close_for(server, reason);
}

/* The role fits: the login goes on. server_login.c */
static void server_login_checked(struct server *server)
{
	const char *connect_query = server->site->entry->connect_query;

	/* Physical replication has no database and no SQL. */
	if (connect_query && server->replication != REPLICATION_PHYSICAL)
		server_errand(server, ERRAND_CONNECT, ERRAND_AT_ONCE, connect_query);
	else
		server->site->ops->on_login_done(server);
}

/* What is known fits, or the server is closed. */
static void judge_role(struct server *server, enum host_role role, bool is_read_only)
{
	const struct server_site *site = server->site;
	struct roster_at at = server_roster_at(server);

	if (!roster_is_target(site->target, role, is_read_only)) {
		close_unfit(server, CLOSE_HOST_ROLE);
		return;
	}
	switch (roster_stay(site->roster, &at, site->target)) {
	case ROSTER_FENCED:
		close_unfit(server, CLOSE_HOST_FENCED);
		return;
	case ROSTER_DISABLED:
	case ROSTER_DRAINED:
		close_unfit(server, CLOSE_HOST_DRAINED);
		return;
	case ROSTER_STAYS:
	case ROSTER_ROLE: /* read_only of this user is another one */
	case ROSTER_LOST_THERE:
		server_login_checked(server);
	}
}

void server_ask_role(struct server *server, bool is_short)
{
	server_errand(server, ERRAND_ROLE, ERRAND_AT_ONCE, role_question_text(is_short));
}

/* A host that was asked before says the same as then. */
static bool is_known(const struct server *server, const struct host_report *report)
{
	struct roster_at at = server_roster_at(server);
	struct roster_row row;

	return roster_find(server->site->roster, &at, &row) && row.is_sure && !row.is_fenced &&
	       row.known.role == report->role;
}

/*
 * The login is done but for connect_query: looks at the role of the host, or asks for it.
 * server_login_checked() follows, unless the server is closed.
 */
static void server_check_role(struct server *server)
{
	const char *standby = params_find(server->session.baseline, "in_hot_standby");
	const char *read_only =
	    params_find(server->session.baseline, "default_transaction_read_only");
	struct host_report report = { 0 };

	if (standby && read_only) {
		report.role = is_on(standby) ? HOST_STANDBY : HOST_PRIMARY;
		report.is_read_only = is_on(read_only);
	}
	/* Physical replication has no SQL. */
	if (!is_known(server, &report) && server->replication != REPLICATION_PHYSICAL) {
		server_ask_role(server, false);
	} else if (!report.role) {
		server_login_checked(server);
	} else {
		server->site->ops->on_report(server, &report);
		judge_role(server, report.role, report.is_read_only);
	}
}

void server_role_row(struct server *server, struct bytes row)
{
	struct host_report report;

	if (!role_question_answer(row, &report))
		return;
	if (server->login) {
		server->login->role = report.role;
		server->login->is_read_only = report.is_read_only;
	}
	server->site->ops->on_report(server, &report);
}

void server_role_done(struct server *server)
{
	struct server_login *login = server->login;

	if (login->role != HOST_ROLE_UNKNOWN) {
		judge_role(server, login->role, login->is_read_only);
	} else if (login->is_role_short) {
		close_unfit(server, CLOSE_ROLE_UNKNOWN);
	} else {
		login->is_role_short = true;
		server_ask_role(server, true);
	}
}

void server_role_doubted(struct server *server)
{
	struct roster_at at = server_roster_at(server);
	struct host_report report = { .is_read_only = true, .is_doubtful = true };
	struct roster_row row;

	if (!roster_find(server->site->roster, &at, &row))
		return;
	report.role = row.known.role;
	server->site->ops->on_report(server, &report);
}

void server_role_reported(struct server *server, const char *name, const char *value)
{
	struct roster_at at = server_roster_at(server);
	struct host_report report = { 0 };
	struct roster_row row;

	if (strcmp(name, "in_hot_standby") != 0 || server->state == SERVER_LOGIN)
		return;
	report.role = is_on(value) ? HOST_STANDBY : HOST_PRIMARY;
	if (roster_find(server->site->roster, &at, &row))
		report.is_read_only = row.known.is_read_only;
	server->site->ops->on_report(server, &report);
}

/* ---- login ---- */

/* ---- authentication ---- */

/* Handles the result of a step of the authentication. false: the server is closing. */
static bool login_step(struct server *server, enum auth_client_result result, struct buf *out,
                       struct err *err)
{
	struct auth_client *login = server->login->auth;
	const struct server_shared *shared = server->site->shared;
	struct job *job;

	switch (result) {
	case AUTH_CLIENT_OK:
		stream_defer(&server->wire.stream); /* no more secrets */
		auth_client_free(&server->login->auth);
		return true;
	case AUTH_CLIENT_MORE:
		if (buf_ok(out) &&
		    (out->count == 0 || stream_send(&server->wire.stream, buf_bytes(out))))
			return true;
		server_close_for(server, CLOSE_SERVER_LOGIN_CLOSED);
		return false;
	case AUTH_CLIENT_WORK:
		job = auth_client_job(login);
		if (job && workers_submit(auth_client_is_slow(login) ? shared->slow_workers
		                                                     : shared->workers,
		                          shared->loop, job, err)) {
			server->login->is_working = true;
			stream_want(&server->wire.stream, WANT_NOTHING);
			return true;
		}
		auth_client_job_refused(login);
		err_set(err, ERR_FILES, "too many logins at once wait for their key");
		err_reason(err, CLOSE_TOO_MANY_LOGINS);
		server_close(server, err);
		return false;
	case AUTH_CLIENT_FAILED:
		server_blame(server, err);
		log_warning(&server->log, "%s: %s", err->text, err->detail);
		server_close(server, err);
		return false;
	}
	return false;
}

bool server_login_resume(struct server *server)
{
	struct buf out = { 0 };
	struct err err;
	enum auth_client_result result;
	bool goes_on;

	server->login->is_working = false;
	result = auth_client_resume(server->login->auth, &out, &err);
	goes_on = login_step(server, result, &out, &err) && !server->login->is_working;
	buf_wipe(&out);
	return goes_on;
}

static enum frame_fate auth_frame(struct server *server, struct bytes body)
{
	struct buf out = { 0 };
	struct err err;
	enum auth_client_result result;
	bool goes_on;

	if (!server->login->auth)
		return server_close_with(server, ERR_PROTOCOL,
		                         "server asks again after it let us in"),
		       FRAME_STOP;
	result = auth_client_answer(server->login->auth, body, &out, &err);
	goes_on = login_step(server, result, &out, &err);
	buf_wipe(&out);
	return goes_on ? FRAME_DROP : FRAME_STOP;
}

/* ---- the protocol version ---- */

/* The first message has arrived, and was no error about the protocol. */
static void learn_protocol(struct server *server, bool is_error)
{
	struct server_login *login = server->login;

	if (login->has_spoken)
		return;
	login->has_spoken = true;
	if (login->asked != PROTOCOL_3_0)
		server_learn_protocol(server, HOST_NEGOTIATES);
	else if (login->is_again && !is_error)
		server_learn_protocol(server, HOST_OLD);
}

static void ask_again(struct server *server)
{
	struct server_login *login = server->login;

	log_debug(&server->log, "no answer to protocol 3.2: asking for 3.0");
	login->is_again = true;
	auth_client_free(&login->auth);
	stream_close(&server->wire.stream);
	server_enter(server, SERVER_CONNECTING);
	server_dial_again(server);
}

bool server_asks_again(struct server *server)
{
	const struct server_login *login = server->login;

	if (!login || login->has_spoken || login->asked == PROTOCOL_3_0 ||
	    server_protocol(server) != HOST_UNTRIED)
		return false;
	ask_again(server);
	return true;
}

/*
 * Whether the first message is an error that rejects the protocol version: 0A000 from a PostgreSQL
 * that is too old to negotiate, 08... from others.
 */
static bool is_misunderstanding(const struct server *server, const struct report *report)
{
	const struct server_login *login = server->login;

	if (login->has_spoken || login->asked == PROTOCOL_3_0)
		return false;
	return strncmp(report->sqlstate, "0A", 2) == 0 ||
	       (strncmp(report->sqlstate, "08", 2) == 0 && server_protocol(server) == HOST_UNTRIED);
}

static enum frame_fate negotiation_frame(struct server *server, struct bytes body)
{
	const struct server_login *login = server->login;
	struct negotiation told;

	if (login->has_spoken || fields_negotiation(body, &told) != WIRE_OK ||
	    told.version > login->asked || told.count)
		return server_close_with(server, ERR_PROTOCOL, "broken NegotiateProtocolVersion"),
		       FRAME_STOP;
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
		return server_close_with(server, ERR_PROTOCOL, "broken ErrorResponse"), FRAME_STOP;
	if (is_misunderstanding(server, &report))
		return ask_again(server), FRAME_STOP;
	learn_protocol(server, true);
	err_set_foreign(&err, report.sqlstate, report.text);
	server_blame(server, &err);
	/*
	 * One that is starting up is asked often, and the pool logs that it cannot be reached. Of a
	 * watch, only the first refusal is logged.
	 */
	if (strcmp(report.sqlstate, "57P03") != 0 && !server->site->is_watch)
		log_warning(&server->log, "server login failed: %s %s: %s", report.severity,
		            report.text, err.detail);
	server_close(server, &err);
	return FRAME_STOP;
}

static enum frame_fate report_frame(struct server *server, struct bytes body)
{
	const char *name, *value;
	struct buf *parameters = &server->login->parameters;

	if (fields_parameter(body, &name, &value) != WIRE_OK)
		return server_close_with(server, ERR_PROTOCOL, "broken ParameterStatus"),
		       FRAME_STOP;
	parameters->limit = PARAMS_SIZE_MAX;
	buf_add_cstr(parameters, name);
	buf_add_cstr(parameters, value);
	if (++server->session.report_count <= PARAMS_NAMES_MAX && buf_ok(parameters))
		return FRAME_DROP;
	server_close_with(server, ERR_PROTOCOL, "too many parameters");
	return FRAME_STOP;
}

static enum frame_fate key_frame(struct server *server, struct bytes body)
{
	struct bytes key;

	if (fields_key(body, &key) != WIRE_OK || key.count > sizeof(server->key))
		return server_close_with(server, ERR_PROTOCOL, "broken BackendKeyData"), FRAME_STOP;
	server->key_size = (uint16_t)key.count;
	memcpy(server->key, key.at, key.count);
	return FRAME_DROP;
}

/* The first ReadyForQuery has arrived. */
static enum frame_fate first_ready(struct server *server, struct bytes body)
{
	if (fields_ready(body, &server->wire.status) != WIRE_OK || server->login->auth)
		return server_close_with(server, ERR_PROTOCOL, "broken login of the server"),
		       FRAME_STOP;
	if (!params_add_text(server->site->shared->params, &server->session.baseline,
	                     buf_bytes(&server->login->parameters)))
		return server_close_with(server, ERR_MEMORY, "out of memory"), FRAME_STOP;
	server->session.report_count = 0;
	server->wire.is_ready = true;
	if (server->site->target == TARGET_ANY)
		server_login_checked(server);
	else
		server_check_role(server);
	return server_is_over(server) ? FRAME_STOP : FRAME_DROP;
}

enum frame_fate server_login_frame(struct server *server, const struct frame *frame,
                                   struct bytes in)
{
	struct bytes body = frame_body(in, frame);

	if (server->login->is_working)
		return FRAME_STAY;
	server_heard(server);
	if (frame->type == 'E')
		return refused_login(server, body);
	if (frame->type == 'v')
		return negotiation_frame(server, body);
	learn_protocol(server, false);
	switch (frame->type) {
	case 'R':
		return auth_frame(server, body);
	case 'S':
		return report_frame(server, body);
	case 'K':
		return key_frame(server, body);
	case 'Z':
		return first_ready(server, body);
	case 'N':
		return FRAME_DROP;
	default:
		server_close_with(server, ERR_PROTOCOL,
		                  "unexpected message from server during login");
		return FRAME_STOP;
	}
}
