/* SPDX-License-Identifier: ISC */
/*
 * Parts of records: parameters, addresses, statistics.
 */
#include "handover_priv.h"

#include "pgweir/base/banned.h"

void params_write(struct buf *record, char tag, const struct params *params)
{
	const char *at = NULL, *name, *value;
	struct buf pairs = { 0 };

	while (params_next(params, &at, &name, &value)) {
		buf_add_cstr(&pairs, name);
		buf_add_cstr(&pairs, value);
	}
	if (!buf_ok(&pairs))
		record->is_broken = true;
	record_add_bytes(record, tag, buf_bytes(&pairs));
	buf_free(&pairs);
}

bool params_check(struct bytes pairs)
{
	const char *name, *value;

	while (pairs.count) {
		if (!bytes_take_text(&pairs, &name) || !*name || !bytes_take_text(&pairs, &value))
			return false;
	}
	return true;
}

void params_read(struct pools *pools, struct bytes pairs, const struct params **params)
{
	const char *name, *value;

	*params = params_none(pools->with.params);
	while (bytes_take_text(&pairs, &name) && bytes_take_text(&pairs, &value))
		params_change(pools->with.params, params, name, value);
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
