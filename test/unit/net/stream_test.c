/* SPDX-License-Identifier: ISC */
/*
 * net/stream.c over socket pairs: the test is the peer.
 */
#include "pgweir/net/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pgweir/base/buf.h"

#include "../unit.h"

#define STREAM_OF(member) ((struct end *)(member))

/* The action of a callback, in addition to being recorded. */
enum act {
	ACT_NOTE,
	ACT_READ,  /* reads, and appends the data to `got` */
	ACT_CLOSE, /* closes the stream */
	ACT_SEND   /* sends one more byte */
};

/* One end of ours, with what happened to it in order: 'i' input, 'd' drained, 'g' gone. */
struct end {
	struct stream stream;
	struct loop *loop;
	struct stream_pool pool;
	struct task stop;
	int far;
	enum act on_input, on_flushed, on_gone;
	enum stream_result last;
	char events[64];
	size_t event_count;
	struct buf got;
	unsigned int turns_left;
};

static void act(struct end *end, char event, enum act what)
{
	struct bytes in;

	if (end->event_count + 1 < sizeof(end->events))
		end->events[end->event_count++] = event;
	if (what == ACT_CLOSE)
		stream_close(&end->stream);
	if (what == ACT_SEND)
		ck_assert(stream_send(&end->stream, bytes_of("!", 1)));
	if (what != ACT_READ)
		return;
	end->last = stream_read(&end->stream, &in);
	if (end->last == STREAM_DATA || end->last == STREAM_SHORT)
		buf_add(&end->got, in.at, in.count);
	else if (end->last == STREAM_END)
		stream_want(&end->stream, WANT_NOTHING);
}

static void on_input(struct stream *stream)
{
	act(STREAM_OF(stream), 'i', STREAM_OF(stream)->on_input);
}

static void on_flushed(struct stream *stream)
{
	ck_assert_uint_eq(stream_unsent(stream), 0);
	act(STREAM_OF(stream), 'd', STREAM_OF(stream)->on_flushed);
}

static void on_gone(struct stream *stream)
{
	act(STREAM_OF(stream), 'g', STREAM_OF(stream)->on_gone);
}

static const struct stream_ops ops = { on_input, on_flushed, on_gone, NULL };

static void count_turn(struct task *task)
{
	struct end *end = (struct end *)((char *)task - offsetof(struct end, stop));

	if (end->turns_left-- > 1)
		loop_defer(end->loop, task);
	else
		loop_stop(end->loop);
}

/* Ready events are reported at once: a few turns are sufficient, and none of them waits. */
static void turn(struct end *end, unsigned int turns)
{
	end->turns_left = turns;
	loop_defer(end->loop, &end->stop);
	loop_run(end->loop);
}

static void make(struct end *end)
{
	struct err err;
	int pair[2];

	*end = (struct end){ .stop.run = count_turn, .on_input = ACT_READ };
	end->loop = loop_new(&err);
	ck_assert_ptr_nonnull(end->loop);
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
	stream_pool_init(&end->pool, 4096);
	stream_open(&end->stream, end->loop, &end->pool, pair[0], &ops);
	end->far = pair[1];
}

/* Everything was released. */
static void done(struct end *end)
{
	if (end->far >= 0)
		close(end->far);
	stream_close(&end->stream);
	ck_assert(!stream_is_open(&end->stream));
	stream_close(&end->stream);
	ck_assert_uint_eq(end->pool.buffers.used_count, 0);
	stream_pool_done(&end->pool);
	buf_free(&end->got);
	loop_free(&end->loop);
}

static void say(struct end *end, const void *bytes, size_t count)
{
	ck_assert_int_eq(send(end->far, bytes, count, MSG_NOSIGNAL), (ssize_t)count);
}

/* Fills with position-dependent data, so that lost or duplicate bytes are detected. */
static void fill(char *out, size_t count, size_t from)
{
	for (size_t i = 0; i < count; i++)
		out[i] = (char)((from + i) * 2654435761u >> 13);
}

static bool is_filled(const char *in, size_t count, size_t from)
{
	for (size_t i = 0; i < count; i++) {
		if (in[i] != (char)((from + i) * 2654435761u >> 13))
			return false;
	}
	return true;
}

/* ---- reading ---- */

