/* SPDX-License-Identifier: ISC */
/*
 * Host watches: see host_watch_priv.h.
 *
 *   a host: its name is looked up again and again --> a watch for each address
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
	struct pools *pools = pools_of(watch);

	clusters_changed(pools->with.broker, watch->cluster->cluster, changes, pools->shared.log);
	pools_changed(pools); /* DRAIN HOST waits for answers */
}

/* ---- what it connects to ---- */

bool host_watch_is_held(struct pools *pools, const char *database)
{
	const struct database *found = pools_find_any_database(pools, database);

	return pools->is_paused || (found && found->is_paused);
}

static bool accepts(void *arg, const char *database) { return !host_watch_is_held(arg, database); }

bool host_watch_database(struct pools *pools, const struct cluster *cluster, struct buf *database)
{
	return cluster_database(pools->with.broker, cluster, accepts, pools, database);
}

/* Of entry `*`, the database of one of its pools. NULL: no memory. */
static char *find_database(const struct host_watch *watch)
{
	const char *entry = watch->cluster->entry.name;
	struct buf database = { 0 };

	if (strcmp(entry, "*") == 0 &&
	    host_watch_database(pools_of(watch), watch->cluster->cluster, &database))
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
		cluster_refuse_login(pools_of(watch)->with.broker, watched->cluster);
	launch(watch);
}

static void launch_later(struct host_watch *watch)
{
	usec_t gap = watch->gap > HOST_WATCH_GAP_MIN ? watch->gap : HOST_WATCH_GAP_MIN;
	usec_t retry = pools_of(watch)->config->server_login_retry;

	watch->gap = gap * 2 < HOST_WATCH_GAP_MAX ? gap * 2 : HOST_WATCH_GAP_MAX;
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
	struct host_watch *watch;

	TAILQ_FOREACH (watch, &cluster->list, node) {
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
	roster_watch(roster_of(watch), &watch->at, true);
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

static void lose(struct host_watch *watch, const char *error)
{
	struct roster_changes changes = { 0 };

	roster_lose(roster_of(watch), &watch->at, error, watch_now(watch), &changes);
	tell_changes(watch, &changes);
	if (changes.has_news && is_in_haste(watch))
		hurry(watch->cluster);
}

static void note_answer(struct host_watch *watch)
{
	if (server_host_done(&watch->server, HOST_ANSWERED, NULL))
		pools_wake_failing(pools_of(watch));
}

/* The host answers, but not to this user. */
static void be_refused(struct host_watch *watch, const char *error)
{
	const struct logger log = { pools_of(watch)->shared.log, NULL };
	struct roster_changes changes = { 0 };

	if (!watch->is_refused) /* once, however often it is refused then */
		log_warning(&log, "host %s is not watched: %s", watch->hosts.list[0].name, error);
	watch->is_refused = true;
	roster_refuse(roster_of(watch), &watch->at, error, watch_now(watch), &changes);
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
	free(watch->database);
	watch->database = NULL;
	launch_later(watch);
}

static void on_watch_removed(struct server *server)
{
	server_close_for(server, CLOSE_ADDRESS_REMOVED);
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

static void ignore_server(struct server *server) { (void)server; }

static bool watch_may_connect(struct server *server)
{
	pools_count_watch(pools_of(watch_of(server)), server);
	return true;
}

static void on_watch_released(struct server *server)
{
	pools_give_permit(pools_of(watch_of(server)), server);
}

/* It has no borrower, and what it connects to is its own affair: the others do not come. */
static const struct server_ops watch_ops = {
	.on_state = on_watch_state,
	.on_released = on_watch_released,
	.on_close_needed = ignore_server,
	.on_report = on_watch_report,
	.on_login_done = on_watch_login_done,
	.on_login_failed = on_watch_login_failed,
	.on_home = on_watch_home,
	.on_address_removed = on_watch_removed,
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
	watch->host = host;
	watch->cluster = cluster;
	watch->at.host = host->number;
	if (address) {
		watch->address = *address;
		watch->at.address = &watch->address;
		where = address_format_host(&watch->address, text, sizeof(text));
	}
	hosts_init(&watch->hosts, &cluster->watches->pools->with.broker->reach);
	if (!hosts_configure(&watch->hosts, where, host->port, LOAD_BALANCE_DISABLE)) {
		free_watch(watch);
		return;
	}
	set_site(watch);
	TAILQ_INSERT_TAIL(&cluster->list, watch, node);
	launch(watch);
}

void host_watch_end(struct host_watch *watch)
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

	TAILQ_FOREACH_SAFE (watch, &host->cluster->list, node, next) {
		if (watch->host == host && !address_is_among(&watch->address, list, count))
			host_watch_end(watch);
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
		roster_note_error(cluster_roster(host->cluster->cluster), &at, err->text,
		                  loop_now(host->cluster->watches->pools->shared.loop));
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

void host_watch_seek(struct watched_host *host) { look_up_later(host, HOST_WATCH_GAP_MIN); }

void host_watch_forget(struct watched_host *host)
{
	resolver_cancel(&host->ask);
	timer_clear(&host->timer);
	free(host->name);
}

/* ---- another configuration ---- */

/* A paused database may be renamed or dropped: the watch goes to that of another one. */
static void leave_held(struct host_watch *watch)
{
	if (watch->is_open && watch->server.state != SERVER_CLOSING &&
	    host_watch_is_held(pools_of(watch), watch->database))
		server_close_as(&watch->server, ERR_ADMIN_SHUTDOWN, CLOSE_ENTRY_CHANGED);
}

void host_watch_update(struct host_watch *watch)
{
	set_site(watch); /* the user of before is no more */
	leave_held(watch);
	if (watch->is_open && watch->server.state != SERVER_CLOSING)
		server_rearm(&watch->server);
	if (watch->is_open && watch->server.state == SERVER_IDLE)
		ask_later(watch);
	/* the secret may be another one now */
	if (watch->is_refused && !watch->is_open)
		timer_begin(&watch->timer, watch_loop(watch), HOST_WATCH_GAP_MIN, on_launch_due);
}
