/* SPDX-License-Identifier: ISC */
/*
 * client/relay/causal.c: which clients may read on a standby, and on which one at once; and when
 * the question for the position goes out with what ends the transaction. What is sent, and when a
 * read waits: test/e2e/test_causal_trips.py.
 */
#include "../../../../src/client/relay/relay_priv.h"
#include "../../../../src/client/session/session_priv.h"
#include "../../../../src/pool/pool_priv.h"

#include "../../../lib/lone_server.h"

#include "../../unit.h"

struct stage {
	struct pool pool;
	struct server server;
	struct client client;
	struct causal causal;
};

static void open_stage(struct stage *stage)
{
	*stage = (struct stage){ 0 };
	stage->pool.limits.rules[0].is_causal = true;
	stage->pool.limits.rules[0].mode = POOL_MODE_TRANSACTION;
	stage->server.wire.status = 'I';
	stage->client.borrower.pool = &stage->pool;
	stage->client.borrower.server = &stage->server;
	stage->client.causal = &stage->causal;
}

/* ---- before a read ---- */

static const struct {
	const char *says;
	uint64_t position;
	usec_t connected_at; /* the setting is on since 10 */
	bool may_read;
} reads[] = {
	{ "a new client", 0, 11, true },
	{ "one that came at that time", 0, 10, true },
	{ "one from before: what it has done is not known", 0, 9, false },
	{ "one whose position is known", 5, 9, true },
	{ "one whose position is not known", UINT64_MAX, 11, false },
};

START_TEST(causal_who_may_read)
{
	struct stage stage;

	open_stage(&stage);
	stage.pool.causal_since = 10;
	stage.causal.position = reads[_i].position;
	stage.client.connected_at = reads[_i].connected_at;
	ck_assert_msg(causal_may_read(&stage.client) == reads[_i].may_read, "%s", reads[_i].says);
}
END_TEST

START_TEST(causal_begin_of_a_transaction)
{
	struct stage stage;

	open_stage(&stage);
	stage.causal.position = 5;
	stage.pool.purpose = POOL_FOR_READS;
	causal_begin(&stage.client);
	ck_assert(stage.client.is_position_due);
	ck_assert_uint_eq(stage.causal.position, 5);
	ck_assert_uint_eq(stage.causal.course.block, COURSE_CLOSED);
	stage.pool.purpose = POOL_FOR_CLIENTS;
	stage.client.late = (void *)&stage;
	causal_begin(&stage.client);
	ck_assert_uint_eq(stage.causal.position, UINT64_MAX);
	ck_assert_uint_eq(stage.causal.course.block, COURSE_OPEN);
}
END_TEST

/* Until then it costs a client nothing. */
START_TEST(causal_begin_of_the_first)
{
	struct stage stage;

	open_stage(&stage);
	stage.client.causal = NULL;
	causal_begin(&stage.client);
	ck_assert_ptr_nonnull(stage.client.causal);
	ck_assert_uint_eq(stage.client.causal->position, CAUSAL_NOT_KNOWN);
	causal_free(&stage.client);
	ck_assert_ptr_null(stage.client.causal);
	ck_assert(!stage.client.is_position_due);
	causal_free(&stage.client);
}
END_TEST

/*
 * The client has read on the standby that the server is connected to: host 1, on timeline 1, which
 * was started at 7. The server was there before that.
 */
static const struct {
	const char *says;
	uint64_t seen_on;
	uint32_t timeline; /* of the primary */
	bool is_caught_up;
} seens[] = {
	{ "the standby where it has read", 7, 1, true },
	{ "the same PostgreSQL after a failover, which has stayed with the former primary", 7, 2,
	  false },
	{ "another PostgreSQL", 8, 1, false },
};

static void note_host(struct roster *roster, unsigned int host, enum host_role role,
                      uint32_t timeline)
{
	struct host_report report = { .role = role, .is_full = true, .timeline = timeline };
	struct roster_at at = { .host = host };

	roster_watch(roster, &at);
	roster_note(roster, &at, &report, 1, NULL);
}

START_TEST(causal_where_what_was_seen_is_shown)
{
	struct lone_server lone;
	struct clients clients = { 0 };
	struct roster roster;
	struct stage stage;

	open_stage(&stage);
	lone_server_open(&lone, "");
	ck_assert(roster_init(&roster, "/a,/b", 1));
	note_host(&roster, 0, HOST_PRIMARY, seens[_i].timeline);
	note_host(&roster, 1, HOST_STANDBY, 1);
	lone.site.roster = &roster;
	lone.server.place.host = 1;
	lone.server.place.peer.family = AF_UNIX;
	lone.server.place.standby.started = 7;
	lone.server.place.standby.at = 10;
	clients.loop = lone.loop;
	stage.pool.purpose = POOL_FOR_READS;
	stage.causal.seen_on = seens[_i].seen_on;
	stage.causal.seen_since = 11;
	stage.client.clients = &clients;
	stage.client.state = CLIENT_WAITING;
	stage.client.stream.is_halted = true; /* it has no socket */
	stage.client.borrower.server = &lone.server;
	ck_assert_msg(causal_is_caught_up(&stage.client) == seens[_i].is_caught_up, "%s",
	              seens[_i].says);
	ck_assert_int_eq(stage.client.state,
	                 seens[_i].is_caught_up ? CLIENT_WAITING : CLIENT_CATCHING_UP);
	lone.site.roster = NULL;
	lone_server_close(&lone);
	roster_done(&roster);
}
END_TEST

