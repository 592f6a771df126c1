/* SPDX-License-Identifier: ISC */
/*
 * pool/handover.c: which records are good, and counters between two versions with different
 * lists.
 */
#include "../../../src/pool/handover_priv.h"

#include <string.h>

#include "../unit.h"

static bool read_back(const struct record_table *table, const void *values, void *read)
{
	struct buf bytes = { 0 };
	struct record record;
	bool is_whole;

	record_write(&bytes, table, values);
	ck_assert(buf_ok(&bytes));
	record = (struct record){ .rest = buf_bytes(&bytes) };
	record_read(&record, table, read);
	is_whole = record_is_whole(&record);
	buf_free(&bytes);
	return is_whole;
}

/* ---- counters ---- */

/* All counters of the list, each with another value. */
static struct stats all_different(void)
{
	struct stats stats;

	for (size_t i = 0; i < STATS_FIELDS; i++)
		((uint64_t *)&stats)[i] = (UINT64_C(7) << 40) + i;
	return stats;
}

START_TEST(all_counters_arrive)
{
	struct global_record record = { .stats = all_different() }, read;

	ck_assert(read_back(&global_record_table, &record, &read));
	ck_assert_mem_eq(&read.stats, &record.stats, sizeof(record.stats));
}
END_TEST

/* The record of a role has no counters: these are added as another version might write them. */
static bool read_counters(const char *letters, struct stats *stats)
{
	static const char front[] = "i\0\0\0\10\0\0\0\0\0\0\0\1n\0\0\0\10\0\0\0\0\0\0\0\1"
				    "p\0\0\0\10\0\0\0\0\0\0\0\0S";
	struct buf bytes = { 0 };
	struct global_record read;
	struct record record;

	buf_add(&bytes, front, sizeof(front) - 1);
	buf_add_be32(&bytes, (uint32_t)strlen(letters) * 13);
	for (size_t i = 0; letters[i]; i++) {
		buf_add_byte(&bytes, letters[i]);
		buf_add_be32(&bytes, 8);
		buf_add_be32(&bytes, 0);
		buf_add_be32(&bytes, (uint32_t)i + 1);
	}
	record = (struct record){ .rest = buf_bytes(&bytes) };
	record_read(&record, &global_record_table, &read);
	*stats = read.stats;
	buf_free(&bytes);
	return record_is_whole(&record);
}

/* The meaning of a letter must never change; this list is the reference. */
START_TEST(letters_stay)
{
	static const char letters[] = "axqcsXQWpPbl";
	struct stats stats;

	ck_assert_uint_eq(strlen(letters), STATS_FIELDS);
	ck_assert(read_counters(letters, &stats));
	ck_assert_uint_eq(stats.assignment_count, 1);
	ck_assert_uint_eq(stats.xact_count, 2);
	ck_assert_uint_eq(stats.query_count, 3);
	ck_assert_uint_eq(stats.client_bytes, 4);
	ck_assert_uint_eq(stats.server_bytes, 5);
	ck_assert_uint_eq(stats.xact_time, 6);
	ck_assert_uint_eq(stats.query_time, 7);
	ck_assert_uint_eq(stats.wait_time, 8);
	ck_assert_uint_eq(stats.client_parse_count, 9);
	ck_assert_uint_eq(stats.server_parse_count, 10);
	ck_assert_uint_eq(stats.bind_count, 11);
	ck_assert_uint_eq(stats.client_login_count, 12);
}
END_TEST

START_TEST(unknown_ones_are_left_out_and_missing_ones_are_nothing)
{
	struct stats stats;

	ck_assert(read_counters("#q$", &stats));
	ck_assert_uint_eq(stats.query_count, 2);
	stats.query_count = 0;
	ck_assert_mem_eq(&stats, &(struct stats){ 0 }, sizeof(stats));
	ck_assert(read_counters("", &stats));
}
END_TEST

/* ---- clusters ---- */

static const struct {
	const char *says;
	struct bytes name;
	struct roster_row row;
	bool is_good;
} clusters[] = {
	{ "as it is written", { "a,b\0005432\0user\0", 14 }, { .known.role = HOST_PRIMARY }, true },
	{ "without hosts and a user", { "\0000\0\0", 4 }, { 0 }, true },
	{ "with an address", { "a\0001\0\0", 5 }, { .address.family = AF_INET }, true },
	{ "no name", { "", 0 }, { 0 }, false },
	{ "no port", { "a,b\0", 4 }, { 0 }, false },
	{ "no number as port", { "a\000x\0\0", 5 }, { 0 }, false },
	{ "a port that is too large", { "a\00065536\0\0", 9 }, { 0 }, false },
	{ "a user without its end", { "a\0001\0user", 8 }, { 0 }, false },
	{ "more than a user", { "a\0001\0u\0v\0", 8 }, { 0 }, false },
	{ "a role that there is not",
	  { "a\0001\0\0", 5 },
	  { .known.role = HOST_STANDBY + 1 },
	  false },
	{ "an address of no family", { "a\0001\0\0", 5 }, { .address.family = 12345 }, false },
	{ "the address of a Unix socket",
	  { "a\0001\0\0", 5 },
	  { .address.family = AF_UNIX },
	  false },
};

START_TEST(clusters_are_judged)
{
	struct cluster_record record = { .name = clusters[_i].name }, read;

	record.row = clusters[_i].row;
	ck_assert_msg(read_back(&cluster_record_table, &record, &read) == clusters[_i].is_good,
	              "%s", clusters[_i].says);
}
END_TEST

/* ---- what is good ---- */

