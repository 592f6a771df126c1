/* SPDX-License-Identifier: ISC */
/*
 * SHOW of what clients do: TRANSACTIONS, WAITING, APPLICATIONS; and of their session state: PINNED,
 * SESSION_STATE, CATALOG, AUDIT.
 *
 * The clients of each lane are walked in the order of their ids. TRANSACTIONS skips those outside a
 * transaction.
 */
#include "show_priv.h"

#include <stdlib.h>

#include "pgweir/base/text.h"
#include "pgweir/client/session.h"
#include "pgweir/pool/catalog.h"

#define TRANSACTION_ROW(COLUMN)                                                                  \
	WHO_ROW(COLUMN)                                                                          \
	COLUMN(INT4, server_pid, server_backend_pid(client->borrower.server),                    \
	       "Process ID of the PostgreSQL backend that serves the client; 0: none.")          \
	COLUMN(TEXT, state, state,                                                               \
	       "State of the client: running, idle in transaction, or waiting.")                 \
	COLUMN(TIME, state_since, show_wall(since, now), "When the client entered this state.")  \
	COLUMN(TIME, xact_since, show_wall(client->xact_at, now), "When the transaction began.") \
	COLUMN(INT4, wait, client->request_at ? wait / USEC_PER_SEC : 0,                         \
	       "Seconds that the current request has waited for a server.")                      \
	COLUMN(INT4, seconds, (now - since) / USEC_PER_SEC, "Seconds in this state.")            \
	COLUMN(INT4, xact_seconds, (now - client->xact_at) / USEC_PER_SEC,                       \
	       "Seconds in the transaction.")                                                    \
	COLUMN(TEXT, statement, sees_text && client->slow ? client->slow->text : NULL,           \
	       "Beginning of the current statement; if idle in transaction, of the last one. "   \
	       "NULL unless log_min_duration is set and the user is one of admin_users.")

SHOW_ROWS(transactions, "TRANSACTIONS", TRANSACTION_ROW,
          "Clients in a transaction, with their state and how long they have been in it.",
          .is_of_clients = true, .argument = SHOW_OF_DATABASE);

/* What the client does, and in *since the time when that began. */
static const char *state_of(const struct client *client, usec_t *since)
{
	const struct borrower *borrower = &client->borrower;

	if (client->state == CLIENT_WAITING) {
		*since = borrower->waiting_since;
		return "waiting";
	}
	if (client->request_at) {
		*since = client->request_at + borrower->waited;
		return "running";
	}
	*since = borrower->server ? borrower->server->used_at : client->xact_at;
	return "idle in transaction";
}

static bool next_transactions(struct cursor *cursor, void *row)
{
	const struct client *client = cursor->client;
	usec_t now = loop_now(client->clients->loop), since, wait;
	bool sees_text =
	    show_source_config(cursor->source)->log_min_duration && cursor->role == CONSOLE_ADMIN;
	const char *state;

	if (!client->xact_at || !client->borrower.pool)
		return false;
	state = state_of(client, &since);
	wait = client->borrower.waited + (client->state == CLIENT_WAITING ? now - since : 0);
	return ROW_FILL(row, struct transactions_shown, TRANSACTION_ROW);
}

/*
 * ---- WAITING ----
 *
 * Hard here: a wait queue changes between two turns and may be long. Between two turns a cursor
 * only keeps the names of the pool and, for each lane, the wait number of the last borrower shown.
 * The next one of that lane has a greater number, and its position is counted again from the head.
 * The queues of all lanes are shown as one, the longest waiting first.
 */

#define WAITING_ROW(COLUMN)                                                                        \
	COLUMN(TEXT, database, client_database(client),                                            \
	       "Database that the client needs a server for.")                                     \
	COLUMN(TEXT, user, client_user(client), "User that the client logged in as.")              \
	COLUMN(INT4, place, place,                                                                 \
	       "Position of the client in the wait queue of its pool, from 1.")                    \
	COLUMN(INT4, wait, wait / USEC_PER_SEC, "Seconds that the client has waited.")             \
	COLUMN(INT4, wait_us, wait % USEC_PER_SEC,                                                 \
	       "Microsecond part of the waiting time (column wait has the seconds).")              \
	COLUMN(TEXT, reason, pool_wait_reason_name(reason),                                        \
	       "Why the client waits: pool full, share, pinned, database limit, user limit, host " \
	       "limit, server limit, server login, server check, retry after failure, paused, "    \
	       "database paused, suspended, served next.")                                         \
	COLUMN(TEXT, detail, buf_text(detail),                                                     \
	       "Details of the reason: the limit, its current use, and the client that has held "  \
	       "a server for the longest time; or the user who paused, and when; or the last "     \
	       "error; or empty.")                                                                 \
	WHO_PEER(COLUMN)                                                                           \
	COLUMN(INT4, id, (int64_t)client->id, "id of the client, for KILL_CLIENT.")

