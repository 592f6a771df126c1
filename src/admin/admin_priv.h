/* SPDX-License-Identifier: ISC */
/*
 * What the files of the console share: requests, sessions, portals.
 *
 *   text --> request (small talk | SHOW | command) --> run, or a cursor --> rows
 */
#ifndef PGWEIR_ADMIN_ADMIN_PRIV_H
#define PGWEIR_ADMIN_ADMIN_PRIV_H

#include "pgweir/admin/console.h"
#include "pgweir/base/buf.h"
#include "pgweir/base/bytes.h"

#include "show/show_priv.h"

/* ---- the manual's lists of commands and columns: manual.c ---- */

/* Copies a template to *out. Its lines @commands@, @features@ and @shows@ become these lists. */
void admin_manual_fill(struct bytes template, struct buf *out);

struct console_session;

/* ---- small talk: request.c ---- */

enum talk_effect {
	TALK_NOTHING,
	TALK_BEGIN,      /* ReadyForQuery has status T from now on */
	TALK_END,        /* ReadyForQuery has status I again */
	TALK_FORGET,     /* drops one prepared statement */
	TALK_FORGET_ALL, /* drops all prepared statements */
	TALK_IGNORED     /* only a NOTICE: the SET is ignored */
};

/* A query that drivers send to any server. */
struct talk {
	const char *words; /* "?" matches any token and stores it, "..." matches the rest */
	const char *tag;
	enum talk_effect effect;
	struct show show; /* its table, of one column; without next(): it returns no rows */
	const char *text; /* the value of its single row; NULL: it has another table */
};

/* ---- commands: console.c ---- */

enum command_argument {
	ARG_NONE,
	ARG_NAME,   /* one word, or none */
	ARG_HOST,   /* DISABLE HOST name */
	ARG_SETTING /* SET key = value */
};

struct command {
	const char *words; /* one, or two */
	const char *tag;   /* of CommandComplete */
	enum command_argument argument;
	const char *usage; /* of the argument, for help: "", " [db]", " db" ... */
	enum console_role role;
	/*
	 * Answered with session->tag or, if that is empty, the command's tag. It is answered later
	 * if the command waits, and not at all if the session is mute, or freed with its client.
	 * false: *err has the reason.
	 */
	bool (*run)(struct console_session *session, struct err *err);
	const char *help;
};

/* Ends with words NULL. */
extern const struct command commands[];

/* Whether its use is an event of SHOW EVENTS: it may change something. SET has an event of its own.
 */
bool command_is_event(const struct command *command);

/* Stops waiting: the watch and the tick of DRAIN. The command itself is not undone. */
void commands_wait_stop(struct console_session *session);

/* ---- requests: request.c ---- */

/* A statement that was recognised. A plain value: it owns nothing and may be copied. */
struct request {
	const char *tag;         /* of CommandComplete, unless session->tag has one; "": empty */
	const struct talk *talk; /* NULL: a SHOW, a command, or empty */
	const struct show *show; /* its rows; NULL: it returns none */
	const struct command *command; /* or NULL */
	struct words words;
};

/*
 * Checks what is known only when it runs: the rights of the role, and the database. false: *err has
 * the reason.
 */
bool request_check(const struct request *request, const struct console *console,
                   enum console_role role, struct err *err);

/*
 * Reads one statement; or several, `most` of them at most, if each is small talk. known:
 * commands[]. Returns how many they are. 0: *err has the reason.
 */
unsigned int request_read(struct bytes text, const struct command *known, struct request *requests,
                          unsigned int most, struct err *err);

/*
 * After an unknown text: session->hint suggests what it may have meant, as a sentence ("":
 * nothing), and session->logged is what to log instead, if it may contain a password.
 */
void request_explain(struct bytes text, const struct command *known,
                     struct console_session *session);

/* ---- sessions: session.c --> request.c, and console.c has the commands ---- */

/* Maximum bytes of a name, with the zero. */
#define SESSION_NAME_SIZE 256

