/* SPDX-License-Identifier: ISC */
/*
 * net/resolver.c and net/dns.c, with a DNS server in the same loop.
 *
 * TTLs are either long, or so short that they have expired once the clock has advanced:
 * no case asserts a duration.
 */
#include "pgweir/net/resolver.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "pgweir/loop/loop.h"

#include "../unit.h"
#include "name_server.h"

#define LONG (3600 * USEC_PER_SEC)

/* The records of the server, by the first label of the name. */
static const struct {
	const char *label;
	int type;
	const char *address;
} zone[] = {
	{ "one", TYPE_A, "127.0.0.1" },   { "three", TYPE_A, "127.0.0.1" },
	{ "three", TYPE_A, "127.0.0.2" }, { "three", TYPE_A, "127.0.0.3" },
	{ "both", TYPE_A, "127.0.0.1" },  { "both", TYPE_AAAA, "::1" },
};

struct scene {
	struct loop *loop;
	struct resolver *resolver;
	struct resolver *other; /* NULL: none */
	struct watch server;
	bool is_mute;
	const char *moving;   /* the address of moving.test */
	uint32_t serial;      /* serial of the zone test; 0: no SOA record */
	unsigned int serials; /* queries for it */
	unsigned int left;    /* notified subscriptions */
	unsigned int left_stop;
	unsigned int a_count; /* received queries for A */
	unsigned int answered;
	unsigned int stop_at;
};

struct asked {
	struct resolver_ask ask;
	struct scene *scene;
	struct address address;
	bool has_address;
	char failure[ERR_TEXT_SIZE];
	unsigned int count;
	const char *asks_again; /* from within its callback */
	struct asked *cancels;
	bool is_starting;
};

/* ---- the server ---- */

static void add_records(struct name_question *question)
{
	bool is_short = question->type == TYPE_A;
	struct address address;

	for (size_t i = 0; i < COUNT_OF(zone); i++) {
		if (strcmp(zone[i].label, question->label) != 0 || zone[i].type != question->type)
			continue;
		ck_assert(address_parse(&address, zone[i].address, 0));
		name_server_add(question, 60,
		                is_short ? (void *)&address.in.sin_addr
		                         : (void *)&address.in6.sin6_addr,
		                is_short ? 4 : 16);
	}
}

/* The current address of moving.test. */
static void add_moving(const struct scene *scene, struct name_question *question)
{
	struct address address;

	ck_assert(address_parse(&address, scene->moving, 0));
	name_server_add(question, 60, &address.in.sin_addr, 4);
}

/* The SOA record of the zone; both its names are the root. */
static void add_soa(const struct scene *scene, struct name_question *question)
{
	char data[22] = "";

	store_be32(data + 2, scene->serial);
	name_server_add(question, 0, data, sizeof(data));
}

static bool knows(const char *label)
{
	if (strcmp(label, "moving") == 0 || strcmp(label, "test") == 0)
		return true;
	for (size_t i = 0; i < COUNT_OF(zone); i++) {
		if (strcmp(zone[i].label, label) == 0)
			return true;
	}
	return false;
}

static void on_question(struct watch *watch, unsigned int what)
{
	struct scene *scene = (struct scene *)((char *)watch - offsetof(struct scene, server));
	struct name_question question;

	(void)what;
	name_server_take(watch, &question);
	scene->a_count += question.type == TYPE_A;
	if (scene->is_mute)
		return;
	scene->serials += question.type == TYPE_SOA;
	add_records(&question);
	if (question.type == TYPE_A && strcmp(question.label, "moving") == 0)
		add_moving(scene, &question);
	if (question.type == TYPE_SOA && scene->serial)
		add_soa(scene, &question);
	name_server_answer(watch, &question, knows(question.label));
}

/* ---- setup ---- */

static void set_up_with(struct scene *scene, usec_t good_ttl, usec_t bad_ttl, usec_t try_limit)
{
	struct resolver_options options = { .good_ttl = good_ttl,
		                            .bad_ttl = bad_ttl,
		                            .try_limit = try_limit };
	char servers[ADDRESS_TEXT_SIZE];
	struct err err;

	*scene = (struct scene){ .loop = loop_new(NULL), .moving = "127.0.0.1" };
	name_server_open(&scene->server, scene->loop, on_question, servers);
	options.servers = servers;
	scene->resolver = resolver_new(scene->loop, &options, &err);
	ck_assert_msg(scene->resolver != NULL, "%s", err.text);
}

