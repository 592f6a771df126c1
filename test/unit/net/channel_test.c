/* SPDX-License-Identifier: ISC */
/*
 * net/channel.c over a pair of sockets: messages, descriptors, and an invalid peer.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pgweir/net/channel.h"

#include "../unit.h"

#define LIMIT (10 * USEC_PER_SEC)

struct pair {
	struct channel left, right;
};

static void pair_open(struct pair *pair)
{
	int fds[2];

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	*pair = (struct pair){ .left = { .fd = fds[0], .deadline = clock_now() + LIMIT },
		               .right = { .fd = fds[1], .deadline = clock_now() + LIMIT } };
}

static void pair_close(struct pair *pair)
{
	close(pair->left.fd);
	if (pair->right.fd >= 0)
		close(pair->right.fd);
}

static bool is_open(int fd) { return fcntl(fd, F_GETFD) >= 0; }

START_TEST(a_message_with_its_descriptor)
{
	struct channel_message message;
	struct pair pair;
	int ends[2];

	pair_open(&pair);
	ck_assert_int_eq(pipe(ends), 0);
	ck_assert(channel_send(&pair.left, HANDOVER_CLIENT, bytes_text("first"), ends[1]));
	ck_assert(channel_send(&pair.left, HANDOVER_END, bytes_of("", 0), -1));
	close(ends[1]);
	ck_assert(channel_receive(&pair.right, &message));
	ck_assert_int_eq(message.kind, HANDOVER_CLIENT);
	ck_assert(bytes_are(buf_bytes(&message.body), "first"));
	ck_assert_int_eq(write(message.fd, "x", 1), 1);
	ck_assert(fcntl(message.fd, F_GETFD) & FD_CLOEXEC);
	channel_message_done(&message);
	ck_assert_int_eq(message.fd, -1);
	ck_assert(channel_receive(&pair.right, &message));
	ck_assert_int_eq(message.kind, HANDOVER_END);
	ck_assert_int_eq(message.fd, -1);
	channel_message_done(&message);
	close(ends[0]);
	pair_close(&pair);
}
END_TEST

/* More than the socket buffers: the other side must read concurrently. */
START_TEST(a_long_message)
{
	size_t size = (size_t)3 * 1024 * 1024;
	struct channel_message message;
	struct pair pair;
	char *text = malloc(size);
	pid_t child;
	int status;

	memset(text, 'x', size);
	pair_open(&pair);
	child = fork();
	if (child == 0)
		_exit(channel_send(&pair.left, HANDOVER_STATEMENT, bytes_of(text, size), -1) ? 0
		                                                                             : 1);
	ck_assert(channel_receive(&pair.right, &message));
	ck_assert(bytes_equal(buf_bytes(&message.body), bytes_of(text, size)));
	channel_message_done(&message);
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
	free(text);
	pair_close(&pair);
}
END_TEST

START_TEST(every_cut_is_an_end)
{
	static const char whole[] = "c\0\0\0\10abcd";
	struct channel_message message;

	for (size_t cut = 0; cut < sizeof(whole) - 1; cut++) {
		struct pair pair;

		pair_open(&pair);
		ck_assert_int_eq(write(pair.left.fd, whole, cut), (ssize_t)cut);
		shutdown(pair.left.fd, SHUT_WR);
		ck_assert_msg(!channel_receive(&pair.right, &message), "cut at %zu", cut);
		ck_assert(pair.right.is_deaf);
		/* The other side may still receive. */
		ck_assert(channel_send(&pair.right, HANDOVER_GO, bytes_of("", 0), -1));
		ck_assert(channel_receive(&pair.left, &message));
		channel_message_done(&message);
		pair_close(&pair);
	}
}
END_TEST

