/* SPDX-License-Identifier: ISC */
/*
 * The table of settings; and one field of a snapshot or of an entry: read, set, copy, compare, show
 * and free it, by the type of its row. Code that walks a table uses these functions. A new type
 * needs a row in setting_types[].
 *
 * Hard here: what PgBouncer accepts must have the same meaning (number bases as in C, seconds
 * with a fraction). Units and words are our extensions: PgBouncer refuses them.
 */
#include "config_priv.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "pgweir/base/text.h"

/* In the order of their enums. */
const char *const config_pool_modes[] = { "session", "transaction", "statement", NULL };
const char *const config_session_states[] = { "follow", "refuse", "off", NULL };
const char *const config_session_isolations[] = { "known", "strict", "off", NULL };
const char *const config_causal_reads_words[] = { "off", "session", NULL };
const char *const config_route_reads_words[] = { "off", "transactions", "sessions", "statements",
	                                         NULL };
const char *const config_load_balances[] = { "round-robin", "disable", "least-connections", NULL };
const char *const config_priorities[] = { "high", "normal", "low", NULL };
const char *const config_targets[] = { "any",     "read-write",     "read-only", "primary",
	                               "standby", "prefer-standby", NULL };

static bool is_not(struct err *err, const char *text, const char *what)
{
	const char *mark = strpbrk(text, ";#");

	if (!*text)
		return err_set(err, ERR_PARAMETER, "the value is missing: %s is needed", what);
	err_set(err, ERR_PARAMETER, "\"%s\" is not %s", text, what);
	/* a frequent mistake */
	if (mark && mark != text)
		err_suffix(err, " (a comment needs a line of its own, or the value in quotes)");
	return false;
}

static bool whole_number(const char *text, int base, int64_t *value)
{
	char *end;

	if (isspace((unsigned char)*text))
		return false;
	errno = 0;
	*value = strtoll(text, &end, base);
	return end != text && *end == 0 && errno == 0;
}

bool value_int(const char *text, int base, int64_t *value, struct err *err)
{
	return whole_number(text, base, value) || is_not(err, text, "a whole number");
}

static int find_word(const char *text, const char *const *words)
{
	for (int i = 0; words[i]; i++) {
		if (strcasecmp(words[i], text) == 0)
			return i;
	}
	return -1;
}

struct unit {
	const char *name;
	int64_t size;
};

static const struct unit time_units[] = {
	{ "us", 1 },
	{ "ms", USEC_PER_MS },
	{ "s", USEC_PER_SEC },
	{ "min", 60 * USEC_PER_SEC },
	{ "h", 3600 * USEC_PER_SEC },
	{ "d", 86400 * USEC_PER_SEC },
	{ NULL, 0 },
};

static const struct unit byte_units[] = {
	{ "B", 1 }, { "kB", 1 << 10 }, { "MB", 1 << 20 }, { "GB", 1 << 30 }, { NULL, 0 },
};

/* Other spellings of units, for hints. */
static const struct {
	const char *written, *meant;
} other_units[] = {
	{ "m", "min" },  { "mins", "min" }, { "minute", "min" }, { "minutes", "min" },
	{ "sec", "s" },  { "secs", "s" },   { "second", "s" },   { "seconds", "s" },
	{ "hour", "h" }, { "hours", "h" },  { "hr", "h" },       { "day", "d" },
	{ "days", "d" }, { "msec", "ms" },  { "usec", "us" },    { "k", "kB" },
	{ "kib", "kB" }, { "mib", "MB" },   { "gib", "GB" },     { "bytes", "B" },
	{ "m", "MB" },   { "g", "GB" },
};

/* Adds `: did you mean "5min"?` if the unit meant is known. Returns false. */
static bool hint_unit(struct err *err, const char *text, const struct unit *units)
{
	size_t count = strspn(text, "+-.0123456789");
	const char *unit = text + count + strspn(text + count, " \t");

	for (size_t i = 0; i < sizeof(other_units) / sizeof(other_units[0]); i++) {
		const struct unit *known = units;

		while (known->name && strcmp(known->name, other_units[i].meant) != 0)
			known++;
		if (count && known->name && strcasecmp(other_units[i].written, unit) == 0)
			return err_suffix(err, ": did you mean \"%.*s%s\"?", (int)count, text,
			                  known->name);
	}
	return false;
}

