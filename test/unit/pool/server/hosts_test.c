/* SPDX-License-Identifier: ISC */
/*
 * pool/server/hosts*.c: the choice of the next host, with a clock controlled by the cases.
 */
#include "pgweir/pool/server/hosts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../unit.h"

#define GAP 15

#define SERVERS_MAX 16

struct scene {
	struct reach reach;
	struct hosts hosts;
	struct {
		unsigned int host;
		struct hosts_place at;
	} servers[SERVERS_MAX];
	usec_t now;
	bool may_test;
};

static struct hosts_when when_of(const struct scene *scene)
{
	return (struct hosts_when){ .now = scene->now, .gap = GAP, .may_test = scene->may_test };
}

static const struct address *parse(const char *text)
{
	static struct address addresses[8];
	static unsigned int next;
	struct address *address = &addresses[next++ % COUNT_OF(addresses)];

	ck_assert(address_parse(address, text, 0));
	return address;
}

static void open_hosts(struct scene *scene, const char *list, enum load_balance_hosts how)
{
	reach_init(&scene->reach);
	scene->hosts = (struct hosts){ .reach = &scene->reach };
	ck_assert(hosts_configure(&scene->hosts, list, 5432, how));
}

/* Counts a server there. */
static void enter(struct scene *scene, unsigned int host, const struct address *address)
{
	unsigned int i = 0;

	while (scene->servers[i].at.host)
		ck_assert_uint_lt(++i, SERVERS_MAX);
	scene->servers[i].host = host;
	hosts_enter(&scene->hosts, &scene->servers[i].at, host, address);
}

static void leave(struct scene *scene, unsigned int host)
{
	unsigned int i = 0;

	while (!scene->servers[i].at.host || scene->servers[i].host != host)
		ck_assert_uint_lt(++i, SERVERS_MAX);
	hosts_leave(&scene->hosts, &scene->servers[i].at);
}

static void close_hosts(struct scene *scene)
{
	for (unsigned int i = 0; i < SERVERS_MAX; i++)
		hosts_leave(&scene->hosts, &scene->servers[i].at);
	hosts_done(&scene->hosts);
	reach_done(&scene->reach);
}

static unsigned int choose(struct scene *scene)
{
	struct hosts_when when = when_of(scene);
	bool is_test;

	return hosts_choose(&scene->hosts, &when, &is_test);
}

static bool note(struct scene *scene, unsigned int host, const struct address *address,
                 enum host_outcome outcome)
{
	struct roster_at at = { host, address };
	struct hosts_when when = when_of(scene);
	struct err err;

	err_set(&err, ERR_SERVER_CONNECT, "refused");
	return hosts_note(&scene->hosts, &at, outcome, &when, &err);
}

/* Whether it is in retry. */
static bool pick_self(struct scene *scene, unsigned int host)
{
	struct hosts_when when = when_of(scene);
	bool is_test = false;

	hosts_pick(&scene->hosts, host, NULL, 0, &when, NULL, &is_test, NULL);
	return is_test;
}

static void refuse(struct scene *scene, unsigned int host, const struct address *address)
{
	note(scene, host, address, HOST_REFUSED);
}

/*
 * A script, a word each: what is chosen must be what the script says.
 *   a..d  that host is chosen      A..D  the same, and it refuses    +N  the clock goes on
 *   t, n  from here on hosts on probation may be tested, or not      .   all have failed
 *   a*    the server stays there          -a   one of those is closed
 */
