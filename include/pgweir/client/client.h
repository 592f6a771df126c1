/* SPDX-License-Identifier: ISC */
/*
 * A client: one connection that came to us, from its first packet to its end.
 *
 *   STARTUP -> PROOF -> NEWCOMER -> IDLE <-> WAITING -> PREPARING -> ACTIVE -> IDLE
 *                                       IDLE <-> LATE --> WAITING, PREPARING, ACTIVE
 *                           +--> ACTIVE (replication)
 *      |         |
 *      |         +--> CONSOLE
 *      +--> CANCELING, ROUTING              any --> LINGERING --> CLOSED
 */
#ifndef PGWEIR_CLIENT_CLIENT_H
#define PGWEIR_CLIENT_CLIENT_H

#include "pgweir/base/table.h"

#include "pgweir/base/log.h"
#include "pgweir/client/console_door.h"
#include "pgweir/client/cancel_key.h"
#include "pgweir/net/stream.h"
#include "pgweir/pool/pools.h"

enum client_state {
	CLIENT_STARTUP,        /* its first packets are on their way */
	CLIENT_AUTHENTICATION, /* it has to prove who it is */
	CLIENT_LOOKING,  /* its host's name, its system user's, or its user is looked up for that */
	CLIENT_DERIVING, /* a helper thread derives a key for that */
	CLIENT_DELAYED,  /* could not prove it, and will be told so later */
	CLIENT_NEWCOMER, /* is in, and waits for the pool's first server, or for one of its own */
	CLIENT_IDLE,     /* is in, and has no server */
	CLIENT_LATE,     /* the same, in a transaction of which no server knows yet */
	CLIENT_WAITING,  /* stands in the line for a server */
	CLIENT_PREPARING, /* has one, whose parameters are being set */
	CLIENT_ACTIVE,    /* has one, and they talk */
	CLIENT_CANCELING, /* brought a CancelRequest, which is on its way */
	CLIENT_ROUTING,   /* brought one that is on its way to a peer */
	CLIENT_CONSOLE,   /* talks to the console */
	CLIENT_LINGERING, /* has been told why it must go, and may read that in peace */
	CLIENT_CLOSED,    /* freed at the end of the turn */
	CLIENT_STATES
};

struct hba_check;
struct delayed;
struct auth_query;
struct auth_server;
struct client_statement;
struct late_begin;
struct names;
struct sql_unnamed;

/* What there is only until a client is in. */
struct client_login {
	TAILQ_ENTRY(client_login) unauthenticated; /* while it has not proven who it is, */
	struct client *client;                     /* and then NULL */
	bool is_unknown;                           /* there is no such user */
	bool has_answered;                         /* what it was asked for its proof */
	bool is_high; /* its descriptor is one of those kept for others: in clients.high_count */
	struct hba_check *hba_check;   /* of auth_type hba; NULL: nothing had to be found out */
	struct auth_query *auth_query; /* what auth_query said; NULL: it was not asked */
	struct auth_server *auth;
	struct delayed *delayed; /* of CLIENT_DELAYED. client/login/throttle.c */
	/* A name that was looked up for its authentication is known. */
	void (*on_looked_up)(struct client *client);
	unsigned int generation; /* of the configuration that chose how it proves who it is */
	unsigned int method;     /* enum auth_method: how it proves who it is */
	char *outside;           /* by which options it does so outside; NULL: it does not */
	struct buf unknown;      /* names of _pq_. options: name\0name\0 */
	struct buf parameters;   /* of its startup packet: name\0value\0 */
	unsigned int parameter_count;
	unsigned int minor;        /* of the protocol that was asked for */
	bool was_tls_answered;     /* SSLRequest, or a ClientHello */
	char *certificate_name;    /* of its certificate, or NULL */
	bool has_certificate;      /* it has shown one, and that is good */
	bool is_proxy_header_done; /* no PROXY header comes any more */
	bool was_gss_refused;
	enum console_role console_role; /* CONSOLE_NOBODY: not for the console */
	char *database;                 /* as asked for */
	char *user;
	char *options;           /* of a replication client, as given; NULL: none */
	struct server_wish wish; /* of a replication client */
};

/*
 * Thousands of them rest, so what only some need is elsewhere, and its pointer here is NULL.
 *
 * What each message touches comes first and lies together, what concerns a transaction comes
 * next, and last what is asked for when it comes, when it goes, and by SHOW.
 */
