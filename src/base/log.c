/* SPDX-License-Identifier: ISC */
/*
 * The log: lines are formatted by whoever speaks and written by a thread.
 *
 *   log_write() --> pending [record record ...] --> writer --> file, stderr, syslog
 *
 * Hard here: nothing may be lost at exit, nothing may wait for the disk while
 * we run, and a storm of lines must not eat the memory. The writer looks at
 * most once in WRITER_PAUSE, so that a storm costs few wake-ups.
 */
#include "pgweir/base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

#include "pgweir/base/buf.h"
#include "pgweir/base/clock.h"

#include "pgweir/base/banned.h"

#define WRITER_PAUSE (20 * USEC_PER_MS)

struct log {
	enum log_level level; /* the most talkative one that is written */
	pthread_mutex_t lock; /* guards all below */
	pthread_cond_t wake;  /* something waits, or the end has come */
	pthread_cond_t idle;  /* nothing waits and nothing is being written */
	struct buf pending;   /* records */
	unsigned long lost_count;
	bool has_writer;
	bool is_ending;
	bool is_writing; /* the writer holds a batch */
	bool is_asleep;  /* the writer waits for a first line: only then it has to be woken */
	long pid;        /* 0 until log_start(): before it we may still fork */
	pthread_t writer;

	int fd; /* the file, or -1 */
	bool to_stderr;
	bool to_syslog;
	char *ident; /* openlog() keeps the pointer */
	time_t second;
	char stamp[128]; /* "2026-11-20 15:11:12.345 CET [4711] " of `second` */
	size_t stamp_count;
	size_t fraction_at;
};

/* Stands before each line in `pending`. */
struct record {
	enum log_level level;
	uint32_t text_at; /* where the text begins in the line: syslog has a stamp of its own */
	uint32_t count;   /* bytes of the line, newline included */
};

#define LEVEL(words, priority)                     \
	{                                          \
		words " ", sizeof(words), priority \
	}

static const struct {
	const char *name; /* and a blank */
	size_t count;
	int priority; /* for syslog; -1: not sent there */
} levels[LOG_LEVELS] = {
	[LOG_LEVEL_FATAL] = LEVEL("FATAL", LOG_CRIT),
	[LOG_LEVEL_ERROR] = LEVEL("ERROR", LOG_ERR),
	[LOG_LEVEL_WARNING] = LEVEL("WARNING", LOG_WARNING),
	[LOG_LEVEL_INFO] = LEVEL("LOG", LOG_INFO),
	[LOG_LEVEL_DEBUG] = LEVEL("DEBUG", -1),
	[LOG_LEVEL_NOISE] = LEVEL("NOISE", -1),
};

static const struct {
	const char *name;
	int value;
} facilities[] = {
	{ "auth", LOG_AUTH },     { "authpriv", LOG_AUTHPRIV }, { "daemon", LOG_DAEMON },
	{ "user", LOG_USER },     { "local0", LOG_LOCAL0 },     { "local1", LOG_LOCAL1 },
	{ "local2", LOG_LOCAL2 }, { "local3", LOG_LOCAL3 },     { "local4", LOG_LOCAL4 },
	{ "local5", LOG_LOCAL5 }, { "local6", LOG_LOCAL6 },     { "local7", LOG_LOCAL7 },
};

static int facility_by_name(const char *name)
{
	for (size_t i = 0; name && i < sizeof(facilities) / sizeof(facilities[0]); i++) {
		if (strcmp(facilities[i].name, name) == 0)
			return facilities[i].value;
	}
	return LOG_DAEMON;
}

struct log *log_new(void)
{
	struct log *log = calloc(1, sizeof(*log));
	pthread_condattr_t monotonic;

	if (!log)
		return NULL;
	pthread_mutex_init(&log->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&log->wake, &monotonic);
	pthread_cond_init(&log->idle, NULL);
	pthread_condattr_destroy(&monotonic);
	log->level = LOG_LEVEL_INFO;
	log->fd = -1;
	log->to_stderr = true;
	return log;
}

static void write_all(int fd, const char *at, size_t count)
{
	while (count) {
		ssize_t done = write(fd, at, count);

		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0)
			return; /* a full disk: there is nobody left to tell */
		at += done;
		count -= (size_t)done;
	}
}

