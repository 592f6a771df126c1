/* SPDX-License-Identifier: ISC */
/*
 * client/relay.c with a real loop, pools and clients: dialogues of two clients
 * with two servers, all four of them the test's own.
 */
#include "../../lib/room.h"

#include <stdio.h>
#include <string.h>

#include "../unit.h"

/*
 * A line: who, and after it what. "a", "b": a client says; "1", "2": a server says.
 * With a '<' behind: it has heard exactly this ('.' = its end). "a^" is a's login;
 * "1^" accepts a server and lets it in. "1." closes. A space ends a line.
 */
static const struct {
	const char *says;
	const char *settings;
	const char *script;
} cases[] = {
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
	{ "a COPY that failed at its data is held for certain", "pool_mode=transaction",
	  "a^ 1^ a<RSKZ aPBES 1<PBES 112G ad 1<d 1E acS 1<cS 1Z a<12GEZ 1<X. aQ 2^ 2<Q 2CZ a<CZ" },
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

	/* clients that go */
	{ "a client goes with its transaction open", "pool_mode=transaction",
	  "a^ 1^ a<RSKZ aQ 1<Q 1Cz a. 1<X." },
	{ "a client goes while its query runs", "pool_mode=transaction",
	  "a^ 1^ a<RSKZ aQ 1<Q a. 1<X." },
	{ "a client goes out of the line", "pool_mode=transaction\ndefault_pool_size=1",
	  "a^ 1^ a<RSKZ b^ b<RSKZ aQ bQ 1<Q b. 1CZ a<CZ 1< aQ 1<Q" },
	{ "a client goes with a frame half sent", "pool_mode=transaction",
	  "a^ 1^ a<RSKZ a% 1< a. 1<." },
	{ "Terminate behind a query", "pool_mode=transaction", "a^ 1^ a<RSKZ aQX a<. 1<QX." },
	{ "an unknown message", "pool_mode=transaction", "a^ 1^ a<RSKZ az a<E." },
	{ "a password out of place", "pool_mode=transaction", "a^ 1^ a<RSKZ ap a<E." },

	/* servers that go or are out of step */
	{ "a server goes while a query runs", "pool_mode=transaction",
	  "a^ 1^ a<RSKZ aQ 1<Q 1. a<E." },
	{ "a server says why", "pool_mode=transaction", "a^ 1^ a<RSKZ aQ 1<Q 1! 1. a<E." },
	{ "a server goes between two transactions", "pool_mode=transaction",
	  "a^ 1^ a<RSKZ aQ 1<Q 1CZ a<CZ 1. a< aQ 2^ 2<Q 2CZ a<CZ" },
	{ "a server answers what nobody asked", "pool_mode=transaction",
	  "a^ 1^ a<RSKZ 1Z 1<X. a< aQ 2^ 2<Q" },
	{ "a server answers twice", "pool_mode=transaction",
	  "a^ 1^ a<RSKZ b^ b<RSKZ aQ 1<Q 1CZZ a<CZ 1<X. bQ 2^ 2<Q 2CZ b<CZ" },
	{ "a server answers with the wrong thing", "pool_mode=transaction",
	  "a^ 1^ a<RSKZ aQ 1<Q 11 a<E. 1<X." },
	{ "an answer that is empty", "pool_mode=transaction", "a^ 1^ a<RSKZ aQ 1<Q 1Z a<E. 1<X." },

	/* settings */
	{ "simple queries may be refused", "pool_mode=transaction\ndisable_pqexec=1",
	  "a^ 1^ a<RSKZ aPBES 1<PBES 112CZ a<12CZ aQ a<E." },
	{ "a server of one use", "pool_mode=transaction\nserver_lifetime=0",
	  "a^ 1^ a<RSKZ aQ 1<Q 1CZ a<CZ 1<X. aQ 2^ 2<Q 2CZ a<CZ" },
	{ "a server is checked before each use",
	  "pool_mode=transaction\nserver_check_delay=0\nserver_check_query=select 1",
	  "a^ 1^ a<RSKZ aQ 1<Q 1CZ a<CZ aQ 1<Q 1CZ 1<Q 1TDCZ a<TDCZ" },
};

struct stage {
	struct room room;
	struct peer clients[2], servers[2];
};

static struct peer *peer_of(struct stage *stage, char name)
{
	return name == 'a' || name == 'b' ? &stage->clients[name - 'a']
	                                  : &stage->servers[name - '1'];
}

static void enter(struct stage *stage, struct peer *peer, const char *words)
{
	if (!peer->is_server) {
		*peer = room_client(&stage->room);
		peer_start(peer, "u0", "d0");
		return;
	}
	if (peer->fd < 0)
		*peer = room_server(&stage->room);
	ck_assert_int_ge(peer->fd, 0);
	ck_assert_str_eq(peer_hear(&stage->room, peer), "^");
	peer_say(peer, *words ? words : "RSKZ");
}

/* A Query of which the last byte is missing. */
static void say_half(struct peer *peer)
{
	struct buf out = { 0 };

	peer_message(peer, &out, 'Q');
	peer_say_bytes(peer, bytes_of(out.at, out.count - 1));
	buf_free(&out);
}

static void play_line(struct stage *stage, const char *says, const char *line)
{
	struct peer *peer = peer_of(stage, line[0]);
	const char *heard;

	if (line[1] == '^') {
		enter(stage, peer, line + 2);
	} else if (line[1] == '<') {
		heard = peer_hear(&stage->room, peer);
		ck_assert_msg(strcmp(heard, line + 2) == 0, "%s: \"%s\": heard \"%s\"", says, line,
		              heard);
	} else if (line[1] == '.') {
		peer_close(peer);
	} else if (line[1] == '%') {
		say_half(peer);
	} else {
		ck_assert_msg(peer_say(peer, line + 1), "%s: \"%s\": it is gone", says, line);
	}
	room_turn(&stage->room);
}

START_TEST(relay_plays)
{
	struct stage stage = { .clients = { { .fd = -1 }, { .fd = -1 } },
		               .servers = { { .fd = -1, .is_server = true },
		                            { .fd = -1, .is_server = true } } };
	char script[512], *line, *rest = NULL;

	room_open(&stage.room, cases[_i].settings, "");
	snprintf(script, sizeof(script), "%s", cases[_i].script);
	for (line = strtok_r(script, " ", &rest); line; line = strtok_r(NULL, " ", &rest))
		play_line(&stage, cases[_i].says, line);
	for (size_t i = 0; i < 2; i++) {
		peer_close(&stage.clients[i]);
		peer_close(&stage.servers[i]);
	}
	room_close(&stage.room);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("client/relay");
	TCase *tcase = tcase_create("relay");

	tcase_set_timeout(tcase, 20);
	tcase_add_loop_test(tcase, relay_plays, 0, COUNT_OF(cases));
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
