/* SPDX-License-Identifier: ISC */
/*
 * client/relay/late_begin.c: what is sent to another server when a server is lost; and what is not, as
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
/* Longer than what is kept. */
#define SIXTEEN(text) \
	text text text text text text text text text text text text text text text text
#define LONG SIXTEEN(SIXTEEN(SIXTEEN("x")))
#define AGAIN "1. a< 1^ 1<<Q(begin) "
#define FIVE_TIMES_AGAIN AGAIN AGAIN AGAIN AGAIN AGAIN

static const struct {
	const char *says, *words;
} cases[] = {
	/* sent again */
	{ "a BEGIN", LOGIN "aQ(begin) 1<Q 1. a< 2^ 2<<Q(begin) 2C(BEGIN)z a<CZ" },
	{ "a Parse", LOGIN "aP(:select_1)S 1<PS 1. a< 2^ 2<<P(:select_1)S 21Z a<1Z" },
	{ "what has not arrived", LOGIN "aQ(insert)+ 1. a< 2^ 2<<Q(insert) 2CZ a<CZ" },
	{ "a SET LOCAL, with the BEGIN before it",
	  BEGUN SET_LOCAL "1<Q 1. a< 2^ 2<<P(:begin)B()EC(P:)Q(set_local_work_mem='1MB')" },
	{ "an extended query that has not arrived",
	  LOGIN "aP(:insert)B()ES+ 1. a< 2^ 2<<P(:insert)B()ES 212CZ a<12CZ" },
	{ "one behind its BEGIN",
	  LOGIN "aP(:begin)B()EP(:insert)B()ES+ 1. a< 2^ 2<<P(:begin)B()EP(:insert)B()ES" },
	{ "one in a write of its own",
	  LOGIN "aQ(begin) 1<Q aQ(insert)+ 1. a< 2^ 2<<Q(begin)Q(insert) 2C(BEGIN)z a<CZ" },
	{ "a BEGIN that was answered, with the next message",
	  BEGUN "1. a< aQ(insert) 2^ 2<<P(:begin)B()EC(P:)Q(insert)" },
	{ "what was set for its transaction, too",
	  LOGIN "aQ(start_transaction) 1<Q 1C(START_TRANSACTION)z a<CZ " SET_LOCAL
	        "1<Q 1C(SET)z a<CZ 1. a< aQ(insert) 2^ "
	        "2<<P(:start_transaction)B()EP(:set_local_work_mem='1MB')B()EC(P:)Q(insert)" },
	{ "ten times, but not without end",
	  LOGIN "aQ(begin) 1<Q " FIVE_TIMES_AGAIN FIVE_TIMES_AGAIN IS_LOST },
	{ "then the next one",
	  LOGIN "aQ(begin) 1<Q " FIVE_TIMES_AGAIN FIVE_TIMES_AGAIN
	        "1C(BEGIN)z a<CZ aQ(commit) 1<Q 1C(COMMIT)Z a<CZ aQ(begin) 1<Q " AGAIN },

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
	{ "two statements that have not arrived", LOGIN "aQ(insert)Q(insert)+ " IS_LOST },
	{ "in one batch", LOGIN "aP(:insert)B()EB()ES+ " IS_LOST },
	{ "an opening that the other host may refuse",
	  BEGUN "aQ(set_transaction_read_write) 1<Q 1C(SET)z a<CZ " IS_LOST },
	{ "and what is behind it in the same write",
	  LOGIN "aQ(begin_read_write)Q(insert)+ " IS_LOST },
	{ "what was begun in another write", LOGIN "aP(:insert)B() 1<PB aES+ " IS_LOST },
	{ "one behind an opening that is answered in part",
	  LOGIN "aQ(begin)Q(set_local_work_mem='1MB') 1<QQ 1C(BEGIN) a<C aQ(insert)+ " IS_LOST },
	{ "a third statement", LOGIN "aQ(begin) 1<Q aQ(insert) 1<Q aQ(insert)+ " IS_LOST },
	{ "a function call behind its BEGIN", LOGIN "aQ(begin) 1<Q aF 1<F " IS_LOST },
	{ "a transaction in which that has run", BEGUN "aF 1<F 1Vz a<VZ " IS_LOST },
	{ "in which a long statement has",
	  BEGUN "aQ(insert_" LONG ") 1<Q 1C(INSERT_0_1)z a<CZ " IS_LOST },
	{ "and was sent before the BEGIN was answered",
	  LOGIN "aQ(begin) 1<Q aQ(insert_" LONG ") 1<Q 1C(BEGIN)zC(INSERT_0_1)z a<CZCZ " IS_LOST },
	{ "a SET", LOGIN "aQ(set_work_mem='1MB') 1<Q " IS_LOST },
	{ "an extended query that may have run", LOGIN "aP(:insert)B()ES 1<PBES " IS_LOST },
	{ "one behind its BEGIN that may have",
	  LOGIN "aP(:begin)B()EP(:insert)B()ES 1<PBEPBES " IS_LOST },
	{ "a BEGIN behind it", LOGIN "aP(:insert)B()EP(:begin)B()ES 1<PBEPBES " IS_LOST },
	{ "a Bind, which may call functions", LOGIN "aP(:insert)B()S 1<PBS " IS_LOST },
	{ "a function call", LOGIN "aF 1<F " IS_LOST },
	{ "what was answered in part", LOGIN "aP(:insert)B()ES 1<PBES 11 a<1 " IS_LOST },
	{ "the end of what a Flush has had answered",
	  LOGIN "aP(:insert)B()EH 1<PBEH 112C(INSERT_0_1) a<12C aS 1<S " IS_LOST },
	{ "what comes behind that, in the same transaction",
	  LOGIN "aP(:insert)B()EH 1<PBEH 112C(INSERT_0_1) a<12C aP(:insert)B()ES+ " IS_LOST },
};

