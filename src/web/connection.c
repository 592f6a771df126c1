/* SPDX-License-Identifier: ISC */
/*
 * Connections of HTTP clients.
 *
 *   socket --> [TLS] --> head of a request --> on_request() --> answer --> next request, or the end
 *
 * Hard here: what a client can make us keep. There are few connections; each has a head of at most
 * HTTP_HEAD_MAX bytes, reads of STREAM_AHEAD_MAX bytes, one piece of an answer, and a time limit
 * in every state. The next piece is made when the client has taken the last one.
 */
#include "web_priv.h"

#include <assert.h>
#include <stdlib.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include "pgweir/base/text.h"

#define FIRST_LIMIT (10 * USEC_PER_SEC)  /* for a handshake, and for a whole head */
#define IDLE_LIMIT (75 * USEC_PER_SEC)   /* between two requests: longer than most scrapes */
#define ANSWER_LIMIT (30 * USEC_PER_SEC) /* for making or taking one piece */
#define ENDING_LIMIT (2 * USEC_PER_SEC)

#define DELAYED_MAX 32 /* wrong secrets: half of all answers that are being made */

static const char *status_words(int status)
{
	static const struct {
		int status;
		const char *words;
	} statuses[] = {
		{ 200, "OK" },
		{ 204, "No Content" },
		{ 400, "Bad Request" },
		{ 401, "Unauthorized" },
		{ 403, "Forbidden" },
		{ 404, "Not Found" },
		{ 405, "Method Not Allowed" },
		{ 413, "Content Too Large" },
		{ 429, "Too Many Requests" },
		{ 431, "Request Header Fields Too Large" },
		{ 503, "Service Unavailable" },
		{ 505, "HTTP Version Not Supported" },
	};

	for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++) {
		if (statuses[i].status == status)
			return statuses[i].words;
	}
	return "Error";
}

/* ---- the end of a connection ---- */

static void on_limit(struct timer *timer);

static void set_limit(struct connection *connection, usec_t limit)
{
	timer_begin(&connection->timer, connection->all->loop, limit, on_limit);
}

static void free_connection(struct connection *connection)
{
	TAILQ_REMOVE(&connection->all->list, connection, node);
	loop_undefer(connection->all->loop, &connection->task);
	buf_free(&connection->in);
	free(connection);
}

static void end_delay(struct connection *connection)
{
	if (!connection->is_delayed)
		return;
	failures_forget(&connection->all->failures, connection->failure);
	connection->failure = NULL;
	connection->is_delayed = false;
	connection->all->delayed_count--;
}

static void end_parts(struct connection *connection)
{
	struct answer *answer = connection->answer;

	connection->answer = NULL;
	if (!answer)
		return;
	reader_end(&answer->reader);
	if (answer->on_over)
		answer->on_over(answer);
	free(answer);
}

/* Frees it at the end of the turn, because its callers may still use it. */
void connection_close(struct connection *connection)
{
	if (connection->state == CONNECTION_CLOSED)
		return;
	connection->state = CONNECTION_CLOSED;
	connection->all->count--;
	end_delay(connection);
	timer_clear(&connection->timer);
	stream_close(&connection->stream);
	loop_defer(connection->all->loop, &connection->task);
	end_parts(connection);
}

static void refuse_secret(struct connection *connection)
{
	end_delay(connection);
	connection_answer_error(connection, 401, WRONG_SECRET_TEXT, NULL);
}

static void add_part(struct connection *connection);

static void on_limit(struct timer *timer)
{
	struct connection *connection = container_of(timer, struct connection, timer);

	if (connection->is_delayed)
		refuse_secret(connection);
	else if (connection->answer && connection->answer->limit &&
	         connection->answer->reader->state == READER_AWAY)
		add_part(connection);
	else
		connection_close(connection);
}

/*
 * All was answered. What the client has sent beyond it is read and dropped for a moment: closing a
 * socket with unread input resets the connection, and the client may lose the answer.
 */
static void finish(struct connection *connection)
{
	stream_finish(&connection->stream);
	set_limit(connection, ENDING_LIMIT);
	if (!stream_keep(&connection->stream, (struct bytes){ 0 }) ||
	    !stream_want(&connection->stream, WANT_INPUT))
		connection_close(connection);
}

