/* SPDX-License-Identifier: ISC */
/*
 * Deals the records of a round to the lanes. The old process may have had any number of lanes.
 *
 *   a client              the lane to which its cancel key leads
 *   a listening client    the lane of its listening connection
 *   a lent server, a listening connection    the lane of the client whose record comes next
 *   an idle server        the lane where most clients of its pool are, for each server there
 *   all other records     each lane
 *
 * Hard here: the order. A statement comes before what knows it. A lane needs clients before the
 * idle servers, and both before the records of pools, as it makes no pool for those.
 */
#include "takeover_deal.h"

static struct bytes body_of(const struct channel_message *message)
{
	return buf_bytes(&message->body);
}

static void deal_to_all(const struct lanes *lanes, struct pools_arrival *arrivals,
                        struct channel_message *message)
{
	for (unsigned int i = 0; i < lanes->count; i++)
		pools_take(&arrivals[i], message->kind, body_of(message), &message->fd);
}

static void deal_pool(struct pools_arrival *arrival, struct channel_message *message)
{
	pools_take(arrival, HANDOVER_POOL, body_of(message), &message->fd);
}

static struct lane *lane_of_next_client(const struct lanes *lanes,
                                        const struct channel_messages *round, size_t at)
{
	while (++at < round->count) {
		if (round->at[at].kind == HANDOVER_CLIENT)
			return client_lane(lanes, body_of(&round->at[at]));
	}
	return lanes->at; /* a server without its client is closed there */
}

static void deal_client(const struct lanes *lanes, struct pools_arrival *arrivals,
                        struct channel_message *message)
{
	const struct lane *lane = client_lane(lanes, body_of(message));

	client_take(lane->clients, &arrivals[lane->number], body_of(message), &message->fd);
}

static struct lane *lane_in_need(const struct lanes *lanes, struct bytes body)
{
	struct lane *lane, *found = lanes->at;
	unsigned long need, most = 0;

	LANES_EACH(lane, lanes)
	{
		need = handover_server_need(lane->pools, body);
		if (need > most ||
		    (need == most && lane->pools->server_count < found->pools->server_count)) {
			most = need;
			found = lane;
		}
	}
	return found;
}

static void deal_server(struct lane *lane, struct pools_arrival *arrivals,
                        struct channel_message *message)
{
	pools_take(&arrivals[lane->number], HANDOVER_SERVER, body_of(message), &message->fd);
}

/* Those that are not idle. */
static void deal_in_order(const struct lanes *lanes, struct pools_arrival *arrivals,
                          struct channel_messages *round)
{
	for (size_t i = 0; i < round->count; i++) {
		struct channel_message *message = &round->at[i];

		if (message->kind == HANDOVER_CLIENT)
			deal_client(lanes, arrivals, message);
		else if (message->kind == HANDOVER_POOL)
			deal_pool(&arrivals[0], message);
		else if (message->kind != HANDOVER_SERVER)
			deal_to_all(lanes, arrivals, message);
		else if (handover_server_is_lent(body_of(message)))
			deal_server(lane_of_next_client(lanes, round, i), arrivals, message);
	}
}

/* What deal_in_order() has left; the descriptor of a server that was used is -1. */
static void deal_rest(const struct lanes *lanes, struct pools_arrival *arrivals,
                      struct channel_messages *round)
{
	for (size_t i = 0; i < round->count; i++) {
		struct channel_message *message = &round->at[i];

		if (message->kind == HANDOVER_SERVER && message->fd >= 0)
			deal_server(lane_in_need(lanes, body_of(message)), arrivals, message);
	}
	for (size_t i = 0; i < round->count; i++) {
		if (round->at[i].kind != HANDOVER_POOL)
			continue;
		for (unsigned int lane = 1; lane < lanes->count; lane++)
			deal_pool(&arrivals[lane], &round->at[i]);
	}
}

void takeover_deal(const struct lanes *lanes, struct pools_arrival *arrivals,
                   struct channel_messages *round)
{
	struct lane *lane;

	deal_in_order(lanes, arrivals, round);
	deal_rest(lanes, arrivals, round);
	LANES_EACH(lane, lanes)
	{
		pools_take_end(&arrivals[lane->number]);
		clients_start(lane->clients);
	}
}
