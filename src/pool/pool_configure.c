/* SPDX-License-Identifier: ISC */
/*
 * What a pool knows and has to know: its welcome, what its servers log in with, and the settings in
 * force, when it is made and after each reload.
 */
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

/*
 * ---- credentials ----
 *
 * What the servers log in with: the secret of the entry, of auth_file, or what a client
 * authenticated with. Also the description of the secret in the error of a failed login, without
 * the secret itself.
 */

/* What clients of this user on this database authenticated with. */
static const struct credentials *shown_to(const struct pool *pool)
{
	const struct pool *twin;

	if (pool->purpose == POOL_FOR_CLIENTS || pool->learnt)
		return pool->learnt;
	twin = pools_find_twin(pool, POOL_FOR_CLIENTS);
	return twin ? twin->learnt : NULL;
}

const struct credentials *pool_credentials(const struct pool *pool)
{
	const struct credentials *file = pool->role->credentials, *shown = shown_to(pool);

	if (pool->credentials)
		return pool->credentials;
	return credentials_kind(file) == SECRET_PLAIN || !shown ? file : shown;
}

/* Where logins failed with the old credentials, the new ones are tried. */
static void set_learnt(struct pool *pool, const struct credentials *shown)
{
	struct pool *twin;

	credentials_release(&pool->learnt);
	pool->learnt = credentials_hold(shown);
	pool->learnt_version = pool->role->secret_version;
	for (int i = 0; i < POOL_PURPOSES; i++) {
		twin = pools_find_twin(pool, (enum pool_purpose)i);
		if (!twin || !pool_is_failing(twin))
			continue;
		pool_reset_retry(twin);
		pool_wake(twin);
	}
}

void pool_learn(struct pool *pool, const struct credentials *shown)
{
	if (credentials_kind(pool->role->credentials) == SECRET_PLAIN)
		return; /* auth_file has the password itself */
	if (credentials_equal(pool->learnt, shown))
		return;
	set_learnt(pool, shown);
	share_put_shown(&pool->share, shown);
}

/* Adds "line 3 of auth_file", or another source of the secret. */
static void add_origin(const struct user *user, struct buf *out)
{
	if (user)
		buf_printf(out, "line %d of auth_file", user->line);
	else
		buf_add_text(out, "auth_query");
}

/* Adds that there is no secret, and why. */
static void add_lack(const struct user *user, struct buf *out)
{
	buf_add_text(out, ", without a secret: ");
	if (!user) {
		buf_add_text(out, "neither the entry nor auth_file has one, and no client has "
		                  "shown one");
		return;
	}
	add_origin(user, out);
	buf_add_text(out, user->secret.kind == SECRET_SCRAM
	                      ? " has a SCRAM secret, which serves for logins to PostgreSQL "
	                        "when a client has logged in by SCRAM"
	                      : " has none");
}

void pool_tell_secret(const struct server *server, struct buf *out)
{
	const struct pool *pool = server->pool;
	const struct credentials *credentials = pool_credentials(pool);
	const struct user *user = users_find(pool->pools->users, pool->role->name);
	const char *words = ", with what a client's login has shown of the SCRAM secret of ";

	if (credentials_kind(credentials) == SECRET_PLAIN)
		words = ", with the password of ";
	else if (credentials_kind(credentials) == SECRET_MD5)
		words = ", with the md5 secret of ";
	if (!credentials) {
		add_lack(user, out);
	} else if (credentials == pool->credentials) {
		buf_add_text(out, ", with password= of the entry");
	} else if (credentials->kind == SECRET_PLAIN && credentials->is_shown) {
		buf_add_text(out, ", with the password that a client sent");
	} else {
		buf_add_text(out, words);
		add_origin(user, out);
	}
}

/* ---- news of other loops ---- */

void pool_hear_news(struct pool *pool)
{
	const struct credentials *shown;

	if (share_has_news(&pool->share)) {
		if (share_get_shown(&pool->share, &shown) &&
		    !credentials_equal(pool->learnt, shown))
			set_learnt(pool, shown);
		credentials_release(&shown);
	}
	pool_hear_failure(pool);
}

/* ---- settings ---- */

/* Even with server_login_retry = 0: nothing can have changed before that after a refused login. */
#define RETRY_GAP_MIN (50 * USEC_PER_SEC / 1000)

#define ENDING_MOST (10 * USEC_PER_SEC) /* also without cancel_wait_timeout */

/* The entry's own password, or the secret of a forced user in auth_file. */
static void configure_credentials(struct pool *pool)
{
	const struct config_database *entry = pool->database->entry;
	struct secret secret;

	/* Keys that clients used with a former secret are not valid any more, in no loop. */
	if (pool->learnt && pool->learnt_version != pool->role->secret_version) {
		credentials_release(&pool->learnt);
		share_put_shown(&pool->share, NULL);
	}
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
	const struct config_rules said = config_rules(config, entry, user, mode);
	struct pool_rules rules = {
		.mode = mode,
		.session_state = said.session_state,
		.isolation = said.isolation,
	};

	if (rules.session_state == SESSION_STATE_FOLLOW)
		rules.session_sample = (unsigned int)config->session_sample;
	if (pool->purpose != POOL_FOR_LOOKUPS) {
		rules.route_reads = said.route_reads;
		rules.is_causal = said.is_causal;
	}
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
	struct loop *loop = pool_loop(pool);

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
		.connect =
		    loop_timer_queue(loop, config->server_connect_timeout, server_connect_due),
		.idle = loop_timer_queue(loop, config->server_idle_timeout, pool_idle_due),
		.check = config_check_query(config)
		             ? loop_timer_queue(loop, check, server_check_due)
		             : NULL,
		.life = loop_timer_queue(loop, pool->limits.lifetime, pool_life_due),
		.times = server_times_of(loop, &times),
		.ending = loop_timer_queue(loop, ending, pool_ending_due),
		.grace = loop_timer_queue(loop, config->cancel_grace, pool_grace_due),
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
