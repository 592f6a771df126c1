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
