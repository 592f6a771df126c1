/* SPDX-License-Identifier: ISC */
/*
 * Requests: what a statement asks for.
 */
#include "admin_priv.h"

#include <strings.h>

#include "pgweir/base/text.h"

#include "pgweir/base/banned.h"

/* Of a query that nobody understands, as much as an error can hold. */
#define QUOTE_MAX 400

static bool is_empty(struct bytes text)
{
	struct token token;

	do
		token_next(&text, &token);
	while (token.kind == TOKEN_SIGN && token_is(&token, ";"));
	return token.kind == TOKEN_END;
}

bool request_read_talk(struct bytes text, struct request *request)
{
	*request = (struct request){ .kind = REQUEST_EMPTY };
	if (is_empty(text))
		return true;
	request->kind = REQUEST_TALK;
	request->talk = talk_find(text, &request->words);
	return request->talk != NULL;
}

static bool invalid(struct bytes text, struct err *err)
{
	size_t count = text.count;

	if (count > QUOTE_MAX) {
		for (count = QUOTE_MAX; count > 0 && (text.at[count] & 0xc0) == 0x80;)
			count--; /* not within a character of UTF-8 */
	}
	return err_set(err, ERR_SYNTAX, "invalid command '%.*s%s', use SHOW HELP;", (int)count,
	               text.at, count < text.count ? "..." : "");
}

/* SELECT is another word for SHOW. */
static bool is_show(struct words *words)
{
	if (words->count == 2 && strcasecmp(words->command, "SELECT") == 0)
		text_copy(words->command, sizeof(words->command), "SHOW");
	return words->count == 2 && strcasecmp(words->command, "SHOW") == 0;
}

bool request_read(struct bytes text, struct request *request, struct err *err)
{
	if (request_read_talk(text, request))
		return true;
	switch (words_read(text, &request->words)) {
	case WORDS_INVALID:
		return invalid(text, err);
	case WORDS_TOO_LONG:
		return err_set(err, ERR_SYNTAX, "bad arguments");
	case WORDS_OK:
		break;
	}
	request->kind = REQUEST_SHOW;
	if (is_show(&request->words)) {
		request->show = show_find(request->words.argument);
		if (request->show)
			return true;
	}
	request->kind = REQUEST_COMMAND;
	request->command = command_find(&request->words);
	return request->command || invalid(text, err);
}

struct columns request_columns(const struct request *request)
{
	if (request->kind == REQUEST_TALK && request->talk->text)
		return (struct columns){ &request->talk->column, 1 };
	return request->kind == REQUEST_SHOW ? request->show->columns : (struct columns){ 0 };
}

const char *request_tag(const struct request *request)
{
	switch (request->kind) {
	case REQUEST_TALK:
		return request->talk->tag;
	case REQUEST_SHOW:
		return "SHOW";
	case REQUEST_COMMAND:
		return request->command->tag;
	default:
		return "";
	}
}
