/* SPDX-License-Identifier: ISC */
/*
 * net/outbox.c over socket pairs, each test with io_uring and without; both are the
 * same if the system has none.
 */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pgweir/net/stream.h"

#include "../../../src/net/stream_priv.h"
#include "../unit.h"

#define ENDS 100 /* more than one batch */

/* A stream, its peer, and counts of its callbacks. */
struct end {
	struct stream stream;
	int far;
	unsigned int drained, gone;
};

/* A loop with an outbox, and an action for its next turn. */
struct stage {
	struct loop *loop;
	struct stream_pool pool;
	struct outbox *outbox;
	struct end ends[ENDS];
	struct task act;
	void (*in_turn)(struct stage *stage);
};

static void on_input(struct stream *stream)
{
	struct bytes in;

	stream_read(stream, &in);
}

static void on_flushed(struct stream *stream) { ((struct end *)stream)->drained++; }

static void on_gone(struct stream *stream)
{
	((struct end *)stream)->gone++;
	stream_close(stream);
}

static const struct stream_ops ops = { on_input, on_flushed, on_gone, NULL };

static void run_act(struct task *task)
{
	struct stage *stage = (struct stage *)((char *)task - offsetof(struct stage, act));

	if (stage->in_turn)
		stage->in_turn(stage);
	loop_stop(stage->loop);
}

/* One turn with this action. */
static void turn(struct stage *stage, void (*in_turn)(struct stage *stage))
{
	stage->in_turn = in_turn;
	loop_defer(stage->loop, &stage->act);
	loop_run(stage->loop);
}

/* A kernel without io_uring is a reason to log. */
static struct stage *make(int with_ring)
{
	static const struct logger logger = { NULL, NULL };
	struct stage *stage = calloc(1, sizeof(*stage));
	struct err err;
	int pair[2];

	ck_assert_ptr_nonnull(stage);
	stage->act.run = run_act;
	stage->loop = loop_new(&err);
	ck_assert_ptr_nonnull(stage->loop);
	stream_pool_init(&stage->pool, 4096);
	stage->outbox = outbox_new(stage->loop, &logger);
	ck_assert_ptr_nonnull(stage->outbox);
	stage->pool.outbox = stage->outbox;
	outbox_use_ring(stage->outbox, with_ring);
	for (size_t i = 0; i < ENDS; i++) {
		ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
		stream_open(&stage->ends[i].stream, stage->loop, &stage->pool, pair[0], &ops);
		stream_defer(&stage->ends[i].stream);
		stage->ends[i].far = pair[1];
	}
	return stage;
}

static void done(struct stage *stage)
{
	for (size_t i = 0; i < ENDS; i++) {
		stream_close(&stage->ends[i].stream);
		if (stage->ends[i].far >= 0)
			close(stage->ends[i].far);
	}
	ck_assert_uint_eq(stage->pool.buffers.used_count, 0);
	outbox_free(&stage->outbox);
	ck_assert_ptr_null(stage->outbox);
	outbox_free(&stage->outbox);
	stream_pool_done(&stage->pool);
	loop_free(&stage->loop);
	free(stage);
}

static void say(struct stage *stage, size_t end, const char *text)
{
	ck_assert(stream_send(&stage->ends[end].stream, bytes_of(text, strlen(text))));
}

/* The peer has received exactly this; "" is nothing yet. */
static void check_got(struct stage *stage, size_t end, const char *text)
{
	char got[256];
	ssize_t count = recv(stage->ends[end].far, got, sizeof(got), 0);

	if (count < 0)
		ck_assert_int_eq(errno, EAGAIN);
	ck_assert_int_eq(count < 0 ? 0 : count, (ssize_t)strlen(text));
	ck_assert_mem_eq(got, text, strlen(text));
}

/* Fills the socket so that little space is left. Returns the number of bytes in it. */
static size_t fill(struct stage *stage, size_t end)
{
	static char much[4096];
	size_t count = 0;
	ssize_t sent;

	while ((sent = send(stage->ends[end].stream.watch.fd, much, sizeof(much), 0)) > 0)
		count += (size_t)sent;
	ck_assert_int_eq(errno, EAGAIN);
	return count;
}

