/* SPDX-License-Identifier: ISC */
/*
 * Requests: what a recognised statement returns.
 */
#include "admin_priv.h"

#include "pgweir/config/entries.h"

/*
 * If SELECT 1 fails with PgBouncer's error, pgcli recognises a console and sends no queries
 * on PostgreSQL's catalogs. So the error is the same here.
 */
static bool is_pgcli(const struct console_session *session)
{
	const char *name = params_find(session->client->params, "application_name");

	return name && strcmp(name, "pgcli") == 0;
}

bool request_check_rows(const struct request *request, const struct console *console,
                        struct err *err)
{
	const char *name = request->words.value;
	struct pools *pools = console_pools(console);

	if (request->kind != REQUEST_SHOW || request->show->argument != SHOW_OF_DATABASE ||
	    request->words.count < 3 || strcmp(name, CONFIG_CONSOLE_DATABASE) == 0 ||
	    pools_find_database(pools, name) || config_database_auto(pools->config))
		return true;
	return err_set(err, ERR_NO_DATABASE, "no such database: %s", name);
}

bool request_check(const struct request *request, const struct console_session *session,
                   struct err *err)
{
	if (request->kind == REQUEST_TALK && request->talk->effect == TALK_ONE && is_pgcli(session))
		return err_set(err, ERR_PROTOCOL, "invalid command 'SELECT 1', use SHOW HELP;");
	return request_check_rows(request, session->console, err);
}

struct columns request_columns(const struct request *request)
{
	if (request->kind == REQUEST_TALK && small_talk_rows(request->talk))
		return small_talk_rows(request->talk)->columns;
	if (request->kind == REQUEST_TALK && request->talk->text)
		return (struct columns){ &request->talk->column, 1 };
	if (request->kind == REQUEST_SHOW && request->show == &show_setting)
		return (struct columns){ &request->column, 1 };
	return request->kind == REQUEST_SHOW ? request->show->columns : (struct columns){ 0 };
}

struct show_asked request_asked(const struct request *request)
{
	const struct words *words = &request->words;
	const struct show *rows = NULL;

	if (request->kind == REQUEST_TALK) {
		rows = small_talk_rows(request->talk);
		if (rows)
			return (struct show_asked){ rows, words->value, words->argument };
		return (struct show_asked){ &show_talk, request->talk->text, NULL };
	}
	if (request->show == &show_setting)
		return (struct show_asked){ request->show, request->column.name, NULL };
	return (struct show_asked){ request->show, words->count >= 3 ? words->value : NULL, NULL };
}

const char *request_tag(const struct request *request)
{
	switch (request->kind) {
	case REQUEST_TALK:
		return request->talk->tag;
	case REQUEST_SHOW:
		return "SHOW";
	case REQUEST_COMMAND:
		return request->command->tag;
	default:
		return "";
	}
}
