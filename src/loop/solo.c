/* SPDX-License-Identifier: ISC */
/*
 * A loop with a thread of its own.
 */
#include "pgweir/loop/solo.h"

#include <stdlib.h>

#include "pgweir/base/container_of.h"

#include "thread_priv.h"

#include "pgweir/base/banned.h"

#define SOLO_STACK_SIZE ((size_t)1024 * 1024)

struct solo {
	struct loop *loop;
	const char *name;
	pthread_t thread;
	bool is_started;
	struct letter stop;
};

static void *run_solo(void *arg)
{
	struct solo *solo = arg;

	pthread_setname_np(pthread_self(), solo->name);
	loop_run(solo->loop);
	return NULL;
}

static void on_stop_letter(struct letter *letter)
{
	struct solo *solo = container_of(letter, struct solo, stop);

	if (!letter->is_late)
		loop_stop(solo->loop);
}

struct solo *solo_new(const char *name, struct err *err)
{
	struct solo *solo = calloc(1, sizeof(*solo));

	if (!solo) {
		err_set(err, ERR_MEMORY, "no memory for an event loop");
		return NULL;
	}
	solo->name = name;
	solo->stop.open = on_stop_letter;
	solo->loop = loop_new(err);
	if (!solo->loop || !loop_take_letters(solo->loop, err))
		solo_free(&solo);
	return solo;
}

struct loop *solo_loop(const struct solo *solo) { return solo->loop; }

bool solo_start(struct solo *solo, struct err *err)
{
	solo->is_started = thread_start(&solo->thread, run_solo, solo, SOLO_STACK_SIZE, err);
	return solo->is_started;
}

void solo_stop(struct solo *solo)
{
	if (!solo->is_started)
		return;
	loop_post(solo->loop, &solo->stop);
	pthread_join(solo->thread, NULL);
	solo->is_started = false;
}

void solo_free(struct solo **solo)
{
	if (!*solo)
		return;
	loop_free(&(*solo)->loop);
	free(*solo);
	*solo = NULL;
}
