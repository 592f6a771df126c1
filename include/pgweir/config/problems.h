/* SPDX-License-Identifier: ISC */
/*
 * What is wrong with a configuration: all of it, in the order of the file, so
 * that one look is enough to mend it. And warnings: what deserves a look, though
 * the configuration is used as it is. Bounded: of each kind what comes after
 * CONFIG_PROBLEMS_MAX is only counted.
 *
 * Whatever reads a part of a configuration adds to the problems it was given. --check prints
 * them, a start and a RELOAD log them.
 */
#ifndef PGWEIR_CONFIG_PROBLEMS_H
#define PGWEIR_CONFIG_PROBLEMS_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#define CONFIG_PROBLEMS_MAX 100

struct problems {
	size_t count;                     /* texts[] in use */
	size_t dropped_count;             /* problems that found no room, or no memory */
	char *texts[CONFIG_PROBLEMS_MAX]; /* `file:line: setting "x": reason`, owned */
	size_t unfit_count;               /* how many of all these are ERR_UNFIT */
	size_t warning_count;             /* the same for warnings */
	size_t dropped_warning_count;
	char *warnings[CONFIG_PROBLEMS_MAX];
};

/* Whether anything at all is wrong; a warning is not. Start with {0}. */
static inline bool problems_any(const struct problems *problems)
{
	return problems->count > 0 || problems->dropped_count > 0;
}

/* Where in the files something stands. */
struct source_pos {
	const char *file; /* NULL: in no file (a value by SET) */
	int line;         /* from 1; 0 = the file as a whole */
};

/* Adds `file:line: ` and the words. Returns false, so that a failure is one line. */
bool problems_add(struct problems *problems, struct source_pos place, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Adds a warning in the same way. */
void problems_warn(struct problems *problems, struct source_pos place, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Adds words that say where by themselves. Returns false. */
bool problems_add_text(struct problems *problems, const char *text);

/* Frees the texts and leaves it empty. */
void problems_done(struct problems *problems);

#endif
