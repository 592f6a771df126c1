/* SPDX-License-Identifier: ISC */
/*
 * Fills a template with the lists of the console: `manual <template >document`.
 * Built and run by make, not installed.
 */
#include <stdio.h>
#include <stdlib.h>

#include "manual_priv.h"

#include "pgweir/base/banned.h"

#define PIECE 65536

static bool read_all(struct buf *text)
{
	size_t count = 1;

	while (count) {
		char *at = buf_reserve(text, PIECE);

		if (!at)
			return false;
		count = fread(at, 1, PIECE, stdin);
		text->count += count;
	}
	return !ferror(stdin);
}

int main(void)
{
	struct buf template = { 0 }, document = { 0 };
	bool ok = read_all(&template);

	console_manual_fill(buf_bytes(&template), &document);
	ok = ok && buf_ok(&document) &&
	     fwrite(document.at, 1, document.count, stdout) == document.count &&
	     fflush(stdout) == 0;
	buf_free(&template);
	buf_free(&document);
	if (!ok)
		fputs("manual: cannot read the template or write the document\n", stderr);
	return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
