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

static sqlstate_key key_of(const char *sqlstate, bool is_ours, enum sqlstate_severity severity)
{
	sqlstate_key key = (sqlstate_key)severity | (is_ours ? 0x100 : 0);

	for (int i = 0; i < SQLSTATE_SIZE - 1; i++)
		key |= (sqlstate_key)(unsigned char)sqlstate[i] << (56 - 8 * i);
	return key;
}

static size_t find_place(const struct sqlstates *sqlstates, sqlstate_key key)
{
	return array_find(sqlstates->counts, sqlstates->count, sizeof(*sqlstates->counts), key);
}

const struct sqlstate_count *sqlstates_from(const struct sqlstates *sqlstates, sqlstate_key key)
{
	size_t at = find_place(sqlstates, key);

	return at < sqlstates->count ? &sqlstates->counts[at] : NULL;
}

/* Whether its class is one of PostgreSQL's. */
static bool has_known_class(const char *sqlstate)
{
	static const char classes[] = "000102030809202122232425262728343839404244535455575872"
				      "0A0B0F0L0P0Z2B2D2F3B3D3FF0HVP0XX";
	const char *at = classes;

	while (*at && memcmp(at, sqlstate, 2) != 0)
		at += 2;
	return *at;
}

/* NULL: there is none, and may be none, or no memory. */
static struct sqlstate_count *count_of(struct sqlstates *sqlstates, const char *sqlstate,
                                       sqlstate_key key, bool may_add)
{
	size_t at = find_place(sqlstates, key);
	struct sqlstate_count *counts;

	if (at < sqlstates->count && sqlstates->counts[at].key == key)
		return &sqlstates->counts[at];
	counts = may_add ? array_room(sqlstates->counts, sqlstates->count, &sqlstates->room,
	                              sizeof(*counts))
	                 : NULL;
	if (!counts)
		return NULL;
	sqlstates->counts = counts;
	counts += at;
	memmove(counts + 1, counts, (sqlstates->count - at) * sizeof(*counts));
	*counts = (struct sqlstate_count){ .key = key };
	text_copy(counts->sqlstate, sizeof(counts->sqlstate), sqlstate);
	sqlstates->count++;
	return counts;
}

/* If there is no room for one more, that of its class counts it, or that of all others. */
void sqlstates_note(struct sqlstates *sqlstates, const struct sqlstate_said *said)
{
	enum sqlstate_severity severity = severity_of(said->severity);
	bool has_room = said->is_ours || sqlstates->count < SQLSTATES_MAX;
	char sqlstate[SQLSTATE_SIZE] = SQLSTATES_OTHER;
	struct sqlstate_count *count;

	sqlstates->total++;
	if (strlen(said->sqlstate) == SQLSTATE_SIZE - 1)
		memcpy(sqlstate, said->sqlstate, SQLSTATE_SIZE);
	count = count_of(sqlstates, sqlstate, key_of(sqlstate, said->is_ours, severity), has_room);
	if (!count && !has_room) {
		if (has_known_class(sqlstate))
			memcpy(sqlstate + 2, "000", 3);
		else
			memcpy(sqlstate, SQLSTATES_OTHER, SQLSTATE_SIZE);
		count = count_of(sqlstates, sqlstate, key_of(sqlstate, false, severity), true);
	}
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
