/* SPDX-License-Identifier: ISC */
/*
 * Fuzzing PROXY headers: any bytes, at every cut; a result must never change with more
 * input, and data after a header must not change anything.
 */
#include "pgweir/pgwire/proxy.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool same(const struct proxy *a, const struct proxy *b)
{
	return a->source == b->source && a->port == b->port && a->length == b->length &&
	       memcmp(a->host, b->host, sizeof(a->host)) == 0;
}

/* At this cut, in memory that ends there. */
static enum wire_result read_cut(const uint8_t *data, size_t count, struct proxy *proxy)
{
	char *copy = malloc(count);
	enum wire_result result;
	struct err err;

	memcpy(copy, data, count);
	result = WIRE_BAD;
	if (proxy_begins(bytes_of(copy, count)))
		result = proxy_read(bytes_of(copy, count), proxy, &err);
	free(copy);
	return result;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	enum wire_result result = WIRE_MORE;
	struct proxy first = { 0 }, proxy = { 0 };

	for (size_t count = 1; count <= size && count <= 600; count++) {
		enum wire_result now = read_cut(data, count, &proxy);

		assert(result == WIRE_MORE || now == result);
		if (result == WIRE_MORE && now == WIRE_OK) {
			assert(proxy.length == count);
			first = proxy;
		}
		if (now == WIRE_OK)
			assert(same(&first, &proxy));
		result = now;
	}
	if (size && read_cut(data, size, &proxy) == WIRE_OK)
		assert(proxy.length <= size && proxy.length <= PROXY_HEADER_MAX);
	return 0;
}
