/* SPDX-License-Identifier: ISC */
/*
 * pool/broker.c and permits.c: limits hold for all loops together, and waiting loops are
 * woken.
 */
#include "pgweir/pool/broker.h"

#include <pthread.h>

#include "pgweir/base/container_of.h"

#include "../unit.h"

/* One loop's shares in a pool, a database and a role. */
struct side {
	struct loop *loop;
	struct broker_member member;
	struct share pool, database, role;
	struct claimant claim;
	unsigned int pool_woken, database_woken, role_woken;
};

static void on_pool(struct share *share) { container_of(share, struct side, pool)->pool_woken++; }

static void on_database(struct share *share)
{
	container_of(share, struct side, database)->database_woken++;
}

static void on_role(struct share *share) { container_of(share, struct side, role)->role_woken++; }

static void open_side(struct side *side, struct broker *broker, const char *database,
                      const char *role)
{
	*side = (struct side){ .loop = loop_new(NULL),
		               .pool.on_woken = on_pool,
		               .database.on_woken = on_database,
		               .role.on_woken = on_role };
	broker_join(broker, &side->member, side->loop);
	ck_assert(share_open(&side->pool, &side->member, TALLY_POOL, database, role));
	ck_assert(share_open(&side->database, &side->member, TALLY_DATABASE, database, ""));
	ck_assert(share_open(&side->role, &side->member, TALLY_ROLE, role, ""));
	side->claim = (struct claimant){
		.pool = &side->pool,
		.of = { side->pool.tally, side->database.tally, side->role.tally },
		.weight = 1,
	};
}

static void close_side(struct side *side)
{
	permit_leave_queue(&side->claim);
	share_close(&side->pool);
	share_close(&side->database);
	share_close(&side->role);
	broker_leave(&side->member);
	loop_free(&side->loop);
}

struct end {
	struct task task;
	struct loop *loop;
};

static void stop(struct task *task) { loop_stop(container_of(task, struct end, task)->loop); }

/* Opens the letters that have been posted to this side. */
static void turn(struct side *side)
{
	struct end end = { { .run = stop }, side->loop };

	loop_defer(side->loop, &end.task);
	loop_run(side->loop);
}

/* It waits if a cap refuses it, for so many servers. */
static enum permit_answer take_needed(struct side *side, unsigned int most, unsigned int needed)
{
	struct permit_ask ask = {
		.permit.of = { side->pool.tally, side->database.tally, side->role.tally },
		.most = most,
		.needed = needed,
		.claimant = &side->claim,
		.waits = true,
	};

	return permit_take(&ask, &side->member);
}

static enum permit_answer take_of(struct side *side, unsigned int most)
{
	return take_needed(side, most, 1);
}

static enum permit_answer take(struct side *side, unsigned int pool, int database, int role)
{
	enum permit_answer answer;

	permit_set_limit(&side->database, database, 0);
	permit_set_limit(&side->role, role, 0);
	answer = take_of(side, pool);
	permit_leave_queue(&side->claim);
	return answer;
}

static void give(struct side *side)
{
	struct permit permit = { .of = { side->pool.tally, side->database.tally,
		                         side->role.tally } };

	permit_give(&permit, &side->member);
}

START_TEST(each_limit_holds_for_both_loops_together)
{
	struct broker *broker = broker_new(2, NULL);
	struct side one, other;

	open_side(&one, broker, "db", "alice");
	open_side(&other, broker, "db", "alice");
	ck_assert_int_eq(take(&one, 2, 9, 9), PERMIT_GRANTED);
	ck_assert_int_eq(take(&other, 2, 9, 9), PERMIT_GRANTED);
	ck_assert_int_eq(take(&one, 2, 9, 9), PERMIT_POOL_FULL);
	ck_assert_int_eq(take(&other, 9, 2, 9), PERMIT_CAP_FULL + CAP_DATABASE);
	ck_assert_int_eq(take(&other, 9, 9, 2), PERMIT_CAP_FULL + CAP_ROLE);
	ck_assert_uint_eq(share_servers(&one.pool), 2);
	give(&other);
	ck_assert_int_eq(take(&one, 2, 2, 2), PERMIT_GRANTED);
	give(&one);
	give(&one);
	ck_assert_uint_eq(share_servers(&other.role), 0);
	close_side(&one);
	close_side(&other);
	broker_free(&broker);
}
END_TEST

START_TEST(pools_of_one_database_share_its_limit)
{
	struct broker *broker = broker_new(2, NULL);
	struct side one, other;

	open_side(&one, broker, "db", "alice");
	open_side(&other, broker, "db", "bob");
	ck_assert_int_eq(take(&one, 1, 2, 1), PERMIT_GRANTED);
	ck_assert_int_eq(take(&other, 1, 2, 1), PERMIT_GRANTED);
	ck_assert_uint_eq(share_servers(&one.database), 2);
	ck_assert_uint_eq(share_servers(&one.pool), 1);
	ck_assert_uint_eq(share_servers(&one.role), 1);
	give(&one);
	give(&other);
	close_side(&one);
	close_side(&other);
	broker_free(&broker);
}
END_TEST

