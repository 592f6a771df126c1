/* SPDX-License-Identifier: ISC */
/*
 * Fuzzing the HBA file: any content is accepted as a whole or refused with a
 * reason; accepted rules are matched and shown.
 */
#include "pgweir/auth/hba.h"

#include <assert.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void show(const struct hba *hba)
{
	struct hba_lists lists = { 0 };
	struct hba_row row;
	size_t count = 0;

	while (hba_row(hba, count, &row, &lists)) {
		assert(row.file && row.line > 0 && row.type && row.method);
		assert(lists.database.count > 2 && lists.user.count > 2);
		buf_clear(&lists.database);
		buf_clear(&lists.user);
		buf_clear(&lists.options);
		count++;
	}
	assert(count == hba_rule_count(hba) && count > 0);
	buf_free(&lists.database);
	buf_free(&lists.user);
	buf_free(&lists.options);
}

static void match(const struct hba *hba, const struct address *peer, bool is_tls)
{
	static const struct {
		const char *host;
		bool is_known;
	} hosts[] = { { NULL, false }, { NULL, true }, { "a.example.com", true } };
	const struct hba_rule *rule;

	for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++) {
		enum hba_answer answer = hba_find(hba,
		                                  &(struct hba_facts){
						      .peer = peer,
						      .database = "db",
						      .user = "user",
						      .is_tls = is_tls,
						      .is_physical = i == 1,
						      .is_host_known = hosts[i].is_known,
						      .host = hosts[i].host,
						  },
		                                  &rule);

		assert((answer == HBA_RULE) == (rule != NULL));
		assert(answer != HBA_NEEDS_HOST || !hosts[i].is_known);
		if (rule)
			hba_rule_admits(hba, rule, "root", "user");
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char ident[] = "m root user\nm /^(.*)t$ \\1\n";
	static const char *const peers[] = { "127.0.0.1", "10.1.2.3", "::1", "fe80::1" };
	struct address address = { .un = { .family = AF_UNIX } };
	struct problems problems = { 0 };
	struct hba *hba = hba_parse(bytes_of(data, size), bytes_text(ident), &problems);

	assert(!hba == problems_any(&problems));
	problems_done(&problems);
	if (!hba)
		return 0;
	show(hba);
	match(hba, &address, false);
	for (size_t i = 0; i < sizeof(peers) / sizeof(peers[0]); i++) {
		address_parse(&address, peers[i], 1);
		match(hba, &address, i % 2);
	}
	hba_release(&hba);
	return 0;
}
