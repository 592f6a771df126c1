/* SPDX-License-Identifier: ISC */
/*
 * A hashed set of names, and one pass over the tokens of a text.
 *
 * Hard here: PostgreSQL cuts names at 63 bytes, and in some encodings makes an "i" of a letter that
 * is not ASCII. So a name is compared up to that size, a run of such bytes counts as an "i", and
 * several "i" count as one. A name that is not ASCII itself, or has quotes, may be spelled in
 * other ways: it counts in each text that is not ASCII, or has quotes in quotes.
 */
#define HASH_NONFATAL_OOM 1 /* out of memory: the element is not added and its hh.tbl is NULL */

#include "pgweir/pgwire/sql_touch.h"

#include <stdlib.h>
#include <string.h>

#include "pgweir/base/table.h"

#include "sql_priv.h"

/* All names that compare equal. */
struct sql_touchers_same {
	UT_hash_handle hh; /* by `letters` */
	/* what is meant anywhere, and what only a call means */
	struct {
		unsigned int bits;
		uint32_t first; /* in the list, from 1; 0: none */
	} of[2];
	char letters[];
};

/* The letters of a name as they are compared. Returns how many there are. */
static size_t fold(struct bytes name, char letters[static SQL_NAME_MAX])
{
	size_t size = name.count < SQL_NAME_MAX ? name.count : SQL_NAME_MAX, count = 0;

	for (size_t i = 0; i < size; i++) {
		char c = name.at[i] & 0x80 ? 'i' : sql_lower(name.at[i]);

		if (c != 'i' || !count || letters[count - 1] != 'i')
			letters[count++] = c;
	}
	return count;
}

static struct sql_touchers_same *find(const struct sql_touchers *set, const char *letters,
                                      size_t count)
{
	return TABLE_GET(hh, &set->key, set->table, letters, count);
}

/* NULL: no memory. */
static struct sql_touchers_same *find_or_make(struct sql_touchers *set, struct bytes name)
{
	char letters[SQL_NAME_MAX];
	size_t count = fold(name, letters);
	struct sql_touchers_same *found = find(set, letters, count);

	if (found)
		return found;
	found = calloc(1, sizeof(*found) + count);
	if (!found)
		return NULL;
	memcpy(found->letters, letters, count);
	TABLE_ADD(hh, &set->key, set->table, found->letters, count, found);
	if (found->hh.tbl)
		return found;
	free(found);
	return NULL;
}

bool sql_touchers_add(struct sql_touchers *set, struct bytes name, const struct sql_toucher *what)
{
	struct sql_toucher *list =
	    array_room(set->list, set->count, &set->capacity, sizeof(*set->list));
	uint32_t before = (uint32_t)set->names.count;
	struct sql_touchers_same *same;

	if (!list)
		return false;
	set->list = list;
	if (!set->count)
		hash_key_draw(&set->key);
	same = find_or_make(set, name);
	buf_add(&set->names, name.at, name.count);
	buf_add_byte(&set->names, 0);
	if (!same || !buf_ok(&set->names))
		return false;
	list[set->count] = *what;
	list[set->count++].name = before;
	same->of[what->is_called].bits |= what->bits;
	if (!same->of[what->is_called].first)
		same->of[what->is_called].first = (uint32_t)set->count;
	if (!bytes_are_ascii(name) || memchr(name.at, '?', name.count) ||
	    memchr(name.at, '"', name.count))
		set->odd_bits |= what->bits;
	return true;
}

void sql_touchers_free(struct sql_touchers *set)
{
	struct sql_touchers_same *name, *next;

	HASH_ITER (hh, set->table, name, next) {
		HASH_DEL(set->table, name);
		free(name);
	}
	free(set->list);
	buf_free(&set->names);
	*set = (struct sql_touchers){ 0 };
}

/* ---- texts ---- */

struct look {
	const struct sql_touchers *set;
	const struct sql_toucher *first;
	unsigned int bits;
};

static void look_up(struct look *look, struct bytes name, bool is_call)
{
	char letters[SQL_NAME_MAX];
	const struct sql_touchers_same *found = find(look->set, letters, fold(name, letters));

	for (int called = 0; found && called <= is_call; called++) {
		look->bits |= found->of[called].bits;
		if (!look->first && found->of[called].first)
			look->first = &look->set->list[found->of[called].first - 1];
	}
}

static void look_at_tokens(struct look *look, struct scanner scanner)
{
	struct token token = sql_token(&scanner), next;
	bool is_behind_point = false;

	for (; token.kind != TOKEN_END; token = next) {
		next = sql_token(&scanner);
		if (sql_is_name(&token))
			look_up(look, sql_name_text(&token),
			        is_behind_point || sql_token_is_sign(&next, '('));
		is_behind_point = sql_token_is_sign(&token, '.');
	}
}

unsigned int sql_touchers_in(const struct sql_touchers *set, struct bytes text,
                             const struct sql_toucher **first)
{
	struct look look = { .set = set };

	if (first)
		*first = NULL;
	if (set->count == 0 || text.count == 0)
		return 0;
	look_at_tokens(&look, (struct scanner){ .rest = text });
	/* standard_conforming_strings of the session is not known here. */
	if (sql_has_backslash(text))
		look_at_tokens(&look, (struct scanner){ .rest = text, .is_escaped = true });
	if (set->odd_bits && (!bytes_are_ascii(text) || memmem(text.at, text.count, "\"\"", 2)))
		look.bits |= set->odd_bits;
	if (sql_touch_is_unclear(text))
		look.bits |= SQL_TOUCH_HIDDEN;
	if (first)
		*first = look.first;
	return look.bits;
}
