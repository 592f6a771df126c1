/* SPDX-License-Identifier: ISC */
/*
 * SHOW of the rules of auth_type hba: HBA, IDENT. Their columns are those of PostgreSQL's
 * pg_hba_file_rules and pg_ident_file_mappings, with arrays as text. A rule is found by its
 * number, so that a reload between two rows does no harm.
 */
#include "show_priv.h"

/* ---- HBA ---- */

struct hba_show_row {
	int64_t rule_number, line_number;
	const char *file_name, *type, *database, *user_name, *address, *netmask, *auth_method,
	    *options, *error;
	char buffer[2][ADDRESS_TEXT_SIZE]; /* for address and netmask */
};

#define ROW struct hba_show_row
static const struct column hba_columns[] = {
	INT4(rule_number, "Position of the rule. The first rule that matches a client is used."),
	TEXT(file_name, "File that contains the line."),
	INT4(line_number, "Line number in the file."),
	TEXT(type, "Connection type: local, host, hostssl, ..."),
	TEXT(database, "Databases that the rule applies to, as an array."),
	TEXT(user_name, "Users that the rule applies to, as an array."),
	TEXT(address, "Client address: an IP address, all, samehost, samenet, or a host name."),
	TEXT(netmask, "Netmask of an IP address."),
	TEXT(auth_method, "Authentication method."),
	TEXT(options, "Options of the authentication method, as an array."),
	TEXT(error, "Why the rule never allows a login; NULL if it can."),
};
#undef ROW

/* Moves all lists of a row to the cursor's buffer, each with a terminating zero. */
static void take_lists(struct cursor *cursor, struct hba_show_row *row, struct hba_lists *lists)
{
	size_t user, options;

	buf_clear(&cursor->text);
	buf_add_cstr(&cursor->text, buf_text(&lists->database));
	user = cursor->text.count;
	buf_add_cstr(&cursor->text, buf_text(&lists->user));
	options = cursor->text.count;
	buf_add_cstr(&cursor->text, buf_text(&lists->options));
	if (buf_ok(&cursor->text)) {
		row->database = cursor->text.at;
		row->user_name = cursor->text.at + user;
		row->options = lists->options.count ? cursor->text.at + options : NULL;
	}
	buf_free(&lists->database);
	buf_free(&lists->user);
	buf_free(&lists->options);
}

static bool next_rule(struct cursor *cursor, void *at)
{
	const struct hba *hba = show_source_first(cursor->source)->clients->hba;
	struct hba_show_row *row = at;
	struct hba_lists lists = { 0 };
	struct hba_row rule;

	if (!hba || !hba_row(hba, cursor->index, &rule, &lists))
		return false;
	row->rule_number = (int64_t)++cursor->index;
	row->file_name = rule.file;
	row->line_number = rule.line;
	row->type = rule.type;
	row->auth_method = rule.method;
	row->address = rule.address;
	row->error = rule.error;
	if (rule.address == lists.address)
		row->address = memcpy(row->buffer[0], lists.address, ADDRESS_TEXT_SIZE);
	if (rule.netmask)
		row->netmask = memcpy(row->buffer[1], lists.netmask, ADDRESS_TEXT_SIZE);
	take_lists(cursor, row, &lists);
	return true;
}

SHOW(hba, "HBA", next_rule, hba_columns, "Rules of auth_hba_file, if auth_type is hba.");

/* ---- IDENT ---- */

struct ident_show_row {
	int64_t map_number, line_number;
	const char *file_name, *map_name, *sys_name, *pg_username;
};

#define ROW struct ident_show_row
static const struct column ident_columns[] = {
	INT4(map_number, "Position of the map line among all lines, from 1."),
	TEXT(file_name, "File that contains the line."),
	INT4(line_number, "Line number in the file."),
	TEXT(map_name, "Name of the map."),
	TEXT(sys_name, "System user name, or the name in a client certificate."),
	TEXT(pg_username, "Database user that the system user may log in as."),
};
#undef ROW

