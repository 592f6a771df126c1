/* SPDX-License-Identifier: ISC */
/*
 * The command line: one row for each option. The tables for getopt and the help text are
 * made from the rows. And a minimal client of the console: login without a password, simple
 * queries.
 */
#include "daemon_priv.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <pwd.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "pgweir/base/version.h"
#include "pgweir/net/resolver.h"
#include "pgweir/pgwire/fields.h"
#include "pgweir/pgwire/message.h"
#include "pgweir/pgwire/startup.h"

/* Options without a letter. */
enum { CHECK_OPTION = 256, AGAINST_OPTION, READY_OPTION, DRAIN_OPTION, AS_OPTION, DUMP_OPTION };

#define AT(field) offsetof(struct options, field)

static const struct row {
	int letter;
	const char *name;
	const char *value; /* name of its value in the help text; NULL: it has none */
	size_t at;         /* of its value; or without one, if action is OPTIONS_RUN, of a bool */
	enum options_action action;
	const char *help;
} rows[] = {
	{ 'd', "daemon", NULL, AT(daemon), OPTIONS_RUN, "run in the background (needs pidfile)" },
	{ 'q', "quiet", NULL, AT(quiet), OPTIONS_RUN, "do not log to stderr" },
	{ 'R', "reboot", NULL, AT(reboot), OPTIONS_RUN,
	  "take over from the running process of this configuration, if any" },
	{ 'u', "user", "NAME", AT(user), OPTIONS_RUN,
	  "switch to this system user; with SOCKET: the user of that pgweir" },
	{ 'v', "verbose", NULL, 0, OPTIONS_RUN, "log more details; can be given several times" },
	{ CHECK_OPTION, "check", NULL, 0, OPTIONS_CHECK,
	  "check the configuration file, print all problems, then exit" },
	{ AGAINST_OPTION, "against", "SOCKET", AT(against), OPTIONS_RUN,
	  "with --check: also print what a RELOAD of that pgweir would change" },
	{ READY_OPTION, "ready", "SOCKET", AT(socket), OPTIONS_READY,
	  "exit with status 0 if that pgweir accepts new work, else with 1" },
	{ DRAIN_OPTION, "drain", "SOCKET", AT(socket), OPTIONS_DRAIN,
	  "disconnect the clients of that pgweir, all within SECONDS, then exit" },
	{ AS_OPTION, "as", "NAME", AT(as), OPTIONS_RUN,
	  "with --ready, --drain: console user to log in as (default: pgbouncer)" },
	{ DUMP_OPTION, "dump-settings", NULL, 0, OPTIONS_DUMP,
	  "print a description of all settings or of one, then exit" },
	{ 'V', "version", NULL, 0, OPTIONS_VERSION, "print the version, then exit" },
	{ 'h', "help", NULL, 0, OPTIONS_HELP, "print this help, then exit" },
};
#define ROW_COUNT (sizeof(rows) / sizeof(rows[0]))

static const char *base_name(const char *program)
{
	const char *slash = strrchr(program, '/');

	return slash ? slash + 1 : program;
}

static void make_tables(char *letters, struct option *longs)
{
	*letters++ = ':'; /* getopt then tells a missing value from an unknown option */
	for (size_t i = 0; i < ROW_COUNT; i++) {
		longs[i] =
		    (struct option){ rows[i].name, rows[i].value ? required_argument : no_argument,
			             NULL, rows[i].letter };
		if (rows[i].letter >= CHECK_OPTION)
			continue;
		*letters++ = (char)rows[i].letter;
		if (rows[i].value)
			*letters++ = ':';
	}
	*letters = 0;
	longs[ROW_COUNT] = (struct option){ 0 };
}

static void take_option(struct options *options, int letter)
{
	const struct row *row = rows;
	char *field;

	while (row->letter != letter)
		row++;
	field = (char *)options + row->at;
	if (row->action != OPTIONS_RUN)
		options->action = row->action;
	if (row->value)
		*(const char **)field = optarg;
	else if (letter == 'v')
		options->verbosity++;
	else if (row->action == OPTIONS_RUN)
		*(bool *)field = true;
}

