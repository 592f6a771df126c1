/* SPDX-License-Identifier: ISC */
/*
 * The daemon, and what else the files of main share.
 */
#ifndef PGWEIR_MAIN_DAEMON_PRIV_H
#define PGWEIR_MAIN_DAEMON_PRIV_H

#include <stdio.h>
#include <sys/resource.h>
#include <sys/un.h>

#include "pgweir/admin/console.h"
#include "pgweir/auth/derived.h"
#include "pgweir/auth/hba.h"
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

/* ---- the command line: options.c ---- */

enum options_action {
	OPTIONS_RUN,     /* run the daemon */
	OPTIONS_CHECK,   /* check `file`, print the result, exit */
	OPTIONS_READY,   /* ask the daemon at `socket` whether it accepts work, exit */
	OPTIONS_DRAIN,   /* drain the daemon at `socket` within `seconds`, exit */
	OPTIONS_DUMP,    /* print dump_settings(), or only `setting`, to stdout, exit */
	OPTIONS_HELP,    /* options_print_help() to stdout, exit with 0 */
	OPTIONS_VERSION, /* options_print_version() to stdout, exit with 0 */
};

struct options {
	enum options_action action;
	const char *file;    /* configuration file; NULL unless OPTIONS_RUN or OPTIONS_CHECK */
	const char *against; /* --against: a Unix socket; NULL: not given */
	const char *socket;  /* value of --ready and --drain */
	const char *as;      /* --as: console user to log in as; NULL: not given */
	const char *setting; /* argument of --dump-settings; NULL: all */
	const char *seconds; /* argument of --drain: its limit; NULL: none */
	const char *user;    /* -u, overrides the setting; NULL: not given */
	bool daemon;
	bool reboot; /* -R: take over from a running process */
	bool quiet;
	int verbosity; /* how many -v */
};

/* Texts point into argv, which may be reordered. false: see options_print_error(). */
bool options_parse(struct options *options, int argc, char **argv, struct err *err);

/* program: argv[0]. That of `pgbouncer` prints the version as SHOW VERSION does. */
void options_print_help(FILE *out, const char *program);
void options_print_version(FILE *out, const char *program);

/* Prints the error, and a hint at --help. */
void options_print_error(FILE *out, const char *program, const struct err *err);

/*
 * ---- ask: connects to the console of a running daemon, over its Unix socket ----
 *
 * It blocks, each step for a few seconds at most, so it must not be called from the loop.
 */

#define ASK_VALUES_MAX 64

struct ask {
	int fd;
	bool is_in;      /* logged in: ask_close() sends Terminate */
	bool is_nobody;  /* after ask_open(): nothing listens there */
	bool has_failed; /* an error has come, or no answer: it cannot be used any more */
	struct buf in;
	/* called by ask_row() for a NOTICE; NULL: notices are dropped */
	void (*on_notice)(const char *text);
	/* the row: texts (NULL = SQL's NULL), valid until the next one is taken */
	size_t count;
	char *values[ASK_VALUES_MAX];
};

#define ASK_OWNER_UNKNOWN ((uid_t)-1)

/*
 * The daemon to ask. In a directory in which every user can write, any process may listen.
 * So the system user of the listening process is checked before anything is sent. Trusted
 * are root, the user of this process and `owner`. Without `is_strict` any other user is
 * trusted too, if only that user and root can have created the socket.
 */
struct ask_whom {
	char path[ADDRESS_UNIX_PATH_SIZE]; /* path of the Unix socket */
	/* console user; NULL: pgbouncer, which the daemon's system user may use */
	const char *user;
	uid_t owner; /* the daemon's system user, or ASK_OWNER_UNKNOWN */
	bool is_strict;
};

/* target: a Unix socket, or a configuration file; owner: the daemon's system user, or NULL. */
bool ask_find(struct ask_whom *whom, const char *target, const char *owner, struct err *err);

/*
 * Connects and logs in as a user that needs no password. Root connects as `owner` or, if
 * that is not known, as the owner of the socket. false: *err has the reason, and nothing is
 * open.
 */
bool ask_open(struct ask *ask, const struct ask_whom *whom, struct err *err);

