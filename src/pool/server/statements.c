/* SPDX-License-Identifier: ISC */
/*
 * Statements; each is stored once in each loop, and what it consists of once for all loops that got
 * it from each other. And those that a server knows, and how changes of that are undone.
 */
#include "pgweir/pool/server/statements.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "pgweir/auth/digest.h"
#include "pgweir/base/container_of.h"
#include "pgweir/pgwire/frame.h"
#include "pgweir/pgwire/sql_touch.h"

#define NAME_MAX_SIZE 64
#define TYPE_TEXT 25
#define TYPE_UNKNOWN 705
#define STEM_SIZE 12 /* letters of 5 bits each */
#define TEXT_MAX ((size_t)1 << 29)
#define KEY_CAPACITY ((size_t)16 * 1024) /* bytes of the key buffer that are kept */

/* ---- images ---- */

/* key: the text followed by the scope. */
static struct statement_image *image_new(struct bytes key, size_t scope_size, uint64_t hash,
                                         const struct statement_name *given)
{
	char name[NAME_MAX_SIZE];
	size_t name_size = (size_t)snprintf(name, sizeof(name), STATEMENT_NAMES "%s%s%llu",
	                                    given->stem, *given->stem ? "_" : "", given->number) +
	                   1;
	size_t front = FRAME_HEADER_SIZE + name_size;
	size_t size = front + key.count - scope_size;
	struct statement_image *image = malloc(sizeof(*image) + size + scope_size);

	if (!image)
		return NULL;
	*image = (struct statement_image){ .owner_count = 1,
		                           .hash = hash,
		                           .touches = sql_touch(
					       bytes_of(key.at, strnlen(key.at, key.count))),
		                           .name_size = name_size,
		                           .message_size = size,
		                           .scope_size = scope_size };
	image->message[0] = 'P';
	store_be32(image->message + 1, (uint32_t)(size - 1));
	memcpy(image->message + FRAME_HEADER_SIZE, name, name_size);
	memcpy(image->message + front, key.at, key.count);
	return image;
}

struct statement_image *statement_image_hold(struct statement_image *image)
{
	atomic_fetch_add_explicit(&image->owner_count, 1, memory_order_relaxed);
	return image;
}

/* The last owner frees it, after what all others have done with it. */
void statement_image_release(struct statement_image **imagep)
{
	struct statement_image *image = *imagep;

	*imagep = NULL;
	if (image && atomic_fetch_sub_explicit(&image->owner_count, 1, memory_order_acq_rel) == 1)
		free(image);
}

static struct bytes key_of(const struct statement_image *image)
{
	size_t front = FRAME_HEADER_SIZE + image->name_size;

	return bytes_of(image->message + front, image->message_size - front + image->scope_size);
}

struct bytes statement_image_name(const struct statement_image *image)
{
	return bytes_of(image->message + FRAME_HEADER_SIZE, image->name_size - 1);
}

unsigned long long statement_image_number(const struct statement_image *image)
{
	return strtoull(strrchr(statement_image_name(image).at, '_') + 1, NULL, 10);
}

struct bytes statement_image_stem(const struct statement_image *image)
{
	const char *at = statement_image_name(image).at + sizeof(STATEMENT_NAMES) - 1;
	const char *end = strrchr(at, '_');

	return bytes_of(at, end ? (size_t)(end - at) : 0);
}

/* ---- the table ---- */

static unsigned int bucket_of(const struct statements *statements, uint64_t hash)
{
	return (unsigned int)((hash * (statements->salt | 1)) >> 32);
}

/* The format of the text shows where it ends, so equal keys have equal scopes. */
static struct statement *find(const struct statements *statements, struct bytes key, uint64_t hash)
{
	struct statement *statement;

	HASH_FIND_BYHASHVALUE(hh, statements->table, key.at, key.count, bucket_of(statements, hash),
	                      statement);
	return statement ? statement_hold(statement) : NULL;
}

/* Takes the reference to `image`, or NULL. NULL: nothing. */
static struct statement *store(struct statements *statements, struct statement_image *image)
{
	struct statement *statement = image ? calloc(1, sizeof(*statement)) : NULL;
	struct bytes key;

	if (!statement) {
		statement_image_release(&image);
		return NULL;
	}
	statement->statements = statements;
	statement->image = image;
	statement->touches = image->touches;
	key = key_of(image);
	HASH_ADD_KEYPTR_BYHASHVALUE(hh, statements->table, key.at, key.count,
	                            bucket_of(statements, image->hash), statement);
	return statement_hold(statement);
}

