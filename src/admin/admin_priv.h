/* SPDX-License-Identifier: ISC */
/*
 * What the files of the console share: its tables, its cursors, its sessions.
 *
 *   text --> request (small talk | SHOW | command) --> run, or a cursor --> rows
 */
#ifndef PGWEIR_ADMIN_ADMIN_PRIV_H
#define PGWEIR_ADMIN_ADMIN_PRIV_H

#include "pgweir/admin/console.h"

#include "grammar_priv.h"
#include "show/show_priv.h"

#define OWNER_OF(pointer, type, member) ((type *)((char *)(pointer)-offsetof(type, member)))

struct console_session;

/* ---- small talk: small_talk.c ---- */

enum talk_effect {
	TALK_NOTHING,
	TALK_ONE,        /* the same, but pgcli finds out by it what we are */
	TALK_BEGIN,      /* ReadyForQuery says T from now on */
	TALK_END,        /* and I again */
	TALK_FORGET,     /* one prepared statement */
	TALK_FORGET_ALL, /* all of them */
	TALK_IGNORED,    /* a NOTICE says that nothing was done */
	TALK_NAMES,      /* a table of rows: small_talk_rows() */
	TALK_CHANGEABLE_NAMES,
	TALK_TYPE,
	TALK_VALUES
};

/* What drivers say to any server. */
struct talk {
	const char *words; /* "?": one token, which is noted; "...": whatever follows */
	const char *tag;
	enum talk_effect effect;
	const char *text;     /* of its one row; NULL: it has none */
	struct column column; /* and that row's column */
};

extern const struct show show_talk; /* the one row of small talk */

/*
 * NULL: it is not small talk. The token under "?" is put into words->value, the one under the
 * "?" before that into words->argument.
 */
const struct talk *small_talk_find(struct bytes text, struct words *words);

/* The table that it asks for; NULL: it has one row, or none. */
const struct show *small_talk_rows(const struct talk *talk);

/* ---- what psql asks for when TAB is pressed: completion.c ---- */

extern const struct show show_names, show_changeable_names, show_type, show_values;

/* ---- commands: the table in commands.c, those that wait in commands_wait.c ---- */

enum outcome {
	OUTCOME_DONE,   /* session->tag says it, or the command's own word */
	OUTCOME_FAILED, /* *err says why */
	OUTCOME_WAIT,   /* it will be answered later */
	OUTCOME_OVER    /* the session is gone: do not touch it */
};

enum command_argument {
	ARG_NONE,
	ARG_OPTIONAL_DATABASE,
	ARG_DATABASE,
	ARG_ID,
	ARG_VERSION,
	ARG_OPTIONAL_SECONDS,
	ARG_SETTING /* SET key = value */
};

struct command {
	const char *words; /* one, or two */
	const char *tag;   /* that says it is done */
	enum command_argument argument;
	enum console_role role;
	enum outcome (*run)(struct console_session *session, struct err *err);
	const char *help;
};

extern const struct command commands[];
extern const size_t commands_count;

/* For help: "", " [db]", " db" ... */
const char *command_argument_name(enum command_argument argument);

/* The one that is meant; NULL: none. */
const struct command *command_find(const struct words *words);

/* ---- those that wait: commands_wait.c ---- */

enum outcome command_pause(struct console_session *session, struct err *err);
enum outcome command_suspend(struct console_session *session, struct err *err);
enum outcome command_wait_close(struct console_session *session, struct err *err);
enum outcome command_drain(struct console_session *session, struct err *err);

/* Nothing is waited for any more. */
void commands_wait_stop(struct console_session *session);

/* ---- what commands share: command.c ---- */

/*
 * The database that the words name, made by `*` if need be; NULL in *database when
 * they name none. `verb` is for the console's own: "cannot <verb> admin db".
 */
bool command_database(struct console_session *session, const char *verb, struct database **database,
                      struct err *err);

/* For struct hold: "PAUSE by admin@127.0.0.1", in `by`. */
const char *command_by(const struct console_session *session, const char *command,
                       char by[HOLD_BY_SIZE]);

bool command_not_paused(struct console_session *session, struct err *err);

/* ---- requests: request.c ---- */

enum request_kind { REQUEST_EMPTY, REQUEST_TALK, REQUEST_SHOW, REQUEST_COMMAND };

/* A statement that was understood. A plain value. */
struct request {
	enum request_kind kind;
	const struct talk *talk;
	const struct show *show;
	const struct command *command;
	struct words words;
	struct column column; /* of show_setting */
};

/* Whether it can be answered: what it names is there. */
bool request_check(const struct request *request, const struct console_session *session,
                   struct err *err);

/* count 0: it gives no rows. The columns are good as long as the request. */
struct columns request_columns(const struct request *request);

/* What a cursor is asked for to give these rows; as long as the request is there. */
struct show_asked request_asked(const struct request *request);

/* Its tag, if what it does has no other. */
const char *request_tag(const struct request *request);

/* ---- reading them: request_read.c ---- */

bool request_read(struct bytes text, struct request *request, struct err *err);

/* Whether it is nothing but small talk, or empty. */
bool request_read_talk(struct bytes text, struct request *request);

/* What may have been meant by a text that was not understood, as a sentence; "": no idea. */
void request_suggest(struct bytes text, char *out, size_t size);

