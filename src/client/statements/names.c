/* SPDX-License-Identifier: ISC */
/*
 * A client's names for its prepared statements.
 *
 * Hard here: a name is added or removed when the client sends its message, before the
 * server has answered. The ledger reverts the change if the server refuses or skips the
 * message.
 */
#include "names_priv.h"

#include <assert.h>
#include <search.h>
#include <stdlib.h>

#include "pgweir/pool/server/params.h"

#include "../client_priv.h"

/* What one client may have. Drivers keep some hundreds, object mappers some thousands. */
#define NAMES_MAX 10000
#define TEXTS_MAX ((size_t)64 * 1024 * 1024)

#define COME_NUMBERS (UINT32_C(1) << 29)

/*
 * The names of one client. Most clients never prepare a statement, so this is allocated
 * with the first name. It exists until the client is freed, because the open changes count
 * in it.
 */
struct names {
	void *tree;              /* the client's names: a tree of tsearch() */
	uint32_t count;          /* names in the tree */
	size_t size;             /* of their texts */
	uint32_t change_count;   /* changes so far; gives each change its number */
	uint32_t loss_count;     /* how often the client lost all names */
	struct ledger_open open; /* changes that are not settled yet */
	struct buf exposed;      /* name\0name\0 */
};

struct statements *names_store(const struct client *client)
{
	return &client->clients->with.pools->statements;
}

unsigned int client_statement_count(const struct client *client)
{
	return client->names ? client->names->count : 0;
}

/* NULL: no memory. */
static struct names *get(struct client *client)
{
	if (!client->names)
		client->names = calloc(1, sizeof(*client->names));
	if (client->names)
		client->features |= CLIENT_FOLLOWS_STATEMENTS;
	return client->names;
}

struct buf *names_exposed(const struct client *client)
{
	return client->names ? &client->names->exposed : NULL;
}

struct ledger_open *names_open(const struct client *client) { return &client->names->open; }

void names_watch_texts(struct client *client) { client->features |= CLIENT_HAS_SQL_NAMES; }

static int compare(const void *one, const void *other) { return strcmp(one, other); }

static struct client_statement *names_entry_of(const char *name)
{
	return (struct client_statement *)(name - offsetof(struct client_statement, name));
}

static struct client_statement *find_entry(const struct names *names, const char *name)
{
	char *const *node = tfind(name, &names->tree, compare);

	return node ? names_entry_of(*node) : NULL;
}

struct client_statement *names_find(const struct client *client, const char *name)
{
	return client->names ? find_entry(client->names, name) : NULL;
}

/* false: no memory. */
static bool add_entry(struct names *names, struct client_statement *entry)
{
	if (!tsearch(entry->name, &names->tree, compare))
		return false;
	names->count++;
	names->size += entry->size;
	return true;
}

static void remove_name(struct names *names, const struct client_statement *entry)
{
	tdelete(entry->name, &names->tree, compare);
	names->count--;
	names->size -= entry->size;
}

static void free_name(struct client_statement *entry)
{
	struct statement *statement = names_statement(entry);

	entry->is_gone = true;
	if (entry->use_count)
		return;
	statement_release(&statement);
	free(entry);
}

static void settle_use(struct ledger_change *change, bool is_done)
{
	struct client_statement *entry = container_of(change, struct client_statement, use);

	(void)is_done;
	entry->use_count--;
	if (entry->is_gone)
		free_name(entry);
}

static void forget_name(struct names *names, bool is_all)
{
	void *rest = names->tree;
	void *root = NULL;

	names->loss_count++;
	names->tree = NULL;
	names->count = 0;
	names->size = 0;
	while ((root = rest)) {
		struct client_statement *entry = names_entry_of(*(char **)root);

		tdelete(entry->name, &rest, compare);
		if (is_all || entry->is_confirmed || !add_entry(names, entry))
			free_name(entry);
	}
}

void names_forget(struct client *client)
{
	if (client->names)
		forget_name(client->names, false);
}

void names_free(struct client *client)
{
	if (!client->names)
		return;
	assert(client->names->open.count == 0);
	forget_name(client->names, true);
	buf_free(&client->names->exposed);
	free(client->names);
	client->names = NULL;
}

/*
 * The change when a name is added, or names are removed, with the change of the server's
 * statements, if any.
 */
struct name_change {
	struct ledger_change base;
	struct ledger_change *server_change; /* settled together with this one; or NULL */
	struct names *names;
	struct server_statements *known; /* of the server */
	struct statement *statement;     /* an added name: its statement; holds one reference */
	void *removed;                   /* a tree; owned by the change until it is settled */
	uint32_t loss_count;             /* when the change was made */
	uint32_t number;
	char name[];
};

/* name: NULL: all of them. */
static struct name_change *make_change(struct client *client, const char *name,
                                       struct ledger_change *server_change,
                                       void (*settle)(struct ledger_change *, bool))
{
	size_t size = name ? strlen(name) + 1 : 0;
	struct names *names = get(client);
	struct name_change *change = names ? calloc(1, sizeof(*change) + size) : NULL;

	if (!change)
		return NULL;
	change->base.settle = settle;
	change->server_change = server_change;
	change->names = names;
	change->known = &client->borrower.server->session.statements;
	change->loss_count = names->loss_count;
	change->number = names->change_count++ % COME_NUMBERS;
	ledger_open_begin(&names->open, &client->borrower.server->wire.ledger);
	if (name)
		change->base.name = memcpy(change->name, name, size);
	return change;
}

