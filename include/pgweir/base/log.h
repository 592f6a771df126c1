/* SPDX-License-Identifier: ISC */
/*
 * The log: one event, one line, to a file, to stderr and to syslog.
 *
 *   2026-11-20 15:11:12.345 CET [4711] LOG C-0x55...: db/user@127.0.0.1:4321 login attempt: ...
 *
 * A line is written before the call returns as long as lines are few and that takes no
 * time; else by a thread of the log's own, many lines with one write, so that a slow disk
 * does not hold up the loop. Lines that find LOG_PENDING_MAX bytes still waiting are counted and
 * dropped, and the log says how many. FATAL lines, and lines before log_start(), are written before
 * the call returns. log_free() writes all that waits.
 *
 * Where stderr is the journal of systemd, what goes there has its priority in front in
 * place of time and level ("<4>text"), as the journal has those itself.
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
#include "pgweir/base/strbuf.h"

enum log_level {
	LOG_LEVEL_FATAL,
	LOG_LEVEL_ERROR,   /* someone must act */
	LOG_LEVEL_WARNING, /* someone may want to act */
	LOG_LEVEL_INFO,    /* the life of connections; written as "LOG" */
	LOG_LEVEL_DEBUG,   /* states */
	LOG_LEVEL_NOISE,   /* more detail than DEBUG */
	LOG_LEVELS
};

#define LOG_TEXT_MAX 2048             /* bytes of one line's text; longer is cut */
#define LOG_PENDING_MAX (1024 * 1024) /* bytes that may be queued for the writer */

struct log;

struct log_options {
	const char *file; /* appended to; NULL or "" = none */
	bool to_stderr;
	bool to_syslog;       /* INFO and worse */
	const char *ident;    /* syslog's ident; NULL = "pgweir" */
	const char *facility; /* syslog's facility by name; unknown = daemon */
	bool is_json;         /* one JSON object a line, in place of the contract's text */
	unsigned int rate;    /* lines of one kind a second; 0 = no limit */
	int verbosity;        /* 0 = up to INFO, 1 = DEBUG, 2 and more = NOISE */
};

/* A log that writes to stderr, up to INFO. NULL: no memory. */
struct log *log_new(void);

/* Writes all queued lines, ends the writer's thread, closes the file. */
void log_free(struct log **log);

/*
 * Takes new options (copies them) and opens the file anew, so that a rotated
 * file is let go. false: the file cannot be opened; everything stays as it was.
 */
bool log_configure(struct log *log, const struct log_options *options, struct err *err);

/* Starts the writer's thread: once, after the last fork(). */
bool log_start(struct log *log, struct err *err);

/* Waits until everything logged so far has been written. */
void log_flush(struct log *log);

/*
 * Of whom a line tells: in the text "C-0x..: db/user@address ", in JSON a member for each
 * that is there. The texts are borrowed for the line.
 */
struct log_who {
	const char *kind;    /* "client", "server", "peer", "pool"; NULL: the daemon itself */
	const void *pointer; /* NULL: not told */
	uint64_t id;         /* as in SHOW; 0 = none. Not in the text */
	const char *database, *user;   /* both or none */
	struct strbuf address;         /* begins empty, in `room` */
	bool is_json;                  /* what only JSON has is worth looking for */
	const char *application_name;  /* NULL or "": none. JSON only */
	const struct log_facts *facts; /* of the line. JSON only */
	char buffer[160];
};

/* What a program may want to know of an event, in JSON a member each. Zeroed: not known. */
struct log_facts {
	const char *event;     /* what happened, in one word of a table: doc/logging.md */
	const char *sqlstate;  /* of the error */
	const char *reason;    /* the words of the error, or of the end */
	const char *statement; /* SQL */
	const char *setting;   /* what was SET, and both of its values */
	const char *value, *was;
	const char *command; /* of the console */
	bool has_duration, has_wait;
	usec_t duration, wait;
};

/* On whose behalf a line is logged. Lives inside the object that logs. */
struct logger {
	struct log *log;
	/* Fills what there is to tell; all is empty before. NULL = the daemon itself. */
	void (*who)(const struct logger *logger, struct log_who *who);
};

bool log_wants(const struct log *log, enum log_level level);

/*
 * A line put together from pieces, for what is said at each connection:
 *
 *	if (log_begin(&logger, LOG_LEVEL_INFO, &entry)) {
 *		strbuf_add(&entry.line, "...");
 *		log_end(&logger, LOG_LEVEL_INFO, &entry);
 *	}
 */
struct log_entry {
	struct strbuf line; /* has the speaker's prefix, if the log is text */
	size_t text_at;     /* the bytes of that */
	bool is_json;
	struct log_who who; /* JSON: told apart */
	char buffer[LOG_TEXT_MAX];
};

/* A line that has facts too. */
void log_event(const struct logger *logger, enum log_level level, const struct log_facts *facts,
               const char *format, ...) __attribute__((format(printf, 4, 5)));

/* false: nobody wants it. */
bool log_begin(const struct logger *logger, enum log_level level, struct log_entry *entry);
void log_end(const struct logger *logger, enum log_level level, struct log_entry *entry);
void log_write(const struct logger *logger, enum log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#define log_at(logger, level, ...) \
	(log_wants((logger)->log, (level)) ? log_write((logger), (level), __VA_ARGS__) : (void)0)
#define log_fatal(logger, ...) log_at(logger, LOG_LEVEL_FATAL, __VA_ARGS__)
#define log_error(logger, ...) log_at(logger, LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warning(logger, ...) log_at(logger, LOG_LEVEL_WARNING, __VA_ARGS__)
#define log_info(logger, ...) log_at(logger, LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(logger, ...) log_at(logger, LOG_LEVEL_DEBUG, __VA_ARGS__)
#define log_noise(logger, ...) log_at(logger, LOG_LEVEL_NOISE, __VA_ARGS__)

#endif
