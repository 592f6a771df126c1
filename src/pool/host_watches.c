/* SPDX-License-Identifier: ISC */
/*
 * Host watches: which clusters are watched, and the watches of their hosts. A host watch is one
 * connection to one address of a host, which asks for the role of the host and notes it in the
 * roster of the cluster.
 *
 *   entries of the configuration --+
 *   what pools need ---------------+--> clusters that are wanted --> their hosts are watched
 *
 *   a host: its name is looked up again and again --> a watch for each address
 *
 *   connecting --> asking --> waiting --> asking ...
 *        ^           |           |
 *        +-----------+-----------+   closed: again, after 50 ms, later 500 ms
 *
 * Which clusters are wanted is looked at again whenever an entry or a need changes, or a database
 * is paused. The watches belong to the pools of the main thread, whatever loops use the cluster.
 * They count for no pool.
 *
 * Hard here: a host that cannot be reached and a login that is refused are two things. The first
 * means that the host is lost for all. The second means only that nobody watches it.
 */
#include <stdlib.h>
#include <string.h>

#include "pgweir/base/container_of.h"
#include "pgweir/pool/pools.h"

#include "broker_priv.h"
#include "pool_priv.h"
#include "server/server_priv.h"

#define GAP_MIN (50 * USEC_PER_MS) /* between two attempts to connect */
#define GAP_MAX (500 * USEC_PER_MS)

/* One host of a cluster: its name is looked up again and again. */
struct watched_host {
	struct watched_cluster *cluster;
	struct resolver_ask ask;
	struct timer timer;
	unsigned int number;
	char *name; /* without its port */
	uint16_t port;
};

/* One address. */
struct host_watch {
	TAILQ_ENTRY(host_watch) node;
	struct watched_cluster *cluster;
	struct roster_at at;
	struct address address; /* AF_UNSPEC: a Unix socket */
	struct hosts hosts;     /* only this one */
	struct server_site site;
	struct server server; /* valid while is_open */
	bool is_open;         /* from server_init() until on_free() */
	char *database;       /* while is_open: as clients know it */
	bool is_short;        /* the host does not answer the whole role question */
	bool is_refused;      /* its login is refused */
	usec_t asked_at;
	usec_t gap; /* before the next attempt to connect */
	struct timer timer;
};

struct watched_cluster {
	TAILQ_ENTRY(watched_cluster) node;
	struct host_watches *watches;
	struct cluster *cluster; /* one reference */
	/* what the startup packet is made of; its texts are of the snapshot in force */
	struct config_database entry;
	char *user;
	const struct credentials *credentials;
	bool borrows_login; /* user and credentials are those of a pool */
	bool is_wanted;     /* by the configuration that is being applied */
	TAILQ_HEAD(, host_watch) list;
	unsigned int host_count;
	struct watched_host hosts[];
};

struct host_watches {
	struct pools *pools;
	struct share listener;
	TAILQ_HEAD(, watched_cluster) list;
	struct server_limits limits;
	uint64_t bytes; /* counted by servers; nobody reads them */
};

#define FAST (75 * USEC_PER_MS) /* between two questions, for some time without a primary */
#define FAST_TIME (60 * USEC_PER_SEC)
#define LOOKUP_PERIOD (5 * USEC_PER_SEC)
#define ADDRESSES_MAX 16 /* watched ones of one name */

static struct pools *pools_of(const struct host_watch *watch)
{
	return watch->cluster->watches->pools;
}

static struct loop *watch_loop(const struct host_watch *watch)
{
	return pools_of(watch)->shared.loop;
}

static usec_t watch_now(const struct host_watch *watch) { return loop_now(watch_loop(watch)); }

static struct host_watch *watch_of(const struct server *server)
{
	return container_of(server, struct host_watch, server);
}

static struct roster *roster_of(const struct host_watch *watch)
{
	return cluster_roster(watch->cluster->cluster);
}

static void tell_changes(const struct host_watch *watch, const struct roster_changes *changes)
{
	cluster_changed(watch->cluster->cluster, changes, pools_of(watch)->shared.log);
}

/* ---- what it connects to ---- */

/* Whether PAUSE is about a database: then nothing of it may keep PostgreSQL from being replaced. */
static bool is_held(const struct pools *pools, const char *database)
{
	const struct database *found = pools_find_any_database(pools, database);

	return pools->is_paused || (found && found->is_paused);
}

