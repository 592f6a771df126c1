/* SPDX-License-Identifier: ISC */
/*
 * The event loop, on libevent. Only this file uses libevent.
 *
 *   turn:  wait --> descriptors, signals, due timers --> deferred tasks --> turn's end --> again
 *                                                                           [parked, if called]
 */
#include "pgweir/loop/loop.h"

#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <event2/event.h>
#include <event2/event_struct.h>

#include "pgweir/base/buf.h"
#include "pgweir/base/container_of.h"
#include "pgweir/base/heap.h"
#include "pgweir/base/lock.h"
#define HASH_FUNCTION HASH_FNV /* servers and clients set timers often */
#define HASH_NONFATAL_OOM 1    /* out of memory: the element is not added and its hh.tbl is NULL */
#include "pgweir/base/table.h"

TAILQ_HEAD(task_list, task);
TAILQ_HEAD(letter_list, letter);

struct signal_watch {
	struct event event;
	struct loop *loop;
	void (*on_signal)(int number, void *arg);
	void *arg;
	struct signal_watch *next;
};

struct mailbox {
	struct watch wake;    /* on an eventfd */
	pthread_mutex_t lock; /* guards all fields below */
	struct letter_list letters;
	size_t count;
	bool is_woken; /* the eventfd was written and not yet read */
};

/* When the loop has to look at its timers. */
struct loop_alarm {
	struct watch watch; /* on a timerfd */
	usec_t at;          /* that is set for this time; 0: it has come */
	struct heap queues; /* all timer queues */
};

struct loop {
	struct loop_clock clock; /* comes first: loop_now() */
	struct event_base *base;
	unsigned long turn_count;
	bool is_turning;
	bool is_stopping; /* atomic */
	usec_t poll_limit;
	usec_t poll_until;         /* when the loop may sleep again */
	unsigned long call_count;  /* callbacks made by libevent */
	unsigned long ready_count; /* those for descriptors */
	unsigned long poll_count;  /* turns in which polling found something */
	struct task_list tasks;
	void (*at_turn_end)(void *arg);
	void *at_turn_end_arg;
	struct timer_queue *timer_queues;
	struct loop_alarm alarm;
	struct signal_watch *signals;
	int *leaving; /* descriptors to close once the kernel no longer watches them */
	size_t leaving_count, leaving_capacity;
	bool is_called;  /* atomic: park at the end of the turn */
	bool was_parked; /* the next turn must not sleep */
	void (*park)(void *arg);
	void *park_arg;
	bool is_running; /* `thread` and cpu_clock are valid */
	bool is_parked;  /* atomic: its objects belong to the main thread */
	pthread_t thread;
	clockid_t cpu_clock;
	usec_t cpu_before; /* of earlier runs, without what polling has wasted */
	/* its processor time when it began to poll; 0: since then, a callback has run */
	usec_t wasted_since;
	char scratch[LOOP_SCRATCH_SIZE];
	/* Written by other threads, so it is far from what the loop itself uses most. */
	struct mailbox mailbox;
};

static bool loop_is_mine(const struct loop *loop)
{
	return !__atomic_load_n(&loop->is_running, __ATOMIC_ACQUIRE) ||
	       __atomic_load_n(&loop->is_parked, __ATOMIC_RELAXED) ||
	       pthread_equal(loop->thread, pthread_self());
}

/* In builds with AddressSanitizer: the loop's objects must belong to this thread now. */
#define loop_assert_mine(loop) assert(!RULES_ARE_CHECKED || loop_is_mine(loop))

/*
 * ---- processor time ----
 *
 * Hard here: other threads read it while the loop runs. Polling that finds nothing is taken off the
 * time at its end, and until then the time stands still.
 */

static usec_t read_clock(clockid_t clock)
{
	struct timespec time = { 0 };

	clock_gettime(clock, &time);
	return time.tv_sec * USEC_PER_SEC + time.tv_nsec / 1000;
}

/* Processor time since wasted_since does not count. */
static void loop_cpu_end_waste(struct loop *loop)
{
	usec_t wasted = read_clock(CLOCK_THREAD_CPUTIME_ID) - loop->wasted_since;

	__atomic_sub_fetch(&loop->cpu_before, wasted, __ATOMIC_RELAXED);
	__atomic_store_n(&loop->wasted_since, 0, __ATOMIC_RELEASE);
}

/* Each callback of libevent begins with it: what the loop does is of use again. */
static void loop_called(struct loop *loop)
{
	loop->call_count++;
	if (loop->wasted_since)
		loop_cpu_end_waste(loop);
}

