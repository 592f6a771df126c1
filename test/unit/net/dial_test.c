/* SPDX-License-Identifier: ISC */
/*
 * net/dial.c against sockets of our own on loopback.
 */
#include "pgweir/net/dial.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/un.h>
#include <unistd.h>

#include "../unit.h"

struct dialled {
	struct dial dial;
	unsigned int count;
	int fd;
	struct err err;
	bool is_starting; /* no response may arrive in this time */
};

static void on_done(struct dial *dial, int fd, const struct err *err)
{
	struct dialled *dialled = (struct dialled *)dial;

	ck_assert(!dialled->is_starting);
	ck_assert(!dial->is_active);
	ck_assert((fd >= 0) == (err == NULL));
	dialled->count++;
	dialled->fd = fd;
	if (err)
		dialled->err = *err;
	loop_stop(dial->watch.loop);
}

/* Listens on loopback, at *address. */
static int make_tcp(struct address *address, const char *host)
{
	int fd;

	ck_assert(address_parse(address, host, 0));
	fd = socket_open(address->family);
	ck_assert_int_eq(bind(fd, address_sockaddr(address), address_sockaddr_size(address)), 0);
	ck_assert(address_of_self(address, fd, 0));
	return fd;
}

static void start(struct dialled *dialled, struct loop *loop, const struct address *address,
                  const struct socket_options *options)
{
	dialled->is_starting = true;
	dial_start(&dialled->dial, loop, address, NULL, options, on_done);
	dialled->is_starting = false;
}

static void start_unix(struct dialled *dialled, struct loop *loop, const char *path)
{
	dialled->is_starting = true;
	dial_start(&dialled->dial, loop, NULL, path, NULL, on_done);
	dialled->is_starting = false;
}

START_TEST(dial_reaches_tcp)
{
	struct loop *loop = loop_new(NULL);
	struct socket_options options = { .tcp_keepalive = true, .tcp_keepidle = 77 };
	struct dialled dialled = { 0 };
	struct address address, peer;
	int listening = make_tcp(&address, "127.0.0.1"), idle = 0;
	socklen_t size = sizeof(idle);

	ck_assert_int_eq(listen(listening, 4), 0);
	start(&dialled, loop, &address, &options);
	loop_run(loop);
	ck_assert_int_eq(dialled.count, 1);
	ck_assert(address_of_peer(&peer, dialled.fd, 0));
	ck_assert(address_equal(&peer, &address));
	ck_assert_int_eq(getsockopt(dialled.fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, &size), 0);
	ck_assert_int_eq(idle, 77);
	close(dialled.fd);
	close(listening);
	loop_free(&loop);
}
END_TEST

START_TEST(dial_is_refused_by_tcp)
{
	struct loop *loop = loop_new(NULL);
	struct dialled dialled = { 0 };
	struct address address;
	int bound = make_tcp(&address, "127.0.0.1"); /* bound, but not listening */

	start(&dialled, loop, &address, NULL);
	loop_run(loop);
	ck_assert_int_eq(dialled.fd, -1);
	ck_assert_int_eq(dialled.err.code, ERR_SERVER_CONNECT);
	ck_assert_str_eq(dialled.err.text, "connect failed: Connection refused");
	close(bound);
	loop_free(&loop);
}
END_TEST

static int make_unix(const char *path, int backlog)
{
	struct sockaddr_un name;
	socklen_t size;
	int fd = socket_open(AF_UNIX);

	ck_assert(address_unix_name(&name, &size, path, NULL));
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&name, size), 0);
	ck_assert_int_eq(listen(fd, backlog), 0);
	return fd;
}

START_TEST(dial_reaches_unix)
{
	struct loop *loop = loop_new(NULL);
	struct dialled dialled = { 0 };
	char directory[] = "/tmp/pgweir-dial-XXXXXX", path[64];
	int listening;

	ck_assert_ptr_nonnull(mkdtemp(directory));
	snprintf(path, sizeof(path), _i ? "@%s/socket" : "%s/socket", directory);
	listening = make_unix(path, 4);
	start_unix(&dialled, loop, path);
	loop_run(loop);
	ck_assert_int_ge(dialled.fd, 0);
	close(dialled.fd);
	close(listening);
	unlink(path);
	start_unix(&dialled, loop, path);
	loop_run(loop);
	ck_assert_int_eq(dialled.fd, -1);
	ck_assert_int_eq(dialled.err.code, ERR_SERVER_CONNECT);
	ck_assert_uint_eq(dialled.count, 2);
	rmdir(directory);
	loop_free(&loop);
}
END_TEST

