/* SPDX-License-Identifier: ISC */
/*
 * auth/rulefile.c: lines, fields and words; included files.
 */
#include "../../../src/auth/hba_priv.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../lib/text_files.h"
#include "../unit.h"

/* Lines as <line:word,word|word>; a quoted word is preceded by '. */
struct listing {
	struct rule_reader reader;
	struct buf out;
};

static void list_line(struct rule_reader *reader, const struct rule_line *line)
{
	struct buf *out = &((struct listing *)reader)->out;

	buf_printf(out, "<%d:", line->pos.line);
	for (size_t i = 0; i < line->word_count; i++) {
		if (i)
			buf_add_byte(out,
			             line->words[i].field == line->words[i - 1].field ? ',' : '|');
		buf_printf(out, "%s%s", line->words[i].is_quoted ? "'" : "", line->words[i].text);
	}
	buf_add_text(out, ">");
	ck_assert_uint_eq(line->words[line->word_count - 1].field + 1, line->field_count);
}

static void add_problems(struct buf *out, struct problems *problems)
{
	for (size_t i = 0; i < problems->errors.count; i++)
		buf_printf(out, "!%s", problems->errors.texts[i]);
	problems_done(problems);
}

static const struct {
	const char *says;
	struct bytes text;
	const char *found;
} cases[] = {
#define TEXT(text)                       \
	{                                \
		(text), sizeof(text) - 1 \
	}
	{ "nothing", TEXT(""), "" },
	{ "blank lines and comments", TEXT("\n  \n# x\n \t# y\r\n"), "" },
	{ "one word", TEXT("a"), "<1:a>" },
	{ "fields", TEXT("a  b\tc\r\n"), "<1:a|b|c>" },
	{ "lists", TEXT("a,b c, d ,e f"), "<1:a,b|c,d,e|f>" },
	{ "commas at odd places", TEXT(",a,,b, c,\n,\n"), "<1:a,b,c>" },
	{ "a comment behind", TEXT("a b#c d\ne"), "<1:a|b><2:e>" },
	{ "quotes", TEXT("\"a b\" \"c,d\" \"#\" e"), "<1:'a b|'c,d|'#|e>" },
	{ "a quote within quotes", TEXT("\"a\"\"b\""), "<1:'a\"b>" },
	{ "quotes within a word", TEXT("a\"b c\"d"), "<1:'ab cd>" },
	{ "an empty word", TEXT("\"\" a"), "<1:'|a>" },
	{ "a quote without an end", TEXT("a \"b\nc"), "<2:c>!f:1: a quote has no end" },
	{ "a line that goes on", TEXT("a \\\nb\nc"), "<1:a|b><3:c>" },
	{ "with Windows' line ends", TEXT("a \\\r\nb\r\nc"), "<1:a|b><3:c>" },
	{ "a backslash elsewhere", TEXT("a\\b \\ c"), "<1:a\\b|\\|c>" },
	{ "a backslash at the end", TEXT("a\\"), "<1:a\\>" },
	{ "a zero byte", TEXT("a\0b"), "!f: a zero byte: this is not a text file" },
	{ "@ alone", TEXT("@ a"), "<1:@|a>" },
	{ "@ in quotes", TEXT("\"@x\""), "<1:'@x>" },
	{ "include of nothing", TEXT("include"), "!f:1: an include names one file or directory" },
	{ "include of a list", TEXT("include a,b"),
	  "!f:1: an include names one file or directory" },
	{ "include of two", TEXT("include_dir a b"),
	  "!f:1: an include names one file or directory" },
	{ "include in quotes is a word", TEXT("\"include\" x"), "<1:'include|x>" },
	{ "all that is wrong", TEXT("\"a\nb\n\"c"),
	  "<2:b>!f:1: a quote has no end!f:3: a quote has no end" },
};

static void list(struct bytes text, struct buf *out)
{
	struct text_files at;
	struct problems problems = { 0 };
	struct listing listing = { .reader = { .line = list_line, .problems = &problems } };

	text_files_begin(&at);
	text_files_add(&at, "f", text);
	rulefile_read(&listing.reader, "f");
	text_files_end(&at);
	*out = listing.out;
	add_problems(out, &problems);
	source_files_done(&listing.reader.files);
}

START_TEST(lines)
{
	struct buf found;

	list(cases[_i].text, &found);
	ck_assert_msg(strcmp(buf_text(&found), cases[_i].found) == 0, "%s: %s", cases[_i].says,
	              buf_text(&found));
	buf_free(&found);
}
END_TEST

