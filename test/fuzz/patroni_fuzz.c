/* SPDX-License-Identifier: ISC */
/*
 * Fuzzing answers of a REST interface: the same result for any cut, and a list of hosts that can be
 * an entry's.
 */
#include "../../src/pool/patroni_priv.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "pgweir/config/entries.h"
#include "pgweir/net/fetch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_cluster(struct bytes text)
{
	struct patroni found = { 0 };
	unsigned int count = 0;
	struct bytes host;
	struct err err;

	if (patroni_read(text, &found, &err)) {
		for (const char *list = buf_text(&found.hosts); config_host_next(&list, &host);
		     count++) {
			assert(config_host_port(&host, 0));
			assert(host.count && *host.at != '/' && *host.at != '@');
		}
		assert(count && count <= CONFIG_HOSTS_MAX);
	}
	buf_free(&found.hosts);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bytes in = bytes_of(data, size), body = { 0 }, again;
	size_t seen = 0, cut = 0;
	enum fetch_answer answer;
	struct err err;

	read_cluster(in);
	answer = fetch_read(in, &seen, true, &body, &err);
	if (answer == FETCH_WHOLE) {
		assert(body.at >= in.at && body.at + body.count <= in.at + in.count);
		read_cluster(body);
	}
	/* The first byte says where to cut. */
	if (size > 1 &&
	    fetch_read(bytes_of(data, data[0] % size), &cut, false, &again, &err) == FETCH_MORE)
		assert(fetch_read(in, &cut, true, &again, &err) == answer);
	return 0;
}
