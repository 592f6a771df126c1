/* SPDX-License-Identifier: ISC */
/* Clusters: see pgweir/pool/clusters.h. */
#include "pgweir/pool/clusters.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "pgweir/base/container_of.h"

#include "broker_priv.h"

/* The caller has the lock. */
static void wake_all(struct cluster *cluster)
{
	struct tally *tally;

	TAILQ_FOREACH (tally, &cluster->tallies, cluster_node)
		broker_post_all(tally);
}

/* ---- clusters ---- */

static void name_cluster(struct buf *name, const struct cluster_key *key)
{
	buf_add_cstr(name, key->hosts);
	buf_printf(name, "%d", key->port);
	buf_add_byte(name, 0);
	buf_add_cstr(name, key->user);
}

/* The last part of the name. */
static const char *cluster_user(const struct cluster *cluster)
{
	const char *port = cluster->name.at + strlen(cluster->roster.text) + 1;

	return port + strlen(port) + 1;
}

static struct cluster *find_cluster(const struct broker *broker, struct bytes name)
{
	struct cluster *cluster;

	assert_locked(&broker->lock);
	TABLE_FIND(hh, &broker->secret, broker->clusters, name.at, name.count, cluster);
	return cluster;
}

static void drop_login(struct cluster *cluster)
{
	free(cluster->lent_user);
	cluster->lent_user = NULL;
	credentials_done(&cluster->lent);
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
	cluster->port = key->port;
	TAILQ_INIT(&cluster->tallies);
	TABLE_ADD(hh, &broker->secret, broker->clusters, cluster->name.at, cluster->name.count,
	          cluster);
	return cluster;
}

struct cluster *clusters_find(struct broker *broker, const struct cluster_key *key)
{
	LOCKED(&broker->lock);
	struct cluster *cluster = NULL;
	struct buf name = { 0 };

	name_cluster(&name, key);
	if (buf_ok(&name))
		cluster = find_cluster(broker, buf_bytes(&name));
	buf_free(&name);
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

static struct closed_host *add_closed(struct broker *broker, const char *host)
{
	struct closed_host *closed = NULL;

	if (broker->closed_count < CLOSED_HOSTS_MAX)
		closed = calloc(1, sizeof(*closed) + strlen(host) + 1);
	if (!closed)
		return NULL;
	memcpy(closed->name, host, strlen(host));
	closed->next = broker->closed_hosts;
	broker->closed_hosts = closed;
	broker->closed_count++;
	return closed;
}

/* Hosts that no entry has any more stay in the list, as they may come back. */
static bool note_closed(struct broker *broker, const char *host, enum host_admin admin)
{
	struct closed_host **at = find_closed(broker, bytes_text(host)), *closed = *at;

	assert_locked(&broker->lock);
	if (admin == HOST_ENABLED) {
		if (!closed)
			return true;
		*at = closed->next;
		broker->closed_count--;
		free(closed);
		return true;
	}
	if (!closed)
		closed = add_closed(broker, host);
	if (closed) {
		closed->admin = admin;
		closed->is_planned = false;
	}
	return closed != NULL;
}

static unsigned int apply_closed(struct broker *broker, struct cluster *cluster, const char *only,
                                 usec_t now)
{
	const char *list = cluster->roster.text;
	unsigned int found = 0;
	struct bytes host;

	assert_locked(&broker->lock);
	for (unsigned int i = 0; config_host_next(&list, &host); i++) {
		const struct closed_host *closed = *find_closed(broker, host);

		if (only && !bytes_are(host, only))
			continue;
		found = 1;
		roster_set_admin(&cluster->roster, i, closed ? closed->admin : HOST_ENABLED, now);
	}
	return found;
}

struct cluster *clusters_hold(struct broker *broker, const struct cluster_key *key, usec_t now)
{
	LOCKED(&broker->lock);
	struct cluster *cluster = NULL;
	struct buf name = { 0 };

