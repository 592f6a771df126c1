/* SPDX-License-Identifier: ISC */
/*
 * Session state that no text shows, because a function makes it. After one transaction in
 * session_sample the server is asked for everything. If there is state that nothing explains, the
 * statements of that transaction are noted by their digests (pool/learnt.h), and from then on
 * their server is asked each time.
 */
#ifndef PGWEIR_CLIENT_SESSION_SAMPLE_PRIV_H
#define PGWEIR_CLIENT_SESSION_SAMPLE_PRIV_H

#include "pgweir/pool/learnt.h"

#include "listening_priv.h"
#include "session_priv.h"

/* The client has its server for a new transaction: decides whether that is a sample. */
static inline void sample_begin(struct client *client)
{
	struct pool *pool = client->borrower.pool;
	unsigned int every = pool->limits.session_sample;

	if (every == 0)
		return;
	if (client->listening && listening_wants_sample(client)) {
		client->touched |= SESSION_TOUCH_SAMPLE;
		return;
	}
	if (++pool->sample_count < every)
		return;
	pool->sample_count = 0;
	client->touched |= SESSION_TOUCH_SAMPLE;
}

/* Whether texts of the running transaction must be noted. */
static inline bool sample_is_running(const struct client *client)
{
	return client->touched & SESSION_TOUCH_SAMPLE;
}

/* Whether something may be known of the client's texts besides what they show. */
static inline bool sample_has_learnt(const struct client *client)
{
	const struct learnt *learnt = client->borrower.pool->hidden;

	return learnt && (learnt->has_state || client->listening);
}

/* A statement of this text is sent. */
void sample_note(struct client *client, struct bytes text);

/* What is known of a text besides what it shows: enum sql_touch. */
unsigned int sample_touches(const struct client *client, struct bytes text);

/* The statements of a transaction have done this, which their texts do not show. */
void sample_learn(struct client *client, struct session_sample *sample, unsigned int touches);

/* The server's answer after a sample. has_params: it has changed the parameters that are known. */
void sample_end(struct client *client, const struct facts *facts, bool has_params);

#endif
