/* SPDX-License-Identifier: ISC */
/*
 * Expected results of a client, in order, and their comparison with received results. Every
 * statement has a unique tag ("c17.s123": client 17, statement 123), and its result must have the
 * same tag, so the result of another client, or of an earlier statement, is detected.
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
	DUE_ABORTED,        /* a pipeline's statement after an error */
	DUE_SYNC,           /* a pipeline's Sync */
	DUE_COPY_OUT,       /* COPY data as tagged rows, and its command tag */
	DUE_COPY_OUT_BEGUN, /* only the begin of it */
	DUE_COPY_IN_BEGUN,  /* the server waits for COPY data */
	DUE_END             /* libpq's NULL after each statement */
};

struct due {
	enum due_kind kind;
	bool may_be_cancelled; /* 57014 is also valid */
	bool is_copying;       /* DUE_COPY_OUT: receiving lines */
	char tag[WORDS_SIZE];  /* or the message of an error */
	char words[WORDS_SIZE];
	unsigned int seed;  /* for the numbers in the rows */
	unsigned int rows;  /* expected rows */
	unsigned int seen;  /* received rows */
	unsigned int width; /* length of each row's text */
};

/* Lives inside its client. {0} is an empty one. */
struct answers {
	struct due due[AUTH_CACHE_MAX]; /* a ring */
	unsigned int first;
	unsigned int count;
	bool was_cancelled;      /* the last may_be_cancelled was */
	char kept[WORDS_SIZE];   /* from the last DUE_KEEP */
	char notice[WORDS_SIZE]; /* text of an expected notice, or empty */
	char complaint[512];     /* why a result was wrong */
};

/* Appends one; the caller fills in what the kind needs. Valid until its result has arrived. */
struct due *answers_expect(struct answers *answers, enum due_kind kind);

/* The same, with words (copied, cut at WORDS_SIZE - 1). */
struct due *answers_expect_words(struct answers *answers, enum due_kind kind, const char *words);

/* The expected result as text, for reports. */
const char *answers_kind_name(enum due_kind kind);

/* The next one due, or NULL. */
struct due *answers_next(struct answers *answers);

/* Forgets everything. */
void answers_clear(struct answers *answers);

/*
 * Compares a result (or NULL) with the next expected one, which is removed if it is complete.
 * False: wrong, see complaint. Borrows the result.
 */
bool answers_judge(struct answers *answers, const PGresult *result, struct tally *tally);

/* The same for one line of COPY data, which it may change. */
bool answers_judge_line(struct answers *answers, char *line);

/* The same for a notice. The pooler's own notices about waiting are accepted. */
bool answers_judge_notice(struct answers *answers, const PGresult *notice, struct tally *tally);

#endif
