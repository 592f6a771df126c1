/* SPDX-License-Identifier: ISC */
/*
 * --ready and --drain.
 */
#include "probe.h"

#include <stdio.h>
#include <string.h>

#include "ask.h"

struct answer {
	bool is_ready;
	struct err *err;
};

static void on_ready_row(void *arg, const char *const *values, size_t count)
{
	struct answer *answer = arg;

	if (count < 2 || !values[0] || !values[1])
		return;
	answer->is_ready = strcmp(values[0], "yes") == 0;
	err_set(answer->err, ERR_STATE, "not ready: %s", values[1]);
}

static bool open_ask(struct ask *ask, const struct options *options, struct err *err)
{
	struct ask_whom whom;

	if (!ask_find(&whom, options->socket, options->user, err))
		return false;
	whom.user = options->as;
	return ask_open(ask, &whom, err);
}

bool probe_ready(const struct options *options)
{
	struct err err;
	struct answer answer = { .err = &err };
	struct ask ask;
	bool is_answered = open_ask(&ask, options, &err);

	if (is_answered) {
		err_set(&err, ERR_STATE, "the console did not respond to SHOW READY");
		is_answered = ask_query(&ask, "SHOW READY", on_ready_row, &answer, &err);
		ask_close(&ask);
	}
	if (is_answered && answer.is_ready)
		return true;
	fprintf(stderr, "%s\n", err.text);
	return false;
}

static void print_notice(const char *text) { fprintf(stderr, "%s\n", text); }

/* DRAIN has no rows. */
static void on_no_row(void *arg, const char *const *values, size_t count)
{
	(void)arg;
	(void)values;
	(void)count;
}

bool probe_drain(const struct options *options)
{
	char command[64];
	struct err err;
	struct ask ask;
	bool is_done = open_ask(&ask, options, &err);

	snprintf(command, sizeof(command), "DRAIN %s", options->seconds ? options->seconds : "");
	if (is_done) {
		ask.on_notice = print_notice;
		ask_patiently(&ask);
		is_done = ask_query(&ask, command, on_no_row, NULL, &err);
		ask_close(&ask);
	}
	if (!is_done)
		fprintf(stderr, "%s\n", err.text);
	return is_done;
}
