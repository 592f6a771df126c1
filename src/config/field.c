/* SPDX-License-Identifier: ISC */
/*
 * One field of a snapshot: put, copy, compare, show, free, each by the type of
 * its row. Whatever knows all settings goes through here.
 */
#include "field_priv.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "value_priv.h"

#include "pgweir/base/banned.h"

union field {
	void *at;
	bool *is_on;
	int *number;
	unsigned int *word;
	size_t *bytes;
	usec_t *time;
	char **text;
	struct config_list *list;
};

static union field field_of(const struct config *config, const struct setting *setting)
{
	return (union field){ .at = (char *)config + setting->at };
}

/* A number in the way that people write this setting. */
static void number_text(const struct setting *setting, int64_t value, char *buffer, size_t size)
{
	if (setting->type == SETTING_TIME)
		value_time_text(value, buffer, size);
	else if (setting->at == offsetof(struct config, unix_socket_mode))
		snprintf(buffer, size, "%#" PRIo64, (uint64_t)value);
	else
		snprintf(buffer, size, "%" PRId64, value);
}

static int64_t max_of(const struct setting *setting)
{
	return setting->type == SETTING_TIME && !setting->max ? VALUE_TIME_MAX : setting->max;
}

static bool in_range(const struct setting *setting, int64_t value, struct err *err)
{
	char low[32], high[32];
	int64_t max = max_of(setting);
	bool is_open = setting->type == SETTING_TIME ? !setting->max : max >= INT32_MAX;

	number_text(setting, setting->min, low, sizeof(low));
	number_text(setting, max, high, sizeof(high));
	if (value < setting->min && is_open)
		return err_set(err, ERR_PARAMETER, "must be at least %s", low);
	if (value > max && is_open)
		return err_set(err, ERR_PARAMETER, "must be at most %s", high);
	if (value < setting->min || value > max)
		return err_set(err, ERR_PARAMETER, "must be from %s to %s", low, high);
	return true;
}

/*
 * Makes the value one in the range, if it has a near one. A negative duration in seconds has none:
 * PgBouncer refuses it too.
 */
static bool take_nearest(const struct setting *setting, int64_t *value, struct err *note)
{
	bool is_duration = setting->type == SETTING_TIME && !setting->unit;
	char nearest[32];

	if (!note || setting->is_exact || (is_duration && *value < 0))
		return false;
	*value = *value < setting->min ? setting->min : max_of(setting);
	number_text(setting, *value, nearest, sizeof(nearest));
	err_set(note, ERR_PARAMETER, "%s is used", nearest);
	return true;
}

static bool in_steps(const struct setting *setting, int64_t value, struct err *err)
{
	if (setting->step && value % setting->step != 0)
		return err_set(err, ERR_PARAMETER, "must be a whole number of %s",
		               setting->step == USEC_PER_SEC ? "seconds" : "milliseconds");
	return true;
}

static bool read_number(const struct setting *setting, const char *text, int64_t *value,
                        struct err *note, struct err *err)
{
	struct err range;
	bool ok = false;

	if (setting->type == SETTING_INT)
		ok = value_int(text, 0, value, err);
	else if (setting->type == SETTING_BYTES)
		ok = value_bytes(text, value, err);
	else if (setting->type == SETTING_TIME && setting->unit)
		ok = value_time(text, setting->unit, 0, value, err);
	else if (setting->type == SETTING_TIME)
		ok = value_time(text, USEC_PER_SEC, 10, value, err);
	if (!ok)
		return false;
	if (in_range(setting, *value, &range))
		return in_steps(setting, *value, err);
	if (take_nearest(setting, value, note)) {
		err_prefix(note, "%s, ", range.text);
		return true;
	}
	return err_set(err, range.code, "%s", range.text);
}

static bool refuse_word(const struct setting *setting, const char *text, struct err *err)
{
	char known[128] = "";
	const char *near;

	for (const char *const *word = setting->words; *word; word++) {
		size_t used = strlen(known);

		snprintf(known + used, sizeof(known) - used, "%s%s",
		         used == 0 ? ""
		         : word[1] ? ", "
		                   : " or ",
		         *word);
	}
	err_set(err, ERR_PARAMETER, "\"%s\" is not one of its values: %s", text, known);
	near = value_near_word(text, setting->words);
	return near ? err_suffix(err, ": did you mean \"%s\"?", near) : false;
}

static bool put_word(union field field, const struct setting *setting, const char *text,
                     struct err *err)
{
	int at = value_word(text, setting->words);

	if (at >= 0 && setting->missing && setting->missing[at])
		return err_set(err, ERR_UNSUPPORTED, "pgweir was built without %s",
		               setting->missing[at]);
	if (at >= 0) {
		*field.word = (unsigned int)at;
		return true;
	}
	return refuse_word(setting, text, err);
}

static bool put_text(union field field, const char *text, struct err *err)
{
	char *copy = strdup(text);

	if (!copy)
		return err_set(err, ERR_MEMORY, "no memory");
	free(*field.text);
	*field.text = copy;
	return true;
}

static bool put_list(union field field, const struct setting *setting, const char *text,
                     struct err *err)
{
	struct config_list list;

	if (!value_list(text, setting->splits_at_blanks, &list, err))
		return false;
	for (size_t i = 0; setting->words && i < list.count; i++) {
		const char *name = list.names[i];

		if (value_word(name + (*name == '!'), setting->words) >= 0)
			continue;
		refuse_word(setting, name, err);
		value_list_free(&list);
		return false;
	}
	value_list_free(field.list);
	*field.list = list;
	return true;
}

