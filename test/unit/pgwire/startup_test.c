/* SPDX-License-Identifier: ISC */
/*
 * pgwire/startup.c.
 */
#include "pgweir/pgwire/startup.h"
#include "pgweir/pgwire/message.h"

#include <stdio.h>

#include "../unit.h"

#define CODE_CANCEL "\x04\xd2\x16\x2e"
#define CODE_TLS "\x04\xd2\x16\x2f"
#define CODE_GSS "\x04\xd2\x16\x30"

static const struct {
	const char *says;
	struct bytes in;
	enum wire_result result;
	enum startup_kind kind;
	uint32_t length;
} peeks[] = {
	{ "nothing", { "", 0 }, WIRE_MORE, 0, 0 },
	{ "direct TLS", { "\x16", 1 }, WIRE_OK, STARTUP_TLS_HELLO, 0 },
	{ "HTTP", { "G", 1 }, WIRE_BAD, 0, 0 },
	{ "64 KiB or more", { "\0\1", 2 }, WIRE_BAD, 0, 0 },
	{ "shorter than its header", { "\0\0\0\7", 4 }, WIRE_BAD, 0, 0 },
	{ "code on its way", { "\0\0\0\10\4\322\26", 7 }, WIRE_MORE, 0, 0 },
	{ "SSLRequest", { "\0\0\0\10" CODE_TLS, 8 }, WIRE_OK, STARTUP_TLS_REQUEST, 8 },
	{ "SSLRequest, bytes behind",
	  { "\0\0\0\10" CODE_TLS "x", 9 },
	  WIRE_OK,
	  STARTUP_TLS_REQUEST,
	  8 },
	{ "SSLRequest, too long", { "\0\0\0\11" CODE_TLS, 8 }, WIRE_BAD, 0, 0 },
	{ "GSSENCRequest", { "\0\0\0\10" CODE_GSS, 8 }, WIRE_OK, STARTUP_GSS_REQUEST, 8 },
	{ "CancelRequest", { "\0\0\0\20" CODE_CANCEL, 8 }, WIRE_OK, STARTUP_CANCEL, 16 },
	{ "CancelRequest of 3.2", { "\0\0\1\14" CODE_CANCEL, 8 }, WIRE_OK, STARTUP_CANCEL, 268 },
	{ "CancelRequest, too long", { "\0\0\1\15" CODE_CANCEL, 8 }, WIRE_BAD, 0, 0 },
	{ "protocol 2", { "\0\0\0\10\0\2\0\0", 8 }, WIRE_OK, STARTUP_VERSION_2, 8 },
	{ "protocol 3.0", { "\0\0\0\11\0\3\0\0", 8 }, WIRE_OK, STARTUP_VERSION_3, 9 },
	{ "the longest", { "\0\0\47\24\0\3\0\0", 8 }, WIRE_OK, STARTUP_VERSION_3, 10004 },
	{ "longer", { "\0\0\47\25\0\3\0\0", 8 }, WIRE_BAD, STARTUP_TOO_LONG, 10005 },
	{ "much longer", { "\0\0\377\377\0\3\0\0", 8 }, WIRE_BAD, STARTUP_TOO_LONG, 65535 },
	{ "a code that nobody knows", { "\0\0\0\10\1\2\3\4", 8 }, WIRE_OK, STARTUP_OTHER, 8 },
};

START_TEST(startup_peek_answers)
{
	struct startup startup;

	ck_assert_msg(startup_peek(peeks[_i].in, &startup) == peeks[_i].result, "%s",
	              peeks[_i].says);
	if (peeks[_i].result != WIRE_OK && peeks[_i].kind == 0)
		return;
	ck_assert_msg(startup.kind == peeks[_i].kind, "%s", peeks[_i].says);
	ck_assert_uint_eq(startup.length, peeks[_i].length);
}
END_TEST

