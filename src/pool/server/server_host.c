/* SPDX-License-Identifier: ISC */
/*
 * Where a server connects to: chooses one of its pool's hosts, and looks the name up or connects to
 * a Unix socket directly. Also handles an address that was removed from DNS, and the role of the
 * host.
 *
 * Hard here: a host that accepts the connection but sends nothing would block waiting borrowers for
 * the whole server_connect_timeout. If another host is not known to be down, the first message must
 * arrive within a part of that time.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "pgweir/base/container_of.h"
#include "pgweir/pgwire/sql_names.h"
#include "pgweir/pool/server/question.h"

#include "server_priv.h"

/* Of server_connect_timeout, for the first message while there is another host; less in a test. */
#define PATIENCE_PART 5
#define PATIENCE_MAX (3 * USEC_PER_SEC)

static bool is_unix(const char *host) { return *host == '/' || *host == '@'; }

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
	hosts_enter(server->site->hosts, &server->place.counted, server->place.host,
	            address_of(server));
}

/* No borrower relies on a retry, so there must be space for another server beside it. */
static struct hosts_when when_of(const struct server *server)
{
	int most = server->site->shared->config->max_host_connections;

	return (struct hosts_when){
		.now = loop_now(loop_of(server)),
		.gap = server->site->limits.retry_gap,
		.most = most > 0 ? (unsigned int)most : 0,
		.may_test = server->site->is_watch || server->site->ops->may_probe(server),
	};
}

/* ---- patience ---- */

static void on_patience(struct timer *timer)
{
	struct server_login *login = container_of(timer, struct server_login, patience);
	struct server *server = login->server;
	struct roster_at at = server_roster_at(server);

	if (hosts_due(server->site->hosts, &at) == 0)
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
	timer_begin(&server->login->patience, loop_of(server), limit, on_patience);
}

/* ---- an address that was removed from DNS ---- */

static void on_server_address_removed(struct resolver_watch *watch)
{
	struct server *server = container_of(watch, struct server, place.address_watch);

	server->site->ops->on_address_removed(server);
}

static void watch_address(struct server *server)
{
	const struct host *host = &server->site->hosts->list[server->place.host];

	if (!is_unix(host->at))
		resolver_watch_begin(server->site->shared->resolver, &server->place.address_watch,
		                     host->at, &server->place.peer, on_server_address_removed);
}

/* ---- connecting ---- */

void server_dial_again(struct server *server)
{
	struct server_login *login = server->login;

	dial_start(&login->dial, loop_of(server), &server->place.peer,
	           address_is_unix(&server->place.peer) ? server->place.path : NULL,
	           server->site->shared->sockets, login->on_connected);
}

/* To one of these addresses, in turn from `address`; count 0: to that one, a Unix socket. */
static bool go_to(struct server *server, const struct address *addresses, unsigned int count,
                  struct address address, struct err *err)
{
	const struct hosts_when when = when_of(server);
	struct server_login *login = server->login;

	if (!hosts_pick(server->site->hosts, server->place.host, addresses, count, &when, &address,
	                &login->is_test, err))
		return false;
	server->place.peer = address;
	if (!server->site->ops->may_connect(server))
		return err_close(err, CLOSE_HOST_FULL);
	count_at_host(server);
	watch_address(server);
	/* a dedicated server is launched for one borrower, so no other one relies on it */
	if (login->is_test && !server_is_dedicated(server) && !server->site->is_watch) {
		login->is_probe = true;
		server->site->ops->on_probe(server, 1);
	}
	set_patience(server);
	server_dial_again(server);
	return true;
}

static void on_server_address(struct resolver_ask *ask, const struct address *address,
                              const struct err *err)
{
	struct server *server = container_of(ask, struct server_login, ask)->server;
	struct err failure;

	if (!address)
		server_close(server, err);
	else if (!go_to(server, ask->addresses, ask->address_count, *address, &failure))
		server_close(server, &failure);
}

