/* SPDX-License-Identifier: ISC */
/*
 * How many lines of one kind are logged, and the events that a limit was reached.
 */
#include <ctype.h>
#include <stdatomic.h>
#include <string.h>

#include "pgweir/base/hash.h"

#include "log_priv.h"

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
