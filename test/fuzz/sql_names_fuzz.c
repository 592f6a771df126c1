/* SPDX-License-Identifier: ISC */
/*
 * Fuzzing the reader of placeholders: a set is bounded and in order, what a text may set of itself
 * is among what it may set with functions, and another statement in front changes nothing.
 */
#include "pgweir/pgwire/sql_names.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_names(const struct sql_names *names)
{
	assert(names->count <= SQL_NAMES_MAX && names->list.count <= SQL_NAMES_SIZE_MAX);
	for (size_t i = 0; i < names->count; i++) {
		const char *name = names->list.at + names->order[i];

		assert(sql_name_judge(bytes_text(name)) == SQL_NAME_PLACEHOLDER);
		assert(i == 0 || strcmp(names->list.at + names->order[i - 1], name) < 0);
	}
}

/* Whether all names of the other set are there. */
static void has_all(struct sql_names *names, const struct sql_names *others)
{
	uint16_t count = names->count;

	assert(names->is_unknown || !others->is_unknown);
	assert((names->parameters & others->parameters) == others->parameters);
	if (names->is_unknown)
		return;
	sql_names_merge(names, others);
	assert(names->count == count);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sql_names plain = { 0 }, inside = { 0 }, behind = { 0 };
	struct bytes text = bytes_of(data, size);
	struct buf both = { 0 };

	sql_names_read(&plain, text, false);
	sql_names_read(&inside, text, true);
	check_names(&plain);
	check_names(&inside);
	buf_add_text(&both, "SELECT 1;");
	buf_add(&both, data, size);
	sql_names_read(&behind, buf_bytes(&both), false);
	has_all(&behind, &plain);
	has_all(&inside, &plain);
	assert(size * 24 + 100 > plain.compare_count);
	buf_free(&both);
	sql_names_free(&plain);
	sql_names_free(&inside);
	sql_names_free(&behind);
	return 0;
}
