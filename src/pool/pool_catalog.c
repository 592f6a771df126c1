/* SPDX-License-Identifier: ISC */
/*
 * When a server is asked about the catalog of its database, and what follows from the answer.
 *
 *   a definition begins --> uncertain_count, version --> every loop: it is not relied on
 *   a definition ends   --> ddl_count,       version --> every loop: it is not current
 *   a reading           --> reading,         version --> every loop: pool_catalog_hear()
 *
 * Loops, and entries with the same hosts, port and dbname, have one tally for both. One server is
 * asked, on a connection that no client waits for, or that a client has just used without anything
 * being known; others who need the answer wait for it. In between, once a second if the database is
 * used, a short question asks whether PostgreSQL has counted changes.
 *
 * Hard here: other loops change the tally at any time. `version` is changed last, and read first.
 */
#include "pool_priv.h"

#include "server/server_priv.h"

#include "pgweir/pgwire/sql_block.h"
#include "pgweir/pgwire/sql_touch.h"

#define CHECK USEC_PER_SEC             /* between two looks for changes */
#define PATIENCE (10 * USEC_PER_SEC)   /* after a question whose server was lost */
#define READ_AGAIN (60 * USEC_PER_SEC) /* what could not be read, or has other counts */
#define OVERDUE USEC_PER_SEC           /* then clients are not asked to wait any longer */
#define REST 10                        /* times as long as a question took, none is asked */

static struct catalog_news *news_of(const struct database *database)
{
	return &database->catalog.tally->catalog;
}

static unsigned int ddl_count(const struct database *database)
{
	return atomic_load_explicit(&news_of(database)->ddl_count, memory_order_acquire);
}

/* ---- definitions ---- */

/* The question ends, or is not about this database: clients that wait for a reading go on. */
void pool_end_catalog(struct server *server)
{
	const struct catalog_reading *reading = server->catalog;

	if (reading && !reading->is_look) {
		struct catalog_news *news = news_of(server->pool->database);
		usec_t since = reading->asked_at;

		atomic_compare_exchange_strong(&news->read_at, &since, 0);
		atomic_fetch_sub(&news->asked_count, 1);
	}
	catalog_reading_release(&server->catalog);
}

/* A database that has no sequences may have some from now on. Later, it is read again. */
static void note_relation(struct database *database)
{
	struct catalog_news *news = news_of(database);
	unsigned int count = atomic_fetch_add(&news->relation_count, 1);
	const struct catalog_reading *reading;

	pool_catalog_look(database); /* who hears of a later reading sees the new count */
	reading = database->reading;
	if (reading && reading->sequences == CATALOG_SEQUENCES_NONE &&
	    reading->relation_count == count)
		atomic_fetch_add(&news->version, 1);
}

/*
 * A relation has code only by what its text names: a function, or a relation that it is made like.
 * What is without a name there (an operator, a type) is without one in other texts, too:
 * CATALOG_ANY.
 */
static void judge(struct server *server, bool is_over)
{
	struct database *database = server->pool->database;
	struct catalog_news *news = news_of(database);
	usec_t due = atomic_load(&news->rest_until);

	if (share_judge_definition(&database->catalog, &server->lease.definition, is_over))
		return;
	server_defines(server, DEFINITION_ANYTHING);
	if (atomic_load(&news->due_at) > due)
		atomic_store(&news->due_at, due);
}

/* What servers define, by a new reading; is_over: the entry leads to another database. */
static void judge_all(struct database *database, bool is_over)
{
	TAILQ_EACH (server, &database->pools->servers, place.all_node) {
		if (server->pool->database != database)
			continue;
		if (is_over)
			pool_end_catalog(server);
		if (server->lease.definition.is_under_way)
			judge(server, is_over);
	}
}

/* Also of a session, whose own pool need not know the catalog. */
void pool_definition_seen(struct server *server, enum server_definition what)
{
	struct database *database = server->pool->database;
	atomic_bool *has_prepared = &news_of(database)->has_prepared;
	struct definition *definition = &server->lease.definition;
	bool is_relation = what == DEFINES_RELATION;

	if (what == DEFINES_LATER)
		atomic_store(has_prepared, true);
	if (what == DEFINES_LATER || (what == DEFINES_PREPARED && !atomic_load(has_prepared)))
		return;
	if (is_relation || definition->state == DEFINITION_RELATION)
		note_relation(database);
	if (is_relation && definition->state >= DEFINITION_RELATION)
		return; /* it was judged when its text was sent */
	if (what < DEFINES_BY_TEXT)
		server_defines(server, is_relation ? DEFINITION_RELATION : DEFINITION_ANYTHING);
	definition->may_commit |= what < DEFINES_BY_TEXT;
	judge(server, what == DEFINES_NO_MORE);
}

