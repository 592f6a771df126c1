/* SPDX-License-Identifier: ISC */
/*
 * What is different between two configurations, in words: one line a setting or an
 * entry, such as
 *
 *   default_pool_size: 20 -> 30
 *   listen_port: 6432 -> 7000 (needs a restart)
 *   database "app": changed host, password (its servers are replaced)
 *
 * Of an entry only the names of its keys are told: there are passwords among the values.
 */
#ifndef PGWEIR_CONFIG_CHANGES_H
#define PGWEIR_CONFIG_CHANGES_H

#include "pgweir/config/config.h"

#define CONFIG_CHANGES_MAX 200 /* lines; what comes after them is only counted, in one more */

/* `name` is that of the setting, or `database "app"` and the like. Texts are good for the call. */
typedef void config_tell(void *arg, const char *name, const char *line);

/* Settings first, then the entries of [databases], [users] and [peers]. */
void config_compare(const struct config *old, const struct config *fresh, config_tell *tell,
                    void *arg);

/*
 * The same for one setting of a configuration that is only known by what SHOW CONFIG says
 * (NULL = unset). A setting that `fresh` does not know is not told of.
 */
void config_compare_shown(const char *name, const char *shown, const struct config *fresh,
                          config_tell *tell, void *arg);

#endif