/* A closed peer cannot receive any more, but its messages are still read. */
START_TEST(what_was_said_before_the_end_is_heard)
{
	struct channel_message message;
	struct pair pair;

	pair_open(&pair);
	ck_assert(channel_send(&pair.right, HANDOVER_STOP, bytes_text("x"), -1));
	close(pair.right.fd);
	pair.right.fd = -1;
	ck_assert(!channel_send(&pair.left, HANDOVER_END, bytes_of("", 0), -1));
	ck_assert_ptr_nonnull(strstr(pair.left.err.text, "cannot send"));
	ck_assert(!channel_send(&pair.left, HANDOVER_END, bytes_of("", 0), -1));
	pair.left.deadline = 0;
	ck_assert(channel_receive(&pair.left, &message));
	ck_assert_int_eq(message.kind, HANDOVER_STOP);
	ck_assert(bytes_are(buf_bytes(&message.body), "x"));
	channel_message_done(&message);
	ck_assert(!channel_receive(&pair.left, &message));
	ck_assert_ptr_nonnull(strstr(pair.left.err.text, "cannot send"));
	pair_close(&pair);
}
END_TEST

static const char *const lengths[] = { "c\0\0\0\0", "c\0\0\0\3", "c\377\377\377\377",
	                               "c\100\0\0\0" };

START_TEST(lengths_that_cannot_be)
{
	struct channel_message message;
	struct pair pair;

	pair_open(&pair);
	ck_assert_int_eq(write(pair.left.fd, lengths[_i], 5), 5);
	ck_assert(!channel_receive(&pair.right, &message));
	ck_assert_str_eq(pair.right.err.text, "protocol error in the hand-over: impossible length");
	pair_close(&pair);
}
END_TEST

START_TEST(who_is_silent_is_not_waited_for_ever)
{
	struct channel_message message;
	struct pair pair;

	pair_open(&pair);
	pair.right.deadline = clock_now();
	ck_assert(!channel_receive(&pair.right, &message));
	ck_assert_ptr_nonnull(strstr(pair.right.err.text, "does not respond"));
	/* Nothing was cut: what comes later is understood. */
	ck_assert(channel_send(&pair.left, HANDOVER_GO, bytes_of("", 0), -1));
	ck_assert(channel_receive(&pair.right, &message));
	ck_assert_int_eq(message.kind, HANDOVER_GO);
	channel_message_done(&message);
	pair_close(&pair);
}
END_TEST

/* Half a message is: what follows it could be anything. */
START_TEST(half_a_message_is_not_waited_for_ever)
{
	struct channel_message message;
	struct pair pair;

	pair_open(&pair);
	pair.right.deadline = clock_now();
	ck_assert_int_eq(write(pair.left.fd, "c\0\0\0\10ab", 7), 7);
	ck_assert(!channel_receive(&pair.right, &message));
	ck_assert(pair.right.is_deaf);
	ck_assert_ptr_nonnull(strstr(pair.right.err.text, "does not respond"));
	ck_assert(!channel_is_gone(&pair.right));
	pair_close(&pair);
}
END_TEST

START_TEST(only_a_closed_descriptor_is_gone)
{
	struct pair pair;

	pair_open(&pair);
	ck_assert(!channel_is_gone(&pair.left));
	ck_assert(channel_send(&pair.right, HANDOVER_STOP, bytes_text("x"), -1));
	shutdown(pair.right.fd, SHUT_WR);
	ck_assert(!channel_is_gone(&pair.left));
	close(pair.right.fd);
	pair.right.fd = -1;
	ck_assert(channel_is_gone(&pair.left));
	pair_close(&pair);
}
END_TEST

