/* SPDX-License-Identifier: ISC */
/*
 * Work for a login on a helper thread.
 *
 * Hard here: the owner may end while a thread still works with the copies. Then the job owns the
 * object and frees it at its end.
 */
#include "pgweir/auth/auth_work.h"

#include <stddef.h>
#include <stdlib.h>

static void auth_work_free(struct auth_work *work)
{
	derived_release(&work->derived);
	buf_wipe(&work->texts);
	free(work);
}

/* Called on a helper thread. */
static void run(struct job *job)
{
	struct auth_work *work = (struct auth_work *)job;
	struct outside_question *question = &work->question;

	if (work->derived)
		derived_run(work->derived, question->password);
	else if (question->deadline && clock_now() >= question->deadline)
		work->answer = outside_reply(question, OUTSIDE_FAILED,
		                             "it waited too long for a helper thread");
	else
		work->answer = outside_judge(work->method, question);
}

static void done(struct job *job)
{
	struct auth_work *work = (struct auth_work *)job;

	work->is_running = false;
	if (!work->has_owner)
		auth_work_free(work);
	else if (!job->is_abandoned)
		work->runner.on_work(work->runner.arg);
}

/* Takes copies of the texts. NULL: no memory. */
static struct auth_work *make(const struct auth_runner *runner,
                              const struct outside_question *question)
{
	struct auth_work *work = calloc(1, sizeof(*work));
	struct outside_question *own;
	struct bytes rest;

	_Static_assert(offsetof(struct auth_work, job) == 0, "run() counts on it");
	if (!work)
		return NULL;
	own = &work->question;
	work->job = (struct job){ .run = run, .done = done };
	work->runner = *runner;
	work->has_owner = true;
	work->texts.is_secret = true;
	buf_add_cstr(&work->texts, question->password);
	buf_add_cstr(&work->texts, question->user);
	buf_add_cstr(&work->texts, question->options);
	buf_add_cstr(&work->texts, question->host);
	own->deadline = question->deadline;
	rest = buf_bytes(&work->texts);
	if (buf_ok(&work->texts) && bytes_take_text(&rest, &own->password) &&
	    bytes_take_text(&rest, &own->user) && bytes_take_text(&rest, &own->options) &&
	    bytes_take_text(&rest, &own->host))
		return work;
	auth_work_free(work);
	return NULL;
}

static bool begin(struct auth_work **work, bool is_slow)
{
	if (!*work)
		return false;
	(*work)->is_running = (*work)->runner.submit((*work)->runner.arg, &(*work)->job, is_slow);
	if ((*work)->is_running)
		return true;
	auth_work_drop(work);
	return false;
}

bool auth_work_derive(struct auth_work **work, const struct auth_runner *runner,
                      struct derived *derived, const char *password, bool is_slow)
{
	*work = make(runner, &(struct outside_question){ password, "", "", "", 0, "" });
	if (*work)
		(*work)->derived = derived_hold(derived);
	return begin(work, is_slow);
}

bool auth_work_ask(struct auth_work **work, const struct auth_runner *runner,
                   enum auth_method method, const struct outside_question *question)
{
	*work = make(runner, question);
	if (*work)
		(*work)->method = method;
	return begin(work, false);
}

void auth_work_drop(struct auth_work **workp)
{
	struct auth_work *work = *workp;

	*workp = NULL;
	if (!work)
		return;
	work->has_owner = false;
	if (work->is_running)
		workers_abandon(&work->job);
	else
		auth_work_free(work);
}
