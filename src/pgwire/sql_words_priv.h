/* SPDX-License-Identifier: ISC */
/*
 * Tables of words that mean something in a text of SQL, in the order of their sizes.
 */
#ifndef PGWEIR_PGWIRE_SQL_WORDS_PRIV_H
#define PGWEIR_PGWIRE_SQL_WORDS_PRIV_H

#include "pgweir/base/bytes.h"

/* The first member of a table's entries. */
struct sql_word {
	const char *text; /* in lower case */
	unsigned char size;
};

#define SQL_WORD(text)                 \
	{                              \
		text, sizeof(text) - 1 \
	}

/* Whether a text, which has at least as many bytes, begins with this word in any case. */
static inline bool sql_word_begins(struct bytes text, const struct sql_word *word)
{
	for (size_t i = 0; i < word->size; i++) {
		char c = text.at[i];

		if ((c >= 'A' && c <= 'Z' ? c + 32 : c) != word->text[i])
			return false;
	}
	return true;
}

/* Returns the entry of a table with `count` entries of `width` bytes; NULL: none is this word. */
static inline const void *sql_word_find(const void *table, size_t count, size_t width,
                                        struct bytes text)
{
	const char *end = (const char *)table + count * width, *at;
	size_t low = 0, high = count;

	while (low < high) {
		size_t middle = (low + high) / 2;
		const struct sql_word *word = (const void *)((const char *)table + middle * width);

		if (word->size < text.count)
			low = middle + 1;
		else
			high = middle;
	}
	for (at = (const char *)table + low * width; at < end; at += width) {
		const struct sql_word *word = (const void *)at;

		if (word->size != text.count)
			break;
		if (sql_word_begins(text, word))
			return at;
	}
	return NULL;
}

#endif
