/* SPDX-License-Identifier: ISC */
/*
 * Hand-over of databases, users, pools and hosts. It also knows which file reads each other kind of
 * record: servers and statements.
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
 * if that is down. So a roster arrives before the pools that use it, and is kept until they have
 * been made.
 */
#include <stdlib.h>

#include "pgweir/base/text.h"

#include "broker_priv.h"
#include "handover_priv.h"
#include "pool_priv.h"

#include "pgweir/auth/digest.h"

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

static bool write_hosts(struct broker *broker, struct channel *channel)
{
	const struct closed_host *closed = broker->closed_hosts;
	struct cluster *cluster;
	bool ok = true;

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

	/* What belongs to the process is written by one of its loops, and comes before the pools.
	 */
	if (ok && is_first && pools->with.watches &&
	    pools->with.watches->loop == pools->shared.loop && !pools->is_handover_plain)
		ok = write_hosts(pools->with.broker, channel);
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

/* ---- release or keep what was written ---- */

void pools_let_go(struct pools *pools)
{
	struct server *server, *next;

	pools->is_leaving = true;
	TAILQ_FOREACH_SAFE (server, &pools->servers, place.all_node, next) {
		if (server->place.going == SERVER_HANDED_OVER)
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
		server->place.going = SERVER_STAYS;
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

/* Each record holds the cluster for the time of the take-over, whether a pool uses it or not. */
static struct cluster *hold(const struct pools *pools, struct pools_arrival *arrival,
                            const struct cluster_record *record)
{
	struct cluster **list = array_room(arrival->clusters, arrival->cluster_count,
	                                   &arrival->cluster_capacity, sizeof(*list));
	struct cluster_key key;

	if (!list || !handover_cluster_key(record, &key))
		return NULL;
	arrival->clusters = list;
	list += arrival->cluster_count;
	*list = clusters_hold(pools->with.broker, &key, loop_now(pools->shared.loop));
	arrival->cluster_count += *list != NULL;
	return *list;
}

static void take_cluster(struct pools *pools, struct pools_arrival *arrival, const void *values)
{
	const struct cluster_record *record = values;
	struct roster_row row = record->row;
	struct cluster *cluster = arrival->is_later ? NULL : hold(pools, arrival, record);

	row.is_lost = row.lost_at != 0;
	if (cluster)
		roster_remember(cluster_roster(cluster), &row, record->timeline, record->system,
		                loop_now(pools->shared.loop));
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
	{ HANDOVER_STATEMENT, &statement_record_table, NULL, NO_NAME, true,
	  handover_statement_take },
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
	while (arrival->cluster_count)
		cluster_release(&arrival->clusters[--arrival->cluster_count]);
	free(arrival->clusters);
	arrival->clusters = NULL;
	handover_statements_done(arrival);
}
