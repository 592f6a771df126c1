/* SPDX-License-Identifier: ISC */
/*
 * Parses message bodies.
 *
 * Hard here: every count and length comes from the peer and may be wrong. The take_ functions
 * parse a body from its front and never read past its end. At the end no byte may be left over.
 */
#include "pgweir/pgwire/fields.h"

#include "pgweir/base/hash.h"
#include "pgweir/pgwire/startup.h"

static bool take(struct bytes *in, size_t count, struct bytes *out)
{
	if (in->count < count)
		return false;
	*out = bytes_of(in->at, count);
	*in = bytes_skip(*in, count);
	return true;
}

static bool take_be16(struct bytes *in, uint16_t *value)
{
	struct bytes at;

	if (!take(in, 2, &at))
		return false;
	*value = load_be16(at.at);
	return true;
}

static bool take_be32(struct bytes *in, uint32_t *value)
{
	struct bytes at;

	if (!take(in, 4, &at))
		return false;
	*value = load_be32(at.at);
	return true;
}

/* Parses a count and that many items of `size` bytes. */
static bool take_array(struct bytes *in, size_t size, uint16_t *count, struct bytes *items)
{
	return take_be16(in, count) && take(in, *count * size, items);
}

/*
 * Parses a length of four bytes and that many bytes. Length -1 is SQL's NULL: value->at is
 * NULL.
 */
static bool take_value(struct bytes *in, struct bytes *value)
{
	uint32_t length;

	if (!take_be32(in, &length))
		return false;
	if (length == UINT32_MAX) {
		*value = bytes_of(NULL, 0);
		return true;
	}
	/* Any other negative length is invalid. */
	return length <= INT32_MAX && take(in, length, value);
}

static enum wire_result answer(bool ok) { return ok ? WIRE_OK : WIRE_BAD; }

/* ---- from a server ---- */

enum wire_result fields_report(struct bytes body, struct report *report)
{
	static const char letters[] = "SVCMDHWR";
	const char **const slots[] = { &report->severity, &report->verbatim, &report->sqlstate,
		                       &report->text,     &report->detail,   &report->hint,
		                       &report->context,  &report->routine };

	*report = (struct report){ .severity = "", .sqlstate = "", .text = "" };
	while (body.count && body.at[0]) {
		const char *letter = strchr(letters, body.at[0]), *text;

		body = bytes_skip(body, 1);
		if (!bytes_take_text(&body, &text))
			return WIRE_BAD;
		if (letter)
			*slots[letter - letters] = text;
	}
	return answer(body.count == 1);
}

enum wire_result fields_parameter(struct bytes body, const char **name, const char **value)
{
	return answer(bytes_take_text(&body, name) && **name && bytes_take_text(&body, value) &&
	              body.count == 0);
}

enum wire_result fields_key(struct bytes body, struct bytes *key)
{
	*key = body;
	return answer(body.count >= 8 && body.count <= CANCEL_KEY_MAX);
}

enum wire_result fields_negotiation(struct bytes body, struct negotiation *negotiation)
{
	struct bytes rest = bytes_skip(body, body.count < 8 ? body.count : 8);
	const char *name;

	if (body.count < 8)
		return WIRE_BAD;
	*negotiation = (struct negotiation){ load_be32(body.at), load_be32(body.at + 4), rest };
	for (uint32_t i = 0; i < negotiation->count; i++) {
		if (!bytes_take_text(&rest, &name))
			return WIRE_BAD;
	}
	return answer(rest.count == 0);
}

enum wire_result fields_types(struct bytes body)
{
	struct bytes types;
	uint16_t count;

	return answer(take_array(&body, 4, &count, &types) && body.count == 0);
}

uint32_t fields_columns(struct bytes body)
{
	static const struct hash_key key; /* the digest is handed over to other processes */
	struct hash_stream stream = hash_begin(&key);
	uint16_t count = 0;
	const char *name;

	if (body.count >= 2)
		count = load_be16(body.at);
	body = bytes_skip(body, body.count < 2 ? body.count : 2);
	for (; count-- > 0 && bytes_take_text(&body, &name) && body.count >= 18;
	     body = bytes_skip(body, 18)) {
		hash_add(&stream, hash_bytes(&key, name, strlen(name)));
		hash_add(&stream, (uint64_t)load_be32(body.at + 6) << 32 | load_be32(body.at + 12));
	}
	return (uint32_t)hash_end(&stream) | FIELDS_NO_COLUMNS << 1;
}

enum wire_result fields_text(struct bytes body, const char **text)
{
	return answer(bytes_take_text(&body, text) && body.count == 0);
}

bool fields_parse_sql(const struct frame *frame, struct bytes in, const char **name,
                      struct bytes *text)
{
	struct bytes body = frame_received(in, frame);
	const char *end;

	*name = "";
	*text = bytes_of("", 0);
	if (frame->type != 'P' || !bytes_take_text(&body, name))
		return false;
	end = body.count ? memchr(body.at, 0, body.count) : NULL;
	*text = bytes_of(body.at, end ? (size_t)(end - body.at) : body.count);
	return end || in.count < frame->length;
}