static void set_up(struct scene *scene, usec_t good_ttl, usec_t bad_ttl)
{
	set_up_with(scene, good_ttl, bad_ttl, 0);
}

/* Adds the resolver of another loop, in the same loop. */
static void set_up_other(struct scene *scene, usec_t good_ttl)
{
	struct resolver_options options = { .good_ttl = good_ttl, .bad_ttl = LONG };
	char servers[ADDRESS_TEXT_SIZE];

	*scene = (struct scene){ .loop = loop_new(NULL), .moving = "127.0.0.1" };
	name_server_open(&scene->server, scene->loop, on_question, servers);
	options.servers = servers;
	scene->resolver = resolver_new(scene->loop, &options, NULL);
	options.other = scene->resolver;
	scene->other = resolver_new(scene->loop, &options, NULL);
	ck_assert(scene->resolver && scene->other);
}

static void tear_down(struct scene *scene)
{
	name_server_close(&scene->server);
	resolver_free(&scene->resolver);
	resolver_free(&scene->other);
	loop_free(&scene->loop);
}

static void start(struct asked *asked, struct scene *scene, const char *host);

static void on_answer(struct resolver_ask *ask, const struct address *address,
                      const struct err *err)
{
	struct asked *asked = (struct asked *)ask;
	struct scene *scene = asked->scene;
	const char *again = asked->asks_again;

	ck_assert(!asked->is_starting);
	ck_assert_ptr_null(ask->name);
	ck_assert((address == NULL) == (err != NULL));
	asked->count++;
	asked->has_address = address;
	if (address)
		asked->address = *address;
	else
		snprintf(asked->failure, sizeof(asked->failure), "%s", err->text);
	if (asked->cancels)
		resolver_cancel(&asked->cancels->ask);
	if (++scene->answered == scene->stop_at)
		loop_stop(scene->loop);
	asked->asks_again = NULL;
	if (again)
		start(asked, scene, again);
}

static void start_with(struct asked *asked, struct scene *scene, struct resolver *resolver,
                       const char *host)
{
	asked->scene = scene;
	asked->is_starting = true;
	ck_assert(resolver_start(resolver, &asked->ask, host, 5432, on_answer, NULL));
	asked->is_starting = false;
}

static void start(struct asked *asked, struct scene *scene, const char *host)
{
	start_with(asked, scene, scene->resolver, host);
}

static void run_until(struct scene *scene, unsigned int answered)
{
	scene->stop_at = answered;
	loop_run(scene->loop);
	ck_assert_uint_eq(scene->answered, answered);
}

/* Looks up a name and waits for the result, as text. */
static const char *ask_now(struct scene *scene, struct asked *asked, const char *host)
{
	static char text[ADDRESS_TEXT_SIZE];

	start(asked, scene, host);
	run_until(scene, scene->answered + 1);
	return asked->has_address ? address_format(&asked->address, text, sizeof(text))
	                          : asked->failure;
}

/* ---- cases ---- */

START_TEST(a_name_is_found_and_kept)
{
	struct scene scene;
	struct asked asked = { 0 };

	set_up(&scene, LONG, LONG);
	ck_assert_str_eq(ask_now(&scene, &asked, "one.test"), "127.0.0.1:5432");
	ck_assert_str_eq(ask_now(&scene, &asked, "one.test"), "127.0.0.1:5432");
	ck_assert_uint_eq(scene.a_count, 1);
	ck_assert_uint_eq(resolver_name_count(scene.resolver), 1);
	ck_assert_uint_eq(resolver_query_count(scene.resolver), 0);
	tear_down(&scene);
}
END_TEST

START_TEST(a_numeric_address_needs_no_query)
{
	struct scene scene;
	struct asked asked = { 0 };

	set_up(&scene, LONG, LONG);
	ck_assert_str_eq(ask_now(&scene, &asked, "10.1.2.3"), "10.1.2.3:5432");
	ck_assert_str_eq(ask_now(&scene, &asked, "2001:db8::9"), "[2001:db8::9]:5432");
	ck_assert_uint_eq(scene.a_count, 0);
	ck_assert_uint_eq(resolver_name_count(scene.resolver), 0);
	start(&asked, &scene, "10.1.2.3");
	resolver_cancel(&asked.ask);
	resolver_cancel(&asked.ask);
	tear_down(&scene);
}
END_TEST

