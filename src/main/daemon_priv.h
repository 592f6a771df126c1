/* SPDX-License-Identifier: ISC */
/*
 * The daemon, for the files of main.
 */
#ifndef PGWEIR_MAIN_DAEMON_PRIV_H
#define PGWEIR_MAIN_DAEMON_PRIV_H

#include "pgweir/admin/console.h"
#include "pgweir/auth/derived.h"
#include "pgweir/base/container_of.h"
#include "pgweir/base/record.h"
#include "pgweir/client/lanes.h"
#include "pgweir/loop/workers.h"
#include "pgweir/loop/crew.h"
#include "pgweir/net/channel.h"
#include "pgweir/net/listener.h"
#include "pgweir/pgwire/sql_digest.h"
#include "pgweir/pool/handover.h"
#include "pgweir/pool/homes.h"
#include "pgweir/web/web.h"

#include "load.h"
#include "process.h"

/*
 * ---- lane_load: lane.c ----
 *
 * Which lanes are busy: those that have used most of a processor since the last look. Any lane may
 * ask; the clocks of the threads are read a few times in a second at most.
 */

/* Zeroed but for looked_at: the lanes have used no processor time yet. */
struct lane_load {
	atomic_bool is_looking; /* guards looked_at and cpu */
	usec_t looked_at;
	usec_t cpu[LANES_MAX]; /* at that time */
	_Atomic uint64_t busy; /* a bit for each lane, from the lowest */
};

_Static_assert(LANES_MAX <= 64, "struct lane_load has a bit for each");

/*
 * ---- doors ----
 *
 * Listeners with what they say of their clients. The first one is the main listener, of listen_addr
 * and listen_port; the others have an entry in [listeners]. All belong to the main thread.
 */

struct door {
	TAILQ_ENTRY(door) node;
	struct daemon *daemon;
	struct listener *listener;
	struct listener *opened; /* within a change: takes the place of `listener` */
	struct gate *gate;       /* NULL: the main listener */
	uint64_t accepted_count;
};

TAILQ_HEAD(door_list, door);

struct handover; /* handover_give.c */

struct daemon {
	struct log *log;
	struct logger logger;
	const struct options *options;
	struct parts now;                              /* in force; the gates are in the doors */
	struct lanes lanes;                            /* the first is the main thread's */
	struct loop *loop;                             /* the main thread's */
	struct workers *server_workers, *slow_workers; /* the same for logins at servers */
	struct workers *handshakes;                    /* TLS handshakes */
	struct verifiers *verifiers;
	struct broker *broker;
	struct lane_load load;
	struct clients_shared shared;           /* what clients of all lanes share */
	struct statement_names statement_names; /* of all lanes */
	struct peers peers;
	struct door_list doors; /* the main listener is the first */
	struct console *console;
	struct web *web; /* NULL unless metrics_listen is set */
	struct notify notify;
	int64_t certificates_at;   /* seconds of the wall clock, at certificates_look() */
	struct timer watchdog;     /* of the service manager; when to tell it that all loops turn */
	enum shutdown_kind awaits; /* the last server, or the last client; SHUTDOWN_NOW: neither */
	int stop_signal;           /* SIGTERM or SIGINT, if one has come */
	/* shutdown_accept, while set: all goes on as before, but SHOW READY says no */
	struct timer announced;
	bool is_draining_to_end; /* shutdown_drain: stop when the DRAIN has ended */
	struct {
		struct timer look; /* set until no client is left */
		struct timer deadline;
		usec_t reported_at;
	} drain;
	struct timer stop;    /* set while something is awaited */
	struct timer suspend; /* runs while a SUSPEND quiesces connections */
	usec_t suspended_at;
	struct handover *handover; /* another process takes over from this one; else NULL */
	/* from an old one that has not finished; else NULL. Other threads may ask whether it is */
	struct takeover *_Atomic takeover;
	/* another process accepts the clients: it takes over, or has not handed over yet */
	bool is_served_elsewhere;
};

/*
 * ---- take-over (-R) ----
 *
 * takeover.c is the new process: it asks the console of the old one for its sockets, on the Unix
 * socket of the same configuration. handover_give.c is the old one.
 */

struct takeover {
	struct channel channel;        /* fd -1: there is no process to take over from */
	pid_t pid;                     /* of that process */
	struct handed_sockets sockets; /* -1: a listener owns it now */
	bool is_given;                 /* a service manager opened those of the main listener */
	bool is_other_version;         /* the process refuses our version */
	/* takeover_run(): */
	struct daemon *daemon; /* NULL: no round was asked for yet */
	struct watch watch;
	struct timer look; /* set: no more rounds, the old process serves its last clients */
	struct pools_arrival arrival;
};

/* That process goes on to serve. false: *err says why it refuses. true with fd -1: none runs. */
bool takeover_begin(struct takeover *takeover, const struct config *config, struct err *err);

/*
 * Closes the channel, and the sockets that were not used; again: no effect. The old process
 * continues, unless it has stopped already.
 */
void takeover_end(struct takeover *takeover);

/*
 * Before any client is accepted. false: see *err; the other process still has everything. The
 * daemon uses *takeover until it is freed.
 */
bool takeover_run(struct daemon *daemon, struct takeover *takeover, struct err *err);

/*
 * Messages to the process that this one took over from. No effect if there is none. The key may be
 * of a client that it still serves; keys come from all lanes, but only the first one passes them.
 */
bool takeover_pass_key(struct clients *clients, struct bytes key, struct farewell *farewell);
void takeover_stop(struct daemon *daemon, enum shutdown_kind kind);
void takeover_resume(struct daemon *daemon, const char *database);

