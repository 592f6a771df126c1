/* SPDX-License-Identifier: ISC */
/*
 * LDAP: its options, and a server that checks a password. Only this file uses libldap.
 *
 *   connect --> (StartTLS) --> bind as the user's entry                         simple bind
 *   connect --> (StartTLS) --> (bind) --> search --> bind as the entry found    search and bind
 *
 * Hard here: a helper thread waits, so each step has a time limit, and so have all steps
 * together. The next server is tried only if one could not be reached or was busy: the answer
 * of a server about a password is final.
 *
 * The user's name comes from an unauthenticated client and becomes a part of a DN or a filter,
 * where none of its characters may have a special meaning. And one option is a password, so an
 * error text must not repeat a word of an invalid text.
 */
#include "pgweir/auth/auth_methods.h"

#include <ctype.h>
#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#if PGWEIR_LDAP
#include <ldap.h>
#endif

#include "pgweir/auth/digest.h"
#include "pgweir/base/text.h"

#include "hba_priv.h"

#define USERNAME "$username"
#define BLANKS " \t\r\n"

/* ---- words ---- */

void ldap_options_add(struct buf *text, const char *option)
{
	buf_add_text(text, text->count ? " \"" : "\"");
	for (; *option; option++) {
		if (*option == '"')
			buf_add_byte(text, '"');
		buf_add_byte(text, *option);
	}
	buf_add_byte(text, '"');
}

/* ---- values ---- */

static bool put(char **slot, const char *value, struct err *err)
{
	char *copy = strdup(value);

	if (!copy)
		return err_set(err, ERR_MEMORY, "no memory");
	secret_free(slot);
	*slot = copy;
	return true;
}

static bool put_port(struct ldap_options *options, const char *value, struct err *err)
{
	int64_t port;

	if (!text_to_i64(value, &port) || port < 1 || port > 65535)
		return err_set(err, ERR_CONFIG, "the LDAP port must be from 1 to 65535");
	options->port = (int)port;
	return true;
}

static bool put_scheme(struct ldap_options *options, const char *value, struct err *err)
{
	options->is_ldaps = strcmp(value, "ldaps") == 0;
	return options->is_ldaps || strcmp(value, "ldap") == 0 ||
	       err_set(err, ERR_CONFIG, "ldapscheme must be ldap or ldaps");
}

static bool put_tls(struct ldap_options *options, const char *value, struct err *err)
{
	options->has_start_tls = strcmp(value, "1") == 0;
	return options->has_start_tls || strcmp(value, "0") == 0 ||
	       err_set(err, ERR_CONFIG, "ldaptls must be 0 or 1");
}

#define AT(field) offsetof(struct ldap_options, field)

static const struct key {
	const char *name;
	size_t at; /* of its text, unless: */
	bool (*put)(struct ldap_options *options, const char *value, struct err *err);
} keys[] = {
	{ "ldapserver", AT(servers), NULL },
	{ "ldapport", 0, put_port },
	{ "ldapscheme", 0, put_scheme },
	{ "ldaptls", 0, put_tls },
	{ "ldapprefix", AT(prefix), NULL },
	{ "ldapsuffix", AT(suffix), NULL },
	{ "ldapbasedn", AT(base_dn), NULL },
	{ "ldapbinddn", AT(bind_dn), NULL },
	{ "ldapbindpasswd", AT(bind_password), NULL },
	{ "ldapsearchattribute", AT(search_attribute), NULL },
	{ "ldapsearchfilter", AT(search_filter), NULL },
	{ "ldapurl", 0, ldap_options_url },
};

static char **text_at(struct ldap_options *options, const struct key *key)
{
	return (char **)((char *)options + key->at);
}

/* Splits `word` at its '='. An unknown word may be a part of a password: do not show it. */
static bool put_word(struct ldap_options *options, char *word, int number, struct err *err)
{
	char *equals = strchr(word, '=');

	if (!equals)
		return err_set(err, ERR_CONFIG,
		               "LDAP option %d contains no =: a value with blanks must be quoted",
		               number);
	*equals = 0;
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		if (strcmp(keys[i].name, word) == 0)
			return keys[i].put ? keys[i].put(options, equals + 1, err)
			                   : put(text_at(options, &keys[i]), equals + 1, err);
	}
	if (strncmp(word, "ldap", 4) == 0 && strlen(word) < 64)
		return err_set(err, ERR_CONFIG, "unknown LDAP option %s", word);
	return err_set(err, ERR_CONFIG, "LDAP option %d is unknown", number);
}