struct prepared {
	UT_hash_handle hh; /* by name */
	struct request request;
	char name[];
};

enum portal_state {
	PORTAL_NONE,
	PORTAL_NEW,   /* nothing has been executed */
	PORTAL_BEGUN, /* more rows may follow */
	PORTAL_ENDED
};

/* One execution of a request. */
struct portal {
	enum portal_state state;
	struct request request;
	uint32_t binary; /* bit n: column n is sent in binary */
	struct cursor cursor;
	char name[SESSION_NAME_SIZE];
};

enum waiting_kind {
	WAITING_PAUSE,
	WAITING_SUSPEND,
	WAITING_CLOSE,
	WAITING_DRAIN,
	WAITING_HOST /* DRAIN HOST */
};

/* A waiting command: PAUSE, SUSPEND, WAIT_CLOSE, DRAIN or DRAIN HOST. */
struct waiting {
	struct timer look; /* set while it waits: looks whether that is over */
	char name[256];    /* of a host or database; "": all */
	usec_t idle_at;    /* since when nothing runs there (clock_now()); 0: something does */
	bool is_leaving;   /* another process had taken over before it began */
	enum waiting_kind kind;
	struct timer tick; /* DRAIN: reports the progress */
};

enum session_state {
	SESSION_READY,   /* the next message may be handled */
	SESSION_ROWS,    /* rows are being sent */
	SESSION_WAITING, /* a command runs; PAUSE and similar commands wait in this state */
	SESSION_FULL,    /* the answer is complete, but the client has not read all of it */
	SESSION_MUTE     /* the daemon stops at once: no more answers */
};

struct console_session {
	struct console *console;
	struct client *client;
	enum console_role role;
	enum session_state state;
	char status;      /* in ReadyForQuery: 'I', 'T' */
	bool is_simple;   /* a Query runs, and ends with ReadyForQuery */
	bool is_skipping; /* an error occurred: messages are ignored up to Sync */
	struct buf out;   /* not passed to the client's stream yet */
	struct portal portal;
	uint32_t row_limit, row_count;
	struct timer turn; /* continues in the next turn */
	struct waiting waiting;
	struct prepared *statements;
	char tag[512];
	char hint[512];   /* sent with the next error */
	char logged[768]; /* logged instead of the next error's text; "": log that text */
};

/* For clients_new(), but for its argument. */
extern const struct console_door session_door;

/* An admin over the Unix socket who is the system user of pgweir: may do everything. */
bool session_is_owner(const struct console_session *session);

/* Adds a NOTICE. It is sent before the answer of the running command. */
void session_notice(struct console_session *session, const char *text, const char *detail);

/* An ERROR answers the request. Messages of the extended protocol are ignored up to Sync. */
void session_fail(struct console_session *session, const struct err *err);

/* Answers the running request with CommandComplete. */
void session_complete(struct console_session *session);

/* Continues in the next turn: for answers completed in a callback of another module. */
void session_later(struct console_session *session);

/* ---- the console ---- */

struct console {
	struct console_with with;
	struct console_door door;
	struct show_source source;
	struct timer second;
	unsigned int quarters; /* of this second, if pools measure that often */
};

/* The columns of its rows; count 0: it returns none. Valid as long as the request. */
static inline struct columns request_columns(const struct request *request,
                                             const struct console *console)
{
	struct columns columns;

	if (!request->show)
		return (struct columns){ 0 };
	columns =
	    rows_columns(request->show, show_source_config(&console->source)->console_version);
	if (request->show == &show_setting) {
		columns.renamed = columns.at->name;
		columns.renamed_to = request->words.value;
	}
	return columns;
}

/*
 * The pools of the first lane. PAUSE, SUSPEND and the configuration are the same in all lanes, and
 * so are the databases that have an entry of their own, or are paused or disabled.
 */
static inline struct pools *console_pools(const struct console *console)
{
	return console->with.lanes->at[0].pools;
}

#endif
