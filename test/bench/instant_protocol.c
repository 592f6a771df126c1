/* SPDX-License-Identifier: ISC */
/*
 * What the stand-in for PostgreSQL answers.
 *
 * A statement is judged by its first words: its command tag, whether it returns a row, and the
 * state of the transaction after it. Nothing is stored but names. The only value of a row is of
 * type text, so it has the same bytes in both formats, and Bind need not be read to its end.
 */
#include "instant_protocol.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define STATEMENTS_MAX 1000 /* in one text */
#define NAMES_MAX 10000     /* of one session, of each kind */
#define STARTUP_MAX 10000

#define VERSION_3 3u
#define CODE_CANCEL 80877102u
#define CODE_SSL 80877103u
#define CODE_GSS 80877104u

/* -- replies -- */

static char *reserve(struct reply *reply, size_t length)
{
	if (reply->is_lost)
		return NULL;
	if (reply->size - reply->length < length) {
		size_t size = (reply->length + length) * 2;
		char *data = realloc(reply->data, size);

		if (!data) {
			reply->is_lost = true;
			return NULL;
		}
		reply->data = data;
		reply->size = size;
	}
	reply->length += length;
	return reply->data + reply->length - length;
}

static void add(struct reply *reply, const void *bytes, size_t length)
{
	char *at = reserve(reply, length);

	if (at)
		memcpy(at, bytes, length);
}

#define ADD(reply, literal) add(reply, literal, sizeof(literal) - 1)

static void add_int32(struct reply *reply, uint32_t number)
{
	uint32_t bytes = htonl(number);

	add(reply, &bytes, sizeof(bytes));
}

static void add_text(struct reply *reply, const char *text) { add(reply, text, strlen(text) + 1); }

/* Returns where the message begins, for end_message(). */
static size_t begin_message(struct reply *reply, char type)
{
	add(reply, &type, 1);
	add_int32(reply, 0);
	return reply->length - 4;
}

static void end_message(struct reply *reply, size_t begin)
{
	uint32_t length;

	if (reply->is_lost)
		return;
	length = htonl((uint32_t)(reply->length - begin));
	memcpy(reply->data + begin, &length, sizeof(length));
}

static void add_error(struct reply *reply, const char *severity, const char *code, const char *text)
{
	size_t begin = begin_message(reply, 'E');

	ADD(reply, "S");
	add_text(reply, severity);
	ADD(reply, "V");
	add_text(reply, severity);
	ADD(reply, "C");
	add_text(reply, code);
	ADD(reply, "M");
	add_text(reply, text);
	ADD(reply, "\0");
	end_message(reply, begin);
}

static void add_ready(struct session *session, struct reply *reply);

/* -- reported parameters -- */

static const struct {
	const char *name, *value;
} parameters[] = {
	{ "application_name", "" },
	{ "client_encoding", "UTF8" },
	{ "DateStyle", "ISO, MDY" },
	{ "default_transaction_read_only", "off" },
	{ "in_hot_standby", "off" },
	{ "integer_datetimes", "on" },
	{ "IntervalStyle", "postgres" },
	{ "is_superuser", "off" },
	{ "server_encoding", "UTF8" },
	{ "server_version", "15.0" },
	{ "session_authorization", "instant" },
	{ "standard_conforming_strings", "on" },
	{ "TimeZone", "UTC" },
};

#define PARAMETERS (sizeof(parameters) / sizeof(parameters[0]))

static void add_parameter(struct reply *reply, size_t number, const char *value, size_t length)
{
	size_t begin = begin_message(reply, 'S');

	add_text(reply, parameters[number].name);
	add(reply, value, length);
	ADD(reply, "\0");
	end_message(reply, begin);
}

static void add_default(struct reply *reply, size_t number)
{
	add_parameter(reply, number, parameters[number].value, strlen(parameters[number].value));
}

static size_t parameter_called(const char *name, size_t length)
{
	for (size_t i = 0; i < PARAMETERS; i++)
		if (strlen(parameters[i].name) == length &&
		    strncasecmp(parameters[i].name, name, length) == 0)
			return i;
	return PARAMETERS;
}

static void reset_parameters(struct session *session, struct reply *reply)
{
	for (size_t i = 0; session->changed && i < PARAMETERS; i++)
		if (session->changed & 1u << i)
			add_default(reply, i);
	session->changed = 0;
}

/* -- texts -- */

struct text {
	const char *at, *end;
};

static bool is_word(char byte)
{
	return isalnum((unsigned char)byte) || byte == '_' || byte == '.';
}

