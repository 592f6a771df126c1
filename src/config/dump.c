/* SPDX-License-Identifier: ISC */
/*
 * Prints descriptions of the settings: --dump-settings.
 */
#include "pgweir/config/settings.h"

#include <inttypes.h>
#include <stdio.h>

#include "field_priv.h"
#include "suggest_priv.h"
#include "value_priv.h"

#include "pgweir/base/banned.h"

#define WIDTH 92

static void add_type(struct buf *out, const struct setting *setting)
{
	buf_add_text(out, setting_types[setting->type].dump);
	if (setting->type == SETTING_TIME)
		buf_printf(out, " %s, or with us, ms, s, min, h, d",
		           setting->unit == 1             ? "microseconds"
		           : setting->unit == USEC_PER_MS ? "milliseconds"
		                                          : "seconds");
	if (setting->zero)
		buf_printf(out, " or %s", setting->zero);
	if (setting->splits_at_blanks)
		buf_add_text(out, " or blanks");
}

static void add_number(struct buf *out, const struct setting *setting, int64_t number)
{
	char text[32];

	field_number_text(setting, number, text, sizeof(text));
	buf_add_text(out, text);
}

static void add_kind(struct buf *out, const struct setting *setting)
{
	buf_add_text(out, "    kind: ");
	add_type(out, setting);
	for (size_t i = 0; setting->words && setting->words[i]; i++)
		buf_printf(out, "%s%s", i ? ", " : " ", setting->words[i]);
	if (setting_types[setting->type].is_number) {
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

static void add_setting(struct buf *out, const struct setting *setting)
{
	buf_printf(out, "%s\n", setting->name);
	buf_add_wrapped(out, setting->help, WIDTH, "    ");
	add_kind(out, setting);
}

bool dump_setting(const char *name, struct buf *out, struct err *err)
{
	const struct setting *setting = setting_find(name);

	if (!setting)
		return suggest_refuse(name, err);
	add_setting(out, setting);
	return true;
}

void dump_settings(struct buf *out)
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
