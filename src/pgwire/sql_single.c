/* SPDX-License-Identifier: ISC */
/*
 * Recognises a single statement, and one that only reads.
 *
 * Hard here: what is not certain must be SQL_SINGLE_NOT. The meaning of a backslash depends on the
 * session, and in some encodings it is a part of another character: a text with a backslash is not
 * certain. In a read, no name may have a byte that is not ASCII: such a byte may be a part of a
 * name that looks like two.
 */
#include "pgweir/pgwire/sql_single.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "sql_priv.h"

/* ---- words ---- */

static const struct {
	const char *word;
	bool may_read;
} beginnings[] = {
	{ "select", true }, { "insert", false }, { "update", false }, { "delete", false },
	{ "merge", false }, { "values", true },  { "table", true },   { "with", true },
};

#define LETTERS 26
#define CALL_MAX 40 /* a name of as many bytes is none of these */

/* Words by their first letters, each with a space before and behind it. */
typedef const char *word_lists[LETTERS];

/* What may be in front of a parenthesis: keywords, types, and functions that only read. */
static const word_lists calls = {
	['a' - 'a'] = " abs age all and any array array_agg array_append array_cat array_length "
		      "array_lower array_position array_positions array_prepend array_remove "
		      "array_replace array_to_json array_to_string array_upper as ascii avg ",
	['b' - 'a'] = " between bit bit_and bit_or bool_and bool_or btrim by ",
	['c' - 'a'] = " cardinality case cast cbrt ceil ceiling char char_length character "
		      "character_length chr coalesce concat concat_ws count cube cume_dist ",
	['d' - 'a'] = " date_bin date_part date_trunc dec decimal degrees dense_rank distinct "
		      "div ",
	['e' - 'a'] = " else every except exists exp extract ",
	['f' - 'a'] = " filter first_value float floor format from ",
	['g' - 'a'] = " generate_series generate_subscripts greatest grouping ",
	['h' - 'a'] = " having ",
	['i' - 'a'] = " ilike in initcap intersect interval is isfinite ",
	['j' - 'a'] = " join json_agg json_array_elements json_array_elements_text "
		      "json_array_length json_build_array json_build_object json_each "
		      "json_each_text json_extract_path json_extract_path_text json_object_agg "
		      "json_object_keys json_typeof jsonb_agg jsonb_array_elements "
		      "jsonb_array_elements_text jsonb_array_length jsonb_build_array "
		      "jsonb_build_object jsonb_each jsonb_each_text jsonb_extract_path "
		      "jsonb_extract_path_text jsonb_object_agg jsonb_object_keys jsonb_set "
		      "jsonb_typeof ",
	['l' - 'a'] = " lag last_value lateral lead least left length like limit ln log lower "
		      "lpad ltrim ",
	['m' - 'a'] = " make_date make_interval make_time make_timestamp make_timestamptz "
		      "materialized max md5 min mod mode ",
	['n' - 'a'] = " not now nth_value ntile nullif numeric ",
	['o' - 'a'] = " octet_length offset on or over overlay ",
	['p' - 'a'] = " percent_rank percentile_cont percentile_disc plainto_tsquery position "
		      "power ",
	['q' - 'a'] = " quote_ident quote_literal quote_nullable ",
	['r' - 'a'] = " radians rank regexp_match regexp_matches regexp_replace "
		      "regexp_split_to_array regexp_split_to_table repeat replace reverse right "
		      "rollup round row row_number row_to_json rpad rtrim ",
	['s' - 'a'] = " select sets sign some split_part sqrt starts_with statement_timestamp "
		      "stddev stddev_pop stddev_samp string_agg string_to_array strpos substr "
		      "substring sum ",
	['t' - 'a'] = " then time timestamp timestamptz timetz to_char to_date to_json to_jsonb "
		      "to_number to_timestamp to_tsquery to_tsvector transaction_timestamp "
		      "translate trim trunc ts_headline ts_rank ",
	['u' - 'a'] = " union unnest upper using ",
	['v' - 'a'] = " values var_pop var_samp varchar variance varying ",
	['w' - 'a'] = " websearch_to_tsquery when where width_bucket within ",
};

/* A statement with one of these, at any place, may be no read: SELECT INTO, FOR UPDATE, ... */
static const word_lists writing = {
	['d' - 'a'] = " delete ", ['f' - 'a'] = " for ",    ['i' - 'a'] = " insert into ",
	['m' - 'a'] = " merge ",  ['u' - 'a'] = " update ",
};

static bool is_in(const word_lists lists, const struct token *token)
{
	char word[CALL_MAX + 3] = " ", first = sql_lower(token->text.at[0]);
	const char *list = first >= 'a' && first <= 'z' ? lists[first - 'a'] : NULL;
	size_t size = list ? sql_unquote(token, false, word + 1, CALL_MAX) : SQL_CANNOT;

	if (size == SQL_CANNOT)
		return false;
	word[size + 1] = ' ';
	return strstr(list, word);
}

static bool is_listed(const struct token *token, struct bytes functions)
{
	for (const char *name; bytes_take_text(&functions, &name);) {
		if (sql_token_is(token, name))
			return true;
	}
	return false;
}

/* ---- texts ---- */

/* The word, or the name in quotes, was no reason to be no read. `before` it there was a point. */
struct last {
	struct token token;
	bool is_behind_point;
};

