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

static void set_credentials(struct watched_cluster *watched, const struct config_database *entry)
{
	const struct user *user = users_find(watched->watches->pools->users, watched->user);
	struct secret secret;

	credentials_release(&watched->credentials);
	if (entry->user && strcmp(entry->user, watched->user) == 0 && entry->password &&
	    *entry->password) {
		secret = users_secret_of(entry->password);
		watched->credentials = credentials_of_secret(&secret, false);
	} else if (user) {
		watched->credentials = credentials_of_secret(&user->secret, false);
	}
}

/* The startup packet has nothing that another entry of the cluster would not send. */
static void set_entry(struct watched_cluster *watched, const struct config_database *entry)
{
	watched->entry = (struct config_database){
		.name = entry->name,
		.dbname = entry->dbname,
		.host = entry->host,
		.port = entry->port,
		.application_name = (char *)"pgweir host watch",
	};
	if (watched->borrows_login)
		cluster_login(watched->watches->pools->with.broker, watched->cluster,
		              &watched->user, &watched->credentials);
	else
		set_credentials(watched, entry);
}

static void forget_cluster(struct watched_cluster *watched)
{
	struct host_watch *watch;

	while ((watch = TAILQ_FIRST(&watched->list)))
		host_watch_end(watch);
	for (unsigned int i = 0; i < watched->host_count; i++)
		host_watch_forget(&watched->hosts[i]);
	roster_unwatch(cluster_roster(watched->cluster));
	TAILQ_REMOVE(&watched->watches->list, watched, node);
	watched->cluster->watched = NULL;
	clusters_release(watched->watches->pools->with.broker, &watched->cluster);
	credentials_release(&watched->credentials);
	free(watched->user);
	free(watched);
}

/* NULL: no memory. */
static struct watched_cluster *add_cluster(struct host_watches *watches, struct cluster *cluster)
{
	const char *list = cluster->roster.text;
	struct watched_cluster *watched =
	    calloc(1, sizeof(*watched) + config_host_count(list) * sizeof(watched->hosts[0]));
	struct bytes name;
	bool is_whole;

	if (!watched)
		return NULL;
	watched->watches = watches;
	watched->cluster = clusters_ref(watches->pools->with.broker, cluster);
	cluster->watched = watched;
	watched->user = strdup(cluster_user(cluster));
	watched->borrows_login = !*cluster_user(cluster);
	is_whole = watched->user != NULL;
	TAILQ_INIT(&watched->list);
	TAILQ_INSERT_TAIL(&watches->list, watched, node);
	while (is_whole && config_host_next(&list, &name)) {
		struct watched_host *host = &watched->hosts[watched->host_count];

		host->cluster = watched;
		host->number = watched->host_count++;
		host->port = (uint16_t)config_host_port(&name, cluster->port);
		host->name = strndup(name.at, name.count);
		is_whole = host->name != NULL;
		host_watch_seek(host);
	}
	if (is_whole)
		return watched;
	forget_cluster(watched);
	return NULL;
}

static void want_limit(const struct watched_cluster *watched, const struct config_database *entry)
{
	const struct pools *pools = watched->watches->pools;
	const struct logger log = { pools->shared.log, NULL };
	struct roster_limit limit = { config_max_standby_lag(pools->config, entry),
		                      config_max_standby_lag_bytes(pools->config, entry) };

	if (!roster_add_limit(cluster_roster(watched->cluster), &limit))
		log_error(&log, "no memory for max_standby_lag");
}

/* The watches of an entry that has other hosts now, and of which there is no pool. */
static void remember_former(const struct watched_cluster *watched, const char *entry)
{
	const struct pools *pools = watched->watches->pools;
	const struct watched_cluster *former;

	TAILQ_FOREACH (former, &watched->watches->list, node) {
		if (former != watched && !former->is_wanted &&
		    strcmp(former->entry.name, entry) == 0)
			cluster_remember(watched->cluster, former->cluster,
			                 loop_now(pools->shared.loop));
	}
}

