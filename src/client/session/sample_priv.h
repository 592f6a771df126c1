/* SPDX-License-Identifier: ISC */
/*
 * Session state that no text shows, because a function makes it. After one transaction in
 * session_sample the server is asked for everything. If there is state that nothing explains, the
 * statements of that transaction are noted by their digests (pool/learnt.h), and from then on
 * their server is asked each time.
 */
#ifndef PGWEIR_CLIENT_SESSION_SAMPLE_PRIV_H
#define PGWEIR_CLIENT_SESSION_SAMPLE_PRIV_H

#include "session_priv.h"

/* The client has its server for a new transaction: decides whether that is a sample. */
static inline void sample_begin(struct client *client)
{
	struct pool *pool = client->borrower.pool;
	unsigned int every = pool->limits.session_sample;

	if (every == 0 || ++pool->sample_count < every)
		return;
	pool->sample_count = 0;
	client->touched |= SESSION_TOUCH_SAMPLE;
}

/* Whether texts of the running transaction must be noted. */
static inline bool sample_is_running(const struct client *client)
{
	return client->touched & SESSION_TOUCH_SAMPLE;
}

/* A statement of this text is sent. */
void sample_note(struct client *client, struct bytes text);

/* What is known of a text besides what it shows: enum sql_touch. */
unsigned int sample_touches(const struct client *client, struct bytes text);

/* The server's answer after a sample. has_params: it has changed the parameters that are known. */
void sample_end(struct client *client, const struct facts *facts, bool has_params);

#endif
