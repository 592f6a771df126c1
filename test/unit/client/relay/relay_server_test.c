/* SPDX-License-Identifier: ISC */
/*
 * client/relay/relay.c: what a server says, what its client hears of it, and whose it is
 * then.
 */
#include "../../../lib/script.h"

#include "../../unit.h"

#define FOLLOWED "pool_mode=transaction\nmax_prepared_statements=100"
#define PREPARED "a^ 1^ a<RSKZ aP(s:select_1)S 1<PS 11Z a<1Z "

static const struct script cases[] = {
	/* replies */
	{ "a parameter that changes in a query", "pool_mode=transaction",
	  "a^ 1^ a<RSKZ aQ 1<Q 1S(TimeZone:Asia/Tokyo)CZ a<<S(TimeZone)C(SELECT_1)Z" },
	{ "one that changes while nobody has the server", "pool_mode=transaction",
	  "a^ 1^ a<RSKZ 1S(TimeZone:Asia/Tokyo) a< 1<" },
	{ "a notice and a notification in a query", "pool_mode=transaction",
	  "a^ 1^ a<RSKZ aQ 1<Q 1NACZ a<NACZ" },
	{ "and while nobody has the server", "pool_mode=transaction", "a^ 1^ a<RSKZ 1NA a< 1<" },
	{ "a session hears of notifications between two queries, and of notices",
	  "pool_mode=session", "a^ 1^ a<RSKZ aQ 1<Q 1CZ a<CZ 1NA a<NA" },
	{ "nobody hears the notices of a reset", "pool_mode=session\ndefault_pool_size=1",
	  "a^ 1^ a<RSKZ b^ b<RSKZ aQ 1<Q 1CZ bQ aX 1<Q 1NxZ 1<Q 1CZ b<CZ" },
	{ "rows that nobody asked for", "pool_mode=transaction",
	  "a^ 1^ a<RSKZ aS 1<S 1D a<E. 1<X." },
	{ "rows of a server that nobody has", "pool_mode=transaction", "a^ 1^ a<RSKZ 1D 1<X. a<" },
	{ "an answer behind the last one", "pool_mode=transaction",
	  "a^ 1^ a<RSKZ aQ 1<Q 1CZC a<CZ 1<X." },
	{ "a login's message behind the login", "pool_mode=transaction",
	  "a^ 1^ a<RSKZ aQ 1<Q 1R a<E. 1<X." },
	{ "DEALLOCATE by somebody else's hand: statements are not trusted any more", FOLLOWED,
	  "a^ 1^ a<RSKZ aP(s:select_1)S 1<PS 11Z a<1Z aQ 1<Q 1C(DEALLOCATE)Z a<CZ aB(s)S "
	  "1<<C(S:#1)P(#1:select_1)B(#1)S 1312Z a<2Z" },
	{ "DISCARD ALL: there are none any more", FOLLOWED,
	  "a^ 1^ a<RSKZ b^ b<RSKZ aP(s:select_1)S 1<PS 11Z a<1Z bQ 1<Q 1xZ b<CZ aP(t:select_1)S "
	  "1<<P(#1:select_1)S" },
	{ "what is answered here waits for what is not", FOLLOWED,
	  "a^ 1^ a<RSKZ aP(s:select_1)S 1<PS 11Z a<1Z aB(s)C(S:s)S 1<BS 12 a<23 1Z a<Z" },

	/* errors */
	{ "an error of a query is the client's", "pool_mode=transaction",
	  "a^ 1^ a<RSKZ aQ 1<Q 1E(22012:division)Z a<<E(22012)Z aQ 1<Q" },
	{ "a FATAL one in a query, too, and it is the last", "pool_mode=transaction",
	  "a^ 1^ a<RSKZ aQ 1<Q 1! 1. a<E." },
	{ "a FATAL one without the end of the connection", "pool_mode=transaction",
	  "a^ 1^ a<RSKZ aQ 1<Q 1!Z a<E. 1<X." },
	{ "a FATAL one to nobody ends the server", "pool_mode=transaction",
	  "a^ 1^ a<RSKZ 1! 1<X. a<" },
	{ "one that is not fatal, too", "pool_mode=transaction", "a^ 1^ a<RSKZ 1E 1<X. a<" },
	{ "in a transaction between two statements it is out of step", "pool_mode=transaction",
	  "a^ 1^ a<RSKZ aQ 1<Q 1Cz a<CZ 1E a<E. 1<X." },
	{ "a FATAL one there is the client's", "pool_mode=transaction",
	  "a^ 1^ a<RSKZ aQ 1<Q 1Cz a<CZ 1! 1. a<<E(57P01)." },
	{ "a statement that is lost is prepared again with its next use", FOLLOWED,
	  PREPARED
	  "aB(s)ES 1<<B(#1)ES 1E(26000:prepared_statement_\"#1\"_does_not_exist)Z a<<E(26000)Z "
	  "aB(s)ES 1<<C(S:#1)P(#1:select_1)B(#1)ES" },
	{ "one that is lost, where the client need not know", FOLLOWED,
	  PREPARED "aB(s)D(P:)ES 1<BDES 1E(26000:prepared_statement_\"#1\"_does_not_exist)Z a< "
	           "1<<C(S:#1)P(#1:select_1)B(#1)D(P:)ES 1312T()CZ a<2TCZ" },
	{ "another one that is lost is not ours", FOLLOWED,
	  PREPARED "aB(s)ES 1<BES 1E(26000:prepared_statement_\"x\"_does_not_exist)Z a<EZ aB(s)ES "
	           "1<<B(#1)ES" },
	{ "a server where a name of ours is taken is of no more use", FOLLOWED,
	  PREPARED "aP(t:select_2)S 1<<P(#2:select_2)S "
	           "1E(42P05:prepared_statement_\"#2\"_already_exists)Z a<<E(42P05)Z 1<X." },
	{ "a name of the client's that is taken concerns nobody", FOLLOWED,
	  PREPARED "aQ 1<Q 1E(42P05:prepared_statement_\"x\"_already_exists)Z a<EZ 1< aQ 1<Q" },
};

START_TEST(relay_server_plays) { script_play(&cases[_i]); }
END_TEST

int main(void)
{
	Suite *suite = suite_create("client/relay/relay_server");
	TCase *tcase = tcase_create("relay_server");

	tcase_set_timeout(tcase, 20);
	tcase_add_loop_test(tcase, relay_server_plays, 0, COUNT_OF(cases));
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
