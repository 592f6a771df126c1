/* SPDX-License-Identifier: ISC */
/*
 * The log. The thread that logs formats a line. It also writes the line itself while that is
 * cheap; otherwise the log's own thread, the writer, does.
 *
 *   log_write() --+--> file, stderr                          a line now and then
 *                 +--> pending [line line ...] --> writer --> file, stderr, syslog
 *
 * Hard here: a line should be in the file before anything else happens to its connection. But
 * the loop must not wait for the disk, no line may be lost at exit, and a flood of lines must
 * not use up the memory. So lines are written directly only while they are few and the outlets
 * accept them immediately (log_outlets_may_write()), and only if no earlier line is still queued,
 * so that they stay in order. The writer runs at most once per WRITER_PAUSE, so that a flood causes
 * few wake-ups.
 */
#include "pgweir/base/log.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

#include "log_priv.h"
#include "pgweir/base/clock.h"
#include "pgweir/base/hash.h"
#include "pgweir/base/lock.h"

#define WRITER_PAUSE (20 * USEC_PER_MS)
#define UNWRITTEN_SPACING (60 * USEC_PER_SEC) /* between two events of a full disk */
#define KEPT_MAX 1000
#define KEPT_KINDS_MAX 64
#define LOST_KIND "lines lost"

struct log {
	struct log_gate gate; /* comes first: log_wants() */
	pthread_mutex_t lock; /* guards all fields below */
	pthread_cond_t wake;  /* something is queued, or the writer must end */
	pthread_cond_t idle;  /* nothing is queued and nothing is being written */
	struct log_batch pending;
	unsigned long lost_count;      /* lines for which there was no room */
	unsigned long unwritten_count; /* lines that the file could not take */
	uint64_t all_lost_count;       /* both, since the start */
	unsigned long told_count; /* of those: their number is in a line that is to be written */
	usec_t unwritten_told_at; /* the last event of it; 0 = never */
	bool is_full;             /* the last write to the file failed */
	bool has_writer;
	bool is_ending;
	bool is_writing; /* the writer holds a batch */
	bool is_asleep;  /* the writer waits for a first line; only then must it be woken */
	pthread_t writer;

	struct log_limit limit;
	struct log_kept *kept[KEPT_MAX]; /* a ring; each no larger than its text needs */
	uint64_t kept_count;             /* of all that there have been */
	struct kept_kind {
		const char *name; /* upper and lower case are equal */
		uint64_t count;
	} kept_kinds[KEPT_KINDS_MAX]; /* as they were expected or came */
	size_t kept_kind_count;
	struct outlets outlets;
	bool is_json;
	char *ident; /* kept here because openlog() keeps the pointer */
	time_t second;
	char stamp[128]; /* "2026-11-20 15:11:12.345 CET [4711] " of `second` */
	size_t stamp_count;
};

static const struct log_who nobody;

/* ---- lines that are kept ---- */

/* NULL: there are too many kinds. */
static struct kept_kind *kind_of(struct log *log, const char *name)
{
	size_t i;

	assert_locked(&log->lock);
	for (i = 0; i < log->kept_kind_count; i++) {
		if (strcasecmp(log->kept_kinds[i].name, name) == 0)
			return &log->kept_kinds[i];
	}
	if (i == KEPT_KINDS_MAX)
		return NULL;
	log->kept_kinds[log->kept_kind_count++] = (struct kept_kind){ .name = name };
	return &log->kept_kinds[i];
}

/* Without memory the event is lost. */
static void keep(struct log *log, const char *kind, enum log_level level, const struct log_who *who,
                 struct bytes text)
{
	struct log_kept event = { .at = wall_now(), .kind = kind, .level = level }, *copy;
	struct strbuf words = strbuf_begin(event.text, sizeof(event.text));
	struct log_kept **place = &log->kept[log->kept_count % KEPT_MAX];
	struct kept_kind *counted = kind_of(log, kind);
	size_t size;

	if (counted)
		counted->count++;
	strbuf_add_bytes(&words, text.at, text.count);
	size = offsetof(struct log_kept, text) + words.count + 1;
	copy = malloc(size);
	if (!copy)
		return;
	text_copy(event.database, sizeof(event.database), who->database ? who->database : "");
	text_copy(event.user, sizeof(event.user), who->user ? who->user : "");
	free(*place);
	*place = memcpy(copy, &event, size);
	log->kept_count++;
}

