/* SPDX-License-Identifier: ISC */
/*
 * The log. The thread that logs formats a line. It also writes the line itself while that is
 * cheap; otherwise the log's own thread, the writer, does.
 *
 *   log_write() --+--> file, stderr                          a line now and then
 *                 +--> pending [record record ...] --> writer --> file, stderr, syslog
 *
 * Hard here: a line should be in the file before anything else happens to its connection. But
 * the loop must not wait for the disk, no line may be lost at exit, and a flood of lines must
 * not use up the memory. So lines are written directly only while they are few and the outlets
 * accept them immediately (log_outlets.c), and only if no earlier line is still queued, so that
 * they stay in order. The writer runs at most once per WRITER_PAUSE, so that a flood causes few
 * wake-ups.
 */
#include "pgweir/base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

#include "log_priv.h"
#include "pgweir/base/buf.h"
#include "pgweir/base/clock.h"
#include "pgweir/base/lock.h"

#define WRITER_PAUSE (20 * USEC_PER_MS)
#define UNWRITTEN_SPACING (60 * USEC_PER_SEC) /* between two events of a full disk */

struct log {
	struct log_gate gate; /* comes first: log_wants() */
	pthread_mutex_t lock; /* guards all fields below */
	pthread_cond_t wake;  /* something is queued, or the writer must end */
	pthread_cond_t idle;  /* nothing is queued and nothing is being written */
	struct buf pending;   /* queued records */
	size_t behind_count;  /* records that are not in a file yet: pending, or with the writer */
	unsigned long lost_count;
	unsigned long unwritten_count; /* lines that the file could not take */
	uint64_t all_lost_count;       /* both, since the start */
	unsigned long told_count; /* of those: their number is in a line that is to be written */
	usec_t unwritten_told_at; /* the last event of it; 0 = never */
	bool is_full;             /* the last write to the file failed */
	bool has_writer;
	bool is_ending;
	bool is_writing; /* the writer holds a batch */
	bool is_asleep;  /* the writer waits for a first line; only then must it be woken */
	long pid;        /* 0 until log_start(): a fork() may change it before */
	pthread_t writer;

	struct log_limit limit;
	struct log_direct direct;
	struct log_kept_ring kept;

	int fd; /* the log file, or -1 */
	bool is_json;
	bool is_journal; /* stderr is connected to the journal */
	bool to_stderr;
	bool to_syslog;
	char *ident; /* kept here because openlog() keeps the pointer */
	time_t second;
	char stamp[128]; /* "2026-11-20 15:11:12.345 CET [4711] " of `second` */
	size_t stamp_count;
	size_t fraction_at;
};

/*
 * JOURNAL_STREAM names the socket with which systemd connected stderr to the journal. stderr
 * may have been redirected since then, so it is compared.
 */
static bool stderr_is_journal(void)
{
	const char *said = getenv("JOURNAL_STREAM");
	unsigned long long device, inode;
	struct stat found;

	return said && sscanf(said, "%llu:%llu", &device, &inode) == 2 &&
	       fstat(STDERR_FILENO, &found) == 0 && found.st_dev == device && found.st_ino == inode;
}

struct log *log_new(void)
{
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
	log->fd = -1;
	log->to_stderr = true;
	log->is_journal = stderr_is_journal();
	log_kept_begin(&log->kept);
	return log;
}

/* Called with the lock held. */
static struct outlets outlets_of(const struct log *log)
{
	return (struct outlets){ log->fd, log->to_stderr, log->to_syslog,
		                 log->to_stderr && log->is_journal };
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
	log_kept_add(&log->kept,
	             &(struct log_kept_line){ .kind = LOG_LOST_KIND,
	                                      .level = LOG_LEVEL_ERROR,
	                                      .text = bytes_of(text, sizeof(text) - 1) });
}

/* Called with the lock held, by the writer, or by any thread while the writer holds no batch. */
static void write_pending(struct log *log)
{
	assert_locked(&log->lock);
	if (log->pending.count)
		note_written(log, log_write_records(outlets_of(log), buf_bytes(&log->pending)));
	buf_clear(&log->pending);
	log->behind_count = 0;
}

