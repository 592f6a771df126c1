/* SPDX-License-Identifier: ISC */
/*
 * What the answer to a question means for a server's parameters. server_params.c has what its
 * reports mean.
 *
 * The map gets what is set there and not reported. What was set before and is not set now was set
 * back; and if the client had a value of its own from its startup, it must get that again.
 */
#include <string.h>

#include "pgweir/config/entries.h"
#include "pgweir/pgwire/sql_items.h"
#include "pgweir/pool/server/facts.h"
#include "pgweir/pool/server/question.h"
#include "pgweir/pool/server/tracked.h"

#include "server_params_priv.h"

/* Whether the server reports all changes of a parameter, so that the map has its value. */
static bool is_reported(const struct server *server, const char *name)
{
	return tracked_find(server->site->shared->config, name) &&
	       params_find(server->baseline, name);
}

/* Whether a map may have this. It has PARAM_UNKNOWN for what is unknown only. */
static bool can_carry(const char *name, const char *value)
{
	return bytes_are_ascii(bytes_text(name)) && strcmp(value, PARAM_UNKNOWN) != 0;
}

static void add_change(struct buf *changes, const char *name, const char *value)
{
	buf_add(changes, &(struct params_pair){ name, value }, sizeof(struct params_pair));
}

static bool change_by(struct server *server, const struct params **params, struct buf *changes)
{
	bool is_done = buf_ok(changes) &&
	               params_change_all(server->site->shared->params, params, (void *)changes->at,
	                                 changes->count / sizeof(struct params_pair));

	buf_free(changes);
	return is_done;
}

/*
 * What the map has and the facts do not have is not set any more. A value that was reported since
 * is that of PostgreSQL's files, which clients do not get: it is set back. true: there is one.
 */
static bool add_removals(const struct server *server, const struct params *set, struct buf *changes)
{
	const char *at = NULL, *name, *value, *found;
	struct params_seek in_set = { 0 };
	bool is_any = false;

	while (params_next(server->params, &at, &name, &value)) {
		bool is_known = is_reported(server, name);

		if (tracked_is_library(name) ||
		    (is_known && params_seek(set, &in_set, name, &found)))
			continue;
		add_change(changes, name, is_known ? PARAM_UNKNOWN : NULL);
		is_any |= is_known;
	}
	return is_any;
}

/*
 * What the facts have. *baseline gets the names whose default is not known after all. false: some
 * values cannot be in a map. They are in none, so nobody sets them back on this server.
 */
static bool add_facts(const struct server *server, struct bytes list, struct buf *changes,
                      struct buf *baseline)
{
	const char *name, *value, *normal;
	bool is_done = true;

	while (bytes_take_text(&list, &name) && bytes_take_text(&list, &value)) {
		normal = server_find_unreported(server, name);
		if (normal && strcmp(normal, value) == 0)
			continue;
		if (is_reported(server, name)) {
			/* The report may have been in another encoding. */
			if (!bytes_are_ascii(bytes_text(value)))
				add_change(changes, name, value);
			continue;
		}
		if (!can_carry(name, value)) {
			add_change(changes, name, NULL);
			is_done = false;
			continue;
		}
		add_change(changes, name, value);
		if (!server_param_is_role(name) && params_find(server->baseline, name))
			add_change(baseline, name, NULL);
	}
	return is_done;
}

/* Whether the client had the server's own value: that is in no map, and nothing is set for it. */
static bool was_normal(const struct params *before, const char *name, const char *normal)
{
	const char *value = before ? params_find(before, name) : NULL;

	return before && (!value || server_param_is_same(name, normal, value));
}

/*
 * What the client has given at its startup and what is not set now has been reset, so the client
 * must get its value again: the server's is unknown until then, unless it is the same. The same is
 * true of what connect_query has set.
 */
static bool add_resets(const struct server *server, const struct params *set,
                       const struct params *startup, const struct params *before, struct bytes back,
                       struct buf *changes)
{
	const char *at = NULL, *name, *value, *normal, *found;
	struct params_seek in_set = { 0 }, in_baseline = { 0 };
	bool is_any = false;

