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
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pgweir/base/container_of.h"
#include "pgweir/pgwire/fields.h"
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

static void set_probe(struct server *server, bool is_probe)
{
	/* a dedicated server is launched for one borrower, so no other one relies on it */
	if (!is_probe || server_is_dedicated(server) || server->site->is_watch)
		return;
	server->login->is_probe = true;
	server->site->ops->on_probe(server, 1);
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
	set_probe(server, login->is_test);
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
 * ---- the role question ----
 *
 * Hard here: the timeline of a primary is that of the WAL which it writes. What
 * pg_control_checkpoint says is that of the last checkpoint, which is one too low for minutes after
 * a promotion. A standby has no such function, so the greatest value that any view shows is taken.
 * And the position of a primary is what it has flushed: behind the header of a page, the insert
 * position is one that a standby reaches only when more is written.
 *
 * All names are qualified: search_path of the user may lead elsewhere. Numbers are computed here
 * and not by the query, as operators have schemas too.
 */

static const char short_text[] = "SELECT pg_catalog.pg_is_in_recovery(), "
				 "pg_catalog.current_setting('default_transaction_read_only')";

static const char full_text[] =
    "SELECT pg_catalog.pg_is_in_recovery(), "
    "pg_catalog.current_setting('default_transaction_read_only'), "
    "CASE WHEN pg_catalog.pg_is_in_recovery() THEN "
    "(SELECT GREATEST((SELECT c.timeline_id FROM pg_catalog.pg_control_checkpoint() c), "
    "(SELECT r.min_recovery_end_timeline FROM pg_catalog.pg_control_recovery() r), "
    "(SELECT w.received_tli FROM pg_catalog.pg_stat_wal_receiver w)))::pg_catalog.text "
    "ELSE pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_insert_lsn()) END, "
    "(SELECT s.system_identifier FROM pg_catalog.pg_control_system() s), "
    "pg_catalog.date_part('epoch', pg_catalog.pg_postmaster_start_time()), "
    "CASE WHEN pg_catalog.pg_is_in_recovery() THEN pg_catalog.pg_last_wal_replay_lsn() "
    "ELSE pg_catalog.pg_current_wal_flush_lsn() END, "
    "pg_catalog.date_part('epoch', pg_catalog.timestamptz_mi(pg_catalog.clock_timestamp(), "
    "pg_catalog.pg_last_xact_replay_timestamp()))";

const char *role_question_text(bool is_short) { return is_short ? short_text : full_text; }

/* Only digits. false: there are none, or the number is too great. */
static bool read_number(struct bytes text, int base, uint64_t max, uint64_t *value)
{
	char copy[24], *end;

	if (text.count == 0 || text.count >= sizeof(copy) || !isxdigit((unsigned char)*text.at))
		return false;
	memcpy(copy, text.at, text.count);
	copy[text.count] = '\0';
	errno = 0;
	*value = strtoull(copy, &end, base);
	return !*end && errno == 0 && *value <= max;
}

/* Two hexadecimal numbers: 16/B374D848. */
static bool read_position(struct bytes text, uint64_t *position)
{
	struct bytes first = bytes_take_until(&text, '/');
	uint64_t high, low;

	if (!read_number(first, 16, UINT32_MAX, &high) || !read_number(text, 16, UINT32_MAX, &low))
		return false;
	*position = high << 32 | low;
	return true;
}

#define TIMELINE_DIGITS 8

/* Of a standby a number, of a primary the name of a WAL file, which begins with it. */
static bool read_timeline(struct bytes text, enum host_role role, uint32_t *timeline)
{
	uint64_t value = 0;
	bool is_good;

	if (role == HOST_STANDBY)
		is_good = read_number(text, 10, UINT32_MAX, &value);
	else
		is_good = text.count > TIMELINE_DIGITS &&
		          read_number(bytes_of(text.at, TIMELINE_DIGITS), 16, UINT32_MAX, &value);
	*timeline = (uint32_t)value;
	return is_good;
}

static bool read_short(const struct bytes *columns, struct host_report *report)
{
	bool is_standby = bytes_are(columns[0], "t");

	report->role = is_standby ? HOST_STANDBY : HOST_PRIMARY;
	report->is_read_only = bytes_are(columns[1], "on");
	return (is_standby || bytes_are(columns[0], "f")) &&
	       (report->is_read_only || bytes_are(columns[1], "off"));
}

/* A value that is NULL stays 0. */
static bool read_full(const struct bytes *columns, struct host_report *report)
{
	uint64_t age = 0;
	bool is_good =
	    (!columns[2].at || read_timeline(columns[2], report->role, &report->timeline)) &&
	    (!columns[3].at || read_number(columns[3], 10, UINT64_MAX, &report->system)) &&
	    (!columns[4].at || question_seconds(columns[4], &report->started)) &&
	    (!columns[5].at || read_position(columns[5], &report->position)) &&
	    (!columns[6].at || question_seconds(columns[6], &age));

	report->is_full = true;
	report->replay_age = (usec_t)age;
	return is_good;
}

bool role_question_answer(struct bytes body, struct host_report *report)
{
	struct bytes columns[ROLE_QUESTION_COLUMNS];
	struct row_walk walk;
	size_t count = 0;

	*report = (struct host_report){ 0 };
	if (fields_row(body, &walk) != WIRE_OK || walk.left > ROLE_QUESTION_COLUMNS)
		return false;
	while (walk.left) {
		if (fields_value(&walk, &columns[count++]) != WALK_ITEM)
			return false;
	}
	if (walk.rest.count)
		return false;
	if (count == ROLE_QUESTION_SHORT_COLUMNS)
		return read_short(columns, report);
	return count == ROLE_QUESTION_COLUMNS && read_short(columns, report) &&
	       read_full(columns, report);
}

/*
 * ---- the role of the host ----
 *
 * The role of a server's host: at its login, and when it changes.
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

static void slots_done(struct server *server)
{
	const char *connect_query = server->site->entry->connect_query;

	/* Physical replication has no database and no SQL. */
	if (connect_query && server->replication != REPLICATION_PHYSICAL)
		server_order(server,
		             &(struct order){ .kind = ORDER_CONNECT, .text = connect_query });
	else
		server->site->ops->on_login_done(server);
}

static void slots_row(struct server *server, struct bytes row)
{
	struct bytes column;
	struct row_walk walk;
	uint64_t number;
	unsigned int count = 0;

	if (fields_row(row, &walk) != WIRE_OK)
		return;
	for (bool is_first = true; walk.left; is_first = false) {
		if (fields_value(&walk, &column) != WALK_ITEM)
			return;
		if (!column.at || !read_number(column, 10, INT32_MAX, &number))
			continue;
		count = is_first         ? (unsigned int)number
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
static void judge_role(struct server *server, enum host_role role, bool is_read_only)
{
	const struct server_site *site = server->site;
	struct roster_at at = server_roster_at(server);
	enum close_reason stay;

	if (!roster_is_target(site->target, role, is_read_only)) {
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
	if (server->login) {
		server->login->role = report.role;
		server->login->is_read_only = report.is_read_only;
	}
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

	if (login->role != HOST_ROLE_UNKNOWN) {
		judge_role(server, login->role, login->is_read_only);
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
		judge_role(server, report.role, report.is_read_only);
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
