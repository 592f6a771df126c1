/* SPDX-License-Identifier: ISC */
/*
 * net/listener.c on loopback and in a private directory.
 */
#include "pgweir/net/listener.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "../unit.h"

#define MANY 200

struct house {
	struct loop *loop;
	struct listener *listener;
	struct log *log;
	char directory[32];
	char log_path[64];
	char unix_path[ADDRESS_UNIX_PATH_SIZE];
	struct listener_options options;
	int fds[MANY]; /* accepted */
	struct address peers[MANY];
	unsigned int count;
	unsigned int stop_at; /* loop_stop() after this many */
	bool pauses;          /* after each accepted connection */
	bool closes_tcp;
};

static void on_accept(void *arg, int fd, const struct address *peer)
{
	struct house *house = arg;

	ck_assert(fcntl(fd, F_GETFL) & O_NONBLOCK);
	ck_assert(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	house->fds[house->count] = fd;
	house->peers[house->count++] = *peer;
	if (house->pauses)
		listener_accept(house->listener, false);
	if (house->closes_tcp)
		listener_close_tcp(house->listener);
	if (house->count == house->stop_at)
		loop_stop(house->loop);
}

/* Of the first TCP socket; 0: there is none. */
static uint16_t port_of(const struct listener *listener)
{
	struct address address;
	uint16_t port = 0;

	for (size_t i = 0; !port && listener_fd(listener, i, &address) >= 0; i++)
		port = address_port(&address);
	return port;
}

static void set_up(struct house *house)
{
	*house = (struct house){ .directory = "/tmp/pgweir-listen-XXXXXX" };
	ck_assert_ptr_nonnull(mkdtemp(house->directory));
	snprintf(house->log_path, sizeof(house->log_path), "%s/log", house->directory);
	house->loop = loop_new(NULL);
	house->log = log_new();
	ck_assert(
	    log_configure(house->log, &(struct log_options){ .file = house->log_path }, NULL));
	house->options = (struct listener_options){ .backlog = 128,
		                                    .unix_mode = 0700,
		                                    .on_accept = on_accept,
		                                    .arg = house,
		                                    .log = { .log = house->log } };
}

static void use_unix(struct house *house, const char *directory)
{
	house->options.unix_path =
	    address_unix_path(house->unix_path, directory, house->options.port);
}

static bool open_house(struct house *house, struct err *err)
{
	struct err own;

	house->listener = listener_open(house->loop, &house->options, err ? err : &own);
	return house->listener != NULL;
}

static void tear_down(struct house *house)
{
	for (unsigned int i = 0; i < house->count; i++)
		close(house->fds[i]);
	listener_free(&house->listener);
	log_free(&house->log);
	unlink(house->log_path);
	ck_assert_int_eq(rmdir(house->directory), 0); /* none of our files remain */
	loop_free(&house->loop);
}

/* Changes the limit on open descriptors; returns the old one. */
static rlim_t set_limit(rlim_t limit)
{
	struct rlimit files;
	rlim_t before;

	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &files), 0);
	before = files.rlim_cur;
	files.rlim_cur = limit;
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &files), 0);
	return before;
}

static unsigned int count_in_log(struct house *house, const char *words)
{
	static char text[65536];
	FILE *file;
	rlim_t before;
	unsigned int count = 0;

	before = set_limit(1024);
	file = fopen(house->log_path, "re");
	set_limit(before);
	ck_assert_ptr_nonnull(file);
	text[fread(text, 1, sizeof(text) - 1, file)] = 0;
	fclose(file);
	for (const char *at = text; (at = strstr(at, words)); at++)
		count++;
	return count;
}

static int knock_tcp(const char *host, uint16_t port)
{
	struct address address;
	int fd;

	ck_assert(address_parse(&address, host, port));
	fd = socket(address.family, SOCK_STREAM, 0);
	ck_assert_int_ge(fd, 0);
	if (connect(fd, address_sockaddr(&address), address_sockaddr_size(&address)) == 0)
		return fd;
	close(fd);
	return -1;
}

