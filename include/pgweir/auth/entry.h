/* SPDX-License-Identifier: ISC */
/*
 * Entry: a client proves who it is. No socket: bodies of messages of type 'p'
 * come in, bytes to send are added to a buffer, and each step has a result.
 *
 *   entry_new, entry_start --> MORE: send `out`, wait for 'p', entry_answer
 *                          --> WORK: submit entry_job(); at on_work entry_resume
 *                          --> OK | REFUSED: then entry_free
 *
 * AuthenticationOk is not sent here: the client goes on with it after ENTRY_OK.
 * A user who does not exist goes through the same exchange, has a mock secret in it, and
 * fails at its end.
 * The job of ENTRY_PAM and ENTRY_LDAP may take long: it has threads of its own.
 */
#ifndef PGWEIR_AUTH_ENTRY_H
#define PGWEIR_AUTH_ENTRY_H

#include "pgweir/auth/credentials.h"
#include "pgweir/auth/derived.h"

enum entry_method {
	ENTRY_TRUST, /* nothing is asked, but the user must be known */
	ENTRY_ANY,   /* nothing is asked at all */
	ENTRY_PLAIN,
	ENTRY_MD5, /* goes over to SCRAM when the secret is of that kind */
	ENTRY_SCRAM,
	ENTRY_PEER, /* nothing is asked: who.is_proven says whether it is who it says */
	ENTRY_CERT, /* the same */
	ENTRY_PAM,  /* the password is judged outside; who that says is good is known */
	ENTRY_LDAP  /* the same */
};

enum entry_result {
	ENTRY_MORE,   /* send what is in `out`, wait for the client's next 'p' */
	ENTRY_WORK,   /* submit entry_job(), wait for on_work, then entry_resume() */
	ENTRY_OK,     /* it is who it says; send what is in `out` */
	ENTRY_REFUSED /* *err is what the client may be told; entry_reason() is for the log */
};

struct entry_who {
	enum entry_method method;
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
	/* From the loop, never from within a call here: the work of ENTRY_WORK is done. */
	void (*on_work)(void *arg);
	void *arg;
};

struct entry;

/* Copies all it needs. NULL: no memory. */
struct entry *entry_new(const struct entry_who *who);

/* Free it as soon as it has ended, or at any time before; wipes what it knew. */
void entry_free(struct entry **entry);

enum entry_result entry_start(struct entry *entry, struct buf *out, struct err *err);

/* `body` of a whole message of type 'p'. */
enum entry_result entry_answer(struct entry *entry, struct bytes body, struct buf *out,
                               struct err *err);

/*
 * After ENTRY_WORK, once: the job to submit. It frees itself. When
 * workers_submit() refuses it, call entry_job_refused(), and then entry_free().
 */
struct job *entry_job(struct entry *entry);
void entry_job_refused(struct entry *entry);

/* After on_work. */
enum entry_result entry_resume(struct entry *entry, struct buf *out, struct err *err);

/* After ENTRY_REFUSED: why, for the log only; never holds a secret. Good until entry_free(). */
const char *entry_reason(const struct entry *entry);

/* The method by which it came in or is tried, in words for the log. Static. */
const char *entry_method_name(const struct entry *entry);

/* Whether it is judged by this very secret: a reload may have brought another one. */
bool entry_is_by(const struct entry *entry, const struct secret *secret);

/*
 * After ENTRY_OK: with what a server can be entered in this user's name: the
 * password that is stored or that the client sent, else its SCRAM keys, else
 * the md5 secret. *credentials must be at rest. false: no memory.
 */
bool entry_credentials(const struct entry *entry, struct credentials *credentials);

#endif
