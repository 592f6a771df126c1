/* SPDX-License-Identifier: ISC */
/*
 * Host watches: see host_watch_priv.h.
 *
 *   cluster --> its hosts: each name is looked up --> a watch for each address
 *
 *   connecting --> asking --> waiting --> asking ...
 *        ^           |           |
 *        +-----------+-----------+   closed: again, after 50 ms, later 500 ms
 *
 * Hard here: a host that cannot be reached and a login that is refused are two things. The first
 * means that the host is lost for all. The second means only that nobody watches it.
 */
#include "host_watch_priv.h"

#include <stdlib.h>
#include <string.h>

#include "pgweir/base/container_of.h"

#include "broker_priv.h"
#include "pool_priv.h"
#include "server/server_priv.h"

#include "pgweir/base/banned.h"

#define GAP_MIN (50 * USEC_PER_MS)
#define GAP_MAX (500 * USEC_PER_MS)
#define FAST (75 * USEC_PER_MS) /* between two questions while there is no primary */
#define LOOKUP_PERIOD (5 * USEC_PER_SEC)
#define ADDRESSES_MAX 16 /* watched ones of one name */

struct watched_cluster;

/* One host of a cluster: its name is looked up again and again. */
struct watched_host {
	struct watched_cluster *cluster;
	struct resolver_ask ask;
	struct timer timer;
	unsigned int number;
	char *name;
};

/* One address. */
struct host_watch {
	TAILQ_ENTRY(host_watch) node;
	const struct watched_host *host;
	struct watched_cluster *cluster;
	struct roster_at at;
	struct address address; /* AF_UNSPEC: a Unix socket */
	struct hosts hosts;     /* only this one */
	struct server_site site;
	struct server server; /* valid while is_open */
	bool is_open;         /* from server_init() until on_free() */
	char *opened_for;     /* while is_open: the database as clients know it. NULL: no memory */
	bool is_short;        /* the host does not answer the whole role question */
	bool is_refused;      /* its login is refused */
	usec_t asked_at;
	usec_t gap; /* before the next attempt to connect */
	struct timer timer;
};

TAILQ_HEAD(host_watch_list, host_watch);

struct watched_cluster {
	TAILQ_ENTRY(watched_cluster) node;
	struct host_watches *watches;
	struct cluster *cluster; /* one reference */
	/* what the startup packet is made of; its texts are of the snapshot in force */
	struct config_database entry;
	const char *database; /* name of the entry, or own_database */
	char *own_database;   /* of a pool of entry `*`; else NULL */
	char *user;
	struct credentials credentials;
	bool wants_primary;
	struct buf limits; /* struct roster_limit: of its entries, each once */
	bool is_wanted;    /* by the configuration that is being applied */
	struct host_watch_list list;
	struct watched_host *hosts;
	unsigned int host_count;
};

struct host_watches {
	struct pools *pools;
	struct clusters_listener listener;
	TAILQ_HEAD(, watched_cluster) list;
	struct server_limits limits;
	uint64_t bytes; /* counted by servers; nobody reads them */
};

static struct pools *pools_of(const struct host_watch *watch)
{
	return watch->cluster->watches->pools;
}

static struct loop *watch_loop(const struct host_watch *watch)
{
	return pools_of(watch)->with.loop;
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
	const struct pools *pools = pools_of(watch);

	clusters_changed(pools->with.broker, watch->cluster->cluster, changes, pools->with.log);
}

/* ---- timers ---- */

static void set_watch_timer(struct host_watch *watch, usec_t period,
                            void (*on_due)(struct timer *timer))
{
	timer_set(&watch->timer, loop_timer_queue(watch_loop(watch), period, on_due),
	          watch_now(watch));
}

static void launch(struct host_watch *watch)
{
	if (watch->is_open)
		return;
	watch->is_open = true;
	watch->opened_for = strdup(watch->cluster->database);
	watch->server = (struct server){ 0 };
	server_init(&watch->server, &watch->site, NULL, pools_next_id(pools_of(watch)));
	server_launch(&watch->server);
}

static void change_database(struct watched_cluster *watched);