static int knock_unix(const char *path)
{
	struct sockaddr_un name;
	socklen_t size;
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	ck_assert(address_unix_name(&name, &size, path, NULL));
	if (connect(fd, (struct sockaddr *)&name, size) == 0)
		return fd;
	close(fd);
	return -1;
}

/* With a shared port, or with a private one. */
static void wait_outside(struct house *house, int *near, int count)
{
	set_up(house);
	house->options.addresses = "127.0.0.1";
	house->options.reuse_port = true;
	ck_assert(open_house(house, NULL));
	for (int i = 0; i < count; i++) {
		near[i] = knock_tcp("127.0.0.1", port_of(house->listener));
		ck_assert_int_ge(near[i], 0);
	}
}

/* They are in the kernel's backlog, and would be reset. */
START_TEST(who_waits_outside_comes_in_before_the_door_is_closed)
{
	struct house house;
	int near[20];

	wait_outside(&house, near, 20);
	house.closes_tcp = _i; /* also from within a callback */
	listener_close_tcp(house.listener);
	ck_assert_uint_eq(house.count, 20);
	ck_assert_uint_eq(listener_count(house.listener), 0);
	for (int i = 0; i < 20; i++)
		close(near[i]);
	tear_down(&house);
}
END_TEST

START_TEST(a_shared_port_is_left_and_taken_again)
{
	struct house house;
	uint16_t port;
	int near[3];

	wait_outside(&house, near, 3);
	port = port_of(house.listener);
	listener_unlisten(house.listener);
	ck_assert_uint_eq(house.count, 3);
	ck_assert_uint_eq(listener_count(house.listener), 0);
	ck_assert_int_lt(knock_tcp("127.0.0.1", port), 0);
	listener_relisten(house.listener);
	ck_assert_uint_eq(port_of(house.listener), port);
	close(near[0]);
	near[0] = knock_tcp("127.0.0.1", port);
	ck_assert_int_ge(near[0], 0);
	house.stop_at = 4;
	loop_run(house.loop);
	listener_unlisten(house.listener);
	listener_close_tcp(house.listener); /* permanently */
	listener_relisten(house.listener);
	ck_assert_uint_eq(listener_count(house.listener), 0);
	for (int i = 0; i < 3; i++)
		close(near[i]);
	tear_down(&house);
}
END_TEST

/* A socket at this address: the caller owns it. */
static int listen_at(const struct address *address)
{
	int fd = socket_open(address->family);

	ck_assert_int_ge(fd, 0);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){ 1 }, sizeof(int));
	setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &(int){ 1 }, sizeof(int));
	ck_assert_int_eq(bind(fd, address_sockaddr(address), address_sockaddr_size(address)), 0);
	ck_assert_int_eq(listen(fd, 5), 0);
	return fd;
}

START_TEST(what_is_inherited_is_used_at_the_beginning_only)
{
	struct house house;
	struct address address;
	int inherited[1];

	set_up(&house);
	ck_assert(address_parse(&address, "127.0.0.1", 0));
	inherited[0] = listen_at(&address);
	ck_assert(address_of_self(&address, inherited[0], 0));
	house.options.addresses = "127.0.0.1";
	house.options.port = address_port(&address);
	house.options.reuse_port = true;
	house.options.inherited = inherited;
	house.options.inherited_count = 1;
	ck_assert(open_house(&house, NULL));
	ck_assert_int_eq(inherited[0], -1);
	listener_unlisten(house.listener);
	inherited[0] = listen_at(&address);
	listener_relisten(house.listener);
	ck_assert_int_ge(inherited[0], 0);
	ck_assert_uint_eq(port_of(house.listener), address_port(&address));
	close(inherited[0]);
	tear_down(&house);
}
END_TEST

START_TEST(a_port_of_our_own_stays_open)
{
	struct house house;

	set_up(&house);
	house.options.addresses = "127.0.0.1";
	ck_assert(open_house(&house, NULL));
	listener_unlisten(house.listener);
	ck_assert_uint_eq(listener_count(house.listener), 1);
	listener_relisten(house.listener);
	ck_assert_uint_eq(listener_count(house.listener), 1);
	tear_down(&house);
}
END_TEST

