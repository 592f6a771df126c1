/* SPDX-License-Identifier: ISC */
/*
 * Counts what is new and gone. Sorts both lists, so the time does not grow with the square
 * of their length.
 */
#include "check.h"

#include <stdlib.h>
#include <string.h>

#define RULE_COLUMNS 7 /* type, database, user_name, address, netmask, auth_method, options */

static void add_line(struct listing *listing, const char *line)
{
	char **grown =
	    array_room(listing->lines, listing->count, &listing->capacity, sizeof(*grown));
	char *copy = grown ? strdup(line) : NULL;

	if (grown)
		listing->lines = grown;
	if (copy)
		listing->lines[listing->count++] = copy;
	else
		listing->is_whole = false;
}

void listing_done(struct listing *listing)
{
	for (size_t i = 0; i < listing->count; i++)
		free(listing->lines[i]);
	free(listing->lines);
	*listing = (struct listing)LISTING_EMPTY;
}

void listing_add_rule(struct listing *listing, const char *const *columns, size_t count)
{
	struct buf line = { 0 };

	for (size_t i = 0; i < count && i < RULE_COLUMNS; i++)
		buf_printf(&line, "%s\t", columns[i] ? columns[i] : "");
	buf_text(&line);
	if (buf_ok(&line))
		add_line(listing, line.at);
	else
		listing->is_whole = false;
	buf_free(&line);
}

void listing_add_rules(struct listing *listing, const struct hba *hba)
{
	struct buf texts = { 0 };

	for (size_t i = 0; hba && i < hba->count; i++) {
		const struct hba_rule *rule = &hba->rules[i];
		const char *database = "", *user = "", *address = "", *netmask = "", *options = "";
		struct bytes rest;

		buf_clear(&texts);
		hba_rule_texts(rule, &texts);
		rest = buf_bytes(&texts);
		listing->is_whole &= buf_ok(&texts);
		if (bytes_take_text(&rest, &database) && bytes_take_text(&rest, &user) &&
		    bytes_take_text(&rest, &address) && bytes_take_text(&rest, &netmask))
			bytes_take_text(&rest, &options);
		listing_add_rule(
		    listing,
		    (const char *const[]){ hba_type_name(rule->type), database, user, address,
		                           netmask, auth_methods[rule->method].hba_name, options },
		    RULE_COLUMNS);
	}
	buf_free(&texts);
}

static int compare_lines(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void sort(struct listing *listing)
{
	if (listing->count)
		qsort(listing->lines, listing->count, sizeof(*listing->lines), compare_lines);
}

bool listing_compare(struct listing *old, struct listing *fresh, struct buf *out)
{
	size_t i = 0, j = 0, added = 0, gone = 0;

	sort(old);
	sort(fresh);
	while (i < old->count || j < fresh->count) {
		int order = i == old->count     ? 1
		            : j == fresh->count ? -1
		                                : strcmp(old->lines[i], fresh->lines[j]);

		gone += order < 0;
		added += order > 0;
		i += order <= 0;
		j += order >= 0;
	}
	if (!old->is_whole || !fresh->is_whole || (gone == 0 && added == 0))
		return false;
	buf_printf(out, "%zu rule%s (%zu new, %zu gone)", fresh->count,
	           fresh->count == 1 ? "" : "s", added, gone);
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

bool listing_compare_users(const struct users *old, const struct users *fresh, struct buf *out)
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