usec_t loop_cpu(const struct loop *loop)
{
	bool is_running = __atomic_load_n(&loop->is_running, __ATOMIC_ACQUIRE);
	usec_t now = __atomic_load_n(&loop->wasted_since, __ATOMIC_ACQUIRE);

	if (is_running && !now)
		now = read_clock(loop->cpu_clock);
	return __atomic_load_n(&loop->cpu_before, __ATOMIC_RELAXED) + now;
}

/*
 * ---- letters ----
 *
 *   loop_post() on any thread --> list, under the lock --> eventfd --> open() in the loop
 *
 * Hard here: one wake is enough for many letters, but none may be left without one. The first
 * letter after a wake was read writes the eventfd. What arrives while letters are being opened
 * causes another wake, so a loop that gets letters all the time still sees its descriptors.
 */

/* Watches a descriptor of the loop itself; -1: there is none. */
static bool own_begin(struct loop *loop, struct watch *watch, int fd,
                      void (*on_ready)(struct watch *watch, unsigned int what))
{
	watch_init(watch, loop, fd, on_ready);
	return loop->base && fd >= 0 && watch_set(watch, WATCH_READ);
}

static void own_end(struct watch *watch)
{
	watch_done(watch);
	if (watch->fd >= 0)
		close(watch->fd);
}

static void loop_letters_done(struct loop *loop)
{
	loop_open_late(loop);
	own_end(&loop->mailbox.wake);
	pthread_mutex_destroy(&loop->mailbox.lock);
}

/* The lock must be held. */
static void wake(struct mailbox *mailbox)
{
	if (mailbox->is_woken)
		return;
	mailbox->is_woken = true;
	eventfd_write(mailbox->wake.fd, 1);
}

static struct letter *take_first(struct mailbox *mailbox, bool is_late)
{
	LOCKED(&mailbox->lock);
	struct letter *letter = TAILQ_FIRST(&mailbox->letters);

	if (letter) {
		TAILQ_REMOVE(&mailbox->letters, letter, node);
		mailbox->count--;
		letter->is_posted = false;
		letter->is_late = is_late;
	}
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
	if (!count)
		watch->loop->ready_count--; /* called to park, or to stop: no reason to poll on */
	while (count-- > 0 && (letter = take_first(mailbox, false)))
		letter->open(letter);
}

static bool loop_letters_init(struct loop *loop)
{
	struct mailbox *mailbox = &loop->mailbox;

	pthread_mutex_init(&mailbox->lock, NULL);
	TAILQ_INIT(&mailbox->letters);
	return own_begin(loop, &mailbox->wake, eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC), on_wake);
}

void loop_post(struct loop *to, struct letter *letter)
{
	struct mailbox *mailbox = &to->mailbox;

	LOCKED(&mailbox->lock);
	if (letter->is_posted)
		return;
	TAILQ_INSERT_TAIL(&mailbox->letters, letter, node);
	mailbox->count++;
	letter->is_posted = true;
	wake(mailbox);
}

void loop_take_back(struct loop *loop, struct letter *letter)
{
	struct mailbox *mailbox = &loop->mailbox;

	LOCKED(&mailbox->lock);
	if (letter->is_posted) {
		TAILQ_REMOVE(&mailbox->letters, letter, node);
		mailbox->count--;
		letter->is_posted = false;
	}
}

void loop_open_late(struct loop *loop)
{
	struct letter *letter;

	while ((letter = take_first(&loop->mailbox, true)))
		letter->open(letter);
}

/* Makes the loop begin a turn if it sleeps. From any thread. */
static void loop_letters_wake(struct loop *loop)
{
	LOCKED(&loop->mailbox.lock);
	wake(&loop->mailbox);
}

/*
 * ---- timers ----
 *
 * Hard here: those with the same limit mostly fall due in the order in which they are set. So
 * each timer queue is a sorted list, and a heap has the queues by the time when their heads are to
 * be looked at. One descriptor is the alarm for the first of them. If a head is cleared, the heap
 * and the alarm are left as they are: they come once without effect and are then set for the new
 * head. libevent has no timers: with any, it reads the clock twice in each turn.
 */

#define NEVER INT64_MAX

TAILQ_HEAD(timer_list, timer);

struct queue_key {
	usec_t limit;
	void (*on_due)(struct timer *timer);
};