START_TEST(tcp_clients_come_in)
{
	struct house house;
	struct address self;
	int near;

	set_up(&house);
	house.options.addresses = "127.0.0.1";
	house.stop_at = 1;
	ck_assert(open_house(&house, NULL));
	ck_assert_uint_eq(listener_count(house.listener), 1);
	near = knock_tcp("127.0.0.1", port_of(house.listener));
	loop_run(house.loop);
	ck_assert(address_of_self(&self, near, 0));
	ck_assert(address_equal(&self, &house.peers[0]));
	ck_assert_uint_eq(count_in_log(&house, "LOG listening on 127.0.0.1:"), 1);
	close(near);
	tear_down(&house);
}
END_TEST

START_TEST(all_addresses_means_both_families)
{
	struct house house;
	int near;

	set_up(&house);
	house.options.addresses = "*";
	house.stop_at = 1;
	ck_assert(open_house(&house, NULL));
	ck_assert_uint_ge(listener_count(house.listener), 1);
	near = knock_tcp("127.0.0.1", port_of(house.listener));
	loop_run(house.loop);
	ck_assert_uint_eq(house.peers[0].family,
	                  AF_INET); /* never ::ffff: IPv6 sockets are IPv6 only */
	close(near);
	tear_down(&house);
}
END_TEST

START_TEST(names_are_resolved_at_start)
{
	struct house house;

	set_up(&house);
	house.options.addresses = " localhost , ";
	ck_assert(open_house(&house, NULL));
	ck_assert_uint_ge(listener_count(house.listener), 1);
	tear_down(&house);
}
END_TEST

START_TEST(one_address_that_fails_is_a_warning)
{
	struct house house;

	set_up(&house);
	house.options.addresses = "240.0.0.1,127.0.0.1,no.such.name.invalid";
	ck_assert(open_house(&house, NULL));
	ck_assert_uint_eq(listener_count(house.listener), 1);
	ck_assert_uint_eq(count_in_log(&house, "WARNING cannot listen on 240.0.0.1:0: "), 1);
	ck_assert_uint_eq(count_in_log(&house, "WARNING cannot listen on no.such.name.invalid: "),
	                  1);
	tear_down(&house);
}
END_TEST

START_TEST(all_addresses_that_fail_are_an_error)
{
	struct house house;
	struct err err;

	set_up(&house);
	house.options.addresses = "240.0.0.1,240.0.0.2";
	ck_assert(!open_house(&house, &err));
	ck_assert_str_eq(err.text,
	                 "cannot listen on any address of listen_addr = 240.0.0.1,240.0.0.2");
	tear_down(&house);
}
END_TEST

START_TEST(no_address_is_no_error)
{
	struct house house;

	set_up(&house);
	ck_assert(open_house(&house, NULL));
	ck_assert_uint_eq(listener_count(house.listener), 0);
	ck_assert_uint_eq(port_of(house.listener), 0);
	tear_down(&house);
}
END_TEST

START_TEST(a_port_in_use_is_refused_unless_it_is_shared)
{
	struct house first, second;

	set_up(&first);
	set_up(&second);
	first.options.addresses = second.options.addresses = "127.0.0.1";
	first.options.reuse_port = second.options.reuse_port = _i;
	ck_assert(open_house(&first, NULL));
	second.options.port = port_of(first.listener);
	ck_assert_int_eq(open_house(&second, NULL), _i);
	tear_down(&first);
	tear_down(&second);
}
END_TEST

/* ---- Unix sockets ---- */

START_TEST(unix_clients_come_in)
{
	struct house house;
	struct stat found;
	char path[64];
	int near;

	set_up(&house);
	house.options.unix_mode = 0751;
	house.options.unix_group = "0";
	house.options.port = 6432;
	use_unix(&house, house.directory);
	house.stop_at = 1;
	if (getuid() != 0)
		house.options.unix_group = NULL;
	ck_assert(open_house(&house, NULL));
	snprintf(path, sizeof(path), "%s/.s.PGSQL.6432", house.directory);
	ck_assert_int_eq(lstat(path, &found), 0);
	ck_assert_uint_eq(found.st_mode & 07777, 0751);
	near = knock_unix(path);
	loop_run(house.loop);
	ck_assert(address_is_unix(&house.peers[0]));
	ck_assert_int_eq(house.peers[0].un.pid, getpid());
	ck_assert_uint_eq(address_port(&house.peers[0]), 6432);
	ck_assert_uint_eq(count_in_log(&house, "listening on unix:/tmp/pgweir-listen-"), 1);
	close(near);
	tear_down(&house); /* the directory must be empty */
}
END_TEST

