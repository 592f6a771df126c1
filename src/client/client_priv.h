/* SPDX-License-Identifier: ISC */
/*
 * The core of the client module: what login, relay and statements use of a client. It calls none of
 * them; what they do for a client in each of its states is handed to it as a table (client_ops).
 */
#ifndef PGWEIR_CLIENT_CLIENT_PRIV_H
#define PGWEIR_CLIENT_CLIENT_PRIV_H

#include "pgweir/client/clients.h"

#define CLIENT_OF(member, field) \
	((struct client *)((char *)(member)-offsetof(struct client, field)))

/* What is done for a client in one of its states. Each may be NULL. */
struct client_state_ops {
	/*
	 * Uses up what it can of the input and keeps the rest. false: read no further. NULL: all
	 * of it is kept, and nothing more is read.
	 */
	bool (*on_input)(struct client *client, struct bytes in);

	/* All that was sent has gone out. */
	void (*on_flushed)(struct client *client);

	/* A CancelRequest has its key. NULL: its server is asked to cancel. */
	void (*on_cancel)(struct client *client);

	/* Time limits may have changed: the one of this state is set again. */
	void (*rearm)(struct client *client);

	/* The client ends in this state: frees what there is in this state only. */
	void (*on_end)(struct client *client);
};

/* What the core calls. There is one such table: client_states.c. */
struct client_ops {
	struct client_state_ops states[CLIENT_STATES];
	const struct borrower_ops *borrower;

	/* Its connection has become encrypted; err: it could not. */
	void (*on_secured)(struct client *client, const struct err *err);

	/* Frees client->login, which is not NULL. */
	void (*free_login)(struct client *client);

	/* The client has left its pool: frees what it had for its work there. */
	void (*free_work)(struct client *client);

	/* It is closed. */
	void (*on_closed)(struct client *client);
};

/*
 * Optional features that look at messages of a client; a bit may be set in vain, but each that
 * concerns the client is. Without any, its messages take the plain path.
 */
enum client_feature {
	CLIENT_REFUSES_QUERY = 1 << 0,     /* disable_pqexec */
	CLIENT_NOTES_SLOW = 1 << 1,        /* log_min_duration */
	CLIENT_FOLLOWS_STATEMENTS = 1 << 2 /* max_prepared_statements, or it has prepared some */
};

static inline unsigned int client_features(const struct client *client)
{
	return client->features | client->clients->features;
}

/* ---- client.c ---- */

/* The only place that writes client->state. */
void client_enter(struct client *client, enum client_state next);

/*
 * Closes it at once; it is freed at the end of the turn. CLOSE_NONE: neither logged nor counted.
 * The other one has the words of an error.
 */
void client_close(struct client *client, enum close_reason reason);
void client_close_err(struct client *client, const struct err *err);

/* Sends; false: it is closed now. */
bool client_send(struct client *client, struct bytes bytes);

