/* SPDX-License-Identifier: ISC */
/*
 * Fuzzing the heads of HTTP requests, with what is done with their parts: the path is decoded, the
 * query is split, the lists of Accept and the secret of Authorization are read.
 *
 * A head that comes in two parts must be understood like a whole one.
 */
#include "../../src/web/web_priv.h"

#include <assert.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool is_within(struct bytes part, struct bytes whole)
{
	return !part.at || (part.at >= whole.at && part.at + part.count <= whole.at + whole.count);
}

static void use(const struct http_head *head)
{
	static unsigned char hash[1][32];
	static const struct secrets secrets = { .count = 1, .hashes = hash };
	struct buf out = { 0 };

	http_decode(head->path, false, &out);
	http_read_arguments(head->query, "a", &out);
	assert(out.count <= head->path.count + head->query.count);
	buf_free(&out);
	http_list_has(head->accept, "application/openmetrics-text");
	assert(!rights_have_secret(&secrets, head->authorization));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bytes in = bytes_of(data, size);
	struct http_head whole, part;
	size_t seen = 0, again = 0;
	enum http_result result = http_head_read(in, &seen, &whole);

	if (result == HTTP_OK) {
		assert(whole.size <= size && whole.size <= HTTP_HEAD_MAX + 2);
		assert(is_within(whole.path, in) || bytes_are(whole.path, "/"));
		assert(is_within(whole.host, in));
		use(&whole);
	}
	/* The first byte says where to cut. */
	if (size > 1 && http_head_read(bytes_of(data, data[0] % size), &again, &part) == HTTP_MORE)
		assert(http_head_read(in, &again, &part) == result && part.size == whole.size &&
		       part.status == whole.status);
	return 0;
}