static void on_launch_due(struct timer *timer)
{
	struct host_watch *watch = container_of(timer, struct host_watch, timer);

	if (watch->is_refused && watch->cluster->own_database)
		change_database(watch->cluster);
	launch(watch);
}

static void launch_later(struct host_watch *watch)
{
	usec_t gap = watch->gap > GAP_MIN ? watch->gap : GAP_MIN;
	usec_t retry = pools_of(watch)->config->server_login_retry;

	watch->gap = gap * 2 < GAP_MAX ? gap * 2 : GAP_MAX;
	if (watch->is_refused && retry > gap)
		gap = retry;
	set_watch_timer(watch, gap, on_launch_due);
}

/* ---- asking ---- */

static bool lacks_primary(const struct host_watch *watch)
{
	struct roster_row primary;

	return watch->cluster->wants_primary &&
	       (!roster_primary(roster_of(watch), &primary) || primary.is_lost);
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

	set_watch_timer(watch, lacks_primary(watch) && interval > FAST ? FAST : interval,
	                on_ask_due);
}

/* A primary was lost: the other hosts are asked at the fast pace from now on. */
static void hurry(const struct watched_cluster *cluster)
{
	struct host_watch *watch;

	TAILQ_FOREACH (watch, &cluster->list, node) {
		if (watch->is_open && watch->server.state == SERVER_IDLE)
			ask_later(watch);
	}
}

/* server_ops: an answer. */
static void on_watch_report(struct server *server, const struct host_report *report)
{
	struct host_watch *watch = watch_of(server);
	struct roster_changes changes = { 0 };
	struct host_report measured = *report;

	measured.latency = clock_now() - watch->asked_at;
	roster_watch(roster_of(watch), &watch->at, true);
	roster_note(roster_of(watch), &watch->at, &measured, watch_now(watch), &changes);
	tell_changes(watch, &changes);
}

/* server_ops: the question is over. */
static void on_watch_home(struct server *server)
{
	struct host_watch *watch = watch_of(server);

	server_enter(server, SERVER_IDLE);
	if (server->errand_failed && !watch->is_short) {
		watch->is_short = true;
		ask_role(watch);
		return;
	}
	ask_later(watch);
}

/* ---- connecting ---- */

static void lose(struct host_watch *watch, const char *error)
{
	struct roster_changes changes = { 0 };

	roster_watch(roster_of(watch), &watch->at, true); /* it will notice when it is back */
	roster_lose(roster_of(watch), &watch->at, error, watch_now(watch), &changes);
	tell_changes(watch, &changes);
	if (changes.has_news && lacks_primary(watch))
		hurry(watch->cluster);
}

/* The host can be reached. */
static void note_answer(struct host_watch *watch)
{
	if (server_host_done(&watch->server, HOST_ANSWERED, NULL))
		pools_wake_failing(pools_of(watch));
}

/* Once, however often it is refused then. */
static void warn_refused(const struct host_watch *watch, const char *error)
{
	const struct logger log = { pools_of(watch)->with.log, NULL };
	char address[ADDRESS_TEXT_SIZE];

	if (watch->address.family == AF_UNSPEC)
		log_warning(&log, "host %s is not watched: %s", watch->host->name, error);
	else
		log_warning(&log, "host %s is not watched: %s",
		            address_format_host(&watch->address, address, sizeof(address)), error);
}

/* The host answers, but not to this user. */
static void be_refused(struct host_watch *watch, const char *error)
{
	struct roster_changes changes = { 0 };

	if (!watch->is_refused)
		warn_refused(watch, error);
	watch->is_refused = true;
	roster_watch(roster_of(watch), &watch->at, false);
	roster_answer(roster_of(watch), &watch->at, watch_now(watch), &changes);
	roster_note_error(roster_of(watch), &watch->at, error, watch_now(watch));
	tell_changes(watch, &changes);
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
	free(watch->opened_for);
	watch->opened_for = NULL;
	launch_later(watch);
}

static void on_watch_removed(struct server *server)
{
	server_close_for(server, CLOSE_ADDRESS_REMOVED);
}

static const struct credentials *watch_credentials(const struct server *server)
{
	return &watch_of(server)->cluster->credentials;
}

