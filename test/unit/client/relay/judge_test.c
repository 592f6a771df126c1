/* SPDX-License-Identifier: ISC */
/*
 * client/relay/judge.c: what a client may say when, and how much of it is on its way.
 */
#include "../../../lib/script.h"

#include <sys/socket.h>

#include "pgweir/pool/server/ledger.h"

#include "../../unit.h"

#define FOLLOWED "pool_mode=transaction\nmax_prepared_statements=100\ndefault_pool_size=1"

static const struct script cases[] = {
	{ "a Flush of nothing goes nowhere", "pool_mode=transaction",
	  "a^ 1^ a<RSKZ aH 1< aQ 1<Q 1CZ a<CZ aH 1<" },
	{ "nor does data without a COPY", "pool_mode=transaction",
	  "a^ 1^ a<RSKZ adcf 1< aQd 1<Qd 1CZ a<CZ ad 1<" },
	{ "data goes on while the COPY lasts", "pool_mode=transaction",
	  "a^ 1^ a<RSKZ aQ 1<Q 1G a<G addd 1<ddd adc 1<dc 1CZ a<CZ ad 1<" },
	{ "Terminate without a server", "pool_mode=transaction", "a^ 1^ a<RSKZ aX a<. 1<" },
	{ "Terminate behind others", "pool_mode=transaction", "a^ 1^ a<RSKZ aPBESX 1<PBESX. a<." },
	{ "a login's message is unknown after the login", "pool_mode=transaction",
	  "a^ 1^ a<RSKZ ap a<E." },
	{ "the first byte beyond ASCII is unknown", "pool_mode=transaction",
	  "a^ 1^ a<RSKZ a\177 a<E." },
	{ "PQexec may be forbidden, what a driver says is not",
	  "pool_mode=transaction\ndisable_pqexec=1",
	  "a^ 1^ a<RSKZ aP(:x)B()ES 1<PBES 112CZ a<12CZ aQ a<E. 1<" },
	{ "a function call", "pool_mode=transaction", "a^ 1^ a<RSKZ aF 1<F 1VZ a<VZ" },
	{ "half a message of no name takes a server at once", FOLLOWED,
	  "a^ 1^ a<RSKZ b^ b<RSKZ a% 1< bQ b< 1<" },
	{ "in a session without a server of its own", "pool_mode=session\ndefault_pool_size=1",
	  "a^ 1^ a<RSKZ b^ b<RSKZ aS 1<S 1Z a<Z bQ b< 1<" },
	{ "what is said behind a query that is answered first", "pool_mode=transaction",
	  "a^ 1^ a<RSKZ aQSQ 1<QSQ 1CZZCZ a<CZZCZ" },
};

START_TEST(judge_plays) { script_play(&cases[_i]); }
END_TEST

/* Optional features after a reload: they count from a client's next message on. */
static const struct {
	const char *says;
	const char *before, *words_before; /* a reload in between */
	const char *after, *words_after;
} reloads[] = {
	{ "PQexec is forbidden", "pool_mode=transaction", "a^ 1^ a<RSKZ aQ 1<Q 1CZ a<CZ",
	  "pool_mode=transaction\ndisable_pqexec=1", "aQ a<E. 1<" },
	{ "PQexec is allowed", "pool_mode=transaction\ndisable_pqexec=1",
	  "a^ 1^ a<RSKZ aPBES 1<PBES 112CZ a<12CZ", "pool_mode=transaction", "aQ 1<Q 1CZ a<CZ" },
	{ "statements are followed", "pool_mode=transaction\nmax_prepared_statements=0",
	  "a^ 1^ a<RSKZ aQ 1<Q 1CZ a<CZ", "pool_mode=transaction\nmax_prepared_statements=100",
	  "aP(s:select_1)B(s)ES 1<<P(#1:select_1)B(#1)ES" },
	{ "statements are not followed", "pool_mode=transaction\nmax_prepared_statements=100",
	  "a^ 1^ a<RSKZ aQ 1<Q 1CZ a<CZ", "pool_mode=transaction\nmax_prepared_statements=0",
	  "aP(s:select_1)B(s)ES 1<<P(s:select_1)B(s)ES" },
	{ "but those that were prepared are", "pool_mode=transaction\nmax_prepared_statements=100",
	  "a^ 1^ a<RSKZ aP(s:select_1)S 1<<P(#1:select_1)S 11Z a<1Z",
	  "pool_mode=transaction\nmax_prepared_statements=0", "aB(s)ES 1<<B(#1)ES" },
	{ "until none is left", "pool_mode=transaction\nmax_prepared_statements=100",
	  "a^ 1^ a<RSKZ aP(s:select_1)S 1<<P(#1:select_1)S 11Z a<1Z aC(S:s)S 1<S 1Z a<3Z",
	  "pool_mode=transaction\nmax_prepared_statements=0",
	  "aP(s:select_1)B(s)ES 1<<P(s:select_1)B(s)ES" },
	{ "a BEGIN is late", "pool_mode=transaction", "a^ 1^ a<RSKZ aQ 1<Q 1CZ a<CZ",
	  "pool_mode=transaction\nlate_begin=1", "aQ(begin) a<<C(BEGIN)Z(T) 1<" },
};

