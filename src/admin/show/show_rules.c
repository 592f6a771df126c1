/* SPDX-License-Identifier: ISC */
/*
 * SHOW of the rules of auth_type hba: HBA, IDENT. Their columns are those of PostgreSQL's
 * pg_hba_file_rules and pg_ident_file_mappings, with arrays as text. A rule is found by its
 * number, so that a reload between two rows does no harm.
 */
#include "show_priv.h"

/* ---- HBA ---- */

#define HBA_ROW(COLUMN)                                                                          \
	COLUMN(INT4, rule_number, (int64_t)++cursor->index,                                      \
	       "Position of the rule. The first rule that matches a client is used.")            \
	COLUMN(TEXT, file_name, rule->pos.file, "File that contains the line.")                  \
	COLUMN(INT4, line_number, rule->pos.line, "Line number in the file.")                    \
	COLUMN(TEXT, type, hba_type_name(rule->type),                                            \
	       "Connection type: local, host, hostssl, ...")                                     \
	COLUMN(TEXT, database, text[0], "Databases that the rule applies to, as an array.")      \
	COLUMN(TEXT, user_name, text[1], "Users that the rule applies to, as an array.")         \
	COLUMN(TEXT, address, text[2],                                                           \
	       "Client address: an IP address, all, samehost, samenet, or a host name.")         \
	COLUMN(TEXT, netmask, text[3], "Netmask of an IP address.")                              \
	COLUMN(TEXT, auth_method, auth_methods[rule->method].hba_name, "Authentication method.") \
	COLUMN(TEXT, options, text[4], "Options of the authentication method, as an array.")     \
	COLUMN(TEXT, error, rule->flaw.at, "Why the rule never allows a login; NULL if it can.")

SHOW_ROWS(hba, "HBA", HBA_ROW, "Rules of auth_hba_file, if auth_type is hba.");

/* "" in the texts of a rule: NULL. */
static const char *take_or_null(struct bytes *texts)
{
	const char *text;

	return bytes_take_text(texts, &text) && *text ? text : NULL;
}

static bool next_hba(struct cursor *cursor, void *row)
{
	const struct hba *hba = cursor->lanes->at->clients->shared->gates.main.rules.hba;
	const struct hba_rule *rule;
	struct buf *list = cursor_text(cursor);
	const char *text[5];
	struct bytes texts;

	if (!hba || cursor->index >= hba->count)
		return false;
	rule = &hba->rules[cursor->index];
	hba_rule_texts(rule, list);
	texts = buf_bytes(list);
	for (size_t i = 0; i < 5; i++)
		text[i] = take_or_null(&texts);
	return ROW_FILL(row, struct hba_shown, HBA_ROW);
}

/* ---- IDENT ---- */

#define IDENT_ROW(COLUMN)                                                          \
	COLUMN(INT4, map_number, (int64_t)++cursor->index,                         \
	       "Position of the map line among all lines, from 1.")                \
	COLUMN(TEXT, file_name, mapping->pos.file, "File that contains the line.") \
	COLUMN(INT4, line_number, mapping->pos.line, "Line number in the file.")   \
	COLUMN(TEXT, map_name, mapping->map, "Name of the map.")                   \
	COLUMN(TEXT, sys_name, mapping->system_user.text,                          \
	       "System user name, or the name in a client certificate.")           \
	COLUMN(TEXT, pg_username, mapping->user.text,                              \
	       "Database user that the system user may log in as.")

SHOW_ROWS(ident, "IDENT", IDENT_ROW, "User name maps of auth_ident_file, if auth_type is hba.");

static bool next_ident(struct cursor *cursor, void *row)
{
	const struct hba *hba = cursor->lanes->at->clients->shared->gates.main.rules.hba;
	const struct mapping *mapping;

	if (!hba || cursor->index >= hba->mapping_count)
		return false;
	mapping = &hba->mappings[cursor->index];
	return ROW_FILL(row, struct ident_shown, IDENT_ROW);
}

/* ---- PEERS and PEER_POOLS, in the order of their ids; a cursor keeps the last id ---- */

static const struct config_peer *next_entry(struct cursor *cursor)
{
	const struct config *config = cursor->lanes->at->pools->config;
	const struct config_peer *peer = config_peer_after(config, (int)cursor->index);

	if (peer)
		cursor->index = (size_t)peer->id;
	return peer;
}

/* ---- PEERS ---- */

#define PEER_ROW(COLUMN)                                                                     \
	COLUMN(INT4, peer_id, peer->id, "Number of the peer (its peer_id).")                 \
	COLUMN(TEXT, host, peer->host, "Host of the peer, or directory of its Unix socket.") \
	COLUMN(INT4, port, peer->port, "Port of the peer.")                                  \
	COLUMN(                                                                              \
	    INT4, pool_size, config_peer_pool_size(config, peer),                            \
	    "Maximum number of cancel requests sent to the peer at the same time; 0: no limit.")

SHOW_ROWS(peers, "PEERS", PEER_ROW, "Other instances to which cancel requests are forwarded.");

static bool next_peers(struct cursor *cursor, void *row)
{
	const struct config_peer *peer = next_entry(cursor);
	const struct config *config = cursor->lanes->at->pools->config;

	if (!peer)
		return false;
	return ROW_FILL(row, struct peers_shown, PEER_ROW);
}

/* ---- PEER_POOLS ---- */

#define PEER_POOL_ROW(COLUMN)                                                                 \
	COLUMN(INT4, peer_id, id, "Number of the peer (its peer_id); 0: those of peers_dns.") \
	COLUMN(INT4, cl_active_cancel_req, sent,                                              \
	       "Cancel requests that were sent to the peer and are not answered yet.")        \
	COLUMN(INT4, cl_waiting_cancel_req, waiting + connecting,                             \
	       "Cancel requests that wait in the queue or for a connection.")                 \
	COLUMN(INT4, sv_active_cancel, sent,                                                  \
	       "Connections that carry a cancel request to the peer.")                        \
	COLUMN(INT4, sv_login, connecting, "Connections to the peer that are being established.")

SHOW_ROWS(peer_pools, "PEER_POOLS", PEER_POOL_ROW,
          "Cancel requests that are being forwarded to other instances.");

/* false: no lane has a pool for this peer. */
static bool fill_peer_pool(void *row, const struct lanes *lanes, int id)
{
	unsigned int sent = 0, connecting = 0, waiting = 0;
	const struct peer_pool *pool;
	bool has_pool = false;

	LANES_EACH (lane, lanes) {
		pool = peer_pool_find(lane->pools, id);
		if (!pool)
			continue;
		has_pool = true;
		sent += pool->queue.counts[CANCEL_SENT];
		connecting += pool->queue.counts[CANCEL_CONNECTING];
		waiting += pool->queue.counts[CANCEL_WAITING];
	}
	return ROW_FILL(row, struct peer_pools_shown, PEER_POOL_ROW) && has_pool;
}

static bool next_peer_pools(struct cursor *cursor, void *row)
{
	const struct lanes *lanes = cursor->lanes;
	const struct config_peer *peer;

	if (cursor->slot++ == 0 && fill_peer_pool(row, lanes, PEER_BY_DNS))
		return true;
	while ((peer = next_entry(cursor))) {
		if (fill_peer_pool(row, lanes, peer->id))
			return true;
	}
	return false;
}
