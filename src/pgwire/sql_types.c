/* SPDX-License-Identifier: ISC */
/*
 * Parameter types of PREPARE, as named by PostgreSQL itself.
 *
 * Only these names can be translated: the meaning of any other name depends on the database and
 * its search_path. The OIDs in this table are the same in every version of PostgreSQL.
 */
#include <string.h>

#include "sql_priv.h"

#define TYPE_NAME_SIZE 64

static const struct {
	const char *name;
	uint16_t type;
	uint16_t array;
} known[] = {
	{ "bigint", 20, 1016 },
	{ "bit", 1560, 1561 },
	{ "bit varying", 1562, 1563 },
	{ "bool", 16, 1000 },
	{ "boolean", 16, 1000 },
	{ "bpchar", 1042, 1014 },
	{ "bytea", 17, 1001 },
	{ "char", 1042, 1014 },
	{ "char varying", 1043, 1015 },
	{ "character", 1042, 1014 },
	{ "character varying", 1043, 1015 },
	{ "cidr", 650, 651 },
	{ "date", 1082, 1182 },
	{ "dec", 1700, 1231 },
	{ "decimal", 1700, 1231 },
	{ "double precision", 701, 1022 },
	{ "float4", 700, 1021 },
	{ "float8", 701, 1022 },
	{ "inet", 869, 1041 },
	{ "int", 23, 1007 },
	{ "int2", 21, 1005 },
	{ "int4", 23, 1007 },
	{ "int8", 20, 1016 },
	{ "integer", 23, 1007 },
	{ "interval", 1186, 1187 },
	{ "json", 114, 199 },
	{ "jsonb", 3802, 3807 },
	{ "macaddr", 829, 1040 },
	{ "name", 19, 1003 },
	{ "numeric", 1700, 1231 },
	{ "oid", 26, 1028 },
	{ "real", 700, 1021 },
	{ "regclass", 2205, 2210 },
	{ "smallint", 21, 1005 },
	{ "text", 25, 1009 },
	{ "time", 1083, 1183 },
	{ "time with time zone", 1266, 1270 },
	{ "time without time zone", 1083, 1183 },
	{ "timestamp", 1114, 1115 },
	{ "timestamp with time zone", 1184, 1185 },
	{ "timestamp without time zone", 1114, 1115 },
	{ "timestamptz", 1184, 1185 },
	{ "timetz", 1266, 1270 },
	{ "uuid", 2950, 2951 },
	{ "varbit", 1562, 1563 },
	{ "varchar", 1043, 1015 },
	{ "xml", 142, 143 },
};

static const char *const unknown = "of a parameter type that is not one of PostgreSQL's own";

/* One parsed type: its words, and what followed them. */
struct type_words {
	char name[TYPE_NAME_SIZE];
	bool is_array;
	bool is_odd; /* it has a part that is not understood here */
};

static void add_word(struct type_words *words, struct bytes word)
{
	size_t used = strlen(words->name);

	if (used + word.count + 2 > sizeof(words->name)) {
		words->is_odd = true;
		return;
	}
	if (used)
		words->name[used++] = ' ';
	for (size_t i = 0; i < word.count; i++) {
		char c = word.at[i];

		words->name[used++] = (char)(c >= 'A' && c <= 'Z' ? c + 32 : c);
	}
	words->name[used] = 0;
}

/* Skips the numbers after a '(' or '[' and the closing sign, as in varchar(10) and int[3]. */
static void skip_size(struct scanner *scanner, struct type_words *words, char end)
{
	struct token token = sql_token(scanner);

	while (token.kind == TOKEN_NUMBER || sql_token_is_sign(&token, ','))
		token = sql_token(scanner);
	if (!sql_token_is_sign(&token, end))
		words->is_odd = true;
}

/*
 * Parses one type. Returns the token that ended it: ',' or ')'. Any other token is an error
 * that PostgreSQL will report.
 */
static struct token read_type(struct scanner *scanner, struct type_words *words)
{
	struct token token = sql_token(scanner);

	*words = (struct type_words){ .is_odd = false };
	for (; !sql_token_is_sign(&token, ',') && !sql_token_is_sign(&token, ')');
	     token = sql_token(scanner)) {
		if (token.kind == TOKEN_END)
			break;
		if (sql_token_is_sign(&token, '('))
			skip_size(scanner, words, ')');
		else if (sql_token_is_sign(&token, '['))
			skip_size(scanner, words, ']'), words->is_array = true;
		else if (sql_token_is(&token, "array"))
			words->is_array = true;
		else if (token.kind == TOKEN_WORD && !words->is_array)
			add_word(words, token.text);
		else
			words->is_odd = true;
	}
	return token;
}

static uint32_t find_type(const struct type_words *words)
{
	if (words->is_odd)
		return 0;
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		if (strcmp(known[i].name, words->name) == 0)
			return words->is_array ? known[i].array : known[i].type;
	}
	return 0;
}

const char *sql_types(struct scanner *scanner, struct sql_statement *statement)
{
	const char *reason = NULL;
	struct type_words words;
	struct token end;

	do {
		uint32_t type;

		end = read_type(scanner, &words);
		if (end.kind == TOKEN_END || (!words.name[0] && !words.is_odd))
			return "";
		type = find_type(&words);
		if (!type || statement->type_count == SQL_TYPES_MAX)
			reason = unknown;
		else
			statement->types[statement->type_count++] = type;
	} while (!sql_token_is_sign(&end, ')'));
	return reason;
}