/* Whichever loop the permit was given back in. */
START_TEST(the_pool_that_has_waited_longest_is_woken)
{
	static const char *const users[] = { "alice", "bob", "carol" };
	struct broker *broker = broker_new(3, NULL);
	struct side sides[3];

	for (int i = 0; i < 3; i++)
		open_side(&sides[i], broker, "db", users[i]);
	permit_set_limit(&sides[0].database, 1, 0);
	ck_assert_int_eq(take_of(&sides[0], 1), PERMIT_GRANTED);
	ck_assert_int_eq(take_of(&sides[2], 1), PERMIT_CAP_FULL + CAP_DATABASE);
	ck_assert_int_eq(take_of(&sides[1], 1), PERMIT_CAP_FULL + CAP_DATABASE);
	ck_assert_uint_eq(sides[0].database.tally->blocked_count, 2);
	give(&sides[0]);
	for (int i = 0; i < 3; i++)
		turn(&sides[i]);
	ck_assert_uint_eq(sides[1].pool_woken, 0);
	ck_assert_uint_eq(sides[2].pool_woken, 1);
	ck_assert_int_eq(take_of(&sides[1], 1), PERMIT_PASSED + CAP_DATABASE);
	ck_assert_int_eq(take_of(&sides[0], 1), PERMIT_PASSED + CAP_DATABASE);
	/* One that leaves wakes the next; its own loop at once, without a letter. */
	permit_leave_queue(&sides[2].claim);
	turn(&sides[1]);
	ck_assert_uint_eq(sides[1].pool_woken, 1);
	permit_leave_queue(&sides[1].claim);
	ck_assert_uint_eq(sides[1].pool_woken, 1);
	turn(&sides[0]);
	ck_assert_uint_eq(sides[0].pool_woken, 1);
	ck_assert_int_eq(take_of(&sides[0], 1), PERMIT_GRANTED);
	ck_assert_uint_eq(sides[0].database.tally->blocked_count, 0);
	give(&sides[0]);
	for (int i = 0; i < 3; i++)
		close_side(&sides[i]);
	broker_free(&broker);
}
END_TEST

/* A server that is so young is not given up. */
static uint64_t first_rank(struct side *side)
{
	ck_assert(!permit_yields(&side->database, &side->claim, 0));
	return heap_first(&side->database.tally->queue)->key;
}

/* Whose user is owed a server comes first, as soon as it is owed one, and no longer than that. */
START_TEST(a_queue_follows_what_is_guaranteed)
{
	struct broker *broker = broker_new(3, NULL);
	struct side first, owed, same;

	open_side(&first, broker, "db", "alice");
	open_side(&owed, broker, "db", "bob");
	open_side(&same, broker, "other", "bob");
	ck_assert_int_eq(take_of(&same, 9), PERMIT_GRANTED);
	ck_assert_int_eq(take_of(&first, 9), PERMIT_GRANTED);
	permit_set_limit(&first.database, 1, 0);
	permit_set_limit(&owed.role, 0, 1);
	ck_assert_int_eq(take_of(&first, 9), PERMIT_CAP_FULL + CAP_DATABASE);
	ck_assert_int_eq(take_of(&owed, 9), PERMIT_CAP_FULL + CAP_DATABASE);
	ck_assert_uint_eq(first_rank(&first), (uint64_t)1 << 62); /* of a pool without any server */
	give(&same);
	ck_assert_uint_eq(first_rank(&first), 0);
	ck_assert_int_eq(take_of(&same, 9), PERMIT_GRANTED);
	ck_assert_uint_gt(first_rank(&first), 0);
	ck_assert(permit_yields(&first.database, &first.claim, CLAIM_TURN));
	ck_assert_uint_eq(first_rank(&first), 0); /* for its turn with the only server */
	give(&same);
	give(&first);
	close_side(&first);
	close_side(&owed);
	close_side(&same);
	broker_free(&broker);
}
END_TEST

/* A pool that waits for a server that was given up for it keeps those that it has. */
START_TEST(what_is_given_up_for_a_pool_is_not_one_of_its_own)
{
	struct broker *broker = broker_new(3, NULL);
	struct side rich, poor, poorer;

	open_side(&rich, broker, "db", "alice");
	open_side(&poor, broker, "db", "bob");
	open_side(&poorer, broker, "db", "carol");
	for (int i = 0; i < 5; i++)
		ck_assert_int_eq(take_of(&rich, 9), PERMIT_GRANTED);
	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(take_of(&poor, 9), PERMIT_GRANTED);
		ck_assert_int_eq(take_of(&poorer, 9), PERMIT_GRANTED);
	}
	permit_set_limit(&rich.database, 9, 0);
	ck_assert_int_eq(take_of(&poor, 9), PERMIT_CAP_FULL + CAP_DATABASE);
	ck_assert_int_eq(take_of(&poorer, 9), PERMIT_CAP_FULL + CAP_DATABASE);
	ck_assert(permit_yields(&rich.database, &rich.claim, CLAIM_TURN));
	ck_assert(!permit_yields(&poor.database, &poor.claim, CLAIM_TURN));
	ck_assert(!permit_yields(&poorer.database, &poorer.claim, CLAIM_TURN));
	for (int i = 0; i < 5; i++)
		give(&rich);
	for (int i = 0; i < 2; i++) {
		give(&poor);
		give(&poorer);
	}
	close_side(&rich);
	close_side(&poor);
	close_side(&poorer);
	broker_free(&broker);
}
END_TEST

/* ---- no claim sleeps while its cap has space ---- */

#define PLAYERS 12
#define PLAYER_STEPS 4000
#define PLAYER_MOST 5 /* servers of a pool: the players have six pools, in two loops each */

struct player {
	struct side side;
	unsigned int held, wish;
	unsigned int heard; /* of side.pool_woken */
};

/* As a pool does it in its turn. */
static void serve(struct player *player)
{
	struct claimant *claim = &player->side.claim;
	enum permit_answer answer = PERMIT_GRANTED;

	while (player->held < player->wish && answer == PERMIT_GRANTED) {
		answer = take_needed(&player->side, PLAYER_MOST, player->wish - player->held);
		player->held += answer == PERMIT_GRANTED;
	}
	if (answer < PERMIT_CAP_FULL)
		permit_leave_queue(claim);
	if (!claim->cap)
		claim->node.order = 0;
}

static void give_one(struct player *player)
{
	player->held--;
	give(&player->side);
	serve(player);
}