static void free_change(struct name_change *change)
{
	ledger_open_end(&change->names->open);
	statement_release(&change->statement);
	free(change);
}

/* What a server has parsed before that time does not count, but for the client's own Parse. */
static usec_t answer_time(const struct name_change *change)
{
	usec_t done_at =
	    change->server_change ? server_statements_done_at(change->known, change->statement) : 0;

	return done_at ? done_at : clock_now();
}

static void settle_come(struct ledger_change *base, bool is_done)
{
	struct name_change *change = (struct name_change *)base;
	struct client_statement *entry = find_entry(change->names, change->name);

	if (change->server_change)
		change->server_change->settle(change->server_change, is_done);
	if (entry && is_done && entry->come_number == change->number) {
		entry->is_confirmed = true;
		entry->parsed_at = answer_time(change);
	}
	if (entry && !is_done) {
		remove_name(change->names, entry);
		free_name(entry);
	}
	free_change(change);
}

/* ---- the statement of a name ---- */

/* Replaces the statement. Takes over the caller's reference to the new one. */
static void set_statement(struct client_statement *entry, struct statement *statement)
{
	struct statement *old = names_statement(entry);

	entry->use.statement = statement;
	statement_release(&old);
}

static struct bytes query_of(const struct statement *statement)
{
	return bytes_text(statement_text(statement).at);
}

static bool enter_scope(struct client *client, struct client_statement *entry)
{
	struct server *server = client->borrower.server;
	struct statement *statement = names_statement(entry);
	struct buf merged = { 0 };
	struct bytes scope, name;

	if (!server_scope(server, &scope))
		return false;
	if (bytes_equal(scope, statement_scope(statement)))
		return true;
	if (statement->is_typed &&
	    server_statements_use(&server->session.statements, statement, false, &name))
		return true;
	if (text_scope_merge(query_of(statement), statement_scope(statement), scope, &merged))
		statement = statement_scoped(statement, buf_bytes(&merged));
	else
		statement = NULL;
	buf_free(&merged);
	if (!statement)
		return false;
	set_statement(entry, statement);
	return true;
}

bool names_enter_scope(struct client *client, struct client_statement *entry)
{
	struct server_statements *known = &client->borrower.server->session.statements;

	if (!enter_scope(client, entry))
		return false;
	if (!server_statements_is_since(known, names_statement(entry), entry->parsed_at) &&
	    names_can_parse(client, entry))
		server_statements_mark_stale(known, names_statement(entry));
	return true;
}

bool names_can_parse(struct client *client, const struct client_statement *entry)
{
	struct statement *statement = names_statement(entry);
	struct buf merged = { 0 };
	struct bytes scope;
	bool is_same;

	if (!server_scope(client->borrower.server, &scope))
		return false;
	if (bytes_equal(scope, statement_scope(statement)))
		return true;
	is_same =
	    text_scope_merge(query_of(statement), statement_scope(statement), scope, &merged) &&
	    bytes_equal(scope, buf_bytes(&merged));
	buf_free(&merged);
	return is_same;
}

bool names_can_run(struct client *client, const struct client_statement *entry, bool is_sql,
                   struct err *err)
{
	struct server_statements *known = &client->borrower.server->session.statements;
	struct bytes name;

	if (names_can_parse(client, entry) ||
	    server_statements_use(known, names_statement(entry), is_sql, &name))
		return true;
	err_set(err, ERR_UNSUPPORTED,
	        "prepared statement \"%s\" was parsed with another client_encoding, "
	        "standard_conforming_strings or backslash_quote, and this server does not have it",
	        entry->name);
	return err_hint(err, "Set the parameter back, or prepare the statement again.");
}

struct name_description {
	struct description base;
	struct server_statements *known; /* of the server */
	struct client_statement *entry;  /* counted in its use_count */
	struct statement *statement;     /* the one that is described; holds one reference */
	uint32_t parse_number;
	bool is_told; /* the client gets the answer */
};

static void on_columns(struct description *base, uint32_t columns)
{
	struct name_description *description = (struct name_description *)base;

	server_statements_described(description->known, description->statement, columns,
	                            description->parse_number);
	if (description->is_told)
		description->entry->columns = columns;
}

static bool on_types(struct description *base, struct bytes types)
{
	struct name_description *description = (struct name_description *)base;
	struct client_statement *entry = description->entry;
	struct statement *typed = statement_typed(description->statement, types);

	if (!typed)
		return false;
	server_statements_typed(description->known, description->statement, typed,
	                        description->parse_number);
	statement_release(&typed);
	if (names_statement(entry)->is_typed)
		return true; /* the first description is kept */
	typed = statement_typed(names_statement(entry), types);
	if (typed)
		set_statement(entry, typed);
	return typed != NULL;
}

