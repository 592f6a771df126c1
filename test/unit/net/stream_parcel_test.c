/* SPDX-License-Identifier: ISC */
/*
 * net/stream_parcel.c: a stream moves between two loops, in one thread and in two. The test is the
 * peer. Encrypted streams: stream_secure_test.c.
 */
#include "pgweir/net/stream.h"

#include <poll.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pgweir/base/log.h"

#include "../unit.h"

#define ROUNDS 200

/* One loop, and the end of the connection while it is there. */
struct place {
	struct stream stream;
	struct loop *loop;
	struct stream_pool pool;
	struct task stop;
	unsigned int turns_left, input_count, gone_count;
	struct buf got;
	bool answers; /* each input with the same bytes */
};

struct stage {
	struct place here, there;
	int far;
};

static void on_input(struct stream *stream)
{
	struct place *place = (struct place *)stream;
	struct bytes in;
	enum stream_result result = stream_read(stream, &in);

	place->input_count++;
	ck_assert(result == STREAM_DATA || result == STREAM_SHORT);
	buf_add(&place->got, in.at, in.count);
	if (place->answers)
		ck_assert(stream_send(stream, in));
}

static void on_flushed(struct stream *stream) { (void)stream; }
static void on_gone(struct stream *stream) { ((struct place *)stream)->gone_count++; }

static const struct stream_ops ops = { on_input, on_flushed, on_gone, NULL };

static void count_turn(struct task *task)
{
	struct place *place = (struct place *)((char *)task - offsetof(struct place, stop));

	if (place->turns_left-- > 1)
		loop_defer(place->loop, task);
	else
		loop_stop(place->loop);
}

/* Ready events are reported at once: a few turns are sufficient, and none of them waits. */
static void turn(struct place *place, unsigned int turns)
{
	place->turns_left = turns;
	loop_defer(place->loop, &place->stop);
	loop_run(place->loop);
}

static void make_place(struct place *place)
{
	struct err err;

	*place = (struct place){ .stop.run = count_turn };
	place->loop = loop_new(&err);
	ck_assert_ptr_nonnull(place->loop);
	stream_pool_init(&place->pool, 4096);
}

static void drop_place(struct place *place)
{
	stream_close(&place->stream);
	buf_free(&place->got);
	ck_assert_uint_eq(place->pool.buffers.used_count, 0);
	stream_pool_done(&place->pool);
	loop_free(&place->loop);
}

static void make(struct stage *stage)
{
	int pair[2];

	make_place(&stage->here);
	make_place(&stage->there);
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
	stream_open(&stage->here.stream, stage->here.loop, &stage->here.pool, pair[0], &ops);
	stream_want(&stage->here.stream, WANT_INPUT);
	stage->far = pair[1];
}

static void drop(struct stage *stage)
{
	drop_place(&stage->here);
	drop_place(&stage->there);
	close(stage->far);
}

static void say(const struct stage *stage, const char *text)
{
	ck_assert_int_eq(send(stage->far, text, strlen(text), 0), (ssize_t)strlen(text));
}

static void move(struct place *from, struct place *to)
{
	struct stream_parcel parcel;

	ck_assert(stream_detach(&from->stream, &parcel));
	ck_assert(!stream_is_open(&from->stream));
	ck_assert(stream_attach(&to->stream, to->loop, &to->pool, &parcel, &ops));
	ck_assert_int_eq(parcel.fd, -1);
	stream_want(&to->stream, WANT_INPUT);
}

static void expect_got(struct place *place, const char *text)
{
	ck_assert_str_eq(buf_text(&place->got), text);
	buf_clear(&place->got);
}

static bool is_closed(int far)
{
	struct pollfd pollfd = { .fd = far, .events = POLLRDHUP };

	return poll(&pollfd, 1, 0) > 0 && (pollfd.revents & (POLLRDHUP | POLLHUP));
}