/* ---- answers ---- */

/* No page of another origin may read it, show it in a frame or run it, and nothing is stored. */
static void add_head(struct connection *connection, const struct answer_head *head, struct buf *out)
{
	time_t now = time(NULL);
	struct tm utc;
	char date[64];

	gmtime_r(&now, &utc);
	strftime(date, sizeof(date), "%a, %d %b %Y %H:%M:%S GMT", &utc);
	buf_printf(out, "HTTP/1.1 %d %s\r\nDate: %s\r\n", head->status, status_words(head->status),
	           date);
	if (head->type)
		buf_printf(out, "Content-Type: %s\r\n", head->type);
	buf_add_text(out, "Cache-Control: no-store\r\n"
	                  "X-Content-Type-Options: nosniff\r\n"
	                  "Cross-Origin-Resource-Policy: same-origin\r\n");
	buf_add_text(out, head->fields ? head->fields : "");
	if (connection->head.closes)
		buf_add_text(out, "Connection: close\r\n");
}

/* The answer is complete: the next request may be read, in a later turn. */
static void end_answer(struct connection *connection)
{
	if (connection->state != CONNECTION_ANSWERING)
		return;
	end_parts(connection);
	if (connection->head.closes) {
		buf_free(&connection->in);
		connection->state = CONNECTION_ENDING;
		set_limit(connection, ANSWER_LIMIT);
		if (stream_unsent(&connection->stream) == 0)
			finish(connection);
		return;
	}
	connection->state = CONNECTION_READING;
	buf_drop(&connection->in, connection->head.size);
	if (!connection->in.count)
		buf_free(&connection->in);
	connection->seen = 0;
	set_limit(connection, IDLE_LIMIT);
	loop_defer(connection->all->loop, &connection->task);
}

/* The next part of an answer: if it is the first and the last one, the client gets its length. */
static void send_part(struct connection *connection, const struct answer_head *head,
                      struct bytes part, bool is_last)
{
	bool is_whole = is_last && !connection->is_begun;
	bool is_chunked = !connection->head.is_1_0 && !is_whole;
	struct buf out = { 0 };

	if (!connection->is_begun) {
		add_head(connection, head, &out);
		if (is_whole && head->status != 204)
			buf_printf(&out, "Content-Length: %zu\r\n", part.count);
		buf_add_text(&out, is_chunked ? "Transfer-Encoding: chunked\r\n\r\n" : "\r\n");
	}
	connection->is_begun = true;
	if (part.count && !connection->head.is_head) {
		if (is_chunked)
			buf_printf(&out, "%zx\r\n", part.count);
		buf_add(&out, part.at, part.count);
		buf_add_text(&out, is_chunked ? "\r\n" : "");
	}
	if (is_last && is_chunked && !connection->head.is_head)
		buf_add_text(&out, "0\r\n\r\n");
	if (!buf_ok(&out) || (out.count && !stream_send(&connection->stream, buf_bytes(&out))))
		connection_close(connection);
	buf_free(&out);
	if (is_last || connection->head.is_head)
		end_answer(connection);
}

void connection_answer(struct connection *connection, const struct answer_head *head,
                       struct bytes body)
{
	assert(connection->state == CONNECTION_ANSWERING);
	send_part(connection, head, body, true);
}

void connection_answer_error(struct connection *connection, int status, const char *text,
                             const char *hint)
{
	struct answer_head head = { .status = status, .type = "application/json" };
	struct buf out = { 0 };

	if (status == 401)
		head.fields = "WWW-Authenticate: Basic realm=\"pgweir\", charset=\"UTF-8\"\r\n";
	else if (status == 405)
		head.fields = "Allow: GET, HEAD\r\n";
	buf_add_text(&out, "{\"error\":");
	json_add_text(&out, bytes_text(text));
	if (hint) {
		buf_add_text(&out, ",\"hint\":");
		json_add_text(&out, bytes_text(hint));
	}
	buf_add_text(&out, "}\n");
	connection_answer(connection, &head, buf_bytes(&out));
	buf_free(&out);
}

