/* SPDX-License-Identifier: ISC */
/*
 * Parts of records: parameters, addresses, statistics.
 */
#include "handover_priv.h"

#include "pgweir/base/banned.h"

void params_write(struct buf *record, char tag, const struct params *params)
{
	record_add_bytes(record, tag, params_text(params));
}

bool params_check(struct bytes pairs)
{
	const char *name, *value;
	unsigned int count = 0;

	while (pairs.count) {
		if (!bytes_take_text(&pairs, &name) || !*name || !bytes_take_text(&pairs, &value))
			return false;
		count++;
	}
	return count <= PARAMS_NAMES_MAX;
}

void params_read(struct pools *pools, struct bytes pairs, const struct params **params)
{
	*params = params_none(pools->with.params);
	params_add_text(pools->with.params, params, pairs);
}

void address_write(struct buf *record, char tag, const struct address *address)
{
	record_add_bytes(record, tag, bytes_of(address, sizeof(*address)));
}

void address_read(struct record *record, char tag, struct address *address)
{
	struct bytes bytes = record_bytes(record, tag, sizeof(*address));

	*address = (struct address){ 0 };
	if (bytes.count == sizeof(*address))
		memcpy(address, bytes.at, sizeof(*address));
	else
		record->is_bad = true;
	if (address->family != AF_UNSPEC && address->family != AF_INET &&
	    address->family != AF_INET6 && address->family != AF_UNIX)
		record->is_bad = true;
}

void handover_write_stats(struct buf *record, const struct stats *stats)
{
	for (unsigned int i = 0; i < STATS_FIELDS; i++)
		record_add_number(record, 'S', ((const uint64_t *)stats)[i]);
}

void handover_read_stats(struct record *record, struct stats *stats)
{
	for (unsigned int i = 0; i < STATS_FIELDS; i++)
		((uint64_t *)stats)[i] = record_number(record, 'S');
}