START_TEST(stream_reads_what_has_come)
{
	struct end end;
	struct bytes in;

	make(&end);
	ck_assert_int_eq(stream_read(&end.stream, &in), STREAM_NOTHING);
	say(&end, "hello", 5);
	ck_assert_int_eq(stream_read(&end.stream, &in), STREAM_SHORT);
	ck_assert_uint_eq(in.count, 5);
	ck_assert_mem_eq(in.at, "hello", 5);
	ck_assert_int_eq(stream_read(&end.stream, &in), STREAM_NOTHING);
	close(end.far);
	end.far = -1;
	ck_assert_int_eq(stream_read(&end.stream, &in), STREAM_END);
	ck_assert_int_eq(end.stream.error, 0);
	done(&end);
}
END_TEST

START_TEST(stream_says_when_there_may_be_more)
{
	static char much[STREAM_READ_SIZE + 100];
	struct end end;
	struct bytes in;
	int size = 4 * (int)sizeof(much);

	make(&end);
	ck_assert_int_eq(setsockopt(end.far, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)), 0);
	fill(much, sizeof(much), 0);
	say(&end, much, sizeof(much));
	ck_assert_int_eq(stream_read(&end.stream, &in), STREAM_DATA);
	ck_assert_uint_eq(in.count, STREAM_READ_SIZE);
	ck_assert(is_filled(in.at, in.count, 0));
	ck_assert_int_eq(stream_read(&end.stream, &in), STREAM_SHORT);
	ck_assert_uint_eq(in.count, 100);
	ck_assert(is_filled(in.at, in.count, STREAM_READ_SIZE));
	done(&end);
}
END_TEST

START_TEST(stream_keeps_the_rest_at_every_cut)
{
	static const char text[] = "a message that is cut in two";
	struct end end;
	struct bytes in;

	make(&end);
	for (size_t cut = 0; cut < sizeof(text); cut++) {
		if (cut)
			say(&end, text, cut);
		ck_assert_int_eq(stream_read(&end.stream, &in),
		                 cut ? STREAM_SHORT : STREAM_NOTHING);
		ck_assert(stream_keep(&end.stream, cut ? in : (struct bytes){ 0 }));
		ck_assert_uint_eq(stream_kept(&end.stream).count, cut);
		/* No new data: buffered data is unchanged. */
		ck_assert_int_eq(stream_read(&end.stream, &in), STREAM_NOTHING);
		ck_assert_uint_eq(stream_kept(&end.stream).count, cut);
		say(&end, text + cut, sizeof(text) - cut);
		ck_assert_int_eq(stream_read(&end.stream, &in), STREAM_SHORT);
		ck_assert_uint_eq(in.count, sizeof(text));
		ck_assert_mem_eq(in.at, text, sizeof(text));
		ck_assert(stream_keep(&end.stream, (struct bytes){ 0 }));
		ck_assert_uint_eq(end.pool.buffers.used_count, 0); /* when idle it owns no buffer */
	}
	done(&end);
}
END_TEST

START_TEST(stream_keeps_the_rest_of_the_kept)
{
	struct end end;
	struct bytes in;

	make(&end);
	say(&end, "0123456789", 10);
	ck_assert_int_eq(stream_read(&end.stream, &in), STREAM_SHORT);
	ck_assert(stream_keep(&end.stream, in));
	for (size_t used = 1; used <= 9; used++) {
		ck_assert(stream_keep(&end.stream, bytes_skip(stream_kept(&end.stream), 1)));
		in = stream_kept(&end.stream);
		ck_assert_uint_eq(in.count, 10 - used);
		ck_assert_int_eq(in.at[0], '0' + (char)used);
	}
	say(&end, "ab", 2);
	ck_assert_int_eq(stream_read(&end.stream, &in), STREAM_SHORT);
	ck_assert_uint_eq(in.count, 3);
	ck_assert_mem_eq(in.at, "9ab", 3);
	ck_assert(stream_keep(&end.stream, bytes_skip(in, 1)));
	ck_assert(stream_keep(&end.stream, (struct bytes){ 0 }));
	ck_assert_uint_eq(stream_kept(&end.stream).count, 0);
	ck_assert_uint_eq(end.pool.buffers.used_count, 0);
	done(&end);
}
END_TEST