/* ---- all options together ---- */

static bool check_servers(const char *servers, struct err *err)
{
	static const char good[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				   "0123456789.-_:" BLANKS;

	if (!servers || !servers[strspn(servers, BLANKS)])
		return err_set(err, ERR_CONFIG, "LDAP needs ldapserver or ldapurl");
	/* exactly one colon: a name and a port */
	for (const char *at = servers; *(at += strspn(at, BLANKS)); at += strcspn(at, BLANKS)) {
		const char *colon = memchr(at, ':', strcspn(at, BLANKS));

		if (colon && !memchr(colon + 1, ':', strcspn(colon + 1, BLANKS)))
			return err_set(err, ERR_CONFIG,
			               "ldapserver must not contain a port: use ldapport");
	}
	return !servers[strspn(servers, good)] ||
	       err_set(err, ERR_CONFIG,
	               "ldapserver must be a list of names and addresses, separated by blanks");
}

static bool contradict(struct ldap_options *options, struct err *err, const char *words)
{
	options->is_contradictory = true;
	return err_set(err, ERR_CONFIG, "%s", words);
}

static bool check_search(struct ldap_options *options, struct err *err)
{
	if (options->search_filter && !strstr(options->search_filter, USERNAME))
		return err_set(err, ERR_CONFIG,
		               "ldapsearchfilter does not contain " USERNAME
		               ", so it would find the same entry for every user");
	if (!options->bind_dn != !options->bind_password ||
	    (options->bind_dn && (!*options->bind_dn || !*options->bind_password)))
		return err_set(err, ERR_CONFIG,
		               "ldapbinddn and ldapbindpasswd must both be set and not be empty");
	if (options->search_attribute && options->search_filter)
		return contradict(options, err,
		                  "ldapsearchattribute and ldapsearchfilter exclude each other");
	return true;
}

static bool check(struct ldap_options *options, struct err *err)
{
	bool is_simple = options->prefix || options->suffix;
	bool is_search = options->base_dn || options->bind_dn || options->bind_password ||
	                 options->search_attribute || options->search_filter;

	if (!check_servers(options->servers, err))
		return false;
	if (!is_simple && !is_search)
		return err_set(err, ERR_CONFIG, "LDAP needs ldapprefix, ldapsuffix or ldapbasedn");
	if (is_simple && is_search)
		return contradict(
		    options, err,
		    "ldapprefix and ldapsuffix cannot be combined with search options");
	if (is_search && !options->base_dn)
		return err_set(err, ERR_CONFIG, "a search needs ldapbasedn");
	if (is_search && !check_search(options, err))
		return false;
	if (options->is_ldaps && options->has_start_tls)
		return contradict(options, err, "ldaps has TLS: it cannot have ldaptls=1 too");
	return true;
}

bool ldap_options_parse(const char *text, struct ldap_options *options, struct err *err)
{
	struct buf word = { 0 };
	bool is_good = true, is_quoted;

	*options = (struct ldap_options){ .scope = LDAP_SUBTREE };
	if (strlen(text) > LDAP_OPTIONS_MAX)
		return err_set(err, ERR_CONFIG, "the LDAP options are longer than %d bytes",
		               LDAP_OPTIONS_MAX);
	for (int i = 1; is_good && *(text += strspn(text, BLANKS)); i++) {
		bool is_whole;

		buf_clear(&word);
		is_whole = rulefile_word(&text, BLANKS, &word, &is_quoted);
		/* adds a terminating zero; also allocates the text of an empty word */
		buf_text(&word);
		if (!is_whole || !buf_ok(&word))
			is_good =
			    err_set(err, ERR_CONFIG, "unterminated quote in LDAP option %d", i);
		else if (word.count == 0)
			is_good = err_set(err, ERR_CONFIG, "LDAP option %d is empty", i);
		else
			is_good = put_word(options, word.at, i, err);
	}
	buf_wipe(&word);
	return is_good && check(options, err);
}

void ldap_options_done(struct ldap_options *options)
{
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		if (!keys[i].put)
			secret_free(text_at(options, &keys[i]));
	}
}

/* ---- names ---- */

static void add_hex(struct buf *out, char byte)
{
	char hex[3];

	text_hex(hex, &byte, 1);
	buf_add_byte(out, '\\');
	buf_add_text(out, hex);
}

