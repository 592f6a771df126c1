/* SPDX-License-Identifier: ISC */
/*
 * The user that unknown users imitate. Any loop may learn from an answer and use it, so it is
 * under a lock.
 */
#include "pgweir/client/likeness.h"

#include <pthread.h>
#include <stdlib.h>

#include "pgweir/auth/scram.h"

struct likeness {
	pthread_mutex_t lock; /* guards all other fields */
	struct users *users;
	bool is_learnt; /* it was made from an answer */
};

/* PostgreSQL's default number of SCRAM iterations. */
#define USUAL_ITERATIONS 4096

/* Makes one user whose secret is of the same kind, with made-up values. NULL: no memory. */
static struct users *make_likeness(const struct secret *secret)
{
	struct scram_verifier like = { .iterations = USUAL_ITERATIONS,
		                       .salt_count = SCRAM_SALT_SIZE };
	struct scram_verifier verifier;
	struct buf text = { 0 };
	struct users *users;

	buf_add_text(&text, "\"user\" \"");
	if (secret->kind == SECRET_PLAIN)
		buf_add_text(&text, "plain");
	else if (secret->kind == SECRET_MD5)
		buf_add_text(&text, "md500000000000000000000000000000000");
	if (secret->kind == SECRET_SCRAM && scram_verifier_parse(secret->text, &verifier)) {
		like.iterations = verifier.iterations;
		like.salt_count = verifier.salt_count;
	}
	if (secret->kind == SECRET_SCRAM)
		scram_verifier_text(&like, &text);
	buf_add_text(&text, "\"\n");
	users = buf_ok(&text) ? users_parse(buf_bytes(&text), "auth_query", NULL) : NULL;
	buf_free(&text);
	return users;
}

static const struct secret usual_secret = { .kind = SECRET_SCRAM, .text = "" };

struct likeness *likeness_new(struct err *err)
{
	struct likeness *likeness = calloc(1, sizeof(*likeness));

	if (likeness)
		likeness->users = make_likeness(&usual_secret);
	if (!likeness || !likeness->users) {
		free(likeness);
		err_set(err, ERR_MEMORY, "out of memory");
		return NULL;
	}
	pthread_mutex_init(&likeness->lock, NULL);
	return likeness;
}

void likeness_free(struct likeness **likeness)
{
	if (!*likeness)
		return;
	users_release(&(*likeness)->users);
	pthread_mutex_destroy(&(*likeness)->lock);
	free(*likeness);
	*likeness = NULL;
}

/*
 * Only the first answer is imitated, so that an unknown user gets the same kind of exchange
 * each time.
 */
void likeness_learn(struct likeness *likeness, const char *text)
{
	struct secret secret = users_secret_of(text);
	struct users *users = NULL;

	if (secret.kind == SECRET_NONE)
		return;
	pthread_mutex_lock(&likeness->lock);
	if (!likeness->is_learnt)
		users = make_likeness(&secret);
	if (users) {
		users_release(&likeness->users);
		likeness->users = users;
		likeness->is_learnt = true;
	}
	pthread_mutex_unlock(&likeness->lock);
}

void likeness_forget(struct likeness *likeness)
{
	pthread_mutex_lock(&likeness->lock);
	likeness->is_learnt = false;
	pthread_mutex_unlock(&likeness->lock);
}

struct users *likeness_users(struct likeness *likeness)
{
	struct users *users;

	pthread_mutex_lock(&likeness->lock);
	users = users_hold(likeness->users);
	pthread_mutex_unlock(&likeness->lock);
	return users;
}
