/* SPDX-License-Identifier: ISC */
/*
 * The list of errors and warnings of a configuration.
 */
#include "pgweir/config/problems.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "pgweir/base/buf.h"

#define PROBLEM_TEXT_MAX 2048

const char *source_pos_text(struct source_pos pos, char out[SOURCE_POS_SIZE])
{
	if (!pos.file)
		return pos.line == SOURCE_SET ? "SET" : "default";
	snprintf(out, SOURCE_POS_SIZE, pos.line > 0 ? "%s:%d" : "%s", pos.file, pos.line);
	return out;
}

bool problem_list_add(struct problem_list *list, struct source_pos pos, const char *format, ...)
{
	struct buf text = { .limit = PROBLEM_TEXT_MAX };
	char where[SOURCE_POS_SIZE];
	va_list args;

	if (pos.file)
		buf_printf(&text, "%s: ", source_pos_text(pos, where));
	va_start(args, format);
	buf_vprintf(&text, format, args);
	va_end(args);
	buf_text(&text);
	if (buf_ok(&text) && list->count < CONFIG_PROBLEMS_MAX) {
		list->texts[list->count++] = text.at;
	} else {
		list->dropped_count++;
		buf_free(&text);
	}
	return false;
}

bool problems_first(const struct problems *problems, struct err *err)
{
	return err_set(err, ERR_CONFIG, "%s",
	               problems->errors.count ? problems->errors.texts[0] : "out of memory");
}

static void list_free(struct problem_list *list)
{
	while (list->count)
		free(list->texts[--list->count]);
	list->dropped_count = 0;
}

void problems_done(struct problems *problems)
{
	list_free(&problems->errors);
	list_free(&problems->warnings);
}

/* ---- files ---- */

const char *source_name(struct source_files *files, const char *name)
{
	char **names = files->names;

	if (files->count < SOURCE_FILES_MAX)
		names = realloc(names, (files->count + 1) * sizeof(*names));
	if (!names || files->count == SOURCE_FILES_MAX)
		return NULL;
	files->names = names;
	names[files->count] = strdup(name);
	return names[files->count] ? names[files->count++] : NULL;
}

static const char *add_file(struct source_files *files, const char *path, size_t size,
                            struct problems *problems)
{
	struct source_pos pos = { path, 0 };
	const char *name = NULL;

	if (files->count == SOURCE_FILES_MAX)
		problems_add(problems, pos, "more than %d files", SOURCE_FILES_MAX);
	else if (size > SOURCE_BYTES_MAX - files->byte_count)
		problems_add(problems, pos, "more than %zu MB in all files",
		             SOURCE_BYTES_MAX >> 20);
	else if (!(name = source_name(files, path)))
		problems_add(problems, pos, "no memory");
	files->byte_count += name ? size : 0;
	return name;
}

const char *source_read(struct source_files *files, const char *path, bool may_be_missing,
                        struct buf *text, struct problems *problems)
{
	const char *failed;

	text->limit = SOURCE_BYTES_MAX + BUF_PIECE + 1;
	failed = buf_read_file(text, path);
	if (failed && !(errno == ENOENT && may_be_missing))
		problems_add(problems, (struct source_pos){ path, 0 }, "cannot %s: %s", failed,
		             strerror(errno));
	buf_text(text);
	return failed ? NULL : add_file(files, path, text->count, problems);
}

void source_files_done(struct source_files *files)
{
	for (size_t i = 0; i < files->count; i++)
		free(files->names[i]);
	free(files->names);
	*files = (struct source_files){ 0 };
}