	name_cluster(&name, key);
	if (buf_ok(&name)) {
		cluster = find_cluster(broker, buf_bytes(&name));
		if (!cluster && (cluster = make_cluster(broker, key, &name, now)))
			apply_closed(broker, cluster, NULL, now);
	}
	if (cluster)
		cluster->ref_count++;
	buf_free(&name);
	return cluster;
}

static void set_admin(struct broker *broker, struct cluster *cluster, const char *host,
                      enum host_admin admin, usec_t now)
{
	assert_locked(&broker->lock);
	if (!apply_closed(broker, cluster, host, now))
		return;
	if (admin == HOST_ENABLED)
		roster_trust_again(&cluster->roster, now);
	wake_all(cluster);
}

static bool set_admin_all(struct broker *broker, const char *host, enum host_admin admin,
                          usec_t now)
{
	bool is_noted = note_closed(broker, host, admin);
	struct cluster *cluster;

	assert_locked(&broker->lock);
	for (cluster = broker->clusters; is_noted && cluster; cluster = cluster->hh.next)
		set_admin(broker, cluster, host, admin, now);
	return is_noted;
}

bool clusters_set_admin(struct broker *broker, const char *host, enum host_admin admin, usec_t now)
{
	LOCKED(&broker->lock);
	return set_admin_all(broker, host, admin, now);
}

bool clusters_plan_begin(struct broker *broker, const char *host, usec_t now)
{
	LOCKED(&broker->lock);
	struct bytes name = bytes_text(host);
	bool is_begun =
	    !*find_closed(broker, name) && set_admin_all(broker, host, HOST_DRAINING, now);

	if (is_begun)
		(*find_closed(broker, name))->is_planned = true;
	return is_begun;
}

bool clusters_plan_end(struct broker *broker, const char *host, usec_t now)
{
	LOCKED(&broker->lock);
	const struct closed_host *closed = *find_closed(broker, bytes_text(host));

	return closed && closed->is_planned && set_admin_all(broker, host, HOST_ENABLED, now);
}

enum host_admin clusters_admin(struct broker *broker, const char *host)
{
	LOCKED(&broker->lock);
	const struct closed_host *closed = *find_closed(broker, bytes_text(host));

