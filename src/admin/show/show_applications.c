/* SPDX-License-Identifier: ISC */
/*
 * SHOW APPLICATIONS: the connected clients by their application_name.
 *
 *   all clients, in pieces --> a table of names --> the greatest first --> rows, one for the rest
 *
 * Hard here: clients choose these names, and each may choose another one. So at most NAMES_MAX are
 * told apart, and SHOWN_MAX shown; all others are one row without a name.
 */
#include "show_priv.h"

#include <stdlib.h>

#include "pgweir/base/text.h"
#include "pgweir/client/session.h"

#include "pgweir/base/banned.h"

#define NAMES_MAX 4096
#define SHOWN_MAX 1000

/* The clients of one name. */
struct named_clients {
	UT_hash_handle hh;
	char name[APPLICATION_NAME_SIZE];
	int64_t clients, active, waiting, pinned, xacts, errors;
	usec_t longest;
};

struct application_row {
	const char *application_name;
	int64_t clients, active, waiting, pinned, xacts, errors, longest_xact_s;
	char name_buffer[APPLICATION_NAME_SIZE];
};
_Static_assert(sizeof(struct application_row) <= ROW_SIZE_MAX, "a row is too large");

#define INT4(field, help) COLUMN(struct application_row, VALUE_INT4, field, help)
#define INT8(field, help) COLUMN(struct application_row, VALUE_INT8, field, help)

static const struct column application_columns[] = {
	COLUMN(struct application_row, VALUE_TEXT, application_name,
	       "application_name of the clients; NULL: all others together, because there are more "
	       "than 1000 names."),
	INT4(clients, "Connected clients."),
	INT4(active, "Clients that have a server and use it."),
	INT4(waiting, "Clients that wait for a server."),
	INT4(pinned, "Clients whose server stays with them, as in SHOW PINNED."),
	INT8(xacts,
	     "Transactions of clients of this name since they are counted, also of those that "
	     "have disconnected. NULL unless track_statements is set: only then they are counted "
	     "by name."),
	INT8(errors, "Errors of their statements. NULL unless track_statements is set."),
	INT4(longest_xact_s, "Seconds since the oldest of their running transactions began."),
};

#undef INT4
#undef INT8

/* ---- gathering ---- */

static void add_client(const struct client *client, struct named_clients *sum)
{
	usec_t now = loop_now(client->clients->with.loop);

	sum->clients++;
	sum->active += client->state == CLIENT_ACTIVE || client->state == CLIENT_PREPARING ||
	               client->state == CLIENT_SETTLING;
	sum->waiting += client->state == CLIENT_WAITING || client->state == CLIENT_NEWCOMER;
	sum->pinned += client->borrower.server && session_pinned_at(client);
	if (client->xact_at && now - client->xact_at > sum->longest)
		sum->longest = now - client->xact_at;
}

/* The clients of this name. Without memory, and of too many names: those of the rest. */
static struct named_clients *named(struct applications_walk *walk, const struct hash_key *key,
                                   const char *name)
{
	struct named_clients *found;
	char cut[APPLICATION_NAME_SIZE];

	text_copy(cut, sizeof(cut), name);
	TABLE_FIND_STR(hh, key, walk->table, cut, found);
	if (found)
		return found;
	found = HASH_COUNT(walk->table) < NAMES_MAX ? calloc(1, sizeof(*found)) : NULL;
	if (!found)
		return walk->rest;
	text_copy(found->name, sizeof(found->name), cut);
	TABLE_ADD_STR(hh, key, walk->table, found->name, found);
	return found;
}

static int by_clients(const struct named_clients *a, const struct named_clients *b)
{
	if (a->clients != b->clients)
		return a->clients < b->clients ? 1 : -1;
	return strcmp(a->name, b->name);
}

/* false: the rest in a later turn. */
static bool gather(struct cursor *cursor)
{
	struct applications_walk *walk = &cursor->applications;
	const struct client *client;

	while ((client = cursor_next_client(cursor))) {
		const char *name = params_find(client->params, "application_name");

		if (client->borrower.pool)
			add_client(client, named(walk, client->clients->with.digest_key,
			                         name ? name : ""));
	}
	if (cursor->has_more)
		return false;
	HASH_SORT(walk->table, by_clients);
	walk->next = walk->table;
	walk->is_gathered = true;
	return true;
}

static bool begin(struct cursor *cursor)
{
	cursor->applications.rest = calloc(1, sizeof(*cursor->applications.rest));
	return cursor->applications.rest;
}

void show_applications_end(struct applications_walk *walk)
{
	struct named_clients *clients, *next;

	HASH_ITER (hh, walk->table, clients, next) {
		HASH_DEL(walk->table, clients);
		free(clients);
	}
	free(walk->rest);
	*walk = (struct applications_walk){ 0 };
}

/* ---- rows ---- */

/* Adds what the lanes have counted for this name. */
static void add_counts(const struct cursor *cursor, struct named_clients *sum, const char *name)
{
	const struct lane *lane;

	LANES_EACH(lane, show_source_lanes(cursor->source))
	{
		const struct application *application =
		    applications_find(&lane->clients->applications, name);

		if (!application)
			continue;
		sum->xacts += (int64_t)application->xact_count;
		sum->errors += (int64_t)application->error_count;
	}
}

/* The next name is not shown alone. */
static void add_to_rest(struct named_clients *rest, const struct named_clients *one)
{
	rest->clients += one->clients;
	rest->active += one->active;
	rest->waiting += one->waiting;
	rest->pinned += one->pinned;
	if (one->longest > rest->longest)
		rest->longest = one->longest;
}

static void fill_application(struct application_row *row, const struct named_clients *sum,
                             bool is_tracked)
{
	row->clients = sum->clients;
	row->active = sum->active;
	row->waiting = sum->waiting;
	row->pinned = sum->pinned;
	row->xacts = is_tracked ? sum->xacts : ROWS_NULL;
	row->errors = is_tracked ? sum->errors : ROWS_NULL;
	row->longest_xact_s = sum->longest / USEC_PER_SEC;
}

static bool next_application(struct cursor *cursor, void *at)
{
	struct applications_walk *walk = &cursor->applications;
	struct application_row *row = at;
	bool is_tracked = show_source_config(cursor->source)->track_statements > 0;

	if (!walk->rest && !begin(cursor))
		return false;
	if (!walk->is_gathered && !gather(cursor))
		return false;
	for (; walk->next; walk->next = walk->next->hh.next) {
		if (!cursor_may_look(cursor))
			return false;
		if (walk->shown >= SHOWN_MAX) {
			add_counts(cursor, walk->rest, walk->next->name);
			add_to_rest(walk->rest, walk->next);
			continue;
		}
		walk->shown++;
		add_counts(cursor, walk->next, walk->next->name);
		fill_application(row, walk->next, is_tracked);
		text_copy(row->name_buffer, sizeof(row->name_buffer), walk->next->name);
		row->application_name = row->name_buffer;
		walk->next = walk->next->hh.next;
		return true;
	}
	if (walk->is_ended || !walk->rest->clients)
		return false;
	walk->is_ended = true;
	fill_application(row, walk->rest, is_tracked);
	return true;
}

const struct show show_applications = {
	.item = "APPLICATIONS",
	.next = next_application,
	.columns = COLUMNS(application_columns),
	.help = "Connected clients by application_name: how many, what they do, and what those of "
		"the name have done. A name without clients is not listed.",
};
