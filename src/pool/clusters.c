/* SPDX-License-Identifier: ISC */
/* Clusters: see pgweir/pool/clusters.h. */
#include "pgweir/pool/clusters.h"
#include "pgweir/base/container_of.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "broker_priv.h"

/* The caller has the lock. */
static void wake_all(struct cluster *cluster)
{
	TAILQ_EACH (tally, &cluster->tallies, cluster_node)
		broker_post_others(tally, NULL);
}

/* ---- clusters ---- */

struct cluster_key cluster_key_of(const struct config *config, const struct config_database *entry)
{
	return (struct cluster_key){ config_hosts(config, entry), entry->port,
		                     config_host_check_user(config, entry) };
}

static void name_cluster(struct buf *name, const struct cluster_key *key)
{
	buf_add_cstr(name, key->hosts);
	buf_printf(name, "%d", key->port);
	buf_add_byte(name, 0);
	buf_add_cstr(name, key->user);
}

static void drop_login(struct cluster *cluster)
{
	free(cluster->lent_user);
	cluster->lent_user = NULL;
	credentials_release(&cluster->lent);
}

static void free_cluster(struct cluster *cluster)
{
	roster_done(&cluster->roster);
	drop_login(cluster);
	buf_free(&cluster->name);
	free(cluster);
}

/* Takes the name. */
static struct cluster *make_cluster(struct broker *broker, const struct cluster_key *key,
                                    struct buf *name, usec_t now)
{
	struct cluster *cluster = calloc(1, sizeof(*cluster));

	assert_locked(&broker->lock);
	if (!cluster)
		return NULL;
	if (!roster_init(&cluster->roster, key->hosts, now)) {
		free_cluster(cluster);
		return NULL;
	}
	cluster->name = *name;
	*name = (struct buf){ 0 };
	cluster->broker = broker;
	cluster->port = key->port;
	TAILQ_INIT(&cluster->tallies);
	TABLE_ADD(hh, &broker->secret, broker->clusters, cluster->name.at, cluster->name.count,
	          cluster);
	return cluster;
}

void cluster_remember(struct cluster *cluster, struct cluster *former, usec_t now)
{
	struct roster_row row;
	uint32_t timeline;
	uint64_t system;

	if (cluster == former || cluster->port != former->port)
		return;
	pthread_mutex_lock(&former->roster.lock);
	timeline = former->roster.timeline;
	system = former->roster.system;
	pthread_mutex_unlock(&former->roster.lock);
	for (unsigned int i = 0; roster_row_at(&former->roster, i, &row); i++) {
		int number =
		    config_host_number(cluster->roster.text, former->roster.text, row.host);

		if (number < 0)
			continue;
		row.host = (unsigned int)number;
		roster_remember(&cluster->roster, &row, timeline, system, now);
	}
}

/* ---- hosts that an administrator has drained or disabled ---- */

static struct closed_host **find_closed(struct broker *broker, struct bytes name)
{
	struct closed_host **at = &broker->closed_hosts;

	assert_locked(&broker->lock);
	while (*at && !bytes_are(name, (*at)->name))
		at = &(*at)->next;
	return at;
}

/* Hosts that no entry has any more stay in the list, as they may come back. */
static bool note_closed(struct broker *broker, const char *host, enum host_admin admin,
                        bool is_planned)
{
	struct closed_host **at = find_closed(broker, bytes_text(host)), *closed = *at;

	assert_locked(&broker->lock);
	if (admin == HOST_ENABLED) {
		if (closed) {
			*at = closed->next;
			broker->closed_count--;
			free(closed);
		}
		return true;
	}
	if (!closed) {
		if (broker->closed_count == CLOSED_HOSTS_MAX ||
		    !(closed = calloc(1, sizeof(*closed) + strlen(host) + 1)))
			return false;
		memcpy(closed->name, host, strlen(host));
		*at = closed;
		broker->closed_count++;
	}
	closed->admin = admin;
	closed->is_planned = is_planned;
	return true;
}

/* only: a host whose state has changed; NULL: the cluster is new. */
static void apply_closed(struct broker *broker, struct cluster *cluster, const char *only,
                         usec_t now)
{
	const char *list = cluster->roster.text;
	struct bytes host;

	assert_locked(&broker->lock);
	for (unsigned int i = 0; config_host_next(&list, &host); i++) {
		const struct closed_host *closed = *find_closed(broker, host);

		if (only && !bytes_are(host, only))
			continue;
		roster_set_admin(&cluster->roster, i, closed ? closed->admin : HOST_ENABLED, now);
		if (only && !closed)
			roster_trust_again(&cluster->roster, now);
		if (only)
			wake_all(cluster);
	}
}

