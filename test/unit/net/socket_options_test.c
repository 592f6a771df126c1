/* SPDX-License-Identifier: ISC */
/*
 * Options of sockets (net/dial.c), and that accepted sockets inherit options on Linux: pgweir
 * relies on this and sets nothing for each accepted connection.
 */
#include "pgweir/net/dial.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../unit.h"

static int get(int fd, int level, int option)
{
	int value = -1;
	socklen_t size = sizeof(value);

	ck_assert_int_eq(getsockopt(fd, level, option, &value, &size), 0);
	return value;
}

static int make_listening(struct sockaddr_in *name)
{
	socklen_t size = sizeof(*name);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	*name = (struct sockaddr_in){ .sin_family = AF_INET };
	name->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	ck_assert_int_eq(bind(fd, (struct sockaddr *)name, size), 0);
	ck_assert_int_eq(listen(fd, 4), 0);
	ck_assert_int_eq(getsockname(fd, (struct sockaddr *)name, &size), 0);
	return fd;
}

START_TEST(options_are_inherited_by_accepted_sockets)
{
	struct socket_options options = { .tcp_keepalive = true,
		                          .tcp_keepcnt = 3,
		                          .tcp_keepidle = 41,
		                          .tcp_keepintvl = 17,
		                          .tcp_user_timeout = 12345,
		                          .tcp_socket_buffer = 40000 };
	struct sockaddr_in name;
	int listening = make_listening(&name), near = socket(AF_INET, SOCK_STREAM, 0), far;

	socket_options_apply(listening, &options);
	ck_assert_int_eq(connect(near, (struct sockaddr *)&name, sizeof(name)), 0);
	far = accept(listening, NULL, NULL);
	ck_assert_int_ge(far, 0);
	ck_assert_int_eq(get(far, IPPROTO_TCP, TCP_NODELAY), 1);
	ck_assert_int_eq(get(far, SOL_SOCKET, SO_KEEPALIVE), 1);
	ck_assert_int_eq(get(far, IPPROTO_TCP, TCP_KEEPCNT), 3);
	ck_assert_int_eq(get(far, IPPROTO_TCP, TCP_KEEPIDLE), 41);
	ck_assert_int_eq(get(far, IPPROTO_TCP, TCP_KEEPINTVL), 17);
	ck_assert_int_eq(get(far, IPPROTO_TCP, TCP_USER_TIMEOUT), 12345);
	ck_assert_int_eq(get(far, SOL_SOCKET, SO_RCVBUF), 80000); /* the kernel doubles it */
	ck_assert_int_eq(get(far, SOL_SOCKET, SO_SNDBUF), 80000);
	close(near);
	close(far);
	close(listening);
}
END_TEST

START_TEST(options_of_zero_leave_the_systems_value)
{
	struct socket_options options = { .tcp_keepalive = true };
	int fd = socket_open(AF_INET), idle = get(fd, IPPROTO_TCP, TCP_KEEPIDLE);

	socket_options_apply(fd, &options);
	ck_assert_int_eq(get(fd, IPPROTO_TCP, TCP_KEEPIDLE), idle);
	ck_assert_int_eq(get(fd, SOL_SOCKET, SO_KEEPALIVE), 1);
	options.tcp_keepalive = false;
	socket_options_apply(fd, &options);
	ck_assert_int_eq(get(fd, SOL_SOCKET, SO_KEEPALIVE), 0);
	ck_assert(fcntl(fd, F_GETFL) & O_NONBLOCK);
	ck_assert(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	close(fd);
}
END_TEST

START_TEST(options_that_are_refused_are_skipped)
{
	struct socket_options options = { .tcp_keepalive = true,
		                          .tcp_keepcnt = 100000,
		                          .tcp_keepintvl = 19 };
	int fd = socket_open(AF_INET);

	socket_options_apply(fd, &options);
	ck_assert_int_eq(get(fd, IPPROTO_TCP, TCP_KEEPINTVL), 19);
	close(fd);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("net/socket_options");
	TCase *cases = tcase_create("socket_options");

	tcase_add_test(cases, options_are_inherited_by_accepted_sockets);
	tcase_add_test(cases, options_of_zero_leave_the_systems_value);
	tcase_add_test(cases, options_that_are_refused_are_skipped);
	suite_add_tcase(suite, cases);
	return unit_run(suite);
}
