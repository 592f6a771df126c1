/* SPDX-License-Identifier: ISC */
/*
 * Fuzzing SCRAM in the server's role. The input is two messages with a zero
 * between them; a leading '+' of the second is replaced by the correct joint nonce.
 */
#include "pgweir/auth/scram.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void final(struct scram *scram, struct bytes message)
{
	struct scram_keys keys = { .stored_key = { 1, 2, 3 } };
	struct buf text = { 0 }, out = { 0 };

	if (message.count && message.at[0] == '+') {
		buf_add_text(&text, scram->gs2 == 'y' ? "c=eSws,r=" : "c=biws,r=");
		buf_add(&text, scram->joint.at, scram->joint.count);
		message = bytes_skip(message, 1);
	}
	buf_add(&text, message.at, message.count);
	if (scram_server_read(scram, buf_bytes(&text), NULL))
		assert(!scram_server_check(scram, &keys, &out, NULL) && !out.count);
	buf_free(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bytes in = bytes_of(data, size), first = in;
	const char *cut = size ? memchr(data, 0, size) : NULL;
	struct scram scram = { .nonce = "ours" };
	struct buf out = { 0 };

	if (cut)
		first.count = (size_t)(cut - in.at);
	if (scram_server_first(&scram, first, bytes_text("salt"), 4096, &out, NULL)) {
		assert(buf_ok(&out) && out.count <= SCRAM_MESSAGE_MAX);
		if (cut)
			final(&scram, bytes_skip(in, first.count + 1));
	}
	buf_free(&out);
	scram_done(&scram);
	return 0;
}
