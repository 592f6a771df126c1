/* SPDX-License-Identifier: ISC */
/*
 * What passes of databases, users, pools and statements.
 *
 * Hard here: the process that goes may go on for a while with clients that cannot be
 * handed over, and goes on counting and naming. What it counts later is added; the
 * names of statements that it gives from now on come from a range of its own, which the
 * process that comes has left out.
 */
#include <stdlib.h>

#include "handover_priv.h"
#include "pool_priv.h"

#include "pgweir/base/banned.h"

/* Numbers of statements that are left to the process that goes. */
#define NUMBERS_LEFT 1000000
#define SECRET_MAX ((size_t)64 * 1024)
#define WELCOME_MAX ((size_t)128 * 1024)

/* ---- writing ---- */

static bool is_nothing(const struct stats *stats)
{
	static const struct stats nothing;

	return memcmp(stats, &nothing, sizeof(nothing)) == 0;
}

/* Sends it and lets the record go. */
static bool send_it(struct channel *channel, enum handover_kind kind, struct buf *record)
{
	bool ok = channel_send_record(channel, kind, record, -1);

	buf_wipe(record);
	return ok;
}

static bool write_global(const struct pools *pools, struct channel *channel)
{
	struct buf record = { 0 };

	record_add_number(&record, 'i', pools->last_id);
	record_add_number(&record, 'n', pools->statements.last_number);
	record_add_number(&record, 'p', pools->is_paused);
	handover_write_stats(&record, &pools->gone);
	return send_it(channel, HANDOVER_GLOBAL, &record);
}

static bool write_database(const struct database *database, struct channel *channel)
{
	struct buf record = { 0 };

	record_add_text(&record, 'd', database->name);
	record_add_number(&record, 'p', database->is_paused);
	record_add_number(&record, 'x', database->is_disabled);
	record_add_number(&record, 's', database->server_limit_hits);
	record_add_number(&record, 'c', database->client_limit_hits);
	record_add_number(&record, 'g', database->has_gone);
	handover_write_stats(&record, &database->gone);
	return send_it(channel, HANDOVER_DATABASE, &record);
}

static bool write_role(const struct role *role, struct channel *channel)
{
	struct buf record = { 0 };

	record_add_text(&record, 'u', role->name);
	record_add_number(&record, 's', role->server_limit_hits);
	record_add_number(&record, 'c', role->client_limit_hits);
	return send_it(channel, HANDOVER_ROLE, &record);
}

/* What clients have shown, and for which secret of auth_file. */
static void write_learnt(const struct pool *pool, struct buf *record)
{
	const struct credentials *learnt = &pool->learnt;
	struct bytes keys = bytes_of("", 0), salt = keys;

	if (learnt->keys)
		keys = bytes_of(learnt->keys, sizeof(*learnt->keys));
	record_add_number(record, 'k', learnt->kind);
	record_add_text(record, 't', learnt->text);
	record_add_bytes(record, 'K', keys);
	if (learnt->made_for)
		salt = bytes_of(learnt->made_for->salt, learnt->made_for->salt_count);
	record_add_number(record, 'o', learnt->is_shown);
	record_add_number(record, 'n', learnt->made_for ? learnt->made_for->iterations : 0);
	record_add_bytes(record, 'B', salt);
	record_add_text(record, 'f', learnt->kind ? pool->role->secret : "");
}

static bool write_pool(const struct pool *pool, struct channel *channel)
{
	struct buf record = { .is_secret = true };

	record_add_text(&record, 'd', pool->database->name);
	record_add_text(&record, 'u', pool->role->name);
	record_add_number(&record, 'l', pool->is_for_lookups);
	record_add_number(&record, 'W', pool->has_welcome);
	record_add_bytes(&record, 'w', buf_bytes(&pool->welcome));
	params_write(&record, 'b', pool->baseline);
	record_add_number(&record, 'z', pool->size_hits);
	record_add_number(&record, 'r', pool->reserve_hits);
	write_learnt(pool, &record);
	handover_write_stats(&record, &pool->stats);
	return send_it(channel, HANDOVER_POOL, &record);
}

