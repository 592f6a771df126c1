/* SPDX-License-Identifier: ISC */
/*
 * The core of the client module: what login, relay and statements use of a client. It calls none of
 * them directly, but through a table with their functions for each state (client_ops).
 */
#ifndef PGWEIR_CLIENT_CLIENT_PRIV_H
#define PGWEIR_CLIENT_CLIENT_PRIV_H

#include "pgweir/base/container_of.h"
#include "pgweir/client/clients.h"
#include "pgweir/pool/server/server.h"

/* The functions of a client state. Each may be NULL. */
struct client_state_ops {
	/* Consumes and buffers the input. false: stop reading. NULL: buffer all, and stop. */
	bool (*on_input)(struct client *client, struct bytes in);

	/* All bytes sent to the client were flushed. */
	void (*on_flushed)(struct client *client);

	/* A CancelRequest has this client's key. NULL or false: it is sent to its server. */
	bool (*on_cancel)(struct client *client);

	/* Time limits may have changed: sets the timer of this state again. */
	void (*rearm)(struct client *client);

	/* The client is closed in this state: frees what only this state needs. */
	void (*on_end)(struct client *client);
};

/* What the core calls. There is one such table: clients.c. */
struct client_ops {
	struct client_state_ops states[CLIENT_STATES];

	/* TLS was established; err: the handshake failed. */
	void (*on_secured)(struct client *client, const struct err *err);

	/* Frees client->login, which is not NULL. */
	void (*free_login)(struct client *client);

	/* The client has left its pool: frees what relay and statements keep for it. */
	void (*free_work)(struct client *client);

	/* A client in CLIENT_SETTLING, whose server is at rest, can continue. */
	void (*on_settled)(struct client *client);
	/* One that waits for a place has waited for too long. false: only its end helps. */
	bool (*refuse_place)(struct client *client);
	/* as statements_spare_unnamed() */
	bool (*spare_unnamed)(struct client *client);
};

/*
 * Optional features that examine a client's messages. A bit may be set without need, but is always
 * set if a feature concerns the client. Without any bit, messages take the plain path.
 */
enum client_feature {
	CLIENT_REFUSES_QUERY = 1 << 0, /* disable_pqexec */
	CLIENT_NOTES_SLOW = 1 << 1,    /* log_min_duration */
	/* max_prepared_statements, or it has prepared statements */
	CLIENT_FOLLOWS_STATEMENTS = 1 << 2,
	CLIENT_IS_AUDITED = 1 << 3,    /* session_audit */
	CLIENT_HAS_SQL_NAMES = 1 << 4, /* SQL's PREPARE has made some of its statements */
	CLIENT_IS_TRACKED = 1 << 5,    /* track_statements, [statements], [applications] */
	CLIENT_HAS_HOSTS = 1 << 6      /* a database has several hosts */
};

static inline unsigned int client_features(const struct client *client)
{
	return client->features | client->clients->features;
}

/* ---- client.c ---- */

/*
 * The only function that changes client->state. In states in which the client waits for others, its
 * input is kept from then on.
 */
void client_enter(struct client *client, enum client_state next);

/*
 * It is freed at the end of the turn. CLOSE_NONE: neither logged nor counted. As all that close a
 * client with an error, they return false.
 */
bool client_close(struct client *client, enum close_reason reason);
bool client_close_err(struct client *client, const struct err *err);

/* Sends bytes. false: the client was closed. */
bool client_send(struct client *client, struct bytes bytes);

/* The same with what a buffer has, which is freed. If that is broken, the client is closed. */
bool client_send_all(struct client *client, struct buf *out);

/* Counts an error that is sent to the client. */
void client_note_said(const struct client *client, const struct err *err, const char *severity);

