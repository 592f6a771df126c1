/* SPDX-License-Identifier: ISC */
/*
 * The text of a line, made harmless.
 */
#include "log_outlets_priv.h"

#include <string.h>

#include "pgweir/base/banned.h"

/* Whether there is a byte below blank, or 0x7f, in any of the eight. */
static bool has_control(uint64_t word)
{
	const uint64_t ones = UINT64_MAX / 255, tops = ones << 7;
	uint64_t erased = word ^ (ones * 0x7f);

	return (((word - ones * ' ') & ~word) | ((erased - ones) & ~erased)) & tops;
}

/* How many bytes can be written as they are, at least: looked at eight at a time. */
static size_t count_plain(const char *text, size_t count)
{
	size_t done = 0;
	uint64_t word;

	for (; count - done >= sizeof(word); done += sizeof(word)) {
		memcpy(&word, text + done, sizeof(word));
		if (has_control(word))
			break;
	}
	return done;
}

/*
 * A line of the log never begins with a peer's words, and what
 * would move a terminal's cursor is spelled out.
 */
void log_text_add(struct buf *out, const char *text, size_t count)
{
	const char *from = text, *end = text + count;

	for (text += count_plain(text, count); text < end; text++) {
		unsigned char byte = (unsigned char)*text;

		if ((byte >= ' ' && byte != 0x7f) || byte == '\t')
			continue;
		buf_add(out, from, (size_t)(text - from));
		from = text + 1;
		if (byte == '\n')
			buf_add(out, "\n\t", 2);
		else
			buf_printf(out, "\\x%02x", byte);
	}
	buf_add(out, from, (size_t)(end - from));
	buf_add_byte(out, '\n');
}
