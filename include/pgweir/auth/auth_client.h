/* SPDX-License-Identifier: ISC */
/*
 * Login: we prove to a server who we are. No socket: bodies of Authentication
 * messages ('R') come in, bytes to send are added to a buffer.
 *
 * In SCRAM the server must prove itself too, before its AuthenticationOk counts.
 */
#ifndef PGWEIR_AUTH_AUTH_CLIENT_H
#define PGWEIR_AUTH_AUTH_CLIENT_H

#include "pgweir/auth/credentials.h"
#include "pgweir/auth/derived.h"
#include "pgweir/config/config.h"

enum auth_client_result {
	AUTH_CLIENT_MORE,  /* send what is in `out` (it may be empty), wait for the next 'R' */
	AUTH_CLIENT_WORK,  /* submit auth_client_job(), wait for on_work, then auth_client_resume()
	                    */
	AUTH_CLIENT_OK,    /* AuthenticationOk has come, and counts */
	AUTH_CLIENT_FAILED /* *err says why; the words may go to waiting clients */
};

struct auth_client_who {
	const char *user;
	const struct credentials *credentials;
	const struct config_list *require; /* server_require_auth; NULL = empty. Not kept */
	struct bytes binding; /* tls-server-end-point of the connection; empty: no SCRAM-PLUS */
	struct verifiers *verifiers; /* must outlive the login's last step */
	/* From the loop, never from within a call here: the work of AUTH_CLIENT_WORK is done. */
	void (*on_work)(void *arg);
	void *arg;
};

struct auth_client;

/* Whether a server that asks for no proof may be entered, by server_require_auth. */
bool auth_client_may_enter_unasked(const struct config_list *require);

/* Copies all it needs. NULL: no memory. */
struct auth_client *auth_client_new(const struct auth_client_who *who);

/* Free it as soon as it has ended, or at any time before; wipes what it knew. */
void auth_client_free(struct auth_client **login);

/* `body` of a whole message of type 'R'. */
enum auth_client_result auth_client_answer(struct auth_client *login, struct bytes body,
                                           struct buf *out, struct err *err);

/* What the server has asked for, in words; NULL: nothing yet. Static. */
const char *auth_client_asked(const struct auth_client *login);

/* What differs in its SCRAM challenge from the secret that our keys are of; NULL: nothing. */
const char *auth_client_mismatch(const struct auth_client *login);

/* As auth_server_job() and auth_server_job_refused(). */
struct job *auth_client_job(struct auth_client *login);
void auth_client_job_refused(struct auth_client *login);

/*
 * Whether the job of AUTH_CLIENT_WORK takes long: the server asks for far more iterations than
 * PostgreSQL's 4096. It must not occupy a thread that others wait for.
 */
bool auth_client_is_slow(const struct auth_client *login);

/* After on_work. */
enum auth_client_result auth_client_resume(struct auth_client *login, struct buf *out,
                                           struct err *err);

#endif