/* Of several descriptors in one message, one is kept and the others are closed. */
START_TEST(descriptors_that_nobody_asked_for)
{
	_Alignas(struct cmsghdr) char room[CMSG_SPACE(3 * sizeof(int))] = { 0 };
	struct iovec piece = { "c\0\0\0\4", 5 };
	struct msghdr head = { .msg_iov = &piece,
		               .msg_iovlen = 1,
		               .msg_control = room,
		               .msg_controllen = sizeof(room) };
	struct cmsghdr *control = CMSG_FIRSTHDR(&head);
	struct channel_message message;
	int fds[3], first_free;
	struct pair pair;

	pair_open(&pair);
	for (int i = 0; i < 3; i++)
		fds[i] = dup(pair.left.fd);
	control->cmsg_level = SOL_SOCKET;
	control->cmsg_type = SCM_RIGHTS;
	control->cmsg_len = CMSG_LEN(sizeof(fds));
	memcpy(CMSG_DATA(control), fds, sizeof(fds));
	ck_assert_int_eq(sendmsg(pair.left.fd, &head, 0), 5);
	for (int i = 0; i < 3; i++)
		close(fds[i]);
	first_free = fds[0];
	ck_assert(channel_receive(&pair.right, &message));
	ck_assert_int_eq(message.fd, first_free);
	ck_assert(is_open(fds[0]) && !is_open(fds[1]) && !is_open(fds[2]));
	channel_message_done(&message);
	ck_assert(!is_open(fds[0]));
	pair_close(&pair);
}
END_TEST

/* It arrived with a truncated message: it is closed. */
START_TEST(a_descriptor_of_half_a_message)
{
	struct channel_message message;
	struct pair pair;
	int fd, free_fd;

	pair_open(&pair);
	fd = dup(pair.left.fd);
	ck_assert(channel_send(&pair.left, HANDOVER_CLIENT, bytes_text("body"), fd));
	close(fd);
	free_fd = fd;
	pair.right.deadline = clock_now() + LIMIT;
	ck_assert(channel_receive(&pair.right, &message));
	channel_message_done(&message);
	ck_assert(!is_open(free_fd));
	pair_close(&pair);
}
END_TEST

/* More than the list begins with; the descriptors are closed with it. */
START_TEST(messages_are_kept_in_order)
{
	struct channel_messages kept = { 0 };
	struct channel_message message;
	struct pair pair;
	char text[16];
	int first_fd = -1;

	pair_open(&pair);
	pair.right.deadline = clock_now() + LIMIT;
	for (int i = 0; i < 300; i++) {
		snprintf(text, sizeof(text), "%d", i);
		ck_assert(channel_send(&pair.left, HANDOVER_CANCEL, bytes_text(text),
		                       i == 0 ? pair.left.fd : -1));
		ck_assert(channel_receive(&pair.right, &message));
		if (i == 0)
			first_fd = message.fd;
		ck_assert(channel_messages_add(&kept, &message));
	}
	ck_assert_uint_eq(kept.count, 300);
	for (int i = 0; i < 300; i++) {
		snprintf(text, sizeof(text), "%d", i);
		ck_assert_str_eq(buf_text(&kept.at[i].body), text);
	}
	ck_assert(is_open(first_fd));
	channel_messages_done(&kept);
	ck_assert(!is_open(first_fd));
	ck_assert_uint_eq(kept.count, 0);
	pair_close(&pair);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("net/channel");
	TCase *tests = tcase_create("channel");

	suite_add_tcase(suite, tests);
	tcase_add_test(tests, a_message_with_its_descriptor);
	tcase_add_test(tests, a_long_message);
	tcase_add_test(tests, every_cut_is_an_end);
	tcase_add_test(tests, what_was_said_before_the_end_is_heard);
	tcase_add_loop_test(tests, lengths_that_cannot_be, 0, COUNT_OF(lengths));
	tcase_add_test(tests, who_is_silent_is_not_waited_for_ever);
	tcase_add_test(tests, half_a_message_is_not_waited_for_ever);
	tcase_add_test(tests, only_a_closed_descriptor_is_gone);
	tcase_add_test(tests, descriptors_that_nobody_asked_for);
	tcase_add_test(tests, a_descriptor_of_half_a_message);
	tcase_add_test(tests, messages_are_kept_in_order);
	return unit_run(suite);
}
