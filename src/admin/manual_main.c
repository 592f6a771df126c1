/* SPDX-License-Identifier: ISC */
/*
 * Fills a template with the lists of settings and of the console: `manual <template >document`.
 * Built and run by make, not installed.
 */
#include <stdio.h>
#include <stdlib.h>

#include "admin_priv.h"

int main(void)
{
	struct buf text = { 0 }, made = { 0 };
	bool ok = !buf_read_file(&text, "/dev/stdin");

	if (ok)
		admin_manual_fill(buf_bytes(&text), &made);
	ok = ok && buf_ok(&made) && fwrite(made.at, 1, made.count, stdout) == made.count &&
	     fflush(stdout) == 0;
	buf_free(&text);
	buf_free(&made);
	if (!ok)
		fprintf(stderr, "manual: cannot read the input or write the output\n");
	return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
