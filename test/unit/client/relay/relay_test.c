/* SPDX-License-Identifier: ISC */
/*
 * client/relay/relay.c, and the lending of servers below it, with a real loop, pools and clients:
 * scripted dialogues of clients and servers.
 */
#include "../../../lib/script.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "../../unit.h"

static const struct script cases[] = {
	/* logins */
	{ "the first client waits for the first server", "pool_mode=transaction",
	  "a^ a< 1^ 1< a<RSKZ" },
	{ "the second does not need one", "pool_mode=transaction", "a^ 1^ a<RSKZ b^ b<RSKZ 1<" },
	{ "a server that refuses is quoted to the newcomers", "", "a^ b^ 1^? a<E. b<E." },

	/* transaction pooling */
	{ "a query and its answer", "pool_mode=transaction", "a^ 1^ a<RSKZ aQ 1<Q 1TDCZ a<TDCZ" },
	{ "two clients take turns at one server", "pool_mode=transaction\ndefault_pool_size=1",
	  "a^ 1^ a<RSKZ b^ b<RSKZ aQ bQ 1<Q 1CZ a<CZ b< 1<Q 1TDCZ b<TDCZ a<" },
	{ "a transaction keeps its server", "pool_mode=transaction\ndefault_pool_size=1",
	  "a^ 1^ a<RSKZ b^ b<RSKZ aQ bQ 1<Q 1Cz a<CZ 1< aQ 1<Q 1CZ a<CZ 1<Q 1CZ b<CZ" },
	{ "a failed transaction keeps it too", "pool_mode=transaction\ndefault_pool_size=1",
	  "a^ 1^ a<RSKZ b^ b<RSKZ aQ bQ 1<Q 1Ey a<EZ 1< aQ 1<Q 1CZ 1<Q" },
	{ "a pipeline is not cut in two", "pool_mode=transaction\ndefault_pool_size=1",
	  "a^ 1^ a<RSKZ b^ b<RSKZ aPBESPBES bQ 1<PBESPBES 112CZ a<12CZ 1< 112CZ 1<Q a<12CZ" },
	{ "without its Sync it keeps the server", "pool_mode=transaction\ndefault_pool_size=1",
	  "a^ 1^ a<RSKZ b^ b<RSKZ aPBEH bQ 1<PBEH 112C a<12C 1< aS 1<S 1Z a<Z 1<Q" },
	{ "after an error it is held until the Sync", "pool_mode=transaction\ndefault_pool_size=1",
	  "a^ 1^ a<RSKZ b^ b<RSKZ aPBE bQ 1<PBE 1E a<E 1< aQ 1<Q aS 1<S 1Z a<Z 1<Q" },
	{ "COPY IN holds it", "pool_mode=transaction\ndefault_pool_size=1",
	  "a^ 1^ a<RSKZ b^ b<RSKZ aQ bQ 1<Q 1G a<G add 1<dd ac 1<c 1CZ a<CZ 1<Q" },
	{ "the rest of a COPY that failed goes nowhere", "pool_mode=transaction",
	  "a^ 1^ a<RSKZ aQ 1<Q 1G ad 1<d 1EZ a<GEZ addc 1< aQ 1<Q 1CZ a<CZ" },
	{ "a COPY into a view: its Sync is answered", "pool_mode=transaction",
	  "a^ 1^ a<RSKZ aPBES 1<PBES 112GEZ a<12GEZ 1< aQ 1<Q 1CZ a<CZ" },
	{ "a COPY that failed at its data: what it owes is found out", "pool_mode=transaction",
	  "a^ 1^ a<RSKZ aPBES 1<PBES 112G ad 1<d 1E acS 1<cS 1Z a<12GEZ 1<CS 13Z a< aQ 1<Q 1CZ "
	  "a<CZ" },
	{ "and meanwhile nobody else is lent it", "pool_mode=transaction\ndefault_pool_size=1",
	  "a^ 1^ a<RSKZ b^ b<RSKZ aPBES bQ 1<PBES 112G ad 1<d 1E acS 1<cS 1Z a<12GEZ 1<CS 13Z "
	  "1<Q 1CZ b<CZ a<" },
	{ "both were answered", "pool_mode=transaction\ndefault_pool_size=1",
	  "a^ 1^ a<RSKZ b^ b<RSKZ aPBEScS bQ 1<PBEScS 112GEZZ a<12GEZZ 1<CS 13Z 1<Q 1CZ b<CZ a<" },
	{ "the second answer takes its time", "pool_mode=transaction\ndefault_pool_size=1",
	  "a^ 1^ a<RSKZ aPBEScS 1<PBEScS 112GEZ a<12GEZ 1<CS 1Z a<Z 13Z a< aQ 1<Q 1CZ a<CZ" },
	{ "a Sync among the data is answered", "pool_mode=transaction",
	  "a^ 1^ a<RSKZ aPBES 1<PBES 112G adS 1<dS 1EZ a<12GEZ 1<CS 13Z a< aQ 1<Q 1CZ a<CZ" },
	{ "notices and notifications pass", "pool_mode=transaction",
	  "a^ 1^ a<RSKZ aQ 1<Q 1NACNZ a<NACNZ" },
	{ "what comes of itself to an idle server does not", "pool_mode=transaction",
	  "a^ 1^ a<RSKZ 1NA a< aQ 1<Q 1CZ a<CZ" },

	/* session pooling */
	{ "a session keeps its server", "pool_mode=session\ndefault_pool_size=1",
	  "a^ 1^ a<RSKZ b^ b<RSKZ aQ bQ 1<Q 1CZ a<CZ 1< aX a<. 1<Q 1CZ 1<Q 1CZ b<CZ" },
	{ "without a reset query it goes at once",
	  "pool_mode=session\ndefault_pool_size=1\nserver_reset_query=",
	  "a^ 1^ a<RSKZ b^ b<RSKZ aQ bQ 1<Q 1CZ a<CZ aX 1<Q 1CZ b<CZ" },
	{ "a reset that fails ends the server", "pool_mode=session\ndefault_pool_size=1",
	  "a^ 1^ a<RSKZ aQ 1<Q 1CZ aX 1<Q 1EZ 1<X." },

	/* statement pooling */
	{ "a transaction is refused", "pool_mode=statement",
	  "a^ 1^ a<RSKZ aQ 1<Q 1Cz a<CZE. 1<X." },

	/* clients that disconnect */
	{ "a client goes with its transaction open", "pool_mode=transaction",
	  "a^ 1^ a<RSKZ aQ 1<Q 1Cz a. 1<X." },
	{ "a client goes while its query runs", "pool_mode=transaction",
	  "a^ 1^ a<RSKZ aQ 1<Q a. 2* 1< 2. 1<X." },
	{ "a client goes out of the line", "pool_mode=transaction\ndefault_pool_size=1",
	  "a^ 1^ a<RSKZ b^ b<RSKZ aQ bQ 1<Q b. 1CZ a<CZ 1< aQ 1<Q" },
	{ "a client goes with a frame half sent", "pool_mode=transaction",
	  "a^ 1^ a<RSKZ a% 1< a. 2* 2. 1<." },
	{ "Terminate behind a query", "pool_mode=transaction", "a^ 1^ a<RSKZ aQX a<. 1<QX." },
	{ "an unknown message", "pool_mode=transaction", "a^ 1^ a<RSKZ az a<E." },
	{ "a password out of place", "pool_mode=transaction", "a^ 1^ a<RSKZ ap a<E." },

	/* servers that disconnect or are out of step */
	{ "a server goes while a query runs", "pool_mode=transaction",
	  "a^ 1^ a<RSKZ aQ 1<Q 1. a<E." },
	{ "a server says why", "pool_mode=transaction", "a^ 1^ a<RSKZ aQ 1<Q 1! 1. a<E." },
	{ "a server goes between two transactions", "pool_mode=transaction",
	  "a^ 1^ a<RSKZ aQ 1<Q 1CZ a<CZ 1. a< aQ 2^ 2<Q 2CZ a<CZ" },
	{ "a server answers what nobody asked", "pool_mode=transaction",
	  "a^ 1^ a<RSKZ 1Z 1<X. a< aQ 2^ 2<Q" },
	{ "an ERROR that nobody asked for, to a session", "pool_mode=session",
	  "a^ 1^ a<RSKZ aQ 1<Q 1CZ a<CZ 1E a<E. 1<X." },
	{ "an ERROR that nobody asked for, in a transaction", "pool_mode=transaction",
	  "a^ 1^ a<RSKZ aQ 1<Q 1Cz a<CZ 1E a<E. 1<X." },
	{ "a server answers twice", "pool_mode=transaction",
	  "a^ 1^ a<RSKZ b^ b<RSKZ aQ 1<Q 1CZZ a<CZ 1<X. bQ 2^ 2<Q 2CZ b<CZ" },
	{ "a server answers with the wrong thing", "pool_mode=transaction",
	  "a^ 1^ a<RSKZ aQ 1<Q 11 a<E. 1<X." },
	{ "an answer that is empty", "pool_mode=transaction", "a^ 1^ a<RSKZ aQ 1<Q 1Z a<E. 1<X." },

	/* the wait queue */
	{ "first come, first served", "pool_mode=transaction\ndefault_pool_size=1",
	  "a^ 1^ a<RSKZ b^ c^ d^ b<RSKZ c<RSKZ d<RSKZ aQ cQ dQ bQ 1<Q 1CZ 1<Q 1CZ c<CZ b< 1<Q 1CZ "
	  "d<CZ "
	  "b< 1<Q 1CZ b<CZ" },
	{ "a client that leaves makes room for the next",
	  "pool_mode=transaction\ndefault_pool_size=1",
	  "a^ 1^ a<RSKZ b^ c^ b<RSKZ c<RSKZ aQ bQ cQ b. 1<Q 1CZ 1<Q 1CZ c<CZ" },
	{ "a pipeline that grows is answered before", "pool_mode=transaction\ndefault_pool_size=1",
	  "a^ 1^ a<RSKZ b^ b<RSKZ aQ bQ 1<Q aQ 1<Q 1CZ a<CZ 1< 1CZ a<CZ 1<Q 1CZ b<CZ" },
	{ "the server used last is lent first", "pool_mode=transaction",
	  "a^ 1^ a<RSKZ b^ b<RSKZ aQ bQ 1<Q 2^ 2<Q 1CZ 2CZ a<CZ b<CZ aQ 2<Q 2CZ aQ 2<Q 2CZ 1<" },
	{ "or the one that rested longest", "pool_mode=transaction\nserver_round_robin=1",
	  "a^ 1^ a<RSKZ b^ b<RSKZ aQ bQ 1<Q 2^ 2<Q 1CZ 2CZ a<CZ b<CZ aQ 1<Q 1CZ aQ 2<Q 2CZ 1<" },
	{ "no more servers than the pool's size", "pool_mode=transaction\ndefault_pool_size=2",
	  "a^ 1^ a<RSKZ b^ c^ b<RSKZ c<RSKZ aQ bQ cQ 2^ 3- 1<Q 2<Q 2CZ b<CZ 2<Q" },
	{ "several logins at once", "pool_mode=session\ndefault_pool_size=4",
	  "a^ 1^ a<RSKZ b^ c^ b<RSKZ c<RSKZ aQ bQ cQ 1<Q 2^ 3^ 2<Q 3<Q" },

	/* failures */
	{ "a refused login keeps the others from trying", "pool_mode=transaction",
	  "a^ 1^? a<E. b^ b<E. 2-" },
	{ "a broken login does not refuse", "pool_mode=transaction", "a^ 1^R 1. a< 2- b^ a< b<" },
	{ "a living server goes on serving", "pool_mode=transaction\ndefault_pool_size=2",
	  "a^ 1^ a<RSKZ b^ b<RSKZ aQ bQ 1<Q 2^? 1CZ a<CZ 1<Q 1CZ b<CZ" },
	{ "all are lost: those who ask are told why", "pool_mode=transaction",
	  "a^ 1^ a<RSKZ b^ b<RSKZ 1. aQ 2^? a<E. bQ b<E." },
	{ "nonsense during the login", "pool_mode=transaction", "a^ 1^D 1<. a<E." },
	{ "a FATAL error while idle", "pool_mode=transaction",
	  "a^ 1^ a<RSKZ 1! 1<X. a< aQ 2^ 2<Q" },
	{ "the reset query runs before the next one", "default_pool_size=1",
	  "a^ 1^ a<RSKZ b^ b<RSKZ aQ 1<Q 1CZ bQ aX 1<Q 1N 1x 1< 1Z 1<Q" },
	{ "a server goes while it is reset", "default_pool_size=1",
	  "a^ 1^ a<RSKZ b^ b<RSKZ aQ 1<Q 1CZ bQ aX 1<Q 1. 2^ 2<Q 2CZ b<CZ" },

	/* time */
	{ "a login is tried again", "server_login_retry=20ms", "a^ 1^R 1. 2~^ 2RSKZ a<RSKZ" },
	{ "those who wait for a later try are served",
	  "pool_mode=transaction\nserver_login_retry=20ms",
	  "a^ 1^ a<RSKZ 1. aQ 2^R 2. 3~^ 3RSKZ 3<Q 3CZ a<CZ" },
	{ "a server that says nothing is given up", "server_connect_timeout=300ms",
	  "a^ 1~^ 1~. a<" },
	{ "query_wait_timeout",
	  "pool_mode=transaction\ndefault_pool_size=1\nquery_wait_timeout=200ms",
	  "a^ 1^ a<RSKZ b^ b<RSKZ aQ bQ 1<Q b~E. 1CZ a<CZ 1<" },
	{ "query_wait_notify",
	  "pool_mode=transaction\ndefault_pool_size=1\nquery_wait_notify=200ms",
	  "a^ 1^ a<RSKZ b^ b<RSKZ aQ bQ 1<Q b~N 1CZ a<CZ 1<Q 1CZ b<CZ" },
	{ "query_timeout", "pool_mode=transaction\nquery_timeout=200ms",
	  "a^ 1^ a<RSKZ aQ 1<Q a~E. 2* 2. 1<X." },
	{ "query_timeout is over with the answer",
	  "pool_mode=transaction\nquery_timeout=200ms\n"
	  "server_idle_timeout=600ms",
	  "a^ 1^ a<RSKZ aQ 1<Q 1CZ a<CZ 1~X. a<" },
	{ "idle_transaction_timeout", "pool_mode=transaction\nidle_transaction_timeout=200ms",
	  "a^ 1^ a<RSKZ aQ 1<Q 1Cz a<CZ a~E. 1<X." },
	{ "transaction_timeout", "pool_mode=transaction\ntransaction_timeout=200ms",
	  "a^ 1^ a<RSKZ aQ 1<Q 1Cz a<CZ aQ 1<Q a~E. 2* 2. 1<X." },
	{ "server_idle_timeout", "pool_mode=transaction\nserver_idle_timeout=20ms",
	  "a^ 1^ a<RSKZ 1~X. a<" },
	{ "server_lifetime", "pool_mode=transaction\nserver_lifetime=20ms",
	  "a^ 1^ a<RSKZ 1~X. aQ 2^ 2<Q" },
	{ "client_idle_timeout", "pool_mode=transaction\nclient_idle_timeout=200ms",
	  "a^ 1^ a<RSKZ a~E. 1<" },
	{ "client_login_timeout", "client_login_timeout=200ms", "a^ 1^R a~E. 1<" },

	/* settings */
	{ "simple queries may be refused", "pool_mode=transaction\ndisable_pqexec=1",
	  "a^ 1^ a<RSKZ aPBES 1<PBES 112CZ a<12CZ aQ a<E." },
	{ "a server of one use", "pool_mode=transaction\nserver_lifetime=0",
	  "a^ 1^ a<RSKZ aQ 1<Q 1CZ a<CZ 1<X. aQ 2^ 2<Q 2CZ a<CZ" },
	{ "a server is checked before each use",
	  "pool_mode=transaction\nserver_check_delay=0\nserver_check_query=select 1",
	  "a^ 1^ a<RSKZ aQ 1<Q 1CZ a<CZ aQ 1<Q 1CZ 1<Q 1TDCZ a<TDCZ" },
};

