/* SPDX-License-Identifier: ISC */
/*
 * The doors: listeners with what they say of their clients. The first one is the main listener, of
 * listen_addr and listen_port; the others have an entry in [listeners]. All belong to the main
 * thread.
 */
#ifndef PGWEIR_MAIN_DOORS_H
#define PGWEIR_MAIN_DOORS_H

#include "pgweir/admin/console.h"
#include "pgweir/client/gate.h"
#include "pgweir/net/listener.h"

#include "load.h"
#include "notify.h"
#include "takeover.h"

struct daemon;

struct door {
	TAILQ_ENTRY(door) node;
	struct daemon *daemon;
	struct listener *listener;
	struct gate *gate; /* NULL: the main listener */
	uint64_t accepted_count;
};

TAILQ_HEAD(door_list, door);

/*
 * ---- a change ----
 *
 * At the start, and by a RELOAD. doors_prepare() opens what is new, at the start the main listener
 * too; doors_commit() cannot fail. A listener whose addresses are the same keeps its sockets.
 */

struct door_plan {
	struct door *door;
	bool is_new;
	struct gate_rules rules;
	struct listener *opened; /* NULL: the door keeps its listener */
};

struct doors_change {
	struct daemon *daemon;
	/* at the start; else NULL: what the service manager has opened, and another process */
	struct handed_sockets *given;
	struct takeover *takeover;
	unsigned int count;
	struct door_plan plans[1 + CONFIG_LISTENERS_MAX];
};

/* Takes the gates, and what it can use of the sockets. false: *err has the reason. */
bool doors_prepare(struct doors_change *change, struct gates *gates, struct err *err);
void doors_commit(struct doors_change *change);
void doors_abandon(struct doors_change *change);

void doors_free(struct daemon *daemon);

/* ---- all of them ---- */

static inline void doors_do(struct door_list *doors, void (*act)(struct listener *listener))
{
	struct door *door;

	TAILQ_FOREACH (door, doors, node)
		act(door->listener);
}

static inline void doors_own_files(struct door_list *doors, bool are_ours)
{
	struct door *door;

	TAILQ_FOREACH (door, doors, node)
		listener_own_file(door->listener, are_ours);
}

void doors_set_options(struct daemon *daemon);

/* See struct console_with, listener. */
bool doors_show(struct daemon *daemon, size_t index, struct listener_shown *shown);

#endif
