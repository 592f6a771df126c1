/* SPDX-License-Identifier: ISC */
/*
 * A configuration that a test has as a text.
 */
#ifndef PGWEIR_TEST_CONFIG_TEXT_H
#define PGWEIR_TEST_CONFIG_TEXT_H

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "pgweir/config/config.h"

/* config_load() of a file with this text, which is there during the call. It gets this name. */
static inline const struct config *config_parse(struct bytes text, const char *name,
                                                struct problems *problems)
{
	char folder[] = "/tmp/pgweir-text-XXXXXX";
	int before = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC), file;
	const struct config *config = NULL;

	if (before < 0 || !mkdtemp(folder) || chdir(folder) != 0)
		abort();
	file = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	if (file < 0 || write(file, text.at, text.count) != (ssize_t)text.count)
		abort();
	close(file);
	config = config_load(name, problems);
	unlink(name);
	if (fchdir(before) != 0 || rmdir(folder) != 0)
		abort();
	close(before);
	return config;
}

#endif
