/* SPDX-License-Identifier: ISC */
/*
 * pool/pool_standby.c: whether a server on a standby has surely replayed enough (causal_reads), and
 * whether its standby is too far behind (max_standby_lag); and who gets it.
 */
#include "pgweir/pool/pool.h"

#include "pgweir/base/container_of.h"

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

	roster_watch(roster, &at);
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
	struct server server = { .site = &site, .place.host = 1 };
	struct roster roster;

	ck_assert(roster_init(&roster, "/a,/b", 1));
	site.roster = &roster;
	server.place.peer.family = AF_UNIX;
	server.place.standby.replayed = cases[_i].replayed;
	server.place.standby.started = cases[_i].started;
	server.place.standby.at = 10;
	note(&roster, 0, &primary, 1);
	note(&roster, 1, &seen, cases[_i].seen_at);
	ck_assert_msg(pool_standby_has_replayed(&server, POSITION) == cases[_i].has_replayed, "%s",
	              cases[_i].says);
	ck_assert(!pool_standby_has_replayed(&server, POSITION + 1));
	roster_done(&roster);
}
END_TEST

/* A position 100 was found out at 10, on timeline 1. */
static const struct {
	const char *says;
	uint32_t timeline, client_timeline;
	uint64_t position; /* of the primary, which was asked at asked_at - latency */
	usec_t asked_at, latency;
	uint64_t left;
} lefts[] = {
	{ "less on a newer timeline", 2, 1, 60, 15, 4, 60 },
	{ "as much", 2, 1, 100, 15, 4, 100 },
	{ "more", 2, 1, 150, 15, 4, 100 },
	{ "the same timeline", 1, 1, 60, 15, 4, 100 },
	{ "an older one", 1, 2, 60, 15, 4, 100 },
	{ "the client's is not known", 2, 0, 60, 15, 4, 100 },
	{ "the primary's is not known", 0, 1, 60, 15, 4, 100 },
	{ "its position is not known", 2, 1, 0, 15, 4, 100 },
	{ "asked at the same time", 2, 1, 60, 14, 4, 100 },
	{ "asked before", 2, 1, 60, 9, 4, 100 },
	{ "not asked by a watch", 2, 1, 60, 15, 0, 100 },
};

START_TEST(what_is_left_of_a_position)
{
	struct host_report primary = { .role = HOST_PRIMARY,
		                       .is_full = true,
		                       .timeline = lefts[_i].timeline,
		                       .latency = lefts[_i].latency,
		                       .position = lefts[_i].position };
	struct server_site site = { 0 };
	struct server server = { .site = &site, .place.host = 1 };
	struct roster roster;

	ck_assert_uint_eq(pool_standby_left_of(&server, 100, 1, 10), 100);
	ck_assert(roster_init(&roster, "/a,/b", 1));
	site.roster = &roster;
	server.place.peer.family = AF_UNIX;
	ck_assert_uint_eq(pool_standby_left_of(&server, 100, 1, 10), 100);
	note(&roster, 0, &primary, lefts[_i].asked_at);
	ck_assert_msg(pool_standby_left_of(&server, 100, lefts[_i].client_timeline, 10) ==
	                  lefts[_i].left,
	              "%s", lefts[_i].says);
	roster_done(&roster);
}
END_TEST

START_TEST(the_newest_timeline)
{
	struct host_report report = { .role = HOST_STANDBY, .is_full = true, .timeline = 3 };
	struct server_site site = { 0 };
	struct server server = { .site = &site, .place.host = 1 };
	struct roster roster;

	ck_assert_uint_eq(pool_standby_timeline(&server), 0);
	ck_assert(roster_init(&roster, "/a,/b", 1));
	site.roster = &roster;
	server.place.peer.family = AF_UNIX;
	ck_assert_uint_eq(pool_standby_timeline(&server), 0);
	note(&roster, 1, &report, 1);
	ck_assert_uint_eq(pool_standby_timeline(&server), 3);
	report.role = HOST_PRIMARY;
	report.timeline = 2;
	note(&roster, 0, &report, 2);
	ck_assert_uint_eq(pool_standby_timeline(&server), 3);
	report.timeline = 4;
	note(&roster, 0, &report, 3);
	ck_assert_uint_eq(pool_standby_timeline(&server), 4);
	roster_done(&roster);
}
END_TEST

START_TEST(without_a_roster)
{
	struct server_site site = { 0 };
	struct server server = { .site = &site, .place.standby.replayed = POSITION };

	ck_assert(pool_standby_has_replayed(&server, POSITION));
	ck_assert(!pool_standby_has_replayed(&server, POSITION + 1));
	ck_assert(pool_standby_follows_primary(&server));
}
END_TEST

START_TEST(a_standby_that_is_behind)
{
	struct host_report report = { .role = HOST_PRIMARY, .is_full = true, .position = 150 };
	struct pool pool = { .limits.lag_limit = { 0, 50 } };
	struct hosts hosts = { .want.limit = {
				   0, 1 } }; /* of another loop, which is first to reload */
	struct server_site site = { .hosts = &hosts };
	struct server server = { .site = &site, .pool = &pool, .place.host = 1 };
	struct roster roster;

	ck_assert(roster_init(&roster, "/a,/b", 1));
	site.roster = &roster;
	server.place.peer.family = AF_UNIX;
	note(&roster, 0, &report, 1);
	report = (struct host_report){ .role = HOST_STANDBY, .is_full = true, .position = 100 };
	note(&roster, 1, &report, 2);
	ck_assert(!pool_is_behind(&server));
	pool.limits.lag_limit.bytes = 49;
	ck_assert(pool_is_behind(&server));
	pool.limits.lag_limit = (struct roster_limit){ 0 };
	ck_assert(!pool_is_behind(&server));
	roster_done(&roster);
}
END_TEST

