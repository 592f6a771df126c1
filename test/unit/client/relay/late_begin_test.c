/* SPDX-License-Identifier: ISC */
/*
 * client/relay/late_begin.c: a BEGIN that waits for the first statement.
 */
#include "../../../lib/script.h"

#include "../../unit.h"

static const struct script cases[] = {
	{ "BEGIN takes no server", "pool_mode=transaction\nlate_begin=1\ndefault_pool_size=1",
	  "a^ 1^ a<RSKZ aQ(begin) a<<C(BEGIN)Z(T) 1<" },
	{ "it goes with the first statement",
	  "pool_mode=transaction\nlate_begin=1\ndefault_pool_size=1",
	  "a^ 1^ a<RSKZ aQ(begin) a<CZ aQ(select_1) 1<<P(:begin)B()EC(P:)Q(select_1) "
	  "112C(BEGIN)3C(SELECT_1)z a<<C(SELECT_1)Z(T) aQ(commit) 1<<Q(commit) 1C(COMMIT)Z "
	  "a<<C(COMMIT)Z" },
	{ "others use the server before",
	  "pool_mode=transaction\nlate_begin=1\ndefault_pool_size=1",
	  "a^ 1^ a<RSKZ b^ b<RSKZ aQ(begin) a<CZ bQ 1<Q 1CZ b<CZ aQ bQ 1<PBECQ 112C3Cz a<CZ 1< aQ "
	  "1<Q 1CZ a<CZ 1<Q" },
	{ "it waits for a server like any other",
	  "pool_mode=transaction\nlate_begin=1\ndefault_pool_size=1",
	  "a^ 1^ a<RSKZ b^ b<RSKZ aQ(begin) a<CZ bQ 1<Q aQ 1CZ b<CZ 1<PBECQ" },
	{ "COMMIT of nothing", "pool_mode=transaction\nlate_begin=1\ndefault_pool_size=1",
	  "a^ 1^ a<RSKZ aQ(begin) a<CZ aQ(commit) a<<C(COMMIT)Z 1< aQ 1<Q" },
	{ "ROLLBACK of nothing", "pool_mode=transaction\nlate_begin=1\ndefault_pool_size=1",
	  "a^ 1^ a<RSKZ aQ(begin) a<CZ aQ(rollback) a<<C(ROLLBACK)Z 1<" },
	{ "BEGIN again: PostgreSQL warns of it",
	  "pool_mode=transaction\nlate_begin=1\ndefault_pool_size=1",
	  "a^ 1^ a<RSKZ aQ(begin) a<CZ aQ(begin) 1<<P(:begin)B()EC(P:)Q(begin)" },
	{ "the text is the client's", "pool_mode=transaction\nlate_begin=1\ndefault_pool_size=1",
	  "a^ 1^ a<RSKZ aQ(begin_read_only) a<<C(BEGIN)Z(T) aQ "
	  "1<<P(:begin_read_only)B()EC(P:)Q(select_1)" },
	{ "the first statement is extended",
	  "pool_mode=transaction\nlate_begin=1\ndefault_pool_size=1",
	  "a^ 1^ a<RSKZ aQ(begin) a<CZ aP(:select_1)B()ES "
	  "1<<P(:begin)B()EC(P:)C(S:)P(:select_1)B()ES 112C3312Cz a<<12C(SELECT_1)Z(T)" },
	{ "the first statement fails", "pool_mode=transaction\nlate_begin=1\ndefault_pool_size=1",
	  "a^ 1^ a<RSKZ aQ(begin) a<CZ aQ 1<PBECQ 112C3Ey a<<E(42601)Z(E) aQ(rollback) 1<Q "
	  "1C(ROLLBACK)Z a<CZ" },
	{ "an error of BEGIN ends both", "pool_mode=transaction\nlate_begin=1\ndefault_pool_size=1",
	  "a^ 1^ a<RSKZ aQ(begin) a<CZ aQ 1<PBECQ 1E a<E. 1<X." },
	{ "the client goes", "pool_mode=transaction\nlate_begin=1\ndefault_pool_size=1",
	  "a^ 1^ a<RSKZ aQ(begin) a<CZ a. 1< b^ b<RSKZ bQ 1<Q" },
	{ "the client leaves", "pool_mode=transaction\nlate_begin=1\ndefault_pool_size=1",
	  "a^ 1^ a<RSKZ aQ(begin) a<CZ aX a<. 1<" },
	{ "a Sync alone begins it, too", "pool_mode=transaction\nlate_begin=1\ndefault_pool_size=1",
	  "a^ 1^ a<RSKZ aQ(begin) a<CZ aS 1<PBECCS 112C33z a<<Z(T) 1<" },
	{ "idle_transaction_timeout",
	  "pool_mode=transaction\nlate_begin=1\ndefault_pool_size=1\nidle_transaction_timeout=20ms",
	  "a^ 1^ a<RSKZ aQ(begin) a<CZ a~E. 1<" },
	{ "transaction_timeout",
	  "pool_mode=transaction\nlate_begin=1\ndefault_pool_size=1\ntransaction_timeout=20ms",
	  "a^ 1^ a<RSKZ aQ(begin) a<CZ a~E. 1<" },
	{ "query_wait_timeout",
	  "pool_mode=transaction\nlate_begin=1\ndefault_pool_size=1\nquery_wait_timeout=20ms",
	  "a^ 1^ a<RSKZ b^ b<RSKZ bQ 1<Q 1Cz b<CZ aQ(begin) a<CZ aQ a~E. 1<" },
	{ "a statement that is no BEGIN",
	  "pool_mode=transaction\nlate_begin=1\ndefault_pool_size=1",
	  "a^ 1^ a<RSKZ aQ(select_1) 1<<Q(select_1)" },
	{ "BEGIN and more in one query", "pool_mode=transaction\nlate_begin=1\ndefault_pool_size=1",
	  "a^ 1^ a<RSKZ aQ(begin;_select_1) 1<<Q(begin;_select_1)" },
	{ "BEGIN in a transaction", "pool_mode=transaction\nlate_begin=1\ndefault_pool_size=1",
	  "a^ 1^ a<RSKZ aQ 1<Q 1Cz a<CZ aQ(begin) 1<<Q(begin)" },
	{ "without the setting", "pool_mode=transaction", "a^ 1^ a<RSKZ aQ(begin) 1<<Q(begin)" },
};

START_TEST(late_begin_plays) { script_play(&cases[_i]); }
END_TEST

int main(void)
{
	Suite *suite = suite_create("client/relay/late_begin");
	TCase *tcase = tcase_create("late_begin");

	tcase_set_timeout(tcase, 20);
	tcase_add_loop_test(tcase, late_begin_plays, 0, COUNT_OF(cases));
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