SHOW_ITEMS(waiting, "WAITING", WAITING_ROW, "Clients that wait for a server, how long, and why.",
           .argument = SHOW_OF_DATABASE);

static bool has_waiters(const struct pool *pool)
{
	return pool_waiting_count(pool) && pool->purpose != POOL_FOR_LOOKUPS;
}

static void collect_waiting(struct cursor *cursor) { cursor_offer_pools(cursor, has_waiters); }

/* The queues of a user on a database: those of the pool for clients, and the first one for reads.
 */
#define CLIENT_QUEUES 7
#define QUEUES (CLIENT_QUEUES + 1)

/* In each lane at the first borrower after the last one shown. */
static void enter_queues(struct cursor *cursor)
{
	const struct lanes *lanes = cursor->lanes;
	const struct ordered *names = &cursor->ordered;
	struct waiting_walk *walk = &cursor->waiting;

	for (unsigned int i = 0; i < lanes->count; i++) {
		struct pool *pool = pools_find_exact_pool(
		    lanes->at[i].pools, names->first, names->second,
		    walk->queue < CLIENT_QUEUES ? POOL_FOR_CLIENTS : POOL_FOR_READS);
		struct borrower_list *list =
		    pool ? pool_wait_queue_at(pool, walk->queue % CLIENT_QUEUES) : NULL;
		struct waiting_place *place = &walk->places[i];

		place->position = 0;
		place->next = list ? TAILQ_FIRST(list) : NULL;
		while (place->next && place->next->wait_number <= place->last) {
			place->next = TAILQ_NEXT(place->next, wait_node);
			place->position++;
		}
	}
	walk->is_entered = true;
}

/* The lane of the borrower that has waited longest in this queue. NULL: no more in it. */
static struct waiting_place *longest_waiting(struct cursor *cursor)
{
	struct waiting_place *places = cursor->waiting.places, *found = NULL;

	for (unsigned int i = 0; i < cursor->lanes->count; i++) {
		const struct borrower *next = places[i].next;

		if (next && (!found || next->waiting_since < found->next->waiting_since))
			found = &places[i];
	}
	return found;
}

/* In this queue of the pools or in the next ones. NULL: no more in them. */
static struct waiting_place *next_place(struct cursor *cursor)
{
	struct waiting_walk *walk = &cursor->waiting;
	struct waiting_place *place;

	if (cursor->index++ == 0)
		*walk = (struct waiting_walk){ 0 };
	for (; walk->queue < QUEUES; *walk = (struct waiting_walk){ .queue = walk->queue + 1 }) {
		if (!walk->is_entered)
			enter_queues(cursor);
		place = longest_waiting(cursor);
		if (place)
			return place;
	}
	return NULL;
}

/* The row of the borrower that is next there. */
static bool fill_waiting(struct cursor *cursor, void *row, struct waiting_place *at)
{
	const struct borrower *borrower = at->next;
	const struct client *client = client_of_borrower(borrower);
	usec_t wait = loop_now(client->clients->loop) - borrower->waiting_since;
	enum wait_reason reason = pool_wait_reason(borrower, at->position + 1);
	const struct server *holder = NULL; /* whose server the pool waits for, for longest */
	unsigned int place = 1;             /* in the queue of all lanes */
	struct buf *detail = cursor_text(cursor);

	LANES_EACH (lane, cursor->lanes) {
		place += cursor->waiting.places[lane->number].position;
		holder =
		    pool_wait_longer(holder, pool_wait_holder(lane->pools, borrower->pool, reason));
	}
	pool_wait_explain_all(borrower->pool, reason, holder, detail);
	at->next = TAILQ_NEXT(borrower, wait_node);
	at->last = borrower->wait_number;
	at->position++;
	return ROW_FILL(row, struct waiting_shown, WAITING_ROW);
}

