/* SPDX-License-Identifier: ISC */
/*
 * pool/pool_sequences.c, with clients and servers: when a server forgets values of sequences, and
 * who gets which server.
 */
#include "../../lib/script.h"

#include "../unit.h"

#define DISCARD "Q(DISCARD_SEQUENCES;)"

/* Without a catalog. "!": a client of the pool asks; from then on all its servers are guarded. */
static const struct script cases[] = {
	{ "nothing happens while nobody asks",
	  "pool_mode=transaction\nsession_state=follow\ndefault_pool_size=1",
	  "a^ 1^ a<RSKZ b^ b<RSKZ aQ 1<Q 1CZ a<CZ bQ 1<Q 1CZ b<CZ aQ 1<Q" },
	{ "a new server has no values",
	  "pool_mode=transaction\nsession_state=follow\ndefault_pool_size=1",
	  "a^ 1^ a<RSKZ ! aQ 1<Q 1CZ a<CZ aQ 1<Q" },
	{ "another client must not find them",
	  "pool_mode=transaction\nsession_state=follow\ndefault_pool_size=1",
	  "a^ 1^ a<RSKZ b^ b<RSKZ ! aQ 1<Q 1CZ a<CZ bQ 1<<" DISCARD "Q(select_1) 1CZCZ b<CZ "
	  "bQ 1<Q 1CZ b<CZ aQ 1<<" DISCARD "Q(select_1)" },
	{ "values from before count too",
	  "pool_mode=transaction\nsession_state=follow\ndefault_pool_size=1",
	  "a^ 1^ a<RSKZ b^ b<RSKZ aQ 1<Q 1CZ a<CZ bQ 1<Q 1CZ b<CZ ! bQ 1<<" DISCARD
	  "Q(select_1) 1CZCZ b<CZ bQ 1<Q" },
	{ "a client that leaves is another client",
	  "pool_mode=transaction\nsession_state=follow\ndefault_pool_size=1",
	  "a^ 1^ a<RSKZ ! aQ 1<Q 1CZ a<CZ aX b^ b<RSKZ bQ 1<<" DISCARD "Q(select_1)" },
	{ "with parameters, in one query",
	  "pool_mode=transaction\nsession_state=follow\ndefault_pool_size=1",
	  "a^ 1^ a<RSKZ b^ b<RSKZ ! aQ 1<Q 1S(TimeZone:Asia/Tokyo)C(SET)Z a<SCZ bQ "
	  "1<<Q(SET_\"TimeZone\"='UTC';DISCARD_SEQUENCES;) 1S(TimeZone:UTC)CCZ b< "
	  "1<<Q(select_1) 1CZ b<CZ" },
	{ "parameters are refused: the values are still there",
	  "pool_mode=transaction\nsession_state=follow\ndefault_pool_size=1",
	  "a^ 1^ a<RSKZ b^ b<RSKZ ! aQ 1<Q 1S(TimeZone:Asia/Tokyo)C(SET)Z a<SCZ bQ "
	  "1<Q 1E(22023:no)Z b<E. 1<Q 1S(TimeZone:UTC)CZ c^ c<RSKZ "
	  "cQ 1<<" DISCARD "Q(select_1)" },
	{ "the server that it had last",
	  "pool_mode=transaction\nsession_state=follow\ndefault_pool_size=2",
	  "a^ 1^ a<RSKZ b^ b<RSKZ ! aQ 1<Q bQ 2^ 2<Q 1CZ a<CZ 2CZ b<CZ aQ 1<Q 1CZ a<CZ bQ 2<Q "
	  "2CZ b<CZ bQ 2<Q 2CZ b<CZ aQ 1<Q" },
	{ "a client that waits gets it too",
	  "pool_mode=transaction\nsession_state=follow\ndefault_pool_size=2",
	  "a^ 1^ a<RSKZ b^ b<RSKZ c^ c<RSKZ ! aQ 1<Q bQ 2^ 2<Q 1CZ a<CZ cQ 1<<" DISCARD
	  "Q(select_1) aQ 1< 2< 2CZ b<CZ 2<<" DISCARD "Q(select_1)" },
	{ "after another server its own values are foreign",
	  "pool_mode=transaction\nsession_state=follow\ndefault_pool_size=2",
	  "a^ 1^ a<RSKZ b^ b<RSKZ ! aQ 1<Q 1CZ a<CZ bQ 1<<" DISCARD
	  "Q(select_1) aQ 2^ 2<Q 2CZ a<CZ bX 1<X. aQ 2<Q" },
	{ "a server that is lost is nobody's last one",
	  "pool_mode=transaction\nsession_state=follow\ndefault_pool_size=2",
	  "a^ 1^ a<RSKZ ! aQ 1<Q 1CZ a<CZ 1. aQ 2^ 2<Q 2CZ a<CZ" },
	{ "canceled: it is closed after this client",
	  "pool_mode=transaction\nsession_state=follow\ndefault_pool_size=1",
	  "a^ 1^ a<RSKZ b^ b<RSKZ ! aQ 1<Q 1CZ a<CZ bQ 1<QQ 1E(57014:canceled)ZCZ b<CZ 1<X." },
	{ "not in session mode", "pool_mode=session\ndefault_pool_size=1\nserver_reset_query=",
	  "a^ 1^ a<RSKZ b^ b<RSKZ ! aQ 1<Q 1CZ a<CZ aX bQ 1<Q" },
};

