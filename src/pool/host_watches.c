/* SPDX-License-Identifier: ISC */
/*
 * Which clusters are watched: see host_watch_priv.h.
 *
 *   entries of the configuration --+
 *   what pools need ---------------+--> clusters that are wanted --> their hosts are watched
 *
 * All of them are looked at again whenever one of these changes, or a database is paused.
 */
#include "host_watch_priv.h"

#include <stdlib.h>
#include <string.h>

#include "pgweir/base/container_of.h"

#include "broker_priv.h"
#include "pool_priv.h"

/* ---- clusters ---- */

/* Whether reads of an entry go to standbys, for users without a value of their own. */
static bool routes_reads(const struct config *config, const struct config_database *entry)
{
	return config_routes_reads(config, entry, NULL);
}

static bool wants_primary(const struct config *config, const struct config_database *entry)
{
	return (entry->target_session_attrs == TARGET_ANY && routes_reads(config, entry)) ||
	       entry->target_session_attrs == TARGET_PRIMARY ||
	       entry->target_session_attrs == TARGET_READ_WRITE;
}

/* The key has no user: they log in as a pool has. */
static void borrow_login(struct watched_cluster *watched)
{
	struct broker *broker = watched->watches->pools->with.broker;
	struct credentials credentials = { 0 };
	char *user;

	if (!cluster_login(broker, watched->cluster, &user, &credentials))
		return;
	free(watched->user);
	credentials_done(&watched->credentials);
	watched->user = user;
	watched->credentials = credentials;
}

static void set_credentials(struct watched_cluster *watched, const struct config_database *entry)
{
	const struct user *user = users_find(watched->watches->pools->users, watched->user);
	struct secret secret;

	credentials_done(&watched->credentials);
	if (entry->user && strcmp(entry->user, watched->user) == 0 && entry->password &&
	    *entry->password) {
		secret = users_secret_of(entry->password);
		credentials_from_secret(&watched->credentials, &secret);
	} else if (user) {
		credentials_from_secret(&watched->credentials, &user->secret);
	}
}

/* The startup packet has nothing that another entry of the cluster would not send. */
static void set_entry(struct watched_cluster *watched, const struct config_database *entry)
{
	free(watched->own_database);
	watched->own_database = NULL;
	watched->database = entry->name;
	watched->entry = (struct config_database){
		.name = entry->name,
		.dbname = entry->dbname,
		.host = entry->host,
		.port = entry->port,
		.application_name = (char *)"pgweir host watch",
	};
	if (watched->borrows_login)
		borrow_login(watched);
	else
		set_credentials(watched, entry);
}

static void free_cluster(struct watched_cluster *watched)
{
	for (unsigned int i = 0; watched->hosts && i < watched->host_count; i++)
		host_watch_forget(&watched->hosts[i]);
	credentials_done(&watched->credentials);
	buf_free(&watched->limits);
	free(watched->hosts);
	free(watched->user);
	free(watched->own_database);
	clusters_release(watched->watches->pools->with.broker, &watched->cluster);
	free(watched);
}

static void forget_cluster(struct watched_cluster *watched)
{
	struct host_watch *watch;

	while ((watch = TAILQ_FIRST(&watched->list)))
		host_watch_end(watch);
	roster_unwatch(cluster_roster(watched->cluster));
	TAILQ_REMOVE(&watched->watches->list, watched, node);
	free_cluster(watched);
}

static bool fill_hosts(struct watched_cluster *watched, const char *list, int port)
{
	struct bytes name;

	for (unsigned int i = 0; config_host_next(&list, &name); i++) {
		struct watched_host *host = &watched->hosts[i];

		host->cluster = watched;
		host->number = i;
		host->port = (uint16_t)config_host_port(&name, port);
		host->name = strndup(name.at, name.count);
		if (!host->name)
			return false;
		host_watch_seek(host);
	}
	return true;
}

static bool fill_cluster(struct watched_cluster *watched, const struct cluster_key *key)
{
	struct pools *pools = watched->watches->pools;
	struct bytes host;

	for (const char *list = key->hosts; config_host_next(&list, &host);)
		watched->host_count++;
	watched->user = strdup(key->user);
	watched->borrows_login = !*key->user;
	watched->hosts = calloc(watched->host_count, sizeof(*watched->hosts));
	watched->cluster = clusters_hold(pools->with.broker, key, loop_now(pools->with.loop));
	return watched->user && watched->hosts && watched->cluster &&
	       fill_hosts(watched, key->hosts, key->port);
}

static void change_database(struct watched_cluster *watched);

static struct watched_cluster *add_cluster(struct host_watches *watches,
                                           const struct cluster_key *key)
{
	struct watched_cluster *watched = calloc(1, sizeof(*watched));

	if (!watched)
		return NULL;
	watched->watches = watches;
	watched->on_refused = change_database;
	TAILQ_INIT(&watched->list);
	if (!fill_cluster(watched, key)) {
		free_cluster(watched);
		return NULL;
	}
	TAILQ_INSERT_TAIL(&watches->list, watched, node);
	return watched;
}

