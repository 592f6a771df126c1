/* SPDX-License-Identifier: ISC */
/*
 * Login: we prove to a server who we are. No socket: bodies of Authentication
 * messages ('R') come in, bytes to send are added to a buffer.
 *
 * In SCRAM the server must prove itself too, before its AuthenticationOk counts.
 */
#ifndef PGWEIR_AUTH_LOGIN_H
#define PGWEIR_AUTH_LOGIN_H

#include "pgweir/auth/credentials.h"
#include "pgweir/auth/derived.h"
#include "pgweir/config/config.h"

enum login_result {
	LOGIN_MORE,  /* send what is in `out` (it may be empty), wait for the next 'R' */
	LOGIN_WORK,  /* submit login_job(), wait for on_work, then login_resume() */
	LOGIN_OK,    /* AuthenticationOk has come, and counts */
	LOGIN_FAILED /* *err says why; the words may go to waiting clients */
};

struct login_who {
	const char *user;
	const struct credentials *credentials;
	const struct config_list *require; /* server_require_auth; NULL = empty. Not kept */
	struct bytes binding; /* tls-server-end-point of the connection; empty: no SCRAM-PLUS */
	struct verifiers *verifiers; /* must outlive the login's last step */
	/* From the loop, never from within a call here: the work of LOGIN_WORK is done. */
	void (*on_work)(void *arg);
	void *arg;
};

struct login;

/* Whether a server that asks for no proof may be entered, by server_require_auth. */
bool login_may_enter_unasked(const struct config_list *require);

/* Copies all it needs. NULL: no memory. */
struct login *login_new(const struct login_who *who);

/* Free it as soon as it has ended, or at any time before; wipes what it knew. */
void login_free(struct login **login);

/* `body` of a whole message of type 'R'. */
enum login_result login_answer(struct login *login, struct bytes body, struct buf *out,
                               struct err *err);

/* What the server has asked for, in words; NULL: nothing yet. Static. */
const char *login_asked(const struct login *login);

/* What differs in its SCRAM challenge from the secret that our keys are of; NULL: nothing. */
const char *login_mismatch(const struct login *login);

/* As entry_job() and entry_job_refused(). */
struct job *login_job(struct login *login);
void login_job_refused(struct login *login);

/*
 * Whether the job of LOGIN_WORK takes long: the server asks for far more iterations than
 * PostgreSQL's 4096. It must not occupy a thread that others wait for.
 */
bool login_is_slow(const struct login *login);

/* After on_work. */
enum login_result login_resume(struct login *login, struct buf *out, struct err *err);

#endif
