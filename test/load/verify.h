/* SPDX-License-Identifier: ISC */
/* The table that clients write to: made before the run, compared with their ledgers after it. */
#ifndef TEST_LOAD_VERIFY_H
#define TEST_LOAD_VERIFY_H

#include <stdbool.h>

struct client;
struct load;

/* Makes the table anew. False after a message on standard error. Blocks. */
bool verify_prepare(const struct load *load);

/*
 * Counts in load->tally what is lost, doubled, in the table without leave, or not as it was
 * written. False if the table could not be read. Blocks.
 */
bool verify_table(struct load *load, struct client *clients);

#endif