/* Behind the quoted string, or comment, that begins at `at`; NULL if none begins there. */
static const char *behind_quoted(const char *at, const char *end)
{
	const char *close = NULL;

	if (*at == '\'' || *at == '"') {
		close = memchr(at + 1, *at, (size_t)(end - at - 1));
	} else if (end - at >= 2 && memcmp(at, "--", 2) == 0) {
		close = memchr(at, '\n', (size_t)(end - at));
	} else if (end - at >= 2 && memcmp(at, "/*", 2) == 0) {
		close = memmem(at + 2, (size_t)(end - at - 2), "*/", 2);
		close = close ? close + 1 : NULL;
	} else {
		return NULL;
	}
	return close ? close + 1 : end;
}

static void skip_blanks(struct text *text)
{
	const char *next;

	while (text->at < text->end) {
		if (isspace((unsigned char)*text->at))
			text->at++;
		else if ((*text->at == '-' || *text->at == '/') &&
		         (next = behind_quoted(text->at, text->end)))
			text->at = next;
		else
			return;
	}
}

static struct text take_word(struct text *text)
{
	struct text word;

	skip_blanks(text);
	word.at = text->at;
	while (text->at < text->end && is_word(*text->at))
		text->at++;
	word.end = text->at;
	return word;
}

static bool is_same(struct text word, const char *other)
{
	size_t length = (size_t)(word.end - word.at);

	return strlen(other) == length && strncasecmp(word.at, other, length) == 0;
}

/* Takes the next statement from the text, without its semicolon. */
static struct text take_statement(struct text *text)
{
	struct text statement = *text;
	const char *at = text->at;

	while (at < text->end && *at != ';') {
		const char *next = behind_quoted(at, text->end);

		at = next ? next : at + 1;
	}
	statement.end = at;
	text->at = at < text->end ? at + 1 : at;
	return statement;
}

/* -- statements -- */

enum effect { EFFECT_NONE, EFFECT_SET, EFFECT_RESET, EFFECT_REFUSE };

/* What is done with a statement that begins with these words. */
static const struct kind {
	const char *word, *second; /* NULL: any */
	const char *tag;           /* of CommandComplete; NULL: EmptyQueryResponse */
	bool has_row;
	char leads_to; /* the state of the transaction after it; 0: as before */
	enum effect effect;
} kinds[] = {
	{ "", NULL, NULL, .leads_to = 0 },
	{ "SELECT", NULL, "SELECT 1", .has_row = true },
	{ "BEGIN", NULL, "BEGIN", .leads_to = 'T' },
	{ "COMMIT", NULL, "COMMIT", .leads_to = 'I' },
	{ "END", NULL, "COMMIT", .leads_to = 'I' },
	{ "ROLLBACK", "TO", "ROLLBACK", .leads_to = 'T' },
	{ "ROLLBACK", NULL, "ROLLBACK", .leads_to = 'I' },
	{ "ABORT", NULL, "ROLLBACK", .leads_to = 'I' },
	{ "START", NULL, "START TRANSACTION", .leads_to = 'T' },
	{ "INSERT", NULL, "INSERT 0 1", .leads_to = 0 },
	{ "UPDATE", NULL, "UPDATE 1", .leads_to = 0 },
	{ "DELETE", NULL, "DELETE 1", .leads_to = 0 },
	{ "SET", NULL, "SET", .effect = EFFECT_SET },
	{ "RESET", NULL, "RESET", .effect = EFFECT_RESET },
	{ "DISCARD", NULL, "DISCARD ALL", .effect = EFFECT_RESET },
	{ "WITH", NULL, "SELECT 1", .has_row = true },
	{ "VALUES", NULL, "SELECT 1", .has_row = true },
	{ "TABLE", NULL, "SELECT 1", .has_row = true },
	{ "SHOW", NULL, "SHOW", .has_row = true },
	{ "EXECUTE", NULL, "SELECT 1", .has_row = true },
	{ "SAVEPOINT", NULL, "SAVEPOINT", .leads_to = 0 },
	{ "RELEASE", NULL, "RELEASE", .leads_to = 0 },
	{ "PREPARE", NULL, "PREPARE", .leads_to = 0 },
	{ "DEALLOCATE", NULL, "DEALLOCATE", .leads_to = 0 },
	{ "COPY", NULL, NULL, .effect = EFFECT_REFUSE },
	{ NULL, NULL, "OK", .leads_to = 0 },
};

static const struct kind *kind_of(struct text statement)
{
	struct text word = take_word(&statement), second = take_word(&statement);
	const struct kind *kind = kinds;

	if (word.at == word.end && word.at < statement.end)
		return &kinds[sizeof(kinds) / sizeof(kinds[0]) - 1];
	while (kind->word &&
	       !(is_same(word, kind->word) && (!kind->second || is_same(second, kind->second))))
		kind++;
	return kind;
}