static bool next_waiting(struct cursor *cursor, void *row)
{
	struct waiting_place *place = next_place(cursor);

	return place && fill_waiting(cursor, row, place);
}

/*
 * ---- APPLICATIONS ----
 *
 *   all clients, in pieces --> a table of names --> the greatest first --> rows, one for the rest
 *
 * Hard here: clients choose these names, and each may choose another one. So at most NAMES_MAX are
 * told apart; all others are one row without a name.
 */

#define NAMES_MAX 4096

#define APPLICATION_ROW(COLUMN)                                                                   \
	COLUMN(TEXT, application_name, name,                                                      \
	       "application_name of the clients; NULL: all others together, because there are "   \
	       "more than 4096 names.")                                                           \
	COLUMN(INT4, clients, sum->clients, "Connected clients.")                                 \
	COLUMN(INT4, active, sum->active, "Clients that have a server and use it.")               \
	COLUMN(INT4, waiting, sum->waiting, "Clients that wait for a server.")                    \
	COLUMN(INT4, pinned, sum->pinned,                                                         \
	       "Clients whose server stays with them, as in SHOW PINNED.")                        \
	COLUMN(INT8, xacts, is_tracked ? sum->xacts : ROWS_NULL,                                  \
	       "Transactions of clients of this name since they are counted, also of those that " \
	       "have disconnected. NULL unless track_statements is set: only then they are "      \
	       "counted by name.")                                                                \
	COLUMN(INT8, errors, is_tracked ? sum->errors : ROWS_NULL,                                \
	       "Errors of their statements. NULL unless track_statements is set.")                \
	COLUMN(INT4, longest_xact_s, sum->longest / USEC_PER_SEC,                                 \
	       "Seconds since the oldest of their running transactions began.")

SHOW_ROWS(
    applications, "APPLICATIONS", APPLICATION_ROW,
    "Connected clients by application_name: how many, what they do, and what those of the name "
    "have done. A name without clients is not listed.");

/* ---- gathering ---- */

static void add_client(const struct client *client, struct named_clients *sum)
{
	usec_t now = loop_now(client->clients->loop);

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
		return &walk->rest;
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
		if (client->borrower.pool)
			add_client(client, named(walk, &client->clients->shared->digest_key,
			                         show_application(client)));
	}
	if (cursor->has_more)
		return false;
	HASH_SORT(walk->table, by_clients);
	walk->next = walk->table;
	walk->is_gathered = true;
	return true;
}

/* ---- rows ---- */

/* Adds what the lanes have counted for this name. */
static void add_counts(const struct cursor *cursor, struct named_clients *sum, const char *name)
{
	LANES_EACH (lane, cursor->lanes) {
		const struct application *application =
		    applications_find(&lane->clients->applications, name);

		if (!application)
			continue;
		sum->xacts += (int64_t)application->xact_count;
		sum->errors += (int64_t)application->error_count;
	}
}

static bool next_applications(struct cursor *cursor, void *row)
{
	struct applications_walk *walk = &cursor->applications;
	bool is_tracked = show_source_config(cursor->source)->track_statements > 0;
	const char *name = NULL;
	struct named_clients *sum;

	if ((!walk->is_gathered && !gather(cursor)) || walk->is_ended)
		return false;
	sum = walk->next ? walk->next : &walk->rest;
	walk->is_ended = !walk->next;
	if (walk->next) {
		name = sum->name;
		walk->next = sum->hh.next;
		add_counts(cursor, sum, name);
	} else if (!sum->clients) {
		return false;
	}
	return ROW_FILL(row, struct applications_shown, APPLICATION_ROW);
}

/*
 * ---- PINNED: clients whose server stays with them, since when, and why ----
 *
 * Those without session state are skipped.
 */

