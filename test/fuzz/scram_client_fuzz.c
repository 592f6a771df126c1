/* SPDX-License-Identifier: ISC */
/*
 * Fuzzing SCRAM in the client's role. The input is server-first (after "r=" and our
 * nonce if it begins with '+'), a zero, and server-final.
 */
#include "pgweir/auth/scram.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool read_first(struct scram *scram, struct bytes message)
{
	struct scram_challenge challenge;
	struct buf text = { 0 };
	bool ok;

	if (message.count && message.at[0] == '+') {
		buf_printf(&text, "r=%s", scram->nonce);
		message = bytes_skip(message, 1);
	}
	buf_add(&text, message.at, message.count);
	ok = scram_client_read(scram, buf_bytes(&text), &challenge, NULL);
	assert(!ok || (challenge.iterations > 0 && challenge.salt_count > 0));
	buf_free(&text);
	return ok;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bytes in = bytes_of(data, size), first = in;
	const char *cut = size ? memchr(data, 0, size) : NULL;
	struct scram scram = { .nonce = "ours" };
	struct scram_keys keys = { .server_key = { 1, 2, 3 } };
	struct buf out = { 0 };

	if (cut)
		first.count = (size_t)(cut - in.at);
	assert(scram_client_first(&scram, "", &out, NULL));
	if (read_first(&scram, first) && cut && scram_client_final(&scram, &keys, &out, NULL))
		assert(!scram_client_check(&scram, &keys, bytes_skip(in, first.count + 1), NULL));
	buf_free(&out);
	scram_done(&scram);
	return 0;
}
