/* SPDX-License-Identifier: ISC */
/*
 * pgwire/sql_block.c: statements that begin and end a transaction block, and similar
 * ones that do not.
 */
#include "pgweir/pgwire/sql_block.h"

#include <string.h>

#include "../unit.h"

enum { OTHER, BEGIN, START, COMMIT, ROLLBACK, SET, PRIMARY = 16, RO = 32, RW = 64, LEVEL = 128 };

static const struct {
	const char *text;
	int what; /* whether it needs a primary, and what it says of access and isolation */
} cases[] = {
	{ "BEGIN", BEGIN },
	{ "begin", BEGIN },
	{ "Begin;", BEGIN },
	{ "BEGIN ; ;", BEGIN },
	{ "  begin\n", BEGIN },
	{ "\t\r\f\nbegin", BEGIN },
	{ "BEGIN WORK", BEGIN },
	{ "BEGIN TRANSACTION", BEGIN },
	{ "/* who: me */ BEGIN", BEGIN },
	{ "BEGIN -- so it is", BEGIN },
	{ "BEGIN /* a /* nested */ one */;", BEGIN },
	{ "BEGIN READ ONLY", BEGIN | RO },
	{ "BEGIN READ WRITE", BEGIN | PRIMARY | RW },
	{ "BEGIN DEFERRABLE", BEGIN },
	{ "BEGIN NOT DEFERRABLE", BEGIN },
	{ "BEGIN ISOLATION LEVEL READ COMMITTED", BEGIN | LEVEL },
	{ "BEGIN ISOLATION LEVEL READ UNCOMMITTED", BEGIN | LEVEL },
	{ "BEGIN ISOLATION LEVEL REPEATABLE READ", BEGIN | LEVEL },
	{ "BEGIN ISOLATION LEVEL SERIALIZABLE", BEGIN | PRIMARY | LEVEL },
	{ "BEGIN ISOLATION LEVEL SERIALIZABLE, READ ONLY DEFERRABLE",
	  BEGIN | PRIMARY | RO | LEVEL },
	{ "BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY NOT DEFERRABLE;",
	  BEGIN | RO | LEVEL },
	{ "BEGIN READ ONLY, ISOLATION LEVEL READ COMMITTED", BEGIN | RO | LEVEL },
	{ "START TRANSACTION", START },
	{ "start transaction read only;", START | RO },
	{ "START TRANSACTION ISOLATION LEVEL SERIALIZABLE", START | PRIMARY | LEVEL },
	{ "COMMIT", COMMIT },
	{ "commit work;", COMMIT },
	{ "COMMIT TRANSACTION AND NO CHAIN", COMMIT },
	{ "END", COMMIT },
	{ "end transaction", COMMIT },
	{ "ROLLBACK", ROLLBACK },
	{ "ROLLBACK WORK AND NO CHAIN;", ROLLBACK },
	{ "abort", ROLLBACK },
	{ "ABORT TRANSACTION", ROLLBACK },
	{ "SET TRANSACTION READ ONLY", SET | RO },
	{ "set transaction isolation level repeatable read, read only;", SET | RO | LEVEL },
	{ "SET TRANSACTION READ WRITE", SET | PRIMARY | RW },
	{ "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE", SET | PRIMARY | LEVEL },
	{ "/* a */ SET/**/TRANSACTION -- b", OTHER },
	{ "SET TRANSACTION DEFERRABLE", SET },

	/* PostgreSQL refuses these */
	{ "", OTHER },
	{ ";", OTHER },
	{ "BEGI", OTHER },
	{ "BEGINN", OTHER },
	{ "\"begin\"", OTHER },
	{ "BEGIN BEGIN", OTHER },
	{ "BEGIN WORK TRANSACTION", OTHER },
	{ "BEGIN READ", OTHER },
	{ "BEGIN NOT", OTHER },
	{ "BEGIN READ ONLY,", OTHER },
	{ "BEGIN , READ ONLY", OTHER },
	{ "BEGIN READ ONLY,, DEFERRABLE", OTHER },
	{ "BEGIN ISOLATION LEVEL", OTHER },
	{ "BEGIN ISOLATION LEVEL NONSENSE", OTHER },
	{ "BEGIN ISOLATION LEVEL READ ONLY", OTHER },
	{ "BEGIN AND NO CHAIN", OTHER },
	{ "BEGIN 'READ ONLY'", OTHER },
	{ "BEGIN \"READ\" ONLY", OTHER },
	{ "BEGIN $1", OTHER },
	{ "BEGIN /* no end", OTHER },
	{ "BEGIN 'no end", OTHER },
	{ "BEGIN; /* no end", OTHER },
	{ "BEGIN\v", OTHER },
	{ "BEGIN\001", OTHER },
	{ "BEGIN -- \303\244", OTHER },
	{ "BEGIN\302\240", OTHER },
	{ "START", OTHER },
	{ "START WORK", OTHER },
	{ "COMMIT READ ONLY", OTHER },
	{ "COMMIT WORK TRANSACTION", OTHER },
	{ "COMMIT NO CHAIN", OTHER },
	{ "COMMIT AND", OTHER },
	{ "COMMIT AND NO", OTHER },

	{ "SET TRANSACTION", OTHER },
	{ "SET TRANSACTION READ", OTHER },
	{ "SET WORK READ ONLY", OTHER },
	{ "SET READ ONLY", OTHER },

	/* these do something else, or more */
	{ "SET TRANSACTION SNAPSHOT '1'", OTHER },
	{ "SET TRANSACTION READ ONLY; SELECT 1", OTHER },
	{ "SET TRANSACTION READ ONLY READ WRITE", OTHER },
	{ "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY", OTHER },
	{ "SET LOCAL transaction_read_only = on", OTHER },
	{ "BEGIN READ ONLY READ WRITE", OTHER },
	{ "BEGIN READ ONLY, READ ONLY", OTHER },
	{ "BEGIN; SELECT 1", OTHER },
	{ "BEGIN; BEGIN", OTHER },
	{ ";BEGIN", OTHER },
	{ "BEGIN ATOMIC", OTHER },
	{ "COMMIT; SELECT 1", OTHER },
	{ "COMMIT AND CHAIN", OTHER },
	{ "ROLLBACK AND CHAIN", OTHER },
	{ "COMMIT PREPARED 'x'", OTHER },
	{ "ROLLBACK PREPARED 'x'", OTHER },
	{ "ROLLBACK TO x", OTHER },
	{ "ROLLBACK TO SAVEPOINT x", OTHER },
	{ "ROLLBACK TRANSACTION TO SAVEPOINT x", OTHER },
	{ "PREPARE TRANSACTION 'x'", OTHER },
	{ "SELECT 1", OTHER },
	{ "SAVEPOINT begin", OTHER },
};

