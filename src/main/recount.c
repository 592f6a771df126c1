/* SPDX-License-Identifier: ISC */
/*
 * Counts the rules that are new and gone, and the users.
 */
#include "load.h"

#include <stdlib.h>
#include <string.h>

#include "pgweir/base/table.h"

/* Rules that look the same. */
struct recount_line {
	UT_hash_handle hh;
	int count; /* how many more the new configuration has */
	char text[];
};

static struct recount_line *line_new(struct recount *recount, struct bytes text)
{
	struct recount_line *line = calloc(1, sizeof(*line) + text.count);

	if (line) {
		memcpy(line->text, text.at, text.count);
		HASH_ADD_KEYPTR(hh, recount->lines, line->text, text.count, line);
	}
	return line;
}

void recount_rule(struct recount *recount, const char *const *columns, enum recount_of whose)
{
	struct recount_line *line = NULL;
	struct buf text = { 0 };

	for (size_t i = 0; i < RECOUNT_RULE_COLUMNS; i++)
		buf_printf(&text, "%s\t", columns[i] ? columns[i] : "");
	if (buf_ok(&text)) {
		HASH_FIND(hh, recount->lines, text.at, text.count, line);
		if (!line)
			line = line_new(recount, buf_bytes(&text));
	}
	if (line)
		line->count += whose;
	recount->is_broken |= !line;
	recount->new_count += whose == RECOUNT_NEW;
	buf_free(&text);
}

void recount_rules(struct recount *recount, const struct hba *hba, enum recount_of whose)
{
	static const size_t places[] = { 1, 2, 3, 4, 6 }; /* of hba_rule_texts() */
	struct buf texts = { 0 };

	for (size_t i = 0; hba && i < hba->count; i++) {
		const struct hba_rule *rule = &hba->rules[i];
		const char *columns[RECOUNT_RULE_COLUMNS] = {
			[0] = hba_type_name(rule->type), [5] = auth_methods[rule->method].hba_name
		};
		struct bytes rest;

		buf_clear(&texts);
		hba_rule_texts(rule, &texts);
		rest = buf_bytes(&texts);
		recount->is_broken |= !buf_ok(&texts);
		for (size_t j = 0; j < sizeof(places) / sizeof(places[0]); j++)
			bytes_take_text(&rest, &columns[places[j]]);
		recount_rule(recount, columns, whose);
	}
	buf_free(&texts);
}

bool recount_end(struct recount *recount, struct buf *out)
{
	size_t added = 0, gone = 0, count = recount->new_count;
	bool is_broken = recount->is_broken;
	struct recount_line *line, *next;

	HASH_ITER (hh, recount->lines, line, next) {
		added += line->count > 0 ? (size_t)line->count : 0;
		gone += line->count < 0 ? (size_t)-line->count : 0;
		HASH_DEL(recount->lines, line);
		free(line);
	}
	*recount = (struct recount){ 0 };
	if (is_broken || (gone == 0 && added == 0))
		return false;
	buf_printf(out, "%zu rule%s (%zu new, %zu gone)", count, count == 1 ? "" : "s", added,
	           gone);
	return true;
}

/* ---- users ---- */

struct census {
	const struct users *old;
	size_t added, changed, kept;
};

static void count_user(const struct user *user, void *arg)
{
	struct census *census = arg;
	const struct user *before = users_find(census->old, user->name);
	const char *secret = before && before->secret.text ? before->secret.text : "";

	census->added += !before;
	census->kept += before != NULL;
	if (before && strcmp(secret, user->secret.text ? user->secret.text : "") != 0)
		census->changed++;
}

bool recount_users(const struct users *old, const struct users *fresh, struct buf *out)
{
	struct census census = { .old = old };
	size_t gone;

	users_each(fresh, count_user, &census);
	gone = users_count(old) - census.kept;
	if (census.added == 0 && gone == 0 && census.changed == 0)
		return false;
	buf_printf(out, "%zu user%s (%zu new, %zu gone, %zu changed)", users_count(fresh),
	           users_count(fresh) == 1 ? "" : "s", census.added, gone, census.changed);
	return true;
}
