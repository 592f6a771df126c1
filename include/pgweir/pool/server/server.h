/* SPDX-License-Identifier: ISC */
/*
 * A server: one connection to PostgreSQL, from dialling to its end. Its pool owns it and
 * implements struct server_ops; the server knows nothing else of it.
 *
 *   CONNECTING -> LOGIN -> IDLE <-> LENT -> RESETTING -> IDLE
 *                           | ^
 *                           v |
 *                  USED -> CHECKING
 *
 * While it is lent, the borrower's bytes go to it by server_send(), each request
 * noted by server_note() before, and what comes back is judged here, by the
 * ledger, and handed to the borrower.
 *
 * A server for replication is launched for one borrower, lent to it as soon as it
 * has logged in, and closed when that one leaves: LOGIN -> LENT -> CLOSING.
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
#include "pgweir/pool/server/server_statements.h"
#include "pgweir/pool/server/ledger.h"
#include "pgweir/pool/server/params.h"
#include "pgweir/pool/server/text_scope.h"
#include "pgweir/pool/server/replay.h"

#define SERVER_KEY_MAX 260 /* bytes of a cancel key: process id and secret */

enum server_state {
	SERVER_CONNECTING, /* its name is looked up, its socket is being connected */
	SERVER_LOGIN,      /* startup sent: it asks, we answer; then connect_query */
	SERVER_IDLE,       /* at home in its pool */
	SERVER_USED,       /* idle for so long that it must be checked before use */
	SERVER_CHECKING,   /* the check query runs */
	SERVER_LENT,       /* serves one borrower */
	SERVER_RESETTING,  /* came back used: the reset query runs */
	SERVER_CANCELED,   /* came back while a cancel for it is on its way */
	SERVER_CLOSING,    /* done with; freed at the end of the turn */
	SERVER_STATES
};

/* What we have asked a server ourselves. Its answers are swallowed. */
enum errand_kind {
	ERRAND_NONE,
	ERRAND_CONNECT, /* connect_query */
	ERRAND_CHECK,   /* server_check_query */
	ERRAND_RESET,   /* server_reset_query */
	ERRAND_REPLAY,  /* the borrower's parameters */
	ERRAND_SET_BACK /* its own, after a borrower whose parameters it did not take */
};

TAILQ_HEAD(server_list, server);

/*
 * What all servers of one loop use. Borrowed; the owner of the pools keeps it up to date. What
 * is not said to change is the same as long as there are servers.
 */
struct server_shared {
	struct loop *loop;
	struct log *log;
	struct stream_pool *streams;
	struct resolver *resolver;
	struct workers *workers;      /* for keys of logins; */
	struct workers *slow_workers; /* for those that a server makes expensive */
	struct verifiers *verifiers;
	struct params_table *params;
	struct statements *statements;        /* the texts that clients prepare */
	struct close_counts *closes;          /* how servers have ended */
	struct buf *errand_message;           /* rewritten for each errand, and kept */
	const struct socket_options *sockets; /* for new connections; their values change */
	const struct config *config;          /* the one in force; another one after a reload */
	struct tls_context *tls;              /* for new connections; NULL: none. Changes */
};

/* Limits of time; NULL: there is none. They change with the configuration: server_rearm(). */
struct server_limits {
	struct timer_queue *connect;          /* server_connect_timeout */
	struct timer_queue *idle;             /* server_idle_timeout */
	struct timer_queue *check;            /* server_check_delay, when there is a check query */
	struct timer_queue *life;             /* server_lifetime */
	struct timer_queue *query;            /* query_timeout */
	struct timer_queue *idle_transaction; /* idle_transaction_timeout */
	struct timer_queue *transaction;      /* transaction_timeout */
	usec_t retry_gap;                     /* how long a host that failed is left out */
};

/* What the servers of one pool have in common. The pool's; lives longer than they do. */
struct server_site {
	const struct server_shared *shared;
	const struct server_ops *ops;
	const char *database;                /* what the entry is called */
	const char *user;                    /* they log in as this role */
	const struct config_database *entry; /* of the configuration in force */
	struct server_limits limits;
	struct hosts hosts;     /* where they are */
	uint64_t *client_bytes; /* counts what borrowers send */
	uint64_t *server_bytes; /* counts what comes after the login */
};

/*
 * What a server asks of its pool, and tells it. on_free() comes from the loop; all others may
 * come from within any call that concerns the server.
 */
