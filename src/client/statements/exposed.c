/* SPDX-License-Identifier: ISC */
/*
 * Exposed names: a client's prepared statements under the client's own names.
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
#include "statements_priv.h"

#include <stdlib.h>
#include <string.h>

#include "pgweir/pgwire/message.h"
#include "pgweir/pgwire/sql_token.h"

#include "../session/session_priv.h"
#include "names_priv.h"

/* What is exposed at the same time, at most. */
#define NAMES_MAX 100
#define TEXTS_MAX ((size_t)1024 * 1024)

struct exposing {
	struct names_walk walk;
	struct client *client;
	struct batch *batch;
	unsigned int count;
	size_t size;   /* of the texts */
	bool is_block; /* within a transaction block */
	bool has_savepoint;
	bool is_failed; /* no memory */
};

static bool is_among(struct bytes names, const char *name)
{
	const char *each;

	while (bytes_take_text(&names, &each)) {
		if (strcmp(each, name) == 0)
			return true;
	}
	return false;
}

bool exposed_has(const struct client *client, const char *name)
{
	const struct buf *exposed = names_exposed(client);

	return exposed && is_among(buf_bytes(exposed), name);
}

bool exposed_any(const struct client *client)
{
	const struct buf *exposed = names_exposed(client);

	return exposed && exposed->count;
}

/* ---- messages ---- */

/* Adds a message whose reply does not matter. */
static void add_ignored(struct exposing *exposing, enum ledger_kind kind, struct bytes message)
{
	batch_copy(exposing->batch, message);
	if (!server_note_change(exposing->client->borrower.server, kind, LEDGER_OURS, NULL))
		exposing->is_failed = true;
}

static void add_savepoint(struct exposing *exposing)
{
	MESSAGE_STATIC(begin, 'Q', "SAVEPOINT \"" SCRATCH_NAME "\"");

	if (exposing->is_block && !exposing->has_savepoint)
		add_ignored(exposing, LEDGER_QUERY, MESSAGE_BYTES(begin));
	exposing->has_savepoint = exposing->is_block;
}

static void add_rollback(struct exposing *exposing)
{
	MESSAGE_STATIC(back, 'Q', "ROLLBACK TO \"" SCRATCH_NAME "\"");

	if (exposing->is_block)
		add_ignored(exposing, LEDGER_QUERY, MESSAGE_BYTES(back));
}

static void end_savepoint(struct exposing *exposing)
{
	MESSAGE_STATIC(end, 'Q', "RELEASE \"" SCRATCH_NAME "\"");

	if (exposing->has_savepoint)
		add_ignored(exposing, LEDGER_QUERY, MESSAGE_BYTES(end));
}

/* Adds a Parse of the statement under the client's name, and nothing to the ledger. */
static void add_parse(struct batch *batch, const struct client_statement *entry)
{
	struct bytes text = statement_text(names_statement(entry));
	char front[FRAME_HEADER_SIZE + SQL_NAME_MAX + 1] = { 'P' };
	size_t name_size = strlen(entry->name) + 1;

	store_be32(front + 1, (uint32_t)(4 + name_size + text.count));
	memcpy(front + FRAME_HEADER_SIZE, entry->name, name_size);
	batch_copy(batch, bytes_of(front, FRAME_HEADER_SIZE + name_size));
	batch_run(batch, text);
}

/* ---- which names ---- */

/*
 * Whether the server can be asked for the name again: the answer is in its own encoding. A longer
 * name would be cut.
 */
static bool is_plain_name(const char *name)
{
	size_t size = 0;

	for (; name[size]; size++) {
		if (name[size] & 0x80)
			return false;
	}
	return size <= SQL_NAME_MAX && !statement_name_is_reserved(name);
}

