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
#include "pgweir/client/gate.h"
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

void load_gates_done(struct gates *gates);

struct tls_sets {
	struct tls_context *client; /* NULL: no TLS on this side */
	struct tls_context *server;
};

/* A configuration and what must be made of it before it is applied. */
struct parts {
	const struct config *config;
	struct users *users;
	struct hba *hba; /* NULL unless auth_type is hba */
	struct gates gates;
	struct tls_sets tls;
	struct ranges *proxies; /* NULL: keep those in force */
	struct web_rights *web; /* the same */
};

/*
 * The configuration, users, rules and gates. false: nothing is loaded, and *problems says why; it
 * has warnings in both cases.
 */
bool load_all(const char *file, struct parts *parts, struct problems *problems);

/*
 * Makes again what depends on the setting that was changed in parts->config. running: the
 * configuration that *parts was made of; a file of users or rules is read only if the new one
 * names another one. false: *err has the reason, and some parts may be missing. Further problems
 * and the warnings are logged.
 */
bool parts_make(struct parts *parts, const char *setting, const struct config *running,
                const struct logger *logger, struct err *err);

/* Frees or releases all parts. */
void parts_done(struct parts *parts);

/* The addresses of trusted proxies. false: *err has the setting and the reason. */
bool load_proxies(const struct config *config, struct ranges **proxies, struct err *err);

/* *hba is NULL if auth_type is not hba. false: *problems has the errors. */
bool load_hba(const struct config *config, struct hba **hba, struct problems *problems);

/* All [listeners], without TLS. hba: rules that they may share. false: *problems has the errors. */
bool load_gates(const struct config *config, const struct hba *hba, struct gates *gates,
                struct problems *problems);

/*
 * Reads the certificates of a listener. A context that is equal to one of the others (which may be
 * NULL) is shared with it. false: *err has the reason.
 */
bool load_gate_tls(struct gate_rules *rules, struct tls_context *main, struct tls_context *old,
                   struct err *err);

/* Adds an error that begins with a setting's name, with the file and line of that setting. */
void load_complain(const struct config *config, struct problems *problems, const struct err *err);

/* Whether auth_type, or that of a listener, needs auth_file. */
bool load_needs_users(const struct config *config);

/* The maximum number of descriptors that the configuration may need at once. */
unsigned long load_expected_files(const struct config *config);

/* certificates.c: warns of certificates of ours that have expired, or will soon. */
void certificates_judge(const struct config *config, struct problems *problems);

/* Logs the warnings, and the errors at this level, and how many more were dropped. */
void load_log_problems(const struct logger *logger, enum log_level level,
                       const struct problems *problems);

/* Before others: a log file may be unusable. false: nothing has changed. */
bool load_log(struct log *log, const struct options *options, const struct config *config,
              struct err *err);

/* If *err begins with a setting's name, puts the file and line of that setting before it. */
void load_say_where(const struct config *config, struct err *err);

/* ---- TLS contexts ---- */

/*
 * Makes both again from the files that the settings name. One that is equal to that before stays.
 * false: *err has the setting, the file and the reason, and one or both are missing.
 */
bool tls_sets_make(struct tls_sets *sets, const struct config *config, struct err *err);

/* Makes both contexts only to report their errors. */
void tls_sets_judge(const struct config *config, struct problems *problems);

/* Releases both. */
void tls_sets_done(struct tls_sets *sets);

#endif
