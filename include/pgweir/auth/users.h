/* SPDX-License-Identifier: ISC */
/*
 * The users of auth_file, and what a secret is.
 *
 * A `struct users` is immutable and counts its references: a reload makes a new
 * one, and whoever still holds the old one keeps it alive. All of one thread.
 */
#ifndef PGWEIR_AUTH_USERS_H
#define PGWEIR_AUTH_USERS_H

#include "pgweir/base/bytes.h"
#include "pgweir/base/err.h"
#include "pgweir/config/problems.h"

#define USER_NAME_MAX 127                  /* bytes of a name, without its zero */
#define USER_SECRET_MAX 65530              /* bytes of a secret, without its zero */
#define USERS_FILE_MAX (256 * 1024 * 1024) /* bytes of an auth_file */

enum secret_kind {
	SECRET_NONE, /* empty: lets nobody in by any password */
	SECRET_PLAIN,
	SECRET_MD5,  /* "md5" and 32 lower-case hexadecimal digits */
	SECRET_SCRAM /* "SCRAM-SHA-256$iterations:salt$StoredKey:ServerKey" */
};

/* What is kept of a user's password. The text is borrowed from whoever made it. */
struct secret {
	enum secret_kind kind;
	const char *text;
};

/* Looks at the text (NULL = none) and says of which kind it is. */
struct secret users_secret_of(const char *text);

struct user {
	const char *name;
	struct secret secret;
	unsigned long line; /* of auth_file, from 1 */
};

struct users;

/* Reads an auth_file. NULL: *err says file, line and reason; one reference is the caller's. */
struct users *users_load(const char *path, struct err *err);

/*
 * The same, but says all that is wrong with it; the good lines of a bad file are there then,
 * to be counted. NULL: it cannot be read at all.
 */
struct users *users_judge(const char *path, struct problems *problems);

/* The same from text; `file` is what *err calls it. */
struct users *users_parse(struct bytes text, const char *file, struct err *err);

/* No users at all: where no auth_file is set. NULL: no memory. */
struct users *users_none(void);

struct users *users_hold(struct users *users);

/* Gives one reference back; the last one wipes and frees. */
void users_release(struct users **users);

/* NULL: no such user. Good as long as a reference is held. */
const struct user *users_find(const struct users *users, const char *name);

/* One of those who have a secret, the same for the same number. NULL: there is none. */
const struct user *users_any(const struct users *users, uint32_t number);

size_t users_count(const struct users *users);

/* Calls back for each user in the order of the file. */
void users_each(const struct users *users, void (*each)(const struct user *user, void *arg),
                void *arg);

#endif