static void add_suppressed(struct log *log);

/*
 * Sleeps until a line is queued, or suppressed lines can be
 * reported.
 */
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
	struct buf batch = { 0 };

	pthread_mutex_lock(&log->lock);
	while (!log->is_ending) {
		struct buf empty = batch;
		usec_t until = clock_now() + WRITER_PAUSE;
		struct timespec deadline = { until / USEC_PER_SEC, until % USEC_PER_SEC * 1000 };
		struct outlets outlets = outlets_of(log);
		size_t batch_count = log->behind_count;
		unsigned long lost;

		if (log->pending.count == 0) {
			sleep_writer(log, &deadline);
			continue;
		}
		batch = log->pending;
		log->pending = empty;
		log->is_writing = true;
		pthread_mutex_unlock(&log->lock);
		lost = log_write_records(outlets, buf_bytes(&batch));
		buf_clear(&batch);
		pthread_mutex_lock(&log->lock);
		note_written(log, lost);
		log->is_writing = false;
		log->behind_count -= batch_count;
		pthread_cond_broadcast(&log->idle);
		if (!log->is_ending)
			pthread_cond_timedwait(&log->wake, &log->lock, &deadline);
	}
	write_pending(log);
	pthread_mutex_unlock(&log->lock);
	buf_free(&batch);
	return NULL;
}