struct timer_queue {
	struct queue_key key;
	struct loop *loop;
	struct timer_list timers; /* sorted by `due` */
	struct heap_node node;    /* its key: when the head is looked at; NEVER: there is none */
	UT_hash_handle hh;
};

static void look_at(struct timer_queue *queue, usec_t when)
{
	queue->node.key = (uint64_t)when;
	heap_moved(&queue->loop->alarm.queues, &queue->node);
}

/* Sets the alarm for the first queue, unless it is set for an earlier time. */
static void set_alarm(struct loop_alarm *alarm)
{
	usec_t at = (usec_t)heap_first(&alarm->queues)->key;
	struct itimerspec time = { .it_value = { at / USEC_PER_SEC, at % USEC_PER_SEC * 1000 } };

	if (at >= alarm->at)
		return;
	alarm->at = at;
	timerfd_settime(alarm->watch.fd, TFD_TIMER_ABSTIME, &time, NULL);
}

static void queue_arm(struct timer_queue *queue)
{
	const struct timer *head = TAILQ_FIRST(&queue->timers);
	usec_t at;

	if (!head)
		return;
	/* Not now: what is set while timers fire does so in the next turn. */
	at = loop_now(queue->loop) + 1;
	if (at < head->due)
		at = head->due;
	if ((usec_t)queue->node.key <= at)
		return;
	look_at(queue, at);
	set_alarm(&queue->loop->alarm);
}

static size_t count_due(const struct timer_queue *queue, usec_t now)
{
	size_t count = 0;

	TAILQ_EACH (timer, &queue->timers, node) {
		if (timer->due > now)
			break;
		count++;
	}
	return count;
}

static void fire(struct timer_queue *queue, usec_t now)
{
	size_t count = count_due(queue, now);
	struct timer *timer;

	look_at(queue, NEVER);
	/* Counted before: a timer that is set again and is due at once fires in the next turn. */
	while (count-- > 0 && (timer = TAILQ_FIRST(&queue->timers)) && timer->due <= now) {
		timer_clear(timer);
		queue->key.on_due(timer);
	}
	queue_arm(queue);
}

static void timers_fire(struct loop *loop)
{
	struct loop_alarm *alarm = &loop->alarm;
	usec_t now = loop_now(loop);
	struct heap_node *first;

	alarm->at = 0; /* it is set at the end */
	while ((first = heap_first(&alarm->queues)) && (usec_t)first->key <= now)
		fire(container_of(first, struct timer_queue, node), now);
	alarm->at = NEVER;
	set_alarm(alarm);
}

static void on_alarm(struct watch *watch, unsigned int what)
{
	uint64_t ignored;

	(void)what;
	watch->loop->ready_count--; /* no reason to poll on */
	/* Nothing to read: it was set again in this turn. */
	if (read(watch->fd, &ignored, sizeof(ignored)) == sizeof(ignored))
		watch->loop->alarm.at = 0;
}

static bool timers_init(struct loop *loop)
{
	int fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);

	loop->alarm.at = NEVER;
	return own_begin(loop, &loop->alarm.watch, fd, on_alarm);
}

static struct timer_queue *queue_new(struct loop *loop, const struct queue_key *key)
{
	struct timer_queue *queue = calloc(1, sizeof(*queue));

	if (!queue)
		return NULL;
	queue->key = *key;
	queue->loop = loop;
	TAILQ_INIT(&queue->timers);
	queue->node.key = NEVER;
	if (heap_add(&loop->alarm.queues, &queue->node)) {
		HASH_ADD(hh, loop->timer_queues, key, sizeof(queue->key), queue);
		if (queue->hh.tbl)
			return queue;
		heap_remove(&loop->alarm.queues, &queue->node);
	}
	free(queue);
	return NULL;
}

struct timer_queue *loop_timer_queue(struct loop *loop, usec_t limit,
                                     void (*on_due)(struct timer *timer))
{
	struct queue_key key = { limit, on_due };
	struct timer_queue *queue;

	if (limit <= 0)
		return NULL;
	loop_assert_mine(loop);
	HASH_FIND(hh, loop->timer_queues, &key, sizeof(key), queue);
	return queue ? queue : queue_new(loop, &key);
}

