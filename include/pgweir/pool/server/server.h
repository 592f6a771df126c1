/* SPDX-License-Identifier: ISC */
/*
 * A server: one connection to PostgreSQL, from the connection attempt to its end. A pool owns the
 * server.
 *
 *   CONNECTING -> LOGIN -> IDLE <-> LENT -> RESETTING -> IDLE
 *                           | ^
 *                           v |
 *                  USED -> CHECKING
 *
 * While the server is lent, its borrower sends bytes by server_send(), and notes each request by
 * server_note() before that. The ledger classifies each reply, and the borrower gets the replies
 * that are for its client.
 *
 * A server that is closed while it runs a statement, for a reason of ours, has no borrower any
 * more, and its state is ENDING until the statement is cancelled: LENT -> ENDING -> CLOSING.
 *
 * A dedicated server (replication) is launched for one borrower, lent to it after the login, and
 * closed when the borrower returns it: LOGIN -> LENT -> CLOSING.
 */
#ifndef PGWEIR_POOL_SERVER_SERVER_H
#define PGWEIR_POOL_SERVER_SERVER_H

#include "pgweir/auth/auth_client.h"
#include "pgweir/base/close_reason.h"
#include "pgweir/base/log.h"
#include "pgweir/loop/loop.h"
#include "pgweir/loop/workers.h"
#include "pgweir/net/dial.h"
#include "pgweir/net/resolver.h"
#include "pgweir/net/stream.h"
#include "pgweir/net/tls.h"
#include "pgweir/pool/server/borrower.h"
#include "pgweir/pool/server/hosts.h"
#include "pgweir/pool/server/statements.h"
#include "pgweir/pool/server/ledger.h"
#include "pgweir/pool/server/params.h"
#include "pgweir/pool/server/question.h"
#include "pgweir/pool/server/replay.h"

#define SERVER_KEY_MAX 260 /* bytes of a cancel key: process id and secret */

enum server_state {
	SERVER_CONNECTING, /* its host name is looked up, or its socket is connecting */
	SERVER_LOGIN,      /* from the startup packet to the end of connect_query */
	SERVER_IDLE,       /* in its pool, can be lent */
	SERVER_USED,       /* idle so long that it must be checked before use */
	SERVER_CHECKING,   /* the check query is running */
	SERVER_LENT,       /* lent to a borrower */
	SERVER_RESETTING,  /* returned; the reset query is running */
	SERVER_CANCELED,   /* returned while a cancel for it is in progress */
	SERVER_ENDING,     /* to be closed, but PostgreSQL still runs a statement there */
	SERVER_CLOSING,    /* closed; freed at the end of the turn */
	SERVER_STATES
};

/* How it goes out. */
enum errand_how {
	ERRAND_AT_ONCE, /* as a simple query, which drops the unnamed statement of the session */
	ERRAND_APART    /* by messages that leave that alone */
};

/* Values of sequences that currval() and lastval() may give there. */
enum server_sequences {
	SEQUENCES_FOREIGN, /* maybe of several borrowers, or of one at another time */
	SEQUENCES_NONE,    /* nobody has had the server since its login */
	SEQUENCES_OWN      /* only of its owner; without one, of the borrower of its pairing */
};

/* DISCARD SEQUENCES ahead of a borrower's message. */
enum server_discard {
	DISCARD_NONE,  /* none was sent, or it is answered */
	DISCARD_SENT,  /* it was or will be sent, and `sequences` is its result */
	DISCARD_NEEDED /* the same, and a statement behind it asks for values of sequences */
};

/*
 * Whether session state may be there that nobody knows of. A server in doubt is cleaned ahead of
 * the first message of another borrower: pool_prepare().
 */
enum server_doubt {
	DOUBT_NONE,   /* PostgreSQL has said what is there, or that nothing can be */
	DOUBT_OWN,    /* it would be of the current or last borrower, since it got the server */
	DOUBT_FOREIGN /* it may be of another: to be cleaned, or the cleaning is not confirmed */
};

/* What is known of the scope in which statements are prepared. */
enum server_scope_state {
	SCOPE_KNOWN,
	SCOPE_OPEN,     /* the borrower may have changed it since it was known */
	SCOPE_OPEN_USED /* the same, and statements were prepared or used since */
};

