/* SPDX-License-Identifier: ISC */
/*
 * The web server: its thread, its sockets, and which clients it answers.
 *
 *   listener --> connections --> rights --> routes --> answers, with rows from the main thread
 *
 * Hard here: a browser at an allowed address can show a page of a stranger. The browser lets that
 * page read our answers if it takes us for the page's own server, and it does if the name of that
 * server has our address ("DNS rebinding"). So the name that the browser asks for (Host) must be
 * one that no stranger can own: an address, localhost, or one of metrics_hosts.
 */
#include "web_priv.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pgweir/auth/auth_methods.h"
#include "pgweir/auth/digest.h"
#include "pgweir/base/text.h"
#include "pgweir/net/address.h"

#define RETRY_LIMIT (200 * USEC_PER_MS)
#define BACKLOG 64

/* At a take-over the old process has the sockets for a moment: only two seconds are told. */
#define FAILURES_TOLD 10

/*
 * ---- secrets: "Basic" with user and password (RFC 7617), "Bearer" with a token (RFC 6750) ----
 *
 * Only hashes are kept. All of them have one length, and a request is compared with each, so the
 * time of an answer tells nothing about a secret.
 */

#define SECRETS_MAX 1000
#define SECRET_LINE_MAX 1024
#define FILE_MAX ((size_t)4 * 1024 * 1024)

/* Adds the hash of a kind ('u' or 't') and its secret. false: the library refused. */
static bool hash_secret(char kind, struct bytes secret, unsigned char hash[SHA256_SIZE])
{
	char text[SECRET_LINE_MAX + 1];
	bool is_made;

	if (secret.count >= SECRET_LINE_MAX)
		return false;
	text[0] = kind;
	memcpy(text + 1, secret.at, secret.count);
	is_made = digest_sha256(bytes_of(text, secret.count + 1), hash);
	explicit_bzero(text, sizeof(text));
	return is_made;
}

/* ---- the file ---- */

static bool add_line(struct secrets *secrets, struct bytes line, struct err *err)
{
	const size_t scheme = strlen("bearer ");
	bool is_token = line.count > scheme && memcmp(line.at, "bearer ", scheme) == 0;
	struct bytes secret = is_token ? http_trim(bytes_skip(line, scheme)) : line;
	unsigned char(*grown)[SHA256_SIZE];

	if (!is_token && (*line.at == ':' || !memchr(line.at, ':', line.count)))
		return err_set(err, ERR_CONFIG, "is not user:password or bearer TOKEN");
	if (secrets->count == SECRETS_MAX)
		return err_set(err, ERR_CONFIG, "is one of more than %d", SECRETS_MAX);
	grown = realloc(secrets->hashes, (secrets->count + 1) * sizeof(*grown));
	if (!grown)
		return err_set(err, ERR_MEMORY, "out of memory");
	secrets->hashes = grown;
	if (!hash_secret(is_token ? 't' : 'u', secret, grown[secrets->count]))
		return err_set(err, ERR_CONFIG, "is too long");
	secrets->count++;
	return true;
}

bool rights_read_secrets(struct secrets *secrets, const char *path, struct err *err)
{
	struct buf text = { .limit = FILE_MAX + BUF_PIECE, .is_secret = true };
	const char *failed = buf_read_file(&text, path);
	struct bytes rest = buf_bytes(&text), line;
	bool is_good =
	    !failed || err_set(err, ERR_CONFIG, "cannot %s %s: %s", failed, path, strerror(errno));

	for (unsigned int number = 1; is_good && rest.count; number++) {
		line = http_trim(bytes_take_until(&rest, '\n'));
		if (line.count && *line.at != '#' && !add_line(secrets, line, err))
			is_good = err_prefix(err, "%s:%u ", path, number);
	}
	buf_free(&text);
	/* An empty file must not open the door that it should lock. */
	if (is_good && !secrets->count)
		is_good = err_set(err, ERR_CONFIG, "%s has no secret", path);
	return is_good;
}