/* getopt only says that there is an error, and at which word. */
static bool complain(int letter, char **argv, struct err *err)
{
	/* musl counts a value that is not there. */
	const char *word = argv[optind - 1] ? argv[optind - 1] : argv[optind - 2];

	if (letter == ':')
		return err_set(err, ERR_CONFIG, "option %s needs a value", word);
	if (optopt != 0 && optopt < CHECK_OPTION && strncmp(word, "--", 2) != 0)
		return err_set(err, ERR_CONFIG, "unknown option -%c", optopt);
	return err_set(err, ERR_CONFIG, "unknown option %s", word);
}

/* Parses what is no option: the file; what may follow --drain or --dump-settings. */
static bool take_words(struct options *options, int count, char **words, struct err *err)
{
	bool is_dump = options->action == OPTIONS_DUMP, needs_file = !is_dump && !options->socket;
	int most = options->action != OPTIONS_READY;

	if (needs_file && count == 0)
		return err_set(err, ERR_CONFIG, "no configuration file specified");
	if (count > most)
		return err_set(err, ERR_CONFIG, "unexpected argument %s", words[most]);
	if (count == 0)
		return true;
	if (!needs_file && !is_dump && (!*words[0] || words[0][strspn(words[0], "0123456789")]))
		return err_set(err, ERR_CONFIG, "--drain takes a number of seconds, not \"%s\"",
		               words[0]);
	*(needs_file ? &options->file : is_dump ? &options->setting : &options->seconds) = words[0];
	return true;
}

bool options_parse(struct options *options, int argc, char **argv, struct err *err)
{
	char letters[2 * ROW_COUNT + 2];
	struct option longs[ROW_COUNT + 1];
	int letter;

	*options = (struct options){ .action = OPTIONS_RUN };
	make_tables(letters, longs);
	optind = 0; /* restarts getopt: tests call this several times */
	opterr = 0;
	while ((letter = getopt_long(argc, argv, letters, longs, NULL)) != -1) {
		if (letter == '?' || letter == ':')
			return complain(letter, argv, err);
		take_option(options, letter);
		/* These act at once: the words after them are not parsed. */
		if (options->action == OPTIONS_HELP || options->action == OPTIONS_VERSION)
			return true;
	}
	if (options->against && options->action != OPTIONS_CHECK)
		return err_set(err, ERR_CONFIG, "option --against requires --check");
	if (options->as && !options->socket)
		return err_set(err, ERR_CONFIG, "option --as requires --ready or --drain");
	return take_words(options, argc - optind, argv + optind, err);
}

static void print_row(FILE *out, const struct row *row)
{
	char left[40], letter[8] = "    ";

	if (row->letter < CHECK_OPTION)
		snprintf(letter, sizeof(letter), "-%c, ", row->letter);
	snprintf(left, sizeof(left), "%s--%s%s%s", letter, row->name, row->value ? "=" : "",
	         row->value ? row->value : "");
	fprintf(out, "  %-20s %s\n", left, row->help);
}

void options_print_help(FILE *out, const char *program)
{
	const char *name = base_name(program);

	fprintf(out,
	        "%s is a connection pooler for PostgreSQL.\n\n"
	        "Usage: %s [OPTION]... CONFIG_FILE\n"
	        "       %s --check CONFIG_FILE [--against=SOCKET]\n"
	        "       %s --ready=SOCKET [--as=NAME]\n"
	        "       %s --drain=SOCKET [SECONDS] [--as=NAME]\n"
	        "       %s --dump-settings [NAME]\n\n"
	        "Options:\n",
	        name, name, name, name, name, name);
	for (size_t i = 0; i < ROW_COUNT; i++)
		print_row(out, &rows[i]);
	fputs("\nSOCKET is the Unix socket of a running pgweir, or its configuration file.\n", out);
}

void options_print_version(FILE *out, const char *program)
{
	bool as_pgbouncer = strcmp(base_name(program), "pgbouncer") == 0;

	fprintf(out, "%s\n", as_pgbouncer ? VERSION_SHOW : VERSION_OWN);
	if (!as_pgbouncer)
		fprintf(out, "compatible with PgBouncer %s\n", VERSION_COMPATIBLE);
	fprintf(out, "%s\nadns: %s\ntls: %s\n", loop_library(), dns_library(), tls_library());
}

void options_print_error(FILE *out, const char *program, const struct err *err)
{
	const char *name = base_name(program);

	fprintf(out, "%s: %s\nTry \"%s --help\" for more information.\n", name, err->text, name);
}

/* ---- asking a running daemon ---- */