/* RFC 4514: adds a value within a DN. */
static void add_value(struct buf *out, const char *text)
{
	for (const char *at = text; *at; at++) {
		bool is_edge = at == text || !at[1];

		if (strchr("\"+,;<>\\=", *at) || (at == text && *at == '#') ||
		    (is_edge && *at == ' '))
			buf_add_byte(out, '\\');
		if ((unsigned char)*at < ' ' || *at == 127)
			add_hex(out, *at);
		else
			buf_add_byte(out, *at);
	}
}

/* RFC 4515: adds a value within a filter. */
static void add_assertion(struct buf *out, const char *text)
{
	for (; *text; text++) {
		if (strchr("*()\\", *text) || (unsigned char)*text < ' ' || *text == 127)
			add_hex(out, *text);
		else
			buf_add_byte(out, *text);
	}
}

void ldap_options_dn(const struct ldap_options *options, const char *user, struct buf *out)
{
	if (options->prefix)
		buf_add_text(out, options->prefix);
	add_value(out, user);
	if (options->suffix)
		buf_add_text(out, options->suffix);
}

void ldap_options_filter(const struct ldap_options *options, const char *user, struct buf *out)
{
	const char *at = options->search_filter, *hit;

	if (!at) {
		buf_add_byte(out, '(');
		buf_add_text(out, options->search_attribute ? options->search_attribute : "uid");
		buf_add_byte(out, '=');
		add_assertion(out, user);
		buf_add_byte(out, ')');
		return;
	}
	for (; (hit = strstr(at, USERNAME)); at = hit + strlen(USERNAME)) {
		buf_add(out, at, (size_t)(hit - at));
		add_assertion(out, user);
	}
	buf_add_text(out, at);
}

#if PGWEIR_LDAP

/* ---- URLs ---- */

/* libldap decodes %41 and the like, but overlooks what is malformed. */
static bool has_bad_byte(const char *url)
{
	while ((url = strchr(url, '%'))) {
		if (!isxdigit((unsigned char)url[1]) || !isxdigit((unsigned char)url[2]) ||
		    strncmp(url, "%00", 3) == 0)
			return true;
		url += 3;
	}
	return false;
}

/* Why these parts cannot be used; NULL: they can. */
static const char *problem_of(const LDAPURLDesc *parts)
{
	if (strcmp(parts->lud_scheme, "ldap") != 0 && strcmp(parts->lud_scheme, "ldaps") != 0)
		return "it must begin with ldap:// or ldaps://";
	if (!parts->lud_host || !*parts->lud_host)
		return "the host is missing";
	if (parts->lud_port < 1 || parts->lud_port > 65535)
		return "the port must be from 1 to 65535";
	if (parts->lud_attrs && parts->lud_attrs[0] && parts->lud_attrs[1])
		return "there is more than one attribute in it";
	if (parts->lud_scope < LDAP_SCOPE_BASE || parts->lud_scope > LDAP_SCOPE_SUBTREE)
		return "the scope must be base, one or sub";
	return parts->lud_exts ? "extensions are not supported" : NULL;
}

static bool put_part(char **slot, const char *part, struct err *err)
{
	return !part || !*part || put(slot, part, err);
}

bool ldap_options_url(struct ldap_options *options, const char *url, struct err *err)
{
	LDAPURLDesc *parts = NULL;
	bool is_url = !has_bad_byte(url) && ldap_url_parse(url, &parts) == LDAP_URL_SUCCESS;
	const char *problem = is_url ? problem_of(parts) : "it is not a valid LDAP URL";
	bool is_good;

	_Static_assert((int)LDAP_ONE_LEVEL == LDAP_SCOPE_ONELEVEL &&
	                   (int)LDAP_SUBTREE == LDAP_SCOPE_SUBTREE,
	               "scopes are libldap's");
	if (problem) {
		ldap_free_urldesc(parts);
		return err_set(err, ERR_CONFIG, "ldapurl: %s", problem);
	}
	options->is_ldaps = strcmp(parts->lud_scheme, "ldaps") == 0;
	options->port = parts->lud_port == (options->is_ldaps ? LDAPS_PORT : LDAP_PORT)
	                    ? 0 /* perhaps by default: a later ldapscheme counts */
	                    : parts->lud_port;
	options->scope = (enum ldap_scope)parts->lud_scope;
	is_good = put_part(&options->servers, parts->lud_host, err) &&
	          put_part(&options->base_dn, parts->lud_dn, err) &&
	          put_part(&options->search_attribute,
	                   parts->lud_attrs ? parts->lud_attrs[0] : NULL, err) &&
	          put_part(&options->search_filter, parts->lud_filter, err);
	ldap_free_urldesc(parts);
	return is_good;
}

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
	return auth_outside_reply(session->question, OUTSIDE_FAILED, "LDAP, %s: %s", step,
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
		return auth_outside_reply(session->question, OUTSIDE_NO, "LDAP: an empty %s",
		                          *dn ? "password" : "entry");
	result = bind_as(session, dn, password);
	if (result == LDAP_SUCCESS)
		return OUTSIDE_YES;
	/* A positive result is the server's, a negative one the library's. */
	ldap_fail(session, "bind as the user", result);
	return session->is_unreachable || result < 0 ? OUTSIDE_FAILED : OUTSIDE_NO;
}

