/* SPDX-License-Identifier: ISC */
/*
 * The hand-over records of a client: one table for each.
 */
#include "client_records_priv.h"

#include <string.h>

#include "pgweir/client/cancel_keys.h"

#define NAME_MAX_SIZE ((size_t)1024 * 1024)

static const struct record_field client_fields[] = {
	RECORD_FIELD('i', struct client_record, id),
	RECORD_FIELD('d', struct client_record, database),
	RECORD_FIELD('u', struct client_record, role),
	RECORD_FIELD('U', struct client_record, pool),
	RECORD_FIELD('L', struct client_record, is_lent),
	RECORD_BLOCK_FIELD('P', struct client_record, peer),
	RECORD_BYTES_FIELD('v', struct client_record, params, PARAMS_SIZE_MAX),
	RECORD_BYTES_FIELD('s', struct client_record, startup, PARAMS_SIZE_MAX),
	RECORD_BYTES_FIELD('k', struct client_record, key, CANCEL_KEY_LONG_SIZE),
	RECORD_FIELD('t', struct client_record, connected_at),
	RECORD_FIELD('q', struct client_record, request_at),
	RECORD_FIELD('x', struct client_record, xact_at),
	RECORD_FIELD('e', struct client_record, idle_since),
	RECORD_FIELD('w', struct client_record, waiting_since),
	RECORD_FIELD('l', struct client_record, wait_number),
	RECORD_FIELD('n', struct client_record, was_notified),
	RECORD_FIELD('S', struct client_record, is_skipping),
	RECORD_BYTES_FIELD('I', struct client_record, kept, CHANNEL_MESSAGE_MAX),
	RECORD_BYTES_FIELD('O', struct client_record, unsent, CHANNEL_MESSAGE_MAX),
	RECORD_FIELD('G', struct client_record, gate, RECORD_OPTIONAL),
	RECORD_FIELD('M', struct client_record, rules, RECORD_OPTIONAL),
	RECORD_FIELD('p', struct client_record, patience, RECORD_OPTIONAL),
	RECORD_FIELD('A', struct client_record, has_session, RECORD_OPTIONAL),
	RECORD_FIELD('T', struct client_record, touched, RECORD_OPTIONAL),
	RECORD_FIELD('r', struct client_record, pins, RECORD_OPTIONAL),
	RECORD_FIELD('g', struct client_record, pinning, RECORD_OPTIONAL),
	RECORD_FIELD('F', struct client_record, has_slot, RECORD_OPTIONAL),
	RECORD_FIELD('D', struct client_record, was_discarded, RECORD_OPTIONAL),
	RECORD_FIELD('W', struct client_record, was_told, RECORD_OPTIONAL),
	RECORD_FIELD('a', struct client_record, asks_sequences, RECORD_OPTIONAL),
	RECORD_FIELD('o', struct client_record, pinned_at, RECORD_OPTIONAL),
	RECORD_BYTES_FIELD('y', struct client_record, text, SESSION_TEXT_MAX, RECORD_OPTIONAL),
	RECORD_BYTES_FIELD('m', struct client_record, names, PARAMS_SIZE_MAX, RECORD_OPTIONAL),
	RECORD_BYTES_FIELD('h', struct client_record, held, SESSION_HELD_MAX, RECORD_OPTIONAL),
	RECORD_FIELD('B', struct client_record, listening, RECORD_OPTIONAL),
	RECORD_BYTES_FIELD('C', struct client_record, channels, CHANNEL_MESSAGE_MAX,
	                   RECORD_OPTIONAL),
	RECORD_BYTES_FIELD('R', struct client_record, unread, CHANNEL_MESSAGE_MAX, RECORD_OPTIONAL),
};

/* Whether each of the texts, if there are any, has its end. */
static bool are_texts(struct bytes texts) { return !texts.count || texts.at[texts.count - 1] == 0; }

static bool is_client_good(const void *values)
{
	const struct client_record *record = values;

	return handover_address_is_good(&record->peer) &&
	       handover_params_are_good(record->params) &&
	       handover_params_are_good(record->startup) &&
	       (record->key.count == CANCEL_KEY_SIZE ||
	        record->key.count == CANCEL_KEY_LONG_SIZE) &&
	       record->rules <= POOL_MODE_INHERIT && record->patience <= UINT8_MAX &&
	       !(record->text.count && memchr(record->text.at, 0, record->text.count)) &&
	       are_texts(record->names) && are_texts(record->held) && are_texts(record->channels) &&
	       !record->listening == !record->channels.count;
}

const struct record_table client_record_table =
    RECORD_TABLE("client", client_fields, is_client_good);

static const struct record_field unnamed_fields[] = {
	RECORD_FIELD('X', struct unnamed_record, has_text),
	RECORD_FIELD('x', struct unnamed_record, is_here),
	RECORD_FIELD('y', struct unnamed_record, number),
};

const struct record_table unnamed_record_table =
    RECORD_TABLE("unnamed statement", unnamed_fields, NULL);

static const struct record_field sql_fields[] = {
	RECORD_FIELD('Q', struct sql_record, kind),
	RECORD_FIELD('b', struct sql_record, is_bound),
	RECORD_FIELD('q', struct sql_record, name),
	RECORD_FIELD('z', struct sql_record, number),
};

static bool is_sql_good(const void *values)
{
	const struct sql_record *record = values;

	return record->kind == SQL_PREPARE || record->kind == SQL_EXECUTE ||
	       record->kind == SQL_DEALLOCATE || record->kind == SQL_FORGET;
}

const struct record_table sql_record_table =
    RECORD_TABLE("unnamed statement in SQL", sql_fields, is_sql_good);

static const struct record_field name_fields[] = {
	RECORD_BYTES_FIELD('N', struct name_record, name, NAME_MAX_SIZE),
	RECORD_FIELD('m', struct name_record, number),
	RECORD_FIELD('T', struct name_record, columns, RECORD_OPTIONAL),
	RECORD_FIELD('p', struct name_record, parsed_at, RECORD_OPTIONAL),
};

static bool is_name_good(const void *values)
{
	const struct name_record *record = values;

	return record->name.count && !memchr(record->name.at, 0, record->name.count);
}

const struct record_table name_record_table =
    RECORD_TABLE("named statement", name_fields, is_name_good);
