/* SPDX-License-Identifier: ISC */
/*
 * Writes JSON strings.
 */
#include "pgweir/base/json.h"

#include "pgweir/base/text.h"

#include "pgweir/base/banned.h"

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
		size_t count = text_utf8(text.at, text.count, &point);

		if (count)
			add_point(out, point, bytes_of(text.at, count));
		else
			buf_add_text(out, "\xef\xbf\xbd");
		text = bytes_skip(text, count ? count : 1);
	}
	buf_add_byte(out, '"');
}