/* handover_give.c. See struct console_with, hand_over. */
bool handover_start(struct daemon *daemon, struct client *client, const char *version,
                    struct err *err);
void handover_free(struct handover **handover);

/*
 * ---- what both processes have ----
 *
 * The version, the argument of TAKEOVER, is a number. Increase it when the messages of
 * net/channel.h, their order, or a table of a record changes, but for counters.
 *
 * Releases before 0.4.0 know the plain format: our records without their optional fields at the
 * end, and without TLS, hosts and session state. We read it, and write it to them: then clients
 * that need more stay in the old process. 0.1.0 reads the version as a number, and refuses others.
 */

#define HANDOVER_VERSION "4"
#define HANDOVER_VERSION_PLAIN "3"

/* HELLO: describes the old process. */
struct hello_record {
	uint64_t pid;
	char version[128]; /* VERSION_OWN */
	bool is_given;     /* a service manager opened its listening sockets */
};

extern const struct record_table hello_record_table;

/*
 * CANCEL: a cancel request that the new process got. The descriptor of the message is its
 * connection, which the old process ends when it has dealt with it. In the plain format there is
 * only the key, without a record and a descriptor.
 */
struct cancel_record {
	struct bytes key;
	struct bytes last; /* sent before the connection ends: struct farewell */
};

#define CANCEL_LAST_MAX 512

extern const struct record_table cancel_record_table;

/*
 * ---- doors.c: a change ----
 *
 * At the start, and by a RELOAD. doors_prepare() opens what is new, at the start the main listener
 * too; doors_commit() cannot fail. A listener whose addresses are the same keeps its sockets.
 */

struct doors_change {
	struct daemon *daemon;
	/* at the start; else NULL: what the service manager has opened, and another process */
	struct handed_sockets *given;
	struct takeover *takeover;
	struct door_list fresh; /* those that are new */
};

/* Takes what it can use of the sockets. false: nothing was opened, *err has the reason. */
bool doors_prepare(struct doors_change *change, struct gates *gates, struct err *err);

/* One of these follows. The gates are the same, and commit takes what is in them. */
void doors_commit(struct doors_change *change, struct gates *gates);
void doors_abandon(struct doors_change *change);

void doors_free(struct door_list *doors);

/* ---- all of them ---- */

/* A SUSPEND or DRAIN has begun or ended. */
void doors_accept(struct daemon *daemon);

/*
 * A take-over: whether clients are accepted here, and the files of Unix sockets are ours. Then the
 * pid file becomes ours, too.
 */
void doors_serve(struct daemon *daemon, bool are_ours);

void doors_set_options(struct daemon *daemon);

/* See struct console_with, listener. */
bool doors_show(struct daemon *daemon, size_t index, struct listener_shown *shown);

/* ---- reload.c ---- */

/* What is in force, to all modules. Cannot fail. */
void reload_apply(struct daemon *daemon);

/* See struct pools_with, on_hosts_found. */
void reload_hosts(void *daemon, const char *source, const char *list);

/* See struct console_with, set and reload. */
enum config_change reload_set(struct daemon *daemon, const char *name, const char *value,
                              struct err *err);
bool reload_config(struct daemon *daemon, config_tell *tell, void *tell_arg, struct err *err);

/* ---- lifecycle.c ---- */

/* Stops the daemon in the way of the console's SHUTDOWN commands. */
void lifecycle_stop(struct daemon *daemon, enum shutdown_kind kind);

/* tells the service manager, and starts its watchdog */
void lifecycle_ready(struct daemon *daemon);
bool lifecycle_catch_signals(struct daemon *daemon, struct err *err);
bool lifecycle_make_console(struct daemon *daemon, struct err *err);

/* The daemon ends: nothing is awaited any more. */
void lifecycle_end(struct daemon *daemon);

/* ---- daemon.c ---- */

/* Takes what is loaded, and the sockets. NULL: see *err. */
struct daemon *daemon_new(struct log *log, const struct options *options, struct parts *loaded,
                          struct handed_sockets *given, struct takeover *takeover, struct err *err);

/* Accepts NULL. false: a thread still waits for PAM or LDAP, so the process must end by _exit(). */
bool daemon_free(struct daemon **daemon);

/* ---- lane.c ---- */

/* Gives a connection that was accepted, and is owned then, to the lane that has fewest. */
void lane_deal(struct daemon *daemon, int fd, const struct address *peer, struct gate *gate);

/* See send_elsewhere and pick_home in struct clients_shared. */
bool lane_send(struct client *client, enum client_goes why, unsigned int number);
unsigned int lane_pick_home(const struct clients *clients, unsigned int first, unsigned int count);

/*
 * A bit for each busy lane of so many. cpu(): processor time that a lane has used so far; from any
 * thread.
 */
uint64_t lane_load_busy(struct lane_load *load, unsigned int count,
                        usec_t (*cpu)(const void *arg, unsigned int number), const void *arg,
                        usec_t now);

/*
 * load.c: certificates of ours that are in use, by number from 0 (false: no more).
 * certificates_look() warns of those that have come 30, 7 or 1 days near to their end, or to it,
 * since the last look.
 */
bool certificates_show(struct daemon *daemon, size_t number, struct certificate_shown *shown);
void certificates_look(struct daemon *daemon);

/* ---- processors ---- */

/*
 * The number of processors that this process may run on, limited by the quota of its
 * control group and the groups above it, rounded up. At least 1. root: the folder that
 * contains /proc and /sys; "" except in tests.
 */
unsigned int processors_count(const char *root);

#endif
