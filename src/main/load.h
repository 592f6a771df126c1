/* SPDX-License-Identifier: ISC */
/*
 * Loads a configuration and the files that it names, at the start, for a RELOAD and for --check;
 * and looks for what is wrong with it.
 */
#ifndef PGWEIR_MAIN_LOAD_H
#define PGWEIR_MAIN_LOAD_H

#include "pgweir/auth/hba.h"
#include "pgweir/auth/users.h"
#include "pgweir/base/log.h"
#include "pgweir/client/clients.h"
#include "pgweir/config/config.h"
#include "pgweir/net/address.h"
#include "pgweir/net/tls.h"
#include "pgweir/web/web.h"

#include "options.h"

/* What the entries of [listeners] say, one after the other. */
struct gates {
	size_t count;
	struct gate_rules at[CONFIG_LISTENERS_MAX];
};

/* A configuration and what must be made of it before it is applied. */
struct parts {
	const struct config *config;
	struct users *users;
	struct hba *hba; /* NULL unless auth_type is hba */
	struct gates gates;
	struct {
		struct tls_context *client, *server; /* NULL: no TLS on this side */
	} tls;
	struct ranges *proxies;
	struct web_rights *web; /* NULL unless metrics_listen is set */
};

/*
 * Files that the configuration names: users, rules, gates. At the start they are read with the
 * rights of root. Warns of what looks wrong in other files. false: *problems says why; what could
 * be loaded is there, for further checks.
 */
bool load_files(struct parts *parts, struct problems *problems);

/* The configuration and load_files(). false: nothing is loaded. */
bool load_all(const char *file, struct parts *parts, struct problems *problems);

/*
 * All other parts, with the rights of the daemon's user. parts->tls has the contexts before: one
 * that is equal to that before stays. false: *problems says why, and some parts are missing.
 */
bool load_make(struct parts *parts, struct problems *problems);

/*
 * Makes again what depends on the setting that was changed in parts->config. running: the
 * configuration that *parts was made of; a file of users or rules is read only if the new one
 * names another one. false: *problems says why, and some parts may be missing.
 */
bool parts_make(struct parts *parts, const char *setting, const struct config *running,
                struct problems *problems);

/* References to what another configuration has in common with these; owns the configuration. */
struct parts parts_hold(const struct parts *parts, const struct config *config);

/* Frees or releases all parts. */
void parts_done(struct parts *parts);

/* If the contexts are equal, the old one is kept. Both may be NULL. */
void load_keep_same(struct tls_context **fresh, struct tls_context *old);

/* Adds an error that may begin with a setting's name, with its file and line. Returns false. */
bool load_complain(const struct config *config, struct problems *problems, const struct err *err);

/* The maximum number of descriptors that the configuration may need at once. */
unsigned long load_expected_files(const struct config *config);

/* Logs the warnings, and the errors at this level, and how many more were dropped. */
void load_log_problems(const struct logger *logger, enum log_level level,
                       const struct problems *problems);

/* Before others: a log file may be unusable. false: nothing has changed. */
bool load_log(struct log *log, const struct options *options, const struct config *config,
              struct err *err);

/* If *err begins with a setting's name, puts the file and line of that setting before it. */
void load_say_where(const struct config *config, struct err *err);

/* --check and --against. false: there is a problem, or that daemon does not answer. */
bool check_file(const struct options *options);

/* ---- what a reload changes of rules: reload.c ---- */

/* type, database, user_name, address, netmask, auth_method, options */
#define RECOUNT_RULE_COLUMNS 7

/* Zeroed: empty. */
struct recount {
	struct recount_line *lines;
	size_t new_count;
	bool is_broken; /* a line is missing, for lack of memory */
};

/* By how much a rule of the configuration in force, and of the new one, changes its line. */
enum recount_of { RECOUNT_OLD = -1, RECOUNT_NEW = 1 };

/* Adds a rule. columns: those of SHOW HBA; each may be NULL. */
void recount_rule(struct recount *recount, const char *const *columns, enum recount_of whose);

/* Adds all rules. hba may be NULL. */
void recount_rules(struct recount *recount, const struct hba *hba, enum recount_of whose);

/* Frees all, and adds "9 rules (2 new, 1 gone)". false: nothing is new or gone. */
bool recount_end(struct recount *recount, struct buf *out);

#endif