#define PINNED_ROW(COLUMN)                                                                         \
	WHO_ROW(COLUMN)                                                                            \
	COLUMN(POINTER, link, client->borrower.server,                                             \
	       "Identifier of the server connection in the log, and in SHOW SERVERS.")             \
	COLUMN(INT4, server_pid, server_backend_pid(client->borrower.server),                      \
	       "Process ID of the PostgreSQL backend that stays with the client.")                 \
	COLUMN(TIME, since, show_wall(since, now), "Since when it stays.")                         \
	COLUMN(INT4, seconds, (now - since) / USEC_PER_SEC, "For how many seconds it has stayed.") \
	COLUMN(TEXT, why, buf_text(why),                                                           \
	       "session: pool_mode=session of its listener, beside clients in other modes. "       \
	       "Else what is in the session: held cursor, temporary object, session lock, "        \
	       "function of "                                                                      \
	       "an extension; or what cannot follow the client: parameters, library, prepared "    \
	       "statement, channels.")                                                             \
	COLUMN(TEXT, objects, buf_text(objects),                                                   \
	       "What keeps the server, with names: temporary table cart; session lock 815. At "    \
	       "most five of a kind.")                                                             \
	COLUMN(TEXT, statement, cursor->role == CONSOLE_ADMIN ? session_pin_text(client) : NULL,   \
	       "Beginning of the statement that made the server stay. NULL unless the user is "    \
	       "one of admin_users.")

SHOW_ROWS(pinned, "PINNED", PINNED_ROW,
          "Clients whose server stays with them because of session state, since when, and why.",
          .is_of_clients = true, .argument = SHOW_OF_DATABASE);

/* A session beside transactions has a place of max_pinned_servers, too. 0: it does not stay. */
static usec_t stays_since(const struct client *client)
{
	const struct borrower *borrower = &client->borrower;

	if (!borrower->pool || !borrower->server)
		return 0;
	return borrower->has_place && pool_rules(borrower)->mode == POOL_MODE_SESSION
	           ? borrower->server->lease.lent_at
	           : session_pinned_at(client);
}

static bool next_pinned(struct cursor *cursor, void *row)
{
	const struct client *client = cursor->client;
	usec_t now = loop_now(client->clients->loop), since = stays_since(client);
	struct buf *why = cursor_text(cursor), *objects = cursor_text(cursor);

	if (!since)
		return false;
	if (pool_rules(&client->borrower)->mode == POOL_MODE_SESSION)
		buf_add_text(why, "session");
	else
		session_list_pins(client, why);
	session_list_held(client, objects);
	return ROW_FILL(row, struct pinned_shown, PINNED_ROW);
}

/* ---- SHOW SESSION_STATE ---- */

#define STATE_ROW(COLUMN)                                                                    \
	WHO_ROW(COLUMN)                                                                      \
	COLUMN(TEXT, parameters, buf_text(texts[0]),                                         \
	       "Names of the parameters that are not as they were after the login.")         \
	COLUMN(TEXT, libraries, buf_text(texts[1]), "Libraries that the client has loaded.") \
	COLUMN(TEXT, channels, buf_text(texts[2]), "Channels that the client listens to.")   \
	COLUMN(TEXT, pins, buf_text(texts[3]),                                               \
	       "Why its server stays with it, as in SHOW PINNED (objects); empty: it does not.")

SHOW_ROWS(
    session_state, "SESSION_STATE", STATE_ROW,
    "The session state of clients in transaction mode: what follows each of them, and what makes "
    "its server stay.",
    .is_of_clients = true, .argument = SHOW_OF_DATABASE);

static void (*const lists[])(const struct client *client, struct buf *out) = {
	session_list_parameters,
	session_list_libraries,
	session_list_channels,
	session_list_held,
};

#define LISTS (sizeof(lists) / sizeof(lists[0]))

static bool next_session_state(struct cursor *cursor, void *row)
{
	const struct client *client = cursor->client;
	struct buf *texts[LISTS];
	bool has_any = false;

	if (!client->borrower.pool ||
	    pool_rules(&client->borrower)->session_state != SESSION_STATE_FOLLOW)
		return false;
	for (size_t i = 0; i < LISTS; i++) {
		texts[i] = cursor_text(cursor);
		lists[i](client, texts[i]);
		has_any |= texts[i]->count > 0;
	}
	return ROW_FILL(row, struct session_state_shown, STATE_ROW) && has_any;
}

/* ---- CATALOG: for each database a row with the state, and one for each name ---- */

