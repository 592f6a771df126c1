/* SPDX-License-Identifier: ISC */
/*
 * Named prepared statements.
 *
 *   Parse "s1" <text>  -->  Parse "PGBOUNCER_7" <text>, or nothing if the server knows it
 *   Bind "" "s1" ...   -->  [Parse "PGBOUNCER_7"] Bind "" "PGBOUNCER_7" ...
 *   Close "s1"         -->  nothing: the statement stays for others
 *
 * Hard here: all this is decided when the client speaks, long before the server
 * answers. What is decided counts at once and is taken back by the ledger where
 * the server refuses or skips: so a name is there for the Bind behind its Parse,
 * and gone without a trace when the Parse fails. Behind a Sync that is not answered
 * yet it waits, as nobody can tell what will have failed. What we answer ourselves must
 * stand where the server's answer would: in the ledger, in its turn.
 *
 * Whatever is wrong with a name is said by PostgreSQL: an unknown name is sent as
 * it is, and a name that is taken is made to fail there, so that a transaction
 * fails exactly as it would without us.
 */
#include "prepared_priv.h"

#include <search.h>
#include <stdlib.h>

#include "pgweir/pgwire/fields.h"

#include "client_priv.h"

#include "pgweir/base/banned.h"

/* A statement's name on servers is short; a portal's name may be long. */
#define HEAD_MAX GATHER_ROOM

#define OUR_NAMES "PGBOUNCER_" /* as statements.c begins them */

struct name_change;

/*
 * Small, since there may be thousands of clients with hundreds of them each. They
 * stand in a tree (tsearch) by name: a third of what a hash table would need.
 */
struct client_statement {
	struct ledger_change use; /* of every Bind and Describe that is under way; owns the
	                             statement once */
	uint32_t use_count;
	uint32_t come_number : 30; /* of the change that has brought it */
	uint32_t is_gone : 1;      /* freed when it is not used any more */
	uint32_t is_confirmed : 1;
	char name[];
};

#define COME_NUMBERS (UINT32_C(1) << 30)

static struct statements *statements_of(const struct client *client)
{
	return &client->clients->with.pools->statements;
}

bool prepared_follows(const struct client *client)
{
	if (client->statements)
		return true;
	return !client->replication && client->borrower.pool->limits.mode != POOL_MODE_SESSION &&
	       client->clients->config->max_prepared_statements > 0;
}

unsigned int client_statement_count(const struct client *client) { return client->statement_count; }

/* ---- the client's names ---- */

static int compare(const void *one, const void *other) { return strcmp(one, other); }

static struct client_statement *entry_of(const char *name)
{
	return (struct client_statement *)(name - offsetof(struct client_statement, name));
}

/* What `use` says is const for those who only read. */
static struct statement *statement_under(const struct client_statement *entry)
{
	return (struct statement *)entry->use.statement;
}

static struct client_statement *find(const struct client *client, const char *name)
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
	struct statement *statement = statement_under(entry);

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

void prepared_forget(struct client *client, bool is_all)
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
	struct client_statement *entry = find(change->client, change->name);

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

/* The name is there from now on. NULL: no memory. */
static struct ledger_change *come(struct client *client, const char *name,
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

	is_back = is_back && change->entry && !find(change->client, change->name);
	if (change->entry && !(is_back && add(change->client, change->entry)))
		free_name(change->entry);
	free_change(change);
}

/* The name is gone from now on, if it was there. NULL: no memory. */
static struct ledger_change *go(struct client *client, const char *name)
{
	struct name_change *change = make_change(client, name, NULL, settle_go);

	if (!change)
		return NULL;
	change->entry = find(client, name);
	if (change->entry)
		remove_name(client, change->entry);
	return &change->base;
}

/* Whether a batch that was sent may yet change what is found under the names. */
static bool names_are_unsure(const struct client *client)
{
	return ledger_open_is_unsure(&client->open_names, &client->borrower.server->ledger);
}

/* ---- what is said to the server besides ---- */

static bool note(struct server *server, enum ledger_kind kind, enum ledger_fate fate,
                 struct ledger_change *change)
{
	return server_note_change(server, kind, fate, change) != LEDGER_NO_MEMORY;
}

