/* SPDX-License-Identifier: ISC */
/*
 * Close reasons: a table of why connections are closed, and for each reason how often and when
 * last.
 *
 * The reason is chosen where the connection is closed. An error without a row of its own is
 * counted under its code. So the number of rows is fixed, whatever clients and servers send.
 */
#ifndef PGWEIR_BASE_CLOSE_REASON_H
#define PGWEIR_BASE_CLOSE_REASON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pgweir/base/clock.h"
#include "pgweir/base/histogram.h"

/*
 * ---- err code ----
 *
 * ERROR(id, sqlstate, is_error, name, words): the codes of errors. What follows the SQLSTATE is for
 * a connection that is closed by an error without a close reason: see struct close_reason_row.
 */

#define ERR_CODE_LIST(ERROR)                                                                \
	ERROR(NONE, "00000", false, "other", NULL)                                          \
	ERROR(PROTOCOL, "08P01", true, "other: broken protocol", NULL)                      \
	ERROR(SERVER_LOST, "08006", true, "other: server lost", NULL)                       \
	ERROR(SERVER_CONNECT, "08001", true, "server could not be reached", NULL)           \
	ERROR(PASSWORD, "28P01", true, "other: wrong password", NULL)                       \
	ERROR(NOT_ALLOWED, "28000", true, "other: not allowed", NULL)                       \
	ERROR(NO_DATABASE, "3D000", true, "other: no such database", NULL)                  \
	/* one of our limits, or query_wait_timeout */                                      \
	ERROR(LIMIT, "53300", true, "other: a limit was reached", NULL)                     \
	ERROR(MEMORY, "53200", true, "out of memory", "out of memory")                      \
	ERROR(FILES, "53000", true, "out of descriptors or threads", NULL)                  \
	ERROR(ADMIN_SHUTDOWN, "57P01", false, "other: ended by an administrator", NULL)     \
	ERROR(CANNOT_CONNECT, "57P03", true, "other: not now", NULL)                        \
	ERROR(UNREACHABLE, "57P03", true, "PostgreSQL cannot be reached (fail_fast)", NULL) \
	/* query_timeout */                                                                 \
	ERROR(QUERY_CANCELED, "57014", true, "other: query canceled", NULL)                 \
	ERROR(IDLE_TRANSACTION, "25P03", true, "other: idle in a transaction", NULL)        \
	ERROR(TRANSACTION_TIME, "25P04", true, "other: transaction too long", NULL)         \
	ERROR(IDLE_SESSION, "57P05", true, "other: idle for too long", NULL)                \
	ERROR(STATEMENT_NAME, "26000", true, "unknown prepared statement", NULL)            \
	ERROR(STATEMENT_TWICE, "42P05", true, "prepared statement named twice", NULL)       \
	/* also the SQLSTATE of PostgreSQL's routine that says so */                        \
	ERROR(PLAN_CHANGED, "0A000", true, "cached plan with other columns", NULL)          \
	ERROR(UNSUPPORTED, "0A000", true, "other: not supported", NULL)                     \
	ERROR(TOO_LONG, "54000", true, "other: too long", NULL)                             \
	ERROR(PARAMETER, "22023", true, "other: a bad parameter", NULL)                     \
	ERROR(NO_PARAMETER, "42704", true, "other: unknown parameter", NULL)                \
	ERROR(SYNTAX, "42601", true, "other: syntax", NULL)                                 \
	ERROR(RIGHTS, "42501", true, "other: not permitted", NULL)                          \
	ERROR(STATE, "55000", true, "other: not in this state", NULL)                       \
	ERROR(CONFIG, "F0000", true, "other: configuration", NULL)                          \
	ERROR(SYSTEM, "58000", true, "other: the operating system", NULL)                   \
	/* a bug of pgweir */                                                               \
	ERROR(INTERNAL, "XX000", true, "other: internal error", NULL)                       \
	/* an error sent by PostgreSQL, with its own SQLSTATE */                            \
	ERROR(FOREIGN, "XX000", true, "refused by PostgreSQL", NULL)