static struct cluster_key cluster_key_of(const struct config *config,
                                         const struct config_database *entry)
{
	return (struct cluster_key){ config_hosts(config, entry), entry->port,
		                     config_host_check_user(config, entry) };
}

static struct watched_cluster *find_watched(const struct host_watches *watches,
                                            const struct cluster_key *key)
{
	const struct cluster *cluster = clusters_find(watches->pools->with.broker, key);
	struct watched_cluster *watched;

	TAILQ_FOREACH (watched, &watches->list, node) {
		if (cluster && watched->cluster == cluster)
			return watched;
	}
	return NULL;
}

static void want_limit(struct watched_cluster *watched, const struct config_database *entry)
{
	const struct config *config = watched->watches->pools->config;
	struct roster_limit limit = { config_max_standby_lag(config, entry),
		                      config_max_standby_lag_bytes(config, entry) };

	if (!roster_has_limit(&limit))
		return;
	for (size_t at = 0; at < watched->limits.count; at += sizeof(limit)) {
		if (memcmp(watched->limits.at + at, &limit, sizeof(limit)) == 0)
			return;
	}
	buf_add(&watched->limits, (const char *)&limit, sizeof(limit));
}

static void set_limits(struct watched_cluster *watched)
{
	const struct buf *limits = &watched->limits;
	const struct logger log = { watched->watches->pools->with.log, NULL };

	if (!buf_ok(limits) ||
	    !roster_set_limits(cluster_roster(watched->cluster),
	                       (const struct roster_limit *)limits->at,
	                       (unsigned int)(limits->count / sizeof(struct roster_limit))))
		log_error(&log, "no memory for max_standby_lag");
}

/* The watches of an entry that has other hosts now, and of which there is no pool. */
static void remember_former(const struct watched_cluster *watched, const char *entry)
{
	const struct pools *pools = watched->watches->pools;
	const struct watched_cluster *former;

	TAILQ_FOREACH (former, &watched->watches->list, node) {
		if (former != watched && !former->is_wanted && strcmp(former->database, entry) == 0)
			cluster_remember(watched->cluster, former->cluster,
			                 loop_now(pools->with.loop));
	}
}

/* Whether PAUSE is about it: then nothing of it may keep PostgreSQL from being replaced. */
static bool is_held(struct pools *pools, const char *database)
{
	const struct database *found = pools_find_any_database(pools, database);

	return pools->is_paused || (found && found->is_paused);
}

/* The first entry of a cluster gives the database of its watches. NULL: no memory. */
static struct watched_cluster *want_key(struct host_watches *watches, const struct cluster_key *key,
                                        const struct config_database *entry)
{
	struct watched_cluster *watched = find_watched(watches, key);

	if (!watched)
		watched = add_cluster(watches, key);
	if (!watched) {
		const struct logger log = { watches->pools->with.log, NULL };

		log_error(&log, "%s: no memory to watch its hosts", entry->name);
		return NULL;
	}
	if (!watched->is_wanted) {
		remember_former(watched, entry->name);
		set_entry(watched, entry);
		watched->wants_primary = false;
		buf_free(&watched->limits);
	}
	want_limit(watched, entry);
	watched->is_wanted = true;
	return watched;
}

static bool has_login(struct host_watches *watches, const struct cluster_key *key)
{
	struct broker *broker = watches->pools->with.broker;
	const struct cluster *cluster = clusters_find(broker, key);

	return *key->user || (cluster && cluster_has_login(broker, cluster));
}

static void want_cluster(struct host_watches *watches, const struct config_database *entry)
{
	const struct config *config = watches->pools->config;
	struct cluster_key key = cluster_key_of(config, entry);
	struct watched_cluster *watched;

	if (!config_needs_roles(config, entry) || !has_login(watches, &key) ||
	    is_held(watches->pools, entry->name))
		return;
	watched = want_key(watches, &key, entry);
	if (watched)
		watched->wants_primary |= wants_primary(config, entry);
}

/* ---- what pools need: those of entry `*`, and of users with a value of their own ---- */

static bool accepts(void *arg, const char *database)
{
	const struct host_watches *watches = arg;

	return !is_held(watches->pools, database);
}

/* The watches of entry `*` are for the database of one of its pools. */
static void adopt_database(struct watched_cluster *watched, const char *database)
{
	if (watched->own_database && strcmp(watched->own_database, database) == 0)
		return;
	free(watched->own_database);
	watched->own_database = strdup(database);
	watched->database = watched->own_database ? watched->own_database : watched->entry.name;
}

static bool find_database(struct host_watches *watches, const struct cluster *cluster,
                          struct buf *database)
{
	return cluster_database(watches->pools->with.broker, cluster, accepts, watches, database);
}

static void want_need(struct host_watches *watches, const struct cluster_need *need,
                      const char *database)
{
	const struct config *config = watches->pools->config;
	const struct config_database *entry = config_database_find(config, database);
	const struct config_database *own = entry ? entry : config_database_auto(config);
	struct watched_cluster *watched;

	if (!own || !has_login(watches, &need->key))
		return;
	watched = want_key(watches, &need->key, own);
	if (!watched)
		return;
	watched->wants_primary |= need->primary;
	if (!entry && watched->database == own->name)
		adopt_database(watched, database);
}

