/* SPDX-License-Identifier: ISC */
/*
 * main/process.c
 */
#include "../../../src/main/daemon_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pgweir/net/address.h"

#include "../unit.h"

/* A service manager at `path`, used by *notify. */
static int listen_at(const char *path)
{
	struct sockaddr_un name;
	socklen_t size;
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	ck_assert(address_unix_name(&name, &size, path, NULL));
	ck_assert_int_eq(bind(fd, (const struct sockaddr *)&name, size), 0);
	setenv("NOTIFY_SOCKET", path, 1);
	return fd;
}

START_TEST(notify_sends_to_paths_and_abstract_names)
{
	char path[64], text[64] = "";
	struct notify notify;
	int fd;

	snprintf(path, sizeof(path), "%cpgweir-notify-%d", _i ? '@' : '/', (int)getpid());
	if (!_i)
		snprintf(path, sizeof(path), "/tmp/pgweir-notify-%d", (int)getpid());
	fd = listen_at(path);
	ck_assert(notify_open(&notify, NULL));
	ck_assert_ptr_null(getenv("NOTIFY_SOCKET"));
	notify_send(&notify, "STATUS=%d", 5);
	ck_assert_int_eq(recv(fd, text, sizeof(text) - 1, MSG_DONTWAIT), 8);
	ck_assert_str_eq(text, "STATUS=5");
	close(fd);
	notify_send(&notify, "READY=1"); /* the receiver is closed */
	notify_close(&notify);
	unlink(path);
}
END_TEST

START_TEST(notify_does_without_a_manager)
{
	struct notify notify;

	unsetenv("NOTIFY_SOCKET");
	setenv("WATCHDOG_USEC", "1000", 1);
	ck_assert(notify_open(&notify, NULL));
	ck_assert_int_eq(notify.fd, -1);
	ck_assert_int_eq(notify.watchdog, 0);
	notify_send(&notify, "READY=1");
	notify_close(&notify);
}
END_TEST

START_TEST(notify_refuses_what_it_cannot_use)
{
	static const char *const bad[] = { "vsock:2:1", "relative/path" };
	struct notify notify;
	struct err err;

	setenv("NOTIFY_SOCKET", bad[_i], 1);
	ck_assert(!notify_open(&notify, &err));
	ck_assert_ptr_nonnull(strstr(err.text, bad[_i]));
	notify_send(&notify, "READY=1");
	notify_close(&notify);
}
END_TEST

static const struct {
	const char *interval, *whose; /* whose "" = us */
	usec_t watchdog;
} watchdogs[] = {
	{ NULL, NULL, 0 },       { "5000", NULL, 5000 }, { "5000", "", 5000 }, { "5000", "1", 0 },
	{ "nonsense", NULL, 0 }, { "-5", NULL, 0 },      { "0", NULL, 0 },     { "5000", "x", 0 },
};

START_TEST(notify_knows_its_watchdog)
{
	char path[64], self[16];
	const char *whose = watchdogs[_i].whose;
	struct notify notify;
	int fd;

	snprintf(path, sizeof(path), "@pgweir-watchdog-%d", (int)getpid());
	snprintf(self, sizeof(self), "%d", (int)getpid());
	fd = listen_at(path);
	unsetenv("WATCHDOG_USEC");
	unsetenv("WATCHDOG_PID");
	if (watchdogs[_i].interval)
		setenv("WATCHDOG_USEC", watchdogs[_i].interval, 1);
	if (whose)
		setenv("WATCHDOG_PID", *whose ? whose : self, 1);
	ck_assert(notify_open(&notify, NULL));
	ck_assert_int_eq(notify.watchdog, watchdogs[_i].watchdog);
	notify_close(&notify);
	close(fd);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("main/notify");
	TCase *tcase = tcase_create("notify");

	tcase_add_loop_test(tcase, notify_sends_to_paths_and_abstract_names, 0, 2);
	tcase_add_test(tcase, notify_does_without_a_manager);
	tcase_add_loop_test(tcase, notify_refuses_what_it_cannot_use, 0, 2);
	tcase_add_loop_test(tcase, notify_knows_its_watchdog, 0, COUNT_OF(watchdogs));
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