START_TEST(addresses_are_handed_out_in_turn)
{
	struct scene scene;
	struct asked asked = { 0 };
	unsigned int seen[4] = { 0 };

	set_up(&scene, LONG, LONG);
	for (int i = 0; i < 6; i++) {
		ask_now(&scene, &asked, "three.test");
		seen[ntohl(asked.address.in.sin_addr.s_addr) & 3]++;
	}
	for (int i = 1; i <= 3; i++)
		ck_assert_uint_eq(seen[i], 2);
	tear_down(&scene);
}
END_TEST

START_TEST(both_families_are_merged)
{
	struct scene scene;
	struct asked asked = { 0 };
	struct resolver_row row;
	unsigned long cursor = 0;
	bool has_in = false, has_in6 = false;

	set_up(&scene, LONG, LONG);
	ask_now(&scene, &asked, "both.test");
	ck_assert(resolver_next_row(scene.resolver, &cursor, &row));
	for (unsigned int i = 0; i < row.address_count; i++) {
		has_in |= row.addresses[i].family == AF_INET;
		has_in6 |= row.addresses[i].family == AF_INET6;
	}
	ck_assert(has_in);
	/* Missing only if this host has no IPv6 at all. */
	ck_assert(has_in6 || row.address_count == 1);
	tear_down(&scene);
}
END_TEST

START_TEST(a_failure_is_told_and_kept)
{
	struct scene scene;
	struct asked asked = { 0 };

	set_up(&scene, LONG, LONG);
	for (int i = 0; i < 2; i++)
		ck_assert_str_eq(ask_now(&scene, &asked, "none.test"),
		                 "server DNS lookup failed: none.test: Domain name not found");
	ck_assert_uint_eq(scene.a_count, 1);
	tear_down(&scene);
}
END_TEST

START_TEST(nothing_is_kept_without_a_ttl)
{
	struct scene scene;
	struct asked asked = { 0 };

	set_up(&scene, 0, 0);
	for (unsigned int i = 1; i <= 3; i++) {
		ask_now(&scene, &asked, _i ? "none.test" : "one.test");
		ck_assert_uint_eq(scene.a_count, i);
		ck_assert_uint_eq(resolver_name_count(scene.resolver), 0);
	}
	resolver_configure(scene.resolver, LONG, LONG, 0);
	ask_now(&scene, &asked, _i ? "none.test" : "one.test");
	ask_now(&scene, &asked, _i ? "none.test" : "one.test");
	ck_assert_uint_eq(scene.a_count, 4);
	tear_down(&scene);
}
END_TEST

START_TEST(a_name_that_runs_out_goes_by_itself)
{
	struct scene scene;
	struct asked asked = { 0 };
	struct asked other = { 0 };

	set_up(&scene, 1, LONG);
	ask_now(&scene, &asked, "one.test");
	while (resolver_name_count(scene.resolver) > 0)
		ask_now(&scene, &other, "127.0.0.1"); /* one turn each */
	tear_down(&scene);
}
END_TEST

START_TEST(asks_in_flight_share_one_query)
{
	struct scene scene;
	struct asked asked[5] = { 0 };

	set_up(&scene, LONG, LONG);
	for (int i = 0; i < 5; i++)
		start(&asked[i], &scene, "three.test");
	ck_assert_uint_eq(resolver_query_count(scene.resolver), 1);
	resolver_cancel(&asked[0].ask);
	asked[1].cancels = &asked[4];
	run_until(&scene, 3);
	ck_assert_uint_eq(asked[0].count, 0);
	ck_assert_uint_eq(asked[4].count, 0);
	ck_assert_uint_eq(scene.a_count, 1);
	ck_assert(!address_equal(&asked[1].address, &asked[2].address));
	tear_down(&scene);
}
END_TEST

