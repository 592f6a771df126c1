/* SPDX-License-Identifier: ISC */
/*
 * pgwire/fields.c: valid and invalid message bodies.
 */
#include "pgweir/pgwire/fields.h"
#include "pgweir/pgwire/message.h"

#include "../unit.h"

#define BYTES(text)                    \
	{                              \
		text, sizeof(text) - 1 \
	}

/* All readers with one signature, so that one table can test them. */
static enum wire_result read_report(struct bytes body)
{
	struct report report;

	return fields_report(body, &report);
}

static enum wire_result read_parameter(struct bytes body)
{
	const char *name, *value;

	return fields_parameter(body, &name, &value);
}

static enum wire_result read_negotiation(struct bytes body)
{
	struct negotiation negotiation;

	return fields_negotiation(body, &negotiation);
}

static enum wire_result read_key(struct bytes body)
{
	struct bytes key;

	return fields_key(body, &key);
}

static enum wire_result read_ready(struct bytes body)
{
	char state;

	return fields_ready(body, &state);
}

static enum wire_result read_types(struct bytes body) { return fields_types(body); }

static enum wire_result read_text(struct bytes body)
{
	const char *text;

	return fields_text(body, &text);
}

static enum wire_result read_auth(struct bytes body)
{
	struct auth_request request;

	return fields_auth(body, &request);
}

static enum wire_result read_row(struct bytes body)
{
	struct row_walk walk;
	struct bytes value;
	enum walk_result result;

	if (fields_row(body, &walk) != WIRE_OK)
		return WIRE_BAD;
	do {
		result = fields_value(&walk, &value);
	} while (result == WALK_ITEM);
	return result == WALK_END ? WIRE_OK : WIRE_BAD;
}

static enum wire_result read_parse(struct bytes body)
{
	struct parse_fields parse;

	return fields_parse(body, &parse);
}

static enum wire_result read_bind(struct bytes body)
{
	struct bind_fields bind;

	return fields_bind(body, &bind);
}

static enum wire_result read_execute(struct bytes body)
{
	const char *portal;
	uint32_t row_limit;

	return fields_execute(body, &portal, &row_limit);
}

static enum wire_result read_initial(struct bytes body)
{
	const char *mechanism;
	struct bytes data;

	return fields_sasl_initial(body, &mechanism, &data);
}

static const struct {
	const char *says;
	enum wire_result (*read)(struct bytes body);
	struct bytes body;
} whole[] = {
	{ "ErrorResponse", read_report, BYTES("SFATAL\0C28P01\0Mno\0Fx.c\0\0") },
	{ "ParameterStatus", read_parameter, BYTES("a\0b\0") },
	{ "BackendKeyData", read_key, BYTES("12345678") },
	{ "NegotiateProtocolVersion", read_negotiation, BYTES("\0\3\0\0\0\0\0\0") },
	{ "NegotiateProtocolVersion with options", read_negotiation,
	  BYTES("\0\3\0\2\0\0\0\2_pq_.a\0_pq_.b\0") },
	{ "ReadyForQuery", read_ready, BYTES("I") },
	{ "ParameterDescription", read_types, BYTES("\0\2\0\0\0\27\0\0\0\31") },
	{ "ParameterDescription of none", read_types, BYTES("\0\0") },
	{ "CommandComplete", read_text, BYTES("SHOW\0") },
	{ "AuthenticationOk", read_auth, BYTES("\0\0\0\0") },
	{ "AuthenticationMD5Password", read_auth, BYTES("\0\0\0\5salt") },
	{ "DataRow", read_row, BYTES("\0\2\0\0\0\1a\377\377\377\377") },
	{ "DataRow without values", read_row, BYTES("\0\0") },
	{ "Parse", read_parse, BYTES("s\0select 1\0\0\1\0\0\0\27") },
	{ "Bind", read_bind, BYTES("p\0s\0\0\1\0\1\0\2\0\0\0\1a\377\377\377\377\0\1\0\1") },
	{ "Execute", read_execute, BYTES("p\0\0\0\0\12") },
	{ "SASLInitialResponse", read_initial, BYTES("SCRAM-SHA-256\0\0\0\0\3n,,") },
	{ "SASLInitialResponse without data", read_initial, BYTES("X\0\377\377\377\377") },
};

