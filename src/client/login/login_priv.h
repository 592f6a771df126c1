/* SPDX-License-Identifier: ISC */
/*
 * The login of a client: from its first bytes until it is admitted to the console or to a pool.
 *
 *   startup, tls, proxy_header --> authentication --> admit --> welcome, or the console
 *                                    |  hba_check, auth_query, throttle
 */
#ifndef PGWEIR_CLIENT_LOGIN_LOGIN_PRIV_H
#define PGWEIR_CLIENT_LOGIN_LOGIN_PRIV_H

#include <string.h>

#include "../client_priv.h"

#include "pgweir/auth/auth_server.h"
#include "pgweir/pgwire/frame.h"

/* ---- login.c ---- */

/* NULL: no memory. */
struct client_login *login_new(void);

/* Frees client->login, which is not NULL. */
void login_free(struct client *client);

/* Whether both options of an authentication method are the same, or none. */
static inline bool login_same_options(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

/* The name in its certificate, which was verified; NULL: it has none, or more than one. */
static inline const char *login_certificate_name(const struct client *client)
{
	return client->login ? client->login->certificate_name : NULL;
}

/* ---- startup.c ---- */

bool startup_input(struct client *client, struct bytes in);

/* ---- proxy_header.c ---- */

/* Takes the PROXY header from the front of *in, if there is and may be one. WIRE_BAD: closed. */
enum wire_result proxy_header_read(struct client *client, struct bytes *in);

/* ---- tls.c ---- */

/* It sent an SSLRequest; has_more: and more in plain behind it. false: go no further. */
bool tls_asked(struct client *client, bool has_more);

/* It begins with a ClientHello. true: TLS is not offered; false: go no further. */
bool tls_hello(struct client *client, struct bytes hello);

/* Whether it must use TLS, and does not. */
bool tls_is_missing(const struct client *client);

/* Its connection is encrypted now; err: it could not be. */
void tls_secured(struct client *client, const struct err *err);

/* ---- authentication.c ---- */

/* Its user and database are known: authenticates it. */
void authentication_begin(struct client *client);
bool authentication_input(struct client *client, struct bytes in);

/* ---- hba_check.c ---- */

/* How a client is to authenticate. */
struct authentication_way {
	enum auth_method method;
	bool is_proven;      /* the voucher of the method says: its name is the right one */
	const char *options; /* of one that is_outside: see auth/outside.h; else NULL */
};

enum hba_check_result {
	HBA_CHECK_FOUND,   /* *way is what its rule says */
	HBA_CHECK_LOOKING, /* a name is looked up; then login->on_looked_up() is called */
	HBA_CHECK_OVER     /* the client has been refused */
};

/* auth_type hba: finds its rule. */
enum hba_check_result hba_check_decide(struct client *client, struct authentication_way *way);

/* Whether the rules in force allow this method and these options, by what is known by now. */
bool hba_check_is_by(const struct client *client, enum auth_method method, const char *options);

void hba_check_free(struct client_login *login);

/* ---- throttle.c ---- */

/* Whether one more of its address may try to log in. false: it has been refused. */
bool throttle_admits(struct client *client);

/* Its login has failed: it is told so after auth_failure_delay. In CLIENT_AUTHENTICATION. */
void throttle_refuse(struct client *client, const struct err *err);

/* It goes, or has been told. */
void throttle_forget(struct client *client);

/* ---- admit.c ---- */

/* Counts it for max_client_conn, if it is not for the console. false: it is refused. */
bool admit_hold(struct client *client);

/* Whether it asks for the console. */
bool admit_is_console(const struct client *client);

/* Whether it has the system user that runs us, who needs no authentication for the console. */
bool admit_is_owner(const struct client *client);

/* What its user may do on the console. false: nothing, and it has been refused. */
bool admit_console_role(struct client *client);

/* Authenticated: one more of its user and database. false: too many, and it has been refused. */
bool admit_count(struct client *client);

/* It is counted: it gets what it asked for, or is refused. */
void admit_enter(struct client *client);

/* ---- crowd.c ---- */

/* One more than max_client_conn: refuses it. */
void crowd_refuse(struct client *client);

/* ---- unauthenticated.c ---- */

/*
 * Clients that have not logged in, and the files that are open. unauthenticated_add(): one more;
 * the oldest of the others is closed if files run short. unauthenticated_is_short(): files run
 * short, and this one must be refused.
 */
void unauthenticated_add(struct client *client);
bool unauthenticated_is_short(const struct client *client);

/* ---- welcome.c ---- */

/* NegotiateProtocolVersion, if there is something to negotiate. */
void welcome_negotiate(struct client *client);

/* It joins its pool, and is welcomed as soon as that knows its welcome. */
void welcome_begin(struct client *client);
void welcome_send(struct client *client);
void welcome_send_dedicated(struct client *client); /* from the server that logged in for it */

#endif
