/* SPDX-License-Identifier: ISC */
/*
 * The daemon: the one object from which everything else hangs. Made once, by
 * main; a second one beside it, with a loop of its own, would not notice.
 */
#ifndef PGWEIR_MAIN_DAEMON_H
#define PGWEIR_MAIN_DAEMON_H

#include "pgweir/auth/hba.h"
#include "pgweir/net/ranges.h"
#include "pgweir/auth/users.h"
#include "pgweir/base/log.h"
#include "pgweir/config/config.h"

#include "activation.h"
#include "options.h"
#include "takeover.h"

struct daemon;

/*
 * Loads the configuration, and the users and rules that it names (*hba is NULL unless
 * auth_type is hba). false: all that is wrong is in *problems, and nothing is loaded. Warnings
 * are there in any case.
 */
bool daemon_load(const char *file, const struct config **config, struct users **users,
                 struct hba **hba, struct problems *problems);

/*
 * Whether what auth_type ldap or pam would work by is good: also while it is another, as SET
 * may change that. false: *err begins with the setting's name.
 */
bool daemon_check_outside(const struct config *config, struct err *err);

/* The proxies that *config trusts. false: *err says which setting is wrong, and why. */
bool daemon_load_proxies(const struct config *config, struct ranges **proxies, struct err *err);

/* The rules that *config names; *hba is NULL when it names none. false as above. */
bool daemon_load_hba(const struct config *config, struct hba **hba, struct problems *problems);

/* The most descriptors that may be open at once. */
unsigned long daemon_expected_files(const struct config *config);

/* Logs the warnings, and says how many more there were. */
void daemon_log_warnings(const struct logger *logger, const struct problems *problems);

/* How the log shall be by options and configuration. The texts are borrowed. */
struct log_options daemon_log_options(const struct options *options, const struct config *config);

/*
 * Opens everything: loop, resolver, listeners. Takes over the references to config,
 * users and hba, and the sockets that were given; log and options are borrowed. takeover: whose
 * listening sockets are used; its fd -1: nobody's. NULL: *err says why not.
 */
struct daemon *daemon_new(struct log *log, const struct options *options,
                          const struct config *config, struct users *users, struct hba *hba,
                          const struct activation *given, struct takeover *takeover,
                          struct err *err);

/*
 * Takes over what another process has, which goes on until that is certain. Nobody is let in
 * before. false: *err says why not, and the other process has it all.
 */
bool daemon_take_over(struct daemon *daemon, struct takeover *takeover, struct err *err);

/* Runs until it is told to stop; the service manager is told that we are ready. */
void daemon_run(struct daemon *daemon);

/* Closes everything. */
void daemon_free(struct daemon **daemon);

#endif
