/* SPDX-License-Identifier: ISC */
/*
 * What the files of the web server share. After the start everything belongs to its thread, except
 * what is marked.
 */
#ifndef PGWEIR_WEB_WEB_PRIV_H
#define PGWEIR_WEB_WEB_PRIV_H

#include <stdatomic.h>

#include "pgweir/admin/console.h"
#include "pgweir/auth/failures.h"
#include "pgweir/base/container_of.h"
#include "pgweir/base/refs.h"
#include "pgweir/base/table.h"
#include "pgweir/loop/crew.h"
#include "pgweir/net/listener.h"
#include "pgweir/net/stream.h"
#include "pgweir/web/web.h"

/* ---- heads of requests (RFC 9110, RFC 9112); all bytes point into the head: connection.c ---- */

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
	bool is_1_0;          /* HTTP/1.0: it closes, and the end of the connection ends the body */
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

/* Adds " value" for each wanted=value of a query. false: HTTP_BAD_ADDRESS. */
bool http_read_arguments(struct bytes query, const char *wanted, struct buf *words);

#define HTTP_BAD_ADDRESS "the address is not well encoded"

/* Whether a list such as that of Accept has this media type; its parameters are ignored. */
bool http_list_has(struct bytes list, const char *type);

/* Without blanks, tabs and CR at both sides. */
struct bytes http_trim(struct bytes text);

/* Whether `a` is this ASCII text; upper and lower case are equal. */
bool http_is(struct bytes a, const char *text);

/*
 * ---- which part of the main thread's time goes to pieces of tables: reader.c ----
 *
 *   a piece of 1 ms is paid for after 5 ms     paid_at += 5 * 1 ms
 *   the next one may begin 5 ms before that    so small tables are made at once
 */

#define BUDGET_SHARE 5                /* pieces may take one of so many parts of the time, */
#define BUDGET_AT_ONCE ((usec_t)5000) /* and all of this time's share at once */

/* A zeroed one is whole. */
struct budget {
	usec_t paid_at; /* when all pieces so far have had their share of the time */
};

/* When the next piece may be made; a time in the past: now. */
usec_t budget_next_at(const struct budget *budget);

/* A piece that was begun `now` has taken so much CPU time. What was not used is not kept. */
void budget_spend(struct budget *budget, usec_t now, usec_t took);

/*
 * ---- SHOW tables for the thread of the web server: reader.c ----
 *
 *   reader_next() --letter--> main thread: table_next() --letter--> on_piece()
 */

/* More are refused: those that were given up wait for the main thread, which may hang. */
#define READERS_MAX 1000

/* Where pieces are made, and where they are wanted. */
struct readers {
	struct console *console;
	struct loop *main_loop, *web_loop;
	TAILQ_HEAD(, reader) list;
	unsigned int count;
	/* of the main thread: */
	struct timer_queue *pauses;   /* NULL: no memory, and no pauses */
	struct budget tables, probes; /* a probe waits for no table */
};

/* Called in its loop with a piece, which is valid until reader_next() or reader_end(). */
typedef void reader_on_piece(void *arg);

enum reader_state {
	READER_RESTS,
	READER_AWAY, /* with the main thread, or on the way */
	READER_BACK  /* with a piece, which on_piece() or its caller later takes */
};

/* For reader.c only, but for state and result; and `budget`, `skips_unused` until it is away. */
struct reader {
	struct letter letter;
	struct readers *readers;
	TAILQ_ENTRY(reader) node;
	reader_on_piece *on_piece; /* NULL: nobody wants it any more */
	void *arg;
	enum reader_state state;
	bool skips_unused; /* see table_begin() */
	/* what the main thread uses while the reader is away */
	struct budget *budget;
	struct timer pause;
	struct table *table;
	struct buf piece;
	enum table_result result; /* of the last piece; TABLE_BROKEN: `err` says why */
	struct err err;
	char words[];
};

void readers_init(struct readers *readers, struct console *console, struct loop *main_loop,
                  struct loop *web_loop);

/* Frees all readers. Neither loop may run but the caller's, the main loop. */
void readers_done(struct readers *readers);

/* `words` is what would follow SHOW. Nothing is read yet. NULL: no memory, or too many. */
struct reader *reader_new(struct readers *readers, const char *words, reader_on_piece *on_piece,
                          void *arg);

