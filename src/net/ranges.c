/* SPDX-License-Identifier: ISC */
/*
 * Lists of address ranges.
 */
#include "pgweir/net/ranges.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "pgweir/base/banned.h"

struct ranges {
	atomic_size_t reference_count; /* everything else never changes */
	bool has_unix;
	size_t count;
	struct range list[];
};

static bool add(struct ranges *ranges, const char *text, struct err *err)
{
	if (strcmp(text, "unix") == 0) {
		ranges->has_unix = true;
		return true;
	}
	switch (range_parse(&ranges->list[ranges->count], text, err)) {
	case RANGE_OK:
	case RANGE_NO_MASK:
		ranges->count++;
		return true;
	case RANGE_NAME:
		return err_set(err, ERR_CONFIG, "\"%s\" is not an address, a range or \"unix\"",
		               text);
	case RANGE_LOOSE:
	case RANGE_BAD:
		break;
	}
	return false;
}

struct ranges *ranges_new(char *const *texts, size_t count, struct err *err)
{
	struct ranges *ranges = calloc(1, sizeof(*ranges) + count * sizeof(ranges->list[0]));

	if (!ranges)
		err_set(err, ERR_MEMORY, "out of memory");
	else
		ranges->reference_count = 1;
	for (size_t i = 0; ranges && i < count; i++) {
		if (!add(ranges, texts[i], err))
			ranges_release(&ranges);
	}
	return ranges;
}

struct ranges *ranges_hold(struct ranges *ranges)
{
	ranges->reference_count++;
	return ranges;
}

void ranges_release(struct ranges **ranges)
{
	if (*ranges && --(*ranges)->reference_count == 0)
		free(*ranges);
	*ranges = NULL;
}

bool ranges_have(const struct ranges *ranges, const struct address *address)
{
	if (!ranges)
		return false;
	if (address_is_unix(address))
		return ranges->has_unix;
	for (size_t i = 0; i < ranges->count; i++) {
		if (range_has(&ranges->list[i], address))
			return true;
	}
	return false;
}