#define ERR_CODE_ID(id, sqlstate, is_error, name, words) ERR_##id,

enum err_code { ERR_CODE_LIST(ERR_CODE_ID) ERR_CODES };

#define CLOSE_NAME_SIZE 64     /* longer names are truncated */
#define CLOSE_MESSAGE_SIZE 256 /* longer messages are truncated */

/*
 * One row for each: X(id, code, is_error, name, words).
 * words: text of the log line and for the client, or its beginning; the code belongs to it.
 * NULL: nothing is logged, or the words come from elsewhere. SAME: the words are the name.
 */
/* clang-format off */
#define SAME(X, id, code, is_error, words) X(id, code, is_error, words, words)
#define CLOSE_REASON_LIST(X) \
	X(CLIENT_QUIT, ERR_NONE, false, "client disconnected", "client close request") \
	X(CLIENT_EOF, ERR_NONE, true, "client connection lost", "client unexpected eof") \
	X(LEFT_EARLY, ERR_NONE, false, "left before the first message", NULL) \
	X(LEFT_UNAUTHENTICATED, ERR_NONE, false, "left before authentication", NULL) \
	X(CANCEL_DELIVERED, ERR_NONE, false, "cancel request delivered", NULL) \
	X(CANCEL_FAILED, ERR_STATE, true, "cancel request with unknown key", "failed cancel request") \
	SAME(X, CANCEL_IDLE, ERR_STATE, false, "cancel request for idle client") \
	SAME(X, CANCEL_SETTING, ERR_STATE, false, \
	     "ignoring cancel request for server that is setting vars") \
	SAME(X, CANCEL_BAD, ERR_PROTOCOL, true, "bad cancel request") \
	SAME(X, TLS_REQUIRED, ERR_NOT_ALLOWED, true, "SSL required") \
	X(CLIENT_TLS, ERR_PROTOCOL, true, "TLS handshake with the client failed", NULL) \
	SAME(X, ENCRYPTION_TWICE, ERR_PROTOCOL, true, "asked twice for the same encryption") \
	SAME(X, EARLY_DATA, ERR_PROTOCOL, true, "received unencrypted data after") \
	SAME(X, PROTOCOL_V2, ERR_PROTOCOL, true, "old V2 protocol not supported") \
	SAME(X, TLS_KEY_UPDATES, ERR_PROTOCOL, true, "too many TLS key updates") \
	SAME(X, TLS_BROKEN, ERR_PROTOCOL, true, "invalid TLS record or fatal alert") \
	X(BAD_HEADER, ERR_PROTOCOL, true, "broken message", "bad packet header") \
	X(UNKNOWN_MESSAGE, ERR_PROTOCOL, true, "unknown message", "unknown pkt") \
	SAME(X, PQEXEC, ERR_NOT_ALLOWED, true, "PQexec disallowed") \
	SAME(X, STARTUP_PARAMETER, ERR_NO_PARAMETER, true, "unsupported startup parameter") \
	SAME(X, NO_USER, ERR_NOT_ALLOWED, true, "no username supplied") \
	SAME(X, LONG_USER, ERR_NOT_ALLOWED, true, "username too long") \
	X(CONSOLE_USER, ERR_NOT_ALLOWED, true, "not allowed in the console", "not allowed") \
	SAME(X, NO_DATABASE, ERR_NO_DATABASE, true, "no such database") \
	X(DATABASE_DISABLED, ERR_CANNOT_CONNECT, true, "database disabled", NULL) \
	SAME(X, DRAINING, ERR_CANNOT_CONNECT, false, "pooler is draining") \
	SAME(X, DRAIN_OVERDUE, ERR_ADMIN_SHUTDOWN, true, "the deadline of DRAIN has passed") \
	SAME(X, POOLER_SHUTDOWN, ERR_ADMIN_SHUTDOWN, true, "pooler is shutting down") \
	SAME(X, AUTH_PASSWORD, ERR_PASSWORD, true, "password authentication failed") \
	SAME(X, AUTH_SASL, ERR_PASSWORD, true, "SASL authentication failed") \
	SAME(X, AUTH_CERTIFICATE, ERR_NOT_ALLOWED, true, "certificate authentication failed") \
	SAME(X, AUTH_PEER, ERR_NOT_ALLOWED, true, "unix socket login rejected") \
	SAME(X, AUTH_PAM, ERR_NOT_ALLOWED, true, "PAM authentication failed") \
	SAME(X, AUTH_LDAP, ERR_NOT_ALLOWED, true, "LDAP authentication failed") \
	SAME(X, AUTH_TRUST, ERR_NOT_ALLOWED, true, "\"trust\" authentication failed") \
	SAME(X, EMPTY_PASSWORD, ERR_PASSWORD, true, "empty password returned by client") \
	X(HBA_REJECT, ERR_NOT_ALLOWED, true, "login rejected by a rule", "login rejected") \
	X(HBA_NO_RULE, ERR_NOT_ALLOWED, true, \
	  "login without a rule", "no authentication method is found") \
	SAME(X, NO_PASSWORD_MESSAGE, ERR_PROTOCOL, true, "expected a password message") \
	SAME(X, TOO_MANY_LOGINS, ERR_LIMIT, true, "too many logins at once") \
	SAME(X, FILES_EVICTED, ERR_FILES, true, "not logged in when open files ran short") \
	SAME(X, FILES_LIMIT, ERR_LIMIT, true, "no more connections allowed (open files)") \
	SAME(X, CLIENT_LIMIT, ERR_LIMIT, true, "no more connections allowed (max_client_conn)") \
	SAME(X, DATABASE_CLIENT_LIMIT, ERR_LIMIT, true, \
	     "client connections exceeded (max_db_client_connections)") \
	SAME(X, USER_CLIENT_LIMIT, ERR_LIMIT, true, \
	     "client connections exceeded (max_user_client_connections)") \
	SAME(X, NO_GREETING, ERR_MEMORY, true, "failed to prepare welcome message") \
	SAME(X, NOT_WATCHED, ERR_SYSTEM, true, "cannot watch the connection") \
	SAME(X, LOGIN_TIMEOUT_SERVER, ERR_CANNOT_CONNECT, true, \
	     "client_login_timeout (server down)") \
	SAME(X, LOGIN_TIMEOUT, ERR_CANNOT_CONNECT, true, "client_login_timeout") \
	SAME(X, CLIENT_IDLE_TIMEOUT, ERR_IDLE_SESSION, true, "client_idle_timeout") \
	SAME(X, PIN_IDLE_TIMEOUT, ERR_IDLE_SESSION, true, "pin_idle_timeout") \
	SAME(X, QUERY_WAIT_TIMEOUT, ERR_LIMIT, true, "query_wait_timeout") \
	X(QUEUE_FULL, ERR_LIMIT, true, \
	  "max_waiting", "too many clients wait for a server (max_waiting)") \
	X(SHED, ERR_LIMIT, true, \
	  "queue_target", "clients wait too long for a server (queue_target)") \
	X(QUERY_TIMEOUT_WAITING, ERR_QUERY_CANCELED, true, \
	  "query_timeout while waiting", "query_timeout") \
	SAME(X, QUERY_TIMEOUT, ERR_QUERY_CANCELED, true, "query timeout") \
	SAME(X, IDLE_TRANSACTION, ERR_IDLE_TRANSACTION, true, "idle transaction timeout") \
	SAME(X, TRANSACTION_TIMEOUT, ERR_TRANSACTION_TIME, true, "transaction timeout") \
	SAME(X, SUSPEND_TIMEOUT, ERR_ADMIN_SHUTDOWN, true, "suspend_timeout") \
	SAME(X, TAKEOVER_TIMEOUT, ERR_ADMIN_SHUTDOWN, true, "takeover_timeout") \
	SAME(X, CONSOLE_TAKEN_OVER, ERR_NONE, false, "its process takes over") \
	SAME(X, STATEMENT_MODE, ERR_UNSUPPORTED, true, \
	     "transaction blocks not allowed in statement pooling mode") \
	X(LOGIN_FAILING, ERR_SERVER_CONNECT, true, "server login has been failing", NULL) \
	SAME(X, SERVER_SHUTDOWN, ERR_ADMIN_SHUTDOWN, true, "server shutting down") \
	SAME(X, DATABASE_REMOVED, ERR_ADMIN_SHUTDOWN, true, "database removed") \
	SAME(X, KILLED, ERR_ADMIN_SHUTDOWN, false, "admin forced disconnect") \
	SAME(X, BAD_SERVER_PARAMETER, ERR_PARAMETER, true, "invalid server parameter") \
	SAME(X, SERVER_CRASHED, ERR_SERVER_LOST, true, "server conn crashed?") \
	SAME(X, SERVER_ENDED, ERR_SERVER_LOST, true, "server ended the connection") \
	SAME(X, SERVER_LOGIN_CLOSED, ERR_SERVER_CONNECT, true, \
	     "server closed the connection during login") \
	SAME(X, HOST_ROLE, ERR_SERVER_CONNECT, false, "host has another role") \
	SAME(X, HOST_LOST, ERR_SERVER_LOST, true, "host does not answer any more") \
	SAME(X, HOST_DRAINED, ERR_ADMIN_SHUTDOWN, false, "host is drained") \
	X(HOST_BEHIND, ERR_ADMIN_SHUTDOWN, false, \
	  "standby is too far behind", "standby is too far behind (max_standby_lag)") \
	X(HOST_DISABLED, ERR_ADMIN_SHUTDOWN, true, \
	  "host is disabled", "host was disabled by an administrator") \
	X(HOST_FENCED, ERR_SERVER_LOST, true, \
	  "host is fenced", "host is fenced: another host is the primary now") \
	SAME(X, ROLE_UNKNOWN, ERR_SERVER_CONNECT, true, "role of the host could not be found out") \
	X(OWN_LOGIN, ERR_NOT_ALLOWED, true, "pgweir's own login refused", NULL) \
	SAME(X, CONNECT_TIMEOUT, ERR_SERVER_CONNECT, true, "connect timeout") \
	SAME(X, CHECK_TIMEOUT, ERR_SERVER_LOST, true, "server check query timeout") \
	SAME(X, RESET_TIMEOUT, ERR_SERVER_LOST, true, "server reset query timeout") \
	SAME(X, PARAMETERS_TIMEOUT, ERR_SERVER_LOST, true, "server parameters timeout") \
	X(QUESTION_FAILED, ERR_SERVER_LOST, true, \
	  "session state could not be read", \
	  "the session state of the server could not be read") \
	X(SESSION_STATE, ERR_SERVER_LOST, false, \
	  "session state left behind", "session state was left behind") \
	SAME(X, LIBRARY, ERR_SERVER_LOST, false, "a client has loaded a library") \
	SAME(X, RESET_FAILED, ERR_PARAMETER, true, "reset query failed") \
	SAME(X, CLEANING_FAILED, ERR_SERVER_LOST, true, "the cleaning failed") \
	X(SEQUENCES_KEPT, ERR_SERVER_LOST, true, "DISCARD SEQUENCES failed", \
	  "DISCARD SEQUENCES was canceled: run the statement again") \
	SAME(X, SERVER_IDLE_TIMEOUT, ERR_SERVER_LOST, false, "server idle timeout") \
	SAME(X, SERVER_LIFETIME, ERR_SERVER_LOST, false, "server lifetime over") \
	X(RECONNECT, ERR_ADMIN_SHUTDOWN, false, \
	  "database configuration changed (RECONNECT)", "database configuration changed") \
	X(ENTRY_CHANGED, ERR_ADMIN_SHUTDOWN, false, \
	  "database configuration changed (database entry)", \
	  "database configuration changed") \
	X(SERVER_TLS_CHANGED, ERR_ADMIN_SHUTDOWN, false, \
	  "database configuration changed (server TLS settings)", \
	  "database configuration changed") \
	X(SERVER_TLS_STOPPED, ERR_ADMIN_SHUTDOWN, false, \
	  "database configuration changed (server TLS turned off during the login)", \
	  "database configuration changed") \
	X(TAKEN_OVER, ERR_ADMIN_SHUTDOWN, false, \
	  "database configuration changed (take-over)", "database configuration changed") \
	SAME(X, TOO_MANY_PARAMETERS, ERR_SERVER_LOST, true, \
	     "its parameters are too many to follow") \
	SAME(X, PARAMETERS_NOT_SET, ERR_SERVER_LOST, true, "parameters could not be set") \
	SAME(X, CANCEL_UNDER_WAY, ERR_SERVER_LOST, false, "a cancel request may still arrive") \
	SAME(X, STATEMENT_NAME_TAKEN, ERR_SERVER_LOST, true, "a statement name of ours is taken") \
	X(POOL_MODE_CHANGED, ERR_SERVER_LOST, false, \
	  "pool_mode has changed", "pool_mode has changed, and server_reset_query is empty") \
	SAME(X, ADDRESS_REMOVED, ERR_ADMIN_SHUTDOWN, false, "its address has left DNS") \
	SAME(X, EVICTED_DATABASE, ERR_SERVER_LOST, false, "evicted for max_db_connections") \
	SAME(X, EVICTED_USER, ERR_SERVER_LOST, false, "evicted for max_user_connections") \
	SAME(X, EVICTED_HOST, ERR_SERVER_LOST, false, "evicted for max_host_connections") \
	SAME(X, EVICTED_ALL, ERR_SERVER_LOST, false, "evicted for max_server_connections") \
	SAME(X, HOST_FULL, ERR_ADMIN_SHUTDOWN, false, "max_host_connections is reached") \
	SAME(X, EVICTED_POOL, ERR_SERVER_LOST, false, "evicted for pool_size") \
	SAME(X, POOL_SHRUNK, ERR_SERVER_LOST, false, "too many servers in the pool") \
	SAME(X, VACATED, ERR_ADMIN_SHUTDOWN, false, "its database is dropped, renamed or copied") \
	SAME(X, PAUSED, ERR_ADMIN_SHUTDOWN, false, "pause mode") \
	SAME(X, SUSPENDED, ERR_ADMIN_SHUTDOWN, false, "suspend mode") \
	SAME(X, CLIENT_LEFT, ERR_SERVER_LOST, false, \
	     "client disconnect while server was not ready") \
	X(CLIENT_QUIT_EARLY, ERR_SERVER_LOST, false, \
	  "client close request while server was not ready", \
	  "client disconnect while server was not ready") \
	SAME(X, REPLICATION_CLIENT_LEFT, ERR_SERVER_LOST, false, "replication client has left") \
	SAME(X, LISTENING_OVER, ERR_SERVER_LOST, false, "no client listens any more") \
	X(LISTENING_UNREAD, ERR_LIMIT, true, \
	  "notifications not read", "too many notifications were not read") \
	X(LISTENING_MODE, ERR_SERVER_LOST, true, \
	  "pool_mode changed while listening", \
	  "pool_mode is session now: connect again, and execute LISTEN there") \
	X(LISTENING_TIMEOUT, ERR_SERVER_LOST, true, \
	  "LISTEN not completed in time", \
	  "LISTEN was not completed within server_connect_timeout: it needs one more server " \
	  "connection, at the same host") \
	X(LISTENING_FULL, ERR_SERVER_LOST, true, \
	  "no server left for LISTEN", \
	  "LISTEN needs one more server connection, and all that max_db_connections, " \
	  "max_user_connections or max_server_connections allows are held by clients that " \
	  "execute LISTEN: increase it") \
	X(LISTENING_ENCODING, ERR_SERVER_LOST, true, \
	  "client_encoding changed while listening", \
	  "client_encoding was changed after LISTEN: set it before") \
	X(LISTENING_LOST, ERR_SERVER_LOST, true, \
	  "listening connection lost", "the listening connection was lost") \
	SAME(X, COPY_OUT_OF_STEP, ERR_PROTOCOL, false, "out of step after a COPY that failed") \
	SAME(X, ANOTHER_HOST, ERR_SERVER_CONNECT, true, "no answer, another host is tried")
