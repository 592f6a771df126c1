/* SPDX-License-Identifier: ISC */
/*
 * Writes lines to a file, to stderr, to the journal through stderr, and to syslog.
 */
#include "log_outlets_priv.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <syslog.h>
#include <unistd.h>

#include "pgweir/base/banned.h"

#define LEVEL(words, priority, journal)                     \
	{                                                   \
		words " ", sizeof(words), priority, journal \
	}

static const struct {
	const char *name; /* with a blank at its end */
	size_t count;
	int priority; /* priority for syslog; -1: not sent to syslog */
	int journal;  /* priority for the journal */
} levels[LOG_LEVELS] = {
	[LOG_LEVEL_FATAL] = LEVEL("FATAL", LOG_CRIT, LOG_CRIT),
	[LOG_LEVEL_ERROR] = LEVEL("ERROR", LOG_ERR, LOG_ERR),
	[LOG_LEVEL_WARNING] = LEVEL("WARNING", LOG_WARNING, LOG_WARNING),
	[LOG_LEVEL_INFO] = LEVEL("LOG", LOG_INFO, LOG_INFO),
	[LOG_LEVEL_DEBUG] = LEVEL("DEBUG", -1, LOG_DEBUG),
	[LOG_LEVEL_NOISE] = LEVEL("NOISE", -1, LOG_DEBUG),
};

struct bytes log_level_name(enum log_level level)
{
	return bytes_of(levels[level].name, levels[level].count);
}

static const struct {
	const char *name;
	int value;
} facilities[] = {
	{ "auth", LOG_AUTH },     { "authpriv", LOG_AUTHPRIV }, { "daemon", LOG_DAEMON },
	{ "user", LOG_USER },     { "local0", LOG_LOCAL0 },     { "local1", LOG_LOCAL1 },
	{ "local2", LOG_LOCAL2 }, { "local3", LOG_LOCAL3 },     { "local4", LOG_LOCAL4 },
	{ "local5", LOG_LOCAL5 }, { "local6", LOG_LOCAL6 },     { "local7", LOG_LOCAL7 },
};

int log_facility(const char *name)
{
	for (size_t i = 0; name && i < sizeof(facilities) / sizeof(facilities[0]); i++) {
		if (strcmp(facilities[i].name, name) == 0)
			return facilities[i].value;
	}
	return LOG_DAEMON;
}

/* Returns how many bytes were written: fewer if the disk is full, for example. */
static size_t write_all(int fd, const char *at, size_t count)
{
	size_t written = 0;

	while (written < count) {
		ssize_t done = write(fd, at + written, count - written);

		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0)
			break;
		written += (size_t)done;
	}
	return written;
}

/* The next line would continue a line that is cut. Another process may have added lines since. */
static void take_back(int fd, size_t count)
{
	off_t end = lseek(fd, 0, SEEK_CUR);
	struct stat found;

	if (count && fstat(fd, &found) == 0 && S_ISREG(found.st_mode) && found.st_size == end &&
	    ftruncate(fd, end - (off_t)count) != 0)
		return;
}

/* Returns how many lines are not in the file. */
static unsigned long write_file(int fd, const char *at, size_t count)
{
	size_t written = write_all(fd, at, count), whole = written;
	unsigned long lost = 0;

	if (written == count)
		return 0;
	while (whole && at[whole - 1] != '\n')
		whole--;
	take_back(fd, written - whole);
	for (; whole < count; whole++)
		lost += at[whole] == '\n';
	return lost;
}

/* In the journal each line of a record is an entry, so each line needs the priority. */
static void add_for_journal(struct buf *out, enum log_level level, struct bytes text)
{
	while (text.count) {
		const char *end = memchr(text.at, '\n', text.count);
		size_t count = end ? (size_t)(end - text.at) + 1 : text.count;

		buf_printf(out, "<%d>", levels[level].journal);
		buf_add(out, text.at, count);
		text = bytes_skip(text, count);
	}
}

/* A single line is written without a copy. */
static bool write_one(struct outlets outlets, struct bytes records, unsigned long *lost)
{
	struct record record;

	if (outlets.is_journal || outlets.to_syslog)
		return false;
	memcpy(&record, records.at, sizeof(record));
	if (records.count != sizeof(record) + record.count)
		return false;
	if (outlets.fd >= 0)
		*lost = write_file(outlets.fd, records.at + sizeof(record), record.count);
	if (outlets.to_stderr)
		write_all(STDERR_FILENO, records.at + sizeof(record), record.count);
	return true;
}

unsigned long log_write_records(struct outlets outlets, struct bytes records)
{
	struct buf lines = { 0 }, journal = { 0 };
	unsigned long lost = 0;

	if (!records.count || write_one(outlets, records, &lost))
		return lost;
	while (records.count) {
		struct record record;
		const char *line = records.at + sizeof(record);
		struct bytes text;

		memcpy(&record, records.at, sizeof(record));
		text = bytes_of(line + record.text_at, record.count - record.text_at);
		if (!record.is_out &&
		    (outlets.fd >= 0 || (outlets.to_stderr && !outlets.is_journal)))
			buf_add(&lines, line, record.count);
		if (!record.is_out && outlets.is_journal)
			add_for_journal(&journal, record.level, text);
		if (outlets.to_syslog && levels[record.level].priority >= 0)
			syslog(levels[record.level].priority, "%.*s", (int)text.count - 1, text.at);
		records = bytes_skip(records, sizeof(record) + record.count);
	}
	if (outlets.fd >= 0)
		lost = write_file(outlets.fd, lines.at, lines.count);
	if (outlets.is_journal)
		write_all(STDERR_FILENO, journal.at, journal.count);
	else if (outlets.to_stderr)
		write_all(STDERR_FILENO, lines.at, lines.count);
	buf_free(&lines);
	buf_free(&journal);
	return lost;
}