/* key: the text followed by the scope, which has scope_size bytes. */
static struct statement *find_or_make(struct statements *statements, struct bytes key,
                                      size_t scope_size)
{
	struct statement *statement;
	struct statement_name own;
	uint64_t hash;

	if (key.count > TEXT_MAX)
		return NULL;
	hash = hash_bytes(&statements->names.key, key.at, key.count);
	statement = find(statements, key, hash);
	if (statement)
		return statement;
	own = (struct statement_name){ statements->names.stem, hash };
	return store(statements, image_new(key, scope_size, hash, &own));
}

/* Finds the statement whose key is these parts, joined. */
static struct statement *find_joined(struct statements *statements, struct bytes text,
                                     struct bytes types, struct bytes scope)
{
	struct statement *statement = NULL;
	struct buf *key = &statements->key;

	buf_add(key, text.at, text.count);
	buf_add(key, types.at, types.count);
	buf_add(key, scope.at, scope.count);
	if (buf_ok(key))
		statement = find_or_make(statements, buf_bytes(key), scope.count);
	buf_reuse(key, KEY_CAPACITY);
	if (!statements->table)
		buf_free(key);
	return statement;
}

struct statement *statement_of(struct statements *statements, struct bytes text, struct bytes scope)
{
	if (scope.count == 0)
		return find_or_make(statements, text, 0);
	return find_joined(statements, text, bytes_of("", 0), scope);
}

struct statement_image *statement_image_named(const struct statement_names *names,
                                              const struct statement_name *name, struct bytes text,
                                              struct bytes scope)
{
	struct statement_image *image = NULL;
	struct buf key = { 0 };

	buf_add(&key, text.at, text.count);
	buf_add(&key, scope.at, scope.count);
	if (buf_ok(&key) && key.count <= TEXT_MAX)
		image = image_new(buf_bytes(&key), scope.count,
		                  hash_bytes(&names->key, key.at, key.count), name);
	buf_free(&key);
	return image;
}

struct statement *statement_of_image(struct statements *statements, struct statement_image *image)
{
	struct statement *statement = find(statements, key_of(image), image->hash);

	return statement ? statement : store(statements, statement_image_hold(image));
}

/* Whether a parameter may be cast to unknown. */
static bool casts_to_unknown(struct bytes query)
{
	static const char word[] = "unknown";

	for (size_t i = 2; i + sizeof(word) <= query.count; i++) {
		size_t end = i;

		if (strncasecmp(query.at + i, word, sizeof(word) - 1) != 0)
			continue;
		while (end > 2 && query.at[end - 1] == ' ')
			end--;
		if (query.at[end - 1] == ':' || strncasecmp(query.at + end - 2, "as", 2) == 0)
			return true;
	}
	return false;
}

/*
 * Types as a Parse may have them: not "unknown", which PostgreSQL refuses there. For a parameter
 * that is cast to unknown it finds text, but refuses that in a Parse: then text counts only if it
 * was among the declared ones, which are what follows the query.
 */
static bool declare_types(struct bytes types, struct bytes declared, bool has_cast, struct buf *out)
{
	buf_add(out, types.at, 2);
	for (size_t i = 2; i + 4 <= types.count; i += 4) {
		uint32_t type = load_be32(types.at + i);
		bool is_declared = i + 4 <= declared.count && load_be32(declared.at + i) == type;

		if (type == TYPE_UNKNOWN || (has_cast && type == TYPE_TEXT && !is_declared))
			type = 0;
		buf_add_be32(out, type);
	}
	return buf_ok(out);
}

struct statement *statement_typed(struct statement *statement, struct bytes types)
{
	struct bytes query = statement_text(statement), declared;
	struct statement *typed = NULL;
	struct buf text = { 0 };

	declared = bytes_skip(query, strnlen(query.at, query.count - 1) + 1);
	query.count -= declared.count;
	if (declare_types(types, declared, casts_to_unknown(query), &text))
		typed = find_joined(statement->statements, query, buf_bytes(&text),
		                    statement_scope(statement));
	buf_free(&text);
	if (typed)
		typed->is_typed = true;
	return typed;
}

