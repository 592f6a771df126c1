/* SPDX-License-Identifier: ISC */
/*
 * A program that consists of one function from text to text.
 */
#include "pgweir/base/filter.h"

#include <stdlib.h>

#define PIECE 65536

static bool read_all(FILE *in, struct buf *text)
{
	size_t count = 1;

	while (count) {
		char *at = buf_reserve(text, PIECE);

		if (!at)
			return false;
		count = fread(at, 1, PIECE, in);
		text->count += count;
	}
	return !ferror(in);
}

bool filter_run(FILE *in, FILE *out, void (*fill)(struct bytes text, struct buf *made))
{
	struct buf text = { 0 }, made = { 0 };
	bool ok = read_all(in, &text);

	if (ok)
		fill(buf_bytes(&text), &made);
	ok = ok && buf_ok(&made) && fwrite(made.at, 1, made.count, out) == made.count &&
	     fflush(out) == 0;
	buf_free(&text);
	buf_free(&made);
	return ok;
}

int filter_main(const char *name, void (*fill)(struct bytes text, struct buf *made))
{
	if (filter_run(stdin, stdout, fill))
		return EXIT_SUCCESS;
	fprintf(stderr, "%s: cannot read the input or write the output\n", name);
	return EXIT_FAILURE;
}
