/* SPDX-License-Identifier: ISC */
/*
 * What a server knows, and how that is taken back.
 *
 * Hard here: messages are sent long before they are answered, and a batch that
 * fails is skipped from the failure on. Each change can be undone, and the ledger
 * undoes them in the opposite order, so that a Close and a Parse of one statement
 * in one batch leave what was there before. Where the server has thrown all away
 * meanwhile (DEALLOCATE ALL) there is nothing to be put back.
 */
#include "pgweir/pool/known.h"

#include <stdlib.h>

#include "pgweir/base/banned.h"

struct known_statement {
	UT_hash_handle hh;       /* by the statement's address */
	UT_hash_handle typed_hh; /* by that of `typed` */
	TAILQ_ENTRY(known_statement) node;
	struct statement *statement; /* one owner */
	struct statement *typed;     /* what it is there, with the types; one owner, or NULL */
	const void *change;          /* that it is still to be confirmed by */
	uint32_t parse_number;
	bool is_confirmed;
	bool is_spoilt;
};

void known_init(struct known *known, struct statements *statements, const struct ledger *ledger)
{
	*known = (struct known){ .statements = statements, .ledger = ledger };
	TAILQ_INIT(&known->list);
}

static struct known_statement *find(const struct known *known, const struct statement *statement)
{
	struct known_statement *entry;

	HASH_FIND_PTR(known->table, &statement, entry);
	return entry;
}

/* One that is known by another name. */
static struct known_statement *find_typed(const struct known *known,
                                          const struct statement *statement)
{
	struct known_statement *entry;

	HASH_FIND(typed_hh, known->typed_table, &statement, sizeof(statement), entry);
	return entry;
}

/* Of which types its parameters are is not known any more. */
static void forget_types(struct known *known, struct known_statement *entry)
{
	if (!entry->typed)
		return;
	HASH_DELETE(typed_hh, known->typed_table, entry);
	statement_release(known->statements, &entry->typed);
}

static void forget(struct known *known, struct known_statement *entry)
{
	if (!entry)
		return;
	forget_types(known, entry);
	HASH_DEL(known->table, entry);
	TAILQ_REMOVE(&known->list, entry, node);
	statement_release(known->statements, &entry->statement);
	free(entry);
}

void known_done(struct known *known)
{
	while (!TAILQ_EMPTY(&known->list))
		forget(known, TAILQ_FIRST(&known->list));
}

static struct known_statement *learn(struct known *known, struct statement *statement)
{
	struct known_statement *entry = calloc(1, sizeof(*entry));

	if (!entry)
		return NULL;
	entry->statement = statement_hold(statement);
	entry->parse_number = ++known->parse_count;
	HASH_ADD_PTR(known->table, statement, entry);
	TAILQ_INSERT_TAIL(&known->list, entry, node);
	return entry;
}

static void use(struct known *known, struct known_statement *entry)
{
	if (TAILQ_NEXT(entry, node)) {
		TAILQ_REMOVE(&known->list, entry, node);
		TAILQ_INSERT_TAIL(&known->list, entry, node);
	}
}

bool known_use(struct known *known, const struct statement *statement)
{
	struct known_statement *entry = find(known, statement);

	if (entry)
		use(known, entry);
	return entry;
}

bool known_use_as(struct known *known, const struct statement *statement, struct bytes *name)
{
	struct known_statement *entry = find(known, statement);

	if (!entry)
		entry = find_typed(known, statement);
	if (!entry || entry->is_spoilt)
		return false;
	use(known, entry);
	*name = statement_name(entry->statement);
	return true;
}

struct bytes known_other_name(const struct known *known, const struct statement *statement)
{
	const struct known_statement *entry = find_typed(known, statement);

	return entry ? statement_name(entry->statement) : bytes_of("", 0);
}

uint32_t known_parse_number(const struct known *known, const struct statement *statement)
{
	const struct known_statement *entry = find(known, statement);

	return entry ? entry->parse_number : 0;
}

void known_typed(struct known *known, const struct statement *statement, struct statement *typed,
                 uint32_t parse_number)
{
	struct known_statement *entry = find(known, statement);

	if (!entry || entry->parse_number != parse_number || entry->typed || typed == statement ||
	    find_typed(known, typed))
		return;
	entry->typed = statement_hold(typed);
	HASH_ADD_KEYPTR(typed_hh, known->typed_table, &entry->typed, sizeof(entry->typed), entry);
}

bool known_is_sure(const struct known *known, const struct statement *statement)
{
	const struct known_statement *entry = find(known, statement);

	if (!entry)
		entry = find_typed(known, statement);
	return (entry && entry->is_confirmed) ||
	       !ledger_open_is_unsure(&known->open, known->ledger);
}

void known_spoil(struct known *known, const struct statement *statement)
{
	struct known_statement *entry = find(known, statement);

	if (!entry)
		entry = find_typed(known, statement);
	if (entry)
		entry->is_spoilt = true;
}

bool known_is_spoilt(const struct known *known, const struct statement *statement)
{
	const struct known_statement *entry = find(known, statement);

	return entry && entry->is_spoilt;
}

void known_distrust(struct known *known)
{
	struct known_statement *entry;

	TAILQ_FOREACH (entry, &known->list, node)
		entry->is_spoilt |= entry->is_confirmed;
}

void known_distrust_sent(struct known *known)
{
	struct known_statement *entry;

	TAILQ_FOREACH (entry, &known->list, node)
		entry->is_spoilt = true;
}

unsigned int known_count(const struct known *known) { return HASH_COUNT(known->table); }