START_TEST(judge_asks_the_features_in_force)
{
	const char *says = reloads[_i].says;
	struct stage stage;

	stage_open(&stage, reloads[_i].before);
	stage_play_words(&stage, says, reloads[_i].words_before);
	engine_reload(&stage.engine, reloads[_i].after, "");
	stage_play_words(&stage, says, reloads[_i].words_after);
	stage_close(&stage);
}
END_TEST

/* Headers that are no message: the client hears that, and the server hears nothing. */
START_TEST(judge_refuses_headers)
{
	static const char *const headers[] = { "Q\0\0\0\3", "Q\377\377\377\377", "Q\0\1\0\0" };
	struct stage stage;

	stage_open(&stage, "pool_mode=transaction\nmax_packet_size=65535");
	stage_play(&stage, "login", "a^");
	stage_play(&stage, "login", "1^");
	stage_play(&stage, "login", "a<RSKZ");
	ck_assert(peer_say_bytes(&stage.clients[0], bytes_of(headers[_i], 5)));
	stage_play(&stage, "it is refused", "a<E.");
	ck_assert_str_eq(stage.clients[0].error, "08P01 bad packet header");
	stage_play(&stage, "nobody else hears of it", "1<");
	stage_close(&stage);
}
END_TEST

static void say_syncs(struct stage *stage, size_t count)
{
	struct buf out = { 0 };

	while (count-- > 0)
		buf_add(&out, "S\0\0\0\4", 5);
	ck_assert(peer_say_bytes(&stage->clients[0], buf_bytes(&out)));
	buf_free(&out);
	engine_turn(&stage->engine);
}

/* How many bytes the server has heard. */
static size_t drain(struct stage *stage)
{
	static char scratch[65536];
	size_t heard = 0;
	ssize_t count;

	while ((count = recv(stage->servers[0].fd, scratch, sizeof(scratch), MSG_DONTWAIT)) > 0) {
		heard += (size_t)count;
		engine_turn(&stage->engine);
	}
	return heard;
}

/* A server never owes more than a ledger holds, and what waits comes with the next reply. */
START_TEST(judge_bounds_what_is_owed)
{
	const size_t piece = 4096, more = 100;
	struct stage stage;
	size_t heard = 0;

	stage_open(&stage, "pool_mode=transaction");
	stage_play(&stage, "login", "a^");
	stage_play(&stage, "login", "1^");
	stage_play(&stage, "login", "a<RSKZ");
	for (size_t said = 0; said < LEDGER_MAX; said += piece) {
		say_syncs(&stage, piece);
		heard += drain(&stage);
	}
	ck_assert_uint_eq(heard, 5 * LEDGER_MAX);
	say_syncs(&stage, more);
	ck_assert_uint_eq(drain(&stage), 0);
	for (size_t i = 0; i < 3; i++) {
		stage_play(&stage, "one is answered", "1Z");
		ck_assert_uint_eq(drain(&stage), 5);
	}
	stage_play(&stage, "the answers pass", "a<ZZZ");
	stage_close(&stage);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("client/relay/judge");
	TCase *tcase = tcase_create("judge");

	tcase_set_timeout(tcase, 20);
	tcase_add_loop_test(tcase, judge_plays, 0, COUNT_OF(cases));
	tcase_add_loop_test(tcase, judge_asks_the_features_in_force, 0, COUNT_OF(reloads));
	tcase_add_loop_test(tcase, judge_refuses_headers, 0, 3);
	tcase_add_test(tcase, judge_bounds_what_is_owed);
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
