/* SPDX-License-Identifier: ISC */
/*
 * Named statements and portals of a session. The portal of a Query is in no table.
 */
#include "admin_priv.h"

#include <stdlib.h>

#include "pgweir/base/table.h"

#include "pgweir/base/banned.h"

static const struct hash_key *table_secret(const struct console_session *session)
{
	return &console_pools(session->console)->secret;
}

/* ---- statements ---- */

struct prepared *session_find_statement(const struct console_session *session, const char *name)
{
	struct prepared *statement;

	TABLE_FIND_STR(hh, table_secret(session), session->statements, name, statement);
	return statement;
}

bool session_add_statement(struct console_session *session, const char *name,
                           const struct request *request)
{
	size_t size = strlen(name) + 1;
	struct prepared *statement;

	session_drop_statement(session, name);
	statement = calloc(1, sizeof(*statement) + size);
	if (!statement)
		return false;
	memcpy(statement->name, name, size);
	statement->request = *request;
	TABLE_ADD_STR(hh, table_secret(session), session->statements, statement->name, statement);
	return true;
}

static void drop_statement(struct console_session *session, struct prepared *statement)
{
	HASH_DEL(session->statements, statement);
	free(statement);
}

void session_drop_statement(struct console_session *session, const char *name)
{
	struct prepared *statement = session_find_statement(session, name);

	if (statement)
		drop_statement(session, statement);
}

void session_drop_statements(struct console_session *session)
{
	struct prepared *statement, *next;

	HASH_ITER (hh, session->statements, statement, next)
		drop_statement(session, statement);
}

/* ---- portals ---- */

struct portal *session_portal_new(const char *name, const struct request *request)
{
	size_t size = strlen(name) + 1;
	struct portal *portal = calloc(1, sizeof(*portal) + size);

	if (!portal)
		return NULL;
	memcpy(portal->name, name, size);
	portal->request = *request;
	return portal;
}

void session_portal_free(struct portal **portal)
{
	if (!*portal)
		return;
	cursor_end(&(*portal)->cursor);
	free(*portal);
	*portal = NULL;
}

struct portal *session_find_portal(const struct console_session *session, const char *name)
{
	struct portal *portal;

	TABLE_FIND_STR(hh, table_secret(session), session->portals, name, portal);
	return portal;
}

bool session_add_portal(struct console_session *session, const char *name,
                        const struct request *request, uint32_t binary)
{
	struct portal *portal = session_portal_new(name, request);

	if (!portal)
		return false;
	portal->binary = binary;
	TABLE_ADD_STR(hh, table_secret(session), session->portals, portal->name, portal);
	return true;
}

void session_drop_portal(struct console_session *session, struct portal *portal)
{
	if (!portal || portal == session->portal)
		return;
	HASH_DEL(session->portals, portal);
	session_portal_free(&portal);
}

void session_drop_portals(struct console_session *session)
{
	struct portal *portal, *next;

	HASH_ITER (hh, session->portals, portal, next)
		session_drop_portal(session, portal);
}

void session_drop_all(struct console_session *session)
{
	session->portal = NULL;
	session_drop_statements(session);
	session_drop_portals(session);
	session_portal_free(&session->simple);
}