/* A complete body is valid; cut anywhere, or with an extra byte, it is not. */
START_TEST(fields_need_the_whole_body)
{
	struct bytes body = whole[_i].body;
	struct buf longer = { 0 };

	ck_assert_msg(whole[_i].read(body) == WIRE_OK, "%s", whole[_i].says);
	for (size_t count = 0; count < body.count; count++) {
		/* On the heap with its exact size, so that a sanitizer detects reads beyond it. */
		char *cut = malloc(count ? count : 1);

		memcpy(cut, body.at, count);
		ck_assert_msg(whole[_i].read(bytes_of(cut, count)) == WIRE_BAD, "%s cut at %zu",
		              whole[_i].says, count);
		free(cut);
	}
	if (whole[_i].read == read_key)
		return; /* may be longer */
	buf_add(&longer, body.at, body.count);
	buf_add_byte(&longer, 'x');
	ck_assert_msg(whole[_i].read(buf_bytes(&longer)) == WIRE_BAD, "%s longer", whole[_i].says);
	buf_free(&longer);
}
END_TEST

static const struct {
	const char *says;
	enum wire_result (*read)(struct bytes body);
	struct bytes body;
} bad[] = {
	{ "a state that is none", read_ready, BYTES("X") },
	{ "more options than there are", read_negotiation, BYTES("\0\3\0\0\377\377\377\377a\0") },
	{ "a state of zero", read_ready, BYTES("\0") },
	{ "a value of a negative length", read_row, BYTES("\0\1\377\377\377\376") },
	{ "a list of mechanisms without end", read_auth, BYTES("\0\0\0\12SCRAM-SHA-256\0") },
	{ "bytes behind the list", read_auth, BYTES("\0\0\0\12SCRAM-SHA-256\0\0x") },
	{ "more types than it has", read_types, BYTES("\377\377\0\0\0\27") },
	{ "more types than there are", read_parse, BYTES("\0\0\377\377\0\0\0\27") },
	{ "more parameters than there are", read_bind, BYTES("\0\0\0\0\377\377\0\0\0\0\0\0") },
};

START_TEST(fields_refuse)
{
	ck_assert_msg(bad[_i].read(bad[_i].body) == WIRE_BAD, "%s", bad[_i].says);
}
END_TEST

/* Four bytes of process id, and 4 to 256 bytes of secret. */
START_TEST(fields_of_keys)
{
	static const struct {
		size_t count;
		enum wire_result result;
	} keys[] = {
		{ 7, WIRE_BAD }, { 8, WIRE_OK },   { 9, WIRE_OK },
		{ 36, WIRE_OK }, { 260, WIRE_OK }, { 261, WIRE_BAD },
	};
	static const char zeroes[512];

	for (size_t i = 0; i < COUNT_OF(keys); i++) {
		struct bytes key;

		ck_assert_int_eq(fields_key(bytes_of(zeroes, keys[i].count), &key), keys[i].result);
		if (keys[i].result == WIRE_OK)
			ck_assert_uint_eq(key.count, keys[i].count);
	}
}
END_TEST

START_TEST(fields_of_negotiation)
{
	struct bytes body = BYTES("\0\3\0\2\0\0\0\2_pq_.a\0_pq_.b\0");
	struct negotiation negotiation;

	ck_assert_int_eq(fields_negotiation(body, &negotiation), WIRE_OK);
	ck_assert_uint_eq(negotiation.version, 0x30002);
	ck_assert_uint_eq(negotiation.count, 2);
	ck_assert(bytes_equal(negotiation.names, bytes_of("_pq_.a\0_pq_.b", 14)));
}
END_TEST

START_TEST(fields_of_a_report)
{
	struct bytes body = BYTES("SERREUR\0VERROR\0C42P01\0Mnon\0Dd\0Hh\0P7\0\0");
	struct report report;

	ck_assert_int_eq(fields_report(body, &report), WIRE_OK);
	ck_assert_str_eq(report.severity, "ERREUR");
	ck_assert_str_eq(report.verbatim, "ERROR");
	ck_assert_str_eq(report.sqlstate, "42P01");
	ck_assert_str_eq(report.text, "non");
	ck_assert_str_eq(report.detail, "d");
	ck_assert_str_eq(report.hint, "h");
	ck_assert_int_eq(fields_report(bytes_of("\0", 1), &report), WIRE_OK);
	ck_assert_str_eq(report.text, "");
	ck_assert_ptr_null(report.hint);
}
END_TEST

