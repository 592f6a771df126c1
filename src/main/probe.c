/* SPDX-License-Identifier: ISC */
/*
 * --ready and --drain.
 */
#include "pgweir/main/probe.h"

#include <stdio.h>
#include <string.h>

#include "pgweir/main/ask.h"

#include "pgweir/base/banned.h"

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

bool probe_ready(const char *socket, const char *user)
{
	struct err err;
	struct answer answer = { .err = &err };
	struct ask ask;
	bool is_answered = ask_open(&ask, socket, user, &err);

	if (is_answered) {
		err_set(&err, ERR_STATE, "what answers there does not say whether it is ready");
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

bool probe_drain(const char *socket, const char *user, const char *seconds)
{
	char command[64];
	struct err err;
	struct ask ask;
	bool is_done = ask_open(&ask, socket, user, &err);

	snprintf(command, sizeof(command), "DRAIN %s", seconds ? seconds : "");
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