void rights_free_secrets(struct secrets *secrets)
{
	free(secrets->hashes);
	*secrets = (struct secrets){ 0 };
}

/* ---- requests ---- */

/* Takes the scheme, and the blanks after it. */
static bool take_scheme(struct bytes *value, const char *scheme)
{
	size_t size = strlen(scheme);

	if (value->count <= size || value->at[size] != ' ' ||
	    !http_is(bytes_of(value->at, size), scheme))
		return false;
	*value = bytes_skip(*value, size);
	while (value->count && *value->at == ' ')
		*value = bytes_skip(*value, 1);
	return true;
}

static bool hash_authorization(struct bytes value, unsigned char hash[SHA256_SIZE])
{
	char text[SECRET_LINE_MAX];
	size_t size;
	bool is_made;

	if (take_scheme(&value, "Bearer"))
		return hash_secret('t', value, hash);
	if (!take_scheme(&value, "Basic") || !base64_decode(value, text, sizeof(text), &size))
		return false;
	is_made = hash_secret('u', bytes_of(text, size), hash);
	explicit_bzero(text, sizeof(text));
	return is_made;
}

bool rights_have_secret(const struct secrets *secrets, struct bytes authorization)
{
	unsigned char hash[SHA256_SIZE];
	bool is_known = false;

	if (!authorization.at || !hash_authorization(authorization, hash))
		return false;
	for (size_t i = 0; i < secrets->count; i++)
		is_known |= bytes_equal_secret(bytes_of(hash, sizeof(hash)),
		                               bytes_of(secrets->hashes[i], SHA256_SIZE));
	return is_known;
}

/* ---- rights: made and freed ---- */

/* "127.0.0.1:9127", "[::1]:9127", "*:9127", "name:9127" or "unix:/path". */
static bool read_place(const char *text, struct web_place *place, struct err *err)
{
	const char *colon = strrchr(text, ':');
	const char *address = text;
	size_t size = colon ? (size_t)(colon - text) : 0;
	int64_t port;

	*place = (struct web_place){ 0 };
	if (strncmp(text, "unix:", 5) == 0 && (text[5] == '/' || text[5] == '@')) {
		place->path = text + 5;
		return true;
	}
	if (size > 2 && *text == '[' && text[size - 1] == ']') {
		address++;
		size -= 2;
	}
	if (!size || size >= sizeof(place->address) || !text_to_i64(colon + 1, &port) || port < 1 ||
	    port > 65535)
		return err_set(err, ERR_CONFIG,
		               "metrics_listen: \"%s\" is not ADDRESS:PORT or unix:/PATH", text);
	memcpy(place->address, address, size);
	place->port = (uint16_t)port;
	return true;
}

static bool make_tls(struct web_rights *rights, const struct config *config, struct err *err)
{
	struct tls_options options;

	if (!config->metrics_tls)
		return true;
	options = client_tls_options(config, "http/1.1");
	rights->tls = tls_context_new(&options, err);
	return rights->tls || err_prefix(err, "metrics_tls: ");
}

static void free_rights(struct web_rights *rights)
{
	config_unref(&rights->config);
	rights_free_secrets(&rights->secrets);
	tls_context_unref(&rights->tls);
	ranges_release(&rights->allow);
	free(rights);
}

REFS_FUNCTIONS(web_rights_hold, web_rights_release, struct web_rights, free_rights)

struct web_rights *web_rights_new(const struct config *config, struct err *err)
{
	const struct config_list *allow = &config->metrics_allow, *listen = &config->metrics_listen;
	struct web_rights *rights;
	struct web_place place;
	bool is_made = false;