/* Close of a statement under its name on servers: a zero is behind it. */
static void gather_close(struct gather *gather, struct bytes name)
{
	char front[FRAME_HEADER_SIZE + 1] = { 'C', 0, 0, 0, 0, 'S' };

	store_be32(front + 1, (uint32_t)(4 + 1 + name.count + 1));
	gather_copy(gather, bytes_of(front, sizeof(front)));
	gather_copy(gather, bytes_of(name.at, name.count + 1));
}

/* The text lies in the statement, which a client's name or the server's entry keeps alive. */
static void gather_parse(struct client *client, struct gather *gather,
                         const struct statement *statement)
{
	gather_run(gather, bytes_of(statement->message, statement->message_size));
	client->borrower.pool->stats.server_parse_count++;
}

/* Makes room for one more statement on the server. */
static bool evict(struct client *client, struct gather *gather)
{
	struct server *server = client->borrower.server;
	int limit = client->clients->config->max_prepared_statements;
	struct statement *oldest;

	while ((oldest = known_oldest(&server->known, limit > 0 ? (unsigned int)limit : 1))) {
		struct ledger_change *change;

		gather_close(gather, statement_name(oldest));
		change = known_forget(&server->known, oldest);
		if (!change || !note(server, LEDGER_CLOSE, LEDGER_INJECT, change))
			return false;
	}
	return true;
}

/* The server throws the statement away and learns it anew. */
static bool repeat(struct client *client, struct gather *gather, struct statement *statement)
{
	struct server *server = client->borrower.server;
	struct ledger_change *close, *parse;

	if (!known_repeat(&server->known, statement, &close, &parse))
		return false;
	gather_close(gather, statement_name(statement));
	gather_parse(client, gather, statement);
	if (!note(server, LEDGER_CLOSE, LEDGER_INJECT, close)) {
		parse->settle(parse, false);
		return false;
	}
	return note(server, LEDGER_PARSE, LEDGER_INJECT, parse);
}

/* The server learns the statement in front of what needs it, if it does not know it. */
static bool inject(struct client *client, struct gather *gather, struct statement *statement)
{
	struct server *server = client->borrower.server;
	struct ledger_change *change;

	if (known_is_spoilt(&server->known, statement))
		return repeat(client, gather, statement);
	if (known_use(&server->known, statement))
		return true;
	if (!evict(client, gather))
		return false;
	change = known_learn(&server->known, statement);
	if (!change)
		return false;
	gather_parse(client, gather, statement);
	return note(server, LEDGER_PARSE, LEDGER_INJECT, change);
}

/* ---- Parse ---- */

static void settle_refusal(struct ledger_change *change, bool is_done)
{
	(void)is_done;
	free(change);
}

/* A Bind to a statement that cannot be there: PostgreSQL fails, and the client hears `err`. */
static enum prepared_result refuse(struct client *client, const struct err *err,
                                   struct gather *gather)
{
	static const char bind[] = "B\0\0\0\026\0" OUR_NAMES "\0\0\0\0\0\0\0";
	struct refusal *refusal = calloc(1, sizeof(*refusal));

	if (!refusal)
		return PREPARED_END;
	refusal->base.settle = settle_refusal;
	refusal->err = *err;
	gather_copy(gather, bytes_of(bind, sizeof(bind) - 1));
	return note(client->borrower.server, LEDGER_BIND, LEDGER_REPLACE, &refusal->base)
	           ? PREPARED_DROP
	           : PREPARED_END;
}

/*
 * The name is taken. PostgreSQL says so only when nothing else is wrong with the
 * text, or with the transaction: so it is asked, under a name that goes at once.
 */
static enum prepared_result refuse_twice(struct client *client, const char *name, struct bytes text,
                                         struct gather *gather)
{
	static const char trial[] = OUR_NAMES "0";
	struct server *server = client->borrower.server;
	char front[FRAME_HEADER_SIZE] = { 'P' };
	struct err err;

	err_set(&err, ERR_STATEMENT_TWICE, "prepared statement \"%s\" already exists", name);
	store_be32(front + 1, (uint32_t)(4 + sizeof(trial) + text.count));
	gather_close(gather, bytes_of(trial, sizeof(trial) - 1));
	gather_copy(gather, bytes_of(front, sizeof(front)));
	gather_copy(gather, bytes_of(trial, sizeof(trial)));
	gather_run(gather, text);
	gather_close(gather, bytes_of(trial, sizeof(trial) - 1));
	if (!note(server, LEDGER_CLOSE, LEDGER_INJECT, NULL) ||
	    !note(server, LEDGER_PARSE, LEDGER_INJECT, NULL) ||
	    !note(server, LEDGER_CLOSE, LEDGER_INJECT, NULL))
		return PREPARED_END;
	return refuse(client, &err, gather);
}

