/* SPDX-License-Identifier: ISC */
/*
 * The head of an HTTP request (RFC 9110, RFC 9112): read from bytes, without copying. All bytes in
 * the results point into the head.
 */
#ifndef PGWEIR_WEB_HTTP_HEAD_PRIV_H
#define PGWEIR_WEB_HTTP_HEAD_PRIV_H

#include "pgweir/base/buf.h"
#include "pgweir/base/bytes.h"

#define HTTP_HEAD_MAX ((size_t)8192)

enum http_result {
	HTTP_OK,
	HTTP_MORE, /* too few bytes to decide */
	HTTP_BAD   /* head->status says how to refuse it */
};

struct http_head {
	size_t size;          /* bytes of the whole head */
	int status;           /* HTTP_BAD: the status of the answer */
	bool is_get, is_head; /* neither: another method */
	bool is_1_0;          /* HTTP/1.0 */
	bool closes;          /* the connection ends with the answer */
	bool has_body;
	struct bytes path, query; /* as sent */
	struct bytes host;        /* without port and brackets; .at NULL: none */
	struct bytes accept, authorization;
};

/*
 * Reads the head at the start of `in`. *seen: bytes that an earlier call with the same head found
 * to contain no end; 0 at first. So the work is linear even if a head arrives byte by byte.
 */
enum http_result http_head_read(struct bytes in, size_t *seen, struct http_head *head);

/* Adds `text` to `out` with %XX decoded, and + as a blank if `is_form`. false: invalid. */
bool http_decode(struct bytes text, bool is_form, struct buf *out);

/* Takes the next "name=value" from the front of a query. false: there is none. */
bool http_query_next(struct bytes *query, struct bytes *name, struct bytes *value);

/* Whether a list such as that of Accept has this media type; its parameters are ignored. */
bool http_list_has(struct bytes list, const char *type);

/* Whether `a` is this ASCII text; upper and lower case are equal. */
bool http_is(struct bytes a, const char *text);

#endif