enum wire_result fields_auth(struct bytes body, struct auth_request *request)
{
	enum walk_result result;
	const char *name;

	*request = (struct auth_request){ 0 };
	if (!take_be32(&body, &request->kind))
		return WIRE_BAD;
	switch (request->kind) {
	case AUTH_OK:
	case AUTH_CLEARTEXT:
		return answer(body.count == 0);
	case AUTH_MD5:
		return answer(take(&body, 4, &request->salt) && body.count == 0);
	case AUTH_SASL:
		request->names = body;
		while ((result = fields_mechanism(&body, &name)) == WALK_ITEM)
			continue;
		return answer(result == WALK_END);
	default:
		/* A kind that we do not know is not an error here: the caller decides. */
		request->data = body;
		return WIRE_OK;
	}
}

enum walk_result fields_mechanism(struct bytes *names, const char **name)
{
	if (!bytes_take_text(names, name))
		return WALK_BAD;
	if (**name)
		return WALK_ITEM;
	return names->count == 0 ? WALK_END : WALK_BAD;
}

enum wire_result fields_row(struct bytes body, struct row_walk *walk)
{
	walk->rest = body;
	return answer(take_be16(&walk->rest, &walk->left));
}

enum walk_result fields_value(struct row_walk *walk, struct bytes *value)
{
	if (walk->left == 0)
		return walk->rest.count == 0 ? WALK_END : WALK_BAD;
	walk->left--;
	return take_value(&walk->rest, value) ? WALK_ITEM : WALK_BAD;
}

/* ---- from a client ---- */

/* What is at the front of a body: a byte ('S' or 'P'), then names, in this order. */
static enum wire_result take_names(char type, struct bytes *have, struct object_names *names)
{
	bool has_target = type == 'D' || type == 'C';
	bool has_portal = type == 'B' || type == 'E', has_statement = type == 'P' || type == 'B';

	if (has_target) {
		if (have->count == 0)
			return WIRE_MORE;
		names->target = have->at[0];
		*have = bytes_skip(*have, 1);
		has_portal = names->target == 'P';
		has_statement = names->target == 'S';
	}
	if (!has_portal && !has_statement)
		return WIRE_BAD;
	if ((has_portal && !bytes_take_text(have, &names->portal)) ||
	    (has_statement && !bytes_take_text(have, &names->statement)))
		return WIRE_MORE;
	return WIRE_OK;
}

enum wire_result fields_names(char type, struct bytes have, size_t length,
                              struct object_names *names)
{
	struct bytes rest = have;
	enum wire_result result;

	*names = (struct object_names){ 0 };
	if (have.count > length)
		rest.count = length;
	result = take_names(type, &rest, names);
	names->count = (size_t)(rest.at - have.at);
	/* The body is complete, so waiting for more bytes would not help. */
	return result == WIRE_MORE && have.count >= length ? WIRE_BAD : result;
}

enum wire_result fields_parse(struct bytes body, struct parse_fields *parse)
{
	return answer(bytes_take_text(&body, &parse->statement) &&
	              bytes_take_text(&body, &parse->query) &&
	              take_array(&body, 4, &parse->type_count, &parse->types) && body.count == 0);
}

/* Checks all values here, so that a later walk through them cannot fail. */
static bool take_parameters(struct bytes *in, struct row_walk *parameters)
{
	const char *first;
	struct bytes value;

	if (!take_be16(in, &parameters->left))
		return false;
	first = in->at;
	for (unsigned int i = 0; i < parameters->left; i++) {
		if (!take_value(in, &value))
			return false;
	}
	parameters->rest = bytes_of(first, (size_t)(in->at - first));
	return true;
}

enum wire_result fields_bind(struct bytes body, struct bind_fields *bind)
{
	return answer(
	    bytes_take_text(&body, &bind->portal) && bytes_take_text(&body, &bind->statement) &&
	    take_array(&body, 2, &bind->parameter_format_count, &bind->parameter_formats) &&
	    take_parameters(&body, &bind->parameters) &&
	    take_array(&body, 2, &bind->result_format_count, &bind->result_formats) &&
	    body.count == 0);
}

bool fields_is_binary(const struct bind_fields *bind, size_t column)
{
	if (bind->result_format_count == 1)
		column = 0; /* one format applies to all columns */
	return column < bind->result_format_count &&
	       load_be16(bind->result_formats.at + 2 * column) == 1;
}

enum wire_result fields_execute(struct bytes body, const char **portal, uint32_t *row_limit)
{
	return answer(bytes_take_text(&body, portal) && take_be32(&body, row_limit) &&
	              body.count == 0);
}

enum wire_result fields_sasl_initial(struct bytes body, const char **mechanism, struct bytes *data)
{
	return answer(bytes_take_text(&body, mechanism) && take_value(&body, data) &&
	              body.count == 0);
}
