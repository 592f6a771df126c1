/* SPDX-License-Identifier: ISC */
/*
 * client/statements/statements_judge.c: "cached plan must not change result type", where nobody has
 * to know.
 */
#include "../../../lib/script.h"

#include "../../unit.h"

static const struct script cases[] = {
	{ "the statement is prepared again", "pool_mode=transaction\nmax_prepared_statements=100",
	  "a^ 1^ a<RSKZ aP(s:select_1)S 1<<P(#1:select_1)S 11Z a<1Z aB(s)D(P:)ES 1<<B(#1)D(P:)ES "
	  "1E(0A000:cached_plan_must_not_change_result_type)Z a< "
	  "1<<C(S:#1)P(#1:select_1)B(#1)D(P:)ES 1312T()CZ a<2TCZ aB(s)ES 1<<B(#1)ES" },
	{ "once only", "pool_mode=transaction\nmax_prepared_statements=100",
	  "a^ 1^ a<RSKZ aP(s:select_1)S 1<<P(#1:select_1)S 11Z a<1Z aB(s)D(P:)ES 1<<B(#1)D(P:)ES "
	  "1E(0A000:cached_plan_must_not_change_result_type)Z 1<<C(S:#1)P(#1:select_1)B(#1)D(P:)ES "
	  "131E(0A000:cached_plan_must_not_change_result_type)Z a<<E(0A000)Z" },
	{ "another error passes", "pool_mode=transaction\nmax_prepared_statements=100",
	  "a^ 1^ a<RSKZ aP(s:select_1)S 1<<P(#1:select_1)S 11Z a<1Z aB(s)D(P:)ES 1<BDES "
	  "1E(42P01:no)Z a<<E(42P01)Z 1<" },
	{ "a client that does not ask for the columns hears of it",
	  "pool_mode=transaction\nmax_prepared_statements=100",
	  "a^ 1^ a<RSKZ aP(s:select_1)S 1<<P(#1:select_1)S 11Z a<1Z aB(s)ES 1<<B(#1)ES "
	  "1E(0A000:cached_plan_must_not_change_result_type)Z a<<E(0A000)Z 1<" },
	{ "or asks for those of another portal",
	  "pool_mode=transaction\nmax_prepared_statements=100",
	  "a^ 1^ a<RSKZ aP(s:select_1)S 1<<P(#1:select_1)S 11Z a<1Z aB(s)D(P:p)ES 1<BDES "
	  "1E(0A000:cached_plan_must_not_change_result_type)Z a<<E(0A000)Z 1<" },
	{ "or of the statement", "pool_mode=transaction\nmax_prepared_statements=100",
	  "a^ 1^ a<RSKZ aP(s:select_1)S 1<<P(#1:select_1)S 11Z a<1Z aB(s)D(S:s)ES 1<BDES "
	  "1E(0A000:cached_plan_must_not_change_result_type)Z a<<E(0A000)Z 1<" },
	{ "nor in a transaction", "pool_mode=transaction\nmax_prepared_statements=100",
	  "a^ 1^ a<RSKZ aP(s:select_1)S 1<<P(#1:select_1)S 11Z a<1Z aQ 1<Q 1Cz a<CZ aB(s)D(P:)ES "
	  "1<BDES 1E(0A000:cached_plan_must_not_change_result_type)y a<<E(0A000)Z(E) 1<" },
	{ "nor with more under way", "pool_mode=transaction\nmax_prepared_statements=100",
	  "a^ 1^ a<RSKZ aP(s:select_1)S 1<<P(#1:select_1)S 11Z a<1Z aB(s)D(P:)ESQ 1<BDESQ "
	  "1E(0A000:cached_plan_must_not_change_result_type)Z a<<E(0A000)Z 1<" },
	{ "nor with a Query in its batch", "pool_mode=transaction\nmax_prepared_statements=100",
	  "a^ 1^ a<RSKZ aP(s:select_1)S 1<<P(#1:select_1)S 11Z a<1Z aB(s)D(P:)QS 1<BDQS "
	  "1E(0A000:cached_plan_must_not_change_result_type)Z a<<E(0A000)Z 1<" },
	{ "nor behind another one", "pool_mode=transaction\nmax_prepared_statements=100",
	  "a^ 1^ a<RSKZ aP(s:select_1)S 1<<P(#1:select_1)S 11Z a<1Z aQB(s)D(P:)ES 1<QBDES 1CZ a<CZ "
	  "1E(0A000:cached_plan_must_not_change_result_type)Z a<<E(0A000)Z 1<" },
	{ "nor for one without a name", "pool_mode=transaction\nmax_prepared_statements=100",
	  "a^ 1^ a<RSKZ aP(:select_1)B()D(P:)ES 1<PBDES "
	  "11E(0A000:cached_plan_must_not_change_result_type)Z a<<1E(0A000)Z 1<" },
	{ "what the client sends before it is done waits",
	  "pool_mode=transaction\nmax_prepared_statements=100",
	  "a^ 1^ a<RSKZ aP(s:select_1)S 1<<P(#1:select_1)S 11Z a<1Z aB(s)D(P:)ES 1<BDES "
	  "1E(0A000:cached_plan_must_not_change_result_type) a< aQ 1< 1Z "
	  "1<<C(S:#1)P(#1:select_1)B(#1)D(P:)ES 1312T()CZ a<2TCZ 1<Q" },
	{ "the server goes while it is done", "pool_mode=transaction\nmax_prepared_statements=100",
	  "a^ 1^ a<RSKZ aP(s:select_1)S 1<<P(#1:select_1)S 11Z a<1Z aB(s)D(P:)ES 1<<B(#1)D(P:)ES "
	  "1E(0A000:cached_plan_must_not_change_result_type)Z 1<CPBDES 1. a<E." },
	{ "the client goes while it is done", "pool_mode=transaction\nmax_prepared_statements=100",
	  "a^ 1^ a<RSKZ aP(s:select_1)S 1<<P(#1:select_1)S 11Z a<1Z aB(s)D(P:)ES 1<<B(#1)D(P:)ES "
	  "1E(0A000:cached_plan_must_not_change_result_type)Z 1<CPBDES a. 2* 2. 1<X." },
};

START_TEST(replan_plays) { script_play(&cases[_i]); }
END_TEST

int main(void)
{
	Suite *suite = suite_create("client/statements/replan");
	TCase *tcase = tcase_create("replan");

	tcase_set_timeout(tcase, 20);
	tcase_add_loop_test(tcase, replan_plays, 0, COUNT_OF(cases));
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
