/* SPDX-License-Identifier: ISC */
/* The hand-over records of the pool module, one table for each; and the hand-over of hosts. */
#include <stdlib.h>
#include <string.h>

#include "pgweir/base/text.h"
#include "pgweir/pool/server/params.h"

#include "broker_priv.h"
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

void handover_params_read(struct pools *pools, struct bytes pairs, const struct params **params)
{
	*params = params_none(pools->with.params);
	params_add_text(pools->with.params, params, pairs);
}

bool handover_params_are_plain(const struct params *params)
{
	const char *at = NULL, *name, *value;

	if (params_find(params, "role") || params_find(params, SESSION_AUTHORIZATION))
		return false;
	while (params_next(params, &at, &name, &value)) {
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
	RECORD_FIELD('d', struct database_record, database),
	RECORD_FIELD('p', struct database_record, is_paused),
	RECORD_FIELD('x', struct database_record, is_disabled),
	RECORD_FIELD('s', struct database_record, server_hits),
	RECORD_FIELD('c', struct database_record, client_hits),
	RECORD_FIELD('g', struct database_record, has_gone),
	RECORD_COUNTERS_FIELD('S', struct database_record, stats, &stats_record_table),
};

const struct record_table database_record_table = RECORD_TABLE("database", database_fields, NULL);

/* ---- a role ---- */

static const struct record_field role_fields[] = {
	RECORD_FIELD('u', struct role_record, role),
	RECORD_FIELD('s', struct role_record, server_hits),
	RECORD_FIELD('c', struct role_record, client_hits),
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
	RECORD_FIELD('t', struct cluster_record, timeline),
	RECORD_FIELD('s', struct cluster_record, system),
};

static bool is_cluster_good(const void *values)
{
	const struct cluster_record *record = values;

	return record->name.count && record->timeline <= UINT32_MAX;
}

const struct record_table cluster_record_table =
    RECORD_TABLE("cluster", cluster_fields, is_cluster_good);

/* Of a roster. */
static const struct record_field row_fields[] = {
	RECORD_FIELD('H', struct roster_row, host),
	RECORD_BLOCK_FIELD('a', struct roster_row, address),
	RECORD_FIELD('r', struct roster_row, known.role),
	RECORD_FIELD('o', struct roster_row, known.is_read_only),
	RECORD_FIELD('S', struct roster_row, is_sure),
	RECORD_FIELD('e', struct roster_row, is_elected),
	RECORD_FIELD('t', struct roster_row, known.timeline),
	RECORD_FIELD('s', struct roster_row, known.system),
	RECORD_FIELD('b', struct roster_row, known.started),
	RECORD_FIELD('l', struct roster_row, seen_at),
	RECORD_FIELD('c', struct roster_row, since),
	RECORD_FIELD('L', struct roster_row, lost_at), /* 0: it is not lost */
};

/* A Unix socket has no address here. */
static bool is_row_good(const void *values)
{
	const struct roster_row *row = values;

	return handover_address_is_good(&row->address) && row->address.family != AF_UNIX &&
	       row->known.role <= HOST_STANDBY;
}

const struct record_table row_record_table = RECORD_TABLE("host", row_fields, is_row_good);

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
};

static bool is_server_good(const void *values)
{
	const struct server_record *record = values;
	uint64_t status = record->status;

	return handover_address_is_good(&record->peer) &&
	       handover_params_are_good(record->params) &&
	       handover_params_are_good(record->baseline) &&
	       (status == 'I' || status == 'T' || status == 'E') &&
	       (record->is_lent || status == 'I');
}

const struct record_table server_record_table =
    RECORD_TABLE("server", server_fields, is_server_good);

static const struct record_field server_session_fields[] = {
	RECORD_FIELD('d', struct server_session_record, is_dirty),
};

const struct record_table server_session_record_table =
    RECORD_TABLE("session state of a server", server_session_fields, NULL);

static const struct record_field listening_fields[] = {
	RECORD_FIELD('M', struct listening_record, mark_channel),
	RECORD_FIELD('e', struct listening_record, encoding),
	RECORD_BYTES_FIELD('I', struct listening_record, input, NOTIFICATION_MAX),
};

