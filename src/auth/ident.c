/* SPDX-License-Identifier: ISC */
/*
 * User name maps.
 *
 *   map  system-user  database-user
 *   map  /^(.*)@example\.com$  \1
 *
 * A map consists of all lines with its name; one line that fits is enough.
 */
#include "ident_priv.h"

#include <stddef.h>
#include <stdlib.h>

#include "pattern_priv.h"

#include "pgweir/base/banned.h"

struct mapping {
	struct source_pos pos;
	char *map;
	struct pattern system_user;
	struct pattern user;
};

struct ident {
	struct mapping *mappings;
	size_t count, capacity;
	char **files; /* names of files, for `pos` of mappings */
	size_t file_count;
};

struct load {
	struct rule_reader reader; /* must be first: see load_line() */
	struct ident *ident;
};

static void mapping_done(struct mapping *mapping)
{
	free(mapping->map);
	pattern_done(&mapping->system_user);
	pattern_done(&mapping->user);
}

/* Returns \1 in a name that is not a regular expression; NULL: it has none. */
static char *group_in(const struct pattern *user)
{
	return user->kind == PATTERN_NAME ? strstr(user->text, "\\1") : NULL;
}

static bool read_mapping(struct mapping *mapping, const struct rule_line *line, struct err *err)
{
	if (line->field_count != 3 || line->word_count != 3)
		return err_set(err, ERR_CONFIG, "a line must read: map system-user database-user");
	mapping->map = strdup(line->words[0].text);
	if (!mapping->map)
		return err_set(err, ERR_MEMORY, "no memory");
	if (!pattern_init(&mapping->system_user, &line->words[1], 0, err) ||
	    !pattern_init(&mapping->user, &line->words[2], PATTERN_BIT(PATTERN_ALL), err))
		return false;
	if (group_in(&mapping->user) && mapping->system_user.kind == PATTERN_REGEX &&
	    !pattern_has_group(&mapping->system_user))
		return err_set(err, ERR_CONFIG, "%s has no (group) for \\1",
		               mapping->system_user.text);
	return true;
}

static bool grow_mappings(struct ident *ident)
{
	size_t capacity = ident->capacity ? 2 * ident->capacity : 16;
	struct mapping *grown;

	if (ident->count < ident->capacity)
		return true;
	grown = realloc(ident->mappings, capacity * sizeof(*grown));
	if (!grown)
		return false;
	ident->mappings = grown;
	ident->capacity = capacity;
	return true;
}

static void load_line(struct rule_reader *reader, const struct rule_line *line)
{
	struct ident *ident = ((struct load *)reader)->ident;
	struct mapping mapping = { .pos = line->pos };
	struct err err;

	_Static_assert(offsetof(struct load, reader) == 0, "load_line() counts on it");
	if (!grow_mappings(ident)) {
		err_set(&err, ERR_MEMORY, "no memory");
	} else if (read_mapping(&mapping, line, &err)) {
		ident->mappings[ident->count++] = mapping;
		return;
	}
	problems_add(reader->problems, line->pos, "%s", err.text);
	mapping_done(&mapping);
}

/* path NULL: parses `text`, which is called `name` in errors. */
static struct ident *load_ident_file(const char *path, struct bytes text, const char *name,
                                     struct problems *problems)
{
	struct load load = {
		.reader = { .line = load_line, .problems = problems, .may_include = path != NULL },
		.ident = calloc(1, sizeof(struct ident))
	};
	size_t count = problems->count + problems->dropped_count;

	if (!load.ident) {
		problems_add(problems, (struct source_pos){ name, 0 }, "no memory");
		return NULL;
	}
	if (path)
		rulefile_read(&load.reader, path);
	else
		rulefile_read_bytes(&load.reader, text, name);
	load.ident->files = load.reader.files;
	load.ident->file_count = load.reader.file_count;
	if (problems->count + problems->dropped_count != count)
		ident_free(&load.ident);
	return load.ident;
}

struct ident *ident_load(const char *path, struct problems *problems)
{
	if (!path || !*path)
		return ident_parse(bytes_of("", 0), "", problems);
	return load_ident_file(path, bytes_of(NULL, 0), path, problems);
}

struct ident *ident_parse(struct bytes text, const char *name, struct problems *problems)
{
	return load_ident_file(NULL, text, name, problems);
}

void ident_free(struct ident **ident)
{
	struct ident *old = *ident;

	*ident = NULL;
	if (!old)
		return;
	for (size_t i = 0; i < old->count; i++)
		mapping_done(&old->mappings[i]);
	rulefile_free_names(old->files, old->file_count);
	free(old->mappings);
	free(old);
}

bool ident_has_map(const struct ident *ident, const char *map)
{
	for (size_t i = 0; i < ident->count; i++) {
		if (strcmp(ident->mappings[i].map, map) == 0)
			return true;
	}
	return false;
}

/* Whether `user` equals `pattern` with \1 replaced by `group`. */
static bool is_expanded(const struct pattern *pattern, struct bytes group, const char *user)
{
	const char *at = group_in(pattern);
	struct bytes rest = bytes_text(user);
	size_t before = (size_t)(at - pattern->text);

	if (!group.at || rest.count < before || memcmp(rest.at, pattern->text, before) != 0)
		return false;
	rest = bytes_skip(rest, before);
	if (rest.count < group.count || memcmp(rest.at, group.at, group.count) != 0)
		return false;
	return bytes_are(bytes_skip(rest, group.count), at + 2);
}

static bool fits(const struct mapping *mapping, const char *system_user, const char *user)
{
	struct bytes group;

	if (!pattern_matches(&mapping->system_user, system_user, &group))
		return false;
	if (mapping->user.kind == PATTERN_ALL)
		return true;
	if (group_in(&mapping->user) && mapping->system_user.kind == PATTERN_REGEX)
		return is_expanded(&mapping->user, group, user);
	return pattern_matches(&mapping->user, user, NULL);
}

bool ident_admits(const struct ident *ident, const char *map, const char *system_user,
                  const char *user)
{
	for (size_t i = 0; i < ident->count; i++) {
		if (strcmp(ident->mappings[i].map, map) == 0 &&
		    fits(&ident->mappings[i], system_user, user))
			return true;
	}
	return false;
}

bool ident_row(const struct ident *ident, size_t index, struct ident_row *row)
{
	const struct mapping *mapping;

	if (index >= ident->count)
		return false;
	mapping = &ident->mappings[index];
	*row = (struct ident_row){ mapping->pos.file, mapping->pos.line, mapping->map,
		                   mapping->system_user.text, mapping->user.text };
	return true;
}
