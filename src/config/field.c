/* SPDX-License-Identifier: ISC */
/*
 * One field of a snapshot: set, copy, compare, show and free it, by the type of its row. Code
 * that walks all settings uses these functions. A new type needs a row in types[] here, and its
 * name in setting_types[].
 */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "pgweir/base/text.h"
#include "pgweir/config/hosts_from.h"

#include "config_priv.h"

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

static union field field_of(const void *owner, const struct setting *setting)
{
	return (union field){ .at = (char *)owner + setting->at };
}

void field_number_text(const struct setting *setting, int64_t value, char *buffer, size_t size)
{
	if (setting->type == SETTING_TIME)
		value_time_text(value, buffer, size);
	else if (!setting->is_of_entry && setting->at == offsetof(struct config, unix_socket_mode))
		snprintf(buffer, size, "%#" PRIo64, (uint64_t)value);
	else
		snprintf(buffer, size, "%" PRId64, value);
}

static int64_t max_of(const struct setting *setting)
{
	if (setting->max)
		return setting->max;
	return setting->type == SETTING_INT ? INT32_MAX : VALUE_TIME_MAX;
}

static bool in_range(const struct setting *setting, int64_t value, struct err *err)
{
	char low[32], high[32];
	int64_t max = max_of(setting);
	bool is_open = setting->type == SETTING_TIME ? !setting->max : max >= INT32_MAX;

	field_number_text(setting, setting->min, low, sizeof(low));
	field_number_text(setting, max, high, sizeof(high));
	if (value < setting->min && is_open)
		return err_set(err, ERR_PARAMETER, "must be at least %s", low);
	if (value > max && is_open)
		return err_set(err, ERR_PARAMETER, "must be at most %s", high);
	if (value < setting->min || value > max)
		return err_set(err, ERR_PARAMETER, "must be from %s to %s", low, high);
	return true;
}

