/* SPDX-License-Identifier: ISC */
/*
 * The log: one line per event, to a file, to stderr and to syslog.
 *
 *   2026-11-20 15:11:12.345 CET [4711] LOG C-0x55...: db/user@127.0.0.1:4321 login attempt: ...
 *
 * If LOG_PENDING_MAX bytes are queued, further lines are dropped, and the log reports how many.
 * FATAL lines, and lines before log_start(), are always written before the call returns; others
 * while they are few. log_free() writes all queued lines.
 *
 * If stderr is connected to systemd's journal, lines there begin with a priority ("<4>text")
 * instead of time and level, which the journal adds itself.
 *
 * May be called from any thread.
 */
#ifndef PGWEIR_BASE_LOG_H
#define PGWEIR_BASE_LOG_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pgweir/base/clock.h"
#include "pgweir/base/err.h"
#include "pgweir/base/text.h"

enum log_level {
	LOG_LEVEL_FATAL,
	LOG_LEVEL_ERROR,   /* someone must act */
	LOG_LEVEL_WARNING, /* someone may want to act */
	LOG_LEVEL_INFO,    /* events of connections; written as "LOG" */
	LOG_LEVEL_DEBUG,   /* states */
	LOG_LEVELS
};

/* "LOG" */
const char *log_level_name(enum log_level level);

#define LOG_TEXT_MAX 2048             /* bytes of one line's text; longer texts are truncated */
#define LOG_PENDING_MAX (1024 * 1024) /* bytes that may be queued for the writer */

struct log;

struct log_options {
	const char *file; /* append to this file; NULL or "" = none */
	bool to_stderr;
	bool to_syslog;       /* only INFO and more severe levels */
	const char *ident;    /* ident for syslog; NULL = "pgweir" */
	const char *facility; /* name of the facility for syslog; an unknown name = daemon */
	bool is_json;         /* one JSON object per line instead of PgBouncer's text format */
	unsigned int rate;    /* lines of one kind per second; 0 = no limit */
	int verbosity;        /* 0 = up to INFO, 1 and more = DEBUG */
};

/* Returns a log that writes to stderr, up to INFO. NULL: no memory. */
struct log *log_new(void);

/* Writes all queued lines, ends the writer's thread, closes the file. */
void log_free(struct log **log);

/*
 * Sets options (copies them) and opens the file again, so that a rotated file is closed. false:
 * the file cannot be opened; nothing has changed.
 */
bool log_configure(struct log *log, const struct log_options *options, struct err *err);

/* Starts the writer. Call it once, after the last fork(). */
bool log_start(struct log *log, struct err *err);

/*
 * The object that a line is about. In text it is the prefix "C-0x..: db/user@address ", in JSON
 * a member for each field that is set. The texts are borrowed until the line is written.
 */
struct log_who {
	const char *kind;    /* "client", "server", "peer", "pool"; NULL: the daemon itself */
	const void *pointer; /* address of the object; NULL: not shown */
	uint64_t id;         /* id as in SHOW; 0 = none. JSON only */
	const char *database, *user;   /* after log_begin() one of them may be set alone */
	struct strbuf address;         /* an empty text in `buffer` */
	bool is_json;                  /* set application_name and facts only if this is true */
	const char *application_name;  /* NULL or "": none */
	const struct log_facts *facts; /* facts about the event */
	char buffer[160];
};

/* Facts about an event: each is a member in JSON. Zeroed: not known. */
struct log_facts {
	const char *kept;      /* static: the line is an event of this kind, see log_kept_next() */
	const char *event;     /* name of the event; doc/logging.md has the list */
	const char *sqlstate;  /* of the error */
	const char *reason;    /* text of the error or of the close reason */
	const char *statement; /* SQL */
	const char *digest;    /* of that */
	const char *traceparent; /* the trace that it belongs to */
	const char *setting;     /* name of a setting that was SET, its new and old value */
	const char *value, *was;
	const char *command; /* command of the console */
	bool has_duration, has_wait;
	usec_t duration, wait;
};

/* The object that logs. Embedded in that object. */
struct logger {
	struct log *log;
	/* Fills *who; all its fields are empty before. NULL = the daemon itself. */
	void (*who)(const struct logger *logger, struct log_who *who);
};

