/* SPDX-License-Identifier: ISC */
/*
 * pool/server/server_params.c: what facts change in the maps. No server is connected.
 */
#include <string.h>

#include "../../../lib/mapped_server.h"
#include "pgweir/pool/server/question.h"

#include "../../unit.h"

static const struct {
	const char *says;
	struct pair baseline[MAP_MAX];
	struct pair have[MAP_MAX];
	struct pair startup[MAP_MAX];
	struct pair facts[MAP_MAX];
	struct pair before[MAP_MAX]; /* if has_before */
	bool has_before;
	const char *back; /* the startup parameter that a text set back */
	const char *role; /* the default */
	bool is_startup_unset;
	struct pair baseline_after[MAP_MAX];
	struct pair have_after[MAP_MAX];
} takes[] = {
	{ .says = "nothing is set" },
	{ .says = "a parameter was set",
	  .facts = { { "work_mem", "1024" } },
	  .have_after = { { "work_mem", "1024" } } },
	{ .says = "one of several was set back",
	  .have = { { "a", "1" }, { "b", "2" } },
	  .facts = { { "b", "2" } },
	  .have_after = { { "b", "2" } } },
	{ .says = "what a RESET left unknown is known",
	  .have = { { "a", "\001" }, { "b", "\001" } },
	  .facts = { { "b", "3" } },
	  .have_after = { { "b", "3" } } },
	{ .says = "what is reported is known by its report",
	  .baseline = { { "TimeZone", "UTC" } },
	  .have = { { "TimeZone", "CET" } },
	  .facts = { { "TimeZone", "EET" } },
	  .baseline_after = { { "TimeZone", "UTC" } },
	  .have_after = { { "TimeZone", "CET" } } },
	{ .says = "a reported one that the server's files have changed",
	  .baseline = { { "TimeZone", "UTC" } },
	  .have = { { "TimeZone", "CET" } },
	  .is_startup_unset = true,
	  .baseline_after = { { "TimeZone", "UTC" } },
	  .have_after = { { "TimeZone", "\001" } } },
	{ .says = "a reported one that is not tracked: its default is not known",
	  .baseline = { { "other", "2" } },
	  .facts = { { "other", "2" } },
	  .have_after = { { "other", "2" } } },
	{ .says = "a role", .facts = { { "role", "app" } }, .have_after = { { "role", "app" } } },
	{ .says = "the role was given up", .have = { { "role", "app" } } },
	{ .says = "a default role", .role = "app", .baseline_after = { { "role", "app" } } },
	{ .says = "a default role that was given up",
	  .baseline = { { "role", "app" } },
	  .facts = { { "role", "none" } },
	  .role = "app",
	  .baseline_after = { { "role", "app" } },
	  .have_after = { { "role", "none" } } },
	{ .says = "the role has no default any more", .baseline = { { "role", "app" } } },
	{ .says = "a library stays",
	  .have = { { "load:x", "x" } },
	  .facts = { { "a", "1" } },
	  .have_after = { { "a", "1" }, { "load:x", "x" } } },
	{ .says = "a value of the startup that is still set",
	  .have = { { "a", "1" } },
	  .startup = { { "a", "1" } },
	  .facts = { { "a", "1" } },
	  .have_after = { { "a", "1" } } },
	{ .says = "a value of the startup that was changed",
	  .have = { { "a", "1" } },
	  .startup = { { "a", "1" } },
	  .facts = { { "a", "2" } },
	  .have_after = { { "a", "2" } } },
	{ .says = "a value of the startup that was reset",
	  .have = { { "a", "1" }, { "b", "1" } },
	  .startup = { { "a", "1" }, { "b", "1" } },
	  .facts = { { "b", "1" } },
	  .is_startup_unset = true,
	  .have_after = { { "a", "\001" }, { "b", "1" } } },
	{ .says = "a reported value of the startup that was reset",
	  .baseline = { { "DateStyle", "ISO, MDY" } },
	  .startup = { { "datestyle", "German" } },
	  .is_startup_unset = true,
	  .baseline_after = { { "DateStyle", "ISO, MDY" } },
	  .have_after = { { "datestyle", "\001" } } },
	{ .says = "a reported value that was set to the default: that is no reset",
	  .baseline = { { "DateStyle", "ISO, MDY" } },
	  .startup = { { "datestyle", "German" } },
	  .facts = { { "DateStyle", "ISO, MDY" } },
	  .baseline_after = { { "DateStyle", "ISO, MDY" } } },
	{ .says = "a reported value that had been set to the default before",
	  .baseline = { { "DateStyle", "ISO, MDY" } },
	  .startup = { { "datestyle", "German" } },
	  .has_before = true,
	  .baseline_after = { { "DateStyle", "ISO, MDY" } } },
	{ .says = "one that a text has set back since",
	  .baseline = { { "DateStyle", "ISO, MDY" } },
	  .startup = { { "datestyle", "German" } },
	  .has_before = true,
	  .back = "DateStyle",
	  .is_startup_unset = true,
	  .baseline_after = { { "DateStyle", "ISO, MDY" } },
	  .have_after = { { "datestyle", "\001" } } },
	{ .says = "one that had another value before",
	  .baseline = { { "DateStyle", "ISO, MDY" } },
	  .startup = { { "datestyle", "German" } },
	  .before = { { "datestyle", "SQL, MDY" } },
	  .has_before = true,
	  .is_startup_unset = true,
	  .baseline_after = { { "DateStyle", "ISO, MDY" } },
	  .have_after = { { "datestyle", "\001" } } },
	{ .says = "a value of the startup that is the server's anyway",
	  .baseline = { { "client_encoding", "UTF8" } },
	  .startup = { { "client_encoding", "utf8" } },
	  .baseline_after = { { "client_encoding", "UTF8" } } },
	{ .says = "a custom parameter that a text set back",
	  .have = { { "a.b", "\001" } },
	  .startup = { { "a.b", "1" } },
	  .facts = { { "a.b", "" } },
	  .back = "A.b",
	  .is_startup_unset = true,
	  .have_after = { { "a.b", "\001" } } },
	{ .says = "a custom parameter that was set to nothing",
	  .have = { { "a.b", "1" } },
	  .startup = { { "a.b", "1" } },
	  .facts = { { "a.b", "" } },
	  .have_after = { { "a.b", "" } } },
	{ .says = "a parameter of PostgreSQL is not set to nothing by a RESET",
	  .have = { { "search_path", "\001" } },
	  .startup = { { "search_path", "a" } },
	  .facts = { { "search_path", "" } },
	  .back = "search_path",
	  .have_after = { { "search_path", "" } } },
	{ .says = "a value that is not ASCII, in another encoding than the startup's",
	  .baseline = { { "client_encoding", "LATIN1" }, { "server_encoding", "UTF8" } },
	  .startup = { { "a.b", "1" } },
	  .facts = { { "a.b", "\xc3\xa9" } },
	  .baseline_after = { { "client_encoding", "LATIN1" }, { "server_encoding", "UTF8" } },
	  .have_after = { { "a.b", "\xc3\xa9" } } },
	{ .says = "a report in another encoding",
	  .baseline = { { "search_path", "x" } },
	  .have = { { "search_path", "\xe9" } },
	  .facts = { { "search_path", "\xc3\xa9" } },
	  .baseline_after = { { "search_path", "x" } },
	  .have_after = { { "search_path", "\xc3\xa9" } } },
};

