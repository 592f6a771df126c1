/* SPDX-License-Identifier: ISC */
/*
 * LDAP: a server checks a password. Only this file talks to libldap.
 *
 *   connect --> (StartTLS) --> bind as the user's entry                         simple bind
 *   connect --> (StartTLS) --> (bind) --> search --> bind as the entry found    search and bind
 *
 * Hard here: a helper thread waits, so each step has a time limit, and so have all steps
 * together. The next server is tried only if one could not be reached or was busy: the answer
 * of a server about a password is final.
 */
#include "outside_priv.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#if PGWEIR_LDAP
#include <ldap.h>
#endif

#if PGWEIR_LDAP

#define CONNECT_LIMIT (3 * USEC_PER_SEC)
#define ANSWER_LIMIT (10 * USEC_PER_SEC)
#define BELOW_TLS (LBER_SBIOD_LEVEL_PROVIDER + 5) /* TLS is at LBER_SBIOD_LEVEL_TRANSPORT */
/* entries to search for: two are already too many */
#define FIND_MAX 2

struct session {
	struct ldap_conncb callback; /* must be first */
	int fd;
	usec_t due; /* when the current step must have ended */
	LDAP *ldap;
	const struct ldap_options *options;
	struct outside_question *question;
	bool is_unreachable; /* another server may be tried */
};

/* ---- limits ---- */

static struct timeval limit_of(const struct outside_question *question, usec_t most)
{
	usec_t left = question->deadline ? question->deadline - clock_now() : most;

	if (left > most)
		left = most;
	if (left < USEC_PER_MS)
		left = USEC_PER_MS;
	return (struct timeval){ .tv_sec = left / USEC_PER_SEC, .tv_usec = left % USEC_PER_SEC };
}

static bool is_late(const struct outside_question *question)
{
	return question->deadline && clock_now() >= question->deadline;
}

static void set_limits(struct session *session)
{
	struct timeval connecting = limit_of(session->question, CONNECT_LIMIT);
	struct timeval answering = limit_of(session->question, ANSWER_LIMIT);

	session->due = clock_now() + answering.tv_sec * USEC_PER_SEC + answering.tv_usec;
	ldap_set_option(session->ldap, LDAP_OPT_NETWORK_TIMEOUT, &connecting);
	ldap_set_option(session->ldap, LDAP_OPT_TIMEOUT, &answering);
}

/* ---- a layer below TLS ---- */

/*
 * libldap has no time limit for a TLS handshake: a server that accepts a connection and then sends
 * nothing would block a helper thread forever.
 *
 * libldap reads and writes through a stack of layers, ordered by level: the socket (PROVIDER) is
 * the lowest, TLS (TRANSPORT) is above it. on_connect() puts this layer between them when a
 * connection has been made, which is before TLS is added. It waits with poll() before each read
 * and write, until session->due at most. After that it fails with ETIMEDOUT; then the handshake
 * fails, and so does the step.
 *
 * poll() only says that a part of the bytes can be written. So writing calls send() itself, with
 * MSG_DONTWAIT, because the socket may be a blocking one.
 */

/* false: the step's time is over (errno is ETIMEDOUT). */
static bool wait_for(const Sockbuf_IO_Desc *layer, short what)
{
	const struct session *session = layer->sbiod_pvt;
	struct pollfd wanted = { .fd = session->fd, .events = what };
	usec_t left = session->due - clock_now();

	if (left > 0 && poll(&wanted, 1, (int)(left / USEC_PER_MS) + 1) > 0)
		return true;
	errno = ETIMEDOUT;
	return false;
}

static ber_slen_t layer_read(Sockbuf_IO_Desc *layer, void *at, ber_len_t count)
{
	return wait_for(layer, POLLIN) ? LBER_SBIOD_READ_NEXT(layer, at, count) : -1;
}

static ber_slen_t layer_write(Sockbuf_IO_Desc *layer, void *at, ber_len_t count)
{
	const struct session *session = layer->sbiod_pvt;

	return wait_for(layer, POLLOUT) ? send(session->fd, at, count, MSG_DONTWAIT | MSG_NOSIGNAL)
	                                : -1;
}

static int layer_setup(Sockbuf_IO_Desc *layer, void *arg)
{
	layer->sbiod_pvt = arg;
	return 0;
}

static int layer_done(Sockbuf_IO_Desc *layer)
{
	(void)layer;
	return 0;
}

static int layer_control(Sockbuf_IO_Desc *layer, int what, void *arg)
{
	return LBER_SBIOD_CTRL_NEXT(layer, what, arg);
}

