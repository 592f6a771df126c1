/* SPDX-License-Identifier: ISC */
/*
 * The list of errors and warnings of a configuration.
 */
#include "pgweir/config/problems.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "pgweir/base/buf.h"

#define PROBLEM_TEXT_MAX 2048

const char *source_pos_text(struct source_pos pos, char out[SOURCE_POS_SIZE])
{
	snprintf(out, SOURCE_POS_SIZE, pos.line > 0 ? "%s:%d" : "%s", pos.file ? pos.file : "?",
	         pos.line);
	return out;
}

/* Returns `file:line: ` and the text; NULL: no memory. The caller frees it. */
__attribute__((format(printf, 2, 0))) static char *make_text(struct source_pos pos,
                                                             const char *format, va_list args)
{
	struct buf text = { .limit = PROBLEM_TEXT_MAX };
	char where[SOURCE_POS_SIZE];

	if (pos.file)
		buf_printf(&text, "%s: ", source_pos_text(pos, where));
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

/* ---- files ---- */

static const char *add_file(struct source_files *files, const char *path, size_t size,
                            struct problems *problems)
{
	struct source_pos pos = { path, 0 };
	char **names = files->names;

	if (files->count == SOURCE_FILES_MAX) {
		problems_add(problems, pos, "more than %d files", SOURCE_FILES_MAX);
		return NULL;
	}
	if (size > SOURCE_BYTES_MAX - files->byte_count) {
		problems_add(problems, pos, "more than %zu MB in all files",
		             SOURCE_BYTES_MAX >> 20);
		return NULL;
	}
	names = realloc(names, (files->count + 1) * sizeof(*names));
	if (names)
		files->names = names;
	if (!names || !(names[files->count] = strdup(path))) {
		problems_add(problems, pos, "no memory");
		return NULL;
	}
	files->byte_count += size;
	return names[files->count++];
}

const char *source_copy(struct source_files *files, const char *name, struct bytes from,
                        struct buf *text, struct problems *problems)
{
	buf_add(text, from.at, from.count);
	buf_text(text);
	if (buf_ok(text))
		return add_file(files, name, from.count, problems);
	problems_add(problems, (struct source_pos){ name, 0 }, "no memory");
	return NULL;
}

const char *source_read(struct source_files *files, const char *path, bool may_be_missing,
                        struct buf *text, struct problems *problems)
{
	struct source_pos pos = { path, 0 };
	FILE *file = fopen(path, "re");
	bool is_read;

	text->limit = SOURCE_BYTES_MAX + BUF_PIECE + 1;
	if (!file && !(errno == ENOENT && may_be_missing))
		problems_add(problems, pos, "cannot open: %s", strerror(errno));
	if (!file)
		return NULL;
	is_read = buf_read_file(text, file);
	if (!is_read)
		problems_add(problems, pos, "cannot read: %s", strerror(errno));
	fclose(file);
	buf_text(text);
	return is_read ? add_file(files, path, text->count, problems) : NULL;
}

void source_files_done(struct source_files *files)
{
	for (size_t i = 0; i < files->count; i++)
		free(files->names[i]);
	free(files->names);
	*files = (struct source_files){ 0 };
}