/*
 * As failed logins of clients are (auth_failure_delay), and bounded for each address
 * (auth_failure_limit). client/login/admit.c says why a secret is looked at only if its failure
 * can still be delayed. For one more than DELAYED_MAX, another one is answered early.
 */
void connection_refuse_later(struct connection *connection, usec_t delay)
{
	struct connections *all = connection->all;
	struct connection *other;

	if (delay <= 0) {
		refuse_secret(connection);
		return;
	}
	if (all->delayed_count >= DELAYED_MAX) {
		TAILQ_FOREACH (other, &all->list, node) {
			if (other->is_delayed)
				break;
		}
		refuse_secret(other);
	}
	connection->is_delayed = true;
	connection->failure = failures_count(&all->failures, &connection->peer);
	all->delayed_count++;
	set_limit(connection, delay);
}

/* ---- answers in parts ---- */

/* A SHOW has failed: tells why, unless the answer has begun. */
static void refuse_table(struct connection *connection, const struct err *err)
{
	int status = err->code == ERR_SYNTAX || err->code == ERR_NO_DATABASE ? 404
	             : err->code == ERR_RIGHTS                               ? 403
	                                                                     : 503;

	if (connection->is_begun)
		connection_close(connection);
	else
		connection_answer_error(
		    connection, status,
		    err->code == ERR_SYNTAX ? "no such table, or not with these words" : err->text,
		    "GET /api/v1/show lists the tables");
}

static void add_part(struct connection *connection)
{
	struct answer *answer = connection->answer;
	struct buf part = { 0 };
	enum table_result result = answer->next(answer, &part);

	if (result == TABLE_BROKEN || !buf_ok(&part))
		connection_close(connection);
	else if (part.count || result == TABLE_END)
		send_part(connection, &answer->head, buf_bytes(&part), result == TABLE_END);
	buf_free(&part);
}

/* Adds what it can until the client has to take it, or the main thread to make more. */
static void go_on(void *arg)
{
	struct connection *connection = arg;
	struct answer *answer = connection->answer;

	set_limit(connection, answer->limit ? answer->limit : ANSWER_LIMIT);
	while ((answer = connection->answer) && stream_unsent(&connection->stream) == 0) {
		struct reader *reader = answer->reader;

		if (reader && reader->state != READER_BACK) {
			reader_next(reader);
			return;
		}
		if (reader)
			reader->state = READER_RESTS;
		if (reader && reader->result == TABLE_BROKEN)
			refuse_table(connection, &reader->err);
		else
			add_part(connection);
	}
}

void *connection_begin_answer(struct connection *connection, size_t size, const char *type,
                              enum table_result (*next)(struct answer *answer, struct buf *out))
{
	struct answer *answer = calloc(1, size);

	assert(connection->state == CONNECTION_ANSWERING && !connection->answer);
	if (answer)
		*answer = (struct answer){ connection, { 200, type, NULL }, .next = next };
	else
		connection_close(connection);
	connection->answer = answer;
	return answer;
}

bool connection_read_table(struct answer *answer, const char *words)
{
	struct connection *connection = answer->connection;

	answer->reader = reader_new(&connection->all->readers, words, go_on, connection);
	return answer->reader;
}

/* ---- requests ---- */

static void handle(struct connection *connection, enum http_result result)
{
	const struct http_head *head = &connection->head;

	connection->state = CONNECTION_ANSWERING;
	connection->is_begun = false;
	set_limit(connection, ANSWER_LIMIT);
	if (!stream_want(&connection->stream, WANT_END)) {
		connection_close(connection);
		return;
	}
	if (result == HTTP_BAD)
		connection_answer_error(connection, head->status, status_words(head->status), NULL);
	else if (!head->is_get && !head->is_head)
		connection_answer_error(connection, 405, status_words(405), NULL);
	else
		connection->all->on_request(connection, head);
	if (connection->answer)
		go_on(connection);
}

/* More has come, or nothing: handles the first request in all that is there. */
static void take(struct connection *connection, struct bytes more)
{
	bool is_first = connection->seen == 0;
	enum http_result result;

	buf_add(&connection->in, more.at, more.count);
	if (!buf_ok(&connection->in) || !stream_keep(&connection->stream, (struct bytes){ 0 })) {
		connection_close(connection);
		return;
	}
	result = http_head_read(buf_bytes(&connection->in), &connection->seen, &connection->head);
	if (result != HTTP_MORE)
		handle(connection, result);
	else if (is_first && connection->in.count)
		set_limit(connection, FIRST_LIMIT);
}