/* Where that makes sense: not for a negative duration in seconds, which PgBouncer refuses too. */
static bool take_nearest(const struct setting *setting, int64_t *value, struct err *note)
{
	bool is_duration = setting->type == SETTING_TIME && !setting->unit;
	char nearest[32];

	if (!note || setting->is_exact || (is_duration && *value < 0))
		return false;
	*value = *value < setting->min ? setting->min : max_of(setting);
	field_number_text(setting, *value, nearest, sizeof(nearest));
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

static int64_t low_meaning(enum entry_low low, int64_t value)
{
	if (low == LOW_MINUS_INHERITS && value < 0)
		return CONFIG_INHERIT;
	if (low == LOW_ZERO_INHERITS && value <= 0)
		return CONFIG_INHERIT;
	if (low == LOW_MINUS_IS_ZERO && value < 0)
		return 0;
	return value;
}

/* Checks the range of a value; replaces or refuses it if it is out of range. */
static bool fit_number(const struct setting *setting, int64_t *value, struct err *note,
                       struct err *err)
{
	struct err range;

	*value = low_meaning(setting->low, *value);
	if (*value == CONFIG_INHERIT && setting->low)
		return true;
	if (in_range(setting, *value, &range))
		return in_steps(setting, *value, err);
	if (take_nearest(setting, value, note)) {
		err_prefix(note, "%s, ", range.text);
		return true;
	}
	return err_set(err, range.code, "%s", range.text);
}

/* ---- setting a value ---- */

static bool put_bool(union field field, const struct setting *setting, const char *text,
                     struct err *note, struct err *err)
{
	(void)setting, (void)note;
	return value_bool(text, field.is_on, err);
}

/* It is not a number, which *err says; but some words are close to what is accepted. */
static bool explain_word(const struct setting *setting, const char *text, struct err *err)
{
	if (setting->auto_is_for && strcasecmp(text, "auto") == 0)
		return err_set(err, ERR_PARAMETER, "auto is for %s", setting->auto_is_for);
	return setting->word && !strchr("-+0123456789", *text) &&
	       err_set(err, ERR_PARAMETER, "\"%s\" is not a whole number or %s", text,
	               setting->word);
}

static bool put_int(union field field, const struct setting *setting, const char *text,
                    struct err *note, struct err *err)
{
	int64_t number;

	if (setting->word && strcasecmp(text, setting->word) == 0) {
		*field.number = setting->word_is;
		return true;
	}
	if (setting->on && (strcasecmp(text, "on") == 0 || strcasecmp(text, "off") == 0)) {
		*field.number = strcasecmp(text, "on") == 0 ? setting->on : 0;
		return true;
	}
	if (!value_int(text, setting->is_of_entry ? 10 : 0, &number, err))
		return explain_word(setting, text, err);
	if (!fit_number(setting, &number, note, err))
		return false;
	*field.number = (int)number;
	return true;
}

static bool put_bytes(union field field, const struct setting *setting, const char *text,
                      struct err *note, struct err *err)
{
	int64_t number;

	if (!value_bytes(text, &number, err) || !fit_number(setting, &number, note, err))
		return false;
	*field.bytes = (size_t)number;
	return true;
}

static bool put_time(union field field, const struct setting *setting, const char *text,
                     struct err *note, struct err *err)
{
	usec_t unit = setting->unit ? setting->unit : USEC_PER_SEC;
	int64_t number;

	if (!value_time(text, unit, setting->unit ? 0 : 10, &number, err) ||
	    !fit_number(setting, &number, note, err))
		return false;
	*field.time = number;
	return true;
}

static bool put_word(union field field, const struct setting *setting, const char *text,
                     struct err *note, struct err *err)
{
	int at = value_word(text, setting->words);

	(void)note;
	if (at >= 0 && setting->missing && setting->missing[at])
		return err_set(err, ERR_UNSUPPORTED, "pgweir was built without %s",
		               setting->missing[at]);
	if (at >= 0) {
		*field.word = (unsigned int)at;
		return true;
	}
	return value_refuse_word(text, setting->words, err);
}

static bool judge_hosts(const char *text, struct err *err)
{
	struct bytes host;
	unsigned int count = 0;

	if (strpbrk(text, " \t"))
		return err_set(err, ERR_CONFIG, "contains a blank (separate hosts by commas only)");
	while (config_host_next(&text, &host)) {
		if (host.count == 0)
			return err_set(err, ERR_CONFIG, "contains an empty name");
		count++;
	}
	if (count > CONFIG_HOSTS_MAX)
		return err_set(err, ERR_CONFIG, "has more than %d hosts", CONFIG_HOSTS_MAX);
	return true;
}

static bool put_text(union field field, const struct setting *setting, const char *text,
                     struct err *note, struct err *err)
{
	char *copy;

	struct hosts_source source;

	if (setting->is_hosts && !judge_hosts(text, err))
		return false;
	if (setting->is_source && !hosts_source_read(text, &source, err))
		return false;
	if (setting->length_max && strlen(text) > setting->length_max)
		return err_set(err, ERR_CONFIG, "is longer than %zu bytes", setting->length_max);
	if (note && setting->doubted && strcmp(text, setting->doubted) == 0)
		err_set(note, ERR_CONFIG, "\"%s\" %s", text, setting->doubt);
	if (setting->refused && strcmp(text, setting->refused) == 0)
		return err_set(err, ERR_PARAMETER, "\"%s\" is the console's name", text);
	copy = strdup(text);
	if (!copy)
		return err_set(err, ERR_MEMORY, "no memory");
	free(*field.text);
	*field.text = copy;
	return true;
}

static bool put_list(union field field, const struct setting *setting, const char *text,
                     struct err *note, struct err *err)
{
	struct config_list list;

	(void)note;
	if (!value_list(text, setting->splits_at_blanks, &list, err))
		return false;
	for (size_t i = 0; setting->words && i < list.count; i++) {
		const char *name = list.names[i];

		if (value_word(name + (setting->may_negate && *name == '!'), setting->words) >= 0)
			continue;
		value_refuse_word(name, setting->words, err);
		value_list_free(&list);
		return false;
	}
	if (setting->has_functions && !value_functions(&list, err)) {
		value_list_free(&list);
		return false;
	}
	value_list_free(field.list);
	*field.list = list;
	return true;
}

/* ---- showing ---- */

static void show_time(usec_t value, usec_t unit, char *buffer, size_t size)
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
	case SETTING_BYTES:
		snprintf(buffer, size, "%zu", *field.bytes);
		return buffer;
	case SETTING_TIME:
		show_time(*field.time, setting->unit, buffer, size);
		return buffer;
	case SETTING_INT:
		break;
	}
	if (!setting->initial && *field.number == CONFIG_UNSET)
		return NULL;
	if (setting->word && *field.number == setting->word_is)
		return setting->word;
	snprintf(buffer, size, "%d", *field.number);
	return buffer;
}

