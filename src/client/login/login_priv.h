/* SPDX-License-Identifier: ISC */
/*
 * The login of a client: from its first bytes until it is admitted to the console or to a
 * pool.
 *
 *   startup --> authentication --> admit --> welcome, or the console
 *                 |  auth_query
 */
#ifndef PGWEIR_CLIENT_LOGIN_LOGIN_PRIV_H
#define PGWEIR_CLIENT_LOGIN_LOGIN_PRIV_H

#include <string.h>

#include "pgweir/auth/auth_server.h"
#include "pgweir/pgwire/frame.h"

#include "../client_priv.h"

/* The settings of a login: those of the client's listener. */
static inline const struct config *login_config(const struct client *client)
{
	return client->borrower.gate ? client_gate(client)->rules.config : client->clients->config;
}

/* What its listener says, but for the settings. */
static inline const struct gate_rules *login_rules(const struct client *client)
{
	return client->borrower.gate ? &client_gate(client)->rules
	                             : &client->clients->shared->gates.main;
}

/* Frees client->login, which must not be NULL, and sets it to NULL. */
void login_free(struct client *client);

/* ---- startup_packets.c ---- */

/* Handles input in CLIENT_STARTUP. false: do not read more now; the client may be closed. */
bool startup_input(struct client *client, struct bytes in);

/* The TLS handshake has ended. err: it failed; NULL: the connection is encrypted. */
void startup_secured(struct client *client, const struct err *err);

/* ---- authentication.c ---- */

/* Begins authentication. The names of user and database are set. */
void authentication_begin(struct client *client);
/* A name that authentication needs has been looked up: decides again. */
void authentication_go_on(struct client *client);
/* Handles input in CLIENT_AUTHENTICATION. false: do not read more now; the client may be closed. */
bool authentication_input(struct client *client, struct bytes in);

/* ---- admit.c ---- */

/* Counts the client for max_client_conn, unless it asked for the console. false: it was refused. */
bool admit_hold(struct client *client);

/* Whether the client asked for the console. */
bool admit_is_console(const struct client *client);

/* The system user of pgweir, over the Unix socket, as pgbouncer: needs no authentication. */
bool admit_is_owner(const struct client *client);

/* Sets the client's rights on the console. false: it has none, and was refused. */
bool admit_console_role(struct client *client);

/* Counts it for its user and database. false: at a limit, it was refused. */
bool admit_count(struct client *client);

/* After admit_count(): connects the client to the console or to a pool, or refuses it. */
void admit_enter(struct client *client);

/*
 * Limits the file descriptors of clients that have not logged in. unauthenticated_add()
 * adds a client; if descriptors run short, it closes the oldest other one.
 * unauthenticated_is_short(): descriptors run short, and this client must be refused.
 */
void unauthenticated_add(struct client *client);
bool unauthenticated_is_short(const struct client *client);

/* ---- welcome.c ---- */

/* Sends NegotiateProtocolVersion if the client asked for a newer version or unknown options. */
void welcome_negotiate(struct client *client);

/* Sends the welcome when the pool knows it; replication: when its server has logged in. */
void welcome_begin(struct client *client);

/*
 * The pool has its welcome: sends it. If a server is at rest, it first says what it makes of the
 * client's parameters: welcome_tried(), or welcome_lost().
 */
void welcome_try(struct client *client);
void welcome_tried(struct client *client);
void welcome_lost(struct client *client, const struct err *err);
/* Replication: the welcome has what the client's dedicated server reported. */
void welcome_send_dedicated(struct client *client);

/* ---- welcome.c: the console ---- */

/* The client requested the console, and is admitted. */
void console_begin(struct client *client);
bool console_input(struct client *client, struct bytes in);
void console_flushed(struct client *client);
bool console_cancel(struct client *client);
void console_end(struct client *client);

/* ---- auth_query.c ---- */

enum auth_query_result {
	AUTH_QUERY_FOUND,   /* *secret is set */
	AUTH_QUERY_UNKNOWN, /* there is no such user */
	AUTH_QUERY_RENAMED, /* login->user has changed: choose the method again */
	AUTH_QUERY_LOOKING, /* a query runs; authentication_go_on() is called afterwards */
	AUTH_QUERY_OVER     /* the client was refused */
};

/* Finds the secret. *secret is borrowed: it is valid until the login ends, or until a reload. */
enum auth_query_result auth_query_find(struct client *client, struct secret *secret);

/* What an exchange with an unknown user imitates. false: a user of auth_file. */
bool auth_query_likeness(const struct client *client, struct mock_form *like);

/* The name that the client sent and uses in the exchange; auth_query may replace it. */
const char *auth_query_claimed(const struct client *client);

/* Whether its secret is in force after a reload. false: it may have been refused already. */
bool auth_query_holds(struct client *client);

/* Call when authentication failed: a cached answer may be out of date, and is dropped. */
void auth_query_failed(struct client *client);

void auth_query_done(struct auth_query *auth_query);

/* Frees all lookups. No login may be waiting. */
void auth_lookups_free(struct clients *clients);

/* Applies a new snapshot: drops all cached answers. New logins do not join running queries. */
void auth_lookups_configure(struct clients *clients);

#endif