struct statement *statement_scoped(const struct statement *statement, struct bytes scope)
{
	struct statement *scoped =
	    statement_of(statement->statements, statement_text(statement), scope);

	if (scoped)
		scoped->is_typed |= statement->is_typed;
	return scoped;
}

struct statement *statement_hold(struct statement *statement)
{
	statement->owner_count++;
	return statement;
}

void statement_release(struct statement **statementp)
{
	struct statement *statement = *statementp;
	struct statements *statements;

	*statementp = NULL;
	if (!statement || --statement->owner_count)
		return;
	statements = statement->statements;
	HASH_DEL(statements->table, statement);
	statement_image_release(&statement->image);
	free(statement);
	if (!statements->table)
		buf_free(&statements->key);
}

bool statement_names_draw(struct statement_names *names)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz234567";
	unsigned char random[STEM_SIZE];

	*names = (struct statement_names){ 0 };
	hash_key_draw(&names->key);
	_Static_assert(STEM_SIZE < STATEMENT_STEM_MAX, "its zero has room");
	if (!digest_random(random, sizeof(random)))
		return false;
	for (size_t i = 0; i < STEM_SIZE; i++)
		names->stem[i] = letters[random[i] % 32];
	return true;
}

bool statements_init(struct statements *statements, struct statement_names *names)
{
	struct hash_key salt;

	hash_key_draw(&salt);
	statements->salt = salt.half[0];
	if (!names)
		return statement_names_draw(&statements->names);
	statements->names = *names;
	return true;
}

/*
 * ---- what a server knows ----
 *
 * Hard here: requests are sent long before their replies arrive, and after an error the server
 * skips the rest of the batch. Each change can be undone, and the ledger undoes changes in reverse
 * order, so that a Close and a Parse of one statement in one batch restore what was there before.
 * If the server has deallocated all statements since (DEALLOCATE ALL), there is nothing to restore.
 */

void server_statements_init(struct server_statements *known, const struct ledger *ledger)
{
	*known = (struct server_statements){ .ledger = ledger };
	TAILQ_INIT(&known->list);
}

/* A statement that is known under another name than its own. */
static struct server_statement *find_typed(const struct server_statements *known,
                                           const struct statement *statement)
{
	return TABLE_GET_OWN(typed_hh, known->typed_table, &statement, sizeof(statement));
}

/* One message of a client looks for the same statement several times. */
struct server_statement *server_statements_find(struct server_statements *known,
                                                const struct statement *statement, bool is_own)
{
	struct server_statement *entry = known->found;

	if (!entry || entry->statement != statement)
		HASH_FIND_PTR(known->table, &statement, entry);
	if (entry)
		known->found = entry;
	return entry || is_own ? entry : find_typed(known, statement);
}

static void link_entry(struct server_statements *known, struct server_statement *entry)
{
	HASH_ADD_PTR(known->table, statement, entry);
	TAILQ_INSERT_TAIL(&known->list, entry, node);
}

static void unlink_entry(struct server_statements *known, struct server_statement *entry)
{
	if (known->found == entry)
		known->found = NULL;
	if (entry->typed)
		HASH_DELETE(typed_hh, known->typed_table, entry);
	statement_release(&entry->typed);
	HASH_DEL(known->table, entry);
	TAILQ_REMOVE(&known->list, entry, node);
}

static void free_entry(struct server_statement *entry)
{
	statement_image_release(&entry->image);
	statement_release(&entry->statement);
	free(entry);
}

static void forget(struct server_statements *known, struct server_statement *entry)
{
	unlink_entry(known, entry);
	free_entry(entry);
}

void server_statements_done(struct server_statements *known)
{
	while (!TAILQ_EMPTY(&known->list))
		forget(known, TAILQ_FIRST(&known->list));
}

static struct server_statement *learn(struct server_statements *known, struct statement *statement,
                                      struct statement_image *image)
{
	struct server_statement *entry = calloc(1, sizeof(*entry));

	if (!entry)
		return NULL;
	entry->known = known;
	entry->statement = statement_hold(statement);
	entry->image = statement_image_hold(image);
	entry->parse_number = ++known->parse_count;
	link_entry(known, entry);
	return entry;
}

