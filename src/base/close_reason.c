/* SPDX-License-Identifier: ISC */
/*
 * The table of close reasons, and the counters of closed connections.
 */
#include "pgweir/base/close_reason.h"

#include <assert.h>
#include <string.h>

#include "pgweir/base/strbuf.h"
#include "pgweir/base/text.h"

#include "pgweir/base/banned.h"

#define ROW(id, code, is_error, name, words) [CLOSE_##id] = { name, is_error, code, words },

static const struct close_reason_row rows[CLOSE_REASONS] = {
	[ERR_NONE] = { "other", false, ERR_NONE, NULL },
	[ERR_PROTOCOL] = { "other: broken protocol", true, ERR_PROTOCOL, NULL },
	[ERR_SERVER_LOST] = { "other: server lost", true, ERR_SERVER_LOST, NULL },
	[ERR_SERVER_CONNECT] = { "server could not be reached", true, ERR_SERVER_CONNECT, NULL },
	[ERR_PASSWORD] = { "other: wrong password", true, ERR_PASSWORD, NULL },
	[ERR_NOT_ALLOWED] = { "other: not allowed", true, ERR_NOT_ALLOWED, NULL },
	[ERR_NO_DATABASE] = { "other: no such database", true, ERR_NO_DATABASE, NULL },
	[ERR_LIMIT] = { "other: a limit was reached", true, ERR_LIMIT, NULL },
	[ERR_MEMORY] = { "out of memory", true, ERR_MEMORY, "out of memory" },
	[ERR_FILES] = { "out of descriptors or threads", true, ERR_FILES, NULL },
	[ERR_ADMIN_SHUTDOWN] = { "other: ended by an administrator", false, ERR_ADMIN_SHUTDOWN,
	                         NULL },
	[ERR_CANNOT_CONNECT] = { "other: not now", true, ERR_CANNOT_CONNECT, NULL },
	[ERR_UNREACHABLE] = { "PostgreSQL cannot be reached (fail_fast)", true, ERR_UNREACHABLE,
	                      NULL },
	[ERR_QUERY_CANCELED] = { "other: query canceled", true, ERR_QUERY_CANCELED, NULL },
	[ERR_IDLE_TRANSACTION] = { "other: idle in a transaction", true, ERR_IDLE_TRANSACTION,
	                           NULL },
	[ERR_TRANSACTION_TIME] = { "other: transaction too long", true, ERR_TRANSACTION_TIME,
	                           NULL },
	[ERR_IDLE_SESSION] = { "other: idle for too long", true, ERR_IDLE_SESSION, NULL },
	[ERR_STATEMENT_NAME] = { "unknown prepared statement", true, ERR_STATEMENT_NAME, NULL },
	[ERR_STATEMENT_TWICE] = { "prepared statement named twice", true, ERR_STATEMENT_TWICE,
	                          NULL },
	[ERR_UNSUPPORTED] = { "other: not supported", true, ERR_UNSUPPORTED, NULL },
	[ERR_TOO_LONG] = { "other: too long", true, ERR_TOO_LONG, NULL },
	[ERR_PARAMETER] = { "other: a bad parameter", true, ERR_PARAMETER, NULL },
	[ERR_NO_PARAMETER] = { "other: unknown parameter", true, ERR_NO_PARAMETER, NULL },
	[ERR_SYNTAX] = { "other: syntax", true, ERR_SYNTAX, NULL },
	[ERR_RIGHTS] = { "other: not permitted", true, ERR_RIGHTS, NULL },
	[ERR_STATE] = { "other: not in this state", true, ERR_STATE, NULL },
	[ERR_CONFIG] = { "other: configuration", true, ERR_CONFIG, NULL },
	[ERR_UNFIT] = { "other: settings that do not fit together", true, ERR_UNFIT, NULL },
	[ERR_SYSTEM] = { "other: the operating system", true, ERR_SYSTEM, NULL },
	[ERR_INTERNAL] = { "other: internal error", true, ERR_INTERNAL, NULL },
	[ERR_FOREIGN] = { "refused by PostgreSQL", true, ERR_FOREIGN, NULL },
	CLOSE_REASON_LIST(ROW)
};