START_TEST(unix_abstract_clients_come_in)
{
	struct house house;
	char directory[64], path[80];
	int near;

	set_up(&house);
	snprintf(directory, sizeof(directory), "@pgweir-%d", (int)getpid());
	snprintf(path, sizeof(path), "%s/.s.PGSQL.1", directory);
	house.options.unix_group = "no-such-group"; /* there is no file whose group could be set */
	house.options.port = 1;
	use_unix(&house, directory);
	house.stop_at = 1;
	ck_assert(open_house(&house, NULL));
	near = knock_unix(path);
	ck_assert_int_ge(near, 0);
	loop_run(house.loop);
	ck_assert_uint_eq(house.count, 1);
	close(near);
	tear_down(&house);
}
END_TEST

START_TEST(unix_socket_in_use_is_refused)
{
	struct house first, second;
	struct err err;

	set_up(&first);
	set_up(&second);
	first.options.port = second.options.port = 7;
	use_unix(&first, first.directory);
	use_unix(&second, first.directory);
	ck_assert(open_house(&first, NULL));
	ck_assert(!open_house(&second, &err));
	ck_assert_ptr_nonnull(
	    strstr(err.text, ".s.PGSQL.7 is in use: another process accepts connections on it"));
	tear_down(&second);
	tear_down(&first); /* its file is still there for it to remove */
}
END_TEST

START_TEST(unix_socket_that_is_stale_is_replaced)
{
	struct house house;
	struct sockaddr_un name;
	socklen_t size;
	char path[64];
	int fd;

	set_up(&house);
	use_unix(&house, house.directory);
	snprintf(path, sizeof(path), "%s/.s.PGSQL.0", house.directory);
	fd = socket_open(AF_UNIX);
	ck_assert(address_unix_name(&name, &size, path, NULL));
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&name, size), 0);
	close(fd);
	ck_assert_int_eq(access(path, F_OK), 0);
	ck_assert(open_house(&house, NULL));
	fd = knock_unix(path);
	ck_assert_int_ge(fd, 0);
	close(fd);
	tear_down(&house);
}
END_TEST

static const struct {
	const char *suffix;
	const char *says;
} obstacles[] = {
	{ ".lock", ".s.PGSQL.0.lock exists" },
	{ "", "exists and is not a socket" },
};

START_TEST(unix_socket_with_an_obstacle_is_refused)
{
	struct house house;
	struct err err;
	char path[64];
	FILE *file;

	set_up(&house);
	use_unix(&house, house.directory);
	house.options.addresses = "127.0.0.1";
	snprintf(path, sizeof(path), "%s/.s.PGSQL.0%s", house.directory, obstacles[_i].suffix);
	file = fopen(path, "we");
	ck_assert_ptr_nonnull(file);
	fclose(file);
	ck_assert(!open_house(&house, &err));
	ck_assert_ptr_nonnull(strstr(err.text, obstacles[_i].says));
	ck_assert_int_eq(unlink(path), 0);
	tear_down(&house);
}
END_TEST

START_TEST(unix_socket_of_another_is_left_to_it)
{
	struct house house;
	char path[64];
	FILE *file;

	set_up(&house);
	use_unix(&house, house.directory);
	ck_assert(open_house(&house, NULL));
	snprintf(path, sizeof(path), "%s/.s.PGSQL.0", house.directory);
	ck_assert_int_eq(unlink(path), 0);
	file = fopen(path, "we");
	fclose(file);
	listener_free(&house.listener);
	ck_assert_int_eq(unlink(path), 0);
	tear_down(&house);
}
END_TEST

