/* SPDX-License-Identifier: ISC */
/*
 * net/socket_options.c over socket pairs: when the wake-up threshold is raised, and when it is
 * reset.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../../../src/net/stream_priv.h"
#include "../unit.h"

#define ENDS (BULK_SLOTS + 2)
#define PIECE ((size_t)32 * 1024)

struct end {
	struct stream stream;
	int far;
};

struct stage {
	struct loop *loop;
	struct stream_pool pool;
	struct end ends[ENDS];
	struct timer limit;
};

static void on_input(struct stream *stream) { (void)stream; }

static const struct stream_ops ops = { on_input, on_input, on_input, NULL };

static struct stage *make(void)
{
	struct stage *stage = calloc(1, sizeof(*stage));
	struct err err;
	int pair[2];

	ck_assert_ptr_nonnull(stage);
	stage->loop = loop_new(&err);
	ck_assert_ptr_nonnull(stage->loop);
	stream_pool_init(&stage->pool, 4096);
	for (size_t i = 0; i < ENDS; i++) {
		ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
		stream_open(&stage->ends[i].stream, stage->loop, &stage->pool, pair[0], &ops);
		stage->ends[i].far = pair[1];
	}
	return stage;
}

static void done(struct stage *stage)
{
	for (size_t i = 0; i < ENDS; i++) {
		stream_close(&stage->ends[i].stream);
		close(stage->ends[i].far);
	}
	stream_pool_done(&stage->pool);
	loop_free(&stage->loop);
	free(stage);
}

/* This much data arrives, and is read. */
static void flow(struct end *end, size_t count)
{
	static char piece[PIECE];
	struct bytes in;

	for (; count; count -= PIECE) {
		ck_assert_int_eq(send(end->far, piece, PIECE, MSG_NOSIGNAL), (ssize_t)PIECE);
		ck_assert_int_eq(stream_read(&end->stream, &in), STREAM_SHORT);
		ck_assert_uint_eq(in.count, PIECE);
	}
}

/* The number of bytes at which the kernel wakes us. */
static int least(const struct end *end)
{
	int value = 0;
	socklen_t size = sizeof(value);

	ck_assert_int_eq(getsockopt(end->stream.watch.fd, SOL_SOCKET, SO_RCVLOWAT, &value, &size),
	                 0);
	return value;
}

static void stop(struct timer *timer)
{
	loop_stop(((struct stage *)((char *)timer - offsetof(struct stage, limit)))->loop);
}

/* Longer than a pause. */
static void rest(struct stage *stage)
{
	timer_set(&stage->limit, loop_timer_queue(stage->loop, 20 * BULK_PAUSE, stop),
	          loop_now(stage->loop));
	loop_run(stage->loop);
}

START_TEST(bulk_begins_with_much_and_not_before)
{
	struct stage *stage = make();

	flow(&stage->ends[0], BULK_BEGIN - PIECE);
	ck_assert_int_eq(least(&stage->ends[0]), 1);
	flow(&stage->ends[0], PIECE);
	ck_assert_int_eq(least(&stage->ends[0]), BULK_LEAST);
	flow(&stage->ends[0], 4 * PIECE);
	ck_assert_int_eq(least(&stage->ends[0]), BULK_LEAST);
	ck_assert_int_eq(least(&stage->ends[1]), 1);
	done(stage);
}
END_TEST

START_TEST(bulk_ends_with_an_answer)
{
	struct stage *stage = make();
	struct end *end = &stage->ends[0];

	flow(end, BULK_BEGIN);
	ck_assert(stream_send(&end->stream, bytes_of("!", 1)));
	ck_assert_int_eq(least(end), 1);
	flow(end, BULK_BEGIN - PIECE);
	ck_assert_int_eq(least(end), 1);
	ck_assert(stream_sendv(&end->stream, &(struct iovec){ "!", 1 }, 1));
	flow(end, BULK_BEGIN - PIECE);
	ck_assert_int_eq(least(end), 1);
	flow(end, PIECE);
	ck_assert_int_eq(least(end), BULK_LEAST);
	done(stage);
}
END_TEST

/* Afterwards the same amount is needed again. */
START_TEST(bulk_ends_with_a_pause)
{
	struct stage *stage = make();
	struct end *end = &stage->ends[0];

	flow(end, BULK_BEGIN);
	rest(stage);
	ck_assert_int_eq(least(end), 1);
	flow(end, BULK_BEGIN - PIECE);
	ck_assert_int_eq(least(end), 1);
	flow(end, PIECE);
	ck_assert_int_eq(least(end), BULK_LEAST);
	rest(stage);
	ck_assert_int_eq(least(end), 1);
	done(stage);
}
END_TEST

START_TEST(bulk_ends_with_the_stream)
{
	struct stage *stage = make();
	struct end *end = &stage->ends[0];
	int value = 0, fd;
	socklen_t size = sizeof(value);

	flow(end, BULK_BEGIN);
	fd = stream_take_socket(&end->stream);
	ck_assert_int_eq(getsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &value, &size), 0);
	ck_assert_int_eq(value, 1); /* the new owner of the descriptor is not affected */
	close(fd);
	rest(stage);
	done(stage);
}
END_TEST

START_TEST(bulk_has_a_number_of_seats)
{
	struct stage *stage = make();

	for (size_t i = 0; i < ENDS; i++)
		flow(&stage->ends[i], BULK_BEGIN);
	for (size_t i = 0; i < ENDS; i++)
		ck_assert_int_eq(least(&stage->ends[i]), i < BULK_SLOTS ? BULK_LEAST : 1);
	ck_assert(stream_send(&stage->ends[3].stream, bytes_of("!", 1)));
	flow(&stage->ends[BULK_SLOTS], BULK_BEGIN);
	ck_assert_int_eq(least(&stage->ends[BULK_SLOTS]), BULK_LEAST);
	rest(stage);
	for (size_t i = 0; i < ENDS; i++)
		ck_assert_int_eq(least(&stage->ends[i]), 1);
	done(stage);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("bulk");
	TCase *tcase = tcase_create("bulk");

	tcase_add_test(tcase, bulk_begins_with_much_and_not_before);
	tcase_add_test(tcase, bulk_ends_with_an_answer);
	tcase_add_test(tcase, bulk_ends_with_a_pause);
	tcase_add_test(tcase, bulk_ends_with_the_stream);
	tcase_add_test(tcase, bulk_has_a_number_of_seats);
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
