/* SPDX-License-Identifier: ISC */
/*
 * A configuration that a test has as a text.
 */
#ifndef PGWEIR_TEST_CONFIG_TEXT_H
#define PGWEIR_TEST_CONFIG_TEXT_H

#include "pgweir/config/config.h"

#include "text_files.h"

/* config_load() of a file with this text, which is there during the call. It gets this name. */
static inline const struct config *config_parse(struct bytes text, const char *name,
                                                struct problems *problems)
{
	struct text_files files;
	const struct config *config;

	text_files_begin(&files);
	text_files_add(&files, name, text);
	config = config_load(name, problems);
	text_files_end(&files);
	return config;
}

#endif
