/* SPDX-License-Identifier: ISC */
/*
 * Where a server connects to: chooses one of its pool's hosts, and looks the name up or connects to
 * a Unix socket directly. Also handles an address that was removed from DNS.
 *
 * Hard here: a host that accepts the connection but sends nothing would block waiting borrowers for
 * the whole server_connect_timeout. If another host is not known to be down, the first message must
 * arrive within a part of that time.
 */
#include <stdio.h>

#include "pgweir/base/container_of.h"

#include "server_priv.h"

/*
 * The part of server_connect_timeout for the first message, while there is another host. A test has
 * less: what was lost on the way is sent again late by the kernel, but at once by a new attempt.
 */
#define PATIENCE_PART 5
#define PATIENCE_MAX (3 * USEC_PER_SEC)

static struct loop *loop_of(const struct server *server) { return server->site->shared->loop; }

/* The address in the hosts' list; NULL: there is none (yet). */
static const struct address *address_of(const struct server *server)
{
	bool has_address =
	    server->place.peer.family == AF_INET || server->place.peer.family == AF_INET6;

	return has_address ? &server->place.peer : NULL;
}

/* It counts where it will be from the choice on, as others may choose before it is there. */
static void count_at_host(struct server *server)
{
	if (!server->site->is_watch)
		hosts_enter(server->site->hosts, &server->place.counted, server->place.host,
		            address_of(server));
}

/* No borrower relies on a retry, so there must be space for another server beside it. */
static struct hosts_when when_of(const struct server *server)
{
	return (struct hosts_when){
		.now = loop_now(loop_of(server)),
		.gap = server->site->limits.retry_gap,
		.may_test = server->site->ops->may_probe(server),
	};
}

static void set_probe(struct server *server, bool is_probe)
{
	/* a dedicated server is launched for one borrower, so no other one relies on it */
	if (!is_probe || server_is_dedicated(server))
		return;
	server->login->is_probe = true;
	server->site->ops->on_probe(server, 1);
}

/* ---- patience ---- */

static void on_patience(struct timer *timer)
{
	struct server_login *login = container_of(timer, struct server_login, patience);
	struct server *server = login->server;

	if (hosts_has_other(server->site->hosts, server->place.host, address_of(server)))
		server_close_for(server, CLOSE_ANOTHER_HOST);
	else if (login->is_test && login->dial.is_active)
		server_close_with(server, ERR_SERVER_CONNECT,
		                  "connect failed: Connection timed out");
}

static void set_patience(struct server *server)
{
	usec_t limit = server->site->shared->config->server_connect_timeout / PATIENCE_PART;

	if (limit <= 0 || limit > PATIENCE_MAX)
		limit = PATIENCE_MAX;
	if (server->login->is_test && limit > REACH_TEST_MAX)
		limit = REACH_TEST_MAX;
	timer_set(&server->login->patience, loop_timer_queue(loop_of(server), limit, on_patience),
	          loop_now(loop_of(server)));
}

/* ---- an address that was removed from DNS ---- */

static void on_server_address_removed(struct resolver_watch *watch)
{
	struct server *server = container_of(watch, struct server, place.address_watch);

	server->site->ops->on_address_removed(server);
}

/* ---- connecting ---- */

static void on_server_address(struct resolver_ask *ask, const struct address *address,
                              const struct err *err)
{
	struct server_login *login = container_of(ask, struct server_login, ask);
	struct server *server = login->server;
	const struct server_shared *shared = server->site->shared;
	struct hosts *hosts = server->site->hosts;
	struct hosts_when when = when_of(server);
	struct address picked;
	bool is_test = login->is_test;
	enum hosts_picked result;
	struct err memory;

	if (!address) {
		server_close(server, err);
		return;
	}
	picked = *address;
	result = hosts_pick(hosts, server->place.host, ask->addresses, ask->address_count, &when,
	                    &picked, &is_test);
	if (result == HOSTS_NONE_FITS) {
		server_close_for(server, CLOSE_HOST_ROLE);
		return;
	}
	if (result == HOSTS_NO_MEMORY) {
		err_set(&memory, ERR_MEMORY, "out of memory");
		server_close(server, &memory);
		return;
	}
	server->place.peer = picked;
	address_set_port(&server->place.peer, ask->port);
	count_at_host(server);
	resolver_watch_begin(shared->resolver, &server->place.address_watch,
	                     hosts->list[server->place.host].name, &server->place.peer,
	                     on_server_address_removed);
	login->is_test = is_test;
	set_probe(server, is_test);
	set_patience(server);
	dial_start(&login->dial, shared->loop, &server->place.peer, shared->sockets,
	           server->login->on_connected);
}

