/* SPDX-License-Identifier: ISC */
/* The hand-over records of the pool module, one table for each; and those of statements. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "pgweir/base/text.h"
#include "pgweir/pgwire/sql.h"
#include "pgweir/pool/server/params.h"

#include "handover_priv.h"

/* ---- counters ---- */

#define COUNTER_ROW(field, letter, ...) RECORD_FIELD(letter, struct stats, field),

static const struct record_field stats_fields[] = { STATS_COUNTERS(COUNTER_ROW, COUNTER_ROW) };

static const struct record_table stats_record_table = RECORD_TABLE("counters", stats_fields, NULL);

/* ---- common parts of records ---- */

bool handover_params_are_good(struct bytes pairs)
{
	const char *name, *value;
	unsigned int count = 0;

	while (pairs.count) {
		if (!bytes_take_text(&pairs, &name) || !*name || !bytes_take_text(&pairs, &value))
			return false;
		count++;
	}
	return count <= PARAMS_NAMES_MAX;
}

bool handover_params_are_plain(const struct params *params)
{
	if (params_find(params, "role") || params_find(params, SESSION_AUTHORIZATION))
		return false;
	PARAMS_EACH (name, value, params) {
		if (tracked_is_library(name))
			return false;
	}
	return true;
}

bool handover_address_is_good(const struct address *address)
{
	return address->family == AF_UNSPEC || address->family == AF_INET ||
	       address->family == AF_INET6 || address->family == AF_UNIX;
}

static bool has_zero(struct bytes bytes) { return bytes.count && memchr(bytes.at, 0, bytes.count); }

bool handover_refuse(const struct record *record, const char *what, struct err *err)
{
	return err_set(err, ERR_PROTOCOL, "protocol error in the hand-over: bad %s (%s)", what,
	               record->flaw ? record->flaw : "it is too long");
}

/* ---- all pools ---- */

static const struct record_field global_fields[] = {
	RECORD_FIELD('i', struct global_record, last_id),
	RECORD_FIELD('n', struct global_record, last_number),
	RECORD_FIELD('p', struct global_record, is_paused),
	RECORD_COUNTERS_FIELD('S', struct global_record, stats, &stats_record_table),
};

const struct record_table global_record_table = RECORD_TABLE("global", global_fields, NULL);

/* ---- a database ---- */

static const struct record_field database_fields[] = {
	RECORD_FIELD('d', struct database, name),
	RECORD_FIELD('p', struct database, is_paused),
	RECORD_FIELD('x', struct database, is_disabled),
	RECORD_FIELD('s', struct database, cap.hits),
	RECORD_FIELD('c', struct database, client_limit_hits),
	RECORD_FIELD('g', struct database, has_gone),
	RECORD_COUNTERS_FIELD('S', struct database, gone, &stats_record_table),
};

const struct record_table database_record_table = RECORD_TABLE("database", database_fields, NULL);

/* ---- a role ---- */

static const struct record_field role_fields[] = {
	RECORD_FIELD('u', struct role, name),
	RECORD_FIELD('s', struct role, cap.hits),
	RECORD_FIELD('c', struct role, client_limit_hits),
};

const struct record_table role_record_table = RECORD_TABLE("role", role_fields, NULL);

/* ---- a pool ---- */

#define SECRET_MAX ((size_t)64 * 1024 - 1)
#define WELCOME_MAX ((size_t)128 * 1024)