static const struct {
	const char *says;
	const char *list;
	enum load_balance_hosts how;
	const char *script;
} cases[] = {
	{ "one host is always the one", "/a", LOAD_BALANCE_ROUND_ROBIN, "a a A . a a" },
	{ "three in turn", "/a,/b,/c", LOAD_BALANCE_ROUND_ROBIN, "a b c a b c" },
	{ "one that failed is left out", "/a,/b,/c", LOAD_BALANCE_ROUND_ROBIN, "a B c a c a" },
	{ "all the more when its gap is not over", "/a,/b", LOAD_BALANCE_ROUND_ROBIN,
	  "t a B +14 a a" },
	{ "it is tested when its gap is over", "/a,/b", LOAD_BALANCE_ROUND_ROBIN,
	  "t a B a +15 b a" },
	{ "by one connection only", "/a,/b", LOAD_BALANCE_ROUND_ROBIN, "t a B a +15 b a a a" },
	{ "and again after a gap, if it still fails", "/a,/b", LOAD_BALANCE_ROUND_ROBIN,
	  "t a B a +15 B a a +15 b a" },
	{ "not by the only connection that can be made", "/a,/b", LOAD_BALANCE_ROUND_ROBIN,
	  "a B +15 a a t b" },
	{ "when all have failed, the one whose gap is over", "/a,/b", LOAD_BALANCE_ROUND_ROBIN,
	  "A +5 B . +10 a" },
	{ "or will be first", "/a,/b,/c", LOAD_BALANCE_ROUND_ROBIN, "A +1 B +1 C . a" },
	{ "disable stays", "/a,/b", LOAD_BALANCE_DISABLE, "a a a" },
	{ "disable goes on when one fails, and stays there", "/a,/b,/c", LOAD_BALANCE_DISABLE,
	  "t a A b b +15 b b" },
	{ "the fewest servers", "/a,/b,/c", LOAD_BALANCE_LEAST, "a* b* c* a* -b b* -c c* -a a*" },
	{ "in turn if several have as few", "/a,/b,/c", LOAD_BALANCE_LEAST, "a b c a* b c b c" },
	{ "not if it has failed", "/a,/b,/c", LOAD_BALANCE_LEAST, "a* b* C a* b* a t +15 c* a b" },
	{ "servers make no difference otherwise", "/a,/b", LOAD_BALANCE_ROUND_ROBIN, "a* b a* b" },
	{ "disable goes round", "/a,/b", LOAD_BALANCE_DISABLE, "t A B . +15 b a" },
};

static void play(struct scene *scene, const char *says, const char *word)
{
	unsigned int host, wanted = (unsigned int)((*word | 0x20) - 'a');

	host = choose(scene);
	ck_assert_msg(host == wanted, "%s: %s: %c is chosen", says, word, (int)('a' + host));
	pick_self(scene, host);
	if (*word < 'a')
		refuse(scene, host, NULL);
	if (word[1] == '*')
		enter(scene, host, NULL);
}

START_TEST(hosts_are_chosen)
{
	struct scene scene = { .now = 1000 };
	char script[64];

	open_hosts(&scene, cases[_i].list, cases[_i].how);
	snprintf(script, sizeof(script), "%s", cases[_i].script);
	for (char *rest = NULL, *word = strtok_r(script, " ", &rest); word;
	     word = strtok_r(NULL, " ", &rest)) {
		if (*word == '+')
			scene.now += strtol(word + 1, NULL, 10);
		else if (*word == '-')
			leave(&scene, (unsigned int)(word[1] - 'a'));
		else if (*word == '.')
			ck_assert_msg(hosts_due(&scene.hosts, NULL) > 0, "%s", cases[_i].says);
		else if (*word == 't' || *word == 'n')
			scene.may_test = *word == 't';
		else
			play(&scene, cases[_i].says, word);
	}
	close_hosts(&scene);
}
END_TEST

/* ---- addresses ---- */

static struct address pick(struct scene *scene, unsigned int host, unsigned int count,
                           const char *next, bool *is_test)
{
	const struct address list[] = { *parse("10.0.0.1"), *parse("10.0.0.2"),
		                        *parse("10.0.0.3") };
	struct hosts_when when = when_of(scene);
	struct address address = *parse(next);

	*is_test = false;
	ck_assert(hosts_pick(&scene->hosts, host, list, count, &when, &address, is_test, NULL));
	return address;
}