/* Adds the name of the entry found. There must be exactly one. */
static enum outside_answer take_entry(struct session *session, LDAPMessage *found, int result,
                                      struct buf *dn)
{
	int count = found ? ldap_count_entries(session->ldap, found) : 0;
	char *name = NULL;

	if (result == LDAP_SIZELIMIT_EXCEEDED || (result == LDAP_SUCCESS && count > 1))
		return auth_outside_reply(session->question, OUTSIDE_NO,
		                          "LDAP: more than one entry is this user's");
	if (result == LDAP_SUCCESS && count == 1)
		name = ldap_get_dn(session->ldap, ldap_first_entry(session->ldap, found));
	if (name) {
		buf_add_text(dn, name);
		ldap_memfree(name);
		return OUTSIDE_YES;
	}
	if (result == LDAP_SUCCESS && count == 0)
		return auth_outside_reply(session->question, OUTSIDE_NO,
		                          "LDAP: no entry is this user's");
	return ldap_fail(session, "search", result);
}

/* Adds the name of the user's entry. */
static enum outside_answer find_user(struct session *session, struct buf *dn)
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

static enum outside_answer judge_user(struct session *session)
{
	enum outside_answer answer = OUTSIDE_YES;
	struct buf dn = { 0 };

	if (session->options->base_dn)
		answer = find_user(session, &dn);
	else
		ldap_options_dn(session->options, session->question->user, &dn);
	if (answer == OUTSIDE_YES)
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
		answer = judge_user(session);
	if (session->ldap)
		ldap_unbind_ext_s(session->ldap, NULL, NULL);
	return answer;
}

static enum outside_answer ask_servers(const struct ldap_options *options,
                                       struct outside_question *question)
{
	enum outside_answer answer = OUTSIDE_FAILED;
	const char *at = options->servers;

	while (*(at += strspn(at, BLANKS))) {
		struct session session = { .options = options, .question = question };
		size_t count = strcspn(at, BLANKS);

		answer = ask_server(&session, at, count);
		if (!session.is_unreachable ||
		    (question->deadline && clock_now() >= question->deadline))
			break;
		at += count;
	}
	return answer;
}

static enum outside_answer ldap_judge(struct outside_question *question)
{
	struct ldap_options options;
	struct err err;
	enum outside_answer answer =
	    ldap_options_parse(question->options, &options, &err)
		? ask_servers(&options, question)
		: auth_outside_reply(question, OUTSIDE_FAILED, "%s", err.text);

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

bool ldap_options_url(struct ldap_options *options, const char *url, struct err *err)
{
	(void)url;
	(void)options;
	return err_set(err, ERR_CONFIG, "ldapurl: built without LDAP");
}

void ldap_prepare(void) {}

static enum outside_answer ldap_judge(struct outside_question *question)
{
	return auth_outside_reply(question, OUTSIDE_FAILED, "built without LDAP");
}

#endif

static enum outside_fitness check_ldap(const char *text, struct err *err)
{
	struct ldap_options options;
	bool is_good = ldap_options_parse(text, &options, err);

	ldap_options_done(&options);
	if (is_good)
		return OUTSIDE_FIT;
	return options.is_contradictory ? OUTSIDE_CONTRADICTORY : OUTSIDE_BAD;
}

const struct outside outside_ldap = { "LDAP", PGWEIR_LDAP, ldap_judge, check_ldap };