#define PATIENCE 5 /* seconds, for each read or write */
#define ANSWER_MAX ((size_t)64 * 1024 * 1024)

static bool cannot(struct err *err, const char *what)
{
	bool is_late = errno == EAGAIN || errno == EWOULDBLOCK;

	return err_set(err, ERR_SYSTEM, "cannot %s: %s", what,
	               is_late ? "no answer in time" : strerror(errno));
}

/* The system user to connect as, if this process is root. 0: root. */
static uid_t owner_of(const struct ask_whom *whom)
{
	struct stat found;

	if (geteuid() != 0 || whom->user)
		return 0;
	if (whom->owner != ASK_OWNER_UNKNOWN)
		return whom->owner;
	return whom->path[0] != '@' && stat(whom->path, &found) == 0 ? found.st_uid : 0;
}

/* The daemon checks the system user of the peer. So root connects as the owner of the socket. */
static bool connect_as_owner(int fd, const struct ask_whom *whom, const struct sockaddr_un *name,
                             socklen_t size)
{
	uid_t owner = owner_of(whom);
	bool changes = owner != 0 && seteuid(owner) == 0;
	bool is_connected = connect(fd, (const struct sockaddr *)name, size) == 0;
	int failure = errno;

	if (changes && seteuid(0) != 0)
		return false;
	errno = failure;
	return is_connected;
}

/* ---- targets of the command line ---- */

static bool find_owner(struct ask_whom *whom, const char *name, struct err *err)
{
	const struct passwd *entry;

	if (!name || !*name)
		return true;
	entry = getpwnam(name);
	if (!entry)
		return err_set(err, ERR_CONFIG, "no such system user: %s", name);
	whom->owner = entry->pw_uid;
	return true;
}

static bool find_by_file(struct ask_whom *whom, const char *file, const char *owner,
                         struct err *err)
{
	struct problems problems = { 0 };
	const struct config *config = config_load(file, &problems);
	bool ok;

	if (!config) {
		problems_first(&problems, err);
		problems_done(&problems);
		return false;
	}
	ok = *address_unix_path(whom->path, config->unix_socket_dir, config->listen_port) ||
	     err_set(err, ERR_CONFIG,
	             "%s: unix_socket_dir is empty: there is no socket to connect to", file);
	ok = ok && find_owner(whom, owner ? owner : config->user, err);
	problems_done(&problems);
	config_unref(&config);
	return ok;
}

bool ask_find(struct ask_whom *whom, const char *target, const char *owner, struct err *err)
{
	struct stat found;

	*whom = (struct ask_whom){ .owner = ASK_OWNER_UNKNOWN };
	if (target[0] != '@' && stat(target, &found) == 0 && S_ISREG(found.st_mode))
		return find_by_file(whom, target, owner, err);
	snprintf(whom->path, sizeof(whom->path), "%s", target);
	return find_owner(whom, owner, err);
}

/* ---- who listens on the socket ---- */

/*
 * Whether no user but root and `user` can write in the folder. Only the group of the user's own
 * folder may write too: a member of the group listens with another uid than `user`, and so is not
 * mistaken for that user.
 */
static bool is_closed_to_others(const char *folder, uid_t user)
{
	mode_t open = S_IWOTH;
	struct stat found;

	if (stat(folder, &found) != 0 || (found.st_uid != 0 && found.st_uid != user))
		return false;
	if (found.st_uid != user && found.st_gid != 0)
		open |= S_IWGRP;
	return !(found.st_mode & open);
}

/* Whether only `user` and root can create a socket there: each folder up to the root. */
static bool is_safe_directory(const char *path, uid_t user)
{
	char folder[PATH_MAX];
	char *slash;

	if (path[0] != '/' || !realpath(path, folder))
		return false;
	while ((slash = strrchr(folder, '/')) != folder) {
		*slash = 0;
		if (!is_closed_to_others(folder, user))
			return false;
	}
	return is_closed_to_others("/", user);
}

static bool is_believed(const struct ask_whom *whom, uid_t peer)
{
	if (peer == (uid_t)-1)
		return false;
	return peer == 0 || peer == geteuid() || peer == whom->owner ||
	       (!whom->is_strict && is_safe_directory(whom->path, peer));
}

static const char *name_user(uid_t uid, char *out, size_t size)
{
	const struct passwd *entry = getpwuid(uid);

	snprintf(out, size, "%s (uid %ld)", entry ? entry->pw_name : "unknown",
	         uid == (uid_t)-1 ? -1L : (long)uid);
	return out;
}

