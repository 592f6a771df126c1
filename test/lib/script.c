/* SPDX-License-Identifier: ISC */
/*
 * The player of scripts.
 */
#include "script.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "pgweir/pgwire/fields.h"
#include "pgweir/pgwire/frame.h"
#include "pgweir/pgwire/message.h"

static struct peer *peer_of(struct stage *stage, char name)
{
	return name >= 'a' ? &stage->clients[name - 'a'] : &stage->servers[name - '1'];
}

/* ---- the clock ---- */

static usec_t stage_now; /* 0: no stage is open */

/*
 * Replaces the function of libc in the whole program, libevent included. On a stage a word takes a
 * microsecond, so that there is an earlier and a later, and else only await() moves the monotonic
 * clock on: however busy the machine is, no timer falls due before the script waits for it.
 */
int clock_gettime(clockid_t clock, struct timespec *time)
{
	if (!stage_now || (clock != CLOCK_MONOTONIC && clock != CLOCK_MONOTONIC_COARSE))
		return (int)syscall(SYS_clock_gettime, clock, time);
	time->tv_sec = (time_t)(stage_now / USEC_PER_SEC);
	time->tv_nsec = (long)(stage_now % USEC_PER_SEC * 1000);
	return 0;
}

/* ---- the dialogue, for people ---- */

struct message_name {
	char letter;
	const char *name;
};

static const struct message_name requests[] = {
	{ 'Q', "Query" },     { 'P', "Parse" },    { 'B', "Bind" },
	{ 'E', "Execute" },   { 'D', "Describe" }, { 'C', "Close" },
	{ 'S', "Sync" },      { 'H', "Flush" },    { 'F', "FunctionCall" },
	{ 'd', "CopyData" },  { 'c', "CopyDone" }, { 'f', "CopyFail" },
	{ 'X', "Terminate" }, { 'p', "Password" }, { '^', "Startup" },
	{ '.', "the end" },   { 0, NULL },
};

static const struct message_name replies[] = {
	{ 'R', "Authentication" },
	{ 'K', "BackendKeyData" },
	{ 'S', "ParameterStatus" },
	{ 'Z', "ReadyForQuery" },
	{ 'z', "ReadyForQuery in a transaction" },
	{ 'y', "ReadyForQuery in a failed transaction" },
	{ 'C', "CommandComplete" },
	{ 'E', "ErrorResponse" },
	{ 'N', "NoticeResponse" },
	{ 'A', "NotificationResponse" },
	{ 'T', "RowDescription" },
	{ 't', "ParameterDescription" },
	{ 'D', "DataRow" },
	{ 'n', "NoData" },
	{ '1', "ParseComplete" },
	{ '2', "BindComplete" },
	{ '3', "CloseComplete" },
	{ 's', "PortalSuspended" },
	{ 'I', "EmptyQueryResponse" },
	{ 'V', "FunctionCallResponse" },
	{ 'G', "CopyInResponse" },
	{ 'H', "CopyOutResponse" },
	{ 'W', "CopyBothResponse" },
	{ 'd', "CopyData" },
	{ 'c', "CopyDone" },
	{ '.', "the end" },
	{ 0, NULL },
};

/* Adds messages as a script has them, with their names; contents stay as they are. */
static void tell_messages(struct buf *out, const struct message_name *names, const char *words)
{
	const char *between = " ";

	while (*words) {
		const struct message_name *found = names;
		size_t count = words[1] == '(' ? strcspn(words + 1, ")") + 1 : 0;

		while (found->letter && found->letter != *words)
			found++;
		buf_add_text(out, between);
		if (found->letter)
			buf_add_text(out, found->name);
		else
			buf_add_byte(out, *words);
		buf_add(out, words + 1, strnlen(words + 1, count));
		words += 1 + strnlen(words + 1, count);
		between = ", ";
	}
}

/* A line of the dialogue: "client a hears ErrorResponse(53300), ReadyForQuery". */
static void tell(struct stage *stage, const struct peer *peer, const char *verb, const char *words)
{
	bool is_request = peer->is_server == (*verb == 'h');

	buf_printf(&stage->dialogue, "\n  %s %c %s", peer->is_server ? "server" : "client",
	           peer->is_server ? (int)('1' + (peer - stage->servers))
	                           : (int)('a' + (peer - stage->clients)),
	           verb);
	tell_messages(&stage->dialogue, is_request ? requests : replies, words);
	if (*verb == 'h' && !*words)
		buf_add_text(&stage->dialogue, " nothing");
}

