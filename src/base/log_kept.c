/* SPDX-License-Identifier: ISC */
/*
 * The events that the log keeps: the last LOG_KEPT_MAX lines that have a kind. An event takes the
 * memory of its texts, until another one takes its place.
 */

#include <ctype.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "pgweir/base/hash.h"

#include "log_priv.h"

/* NULL: there are too many kinds. */
static struct log_kept_kind *kind_of(struct log_kept_ring *ring, const char *name)
{
	size_t i;

	for (i = 0; i < ring->kind_count; i++) {
		if (strcasecmp(ring->kinds[i].name, name) == 0)
			return &ring->kinds[i];
	}
	if (i == LOG_KINDS_MAX)
		return NULL;
	ring->kinds[ring->kind_count++] = (struct log_kept_kind){ .name = name };
	return &ring->kinds[i];
}

void log_kept_expect(struct log_kept_ring *ring, const char *name) { kind_of(ring, name); }

void log_kept_begin(struct log_kept_ring *ring)
{
	static const char *const names[] = {
		"start",   "reload",  "set",    "take-over", "shutdown",    "drain",
		"suspend", "pause",   "resume", "host down", "host up",     "host role",
		"limit",   "reserve", "secret", "pool size", LOG_LOST_KIND,
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		log_kept_expect(ring, names[i]);
}

static void add_text(struct buf *out, const char *text, size_t count)
{
	buf_add(out, text, count);
	buf_add_byte(out, 0);
}

static const char *text_or_nothing(const char *text) { return text ? text : ""; }

void log_kept_add(struct log_kept_ring *ring, const struct log_kept_line *line)
{
	struct log_kept_event *event = &ring->events[ring->count % LOG_KEPT_MAX];
	struct log_kept_kind *kind = kind_of(ring, line->kind);

	if (kind)
		kind->count++;
	buf_free(&event->texts);
	event->at = wall_now();
	event->kind = line->kind;
	event->level = line->level;
	add_text(&event->texts, text_or_nothing(line->database),
	         strlen(text_or_nothing(line->database)));
	add_text(&event->texts, text_or_nothing(line->user), strlen(text_or_nothing(line->user)));
	add_text(&event->texts, line->text.at,
	         line->text.count < LOG_KEPT_TEXT_MAX ? line->text.count : LOG_KEPT_TEXT_MAX);
	if (buf_ok(&event->texts))
		ring->count++;
	else
		buf_free(&event->texts);
}

bool log_kept_get(const struct log_kept_ring *ring, uint64_t *number, struct log_kept *kept)
{
	uint64_t first = ring->count > LOG_KEPT_MAX ? ring->count - LOG_KEPT_MAX : 0;
	const struct log_kept_event *event;
	struct bytes texts;
	const char *database = "", *user = "", *text = "";

	if (*number < first)
		*number = first;
	if (*number >= ring->count)
		return false;
	event = &ring->events[(*number)++ % LOG_KEPT_MAX];
	texts = buf_bytes(&event->texts);
	bytes_take_text(&texts, &database);
	bytes_take_text(&texts, &user);
	bytes_take_text(&texts, &text);
	kept->at = event->at;
	kept->kind = event->kind;
	kept->level = event->level;
	text_copy(kept->database, sizeof(kept->database), database);
	text_copy(kept->user, sizeof(kept->user), user);
	text_copy(kept->text, sizeof(kept->text), text);
	return true;
}

void log_kept_free(struct log_kept_ring *ring)
{
	for (size_t i = 0; i < LOG_KEPT_MAX; i++)
		buf_free(&ring->events[i].texts);
}

/* ---- log limit ---- */

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

bool log_limit_next(struct log_limit *limit, time_t now, enum log_level *level, struct strbuf *line)
{
	while (limit->is_over && limit->kind_count) {
		struct log_kind *kind = &limit->kinds[--limit->kind_count];

		if (kind->count <= limit->per_second)
			continue;
		*level = kind->level;
		strbuf_add_number(line, kind->count - limit->per_second);
		strbuf_add(line, " more suppressed: ");
		strbuf_add(line, kind->text);
		strbuf_add(line, "...");
		return true;
	}
	limit->is_over = false;
	log_limit_turn(limit, now);
	return false;
}

void log_limit_turn(struct log_limit *limit, time_t now)
{
	if (now == limit->second)
		return;
	limit->second = now;
	limit->kind_count = 0;
}

/* ---- limits ---- */

bool limit_event_begins(struct limit_met *met, usec_t now)
{
	usec_t before = atomic_exchange_explicit(&met->last_at, now, memory_order_relaxed);

	return !before || now - before >= LIMIT_EVENT_PAUSE;
}

static void add_whose(struct strbuf *out, const struct limit_event *event)
{
	if (event->database && event->user)
		strbuf_add(out, " of pool ");
	else if (event->database)
		strbuf_add(out, " of database ");
	else if (event->user)
		strbuf_add(out, " of user ");
	if (event->database)
		strbuf_add(out, event->database);
	if (event->database && event->user)
		strbuf_add(out, "/");
	if (event->user)
		strbuf_add(out, event->user);
}

void limit_event_note(struct limit_met *met, usec_t now, struct log *log,
                      const struct limit_event *event)
{
	static const struct log_facts facts = { .kept = LIMIT_EVENT_KIND };
	const struct logger logger = { log, NULL };
	struct log_entry entry;

	if (!limit_event_begins(met, now) || !log_begin(&logger, LOG_LEVEL_WARNING, &entry))
		return;
	entry.who.database = event->database;
	entry.who.user = event->user;
	entry.who.facts = &facts;
	strbuf_add(&entry.line, event->limit);
	strbuf_add(&entry.line, " = ");
	strbuf_add_number(&entry.line, event->value > 0 ? (uint64_t)event->value : 0);
	strbuf_add(&entry.line, " is reached by ");
	strbuf_add(&entry.line, event->counted);
	add_whose(&entry.line, event);
	log_end(&logger, LOG_LEVEL_WARNING, &entry);
}