void timer_start(struct timer *timer, struct timer_queue *queue, usec_t from)
{
	usec_t limit = queue->key.limit, due = from > INT64_MAX - limit ? INT64_MAX : from + limit;
	struct timer *before;

	loop_assert_mine(queue->loop);
	if (timer->queue == queue && timer->due == due)
		return; /* it is at its position already */
	timer_clear(timer);
	timer->queue = queue;
	timer->due = due;
	before = TAILQ_LAST(&queue->timers, timer_list);
	while (before && before->due > timer->due)
		before = TAILQ_PREV(before, timer_list, node);
	if (before) {
		TAILQ_INSERT_AFTER(&queue->timers, before, timer, node);
	} else {
		TAILQ_INSERT_HEAD(&queue->timers, timer, node);
		queue_arm(queue);
	}
}

void timer_begin(struct timer *timer, struct loop *loop, usec_t limit,
                 void (*on_due)(struct timer *timer))
{
	timer_set(timer, loop_timer_queue(loop, limit, on_due), loop_now(loop));
}

void timer_change(struct timer *timer, struct timer_queue *queue)
{
	const struct timer_queue *old = timer->queue;

	if (!queue)
		timer_clear(timer);
	else if (queue != old)
		timer_set(timer, queue, old ? timer->due - old->key.limit : loop_now(queue->loop));
}

void timer_remove(struct timer *timer)
{
	loop_assert_mine(timer->queue->loop);
	TAILQ_REMOVE(&timer->queue->timers, timer, node);
	timer->queue = NULL;
}

static void timers_free(struct loop *loop)
{
	struct timer_queue *queue, *next;

	HASH_ITER (hh, loop->timer_queues, queue, next) {
		assert(TAILQ_EMPTY(&queue->timers));
		HASH_DEL(loop->timer_queues, queue);
		free(queue);
	}
	heap_done(&loop->alarm.queues);
	own_end(&loop->alarm.watch);
}

/* ---- the loop itself ---- */

/*
 * With the list of changes, libevent removes a descriptor from epoll in the loop's next turn, after
 * we have closed it: another thread may have a new descriptor with that number. The kernel finds no
 * such descriptor in this loop's epoll set (ENOENT), and libevent ignores that. ThreadSanitizer
 * takes the use of that number for a data race.
 */
#if defined(__SANITIZE_THREAD__)
#define BASE_FLAGS (EVENT_BASE_FLAG_NOLOCK | EVENT_BASE_FLAG_NO_CACHE_TIME)
#else
#define BASE_FLAGS                                                \
	(EVENT_BASE_FLAG_NOLOCK | EVENT_BASE_FLAG_NO_CACHE_TIME | \
	 EVENT_BASE_FLAG_EPOLL_USE_CHANGELIST)
#endif

static struct event_base *base_new(void)
{
	struct event_config *config = event_config_new();
	struct event_base *base;

	if (!config)
		return NULL;
	event_config_set_flag(config, BASE_FLAGS);
	base = event_base_new_with_config(config);
	event_config_free(config);
	return base;
}

struct loop *loop_new(struct err *err)
{
	struct loop *loop = err_calloc(sizeof(*loop), "no memory for the event loop", err);
	bool has_letters;

	if (!loop)
		return NULL;
	TAILQ_INIT(&loop->tasks);
	loop->base = base_new();
	has_letters = loop_letters_init(loop);
	if (timers_init(loop) && has_letters)
		return loop;
	err_set(err, ERR_SYSTEM, "cannot start the event loop: %s", strerror(errno));
	loop_free(&loop);
	return NULL;
}

/* ---- descriptors that other processes have open too ---- */

static void close_leaving(struct loop *loop, size_t count)
{
	for (size_t i = 0; i < count; i++)
		close(loop->leaving[i]);
	loop->leaving_count -= count;
	memmove(loop->leaving, loop->leaving + count, loop->leaving_count * sizeof(int));
}

void loop_close_later(struct loop *loop, int fd)
{
	int *leaving = array_room(loop->leaving, loop->leaving_count, &loop->leaving_capacity,
	                          sizeof(*leaving));

	loop_assert_mine(loop);
	if (!leaving) {
		close(fd);
		return;
	}
	loop->leaving = leaving;
	loop->leaving[loop->leaving_count++] = fd;
}

void loop_free(struct loop **loop)
{
	struct signal_watch *signal;

	if (!*loop)
		return;
	loop_letters_done(*loop);
	if ((*loop)->leaving_count)
		close_leaving(*loop, (*loop)->leaving_count);
	free((*loop)->leaving);
	timers_free(*loop);
	while ((signal = (*loop)->signals)) {
		(*loop)->signals = signal->next;
		event_del(&signal->event);
		free(signal);
	}
	if ((*loop)->base)
		event_base_free((*loop)->base);
	free(*loop);
	*loop = NULL;
}

