/* SPDX-License-Identifier: ISC */
/*
 * The lines of HBA and ident files, as PostgreSQL writes them: fields between
 * blanks, each a list of words between commas; quotes, comments, lines that go on
 * after a backslash; @file for words and include for lines of another file.
 */
#ifndef PGWEIR_AUTH_RULEFILE_PRIV_H
#define PGWEIR_AUTH_RULEFILE_PRIV_H

#include "pgweir/base/buf.h"
#include "pgweir/config/problems.h"

#define RULEFILE_DEPTH_MAX 10                 /* files within files */
#define RULEFILE_FILES_MAX 1000               /* files of one load */
#define RULEFILE_BYTES_MAX ((size_t)64 << 20) /* bytes of one load */

struct rule_word {
	const char *text;
	bool is_quoted; /* some of it stood in quotes: it is no keyword */
	size_t at;      /* the reader's own */
	size_t field;   /* which field it belongs to, from 0 */
};

/* One line with at least one word; good during the call only. */
struct rule_line {
	struct source_pos
	    place; /* of its begin; the file's name is good as long as the reader is */
	const struct rule_word *words; /* field by field */
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
	/* the reader's own: start with 0 */
	char **files; /* names of all files, owned: rulefile_done() */
	size_t file_count;
	size_t byte_count;
	int depth;
};

/* Feeds all lines to reader->line; what is wrong goes to reader->problems. */
void rulefile_read(struct rule_reader *reader, const char *path);
void rulefile_read_bytes(struct rule_reader *reader, struct bytes text, const char *name);

struct rule_field rulefile_field(const struct rule_line *line, size_t index);

/* Frees the names of files: who keeps them takes `files` and leaves NULL. */
void rulefile_done(struct rule_reader *reader);
void rulefile_free_names(char **files, size_t count);

#endif