	return closed ? closed->admin : HOST_ENABLED;
}

void clusters_done(struct broker *broker)
{
	struct closed_host *closed;

	assert(!broker->clusters);
	while ((closed = broker->closed_hosts)) {
		broker->closed_hosts = closed->next;
		free(closed);
	}
}

static void drop_reference(struct broker *broker, struct cluster **cluster)
{
	struct cluster *old = *cluster;

	assert_locked(&broker->lock);
	*cluster = NULL;
	if (!old || --old->ref_count > 0)
		return;
	HASH_DEL(broker->clusters, old);
	free_cluster(old);
}

void clusters_release(struct broker *broker, struct cluster **cluster)
{
	LOCKED(&broker->lock);
	drop_reference(broker, cluster);
}

/* ---- what pools need ---- */

static void tell_listener(const struct broker *broker)
{
	struct clusters_listener *listener = broker->listener;

	assert_locked(&broker->lock);
	if (!listener || listener->is_posted)
		return;
	listener->is_posted = true;
	if (broker->loop_count < 2)
		loop_defer(listener->loop, &listener->task); /* it may have no mailbox */
	else
		loop_post(listener->loop, &listener->letter);
}

static void on_needs_task(struct task *task)
{
	struct clusters_listener *listener = container_of(task, struct clusters_listener, task);

	pthread_mutex_lock(&listener->broker->lock);
	listener->is_posted = false;
	pthread_mutex_unlock(&listener->broker->lock);
	listener->on_changed(listener);
}

static void on_needs_letter(struct letter *letter)
{
	struct clusters_listener *listener = container_of(letter, struct clusters_listener, letter);

	if (!letter->is_late)
		loop_defer(listener->loop, &listener->task);
}

void clusters_listen(struct broker *broker, struct clusters_listener *listener)
{
	listener->broker = broker;
	listener->task.run = on_needs_task;
	listener->letter.open = on_needs_letter;
	LOCKED(&broker->lock);
	broker->listener = listener;
}

void clusters_listen_end(struct clusters_listener *listener)
{
	LOCKED(&listener->broker->lock);
	listener->broker->listener = NULL;
	loop_undefer(listener->loop, &listener->task);
	loop_take_back(listener->loop, &listener->letter);
}

/* ---- logins for watches ---- */

static void keep_login(struct cluster *cluster, const char *user,
                       const struct credentials *credentials)
{
	cluster->lent_user = strdup(user);
	if (cluster->lent_user && !credentials_copy(&cluster->lent, credentials))
		drop_login(cluster);
}

void cluster_lend_login(struct broker *broker, struct cluster *cluster, const char *user,
                        const struct credentials *credentials)
{
	if (*cluster_user(cluster))
		return;
	LOCKED(&broker->lock);
	if (!cluster->lent_user) {
		keep_login(cluster, user, credentials);
		tell_listener(broker);
	}
}

bool cluster_has_login(struct broker *broker, const struct cluster *cluster)
{
	LOCKED(&broker->lock);
	return cluster->lent_user != NULL;
}

bool cluster_login(struct broker *broker, const struct cluster *cluster, char **user,
                   struct credentials *credentials)
{
	LOCKED(&broker->lock);
	*user = cluster->lent_user ? strdup(cluster->lent_user) : NULL;
	if (*user && !credentials_copy(credentials, &cluster->lent)) {
		free(*user);
		*user = NULL;
	}
	return *user != NULL;
}

void cluster_refuse_login(struct broker *broker, struct cluster *cluster)
{
	LOCKED(&broker->lock);
	drop_login(cluster);
}

const char *cluster_watch_lack(struct broker *broker, const struct cluster *cluster)
{
	LOCKED(&broker->lock);
	if (!cluster->roles_count)
		return "no: no pool needs its role";
	if (!*cluster_user(cluster) && !cluster->lent_user)
		return "no: there is no host_check_user, and no login that has worked";
	return "no: it has not begun, or was refused: see last_error";
}

/* ---- needs of pools ---- */

/* Only the first need and the end of the last one make a difference. */
static void count_needs(const struct broker *broker, const struct tally *tally, bool is_more)
{
	struct cluster *cluster = tally->cluster;
	bool had_roles = cluster->roles_count > 0, had_primary = cluster->primary_count > 0;

	assert_locked(&broker->lock);
	if (tally->needs_roles)
		cluster->roles_count += is_more ? 1U : -1U;
	if (tally->needs_primary)
		cluster->primary_count += is_more ? 1U : -1U;
	if (had_roles != (cluster->roles_count > 0) || had_primary != (cluster->primary_count > 0))
		tell_listener(broker);
}

void cluster_join(struct broker *broker, struct tally *tally, struct cluster *cluster)
{
	assert_locked(&broker->lock);
	tally->cluster = cluster;
	TAILQ_INSERT_TAIL(&cluster->tallies, tally, cluster_node);
	count_needs(broker, tally, true);
}

void cluster_part(struct broker *broker, struct tally *tally)
{
	struct cluster *cluster = tally->cluster;

	assert_locked(&broker->lock);
	if (!cluster)
		return;
	count_needs(broker, tally, false);
	TAILQ_REMOVE(&cluster->tallies, tally, cluster_node);
	tally->cluster = NULL;
	drop_reference(broker, &cluster);
}

void clusters_set_needs(struct share *pool, bool roles, bool primary)
{
	struct broker *broker = pool->member->broker;
	struct tally *tally = pool->tally;

	LOCKED(&broker->lock);
	if (tally->cluster) {
		count_needs(broker, tally, false);
		tally->needs_roles = roles;
		tally->needs_primary = primary;
		count_needs(broker, tally, true);
	}
}

/* The caller has the lock. */
static bool add_need(struct clusters_needs *needs, struct cluster *cluster)
{
	struct cluster_need *list;

	if (!cluster->roles_count)
		return true;
	list = realloc(needs->list, (needs->count + 1) * sizeof(*list));
	if (!list)
		return false;
	needs->list = list;
	cluster->ref_count++;
	list[needs->count++] = (struct cluster_need){
		.cluster = cluster,
		.key = { cluster->roster.text, cluster->port, cluster_user(cluster) },
		.primary = cluster->primary_count > 0,
	};
	return true;
}

bool clusters_needed(struct broker *broker, struct clusters_needs *needs)
{
	LOCKED(&broker->lock);
	struct cluster *cluster = broker->clusters;

	while (cluster && add_need(needs, cluster))
		cluster = cluster->hh.next;
	return !cluster;
}

void clusters_needs_free(struct broker *broker, struct clusters_needs *needs)
{
	while (needs->count)
		clusters_release(broker, &needs->list[--needs->count].cluster);
	free(needs->list);
	needs->list = NULL;
}

/* Behind the kind. */
static const char *database_of(const struct tally *tally) { return tally->name.at + 1; }

/* NULL: there is none. The caller has the lock. */
static const struct tally *find_need(const struct cluster *cluster,
                                     bool (*accepts)(void *arg, const char *database), void *arg)
{
	const struct tally *tally, *found = NULL;

	TAILQ_FOREACH (tally, &cluster->tallies, cluster_node) {
		bool has_servers = atomic_load(&tally->server_count) > 0;

		if (!tally->needs_roles || (found && !has_servers) ||
		    !accepts(arg, database_of(tally)))
			continue;
		found = tally;
		if (has_servers)
			break;
	}
	return found;
}

bool cluster_database(struct broker *broker, const struct cluster *cluster,
                      bool (*accepts)(void *arg, const char *database), void *arg,
                      struct buf *database)
{
	LOCKED(&broker->lock);
	const struct tally *found = find_need(cluster, accepts, arg);