/* ---- the tally ---- */

static void on_woken(struct share *share)
{
	pool_catalog_look(container_of(share, struct database, catalog));
}

bool pool_catalog_join(struct database *database)
{
	const struct config_database *entry = database->entry;
	struct pools *pools = database->pools;
	struct share next = { .on_woken = on_woken };
	const char *dbname = database->name;
	struct buf place = { 0 };
	bool is_done;

	if (entry) {
		dbname = config_database_dbname(entry, dbname);
		buf_printf(&place, "%s %d", config_hosts(pools->config, entry), entry->port);
	}
	buf_add_byte(&place, 0);
	is_done =
	    buf_ok(&place) && share_open(&next, &pools->member, TALLY_CATALOG, place.at, dbname);
	if (is_done && database->catalog.tally && next.tally != database->catalog.tally)
		judge_all(database, true);
	database->catalog.on_woken = on_woken;
	is_done = is_done &&
	          share_open(&database->catalog, &pools->member, TALLY_CATALOG, place.at, dbname);
	share_close(&next);
	buf_free(&place);
	if (is_done) /* it is heard with the next text */
		database->catalog_version = atomic_load(&news_of(database)->version) - 1;
	return is_done;
}

/* ---- what is known ---- */

/* They may have sequences, where there were none. */
static bool has_new_relations(const struct database *database)
{
	return database->reading->sequences == CATALOG_SEQUENCES_NONE &&
	       database->reading->relation_count != atomic_load(&news_of(database)->relation_count);
}

/* What follows from the rules for a mode, and from the reading if it is current. */
static void settle(const struct pool *pool, struct pool_rules *rules)
{
	const struct catalog_reading *reading =
	    pool->limits.reads_catalog && pool->database->is_current ? pool->database->reading
								     : NULL;

	switch (rules->isolation) {
	case SESSION_ISOLATION_KNOWN:
		rules->sequences = CATALOG_SEQUENCES_CALLED;
		if (reading)
			rules->sequences = has_new_relations(pool->database)
			                       ? reading->sequences_if_any
			                       : reading->sequences;
		rules->leaves_doubt = !reading || reading->state > CATALOG_TOUCHES;
		break;
	case SESSION_ISOLATION_STRICT:
		rules->sequences = CATALOG_SEQUENCES_CALLED;
		rules->leaves_doubt = true;
		break;
	default:
		rules->sequences =
		    pool->asks_sequences ? CATALOG_SEQUENCES_CALLED : CATALOG_SEQUENCES_NONE;
		rules->leaves_doubt = false;
	}
	if (rules->mode == POOL_MODE_SESSION || pool->purpose != POOL_FOR_CLIENTS ||
	    rules->session_state == SESSION_STATE_OFF)
		rules->sequences = CATALOG_SEQUENCES_NONE;
}

void pool_catalog_settle(struct pool *pool)
{
	for (size_t i = 0; i < sizeof(pool->limits.rules) / sizeof(pool->limits.rules[0]); i++)
		settle(pool, &pool->limits.rules[i]);
}

/* What connect_query has set there can be set again only if it was asked for. */
void pool_distrust(struct pool *pool, bool is_of_others)
{
	const struct config_database *entry = pool->database->entry;

	for (size_t state = SERVER_IDLE; state < SERVER_ENDING; state++) {
		struct server *server;

		TAILQ_FOREACH (server, &pool->servers[state], place.node) {
			if (server_is_dedicated(server))
				continue;
			server_distrust(server, is_of_others);
			if (entry && entry->connect_query && !server->session.has_defaults)
				server_need_close(server, CLOSE_ENTRY_CHANGED);
		}
	}
}

/* An entry that leads to the primary does not rely on what a standby says. */
static bool is_up_to_date(const struct database *database)
{
	const struct catalog_reading *reading = database->reading;
	enum target_session_attrs target =
	    database->entry ? database->entry->target_session_attrs : TARGET_ANY;

	return reading && reading->ddl_count == ddl_count(database) &&
	       !(reading->is_of_standby &&
	         (target == TARGET_PRIMARY || target == TARGET_READ_WRITE));
}

void pool_catalog_hear(struct database *database)
{
	unsigned int version =
	    atomic_load_explicit(&news_of(database)->version, memory_order_acquire);
	struct catalog_reading *reading = share_get_reading(&database->catalog);
	bool is_news = reading && database->reading && reading->digest != database->reading->digest;
	struct pool *pool, *next;

	catalog_reading_release(&database->reading);
	database->reading = reading;
	database->catalog_version = version;
	judge_all(database, false);
	database->is_current =
	    is_up_to_date(database) && !atomic_load(&news_of(database)->uncertain_count);
	database->is_quiet =
	    database->is_current && reading->state == CATALOG_QUIET && !reading->names.count;
	HASH_ITER (hh, database->pool_table, pool, next) {
		pool_catalog_settle(pool);
		/* What nobody knew of may have left state on any server. */
		if (is_news && pool->limits.isolates_known)
			pool_distrust(pool, reading->state != CATALOG_QUIET);
	}
}

