/* SPDX-License-Identifier: ISC */
/*
 * Fuzzing the first packet: any bytes, complete and at every cut, its `options`, and
 * the response to its version and its protocol options.
 */
#include "pgweir/pgwire/startup.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "pgweir/pgwire/fields.h"
#include "pgweir/pgwire/message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void walk_options(const char *text)
{
	struct options_walk walk = { .rest = text };
	const char *name, *value;

	while (startup_options_next(&walk, &name, &value, NULL) == WALK_ITEM)
		assert(*name && strlen(value) <= strlen(text));
	startup_options_done(&walk);
}

/* The NegotiateProtocolVersion message must be readable by the peer. */
static void negotiate(unsigned int minor, const struct buf *names, uint32_t count)
{
	struct negotiation told;
	struct frame frame;
	struct buf out = { 0 };

	message_negotiate(&out, startup_agreed(minor), buf_bytes(names));
	assert(frame_peek(buf_bytes(&out), UINT32_MAX, &frame) == WIRE_OK);
	assert(frame.type == 'v' && frame.length == out.count);
	assert(fields_negotiation(frame_body(buf_bytes(&out), &frame), &told) == WIRE_OK);
	assert(told.version >= PROTOCOL_3_0 && told.version <= PROTOCOL_3_0 + minor);
	assert(told.count == count && bytes_equal(told.names, buf_bytes(names)));
	buf_free(&out);
}

static void walk_pairs(struct bytes packet, unsigned int minor)
{
	struct bytes list = startup_body(packet);
	const char *name, *value;
	struct buf unknown = { 0 };
	uint32_t count = 0;

	while (startup_next(&list, &name, &value, NULL) == WALK_ITEM) {
		assert(*name);
		walk_options(value);
		if (strncmp(name, "_pq_.", 5) == 0) {
			buf_add_cstr(&unknown, name);
			count++;
		}
	}
	negotiate(minor, &unknown, count);
	buf_free(&unknown);
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
		assert(startup_body(bytes_of(data, startup.length)).count <= CANCEL_KEY_MAX);
	else if (startup.kind == STARTUP_VERSION_3)
		walk_pairs(bytes_of(data, startup.length), startup.minor);
	return 0;
}