/* For cluster_database(). */
static bool accepts(void *arg, const char *database) { return !is_held(arg, database); }

/* Of entry `*`, the database of one of its pools. NULL: no memory. */
static char *find_database(const struct host_watch *watch)
{
	const char *entry = watch->cluster->entry.name;
	struct buf database = { 0 };

	if (strcmp(entry, "*") == 0 &&
	    cluster_database(watch->cluster->cluster, accepts, pools_of(watch), &database))
		return database.at;
	buf_free(&database);
	return strdup(entry);
}

/* ---- timers ---- */

static void launch_later(struct host_watch *watch);

static void launch(struct host_watch *watch)
{
	if (watch->is_open)
		return;
	watch->site.database = watch->database = find_database(watch);
	if (!watch->database) {
		launch_later(watch);
		return;
	}
	watch->is_open = true;
	watch->server = (struct server){ 0 };
	server_init(&watch->server, &watch->site, NULL, pools_next_id(pools_of(watch)));
	server_launch(&watch->server);
}

static void on_launch_due(struct timer *timer)
{
	struct host_watch *watch = container_of(timer, struct host_watch, timer);
	const struct watched_cluster *watched = watch->cluster;

	if (watch->is_refused && watched->borrows_login)
		cluster_refuse_login(watched->cluster);
	launch(watch);
}

static void launch_later(struct host_watch *watch)
{
	usec_t gap = watch->gap > GAP_MIN ? watch->gap : GAP_MIN;
	usec_t retry = pools_of(watch)->config->server_login_retry;

	watch->gap = gap * 2 < GAP_MAX ? gap * 2 : GAP_MAX;
	if (watch->is_refused && retry > gap)
		gap = retry;
	timer_begin(&watch->timer, watch_loop(watch), gap, on_launch_due);
}

/* ---- asking ---- */

static bool is_in_haste(const struct host_watch *watch)
{
	usec_t since = roster_without_since(roster_of(watch));

	return since && watch_now(watch) - since < FAST_TIME;
}

static void ask_role(struct host_watch *watch)
{
	watch->asked_at = clock_now();
	server_enter(&watch->server, SERVER_CHECKING);
	server_ask_role(&watch->server, watch->is_short);
}

static void on_ask_due(struct timer *timer)
{
	struct host_watch *watch = container_of(timer, struct host_watch, timer);

	if (watch->is_open && watch->server.state == SERVER_IDLE)
		ask_role(watch);
}

static void ask_later(struct host_watch *watch)
{
	usec_t interval = pools_of(watch)->config->host_check_interval;

	timer_begin(&watch->timer, watch_loop(watch),
	            is_in_haste(watch) && interval > FAST ? FAST : interval, on_ask_due);
}

/* A primary was lost: the other hosts are asked at the fast pace from now on. */
static void hurry(const struct watched_cluster *cluster)
{
	TAILQ_EACH (watch, &cluster->list, node) {
		if (watch->is_open && watch->server.state == SERVER_IDLE)
			ask_later(watch);
	}
}

static void on_watch_report(struct server *server, const struct host_report *report)
{
	struct host_watch *watch = watch_of(server);
	struct roster_changes changes = { 0 };
	struct host_report measured = *report;

	measured.latency = clock_now() - watch->asked_at;
	roster_watch(roster_of(watch), &watch->at);
	roster_note(roster_of(watch), &watch->at, &measured, watch_now(watch), &changes);
	tell_changes(watch, &changes);
}

static void on_watch_home(struct server *server)
{
	struct host_watch *watch = watch_of(server);

	server_enter(server, SERVER_IDLE);
	if (server->orders.has_failed && !watch->is_short) {
		watch->is_short = true;
		ask_role(watch);
		return;
	}
	ask_later(watch);
}

/* ---- connecting ---- */

/* Whether other hosts may fit now. */
static bool fail(struct host_watch *watch, enum roster_failure how, const char *error)
{
	struct roster_changes changes = { 0 };

	roster_fail(roster_of(watch), &watch->at, how, error, watch_now(watch), &changes);
	tell_changes(watch, &changes);
	return changes.has_news;
}

static void lose(struct host_watch *watch, const char *error)
{
	if (fail(watch, ROSTER_LOST, error) && is_in_haste(watch))
		hurry(watch->cluster);
}