/* The unit after a number, with or without blanks before it; 0: no such unit. */
static int64_t unit_size(const char *text, const struct unit *unit, int64_t bare)
{
	text += strspn(text, " \t");
	if (!*text)
		return bare;
	for (; unit->name; unit++) {
		if (strcasecmp(unit->name, text) == 0)
			return unit->size;
	}
	return 0;
}

bool value_time(const char *text, usec_t unit, int base, usec_t *value, struct err *err)
{
	static const char what[] = "a duration (a number, or one with us, ms, s, min, h or d)";
	const char *digits = text + strspn(text, "+-");
	int64_t whole, size;
	double number;
	char *end;

	/* strtod() would accept "inf", "nan" and hexadecimal fractions */
	if (digits > text + 1 || !strchr("0123456789.", *digits) || !*digits)
		return is_not(err, text, what);
	/* PgBouncer parses such numbers like C: 010 is 8, 0x10 is 16. */
	if (base == 0 && whole_number(text, 0, &whole)) {
		number = (double)whole;
		size = unit;
	} else if (digits[0] == '0' && (digits[1] == 'x' || digits[1] == 'X')) {
		return is_not(err, text, what);
	} else {
		number = strtod(text, &end);
		size = unit_size(end, time_units, unit);
		if (end == text || size == 0)
			return is_not(err, text, what) || hint_unit(err, text, time_units);
	}
	number *= (double)size;
	if (number > (double)VALUE_TIME_MAX || number < -(double)VALUE_TIME_MAX)
		return err_set(err, ERR_PARAMETER, "\"%s\" is too long a time", text);
	*value = (usec_t)(number < 0 ? number - 0.5 : number + 0.5);
	return true;
}

static bool read_bytes(const char *text, int64_t *value, struct err *err)
{
	static const char what[] = "a size (a number of bytes, or one with B, kB, MB or GB)";
	int64_t number, size;
	char *end;

	errno = 0;
	number = strtoll(text, &end, 0);
	size = unit_size(end, byte_units, 1);
	if (end == text || isspace((unsigned char)*text) || size == 0)
		return is_not(err, text, what) || hint_unit(err, text, byte_units);
	if (errno || number > INT64_MAX / size || number < INT64_MIN / size)
		return err_set(err, ERR_PARAMETER, "\"%s\" is too large a size", text);
	*value = number * size;
	return true;
}

/* The word that was probably meant: the nearest, or the only one that begins so. NULL: none. */
static const char *near_word(const char *text, const char *const *words)
{
	struct nearest nearest = nearest_begin(text);
	const char *longer = NULL;
	size_t count = strlen(text), longer_count = 0;

	for (; *words; words++) {
		nearest_offer(&nearest, *words);
		if (count >= 3 && strncasecmp(*words, text, count) == 0) {
			longer = *words;
			longer_count++;
		}
	}
	if (nearest.found)
		return nearest.found;
	return longer_count == 1 ? longer : NULL;
}

static bool refuse_word(const char *text, const char *const *words, struct err *err)
{
	const char *near = near_word(text, words);

	err_set(err, ERR_PARAMETER, "\"%s\" is not one of its values: ", text);
	for (const char *const *word = words; *word; word++)
		err_suffix(err, "%s%s", word == words ? "" : word[1] ? ", " : " or ", *word);
	return near ? err_suffix(err, ": did you mean \"%s\"?", near) : false;
}

/* Cuts the next name off *at, in place. "" between two commas; NULL: no more names. */
static char *next_name(char **at, const char *separators)
{
	char *name = *at, *end;

	name += strspn(name, " \t");
	if (!*name)
		return NULL;
	end = name + strcspn(name, separators);
	*at = *end ? end + 1 : end;
	*end = 0;
	for (; end > name && strchr(" \t", end[-1]); end--)
		end[-1] = 0;
	return name;
}