	for (size_t i = 0; i < listen->count; i++) {
		if (!read_place(listen->names[i], &place, err))
			return NULL;
	}
	rights = err_calloc(sizeof(*rights), "out of memory", err);
	if (!rights)
		return NULL;
	rights->config = config_ref(config);
	rights->allow = ranges_new(allow->names, allow->count, err);
	if (!rights->allow)
		err_prefix(err, "metrics_allow: ");
	else if (!*config->metrics_secret_file ||
	         rights_read_secrets(&rights->secrets, config->metrics_secret_file, err) ||
	         err_prefix(err, "metrics_secret_file: "))
		is_made = make_tls(rights, config, err);
	if (!is_made)
		web_rights_release(&rights);
	return rights;
}

/* ---- rights: asked ---- */

const struct tls_context *web_rights_tls(const struct web_rights *rights)
{
	return rights ? rights->tls : NULL;
}

static bool is_trusted_host(const struct web_rights *rights, struct bytes host)
{
	const struct config_list *names = &rights->config->metrics_hosts;
	struct address address;
	char text[ADDRESS_TEXT_SIZE];

	if (!host.count || http_is(host, "localhost"))
		return true;
	snprintf(text, sizeof(text), "%.*s", (int)host.count, host.at);
	if (host.count < sizeof(text) && address_parse(&address, text, 0))
		return true;
	for (size_t i = 0; i < names->count; i++) {
		if (strcmp(names->names[i], "*") == 0 || http_is(host, names->names[i]))
			return true;
	}
	return false;
}

/*
 * Whether a request may be answered. 0: yes; else the status of the refusal, and *why.
 * needs_secret: for what is not open to every client of an allowed address. A secret is looked at
 * only if a wrong one could still be delayed.
 */
static int rights_judge(const struct web_rights *rights, const struct connection *connection,
                        const struct http_head *head, bool needs_secret, const char **why)
{
	const struct connections *all = connection->all;
	int most = rights->config->auth_failure_limit;
	bool is_known;

	if (needs_secret && failures_reach(&all->failures, &connection->peer, most)) {
		*why = "too many wrong secrets from this address, try again later";
		return 429;
	}
	if (!ranges_have(rights->allow, &connection->peer)) {
		*why = "this address is not in metrics_allow";
		return 403;
	}
	/* where none is needed, the answer must not tell whether it is right */
	is_known = needs_secret && rights_have_secret(&rights->secrets, head->authorization);
	if (needs_secret && rights->secrets.count && !is_known) {
		*why = WRONG_SECRET_TEXT;
		return 401;
	}
	/* A page of a stranger has no secret. */
	if (!is_known && !address_is_unix(&connection->peer) &&
	    !is_trusted_host(rights, head->host)) {
		*why = "the name of the host is not in metrics_hosts";
		return 403;
	}
	if (needs_secret && connections_are_busy(all)) {
		*why = "too many requests are being answered";
		return 503;
	}
	return 0;
}

/*
 * ---- the page ----
 *
 * The policy that it is sent with allows its own style and script, by their hashes, and requests to
 * us. So nothing else can run or be loaded, whatever a name in a table contains.
 */

extern const unsigned char page_html[];
extern const size_t page_html_size;

/* Adds the source that is the hash of what is between `begin` and `end`: there is one. */
static bool add_hash(struct buf *out, const char *begin, const char *end)
{
	const char *from = memmem(page_html, page_html_size, begin, strlen(begin));
	const char *to = memmem(page_html, page_html_size, end, strlen(end));
	unsigned char hash[SHA256_SIZE];
	char text[BASE64_SIZE(SHA256_SIZE)];

	assert(from && to);
	from += strlen(begin);
	if (!digest_sha256(bytes_of(from, (size_t)(to - from)), hash))
		return false;
	base64_encode(bytes_of(hash, sizeof(hash)), text);
	buf_printf(out, " 'sha256-%s'", text);
	return true;
}

static bool page_init(struct buf *fields, struct err *err)
{
	bool is_made;

	buf_add_text(fields, "Content-Security-Policy: default-src 'none'; connect-src 'self'; "
	                     "img-src data:; style-src");
	is_made = add_hash(fields, "<style>", "</style>");
	buf_add_text(fields, "; script-src");
	is_made &= add_hash(fields, "<script>", "</script>");
	buf_add_text(fields, "; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
	                     "require-trusted-types-for 'script'; trusted-types 'none'\r\n"
	                     "Referrer-Policy: no-referrer\r\n");
	return (is_made && buf_ok(fields)) || err_set(err, ERR_MEMORY, "cannot prepare the page");
}

