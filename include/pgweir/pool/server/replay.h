/* SPDX-License-Identifier: ISC */
/*
 * A replay: what a borrower has sent to a server up to a Sync, kept in case the batch can be sent
 * again: the server refuses the first request (replan), or the server is lost before it has run any
 * of it (resend).
 *
 * For a resend, the opening of a transaction is kept too, while nothing else of it has run: the
 * texts of BEGIN, SET TRANSACTION and SET LOCAL, each with its zero, one behind the other.
 *
 * A server that ever needed a replay has one buffer of a few KB. Nothing is kept after the first
 * reply.
 */
#ifndef PGWEIR_POOL_SERVER_REPLAY_H
#define PGWEIR_POOL_SERVER_REPLAY_H

#include <stdbool.h>
#include <stdlib.h>

#include "pgweir/base/bytes.h"

#define REPLAY_MAX ((size_t)4 * 1024)
#define REPLAY_OPENING_MAX ((size_t)256) /* bytes of all its texts */

/* A zeroed replay owns nothing. */
struct replay {
	char *at;       /* REPLAY_MAX bytes and the opening; NULL until first used */
	size_t count;   /* 0: nothing is kept */
	bool is_failed; /* the batch failed and is sent again when the server is ready */
	/* what it is for; valid while something is kept */
	bool may_replan, may_resend;
	/* may_resend: it has not run if so many of its last bytes were not delivered */
	uint16_t unsent_least;
	bool is_unrun;   /* the server is lost, and the batch is sent to another one */
	bool is_opening; /* the batch executes nothing that is no part of the opening */
	/* bytes of the opening that was answered, or is sent ahead of the batch; and of the batch
	 */
	uint16_t opening_count, opening_more;
};

static inline void replay_done(struct replay *replay)
{
	free(replay->at);
	*replay = (struct replay){ 0 };
}

/* A reply to the batch: it has run, so only an opening is kept. */
static inline void replay_drop(struct replay *replay)
{
	if (replay->count == 0)
		return;
	replay->count = 0;
	replay->opening_count =
	    replay->is_opening ? replay->opening_count + replay->opening_more : 0;
	replay->opening_more = 0;
	replay->is_opening = false;
}

/* Nothing is kept of the transaction's opening. */
static inline void replay_forget_opening(struct replay *replay)
{
	replay->opening_count = replay->opening_more = 0;
	replay->is_opening = false;
}

/* The opening that precedes the batch. Only if there is memory: replay->at. */
static inline struct bytes replay_opening(const struct replay *replay)
{
	return bytes_of(replay->at + REPLAY_MAX, replay->opening_count);
}

static inline bool replay_has_memory(struct replay *replay)
{
	if (!replay->at)
		replay->at = malloc(REPLAY_MAX + REPLAY_OPENING_MAX);
	return replay->at;
}

/* Copies the bytes if they are few enough and there is memory. */
static inline void replay_keep(struct replay *replay, struct bytes bytes)
{
	if (bytes.count > REPLAY_MAX || !replay_has_memory(replay))
		return;
	memcpy(replay->at, bytes.at, bytes.count);
	replay->count = bytes.count;
	replay->may_replan = replay->may_resend = false;
}

#endif