#define CATALOG_ROW(COLUMN)                                                                      \
	COLUMN(TEXT, database, 0, "Name of the database.")                                       \
	COLUMN(TEXT, state, 0,                                                                   \
	       "quiet: nothing in it can touch session state. touches: only the names in the "   \
	       "next rows can. any text: any statement can, so the server is asked after each. " \
	       "unread: not known, as definitions have just changed, or the catalog cannot be "  \
	       "read. NULL: a row about a name.")                                                \
	COLUMN(TIME, since, 0, "Time when the catalog was read.")                                \
	COLUMN(TEXT, why, 0, "Why any text can touch session state, or why it is not known.")    \
	COLUMN(TEXT, kind, 0,                                                                    \
	       "Kind of the name: function, procedure, aggregate, table, view, materialized "    \
	       "view, foreign table; parameter: functions may set it; event trigger: a word of " \
	       "the statements that start one; index: one of those that work on all indexes.")   \
	COLUMN(TEXT, name, 0,                                                                    \
	       "A name that can touch session state, or leads to what can, without schema.")     \
	COLUMN(                                                                                  \
	    TEXT, touches, 0,                                                                    \
	    "What it can touch: parameters, temporary objects, session locks, channels, held "   \
	    "cursors, notifications, meaning of statements; what cannot be asked for; anything.")

SHOW_ITEMS(
    catalog, "CATALOG", CATALOG_ROW,
    "Functions and relations of each database that can touch session state, as its catalog says.",
    .argument = SHOW_OF_DATABASE);

static const char *list_kinds(struct cursor *cursor, unsigned int touches)
{
	struct buf *out = cursor_text(cursor);

	for (size_t i = 0; i < FEATURES; i++) {
		if (!session_features[i].state || !(touches & session_features[i].touch))
			continue;
		buf_add_text(out, out->count ? ", " : "");
		buf_add_text(out, session_features[i].state);
	}
	return buf_text(out);
}

static bool is_read(const struct cursor *cursor, const struct database *database)
{
	(void)cursor;
	return database->reading;
}

static void collect_catalog(struct cursor *cursor) { cursor_offer_databases(cursor, is_read); }

/* All loops have the same reading, or will have it at once. */
static void fill_state(struct cursor *cursor, struct catalog_shown *row,
                       const struct database *database)
{
	static const char *const names[] = { "quiet", "touches", "any text", "unread" };
	const struct catalog_reading *reading = cursor->reading;

	row->state = names[database->is_current ? reading->state : CATALOG_UNREAD];
	row->since = reading->since_wall;
	if (!database->is_current)
		row->why = "definitions have changed since";
	else if (*reading->why)
		row->why = reading->why;
}

/* The row about this name, or the next one about a parameter. false: there are no more. */
static bool fill_name(struct cursor *cursor, struct catalog_shown *row, size_t index)
{
	const struct sql_touchers *names = &cursor->reading->names;
	struct bytes left = bytes_skip(buf_bytes(&cursor->reading->parameters), cursor->slot);
	const char *parameter;

	if (index < names->count) {
		const struct sql_toucher *toucher = &names->list[index];

		row->name = sql_touchers_name(names, index);
		row->kind = catalog_kind_name((enum catalog_kind)toucher->kind);
		row->touches = list_kinds(cursor, toucher->bits);
		return true;
	}
	if (!bytes_take_text(&left, &parameter))
		return false;
	cursor->slot += strlen(parameter) + 1;
	row->kind = "parameter";
	row->name = parameter;
	return true;
}

static bool next_catalog(struct cursor *cursor, void *at)
{
	const struct database *database = cursor->ordered.object;
	struct catalog_shown *row = at;

	row->database = cursor->ordered.first;
	if (cursor->index++ > 0)
		return fill_name(cursor, row, cursor->index - 2);
	catalog_reading_release(&cursor->reading);
	cursor->reading = catalog_reading_hold(database->reading);
	cursor->slot = 0;
	fill_state(cursor, row, database);
	return true;
}

/* ---- AUDIT ---- */

#define STEPS ((size_t)FEATURES + 1) /* of a row: its features, then whether it had any */

