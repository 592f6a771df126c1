/* SPDX-License-Identifier: ISC */
/* pool/server/held.c: each kind, at each event, and before each kind of client. */
#include "pgweir/pool/server/held.h"

#include "../../unit.h"

/* What becomes of a kind: '.' it stays, '-' it is gone, 'F' foreign, 'f' former. */
static const struct {
	unsigned int kind;
	const char *says;
	const char *after; /* of each event, in their order */
	/* before a session, before others; the same where the cleaning is refused */
	enum held_need needs[4];
} rows[] = {
	/* after:   lent, settled, asked, loaded, discarded, cleaned, proven,
	            parameters read, restarted, kept, returned */
	{ HELD_STATE,
	  "state of the borrower",
	  ".-..-....-.",
	  { NEEDS_DISCARD, NEEDS_DISCARD, NEEDS_DISCARD, NEEDS_DISCARD } },
	{ HELD_SESSION,
	  "a session",
	  "..f.-....-.",
	  { NEEDS_RESET, NEEDS_DISCARD, NEEDS_RESET, NEEDS_DISCARD } },
	{ HELD_FORMER,
	  "a session in another mode now",
	  "....-....-.",
	  { NEEDS_DISCARD, NEEDS_DISCARD, NEEDS_DISCARD, NEEDS_DISCARD } },
	{ HELD_UNKNOWN,
	  "what nobody knows of",
	  "F........-.",
	  { NEEDS_CLEANING, NEEDS_CLEANING, NEEDS_DISCARD, NEEDS_DISCARD } },
	{ HELD_FOREIGN,
	  "the same of others",
	  ".....-...-.",
	  { NEEDS_CLEANING, NEEDS_CLEANING, NEEDS_DISCARD, NEEDS_DISCARD } },
	{ HELD_LATE,
	  "the same, found while it is lent",
	  ".........-F",
	  { NEEDS_CLEANING, NEEDS_CLEANING, NEEDS_DISCARD, NEEDS_DISCARD } },
	{ HELD_LOADS,
	  "libraries that may be there",
	  "...-.......",
	  { NEEDS_CLOSING, NEEDS_CLOSING, NEEDS_CLOSING, NEEDS_CLOSING } },
	{ HELD_LIBRARY,
	  "libraries of its map",
	  "...........",
	  { NEEDS_NOTHING, NEEDS_NOTHING, NEEDS_NOTHING, NEEDS_NOTHING } },
	{ HELD_LASTING,
	  "what nothing removes",
	  "...........",
	  { NEEDS_CLOSING, NEEDS_CLOSING, NEEDS_CLOSING, NEEDS_CLOSING } },
	{ HELD_CHANNELS,
	  "channels",
	  "......-..-.",
	  { NEEDS_NOTHING, NEEDS_NOTHING, NEEDS_NOTHING, NEEDS_NOTHING } },
	{ HELD_STEP,
	  "replies out of step",
	  "......-..-.",
	  { NEEDS_NOTHING, NEEDS_NOTHING, NEEDS_NOTHING, NEEDS_NOTHING } },
	{ HELD_DDL,
	  "a definition, in records only",
	  "...........",
	  { NEEDS_NOTHING, NEEDS_NOTHING, NEEDS_NOTHING, NEEDS_NOTHING } },
	{ HELD_REST,
	  "parameters behind a RESET",
	  ".......---.",
	  { NEEDS_NOTHING, NEEDS_NOTHING, NEEDS_NOTHING, NEEDS_NOTHING } },
	{ HELD_STARTUP,
	  "parameters that were set back",
	  ".......---.",
	  { NEEDS_NOTHING, NEEDS_NOTHING, NEEDS_NOTHING, NEEDS_NOTHING } },
	{ HELD_REPORT,
	  "an unclear report",
	  ".......-.-.",
	  { NEEDS_NOTHING, NEEDS_NOTHING, NEEDS_NOTHING, NEEDS_NOTHING } },
};

static unsigned int expected(unsigned int kind, char sign)
{
	switch (sign) {
	case '.':
		return kind;
	case 'F':
		return HELD_FOREIGN;
	case 'f':
		return HELD_FORMER;
	default:
		return 0;
	}
}

START_TEST(each_kind_at_each_event)
{
	ck_assert_uint_eq(strlen(rows[_i].after), HELD_EVENTS);
	for (size_t event = 0; event < HELD_EVENTS; event++)
		ck_assert_msg(held_after(rows[_i].kind, (enum held_event)event) ==
		                  expected(rows[_i].kind, rows[_i].after[event]),
		              "%s, event %zu", rows[_i].says, event);
}
END_TEST

START_TEST(each_kind_before_each_client)
{
	for (unsigned int i = 0; i < COUNT_OF(rows[0].needs); i++)
		ck_assert_msg(held_need(rows[_i].kind, i % 2 == 0, i < 2) == rows[_i].needs[i],
		              "%s, need %u", rows[_i].says, i);
}
END_TEST

/* No kind hides another one. */
START_TEST(kinds_add_up)
{
	unsigned int kinds = 0;

	for (size_t i = 0; i < COUNT_OF(rows); i++)
		kinds |= rows[i].kind;
	ck_assert_uint_eq(kinds, (1u << HELD_KINDS) - 1);
	for (size_t event = 0; event < HELD_EVENTS; event++) {
		unsigned int all = 0;

		for (size_t i = 0; i < COUNT_OF(rows); i++)
			all |= expected(rows[i].kind, rows[i].after[event]);
		ck_assert_uint_eq(held_after(kinds, (enum held_event)event), all);
	}
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		for (size_t j = 0; j < COUNT_OF(rows); j++) {
			enum held_need one = rows[i].needs[1], other = rows[j].needs[1];

			ck_assert_int_eq(held_need(rows[i].kind | rows[j].kind, false, true),
			                 one > other ? one : other);
		}
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("pool/server/held");
	TCase *tests = tcase_create("held");

	tcase_add_loop_test(tests, each_kind_at_each_event, 0, COUNT_OF(rows));
	tcase_add_loop_test(tests, each_kind_before_each_client, 0, COUNT_OF(rows));
	tcase_add_test(tests, kinds_add_up);
	suite_add_tcase(suite, tests);
	return unit_run(suite);
}