START_TEST(parcel_input_comes_to_the_new_loop)
{
	struct stage stage;

	make(&stage);
	turn(&stage.here, 3);
	say(&stage, "one");
	move(&stage.here, &stage.there);
	say(&stage, "two");
	turn(&stage.here, 3);
	ck_assert_uint_eq(stage.here.input_count, 0);
	turn(&stage.there, 3);
	expect_got(&stage.there, "onetwo");
	move(&stage.there, &stage.here);
	say(&stage, "three");
	turn(&stage.there, 3);
	turn(&stage.here, 3);
	expect_got(&stage.here, "three");
	ck_assert(!is_closed(stage.far));
	stream_close(&stage.here.stream);
	ck_assert(is_closed(stage.far));
	drop(&stage);
}
END_TEST

/* Moves the stream when its descriptor is ready. */
struct mover {
	struct watch watch;
	struct stage *stage;
};

static void on_move(struct watch *watch, unsigned int what)
{
	struct stage *stage = ((struct mover *)watch)->stage;

	(void)what;
	watch_set(watch, 0);
	move(&stage->here, &stage->there);
}

/* Both descriptors are ready in one turn: the one that became ready first is reported first. */
START_TEST(parcel_event_of_the_same_turn_is_dropped)
{
	bool moves_first = _i == 0;
	struct mover mover;
	struct stage stage;
	int ends[2];

	make(&stage);
	ck_assert_int_eq(pipe(ends), 0);
	mover.stage = &stage;
	watch_init(&mover.watch, stage.here.loop, ends[0], on_move);
	ck_assert(watch_set(&mover.watch, WATCH_READ));
	turn(&stage.here, 2);
	if (!moves_first)
		say(&stage, "x");
	ck_assert_int_eq(write(ends[1], "x", 1), 1);
	if (moves_first)
		say(&stage, "x");
	turn(&stage.here, 3);
	turn(&stage.there, 3);
	ck_assert(stream_is_open(&stage.there.stream));
	ck_assert_uint_eq(stage.here.input_count, moves_first ? 0 : 1);
	ck_assert_uint_eq(stage.there.input_count, moves_first ? 1 : 0);
	close(ends[0]);
	close(ends[1]);
	drop(&stage);
}
END_TEST

START_TEST(parcel_has_kept_input_and_unsent_output)
{
	static char much[4 * 1024 * 1024], back[65536];
	struct stage stage;
	struct bytes in;
	size_t got = 0;
	ssize_t done;

	make(&stage);
	say(&stage, "abcdef");
	ck_assert_int_eq(stream_read(&stage.here.stream, &in), STREAM_SHORT);
	ck_assert(stream_keep(&stage.here.stream, bytes_skip(in, 2)));
	memset(much, 'm', sizeof(much));
	ck_assert(stream_send(&stage.here.stream, bytes_of(much, sizeof(much))));
	ck_assert_uint_gt(stream_unsent(&stage.here.stream), 0);
	move(&stage.here, &stage.there);
	ck_assert(bytes_equal(stream_kept(&stage.there.stream), bytes_text("cdef")));
	ck_assert_uint_gt(stream_unsent(&stage.there.stream), 0);
	while (got < sizeof(much)) {
		done = recv(stage.far, back, sizeof(back), 0);
		if (done > 0)
			got += (size_t)done;
		else
			turn(&stage.there, 2);
	}
	ck_assert_uint_eq(got, sizeof(much));
	say(&stage, "g");
	turn(&stage.there, 2);
	expect_got(&stage.there, "cdefg");
	drop(&stage);
}
END_TEST

START_TEST(parcel_sends_deferred_output_first)
{
	static const struct logger logger = { NULL, NULL };
	struct stage stage;
	char back[16];

	make(&stage);
	stage.here.pool.outbox = outbox_new(stage.here.loop, &logger);
	stage.there.pool.outbox = outbox_new(stage.there.loop, &logger);
	stream_defer(&stage.here.stream);
	ck_assert(stream_send(&stage.here.stream, bytes_text("early")));
	ck_assert_int_lt(recv(stage.far, back, sizeof(back), 0), 0);
	move(&stage.here, &stage.there);
	ck_assert_int_eq(recv(stage.far, back, sizeof(back), 0), 5);
	ck_assert(stream_send(&stage.there.stream, bytes_text("late")));
	ck_assert_int_lt(recv(stage.far, back, sizeof(back), 0), 0);
	turn(&stage.there, 1);
	ck_assert_int_eq(recv(stage.far, back, sizeof(back), 0), 4);
	stream_close(&stage.there.stream);
	outbox_free(&stage.here.pool.outbox);
	outbox_free(&stage.there.pool.outbox);
	drop(&stage);
}
END_TEST