/* What a borrower wants to be asked about. */
enum server_watch {
	SERVER_WATCHES_NOTIFICATIONS = 1 << 0, /* takes_notification() */
	SERVER_WATCHES_READY = 1 << 1,         /* holds_ready() */
	SERVER_WATCHES_PARAMETERS = 1 << 2,    /* takes_parameter() */
	SERVER_WATCHES_END = 1 << 3,           /* server_end_seen() */
	SERVER_WATCHES_CALLS = 1 << 4          /* on_call() */
};

/* How a text ended its transaction, or undid a part of it, according to the tags. */
enum server_end {
	SERVER_END_NONE,
	SERVER_END_COMMIT,
	SERVER_END_ROLLBACK /* ROLLBACK TO has the same tag */
};

TAILQ_HEAD(server_list, server);

struct server_question;
struct catalog_question;
struct server_calls;

/*
 * What all servers of one loop use. All pointers are borrowed; the owner of the pools updates them.
 * What has no remark here does not change while there are servers.
 */
struct server_shared {
	struct loop *loop;
	struct log *log;
	struct stream_pool *streams;
	struct resolver *resolver;
	struct workers *workers;      /* derive keys for logins, */
	struct workers *slow_workers; /* if the server asks for many iterations */
	struct verifiers *verifiers;
	struct params_table *params;
	struct statements *statements; /* the query texts that clients prepare */
	struct close_counts *closes;   /* why servers were closed */
	/* written again for each errand; the memory is kept */
	struct buf *errand_message;
	const struct socket_options *sockets; /* for new connections; the values may change */
	const struct config *config;          /* the snapshot in force; changes at a reload */
	struct tls_context *tls;              /* for new connections; NULL: no TLS. May change */
};

/* Time limits. NULL: no limit. They change with the configuration: server_rearm(). */
struct server_limits {
	struct timer_queue *connect;          /* server_connect_timeout */
	struct timer_queue *idle;             /* server_idle_timeout */
	struct timer_queue *check;            /* server_check_delay, if there is a check query */
	struct timer_queue *life;             /* server_lifetime */
	struct timer_queue *query;            /* query_timeout */
	struct timer_queue *idle_transaction; /* idle_transaction_timeout */
	struct timer_queue *transaction;      /* transaction_timeout */
	struct timer_queue *ending;           /* cancel_wait_timeout, in ENDING */
	usec_t retry_gap;                     /* how long a host that refused is not used */
};

/* What the servers of one pool share. Owned by the pool, which outlives them. */
struct server_site {
	const struct server_shared *shared;
	const struct server_ops *ops;
	const char *database;                /* name of the entry */
	const char *user;                    /* the role they log in as */
	const struct config_database *entry; /* of the snapshot in force */
	struct server_limits limits;
	bool cannot_clean;   /* PostgreSQL has refused the cleaning: server_cleaning_end() */
	bool is_followed;    /* session state follows clients from one of them to another */
	struct hosts *hosts; /* where they are; of the pool in all loops */
	/* the roles of the hosts, and what a host must be; NULL: not known, and any */
	struct roster *roster;
	enum target_session_attrs target;
	const char *tls_host;   /* whose certificate is expected; NULL: that of the host */
	bool is_watch;          /* a host watch: attempts are neither logged nor counted */
	uint64_t *client_bytes; /* counts bytes that borrowers send */
	uint64_t *server_bytes; /* counts bytes that arrive after the login */
	uint64_t *all_client_bytes, *all_server_bytes; /* the same for all pools together */
	/* counts errors that clients get; NULL: there are no clients */
	struct sqlstates *sqlstates;
	struct sparse_sum *closes; /* why servers of the database were closed; NULL: not counted */
};

/*
 * What a server calls in its pool. on_free() is called from the loop; all others may be called
 * within any function of the server.
 */
