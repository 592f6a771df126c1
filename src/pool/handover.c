/* SPDX-License-Identifier: ISC */
/*
 * Hand-over of databases, users, pools, hosts and statements; handover_server.c has the servers.
 * And the table of each record, which writes it and reads it.
 *
 * Hard here: the old process may continue for a while with clients that cannot be handed over. It
 * still counts, and still names statements. Its later counters are added in later rounds. Its new
 * statement names come from a range of numbers that the new process has skipped.
 *
 * And each process may have several loops, not as many as the other. Each loop of the old process
 * writes what it has, so a record of the same database or statement may come several times. Each
 * loop of the new one reads all of them, but only the first adds the counters.
 *
 * Without the newest timeline that has counted, a former primary would be taken for the current one
 * if that is down. So the rosters arrive, behind the pools that use them.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "pgweir/auth/digest.h"
#include "pgweir/base/text.h"
#include "pgweir/pgwire/sql.h"
#include "pgweir/pool/server/params.h"

#include "broker_priv.h"
#include "handover_priv.h"
#include "pool_priv.h"

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
	       handover_params_are_good(record->welcome) && record->learnt_kind <= SECRET_SCRAM &&
	       has_keys == (record->learnt_kind == SECRET_SCRAM) &&
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

/* The cluster that the record belongs to; borrows from it. false: it has another form. */
static bool find_key(const struct cluster_record *record, struct cluster_key *key)
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

	return find_key(record, &key) && handover_address_is_good(&row->address) &&
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

/* How many statement numbers are reserved for the old process. */
#define NUMBERS_LEFT 1000000

/* ---- writing ---- */

static bool is_nothing(const struct stats *stats)
{
	static const struct stats nothing;

	return memcmp(stats, &nothing, sizeof(nothing)) == 0;
}

static bool write_global(const struct pools *pools, struct channel *channel)
{
	struct global_record record = {
		.last_id = pools->with.broker->last_id,
		.last_number = pools->statements.last_number,
		.is_paused = pools->is_paused,
		.stats = pools->gone,
	};

	return channel_send_table(channel, HANDOVER_GLOBAL, &global_record_table, &record, -1);
}

static struct bytes bytes_or_none(const char *text) { return bytes_text(text ? text : ""); }

static void note_learnt(const struct pool *pool, struct pool_record *record)
{
	const struct credentials *learnt = pool->learnt;

	record->learnt_kind = credentials_kind(learnt);
	record->learnt_text = bytes_or_none(learnt ? learnt->text : NULL);
	record->is_shown = learnt && learnt->is_shown;
	if (learnt && learnt->scram) {
		record->learnt_keys = bytes_of(&learnt->scram->keys, sizeof(learnt->scram->keys));
		record->iterations = learnt->scram->made_for.iterations;
		record->salt = scram_salt(&learnt->scram->made_for);
	}
	record->secret = bytes_or_none(learnt ? pool->role->secret : NULL);
}

static bool write_pool(const struct pool *pool, struct channel *channel)
{
	struct pool_record record = {
		.is_for_lookups = pool->purpose == POOL_FOR_LOOKUPS,
		/* what follows is added to the pool for clients: that must keep its own welcome */
		.has_welcome = pool->has_welcome && pool->purpose != POOL_FOR_READS,
		.welcome = buf_bytes(&pool->welcome),
		.baseline = params_text(pool->baseline),
		.size_hits = pool->size_hits,
		.reserve_hits = pool->reserve_hits,
		.stats = pool->stats,
	};

	text_copy(record.database, sizeof(record.database), pool->database->name);
	text_copy(record.role, sizeof(record.role), pool->role->name);
	note_learnt(pool, &record);
	return channel_send_table(channel, HANDOVER_POOL, &pool_record_table, &record, -1);
}