START_TEST(an_answer_may_ask_again)
{
	struct scene scene;
	struct asked asked = { .asks_again = "one.test" };

	set_up(&scene, _i ? LONG : 0, 0);
	start(&asked, &scene, "one.test");
	run_until(&scene, 2);
	ck_assert_uint_eq(asked.count, 2);
	ck_assert_uint_eq(scene.a_count, _i ? 1 : 2);
	tear_down(&scene);
}
END_TEST

START_TEST(a_query_without_asks_goes_on)
{
	struct scene scene;
	struct asked asked = { 0 };

	set_up(&scene, LONG, LONG);
	start(&asked, &scene, "one.test");
	resolver_cancel(&asked.ask);
	ck_assert_uint_eq(resolver_query_count(scene.resolver), 1);
	ck_assert_str_eq(ask_now(&scene, &asked, "one.test"), "127.0.0.1:5432");
	ck_assert_uint_eq(scene.a_count, 1);
	tear_down(&scene);
}
END_TEST

START_TEST(the_end_may_come_with_a_query_under_way)
{
	struct scene scene;
	struct asked asked = { 0 }, other = { 0 };

	set_up(&scene, LONG, LONG);
	scene.is_mute = true;
	start(&asked, &scene, "one.test");
	start(&other, &scene, "127.0.0.1");
	run_until(&scene, 1);
	resolver_cancel(&asked.ask);
	ck_assert_uint_eq(resolver_query_count(scene.resolver), 1);
	tear_down(&scene);
}
END_TEST

/* The DNS server does not respond: the timeout of c-ares ends it, driven by our timer. */
START_TEST(a_mute_name_service_is_told)
{
	struct scene scene;
	struct asked asked = { 0 };

	set_up_with(&scene, LONG, LONG, 20 * USEC_PER_MS);
	scene.is_mute = true;
	ck_assert_str_eq(
	    ask_now(&scene, &asked, "one.test"),
	    "server DNS lookup failed: one.test: Timeout while contacting DNS servers");
	tear_down(&scene);
}
END_TEST

START_TEST(the_hosts_file_is_asked_first)
{
	struct scene scene;
	struct asked asked = { 0 };
	char path[] = "/tmp/pgweir-hosts-XXXXXX";
	int fd = mkstemp(path);

	ck_assert_int_eq(write(fd, "127.0.0.9 filed.test\n", 21), 21);
	close(fd);
	setenv("CARES_HOSTS", path, 1);
	set_up(&scene, LONG, LONG);
	ck_assert_str_eq(ask_now(&scene, &asked, "filed.test"), "127.0.0.9:5432");
	ck_assert_uint_eq(scene.a_count, 0);
	unlink(path);
	unsetenv("CARES_HOSTS");
	tear_down(&scene);
}
END_TEST

START_TEST(localhost_needs_no_server)
{
	struct scene scene;
	struct asked asked = { 0 };

	set_up(&scene, LONG, LONG);
	ask_now(&scene, &asked, "localhost");
	ck_assert(asked.has_address);
	ck_assert_uint_eq(scene.a_count, 0);
	tear_down(&scene);
}
END_TEST

START_TEST(rows_go_on_when_names_come_and_go)
{
	struct scene scene;
	struct asked asked = { 0 };
	struct resolver_row row;
	unsigned long cursor = 0;

	set_up(&scene, LONG, LONG);
	ask_now(&scene, &asked, "one.test");
	ask_now(&scene, &asked, "none.test");
	ck_assert(resolver_next_row(scene.resolver, &cursor, &row));
	ck_assert_str_eq(row.host, "one.test");
	ck_assert_uint_eq(row.address_count, 1);
	ck_assert_uint_eq(address_port(&row.addresses[0]), 0);
	ck_assert(row.ttl_left > 0 && row.ttl_left <= LONG);
	ck_assert(resolver_next_row(scene.resolver, &cursor, &row));
	ck_assert_str_eq(row.host, "none.test");
	ck_assert_uint_eq(row.address_count, 0);
	ck_assert(!resolver_next_row(scene.resolver, &cursor, &row));
	ask_now(&scene, &asked, "three.test");
	ck_assert(resolver_next_row(scene.resolver, &cursor, &row));
	ck_assert_str_eq(row.host, "three.test");
	ck_assert(!resolver_next_row(scene.resolver, &cursor, &row));
	tear_down(&scene);
}
END_TEST

/* ---- subscriptions to addresses ---- */

