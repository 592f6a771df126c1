/* SPDX-License-Identifier: ISC */
/*
 * Texts for the primary.
 *
 * Functions are found by their names anywhere in the text: quotes, comments and encodings need not
 * be followed, since a read on the primary does no harm.
 */
#include "pgweir/pgwire/sql_primary.h"

#include "sql_priv.h"
#include "sql_words_priv.h"

/* In the order of their sizes. */
static const struct sql_word functions[] = {
	SQL_WORD("lo_put"),
	SQL_WORD("lowrite"),
	SQL_WORD("lo_creat"),
	SQL_WORD("lo_create"),
	SQL_WORD("lo_import"),
	SQL_WORD("lo_unlink"),
	SQL_WORD("lo_truncate"),
	SQL_WORD("txid_current"),
	SQL_WORD("lo_from_bytea"),
	SQL_WORD("lo_truncate64"),
	SQL_WORD("pg_switch_wal"),
	SQL_WORD("pg_walfile_name"),
	SQL_WORD("pg_current_wal_lsn"),
	SQL_WORD("pg_current_xact_id"),
	SQL_WORD("pg_export_snapshot"),
	SQL_WORD("brin_summarize_range"),
	SQL_WORD("brin_desummarize_range"),
	SQL_WORD("gin_clean_pending_list"),
	SQL_WORD("pg_walfile_name_offset"),
	SQL_WORD("pg_create_restore_point"),
	SQL_WORD("pg_log_standby_snapshot"),
	SQL_WORD("pg_logical_emit_message"),
	SQL_WORD("pg_current_wal_flush_lsn"),
	SQL_WORD("pg_drop_replication_slot"),
	SQL_WORD("brin_summarize_new_values"),
	SQL_WORD("pg_current_wal_insert_lsn"),
	SQL_WORD("pg_replication_origin_drop"),
	SQL_WORD("pg_logical_slot_get_changes"),
	SQL_WORD("pg_replication_slot_advance"),
	SQL_WORD("pg_logical_slot_peek_changes"),
	SQL_WORD("pg_replication_origin_create"),
	SQL_WORD("pg_replication_origin_advance"),
	SQL_WORD("pg_copy_logical_replication_slot"),
	SQL_WORD("pg_copy_physical_replication_slot"),
	SQL_WORD("pg_create_logical_replication_slot"),
	SQL_WORD("pg_logical_slot_get_binary_changes"),
	SQL_WORD("pg_create_physical_replication_slot"),
	SQL_WORD("pg_logical_slot_peek_binary_changes"),
};

#define FUNCTION_COUNT (sizeof(functions) / sizeof(functions[0]))

/* With these, a statement is for the primary. */
static const char *const beginnings[] = { "lock",    "analyze", "analyse",   "vacuum",
	                                  "cluster", "reindex", "checkpoint" };

static bool continues_word(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '_';
}

static bool has_function(struct bytes text)
{
	while (text.count) {
		struct bytes word = bytes_of(text.at, 0);

		while (word.count < text.count && continues_word(text.at[word.count]))
			word.count++;
		if (sql_word_find(functions, FUNCTION_COUNT, sizeof(functions[0]), word))
			return true;
		text = bytes_skip(text, word.count ? word.count : 1);
	}
	return false;
}

static bool has_beginning(struct bytes text)
{
	struct scanner scanner = { .rest = text };
	struct token token;

	do {
		token = sql_token(&scanner);
		for (size_t i = 0; i < sizeof(beginnings) / sizeof(beginnings[0]); i++) {
			if (sql_token_is(&token, beginnings[i]))
				return true;
		}
		while (token.kind != TOKEN_END && !sql_token_is_sign(&token, ';'))
			token = sql_token(&scanner);
	} while (token.kind != TOKEN_END);
	return false;
}

bool sql_is_for_primary(struct bytes text) { return has_function(text) || has_beginning(text); }
