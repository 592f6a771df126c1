/* SPDX-License-Identifier: ISC */
/*
 * The users of auth_file, and kinds of secrets. A `struct users` never changes and counts its
 * references: any thread may use one to which it holds a reference.
 */
#ifndef PGWEIR_AUTH_USERS_H
#define PGWEIR_AUTH_USERS_H

#include "pgweir/auth/scram.h"
#include "pgweir/base/bytes.h"
#include "pgweir/base/err.h"
#include "pgweir/base/refs.h"
#include "pgweir/base/table.h"
#include "pgweir/config/problems.h"

#define USER_NAME_MAX 127                  /* bytes of a name, without terminating zero */
#define USER_SECRET_MAX 65530              /* bytes of a secret, without terminating zero */
#define USERS_FILE_MAX (256 * 1024 * 1024) /* bytes of an auth_file */

enum secret_kind {
	SECRET_NONE, /* empty: no password is accepted */
	SECRET_PLAIN,
	SECRET_MD5,  /* "md5" and 32 lower-case hexadecimal digits */
	SECRET_SCRAM /* "SCRAM-SHA-256$iterations:salt$StoredKey:ServerKey" */
};

/* A user's stored password. The text is borrowed. */
struct secret {
	enum secret_kind kind;
	const char *text;
};

/* Determines the kind of a secret; NULL = none. */
struct secret users_secret_of(const char *text);

struct user {
	UT_hash_handle hh;
	const char *name;
	struct secret secret;
	int line;     /* in auth_file, from 1 */
	char texts[]; /* secret and name */
};

struct users;

/*
 * Loads an auth_file, named at `pos`; the caller owns one reference. A problem is added for each
 * invalid line; the users of the other lines are only for judging. NULL: it cannot be read, a
 * problem was added.
 */
struct users *users_load(const char *path, struct source_pos pos, struct problems *problems);

/* No users, for when auth_file is not set. NULL: no memory. */
struct users *users_none(void);

struct users *users_hold(struct users *users);

/* Releases a reference; the last one wipes and frees. */
void users_release(struct users **users);

/* Finds a user; NULL: unknown user. Valid as long as a reference is held. */
const struct user *users_find(const struct users *users, const char *name);

/* Returns a user that has a secret; always the same for the same number. NULL: there is none. */
const struct user *users_any(const struct users *users, uint32_t number);

size_t users_count(const struct users *users);

void users_each(const struct users *users, void (*each)(const struct user *user, void *arg),
                void *arg);

/* ---- credentials: for logging in to a server as a user ---- */

/* They never change, and count their references. NULL: usable only if the server asks for nothing.
 */
struct credentials {
	struct refs refs;
	/* MD5 and SCRAM, the keys of a client that has logged in, are usable for that method only
	 */
	enum secret_kind kind;
	/* sent by a client, or revealed by its proof; not from a file or query */
	bool is_shown;
	const char *text;                   /* for PLAIN and MD5 */
	const struct scram_verifier *scram; /* for SCRAM */
};

static inline enum secret_kind credentials_kind(const struct credentials *credentials)
{
	return credentials ? credentials->kind : SECRET_NONE;
}

/* Of a stored secret, if it is plain or md5. NULL: of another kind, or no memory. */
const struct credentials *credentials_of_secret(const struct secret *secret, bool is_shown);

/* Those that a client's proof has revealed. NULL: no memory. */
const struct credentials *credentials_of_keys(const struct scram_verifier *scram);

/* Both accept NULL. The last release wipes and frees. */
const struct credentials *credentials_hold(const struct credentials *credentials);
void credentials_release(const struct credentials **credentials);

/* Whether both give the same result in an authentication exchange. */
bool credentials_equal(const struct credentials *a, const struct credentials *b);

#endif
