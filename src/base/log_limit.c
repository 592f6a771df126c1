/* SPDX-License-Identifier: ISC */
/*
 * Counts log lines by their kind.
 */
#include "log_limit_priv.h"

#include <ctype.h>
#include <string.h>

#include "pgweir/base/banned.h"

/* The size in bytes of the part of the text that decides its kind. */
static size_t kind_size(struct bytes text)
{
	unsigned int colons = 0;
	size_t count = 0;

	for (; count < text.count && count < LOG_KIND_TEXT - 1; count++) {
		char byte = text.at[count];

		colons += byte == ':';
		if (colons == 2 || memchr("\"'(=", byte, 4) || isdigit((unsigned char)byte))
			break;
	}
	return count;
}

/* FNV-1a. */
static uint64_t hash_of(const char *at, size_t count)
{
	uint64_t hash = UINT64_C(14695981039346656037);

	for (size_t i = 0; i < count; i++)
		hash = (hash ^ (unsigned char)at[i]) * UINT64_C(1099511628211);
	return hash;
}

static struct log_kind *kind_of(struct log_limit *limit, struct bytes text)
{
	size_t count = kind_size(text);
	uint64_t hash = hash_of(text.at, count);
	struct log_kind *kind;

	for (unsigned int i = 0; i < limit->kind_count; i++) {
		if (limit->kinds[i].hash == hash)
			return &limit->kinds[i];
	}
	if (limit->kind_count == LOG_KINDS)
		return &limit->kinds[LOG_KINDS - 1];
	kind = &limit->kinds[limit->kind_count++];
	kind->hash = hash;
	kind->count = 0;
	memcpy(kind->text, text.at, count);
	kind->text[count] = 0;
	return kind;
}

bool log_limit_passes(struct log_limit *limit, enum log_level level, struct bytes text)
{
	struct log_kind *kind;

	if (!limit->per_second || level == LOG_LEVEL_FATAL)
		return true;
	kind = kind_of(limit, text);
	kind->level = level;
	if (++kind->count <= limit->per_second)
		return true;
	limit->is_over = true;
	return false;
}

bool log_limit_next(struct log_limit *limit, time_t now, enum log_level *level, struct strbuf *line)
{
	while (limit->is_over && limit->kind_count) {
		struct log_kind *kind = &limit->kinds[--limit->kind_count];

		if (kind->count <= limit->per_second)
			continue;
		*level = kind->level;
		strbuf_add_number(line, kind->count - limit->per_second);
		strbuf_add(line, " more suppressed: ");
		strbuf_add(line, kind->text);
		strbuf_add(line, "...");
		return true;
	}
	limit->is_over = false;
	log_limit_turn(limit, now);
	return false;
}

void log_limit_turn(struct log_limit *limit, time_t now)
{
	if (now == limit->second)
		return;
	limit->second = now;
	limit->kind_count = 0;
}