/* What the socket does not accept of it moves, too. */
START_TEST(parcel_has_deferred_output_that_is_not_accepted)
{
	static const struct logger logger = { NULL, NULL };
	static char much[65536], back[65536];
	struct stage stage;
	size_t sent = 0, got = 0;
	ssize_t done;

	make(&stage);
	stage.here.pool.outbox = outbox_new(stage.here.loop, &logger);
	while ((done = send(stage.here.stream.watch.fd, much, sizeof(much), 0)) > 0)
		sent += (size_t)done;
	stream_defer(&stage.here.stream);
	ck_assert(stream_send(&stage.here.stream, bytes_text("last")));
	ck_assert_uint_eq(stream_unsent(&stage.here.stream), 0);
	move(&stage.here, &stage.there);
	ck_assert_uint_eq(stream_unsent(&stage.there.stream), 4);
	while (got < sent + 4) {
		done = recv(stage.far, back, sizeof(back), 0);
		if (done > 0)
			got += (size_t)done;
		else
			turn(&stage.there, 2);
	}
	ck_assert_uint_eq(got, sent + 4);
	outbox_free(&stage.here.pool.outbox);
	drop(&stage);
}
END_TEST

START_TEST(parcel_of_a_halted_or_broken_stream_is_refused)
{
	struct stream_parcel parcel;
	struct stage stage;

	make(&stage);
	stream_halt(&stage.here.stream, 0);
	ck_assert(!stream_detach(&stage.here.stream, &parcel));
	stream_go_on(&stage.here.stream);
	stage.here.stream.error = 5;
	ck_assert(!stream_detach(&stage.here.stream, &parcel));
	stage.here.stream.error = 0;
	ck_assert(stream_is_open(&stage.here.stream));
	ck_assert(stream_detach(&stage.here.stream, &parcel));
	stream_parcel_end(&parcel, bytes_text("bye"));
	drop(&stage);
}
END_TEST

/* The new loop needs a descriptor of its own, and there is none. */
START_TEST(parcel_without_a_descriptor_is_refused)
{
	struct stream_parcel parcel;
	struct rlimit limit, none;
	struct stage stage;

	make(&stage);
	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	none = limit;
	none.rlim_cur = 3;
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
	ck_assert(!stream_detach(&stage.here.stream, &parcel));
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	say(&stage, "still here");
	turn(&stage.here, 3);
	expect_got(&stage.here, "still here");
	drop(&stage);
}
END_TEST

START_TEST(parcel_ends_with_last_words)
{
	struct stream_parcel parcel;
	struct stage stage;
	char back[16];

	make(&stage);
	ck_assert(stream_detach(&stage.here.stream, &parcel));
	stream_parcel_end(&parcel, bytes_text("bye"));
	ck_assert_int_eq(recv(stage.far, back, sizeof(back), 0), 3);
	turn(&stage.here, 2); /* the old loop closes its descriptor */
	ck_assert_int_eq(recv(stage.far, back, sizeof(back), 0), 0);
	drop(&stage);
}
END_TEST

/* The number of a descriptor that has moved is used again at once, by the old loop too. */
START_TEST(parcel_numbers_may_be_used_again)
{
	struct stage stage;
	struct stream *stream = &stage.here.stream;
	int pair[2], old;

	make(&stage);
	turn(&stage.here, 2);
	for (int i = 0; i < 20; i++) {
		old = stream->watch.fd;
		move(&stage.here, &stage.there);
		stream_close(&stage.there.stream);
		close(stage.far);
		ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
		ck_assert_int_ne(pair[0], old);
		ck_assert_int_ne(pair[1], old);
		stage.far = pair[1];
		stream_open(stream, stage.here.loop, &stage.here.pool, pair[0], &ops);
		stream_want(stream, WANT_INPUT);
		say(&stage, "x");
		turn(&stage.here, 2);
		expect_got(&stage.here, "x");
	}
	drop(&stage);
}
END_TEST