static void free_list(struct config_list *list)
{
	free(list->names);
	free(list->text);
	*list = (struct config_list){ 0 };
}

/* The names are behind their pointers, in the same memory. */
static bool read_list(const char *text, bool splits_at_blanks, struct config_list *list,
                      struct err *err)
{
	const char *separators = splits_at_blanks ? ", \t" : ",";
	size_t size = strlen(text) + 1, most = size / 2 + 1;
	char *at, *name;

	*list = (struct config_list){ .text = strdup(text),
		                      .names = malloc(most * sizeof(char *) + size) };
	if (!list->text || !list->names) {
		free_list(list);
		return err_set(err, ERR_MEMORY, "no memory");
	}
	at = memcpy(list->names + most, text, size);
	while ((name = next_name(&at, separators))) {
		if (*name)
			list->names[list->count++] = name;
	}
	return true;
}

char *value_take_quoted(char **at)
{
	char quote = **at;
	char *value = *at, *in = *at + 1, *out = *at;

	for (;; in++) {
		if (!*in)
			return NULL;
		if (*in == quote && *++in != quote)
			break;
		*out++ = *in;
	}
	*at = in;
	*out = 0; /* never behind `in`: at least the opening quote has been removed */
	return value;
}

/* In place. */
static bool unquote(char *text, struct err *err)
{
	if (*text != '\'' && *text != '"')
		return true;
	if (!value_take_quoted(&text))
		return err_set(err, ERR_PARAMETER, "unterminated quote");
	text += strspn(text, " \t");
	return !*text || strchr(";#", *text) ||
	       err_set(err, ERR_PARAMETER, "unexpected \"%s\" after the quotes", text);
}

static void show_units(usec_t value, char *out, size_t size)
{
	const struct unit *unit = time_units;

	for (const struct unit *larger = time_units; larger->name; larger++) {
		if (value && value % larger->size == 0)
			unit = larger;
	}
	if (value)
		snprintf(out, size, "%lld%s", (long long)(value / unit->size), unit->name);
	else
		snprintf(out, size, "0");
}

/* ---- fields ---- */

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
		show_units(value, buffer, size);
	else if (!setting->is_of_entry && setting->at == offsetof(struct config, unix_socket_mode))
		snprintf(buffer, size, "%#" PRIo64, (uint64_t)value);
	else
		snprintf(buffer, size, "%" PRId64, value);
}

/* Refuses a value out of its range; with a note, takes the nearest one where that makes sense. */
static bool fit_number(const struct setting *setting, int64_t *value, struct err *note,
                       struct err *err)
{
	bool is_duration = setting->type == SETTING_TIME;
	int64_t widest = setting->type == SETTING_INT ? INT32_MAX : VALUE_TIME_MAX;
	int64_t min = setting->min, max = setting->max ? setting->max : widest;
	bool is_open = is_duration ? !setting->max : max >= INT32_MAX;
	char low[32], high[32];

	if ((setting->low == LOW_MINUS_INHERITS && *value < 0) ||
	    (setting->low == LOW_ZERO_INHERITS && *value <= 0)) {
		*value = CONFIG_INHERIT;
		return true;
	}
	if (setting->low == LOW_MINUS_IS_ZERO && *value < 0)
		*value = 0;
	if (*value >= min && *value <= max && setting->step && *value % setting->step != 0)
		return err_set(err, ERR_PARAMETER, "must be a whole number of %s",
		               setting->step == USEC_PER_SEC ? "seconds" : "milliseconds");
	if (*value >= min && *value <= max)
		return true;
	/* PgBouncer refuses a negative duration in seconds, too. */
	if (!note || setting->is_exact || (is_duration && !setting->unit && *value < 0))
		note = err;
	field_number_text(setting, min, low, sizeof(low));
	field_number_text(setting, max, high, sizeof(high));
	if (!is_open)
		err_set(note, ERR_PARAMETER, "must be from %s to %s", low, high);
	else if (*value < min)
		err_set(note, ERR_PARAMETER, "must be at least %s", low);
	else
		err_set(note, ERR_PARAMETER, "must be at most %s", high);
	if (note == err)
		return false;
	err_suffix(note, ", %s is used", *value < min ? low : high);
	*value = *value < min ? min : max;
	return true;
}