/* More is buffered than fits into the scratch buffer, and some of it is consumed between. */
START_TEST(stream_keeps_more_than_the_scratch_holds)
{
	static char piece[STREAM_READ_SIZE / 2];
	struct end end;
	struct bytes in = { 0 };
	size_t said = 0, used = 0;

	make(&end);
	while (said < 3 * LOOP_SCRATCH_SIZE) {
		fill(piece, sizeof(piece), said);
		say(&end, piece, sizeof(piece));
		said += sizeof(piece);
		ck_assert_int_eq(stream_read(&end.stream, &in), STREAM_SHORT);
		ck_assert_uint_eq(in.count, said - used);
		ck_assert(is_filled(in.at, in.count, used));
		ck_assert(stream_keep(&end.stream, bytes_skip(in, 1000)));
		used += 1000;
		ck_assert_int_eq(stream_read(&end.stream, &in), STREAM_NOTHING);
		in = stream_kept(&end.stream);
		ck_assert_uint_eq(in.count, said - used);
		ck_assert(is_filled(in.at, in.count, used));
	}
	ck_assert(stream_keep(&end.stream, bytes_skip(in, in.count - 3)));
	ck_assert_int_eq(stream_read(&end.stream, &in), STREAM_NOTHING);
	in = stream_kept(&end.stream);
	ck_assert_uint_eq(in.count, 3);
	ck_assert(is_filled(in.at, 3, said - 3));
	done(&end);
}
END_TEST

/* The end arrives while data is buffered: the data can still be read. */
START_TEST(stream_ends_with_something_kept)
{
	struct end end;
	struct bytes in;

	make(&end);
	say(&end, "half", 4);
	ck_assert_int_eq(stream_read(&end.stream, &in), STREAM_SHORT);
	ck_assert(stream_keep(&end.stream, in));
	close(end.far);
	end.far = -1;
	ck_assert_int_eq(stream_read(&end.stream, &in), STREAM_END);
	done(&end);
}
END_TEST

/* ---- wanting ---- */

static const struct {
	const char *says;
	enum stream_want want;
	bool says_something, hangs_up;
	const char *events;
} wants[] = {
	{ "nothing is wanted, nothing is reported", WANT_NOTHING, true, true, "" },
	{ "input is reported", WANT_INPUT, true, false, "i" },
	{ "the end is reported as input", WANT_INPUT, false, true, "i" },
	{ "input is kept for later", WANT_END, true, false, "" },
	{ "the end is reported", WANT_END, false, true, "g" },
	{ "the end is reported behind what is kept", WANT_END, true, true, "g" },
};

START_TEST(stream_tells_what_is_wanted)
{
	struct end end;

	make(&end);
	end.on_gone = ACT_CLOSE;
	ck_assert(stream_want(&end.stream, wants[_i].want));
	turn(&end, 3);
	ck_assert_str_eq(end.events, "");
	if (wants[_i].says_something)
		say(&end, "x", 1);
	if (wants[_i].hangs_up) {
		close(end.far);
		end.far = -1;
	}
	turn(&end, 4);
	ck_assert_msg(strcmp(end.events, wants[_i].events) == 0, "%s: \"%s\"", wants[_i].says,
	              end.events);
	done(&end);
}
END_TEST

START_TEST(stream_holds_back_and_goes_on)
{
	struct end end;

	make(&end);
	ck_assert(stream_want(&end.stream, WANT_INPUT));
	turn(&end, 2);
	ck_assert(stream_want(&end.stream, WANT_NOTHING));
	say(&end, "later", 5);
	turn(&end, 5);
	ck_assert_str_eq(end.events, "");
	ck_assert(stream_want(&end.stream, WANT_END));
	turn(&end, 5);
	ck_assert_str_eq(end.events, "");
	ck_assert_uint_eq(stream_kept(&end.stream).count, 5);
	ck_assert(stream_want(&end.stream, WANT_INPUT));
	say(&end, "!", 1);
	turn(&end, 2);
	ck_assert_str_eq(end.events, "i");
	ck_assert_uint_eq(end.got.count, 6);
	ck_assert_mem_eq(end.got.at, "later!", 6);
	/* After all data was read, the end is reported when it arrives. */
	ck_assert(stream_want(&end.stream, WANT_END));
	end.on_gone = ACT_CLOSE;
	close(end.far);
	end.far = -1;
	turn(&end, 4);
	ck_assert_str_eq(end.events, "ig");
	done(&end);
}
END_TEST