/* make_now: when one is made, if there is none; 0: none is made. */
static struct cluster *look_up(struct broker *broker, const struct cluster_key *key,
                               usec_t make_now)
{
	struct cluster *cluster = NULL;
	struct buf name = { 0 };

	assert_locked(&broker->lock);
	name_cluster(&name, key);
	if (buf_ok(&name))
		TABLE_FIND(hh, &broker->secret, broker->clusters, name.at, name.count, cluster);
	if (buf_ok(&name) && !cluster && make_now &&
	    (cluster = make_cluster(broker, key, &name, make_now)))
		apply_closed(broker, cluster, NULL, make_now);
	buf_free(&name);
	return cluster;
}

struct cluster *clusters_find(struct broker *broker, const struct config *config,
                              const struct config_database *entry)
{
	struct cluster_key key = cluster_key_of(config, entry);

	LOCKED(&broker->lock);
	return look_up(broker, &key, 0);
}

struct cluster *clusters_hold(struct broker *broker, const struct cluster_key *key, usec_t now)
{
	LOCKED(&broker->lock);
	struct cluster *cluster = look_up(broker, key, now);

	if (cluster)
		cluster->ref_count++;
	return cluster;
}

bool clusters_set_admin(struct broker *broker, const char *host, enum host_admin admin,
                        bool is_planned, usec_t now)
{
	LOCKED(&broker->lock);
	const struct closed_host *closed = *find_closed(broker, bytes_text(host));
	struct cluster *cluster;

	if (is_planned && (admin == HOST_ENABLED ? !closed || !closed->is_planned : closed != NULL))
		return false;
	if (!note_closed(broker, host, admin, is_planned))
		return false;
	for (cluster = broker->clusters; cluster; cluster = cluster->hh.next)
		apply_closed(broker, cluster, host, now);
	return true;
}

enum host_admin clusters_admin(struct broker *broker, const char *host)
{
	LOCKED(&broker->lock);
	const struct closed_host *closed = *find_closed(broker, bytes_text(host));

	return closed ? closed->admin : HOST_ENABLED;
}

void clusters_done(struct broker *broker)
{
	assert(!broker->clusters);
	for (struct closed_host *closed; (closed = broker->closed_hosts);) {
		broker->closed_hosts = closed->next;
		free(closed);
	}
}

static void drop_reference(struct cluster *cluster)
{
	assert_locked(&cluster->broker->lock);
	if (--cluster->ref_count > 0)
		return;
	HASH_DEL(cluster->broker->clusters, cluster);
	free_cluster(cluster);
}

struct cluster *cluster_ref(struct cluster *cluster)
{
	LOCKED(&cluster->broker->lock);
	cluster->ref_count++;
	return cluster;
}

void cluster_release(struct cluster **clusterp)
{
	struct cluster *cluster = *clusterp;

	*clusterp = NULL;
	if (!cluster)
		return;
	LOCKED(&cluster->broker->lock);
	drop_reference(cluster);
}

/* ---- what pools need ---- */

static void tell_listener(const struct broker *broker)
{
	assert_locked(&broker->lock);
	if (broker->listener)
		broker_post_woken(broker->listener);
}

void clusters_listen(struct share *listener)
{
	LOCKED(&listener->member->broker->lock);
	listener->member->broker->listener = listener;
}

void clusters_listen_end(struct share *listener)
{
	struct broker_member *member = listener->member;

	LOCKED(&member->broker->lock);
	member->broker->listener = NULL;
	if (listener->is_woken)
		TAILQ_REMOVE(&member->woken, listener, woken_node);
}

/* ---- logins for watches ---- */

void cluster_lend_login(struct cluster *cluster, const char *user,
                        const struct credentials *credentials)
{
	if (*cluster_user(cluster))
		return;
	LOCKED(&cluster->broker->lock);
	if (!cluster->lent_user) {
		cluster->lent_user = strdup(user);
		if (cluster->lent_user)
			cluster->lent = credentials_hold(credentials);
		tell_listener(cluster->broker);
	}
}

static bool has_login(const struct cluster *cluster)
{
	return *cluster_user(cluster) || cluster->lent_user;
}

