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
	const char *file; /* good as long as the snapshot is; NULL unless FILE */
	int line;
};

/* Of the setting of this name, which must be one. */
struct origin config_origin(const struct config *config, const char *name);

/*
 * The line that gave a setting its value: for problems. None did: the file as a whole; no file
 * at all if it was SET. `name` may be no setting's: then as one without a line.
 */
struct source_pos config_source_pos(const struct config *config, const char *name);

/*
 * The same for words that begin with a setting's name; if no line gave that one its value, the
 * line of the next setting in the words that has one.
 */
struct source_pos config_source_pos_of_text(const struct config *config, const char *text);

#endif
