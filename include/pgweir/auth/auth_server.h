/* SPDX-License-Identifier: ISC */
/*
 * The server side of an authentication exchange: a client logs in to us. It has no socket: it
 * gets the bodies of messages of type 'p' and adds bytes to send to a buffer. Each step returns
 * a result.
 *
 *   auth_server_new, auth_server_start --> MORE: send `out`, wait for 'p', auth_server_answer
 *                          --> WORK: after on_work auth_server_resume
 *                          --> OK | REFUSED | BUSY: then auth_server_free
 *
 * The caller sends AuthenticationOk after AUTH_SERVER_OK. An unknown user goes through the same
 * exchange with a mock secret, and fails at its end. The work of AUTH_METHOD_PAM, AUTH_METHOD_LDAP
 * and AUTH_METHOD_PEER may take long, so it has threads of its own.
 */
#ifndef PGWEIR_AUTH_AUTH_SERVER_H
#define PGWEIR_AUTH_AUTH_SERVER_H

#include "pgweir/auth/auth_methods.h"
#include "pgweir/auth/derived.h"

enum auth_server_result {
	AUTH_SERVER_MORE,   /* send `out`, wait for the client's next 'p' */
	AUTH_SERVER_WORK,   /* a helper thread works; after on_work call auth_server_resume() */
	AUTH_SERVER_BUSY,   /* too many logins at once, or no memory for the work */
	AUTH_SERVER_OK,     /* the user is authenticated; send `out` */
	AUTH_SERVER_REFUSED /* *err is for the client, auth_server_reason() is for the log */
};

struct auth_server_who {
	enum auth_method method;
	const char *user;
	const struct secret *secret; /* NULL: unknown user. Not kept */
	/* for an unknown user: what to imitate; NULL: one of `users`, or nobody. Not kept */
	const struct mock_form *like;
	const struct users *users;
	/* CERT: the caller has verified the name. The user must still be known */
	bool is_proven;
	/*
	 * PEER: the system user at the other end, and whether one of that name is this user. Called
	 * with the runner's arg, when the name has been found.
	 */
	uid_t uid;
	bool (*is_named)(void *arg, const char *name);
	const char *options; /* PAM, LDAP: see auth_methods.h */
	const char *host;    /* PAM: the client's host */
	/* PAM, LDAP: when the client's login times out, by clock_now(); 0 = never */
	usec_t deadline;
	unsigned int iterations; /* scram_iterations: for plain secrets and unknown users */
	/* tls-server-end-point of the connection; empty: no SCRAM-PLUS. Not kept */
	struct bytes binding;
	struct verifiers *verifiers; /* must exist until the exchange has ended */
	struct auth_runner runner;
};

struct auth_server;

/* Copies everything it needs. NULL: no memory. */
struct auth_server *auth_server_new(const struct auth_server_who *who);

/* Wipes and frees it. Call it as soon as the exchange has ended; it may be called earlier. */
void auth_server_free(struct auth_server **auth);

/* Starts the exchange: adds the first request, if the method has one, to *out. */
enum auth_server_result auth_server_start(struct auth_server *auth, struct buf *out,
                                          struct err *err);

/* Handles the `body` of a complete message of type 'p'. */
enum auth_server_result auth_server_answer(struct auth_server *auth, struct bytes body,
                                           struct buf *out, struct err *err);

/* Continues after on_work. */
enum auth_server_result auth_server_resume(struct auth_server *auth, struct buf *out,
                                           struct err *err);

/* After AUTH_SERVER_REFUSED: why, without secrets, for the log. Until auth_server_free(). */
const char *auth_server_reason(const struct auth_server *auth);

/* The name of the method, for the log. Static. */
const char *auth_server_method_name(const struct auth_server *auth);

/* The options that it was begun with; "": none. */
const char *auth_server_options(const struct auth_server *auth);

/* Whether the exchange uses exactly this secret: a reload may have changed it. */
bool auth_server_is_by(const struct auth_server *auth, const struct secret *secret);

/*
 * After AUTH_SERVER_OK: credentials to log in to a server as this user: the password (stored, or
 * sent by the client), else the SCRAM keys, else the md5 secret. The caller owns one reference.
 * NULL: none of these, or no memory.
 */
const struct credentials *auth_server_credentials(const struct auth_server *auth);

#endif
