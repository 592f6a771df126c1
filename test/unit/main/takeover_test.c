/* SPDX-License-Identifier: ISC */
/*
 * main/daemon_priv.h: by which number a process asks for a hand-over, and which records that means.
 */
#include "../../../src/main/daemon_priv.h"

#include "pgweir/base/hash.h"
#include "pgweir/client/handover.h"
#include "pgweir/net/stream.h"

#include "../../../src/client/statements/statements_priv.h"
#include "../../../src/pool/handover_priv.h"

#include "../unit.h"

/* All records, and how many of their rows are in the plain format; 0: it has none of these. */
static const struct {
	const struct record_table *table;
	size_t plain_count;
} formats[] = {
	{ &hello_record_table, 3 },    { &global_record_table, 4 },
	{ &database_record_table, 7 }, { &role_record_table, 3 },
	{ &pool_record_table, 16 },    { &statement_record_table, 6 },
	{ &server_record_table, 23 },  { &on_server_record_table, 1 },
	{ &stale_record_table, 1 },    { &client_record_table, 19 },
	{ &unnamed_record_table, 3 },  { &sql_record_table, 4 },
	{ &name_record_table, 2 },     { &closed_host_record_table, 0 },
	{ &cluster_record_table, 0 },  { &stream_tls_table, 0 },
	{ &cancel_record_table, 0 },
};

/* The tag, kind and size of each row, and their order; not what is counted. */
static uint64_t hash_of(uint64_t hash, const struct record_table *table, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const struct record_field *field = &table->fields[i];
		bool is_small = field->kind == RECORD_SMALL;
		unsigned char kind = (unsigned char)(is_small ? RECORD_NUMBER : field->kind);
		unsigned char row[7] = { (unsigned char)field->tag, kind, field->is_optional };

		store_be32(row + 3, (uint32_t)(is_small ? sizeof(uint64_t) : field->size));
		hash = hash_bytes(&(struct hash_key){ { hash, count } }, row, sizeof(row));
	}
	return hash;
}

/*
 * That of the releases 0.1.0 to 0.3.0. When this test fails, no process of these can be taken over
 * from without a restart. If that is wanted, say it in CHANGELOG.md.
 */
START_TEST(the_plain_format_is_that_of_releases)
{
	uint64_t hash = 1;

	for (size_t i = 0; i < COUNT_OF(formats); i++) {
		const struct record_table *table = formats[i].table;

		hash = hash_of(hash, table, formats[i].plain_count);
		for (size_t row = formats[i].plain_count;
		     formats[i].plain_count && row < table->count; row++)
			ck_assert_msg(table->fields[row].is_optional, "%s: %s", table->name,
			              table->fields[row].name);
	}
	ck_assert_uint_eq(hash, UINT64_C(0x2c82896d066331f9));
	ck_assert_str_eq(HANDOVER_VERSION_PLAIN, "3");
}
END_TEST

/* When this test fails, increase HANDOVER_VERSION, unless no release has had it. */
START_TEST(a_version_is_one_format)
{
	uint64_t hash = 1;

	for (size_t i = 0; i < COUNT_OF(formats); i++)
		hash = hash_of(hash, formats[i].table, formats[i].table->count);
	ck_assert_uint_eq(hash, UINT64_C(16895000446525279899));
	ck_assert_str_eq(HANDOVER_VERSION, "4");
}
END_TEST

/* A table reads a record of the plain format, and writes one if it has nothing more to say. */
START_TEST(the_rest_is_left_out)
{
	struct client_record client = { .key = bytes_of("12345678", 8) };
	struct server_record server = { .status = 'I' };
	struct buf record = { 0 };
	size_t sizes[2];

	record_write(&record, &client_record_table, &client);
	sizes[0] = record.count;
	record_write(&record, &server_record_table, &server);
	sizes[1] = record.count - sizes[0];
	ck_assert_uint_eq(record.at[sizes[0] - 5], 'O');
	ck_assert_uint_eq(record.at[sizes[0] + sizes[1] - 13], 'W');
	buf_free(&record);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("main/takeover");
	TCase *tests = tcase_create("takeover");

	tcase_add_test(tests, the_plain_format_is_that_of_releases);
	tcase_add_test(tests, a_version_is_one_format);
	tcase_add_test(tests, the_rest_is_left_out);
	suite_add_tcase(suite, tests);
	return unit_run(suite);
}