const struct catalog_reading *pool_catalog(const struct pool *pool, bool *is_current)
{
	struct database *database = pool->database;

	*is_current = false;
	if (!pool->limits.reads_catalog)
		return NULL;
	pool_catalog_look(database);
	*is_current = database->is_current;
	return database->reading;
}

static const char *name_of(const struct sql_touchers *set, const struct sql_toucher *toucher)
{
	return toucher ? set->names.at + toucher->name : NULL;
}

/*
 * What a text touches of which the catalog says nothing: any but BEGIN and the like may start a
 * trigger, or read a view, that nobody has read.
 */
static unsigned int touches_unread(struct bytes text)
{
	if (sql_calls_unknown(text))
		return SQL_TOUCH_HIDDEN;
	return sql_block_read(text).kind == SQL_BLOCK_OTHER ? POOL_TOUCH_EARLY : 0;
}

static unsigned int touches_by_catalog(struct pool *pool, const struct server *server,
                                       struct bytes text, const char **by)
{
	bool is_current;
	const struct catalog_reading *reading = pool_catalog(pool, &is_current);
	const struct sql_toucher *first;
	unsigned int touches;

	if (!reading)
		return touches_unread(text);
	if (is_current && reading->state == CATALOG_ANY)
		return SQL_TOUCH_HIDDEN;
	touches = sql_touchers_in(&reading->names, text, &first);
	*by = name_of(&reading->names, first);
	if (!is_current || (server && server_may_have_defined(server)))
		touches |= SQL_TOUCH_SCOPE | touches_unread(text);
	else if (reading->state > CATALOG_TOUCHES)
		touches |= SQL_TOUCH_SCOPE | (sql_calls_unknown(text) ? SQL_TOUCH_HIDDEN : 0u);
	return touches;
}

unsigned int pool_touches(struct pool *pool, const struct server *server, struct bytes text,
                          const char **by)
{
	const struct sql_toucher *pin;
	const char *name = NULL;
	unsigned int touches = sql_touchers_in(&pool->pin_functions, text, &pin);

	if (pool->limits.reads_catalog)
		touches |= touches_by_catalog(pool, server, text, &name);
	if (by)
		*by = name ? name : name_of(&pool->pin_functions, pin);
	return touches;
}

/* ---- asking ---- */

/* Whether clients that wait are no reason to wait. */
static bool goes_first(const struct pool *pool)
{
	_Atomic(usec_t) *due_at = &news_of(pool->database)->due_at;
	usec_t now = pool_now(pool);
	usec_t due = atomic_load_explicit(due_at, memory_order_relaxed);

	if (due == 0) { /* never asked yet */
		due = now;
		atomic_store(due_at, due);
	}
	/* In session mode no server may come home for long. */
	return now >= due + OVERDUE || (!pool->queues[BORROWER_WAITING].count &&
	                                (!pool->queues[BORROWER_NEWCOMER].count ||
	                                 pool_own_rules(pool)->mode == POOL_MODE_SESSION));
}

static void on_row(struct server *server, struct bytes body)
{
	if (server->catalog)
		catalog_row(server->catalog, body);
}

/* A state is logged when it changes, not each time that the catalog is read. */
static void tell(const struct server *server, const struct catalog_reading *reading)
{
	switch (reading->state) {
	case CATALOG_QUIET:
		log_info(&server->log, "no function of the database can touch session state");
		return;
	case CATALOG_TOUCHES:
		log_info(&server->log,
		         "functions of the database can touch session state (SHOW CATALOG): %s %s",
		         catalog_kind_name((enum catalog_kind)reading->names.list[0].kind),
		         sql_touchers_name(&reading->names, 0));
		return;
	case CATALOG_ANY:
		log_info(&server->log,
		         "any statement can touch session state by functions of the database, so "
		         "the server is asked after each: %s",
		         reading->why);
		return;
	case CATALOG_UNREAD:
		log_warning(&server->log,
		            "what functions of the database may do to the session is not known, so "
		            "servers are cleaned between clients: %s",
		            reading->why);
		return;
	}
}

static void publish(struct server *server, struct catalog_reading *reading)
{
	struct database *database = server->pool->database;
	struct catalog_reading *before = share_get_reading(&database->catalog);

	share_put_reading(&database->catalog, reading);
	if (!before || before->state != reading->state)
		tell(server, reading);
	catalog_reading_release(&before);
	pool_catalog_hear(database);
}

