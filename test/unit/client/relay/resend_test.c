/* SPDX-License-Identifier: ISC */
/*
 * client/relay/resend.c: what is sent to another server when a server is lost; and what is not, as
 * it would be executed without what was before it. What a lost server has said, and when:
 * test/e2e/test_resend.py.
 */
#include "../../../lib/script.h"

#include <stdio.h>

#include "../../unit.h"

#define LOGIN "a^ 1^ a<RSKZ "
#define BEGUN LOGIN "aQ(begin) 1<Q 1C(BEGIN)z a<CZ "
/* What the transaction has written is lost with its server. */
#define WRITTEN BEGUN "aQ(insert) 1<Q 1C(INSERT_0_1)z a<CZ "
#define SET_LOCAL "aQ(set_local_work_mem='1MB') "
/* The client is told, and no other server gets what it has sent. */
#define IS_LOST "1. a<<E(08006). 2-"

static const struct {
	const char *says, *words;
} cases[] = {
	/* sent again */
	{ "a BEGIN", LOGIN "aQ(begin) 1<Q 1. a< 2^ 2<<Q(begin) 2C(BEGIN)z a<CZ" },
	{ "a Parse", LOGIN "aP(:select_1)S 1<PS 1. a< 2^ 2<<P(:select_1)S 21Z a<1Z" },
	{ "what has not arrived", LOGIN "aQ(insert)+ 1. a< 2^ 2<<Q(insert) 2CZ a<CZ" },
	{ "a SET LOCAL, with the BEGIN before it",
	  BEGUN SET_LOCAL "1<Q 1. a< 2^ 2<<P(:begin)B()EC(P:)Q(set_local_work_mem='1MB')" },

	/* not sent again */
	{ "what may have run", LOGIN "aQ(insert) 1<Q " IS_LOST },
	{ "a SET LOCAL of a transaction that has written", WRITTEN SET_LOCAL "1<Q " IS_LOST },
	{ "an empty statement of it", WRITTEN "aQ() 1<Q " IS_LOST },
	{ "a Parse of it", WRITTEN "aP(:select_1)S 1<PS " IS_LOST },
	{ "a statement of it that has not arrived", WRITTEN "aQ(insert)+ " IS_LOST },
	{ "a SET LOCAL of one that has failed",
	  BEGUN "aQ(insert) 1<Q 1E(42601:no)y a<EZ " SET_LOCAL "1<Q " IS_LOST },
	{ "one behind what is not answered", BEGUN "aQ(insert) 1<Q " SET_LOCAL "1<Q " IS_LOST },
	{ "a BEGIN behind what is not answered", LOGIN "aQ(insert) 1<Q aQ(begin) 1<Q " IS_LOST },
	{ "in the same write", LOGIN "aQ(insert)Q(begin) 1<QQ " IS_LOST },
};

/* Both hosts are the engine's. */
START_TEST(resend_plays)
{
	static const char settings[] = "pool_mode=transaction\ndefault_pool_size=1";
	struct stage stage;
	char entry[160];

	stage_open(&stage, settings);
	snprintf(entry, sizeof(entry), "host=%s,%s", stage.engine.host, stage.engine.host);
	engine_reload(&stage.engine, settings, entry);
	stage_play_words(&stage, cases[_i].says, cases[_i].words);
	stage_close(&stage);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("client/relay/resend");
	TCase *tcase = tcase_create("resend");

	tcase_set_timeout(tcase, 20);
	tcase_add_loop_test(tcase, resend_plays, 0, COUNT_OF(cases));
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