struct watcher {
	struct resolver_watch watch;
	struct scene *scene;
	unsigned int told;
	struct watcher *takes_along;
};

static void on_removed(struct resolver_watch *watch)
{
	struct watcher *watcher = (struct watcher *)watch;

	ck_assert_ptr_null(watch->name);
	watcher->told++;
	if (watcher->takes_along)
		resolver_watch_end(&watcher->takes_along->watch);
	if (++watcher->scene->left == watcher->scene->left_stop)
		loop_stop(watcher->scene->loop);
}

static void enter_with(struct watcher *watcher, struct scene *scene, struct resolver *resolver,
                       const char *host, const char *where)
{
	struct address address;

	ck_assert(address_parse(&address, where, 5432));
	watcher->scene = scene;
	resolver_watch_begin(resolver, &watcher->watch, host, &address, on_removed);
}

static void enter(struct watcher *watcher, struct scene *scene, const char *host, const char *where)
{
	enter_with(watcher, scene, scene->resolver, host, where);
}

START_TEST(a_watch_ends_when_the_address_is_removed)
{
	struct scene scene;
	struct asked asked = { 0 };
	struct watcher there = { 0 }, also = { 0 }, gone = { 0 }, elsewhere = { 0 };

	set_up(&scene, 0, LONG);
	ask_now(&scene, &asked, "moving.test");
	resolver_configure(scene.resolver, _i ? LONG : 0, LONG, 0);
	enter(&there, &scene, "moving.test", "127.0.0.1");
	enter(&also, &scene, "moving.test", "127.0.0.1");
	enter(&gone, &scene, "moving.test", "127.0.0.1");
	enter(&elsewhere, &scene, "moving.test", "127.0.0.7");
	there.takes_along = &also;
	resolver_watch_end(&gone.watch);
	resolver_watch_end(&gone.watch);
	scene.moving = "127.0.0.7";
	scene.left_stop = 1;
	start(&asked, &scene, "moving.test");
	loop_run(scene.loop);
	ck_assert_uint_eq(there.told, 1);
	ck_assert_uint_eq(also.told + gone.told + elsewhere.told, 0);
	ck_assert_uint_eq(resolver_name_count(scene.resolver), 1);
	resolver_cancel(&asked.ask);
	resolver_watch_end(&elsewhere.watch);
	tear_down(&scene);
}
END_TEST

START_TEST(a_failed_lookup_ends_no_watch)
{
	struct scene scene;
	struct asked asked = { 0 };
	struct watcher watcher = { 0 };

	set_up(&scene, LONG, LONG);
	enter(&watcher, &scene, "none.test", "127.0.0.1");
	ask_now(&scene, &asked, "none.test");
	ask_now(&scene, &asked, "127.0.0.1"); /* another turn */
	ck_assert_uint_eq(watcher.told, 0);
	resolver_watch_end(&watcher.watch);
	enter(&watcher, &scene, "10.0.0.1", "127.0.0.1");
	ck_assert_ptr_null(watcher.watch.name);
	tear_down(&scene);
}
END_TEST

START_TEST(all_addresses_are_there_for_who_asked)
{
	struct scene scene;
	struct asked asked = { 0 };

	set_up(&scene, LONG, LONG);
	ask_now(&scene, &asked, "three.test");
	ck_assert_uint_eq(asked.ask.address_count, 3);
	ask_now(&scene, &asked, "10.1.2.3");
	ck_assert_uint_eq(asked.ask.address_count, 1);
	tear_down(&scene);
}
END_TEST

/* ---- zones ---- */

/* Runs the loop until the zone has been queried this often. */
static void run_serials(struct scene *scene, unsigned int count)
{
	struct asked turn = { 0 };

	while (scene->serials < count)
		ask_now(scene, &turn, "127.0.0.1");
}

