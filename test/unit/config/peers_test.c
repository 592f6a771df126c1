/* SPDX-License-Identifier: ISC */
/*
 * config/entries.c: lines of [peers] are checked, stored by id, and iterated in the order of ids.
 */
#include "pgweir/config/entries.h"

#include <stdio.h>

#include "../unit.h"
#include "../../lib/config_text.h"

static const struct config *parse(const char *lines, struct problems *problems)
{
	char text[512];

	snprintf(text, sizeof(text), "[pgbouncer]\ndefault_pool_size = 7\n[peers]\n%s\n", lines);
	return config_parse(bytes_text(text), "f", problems);
}

static const struct {
	const char *line;
	const char *error;
} lines[] = {
	{ "1 = host=a", NULL },
	{ "65535 = host=127.0.0.1 port=6433 pool_size=3", NULL },
	{ "3 = host=/run/pgweir pool_size=0", NULL },
	{ "3 = host=@abstract port=1", NULL },
	{ "3 = host=::1 pool_size=-1", NULL },
	{ "'3' = host='a' ; ours", NULL },
	{ "0 = host=a", "f:4: peer \"0\": its id must be a number from 1 to 65535" },
	{ "65536 = host=a", "f:4: peer \"65536\": its id must be a number from 1 to 65535" },
	{ "-1 = host=a", "f:4: peer \"-1\": its id must be a number from 1 to 65535" },
	{ "one = host=a", "f:4: peer \"one\": its id must be a number from 1 to 65535" },
	{ "1x = host=a", "f:4: peer \"1x\": its id must be a number from 1 to 65535" },
	{ "'' = host=a", "f:4: the name before = is missing" },
	{ "1 = ", "f:4: peer \"1\": host is missing" },
	{ "1 = port=6432", "f:4: peer \"1\": host is missing" },
	{ "1 = host=a,b", "f:4: peer \"1\": host: a peer has one host only" },
	{ "1 = host=a port=0", "f:4: peer \"1\": port: must be from 1 to 65535" },
	{ "1 = host=a port=x", "f:4: peer \"1\": port: \"x\" is not a whole number" },
	{ "1 = host=a dbname=x", "f:4: peer \"1\": unknown key \"dbname\"" },
	{ "1 = host=a auth_user=x", "f:4: peer \"1\": unknown key \"auth_user\"" },
};

START_TEST(peer_lines_are_judged)
{
	struct problems problems = { 0 };
	const struct config *config = parse(lines[_i].line, &problems);

	ck_assert_msg((config == NULL) == (lines[_i].error != NULL), "%s: %s", lines[_i].line,
	              problems.errors.count ? problems.errors.texts[0] : "taken");
	if (lines[_i].error)
		ck_assert_str_eq(problems.errors.texts[0], lines[_i].error);
	config_unref(&config);
	problems_done(&problems);
}
END_TEST

START_TEST(peers_have_defaults)
{
	struct problems problems = { 0 };
	const struct config *config =
	    parse("1 = host=a\n2 = host=/b port=7 pool_size=0\n3 = host=c pool_size=-5", &problems);
	const struct config_peer *peer = config_entry(config, ENTRY_PEER, "1");

	ck_assert_str_eq(peer->host, "a");
	ck_assert_int_eq(peer->port, 6432);
	ck_assert_int_eq(config_peer_pool_size(config, peer), 7);
	peer = config_entry(config, ENTRY_PEER, "2");
	ck_assert_str_eq(peer->host, "/b");
	ck_assert_int_eq(peer->port, 7);
	ck_assert_int_eq(config_peer_pool_size(config, peer), 0);
	ck_assert_int_eq(config_peer_pool_size(config, config_entry(config, ENTRY_PEER, "3")), 7);
	ck_assert_ptr_null(config_entry(config, ENTRY_PEER, "4"));
	config_unref(&config);
}
END_TEST

START_TEST(peers_are_walked_by_their_ids)
{
	struct problems problems = { 0 };
	const struct config *config =
	    parse("300 = host=a\n2 = host=b\n1 = host=old\n17 = host=c\n1 = host=new", &problems);
	static const int ids[] = { 1, 2, 17, 300 };
	const struct config_peer *peer = NULL;

	ck_assert_uint_eq(config_entry_count(config, ENTRY_PEER), COUNT_OF(ids));
	for (size_t i = 0; i < COUNT_OF(ids); i++) {
		peer = config_entry_next(config, ENTRY_PEER, peer);
		ck_assert_int_eq(peer->id, ids[i]);
	}
	ck_assert_ptr_null(config_entry_next(config, ENTRY_PEER, peer));
	ck_assert_str_eq(((const struct config_peer *)config_entry(config, ENTRY_PEER, "1"))->host,
	                 "new");
	config_unref(&config);
	problems_done(&problems);

	config = parse("", &problems);
	ck_assert_uint_eq(config_entry_count(config, ENTRY_PEER), 0);
	ck_assert_ptr_null(config_entry_next(config, ENTRY_PEER, NULL));
	config_unref(&config);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("config/peers");
	TCase *tcase = tcase_create("peers");

	tcase_add_loop_test(tcase, peer_lines_are_judged, 0, COUNT_OF(lines));
	tcase_add_test(tcase, peers_have_defaults);
	tcase_add_test(tcase, peers_are_walked_by_their_ids);
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
