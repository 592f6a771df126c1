/* SPDX-License-Identifier: ISC */
/*
 * Where a value comes from: a line of a file, SET, or nowhere (its default).
 */
#ifndef PGWEIR_CONFIG_ORIGIN_H
#define PGWEIR_CONFIG_ORIGIN_H

#include "pgweir/config/config.h"

enum origin_kind { ORIGIN_DEFAULT, ORIGIN_FILE, ORIGIN_SET };

struct origin {
	enum origin_kind kind;
	const char *file; /* valid as long as the snapshot; NULL unless FILE */
	int line;
};

/* Returns the origin of a setting, which must exist. */
struct origin config_origin(const struct config *config, const char *name);

/*
 * Returns the line that set this setting, for problems. If there is none: the file as a whole;
 * no file if it was SET. If `name` is not a setting: the file as a whole.
 */
struct source_pos config_source_pos(const struct config *config, const char *name);

/*
 * The same for a text that begins with the name of a setting. If no line set it, uses the next
 * setting in the text that was set by a line.
 */
struct source_pos config_source_pos_of_text(const struct config *config, const char *text);

#endif
