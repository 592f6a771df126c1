/* SPDX-License-Identifier: ISC */
/*
 * net/stream_parcel.c: the end of a connection that its stream has left. The test is the peer. That
 * close_notify is the last of an encrypted one: test/e2e/test_takeover.py.
 */
#include "pgweir/net/stream.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../unit.h"

struct stage {
	struct loop *loop;
	struct stream_pool pool;
	struct stream stream;
	struct farewell farewell;
	struct task stop;
	int far;
};

static void on_any(struct stream *stream) { (void)stream; }
static const struct stream_ops ops = { on_any, on_any, on_any, NULL };

static void stop(struct task *task)
{
	loop_stop(((struct stage *)((char *)task - offsetof(struct stage, stop)))->loop);
}

/* The first turn lets go of the descriptor, the second one closes it. */
static void turn_twice(struct stage *stage)
{
	for (int i = 0; i < 2; i++) {
		loop_defer(stage->loop, &stage->stop);
		loop_run(stage->loop);
	}
}

static void make(struct stage *stage)
{
	struct err err;
	int pair[2];

	*stage = (struct stage){ .stop.run = stop };
	stage->loop = loop_new(&err);
	ck_assert_ptr_nonnull(stage->loop);
	stream_pool_init(&stage->pool, 4096);
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
	stream_open(&stage->stream, stage->loop, &stage->pool, pair[0], &ops);
	stream_want(&stage->stream, WANT_INPUT);
	stage->far = pair[1];
}

static void drop(struct stage *stage)
{
	stream_close(&stage->stream);
	ck_assert_uint_eq(stage->pool.buffers.used_count, 0);
	stream_pool_done(&stage->pool);
	loop_free(&stage->loop);
	close(stage->far);
}

static bool is_closed(int far)
{
	struct pollfd pollfd = { .fd = far, .events = POLLRDHUP };

	return poll(&pollfd, 1, 0) > 0 && (pollfd.revents & (POLLRDHUP | POLLHUP));
}

START_TEST(the_peer_sees_the_end_of_the_farewell)
{
	struct stage stage;

	make(&stage);
	ck_assert(farewell_begin(&stage.stream, &stage.farewell));
	ck_assert(!stream_is_open(&stage.stream));
	turn_twice(&stage);
	ck_assert(!is_closed(stage.far));
	farewell_end(&stage.farewell);
	ck_assert_int_eq(stage.farewell.fd, -1);
	ck_assert(is_closed(stage.far));
	farewell_end(&stage.farewell); /* of none */
	drop(&stage);
}
END_TEST

START_TEST(its_last_bytes_are_sent_once)
{
	struct stage stage;
	char got[8];

	make(&stage);
	ck_assert(farewell_begin(&stage.stream, &stage.farewell));
	turn_twice(&stage);
	buf_add(&stage.farewell.last, "bye", 3);
	farewell_end(&stage.farewell);
	ck_assert_int_eq(recv(stage.far, got, sizeof(got), 0), 3);
	ck_assert_int_eq(memcmp(got, "bye", 3), 0);
	ck_assert_int_eq(recv(stage.far, got, sizeof(got), 0), 0);
	drop(&stage);
}
END_TEST

START_TEST(whoever_leaves_says_nothing)
{
	struct stage stage;
	struct farewell other = { .fd = -1 };
	char got[8];

	make(&stage);
	ck_assert(farewell_begin(&stage.stream, &stage.farewell));
	turn_twice(&stage);
	buf_add(&stage.farewell.last, "bye", 3);
	other.fd = fcntl(stage.farewell.fd, F_DUPFD_CLOEXEC, 0);
	farewell_leave(&stage.farewell);
	ck_assert(!is_closed(stage.far));
	farewell_end(&other);
	ck_assert_int_eq(recv(stage.far, got, sizeof(got), 0), 0);
	drop(&stage);
}
END_TEST

/* As the connection is broken already. */
START_TEST(a_stream_that_cannot_leave_its_loop_is_unchanged)
{
	struct stage stage;

	make(&stage);
	stage.stream.error = true;
	ck_assert(!farewell_begin(&stage.stream, &stage.farewell));
	ck_assert_int_eq(stage.farewell.fd, -1);
	ck_assert(stream_is_open(&stage.stream));
	drop(&stage);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("net/farewell");
	TCase *tests = tcase_create("farewell");

	suite_add_tcase(suite, tests);
	tcase_add_test(tests, the_peer_sees_the_end_of_the_farewell);
	tcase_add_test(tests, its_last_bytes_are_sent_once);
	tcase_add_test(tests, whoever_leaves_says_nothing);
	tcase_add_test(tests, a_stream_that_cannot_leave_its_loop_is_unchanged);
	return unit_run(suite);
}
