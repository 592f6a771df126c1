/* SPDX-License-Identifier: ISC */
/*
 * The errors of a configuration in the order of the file, so that all can be fixed at once; and
 * warnings. Bounded: after CONFIG_PROBLEMS_MAX of each, further ones are only counted. All code
 * that reads a part of a configuration adds to the same list.
 */
#ifndef PGWEIR_CONFIG_PROBLEMS_H
#define PGWEIR_CONFIG_PROBLEMS_H

#include <stdbool.h>
#include <stddef.h>

#include "pgweir/base/buf.h"
#include "pgweir/base/err.h"

#define CONFIG_PROBLEMS_MAX 100

struct problem_list {
	size_t count;
	size_t dropped_count; /* those that did not fit, or for which there was no memory */
	char *texts[CONFIG_PROBLEMS_MAX]; /* `file:line: setting "x": reason`, owned */
};

/* Start with {0}. */
struct problems {
	struct problem_list errors, warnings;
};

/* How many errors there are; warnings do not count. */
static inline size_t problems_count(const struct problems *problems)
{
	return problems->errors.count + problems->errors.dropped_count;
}

static inline bool problems_any(const struct problems *problems)
{
	return problems_count(problems) > 0;
}

/* The first error becomes *err. Returns false. */
bool problems_first(const struct problems *problems, struct err *err);

/* A position in the files. */
struct source_pos {
	const char *file; /* NULL: in no file */
	int line;         /* starts at 1; 0 = the file as a whole; or one of these */
};

#define SOURCE_VARIABLE (-1) /* `file` is the name of an environment variable */
#define SOURCE_SET (-2)      /* without a file: the command SET */
#define SOURCE_POS_SIZE 512

/* Writes `file:line`, or the file or variable alone, or SET or default, to `out` and returns it. */
const char *source_pos_text(struct source_pos pos, char out[SOURCE_POS_SIZE]);

/*
 * Adds `file:line: ` and the text; without a file, the text has its position. Returns false, so
 * that a failing function can return it.
 */
bool problem_list_add(struct problem_list *list, struct source_pos pos, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#define problems_add(problems, ...) problem_list_add(&(problems)->errors, __VA_ARGS__)
#define problems_warn(problems, ...) ((void)problem_list_add(&(problems)->warnings, __VA_ARGS__))

/* Frees the texts and empties the list. */
void problems_done(struct problems *problems);

/* ---- files of one load: they may include others, even themselves, so all is limited ---- */

#define SOURCE_DEPTH_MAX 10
#define SOURCE_FILES_MAX 1000
#define SOURCE_BYTES_MAX ((size_t)64 << 20)

/* Zeroed: none yet. */
struct source_files {
	char **names; /* owned; those that were read */
	size_t count, byte_count;
	int depth; /* for the reader */
};

/*
 * Reads a whole file, and adds a zero behind it. Returns its name, which lives as long as *files.
 * NULL: a problem was added, or the file is missing and may be.
 */
const char *source_read(struct source_files *files, const char *path, bool may_be_missing,
                        struct buf *text, struct problems *problems);

/* Adds a name that is none of a file that was read. NULL: there are too many, or no memory. */
const char *source_name(struct source_files *files, const char *name);

void source_files_done(struct source_files *files);

#endif
