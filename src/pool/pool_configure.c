/* SPDX-License-Identifier: ISC */
/* The settings in force for one pool, when it is made and after each reload. */
#include "pool_priv.h"

#include "pgweir/pgwire/sql_touch.h"

#include "server/server_priv.h"

/*
 * ---- the welcome ----
 *
 * The welcome of a pool, known in all loops once one of them has it: a client that logs in needs no
 * server then.
 */

void pool_set_welcome(struct pool *pool, struct bytes welcome, struct bytes baseline)
{
	struct params_table *table = pool->pools->shared.params;

	pool_forget_greeting(pool);
	buf_free(&pool->welcome);
	buf_add(&pool->welcome, welcome.at, welcome.count);
	params_release(table, &pool->baseline);
	pool->baseline = params_none(table);
	params_add_text(table, &pool->baseline, baseline);
	pool->has_welcome = buf_ok(&pool->welcome);
	if (pool->has_welcome)
		share_put_welcome(&pool->share, welcome, baseline);
}

void pool_find_welcome(struct pool *pool)
{
	struct buf welcome = { 0 }, baseline = { 0 };

	if (share_get_welcome(&pool->share, &welcome, &baseline))
		pool_set_welcome(pool, buf_bytes(&welcome), buf_bytes(&baseline));
	buf_free(&welcome);
	buf_free(&baseline);
}

void pool_forget_welcome(struct pool *pool)
{
	pool->has_welcome = false;
	buf_free(&pool->welcome);
	share_forget_welcome(&pool->share);
}

/* ---- settings ---- */

/* Even with server_login_retry = 0: nothing can have changed before that after a refused login. */
#define RETRY_GAP_MIN (50 * USEC_PER_SEC / 1000)

#define ENDING_MOST (10 * USEC_PER_SEC) /* also without cancel_wait_timeout */

static struct timer_queue *limit_queue(const struct pool *pool, usec_t limit,
                                       void (*on_due)(struct timer *timer))
{
	return loop_timer_queue(pool->pools->shared.loop, limit, on_due);
}

/* The entry's own password, or the secret of a forced user in auth_file. */
static void configure_credentials(struct pool *pool)
{
	const struct config_database *entry = pool->database->entry;
	struct secret secret;

	/* Keys that clients used with a former secret are not valid any more. */
	if (pool->learnt_version != pool->role->secret_version)
		pool_forget_shown(pool);
	credentials_release(&pool->credentials);
	if (!entry->password || !*entry->password || !entry->user ||
	    pool->purpose == POOL_FOR_LOOKUPS)
		return;
	secret = users_secret_of(entry->password);
	pool->credentials = credentials_of_secret(&secret, false);
}

static enum target_session_attrs target_of(const struct pool *pool)
{
	enum target_session_attrs target = pool->database->entry->target_session_attrs;

	if (pool->purpose == POOL_FOR_LOOKUPS)
		return TARGET_ANY;
	if (pool->purpose == POOL_FOR_READS)
		return TARGET_STANDBY;
	return target == TARGET_ANY && pool->limits.routes_reads ? TARGET_PRIMARY : target;
}

static void configure_cluster(struct pool *pool)
{
	const struct config_database *entry = pool->database->entry;
	const struct config *config = pool->pools->config;
	struct broker *broker = pool->pools->with.broker;
	struct cluster_key key = cluster_key_of(config, entry);
	struct cluster *former = pool->share.tally->cluster;
	struct cluster *cluster = clusters_hold(broker, &key, pool_now(pool));
	struct roster_want want = {
		.target = target_of(pool),
		.limit = { config_max_standby_lag(config, entry),
		           config_max_standby_lag_bytes(config, entry) },
		.is_strict = pool->purpose == POOL_FOR_READS,
	};

	pool->site.target = want.target;
	if (cluster && former)
		cluster_remember(cluster, former, pool_now(pool));
	if (cluster)
		clusters_join(&pool->share, cluster, want.target != TARGET_ANY);
	else
		log_error(&pool->log, "no memory for the roles of hosts");
	pool->site.roster = cluster ? cluster_roster(cluster) : NULL;
	hosts_set_roles(pool->site.hosts, pool->site.roster, &want);
	pool->limits.lag_limit = want.limit; /* that of `hosts` is for all loops, behind a lock */
	pool->limits.has_lag_limit =
	    want.is_strict && pool->site.roster && roster_has_limit(&want.limit);
}