static void settle_description(struct ledger_change *change, bool is_done)
{
	struct name_description *description = (struct name_description *)change;

	settle_use(&description->entry->use, is_done);
	statement_release(&description->statement);
	free(description);
}

struct ledger_change *names_describe(struct client *client, struct client_statement *entry,
                                     bool is_told)
{
	struct name_description *description = calloc(1, sizeof(*description));
	struct statement *statement = names_statement(entry);

	if (!description)
		return NULL;
	description->known = &client->borrower.server->session.statements;
	description->entry = entry;
	description->statement = statement_hold(statement);
	description->parse_number = server_statements_parse_number(description->known, statement);
	description->base.base =
	    (struct ledger_change){ settle_description, statement, entry->name };
	description->base.on_types = on_types;
	description->base.on_columns = on_columns;
	description->is_told = is_told;
	entry->use_count++;
	return &description->base.base;
}

/* ---- add and remove names ---- */

bool names_have_room(const struct client *client, const struct statement *statement,
                     struct err *err)
{
	const struct names *names = client->names;

	if (!names || (names->count < NAMES_MAX &&
	               names->size + statement_text(statement).count <= TEXTS_MAX))
		return true;
	err_set(err, ERR_LIMIT,
	        "too many prepared statements: a client may have %d, and %zu MB of their texts",
	        NAMES_MAX, TEXTS_MAX / 1024 / 1024);
	return err_hint(err, "Close or DEALLOCATE those that are not needed any more.");
}

struct ledger_change *names_come(struct client *client, const char *name,
                                 struct statement *statement, struct ledger_change *server_change)
{
	size_t size = strlen(name) + 1;
	struct client_statement *entry = calloc(1, sizeof(*entry) + size);
	struct name_change *change =
	    entry ? make_change(client, name, server_change, settle_come) : NULL;

	if (entry) {
		memcpy(entry->name, name, size);
		entry->size = (uint32_t)statement_text(statement).count;
	}
	if (!change || !add_entry(client->names, entry)) {
		if (change)
			free_change(change);
		free(entry);
		return NULL;
	}
	change->base.statement = change->statement = statement_hold(statement);
	entry->come_number = change->number;
	entry->use = (struct ledger_change){ settle_use, statement_hold(statement), entry->name };
	return &change->base;
}

static void settle_go(struct ledger_change *base, bool is_done)
{
	struct name_change *change = (struct name_change *)base;
	struct names *names = change->names;
	bool is_back = !is_done && change->loss_count == names->loss_count;

	while (change->removed) {
		struct client_statement *entry = names_entry_of(*(char **)change->removed);

		tdelete(entry->name, &change->removed, compare);
		/*
		 * The Parse that added the name has succeeded, or its own change removes it next.
		 */
		entry->is_confirmed = true;
		if (!is_back || find_entry(names, entry->name) || !add_entry(names, entry))
			free_name(entry);
	}
	free_change(change);
}

struct ledger_change *names_go(struct client *client, const char *name)
{
	struct name_change *change = make_change(client, name, NULL, settle_go);
	struct client_statement *entry = names_find(client, name);

	if (!change || !entry)
		return change ? &change->base : NULL;
	if (!tsearch(entry->name, &change->removed, compare)) {
		free_change(change);
		return NULL;
	}
	remove_name(client->names, entry);
	return &change->base;
}

struct ledger_change *names_go_all(struct client *client)
{
	struct name_change *change = make_change(client, NULL, NULL, settle_go);

	if (!change)
		return NULL;
	change->removed = change->names->tree;
	change->names->tree = NULL;
	change->names->count = 0;
	change->names->size = 0;
	return &change->base;
}

bool names_are_unsure(const struct client *client)
{
	const struct names *names = client->names;

	return names && ledger_open_is_unsure(&names->open, &client->borrower.server->wire.ledger);
}

/* ---- hand-over to another process ---- */

/* twalk() hands nothing on, and only glibc has twalk_r(). */
static _Thread_local struct names_walk *walk;

static void see_node(const void *node, VISIT visit, int depth)
{
	(void)depth;
	if ((visit == postorder || visit == leaf) && !walk->is_over)
		walk->is_over = !walk->see(walk, names_entry_of(*(char *const *)node));
}

void names_each(const struct client *client, struct names_walk *each)
{
	walk = each;
	if (client->names)
		twalk(client->names->tree, see_node);
}

struct client_statement *names_restore(struct client *client, const char *name,
                                       struct statement *statement)
{
	size_t size = strlen(name) + 1;
	struct client_statement *entry =
	    names_find(client, name) ? NULL : calloc(1, sizeof(*entry) + size);

	if (!entry)
		return NULL;
	memcpy(entry->name, name, size);
	entry->size = (uint32_t)statement_text(statement).count;
	entry->is_confirmed = true;
	if (!get(client) || !add_entry(client->names, entry)) {
		free(entry);
		return NULL;
	}
	entry->use = (struct ledger_change){ settle_use, statement_hold(statement), entry->name };
	names_watch_texts(client); /* the record does not say how it was made */
	return entry;
}
