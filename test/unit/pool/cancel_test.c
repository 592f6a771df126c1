/* SPDX-License-Identifier: ISC */
/*
 * pool/cancel.c, with clients and servers: what a request to cancel reaches.
 */
#include "../../lib/script.h"

#include "../unit.h"

static const struct script cases[] = {
	{ "a query that runs", "pool_mode=transaction\n",
	  "a^ 1^ a<RSKZ aQ 1<Q a* 2* 2. 1E(57014:no)Z a<<E(57014)Z aQ 1<Q" },
	{ "not a client that rests", "pool_mode=transaction\n", "a^ 1^ a<RSKZ a* 2- aQ 1<Q" },
	{ "between two statements of a transaction PostgreSQL hears of it, and ignores it",
	  "pool_mode=transaction\n", "a^ 1^ a<RSKZ aQ 1<Q 1Cz a<CZ a* 2* 2. aQ 1<Q" },
	{ "a client that waits for a server", "pool_mode=transaction\ndefault_pool_size=1",
	  "a^ 1^ a<RSKZ b^ b<RSKZ aQ 1<Q bQ b* b<<E(57014)Z 2- 1CZ a<CZ 1< bQ 1<Q" },
	{ "nothing up to its Sync is run then", "pool_mode=transaction\ndefault_pool_size=1",
	  "a^ 1^ a<RSKZ b^ b<RSKZ aQ 1<Q bP(:x)B()ES b* b<<E(57014)Z 1CZ a<CZ 1< bS 1<S" },
	{ "the Sync may come later", "pool_mode=transaction\ndefault_pool_size=1",
	  "a^ 1^ a<RSKZ b^ b<RSKZ aQ 1<Q bP(:x)B() b* b<<E(57014) bES b<Z 1CZ a<CZ 1<" },
	{ "the next client does not get the server before the request is over",
	  "pool_mode=transaction\ndefault_pool_size=1",
	  "a^ 1^ a<RSKZ b^ b<RSKZ aQ 1<Q a* 2* 1CZ a<CZ bQ 1< 2. 1<Q" },
	{ "nor does the same client", "pool_mode=transaction\ndefault_pool_size=1",
	  "a^ 1^ a<RSKZ aQ 1<Q a* 2* 1CZ a<CZ aQ 1< 2. 1<Q" },
	{ "a transaction keeps it", "pool_mode=transaction\ndefault_pool_size=1",
	  "a^ 1^ a<RSKZ aQ 1<Q a* 2* 1Ey a<EZ aQ 1<Q 2." },
	{ "two requests for one query", "pool_mode=transaction\n",
	  "a^ 1^ a<RSKZ aQ 1<Q a* 2* a* 2. 1EZ a<EZ" },
	{ "the client has gone", "pool_mode=transaction\n",
	  "a^ 1^ a<RSKZ aQ 1<Q a* 2* a. 1< 3- 2. 1<X." },
	{ "the server has gone", "pool_mode=transaction\n",
	  "a^ 1^ a<RSKZ aQ 1<Q a* 2* 1. a<E. 2. b^ b<RSKZ bQ 3^ 3<Q" },
	{ "one request goes however many servers there are",
	  "pool_mode=transaction\ndefault_pool_size=1\nreserve_pool_size=1\n"
	  "reserve_pool_timeout=0.001",
	  "a^ 1^ a<RSKZ b^ b<RSKZ aQ 1<Q bQ 2~^ 2RSKZ 2<Q a* 3* b* 4- 3. 4* 4. "
	  "1E(57014:no)Z a<<E(57014)Z 2E(57014:no)Z b<<E(57014)Z" },
	{ "a client whose BEGIN is late, and that waits",
	  "pool_mode=transaction\nlate_begin=1\ndefault_pool_size=1",
	  "a^ 1^ a<RSKZ b^ b<RSKZ bQ 1<Q 1Cz b<CZ aQ(begin) a<CZ aQ a* a<<E(57014)Z(E) "
	  "aQ(rollback) a<<C(ROLLBACK)Z" },
};

START_TEST(cancel_plays) { script_play(&cases[_i]); }
END_TEST

int main(void)
{
	Suite *suite = suite_create("pool/cancel");
	TCase *tcase = tcase_create("cancel");

	tcase_set_timeout(tcase, 20);
	tcase_add_loop_test(tcase, cancel_plays, 0, COUNT_OF(cases));
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
