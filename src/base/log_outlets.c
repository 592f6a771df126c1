/* SPDX-License-Identifier: ISC */
/*
 * Writes lines to a file, to stderr, to the journal through stderr, and to syslog.
 */
#include "log_priv.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <syslog.h>
#include <unistd.h>

static const struct {
	const char *name;
	int priority; /* priority for syslog; -1: not sent to syslog */
	int journal;  /* priority for the journal */
} levels[LOG_LEVELS] = {
	[LOG_LEVEL_FATAL] = { "FATAL", LOG_CRIT, LOG_CRIT },
	[LOG_LEVEL_ERROR] = { "ERROR", LOG_ERR, LOG_ERR },
	[LOG_LEVEL_WARNING] = { "WARNING", LOG_WARNING, LOG_WARNING },
	[LOG_LEVEL_INFO] = { "LOG", LOG_INFO, LOG_INFO },
	[LOG_LEVEL_DEBUG] = { "DEBUG", -1, LOG_DEBUG },
};

const char *log_level_name(enum log_level level) { return levels[level].name; }

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

/* To syslog and the journal, each line by itself. */
static void write_records(const struct outlets *outlets, const struct log_batch *batch)
{
	const struct log_record *record = (const void *)batch->records.at;
	const struct log_record *end = record + batch->records.count / sizeof(*record);
	const char *line = batch->lines.at;
	struct buf journal = { 0 };

	for (; record < end; line += record->count, record++) {
		struct bytes text = bytes_skip(bytes_of(line, record->count), record->text_at);
		int priority = levels[record->level].priority;

		if (outlets->is_journal)
			add_for_journal(&journal, record->level, text);
		if (outlets->to_syslog && priority >= 0)
			syslog(priority, "%.*s", (int)text.count - 1, text.at);
	}
	write_all(STDERR_FILENO, journal.at, journal.count);
	buf_free(&journal);
}

unsigned long log_outlets_write(const struct outlets *outlets, const struct log_batch *batch)
{
	const struct buf *lines = &batch->lines;
	unsigned long lost = 0;

	if (outlets->fd >= 0)
		lost = write_file(outlets->fd, lines->at, lines->count);
	if (outlets->to_stderr && !outlets->is_journal)
		write_all(STDERR_FILENO, lines->at, lines->count);
	if (outlets->is_journal || outlets->to_syslog)
		write_records(outlets, batch);
	return lost;
}

/* ---- log text ---- */

/*
 * Returns the size of the character at `text` if it may be written as it is, else 0. Terminals
 * treat U+0080 to U+009F as commands too, both in UTF-8 and as single bytes. So invalid UTF-8
 * is escaped if the byte is below 0xa0.
 */
static size_t count_harmless(const char *text, size_t capacity)
{
	unsigned char byte = (unsigned char)*text;
	uint32_t point = 0;
	size_t count;

	if (byte >= ' ' && byte < 0x7f)
		return 1;
	count = text_utf8(text, capacity, &point);
	if (!count)
		return byte >= 0xa0;
	return point == '\t' || point >= 0xa0 ? count : 0;
}

void log_text_add(struct buf *out, const char *text, size_t count)
{
	const char *from = text, *end = text + count;

	while (text < end) {
		size_t harmless = count_harmless(text, (size_t)(end - text));
		unsigned char byte = (unsigned char)*text;

		if (harmless) {
			text += harmless;
			continue;
		}
		buf_add(out, from, (size_t)(text - from));
		from = ++text;
		if (byte == '\n')
			buf_add(out, "\n\t", 2);
		else
			buf_printf(out, "\\x%02x", byte);
	}
	buf_add(out, from, (size_t)(end - from));
	buf_add_byte(out, '\n');
}

/* ---- log json: {"time":..,"pid":..,"level":..,"peer":..,"message":..} ---- */

static void add_member(struct buf *out, const char *name, struct bytes value)
{
	buf_printf(out, ",\"%s\":", name);
	json_add_text(out, value);
}

static void add_time(struct buf *out)
{
	usec_t now = wall_now();
	time_t second = now / USEC_PER_SEC;
	char words[64];
	struct tm local;

	localtime_r(&second, &local);
	strftime(words, sizeof(words), "%Y-%m-%dT%H:%M:%S", &local);
	buf_printf(out, "{\"time\":\"%s.%03u", words, (unsigned int)(now % USEC_PER_SEC / 1000));
	/* strftime() gives +0100, RFC 3339 wants +01:00 */
	strftime(words, sizeof(words), "%z", &local);
	buf_printf(out, "%.3s:%.2s\"", words, words + 3);
}

/* The host in an address: 127.0.0.1:5, [::1]:5 and unix(4711):6432 without what follows it. */
static struct bytes host_of(struct bytes address)
{
	const char *end;