bool server_find_host(struct server *server, struct err *err)
{
	struct server_site *site = server->site;
	const struct hosts_when when = when_of(server);
	struct address local = { 0 };
	const struct host *host;

	if (site->hosts->count == 0 || !site->roster)
		return err_set(err, ERR_MEMORY, "out of memory");
	server->place.host = hosts_choose(site->hosts, &when, &server->login->is_test);
	if (server->place.host == site->hosts->count)
		return err_close(err, CLOSE_HOST_ROLE);
	count_at_host(server);
	host = &site->hosts->list[server->place.host];
	if (!*host->name && site->entry->hosts_from)
		return err_set(err, ERR_SERVER_CONNECT,
		               "the hosts of database \"%s\" are not known yet: hosts_from has "
		               "not answered",
		               site->database);
	if (!*host->name)
		return err_set(err, ERR_SERVER_CONNECT,
		               "database \"%s\" has no host, and unix_socket_dir is empty",
		               site->database);
	if (!is_unix(host->at))
		return resolver_start(site->shared->resolver, &server->login->ask, host->at,
		                      host->port, on_server_address, err);
	if (snprintf(server->place.path, sizeof(server->place.path), "%s/.s.PGSQL.%d", host->at,
	             host->port) >= (int)sizeof(server->place.path)) {
		*server->place.path = 0; /* a part of it could be the path of another one */
		return err_set(err, ERR_SERVER_CONNECT, "connect failed: %s",
		               strerror(ENAMETOOLONG));
	}
	local.un = (struct address_unix){ AF_UNIX, 0, (uid_t)-1, host->port };
	return go_to(server, NULL, 0, local, err);
}

bool server_find_again(struct server *server, const char *host)
{
	const struct hosts *hosts = server->site->hosts;

	for (unsigned int i = 0; i < hosts->count; i++) {
		if (strcmp(hosts->list[i].name, host) != 0)
			continue;
		server->place.host = i;
		watch_address(server);
		count_at_host(server);
		return true;
	}
	return false;
}

struct roster_at server_roster_at(const struct server *server)
{
	return (struct roster_at){ server->place.host, address_of(server) };
}

bool server_roster_row(const struct server *server, struct roster_row *row)
{
	struct roster_at at = server_roster_at(server);

	return server->site->roster && roster_find(server->site->roster, &at, row);
}

void server_role_doubted(struct server *server)
{
	struct host_report report = { .is_read_only = true, .is_doubtful = true };
	struct roster_row row;

	if (!server_roster_row(server, &row))
		return;
	report.role = row.known.role;
	server->site->ops->on_report(server, &report);
}

void server_heard(struct server *server) { timer_clear(&server->login->patience); }

bool server_host_done(struct server *server, enum host_outcome outcome, const struct err *err)
{
	struct roster_at at = server_roster_at(server);
	struct hosts_when when = when_of(server);

	return hosts_note(server->site->hosts, &at, outcome, &when, err);
}

/*
 * ---- the role of the host, at the login and when it changes ----
 *
 * PostgreSQL 14 and later report in_hot_standby and default_transaction_read_only at the login.
 * That is enough if the host was asked before, by a watch or another login; else the role question
 * is asked, as a report does not tell a former primary that has come back from the current one.
 *
 * A promotion keeps the sessions of a standby: they report in_hot_standby when they are used next.
 */

/* PostgreSQL 16 and later have reserved_connections. */
static const char slots_question[] = "SELECT pg_catalog.current_setting('max_connections'),"
				     "pg_catalog.current_setting('superuser_reserved_connections'),"
				     "pg_catalog.current_setting('reserved_connections',true)";

static bool is_on(const char *value) { return strcmp(value, "on") == 0; }

static void close_unfit(struct server *server, enum close_reason reason)
{
	server_host_done(server, HOST_UNFIT, NULL);
	server_close_for(server, reason);
}

static void defaults_done(struct server *server)
{
	server_take_defaults(server, &server->orders.question->facts);
	server_question_free(&server->orders.question);
	server->site->ops->on_login_done(server);
}

/* Asks what connect_query has set, since a client must get that, too. */
static void connect_done(struct server *server)
{
	struct sql_names names = { 0 };

	if (!server->site->knows_defaults || server_is_dedicated(server)) {
		server->site->ops->on_login_done(server);
		return;
	}
	sql_names_read(&names, bytes_text(server->site->entry->connect_query), true);
	server_order(server, &(struct order){ .kind = ORDER_ASK,
	                                      .parts = QUESTION_PARAMS,
	                                      .names = buf_bytes(&names.list),
	                                      .on_done = defaults_done });
	sql_names_free(&names);
}

static void slots_done(struct server *server)
{
	const char *connect_query = server->site->entry->connect_query;

	/* Physical replication has no database and no SQL. */
	if (connect_query && server->replication != REPLICATION_PHYSICAL)
		server_order(server, &(struct order){ .kind = ORDER_CONNECT,
		                                      .text = connect_query,
		                                      .on_done = connect_done });
	else
		server->site->ops->on_login_done(server);
}

