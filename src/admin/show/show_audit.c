/* SPDX-License-Identifier: ISC */
/*
 * SHOW AUDIT: the session features that clients in session mode use, and how many servers they
 * would need in transaction mode.
 */
#include "show_priv.h"

#include <stdio.h>

#include "pgweir/client/audit.h"

#include "pgweir/base/banned.h"

#define ADVICE_SIZE 120
#define STEPS ((size_t)AUDIT_FEATURES + 1) /* of a row: its features, then whether it had any */

struct audit_shown {
	const char *database, *user, *application_name, *feature, *in_transaction_mode, *example;
	int64_t sessions, servers, count, found;
	char advice[ADVICE_SIZE];
};
_Static_assert(sizeof(struct audit_shown) <= ROW_SIZE_MAX, "a row is too large");

#define TEXT(field, help) COLUMN(struct audit_shown, VALUE_TEXT, field, help)
#define INT4(field, help) COLUMN(struct audit_shown, VALUE_INT4, field, help)

static const struct column audit_columns[] = {
	TEXT(database, "Name of the database; (others): more were used than there are rows."),
	TEXT(user, "User of the clients; in a row without application_name, of the pool."),
	TEXT(application_name,
	     "application_name at the first statement that was counted; NULL: all "
	     "clients of the pool together."),
	INT4(sessions, "The most sessions at once that have sent a statement."),
	INT4(servers, "The most servers that they would have needed at once in transaction mode: "
	              "for sessions in a transaction, and for those whose server would have stayed "
	              "with them, counted until they disconnected or executed DISCARD ALL."),
	TEXT(feature, "Session feature that their statements use; NULL: none."),
	COLUMN(struct audit_shown, VALUE_INT8, count, "How many statements used it."),
	TEXT(in_transaction_mode,
	     "What transaction mode does with it, with session_state = follow."),
	TEXT(example, "The first of these statements, without its constants; before it, with a "
	              "colon, the function or relation that does it, if the statement does not "
	              "show it (SHOW CATALOG)."),
	COLUMN(struct audit_shown, VALUE_INT8, found,
	       "How many sessions had it although no statement explains it. The server is asked "
	       "after one transaction in session_sample."),
};

#undef TEXT
#undef INT4

static void fill(struct audit_shown *shown, const struct audit_row *row)
{
	*shown = (struct audit_shown){
		.database = row->database ? row->database : "(others)",
		.user = row->user,
		.application_name = row->application_name,
		.sessions = row->sessions_peak,
		.servers = row->servers_peak,
	};
}

static void fill_feature(struct audit_shown *shown, const struct audit_row *row,
                         enum audit_feature feature)
{
	const struct audit_feature_row *about = audit_feature_row(feature);

	fill(shown, row);
	shown->feature = about->name;
	shown->count = (int64_t)row->counts[feature];
	shown->found = (int64_t)row->found[feature];
	shown->in_transaction_mode = about->fate;
	shown->example = row->examples[feature];
}

/* The row of a pool says how many servers are enough; another without features, that it has none.
 */
static void fill_end(struct audit_shown *shown, const struct audit_row *row)
{
	fill(shown, row);
	shown->in_transaction_mode = "nothing to carry";
	if (row->application_name)
		return;
	snprintf(shown->advice, sizeof(shown->advice),
	         "pool_size = %u would have been enough for %u sessions", row->servers_peak,
	         row->sessions_peak);
	shown->in_transaction_mode = shown->advice;
}

static bool has_used_any(const struct audit_row *row)
{
	for (int i = 0; i < AUDIT_FEATURES; i++) {
		if (row->counts[i] || row->found[i])
			return true;
	}
	return false;
}

/* Adds what the other lanes counted. false: a lane before the cursor's has the row. */
static bool complete(const struct cursor *cursor, struct audit_row *sum,
                     const struct audit_row *row)
{
	const struct lanes *lanes = show_source_lanes(cursor->source);
	const struct audit_row *other;

	for (unsigned int i = 0; i < lanes->count; i++) {
		other = i == cursor->lane ? NULL : audit_like(&lanes->at[i].clients->audit, row);
		if (!other)
			continue;
		if (i < cursor->lane)
			return false;
		sum->sessions_peak += other->sessions_peak;
		sum->servers_peak += other->servers_peak;
		for (int j = 0; j < AUDIT_FEATURES; j++) {
			sum->counts[j] += other->counts[j];
			sum->found[j] += other->found[j];
			if (!sum->examples[j])
				sum->examples[j] = other->examples[j];
		}
	}
	return true;
}

/* The row that has this step of the cursor's index, or the next one, in the cursor's lane. */
static bool next_of_lane(struct cursor *cursor, struct audit_shown *at)
{
	const struct audit *audit =
	    &show_source_lanes(cursor->source)->at[cursor->lane].clients->audit;
	const struct audit_row *row;
	struct audit_row sum;

	while ((row = audit_find(audit, cursor->index / STEPS)) != NULL) {
		size_t step = row->number == cursor->index / STEPS ? cursor->index % STEPS : 0;

		if (!cursor_may_look(cursor))
			return false;
		cursor->index = row->number * STEPS + step + 1;
		sum = *row;
		if (!complete(cursor, &sum, row))
			continue;
		if (step < AUDIT_FEATURES && (sum.counts[step] || sum.found[step])) {
			fill_feature(at, &sum, (enum audit_feature)step);
			return true;
		}
		if (step == AUDIT_FEATURES && (!sum.application_name || !has_used_any(&sum))) {
			fill_end(at, &sum);
			return true;
		}
	}
	return false;
}

/* cursor->index: the number of a row in its lane, and the next step within it. */
static bool next_audit(struct cursor *cursor, void *at)
{
	while (!next_of_lane(cursor, at)) {
		if (cursor->has_more ||
		    cursor->lane + 1 == show_source_lanes(cursor->source)->count)
			return false;
		cursor->lane++;
		cursor->index = 0;
	}
	return true;
}

const struct show show_audit = {
	.item = "AUDIT",
	.next = next_audit,
	.columns = COLUMNS(audit_columns),
	.help = "Session features that clients use in session mode (session_audit), and how many "
		"servers transaction mode would need.",
};
