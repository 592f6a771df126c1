/* SPDX-License-Identifier: ISC */
/*
 * Activities: what clients do. One row each; a new one is a function and a row. The functions are
 * in reading.c, writing.c, pipelining.c, preparing.c, copying.c and leaving.c.
 */
#ifndef TEST_LOAD_ACTIVITY_H
#define TEST_LOAD_ACTIVITY_H

#include "client.h"

struct activity {
	const char *name;
	unsigned int weight; /* relative frequency */
	/* Step 0, 1, 2 ...: sends, and records the expected results. Called from the event loop. */
	enum step_result (*step)(struct client *client, unsigned int step);
};

/* Chooses one by weight, or the one named load->options.only. */
const struct activity *activity_pick(struct load *load);

/* Whether there is an activity of that name. */
bool activity_exists(const char *name);

/* Prints the names, one per line, on standard output. */
void activity_list(void);

/* reading.c */
enum step_result read_simple(struct client *client, unsigned int step);
enum step_result read_extended(struct client *client, unsigned int step);
enum step_result read_several(struct client *client, unsigned int step);
enum step_result read_large(struct client *client, unsigned int step);
enum step_result read_row_by_row(struct client *client, unsigned int step);
enum step_result read_own_name(struct client *client, unsigned int step);
enum step_result be_noticed(struct client *client, unsigned int step);
enum step_result fail_and_go_on(struct client *client, unsigned int step);
enum step_result cancel_alone(struct client *client, unsigned int step);
enum step_result cancel_in_transaction(struct client *client, unsigned int step);

/* writing.c */
enum step_result write_one(struct client *client, unsigned int step);
enum step_result write_transaction(struct client *client, unsigned int step);
enum step_result write_and_roll_back(struct client *client, unsigned int step);
enum step_result write_and_fail(struct client *client, unsigned int step);
enum step_result write_in_one_message(struct client *client, unsigned int step);
enum step_result fail_in_one_message(struct client *client, unsigned int step);

/* pipelining.c */
enum step_result pipeline_reads(struct client *client, unsigned int step);
enum step_result pipeline_writes(struct client *client, unsigned int step);
enum step_result pipeline_with_errors(struct client *client, unsigned int step);
enum step_result pipeline_transaction(struct client *client, unsigned int step);
enum step_result pipeline_with_flush(struct client *client, unsigned int step);

/* preparing.c */
enum step_result use_prepared(struct client *client, unsigned int step);
enum step_result describe_prepared(struct client *client, unsigned int step);
enum step_result replace_prepared(struct client *client, unsigned int step);
enum step_result prepare_and_fail(struct client *client, unsigned int step);
enum step_result use_prepared_in_transaction(struct client *client, unsigned int step);
enum step_result deallocate_all(struct client *client, unsigned int step);
enum step_result pipeline_prepared(struct client *client, unsigned int step);
enum step_result leave_preparing(struct client *client, unsigned int step);

/* copying.c */
enum step_result copy_out(struct client *client, unsigned int step);
enum step_result copy_in(struct client *client, unsigned int step);
enum step_result copy_in_and_fail(struct client *client, unsigned int step);

/* leaving.c */
enum step_result reconnect_politely(struct client *client, unsigned int step);
enum step_result leave_idle(struct client *client, unsigned int step);
enum step_result leave_waiting(struct client *client, unsigned int step);
enum step_result leave_transaction(struct client *client, unsigned int step);
enum step_result leave_copy_out(struct client *client, unsigned int step);
enum step_result leave_copy_in(struct client *client, unsigned int step);
enum step_result leave_pipeline(struct client *client, unsigned int step);
enum step_result leave_between_syncs(struct client *client, unsigned int step);
enum step_result leave_half_message(struct client *client, unsigned int step);

#endif