static void make_facts(struct facts *facts, const struct pair *pairs, const char *role)
{
	for (size_t i = 0; i < MAP_MAX && pairs[i].name; i++) {
		buf_add_cstr(&facts->params, pairs[i].name);
		buf_add_cstr(&facts->params, pairs[i].value);
	}
	if (role) {
		buf_add_cstr(&facts->role, role);
	}
}

START_TEST(server_take_facts_takes)
{
	struct facts facts = { .parts = QUESTION_PARAMS };
	const struct params *startup, *before, *back;
	struct mapped_server mapped;

	mapped_make(&mapped, takes[_i].baseline, takes[_i].have);
	startup = param_map(mapped.shared.params, takes[_i].startup);
	before = param_map(mapped.shared.params, takes[_i].before);
	make_facts(&facts, takes[_i].facts, takes[_i].role);
	server_hold(&mapped.server, HELD_REST);
	back = params_none(mapped.shared.params);
	if (takes[_i].back)
		ck_assert(params_change(mapped.shared.params, &back, takes[_i].back, ""));
	ck_assert_msg(server_take_facts(&mapped.server, &facts, startup,
	                                takes[_i].has_before ? before : NULL, back),
	              "%s", takes[_i].says);
	ck_assert(!server_holds(&mapped.server, HELD_REST));
	ck_assert_msg((mapped.server.session.held == HELD_STARTUP) == takes[_i].is_startup_unset,
	              "%s", takes[_i].says);
	mapped_check(&mapped, takes[_i].says, takes[_i].baseline_after, takes[_i].have_after);
	facts_done(&facts);
	params_release(mapped.shared.params, &startup);
	params_release(mapped.shared.params, &before);
	params_release(mapped.shared.params, &back);
	mapped_done(&mapped);
}
END_TEST