static const struct record_field pool_fields[] = {
	RECORD_FIELD('d', struct pool_record, database),
	RECORD_FIELD('u', struct pool_record, role),
	RECORD_FIELD('l', struct pool_record, is_for_lookups),
	RECORD_FIELD('W', struct pool_record, has_welcome),
	RECORD_BYTES_FIELD('w', struct pool_record, welcome, WELCOME_MAX),
	RECORD_BYTES_FIELD('b', struct pool_record, baseline, PARAMS_SIZE_MAX),
	RECORD_FIELD('z', struct pool_record, size_hits),
	RECORD_FIELD('r', struct pool_record, reserve_hits),
	RECORD_FIELD('k', struct pool_record, learnt_kind),
	RECORD_BYTES_FIELD('t', struct pool_record, learnt_text, SECRET_MAX),
	RECORD_BYTES_FIELD('K', struct pool_record, learnt_keys, sizeof(struct scram_keys)),
	RECORD_FIELD('o', struct pool_record, is_shown),
	RECORD_FIELD('n', struct pool_record, iterations),
	RECORD_BYTES_FIELD('B', struct pool_record, salt, SCRAM_SALT_MAX),
	RECORD_BYTES_FIELD('f', struct pool_record, secret, SECRET_MAX),
	RECORD_COUNTERS_FIELD('S', struct pool_record, stats, &stats_record_table),
};

static bool is_pool_good(const void *values)
{
	const struct pool_record *record = values;
	bool has_keys = record->learnt_keys.count == sizeof(struct scram_keys);

	return handover_params_are_good(record->baseline) &&
	       handover_params_are_good(record->welcome) &&
	       record->learnt_kind <= CREDENTIALS_KEYS &&
	       has_keys == (record->learnt_kind == CREDENTIALS_KEYS) &&
	       record->iterations <= SCRAM_ITERATIONS_MAX && !has_zero(record->learnt_text) &&
	       !has_zero(record->secret);
}

const struct record_table pool_record_table = RECORD_TABLE("pool", pool_fields, is_pool_good);

/* ---- a statement ---- */

static const struct record_field statement_fields[] = {
	RECORD_FIELD('n', struct statement_record, number),
	RECORD_BYTES_FIELD('t', struct statement_record, text, CHANNEL_MESSAGE_MAX),
	RECORD_FIELD('p', struct statement_record, stem, RECORD_OPTIONAL),
	RECORD_BYTES_FIELD('s', struct statement_record, scope, PARAMS_SIZE_MAX, RECORD_OPTIONAL),
	RECORD_FIELD('T', struct statement_record, is_typed, RECORD_OPTIONAL),
	RECORD_FIELD('F', struct statement_record, is_forgetting, RECORD_OPTIONAL),
};

static bool is_statement_good(const void *values)
{
	const struct statement_record *record = values;

	/* A query with its zero, and the number of its types. */
	return record->text.count >= 3 && has_zero(record->text) &&
	       handover_params_are_good(record->scope);
}

const struct record_table statement_record_table =
    RECORD_TABLE("statement", statement_fields, is_statement_good);

/* ---- hosts ---- */

static const struct record_field closed_host_fields[] = {
	RECORD_FIELD('h', struct closed_host_record, host),
	RECORD_FIELD('x', struct closed_host_record, is_disabled),
};

const struct record_table closed_host_record_table =
    RECORD_TABLE("closed host", closed_host_fields, NULL);

/* What is longer than a line of a file is no list of hosts. */
#define CLUSTER_NAME_MAX ((size_t)1024 * 1024)

static const struct record_field cluster_fields[] = {
	RECORD_BYTES_FIELD('n', struct cluster_record, name, CLUSTER_NAME_MAX),
	RECORD_FIELD('T', struct cluster_record, timeline),
	RECORD_FIELD('Y', struct cluster_record, system),
	RECORD_FIELD('H', struct cluster_record, row.host),
	RECORD_BLOCK_FIELD('a', struct cluster_record, row.address),
	RECORD_FIELD('r', struct cluster_record, row.known.role),
	RECORD_FIELD('o', struct cluster_record, row.known.is_read_only),
	RECORD_FIELD('S', struct cluster_record, row.is_sure),
	RECORD_FIELD('e', struct cluster_record, row.is_elected),
	RECORD_FIELD('t', struct cluster_record, row.known.timeline),
	RECORD_FIELD('s', struct cluster_record, row.known.system),
	RECORD_FIELD('b', struct cluster_record, row.known.started),
	RECORD_FIELD('l', struct cluster_record, row.seen_at),
	RECORD_FIELD('c', struct cluster_record, row.since),
	RECORD_FIELD('L', struct cluster_record, row.lost_at), /* 0: it is not lost */
};