/* ---- behind a transaction ---- */

static const struct bytes commit = { "Q\0\0\0\13commit\0", 12 };
static const struct bytes begin = { "Q\0\0\0\12begin\0", 11 };
static const struct bytes sync_and_more = { "S\0\0\0\4S", 6 };

static struct frame frame_of(struct bytes in)
{
	struct frame frame;

	ck_assert_int_eq(frame_peek(in, UINT32_MAX, &frame), WIRE_OK);
	return frame;
}

static bool ends(struct stage *stage, struct bytes in)
{
	struct frame frame = frame_of(in);

	causal_note(&stage->client, &frame, in);
	return causal_ends(&stage->client, &frame, in);
}

START_TEST(causal_what_ends)
{
	struct stage stage;

	open_stage(&stage);
	ck_assert(ends(&stage, commit));
	ck_assert(!ends(&stage, begin));
	ck_assert(ends(&stage, bytes_of(sync_and_more.at, 5)));
	ck_assert(!ends(&stage, sync_and_more)); /* more follows, and has to wait for nothing */
	ck_assert(!ends(&stage, bytes_of("H\0\0\0\4", 5)));
	stage.server.wire.status = 'T';
	ck_assert(!ends(&stage, bytes_of(sync_and_more.at, 5)));
	ck_assert(ends(&stage, commit));
	stage.server.wire.status = 'E';
	ck_assert(!ends(&stage, bytes_of(sync_and_more.at, 5)));
	ck_assert(ends(&stage, commit));
}
END_TEST

/* What the server has said counts only if it owes nothing. */
START_TEST(causal_what_was_sent_counts)
{
	struct stage stage;

	open_stage(&stage);
	ck_assert(!ends(&stage, begin));
	ledger_add(&stage.server.wire.ledger, LEDGER_QUERY, LEDGER_CLIENT);
	ck_assert(!ends(&stage, bytes_of(sync_and_more.at, 5)));
	ck_assert(ends(&stage, commit));
	ck_assert(!ends(&stage, begin));
	ledger_done(&stage.server.wire.ledger);
	ck_assert(ends(&stage, bytes_of(sync_and_more.at, 5)));
	/* it has answered all, but a Sync is still to come */
	ck_assert(!ends(&stage, begin));
	stage.server.wire.ledger.is_open = true;
	ck_assert(!ends(&stage, bytes_of(sync_and_more.at, 5)));
	ledger_done(&stage.server.wire.ledger);
}
END_TEST

/* Others ask for more than the position when the transaction has ended, or for nothing. */
START_TEST(causal_is_for_plain_clients)
{
	struct session session = { .pins = SESSION_PIN_TEMP };
	struct stage stage;

	open_stage(&stage);
	stage.client.touched = 1;
	ck_assert(!ends(&stage, commit));
	open_stage(&stage);
	stage.client.listening = (void *)&stage;
	ck_assert(!ends(&stage, commit));
	open_stage(&stage);
	stage.client.session = &session;
	ck_assert(!ends(&stage, commit));
	open_stage(&stage);
	stage.pool.limits.rules[0].mode = POOL_MODE_SESSION;
	ck_assert(!ends(&stage, commit));
	open_stage(&stage);
	stage.pool.limits.rules[0].is_causal = false;
	ck_assert(!ends(&stage, commit));
	open_stage(&stage);
	stage.server.lease.cancel_count = 1;
	ck_assert(!ends(&stage, commit));
}
END_TEST

/* A frame that has not come in full says nothing. */
START_TEST(causal_at_every_cut)
{
	struct frame frame = frame_of(commit);
	struct stage stage;

	for (size_t count = FRAME_HEADER_SIZE; count < commit.count; count++) {
		char *copy = malloc(count); /* the sanitizer detects reads after it */

		open_stage(&stage);
		memcpy(copy, commit.at, count);
		causal_note(&stage.client, &frame, bytes_of(copy, count));
		ck_assert_uint_eq(stage.causal.course.block, COURSE_UNSURE);
		ck_assert(!causal_ends(&stage.client, &frame, bytes_of(copy, count)));
		free(copy);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("client/relay/causal");
	TCase *tcase = tcase_create("causal");

	tcase_add_loop_test(tcase, causal_who_may_read, 0, COUNT_OF(reads));
	tcase_add_test(tcase, causal_begin_of_a_transaction);
	tcase_add_test(tcase, causal_begin_of_the_first);
	tcase_add_loop_test(tcase, causal_where_what_was_seen_is_shown, 0, COUNT_OF(seens));
	tcase_add_test(tcase, causal_what_ends);
	tcase_add_test(tcase, causal_what_was_sent_counts);
	tcase_add_test(tcase, causal_is_for_plain_clients);
	tcase_add_test(tcase, causal_at_every_cut);
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