/*
 * The server knows the text. If nothing can have changed we say so in its place;
 * else it is asked again: in a transaction that has failed it must refuse.
 */
static bool parse_known(struct client *client, const char *name, struct statement *statement,
                        struct gather *gather)
{
	struct server *server = client->borrower.server;
	struct ledger_change *close, *parse, *change;

	if (!known_is_spoilt(&server->known, statement) && server->status != 'E' &&
	    ledger_knows_status(&server->ledger)) {
		change = come(client, name, statement, NULL);
		return change && note(server, LEDGER_PARSE, LEDGER_ANSWER, change);
	}
	if (!known_repeat(&server->known, statement, &close, &parse))
		return false;
	gather_close(gather, statement_name(statement));
	if (!note(server, LEDGER_CLOSE, LEDGER_INJECT, close)) {
		parse->settle(parse, false);
		return false;
	}
	change = come(client, name, statement, parse);
	if (!change) {
		parse->settle(parse, false);
		return false;
	}
	gather_parse(client, gather, statement);
	return note(server, LEDGER_PARSE, LEDGER_FORWARD, change);
}

static bool parse_new(struct client *client, const char *name, struct statement *statement,
                      struct gather *gather)
{
	struct server *server = client->borrower.server;
	struct ledger_change *learned, *change;

	if (!evict(client, gather))
		return false;
	learned = known_learn(&server->known, statement);
	if (!learned)
		return false;
	change = come(client, name, statement, learned);
	if (!change) {
		learned->settle(learned, false);
		return false;
	}
	gather_parse(client, gather, statement);
	return note(server, LEDGER_PARSE, LEDGER_FORWARD, change);
}

static enum prepared_result judge_parse(struct client *client, const struct frame *frame,
                                        struct bytes in, struct gather *gather)
{
	struct bytes body, text;
	struct parse_fields parse;
	struct statement *statement;
	bool is_good;

	if (in.count <= FRAME_HEADER_SIZE)
		return frame->length > FRAME_HEADER_SIZE ? PREPARED_MORE : PREPARED_PASS;
	if (in.at[FRAME_HEADER_SIZE] == 0)
		return unnamed_parse(client, frame, in, gather);
	if (in.count < frame->length)
		return PREPARED_MORE;
	body = frame_body(in, frame);
	if (fields_parse(body, &parse) != WIRE_OK)
		return PREPARED_PASS; /* PostgreSQL says what is wrong with it */
	if (names_are_unsure(client))
		return PREPARED_WAIT;
	text = bytes_skip(body, strlen(parse.statement) + 1);
	statement = statement_of(statements_of(client), text);
	if (!statement)
		return PREPARED_END;
	if (!known_is_sure(&client->borrower.server->known, statement)) {
		statement_release(statements_of(client), &statement);
		return PREPARED_WAIT;
	}
	client->borrower.pool->stats.client_parse_count++;
	if (find(client, parse.statement)) {
		statement_release(statements_of(client), &statement);
		return refuse_twice(client, parse.statement, text, gather);
	}
	is_good = known_use(&client->borrower.server->known, statement)
	              ? parse_known(client, parse.statement, statement, gather)
	              : parse_new(client, parse.statement, statement, gather);
	statement_release(statements_of(client), &statement); /* whoever knows it holds it */
	return is_good ? PREPARED_DROP : PREPARED_END;
}

/* ---- Bind, Describe, Close ---- */

