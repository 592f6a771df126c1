/* SPDX-License-Identifier: ISC */
/*
 * A hashed set of names, and one pass over the tokens of a text.
 *
 * Hard here: PostgreSQL cuts names at 63 bytes, and in some encodings makes an "i" of a letter that
 * is not ASCII. So a name is compared up to that size, a run of such bytes counts as an "i", and
 * several "i" count as one. A name that is not ASCII itself, or has quotes, may be spelled in
 * other ways: it counts in each text that is not ASCII, or has quotes in quotes.
 */
#include "pgweir/pgwire/sql_touch.h"

#include <stdlib.h>
#include <string.h>

#include "sql_priv.h"

#define SLOTS_MIN 16

/* The next letter of a name as it is compared; 0: its end. */
static char next_letter(struct bytes *name, char before)
{
	while (name->count) {
		char c = name->at[0];

		*name = bytes_skip(*name, 1);
		if (c & 0x80)
			c = 'i';
		else if (c >= 'A' && c <= 'Z')
			c |= 0x20;
		if (c != 'i' || before != 'i')
			return c;
	}
	return 0;
}

static struct bytes cut(struct bytes name)
{
	return bytes_of(name.at, name.count < SQL_NAME_MAX ? name.count : SQL_NAME_MAX);
}

static uint32_t hash_of(const struct sql_touchers *set, struct bytes name)
{
	char letters[SQL_NAME_MAX], c = 0;
	size_t count = 0;

	for (name = cut(name); (c = next_letter(&name, c));)
		letters[count++] = c;
	return (uint32_t)hash_bytes(&set->key, letters, count);
}

static bool is_same(struct bytes one, struct bytes other)
{
	char a = 0, b = 0;

	one = cut(one);
	other = cut(other);
	do {
		a = next_letter(&one, a);
		b = next_letter(&other, b);
	} while (a && a == b);
	return a == b;
}

static struct bytes name_at(const struct sql_touchers *set, size_t at)
{
	return bytes_text(sql_touchers_name(set, at));
}

/* One that compares equal to one before is not linked: many may, which would make a long chain. */
static void link_name(struct sql_touchers *set, size_t at)
{
	uint32_t *slot = &set->slots[hash_of(set, name_at(set, at)) & (set->slot_count - 1)];
	struct sql_toucher *toucher = &set->list[at], *other;

	for (uint32_t i = *slot; i; i = other->next) {
		other = &set->list[i - 1];
		if (other->is_called == toucher->is_called &&
		    is_same(name_at(set, i - 1), name_at(set, at))) {
			other->all |= toucher->bits;
			return;
		}
	}
	toucher->all = toucher->bits;
	toucher->next = *slot;
	*slot = (uint32_t)at + 1;
}

/* Makes room for one more. */
static bool grow(struct sql_touchers *set)
{
	size_t count = set->slot_count ? 2 * set->slot_count : SLOTS_MIN;
	struct sql_toucher *list;
	uint32_t *slots;

	if (set->count < set->slot_count)
		return true;
	list = realloc(set->list, count * sizeof(*list));
	if (!list)
		return false;
	set->list = list;
	if (!set->slot_count)
		hash_key_draw(&set->key);
	slots = calloc(count, sizeof(*slots));
	if (!slots)
		return false;
	free(set->slots);
	set->slots = slots;
	set->slot_count = count;
	for (size_t at = 0; at < set->count; at++)
		link_name(set, at);
	return true;
}

bool sql_touchers_add(struct sql_touchers *set, struct bytes name, const struct sql_toucher *what)
{
	size_t before = set->names.count;

	if (!grow(set))
		return false;
	buf_add(&set->names, name.at, name.count);
	buf_add_byte(&set->names, 0);
	if (!buf_ok(&set->names))
		return false;
	set->list[set->count] = *what;
	set->list[set->count].name = (uint32_t)before;
	if (!bytes_are_ascii(name) || memchr(name.at, '?', name.count) ||
	    memchr(name.at, '"', name.count))
		set->odd_bits |= what->bits;
	link_name(set, set->count++);
	return true;
}

void sql_touchers_free(struct sql_touchers *set)
{
	free(set->list);
	free(set->slots);
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
	const struct sql_touchers *set = look->set;
	uint32_t at = set->slots[hash_of(set, name) & (set->slot_count - 1)];

	for (; at; at = set->list[at - 1].next) {
		const struct sql_toucher *toucher = &set->list[at - 1];

		if ((toucher->is_called && !is_call) || !is_same(name_at(set, at - 1), name))
			continue;
		look->bits |= toucher->all;
		look->first = look->first ? look->first : toucher;
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