/* ---- the stream ---- */

static void on_input(struct stream *stream)
{
	struct connection *connection = container_of(stream, struct connection, stream);
	enum stream_result result;
	struct bytes in;

	result = stream_read(stream, &in);
	if (result == STREAM_NOTHING)
		return;
	if (result == STREAM_END)
		connection_close(connection);
	else if (connection->state == CONNECTION_READING)
		take(connection, in);
	/* else: it is ending, and the input is dropped */
}

static void on_flushed(struct stream *stream)
{
	struct connection *connection = container_of(stream, struct connection, stream);

	if (connection->state == CONNECTION_ENDING)
		finish(connection);
	else if (connection->answer)
		go_on(connection);
}

static void on_gone(struct stream *stream)
{
	connection_close(container_of(stream, struct connection, stream));
}

/* No event will report what was kept. */
static void read_on(struct connection *connection)
{
	if (stream_want(&connection->stream, WANT_INPUT))
		take(connection, stream_kept(&connection->stream));
	else
		connection_close(connection);
}

static void on_secured(struct stream *stream, const struct err *err)
{
	struct connection *connection = container_of(stream, struct connection, stream);

	if (err) {
		connection_close(connection);
		return;
	}
	connection->state = CONNECTION_READING;
	read_on(connection);
}

static const struct stream_ops stream_ops = { on_input, on_flushed, on_gone, on_secured };

static void on_task(struct task *task)
{
	struct connection *connection = container_of(task, struct connection, task);

	if (connection->state == CONNECTION_CLOSED)
		free_connection(connection);
	else if (connection->state == CONNECTION_READING)
		read_on(connection);
}

/* ---- opening ---- */

/*
 * Closes the oldest connection that waits for a whole head, or has its answer but does not close,
 * so that nobody keeps others out by doing nothing. false: all are being answered.
 */
static bool evict_oldest(struct connections *all)
{
	struct connection *connection, *answered = NULL;

	TAILQ_FOREACH (connection, &all->list, node) {
		if (connection->state == CONNECTION_SECURING ||
		    connection->state == CONNECTION_READING)
			break;
		if (!answered && connection->state == CONNECTION_ENDING &&
		    stream_unsent(&connection->stream) == 0)
			answered = connection;
	}
	if (!connection)
		connection = answered;
	if (connection)
		connection_close(connection);
	return connection;
}

bool connections_are_busy(const struct connections *all)
{
	unsigned int count = 0;

	TAILQ_EACH (connection, &all->list, node)
		count += connection->state == CONNECTION_ANSWERING ||
		         connection->state == CONNECTION_ENDING;
	return count > WEB_CONNECTIONS_MAX - CONNECTIONS_KEPT;
}

void connection_open(struct connections *all, int fd, const struct address *peer,
                     struct tls_context *tls)
{
	static const char busy[] = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 10\r\n"
				   "Content-Length: 0\r\nConnection: close\r\n\r\n";
	bool has_room = all->count < WEB_CONNECTIONS_MAX || evict_oldest(all);
	struct connection *connection = has_room ? calloc(1, sizeof(*connection)) : NULL;

