/* SPDX-License-Identifier: ISC */
/*
 * The daemon: creates all modules and connects them.
 *
 *   listener --> clients --> pools --> servers
 *                  |
 *                  +--> console --> RELOAD, SET (reload.c), shutdown (lifecycle.c)
 */

#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include "daemon_priv.h"

#include "pgweir/auth/auth_methods.h"

#define WORKER_THREADS 2
#define SLOW_WORKER_THREADS 1
#define WORKER_JOBS 4096 /* maximum of key derivations, or of names of users, that wait */
#define HANDSHAKE_THREADS_MAX 4
#define OUTSIDE_JOBS 1024            /* maximum of logins that wait for PAM, or for LDAP */
#define OUTSIDE_LIMIT (USEC_PER_SEC) /* how long daemon_free() waits for these threads */
#define VERIFIERS_MAX 100000         /* maximum of derived keys in the cache */

/* ---- create the modules ---- */

/*
 * A processor is for each loop. More threads than processors would only compete with each
 * other, and OpenSSL's shared data would move between the caches of the processors.
 */
static unsigned int handshake_threads(unsigned int loop_count)
{
	unsigned int processors = processors_count("");
	unsigned int left = processors > loop_count ? processors - loop_count : 1;

	return left < HANDSHAKE_THREADS_MAX ? left : HANDSHAKE_THREADS_MAX;
}

static bool make_outside(struct daemon *daemon, struct err *err)
{
	ldap_prepare();
	for (int method = 0; method < AUTH_METHODS; method++) {
		const struct auth_method_row *row = &auth_methods[method];

		if (!row->threads)
			continue;
		daemon->shared.outside[method] =
		    workers_new(row->threads, row->outside ? OUTSIDE_JOBS : WORKER_JOBS, err);
		if (!daemon->shared.outside[method])
			return false;
	}
	return true;
}

static bool make_threads(struct daemon *daemon, unsigned int loop_count, struct err *err)
{
	daemon->shared.workers = workers_new(WORKER_THREADS, WORKER_JOBS, err);
	daemon->server_workers = workers_new(WORKER_THREADS, WORKER_JOBS, err);
	daemon->slow_workers = workers_new(SLOW_WORKER_THREADS, WORKER_JOBS, err);
	if (!daemon->shared.workers || !daemon->server_workers || !daemon->slow_workers)
		return false;
	/* Each is of one connection, and those are limited. */
	daemon->handshakes = workers_new(handshake_threads(loop_count), UINT_MAX, err);
	return daemon->handshakes && make_outside(daemon, err);
}

/* More loops than processors are allowed, as they cost little, but nobody should want them. */
static unsigned int loops_wanted(const struct daemon *daemon)
{
	unsigned int processors = processors_count("");
	unsigned int count = (unsigned int)daemon->now.config->loops;

	if (!count)
		return processors < LANES_MAX ? processors : LANES_MAX;
	if (count > 1 && count > processors)
		log_warning(&daemon->logger,
		            "loops = %u, but this process may use %u processor%s only", count,
		            processors, processors == 1 ? "" : "s");
	return count;
}

static bool make_lane_ground(struct daemon *daemon, struct lane *lane, struct err *err)
{
	struct resolver_options options = { .resolv_conf = daemon->now.config->resolv_conf,
		                            .other = daemon->lanes.at->resolver };

	lane->loop = loop_new(err);
	if (!lane->loop)
		return false;
	stream_pool_init(&lane->streams, daemon->now.config->pkt_buf);
	lane->streams.handshakes = daemon->handshakes;
	lane->streams.outbox = outbox_new(lane->loop, &daemon->logger);
	lane->params = params_table_new();
	if (!lane->streams.outbox || !lane->params)
		return err_set(err, ERR_MEMORY, "out of memory");
	lane->resolver = resolver_new(lane->loop, &options, err);
	return lane->resolver != NULL;
}

