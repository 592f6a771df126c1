/* SPDX-License-Identifier: ISC */
/*
 * Slow requests: if log_min_duration is set, the start of each batch is noted, and logged if the
 * batch took that long.
 *
 * Hard here: only SQL text may be logged. That is the text of a simple query or of a Parse, but not
 * the values of a Bind. Of a statement that has arrived only in part, that part is noted.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../statements/statements_priv.h"
#include "relay_priv.h"
#include "track_priv.h"

#define TEXT_MAX 1000
#define DIGEST_SIZE 17 /* hexadecimal digits, and the zero */

/* is_whole: the text has a zero at its end. */
static void note(struct client *client, struct bytes text, bool is_whole)
{
	size_t count = text.count < TEXT_MAX ? text.count : TEXT_MAX;
	struct slow *slow = malloc(sizeof(*slow) + count + 1);
	struct bytes value;

	client->slow = slow;
	if (!slow)
		return;
	slow->is_whole = is_whole && count == text.count;
	slow->traceparent[0] = 0;
	if (sql_traceparent(text, &value)) {
		memcpy(slow->traceparent, value.at, SQL_TRACEPARENT_SIZE);
		slow->traceparent[SQL_TRACEPARENT_SIZE] = 0;
	}
	memcpy(slow->text, text.at, count);
	slow->text[count] = 0;
}

/* Notes the text after `skipped` names at the start of the body. */
static void note_behind(struct client *client, struct bytes body, int skipped)
{
	const char *name;
	size_t count;

	while (skipped--) {
		if (!bytes_take_text(&body, &name))
			return;
	}
	if (!body.count)
		return;
	count = strnlen(body.at, body.count);
	note(client, bytes_of(body.at, count), count < body.count);
}

/* A Bind names a statement that was prepared before. */
static void note_prepared(struct client *client, struct bytes body)
{
	const char *portal, *name, *text;

	if (!bytes_take_text(&body, &portal) || !bytes_take_text(&body, &name) || !*name)
		return;
	text = statements_text(client, name);
	if (text)
		note(client, bytes_text(text), true);
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

/* The digest of the text. 0: not known. */
static uint64_t digest_of_slow(const struct client *client)
{
	uint64_t digest = track_batch_digest(client);

	if (digest || !client->slow || !client->slow->is_whole)
		return digest;
	return sql_digest(client->clients->with.digest_key, bytes_text(client->slow->text));
}

static void add_fact(struct strbuf *out, const char *name, const char *value)
{
	if (!value || !*value)
		return;
	strbuf_add(out, name);
	strbuf_add(out, value);
}

/* The text is chosen by the client, so it is the last field. */
static void log_slow(const struct client *client, usec_t duration, usec_t wait)
{
	const struct slow *slow = client->slow;
	uint64_t digest = digest_of_slow(client);
	char hex[DIGEST_SIZE] = "";
	struct log_facts facts = { .event = "slow_statement",
		                   .statement = slow ? slow->text : NULL,
		                   .digest = digest ? hex : NULL,
		                   .traceparent =
		                       slow && *slow->traceparent ? slow->traceparent : NULL,
		                   .has_duration = true,
		                   .duration = duration,
		                   .has_wait = true,
		                   .wait = wait };
	struct log_entry entry;

	if (!log_begin(&client->log, LOG_LEVEL_INFO, &entry))
		return;
	if (digest)
		snprintf(hex, sizeof(hex), "%016" PRIx64, digest);
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
	if (!entry.is_json) {
		add_fact(&entry.line, " digest=", facts.digest);
		add_fact(&entry.line, " traceparent=", facts.traceparent);
	}
	strbuf_add(&entry.line, ": ");
	strbuf_add(&entry.line, slow ? slow->text : "(unknown text)");
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
