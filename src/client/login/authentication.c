/* SPDX-License-Identifier: ISC */
/*
 * Authenticates a client, by the method of its rule or of auth_type.
 *
 * Hard here: a client must not find out which users and databases exist. A user that does
 * not exist goes through the whole exchange, and so does a client that asks for a database
 * that does not exist. They are refused afterwards.
 */
#include "pgweir/auth/digest.h"

#include <pwd.h>
#include <stdlib.h>

#include "pgweir/auth/hba.h"
#include "pgweir/base/container_of.h"
#include "pgweir/loop/workers.h"
#include "pgweir/net/resolver.h"

#include "login_priv.h"

/*
 * ---- the rule ----
 *
 * auth_type hba: finds the rule of a client, which determines how the client authenticates.
 *
 *   find the rule --> how to authenticate
 *     ^       |
 *     |       +--> look up the name of the host or of the system user --+
 *     +-----------------------------------------------------------------+
 *
 * Hard here: lookups of names take time, and a reload may change the rules in that time. So
 * no rule is kept: after a lookup, the search begins again with the first rule in force.
 */

/* Whether both options of an authentication method are equal. Each may be NULL. */
static bool same_options(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

/* Whether the client requested physical replication. */
static bool is_physical(const struct client *client)
{
	return client->replication == REPLICATION_PHYSICAL;
}

/* The CN of the client's verified certificate. NULL: no certificate, or not exactly one CN. */
static const char *certificate_name(const struct client *client)
{
	return client->login ? client->login->certificate_name : NULL;
}

#define PASSWD_SIZE 65536 /* buffer for one entry of the user database */

/* Finds the name of a system user on a helper thread. */
struct name_job {
	struct job job;
	struct hba_check *owner;
	uid_t uid;
	char *name; /* NULL: no such user; owned */
};

/* What was found out about one client. */
struct hba_check {
	struct client *client;
	struct reverse reverse;
	struct name_job *job; /* NULL: none is running */
	char *host, *system_user;
	bool is_host_known, is_system_user_known; /* the lookup has ended; NULL above: no name */
};

/* The options of the method: the rule's own, or else those of the settings. */
static const char *options_of(const struct client *client, const struct hba_rule *rule)
{
	const char *options = hba_rule_options(rule);

	return options ? options
	               : auth_methods_options(hba_rule_method(rule), login_config(client));
}

/* ---- facts ---- */

static struct hba_facts facts_of(const struct client *client)
{
	const struct client_login *login = client->login;
	const struct hba_check *hba_check = login->hba_check;

	return (struct hba_facts){
		.peer = &client->peer,
		.database = login->database,
		.user = login->user,
		.is_tls = stream_is_encrypted(&client->stream),
		.is_physical = is_physical(client),
		.is_host_known = hba_check && hba_check->is_host_known,
		.host = hba_check ? hba_check->host : NULL,
	};
}

/* The struct of this client, made if needed. NULL: no memory, and the client was refused. */
enum hba_check_result {
	HBA_CHECK_FOUND,   /* *way is set */
	HBA_CHECK_LOOKING, /* a lookup runs; login->on_looked_up() is called at its end */
	HBA_CHECK_OVER     /* the client was refused */
};

/* How a client must authenticate. */
struct authentication_way {
	enum auth_method method;
	bool is_proven;      /* the method's voucher (auth_methods.h) confirms the user */
	const char *options; /* options of a method that is_outside (auth/outside.h); else NULL */
};

static struct hba_check *hba_check_of(struct client *client)
{
	struct client_login *login = client->login;

	if (!login->hba_check)
		login->hba_check = calloc(1, sizeof(*login->hba_check));
	if (login->hba_check)
		login->hba_check->client = client;
	else
		client_refuse_for(client, CLOSE_MEMORY);
	return login->hba_check;
}

static void hba_check_free(struct client_login *login)
{
	struct hba_check *hba_check = login->hba_check;

	login->hba_check = NULL;
	if (!hba_check)
		return;
	reverse_cancel(&hba_check->reverse);
	if (hba_check->job)
		workers_abandon(&hba_check->job->job);
	free(hba_check->host);
	free(hba_check->system_user);
	free(hba_check);
}

/* ---- names ---- */

static void on_host(struct reverse *reverse, const char *host)
{
	struct hba_check *hba_check = container_of(reverse, struct hba_check, reverse);

	hba_check->is_host_known = true;
	hba_check->host = host ? strdup(host) : NULL;
	hba_check->client->login->on_looked_up(hba_check->client); /* searches the rules again */
}

static enum hba_check_result look_host_up(struct client *client)
{
	struct hba_check *hba_check = hba_check_of(client);
	struct err err;

	if (!hba_check)
		return HBA_CHECK_OVER;
	if (reverse_start(client->clients->with.resolver, &hba_check->reverse, &client->peer,
	                  on_host, &err))
		return HBA_CHECK_LOOKING;
	client_fatal(client, &err);
	return HBA_CHECK_OVER;
}

static void run_name(struct job *job)
{
	struct name_job *work = (struct name_job *)job;
	struct passwd entry, *found = NULL;
	char *buffer = malloc(PASSWD_SIZE);

	if (buffer && getpwuid_r(work->uid, &entry, buffer, PASSWD_SIZE, &found) == 0 && found)
		work->name = strdup(entry.pw_name);
	free(buffer);
}

static void done_name(struct job *job)
{
	struct name_job *work = (struct name_job *)job;
	struct hba_check *hba_check = job->is_abandoned ? NULL : work->owner;

	_Static_assert(offsetof(struct name_job, job) == 0, "jobs are found by it");
	if (hba_check) {
		hba_check->job = NULL;
		hba_check->is_system_user_known = true;
		hba_check->system_user = work->name;
	} else {
		free(work->name);
	}
	free(work);
	if (hba_check)
		hba_check->client->login->on_looked_up(hba_check->client);
}

static enum hba_check_result look_system_user_up(struct client *client)
{
	struct hba_check *hba_check = hba_check_of(client);
	struct err err;

	if (!hba_check)
		return HBA_CHECK_OVER;
	hba_check->job = calloc(1, sizeof(*hba_check->job));
	if (!hba_check->job) {
		client_refuse_for(client, CLOSE_MEMORY);
		return HBA_CHECK_OVER;
	}
	*hba_check->job = (struct name_job){ .job = { .run = run_name, .done = done_name },
		                             .owner = hba_check,
		                             .uid = client->peer.un.uid };
	if (workers_submit(client->clients->with.lookups, client->clients->with.loop,
	                   &hba_check->job->job, &err))
		return HBA_CHECK_LOOKING;
	free(hba_check->job);
	hba_check->job = NULL;
	client_refuse_with(client, CLOSE_TOO_MANY_LOGINS, "too many logins at once, try again");
	return HBA_CHECK_OVER;
}

/* ---- rules ---- */

/*
 * Refuses the client. As in PostgreSQL, the error repeats what the client sent (host, user,
 * database, encryption) and reveals nothing about the rules.
 */
static enum hba_check_result refuse_by_rules(struct client *client, enum close_reason reason,
                                             const char *words)
{
	char host[ADDRESS_TEXT_SIZE];
	bool is_unix = address_is_unix(&client->peer);
	struct err err;

	err_set(&err, ERR_NOT_ALLOWED, "%s %s \"%s\", user \"%.127s\", database \"%.127s\", %s",
	        words, is_physical(client) ? "replication from host" : "host",
	        is_unix ? "[local]" : address_format_host(&client->peer, host, sizeof(host)),
	        client->login->user, client->login->database,
	        stream_is_encrypted(&client->stream) ? "TLS encryption" : "no encryption");
	err_reason(&err, reason);
	throttle_refuse(client, &err);
	return HBA_CHECK_OVER;
}

/*
 * Whether `name`, from the certificate or of the system user, is the client's user or is
 * mapped to it.
 */
static bool is_named(const struct client *client, const struct hba_rule *rule, const char *name)
{
	return name && hba_rule_admits(login_hba(client), rule, name, client->login->user);
}

static bool has_certificate(const struct client *client, const struct hba_rule *rule)
{
	switch (hba_rule_client_cert(rule)) {
	case HBA_CERT_ANY:
		return true;
	case HBA_CERT_VALID:
		return client->login->has_certificate;
	case HBA_CERT_NAMED:
		return is_named(client, rule, certificate_name(client));
	}
	return false;
}

static enum hba_check_result follow(struct client *client, const struct hba_rule *rule,
                                    struct authentication_way *way)
{
	const struct hba_check *hba_check = client->login->hba_check;
	enum auth_method method = hba_rule_method(rule);
	const struct auth_method_row *row = &auth_methods[method];
	struct source_pos pos = hba_rule_source_pos(rule);
	bool is_proven = false;

	log_debug(&client->log, "by %s:%d: %s", pos.file, pos.line, row->hba_name);
	if (method == AUTH_METHOD_REJECT)
		return refuse_by_rules(client, CLOSE_HBA_REJECT,
		                       "login rejected: an HBA rule rejects");
	if (hba_rule_flaw(rule)) {
		log_info(&client->log, "login refused by %s:%d: %s", pos.file, pos.line,
		         hba_rule_flaw(rule));
		return refuse_by_rules(client, CLOSE_HBA_REJECT,
		                       "login rejected: an HBA rule that allows no login matches");
	}
	if (row->voucher == AUTH_BY_SYSTEM_USER && !(hba_check && hba_check->is_system_user_known))
		return look_system_user_up(client);
	if (!has_certificate(client, rule)) {
		client_refuse_for(client, CLOSE_AUTH_CERTIFICATE);
		return HBA_CHECK_OVER;
	}
	if (row->voucher == AUTH_BY_SYSTEM_USER)
		is_proven = is_named(client, rule, hba_check->system_user);
	else if (row->voucher == AUTH_BY_CERTIFICATE)
		is_proven = is_named(client, rule, certificate_name(client));
	*way = (struct authentication_way){ method, is_proven, options_of(client, rule) };
	return HBA_CHECK_FOUND;
}

/* auth_type hba: finds the client's rule and how it must authenticate. */
static enum hba_check_result hba_check_decide(struct client *client, struct authentication_way *way)
{
	const struct hba *hba = login_hba(client);
	const struct hba_facts facts = facts_of(client);
	const struct hba_rule *rule;

	switch (hba_find(hba, &facts, &rule)) {
	case HBA_RULE:
		return follow(client, rule, way);
	case HBA_NEEDS_HOST:
		return look_host_up(client);
	case HBA_NO_RULE:
		break;
	}
	return refuse_by_rules(client, CLOSE_HBA_NO_RULE,
	                       "no authentication method is found: no rule for");
}

/* Whether the rule in force for this client has this method and these options. Begins no lookup. */
static bool hba_check_is_by(const struct client *client, enum auth_method method,
                            const char *options)
{
	const struct hba_facts facts = facts_of(client);
	const struct hba_rule *rule;

	return hba_find(login_hba(client), &facts, &rule) == HBA_RULE &&
	       hba_rule_method(rule) != AUTH_METHOD_REJECT && !hba_rule_flaw(rule) &&
	       hba_rule_method(rule) == method && same_options(options, options_of(client, rule)) &&
	       has_certificate(client, rule);
}

/* Maximum length of a message during authentication: a password may have more than 65530 bytes. */
#define PROOF_MESSAGE_MAX ((uint32_t)70000)

/* ---- names ---- */

/* Checks the names before authentication. false: the client was refused. */
static bool check_names(struct client *client)
{
	struct client_login *login = client->login;

	if (!admit_hold(client))
		return false;
	if (strlen(login->user) > CONFIG_USER_NAME_MAX) {
		log_info(&client->log, "login failed: db=%s user=%s", login->database, login->user);
		return client_refuse_for(client, CLOSE_LONG_USER);
	}
	return !admit_is_console(client) || admit_console_role(client);
}

/* ---- exchange ---- */

static void act_on(struct client *client, enum auth_server_result result, struct buf *out,
                   struct err *err);
static void choose_method(struct client *client);

/* Waits for a lookup. At its end login->on_looked_up() is called. */
static void wait_for_lookup(struct client *client)
{
	client_enter(client, CLIENT_LOOKING);
	stream_want(&client->stream, WANT_END);
}

/* The client left another state (a lookup, a job). Handles the input that came since. */
static void resume(struct client *client)
{
	if (client_is_over(client))
		return;
	if (client->state == CLIENT_AUTHENTICATION)
		stream_want(&client->stream, WANT_INPUT);
	client_judge_kept(client);
}

static void on_looked_up(struct client *client)
{
	if (client->state == CLIENT_LOOKING)
		client_enter(client, CLIENT_AUTHENTICATION);
	choose_method(client);
	resume(client);
}

static void on_work(void *arg)
{
	struct client *client = arg;
	struct buf out = { 0 };
	struct err err;
	enum auth_server_result result;

	client_enter(client, CLIENT_AUTHENTICATION);
	result = auth_server_resume(client->login->auth, &out, &err);
	act_on(client, result, &out, &err);
	buf_wipe(&out);
	resume(client);
}

static struct workers *workers_for(const struct client *client)
{
	const struct clients_with *with = &client->clients->with;
	struct workers *own = with->outside ? with->outside[client->login->method] : NULL;

	return own ? own : with->workers;
}

static void derive(struct client *client, struct err *err)
{
	struct auth_server *entry = client->login->auth;
	struct job *job = auth_server_job(entry);

	if (job && workers_submit(workers_for(client), client->clients->with.loop, job, err)) {
		client_enter(client, CLIENT_DERIVING);
		stream_want(&client->stream, WANT_END);
		return;
	}
	auth_server_job_refused(entry);
	client_refuse_with(client, CLOSE_TOO_MANY_LOGINS, "too many logins at once, try again");
}

/* A reload during the exchange may have changed how this client must authenticate. */
static bool is_still_asked(const struct client *client)
{
	const struct config *config = login_config(client);
	enum auth_method type = config->auth_type;
	enum auth_method method = (enum auth_method)client->login->method;

	if (client->login->generation == client->clients->generation)
		return true;
	if (type == AUTH_METHOD_HBA)
		return hba_check_is_by(client, method, client->login->outside);
	return type == method &&
	       same_options(client->login->outside, auth_methods_options(type, config));
}

/* The exchange succeeded: checks that it still counts. false: the client was refused. */
static bool check_proof(struct client *client)
{
	struct err err;

	if (!auth_query_holds(client)) {
		log_info(&client->log,
		         "login refused, %s: the user's secret has changed during the login",
		         auth_server_method_name(client->login->auth));
		err_close(&err, CLOSE_AUTH_PASSWORD);
		throttle_refuse(client, &err);
		return false;
	}
	if (!is_still_asked(client))
		return client_refuse(client, ERR_NOT_ALLOWED,
		                     "the rules of logins have changed meanwhile, try again");
	return true;
}

static void act_on(struct client *client, enum auth_server_result result, struct buf *out,
                   struct err *err)
{
	struct auth_server *entry = client->login->auth;

	if ((result == AUTH_SERVER_OK || result == AUTH_SERVER_REFUSED) && !throttle_admits(client))
		return;
	/*
	 * Check before the last message of SCRAM goes out: a client that gets the server's
	 * signature knows that its password is right, even if that password is not in force any
	 * more.
	 */
	if (result == AUTH_SERVER_OK && !check_proof(client))
		return;
	if (result != AUTH_SERVER_REFUSED && out->count && !client_send(client, buf_bytes(out)))
		return;
	switch (result) {
	case AUTH_SERVER_MORE:
		return;
	case AUTH_SERVER_WORK:
		derive(client, err);
		return;
	case AUTH_SERVER_REFUSED:
		if (client->login->is_unknown)
			log_info(&client->log, "no such user: %s", client->login->user);
		log_info(&client->log, "login refused, %s: %s", auth_server_method_name(entry),
		         auth_server_reason(entry));
		auth_query_failed(client);
		throttle_refuse(client, err);
		return;
	case AUTH_SERVER_OK:
		if (admit_count(client))
			admit_enter(client);
	}
}

static void log_attempt(const struct client *client)
{
	static const char *const replication[] = {
		[REPLICATION_NONE] = "no",
		[REPLICATION_PHYSICAL] = "yes",
		[REPLICATION_LOGICAL] = "database",
	};
	const struct client_login *login = client->login;
	char tls[TLS_TEXT_SIZE];
	struct log_entry entry;

	if (!log_begin(&client->log, LOG_LEVEL_INFO, &entry))
		return;
	entry.who.facts = &(struct log_facts){ .event = "login_attempt" };
	strbuf_add(&entry.line, "login attempt: db=");
	strbuf_add(&entry.line, login->database);
	strbuf_add(&entry.line, " user=");
	strbuf_add(&entry.line, login->user);
	strbuf_add(&entry.line, " tls=");
	strbuf_add(&entry.line, *tls_text(&client->stream, tls, sizeof(tls)) ? tls : "no");
	strbuf_add(&entry.line, " replication=");
	strbuf_add(&entry.line, replication[client->replication]);
	log_end(&client->log, LOG_LEVEL_INFO, &entry);
}

/* Stores what is needed until the client is admitted. false: no memory. */
static bool note_method(struct client *client, enum auth_method method, const char *options)
{
	struct client_login *login = client->login;

	login->method = method;
	login->generation = client->clients->generation;
	secret_free(&login->outside);
	if (options)
		login->outside = strdup(options);
	return !options || login->outside;
}

/*
 * Finds the user's secret. false: a lookup runs, another method was chosen, or the client
 * was refused.
 */
static bool know(struct client *client, struct secret *secret, bool *is_known)
{
	switch (auth_query_find(client, secret)) {
	case AUTH_QUERY_FOUND:
		*is_known = true;
		return true;
	case AUTH_QUERY_UNKNOWN:
		client->login->is_unknown = true; /* logged only after the login has failed */
		return true;
	case AUTH_QUERY_RENAMED:
		choose_method(client);
		return false;
	case AUTH_QUERY_LOOKING:
		wait_for_lookup(client);
		return false;
	case AUTH_QUERY_OVER:
		break;
	}
	return false;
}

/* Begins the authentication of the client by this method. */
static void ask_for(struct client *client, const struct authentication_way *way)
{
	struct clients *clients = client->clients;
	struct client_login *login = client->login;
	struct users *likeness;
	struct secret secret;
	bool is_known = false;
	char host[ADDRESS_TEXT_SIZE];
	bool is_unix = address_is_unix(&client->peer);
	unsigned char binding[TLS_BINDING_MAX];
	size_t binding_count = tls_channel_binding(&client->stream, binding);
	struct buf out = { 0 };
	struct err err;

	/*
	 * A user of these methods need not be known: any user is accepted, or another system
	 * decides.
	 */
	if (!auth_methods[way->method].takes_anybody && !auth_methods[way->method].is_outside &&
	    !know(client, &secret, &is_known))
		return;
	if (!note_method(client, way->method, way->options)) {
		client_refuse_for(client, CLOSE_MEMORY);
		return;
	}
	likeness = auth_query_likeness(client);
	login->auth = auth_server_new(&(struct auth_server_who){
	    .method = way->method,
	    .user = auth_query_claimed(client),
	    .secret = is_known ? &secret : NULL,
	    .users = likeness,
	    .is_proven = way->is_proven,
	    .options = way->options,
	    .host = is_unix ? "[local]" : address_format_host(&client->peer, host, sizeof(host)),
	    .deadline = client_login_due(client),
	    .iterations = (unsigned int)clients->config->scram_iterations,
	    .binding = bytes_of(binding, binding_count),
	    .verifiers = clients->with.verifiers,
	    .on_work = on_work,
	    .arg = client,
	});
	users_release(&likeness);
	if (!login->auth) {
		client_refuse_for(client, CLOSE_MEMORY);
		return;
	}
	act_on(client, auth_server_start(login->auth, &out, &err), &out, &err);
	buf_wipe(&out);
}

/* Whether the certificate names the user. For auth_type cert, which has no maps. */
static bool is_named_so(const struct client *client)
{
	const char *name = certificate_name(client);

	return name && strcmp(name, client->login->user) == 0;
}

static void choose_method(struct client *client)
{
	const struct config *config = login_config(client);
	enum auth_method type = config->auth_type;
	struct authentication_way way;

	if (type == AUTH_METHOD_HBA) {
		switch (hba_check_decide(client, &way)) {
		case HBA_CHECK_FOUND:
			break;
		case HBA_CHECK_LOOKING:
			wait_for_lookup(client);
			return;
		case HBA_CHECK_OVER:
			return;
		}
	} else {
		way = (struct authentication_way){
			.method = type,
			.is_proven = auth_methods[type].voucher == AUTH_BY_CERTIFICATE &&
			             is_named_so(client),
			.options = auth_methods_options(type, config),
		};
	}
	ask_for(client, &way);
}

void authentication_begin(struct client *client)
{
	struct clients *clients = client->clients;
	bool is_console_owner = admit_is_console(client) && admit_is_owner(client);

	if (!check_names(client) || !throttle_admits(client))
		return;
	/*
	 * The error comes before authentication and with this SQLSTATE: so libpq tries its next
	 * host, and pg_isready reports that the server rejects connections.
	 */
	if (clients->drain.is_on && !admit_is_console(client)) {
		client_refuse_for(client, CLOSE_DRAINING);
		return;
	}
	if (clients->config->log_connections)
		log_attempt(client);
	client->login->on_looked_up = on_looked_up;
	client_enter(client, CLIENT_AUTHENTICATION);
	if (is_console_owner) {
		if (admit_count(client))
			console_begin(client);
		return;
	}
	welcome_negotiate(client);
	if (!client_is_over(client))
		choose_method(client);
}

static bool is_answer(const struct frame *frame)
{
	return frame->type == 'p' || frame->type == 'X';
}

static void refuse_type(struct client *client, const struct frame *frame)
{
	client_refuse_with(client, CLOSE_NO_PASSWORD_MESSAGE,
	                   "expected a password message, got type '%c'",
	                   frame->type >= ' ' && frame->type < 127 ? frame->type : '?');
}

/* Handles one message of a client that authenticates. */
static void take_message(struct client *client, const struct frame *frame, struct bytes body)
{
	struct buf out = { 0 };
	enum auth_server_result result;
	struct err err;

	if (frame->type == 'X') {
		client_close(client, client_is_nobody(client) ? CLOSE_LEFT_UNAUTHENTICATED
		                                              : CLOSE_CLIENT_QUIT);
		return;
	}
	client->login->has_answered = true;
	result = auth_server_answer(client->login->auth, body, &out, &err);
	secret_wipe((char *)body.at, body.count); /* the password is in a buffer of the stream */
	act_on(client, result, &out, &err);
	buf_wipe(&out);
}

bool authentication_input(struct client *client, struct bytes in)
{
	while (in.count && client->state == CLIENT_AUTHENTICATION) {
		struct frame frame;
		enum wire_result result = frame_peek(in, PROOF_MESSAGE_MAX, &frame);

		if (result == WIRE_BAD)
			return client_refuse_for(client, CLOSE_BAD_HEADER);
		/*
		 * Another message is refused by its type, without waiting for its end: its length
		 * may be garbage.
		 */
		if (result == WIRE_MORE || (is_answer(&frame) && in.count < frame.length))
			break;
		if (!is_answer(&frame)) {
			refuse_type(client, &frame);
			return false;
		}
		take_message(client, &frame, frame_body(in, &frame));
		in = bytes_skip(in, frame.length);
	}
	if (client_is_over(client))
		return false;
	if (!stream_keep(&client->stream, in))
		return client_close(client, CLOSE_MEMORY);
	if (client->state == CLIENT_AUTHENTICATION)
		return true;
	client_judge_kept(client);
	return client->stream.want == WANT_INPUT && !client_is_over(client);
}

/* ---- a login's memory ---- */

#define UNKNOWN_MAX ((size_t)64 * 1024) /* bytes of the names of unknown protocol options */

struct client_login *login_new(void)
{
	struct client_login *login = calloc(1, sizeof(*login));

	if (login)
		login->unknown.limit = UNKNOWN_MAX;
	return login;
}

void login_free(struct client *client)
{
	struct client_login *login = client->login;

	throttle_drop(client);
	client->login = NULL;
	auth_server_free(&login->auth);
	hba_check_free(login);
	secret_free(&login->outside);
	auth_query_free(login);
	buf_free(&login->unknown);
	buf_free(&login->parameters);
	free(login->database);
	free(login->user);
	free(login->certificate_name);
	free(login->options);
	free(login);
}