bool log_kept_next(struct log *log, uint64_t *number, struct log_kept *kept)
{
	LOCKED(&log->lock);
	uint64_t first = log->kept_count > KEPT_MAX ? log->kept_count - KEPT_MAX : 0;
	const struct log_kept *event;

	if (*number < first)
		*number = first;
	if (*number >= log->kept_count)
		return false;
	event = log->kept[(*number)++ % KEPT_MAX];
	memcpy(kept, event, offsetof(struct log_kept, text) + strlen(event->text) + 1);
	return true;
}

void log_expect(struct log *log, const char *kind)
{
	LOCKED(&log->lock);
	kind_of(log, kind);
}

bool log_kept_kind(struct log *log, size_t number, const char **kind, uint64_t *count)
{
	LOCKED(&log->lock);
	if (number >= log->kept_kind_count)
		return false;
	*kind = log->kept_kinds[number].name;
	*count = log->kept_kinds[number].count;
	return true;
}

/* ---- writing ---- */

struct log *log_new(void)
{
	static const char *const kinds[] = {
		"start",   "reload",  "set",    "take-over", "shutdown", "drain",
		"suspend", "pause",   "resume", "host down", "host up",  "host role",
		"limit",   "reserve", "secret", "pool size", LOST_KIND,
	};
	struct log *log = calloc(1, sizeof(*log));
	pthread_condattr_t monotonic;

	if (!log)
		return NULL;
	lock_init(&log->lock);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&log->wake, &monotonic);
	pthread_cond_init(&log->idle, NULL);
	pthread_condattr_destroy(&monotonic);
	log->gate.level = LOG_LEVEL_INFO;
	log->outlets = (struct outlets){ .fd = -1, .to_stderr = true };
	log_outlets_look(&log->outlets);
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		log_expect(log, kinds[i]);
	return log;
}

static void note_written(struct log *log, unsigned long lost)
{
	static const char text[] = "the log file cannot be written: lines are lost";
	usec_t now = clock_now();

	assert_locked(&log->lock);
	log->is_full = lost > 0;
	log->all_lost_count += lost;
	log->unwritten_count += lost ? lost + log->told_count : 0;
	log->told_count = 0;
	if (!lost || (log->unwritten_told_at && now - log->unwritten_told_at < UNWRITTEN_SPACING))
		return;
	log->unwritten_told_at = now;
	keep(log, LOST_KIND, LOG_LEVEL_ERROR, &nobody, bytes_text(text));
}

static void clear(struct log_batch *batch)
{
	buf_clear(&batch->lines);
	buf_clear(&batch->records);
}

/* Called with the lock held, by the writer, or by any thread while the writer holds no batch. */
static void write_pending(struct log *log)
{
	assert_locked(&log->lock);
	if (log->pending.lines.count)
		note_written(log, log_outlets_write(&log->outlets, &log->pending));
	clear(&log->pending);
}

static void add_suppressed(struct log *log);

/* Sleeps until a line is queued, or suppressed lines can be reported. */
static void sleep_writer(struct log *log, const struct timespec *deadline)
{
	assert_locked(&log->lock);
	log->is_asleep = true;
	if (log->limit.is_over)
		pthread_cond_timedwait(&log->wake, &log->lock, deadline);
	else
		pthread_cond_wait(&log->wake, &log->lock);
	log->is_asleep = false;
	add_suppressed(log);
}

/* The writer. Writes without the lock, so that no thread that logs waits for the disk. */
static void *writer_run(void *arg)
{
	struct log *log = arg;
	struct log_batch batch = { 0 };

	pthread_mutex_lock(&log->lock);
	while (!log->is_ending) {
		struct log_batch empty = batch;
		usec_t until = clock_now() + WRITER_PAUSE;
		struct timespec deadline = { until / USEC_PER_SEC, until % USEC_PER_SEC * 1000 };
		struct outlets outlets = log->outlets;
		unsigned long lost;

		if (log->pending.lines.count == 0) {
			sleep_writer(log, &deadline);
			continue;
		}
		batch = log->pending;
		log->pending = empty;
		log->is_writing = true;
		pthread_mutex_unlock(&log->lock);
		lost = log_outlets_write(&outlets, &batch);
		clear(&batch);
		pthread_mutex_lock(&log->lock);
		note_written(log, lost);
		log->is_writing = false;
		pthread_cond_broadcast(&log->idle);
		if (!log->is_ending)
			pthread_cond_timedwait(&log->wake, &log->lock, &deadline);
	}
	write_pending(log);
	pthread_mutex_unlock(&log->lock);
	buf_free(&batch.lines);
	buf_free(&batch.records);
	return NULL;
}