static void play(struct player *player, unsigned int *seed)
{
	struct side *side = &player->side;
	struct share *cap = rand_r(seed) % 2 ? &side->database : &side->role;

	switch (rand_r(seed) % 8) {
	case 0:
		permit_set_limit(cap, rand_r(seed) % 8, rand_r(seed) % 3);
		break;
	case 1:
	case 2:
	case 3:
		player->wish = (unsigned int)rand_r(seed) % 4;
		serve(player);
		break;
	case 4:
		if (!player->held || !permit_yields(cap, &side->claim, CLAIM_TURN))
			break;
		permit_leave_queue(&side->claim);
		side->claim.node.order = 0;
		give_one(player);
		break;
	default:
		if (player->held)
			give_one(player);
	}
}

/* Until nobody is woken any more. */
static void settle(struct player *players)
{
	bool is_any = true;

	for (int rounds = 0; is_any; rounds++) {
		is_any = false;
		for (int i = 0; i < PLAYERS; i++) {
			struct player *player = &players[i];

			turn(&player->side);
			if (player->heard == player->side.pool_woken)
				continue;
			player->heard = player->side.pool_woken;
			serve(player);
			is_any = true;
		}
		ck_assert_int_lt(rounds, 1000);
	}
}

/* What the two loops of a pool need of the cap: together no more than it may have. */
static unsigned int needed_of(const struct player *player, const struct tally *cap)
{
	unsigned int space, needed = 0;

	for (int i = 0; i <= PLAYERS / 2; i += PLAYERS / 2) {
		if (player[i].side.claim.cap == cap)
			needed += player[i].side.claim.needed;
	}
	space = PLAYER_MOST - share_servers(&player->side.pool);
	return needed < space ? needed : space;
}

static bool waits_for(const struct player *player, const struct tally *cap)
{
	return player[0].side.claim.cap == cap || player[PLAYERS / 2].side.claim.cap == cap;
}

static void check_counts(const struct player *players, const struct tally *cap)
{
	unsigned int needed = 0, blocked = 0;

	for (int i = 0; i < PLAYERS / 2; i++) {
		needed += needed_of(&players[i], cap);
		blocked += waits_for(&players[i], cap);
	}
	ck_assert_uint_eq(cap->needed_count, needed);
	ck_assert_uint_eq(cap->blocked_count, blocked);
}

static void check_cap(const struct tally *cap)
{
	if (heap_first(&cap->queue))
		ck_assert(cap->most && cap->server_count >= cap->most);
	else
		ck_assert_uint_eq(cap->blocked_count, 0);
}

START_TEST(no_claim_sleeps_while_its_cap_has_space)
{
	static const char *const databases[] = { "a", "b" };
	static const char *const roles[] = { "alice", "bob", "carol" };
	struct broker *broker = broker_new(PLAYERS, NULL);
	struct player players[PLAYERS] = { 0 };
	unsigned int seed = (unsigned int)_i;

	for (int i = 0; i < PLAYERS; i++)
		open_side(&players[i].side, broker, databases[i % 2], roles[i % 3]);
	for (int step = 0; step < PLAYER_STEPS; step++) {
		play(&players[rand_r(&seed) % PLAYERS], &seed);
		settle(players);
		for (int i = 0; i < PLAYERS; i++) {
			check_cap(players[i].side.database.tally);
			check_cap(players[i].side.role.tally);
			check_counts(players, players[i].side.database.tally);
			check_counts(players, players[i].side.role.tally);
		}
	}
	for (int i = 0; i < PLAYERS; i++) {
		players[i].wish = 0;
		while (players[i].held)
			give_one(&players[i]);
	}
	settle(players);
	ck_assert_uint_eq(share_servers(&players[0].side.database), 0);
	ck_assert_uint_eq(share_servers(&players[1].side.role), 0);
	for (int i = 0; i < PLAYERS; i++)
		close_side(&players[i].side);
	broker_free(&broker);
}
END_TEST

START_TEST(a_want_is_promised_as_many_servers_as_it_wants)
{
	struct broker *broker = broker_new(2, NULL);
	struct side one, other;

	open_side(&one, broker, "db", "alice");
	open_side(&other, broker, "db", "alice");
	ck_assert(!share_is_asked(&one.pool));
	ck_assert_ptr_null(share_promise(&one.pool, NULL));
	share_want(&other.pool, 100, 2);
	ck_assert(share_is_asked(&one.pool));
	ck_assert(!share_is_asked(&other.pool));
	turn(&one);
	ck_assert_uint_eq(one.pool_woken, 1);
	ck_assert_ptr_null(share_promise(
	    &one.pool, &(struct share_fair){ 100, 100 })); /* waits no longer than one's own */
	ck_assert_ptr_eq(share_promise(&one.pool, &(struct share_fair){ 101, 101 }), &other.member);
	ck_assert_ptr_eq(share_promise(&one.pool, &(struct share_fair){ 101, 101 }), &other.member);
	ck_assert_ptr_null(share_promise(&one.pool, &(struct share_fair){ 101, 101 }));
	ck_assert_uint_eq(other.pool.promised_count, 2);
	share_unpromise(&one.pool, &other.member);
	share_unpromise(&one.pool, &other.member);
	share_unpromise(&one.pool, &other.member);
	ck_assert_uint_eq(other.pool.promised_count, 0);
	close_side(&one);
	close_side(&other);
	broker_free(&broker);
}
END_TEST