static const char *pick_text(struct scene *scene, unsigned int count, const char *next,
                             bool *is_test)
{
	static char text[ADDRESS_TEXT_SIZE];
	struct address address = pick(scene, 0, count, next, is_test);

	return address_format_host(&address, text, sizeof(text));
}

START_TEST(addresses_are_left_out_when_they_fail)
{
	struct scene scene = { .now = 1000, .may_test = true };
	bool is_test;

	open_hosts(&scene, "name", LOAD_BALANCE_ROUND_ROBIN);
	ck_assert_str_eq(pick_text(&scene, 3, "10.0.0.2", &is_test), "10.0.0.2");
	ck_assert(!is_test);
	refuse(&scene, 0, parse("10.0.0.2"));
	ck_assert(hosts_due(&scene.hosts, NULL) == 0);
	ck_assert_str_eq(pick_text(&scene, 3, "10.0.0.2", &is_test), "10.0.0.3");
	ck_assert_str_eq(pick_text(&scene, 3, "10.0.0.3", &is_test), "10.0.0.3");
	ck_assert_str_eq(pick_text(&scene, 3, "10.0.0.1", &is_test), "10.0.0.1");
	scene.now += GAP;
	ck_assert_str_eq(pick_text(&scene, 3, "10.0.0.2", &is_test), "10.0.0.2");
	ck_assert(is_test);
	ck_assert_str_eq(pick_text(&scene, 3, "10.0.0.2", &is_test), "10.0.0.3");
	ck_assert(!is_test);
	note(&scene, 0, parse("10.0.0.2"), HOST_WORKED);
	ck_assert_str_eq(pick_text(&scene, 3, "10.0.0.2", &is_test), "10.0.0.2");
	ck_assert(!is_test);
	close_hosts(&scene);
}
END_TEST

/* Servers of other pools count too, and those whose address is not known yet. */
START_TEST(the_address_with_the_fewest_servers)
{
	struct scene scene = { .now = 1000 }, other = { .now = 1000 };
	bool is_test;

	open_hosts(&scene, "name,/other", LOAD_BALANCE_LEAST);
	other.hosts = (struct hosts){ .reach = &scene.reach };
	ck_assert(hosts_configure(&other.hosts, "name", 5432, LOAD_BALANCE_ROUND_ROBIN));
	ck_assert_str_eq(pick_text(&scene, 2, "10.0.0.2", &is_test), "10.0.0.2");
	enter(&other, 0, parse("10.0.0.2"));
	ck_assert_str_eq(pick_text(&scene, 2, "10.0.0.2", &is_test), "10.0.0.1");
	ck_assert_uint_eq(choose(&scene), 1);
	ck_assert_uint_eq(choose(&scene), 1);
	enter(&scene, 1, NULL);
	ck_assert_uint_eq(choose(&scene), 0);
	enter(&scene, 0, NULL);
	ck_assert_uint_eq(choose(&scene), 1);
	/* Its address is known now: it is not counted twice. */
	hosts_enter(&scene.hosts, &scene.servers[1].at, 0, parse("10.0.0.1"));
	enter(&scene, 1, NULL);
	ck_assert_uint_eq(choose(&scene), 0);
	ck_assert_str_eq(pick_text(&scene, 3, "10.0.0.1", &is_test), "10.0.0.3");
	ck_assert_str_eq(pick_text(&scene, 2, "10.0.0.1", &is_test), "10.0.0.1");
	refuse(&scene, 0, parse("10.0.0.1"));
	enter(&scene, 0, parse("10.0.0.2"));
	ck_assert_str_eq(pick_text(&scene, 2, "10.0.0.1", &is_test), "10.0.0.2");
	for (unsigned int i = 0; i < SERVERS_MAX; i++)
		hosts_leave(&other.hosts, &other.servers[i].at);
	hosts_done(&other.hosts);
	enter(&scene, 7, NULL); /* no such host */
	close_hosts(&scene);
}
END_TEST