	if (!connection) {
		if (!tls) /* the text fits into any socket's buffer */
			send(fd, busy, sizeof(busy) - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
		close(fd);
		return;
	}
	connection->all = all;
	connection->peer = *peer;
	connection->task.run = on_task;
	connection->state = tls ? CONNECTION_SECURING : CONNECTION_READING;
	TAILQ_INSERT_TAIL(&all->list, connection, node);
	all->count++;
	stream_open(&connection->stream, all->loop, &all->streams, fd, &stream_ops);
	set_limit(connection, FIRST_LIMIT);
	if (!(tls ? stream_secure(&connection->stream, tls, NULL, (struct bytes){ 0 }, NULL)
	          : stream_want(&connection->stream, WANT_INPUT)))
		connection_close(connection);
}

void connections_init(struct connections *all, struct loop *loop)
{
	all->loop = loop;
	TAILQ_INIT(&all->list);
	failures_init(&all->failures);
	stream_pool_init(&all->streams, 4096);
}

void connections_close(struct connections *all)
{
	struct connection *connection;

	while ((connection = TAILQ_FIRST(&all->list))) {
		connection_close(connection);
		free_connection(connection);
	}
}

/*
 * ---- heads of requests ----
 *
 * Hard here: programs in front of us (proxies) and we must not understand a request differently.
 * So what is ambiguous is refused: blanks before a colon, continued lines, control characters,
 * two Host lines. A request with a body is refused too, and its connection is closed, so the
 * length of a body never matters.
 */

bool http_is(struct bytes a, const char *text)
{
	return a.count == strlen(text) && strncasecmp(a.at, text, a.count) == 0;
}

struct bytes http_trim(struct bytes text)
{
	while (text.count && strchr(" \t\r", *text.at) && *text.at)
		text = bytes_skip(text, 1);
	while (text.count && strchr(" \t\r", text.at[text.count - 1]) && text.at[text.count - 1])
		text.count--;
	return text;
}

/* Takes a line without its end: CR LF, or LF alone. */
static struct bytes take_line(struct bytes *rest)
{
	struct bytes line = bytes_take_until(rest, '\n');

	if (line.count && line.at[line.count - 1] == '\r')
		line.count--;
	return line;
}

/* Returns the bytes up to and with the empty line; 0: it has not come yet. */
static size_t find_end(struct bytes in, size_t *seen)
{
	size_t at = *seen;
	const char *found;

	while (at < in.count && (found = memchr(in.at + at, '\n', in.count - at))) {
		at = (size_t)(found - in.at) + 1;
		if (at < in.count && in.at[at] == '\n')
			return at + 1;
		if (at + 1 < in.count && in.at[at] == '\r' && in.at[at + 1] == '\n')
			return at + 2;
	}
	/* The end may begin with the last three bytes. */
	*seen = in.count > 3 ? in.count - 3 : 0;
	return 0;
}

/* ---- the request line ---- */

static bool is_clean(struct bytes text)
{
	for (size_t i = 0; i < text.count; i++) {
		unsigned char byte = (unsigned char)text.at[i];

		if (byte <= ' ' || byte >= 127)
			return false;
	}
	return text.count > 0;
}

/* A proxy's form, http://host/path, has to be understood too (RFC 9112, 3.2.2). */
static struct bytes without_origin(struct bytes target)
{
	const char *slash;