static bool write_cluster(struct cluster *cluster, struct channel *channel)
{
	struct cluster_record record = { .name = buf_bytes(&cluster->name),
		                         .timeline = cluster->roster.timeline,
		                         .system = cluster->roster.system };
	struct roster_row *row = &record.row;
	bool ok = true;

	for (unsigned int i = 0; ok && roster_row_at(&cluster->roster, i, row); i++) {
		if (!row->is_lost)
			row->lost_at = 0;
		if (row->seen_at)
			ok = channel_send_table(channel, HANDOVER_CLUSTER, &cluster_record_table,
			                        &record, -1);
	}
	return ok;
}

bool handover_write_hosts(struct pools *pools, struct channel *channel)
{
	struct broker *broker = pools->with.broker;
	const struct closed_host *closed = broker->closed_hosts;
	struct cluster *cluster;
	bool ok = true;

	if (pools->is_handover_plain)
		return true;
	for (; ok && closed; closed = closed->next) {
		struct closed_host_record record = { .is_disabled =
			                                 closed->admin == HOST_DISABLED };

		text_copy(record.host, sizeof(record.host), closed->name);
		ok = closed->is_planned ||
		     channel_send_table(channel, HANDOVER_CLOSED_HOST, &closed_host_record_table,
		                        &record, -1);
	}
	for (cluster = broker->clusters; ok && cluster; cluster = cluster->hh.next)
		ok = write_cluster(cluster, channel);
	return ok;
}

bool pools_write(struct pools *pools, struct channel *channel, bool is_first)
{
	bool ok = write_global(pools, channel);

	TAILQ_EACH (database, &pools->databases, node) {
		bool has_news = is_first || !is_nothing(&database->gone) || database->cap.hits ||
		                database->client_limit_hits;

		if (ok && database->entry && has_news)
			ok = channel_send_table(channel, HANDOVER_DATABASE, &database_record_table,
			                        database, -1);
	}
	TAILQ_EACH (role, &pools->roles, node) {
		if (ok && (is_first || role->client_count))
			ok = channel_send_table(channel, HANDOVER_ROLE, &role_record_table, role,
			                        -1);
	}
	TAILQ_EACH (pool, &pools->list, node) {
		bool has_news = is_first || !is_nothing(&pool->stats) || pool->member_count;

		if (ok && pool->database->entry && has_news)
			ok = write_pool(pool, channel);
	}
	return ok;
}

bool handover_write_idle_servers(struct pools *pools, struct channel *channel, bool is_first)
{
	bool ok = true;

	TAILQ_EACH (server, &pools->servers, place.all_node) {
		bool is_wanted = !is_first && server->pool->member_count;

		if (ok && server->state != SERVER_LENT && !is_wanted &&
		    handover_server_may_leave(server))
			ok = handover_server_write(server, channel);
	}
	return ok;
}

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

/* ---- release or keep what was written ---- */

void pools_let_go(struct pools *pools)
{
	struct server *server, *next;

	pools->is_leaving = true;
	TAILQ_FOREACH_SAFE (server, &pools->servers, place.all_node, next) {
		if (server->place.is_written)
			handover_server_let_go(server);
	}
	pools->gone = (struct stats){ 0 };
	TAILQ_EACH (database, &pools->databases, node) {
		database->gone = (struct stats){ 0 };
		database->cap.hits = database->client_limit_hits = 0;
	}
	TAILQ_EACH (role, &pools->roles, node)
		role->cap.hits = role->client_limit_hits = 0;
	TAILQ_EACH (pool, &pools->list, node) {
		pool->stats = (struct stats){ 0 };
		pool->size_hits = pool->reserve_hits = 0;
	}
}

void pools_keep(struct pools *pools, bool is_gone)
{
	struct statement *statement, *next;

	TAILQ_EACH (server, &pools->servers, place.all_node)
		server->place.is_written = false;
	if (is_gone)
		pools->is_leaving = false;
	HASH_ITER (hh, pools->statements.table, statement, next)
		statement->is_written = false;
}

/* ---- reading ---- */

/* The content of any of the records. */
union any_record {
	struct global_record global;
	struct closed_host_record closed_host;
	struct cluster_record cluster;
	struct database database;
	struct role role;
	struct pool_record pool;
	struct statement_record statement;
	struct server_record server;
};