START_TEST(a_name_fails_when_all_its_addresses_have)
{
	struct scene scene = { .now = 1000 };
	bool is_test;

	open_hosts(&scene, "name,/other", LOAD_BALANCE_ROUND_ROBIN);
	pick(&scene, 0, 2, "10.0.0.1", &is_test);
	refuse(&scene, 0, parse("10.0.0.1"));
	scene.now++;
	refuse(&scene, 0, parse("10.0.0.2"));
	ck_assert_uint_eq(choose(&scene), 1);
	ck_assert_uint_eq(choose(&scene), 1);
	scene.now++;
	refuse(&scene, 1, NULL);
	ck_assert(hosts_due(&scene.hosts, NULL) > 0);
	ck_assert_int_eq(hosts_due(&scene.hosts, NULL), scene.now - 2 + GAP);
	/* The oldest failure first, although neither retry interval is over. */
	ck_assert_uint_eq(choose(&scene), 0);
	/* A new address of the name has no failure. */
	pick(&scene, 0, 3, "10.0.0.1", &is_test);
	ck_assert(hosts_due(&scene.hosts, NULL) == 0);
	ck_assert_int_eq(hosts_due(&scene.hosts, NULL), 0);
	hosts_reset(&scene.hosts);
	ck_assert_uint_eq(choose(&scene), 1);
	ck_assert_uint_eq(choose(&scene), 0);
	close_hosts(&scene);
}
END_TEST

/* As of hosts, whatever turn it is. */
START_TEST(of_addresses_that_are_down_the_one_that_was_so_for_longest)
{
	struct scene scene = { .now = 1000 };
	bool is_test;

	open_hosts(&scene, "name", LOAD_BALANCE_ROUND_ROBIN);
	pick(&scene, 0, 2, "10.0.0.1", &is_test);
	refuse(&scene, 0, parse("10.0.0.2"));
	scene.now++;
	refuse(&scene, 0, parse("10.0.0.1"));
	ck_assert_str_eq(pick_text(&scene, 2, "10.0.0.1", &is_test), "10.0.0.2");
	ck_assert(is_test);
	close_hosts(&scene);
}
END_TEST

START_TEST(a_name_that_is_not_found_fails_as_a_whole)
{
	struct scene scene = { .now = 1000 };
	bool is_test;

	open_hosts(&scene, "name", LOAD_BALANCE_ROUND_ROBIN);
	pick(&scene, 0, 3, "10.0.0.1", &is_test);
	refuse(&scene, 0, NULL);
	ck_assert(hosts_due(&scene.hosts, NULL) > 0);
	pick(&scene, 0, 3, "10.0.0.1", &is_test); /* it was found again */
	ck_assert(hosts_due(&scene.hosts, NULL) == 0);
	/* Removed addresses do not affect the remaining ones. */
	pick(&scene, 0, 1, "10.0.0.1", &is_test);
	refuse(&scene, 0, parse("10.0.0.3"));
	ck_assert(hosts_due(&scene.hosts, NULL) == 0);
	refuse(&scene, 7, NULL); /* of a list that was longer */
	note(&scene, 7, NULL, HOST_WORKED);
	close_hosts(&scene);
}
END_TEST

START_TEST(a_host_that_does_not_fit_has_not_failed)
{
	struct scene scene = { .now = 1000 * USEC_PER_SEC };

	open_hosts(&scene, "/a", LOAD_BALANCE_ROUND_ROBIN);
	note(&scene, 0, NULL, HOST_UNFIT);
	ck_assert_int_eq(hosts_due(&scene.hosts, NULL), scene.now + ROSTER_GAP);
	scene.now += ROSTER_GAP;
	ck_assert(!pick_self(&scene, 0));
	ck_assert_int_eq(hosts_due(&scene.hosts, NULL), scene.now + ROSTER_GAP);
	refuse(&scene, 0, NULL);
	ck_assert(pick_self(&scene, 0));
	close_hosts(&scene);
}
END_TEST