static void expose(struct exposing *exposing, const struct client_statement *entry)
{
	static const char sync[] = { 'S', 0, 0, 0, 4 };
	struct buf *exposed = names_exposed(exposing->client);
	size_t size = statement_text(names_statement(entry)).count;

	if (exposing->count == NAMES_MAX || exposing->size + size > TEXTS_MAX ||
	    !is_plain_name(entry->name) || is_among(buf_bytes(exposed), entry->name) ||
	    !names_can_parse(exposing->client, entry))
		return;
	exposing->count++;
	exposing->size += size;
	buf_add_cstr(exposed, entry->name);
	if (!buf_ok(exposed))
		exposing->is_failed = true;
	add_savepoint(exposing);
	add_parse(exposing->batch, entry);
	add_ignored(exposing, LEDGER_PARSE, bytes_of("", 0));
	add_ignored(exposing, LEDGER_SYNC, bytes_of(sync, sizeof(sync)));
	add_rollback(exposing);
}

static void expose_name(struct exposing *exposing, const char *name)
{
	const struct client_statement *entry = names_find(exposing->client, name);

	if (entry)
		expose(exposing, entry);
}

static bool expose_sql(struct names_walk *walk, const struct client_statement *entry)
{
	if (entry->is_sql)
		expose((struct exposing *)walk, entry);
	return true;
}

/* Exposes each name that is a word anywhere in the text: it may be in a string that is executed. */
static void expose_words(struct exposing *exposing, struct bytes text)
{
	const size_t most = 2 * SQL_NAME_MAX + 2; /* bytes of a name, with its quotes */
	char name[SQL_NAME_MAX + 1];

	while (text.count) {
		struct scanner scanner = {
			.rest = { text.at, text.count < most ? text.count : most },
		};
		struct token token = { .kind = TOKEN_WORD,
			               .text = { text.at, sql_word_size(text) } };
		size_t word_size = token.text.count, size = SQL_CANNOT;

		if (text.at[0] == '"')
			token = sql_token(&scanner);
		if (token.text.count)
			size = sql_unquote(&token, false, name, SQL_NAME_MAX);
		if (size != SQL_CANNOT) {
			name[size] = 0;
			expose_name(exposing, name);
		}
		text = bytes_skip(text, word_size ? word_size : 1);
	}
}

/* ---- which texts ---- */

/* Whether the text has one of the commands anywhere, perhaps in a string that is executed. */
static bool has_command(struct bytes text)
{
	return bytes_contain(text, "execute") || bytes_contain(text, "allocate") ||
	       bytes_contain(text, "prepare");
}

/* Whether the text is one statement, whose name sql_statements.c replaces. */
static bool is_lone(struct bytes text)
{
	struct sql_statement sql;

	sql_read(text, &sql);
	return sql.kind != SQL_OTHER && sql.kind != SQL_UNSURE;
}

static void count_exposed(struct exposing *exposing)
{
	struct bytes names = buf_bytes(names_exposed(exposing->client));
	const char *name;

	while (bytes_take_text(&names, &name))
		exposing->count++;
}

enum judgement exposed_before(struct client *client, const struct frame *frame, struct bytes in,
                              struct batch *batch)
{
	struct server *server = client->borrower.server;
	const struct ledger *ledger = &server->wire.ledger;
	struct exposing exposing = { .walk = { expose_sql, false },
		                     .client = client,
		                     .batch = batch };
	bool may_name, may_hide;
	struct bytes text;
	const char *name;

	if (!client_statement_count(client) || !session_is_watched(client) ||
	    !fields_sql(frame, in, &name, &text) || *name)
		return JUDGE_SEND;
	if (in.count < frame->length)
		text = bytes_of(NULL, 0); /* a part of it says nothing */
	may_name = has_command(text);
	may_hide = !text.at || (sql_touch(text) & SQL_TOUCH_HIDDEN);
	if ((!may_name && !may_hide) || (text.at && is_lone(text)))
		return JUDGE_SEND;
	/* Nothing can be put before a text that the server may skip, or in a COPY. */
	if (ledger->is_open || ledger->copy || ledger->is_skipping || !ledger_is_certain(ledger))
		return JUDGE_SEND;
	if (!ledger_is_empty(ledger))
		return batch_wait(batch, LEDGER_WAIT_EMPTY);
	if (server->wire.status == 'E')
		return JUDGE_SEND;
	exposing.is_block = server->wire.status == 'T';
	count_exposed(&exposing);
	if (may_name)
		expose_words(&exposing, text);
	if (may_hide)
		names_each(client, &exposing.walk);
	end_savepoint(&exposing);
	if (names_exposed(client)->count) {
		session_run_unknown(client);
		client->touched |= SESSION_TOUCH_EXPOSED;
	}
	return exposing.is_failed ? JUDGE_MEMORY : JUDGE_SEND;
}

