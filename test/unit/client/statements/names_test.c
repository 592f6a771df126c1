/* SPDX-License-Identifier: ISC */
/*
 * client/statements/names.c: which names a client has, and when that is sure.
 */
#include "../../../lib/script.h"

#include "../../unit.h"

static const struct script cases[] = {
	{ "DISCARD ALL takes them away", "pool_mode=transaction\nmax_prepared_statements=100",
	  "a^ 1^ a<RSKZ aP(s:select_1)S 1<<P(#1:select_1)S 11Z a<1Z aQ(discard_all) "
	  "1<<Q(discard_all) 1xZ a<CZ aB(s)S 1<<B(s)S" },
	{ "DEALLOCATE ALL does too", "pool_mode=transaction\nmax_prepared_statements=100",
	  "a^ 1^ a<RSKZ aP(s:select_1)S 1<<P(#1:select_1)S 11Z a<1Z aQ(deallocate_all) "
	  "1<<Q(deallocate_all) 1C(DEALLOCATE_ALL)Z a<CZ aB(s)S 1<<B(s)S" },
	{ "what takes them away may fail", "pool_mode=transaction\nmax_prepared_statements=100",
	  "a^ 1^ a<RSKZ aP(s:select_1)S 1<<P(#1:select_1)S 11Z a<1Z aQ(discard_all) 1<Q 1EZ a<EZ "
	  "aB(s)S 1<<B(#1)S 12Z a<2Z" },
	{ "what is behind it waits for it", "pool_mode=transaction\nmax_prepared_statements=100",
	  "a^ 1^ a<RSKZ aP(s:select_1)S 1<<P(#1:select_1)S 11Z a<1Z "
	  "aQ(deallocate_all)P(s:select_2)S "
	  "1<<Q(deallocate_all) 1C(DEALLOCATE_ALL)Z 1<<P(#2:select_2)S 11Z a<CZ1Z" },
	{ "a name does not wait for its own Parse",
	  "pool_mode=transaction\nmax_prepared_statements=100",
	  "a^ 1^ a<RSKZ aP(s:select_1)B(s)ES 1<<P(#1:select_1)B(#1)ES" },
	{ "nor for one of another batch", "pool_mode=transaction\nmax_prepared_statements=100",
	  "a^ 1^ a<RSKZ aP(s:select_1)S 1<<P(#1:select_1)S 11Z a<1Z aP(t:select_2)SB(s)S "
	  "1<<P(#2:select_2)SB(#1)S 11Z a<1Z 12Z a<2Z" },
	{ "a name that has none waits until that is sure",
	  "pool_mode=transaction\nmax_prepared_statements=100",
	  "a^ 1^ a<RSKZ aP(s:select_1)SB(t)S 1<<P(#1:select_1)S 11Z a<1Z 1<<B(t)S" },
	{ "Close waits, too", "pool_mode=transaction\nmax_prepared_statements=100",
	  "a^ 1^ a<RSKZ aP(s:select_1)SC(S:s)P(s:select_2)S 1<<P(#1:select_1)S 11Z a<1Z3 "
	  "1<<P(#2:select_2)S 11Z a<1Z aB(s)S 1<<B(#2)S" },
	{ "but not in the batch of the Parse", "pool_mode=transaction\nmax_prepared_statements=100",
	  "a^ 1^ a<RSKZ aP(s:select_1)C(S:s)S 1<<P(#1:select_1)S 11Z a<13Z aB(s)S 1<<B(s)S" },
	{ "a COPY that asks for its data ends the wait",
	  "pool_mode=transaction\nmax_prepared_statements=100",
	  "a^ 1^ a<RSKZ aP(s:copy)B(s)ESC(S:t) 1<<P(#1:copy)B(#1)ES 112G a<12G 1<<C(S:t)" },
	{ "a name may come again after Close", "pool_mode=transaction\nmax_prepared_statements=100",
	  "a^ 1^ a<RSKZ aP(s:select_1)S 1<<P(#1:select_1)S 11Z a<1Z aC(S:s)P(s:select_2)S "
	  "1<<P(#2:select_2)S 11Z a<31Z aB(s)S 1<<B(#2)S" },
	{ "Close and Parse behind an error have not happened",
	  "pool_mode=transaction\nmax_prepared_statements=100",
	  "a^ 1^ a<RSKZ aP(s:select_1)S 1<<P(#1:select_1)S 11Z a<1Z aP(:x)C(S:s)P(s:select_2)S "
	  "1<<P(:x)H 1E a<E 1<<P(s:select_2)S 1Z a<Z aB(s)S 1<<B(#1)S" },
	{ "names of one client are no other's",
	  "pool_mode=transaction\nmax_prepared_statements=100",
	  "a^ 1^ a<RSKZ b^ b<RSKZ aP(s:select_1)S 1<<P(#1:select_1)S 11Z a<1Z bP(s:select_2)S "
	  "1<<P(#2:select_2)S 11Z b<1Z aB(s)S 1<<B(#1)S 12Z a<2Z bB(s)S 1<<B(#2)S" },
	{ "the server that has learned it goes",
	  "pool_mode=transaction\nmax_prepared_statements=100",
	  "a^ 1^ a<RSKZ aP(s:select_1)S 1<<P(#1:select_1)S 11Z a<1Z 1. aB(s)ES 2^ "
	  "2<<P(#1:select_1)B(#1)ES 212CZ a<2CZ" },
};

START_TEST(names_plays) { script_play(&cases[_i]); }
END_TEST

int main(void)
{
	Suite *suite = suite_create("client/statements/names");
	TCase *tcase = tcase_create("names");

	tcase_set_timeout(tcase, 20);
	tcase_add_loop_test(tcase, names_plays, 0, COUNT_OF(cases));
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
