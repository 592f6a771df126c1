/* SPDX-License-Identifier: ISC */
/*
 * The server side of an authentication exchange, internal to the module: what all methods
 * share.
 */
#ifndef PGWEIR_AUTH_AUTH_SERVER_PRIV_H
#define PGWEIR_AUTH_AUTH_SERVER_PRIV_H

#include "pgweir/auth/auth_server.h"
#include "pgweir/auth/outside.h"

#define REASON_SIZE 200

enum auth_server_state {
	STATE_START,
	STATE_PASSWORD,   /* asked for a cleartext password */
	STATE_MD5,        /* asked for an answer to .md5_salt */
	STATE_SASL_FIRST, /* offered SCRAM, waits for client-first */
	STATE_SASL_FINAL, /* sent server-first, waits for client-final */
	STATE_WORK,       /* the keys of the received password are being derived */
	STATE_SASL_WORK,  /* the keys of the user's plain secret are being derived */
	STATE_OUTSIDE,    /* PAM or LDAP checks the received password */
	STATE_ENDED,
	STATES
};

struct auth_server {
	enum auth_server_state state;
	enum auth_method method;
	struct verifiers *verifiers;
	void (*on_work)(void *arg);
	void *arg;
	struct secret secret; /* the user's, or a mock secret if there is none */
	bool is_known;
	bool is_proven;
	const char
	    *late_failure; /* why the client cannot log in with any password; NULL = it can */
	char reason[REASON_SIZE];
	unsigned char md5_salt[4];
	unsigned char salt[SCRAM_SALT_SIZE]; /* for a plain secret */
	unsigned int iterations;
	struct scram scram;
	struct scram_keys keys; /* STATE_SASL_*: the user's; client_key is set only at the end */
	char *password;         /* cleartext password sent by the client */
	struct derived *derived;
	struct job *job;         /* see derived_job() */
	bool is_submitted;       /* the job was submitted: a derivation has been done */
	struct outside *outside; /* for PAM and LDAP */
	usec_t deadline;
	const char *user;
	size_t text_count;
	char texts[]; /* memory of secret and user */
};

/* ---- auth_server_state.c ---- */

/* The only function that writes auth->state. */
void auth_server_enter(struct auth_server *auth, enum auth_server_state next);

/* Ends the exchange: `words` are for the client, `reason` is for the log. */
enum auth_server_result auth_server_refuse(struct auth_server *auth, struct err *err,
                                           enum err_code code, const char *words,
                                           const char *reason);

/* The same with the words of a close reason, which the connection is then closed for. */
enum auth_server_result auth_server_refuse_for(struct auth_server *auth, struct err *err,
                                               enum err_code code, enum close_reason refusal,
                                               const char *reason);
enum auth_server_result auth_server_refuse_memory(struct auth_server *auth, struct err *err);
enum auth_server_result auth_server_accept(struct auth_server *auth);

/*
 * Gets the keys of `password`. AUTH_SERVER_OK: derived_keys() has them. AUTH_SERVER_WORK: they
 * will be derived, and `state` has been entered.
 */
enum auth_server_result auth_server_derive(struct auth_server *auth, const char *password,
                                           struct bytes salt, unsigned int iterations,
                                           enum derived_keep keep, enum auth_server_state state,
                                           struct err *err);

/* ---- cleartext password and md5: auth_server_password.c ---- */

enum auth_server_result auth_server_ask_md5(struct auth_server *auth, struct buf *out,
                                            struct err *err);

/* Handle the client's answer in STATE_PASSWORD and STATE_MD5. */
enum auth_server_result auth_server_read_password(struct auth_server *auth, struct bytes body,
                                                  struct buf *out, struct err *err);
enum auth_server_result auth_server_read_md5(struct auth_server *auth, struct bytes body,
                                             struct buf *out, struct err *err);

/* Compares the derived keys of a cleartext password with the user's SCRAM secret. */
enum auth_server_result auth_server_check_derived(struct auth_server *auth, struct err *err);

/* Handles the result of PAM or LDAP. */
enum auth_server_result auth_server_check_outside(struct auth_server *auth, struct err *err);

/* ---- SCRAM: auth_server_scram.c ---- */

enum auth_server_result auth_server_ask_sasl(struct auth_server *auth, struct buf *out);

/* Handle the client's answer in STATE_SASL_FIRST and STATE_SASL_FINAL. */
enum auth_server_result auth_server_read_client_first(struct auth_server *auth, struct bytes body,
                                                      struct buf *out, struct err *err);
enum auth_server_result auth_server_read_client_final(struct auth_server *auth, struct bytes body,
                                                      struct buf *out, struct err *err);

/* Checks the client's proof with the derived keys of the plain secret. */
enum auth_server_result auth_server_check_derived_proof(struct auth_server *auth, struct buf *out,
                                                        struct err *err);

#endif
