/* SPDX-License-Identifier: ISC */
/*
 * Answers of auth_query, and the cache of them.
 *
 * Each cached answer has its own timer, so that its secret is wiped in time even if no
 * client asks for it again. When the cache is full, the oldest answers are dropped.
 */
#include "auth_cache_priv.h"

#include <stdlib.h>

#include "pgweir/base/container_of.h"
#include "pgweir/auth/digest.h"
#include "pgweir/auth/secret.h"

#include "pgweir/base/banned.h"

struct auth_answer {
	UT_hash_handle hh; /* in the table, while it is cached */
	TAILQ_ENTRY(auth_answer) node;
	struct auth_cache *keeper; /* the cache that holds it; NULL: none */
	struct timer timer;
	unsigned int reference_count;
	char *name;   /* NULL: there is no such user */
	char *secret; /* NULL: the user has none */
	size_t key_count;
	char key[];
};

bool auth_lookup_key_make(struct auth_lookup_key *key, const struct question *question)
{
	size_t query_at, user_at;

	*key = (struct auth_lookup_key){ 0 };
	buf_add_cstr(&key->text, question->database->name);
	buf_add_cstr(&key->text, question->auth_user);
	query_at = key->text.count;
	buf_add_cstr(&key->text, question->query);
	user_at = key->text.count;
	buf_add_cstr(&key->text, question->user);
	if (!buf_ok(&key->text)) {
		auth_lookup_key_done(key);
		return false;
	}
	key->query = key->text.at + query_at;
	key->user = key->text.at + user_at;
	return true;
}

void auth_lookup_key_done(struct auth_lookup_key *key)
{
	buf_free(&key->text);
	*key = (struct auth_lookup_key){ 0 };
}

struct auth_answer *auth_answer_new(const struct auth_lookup_key *key, const char *name,
                                    const char *secret)
{
	struct auth_answer *answer = calloc(1, sizeof(*answer) + key->text.count);

	if (!answer)
		return NULL;
	answer->reference_count = 1;
	answer->key_count = key->text.count;
	memcpy(answer->key, key->text.at, key->text.count);
	if (!name)
		return answer;
	answer->name = strdup(name);
	answer->secret = secret ? strdup(secret) : NULL;
	if (!answer->name || (secret && !answer->secret))
		auth_answer_release(&answer);
	return answer;
}

struct auth_answer *auth_answer_hold(struct auth_answer *answer)
{
	answer->reference_count++;
	return answer;
}

void auth_answer_release(struct auth_answer **answer)
{
	struct auth_answer *old = *answer;

	*answer = NULL;
	if (!old || --old->reference_count > 0)
		return;
	free(old->name);
	secret_free(&old->secret);
	free(old);
}

const char *auth_answer_name(const struct auth_answer *answer) { return answer->name; }

const char *auth_answer_secret(const struct auth_answer *answer) { return answer->secret; }

bool auth_answer_is_for(const struct auth_answer *answer, const struct question *question)
{
	struct bytes rest = bytes_of(answer->key, answer->key_count);
	const char *const texts[] = { question->database->name, question->auth_user,
		                      question->query, question->user };

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		const char *text;

		if (!bytes_take_text(&rest, &text) || strcmp(text, texts[i]) != 0)
			return false;
	}
	return true;
}

/* ---- cache ---- */

static size_t size_of(const struct auth_answer *answer)
{
	return sizeof(*answer) + answer->key_count + (answer->name ? strlen(answer->name) : 0) +
	       (answer->secret ? strlen(answer->secret) : 0);
}

static void forget_answer(struct auth_answer *answer)
{
	struct auth_cache *answers = answer->keeper;

	HASH_DEL(answers->table, answer);
	TAILQ_REMOVE(&answers->list, answer, node);
	answers->count--;
	answers->size -= size_of(answer);
	answer->keeper = NULL;
	timer_clear(&answer->timer);
	auth_answer_release(&answer);
}

static void on_due(struct timer *timer)
{
	forget_answer(container_of(timer, struct auth_answer, timer));
}

static struct auth_answer *find_answer(const struct auth_cache *answers, const void *key,
                                       size_t count)
{
	struct auth_answer *answer;

	TABLE_FIND(hh, &answers->secret, answers->table, key, count, answer);
	return answer;
}

void auth_cache_init(struct auth_cache *answers, struct loop *loop)
{
	*answers = (struct auth_cache){ .loop = loop };
	hash_key_draw(&answers->secret);
	TAILQ_INIT(&answers->list);
}

void auth_cache_keep(struct auth_cache *answers, struct auth_answer *answer, usec_t limit)
{
	struct timer_queue *line = loop_timer_queue(answers->loop, limit, on_due);
	struct auth_answer *same = find_answer(answers, answer->key, answer->key_count);

	if (same)
		forget_answer(same);
	if (!line)
		return;
	auth_answer_hold(answer)->keeper = answers;
	TABLE_ADD(hh, &answers->secret, answers->table, answer->key, answer->key_count, answer);
	TAILQ_INSERT_TAIL(&answers->list, answer, node);
	answers->count++;
	answers->size += size_of(answer);
	timer_set(&answer->timer, line, loop_now(answers->loop));
	while (answers->count > AUTH_CACHE_MAX || answers->size > AUTH_CACHE_SIZE_MAX)
		forget_answer(TAILQ_FIRST(&answers->list));
}

struct auth_answer *auth_cache_find(struct auth_cache *answers, const struct auth_lookup_key *key)
{
	struct auth_answer *answer = find_answer(answers, key->text.at, key->text.count);

	return answer ? auth_answer_hold(answer) : NULL;
}

void auth_cache_forget(struct auth_cache *answers, const struct auth_answer *answer)
{
	if (answer->keeper == answers)
		forget_answer((struct auth_answer *)answer);
}

void auth_cache_forget_all(struct auth_cache *answers)
{
	struct auth_answer *answer;

	while ((answer = TAILQ_FIRST(&answers->list)))
		forget_answer(answer);
}