/* Checks the listening process. Call it before anything is sent. */
static bool look_at_peer(const struct ask *ask, const struct ask_whom *whom, struct err *err)
{
	uid_t peer = address_peer_uid(ask->fd);
	uid_t owner = whom->owner == ASK_OWNER_UNKNOWN ? geteuid() : whom->owner;
	char name[128], own[128];

	if (is_believed(whom, peer))
		return true;
	return err_set(
	    err, ERR_NOT_ALLOWED,
	    "the socket belongs to system user %s, which is %s%s, and any user could "
	    "have created it: %s",
	    name_user(peer, name, sizeof(name)), owner == 0 ? "not root" : "neither root nor ",
	    owner == 0 ? "" : name_user(owner, own, sizeof(own)),
	    whom->is_strict
		? "remove it, or set unix_socket_dir to a directory that only pgweir can "
		  "write to"
		: "if pgweir runs as that user, specify it with -u");
}

static bool send_all(struct ask *ask, struct buf *out, struct err *err)
{
	struct bytes rest = buf_bytes(out);
	bool ok = buf_ok(out);

	errno = ENOMEM;
	while (ok && rest.count) {
		ssize_t count = send(ask->fd, rest.at, rest.count, MSG_NOSIGNAL);

		ok = count > 0;
		if (ok)
			rest = bytes_skip(rest, (size_t)count);
	}
	if (!ok)
		cannot(err, "talk to the console");
	buf_free(out);
	return ok;
}

/* Until a message is complete at the front of ask->in. false: none will come. */
static bool receive(struct ask *ask, struct frame *frame, struct err *err)
{
	enum wire_result result;

	while ((result = frame_peek(buf_bytes(&ask->in), ANSWER_MAX, frame)) != WIRE_BAD) {
		ssize_t count;
		char *at;

		if (result == WIRE_OK && ask->in.count >= frame->length)
			return true;
		at = buf_reserve(&ask->in, 64 * 1024);
		if (!at)
			break;
		count = recv(ask->fd, at, 64 * 1024, 0);
		if (count == 0)
			return err_set(err, ERR_SYSTEM, "the console has closed the connection");
		if (count < 0)
			return cannot(err, "read from the console");
		ask->in.count += (size_t)count;
	}
	return err_set(err, ERR_PROTOCOL, "the peer is not a pgweir console");
}

static bool take_error(struct bytes body, struct err *err)
{
	struct report report;

	if (fields_report(body, &report) != WIRE_OK)
		return err_set(err, ERR_PROTOCOL, "the peer is not a pgweir console");
	return err_set(err, ERR_CONFIG, "console error: %s", report.text);
}

static void drop_row(struct ask *ask)
{
	while (ask->count)
		free(ask->values[--ask->count]);
}

static void take_row(struct ask *ask, struct bytes body)
{
	struct row_walk walk;
	struct bytes value;

	if (fields_row(body, &walk) != WIRE_OK)
		return;
	while (ask->count < ASK_VALUES_MAX && fields_value(&walk, &value) == WALK_ITEM)
		ask->values[ask->count++] = value.at ? strndup(value.at, value.count) : NULL;
}

static void take_notice(const struct ask *ask, struct bytes body)
{
	struct report report;

	if (ask->on_notice && fields_report(body, &report) == WIRE_OK)
		ask->on_notice(report.text);
}

bool ask_row(struct ask *ask, struct err *err)
{
	struct auth_request request;
	struct frame frame = { 0 };

	drop_row(ask);
	/* after a refused login no further message comes */
	while (frame.type != 'Z' && frame.type != 'D' && (!ask->has_failed || ask->is_in)) {
		struct bytes body;

		if (!receive(ask, &frame, err)) {
			ask->has_failed = true;
			return false;
		}
		body = frame_body(buf_bytes(&ask->in), &frame);
		if (frame.type == 'E')
			ask->has_failed = !take_error(body, err);
		if (frame.type == 'D')
			take_row(ask, body);
		if (frame.type == 'N')
			take_notice(ask, body);
		if (frame.type == 'R' && !ask->has_failed &&
		    (fields_auth(body, &request) != WIRE_OK || request.kind != AUTH_OK))
			ask->has_failed = !err_set(
			    err, ERR_NOT_ALLOWED,
			    "the console requests a password: run this as the system user of the "
			    "running pgweir or as root, or use a console user that needs no "
			    "password");
		buf_drop(&ask->in, frame.length);
	}
	return frame.type == 'D';
}