START_TEST(another_one_is_one_that_has_not_failed)
{
	struct scene scene = { .now = 1000 };
	const struct roster_at first = { 0, parse("10.0.0.1") }, other = { .host = 1 };
	bool is_test;

	open_hosts(&scene, "name,/other", LOAD_BALANCE_ROUND_ROBIN);
	pick(&scene, 0, 2, "10.0.0.1", &is_test);
	ck_assert(hosts_due(&scene.hosts, &first) == 0);
	refuse(&scene, 1, NULL);
	ck_assert(hosts_due(&scene.hosts, &first) == 0);
	refuse(&scene, 0, parse("10.0.0.2"));
	ck_assert(hosts_due(&scene.hosts, &first) > 0);
	ck_assert(hosts_due(&scene.hosts, &other) == 0);
	close_hosts(&scene);
}
END_TEST

START_TEST(the_same_list_keeps_its_turn)
{
	struct scene scene = { .now = 1000 };

	open_hosts(&scene, "/a,/b", LOAD_BALANCE_ROUND_ROBIN);
	ck_assert_uint_eq(choose(&scene), 0);
	refuse(&scene, 1, NULL);
	ck_assert(hosts_configure(&scene.hosts, "/a,/b", 5432, LOAD_BALANCE_ROUND_ROBIN));
	ck_assert_uint_eq(choose(&scene), 0); /* nothing was reset */
	hosts_reset(&scene.hosts);
	ck_assert_uint_eq(choose(&scene), 1);
	ck_assert(hosts_configure(&scene.hosts, "/a,/b", 5432, LOAD_BALANCE_DISABLE));
	ck_assert_uint_eq(choose(&scene), 0);
	ck_assert(hosts_configure(&scene.hosts, "", 5432, LOAD_BALANCE_DISABLE));
	ck_assert_uint_eq(scene.hosts.count, 1);
	ck_assert_str_eq(scene.hosts.list[0].name, "");
	close_hosts(&scene);
}
END_TEST

/* The protocol version learned belongs to the address, for all pools, until one of them is reset.
 */
START_TEST(hosts_remember_protocols)
{
	struct scene scene = { .now = 1 };
	struct hosts other;
	const struct address *first = parse("10.0.0.1"), *second = parse("10.0.0.2");
	struct hosts_place unix_at = { 0 }, name = { 0 }, at = { 0 }, there = { 0 };
	bool is_test;

	open_hosts(&scene, "/a,b", LOAD_BALANCE_ROUND_ROBIN);
	other = (struct hosts){ .reach = &scene.reach };
	ck_assert(hosts_configure(&other, "c", 5432, LOAD_BALANCE_ROUND_ROBIN));
	pick(&scene, 1, 2, "10.0.0.1", &is_test);
	ck_assert_ptr_null(hosts_target(&at));
	hosts_enter(&scene.hosts, &unix_at, 0, NULL);
	hosts_enter(&scene.hosts, &name, 1, first);
	hosts_enter(&scene.hosts, &at, 1, second);
	hosts_target(&unix_at)->protocol = HOST_OLD;
	hosts_target(&at)->protocol = HOST_NEGOTIATES;
	ck_assert_int_eq(hosts_target(&name)->protocol, HOST_UNTRIED);

	hosts_leave(&scene.hosts, &at);
	hosts_enter(&other, &there, 0, second);
	ck_assert_int_eq(hosts_target(&there)->protocol, HOST_NEGOTIATES);

	hosts_reset(&scene.hosts);
	ck_assert_int_eq(hosts_target(&unix_at)->protocol, HOST_UNTRIED);
	ck_assert_int_eq(hosts_target(&there)->protocol, HOST_UNTRIED);
	hosts_leave(&other, &there);
	hosts_leave(&scene.hosts, &name);
	hosts_leave(&scene.hosts, &unix_at);
	hosts_done(&other);
	close_hosts(&scene);
}
END_TEST

/* ---- addresses that cannot be reached ---- */

