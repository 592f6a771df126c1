/* SPDX-License-Identifier: ISC */
/*
 * Describes settings and keys from their tables: for --dump-settings, in the lists of the manual
 * pages, and in the sample ini file with every setting.
 */
#include "pgweir/config/settings.h"

#include <stdio.h>
#include <string.h>

#include "config_priv.h"

#define DUMP_WIDTH 92
#define EXAMPLE_WIDTH 90

/* How one of these lists all settings, by group. */
struct style {
	const char *between, *before, *after; /* groups; the name of a group */
	void (*add)(struct buf *out, const struct setting *setting);
};

static void add_settings(struct buf *out, const struct style *style)
{
	static const char *const groups[SETTING_GROUPS] = {
		[GROUP_GENERIC] = "Generic",
		[GROUP_AUTH] = "Authentication",
		[GROUP_LOG] = "Logging",
		[GROUP_CONSOLE] = "Console",
		[GROUP_CHECKS] = "Connection checks",
		[GROUP_TIMEOUTS] = "Time limits for clients",
		[GROUP_TLS] = "TLS",
		[GROUP_NETWORK] = "Network",
	};

	for (int group = 0; group < SETTING_GROUPS; group++) {
		buf_printf(out, "%s%s%s%s", group ? style->between : "", style->before,
		           groups[group], style->after);
		for (size_t i = 0; i < settings_count; i++) {
			if (settings[i].group == (enum setting_group)group)
				style->add(out, &settings[i]);
		}
	}
}

/* Adds what its values are: "one of a, b", "duration in seconds, or with us, ...". */
static void add_kind(struct buf *out, const struct setting *setting)
{
	buf_add_text(out, setting_types[setting->type].kind);
	if (setting->type == SETTING_TIME)
		buf_printf(out, " %s, or with us, ms, s, min, h, d",
		           setting->unit == 1             ? "microseconds"
		           : setting->unit == USEC_PER_MS ? "milliseconds"
		                                          : "seconds");
	if (setting->word)
		buf_printf(out, " or %s", setting->word);
	if (setting->splits_at_blanks)
		buf_add_text(out, " or blanks");
	for (size_t i = 0; setting->words && setting->words[i]; i++)
		buf_printf(out, "%s%s", i ? ", " : " ", setting->words[i]);
}

static const char *default_of(const struct setting *setting)
{
	if (!setting->initial)
		return "not set";
	return *setting->initial ? setting->initial : "empty";
}

/* ---- --dump-settings ---- */

static void add_range(struct buf *out, const struct setting *setting)
{
	char least[32], most[32];

	field_number_text(setting, setting->min, least, sizeof(least));
	field_number_text(setting, setting->max, most, sizeof(most));
	buf_printf(out, "    range: %s %s%s\n", least, setting->max ? "to " : "or more",
	           setting->max ? most : "");
}

static void dump_one(struct buf *out, const struct setting *setting)
{
	buf_printf(out, "%s\n", setting->name);
	buf_add_wrapped(out, setting->help, DUMP_WIDTH, "    ");
	buf_add_text(out, "    kind: ");
	add_kind(out, setting);
	buf_add_byte(out, '\n');
	if (setting_types[setting->type].is_number)
		add_range(out, setting);
	buf_printf(out, "    default: %s\n    changes with: %s\n", default_of(setting),
	           setting->reload == RELOAD_BOOT ? "restart" : "RELOAD or SET");
	if (setting->since)
		buf_printf(out, "    since: %s\n", setting->since);
}

bool dump_setting(const char *name, struct buf *out, struct err *err)
{
	const struct setting *setting = setting_find(name);

	if (!setting)
		return setting_refuse(name, err);
	dump_one(out, setting);
	return true;
}

static void dump_next(struct buf *out, const struct setting *setting)
{
	buf_add_byte(out, '\n');
	dump_one(out, setting);
}

void dump_settings(struct buf *out)
{
	add_settings(out, &(struct style){ "\n", "# ", "\n", dump_next });
}

/* ---- manual pages ---- */

/* Adds a text for roff, escaped so that no part of it is a request or an escape. */
static void roff_text(struct buf *out, const char *text)
{
	if (*text == '.' || *text == '\'')
		buf_add_text(out, "\\&");
	for (; *text; text++) {
		if (*text == '\\')
			buf_add_text(out, "\\e");
		else if (*text == '-')
			buf_add_text(out, "\\-");
		else
			buf_add_byte(out, *text);
	}
}

static void roff_head(struct buf *out, const struct setting *setting)
{
	buf_printf(out, ".TP\n.B %s\n", setting->name);
	roff_text(out, setting->help);
	buf_add_byte(out, '\n');
}

static void roff_default(struct buf *out, const struct setting *setting)
{
	buf_add_text(out, ".br\nDefault: ");
	roff_text(out, default_of(setting));
	buf_add_text(out, ".\n");
}

static void roff_setting(struct buf *out, const struct setting *setting)
{
	struct buf kind = { 0 };

	roff_head(out, setting);
	add_kind(&kind, setting);
	buf_add_text(out, ".br\nValue: ");
	roff_text(out, buf_text(&kind));
	buf_add_text(out, ".\n");
	buf_free(&kind);
	roff_default(out, setting);
	if (setting->reload == RELOAD_BOOT)
		buf_add_text(out, "Changes take effect only after a restart.\n");
	if (setting->since)
		buf_printf(out, "Since pgweir %s.\n", setting->since);
}

/* ---- the sample file ---- */

static void example_comment(struct buf *out, const char *text)
{
	buf_add_wrapped(out, text, EXAMPLE_WIDTH, ";; ");
}

static void example_setting(struct buf *out, const struct setting *setting)
{
	example_comment(out, setting->help);
	if (setting->reload == RELOAD_BOOT)
		example_comment(out, "Changes take effect only after a restart.");
	buf_printf(out, ";%s =", setting->name);
	if (setting->initial && *setting->initial)
		buf_printf(out, " %s", setting->initial);
	buf_add_text(out, "\n\n");
}

/* ---- marks ---- */

/* Whether the line is a mark of ours. */
static bool add_own(struct bytes line, struct buf *out)
{
	char mark[32];

	if (bytes_are(line, "@settings@")) {
		add_settings(out, &(struct style){ "", ".SS ", "\n", roff_setting });
		return true;
	}
	if (bytes_are(line, "@example@")) {
		add_settings(out, &(struct style){ "", ";;;\n;;; ", "\n;;;\n\n", example_setting });
		return true;
	}
	for (const struct entry_kind *kind = entry_kinds; kind < entry_kinds + ENTRY_KINDS;
	     kind++) {
		snprintf(mark, sizeof(mark), "@%s_keys@", kind->what);
		if (!bytes_are(line, mark))
			continue;
		for (size_t i = 0; i < kind->key_count; i++) {
			roff_head(out, &kind->keys[i]);
			if (kind->keys[i].initial)
				roff_default(out, &kind->keys[i]);
		}
		return true;
	}
	return false;
}

void manual_fill(const struct manual_mark *more, size_t more_count, struct bytes text,
                 struct buf *made)
{
	while (text.count) {
		const char *end = memchr(text.at, '\n', text.count);
		struct bytes line = bytes_of(text.at, end ? (size_t)(end - text.at) : text.count);
		size_t whole = line.count + (end != NULL), i = 0;

		while (i < more_count && !bytes_are(line, more[i].line))
			i++;
		if (i < more_count)
			more[i].add(made);
		else if (!add_own(line, made))
			buf_add(made, line.at, whole);
		text = bytes_skip(text, whole);
	}
}