bool log_start(struct log *log, struct err *err)
{
	int error;

	/* Other threads of the program may log already. */
	pthread_mutex_lock(&log->lock);
	log->second = 0; /* rebuild the stamp: it contains the pid */
	error = pthread_create(&log->writer, NULL, writer_run, log);
	log->has_writer = error == 0;
	pthread_mutex_unlock(&log->lock);
	if (error)
		err_set(err, ERR_FILES, "cannot start the log's thread: %s", strerror(error));
	return error == 0;
}

static void wait_idle(struct log *log)
{
	assert_locked(&log->lock);
	while (log->is_writing)
		pthread_cond_wait(&log->idle, &log->lock);
}

void log_free(struct log **logp)
{
	struct log *log = *logp;

	if (!log)
		return;
	*logp = NULL;
	pthread_mutex_lock(&log->lock);
	log->is_ending = true;
	pthread_cond_signal(&log->wake);
	pthread_mutex_unlock(&log->lock);
	if (log->has_writer)
		pthread_join(log->writer, NULL);
	pthread_mutex_lock(&log->lock);
	log->limit.second = -1; /* end the current second, whatever the clock shows */
	add_suppressed(log);
	write_pending(log);
	pthread_mutex_unlock(&log->lock);
	if (log->outlets.fd >= 0)
		close(log->outlets.fd);
	if (log->outlets.to_syslog)
		closelog();
	free(log->ident);
	buf_free(&log->pending.lines);
	buf_free(&log->pending.records);
	pthread_cond_destroy(&log->wake);
	pthread_cond_destroy(&log->idle);
	pthread_mutex_destroy(&log->lock);
	for (size_t i = 0; i < KEPT_MAX; i++)
		free(log->kept[i]);
	free(log);
}