	if (found)
		buf_add_cstr(database, database_of(found));
	return found && buf_ok(database);
}

struct roster *cluster_roster(struct cluster *cluster) { return &cluster->roster; }

bool cluster_has_key(const struct cluster *cluster, const struct cluster_key *key)
{
	struct buf name = { 0 };
	bool is_same;

	name_cluster(&name, key);
	is_same = buf_ok(&name) && bytes_equal(buf_bytes(&cluster->name), buf_bytes(&name));
	buf_free(&name);
	return is_same;
}

/* ---- copies of a primary ---- */

struct copies_search {
	const char *host;
	usec_t since;
	clusters_copy *found;
	void *arg;
};

/* The standbys of the primary at the host of this number. */
static void find_copies(struct cluster *cluster, unsigned int host,
                        const struct copies_search *search)
{
	struct roster_row row;
	enum roster_copy copy;
	uint64_t missing = 0;

	for (unsigned int i = 0;
	     roster_copy_at(&cluster->roster, i, host, search->since, &row, &copy, &missing); i++) {
		char text[ROSTER_WHERE_SIZE];

		if (copy != ROSTER_COPY_NONE)
			search->found(search->arg, roster_where(&cluster->roster, &row, text), copy,
			              missing);
	}
}

static void search_cluster(struct cluster *cluster, const struct copies_search *search)
{
	const char *list = cluster->roster.text;
	struct bytes host;

	for (unsigned int i = 0; config_host_next(&list, &host); i++) {
		if (bytes_are(host, search->host))
			find_copies(cluster, i, search);
	}
}

void clusters_copies(struct broker *broker, const char *host, usec_t since, clusters_copy *found,
                     void *arg)
{
	const struct copies_search search = { host, since, found, arg };
	struct cluster *cluster;

	LOCKED(&broker->lock);
	for (cluster = broker->clusters; cluster; cluster = cluster->hh.next)
		search_cluster(cluster, &search);
}

/* ---- changes ---- */

void clusters_changed(struct broker *broker, struct cluster *cluster,
                      const struct roster_changes *changes, struct log *log)
{
	const struct logger logger = { log, NULL };

	for (unsigned int i = 0; i < changes->count; i++)
		log_kept(&logger, changes->lines[i].level, "host role", "%s",
		         changes->lines[i].text);
	if (changes->has_news) {
		LOCKED(&broker->lock);
		wake_all(cluster);
	}
}