struct server_ops {
	/* The state has changed; it was `from`. CLOSING is the last state. */
	void (*on_state)(struct server *server, enum server_state from);
	/* It is closed, and so is its socket: PostgreSQL does not count it any more. */
	void (*on_released)(struct server *server);
	/* server->close_reason has changed. */
	void (*on_close_needed)(struct server *server);
	/*
	 * The server has shown what its host is: it has reported that, or has answered the role
	 * question. Not called if the target is any.
	 */
	void (*on_report)(struct server *server, const struct host_report *report);
	/* The login and connect_query are done: the server is ready, and still in LOGIN. */
	void (*on_login_done)(struct server *server);
	/* The server was closed before that. */
	void (*on_login_failed)(struct server *server, const struct err *err);
	/* A check or a reset is done: the server is ready, has no borrower, and can be lent. */
	void (*on_home)(struct server *server);
	/*
	 * The server has refused its borrower's parameters (server->session.refusal). Its own are
	 * unchanged.
	 */
	void (*on_params_refused)(struct server *server);
	/*
	 * The state is ENDING now, for server->close_reason: cancel the statement, then call
	 * server_forget(). NULL: statements are not cancelled.
	 */
	void (*on_ending)(struct server *server);
	/* The server was closed while lent to this borrower, whose on_lost() comes next. */
	void (*on_borrower_lost)(struct server *server, struct borrower *borrower);
	/* A DNS lookup no longer returns the server's address. */
	void (*on_address_removed)(struct server *server);
	/* A login at a host that has failed begins (1) or ends (-1): no borrower relies on it. */
	void (*on_probe)(struct server *server, int change);
	/* Whether such a login may begin: the pool may need another server beside it. */
	bool (*may_probe)(const struct server *server);
	/* Its address is known: whether it may connect there. false: it is closed. */
	bool (*may_connect)(struct server *server);
	/* The credentials of the login. */
	const struct credentials *(*credentials)(const struct server *server);
	/* Adds to a text which secret that is, and where it comes from. */
	void (*tell_secret)(const struct server *server, struct buf *out);
	/*
	 * ERRAND_CATALOG: a row of the answer, and its end, before on_home(), or before
	 * on_answer() of the borrower. The server may be closed without the end.
	 */
	void (*on_catalog_row)(struct server *server, struct bytes body);
	void (*on_catalog_end)(struct server *server, bool has_failed);
	/* A command has changed definitions; and again when its transaction has ended. */
	void (*on_definition)(struct server *server);
	/* server->session.has_library was set. */
	void (*on_library)(struct server *server);
	/* The turn in which the server was closed has ended: free it. */
	void (*on_free)(struct server *server);
};

/* State that exists only until the server has logged in. */
struct server_login {
	struct dial dial;
	void (*on_connected)(struct dial *dial, int fd, const struct err *err);
	struct resolver_ask ask;
	struct server *server;
	/* until the host's first message, if there is another host to try */
	struct timer patience;
	bool is_test;             /* its address had failed: hosts_pick() */
	bool is_probe;            /* the host had failed: no borrower relies on this login */
	struct auth_client *auth; /* until AuthenticationOk */
	bool is_working;          /* a worker thread is deriving a key */
	bool has_spoken;          /* the first message has arrived */
	bool is_again;         /* it rejected a newer protocol version: second attempt, with 3.0 */
	uint32_t asked;        /* the protocol version that was requested */
	struct buf parameters; /* ParameterStatus so far: name\0value\0 */
	enum host_role role;   /* the answer to the role question */
	bool is_read_only;
	bool is_role_short; /* the short role question is asked */
};