static void want_needs(struct host_watches *watches)
{
	struct broker *broker = watches->pools->with.broker;
	const struct logger log = { watches->pools->with.log, NULL };
	struct clusters_needs needs = { 0 };

	if (!clusters_needed(broker, &needs))
		log_error(&log, "no memory to watch the hosts of all pools");
	for (size_t i = 0; i < needs.count; i++) {
		struct buf database = { 0 };

		if (find_database(watches, needs.list[i].cluster, &database))
			want_need(watches, &needs.list[i], database.at);
		buf_free(&database);
	}
	clusters_needs_free(broker, &needs);
}

/* Pools of entry `*` that need no roles may share watches. */
static void want_auto_limit(struct host_watches *watches)
{
	const struct config *config = watches->pools->config;
	const struct config_database *entry = config_database_auto(config);
	struct watched_cluster *watched = NULL;

	if (entry) {
		struct cluster_key key = cluster_key_of(config, entry);

		watched = find_watched(watches, &key);
	}
	if (watched && watched->is_wanted)
		want_limit(watched, entry);
}

/* A paused database may be renamed or dropped: the watch goes to that of another one. */
static void leave_held(struct host_watch *watch)
{
	if (watch->opened_for && is_held(watch->cluster->watches->pools, watch->opened_for))
		host_watch_leave(watch);
}

static void update_cluster(struct watched_cluster *watched)
{
	struct host_watch *watch;

	set_limits(watched);
	TAILQ_FOREACH (watch, &watched->list, node) {
		leave_held(watch);
		host_watch_update(watch);
	}
}

/* The database may not exist: that of another pool may be better; and so may be its login. */
static void change_database(struct watched_cluster *watched)
{
	struct buf database = { 0 };
	struct host_watch *watch;

	if (watched->borrows_login)
		cluster_refuse_login(watched->watches->pools->with.broker, watched->cluster);
	if (!watched->own_database)
		return;
	if (find_database(watched->watches, watched->cluster, &database))
		adopt_database(watched, database.at);
	buf_free(&database);
	TAILQ_FOREACH (watch, &watched->list, node)
		host_watch_set_site(watch);
}

static void on_needs_changed(struct clusters_listener *listener)
{
	host_watches_update(container_of(listener, struct host_watches, listener)->pools);
}

static struct host_watches *make_watches(struct pools *pools)
{
	struct host_watches *watches = calloc(1, sizeof(*watches));

	if (!watches)
		return NULL;
	watches->pools = pools;
	TAILQ_INIT(&watches->list);
	watches->listener =
	    (struct clusters_listener){ .loop = pools->with.loop, .on_changed = on_needs_changed };
	clusters_listen(pools->with.broker, &watches->listener);
	return watches;
}

void host_watches_update(struct pools *pools)
{
	const struct config_database *entry = NULL;
	struct host_watches *watches = pools->host_watches;
	struct watched_cluster *watched, *next;

	if (!watches)
		return;
	TAILQ_FOREACH (watched, &watches->list, node)
		watched->is_wanted = false;
	while ((entry = config_database_next(pools->config, entry)))
		want_cluster(watches, entry);
	want_needs(watches);
	want_auto_limit(watches);
	TAILQ_FOREACH_SAFE (watched, &watches->list, node, next) {
		if (watched->is_wanted)
			update_cluster(watched);
		else
			forget_cluster(watched);
	}
	pools_changed(pools); /* what is not watched any more is not waited for */
}

/* Said at the start and after a reload. */
static void tell_unwatched(struct host_watches *watches)
{
	const struct logger log = { watches->pools->with.log, NULL };
	const struct config *config = watches->pools->config;
	const struct config_database *entry = NULL;

	while ((entry = config_database_next(config, entry))) {
		struct cluster_key key = cluster_key_of(config, entry);

		if (config_needs_roles(config, entry) && !has_login(watches, &key))
			log_info(&log,
			         "database \"%s\": no host watch until a login to a host has "
			         "worked, as host_check_user is not set",
			         entry->name);
	}
}

void host_watches_configure(struct pools *pools)
{
	if (!pools->host_watches)
		pools->host_watches = make_watches(pools);
	if (!pools->host_watches)
		return;
	pools->host_watches->limits = (struct server_limits){
		.connect = loop_timer_queue(pools->with.loop, pools->config->host_check_timeout,
		                            server_connect_due),
		.retry_gap = HOST_WATCH_GAP_MAX,
	};
	host_watches_update(pools);
	tell_unwatched(pools->host_watches);
}

void host_watches_free(struct host_watches **watchesp)
{
	struct host_watches *watches = *watchesp;
	struct watched_cluster *watched;

	*watchesp = NULL;
	if (!watches)
		return;
	clusters_listen_end(&watches->listener);
	while ((watched = TAILQ_FIRST(&watches->list)))
		forget_cluster(watched);
	free(watches);
}
