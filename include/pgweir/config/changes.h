/* SPDX-License-Identifier: ISC */
/*
 * Describes the differences of two configurations, one line per setting or entry:
 *
 *   default_pool_size: 20 -> 30
 *   listen_port: 6432 -> 7000 (needs a restart)
 *   database "app": changed host, password (its servers are replaced)
 *
 * For an entry only the names of its keys are listed, because some values are passwords.
 */
#ifndef PGWEIR_CONFIG_CHANGES_H
#define PGWEIR_CONFIG_CHANGES_H

#include "pgweir/config/config.h"

#define CONFIG_CHANGES_MAX 200 /* lines; further changes are only counted, in one more line */

/*
 * Called for each line. `name` is the setting's name, or `database "app"` and the like. Texts
 * are valid during the call.
 */
typedef void config_tell(void *arg, const char *name, const char *line);

/* Compares settings first, then the entries of [databases], [users] and [peers]. */
void config_compare(const struct config *old, const struct config *fresh, config_tell *tell,
                    void *arg);

/*
 * The same for one setting of a configuration of which only the output of SHOW CONFIG is known
 * (NULL = unset). A setting that `fresh` does not know is ignored.
 */
void config_compare_shown(const char *name, const char *shown, const struct config *fresh,
                          config_tell *tell, void *arg);

/* ---- where a value comes from ---- */

/* The line, variable or SET that set it, see source_pos_text(). No file and line 0: the default. */
struct source_pos config_origin(const struct config *config, const char *name);

/*
 * Returns the line that set this setting, for problems. If there is none: the file as a whole;
 * no file if it was SET. If `name` is not a setting: the file as a whole.
 */
struct source_pos config_source_pos(const struct config *config, const char *name);

/*
 * The same for a text that begins with the name of a setting. If no line set it, uses the next
 * setting in the text that was set by a line.
 */
struct source_pos config_source_pos_of_text(const struct config *config, const char *text);

#endif