START_TEST(a_zone_that_grows_moves_its_names)
{
	struct scene scene;
	struct asked asked = { 0 };
	struct watcher watcher = { 0 };
	struct resolver_zone_row row;
	unsigned long cursor = 0;

	set_up(&scene, LONG, LONG);
	scene.serial = UINT32_MAX;
	resolver_configure(scene.resolver, LONG, LONG, USEC_PER_MS);
	ask_now(&scene, &asked, "moving.test");
	ask_now(&scene, &asked, "one.test");
	ask_now(&scene, &asked, "nozone");
	enter(&watcher, &scene, "moving.test", "127.0.0.1");
	run_serials(&scene, 3);
	ck_assert_uint_eq(scene.a_count, 3); /* the same serial: no lookup */
	ck_assert_uint_eq(resolver_zone_count(scene.resolver), 1);
	ck_assert(resolver_next_zone(scene.resolver, &cursor, &row));
	ck_assert_str_eq(row.zone, "test");
	ck_assert_uint_eq(row.serial, UINT32_MAX);
	ck_assert_uint_eq(row.count, 2);
	ck_assert(!resolver_next_zone(scene.resolver, &cursor, &row));
	scene.moving = "127.0.0.7";
	scene.serial = 0x10; /* wraps beyond UINT32_MAX, in serial number arithmetic */
	scene.left_stop = 1;
	loop_run(scene.loop);
	ck_assert_uint_eq(watcher.told, 1);
	while (scene.a_count < 5) /* the other name of the zone too */
		ask_now(&scene, &asked, "127.0.0.1");
	ck_assert_str_eq(ask_now(&scene, &asked, "moving.test"), "127.0.0.7:5432");
	tear_down(&scene);
}
END_TEST

START_TEST(a_zone_goes_with_its_names)
{
	struct scene scene;
	struct asked asked = { 0 };
	struct watcher watcher = { 0 };

	set_up(&scene, 0, LONG);
	ask_now(&scene, &asked, "one.test");
	enter(&watcher, &scene, "one.test", "127.0.0.1");
	ck_assert_uint_eq(resolver_zone_count(scene.resolver), 0);
	resolver_configure(scene.resolver, 0, LONG, LONG);
	ck_assert_uint_eq(resolver_zone_count(scene.resolver), 1);
	resolver_watch_end(&watcher.watch);
	ck_assert_uint_eq(resolver_zone_count(scene.resolver), 0);
	resolver_configure(scene.resolver, LONG, LONG, LONG);
	ask_now(&scene, &asked, "one.test");
	ck_assert_uint_eq(resolver_zone_count(scene.resolver), 1);
	run_serials(&scene, 1);
	resolver_configure(scene.resolver, LONG, LONG, 0);
	ck_assert_uint_eq(resolver_zone_count(scene.resolver), 0);
	tear_down(&scene);
}
END_TEST

/* A DNS server that never responds: the zone's query is running at the end. */
START_TEST(the_end_may_come_while_a_zone_is_asked)
{
	struct scene scene;
	struct asked asked = { 0 };

	set_up(&scene, LONG, LONG);
	ask_now(&scene, &asked, "one.test");
	scene.is_mute = true;
	resolver_configure(scene.resolver, LONG, LONG, LONG);
	ck_assert_uint_eq(resolver_query_count(scene.resolver), 1);
	tear_down(&scene);
}
END_TEST

/* ---- several loops ---- */

/* What the other resolver answers, as text. */
static const char *ask_other(struct scene *scene, struct asked *asked, const char *host)
{
	static char text[ADDRESS_TEXT_SIZE];

	start_with(asked, scene, scene->other, host);
	run_until(scene, scene->answered + 1);
	return asked->has_address ? address_format(&asked->address, text, sizeof(text))
	                          : asked->failure;
}

/* Until the letters that were posted have been opened. */
static void open_letters(struct scene *scene)
{
	struct asked turn = { 0 };

	for (int i = 0; i < 4; i++)
		ask_now(scene, &turn, "127.0.0.1");
}

/* It needs no query of its own. */
START_TEST(what_one_loop_has_found_is_known_to_others)
{
	struct scene scene;
	struct asked asked = { 0 };

	set_up_other(&scene, LONG);
	ask_now(&scene, &asked, _i ? "three.test" : "none.test");
	open_letters(&scene);
	ask_other(&scene, &asked, _i ? "three.test" : "none.test");
	ck_assert_int_eq(asked.has_address, _i);
	ck_assert(_i || strstr(asked.failure, "server DNS lookup failed: none.test: "));
	ck_assert(!_i || asked.ask.address_count == 3);
	ck_assert_uint_eq(scene.a_count, 1);
	tear_down(&scene);
}
END_TEST