static void page_answer(struct connection *connection, const struct http_head *head)
{
	(void)head;
	connection_answer(
	    connection,
	    &(struct answer_head){ .status = 200,
	                           .type = "text/html; charset=utf-8",
	                           .fields = buf_text(&WEB_OF(connection)->page_fields) },
	    bytes_of(page_html, page_html_size));
}

/*
 * ---- /healthz: whether all loops turn, as they must for any SHOW; /readyz: whether new work is
 * accepted, as SHOW READY says ----
 */

#define HEALTH_LIMIT (5 * USEC_PER_SEC) /* a loop that turns answers within milliseconds */

static enum table_result next_of_health(struct answer *answer, struct buf *out)
{
	bool is_about_work = bytes_are(answer->connection->head.path, "/readyz");
	struct bytes values[COLUMNS_MAX], piece = buf_bytes(&answer->reader->piece);
	struct bytes reason = bytes_text("ok");

	if (answer->reader->state == READER_AWAY) {
		answer->head.status = 503;
		reason = bytes_text("an event loop does not answer");
	} else if (is_about_work) {
		bool is_known = reader_take(&piece, values);

		reason = bytes_text("ready");
		if (!is_known || !bytes_are(values[0], "yes")) {
			answer->head.status = 503;
			reason = is_known ? values[1] : bytes_text("not known");
		}
	}
	buf_printf(out, "%.*s\n", (int)reason.count, reason.at);
	return TABLE_END;
}

static void health_answer(struct connection *connection, const struct http_head *head)
{
	struct answer *answer = connection_begin_answer(
	    connection, sizeof(*answer), "text/plain; charset=utf-8", next_of_health);

	(void)head;
	if (!answer)
		return;
	answer->limit = HEALTH_LIMIT;
	if (connection_read_table(answer, "READY"))
		answer->reader->budget = &connection->all->readers.probes;
	else
		connection_close(connection);
}

/*
 * ---- /api/v1/show: SHOW tables as JSON ----
 *
 *   {"name":"POOLS","at":"...Z","columns":[{"name":"database","type":"text"},...],"rows":[[...],...]}
 */

#define API_SHOW "/api/v1/show/"
#define JSON_TYPE "application/json"

/* A table that is being sent to a client. */
struct api_answer {
	struct answer answer;
	bool has_row;
	const struct show *table;
};

static void add_columns(const struct show *table, struct buf *out)
{
	char now[TEXT_UTC_SIZE];

	buf_add_text(out, "{\"name\":");
	json_add_text(out, bytes_text(table->item));
	buf_printf(out, ",\"at\":\"%s\",\"columns\":[", text_utc(wall_now(), now));
	for (size_t i = 0; i < table->columns.count; i++) {
		buf_add_text(out, i ? ",{\"name\":" : "{\"name\":");
		json_add_text(out, bytes_text(table->columns.at[i].name));
		buf_printf(out, ",\"type\":\"%s\"}", rows_type_name(table->columns.at[i].type));
	}
	buf_add_text(out, "],\"rows\":[");
}

static void add_row(struct api_answer *answer, const struct bytes *values, struct buf *out)
{
	buf_add_text(out, answer->has_row ? ",\n[" : "\n[");
	answer->has_row = true;
	for (size_t i = 0; i < answer->table->columns.count; i++) {
		if (i)
			buf_add_byte(out, ',');
		if (!values[i].at)
			buf_add_text(out, "null");
		else if (rows_is_number(answer->table->columns.at[i].type))
			buf_add(out, values[i].at, values[i].count);
		else
			json_add_text(out, values[i]);
	}
	buf_add_byte(out, ']');
}