/* Asks for a piece, if none is on the way. */
void reader_next(struct reader *reader);

/* on_piece() will not be called any more. Accepts NULL. */
void reader_end(struct reader **reader);

/* Takes the next row off the piece: texts; .at NULL: SQL's NULL. false: none is left. */
bool reader_take(struct bytes *piece, struct bytes values[COLUMNS_MAX]);

/* ---- connections: connection.c. One request after the other, each with one answer ---- */

#define CONNECTIONS_KEPT 8 /* of those: never for long answers, so that health is answered */

struct connection;
TAILQ_HEAD(connection_list, connection);

/* What all connections share. */
struct connections {
	struct loop *loop;
	struct stream_pool streams;
	struct connection_list list;
	unsigned int count;
	struct failures failures;   /* wrong secrets, */
	unsigned int delayed_count; /* whose answers are delayed */
	struct readers readers;
	/*
	 * A request has come. The callee answers it now, or begins an answer in parts. `head` is
	 * valid until the answer is complete.
	 */
	void (*on_request)(struct connection *connection, const struct http_head *head);
};

/* How to answer. */
struct answer_head {
	int status;
	const char *type;   /* Content-Type */
	const char *fields; /* further header lines, each with its CR LF; NULL: none */
};

/* An answer of tables, in parts. First in an object of its maker, that the connection frees. */
struct answer {
	struct connection *connection;
	struct answer_head head;
	struct reader *reader; /* NULL: nothing is being read */
	/*
	 * Adds the next part, perhaps an empty one: a piece has come, or there is no reader. All
	 * before it was sent. TABLE_BROKEN: the connection ends, so that the client notices.
	 */
	enum table_result (*next)(struct answer *answer, struct buf *out);
	/* So long a piece may take; then next() is called without it. 0: the connection ends. */
	usec_t limit;
	void (*on_over)(struct answer *answer); /* before it is freed; NULL: nothing to do */
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
	struct task task;      /* continues, or frees the connection */
	struct answer *answer; /* in parts; NULL: none */
	struct buf in;         /* begins with the current request, */
	struct http_head head; /* which has this head */
	size_t seen;           /* see http_head_read() */
	bool is_delayed;       /* a wrong secret was sent: 401 is the answer when the timer ends */
	struct failure *failure;
	bool is_begun; /* the head of an answer in parts is out */
};

void connections_init(struct connections *all, struct loop *loop);

/* Closes all connections. The loop must not run. */
void connections_close(struct connections *all);

/* Owns the socket. tls: NULL, or begins with a handshake. Refuses one too many. */
void connection_open(struct connections *all, int fd, const struct address *peer,
                     struct tls_context *tls);

/* Whether as many are being answered as may be, but for those that are kept. */
bool connections_are_busy(const struct connections *all);

/*
 * Begins an answer in parts, in zeroed memory of this size, with status 200; fill in what else it
 * needs. NULL: no memory, and the connection is closed.
 */
void *connection_begin_answer(struct connection *connection, size_t size, const char *type,
                              enum table_result (*next)(struct answer *answer, struct buf *out));

/* Reads this SHOW next. A failure is answered. false: no memory. */
bool connection_read_table(struct answer *answer, const char *words);

void connection_answer(struct connection *connection, const struct answer_head *head,
                       struct bytes body);

/* Answers with an error as JSON. hint: NULL, or what to do. */
void connection_answer_error(struct connection *connection, int status, const char *text,
                             const char *hint);

#define WRONG_SECRET_TEXT "a user and password, or a token, is needed"

/* Answers 401 to a wrong secret, after a delay. */
void connection_refuse_later(struct connection *connection, usec_t delay);

/* There is no answer. */
void connection_close(struct connection *connection);

/* ---- secrets and rights: web.c ---- */

/* The secrets of metrics_secret_file. Zeroed: none. */
struct secrets {
	size_t count;
	unsigned char (*hashes)[32]; /* SHA-256 */
};

/* Adds the secrets of a file. false: *err says which line is invalid; free what is there. */
bool rights_read_secrets(struct secrets *secrets, const char *path, struct err *err);

void rights_free_secrets(struct secrets *secrets);

/* Whether the value of an Authorization line has one of them. .at NULL: there is no such line. */
bool rights_have_secret(const struct secrets *secrets, struct bytes authorization);

