/* SPDX-License-Identifier: ISC */
/*
 * A replay: what a borrower has sent to a server up to a Sync, kept in case the batch can be sent
 * again: the server refuses the first request (replan), or the server is lost before it has run any
 * of it (resend).
 *
 * For a resend, the text of the BEGIN is kept too, while nothing else of its transaction has run.
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
#define REPLAY_BEGIN_MAX 152 /* of the text of a BEGIN, with its zero */

/* A zeroed replay owns nothing. */
struct replay {
	char *at;       /* REPLAY_MAX bytes and the text of a BEGIN; NULL until first used */
	size_t count;   /* 0: nothing is kept */
	bool is_failed; /* the batch failed and is sent again when the server is ready */
	/* what it is for; valid while something is kept */
	bool may_replan, may_resend;
	/* may_resend: it has not run if so many of its last bytes were not delivered */
	uint16_t unsent_least;
	bool is_unrun; /* the server is lost, and the batch is sent to another one */
	bool is_begin; /* the batch is that BEGIN itself */
	/* of the BEGIN: it was answered, or is sent with the batch. 0: nothing is kept of it */
	uint8_t begin_count;
};

static inline void replay_done(struct replay *replay)
{
	free(replay->at);
	*replay = (struct replay){ 0 };
}

/* A reply to the batch: it has run, so only a BEGIN that was just answered is kept. */
static inline void replay_drop(struct replay *replay)
{
	if (replay->count == 0)
		return;
	replay->count = 0;
	if (!replay->is_begin)
		replay->begin_count = 0;
	replay->is_begin = false;
}

/* The text of the BEGIN, with its zero. Only if there is memory: replay->at. */
static inline struct bytes replay_begin(const struct replay *replay)
{
	return bytes_of(replay->at + REPLAY_MAX, replay->begin_count);
}

static inline bool replay_has_memory(struct replay *replay)
{
	if (!replay->at)
		replay->at = malloc(REPLAY_MAX + REPLAY_BEGIN_MAX);
	return replay->at;
}

static inline void replay_keep_begin(struct replay *replay, struct bytes text)
{
	memcpy(replay->at + REPLAY_MAX, text.at, text.count);
	replay->begin_count = (uint8_t)text.count;
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
