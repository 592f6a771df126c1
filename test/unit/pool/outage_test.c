/* SPDX-License-Identifier: ISC */
/*
 * pool/broker.c, outages: when a log line is due, with a clock controlled by the cases.
 */
#include "pgweir/pool/broker.h"

#include <stdio.h>
#include <stdlib.h>

#include "../unit.h"

/* A loop's share in a database. */
static struct stage {
	struct loop *loop;
	struct broker *broker;
	struct broker_member member;
	struct share database;
} stage;

static void on_woken(struct share *share) { (void)share; }

static void raise_stage(void)
{
	stage = (struct stage){ .loop = loop_new(NULL),
		                .broker = broker_new(1, NULL),
		                .database.on_woken = on_woken };
	broker_join(stage.broker, &stage.member, stage.loop);
	ck_assert(share_open(&stage.database, &stage.member, TALLY_DATABASE, "app", ""));
}

/* What was noted is freed with the database. */
static void strike_stage(void)
{
	share_close(&stage.database);
	broker_leave(&stage.member);
	broker_free(&stage.broker);
	loop_free(&stage.loop);
}

static unsigned int noted(void) { return stage.database.tally->outage_count; }

/*
 * A script, a word each.
 *   f, F  an attempt fails, in silence or with a line     o, O  one comes through, likewise
 *   +N    the clock goes on by so many seconds            =N    the last line had this number
 *                                                               (failures; seconds)
 */
static const struct {
	const char *says;
	const char *script;
} cases[] = {
	{ "the first failure has a line", "F =1" },
	{ "those behind it have none", "F f f f" },
	{ "an attempt each 15 s: one line in five minutes", "F +15 f +15 f +255 f +14 f +1 F =5" },
	{ "and then again", "F +300 F +300 F =1" },
	{ "that it answers again has a line", "F +35 O =35" },
	{ "but once only", "F O o o" },
	{ "what never failed answers in silence", "o" },
	{ "how long counts from the first failure", "F +300 F +10 O =310" },
	{ "soon again: in silence", "F +1 O f o f o f o" },
	{ "until a minute is over", "F +1 O f o f +58 o +1 F =3" },
	{ "which counts while it is out too", "F O +1 f +30 f +29 F =3 +10 O =69" },
	{ "long after: as the first time", "F O +3600 F =1 +5 O =5" },
};

START_TEST(lines_are_due)
{
	usec_t now = 1000 * USEC_PER_SEC, lasted = 0;
	long long number = 0;
	struct outage outage;
	bool is_due;

	raise_stage();
	for (const char *at = cases[_i].script; *at; at++) {
		const char *says = cases[_i].says;

		switch (*at) {
		case '+':
			now += strtoll(at + 1, (char **)&at, 10) * USEC_PER_SEC;
			at--;
			break;
		case '=':
			ck_assert_msg(strtoll(at + 1, (char **)&at, 10) == number,
			              "%s: %lld, at %s", says, number, at);
			at--;
			break;
		case 'f':
		case 'F':
			is_due = share_note_outage(&stage.database, "here", now, &outage);
			ck_assert_msg(is_due == (*at == 'F'), "%s: at %s", says, at);
			if (is_due)
				number = outage.failures;
			break;
		case 'o':
		case 'O':
			ck_assert_msg(share_end_outage(&stage.database, "here", now, &lasted) ==
			                  (*at == 'O'),
			              "%s: at %s", says, at);
			number = lasted / USEC_PER_SEC;
			break;
		default:
			break;
		}
	}
	strike_stage();
}
END_TEST

START_TEST(each_place_for_itself)
{
	struct outage outage;
	usec_t lasted;

	raise_stage();
	ck_assert_uint_eq(noted(), 0);
	ck_assert(share_note_outage(&stage.database, "one", 1, &outage));
	ck_assert_uint_eq(noted(), 1);
	ck_assert(share_note_outage(&stage.database, "other", 2, &outage));
	ck_assert(!share_end_outage(&stage.database, "third", 3, &lasted));
	ck_assert(share_end_outage(&stage.database, "one", 3, &lasted));
	share_forget_outages(&stage.database);
	ck_assert_uint_eq(noted(), 0);
	strike_stage();
}
END_TEST

/* The number of remembered addresses per name is limited. */
START_TEST(places_have_a_limit)
{
	struct outage outage;
	char where[16];

	raise_stage();
	for (int i = 0; i < 1000; i++) {
		snprintf(where, sizeof(where), "10.0.0.%d", i);
		ck_assert(share_note_outage(&stage.database, where, i, &outage));
	}
	ck_assert_uint_eq(noted(), 64);
	share_forget_outages(&stage.database);
	ck_assert_uint_eq(noted(), 0);
	strike_stage();
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("pool/outage");
	TCase *tcase = tcase_create("outage");

	tcase_add_loop_test(tcase, lines_are_due, 0, COUNT_OF(cases));
	tcase_add_test(tcase, each_place_for_itself);
	tcase_add_test(tcase, places_have_a_limit);
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
