/* SPDX-License-Identifier: ISC */
/*
 * Answers of auth_query, and the cache of them, which all loops share.
 *
 * An answer's secret is wiped in time even if no client asks for it again. When the cache is full,
 * the oldest answers are dropped.
 */
#include "login_priv.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "pgweir/auth/scram.h"
#include "pgweir/auth/digest.h"
#include "pgweir/auth/users.h"
#include "pgweir/base/lock.h"
#include "pgweir/pgwire/fields.h"

struct auth_answer *auth_answer_new(const char *database, const char *auth_user, const char *query,
                                    const char *user)
{
	size_t count = strlen(database) + strlen(auth_user) + strlen(query) + strlen(user) + 4;
	struct auth_answer *answer = calloc(1, sizeof(*answer) + count);

	if (!answer)
		return NULL;
	answer->key_count = count;
	answer->auth_user = stpcpy(answer->key, database) + 1;
	answer->query = stpcpy((char *)answer->auth_user, auth_user) + 1;
	answer->user = stpcpy((char *)answer->query, query) + 1;
	stpcpy((char *)answer->user, user);
	return answer;
}

static void answer_free(struct auth_answer *answer)
{
	free(answer->name);
	secret_free(&answer->secret);
	free(answer);
}

REFS_FUNCTIONS(auth_answer_hold, auth_answer_release, struct auth_answer, answer_free)

void auth_answer_take(struct auth_answer *answer, struct auth_reply *replies)
{
	answer->name = replies->name;
	answer->secret = replies->secret;
	replies->name = replies->secret = NULL;
}

bool auth_answer_is_for(const struct auth_answer *answer, const struct auth_answer *question)
{
	return bytes_equal(bytes_of(answer->key, answer->key_count),
	                   bytes_of(question->key, question->key_count));
}

/* ---- cache ---- */

static size_t size_of(const struct auth_answer *answer)
{
	return sizeof(*answer) + answer->key_count + (answer->name ? strlen(answer->name) : 0) +
	       (answer->secret ? strlen(answer->secret) : 0);
}

static void forget_answer(struct logins *logins, struct auth_answer *answer)
{
	assert_locked(&logins->lock);
	HASH_DEL(logins->table, answer);
	logins->size -= size_of(answer);
	answer->until = 0;
	auth_answer_release(&answer);
}

static struct auth_answer *find_answer(const struct logins *logins,
                                       const struct auth_answer *question)
{
	assert_locked(&logins->lock);
	return TABLE_GET(hh, &logins->secret, logins->table, question->key, question->key_count);
}

void logins_sweep(struct logins *logins, usec_t now)
{
	LOCKED(&logins->lock);
	while (logins->table && logins->table->until <= now)
		forget_answer(logins, logins->table);
}

void auth_cache_keep(struct logins *logins, struct auth_answer *answer, usec_t until)
{
	LOCKED(&logins->lock);
	struct auth_answer *same = find_answer(logins, answer);

	if (same)
		forget_answer(logins, same);
	if (!until)
		return;
	auth_answer_hold(answer);
	answer->until = until;
	TABLE_ADD(hh, &logins->secret, logins->table, answer->key, answer->key_count, answer);
	logins->size += size_of(answer);
	while (HASH_COUNT(logins->table) > AUTH_CACHE_MAX || logins->size > AUTH_CACHE_SIZE_MAX)
		forget_answer(logins, logins->table);
}

struct auth_answer *auth_cache_find(struct logins *logins, const struct auth_answer *question,
                                    usec_t now)
{
	LOCKED(&logins->lock);
	struct auth_answer *answer = find_answer(logins, question);

	return answer && answer->until > now ? auth_answer_hold(answer) : NULL;
}

void auth_cache_forget(struct logins *logins, struct auth_answer *answer)
{
	LOCKED(&logins->lock);
	if (answer->until)
		forget_answer(logins, answer);
}

void auth_cache_forget_all(struct logins *logins)
{
	LOCKED(&logins->lock);
	logins->is_learnt = false;
	while (logins->table)
		forget_answer(logins, logins->table);
}

void auth_cache_learn(struct logins *logins, const char *text)
{
	struct secret secret = users_secret_of(text);

	LOCKED(&logins->lock);
	if (logins->is_learnt || secret.kind == SECRET_NONE)
		return;
	logins->likeness = mock_form_of(&secret);
	logins->is_learnt = true;
}

struct mock_form auth_cache_likeness(struct logins *logins)
{
	LOCKED(&logins->lock);
	return logins->likeness;
}

/* PostgreSQL's default number of SCRAM iterations. */
#define USUAL_ITERATIONS 4096

struct logins *logins_new(struct err *err)
{
	struct logins *logins = err_calloc(sizeof(*logins), "out of memory", err);

	if (!logins)
		return NULL;
	lock_init(&logins->lock);
	failures_init(&logins->failures);
	hash_key_draw(&logins->secret);
	logins->likeness = (struct mock_form){ SECRET_SCRAM, USUAL_ITERATIONS, SCRAM_SALT_SIZE };
	return logins;
}

void logins_free(struct logins **logins)
{
	if (!*logins)
		return;
	assert(!(*logins)->failures.table);
	auth_cache_forget_all(*logins);
	pthread_mutex_destroy(&(*logins)->lock);
	free(*logins);
	*logins = NULL;
}