/* clang-format on */

/* The first values are those of enum err_code, for errors without a row of their own. */
enum close_reason {
	CLOSE_NONE = ERR_NONE, /* neither logged nor counted */
	CLOSE_MEMORY = ERR_MEMORY,
	CLOSE_LAST_CODE = ERR_CODES - 1,
#define CLOSE_REASON_ID(id, code, is_error, name, words) CLOSE_##id,
	CLOSE_REASON_LIST(CLOSE_REASON_ID)
#undef CLOSE_REASON_ID
	    CLOSE_REASONS
};

struct close_reason_row {
	const char *name; /* what happened, in a few words, as in SHOW ERRORS */
	bool is_error;    /* an administrator may want to do something about it */
	enum err_code code;
	const char *words; /* text of the log line and for the client; see CLOSE_REASON_LIST */
};

struct close_count {
	uint64_t count;
	usec_t wall_last;
	char database[CLOSE_NAME_SIZE]; /* of the last connection */
	char user[CLOSE_NAME_SIZE];
	char message[CLOSE_MESSAGE_SIZE]; /* its text and detail, in one line */
};

struct close_told {
	enum close_reason reason;
	const char *words;  /* text of the log line and for the client */
	const char *detail; /* added to it; NULL: none */
	const char *database, *user;
	struct sparse_sum *of_database; /* counts by reason; NULL: it was of no database */
};

