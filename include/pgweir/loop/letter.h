/* SPDX-License-Identifier: ISC */
/*
 * Letters: messages from any thread to a loop.
 *
 * A letter is embedded in an object that holds what it is about. From loop_post() until open()
 * it belongs to the receiving loop.
 */
#ifndef PGWEIR_LOOP_LETTER_H
#define PGWEIR_LOOP_LETTER_H

#include "pgweir/loop/loop.h"

/* Zero it before its first use. */
struct letter {
	TAILQ_ENTRY(letter) node;
	/* Called in the receiving loop's thread, within a turn; may free the letter's owner. */
	void (*open)(struct letter *letter);
	bool is_late;   /* the loop has ended: open() must only clean up */
	bool is_posted; /* for the loop only */
};

/*
 * Prepares the loop to receive letters. To be called by the loop's thread, or before the loop
 * runs, and before any other thread knows the loop. Calling it again has no effect. Without it
 * the loop has no descriptor for letters.
 */
bool loop_take_letters(struct loop *loop, struct err *err);

/*
 * Sends a letter. Any thread may call this, except while the loop is being freed. Letters are
 * opened in the order in which they were posted. A loop is woken once for all letters that it
 * has not begun to read.
 */
void loop_post(struct loop *to, struct letter *letter);

/*
 * Takes back a letter that has not been opened; no effect on other letters. Only the receiving
 * loop's thread may call this, or any thread while that loop does not run.
 */
void loop_take_back(struct loop *loop, struct letter *letter);

/*
 * Opens all letters with is_late set. For the end, when the loop does not run any more and
 * nobody posts. loop_free() does it too.
 */
void loop_open_late(struct loop *loop);

#endif
