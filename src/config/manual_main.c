/* SPDX-License-Identifier: ISC */
/*
 * Fills a template with the lists of settings: `manual <template >document`.
 * Built and run by make, not installed.
 */
#include "pgweir/base/filter.h"

#include "config_priv.h"

int main(void) { return filter_main("manual", manual_fill); }