bool handover_cluster_key(const struct cluster_record *record, struct cluster_key *key)
{
	struct bytes name = record->name;
	const char *port;
	int64_t number;

	if (!bytes_take_text(&name, &key->hosts) || !bytes_take_text(&name, &port) ||
	    !bytes_take_text(&name, &key->user) || name.count || !text_to_i64(port, &number) ||
	    number < 0 || number > UINT16_MAX)
		return false;
	key->port = (int)number;
	return true;
}

/* A Unix socket has no address here. */
static bool is_cluster_good(const void *values)
{
	const struct cluster_record *record = values;
	const struct roster_row *row = &record->row;
	struct cluster_key key;

	return handover_cluster_key(record, &key) && handover_address_is_good(&row->address) &&
	       row->address.family != AF_UNIX && row->known.role <= HOST_STANDBY;
}

const struct record_table cluster_record_table =
    RECORD_TABLE("cluster", cluster_fields, is_cluster_good);

/* ---- a server ---- */

static const struct record_field server_fields[] = {
	RECORD_FIELD('i', struct server_record, id),
	RECORD_FIELD('d', struct server_record, database),
	RECORD_FIELD('u', struct server_record, role),
	RECORD_FIELD('l', struct server_record, is_for_lookups),
	RECORD_FIELD('L', struct server_record, is_lent),
	RECORD_FIELD('U', struct server_record, is_used),
	RECORD_FIELD('D', struct server_record, destination),
	RECORD_FIELD('h', struct server_record, host),
	RECORD_BLOCK_FIELD('P', struct server_record, peer),
	RECORD_FIELD('p', struct server_record, path),
	RECORD_FIELD('T', struct server_record, status),
	RECORD_FIELD('c', struct server_record, is_close_needed),
	RECORD_FIELD('S', struct server_record, has_session),
	RECORD_FIELD('r', struct server_record, is_rest_unknown),
	RECORD_BYTES_FIELD('v', struct server_record, params, PARAMS_SIZE_MAX),
	RECORD_BYTES_FIELD('b', struct server_record, baseline, PARAMS_SIZE_MAX),
	RECORD_BYTES_FIELD('k', struct server_record, key, SERVER_KEY_MAX),
	RECORD_FIELD('t', struct server_record, connected_at),
	RECORD_FIELD('a', struct server_record, used_at),
	RECORD_FIELD('q', struct server_record, request_at),
	RECORD_FIELD('x', struct server_record, xact_at),
	RECORD_FIELD('w', struct server_record, connect_wall),
	RECORD_FIELD('W', struct server_record, request_wall),
	RECORD_FIELD('Y', struct server_record, held, RECORD_OPTIONAL),
	RECORD_FIELD('M', struct server_record, mark_channel, RECORD_OPTIONAL),
	RECORD_FIELD('e', struct server_record, encoding, RECORD_OPTIONAL),
};

/* It is a part of statements. */
static bool is_mark_channel(const char *name)
{
	return strncmp(name, MARK_CHANNEL_PREFIX, strlen(MARK_CHANNEL_PREFIX)) == 0 &&
	       name[strspn(name, MARK_CHANNEL_PREFIX "0123456789abcdef")] == 0;
}

static bool is_server_good(const void *values)
{
	const struct server_record *record = values;
	uint64_t status = record->status;

	return handover_address_is_good(&record->peer) &&
	       handover_params_are_good(record->params) &&
	       handover_params_are_good(record->baseline) &&
	       (status == 'I' || status == 'T' || status == 'E') &&
	       (record->is_lent || status == 'I') &&
	       (!*record->mark_channel ||
	        (record->is_lent && is_mark_channel(record->mark_channel)));
}