static int on_connect(LDAP *ldap, Sockbuf *sockbuf, LDAPURLDesc *server, struct sockaddr *address,
                      struct ldap_conncb *callback)
{
	static Sockbuf_IO layer = { layer_setup, layer_done,  layer_control,
		                    layer_read,  layer_write, layer_done };
	struct session *session = (struct session *)callback;

	_Static_assert(offsetof(struct session, callback) == 0, "on_connect() counts on it");
	(void)ldap;
	(void)server;
	(void)address;
	ber_sockbuf_ctrl(sockbuf, LBER_SB_OPT_GET_FD, &session->fd);
	return ber_sockbuf_add_io(sockbuf, &layer, BELOW_TLS, session);
}

static void on_disconnect(LDAP *ldap, Sockbuf *sockbuf, struct ldap_conncb *callback)
{
	(void)ldap;
	(void)sockbuf;
	(void)callback;
}

/* ---- steps ---- */

static enum outside_answer ldap_fail(struct session *session, const char *step, int result)
{
	switch (result) {
	case LDAP_SERVER_DOWN:
	case LDAP_CONNECT_ERROR:
	case LDAP_TIMEOUT:
	case LDAP_BUSY:
	case LDAP_UNAVAILABLE:
		session->is_unreachable = true;
	}
	return outside_reply(session->question, OUTSIDE_FAILED, "LDAP, %s: %s", step,
	                     ldap_err2string(result));
}

static int bind_as(struct session *session, const char *dn, const char *password)
{
	struct berval secret = { .bv_len = strlen(password), .bv_val = (char *)password };

	set_limits(session);
	return ldap_sasl_bind_s(session->ldap, dn, LDAP_SASL_SIMPLE, &secret, NULL, NULL, NULL);
}

/* A bind with an empty name or password is anonymous and always succeeds, so refuse them here. */
static enum outside_answer bind_user(struct session *session, const char *dn)
{
	const char *password = session->question->password;
	int result;

	if (!*dn || !*password)
		return outside_reply(session->question, OUTSIDE_NO, "LDAP: an empty %s",
		                     *dn ? "password" : "entry");
	result = bind_as(session, dn, password);
	if (result == LDAP_SUCCESS)
		return OUTSIDE_YES;
	/* A positive result is the server's, a negative one the library's. */
	ldap_fail(session, "bind as the user", result);
	return session->is_unreachable || result < 0 ? OUTSIDE_FAILED : OUTSIDE_NO;
}

/* Gets the name of the entry found. There must be exactly one. */
static enum outside_answer take_entry(struct session *session, LDAPMessage *found, int result,
                                      char **dn)
{
	int count = found ? ldap_count_entries(session->ldap, found) : 0;

	if (result == LDAP_SIZELIMIT_EXCEEDED || (result == LDAP_SUCCESS && count > 1))
		return outside_reply(session->question, OUTSIDE_NO,
		                     "LDAP: more than one entry is this user's");
	if (result == LDAP_SUCCESS && count == 1)
		*dn = ldap_get_dn(session->ldap, ldap_first_entry(session->ldap, found));
	if (*dn)
		return OUTSIDE_YES;
	if (result == LDAP_SUCCESS && count == 0)
		return outside_reply(session->question, OUTSIDE_NO,
		                     "LDAP: no entry is this user's");
	return ldap_fail(session, "search", result);
}

static enum outside_answer find_user(struct session *session, char **dn)
{
	const struct ldap_options *options = session->options;
	char *no_attributes[] = { (char *)LDAP_NO_ATTRS, NULL };
	struct timeval limit = limit_of(session->question, ANSWER_LIMIT);
	struct buf filter = { 0 };
	LDAPMessage *found = NULL;
	enum outside_answer answer;
	int result = LDAP_SUCCESS;

	if (options->bind_dn)
		result = bind_as(session, options->bind_dn, options->bind_password);
	if (result != LDAP_SUCCESS)
		return ldap_fail(session, "bind as ldapbinddn", result);
	ldap_options_filter(options, session->question->user, &filter);
	set_limits(session);
	result = buf_ok(&filter)
	             ? ldap_search_ext_s(session->ldap, options->base_dn, (int)options->scope,
	                                 buf_text(&filter), no_attributes, 0, NULL, NULL, &limit,
	                                 FIND_MAX, &found)
	             : LDAP_NO_MEMORY;
	answer = take_entry(session, found, result, dn);
	ldap_msgfree(found);
	buf_free(&filter);
	return answer;
}

static enum outside_answer judge_found(struct session *session)
{
	char *dn = NULL;
	enum outside_answer answer = find_user(session, &dn);