struct web_rights {
	struct refs refs;
	const struct config *config; /* one reference */
	struct ranges *allow;        /* addresses that may connect at all */
	struct secrets secrets;
	struct tls_context *tls; /* for new TCP connections; NULL: no TLS */
};

/* ---- metrics: which SHOW each comes from, and how it is written ---- */

enum metric_type { METRIC_GAUGE, METRIC_COUNTER };

/* What a value is made of. */
enum metric_value {
	METRIC_NUMBER,
	METRIC_MICROSECONDS, /* written in seconds */
	METRIC_SUM_OF_TIME   /* seconds in this column, microseconds in the next one */
};

struct metric {
	const char *name;   /* a counter's name ends with _total */
	const char *help;   /* NULL: that of the column */
	const char *column; /* NULL: the number of rows, which is 1 unless METRICS_GROUPED */
	const char *key; /* of a table of names and values: the row, by its first column; or NULL */
	enum metric_type type;
	enum metric_value value;
};

enum metrics_kind {
	METRICS_ROWS,    /* one sample for each row */
	METRICS_GROUPED, /* one sample for rows with the same labels: how many, or the greatest
	                    value */
	METRICS_BUCKETS  /* rows of buckets, for which all labels are set and no others */
};

#define METRICS_LABELS_MAX 6

struct metrics_source {
	const char *words; /* what follows SHOW */
	enum metrics_kind kind;
	const struct metric *metrics;
	size_t count;
	const char *labels[METRICS_LABELS_MAX]; /* columns whose names are labels; ends with NULL */
	/* METRICS_BUCKETS: before all names; and if there are more rows, it is left out. 0: no
	 * limit */
	const char *prefix;
	size_t rows_max;
};

/* ---- writing ---- */

/* What a row of the SHOW, or all rows with the same labels, have for the metrics. */
struct metrics_row {
	STAILQ_ENTRY(metrics_row) node;
	UT_hash_handle hh;               /* METRICS_GROUPED */
	size_t metric;                   /* METRICS_BUCKETS: the only one, and */
	int64_t values[COLUMNS_MAX + 1]; /* those of the columns; else of each metric */
	size_t size;
	char labels[]; /* "{...}", or "" */
};

/* One source that is being read, then written. Zeroed: nothing is read. */
struct metrics_text {
	bool is_openmetrics;
	const struct metrics_source *source;
	struct columns columns; /* of its table */
	/* of the row that is read; the last one stands for columns that the table has not */
	struct bytes values[COLUMNS_MAX + 1];
	size_t row_count, size; /* read; bytes of those that are kept */
	STAILQ_HEAD(, metrics_row) rows;
	struct hash_key secret;
	struct metrics_row *groups; /* METRICS_GROUPED: by labels */
	size_t metric;              /* the next one to be written */
};

/* Takes a piece of the source. false: no memory, or too much. */
bool metrics_take(struct metrics_text *text, struct bytes piece);

/* The source is complete: adds the next metric to `out`. true: it was the last one. */
bool metrics_write(struct metrics_text *text, struct buf *out);

/* Begins the next source, or frees everything (NULL). */
void metrics_begin(struct metrics_text *text, const struct metrics_source *source);

/* ---- the web server ---- */

/* A place of metrics_listen, with its socket. */
struct web_place {
	char address[256]; /* "" = a Unix socket */
	uint16_t port;
	const char *path;          /* of the Unix socket; in the snapshot that the web server has */
	struct listener *listener; /* NULL: not open */
	unsigned int failed_count; /* since it was open */
};

struct web {
	struct web_with with;
	struct solo *solo;
	struct loop *loop; /* of `solo` */
	struct logger log;
	struct connections connections;
	unsigned int scrape_count;
	usec_t started_at;      /* by the wall clock */
	struct buf page_fields; /* header lines of the page */
	struct web_place *places;
	size_t place_count;
	struct timer retry;   /* opens places that could not be opened */
	struct letter change; /* of what the main thread sets: */
	atomic_bool may_listen, is_change_posted;
	struct web_rights *_Atomic fresh; /* the next `rights`; NULL: they stay */
	struct web_rights *rights;
};

#define WEB_OF(connection) container_of((connection)->all, struct web, connections)

/* ---- /metrics, for on_request: metrics.c ---- */

void metrics_answer(struct connection *connection, const struct http_head *head);
void metrics_answer_histograms(struct connection *connection, const struct http_head *head);

#endif