/* ---- setting a value ---- */

static bool put_bool(union field field, const struct setting *setting, const char *text,
                     struct err *note, struct err *err)
{
	static const char *const words[] = { "off", "on", "false", "true", "no", "yes", NULL };
	int at = find_word(text, words);
	int64_t number;

	(void)setting, (void)note;
	if (at >= 0)
		*field.is_on = at % 2 == 1;
	else if (whole_number(text, 0, &number))
		*field.is_on = number != 0;
	else
		return is_not(err, text, "a switch (1 or 0, on or off, true or false, yes or no)");
	return true;
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

static bool read_number(const struct setting *setting, const char *text, int64_t *number,
                        struct err *err)
{
	if (setting->type == SETTING_BYTES)
		return read_bytes(text, number, err);
	if (setting->type == SETTING_TIME)
		return value_time(text, setting->unit ? setting->unit : USEC_PER_SEC,
		                  setting->unit ? 0 : 10, number, err);
	return value_int(text, setting->is_of_entry ? 10 : 0, number, err) ||
	       explain_word(setting, text, err);
}

static bool put_number(union field field, const struct setting *setting, const char *text,
                       struct err *note, struct err *err)
{
	bool is_on = strcasecmp(text, "on") == 0;
	int64_t number = is_on ? setting->on : 0;

	if (setting->word && strcasecmp(text, setting->word) == 0)
		number = setting->word_is;
	else if (!(setting->on && (is_on || strcasecmp(text, "off") == 0)) &&
	         (!read_number(setting, text, &number, err) ||
	          !fit_number(setting, &number, note, err)))
		return false;
	if (setting->type == SETTING_INT)
		*field.number = (int)number;
	else if (setting->type == SETTING_TIME)
		*field.time = number;
	else
		*field.bytes = (size_t)number;
	return true;
}

static bool put_word(union field field, const struct setting *setting, const char *text,
                     struct err *note, struct err *err)
{
	int at = find_word(text, setting->words);

	(void)note;
	if (at >= 0 && setting->missing && setting->missing[at])
		return err_set(err, ERR_UNSUPPORTED, "pgweir was built without %s",
		               setting->missing[at]);
	if (at >= 0) {
		*field.word = (unsigned int)at;
		return true;
	}
	return refuse_word(text, setting->words, err);
}

/* ---- what rows judge texts by ---- */

bool field_judges_database(const char *text, struct err *err)
{
	return strcmp(text, CONFIG_CONSOLE_DATABASE) != 0 ||
	       err_set(err, ERR_PARAMETER, "\"%s\" is the console's name", text);
}

/* As SQL has the name of a function without quotes. */
bool field_judges_function(const char *text, struct err *err)
{
	bool is_name = !isdigit((unsigned char)*text) && *text != '$';

	for (const char *at = text; is_name && *at; at++)
		is_name =
		    isalnum((unsigned char)*at) || strchr("_$", *at) || (unsigned char)*at >= 0x80;
	return is_name || err_set(err, ERR_PARAMETER,
	                          "\"%s\" is not the name of a function (without schema, "
	                          "quotes and arguments)",
	                          text);
}

/* One that may be a password is wiped. */
static void free_text(union field field, const struct setting *setting)
{
	if ((setting->hidden_with || setting->is_of_entry) && *field.text)
		explicit_bzero(*field.text, strlen(*field.text));
	free(*field.text);
	*field.text = NULL;
}

static bool put_text(union field field, const struct setting *setting, const char *text,
                     struct err *note, struct err *err)
{
	char *copy;

