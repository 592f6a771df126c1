/* SPDX-License-Identifier: ISC */
/*
 * loop/crew.c
 */
#include "pgweir/loop/crew.h"

#include <pthread.h>
#include <semaphore.h>

#include "../unit.h"

struct note {
	struct letter letter;
	sem_t opened;
	pthread_t thread;
	char name[16];
	bool was_late;
};

static void open_note(struct letter *letter)
{
	struct note *note = (struct note *)letter;

	note->thread = pthread_self();
	note->was_late = letter->is_late;
	pthread_getname_np(pthread_self(), note->name, sizeof(note->name));
	sem_post(&note->opened);
}

static void make_note(struct note *note)
{
	*note = (struct note){ .letter.open = open_note };
	ck_assert_int_eq(sem_init(&note->opened, 0, 0), 0);
}

static struct solo *make_solo(void)
{
	struct err err;
	struct solo *solo = solo_new("web", &err);

	ck_assert_msg(solo, "%s", err.text);
	ck_assert_ptr_nonnull(solo_loop(solo));
	return solo;
}

START_TEST(solo_opens_letters_in_its_thread)
{
	struct solo *solo = make_solo();
	struct note before, after;
	struct err err;

	make_note(&before);
	make_note(&after);
	loop_post(solo_loop(solo), &before.letter);
	ck_assert_int_ne(sem_trywait(&before.opened), 0);
	ck_assert(solo_start(solo, &err));
	sem_wait(&before.opened);
	loop_post(solo_loop(solo), &after.letter);
	sem_wait(&after.opened);
	ck_assert(!pthread_equal(before.thread, pthread_self()));
	ck_assert(pthread_equal(before.thread, after.thread));
	ck_assert_str_eq(after.name, "web");
	ck_assert(!before.was_late && !after.was_late);
	solo_stop(solo);
	solo_free(&solo);
	ck_assert_ptr_null(solo);
}
END_TEST

START_TEST(solo_opens_late_letters_when_it_is_freed)
{
	struct solo *solo = make_solo();
	struct note note;
	struct err err;

	make_note(&note);
	ck_assert(solo_start(solo, &err));
	solo_stop(solo);
	loop_post(solo_loop(solo), &note.letter);
	ck_assert_int_ne(sem_trywait(&note.opened), 0);
	solo_free(&solo);
	ck_assert_int_eq(sem_trywait(&note.opened), 0);
	ck_assert(note.was_late);
	ck_assert(pthread_equal(note.thread, pthread_self()));
}
END_TEST

START_TEST(solo_may_be_stopped_and_started_again)
{
	struct solo *solo = make_solo();
	struct note note;
	struct err err;

	solo_stop(solo);
	for (int i = 0; i < 3; i++) {
		make_note(&note);
		ck_assert(solo_start(solo, &err));
		loop_post(solo_loop(solo), &note.letter);
		sem_wait(&note.opened);
		ck_assert(!note.was_late);
		solo_stop(solo);
		solo_stop(solo);
	}
	solo_free(&solo);
	solo_free(&solo);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("loop/solo");
	TCase *tests = tcase_create("solo");

	tcase_add_test(tests, solo_opens_letters_in_its_thread);
	tcase_add_test(tests, solo_opens_late_letters_when_it_is_freed);
	tcase_add_test(tests, solo_may_be_stopped_and_started_again);
	suite_add_tcase(suite, tests);
	return unit_run(suite);
}