const char *loop_library(void) { return "libevent " LIBEVENT_VERSION; }

/* Only the tasks that were there at the start: others must not keep descriptors waiting. */
static void run_tasks(struct loop *loop)
{
	struct task last = { .run = NULL }, *task;

	if (TAILQ_EMPTY(&loop->tasks))
		return;
	TAILQ_INSERT_TAIL(&loop->tasks, &last, node);
	while ((task = TAILQ_FIRST(&loop->tasks)) != &last) {
		TAILQ_REMOVE(&loop->tasks, task, node);
		task->is_waiting = false;
		task->run(task);
	}
	TAILQ_REMOVE(&loop->tasks, &last, node);
}

static bool look_for_events(struct loop *loop)
{
	unsigned long before = loop->call_count;

	event_base_loop(loop->base, EVLOOP_ONCE | EVLOOP_NONBLOCK | EVLOOP_NO_EXIT_ON_EMPTY);
	return loop->call_count != before;
}

/* Polls without sleeping until a callback has run. false: none ran in time. */
static bool poll_for_a_while(struct loop *loop)
{
	bool has_run = look_for_events(loop);

	if (!has_run) {
		__atomic_store_n(&loop->wasted_since, read_clock(CLOCK_THREAD_CPUTIME_ID),
		                 __ATOMIC_RELEASE);
		while (!has_run && clock_now() < loop->poll_until)
			has_run = look_for_events(loop);
		if (!has_run)
			loop_cpu_end_waste(loop);
	}
	loop->poll_count += has_run;
	return has_run;
}

/* The holder may have deferred tasks or written something: the next turn must not sleep. */
static void park(struct loop *loop)
{
	loop->was_parked = true;
	__atomic_store_n(&loop->is_parked, true, __ATOMIC_RELAXED);
	loop->park(loop->park_arg);
	__atomic_store_n(&loop->is_parked, false, __ATOMIC_RELAXED);
}

static void turn(struct loop *loop)
{
	size_t leaving = loop->leaving_count;
	unsigned long ready_before = loop->ready_count;
	bool may_sleep = TAILQ_EMPTY(&loop->tasks) && !loop->was_parked && !leaving;
	bool may_poll = may_sleep && loop->poll_limit && clock_now() < loop->poll_until;

	loop->was_parked = false;
	loop->is_turning = true;
	if (!may_poll || !poll_for_a_while(loop))
		event_base_loop(loop->base, EVLOOP_ONCE | EVLOOP_NO_EXIT_ON_EMPTY |
		                                (may_sleep ? 0 : EVLOOP_NONBLOCK));
	/* event_base_loop() has sent the changes to epoll: the kernel watches these no longer. */
	if (leaving)
		close_leaving(loop, leaving);
	if (loop_now(loop) >= loop->alarm.at)
		timers_fire(loop);
	run_tasks(loop);
	if (loop->at_turn_end)
		loop->at_turn_end(loop->at_turn_end_arg);
	/* Only ready descriptors prolong polling: with timers the loop would never sleep. */
	if (loop->poll_limit && loop->ready_count != ready_before)
		loop->poll_until = clock_now() + loop->poll_limit;
	loop->is_turning = false;
	loop->clock.now = 0;
	loop->turn_count++;
	if (__atomic_load_n(&loop->is_called, __ATOMIC_ACQUIRE))
		park(loop);
}

void loop_parks_by(struct loop *loop, void (*park_by)(void *arg), void *arg)
{
	loop->park = park_by;
	loop->park_arg = arg;
}

void loop_call(struct loop *loop)
{
	__atomic_store_n(&loop->is_called, true, __ATOMIC_RELEASE);
	loop_letters_wake(loop);
}

void loop_call_off(struct loop *loop)
{
	__atomic_store_n(&loop->is_called, false, __ATOMIC_RELEASE);
}

void loop_run(struct loop *loop)
{
	bool has_clock = pthread_getcpuclockid(pthread_self(), &loop->cpu_clock) == 0;

	loop->thread = pthread_self();
	__atomic_sub_fetch(&loop->cpu_before, read_clock(CLOCK_THREAD_CPUTIME_ID),
	                   __ATOMIC_RELAXED);
	__atomic_store_n(&loop->is_running, has_clock, __ATOMIC_RELEASE);
	while (!__atomic_load_n(&loop->is_stopping, __ATOMIC_ACQUIRE))
		turn(loop);
	__atomic_store_n(&loop->is_stopping, false, __ATOMIC_RELAXED);
	__atomic_store_n(&loop->is_running, false, __ATOMIC_RELEASE);
	__atomic_add_fetch(&loop->cpu_before, read_clock(CLOCK_THREAD_CPUTIME_ID),
	                   __ATOMIC_RELAXED);
}