const struct record_table server_record_table =
    RECORD_TABLE("server", server_fields, is_server_good);

#define STATEMENT_STATE                                                                 \
	RECORD_FIELD('P', struct on_server_record, state.sent_at, RECORD_OPTIONAL),     \
	    RECORD_FIELD('d', struct on_server_record, state.done_at, RECORD_OPTIONAL), \
	    RECORD_FIELD('c', struct on_server_record, state.columns, RECORD_OPTIONAL)

static const struct record_field on_server_fields[] = {
	RECORD_FIELD('n', struct on_server_record, number),
	STATEMENT_STATE,
};

const struct record_table on_server_record_table =
    RECORD_TABLE("statement on a server", on_server_fields, NULL);

static const struct record_field stale_fields[] = {
	RECORD_FIELD('N', struct on_server_record, number),
	STATEMENT_STATE,
};

const struct record_table stale_record_table =
    RECORD_TABLE("stale statement on a server", stale_fields, NULL);

/* ---- statements ---- */

/* Whether it takes all others away: 0.3.0 does not look at the text again. */
static bool is_forgetting(struct bytes text)
{
	text.count = strnlen(text.at, text.count); /* the types follow */
	return !sql_is_other(text) && sql_kind_of(text) == SQL_FORGET;
}

bool handover_write_statement(struct statement *statement, const struct statement_image *image,
                              struct channel *channel)
{
	struct bytes stem = statement_image_stem(image);
	struct statement_record record = {
		.number = statement_image_number(image),
		.text = statement_text(statement),
		.scope = statement_scope(statement),
		.is_typed = statement->is_typed,
	};

	if (statement->is_written && image == statement->image)
		return true;
	record.is_forgetting = is_forgetting(record.text);
	assert(stem.count < sizeof(record.stem));
	memcpy(record.stem, stem.at, stem.count);
	if (!channel_send_table(channel, HANDOVER_STATEMENT, &statement_record_table, &record, -1))
		return false;
	statement->is_written |= image == statement->image;
	return true;
}

struct arrived_statement {
	UT_hash_handle hh;
	uint64_t number;
	struct statement_image *image; /* with its name there; one reference. NULL: no memory */
	bool is_typed;
};

static struct arrived_statement *find_arrived(const struct pools_arrival *arrival, uint64_t number)
{
	return TABLE_GET_OWN(hh, arrival->statements, &number, sizeof(number));
}

/* Each loop of the other process has written it, and they may know different things of it. */
void handover_statement_take(struct pools *pools, struct pools_arrival *arrival, const void *values)
{
	const struct statement_record *record = values;
	struct statement_name name = { record->stem, record->number };
	struct arrived_statement *arrived = find_arrived(arrival, record->number);

	if (!arrived && (arrived = calloc(1, sizeof(*arrived)))) {
		arrived->number = record->number;
		arrived->image = statement_image_named(&pools->statements.names, &name,
		                                       record->text, record->scope);
		HASH_ADD(hh, arrival->statements, number, sizeof(arrived->number), arrived);
	}
	if (arrived)
		arrived->is_typed |= record->is_typed;
}

struct statement *handover_arrival_statement(const struct pools_arrival *arrival,
                                             struct pools *pools, uint64_t number,
                                             struct statement_image **image)
{
	const struct arrived_statement *arrived = find_arrived(arrival, number);
	struct statement *statement = NULL;

	if (arrived && arrived->image)
		statement = statement_of_image(&pools->statements, arrived->image);
	if (!statement)
		return NULL;
	statement->is_typed |= arrived->is_typed;
	if (image)
		*image = arrived->image;
	return statement;
}

void handover_statements_done(struct pools_arrival *arrival)
{
	struct arrived_statement *arrived, *next;

	HASH_ITER (hh, arrival->statements, arrived, next) {
		HASH_DEL(arrival->statements, arrived);
		statement_image_release(&arrived->image);
		free(arrived);
	}
}