static int read_one(struct bytes text)
{
	struct sql_block block = sql_block_read(text);

	static const int access[] = {
		[SQL_ACCESS_UNSAID] = 0,
		[SQL_ACCESS_READ_ONLY] = RO,
		[SQL_ACCESS_READ_WRITE] = RW,
	};

	return (int)block.kind | (block.is_for_primary ? PRIMARY : 0) | access[block.access] |
	       (block.has_isolation ? LEVEL : 0);
}

START_TEST(reads)
{
	ck_assert_msg(read_one(bytes_text(cases[_i].text)) == cases[_i].what, "%s", cases[_i].text);
}
END_TEST

/* The result does not depend on data after the text, and nothing after it is read. */
START_TEST(every_cut)
{
	const char *text = cases[_i].text;
	size_t size = strlen(text);

	for (size_t count = 0; count <= size; count++) {
		char *copy = malloc(count + 1);

		memcpy(copy, text, count);
		copy[count] = 0;
		ck_assert_int_eq(read_one(bytes_of(text, count)), read_one(bytes_text(copy)));
		free(copy);
		copy = malloc(count ? count : 1); /* the sanitizer detects reads after it */
		memcpy(copy, text, count);
		ck_assert_int_ge(read_one(bytes_of(copy, count)), OTHER);
		free(copy);
	}
}
END_TEST

/* Any additional byte between two words or after them is detected. */
static const struct {
	const char *text;
	bool is_set_local;
} locals[] = {
	{ "SET LOCAL a = 1", true },
	{ "set local statement_timeout to '5s';", true },
	{ " set /* of it */ LOCAL search_path = a, \"b;c\" ; ;", true },
	{ "SET LOCAL TIME ZONE DEFAULT", true },
	{ "SET LOCAL ROLE bob", true },
	{ "SET LOCAL a = 'b;c'", true },
	{ "SET LOCAL a = $$b;c$$", true },
	{ "SET a = 1", false },
	{ "SET SESSION a = 1", false },
	{ "SET local = 1; SELECT 1", false },
	{ "SET LOCAL a = 1; SELECT 1", false },
	{ "SET LOCAL a = 1; SET b = 1", false },
	{ "SELECT 1; SET LOCAL a = 1", false },
	{ "SET LOCAL a = '1", false },
	{ "SET LOCAL a = 'b\\'; SELECT 1; --'", false },
	{ "SET LOCAL a = '\xc3\xa9'", false },
	{ "SET LOCAL TRANSACTION SNAPSHOT '1'", false },
	{ "SET TRANSACTION READ ONLY", false },
	{ "", false },
};

