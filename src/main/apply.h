/* SPDX-License-Identifier: ISC */
/*
 * A configuration comes into force: at the start, by RELOAD and by SET. What a module is given
 * of it is in one list, so no setting is applied by one of these and not by another.
 */
#ifndef PGWEIR_MAIN_APPLY_H
#define PGWEIR_MAIN_APPLY_H

#include "options.h"
#include "parts.h"

struct daemon;

/* The log first, as its files may be bad: false, and it is as it was. */
bool apply_log(struct log *log, const struct options *options, const struct config *config,
               struct err *err);

/*
 * Gives each module what it needs of daemon->config, its users, rules and certificates.
 * proxies: taken over; NULL: those that are in force stay. Cannot fail.
 */
void apply_settings(struct daemon *daemon, struct ranges *proxies);

/*
 * Puts another configuration in the place of the one in force, and applies it. Takes over the
 * reference to config and the parts, and leaves none.
 */
void apply_snapshot(struct daemon *daemon, const struct config *config, struct parts *parts);

#endif
