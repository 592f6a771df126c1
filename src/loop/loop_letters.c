/* SPDX-License-Identifier: ISC */
/*
 * A loop's mailbox.
 *
 *   loop_post() on any thread --> list, under the lock --> eventfd --> open() in the loop
 *
 * Hard here: one wake is enough for many letters, but none may be left without one. The first
 * letter after a wake was read writes the eventfd. What arrives while letters are being opened
 * causes another wake, so a loop that gets letters all the time still sees its descriptors.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "loop_priv.h"

#include "pgweir/base/banned.h"

void loop_letters_init(struct mailbox *mailbox)
{
	pthread_mutex_init(&mailbox->lock, NULL);
	TAILQ_INIT(&mailbox->letters);
	mailbox->wake.fd = -1;
}

void loop_letters_done(struct loop *loop)
{
	struct mailbox *mailbox = &loop->mailbox;

	loop_open_late(loop);
	if (mailbox->wake.fd >= 0) {
		watch_done(&mailbox->wake);
		close(mailbox->wake.fd);
	}
	pthread_mutex_destroy(&mailbox->lock);
}

/* The lock must be held. */
static void wake(struct mailbox *mailbox)
{
	if (mailbox->is_woken)
		return;
	mailbox->is_woken = true;
	eventfd_write(mailbox->wake.fd, 1);
}

static struct letter *take_first(struct mailbox *mailbox)
{
	struct letter *letter;

	pthread_mutex_lock(&mailbox->lock);
	letter = TAILQ_FIRST(&mailbox->letters);
	if (letter) {
		TAILQ_REMOVE(&mailbox->letters, letter, node);
		mailbox->count--;
		letter->is_posted = false;
	}
	pthread_mutex_unlock(&mailbox->lock);
	return letter;
}

static void on_wake(struct watch *watch, unsigned int what)
{
	struct mailbox *mailbox = &watch->loop->mailbox;
	struct letter *letter;
	eventfd_t ignored;
	size_t count;

	(void)what;
	eventfd_read(watch->fd, &ignored);
	pthread_mutex_lock(&mailbox->lock);
	mailbox->is_woken = false;
	count = mailbox->count;
	pthread_mutex_unlock(&mailbox->lock);
	while (count-- > 0 && (letter = take_first(mailbox)))
		letter->open(letter);
}

bool loop_take_letters(struct loop *loop, struct err *err)
{
	struct watch *watch = &loop->mailbox.wake;

	if (watch->fd >= 0)
		return true;
	watch_init(watch, loop, eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC), on_wake);
	if (watch->fd >= 0 && watch_set(watch, WATCH_READ))
		return true;
	err_set(err, ERR_FILES, "cannot prepare to wake the event loop: %s", strerror(errno));
	if (watch->fd >= 0)
		close(watch->fd);
	watch->fd = -1;
	return false;
}

void loop_post(struct loop *to, struct letter *letter)
{
	struct mailbox *mailbox = &to->mailbox;

	assert(mailbox->wake.fd >= 0 && !letter->is_posted);
	letter->is_late = false;
	pthread_mutex_lock(&mailbox->lock);
	TAILQ_INSERT_TAIL(&mailbox->letters, letter, node);
	mailbox->count++;
	letter->is_posted = true;
	wake(mailbox);
	pthread_mutex_unlock(&mailbox->lock);
}

void loop_take_back(struct loop *loop, struct letter *letter)
{
	struct mailbox *mailbox = &loop->mailbox;

	pthread_mutex_lock(&mailbox->lock);
	if (letter->is_posted) {
		TAILQ_REMOVE(&mailbox->letters, letter, node);
		mailbox->count--;
		letter->is_posted = false;
	}
	pthread_mutex_unlock(&mailbox->lock);
}

void loop_open_late(struct loop *loop)
{
	struct letter *letter;

	while ((letter = take_first(&loop->mailbox))) {
		letter->is_late = true;
		letter->open(letter);
	}
}

void loop_letters_wake(struct loop *loop)
{
	pthread_mutex_lock(&loop->mailbox.lock);
	wake(&loop->mailbox);
	pthread_mutex_unlock(&loop->mailbox.lock);
}