START_TEST(unix_group_must_be_there)
{
	struct house house;
	struct err err;

	set_up(&house);
	use_unix(&house, house.directory);
	house.options.unix_group = "no-such-group";
	ck_assert(!open_house(&house, &err));
	ck_assert_str_eq(err.text, "unix_socket_group: no such group: no-such-group");
	tear_down(&house);
}
END_TEST

/* ---- accepting ---- */

static void on_bell(struct watch *watch, unsigned int what)
{
	(void)what;
	loop_stop(watch->loop);
	watch_done(watch);
}

/* Lets the loop handle all ready events. */
static void run_once(struct loop *loop)
{
	struct watch watch;
	int pair[2];

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	ck_assert_int_eq(write(pair[1], "x", 1), 1);
	watch_init(&watch, loop, pair[0], on_bell);
	ck_assert(watch_set(&watch, WATCH_READ));
	loop_run(loop);
	close(pair[0]);
	close(pair[1]);
}

START_TEST(pausing_leaves_them_waiting_outside)
{
	struct house house;
	int near[3];

	set_up(&house);
	house.options.addresses = "127.0.0.1";
	house.pauses = true;
	ck_assert(open_house(&house, NULL));
	for (int i = 0; i < 3; i++)
		near[i] = knock_tcp("127.0.0.1", port_of(house.listener));
	for (unsigned int i = 1; i <= 3; i++) {
		house.stop_at = i;
		loop_run(house.loop);
		run_once(house.loop);
		ck_assert_uint_eq(house.count, i);
		listener_accept(house.listener, true);
	}
	for (int i = 0; i < 3; i++)
		close(near[i]);
	tear_down(&house);
}
END_TEST

START_TEST(closing_tcp_from_within_leaves_the_unix_socket)
{
	struct house house;
	char path[64];
	uint16_t port;
	int near[2];

	set_up(&house);
	house.options.addresses = "127.0.0.1";
	use_unix(&house, house.directory);
	house.closes_tcp = true;
	house.stop_at = 2; /* the other one waits in the backlog: it is accepted first */
	ck_assert(open_house(&house, NULL));
	port = port_of(house.listener);
	near[0] = knock_tcp("127.0.0.1", port);
	near[1] = knock_tcp("127.0.0.1", port);
	loop_run(house.loop);
	ck_assert_uint_eq(listener_count(house.listener), 1);
	ck_assert_int_eq(knock_tcp("127.0.0.1", port), -1);
	close(near[0]);
	close(near[1]);
	snprintf(path, sizeof(path), "%s/.s.PGSQL.0", house.directory);
	near[0] = knock_unix(path);
	ck_assert_int_ge(near[0], 0);
	house.stop_at = 3;
	loop_run(house.loop);
	ck_assert(address_is_unix(&house.peers[2]));
	close(near[0]);
	tear_down(&house);
}
END_TEST

START_TEST(options_change_for_those_who_come_later)
{
	struct house house;
	struct socket_options socket = { .tcp_keepalive = true };
	int near[2], value[2];

	set_up(&house);
	house.options.addresses = "127.0.0.1";
	ck_assert(open_house(&house, NULL));
	for (int i = 0; i < 2; i++) {
		socklen_t size = sizeof(int);

		near[i] = knock_tcp("127.0.0.1", port_of(house.listener));
		house.stop_at = (unsigned int)i + 1;
		loop_run(house.loop);
		ck_assert_int_eq(
		    getsockopt(house.fds[i], SOL_SOCKET, SO_KEEPALIVE, &value[i], &size), 0);
		listener_set_options(house.listener, &socket, 0);
	}
	ck_assert_int_eq(value[0], 0);
	ck_assert_int_eq(value[1], 1);
	close(near[0]);
	close(near[1]);
	tear_down(&house);
}
END_TEST

static void run_until_resting(struct house *house)
{
	while (!listener_is_resting(house->listener))
		run_once(house->loop);
}