/* ---- what is said ---- */

static void say_login(struct stage *stage, struct peer *peer, const char *words)
{
	if (!peer->is_server) {
		char user[] = "u0", database[] = "d0";

		tell(stage, peer, "logs in", "");
		if (words[0])
			user[1] = words[0];
		if (words[0] && words[1])
			database[1] = words[1];
		*peer = engine_client(&stage->engine);
		if (words[0] && words[1] && words[2])
			peer_start_replication(peer, user, database,
			                       words[2] == 'd' ? "database" : "true");
		else
			peer_start(peer, user, database);
		return;
	}
	if (peer->fd < 0)
		*peer = engine_server(&stage->engine);
	ck_assert_int_ge(peer->fd, 0);
	ck_assert_str_eq(peer_hear(&stage->engine, peer), "^");
	words = *words ? words : "RSKZ";
	tell(stage, peer, "is asked for and says", words);
	peer_say(peer, words);
}

static void say_cancel(struct stage *stage, struct peer *peer)
{
	size_t number = (size_t)(peer - stage->clients);
	struct buf out = { 0 };

	if (peer->is_server) {
		*peer = engine_server(&stage->engine);
		ck_assert_int_ge(peer->fd, 0);
		ck_assert_str_eq(peer_hear(&stage->engine, peer), "^");
		return;
	}
	peer_close(&stage->cancellers[number]);
	stage->cancellers[number] = engine_client(&stage->engine);
	message_cancel(&out, buf_bytes(&stage->keys[number]));
	ck_assert(peer_say_bytes(&stage->cancellers[number], buf_bytes(&out)));
	buf_free(&out);
}

/* A Query of which the last byte is missing. */
static void say_half(struct peer *peer)
{
	struct buf out = { 0 };

	peer_message(peer, &out, 'Q');
	peer_say_bytes(peer, bytes_of(out.at, out.count - 1));
	buf_free(&out);
}

static void add_client_message(struct buf *out, char type, const char *first, const char *second)
{
	size_t at;

	if (type == 'Q') {
		message_query(out, first);
		return;
	}
	at = message_begin(out, type);
	switch (type) {
	case 'P': /* name, text, no types */
		buf_add_cstr(out, first);
		buf_add_cstr(out, second);
		buf_add_be16(out, 0);
		break;
	case 'B': /* portal, name, no formats, no parameters, no result formats */
		buf_add_cstr(out, second);
		buf_add_cstr(out, first);
		buf_add(out, "\0\0\0\0\0\0", 6);
		break;
	case 'E':
		buf_add_cstr(out, first);
		buf_add_be32(out, 0);
		break;
	default: /* D, C */
		buf_add_byte(out, *first);
		buf_add_cstr(out, second);
	}
	message_end(out, at);
}

/* A row of the question: its kind, a name and a value, in hexadecimal digits. */
static void add_fact(struct buf *out, const char *kind, const char *name, const char *value)
{
	const char *const columns[] = { name, value };
	size_t at = message_row_begin(out, 3);

	message_row_text(out, kind);
	for (size_t i = 0; i < 2; i++) {
		struct buf digits = { 0 };

		for (const char *next = columns[i]; *next; next++)
			buf_printf(&digits, "%02x", (unsigned int)*next);
		message_row_bytes(out, buf_bytes(&digits));
		buf_free(&digits);
	}
	message_end(out, at);
}

static void add_server_message(struct buf *out, char type, const char *first, const char *second)
{
	struct report report = { .severity = "ERROR", .sqlstate = first, .text = second };

	switch (type) {
	case 'C':
		message_complete(out, first);
		break;
	case 'E':
		message_error(out, &report);
		break;
	case 'S':
		message_parameter(out, first, second);
		break;
	case 't':
		message_parameter_types(out, NULL, 0);
		break;
	case 'D':
		add_fact(out, first, second, second + strlen(second) + 1);
		break;
	default:
		message_end(out, message_columns_begin(out, 0));
	}
}

