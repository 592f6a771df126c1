/* SPDX-License-Identifier: ISC */
/*
 * Clients, inside the room.
 */
#ifndef PGWEIR_CLIENT_CLIENT_PRIV_H
#define PGWEIR_CLIENT_CLIENT_PRIV_H

#include "pgweir/auth/auth_server.h"
#include "pgweir/client/clients.h"
#include "pgweir/pgwire/frame.h"

#define CLIENT_OF(member, field) \
	((struct client *)((char *)(member)-offsetof(struct client, field)))

extern const struct stream_ops client_stream_ops; /* client_stream.c */
extern const struct borrower_ops client_borrower_ops;

/* The only place that writes client->state. */
void client_enter(struct client *client, enum client_state next);

/* Closes it at once; it is freed at the end of the turn. `reason` is for the log; NULL: not a word.
 */
void client_close(struct client *client, const char *reason);

/* Ends it with an error of our own. */
void client_refuse(struct client *client, enum err_code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same, with more words for DETAIL and the log, and for HINT; both may be NULL. */
void client_fatal_detailed(struct client *client, const struct err *err, const char *detail,
                           const char *hint);

/* Its pool does not let it wait. */
void client_turn_away(struct client *client, const struct err *err);

/* It is about to wait for a server, or waits: fail_fast as it is now. */
void client_hurry(struct client *client);

/* Ends one that waits in a line of its pool, and says why that took so long. */
void client_give_up(struct client *client, enum err_code code, const char *words);

/* Adds ` application_name="..."`, if it has one: behind all that the contract has in a line. */
void client_add_application_name(const struct client *client, struct strbuf *line);

/*
 * A name of the client's own choice as others may read it: printable ASCII without quotes, a `?`
 * for each other byte, CLIENT_PLAIN_SIZE - 1 bytes at most. "" for NULL. Returns `out`.
 */
#define CLIENT_PLAIN_SIZE 65
const char *client_plain(const char *name, char out[CLIENT_PLAIN_SIZE]);

void client_login_free(struct client *client);

/* place.c: counts it for max_client_conn, if it is not for the console. false: it is refused. */
bool admit_hold(struct client *client);
void admit_uncount(struct client *client);

/* Ends it without a word of ours: it has been told by somebody else, and may read that. */
void client_leave(struct client *client, const char *reason);

/* Sends; false: it is closed now. */
bool client_send(struct client *client, struct bytes bytes);

/* ---- input, by state: each uses up what it can and keeps the rest; false: go no further ---- */

bool startup_input(struct client *client, struct bytes in); /* startup.c */
/* What its startup packet said of its session becomes its parameters. false: it was refused. */
bool startup_settle(struct client *client); /* startup.c */
/* While all is suspended: its startup packet has to wait, and it is read no further. */
bool startup_holds(struct client *client);                         /* suspend.c */
bool authentication_input(struct client *client, struct bytes in); /* proof.c */
bool relay_input(struct client *client, struct bytes in);          /* relay.c */
bool console_input(struct client *client, struct bytes in);        /* console_door.c */

/*
 * Takes the PROXY header from the front of *in, if there is and may be one.
 * WIRE_BAD: it is closed. introduction.c
 */
enum wire_result proxy_header_read(struct client *client, struct bytes *in);

/* ---- guard.c ---- */

/* Whether one more of its address may try to log in. false: it has been refused. */
bool throttle_admits(struct client *client);

/* Its login has failed: it is told so, after auth_failure_delay. In CLIENT_AUTHENTICATION. */
void throttle_refuse(struct client *client, const struct err *err);

/* It goes, or has been told. */
void throttle_forget(struct client *client);

/* ---- client_tls.c ---- */

/* It sent an SSLRequest; has_more: and more in plain behind it. false: go no further. */
bool client_tls_asked(struct client *client, bool has_more);

/* It begins with a ClientHello. true: that is nothing for us; false: go no further. */
bool client_tls_hello(struct client *client, struct bytes hello);

/* It may not come in without TLS, and has none. */
bool client_tls_is_missing(const struct client *client);

/* Its on_secured(). */
void client_tls_done(struct stream *stream, const struct err *err);

/* Judges what is kept, as if it had just come. */
void client_judge_kept(struct client *client);

/* Its user and database are known: begins the proof. proof.c */
void authentication_begin(struct client *client);

/* Chooses what it is asked for, by auth_type. */
void authentication_choose(struct client *client);

/*
 * Asks for that. is_proven: AUTH_METHOD_PEER, AUTH_METHOD_CERT: it is who it says. options:
 * AUTH_METHOD_PAM, AUTH_METHOD_LDAP: see auth/outside.h; else NULL.
 */
void authentication_ask(struct client *client, enum auth_server_method method, bool is_proven,
                        const char *options);

/* Waits for what is being looked up for that; it is known now: goes on with
 * authentication_choose(). */
void authentication_look(struct client *client);
void authentication_look_done(struct client *client);

/* It was in another state, and is back: looks at what has come meanwhile. */
void authentication_went_on(struct client *client);

/* ---- place.c ---- */

/* Whether it asks for the console. */
bool admit_is_console(const struct client *client);

/* Whether it is whoever runs us, who may enter the console without a proof. */
bool admit_is_owner(const struct client *client);

/* What its user may do on the console. false: nothing, it has been told so. */
bool admit_console_role(struct client *client);

/* It is who it says it is: one more of its user and database. false: too many, it was told so. */
bool admit_count(struct client *client);

/* With what it proved itself we may enter a server in its name. */
void admit_learn_secret(struct client *client);

/* It has its place: it gets what it asked for, or is told why not. */
void admit_enter(struct client *client);

/* ---- admission.c ---- */

/* auth_type hba: finds its rule, now or later, and asks for what that says. admission.c */
void hba_check_decide(struct client *client);

/* Whether the rules in force let it in by this method and options, by what is known of it. */
bool hba_check_is_by(const struct client *client, enum auth_server_method method,
                     const char *options);

/* Whether both are the same, or none. */
bool authentication_same_options(const char *a, const char *b);

void hba_check_free(struct client_login *login);

/*
 * Clients that have not logged in, and the files that are open. unauthenticated_add(): one more;
 * the oldest of the others is closed if files run short. unauthenticated_is_short(): files run
 * short, and this one must be refused. unproven.c
 */
void unauthenticated_add(struct client *client);
void unauthenticated_remove(struct client_login *login);
bool unauthenticated_is_short(const struct client *client);

/* Closes it with a message, as far as the socket takes that at once. client.c */
void client_dismiss(struct client *client, struct bytes words, const char *reason);

/* Whether it has not answered an authentication request yet. client_stream.c */
bool client_is_nobody(const struct client *client);

/*
 * What rules may ask of its connection.
 */
static inline bool client_is_tls(const struct client *client)
{
	return stream_is_encrypted(&client->stream);
}

/* The name in its certificate, which was verified; NULL: it has none, or more than one. */
static inline const char *client_certificate_name(const struct client *client)
{
	return client->login ? client->login->certificate_name : NULL;
}

/* Whether it asks for physical replication. */
static inline bool client_is_physical(const struct client *client)
{
	return client->replication == REPLICATION_PHYSICAL;
}

/* client_login_timeout begins. */
void client_login_begin(struct client *client);

/* When its login has taken too long; 0 = never. */
usec_t client_login_due(const struct client *client);

/* A client in the line is cancelled: its request is answered with an error here. relay.c */
void relay_cancel_waiting(struct client *client);

/* welcome.c: NegotiateProtocolVersion, if there is something to negotiate; a cancel key
 * (false: no memory, it was told so); its pool; and, when the pool has a welcome, that. */
void welcome_negotiate(struct client *client);
bool welcome_key(struct client *client);
void welcome_begin(struct client *client);
void welcome_send(struct client *client);
void welcome_send_dedicated(struct client *client); /* from the server that logged in for it */

/*
 * slow.c: a frame of a batch, of which `in` has the header and more or less of the body; the
 * batch has been answered in full (is_kept: its text is shown until the next one begins); it
 * never will be.
 */
void slow_note(struct client *client, const struct frame *frame, struct bytes in);
void slow_end(struct client *client, usec_t duration, bool is_kept);
void slow_forget(struct client *client);

/* A CancelRequest came. canceling.c */
void cancel_request_begin(struct client *client, struct bytes key);
void cancel_request_end(struct client *client);

/*
 * A client of another process of ours, which has logged in there: half made, in CLIENT_IDLE.
 * id 0: the next. NULL: no memory, and fd is the caller's. clients.c
 */
struct client *clients_revive(struct clients *clients, int fd, const struct address *peer,
                              uint64_t id);

/* It is gone, without a word. */
void client_forget(struct client *client);

/* client_idle_timeout runs since then; and since when it does. */
void client_idle_resume(struct client *client, usec_t since);
usec_t client_idle_since(const struct client *client);

/* It is in, and asked for the console. console_door.c */
void console_begin(struct client *client);

/* One more than max_client_conn has come: refuses it. crowd.c */
void crowd_refuse(struct client *client);

/* Random bytes from the store. */
void clients_random(struct clients *clients, void *out, size_t count);

/* ---- emptying.c ---- */

/* While it is on: closes a client that has come to rest, or whose time is up. */
void drain_look(struct client *client);

/* It is closed. */
void drain_gone(struct client *client);

/* All of them go: no timer and no task stays. */
void drain_stop(struct clients *clients);

/* ---- limits ---- */

void client_idle_begin(struct client *client); /* client_idle_timeout */
void client_wait_begin(struct client *client); /* query_wait_timeout, query_wait_notify */

/* It waits for a server to log in: the limit of waiting, or that of its login. */
void client_newcomer_begin(struct client *client);

/* Limits that changed count for the state that the client is in. */
void client_rearm(struct client *client);

#endif