/* ---- one name ---- */

/* A Parse of the statement under the client's name, without a Sync of its own. */
struct exposed_change {
	struct ledger_change base;
	struct buf *exposed;
	struct ledger_open *open;
	char name[SQL_NAME_MAX + 1];
};

/* If it has failed, or was skipped, the name is not there. */
static void settle_exposed(struct ledger_change *base, bool is_done)
{
	struct exposed_change *change = (struct exposed_change *)base;
	struct bytes names = buf_bytes(change->exposed);
	size_t size = strlen(change->name) + 1;
	const char *name;

	while (!is_done && bytes_take_text(&names, &name)) {
		if (strcmp(name, change->name) != 0)
			continue;
		memmove(change->exposed->at + (name - change->exposed->at), name + size,
		        names.count);
		change->exposed->count -= size;
		break;
	}
	ledger_open_end(change->open);
	free(change);
}

bool exposed_can(struct client *client, const struct client_statement *entry)
{
	struct exposing exposing = { .client = client };

	count_exposed(&exposing);
	return exposing.count < NAMES_MAX && is_plain_name(entry->name) &&
	       names_can_parse(client, entry);
}

bool exposed_add(struct client *client, const struct client_statement *entry, struct batch *batch)
{
	struct exposed_change *change = calloc(1, sizeof(*change));
	struct buf *exposed = names_exposed(client);

	buf_add_cstr(exposed, entry->name);
	if (!change || !buf_ok(exposed)) {
		free(change);
		return false;
	}
	change->base.settle = settle_exposed;
	change->exposed = exposed;
	change->open = names_open(client);
	ledger_open_begin(change->open, &client->borrower.server->wire.ledger);
	memcpy(change->name, entry->name, strlen(entry->name) + 1);
	add_parse(batch, entry);
	session_run_unknown(client);
	client->touched |= SESSION_TOUCH_EXPOSED;
	return server_note_change(client->borrower.server, LEDGER_PARSE, LEDGER_DROPPED,
	                          &change->base);
}

/* ---- the end of the transaction ---- */

/* The client has this name no more. */
static void forget(struct client *client, const char *name)
{
	struct ledger_change *change = names_find(client, name) ? names_go(client, name) : NULL;

	if (change)
		change->settle(change, true);
}

void exposed_settle(struct client *client, const struct facts *facts)
{
	struct buf *exposed = names_exposed(client);
	struct buf left = { 0 };
	struct bytes names;
	const char *name;

	if (!exposed_any(client) || !(facts->parts & QUESTION_EXPOSED) ||
	    (facts->too_long & QUESTION_EXPOSED))
		return;
	names = buf_bytes(exposed);
	while (bytes_take_text(&names, &name)) {
		if (is_among(buf_bytes(&facts->exposed), name))
			buf_add_cstr(&left, name);
		else
			forget(client, name);
	}
	if (!buf_ok(&left)) { /* to close a name twice does no harm */
		buf_free(&left);
		return;
	}
	buf_free(exposed);
	*exposed = left;
}

bool exposed_withdraw(struct client *client)
{
	struct buf *exposed = names_exposed(client);

	if (!exposed_any(client))
		return false;
	server_order(client->borrower.server,
	             &(struct order){ .kind = ORDER_CLOSES, .names = buf_bytes(exposed) });
	buf_free(exposed);
	return true;
}