static void slots_row(struct server *server, struct bytes row)
{
	struct bytes columns[3];
	size_t column_count = question_values(row, columns, 3);
	unsigned int count = 0;
	uint64_t number;

	for (size_t i = 0; i < column_count; i++) {
		if (!columns[i].at || !question_number(columns[i], 10, INT32_MAX, &number))
			continue;
		count = i == 0           ? (unsigned int)number
		        : number < count ? count - (unsigned int)number
		                         : 1;
	}
	if (count)
		server->site->ops->on_slots(server, count);
}

/* The role fits. Physical replication has no SQL. */
static void go_on_with_login(struct server *server)
{
	if (server->site->shared->config->max_host_connections != CONFIG_CAP_AUTO ||
	    server->site->is_watch || server->replication == REPLICATION_PHYSICAL) {
		slots_done(server);
		return;
	}
	server_order(server, &(struct order){ .kind = ORDER_SLOTS,
	                                      .text = slots_question,
	                                      .on_row = slots_row,
	                                      .on_done = slots_done });
}

/* What is known fits, or the server is closed. */
static void judge_role(struct server *server, const struct host_report *report)
{
	const struct server_site *site = server->site;
	struct roster_at at = server_roster_at(server);
	enum close_reason stay;

	if (!roster_is_target(site->target, report->role, report->is_read_only)) {
		close_unfit(server, CLOSE_HOST_ROLE);
		return;
	}
	stay = roster_stay(site->roster, &at, site->target);
	if (stay == CLOSE_HOST_FENCED)
		close_unfit(server, stay);
	else if (stay == CLOSE_HOST_DISABLED || stay == CLOSE_HOST_DRAINED)
		close_unfit(server, CLOSE_HOST_DRAINED);
	else
		go_on_with_login(server); /* read_only of this user may be another one */
}

static void role_done(struct server *server);

static void role_row(struct server *server, struct bytes row)
{
	struct host_report report;

	if (!role_question_answer(row, &report))
		return;
	if (server->login)
		server->login->report = report;
	server->site->ops->on_report(server, &report);
}

void server_ask_role(struct server *server, bool is_short)
{
	server_order(server, &(struct order){ .kind = ORDER_ROLE,
	                                      .text = role_question_text(is_short),
	                                      .on_row = role_row,
	                                      .on_done = server->login ? role_done : NULL });
}

static void role_done(struct server *server)
{
	struct server_login *login = server->login;

	if (login->report.role != HOST_ROLE_UNKNOWN) {
		judge_role(server, &login->report);
	} else if (login->is_role_short) {
		close_unfit(server, CLOSE_ROLE_UNKNOWN);
	} else {
		login->is_role_short = true;
		server_ask_role(server, true);
	}
}

/* A host that was asked before says the same as then. */
static bool is_known(const struct server *server, const struct host_report *report)
{
	struct roster_row row;

	return server_roster_row(server, &row) && row.is_sure && !row.is_fenced &&
	       row.known.role == report->role;
}

void server_check_role(struct server *server)
{
	const char *standby = params_find(server->session.baseline, "in_hot_standby");
	const char *read_only =
	    params_find(server->session.baseline, "default_transaction_read_only");
	struct host_report report = { 0 };

	if (server->site->target == TARGET_ANY) {
		go_on_with_login(server);
		return;
	}
	if (standby && read_only) {
		report.role = is_on(standby) ? HOST_STANDBY : HOST_PRIMARY;
		report.is_read_only = is_on(read_only);
	}
	/* Physical replication has no SQL. */
	if (!is_known(server, &report) && server->replication != REPLICATION_PHYSICAL) {
		server_ask_role(server, false);
	} else if (!report.role) {
		go_on_with_login(server);
	} else {
		server->site->ops->on_report(server, &report);
		judge_role(server, &report);
	}
}

void server_role_reported(struct server *server, const char *name, const char *value)
{
	struct host_report report = { 0 };
	struct roster_row row;

	if (strcmp(name, "in_hot_standby") != 0 || server->state == SERVER_LOGIN)
		return;
	report.role = is_on(value) ? HOST_STANDBY : HOST_PRIMARY;
	if (server_roster_row(server, &row))
		report.is_read_only = row.known.is_read_only;
	server->site->ops->on_report(server, &report);
}
