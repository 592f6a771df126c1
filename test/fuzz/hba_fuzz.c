/* SPDX-License-Identifier: ISC */
/*
 * Fuzzing the HBA file: any content is accepted as a whole or refused with a
 * reason; accepted rules are matched and shown.
 */
#include "pgweir/auth/hba.h"

#include <assert.h>
#include <stdlib.h>

#include "../lib/auth_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void show(const struct hba *hba)
{
	struct buf texts = { 0 };

	assert(hba->count > 0);
	for (size_t i = 0; i < hba->count; i++) {
		const struct hba_rule *rule = &hba->rules[i];
		struct bytes rest;
		const char *text;
		int count = 0;

		assert(rule->pos.file && rule->pos.line > 0 && hba_type_name(rule->type));
		buf_clear(&texts);
		hba_rule_texts(rule, &texts);
		for (rest = buf_bytes(&texts); bytes_take_text(&rest, &text); count++)
			assert(count >= 2 || strlen(text) > 2);
		assert(count == 5);
	}
	buf_free(&texts);
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
	struct hba *hba;

	/* of any file of this machine */
	if (memmem(data, size, "@/", 2) || memmem(data, size, "include", 7))
		return 0;
	hba = hba_parse(bytes_of(data, size), bytes_text(ident), &problems);
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
