/* SPDX-License-Identifier: ISC */
/*
 * Checks a configuration from the command line.
 */
#ifndef PGWEIR_MAIN_CHECK_H
#define PGWEIR_MAIN_CHECK_H

#include <stdbool.h>

#include "options.h"

/*
 * --check: prints all problems of a file, and of the files that it names, to stderr: one
 * line each, with file, line, setting and reason. Without problems, prints to stdout that
 * the configuration is good. With `against`, also prints what a RELOAD with this file would
 * change in that daemon. false: there is a problem, or that daemon does not answer.
 */
bool check_file(const struct options *options);

#endif
