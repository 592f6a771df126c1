/* SPDX-License-Identifier: ISC */
/*
 * A replay: what a borrower has sent to a server up to a Sync, kept for the case
 * that the server refuses the first of it, and it is worth saying again.
 *
 * A server that was ever in that case keeps a buffer of a few KB; its content is dropped at the
 * first answer.
 */
#ifndef PGWEIR_POOL_SERVER_REPLAY_H
#define PGWEIR_POOL_SERVER_REPLAY_H

#include <stdbool.h>
#include <stdlib.h>

#include "pgweir/base/bytes.h"

#define REPLAY_MAX ((size_t)4 * 1024)

/* At rest ({0}) it owns nothing. */
struct replay {
	char *at;       /* REPLAY_MAX bytes, once there was one */
	size_t count;   /* 0: nothing is kept */
	bool is_failed; /* it is said again when the server is ready */
};

static inline void replay_done(struct replay *replay)
{
	free(replay->at);
	*replay = (struct replay){ 0 };
}

static inline void replay_drop(struct replay *replay) { replay->count = 0; }

/* Keeps it, if it is small enough and there is memory. */
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
}

#endif