static bool pool_has_news(const struct pool *pool)
{
	return !is_nothing(&pool->stats) || pool->member_count;
}

static bool has_news(const struct database *database)
{
	return !is_nothing(&database->gone) || database->server_limit_hits ||
	       database->client_limit_hits;
}

bool pools_write(struct pools *pools, struct channel *channel, bool is_first)
{
	const struct database *database;
	const struct role *role;
	const struct pool *pool;
	bool ok = write_global(pools, channel);

	TAILQ_FOREACH (database, &pools->databases, node) {
		if (ok && database->entry && (is_first || has_news(database)))
			ok = write_database(database, channel);
	}
	TAILQ_FOREACH (role, &pools->roles, node) {
		if (ok && (is_first || role->client_count))
			ok = write_role(role, channel);
	}
	TAILQ_FOREACH (pool, &pools->list, node) {
		if (ok && pool->database->entry && (is_first || pool_has_news(pool)))
			ok = write_pool(pool, channel);
	}
	return ok;
}

bool statement_write(struct statement *statement, struct channel *channel)
{
	struct buf record = { 0 };

	if (statement->is_written)
		return true;
	record_add_number(&record, 'n', statement_number(statement));
	record_add_bytes(&record, 't', statement_text(statement));
	record_add_bytes(&record, 'p', statement_stem(statement));
	if (statement->scope_size)
		record_add_bytes(&record, 's', statement_scope(statement));
	if (statement->is_typed)
		record_add_number(&record, 'T', true);
	if (statement->is_forgetting)
		record_add_number(&record, 'F', true);
	statement->is_written = send_it(channel, HANDOVER_STATEMENT, &record);
	return statement->is_written;
}

bool servers_write_idle(struct pools *pools, struct channel *channel, bool is_first)
{
	struct server *server;
	bool ok = true;

	TAILQ_FOREACH (server, &pools->servers, all_node) {
		bool is_wanted = !is_first && server->pool->member_count;

		if (ok && server->state != SERVER_LENT && !is_wanted && server_may_leave(server))
			ok = server_write(server, channel);
	}
	return ok;
}

/* ---- what was written goes, or stays ---- */

void pools_let_go(struct pools *pools)
{
	struct server *server, *next;
	struct database *database;
	struct role *role;
	struct pool *pool;

	pools->is_leaving = true;
	for (server = TAILQ_FIRST(&pools->servers); server; server = next) {
		next = TAILQ_NEXT(server, all_node);
		if (server->is_leaving)
			server_let_go(server);
	}
	pools->gone = (struct stats){ 0 };
	TAILQ_FOREACH (database, &pools->databases, node) {
		database->gone = (struct stats){ 0 };
		database->server_limit_hits = database->client_limit_hits = 0;
	}
	TAILQ_FOREACH (role, &pools->roles, node)
		role->server_limit_hits = role->client_limit_hits = 0;
	TAILQ_FOREACH (pool, &pools->list, node) {
		pool->stats = (struct stats){ 0 };
		pool->size_hits = pool->reserve_hits = 0;
	}
}

void pools_keep(struct pools *pools, bool is_all)
{
	struct statement *statement, *next;
	struct server *server;

	TAILQ_FOREACH (server, &pools->servers, all_node)
		server->is_leaving = false;
	if (!is_all)
		return;
	pools->is_leaving = false;
	HASH_ITER (hh, pools->statements.table, statement, next)
		statement->is_written = false;
}

/* ---- reading ---- */

struct arrived_statement {
	UT_hash_handle hh;
	uint64_t number;
	struct statement *statement; /* one owner */
	bool is_called_so;           /* it has the same name here */
};

