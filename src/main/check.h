/* SPDX-License-Identifier: ISC */
/*
 * Judging a configuration from the command line.
 */
#ifndef PGWEIR_MAIN_CHECK_H
#define PGWEIR_MAIN_CHECK_H

#include <stdbool.h>

#include "options.h"

/*
 * --check: says on stderr all that is wrong with a file and the files that it names, one
 * line each, with file, line, setting and reason; or on stdout that it is good. With
 * `against` also what a RELOAD
 * with this file would change there. false: something is wrong, or nobody answers there.
 */
bool check_file(const struct options *options);

#endif
