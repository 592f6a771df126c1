/* SPDX-License-Identifier: ISC */
/*
 * SHOW LOOPS: what each event loop has, and how much it does.
 */
#include "show_priv.h"

#include "pgweir/base/banned.h"

struct loop_row {
	int64_t loop, clients, servers, idle_servers, active_servers;
	int64_t turns, cpu_time, servers_in, servers_out;
};

#define INT4(field, help) COLUMN(struct loop_row, VALUE_INT4, field, help)
#define INT8(field, help) COLUMN(struct loop_row, VALUE_INT8, field, help)

static const struct column loop_columns[] = {
	INT4(loop, "Number of the event loop, from 0. The first one also accepts connections, and "
	           "serves the console."),
	INT4(clients, "Number of its client connections, including those that are logging in."),
	INT4(servers, "Number of its server connections."),
	INT4(idle_servers, "Number of its idle server connections."),
	INT4(active_servers, "Number of its server connections that are assigned to a client, "
	                     "being checked or reset, or that wait for a cancel request."),
	INT8(turns, "How often the loop has waited for events and handled them."),
	INT8(cpu_time, "Processor time of the loop's thread, in microseconds, without polling that "
	               "found nothing (busy_poll)."),
	INT8(servers_in, "Number of server connections that came from other loops."),
	INT8(servers_out, "Number of server connections that went to other loops."),
};

#undef INT4
#undef INT8

static int64_t count_idle(const struct pools *pools)
{
	const struct pool *pool;
	int64_t count = 0;

	TAILQ_FOREACH (pool, &pools->list, node)
		count += pool->server_counts[SERVER_IDLE] + pool->server_counts[SERVER_USED];
	return count;
}

static bool next_loop(struct cursor *cursor, void *row)
{
	const struct lanes *lanes = show_source_lanes(cursor->source);
	const struct lane *lane;

	if (cursor->index == lanes->count)
		return false;
	lane = &lanes->at[cursor->index++];
	*(struct loop_row *)row = (struct loop_row){
		.loop = lane->number,
		.clients = lane->clients->count,
		.servers = lane->pools->server_count,
		.idle_servers = count_idle(lane->pools),
		.active_servers = lane->pools->busy_count,
		.turns = (int64_t)loop_turn_count(lane->loop),
		.cpu_time = loop_cpu(lane->loop),
		.servers_in = (int64_t)lane->pools->moved_in,
		.servers_out = (int64_t)lane->pools->moved_out,
	};
	return true;
}

const struct show show_loops = {
	.item = "LOOPS",
	.next = next_loop,
	.columns = COLUMNS(loop_columns),
	.help = "Event loops: the connections of each, its processor time, and the server "
		"connections that came from and went to others.",
};