static bool make_ground(struct daemon *daemon, struct err *err)
{
	unsigned int count = loops_wanted(daemon);
	struct loop *loops[LANES_MAX];

	homes_init(&daemon->shared.homes, count);
	daemon->load.looked_at = clock_now();
	daemon->broker = broker_new(count, err);
	daemon->verifiers = verifiers_new(VERIFIERS_MAX, err);
	daemon->shared.logins = logins_new(err);
	daemon->shared.keys.loop_count = count;
	daemon->lanes.at = calloc(count, sizeof(*daemon->lanes.at));
	if (!daemon->broker || !daemon->verifiers || !daemon->shared.logins ||
	    !make_threads(daemon, count, err))
		return false;
	if (!daemon->lanes.at)
		return err_set(err, ERR_MEMORY, "out of memory");
	hash_key_draw(&daemon->shared.digest_key);
	if (!peer_pool_read_peers(&daemon->peers, daemon->now.config, err))
		return false;
	if (!statement_names_draw(&daemon->statement_names))
		return err_set(err, ERR_STATE, "no random bytes for the names of statements");
	for (unsigned int i = 0; i < count; i++) {
		daemon->lanes.at[i].number = i;
		daemon->lanes.count = i + 1;
		if (!make_lane_ground(daemon, &daemon->lanes.at[i], err))
			return false;
		loops[i] = daemon->lanes.at[i].loop;
	}
	daemon->loop = loops[0];
	daemon->lanes.crew = crew_new(loops, count, err);
	return daemon->lanes.crew != NULL;
}

static bool make_pools(struct daemon *daemon, struct lane *lane, struct err *err)
{
	lane->pools = pools_new(
	    &(struct server_shared){
		.loop = lane->loop,
		.log = daemon->log,
		.streams = &lane->streams,
		.resolver = lane->resolver,
		.workers = daemon->server_workers,
		.slow_workers = daemon->slow_workers,
		.verifiers = daemon->verifiers,
		.params = lane->params,
		.tls = daemon->now.tls.server,
	    },
	    &(struct pools_with){
		.broker = daemon->broker,
		.is_main = lane->number == 0,
		.statement_names = &daemon->statement_names,
		.peers = daemon->peers.is_on ? &daemon->peers : NULL,
		.on_hosts_found = reload_hosts,
		.owner = daemon,
	    },
	    daemon->now.config, daemon->now.users, err);
	return lane->pools != NULL;
}

/* What all clients share and call. */
static void make_shared(struct daemon *daemon)
{
	struct clients_shared *shared = &daemon->shared;

	shared->door = console_door(daemon->console);
	shared->on_unknown_cancel_key = takeover_pass_key;
	shared->send_elsewhere = daemon->lanes.count > 1 ? lane_send : NULL;
	shared->pick_home = lane_pick_home;
	shared->files_for_clients = limits_for_clients();
}

static bool make_engine(struct daemon *daemon, struct err *err)
{
	LANES_EACH (lane, &daemon->lanes) {
		if (!make_pools(daemon, lane, err))
			return false;
	}
	if (!lifecycle_make_console(daemon, err))
		return false;
	make_shared(daemon);
	LANES_EACH (lane, &daemon->lanes) {
		lane->clients = clients_new(&daemon->shared, lane->number, lane->pools,
		                            daemon->now.config, daemon->now.users, err);
		if (!lane->clients)
			return false;
	}
	return true;
}

static bool make_web_server(struct daemon *daemon, struct err *err)
{
	return web_new(&daemon->web,
	               &(struct web_with){
			   .log = daemon->log,
			   .main_loop = daemon->loop,
			   .console = daemon->console,
			   .handshakes = daemon->handshakes,
			   .config = daemon->now.config,
			   .rights = daemon->now.web,
		       },
	               err);
}

/* All modules exist: puts the configuration in force in the same way as a RELOAD. */
static bool apply_at_start(struct daemon *daemon, struct handed_sockets *given,
                           struct takeover *takeover, struct err *err)
{
	/* those that the service manager has opened for the old process are used like our own */
	bool is_given = takeover->is_given && given->count == 0;
	struct doors_change doors = {
		.daemon = daemon,
		.given = is_given ? &takeover->sockets : given,
		.takeover = takeover,
	};