START_TEST(fields_of_auth)
{
	struct bytes body = BYTES("\0\0\0\12SCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0\0");
	struct auth_request request;
	const char *name;

	ck_assert_int_eq(fields_auth(body, &request), WIRE_OK);
	ck_assert_uint_eq(request.kind, AUTH_SASL);
	ck_assert_int_eq(fields_mechanism(&request.names, &name), WALK_ITEM);
	ck_assert_str_eq(name, "SCRAM-SHA-256-PLUS");
	ck_assert_int_eq(fields_mechanism(&request.names, &name), WALK_ITEM);
	ck_assert_str_eq(name, "SCRAM-SHA-256");
	ck_assert_int_eq(fields_mechanism(&request.names, &name), WALK_END);

	ck_assert_int_eq(fields_auth(bytes_of("\0\0\0\13data", 8), &request), WIRE_OK);
	ck_assert(bytes_are(request.data, "data"));
	ck_assert_int_eq(fields_auth(bytes_of("\0\0\0\5salt", 8), &request), WIRE_OK);
	ck_assert(bytes_are(request.salt, "salt"));
}
END_TEST

START_TEST(fields_of_a_bind)
{
	struct bytes body = BYTES("p\0s\0\0\1\0\1\0\2\0\0\0\1a\377\377\377\377\0\2\0\0\0\1");
	struct bind_fields bind;
	struct bytes value;

	ck_assert_int_eq(fields_bind(body, &bind), WIRE_OK);
	ck_assert_str_eq(bind.portal, "p");
	ck_assert_str_eq(bind.statement, "s");
	ck_assert_uint_eq(bind.parameter_format_count, 1);
	ck_assert_uint_eq(load_be16(bind.parameter_formats.at), 1);
	ck_assert_int_eq(fields_value(&bind.parameters, &value), WALK_ITEM);
	ck_assert(bytes_are(value, "a"));
	ck_assert_int_eq(fields_value(&bind.parameters, &value), WALK_ITEM);
	ck_assert_ptr_null(value.at);
	ck_assert_int_eq(fields_value(&bind.parameters, &value), WALK_END);
	ck_assert(!fields_is_binary(&bind, 0));
	ck_assert(fields_is_binary(&bind, 1));
	ck_assert(!fields_is_binary(&bind, 2));
}
END_TEST

START_TEST(fields_one_format_is_for_all_columns)
{
	struct bytes body = BYTES("\0\0\0\0\0\0\0\1\0\1");
	struct bind_fields bind;

	ck_assert_int_eq(fields_bind(body, &bind), WIRE_OK);
	ck_assert(fields_is_binary(&bind, 0));
	ck_assert(fields_is_binary(&bind, 7));
}
END_TEST

static const struct {
	const char *says;
	char type;
	struct bytes body;
	size_t names_end; /* bytes after which the names are complete; 0 = never */
	char target;
	const char *statement, *portal;
} fronts[] = {
	{ "Parse", 'P', BYTES("st\0select\0\0\0"), 3, 0, "st", NULL },
	{ "Bind", 'B', BYTES("po\0st\0\0\0\0\0\0\0"), 6, 0, "st", "po" },
	{ "Bind, both without name", 'B', BYTES("\0\0\0\0\0\0\0\0"), 2, 0, "", "" },
	{ "Describe a statement", 'D', BYTES("Sst\0"), 4, 'S', "st", NULL },
	{ "Describe a portal", 'D', BYTES("Ppo\0"), 4, 'P', NULL, "po" },
	{ "Close a statement", 'C', BYTES("Sst\0"), 4, 'S', "st", NULL },
	{ "Execute", 'E', BYTES("po\0\0\0\0\0"), 3, 0, NULL, "po" },
	{ "Bind without its second name", 'B', BYTES("po\0st"), 0, 0, NULL, NULL },
	{ "a Close of nothing", 'C', BYTES(""), 0, 0, NULL, NULL },
};

static void same_name(const char *says, const char *found, const char *wanted)
{
	ck_assert_msg(!found == !wanted && (!found || strcmp(found, wanted) == 0), "%s", says);
}

START_TEST(fields_names_at_every_cut)
{
	struct bytes body = fronts[_i].body;
	size_t end = fronts[_i].names_end;

	for (size_t count = 0; count <= body.count; count++) {
		enum wire_result wanted = end && count >= end  ? WIRE_OK
		                          : count < body.count ? WIRE_MORE
		                                               : WIRE_BAD;
		struct object_names names;
		enum wire_result result =
		    fields_names(fronts[_i].type, bytes_of(body.at, count), body.count, &names);

		ck_assert_msg(result == wanted, "%s at %zu", fronts[_i].says, count);
		if (result != WIRE_OK)
			continue;
		ck_assert_uint_eq(names.count, end);
		ck_assert_int_eq(names.target, fronts[_i].target);
		same_name(fronts[_i].says, names.statement, fronts[_i].statement);
		same_name(fronts[_i].says, names.portal, fronts[_i].portal);
	}
}
END_TEST