/* What a log begins with: each change of a state asks for it. */
struct log_gate {
	enum log_level level; /* atomic: the most detailed level that is written */
};

static inline bool log_wants(const struct log *log, enum log_level level)
{
	const struct log_gate *gate = (const struct log_gate *)(const void *)log;

	return gate && level <= __atomic_load_n(&gate->level, __ATOMIC_RELAXED);
}

/*
 * A line built from pieces, for lines that are logged for each connection:
 *
 *	if (log_begin(&logger, LOG_LEVEL_INFO, &entry)) {
 *		strbuf_add(&entry.line, "...");
 *		log_end(&logger, LOG_LEVEL_INFO, &entry);
 *	}
 */
struct log_entry {
	struct strbuf line; /* begins with the prefix if the log is text */
	size_t text_at;     /* bytes of the prefix */
	struct log_who who; /* for JSON */
	char buffer[LOG_TEXT_MAX];
};

/*
 * A line that the log also keeps in memory, for SHOW EVENTS: the last thousand of them. kind:
 * "reload", "pause", ...; static.
 */
#define log_kept(logger, level, kind, ...) \
	log_event((logger), (level), &(const struct log_facts){ .kept = (kind) }, __VA_ARGS__)

#define LOG_KEPT_TEXT_MAX ((size_t)480)

struct log_kept {
	usec_t at; /* of the wall clock */
	const char *kind;
	enum log_level level;
	char database[64], user[128], text[LOG_KEPT_TEXT_MAX + 1];
};

/*
 * Copies the first event whose number is not less than *number, which is then the number of the
 * next one; numbers rise from 0. false: there is none.
 */
bool log_kept_next(struct log *log, uint64_t *number, struct log_kept *kept);

/*
 * Kinds of events are counted, those that were expected from 0. There are few: KEPT_KINDS_MAX in
 * log.c. log_kept_kind(): the kind of this number, from 0; false: there is none.
 */
void log_expect(struct log *log, const char *kind);
bool log_kept_kind(struct log *log, size_t number, const char **kind, uint64_t *count);

/* How many lines were lost since the process started: too many at once, or the file was full. */
uint64_t log_lost(struct log *log);

/* Logs a line with facts; NULL: none. */
void log_event(const struct logger *logger, enum log_level level, const struct log_facts *facts,
               const char *format, ...) __attribute__((format(printf, 4, 5)));

/* false: this level is not logged. */
bool log_begin(const struct logger *logger, enum log_level level, struct log_entry *entry);
void log_end(const struct logger *logger, enum log_level level, struct log_entry *entry);

#define log_at(logger, level, ...)                                                           \
	(log_wants((logger)->log, (level)) ? log_event((logger), (level), NULL, __VA_ARGS__) \
	                                   : (void)0)
#define log_fatal(logger, ...) log_at(logger, LOG_LEVEL_FATAL, __VA_ARGS__)
#define log_error(logger, ...) log_at(logger, LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warning(logger, ...) log_at(logger, LOG_LEVEL_WARNING, __VA_ARGS__)
#define log_info(logger, ...) log_at(logger, LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(logger, ...) log_at(logger, LOG_LEVEL_DEBUG, __VA_ARGS__)

/*
 * ---- limits ----
 *
 * The event that a limit was reached. While clients wait for a limit or are refused by it, that is
 * one event for all of them: it begins when the limit was not met for LIMIT_EVENT_PAUSE.
 */

#define LIMIT_EVENT_PAUSE (60 * USEC_PER_SEC)
#define LIMIT_EVENT_KIND "limit"

/* When one limit of one object was met last, in all loops. Zeroed: never. */
struct limit_met {
	_Atomic usec_t last_at;
};

/* The limit is met now. true: this begins an event. */
bool limit_event_begins(struct limit_met *met, usec_t now);

struct limit_event {
	const char *limit;           /* the setting */
	int value;                   /* in force */
	const char *counted;         /* what it limits: "the servers" */
	const char *database, *user; /* whose; NULL: of all. Both: of a pool */
};

/* The limit is met now: logs and keeps a line, if this begins an event. */
void limit_event_note(struct limit_met *met, usec_t now, struct log *log,
                      const struct limit_event *event);

#endif