static void watch_tell_secret(const struct server *server, struct buf *out)
{
	if (watch_credentials(server)->kind == CREDENTIALS_NONE)
		buf_add_text(out, ", without a secret: auth_file has none for this user");
	else
		buf_add_text(out, ", with the secret in auth_file or in the entry");
}

static bool watch_may_probe(const struct server *server)
{
	(void)server;
	return true;
}

static void ignore_server(struct server *server) { (void)server; }

static void ignore_probe(struct server *server, int change)
{
	(void)server;
	(void)change;
}

static const struct server_ops watch_ops = {
	.on_state = on_watch_state,
	.on_released = ignore_server,
	.on_close_needed = ignore_server,
	.on_report = on_watch_report,
	.on_login_done = on_watch_login_done,
	.on_login_failed = on_watch_login_failed,
	.on_home = on_watch_home,
	.on_address_removed = on_watch_removed,
	.on_probe = ignore_probe,
	.may_probe = watch_may_probe,
	.credentials = watch_credentials,
	.tell_secret = watch_tell_secret,
	.on_library = ignore_server,
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
		.database = cluster->database,
		.user = cluster->user,
		.entry = &cluster->entry,
		.limits = watches->limits,
		.hosts = &watch->hosts,
		.roster = roster_of(watch),
		.target = TARGET_ANY,
		.tls_host = watch->host->name,
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
	free(watch->opened_for);
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
	watch->host = host;
	watch->cluster = cluster;
	watch->at.host = host->number;
	if (address) {
		watch->address = *address;
		watch->at.address = &watch->address;
		where = address_format_host(&watch->address, text, sizeof(text));
	}
	hosts_init(&watch->hosts, &cluster->watches->pools->with.broker->reach);
	if (!hosts_configure(&watch->hosts, where, (uint16_t)cluster->entry.port,
	                     LOAD_BALANCE_DISABLE)) {
		free_watch(watch);
		return;
	}
	set_site(watch);
	TAILQ_INSERT_TAIL(&cluster->list, watch, node);
	launch(watch);
}

/* Not within a callback of its server. */
static void end_watch(struct host_watch *watch)
{
	struct server *server = &watch->server;

	roster_watch(roster_of(watch), &watch->at, false);
	TAILQ_REMOVE(&watch->cluster->list, watch, node);
	if (watch->is_open && server->state != SERVER_CLOSING)
		server_close_as(server, ERR_ADMIN_SHUTDOWN, CLOSE_ENTRY_CHANGED);
	if (watch->is_open)
		loop_undefer(watch_loop(watch), &server->free_task);
	free_watch(watch);
}

/* ---- names ---- */

static bool is_listed(const struct address *address, const struct address *list, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++) {
		if (address_equal_host(address, &list[i]))
			return true;
	}
	return false;
}

static bool has_watch(const struct watched_host *host, const struct address *address)
{
	const struct host_watch *watch;

	TAILQ_FOREACH (watch, &host->cluster->list, node) {
		if (watch->host == host &&
		    (!address || address_equal_host(&watch->address, address)))
			return true;
	}
	return false;
}

static void follow_addresses(struct watched_host *host, const struct address *list,
                             unsigned int count)
{
	struct host_watch *watch, *next;

	for (watch = TAILQ_FIRST(&host->cluster->list); watch; watch = next) {
		next = TAILQ_NEXT(watch, node);
		if (watch->host == host && !is_listed(&watch->address, list, count))
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
	struct loop *loop = host->cluster->watches->pools->with.loop;

	timer_set(&host->timer, loop_timer_queue(loop, period, on_lookup_due), loop_now(loop));
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
		roster_note_error(cluster_roster(host->cluster->cluster), &at, err->text,
		                  loop_now(host->cluster->watches->pools->with.loop));
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
	} else if (!resolver_start(host->cluster->watches->pools->with.resolver, &host->ask,
	                           host->name, 0, on_host_addresses, &err)) {
		look_up_later(host, LOOKUP_PERIOD);
	}
}

/* ---- clusters ---- */

/* Whether reads of an entry go to standbys, for users without a value of their own. */
static bool routes_reads(const struct config *config, const struct config_database *entry)
{
	return config_route_reads(config, entry, NULL) != ROUTE_READS_OFF;
}