bool log_start(struct log *log, struct err *err)
{
	int error;

	/* Other threads of the program may log already. */
	pthread_mutex_lock(&log->lock);
	log->pid = (long)getpid();
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

void log_flush(struct log *log)
{
	LOCKED(&log->lock);
	wait_idle(log);
	write_pending(log);
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
	log->limit.second = 0; /* end the current second, whatever the clock shows */
	add_suppressed(log);
	write_pending(log);
	pthread_mutex_unlock(&log->lock);
	if (log->fd >= 0)
		close(log->fd);
	if (log->to_syslog)
		closelog();
	free(log->ident);
	buf_free(&log->pending);
	pthread_cond_destroy(&log->wake);
	pthread_cond_destroy(&log->idle);
	pthread_mutex_destroy(&log->lock);
	log_kept_free(&log->kept);
	free(log);
}

static void switch_syslog(struct log *log, const struct log_options *options)
{
	if (log->to_syslog)
		closelog();
	free(log->ident);
	log->ident = strdup(options->ident ? options->ident : "pgweir");
	log->to_syslog = options->to_syslog;
	if (log->to_syslog)
		openlog(log->ident, LOG_PID, log_facility(options->facility));
}

static enum log_level level_of(const struct log_options *options)
{
	if (options->verbosity <= 0)
		return LOG_LEVEL_INFO;
	return options->verbosity == 1 ? LOG_LEVEL_DEBUG : LOG_LEVEL_NOISE;
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
	if (log->fd >= 0)
		close(log->fd);
	log->fd = fd;
	log->to_stderr = options->to_stderr;
	log->is_journal = stderr_is_journal(); /* false after daemonize() */
	__atomic_store_n(&log->is_json, options->is_json, __ATOMIC_RELAXED);
	log->limit.per_second = options->rate;
	__atomic_store_n(&log->gate.level, level_of(options), __ATOMIC_RELAXED);
	switch_syslog(log, options);
	log_direct_look(&log->direct, outlets_of(log));
	return true;
}

/* Date, time zone and pid are formatted once per second. */
static void new_second(struct log *log, time_t second)
{
	struct tm local;
	struct strbuf line = strbuf_begin(log->stamp, sizeof(log->stamp));
	char words[64];

	localtime_r(&second, &local);
	strbuf_add_bytes(&line, words,
	                 strftime(words, sizeof(words), "%Y-%m-%d %H:%M:%S.", &local));
	log->fraction_at = line.count;
	strbuf_add(&line, "000 ");
	strbuf_add_bytes(&line, words, strftime(words, sizeof(words), "%Z [", &local));
	strbuf_add_number(&line, (uint64_t)(log->pid ? log->pid : (long)getpid()));
	strbuf_add(&line, "] ");
	log->stamp_count = line.count;
	log->second = second;
}

static void add_stamp(struct log *log)
{
	usec_t now = wall_now();
	time_t second = now / USEC_PER_SEC;
	unsigned int ms = (unsigned int)(now % USEC_PER_SEC / USEC_PER_MS);
	char *fraction;

	assert_locked(&log->lock);
	if (second != log->second)
		new_second(log, second);
	fraction = log->stamp + log->fraction_at;
	fraction[0] = (char)('0' + ms / 100);
	fraction[1] = (char)('0' + ms / 10 % 10);
	fraction[2] = (char)('0' + ms % 10);
	buf_add(&log->pending, log->stamp, log->stamp_count);
}

/* ---- records ---- */

/* who NULL: the text log, whose text contains it already. */
static void add_record(struct log *log, enum log_level level, const struct log_who *who,
                       struct bytes text)
{
	struct record record = { .level = level };
	struct bytes name = log_level_name(level);
	size_t begin = log->pending.count;

	assert_locked(&log->lock);
	buf_add(&log->pending, &record, sizeof(record));
	if (who) {
		log_json_add(&log->pending, bytes_of(name.at, name.count - 1),
		             log->pid ? log->pid : (long)getpid(), who, text);
	} else {
		add_stamp(log);
		buf_add(&log->pending, name.at, name.count);
		record.text_at = (uint32_t)(log->pending.count - begin - sizeof(record));
		log_text_add(&log->pending, text.at, text.count);
	}
	if (!buf_ok(&log->pending)) {
		buf_clear(&log->pending);
		return;
	}
	record.count = (uint32_t)(log->pending.count - begin - sizeof(record));
	memcpy(log->pending.at + begin, &record, sizeof(record));
	log->behind_count++;
}

static void add_own(struct log *log, enum log_level level, const struct strbuf *line)
{
	static const struct log_who nobody;

	assert_locked(&log->lock);
	add_record(log, level, log->is_json ? &nobody : NULL, bytes_of(line->at, line->count));
}

static void add_count(struct log *log, unsigned long count, const char *words)
{
	char text[80];
	struct strbuf line = strbuf_begin(text, sizeof(text));

	strbuf_add_number(&line, count);
	strbuf_add(&line, words);
	add_own(log, LOG_LEVEL_WARNING, &line);
}

/* Reports the lines that were suppressed in a second that has ended. */
static void add_suppressed(struct log *log)
{
	time_t now = clock_now() / USEC_PER_SEC;
	char words[LOG_KIND_TEXT + 64];
	struct strbuf line = strbuf_begin(words, sizeof(words));
	enum log_level level;

	if (!log_limit_is_due(&log->limit, now)) {
		if (!log->limit.is_over)
			log_limit_turn(&log->limit, now);
		return;
	}
	while (log_limit_next(&log->limit, now, &level, &line)) {
		add_own(log, level, &line);
		line = strbuf_begin(words, sizeof(words));
	}
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

static void begin(const struct logger *logger, struct log_entry *entry)
{
	struct log_who *who = &entry->who;

	entry->line = strbuf_begin(entry->buffer, sizeof(entry->buffer));
	entry->is_json = __atomic_load_n(&logger->log->is_json, __ATOMIC_RELAXED);
	who->kind = who->database = who->user = NULL;
	who->pointer = NULL;
	who->application_name = NULL;
	who->facts = NULL;
	who->is_json = entry->is_json;
	who->id = 0;
	who->address = strbuf_begin(who->buffer, sizeof(who->buffer));
	if (logger->who)
		logger->who(logger, who);
	if (logger->who && !entry->is_json)
		add_who(&entry->line, who);
	entry->text_at = entry->line.count;
}

bool log_begin(const struct logger *logger, enum log_level level, struct log_entry *entry)
{
	bool is_wanted = log_wants(logger->log, level);

	if (is_wanted)
		begin(logger, entry);
	return is_wanted;
}

static void keep_entry(struct log *log, enum log_level level, const struct log_entry *entry)
{
	const struct log_who *who = &entry->who;
	const struct log_kept_line line = {
		.kind = who->facts->kept,
		.level = level,
		.database = who->database,
		.user = who->user,
		.text =
		    bytes_of(entry->buffer + entry->text_at, entry->line.count - entry->text_at),
	};

	assert_locked(&log->lock);
	log_kept_add(&log->kept, &line);
}

void log_expect(struct log *log, const char *kind)
{
	LOCKED(&log->lock);
	log_kept_expect(&log->kept, kind);
}

bool log_kept_kind(struct log *log, size_t number, const char **kind, uint64_t *count)
{
	LOCKED(&log->lock);
	const struct log_kept_ring *ring = &log->kept;

	if (number >= ring->kind_count)
		return false;
	*kind = ring->kinds[number].name;
	*count = ring->kinds[number].count;
	return true;
}

bool log_kept_next(struct log *log, uint64_t *number, struct log_kept *kept)
{
	LOCKED(&log->lock);
	return log_kept_get(&log->kept, number, kept);
}

uint64_t log_lost(struct log *log)
{
	LOCKED(&log->lock);
	return log->all_lost_count;
}

/* false: the line is suppressed or lost. */
static bool take_entry(struct log *log, enum log_level level, const struct log_entry *entry)
{
	assert_locked(&log->lock);
	add_suppressed(log);
	if (!log_limit_passes(
		&log->limit, level,
		bytes_of(entry->buffer + entry->text_at, entry->line.count - entry->text_at)))
		return false;
	if (log->pending.count > LOG_PENDING_MAX && level != LOG_LEVEL_FATAL) {
		log->lost_count++;
		log->all_lost_count++;
		return false;
	}
	if (log->lost_count) {
		add_count(log, log->lost_count, " log lines lost: the log is written too slowly");
		log->lost_count = 0;
	}
	if (log->unwritten_count && !log->is_full && !log->told_count) {
		log->told_count = log->unwritten_count;
		log->unwritten_count = 0;
		add_count(log, log->told_count,
		          " log lines lost: the log file could not be written");
	}
	add_record(log, level, entry->is_json ? &entry->who : NULL,
	           bytes_of(entry->buffer, entry->line.count));
	return true;
}

/*
 * Writes the records from `begin` on, if this is cheap. No earlier
 * record may be queued. syslog() may block on its daemon, so the writer calls it later.
 */
static void write_directly(struct log *log, size_t begin)
{
	struct outlets outlets = outlets_of(log);
	struct bytes fresh = bytes_skip(buf_bytes(&log->pending), begin);
	usec_t now = clock_now();

	assert_locked(&log->lock);
	if (!log_direct_may(&log->direct, outlets, fresh.count, now))
		return;
	outlets.to_syslog = false;
	note_written(log, log_write_records(outlets, fresh));
	log_direct_took(&log->direct, clock_now() - now);
	log->behind_count = 0;
	if (!log->to_syslog) {
		log->pending.count = begin;
		return;
	}
	while (begin < log->pending.count) {
		struct record record;

		memcpy(&record, log->pending.at + begin, sizeof(record));
		record.is_out = true;
		memcpy(log->pending.at + begin, &record, sizeof(record));
		begin += sizeof(record) + record.count;
	}
}

void log_end(const struct logger *logger, enum log_level level, struct log_entry *entry)
{
	struct log *log = logger->log;
	LOCKED(&log->lock);
	size_t begin = log->pending.count;
	bool is_behind = log->behind_count > 0, was_over = log->limit.is_over;
	bool is_taken = take_entry(log, level, entry);

	if (is_taken && entry->who.facts && entry->who.facts->kept)
		keep_entry(log, level, entry);
	if (is_taken && log->has_writer && !is_behind)
		write_directly(log, begin);
	if (is_taken && (!log->has_writer || level == LOG_LEVEL_FATAL)) {
		wait_idle(log);
		write_pending(log);
	} else if (log->is_asleep && (log->pending.count || was_over != log->limit.is_over)) {
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
