/* SPDX-License-Identifier: ISC */
/*
 * The names of addresses in net/resolver.c, with a DNS server in the same loop.
 */
#include "pgweir/net/resolver.h"

#include <stdio.h>
#include <string.h>

#include "../unit.h"
#include "name_server.h"

/* The names of the addresses 192.0.2.N, and the addresses of these names. */
static const struct {
	const char *last, *name, *address;
} hosts[] = {
	{ "1", "honest", "192.0.2.1" },
	{ "2", "liar", "192.0.2.99" },
	{ "3", "nowhere", NULL },
};

struct scene {
	struct loop *loop;
	struct resolver *resolver;
	struct watch server;
	struct reverse reverse, other;
	bool is_mute;
	unsigned int question_count, answer_count, stop_at;
	char host[256]; /* the last result; "-": none */
};

/* One record of the server's answer; count 0: there is none. */
struct record {
	char data[64];
	size_t count;
};

static struct record record_of(const char *label, uint16_t type)
{
	struct record record = { .count = 0 };
	struct address address;

	for (size_t i = 0; i < COUNT_OF(hosts); i++) {
		if (type == TYPE_PTR && strcmp(hosts[i].last, label) == 0)
			record.count = (size_t)snprintf(record.data, sizeof(record.data),
			                                "%c%s%c%s", (char)strlen(hosts[i].name),
			                                hosts[i].name, 4, "test") +
			               1;
		if (type == TYPE_A && strcmp(hosts[i].name, label) == 0 && hosts[i].address) {
			ck_assert(address_parse(&address, hosts[i].address, 0));
			memcpy(record.data, &address.in.sin_addr, 4);
			record.count = 4;
		}
	}
	return record;
}

static void on_question(struct watch *watch, unsigned int what)
{
	struct scene *scene = (struct scene *)((char *)watch - offsetof(struct scene, server));
	struct name_question question;
	struct record record;

	(void)what;
	name_server_take(watch, &question);
	scene->question_count++;
	if (scene->is_mute) {
		loop_stop(scene->loop);
		return;
	}
	record = record_of(question.label, question.type);
	if (record.count)
		name_server_add(&question, 60, record.data, record.count);
	name_server_answer(watch, &question, record.count > 0);
}

static void on_host(struct reverse *reverse, const char *host)
{
	struct scene *scene = (struct scene *)((char *)reverse - offsetof(struct scene, reverse));

	ck_assert_ptr_null(reverse->query);
	snprintf(scene->host, sizeof(scene->host), "%s", host ? host : "-");
	if (++scene->answer_count == scene->stop_at)
		loop_stop(scene->loop);
}

static void set_up(struct scene *scene)
{
	struct resolver_options options = { .good_ttl = 0 };
	char servers[ADDRESS_TEXT_SIZE];
	struct err err;

	*scene = (struct scene){ .loop = loop_new(NULL), .stop_at = 1 };
	name_server_open(&scene->server, scene->loop, on_question, servers);
	options.servers = servers;
	scene->resolver = resolver_new(scene->loop, &options, &err);
	ck_assert_msg(scene->resolver != NULL, "%s", err.text);
}

static void tear_down(struct scene *scene)
{
	name_server_close(&scene->server);
	resolver_free(&scene->resolver);
	loop_free(&scene->loop);
}

static bool start(struct scene *scene, const char *text)
{
	struct address address;

	ck_assert(address_parse(&address, text, 5432));
	return reverse_start(scene->resolver, &scene->reverse, &address, on_host, NULL);
}

static const struct {
	const char *says, *address, *host;
} cases[] = {
	{ "a name that leads back", "192.0.2.1", "honest.test" },
	{ "a name that leads elsewhere", "192.0.2.2", "-" },
	{ "a name that leads nowhere", "192.0.2.3", "-" },
	{ "no name", "192.0.2.4", "-" },
	{ "no name of IPv6", "2001:db8::1", "-" },
};

START_TEST(names_of_hosts)
{
	struct scene scene;

	set_up(&scene);
	ck_assert(start(&scene, cases[_i].address));
	ck_assert_uint_eq(scene.answer_count, 0);
	loop_run(scene.loop);
	ck_assert_msg(strcmp(scene.host, cases[_i].host) == 0, "%s: %s", cases[_i].says,
	              scene.host);
	tear_down(&scene);
}
END_TEST

/* A lookup may be canceled at any time, and started again. */
START_TEST(the_owner_goes)
{
	struct scene scene;

	set_up(&scene);
	reverse_cancel(&scene.reverse);
	ck_assert(start(&scene, "192.0.2.1"));
	reverse_cancel(&scene.reverse);
	ck_assert(start(&scene, "192.0.2.2"));
	loop_run(scene.loop);
	ck_assert_uint_eq(scene.answer_count, 1);
	ck_assert_str_eq(scene.host, "-");
	tear_down(&scene);
}
END_TEST

/* The resolver ends before the server has responded. */
START_TEST(the_resolver_goes)
{
	struct scene scene;

	set_up(&scene);
	scene.is_mute = true;
	ck_assert(start(&scene, "192.0.2.1"));
	loop_run(scene.loop);
	ck_assert_uint_eq(scene.question_count, 1);
	reverse_cancel(&scene.reverse);
	tear_down(&scene);
	ck_assert_uint_eq(scene.answer_count, 0);
}
END_TEST

START_TEST(too_many)
{
	static struct reverse many[REVERSE_MAX];
	struct address address;
	struct scene scene;
	struct err err;

	set_up(&scene);
	scene.is_mute = true;
	ck_assert(address_parse(&address, "192.0.2.1", 0));
	for (size_t i = 0; i < REVERSE_MAX; i++)
		ck_assert(reverse_start(scene.resolver, &many[i], &address, on_host, &err));
	ck_assert(!reverse_start(scene.resolver, &scene.other, &address, on_host, &err));
	ck_assert_int_eq(err.code, ERR_LIMIT);
	ck_assert_ptr_null(scene.other.query);
	for (size_t i = 0; i < REVERSE_MAX; i++)
		reverse_cancel(&many[i]);
	tear_down(&scene);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("reverse");
	TCase *tcase = tcase_create("reverse");

	tcase_set_timeout(tcase, 60);
	tcase_add_loop_test(tcase, names_of_hosts, 0, (int)COUNT_OF(cases));
	tcase_add_test(tcase, the_owner_goes);
	tcase_add_test(tcase, the_resolver_goes);
	tcase_add_test(tcase, too_many);
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
