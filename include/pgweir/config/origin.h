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

#endif
