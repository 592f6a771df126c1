/* SPDX-License-Identifier: ISC */
/*
 * JSON strings.
 *
 * Hard here: the text may be anything that a peer sends. Overlong forms, halves of pairs and
 * what is above U+10FFFF are not UTF-8, although they look like it.
 */
#include "pgweir/base/json.h"

#include "pgweir/base/banned.h"

/* How many bytes of well-formed UTF-8 begin here; 0: none. *point is what they say. */
static size_t utf8_count(struct bytes text, uint32_t *point)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	const unsigned char *at = (const unsigned char *)text.at;
	size_t count = at[0] < 0x80   ? 1
	               : at[0] < 0xc2 ? 0
	               : at[0] < 0xe0 ? 2
	               : at[0] < 0xf0 ? 3
	                              : 4;

	if (count == 0 || at[0] > 0xf4 || count > text.count)
		return 0;
	*point = count == 1 ? at[0] : at[0] & (0x7fu >> count);
	for (size_t i = 1; i < count; i++) {
		if ((at[i] & 0xc0) != 0x80)
			return 0;
		*point = *point << 6 | (at[i] & 0x3f);
	}
	if (*point < least[count] || *point > 0x10ffff || (*point >= 0xd800 && *point < 0xe000))
		return 0;
	return count;
}

static bool is_escaped(uint32_t point)
{
	return point < ' ' || (point >= 0x7f && point < 0xa0) || point == 0x2028 || point == 0x2029;
}

static void add_point(struct buf *out, uint32_t point, struct bytes as_is)
{
	static const char names[] = "\"\"\\\\\nn\rr\tt";

	for (size_t i = 0; names[i]; i += 2) {
		if (point == (unsigned char)names[i]) {
			buf_add_byte(out, '\\');
			buf_add_byte(out, names[i + 1]);
			return;
		}
	}
	if (is_escaped(point))
		buf_printf(out, "\\u%04x", point);
	else
		buf_add(out, as_is.at, as_is.count);
}

void json_add_text(struct buf *out, struct bytes text)
{
	buf_add_byte(out, '"');
	while (text.count) {
		uint32_t point = 0;
		size_t count = utf8_count(text, &point);

		if (count)
			add_point(out, point, bytes_of(text.at, count));
		else
			buf_add_text(out, "\xef\xbf\xbd");
		text = bytes_skip(text, count ? count : 1);
	}
	buf_add_byte(out, '"');
}