static bool may_call(const struct last *last, struct bytes functions)
{
	if (last->token.kind == TOKEN_QUOTED || last->token.kind == TOKEN_NUMBER)
		return false;
	if (last->token.kind != TOKEN_WORD || is_listed(&last->token, functions))
		return true;
	return !last->is_behind_point && is_in(calls, &last->token);
}

static bool may_be_read(const struct token *token, const struct last *last, struct bytes functions)
{
	switch (token->kind) {
	case TOKEN_WORD:
		/* Views and functions of the system show the server that they run on. */
		return bytes_are_ascii(token->text) && !is_in(writing, token) &&
		       (token->text.count < 3 || strncasecmp(token->text.at, "pg_", 3) != 0 ||
		        is_listed(token, functions));
	case TOKEN_QUOTED:
		return bytes_are_ascii(token->text) && !sql_is_unicode(token) &&
		       !(token->text.count > 3 && strncmp(token->text.at, "\"pg_", 4) == 0);
	case TOKEN_SIGN:
		return !sql_token_is_sign(token, '(') || may_call(last, functions);
	case TOKEN_NUMBER:
	case TOKEN_STRING:
	case TOKEN_OPEN:
	case TOKEN_END:
		break;
	}
	return true;
}

/* The first word. false: it begins no such statement. */
static bool begin(struct scanner *scanner, struct token *token, bool *may_read)
{
	*token = sql_token(scanner);
	for (size_t i = 0; i < sizeof(beginnings) / sizeof(beginnings[0]); i++) {
		*may_read = beginnings[i].may_read;
		if (sql_token_is(token, beginnings[i].word))
			return true;
	}
	return false;
}

enum sql_single sql_single(struct bytes text, struct bytes functions)
{
	struct scanner scanner = { .rest = text };
	struct last last = { 0 };
	struct token token;
	bool is_read;

	if (sql_has_backslash(text) || !begin(&scanner, &last.token, &is_read))
		return SQL_SINGLE_NOT;
	for (;;) {
		token = sql_token(&scanner);
		if (sql_is_end(&token))
			break;
		is_read = is_read && may_be_read(&token, &last, functions);
		last.is_behind_point = sql_token_is_sign(&last.token, '.');
		last.token = token;
	}
	if (!sql_is_last(&scanner, token))
		return SQL_SINGLE_NOT;
	return is_read ? SQL_SINGLE_READ : SQL_SINGLE_ANY;
}

bool sql_calls_unknown(struct bytes text)
{
	struct scanner scanner = { .rest = text };
	struct last last = { 0 };
	struct token token = sql_token(&scanner);

	for (; token.kind != TOKEN_END; token = sql_token(&scanner)) {
		if (sql_token_is_sign(&token, '(') && !may_call(&last, bytes_of("", 0)))
			return true;
		last.is_behind_point = sql_token_is_sign(&last.token, '.');
		last.token = token;
	}
	return scanner.is_broken || sql_has_backslash(text);
}

/*
 * ---- texts for the primary ----
 *
 * Functions are found by their names anywhere in the text: quotes, comments and encodings need not
 * be followed, since a read on the primary does no harm.
 */

static const word_lists for_primary = {
	['b' - 'a'] = " brin_desummarize_range brin_summarize_new_values "
		      "brin_summarize_range ",
	['g' - 'a'] = " gin_clean_pending_list ",
	['l' - 'a'] = " lo_creat lo_create lo_from_bytea lo_import lo_put lo_truncate "
		      "lo_truncate64 lo_unlink lowrite ",
	['p' - 'a'] = " pg_copy_logical_replication_slot "
		      "pg_copy_physical_replication_slot "
		      "pg_create_logical_replication_slot "
		      "pg_create_physical_replication_slot pg_create_restore_point "
		      "pg_current_wal_flush_lsn pg_current_wal_insert_lsn "
		      "pg_current_wal_lsn pg_current_xact_id pg_drop_replication_slot "
		      "pg_export_snapshot pg_log_standby_snapshot "
		      "pg_logical_emit_message pg_logical_slot_get_binary_changes "
		      "pg_logical_slot_get_changes pg_logical_slot_peek_binary_changes "
		      "pg_logical_slot_peek_changes pg_replication_origin_advance "
		      "pg_replication_origin_create pg_replication_origin_drop "
		      "pg_replication_slot_advance pg_switch_wal pg_walfile_name "
		      "pg_walfile_name_offset ",
	['t' - 'a'] = " txid_current ",
};

/* With these, a statement is for the primary. */
static const char *const first_words[] = { "lock",    "analyze", "analyse",    "vacuum",
	                                   "cluster", "reindex", "checkpoint", "repack" };

static bool has_function(struct bytes text)
{
	while (text.count) {
		struct token word = { .kind = TOKEN_WORD, .text = bytes_of(text.at, 0) };
		size_t size = 0;

		while (size < text.count &&
		       (isalnum((unsigned char)text.at[size]) || text.at[size] == '_'))
			size++;
		word.text.count = size;
		if (size > strlen("lo_pu") && is_in(for_primary, &word))
			return true;
		text = bytes_skip(text, size ? size : 1);
	}
	return false;
}

static bool has_beginning(struct bytes text)
{
	struct scanner scanner = { .rest = text };
	struct token token = sql_token(&scanner);

	for (; token.kind != TOKEN_END; token = sql_next_statement(&scanner, token)) {
		if (sql_token_is_one(&token, first_words,
		                     sizeof(first_words) / sizeof(first_words[0])))
			return true;
	}
	return false;
}

bool sql_is_for_primary(struct bytes text) { return has_function(text) || has_beginning(text); }