static void take_global(struct pools *pools, struct pools_arrival *arrival, const void *values)
{
	const struct global_record *record = values;

	if (pools == arrival->first)
		stats_add(&pools->gone, &record->stats);
	if (arrival->is_later)
		return;
	arrival->last_id = record->last_id;
	broker_skip_ids(pools->with.broker, record->last_id);
	pools->statements.last_number = record->last_number + NUMBERS_LEFT;
	pools->is_paused = record->is_paused;
}

static void take_closed_host(struct pools *pools, struct pools_arrival *arrival, const void *values)
{
	const struct closed_host_record *record = values;

	if (!arrival->is_later)
		clusters_set_admin(pools->with.broker, record->host,
		                   record->is_disabled ? HOST_DISABLED : HOST_DRAINING, false,
		                   loop_now(pools->shared.loop));
}

/* It is there if a pool uses it. */
static void take_cluster(struct pools *pools, struct pools_arrival *arrival, const void *values)
{
	const struct cluster_record *record = values;
	struct roster_row row = record->row;
	usec_t now = loop_now(pools->shared.loop);
	struct cluster_key key;
	struct cluster *cluster = NULL;

	if (!arrival->is_later && find_key(record, &key))
		cluster = clusters_hold(pools->with.broker, &key, now);
	row.is_lost = row.lost_at != 0;
	if (cluster)
		roster_remember(cluster_roster(cluster), &row, record->timeline, record->system,
		                now);
	cluster_release(&cluster);
}

/* A loop that is not the first needs it only if something holds there. */
static void take_database(struct pools *pools, struct pools_arrival *arrival, const void *values)
{
	const struct database *record = values;
	struct database *database;

	if (pools != arrival->first && !record->is_paused && !record->is_disabled)
		return;
	database = pools_database(pools, record->name);
	if (!database)
		return;
	if (pools == arrival->first) {
		stats_add(&database->gone, &record->gone);
		database->cap.hits += record->cap.hits;
		database->client_limit_hits += record->client_limit_hits;
		database->has_gone |= record->has_gone;
	}
	if (arrival->is_later)
		return;
	/* each loop of the other process has written it; one may not know the database */
	database->is_paused |= record->is_paused;
	database->is_disabled |= record->is_disabled;
}

static void take_role(struct pools *pools, struct pools_arrival *arrival, const void *values)
{
	const struct role *record = values;
	struct role *role = role_of_name(pools, record->name);

	(void)arrival;
	if (!role)
		return;
	role->cap.hits += record->cap.hits;
	role->client_limit_hits += record->client_limit_hits;
}

/* If auth_file has the same secret, and no client of this process has authenticated yet. */
static void take_learnt(struct pool *pool, const struct pool_record *record)
{
	struct scram_verifier scram = { .made_for = { (unsigned int)record->iterations,
		                                      record->salt.count, "" } };
	struct secret secret = { .kind = (enum secret_kind)record->learnt_kind };
	const struct credentials *shown = NULL;
	char *text;

	if (record->learnt_kind == SECRET_NONE || pool->learnt ||
	    !bytes_equal(bytes_or_none(pool->role->secret), record->secret))
		return;
	text = strndup(record->learnt_text.at, record->learnt_text.count);
	if (record->learnt_kind == SECRET_SCRAM) {
		memcpy(scram.made_for.salt, record->salt.at, record->salt.count);
		memcpy(&scram.keys, record->learnt_keys.at, sizeof(scram.keys));
		shown = credentials_of_keys(&scram);
	} else if (text) {
		secret.text = text;
		shown = credentials_of_secret(&secret, record->is_shown);
	}
	if (shown)
		pool_learn(pool, shown);
	credentials_release(&shown);
	secret_wipe(&scram, sizeof(scram));
	secret_free(&text);
}

