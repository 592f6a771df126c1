/* SPDX-License-Identifier: ISC */
/*
 * pool/pool_lend.c, with clients and servers: what a server is made ready for, and how it comes
 * home.
 */
#include "../../lib/script.h"

#include "../unit.h"

static const struct script cases[] = {
	/* parameters */
	{ "a client keeps its own on the server of another",
	  "pool_mode=transaction\ndefault_pool_size=1",
	  "a^ 1^ a<RSKZ b^ b<RSKZ aQ 1<Q 1S(TimeZone:Asia/Tokyo)C(SET)Z a<SCZ bQ "
	  "1<<Q(SET_\"TimeZone\"='UTC';) 1S(TimeZone:UTC)C(SET)Z b< 1<<Q(select_1) 1CZ b<CZ" },
	{ "the same client needs nothing", "pool_mode=transaction\ndefault_pool_size=1",
	  "a^ 1^ a<RSKZ aQ 1<Q 1S(TimeZone:Asia/Tokyo)C(SET)Z a<SCZ aQ 1<Q" },
	{ "they are refused", "pool_mode=transaction\ndefault_pool_size=1",
	  "a^ 1^ a<RSKZ b^ b<RSKZ aQ 1<Q 1S(TimeZone:Asia/Tokyo)C(SET)Z a<SCZ bQ 1<Q 1E(22023:no)Z "
	  "b<<E(22023)." },
	{ "and the server is good for others", "pool_mode=transaction\ndefault_pool_size=1",
	  "a^ 1^ a<RSKZ b^ b<RSKZ aQ 1<Q 1S(TimeZone:Asia/Tokyo)C(SET)Z a<SCZ bQ 1<Q 1E(22023:no)Z "
	  "b<E. aQ 1<Q" },
	{ "each time the server changes hands", "pool_mode=transaction\ndefault_pool_size=1",
	  "a^ 1^ a<RSKZ b^ b<RSKZ aQ 1<Q 1S(TimeZone:Asia/Tokyo)C(SET)Z a<SCZ bQ 1<Q "
	  "1S(TimeZone:UTC)CZ 1<Q 1CZ b<CZ aQ 1<<Q(SET_\"TimeZone\"='Asia/Tokyo';)" },
	{ "a server goes while it is made ready", "pool_mode=transaction\ndefault_pool_size=1",
	  "a^ 1^ a<RSKZ b^ b<RSKZ aQ 1<Q 1S(TimeZone:Asia/Tokyo)C(SET)Z a<SCZ bQ 1<Q 1. "
	  "2^ 2<Q 2CZ b<CZ" },
	{ "a client goes while its server is made ready",
	  "pool_mode=transaction\ndefault_pool_size=1",
	  "a^ 1^ a<RSKZ b^ b<RSKZ aQ 1<Q 1S(TimeZone:Asia/Tokyo)C(SET)Z a<SCZ bQ 1<Q b. 1<X." },
	/* coming home */
	{ "a reset that is not asked for always",
	  "pool_mode=transaction\ndefault_pool_size=1\nserver_reset_query=discard_all",
	  "a^ 1^ a<RSKZ aQ 1<Q 1CZ a<CZ 1<" },
	{ "one that is",
	  "pool_mode=transaction\ndefault_pool_size=1\nserver_reset_query=discard_all\nserver_"
	  "reset_query_always=1",
	  "a^ 1^ a<RSKZ aQ 1<Q 1CZ a<CZ 1<<Q(discard_all) aQ 1< 1xZ 1<Q" },
	{ "a client that goes with a COPY open", "pool_mode=transaction\ndefault_pool_size=1",
	  "a^ 1^ a<RSKZ aQ 1<Q 1G a. 2* 2. 1<X." },
	{ "a client that goes with half an answer", "pool_mode=transaction\ndefault_pool_size=1",
	  "a^ 1^ a<RSKZ aQ 1<Q 1TD a. 2* 2. 1<X." },
	{ "a client that goes with half a message, which the server has not got",
	  "pool_mode=session\ndefault_pool_size=1",
	  "a^ 1^ a<RSKZ aQ 1<Q 1CZ a<CZ a% a. 1<<Q(DISCARD_ALL)" },
	{ "a client that goes with half a message, which the server has got",
	  "pool_mode=transaction\ndefault_pool_size=1", "a^ 1^ a<RSKZ a% 1< a. 2* 2. 1<." },
	{ "a session that leaves", "pool_mode=session\ndefault_pool_size=1\nserver_reset_query=",
	  "a^ 1^ a<RSKZ b^ b<RSKZ aQ 1<Q 1CZ a<CZ aX 1< bQ 1<Q" },
};

START_TEST(pool_plays) { script_play(&cases[_i]); }
END_TEST

int main(void)
{
	Suite *suite = suite_create("pool/pool");
	TCase *tcase = tcase_create("pool");

	tcase_set_timeout(tcase, 20);
	tcase_add_loop_test(tcase, pool_plays, 0, COUNT_OF(cases));
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
