/* SPDX-License-Identifier: ISC */
/*
 * The event that a limit was reached.
 */
#include "pgweir/base/limit_event.h"

#include <stdatomic.h>

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