static void note_answer(struct host_watch *watch)
{
	if (server_host_done(&watch->server, HOST_ANSWERED, NULL))
		pools_wake(pools_of(watch));
}

/* The host answers, but not to this user. */
static void be_refused(struct host_watch *watch, const char *error)
{
	const struct logger log = { pools_of(watch)->shared.log, NULL };

	if (!watch->is_refused) /* once, however often it is refused then */
		log_warning(&log, "host %s is not watched: %s", watch->hosts.list[0].name, error);
	watch->is_refused = true;
	fail(watch, ROSTER_REFUSED, error);
}

static void on_watch_login_failed(struct server *server, const struct err *err)
{
	struct host_watch *watch = watch_of(server);

	if (err->code == ERR_ADMIN_SHUTDOWN)
		return;
	if (pool_is_worth_waiting(err)) {
		watch->is_refused = false;
		server_host_done(server, HOST_UNREACHABLE, err);
		lose(watch, err->text);
		return;
	}
	note_answer(watch);
	be_refused(watch, err->text);
}

static void on_watch_login_done(struct server *server)
{
	struct host_watch *watch = watch_of(server);

	watch->gap = 0;
	watch->is_refused = false;
	note_answer(watch);
	server_login_free(server);
	server_enter(server, SERVER_IDLE);
	ask_role(watch);
}

/* A host that did not answer in time is lost; one that has closed the connection is tried first. */
static void on_watch_state(struct server *server, enum server_state from)
{
	struct host_watch *watch = watch_of(server);

	if (server->state == SERVER_CLOSING && from == SERVER_CHECKING &&
	    clock_now() - watch->asked_at >= pools_of(watch)->config->host_check_timeout)
		lose(watch, "no answer within host_check_timeout");
}

static void on_watch_free(struct server *server)
{
	struct host_watch *watch = watch_of(server);

	watch->is_open = false;
	free(watch->database);
	watch->database = NULL;
	launch_later(watch);
}

static const struct credentials *watch_credentials(const struct server *server)
{
	return watch_of(server)->cluster->credentials;
}

static void watch_tell_secret(const struct server *server, struct buf *out)
{
	if (!watch_credentials(server))
		buf_add_text(out, ", without a secret: auth_file has none for this user");
	else
		buf_add_text(out, ", with the secret in auth_file or in the entry");
}

static bool watch_may_connect(struct server *server)
{
	pools_note_host(pools_of(watch_of(server)), server);
	return true;
}

static void on_watch_released(struct server *server)
{
	pools_give_permit(pools_of(watch_of(server)), server);
}

/* It has no borrower, and connects to an address: the others do not come. */
static const struct server_ops watch_ops = {
	.on_state = on_watch_state,
	.on_released = on_watch_released,
	.on_report = on_watch_report,
	.on_login_done = on_watch_login_done,
	.on_login_failed = on_watch_login_failed,
	.on_home = on_watch_home,
	.may_connect = watch_may_connect,
	.credentials = watch_credentials,
	.tell_secret = watch_tell_secret,
	.on_free = on_watch_free,
};

/* ---- watches ---- */

static void set_site(struct host_watch *watch)
{
	struct watched_cluster *cluster = watch->cluster;
	struct host_watches *watches = cluster->watches;

	watch->site = (struct server_site){
		.shared = &watches->pools->shared,
		.ops = &watch_ops,
		.database = watch->database,
		.user = cluster->user,
		.entry = &cluster->entry,
		.limits = watches->limits,
		.hosts = &watch->hosts,
		.roster = roster_of(watch),
		.target = TARGET_ANY,
		.tls_host = cluster->hosts[watch->at.host].name,
		.is_watch = true,
		.client_bytes = &watches->bytes,
		.server_bytes = &watches->bytes,
		.all_client_bytes = &watches->bytes,
		.all_server_bytes = &watches->bytes,
	};
}

static void free_watch(struct host_watch *watch)
{
	timer_clear(&watch->timer);
	hosts_done(&watch->hosts);
	free(watch->database);
	free(watch);
}

