/* SPDX-License-Identifier: ISC */
/*
 * A client's names for its statements.
 *
 * Hard here: a name comes or goes when the client says so, before the server has
 * answered. The ledger takes back what the server refuses or skips.
 */
#include "names_priv.h"

#include <stdlib.h>

#include "client_priv.h"

#include "pgweir/base/banned.h"

struct statements *names_store(const struct client *client)
{
	return &client->clients->with.pools->statements;
}

unsigned int client_statement_count(const struct client *client)
{
	return HASH_COUNT(client->statements);
}

struct client_statement *names_find(const struct client *client, const char *name)
{
	struct client_statement *entry;

	HASH_FIND_STR(client->statements, name, entry);
	return entry;
}

static void free_name(struct client_statement *entry)
{
	entry->is_gone = true;
	if (entry->use_count)
		return;
	statement_release(entry->statements, &entry->statement);
	free(entry);
}

static void settle_use(struct ledger_change *change, bool is_done)
{
	struct client_statement *entry =
	    (struct client_statement *)((char *)change - offsetof(struct client_statement, use));

	(void)is_done;
	entry->use_count--;
	if (entry->is_gone)
		free_name(entry);
}

void names_forget(struct client *client, bool is_all)
{
	struct client_statement *entry, *next;

	client->name_loss_count++;
	HASH_ITER (hh, client->statements, entry, next) {
		if (!is_all && !entry->is_confirmed)
			continue;
		HASH_DEL(client->statements, entry);
		free_name(entry);
	}
}

/* A name comes or goes, together with what the server learns. */
struct name_change {
	struct ledger_change base;
	struct ledger_change *server_change; /* or NULL */
	struct client *client;
	struct client_statement *entry; /* of a name that goes: ours until it is settled */
	uint32_t loss_count;            /* when it was made */
	char name[];
};

static struct name_change *make_change(struct client *client, const char *name,
                                       struct ledger_change *server_change,
                                       void (*settle)(struct ledger_change *, bool))
{
	size_t size = strlen(name) + 1;
	struct name_change *change = calloc(1, sizeof(*change) + size);

	if (!change)
		return NULL;
	change->base.settle = settle;
	change->server_change = server_change;
	change->client = client;
	change->loss_count = client->name_loss_count;
	ledger_open_begin(&client->open_names, &client->borrower.server->ledger);
	memcpy(change->name, name, size);
	change->base.name = change->name;
	return change;
}

static void free_change(struct name_change *change)
{
	change->client->open_names.count--;
	free(change);
}

static void settle_come(struct ledger_change *base, bool is_done)
{
	struct name_change *change = (struct name_change *)base;
	struct client_statement *entry = names_find(change->client, change->name);

	if (change->server_change)
		change->server_change->settle(change->server_change, is_done);
	if (entry && is_done)
		entry->is_confirmed = true;
	if (entry && !is_done) {
		HASH_DEL(change->client->statements, entry);
		free_name(entry);
	}
	free_change(change);
}

struct ledger_change *names_come(struct client *client, const char *name,
                                 struct statement *statement, struct ledger_change *server_change)
{
	size_t size = strlen(name) + 1;
	struct client_statement *entry = calloc(1, sizeof(*entry) + size);
	struct name_change *change =
	    entry ? make_change(client, name, server_change, settle_come) : NULL;

	if (!change) {
		free(entry);
		return NULL;
	}
	change->base.statement = statement; /* held by the entry at least as long */
	entry->statements = names_store(client);
	entry->statement = statement_hold(statement);
	memcpy(entry->name, name, size);
	entry->use = (struct ledger_change){ .settle = settle_use,
		                             .statement = statement,
		                             .name = entry->name };
	HASH_ADD_STR(client->statements, name, entry);
	return &change->base;
}

static void settle_go(struct ledger_change *base, bool is_done)
{
	struct name_change *change = (struct name_change *)base;

	bool is_back = !is_done && change->loss_count == change->client->name_loss_count;

	if (change->entry && is_back && !names_find(change->client, change->name))
		HASH_ADD_STR(change->client->statements, name, change->entry);
	else if (change->entry)
		free_name(change->entry);
	free_change(change);
}

struct ledger_change *names_go(struct client *client, const char *name)
{
	struct name_change *change = make_change(client, name, NULL, settle_go);

	if (!change)
		return NULL;
	change->entry = names_find(client, name);
	if (change->entry)
		HASH_DEL(client->statements, change->entry);
	return &change->base;
}

bool names_are_unsure(const struct client *client)
{
	return ledger_open_is_unsure(&client->open_names, &client->borrower.server->ledger);
}