/* What was read before does not count, and sending changes nothing. */
START_TEST(stream_halted_reads_what_it_may)
{
	struct end end;

	make(&end);
	stream_want(&end.stream, WANT_INPUT);
	ck_assert_int_eq(write(end.far, "before ", 7), 7);
	turn(&end, 3);
	stream_halt(&end.stream, 5);
	ck_assert(stream_is_halted(&end.stream));
	ck_assert_int_eq(write(end.far, "abc", 3), 3);
	turn(&end, 3);
	ck_assert(stream_send(&end.stream, bytes_of("!", 1)));
	ck_assert_int_eq(write(end.far, "defg", 4), 4);
	turn(&end, 3);
	ck_assert_uint_eq(end.got.count, 12);
	ck_assert_mem_eq(end.got.at, "before abcde", 12);
	ck_assert(!stream_may_read(&end.stream));
	ck_assert(stream_send(&end.stream, bytes_of("!", 1)));
	turn(&end, 3);
	ck_assert_uint_eq(end.got.count, 12);
	stream_go_on(&end.stream);
	ck_assert(!stream_is_halted(&end.stream));
	turn(&end, 3);
	ck_assert_mem_eq(end.got.at, "before abcdefg", 14);
	done(&end);
}
END_TEST

/* With WANT_END, the peer may send for a while, and is read later. */
START_TEST(stream_reads_ahead_within_its_limit)
{
	static char piece[10000];
	struct end end;
	struct bytes in;
	size_t said = 0, got;

	make(&end);
	ck_assert(stream_want(&end.stream, WANT_END));
	for (;;) {
		fill(piece, sizeof(piece), said);
		if (send(end.far, piece, sizeof(piece), MSG_NOSIGNAL) != sizeof(piece))
			break; /* the socket is full: reading stopped at a limit */
		said += sizeof(piece);
		turn(&end, 3);
		in = stream_kept(&end.stream);
		ck_assert_uint_le(in.count, STREAM_AHEAD_MAX + STREAM_READ_SIZE);
		ck_assert(is_filled(in.at, in.count, 0));
	}
	got = stream_kept(&end.stream).count;
	ck_assert_uint_ge(got, STREAM_AHEAD_MAX);
	ck_assert_str_eq(end.events, "");
	while (stream_read(&end.stream, &in) != STREAM_NOTHING) {
		ck_assert(
		    is_filled(in.at, in.count, 0)); /* in order, starting with the buffered data */
		got = in.count;
		ck_assert(stream_keep(&end.stream, in));
	}
	ck_assert_uint_ge(got, said);
	done(&end);
}
END_TEST

/* ---- sending ---- */

/* Sends until the socket is full; returns the number of bytes sent. */
static size_t send_until_full(struct end *end)
{
	static char piece[50000];
	size_t count = 0;

	while (stream_unsent(&end->stream) == 0) {
		fill(piece, sizeof(piece), count);
		ck_assert(stream_send(&end->stream, bytes_of(piece, sizeof(piece))));
		count += sizeof(piece);
	}
	return count;
}

/* Reads everything at the peer, with turns between. */
static size_t hear(struct end *end, size_t from, size_t expected)
{
	static char piece[30000];
	size_t count = 0;

	for (int tries = 0; count < expected && tries < 10000; tries++) {
		ssize_t got = recv(end->far, piece, sizeof(piece), MSG_DONTWAIT);

		if (got > 0) {
			size_t known =
			    (size_t)got < expected - count ? (size_t)got : expected - count;

			ck_assert(is_filled(piece, known, from + count));
			count += (size_t)got;
		} else {
			turn(end, 2);
		}
	}
	return count;
}

START_TEST(stream_sends_at_once)
{
	struct end end;
	char in[16];
	struct iovec pieces[] = { { "one ", 4 }, { "", 0 }, { "two", 3 } };

	make(&end);
	ck_assert(stream_send(&end.stream, bytes_of("zero ", 5)));
	ck_assert(stream_sendv(&end.stream, pieces, 3));
	ck_assert_uint_eq(stream_unsent(&end.stream), 0);
	ck_assert_int_eq(recv(end.far, in, sizeof(in), MSG_DONTWAIT), 12);
	ck_assert_mem_eq(in, "zero one two", 12);
	turn(&end, 3);
	ck_assert_str_eq(end.events, ""); /* never drained: nothing was unsent */
	done(&end);
}
END_TEST

