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

#include <string.h>

#include "pgweir/pgwire/message.h"
#include "pgweir/pgwire/sql_token.h"

/* What is exposed at the same time, at most. */
#define NAMES_MAX 100
#define TEXTS_MAX ((size_t)1024 * 1024)

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

/* ---- messages ---- */

/* Adds a message whose reply does not matter. */
static void add_ignored(struct exposing *exposing, enum ledger_kind kind, struct bytes message)
{
	batch_copy(exposing->batch, message);
	if (!server_note_change(exposing->client->borrower.server, kind, LEDGER_OURS, NULL))
		exposing->is_failed = true;
}

/* Adds a Parse of the statement under the client's name, and nothing to the ledger. */
static void add_parse(struct batch *batch, const struct client_statement *entry)
{
	struct bytes text = statement_text(names_statement(entry));
	size_t name_size = strlen(entry->name) + 1;

	batch_header(batch, 'P', name_size + text.count);
	batch_copy(batch, bytes_of(entry->name, name_size));
	batch_run(batch, text);
}

/* ---- which names ---- */

/*
 * Whether the server can be asked for the name again: the answer is in its own encoding. A longer
 * name would be cut.
 */
static bool is_plain_name(const char *name)
{
	struct bytes text = bytes_text(name);

	return text.count <= SQL_NAME_MAX && bytes_are_ascii(text) &&
	       !statement_name_is_reserved(name);
}

static bool can_expose(struct client *client, struct client_statement *entry)
{
	bool can_parse;

	return client->names->exposed_count < NAMES_MAX && is_plain_name(entry->name) &&
	       names_enter_scope(client, entry, false, &can_parse) && can_parse;
}

static void expose(struct exposing *exposing, struct client_statement *entry)
{
	MESSAGE_STATIC(begin, 'Q', "SAVEPOINT \"" SCRATCH_NAME "\"");
	MESSAGE_STATIC(back, 'Q', "ROLLBACK TO \"" SCRATCH_NAME "\"");
	size_t size = statement_text(names_statement(entry)).count;

	if (entry->is_exposed || exposing->size + size > TEXTS_MAX ||
	    !can_expose(exposing->client, entry))
		return;
	if (exposing->is_block && !exposing->size)
		add_ignored(exposing, LEDGER_QUERY, MESSAGE_BYTES(begin));
	exposing->size += size;
	names_set_exposed(exposing->client->names, entry, true);
	add_parse(exposing->batch, entry);
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
	enum sql_kind kind = sql_kind_of(text);

	return kind != SQL_OTHER && kind != SQL_UNSURE;
}

/* Exposes what SQL's PREPARE has made. */
static void expose_prepared(struct exposing *exposing)
{
	const struct names *names = exposing->client->names;

	for (uint32_t i = 0; i < names->count; i++) {
		if (names->at[i]->is_sql)
			expose(exposing, names->at[i]);
	}
}

enum judgement exposed_before(struct client *client, const struct frame *frame, struct bytes in,
                              struct batch *batch)
{
	MESSAGE_STATIC(end, 'Q', "RELEASE \"" SCRATCH_NAME "\"");
	struct server *server = client->borrower.server;
	const struct ledger *ledger = &server->wire.ledger;
	struct exposing exposing = { .client = client, .batch = batch };
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
	if (ledger_may_skip(ledger))
		return JUDGE_SEND;
	if (!ledger_is_empty(ledger))
		return batch_wait(batch, LEDGER_WAIT_EMPTY);
	if (server->wire.status == 'E')
		return JUDGE_SEND;
	exposing.is_block = server->wire.status == 'T';
	if (may_name)
		expose_words(&exposing, text);
	if (may_hide)
		expose_prepared(&exposing);
	if (exposing.is_block && exposing.size)
		add_ignored(&exposing, LEDGER_QUERY, MESSAGE_BYTES(end));
	if (exposed_any(client)) {
		session_run_unknown(client);
		client->touched |= SESSION_TOUCH_EXPOSED;
	}
	return exposing.is_failed ? JUDGE_MEMORY : JUDGE_SEND;
}

/* ---- the end of the transaction ---- */

static bool is_among(struct bytes names, const char *name)
{
	const char *each;

	while (bytes_take_text(&names, &each)) {
		if (strcmp(each, name) == 0)
			return true;
	}
	return false;
}

void exposed_settle(struct client *client, const struct facts *facts)
{
	uint32_t i = exposed_any(client) ? client->names->count : 0;

	if (!(facts->parts & QUESTION_EXPOSED) || (facts->too_long & QUESTION_EXPOSED))
		return;
	while (i-- > 0) {
		struct client_statement *entry = client->names->at[i];

		if (entry->is_exposed && !is_among(buf_bytes(&facts->exposed), entry->name))
			names_lose(client->names, entry);
	}
}

bool exposed_withdraw(struct client *client)
{
	char names[NAMES_MAX * (SQL_NAME_MAX + 1)];
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
		names_set_exposed(client->names, entry, false);
	}
	server_order(client->borrower.server,
	             &(struct order){ .kind = ORDER_CLOSES, .names = bytes_of(names, size) });
	return true;
}