/* The answer of the short question. */
static void look_for_changes(struct server *server, const struct catalog_reading *look)
{
	struct database *database = server->pool->database;
	bool is_other;

	if (!database->reading || !catalog_has_changed(look, database->reading, &is_other) ||
	    (is_other && wall_now() - database->reading->since_wall < (int64_t)READ_AGAIN))
		return;
	atomic_fetch_add(&news_of(database)->ddl_count, 1);
	atomic_fetch_add(&news_of(database)->version, 1);
	atomic_store(&news_of(database)->due_at, 0);
}

static void on_done(struct server *server)
{
	struct database *database = server->pool->database;
	struct catalog_news *news = news_of(database);
	struct catalog_reading *reading = server->catalog;
	usec_t now = pool_now(server->pool), rest, due;
	bool is_answer;

	if (!reading)
		return; /* its entry leads to another database now */
	due = rest = REST * (now - reading->asked_at);
	is_answer = catalog_end(reading, server->orders.has_failed);
	if (!is_answer)
		due = READ_AGAIN;
	else if (due < CHECK && (reading->is_look || reading->ddl_count == ddl_count(database)))
		due = CHECK;
	atomic_store(&news->rest_until, now + rest);
	atomic_store(&news->due_at, now + due);
	if (!reading->is_look)
		publish(server, reading);
	else if (is_answer)
		look_for_changes(server, reading);
	pool_end_catalog(server);
}

/* false: no memory. */
static bool ask_server(struct server *server, bool reads_all)
{
	struct pool *pool = server->pool;
	struct database *database = pool->database;
	struct catalog_news *news = news_of(database);
	struct buf *text = &pool->pools->order_text;
	usec_t now = pool_now(pool);
	const char *standby;

	pool_end_catalog(server);
	server->catalog = catalog_ask(reads_all, ddl_count(database), now);
	if (!server->catalog)
		return false;
	atomic_store(&news->due_at, now + PATIENCE);
	if (reads_all) {
		atomic_store(&news->rest_until, now + PATIENCE);
		atomic_store(&news->read_count, server->catalog->ddl_count);
		atomic_store(&news->read_at, now);
		atomic_fetch_add(&news->asked_count, 1);
		server->catalog->relation_count = atomic_load(&news->relation_count);
		standby = params_find(server->session.baseline, "in_hot_standby");
		server->catalog->is_of_standby = standby && strcmp(standby, "on") == 0;
	}
	buf_clear(text);
	catalog_text(server->catalog, text);
	if (buf_ok(text))
		server_order(server, &(struct order){ .kind = ORDER_CATALOG,
		                                      .is_apart = server->state == SERVER_LENT,
		                                      .text = text->at,
		                                      .on_row = on_row,
		                                      .on_done = on_done });
	else
		server_break(server);
	buf_reuse(text, ORDER_KEEP_MAX);
	return true;
}

void pool_read_catalog(struct server *server)
{
	struct database *database = server->pool->database;

	if (server->pool->purpose != POOL_FOR_CLIENTS || !goes_first(server->pool))
		return;
	pool_catalog_look(database);
	server_enter(server, SERVER_CHECKING);
	if (!ask_server(server, !is_up_to_date(database) ||
	                            database->reading->state == CATALOG_UNREAD ||
	                            has_new_relations(database)))
		server->site->ops->on_home(server);
}

enum pool_reading pool_read_catalog_now(struct borrower *borrower, bool is_needed)
{
	const struct pool *pool = borrower->pool;
	const struct catalog_news *news = news_of(pool->database);
	usec_t now = pool_now(pool), since = atomic_load(&news->read_at);
	bool is_current;
	const struct catalog_reading *reading = pool_catalog(pool, &is_current);

	is_needed |= !reading;
	if (is_current || !pool->limits.reads_catalog || pool->purpose != POOL_FOR_CLIENTS)
		return POOL_READING_NONE;
	/* While something is being defined, it has what was called if it is read after that. */
	if (is_up_to_date(pool->database) &&
	    (!is_needed || reading->asked_at > borrower->server->used_at))
		return POOL_READING_NONE;
	/* A server was asked for a reading that will be current; it may have been lost since. */
	if (since && now < since + (is_needed ? PATIENCE : OVERDUE) &&
	    atomic_load(&news->read_count) == ddl_count(pool->database))
		return POOL_READING_ELSEWHERE;
	if (!is_needed && now < atomic_load(&news->rest_until))
		return POOL_READING_NONE;
	return ask_server(borrower->server, true) ? POOL_READING_ASKED : POOL_READING_NONE;
}
