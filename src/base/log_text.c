/* SPDX-License-Identifier: ISC */
/*
 * Makes the text of a line harmless.
 */
#include "log_outlets_priv.h"

#include <string.h>

#include "pgweir/base/text.h"

#include "pgweir/base/banned.h"

/* Whether any of the eight bytes is below blank, 0x7f, or not ASCII. */
static bool has_control(uint64_t word)
{
	const uint64_t ones = UINT64_MAX / 255, tops = ones << 7;
	uint64_t erased = word ^ (ones * 0x7f);

	return ((word - ones * ' ') | ((erased - ones) & ~erased) | word) & tops;
}

/*
 * Returns the size of the character at `text` if it may be written as it is, else 0. Terminals
 * treat U+0080 to U+009F as commands too, both in UTF-8 and as single bytes. So invalid UTF-8
 * is escaped if the byte is below 0xa0.
 */
static size_t count_harmless(const char *text, size_t capacity)
{
	unsigned char byte = (unsigned char)*text;
	uint32_t point = 0;
	size_t count = text_utf8(text, capacity, &point);

	if (!count)
		return byte >= 0xa0;
	return point == '\t' || (point >= ' ' && point < 0x7f) || point >= 0xa0 ? count : 0;
}

/*
 * Returns a number of bytes at the front that may be written as they are. Checks eight at a
 * time, so there may be more.
 */
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

void log_text_add(struct buf *out, const char *text, size_t count)
{
	const char *from = text, *end = text + count;

	for (text += count_plain(text, count); text < end;) {
		size_t harmless = count_harmless(text, (size_t)(end - text));
		unsigned char byte = (unsigned char)*text;

		if (harmless) {
			text += harmless;
			continue;
		}
		buf_add(out, from, (size_t)(text - from));
		from = ++text;
		if (byte == '\n')
			buf_add(out, "\n\t", 2);
		else
			buf_printf(out, "\\x%02x", byte);
	}
	buf_add(out, from, (size_t)(end - from));
	buf_add_byte(out, '\n');
}
