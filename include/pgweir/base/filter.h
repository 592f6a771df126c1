/* SPDX-License-Identifier: ISC */
/*
 * A program that is one function from text to text.
 */
#ifndef PGWEIR_BASE_FILTER_H
#define PGWEIR_BASE_FILTER_H

#include <stdbool.h>
#include <stdio.h>

#include "pgweir/base/buf.h"

/*
 * Reads all of `in`, and writes to `out` what `fill` makes of it. false: reading,
 * writing or memory failed.
 */
bool filter_run(FILE *in, FILE *out, void (*fill)(struct bytes text, struct buf *made));

/* The same from stdin to stdout: the whole of a main(). An exit status; complains on stderr. */
int filter_main(const char *name, void (*fill)(struct bytes text, struct buf *made));

#endif
