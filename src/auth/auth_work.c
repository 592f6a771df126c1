/* SPDX-License-Identifier: ISC */
/*
 * Work for a login on a helper thread.
 */
#include "pgweir/auth/auth_work.h"

static void done(struct job *job)
{
	struct auth_work *work = (struct auth_work *)job;

	_Static_assert(offsetof(struct auth_work, job) == 0, "jobs are found by it");
	work->is_running = false;
	if (work->is_dropped)
		work->free_object(work);
	else if (!job->is_abandoned)
		work->runner.on_work(work->runner.arg);
}

bool auth_work_begin(struct auth_work *work, void (*run)(struct job *job), bool is_slow)
{
	work->job = (struct job){ .run = run, .done = done };
	work->is_running = work->runner.submit(work->runner.arg, &work->job, is_slow);
	return work->is_running;
}

void auth_work_drop(struct auth_work *work)
{
	if (!work)
		return;
	work->is_dropped = true;
	if (work->is_running)
		workers_abandon(&work->job);
	else
		work->free_object(work);
}