static bool put_plain(union field field, const struct setting *setting, const char *text,
                      struct err *note, struct err *err)
{
	int64_t number = 0;

	if (setting->type == SETTING_WORD)
		return put_word(field, setting, text, err);
	if (setting->type == SETTING_BOOL)
		return value_bool(text, field.is_on, err);
	if (!read_number(setting, text, &number, note, err))
		return false;
	if (setting->type == SETTING_INT)
		*field.number = (int)number;
	else if (setting->type == SETTING_BYTES)
		*field.bytes = (size_t)number;
	else
		*field.time = number;
	return true;
}

bool field_put_near(struct config *config, const struct setting *setting, const char *text,
                    struct err *note, struct err *err)
{
	union field field = field_of(config, setting);
	char *copy, *bare;
	bool ok;

	if (note)
		note->code = ERR_NONE;
	/* texts and names may hold quotes of their own, so these are not taken off */
	if (setting->type == SETTING_TEXT && setting->refused && !strcmp(text, setting->refused))
		return err_set(err, ERR_PARAMETER, "\"%s\" is the console's name", text);
	if (setting->type == SETTING_TEXT)
		return put_text(field, text, err);
	if (setting->type == SETTING_LIST)
		return put_list(field, setting, text, err);
	copy = strdup(text);
	if (!copy)
		return err_set(err, ERR_MEMORY, "no memory");
	bare = copy;
	ok = value_unquote(&bare, err) && put_plain(field, setting, bare, note, err);
	free(copy);
	return ok;
}

bool field_put(struct config *config, const struct setting *setting, const char *text,
               struct err *err)
{
	return field_put_near(config, setting, text, NULL, err);
}

bool field_reset(struct config *config, const struct setting *setting, struct err *err)
{
	union field field = field_of(config, setting);

	if (setting->initial)
		return field_put(config, setting, setting->initial, err);
	if (setting->type == SETTING_INT)
		*field.number = CONFIG_UNSET;
	else
		field_free(config, setting); /* unset is only known to texts and whole numbers */
	return true;
}

bool field_copy(struct config *to, const struct config *from, const struct setting *setting)
{
	union field in = field_of(from, setting), out = field_of(to, setting);

	switch (setting->type) {
	case SETTING_BOOL:
		*out.is_on = *in.is_on;
		break;
	case SETTING_INT:
		*out.number = *in.number;
		break;
	case SETTING_BYTES:
		*out.bytes = *in.bytes;
		break;
	case SETTING_TIME:
		*out.time = *in.time;
		break;
	case SETTING_WORD:
		*out.word = *in.word;
		break;
	case SETTING_LIST:
		return put_list(out, setting, in.list->text, NULL);
	case SETTING_TEXT:
		if (*in.text)
			return put_text(out, *in.text, NULL);
		field_free(to, setting);
		break;
	}
	return true;
}

static bool same_text(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

static bool same_list(const struct config_list *a, const struct config_list *b)
{
	if (a->count != b->count)
		return false;
	for (size_t i = 0; i < a->count; i++) {
		if (strcmp(a->names[i], b->names[i]) != 0)
			return false;
	}
	return true;
}

bool field_equal(const struct config *a, const struct config *b, const struct setting *setting)
{
	union field one = field_of(a, setting), other = field_of(b, setting);

	switch (setting->type) {
	case SETTING_BOOL:
		return *one.is_on == *other.is_on;
	case SETTING_INT:
		return *one.number == *other.number;
	case SETTING_BYTES:
		return *one.bytes == *other.bytes;
	case SETTING_TIME:
		return *one.time == *other.time;
	case SETTING_WORD:
		return *one.word == *other.word;
	case SETTING_LIST:
		return same_list(one.list, other.list);
	case SETTING_TEXT:
		break;
	}
	return same_text(*one.text, *other.text);
}

static void time_text(usec_t value, usec_t unit, char *buffer, size_t size)
{
	if (unit && value % unit == 0)
		snprintf(buffer, size, "%" PRId64, value / unit);
	else
		snprintf(buffer, size, "%g", (double)value / (double)(unit ? unit : USEC_PER_SEC));
}

const char *field_text(const struct config *config, const struct setting *setting, char *buffer,
                       size_t size)
{
	union field field = field_of(config, setting);

	switch (setting->type) {
	case SETTING_BOOL:
		return *field.is_on ? "1" : "0";
	case SETTING_WORD:
		return setting->words[*field.word];
	case SETTING_LIST:
		return field.list->text;
	case SETTING_TEXT:
		return *field.text;
	case SETTING_INT:
		if (!setting->initial && *field.number == CONFIG_UNSET)
			return NULL;
		snprintf(buffer, size, "%d", *field.number);
		break;
	case SETTING_BYTES:
		snprintf(buffer, size, "%zu", *field.bytes);
		break;
	case SETTING_TIME:
		time_text(*field.time, setting->unit, buffer, size);
		break;
	}
	return buffer;
}

void field_free(struct config *config, const struct setting *setting)
{
	union field field = field_of(config, setting);

	if (setting->type == SETTING_LIST)
		value_list_free(field.list);
	if (setting->type != SETTING_TEXT)
		return;
	if (setting->hidden_with && *field.text)
		explicit_bzero(*field.text, strlen(*field.text));
	free(*field.text);
	*field.text = NULL;
}