/* What goes over the connection: what is owed, and what is half sent or half read. */
struct server_wire {
	struct stream stream;
	struct ledger ledger;
	char status;          /* of the last ReadyForQuery: 'I', 'T', 'E' */
	bool is_ready;        /* nothing was sent since the last ReadyForQuery */
	bool is_mid_request;  /* only a part of the borrower's last frame was sent */
	bool is_mid_response; /* the borrower has got the start of a frame, but not its end */
	bool got_fatal;       /* the server has sent a FATAL error */
	bool is_finished;     /* in ENDING: nothing more is sent */
	/* reported so many parameters in this turn that reading waits for the next */
	bool has_flooded;
	bool forwards_rest;     /* whether the rest of the current frame is forwarded, or dropped */
	uint32_t frame_left;    /* bytes of the current frame that are still to come */
	uint64_t received;      /* bytes read from it */
	struct buf replacement; /* sent to the borrower instead of the current frame */
	/*
	 * the message of an error after which a batch is sent again: the borrower gets it if the
	 * batch fails again before its Bind
	 */
	struct buf withheld;
	struct buf prefix; /* an internal query to be sent ahead of the next request */
	struct ledger_change prefix_change; /* of that query */
	/* what was sent behind our prefix must not be answered: the prefix failed. Or NONE */
	enum close_reason prefix_failure;
	struct server_calls *calls; /* NULL: none so far. server_calls.c */
};

/* What is set and prepared in the session, and what borrowers may have left there. */
struct server_session {
	/* the parameters set there, without those at their default */
	const struct params *params;
	const struct params *before;     /* `params` before ERRAND_REPLAY, while that runs */
	const struct params *forgotten;  /* `params` after the last RESET; held, or NULL */
	const struct params *baseline;   /* what it reported at its login: its defaults */
	const struct params *unreported; /* defaults by connect_query, not reported; or NULL */
	/* reported during the borrower's work; not yet in `params` or `baseline` */
	struct buf reports;
	unsigned int report_count; /* reports that no borrower's work explains */
	/* why the server refused the parameters of ERRAND_REPLAY; or NULL */
	struct err *refusal;
	struct server_statements statements; /* the prepared statements it has */
	struct text_scope scope; /* the scope of `params`, in which statements are prepared */
	enum server_scope_state scope_state;
	/* a value was reported in another encoding than that of the database, which maps have */
	bool has_unclear_report;
	/* a RESET ran: parameters that are not reported may have any value */
	bool is_rest_unknown;
	/* facts: some of the parameters that its client gave at the startup were set back */
	bool is_startup_unset;
	bool has_session; /* lent in session mode and not reset since */
	/* its borrower may have left session state there that nobody else may see */
	bool is_dirty;
	bool has_library; /* a library was loaded there for a borrower: it cannot be removed */
	bool has_ddl;     /* the transaction may have changed what functions do */
	unsigned int load_count; /* LOAD that succeeded and that the borrower has not settled */
	enum server_doubt doubt;
	enum server_sequences sequences;
	enum server_discard discard;
	struct ledger_change discard_change; /* of DISCARD SEQUENCES ahead of another message */
};

/* Who has it, for what, and since when. */
struct server_lease {
	struct borrower *borrower;
	struct borrower *expected_by; /* the only borrower it is being launched for; else NULL */
	struct replay replay;         /* what the borrower sent and may send again */
	uint8_t watches;              /* enum server_watch, by its borrower */
	enum server_end end;          /* the one that server_watch_end() looks for */
	unsigned int ends_ahead;      /* that come before it */
	unsigned int unlisten_count;  /* UNLISTEN and DISCARD ALL that it has seen meanwhile */
	unsigned int error_count;     /* of errors that borrowers have got */
	unsigned int cancel_count;    /* cancels for it in progress */
	struct vacancy *vacancy; /* its borrower's DROP DATABASE: pool/vacancy.h; mostly NULL */
	usec_t lent_at;          /* valid in LENT */
	usec_t request_at;       /* start of the current query; 0 = none */
	int64_t request_wall;    /* the same as wall-clock time, for the hand-over */
	/* start of the current transaction; valid in LENT while a transaction runs */
	usec_t xact_at;
	uint64_t pairing;       /* of it and the borrower that got it last; 0: nobody has */
	struct borrower *owner; /* whose `owned` it is; or NULL */
	usec_t owned_at; /* when that one may have called nextval() last; 0: it is not known */
};