static void take_pool(struct pools *pools, struct pools_arrival *arrival, const void *values)
{
	const struct pool_record *record = values;
	struct pool *pool =
	    handover_arrival_pool(pools, record->database, record->role,
	                          record->is_for_lookups ? POOL_FOR_LOOKUPS : POOL_FOR_CLIENTS);

	(void)arrival;
	if (!pool)
		return;
	stats_add(&pool->stats, &record->stats);
	pool->size_hits += record->size_hits;
	pool->reserve_hits += record->reserve_hits;
	take_learnt(pool, record);
	if (!record->has_welcome || pool->has_welcome)
		return;
	pool_set_welcome(pool, record->welcome, record->baseline);
	pool_arm_expiry(pool);
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
static void take_statement(struct pools *pools, struct pools_arrival *arrival, const void *values)
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

#define NO_NAME SIZE_MAX

static const struct kind {
	char letter;
	const struct record_table *table;
	void (*check_rest)(struct record *record); /* of what follows; NULL: nothing may */
	size_t name_at;    /* of a database, in what the record is about; NO_NAME: there is none */
	bool is_for_first; /* the other loops need none of it, or hear it from the broker */
	/* NULL: handover_server_take() */
	void (*take)(struct pools *pools, struct pools_arrival *arrival, const void *values);
} kinds[] = {
	{ HANDOVER_GLOBAL, &global_record_table, NULL, NO_NAME, false, take_global },
	{ HANDOVER_CLOSED_HOST, &closed_host_record_table, NULL, NO_NAME, true, take_closed_host },
	{ HANDOVER_CLUSTER, &cluster_record_table, NULL, NO_NAME, true, take_cluster },
	{ HANDOVER_DATABASE, &database_record_table, NULL, offsetof(struct database, name), false,
	  take_database },
	{ HANDOVER_ROLE, &role_record_table, NULL, NO_NAME, true, take_role },
	{ HANDOVER_POOL, &pool_record_table, NULL, offsetof(struct pool_record, database), true,
	  take_pool },
	{ HANDOVER_STATEMENT, &statement_record_table, NULL, NO_NAME, true, take_statement },
	{ HANDOVER_SERVER, &server_record_table, handover_server_check_rest,
	  offsetof(struct server_record, database), false, NULL },
};

static const struct kind *find_kind(char letter)
{
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (kinds[i].letter == letter)
			return &kinds[i];
	}
	return NULL;
}

bool pools_judge_database(const struct pools *pools, const char *name, struct err *err)
{
	if (pools_find_database((struct pools *)pools, name) || config_database_auto(pools->config))
		return true;
	return err_set(err, ERR_CONFIG, "database \"%s\" is in use and not in this configuration",
	               name);
}

bool pools_judge(const struct pools *pools, char letter, struct bytes body, struct err *err)
{
	const struct kind *kind = find_kind(letter);
	struct record record = { .rest = body };
	union any_record any;

	if (!kind)
		return err_set(err, ERR_PROTOCOL,
		               "protocol error in the hand-over: unexpected record '%c'", letter);
	record_read(&record, kind->table, &any);
	if (kind->check_rest)
		kind->check_rest(&record);
	if (!record_is_whole(&record))
		return handover_refuse(&record, kind->table->name, err);
	return kind->name_at == NO_NAME ||
	       pools_judge_database(pools, (const char *)&any + kind->name_at, err);
}

void pools_take(struct pools *pools, struct pools_arrival *arrival, char letter, struct bytes body,
                int *fd)
{
	const struct kind *kind = find_kind(letter);
	struct record record = { .rest = body };
	union any_record any;

	if (!kind || (kind->is_for_first && pools != arrival->first))
		return;
	if (!kind->take) {
		handover_server_take(pools, arrival, body, fd);
		return;
	}
	memset(&any, 0, sizeof(any)); /* more than the fields of the table */
	record_read(&record, kind->table, &any);
	if (record_is_whole(&record))
		kind->take(pools, arrival, &any);
}

void pools_arrival_done(struct pools_arrival *arrival)
{
	struct arrived_statement *arrived, *next;

	HASH_ITER (hh, arrival->statements, arrived, next) {
		HASH_DEL(arrival->statements, arrived);
		statement_image_release(&arrived->image);
		free(arrived);
	}
}
