/* SPDX-License-Identifier: ISC */
/*
 * The list of what is wrong with a configuration.
 */
#include "pgweir/config/problems.h"

#include <stdlib.h>
#include <string.h>

#include "pgweir/base/buf.h"

#include "pgweir/base/banned.h"

#define PROBLEM_TEXT_MAX 2048

bool problems_add(struct problems *problems, struct place place, const char *format, ...)
{
	struct buf text = { .limit = PROBLEM_TEXT_MAX };
	va_list args;

	if (problems->count == CONFIG_PROBLEMS_MAX) {
		problems->dropped_count++;
		return false;
	}
	if (place.line)
		buf_printf(&text, "%s:%d: ", place.file, place.line);
	else
		buf_printf(&text, "%s: ", place.file);
	va_start(args, format);
	buf_vprintf(&text, format, args);
	va_end(args);
	buf_text(&text);
	if (buf_ok(&text))
		problems->texts[problems->count++] = text.at; /* ours from here on */
	else
		problems->dropped_count++;
	if (!buf_ok(&text))
		buf_free(&text);
	return false;
}

bool problems_add_text(struct problems *problems, const char *text)
{
	char *copy = problems->count < CONFIG_PROBLEMS_MAX ? strdup(text) : NULL;

	if (copy)
		problems->texts[problems->count++] = copy;
	else
		problems->dropped_count++;
	return false;
}

void problems_done(struct problems *problems)
{
	for (size_t i = 0; i < problems->count; i++)
		free(problems->texts[i]);
	*problems = (struct problems){ 0 };
}
