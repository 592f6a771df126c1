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
#include "show/rows_priv.h"
#include "show/stats_priv.h"

#define OWNER_OF(pointer, type, member) ((type *)((char *)(pointer)-offsetof(type, member)))

struct console_session;
struct cursor;

/* ---- in the order of names: ordered.c ---- */

/* Something that has two names, the second of which may be "". */
struct ordered_item {
	const char *first, *second;
	const void *object; /* good within one turn only */
};

#define ORDERED_BATCH 1024

struct ordered_batch {
	size_t count;
	struct ordered_item items[ORDERED_BATCH];
};

/* Where a cursor stands in that order: a pair of names, and no pointer to anything. */
struct ordered {
	bool has_last;
	bool is_last_batch;
	size_t at, count; /* in the console's batch; both 0 between two turns */
	char first[CONFIG_USER_NAME_MAX + 1];
	char second[CONFIG_USER_NAME_MAX + 1];
};

/* From within `gather`: here is one. The names must outlive the turn. */
void ordered_offer(struct cursor *cursor, struct ordered_item item);

/*
 * The next item behind the last one, in the order of names; `gather` is called now
 * and then to offer all that there are. false: no more.
 */
bool ordered_next(struct cursor *cursor, void (*collect)(struct cursor *cursor),
                  struct ordered_item *item);

/* ---- SHOW: show.c ---- */

#define ROW_SIZE_MAX 1024

/* What may stand behind a SHOW's name. */
enum show_argument {
	SHOW_ALONE,
	SHOW_OF_DATABASE, /* [db]: only what belongs to it */
	SHOW_OF_TABLE,    /* [table]: only what concerns that SHOW */
	SHOW_HIT          /* [HIT]: only what is in force and has been reached */
};

struct show {
	const char *item; /* upper case */
	/* Fills the next row; false: no more. */
	bool (*next)(struct cursor *cursor, void *row);
	struct columns columns;
	const char *help;
	enum console_role role; /* who may see it; 0: whoever came in */
	enum show_argument argument;
};

extern const struct show *const shows[];
const struct show *show_find(const char *item); /* in any case; NULL: none */

/* For help: "", " [db]" ... */
const char *show_argument_name(enum show_argument argument);

/* SHOW name, of one setting: one row, whose column is called as the setting is. */
extern const struct show show_setting;

/* Rows that are looked at for one row that is shown, before others get their turn. */
#define SHOW_LOOKS_MAX 4096

/* Where SHOW WAITING stands: within the line of the pool that `ordered` names. */
struct waiting_walk {
	bool has_begun;
	struct pool *pool; /* both good within one turn only */
	struct borrower *next;
	unsigned int line, place;
	uint64_t last; /* the line number of the last one shown */
};

/* Where SHOW LIMITS stands: which kind of things, and which of their limits. */
struct limits_walk {
	size_t scope, limit;
	bool has_begun;
};

/* Where a SHOW stands. Survives whatever is removed meanwhile. At rest zeroed. */
struct cursor {
	const struct show *show;
	const struct request *request; /* what was asked for; its portal's */
	struct console *console;
	struct pools_walk pools;
	struct clients_walk clients;
	struct ordered ordered;
	struct waiting_walk waiting;
	struct limits_walk limits;
	enum console_role role; /* of the session */
	bool is_owner;          /* the session is of the user that we run as, by the Unix socket */
	bool has_more; /* `next` found none, but has not looked at all there is: ask again later */
	unsigned int look_count; /* since the last row */
	size_t index;
	unsigned long dns;
	struct buf text; /* room for a value of the present row */
};

/* The request must outlive the cursor. */
void cursor_begin(struct cursor *cursor, struct console *console, const struct request *request);
void cursor_end(struct cursor *cursor);

/* The next row, into `row` of ROW_SIZE_MAX bytes. false: no more, or cursor->has_more. */
bool cursor_next(struct cursor *cursor, void *row);

/*
 * For `next`, before it looks at another thing that it may have to pass over. false: enough for
 * now, it returns false.
 */
bool cursor_may_look(struct cursor *cursor);

/* The word behind the SHOW's name; NULL: there is none. */
const char *cursor_argument(const struct cursor *cursor);

/* Whether what belongs to this database is wanted. */
bool cursor_wants(const struct cursor *cursor, const char *database);

/* The turn ends: lets go what would not survive it. */
void cursor_suspend(struct cursor *cursor);

/* ---- small talk: small_talk.c ---- */