	if (target.count < 7 || strncasecmp(target.at, "http://", 7) != 0)
		return target;
	target = bytes_skip(target, 7);
	slash = memchr(target.at, '/', target.count);
	return slash ? bytes_skip(target, (size_t)(slash - target.at)) : bytes_text("/");
}

/* Returns 0, or the status of the refusal; so do those below. */
static int read_request_line(struct bytes line, struct http_head *head)
{
	struct bytes method = bytes_take_until(&line, ' ');
	struct bytes target = bytes_take_until(&line, ' ');

	if (!is_clean(method) || !is_clean(target))
		return 400;
	if (bytes_are(line, "HTTP/1.0"))
		head->is_1_0 = head->closes = true;
	else if (!bytes_are(line, "HTTP/1.1"))
		return line.count > 5 && memcmp(line.at, "HTTP/", 5) == 0 ? 505 : 400;
	head->is_get = bytes_are(method, "GET");
	head->is_head = bytes_are(method, "HEAD");
	head->query = without_origin(target);
	head->path = bytes_take_until(&head->query, '?');
	if (!head->path.count || *head->path.at != '/')
		return head->is_get || head->is_head ? 400 : 405;
	return 0;
}

/* ---- header lines ---- */

static bool is_token(struct bytes name)
{
	static const char allowed[] = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz"
				      "ABCDEFGHIJKLMNOPQRSTUVWXYZ";

	for (size_t i = 0; i < name.count; i++) {
		if (!memchr(allowed, name.at[i], sizeof(allowed) - 1))
			return false;
	}
	return name.count > 0;
}

/* Removes the port, and the brackets of an IPv6 address. false: not a host. */
static bool read_host(struct bytes value, struct bytes *host)
{
	const char *end;

	if (value.count && *value.at == '[') {
		end = memchr(value.at, ']', value.count);
		if (!end)
			return false;
		*host = bytes_of(value.at + 1, (size_t)(end - value.at) - 1);
		value = bytes_skip(value, host->count + 2);
		return !value.count || *value.at == ':';
	}
	*host = bytes_take_until(&value, ':');
	return !memchr(host->at, '/', host->count) && !memchr(host->at, ' ', host->count);
}

static int read_header(struct bytes line, struct http_head *head)
{
	struct bytes value = line, name = bytes_take_until(&value, ':');
	bool is_good = true;

	for (size_t i = 0; i < value.count; i++) {
		unsigned char byte = (unsigned char)value.at[i];

		is_good &= (byte >= ' ' || byte == '\t') && byte != 127;
	}
	/* Without a colon, name is the whole line. A continued line begins with a blank. */
	if (name.count == line.count || !is_token(name) || !is_good)
		return 400;
	value = http_trim(value);
	if (http_is(name, "Host")) {
		is_good = !head->host.at && read_host(value, &head->host);
	} else if (http_is(name, "Connection")) {
		while (value.count)
			head->closes |= http_is(http_trim(bytes_take_until(&value, ',')), "close");
	} else if (http_is(name, "Accept")) {
		head->accept = head->accept.at ? head->accept : value;
	} else if (http_is(name, "Authorization")) {
		is_good = !head->authorization.at;
		head->authorization = value;
	} else if (http_is(name, "Content-Length")) {
		head->has_body |= !bytes_are(value, "0");
	} else if (http_is(name, "Transfer-Encoding")) {
		head->has_body = true;
	}
	return is_good ? 0 : 400;
}

static int read_lines(struct bytes rest, struct http_head *head)
{
	struct bytes line = take_line(&rest);
	int status = read_request_line(line, head);

	while (!status && (line = take_line(&rest)).count)
		status = read_header(line, head);
	if (status)
		return status;
	if (!head->is_1_0 && !head->host.at)
		return 400;
	if (head->has_body)
		return head->is_get || head->is_head ? 413 : 405;
	return 0;
}

enum http_result http_head_read(struct bytes in, size_t *seen, struct http_head *head)
{
	size_t skip = 0;

	*head = (struct http_head){ 0 };
	/* An empty line before a request is ignored (RFC 9112, 2.2). */
	while (skip < in.count && skip < 2 && (in.at[skip] == '\r' || in.at[skip] == '\n'))
		skip++;
	in = bytes_skip(in, skip);
	head->size = find_end(in, seen);
	if (!head->size && in.count < HTTP_HEAD_MAX)
		return HTTP_MORE;
	in.count = head->size;
	head->status = in.count && in.count <= HTTP_HEAD_MAX ? read_lines(in, head) : 431;
	head->size += skip;
	head->closes |= head->status != 0;
	return head->status ? HTTP_BAD : HTTP_OK;
}

/* ---- parts of it ---- */

bool http_decode(struct bytes text, bool is_form, struct buf *out)
{
	for (size_t i = 0; i < text.count; i++) {
		char byte = text.at[i];

		if (byte == '%') {
			int value = i + 2 < text.count ? text_unhex(text.at + i + 1) : -1;

			if (value <= 0)
				return false;
			byte = (char)value;
			i += 2;
		} else if (byte == '+' && is_form) {
			byte = ' ';
		}
		buf_add_byte(out, byte);
	}
	return buf_ok(out);
}

bool http_list_has(struct bytes list, const char *type)
{
	while (list.count) {
		struct bytes item = bytes_take_until(&list, ',');

		if (http_is(http_trim(bytes_take_until(&item, ';')), type))
			return true;
	}
	return false;
}

bool http_read_arguments(struct bytes query, const char *wanted, struct buf *words)
{
	while (query.count) {
		struct bytes value = bytes_take_until(&query, '&');

		if (!http_is(bytes_take_until(&value, '='), wanted))
			continue;
		buf_add_byte(words, ' ');
		if (!http_decode(value, true, words))
			return false;
	}
	return true;
}