/* The value behind SET ... = or TO, without its quotes. */
static void set_parameter(struct session *session, struct text statement, struct reply *reply)
{
	struct text word = take_word(&statement);
	size_t number;

	word = take_word(&statement);
	if (is_same(word, "SESSION") || is_same(word, "LOCAL"))
		word = take_word(&statement);
	number = parameter_called(word.at, (size_t)(word.end - word.at));
	skip_blanks(&statement);
	if (statement.at < statement.end && *statement.at == '=')
		statement.at++;
	else
		take_word(&statement);
	skip_blanks(&statement);
	while (statement.end > statement.at && isspace((unsigned char)statement.end[-1]))
		statement.end--;
	if (number == PARAMETERS || statement.at == statement.end)
		return;
	if (*statement.at == '\'' && statement.end - statement.at >= 2) {
		statement.at++;
		statement.end--;
	}
	session->changed |= 1u << number;
	/* A value as long as a message may be would break the limit of a reply. */
	if (statement.end - statement.at < 1000)
		add_parameter(reply, number, statement.at, (size_t)(statement.end - statement.at));
}

static void fail(struct session *session, struct reply *reply, const char *code, const char *text)
{
	add_error(reply, "ERROR", code, text);
	if (session->transaction == 'T')
		session->transaction = 'E';
}

static void add_tag(struct reply *reply, const char *tag)
{
	size_t begin = begin_message(reply, 'C');

	add_text(reply, tag);
	end_message(reply, begin);
}

static const char row_description[] = "T\0\0\0\x21\0\1?column?\0\0\0\0\0\0\0"
				      "\0\0\0\x19\xff\xff\xff\xff\xff\xff\0\0";
static const char data_row[] = "D\0\0\0\x0b\0\1\0\0\0\x01"
			       "1";

/* Returns false after an error. `is_simple`: a row is described first. `text` may be empty. */
static bool run_statement(struct session *session, const struct kind *kind, struct text text,
                          bool is_simple, struct reply *reply)
{
	session->query_count++;
	if (session->transaction == 'E' && kind->leads_to != 'I' && !kind->second) {
		fail(session, reply, "25P02", "current transaction is aborted");
		return false;
	}
	if (kind->effect == EFFECT_REFUSE) {
		fail(session, reply, "0A000", "this server has no COPY");
		return false;
	}
	if (kind->effect == EFFECT_SET)
		set_parameter(session, text, reply);
	if (kind->effect == EFFECT_RESET)
		reset_parameters(session, reply);
	if (kind->has_row && is_simple)
		add(reply, row_description, sizeof(row_description) - 1);
	if (kind->has_row)
		add(reply, data_row, sizeof(data_row) - 1);
	if (!kind->tag)
		ADD(reply, "I\0\0\0\4");
	else
		add_tag(reply, session->transaction == 'E' ? "ROLLBACK" : kind->tag);
	if (kind->leads_to)
		session->transaction = kind->leads_to;
	return true;
}

static void answer_query(struct session *session, struct text text, struct reply *reply)
{
	size_t count = 0;
	bool is_well = true;

	do {
		struct text statement = take_statement(&text);
		const struct kind *kind = kind_of(statement);

		skip_blanks(&text);
		if (kind == kinds)
			continue; /* an empty one */
		if (++count > STATEMENTS_MAX) {
			fail(session, reply, "54000", "too many statements in one text");
			break;
		}
		is_well = run_statement(session, kind, statement, true, reply);
	} while (is_well && text.at < text.end);
	if (count == 0)
		ADD(reply, "I\0\0\0\4");
	add_ready(session, reply);
}

/* -- names -- */

struct named {
	struct named *next;
	uint64_t hash;
	const struct kind *kind;
	uint16_t parameter_count;
};

static uint64_t hash_of(struct text name)
{
	uint64_t hash = 14695981039346656037u;

	for (; name.at < name.end; name.at++)
		hash = (hash ^ (unsigned char)*name.at) * 1099511628211u;
	return hash;
}

/* The place that points to it, or would. */
static struct named **place_of(struct names *names, struct text name)
{
	uint64_t hash = hash_of(name);
	struct named **place = &names->buckets[hash % NAME_BUCKETS];

	while (*place && (*place)->hash != hash)
		place = &(*place)->next;
	return place;
}