/* At every cut, the file is parsed without reading after its end. */
START_TEST(every_cut)
{
	static const char text[] = "a,\"b \"\"c\" d \\\r\n@e,f # g\ninclude h\n\"i\" j";

	for (size_t count = 0; count < sizeof(text); count++) {
		char *copy = malloc(count + 1);
		struct buf found;

		memcpy(copy, text, count);
		list(bytes_of(copy, count), &found);
		buf_free(&found);
		free(copy);
	}
}
END_TEST

/* ---- files ---- */

static char folder[] = "/tmp/pgweir-rules-XXXXXX";

static const char *path_of(const char *name)
{
	static char path[200];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return path;
}

static void put(const char *name, const char *text)
{
	FILE *file = fopen(path_of(name), "w");

	ck_assert_ptr_nonnull(file);
	fputs(text, file);
	fclose(file);
}

static const struct {
	const char *says, *main, *found; /* found: with F for the directory */
} files[] = {
	{ "words of a file", "a @words b", "<1:a|x,y,z,'all|b>" },
	{ "in a list", "a p,@words,q", "<1:a|p,x,y,z,'all,q>" },
	{ "an empty file of words", "a @empty b\nc",
	  "<2:c>!F/main:1: a file of names has none in it" },
	{ "an empty one in a list", "p,@empty,q", "<1:p,q>" },
	{ "a quote without an end in it", "a @broken", "!F/broken:2: a quote has no end" },
	{ "a missing file of words", "a @nowhere",
	  "!F/nowhere: cannot open: No such file or directory"
	  "!F/main:1: a file of names has none in it" },
	{ "a circle of words", "@circle b", "!F/circle:1: too many files within each other" },
	{ "lines of a file", "a\ninclude lines\nb", "<1:a><1:one|two><2:three><3:b>" },
	{ "lines that are missing", "include nowhere",
	  "!F/nowhere: cannot open: No such file or directory" },
	{ "lines that may be missing", "include_if_exists nowhere\ninclude_if_exists lines",
	  "<1:one|two><2:three>" },
	{ "a directory", "include_dir more.d", "<1:first><1:second>" },
	{ "a missing directory", "include_dir nowhere",
	  "!F/main:1: cannot read F/nowhere: No such file or directory" },
	{ "a directory as a file", "include more.d", "!F/more.d: cannot read: Is a directory" },
	{ "a circle of lines", "include self", "!F/self:1: too many files within each other" },
};

static void make_files(void)
{
	memset(folder + strlen(folder) - 6, 'X', 6); /* the one before has put its name there */
	ck_assert_ptr_nonnull(mkdtemp(folder));
	ck_assert_int_eq(mkdir(path_of("more.d"), 0700), 0);
	put("words", "x, y # not this\n@inner\n");
	put("inner", "z \"all\"\n");
	put("empty", "# nothing\n\n");
	put("broken", "x\n\"y\n");
	put("circle", "@circle");
	put("lines", "one two\nthree\n");
	put("self", "include self");
	put("more.d/2.conf", "second");
	put("more.d/1.conf", "first");
	put("more.d/.3.conf", "hidden");
	put("more.d/4.conf~", "backup");
}

static void drop_files(void)
{
	static const char *const names[] = { "words",          "inner",          "empty",
		                             "broken",         "circle",         "lines",
		                             "self",           "more.d/2.conf",  "more.d/1.conf",
		                             "more.d/.3.conf", "more.d/4.conf~", "main" };

	for (size_t i = 0; i < COUNT_OF(names); i++)
		unlink(path_of(names[i]));
	rmdir(path_of("more.d"));
	rmdir(folder);
}

/* Replaces the directory by F. */
static void shorten(struct buf *out, const char *text)
{
	for (const char *at; (at = strstr(text, folder)); text = at + strlen(folder)) {
		buf_add(out, text, (size_t)(at - text));
		buf_add_byte(out, 'F');
	}
	buf_add_text(out, text);
}

START_TEST(files_within_files)
{
	struct problems problems = { 0 };
	struct listing listing = { .reader = { .line = list_line, .problems = &problems } };
	struct buf found = { 0 };

	make_files();
	put("main", files[_i].main);
	rulefile_read(&listing.reader, path_of("main"));
	add_problems(&listing.out, &problems);
	shorten(&found, buf_text(&listing.out));
	drop_files();
	ck_assert_msg(strcmp(buf_text(&found), files[_i].found) == 0, "%s: %s", files[_i].says,
	              buf_text(&found));
	source_files_done(&listing.reader.files);
	buf_free(&listing.out);
	buf_free(&found);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("rulefile");
	TCase *tcase = tcase_create("rulefile");

	tcase_add_loop_test(tcase, lines, 0, (int)COUNT_OF(cases));
	tcase_add_test(tcase, every_cut);
	tcase_add_loop_test(tcase, files_within_files, 0, (int)COUNT_OF(files));
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
