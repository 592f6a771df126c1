/* SPDX-License-Identifier: ISC */
/*
 * Answers that a client has coming, in order, and the judge who compares what came. Every
 * statement carries a tag of its own ("c17.s123": client 17, statement 123), and its answer must
 * bear the same tag, so an answer to somebody else, or to something earlier, is seen.
 */
#ifndef TEST_LOAD_ANSWERS_H
#define TEST_LOAD_ANSWERS_H

#include <stdbool.h>
#include <stddef.h>
#include <libpq-fe.h>

#include "tally.h"

#define AUTH_CACHE_MAX 64 /* due at once */
#define TAG_SIZE 32
#define WORDS_SIZE 96

enum due_kind {
	DUE_ROWS,           /* tagged rows, see statement.h */
	DUE_VALUE,          /* one row, one column: words */
	DUE_KEEP,           /* one row, one column: anything, kept for later */
	DUE_COMMAND,        /* no rows; command tag: words */
	DUE_DESCRIPTION,    /* of a tagged statement; name of its third column: words */
	DUE_ERROR,          /* SQLSTATE: words; the message must be the tag if there is one */
	DUE_EMPTY,          /* answer to an empty query */
	DUE_ABORTED,        /* a pipeline's statement behind an error */
	DUE_SYNC,           /* a pipeline's Sync */
	DUE_COPY_OUT,       /* COPY data as tagged rows, and its command tag */
	DUE_COPY_OUT_BEGUN, /* only the begin of it */
	DUE_COPY_IN_BEGUN,  /* the server waits for COPY data */
	DUE_END             /* libpq's NULL behind each statement */
};

struct due {
	enum due_kind kind;
	bool may_be_cancelled; /* 57014 is as good */
	bool is_copying;       /* DUE_COPY_OUT: lines are coming */
	char tag[WORDS_SIZE];  /* or the message of an error */
	char words[WORDS_SIZE];
	unsigned int seed;  /* for the numbers in the rows */
	unsigned int rows;  /* how many must come */
	unsigned int seen;  /* how many have come */
	unsigned int width; /* length of each row's text */
};

/* Lives inside its client. {0} is an empty one. */
struct answers {
	struct due due[AUTH_CACHE_MAX]; /* a ring */
	unsigned int first;
	unsigned int count;
	bool was_cancelled;      /* the last may_be_cancelled was */
	char kept[WORDS_SIZE];   /* from the last DUE_KEEP */
	char notice[WORDS_SIZE]; /* text of a notice that must come, or empty */
	char complaint[512];     /* why the judge said no */
};

/* Adds one at the end; the caller fills in what the kind needs. Valid until it is answered. */
struct due *answers_expect(struct answers *answers, enum due_kind kind);

/* The same, with words (copied, cut at WORDS_SIZE - 1). */
struct due *answers_expect_words(struct answers *answers, enum due_kind kind, const char *words);

/* What is due in words, for reports. */
const char *answers_kind_name(enum due_kind kind);

/* The next one due, or NULL. */
struct due *answers_next(struct answers *answers);

/* Forgets everything. */
void answers_clear(struct answers *answers);

/*
 * Compares a result (NULL too) with the next one due, which is done with if it is answered
 * wholly. False: wrong, see complaint. Borrows the result.
 */
bool answers_judge(struct answers *answers, const PGresult *result, struct tally *tally);

/* The same for one line of COPY data, which it may change. */
bool answers_judge_line(struct answers *answers, char *line);

/* The same for a notice. The pooler's own notices about waiting pass. */
bool answers_judge_notice(struct answers *answers, const PGresult *notice, struct tally *tally);

#endif