static bool next_mapping(struct cursor *cursor, void *at)
{
	const struct hba *hba = show_source_first(cursor->source)->clients->hba;
	struct ident_show_row *row = at;
	struct ident_row mapping;

	if (!hba || !hba_ident_row(hba, cursor->index, &mapping))
		return false;
	*row = (struct ident_show_row){ .map_number = (int64_t)++cursor->index,
		                        .line_number = mapping.line,
		                        .file_name = mapping.file,
		                        .map_name = mapping.map,
		                        .sys_name = mapping.system_user,
		                        .pg_username = mapping.user };
	return true;
}

SHOW(ident, "IDENT", next_mapping, ident_columns,
     "User name maps of auth_ident_file, if auth_type is hba.");

/*
 * ---- show peers ----
 *
 * SHOW of other instances: PEERS, PEER_POOLS, in the order of their ids. A cursor keeps the
 * last id as a number, so that a reload between two rows does no harm.
 */

static const struct config_peer *next_entry(struct cursor *cursor)
{
	const struct config *config = show_source_first(cursor->source)->pools->config;
	const struct config_peer *peer = config_peer_after(config, (int)cursor->index);

	if (peer)
		cursor->index = (size_t)peer->id;
	return peer;
}

/* ---- PEERS ---- */

struct peer_row {
	int64_t peer_id, port, pool_size;
	const char *host;
};

#define ROW struct peer_row
static const struct column peer_columns[] = {
	INT4(peer_id, "Number of the peer (its peer_id)."),
	TEXT(host, "Host of the peer, or directory of its Unix socket."),
	INT4(port, "Port of the peer."),
	INT4(pool_size, "Maximum number of cancel requests sent to the peer at the same time; 0: "
	                "no limit."),
};
#undef ROW

static bool next_peer(struct cursor *cursor, void *at)
{
	const struct config_peer *peer = next_entry(cursor);
	struct peer_row *row = at;

	if (!peer)
		return false;
	row->peer_id = peer->id;
	row->host = peer->host;
	row->port = peer->port;
	row->pool_size =
	    config_peer_pool_size(show_source_first(cursor->source)->pools->config, peer);
	return true;
}

SHOW(peers, "PEERS", next_peer, peer_columns,
     "Other instances to which cancel requests are forwarded.");

/* ---- PEER_POOLS ---- */

struct peer_pool_row {
	int64_t peer_id, cl_active_cancel_req, cl_waiting_cancel_req, sv_active_cancel, sv_login;
};

#define ROW struct peer_pool_row
static const struct column peer_pool_columns[] = {
	INT4(peer_id, "Number of the peer (its peer_id)."),
	INT4(cl_active_cancel_req,
	     "Cancel requests that were sent to the peer and are not answered yet."),
	INT4(cl_waiting_cancel_req, "Cancel requests that wait in the queue or for a connection."),
	INT4(sv_active_cancel, "Connections that carry a cancel request to the peer."),
	INT4(sv_login, "Connections to the peer that are being established."),
};
#undef ROW

/* false: no lane has a pool for this peer. */
static bool fill_peer_pool(struct peer_pool_row *row, const struct lanes *lanes, int id)
{
	const struct peer_pool *pool;
	const struct lane *lane;
	bool has_pool = false;

	row->peer_id = id;
	LANES_EACH(lane, lanes)
	{
		pool = peer_pool_find(lane->pools, id);
		if (!pool)
			continue;
		has_pool = true;
		row->cl_active_cancel_req += pool->counts[FORWARD_SENT];
		row->sv_login += pool->counts[FORWARD_CONNECTING];
		row->cl_waiting_cancel_req +=
		    pool->counts[FORWARD_WAITING] + pool->counts[FORWARD_CONNECTING];
	}
	row->sv_active_cancel = row->cl_active_cancel_req;
	return has_pool;
}

static bool next_peer_pool(struct cursor *cursor, void *row)
{
	const struct config_peer *peer;

	while ((peer = next_entry(cursor))) {
		if (fill_peer_pool(row, show_source_lanes(cursor->source), peer->id))
			return true;
	}
	return false;
}

SHOW(peer_pools, "PEER_POOLS", next_peer_pool, peer_pool_columns,
     "Cancel requests that are being forwarded to other instances.");
