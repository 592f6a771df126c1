/* SPDX-License-Identifier: ISC */
/*
 * Files that a test has as texts, in a folder of their own: the current one until they end.
 */
#ifndef PGWEIR_TEST_TEXT_FILES_H
#define PGWEIR_TEST_TEXT_FILES_H

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "pgweir/base/bytes.h"

struct text_files {
	char folder[32];
	int before; /* the folder that was the current one */
	const char *names[2];
	size_t count;
};

static inline void text_files_begin(struct text_files *files)
{
	*files = (struct text_files){ .folder = "/tmp/pgweir-text-XXXXXX" };
	files->before = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (files->before < 0 || !mkdtemp(files->folder) || chdir(files->folder) != 0)
		abort();
}

static inline void text_files_add(struct text_files *files, const char *name, struct bytes text)
{
	int file = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	if (file < 0 || write(file, text.at, text.count) != (ssize_t)text.count)
		abort();
	close(file);
	files->names[files->count++] = name;
}

static inline void text_files_end(struct text_files *files)
{
	while (files->count)
		unlink(files->names[--files->count]);
	if (fchdir(files->before) != 0 || rmdir(files->folder) != 0)
		abort();
	close(files->before);
}

#endif
