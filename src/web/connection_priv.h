/* SPDX-License-Identifier: ISC */
/*
 * Connections of HTTP clients: their requests come one after the other, and each has one answer,
 * whole or in pieces. All of this belongs to the thread of the web server.
 */
#ifndef PGWEIR_WEB_CONNECTION_PRIV_H
#define PGWEIR_WEB_CONNECTION_PRIV_H

#include "pgweir/base/buf.h"
#include "pgweir/net/address.h"
#include "pgweir/net/stream.h"
#include "pgweir/web/web.h"

#include "http_head_priv.h"

#define CONNECTIONS_MAX WEB_CONNECTIONS_MAX
#define CONNECTIONS_KEPT 8 /* of those: never for long answers, so that health is answered */

struct connection;
TAILQ_HEAD(connection_list, connection);

/* What all connections share. */
struct connections {
	struct loop *loop;
	struct stream_pool streams;
	struct connection_list list;
	unsigned int count;
	/*
	 * A request has come. The callee answers it now, or keeps it with connection_keep() and
	 * answers later. `head` is valid during the call only.
	 */
	void (*on_request)(void *arg, struct connection *connection, const struct http_head *head);
	void *arg;
};

/* An answer that is not made at once. Embedded in an object of its maker. */
struct answer_maker {
	/* All output has been sent: more may be added. NULL: not wanted. */
	void (*go_on)(struct answer_maker *maker);
	/*
	 * The connection is gone, or the answer took too long and was refused: the maker must
	 * forget it. Not called after connection_end() or connection_answer().
	 */
	void (*on_gone)(struct answer_maker *maker);
};

enum connection_state {
	CONNECTION_SECURING,  /* TLS handshake */
	CONNECTION_READING,   /* waits for a request */
	CONNECTION_ANSWERING, /* a request has come, its answer is not complete */
	CONNECTION_ENDING,    /* the last answer was made: waits until the client has read it */
	CONNECTION_CLOSED     /* freed at the end of the turn */
};

struct connection {
	TAILQ_ENTRY(connection) node;
	struct connections *all;
	enum connection_state state;
	struct stream stream;
	struct address peer;
	struct timer timer;
	struct task task; /* continues, or frees the connection */
	struct answer_maker *maker;
	size_t seen;     /* see http_head_read() */
	struct buf head; /* of the current request */
	bool is_head;    /* HEAD: the answer has no body */
	bool closes;     /* the connection ends with this answer */
	bool is_chunked; /* pieces are chunks */
};

void connections_init(struct connections *all, struct loop *loop);

/* Closes all connections. The loop must not run. */
void connections_close(struct connections *all);

/* No handshake of them may be running any more. */
void connections_done(struct connections *all);

/*
 * Takes over an accepted socket. tls: NULL, or begins with a handshake. Refuses the client if there
 * are too many.
 */
void connection_open(struct connections *all, int fd, const struct address *peer,
                     struct tls_context *tls);

/* Whether as many are being answered as may be, but for those that are kept. */
bool connections_are_busy(const struct connections *all);

/* The request will be answered later by `maker`, which stays valid until then. */
void connection_keep(struct connection *connection, struct answer_maker *maker);

/* How to answer. */
struct answer_head {
	int status;
	const char *type;   /* Content-Type */
	const char *fields; /* further header lines, each with its CR LF; NULL: none */
};

/* Answers with a whole body. */
void connection_answer(struct connection *connection, const struct answer_head *head,
                       struct bytes body);

/* Answers with an error as JSON. hint: NULL, or what to do. */
void connection_answer_error(struct connection *connection, int status, const char *text,
                             const char *hint);

/*
 * Answers in pieces. connection_add() returns whether the client has room; if not, or to wait for
 * it, go_on() is called later. After connection_begin() or connection_add() returned false, the
 * connection may be gone, and on_gone() was called; check with connection_is_answering().
 */
void connection_begin(struct connection *connection, const struct answer_head *head);
bool connection_add(struct connection *connection, struct bytes piece);
void connection_end(struct connection *connection);

static inline bool connection_is_answering(const struct connection *connection)
{
	return connection->state == CONNECTION_ANSWERING;
}

/* The answer cannot be completed: the client must notice, so the connection is closed. */
void connection_abort(struct connection *connection);

#endif
