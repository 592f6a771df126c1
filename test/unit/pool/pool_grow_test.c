/* SPDX-License-Identifier: ISC */
/*
 * pool/pool_grow.c, with clients and servers: how many servers it has, and which limit is in the
 * way.
 */
#include "../../lib/script.h"

#include "../unit.h"

static const struct script cases[] = {
	/* logins */
	{ "several logins are under way for as many who wait",
	  "pool_mode=session\ndefault_pool_size=4",
	  "a^ 1^ a<RSKZ b^ c^ b<RSKZ c<RSKZ aQ bQ cQ 1<Q 2^R 3^R 3SKZ 2SKZ 3<Q 2<Q" },
	{ "those who ask in one turn, too", "pool_mode=session\ndefault_pool_size=4",
	  "a^ 1^ a<RSKZ b^ c^ b<RSKZ c<RSKZ aQ+ bQ+ cQ 1<Q 2^R 3^R 4-" },
	{ "not for one who has left", "pool_mode=session\ndefault_pool_size=4",
	  "a^ 1^ a<RSKZ b^ c^ d^ b<RSKZ c<RSKZ d<RSKZ aQ+ bQ+ cQ+ dQ 1<Q 2^R 3^R b. c. 4^R 2SKZ "
	  "2<Q 3SKZ 3< 4SKZ 4<" },
	{ "no more than the size", "pool_mode=session\ndefault_pool_size=2",
	  "a^ 1^ a<RSKZ b^ c^ b<RSKZ c<RSKZ aQ bQ cQ 1<Q 2^R 3-" },
	/* the reserve, and the minimum */
	{ "the reserve helps a client that waits too long",
	  "pool_mode=transaction\ndefault_pool_size=1\nreserve_pool_size=1\nreserve_pool_timeout="
	  "20ms",
	  "a^ 1^ a<RSKZ b^ c^ b<RSKZ c<RSKZ aQ bQ 1<Q 2~^ 2RSKZ 2<Q 2CZ b<CZ cQ 2<Q" },
	{ "min_pool_size", "pool_mode=transaction\nmin_pool_size=3",
	  "a^ 1^ a<RSKZ 2^ 3^ 4- 2. 4^ 1< 3< 4<" },
	{ "the reserve is not used before its time",
	  "pool_mode=transaction\ndefault_pool_size=1\nreserve_pool_size=1\nreserve_pool_timeout="
	  "1h",
	  "a^ 1^ a<RSKZ b^ b<RSKZ aQ bQ 1<Q 2- 1CZ a<CZ 1<Q" },
	{ "nor without a time",
	  "pool_mode=transaction\ndefault_pool_size=1\nreserve_pool_size=1\nreserve_pool_timeout=0",
	  "a^ 1^ a<RSKZ b^ b<RSKZ aQ bQ 1<Q 2- 1CZ a<CZ 1<Q" },
	{ "it is no larger than it is",
	  "pool_mode=transaction\ndefault_pool_size=1\nreserve_pool_size=1\nreserve_pool_timeout="
	  "20ms",
	  "a^ 1^ a<RSKZ b^ c^ b<RSKZ c<RSKZ aQ bQ cQ 1<Q 2~^ 2R 3-" },
	{ "the minimum is no more than the size",
	  "pool_mode=transaction\nmin_pool_size=3\ndefault_pool_size=2", "a^ 1^ a<RSKZ 2^ 3-" },
	{ "unless there is no size", "pool_mode=transaction\nmin_pool_size=2\ndefault_pool_size=0",
	  "a^ 1^ a<RSKZ 2^ 3-" },
	{ "the minimum logs in one by one", "pool_mode=transaction\nmin_pool_size=3",
	  "a^ 1^ a<RSKZ 2^R 3- 2SKZ 3^R" },
	/* limits of databases and users */
	{ "an idle server of another pool is evicted",
	  "pool_mode=transaction\nmax_db_connections=1",
	  "a^00 1^ a<RSKZ b^10 1<X. 2^ b<RSKZ bQ 2<Q 2CZ b<CZ aQ 2<X. 3^ 3<Q" },
	{ "one that somebody waits for is not evicted",
	  "pool_mode=transaction\nmax_db_connections=1",
	  "a^00 1^ a<RSKZ c^00 c<RSKZ b^10 1<X. 2^ b<RSKZ aQ 2<X. 3^ 3<Q cQ c< bQ+ 3CZ a<CZ 3<Q "
	  "3CZ c<CZ 3<X. 4^ 4<Q 4CZ b<CZ" },
	{ "nor for a user's limit", "pool_mode=transaction\nmax_user_connections=1",
	  "a^00 1^ a<RSKZ c^00 c<RSKZ b^01 1<X. 2^ b<RSKZ aQ 2<X. 3^ 3<Q cQ c< bQ+ 3CZ a<CZ 3<Q "
	  "3CZ c<CZ 3<X. 4^ 4<Q 4CZ b<CZ" },
	{ "a busy one is waited for", "pool_mode=transaction\nmax_db_connections=1",
	  "a^00 1^ a<RSKZ aQ b^10 2- 1<Q 1Cz 2- aQ 1<Q 1CZ a<CZCZ 1<X. 2^ b<RSKZ" },
	{ "another database has its own limit", "pool_mode=transaction\nmax_db_connections=1",
	  "a^00 1^ a<RSKZ b^01 2^ b<RSKZ aQ 1<Q bQ 2<Q" },
	{ "a user's limit counts on all databases", "pool_mode=transaction\nmax_user_connections=1",
	  "a^00 1^ a<RSKZ b^01 1<X. 2^ b<RSKZ c^10 3^ c<RSKZ" },
	{ "the server that is lost makes room", "pool_mode=transaction\nmax_db_connections=1",
	  "a^00 1^ a<RSKZ aQ b^10 1<Q 2- 1. a<E. 2^ b<RSKZ" },
	{ "the client that is lost makes room", "pool_mode=transaction\nmax_db_connections=1",
	  "a^00 1^ a<RSKZ aQ b^10 1<Q 2- a. 2* 2. 1<X. 3- 1. 3^ b<RSKZ" },

	{ "the next one gets what the first does not need any more",
	  "pool_mode=transaction\nmax_db_connections=1",
	  "a^00 1^ a<RSKZ aQ b^10 c^20 1<Q 2- b. 1CZ a<CZ 1<X. 2^ c<RSKZ" },
	{ "nor may use for another limit",
	  "pool_mode=transaction\nmax_db_connections=2\nmax_user_connections=1",
	  "a^00 1^ a<RSKZ aQ 1<Q b^11 2^ b<RSKZ bQ 2<Q c^10 d^20 3^ d<RSKZ c<" },
	{ "a user's limit: the next one gets what the first does not need any more",
	  "pool_mode=transaction\nmax_user_connections=1",
	  "a^00 1^ a<RSKZ aQ b^01 c^02 1<Q 2- b. 1CZ a<CZ 1<X. 2^ c<RSKZ" },
	{ "it has room for two", "pool_mode=transaction\nmax_user_connections=2",
	  "a^00 1^ a<RSKZ aQ 1<Q b^01 2^ b<RSKZ bQ 2<Q c^02 3- 1CZ a<CZ 1<X. 3^ c<RSKZ" },
	{ "a database's limit has room for two", "pool_mode=transaction\nmax_db_connections=2",
	  "a^00 1^ a<RSKZ aQ 1<Q b^10 2^ b<RSKZ bQ 2<Q c^20 3- 1CZ a<CZ 1<X. 3^ c<RSKZ" },
	{ "the one unused for longest is evicted", "pool_mode=transaction\nmax_db_connections=2",
	  "a^00 1^ a<RSKZ b^10 2^ b<RSKZ aQ 1<Q 1CZ a<CZ c^20 2<X. 3^ c<RSKZ 1<" },
	/* of all, and of an address (every database here is at the same one): the end is awaited */
	{ "the limit of all: an idle server of any pool is evicted",
	  "pool_mode=transaction\nmax_server_connections=1",
	  "a^00 1^ a<RSKZ b^11 1<X. 2- 1. 2^ b<RSKZ bQ 2<Q 2CZ b<CZ aQ 2<X. 3- 2. 3^ 3<Q" },
	{ "a busy one is waited for there, too", "pool_mode=transaction\nmax_server_connections=1",
	  "a^00 1^ a<RSKZ aQ b^11 2- 1<Q 1Cz 2- aQ 1<Q 1CZ a<CZCZ 1<X. 2- 1. 2^ b<RSKZ" },
	{ "the limit of all: the next one gets what the first does not need any more",
	  "pool_mode=transaction\nmax_server_connections=1",
	  "a^00 1^ a<RSKZ aQ b^11 c^22 1<Q 2- b. 1CZ a<CZ 1<X. 2- 1. 2^ c<RSKZ" },
	{ "it counts beside the others",
	  "pool_mode=transaction\nmax_server_connections=2\nmax_user_connections=1",
	  "a^00 1^ a<RSKZ aQ 1<Q b^11 2^ b<RSKZ bQ 2<Q c^22 3- 2CZ b<CZ 2<X. 3- 2. 3^ c<RSKZ" },
	{ "an address: an idle server of any pool is evicted",
	  "pool_mode=transaction\nmax_host_connections=1",
	  "a^00 1^ a<RSKZ b^11 1<X. 2- 1. 2^ b<RSKZ bQ 2<Q 2CZ b<CZ aQ 2<X. 3- 2. 3^ 3<Q" },
	{ "at an address a busy one is waited for", "pool_mode=transaction\nmax_host_connections=1",
	  "a^00 1^ a<RSKZ aQ b^11 2- 1<Q 1Cz 2- aQ 1<Q 1CZ a<CZCZ 1<X. 2- 1. 2^ b<RSKZ" },
	{ "an address: the next one gets what the first does not need any more",
	  "pool_mode=transaction\nmax_host_connections=1",
	  "a^00 1^ a<RSKZ aQ b^11 c^22 1<Q 2- b. 1CZ a<CZ 1<X. 2- 1. 2^ c<RSKZ" },
	{ "an address with two: each that comes free is used",
	  "pool_mode=transaction\nmax_host_connections=2",
	  "a^00 1^ a<RSKZ b^11 2^ b<RSKZ aQ 1<Q bQ 2<Q c^22 d^02 3- 1CZ 2CZ a<CZ b<CZ 1<X. 3- 1. "
	  "3^ c<RSKZ 2<X. 2. 4^ d<RSKZ" },
	{ "the reserve of a busy address is not there either",
	  "pool_mode=transaction\nmax_host_connections=1\ndefault_pool_size=2",
	  "a^00 1^ a<RSKZ b^00 b<RSKZ aQ 1<Q bQ 2- 1CZ a<CZ 1<Q 1CZ b<CZ" },
	{ "of a user, too", "pool_mode=transaction\nmax_user_connections=2",
	  "a^00 1^ a<RSKZ b^01 2^ b<RSKZ aQ 1<Q 1CZ a<CZ c^02 2<X. 3^ c<RSKZ 1<" },
};

START_TEST(pool_grow_plays) { script_play(&cases[_i]); }
END_TEST

int main(void)
{
	Suite *suite = suite_create("pool/pool_grow");
	TCase *tcase = tcase_create("pool_grow");

	tcase_set_timeout(tcase, 20);
	tcase_add_loop_test(tcase, pool_grow_plays, 0, COUNT_OF(cases));
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