/* What any of the records here says. */
struct fields {
	char database[CONFIG_DATABASE_NAME_MAX + 1];
	char role[CONFIG_USER_NAME_MAX + 1];
	char stem[STATEMENT_STEM_MAX];
	char shown[SECRET_MAX], secret[SECRET_MAX];
	uint64_t last_id, last_number, number, kind, iterations;
	uint64_t server_hits, client_hits, size_hits, reserve_hits;
	bool is_paused, is_disabled, has_gone, is_for_lookups, has_welcome, is_typed;
	bool is_forgetting, is_shown;
	struct bytes keys, salt, welcome, baseline, text, scope;
	struct stats stats;
};

static void read_global(struct record *record, struct fields *fields)
{
	fields->last_id = record_number(record, 'i');
	fields->last_number = record_number(record, 'n');
	fields->is_paused = record_flag(record, 'p');
	handover_read_stats(record, &fields->stats);
}

static void read_database(struct record *record, struct fields *fields)
{
	record_text(record, 'd', fields->database, sizeof(fields->database));
	fields->is_paused = record_flag(record, 'p');
	fields->is_disabled = record_flag(record, 'x');
	fields->server_hits = record_number(record, 's');
	fields->client_hits = record_number(record, 'c');
	fields->has_gone = record_flag(record, 'g');
	handover_read_stats(record, &fields->stats);
}

static void read_role(struct record *record, struct fields *fields)
{
	record_text(record, 'u', fields->role, sizeof(fields->role));
	fields->server_hits = record_number(record, 's');
	fields->client_hits = record_number(record, 'c');
}

static void read_learnt(struct record *record, struct fields *fields)
{
	fields->kind = record_number(record, 'k');
	record_text(record, 't', fields->shown, sizeof(fields->shown));
	fields->keys = record_bytes(record, 'K', sizeof(struct scram_keys));
	fields->is_shown = record_flag(record, 'o');
	fields->iterations = record_number(record, 'n');
	fields->salt = record_bytes(record, 'B', SCRAM_SALT_MAX);
	record_text(record, 'f', fields->secret, sizeof(fields->secret));
	if (fields->kind > CREDENTIALS_KEYS ||
	    (fields->keys.count == sizeof(struct scram_keys)) !=
	        (fields->kind == CREDENTIALS_KEYS) ||
	    fields->iterations > SCRAM_ITERATIONS_MAX)
		record->is_bad = true;
}

static void read_pool(struct record *record, struct fields *fields)
{
	record_text(record, 'd', fields->database, sizeof(fields->database));
	record_text(record, 'u', fields->role, sizeof(fields->role));
	fields->is_for_lookups = record_flag(record, 'l');
	fields->has_welcome = record_flag(record, 'W');
	fields->welcome = record_bytes(record, 'w', WELCOME_MAX);
	fields->baseline = record_bytes(record, 'b', PARAMS_SIZE_MAX);
	fields->size_hits = record_number(record, 'z');
	fields->reserve_hits = record_number(record, 'r');
	read_learnt(record, fields);
	handover_read_stats(record, &fields->stats);
	if (!params_check(fields->baseline) || !params_check(fields->welcome))
		record->is_bad = true;
}

static void read_statement(struct record *record, struct fields *fields)
{
	fields->number = record_number(record, 'n');
	fields->text = record_bytes(record, 't', CHANNEL_MESSAGE_MAX);
	/* A query with its zero, and the count of its types. */
	if (fields->text.count < 3 || !memchr(fields->text.at, 0, fields->text.count))
		record->is_bad = true;
	/* An older version has none of these. */
	if (record_has(record, 'p'))
		record_text(record, 'p', fields->stem, sizeof(fields->stem));
	if (record_has(record, 's'))
		fields->scope = record_bytes(record, 's', PARAMS_SIZE_MAX);
	if (record_has(record, 'T'))
		fields->is_typed = record_flag(record, 'T');
	if (record_has(record, 'F'))
		fields->is_forgetting = record_flag(record, 'F');
	if (!params_check(fields->scope))
		record->is_bad = true;
}

