/* SPDX-License-Identifier: ISC */
/*
 * Fuzzing a server's response to auth_query. The first byte is the size of the pieces in
 * which the rest arrives; the result must be the same as for all of it at once.
 */
#include "../../src/client/login/login_priv.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool same(const char *a, const char *b) { return a && b ? strcmp(a, b) == 0 : !a && !b; }

static enum auth_reply_verdict take_all(struct auth_reply *replies, struct bytes in, size_t piece)
{
	enum auth_reply_verdict verdict;

	while (in.count) {
		size_t count = piece < in.count ? piece : in.count;

		auth_reply_take(replies, bytes_of(in.at, count));
		in = bytes_skip(in, count);
	}
	verdict = auth_reply_end(replies);
	assert(verdict == replies->verdict && verdict != AUTH_REPLY_NONE);
	/* A result needs an end, a row and a name; a refusal needs its reason. */
	if (verdict == AUTH_REPLY_USER)
		assert(replies->is_done && replies->name);
	if (verdict == AUTH_REPLY_BAD)
		assert(replies->why.code != ERR_NONE);
	return verdict;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bytes in = bytes_of(data, size);
	struct auth_reply whole = { 0 }, cut = { 0 };
	size_t piece = size ? (size_t)data[0] + 1 : 1;

	if (size)
		in = bytes_skip(in, 1);
	take_all(&whole, in, size);
	take_all(&cut, in, piece);
	assert(whole.verdict == cut.verdict && whole.why.code == cut.why.code);
	if (whole.verdict == AUTH_REPLY_USER)
		assert(same(whole.name, cut.name) && same(whole.secret, cut.secret));
	auth_reply_done(&whole);
	auth_reply_done(&cut);
	return 0;
}
