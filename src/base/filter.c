/* SPDX-License-Identifier: ISC */
/*
 * A program that consists of one function from text to text.
 */
#include "pgweir/base/filter.h"

#include <stdlib.h>

bool filter_run(FILE *in, FILE *out, void (*fill)(struct bytes text, struct buf *made))
{
	struct buf text = { 0 }, made = { 0 };
	bool ok = buf_read_file(&text, in);

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

static const struct filter_mark *find_mark(const struct filter_mark *marks, size_t count,
                                           struct bytes line)
{
	for (size_t i = 0; i < count; i++) {
		if (bytes_are(line, marks[i].line))
			return &marks[i];
	}
	return NULL;
}

void filter_fill(const struct filter_mark *marks, size_t count, struct bytes text, struct buf *made)
{
	while (text.count) {
		const char *end = memchr(text.at, '\n', text.count);
		struct bytes line = bytes_of(text.at, end ? (size_t)(end - text.at) : text.count);
		const struct filter_mark *mark = find_mark(marks, count, line);
		size_t whole = line.count + (end != NULL);

		if (mark)
			mark->add(made);
		else
			buf_add(made, line.at, whole);
		text = bytes_skip(text, whole);
	}
}