struct client {
	struct stream stream;
	uint32_t frame_left; /* bytes of the present frame that are still to come */
	uint32_t seen;       /* of the frame at the front so many bytes were not enough; or 0 */
	enum client_state state : 8;
	bool forwards_rest : 1; /* the rest of the present frame goes to the server */
	bool is_counted : 1;    /* in database and account */
	bool is_admitted : 1;   /* counts for max_client_conn */
	bool is_exempt : 1;     /* an administrator at the console: counts for no limit */
	bool is_guest : 1;      /* somebody else there: counts for the limits of that database */
	bool is_busy : 1;       /* the console works for it: no message now */
	bool was_notified : 1;  /* of its waiting */
	bool is_leaving : 1;    /* DRAIN sends it away */
	bool is_written : 1;    /* written down for another process: client/handover.h */
	bool is_arriving : 1;   /* taken up from one, and not at work yet */
	bool is_skipping : 1;   /* was told of an error of ours: nothing counts up to its Sync */
	bool is_slow_over : 1;  /* `slow` began a batch that has ended */
	uint8_t replication;    /* enum replication: not NONE has a server of its own */
	uint8_t features;       /* enum client_feature, those of its own */
	uint8_t key_size;       /* CANCEL_KEY_SIZE, CANCEL_KEY_LONG_SIZE, or 0: it has no key */
	struct clients *clients;
	struct logger log;
	usec_t request_at; /* the present batch's begin; 0 = none */
	struct borrower borrower;

	usec_t xact_at;              /* the present transaction's begin; 0 = none */
	const struct params *params; /* what it wants to be set wherever its work runs */
	struct names
	    *names; /* of what it has prepared; NULL: it never has. client/statements/names.c */
	struct late_begin
	    *late; /* a BEGIN that was not sent yet, or NULL. client/relay/late_begin.c */
	struct unnamed *unnamed; /* its unnamed statement, or NULL. client/statements/unnamed.c */
	struct sql_unnamed *sql; /* what that does to names, or NULL. client/statements/sql.c */
	char *slow; /* what its batch, or the last one of its transaction, began with, or NULL.
	             * client/relay/slow.c */
	struct timer timer; /* the limit of its state */

	struct database *database;
	struct role *role;            /* it logged in as */
	const struct params *startup; /* `params` as they were given at the start */
	struct client_login *login;
	union {
		struct console_session *console; /* CLIENT_CONSOLE */
		struct cancel *cancel;           /* CLIENT_CANCELING */
		struct forward *forward;         /* CLIENT_ROUTING */
	};
	TAILQ_ENTRY(client) node; /* among all clients, by id; or among the closed ones */
	uint64_t id;
	usec_t connected_at;
	struct client *key_next; /* in its chain. client/cancel_keys.c */
	union {
		unsigned char key[CANCEL_KEY_SIZE];
		unsigned char *long_key; /* if it is longer than that; the table's */
	};
	struct address peer;
};

/* Its cancel key; empty until it is in. */
static inline struct bytes client_key(const struct client *client)
{
	return bytes_of(client->key_size > CANCEL_KEY_SIZE ? client->long_key : client->key,
	                client->key_size);
}

/* The client that a borrower lives in; NULL: it lives in a lookup. */
const struct client *client_of_borrower(const struct borrower *borrower);

/* The words of its user and database, for log and SHOW. */
const char *client_user(const struct client *client);
const char *client_database(const struct client *client);

/* As SHOW CLIENTS has it: active, idle, waiting, ...; NULL: not logged in yet. */
const char *client_state_name(const struct client *client);

/* Tells it why, and ends it when it has had time to read that. */
void client_fatal(struct client *client, const struct err *err);

/* How many statements it has prepared by name. */
unsigned int client_statement_count(const struct client *client);

/* ---- for the console ---- */

/* Sends. false: it has not all gone out; room() comes when it has. Never fails visibly. */
bool client_console_send(struct client *client, struct bytes bytes);

/* The session takes the next message. */
void client_console_next(struct client *client);

/* Ends the session and the client, and leaves its plain socket to the caller. */
int client_console_detach(struct client *client);

/* The session has come to its end: what was sent goes out, then the client is closed. */
void client_console_end(struct client *client, enum close_reason reason);

#endif