static void configure_hosts(struct pool *pool)
{
	const struct config_database *entry = pool->database->entry;
	const char *list = config_hosts(pool->pools->config, entry);

	if (!hosts_configure(pool->site.hosts, list, (uint16_t)entry->port,
	                     entry->load_balance_hosts))
		log_error(&pool->log, "no memory for the list of hosts");
	configure_cluster(pool);
}

static void configure_functions(struct pool *pool, struct buf *names,
                                const struct config_list *list)
{
	buf_free(names);
	for (size_t i = 0; i < list->count; i++)
		buf_add_cstr(names, list->names[i]);
	if (!buf_ok(names))
		log_error(&pool->log, "no memory for the names of functions");
	for (size_t i = 0; i < names->count; i++) {
		char *at = &names->at[i];

		*at = *at >= 'A' && *at <= 'Z' ? (char)(*at | 0x20) : *at;
	}
}

static void configure_pins(struct pool *pool, const struct config_list *list)
{
	static const struct sql_toucher pin = { .bits = SQL_TOUCH_EXTENSION, .is_called = true };

	sql_touchers_free(&pool->pin_functions);
	for (size_t i = 0; i < list->count; i++) {
		if (!sql_touchers_add(&pool->pin_functions, bytes_text(list->names[i]), &pin))
			log_error(&pool->log, "no memory for the names of functions");
	}
}

void pool_forget_greeting(struct pool *pool)
{
	struct params_table *table = pool->pools->shared.params;

	buf_free(&pool->greeting);
	params_release(table, &pool->greeting_for);
	params_release(table, &pool->tried.asked);
	params_release(table, &pool->tried.told);
}

/* In session mode for SHOW AUDIT. */
static bool reads_catalog(const struct config *config, const struct pool_rules *rules)
{
	if (rules->session_state != SESSION_STATE_OFF)
		return rules->isolation != SESSION_ISOLATION_OFF;
	return config->session_audit && config->session_isolation != SESSION_ISOLATION_OFF &&
	       rules->mode == POOL_MODE_SESSION;
}

static struct pool_rules rules_for(const struct pool *pool, enum pool_mode mode)
{
	const struct config *config = pool->pools->config;
	const struct config_database *entry = pool->database->entry;
	const struct config_user *user = pool->role->entry;
	struct pool_rules rules = {
		.mode = mode,
		.session_state = config_session_state(config, entry, user, mode),
		.isolation = config_session_isolation(config, entry, user, mode),
	};

	if (rules.session_state == SESSION_STATE_FOLLOW)
		rules.session_sample = (unsigned int)config->session_sample;
	if (pool->purpose != POOL_FOR_LOOKUPS)
		rules.route_reads = config_route_reads(config, entry, user, mode);
	rules.is_causal = rules.route_reads && config_causal_reads(config, entry, user);
	/* SET TRANSACTION READ ONLY may follow the BEGIN. */
	rules.late_begin = mode == POOL_MODE_TRANSACTION &&
	                   (config_late_begin(config, entry, user) || rules.route_reads);
	return rules;
}

static void configure_rules(struct pool *pool)
{
	const struct config *config = pool->pools->config;
	enum pool_mode own = config_pool_mode(config, pool->database->entry, pool->role->entry);
	/* those that clients can have here, and without a listener that says another */
	unsigned int modes = pool->pools->door_modes | 1u << own;
	struct pool_limits *limits = &pool->limits;

	limits->is_mixed = modes & 1u << POOL_MODE_SESSION && modes != 1u << POOL_MODE_SESSION;
	pool->site.knows_defaults = false;
	for (enum pool_mode mode = 0; mode < POOL_MODE_INHERIT; mode++) {
		struct pool_rules rules = rules_for(pool, mode);

		limits->rules[pool_rules_number(mode)] = rules;
		if (!(modes & 1u << mode))
			continue;
		limits->reads_catalog |= reads_catalog(config, &rules);
		limits->isolates_known |= rules.isolation == SESSION_ISOLATION_KNOWN;
		limits->routes_reads |= rules.route_reads != ROUTE_READS_OFF;
		limits->is_causal |= rules.is_causal;
		limits->isolates |= rules.isolation != SESSION_ISOLATION_OFF;
		pool->site.knows_defaults |= rules.session_state == SESSION_STATE_FOLLOW;
	}
	pool->site.knows_defaults |= limits->isolates;
	limits->rules[0] = limits->rules[pool_rules_number(own)];
	pool_catalog_settle(pool);
}