static bool put(struct names *names, struct text name, const struct kind *kind, uint16_t count)
{
	struct named **place = place_of(names, name);

	if (!*place) {
		if (names->count == NAMES_MAX || !(*place = calloc(1, sizeof(**place))))
			return false;
		(*place)->hash = hash_of(name);
		names->count++;
	}
	(*place)->kind = kind;
	(*place)->parameter_count = count;
	return true;
}

static void drop(struct names *names, struct named **place)
{
	struct named *gone = *place;

	if (!gone)
		return;
	*place = gone->next;
	names->count--;
	free(gone);
}

static void drop_all(struct names *names)
{
	for (size_t i = 0; names->count > 0 && i < NAME_BUCKETS; i++)
		while (names->buckets[i])
			drop(names, &names->buckets[i]);
}

static void add_ready(struct session *session, struct reply *reply)
{
	ADD(reply, "Z\0\0\0\5");
	add(reply, &session->transaction, 1);
	if (session->transaction == 'I')
		drop_all(&session->portals);
}

/* -- the extended protocol -- */

/* Takes a string with its final zero byte; false if there is none. */
static bool take_string(struct text *body, struct text *string)
{
	const char *end = memchr(body->at, 0, (size_t)(body->end - body->at));

	if (!end)
		return false;
	*string = (struct text){ body->at, end };
	body->at = end + 1;
	return true;
}

/* The highest $n of a text. */
static uint16_t count_parameters(struct text text)
{
	unsigned long most = 0;

	while ((text.at = memchr(text.at, '$', (size_t)(text.end - text.at)))) {
		unsigned long number = 0;

		text.at++;
		while (text.at < text.end && isdigit((unsigned char)*text.at) && number < 10000)
			number = number * 10 + (unsigned long)(*text.at++ - '0');
		if (number > most)
			most = number;
	}
	return most > 10000 ? 10000 : (uint16_t)most;
}

static const char malformed[] = "malformed message";

/* Each returns NULL, or the SQLSTATE of an error and its text in *why. */

static const char *answer_parse(struct session *session, struct text body, struct reply *reply,
                                const char **why)
{
	struct text name, text;

	*why = malformed;
	if (!take_string(&body, &name) || !take_string(&body, &text))
		return "08P01";
	*why = "too many prepared statements";
	if (!put(&session->statements, name, kind_of(text), count_parameters(text)))
		return "53400";
	ADD(reply, "1\0\0\0\4");
	return NULL;
}

static const char *answer_bind(struct session *session, struct text body, struct reply *reply,
                               const char **why)
{
	struct text portal, name;
	const struct named *statement;

	*why = malformed;
	if (!take_string(&body, &portal) || !take_string(&body, &name))
		return "08P01";
	*why = "no such prepared statement";
	if (!(statement = *place_of(&session->statements, name)))
		return "26000";
	*why = "too many portals";
	if (!put(&session->portals, portal, statement->kind, 0))
		return "53400";
	ADD(reply, "2\0\0\0\4");
	return NULL;
}

static void describe_parameters(const struct named *statement, struct reply *reply)
{
	size_t begin = begin_message(reply, 't');
	uint16_t count = htons(statement->parameter_count);

	add(reply, &count, sizeof(count));
	for (uint16_t i = 0; i < statement->parameter_count; i++)
		add_int32(reply, 25);
	end_message(reply, begin);
}

static const char *answer_describe(struct session *session, struct text body, struct reply *reply,
                                   const char **why)
{
	bool is_statement = body.at < body.end && *body.at == 'S';
	const struct named *named;
	struct text name;

	*why = malformed;
	if (body.at++ >= body.end || !take_string(&body, &name))
		return "08P01";
	*why = "nothing of that name to describe";
	if (!(named = *place_of(is_statement ? &session->statements : &session->portals, name)))
		return is_statement ? "26000" : "34000";
	if (is_statement)
		describe_parameters(named, reply);
	if (named->kind->has_row)
		add(reply, row_description, sizeof(row_description) - 1);
	else
		ADD(reply, "n\0\0\0\4");
	return NULL;
}

static const char *answer_execute(struct session *session, struct text body, struct reply *reply,
                                  const char **why)
{
	struct text none = { "", "" }, name;
	const struct named *portal;

	*why = malformed;
	if (!take_string(&body, &name))
		return "08P01";
	*why = "no such portal";
	if (!(portal = *place_of(&session->portals, name)))
		return "34000";
	if (!run_statement(session, portal->kind, none, false, reply))
		session->skips_to_sync = true;
	return NULL;
}

static const char *answer_close(struct session *session, struct text body, struct reply *reply,
                                const char **why)
{
	bool is_statement = body.at < body.end && *body.at == 'S';
	struct names *names = is_statement ? &session->statements : &session->portals;
	struct text name;

	*why = malformed;
	if (body.at++ >= body.end || !take_string(&body, &name))
		return "08P01";
	drop(names, place_of(names, name));
	ADD(reply, "3\0\0\0\4");
	return NULL;
}