/* Where it is: at a host, in lists, and among the loops. */
struct server_place {
	TAILQ_ENTRY(server) node;             /* in the pool's list of this state */
	TAILQ_ENTRY(server) idle_nodes[CAPS]; /* in IDLE and USED: in the lists of its caps */
	bool is_capped;                       /* also in those of CAP_HOST and CAP_ALL */
	struct cap_host *cap_host;            /* where it counts; NULL: nowhere yet */
	TAILQ_ENTRY(server) all_node;         /* in pools->servers, in order of ids */
	unsigned int host;                    /* number of its host in the pool's list */
	struct hosts_place counted;           /* where it is counted */
	struct resolver_watch address_watch;  /* watches its address, if a name was looked up */
	struct address peer;                  /* the address it is connected to */
	char path[108];                       /* and its path, for a Unix socket */
	uint64_t *read_count; /* of its host: database_count_read(). NULL: not looked up yet */
	/* a standby, as its borrowers have found out */
	uint64_t replayed;     /* of the WAL; 0: not known */
	uint64_t started;      /* when PostgreSQL was started; 0: not known */
	usec_t started_at;     /* when that was found out */
	usec_t arrived_at;     /* when it came from another loop; 0: it was opened in this one */
	bool keeps_permit;     /* it moves to another loop, where it counts for the same limits */
	bool is_leaving;       /* written to the hand-over: pool/handover.h */
	bool is_login_counted; /* share_begin_login() */
};

struct server {
	struct server_wire wire;
	struct server_session session;
	struct server_lease lease; /* by the pool */
	struct server_place place; /* by the pool */
	struct logger log;
	struct server_site *site;
	struct pool *pool; /* the owner, which implements site->ops */
	uint64_t id;
	enum server_state state;
	enum replication replication; /* NONE: not dedicated */
	bool is_listening;            /* a listening connection: pool/listening.h */
	enum errand_kind errand;
	bool errand_failed;
	bool is_cleaning;  /* the cleaning is in `prefix`, or was sent and is not answered */
	uint16_t ask_size; /* bytes of a question behind the borrower's message; 0: none */
	struct server_question *question; /* ERRAND_ASK, while that runs; or NULL */
	struct catalog_question *catalog; /* during ERRAND_CATALOG */
	/* why it is to be closed when it is returned, or in ENDING; NONE: it is not */
	enum close_reason close_reason;
	struct server_login *login; /* until it has logged in, then NULL */
	struct timer timer;         /* the limit of its state */
	struct timer life;          /* server_lifetime */
	struct timer xact;          /* transaction_timeout; in ENDING: the next cancel */
	struct task free_task;
	usec_t connected_at;  /* when the connection attempt started */
	int64_t connect_wall; /* the same as wall-clock time, for SHOW */
	usec_t used_at;       /* last ready in full, returned, or logged in */
	bool is_tls_direct;   /* TLS started without SSLRequest; valid while encrypted */
	uint16_t key_size;
	unsigned char key[SERVER_KEY_MAX];
};

/* Notes a borrower's request that is about to be sent. To be called in the order of sending. */
bool server_note(struct server *server, enum ledger_kind kind);

/* The same for a request that we add or replace: see ledger_add_change(). */
bool server_note_change(struct server *server, enum ledger_kind kind, enum ledger_fate fate,
                        struct ledger_change *change);

/* A request whose execution its borrower measures. */
struct server_call {
	uint64_t tag; /* the borrower's */
	usec_t sent_at;
	uint32_t wait;      /* microseconds before that, for a server */
	uint32_t row_limit; /* of an Execute; 0: none */
	bool is_parse;      /* only an error is of interest */
};

/* What came of it. */
struct server_call_end {
	usec_t now;
	usec_t running;       /* since it was sent, or since the call before it was answered */
	uint64_t rows;        /* from the tags */
	uint64_t bytes;       /* of the replies that the borrower got */
	const char *sqlstate; /* NULL: it has succeeded */
};

/*
 * Makes a call of the last request noted, of this kind: on_call() comes with the last reply to it,
 * unless the server skips it. Returns where to describe it, before anything else is done with the
 * server. NULL: the request was not noted, or no memory.
 */
struct server_call *server_note_call(struct server *server, enum ledger_kind kind);

/* The change of a LEDGER_REPLACE: the error that the client gets. settle() frees it. */
struct refusal {
	struct ledger_change base;
	struct err err;
};

/*
 * Where a text that the server gets has our name of a statement in place of the client's. Positions
 * in errors are characters, counted from 1.
 */
