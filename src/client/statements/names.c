/* SPDX-License-Identifier: ISC */
/*
 * A client's names for its prepared statements.
 *
 * Hard here: a name is added when the client sends its message, before the server has
 * answered. The ledger reverts that if the server refuses or skips the message. A name is
 * removed when the server has answered: until then, messages that use it wait.
 */
#include "statements_priv.h"

#include <assert.h>
#include <stdlib.h>

#include "pgweir/pgwire/message.h"
#include "pgweir/pgwire/sql_token.h"
#include "pgweir/pool/server/params.h"

/* What one client may have. Drivers keep some hundreds, object mappers some thousands. */
#define NAMES_MAX 10000
#define TEXTS_MAX ((size_t)64 * 1024 * 1024) /* with their names */

#define MENTIONED_MAX 255 /* bytes of a name that the client does not have, for an error */

unsigned int client_statement_count(const struct client *client)
{
	return client->names ? client->names->count : 0;
}

bool statements_follow(const struct client *client)
{
	if (client_statement_count(client))
		return true;
	return !client->replication && client_rules(client)->mode != POOL_MODE_SESSION &&
	       client->clients->config->max_prepared_statements > 0;
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

/* ---- names ---- */

/* Where the name is among the client's, or would be. */
static uint32_t place_of(const struct names *names, const char *name)
{
	uint32_t low = 0, high = names->count;

	while (low < high) {
		uint32_t middle = (low + high) / 2;

		if (strcmp(names->at[middle]->name, name) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static struct client_statement *find_entry(const struct names *names, const char *name)
{
	uint32_t place = place_of(names, name);

	return place < names->count && strcmp(names->at[place]->name, name) == 0 ? names->at[place]
	                                                                         : NULL;
}

struct client_statement *names_find(const struct client *client, const char *name)
{
	return client->names ? find_entry(client->names, name) : NULL;
}

/* false: no memory. */
static bool add_entry(struct names *names, struct client_statement *entry)
{
	uint32_t place = place_of(names, entry->name);
	struct client_statement **at =
	    array_room(names->at, names->count, &names->capacity, sizeof(*at));

	if (!at)
		return false;
	names->at = at;
	memmove(&names->at[place + 1], &names->at[place],
	        (names->count - place) * sizeof(*names->at));
	names->at[place] = entry;
	names->count++;
	names->size += entry->size;
	names->exposed_count += entry->is_exposed;
	return true;
}

void names_drop(struct client_statement **entryp)
{
	struct client_statement *entry = *entryp;
	struct statement *statement;

	*entryp = NULL;
	if (!entry)
		return;
	entry->is_gone = true;
	if (entry->use_count)
		return;
	statement = names_statement(entry);
	statement_release(&statement);
	free(entry);
}

static void settle_use(struct ledger_change *change, bool is_done)
{
	struct client_statement *entry = container_of(change, struct client_statement, use);

	(void)is_done;
	entry->use_count--;
	if (entry->is_gone)
		names_drop(&entry);
}

struct client_statement *names_make(struct bytes name, struct statement *statement)
{
	struct client_statement *entry = calloc(1, sizeof(*entry) + name.count + 1);

	if (!entry)
		return NULL;
	memcpy(entry->name, name.at, name.count);
	entry->size = (uint32_t)(statement_text(statement).count + name.count);
	entry->use = (struct ledger_change){ .settle = settle_use,
		                             .statement = statement_hold(statement),
		                             .name = entry->name };
	return entry;
}

/* Removes a name. */
static void lose(struct names *names, struct client_statement *entry)
{
	uint32_t place = place_of(names, entry->name);

	names->count--;
	names->size -= entry->size;
	names->exposed_count -= entry->is_exposed;
	memmove(&names->at[place], &names->at[place + 1],
	        (names->count - place) * sizeof(*names->at));
	names_drop(&entry);
}

static void forget_names(struct names *names, bool is_all)
{
	for (uint32_t i = names->count; i-- > 0;) {
		if (is_all || names->at[i]->is_confirmed)
			lose(names, names->at[i]);
	}
}

void names_forget(struct client *client)
{
	if (client->names)
		forget_names(client->names, false);
}

void names_free(struct client *client)
{
	if (!client->names)
		return;
	assert(client->names->open.count == 0);
	forget_names(client->names, true);
	free(client->names->at);
	free(client->names);
	client->names = NULL;
}

/* The statement is or is no more on the client's server under its name. */
static void set_exposed(struct names *names, struct client_statement *entry, bool is_exposed)
{
	names->exposed_count += (uint32_t)is_exposed - entry->is_exposed;
	entry->is_exposed = is_exposed;
}

bool names_have_room(const struct client *client, const char *name,
                     const struct statement *statement, struct err *err)
{
	const struct names *names = client->names;
	size_t size = statement_text(statement).count + strlen(name);

	if (!names || (names->count < NAMES_MAX && names->size + size <= TEXTS_MAX))
		return true;
	err_set(err, ERR_LIMIT,
	        "too many prepared statements: a client may have %d, and %zu MB of their names "
	        "and texts",
	        NAMES_MAX, TEXTS_MAX / 1024 / 1024);
	return err_hint(err, "Close or DEALLOCATE those that are not needed any more.");
}

/* ---- changes ---- */

enum name_change_kind {
	NAME_MENTION, /* changes nothing */
	NAME_COMES,
	NAME_GOES,
	NAME_AWAITS_TYPES /* and goes without them */
};

struct name_change {
	struct description base;
	enum name_change_kind kind;
	struct ledger_change *server_change; /* settled together with this one; or NULL */
	struct names *names;                 /* of the client; not of a mention */
	struct server_statements *known;     /* of the server */
	struct server_renaming renaming;     /* names_rename() */
	struct statement *statement;         /* holds one reference; or NULL */
	struct client_statement *entry;      /* counted in its use_count; or NULL */
	uint64_t parse_number;               /* of a description */
	bool is_told;                        /* the client gets the description */
	bool has_types;                      /* they have come */
	char name[];                         /* without an entry: its start */
};

static struct name_change *change_of(struct ledger_change *change)
{
	return container_of(change, struct name_change, base.base);
}

static void free_change(struct name_change *change)
{
	if (change->names)
		ledger_open_end(&change->names->open);
	if (change->entry)
		settle_use(&change->entry->use, true);
	statement_release(&change->statement);
	free(change);
}

static void settle(struct ledger_change *base, bool is_done)
{
	struct name_change *change = change_of(base);
	struct client_statement *entry = change->entry;
	enum name_change_kind kind = change->kind;
	bool ends = kind == NAME_COMES          ? !is_done
	            : kind == NAME_AWAITS_TYPES ? !change->has_types
	                                        : kind == NAME_GOES && is_done;

	if (change->server_change)
		change->server_change->settle(change->server_change, is_done);
	if (kind == NAME_COMES && is_done) {
		const struct server_statement *there = NULL;

		if (change->server_change)
			there = server_statements_find(change->known, change->statement, true);
		entry->is_confirmed = true;
		/* What a server has parsed before does not count, but for this Parse. */
		entry->parsed_at =
		    there && there->state.done_at ? there->state.done_at : clock_now();
	}
	if (kind == NAME_GOES || kind == NAME_AWAITS_TYPES)
		entry->is_changing = false;
	if (ends && find_entry(change->names, entry->name) == entry)
		lose(change->names, entry);
	free_change(change);
}

/* statement, entry: may be NULL. NULL: no memory. */
static struct name_change *make_change(struct client *client, const char *name,
                                       struct statement *statement, struct client_statement *entry)
{
	size_t size = entry ? 0 : strnlen(name, MENTIONED_MAX);
	struct name_change *change = calloc(1, sizeof(*change) + size + 1);

	if (!change)
		return NULL;
	memcpy(change->name, name, size);
	change->base.base = (struct ledger_change){ .settle = settle,
		                                    .statement = statement,
		                                    .name = entry ? entry->name : change->name };
	change->known = &client->borrower.server->session.statements;
	change->statement = statement ? statement_hold(statement) : NULL;
	change->entry = entry;
	if (entry)
		entry->use_count++;
	return change;
}

/* It changes the client's names until it is settled. */
static struct ledger_change *open_change(struct client *client, struct name_change *change,
                                         enum name_change_kind kind)
{
	change->kind = kind;
	change->names = client->names;
	ledger_open_begin(&client->names->open, &client->borrower.server->wire.ledger);
	return &change->base.base;
}

struct ledger_change *names_mention(struct client *client, const char *name,
                                    struct statement *statement)
{
	struct name_change *change = make_change(client, name, statement, names_find(client, name));

	return change ? &change->base.base : NULL;
}

struct ledger_change *names_rename(struct ledger_change *change,
                                   const struct server_renaming *renaming)
{
	if (!change)
		return NULL;
	change_of(change)->renaming = *renaming;
	change->renaming = &change_of(change)->renaming;
	return change;
}

struct ledger_change *names_come(struct client *client, const char *name,
                                 struct statement *statement, struct ledger_change *server_change)
{
	struct client_statement *entry =
	    get(client) ? names_make(bytes_text(name), statement) : NULL;
	struct name_change *change = entry ? make_change(client, name, statement, entry) : NULL;

	if (!change || !add_entry(client->names, entry)) {
		if (change)
			free_change(change);
		names_drop(&entry);
		return NULL;
	}
	entry->is_loose = client->borrower.server->session.scope >= SCOPE_OPEN;
	change->server_change = server_change;
	return open_change(client, change, NAME_COMES);
}

struct ledger_change *names_go(struct client *client, struct client_statement *entry)
{
	struct name_change *change = make_change(client, entry->name, NULL, entry);

	if (!change)
		return NULL;
	entry->is_changing = true;
	return open_change(client, change, NAME_GOES);
}

bool names_are_unsure(struct client *client, const struct client_statement *entry,
                      struct batch *batch)
{
	const struct server *server = client->borrower.server;
	const struct ledger *ledger = &server->wire.ledger;
	struct names *names = client->names;

	if (!names)
		return false;
	if ((names->is_forgetting || (entry && entry->is_changing)) &&
	    !ledger_ends_wait(ledger, LEDGER_WAIT_EMPTY)) {
		batch->waits_for = LEDGER_WAIT_EMPTY;
		return true;
	}
	/* Only a portal that is still there may do it. */
	names->is_forgetting &= ledger->is_open || server->wire.status != 'I';
	if ((entry && entry->is_confirmed) || !ledger_open_is_unsure(&names->open, ledger))
		return false;
	batch->waits_for = LEDGER_WAIT_READY;
	return true;
}

/* ---- the statement of a name ---- */

/* Replaces the statement. Takes over the caller's reference to the new one. */
static void set_statement(struct client_statement *entry, struct statement *statement)
{
	struct statement *old = names_statement(entry);

	entry->use.statement = statement;
	statement_release(&old);
}

/* Whether what the server has was analyzed for the name's own Parse, or later. */
static bool is_recent(const struct server *server, const struct client_statement *entry,
                      const struct server_statement *there)
{
	return server_statement_is_since(there, entry->parsed_at) &&
	       !(entry->is_loose && server->session.scope == SCOPE_OPEN_USED &&
	         !server_statement_is_marked(there));
}

/*
 * Whether the name goes on to mean what the server has, with the types that were described. Else
 * that would be parsed again, in the scope that is there now.
 */
static bool stays(struct server *server, const struct client_statement *entry, bool is_own,
                  bool can_parse)
{
	struct server_statements *known = &server->session.statements;
	const struct statement *statement = names_statement(entry);
	const struct server_statement *there =
	    statement->is_typed ? server_statements_use(known, statement, is_own) : NULL;

	return there && (!can_parse || is_recent(server, entry, there));
}

/*
 * The name means the statement in the current scope of the client's server. is_own: the server must
 * have it under its own name. *can_parse: the server would read the text as the server did that
 * parsed it first: text_scope_merge(). false: no memory.
 */
static bool enter_scope(struct client *client, struct client_statement *entry, bool is_own,
                        bool *can_parse)
{
	struct server *server = client->borrower.server;
	struct statement *statement = names_statement(entry);
	struct buf merged = { 0 };
	struct bytes scope;
	bool is_good;

	if (!server_scope(server, &scope))
		return false;
	*can_parse = true;
	if (bytes_equal(scope, statement_scope(statement)))
		return true;
	is_good = text_scope_merge(statement_query(statement), statement_scope(statement), scope,
	                           &merged);
	*can_parse = is_good && bytes_equal(scope, buf_bytes(&merged));
	if (is_good && !stays(server, entry, is_own, *can_parse)) {
		statement = statement_scoped(statement, buf_bytes(&merged));
		is_good = statement;
		if (is_good)
			set_statement(entry, statement);
	}
	buf_free(&merged);
	return is_good;
}

enum judgement names_enter(struct client *client, struct client_statement *entry, char type,
                           struct batch *batch)
{
	struct server *server = client->borrower.server;
	struct server_statements *known = &server->session.statements;
	const struct statement *statement;
	bool is_own = type == 'Q' || type == 'P'; /* an EXECUTE needs it under its own name */
	struct server_statement *there;
	struct err err;
	bool can_parse;

	if (!enter_scope(client, entry, is_own, &can_parse))
		return JUDGE_MEMORY;
	statement = names_statement(entry);
	there = server_statements_find(known, statement, false);
	if (can_parse && there && !is_recent(server, entry, there))
		there->state.is_stale = true;
	if (!server_statements_is_sure(known, statement))
		return batch_wait(batch, LEDGER_WAIT_READY);
	if (can_parse || server_statements_use(known, statement, is_own))
		return JUDGE_SEND;
	err_set(&err, ERR_UNSUPPORTED,
	        "prepared statement \"%s\" was parsed with another client_encoding, "
	        "standard_conforming_strings or backslash_quote, and this server does not have it",
	        entry->name);
	err_hint(&err, "Set the parameter back, or prepare the statement again.");
	return statements_refuse(client, type, &err, batch);
}

/* ---- descriptions ---- */

static void on_columns(struct description *base, uint32_t columns)
{
	struct name_change *change = change_of(&base->base);
	struct server_statement *there =
	    server_statements_find(change->known, change->statement, false);

	if (there && there->parse_number == change->parse_number)
		there->state.columns = columns;
	if (change->is_told)
		change->entry->columns = columns;
}

static bool on_types(struct description *base, struct bytes types)
{
	struct name_change *change = change_of(&base->base);
	struct client_statement *entry = change->entry;
	struct statement *typed = statement_typed(change->statement, types);

	if (!typed)
		return false;
	if (*entry->name)
		server_statements_typed(change->known, change->statement, typed,
		                        change->parse_number);
	statement_release(&typed);
	if (names_statement(entry)->is_typed && change->kind != NAME_AWAITS_TYPES)
		return true; /* the first description is kept */
	typed = statement_typed(names_statement(entry), types);
	if (typed)
		set_statement(entry, typed);
	change->has_types = typed;
	return typed != NULL;
}

struct ledger_change *names_describe(struct client *client, struct client_statement *entry,
                                     bool is_told)
{
	struct statement *statement = names_statement(entry);
	struct name_change *change = make_change(client, entry->name, statement, entry);
	const struct server_statement *there;

	if (!change)
		return NULL;
	there = server_statements_find(change->known, statement, false);
	change->parse_number = there ? there->parse_number : 0;
	change->base.on_types = on_types;
	change->base.on_columns = *entry->name ? on_columns : NULL;
	change->is_told = is_told;
	return &change->base.base;
}

struct ledger_change *names_await_types(struct client *client, struct client_statement *entry)
{
	struct name_change *change =
	    make_change(client, entry->name, names_statement(entry), entry);

	if (!change)
		return NULL;
	change->base.base.statement = NULL; /* it is of the scratch name */
	change->base.on_types = on_types;
	entry->is_changing = true;
	return open_change(client, change, NAME_AWAITS_TYPES);
}

/*
 * ---- exposed names ----
 *
 * A client's prepared statements under the client's own names.
 *
 * In a text of several statements, in a DO block and in a function, the name of a statement cannot
 * be replaced by ours. So the server gets the statements under the names that the client uses:
 *
 *   SELECT 1; EXECUTE s     -->  Parse "s" ..., Sync      and then the text as it is
 *   end of the transaction  -->  the question: which of these names are left?
 *   the answer              -->  Close "s", Sync
 *
 * Until then the server is dirty, and lone statements with these names are not changed either: only
 * PostgreSQL knows whether a name is still there.
 *
 * Hard here: a Parse may fail, for example because a table was dropped, and nobody knows whether
 * the text uses that statement. So each Parse has a Sync of its own, and a transaction block gets a
 * savepoint. Prepared statements do not depend on transactions: they survive the ROLLBACK.
 */

/* What is exposed at the same time, at most. */
#define EXPOSED_MAX 100
#define EXPOSED_TEXTS_MAX ((size_t)1024 * 1024)

struct exposing {
	struct client *client;
	struct batch *batch;
	size_t size;    /* of the texts */
	bool is_block;  /* within a transaction block */
	bool is_failed; /* no memory */
};

bool exposed_any(const struct client *client)
{
	return client->names && client->names->exposed_count;
}

/* Adds a message whose reply does not matter. */
static void add_ignored(struct exposing *exposing, enum ledger_kind kind, struct bytes message)
{
	batch_copy(exposing->batch, message);
	if (!server_note_change(exposing->client->borrower.server, kind, LEDGER_OURS, NULL))
		exposing->is_failed = true;
}

/*
 * The server must be asked for the name again, and its answer is in its own encoding. A longer name
 * would be cut.
 */
static bool can_expose(struct client *client, struct client_statement *entry)
{
	struct bytes name = bytes_text(entry->name);
	bool can_parse;

	return client->names->exposed_count < EXPOSED_MAX && name.count <= SQL_NAME_MAX &&
	       bytes_are_ascii(name) && !statement_name_is_reserved(entry->name) &&
	       enter_scope(client, entry, false, &can_parse) && can_parse;
}

static void expose(struct exposing *exposing, struct client_statement *entry)
{
	MESSAGE_STATIC(begin, 'Q', "SAVEPOINT \"" SCRATCH_NAME "\"");
	MESSAGE_STATIC(back, 'Q', "ROLLBACK TO \"" SCRATCH_NAME "\"");
	struct bytes text = statement_text(names_statement(entry));
	size_t name_size = strlen(entry->name) + 1;

	if (entry->is_exposed || exposing->size + text.count > EXPOSED_TEXTS_MAX ||
	    !can_expose(exposing->client, entry))
		return;
	if (exposing->is_block && !exposing->size)
		add_ignored(exposing, LEDGER_QUERY, MESSAGE_BYTES(begin));
	text = statement_text(names_statement(entry)); /* perhaps another one, in this scope */
	exposing->size += text.count;
	set_exposed(exposing->client->names, entry, true);
	batch_header(exposing->batch, 'P', name_size + text.count);
	batch_copy(exposing->batch, bytes_of(entry->name, name_size));
	batch_run(exposing->batch, text);
	add_ignored(exposing, LEDGER_PARSE, bytes_of("", 0));
	exposing->is_failed |=
	    !batch_sync(exposing->batch, exposing->client->borrower.server, LEDGER_OURS);
	if (exposing->is_block)
		add_ignored(exposing, LEDGER_QUERY, MESSAGE_BYTES(back));
}

/* Exposes each name that is a word anywhere in the text: it may be in a string that is executed. */
static void expose_words(struct exposing *exposing, struct bytes text)
{
	const size_t most = 2 * SQL_NAME_MAX + 2; /* bytes of a name, with its quotes */
	struct client_statement *entry;
	char name[SQL_NAME_MAX + 1];

	while (text.count) {
		struct scanner scanner = {
			.rest = { text.at, text.count < most ? text.count : most },
		};
		struct token token = { .kind = TOKEN_WORD,
			               .text = { text.at, sql_word_size(text) } };
		size_t word_size = token.text.count;

		if (text.at[0] == '"')
			token = sql_token(&scanner);
		if (token.text.count && sql_unquote_text(&token, name, sizeof(name))) {
			entry = names_find(exposing->client, name);
			if (entry)
				expose(exposing, entry);
		}
		text = bytes_skip(text, word_size ? word_size : 1);
	}
}

enum judgement exposed_before(struct client *client, const struct frame *frame, struct bytes in,
                              struct batch *batch)
{
	MESSAGE_STATIC(end, 'Q', "RELEASE \"" SCRATCH_NAME "\"");
	struct server *server = client->borrower.server;
	const struct ledger *ledger = &server->wire.ledger;
	struct exposing exposing = { .client = client, .batch = batch };
	const struct names *names = client->names;
	bool may_name, may_hide;
	enum sql_kind kind;
	struct bytes text;
	const char *name;

	if (!client_statement_count(client) || !session_is_watched(client) ||
	    !fields_sql(frame, in, &name, &text) || *name)
		return JUDGE_SEND;
	if (in.count < frame->length)
		text = bytes_of(NULL, 0); /* a part of it says nothing */
	/* one of the commands is anywhere, perhaps in a string that is executed */
	may_name = bytes_contain(text, "execute") || bytes_contain(text, "allocate") ||
	           bytes_contain(text, "prepare");
	may_hide = !text.at || (sql_touch(text) & SQL_TOUCH_HIDDEN);
	if (!may_name && !may_hide)
		return JUDGE_SEND;
	kind = text.at ? sql_kind_of(text) : SQL_OTHER;
	if (kind != SQL_OTHER && kind != SQL_UNSURE)
		return JUDGE_SEND; /* one statement, whose name sql_statements.c replaces */
	/* Nothing can be put before a text that the server may skip, or in a COPY. */
	if (ledger_may_skip(ledger))
		return JUDGE_SEND;
	if (!ledger_is_empty(ledger))
		return batch_wait(batch, LEDGER_WAIT_EMPTY);
	if (server->wire.status == 'E')
		return JUDGE_SEND;
	exposing.is_block = server->wire.status == 'T';
	if (may_name)
		expose_words(&exposing, text);
	for (uint32_t i = 0; may_hide && i < names->count; i++) {
		if (names->at[i]->is_sql)
			expose(&exposing, names->at[i]);
	}
	if (exposing.is_block && exposing.size)
		add_ignored(&exposing, LEDGER_QUERY, MESSAGE_BYTES(end));
	if (exposed_any(client)) {
		session_run_unknown(client);
		client->touched |= SESSION_TOUCH_EXPOSED;
	}
	return exposing.is_failed ? JUDGE_MEMORY : JUDGE_SEND;
}

void exposed_settle(struct client *client, const struct facts *facts)
{
	uint32_t i = exposed_any(client) ? client->names->count : 0;

	if (!(facts->parts & QUESTION_EXPOSED) || (facts->too_long & QUESTION_EXPOSED))
		return;
	while (i-- > 0) {
		struct client_statement *entry = client->names->at[i];

		if (entry->is_exposed && !bytes_list_has(buf_bytes(&facts->exposed), entry->name))
			lose(client->names, entry);
	}
}

bool exposed_withdraw(struct client *client)
{
	char names[EXPOSED_MAX * (SQL_NAME_MAX + 1)];
	size_t size = 0;

	if (!exposed_any(client))
		return false;
	for (uint32_t i = 0; i < client->names->count; i++) {
		struct client_statement *entry = client->names->at[i];
		size_t name_size = strlen(entry->name) + 1;

		if (!entry->is_exposed)
			continue;
		memcpy(names + size, entry->name, name_size);
		size += name_size;
		set_exposed(client->names, entry, false);
	}
	server_order(client->borrower.server,
	             &(struct order){ .kind = ORDER_CLOSES, .names = bytes_of(names, size) });
	return true;
}

/* ---- hand-over from another process ---- */

struct client_statement *names_restore(struct client *client, struct bytes name,
                                       struct statement *statement)
{
	struct client_statement *entry = get(client) ? names_make(name, statement) : NULL;

	if (!entry)
		return NULL;
	entry->is_confirmed = true;
	entry->is_loose = true; /* the record does not say */
	if (names_find(client, entry->name) || !add_entry(client->names, entry))
		names_drop(&entry);
	client->features |= CLIENT_HAS_SQL_NAMES; /* the record does not say how it was made */
	return entry;
}
