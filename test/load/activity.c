/* SPDX-License-Identifier: ISC */
/* The table of activities. */
#include "activity.h"

#include <stdio.h>
#include <string.h>

static const struct activity activities[] = {
	{ "read_simple", 100, read_simple },
	{ "read_extended", 100, read_extended },
	{ "read_several", 40, read_several },
	{ "read_large", 8, read_large },
	{ "read_row_by_row", 15, read_row_by_row },
	{ "read_own_name", 30, read_own_name },
	{ "be_noticed", 30, be_noticed },
	{ "fail_and_go_on", 40, fail_and_go_on },
	{ "cancel_alone", 8, cancel_alone },
	{ "cancel_in_transaction", 8, cancel_in_transaction },
	{ "write_one", 60, write_one },
	{ "write_transaction", 60, write_transaction },
	{ "write_and_roll_back", 20, write_and_roll_back },
	{ "write_and_fail", 20, write_and_fail },
	{ "write_in_one_message", 30, write_in_one_message },
	{ "fail_in_one_message", 20, fail_in_one_message },
	{ "pipeline_reads", 40, pipeline_reads },
	{ "pipeline_writes", 40, pipeline_writes },
	{ "pipeline_with_errors", 40, pipeline_with_errors },
	{ "pipeline_transaction", 30, pipeline_transaction },
	{ "pipeline_with_flush", 20, pipeline_with_flush },
	{ "use_prepared", 100, use_prepared },
	{ "describe_prepared", 20, describe_prepared },
	{ "replace_prepared", 40, replace_prepared },
	{ "prepare_and_fail", 20, prepare_and_fail },
	{ "use_prepared_in_transaction", 30, use_prepared_in_transaction },
	{ "deallocate_all", 5, deallocate_all },
	{ "pipeline_prepared", 60, pipeline_prepared },
	{ "copy_out", 15, copy_out },
	{ "copy_in", 15, copy_in },
	{ "copy_in_and_fail", 10, copy_in_and_fail },
	{ "reconnect_politely", 15, reconnect_politely },
	{ "leave_idle", 5, leave_idle },
	{ "leave_waiting", 8, leave_waiting },
	{ "leave_transaction", 8, leave_transaction },
	{ "leave_copy_out", 5, leave_copy_out },
	{ "leave_copy_in", 5, leave_copy_in },
	{ "leave_pipeline", 8, leave_pipeline },
	{ "leave_between_syncs", 8, leave_between_syncs },
	{ "leave_preparing", 8, leave_preparing },
	{ "leave_half_message", 5, leave_half_message },
};

#define ACTIVITIES (sizeof(activities) / sizeof(activities[0]))

static const struct activity *find(const char *name)
{
	for (size_t i = 0; i < ACTIVITIES; i++)
		if (strcmp(activities[i].name, name) == 0)
			return &activities[i];
	return NULL;
}

bool activity_exists(const char *name) { return find(name) != NULL; }

const struct activity *activity_pick(struct load *load)
{
	unsigned int total = 0;
	unsigned int chosen;
	size_t i = 0;

	if (load->options.only)
		return find(load->options.only);
	for (i = 0; i < ACTIVITIES; i++)
		total += activities[i].weight;
	chosen = load_random(load, total);
	for (i = 0; chosen >= activities[i].weight; i++)
		chosen -= activities[i].weight;
	return &activities[i];
}

void activity_list(void)
{
	for (size_t i = 0; i < ACTIVITIES; i++)
		printf("%-24s %u\n", activities[i].name, activities[i].weight);
}
