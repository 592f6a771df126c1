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
};

static bool is_client_good(const void *values)
{
	const struct client_record *record = values;

	return handover_address_is_good(&record->peer) &&
	       handover_params_are_good(record->params) &&
	       handover_params_are_good(record->startup) &&
	       (record->key.count == CANCEL_KEY_SIZE || record->key.count == CANCEL_KEY_LONG_SIZE);
}

const struct record_table client_record_table =
    RECORD_TABLE("client", client_fields, is_client_good);

static const struct record_field gate_fields[] = {
	RECORD_FIELD('G', struct gate_record, name),
	RECORD_FIELD('M', struct gate_record, rules),
	RECORD_FIELD('p', struct gate_record, patience),
};

static bool is_gate_good(const void *values)
{
	const struct gate_record *record = values;

	return record->rules <= POOL_MODE_INHERIT && record->patience <= UINT8_MAX;
}

const struct record_table gate_record_table = RECORD_TABLE("listener", gate_fields, is_gate_good);

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

static const struct record_field session_fields[] = {
	RECORD_FIELD('T', struct session_record, touched),
	RECORD_FIELD('p', struct session_record, pins),
	RECORD_FIELD('g', struct session_record, pinning),
	RECORD_FIELD('L', struct session_record, has_slot),
	RECORD_FIELD('D', struct session_record, was_discarded),
	RECORD_FIELD('W', struct session_record, was_told),
	RECORD_FIELD('a', struct session_record, asks_sequences),
	RECORD_FIELD('t', struct session_record, pinned_at),
	RECORD_BYTES_FIELD('x', struct session_record, text, SESSION_TEXT_MAX),
	RECORD_BYTES_FIELD('n', struct session_record, names, PARAMS_SIZE_MAX),
	RECORD_BYTES_FIELD('h', struct session_record, held, SESSION_HELD_MAX),
};

static bool is_session_good(const void *values)
{
	const struct session_record *record = values;
	struct bytes names = record->names, held = record->held;

	return record->touched <= UINT32_MAX && record->pins <= UINT32_MAX &&
	       record->pinning <= UINT32_MAX &&
	       !(record->text.count && memchr(record->text.at, 0, record->text.count)) &&
	       (!names.count || names.at[names.count - 1] == 0) &&
	       (!held.count || held.at[held.count - 1] == 0);
}

const struct record_table session_record_table =
    RECORD_TABLE("session state", session_fields, is_session_good);

static const struct record_field client_listening_fields[] = {
	RECORD_FIELD('l', struct client_listening_record, number),
	RECORD_BYTES_FIELD('c', struct client_listening_record, channels, CHANNEL_MESSAGE_MAX),
	RECORD_BYTES_FIELD('u', struct client_listening_record, unread, CHANNEL_MESSAGE_MAX),
};

static bool is_client_listening_good(const void *values)
{
	const struct client_listening_record *record = values;
	struct bytes channels = record->channels;

	return channels.count && channels.at[channels.count - 1] == 0;
}

const struct record_table client_listening_record_table =
    RECORD_TABLE("listening client", client_listening_fields, is_client_listening_good);

static const struct record_field name_fields[] = {
	RECORD_BYTES_FIELD('N', struct name_record, name, NAME_MAX_SIZE),
	RECORD_FIELD('m', struct name_record, number),
};

static bool is_name_good(const void *values)
{
	const struct name_record *record = values;

	return record->name.count && !memchr(record->name.at, 0, record->name.count);
}

const struct record_table name_record_table =
    RECORD_TABLE("named statement", name_fields, is_name_good);

static const struct record_field told_fields[] = {
	RECORD_FIELD('T', struct told_record, columns),
	RECORD_FIELD('p', struct told_record, parsed_at),
};

static bool is_told_good(const void *values)
{
	const struct told_record *record = values;

	return record->columns <= UINT32_MAX;
}

const struct record_table told_record_table =
    RECORD_TABLE("what is told of a named statement", told_fields, is_told_good);

uint64_t handover_clients_hash(uint64_t hash)
{
	static const struct record_table *const tables[] = {
		&client_record_table,
		&unnamed_record_table,
		&sql_record_table,
		&name_record_table,
	};

	hash = handover_pools_hash(hash);
	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
		hash = record_hash(hash, tables[i]);
	return hash;
}

uint64_t handover_session_hash(uint64_t hash)
{
	hash = record_hash(handover_pools_session_hash(hash), &session_record_table);
	hash = record_hash(hash, &gate_record_table);
	hash = record_hash(hash, &stream_tls_table);
	return record_hash(record_hash(hash, &client_listening_record_table), &told_record_table);
}