/* Zero it before first use. There is one for clients and one for servers. */
struct close_counts {
	struct close_count counts[CLOSE_REASONS];
	struct sparse_sum of_none; /* by reason: those of no database. To be freed */
};

/* The row of a reason. Static. */
const struct close_reason_row *close_reason_row(enum close_reason reason);

void close_reason_note(struct close_counts *counts, const struct close_told *told);

/*
 * ---- counts of the errors that clients were sent, by SQLSTATE ----
 *
 * Any client can raise an error with an SQLSTATE of its own making. So there is room for
 * SQLSTATES_MAX counts, far more than PostgreSQL's own errors need. Of what comes after those, our
 * own errors still have their counts, as they are few; PostgreSQL's classes have one each (57000),
 * and all else is counted together.
 */

#define SQLSTATES_MAX 500
#define SQLSTATES_OTHER "other" /* no code has small letters */
#define SQLSTATE_SIZE 6
#define SQLSTATES_NAME_SIZE 64 /* longer names are truncated */

enum sqlstate_severity { SQLSTATE_ERROR, SQLSTATE_FATAL, SQLSTATE_PANIC };

/*
 * What is counted together: the SQLSTATE in the upper 40 bits, then who said it, then how severe
 * it was. Rows are in the order of keys, none of which is 0.
 */