/* For every prefix: once there is a result, it never changes. */
START_TEST(startup_peek_at_every_cut)
{
	struct bytes in = peeks[_i].in;
	struct startup startup;
	enum wire_result result = WIRE_MORE;

	for (size_t count = 0; count <= in.count; count++) {
		enum wire_result now = startup_peek(bytes_of(in.at, count), &startup);

		ck_assert_msg(result == WIRE_MORE || now == result, "%s", peeks[_i].says);
		result = now;
	}
	ck_assert_int_eq(result, peeks[_i].result);
}
END_TEST

START_TEST(startup_knows_its_minor_version)
{
	struct startup startup;

	ck_assert_int_eq(startup_peek(bytes_of("\0\0\0\11\0\3\0\2", 8), &startup), WIRE_OK);
	ck_assert_uint_eq(startup.minor, 2);
}
END_TEST

static const struct {
	unsigned int minor;
	uint32_t agreed;
} versions[] = {
	{ 0, PROTOCOL_3_0 }, { 1, PROTOCOL_3_0 },    { 2, PROTOCOL_3_2 },
	{ 3, PROTOCOL_3_2 }, { 9999, PROTOCOL_3_2 }, { 65535, PROTOCOL_3_2 },
};

START_TEST(startup_agrees_on_a_version)
{
	ck_assert_uint_eq(startup_agreed(versions[_i].minor), versions[_i].agreed);
}
END_TEST

START_TEST(startup_cancel_key_is_all_that_follows)
{
	struct bytes key = bytes_of("\0\0\0\1abcd", 8);
	struct buf packet = { 0 };
	struct startup startup;

	message_cancel(&packet, key);
	ck_assert_int_eq(startup_peek(buf_bytes(&packet), &startup), WIRE_OK);
	ck_assert_int_eq(startup.kind, STARTUP_CANCEL);
	ck_assert_uint_eq(startup.length, packet.count);
	ck_assert(bytes_equal(startup_body(buf_bytes(&packet)), key));
	buf_free(&packet);
}
END_TEST

static const struct {
	const char *says;
	struct bytes list; /* after the header */
	const char *found; /* "name=value;..." */
	enum walk_result end;
} lists[] = {
	{ "no parameters", { "\0", 1 }, "", WALK_END },
	{ "two", { "user\0bo\0database\0d\0\0", 20 }, "user=bo;database=d;", WALK_END },
	{ "an empty value", { "user\0\0\0", 7 }, "user=;", WALK_END },
	{ "nothing at all", { "", 0 }, "", WALK_BAD },
	{ "no terminator", { "user\0bo\0", 8 }, "user=bo;", WALK_BAD },
	{ "bytes behind the terminator", { "user\0bo\0\0x", 10 }, "user=bo;", WALK_BAD },
	{ "a name without value", { "user\0", 5 }, "", WALK_BAD },
	{ "a value without zero", { "user\0bo", 7 }, "", WALK_BAD },
	{ "a name without zero", { "user", 4 }, "", WALK_BAD },
};

START_TEST(startup_lists)
{
	struct bytes list = lists[_i].list;
	const char *name, *value;
	struct buf found = { 0 };
	enum walk_result result;
	struct err err = { 0 };

	while ((result = startup_next(&list, &name, &value, &err)) == WALK_ITEM)
		buf_printf(&found, "%s=%s;", name, value);
	ck_assert_msg(result == lists[_i].end, "%s", lists[_i].says);
	ck_assert_str_eq(buf_text(&found), lists[_i].found);
	if (result == WALK_BAD)
		ck_assert_str_eq(err.text, "invalid startup packet layout: "
		                           "expected terminator as last byte");
	buf_free(&found);
}
END_TEST