static void empty(struct stage *stage, size_t end, size_t count)
{
	char some[4096];

	while (count) {
		size_t most = count < sizeof(some) ? count : sizeof(some);
		ssize_t got = recv(stage->ends[end].far, some, most, 0);

		ck_assert_int_gt(got, 0);
		count -= (size_t)got;
	}
}

/* ---- the end of the turn ---- */

static void two_speak(struct stage *stage)
{
	say(stage, 0, "to the first");
	say(stage, 1, "to the second");
	check_got(stage, 0, "");
	check_got(stage, 1, "");
}

START_TEST(outbox_sends_at_the_end_of_the_turn)
{
	struct stage *stage = make(_i);

	turn(stage, two_speak);
	check_got(stage, 0, "to the first");
	check_got(stage, 1, "to the second");
	turn(stage, two_speak);
	check_got(stage, 0, "to the first");
	check_got(stage, 1, "to the second");
	done(stage);
}
END_TEST

static void pieces_follow(struct stage *stage)
{
	struct iovec pieces[] = { { "b", 1 }, { "cd", 2 } };

	say(stage, 0, "a");
	ck_assert(stream_sendv(&stage->ends[0].stream, pieces, 2));
	say(stage, 0, "e");
	check_got(stage, 0, "");
}

START_TEST(outbox_adds_to_what_a_stream_has_there)
{
	struct stage *stage = make(_i);

	turn(stage, pieces_follow);
	check_got(stage, 0, "abcde");
	done(stage);
}
END_TEST

static void two_take_turns(struct stage *stage)
{
	say(stage, 0, "a");
	say(stage, 1, "1");
	say(stage, 0, "b");
	say(stage, 1, "2");
	say(stage, 0, "c");
}

START_TEST(outbox_keeps_the_order_of_each_stream)
{
	struct stage *stage = make(_i);

	turn(stage, two_take_turns);
	check_got(stage, 0, "abc");
	check_got(stage, 1, "12");
	done(stage);
}
END_TEST

static void all_speak(struct stage *stage)
{
	char text[32];

	for (size_t i = 0; i < ENDS; i++) {
		snprintf(text, sizeof(text), "to number %zu", i);
		say(stage, i, text);
	}
}

START_TEST(outbox_takes_more_than_go_out_together)
{
	struct stage *stage = make(_i);
	char text[32];

	turn(stage, all_speak);
	for (size_t i = 0; i < ENDS; i++) {
		snprintf(text, sizeof(text), "to number %zu", i);
		check_got(stage, i, text);
	}
	done(stage);
}
END_TEST

static void all_speak_at_length(struct stage *stage)
{
	char text[2000];

	memset(text, 'x', sizeof(text));
	for (size_t i = 0; i < ENDS; i++)
		ck_assert(stream_send(&stage->ends[i].stream, bytes_of(text, sizeof(text))));
}

START_TEST(outbox_takes_more_bytes_than_it_has_room_for)
{
	struct stage *stage = make(_i);

	turn(stage, all_speak_at_length);
	for (size_t i = 0; i < ENDS; i++) {
		empty(stage, i, 2000);
		check_got(stage, i, "");
	}
	done(stage);
}
END_TEST

/* ---- flush before the end ---- */

static void one_has_much_to_say(struct stage *stage)
{
	static char much[8192];

	say(stage, 0, "a");
	ck_assert(stream_send(&stage->ends[0].stream, bytes_of(much, sizeof(much))));
	check_got(stage, 1, "");
	say(stage, 0, "b");
}

START_TEST(outbox_is_passed_by_what_is_long_and_the_order_stays)
{
	struct stage *stage = make(_i);
	char first;

	turn(stage, one_has_much_to_say);
	ck_assert_int_eq(recv(stage->ends[0].far, &first, 1, 0), 1);
	ck_assert_int_eq(first, 'a');
	empty(stage, 0, 8192);
	check_got(stage, 0, "b");
	done(stage);
}
END_TEST

static void one_is_pushed(struct stage *stage)
{
	say(stage, 0, "a");
	say(stage, 1, "1");
	stream_push(&stage->ends[0].stream);
	check_got(stage, 0, "a");
	check_got(stage, 1, "");
	stream_push(&stage->ends[0].stream);
	say(stage, 0, "b");
}

START_TEST(outbox_sends_what_is_pushed_and_the_rest_later)
{
	struct stage *stage = make(_i);

	turn(stage, one_is_pushed);
	check_got(stage, 0, "b");
	check_got(stage, 1, "1");
	done(stage);
}
END_TEST

