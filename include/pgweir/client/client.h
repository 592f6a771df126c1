/* SPDX-License-Identifier: ISC */
/*
 * A client: one connection that came to us, from its first packet to its end.
 *
 *   STARTUP -> AUTHENTICATION -> NEWCOMER -> IDLE <-> WAITING -> PREPARING -> ACTIVE -> IDLE
 *      |         |                  |        IDLE <-> LATE --> WAITING, PREPARING, ACTIVE
 *      |         |                  |        WAITING -> CATCHING_UP -> PREPARING, IDLE, LATE
 *      |         |                  +--> ACTIVE (replication)
 *      |         +--> CONSOLE                                ACTIVE <-> SETTLING
 *      +--> CANCELING                       any --> LINGERING --> CLOSED
 *
 * PREPARING, ACTIVE -> WAITING: the server was lost before it ran anything.
 */
#ifndef PGWEIR_CLIENT_CLIENT_H
#define PGWEIR_CLIENT_CLIENT_H

#include "pgweir/base/bytes.h"
#include "pgweir/base/log.h"
#include "pgweir/base/table.h"
#include "pgweir/client/cancel_keys.h"
#include "pgweir/net/resolver.h"
#include "pgweir/net/stream.h"
#include "pgweir/pgwire/sql_token.h"
#include "pgweir/pool/pools.h"

/*
 * ---- login/admit.c: the interface between clients and the console ----
 *
 * A client that asked for the console's database gets a session of the console.
 */

struct client;
struct console_session; /* private to the console */

enum console_role {
	CONSOLE_NOBODY,
	CONSOLE_STATS, /* may read */
	CONSOLE_ADMIN  /* may execute all commands */
};

/* The longest message that the console accepts. */
#define CONSOLE_MESSAGE_MAX ((uint32_t)1024 * 1024)

/* All functions are called from the loop. */
struct console_door {
	void *arg;

	/*
	 * The client is admitted, and nothing was sent to it yet. The callee sends the welcome up
	 * to ReadyForQuery by client_console_send(). NULL: no memory.
	 */
	struct console_session *(*open)(void *arg, struct client *client, enum console_role role);

	/* A whole message. false: it gets none until it calls client_console_next(). */
	bool (*message)(struct console_session *session, char type, struct bytes body);

	/* All bytes have been sent, after client_console_send() returned false. */
	void (*on_writable)(struct console_session *session);

	/* A CancelRequest for this client. */
	void (*cancel)(struct console_session *session);

	/* The client is being closed; frees the session. */
	void (*close)(struct console_session *session);
};

/* ---- a client ---- */

enum client_state {
	CLIENT_STARTUP,        /* receives the PROXY header, TLS handshake and startup packet */
	CLIENT_AUTHENTICATION, /* an exchange of the authentication method runs */
	/* waits for the name of its host, of its system user, for auth_query, or a worker thread */
	CLIENT_LOOKING,
	CLIENT_DELAYED, /* authentication failed; the error is sent later (login throttle) */
	/* admitted; waits for the pool's first server, or for its dedicated server */
	CLIENT_NEWCOMER,
	CLIENT_IDLE,    /* admitted, has no server */
	CLIENT_LATE,    /* like IDLE, in a transaction whose BEGIN no server has yet */
	CLIENT_WAITING, /* in the wait queue for a server */
	/* has a server on a standby, which may not have replayed what it has seen: causal.c */
	CLIENT_CATCHING_UP,
	CLIENT_PREPARING, /* has a server, whose parameters are being set */
	CLIENT_ACTIVE,    /* has a server; messages are relayed */
	CLIENT_SETTLING,  /* has a server, which is asked for session state after a transaction */
	CLIENT_CANCELING, /* sent a CancelRequest; it is being sent to the server, or to a peer */
	CLIENT_CONSOLE,   /* has a console session */
	/* the error is being sent; closed after that, so that the client can read it */
	CLIENT_LINGERING,
	CLIENT_CLOSED, /* freed at the end of the turn */
	CLIENT_STATES
};

/* How a client counts for its database and role. */
enum client_count {
	CLIENT_NOT_COUNTED,
	CLIENT_COUNTED,
	CLIENT_COUNTED_AS_GUEST, /* at the console: for the limits of that database, too */
	CLIENT_COUNTED_AS_EXEMPT /* an administrator at the console: for no limit */
};