/* Sends a statement. The answer is read with ask_row(), or from `fd`. */
bool ask_say(struct ask *ask, const char *statement, struct err *err);

/* Takes the next row. false: there is none, or ask->has_failed and *err has the reason. */
bool ask_row(struct ask *ask, struct err *err);

void ask_close(struct ask *ask);

/* ---- what probes and scripts ask a running daemon ---- */

/* --ready: whether the daemon accepts work. false: the reason is on stderr. */
bool probe_ready(const struct options *options);

/* --drain: runs DRAIN to its end, with progress on stderr. false: the reason, too. */
bool probe_drain(const struct options *options);

/* ---- what this process is to the system: process.c ---- */

/* ---- limits ---- */

/* That on open files, to the hard one, if the kernel allows it. false: it cannot be read. */
bool limits_raise(struct rlimit *files, struct err *err);

/*
 * Descriptors below this number are for clients. The others are kept for servers, consoles
 * and files: an eighth of all, at most LIMITS_KEPT_MAX. INT_MAX: there is no limit.
 */
#define LIMITS_KEPT_MAX 256
int limits_for_clients(void);

/* Logs the limits and the number of files that may be needed. Warns if the limit is lower. */
void limits_report(const struct rlimit *files, unsigned long expected, const struct logger *log);

/* ---- privileges ---- */

/*
 * Becomes `user` with its groups, permanently (NULL or "": no change). false: the user does
 * not exist, the process may not become that user, or would run as root; the daemon must
 * not start then.
 */
bool privileges_drop(const char *user, struct err *err);

/*
 * Becomes `user` for a while, to check the rights of that user. Only root changes the user;
 * any other process keeps its own and gets no error for it. false: the user does not exist,
 * or is root. After privileges_return() root has its rights again, but for further groups.
 */
bool privileges_borrow(const char *user, struct err *err);
bool privileges_are_borrowed(void);
void privileges_return(void);

/* ---- daemonize ---- */

/*
 * Goes to the background: a session of its own, stdin, stdout and stderr are /dev/null, the
 * working directory is kept. The calling process exits with status 0, and its grandchild
 * returns true. false: nothing has changed.
 *
 * Call it before any thread, loop or listener exists.
 */
bool daemonize(struct err *err);

/* ---- the pid file, which prevents the start of a second daemon ---- */

/*
 * Whether `path` can be used. false: its process is running, or the file has no process id;
 * *err has the reason. Removes the file of a dead process, and logs that. Call it before
 * daemonize(), so that the error goes to the terminal.
 */
bool pidfile_check(const char *path, const struct logger *log, struct err *err);

/* Creates the file, "pid\n" with mode 0644. false: it exists, or cannot be written. */
bool pidfile_write(const char *path, struct err *err);

/* 0: there is no such file. -1: it cannot be read, or has no number; *err has the reason. */
pid_t pidfile_read(const char *path, struct err *err);

/* Writes our process id in place of another process's. false: the file is unchanged. */
bool pidfile_replace(const char *path, struct err *err);

/* Removes the file if it has our process id. NULL or "": nothing. */
void pidfile_remove(const char *path);

/*
 * ---- messages to the service manager, by the protocol of sd_notify(3) ----
 *
 * A datagram with one or more lines. Without a service manager that wants them, nothing is sent.
 */

struct notify {
	int fd; /* -1: there is no service manager that wants messages */
	struct sockaddr_un name;
	socklen_t name_size;
	usec_t watchdog; /* maximum interval between two messages; 0: no watchdog */
};

/*
 * Reads NOTIFY_SOCKET (a path, or @abstract), WATCHDOG_USEC and WATCHDOG_PID, and removes
 * them from the environment. false: their values cannot be used, and nothing will be sent;
 * *err has the reason.
 */
bool notify_open(struct notify *notify, struct err *err);