/* Whether roles matter to an entry. */
static bool needs_roles(const struct config *config, const struct config_database *entry)
{
	return entry->target_session_attrs != TARGET_ANY || routes_reads(config, entry);
}

static bool wants_primary(const struct config *config, const struct config_database *entry)
{
	return (entry->target_session_attrs == TARGET_ANY && routes_reads(config, entry)) ||
	       entry->target_session_attrs == TARGET_PRIMARY ||
	       entry->target_session_attrs == TARGET_READ_WRITE;
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
	set_credentials(watched, entry);
}

static void free_cluster(struct watched_cluster *watched)
{
	for (unsigned int i = 0; watched->hosts && i < watched->host_count; i++) {
		resolver_cancel(&watched->hosts[i].ask);
		timer_clear(&watched->hosts[i].timer);
		free(watched->hosts[i].name);
	}
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
		end_watch(watch);
	roster_unwatch(cluster_roster(watched->cluster));
	TAILQ_REMOVE(&watched->watches->list, watched, node);
	free_cluster(watched);
}

static bool fill_hosts(struct watched_cluster *watched, const char *list)
{
	struct bytes name;

	for (unsigned int i = 0; config_host_next(&list, &name); i++) {
		struct watched_host *host = &watched->hosts[i];

		host->cluster = watched;
		host->number = i;
		host->name = strndup(name.at, name.count);
		if (!host->name)
			return false;
		look_up_later(host, GAP_MIN); /* the loop may not run yet */
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
	watched->hosts = calloc(watched->host_count, sizeof(*watched->hosts));
	watched->cluster = clusters_hold(pools->with.broker, key, loop_now(pools->with.loop));
	return watched->user && watched->hosts && watched->cluster &&
	       fill_hosts(watched, key->hosts);
}

static struct watched_cluster *add_cluster(struct host_watches *watches,
                                           const struct cluster_key *key)
{
	struct watched_cluster *watched = calloc(1, sizeof(*watched));

	if (!watched)
		return NULL;
	watched->watches = watches;
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
	return (struct cluster_key){ entry->host ? entry->host : config->unix_socket_dir,
		                     entry->port, config_host_check_user(config, entry) };
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

/*
 * Whether PAUSE is about the database: nothing of it may keep PostgreSQL from being stopped, or
 * from being another server afterwards.
 */
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

static void want_cluster(struct host_watches *watches, const struct config_database *entry)
{
	const struct config *config = watches->pools->config;
	struct cluster_key key = cluster_key_of(config, entry);
	struct watched_cluster *watched;

	if (!needs_roles(config, entry) || !*key.user || is_held(watches->pools, entry->name))
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

	if (!own || !*need->key.user)
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
	if (watch->is_open && watch->server.state != SERVER_CLOSING && watch->opened_for &&
	    is_held(pools_of(watch), watch->opened_for))
		server_close_as(&watch->server, ERR_ADMIN_SHUTDOWN, CLOSE_ENTRY_CHANGED);
}

static void update_cluster(struct watched_cluster *watched)
{
	struct host_watch *watch;

	set_limits(watched);
	TAILQ_FOREACH (watch, &watched->list, node) {
		set_site(watch);
		leave_held(watch);
		if (watch->is_open && watch->server.state != SERVER_CLOSING)
			server_rearm(&watch->server);
		if (watch->is_open && watch->server.state == SERVER_IDLE)
			ask_later(watch);
		/* the secret may be another one now */
		if (watch->is_refused && !watch->is_open)
			set_watch_timer(watch, GAP_MIN, on_launch_due);
	}
}

/* The database may not exist: that of another pool may be better. */
static void change_database(struct watched_cluster *watched)
{
	struct buf database = { 0 };
	struct host_watch *watch;

	if (find_database(watched->watches, watched->cluster, &database))
		adopt_database(watched, database.at);
	buf_free(&database);
	TAILQ_FOREACH (watch, &watched->list, node)
		set_site(watch);
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
	for (watched = TAILQ_FIRST(&watches->list); watched; watched = next) {
		next = TAILQ_NEXT(watched, node);
		if (watched->is_wanted)
			update_cluster(watched);
		else
			forget_cluster(watched);
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
		.retry_gap = GAP_MAX,
	};
	host_watches_update(pools);
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
