/* SPDX-License-Identifier: ISC */
/*
 * Asks a web server for one short document: one GET by HTTP or HTTPS, in the loop.
 */
#ifndef PGWEIR_NET_FETCH_H
#define PGWEIR_NET_FETCH_H

#include "pgweir/base/buf.h"
#include "pgweir/net/dial.h"
#include "pgweir/net/resolver.h"
#include "pgweir/net/stream.h"

#define FETCH_MAX (256 * 1024) /* bytes of an answer with its head */

/* Borrowed until the fetch has ended, but for `tls`. */
struct fetch_with {
	struct loop *loop;
	struct resolver *resolver;
	struct stream_pool *streams;
	const struct socket_options *sockets;
	struct tls_context *tls; /* NULL: not encrypted */
	usec_t limit;            /* for all of it */
};

struct fetch;

/*
 * Called once, from the loop, never by fetch_start(). `body` is valid during the call. err not
 * NULL: it says why there is none. The fetch can be used again.
 */
typedef void fetch_on_done(struct fetch *fetch, struct bytes body, const struct err *err);

/* One at a time. Embedded in its owner; zero it before first use. */
struct fetch {
	fetch_on_done *on_done;
	struct fetch_with with;
	struct resolver_ask ask;
	struct dial dial;
	struct stream stream;
	struct timer timer;
	struct buf request, in;
	size_t seen; /* bytes of `in` without the end of the head */
	char host[256];
};

/*
 * path: with its slash. login: user:password as base64, or "". They hold nothing that ends a line.
 * false: *err; on_done() will not be called.
 */
bool fetch_start(struct fetch *fetch, const struct fetch_with *with, struct bytes host,
                 uint16_t port, struct bytes path, const char *login, fetch_on_done *on_done,
                 struct err *err);

/* on_done() will not be called. Safe if it is not in use. */
void fetch_cancel(struct fetch *fetch);

enum fetch_answer { FETCH_WHOLE, FETCH_MORE, FETCH_BAD };

/*
 * Reads an answer, or the beginning of one. is_all: nothing more comes. *seen: 0 at first, then
 * what the call before left there.
 */
enum fetch_answer fetch_read(struct bytes in, size_t *seen, bool is_all, struct bytes *body,
                             struct err *err);

#endif
