/* SPDX-License-Identifier: ISC */
/*
 * Loading a configuration and the files that it names, at the start, for a RELOAD and for --check.
 */
#ifndef PGWEIR_MAIN_LOAD_H
#define PGWEIR_MAIN_LOAD_H

#include "pgweir/auth/hba.h"
#include "pgweir/auth/users.h"
#include "pgweir/base/log.h"
#include "pgweir/config/config.h"
#include "pgweir/net/ranges.h"

#include "options.h"

/*
 * Loads the configuration, and the users and rules that it names (*hba is NULL unless
 * auth_type is hba). false: all that is wrong is in *problems, and nothing is loaded. Warnings
 * are there in any case.
 */
bool load_all(const char *file, const struct config **config, struct users **users,
              struct hba **hba, struct problems *problems);

/*
 * Whether what auth_type ldap or pam would work by is good: also while it is another, as SET
 * may change that. false: *err begins with the setting's name.
 */
bool load_check_options(const struct config *config, struct err *err);

/* The proxies that *config trusts. false: *err says which setting is wrong, and why. */
bool load_proxies(const struct config *config, struct ranges **proxies, struct err *err);

/* The rules that *config names; *hba is NULL when it names none. false as above. */
bool load_hba(const struct config *config, struct hba **hba, struct problems *problems);

/* The most descriptors that may be open at once. */
unsigned long load_expected_files(const struct config *config);

/* Logs the warnings, and says how many more there were. */
void load_log_warnings(const struct logger *logger, const struct problems *problems);

/* The options of the log by command line and configuration. The texts are borrowed. */
struct log_options load_log_options(const struct options *options, const struct config *config);

/* The users of auth_file; none if auth_type does not need the file. NULL: *err says why. */
struct users *load_users(const struct config *config, struct err *err);

/* If *err begins with the name of a setting, puts the file and line that set it in front. */
void load_say_where(const struct config *config, struct err *err);

#endif
