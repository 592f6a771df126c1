/* SPDX-License-Identifier: ISC */
/*
 * The prepared statements that a server knows, and how changes are undone.
 *
 * Hard here: requests are sent long before their replies arrive, and after an error the server
 * skips the rest of the batch. Each change can be undone, and the ledger undoes changes in reverse
 * order, so that a Close and a Parse of one statement in one batch restore what was there before.
 * If the server has deallocated all statements since (DEALLOCATE ALL), there is nothing to restore.
 */
#include "pgweir/pool/server/server_statements.h"

#include <stdlib.h>

struct server_statement {
	UT_hash_handle hh;       /* by the statement's address */
	UT_hash_handle typed_hh; /* by that of `typed` */
	TAILQ_ENTRY(server_statement) node;
	struct statement *statement; /* one reference */
	/* with the types that the server has resolved; one reference, or NULL */
	struct statement *typed;
	const void *change; /* the change whose confirmation is pending */
	uint32_t parse_number;
	struct server_statement_state state;
	bool is_confirmed;
};

void server_statements_init(struct server_statements *known, struct statements *statements,
                            const struct ledger *ledger)
{
	*known = (struct server_statements){ .statements = statements, .ledger = ledger };
	TAILQ_INIT(&known->list);
}

/* One message of a client looks for the same statement several times. */
static struct server_statement *find_statement_at(struct server_statements *known,
                                                  const struct statement *statement)
{
	struct server_statement *entry = known->found;

	if (entry && entry->statement == statement)
		return entry;
	HASH_FIND_PTR(known->table, &statement, entry);
	if (entry)
		known->found = entry;
	return entry;
}

/* A statement that is known under another name than its own. */
static struct server_statement *find_typed(const struct server_statements *known,
                                           const struct statement *statement)
{
	struct server_statement *entry;

	HASH_FIND(typed_hh, known->typed_table, &statement, sizeof(statement), entry);
	return entry;
}

static struct server_statement *find_any(struct server_statements *known,
                                         const struct statement *statement)
{
	struct server_statement *entry = find_statement_at(known, statement);

	return entry ? entry : find_typed(known, statement);
}

/* Drops the resolved types. */
static void forget_types(struct server_statements *known, struct server_statement *entry)
{
	if (!entry->typed)
		return;
	HASH_DELETE(typed_hh, known->typed_table, entry);
	statement_release(known->statements, &entry->typed);
}

static void forget(struct server_statements *known, struct server_statement *entry)
{
	if (!entry)
		return;
	if (known->found == entry)
		known->found = NULL;
	forget_types(known, entry);
	HASH_DEL(known->table, entry);
	TAILQ_REMOVE(&known->list, entry, node);
	statement_release(known->statements, &entry->statement);
	free(entry);
}

void server_statements_done(struct server_statements *known)
{
	while (!TAILQ_EMPTY(&known->list))
		forget(known, TAILQ_FIRST(&known->list));
}

static struct server_statement *learn(struct server_statements *known, struct statement *statement)
{
	struct server_statement *entry = calloc(1, sizeof(*entry));

	if (!entry)
		return NULL;
	entry->statement = statement_hold(statement);
	entry->parse_number = ++known->parse_count;
	HASH_ADD_PTR(known->table, statement, entry);
	TAILQ_INSERT_TAIL(&known->list, entry, node);
	return entry;
}

static void use(struct server_statements *known, struct server_statement *entry)
{
	if (TAILQ_NEXT(entry, node)) {
		TAILQ_REMOVE(&known->list, entry, node);
		TAILQ_INSERT_TAIL(&known->list, entry, node);
	}
}

bool server_statements_use(struct server_statements *known, const struct statement *statement)
{
	struct server_statement *entry = find_statement_at(known, statement);

	if (entry)
		use(known, entry);
	return entry;
}

bool server_statements_use_as(struct server_statements *known, const struct statement *statement,
                              struct bytes *name)
{
	struct server_statement *entry = find_any(known, statement);