bool log_configure(struct log *log, const struct log_options *options, struct err *err)
{
	int fd = -1;

	if (options->file && *options->file) {
		fd = open(options->file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
		if (fd < 0)
			return err_set(err, ERR_CONFIG, "cannot open logfile %s: %s", options->file,
			               strerror(errno));
	}
	LOCKED(&log->lock);
	wait_idle(log);
	write_pending(log);
	if (log->outlets.fd >= 0)
		close(log->outlets.fd);
	if (log->outlets.to_syslog)
		closelog();
	free(log->ident);
	log->ident = strdup(options->ident ? options->ident : "pgweir");
	if (options->to_syslog)
		openlog(log->ident, LOG_PID, log_facility(options->facility));
	log->outlets = (struct outlets){ .fd = fd,
		                         .to_stderr = options->to_stderr,
		                         .to_syslog = options->to_syslog };
	log_outlets_look(&log->outlets);
	__atomic_store_n(&log->is_json, options->is_json, __ATOMIC_RELAXED);
	log->limit.per_second = options->rate;
	__atomic_store_n(&log->gate.level,
	                 options->verbosity > 0 ? LOG_LEVEL_DEBUG : LOG_LEVEL_INFO,
	                 __ATOMIC_RELAXED);
	return true;
}

/* All but the milliseconds is formatted once per second. */
static void add_stamp(struct log *log)
{
	static const char format[] = "%Y-%m-%d %H:%M:%S.000 %Z";
	static const size_t fraction_at = sizeof("2026-11-20 15:11:12.") - 1;
	usec_t now = wall_now();
	time_t second = now / USEC_PER_SEC;
	int64_t ms = now % USEC_PER_SEC / USEC_PER_MS;
	struct tm local;

	assert_locked(&log->lock);
	if (second != log->second) {
		struct strbuf stamp = strbuf_begin(log->stamp, sizeof(log->stamp));

		localtime_r(&second, &local);
		stamp.count = strftime(log->stamp, sizeof(log->stamp), format, &local);
		strbuf_printf(&stamp, " [%ld] ", (long)getpid());
		log->stamp_count = stamp.count;
		log->second = second;
	}
	for (size_t i = 3; i-- > 0; ms /= 10)
		log->stamp[fraction_at + i] = (char)('0' + ms % 10);
	buf_add(&log->pending.lines, log->stamp, log->stamp_count);
}

static void add_line(struct log *log, enum log_level level, bool is_json, const struct log_who *who,
                     struct bytes text)
{
	struct buf *lines = &log->pending.lines, *records = &log->pending.records;
	struct log_record record = { .level = level };
	size_t begin = lines->count;

	assert_locked(&log->lock);
	if (is_json) {
		log_json_add(lines, level, who, text);
	} else {
		add_stamp(log);
		buf_add_text(lines, log_level_name(level));
		buf_add_byte(lines, ' ');
		record.text_at = (uint32_t)(lines->count - begin);
		log_text_add(lines, text.at, text.count);
	}
	record.count = (uint32_t)(lines->count - begin);
	buf_add(records, &record, sizeof(record));
	if (!buf_ok(lines) || !buf_ok(records))
		clear(&log->pending);
}

__attribute__((format(printf, 3, 4))) static void add_own(struct log *log, enum log_level level,
                                                          const char *format, ...)
{
	char text[LOG_KIND_TEXT + 64];
	struct strbuf line = strbuf_begin(text, sizeof(text));
	va_list args;

	va_start(args, format);
	strbuf_vprintf(&line, format, args);
	va_end(args);
	add_line(log, level, log->is_json, &nobody, bytes_of(line.at, line.count));
}

/* Reports the lines that were suppressed in a second that has ended. */
static void add_suppressed(struct log *log)
{
	struct log_limit *limit = &log->limit;
	time_t now = clock_now() / USEC_PER_SEC;

	if (now == limit->second)
		return;
	for (const struct log_kind *kind = limit->kinds; limit->is_over && limit->kind_count;
	     kind++, limit->kind_count--) {
		if (kind->count > limit->per_second)
			add_own(log, kind->level, "%lu more suppressed: %s...",
			        kind->count - limit->per_second, kind->text);
	}
	limit->second = now;
	limit->kind_count = 0;
	limit->is_over = false;
}

/* Adds the prefix of a line in PgBouncer's format. */
static void add_who(struct strbuf *line, const struct log_who *who)
{
	if (who->pointer) {
		strbuf_add(line, *who->kind == 'c' ? "C-" : "S-");
		strbuf_add_pointer(line, who->pointer);
		strbuf_add(line, ": ");
	}
	if (who->database) {
		strbuf_add(line, who->database);
		strbuf_add(line, "/");
		strbuf_add(line, who->user);
	}
	if (who->address.count) {
		if (who->database)
			strbuf_add(line, "@");
		strbuf_add_bytes(line, who->address.at, who->address.count);
	}
	strbuf_add(line, " ");
}

bool log_begin(const struct logger *logger, enum log_level level, struct log_entry *entry)
{
	struct log_who *who = &entry->who;

	if (!log_wants(logger->log, level))
		return false;
	entry->line = strbuf_begin(entry->buffer, sizeof(entry->buffer));
	who->is_json = __atomic_load_n(&logger->log->is_json, __ATOMIC_RELAXED);
	who->kind = who->database = who->user = NULL;
	who->pointer = NULL;
	who->application_name = NULL;
	who->facts = NULL;
	who->id = 0;
	who->address = strbuf_begin(who->buffer, sizeof(who->buffer));
	if (logger->who)
		logger->who(logger, who);
	if (logger->who && !who->is_json)
		add_who(&entry->line, who);
	entry->text_at = entry->line.count;
	return true;
}

uint64_t log_lost(struct log *log)
{
	LOCKED(&log->lock);
	return log->all_lost_count;
}

/* false: the line is suppressed or lost. */
static bool take_entry(struct log *log, enum log_level level, const struct log_entry *entry)
{
	struct bytes line = bytes_of(entry->buffer, entry->line.count);
	struct bytes text = bytes_skip(line, entry->text_at);
	const struct log_facts *facts = entry->who.facts;

	assert_locked(&log->lock);
	add_suppressed(log);
	if (!log_limit_passes(&log->limit, level, text))
		return false;
	if (log->pending.lines.count > LOG_PENDING_MAX && level != LOG_LEVEL_FATAL) {
		log->lost_count++;
		log->all_lost_count++;
		return false;
	}
	if (log->lost_count) {
		add_own(log, LOG_LEVEL_WARNING, "%lu log lines lost: the log is written too slowly",
		        log->lost_count);
		log->lost_count = 0;
	}
	if (log->unwritten_count && !log->is_full && !log->told_count) {
		add_own(log, LOG_LEVEL_WARNING,
		        "%lu log lines lost: the log file could not be written",
		        log->unwritten_count);
		log->told_count = log->unwritten_count;
		log->unwritten_count = 0;
	}
	add_line(log, level, entry->who.is_json, &entry->who, line);
	if (facts && facts->kept)
		keep(log, facts->kept, level, &entry->who, text);
	return true;
}

void log_end(const struct logger *logger, enum log_level level, struct log_entry *entry)
{
	struct log *log = logger->log;
	LOCKED(&log->lock);
	bool is_behind = log->pending.lines.count > 0 || log->is_writing;
	bool was_over = log->limit.is_over, is_taken = take_entry(log, level, entry);
	usec_t now = clock_now();

	if (is_taken && (!log->has_writer || level == LOG_LEVEL_FATAL)) {
		wait_idle(log);
		write_pending(log);
	} else if (is_taken && !is_behind &&
	           log_outlets_may_write(&log->outlets, log->pending.lines.count, now)) {
		write_pending(log);
		log_outlets_took(&log->outlets, now, clock_now() - now);
	} else if (log->is_asleep && (log->pending.lines.count || was_over != log->limit.is_over)) {
		log->is_asleep = false;
		pthread_cond_signal(&log->wake);
	}
}

void log_event(const struct logger *logger, enum log_level level, const struct log_facts *facts,
               const char *format, ...)
{
	struct log_entry entry;
	va_list args;

	if (!log_begin(logger, level, &entry))
		return;
	entry.who.facts = facts;
	va_start(args, format);
	strbuf_vprintf(&entry.line, format, args);
	va_end(args);
	log_end(logger, level, &entry);
}

/* ---- how many lines of one kind are logged ---- */

/* The size in bytes of the part of the text that decides its kind. */
static size_t kind_size(struct bytes text)
{
	unsigned int colons = 0;
	size_t count = 0;

	for (; count < text.count && count < LOG_KIND_TEXT - 1; count++) {
		char byte = text.at[count];

		colons += byte == ':';
		if (colons == 2 || memchr("\"'(=", byte, 4) || isdigit((unsigned char)byte))
			break;
	}
	return count;
}

static struct log_kind *limited_kind_of(struct log_limit *limit, struct bytes text)
{
	size_t count = kind_size(text);
	uint64_t hash = hash_bytes(&(struct hash_key){ { 0 } }, text.at, count);
	struct log_kind *kind;

	for (unsigned int i = 0; i < limit->kind_count; i++) {
		if (limit->kinds[i].hash == hash)
			return &limit->kinds[i];
	}
	if (limit->kind_count == LOG_KINDS)
		return &limit->kinds[LOG_KINDS - 1];
	kind = &limit->kinds[limit->kind_count++];
	kind->hash = hash;
	kind->count = 0;
	memcpy(kind->text, text.at, count);
	kind->text[count] = 0;
	return kind;
}

bool log_limit_passes(struct log_limit *limit, enum log_level level, struct bytes text)
{
	struct log_kind *kind;

	if (!limit->per_second || level == LOG_LEVEL_FATAL)
		return true;
	kind = limited_kind_of(limit, text);
	kind->level = level;
	if (++kind->count <= limit->per_second)
		return true;
	limit->is_over = true;
	return false;
}

/* ---- limit events ---- */

bool limit_event_begins(struct limit_met *met, usec_t now)
{
	usec_t before = atomic_exchange_explicit(&met->last_at, now, memory_order_relaxed);

	return !before || now - before >= LIMIT_EVENT_PAUSE;
}

void limit_event_note(struct limit_met *met, usec_t now, struct log *log,
                      const struct limit_event *event)
{
	static const struct log_facts facts = { .kept = LIMIT_EVENT_KIND };
	const struct logger logger = { log, NULL };
	const char *database = event->database, *user = event->user;
	const char *owner = !database ? "user " : user ? "pool " : "database ";
	struct log_entry entry;

	if (!limit_event_begins(met, now) || !log_begin(&logger, LOG_LEVEL_WARNING, &entry))
		return;
	entry.who.database = database;
	entry.who.user = user;
	entry.who.facts = &facts;
	strbuf_printf(&entry.line, "%s = %d is reached by %s", event->limit,
	              event->value > 0 ? event->value : 0, event->counted);
	if (database || user)
		strbuf_printf(&entry.line, " of %s%s%s%s", owner, database ? database : "",
		              database && user ? "/" : "", user ? user : "");
	log_end(&logger, LOG_LEVEL_WARNING, &entry);
}
