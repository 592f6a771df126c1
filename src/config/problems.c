/* SPDX-License-Identifier: ISC */
/*
 * The list of errors and warnings of a configuration.
 */
#include "pgweir/config/problems.h"

#include <stdlib.h>
#include <string.h>

#include "pgweir/base/buf.h"

#define PROBLEM_TEXT_MAX 2048

/* Returns `file:line: ` and the text; NULL: no memory. The caller frees it. */
__attribute__((format(printf, 2, 0))) static char *make_text(struct source_pos pos,
                                                             const char *format, va_list args)
{
	struct buf text = { .limit = PROBLEM_TEXT_MAX };

	if (pos.file && pos.line)
		buf_printf(&text, "%s:%d: ", pos.file, pos.line);
	else if (pos.file)
		buf_printf(&text, "%s: ", pos.file);
	buf_vprintf(&text, format, args);
	buf_text(&text);
	if (buf_ok(&text))
		return text.at;
	buf_free(&text);
	return NULL;
}

/* Becomes the owner of `text`, which may be NULL. */
static void file_text(char **texts, size_t *count, size_t *dropped_count, char *text)
{
	if (text && *count < CONFIG_PROBLEMS_MAX) {
		texts[(*count)++] = text;
	} else {
		free(text);
		(*dropped_count)++;
	}
}

bool problems_add(struct problems *problems, struct source_pos pos, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	file_text(problems->texts, &problems->count, &problems->dropped_count,
	          make_text(pos, format, args));
	va_end(args);
	return false;
}

void problems_warn(struct problems *problems, struct source_pos pos, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	file_text(problems->warnings, &problems->warning_count, &problems->dropped_warning_count,
	          make_text(pos, format, args));
	va_end(args);
}

bool problems_add_text(struct problems *problems, const char *text)
{
	file_text(problems->texts, &problems->count, &problems->dropped_count, strdup(text));
	return false;
}

void problems_done(struct problems *problems)
{
	for (size_t i = 0; i < problems->count; i++)
		free(problems->texts[i]);
	for (size_t i = 0; i < problems->warning_count; i++)
		free(problems->warnings[i]);
	*problems = (struct problems){ 0 };
}