/* Reads the answer to its end, without its rows. */
static bool take_answer(struct ask *ask, struct err *err)
{
	while (ask_row(ask, err))
		continue;
	return !ask->has_failed;
}

static bool log_in(struct ask *ask, const char *user, struct err *err)
{
	struct buf out = { 0 };
	size_t at = message_startup_begin(&out, PROTOCOL_3_0);

	message_startup_pair(&out, "user", user);
	message_startup_pair(&out, "database", "pgbouncer");
	message_startup_end(&out, at);
	return send_all(ask, &out, err) && take_answer(ask, err);
}

bool ask_open(struct ask *ask, const struct ask_whom *whom, struct err *err)
{
	struct timeval patience = { .tv_sec = PATIENCE };
	struct sockaddr_un name;
	socklen_t size;
	bool ok;

	*ask = (struct ask){ .fd = -1, .in.limit = 2 * ANSWER_MAX, .is_nobody = true };
	if (!address_unix_name(&name, &size, whom->path, err))
		return false;
	ask->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (ask->fd < 0)
		return cannot(err, "make a socket");
	setsockopt(ask->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	setsockopt(ask->fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	ok = connect_as_owner(ask->fd, whom, &name, size);
	ask->is_nobody = !ok && (errno == ENOENT || errno == ECONNREFUSED);
	ok = ok || cannot(err, "connect");
	ok = ok && look_at_peer(ask, whom, err);
	ok = ok && log_in(ask, whom->user ? whom->user : "pgbouncer", err);
	ask->is_in = ok;
	if (!ok) {
		err_prefix(err, "%s: ", whom->path);
		ask_close(ask);
	}
	return ok;
}

bool ask_say(struct ask *ask, const char *statement, struct err *err)
{
	struct buf out = { 0 };

	message_query(&out, statement);
	return send_all(ask, &out, err);
}

void ask_close(struct ask *ask)
{
	struct buf out = { 0 };
	struct err err;

	if (ask->fd >= 0 && ask->is_in) {
		message_end(&out, message_begin(&out, 'X'));
		send_all(ask, &out, &err); /* best effort: the connection is closed anyway */
	}
	if (ask->fd >= 0)
		close(ask->fd);
	ask->fd = -1;
	drop_row(ask);
	buf_free(&ask->in);
}

/* ---- --ready and --drain ---- */

static bool open_ask(struct ask *ask, const struct options *options, struct err *err)
{
	struct ask_whom whom;

	if (!ask_find(&whom, options->socket, options->user, err))
		return false;
	whom.user = options->as;
	return ask_open(ask, &whom, err);
}

bool probe_ready(const struct options *options)
{
	struct err err;
	struct ask ask;
	bool is_open = open_ask(&ask, options, &err), is_ready = false;

	if (is_open && ask_say(&ask, "SHOW READY", &err)) {
		err_set(&err, ERR_STATE, "the console did not respond to SHOW READY");
		while (ask_row(&ask, &err) && ask.count >= 2 && ask.values[0] && ask.values[1]) {
			is_ready = strcmp(ask.values[0], "yes") == 0;
			err_set(&err, ERR_STATE, "not ready: %s", ask.values[1]);
		}
		is_ready = is_ready && !ask.has_failed;
	}
	if (is_open)
		ask_close(&ask);
	if (!is_ready)
		fprintf(stderr, "%s\n", err.text);
	return is_ready;
}

static void print_notice(const char *text) { fprintf(stderr, "%s\n", text); }

bool probe_drain(const struct options *options)
{
	struct timeval for_ever = { 0 };
	char command[64];
	struct err err;
	struct ask ask;
	bool is_done = open_ask(&ask, options, &err);

	snprintf(command, sizeof(command), "DRAIN %s", options->seconds ? options->seconds : "");
	if (is_done) {
		ask.on_notice = print_notice;
		setsockopt(ask.fd, SOL_SOCKET, SO_RCVTIMEO, &for_ever, sizeof(for_ever));
		is_done = ask_say(&ask, command, &err) && take_answer(&ask, &err);
		ask_close(&ask);
	}
	if (!is_done)
		fprintf(stderr, "%s\n", err.text);
	return is_done;
}
