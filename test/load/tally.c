/* SPDX-License-Identifier: ISC */
/* Counters of one run. */
#include "tally.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#define REPORTS_MAX 20

static const char *const tally_names[TALLY_KINDS] = {
	[TALLY_STATEMENTS] = "statements",
	[TALLY_PREPARED] = "statements prepared",
	[TALLY_ROWS] = "rows checked",
	[TALLY_ERRORS] = "errors expected",
	[TALLY_NOTICES] = "notices expected",
	[TALLY_WRITES] = "rows written",
	[TALLY_DOUBTS] = "rows in doubt",
	[TALLY_CONNECTS] = "connects",
	[TALLY_VANISHED] = "abrupt disconnects",
	[TALLY_CANCELS] = "cancel requests",
	[TALLY_CANCELLED] = "statements cancelled",
	[TALLY_SILENT] = "answers that never came",
	[TALLY_WRONG] = "wrong answers",
};

void tally_add(struct tally *tally, enum tally_kind kind, uint64_t count)
{
	tally->counts[kind] += count;
}

void tally_wrong(struct tally *tally, const char *format, ...)
{
	va_list args;

	tally->counts[TALLY_WRONG]++;
	if (tally->counts[TALLY_WRONG] > REPORTS_MAX)
		return;

	va_start(args, format);
	fputs("load: WRONG: ", stderr);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
}

void tally_print(const struct tally *tally)
{
	for (int kind = 0; kind < TALLY_KINDS; kind++)
		printf("  %-24s %12" PRIu64 "\n", tally_names[kind], tally->counts[kind]);
}