void known_each(const struct known *known,
                void (*see)(void *arg, struct statement *statement, bool is_spoilt), void *arg)
{
	const struct known_statement *entry;

	TAILQ_FOREACH (entry, &known->list, node) {
		if (entry->is_confirmed)
			see(arg, entry->statement, entry->is_spoilt);
	}
}

void known_restore(struct known *known, struct statement *statement, bool is_spoilt)
{
	struct known_statement *entry = find(known, statement) ? NULL : learn(known, statement);

	if (!entry)
		return;
	entry->is_confirmed = true;
	entry->is_spoilt = is_spoilt;
}

struct statement *known_oldest(struct known *known, unsigned int limit)
{
	return known_count(known) < limit ? NULL : TAILQ_FIRST(&known->list)->statement;
}

void known_forget_confirmed(struct known *known)
{
	struct known_statement *entry = TAILQ_FIRST(&known->list);

	known->loss_count++;
	while (entry) {
		struct known_statement *next = TAILQ_NEXT(entry, node);

		if (entry->is_confirmed)
			forget(known, entry);
		entry = next;
	}
}

/* ---- changes ---- */

struct known_change {
	struct ledger_change base;
	struct known *known;
	struct statement *statement; /* one owner */
	uint32_t loss_count;         /* when it was made */
	bool was_spoilt;
};

static struct ledger_change *make_change(struct known *known, struct statement *statement,
                                         void (*settle)(struct ledger_change *, bool))
{
	struct known_change *change = calloc(1, sizeof(*change));

	if (!change)
		return NULL;
	change->base.settle = settle;
	change->known = known;
	change->statement = statement_hold(statement);
	change->loss_count = known->loss_count;
	ledger_open_begin(&known->open, known->ledger);
	return &change->base;
}

static void free_change(struct known_change *change)
{
	ledger_open_end(&change->known->open);
	statement_release(change->known->statements, &change->statement);
	free(change);
}

static void settle_learn(struct ledger_change *base, bool is_done)
{
	struct known_change *change = (struct known_change *)base;
	struct known_statement *entry = find(change->known, change->statement);

	if (!is_done)
		forget(change->known, entry);
	else if (entry && entry->change == change)
		entry->is_confirmed = true;
	free_change(change);
}

struct ledger_change *known_learn(struct known *known, struct statement *statement)
{
	struct ledger_change *change = make_change(known, statement, settle_learn);
	struct known_statement *entry = change ? learn(known, statement) : NULL;

	if (change && !entry) {
		free_change((struct known_change *)change);
		return NULL;
	}
	if (entry)
		entry->change = change;
	return change;
}

static void settle_forget(struct ledger_change *base, bool is_done)
{
	struct known_change *change = (struct known_change *)base;
	struct known_statement *entry;

	if (!is_done && change->loss_count == change->known->loss_count &&
	    !find(change->known, change->statement)) {
		entry = learn(change->known, change->statement);
		if (entry) {
			entry->is_confirmed = true;
			entry->is_spoilt = change->was_spoilt;
		}
	}
	free_change(change);
}

struct ledger_change *known_forget(struct known *known, struct statement *statement)
{
	struct ledger_change *change = make_change(known, statement, settle_forget);
	struct known_statement *entry = find(known, statement);

	if (!change)
		return NULL;
	((struct known_change *)change)->was_spoilt = entry && entry->is_spoilt;
	forget(known, entry);
	return change;
}

/*
 * A Close and a Parse that belong together: it is not confirmed meanwhile, and stays
 * known unless only the Close came through.
 */
struct known_repeat {
	struct ledger_change close;
	struct ledger_change parse;
	struct known *known;
	struct statement *statement; /* one owner */
	uint32_t loss_count;         /* when it was made */
	bool was_spoilt;
	bool is_closed;
	unsigned int settled_count;
};

static void settle_one(struct known_repeat *repeat)
{
	if (++repeat->settled_count < 2)
		return;
	ledger_open_end(&repeat->known->open);
	statement_release(repeat->known->statements, &repeat->statement);
	free(repeat);
}

static void settle_repeat_close(struct ledger_change *change, bool is_done)
{
	struct known_repeat *repeat =
	    (struct known_repeat *)((char *)change - offsetof(struct known_repeat, close));

	repeat->is_closed = is_done;
	settle_one(repeat);
}

static void settle_repeat_parse(struct ledger_change *change, bool is_done)
{
	struct known_repeat *repeat =
	    (struct known_repeat *)((char *)change - offsetof(struct known_repeat, parse));

	struct known_statement *entry = find(repeat->known, repeat->statement);
	bool is_lost = repeat->is_closed || repeat->loss_count != repeat->known->loss_count;

	if (!is_done && is_lost)
		forget(repeat->known, entry);
	else if (entry && (!is_done || entry->change == repeat))
		entry->is_confirmed = true;
	if (entry && !is_done && !is_lost)
		entry->is_spoilt = repeat->was_spoilt;
	settle_one(repeat);
}

bool known_repeat(struct known *known, struct statement *statement, struct ledger_change **close,
                  struct ledger_change **parse)
{
	struct known_repeat *repeat = calloc(1, sizeof(*repeat));
	struct known_statement *entry = find(known, statement);

	if (!repeat)
		return false;
	if (entry) {
		forget_types(known, entry);
		entry->parse_number = ++known->parse_count;
		repeat->was_spoilt = entry->is_spoilt;
		entry->is_confirmed = entry->is_spoilt = false;
		entry->change = repeat;
	}
	repeat->close.settle = settle_repeat_close;
	repeat->parse.settle = settle_repeat_parse;
	repeat->known = known;
	repeat->statement = statement_hold(statement);
	repeat->loss_count = known->loss_count;
	ledger_open_begin(&known->open, known->ledger);
	*close = &repeat->close;
	*parse = &repeat->parse;
	return true;
}