struct server_statement *server_statements_use(struct server_statements *known,
                                               const struct statement *statement, bool is_own)
{
	struct server_statement *entry = server_statements_find(known, statement, is_own);

	if (!entry || entry->state.is_stale || (is_own && entry->image != statement->image))
		return NULL;
	if (TAILQ_NEXT(entry, node)) {
		TAILQ_REMOVE(&known->list, entry, node);
		TAILQ_INSERT_TAIL(&known->list, entry, node);
	}
	return entry;
}

uint32_t server_statements_columns(struct server_statements *known,
                                   const struct statement *statement)
{
	const struct server_statement *entry = server_statements_find(known, statement, false);

	return entry && !entry->state.is_stale ? entry->state.columns : 0;
}

void server_statements_typed(struct server_statements *known, const struct statement *statement,
                             struct statement *typed, uint64_t parse_number)
{
	struct server_statement *entry = server_statements_find(known, statement, true);

	if (!entry || entry->parse_number != parse_number || entry->typed || typed == statement ||
	    find_typed(known, typed))
		return;
	entry->typed = statement_hold(typed);
	HASH_ADD_KEYPTR(typed_hh, known->typed_table, &entry->typed, sizeof(entry->typed), entry);
}

bool server_statements_is_sure(struct server_statements *known, const struct statement *statement)
{
	const struct server_statement *entry = server_statements_find(known, statement, false);

	return (entry && entry->is_confirmed) ||
	       !ledger_open_is_unsure(&known->open, known->ledger);
}

void server_statements_distrust(struct server_statements *known)
{
	TAILQ_EACH (entry, &known->list, node)
		entry->state.is_stale |= entry->is_confirmed;
}

void server_statements_distrust_marked(struct server_statements *known)
{
	TAILQ_EACH (entry, &known->list, node)
		entry->state.is_stale |= server_statement_is_marked(entry);
}

unsigned int server_statements_count(const struct server_statements *known)
{
	return HASH_COUNT(known->table);
}

bool server_statements_restore(struct server_statements *known, struct statement *statement,
                               struct statement_image *image,
                               const struct server_statement_state *state)
{
	struct server_statement *entry = server_statements_find(known, statement, true);

	if (entry)
		return bytes_equal(statement_image_name(entry->image), statement_image_name(image));
	/* Each loop makes an image with the same name. */
	if (bytes_equal(statement_image_name(image), statement_name(statement)))
		image = statement->image;
	entry = learn(known, statement, image);
	if (!entry)
		return false;
	entry->is_confirmed = true;
	entry->state = *state;
	return true;
}

struct server_statement *server_statements_oldest(struct server_statements *known,
                                                  unsigned int limit)
{
	return server_statements_count(known) < limit ? NULL : TAILQ_FIRST(&known->list);
}

void server_statements_forget_confirmed(struct server_statements *known)
{
	struct server_statement *entry, *next;

	known->loss_count++;
	TAILQ_FOREACH_SAFE (entry, &known->list, node, next) {
		if (entry->is_confirmed)
			forget(known, entry);
	}
}

/* ---- changes ---- */

static void settle_parse(struct ledger_change *change, bool is_done)
{
	struct server_statement *entry = container_of(change, struct server_statement, parse);

	ledger_open_end(&entry->known->open);
	if (is_done) {
		entry->is_confirmed = true;
		entry->state.done_at = clock_now();
	} else {
		forget(entry->known, entry);
	}
}

struct ledger_change *server_statements_learn(struct server_statements *known,
                                              struct statement *statement)
{
	struct server_statement *entry = learn(known, statement, statement->image);

	if (!entry)
		return NULL;
	entry->parse.settle = settle_parse;
	entry->state.sent_at = clock_now();
	ledger_open_begin(&known->open, known->ledger);
	return &entry->parse;
}

/*
 * What was sent behind it is undone before, so there is no other entry of the statement. If the
 * Parse of this one is not answered, that is undone next.
 */
static void settle_close(struct ledger_change *change, bool is_done)
{
	struct server_statement *entry = container_of(change, struct server_statement, close);

	ledger_open_end(&entry->known->open);
	if (is_done || (entry->is_confirmed && entry->loss_count != entry->known->loss_count))
		free_entry(entry);
	else
		link_entry(entry->known, entry);
}

struct ledger_change *server_statements_forget(struct server_statement *entry)
{
	struct server_statements *known = entry->known;

	unlink_entry(known, entry);
	entry->close.settle = settle_close;
	entry->loss_count = known->loss_count;
	ledger_open_begin(&known->open, known->ledger);
	return &entry->close;
}