/* Closes the client with an error of ours: the words of its close reason, */
bool client_refuse_for(struct client *client, enum close_reason reason);
/* or other words, for a close reason or an error code, which counts as one. */
bool client_refuse(struct client *client, unsigned int reason, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Closes the client because its pool refuses to let it wait. */
void client_turn_away(struct client *client, const struct err *err);

/* Closes it after flushing, without an error of ours: the server's FATAL was forwarded. */
void client_leave(struct client *client, const struct err *err);

/* Closes the client, and sends it a message if the socket accepts that without blocking. */
void client_dismiss(struct client *client, struct bytes words, enum close_reason reason);

/* It was handed over to another process or loop: closes our socket, and logs nothing. */
void client_forget(struct client *client);

/* Adds ` application_name="..."`, if the client has one. */
void client_add_application_name(const struct client *client, struct strbuf *out);

/*
 * A name chosen by the client in a form that others may read: printable ASCII without quotes, a `?`
 * for each other byte, CLIENT_PLAIN_SIZE - 1 bytes at most. "" for NULL. Returns `out`.
 */
#define CLIENT_PLAIN_SIZE 65
const char *client_plain(const char *name, char out[CLIENT_PLAIN_SIZE]);

/* The login is over: frees client->login. Does nothing if there is none. */
void client_login_free(struct client *client);

/* The client counts for max_client_conn no longer. */
void client_release_admission(struct client *client);

/* Whether the client has not answered an authentication request yet. */
static inline bool client_is_nobody(const struct client *client)
{
	return client->login && client->login->client && !client->login->has_answered;
}

/* Whether the client can be sent nothing more: it was refused or closed. */
static inline bool client_is_over(const struct client *client)
{
	return client->state == CLIENT_LINGERING || client->state == CLIENT_CLOSED;
}

extern const struct stream_ops client_stream_ops;

/* Handles buffered input as if it had just been read. */
void client_judge_kept(struct client *client);

/* Reads again, and handles buffered input. */
void client_read_on(struct client *client);

/* ---- client.c: time limits ---- */

static inline usec_t client_now(const struct client *client)
{
	return loop_now(client->clients->loop);
}

/* Sets the client's timer; limit 0: to never. */
static inline void client_arm(struct client *client, usec_t limit,
                              void (*on_due)(struct timer *timer), usec_t since)
{
	timer_set(&client->timer, loop_timer_queue(client->clients->loop, limit, on_due), since);
}

/* Starts client_login_timeout. client_login_due(): when it expires; 0 = never. */
void client_login_begin(struct client *client);
usec_t client_login_due(const struct client *client);

/* Starts the limit of a newcomer: that of waiting, or that of its login if it ends first. */
void client_newcomer_begin(struct client *client);

/* Starts client_idle_timeout; continues it with an earlier start; and returns that start. */
void client_idle_begin(struct client *client);
void client_idle_resume(struct client *client, usec_t since);
usec_t client_idle_since(const struct client *client);
void client_idle_rearm(struct client *client);

/*
 * How long the client waits for a server: query_wait_timeout, or the patience of its statement,
 * else its own, if that is shorter. 0: no limit.
 */
usec_t client_wait_limit(const struct client *client);

/*
 * The time limits of the client's queries and transactions. user: of the pool, or while it waits
 * that of the client. true: they are not those of all clients
 * of its pool, as there is an entry for its application_name.
 */
bool client_times(const struct client *client, const struct config_user *user,
                  struct config_times *times);

/* Such a patience, rounded down by at most an eighth. 0: none. */
uint8_t client_patience(usec_t time);

/* Starts query_wait_timeout and query_wait_notify. */
void client_wait_begin(struct client *client);

/* Applies the current fail_fast to a client that waits or is about to wait for a server. */
void client_hurry(struct client *client);

/* Applies changed limits to a newcomer, or to a client that waits for a server. */
void client_wait_rearm(struct client *client);

/* ---- clients_stop.c ---- */

/* Whether the startup packet must wait for RESUME. true: the client is not read until then. */
bool suspend_holds(struct client *client);

void drain_check(struct client *client);

/* In a DRAIN: closes it between two transactions, or if the deadline has passed. */
static inline void drain_look(struct client *client)
{
	if (client->clients->drain.is_on)
		drain_check(client);
}

/*
 * Begins a visit to all clients, with the first one, some in each turn: sets their time limits
 * again, and looks at each for DRAIN.
 */
void clients_visit(struct clients *clients);
void clients_visit_stop(struct clients *clients);

/* ---- cancel_request.c ---- */

/* The client sent a CancelRequest. */
void cancel_request_begin(struct client *client, struct bytes key);

/* The client is closed in CLIENT_CANCELING. */
void cancel_request_end(struct client *client);

/* ---- clients.c ---- */

/*
 * Makes a client that another process of ours hands over, which has logged in there by this gate
 * (NULL: main). It is incomplete, in CLIENT_IDLE. id 0: a new id. NULL: no memory; the caller still
 * owns fd.
 */
struct client *clients_revive(struct clients *clients, int fd, const struct address *peer,
                              const struct gate *gate, uint64_t id);

static inline struct gate *client_gate(const struct client *client)
{
	struct gate_table *gates = &client->clients->shared->gates;
	uint8_t number = client->borrower.gate;

	return number ? gates->at[number] : &gates->main;
}

/* What its mode decides. */
static inline const struct pool_rules *client_rules(const struct client *client)
{
	return pool_rules(&client->borrower);
}

/* The client that the pool knows by this. */
static inline struct client *client_of(struct borrower *borrower)
{
	return container_of(borrower, struct client, borrower);
}

/*
 * ---- batch.c ----
 *
 * A batch: what goes to a server in one write. It consists of runs of the client's bytes, which are
 * not copied, and of pieces of our own between them.
 */

#define BATCH_PIECES 32
#define BATCH_SIZE 1024

/* What becomes of a frame. */
enum judgement {
	JUDGE_SEND,  /* send it to the server; if nothing else is to be done, it is not noted yet */
	JUDGE_HEAD,  /* noted; `batch` has other bytes for the first *head: send the rest */
	JUDGE_DROP,  /* send nothing of the frame itself; what is owed for it was noted */
	JUDGE_MORE,  /* more bytes of the frame are needed */
	JUDGE_WAIT,  /* leave it in the input; with a server: until batch.waits_for */
	JUDGE_LEAVE, /* the client has sent Terminate */
	JUDGE_MEMORY, /* there is no memory: the client is to be refused */
	JUDGE_END     /* the client was refused or closed */
};

struct batch {
	struct server *server; /* the destination; NULL: the bytes are dropped */
	int count;             /* of `pieces` */
	int write_count;       /* of the bytes before these */
	size_t used;           /* of `buffer` */
	struct bytes unnamed; /* the text of a Parse message that may be kept. statements_judge.c */
	const char *rest;     /* the input behind what was answered here: Syncs, BEGIN; or NULL */
	struct ledger_change *change; /* of the next frame; NULL: it changes nothing */
	unsigned int touches;         /* of the last Parse message: enum sql_touch */
	/* the named statement of the last Bind and its portal, in what was received; or NULL */
	struct client_statement *bound;
	const char *bound_portal;
	const char *replay; /* start of a batch that may be sent again. statements_judge.c */
	bool is_query;      /* the message that is judged is a Query or FunctionCall */
	bool is_again;      /* it is being sent again */
	bool is_answered;   /* the client has got a reply to it that we made */
	bool is_borrowed;   /* it may have bytes of the text that the client has kept */
	bool ends;          /* its last message ends the transaction: causal.c */
	/* JUDGE_WAIT: what the client waits for before it sends more */
	enum ledger_wait waits_for;
	/* not zeroed */
	struct iovec pieces[BATCH_PIECES];
	char buffer[BATCH_SIZE];
};

static inline void batch_begin(struct batch *batch)
{
	memset(batch, 0, offsetof(struct batch, pieces));
}

static inline enum judgement batch_wait(struct batch *batch, enum ledger_wait what)
{
	batch->waits_for = what;
	return JUDGE_WAIT;
}

/* Adds bytes that stay in place until batch_send(). */
void batch_run(struct batch *batch, struct bytes bytes);

/* Adds a copy of bytes. Of more than BATCH_SIZE, a part is sent at once. */
void batch_copy(struct batch *batch, struct bytes bytes);

/* Adds the header of a message, whose body has `size` bytes. */
void batch_header(struct batch *batch, char type, size_t size);

/* Sends all pieces. false: the connection is broken; on_lost() comes. */
bool batch_send(struct batch *batch);

/* ---- messages of our own ---- */

/* Adds a Sync. false: no memory. */
bool batch_sync(struct batch *batch, struct server *server, enum ledger_fate fate);

/*
 * Adds statements (text;\0), as one Query, or as messages that end with the client's Sync. The
 * change is that of the first one. false: no memory.
 */
bool batch_add_statements(struct batch *batch, struct server *server, bool is_query,
                          struct bytes statements, struct ledger_change *change);

#endif