START_TEST(a_want_that_changes_wakes_nobody)
{
	struct broker *broker = broker_new(3, NULL);
	struct side sides[3];

	for (int i = 0; i < 3; i++)
		open_side(&sides[i], broker, "db", "alice");
	share_want(&sides[1].pool, 200, 1);
	share_want(&sides[2].pool, 100, 1);
	turn(&sides[0]);
	ck_assert(share_has_new_want(&sides[0].pool));
	ck_assert(!share_has_new_want(&sides[0].pool));
	sides[0].pool_woken = 0;
	share_want(&sides[1].pool, 50, 2);
	turn(&sides[0]);
	ck_assert_uint_eq(sides[0].pool_woken, 0);
	ck_assert(!share_has_new_want(&sides[0].pool));
	ck_assert_ptr_eq(share_promise(&sides[0].pool, NULL), &sides[1].member);
	ck_assert_ptr_eq(share_promise(&sides[0].pool, NULL), &sides[1].member);
	ck_assert_ptr_eq(share_promise(&sides[0].pool, NULL), &sides[2].member);
	ck_assert_ptr_null(share_promise(&sides[0].pool, NULL));
	share_want(&sides[1].pool, 300, 1);
	turn(&sides[0]);
	ck_assert_uint_eq(sides[0].pool_woken, 1);
	ck_assert(share_has_new_want(&sides[0].pool));
	for (int i = 0; i < 3; i++)
		close_side(&sides[i]);
	broker_free(&broker);
}
END_TEST

/* Four and two servers for as many clients become three and three. */
START_TEST(servers_are_levelled_while_clients_wait_in_both_loops)
{
	const struct share_fair young = { 0, 0 };
	struct broker *broker = broker_new(2, NULL);
	struct side one, other;

	open_side(&one, broker, "db", "alice");
	open_side(&other, broker, "db", "alice");
	share_want(&one.pool, 100, 9);
	share_want(&other.pool, 100, 9);
	share_tell_load(&one.pool, 10, 4);
	share_tell_load(&other.pool, 10, 2);
	ck_assert_ptr_null(share_promise(&other.pool, &young));
	ck_assert_ptr_eq(share_promise(&one.pool, &young), &other.member);
	share_tell_load(&one.pool, 10, 3);
	ck_assert_ptr_null(share_promise(&one.pool, &young));
	share_tell_load(&other.pool, 20, 2);
	ck_assert_ptr_eq(share_promise(&one.pool, &young), &other.member);
	close_side(&one);
	close_side(&other);
	broker_free(&broker);
}
END_TEST

/* true: the pool tries once more, as a server may have been given back before its want was known.
 */
START_TEST(a_want_is_new_once)
{
	struct broker *broker = broker_new(2, NULL);
	struct side one, other;

	open_side(&one, broker, "db", "alice");
	open_side(&other, broker, "db", "alice");
	ck_assert(!share_want(&one.pool, 0, 0));
	ck_assert(share_want(&one.pool, 100, 1));
	ck_assert(!share_want(&one.pool, 100, 2));
	ck_assert(share_is_asked(&other.pool));
	ck_assert(!share_want(&one.pool, 0, 0));
	ck_assert(!share_is_asked(&other.pool));
	ck_assert(share_want(&one.pool, 100, 1));
	close_side(&one);
	close_side(&other);
	broker_free(&broker);
}
END_TEST

/* With one loop there is nobody to tell. */
START_TEST(a_loop_alone_has_no_wants)
{
	struct broker *broker = broker_new(1, NULL);
	struct side one;

	open_side(&one, broker, "db", "alice");
	ck_assert(!share_want(&one.pool, 100, 1));
	ck_assert(!one.pool.is_wanting);
	close_side(&one);
	broker_free(&broker);
}
END_TEST

START_TEST(a_promise_that_is_not_kept_is_wanted_again)
{
	struct broker *broker = broker_new(3, NULL);
	struct side sides[3];

	for (int i = 0; i < 3; i++)
		open_side(&sides[i], broker, "db", "alice");
	share_want(&sides[1].pool, 100, 2);
	for (int i = 0; i < 2; i++)
		ck_assert_ptr_eq(share_promise(&sides[0].pool, NULL), &sides[1].member);
	ck_assert(!sides[1].pool.is_wanting);
	share_want(&sides[2].pool, 200, 1);
	ck_assert_ptr_eq(share_promise(&sides[0].pool, NULL), &sides[2].member);
	for (int i = 0; i < 2; i++)
		share_unpromise(&sides[0].pool, &sides[1].member);
	ck_assert_uint_eq(sides[1].pool.promised_count, 0);
	ck_assert_uint_eq(sides[2].pool.promised_count, 1);
	ck_assert(sides[1].pool.is_wanting);
	ck_assert(!sides[2].pool.is_wanting);
	for (int i = 0; i < 2; i++)
		ck_assert_ptr_eq(share_promise(&sides[2].pool, NULL), &sides[1].member);
	ck_assert_ptr_null(share_promise(&sides[2].pool, NULL));
	for (int i = 0; i < 3; i++)
		close_side(&sides[i]);
	broker_free(&broker);
}
END_TEST

/* A loop without any server, and that is promised none, waits for less long. */
START_TEST(a_loop_without_servers_is_served_earlier)
{
	const struct share_fair fair = { .before = 50, .before_any = 150 };
	struct broker *broker = broker_new(2, NULL);
	struct side one, other;

	open_side(&one, broker, "db", "alice");
	open_side(&other, broker, "db", "alice");
	share_want(&one.pool, 20, 1); /* it is never promised one of its own */
	share_want(&other.pool, 100, 3);
	share_tell_load(&other.pool, 0, 1);
	ck_assert_ptr_null(share_promise(&one.pool, &fair));
	share_tell_load(&other.pool, 0, 0);
	ck_assert_ptr_eq(share_promise(&one.pool, &fair), &other.member);
	ck_assert_ptr_null(share_promise(&one.pool, &fair));
	ck_assert_ptr_eq(share_promise(&one.pool, NULL), &other.member);
	close_side(&one);
	close_side(&other);
	broker_free(&broker);
}
END_TEST

