/* SPDX-License-Identifier: ISC */
/*
 * The role of a server's host, at the login and when it changes; and what its pool notes of the
 * host.
 *
 * PostgreSQL 14 and later report in_hot_standby and default_transaction_read_only at the login.
 * That is enough if the host was asked before, by a watch or another login; else the role question
 * is asked, as a report does not tell a former primary that has come back from the current one.
 *
 * A promotion keeps the sessions of a standby: they report in_hot_standby when they are used next.
 */
#include <string.h>

#include "pgweir/pgwire/sql_names.h"
#include "pgweir/pool/server/question.h"

#include "server_priv.h"

struct roster_at server_roster_at(const struct server *server)
{
	bool has_address =
	    server->place.peer.family == AF_INET || server->place.peer.family == AF_INET6;

	return (struct roster_at){ server->place.host, has_address ? &server->place.peer : NULL };
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

bool server_host_done(struct server *server, enum host_outcome outcome, const struct err *err)
{
	struct roster_at at = server_roster_at(server);
	const struct hosts_when when = { .now = loop_now(server->site->shared->loop),
		                         .gap = server->site->limits.retry_gap };

	return hosts_note(server->site->hosts, &at, outcome, &when, err);
}

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

void server_check_role(struct server *server)
{
	const char *standby = params_find(server->session.baseline, "in_hot_standby");
	const char *read_only =
	    params_find(server->session.baseline, "default_transaction_read_only");
	struct host_report report = { 0 };
	struct roster_row row;
	bool is_known;

	if (server->site->target == TARGET_ANY) {
		go_on_with_login(server);
		return;
	}
	if (standby && read_only) {
		report.role = is_on(standby) ? HOST_STANDBY : HOST_PRIMARY;
		report.is_read_only = is_on(read_only);
	}
	/* a host that was asked before says the same as then */
	is_known = server_roster_row(server, &row) && row.is_sure && !row.is_fenced &&
	           row.known.role == report.role;
	/* Physical replication has no SQL. */
	if (!is_known && server->replication != REPLICATION_PHYSICAL) {
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