	if (setting->judge && !setting->judge(text, err))
		return false;
	if (setting->length_max && strlen(text) > setting->length_max)
		return err_set(err, ERR_CONFIG, "is longer than %zu bytes", setting->length_max);
	if (note && setting->doubted && strcmp(text, setting->doubted) == 0)
		err_set(note, ERR_CONFIG, "\"%s\" %s", text, setting->doubt);
	copy = strdup(text);
	if (!copy)
		return err_set(err, ERR_MEMORY, "no memory");
	free_text(field, setting);
	*field.text = copy;
	return true;
}

static bool put_list(union field field, const struct setting *setting, const char *text,
                     struct err *note, struct err *err)
{
	struct config_list list;
	bool is_good = read_list(text, setting->splits_at_blanks, &list, err);

	(void)note;
	for (size_t i = 0; is_good && i < list.count; i++) {
		const char *name = list.names[i];

		if (setting->judge)
			is_good = setting->judge(name, err);
		else if (setting->words)
			is_good = find_word(name + (setting->may_negate && *name == '!'),
			                    setting->words) >= 0 ||
			          refuse_word(name, setting->words, err);
	}
	free_list(is_good ? field.list : &list);
	if (is_good)
		*field.list = list;
	return is_good;
}

/* ---- showing ---- */

const char *setting_value(const struct config *config, const struct setting *setting,
                          char buffer[SETTING_VALUE_SIZE])
{
	union field field = field_of(config, setting);
	usec_t unit = setting->unit ? setting->unit : USEC_PER_SEC;

	switch (setting->type) {
	case SETTING_BOOL:
		return *field.is_on ? "1" : "0";
	case SETTING_WORD:
		return setting->words[*field.word];
	case SETTING_LIST:
		return field.list->text;
	case SETTING_TEXT:
		if (setting->hidden_with && *field.text &&
		    strstr(*field.text, setting->hidden_with))
			return "(hidden: contains a password)";
		return *field.text;
	case SETTING_BYTES:
		snprintf(buffer, SETTING_VALUE_SIZE, "%zu", *field.bytes);
		return buffer;
	case SETTING_TIME:
		if (setting->unit && *field.time % unit == 0)
			snprintf(buffer, SETTING_VALUE_SIZE, "%" PRId64, *field.time / unit);
		else
			snprintf(buffer, SETTING_VALUE_SIZE, "%g",
			         (double)*field.time / (double)unit);
		return buffer;
	case SETTING_INT:
		break;
	}
	if (!setting->initial && *field.number == CONFIG_UNSET)
		return NULL;
	if (setting->word && *field.number == setting->word_is)
		return setting->word;
	snprintf(buffer, SETTING_VALUE_SIZE, "%d", *field.number);
	return buffer;
}

/* ---- all types ---- */

const struct setting_type_row setting_types[] = {
	[SETTING_BOOL] = { "boolean (0 or 1, off or on)", "bool", false, sizeof(bool), put_bool },
	[SETTING_INT] = { "integer", "integer", true, sizeof(int), put_number },
	[SETTING_BYTES] = { "size in bytes, or with kB, MB, GB", "string", true, sizeof(size_t),
	                    put_number },
	[SETTING_TIME] = { "duration in", "string", true, sizeof(usec_t), put_number },
	[SETTING_TEXT] = { "string", "string", false, 0, put_text },
	[SETTING_LIST] = { "list, separated by commas", "string", false, 0, put_list },
	[SETTING_WORD] = { "one of", "enum", false, sizeof(unsigned int), put_word },
};

bool field_put(void *owner, const struct setting *setting, const char *text, struct err *note,
               struct err *err)
{
	const struct setting_type_row *type = &setting_types[setting->type];
	char *copy;
	bool ok;

