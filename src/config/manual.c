/* SPDX-License-Identifier: ISC */
/*
 * Generates documentation from the tables: the lists of the manual pages, and the sample ini
 * file with every setting.
 */
#include "pgweir/config/settings.h"

#include "config_priv.h"

#define EXAMPLE_WIDTH 90

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

static void setting_default(struct buf *out, const char *initial)
{
	buf_add_text(out, ".br\nDefault: ");
	if (!initial)
		buf_add_text(out, "not set");
	else if (!*initial)
		buf_add_text(out, "empty");
	else
		roff_text(out, initial);
	buf_add_text(out, ".\n");
}

static void roff_setting(struct buf *out, const struct setting *setting)
{
	struct buf kind = { 0 };

	buf_printf(out, ".TP\n.B %s\n", setting->name);
	roff_text(out, setting->help);
	setting_kind(&kind, setting);
	buf_add_text(out, "\n.br\nValue: ");
	roff_text(out, buf_text(&kind));
	buf_add_text(out, ".\n");
	buf_free(&kind);
	setting_default(out, setting->initial);
	if (setting->reload == RELOAD_BOOT)
		buf_add_text(out, "Changes take effect only after a restart.\n");
	if (setting->since)
		buf_printf(out, "Since pgweir %s.\n", setting->since);
}

static void roff_settings(struct buf *out)
{
	for (int group = 0; group < SETTING_GROUPS; group++) {
		buf_printf(out, ".SS %s\n", setting_group_name((enum setting_group)group));
		for (size_t i = 0; i < settings_count; i++) {
			if (settings[i].group == (enum setting_group)group)
				roff_setting(out, &settings[i]);
		}
	}
}

static void roff_keys(struct buf *out, enum entry_kind_id kind)
{
	for (size_t i = 0; i < entry_kinds[kind].key_count; i++) {
		const struct setting *key = &entry_kinds[kind].keys[i];

		buf_printf(out, ".TP\n.B %s\n", key->name);
		roff_text(out, key->help);
		buf_add_byte(out, '\n');
		if (key->initial)
			setting_default(out, key->initial);
	}
}

static void roff_database_keys(struct buf *out) { roff_keys(out, ENTRY_DATABASE); }

static void roff_user_keys(struct buf *out) { roff_keys(out, ENTRY_USER); }

static void roff_peer_keys(struct buf *out) { roff_keys(out, ENTRY_PEER); }

static void roff_listener_keys(struct buf *out) { roff_keys(out, ENTRY_LISTENER); }

static void roff_application_keys(struct buf *out) { roff_keys(out, ENTRY_APPLICATION); }

static void roff_statement_keys(struct buf *out) { roff_keys(out, ENTRY_STATEMENT); }

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

static void example_settings(struct buf *out)
{
	for (int group = 0; group < SETTING_GROUPS; group++) {
		buf_printf(out, ";;;\n;;; %s\n;;;\n\n",
		           setting_group_name((enum setting_group)group));
		for (size_t i = 0; i < settings_count; i++) {
			if (settings[i].group == (enum setting_group)group)
				example_setting(out, &settings[i]);
		}
	}
}

static const struct manual_mark marks[] = {
	{ "@settings@", roff_settings },
	{ "@database_keys@", roff_database_keys },
	{ "@user_keys@", roff_user_keys },
	{ "@peer_keys@", roff_peer_keys },
	{ "@listener_keys@", roff_listener_keys },
	{ "@application_keys@", roff_application_keys },
	{ "@statement_keys@", roff_statement_keys },
	{ "@example@", example_settings },
};

static const struct manual_mark *find_mark(const struct manual_mark *in, size_t count,
                                           struct bytes line)
{
	for (size_t i = 0; i < count; i++) {
		if (bytes_are(line, in[i].line))
			return &in[i];
	}
	return NULL;
}

void manual_fill(const struct manual_mark *more, size_t more_count, struct bytes text,
                 struct buf *made)
{
	while (text.count) {
		const char *end = memchr(text.at, '\n', text.count);
		struct bytes line = bytes_of(text.at, end ? (size_t)(end - text.at) : text.count);
		const struct manual_mark *mark = find_mark(more, more_count, line);
		size_t whole = line.count + (end != NULL);

		if (!mark)
			mark = find_mark(marks, sizeof(marks) / sizeof(marks[0]), line);
		if (mark)
			mark->add(made);
		else
			buf_add(made, line.at, whole);
		text = bytes_skip(text, whole);
	}
}