/*
 * ---- replies of the server ----
 *
 * Parses what a server replies to auth_query.
 *
 * Hard here: nothing but a correct answer must become one. So AUTH_REPLY_USER needs all of
 * these: a row of two columns with a name, no row that differs from it, and a query that
 * completed without an error. If the secret is NULL, the user has no secret.
 */

#define FRAME_MAX ((uint32_t)USER_SECRET_MAX + 8 * 1024) /* of a row or an error */

static void fail_reply(struct auth_reply *replies, const char *reason)
{
	replies->verdict = AUTH_REPLY_BAD;
	err_set(&replies->why, ERR_CONFIG, "%s", reason);
}

static bool copy(struct bytes value, size_t max, char **text)
{
	if (value.count > max || memchr(value.at, 0, value.count))
		return false;
	*text = strndup(value.at, value.count);
	return *text != NULL;
}

static bool same(struct bytes value, const char *text)
{
	return value.at && text ? bytes_equal(value, bytes_text(text)) : !value.at && !text;
}

static void first_row(struct auth_reply *replies, struct bytes name, struct bytes secret)
{
	if (!name.at)
		replies->verdict = AUTH_REPLY_NOBODY;
	else if (name.count == 0)
		fail_reply(replies, "the name in its row is empty");
	else if (!copy(name, USER_NAME_MAX, &replies->name))
		fail_reply(replies, "the name in its row is too long");
	else if (secret.at && !copy(secret, USER_SECRET_MAX, &replies->secret))
		fail_reply(replies, "the secret in its row is too long");
	else
		replies->verdict = AUTH_REPLY_USER;
}

static void take_row(struct auth_reply *replies, struct bytes body)
{
	struct bytes name = { 0 }, secret = { 0 };
	struct row_walk walk;

	if (fields_row(body, &walk) != WIRE_OK)
		fail_reply(replies, "a broken row");
	else if (walk.left != 2)
		fail_reply(replies, "it must have two columns: name and secret");
	else if (fields_value(&walk, &name) != WALK_ITEM ||
	         fields_value(&walk, &secret) != WALK_ITEM)
		fail_reply(replies, "a broken row");
	else if (replies->verdict == AUTH_REPLY_NONE)
		first_row(replies, name, secret);
	else if (!same(name, replies->name) || (name.at && !same(secret, replies->secret)))
		fail_reply(replies, "it has several rows for one user");
}

/*
 * PostgreSQL could not convert the name (class 22: wrong encoding, not a number): then
 * there is no such user. Any other error is a fault of the query, or of its rights.
 */
static void take_error(struct auth_reply *replies, struct bytes body)
{
	struct report report = { .sqlstate = "", .text = "" };

	replies->is_done = true;
	fields_report(body, &report);
	if (strncmp(report.sqlstate, "22", 2) == 0) {
		replies->verdict = AUTH_REPLY_NOBODY;
		return;
	}
	replies->verdict = AUTH_REPLY_BAD;
	err_set_foreign(&replies->why, report.sqlstate, report.text);
}

static void take_frame(struct auth_reply *replies, char type, struct bytes body)
{
	if (replies->verdict == AUTH_REPLY_BAD)
		return; /* the first reason is kept */
	switch (type) {
	case 'D':
		take_row(replies, body);
		return;
	case 'E':
		take_error(replies, body);
		return;
	case 'C':
		replies->is_done = true;
		return;
	case 'I':
		fail_reply(replies, "it is empty");
		return;
	case 's':
		fail_reply(replies, "it has too many rows for one user");
		return;
	default:
		return; /* ParseComplete, notices and similar messages */
	}
}

void auth_reply_take(struct auth_reply *replies, struct bytes bytes)
{
	struct bytes in;

	buf_add(&replies->kept, bytes.at, bytes.count);
	in = buf_bytes(&replies->kept);
	while (in.count && buf_ok(&replies->kept)) {
		struct frame frame;
		enum wire_result result = frame_peek(in, FRAME_MAX, &frame);

		if (result == WIRE_BAD) {
			/* The end of this message is unknown, so the rest is dropped. */
			fail_reply(replies, "a message of its answer is too long");
			in = bytes_skip(in, in.count);
			break;
		}
		if (result == WIRE_MORE || in.count < frame.length)
			break;
		take_frame(replies, frame.type, frame_body(in, &frame));
		in = bytes_skip(in, frame.length);
	}
	if (!buf_ok(&replies->kept))
		fail_reply(replies, "out of memory");
	/* Wipe the buffer: it contained secrets. */
	if (replies->kept.at && in.count == 0)
		buf_wipe(&replies->kept);
	else
		buf_drop(&replies->kept, replies->kept.count - in.count);
}

enum auth_reply_verdict auth_reply_end(struct auth_reply *replies)
{
	if (replies->verdict != AUTH_REPLY_BAD && !replies->is_done)
		fail_reply(replies, "it did not come to its end");
	else if (replies->verdict == AUTH_REPLY_NONE)
		replies->verdict = AUTH_REPLY_NOBODY; /* the query returned no row */
	return replies->verdict;
}

void auth_reply_done(struct auth_reply *replies)
{
	buf_wipe(&replies->kept);
	secret_free(&replies->name);
	secret_free(&replies->secret);
	*replies = (struct auth_reply){ 0 };
}