/*
 * When an address that cannot be reached is tried again. A script, a word each, at a clock in
 * milliseconds:
 *   f  an attempt fails     w, W  one succeeds: it had not failed, it had
 *   t, T  a test may not begin, it begins     +N  the clock goes on     =N  due in N
 */
static const struct {
	const char *says;
	int most;
	const char *script;
} paces[] = {
	{ "one that has not failed needs no test", 9999, "=0 t w" },
	{ "one that fails is tried again soon", 9999, "f =50 t +49 t +1 T" },
	{ "then less often, but never rarely", 9999,
	  "f =50 +50 T f =100 +100 T f =200 +200 T f =400 +400 T f =500 +500 T f =500" },
	{ "server_login_retry may be shorter", 80, "f =50 +50 T f =80 +80 T f =80" },
	{ "one connection tries it", 9999, "f +50 T t +100 t t" },
	{ "one without a result does not hold up the others for long", 9999,
	  "f +50 T +999 t +1 T t" },
	{ "a success ends it", 9999, "f +50 T W =0 t w f =50" },
	{ "a success without a test, too", 9999, "f W =0" },
	{ "many that fail at once", 9999, "f f f =200 t" },
};

static void play_pace(struct scene *scene, const char *word, int most, const char *says)
{
	const struct roster_at at = { .host = 0 };
	struct hosts_when when = { .now = scene->now, .gap = most * USEC_PER_MS };
	usec_t due = hosts_due(&scene->hosts, NULL);
	bool is_test = false;
	struct err err;

	err_set(&err, ERR_SERVER_CONNECT, "refused");
	switch (*word) {
	case '+':
		scene->now += strtol(word + 1, NULL, 10) * USEC_PER_MS;
		return;
	case '=':
		ck_assert_msg((due ? due - scene->now : 0) ==
		                  strtol(word + 1, NULL, 10) * USEC_PER_MS,
		              "%s: %s, but it is %lld", says, word, (long long)(due - scene->now));
		return;
	case 'f':
		hosts_note(&scene->hosts, &at, HOST_UNREACHABLE, &when, &err);
		return;
	case 'w':
	case 'W':
		ck_assert_msg(hosts_note(&scene->hosts, &at, HOST_WORKED, &when, NULL) ==
		                  (*word == 'W'),
		              "%s: %s", says, word);
		return;
	default:
		hosts_choose(&scene->hosts, &when, &is_test);
		ck_assert_msg(is_test == (*word == 'T'), "%s: %s", says, word);
	}
}

START_TEST(the_pace)
{
	struct scene scene = { .now = 1000 * USEC_PER_SEC };
	char script[128];

	open_hosts(&scene, "/a", LOAD_BALANCE_ROUND_ROBIN);
	snprintf(script, sizeof(script), "%s", paces[_i].script);
	for (char *rest = NULL, *word = strtok_r(script, " ", &rest); word;
	     word = strtok_r(NULL, " ", &rest))
		play_pace(&scene, word, paces[_i].most, paces[_i].says);
	hosts_done(&scene.hosts);
	reach_done(&scene.reach);
}
END_TEST

START_TEST(a_target_is_an_address_and_a_port)
{
	static const struct {
		unsigned int host;
		const char *address;
	} servers[] = { { 0, "10.0.0.1" }, { 1, "10.0.0.1" }, { 0, "10.0.0.2" },
		        { 2, "10.0.0.1" }, { 3, NULL },       { 3, NULL } };
	const struct reach_target *targets[COUNT_OF(servers)];
	struct hosts_place places[COUNT_OF(servers)] = { 0 };
	struct scene scene = { .now = 1 };

	open_hosts(&scene, "db.test,other.test,db.test:5433,10.0.0.1", LOAD_BALANCE_ROUND_ROBIN);
	for (size_t i = 0; i < COUNT_OF(servers); i++) {
		const char *text = servers[i].address;

		hosts_enter(&scene.hosts, &places[i], servers[i].host, text ? parse(text) : NULL);
		targets[i] = hosts_target(&places[i]);
	}
	ck_assert_ptr_eq(targets[0], targets[1]);
	ck_assert_ptr_eq(targets[4], targets[5]);
	for (int i = 1; i < 4; i++)
		ck_assert_ptr_ne(targets[i], targets[i + 1]);
	ck_assert_uint_eq(targets[0]->server_count, 2);
	for (size_t i = 0; i < COUNT_OF(places); i++)
		hosts_leave(&scene.hosts, &places[i]);
	close_hosts(&scene);
}
END_TEST

