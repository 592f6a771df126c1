/* SPDX-License-Identifier: ISC */
/*
 * A replay: what a borrower has sent to a server up to a Sync, kept in case the batch can be sent
 * again: the server refuses the first request (replan), or the server is lost before it has run any
 * of it (resend).
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

/* A zeroed replay owns nothing. */
struct replay {
	char *at;       /* REPLAY_MAX bytes; NULL until first used */
	size_t count;   /* 0: nothing is kept */
	bool is_failed; /* the batch failed and is sent again when the server is ready */
	/* what it is for; valid while something is kept */
	bool may_replan, may_resend;
	/* may_resend: it has not run if so many of its last bytes were not delivered */
	uint8_t unsent_least;
	bool is_unrun; /* the server is lost, and the batch is sent to another one */
};

static inline void replay_done(struct replay *replay)
{
	free(replay->at);
	*replay = (struct replay){ 0 };
}

static inline void replay_drop(struct replay *replay) { replay->count = 0; }

/* Copies the bytes if they are few enough and there is memory. */
static inline void replay_keep(struct replay *replay, struct bytes bytes)
{
	if (bytes.count > REPLAY_MAX)
		return;
	if (!replay->at)
		replay->at = malloc(REPLAY_MAX);
	if (!replay->at)
		return;
	memcpy(replay->at, bytes.at, bytes.count);
	replay->count = bytes.count;
	replay->may_replan = replay->may_resend = false;
}

#endif
