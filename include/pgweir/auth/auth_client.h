/* SPDX-License-Identifier: ISC */
/*
 * The client side of an authentication exchange: we log in to a server. It has no socket: it
 * gets the bodies of Authentication messages ('R') and adds bytes to send to a buffer.
 */
#ifndef PGWEIR_AUTH_AUTH_CLIENT_H
#define PGWEIR_AUTH_AUTH_CLIENT_H

#include "pgweir/auth/derived.h"
#include "pgweir/config/config.h"

enum auth_client_result {
	AUTH_CLIENT_MORE,  /* send `out` (may be empty) and wait for the next 'R' */
	AUTH_CLIENT_WORK,  /* a helper thread works; after on_work call auth_client_resume() */
	AUTH_CLIENT_OK,    /* AuthenticationOk was received and is valid */
	AUTH_CLIENT_FAILED /* *err says why; its text may be sent to waiting clients */
};

struct auth_client_who {
	const char *user;
	const struct credentials *credentials;
	const struct config_list *require; /* server_require_auth; NULL = empty. Not kept */
	struct bytes binding; /* tls-server-end-point of the connection; empty: no SCRAM-PLUS */
	struct verifiers *verifiers; /* must exist until the exchange has ended */
	/*
	 * The work is slow if the server demands far more iterations than PostgreSQL's 4096: then
	 * it must not occupy a thread that others wait for.
	 */
	struct auth_runner runner;
};

struct auth_client;

/* Whether server_require_auth allows a server that requests no authentication. */
bool auth_client_may_enter_unasked(const struct config_list *require);

/* Copies or holds everything it needs. NULL: no memory. */
struct auth_client *auth_client_new(const struct auth_client_who *who);

/* Wipes and frees it. Call it as soon as the exchange has ended; it may be called earlier. */
void auth_client_free(struct auth_client **auth);

/* Handles the `body` of a complete message of type 'R'. */
enum auth_client_result auth_client_answer(struct auth_client *auth, struct bytes body,
                                           struct buf *out, struct err *err);

/* The method that the server has requested, for texts; NULL: none yet. Static. */
const char *auth_client_asked(const struct auth_client *auth);

/* What differs between the server's SCRAM challenge and the secret of our keys; NULL: nothing. */
const char *auth_client_mismatch(const struct auth_client *auth);

/* Continues after on_work. */
enum auth_client_result auth_client_resume(struct auth_client *auth, struct buf *out,
                                           struct err *err);

#endif