static bool is_listening_good(const void *values)
{
	const struct listening_record *record = values;
	const char *channel = record->mark_channel;

	/* It is a part of statements. */
	return strncmp(channel, MARK_CHANNEL_PREFIX, strlen(MARK_CHANNEL_PREFIX)) == 0 &&
	       channel[strspn(channel, MARK_CHANNEL_PREFIX "0123456789abcdef")] == 0;
}

const struct record_table listening_record_table =
    RECORD_TABLE("listening connection", listening_fields, is_listening_good);

static const struct record_field on_server_fields[] = {
	RECORD_FIELD('n', struct on_server_record, number),
};

const struct record_table on_server_record_table =
    RECORD_TABLE("statement on a server", on_server_fields, NULL);

static const struct record_field stale_fields[] = {
	RECORD_FIELD('N', struct on_server_record, number),
};

const struct record_table stale_record_table =
    RECORD_TABLE("stale statement on a server", stale_fields, NULL);

static const struct record_field parsed_fields[] = {
	RECORD_FIELD('P', struct parsed_record, sent_at),
	RECORD_FIELD('d', struct parsed_record, done_at),
	RECORD_FIELD('c', struct parsed_record, columns),
};

static bool is_parsed_good(const void *values)
{
	const struct parsed_record *record = values;

	return record->columns <= UINT32_MAX;
}

const struct record_table parsed_record_table =
    RECORD_TABLE("Parse of a statement on a server", parsed_fields, is_parsed_good);

static const struct record_field move_fields[] = {
	RECORD_FIELD('W', struct move_record, has_welcome),
	RECORD_FIELD('t', struct move_record, is_tls_direct),
	RECORD_FIELD('d', struct move_record, has_defaults),
	RECORD_FIELD('R', struct move_record, is_for_reads),
	RECORD_BYTES_FIELD('w', struct move_record, welcome, WELCOME_MAX),
	RECORD_BYTES_FIELD('b', struct move_record, baseline, PARAMS_SIZE_MAX),
	RECORD_BYTES_FIELD('u', struct move_record, unreported, PARAMS_SIZE_MAX),
	RECORD_FIELD('p', struct move_record, packed_at),
	RECORD_FIELD('r', struct move_record, replayed),
	RECORD_FIELD('s', struct move_record, started),
	RECORD_FIELD('a', struct move_record, started_at),
};

const struct record_table move_record_table = RECORD_TABLE("move", move_fields, NULL);

/* ---- the version ---- */

uint64_t handover_pools_hash(uint64_t hash)
{
	static const struct record_table *const tables[] = {
		&global_record_table,    &database_record_table,  &role_record_table,
		&pool_record_table,      &statement_record_table, &server_record_table,
		&on_server_record_table, &stale_record_table,
	};

	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
		hash = record_hash(hash, tables[i]);
	return hash;
}

uint64_t handover_pools_session_hash(uint64_t hash)
{
	static const struct record_table *const tables[] = {
		&server_session_record_table, &listening_record_table, &closed_host_record_table,
		&cluster_record_table,        &row_record_table,       &parsed_record_table,
	};

	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
		hash = record_hash(hash, tables[i]);
	return hash;
}

bool handover_send(struct channel *channel, enum handover_kind kind,
                   const struct record_table *table, const void *values)
{
	struct buf record = { .is_secret = true };
	bool ok;

	record_write(&record, table, values);
	ok = channel_send_record(channel, kind, &record, -1);
	buf_wipe(&record);
	return ok;
}

/*
 * ---- hosts ----
 *
 * Hand-over of what is known about hosts: the states that an administrator has set, and the rosters
 * of clusters.
 *
 * Hard here: without the newest timeline that has counted, a former primary would be taken for the
 * current one if that is down. So a roster arrives before the pools that use it, and is kept until
 * they have been made.
 */

/* ---- writing ---- */

