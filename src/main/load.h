/* SPDX-License-Identifier: ISC */
/*
 * Loads a configuration and the files that it names, at the start, for a RELOAD and for
 * --check.
 */
#ifndef PGWEIR_MAIN_LOAD_H
#define PGWEIR_MAIN_LOAD_H

#include "pgweir/auth/hba.h"
#include "pgweir/auth/users.h"
#include "pgweir/base/log.h"
#include "pgweir/config/config.h"
#include "pgweir/net/range.h"

#include "options.h"

/*
 * Loads the configuration and the users and rules that it names (*hba is NULL unless
 * auth_type is hba). false: *problems contains every error, and nothing is loaded. It contains the
 * warnings in both cases.
 */
bool load_all(const char *file, const struct config **config, struct users **users,
              struct hba **hba, struct problems *problems);

/*
 * Checks the options of auth_type ldap and pam, even if auth_type is another one: SET may
 * change that. false: *err begins with the setting's name.
 */
bool load_check_options(const struct config *config, struct err *err);

/* The addresses of trusted proxies. false: *err has the setting and the reason. */
bool load_proxies(const struct config *config, struct ranges **proxies, struct err *err);

/*
 * The rules that *config names; *hba is NULL if auth_type is not hba. false: *problems has
 * the errors.
 */
bool load_hba(const struct config *config, struct hba **hba, struct problems *problems);

/* The maximum number of descriptors that the configuration may need at once. */
unsigned long load_expected_files(const struct config *config);

/* Warns of certificates of ours that have expired, or will soon. */
void load_judge_certificates(const struct config *config, struct problems *problems);

/* Logs the warnings, and how many more were dropped. */
void load_log_warnings(const struct logger *logger, const struct problems *problems);

/* The log's options, from the command line and the configuration. The texts are borrowed. */
struct log_options load_log_options(const struct options *options, const struct config *config);

/*
 * The users of auth_file; an empty set if auth_type does not need the file. NULL: *err has
 * the reason.
 */
struct users *load_users(const struct config *config, struct err *err);

/* If *err begins with a setting's name, puts the file and line of that setting before it. */
void load_say_where(const struct config *config, struct err *err);

#endif
