/* SPDX-License-Identifier: ISC */
/*
 * Fuzzing digests of SQL texts: white space around a text changes nothing, the printed text has
 * only printable bytes, a text has the digest of its form, and two texts have the same digest if
 * the reference of the unit test says so. The second text is what follows the last 0xff, or the
 * first one with a space in it.
 */
#include "pgweir/pgwire/sql_digest.h"

#include "pgweir/base/buf.h"

#include <assert.h>
#include <stdlib.h>

#include "../../src/pgwire/sql_form_priv.h"
#include "../unit/pgwire/sql_digest_reference.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct hash_key secret = { { 1, 2 } };

static uint64_t digest_of(struct bytes text)
{
	struct sql_digest_key key = sql_digest_key(&secret);

	return sql_digest(&key, text);
}

static void ends_do_not_count(struct bytes text)
{
	uint64_t digest = digest_of(text);
	struct buf more = { 0 };

	buf_add_text(&more, " \t;--\n");
	buf_add(&more, text.at, text.count);
	assert(digest_of(buf_bytes(&more)) == digest);
	buf_free(&more);
}

static void form_has_the_digest(struct bytes text)
{
	char *form = malloc(text.count + SQL_FORM_ROOM);
	size_t size;

	assert(form);
	size = sql_form(text, form);
	assert(size <= text.count);
	assert(digest_of(bytes_of(form, size)) == digest_of(text));
	free(form);
}

static void compare(struct bytes one, struct bytes other)
{
	assert((digest_of(one) == digest_of(other)) ==
	       (sql_digest_reference(&secret, one) == sql_digest_reference(&secret, other)));
}

static void as_reference(struct bytes text)
{
	const char *last = text.count ? memrchr(text.at, 0xff, text.count) : NULL;
	size_t at = text.count / 2;
	struct buf more = { 0 };

	if (last) {
		at = (size_t)(last - text.at);
		compare(bytes_of(text.at, at), bytes_skip(text, at + 1));
		return;
	}
	buf_add(&more, text.at, at);
	buf_add_text(&more, " ");
	buf_add(&more, text.at + at, text.count - at);
	compare(text, buf_bytes(&more));
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
		assert(digest_of(text) ==
		           digest_of(bytes_of(data, size > SQL_DIGEST_MAX ? size - 1 : size)) ||
		       size == SQL_DIGEST_MAX + 1);
	if (size <= SQL_DIGEST_MAX)
		form_has_the_digest(text);
	as_reference(text);
	sql_digest_query(text, &printed);
	assert(printed.count < sizeof(out) && strlen(out) == printed.count);
	printed = strbuf_begin(out, sizeof(out));
	sql_digest_text(text, &printed);
	assert(printed.count < sizeof(out) && strlen(out) == printed.count);
	for (size_t i = 0; i < printed.count; i++)
		assert(out[i] >= ' ' && out[i] <= '~');
	return 0;
}