/* The first text of a batch, while log_min_duration is set. client/relay/track.c */
struct slow {
	char traceparent[SQL_TRACEPARENT_SIZE + 1]; /* in a comment of the text; "": none */
	bool is_whole;                              /* nothing of the text is missing */
	bool is_over;                               /* its batch has ended */
	char text[];
};

/* What auth_type hba found out about a client. client/login/authentication.c */
struct hba_check {
	struct reverse reverse;
	char *host;         /* NULL: it has no name */
	bool is_host_known; /* the lookup has ended */
};

/* The use of auth_query for a client. client/login/auth_query.c */
struct auth_query {
	TAILQ_ENTRY(auth_query) node;
	struct auth_lookup *lookup; /* that it waits for; or NULL */
	struct auth_answer *answer; /* NULL: there is none yet */
	bool is_kept;               /* the answer came from the cache: it may be out of date */
	bool is_refused;            /* the answer has a name that no client may get */
	/* the first one, with the name that the client sent; NULL: no query was made */
	struct auth_answer *question;
};

/* What a client has shown before its startup packet. It goes with it to another loop. */
struct client_shown {
	bool was_tls_answered;     /* an SSLRequest or a ClientHello was answered */
	bool has_certificate;      /* the client presented a certificate, and it was verified */
	bool is_proxy_header_done; /* no PROXY header can follow */
	bool was_gss_refused;
	bool has_moved;         /* it came from another loop */
	bool is_for_others;     /* its cancel request: no loop knows the key */
	char *certificate_name; /* from its certificate, or NULL */
};

/* State that exists only during a client login. */
struct client_login {
	/* in the list of clients that are not authenticated yet; */
	TAILQ_ENTRY(client_login) unauthenticated;
	struct client *client; /* NULL when the client is authenticated */
	/* no such user; the exchange runs with a mock secret */
	bool is_unknown;
	/* the client has answered a request for authentication */
	bool has_answered;
	/* its descriptor is not below files_for_clients: part of clients.high_count */
	bool is_high;
	struct hba_check hba_check;
	struct auth_query auth_query;
	struct auth_server *auth;
	/* in CLIENT_DELAYED: its error, or NULL. client/login/authentication.c */
	struct err *delayed;
	TAILQ_ENTRY(client_login) delayed_node;
	struct failure *failure; /* NULL: not counted (Unix socket, or no memory) */
	unsigned int generation; /* clients->generation when `method` was chosen */
	unsigned int method;     /* enum auth_method */
	struct buf unknown;      /* names of unknown _pq_. options: name\0name\0 */
	struct buf parameters;   /* of the startup packet: name\0value\0 */
	unsigned int parameter_count;
	unsigned int minor; /* minor version of the protocol that the client requested */
	struct client_shown shown;
	struct bytes unread; /* while a packet is being handled: that packet and what follows it */
	enum console_role console_role; /* CONSOLE_NOBODY: not for the console */
	char *database;                 /* as requested */
	char *user;
	char *options;           /* of a replication client, as given; NULL: none */
	struct server_wish wish; /* of a replication client */
};

/*
 * Thousands of clients are idle, so rare state is allocated separately and its pointer here is
 * NULL.
 *
 * The order of the fields: first what each message touches, next what concerns a transaction, last
 * what is used only when the client connects or closes, and by SHOW.
 */