/* A message whose statement's name is ours now: what stands before the rest. */
static enum prepared_result replace_head(const struct frame *frame,
                                         const struct object_names *names,
                                         const struct statement *statement, struct gather *gather,
                                         size_t *head)
{
	struct bytes name = statement_name(statement);
	size_t portal_size = names->portal ? strlen(names->portal) + 1 : 0;
	size_t front_size = FRAME_HEADER_SIZE + (names->target ? 1 : 0);
	char front[FRAME_HEADER_SIZE + 1] = { frame->type, 0, 0, 0, 0, names->target };

	*head = FRAME_HEADER_SIZE + names->count;
	store_be32(front + 1, (uint32_t)(frame->length - 1 - *head + front_size + portal_size +
	                                 name.count + 1));
	gather_copy(gather, bytes_of(front, front_size));
	if (portal_size)
		gather_run(gather, bytes_of(names->portal, portal_size));
	gather_copy(gather, bytes_of(name.at, name.count + 1));
	return PREPARED_HEAD;
}

static bool is_of_ours(const char *name)
{
	return strncmp(name, OUR_NAMES, sizeof(OUR_NAMES) - 1) == 0;
}

/* None of the client's names. It may be SQL's PREPARE, but never what others have prepared. */
static enum prepared_result judge_unknown(struct client *client, const char *name,
                                          struct gather *gather)
{
	struct err err;

	if (!is_of_ours(name))
		return PREPARED_PASS; /* PostgreSQL says that there is no such statement */
	err_set(&err, ERR_STATEMENT_NAME, "prepared statement \"%s\" does not exist", name);
	return refuse(client, &err, gather);
}

static enum prepared_result judge_use(struct client *client, const struct frame *frame,
                                      const struct object_names *names, struct gather *gather,
                                      size_t *head)
{
	struct client_statement *entry = find(client, names->statement);
	enum ledger_kind kind = frame->type == 'B' ? LEDGER_BIND : LEDGER_DESCRIBE;

	if ((!entry || !entry->is_confirmed) && names_are_unsure(client))
		return PREPARED_WAIT;
	if (entry && !known_is_sure(&client->borrower.server->known, statement_under(entry)))
		return PREPARED_WAIT;
	if (frame->type == 'B')
		client->borrower.pool->stats.bind_count++;
	if (!entry)
		return judge_unknown(client, names->statement, gather);
	if (!inject(client, gather, statement_under(entry)))
		return PREPARED_END;
	entry->use_count++; /* no more than there are entries in a ledger */
	if (!note(client->borrower.server, kind, LEDGER_FORWARD, &entry->use))
		return PREPARED_END;
	return replace_head(frame, names, statement_under(entry), gather, head);
}

static enum prepared_result judge_close(struct client *client, const char *name)
{
	struct ledger_change *change;

	if (names_are_unsure(client))
		return PREPARED_WAIT;
	if (!find(client, name) && !is_of_ours(name))
		return PREPARED_PASS; /* it may be SQL's PREPARE */
	change = go(client, name);
	return change && note(client->borrower.server, LEDGER_CLOSE, LEDGER_ANSWER, change)
	           ? PREPARED_DROP
	           : PREPARED_END;
}

enum prepared_result prepared_judge(struct client *client, const struct frame *frame,
                                    struct bytes in, struct gather *gather, size_t *head)
{
	struct bytes have = bytes_skip(in, FRAME_HEADER_SIZE);
	size_t length = frame->length - FRAME_HEADER_SIZE;
	struct object_names names;

	*head = 0;
	if (client->borrower.server->ledger.is_skipping)
		return PREPARED_PASS; /* the server will not even look at it */
	if (frame->type == 'P')
		return judge_parse(client, frame, in, gather);
	if (have.count > length)
		have.count = length;
	switch (fields_names(frame->type, have, length, &names)) {
	case WIRE_MORE:
		return PREPARED_MORE;
	case WIRE_BAD:
		return PREPARED_PASS; /* PostgreSQL says what is wrong with it */
	case WIRE_OK:
		break;
	}
	if (!names.statement || names.target == 'P')
		return PREPARED_PASS;
	if (!*names.statement && frame->type == 'C')
		return unnamed_drop(client, gather), PREPARED_PASS;
	if (!*names.statement)
		return unnamed_use(client, frame->type, gather);
	if (frame->type == 'C')
		return in.count < frame->length ? PREPARED_MORE
		                                : judge_close(client, names.statement);
	return judge_use(client, frame, &names, gather, head);
}

const char *prepared_text(const struct client *client, const char *name)
{
	const struct client_statement *entry = find(client, name);
	const struct statement *statement = entry ? statement_under(entry) : NULL;

	return statement ? statement->message + FRAME_HEADER_SIZE + statement->name_size : NULL;
}