const struct close_reason_row *close_reason_row(enum close_reason reason)
{
	assert(reason < CLOSE_REASONS);
	return &rows[reason];
}

static const struct {
	const char *words; /* the text of the error begins with this */
	enum close_reason reason;
} known[] = {
	{ "client close request", CLOSE_CLIENT_QUIT },
	{ "client unexpected eof", CLOSE_CLIENT_EOF },
	{ "left before the first message", CLOSE_LEFT_EARLY },
	{ "left before authentication", CLOSE_LEFT_UNAUTHENTICATED },
	{ "cancel request delivered", CLOSE_CANCEL_DELIVERED },
	{ "failed cancel request", CLOSE_CANCEL_FAILED },
	{ "cancel request for idle client", CLOSE_CANCEL_IDLE },
	{ "ignoring cancel request for server that is setting vars", CLOSE_CANCEL_SETTING },
	{ "bad cancel request", CLOSE_CANCEL_BAD },
	{ "SSL required", CLOSE_TLS_REQUIRED },
	{ "received unencrypted data after", CLOSE_EARLY_DATA },
	{ "old V2 protocol not supported", CLOSE_PROTOCOL_V2 },
	{ "too many TLS key updates", CLOSE_TLS_KEY_UPDATES },
	{ "bad packet header", CLOSE_BAD_HEADER },
	{ "unknown pkt", CLOSE_UNKNOWN_MESSAGE },
	{ "PQexec disallowed", CLOSE_PQEXEC },
	{ "unsupported startup parameter", CLOSE_STARTUP_PARAMETER },
	{ "no username supplied", CLOSE_NO_USER },
	{ "username too long", CLOSE_LONG_USER },
	{ "not allowed", CLOSE_CONSOLE_USER },
	{ "no such database", CLOSE_NO_DATABASE },
	{ "database \"", CLOSE_DATABASE_DISABLED },
	{ "pooler is draining", CLOSE_DRAINING },
	{ "the deadline of DRAIN has passed", CLOSE_DRAIN_OVERDUE },
	{ "pooler is shutting down", CLOSE_POOLER_SHUTDOWN },
	{ "password authentication failed", CLOSE_AUTH_PASSWORD },
	{ "SASL authentication failed", CLOSE_AUTH_SASL },
	{ "certificate authentication failed", CLOSE_AUTH_CERTIFICATE },
	{ "unix socket login rejected", CLOSE_AUTH_PEER },
	{ "empty password returned by client", CLOSE_EMPTY_PASSWORD },
	{ "login rejected", CLOSE_HBA_REJECT },
	{ "no authentication method is found", CLOSE_HBA_NO_RULE },
	{ "expected a password message", CLOSE_NO_PASSWORD_MESSAGE },
	{ "too many logins at once", CLOSE_TOO_MANY_LOGINS },
	{ "not logged in when open files ran short", CLOSE_FILES_EVICTED },
	{ "no more connections allowed (open files)", CLOSE_FILES_LIMIT },
	{ "no more connections allowed (max_client_conn)", CLOSE_CLIENT_LIMIT },
	{ "client connections exceeded (max_db_client_connections)", CLOSE_DATABASE_CLIENT_LIMIT },
	{ "client connections exceeded (max_user_client_connections)", CLOSE_USER_CLIENT_LIMIT },
	{ "client_login_timeout (server down)", CLOSE_LOGIN_TIMEOUT_SERVER },
	{ "client_login_timeout", CLOSE_LOGIN_TIMEOUT },
	{ "client_idle_timeout", CLOSE_CLIENT_IDLE_TIMEOUT },
	{ "query_wait_timeout", CLOSE_QUERY_WAIT_TIMEOUT },
	{ "query_timeout", CLOSE_QUERY_TIMEOUT_WAITING },
	{ "query timeout", CLOSE_QUERY_TIMEOUT },
	{ "idle transaction timeout", CLOSE_IDLE_TRANSACTION },
	{ "transaction timeout", CLOSE_TRANSACTION_TIMEOUT },
	{ "suspend_timeout", CLOSE_SUSPEND_TIMEOUT },
	{ "takeover_timeout", CLOSE_TAKEOVER_TIMEOUT },
	{ "transaction blocks not allowed in statement pooling mode", CLOSE_STATEMENT_MODE },
	{ "server login has been failing", CLOSE_LOGIN_FAILING },
	{ "server shutting down", CLOSE_SERVER_SHUTDOWN },
	{ "database removed", CLOSE_DATABASE_REMOVED },
	{ "admin forced disconnect", CLOSE_KILLED },
	{ "invalid server parameter", CLOSE_BAD_SERVER_PARAMETER },
	{ "server conn crashed?", CLOSE_SERVER_CRASHED },
	{ "server ended the connection", CLOSE_SERVER_ENDED },
	{ "server closed the connection during login", CLOSE_SERVER_LOGIN_CLOSED },
	{ "pgweir's own login", CLOSE_OWN_LOGIN },
	{ "connect timeout", CLOSE_CONNECT_TIMEOUT },
	{ "server check query timeout", CLOSE_CHECK_TIMEOUT },
	{ "server reset query timeout", CLOSE_RESET_TIMEOUT },
	{ "server parameters timeout", CLOSE_PARAMETERS_TIMEOUT },
	{ "reset query failed", CLOSE_RESET_FAILED },
	{ "server idle timeout", CLOSE_SERVER_IDLE_TIMEOUT },
	{ "server lifetime over", CLOSE_SERVER_LIFETIME },
	{ "database configuration changed", CLOSE_ENTRY_CHANGED },
	{ "its parameters are too many to follow", CLOSE_TOO_MANY_PARAMETERS },
	{ "parameters could not be set", CLOSE_PARAMETERS_NOT_SET },
	{ "a cancel request may still arrive", CLOSE_CANCEL_UNDER_WAY },
	{ "a statement name of ours is taken", CLOSE_STATEMENT_NAME_TAKEN },
	{ "pool_mode has changed", CLOSE_POOL_MODE_CHANGED },
	{ "its address has left DNS", CLOSE_ADDRESS_REMOVED },
	{ "evicted for max_db_connections", CLOSE_EVICTED_DATABASE },
	{ "evicted for max_user_connections", CLOSE_EVICTED_USER },
	{ "evicted for pool_size", CLOSE_EVICTED_POOL },
	{ "too many servers in the pool", CLOSE_POOL_SHRUNK },
	{ "pause mode", CLOSE_PAUSED },
	{ "suspend mode", CLOSE_SUSPENDED },
	{ "client disconnect while server was not ready", CLOSE_CLIENT_LEFT },
	{ "replication client has left", CLOSE_REPLICATION_CLIENT_LEFT },
	{ "out of step after a COPY that failed", CLOSE_COPY_OUT_OF_STEP },
	{ "no answer, another host is tried", CLOSE_ANOTHER_HOST },
	{ "out of memory", CLOSE_MEMORY },
};

static bool begins(const char *text, const char *words)
{
	return strncmp(text, words, strlen(words)) == 0;
}

enum close_reason close_reason_find(enum err_code code, const char *words)
{
	/* A text from PostgreSQL may begin with the same words as ours. */
	bool is_ours = code != ERR_FOREIGN || begins(words, "server login has been failing");

	for (size_t i = 0; is_ours && i < sizeof(known) / sizeof(known[0]); i++) {
		if (begins(words, known[i].words))
			return known[i].reason;
	}
	return (enum close_reason)code;
}

/* If the text ends with an incomplete UTF-8 character, removes that character. */
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
	struct close_count *count = &counts->counts[told->reason];

	count->count++;
	count->wall_last = wall_now();
	text_copy(count->database, sizeof(count->database), told->database);
	text_copy(count->user, sizeof(count->user), told->user);
	note_message(count, told);
}