enum talk_effect {
	TALK_NOTHING,
	TALK_ONE,        /* the same, but pgcli finds out by it what we are */
	TALK_BEGIN,      /* ReadyForQuery says T from now on */
	TALK_END,        /* and I again */
	TALK_FORGET,     /* one prepared statement */
	TALK_FORGET_ALL, /* all of them */
	TALK_IGNORED,    /* a NOTICE says that nothing was done */
	TALK_NAMES,      /* a table of rows: talk_rows() */
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
const struct talk *talk_find(struct bytes text, struct words *words);

/* The table that it asks for; NULL: it has one row, or none. */
const struct show *talk_rows(const struct talk *talk);

/* ---- what psql asks for when TAB is pressed: completion.c ---- */

extern const struct show show_names, show_changeable_names, show_type, show_values;

/* ---- commands: commands.c, commands_wait.c ---- */

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

enum outcome command_pause(struct console_session *session, struct err *err);
enum outcome command_suspend(struct console_session *session, struct err *err);
enum outcome command_wait_close(struct console_session *session, struct err *err);
enum outcome command_drain(struct console_session *session, struct err *err);

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

/* Nothing is waited for any more. */
void waiting_stop(struct console_session *session);

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

bool request_read(struct bytes text, struct request *request, struct err *err);

/* Whether it is nothing but small talk, or empty. */
bool request_read_talk(struct bytes text, struct request *request);

/* What may have been meant by a text that was not understood, as a sentence; "": no idea. */
void request_suggest(struct bytes text, char *out, size_t size);

/* What the log has of a text that was not understood and may have a password in it; else "". */
void request_hide(struct bytes text, char *out, size_t size);

/* Whether it can be answered: what it names is there. */
bool request_check(const struct request *request, const struct console_session *session,
                   struct err *err);

/* count 0: it gives no rows. The columns are good as long as the request. */
struct columns request_columns(const struct request *request);

/* Its tag, if what it does has no other. */
const char *request_tag(const struct request *request);

/* ---- sessions: session.c, simple.c, extended.c ---- */

/* One execution of a request. */
struct portal {
	UT_hash_handle hh; /* by name, in extended.c */
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

struct prepared; /* extended.c */

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

/* Whether who asks is the user that we run as, by the Unix socket, and may do everything. */
bool session_is_owner(const struct console_session *session);

/* A NOTICE that goes out before the answer. */
void session_notice(struct console_session *session, const char *text, const char *detail);

/* An ERROR answers what runs; up to Sync nothing counts any more. */
void session_fail(struct console_session *session, const struct err *err);

/* Whether it has the right to see what a SHOW shows; of anything else it may ask. */
bool session_may_see(const struct console_session *session, const struct request *request);

/* Runs a portal for `row_limit` rows (0 = all). false: the session is gone. */
bool session_execute(struct console_session *session, struct portal *portal, uint32_t row_limit);

/* What runs was done. */
void session_complete(struct console_session *session);

/* The answer is whole, but we are in somebody else's callback: goes on in the next turn. */
void session_later(struct console_session *session);

struct portal *portal_new(const char *name, const struct request *request);
void portal_free(struct portal **portal);

/* The body of a Query. false: the session is gone. */
bool simple_query(struct console_session *session, struct bytes body);

/* Messages of the extended protocol. false: not one of them. */
bool extended_message(struct console_session *session, char type, struct bytes body,
                      bool *is_alive);
void extended_forget(struct console_session *session, const char *statement); /* NULL = all */
void extended_done(struct console_session *session);

/* ---- the console ---- */

struct console {
	struct console_with with;
	struct console_door door;
	struct clients *clients;
	struct stats own; /* the console's own counters */
	struct history *history;
	struct timer tick;
	usec_t ticked_at;
	struct ordered_batch batch;
};

extern const struct console_door session_door;

/* Its name in the history for all databases together: no database can be called so. */
#define STATS_ALL ""

static inline const struct config *console_config(const struct console *console)
{
	return console->with.config(console->with.arg);
}

static inline unsigned int console_client_count(const struct console *console)
{
	return console->clients->state_counts[CLIENT_CONSOLE];
}

/* Ends a PAUSE of everything and a SUSPEND. */
void console_resume(const struct console *console);

/* What has been counted for a database; for all of them. */
void console_count_database(const struct database *database, struct stats *counted);
void console_count_all(const struct console *console, struct stats *counted);

#endif