static enum table_result next_part(struct answer *answer, struct buf *out)
{
	struct api_answer *api = container_of(answer, struct api_answer, answer);
	struct bytes values[COLUMNS_MAX], piece = buf_bytes(&answer->reader->piece);

	if (!answer->connection->is_begun)
		add_columns(api->table, out);
	while (reader_take(&piece, values))
		add_row(api, values, out);
	if (answer->reader->result == TABLE_MORE)
		return TABLE_MORE;
	buf_add_text(out, "\n]}\n");
	return TABLE_END;
}

static void api_show(struct connection *connection, const struct http_head *head)
{
	struct api_answer *api;
	struct buf words = { 0 };

	if (!http_decode(bytes_skip(head->path, strlen(API_SHOW)), false, &words) ||
	    !http_read_arguments(head->query, "argument", &words)) {
		connection_answer_error(connection, 400, HTTP_BAD_ADDRESS, NULL);
	} else if ((api =
	                connection_begin_answer(connection, sizeof(*api), JSON_TYPE, next_part))) {
		api->table = tables_find(buf_text(&words));
		if (!connection_read_table(&api->answer, buf_text(&words)))
			connection_close(connection);
	}
	buf_free(&words);
}

static void api_list(struct connection *connection, const struct http_head *head)
{
	const struct show *table;
	const char *argument;
	struct buf out = { 0 };
	size_t count = 0;

	(void)head;
	buf_add_text(&out, "{\"tables\":[");
	for (size_t i = 0; (table = shows[i]); i++) {
		if (table->role > CONSOLE_STATS)
			continue;
		argument = show_argument_name(table->argument);
		buf_add_text(&out, count++ ? ",\n{\"name\":" : "\n{\"name\":");
		json_add_text(&out, bytes_text(table->item));
		buf_add_text(&out, ",\"argument\":");
		json_add_text(&out, bytes_text(argument + (*argument == ' ')));
		buf_add_text(&out, ",\"help\":");
		json_add_text(&out, bytes_text(table->help));
		buf_add_byte(&out, '}');
	}
	buf_add_text(&out, "\n]}\n");
	connection_answer(connection, &(struct answer_head){ .status = 200, .type = JSON_TYPE },
	                  buf_bytes(&out));
	buf_free(&out);
}

/* ---- what is at which path ---- */

static void answer_nothing(struct connection *connection, const struct http_head *head)
{
	(void)head;
	connection_answer(connection, &(struct answer_head){ .status = 204 }, (struct bytes){ 0 });
}

static const struct route {
	const char *path; /* ends with "/": also what is below it */
	void (*answer)(struct connection *connection, const struct http_head *head);
	bool is_open; /* needs no secret */
} routes[] = {
	{ "/", page_answer, false },
	{ "/metrics", metrics_answer, false },
	{ "/metrics/histograms", metrics_answer_histograms, false },
	{ "/healthz", health_answer, true },
	{ "/readyz", health_answer, true },
	{ "/favicon.ico", answer_nothing, false },
	{ "/api/v1/show", api_list, false },
	{ "/api/v1/show/", api_show, false },
};

static const struct route *find_route(struct bytes path)
{
	for (size_t i = 0; i < sizeof(routes) / sizeof(routes[0]); i++) {
		size_t size = strlen(routes[i].path);
		bool is_folder = size > 1 && routes[i].path[size - 1] == '/';

		if (is_folder ? path.count > size && memcmp(path.at, routes[i].path, size) == 0
		              : bytes_are(path, routes[i].path))
			return &routes[i];
	}
	return NULL;
}

/* ---- requests ---- */