START_TEST(stream_sends_the_unsent_later_and_in_order)
{
	struct end end;
	static char more[3000];
	struct iovec pieces[3];
	size_t count;

	make(&end);
	count = send_until_full(&end);
	for (size_t i = 0; i < COUNT_OF(pieces); i++) {
		fill(more + i * 1000, 1000, count + i * 1000);
		pieces[i] = (struct iovec){ more + i * 1000, 1000 };
	}
	ck_assert(stream_sendv(&end.stream, pieces, COUNT_OF(pieces)));
	turn(&end, 3);
	ck_assert_str_eq(end.events, "");
	ck_assert_uint_eq(hear(&end, 0, count + 3000), count + 3000);
	turn(&end, 2);
	ck_assert_str_eq(end.events, "d"); /* once, when all had gone */
	ck_assert_uint_eq(end.pool.buffers.used_count, 0);
	done(&end);
}
END_TEST

/* The data of one call is split wherever the socket is full. */
START_TEST(stream_cuts_pieces_anywhere)
{
	struct end end;
	static char bytes[1000000];
	struct iovec pieces[100];

	make(&end);
	fill(bytes, sizeof(bytes), 0);
	for (size_t i = 0; i < COUNT_OF(pieces); i++)
		pieces[i] = (struct iovec){ bytes + i * 10000, 10000 };
	ck_assert(stream_sendv(&end.stream, pieces, COUNT_OF(pieces)));
	ck_assert_uint_gt(stream_unsent(&end.stream), 0);
	ck_assert_uint_eq(hear(&end, 0, sizeof(bytes)), sizeof(bytes));
	turn(&end, 2);
	ck_assert_str_eq(end.events, "d");
	done(&end);
}
END_TEST

START_TEST(stream_sends_while_it_does_not_want_to_read)
{
	struct end end;
	size_t count;

	make(&end);
	ck_assert(stream_want(&end.stream, (enum stream_want)_i));
	count = send_until_full(&end);
	end.on_input = ACT_READ;
	say(&end, "x", 1);
	turn(&end, 5);
	ck_assert_str_eq(end.events, _i == WANT_INPUT ? "i" : "");
	ck_assert_uint_eq(hear(&end, 0, count), count);
	turn(&end, 2);
	ck_assert_str_eq(end.events, _i == WANT_INPUT ? "id" : "d");
	/* The wanted events are unchanged. */
	end.on_gone = ACT_CLOSE;
	close(end.far);
	end.far = -1;
	turn(&end, 5);
	ck_assert_str_eq(end.events, _i == WANT_INPUT ? "idi" : _i == WANT_END ? "dg" : "d");
	done(&end);
}
END_TEST

START_TEST(stream_closes_within_a_callback)
{
	struct end end;
	size_t count;

	make(&end);
	end.on_input = end.on_flushed = end.on_gone = ACT_CLOSE;
	if (_i == 0) {
		ck_assert(stream_want(&end.stream, WANT_INPUT));
		say(&end, "x", 1);
	} else if (_i == 1) {
		say(&end, "x", 1);
		count = send_until_full(&end);
		hear(&end, 0, count);
	} else {
		ck_assert(stream_want(&end.stream, WANT_END));
		shutdown(end.far, SHUT_RDWR);
	}
	turn(&end, 5);
	ck_assert_uint_eq(end.event_count, 1);
	ck_assert(!stream_is_open(&end.stream));
	done(&end);
}
END_TEST

START_TEST(stream_sends_from_on_flushed)
{
	struct end end;
	char last;
	size_t count, heard;

	make(&end);
	end.on_flushed = ACT_SEND;
	count = send_until_full(&end);
	heard = hear(&end, 0, count);
	turn(&end, 3);
	ck_assert_str_eq(end.events, "d");
	if (recv(end.far, &last, 1, MSG_DONTWAIT) == 1) {
		ck_assert_int_eq(last, '!');
		heard++;
	}
	ck_assert_uint_eq(heard, count + 1);
	done(&end);
}
END_TEST

/* ---- a peer that disconnects ---- */

START_TEST(stream_says_that_sending_broke)
{
	struct end end;

	make(&end);
	close(end.far);
	end.far = -1;
	ck_assert(!stream_send(&end.stream, bytes_of("x", 1)));
	ck_assert_int_eq(end.stream.error, EPIPE);
	done(&end);
}
END_TEST