/* ---- all types ---- */

static const struct type_row {
	size_t size; /* of the field in bytes; 0: it owns memory, and a value may contain quotes */
	/* note NULL: a number out of range is refused. */
	bool (*put)(union field field, const struct setting *setting, const char *text,
	            struct err *note, struct err *err);
} types[] = {
	[SETTING_BOOL] = { sizeof(bool), put_bool },
	[SETTING_INT] = { sizeof(int), put_int },
	[SETTING_BYTES] = { sizeof(size_t), put_bytes },
	[SETTING_TIME] = { sizeof(usec_t), put_time },
	[SETTING_TEXT] = { 0, put_text },
	[SETTING_LIST] = { 0, put_list },
	[SETTING_WORD] = { sizeof(unsigned int), put_word },
};

bool field_put_bare(void *owner, const struct setting *setting, const char *text, struct err *note,
                    struct err *err)
{
	return types[setting->type].put(field_of(owner, setting), setting, text, note, err);
}

bool field_put(struct config *config, const struct setting *setting, const char *text,
               struct err *note, struct err *err)
{
	char *copy, *bare;
	bool ok;

	if (note)
		note->code = ERR_NONE;
	if (!types[setting->type].size)
		return field_put_bare(config, setting, text, note, err);
	copy = strdup(text);
	if (!copy)
		return err_set(err, ERR_MEMORY, "no memory");
	bare = copy;
	ok = value_unquote(&bare, err) && field_put_bare(config, setting, bare, note, err);
	free(copy);
	return ok;
}

bool field_reset(void *owner, const struct setting *setting, struct err *err)
{
	union field field = field_of(owner, setting);

	/* of a text of an entry it is a description, for the manual */
	if (setting->initial && !(setting->is_of_entry && setting->type == SETTING_TEXT))
		return field_put_bare(owner, setting, setting->initial, NULL, err);
	switch (setting->type) {
	case SETTING_INT:
		*field.number = CONFIG_UNSET;
		break;
	case SETTING_TIME:
		*field.time = CONFIG_INHERIT;
		break;
	case SETTING_BYTES:
		*field.bytes = (size_t)CONFIG_INHERIT;
		break;
	case SETTING_WORD:
		*field.word = setting->unset;
		break;
	default:
		field_free(owner, setting);
		break;
	}
	return true;
}

bool field_copy(struct config *to, const struct config *from, const struct setting *setting)
{
	union field in = field_of(from, setting), out = field_of(to, setting);

	if (types[setting->type].size)
		memcpy(out.at, in.at, types[setting->type].size);
	else if (setting->type == SETTING_LIST)
		return put_list(out, setting, in.list->text, NULL, NULL);
	else if (*in.text)
		return put_text(out, setting, *in.text, NULL, NULL);
	else
		field_free(to, setting);
	return true;
}

static bool equal_lists(const struct config_list *a, const struct config_list *b)
{
	if (a->count != b->count)
		return false;
	for (size_t i = 0; i < a->count; i++) {
		if (strcmp(a->names[i], b->names[i]) != 0)
			return false;
	}
	return true;
}

bool field_equal(const void *a, const void *b, const struct setting *setting)
{
	union field one = field_of(a, setting), other = field_of(b, setting);

	if (types[setting->type].size)
		return memcmp(one.at, other.at, types[setting->type].size) == 0;
	return setting->type == SETTING_LIST ? equal_lists(one.list, other.list)
	                                     : text_same(*one.text, *other.text);
}

void field_free(void *owner, const struct setting *setting)
{
	union field field = field_of(owner, setting);

	if (setting->type == SETTING_LIST)
		value_list_free(field.list);
	if (setting->type != SETTING_TEXT)
		return;
	if ((setting->hidden_with || setting->is_of_entry) && *field.text)
		explicit_bzero(*field.text, strlen(*field.text));
	free(*field.text);
	*field.text = NULL;
}
