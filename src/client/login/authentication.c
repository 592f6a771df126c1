/* SPDX-License-Identifier: ISC */
/*
 * Authenticates a client, by the method of its rule or of auth_type.
 *
 * Hard here: a client must not find out which users and databases exist. A user that does
 * not exist goes through the whole exchange, and so does a client that asks for a database
 * that does not exist. They are refused afterwards.
 */
#include "pgweir/auth/digest.h"

#include <stdlib.h>

#include "pgweir/auth/hba.h"
#include "pgweir/base/container_of.h"
#include "pgweir/base/lock.h"
#include "pgweir/net/resolver.h"

#include "login_priv.h"

/*
 * ---- how a client must authenticate ----
 *
 * With auth_type hba, the rule of the client determines it.
 *
 *   find the rule --> how to authenticate
 *     ^       |
 *     |       +--> look up the name of the host --+
 *     +-------------------------------------------+
 *
 * Hard here: lookups of names take time, and a reload may change the rules in that time. So
 * no rule is kept: after a lookup, the search begins again with the first rule in force.
 */

enum way_verdict {
	WAY_FOUND,
	WAY_NEEDS_HOST, /* a lookup first, and then find the way again */
	WAY_REJECTED,   /* by the rule, or because it has a flaw */
	WAY_LACKS_CERTIFICATE,
	WAY_LACKS_RULE
};

struct way {
	const struct hba_rule *rule; /* NULL: auth_type itself is the method */
	enum auth_method method;
	bool is_proven;      /* the client's certificate confirms the user */
	const char *options; /* options of a method that is outside (auth_methods.h); else NULL */
};

static struct hba_facts facts_of(const struct client *client)
{
	const struct client_login *login = client->login;

	return (struct hba_facts){
		.peer = &client->peer,
		.database = login->database,
		.user = login->user,
		.is_tls = stream_is_encrypted(&client->stream),
		.is_physical = client->replication == REPLICATION_PHYSICAL,
		.is_host_known = login->hba_check.is_host_known,
		.host = login->hba_check.host,
	};
}

/*
 * Whether `name`, from the certificate or of the system user, is the client's user, or is mapped to
 * it: auth_type itself (rule NULL) has no maps.
 */
static bool is_named(const struct client *client, const struct hba_rule *rule, const char *name)
{
	const char *user = client->login->user;

	return name && (rule ? hba_rule_admits(login_rules(client)->hba, rule, name, user)
	                     : strcmp(name, user) == 0);
}

static bool has_certificate(const struct client *client, const struct hba_rule *rule)
{
	switch (rule->client_cert) {
	case HBA_CERT_ANY:
		return true;
	case HBA_CERT_VALID:
		return client->login->shown.has_certificate;
	case HBA_CERT_NAMED:
		return is_named(client, rule, client->login->shown.certificate_name);
	}
	return false;
}

/* *rule: the one that applies; NULL: there is none, or it is not known. */
static enum way_verdict find_rule(const struct client *client, const struct hba_rule **rule)
{
	const struct hba_facts facts = facts_of(client);

	switch (hba_find(login_rules(client)->hba, &facts, rule)) {
	case HBA_NEEDS_HOST:
		return WAY_NEEDS_HOST;
	case HBA_NO_RULE:
		return WAY_LACKS_RULE;
	case HBA_RULE:
		break;
	}
	if ((*rule)->method == AUTH_METHOD_REJECT || (*rule)->flaw.count)
		return WAY_REJECTED;
	return has_certificate(client, *rule) ? WAY_FOUND : WAY_LACKS_CERTIFICATE;
}

/* Decides by what is known now; does nothing. */
static enum way_verdict find_way(const struct client *client, struct way *way)
{
	const struct config *config = login_config(client);
	enum way_verdict verdict = WAY_FOUND;

	*way = (struct way){ .method = config->auth_type };
	if (way->method == AUTH_METHOD_HBA)
		verdict = find_rule(client, &way->rule);
	if (way->rule)
		way->method = way->rule->method;
	way->is_proven = auth_methods[way->method].voucher == AUTH_BY_CERTIFICATE &&
	                 is_named(client, way->rule, client->login->shown.certificate_name);
	way->options = way->rule && way->rule->options.count
	                   ? way->rule->options.at
	                   : auth_methods_options(way->method, config);
	return verdict;
}

