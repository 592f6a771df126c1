/* SPDX-License-Identifier: ISC */
/*
 * Fuzzing the first packet: from any bytes, whole and at every cut, and its
 * `options`.
 */
#include "pgweir/pgwire/startup.h"

#include <assert.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void walk_options(const char *text)
{
	struct options_walk walk = { .rest = text };
	const char *name, *value;

	while (options_next(&walk, &name, &value, NULL) == WALK_ITEM)
		assert(*name && strlen(value) <= strlen(text));
	options_done(&walk);
}

static void walk_pairs(struct bytes packet)
{
	struct bytes list = startup_pairs(packet);
	const char *name, *value;

	while (startup_next(&list, &name, &value, NULL) == WALK_ITEM) {
		assert(*name);
		walk_options(value);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	enum wire_result result = WIRE_MORE;
	struct startup startup;

	for (size_t count = 0; count <= size && count <= STARTUP_HEADER_SIZE; count++) {
		enum wire_result now = startup_peek(bytes_of(data, count), &startup);

		assert(result == WIRE_MORE || now == result);
		result = now;
	}
	if (result != WIRE_OK || startup.kind == STARTUP_TLS_HELLO || startup.length > size)
		return 0;
	assert(startup.length >= STARTUP_HEADER_SIZE && startup.length <= STARTUP_MAX);
	if (startup.kind == STARTUP_CANCEL)
		assert(startup_cancel_key(bytes_of(data, startup.length)).count <= CANCEL_KEY_MAX);
	else if (startup.kind == STARTUP_VERSION_3)
		walk_pairs(bytes_of(data, startup.length));
	return 0;
}
