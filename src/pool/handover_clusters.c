/* SPDX-License-Identifier: ISC */
/*
 * Hand-over of what is known about hosts: the states that an administrator has set, and the rosters
 * of clusters.
 *
 * Hard here: without the newest timeline that has counted, a former primary would be taken for the
 * current one if that is down. So a roster arrives before the pools that use it, and is kept until
 * they have been made.
 */
#include <stdlib.h>

#include "pgweir/base/text.h"

#include "broker_priv.h"
#include "handover_priv.h"

/* ---- writing ---- */

static void write_row(struct buf *record, const struct roster_row *row)
{
	struct row_record values = {
		.host = row->host,
		.address = row->address,
		.role = (uint64_t)row->known.role,
		.is_read_only = row->known.is_read_only,
		.is_sure = row->is_sure,
		.is_elected = row->is_elected,
		.timeline = row->known.timeline,
		.system = row->known.system,
		.started = row->known.started,
		.seen_at = row->seen_at,
		.since = row->since,
		.lost_at = row->is_lost ? row->lost_at : 0,
	};

	record_write(record, &row_record_table, &values);
}

static bool write_cluster(struct cluster *cluster, struct channel *channel)
{
	struct roster_memory memory = { 0 };
	struct cluster_record values = { .name = buf_bytes(&cluster->name) };
	struct buf record = { 0 };
	bool ok;

	if (!roster_memory_at(&cluster->roster, 0, &memory))
		return true;
	values.timeline = memory.timeline;
	values.system = memory.system;
	record_write(&record, &cluster_record_table, &values);
	for (unsigned int i = 0; roster_memory_at(&cluster->roster, i, &memory); i++) {
		if (memory.row.seen_at)
			write_row(&record, &memory.row);
	}
	ok = channel_send_record(channel, HANDOVER_CLUSTER, &record, -1);
	buf_free(&record);
	return ok;
}

static bool write_closed(const struct closed_host *closed, struct channel *channel)
{
	struct closed_host_record values = { .is_disabled = closed->admin == HOST_DISABLED };
	struct buf record = { 0 };
	bool ok;

	text_copy(values.host, sizeof(values.host), closed->name);
	record_write(&record, &closed_host_record_table, &values);
	ok = channel_send_record(channel, HANDOVER_CLOSED_HOST, &record, -1);
	buf_free(&record);
	return ok;
}

bool handover_clusters_write(struct broker *broker, struct channel *channel)
{
	const struct closed_host *closed = broker->closed_hosts;
	struct cluster *cluster;
	bool ok = true;

	for (; ok && closed; closed = closed->next)
		ok = write_closed(closed, channel);
	for (unsigned int i = 0; i < CLUSTER_CHAINS; i++) {
		for (cluster = broker->clusters[i]; ok && cluster; cluster = cluster->next)
			ok = write_cluster(cluster, channel);
	}
	return ok;
}

/* ---- reading ---- */

/* What the record of a cluster begins with. */
struct arriving_cluster {
	struct cluster_record values;
	struct cluster_key key; /* borrows from the record */
	struct record rows;     /* not read yet */
};

static bool read_cluster(struct bytes body, struct arriving_cluster *arriving,
                         struct record *record)
{
	struct bytes name;
	const char *port;
	int64_t number;

	*record = (struct record){ .rest = body };
	record_read(record, &cluster_record_table, &arriving->values);
	name = arriving->values.name;
	arriving->rows = *record;
	if (record->is_bad || !bytes_take_text(&name, &arriving->key.hosts) ||
	    !bytes_take_text(&name, &port) || !bytes_take_text(&name, &arriving->key.user) ||
	    name.count || !text_to_i64(port, &number) || number < 0 || number > UINT16_MAX)
		return false;
	arriving->key.port = (int)number;
	return true;
}

static bool read_row(struct record *record, struct row_record *row)
{
	if (!record_has_table(record, &row_record_table))
		return false;
	record_read(record, &row_record_table, row);
	return !record->is_bad;
}

bool handover_clusters_judge(struct bytes body, struct err *err)
{
	struct arriving_cluster arriving;
	struct record record;
	struct row_record row;
	bool is_good = read_cluster(body, &arriving, &record);

	while (is_good && read_row(&record, &row))
		continue;
	return (is_good && record_is_whole(&record)) || handover_refuse(&record, "cluster", err);
}

static struct roster_memory memory_of(const struct cluster_record *cluster,
                                      const struct row_record *row)
{
	return (struct roster_memory){
		.timeline = (uint32_t)cluster->timeline,
		.system = cluster->system,
		.row = {
			.host = (unsigned int)row->host,
			.address = row->address,
			.known = {
				.role = (enum host_role)row->role,
				.is_read_only = row->is_read_only,
				.timeline = (uint32_t)row->timeline,
				.system = row->system,
				.started = row->started,
			},
			.is_sure = row->is_sure,
			.is_elected = row->is_elected,
			.seen_at = row->seen_at,
			.since = row->since,
			.is_lost = row->lost_at != 0,
			.lost_at = row->lost_at,
		},
	};
}

/* The cluster stays for the time of the take-over, whether a pool uses it or not. */
static struct cluster *hold(struct pools_arrival *arrival, const struct cluster_key *key,
                            usec_t now)
{
	size_t count = arrival->cluster_count + 1;
	struct cluster **list = realloc(arrival->clusters, count * sizeof(*list));

	if (!list)
		return NULL;
	arrival->clusters = list;
	list[count - 1] = clusters_hold(arrival->pools->with.broker, key, now);
	if (list[count - 1])
		arrival->cluster_count = count;
	return list[count - 1];
}

void handover_clusters_take(struct pools_arrival *arrival, struct bytes body)
{
	usec_t now = loop_now(arrival->pools->with.loop);
	struct arriving_cluster arriving;
	struct cluster *cluster;
	struct record record;
	struct row_record row;

	if (arrival->first || arrival->is_later || !read_cluster(body, &arriving, &record))
		return;
	cluster = hold(arrival, &arriving.key, now);
	while (cluster && read_row(&record, &row)) {
		struct roster_memory memory = memory_of(&arriving.values, &row);

		roster_remember(cluster_roster(cluster), &memory, now);
	}
}

void handover_clusters_close_host(struct pools_arrival *arrival,
                                  const struct closed_host_record *record)
{
	if (!arrival->first && !arrival->is_later)
		clusters_set_admin(arrival->pools->with.broker, record->host,
		                   record->is_disabled ? HOST_DISABLED : HOST_DRAINING,
		                   loop_now(arrival->pools->with.loop));
}

void handover_clusters_done(struct pools_arrival *arrival)
{
	while (arrival->cluster_count)
		clusters_release(arrival->pools->with.broker,
		                 &arrival->clusters[--arrival->cluster_count]);
	free(arrival->clusters);
	arrival->clusters = NULL;
}
