/* SPDX-License-Identifier: ISC */
/*
 * Reads the lines of ini files: sections, `name = value`, comments, %include.
 */
#ifndef PGWEIR_CONFIG_INI_PRIV_H
#define PGWEIR_CONFIG_INI_PRIV_H

#include "pgweir/base/bytes.h"
#include "pgweir/config/problems.h"

#define INI_DEPTH_MAX 10                 /* depth of nested files */
#define INI_FILES_MAX 1000               /* files of one load */
#define INI_BYTES_MAX ((size_t)64 << 20) /* bytes of one load */

enum ini_section {
	INI_OUTSIDE,  /* before the first section header */
	INI_SETTINGS, /* [pgbouncer], [pgweir] */
	INI_DATABASES,
	INI_USERS,
	INI_PEERS,
	INI_SKIPPED /* invalid header, which has been reported: lines are ignored */
};

/* One `name = value`, unquoted and trimmed. Valid only during the call. */
struct ini_pair {
	enum ini_section section;
	struct source_pos pos;
	const char *name;
	char *value; /* the rest of the line; may be modified */
};

struct ini_reader {
	void (*pair)(struct ini_reader *reader, const struct ini_pair *pair);
	struct problems *problems;
	bool may_include;
	/* for the reader only; zero them at the start */
	enum ini_section section;
	bool has_settings; /* a section [pgbouncer] or [pgweir] was found */
	int depth;
	size_t file_count;
	size_t byte_count;
};

/* Calls reader->pair for each pair; adds errors to reader->problems. */
void ini_read_file(struct ini_reader *reader, const char *path);
void ini_read_bytes(struct ini_reader *reader, struct bytes text, const char *name);

#endif