static bool write_cluster(struct cluster *cluster, struct channel *channel)
{
	struct cluster_record values = { .name = buf_bytes(&cluster->name),
		                         .timeline = cluster->roster.timeline,
		                         .system = cluster->roster.system };
	struct buf record = { 0 };
	struct roster_row row;
	bool ok;

	if (!cluster->roster.count)
		return true;
	record_write(&record, &cluster_record_table, &values);
	for (unsigned int i = 0; roster_row_at(&cluster->roster, i, &row); i++) {
		if (!row.is_lost)
			row.lost_at = 0;
		if (row.seen_at)
			record_write(&record, &row_record_table, &row);
	}
	ok = channel_send_record(channel, HANDOVER_CLUSTER, &record, -1);
	buf_free(&record);
	return ok;
}

static bool write_closed(const struct closed_host *closed, struct channel *channel)
{
	struct closed_host_record values = { .is_disabled = closed->admin == HOST_DISABLED };

	text_copy(values.host, sizeof(values.host), closed->name);
	return handover_send(channel, HANDOVER_CLOSED_HOST, &closed_host_record_table, &values);
}

bool handover_clusters_write(struct broker *broker, struct channel *channel)
{
	const struct closed_host *closed = broker->closed_hosts;
	struct cluster *cluster;
	bool ok = true;

	for (; ok && closed; closed = closed->next)
		ok = closed->is_planned || write_closed(closed, channel);
	for (cluster = broker->clusters; ok && cluster; cluster = cluster->hh.next)
		ok = write_cluster(cluster, channel);
	return ok;
}

/* ---- reading ---- */

/* What the record of a cluster begins with. */
struct arriving_cluster {
	struct cluster_record values;
	struct cluster_key key; /* borrows from the record */
	struct record rows;     /* not read yet */
};

static bool read_cluster(struct bytes body, struct arriving_cluster *arriving,
                         struct record *record)
{
	struct bytes name;
	const char *port;
	int64_t number;

	*record = (struct record){ .rest = body };
	record_read(record, &cluster_record_table, &arriving->values);
	name = arriving->values.name;
	arriving->rows = *record;
	if (record->is_bad || !bytes_take_text(&name, &arriving->key.hosts) ||
	    !bytes_take_text(&name, &port) || !bytes_take_text(&name, &arriving->key.user) ||
	    name.count || !text_to_i64(port, &number) || number < 0 || number > UINT16_MAX)
		return false;
	arriving->key.port = (int)number;
	return true;
}

static bool read_row(struct record *record, struct roster_row *row)
{
	*row = (struct roster_row){ 0 };
	if (!record_has_table(record, &row_record_table))
		return false;
	record_read(record, &row_record_table, row);
	row->is_lost = row->lost_at != 0;
	return !record->is_bad;
}

bool handover_clusters_judge(struct bytes body, struct err *err)
{
	struct arriving_cluster arriving;
	struct record record;
	struct roster_row row;
	bool is_good = read_cluster(body, &arriving, &record);

	while (is_good && read_row(&record, &row))
		continue;
	return (is_good && record_is_whole(&record)) || handover_refuse(&record, "cluster", err);
}

/* The cluster stays for the time of the take-over, whether a pool uses it or not. */
static struct cluster *hold(struct pools_arrival *arrival, const struct cluster_key *key,
                            usec_t now)
{
	size_t count = arrival->cluster_count + 1;
	struct cluster **list = realloc(arrival->clusters, count * sizeof(*list));

	if (!list)
		return NULL;
	arrival->clusters = list;
	list[count - 1] = clusters_hold(arrival->pools->with.broker, key, now);
	if (list[count - 1])
		arrival->cluster_count = count;
	return list[count - 1];
}

void handover_clusters_take(struct pools_arrival *arrival, struct bytes body)
{
	usec_t now = loop_now(arrival->pools->with.loop);
	struct arriving_cluster arriving;
	struct cluster *cluster;
	struct roster_row row;
	struct record record;

	if (arrival->first || arrival->is_later || !read_cluster(body, &arriving, &record))
		return;
	cluster = hold(arrival, &arriving.key, now);
	while (cluster && read_row(&record, &row))
		roster_remember(cluster_roster(cluster), &row, (uint32_t)arriving.values.timeline,
		                arriving.values.system, now);
}

void handover_clusters_close_host(struct pools_arrival *arrival,
                                  const struct closed_host_record *record)
{
	if (!arrival->first && !arrival->is_later)
		clusters_set_admin(arrival->pools->with.broker, record->host,
		                   record->is_disabled ? HOST_DISABLED : HOST_DRAINING,
		                   loop_now(arrival->pools->with.loop));
}