	if (address.count && *address.at == '[')
		address = bytes_skip(address, 1);
	end = memchr(address.at, ']', address.count);
	if (!end)
		end = memchr(address.at, '(', address.count);
	if (!end)
		end = memchr(address.at, ':', address.count);
	return end ? bytes_of(address.at, (size_t)(end - address.at)) : address;
}

static void add_who(struct buf *out, const struct log_who *who)
{
	if (who->kind)
		add_member(out, "peer", bytes_text(who->kind));
	if (who->pointer)
		buf_printf(out, ",\"pointer\":\"%p\"", who->pointer);
	if (who->id)
		buf_printf(out, ",\"id\":%llu", (unsigned long long)who->id);
	if (who->database)
		add_member(out, "database", bytes_text(who->database));
	if (who->user)
		add_member(out, "user", bytes_text(who->user));
	if (who->address.count) {
		add_member(out, "address", bytes_of(who->address.at, who->address.count));
		add_member(out, "addr", host_of(bytes_of(who->address.at, who->address.count)));
	}
	if (who->application_name && *who->application_name)
		add_member(out, "application_name", bytes_text(who->application_name));
}

static void add_ms(struct buf *out, const char *name, usec_t usec)
{
	buf_printf(out, ",\"%s\":%lld.%03lld", name, (long long)(usec / USEC_PER_MS),
	           (long long)(usec % USEC_PER_MS));
}

static void add_facts(struct buf *out, const struct log_facts *facts)
{
	const struct {
		const char *name, *text;
	} texts[] = {
		{ "event", facts->event },     { "sqlstate", facts->sqlstate },
		{ "reason", facts->reason },   { "command", facts->command },
		{ "setting", facts->setting }, { "value", facts->value },
		{ "was", facts->was },         { "statement", facts->statement },
		{ "digest", facts->digest },   { "traceparent", facts->traceparent },
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		if (texts[i].text)
			add_member(out, texts[i].name, bytes_text(texts[i].text));
	}
	if (facts->has_duration)
		add_ms(out, "duration_ms", facts->duration);
	if (facts->has_wait)
		add_ms(out, "wait_ms", facts->wait);
}

void log_json_add(struct buf *out, enum log_level level, const struct log_who *who,
                  struct bytes text)
{
	add_time(out);
	buf_printf(out, ",\"pid\":%ld", (long)getpid());
	add_member(out, "level", bytes_text(log_level_name(level)));
	add_who(out, who);
	if (who->facts)
		add_facts(out, who->facts);
	add_member(out, "message", text);
	buf_add_text(out, "}\n");
}

/* ---- direct writes: a share of the time, and no waiting for a reader ---- */

/* Network and FUSE file systems: their server may not answer for minutes. */
static bool is_remote(unsigned long type)
{
	static const unsigned long types[] = {
		0x6969 /* NFS */,     0xff534d42 /* CIFS */, 0xfe534d42 /* SMB 2 */,
		0x517b /* SMB */,     0x00c36400 /* Ceph */, 0x65735546 /* FUSE */,
		0x5346414f /* AFS */, 0x73757245 /* Coda */, 0x01021997 /* 9P */,
	};

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		if ((type & UINT32_MAX) == types[i])
			return true;
	}
	return false;
}

static bool is_near(int fd)
{
	struct stat found;
	struct statfs system;

	return fd >= 0 && fstat(fd, &found) == 0 && S_ISREG(found.st_mode) &&
	       fstatfs(fd, &system) == 0 && !is_remote((unsigned long)system.f_type);
}

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

void log_outlets_look(struct outlets *outlets)
{
	outlets->is_journal = outlets->to_stderr && stderr_is_journal();
	outlets->is_file_near = is_near(outlets->fd);
	outlets->is_stderr_near = is_near(STDERR_FILENO);
}

/*
 * Whether a pipe, socket or terminal accepts a write at once. false for regular files: poll()
 * always reports them as writable, so a remote file could block.
 */
static bool has_space(int fd)
{
	struct pollfd asked = { .fd = fd, .events = POLLOUT };
	struct stat found;

	return fstat(fd, &found) == 0 && !S_ISREG(found.st_mode) && poll(&asked, 1, 0) == 1 &&
	       asked.revents == POLLOUT;
}

/* syslog() may block on its daemon. */
bool log_outlets_may_write(const struct outlets *outlets, size_t count, usec_t now)
{
	return outlets->direct_until - now <= LOG_DIRECT_AHEAD && count <= LOG_DIRECT_BYTES &&
	       !outlets->to_syslog &&
	       (outlets->fd < 0 || outlets->is_file_near || has_space(outlets->fd)) &&
	       (!outlets->to_stderr || outlets->is_stderr_near || has_space(STDERR_FILENO));
}

void log_outlets_took(struct outlets *outlets, usec_t now, usec_t took)
{
	usec_t cost = took * LOG_DIRECT_SHARE;

	if (outlets->direct_until < now)
		outlets->direct_until = now;
	outlets->direct_until += cost > LOG_DIRECT_LINE ? cost : LOG_DIRECT_LINE;
}