	while (params_next(startup, &at, &name, &value)) {
		bool has_normal = params_seek(server->baseline, &in_baseline, name, &normal);

		if (params_seek(set, &in_set, name, &found) ||
		    (has_normal && server_param_is_same(name, normal, value)) ||
		    tracked_is_library(name) ||
		    (has_normal && was_normal(before, name, normal) && !bytes_list_has(back, name)))
			continue;
		add_change(changes, name, PARAM_UNKNOWN);
		is_any = true;
	}
	at = NULL;
	in_set = (struct params_seek){ 0 };
	while (server->unreported && params_next(server->unreported, &at, &name, &value)) {
		if (params_seek(set, &in_set, name, &found))
			continue;
		add_change(changes, name, PARAM_UNKNOWN);
		is_any = true;
	}
	return is_any;
}

/* The default of role is asked for, as it is not reported. */
static void add_defaults(struct bytes list, struct buf *baseline)
{
	const char *name, *value = NULL;

	if (!bytes_take_text(&list, &name) || !bytes_take_text(&list, &value))
		value = NULL;
	add_change(baseline, "role", value);
}

/* PostgreSQL does not say that a custom parameter was set back: its value is "" then. */
static bool remove_emptied(struct params_table *table, const struct params **set,
                           struct bytes names)
{
	const char *name, *value;
	bool is_done = true;

	while (bytes_take_text(&names, &name)) {
		value = strchr(name, '.') ? params_find(*set, name) : NULL;
		if (value && !*value)
			is_done &= params_change(table, set, name, NULL);
	}
	return is_done;
}

bool server_take_facts(struct server *server, const struct facts *facts,
                       const struct params *startup, const struct params *before, struct bytes back)
{
	struct params_table *table = server->site->shared->params;
	struct buf changes = { 0 }, baseline = { 0 };
	const struct params *set = params_none(table), *params;
	bool is_done, is_carried, is_unset;

	server_settle_reports(server);
	if (facts->too_long & QUESTION_PARAMS ||
	    !params_add_text(table, &set, buf_bytes(&facts->params)) ||
	    !remove_emptied(table, &set, back)) {
		params_release(table, &set);
		return false;
	}
	params = params_hold(server->params);
	is_unset = add_removals(server, set, &changes);
	is_carried = add_facts(server, buf_bytes(&facts->params), &changes, &baseline);
	add_defaults(buf_bytes(&facts->defaults), &baseline);
	is_unset |= add_resets(server, set, startup, before, back, &changes);
	is_done =
	    change_by(server, &params, &changes) && change_by(server, &server->baseline, &baseline);
	if (is_done) {
		const struct params *old = server->params;

		server->params = params;
		params = old;
		server->is_rest_unknown = false;
		server->is_startup_unset = is_unset;
	}
	params_release(table, &params);
	params_release(table, &set);
	buf_free(&changes);
	buf_free(&baseline);
	return is_done && is_carried;
}

bool server_take_set(struct server *server, const char *name, const char *value)
{
	struct params_table *table = server->site->shared->params;

	server_settle_reports(server);
	/* PostgreSQL has reported its value, in its own spelling. */
	if (params_find(server->baseline, name))
		return true;
	return params_change(table, &server->params, name, value);
}

static void add_placeholder(void *context, const struct sql_item *item)
{
	if (item->kind == SQL_ITEM_PARAMETER) {
		buf_add(context, item->name.at, item->name.count);
		buf_add_byte(context, 0);
	}
}

void server_ask_defaults(struct server *server)
{
	struct buf names = { 0 };

	sql_items(bytes_text(server->site->entry->connect_query), add_placeholder, &names);
	server_ask(server, QUESTION_PARAMS, buf_bytes(&names));
	buf_free(&names);
}

void server_take_defaults(struct server *server, const struct facts *facts)
{
	struct bytes list = buf_bytes(&facts->params);
	struct buf changes = { 0 };
	const char *name, *value;

	server->unreported = params_none(server->site->shared->params);
	while (bytes_take_text(&list, &name) && bytes_take_text(&list, &value)) {
		if (!is_reported(server, name) && can_carry(name, value))
			add_change(&changes, name, value);
	}
	server_check_map(server, change_by(server, &server->unreported, &changes));
}