void handover_clusters_done(struct pools_arrival *arrival)
{
	while (arrival->cluster_count)
		clusters_release(arrival->pools->with.broker,
		                 &arrival->clusters[--arrival->cluster_count]);
	free(arrival->clusters);
	arrival->clusters = NULL;
}

/* ---- statements ---- */

bool handover_write_statement(struct statement *statement, struct channel *channel)
{
	struct bytes stem = statement_stem(statement);
	struct statement_record record = {
		.number = statement_number(statement),
		.text = statement_text(statement),
		.scope = statement_scope(statement),
		.is_typed = statement->is_typed,
		.is_forgetting = statement->is_forgetting,
	};

	if (statement->is_written)
		return true;
	assert(stem.count < sizeof(record.stem));
	memcpy(record.stem, stem.at, stem.count);
	if (!handover_send(channel, HANDOVER_STATEMENT, &statement_record_table, &record))
		return false;
	statement->is_written = !statement->is_alias; /* pools_keep() does not find an alias */
	return true;
}

struct arrived_statement {
	UT_hash_handle hh;
	uint64_t number;
	struct statement *statement; /* for clients; one reference */
	struct statement *called;    /* the same with its old name, for servers; one reference */
};

static struct arrived_statement *find_arrived(const struct pools_arrival *arrival, uint64_t number)
{
	struct arrived_statement *arrived;

	HASH_FIND(hh, arrival->statements, &number, sizeof(number), arrived);
	return arrived;
}

/* Stores the statement in this loop; its content is stored once for all loops. */
static void name_statement(struct pools_arrival *arrival, struct arrived_statement *arrived,
                           const struct statement_record *record)
{
	struct statements *statements = &arrival->pools->statements;
	struct statement_name name = { record->stem, record->number };
	const struct arrived_statement *theirs =
	    arrival->first ? find_arrived(arrival->first, record->number) : NULL;

	if (theirs)
		arrived->called = statement_of_image(statements, theirs->called->image);
	arrived->statement = statement_named(statements, record->text, record->scope, &name);
	if (!theirs)
		arrived->called = statement_called(statements, record->text, record->scope, &name);
}

/* NULL: no memory. */
static struct arrived_statement *add_statement(struct pools_arrival *arrival,
                                               const struct statement_record *record)
{
	struct statements *statements = &arrival->pools->statements;
	struct arrived_statement *arrived = calloc(1, sizeof(*arrived));

	if (!arrived)
		return NULL;
	arrived->number = record->number;
	name_statement(arrival, arrived, record);
	if (!arrived->statement || !arrived->called) {
		statement_release(statements, &arrived->statement);
		statement_release(statements, &arrived->called);
		free(arrived);
		return NULL;
	}
	HASH_ADD(hh, arrival->statements, number, sizeof(arrived->number), arrived);
	return arrived;
}

/* Each loop of the other process has written it, and they may know different things of it. */
void handover_statement_take(struct pools_arrival *arrival, const struct statement_record *record)
{
	struct arrived_statement *arrived = find_arrived(arrival, record->number);

	if (!arrived)
		arrived = add_statement(arrival, record);
	if (!arrived)
		return;
	arrived->statement->is_typed |= record->is_typed;
	arrived->statement->is_forgetting |= record->is_forgetting;
}

struct statement *handover_arrival_statement(const struct pools_arrival *arrival, uint64_t number)
{
	const struct arrived_statement *arrived = find_arrived(arrival, number);

	return arrived ? arrived->statement : NULL;
}

struct statement *handover_arrival_called(const struct pools_arrival *arrival, uint64_t number)
{
	const struct arrived_statement *arrived = find_arrived(arrival, number);

	return arrived ? arrived->called : NULL;
}

void handover_statements_done(struct pools_arrival *arrival)
{
	struct arrived_statement *arrived, *next;

	HASH_ITER (hh, arrival->statements, arrived, next) {
		HASH_DEL(arrival->statements, arrived);
		statement_release(&arrival->pools->statements, &arrived->statement);
		statement_release(&arrival->pools->statements, &arrived->called);
		free(arrived);
	}
}
