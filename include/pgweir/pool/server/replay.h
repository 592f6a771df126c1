/* SPDX-License-Identifier: ISC */
/*
 * A replay: what a borrower has sent to a server, kept in case it can be sent again: the server
 * refuses the first request (replan), or the server is lost before it has run any of it (resend).
 *
 * For a replan, that is a batch, up to its Sync. For a resend, it may be several, of which all but
 * the last one only open a transaction: a driver sends BEGIN in one write with what is behind it.
 * A batch that was answered in full is dropped, and the opening in it is kept as texts.
 *
 * The texts of an opening are those of BEGIN, SET TRANSACTION and SET LOCAL, each with its zero,
 * one behind the other. They are kept while nothing else of the transaction has run.
 *
 * A server that ever needed a replay has one buffer of a few KB. Nothing is kept after the first
 * reply to the last batch.
 */
#ifndef PGWEIR_POOL_SERVER_REPLAY_H
#define PGWEIR_POOL_SERVER_REPLAY_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "pgweir/base/buf.h"
#include "pgweir/base/bytes.h"

#define REPLAY_MAX ((size_t)4 * 1024)
#define REPLAY_OPENING_MAX ((size_t)256) /* bytes of all its texts */
#define REPLAY_BATCHES_MAX 20            /* all but the last are of an opening */

#define REPLAY_UNKNOWN UINT32_MAX /* of unsent_least: that proves nothing */

/* What may be resent: where each batch ends, and where the texts of the opening do then. */
struct replay_batches {
	uint8_t count;
	struct {
		uint16_t end, opening;
	} at[REPLAY_BATCHES_MAX];
};

/* A zeroed replay owns nothing. */
struct replay {
	char *at;       /* REPLAY_MAX bytes and the opening; NULL until first used */
	size_t count;   /* 0: nothing is kept */
	bool is_failed; /* the batch failed and is sent again when the server is ready */
	/* the message of its error: the borrower gets it if it fails again before its Bind */
	struct buf withheld;
	/* what it is for; valid while something is kept */
	bool may_replan, may_resend;
	/* may_resend: it has not run if so many of its last bytes were not delivered */
	uint32_t unsent_least;
	/* default_transaction_read_only was off, and was changed behind the opening or within it */
	bool was_writable;
	bool is_opening; /* nothing is executed that is no part of the opening */
	/* bytes of the opening that was answered, or is sent ahead; more is in what is kept */
	uint16_t opening_count;
	bool is_whole;    /* the last batch has its end: a Sync, or it is a Query */
	bool is_answered; /* the first one of several, in part */
	bool is_unrun;    /* the server is lost, and what is kept is sent to another one */
	struct replay_batches batches;
};

static inline void replay_done(struct replay *replay)
{
	free(replay->at);
	buf_free(&replay->withheld);
	*replay = (struct replay){ 0 };
}

/* Whether it could be sent to another server, if it has not run. */
static inline bool replay_may_resend(const struct replay *replay)
{
	return replay->count && replay->may_resend && !replay->is_failed && !replay->is_answered;
}

/* Bytes of the opening, with that in what is kept. */
static inline uint16_t replay_whole_opening(const struct replay *replay)
{
	const struct replay_batches *batches = &replay->batches;

	return batches->count ? batches->at[batches->count - 1].opening : replay->opening_count;
}

/* Nothing is kept of the transaction's opening. */
static inline void replay_forget_opening(struct replay *replay)
{
	replay->opening_count = 0;
	replay->is_opening = replay->was_writable = false;
}

/* The batch is not sent again with other statements. */
static inline void replay_end_replan(struct replay *replay)
{
	replay->may_replan = false;
	if (!replay->may_resend)
		replay->count = 0;
}

/* More is sent than what is kept, which may still serve a replan. */
static inline void replay_end_resend(struct replay *replay)
{
	replay_forget_opening(replay);
	replay->batches.count = 0;
	replay->may_resend = replay->is_answered = false;
	if (!replay->may_replan)
		replay->count = 0;
}

/* It has run, so only an opening is kept. */
static inline void replay_drop(struct replay *replay)
{
	uint16_t opening_count;
	bool was_writable;

	if (replay->count == 0)
		return;
	opening_count = replay->is_opening ? replay_whole_opening(replay) : 0;
	was_writable = replay->was_writable && replay->is_opening;
	replay->may_replan = false;
	replay_end_resend(replay);
	replay->opening_count = opening_count;
	replay->was_writable = was_writable;
}

/* A reply that is no error and no ReadyForQuery: the first batch has run, or runs. */
static inline void replay_reply(struct replay *replay)
{
	if (replay->batches.count > 1)
		replay->is_answered = true;
	else
		replay_drop(replay);
}

/* The ReadyForQuery of the first batch, with its status. */
void replay_ready(struct replay *replay, char status);

/* How many statements of an opening are executed by what is kept. */
unsigned int replay_count_opening(const struct replay *replay);

/* The opening that precedes what is kept. Only if there is memory: replay->at. */
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

/* Adds bytes to what is kept. false: they are too many, or there is no memory. */
static inline bool replay_add(struct replay *replay, struct bytes bytes)
{
	if (bytes.count > REPLAY_MAX - replay->count || !replay_has_memory(replay))
		return false;
	memcpy(replay->at + replay->count, bytes.at, bytes.count);
	replay->count += bytes.count;
	return true;
}

#endif