static const struct {
	const char *says;
	struct pair baseline[MAP_MAX];
	struct pair have[MAP_MAX];
	struct pair facts[MAP_MAX];
	unsigned int too_long;
} cannot[] = {
	{ .says = "too long", .too_long = QUESTION_PARAMS },
	{ .says = "the value that means unknown", .facts = { { "a.b", "\001" }, { "x", "1" } } },
	{ .says = "a name that is not ASCII",
	  .facts = { { "\xc3\xa9", "1" }, { "a.b", "\001" }, { "x", "1" } } },
};

/* The value is in no map, so nobody sets it back: the caller keeps the server. */
START_TEST(server_take_facts_cannot)
{
	struct facts facts = { .too_long = cannot[_i].too_long };
	struct mapped_server mapped;

	mapped_make(&mapped, cannot[_i].baseline, cannot[_i].have);
	ck_assert(params_change(mapped.shared.params, &mapped.server.session.params, "x", "1"));
	ck_assert(params_change(mapped.shared.params, &mapped.server.session.params, "a.b", "old"));
	make_facts(&facts, cannot[_i].facts, NULL);
	ck_assert_msg(!server_take_facts(&mapped.server, &facts, params_none(mapped.shared.params),
	                                 NULL, params_none(mapped.shared.params)),
	              "%s", cannot[_i].says);
	ck_assert_str_eq(params_find(mapped.server.session.params, "x"), "1");
	if (!cannot[_i].too_long)
		ck_assert_ptr_null(params_find(mapped.server.session.params, "a.b"));
	facts_done(&facts);
	mapped_done(&mapped);
}
END_TEST

START_TEST(server_take_facts_has_a_limit)
{
	static const struct pair none[MAP_MAX] = { { 0 } };
	struct facts facts = { 0 };
	struct mapped_server mapped;

	mapped_make(&mapped, none, none);
	for (int i = 0; i < PARAMS_NAMES_MAX; i++)
		buf_printf(&facts.params, "a.n%d%cx%c", i, 0, 0);
	ck_assert(server_take_facts(&mapped.server, &facts, params_none(mapped.shared.params), NULL,
	                            params_none(mapped.shared.params)));
	ck_assert_uint_eq(params_count(mapped.server.session.params), PARAMS_NAMES_MAX);
	buf_add(&facts.params, "b\0x", 4);
	ck_assert(!server_take_facts(&mapped.server, &facts, params_none(mapped.shared.params),
	                             NULL, params_none(mapped.shared.params)));
	ck_assert_uint_eq(params_count(mapped.server.session.params), PARAMS_NAMES_MAX);
	facts_done(&facts);
	mapped_done(&mapped);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("pool/server_params_facts");
	TCase *tcase = tcase_create("server_params_facts");

	tcase_add_loop_test(tcase, server_take_facts_takes, 0, COUNT_OF(takes));
	tcase_add_loop_test(tcase, server_take_facts_cannot, 0, COUNT_OF(cannot));
	tcase_add_test(tcase, server_take_facts_has_a_limit);
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