struct client {
	struct stream stream;
	uint32_t frame_left; /* bytes of the current frame that are still to come */
	/* bytes of the frame at the front that were examined and were not enough; or 0 */
	uint32_t seen;
	enum client_state state : 8;
	bool forwards_rest : 1; /* the rest of the current frame is forwarded to the server */
	bool is_admitted : 1;   /* counts for max_client_conn */
	enum client_count count : 2;
	bool was_notified : 1; /* query_wait_notify was sent for this wait */
	bool is_leaving : 1;   /* being disconnected by DRAIN */
	bool is_gone : 1; /* it has left while its server was asked: closed when that is answered */
	bool is_written : 1;  /* written to the hand-over: client/handover.h */
	bool is_arriving : 1; /* taken over, but not started yet */
	/* an error of ours was sent: messages up to its Sync are ignored */
	bool is_skipping : 1;
	bool is_position_due : 1; /* its server will be asked for its position in the WAL */
	/* it has used currval() or lastval(): client/session/session_state.c */
	bool asks_sequences : 1;
	uint8_t replication : 4; /* enum replication; not NONE: has a dedicated server */
	/* how often its batch was sent to another server: client/relay/late_begin.c */
	uint8_t resent : 4;
	uint8_t features; /* enum client_feature: the client's own settings */
	uint8_t key_size; /* CANCEL_KEY_SIZE, CANCEL_KEY_LONG_SIZE, or 0: no key */
	uint16_t wrote;   /* its last statement that may have called nextval(); 0: none is known */
	struct clients *clients;
	struct logger log;
	usec_t request_at; /* start of the current batch, or of the console's command; 0 = none */
	struct borrower borrower;

	usec_t xact_at;              /* start of the current transaction; 0 = none */
	const struct params *params; /* the parameters its servers must have */
	/* what its reads on standbys must show; NULL: nothing so far. client/relay/causal.c */
	struct causal *causal;
	/* what it keeps in its session; NULL: nothing so far. client/session/session_state.c */
	struct session *session;
	/* where its use of session features is counted; NULL: not audited. client/session.h */
	struct audit_client *audit;
	/* which statements it is executing; NULL: not tracked. client/relay/track.c */
	struct track *track;
	/* its channels; NULL: it does not listen. client/session/listening.c */
	struct client_listening *listening;
	/* its prepared statements; NULL: none so far. client/statements/names.c */
	struct names *names;
	/* a BEGIN that was not sent yet, or NULL. client/relay/late_begin.c */
	struct late_begin *late;
	struct unnamed
	    *unnamed; /* its unnamed statement, or NULL. client/statements/statements_judge.c */
	/*
	 * The first query text of its batch, or of the last batch of its transaction; or NULL.
	 * client/relay/track.c
	 */
	struct slow *slow;
	struct timer timer; /* the limit of its state */

	struct role *role;            /* as which it logged in */
	const struct params *startup; /* `params` as they were after the login */
	struct client_login *login;
	union {
		struct console_session *console; /* CLIENT_CONSOLE */
		struct cancel *cancel;           /* CLIENT_CANCELING */
		struct database *database;       /* in all other states; NULL: none */
	};
	TAILQ_ENTRY(client) node; /* in clients->list, in order of ids; or in clients->closed */
	uint64_t id;
	usec_t connected_at;
	struct client *key_next; /* in its chain. client/cancel_keys.c */
	union {
		unsigned char key[CANCEL_KEY_SIZE];
		unsigned char *long_key; /* if key_size is greater; owned by the table of keys */
	};
	/* what its transaction may have touched of its session state: enum sql_touch */
	uint32_t touched;
	struct address peer;
};

/* The client's cancel key. Empty until the client is admitted. */
struct bytes client_key(const struct client *client);

/* The client that contains this borrower. NULL: a lookup of auth_query contains it. */
const struct client *client_of_borrower(const struct borrower *borrower);

/* The names of the client's user and database, for the log and SHOW. */
const char *client_user(const struct client *client);
const char *client_database(const struct client *client);

/* As SHOW CLIENTS names it: active, idle, waiting, ... NULL: not logged in yet. */
const char *client_state_name(const struct client *client);

/* Sends the error, and closes the client when it has had time to read that. Returns false. */
bool client_fatal(struct client *client, const struct err *err);

/* How many named prepared statements the client has. */
unsigned int client_statement_count(const struct client *client);

/* ---- for the console ---- */

/*
 * Sends bytes. false: some are still unsent; on_writable() comes when all are sent. A broken
 * connection is not reported here.
 */
bool client_console_send(struct client *client, struct bytes bytes);

/* The console session can handle the next message. */
void client_console_next(struct client *client);

/*
 * Ends the session and the client without closing the socket, and returns the socket, which is not
 * encrypted. The caller owns it.
 */
int client_console_detach(struct client *client);

/* Closes the client after all that was sent has been flushed. The session has ended. */
void client_console_end(struct client *client, enum close_reason reason);

#endif