START_TEST(dial_does_not_wait_for_a_full_backlog)
{
	struct loop *loop = loop_new(NULL);
	struct dialled first = { 0 }, second = { 0 };
	char path[64];
	int listening;

	snprintf(path, sizeof(path), "@pgweir-dial-%d", (int)getpid());
	listening = make_unix(path, 0);
	start_unix(&first, loop, path);
	start_unix(&second, loop, path);
	loop_run(loop);
	ck_assert_int_ge(first.fd, 0);
	ck_assert_int_eq(second.fd, -1);
	ck_assert_str_eq(second.err.text, "connect failed: the server's backlog is full");
	close(first.fd);
	close(listening);
	loop_free(&loop);
}
END_TEST

static void stop(struct task *task)
{
	struct dialled *dialled = (struct dialled *)((char *)task - sizeof(struct dialled));

	loop_stop(dialled->dial.watch.loop);
}

START_TEST(dial_cancelled_stays_silent)
{
	struct loop *loop = loop_new(NULL);
	struct {
		struct dialled dialled;
		struct task task;
	} pair = { .task.run = stop };
	struct address address;
	int listening = make_tcp(&address, "127.0.0.1"), before = dup(0), after;

	ck_assert_int_eq(listen(listening, 4), 0);
	close(before);
	dial_cancel(&pair.dialled.dial); /* idle */
	start(&pair.dialled, loop, &address, NULL);
	dial_cancel(&pair.dialled.dial);
	start_unix(&pair.dialled, loop, "@pgweir-nobody");
	dial_cancel(&pair.dialled.dial);
	dial_cancel(&pair.dialled.dial);
	loop_defer(loop, &pair.task);
	loop_run(loop);
	ck_assert_uint_eq(pair.dialled.count, 0);
	after = dup(0);
	ck_assert_int_eq(after, before); /* no descriptor is left open */
	close(after);
	close(listening);
	loop_free(&loop);
}
END_TEST

START_TEST(dial_without_descriptors_says_so)
{
	struct loop *loop = loop_new(NULL);
	struct dialled dialled = { 0 };
	struct address address;
	struct rlimit before, none;

	ck_assert(address_parse(&address, "127.0.0.1", 1));
	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = (struct rlimit){ .rlim_cur = 0, .rlim_max = before.rlim_max };
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
	start(&dialled, loop, &address, NULL);
	loop_run(loop);
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
	ck_assert_int_eq(dialled.err.code, ERR_FILES);
	loop_free(&loop);
}
END_TEST

START_TEST(dial_refuses_a_name_too_long)
{
	struct loop *loop = loop_new(NULL);
	struct dialled dialled = { 0 };
	char path[300];

	memset(path, 'x', sizeof(path) - 1);
	path[sizeof(path) - 1] = 0;
	start_unix(&dialled, loop, path);
	loop_run(loop);
	ck_assert_int_eq(dialled.fd, -1);
	ck_assert_ptr_nonnull(strstr(dialled.err.text, strerror(ENAMETOOLONG)));
	loop_free(&loop);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("net/dial");
	TCase *cases = tcase_create("dial");

	tcase_set_timeout(cases, 20);
	tcase_add_test(cases, dial_reaches_tcp);
	tcase_add_test(cases, dial_is_refused_by_tcp);
	tcase_add_loop_test(cases, dial_reaches_unix, 0, 2);
	tcase_add_test(cases, dial_does_not_wait_for_a_full_backlog);
	tcase_add_test(cases, dial_cancelled_stays_silent);
	tcase_add_test(cases, dial_without_descriptors_says_so);
	tcase_add_test(cases, dial_refuses_a_name_too_long);
	suite_add_tcase(suite, cases);
	return unit_run(suite);
}