	if (!entry || entry->state.is_stale)
		return false;
	use(known, entry);
	*name = statement_name(entry->statement);
	return true;
}

struct bytes server_statements_other_name(const struct server_statements *known,
                                          const struct statement *statement)
{
	const struct server_statement *entry = find_typed(known, statement);

	return entry ? statement_name(entry->statement) : bytes_of("", 0);
}

uint32_t server_statements_parse_number(struct server_statements *known,
                                        const struct statement *statement)
{
	const struct server_statement *entry = find_any(known, statement);

	return entry ? entry->parse_number : 0;
}

void server_statements_parsed(struct server_statements *known, const struct statement *statement,
                              usec_t now)
{
	struct server_statement *entry = find_statement_at(known, statement);

	if (entry)
		entry->state.sent_at = now;
}

usec_t server_statements_done_at(struct server_statements *known, const struct statement *statement)
{
	const struct server_statement *entry = find_statement_at(known, statement);

	return entry ? entry->state.done_at : 0;
}

bool server_statements_is_since(struct server_statements *known, const struct statement *statement,
                                usec_t since)
{
	const struct server_statement *entry = find_any(known, statement);

	return !entry || entry->state.sent_at >= since || entry->state.done_at == since;
}

uint32_t server_statements_columns(struct server_statements *known,
                                   const struct statement *statement)
{
	const struct server_statement *entry = find_any(known, statement);

	return entry && !entry->state.is_stale ? entry->state.columns : 0;
}

void server_statements_described(struct server_statements *known, const struct statement *statement,
                                 uint32_t columns, uint32_t parse_number)
{
	struct server_statement *entry = find_any(known, statement);

	if (entry && entry->parse_number == parse_number)
		entry->state.columns = columns;
}

void server_statements_typed(struct server_statements *known, const struct statement *statement,
                             struct statement *typed, uint32_t parse_number)
{
	struct server_statement *entry = find_statement_at(known, statement);

	if (!entry || entry->parse_number != parse_number || entry->typed || typed == statement ||
	    find_typed(known, typed))
		return;
	entry->typed = statement_hold(typed);
	HASH_ADD_KEYPTR(typed_hh, known->typed_table, &entry->typed, sizeof(entry->typed), entry);
}

bool server_statements_is_sure(struct server_statements *known, const struct statement *statement)
{
	const struct server_statement *entry = find_any(known, statement);

	return (entry && entry->is_confirmed) ||
	       !ledger_open_is_unsure(&known->open, known->ledger);
}

void server_statements_mark_stale(struct server_statements *known,
                                  const struct statement *statement)
{
	struct server_statement *entry = find_any(known, statement);

	if (entry)
		entry->state.is_stale = true;
}

bool server_statements_is_stale(struct server_statements *known, const struct statement *statement)
{
	const struct server_statement *entry = find_statement_at(known, statement);

	return entry && entry->state.is_stale;
}

void server_statements_distrust(struct server_statements *known)
{
	struct server_statement *entry;

	TAILQ_FOREACH (entry, &known->list, node)
		entry->state.is_stale |= entry->is_confirmed;
}

void server_statements_distrust_sent(struct server_statements *known)
{
	struct server_statement *entry;

	TAILQ_FOREACH (entry, &known->list, node)
		entry->state.is_stale = true;
}

void server_statements_recount(struct server_statements *known, unsigned int count)
{
	if (count < server_statements_count(known))
		server_statements_distrust(known);
}

unsigned int server_statements_count(const struct server_statements *known)
{
	return HASH_COUNT(known->table);
}

void server_statements_each(const struct server_statements *known,
                            void (*see)(void *arg, struct statement *statement,
                                        const struct server_statement_state *state),
                            void *arg)
{
	const struct server_statement *entry;

	TAILQ_FOREACH (entry, &known->list, node) {
		if (entry->is_confirmed)
			see(arg, entry->statement, &entry->state);
	}
}