/* address NULL: a Unix socket. */
static void add_watch(struct watched_host *host, const struct address *address)
{
	struct watched_cluster *cluster = host->cluster;
	struct host_watch *watch = calloc(1, sizeof(*watch));
	char text[ADDRESS_TEXT_SIZE];
	const char *where = host->name;

	if (!watch)
		return; /* the next lookup tries it again */
	watch->cluster = cluster;
	watch->at.host = host->number;
	if (address) {
		watch->address = *address;
		watch->at.address = &watch->address;
		where = address_format_host(&watch->address, text, sizeof(text));
	}
	watch->hosts.reach = &cluster->watches->pools->with.broker->reach;
	if (!hosts_configure(&watch->hosts, where, host->port, LOAD_BALANCE_DISABLE)) {
		free_watch(watch);
		return;
	}
	set_site(watch);
	TAILQ_INSERT_TAIL(&cluster->list, watch, node);
	launch(watch);
}

/* Not within a callback of its server. Its row in the roster is left to the caller. */
static void end_watch(struct host_watch *watch)
{
	struct server *server = &watch->server;

	TAILQ_REMOVE(&watch->cluster->list, watch, node);
	if (watch->is_open && server->state != SERVER_CLOSING)
		server_close_as(server, ERR_ADMIN_SHUTDOWN, CLOSE_ENTRY_CHANGED);
	if (watch->is_open)
		loop_undefer(watch_loop(watch), &server->free_task);
	free_watch(watch);
}

/* ---- names ---- */

static bool has_watch(const struct watched_host *host, const struct address *address)
{
	TAILQ_EACH (watch, &host->cluster->list, node) {
		if (watch->at.host == host->number &&
		    (!address || address_equal_host(&watch->address, address)))
			return true;
	}
	return false;
}

static void follow_addresses(struct watched_host *host, const struct address *list,
                             unsigned int count)
{
	struct host_watch *watch, *next;

	TAILQ_FOREACH_SAFE (watch, &host->cluster->list, node, next) {
		if (watch->at.host == host->number &&
		    !address_is_among(&watch->address, list, count))
			end_watch(watch);
	}
	roster_keep(cluster_roster(host->cluster->cluster), host->number, list, count);
	for (unsigned int i = 0; i < count; i++) {
		if (!has_watch(host, &list[i]))
			add_watch(host, &list[i]);
	}
}

static void on_lookup_due(struct timer *timer);

static void look_up_later(struct watched_host *host, usec_t period)
{
	struct loop *loop = host->cluster->watches->pools->shared.loop;

	timer_begin(&host->timer, loop, period, on_lookup_due);
}

static void on_host_addresses(struct resolver_ask *ask, const struct address *address,
                              const struct err *err)
{
	struct watched_host *host = container_of(ask, struct watched_host, ask);
	struct roster_at at = { .host = host->number };
	struct address list[ADDRESSES_MAX];
	unsigned int count = 0;

	look_up_later(host, LOOKUP_PERIOD);
	if (!address) {
		roster_fail(cluster_roster(host->cluster->cluster), &at, ROSTER_FAILED, err->text,
		            loop_now(host->cluster->watches->pools->shared.loop), NULL);
		return;
	}
	/* The list of the ask is valid only until the resolver is called again. */
	for (; count < ask->address_count && count < ADDRESSES_MAX; count++)
		list[count] = ask->addresses[count];
	follow_addresses(host, list, count);
}

static void on_lookup_due(struct timer *timer)
{
	struct watched_host *host = container_of(timer, struct watched_host, timer);
	struct err err;

	if (!*host->name)
		return;
	if (*host->name == '/' || *host->name == '@') {
		if (!has_watch(host, NULL))
			add_watch(host, NULL);
		look_up_later(host, LOOKUP_PERIOD); /* if there was no memory */
	} else if (!resolver_start(host->cluster->watches->pools->shared.resolver, &host->ask,
	                           host->name, 0, on_host_addresses, &err)) {
		look_up_later(host, LOOKUP_PERIOD);
	}
}

/* ---- another configuration ---- */

