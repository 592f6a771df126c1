/* SPDX-License-Identifier: ISC */
/*
 * Reads the head of an HTTP request.
 *
 * Hard here: programs in front of us (proxies) and we must not understand a request differently.
 * So what is ambiguous is refused: blanks before a colon, continued lines, control characters,
 * two Host lines. A request with a body is refused too, and its connection is closed, so the
 * length of a body never matters.
 */
#include "web_priv.h"

#include <strings.h>

#include "pgweir/base/text.h"

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

/* ---- where the head ends ---- */

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
	static const char others[] = "!#$%&'*+-.^_`|~";

	for (size_t i = 0; i < name.count; i++) {
		char byte = name.at[i];
		bool is_alnum = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
		                (byte >= '0' && byte <= '9');

		if (!is_alnum && (!byte || !strchr(others, byte)))
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

bool http_query_next(struct bytes *query, struct bytes *name, struct bytes *value)
{
	while (query->count) {
		*value = bytes_take_until(query, '&');
		*name = bytes_take_until(value, '=');
		if (name->count)
			return true;
	}
	return false;
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
	struct bytes name, value;

	while (http_query_next(&query, &name, &value)) {
		if (!http_is(name, wanted))
			continue;
		buf_add_byte(words, ' ');
		if (!http_decode(value, true, words))
			return false;
	}
	return true;
}
