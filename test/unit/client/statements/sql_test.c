/* SPDX-License-Identifier: ISC */
/*
 * client/statements/sql_statements.c: SQL's PREPARE, EXECUTE and DEALLOCATE.
 */
#include "../../../lib/script.h"

#include "../../unit.h"

static const struct script cases[] = {
	{ "PREPARE", "pool_mode=transaction\nmax_prepared_statements=100",
	  "a^ 1^ a<RSKZ aQ(prepare_s_as_select_1) 1<<C(S:#1)Q(prepare_\"#1\"_as_select_1)D(S:#1)S "
	  "13C(PREPARE)Zt()nZ a<<C(PREPARE)Z 1<" },
	{ "PREPARE that fails", "pool_mode=transaction\nmax_prepared_statements=100",
	  "a^ 1^ a<RSKZ aQ(prepare_s_as_select) 1<CQDS 13E(42601:no)ZEZ a<<E(42601)Z aQ(execute_s) "
	  "1<<Q(execute_s)" },
	{ "EXECUTE", "pool_mode=transaction\nmax_prepared_statements=100",
	  "a^ 1^ a<RSKZ aQ(prepare_s_as_select_1) 1<CQDS 13C(PREPARE)Zt()nZ a<CZ aQ(execute_s) "
	  "1<<P(#2:select_1)Q(execute_\"#2\")S 11TDC(SELECT_1)ZZ a<<TDC(SELECT_1)Z aQ(execute_s) "
	  "1<<Q(execute_\"#2\")" },
	{ "DEALLOCATE", "pool_mode=transaction\nmax_prepared_statements=100",
	  "a^ 1^ a<RSKZ aP(s:select_1)S 1<<P(#1:select_1)S 11Z a<1Z aQ(deallocate_s) 1<CPQS "
	  "131C(DEALLOCATE)ZZ a<<C(DEALLOCATE)Z aB(s)S 1<<B(s)S" },
	{ "DEALLOCATE that fails", "pool_mode=transaction\nmax_prepared_statements=100",
	  "a^ 1^ a<RSKZ aP(s:select_1)S 1<<P(#1:select_1)S 11Z a<1Z aQ(deallocate_s) 1<CPQS 131EZZ "
	  "a<EZ aB(s)S 1<<B(#1)S" },
	{ "DEALLOCATE of an unknown one", "pool_mode=transaction\nmax_prepared_statements=100",
	  "a^ 1^ a<RSKZ aQ(deallocate_s) 1<<Q(deallocate_s) 1E(26000:no)Z a<<E(26000)Z" },
	{ "EXECUTE of an unknown one", "pool_mode=transaction\nmax_prepared_statements=100",
	  "a^ 1^ a<RSKZ aQ(execute_s) 1<<Q(execute_s) 1E(26000:no)Z a<<E(26000)Z" },
	{ "PREPARE waits until nothing is owed",
	  "pool_mode=transaction\nmax_prepared_statements=100",
	  "a^ 1^ a<RSKZ aP(:x)B()ESQ(prepare_s_as_select_1)Q 1<PBES 112CZ a<12CZ 1<CQDSQ "
	  "13C(PREPARE)Zt()nZCZ a<CZCZ" },
	{ "a COPY that asks for its data ends the wait",
	  "pool_mode=transaction\nmax_prepared_statements=100",
	  "a^ 1^ a<RSKZ aP(:copy)B()ESQ(prepare_s_as_select_1) 1<PBES 112G a<12G "
	  "1<<Q(prepare_s_as_select_1)" },
	{ "in a batch without its Sync it is refused",
	  "pool_mode=transaction\nmax_prepared_statements=100",
	  "a^ 1^ a<RSKZ aP(:x)B()EQ(prepare_s_as_select_1) 1<<P(:x)B()EQ(EXECUTE_\"\") "
	  "112CE(42601:no)Z a<<12C(SELECT_1)E(0A000)Z" },
	{ "a Query ends one that was parsed without a name",
	  "pool_mode=transaction\nmax_prepared_statements=100",
	  "a^ 1^ a<RSKZ aP(s:select_1)S 1<<P(#1:select_1)S 11Z a<1Z aP(:deallocate_s)S "
	  "1<<P(:deallocate_s)S 11Z a<1Z aQ 1<Q 1CZ a<CZ aB()ES 1<<C(S:)B()ES" },
	{ "EXECUTE behind another statement",
	  "pool_mode=transaction\nmax_prepared_statements=100\nsession_state=refuse",
	  "a^ 1^ a<RSKZ aQ(prepare_s_as_select_1) 1<CQDS 13C(PREPARE)Zt()nZ a<CZ "
	  "aQ(select_0;execute_s) 1<<P(s:select_1)SQ(select_0;execute_s)" },
	{ "in a transaction block it needs a savepoint",
	  "pool_mode=transaction\nmax_prepared_statements=100\nsession_state=refuse",
	  "a^ 1^ a<RSKZ aQ(prepare_s_as_select_1) 1<CQDS 13C(PREPARE)Zt()nZ a<CZ aQ(begin) 1<Q "
	  "1C(BEGIN)z a<<C(BEGIN)Z(T) aQ(select_0;execute_s) "
	  "1<<Q(SAVEPOINT_\"#1\")P(s:select_1)S"
	  "Q(ROLLBACK_TO_\"#1\")Q(RELEASE_\"#1\")Q(select_0;execute_s)" },
	{ "without names that are followed", "pool_mode=transaction\nmax_prepared_statements=0",
	  "a^ 1^ a<RSKZ aQ(prepare_s_as_select_1) 1<<Q(prepare_s_as_select_1)" },
};

START_TEST(sql_plays) { script_play(&cases[_i]); }
END_TEST

int main(void)
{
	Suite *suite = suite_create("client/statements/sql");
	TCase *tcase = tcase_create("sql");

	tcase_set_timeout(tcase, 20);
	tcase_add_loop_test(tcase, sql_plays, 0, COUNT_OF(cases));
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
