/* SPDX-License-Identifier: ISC */
/*
 * The first packet of a connection.
 *
 *   int32 length | int32 code | name \0 value \0 ... \0        a startup packet
 *
 * Hard here: the bytes come from unauthenticated clients and may arrive one at a time. Each
 * result is returned as soon as it is certain, and not earlier.
 */
#include "pgweir/pgwire/startup.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#define TLS_HANDSHAKE 0x16 /* the first byte of a TLS ClientHello's record */

/*
 * Requests whose code is not a protocol version. `least` and `most`: size of the whole packet
 * in bytes.
 */
static const struct request {
	uint32_t code;
	enum startup_kind kind;
	uint32_t least, most;
} requests[] = {
	{ 80877102, STARTUP_CANCEL, STARTUP_HEADER_SIZE, STARTUP_HEADER_SIZE + CANCEL_KEY_MAX },
	{ 80877103, STARTUP_TLS_REQUEST, STARTUP_HEADER_SIZE, STARTUP_HEADER_SIZE },
	{ 80877104, STARTUP_GSS_REQUEST, STARTUP_HEADER_SIZE, STARTUP_HEADER_SIZE },
};

static enum wire_result judge_code(uint32_t code, struct startup *startup)
{
	for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
		const struct request *request = &requests[i];

		if (code != request->code)
			continue;
		startup->kind = request->kind;
		return startup->length >= request->least && startup->length <= request->most
		           ? WIRE_OK
		           : WIRE_BAD;
	}
	startup->kind = STARTUP_OTHER;
	if (startup->length > STARTUP_MAX) {
		startup->kind = STARTUP_TOO_LONG;
		return WIRE_BAD;
	}
	if (code >> 16 == 3) {
		startup->kind = STARTUP_VERSION_3;
		startup->minor = (uint16_t)code;
	} else if (code >> 16 == 2) {
		startup->kind = STARTUP_VERSION_2;
	}
	return WIRE_OK;
}

enum wire_result startup_peek(struct bytes in, struct startup *startup)
{
	*startup = (struct startup){ .kind = STARTUP_OTHER };
	if (in.count >= 1 && in.at[0] == TLS_HANDSHAKE) {
		startup->kind = STARTUP_TLS_HELLO;
		return WIRE_OK;
	}
	if ((in.count >= 1 && in.at[0] != 0) || (in.count >= 2 && in.at[1] != 0))
		return WIRE_BAD; /* no packet is that long */
	if (in.count < 4)
		return WIRE_MORE;
	startup->length = load_be32(in.at);
	if (startup->length < STARTUP_HEADER_SIZE)
		return WIRE_BAD;
	if (in.count < STARTUP_HEADER_SIZE)
		return WIRE_MORE;
	return judge_code(load_be32(in.at + 4), startup);
}

uint32_t startup_agreed(unsigned int minor) { return minor >= 2 ? PROTOCOL_3_2 : PROTOCOL_3_0; }

struct bytes startup_body(struct bytes packet) { return bytes_skip(packet, STARTUP_HEADER_SIZE); }

enum walk_result startup_next(struct bytes *list, const char **name, const char **value,
                              struct err *err)
{
	const char *words = "invalid startup packet layout: expected terminator as last byte";

	if (list->count == 1 && list->at[0] == 0) {
		*list = bytes_skip(*list, 1);
		return WALK_END;
	}
	/* An empty name is the terminator, and here it is not the last byte. */
	if (list->count == 0 || list->at[0] == 0 || !bytes_take_text(list, name) ||
	    !bytes_take_text(list, value)) {
		err_set(err, ERR_PROTOCOL, "%s", words);
		return WALK_BAD;
	}
	return WALK_ITEM;
}

/*
 * Whether `value` is a prefix of `word` with at least `least` bytes: PostgreSQL accepts such
 * prefixes for a boolean.
 */
static bool begins(const char *word, const char *value, size_t least)
{
	size_t count = strlen(value);

	return count >= least && strncasecmp(word, value, count) == 0;
}

bool startup_is_true(const char *value)
{
	return begins("true", value, 1) || begins("yes", value, 1) || begins("on", value, 2) ||
	       begins("1", value, 1);
}

enum replication startup_replication(const char *value)
{
	if (strcmp(value, "database") == 0)
		return REPLICATION_LOGICAL;
	return startup_is_true(value) ? REPLICATION_PHYSICAL : REPLICATION_NONE;
}

static bool is_blank(char byte) { return isspace((unsigned char)byte); }

/* Adds the next word, unescaped and with a terminating zero. false: there is no further word. */
static bool take_word(struct options_walk *walk)
{
	const char *at = walk->rest;

	while (is_blank(*at))
		at++;
	walk->rest = at;
	if (!*at)
		return false;
	for (; *at && !is_blank(*at); at++) {
		if (*at == '\\' && !*++at)
			break;
		buf_add_byte(&walk->words, *at);
	}
	buf_add_byte(&walk->words, 0);
	walk->rest = at;
	return true;
}

/* Sets *setting to the text "name=value" of one option. false: the option has another form. */
static bool take_setting(struct options_walk *walk, char **setting)
{
	char *word;

	if (!buf_ok(&walk->words))
		return false;
	word = walk->words.at;
	if (word[0] != '-' || (word[1] != 'c' && word[1] != '-'))
		return false;
	if (word[1] == 'c' && !word[2]) {
		buf_clear(&walk->words);
		if (!take_word(walk) || !buf_ok(&walk->words))
			return false;
		*setting = walk->words.at;
		return true;
	}
	*setting = word + 2;
	return true;
}

enum walk_result startup_options_next(struct options_walk *walk, const char **name,
                                      const char **value, struct err *err)
{
	char *setting, *equals;

	buf_clear(&walk->words);
	if (!take_word(walk))
		return WALK_END;
	if (!take_setting(walk, &setting))
		goto bad;
	equals = strchr(setting, '=');
	if (!equals || equals == setting)
		goto bad;
	*equals = 0;
	for (char *at = setting; at < equals; at++)
		*at = *at == '-' ? '_' : *at;
	*name = setting;
	*value = equals + 1;
	return WALK_ITEM;

bad:
	err_set(err, ERR_SYNTAX,
	        "unsupported options startup parameter: "
	        "only '-c config=val' and '--config=val' are allowed");
	return WALK_BAD;
}

void startup_options_done(struct options_walk *walk) { buf_free(&walk->words); }
