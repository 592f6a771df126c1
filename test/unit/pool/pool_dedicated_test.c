/* SPDX-License-Identifier: ISC */
/*
 * pool/pool_grow.c, with clients and servers: servers of one client, for replication.
 */
#include "../../lib/script.h"

#include "../unit.h"

static const struct script cases[] = {
	/* the client and its server */
	{ "a server of its own, and a stream", "pool_mode=transaction",
	  "a^00d a< 1^ 1< a<RSKZ aQ 1<Q 1TDCZ a<TDCZ aQ 1<Q 1W a<W 1d ad a<d 1<d ac 1<c 1dc a<dc "
	  "1CZ "
	  "a<CZ 1< aQ 1<Q 1CZ aX 1<X." },
	{ "others neither use it nor are welcomed by it", "pool_mode=transaction",
	  "a^00p 1^ a<RSKZ b^ 2^ b<RSKZ bQ 2<Q 1< 2CZ b<CZ c^00d 3^ c<RSKZ bQ 2<Q" },
	{ "it waits for its own, whatever is idle", "pool_mode=session",
	  "a^ 1^ a<RSKZ b^00d b< 2^R 1< b< 2SKZ b<RSKZ" },
	{ "the server ends the stream", "",
	  "a^00p 1^ a<RSKZ aQ 1<Q 1Wdc a<Wdc add 1<dd ac 1<c 1TDCCZ "
	  "a<TDCCZ" },
	{ "an error ends the stream", "",
	  "a^00p 1^ a<RSKZ aQ 1<Q 1Wd ad 1<d 1EZ a<WdEZ adc 1< aQ 1<Q" },
	{ "a server out of step in a stream", "", "a^00p 1^ a<RSKZ aQ 1<Q 1W a<W 1TZ a<E. 1<X." },
	{ "the server goes in the middle of a stream", "",
	  "a^00p 1^ a<RSKZ aQ 1<Q 1W a<W 1. a<E." },
	{ "the client goes in the middle of a stream", "", "a^00p 1^ a<RSKZ aQ 1<Q 1Wd a. 1<X." },
	{ "the client goes while its server logs in", "", "a^00p 1^R a. 1<." },
	{ "a refusal is its own only", "pool_mode=transaction",
	  "a^ 1^ a<RSKZ b^00p 2^? b<E. aQ 1<Q 1CZ a<CZ c^ c<RSKZ d^00p 3^ d<RSKZ" },
	{ "nor does it wait because others are refused", "",
	  "a^ 1^? a<E. b^00p 2^ b<RSKZ c^ c<E." },
	{ "it waits for a server that cannot be reached", "server_login_retry=20ms",
	  "a^00d 1^R 1. a< 2~^ 2RSKZ a<RSKZ" },
	{ "so do two, the first of them first", "server_login_retry=20ms",
	  "a^00d 1^R 1. a< b^00d b< 2~^ 2. a< b< 3~^ 3RSKZ a<RSKZ 4^ b<RSKZ" },
	{ "an idle server makes room", "pool_mode=transaction\ndefault_pool_size=1",
	  "a^ 1^ a<RSKZ b^00d 1<X. 2^ b<RSKZ aQ 2< 3- bX 2<X. 3^ 3<Q" },
	{ "a busy one too, when its turn has come", "pool_mode=transaction\ndefault_pool_size=1",
	  "a^ 1^ a<RSKZ c^ c<RSKZ aQ 1<Q b^00d cQ 2- 1CZ a<CZ 1<X. 2^ b<RSKZ c< bX 2<X. 3^ 3<Q" },
	{ "but not before", "pool_mode=transaction\ndefault_pool_size=1",
	  "a^ 1^ a<RSKZ c^ c<RSKZ aQ 1<Q cQ b^00d 2- 1CZ a<CZ 1<Q 2- 1CZ c<CZ 1<X. 2^ b<RSKZ" },
	{ "one idle server makes room, the others stay",
	  "pool_mode=transaction\ndefault_pool_size=3",
	  "a^ 1^ a<RSKZ b^ b<RSKZ c^ c<RSKZ aQ 1<Q bQ 2^ 2<Q cQ 3^ 3<Q 1CZ a<CZ 2CZ b<CZ 3CZ c<CZ "
	  "d^00d 1<X. 4^ d<RSKZ 2< 3< dX 4<X. aQ 3<Q bQ 2<Q" },
	{ "of the database too", "pool_mode=transaction\nmax_db_connections=3",
	  "a^ 1^ a<RSKZ b^ b<RSKZ c^ c<RSKZ aQ 1<Q bQ 2^ 2<Q cQ 3^ 3<Q 1CZ a<CZ 2CZ b<CZ 3CZ c<CZ "
	  "d^00d 1<X. 4^ d<RSKZ 2< 3< dX 4<X. aQ 3<Q bQ 2<Q" },
	{ "an idle one of another pool makes room", "pool_mode=transaction\nmax_db_connections=1",
	  "a^00 1^ a<RSKZ b^10d 1<X. 2^ b<RSKZ" },
	{ "no statement mode for it", "pool_mode=statement",
	  "a^00d 1^ a<RSKZ aQ 1<Q 1Cz a<CZ aQ 1<Q 1CZ a<CZ" },
	{ "no query_timeout for it", "query_timeout=200ms",
	  "a^00d 1^ a<RSKZ aQ 1<Q 1W a<W b^ 2^ b<RSKZ bQ 2<Q b~E. 1d a<d" },
	{ "nor server_lifetime", "server_lifetime=20ms",
	  "a^00d 1^ a<RSKZ b^ 2^ b<RSKZ 2~X. aQ 1<Q 1CZ a<CZ" },
};

START_TEST(pool_dedicated_plays) { script_play(&cases[_i]); }
END_TEST

int main(void)
{
	Suite *suite = suite_create("pool/pool_dedicated");
	TCase *tcase = tcase_create("pool_dedicated");

	tcase_set_timeout(tcase, 20);
	tcase_add_loop_test(tcase, pool_dedicated_plays, 0, COUNT_OF(cases));
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