bool server_statements_restore(struct server_statements *known, struct statement *statement,
                               const struct server_statement_state *state)
{
	struct server_statement *entry;

	if (find_statement_at(known, statement))
		return true;
	entry = learn(known, statement);
	if (!entry)
		return false;
	entry->is_confirmed = true;
	entry->state = *state;
	return true;
}

struct statement *server_statements_oldest(struct server_statements *known, unsigned int limit)
{
	return server_statements_count(known) < limit ? NULL : TAILQ_FIRST(&known->list)->statement;
}

void server_statements_forget_confirmed(struct server_statements *known)
{
	struct server_statement *entry = TAILQ_FIRST(&known->list);

	known->loss_count++;
	while (entry) {
		struct server_statement *next = TAILQ_NEXT(entry, node);

		if (entry->is_confirmed)
			forget(known, entry);
		entry = next;
	}
}

/* ---- changes ---- */

struct server_statements_change {
	struct ledger_change base;
	struct server_statements *known;
	struct statement *statement; /* one reference */
	uint32_t loss_count;         /* known->loss_count at that time */
	/* of a forgotten entry */
	bool was_known;
	struct server_statement_state before;
	const void *before_change;
};

static struct ledger_change *make_change(struct server_statements *known,
                                         struct statement *statement,
                                         void (*settle)(struct ledger_change *, bool))
{
	struct server_statements_change *change = calloc(1, sizeof(*change));

	if (!change)
		return NULL;
	change->base.settle = settle;
	change->known = known;
	change->statement = statement_hold(statement);
	change->loss_count = known->loss_count;
	ledger_open_begin(&known->open, known->ledger);
	return &change->base;
}

static void free_change(struct server_statements_change *change)
{
	ledger_open_end(&change->known->open);
	statement_release(change->known->statements, &change->statement);
	free(change);
}

/* A later change may have replaced the entry. */
static void settle_learn(struct ledger_change *base, bool is_done)
{
	struct server_statements_change *change = (struct server_statements_change *)base;
	struct server_statement *entry = find_statement_at(change->known, change->statement);
	bool is_own = entry && entry->change == change;

	if (is_own && is_done) {
		entry->is_confirmed = true;
		entry->state.done_at = clock_now();
	} else if (is_own) {
		forget(change->known, entry);
	}
	free_change(change);
}

struct ledger_change *server_statements_learn(struct server_statements *known,
                                              struct statement *statement)
{
	struct ledger_change *change = make_change(known, statement, settle_learn);
	struct server_statement *entry = change ? learn(known, statement) : NULL;

	if (change && !entry) {
		free_change((struct server_statements_change *)change);
		return NULL;
	}
	if (entry)
		entry->change = change;
	return change;
}

/* There is an entry if the statement is to be prepared again, and that is not undone yet. */
static void settle_forget(struct ledger_change *base, bool is_done)
{
	struct server_statements_change *change = (struct server_statements_change *)base;
	struct server_statement *entry = find_statement_at(change->known, change->statement);

	if (!is_done && change->was_known && change->loss_count == change->known->loss_count) {
		if (!entry)
			entry = learn(change->known, change->statement);
		if (entry) {
			entry->is_confirmed = true;
			entry->state = change->before;
			entry->change = change->before_change;
		}
	}
	free_change(change);
}

struct ledger_change *server_statements_forget(struct server_statements *known,
                                               struct statement *statement)
{
	struct ledger_change *base = make_change(known, statement, settle_forget);
	struct server_statements_change *change = (struct server_statements_change *)base;
	struct server_statement *entry = find_statement_at(known, statement);

	if (change && entry) {
		change->was_known = true;
		change->before = entry->state;
		change->before_change = entry->change;
	}
	if (change)
		forget(known, entry);
	return base;
}

bool server_statements_repeat(struct server_statements *known, struct statement *statement,
                              struct ledger_change **close, struct ledger_change **parse)
{
	*close = server_statements_forget(known, statement);
	*parse = *close ? server_statements_learn(known, statement) : NULL;
	if (*close && !*parse)
		(*close)->settle(*close, false);
	return *parse;
}