static bool is_unix(const char *host) { return *host == '/' || *host == '@'; }

bool server_find_host(struct server *server, struct err *err)
{
	struct server_site *site = server->site;
	const struct hosts_when when = when_of(server);
	int port = site->entry->port;
	const char *host;

	if (site->hosts->count == 0 || !site->roster)
		return err_set(err, ERR_MEMORY, "out of memory");
	server->place.host = hosts_choose(site->hosts, &when, &server->login->is_test);
	if (server->place.host == site->hosts->count)
		return err_close(err, CLOSE_HOST_ROLE);
	count_at_host(server);
	host = site->hosts->list[server->place.host].name;
	if (!*host)
		return err_set(err, ERR_SERVER_CONNECT,
		               "database \"%s\" has no host, and unix_socket_dir is empty",
		               site->database);
	if (!is_unix(host))
		return resolver_start(site->shared->resolver, &server->login->ask, host,
		                      (uint16_t)port, on_server_address, err);
	snprintf(server->place.path, sizeof(server->place.path), "%s/.s.PGSQL.%d", host, port);
	server->place.peer.un = (struct address_unix){ AF_UNIX, 0, (uid_t)-1, (uint16_t)port };
	server->login->is_test =
	    hosts_pick_self(site->hosts, server->place.host, when.now, server->login->is_test);
	set_probe(server, server->login->is_test);
	set_patience(server);
	dial_start_unix(&server->login->dial, loop_of(server), server->place.path,
	                server->login->on_connected);
	return true;
}

bool server_find_again(struct server *server, const char *host)
{
	const struct hosts *hosts = server->site->hosts;

	for (server->place.host = 0; server->place.host < hosts->count; server->place.host++) {
		if (strcmp(hosts->list[server->place.host].name, host) != 0)
			continue;
		if (!is_unix(host))
			resolver_watch_begin(server->site->shared->resolver,
			                     &server->place.address_watch, host,
			                     &server->place.peer, on_server_address_removed);
		count_at_host(server);
		return true;
	}
	server->place.host = 0;
	return false;
}

void server_dial_again(struct server *server)
{
	struct server_login *login = server->login;

	if (address_is_unix(&server->place.peer))
		dial_start_unix(&login->dial, loop_of(server), server->place.path,
		                server->login->on_connected);
	else
		dial_start(&login->dial, loop_of(server), &server->place.peer,
		           server->site->shared->sockets, server->login->on_connected);
}

struct roster_at server_roster_at(const struct server *server)
{
	return (struct roster_at){ server->place.host, address_of(server) };
}

void server_unfit(struct server *server)
{
	hosts_unfit(server->site->hosts, server->place.host, address_of(server),
	            loop_now(loop_of(server)));
}

void server_role_doubted(struct server *server)
{
	struct roster_at at = server_roster_at(server);
	struct host_report report = { .is_read_only = true, .is_doubtful = true };
	struct roster_row row;

	if (!roster_find(server->site->roster, &at, &row))
		return;
	report.role = row.known.role;
	server->site->ops->on_report(server, &report);
}

enum host_protocol server_protocol(const struct server *server)
{
	return hosts_protocol(server->site->hosts, server->place.host, address_of(server));
}

void server_learn_protocol(struct server *server, enum host_protocol protocol)
{
	hosts_learn_protocol(server->site->hosts, server->place.host, address_of(server), protocol);
}

void server_heard(struct server *server) { timer_clear(&server->login->patience); }

bool server_host_done(struct server *server, enum host_outcome outcome, const struct err *err)
{
	return hosts_note(server->site->hosts, &(struct hosts_note){
						   .host = server->place.host,
						   .address = address_of(server),
						   .outcome = outcome,
						   .now = loop_now(loop_of(server)),
						   .gap = server->site->limits.retry_gap,
						   .err = err,
					       });
}