/* What the next connection is made with may have changed. */
static void update_watch(struct host_watch *watch)
{
	bool is_live = watch->is_open && watch->server.state != SERVER_CLOSING;

	set_site(watch); /* the user of before is no more */
	/* A paused database may be renamed or dropped: the watch goes to that of another one. */
	if (is_live && is_held(pools_of(watch), watch->database))
		server_close_as(&watch->server, ERR_ADMIN_SHUTDOWN, CLOSE_ENTRY_CHANGED);
	else if (is_live)
		server_rearm(&watch->server);
	if (watch->is_open && watch->server.state == SERVER_IDLE)
		ask_later(watch);
	/* the secret may be another one now */
	if (watch->is_refused && !watch->is_open)
		timer_begin(&watch->timer, watch_loop(watch), GAP_MIN, on_launch_due);
}

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
		cluster_login(watched->cluster, &watched->user, &watched->credentials);
	else
		set_credentials(watched, entry);
}

static void forget_cluster(struct watched_cluster *watched)
{
	for (struct host_watch *watch; (watch = TAILQ_FIRST(&watched->list));)
		end_watch(watch);
	for (struct watched_host *host = watched->hosts; watched->host_count--; host++) {
		resolver_cancel(&host->ask);
		timer_clear(&host->timer);
		free(host->name);
	}
	roster_unwatch(cluster_roster(watched->cluster));
	TAILQ_REMOVE(&watched->watches->list, watched, node);
	watched->cluster->watched = NULL;
	cluster_release(&watched->cluster);
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
	watched->cluster = cluster_ref(cluster);
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
		look_up_later(host, GAP_MIN);
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

	TAILQ_EACH (former, &watched->watches->list, node) {
		if (former != watched && !former->is_wanted &&
		    strcmp(former->entry.name, entry) == 0)
			cluster_remember(watched->cluster, former->cluster,
			                 loop_now(pools->shared.loop));
	}
}

/* The first entry of a cluster gives the database of its watches. tells: the start, or a reload. */
static void want(struct host_watches *watches, struct cluster *cluster,
                 const struct config_database *entry, bool tells)
{
	const struct logger log = { watches->pools->shared.log, NULL };
	struct watched_cluster *watched = cluster->watched;
	bool has_login = cluster_has_login(cluster);

	if (!has_login && tells)
		log_info(&log,
		         "database \"%s\": no host watch until a login to a host has worked, as "
		         "host_check_user is not set",
		         entry->name);
	if (!has_login || is_held(watches->pools, entry->name))
		return;
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

static void want_entry(struct host_watches *watches, const struct config_database *entry,
                       bool tells)
{
	struct pools *pools = watches->pools;
	struct cluster_key key = cluster_key_of(pools->config, entry);
	struct cluster *cluster;

	if (!config_needs_roles(pools->config, entry))
		return;
	cluster = clusters_hold(pools->with.broker, &key, loop_now(pools->shared.loop));
	if (cluster)
		want(watches, cluster, entry, tells);
	cluster_release(&cluster);
}

/* ---- what pools need: those of entry `*`, and of users with a value of their own ---- */

static void want_needs(struct host_watches *watches)
{
	struct pools *pools = watches->pools;
	struct cluster *cluster = NULL;

	while ((cluster = clusters_next_needed(pools->with.broker, cluster))) {
		const struct config_database *entry;
		struct buf database = { 0 };

		if (cluster_database(cluster, accepts, pools, &database) &&
		    (entry = config_database_of(pools->config, database.at)))
			want(watches, cluster, entry, false);
		buf_free(&database);
	}
}

static void update(struct host_watches *watches, bool tells)
{
	struct pools *pools = watches->pools;
	const struct config_database *entry = NULL;
	struct watched_cluster *watched, *next;

	TAILQ_FOREACH (watched, &watches->list, node)
		watched->is_wanted = false;
	while ((entry = config_entry_next(pools->config, ENTRY_DATABASE, entry)))
		want_entry(watches, entry, tells);
	want_needs(watches);
	TAILQ_FOREACH_SAFE (watched, &watches->list, node, next) {
		if (!watched->is_wanted) {
			forget_cluster(watched);
			continue;
		}
		TAILQ_EACH (watch, &watched->list, node)
			update_watch(watch);
	}
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
		.retry_gap = GAP_MAX,
	};
	update(watches, true);
}

void host_watches_free(struct host_watches **watchesp)
{
	struct host_watches *watches = *watchesp;

	*watchesp = NULL;
	if (!watches)
		return;
	clusters_listen_end(&watches->listener);
	for (struct watched_cluster *watched; (watched = TAILQ_FIRST(&watches->list));)
		forget_cluster(watched);
	free(watches);
}
