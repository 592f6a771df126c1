/* SPDX-License-Identifier: ISC */
/*
 * The lines of an ini file: sections, `name = value`, comments, %include.
 */
#ifndef PGWEIR_CONFIG_INI_PRIV_H
#define PGWEIR_CONFIG_INI_PRIV_H

#include "pgweir/base/bytes.h"
#include "pgweir/config/problems.h"

#define INI_DEPTH_MAX 10                 /* files within files */
#define INI_FILES_MAX 1000               /* files of one load */
#define INI_BYTES_MAX ((size_t)64 << 20) /* bytes of one load */

enum ini_section {
	INI_OUTSIDE,  /* before the first header */
	INI_SETTINGS, /* [pgbouncer], [pgweir] */
	INI_DATABASES,
	INI_USERS,
	INI_PEERS,
	INI_SKIPPED /* not understood, complained of: its lines say nothing */
};

/* One `name = value`, unquoted and trimmed; good during the call only. */
struct ini_pair {
	enum ini_section section;
	struct source_pos place;
	const char *name;
	char *value; /* the rest of the line; may be written into */
};

struct ini_reader {
	void (*pair)(struct ini_reader *reader, const struct ini_pair *pair);
	struct problems *problems;
	bool may_include;
	/* the reader's own: start with 0 */
	enum ini_section section;
	bool has_settings; /* a [pgbouncer] was seen */
	int depth;
	size_t file_count;
	size_t byte_count;
};

/* Feeds all pairs to reader->pair; what is wrong goes to reader->problems. */
void ini_read_file(struct ini_reader *reader, const char *path);
void ini_read_bytes(struct ini_reader *reader, struct bytes text, const char *name);

#endif
