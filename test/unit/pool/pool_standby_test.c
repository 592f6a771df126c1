/* SPDX-License-Identifier: ISC */
/*
 * pool/pool_standby.c: whether a server on a standby has surely replayed enough (causal_reads), and
 * whether its standby is too far behind (max_standby_lag).
 */
#include "pgweir/pool/pool.h"

#include "../../../src/pool/pool_priv.h"
#include "../../../src/pool/server/server_priv.h"

#include "../unit.h"

#define POSITION 100 /* of the client */
#define STARTED 7

static const struct {
	const char *says;
	uint64_t replayed, started; /* of the server; `started` was found out at 10 */
	uint64_t seen_position, seen_started;
	uint32_t timeline; /* of the standby; that of the primary is 2 */
	usec_t seen_at;
	enum host_role role;
	bool has_replayed;
} cases[] = {
	{ "nothing is known", 0, 0, 0, 0, 2, 20, HOST_STANDBY, false },
	{ "the server has said so", 100, STARTED, 0, 0, 2, 20, HOST_STANDBY, true },
	{ "it has said less", 99, STARTED, 0, 0, 2, 20, HOST_STANDBY, false },
	{ "a watch has seen it later", 99, STARTED, 100, STARTED, 2, 11, HOST_STANDBY, true },
	{ "it has seen less", 99, STARTED, 99, STARTED, 2, 11, HOST_STANDBY, false },
	{ "at the same time, so perhaps before", 99, STARTED, 100, STARTED, 2, 10, HOST_STANDBY,
	  false },
	{ "before the server was there", 99, STARTED, 100, STARTED, 2, 9, HOST_STANDBY, false },
	{ "another start", 99, STARTED, 100, STARTED + 1, 2, 11, HOST_STANDBY, false },
	{ "a start that is not known", 99, 0, 100, 0, 2, 11, HOST_STANDBY, false },
	{ "a former timeline", 100, STARTED, 100, STARTED, 1, 11, HOST_STANDBY, false },
	{ "a timeline that is not known", 100, STARTED, 0, 0, 0, 11, HOST_STANDBY, true },
	{ "a newer timeline", 100, STARTED, 0, 0, 3, 11, HOST_STANDBY, true },
	{ "no standby any more", 99, STARTED, 100, STARTED, 2, 11, HOST_PRIMARY, false },
};

static void note(struct roster *roster, unsigned int host, const struct host_report *report,
                 usec_t now)
{
	struct roster_at at = { .host = host };

	roster_watch(roster, &at, true);
	roster_note(roster, &at, report, now, NULL);
}

START_TEST(what_a_standby_has_replayed)
{
	struct host_report seen = { .role = cases[_i].role,
		                    .is_full = true,
		                    .timeline = cases[_i].timeline,
		                    .started = cases[_i].seen_started,
		                    .position = cases[_i].seen_position };
	struct host_report primary = { .role = HOST_PRIMARY, .is_full = true, .timeline = 2 };
	struct server_site site = { 0 };
	struct server server = { .site = &site, .host = 1 };
	struct roster roster;

	ck_assert(roster_init(&roster, "/a,/b", 1));
	site.roster = &roster;
	server.peer.family = AF_UNIX;
	server.replayed = cases[_i].replayed;
	server.started = cases[_i].started;
	server.started_at = 10;
	note(&roster, 0, &primary, 1);
	note(&roster, 1, &seen, cases[_i].seen_at);
	ck_assert_msg(pool_standby_has_replayed(&server, POSITION) == cases[_i].has_replayed, "%s",
	              cases[_i].says);
	ck_assert(!pool_standby_has_replayed(&server, POSITION + 1));
	roster_done(&roster);
}
END_TEST

START_TEST(without_a_roster)
{
	struct server_site site = { 0 };
	struct server server = { .site = &site, .replayed = POSITION };

	ck_assert(pool_standby_has_replayed(&server, POSITION));
	ck_assert(!pool_standby_has_replayed(&server, POSITION + 1));
	ck_assert(pool_standby_follows_primary(&server));
}
END_TEST

START_TEST(a_standby_that_is_behind)
{
	struct host_report report = { .role = HOST_PRIMARY, .is_full = true, .position = 150 };
	struct hosts hosts = { .limit = { 0, 50 } };
	struct server_site site = { .hosts = &hosts };
	struct server server = { .site = &site, .host = 1 };
	struct roster roster;

	ck_assert(roster_init(&roster, "/a,/b", 1));
	site.roster = &roster;
	server.peer.family = AF_UNIX;
	note(&roster, 0, &report, 1);
	report = (struct host_report){ .role = HOST_STANDBY, .is_full = true, .position = 100 };
	note(&roster, 1, &report, 2);
	ck_assert(!pool_standby_is_behind(&server));
	hosts.limit.bytes = 49;
	ck_assert(pool_standby_is_behind(&server));
	hosts.limit = (struct roster_limit){ 0 };
	ck_assert(!pool_standby_is_behind(&server));
	roster_done(&roster);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("pool/pool_standby");
	TCase *tcase = tcase_create("pool_standby");

	tcase_add_loop_test(tcase, what_a_standby_has_replayed, 0, COUNT_OF(cases));
	tcase_add_test(tcase, without_a_roster);
	tcase_add_test(tcase, a_standby_that_is_behind);
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
