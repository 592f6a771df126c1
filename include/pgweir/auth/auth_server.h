/* SPDX-License-Identifier: ISC */
/*
 * Entry: a client proves who it is. No socket: bodies of messages of type 'p'
 * come in, bytes to send are added to a buffer, and each step has a result.
 *
 *   auth_server_new, auth_server_start --> MORE: send `out`, wait for 'p', auth_server_answer
 *                          --> WORK: submit auth_server_job(); at on_work auth_server_resume
 *                          --> OK | REFUSED: then auth_server_free
 *
 * AuthenticationOk is not sent here: the client goes on with it after AUTH_SERVER_OK.
 * A user who does not exist goes through the same exchange, has a mock secret in it, and
 * fails at its end.
 * The job of AUTH_METHOD_PAM and AUTH_METHOD_LDAP may take long: it has threads of its own.
 */
#ifndef PGWEIR_AUTH_AUTH_SERVER_H
#define PGWEIR_AUTH_AUTH_SERVER_H

#include "pgweir/auth/auth_methods.h"
#include "pgweir/auth/credentials.h"
#include "pgweir/auth/derived.h"

enum auth_server_result {
	AUTH_SERVER_MORE,   /* send what is in `out`, wait for the client's next 'p' */
	AUTH_SERVER_WORK,   /* submit auth_server_job(), wait for on_work, then auth_server_resume()
	                     */
	AUTH_SERVER_OK,     /* it is who it says; send what is in `out` */
	AUTH_SERVER_REFUSED /* *err is what the client may be told; auth_server_reason() is for the
	                       log */
};

struct auth_server_who {
	enum auth_method method;
	const char *user;
	const struct secret *secret; /* NULL: no such user */
	const struct users *users;   /* those who exist; NULL: not known. Whoever does not
	                                exist is asked as one of them. Not kept */
	bool is_proven;              /* PEER, CERT: proven without us. A user must still be known */
	const char *options;         /* PAM, LDAP: as outside.h has it */
	const char *host;            /* PAM: whence the user comes */
	usec_t deadline;             /* PAM, LDAP: nobody waits for longer; 0 = none */
	unsigned int iterations;     /* scram_iterations: for plain secrets and users who are not */
	struct bytes binding; /* tls-server-end-point of its connection; empty: no SCRAM-PLUS */
	struct verifiers *verifiers; /* must outlive the entry's last step */
	/* From the loop, never from within a call here: the work of AUTH_SERVER_WORK is done. */
	void (*on_work)(void *arg);
	void *arg;
};

struct auth_server;

/* Copies all it needs. NULL: no memory. */
struct auth_server *auth_server_new(const struct auth_server_who *who);

/* Free it as soon as it has ended, or at any time before; wipes what it knew. */
void auth_server_free(struct auth_server **entry);

enum auth_server_result auth_server_start(struct auth_server *entry, struct buf *out,
                                          struct err *err);

/* `body` of a whole message of type 'p'. */
enum auth_server_result auth_server_answer(struct auth_server *entry, struct bytes body,
                                           struct buf *out, struct err *err);

/*
 * After AUTH_SERVER_WORK, once: the job to submit. It frees itself. When
 * workers_submit() refuses it, call auth_server_job_refused(), and then auth_server_free().
 */
struct job *auth_server_job(struct auth_server *entry);
void auth_server_job_refused(struct auth_server *entry);

/* After on_work. */
enum auth_server_result auth_server_resume(struct auth_server *entry, struct buf *out,
                                           struct err *err);

/* After AUTH_SERVER_REFUSED: why, for the log only; never holds a secret. Good until
 * auth_server_free(). */
const char *auth_server_reason(const struct auth_server *entry);

/* The method by which it came in or is tried, in words for the log. Static. */
const char *auth_server_method_name(const struct auth_server *entry);

/* Whether it is judged by this very secret: a reload may have brought another one. */
bool auth_server_is_by(const struct auth_server *entry, const struct secret *secret);

/*
 * After AUTH_SERVER_OK: with what a server can be entered in this user's name: the
 * password that is stored or that the client sent, else its SCRAM keys, else
 * the md5 secret. *credentials must be at rest. false: no memory.
 */
bool auth_server_credentials(const struct auth_server *entry, struct credentials *credentials);

#endif
