/* SPDX-License-Identifier: ISC */
/*
 * What the servers of a pool log in with: the secret of the entry, of auth_file, or what a client
 * authenticated with. Also the description of the secret in the error of a failed login, without
 * the secret itself.
 */
#include "pool_priv.h"

/* What clients of this user on this database authenticated with. */
static const struct credentials *shown_to(const struct pool *pool)
{
	const struct pool *twin;

	if (pool->purpose == POOL_FOR_CLIENTS || pool->learnt)
		return pool->learnt;
	twin = pools_find_twin(pool, POOL_FOR_CLIENTS);
	return twin ? twin->learnt : NULL;
}

const struct credentials *pool_credentials(const struct pool *pool)
{
	const struct credentials *file = pool->role->credentials, *shown = shown_to(pool);

	if (pool->credentials)
		return pool->credentials;
	return credentials_kind(file) == CREDENTIALS_PLAIN || !shown ? file : shown;
}

/* Where logins failed with the old credentials, the new ones are tried. */
static void set_learnt(struct pool *pool, const struct credentials *shown)
{
	struct pool *twin;

	credentials_release(&pool->learnt);
	pool->learnt = credentials_hold(shown);
	pool->learnt_version = pool->role->secret_version;
	for (int i = 0; i < POOL_PURPOSES; i++) {
		twin = pools_find_twin(pool, (enum pool_purpose)i);
		if (!twin || !pool_is_failing(twin))
			continue;
		pool_reset_retry(twin);
		pool_wake(twin);
	}
}

void pool_learn(struct pool *pool, const struct credentials *shown)
{
	if (credentials_kind(pool->role->credentials) == CREDENTIALS_PLAIN)
		return; /* auth_file has the password itself */
	if (credentials_equal(pool->learnt, shown))
		return;
	set_learnt(pool, shown);
	share_put_shown(&pool->share, shown);
}

void pool_forget_shown(struct pool *pool)
{
	if (!pool->learnt)
		return;
	credentials_release(&pool->learnt);
	share_put_shown(&pool->share, NULL);
}

/* ---- description in errors ---- */

/* Adds "line 3 of auth_file", or another source of the secret. */
static void add_origin(const struct user *user, struct buf *out)
{
	if (user)
		buf_printf(out, "line %d of auth_file", user->line);
	else
		buf_add_text(out, "auth_query");
}

/* Adds that there is no secret, and why. */
static void add_lack(const struct user *user, struct buf *out)
{
	buf_add_text(out, ", without a secret: ");
	if (!user) {
		buf_add_text(out, "neither the entry nor auth_file has one, and no client has "
		                  "shown one");
		return;
	}
	add_origin(user, out);
	buf_add_text(out, user->secret.kind == SECRET_SCRAM
	                      ? " has a SCRAM secret, which serves for logins to PostgreSQL "
	                        "when a client has logged in by SCRAM"
	                      : " has none");
}

void pool_tell_secret(const struct server *server, struct buf *out)
{
	const struct pool *pool = server->pool;
	const struct credentials *credentials = pool_credentials(pool);
	const struct user *user = users_find(pool->pools->users, pool->role->name);
	const char *words = ", with what a client's login has shown of the SCRAM secret of ";

	if (credentials_kind(credentials) == CREDENTIALS_PLAIN)
		words = ", with the password of ";
	else if (credentials_kind(credentials) == CREDENTIALS_MD5)
		words = ", with the md5 secret of ";
	if (!credentials) {
		add_lack(user, out);
	} else if (credentials == pool->credentials) {
		buf_add_text(out, ", with password= of the entry");
	} else if (credentials->kind == CREDENTIALS_PLAIN && credentials->is_shown) {
		buf_add_text(out, ", with the password that a client sent");
	} else {
		buf_add_text(out, words);
		add_origin(user, out);
	}
}

/* ---- news of other loops ---- */

void pool_hear_news(struct pool *pool)
{
	const struct credentials *shown;

	if (share_has_news(&pool->share)) {
		if (share_get_shown(&pool->share, &shown) &&
		    !credentials_equal(pool->learnt, shown))
			set_learnt(pool, shown);
		credentials_release(&shown);
	}
	pool_hear_failure(pool);
}