static const struct {
	const char *says;
	const char *options;
	const char *found;
	enum walk_result end;
} options[] = {
	{ "nothing", "", "", WALK_END },
	{ "blanks", " \t ", "", WALK_END },
	{ "-c apart", "-c search_path=a", "search_path=a;", WALK_END },
	{ "-c joined", "-csearch_path=a", "search_path=a;", WALK_END },
	{ "long", "--search_path=a", "search_path=a;", WALK_END },
	{ "dashes in names only", "--search-path=a-b", "search_path=a-b;", WALK_END },
	{ "several", " -c a=1  --b=2\t-cc=3 ", "a=1;b=2;c=3;", WALK_END },
	{ "an escaped blank", "-c a=x\\ y -c b=1", "a=x y;b=1;", WALK_END },
	{ "an escaped backslash", "-c a=x\\\\y", "a=x\\y;", WALK_END },
	{ "a backslash at the end", "-c a=x\\", "a=x;", WALK_END },
	{ "an equals sign in the value", "-c a=b=c", "a=b=c;", WALK_END },
	{ "an empty value", "-c a=", "a=;", WALK_END },
	{ "another switch", "-c a=1 -d 5", "a=1;", WALK_BAD },
	{ "no switch", "a=1", "", WALK_BAD },
	{ "-c alone", "-c", "", WALK_BAD },
	{ "-- alone", "--", "", WALK_BAD },
	{ "a dash alone", "-", "", WALK_BAD },
	{ "no value", "-c a", "", WALK_BAD },
	{ "no name", "-c =1", "", WALK_BAD },
	{ "an escape only", "\\", "", WALK_BAD },
};

START_TEST(startup_options)
{
	struct options_walk walk = { .rest = options[_i].options };
	const char *name, *value;
	struct buf found = { 0 };
	enum walk_result result;
	struct err err = { 0 };

	while ((result = startup_options_next(&walk, &name, &value, &err)) == WALK_ITEM)
		buf_printf(&found, "%s=%s;", name, value);
	ck_assert_msg(result == options[_i].end, "%s", options[_i].says);
	ck_assert_str_eq(buf_text(&found), options[_i].found);
	if (result == WALK_BAD)
		ck_assert_str_eq(err.text, "unsupported options startup parameter: only "
		                           "'-c config=val' and '--config=val' are allowed");
	startup_options_done(&walk);
	buf_free(&found);
}
END_TEST

static const struct {
	const char *value;
	enum replication meaning;
} replications[] = {
	{ "database", REPLICATION_LOGICAL },
	{ "true", REPLICATION_PHYSICAL },
	{ "TRUE", REPLICATION_PHYSICAL },
	{ "t", REPLICATION_PHYSICAL },
	{ "yes", REPLICATION_PHYSICAL },
	{ "ye", REPLICATION_PHYSICAL },
	{ "on", REPLICATION_PHYSICAL },
	{ "1", REPLICATION_PHYSICAL },
	{ "false", REPLICATION_NONE },
	{ "off", REPLICATION_NONE },
	{ "of", REPLICATION_NONE },
	{ "o", REPLICATION_NONE },
	{ "no", REPLICATION_NONE },
	{ "0", REPLICATION_NONE },
	{ "", REPLICATION_NONE },
	{ "trues", REPLICATION_NONE },
	{ "11", REPLICATION_NONE },
	{ "Database", REPLICATION_NONE },
	{ "databases", REPLICATION_NONE },
	{ "physical", REPLICATION_NONE },
};

START_TEST(startup_knows_replication)
{
	ck_assert_msg(startup_replication(replications[_i].value) == replications[_i].meaning, "%s",
	              replications[_i].value);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("pgwire/startup");
	TCase *cases = tcase_create("startup");

	tcase_add_loop_test(cases, startup_peek_answers, 0, COUNT_OF(peeks));
	tcase_add_loop_test(cases, startup_peek_at_every_cut, 0, COUNT_OF(peeks));
	tcase_add_test(cases, startup_knows_its_minor_version);
	tcase_add_loop_test(cases, startup_agrees_on_a_version, 0, COUNT_OF(versions));
	tcase_add_test(cases, startup_cancel_key_is_all_that_follows);
	tcase_add_loop_test(cases, startup_lists, 0, COUNT_OF(lists));
	tcase_add_loop_test(cases, startup_options, 0, COUNT_OF(options));
	tcase_add_loop_test(cases, startup_knows_replication, 0, COUNT_OF(replications));
	suite_add_tcase(suite, cases);
	return unit_run(suite);
}