struct server_renaming {
	bool is_known;   /* false: the characters cannot be counted, so errors get no position */
	uint32_t before; /* characters before the name */
	uint32_t ours;   /* characters of our name, with its quotes */
	uint32_t theirs; /* characters of the name in the client's text */
};

/*
 * Wraps the change of a request that sends such a text: errors get positions in the client's text,
 * or none if they may be positions in the text of the prepared statement. Owns `change`, also if
 * there is no memory: then the result is NULL.
 */
struct ledger_change *server_renamed(struct ledger_change *change,
                                     const struct server_renaming *renaming);

/* The change of a LEDGER_TYPES: gets what a statement is told to be. settle() frees it. */
struct description {
	struct ledger_change base;
	/* Called with the types in the format of Parse: a count and that many. false: no memory. */
	bool (*on_types)(struct description *description, struct bytes types);
	/* Called with the digest of the result columns, see fields_columns(). NULL: not needed. */
	void (*on_columns)(struct description *description, uint32_t columns);
};

/*
 * The scope in which the server prepares statements now. Valid until its parameters change. false:
 * no memory.
 */
bool server_scope(struct server *server, struct bytes *scope);

/*
 * The borrower is about to change parameters of the scope. Until server_close_scope() it is not
 * known, so statements are prepared again if they are used, and once more for later clients.
 */
static inline void server_open_scope(struct server *server)
{
	if (server->session.scope_state == SCOPE_KNOWN)
		server->session.scope_state = SCOPE_OPEN;
}
void server_close_scope(struct server *server);

/*
 * Sends a borrower's bytes. false: the connection is broken; on_lost() comes from the loop. If
 * bytes remain unsent (server_can_take()), on_writable() comes when all are sent.
 */
bool server_send(struct server *server, struct bytes bytes);

/* The same for several pieces, sent in order. */
bool server_sendv(struct server *server, const struct iovec *pieces, int count);

/* The borrower sends nothing more for now: sends `prefix`, if there is one. */
void server_push(struct server *server);

/*
 * Sends a harmless query whose reply makes it certain what the server owes (ledger_is_certain()).
 * on_ready() comes again with that reply.
 */
void server_make_certain(struct server *server);

/*
 * Sends the borrower the generated replies (LEDGER_ANSWER) that are due. false: the borrower can
 * accept no more bytes.
 */
bool server_answer(struct server *server);

/*
 * How far a server is from rest, in which it can be lent to another borrower. A value implies that
 * the conditions of all lower values are over.
 */
enum server_rest {
	REST_WORKING,        /* a request or an internal query is not answered in full */
	REST_IN_TRANSACTION, /* all requests are answered; a transaction is open */
	REST_UNSENT,         /* between two transactions; some bytes are still unsent */
	/* the borrower has got only a part of a frame that answers no request */
	REST_MID_RESPONSE,
	REST_FULL /* between two transactions; nothing is half sent or half read */
};

static inline enum server_rest server_rest(const struct server *server)
{
	if (!server->wire.is_ready || server->errand != ERRAND_NONE)
		return REST_WORKING;
	if (server->wire.status != 'I')
		return REST_IN_TRANSACTION;
	if (stream_unsent(&server->wire.stream))
		return REST_UNSENT;
	return server->wire.is_mid_response ? REST_MID_RESPONSE : REST_FULL;
}

/*
 * Whether a transaction block has failed, and nothing that was sent since may have ended it: then
 * PostgreSQL refuses all but the end of the block.
 */
static inline bool server_is_in_failed_block(const struct server *server)
{
	return server->wire.status == 'E' && ledger_knows_status(&server->wire.ledger) &&
	       !server->wire.ledger.has_executed;
}

/* Whether the server serves one borrower only, and is closed when that leaves. */
static inline bool server_is_dedicated(const struct server *server)
{
	return server->replication != REPLICATION_NONE || server->is_listening;
}

