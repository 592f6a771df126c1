/* SPDX-License-Identifier: ISC */
/*
 * How connections end.
 *
 * The first row whose words begin what was said counts, so the longer of two that
 * begin alike stands first.
 */
#include "pgweir/base/close_reason.h"

#include <assert.h>
#include <string.h>

#include "pgweir/base/strbuf.h"
#include "pgweir/base/text.h"

#include "pgweir/base/banned.h"

static const struct {
	const char *words; /* what the reason begins with */
	struct close_reason_row row;
} known[] = {
	{ "client close request", { "client said good-bye", false } },
	{ "client unexpected eof", { "client broke off", true } },
	{ "left before the first message", { "left before the first message", false } },
	{ "left before proving who it is", { "left before proving who it is", false } },
	{ "cancel request delivered", { "cancel request delivered", false } },
	{ "failed cancel request", { "cancel request for nobody", true } },
	{ "cancel request for idle client", { "cancel request for idle client", false } },
	{ "ignoring cancel request for server that is setting vars",
	  { "ignoring cancel request for server that is setting vars", false } },
	{ "bad cancel request", { "bad cancel request", true } },
	{ "SSL required", { "SSL required", true } },
	{ "received unencrypted data after", { "received unencrypted data after", true } },
	{ "old V2 protocol not supported", { "old V2 protocol not supported", true } },
	{ "too many TLS key updates", { "too many TLS key updates", true } },
	{ "bad packet header", { "broken message", true } },
	{ "unknown pkt", { "unknown message", true } },
	{ "PQexec disallowed", { "PQexec disallowed", true } },
	{ "unsupported startup parameter", { "unsupported startup parameter", true } },
	{ "no username supplied", { "no username supplied", true } },
	{ "username too long", { "username too long", true } },
	{ "not allowed", { "not allowed in the console", true } },
	{ "no such database", { "no such database", true } },
	{ "database \"", { "database disabled", true } },
	{ "pooler is draining", { "pooler is draining", false } },
	{ "the deadline of DRAIN has passed", { "the deadline of DRAIN has passed", true } },
	{ "pooler is shutting down", { "pooler is shutting down", true } },
	{ "password authentication failed", { "password authentication failed", true } },
	{ "SASL authentication failed", { "SASL authentication failed", true } },
	{ "certificate authentication failed", { "certificate authentication failed", true } },
	{ "unix socket login rejected", { "unix socket login rejected", true } },
	{ "empty password returned by client", { "empty password returned by client", true } },
	{ "login rejected", { "login rejected by a rule", true } },
	{ "no authentication method is found", { "login without a rule", true } },
	{ "expected a password message", { "expected a password message", true } },
	{ "too many logins at once", { "too many logins at once", true } },
	{ "not logged in when open files ran short",
	  { "not logged in when open files ran short", true } },
	{ "no more connections allowed (open files)",
	  { "no more connections allowed (open files)", true } },
	{ "no more connections allowed (max_client_conn)",
	  { "no more connections allowed (max_client_conn)", true } },
	{ "client connections exceeded (max_db_client_connections)",
	  { "client connections exceeded (max_db_client_connections)", true } },
	{ "client connections exceeded (max_user_client_connections)",
	  { "client connections exceeded (max_user_client_connections)", true } },
	{ "client_login_timeout (server down)", { "client_login_timeout (server down)", true } },
	{ "client_login_timeout", { "client_login_timeout", true } },
	{ "client_idle_timeout", { "client_idle_timeout", true } },
	{ "query_wait_timeout", { "query_wait_timeout", true } },
	{ "query_timeout", { "query_timeout while waiting", true } },
	{ "query timeout", { "query timeout", true } },
	{ "idle transaction timeout", { "idle transaction timeout", true } },
	{ "transaction timeout", { "transaction timeout", true } },
	{ "suspend_timeout", { "suspend_timeout", true } },
	{ "takeover_timeout", { "takeover_timeout", true } },
	{ "transaction blocks not allowed in statement pooling mode",
	  { "transaction blocks not allowed in statement pooling mode", true } },
	{ "server login has been failing", { "server login has been failing", true } },
	{ "server shutting down", { "server shutting down", true } },
	{ "database removed", { "database removed", true } },
	{ "admin forced disconnect", { "admin forced disconnect", false } },
	{ "invalid server parameter", { "invalid server parameter", true } },
	{ "server conn crashed?", { "server conn crashed?", true } },
	{ "server ended the connection", { "server ended the connection", true } },
	{ "server closed the connection during login",
	  { "server closed the connection during login", true } },
	{ "pgweir's own login", { "pgweir's own login refused", true } },
	{ "connect timeout", { "connect timeout", true } },
	{ "server check query timeout", { "server check query timeout", true } },
	{ "server reset query timeout", { "server reset query timeout", true } },
	{ "server parameters timeout", { "server parameters timeout", true } },
	{ "reset query failed", { "reset query failed", true } },
	{ "server idle timeout", { "server idle timeout", false } },
	{ "server lifetime over", { "server lifetime over", false } },
	{ "database configuration changed", { "database configuration changed", false } },
	{ "its parameters are too many to follow",
	  { "its parameters are too many to follow", true } },
	{ "parameters could not be set", { "parameters could not be set", true } },
	{ "a cancel request may still arrive", { "a cancel request may still arrive", false } },
	{ "a statement name of ours is taken", { "a statement name of ours is taken", true } },
	{ "pool_mode has changed", { "pool_mode has changed", false } },
	{ "its address has left DNS", { "its address has left DNS", false } },
	{ "evicted for max_db_connections", { "evicted for max_db_connections", false } },
	{ "evicted for max_user_connections", { "evicted for max_user_connections", false } },
	{ "evicted for pool_size", { "evicted for pool_size", false } },
	{ "too many servers in the pool", { "too many servers in the pool", false } },
	{ "pause mode", { "pause mode", false } },
	{ "suspend mode", { "suspend mode", false } },
	{ "client disconnect while server was not ready",
	  { "client disconnect while server was not ready", false } },
	{ "replication client has left", { "replication client has left", false } },
	{ "out of step after a COPY that failed",
	  { "out of step after a COPY that failed", false } },
	{ "no answer, another host is tried", { "no answer, another host is tried", true } },
	{ "out of memory", { "out of memory", true } },
};

