/* SPDX-License-Identifier: ISC */
/*
 * A client's names for its statements.
 *
 * Hard here: a name comes or goes when the client says so, before the server has
 * answered. The ledger takes back what the server refuses or skips.
 */
#include "names_priv.h"

#include <search.h>
#include <stdlib.h>

#include "client_priv.h"

#include "pgweir/base/banned.h"

#define COME_NUMBERS (UINT32_C(1) << 30)

struct statements *names_store(const struct client *client)
{
	return &client->clients->with.pools->statements;
}

unsigned int client_statement_count(const struct client *client) { return client->statement_count; }

static int compare(const void *one, const void *other) { return strcmp(one, other); }

static struct client_statement *entry_of(const char *name)
{
	return (struct client_statement *)(name - offsetof(struct client_statement, name));
}

struct client_statement *names_find(const struct client *client, const char *name)
{
	char *const *node = tfind(name, &client->statements, compare);

	return node ? entry_of(*node) : NULL;
}

/* false: no memory. */
static bool add(struct client *client, struct client_statement *entry)
{
	if (!tsearch(entry->name, &client->statements, compare))
		return false;
	client->statement_count++;
	return true;
}

static void remove_name(struct client *client, const struct client_statement *entry)
{
	tdelete(entry->name, &client->statements, compare);
	client->statement_count--;
}

static void free_name(struct client_statement *entry)
{
	struct statement *statement = names_statement(entry);

	entry->is_gone = true;
	if (entry->use_count)
		return;
	statement_release(statement->statements, &statement);
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
	void *rest = client->statements;
	void *root = NULL;

	client->name_loss_count++;
	client->statements = NULL;
	client->statement_count = 0;
	while ((root = rest)) {
		struct client_statement *entry = entry_of(*(char **)root);

		tdelete(entry->name, &rest, compare);
		if (is_all || entry->is_confirmed || !add(client, entry))
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
	uint32_t number;
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
	change->number = client->name_change_count++ % COME_NUMBERS;
	ledger_open_begin(&client->open_names, &client->borrower.server->ledger);
	memcpy(change->name, name, size);
	change->base.name = change->name;
	return change;
}

static void free_change(struct name_change *change)
{
	ledger_open_end(&change->client->open_names);
	free(change);
}

static void settle_come(struct ledger_change *base, bool is_done)
{
	struct name_change *change = (struct name_change *)base;
	struct client_statement *entry = names_find(change->client, change->name);

	if (change->server_change)
		change->server_change->settle(change->server_change, is_done);
	if (entry && is_done && entry->come_number == change->number)
		entry->is_confirmed = true;
	if (entry && !is_done) {
		remove_name(change->client, entry);
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

	if (entry)
		memcpy(entry->name, name, size);
	if (!change || !add(client, entry)) {
		if (change)
			free_change(change);
		free(entry);
		return NULL;
	}
	change->base.statement = statement; /* held by the entry at least as long */
	entry->come_number = change->number;
	entry->use = (struct ledger_change){ settle_use, statement_hold(statement), entry->name };
	return &change->base;
}

static void settle_go(struct ledger_change *base, bool is_done)
{
	struct name_change *change = (struct name_change *)base;

	bool is_back = !is_done && change->loss_count == change->client->name_loss_count;

	is_back = is_back && change->entry && !names_find(change->client, change->name);
	if (is_back) /* what has brought it came through, or will be taken back next */
		change->entry->is_confirmed = true;
	if (change->entry && !(is_back && add(change->client, change->entry)))
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
		remove_name(client, change->entry);
	return &change->base;
}

bool names_are_unsure(const struct client *client)
{
	return ledger_open_is_unsure(&client->open_names, &client->borrower.server->ledger);
}

/* ---- from one process to another ---- */

static void see_node(const void *node, VISIT visit, void *arg)
{
	struct names_walk *walk = arg;

	if ((visit == postorder || visit == leaf) && !walk->is_over)
		walk->is_over = !walk->see(walk, entry_of(*(char *const *)node));
}

void names_each(const struct client *client, struct names_walk *walk)
{
	twalk_r(client->statements, see_node, walk);
}

void names_restore(struct client *client, const char *name, struct statement *statement)
{
	size_t size = strlen(name) + 1;
	struct client_statement *entry =
	    names_find(client, name) ? NULL : calloc(1, sizeof(*entry) + size);

	if (!entry)
		return;
	memcpy(entry->name, name, size);
	entry->is_confirmed = true;
	if (!add(client, entry)) {
		free(entry);
		return;
	}
	entry->use = (struct ledger_change){ settle_use, statement_hold(statement), entry->name };
}
