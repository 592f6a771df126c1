/* SPDX-License-Identifier: ISC */
/*
 * client/statements/statements_judge.c: named statements of clients on the servers of a pool.
 */
#include "../../../lib/script.h"

#include "../../unit.h"

static const struct script cases[] = {
	{ "a server knows a statement by a name of ours",
	  "pool_mode=transaction\nmax_prepared_statements=100",
	  "a^ 1^ a<RSKZ aP(s:select_1)B(s)ES 1<<P(#1:select_1)B(#1)ES 112CZ a<12CZ" },
	{ "the same text of another client is parsed again",
	  "pool_mode=transaction\nmax_prepared_statements=100",
	  "a^ 1^ a<RSKZ b^ b<RSKZ aP(s:select_1)S 1<<P(#1:select_1)S 11Z a<1Z bP(t:select_1)B(t)ES "
	  "1<<C(S:#1)P(#1:select_1)B(#1)ES 1312CZ b<12CZ" },
	{ "not the same text with another one's name",
	  "pool_mode=transaction\nmax_prepared_statements=100",
	  "a^ 1^ a<RSKZ b^ b<RSKZ aP(s:select_1)S 1<<P(#1:select_1)S 11Z a<1Z bP(s:select_2)B(s)ES "
	  "1<<P(#2:select_2)B(#2)ES 112CZ b<12CZ" },
	{ "another server learns it with its first use",
	  "pool_mode=transaction\nmax_prepared_statements=100",
	  "a^ 1^ a<RSKZ b^ b<RSKZ aP(s:select_1)S 1<<P(#1:select_1)S 11Z a<1Z bQ 1<Q 1Cz b<CZ "
	  "aB(s)ES 2^ 2<<P(#1:select_1)B(#1)ES 212CZ a<2CZ aB(s)ES 2<<B(#1)ES" },
	{ "its Parse there fails, and the client hears of that",
	  "pool_mode=transaction\nmax_prepared_statements=100",
	  "a^ 1^ a<RSKZ b^ b<RSKZ aP(s:select_1)S 1<<P(#1:select_1)S 11Z a<1Z bQ 1<Q 1Cz b<CZ "
	  "aB(s)ES 2^ 2<<P(#1:select_1)B(#1)ES 2E(42P01:no)Z a<<E(42P01)Z" },
	{ "and the next use tries again", "pool_mode=transaction\nmax_prepared_statements=100",
	  "a^ 1^ a<RSKZ b^ b<RSKZ aP(s:select_1)S 1<<P(#1:select_1)S 11Z a<1Z bQ 1<Q 1Cz b<CZ "
	  "aB(s)ES 2^ 2<PBES 2EZ a<EZ aB(s)ES 2<<P(#1:select_1)B(#1)ES" },
	{ "the one unused for longest makes room",
	  "pool_mode=transaction\nmax_prepared_statements=1",
	  "a^ 1^ a<RSKZ aP(s:select_1)S 1<<P(#1:select_1)S 11Z a<1Z aP(t:select_2)S "
	  "1<<C(S:#1)P(#2:select_2)S 131Z a<1Z aB(s)S 1<<C(S:#2)P(#1:select_1)B(#1)S 1312Z a<2Z" },
	{ "as many as there may be stay", "pool_mode=transaction\nmax_prepared_statements=2",
	  "a^ 1^ a<RSKZ aP(s:select_1)S 1<<P(#1:select_1)S 11Z a<1Z aP(t:select_2)S "
	  "1<<P(#2:select_2)S 11Z a<1Z aP(u:select_3)S 1<<C(S:#1)P(#3:select_3)S 131Z a<1Z" },
	{ "without the setting names are the server's",
	  "pool_mode=transaction\nmax_prepared_statements=0",
	  "a^ 1^ a<RSKZ aP(s:select_1)B(s)S 1<<P(s:select_1)B(s)S" },
	{ "in a session they are, too", "pool_mode=session\nmax_prepared_statements=100",
	  "a^ 1^ a<RSKZ aP(s:select_1)B(s)S 1<<P(s:select_1)B(s)S" },
	{ "one without a name is sent as it is",
	  "pool_mode=transaction\nmax_prepared_statements=100",
	  "a^ 1^ a<RSKZ aP(:select_1)B()ES 1<<P(:select_1)B()ES 112CZ a<12CZ" },
	{ "the unnamed one comes along to the next transaction",
	  "pool_mode=transaction\nmax_prepared_statements=100",
	  "a^ 1^ a<RSKZ aP(:select_1)S 1<<P(:select_1)S 11Z a<1Z aB()ES 1<<P(:select_1)B()ES" },
	{ "but not behind a Query, which drops it",
	  "pool_mode=transaction\nmax_prepared_statements=100",
	  "a^ 1^ a<RSKZ aP(:select_1)S 1<<P(:select_1)S 11Z a<1Z aQ 1<Q 1CZ a<CZ aB()ES "
	  "1<<C(S:)B()ES" },
	{ "Close is answered here", "pool_mode=transaction\nmax_prepared_statements=100",
	  "a^ 1^ a<RSKZ aP(s:select_1)S 1<<P(#1:select_1)S 11Z a<1Z aC(S:s)S 1<<S 1Z a<3Z aB(s)S "
	  "1<<B(s)S" },
	{ "Close of an unknown one is not", "pool_mode=transaction\nmax_prepared_statements=100",
	  "a^ 1^ a<RSKZ aC(S:s)S 1<<C(S:s)S 13Z a<3Z" },
	{ "of an unknown one PostgreSQL says so",
	  "pool_mode=transaction\nmax_prepared_statements=100",
	  "a^ 1^ a<RSKZ aB(s)ES 1<<B(s)ES 1E(26000:no)Z a<<E(26000)Z" },
	{ "another client's is unknown", "pool_mode=transaction\nmax_prepared_statements=100",
	  "a^ 1^ a<RSKZ b^ b<RSKZ aP(s:select_1)S 1<<P(#1:select_1)S 11Z a<1Z bB(s)ES 1<<B(s)ES" },
	{ "nobody uses the names that we made",
	  "pool_mode=transaction\nmax_prepared_statements=100",
	  "a^ 1^ a<RSKZ aP(s:select_1)S 1<<P(#1:select_1)S 11Z a<1Z aB(#1)ES "
	  "1<<P(#2:EXECUTE_\"\")ES 1E(42601:no)Z a<<E(26000)Z" },
	{ "nor describes them", "pool_mode=transaction\nmax_prepared_statements=100",
	  "a^ 1^ a<RSKZ aP(s:select_1)S 1<<P(#1:select_1)S 11Z a<1Z aD(S:#1)S "
	  "1<<P(#2:EXECUTE_\"\")S 1E(42601:no)Z a<<E(26000)Z" },
	{ "a name that is taken", "pool_mode=transaction\nmax_prepared_statements=100",
	  "a^ 1^ a<RSKZ aP(s:select_1)S 1<<P(#1:select_1)S 11Z a<1Z aP(s:select_2)S "
	  "1<<C(S:#2)P(#2:)P(#2:select_2)S 131E(42P05:no)Z a<<E(42P05)Z aB(s)S "
	  "1<<B(#1)S" },
	{ "and a text that is wrong, which counts more",
	  "pool_mode=transaction\nmax_prepared_statements=100",
	  "a^ 1^ a<RSKZ aP(s:select_1)S 1<<P(#1:select_1)S 11Z a<1Z aP(s:select)S 1<CPPS "
	  "131E(42601:no)Z a<<E(42601)Z aB(s)S 1<<B(#1)S" },
	{ "a Parse that fails leaves no name", "pool_mode=transaction\nmax_prepared_statements=100",
	  "a^ 1^ a<RSKZ aP(s:select)S 1<<P(#1:select)S 1E(42601:no)Z a<<E(42601)Z aB(s)S "
	  "1<<B(s)S" },
	{ "nor does one behind an error", "pool_mode=transaction\nmax_prepared_statements=100",
	  "a^ 1^ a<RSKZ aP(:x)P(s:select_1)S 1<<P(:x)P(#1:select_1)S 1EZ a<EZ aB(s)S 1<<B(s)S" },
	{ "Describe", "pool_mode=transaction\nmax_prepared_statements=100",
	  "a^ 1^ a<RSKZ aP(s:select_1)D(S:s)S 1<<P(#1:select_1)D(S:#1)S 11t()T()Z a<1tTZ aD(S:s)S "
	  "1<<D(S:#1)S" },
	{ "portals keep their names", "pool_mode=transaction\nmax_prepared_statements=100",
	  "a^ 1^ a<RSKZ aP(s:select_1)S 1<<P(#1:select_1)S 11Z a<1Z aB(s:p)D(P:p)E(p)C(P:p)S "
	  "1<<B(#1)D(P:p)EC(P:p)S 12T()C3Z a<2TC3Z" },
	{ "in a transaction that has failed it is asked for",
	  "pool_mode=transaction\nmax_prepared_statements=100",
	  "a^ 1^ a<RSKZ b^ b<RSKZ aP(s:select_1)S 1<<P(#1:select_1)S 11Z a<1Z bP(s:select_1)S "
	  "1<CPS "
	  "131Z b<1Z bQ 1<Q 1Ey b<EZ bP(t:select_1)S 1<<C(S:#1)P(#1:select_1)S" },
	{ "behind an error nothing is answered here",
	  "pool_mode=transaction\nmax_prepared_statements=100",
	  "a^ 1^ a<RSKZ aP(s:select_1)S 1<<P(#1:select_1)S 11Z a<1Z aQ 1<Q 1Cz a<CZ aP(:x)C(S:s)S "
	  "1<<P(:x)S 1Ey a<EZ aB(s)S 1<<B(#1)S" },
};

START_TEST(prepared_plays) { script_play(&cases[_i]); }
END_TEST

int main(void)
{
	Suite *suite = suite_create("client/statements/prepared");
	TCase *tcase = tcase_create("prepared");

	tcase_set_timeout(tcase, 20);
	tcase_add_loop_test(tcase, prepared_plays, 0, COUNT_OF(cases));
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