/* Copies a content up to its end: '_' is a space, and #1 the first name that pgweir has made. */
static void copy_content(const struct stage *stage, struct buf *content, const char *at,
                         const char *end)
{
	for (; at < end; at++) {
		if (*at == '#' && at[1] >= '1' && at[1] <= '0' + STAGE_NAMES)
			buf_add_text(content, stage->names[*++at - '1']);
		else if (*at == ':')
			buf_add_byte(content, 0);
		else
			buf_add_byte(content, *at == '_' ? ' ' : *at);
	}
	buf_add(content, "\0\0", 3); /* ends the first part, and others, if there are any */
}

/* The content of a message, at its '('; returns what stands behind it. */
static const char *add_with_content(const struct stage *stage, const struct peer *peer,
                                    struct buf *out, char type, const char *at)
{
	const char *end = strchr(at, ')');
	struct buf content = { 0 };

	ck_assert_msg(end != NULL, "no content: \"%s\"", at);
	copy_content(stage, &content, at + 1, end);
	(peer->is_server ? add_server_message : add_client_message)(
	    out, type, content.at, content.at + strlen(content.at) + 1);
	buf_free(&content);
	return end + 1;
}

static bool say(const struct stage *stage, struct peer *peer, const char *words)
{
	struct buf out = { 0 };
	bool is_said;

	while (*words) {
		char type = *words++;

		if (*words == '(')
			words = add_with_content(stage, peer, &out, type, words);
		else
			peer_message(peer, &out, type);
	}
	is_said = peer_say_bytes(peer, buf_bytes(&out));
	buf_free(&out);
	return is_said;
}

/* ---- what is heard ---- */

#define NAMES_BEGIN "PGBOUNCER_"

static void add_name(struct stage *stage, const char *name, size_t count)
{
	size_t number = 0;

	while (stage->names[number][0] &&
	       (strncmp(stage->names[number], name, count) != 0 || stage->names[number][count]))
		ck_assert_uint_lt(++number, STAGE_NAMES);
	snprintf(stage->names[number], sizeof(stage->names[number]), "%.*s", (int)count, name);
	buf_printf(&stage->heard, "#%zu", number + 1);
}

/* Text of a message; a space would end the word of the script. */
static void add_text(struct stage *stage, const char *text)
{
	while (*text) {
		size_t count = strspn(text, "PGBOUNCER_abcdefghijklmnopqrstuvwxyz0123456789");

		if (strncmp(text, NAMES_BEGIN, strlen(NAMES_BEGIN)) == 0) {
			add_name(stage, text, count);
			text += count;
			continue;
		}
		buf_add_byte(&stage->heard, *text == ' ' ? '_' : *text);
		text++;
	}
}

static void add_request(struct stage *stage, char type, struct bytes message)
{
	const char *body = message.at;
	size_t first = strlen(body) + 1;
	const char *second = first < message.count ? body + first : "";

	switch (type) {
	case 'P':
		add_text(stage, body);
		buf_add_byte(&stage->heard, ':');
		add_text(stage, second);
		break;
	case 'B':
		add_text(stage, second);
		break;
	case 'D':
	case 'C':
		buf_printf(&stage->heard, "%c:", *body);
		add_text(stage, body + 1);
		break;
	default:
		add_text(stage, body);
	}
}

static void add_reply(struct stage *stage, char type, struct bytes body)
{
	struct report report = { .sqlstate = "", .text = "" };

	if (type == 'E' && fields_report(body, &report) == WIRE_OK)
		buf_add_text(&stage->heard, report.sqlstate);
	else if (type == 'Z')
		buf_add_byte(&stage->heard, *body.at);
	else
		add_text(stage, body.at);
}

static void note_key(struct stage *stage, const struct peer *peer, struct bytes key)
{
	struct buf *kept = &stage->keys[peer - stage->clients];

	buf_clear(kept);
	buf_add(kept, key.at, key.count);
}

static void hear_content(struct peer *peer, char type, struct bytes message)
{
	struct stage *stage = peer->arg;
	struct bytes body = bytes_skip(message, FRAME_HEADER_SIZE);

	if (type == 'K' && !peer->is_server)
		note_key(stage, peer, body);
	buf_add_byte(&stage->heard, type);
	if (!strchr(peer->is_server ? "QPBDC" : "ECSZ", type) || body.count == 0 ||
	    (type == 'Z' && *body.at == 'I'))
		return;
	buf_add_byte(&stage->heard, '(');
	if (peer->is_server)
		add_request(stage, type, body);
	else
		add_reply(stage, type, body);
	buf_add_byte(&stage->heard, ')');
}