/* ---- the wait queue ---- */

#define PASSED_MAX 64 /* as in pool_standby.c */
#define NEXT_MAX 32

/* The server suits who has it here. */
struct reader {
	struct borrower borrower;
	const struct server *suitable;
};

static bool suits(const struct borrower *borrower, const struct server *server)
{
	return container_of(borrower, struct reader, borrower)->suitable == server;
}

/* A pool with an idle server and a wait queue. */
struct queue {
	struct pool pool;
	struct server server;
	struct reader readers[NEXT_MAX + 1];
};

static void open_queue(struct queue *queue)
{
	static const struct borrower_ops ops = { .suits = suits };

	*queue = (struct queue){ 0 };
	TAILQ_INIT(&queue->pool.queues[BORROWER_WAITING].list);
	TAILQ_INIT(&queue->pool.servers[SERVER_IDLE]);
	queue->server.pool = &queue->pool;
	queue->server.state = SERVER_IDLE;
	TAILQ_INSERT_TAIL(&queue->pool.servers[SERVER_IDLE], &queue->server, place.node);
	queue->pool.server_counts[SERVER_IDLE] = 1;
	for (size_t i = 0; i < COUNT_OF(queue->readers); i++) {
		struct borrower *borrower = &queue->readers[i].borrower;

		borrower->ops = &ops;
		borrower->pool = &queue->pool;
		borrower->wait_number = i + 1;
		TAILQ_INSERT_TAIL(&queue->pool.queues[BORROWER_WAITING].list, borrower, wait_node);
	}
}

/* The place in the wait queue of the next one to be served. */
static size_t next_place(struct queue *queue)
{
	const struct borrower *next = pool_standby_next(&queue->pool), *at;
	size_t place = 0;

	TAILQ_FOREACH (at, &queue->pool.queues[BORROWER_WAITING].list, wait_node) {
		if (at == next)
			break;
		place++;
	}
	return place;
}

START_TEST(the_first_one_whom_the_server_suits_is_next)
{
	struct queue queue;

	open_queue(&queue);
	ck_assert_uint_eq(next_place(&queue), 0);
	queue.readers[NEXT_MAX].suitable = &queue.server; /* too far behind in the queue */
	ck_assert_uint_eq(next_place(&queue), 0);
	queue.readers[NEXT_MAX - 1].suitable = &queue.server;
	ck_assert_uint_eq(next_place(&queue), NEXT_MAX - 1);
	queue.readers[2].suitable = &queue.server;
	ck_assert_uint_eq(next_place(&queue), 2);
	queue.readers[0].suitable = &queue.server;
	ck_assert_uint_eq(next_place(&queue), 0);
	queue.readers[0].suitable = NULL;
	queue.server.close_reason = CLOSE_LIBRARY;
	ck_assert_uint_eq(next_place(&queue), 0);
	queue.server.close_reason = CLOSE_NONE;
	queue.pool.server_counts[SERVER_IDLE] = 0;
	ck_assert_uint_eq(next_place(&queue), 0);
}
END_TEST

/* However many come whom it suits, the head is passed over so often only. */
START_TEST(the_head_does_not_starve)
{
	struct queue queue;
	struct borrower *head;

	open_queue(&queue);
	for (size_t i = 2; i < COUNT_OF(queue.readers); i++)
		queue.readers[i].suitable = &queue.server;
	for (int turn = 0; turn < 2; turn++) {
		for (int i = 0; i < PASSED_MAX; i++)
			ck_assert_uint_eq(next_place(&queue), turn ? 1 : 2);
		for (int i = 0; i < 2; i++)
			ck_assert_uint_eq(next_place(&queue), 0);
		head = TAILQ_FIRST(&queue.pool.queues[BORROWER_WAITING].list);
		TAILQ_REMOVE(&queue.pool.queues[BORROWER_WAITING].list, head,
		             wait_node); /* it was served */
	}
	/* Whom it suits is served at once, and passes over nobody. */
	for (int i = 0; i <= PASSED_MAX; i++)
		ck_assert_uint_eq(next_place(&queue), 0);
	ck_assert_uint_eq(queue.pool.reads.passed, 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("pool/pool_standby");
	TCase *tcase = tcase_create("pool_standby");

	tcase_add_loop_test(tcase, what_a_standby_has_replayed, 0, COUNT_OF(cases));
	tcase_add_loop_test(tcase, what_is_left_of_a_position, 0, COUNT_OF(lefts));
	tcase_add_test(tcase, the_newest_timeline);
	tcase_add_test(tcase, without_a_roster);
	tcase_add_test(tcase, a_standby_that_is_behind);
	tcase_add_test(tcase, the_first_one_whom_the_server_suits_is_next);
	tcase_add_test(tcase, the_head_does_not_starve);
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