static void some_end(struct stage *stage)
{
	say(stage, 0, "last words");
	say(stage, 1, "words");
	say(stage, 2, "more words");
	stream_close(&stage->ends[0].stream);
	stream_finish(&stage->ends[1].stream);
	check_got(stage, 0, "last words");
	check_got(stage, 1, "words");
}

START_TEST(outbox_sends_before_the_end_of_a_stream)
{
	struct stage *stage = make(_i);
	char none;

	turn(stage, some_end);
	ck_assert_int_eq(recv(stage->ends[0].far, &none, 1, 0), 0);
	ck_assert_int_eq(recv(stage->ends[1].far, &none, 1, 0), 0);
	check_got(stage, 2, "more words");
	done(stage);
}
END_TEST

static void three_speak(struct stage *stage)
{
	say(stage, 0, "to the first");
	say(stage, 1, "to the second");
	say(stage, 2, "to the third");
	outbox_send(stage->outbox);
	check_got(stage, 0, "to the first");
	check_got(stage, 2, "to the third");
}

START_TEST(outbox_sends_all_when_told_to)
{
	struct stage *stage = make(_i);

	turn(stage, three_speak);
	check_got(stage, 1, "to the second");
	done(stage);
}
END_TEST

/* ---- full sockets ---- */

START_TEST(outbox_leaves_unsent_what_a_socket_does_not_take)
{
	struct stage *stage = make(_i);
	size_t before = fill(stage, 0);

	turn(stage, two_take_turns);
	check_got(stage, 1, "12");
	ck_assert_uint_eq(stream_unsent(&stage->ends[0].stream), 3);
	ck_assert_mem_eq(stream_unsent_bytes(&stage->ends[0].stream).at, "abc", 3);
	say(stage, 0, "d");
	empty(stage, 0, before);
	turn(stage, NULL);
	check_got(stage, 0, "abcd");
	ck_assert_uint_eq(stage->ends[0].drained, 1);
	ck_assert_uint_eq(stage->ends[0].gone, 0);
	done(stage);
}
END_TEST

START_TEST(outbox_tells_the_owner_that_a_connection_broke)
{
	struct stage *stage = make(_i);

	close(stage->ends[0].far);
	stage->ends[0].far = -1;
	turn(stage, two_take_turns);
	ck_assert_uint_eq(stage->ends[0].gone, 0); /* no callback while they are sent */
	turn(stage, NULL);
	ck_assert_uint_eq(stage->ends[0].gone, 1);
	check_got(stage, 1, "12");
	done(stage);
}
END_TEST

/* ---- another thread ---- */

/* Number of io_uring instances of this process. */
static int count_rings(void)
{
	DIR *dir = opendir("/proc/self/fd");
	const struct dirent *entry;
	char target[64] = { 0 };
	int count = 0;

	ck_assert_ptr_nonnull(dir);
	while ((entry = readdir(dir)))
		count += readlinkat(dirfd(dir), entry->d_name, target, sizeof(target) - 1) > 0 &&
		         strstr(target, "[io_uring]") != NULL;
	closedir(dir);
	return count;
}

static void say_to_all(struct stage *stage)
{
	for (size_t i = 0; i < ENDS; i++)
		say(stage, i, "x");
}

static void *hold_and_say(void *arg)
{
	say_to_all(arg);
	return NULL;
}

/* The kernel refuses a thread that did not create the ring, and the ring would be given up. */
START_TEST(outbox_of_a_held_loop_keeps_its_ring)
{
	struct stage *stage = make(_i);
	pthread_t thread;
	int rings;

	turn(stage, say_to_all);
	rings = count_rings();
	ck_assert_int_eq(pthread_create(&thread, NULL, hold_and_say, stage), 0);
	pthread_join(thread, NULL);
	turn(stage, say_to_all);
	ck_assert_int_eq(count_rings(), rings);
	for (size_t i = 0; i < ENDS; i++)
		check_got(stage, i, "xxx");
	done(stage);
}
END_TEST

START_TEST(outbox_without_a_turn_makes_no_ring)
{
	struct stage *stage = make(_i);

	say_to_all(stage);
	outbox_send(stage->outbox);
	ck_assert_int_eq(count_rings(), 0);
	for (size_t i = 0; i < ENDS; i++)
		check_got(stage, i, "x");
	done(stage);
}
END_TEST

