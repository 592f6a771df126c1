/* SPDX-License-Identifier: ISC */
/*
 * The users of auth_file.
 *
 *   "name" "secret" anything else
 *   ; a comment
 *
 * Within quotes "" means one quote. Any other line refuses the whole file: with half of the
 * users, some could not log in, and removed users still could. If a name occurs twice, the
 * later line counts.
 */
#include "pgweir/auth/users.h"

#include <errno.h>
#include <stdlib.h>

#include "pgweir/auth/digest.h"
#include "pgweir/base/buf.h"
#include "pgweir/config/config.h"

struct users {
	struct refs refs; /* everything else never changes */
	struct user *by_name;
	const struct user **with_secret; /* users that have a secret */
	size_t with_secret_count;
};

struct reader {
	struct source_pos pos;
	struct problems *problems;
};

struct secret users_secret_of(const char *text)
{
	struct secret secret = { SECRET_PLAIN, text };
	struct scram_verifier verifier;

	if (!text || !*text)
		secret.kind = SECRET_NONE;
	else if (strlen(text) == MD5_TEXT_SIZE - 1 && strncmp(text, "md5", 3) == 0 &&
	         strspn(text + 3, "0123456789abcdef") == 32)
		secret.kind = SECRET_MD5;
	else if (scram_verifier_parse(text, &verifier))
		secret.kind = SECRET_SCRAM;
	return secret;
}

static void free_user(struct users *users, struct user *user)
{
	HASH_DEL(users->by_name, user);
	secret_wipe(user->texts, strlen(user->texts));
	free(user);
}

static void free_all(struct users *users)
{
	struct user *user, *next;

	HASH_ITER (hh, users->by_name, user, next)
		free_user(users, user);
	free(users->with_secret);
	free(users);
}

static bool add_user(struct users *users, const struct reader *reader, const char *name,
                     const char *secret)
{
	size_t name_size = strlen(name) + 1, secret_size = strlen(secret) + 1;
	struct user *old, *user = malloc(sizeof(*user) + secret_size + name_size);

	if (!user)
		return false;
	memcpy(user->texts, secret, secret_size);
	user->name = memcpy(user->texts + secret_size, name, name_size);
	user->secret = users_secret_of(user->texts);
	user->line = reader->pos.line;

	HASH_FIND_STR(users->by_name, name, old);
	if (old) {
		problems_warn(reader->problems, reader->pos,
		              "user \"%s\" is also in line %d, which does not count", old->name,
		              old->line);
		free_user(users, old);
	}
	HASH_ADD_KEYPTR(hh, users->by_name, user->name, name_size - 1, user);
	return true;
}

static void refuse_line(const struct reader *reader, const char *reason)
{
	problems_add(reader->problems, reader->pos, "%s", reason);
}

static char *skip_blanks(char *at) { return at + strspn(at, " \t\r"); }

/* Takes a text in quotes off the front of the line, which ends at `end`. NULL: it is refused. */
static const char *take_quoted(const struct reader *reader, char **at, const char *end, size_t max)
{
	const char *text = NULL, *from = *at;

	if (*from != '"')
		refuse_line(reader, "a name and a secret in double quotes are expected");
	else if (!(text = value_take_quoted(at)))
		refuse_line(reader, memchr(from, 0, (size_t)(end - from))
		                        ? "a zero byte"
		                        : "a closing quote is missing");
	else if (strlen(text) <= max)
		return text;
	else
		refuse_line(reader, "name or secret is too long");
	return NULL;
}

static void read_user(const struct reader *reader, char *at, const char *end, struct users *users)
{
	const char *name = take_quoted(reader, &at, end, USER_NAME_MAX), *secret = NULL;

	if (name) {
		at = skip_blanks(at);
		secret = take_quoted(reader, &at, end, USER_SECRET_MAX);
	}
	if (secret && !*name)
		refuse_line(reader, "the name is empty");
	else if (secret && !add_user(users, reader, name, secret))
		refuse_line(reader, "out of memory");
}

/* The text ends with a zero, and is modified. */
static void read_lines(struct reader *reader, char *line, const char *end, struct users *users)
{
	while (line < end) {
		char *stop = memchr(line, '\n', (size_t)(end - line)), *at = skip_blanks(line);

		if (!stop)
			stop = (char *)end;
		*stop = 0;
		reader->pos.line++;
		if (*line != ';' && at < stop)
			read_user(reader, at, stop, users);
		line = stop + 1;
	}
}