/* With other settings than the rest. */
static const struct script others[] = {
	{ "a late BEGIN is sent again with the statement behind it", "late_begin=1",
	  LOGIN "aQ(begin) 1< a<CZ aQ(insert)+ 1. a< 2^ 2<<P(:begin)B()EC(P:)Q(insert)" },
	{ "what is behind a statement that has failed here, with its BEGIN, is not", "late_begin=1",
	  LOGIN "aQ(begin) 1< a<CZ b^ b<RSKZ bQ(select_1) 1<Q aQ(insert)Q(insert) a* a<EZ "
	        "1C(SELECT_1)Z b<CZ 1<PBECQQ " IS_LOST },
	{ "nor in the extended protocol", "late_begin=1",
	  LOGIN "aQ(begin) 1< a<CZ b^ b<RSKZ bQ(select_1) 1<Q aP(:insert)B()ESQ(insert) a* a<EZ "
	        "1C(SELECT_1)Z b<CZ 1<PBECQQ " IS_LOST },
	{ "nothing is in session mode", "pool_mode=session", LOGIN "aQ(begin) 1<Q " IS_LOST },
	{ "nor what may change the session", "session_state=follow\nsession_sample=0",
	  LOGIN "aQ(do_x)+ " IS_LOST },
	{ "nor if the server has something of the session",
	  "session_state=follow\nsession_sample=0",
	  LOGIN "aQ(create_temp_table_t_as_select_1) 1<Q 1C(SELECT_1)Z a<CZ 1<Q 1D(t::1)CZ "
	        "aQ(begin) 1<Q " IS_LOST },
};

/* Both hosts are the engine's. */
static void play(const char *says, const char *words, const char *more)
{
	struct stage stage;
	char settings[128], entry[160];

	snprintf(settings, sizeof(settings), "pool_mode=transaction\ndefault_pool_size=1\n%s",
	         more);
	stage_open(&stage, settings);
	snprintf(entry, sizeof(entry), "host=%s,%s", stage.engine.host, stage.engine.host);
	engine_reload(&stage.engine, settings, entry);
	stage_play_words(&stage, says, words);
	stage_close(&stage);
}

START_TEST(resend_plays) { play(cases[_i].says, cases[_i].words, ""); }
END_TEST

START_TEST(resend_plays_with_settings)
{
	play(others[_i].says, others[_i].words, others[_i].settings);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("client/relay/resend");
	TCase *tcase = tcase_create("resend");

	tcase_set_timeout(tcase, 20);
	tcase_add_loop_test(tcase, resend_plays, 0, COUNT_OF(cases));
	tcase_add_loop_test(tcase, resend_plays_with_settings, 0, COUNT_OF(others));
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
