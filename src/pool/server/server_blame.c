/* SPDX-License-Identifier: ISC */
/*
 * Whose login has failed: what is added to PostgreSQL's error, or to ours.
 *
 * A wrong password of a client and one of ours have the same error. So the DETAIL says that
 * this was our login, at which address, for which entry, and with what secret from where; what
 * PostgreSQL asked for, and what in its SCRAM challenge shows that the secret is not the one
 * it has. Never the secret itself.
 */
#include <string.h>

#include "pgweir/base/text.h"

#include "../pool_priv.h"
#include "server_priv.h"

#include "pgweir/base/banned.h"

/* "line 3 of auth_file", or who else said the secret. */
static void add_origin(const struct user *user, struct buf *out)
{
	if (user)
		buf_printf(out, "line %lu of auth_file", user->line);
	else
		buf_add_text(out, "auth_query");
}

/* There is nothing that could be shown. */
static void add_lack(const struct user *user, struct buf *out)
{
	buf_add_text(out, ", without a secret: ");
	if (!user) {
		buf_add_text(out, "neither the entry nor auth_file has one, and no client has "
		                  "shown one");
	} else if (user->secret.kind == SECRET_SCRAM) {
		add_origin(user, out);
		buf_add_text(out, " has a SCRAM secret, which serves for logins to PostgreSQL "
		                  "when a client has logged in by SCRAM");
	} else {
		add_origin(user, out);
		buf_add_text(out, " has none");
	}
}

static void add_secret(const struct pool *pool, struct buf *out)
{
	const struct credentials *credentials = pool_credentials(pool);
	const struct user *user = users_find(pool->pools->users, pool->role->name);

	if (credentials->kind == CREDENTIALS_NONE) {
		add_lack(user, out);
		return;
	}
	if (credentials == &pool->credentials) {
		buf_add_text(out, ", with password= of the entry");
		return;
	}
	switch (credentials->kind) {
	case CREDENTIALS_PLAIN:
		buf_add_text(out, credentials->is_shown ? ", with the password that a client sent"
		                                        : ", with the password of ");
		if (!credentials->is_shown)
			add_origin(user, out);
		return;
	case CREDENTIALS_MD5:
		buf_add_text(out, ", with the md5 secret of ");
		break;
	default:
		buf_add_text(out, ", with what a client's login has shown of the SCRAM secret of ");
		break;
	}
	add_origin(user, out);
}

static void add_place(const struct server *server, struct buf *out)
{
	char text[ADDRESS_TEXT_SIZE];

	buf_add_text(out, address_is_unix(&server->peer)
	                      ? server->path
	                      : address_format(&server->peer, text, sizeof(text)));
}

/* What PostgreSQL wants is not what there is. */
static void add_asked(const struct auth_client *login, bool is_wrong_type, struct buf *out)
{
	const char *mismatch = auth_client_mismatch(login);

	if (is_wrong_type && auth_client_asked(login))
		buf_printf(out, "; PostgreSQL asks for %s", auth_client_asked(login));
	if (mismatch)
		buf_printf(out, "; the %s of that secret is not the one that PostgreSQL has",
		           mismatch);
}

void server_blame(const struct server *server, struct err *err)
{
	const struct pool *pool = server->pool;
	const struct auth_client *login = server->login ? server->login->auth : NULL;
	bool is_ours = err->code != ERR_FOREIGN;
	struct buf words = { .limit = ERR_DETAIL_SIZE - 1 };

	buf_printf(&words, "pgweir's own login as \"%s\" at ", pool->role->name);
	add_place(server, &words);
	buf_printf(&words, ", for the entry \"%s\"", pool->database->name);
	if (is_ours || strncmp(err->sqlstate, "28", 2) == 0) {
		add_secret(pool, &words);
		if (login)
			add_asked(login, is_ours, &words);
	}
	/* Names may be too long for it; the half of it would mislead. */
	if (buf_ok(&words))
		err_detail(err, buf_text(&words));
	buf_free(&words);
}