	if (answer == OUTSIDE_YES)
		answer = bind_user(session, dn);
	ldap_memfree(dn);
	return answer;
}

static enum outside_answer judge_named(struct session *session)
{
	struct buf dn = { 0 };
	enum outside_answer answer;

	ldap_options_dn(session->options, session->question->user, &dn);
	answer = buf_ok(&dn) ? bind_user(session, buf_text(&dn))
	                     : ldap_fail(session, "bind as the user", LDAP_NO_MEMORY);
	buf_free(&dn);
	return answer;
}

/* ---- servers ---- */

/* Prepares a session. The connection is made later, by the first step. */
static int prepare(struct session *session, const char *host, size_t count)
{
	const struct ldap_options *options = session->options;
	int version = LDAP_VERSION3, port = options->is_ldaps ? LDAPS_PORT : LDAP_PORT;
	const char *is_v6 = memchr(host, ':', count);
	struct buf uri = { 0 };
	int result;

	buf_printf(&uri, "%s://%s%.*s%s:%d", options->is_ldaps ? "ldaps" : "ldap", is_v6 ? "[" : "",
	           (int)count, host, is_v6 ? "]" : "", options->port ? options->port : port);
	result = ldap_initialize(&session->ldap, buf_text(&uri));
	buf_free(&uri);
	if (result != LDAP_SUCCESS)
		return result;
	result = ldap_set_option(session->ldap, LDAP_OPT_PROTOCOL_VERSION, &version);
	/* Not to be followed: the password must not go to servers that nobody named. */
	if (result == LDAP_OPT_SUCCESS)
		result = ldap_set_option(session->ldap, LDAP_OPT_REFERRALS, LDAP_OPT_OFF);
	session->callback = (struct ldap_conncb){ .lc_add = on_connect, .lc_del = on_disconnect };
	if (result == LDAP_OPT_SUCCESS)
		result = ldap_set_option(session->ldap, LDAP_OPT_CONNECT_CB, &session->callback);
	set_limits(session);
	return result;
}

static enum outside_answer ask_server(struct session *session, const char *host, size_t count)
{
	enum outside_answer answer;
	int result = prepare(session, host, count);

	if (result != LDAP_SUCCESS)
		answer = ldap_fail(session, "begin", result);
	else if (session->options->has_start_tls &&
	         (result = ldap_start_tls_s(session->ldap, NULL, NULL)) != LDAP_SUCCESS)
		answer = ldap_fail(session, "StartTLS", result);
	else
		answer = session->options->base_dn ? judge_found(session) : judge_named(session);
	if (session->ldap)
		ldap_unbind_ext_s(session->ldap, NULL, NULL);
	return answer;
}

static enum outside_answer ask_servers(const struct ldap_options *options,
                                       struct outside_question *question)
{
	static const char blanks[] = " \t\r\n";
	enum outside_answer answer = OUTSIDE_FAILED;
	const char *at = options->servers;

	while (*(at += strspn(at, blanks))) {
		struct session session = { .options = options, .question = question };
		size_t count = strcspn(at, blanks);

		answer = ask_server(&session, at, count);
		if (!session.is_unreachable || is_late(question))
			break;
		at += count;
	}
	return answer;
}

enum outside_answer ldap_judge(struct outside_question *question)
{
	struct ldap_options options;
	struct err err;
	enum outside_answer answer = ldap_options_parse(question->options, &options, &err)
	                                 ? ask_servers(&options, question)
	                                 : outside_reply(question, OUTSIDE_FAILED, "%s", err.text);

	ldap_options_done(&options);
	return answer;
}

/*
 * libldap initializes itself and its lock for TLS at first use, without a lock: so here, before
 * there are threads. The context is not kept.
 */
void ldap_prepare(void)
{
	const int is_server = 0;
	LDAP *ldap = NULL;

	if (ldap_initialize(&ldap, NULL) != LDAP_SUCCESS)
		return; /* out of memory: a login then tries again */
	ldap_set_option(ldap, LDAP_OPT_X_TLS_CACERTFILE, NULL);
	ldap_set_option(ldap, LDAP_OPT_X_TLS_CACERTDIR, NULL);
	ldap_set_option(ldap, LDAP_OPT_X_TLS_NEWCTX, &is_server);
	ldap_unbind_ext_s(ldap, NULL, NULL);
}

#else

void ldap_prepare(void) {}

enum outside_answer ldap_judge(struct outside_question *question)
{
	return outside_reply(question, OUTSIDE_FAILED, "built without LDAP");
}

#endif
