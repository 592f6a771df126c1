/* SPDX-License-Identifier: ISC */
/*
 * Descriptors that are watched, as libevent's events.
 */
#include "loop_priv.h"

#include <event2/event.h>
#include <event2/event_struct.h>

#include "pgweir/base/banned.h"

_Static_assert(sizeof(struct event) <= sizeof(((struct watch *)0)->event),
               "struct watch has no room for libevent's event");

static struct event *event_of(struct watch *watch) { return (struct event *)watch->event; }

/* What libevent is asked for; 0 = nothing. */
static short events_for(unsigned int what)
{
	short events = 0;

	if (what & WATCH_READ)
		events |= EV_READ | EV_PERSIST;
	if (what & WATCH_WRITE)
		events |= EV_WRITE | EV_PERSIST;
	return events;
}

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
	short events;

	if (what == watch->wanted)
		return true;
	if (events_for(watch->wanted))
		event_del(event_of(watch));
	watch->wanted = 0;
	events = events_for(what);
	if (events) {
		if (event_assign(event_of(watch), loop->base, watch->fd, events, on_event, watch))
			return false;
		if (event_add(event_of(watch), NULL))
			return false;
	}
	watch->wanted = what;
	return true;
}

void watch_done(struct watch *watch)
{
	if (watch->wanted)
		watch_set(watch, 0);
}
