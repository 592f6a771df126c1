/* SPDX-License-Identifier: ISC */
/*
 * Entry, inside: a client that proves who it is, and what the ways to do so share.
 */
#ifndef PGWEIR_AUTH_AUTH_SERVER_PRIV_H
#define PGWEIR_AUTH_AUTH_SERVER_PRIV_H

#include "pgweir/auth/auth_server.h"
#include "pgweir/auth/outside.h"

#define REASON_SIZE 200

enum auth_server_state {
	STATE_START,
	STATE_PASSWORD,   /* asked for the password itself */
	STATE_MD5,        /* asked for an answer to .md5_salt */
	STATE_SASL_FIRST, /* offered SCRAM: client-first comes */
	STATE_SASL_FINAL, /* sent server-first: client-final comes */
	STATE_WORK,       /* keys of the password it sent are derived */
	STATE_SASL_WORK,  /* keys of its plain secret are derived */
	STATE_OUTSIDE,    /* the password it sent is judged outside */
	STATE_ENDED,
	STATES
};

struct auth_server {
	enum auth_server_state state;
	enum auth_method method;
	struct verifiers *verifiers;
	void (*on_work)(void *arg);
	void *arg;
	struct secret secret; /* a mock one of who has none */
	bool is_known;
	bool is_proven;
	const char *doom; /* why it cannot come in by any password; NULL = it can */
	char reason[REASON_SIZE];
	unsigned char md5_salt[4];
	unsigned char salt[SCRAM_SALT_SIZE]; /* of a plain secret */
	unsigned int iterations;
	struct scram scram;
	struct scram_keys keys; /* STATE_SASL_*: the user's, client_key only at the end */
	char *password;         /* what the client sent in the clear */
	struct derived *derived;
	struct job *job;         /* see derived_job() */
	bool is_submitted;       /* and so a derivation was done for it */
	struct outside *outside; /* PAM, LDAP */
	usec_t deadline;
	const char *user;
	size_t text_count;
	char texts[]; /* secret and user */
};

/* ---- auth_server_state.c ---- */

/* The only place that writes entry->state. */
void auth_server_enter(struct auth_server *entry, enum auth_server_state next);

/* Ends it: `words` are for the client, `reason` is for the log. */
enum auth_server_result auth_server_refuse(struct auth_server *entry, struct err *err,
                                           enum err_code code, const char *words,
                                           const char *reason);

/* The same with the words of a close reason, which the connection is then closed for. */
enum auth_server_result auth_server_refuse_for(struct auth_server *entry, struct err *err,
                                               enum err_code code, enum close_reason refusal,
                                               const char *reason);
enum auth_server_result auth_server_refuse_memory(struct auth_server *entry, struct err *err);
enum auth_server_result auth_server_accept(struct auth_server *entry);

/*
 * Sees to the keys of `password`. AUTH_SERVER_OK: they are there; AUTH_SERVER_WORK: they
 * will be, and `state` has been entered.
 */
enum auth_server_result auth_server_derive(struct auth_server *entry, const char *password,
                                           struct bytes salt, unsigned int iterations,
                                           enum derived_keep keep, enum auth_server_state state,
                                           struct err *err);

/* ---- the password itself, and md5: auth_server_password.c ---- */

enum auth_server_result auth_server_ask_md5(struct auth_server *entry, struct buf *out,
                                            struct err *err);

/* In STATE_PASSWORD and STATE_MD5: its answer came. */
enum auth_server_result auth_server_read_password(struct auth_server *entry, struct bytes body,
                                                  struct buf *out, struct err *err);
enum auth_server_result auth_server_read_md5(struct auth_server *entry, struct bytes body,
                                             struct buf *out, struct err *err);

/* The password was sent in the clear and the secret is a SCRAM one: do its keys fit? */
enum auth_server_result auth_server_check_derived(struct auth_server *entry, struct err *err);

/* PAM or LDAP has judged. */
enum auth_server_result auth_server_check_outside(struct auth_server *entry, struct err *err);

/* ---- SCRAM: auth_server_scram.c ---- */

enum auth_server_result auth_server_ask_sasl(struct auth_server *entry, struct buf *out);

/* In STATE_SASL_FIRST and STATE_SASL_FINAL: its answer came. */
enum auth_server_result auth_server_read_client_first(struct auth_server *entry, struct bytes body,
                                                      struct buf *out, struct err *err);
enum auth_server_result auth_server_read_client_final(struct auth_server *entry, struct bytes body,
                                                      struct buf *out, struct err *err);

/* The keys of its plain secret are derived: does the proof hold? */
enum auth_server_result auth_server_check_derived_proof(struct auth_server *entry, struct buf *out,
                                                        struct err *err);

#endif
