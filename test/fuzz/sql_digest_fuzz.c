/* SPDX-License-Identifier: ISC */
/*
 * Fuzzing digests of SQL texts: white space around a text changes nothing, and the printed text has
 * only printable bytes.
 */
#include "pgweir/pgwire/sql_digest.h"

#include "pgweir/base/buf.h"

#include <assert.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void ends_do_not_count(struct bytes text)
{
	uint64_t digest = sql_digest(text);
	struct buf more = { 0 };

	buf_add_text(&more, " \t;--\n");
	buf_add(&more, text.at, text.count);
	assert(sql_digest(buf_bytes(&more)) == digest);
	buf_free(&more);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bytes text = bytes_of(data, size);
	char out[512];
	struct strbuf printed = strbuf_begin(out, sizeof(out));

	if (size + 10 < SQL_DIGEST_MAX)
		ends_do_not_count(text);
	else
		assert(sql_digest(text) ==
		           sql_digest(bytes_of(data, size > SQL_DIGEST_MAX ? size - 1 : size)) ||
		       size == SQL_DIGEST_MAX + 1);
	sql_digest_query(text, &printed);
	assert(printed.count < sizeof(out) && strlen(out) == printed.count);
	printed = strbuf_begin(out, sizeof(out));
	sql_digest_text(text, &printed);
	assert(printed.count < sizeof(out) && strlen(out) == printed.count);
	for (size_t i = 0; i < printed.count; i++)
		assert(out[i] >= ' ' && out[i] <= '~');
	return 0;
}
