/* SPDX-License-Identifier: ISC */
/*
 * Applies a configuration: at the start, by RELOAD and by SET. All three use the same list
 * of calls, so no setting is applied by one of them only.
 */
#ifndef PGWEIR_MAIN_APPLY_H
#define PGWEIR_MAIN_APPLY_H

#include "options.h"
#include "load.h"

struct daemon;

/*
 * Applies the settings of the log. Call it first: a log file may be unusable. false:
 * nothing has changed.
 */
bool apply_log(struct log *log, const struct options *options, const struct config *config,
               struct err *err);

/*
 * Gives each module its part of daemon->config, and the users, rules and certificates.
 * proxies: owned from now on; NULL: those in force are kept. Cannot fail.
 */
void apply_settings(struct daemon *daemon, struct ranges *proxies);

/*
 * Replaces the configuration in force and applies the new one. Takes over the reference to
 * config and the parts. Cannot fail.
 */
void apply_snapshot(struct daemon *daemon, const struct config *config, struct parts *parts);

#endif
