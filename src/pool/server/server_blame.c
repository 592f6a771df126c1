/* SPDX-License-Identifier: ISC */
/*
 * Adds context to the error of a failed login at PostgreSQL.
 *
 * A wrong password of a client and a wrong password of ours have the same error text. So the DETAIL
 * says that it was our login, at which address and for which entry, and where our secret came from;
 * also what PostgreSQL asked for, and what its SCRAM challenge reveals about a different secret.
 * The secret itself is never included.
 */
#include <string.h>

#include "pgweir/base/text.h"

#include "server_priv.h"

static void add_address(const struct server *server, struct buf *out)
{
	char text[ADDRESS_TEXT_SIZE];

	buf_add_text(out, address_is_unix(&server->peer)
	                      ? server->path
	                      : address_format(&server->peer, text, sizeof(text)));
}

/* PostgreSQL asks for a kind of secret that we do not have. */
static void add_asked(const struct auth_client *auth, bool is_wrong_type, struct buf *out)
{
	const char *mismatch = auth_client_mismatch(auth);

	if (is_wrong_type && auth_client_asked(auth))
		buf_printf(out, "; PostgreSQL asks for %s", auth_client_asked(auth));
	if (mismatch)
		buf_printf(out, "; the %s of that secret is not the one that PostgreSQL has",
		           mismatch);
}

void server_blame(const struct server *server, struct err *err)
{
	const struct server_site *site = server->site;
	const struct auth_client *auth = server->login ? server->login->auth : NULL;
	bool is_ours = err->code != ERR_FOREIGN;
	struct buf words = { .limit = ERR_DETAIL_SIZE - 1 };

	buf_printf(&words, "pgweir's own login as \"%s\" at ", site->user);
	add_address(server, &words);
	buf_printf(&words, ", for the entry \"%s\"", site->database);
	if (is_ours || strncmp(err->sqlstate, "28", 2) == 0) {
		site->ops->tell_secret(server, &words);
		if (auth)
			add_asked(auth, is_ours, &words);
	}
	/* Names may be too long for the DETAIL; a part of it would mislead. */
	if (buf_ok(&words))
		err_detail(err, buf_text(&words));
	buf_free(&words);
}