/* The queue of lookups is that of their clients' logins. */
static void configure_queue(struct pool *pool)
{
	const struct config_user *user = pool->role->entry;
	struct pool_limits *limits = &pool->limits;

	if (pool->purpose == POOL_FOR_LOOKUPS)
		return;
	limits->max_waiting = pool->pools->config->max_waiting;
	limits->shed = (struct shed_rule){
		.target = pool->pools->config->queue_target,
		.interval = pool->pools->config->queue_interval,
	};
	limits->guards_queue = limits->max_waiting || limits->shed.target ||
	                       pool->database->entry->max_waiting > 0 ||
	                       (user && user->max_waiting > 0);
	if (!limits->shed.target)
		pool->shed = (struct shed){ 0 };
}

/* Whether what was left before is looked for only now, or perhaps not as well as now. */
static bool isolates_otherwise(const struct pool_limits *now, const struct pool_limits *before)
{
	for (size_t i = 0; i < sizeof(now->rules) / sizeof(now->rules[0]); i++) {
		if (now->rules[i].isolation != before->rules[i].isolation &&
		    now->rules[i].isolation != SESSION_ISOLATION_OFF)
			return true;
	}
	return false;
}

void pool_configure(struct pool *pool)
{
	const struct pool_limits before = pool->limits;
	const struct config *config = pool->pools->config;
	const struct config_database *entry = pool->database->entry;
	const struct config_user *user = pool->role->entry;
	struct config_times times = config_times(config, entry, user, NULL);
	unsigned int weight = (unsigned int)(entry->weight * (user ? user->weight : 1));
	usec_t check = config->server_check_delay, ending = config->cancel_wait_timeout;

	if (!ending || ending > ENDING_MOST)
		ending = ENDING_MOST;
	if (config->server_idle_timeout && check >= config->server_idle_timeout)
		check = 0;
	pool->limits = (struct pool_limits){
		.max_pinned = config_max_pinned_servers(config, entry, user),
		.reserve_size = config_reserve_pool_size(config, entry, user),
		.min_size =
		    pool->purpose == POOL_FOR_CLIENTS ? config_min_pool_size(config, entry) : 0,
		.reserve_after = config->reserve_pool_timeout,
		.lifetime = config_server_lifetime(config, entry),
	};
	/* Other loops read it; they stand still while it changes. */
	if (pool->block.claim.weight != weight)
		pool->block.claim.weight = weight;
	pool_set_size(pool, pool->purpose == POOL_FOR_READS
	                        ? config_standby_pool_size(config, entry, user)
	                        : config_pool_size(config, entry, user));
	if (!pool_catalog_join(pool->database))
		log_error(&pool->log, "no memory for what is known of the catalog");
	configure_rules(pool);
	if (isolates_otherwise(&pool->limits, &before))
		pool_distrust(pool, true);
	configure_queue(pool);
	pool_fair_configure(pool);
	pool->site.entry = entry;
	pool->site.limits = (struct server_limits){
		.connect = limit_queue(pool, config->server_connect_timeout, server_connect_due),
		.idle = limit_queue(pool, config->server_idle_timeout, pool_idle_due),
		.check =
		    config_check_query(config) ? limit_queue(pool, check, server_check_due) : NULL,
		.life = limit_queue(pool, pool->limits.lifetime, pool_life_due),
		.times = server_times_of(pool->pools->shared.loop, &times),
		.ending = limit_queue(pool, ending, pool_ending_due),
		.grace = limit_queue(pool, config->cancel_grace, pool_grace_due),
		.retry_gap = config->server_login_retry > RETRY_GAP_MIN ? config->server_login_retry
		                                                        : RETRY_GAP_MIN,
	};
	if (!pool->limits.is_causal)
		pool->causal_since = 0;
	else if (!pool->causal_since)
		pool->causal_since = pool_now(pool);
	configure_pins(pool, config_pin_functions(config, entry));
	configure_functions(pool, &pool->read_functions, &config->read_functions);
	configure_credentials(pool);
	pool_forget_greeting(pool); /* the tracked parameters may have changed */
	configure_hosts(pool);
	pool_wake(pool);
}