static void on_request(struct connection *connection, const struct http_head *head)
{
	struct web *web = WEB_OF(connection);
	const struct web_rights *rights = web->rights;
	const struct route *route = find_route(head->path);
	char address[ADDRESS_TEXT_SIZE];
	const char *why;
	int status = rights_judge(rights, connection, head, !route || !route->is_open, &why);

	if (status == 401 && head->authorization.at) {
		/* the log limits how often it has such a line */
		log_kept(&web->log, LOG_LEVEL_WARNING, "secret",
		         "metrics_listen: wrong secret from %s",
		         address_format_host(&connection->peer, address, sizeof(address)));
		connection_refuse_later(connection, rights->config->auth_failure_delay);
	} else if (status) {
		connection_answer_error(connection, status, why, NULL);
	} else if (route) {
		route->answer(connection, head);
	} else {
		connection_answer_error(connection, 404, "there is nothing at this path",
		                        "/ is the page, /api/v1/show lists the tables");
	}
}

static void on_accept(void *arg, int fd, const struct address *peer)
{
	struct web *web = arg;
	const struct web_rights *rights = web->rights;

	/* Strangers get an answer as long as that takes no place from others. */
	if (web->connections.count >= WEB_CONNECTIONS_MAX / 2 && !ranges_have(rights->allow, peer))
		close(fd);
	else
		connection_open(&web->connections, fd, peer,
		                address_is_unix(peer) ? NULL : rights->tls);
}

/* ---- sockets ---- */

/* false: it has to be tried again. */
static bool open_place(struct web *web, struct web_place *place)
{
	const struct config *config = web->with.config;
	struct listener_options options = {
		.addresses = place->address,
		.port = place->port,
		.unix_path = place->path,
		.unix_mode = (mode_t)config->unix_socket_mode,
		.unix_group = config->unix_socket_group,
		.backlog = BACKLOG,
		.is_retried = true,
		.on_accept = on_accept,
		.arg = web,
		.log = web->log,
	};
	struct err err;

	place->listener = listener_open(web->loop, &options, &err);
	if (place->listener)
		place->failed_count = 0;
	else if (++place->failed_count == FAILURES_TOLD)
		log_warning(&web->log, "metrics_listen: %s; trying again until it works", err.text);
	return place->listener != NULL;
}

static void on_retry_time(struct timer *timer);

static void open_places(struct web *web)
{
	bool are_open = true;

	for (size_t i = 0; i < web->place_count; i++) {
		if (!web->places[i].listener)
			are_open &= open_place(web, &web->places[i]);
	}
	timer_set(&web->retry,
	          are_open ? NULL : loop_timer_queue(web->loop, RETRY_LIMIT, on_retry_time),
	          loop_now(web->loop));
}

static void on_retry_time(struct timer *timer)
{
	open_places(container_of(timer, struct web, retry));
}

static void close_places(struct web *web)
{
	timer_clear(&web->retry);
	for (size_t i = 0; i < web->place_count; i++) {
		listener_free(&web->places[i].listener);
		web->places[i].failed_count = 0;
	}
}

/* ---- what the main thread changes ---- */

static void on_change(struct letter *letter)
{
	struct web *web = container_of(letter, struct web, change);
	struct web_rights *fresh;

	atomic_store(&web->is_change_posted, false);
	fresh = atomic_exchange(&web->fresh, NULL);
	if (fresh) {
		web_rights_release(&web->rights);
		web->rights = fresh;
	}
	if (letter->is_late)
		return;
	if (atomic_load(&web->may_listen))
		open_places(web);
	else
		close_places(web);
}

static void post_change(struct web *web)
{
	if (!atomic_exchange(&web->is_change_posted, true))
		loop_post(web->loop, &web->change);
}

void web_listen(struct web *web, bool may_listen)
{
	if (!web)
		return;
	atomic_store(&web->may_listen, may_listen);
	post_change(web);
}

void web_allow(struct web *web, struct web_rights *rights)
{
	if (web) {
		rights = atomic_exchange(&web->fresh, rights);
		post_change(web);
	}
	web_rights_release(&rights);
}

/* ---- made and freed ---- */

static bool is_open_to(const struct ranges *allow, const char *text)
{
	struct address address;

	return address_parse(&address, text, 0) && ranges_have(allow, &address);
}

/*
 * Whether all users of this machine may connect: to a Unix socket by its mode, to an address from
 * that same address; to a name or to all addresses from the loopback address, as far as we know.
 */
