/* SPDX-License-Identifier: ISC */
/*
 * loop/loop.c: letters from other threads are opened in the loop, in their order.
 */
#include "pgweir/loop/loop.h"

#include <pthread.h>
#include <semaphore.h>

#include "../unit.h"

struct reader {
	struct loop *loop;
	pthread_t thread;
	unsigned int opened;
	unsigned int late;
	unsigned int stop_at;
	int last[4]; /* the number of each sender's last letter */
};

struct note {
	struct letter letter;
	struct reader *reader;
	int sender, number;
	struct note *posts;      /* posted when this one is opened, or NULL */
	struct note *takes_back; /* taken back when this one is opened, or NULL */
};

static void open_note(struct letter *letter)
{
	struct note *note = (struct note *)letter;
	struct reader *reader = note->reader;

	unit_expect(pthread_equal(pthread_self(), reader->thread));
	unit_expect(note->number == reader->last[note->sender] + 1);
	reader->last[note->sender] = note->number;
	reader->opened++;
	reader->late += letter->is_late;
	if (note->takes_back)
		loop_take_back(reader->loop, &note->takes_back->letter);
	if (note->posts)
		loop_post(reader->loop, &note->posts->letter);
	if (reader->opened == reader->stop_at)
		loop_stop(reader->loop);
}

static struct reader make_reader(unsigned int stop_at)
{
	struct reader reader = { .loop = loop_new(NULL),
		                 .thread = pthread_self(),
		                 .stop_at = stop_at };

	ck_assert_ptr_nonnull(reader.loop);
	return reader;
}

static struct note make_note(struct reader *reader, int number)
{
	return (struct note){ .letter.open = open_note, .reader = reader, .number = number };
}

#define EACH 5000

struct sender {
	struct reader *reader;
	struct note notes[EACH];
};

static void *send_all(void *arg)
{
	struct sender *sender = arg;

	for (int i = 0; i < EACH; i++)
		loop_post(sender->reader->loop, &sender->notes[i].letter);
	return NULL;
}

START_TEST(letters_of_many_threads_are_opened_once_and_in_order)
{
	struct reader reader = make_reader(4 * EACH);
	static struct sender senders[4];
	pthread_t threads[4];

	for (int i = 0; i < 4; i++) {
		senders[i].reader = &reader;
		for (int j = 0; j < EACH; j++) {
			senders[i].notes[j] = make_note(&reader, j + 1);
			senders[i].notes[j].sender = i;
		}
	}
	for (int i = 0; i < 4; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, send_all, &senders[i]), 0);
	loop_run(reader.loop);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	loop_free(&reader.loop);
	ck_assert_uint_eq(reader.opened, 4 * EACH);
	ck_assert_uint_eq(reader.late, 0);
}
END_TEST

START_TEST(letters_posted_together_need_one_turn)
{
	struct reader reader = make_reader(100);
	struct note notes[100];

	for (int i = 0; i < 100; i++) {
		notes[i] = make_note(&reader, i + 1);
		loop_post(reader.loop, &notes[i].letter);
	}
	loop_run(reader.loop);
	ck_assert_uint_eq(loop_turn_count(reader.loop), 1);
	loop_free(&reader.loop);
}
END_TEST

START_TEST(a_letter_posted_by_a_letter_comes_in_the_next_turn)
{
	struct reader reader = make_reader(2);
	struct note first = make_note(&reader, 1), second = make_note(&reader, 2);

	first.posts = &second;
	loop_post(reader.loop, &first.letter);
	loop_run(reader.loop);
	ck_assert_uint_eq(loop_turn_count(reader.loop), 2);
	loop_free(&reader.loop);
}
END_TEST

START_TEST(a_letter_may_be_posted_again)
{
	struct reader reader = make_reader(1);
	struct note note = make_note(&reader, 1);

	for (int i = 1; i <= 3; i++) {
		reader.opened = 0;
		note.number = i;
		loop_post(reader.loop, &note.letter);
		loop_run(reader.loop);
	}
	ck_assert_int_eq(reader.last[0], 3);
	loop_free(&reader.loop);
}
END_TEST

START_TEST(a_letter_taken_back_is_not_opened)
{
	struct reader reader = make_reader(2);
	struct note before = make_note(&reader, 1), gone = make_note(&reader, 9),
		    unposted = make_note(&reader, 9), later = make_note(&reader, 9),
		    after = make_note(&reader, 2);

	before.takes_back = &later;
	loop_post(reader.loop, &before.letter);
	loop_post(reader.loop, &gone.letter);
	loop_post(reader.loop, &later.letter);
	loop_post(reader.loop, &after.letter);
	loop_take_back(reader.loop, &gone.letter);
	loop_take_back(reader.loop, &gone.letter);
	loop_take_back(reader.loop, &unposted.letter);
	loop_run(reader.loop);
	ck_assert_uint_eq(reader.opened, 2);
	loop_free(&reader.loop);
	ck_assert_uint_eq(reader.opened, 2);
}
END_TEST

START_TEST(letters_left_at_the_end_are_late)
{
	struct reader reader = make_reader(0);
	struct note notes[3];

	for (int i = 0; i < 3; i++) {
		notes[i] = make_note(&reader, i + 1);
		loop_post(reader.loop, &notes[i].letter);
		if (i == 1)
			loop_open_late(reader.loop);
	}
	ck_assert_uint_eq(reader.late, 2);
	loop_free(&reader.loop);
	ck_assert_uint_eq(reader.late, 3);
}
END_TEST

struct spender {
	struct task task;
	struct loop *loop;
};

static void spend(struct task *task)
{
	struct spender *spender = (struct spender *)task;

	if (loop_cpu(spender->loop) > 2000)
		loop_stop(spender->loop);
	loop_defer(spender->loop, task);
}

START_TEST(processor_time_is_that_of_the_runs)
{
	struct spender spender = { .task.run = spend, .loop = loop_new(NULL) };
	usec_t used;

	ck_assert_int_eq(loop_cpu(spender.loop), 0);
	loop_defer(spender.loop, &spender.task);
	loop_run(spender.loop);
	used = loop_cpu(spender.loop);
	ck_assert_int_gt(used, 2000);
	ck_assert_int_eq(loop_cpu(spender.loop), used); /* it does not run */
	loop_run(spender.loop);
	ck_assert_int_ge(loop_cpu(spender.loop), used);
	loop_undefer(spender.loop, &spender.task);
	loop_free(&spender.loop);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("loop/loop_letters");
	TCase *cases = tcase_create("loop_letters");

	tcase_set_timeout(cases, 20);
	tcase_add_test(cases, letters_of_many_threads_are_opened_once_and_in_order);
	tcase_add_test(cases, letters_posted_together_need_one_turn);
	tcase_add_test(cases, a_letter_posted_by_a_letter_comes_in_the_next_turn);
	tcase_add_test(cases, a_letter_may_be_posted_again);
	tcase_add_test(cases, a_letter_taken_back_is_not_opened);
	tcase_add_test(cases, letters_left_at_the_end_are_late);
	tcase_add_test(cases, processor_time_is_that_of_the_runs);
	suite_add_tcase(suite, cases);
	return unit_run(suite);
}
