/* SPDX-License-Identifier: ISC */
/*
 * Users and rules that a test has as texts. The files are there during the call.
 */
#ifndef PGWEIR_TEST_AUTH_TEXT_H
#define PGWEIR_TEST_AUTH_TEXT_H

#include "pgweir/auth/hba.h"
#include "pgweir/auth/users.h"

#include "text_files.h"

/* users_load() of a file that gets this name. */
static inline struct users *users_parse(struct bytes text, const char *name,
                                        struct problems *problems)
{
	struct text_files files;
	struct users *users;

	text_files_begin(&files);
	text_files_add(&files, name, text);
	users = users_load(name, (struct source_pos){ 0 }, problems);
	text_files_end(&files);
	return users;
}

/* hba_load() of the files `hba` and `ident`. */
static inline struct hba *hba_parse(struct bytes text, struct bytes ident,
                                    struct problems *problems)
{
	struct text_files files;
	struct hba *hba;

	text_files_begin(&files);
	text_files_add(&files, "hba", text);
	text_files_add(&files, "ident", ident);
	hba = hba_load("hba", "ident", problems);
	text_files_end(&files);
	return hba;
}

/* Whether a rule with this ident map lets the system user log in. */
static inline bool map_admits(const struct hba *hba, const char *map, const char *system_user,
                              const char *user)
{
	struct hba_rule rule = { 0 };
	bool ok;

	buf_add_cstr(&rule.maps, map);
	ok = hba_rule_admits(hba, &rule, system_user, user);
	buf_free(&rule.maps);
	return ok;
}

#endif