/* Whether all that the borrower's transaction has run is its opening, which is kept (replay.h). */
static inline bool server_has_only_begun(const struct server *server)
{
	const struct replay *replay = &server->lease.replay;

	return replay->opening_count && !replay->count && server->wire.status == 'T' &&
	       server_rest(server) == REST_IN_TRANSACTION && !server->wire.is_mid_request &&
	       !server->wire.is_mid_response && !stream_unsent(&server->wire.stream);
}

/* Whether the server is between two transactions, from PostgreSQL's point of view. */
static inline bool server_is_between_transactions(const struct server *server)
{
	return server_rest(server) > REST_IN_TRANSACTION;
}

/*
 * Whether the socket and the known session state are all that the server consists of, so that
 * another process could continue with it. A transaction may be open.
 */
bool server_has_nothing_pending(const struct server *server);

/* Notes whether only a part of the borrower's last frame was sent. */
static inline void server_set_mid_request(struct server *server, bool is_mid_request)
{
	server->wire.is_mid_request = is_mid_request;
}

/* A borrower's BEGIN was answered before it was sent: no ReadyForQuery reports the transaction. */
static inline void server_set_in_transaction(struct server *server) { server->wire.status = 'T'; }

/*
 * Notes whether the borrower may have left session state on the server. If so, the server is reset
 * before anybody else gets it.
 */
static inline void server_set_dirty(struct server *server, bool is_dirty)
{
	server->session.is_dirty = is_dirty;
}

/*
 * The borrower may have left session state that nobody knows of. The next borrower that is another
 * one gets the server cleaned.
 */
static inline void server_set_doubt(struct server *server)
{
	if (server->session.doubt == DOUBT_NONE)
		server->session.doubt = DOUBT_OWN;
}

/*
 * The server was asked. If it was lent in session mode, its borrower is in another mode now, which
 * follows what it has there: the server is reset when it is returned.
 */
static inline void server_end_session(struct server *server)
{
	server->session.is_dirty |= server->session.has_session;
	server->session.has_session = server->session.has_unclear_report = false;
}

/*
 * Adds the SQL statement SET, or SET LOCAL, that gives a parameter this value. It takes no
 * snapshot, unless the value is an empty list.
 */
void server_set_text(const char *name, const char *value, bool is_local, struct buf *text);

/*
 * The server's session has this value of a parameter, without doubt. false: no memory, or too many.
 */
bool server_take_set(struct server *server, const char *name, const char *value);

/* The value of a parameter in a map, or else the server's default. NULL: neither is known. */
const char *server_value(const struct server *server, const struct params *params,
                         const char *name);

/*
 * The server must be closed when it is returned, for this reason (the first call counts).
 * CLOSE_NONE: it need not be closed any more.
 */
void server_need_close(struct server *server, enum close_reason reason);

/*
 * Asks the server for parts of its session state (enum question_part; names: see question_text()).
 * It must be at rest. The answer comes with on_answer() of the borrower; if there is none, the
 * server is closed. A question that fails is asked again: as it was if it was canceled, else
 * without the names.
 */
void server_ask(struct server *server, enum errand_how how, unsigned int parts, struct bytes names);

/*
 * The same question without names, behind a message of the borrower with which its transaction ends
 * or fails: adds it to *out, which goes out behind that message. The borrower sends nothing more.
 * Its on_ready() comes when its own message is answered, and then server_is_asked() is true, unless
 * the transaction has failed and not ended: then the question has no answer. false: no memory, and
 * nothing is to be sent.
 */
bool server_ask_behind(struct server *server, unsigned int parts, struct buf *out);

static inline bool server_is_asked(const struct server *server)
{
	return server->errand == ERRAND_ASK;
}

/*
 * Ends all that the server listens to. It must be at rest. on_answer() of the borrower comes; if
 * UNLISTEN fails, the server is closed.
 */
void server_clear_channels(struct server *server);

/* Closes statements of these names (name\0). It must be at rest; on_answer() comes. */
void server_close_statements(struct server *server, struct bytes names);

/*
 * Adds the messages that execute one statement and leave the unnamed statement and portal of the
 * session alone, and notes them; the change is that of the Execute. After an error, or from a
 * PREPARE of SQL, the scratch name may be there still, so it is closed first, too. false: no
 * memory.
 */