static struct pool_record good_pool(void)
{
	return (struct pool_record){
		.database = "db",
		.role = "role",
		.baseline = bytes_of("DateStyle\0ISO\0", 14),
		.welcome = bytes_of("DateStyle\0ISO\0TimeZone\0UTC\0", 27),
		.learnt_kind = SECRET_PLAIN,
		.learnt_text = bytes_text("shown"),
		.secret = bytes_text("stored"),
		.iterations = 4096,
	};
}

static void no_name(struct pool_record *pool) { pool->baseline = bytes_of("\0x\0", 3); }
static void no_zero(struct pool_record *pool) { pool->welcome.count--; }
static void no_value(struct pool_record *pool) { pool->baseline.count = 10; }
static void odd_kind(struct pool_record *pool) { pool->learnt_kind = SECRET_SCRAM + 1; }
static void no_keys(struct pool_record *pool) { pool->learnt_kind = SECRET_SCRAM; }
static void half_keys(struct pool_record *pool)
{
	pool->learnt_kind = SECRET_SCRAM;
	pool->learnt_keys = bytes_text("half of it");
}
static void too_often(struct pool_record *pool) { pool->iterations = UINT32_MAX; }
static void zero_in_text(struct pool_record *pool) { pool->learnt_text = bytes_of("a\0b", 3); }
static void zero_in_secret(struct pool_record *pool) { pool->secret = bytes_of("\0", 1); }

static const struct {
	const char *says;
	void (*spoil)(struct pool_record *pool);
} bad_pools[] = {
	{ "a parameter without a name", no_name },
	{ "a value without its end", no_zero },
	{ "a name without a value", no_value },
	{ "a kind of credentials that there is not", odd_kind },
	{ "keys that are not there", no_keys },
	{ "keys of another size", half_keys },
	{ "more iterations than anybody makes", too_often },
	{ "a zero in what was shown", zero_in_text },
	{ "a zero in the secret", zero_in_secret },
};

START_TEST(bad_pools_are_refused)
{
	struct pool_record pool = good_pool(), read;

	ck_assert(read_back(&pool_record_table, &pool, &read));
	ck_assert_str_eq(read.role, "role");
	bad_pools[_i].spoil(&pool);
	ck_assert_msg(!read_back(&pool_record_table, &pool, &read), "%s", bad_pools[_i].says);
}
END_TEST

static struct server_record good_server(void)
{
	return (struct server_record){
		.database = "db", .role = "role", .status = 'I', .peer = { .family = AF_INET }
	};
}

static void in_transaction(struct server_record *server) { server->status = 'T'; }
static void odd_status(struct server_record *server) { server->status = 'i'; }
static void odd_family(struct server_record *server) { server->peer.family = 12345; }
static void odd_params(struct server_record *server) { server->params = bytes_text("x"); }

static const struct {
	const char *says;
	void (*spoil)(struct server_record *server);
} bad_servers[] = {
	{ "in a transaction, and nobody's", in_transaction },
	{ "a status that there is not", odd_status },
	{ "an address of no family", odd_family },
	{ "a parameter without its end", odd_params },
};

START_TEST(bad_servers_are_refused)
{
	struct server_record server = good_server(), read;

	ck_assert(read_back(&server_record_table, &server, &read));
	bad_servers[_i].spoil(&server);
	ck_assert_msg(!read_back(&server_record_table, &server, &read), "%s", bad_servers[_i].says);
}
END_TEST

static const struct {
	const char *says, *mark_channel;
	bool is_lent, is_good;
} mark_channels[] = {
	{ "as they are made", "pgweir_0123456789abcdef0123456789abcdef", true, true },
	{ "of a server that is nobody's", "pgweir_0123456789abcdef", false, false },
	{ "of somebody else", "news", true, false },
	{ "with more than a name", "pgweir_0;DROP TABLE t", true, false },
};

START_TEST(mark_channel_is_a_name)
{
	struct server_record server = good_server(), read;

	server.is_lent = mark_channels[_i].is_lent;
	memcpy(server.mark_channel, mark_channels[_i].mark_channel,
	       strlen(mark_channels[_i].mark_channel) + 1);
	ck_assert_msg(read_back(&server_record_table, &server, &read) == mark_channels[_i].is_good,
	              "%s", mark_channels[_i].says);
}
END_TEST

START_TEST(a_statement_has_a_text_and_types)
{
	struct statement_record statement = { .number = 7, .text = bytes_of("select\0\0", 9) },
				read;

	ck_assert(read_back(&statement_record_table, &statement, &read));
	ck_assert_uint_eq(read.number, 7);
	statement.text = bytes_of("\0\0", 2);
	ck_assert(!read_back(&statement_record_table, &statement, &read));
	statement.text = bytes_text("no zero at all");
	ck_assert(!read_back(&statement_record_table, &statement, &read));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("pool/handover_records");
	TCase *tests = tcase_create("handover_records");

	tcase_add_test(tests, all_counters_arrive);
	tcase_add_test(tests, letters_stay);
	tcase_add_test(tests, unknown_ones_are_left_out_and_missing_ones_are_nothing);
	tcase_add_loop_test(tests, mark_channel_is_a_name, 0, COUNT_OF(mark_channels));
	tcase_add_loop_test(tests, bad_pools_are_refused, 0, COUNT_OF(bad_pools));
	tcase_add_loop_test(tests, bad_servers_are_refused, 0, COUNT_OF(bad_servers));
	tcase_add_loop_test(tests, clusters_are_judged, 0, COUNT_OF(clusters));
	tcase_add_test(tests, a_statement_has_a_text_and_types);
	suite_add_tcase(suite, tests);
	return unit_run(suite);
}