/* What one pool finds out holds for others with the same host and port. */
START_TEST(pools_share_what_can_be_reached)
{
	struct scene scene = { .now = 1000 };
	struct hosts other, elsewhere;
	struct err failure;
	bool is_test;

	open_hosts(&scene, "/a,/b", LOAD_BALANCE_ROUND_ROBIN);
	other = (struct hosts){ .reach = &scene.reach };
	ck_assert(hosts_configure(&other, "/b", 5432, LOAD_BALANCE_ROUND_ROBIN));
	elsewhere = (struct hosts){ .reach = &scene.reach };
	ck_assert(hosts_configure(&elsewhere, "/b", 5433, LOAD_BALANCE_ROUND_ROBIN));

	note(&scene, 1, NULL, HOST_UNREACHABLE);
	ck_assert(hosts_due(&other, NULL) > 0);
	ck_assert(hosts_are_failing(&other, NULL) && !hosts_are_failing(&scene.hosts, NULL));
	ck_assert(hosts_are_failing(&other, &failure));
	ck_assert_str_eq(failure.text, "refused");
	ck_assert(hosts_due(&elsewhere, NULL) == 0 && hosts_due(&scene.hosts, NULL) == 0);
	ck_assert_int_eq(hosts_due(&other, NULL), scene.now + GAP);

	/* Only one of them tries it. */
	scene.now += GAP;
	hosts_choose(&other, &(struct hosts_when){ .now = scene.now, .gap = GAP }, &is_test);
	ck_assert(is_test);
	ck_assert_int_eq(hosts_due(&other, NULL), scene.now + REACH_TEST_MAX);
	scene.may_test = true;
	for (int i = 0; i < 3; i++)
		ck_assert_uint_eq(choose(&scene), 0);

	/* A refusal is an answer, and the pool's own. */
	ck_assert(note(&scene, 1, NULL, HOST_REFUSED));
	ck_assert(hosts_due(&other, NULL) == 0);
	ck_assert(!note(&scene, 1, NULL, HOST_REFUSED));
	hosts_done(&elsewhere);
	hosts_done(&other);
	close_hosts(&scene);
}
END_TEST

/* The address that hosts_choose() has begun to test is picked, and by that connection only. */
START_TEST(the_tested_address_is_picked)
{
	struct scene scene = { .now = 1000 };
	struct hosts_when when;
	const struct address list[] = { *parse("10.0.0.1"), *parse("10.0.0.2") };
	struct address address = list[0];
	bool is_test;

	open_hosts(&scene, "name", LOAD_BALANCE_ROUND_ROBIN);
	pick(&scene, 0, 2, "10.0.0.1", &is_test);
	note(&scene, 0, &list[1], HOST_UNREACHABLE);
	note(&scene, 0, &list[0], HOST_UNREACHABLE);
	scene.now += GAP;
	refuse(&scene, 0, &list[0]);
	note(&scene, 0, &list[0], HOST_UNREACHABLE);
	when = when_of(&scene);
	hosts_choose(&scene.hosts, &when, &is_test);
	ck_assert(is_test);
	ck_assert(hosts_pick(&scene.hosts, 0, list, 2, &when, &address, &is_test, NULL));
	ck_assert(is_test && address_equal_host(&address, &list[1]));
	close_hosts(&scene);
}
END_TEST

