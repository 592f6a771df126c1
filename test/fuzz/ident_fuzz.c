/* SPDX-License-Identifier: ISC */
/*
 * Fuzzing the ident file and map lookups: the first line is the system user name,
 * the second the database user, the rest the file.
 */
#include "../../src/auth/hba_priv.h"

#include <assert.h>
#include <stdlib.h>

#include "../lib/auth_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Removes the first line from *text. */
static char *take_line(struct bytes *text)
{
	const char *end = text->count ? memchr(text->at, '\n', text->count) : NULL;
	size_t count = end ? (size_t)(end - text->at) : text->count;
	char *line = strndup(text->count ? text->at : "", count);

	assert(line);
	*text = bytes_skip(*text, end ? count + 1 : count);
	return line;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bytes text = bytes_of(data, size);
	char *name = take_line(&text), *user = take_line(&text);
	bool is_of_others = memmem(data, size, "@/", 2) || memmem(data, size, "include", 7);
	struct problems problems = { 0 };
	struct hba *hba;

	if (is_of_others) /* any file of this machine */
		text = bytes_of("", 0);
	hba = hba_parse(bytes_text("local all all peer\n"), text, &problems);
	assert(!hba == problems_any(&problems));
	problems_done(&problems);
	for (size_t i = 0; hba && i < hba->mapping_count; i++) {
		const struct mapping *row = &hba->mappings[i];

		assert(ident_has_map(hba, row->map));
		map_admits(hba, row->map, name, user);
		map_admits(hba, row->map, row->system_user.text, row->user.text);
	}
	hba_release(&hba);
	free(name);
	free(user);
	return 0;
}