/* Before a pool has a welcome, and after a failure, each loop looks; else those that wait. */
START_TEST(the_end_of_a_login_wakes_all_or_those_that_wait)
{
	struct broker *broker = broker_new(3, NULL);
	struct side sides[3];
	struct hosts *hosts;

	for (int i = 0; i < 3; i++)
		open_side(&sides[i], broker, "db", "alice");
	hosts = &sides[0].pool.tally->hosts;
	ck_assert(hosts_configure(hosts, "/a", 5432, LOAD_BALANCE_DISABLE));
	share_want(&sides[2].pool, 100, 1);
	for (int step = 0; step < 3; step++) {
		if (step == 1)
			share_put_welcome(&sides[0].pool, bytes_of("w", 1), bytes_of("b", 1));
		if (step == 2)
			hosts_note(hosts, &(struct roster_at){ .host = 0 }, HOST_REFUSED,
			           &(struct hosts_when){ .now = 1, .gap = 1 },
			           &(struct err){ .text = "down" });
		for (int i = 0; i < 3; i++) {
			turn(&sides[i]);
			sides[i].pool_woken = 0;
		}
		share_wake_logins(&sides[0].pool);
		for (int i = 1; i < 3; i++)
			turn(&sides[i]);
		ck_assert_uint_eq(sides[1].pool_woken, step != 1);
		ck_assert_uint_eq(sides[2].pool_woken, 1);
	}
	for (int i = 0; i < 3; i++)
		close_side(&sides[i]);
	broker_free(&broker);
}
END_TEST

START_TEST(as_many_servers_leave_as_are_needed_in_all_loops)
{
	struct broker *broker = broker_new(3, NULL);
	struct side sides[3];

	for (int i = 0; i < 3; i++)
		open_side(&sides[i], broker, "db", "alice");
	for (int i = 0; i < 3; i++)
		take(&sides[i], 9, 3, 9);
	ck_assert(!permit_begin_eviction(&sides[1].database));
	ck_assert_int_eq(take_needed(&sides[0], 9, 2), PERMIT_CAP_FULL + CAP_DATABASE);
	ck_assert(tally_is_short(sides[1].database.tally));
	ck_assert(permit_begin_eviction(&sides[1].database));
	ck_assert(permit_begin_eviction(&sides[2].database));
	ck_assert(!permit_begin_eviction(&sides[0].database));
	give(&sides[1]);
	permit_end_eviction(&sides[1].database);
	ck_assert(!tally_is_short(sides[2].database.tally));
	for (int i = 0; i < 3; i++) {
		turn(&sides[i]);
		sides[i].database_woken = 0;
	}
	/* It could not be closed: another loop may have one. */
	permit_end_eviction(&sides[2].database);
	for (int i = 0; i < 3; i++) {
		turn(&sides[i]);
		ck_assert_uint_eq(sides[i].database_woken, i < 2);
	}
	permit_leave_queue(&sides[0].claim);
	ck_assert(!tally_is_short(sides[1].database.tally));
	give(&sides[0]);
	give(&sides[2]);
	for (int i = 0; i < 3; i++)
		close_side(&sides[i]);
	broker_free(&broker);
}
END_TEST

static unsigned int needed_there(const struct side *side)
{
	return side->database.tally->needed_count;
}

/* Not once for each loop; and another of its loops counts what one does not need any more. */
START_TEST(a_pool_needs_no_more_than_it_may_have)
{
	struct broker *broker = broker_new(4, NULL);
	struct side sides[3], other;

	open_side(&other, broker, "db", "bob");
	for (int i = 0; i < 3; i++)
		open_side(&sides[i], broker, "db", "alice");
	permit_set_limit(&other.database, 3, 0);
	ck_assert_int_eq(take_of(&sides[0], 3), PERMIT_GRANTED);
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(take_of(&other, 9), PERMIT_GRANTED);
	for (int i = 0; i < 3; i++) {
		ck_assert_int_eq(take_needed(&sides[i], 3, 1), PERMIT_CAP_FULL + CAP_DATABASE);
		ck_assert_uint_eq(needed_there(&other), i ? 2 : 1);
		ck_assert_uint_eq(sides[i].claim.needs_more, i < 2);
		ck_assert_uint_eq(other.database.tally->blocked_count, 1);
	}
	permit_leave_queue(&sides[0].claim);
	ck_assert_uint_eq(needed_there(&other), 2);
	/* It has lost one: the loop that counts nothing yet looks for idle servers, too. */
	ck_assert_int_eq(take_needed(&sides[1], 3, 2), PERMIT_CAP_FULL + CAP_DATABASE);
	ck_assert_uint_eq(sides[2].claim.counted, 0);
	give(&sides[0]);
	ck_assert_uint_eq(needed_there(&other), 3);
	ck_assert_int_eq(take_needed(&sides[2], 3, 1), PERMIT_PASSED + CAP_DATABASE);
	ck_assert(sides[2].claim.needs_more);
	ck_assert_int_eq(take_of(&sides[1], 3), PERMIT_GRANTED);
	ck_assert_uint_eq(needed_there(&other), 1);
	permit_leave_queue(&sides[2].claim);
	ck_assert_uint_eq(needed_there(&other), 0);
	ck_assert_uint_eq(other.database.tally->blocked_count, 0);
	give(&sides[1]);
	give(&other);
	give(&other);
	for (int i = 0; i < 3; i++)
		close_side(&sides[i]);
	close_side(&other);
	broker_free(&broker);
}
END_TEST