/* ---- the ring ---- */

START_TEST(ring_says_what_became_of_each)
{
	struct ring *ring = ring_new(4);
	struct ring_send sends[3];
	char got[8];
	int pair[2];

	if (!ring) {
		ck_assert(errno == ENOSYS || errno == EPERM || errno == ENOMEM);
		return;
	}
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
	for (int round = 0; round < 5; round++) {
		sends[0] = (struct ring_send){ .fd = -1, .at = "no", .count = 2 };
		sends[1] = (struct ring_send){ .fd = pair[0], .at = "yes", .count = 3 };
		sends[2] = (struct ring_send){ .fd = pair[0], .at = "!", .count = 1 };
		ck_assert_uint_eq(ring_send(ring, sends, 3), 3);
		ck_assert_int_eq(sends[0].done, -EBADF);
		ck_assert_int_eq(sends[1].done, 3);
		ck_assert_int_eq(sends[2].done, 1);
		ck_assert_int_eq(recv(pair[1], got, sizeof(got), 0), 4);
		ck_assert_mem_eq(got, "yes!", 4);
	}
	close(pair[1]);
	sends[0] = (struct ring_send){ .fd = pair[0], .at = "gone", .count = 4 };
	ck_assert_uint_eq(ring_send(ring, sends, 1), 1);
	ck_assert_int_eq(sends[0].done, -EPIPE);
	close(pair[0]);
	ring_free(&ring);
	ring_free(&ring);
}
END_TEST

/* It does not wait, and there is no later completion. */
START_TEST(ring_does_not_wait_for_a_full_socket)
{
	struct ring *ring = ring_new(2);
	struct stage *stage = make(0);
	struct ring_send sends[2];
	size_t before = fill(stage, 0);

	if (ring) {
		sends[0] = (struct ring_send){ .fd = stage->ends[0].stream.watch.fd,
			                       .at = "full",
			                       .count = 4 };
		sends[1] = (struct ring_send){ .fd = stage->ends[1].stream.watch.fd,
			                       .at = "not",
			                       .count = 3 };
		ck_assert_uint_eq(ring_send(ring, sends, 2), 2);
		ck_assert_int_eq(sends[0].done, -EAGAIN);
		ck_assert_int_eq(sends[1].done, 3);
		check_got(stage, 1, "not");
	}
	empty(stage, 0, before);
	check_got(stage, 0, "");
	ring_free(&ring);
	done(stage);
}
END_TEST

static void add_both(TCase *tcase)
{
	tcase_add_loop_test(tcase, outbox_sends_at_the_end_of_the_turn, 0, 2);
	tcase_add_loop_test(tcase, outbox_adds_to_what_a_stream_has_there, 0, 2);
	tcase_add_loop_test(tcase, outbox_keeps_the_order_of_each_stream, 0, 2);
	tcase_add_loop_test(tcase, outbox_takes_more_than_go_out_together, 0, 2);
	tcase_add_loop_test(tcase, outbox_takes_more_bytes_than_it_has_room_for, 0, 2);
	tcase_add_loop_test(tcase, outbox_is_passed_by_what_is_long_and_the_order_stays, 0, 2);
	tcase_add_loop_test(tcase, outbox_sends_what_is_pushed_and_the_rest_later, 0, 2);
	tcase_add_loop_test(tcase, outbox_sends_before_the_end_of_a_stream, 0, 2);
	tcase_add_loop_test(tcase, outbox_sends_all_when_told_to, 0, 2);
	tcase_add_loop_test(tcase, outbox_leaves_unsent_what_a_socket_does_not_take, 0, 2);
	tcase_add_loop_test(tcase, outbox_tells_the_owner_that_a_connection_broke, 0, 2);
}

int main(void)
{
	Suite *suite = suite_create("outbox");
	TCase *tcase = tcase_create("outbox");

	add_both(tcase);
	tcase_add_loop_test(tcase, outbox_of_a_held_loop_keeps_its_ring, 0, 2);
	tcase_add_loop_test(tcase, outbox_without_a_turn_makes_no_ring, 0, 2);
	tcase_add_test(tcase, ring_says_what_became_of_each);
	tcase_add_test(tcase, ring_does_not_wait_for_a_full_socket);
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
