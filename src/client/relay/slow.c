/* SPDX-License-Identifier: ISC */
/*
 * Slow requests: if log_min_duration is set, the start of each batch is noted, and logged if the
 * batch took that long.
 *
 * Hard here: only SQL text may be logged. That is the text of a simple query or of a Parse, but not
 * the values of a Bind. Of a statement that has arrived only in part, that part is noted.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../statements/statements_priv.h"
#include "relay_priv.h"

#include "pgweir/base/banned.h"

#define TEXT_MAX 1000

static void note(struct client *client, const char *text, size_t count)
{
	count = strnlen(text, count);
	client->slow = strndup(text, count < TEXT_MAX ? count : TEXT_MAX);
}

/* Notes the text after `skipped` names at the start of the body. */
static void note_behind(struct client *client, struct bytes body, int skipped)
{
	const char *name;

	while (skipped--) {
		if (!bytes_take_text(&body, &name))
			return;
	}
	if (body.count)
		note(client, body.at, body.count);
}

/* A Bind names a statement that was prepared before. */
static void note_prepared(struct client *client, struct bytes body)
{
	const char *portal, *name, *text;

	if (!bytes_take_text(&body, &portal) || !bytes_take_text(&body, &name) || !*name)
		return;
	text = statements_text(client, name);
	if (text)
		note(client, text, TEXT_MAX);
}

void slow_note(struct client *client, const struct frame *frame, struct bytes in)
{
	size_t count = frame->length < in.count ? frame->length : in.count;
	struct bytes body = bytes_of(in.at + FRAME_HEADER_SIZE, count - FRAME_HEADER_SIZE);

	if (client->slow && !client->is_slow_over)
		return;
	slow_forget(client);
	if (frame->type == 'Q')
		note_behind(client, body, 0);
	else if (frame->type == 'P')
		note_behind(client, body, 1);
	else if (frame->type == 'B')
		note_prepared(client, body);
}

static void add_ms(struct strbuf *out, usec_t duration)
{
	unsigned long long usec = (unsigned long long)duration;
	char text[48];

	snprintf(text, sizeof(text), "%llu.%03llu ms", usec / 1000, usec % 1000);
	strbuf_add(out, text);
}

/* The text is chosen by the client, so it is the last field. */
static void log_slow(const struct client *client, usec_t duration, usec_t wait)
{
	struct log_facts facts = { .event = "slow_statement",
		                   .statement = client->slow,
		                   .has_duration = true,
		                   .duration = duration,
		                   .has_wait = true,
		                   .wait = wait };
	struct log_entry entry;

	if (!log_begin(&client->log, LOG_LEVEL_INFO, &entry))
		return;
	entry.who.facts = &facts;
	strbuf_add(&entry.line, "slow statement: ");
	add_ms(&entry.line, duration);
	if (wait) {
		strbuf_add(&entry.line, " (waiting ");
		add_ms(&entry.line, wait);
		strbuf_add(&entry.line, ", running ");
		add_ms(&entry.line, duration - wait);
		strbuf_add(&entry.line, ")");
	}
	if (!entry.is_json)
		client_add_application_name(client, &entry.line);
	strbuf_add(&entry.line, ": ");
	strbuf_add(&entry.line, client->slow ? client->slow : "(unknown text)");
	log_end(&client->log, LOG_LEVEL_INFO, &entry);
}

void slow_end(struct client *client, usec_t duration, bool is_kept)
{
	usec_t limit = client->clients->config->log_min_duration;

	if (limit && duration >= limit)
		log_slow(client, duration, client->borrower.waited);
	if (is_kept)
		client->is_slow_over = true;
	else
		slow_forget(client);
}

void slow_forget(struct client *client)
{
	free(client->slow);
	client->slow = NULL;
	client->is_slow_over = false;
}