START_TEST(the_limit_of_a_host_follows_what_postgresql_grants)
{
	struct broker *broker = broker_new(2, NULL);
	struct permit there[2] = { 0 };
	struct share one = { 0 }, other = { 0 };
	struct side sides[2];

	for (int i = 0; i < 2; i++)
		open_side(&sides[i], broker, "db", "alice");
	ck_assert(share_open(&one, &sides[0].member, TALLY_HOST, "10.0.0.1", ""));
	ck_assert(share_open(&other, &sides[1].member, TALLY_HOST, "10.0.0.1", ""));
	for (int i = 0; i < 2; i++)
		there[i].of[OF_HOST] = one.tally;
	permit_set_limit(&one, CONFIG_CAP_AUTO, 0);
	permit_set_limit(&other, CONFIG_CAP_AUTO, 0);
	ck_assert_uint_eq(one.tally->most, 4);
	permit_add(&there[0], &sides[0].member);
	permit_set_limit(&other, CONFIG_CAP_AUTO, 0); /* a RELOAD changes nothing */
	ck_assert_uint_eq(one.tally->most, 5);
	ck_assert(permit_note_granted(&one, 97));
	ck_assert(!permit_note_granted(&other, 97));
	permit_add(&there[1], &sides[1].member);
	ck_assert_uint_eq(one.tally->most, 88);
	permit_set_limit(&one, 7, 0);
	ck_assert(!permit_note_granted(&one, 2));
	ck_assert_uint_eq(one.tally->most, 7);
	permit_set_limit(&other, CONFIG_CAP_AUTO, 0);
	ck_assert_uint_eq(one.tally->most, 88);
	ck_assert(permit_note_granted(&one, 2));
	ck_assert_uint_eq(one.tally->most, 1);
	for (int i = 0; i < 2; i++)
		permit_give(&there[i], &sides[i].member);
	share_close(&one);
	share_close(&other);
	for (int i = 0; i < 2; i++)
		close_side(&sides[i]);
	broker_free(&broker);
}
END_TEST

/* Whatever it is for; and nothing but pools. */
START_TEST(pools_of_other_loops_are_woken)
{
	static const enum tally_kind kinds[] = { TALLY_POOL, TALLY_LOOKUP_POOL, TALLY_READS_POOL };
	struct broker *broker = broker_new(2, NULL);
	struct side one, other;

	open_side(&one, broker, "db", "alice");
	open_side(&other, broker, "db", "alice");
	for (unsigned int i = 0; i < COUNT_OF(kinds); i++) {
		ck_assert(share_open(&other.pool, &other.member, kinds[i], "db", "alice"));
		share_wake_pools(&one.member);
		turn(&other);
		ck_assert_uint_eq(other.pool_woken, i + 1);
	}
	turn(&one);
	ck_assert_uint_eq(one.pool_woken, 0);
	ck_assert_uint_eq(other.database_woken + other.role_woken, 0);
	close_side(&one);
	close_side(&other);
	broker_free(&broker);
}
END_TEST

START_TEST(a_welcome_is_known_in_all_loops_and_later_ones)
{
	struct broker *broker = broker_new(3, NULL);
	struct buf welcome = { 0 }, baseline = { 0 };
	struct side one, other, late;

	open_side(&one, broker, "db", "alice");
	open_side(&other, broker, "db", "alice");
	ck_assert(!share_get_welcome(&other.pool, &welcome, &baseline));
	share_put_welcome(&one.pool, bytes_of("w", 1), bytes_of("base", 4));
	turn(&other);
	ck_assert_uint_eq(other.pool_woken, 1);
	open_side(&late, broker, "db", "alice");
	ck_assert(share_get_welcome(&late.pool, &welcome, &baseline));
	ck_assert_str_eq(buf_text(&welcome), "w");
	ck_assert_str_eq(buf_text(&baseline), "base");
	share_forget_welcome(&other.pool);
	ck_assert(!share_get_welcome(&late.pool, &welcome, &baseline));
	buf_free(&welcome);
	buf_free(&baseline);
	close_side(&one);
	close_side(&other);
	close_side(&late);
	broker_free(&broker);
}
END_TEST

START_TEST(a_reading_is_shared)
{
	struct broker *broker = broker_new(2, NULL);
	struct catalog_reading *question = catalog_ask(true, 0, 0);
	struct catalog_reading *reading;
	struct side one, other;

	open_side(&one, broker, "app", "alice");
	open_side(&other, broker, "app", "alice");
	ck_assert_ptr_null(share_get_reading(&other.database));
	share_put_reading(&one.database, question);
	ck_assert_uint_eq(question->id, 1);
	reading = share_get_reading(&other.database);
	ck_assert_ptr_eq(reading, question);
	catalog_reading_release(&question);
	ck_assert_uint_eq(reading->id, 1); /* the tally and we have it */
	catalog_reading_release(&reading);
	turn(&other);
	close_side(&other);
	close_side(&one);
	broker_free(&broker);
}
END_TEST

static struct definition defines(const char *text)
{
	struct definition definition = { .state = DEFINITION_RELATION, .may_commit = true };

	buf_add_text(&definition.texts, text);
	buf_add_byte(&definition.texts, 0);
	return definition;
}

/* What has ended while PostgreSQL was being asked was judged by the reading before. */
START_TEST(definitions_are_judged_by_the_next_reading)
{
	static const struct {
		bool is_asked, has_ended;
		unsigned int state, ddl_count;
		uint64_t digest;
		unsigned int news;
	} cases[] = {
		{ true, true, CATALOG_QUIET, 0, 1, 0 },
		{ true, true, CATALOG_QUIET, 0, 2, 1 }, /* it says something else */
		{ true, true, CATALOG_UNREAD, 0, 1, 1 },
		{ false, true, CATALOG_QUIET, 0, 2, 0 },
		{ true, false, CATALOG_QUIET, 0, 2, 0 },
		{ true, true, CATALOG_QUIET, 7, 2, 0 }, /* it is old: the next one */
	};

	for (size_t i = 0; i < COUNT_OF(cases); i++) {
		struct broker *broker = broker_new(2, NULL);
		struct catalog_reading *first = catalog_ask(true, 0, 0);
		struct catalog_reading *next = catalog_ask(true, cases[i].ddl_count, 0);
		struct definition definition = defines("CREATE TABLE x ()");
		struct catalog_news *news;
		struct side one;

		open_side(&one, broker, "app", "alice");
		news = &one.database.tally->catalog;
		first->digest = 1;
		share_put_reading(&one.database, first);
		atomic_store(&news->asked_count, cases[i].is_asked);
		for (int over = 0; over <= cases[i].has_ended; over++)
			ck_assert(share_judge_definition(&one.database, &definition, over));
		ck_assert_uint_eq(news->under_way, !cases[i].has_ended);
		ck_assert_uint_eq(news->uncertain_count, 0);
		next->state = cases[i].state;
		next->digest = cases[i].digest;
		share_put_reading(&one.database, next);
		ck_assert_uint_eq(atomic_load(&news->ddl_count), cases[i].news);
		/* until its loop has judged it by the new one */
		ck_assert_uint_eq(news->uncertain_count,
		                  !cases[i].has_ended && next->id != first->id);
		share_judge_definition(&one.database, &definition, true);
		ck_assert_uint_eq(news->under_way + news->uncertain_count, 0);
		atomic_store(&news->asked_count, 0);
		catalog_reading_release(&first);
		catalog_reading_release(&next);
		buf_free(&definition.texts);
		close_side(&one);
		broker_free(&broker);
	}
}
END_TEST