START_TEST(fields_names_keep_to_their_message)
{
	struct object_names names;

	/* The zero belongs to the next message. */
	ck_assert_int_eq(fields_names('E', bytes_of("po\0", 3), 2, &names), WIRE_BAD);
	ck_assert_int_eq(fields_names('D', bytes_of("Xst\0", 4), 4, &names), WIRE_BAD);
	ck_assert_int_eq(fields_names('Q', bytes_of("x\0", 2), 2, &names), WIRE_BAD);
}
END_TEST

/* One column: name, table, number, type, size, modifier, format. */
#define ROW(name, table, type, modifier, format)                                         \
	BYTES("\0\1" name "\0\0\0\0" table "\0\1\0\0\0" type "\0\4\377\377\377" modifier \
	      "\0" format)

static const struct {
	const char *says;
	struct bytes body;
	bool is_same;
} columns[] = {
	{ "the same", ROW("a", "\1", "\27", "\377", "\0"), true },
	{ "another table", ROW("a", "\2", "\27", "\377", "\0"), true },
	{ "another format", ROW("a", "\1", "\27", "\377", "\1"), true },
	{ "another name", ROW("b", "\1", "\27", "\377", "\0"), false },
	{ "another type", ROW("a", "\1", "\24", "\377", "\0"), false },
	{ "another type modifier", ROW("a", "\1", "\27", "\376", "\0"), false },
	{ "no columns", BYTES("\0\0"), false },
	{ "cut", BYTES("\0\1a\0\0\0"), false },
	{ "not there", { NULL, 0 }, false },
};

START_TEST(fields_columns_says)
{
	uint32_t one = fields_columns(columns[0].body), other = fields_columns(columns[_i].body);

	ck_assert_uint_gt(other, FIELDS_NO_COLUMNS);
	ck_assert_msg((one == other) == columns[_i].is_same, "%s", columns[_i].says);
}
END_TEST

static const struct {
	const char *says;
	struct bytes in; /* the length is in the last byte of its field */
	bool is_there;
	const char *name, *text;
} texts[] = {
	{ "Query", BYTES("Q\0\0\0\7ab\0"), true, "", "ab" },
	{ "Query and more", BYTES("Q\0\0\0\7ab\0S\0\0\0\4"), true, "", "ab" },
	{ "half a Query", BYTES("Q\0\0\0\7a"), true, "", "a" },
	{ "Query of nothing", BYTES("Q\0\0\0\4"), false, "", "" },
	{ "Query without a zero", BYTES("Q\0\0\0\6ab"), false, "", "ab" },
	{ "Parse", BYTES("P\0\0\0\13s\0ab\0\0\0"), true, "s", "ab" },
	{ "Parse without types", BYTES("P\0\0\0\13s\0ab\0"), true, "s", "ab" },
	{ "half a Parse", BYTES("P\0\0\0\13s\0a"), true, "s", "a" },
	{ "half its name", BYTES("P\0\0\0\13s"), false, "", "" },
	{ "Parse without a zero", BYTES("P\0\0\0\10s\0ab"), false, "s", "ab" },
	{ "Bind", BYTES("B\0\0\0\6\0\0"), false, "", "" },
};

START_TEST(fields_sql_reads)
{
	struct bytes in = texts[_i].in, text;
	struct frame frame = { in.at[0], 1 + load_be32(in.at + 1) };
	const char *name;

	ck_assert_msg(fields_sql(&frame, in, &name, &text) == texts[_i].is_there, "%s",
	              texts[_i].says);
	if (texts[_i].is_there)
		ck_assert_str_eq(name, texts[_i].name);
	ck_assert_msg(bytes_equal(text, bytes_text(texts[_i].text)), "%s", texts[_i].says);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("pgwire/fields");
	TCase *cases = tcase_create("fields");

	tcase_add_loop_test(cases, fields_need_the_whole_body, 0, COUNT_OF(whole));
	tcase_add_loop_test(cases, fields_refuse, 0, COUNT_OF(bad));
	tcase_add_test(cases, fields_of_keys);
	tcase_add_test(cases, fields_of_negotiation);
	tcase_add_test(cases, fields_of_a_report);
	tcase_add_test(cases, fields_of_auth);
	tcase_add_test(cases, fields_of_a_bind);
	tcase_add_loop_test(cases, fields_columns_says, 0, COUNT_OF(columns));
	tcase_add_test(cases, fields_one_format_is_for_all_columns);
	tcase_add_loop_test(cases, fields_names_at_every_cut, 0, COUNT_OF(fronts));
	tcase_add_test(cases, fields_names_keep_to_their_message);
	tcase_add_loop_test(cases, fields_sql_reads, 0, COUNT_OF(texts));
	suite_add_tcase(suite, cases);
	return unit_run(suite);
}