#define AUDIT_ROW(COLUMN)                                                                         \
	COLUMN(TEXT, database, row->database ? row->database : "(others)",                        \
	       "Name of the database; (others): more were used than there are rows.")             \
	COLUMN(TEXT, user, row->user,                                                             \
	       "User of the clients; in a row without application_name, of the pool.")            \
	COLUMN(TEXT, application_name, row->application_name,                                     \
	       "application_name at the first statement that was counted; NULL: all clients of "  \
	       "the pool together.")                                                              \
	COLUMN(INT4, sessions, row->sessions_peak,                                                \
	       "The most sessions at once that have sent a statement.")                           \
	COLUMN(INT4, servers, row->servers_peak,                                                  \
	       "The most servers that they would have needed at once in transaction mode: for "   \
	       "sessions in a transaction, and for those whose server would have stayed with "    \
	       "them, counted until they disconnected or executed DISCARD ALL.")                  \
	COLUMN(TEXT, feature, about ? about->used : NULL,                                         \
	       "Session feature that their statements use; NULL: none.")                          \
	COLUMN(INT8, count, about ? (int64_t)row->counts[step] : 0,                               \
	       "How many statements used it.")                                                    \
	COLUMN(TEXT, in_transaction_mode, fate,                                                   \
	       "What transaction mode does with it, with session_state = follow.")                \
	COLUMN(TEXT, example, about ? row->examples[step] : NULL,                                 \
	       "The first of these statements, without its constants; before it, with a colon, "  \
	       "the function or relation that does it, if the statement does not show it (SHOW "  \
	       "CATALOG).")                                                                       \
	COLUMN(INT8, found, about ? (int64_t)row->found[step] : 0,                                \
	       "How many sessions had it although no statement explains it. The server is asked " \
	       "after one transaction in session_sample.")

SHOW_ROWS(audit, "AUDIT", AUDIT_ROW,
          "Session features that clients use in session mode (session_audit), and how many servers "
          "transaction mode would need.");

/* step: a feature, or the end of the row, which says of a pool how many servers are enough. */
static bool fill_audit(struct cursor *cursor, void *to, const struct audit_row *row, size_t step)
{
	const struct feature *about = step < FEATURES ? &session_features[step] : NULL;
	const char *fate = about ? about->fate : "nothing to carry";

	if (!about && !row->application_name)
		fate = cursor_print(cursor, "pool_size = %u would have been enough for %u sessions",
		                    row->servers_peak, row->sessions_peak);
	return ROW_FILL(to, struct audit_shown, AUDIT_ROW);
}

static bool has_used_any(const struct audit_row *row)
{
	for (size_t i = 0; i < FEATURES; i++) {
		if (row->counts[i] || row->found[i])
			return true;
	}
	return false;
}

/* Adds what the other lanes counted. false: a lane before the cursor's has the row. */
static bool complete(const struct cursor *cursor, struct audit_row *sum,
                     const struct audit_row *row)
{
	const struct lanes *lanes = cursor->lanes;
	const struct audit_row *other;

	for (unsigned int i = 0; i < lanes->count; i++) {
		other = i == cursor->lane ? NULL : audit_like(&lanes->at[i].clients->audit, row);
		if (!other)
			continue;
		if (i < cursor->lane)
			return false;
		sum->sessions_peak += other->sessions_peak;
		sum->servers_peak += other->servers_peak;
		for (size_t j = 0; j < FEATURES; j++) {
			sum->counts[j] += other->counts[j];
			sum->found[j] += other->found[j];
			if (!sum->examples[j])
				sum->examples[j] = other->examples[j];
		}
	}
	return true;
}

/* The row that has this step of the cursor's index, or the next one, in the cursor's lane. */
static bool next_of_lane(struct cursor *cursor, void *at)
{
	const struct audit *audit = &cursor->lanes->at[cursor->lane].clients->audit;
	const struct audit_row *row;
	struct audit_row sum;

	while ((row = audit_find(audit, cursor->index / STEPS)) != NULL) {
		size_t step = row->number == cursor->index / STEPS ? cursor->index % STEPS : 0;

		if (!cursor_may_look(cursor))
			return false;
		cursor->index = row->number * STEPS + step + 1;
		sum = *row;
		if (!complete(cursor, &sum, row))
			continue;
		if (step < FEATURES ? sum.counts[step] || sum.found[step]
		                    : !sum.application_name || !has_used_any(&sum))
			return fill_audit(cursor, at, &sum, step);
	}
	return false;
}

/* cursor->index: the number of a row in its lane, and the next step within it. */
static bool next_audit(struct cursor *cursor, void *at)
{
	while (!next_of_lane(cursor, at)) {
		if (cursor->has_more || cursor->lane + 1 == cursor->lanes->count)
			return false;
		cursor->lane++;
		cursor->index = 0;
	}
	return true;
}