bool server_add_apart(struct server *server, struct bytes statement, enum ledger_fate fate,
                      struct ledger_change *change, struct buf *out);

/*
 * The answer to a question about parameters: the server's map becomes exact. What the borrower's
 * client has given at its startup and has set back is marked as unknown, and is_startup_unset is
 * set, since the client must get its startup's value again. `back` lists those of which a text says
 * that it has set them back (name\0): a custom parameter is "" then, not unset. `before`: the
 * borrower's map before the transaction; what it had as the server has it by default was not set on
 * this server, and is not taken for set back. NULL: all was set on this server.
 *
 * false: what is set does not fit into a map. The map is without that: the server must stay with
 * its borrower, and be closed when that leaves.
 */
bool server_take_facts(struct server *server, const struct facts *facts,
                       const struct params *startup, const struct params *before,
                       struct bytes back);

/*
 * A LOAD of this library has succeeded: it becomes part of the server's map. false: it does not fit
 * into the map.
 */
bool server_add_library(struct server *server, const char *name);

/* Looks for the first COMMIT or ROLLBACK from now on, behind so many others; counts UNLISTEN. */
static inline void server_watch_end(struct server *server, unsigned int ahead)
{
	server->lease.watches |= SERVER_WATCHES_END;
	server->lease.end = SERVER_END_NONE;
	server->lease.ends_ahead = ahead;
}

/* Ends the watch. */
static inline enum server_end server_end_seen(struct server *server)
{
	server->lease.watches &= (uint8_t)~SERVER_WATCHES_END;
	return server->lease.end;
}

/* What is sent now asks for values of sequences: a DISCARD SEQUENCES before it must succeed. */
static inline void server_rely_on_discard(struct server *server)
{
	if (server->session.discard == DISCARD_SENT)
		server->session.discard = DISCARD_NEEDED;
}

/* The borrower has handled all LOADs. */
static inline void server_settle_loads(struct server *server) { server->session.load_count = 0; }

/* Whether the borrower must look for parameters of its startup: relay_take_params(). */
static inline bool server_has_reset(const struct server *server)
{
	return server->session.is_rest_unknown || server->session.is_startup_unset;
}

/* The borrower has handled the parameters that were set back. */
static inline void server_settle_rest(struct server *server)
{
	server->session.is_rest_unknown = server->session.is_startup_unset = false;
}

/* Whether it was closed: it has no borrower and gets none, and nothing that it sends matters. */
static inline bool server_is_over(const struct server *server)
{
	return server->state >= SERVER_ENDING;
}

static inline bool server_can_take(const struct server *server)
{
	return stream_unsent(&server->wire.stream) == 0 && !ledger_is_full(&server->wire.ledger);
}

/* The borrower can accept bytes again, after on_bytes() returned false. */
void server_read_on(struct server *server);

/* A borrower's batch begins: starts the timers of query_timeout and transaction_timeout. */
void server_begin_query(struct server *server, usec_t query_since, usec_t xact_since);

/*
 * Closes a server, with Terminate if it is logged in. Logs the error, and passes it to on_lost() of
 * the borrower, if there is one, from the loop. A statement that runs there is cancelled first
 * (on_ending()), if the reason is one of ours and not of the server or its host.
 */
void server_close(struct server *server, const struct err *err);

/* The same for a close reason of the table: with the reason's code, or with another one. */
void server_close_for(struct server *server, enum close_reason reason);
void server_close_as(struct server *server, enum err_code code, enum close_reason reason);

/* The same for a text that has no row of its own: it counts under its code. */
void server_close_with(struct server *server, enum err_code code, const char *text);

/*
 * Whether reading has stopped, and the server is between two messages with nothing unsent.
 * Encrypted servers count, too: SUSPEND can quiesce what a hand-over cannot include.
 */
bool server_is_quiescent(const struct server *server);

/* The id of the PostgreSQL process behind it. 0: not known, or NULL. */
int64_t server_backend_pid(const struct server *server);

/* For the log and SHOW. */
const char *server_state_name(enum server_state state); /* as SHOW SERVERS has it */

/* What a lent server does: "running", "idle in transaction", "idle". */
const char *server_work(const struct server *server);

#endif