/* Ends it with an error of ours. */
void client_refuse(struct client *client, enum err_code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same for a reason of the table, in its words; in other words, with values in them. */
void client_refuse_for(struct client *client, enum close_reason reason);
void client_refuse_with(struct client *client, enum close_reason reason, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same, with more words for DETAIL and the log, and for HINT; both may be NULL. */
void client_fatal_detailed(struct client *client, const struct err *err, const char *detail,
                           const char *hint);

/* Its pool does not let it wait. */
void client_turn_away(struct client *client, const struct err *err);

/* Ends one that waits in its pool, and says why that took so long. */
void client_give_up(struct client *client, enum close_reason reason);

/* Closes it after flushing, without an error of ours: the server's FATAL has been forwarded. */
void client_leave(struct client *client, const struct err *err);

/* Closes it with a message, as far as the socket takes that at once. */
void client_dismiss(struct client *client, struct bytes words, enum close_reason reason);

/* It has been handed over to another process: closes our half, and logs nothing. */
void client_forget(struct client *client);

/* While it lingers: reads and drops what it still sends; and stops sending. */
bool client_drop_input(struct client *client, struct bytes in);
void client_finish(struct client *client);

/* Adds ` application_name="..."`, if it has one. */
void client_add_application_name(const struct client *client, struct strbuf *line);

/*
 * A name of the client's own choice as others may read it: printable ASCII without quotes, a `?`
 * for each other byte, CLIENT_PLAIN_SIZE - 1 bytes at most. "" for NULL. Returns `out`.
 */
#define CLIENT_PLAIN_SIZE 65
const char *client_plain(const char *name, char out[CLIENT_PLAIN_SIZE]);

/* Its login is over: frees client->login. Safe when it has none. */
void client_login_free(struct client *client);

/* It counts for max_client_conn no more. */
void client_release_admission(struct client *client);

/* Whether it has not answered an authentication request yet. */
static inline bool client_is_nobody(const struct client *client)
{
	return client->login && client->login->client && !client->login->has_answered;
}

/* Whether nothing more can be done for it: it has been refused, or closed. */
static inline bool client_is_over(const struct client *client)
{
	return client->state == CLIENT_LINGERING || client->state == CLIENT_CLOSED;
}

static inline bool client_is_tls(const struct client *client)
{
	return stream_is_encrypted(&client->stream);
}

/* Whether it asks for physical replication. */
static inline bool client_is_physical(const struct client *client)
{
	return client->replication == REPLICATION_PHYSICAL;
}

/* ---- client_stream.c ---- */

extern const struct stream_ops client_stream_ops;

/* Handles what is kept, as if it had just been read. */
void client_judge_kept(struct client *client);

/* Reads on, and handles what is kept. */
void client_read_on(struct client *client);

/* ---- client_key.c ---- */

/* Gives a key to one that logs in. false: no memory, and it has been refused. */
bool client_key_give(struct client *client);

/* ---- client_limits.c ---- */

/* client_login_timeout; client_login_due(): when it ends; 0 = never. */
void client_login_begin(struct client *client);
usec_t client_login_due(const struct client *client);

/* It waits for a server to log in: the limit of waiting, or that of its login. */
void client_newcomer_begin(struct client *client);

/* client_idle_timeout begins; has been running since then; and since when it does. */
void client_idle_begin(struct client *client);
void client_idle_resume(struct client *client, usec_t since);
usec_t client_idle_since(const struct client *client);
void client_idle_rearm(struct client *client);

/* query_wait_timeout, query_wait_notify. */
void client_wait_begin(struct client *client);

/* fail_fast as it is now, for one that is about to wait for a server, or waits. */
void client_hurry(struct client *client);

/* Limits of waiting that changed, of a newcomer and of one that waits. */
void client_newcomer_rearm(struct client *client);
void client_wait_rearm(struct client *client);

/* ---- suspend.c ---- */

/* Whether a startup packet has to wait for RESUME; then the client is read no further. */
bool suspend_holds(struct client *client);

/* ---- drain.c ---- */

void drain_check(struct client *client);

/* While DRAIN is on: closes a client that is between two transactions, or whose time is up. */
static inline void drain_look(struct client *client)
{
	if (client->clients->drain.is_on)
		drain_check(client);
}

/* A client is closed. */
void drain_gone(struct client *client);

/* Stops its timers and its task. */
void drain_stop(struct clients *clients);

/* ---- console_door.c ---- */

/* It is admitted, and asked for the console. */
void console_begin(struct client *client);
bool console_input(struct client *client, struct bytes in);
void console_flushed(struct client *client);
void console_cancel(struct client *client);
void console_end(struct client *client);

/* ---- cancel_request.c ---- */

/* A CancelRequest came. */
void cancel_request_begin(struct client *client, struct bytes key);

/* Its client ends: CLIENT_CANCELING, CLIENT_ROUTING. */
void cancel_request_end(struct client *client);
void cancel_request_end_forward(struct client *client);

/* ---- clients.c ---- */

/*
 * A client of another process of ours, which has logged in there: half made, in CLIENT_IDLE.
 * id 0: the next. NULL: no memory, and fd is the caller's.
 */
struct client *clients_revive(struct clients *clients, int fd, const struct address *peer,
                              uint64_t id);

#endif