struct server_ops {
	/* The state was `from`, and is another one now. CLOSING is the last one. */
	void (*on_state)(struct server *server, enum server_state from);
	/* server->is_close_needed has changed. */
	void (*on_close_needed)(struct server *server);
	/* It has logged in, and connect_query has been run: it is ready, and still in LOGIN. */
	void (*on_login_done)(struct server *server);
	/* It has closed before that. */
	void (*on_login_failed)(struct server *server, const struct err *err);
	/* A check or a reset is over: it is ready, has no borrower, and may be lent. */
	void (*on_home)(struct server *server);
	/* The server has refused its borrower's parameters (server->refusal), and stays as it was.
	 */
	void (*on_params_refused)(struct server *server);
	/* It has closed, and this borrower has lost it: on_lost() comes next. */
	void (*on_borrower_lost)(struct server *server, struct borrower *borrower);
	/* DNS does not give its address any more. */
	void (*on_address_removed)(struct server *server);
	/* A login at a host that has failed begins (1), is over (-1): nobody can count on it. */
	void (*on_probe)(struct server *server, int change);
	/* Whether such a login may begin: there may be another server beside it. */
	bool (*may_probe)(const struct server *server);
	/* What it logs in with. */
	const struct credentials *(*credentials)(const struct server *server);
	/* Adds to a message what secret that is, and where it comes from. */
	void (*tell_secret)(const struct server *server, struct buf *out);
	/* The turn in which it closed is over: its memory is to be freed. */
	void (*on_free)(struct server *server);
};

/* What comes next when a step of the way to PostgreSQL is done. server_launch.c */
struct server_login_steps {
	void (*on_connected)(struct dial *dial, int fd, const struct err *err);
	void (*on_secured)(struct server *server); /* encrypted, or in plain for good */
};

/* What there is only until the server has logged in. */
struct server_login {
	const struct server_login_steps *steps;
	struct dial dial;
	struct resolver_ask ask;
	struct server *server;
	struct timer patience;    /* for its host's first word, while there is another host */
	bool is_probe;            /* its host had failed: nobody counts on it */
	struct auth_client *auth; /* until AuthenticationOk */
	bool is_working;          /* a key is being derived on a helper thread */
	bool has_spoken;          /* its first message has come */
	bool is_again;         /* it did not understand a newer protocol: asked once more for 3.0 */
	uint32_t asked;        /* the version of the protocol that it was asked for */
	struct buf parameters; /* ParameterStatus so far: name\0value\0 */
};

struct server {
	struct stream stream;
	struct logger log;
	struct server_site *site;
	struct pool *pool;        /* its owner, who implements site->ops */
	TAILQ_ENTRY(server) node; /* in its pool's list of its state */
	TAILQ_ENTRY(server)
	database_node; /* IDLE, USED: in its database's list, longest unused first */
	TAILQ_ENTRY(server) role_node; /* the same, of its user */
	TAILQ_ENTRY(server) all_node;  /* among all servers, by id */
	enum server_state state;
	enum errand_kind errand;
	bool errand_failed;
	bool is_close_needed; /* no new work: closed when it comes home */
	bool has_session;     /* lent in session mode, and not reset since */
	bool is_rest_unknown; /* a RESET ran: parameters that it does not report may be anything */
	bool is_ready;        /* ReadyForQuery was the last, and nothing was sent since */
	bool is_mid_request;  /* of the borrower's last frame only a part has been sent */
	bool got_fatal;       /* it has said good-bye by a FATAL error */
	bool is_mid_response; /* the borrower has got the beginning of a frame, and not its end */
	bool is_leaving;      /* written down for another process: pool/handover.h */
	bool has_flooded;     /* it reported so much in this turn that it must wait for the next */
	bool is_tls_direct;   /* TLS began without asking; says something while it is encrypted */
	char status;          /* 'I', 'T', 'E' of its last ReadyForQuery */
	bool forwards_rest;   /* where the rest of the present frame goes: on, or away */
	uint32_t frame_left;  /* bytes of the present frame that are still to come */
	unsigned int cancel_count; /* cancels on their way to it */
	struct borrower *borrower;
	struct borrower *expected_by; /* for whom alone it is being launched; else NULL */
	enum replication replication; /* NONE: any borrower may get it */
	struct ledger ledger;
	struct buf replacement; /* what the borrower is told in the place of the present frame */
	struct buf prefix;      /* a query of ours that goes in front of what is sent next */
	struct ledger_change prefix_change;  /* of that query */
	struct replay replay;                /* what the borrower may say again */
	struct server_statements statements; /* the statements that are prepared there */
	struct text_scope scope;             /* in which it prepares them: of `params` */
	const struct params *params;         /* what is set there and is not its default */
	const struct params *before;         /* `params` before ERRAND_REPLAY, while that runs */
	const struct params *forgotten;      /* `params` behind the last RESET; held, or NULL */
	enum close_reason close_reason;      /* of is_close_needed */
	struct err *refusal;                 /* and why the server did not take them; or NULL */
	const struct params *baseline;       /* what it reported at its login: its defaults */
	struct buf reports;                  /* of the borrower's work, and not in these two yet */
	unsigned int report_count;           /* of those that nobody's work explains */
	struct server_login *login;          /* until it has logged in, else NULL */
	struct timer timer;                  /* the limit of its state */
	struct timer life;                   /* server_lifetime */
	struct timer xact;                   /* transaction_timeout */
	struct task free_task;
	unsigned int host;          /* which of its pool's hosts it went to */
	struct resolver_watch stay; /* at its address, if that came by a name */
	struct address peer;        /* where it is connected to */
	char path[108];             /* and how, if that is a Unix socket */
	usec_t connected_at;        /* launched */
	usec_t used_at;             /* last ready in full, returned, or logged in */
	usec_t lent_at;             /* good while it is lent */
	usec_t request_at;          /* the present query's start; 0 = none */
	usec_t xact_at; /* the present transaction's start; good while it is lent and at work */
	int64_t connect_wall; /* the same two by the wall clock, for SHOW */
	int64_t request_wall;
	uint64_t id;
	uint16_t key_size;
	unsigned char key[SERVER_KEY_MAX];
};

