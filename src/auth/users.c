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

#include "pgweir/base/refs.h"
#include "pgweir/base/table.h"

#include "pgweir/auth/digest.h"
#include "pgweir/auth/scram.h"
#include "pgweir/base/buf.h"

/* A user, in one allocation: both texts follow the struct. */
struct row {
	struct user user;
	UT_hash_handle hh;
	size_t secret_count;
	char texts[];
};

struct users {
	struct refs refs; /* everything else never changes */
	struct row *by_name;
	const struct user **with_secret; /* users that have a secret */
	size_t with_secret_count;
};

struct reader {
	struct source_pos pos;
	struct buf name, secret;
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

static void free_row(struct users *users, struct row *row)
{
	HASH_DEL(users->by_name, row);
	secret_wipe(row->texts, row->secret_count);
	free(row);
}

static void free_all(struct users *users)
{
	struct row *row, *next;

	HASH_ITER (hh, users->by_name, row, next)
		free_row(users, row);
	free(users->with_secret);
	free(users);
}

static bool add_user(struct users *users, const struct reader *reader)
{
	const struct buf *name = &reader->name, *secret = &reader->secret;
	struct row *old, *row = malloc(sizeof(*row) + secret->count + name->count + 2);
	char *at;

	if (!row)
		return false;
	*row = (struct row){ .secret_count = secret->count };
	at = row->texts + secret->count + 1;
	if (secret->count)
		memcpy(row->texts, secret->at, secret->count);
	row->texts[secret->count] = 0;
	memcpy(at, name->at, name->count);
	at[name->count] = 0;
	row->user.name = at;
	row->user.secret = users_secret_of(row->texts);
	row->user.line = reader->pos.line;

	HASH_FIND_STR(users->by_name, at, old);
	if (old) {
		problems_warn(reader->problems, reader->pos,
		              "user \"%s\" is also in line %d, which does not count",
		              old->user.name, old->user.line);
		free_row(users, old);
	}
	HASH_ADD_KEYPTR(hh, users->by_name, row->user.name, name->count, row);
	return true;
}

static bool refuse_line(const struct reader *reader, const char *reason)
{
	return problems_add(reader->problems, reader->pos, "%s", reason);
}

static struct bytes skip_blanks(struct bytes line)
{
	while (line.count && (*line.at == ' ' || *line.at == '\t' || *line.at == '\r'))
		line = bytes_skip(line, 1);
	return line;
}

/* Takes a text in quotes off the front of the line. */
static bool take_quoted(const struct reader *reader, struct bytes *line, struct buf *out)
{
	buf_clear(out);
	if (!line->count || *line->at != '"')
		return refuse_line(reader, "a name and a secret in double quotes are expected");
	for (size_t i = 1; i < line->count; i++) {
		if (line->at[i] == '"' && (++i == line->count || line->at[i] != '"')) {
			*line = bytes_skip(*line, i);
			return buf_ok(out) || refuse_line(reader, "name or secret is too long");
		}
		if (!line->at[i])
			return refuse_line(reader, "a zero byte");
		buf_add_byte(out, line->at[i]);
	}
	return refuse_line(reader, "a closing quote is missing");
}

static bool read_user(struct reader *reader, struct bytes line, struct users *users)
{
	if (!take_quoted(reader, &line, &reader->name))
		return false;
	line = skip_blanks(line);
	if (!take_quoted(reader, &line, &reader->secret))
		return false;
	if (reader->name.count == 0)
		return refuse_line(reader, "the name is empty");
	return add_user(users, reader) || refuse_line(reader, "out of memory");
}

static void read_lines(struct reader *reader, struct bytes text, struct users *users)
{
	while (text.count) {
		struct bytes line = bytes_take_until(&text, '\n');
		bool is_comment = line.count && *line.at == ';';

		reader->pos.line++;
		line = skip_blanks(line);
		if (!is_comment && line.count)
			read_user(reader, line, users);
	}
}

static bool list_secrets(struct users *users)
{
	size_t count = HASH_COUNT(users->by_name);

	users->with_secret = malloc((count ? count : 1) * sizeof(users->with_secret[0]));
	if (!users->with_secret)
		return false;
	for (const struct row *row = users->by_name; row; row = row->hh.next) {
		if (row->user.secret.kind != SECRET_NONE)
			users->with_secret[users->with_secret_count++] = &row->user;
	}
	return true;
}

struct users *users_none(void) { return calloc(1, sizeof(struct users)); }

/* `file` is its name in the problems. */
static struct users *parse(struct bytes text, const char *file, struct problems *problems)
{
	struct reader reader = { .pos.file = file,
		                 .problems = problems,
		                 .name.limit = USER_NAME_MAX,
		                 .secret.limit = USER_SECRET_MAX,
		                 .secret.is_secret = true };
	struct users *users = users_none();

	if (users)
		read_lines(&reader, text, users);
	if (users && !list_secrets(users))
		users_release(&users);
	if (!users)
		problems_add(problems, (struct source_pos){ 0 }, "out of memory");
	buf_free(&reader.name);
	buf_wipe(&reader.secret);
	return users;
}

struct users *users_load(const char *path, struct source_pos pos, struct problems *problems)
{
	struct buf text = { .limit = USERS_FILE_MAX, .is_secret = true };
	const char *failed = buf_read_file(&text, path);
	struct users *users = NULL;

	if (failed)
		problems_add(problems, pos, "auth_file: cannot %s %s: %s", failed, path,
		             strerror(errno));
	else
		users = parse(buf_bytes(&text), path, problems);
	buf_free(&text);
	return users;
}

REFS_FUNCTIONS(users_hold, users_release, struct users, free_all)

const struct user *users_find(const struct users *users, const char *name)
{
	struct row *row;

	HASH_FIND_STR(users->by_name, name, row);
	return row ? &row->user : NULL;
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
	for (const struct row *row = users->by_name; row; row = row->hh.next)
		each(&row->user, arg);
}

/* ---- credentials ---- */

/* The value is behind the struct. */
static struct credentials *make_credentials(enum credentials_kind kind, bool is_shown,
                                            struct bytes value)
{
	struct credentials *credentials = calloc(1, sizeof(*credentials) + value.count);

	if (!credentials)
		return NULL;
	credentials->kind = kind;
	credentials->is_shown = is_shown;
	memcpy(credentials + 1, value.at, value.count);
	if (kind == CREDENTIALS_KEYS)
		credentials->scram = (const void *)(credentials + 1);
	else
		credentials->text = (const char *)(credentials + 1);
	return credentials;
}

const struct credentials *credentials_of_secret(const struct secret *secret, bool is_shown)
{
	bool is_plain = secret->kind == SECRET_PLAIN;

	if (!is_plain && secret->kind != SECRET_MD5)
		return NULL;
	return make_credentials(is_plain ? CREDENTIALS_PLAIN : CREDENTIALS_MD5, is_shown,
	                        bytes_of(secret->text, strlen(secret->text) + 1));
}

const struct credentials *credentials_of_keys(const struct scram_verifier *scram)
{
	return make_credentials(CREDENTIALS_KEYS, true, bytes_of(scram, sizeof(*scram)));
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
	if (a->kind == CREDENTIALS_KEYS)
		return bytes_equal_secret(bytes_of(&a->scram->keys, sizeof(a->scram->keys)),
		                          bytes_of(&b->scram->keys, sizeof(b->scram->keys)));
	return bytes_equal_secret(bytes_text(a->text), bytes_text(b->text));
}
