/* SPDX-License-Identifier: ISC */
/*
 * Samples. The texts of a sampled transaction are kept as digests, and as texts without constants,
 * until the server has answered. If several statements may have left the state, all of them are
 * suspected: to ask too often costs little.
 */
#include "sample_priv.h"

#include "placeholders_priv.h"

#include <inttypes.h>
#include <stdlib.h>

#include "pgweir/pgwire/sql_block.h"
#include "pgweir/pgwire/sql_digest.h"
#include "pgweir/pool/learnt.h"

#include "pgweir/base/banned.h"

#define TEXTS_MAX 16 /* statements of one transaction that are noted */

struct session_sample {
	unsigned int count;
	struct learnt_statement statements[TEXTS_MAX];
};

static const struct sql_digest_key *key_of(const struct client *client)
{
	return client->clients->with.digest_key;
}

unsigned int sample_touches(const struct client *client, struct bytes text)
{
	return sample_has_learnt(client)
	           ? learnt_touches(client->borrower.pool->hidden, sql_digest(key_of(client), text))
	           : 0;
}

void sample_note(struct client *client, struct bytes text)
{
	struct session *session = session_get(client);
	struct learnt_statement *statement;
	struct strbuf out;

	if (!session || sql_block_read(text).kind != SQL_BLOCK_OTHER)
		return;
	placeholders_note_sample(session, text);
	if (!session->sample)
		session->sample = calloc(1, sizeof(*session->sample));
	if (!session->sample || session->sample->count == TEXTS_MAX)
		return;
	statement = &session->sample->statements[session->sample->count++];
	statement->digest = sql_digest(key_of(client), text);
	out = strbuf_begin(statement->text, sizeof(statement->text));
	sql_digest_text(text, &out);
}

/* Kinds of state that are there, and that neither a text nor an earlier transaction explains. */
static unsigned int unexplained(const struct client *client, const struct facts *facts,
                                bool has_params)
{
	unsigned int pins = client->session ? client->session->pins : 0, found = 0;

	if (client->touched & SQL_TOUCH_HIDDEN)
		return 0;
	if (has_params)
		found |= SQL_TOUCH_PARAMS;
	if (listening_has_others(client, buf_bytes(&facts->channels)))
		found |= SQL_TOUCH_LISTEN;
	if (facts->cursor_count && !(pins & SESSION_PIN_CURSOR))
		found |= SQL_TOUCH_CURSOR;
	if (facts->temp_count && !(pins & SESSION_PIN_TEMP))
		found |= SQL_TOUCH_TEMP;
	if (facts->lock_count && !(pins & SESSION_PIN_LOCK))
		found |= SQL_TOUCH_LOCK;
	return found & ~client->touched;
}

/* What has followed from an entry that is new. */
static void tell(const struct client *client, const struct learnt_statement *statement,
                 unsigned int count)
{
	bool notifies = statement->touches == SQL_TOUCH_NOTIFY;

	log_write(&client->log, notifies ? LOG_LEVEL_INFO : LOG_LEVEL_WARNING,
	          "%s has %s: statement %016" PRIx64 ": %s",
	          count == 1 ? "a statement" : "a transaction of several statements",
	          notifies ? "notified its client, which its text does not show, so clients that "
	                     "listen get its notifications before its end from now on"
	                   : "left session state that its text does not show, so the server is "
	                     "asked after it from now on",
	          statement->digest, statement->text);
}

void sample_learn(struct client *client, struct session_sample *sample, unsigned int touches)
{
	struct pool *pool = client->borrower.pool;

	for (unsigned int i = 0; i < sample->count; i++) {
		struct learnt_statement *statement = &sample->statements[i];
		const struct learnt_statement *entry;

		statement->touches = touches;
		statement->is_sure = sample->count == 1;
		statement->found_wall = wall_now();
		entry = pool_learn_statement(pool, statement);
		/* With so many, more lines say nothing new. */
		if (entry && entry->news == LEARNT_NEW && pool->hidden->count < LEARNT_MAX)
			tell(client, entry, sample->count);
	}
}

void sample_end(struct client *client, const struct facts *facts, bool has_params)
{
	struct session_sample *sample = client->session ? client->session->sample : NULL;
	unsigned int found = unexplained(client, facts, has_params);

	if (!sample)
		return;
	if (found)
		sample_learn(client, sample, found);
	if (listening_keeps_sample(client, sample))
		client->session->sample = NULL;
}