/* Writes whole records: the lines of one batch with as few writes as may be. */
static void write_records(int fd, bool to_stderr, bool to_syslog, struct bytes records)
{
	struct buf lines = { 0 };

	while (records.count) {
		struct record record;
		const char *line = records.at + sizeof(record);

		memcpy(&record, records.at, sizeof(record));
		if (fd >= 0 || to_stderr)
			buf_add(&lines, line, record.count);
		if (to_syslog && levels[record.level].priority >= 0)
			syslog(levels[record.level].priority, "%.*s",
			       (int)(record.count - record.text_at - 1), line + record.text_at);
		records = bytes_skip(records, sizeof(record) + record.count);
	}
	if (fd >= 0)
		write_all(fd, lines.at, lines.count);
	if (to_stderr)
		write_all(STDERR_FILENO, lines.at, lines.count);
	buf_free(&lines);
}

/* Called with the lock held, by the writer, or by anyone while the writer holds no batch. */
static void write_pending(struct log *log)
{
	write_records(log->fd, log->to_stderr, log->to_syslog, buf_bytes(&log->pending));
	buf_clear(&log->pending);
}

/* The thread. Writes outside of the lock, so that nobody who logs waits for the disk. */
static void *writer_run(void *arg)
{
	struct log *log = arg;
	struct buf batch = { 0 };

	pthread_mutex_lock(&log->lock);
	while (!log->is_ending) {
		struct buf empty = batch;
		usec_t until = clock_now() + WRITER_PAUSE;
		struct timespec deadline = { until / USEC_PER_SEC, until % USEC_PER_SEC * 1000 };
		int fd = log->fd;

		if (log->pending.count == 0) {
			log->is_asleep = true;
			pthread_cond_wait(&log->wake, &log->lock);
			log->is_asleep = false;
			continue;
		}
		batch = log->pending;
		log->pending = empty;
		log->is_writing = true;
		bool to_stderr = log->to_stderr, to_syslog = log->to_syslog;
		pthread_mutex_unlock(&log->lock);
		write_records(fd, to_stderr, to_syslog, buf_bytes(&batch));
		buf_clear(&batch);
		pthread_mutex_lock(&log->lock);
		log->is_writing = false;
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

	log->pid = (long)getpid();
	log->second = 0; /* the pid stands in the stamp */
	error = pthread_create(&log->writer, NULL, writer_run, log);

	if (error)
		return err_set(err, ERR_FILES, "cannot start the log's thread: %s",
		               strerror(error));
	log->has_writer = true;
	return true;
}

/* Called with the lock held: waits until no batch is with the writer. */
static void wait_idle(struct log *log)
{
	while (log->is_writing)
		pthread_cond_wait(&log->idle, &log->lock);
}

void log_flush(struct log *log)
{
	pthread_mutex_lock(&log->lock);
	wait_idle(log);
	write_pending(log);
	pthread_mutex_unlock(&log->lock);
}

void log_free(struct log **logp)
{
	struct log *log = *logp;

	if (!log)
		return;
	*logp = NULL;
	if (log->has_writer) {
		pthread_mutex_lock(&log->lock);
		log->is_ending = true;
		pthread_cond_signal(&log->wake);
		pthread_mutex_unlock(&log->lock);
		pthread_join(log->writer, NULL);
	}
	if (log->fd >= 0)
		close(log->fd);
	if (log->to_syslog)
		closelog();
	free(log->ident);
	buf_free(&log->pending);
	pthread_cond_destroy(&log->wake);
	pthread_cond_destroy(&log->idle);
	pthread_mutex_destroy(&log->lock);
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
		openlog(log->ident, LOG_PID, facility_by_name(options->facility));
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
	pthread_mutex_lock(&log->lock);
	wait_idle(log);
	write_pending(log);
	if (log->fd >= 0)
		close(log->fd);
	log->fd = fd;
	log->to_stderr = options->to_stderr;
	log->level = options->verbosity <= 0   ? LOG_LEVEL_INFO
	             : options->verbosity == 1 ? LOG_LEVEL_DEBUG
	                                       : LOG_LEVEL_NOISE;
	switch_syslog(log, options);
	pthread_mutex_unlock(&log->lock);
	return true;
}

bool log_wants(const struct log *log, enum log_level level)
{
	return log && level <= __atomic_load_n(&log->level, __ATOMIC_RELAXED);
}

/* The date, zone and process are worked out once a second. */
static void new_second(struct log *log, time_t second)
{
	struct tm local;
	struct line line = line_begin(log->stamp, sizeof(log->stamp));
	char words[64];

	localtime_r(&second, &local);
	line_add_bytes(&line, words, strftime(words, sizeof(words), "%Y-%m-%d %H:%M:%S.", &local));
	log->fraction_at = line.count;
	line_add(&line, "000 ");
	line_add_bytes(&line, words, strftime(words, sizeof(words), "%Z [", &local));
	line_add_number(&line, (uint64_t)(log->pid ? log->pid : (long)getpid()));
	line_add(&line, "] ");
	log->stamp_count = line.count;
	log->second = second;
}

/* Called with the lock held. */
static void add_stamp(struct log *log)
{
	usec_t now = wall_now();
	time_t second = now / USEC_PER_SEC;
	unsigned int ms = (unsigned int)(now % USEC_PER_SEC / USEC_PER_MS);
	char *fraction;

	if (second != log->second)
		new_second(log, second);
	fraction = log->stamp + log->fraction_at;
	fraction[0] = (char)('0' + ms / 100);
	fraction[1] = (char)('0' + ms / 10 % 10);
	fraction[2] = (char)('0' + ms % 10);
	buf_add(&log->pending, log->stamp, log->stamp_count);
}

/* Whether there is a byte below blank, or 0x7f, in any of the eight. */
static bool has_control(uint64_t word)
{
	const uint64_t ones = UINT64_MAX / 255, tops = ones << 7;
	uint64_t erased = word ^ (ones * 0x7f);

	return (((word - ones * ' ') & ~word) | ((erased - ones) & ~erased)) & tops;
}

/* How many bytes can be written as they are, at least: looked at eight at a time. */
static size_t count_plain(const char *text, size_t count)
{
	size_t done = 0;
	uint64_t word;

	for (; count - done >= sizeof(word); done += sizeof(word)) {
		memcpy(&word, text + done, sizeof(word));
		if (has_control(word))
			break;
	}
	return done;
}

/*
 * Called with the lock held. A line of the log never begins with a peer's words, and what
 * would move a terminal's cursor is spelled out.
 */
static void add_text(struct buf *out, const char *text, size_t count)
{
	const char *from = text, *end = text + count;

	for (text += count_plain(text, count); text < end; text++) {
		unsigned char byte = (unsigned char)*text;

		if ((byte >= ' ' && byte != 0x7f) || byte == '\t')
			continue;
		buf_add(out, from, (size_t)(text - from));
		from = text + 1;
		if (byte == '\n')
			buf_add(out, "\n\t", 2);
		else
			buf_printf(out, "\\x%02x", byte);
	}
	buf_add(out, from, (size_t)(end - from));
	buf_add_byte(out, '\n');
}

/* Called with the lock held. */
static void add_record(struct log *log, enum log_level level, const char *text, size_t count)
{
	struct record record = { .level = level };
	size_t begin = log->pending.count;

	buf_add(&log->pending, &record, sizeof(record));
	add_stamp(log);
	buf_add(&log->pending, levels[level].name, levels[level].count);
	record.text_at = (uint32_t)(log->pending.count - begin - sizeof(record));
	add_text(&log->pending, text, count);
	if (!buf_ok(&log->pending)) {
		buf_clear(&log->pending);
		return;
	}
	record.count = (uint32_t)(log->pending.count - begin - sizeof(record));
	memcpy(log->pending.at + begin, &record, sizeof(record));
}

static void add_lost(struct log *log)
{
	char words[80];
	struct line line = line_begin(words, sizeof(words));

	line_add_number(&line, log->lost_count);
	line_add(&line, " log lines lost: the log is written too slowly");
	log->lost_count = 0;
	add_record(log, LOG_LEVEL_WARNING, words, line.count);
}

static void begin(const struct logger *logger, struct log_entry *entry)
{
	entry->line = line_begin(entry->room, sizeof(entry->room));
	if (logger->prefix)
		logger->prefix(logger, &entry->line);
}

bool log_begin(const struct logger *logger, enum log_level level, struct log_entry *entry)
{
	bool is_wanted = log_wants(logger->log, level);

	if (is_wanted)
		begin(logger, entry);
	return is_wanted;
}

void log_end(const struct logger *logger, enum log_level level, struct log_entry *entry)
{
	struct log *log = logger->log;

	pthread_mutex_lock(&log->lock);
	if (log->pending.count > LOG_PENDING_MAX && level != LOG_LEVEL_FATAL) {
		log->lost_count++;
	} else {
		if (log->lost_count)
			add_lost(log);
		add_record(log, level, entry->room, entry->line.count);
		if (!log->has_writer || level == LOG_LEVEL_FATAL) {
			wait_idle(log);
			write_pending(log);
		} else if (log->is_asleep) {
			log->is_asleep = false;
			pthread_cond_signal(&log->wake);
		}
	}
	pthread_mutex_unlock(&log->lock);
}

void log_write(const struct logger *logger, enum log_level level, const char *format, ...)
{
	struct log_entry entry;
	va_list args;

	begin(logger, &entry);
	va_start(args, format);
	line_vprintf(&entry.line, format, args);
	va_end(args);
	log_end(logger, level, &entry);
}