/* a is the primary, and of the standbys b is 50 bytes behind. */
static const struct {
	const char *says;
	enum target_session_attrs target;
	uint64_t bytes; /* the limit */
	bool is_strict;
	bool c_is_down;
	unsigned int chosen, then; /* 3: none */
} behind[] = {
	{ "no limit", TARGET_STANDBY, 0, true, false, 1, 2 },
	{ "within the limit", TARGET_STANDBY, 50, true, false, 1, 2 },
	{ "beyond it", TARGET_STANDBY, 49, true, false, 2, 2 },
	{ "and no other one is left", TARGET_STANDBY, 49, true, true, 3, 3 },
	{ "beyond it, for a new connection", TARGET_STANDBY, 49, false, false, 2, 2 },
	{ "and no other one is left, so that it is chosen", TARGET_STANDBY, 49, false, true, 1, 1 },
	{ "the primary is better", TARGET_PREFER_STANDBY, 49, false, true, 0, 0 },
};

static void say(struct roster *roster, unsigned int host, enum host_role role, uint64_t position)
{
	struct roster_at at = { .host = host };
	struct host_report report = { .role = role, .is_full = true, .position = position };

	roster_note(roster, &at, &(struct host_report){ .role = role }, 1, NULL);
	roster_watch(roster, &at);
	roster_note(roster, &at, &report, 1, NULL);
}

START_TEST(a_standby_that_is_behind)
{
	struct roster_want want = { .target = behind[_i].target,
		                    .limit = { 0, behind[_i].bytes },
		                    .is_strict = behind[_i].is_strict };
	struct roster roster;
	struct scene scene = { .now = 1 };

	open_hosts(&scene, "/a,/b,/c", LOAD_BALANCE_ROUND_ROBIN);
	ck_assert(roster_init(&roster, "/a,/b,/c", 1));
	hosts_set_roles(&scene.hosts, &roster, &want);
	say(&roster, 0, HOST_PRIMARY, 150);
	say(&roster, 1, HOST_STANDBY, 100);
	say(&roster, 2, HOST_STANDBY, 150);
	if (behind[_i].c_is_down)
		roster_fail(&roster, &(struct roster_at){ .host = 2 }, ROSTER_LOST, "", 1, NULL);
	ck_assert_msg((hosts_due(&scene.hosts, NULL) == 0) == (behind[_i].chosen < 3), "%s",
	              behind[_i].says);
	ck_assert_msg(choose(&scene) == behind[_i].chosen, "%s", behind[_i].says);
	ck_assert_msg(choose(&scene) == behind[_i].then, "%s: then", behind[_i].says);
	if (behind[_i].chosen == 3)
		ck_assert_int_eq(hosts_due(&scene.hosts, NULL), INT64_MAX);
	close_hosts(&scene);
	roster_done(&roster);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("pool/hosts");
	TCase *tcase = tcase_create("hosts");

	tcase_add_loop_test(tcase, hosts_are_chosen, 0, COUNT_OF(cases));
	tcase_add_test(tcase, addresses_are_left_out_when_they_fail);
	tcase_add_test(tcase, the_address_with_the_fewest_servers);
	tcase_add_test(tcase, a_name_fails_when_all_its_addresses_have);
	tcase_add_test(tcase, of_addresses_that_are_down_the_one_that_was_so_for_longest);
	tcase_add_test(tcase, a_name_that_is_not_found_fails_as_a_whole);
	tcase_add_test(tcase, a_host_that_does_not_fit_has_not_failed);
	tcase_add_test(tcase, another_one_is_one_that_has_not_failed);
	tcase_add_test(tcase, the_same_list_keeps_its_turn);
	tcase_add_test(tcase, hosts_remember_protocols);
	tcase_add_loop_test(tcase, the_pace, 0, COUNT_OF(paces));
	tcase_add_test(tcase, a_target_is_an_address_and_a_port);
	tcase_add_test(tcase, pools_share_what_can_be_reached);
	tcase_add_test(tcase, the_tested_address_is_picked);
	tcase_add_loop_test(tcase, a_standby_that_is_behind, 0, COUNT_OF(behind));
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