START_TEST(relay_plays) { script_play(&cases[_i]); }
END_TEST

/* Position-dependent data, so that lost or duplicate bytes are detected. */
static char pattern(size_t at) { return (char)(at * 2654435761u >> 13); }

/*
 * A client that does not read: its server is not read either, so that buffered data is bounded;
 * when the client reads again, it gets everything in order.
 */
START_TEST(relay_holds_back)
{
	static char chunk[60000];
	struct stage stage;
	struct peer *client = &stage.clients[0], *server = &stage.servers[0];
	struct peer *from = _i ? client : server, *to = _i ? server : client;
	struct buf message = { 0 };
	size_t said = 0, heard = 0, headers = _i ? 5 : 10;
	ssize_t count;

	stage_open(&stage, "pool_mode=transaction");
	stage_play(&stage, "hold back", "a^");
	stage_play(&stage, "hold back", "1^");
	stage_play(&stage, "hold back", "a<RSKZ");
	stage_play(&stage, "hold back", "aQ");
	stage_play(&stage, "hold back", "1<Q");
	if (_i) {
		stage_play(&stage, "hold back", "1G");
		stage_play(&stage, "hold back", "a<G");
	}
	/* One incomplete message of 64 MB. */
	buf_add_byte(&message, 'd');
	buf_add_be32(&message, 64 << 20);
	if (!_i)
		peer_say(server, "H");
	ck_assert(peer_say_bytes(from, buf_bytes(&message)));
	buf_free(&message);
	for (int full = 0; full < 3;) {
		for (size_t i = 0; i < sizeof(chunk); i++)
			chunk[i] = pattern(said + i);
		count = send(from->fd, chunk, sizeof(chunk), MSG_NOSIGNAL | MSG_DONTWAIT);
		said += count > 0 ? (size_t)count : 0;
		full = count > 0 ? 0 : full + 1;
		engine_turn(&stage.engine);
		ck_assert_uint_lt(said, 8 << 20);
	}
	while ((count = recv(to->fd, chunk, sizeof(chunk), MSG_DONTWAIT)) > 0) {
		for (size_t i = 0; i < (size_t)count; i++, heard++)
			unit_expect(heard < headers || chunk[i] == pattern(heard - headers));
		engine_turn(&stage.engine);
	}
	ck_assert_uint_eq(heard, said + headers);
	stage_close(&stage);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("client/relay");
	TCase *tcase = tcase_create("relay");

	tcase_set_timeout(tcase, 20);
	tcase_add_loop_test(tcase, relay_plays, 0, COUNT_OF(cases));
	tcase_add_loop_test(tcase, relay_holds_back, 0, 2);
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
