/* SPDX-License-Identifier: ISC */
/*
 * Splits HBA and ident files into lines, fields and words.
 *
 *   host  all,"odd, name"  @admins  10.0.0.0/8  md5   # the words of a line
 *   include other.conf                                # the lines of another file
 *
 * Hard here: an error must not hide later ones, so reading continues with the next line.
 */
#include "hba_priv.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

struct words {
	struct rule_reader *reader;
	struct source_pos pos;
	struct buf text; /* the words, each with a terminating zero */
	struct rule_word *at;
	size_t count, capacity, field_count;
	bool is_bad; /* an error was reported: ignore the line */
};

static void read_text(struct rule_reader *reader, char *text, size_t count, const char *name,
                      struct words *into);

/* ---- words ---- */

static void complain(struct words *words, const char *reason)
{
	if (!words->is_bad)
		problems_add(words->reader->problems, words->pos, "%s", reason);
	words->is_bad = true;
}

static void add_word(struct words *words, size_t at, bool is_quoted)
{
	struct rule_word *grown =
	    array_room(words->at, words->count, &words->capacity, sizeof(*grown));

	if (!grown) {
		complain(words, "no memory");
		return;
	}
	words->at = grown;
	words->at[words->count++] =
	    (struct rule_word){ .is_quoted = is_quoted, .at = at, .field = words->field_count };
}

#define BLANKS " \t\r"

bool rulefile_word(const char **at, const char *ends, struct buf *out, bool *is_quoted)
{
	const char *in = *at;
	bool is_within = false;

	*is_quoted = false;
	for (; *in && (is_within || !strchr(ends, *in)); in++) {
		if (*in != '"') {
			buf_add_byte(out, *in);
			continue;
		}
		if (is_within && in[1] == '"')
			buf_add_byte(out, *++in);
		else
			is_within = !is_within;
		*is_quoted = true;
	}
	*at = in;
	return !is_within;
}

/* Adds the text of the next word to words->text and moves *at past it. false: no more words. */
static bool take_word(struct words *words, const char **at, bool *is_quoted)
{
	*at += strspn(*at, BLANKS ",");
	if (!**at || **at == '#')
		return false;
	if (!rulefile_word(at, BLANKS ",#", &words->text, is_quoted))
		complain(words, "a quote has no end");
	buf_add_byte(&words->text, 0);
	return true;
}

/* ---- included files ---- */

/* into: NULL, or a line to which all words of the file are added. */
static void read_file(struct rule_reader *reader, const char *path, struct words *into,
                      bool may_be_missing)
{
	struct buf text = { 0 };
	const char *name =
	    source_read(&reader->files, path, may_be_missing, &text, reader->problems);

	if (name) {
		reader->files.depth++;
		read_text(reader, text.at, text.count, name, into);
		reader->files.depth--;
	}
	buf_wipe(&text);
}

static int is_rule_file(const struct dirent *entry)
{
	size_t count = strlen(entry->d_name);

	return entry->d_name[0] != '.' && count > 5 &&
	       strcmp(entry->d_name + count - 5, ".conf") == 0;
}