static void take_global(struct pools_arrival *arrival, const struct fields *fields)
{
	struct pools *pools = arrival->pools;

	stats_add(&pools->gone, &fields->stats);
	if (arrival->is_later)
		return;
	arrival->server_statements_id = pools->last_id = fields->last_id;
	pools->statements.last_number = fields->last_number + NUMBERS_LEFT;
	pools->is_paused = fields->is_paused;
}

static void take_database(struct pools_arrival *arrival, const struct fields *fields)
{
	struct database *database = pools_database(arrival->pools, fields->database);

	if (!database)
		return;
	stats_add(&database->gone, &fields->stats);
	database->server_limit_hits += fields->server_hits;
	database->client_limit_hits += fields->client_hits;
	database->has_gone |= fields->has_gone;
	if (arrival->is_later)
		return;
	database->is_paused = fields->is_paused;
	database->is_disabled = fields->is_disabled;
}

static void take_role(struct pools_arrival *arrival, const struct fields *fields)
{
	struct role *role = pools_role(arrival->pools, fields->role);

	if (!role)
		return;
	role->server_limit_hits += fields->server_hits;
	role->client_limit_hits += fields->client_hits;
}

/* What was shown there counts here for the same secret, and where nobody has shown more. */
static void take_learnt(struct pool *pool, const struct fields *fields)
{
	const char *secret = pool->role->secret ? pool->role->secret : "";
	struct credentials shown = { .kind = (enum credentials_kind)fields->kind,
		                     .is_shown = fields->is_shown };
	struct scram_challenge made_for = { .iterations = (unsigned int)fields->iterations,
		                            .salt_count = fields->salt.count };
	struct scram_keys keys;

	if (shown.kind == CREDENTIALS_NONE || pool->learnt.kind != CREDENTIALS_NONE ||
	    strcmp(secret, fields->secret) != 0)
		return;
	if (shown.kind == CREDENTIALS_KEYS) {
		memcpy(&keys, fields->keys.at, sizeof(keys));
		shown.keys = &keys;
		shown.made_for = fields->salt.count ? &made_for : NULL;
		memcpy(made_for.salt, fields->salt.at, fields->salt.count);
	} else {
		shown.text = (char *)fields->shown;
	}
	pool_learn(pool, &shown); /* copies it */
	explicit_bzero(&keys, sizeof(keys));
}

static void take_pool(struct pools_arrival *arrival, const struct fields *fields)
{
	struct database *database = pools_database(arrival->pools, fields->database);
	struct pool *pool =
	    database ? pools_exact_pool(database, fields->role, fields->is_for_lookups) : NULL;

	if (!pool)
		return;
	stats_add(&pool->stats, &fields->stats);
	pool->size_hits += fields->size_hits;
	pool->reserve_hits += fields->reserve_hits;
	take_learnt(pool, fields);
	if (!fields->has_welcome || pool->has_welcome)
		return;
	buf_free(&pool->welcome);
	buf_add(&pool->welcome, fields->welcome.at, fields->welcome.count);
	params_release(arrival->pools->with.params, &pool->baseline);
	params_read(arrival->pools, fields->baseline, &pool->baseline);
	pool->has_welcome = buf_ok(&pool->welcome);
	pool_arm_expiry(pool);
}

static void take_statement(struct pools_arrival *arrival, const struct fields *fields)
{
	struct statements *statements = &arrival->pools->statements;
	struct statement_name name = { fields->stem, fields->number };
	struct arrived_statement *arrived;

	HASH_FIND(hh, arrival->statements, &fields->number, sizeof(fields->number), arrived);
	if (arrived)
		return;
	arrived = calloc(1, sizeof(*arrived));
	if (!arrived)
		return;
	arrived->number = fields->number;
	arrived->statement = statement_named(statements, fields->text, fields->scope, &name);
	if (!arrived->statement) {
		free(arrived);
		return;
	}
	arrived->statement->is_typed |= fields->is_typed;
	arrived->statement->is_forgetting |= fields->is_forgetting;
	arrived->is_called_so = statement_is_called(arrived->statement, &name);
	HASH_ADD(hh, arrival->statements, number, sizeof(arrived->number), arrived);
}

