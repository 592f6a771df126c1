/* SPDX-License-Identifier: ISC */
/*
 * The lines of HBA and ident files, in PostgreSQL's format: fields separated by blanks, each a
 * list of words separated by commas. Supports quotes, comments, continuation by a backslash,
 * @file for the words of another file, and include for its lines.
 */
#ifndef PGWEIR_AUTH_RULEFILE_PRIV_H
#define PGWEIR_AUTH_RULEFILE_PRIV_H

#include "pgweir/base/buf.h"
#include "pgweir/config/problems.h"

#define RULEFILE_DEPTH_MAX 10                 /* depth of nested files */
#define RULEFILE_FILES_MAX 1000               /* files of one load */
#define RULEFILE_BYTES_MAX ((size_t)64 << 20) /* bytes of one load */

struct rule_word {
	const char *text;
	bool is_quoted; /* partly quoted, so it is not a keyword */
	size_t at;      /* for the reader only */
	size_t field;   /* index of its field, from 0 */
};

/* One line with at least one word. Valid only during the call. */
struct rule_line {
	struct source_pos
	    pos; /* of its beginning; the file's name is valid as long as the reader */
	const struct rule_word *words; /* sorted by field */
	size_t word_count, field_count;
};

/* The words of one field. count 0: there is no such field. */
struct rule_field {
	const struct rule_word *words;
	size_t count;
};

struct rule_reader {
	void (*line)(struct rule_reader *reader, const struct rule_line *line);
	struct problems *problems;
	bool may_include;
	/* for the reader only; zero them at the start */
	char **files; /* names of all files, owned: rulefile_done() */
	size_t file_count;
	size_t byte_count;
	int depth;
};

/* Calls reader->line for each line; adds errors to reader->problems. */
void rulefile_read(struct rule_reader *reader, const char *path);
void rulefile_read_bytes(struct rule_reader *reader, struct bytes text, const char *name);

/* Returns field `index` (from 0) of a line. */
struct rule_field rulefile_field(const struct rule_line *line, size_t index);

/* Frees the names of files. To keep them, take `files` and set it to NULL before. */
void rulefile_done(struct rule_reader *reader);
void rulefile_free_names(char **files, size_t count);

#endif