	reload_apply(daemon);
	if (!doors_prepare(&doors, &daemon->now.gates, err))
		return false;
	doors_commit(&doors, &daemon->now.gates);
	return true;
}

struct daemon *daemon_new(struct log *log, const struct options *options, struct parts *loaded,
                          struct handed_sockets *given, struct takeover *takeover, struct err *err)
{
	struct daemon *daemon = err_calloc(sizeof(*daemon), "out of memory", err);

	if (!daemon)
		return NULL;
	daemon->log = log;
	daemon->logger = (struct logger){ log, NULL };
	daemon->options = options;
	daemon->certificates_at = wall_now() / USEC_PER_SEC;
	daemon->now = *loaded;
	*loaded = (struct parts){ 0 };
	TAILQ_INIT(&daemon->doors);
	daemon->is_served_elsewhere = takeover->channel.fd >= 0;
	if (!notify_open(&daemon->notify, err))
		log_warning(&daemon->logger, "%s", err->text);
	if (!make_ground(daemon, err) || !make_engine(daemon, err) ||
	    !lifecycle_catch_signals(daemon, err) ||
	    !apply_at_start(daemon, given, takeover, err) || !crew_start(daemon->lanes.crew, err) ||
	    !make_web_server(daemon, err)) {
		load_say_where(daemon->now.config, err);
		daemon_free(&daemon);
	}
	return daemon;
}

/* false: a thread still runs that waits for PAM, LDAP or the user database. */
static bool free_threads(struct daemon *daemon)
{
	bool have_ended = true;

	workers_free(&daemon->handshakes);
	workers_free(&daemon->shared.workers);
	workers_free(&daemon->server_workers);
	workers_free(&daemon->slow_workers);
	for (int method = 0; method < AUTH_METHODS; method++)
		have_ended &= workers_leave(&daemon->shared.outside[method], OUTSIDE_LIMIT);
	return have_ended;
}

/* All but its loop and its clients. The helper threads have ended. */
static void free_lane(struct lane *lane)
{
	if (lane->loop)
		loop_open_late(lane->loop);
	pools_free(&lane->pools);
	resolver_free(&lane->resolver);
	params_table_free(&lane->params);
	if (lane->loop) {
		outbox_free(&lane->streams.outbox);
		stream_pool_done(&lane->streams);
	}
}

static void free_lanes(struct daemon *daemon)
{
	LANES_EACH (lane, &daemon->lanes)
		free_lane(lane);
	crew_free(&daemon->lanes.crew);
	LANES_EACH (lane, &daemon->lanes)
		loop_free(&lane->loop);
	free(daemon->lanes.at);
	gates_done(&daemon->shared.gates);
	ranges_release(&daemon->shared.proxies);
	statement_limits_done(&daemon->shared.limits);
	broker_free(&daemon->broker);
	verifiers_free(&daemon->verifiers);
	logins_free(&daemon->shared.logins);
}

bool daemon_free(struct daemon **daemonp)
{
	struct daemon *daemon = *daemonp;
	bool have_threads_ended;

	if (!daemon)
		return true;
	*daemonp = NULL;
	if (daemon->lanes.crew)
		crew_stop(daemon->lanes.crew);
	web_stop(daemon->web);
	lifecycle_end(daemon);
	takeover_stop(daemon, SHUTDOWN_NOW);
	if (daemon->takeover)
		takeover_end(daemon->takeover);
	handover_free(&daemon->handover);
	LANES_EACH (lane, &daemon->lanes) {
		if (lane->pools)
			lane->pools->suspend = SUSPEND_NONE; /* nothing is resumed at the end */
		clients_free(&lane->clients);
	}
	console_free(&daemon->console);
	doors_free(&daemon->doors);
	have_threads_ended = free_threads(daemon);
	web_free(&daemon->web);
	free_lanes(daemon);
	parts_done(&daemon->now);
	notify_close(&daemon->notify);
	free(daemon);
	return have_threads_ended;
}
