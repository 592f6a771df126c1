/* SPDX-License-Identifier: ISC */
/*
 * The events that the log keeps: the last LOG_KEPT_MAX lines that have a kind; and the limits of
 * lines and of what is an event.
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

static const char *text_or_nothing(const char *text) { return text ? text : ""; }

void log_kept_add(struct log_kept_ring *ring, const char *kind, enum log_level level,
                  const struct log_who *who, struct bytes text)
{
	size_t count = text.count < LOG_KEPT_TEXT_MAX ? text.count : LOG_KEPT_TEXT_MAX;
	size_t size = offsetof(struct log_kept, text) + count + 1;
	struct log_kept event = { .at = wall_now(), .kind = kind, .level = level }, *copy;
	struct log_kept_kind *counted = kind_of(ring, kind);

	if (counted)
		counted->count++;
	text_copy(event.database, sizeof(event.database), text_or_nothing(who->database));
	text_copy(event.user, sizeof(event.user), text_or_nothing(who->user));
	memcpy(event.text, text.at, count);
	copy = malloc(size);
	if (!copy)
		return;
	memcpy(copy, &event, size);
	free(ring->events[ring->count % LOG_KEPT_MAX]);
	ring->events[ring->count++ % LOG_KEPT_MAX] = copy;
}

bool log_kept_get(const struct log_kept_ring *ring, uint64_t *number, struct log_kept *kept)
{
	uint64_t first = ring->count > LOG_KEPT_MAX ? ring->count - LOG_KEPT_MAX : 0;
	const struct log_kept *event;

	if (*number < first)
		*number = first;
	if (*number >= ring->count)
		return false;
	event = ring->events[(*number)++ % LOG_KEPT_MAX];
	memcpy(kept, event, offsetof(struct log_kept, text) + strlen(event->text) + 1);
	return true;
}

void log_kept_free(struct log_kept_ring *ring)
{
	for (size_t i = 0; i < LOG_KEPT_MAX; i++)
		free(ring->events[i]);
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

/* ---- limits ---- */

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
		strbuf_printf(&entry.line, " of %s%s%s%s", owner, text_or_nothing(database),
		              database && user ? "/" : "", text_or_nothing(user));
	log_end(&logger, LOG_LEVEL_WARNING, &entry);
}
