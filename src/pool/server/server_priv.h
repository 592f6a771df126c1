/* SPDX-License-Identifier: ISC */
/*
 * Servers, inside the module. Files come in layers, and call those below only:
 *
 *   server_launch                            up to the startup packet
 *   server_tls  server_frames                what comes from the socket
 *   server_login  server_errors              what it means
 *   server_host  server_blame  server_params
 *   server                                   states, limits, sending, the end
 *   ledger  hosts  params  statements ...    what a server is made of
 */
#ifndef PGWEIR_POOL_SERVER_SERVER_PRIV_H
#define PGWEIR_POOL_SERVER_SERVER_PRIV_H

#include "pgweir/pgwire/frame.h"
#include "pgweir/pool/server/server.h"

/* What becomes of a frame. */
enum frame_fate {
	FRAME_PASS,    /* to the borrower */
	FRAME_READY,   /* the same, and then on_ready() */
	FRAME_DROP,    /* it was for us */
	FRAME_SETTLED, /* the same, a ReadyForQuery: perhaps nothing more is owed */
	FRAME_REPLACE, /* the same, and the borrower is refused in its place */
	FRAME_STAY,    /* not now: it stays where it is, and nothing more is read */
	FRAME_STOP     /* the server is closing: forget all that has come */
};

/* The only place that writes server->state. */
void server_enter(struct server *server, enum server_state next);

/* A zeroed server becomes one that is about to connect. */
void server_init(struct server *server, struct server_site *site, struct pool *pool, uint64_t id);

/* Begins to connect. false: it is closed by now, and on_login_failed() has come. */
bool server_launch(struct server *server);

/*
 * It is to be closed when it comes home, for this reason (the first one counts).
 * CLOSE_NONE: it need not be.
 */
void server_set_close_needed(struct server *server, enum close_reason reason);

/* It is at that host of its pool, as another process of ours found it. false: no such host. */
bool server_find_again(struct server *server, const char *host);

/* It is gone, without a word: freed at the end of the turn. It has no borrower. server.c */
void server_forget(struct server *server);

/* Chooses its host and begins to connect. false: it does not, *err says why. server_host.c */
bool server_find_host(struct server *server, struct err *err);

/* Encrypts its connection if that is wanted; then login->steps->on_secured(). server_tls.c */
void server_secure(struct server *server);

/* Its first message has come. */
void server_heard(struct server *server);

/* Which protocol its address is known to understand, and what the login has shown of that. */
enum host_protocol server_protocol(const struct server *server);
void server_learn_protocol(struct server *server, enum host_protocol protocol);

/* Dials the same address once more. */
void server_dial_again(struct server *server);

/*
 * It has closed the connection during the login. Whether it did that because it does not
 * understand our protocol: then it is being asked once more, for 3.0.
 */
bool server_asks_again(struct server *server);

/* Its login came to its end: the pool's hosts hear of it. */
void server_host_done(struct server *server, bool is_good);

/*
 * What its login waited for, a derived key, is there. true: the server is to be read again.
 * server_login.c
 */
bool server_login_resume(struct server *server);

/* A frame of a server that has not logged in. `in` has the whole of it. */
enum frame_fate server_login_frame(struct server *server, const struct frame *frame,
                                   struct bytes in);

/* Adds to the error of a login that failed whose login that was, where, and with what secret. */
void server_blame(const struct server *server, struct err *err);

/* Judges what was kept while a key was being derived. */
void server_judge_kept(struct server *server);

/* ---- errors: server_errors.c ---- */

/*
 * At least so many bytes of an ErrorResponse, or all of it, are there when it is examined:
 * severity, SQLSTATE, and the words mostly. Each `body` below may be cut after that.
 */
#define ERROR_PREFIX 1024

/* Whether it says that the server is about to go. */
bool server_error_is_fatal(struct bytes body);

/* Closes the server: its error is the reason. */
void server_close_by(struct server *server, struct bytes body);

/*
 * A FATAL error is the last word of a server, and passed on. Another one that nobody asked
 * for ends it: it is out of step.
 */
enum frame_fate server_unasked_error(struct server *server, struct bytes body);

/* An errand has failed. */
void server_errand_error(struct server *server, struct bytes body);

/* A request has failed, and all behind it up to the Sync. */
enum frame_fate server_request_failed(struct server *server, struct bytes body,
                                      enum ledger_verdict verdict);

/* ---- the end of a login, errands, parameters ---- */

/* Ends what there is only during a login. */
void server_login_free(struct server *server);

/* It cannot be used any more: closed at the end of the turn, when what it said has been read. */
void server_break(struct server *server);

/* A transaction is over. Not settled: the next one follows at once. */
void server_end_transaction(struct server *server, bool is_settled);

/* Memory that stays for the next errand, in bytes: all servers share two such buffers. */
#define ERRAND_KEEP_MAX ((size_t)4096)

/* Sends a query of our own. */
bool server_errand(struct server *server, enum errand_kind kind, const char *query);

/* An errand has been answered in full; errand_failed says how. */
void server_errand_done(struct server *server);

/*
 * Has a query of our own go in front of what is sent next, in the same write. Nobody waits
 * for its answer, so its failure must be harmless: the server serves nobody else after it.
 */
bool server_errand_ahead(struct server *server, const char *query);

/*
 * The words that bring the server's parameters to `want`; empty: nothing to do. true: it
 * would do no harm if they failed.
 */
bool server_replay_text(const struct server *server, const struct params *want, struct buf *text);

/*
 * A ParameterStatus of a server that has logged in. *is_news: the borrower does not know that
 * value. false: it reports without end, and must be closed.
 */
bool server_report(struct server *server, const char *name, const char *value, bool *is_news);

/* What it has reported becomes part of its maps: before these are read. */
void server_settle_reports(struct server *server);

/*
 * The server has reset parameters. is_all: all of them, so they are its defaults;
 * else those that it does not report may be anything now.
 */
void server_forget_rest(struct server *server, bool is_all);

/* The pool's limits have changed: the new ones count from when the old ones did. */
void server_rearm(struct server *server);

extern const struct stream_ops server_stream_ops;

/* What a timer of each kind does when it is due. */
void server_connect_due(struct timer *timer);
void server_check_due(struct timer *timer);
void server_query_due(struct timer *timer);
void server_idle_transaction_due(struct timer *timer);
void server_transaction_due(struct timer *timer);

#define SERVER_OF(member, field) \
	((struct server *)((char *)(member)-offsetof(struct server, field)))

#endif