typedef uint64_t sqlstate_key;

static inline bool sqlstate_is_ours(sqlstate_key key) { return key & 0x100; }

static inline enum sqlstate_severity sqlstate_severity(sqlstate_key key)
{
	return (enum sqlstate_severity)(key & 0xff);
}

struct sqlstate_count {
	sqlstate_key key;
	char sqlstate[SQLSTATE_SIZE]; /* or SQLSTATES_OTHER */
	uint64_t count;
	usec_t wall_last;
	/* of the last one */
	char database[SQLSTATES_NAME_SIZE], user[SQLSTATES_NAME_SIZE];
};

/* Empty if zeroed. */
struct sqlstates {
	uint64_t total;
	struct sqlstate_count *counts; /* in the order of their keys */
	size_t count, room;
};

/* An error that is sent to a client. The names may be NULL. */
struct sqlstate_said {
	const char *sqlstate, *severity;
	bool is_ours;
	const char *database, *user;
};

/* Counts an error. Without memory only the total counts it. */
void sqlstates_note(struct sqlstates *sqlstates, const struct sqlstate_said *said);

/* The count with the least key that is not less than this one. NULL: none. */
const struct sqlstate_count *sqlstates_from(const struct sqlstates *sqlstates, sqlstate_key key);

const char *sqlstates_severity_name(enum sqlstate_severity severity);

void sqlstates_done(struct sqlstates *sqlstates);

#endif