static bool is_open(const struct config *config, const struct ranges *allow,
                    const struct web_place *place)
{
	const struct address from_unix = { .un = { .family = AF_UNIX } };
	struct address address;
	bool is_any = strcmp(place->address, "0.0.0.0") == 0 || strcmp(place->address, "::") == 0;

	if (place->path)
		return ranges_have(allow, &from_unix) &&
		       (*place->path == '@' || (config->unix_socket_mode & S_IWOTH));
	if (config->metrics_tls && config->client_tls_sslmode >= TLS_MODE_VERIFY_CA)
		return false; /* a certificate is needed */
	if (!is_any && address_parse(&address, place->address, 0))
		return ranges_have(allow, &address);
	return is_open_to(allow, "127.0.0.1") || is_open_to(allow, "::1");
}

void web_warn(const struct config *config, struct problems *problems)
{
	const struct config_list *list = &config->metrics_listen;
	struct web_place place;
	struct ranges *allow;
	struct err err;

	if (!list->count || *config->metrics_secret_file)
		return;
	allow = ranges_new(config->metrics_allow.names, config->metrics_allow.count, &err);
	for (size_t i = 0; allow && i < list->count; i++) {
		if (read_place(list->names[i], &place, &err) && is_open(config, allow, &place))
			problems_warn(problems, config_source_pos(config, "metrics_listen"),
			              "metrics_listen: every user of this machine may read "
			              "what %s shows: set metrics_secret_file",
			              list->names[i]);
	}
	ranges_release(&allow);
}

static bool read_places(struct web *web, const struct config_list *list, struct err *err)
{
	web->places = calloc(list->count, sizeof(*web->places));
	if (!web->places)
		return err_set(err, ERR_MEMORY, "out of memory");
	while (web->place_count < list->count &&
	       read_place(list->names[web->place_count], &web->places[web->place_count], err))
		web->place_count++;
	return web->place_count == list->count;
}

static bool prepare(struct web *web, struct err *err)
{
	const struct web_with *with = &web->with;

	web->log = (struct logger){ with->log, NULL };
	web->change.open = on_change;
	atomic_init(&web->may_listen, true);
	web->rights = web_rights_hold(with->rights);
	web->solo = solo_new("pgweir/web", err);
	if (!web->solo || !read_places(web, &with->config->metrics_listen, err))
		return false;
	web->loop = solo_loop(web->solo);
	connections_init(&web->connections, web->loop);
	web->connections.streams.handshakes = with->handshakes;
	web->connections.on_request = on_request;
	readers_init(&web->connections.readers, with->console, with->main_loop, web->loop);
	return page_init(&web->page_fields, err);
}

bool web_new(struct web **webp, const struct web_with *with, struct err *err)
{
	struct web *web;

	*webp = NULL;
	if (!with->config->metrics_listen.count)
		return true;
	web = calloc(1, sizeof(*web));
	if (!web)
		return err_set(err, ERR_MEMORY, "out of memory");
	web->with = *with;
	web->with.config = config_ref(with->config);
	web->started_at = wall_now();
	if (prepare(web, err)) {
		open_places(web);
		if (solo_start(web->solo, err)) {
			*webp = web;
			return true;
		}
	}
	web_free(&web);
	return false;
}

void web_stop(struct web *web)
{
	if (!web || !web->loop)
		return;
	solo_stop(web->solo);
	close_places(web);
	connections_close(&web->connections);
	readers_done(&web->connections.readers);
}

void web_free(struct web **webp)
{
	struct web *web = *webp;

	if (!web)
		return;
	*webp = NULL;
	web_stop(web);
	if (web->loop)
		stream_pool_done(&web->connections.streams);
	free(web->places);
	buf_free(&web->page_fields);
	solo_free(&web->solo);
	web_rights_release(&web->rights);
	web_allow(NULL, web->fresh);
	config_unref(&web->with.config);
	free(web);
}