static const struct kind {
	char letter;
	bool has_database;
	void (*read)(struct record *record, struct fields *fields);
	void (*take)(struct pools_arrival *arrival, const struct fields *fields);
} kinds[] = {
	{ HANDOVER_GLOBAL, false, read_global, take_global },
	{ HANDOVER_DATABASE, true, read_database, take_database },
	{ HANDOVER_ROLE, false, read_role, take_role },
	{ HANDOVER_POOL, true, read_pool, take_pool },
	{ HANDOVER_STATEMENT, false, read_statement, take_statement },
};

static const struct kind *find_kind(char letter)
{
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (kinds[i].letter == letter)
			return &kinds[i];
	}
	return NULL;
}

static bool has_database(const struct pools *pools, const char *name, struct err *err)
{
	if (pools_find_database((struct pools *)pools, name) || config_database_auto(pools->config))
		return true;
	return err_set(err, ERR_CONFIG,
	               "database \"%s\" is in use and not in this configuration: RELOAD the "
	               "running process with it first",
	               name);
}

bool pools_judge(const struct pools *pools, char letter, struct bytes body, struct err *err)
{
	const struct kind *kind = find_kind(letter);
	struct record record = { .rest = body };
	char database[CONFIG_DATABASE_NAME_MAX + 1];
	struct fields *fields;
	bool ok;

	if (letter == HANDOVER_SERVER)
		return server_judge(body, database, err) && has_database(pools, database, err);
	fields = kind ? calloc(1, sizeof(*fields)) : NULL;
	if (!fields)
		return err_set(err, ERR_PROTOCOL, "the hand-over is broken: a record '%c'", letter);
	kind->read(&record, fields);
	ok = record_is_whole(&record) ||
	     err_set(err, ERR_PROTOCOL, "the hand-over is broken: a bad record '%c'", letter);
	ok = ok && (!kind->has_database || has_database(pools, fields->database, err));
	explicit_bzero(fields, sizeof(*fields));
	free(fields);
	return ok;
}

void pools_take(struct pools_arrival *arrival, char letter, struct bytes body, int *fd)
{
	const struct kind *kind = find_kind(letter);
	struct record record = { .rest = body };
	struct fields *fields;

	if (letter == HANDOVER_SERVER) {
		server_take(arrival, body, fd);
		return;
	}
	fields = kind ? calloc(1, sizeof(*fields)) : NULL;
	if (!fields)
		return;
	kind->read(&record, fields);
	if (record_is_whole(&record))
		kind->take(arrival, fields);
	explicit_bzero(fields, sizeof(*fields));
	free(fields);
}

struct statement *arrival_statement(const struct pools_arrival *arrival, uint64_t number)
{
	const struct arrived_statement *arrived;

	HASH_FIND(hh, arrival->statements, &number, sizeof(number), arrived);
	return arrived ? arrived->statement : NULL;
}

bool arrival_has_name(const struct pools_arrival *arrival, uint64_t number)
{
	const struct arrived_statement *arrived;

	HASH_FIND(hh, arrival->statements, &number, sizeof(number), arrived);
	return arrived && arrived->is_called_so;
}

struct pool *arrival_pool(struct pools *pools, const char *database_name, const char *role)
{
	struct database *database = pools_database(pools, database_name);

	return database ? pools_exact_pool(database, role, false) : NULL;
}

void pools_arrival_done(struct pools_arrival *arrival)
{
	struct arrived_statement *arrived, *next;

	HASH_ITER (hh, arrival->statements, arrived, next) {
		HASH_DEL(arrival->statements, arrived);
		statement_release(&arrival->pools->statements, &arrived->statement);
		free(arrived);
	}
}