/* Sends lines of "NAME=value". Blocks for a tenth of a second at most. */
void notify_send(const struct notify *notify, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

void notify_close(struct notify *notify);

/* ---- sockets that the service manager has opened: sd_listen_fds(3) ---- */

#define ACTIVATION_MAX 64

#define HANDED_SOCKETS_MAX 256

/* Listening sockets from outside: of the service manager, or of the process before. */
struct handed_sockets {
	unsigned int count;
	int fds[HANDED_SOCKETS_MAX];        /* who takes them over closes them; -1: is taken */
	char names[HANDED_SOCKETS_MAX][64]; /* of their listeners; "" = the main one */
};

/*
 * Reads LISTEN_FDS, LISTEN_PID and LISTEN_FDNAMES, and removes them from the environment. Call it
 * before any fork and before a descriptor is opened. Sockets for another process are not used.
 * false: the values are invalid; *err has the reason.
 */
bool activation_take(struct handed_sockets *sockets, struct err *err);

/* ---- a configuration and the files that it names: load.c, check.c, reload.c ---- */

/* What the entries of [listeners] say, one after the other. */
struct gates {
	size_t count;
	struct gate_rules at[CONFIG_LISTENERS_MAX];
};

/* A configuration and what must be made of it before it is applied. */
struct parts {
	const struct config *config;
	struct users *users;
	struct hba *hba; /* NULL unless auth_type is hba */
	struct gates gates;
	struct {
		struct tls_context *client, *server; /* NULL: no TLS on this side */
	} tls;
	struct ranges *proxies;
	struct web_rights *web; /* NULL unless metrics_listen is set */
};

/*
 * Files that the configuration names: users, rules, gates. At the start they are read with the
 * rights of root. Warns of what looks wrong in other files. false: *problems says why; what could
 * be loaded is there, for further checks.
 */
bool load_files(struct parts *parts, struct problems *problems);

/* The configuration and load_files(). false: nothing is loaded. */
bool load_all(const char *file, struct parts *parts, struct problems *problems);

/*
 * All other parts, with the rights of the daemon's user. parts->tls has the contexts before: one
 * that is equal to that before stays. false: *problems says why, and some parts are missing.
 */
bool load_make(struct parts *parts, struct problems *problems);

/*
 * Makes again what depends on the setting that was changed in parts->config. running: the
 * configuration that *parts was made of; a file of users or rules is read only if the new one
 * names another one. false: *problems says why, and some parts may be missing.
 */
bool parts_make(struct parts *parts, const char *setting, const struct config *running,
                struct problems *problems);

/* References to what another configuration has in common with these; owns the configuration. */
struct parts parts_hold(const struct parts *parts, const struct config *config);

/* Frees or releases all parts. */
void parts_done(struct parts *parts);

/* If the contexts are equal, the old one is kept. Both may be NULL. */
void load_keep_same(struct tls_context **fresh, struct tls_context *old);

/* Adds an error that may begin with a setting's name, with its file and line. Returns false. */
bool load_complain(const struct config *config, struct problems *problems, const struct err *err);

/* The maximum number of descriptors that the configuration may need at once. */
unsigned long load_expected_files(const struct config *config);

/* Logs the warnings, and the errors at this level, and how many more were dropped. */
void load_log_problems(const struct logger *logger, enum log_level level,
                       const struct problems *problems);

/* Before others: a log file may be unusable. false: nothing has changed. */
bool load_log(struct log *log, const struct options *options, const struct config *config,
              struct err *err);

/* If *err begins with a setting's name, puts the file and line of that setting before it. */
void load_say_where(const struct config *config, struct err *err);

/* --check and --against. false: there is a problem, or that daemon does not answer. */
bool check_file(const struct options *options);

/* ---- what a reload changes of rules: reload.c ---- */

/* type, database, user_name, address, netmask, auth_method, options */
#define RECOUNT_RULE_COLUMNS 7

/* Adds a rule as a line with its zero. columns: those of SHOW HBA; each may be NULL. */
void recount_rule(struct buf *lines, const char *const *columns);

/* Adds all rules. hba may be NULL. */
void recount_rules(struct buf *lines, const struct hba *hba);

/* Adds "9 rules (2 new, 1 gone)". false: nothing is new or gone, or no memory. */
bool recount(const struct buf *old, const struct buf *fresh, struct buf *out);

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
