/* SPDX-License-Identifier: ISC */
/* The table that clients write to: created before the run, compared with their ledgers after it. */
#ifndef TEST_LOAD_VERIFY_H
#define TEST_LOAD_VERIFY_H

#include <stdbool.h>

struct client;
struct load;

/* Creates an empty table. False after a message on standard error. Blocks. */
bool verify_prepare(const struct load *load);

/*
 * Counts in load->tally lost, duplicate, unexpected and modified rows. False if the table could
 * not be read. Blocks.
 */
bool verify_table(struct load *load, struct client *clients);

#endif
