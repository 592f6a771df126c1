/* SPDX-License-Identifier: ISC */
/*
 * Fills a template with the lists of the console: `manual <template >document`. Built and
 * run by make, not installed.
 */
#include "pgweir/base/filter.h"

#include "admin_priv.h"

int main(void) { return filter_main("manual", admin_manual_fill); }