void loop_poll(struct loop *loop, usec_t limit) { loop->poll_limit = limit; }

unsigned long loop_poll_count(const struct loop *loop) { return loop->poll_count; }

void loop_stop(struct loop *loop)
{
	__atomic_store_n(&loop->is_stopping, true, __ATOMIC_RELEASE);
	loop_letters_wake(loop);
}

usec_t loop_read_clock(struct loop *loop)
{
	usec_t now = clock_now();

	/* Outside a turn (at start, in tests) the time is not fixed. */
	if (loop->is_turning)
		loop->clock.now = now;
	return now;
}

bool loop_is_in_turn(const struct loop *loop) { return loop->is_turning; }

unsigned long loop_turn_count(const struct loop *loop) { return loop->turn_count; }

char *loop_scratch(struct loop *loop) { return loop->scratch; }

/* ---- the end of the turn ---- */

void loop_defer(struct loop *loop, struct task *task)
{
	loop_assert_mine(loop);
	if (task->is_waiting)
		return;
	task->is_waiting = true;
	TAILQ_INSERT_TAIL(&loop->tasks, task, node);
}

void loop_undefer(struct loop *loop, struct task *task)
{
	if (!task->is_waiting)
		return;
	loop_assert_mine(loop);
	task->is_waiting = false;
	TAILQ_REMOVE(&loop->tasks, task, node);
}

void loop_at_turn_end(struct loop *loop, void (*run)(void *arg), void *arg)
{
	loop->at_turn_end = run;
	loop->at_turn_end_arg = arg;
}

/* ---- signals ---- */

static void on_signal_event(int number, short events, void *arg)
{
	struct signal_watch *signal = arg;

	(void)events;
	loop_called(signal->loop);
	signal->on_signal(number, signal->arg);
}

bool loop_on_signal(struct loop *loop, int number, void (*on_signal)(int number, void *arg),
                    void *arg, struct err *err)
{
	struct signal_watch *signal = calloc(1, sizeof(*signal));

	if (!signal)
		return err_set(err, ERR_MEMORY, "no memory to watch for signal %d", number);
	signal->loop = loop;
	signal->on_signal = on_signal;
	signal->arg = arg;
	if (evsignal_assign(&signal->event, loop->base, number, on_signal_event, signal) != 0 ||
	    evsignal_add(&signal->event, NULL) != 0) {
		free(signal);
		return err_set(err, ERR_SYSTEM, "cannot watch for signal %d", number);
	}
	signal->next = loop->signals;
	loop->signals = signal;
	return true;
}

/* ---- watches ---- */

_Static_assert(sizeof(struct event) <= sizeof(((struct watch *)0)->event),
               "struct watch has no room for libevent's event");

static struct event *event_of(struct watch *watch) { return (struct event *)watch->event; }

static void on_event(int fd, short events, void *arg)
{
	struct watch *watch = arg;
	unsigned int what = 0;

	(void)fd;
	loop_called(watch->loop);
	watch->loop->ready_count++;
	if (events & EV_READ)
		what |= WATCH_READ;
	if (events & EV_WRITE)
		what |= WATCH_WRITE;
	what &= watch->wanted;
	if (what)
		watch->on_ready(watch, what);
}

void watch_init(struct watch *watch, struct loop *loop, int fd,
                void (*on_ready)(struct watch *watch, unsigned int what))
{
	watch->on_ready = on_ready;
	watch->loop = loop;
	watch->fd = fd;
	watch->wanted = 0;
}

bool watch_set(struct watch *watch, unsigned int what)
{
	struct loop *loop = watch->loop;
	short events = EV_PERSIST;

	if (what == watch->wanted)
		return true;
	loop_assert_mine(loop);
	if (watch->wanted)
		event_del(event_of(watch));
	watch->wanted = 0;
	if (what & WATCH_READ)
		events |= EV_READ;
	if (what & WATCH_WRITE)
		events |= EV_WRITE;
	if (what &&
	    (event_assign(event_of(watch), loop->base, watch->fd, events, on_event, watch) ||
	     event_add(event_of(watch), NULL)))
		return false;
	watch->wanted = what;
	return true;
}

void watch_done(struct watch *watch)
{
	if (watch->wanted)
		watch_set(watch, 0);
}
