/* SPDX-License-Identifier: ISC */
/*
 * Scripts: dialogues of some clients with some servers, in a line of text each.
 *
 * A word says who, and after it what. "a".."d": a client says; "1".."4": a server says.
 * With a '<' behind: it has heard exactly this ('.' = its end). "a^" is a's login as
 * u0 into d0, "a^21" as u2 into d1, "a^00p" and "a^00d" for physical and logical
 * replication; "1^" accepts a server and answers its login, "1^?" does
 * not; "1-": no server is dialled. "1." closes. "a~" and "1~" wait until something is
 * heard, and "1~^" until a server is dialled; timers run only during these waits. A space ends a
 * word; a '+' before it joins the word to the next one: what both say is read in one turn of
 * the loop, in this order.
 *
 * "a*" is a request to cancel what a does, and "2*" accepts the connection on which that goes to
 * a server.
 *
 * A message is its letter, and may have a content in parentheses, in which '_' is a space:
 *   client:  Q(text) P(name:text) B(name) or B(name:portal) E(portal) D(S:name) D(P:portal)
 *            C(S:name)
 *   server:  C(tag) E(SQLSTATE:text) S(name:value), and t() and T() with no column; and
 *            D(kind:name:value), a row of the question
 * "1<<" has heard exactly this, contents included: those of Q, P, B, D and C, and at a client
 * those of C and S, the SQLSTATE of E, and the status of Z if it is not I. Names that pgweir has
 * made are #1, #2 and so on, in the order in which they are heard; a client may say them, too.
 *
 * Where a script fails, the dialogue so far is printed with the names of the messages.
 */
#ifndef PGWEIR_TEST_SCRIPT_H
#define PGWEIR_TEST_SCRIPT_H

#include "engine.h"

#define STAGE_PEERS 4
#define STAGE_NAMES 8

struct stage {
	struct engine engine;
	struct peer clients[STAGE_PEERS], servers[STAGE_PEERS];
	struct peer cancellers[STAGE_PEERS]; /* each client's last one */
	struct buf keys[STAGE_PEERS];        /* each client's, to cancel by */
	char names[STAGE_NAMES][64];         /* #1, #2, ... */
	struct buf heard;                    /* all that one word has heard */
	struct buf dialogue;                 /* all so far, for people: a line for each word */
};

struct script {
	const char *says;
	const char *settings;
	const char *words;
};

/* As engine_open(); nobody is there yet. */
void stage_open(struct stage *stage, const char *settings);
void stage_close(struct stage *stage);

/* Plays one word. The test fails where it does not fit; `says` is in what Check prints then. */
void stage_play(struct stage *stage, const char *says, const char *word);

/* Plays words, as a script has them. */
void stage_play_words(struct stage *stage, const char *says, const char *words);

/* A script on a stage of its own. */
void script_play(const struct script *script);

#endif
