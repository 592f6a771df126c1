/* SPDX-License-Identifier: ISC */
/*
 * Parts of records: parameters, addresses, statistics.
 */
#include "handover_priv.h"

#include "pgweir/base/banned.h"

/* As many counters as there can be letters. */
#define COUNTERS_SIZE_MAX (256 * (RECORD_HEADER_SIZE + sizeof(uint64_t)))

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

/*
 * Each counter has its letter, and the reader leaves out those that it does not know: a new
 * one needs no other HANDOVER_VERSION.
 */
#define WRITE_COUNTER(field, letter, ...) record_add_number(&counters, letter, stats->field);

void handover_write_stats(struct buf *record, const struct stats *stats)
{
	struct buf counters = { 0 };

	STATS_COUNTERS(WRITE_COUNTER, WRITE_COUNTER)
	if (!buf_ok(&counters))
		record->is_broken = true;
	record_add_bytes(record, 'S', buf_bytes(&counters));
	buf_free(&counters);
}

#define READ_COUNTER(field, letter, ...) \
	case letter:                     \
		stats->field = value;    \
		break;

void handover_read_stats(struct record *record, struct stats *stats)
{
	struct record counters = { .rest = record_bytes(record, 'S', COUNTERS_SIZE_MAX) };
	uint64_t value;
	char letter;

	*stats = (struct stats){ 0 };
	while (counters.rest.count && !counters.is_bad) {
		letter = *counters.rest.at;
		value = record_number(&counters, letter);
		switch (letter) {
			STATS_COUNTERS(READ_COUNTER, READ_COUNTER)
		default:
			break;
		}
	}
	record->is_bad |= counters.is_bad;
}