/* ---- names that take time ---- */

static void on_host(struct reverse *reverse, const char *host)
{
	struct client_login *login = container_of(reverse, struct client_login, hba_check.reverse);

	login->hba_check.is_host_known = true;
	login->hba_check.host = host ? strdup(host) : NULL;
	authentication_go_on(login->client);
}

/* At the end of the lookup authentication_go_on() is called. */
static void look_host_up(struct client *client)
{
	struct err err;

	if (reverse_start(client->clients->pools->shared.resolver,
	                  &client->login->hba_check.reverse, &client->peer, on_host, &err))
		client_enter(client, CLIENT_LOOKING);
	else
		client_fatal(client, &err);
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

/*
 * ---- throttle ----
 *
 * The error of a failed login is delayed (auth_failure_delay). While the maximum number of failures
 * of one address is delayed, further logins from that address are refused without a check of the
 * password (auth_failure_limit).
 *
 * Hard here: parallel guesses. A password is checked only if its failure could still be
 * delayed; otherwise a client could see at once that a guess was right. The number of
 * delayed logins is bounded. Beyond the bound the oldest one is answered early, and the log
 * reports it. So a flood from many networks shortens the delay. Refusing to check any
 * password at the bound would prevent that, but would also lock out legitimate users.
 *
 * The failures are counted for all loops, under a lock. Each loop delays its own clients.
 */

#define DELAYED_MAX 256

/* Whether so many failures of the client's address are counted. */
static bool is_over(const struct client *client, int limit)
{
	struct logins *logins = client->clients->shared->logins;

	LOCKED(&logins->lock);
	return failures_reach(&logins->failures, &client->peer, limit);
}

static bool throttle_admits(struct client *client)
{
	int limit = client->clients->config->auth_failure_limit;

	if (limit <= 0 || !is_over(client, limit))
		return true;
	limit_event_note(&client->clients->shared->told.failures_met, client_now(client),
	                 client->clients->pools->shared.log,
	                 &(struct limit_event){ .limit = "auth_failure_limit",
	                                        .value = limit,
	                                        .counted = "failed logins of one address" });
	return client_refuse(client, ERR_LIMIT,
	                     "too many failed logins from this address, try again later");
}

static void throttle_drop(struct client *client)
{
	struct client_login *login = client->login;
	struct delayed_logins *all = &client->clients->delayed;
	struct logins *logins = client->clients->shared->logins;

	if (!login->delayed)
		return;
	free(login->delayed);
	login->delayed = NULL;
	TAILQ_REMOVE(&all->list, login, delayed_node);
	/* this one is still counted */
	if (client->clients->state_counts[CLIENT_DELAYED] <= DELAYED_MAX / 2 + 1)
		all->is_cut = false;
	LOCKED(&logins->lock);
	failures_forget(&logins->failures, login->failure);
}

static void on_delay_due(struct timer *timer)
{
	struct client *client = container_of(timer, struct client, timer);

	client_fatal(client, client->login->delayed);
}

/* Waits for the delay, but not beyond client_login_timeout. */
static void set_timer(struct client *client, usec_t delay)
{
	usec_t limit = client->clients->config->client_login_timeout, now = client_now(client);

	if (limit && client->connected_at + limit < now + delay)
		client_arm(client, limit, on_delay_due, client->connected_at);
	else
		client_arm(client, delay, on_delay_due, now);
}

static void enlist(struct client *client)
{
	struct clients *clients = client->clients;
	struct delayed_logins *all = &clients->delayed;
	struct logins *logins = clients->shared->logins;
	const struct logger log = { clients->pools->shared.log, NULL };

	if (clients->state_counts[CLIENT_DELAYED] >= DELAYED_MAX) {
		struct client_login *oldest = TAILQ_FIRST(&all->list);

		/* only the first of a series is logged */
		if (!all->is_cut)
			log_warning(
			    &log,
			    "more than %d failed logins wait for auth_failure_delay: the oldest "
			    "are answered early; auth_failure_limit bounds those of one address",
			    DELAYED_MAX);
		all->is_cut = true;
		client_fatal(oldest->client, oldest->delayed);
	}
	TAILQ_INSERT_TAIL(&all->list, client->login, delayed_node);
	LOCKED(&logins->lock);
	client->login->failure = failures_count(&logins->failures, &client->peer);
}

static void throttle_refuse(struct client *client, const struct err *err)
{
	usec_t delay = client->clients->config->auth_failure_delay;
	struct err *delayed = delay > 0 ? malloc(sizeof(*delayed)) : NULL;

	if (!delayed) {
		client_fatal(client, err);
		return;
	}
	*delayed = *err;
	client->login->delayed = delayed;
	enlist(client);
	auth_server_free(&client->login->auth); /* frees secrets early */
	client_release_admission(client);
	client_enter(client, CLIENT_DELAYED);
	set_timer(client, delay);
	if (!stream_want(&client->stream, WANT_END))
		client_close(client, CLOSE_NOT_WATCHED);
}

/* ---- exchange ---- */

static void act_on(struct client *client, enum auth_server_result result, struct buf *out,
                   struct err *err);
static void choose_method(struct client *client);

/* The client left another state (a lookup, a job). Handles the input that came since. */
static void resume(struct client *client)
{
	if (client_is_over(client))
		return;
	if (client->state == CLIENT_AUTHENTICATION)
		stream_want(&client->stream, WANT_INPUT);
	client_judge_kept(client);
}

void authentication_go_on(struct client *client)
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

static bool submit(void *arg, struct job *job, bool is_slow)
{
	const struct client *client = arg;
	const struct clients *clients = client->clients;
	struct workers *own = clients->shared->outside[client->login->method];
	struct err err;

	(void)is_slow;
	return workers_submit(own ? own : clients->shared->workers, clients->loop, job, &err);
}

/* Whether the rule in force lets the system user of this name log in as the client's user. */
static bool is_system_user(void *arg, const char *name)
{
	const struct client *client = arg;
	struct way way;

	return find_way(client, &way) == WAY_FOUND && way.rule && is_named(client, way.rule, name);
}

/* A reload during the exchange may have changed how this client must authenticate. */
static bool is_still_asked(const struct client *client)
{
	const struct client_login *login = client->login;
	struct way way;

	return login->generation == client->clients->generation ||
	       (find_way(client, &way) == WAY_FOUND && way.method == login->method &&
	        strcmp(auth_server_options(login->auth), way.options ? way.options : "") == 0);
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
		client_enter(client, CLIENT_LOOKING);
		return;
	case AUTH_SERVER_BUSY:
		client_refuse(client, CLOSE_TOO_MANY_LOGINS, "too many logins at once, try again");
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
	const struct log_facts facts = { .event = "login_attempt" };
	char tls[TLS_TEXT_SIZE];

	log_event(&client->log, LOG_LEVEL_INFO, &facts,
	          "login attempt: db=%s user=%s tls=%s replication=%s", client->login->database,
	          client->login->user, *tls_text(&client->stream, tls, sizeof(tls)) ? tls : "no",
	          replication[client->replication]);
}

static void ask_for(struct client *client, const struct way *way)
{
	struct clients *clients = client->clients;
	struct client_login *login = client->login;
	struct mock_form like;
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
	if (!auth_methods[way->method].takes_anybody && !auth_methods[way->method].outside) {
		switch (auth_query_find(client, &secret)) {
		case AUTH_QUERY_FOUND:
			is_known = true;
			break;
		case AUTH_QUERY_UNKNOWN:
			login->is_unknown = true; /* logged only after the login has failed */
			break;
		case AUTH_QUERY_RENAMED:
			choose_method(client);
			return;
		case AUTH_QUERY_LOOKING:
			client_enter(client, CLIENT_LOOKING);
			return;
		case AUTH_QUERY_OVER:
			return;
		}
	}
	login->method = way->method;
	login->generation = clients->generation;
	login->auth = auth_server_new(&(struct auth_server_who){
	    .method = way->method,
	    .user = auth_query_claimed(client),
	    .secret = is_known ? &secret : NULL,
	    .users = clients->users,
	    .like = auth_query_likeness(client, &like) ? &like : NULL,
	    .is_proven = way->is_proven,
	    .uid = client->peer.un.uid,
	    .is_named = is_system_user,
	    .options = way->options,
	    .host = is_unix ? "[local]" : address_format_host(&client->peer, host, sizeof(host)),
	    .deadline = client_login_due(client),
	    .iterations = (unsigned int)clients->config->scram_iterations,
	    .binding = bytes_of(binding, binding_count),
	    .verifiers = clients->pools->shared.verifiers,
	    .runner = { submit, on_work, client },
	});
	if (!login->auth) {
		client_refuse_for(client, CLOSE_MEMORY);
		return;
	}
	act_on(client, auth_server_start(login->auth, &out, &err), &out, &err);
	buf_wipe(&out);
}

/*
 * Refuses the client. As in PostgreSQL, the error repeats what the client sent (host, user,
 * database, encryption) and reveals nothing about the rules.
 */
static void refuse_by_rules(struct client *client, enum close_reason reason, const char *words)
{
	char host[ADDRESS_TEXT_SIZE];
	bool is_unix = address_is_unix(&client->peer);
	struct err err;

	err_set(&err, ERR_NOT_ALLOWED, "%s %s \"%s\", user \"%.127s\", database \"%.127s\", %s",
	        words,
	        client->replication == REPLICATION_PHYSICAL ? "replication from host" : "host",
	        is_unix ? "[local]" : address_format_host(&client->peer, host, sizeof(host)),
	        client->login->user, client->login->database,
	        stream_is_encrypted(&client->stream) ? "TLS encryption" : "no encryption");
	err_reason(&err, reason);
	throttle_refuse(client, &err);
}

static void refuse_rejected(struct client *client, const struct hba_rule *rule)
{
	if (rule->method == AUTH_METHOD_REJECT) {
		refuse_by_rules(client, CLOSE_HBA_REJECT, "login rejected: an HBA rule rejects");
		return;
	}
	log_info(&client->log, "login refused by %s:%d: %s", rule->pos.file, rule->pos.line,
	         rule->flaw.at);
	refuse_by_rules(client, CLOSE_HBA_REJECT,
	                "login rejected: an HBA rule that allows no login matches");
}

static void choose_method(struct client *client)
{
	struct way way = { 0 };
	enum way_verdict verdict = find_way(client, &way);

	if (way.rule)
		log_debug(&client->log, "by %s:%d: %s", way.rule->pos.file, way.rule->pos.line,
		          auth_methods[way.method].hba_name);
	switch (verdict) {
	case WAY_FOUND:
		ask_for(client, &way);
		return;
	case WAY_NEEDS_HOST:
		look_host_up(client);
		return;
	case WAY_REJECTED:
		refuse_rejected(client, way.rule);
		return;
	case WAY_LACKS_CERTIFICATE:
		client_refuse_for(client, CLOSE_AUTH_CERTIFICATE);
		return;
	case WAY_LACKS_RULE:
		refuse_by_rules(client, CLOSE_HBA_NO_RULE,
		                "no authentication method is found: no rule for");
	}
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
		if (!is_answer(&frame))
			return client_refuse(client, CLOSE_NO_PASSWORD_MESSAGE,
			                     "expected a password message, got type '%c'",
			                     frame.type >= ' ' && frame.type < 127 ? frame.type
			                                                           : '?');
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

void login_free(struct client *client)
{
	struct client_login *login = client->login;

	throttle_drop(client);
	client->login = NULL;
	auth_server_free(&login->auth);
	reverse_cancel(&login->hba_check.reverse);
	free(login->hba_check.host);
	auth_query_done(&login->auth_query);
	buf_free(&login->unknown);
	buf_free(&login->parameters);
	free(login->database);
	free(login->user);
	free(login->shown.certificate_name);
	free(login->options);
	free(login);
}