/* Whether a reading is relied on while a definition is under way, and when it has ended. */
START_TEST(definitions_are_counted)
{
	static const struct {
		const char *says;
		bool may_commit, is_unclear, is_anything;
		unsigned int state, under_way, uncertain, news;
	} cases[] = {
		{ "known", false, false, false, CATALOG_QUIET, 1, 0, 0 },
		{ "known, and about to be committed", true, false, false, CATALOG_QUIET, 1, 0, 0 },
		{ "more may be behind it", true, true, false, CATALOG_QUIET, 1, 1, 0 },
		{ "not known", true, false, false, CATALOG_UNREAD, 1, 1, 1 },
		{ "not known, and idle", false, false, false, CATALOG_UNREAD, 0, 0, 1 },
		{ "anything", true, false, true, CATALOG_QUIET, 1, 1, 1 },
		{ "anything, and idle", false, false, true, CATALOG_QUIET, 0, 0, 1 },
	};

	for (size_t i = 0; i < COUNT_OF(cases); i++) {
		struct broker *broker = broker_new(2, NULL);
		struct catalog_reading *reading = catalog_ask(true, 0, 0);
		struct definition definition = defines("CREATE TABLE x ()");
		bool is_anything = cases[i].is_anything;
		struct catalog_news *news;
		struct side one;
		unsigned int version;

		open_side(&one, broker, "app", "alice");
		news = &one.database.tally->catalog;
		reading->state = cases[i].state;
		share_put_reading(&one.database, reading);
		version = news->version;
		if (is_anything)
			definition.state = DEFINITION_ANYTHING;
		definition.may_commit = cases[i].may_commit;
		definition.is_unclear = cases[i].is_unclear;
		for (int n = 0; n < 2; n++) /* it is counted once */
			share_judge_definition(&one.database, &definition, false);
		ck_assert_uint_eq(news->under_way, cases[i].under_way);
		ck_assert_msg(news->uncertain_count == cases[i].uncertain, "%s", cases[i].says);
		ck_assert_msg(news->version - version == cases[i].uncertain, "%s", cases[i].says);
		for (int n = 0; n < 1 + is_anything; n++) /* and each end of anything is news */
			share_judge_definition(&one.database, &definition, true);
		ck_assert_uint_eq(news->under_way + news->uncertain_count, 0);
		ck_assert_msg(news->ddl_count == cases[i].news + is_anything, "%s", cases[i].says);
		catalog_reading_release(&reading);
		buf_free(&definition.texts);
		close_side(&one);
		broker_free(&broker);
	}
}
END_TEST

START_TEST(a_share_moves_to_another_tally)
{
	struct broker *broker = broker_new(2, NULL);
	struct side one, left, other;
	struct tally *tally;

	open_side(&one, broker, "app", "alice");
	open_side(&left, broker, "app", "alice");
	open_side(&other, broker, "other", "alice");
	tally = other.database.tally;
	share_vacate(&left.database); /* which it does not hear of any more */
	ck_assert(share_open(&one.database, &one.member, TALLY_DATABASE, "other", ""));
	ck_assert_ptr_eq(one.database.tally, tally);
	ck_assert(share_open(&one.database, &one.member, TALLY_DATABASE, "other", ""));
	ck_assert_uint_eq(tally->owner_count, 2);
	turn(&one);
	ck_assert_uint_eq(one.database_woken, 0);
	close_side(&other);
	close_side(&left);
	close_side(&one);
	broker_free(&broker);
}
END_TEST

START_TEST(news_are_heard_once_by_each_other_loop)
{
	struct broker *broker = broker_new(2, NULL);
	struct credentials shown = { .kind = SECRET_PLAIN, .text = "secret" };
	const struct credentials *heard;
	struct side one, other, late;

	open_side(&one, broker, "app", "alice");
	open_side(&other, broker, "app", "alice");
	ck_assert(!share_has_news(&other.pool));
	share_put_shown(&one.pool, &shown);
	turn(&other);
	ck_assert_uint_eq(other.pool_woken, 1);
	ck_assert(share_has_news(&other.pool));
	ck_assert(share_get_shown(&other.pool, &heard));
	ck_assert(credentials_equal(heard, &shown));
	credentials_release(&heard);
	ck_assert(!share_get_shown(&other.pool, &heard));
	ck_assert(!share_has_news(&other.pool));
	ck_assert(!share_get_shown(&one.pool, &heard)); /* its own */
	open_side(&late, broker, "app", "alice");       /* all is news to it */
	ck_assert(share_has_news(&late.pool));
	turn(&one);
	close_side(&late);
	turn(&other);
	close_side(&other);
	close_side(&one);
	broker_free(&broker);
}
END_TEST