	if (note)
		note->code = ERR_NONE;
	if (!type->size || setting->is_of_entry)
		return type->put(field_of(owner, setting), setting, text, note, err);
	copy = strdup(text);
	if (!copy)
		return err_set(err, ERR_MEMORY, "no memory");
	ok = unquote(copy, err) && type->put(field_of(owner, setting), setting, copy, note, err);
	free(copy);
	return ok;
}

bool field_reset(void *owner, const struct setting *setting, struct err *err)
{
	union field field = field_of(owner, setting);

	/* of a text of an entry it is a description, for the manual */
	if (setting->initial && !(setting->is_of_entry && setting->type == SETTING_TEXT))
		return field_put(owner, setting, setting->initial, NULL, err);
	if (setting->type == SETTING_WORD) {
		for (*field.word = 0; setting->words[*field.word];)
			++*field.word;
	} else if (setting_types[setting->type].is_number) {
		/* CONFIG_UNSET, CONFIG_INHERIT: -1 in any size */
		memset(field.at, 0xff, setting_types[setting->type].size);
	} else {
		field_free(owner, setting);
	}
	return true;
}

bool field_copy(struct config *to, const struct config *from, const struct setting *setting)
{
	union field in = field_of(from, setting), out = field_of(to, setting);

	if (setting_types[setting->type].size)
		memcpy(out.at, in.at, setting_types[setting->type].size);
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

	if (setting_types[setting->type].size)
		return memcmp(one.at, other.at, setting_types[setting->type].size) == 0;
	return setting->type == SETTING_LIST ? equal_lists(one.list, other.list)
	                                     : text_same(*one.text, *other.text);
}

void field_free(void *owner, const struct setting *setting)
{
	union field field = field_of(owner, setting);

	if (setting->type == SETTING_LIST)
		free_list(field.list);
	if (setting->type == SETTING_TEXT)
		free_text(field, setting);
}

/* ---- the settings ---- */

/* clang-format off */
#define SETTING(type_, field, ...) \
	{ .name = #field, .type = SETTING_TYPE(config, field), .at = offsetof(struct config, field), \
	  __VA_ARGS__ },
#define LIVE .reload = RELOAD_LIVE
#define BOOT .reload = RELOAD_BOOT
#define GROUP(name) .group = GROUP_##name
/* clang-format on */

#define WORD_OF(name, word, missing) word,
#define MISSING_OF(name, word, missing) missing,

static const char *const auth_types[] = { AUTH_METHODS_OF_SETTING(WORD_OF) NULL };
static const char *const auth_types_missing[] = { AUTH_METHODS_OF_SETTING(MISSING_OF) NULL };
static const char *const fair_bys[] = { "none", "user", "application", "address", NULL };
static const char *const log_formats[] = { "text", "json", NULL };
static const char *const proxy_protocols[] = { "off", "accept", "require", NULL };
static const char *const tls_modes[] = { "disable",   "allow",       "prefer", "require",
	                                 "verify-ca", "verify-full", NULL };
static const char *const required_methods[] = { "password", "md5", "scram-sha-256", "none", NULL };
static const char *const console_versions[] = { "1.23", "1.24", "1.25", "1.26", NULL };
static const char *const drain_signals[] = { "SIGINT", "SIGTERM", NULL };
static const char *const tls_records_by[] = { "own", "openssl", NULL };
static const char *const tls_negotiations[] = { "postgres", "direct", NULL };

const struct setting settings[] = {
#include "pgweir/config/settings_table.h"
};

static int compare_name(const void *name, const void *setting)
{
	return strcmp(name, ((const struct setting *)setting)->name);
}

const struct setting *setting_find_in(const struct setting *rows, size_t count, const char *name)
{
	return bsearch(name, rows, count, sizeof(rows[0]), compare_name);
}

bool setting_refuse_in(const struct setting *rows, size_t count, const char *what, const char *name,
                       struct err *err)
{
	enum err_code code = rows == settings ? ERR_NO_PARAMETER : ERR_CONFIG;
	struct nearest nearest = nearest_begin(name);

	for (size_t i = 0; i < count; i++)
		nearest_offer(&nearest, rows[i].name);
	if (nearest.found)
		return err_set(err, code, "%s \"%s\": did you mean \"%s\"?", what, name,
		               nearest.found);
	return err_set(err, code, "%s \"%s\"", what, name);
}

const struct setting *setting_find(const char *name)
{
	/* PgBouncer's name for it on Windows, found in old files. */
	if (strcmp(name, "service_name") == 0)
		name = "job_name";
	return setting_find_in(settings, settings_count, name);
}

bool setting_refuse(const char *name, struct err *err)
{
	return setting_refuse_in(settings, settings_count, "unknown setting", name, err);
}