START_TEST(stream_tells_when_the_unsent_cannot_go)
{
	struct end end;

	make(&end);
	ck_assert(stream_want(&end.stream, (enum stream_want)_i));
	send_until_full(&end);
	close(end.far);
	end.far = -1;
	end.on_gone = end.on_input = ACT_CLOSE;
	turn(&end, 5);
	ck_assert_str_eq(end.events, "g");
	done(&end);
}
END_TEST

/* A connected pair over TCP, which can be reset. */
static int connect_tcp(struct end *end)
{
	struct sockaddr_in name = { .sin_family = AF_INET,
		                    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t size = sizeof(name);
	int listening = socket(AF_INET, SOCK_STREAM, 0), fd = socket(AF_INET, SOCK_STREAM, 0);

	ck_assert_int_eq(bind(listening, (struct sockaddr *)&name, size), 0);
	ck_assert_int_eq(listen(listening, 1), 0);
	ck_assert_int_eq(getsockname(listening, (struct sockaddr *)&name, &size), 0);
	ck_assert_int_eq(connect(fd, (struct sockaddr *)&name, size), 0);
	close(end->far);
	end->far = accept(listening, NULL, NULL);
	close(listening);
	ck_assert_int_eq(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
	return fd;
}

START_TEST(stream_is_reset)
{
	struct end end;
	struct linger hard = { .l_onoff = 1 };

	make(&end);
	stream_close(&end.stream);
	stream_open(&end.stream, end.loop, &end.pool, connect_tcp(&end), &ops);
	ck_assert(stream_want(&end.stream, (enum stream_want)_i));
	end.on_gone = ACT_CLOSE;
	ck_assert_int_eq(setsockopt(end.far, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard)), 0);
	close(end.far);
	end.far = -1;
	turn(&end, 5);
	if (_i == WANT_INPUT) {
		ck_assert_str_eq(end.events, "i");
		ck_assert_int_eq(end.last, STREAM_END);
		ck_assert_int_eq(end.stream.error, ECONNRESET);
	} else {
		ck_assert_str_eq(end.events, _i == WANT_END ? "g" : "");
	}
	done(&end);
}
END_TEST

START_TEST(stream_finishes)
{
	struct end end;
	char byte;
	struct bytes in;

	make(&end);
	stream_finish(&end.stream);
	ck_assert_int_eq(recv(end.far, &byte, 1, MSG_DONTWAIT), 0);
	say(&end, "still read", 10);
	ck_assert_int_eq(stream_read(&end.stream, &in), STREAM_SHORT);
	ck_assert_uint_eq(in.count, 10);
	done(&end);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("net/stream");
	TCase *cases = tcase_create("stream");

	tcase_set_timeout(cases, 20);
	tcase_add_test(cases, stream_reads_what_has_come);
	tcase_add_test(cases, stream_says_when_there_may_be_more);
	tcase_add_test(cases, stream_keeps_the_rest_at_every_cut);
	tcase_add_test(cases, stream_keeps_the_rest_of_the_kept);
	tcase_add_test(cases, stream_keeps_more_than_the_scratch_holds);
	tcase_add_test(cases, stream_ends_with_something_kept);
	tcase_add_loop_test(cases, stream_tells_what_is_wanted, 0, COUNT_OF(wants));
	tcase_add_test(cases, stream_holds_back_and_goes_on);
	tcase_add_test(cases, stream_halted_reads_what_it_may);
	tcase_add_test(cases, stream_reads_ahead_within_its_limit);
	tcase_add_test(cases, stream_sends_at_once);
	tcase_add_test(cases, stream_sends_the_unsent_later_and_in_order);
	tcase_add_test(cases, stream_cuts_pieces_anywhere);
	tcase_add_loop_test(cases, stream_sends_while_it_does_not_want_to_read, 0, 3);
	tcase_add_loop_test(cases, stream_closes_within_a_callback, 0, 3);
	tcase_add_test(cases, stream_sends_from_on_flushed);
	tcase_add_test(cases, stream_says_that_sending_broke);
	tcase_add_loop_test(cases, stream_tells_when_the_unsent_cannot_go, 0, 3);
	tcase_add_loop_test(cases, stream_is_reset, 0, 3);
	tcase_add_test(cases, stream_finishes);
	suite_add_tcase(suite, cases);
	return unit_run(suite);
}