START_TEST(clients_that_wait_are_summed)
{
	struct broker *broker = broker_new(2, NULL);
	struct side one, other;

	open_side(&one, broker, "app", "alice");
	open_side(&other, broker, "app", "alice");
	share_count_waiting(&one.database, 1);
	share_count_waiting(&one.database, 1);
	share_count_waiting(&other.database, 1);
	ck_assert_uint_eq(share_waiting(&other.database), 3);
	share_count_waiting(&one.database, -1);
	ck_assert_uint_eq(share_waiting(&one.database), 2);
	ck_assert_ptr_eq(&one.pool.tally->hosts, &other.pool.tally->hosts);
	ck_assert_ptr_eq(&one.database.tally->outages, &other.database.tally->outages);
	close_side(&other);
	close_side(&one);
	broker_free(&broker);
}
END_TEST

START_TEST(pins_and_clients_are_counted_together)
{
	struct broker *broker = broker_new(2, NULL);
	struct side one, other;

	open_side(&one, broker, "db", "alice");
	open_side(&other, broker, "db", "alice");
	ck_assert(count_below(&one.pool.tally->pinned_count, 2));
	ck_assert(count_below(&other.pool.tally->pinned_count, 2));
	ck_assert(!count_below(&one.pool.tally->pinned_count, 2));
	ck_assert_uint_eq(other.pool.tally->pinned_count--, 2);
	ck_assert(count_below(&one.pool.tally->pinned_count, 2));
	one.database.tally->client_count++;
	ck_assert_uint_eq(other.database.tally->client_count, 1);
	close_side(&one);
	close_side(&other);
	broker_free(&broker);
}
END_TEST

START_TEST(ids_are_never_given_twice)
{
	struct broker *broker = broker_new(1, NULL);

	ck_assert_uint_eq(broker_next_id(broker), 1);
	broker_skip_ids(broker, 10);
	broker_skip_ids(broker, 5);
	ck_assert_uint_eq(broker_next_id(broker), 11);
	broker_free(&broker);
}
END_TEST

/* ---- several threads ---- */

#define THREADS 4
#define ROUNDS 20000
#define LIMIT 5

struct crowd {
	struct side side;
	atomic_uint *open; /* servers that exist now, counted beside the broker */
	unsigned int taken;
	bool is_over_limit;
};

static void *take_and_give(void *arg)
{
	struct crowd *crowd = arg;

	for (int i = 0; i < ROUNDS; i++) {
		if (take_of(&crowd->side, LIMIT) != PERMIT_GRANTED) {
			share_want(&crowd->side.pool, i, 1);
			continue;
		}
		crowd->taken++;
		if (atomic_fetch_add(crowd->open, 1) >= LIMIT)
			crowd->is_over_limit = true;
		atomic_fetch_sub(crowd->open, 1);
		give(&crowd->side);
		share_want(&crowd->side.pool, 0, 0);
	}
	return NULL;
}

START_TEST(threads_never_have_more_than_the_limit)
{
	struct broker *broker = broker_new(THREADS, NULL);
	struct crowd crowds[THREADS];
	pthread_t threads[THREADS];
	atomic_uint open = 0;

	for (int i = 0; i < THREADS; i++) {
		open_side(&crowds[i].side, broker, "db", "alice");
		crowds[i].open = &open;
		crowds[i].taken = 0;
		crowds[i].is_over_limit = false;
	}
	for (int i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, take_and_give, &crowds[i]), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < THREADS; i++) {
		ck_assert(!crowds[i].is_over_limit);
		ck_assert_uint_gt(crowds[i].taken, 0);
		turn(&crowds[i].side);
	}
	ck_assert_uint_eq(share_servers(&crowds[0].side.pool), 0);
	for (int i = 0; i < THREADS; i++)
		close_side(&crowds[i].side);
	broker_free(&broker);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("pool/broker");
	TCase *cases = tcase_create("broker");

	tcase_set_timeout(cases, 60);
	tcase_add_test(cases, each_limit_holds_for_both_loops_together);
	tcase_add_test(cases, pools_of_one_database_share_its_limit);
	tcase_add_test(cases, the_pool_that_has_waited_longest_is_woken);
	tcase_add_test(cases, a_queue_follows_what_is_guaranteed);
	tcase_add_test(cases, what_is_given_up_for_a_pool_is_not_one_of_its_own);
	tcase_add_loop_test(cases, no_claim_sleeps_while_its_cap_has_space, 0, 4);
	tcase_add_test(cases, a_want_is_promised_as_many_servers_as_it_wants);
	tcase_add_test(cases, a_want_that_changes_wakes_nobody);
	tcase_add_test(cases, servers_are_levelled_while_clients_wait_in_both_loops);
	tcase_add_test(cases, a_want_is_new_once);
	tcase_add_test(cases, a_loop_alone_has_no_wants);
	tcase_add_test(cases, a_promise_that_is_not_kept_is_wanted_again);
	tcase_add_test(cases, a_loop_without_servers_is_served_earlier);
	tcase_add_test(cases, the_end_of_a_login_wakes_all_or_those_that_wait);
	tcase_add_test(cases, as_many_servers_leave_as_are_needed_in_all_loops);
	tcase_add_test(cases, a_pool_needs_no_more_than_it_may_have);
	tcase_add_test(cases, the_limit_of_a_host_follows_what_postgresql_grants);
	tcase_add_test(cases, pools_of_other_loops_are_woken);
	tcase_add_test(cases, a_welcome_is_known_in_all_loops_and_later_ones);
	tcase_add_test(cases, news_are_heard_once_by_each_other_loop);
	tcase_add_test(cases, a_reading_is_shared);
	tcase_add_test(cases, definitions_are_judged_by_the_next_reading);
	tcase_add_test(cases, definitions_are_counted);
	tcase_add_test(cases, a_share_moves_to_another_tally);
	tcase_add_test(cases, clients_that_wait_are_summed);
	tcase_add_test(cases, pins_and_clients_are_counted_together);
	tcase_add_test(cases, ids_are_never_given_twice);
	tcase_add_test(cases, threads_never_have_more_than_the_limit);
	suite_add_tcase(suite, cases);
	return unit_run(suite);
}