static struct pool *pool_of(struct stage *stage)
{
	return pools_find_pool(stage->engine.pools, "d0", "u0");
}

START_TEST(pool_sequences_plays)
{
	const struct script *script = &cases[_i];
	char *words = strdup(script->words), *rest = words, *word;
	struct stage stage;

	stage_open(&stage, script->settings);
	while ((word = strsep(&rest, " "))) {
		if (strcmp(word, "!") == 0)
			pool_ask_sequences(pool_of(&stage));
		else
			stage_play(&stage, script->says, word);
	}
	stage_close(&stage);
	free(words);
}
END_TEST

/* A statement that asks for values is behind the DISCARD SEQUENCES that fails. */
START_TEST(no_answer_behind_a_failure)
{
	static const char says[] = "no answer behind a failure";
	struct stage stage;
	struct borrower *borrower;

	stage_open(&stage, "pool_mode=transaction\nsession_state=follow\ndefault_pool_size=1");
	stage_play_words(&stage, says, "a^ 1^ a<RSKZ b^ b<RSKZ aQ 1<Q 1CZ a<CZ");
	pool_ask_sequences(pool_of(&stage));
	stage_play_words(&stage, says, "bQ 1<<" DISCARD "Q(select_1)");
	borrower = TAILQ_LAST(&pool_of(&stage)->members, borrower_list);
	ck_assert_int_eq(borrower->server->lease.sequences.state, SEQUENCES_OWN);
	server_rely_on_discard(borrower->server);
	stage_play_words(&stage, says, "1E(57014:canceled)ZDCZ b<E. 1<X.");
	stage_close(&stage);
}
END_TEST

/* The same if the failure arrives alone, and nobody relies on it. */
START_TEST(failure_makes_them_foreign)
{
	static const char says[] = "failure makes them foreign";
	struct stage stage;
	struct borrower *borrower;

	stage_open(&stage, "pool_mode=transaction\nsession_state=follow\ndefault_pool_size=1");
	stage_play_words(&stage, says, "a^ 1^ a<RSKZ b^ b<RSKZ aQ 1<Q 1CZ a<CZ");
	pool_ask_sequences(pool_of(&stage));
	stage_play_words(&stage, says, "bQ 1<QQ 1E(57014:canceled)Z b<");
	borrower = TAILQ_LAST(&pool_of(&stage)->members, borrower_list);
	ck_assert_int_eq(borrower->server->lease.sequences.state, SEQUENCES_FOREIGN);
	stage_play_words(&stage, says, "1CZ b<CZ 1<X.");
	stage_close(&stage);
}
END_TEST

/* One server kept in vain counts as much as four questions. */
START_TEST(scores_of_statements)
{
	static const struct {
		bool is_followed;
		int score;
	} steps[] = { { true, 1 },  { true, 2 },   { true, 3 },   { true, 4 },  { true, 4 },
		      { false, 0 }, { false, -4 }, { false, -4 }, { true, -3 }, { true, -2 },
		      { true, -1 }, { true, 0 },   { true, 1 },   { false, -3 } };
	uint16_t one = pool_sequences_statement(0), other = pool_sequences_statement(UINT64_MAX);
	struct stage stage;
	struct pool *pool;

	stage_open(&stage, "pool_mode=transaction\nsession_state=follow\ndefault_pool_size=1");
	stage_play_words(&stage, "a client", "a^ 1^ a<RSKZ");
	pool = pool_of(&stage);
	ck_assert(one && other && one != other);
	pool_sequences_note(pool, one, true);
	ck_assert_int_eq(pool_sequences_score(pool, one), 0); /* nobody has asked */
	pool_ask_sequences(pool);
	for (size_t i = 0; i < COUNT_OF(steps); i++) {
		pool_sequences_note(pool, one, steps[i].is_followed);
		pool_sequences_note(pool, 0, steps[i].is_followed);
		ck_assert_int_eq(pool_sequences_score(pool, one), steps[i].score);
	}
	ck_assert_int_eq(pool_sequences_score(pool, other), 0);
	ck_assert_int_eq(pool_sequences_score(pool, 0), 0);
	stage_close(&stage);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("pool/pool_sequences");
	TCase *tests = tcase_create("pool_sequences");

	tcase_set_timeout(tests, 20);
	tcase_add_loop_test(tests, pool_sequences_plays, 0, COUNT_OF(cases));
	tcase_add_test(tests, no_answer_behind_a_failure);
	tcase_add_test(tests, failure_makes_them_foreign);
	tcase_add_test(tests, scores_of_statements);
	suite_add_tcase(suite, tests);
	return unit_run(suite);
}