/* A connection that came from another loop is watched by a loop that never asked. */
START_TEST(each_lookup_reaches_the_watches_of_all_loops)
{
	struct scene scene;
	struct asked asked = { 0 };
	struct watcher watchers[2] = { 0 };

	set_up_other(&scene, _i ? LONG : 0);
	enter_with(&watchers[0], &scene, scene.other, "moving.test", "127.0.0.1");
	enter_with(&watchers[1], &scene, scene.resolver, "moving.test", "127.0.0.1");
	scene.moving = "127.0.0.7";
	scene.left_stop = 2;
	start(&asked, &scene, "moving.test");
	loop_run(scene.loop);
	for (int i = 0; i < 2; i++)
		ck_assert_uint_eq(watchers[i].told, 1);
	ck_assert_uint_eq(scene.a_count, 1);
	open_letters(&scene);
	ck_assert_uint_eq(resolver_name_count(scene.other), (unsigned int)_i);
	tear_down(&scene);
}
END_TEST

/* With letters in the mailbox. */
START_TEST(the_end_may_come_while_others_are_told)
{
	struct scene scene;
	struct asked asked[2] = { 0 };

	set_up_other(&scene, LONG);
	start_with(&asked[0], &scene, scene.other, "one.test");
	ask_now(&scene, &asked[1], "one.test");
	resolver_cancel(&asked[0].ask);
	resolver_cancel(&asked[1].ask);
	tear_down(&scene);
}
END_TEST

START_TEST(nonsense_is_refused_in_words)
{
	struct loop *loop = loop_new(NULL);
	struct resolver_options options = { .servers = "nonsense" };
	struct err err = { 0 };
	struct scene scene;
	struct asked asked = { 0 };
	char host[400];

	ck_assert_ptr_null(resolver_new(loop, &options, &err));
	ck_assert_int_eq(err.code, ERR_CONFIG);
	loop_free(&loop);
	set_up(&scene, LONG, LONG);
	memset(host, 'x', sizeof(host) - 1);
	host[sizeof(host) - 1] = 0;
	ck_assert_ptr_nonnull(strstr(ask_now(&scene, &asked, host), "server DNS lookup failed: x"));
	tear_down(&scene);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("net/resolver");
	TCase *cases = tcase_create("resolver");

	tcase_set_timeout(cases, 60);
	tcase_add_test(cases, a_name_is_found_and_kept);
	tcase_add_test(cases, a_numeric_address_needs_no_query);
	tcase_add_test(cases, addresses_are_handed_out_in_turn);
	tcase_add_test(cases, both_families_are_merged);
	tcase_add_test(cases, a_failure_is_told_and_kept);
	tcase_add_loop_test(cases, nothing_is_kept_without_a_ttl, 0, 2);
	tcase_add_test(cases, a_name_that_runs_out_goes_by_itself);
	tcase_add_test(cases, asks_in_flight_share_one_query);
	tcase_add_loop_test(cases, an_answer_may_ask_again, 0, 2);
	tcase_add_test(cases, a_query_without_asks_goes_on);
	tcase_add_test(cases, the_end_may_come_with_a_query_under_way);
	tcase_add_test(cases, a_mute_name_service_is_told);
	tcase_add_test(cases, the_hosts_file_is_asked_first);
	tcase_add_test(cases, localhost_needs_no_server);
	tcase_add_test(cases, rows_go_on_when_names_come_and_go);
	tcase_add_loop_test(cases, a_watch_ends_when_the_address_is_removed, 0, 2);
	tcase_add_test(cases, a_failed_lookup_ends_no_watch);
	tcase_add_test(cases, all_addresses_are_there_for_who_asked);
	tcase_add_test(cases, a_zone_that_grows_moves_its_names);
	tcase_add_test(cases, a_zone_goes_with_its_names);
	tcase_add_test(cases, the_end_may_come_while_a_zone_is_asked);
	tcase_add_loop_test(cases, what_one_loop_has_found_is_known_to_others, 0, 2);
	tcase_add_loop_test(cases, each_lookup_reaches_the_watches_of_all_loops, 0, 2);
	tcase_add_test(cases, the_end_may_come_while_others_are_told);
	tcase_add_test(cases, nonsense_is_refused_in_words);
	suite_add_tcase(suite, cases);
	return unit_run(suite);
}
