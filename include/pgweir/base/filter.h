/* SPDX-License-Identifier: ISC */
/*
 * A program that consists of one function from text to text.
 */
#ifndef PGWEIR_BASE_FILTER_H
#define PGWEIR_BASE_FILTER_H

#include <stdbool.h>
#include <stdio.h>

#include "pgweir/base/buf.h"

/* A mark is a whole line, without its end. */
struct filter_mark {
	const char *line;
	void (*add)(struct buf *out);
};

/* Copies a text, and replaces each line that is a mark by what its add() adds. */
void filter_fill(const struct filter_mark *marks, size_t count, struct bytes text,
                 struct buf *made);

/* Writes what `fill` makes of all of `in`. false: reading, writing or memory failed. */
bool filter_run(FILE *in, FILE *out, void (*fill)(struct bytes text, struct buf *made));

/* From stdin to stdout: a complete main(). Returns an exit status. */
int filter_main(const char *name, void (*fill)(struct bytes text, struct buf *made));

#endif