/* Waits for what a timer of the engine brings about, and returns what was heard. */
static const char *await(struct stage *stage, struct peer *peer)
{
	usec_t limit = clock_now() + 10 * USEC_PER_SEC;
	const char *heard = "";

	while (*heard == 0 && clock_now() < limit) {
		if (peer->fd < 0)
			*peer = engine_server(&stage->engine);
		else
			heard = peer_hear(&stage->engine, peer);
		stage_now += USEC_PER_MS;
	}
	return heard;
}

/* ---- playing ---- */

static void hear(struct stage *stage, struct peer *peer, const char *says, const char *word)
{
	const char *heard, *expected = word + 2;
	struct buf wanted = { 0 };
	bool has_end;

	buf_clear(&stage->heard);
	peer->see = hear_content;
	peer->arg = stage;
	heard = word[1] == '~' ? await(stage, peer) : peer_hear(&stage->engine, peer);
	has_end = *heard && heard[strlen(heard) - 1] == '.';
	if (has_end)
		buf_add_byte(&stage->heard, '.');
	tell(stage, peer, "hears", buf_text(&stage->heard));
	if (word[2] == '<') {
		heard = buf_text(&stage->heard);
		expected++;
	}
	if (strcmp(heard, expected) == 0)
		return;
	tell_messages(&wanted, peer->is_server ? requests : replies, expected);
	ck_abort_msg("%s: \"%s\": heard \"%s\" %s%s\n  but should have heard%s", says, word, heard,
	             peer->error, buf_text(&stage->dialogue), buf_text(&wanted));
}

static void act(struct stage *stage, const char *says, const char *word)
{
	struct peer *peer = peer_of(stage, word[0]);

	if (word[1] == '^') {
		say_login(stage, peer, word + 2);
	} else if (word[1] == '<' || word[1] == '~') {
		hear(stage, peer, says, word);
	} else if (word[1] == '*') {
		say_cancel(stage, peer);
	} else if (word[1] == '.') {
		tell(stage, peer, "says", ".");
		peer_close(peer);
	} else if (word[1] == '-') {
		*peer = engine_server(&stage->engine);
		ck_assert_msg(peer->fd < 0, "%s: \"%s\": a server is dialled%s", says, word,
		              buf_text(&stage->dialogue));
	} else if (word[1] == '%') {
		say_half(peer);
	} else {
		tell(stage, peer, "says", word + 1);
		ck_assert_msg(say(stage, peer, word + 1), "%s: \"%s\": it is gone%s", says, word,
		              buf_text(&stage->dialogue));
	}
}

void stage_play(struct stage *stage, const char *says, const char *word)
{
	act(stage, says, word);
	engine_turn(&stage->engine);
	stage_now++;
}

void stage_open(struct stage *stage, const char *settings)
{
	*stage = (struct stage){ 0 };
	for (size_t i = 0; i < STAGE_PEERS; i++) {
		stage->clients[i].fd = stage->servers[i].fd = stage->cancellers[i].fd = -1;
		stage->servers[i].is_server = true;
	}
	stage_now = clock_now();
	engine_open(&stage->engine, settings, "");
}

void stage_close(struct stage *stage)
{
	for (size_t i = 0; i < STAGE_PEERS; i++) {
		peer_close(&stage->clients[i]);
		peer_close(&stage->servers[i]);
		peer_close(&stage->cancellers[i]);
		buf_free(&stage->keys[i]);
	}
	engine_close(&stage->engine);
	stage_now = 0;
	buf_free(&stage->heard);
	buf_free(&stage->dialogue);
}

void stage_play_words(struct stage *stage, const char *says, const char *words)
{
	char *copy = strdup(words), *word, *end, *rest = NULL;

	ck_assert_ptr_nonnull(copy);
	for (word = strtok_r(copy, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
		end = word + strlen(word) - 1;
		if (*end != '+') {
			stage_play(stage, says, word);
			continue;
		}
		*end = 0;
		act(stage, says, word);
	}
	free(copy);
}

void script_play(const struct script *script)
{
	struct stage stage;

	stage_open(&stage, script->settings);
	stage_play_words(&stage, script->says, script->words);
	stage_close(&stage);
}
