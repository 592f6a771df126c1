/* SPDX-License-Identifier: ISC */
/*
 * SHOW of other instances: PEERS, PEER_POOLS, in the order of their ids. A cursor keeps the
 * last id as a number, so that a reload between two rows does no harm.
 */
#include "show_priv.h"

#include "pgweir/base/banned.h"

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

static const struct column peer_columns[] = {
	COLUMN(struct peer_row, VALUE_INT4, peer_id, "Number of the peer (its peer_id)."),
	COLUMN(struct peer_row, VALUE_TEXT, host,
	       "Host of the peer, or directory of its Unix socket."),
	COLUMN(struct peer_row, VALUE_INT4, port, "Port of the peer."),
	COLUMN(struct peer_row, VALUE_INT4, pool_size,
	       "Maximum number of cancel requests sent to the peer at the same time; 0: "
	       "no limit."),
};

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

const struct show show_peers = { "PEERS",
	                         next_peer,
	                         COLUMNS(peer_columns),
	                         "Other instances to which cancel requests are forwarded.",
	                         CONSOLE_STATS,
	                         SHOW_ALONE };

/* ---- PEER_POOLS ---- */

struct peer_pool_row {
	int64_t peer_id, cl_active_cancel_req, cl_waiting_cancel_req, sv_active_cancel, sv_login;
};

#define INT4(field, help) COLUMN(struct peer_pool_row, VALUE_INT4, field, help)

static const struct column peer_pool_columns[] = {
	INT4(peer_id, "Number of the peer (its peer_id)."),
	INT4(cl_active_cancel_req,
	     "Cancel requests that were sent to the peer and are not answered yet."),
	INT4(cl_waiting_cancel_req, "Cancel requests that wait in the queue or for a connection."),
	INT4(sv_active_cancel, "Connections that carry a cancel request to the peer."),
	INT4(sv_login, "Connections to the peer that are being established."),
};

#undef INT4

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

const struct show show_peer_pools = {
	"PEER_POOLS",
	next_peer_pool,
	COLUMNS(peer_pool_columns),
	"Cancel requests that are being forwarded to other instances.",
	CONSOLE_STATS,
	SHOW_ALONE
};