START_TEST(finds_set_local)
{
	ck_assert_msg(sql_is_set_local(bytes_text(locals[_i].text)) == locals[_i].is_set_local,
	              "%s", locals[_i].text);
}
END_TEST

static const struct {
	const char *text;
	bool is_no_block;
} others[] = {
	{ "", true },
	{ "SELECT 1", true },
	{ "SELECT 1; SELECT ';begin';;", true },
	{ "/* begin; */ SELECT 1; -- commit", true },
	{ "SET LOCAL a = 1; SET transactions = 1", false }, /* more than there is */
	{ "SET a = 1; SHOW a", true },
	{ "SELECT '\xc3\xa9'", true },
	{ "SELECT '\xc3\xa9;'", false },
	{ "SELECT '\\'", true },
	{ "SELECT '\\'; BEGIN --'", false },
	{ "BEGIN", false },
	{ "/* \xc3\xa9 */ BEGIN READ WRITE", false },
	{ "BEGIN READ WRITE; SELECT 1", false },
	{ "SELECT 1; BEGIN READ WRITE", false },
	{ ";; SELECT 1;; start transaction", false },
	{ "SELECT 1; COMMIT", false },
	{ "COMMIT PREPARED 'x'", false },
	{ "ROLLBACK PREPARED 'x'", false },
	{ "SET TRANSACTION READ WRITE; SELECT 1", false },
	{ "SET transaction_read_only = off", false },
	{ "SET LOCAL transaction_read_only = off", false },
	{ "SET LOCAL \"transaction_read_only\" = off", false },
	{ "SET SESSION transaction_isolation = serializable", false },
};

START_TEST(finds_no_block)
{
	ck_assert_msg(sql_is_no_block(bytes_text(others[_i].text)) == others[_i].is_no_block, "%s",
	              others[_i].text);
}
END_TEST

static const struct {
	const char *text;
	bool defines_relations;
} definitions[] = {
	{ "", true },
	{ "CREATE TABLE x ()", true },
	{ "create temporary table x ()", true },
	{ "/* ; */ CREATE UNIQUE INDEX CONCURRENTLY ON x (a); ANALYZE x", true },
	{ "CREATE UNLOGGED TABLE x (); INSERT INTO x VALUES (';create function'); COMMIT", true },
	{ "CREATE MATERIALIZED VIEW v AS SELECT 1", true },
	{ "ALTER TABLE x ALTER a SET DEFAULT 1", true },
	{ "SELECT 1 AS create", true },
	{ "CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'", false },
	{ "CREATE OR REPLACE VIEW v AS SELECT 1", false },
	{ "CREATE TABLE x (); CREATE TRIGGER t BEFORE INSERT ON x EXECUTE FUNCTION f()", false },
	{ "CREATE SCHEMA s CREATE TABLE x ()", false },
	{ "CREATE \"table\" x", false },
	{ "CREATE FOREIGN TABLE x () SERVER s", false },
	{ "IMPORT FOREIGN SCHEMA s FROM SERVER s INTO s", false },
	{ "CREATE TEMP", false },
	{ "CREATE TABLE x (a text DEFAULT '\\'); SELECT ''; --'; CREATE FUNCTION f", false },
	{ "CREATE TABLE \"\xc3\xa9\" ()", false },
};

START_TEST(tells_relations_from_other_definitions)
{
	ck_assert_msg(sql_defines_relations(bytes_text(definitions[_i].text)) ==
	                  definitions[_i].defines_relations,
	              "%s", definitions[_i].text);
}
END_TEST

START_TEST(every_byte)
{
	static const char harmless[] = " \t\n\r\f;";
	char text[] = "BEGIN?";

	for (int byte = 0; byte < 256; byte++) {
		text[5] = (char)byte;
		ck_assert_msg(read_one(bytes_of(text, 6)) ==
		                  (byte && strchr(harmless, byte) ? BEGIN : OTHER),
		              "byte %d", byte);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("pgwire/sql_block");
	TCase *tests = tcase_create("sql_block");

	tcase_add_loop_test(tests, reads, 0, COUNT_OF(cases));
	tcase_add_loop_test(tests, every_cut, 0, COUNT_OF(cases));
	tcase_add_loop_test(tests, finds_set_local, 0, COUNT_OF(locals));
	tcase_add_loop_test(tests, finds_no_block, 0, COUNT_OF(others));
	tcase_add_loop_test(tests, tells_relations_from_other_definitions, 0,
	                    sizeof(definitions) / sizeof(definitions[0]));
	tcase_add_test(tests, every_byte);
	suite_add_tcase(suite, tests);
	return unit_run(suite);
}
