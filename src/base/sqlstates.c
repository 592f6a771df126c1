/* SPDX-License-Identifier: ISC */
/*
 * Counts of errors by SQLSTATE: a sorted array, searched in halves.
 */
#include "pgweir/base/sqlstates.h"

#include <stdlib.h>
#include <string.h>

#include "pgweir/base/text.h"

static const char *const severity_names[] = {
	[SQLSTATE_ERROR] = "ERROR",
	[SQLSTATE_FATAL] = "FATAL",
	[SQLSTATE_PANIC] = "PANIC",
};

const char *sqlstates_severity_name(enum sqlstate_severity severity)
{
	return severity_names[severity];
}

/* An unknown word, such as one in another language, counts as ERROR. */
static enum sqlstate_severity severity_of(const char *name)
{
	for (int i = SQLSTATE_FATAL; i <= SQLSTATE_PANIC; i++) {
		if (name && strcmp(name, severity_names[i]) == 0)
			return (enum sqlstate_severity)i;
	}
	return SQLSTATE_ERROR;
}

/* ---- counting ---- */

int sqlstates_compare(const struct sqlstate_key *a, const struct sqlstate_key *b)
{
	int order = strcmp(a->sqlstate, b->sqlstate);

	if (order)
		return order;
	if (a->is_ours != b->is_ours)
		return a->is_ours ? 1 : -1;
	return (int)a->severity - (int)b->severity;
}

/* The index of the first count whose key is not less than this one. */
static size_t find_place(const struct sqlstates *sqlstates, const struct sqlstate_key *key)
{
	size_t low = 0, high = sqlstates->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (sqlstates_compare(&sqlstates->counts[middle].key, key) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static bool has_key(const struct sqlstates *sqlstates, size_t at, const struct sqlstate_key *key)
{
	return at < sqlstates->count && sqlstates_compare(&sqlstates->counts[at].key, key) == 0;
}

const struct sqlstate_count *sqlstates_find(const struct sqlstates *sqlstates,
                                            const struct sqlstate_key *key)
{
	size_t at = find_place(sqlstates, key);

	return has_key(sqlstates, at, key) ? &sqlstates->counts[at] : NULL;
}

const struct sqlstate_count *sqlstates_after(const struct sqlstates *sqlstates,
                                             const struct sqlstate_key *key)
{
	size_t at = find_place(sqlstates, key);

	at += has_key(sqlstates, at, key);
	return at < sqlstates->count ? &sqlstates->counts[at] : NULL;
}

/* NULL: no memory. */
static struct sqlstate_count *insert(struct sqlstates *sqlstates, size_t at,
                                     const struct sqlstate_key *key)
{
	struct sqlstate_count *count =
	    array_room(sqlstates->counts, sqlstates->count, &sqlstates->room, sizeof(*count));

	if (!count)
		return NULL;
	sqlstates->counts = count;
	count = &sqlstates->counts[at];
	memmove(count + 1, count, (sqlstates->count - at) * sizeof(*count));
	*count = (struct sqlstate_count){ .key = *key };
	sqlstates->count++;
	return count;
}

/* Whether its class is one of PostgreSQL's. */
static bool has_known_class(const struct sqlstate_key *key)
{
	static const char classes[] = "000102030809202122232425262728343839404244535455575872"
				      "0A0B0F0L0P0Z2B2D2F3B3D3FF0HVP0XX";
	const char *at = classes;

	while (*at && memcmp(at, key->sqlstate, 2) != 0)
		at += 2;
	return *at;
}

/* The count of this key. If there is no room for one more: that of its class, or of all others. */
static struct sqlstate_count *count_of(struct sqlstates *sqlstates, struct sqlstate_key *key)
{
	size_t at = find_place(sqlstates, key);

	if (!key->is_ours && !has_key(sqlstates, at, key) && sqlstates->count >= SQLSTATES_MAX) {
		if (has_known_class(key))
			memcpy(key->sqlstate + 2, "000", 3);
		else
			text_copy(key->sqlstate, sizeof(key->sqlstate), SQLSTATES_OTHER);
		at = find_place(sqlstates, key);
	}
	return has_key(sqlstates, at, key) ? &sqlstates->counts[at] : insert(sqlstates, at, key);
}

void sqlstates_note(struct sqlstates *sqlstates, const struct sqlstate_said *said)
{
	struct sqlstate_key key = { .is_ours = said->is_ours,
		                    .severity = severity_of(said->severity) };
	struct sqlstate_count *count;

	sqlstates->total++;
	text_copy(key.sqlstate, sizeof(key.sqlstate),
	          strlen(said->sqlstate) == SQLSTATE_SIZE - 1 ? said->sqlstate : SQLSTATES_OTHER);
	count = count_of(sqlstates, &key);
	if (!count)
		return;
	count->count++;
	count->wall_last = wall_now();
	text_copy(count->database, sizeof(count->database), said->database ? said->database : "");
	text_copy(count->user, sizeof(count->user), said->user ? said->user : "");
}

void sqlstates_done(struct sqlstates *sqlstates)
{
	free(sqlstates->counts);
	*sqlstates = (struct sqlstates){ 0 };
}
