/* SPDX-License-Identifier: ISC */
/*
 * Descriptions of the settings: --dump-settings.
 */
#include "pgweir/config/settings.h"

#include <inttypes.h>
#include <stdio.h>

#include "suggest_priv.h"
#include "value_priv.h"

#include "pgweir/base/banned.h"

#define WIDTH 92

static const char *kind_of(const struct setting *setting)
{
	static const char *const kinds[] = {
		[SETTING_BOOL] = "boolean (0 or 1, off or on)",
		[SETTING_INT] = "integer",
		[SETTING_BYTES] = "size in bytes, or with kB, MB, GB",
		[SETTING_TEXT] = "string",
		[SETTING_LIST] = "list, separated by commas",
		[SETTING_WORD] = "one of",
	};

	if (setting->type == SETTING_TIME && setting->unit == 1)
		return "duration in microseconds, or with us, ms, s, min, h, d";
	if (setting->type == SETTING_TIME)
		return setting->unit == USEC_PER_MS
		           ? "duration in milliseconds, or with us, ms, s, min, h, d"
		           : "duration in seconds, or with us, ms, s, min, h, d";
	if (setting->type == SETTING_LIST && setting->splits_at_blanks)
		return "list, separated by commas or blanks";
	return kinds[setting->type];
}

static void add_number(struct buf *out, const struct setting *setting, int64_t number)
{
	char text[32];

	if (setting->type == SETTING_TIME)
		value_time_text(number, text, sizeof(text));
	else if (setting->at == offsetof(struct config, unix_socket_mode))
		snprintf(text, sizeof(text), "%#" PRIo64, (uint64_t)number);
	else
		snprintf(text, sizeof(text), "%" PRId64, number);
	buf_add_text(out, text);
}

static void add_kind(struct buf *out, const struct setting *setting)
{
	bool has_range = setting->type == SETTING_INT || setting->type == SETTING_BYTES ||
	                 setting->type == SETTING_TIME;

	buf_printf(out, "    kind: %s", kind_of(setting));
	for (size_t i = 0; setting->words && setting->words[i]; i++)
		buf_printf(out, "%s%s", i ? ", " : " ", setting->words[i]);
	if (has_range) {
		buf_add_text(out, "\n    range: ");
		add_number(out, setting, setting->min);
		if (setting->max) {
			buf_add_text(out, " to ");
			add_number(out, setting, setting->max);
		} else {
			buf_add_text(out, " or more");
		}
	}
	buf_add_text(out, "\n    default: ");
	if (!setting->initial)
		buf_add_text(out, "not set");
	else
		buf_add_text(out, *setting->initial ? setting->initial : "empty");
	buf_printf(out, "\n    changes with: %s\n",
	           setting->reload == RELOAD_BOOT ? "restart" : "RELOAD or SET");
	if (setting->since)
		buf_printf(out, "    since: %s\n", setting->since);
}

/* The help, broken between words. */
static void add_help(struct buf *out, const char *text)
{
	while (*text) {
		size_t count = strlen(text);

		if (count > WIDTH) {
			for (count = WIDTH; count && text[count] != ' '; count--)
				;
		}
		if (count == 0)
			count = strcspn(text, " ");
		buf_add_text(out, "    ");
		buf_add(out, text, count);
		buf_add_byte(out, '\n');
		text += count + strspn(text + count, " ");
	}
}

static void add_setting(struct buf *out, const struct setting *setting)
{
	buf_printf(out, "%s\n", setting->name);
	add_help(out, setting->help);
	add_kind(out, setting);
}

bool settings_dump_one(const char *name, struct buf *out, struct err *err)
{
	const struct setting *setting = setting_find(name);

	if (!setting)
		return suggest_refuse(name, err);
	add_setting(out, setting);
	return true;
}

void settings_dump(struct buf *out)
{
	for (int group = 0; group < SETTING_GROUPS; group++) {
		buf_printf(out, "%s# %s\n", group ? "\n" : "",
		           setting_group_name((enum setting_group)group));
		for (size_t i = 0; i < settings_count; i++) {
			if (settings[i].group != (enum setting_group)group)
				continue;
			buf_add_byte(out, '\n');
			add_setting(out, &settings[i]);
		}
	}
}
