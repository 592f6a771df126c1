/* SPDX-License-Identifier: ISC */
/*
 * The role of a server's host: at its login, and when it changes.
 *
 * PostgreSQL 14 and later report in_hot_standby and default_transaction_read_only at the login.
 * That is enough if the host was asked before, by a watch or another login; else the role question
 * is asked, as a report does not tell a former primary that has come back from the current one.
 *
 * A promotion keeps the sessions of a standby: they report in_hot_standby when they are used next.
 */
#include <string.h>

#include "pgweir/pool/server/role_question.h"

#include "server_priv.h"

static bool is_on(const char *value) { return strcmp(value, "on") == 0; }

static void close_unfit(struct server *server, enum close_reason reason)
{
	server_unfit(server);
	server_close_for(server, reason);
}

/* What is known fits, or the server is closed. */
static void judge_role(struct server *server, enum host_role role, bool is_read_only)
{
	const struct server_site *site = server->site;
	struct roster_at at = server_roster_at(server);

	if (!roster_is_target(site->target, role, is_read_only)) {
		close_unfit(server, CLOSE_HOST_ROLE);
		return;
	}
	switch (roster_stay(site->roster, &at, site->target)) {
	case ROSTER_FENCED:
		close_unfit(server, CLOSE_HOST_FENCED);
		return;
	case ROSTER_DISABLED:
	case ROSTER_DRAINED:
		close_unfit(server, CLOSE_HOST_DRAINED);
		return;
	case ROSTER_STAYS:
	case ROSTER_ROLE: /* read_only of this user is another one */
	case ROSTER_LOST_THERE:
		server_login_checked(server);
	}
}

void server_ask_role(struct server *server, bool is_short)
{
	server_errand(server, ERRAND_ROLE, role_question_text(is_short));
}

/* A host that was asked before says the same as then. */
static bool is_known(const struct server *server, const struct host_report *report)
{
	struct roster_at at = server_roster_at(server);
	struct roster_row row;

	return roster_find(server->site->roster, &at, &row) && row.is_sure && !row.is_fenced &&
	       row.known.role == report->role;
}

void server_check_role(struct server *server)
{
	const char *standby = params_find(server->baseline, "in_hot_standby");
	const char *read_only = params_find(server->baseline, "default_transaction_read_only");
	struct host_report report = { 0 };

	if (standby && read_only) {
		report.role = is_on(standby) ? HOST_STANDBY : HOST_PRIMARY;
		report.is_read_only = is_on(read_only);
	}
	/* Physical replication has no SQL. */
	if (!is_known(server, &report) && server->replication != REPLICATION_PHYSICAL) {
		server_ask_role(server, false);
	} else if (!report.role) {
		server_login_checked(server);
	} else {
		server->site->ops->on_report(server, &report);
		judge_role(server, report.role, report.is_read_only);
	}
}

void server_role_row(struct server *server, struct bytes row)
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

void server_role_done(struct server *server)
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

void server_role_reported(struct server *server, const char *name, const char *value)
{
	struct roster_at at = server_roster_at(server);
	struct host_report report = { 0 };
	struct roster_row row;

	if (strcmp(name, "in_hot_standby") != 0 || server->state == SERVER_LOGIN)
		return;
	report.role = is_on(value) ? HOST_STANDBY : HOST_PRIMARY;
	if (roster_find(server->site->roster, &at, &row))
		report.is_read_only = row.known.is_read_only;
	server->site->ops->on_report(server, &report);
}