START_TEST(without_descriptors_it_rests_and_goes_on)
{
	struct house house;
	rlim_t before;
	int near[20], next;

	set_up(&house);
	house.options.addresses = "127.0.0.1";
	ck_assert(open_house(&house, NULL));
	for (int i = 0; i < 20; i++)
		near[i] = knock_tcp("127.0.0.1", port_of(house.listener));
	next = dup(0);
	close(next);
	/* Ten descriptors are free, including the pair that run_once() needs. */
	before = set_limit((rlim_t)next + 10);
	run_until_resting(&house);
	ck_assert_uint_ge(house.count, 1);
	ck_assert_uint_lt(house.count, 20);
	ck_assert_uint_eq(count_in_log(&house, "WARNING cannot accept connections: "), 1);
	/* One descriptor becomes free: one connection is accepted. */
	house.stop_at = house.count;
	close(house.fds[--house.count]);
	loop_run(house.loop);
	run_until_resting(&house);
	ck_assert_uint_eq(count_in_log(&house, "WARNING cannot accept connections: "), 1);
	ck_assert_uint_eq(count_in_log(&house, "accepting connections again"), 0);
	set_limit(before);
	house.stop_at = 19; /* one was closed above */
	loop_run(house.loop);
	run_once(house.loop);
	ck_assert_uint_eq(count_in_log(&house, "WARNING cannot accept connections: "), 1);
	ck_assert_uint_eq(count_in_log(&house, "accepting connections again"), 1);
	for (int i = 0; i < 20; i++)
		close(near[i]);
	tear_down(&house);
}
END_TEST

START_TEST(many_in_one_turn_do_not_keep_others_waiting)
{
	struct house house;
	int near[MANY];

	set_up(&house);
	house.options.addresses = "127.0.0.1";
	house.options.backlog = MANY;
	ck_assert(open_house(&house, NULL));
	for (int i = 0; i < 100; i++)
		near[i] = knock_tcp("127.0.0.1", port_of(house.listener));
	run_once(house.loop);
	ck_assert_uint_gt(house.count, 0);
	ck_assert_uint_lt(house.count, 100);
	house.stop_at = 100;
	loop_run(house.loop);
	for (int i = 0; i < 100; i++)
		close(near[i]);
	tear_down(&house);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("net/listener");
	TCase *cases = tcase_create("listener");

	tcase_set_timeout(cases, 30);
	tcase_add_test(cases, tcp_clients_come_in);
	tcase_add_loop_test(cases, who_waits_outside_comes_in_before_the_door_is_closed, 0, 2);
	tcase_add_test(cases, a_shared_port_is_left_and_taken_again);
	tcase_add_test(cases, what_is_inherited_is_used_at_the_beginning_only);
	tcase_add_test(cases, a_port_of_our_own_stays_open);
	tcase_add_test(cases, all_addresses_means_both_families);
	tcase_add_test(cases, names_are_resolved_at_start);
	tcase_add_test(cases, one_address_that_fails_is_a_warning);
	tcase_add_test(cases, all_addresses_that_fail_are_an_error);
	tcase_add_test(cases, no_address_is_no_error);
	tcase_add_loop_test(cases, a_port_in_use_is_refused_unless_it_is_shared, 0, 2);
	tcase_add_test(cases, unix_clients_come_in);
	tcase_add_test(cases, unix_abstract_clients_come_in);
	tcase_add_test(cases, unix_socket_in_use_is_refused);
	tcase_add_test(cases, unix_socket_that_is_stale_is_replaced);
	tcase_add_loop_test(cases, unix_socket_with_an_obstacle_is_refused, 0, COUNT_OF(obstacles));
	tcase_add_test(cases, unix_socket_of_another_is_left_to_it);
	tcase_add_test(cases, unix_group_must_be_there);
	tcase_add_test(cases, pausing_leaves_them_waiting_outside);
	tcase_add_test(cases, closing_tcp_from_within_leaves_the_unix_socket);
	tcase_add_test(cases, options_change_for_those_who_come_later);
	tcase_add_test(cases, without_descriptors_it_rests_and_goes_on);
	tcase_add_test(cases, many_in_one_turn_do_not_keep_others_waiting);
	suite_add_tcase(suite, cases);
	return unit_run(suite);
}
