/* SPDX-License-Identifier: ISC */
/*
 * Libraries that a client loads by LOAD. They become part of the client's parameters, and are
 * loaded on each server before it is used.
 *
 * Hard here: the text has the name, and the server says only how many LOADs have succeeded. If that
 * is another number, it is not known which: the server stays with the client.
 */
#include "libraries_priv.h"

#include <string.h>

#include "pgweir/pgwire/sql_items.h"

#define NAMES_SIZE_MAX ((size_t)4096) /* bytes of the names of one transaction */

static void add_item(void *context, const struct sql_item *item)
{
	struct session *session = context;

	session->libraries.limit = NAMES_SIZE_MAX;
	if (item->kind == SQL_ITEM_UNSURE)
		session->libraries.is_broken = true;
	if (item->kind != SQL_ITEM_LIBRARY)
		return;
	buf_add(&session->libraries, item->name.at, item->name.count);
	buf_add_byte(&session->libraries, 0);
}

void libraries_note(struct session *session, struct bytes text)
{
	sql_items(text, add_item, session);
}

static unsigned int count_names(struct bytes names)
{
	unsigned int count = 0;
	const char *name;

	while (bytes_take_text(&names, &name))
		count++;
	return count;
}

bool libraries_take(struct session *session, struct server *server)
{
	struct bytes names = buf_bytes(&session->libraries);
	bool is_known = buf_ok(&session->libraries) && count_names(names) == server->load_count;
	const char *name;

	while (is_known && bytes_take_text(&names, &name))
		is_known = server_add_library(server, name);
	is_known |= server->load_count == 0; /* all have failed */
	if (is_known)
		server_settle_loads(server);
	buf_free(&session->libraries);
	return is_known;
}