bool cluster_has_login(const struct cluster *cluster)
{
	LOCKED(&cluster->broker->lock);
	return has_login(cluster);
}

void cluster_login(const struct cluster *cluster, char **user,
                   const struct credentials **credentials)
{
	LOCKED(&cluster->broker->lock);
	char *lent_user = cluster->lent_user ? strdup(cluster->lent_user) : NULL;

	if (!lent_user)
		return;
	free(*user);
	*user = lent_user;
	credentials_release(credentials);
	*credentials = credentials_hold(cluster->lent);
}

void cluster_refuse_login(struct cluster *cluster)
{
	LOCKED(&cluster->broker->lock);
	drop_login(cluster);
}

const char *cluster_watch_lack(const struct cluster *cluster)
{
	LOCKED(&cluster->broker->lock);
	if (!cluster->roles_count)
		return "no: no pool needs its role";
	if (!has_login(cluster))
		return "no: there is no host_check_user, and no login that has worked";
	return "no: it has not begun, or was refused: see last_error";
}

/* ---- needs of pools ---- */

/* Only the first need and the end of the last one make a difference. */
static void set_needs(struct tally *tally, bool roles)
{
	struct cluster *cluster = tally->cluster;
	bool had_roles = cluster->roles_count > 0;

	assert_locked(&cluster->broker->lock);
	cluster->roles_count += (unsigned int)roles - tally->needs_roles;
	tally->needs_roles = roles;
	if (had_roles != (cluster->roles_count > 0))
		tell_listener(cluster->broker);
}

void cluster_part(struct tally *tally)
{
	struct cluster *cluster = tally->cluster;

	if (!cluster)
		return;
	set_needs(tally, false);
	TAILQ_REMOVE(&cluster->tallies, tally, cluster_node);
	tally->cluster = NULL;
	drop_reference(cluster);
}

void clusters_join(struct share *pool, struct cluster *cluster, bool needs_roles)
{
	struct tally *tally = pool->tally;

	LOCKED(&cluster->broker->lock);
	if (tally->cluster == cluster) {
		/* perhaps as another loop has made the same pool just now */
		drop_reference(cluster);
	} else {
		cluster_part(tally);
		tally->cluster = cluster;
		TAILQ_INSERT_TAIL(&cluster->tallies, tally, cluster_node);
	}
	set_needs(tally, needs_roles);
}

struct cluster *clusters_next_needed(struct broker *broker, struct cluster *after)
{
	LOCKED(&broker->lock);
	struct cluster *next = after ? after->hh.next : broker->clusters;

	while (next && !next->roles_count)
		next = next->hh.next;
	if (next)
		next->ref_count++;
	if (after)
		drop_reference(after);
	return next;
}

/* Behind the kind. */
static const char *database_of(const struct tally *tally) { return tally->name.at + 1; }

bool cluster_database(const struct cluster *cluster,
                      bool (*accepts)(void *arg, const char *database), void *arg,
                      struct buf *database)
{
	LOCKED(&cluster->broker->lock);
	const struct tally *tally, *found = NULL;
	bool has_servers = false;

	TAILQ_FOREACH (tally, &cluster->tallies, cluster_node) {
		if (!tally->needs_roles || !accepts(arg, database_of(tally)))
			continue;
		has_servers = atomic_load(&tally->server_count) > 0;
		if (!found || has_servers)
			found = tally;
		if (has_servers)
			break;
	}
	if (found)
		buf_add_cstr(database, database_of(found));
	return found && buf_ok(database);
}

struct roster *cluster_roster(struct cluster *cluster) { return &cluster->roster; }

void clusters_copies(struct broker *broker, const char *host, usec_t since, roster_copied *found,
                     void *arg)
{
	struct cluster *cluster;

	LOCKED(&broker->lock);
	for (cluster = broker->clusters; cluster; cluster = cluster->hh.next)
		roster_copies(&cluster->roster, host, since, found, arg);
}

/* ---- changes ---- */

void cluster_changed(struct cluster *cluster, const struct roster_changes *changes, struct log *log)
{
	const struct logger logger = { log, NULL };

	for (unsigned int i = 0; i < changes->count; i++)
		log_kept(&logger, changes->lines[i].level, "host role", "%s",
		         changes->lines[i].text);
	if (changes->has_news) {
		LOCKED(&cluster->broker->lock);
		wake_all(cluster);
	}
}