static bool list_secrets(struct users *users)
{
	size_t count = HASH_COUNT(users->by_name);

	users->with_secret = malloc((count ? count : 1) * sizeof(users->with_secret[0]));
	if (!users->with_secret)
		return false;
	for (const struct user *user = users->by_name; user; user = user->hh.next) {
		if (user->secret.kind != SECRET_NONE)
			users->with_secret[users->with_secret_count++] = user;
	}
	return true;
}

struct users *users_none(void) { return calloc(1, sizeof(struct users)); }

struct users *users_load(const char *path, struct source_pos pos, struct problems *problems)
{
	struct reader reader = { .pos.file = path, .problems = problems };
	struct buf text = { .limit = USERS_FILE_MAX, .is_secret = true };
	const char *failed = buf_read_file(&text, path);
	struct users *users;
	size_t count = text.count;

	if (failed) {
		problems_add(problems, pos, "auth_file: cannot %s %s: %s", failed, path,
		             strerror(errno));
		buf_free(&text);
		return NULL;
	}
	buf_text(&text); /* there is room, as that is read by pieces */
	users = users_none();
	if (users)
		read_lines(&reader, text.at, text.at + count, users);
	if (users && !list_secrets(users))
		users_release(&users);
	if (!users)
		problems_add(problems, (struct source_pos){ 0 }, "out of memory");
	buf_free(&text);
	return users;
}

REFS_FUNCTIONS(users_hold, users_release, struct users, free_all)

const struct user *users_find(const struct users *users, const char *name)
{
	struct user *user;

	HASH_FIND_STR(users->by_name, name, user);
	return user;
}

const struct user *users_any(const struct users *users, uint32_t number)
{
	size_t count = users->with_secret_count;

	return count ? users->with_secret[number % count] : NULL;
}

size_t users_count(const struct users *users) { return HASH_COUNT(users->by_name); }

void users_each(const struct users *users, void (*each)(const struct user *user, void *arg),
                void *arg)
{
	for (const struct user *user = users->by_name; user; user = user->hh.next)
		each(user, arg);
}

/* ---- credentials ---- */

/* The value is behind the struct. */
static struct credentials *make_credentials(enum secret_kind kind, bool is_shown,
                                            struct bytes value)
{
	struct credentials *credentials = calloc(1, sizeof(*credentials) + value.count);

	if (!credentials)
		return NULL;
	credentials->kind = kind;
	credentials->is_shown = is_shown;
	memcpy(credentials + 1, value.at, value.count);
	if (kind == SECRET_SCRAM)
		credentials->scram = (const void *)(credentials + 1);
	else
		credentials->text = (const char *)(credentials + 1);
	return credentials;
}

const struct credentials *credentials_of_secret(const struct secret *secret, bool is_shown)
{
	if (secret->kind != SECRET_PLAIN && secret->kind != SECRET_MD5)
		return NULL;
	return make_credentials(secret->kind, is_shown,
	                        bytes_of(secret->text, strlen(secret->text) + 1));
}

const struct credentials *credentials_of_keys(const struct scram_verifier *scram)
{
	return make_credentials(SECRET_SCRAM, true, bytes_of(scram, sizeof(*scram)));
}

static void free_credentials(const struct credentials *credentials)
{
	void *value = (void *)(credentials + 1);

	secret_wipe(value,
	            credentials->text ? strlen(credentials->text) : sizeof(*credentials->scram));
	free((void *)credentials);
}

REFS_FUNCTIONS(credentials_hold, credentials_release, const struct credentials, free_credentials)

bool credentials_equal(const struct credentials *a, const struct credentials *b)
{
	if (credentials_kind(a) != credentials_kind(b))
		return false;
	if (!a || a == b)
		return true;
	if (a->kind == SECRET_SCRAM)
		return bytes_equal_secret(bytes_of(&a->scram->keys, sizeof(a->scram->keys)),
		                          bytes_of(&b->scram->keys, sizeof(b->scram->keys)));
	return bytes_equal_secret(bytes_text(a->text), bytes_text(b->text));
}
