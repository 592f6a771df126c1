/* SPDX-License-Identifier: ISC */
/*
 * What Patroni says of a cluster (GET /cluster): its members, and the switchover that is planned.
 *
 *   { "members": [ { "name": "n1", "role": "leader", "state": "running", "host": "10.0.0.1",
 *                    "port": 5432, ... }, ... ],
 *     "pause": true, "scheduled_switchover": { "at": "2026-11-28T03:00:00+00:00", "from": "n1" } }
 *
 * Neither role nor state is believed: PostgreSQL itself is asked.
 */
#include "patroni_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "pgweir/base/text.h"
#include "pgweir/config/entries.h"

/* The member as an item of a list. false: it has no place yet, or no good one. */
static bool place_of(const struct json *member, char out[PATRONI_PLACE_SIZE])
{
	struct json host, port;
	struct bytes place;
	bool is_v6;

	if (!json_find(member, "host", &host) || host.kind != JSON_TEXT ||
	    host.text.count > PATRONI_HOST_MAX || !hosts_source_names_host(host.text) ||
	    !json_find(member, "port", &port) || port.kind != JSON_WORD || port.text.count > 5)
		return false;
	is_v6 = memchr(host.text.at, ':', host.text.count) != NULL;
	snprintf(out, PATRONI_PLACE_SIZE, "%s%.*s%s:%.*s", is_v6 ? "[" : "", (int)host.text.count,
	         host.text.at, is_v6 ? "]" : "", (int)port.text.count, port.text.at);
	place = bytes_text(out);
	return config_host_port(&place, 0) != 0;
}

static int compare(const void *a, const void *b) { return strcmp(a, b); }

struct places {
	char list[CONFIG_HOSTS_MAX][PATRONI_PLACE_SIZE];
	unsigned int count;
};

/* The same order each time, and each once. */
static void write_list(struct places *places, struct buf *out)
{
	qsort(places->list, places->count, sizeof(places->list[0]), compare);
	for (unsigned int i = 0; i < places->count; i++) {
		if (i && strcmp(places->list[i], places->list[i - 1]) == 0)
			continue;
		buf_printf(out, "%s%s", i ? "," : "", places->list[i]);
	}
}

/* 2026-11-28T03:00:00.123+01:00, in seconds since 1970; 0: it is no such time. */
static int64_t time_of(struct bytes text)
{
	struct tm at = { 0 }, zone = { 0 };
	const char *rest;
	char copy[40];

	snprintf(copy, sizeof(copy), "%.*s", (int)(text.count < 39 ? text.count : 39), text.at);
	rest = strptime(copy, "%Y-%m-%dT%H:%M:%S", &at);
	if (!rest)
		return 0;
	rest += strspn(rest, ".0123456789");
	if (*rest && !strptime(rest, "%z", &zone))
		return 0;
	return timegm(&at) - zone.tm_gmtoff;
}

/* The switchover that is planned, if it has a time. *from: the name of the member that leaves. */
static int64_t planned(const struct json *cluster, struct json *from)
{
	struct json plan, at;

	if (!json_find(cluster, "scheduled_switchover", &plan) || !json_find(&plan, "at", &at) ||
	    at.kind != JSON_TEXT || !json_find(&plan, "from", from) || from->kind != JSON_TEXT)
		return 0;
	return time_of(at.text);
}

bool patroni_read(struct bytes text, struct patroni *found, struct err *err)
{
	struct json cluster, members, member, name, from;
	struct places places = { .count = 0 };
	enum json_step step;
	int64_t leaves_at;

	found->leaves_at = 0;
	if (!json_take(&text, &cluster) || text.count || cluster.kind != JSON_OBJECT ||
	    !json_find(&cluster, "members", &members) || members.kind != JSON_ARRAY)
		return err_set(err, ERR_PROTOCOL, "its answer is not that of Patroni's /cluster");
	leaves_at = planned(&cluster, &from);
	while ((step = json_next(&members.text, NULL, &member)) == JSON_ONE) {
		char *place = places.list[places.count];

		if (places.count == CONFIG_HOSTS_MAX)
			return err_set(err, ERR_LIMIT, "it has more than %d members",
			               CONFIG_HOSTS_MAX);
		if (!place_of(&member, place))
			continue;
		places.count++;
		if (leaves_at && json_find(&member, "name", &name) &&
		    bytes_equal(name.text, from.text)) {
			found->leaves_at = leaves_at;
			memcpy(found->leaving, place, sizeof(found->leaving));
		}
	}
	if (step == JSON_BAD)
		return err_set(err, ERR_PROTOCOL, "its answer is not JSON");
	if (!places.count)
		return err_set(err, ERR_PROTOCOL, "it has no members");
	write_list(&places, &found->hosts);
	return buf_ok(&found->hosts) || err_set(err, ERR_MEMORY, "out of memory");
}