static const struct {
	char type;
	const char *(*answer)(struct session *session, struct text body, struct reply *reply,
	                      const char **why);
} steps[] = {
	{ 'B', answer_bind },  { 'E', answer_execute }, { 'D', answer_describe },
	{ 'P', answer_parse }, { 'C', answer_close },
};

static bool answer_step(struct session *session, char type, struct text body, struct reply *reply)
{
	const char *code, *why;

	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		if (steps[i].type != type)
			continue;
		if (session->skips_to_sync)
			return true;
		code = steps[i].answer(session, body, reply, &why);
		if (code) {
			fail(session, reply, code, why);
			session->skips_to_sync = true;
		}
		return true;
	}
	return false;
}

/* -- messages -- */

static enum session_next answer_message(struct session *session, char type, struct text body,
                                        struct reply *reply)
{
	struct text text;

	if (answer_step(session, type, body, reply))
		return SESSION_READ;
	switch (type) {
	case 'Q':
		if (!take_string(&body, &text))
			break;
		session->skips_to_sync = false;
		answer_query(session, text, reply);
		return SESSION_READ;
	case 'S':
		session->skips_to_sync = false;
		add_ready(session, reply);
		return SESSION_READ;
	case 'F':
		fail(session, reply, "0A000", "this server has no functions");
		add_ready(session, reply);
		return SESSION_READ;
	case 'H':
	case 'd':
	case 'c':
	case 'f':
		return SESSION_READ;
	case 'X':
		return SESSION_CLOSE;
	default:
		break;
	}
	add_error(reply, "FATAL", "08P01", malformed);
	return SESSION_CLOSE;
}

static void greet(struct session *session, uint32_t minor, struct reply *reply)
{
	if (minor > 0)
		ADD(reply, "v\0\0\0\xc\0\3\0\0\0\0\0\0");
	ADD(reply, "R\0\0\0\x8\0\0\0\0");
	for (size_t i = 0; i < PARAMETERS; i++)
		add_default(reply, i);
	ADD(reply, "K\0\0\0\xc");
	add_int32(reply, session->number);
	add_int32(reply, session->number * 2654435761u);
	session->has_started = true;
	add_ready(session, reply);
}

static enum session_next answer_startup(struct session *session, uint32_t code, struct reply *reply)
{
	if (code >> 16 == VERSION_3) {
		greet(session, code & 0xffff, reply);
		return SESSION_READ;
	}
	if (code == CODE_GSS || (code == CODE_SSL && !session->has_tls)) {
		ADD(reply, "N");
		return SESSION_READ;
	}
	if (code == CODE_SSL) {
		session->has_tls = false; /* a second request is not granted */
		ADD(reply, "S");
		return SESSION_TLS;
	}
	if (code != CODE_CANCEL)
		add_error(reply, "FATAL", "0A000", "this server has protocol 3 only");
	return SESSION_CLOSE;
}

static uint32_t int32_at(const char *at)
{
	uint32_t number;

	memcpy(&number, at, sizeof(number));
	return ntohl(number);
}

void session_init(struct session *session, uint32_t number, bool has_tls)
{
	*session = (struct session){ .number = number, .has_tls = has_tls, .transaction = 'I' };
}

void session_done(struct session *session)
{
	drop_all(&session->statements);
	drop_all(&session->portals);
}

size_t session_take(struct session *session, const char *in, size_t length, struct reply *reply,
                    enum session_next *next)
{
	size_t taken = 0;

	*next = SESSION_READ;
	while (*next == SESSION_READ && reply->length < REPLY_PAUSE && !reply->is_lost) {
		const char *at = in + taken;
		size_t type_size = session->has_started ? 1 : 0;
		size_t most = session->has_started ? MESSAGE_MAX : STARTUP_MAX;
		size_t least = session->has_started ? 4 : 8;
		size_t size;

		if (length - taken < type_size + 4)
			break;
		size = int32_at(at + type_size);
		if (size < least || size > most) {
			add_error(reply, "FATAL", "08P01", "invalid message length");
			*next = SESSION_CLOSE;
			break;
		}
		if (length - taken < type_size + size)
			break;
		taken += type_size + size;
		if (session->has_started)
			*next = answer_message(session, *at, (struct text){ at + 5, at + 1 + size },
			                       reply);
		else
			*next = answer_startup(session, int32_at(at + 4), reply);
	}
	if (reply->is_lost)
		*next = SESSION_CLOSE;
	return taken;
}