/* ---- two threads ---- */

struct belt {
	pthread_mutex_t lock;
	pthread_cond_t has_come;
	struct stream_parcel parcel;
	bool is_full;
};

static void put(struct belt *belt, struct stream *stream)
{
	pthread_mutex_lock(&belt->lock);
	ck_assert(stream_detach(stream, &belt->parcel));
	belt->is_full = true;
	pthread_cond_signal(&belt->has_come);
	pthread_mutex_unlock(&belt->lock);
}

static void get(struct belt *belt, struct place *place)
{
	pthread_mutex_lock(&belt->lock);
	while (!belt->is_full)
		pthread_cond_wait(&belt->has_come, &belt->lock);
	belt->is_full = false;
	unit_expect(stream_attach(&place->stream, place->loop, &place->pool, &belt->parcel, &ops));
	pthread_mutex_unlock(&belt->lock);
	stream_want(&place->stream, WANT_INPUT);
}

struct worker {
	struct place *place;
	struct belt *in, *out;
};

/* Takes the stream, waits for one input, answers it and passes the stream on. */
static void *work(void *arg)
{
	struct worker *worker = arg;
	struct place *place = worker->place;

	for (int i = 0; i < ROUNDS; i++) {
		unsigned int before = place->input_count;

		get(worker->in, place);
		while (place->input_count == before)
			turn(place, 1);
		put(worker->out, &place->stream);
	}
	return NULL;
}

START_TEST(parcel_moves_between_threads)
{
	struct belt belts[2] = {
		{ .lock = PTHREAD_MUTEX_INITIALIZER, .has_come = PTHREAD_COND_INITIALIZER },
		{ .lock = PTHREAD_MUTEX_INITIALIZER, .has_come = PTHREAD_COND_INITIALIZER }
	};
	struct worker workers[2];
	pthread_t threads[2];
	struct stage stage;
	char back[16];
	struct pollfd pollfd;

	make(&stage);
	stage.here.answers = stage.there.answers = true;
	workers[0] = (struct worker){ &stage.here, &belts[0], &belts[1] };
	workers[1] = (struct worker){ &stage.there, &belts[1], &belts[0] };
	put(&belts[0], &stage.here.stream);
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
	pollfd = (struct pollfd){ .fd = stage.far, .events = POLLIN };
	for (int i = 0; i < 2 * ROUNDS; i++) {
		say(&stage, "?");
		unit_expect(poll(&pollfd, 1, 10000) == 1);
		unit_expect(recv(stage.far, back, sizeof(back), 0) == 1);
	}
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	ck_assert_uint_eq(stage.here.input_count + stage.there.input_count, 2 * ROUNDS);
	ck_assert(belts[0].is_full);
	stream_parcel_end(&belts[0].parcel, (struct bytes){ 0 });
	drop(&stage);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("net/stream_parcel");
	TCase *tcase = tcase_create("parcel");

	tcase_set_timeout(tcase, 60);
	tcase_add_test(tcase, parcel_input_comes_to_the_new_loop);
	tcase_add_loop_test(tcase, parcel_event_of_the_same_turn_is_dropped, 0, 2);
	tcase_add_test(tcase, parcel_has_kept_input_and_unsent_output);
	tcase_add_test(tcase, parcel_sends_deferred_output_first);
	tcase_add_test(tcase, parcel_has_deferred_output_that_is_not_accepted);
	tcase_add_test(tcase, parcel_of_a_halted_or_broken_stream_is_refused);
	tcase_add_test(tcase, parcel_without_a_descriptor_is_refused);
	tcase_add_test(tcase, parcel_ends_with_last_words);
	tcase_add_test(tcase, parcel_numbers_may_be_used_again);
	tcase_add_test(tcase, parcel_moves_between_threads);
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