/* The first entry of a cluster gives the database of its watches. */
static void want(struct host_watches *watches, struct cluster *cluster,
                 const struct config_database *entry)
{
	const struct logger log = { watches->pools->shared.log, NULL };
	struct watched_cluster *watched = cluster->watched;

	if (!watched)
		watched = add_cluster(watches, cluster);
	if (!watched) {
		log_error(&log, "%s: no memory to watch its hosts", entry->name);
		return;
	}
	if (!watched->is_wanted) {
		remember_former(watched, entry->name);
		set_entry(watched, entry);
		roster_drop_limits(cluster_roster(cluster));
	}
	want_limit(watched, entry);
	watched->is_wanted = true;
}

/* tells: the start, or a reload. */
static void want_entry(struct host_watches *watches, const struct config_database *entry,
                       bool tells)
{
	struct pools *pools = watches->pools;
	const struct logger log = { pools->shared.log, NULL };
	struct cluster_key key = cluster_key_of(pools->config, entry);
	struct cluster *cluster;
	bool has_login;

	if (!config_needs_roles(pools->config, entry))
		return;
	cluster = clusters_hold(pools->with.broker, &key, loop_now(pools->shared.loop));
	has_login = cluster && cluster_has_login(pools->with.broker, cluster);
	if (has_login && !host_watch_is_held(pools, entry->name))
		want(watches, cluster, entry);
	if (cluster && !has_login && tells)
		log_info(&log,
		         "database \"%s\": no host watch until a login to a host has worked, as "
		         "host_check_user is not set",
		         entry->name);
	clusters_release(pools->with.broker, &cluster);
}

/* ---- what pools need: those of entry `*`, and of users with a value of their own ---- */

static void want_needs(struct host_watches *watches)
{
	struct pools *pools = watches->pools;
	struct cluster *cluster = NULL;

	while ((cluster = clusters_next_needed(pools->with.broker, cluster))) {
		const struct config_database *entry;
		struct buf database = { 0 };

		if (host_watch_database(pools, cluster, &database) &&
		    (entry = config_database_of(pools->config, database.at)))
			want(watches, cluster, entry);
		buf_free(&database);
	}
}

static void update(struct host_watches *watches, bool tells)
{
	struct pools *pools = watches->pools;
	const struct config_database *entry = NULL;
	struct watched_cluster *watched, *next;
	struct host_watch *watch;

	TAILQ_FOREACH (watched, &watches->list, node)
		watched->is_wanted = false;
	while ((entry = config_database_next(pools->config, entry)))
		want_entry(watches, entry, tells);
	want_needs(watches);
	TAILQ_FOREACH_SAFE (watched, &watches->list, node, next) {
		if (!watched->is_wanted) {
			forget_cluster(watched);
			continue;
		}
		TAILQ_FOREACH (watch, &watched->list, node)
			host_watch_update(watch);
	}
	pools_changed(pools); /* what is not watched any more is not waited for */
}

void host_watches_update(struct pools *pools)
{
	if (pools->host_watches)
		update(pools->host_watches, false);
}

static void on_needs_changed(struct share *listener)
{
	update(container_of(listener, struct host_watches, listener), false);
}

void host_watches_configure(struct pools *pools)
{
	struct host_watches *watches = pools->host_watches;

	if (!watches) {
		watches = pools->host_watches = calloc(1, sizeof(*watches));
		if (!watches)
			return;
		watches->pools = pools;
		TAILQ_INIT(&watches->list);
		watches->listener.member = &pools->member;
		watches->listener.on_woken = on_needs_changed;
		clusters_listen(&watches->listener);
	}
	watches->limits = (struct server_limits){
		.connect = loop_timer_queue(pools->shared.loop, pools->config->host_check_timeout,
		                            server_connect_due),
		.retry_gap = HOST_WATCH_GAP_MAX,
	};
	update(watches, true);
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
