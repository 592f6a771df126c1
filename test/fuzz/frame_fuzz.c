/* SPDX-License-Identifier: ISC */
/*
 * Fuzzing a stream of messages: each frame's body goes to every reader of fields.
 */
#include "pgweir/pgwire/fields.h"

#include <assert.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void touch(struct bytes bytes)
{
	volatile char sum = 0;

	for (size_t i = 0; i < bytes.count; i++)
		sum = (char)(sum ^ bytes.at[i]);
	(void)sum;
}

static void touch_text(const char *text) { touch(bytes_text(text)); }

static void walk_values(struct row_walk walk)
{
	struct bytes value;

	while (fields_value(&walk, &value) == WALK_ITEM)
		touch(value);
}

static void from_server(struct bytes body)
{
	struct auth_request request;
	struct report report;
	struct negotiation negotiation;
	struct row_walk walk;
	const char *a, *b;
	struct bytes key;
	char state;

	if (fields_report(body, &report) == WIRE_OK)
		touch_text(report.text);
	if (fields_parameter(body, &a, &b) == WIRE_OK)
		touch_text(b);
	if (fields_key(body, &key) == WIRE_OK)
		touch(key);
	if (fields_negotiation(body, &negotiation) == WIRE_OK)
		touch(negotiation.names);
	fields_ready(body, &state);
	if (fields_text(body, &a) == WIRE_OK)
		touch_text(a);
	if (fields_row(body, &walk) == WIRE_OK)
		walk_values(walk);
	if (fields_auth(body, &request) != WIRE_OK)
		return;
	touch(request.data);
	while (request.kind == AUTH_SASL && fields_mechanism(&request.names, &a) == WALK_ITEM)
		touch_text(a);
}

static void from_client(struct bytes body)
{
	struct parse_fields parse;
	struct bind_fields bind;
	struct bytes data;
	const char *text;
	uint32_t limit;

	if (fields_parse(body, &parse) == WIRE_OK)
		touch(parse.types);
	if (fields_bind(body, &bind) == WIRE_OK) {
		walk_values(bind.parameters);
		fields_is_binary(&bind, 3);
	}
	if (fields_execute(body, &text, &limit) == WIRE_OK)
		touch_text(text);
	if (fields_sasl_initial(body, &text, &data) == WIRE_OK)
		touch(data);
}

/* The names must not depend on how much has arrived. */
static void cut_names(char type, struct bytes body)
{
	enum wire_result result = WIRE_MORE;
	struct object_names names;

	for (size_t count = 0; count <= body.count && count < 64; count++) {
		enum wire_result now =
		    fields_names(type, bytes_of(body.at, count), body.count, &names);

		assert(result == WIRE_MORE || now == result);
		assert(now != WIRE_OK || names.count <= count);
		result = now;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bytes in = bytes_of(data, size);
	struct frame frame;

	while (frame_peek(in, 1 << 20, &frame) == WIRE_OK && frame.length <= in.count) {
		struct bytes body = frame_body(in, &frame);

		from_server(body);
		from_client(body);
		cut_names(frame.type, body);
		in = bytes_skip(in, frame.length);
	}
	return 0;
}