/*
 * Notes a request of the borrower's that is about to be sent. In the order in
 * which they are sent.
 */
enum ledger_send server_note(struct server *server, enum ledger_kind kind);

/* The same for what we change on the way: see ledger_add_change(). */
enum ledger_send server_note_change(struct server *server, enum ledger_kind kind,
                                    enum ledger_fate fate, struct ledger_change *change);

/* The change of a LEDGER_REPLACE: with what the client is refused. settle() frees it. */
struct refusal {
	struct ledger_change base;
	struct err err;
};

/* The change of a LEDGER_TYPES: of which types the parameters are. settle() frees it. */
struct description {
	struct ledger_change base;
	/* They have come, as Parse has them: a count and that many. false: no memory. */
	bool (*on_types)(struct description *description, struct bytes types);
};

/* In which scope it prepares statements now; good until its parameters change. false: no memory. */
bool server_scope(struct server *server, struct bytes *scope);

/*
 * Sends bytes of the borrower's. false: the connection is broken; on_lost() comes
 * from the loop. When unsent bytes are left (server_can_take()), on_writable() comes
 * once they have gone.
 */
bool server_send(struct server *server, struct bytes bytes);

/* The same for pieces that are sent in order. */
bool server_sendv(struct server *server, const struct iovec *pieces, int count);

/* The borrower says no more for now: what was put ahead of its next word is sent. */
void server_push(struct server *server);

/*
 * Asks the server for something harmless, whose answer makes certain what it owes
 * (ledger_is_certain()). on_ready() comes again with it.
 */
void server_make_certain(struct server *server);

/* Answers in the server's place what has its turn now. false: the borrower cannot take more. */
bool server_answer(struct server *server);

/*
 * How far a server is from rest, where another borrower may get it. Each value means that what
 * the values before it stand for is over.
 */
enum server_rest {
	REST_WORKING,        /* a request, or a query of our own, is not answered in full */
	REST_IN_TRANSACTION, /* all is answered, in a transaction that goes on */
	REST_UNSENT,         /* between two transactions; some bytes are still to be sent to it */
	REST_MID_RESPONSE,   /* the borrower has a part of a frame that answers nothing */
	REST_FULL            /* between two transactions, and nothing is half sent or half read */
};

static inline enum server_rest server_rest(const struct server *server)
{
	if (!server->is_ready || server->errand != ERRAND_NONE)
		return REST_WORKING;
	if (server->status != 'I')
		return REST_IN_TRANSACTION;
	if (stream_unsent(&server->stream))
		return REST_UNSENT;
	return server->is_mid_response ? REST_MID_RESPONSE : REST_FULL;
}

/* Whether it is between two transactions, as far as PostgreSQL is concerned. */
static inline bool server_is_between_transactions(const struct server *server)
{
	return server_rest(server) > REST_IN_TRANSACTION;
}

/*
 * Whether its socket and what is known of the session are all that there is of it, so that
 * another process could go on with it. It may be in a transaction.
 */
bool server_has_nothing_pending(const struct server *server);

/* Whether only a part of the borrower's last frame has been sent. */
static inline void server_set_mid_request(struct server *server, bool is_mid_request)
{
	server->is_mid_request = is_mid_request;
}

/* A BEGIN of the borrower's has been answered before it was sent: no ReadyForQuery says so. */
static inline void server_set_in_transaction(struct server *server) { server->status = 'T'; }

/* The borrower has dealt with the parameters that a RESET left unknown. */
static inline void server_settle_rest(struct server *server) { server->is_rest_unknown = false; }

static inline bool server_can_take(const struct server *server)
{
	return stream_unsent(&server->stream) == 0 && !ledger_is_full(&server->ledger);
}

/* The borrower can take bytes again, after on_bytes() had said that it cannot. */
void server_read_on(struct server *server);

/* A batch of the borrower's begins: the limits of settings.md for queries start to run. */
void server_begin_query(struct server *server, usec_t query_since, usec_t xact_since);

/*
 * Ends a server, with Terminate if it is logged in. The reason is logged, and
 * told to the borrower, if any, by on_lost() from the loop.
 */
void server_close(struct server *server, const struct err *err);

/* The same for a reason of the table: with its code, or with another one. */
void server_close_for(struct server *server, enum close_reason reason);
void server_close_as(struct server *server, enum err_code code, enum close_reason reason);

/*
 * Nothing more is read from it, and it stands between two messages with nothing unsent.
 * Encryption is no matter: what cannot be handed to another process can rest anywhere.
 */
bool server_is_quiescent(const struct server *server);

/* For log and SHOW. */
const char *server_state_name(enum server_state state); /* as SHOW SERVERS has it */

/* What one that is lent does: "running", "idle in transaction", "idle". */
const char *server_work(const struct server *server);

#endif