static int by_bytes(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

/* Reads all files of a directory whose names end in .conf, sorted by name as bytes. */
static void read_dir(struct words *words, const char *path)
{
	struct dirent **entries = NULL;
	int count = scandir(path, &entries, is_rule_file, by_bytes);

	if (count < 0)
		problems_add(words->reader->problems, words->pos, "cannot read %s: %s", path,
		             strerror(errno));
	for (int i = 0; i < count; i++) {
		struct buf file = { 0 };

		buf_printf(&file, "%s/%s", path, entries[i]->d_name);
		read_file(words->reader, buf_text(&file), NULL, false);
		buf_free(&file);
		free(entries[i]);
	}
	free(entries);
}

/*
 * Reads what a line names: a file, whose words are added to the line `into` unless that is NULL, or
 * all of a directory.
 */
static void include(struct words *words, const char *kind, const char *name, struct words *into)
{
	const char *from = words->pos.file, *slash = strrchr(from, '/');
	struct buf path = { 0 };

	if (*name != '/' && slash)
		buf_add(&path, from, (size_t)(slash - from) + 1);
	buf_add_text(&path, name);
	if (words->reader->files.depth >= SOURCE_DEPTH_MAX)
		complain(words, "too many files within each other");
	if (!words->is_bad && strcmp(kind, "include_dir") == 0)
		read_dir(words, buf_text(&path));
	else if (!words->is_bad)
		read_file(words->reader, buf_text(&path), into,
		          strcmp(kind, "include_if_exists") == 0);
	buf_free(&path);
}

/* ---- lines ---- */

static void end_field(struct words *words, size_t first)
{
	if (words->count == first)
		complain(words, "a file of names has none in it");
	words->field_count++;
}

/* Adds all words of a line; is_list: as one field. */
static void take_words(struct words *words, const char *line, bool is_list)
{
	size_t first = words->count, at = words->text.count;
	bool is_quoted, is_open = false;

	for (; take_word(words, &line, &is_quoted); at = words->text.count) {
		if (!buf_ok(&words->text)) {
			complain(words, "the line is too long");
			return;
		}
		if (!is_quoted && words->text.at[at] == '@' && words->text.at[at + 1]) {
			words->text.count = at; /* the words of that file are in its place */
			include(words, "@", words->text.at + at + 1, words);
		} else {
			add_word(words, at, is_quoted);
		}
		line += strspn(line, BLANKS);
		is_open = *line == ',';
		if (is_list || is_open)
			continue;
		end_field(words, first);
		first = words->count;
	}
	if (!is_list && is_open)
		end_field(words, first);
}

/* Reads the files that an include line names. false: it is not an include line. */
static bool take_include(struct words *words)
{
	const char *kind = words->at[0].text;

	if (words->at[0].is_quoted ||
	    (strcmp(kind, "include") != 0 && strcmp(kind, "include_if_exists") != 0 &&
	     strcmp(kind, "include_dir") != 0))
		return false;
	if (words->count == 2 && words->field_count == 2)
		include(words, kind, words->at[1].text, NULL);
	else
		complain(words, "an include names one file or directory");
	return true;
}

static void read_line(struct rule_reader *reader, struct source_pos pos, char *line)
{
	struct words words = { .reader = reader, .pos = pos, .text.limit = SOURCE_BYTES_MAX };

	take_words(&words, line, false);
	for (size_t i = 0; i < words.count; i++)
		words.at[i].text = words.text.at + words.at[i].at;
	if (words.count && !words.is_bad && !take_include(&words))
		reader->line(reader, &(struct rule_line){ .pos = pos,
		                                          .words = words.at,
		                                          .word_count = words.count,
		                                          .field_count = words.field_count });
	free(words.at);
	buf_wipe(&words.text);
}

/* The end of a line, which a backslash continues in the next one. Modifies the text. */
static char *end_of_line(char *line, char *end, int *line_count)
{
	char *out = line;

	for (char *in = line;; in++) {
		if (in == end || *in == '\n') {
			*line_count += in != end;
			*out = 0;
			return in;
		}
		if (*in == '\\' && in[1 + strspn(in + 1, "\r")] == '\n') {
			(*line_count)++;
			in += 1 + strspn(in + 1, "\r");
		} else {
			*out++ = *in;
		}
	}
}

/* `text` ends with a zero and is modified. */
static void read_text(struct rule_reader *reader, char *text, size_t count, const char *name,
                      struct words *into)
{
	struct source_pos pos = { name, 1 };
	char *line = text, *end = text + count;
	struct source_pos before;

	if (memchr(text, 0, count)) {
		problems_add(reader->problems, (struct source_pos){ name, 0 },
		             "a zero byte: this is not a text file");
		return;
	}
	while (line < end) {
		int line_count = 0;
		char *stop = end_of_line(line, end, &line_count);

		if (into) {
			before = into->pos;
			into->pos = pos;
			take_words(into, line, true);
			into->pos = before;
		} else {
			read_line(reader, pos, line);
		}
		pos.line += line_count;
		line = stop + 1;
	}
}

void rulefile_read(struct rule_reader *reader, const char *path)
{
	read_file(reader, path, NULL, false);
}

/*
 * ---- patterns for names in rules ----
 *
 * Regular expressions are POSIX extended ones, by the C library. They are matched against texts
 * of unauthenticated clients, so none may be slow: back-references are refused, and length and
 * repetitions are limited.
 */

static const struct {
	const char *word;
	enum pattern_kind kind;
} keywords_known[] = {
	{ "all", PATTERN_ALL },
	{ "sameuser", PATTERN_SAME_USER },
	{ "replication", PATTERN_REPLICATION },
};

/* Words that have a meaning in PostgreSQL but cannot be supported here. */
static bool refuse_groups(const struct rule_word *word, unsigned int keywords, struct err *err)
{
	if (*word->text == '+')
		return err_set(
		    err, ERR_CONFIG,
		    "%s: groups are not supported: list the names, or put them into a file "
		    "and write @file",
		    word->text);
	if (keywords & PATTERN_BIT(PATTERN_SAME_USER) &&
	    (strcmp(word->text, "samerole") == 0 || strcmp(word->text, "samegroup") == 0))
		return err_set(err, ERR_CONFIG, "%s: groups are not supported", word->text);
	return true;
}

/* ---- regular expressions ---- */

/* Whether the sign at `at` repeats something that may contain repetitions. */
static bool is_nested(const char *text, const char *at)
{
	return at > text && strchr(")+*?}", at[-1]);
}

/* Returns the maximum of the {..} at `at`. The C library expands {1,} as it does a +. */
static unsigned long repeats_at(const char *text, const char *at)
{
	const char *end = at + strcspn(at, "}");
	unsigned long most = 1;

	for (const char *in = at + 1; in < end; in++) {
		unsigned long number = strtoul(in, NULL, 10);

		if (isdigit((unsigned char)*in) && number > most)
			most = number;
	}
	if (most > PATTERN_REPEATS_MAX)
		return PATTERN_REPEATS_MAX + 1;
	return end[-1] == ',' && is_nested(text, at) ? most + 1 : most;
}

static bool check_regex(const char *text, struct err *err)
{
	unsigned long repeats = 1;

	if (!*text)
		return err_set(err, ERR_CONFIG, "an empty regular expression");
	if (strlen(text) > PATTERN_REGEX_MAX)
		return err_set(err, ERR_CONFIG, "a regular expression longer than %d bytes",
		               PATTERN_REGEX_MAX);
	for (const char *at = text; *at; at++) {
		if (*at == '{')
			repeats *= repeats_at(text, at);
		/*
		 * The C library expands a + to twice its size, and follows a * or ? twice as
		 * often: its time for a long row of * would be exponential.
		 */
		if (strchr("+*?", *at) && is_nested(text, at))
			repeats *= 2;
		if (repeats > PATTERN_REPEATS_MAX)
			return err_set(err, ERR_CONFIG, "/%s repeats too often", text);
		if (*at != '\\' || !at[1])
			continue;
		at++;
		if (*at >= '1' && *at <= '9')
			return err_set(err, ERR_CONFIG, "/%s: back-references are not supported",
			               text);
	}
	return true;
}

static bool compile(struct pattern *pattern, const char *text, struct err *err)
{
	char reason[128];
	int code;

	if (!check_regex(text, err))
		return false;
	pattern->regex = calloc(1, sizeof(*pattern->regex));
	if (!pattern->regex)
		return err_set(err, ERR_MEMORY, "no memory");
	code = regcomp(pattern->regex, text, REG_EXTENDED);
	if (code == 0)
		return true;
	regerror(code, pattern->regex, reason, sizeof(reason));
	free(pattern->regex);
	pattern->regex = NULL;
	return err_set(err, ERR_CONFIG, "/%s: %s", text, reason);
}

/* ---- patterns ---- */

bool pattern_init(struct pattern *pattern, const struct rule_word *word, unsigned int keywords,
                  struct err *err)
{
	*pattern = (struct pattern){ .kind = PATTERN_NAME };
	if (!word->is_quoted && !refuse_groups(word, keywords, err))
		return false;
	pattern->text = strdup(word->text);
	if (!pattern->text)
		return err_set(err, ERR_MEMORY, "no memory");
	for (size_t i = 0; i < sizeof(keywords_known) / sizeof(keywords_known[0]); i++) {
		if (!word->is_quoted && keywords & PATTERN_BIT(keywords_known[i].kind) &&
		    strcmp(word->text, keywords_known[i].word) == 0)
			pattern->kind = keywords_known[i].kind;
	}
	if (*word->text != '/')
		return true;
	pattern->kind = PATTERN_REGEX;
	if (compile(pattern, word->text + 1, err))
		return true;
	pattern_done(pattern);
	return false;
}

void pattern_done(struct pattern *pattern)
{
	if (pattern->regex)
		regfree(pattern->regex);
	free(pattern->regex);
	free(pattern->text);
	*pattern = (struct pattern){ .kind = PATTERN_NAME };
}

bool pattern_matches(const struct pattern *pattern, const char *subject, struct bytes *group)
{
	regmatch_t found[2];

	if (group)
		*group = bytes_of(NULL, 0);
	if (pattern->kind == PATTERN_ALL)
		return true;
	if (pattern->kind == PATTERN_NAME)
		return strcmp(pattern->text, subject) == 0;
	if (pattern->kind != PATTERN_REGEX || strlen(subject) > PATTERN_SUBJECT_MAX ||
	    regexec(pattern->regex, subject, 2, found, 0) != 0)
		return false;
	if (group && pattern->regex->re_nsub && found[1].rm_so >= 0)
		*group =
		    bytes_of(subject + found[1].rm_so, (size_t)(found[1].rm_eo - found[1].rm_so));
	return true;
}