#define KNOWN_COUNT (sizeof(known) / sizeof(known[0]))

static const struct close_reason_row others[ERR_CODES] = {
	[ERR_NONE] = { "other", false },
	[ERR_PROTOCOL] = { "other: broken protocol", true },
	[ERR_SERVER_LOST] = { "other: server lost", true },
	[ERR_SERVER_CONNECT] = { "server could not be reached", true },
	[ERR_PASSWORD] = { "other: wrong password", true },
	[ERR_NOT_ALLOWED] = { "other: not allowed", true },
	[ERR_NO_DATABASE] = { "other: no such database", true },
	[ERR_LIMIT] = { "other: a limit was reached", true },
	[ERR_MEMORY] = { "other: out of memory", true },
	[ERR_FILES] = { "out of descriptors or threads", true },
	[ERR_ADMIN_SHUTDOWN] = { "other: ended by an administrator", false },
	[ERR_CANNOT_CONNECT] = { "other: not now", true },
	[ERR_UNREACHABLE] = { "PostgreSQL cannot be reached (fail_fast)", true },
	[ERR_QUERY_CANCELED] = { "other: query canceled", true },
	[ERR_IDLE_TRANSACTION] = { "other: idle in a transaction", true },
	[ERR_TRANSACTION_TIME] = { "other: transaction too long", true },
	[ERR_IDLE_SESSION] = { "other: idle for too long", true },
	[ERR_STATEMENT_NAME] = { "unknown prepared statement", true },
	[ERR_STATEMENT_TWICE] = { "prepared statement named twice", true },
	[ERR_UNSUPPORTED] = { "other: not supported", true },
	[ERR_TOO_LONG] = { "other: too long", true },
	[ERR_PARAMETER] = { "other: a bad parameter", true },
	[ERR_NO_PARAMETER] = { "other: unknown parameter", true },
	[ERR_SYNTAX] = { "other: syntax", true },
	[ERR_RIGHTS] = { "other: not permitted", true },
	[ERR_STATE] = { "other: not in this state", true },
	[ERR_CONFIG] = { "other: configuration", true },
	[ERR_UNFIT] = { "other: settings that do not fit together", true },
	[ERR_SYSTEM] = { "other: the operating system", true },
	[ERR_INTERNAL] = { "other: internal error", true },
	[ERR_FOREIGN] = { "refused by PostgreSQL", true },
};

_Static_assert(KNOWN_COUNT + ERR_CODES <= CLOSE_REASONS_MAX, "more rows than counters");

const struct close_reason_row *close_reason_row(size_t index)
{
	if (index < KNOWN_COUNT)
		return &known[index].row;
	return index < KNOWN_COUNT + ERR_CODES ? &others[index - KNOWN_COUNT] : NULL;
}

static bool begins(const char *text, const char *words)
{
	return strncmp(text, words, strlen(words)) == 0;
}

size_t close_reason_find(enum err_code code, const char *words)
{
	/* PostgreSQL's own words may begin as ours do. */
	bool is_ours = code != ERR_FOREIGN || begins(words, "server login has been failing");

	for (size_t i = 0; is_ours && i < KNOWN_COUNT; i++) {
		if (begins(words, known[i].words))
			return i;
	}
	return KNOWN_COUNT + code;
}

/* A character of UTF-8 that was cut in two is left out. */
static void cut(char *text)
{
	size_t count = strlen(text), tail = 0;

	while (tail < count && tail < 3 && ((unsigned char)text[count - 1 - tail] & 0xc0) == 0x80)
		tail++;
	if (tail < count && (unsigned char)text[count - 1 - tail] >= 0xc0)
		text[count - 1 - tail] = 0;
}

static void note_message(struct close_count *count, const struct close_told *told)
{
	struct strbuf line = strbuf_begin(count->message, sizeof(count->message));

	strbuf_add(&line, told->words);
	if (told->detail) {
		strbuf_add(&line, ": ");
		strbuf_add(&line, told->detail);
	}
	if (line.count + 1 == sizeof(count->message))
		cut(count->message);
	for (char *at = count->message; *at; at++) {
		if ((unsigned char)*at < ' ' || *at == 0x7f)
			*at = ' ';
	}
}

void close_reason_note(struct close_counts *counts, const struct close_told *told)
{
	struct close_count *count = &counts->counts[close_reason_find(told->code, told->words)];

	count->count++;
	count->wall_last = wall_now();
	text_copy(count->database, sizeof(count->database), told->database);
	text_copy(count->user, sizeof(count->user), told->user);
	note_message(count, told);
}