/* What the log has of a text that was not understood and may have a password in it; else "". */
void request_hide(struct bytes text, char *out, size_t size);

/*
 * ---- sessions ----
 *
 *   console.c --> session_door.c --> simple.c, extended.c --> session_run.c --> session.c
 *                                            \--> request_read.c --> commands.c --/
 */

/* One execution of a request. */
struct portal {
	UT_hash_handle hh; /* by name */
	struct request request;
	uint32_t binary; /* columns that are wanted in binary */
	bool is_started, is_ended;
	struct cursor cursor;
	char name[];
};

enum waiting_kind { WAITING_PAUSE, WAITING_SUSPEND, WAITING_CLOSE, WAITING_DRAIN };

/* A waiting command: PAUSE, SUSPEND, WAIT_CLOSE or DRAIN. */
struct waiting {
	struct pools_watch watch;
	bool is_on;
	enum waiting_kind kind;
	struct timer tick;                           /* DRAIN says how it stands */
	char database[CONFIG_DATABASE_NAME_MAX + 1]; /* "" = all */
};

enum session_state {
	SESSION_READY,   /* for the next message */
	SESSION_ROWS,    /* rows are on their way */
	SESSION_WAITING, /* a command waits for a state of things */
	SESSION_FULL,    /* the reader has not taken the answer yet */
	SESSION_MUTE     /* the daemon ends: no answer any more */
};

/* A named statement. */
struct prepared {
	UT_hash_handle hh; /* by name */
	struct request request;
	char name[];
};

struct console_session {
	struct console *console;
	struct client *client;
	enum console_role role;
	enum session_state state;
	char status;           /* for ReadyForQuery: 'I', 'T' */
	bool is_simple;        /* what runs came as a Query: ReadyForQuery ends it */
	bool is_skipping;      /* after an error, up to Sync */
	struct buf out;        /* not handed to the client yet */
	struct portal *portal; /* runs */
	struct portal *simple; /* that of a Query */
	uint32_t row_limit, row_count;
	struct timer turn; /* goes on in the next turn */
	struct waiting waiting;
	struct prepared *statements;
	struct portal *portals;
	char tag[512];
	char hint[512];   /* of the next error */
	char logged[768]; /* what the log has in place of its words; "": those */
};

/* ---- session.c ---- */

/* Whether who asks is the user that we run as, by the Unix socket, and may do everything. */
bool session_is_owner(const struct console_session *session);

/* Whether it has the right to see what a SHOW shows; of anything else it may ask. */
bool session_may_see(const struct console_session *session, const struct request *request);

/* A NOTICE that goes out before the answer. */
void session_notice(struct console_session *session, const char *text, const char *detail);

/* An ERROR answers what runs; up to Sync nothing counts any more. */
void session_fail(struct console_session *session, const struct err *err);

/* What runs was done. */
void session_complete(struct console_session *session);

/* The answer is whole, but we are in somebody else's callback: goes on in the next turn. */
void session_later(struct console_session *session);

/* Rows of the portal that runs, as many as may be sent in this turn. */
void session_add_rows(struct console_session *session);

/* The reader takes bytes again. */
void session_on_writable(struct console_session *session);

/* Hands what there is to the client. false: the client takes no more now. */
bool session_flush(struct console_session *session);

/* The same, and says whether the next message may come. The last to touch the session. */
bool session_settle(struct console_session *session);

/* ---- statements and portals: session_portals.c ---- */

/* NULL: there is none of that name. */
struct prepared *session_find_statement(const struct console_session *session, const char *name);
struct portal *session_find_portal(const struct console_session *session, const char *name);

/* In place of the one that has the name. false: no memory. */
bool session_add_statement(struct console_session *session, const char *name,
                           const struct request *request);

/* None has the name. false: no memory. */
bool session_add_portal(struct console_session *session, const char *name,
                        const struct request *request, uint32_t binary);

void session_drop_statement(struct console_session *session, const char *name);
void session_drop_statements(struct console_session *session);

/* The portal that runs stays. */
void session_drop_portal(struct console_session *session, struct portal *portal);
void session_drop_portals(struct console_session *session);

/* The session ends: all of them, those that run too. */
void session_drop_all(struct console_session *session);

/* A portal of no table: that of a Query. NULL: no memory. */
struct portal *session_portal_new(const char *name, const struct request *request);
void session_portal_free(struct portal **portal);

/* ---- session_run.c ---- */

/* Runs a portal for `row_limit` rows (0 = all). false: the session is gone. */
bool session_execute(struct console_session *session, struct portal *portal, uint32_t row_limit);

/* ---- simple.c, extended.c ---- */

/* The body of a Query. false: the session is gone. */
bool simple_query(struct console_session *session, struct bytes body);

/* Messages of the extended protocol. false: not one of them. */
bool extended_message(struct console_session *session, char type, struct bytes body,
                      bool *is_alive);

/* ---- session_door.c ---- */

extern const struct console_door session_door;

/* ---- the console ---- */

struct console {
	struct console_with with;
	struct console_door door;
	struct show_source source;
	struct timer tick;
	usec_t ticked_at;
};

/* Ends a PAUSE of everything and a SUSPEND. */
static inline void console_resume(const struct console *console)
{
	console->with.go_on(console->with.arg);
	pools_resume(console->with.pools, NULL);
}

#endif
