/* SPDX-License-Identifier: ISC */
/*
 * What this process is to the system: its limits, its user, its terminal, its pid file, its
 * service manager.
 */
#include "daemon_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pgweir/base/text.h"

/* ---- the limit on open files ---- */

bool limits_raise(struct rlimit *files, struct err *err)
{
	struct rlimit raised;

	if (getrlimit(RLIMIT_NOFILE, files) != 0)
		return err_set(err, ERR_SYSTEM, "cannot read the limit on open files: %s",
		               strerror(errno));
	raised = (struct rlimit){ .rlim_cur = files->rlim_max, .rlim_max = files->rlim_max };
	/* without a hard limit the kernel may refuse (fs.nr_open): then the soft one stays */
	if (setrlimit(RLIMIT_NOFILE, &raised) == 0)
		*files = raised;
	return true;
}

int limits_for_clients(void)
{
	struct rlimit files;
	rlim_t kept;

	if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur == RLIM_INFINITY ||
	    files.rlim_cur > INT_MAX)
		return INT_MAX;
	kept = files.rlim_cur / 8 < LIMITS_KEPT_MAX ? files.rlim_cur / 8 : LIMITS_KEPT_MAX;
	return (int)(files.rlim_cur - kept);
}

static void format_limit(rlim_t limit, char out[32])
{
	snprintf(out, 32, limit == RLIM_INFINITY ? "unlimited" : "%lu", (unsigned long)limit);
}

void limits_report(const struct rlimit *files, unsigned long expected, const struct logger *log)
{
	char soft[32], hard[32];

	format_limit(files->rlim_cur, soft);
	format_limit(files->rlim_max, hard);
	log_info(log, "kernel file descriptor limit: %s (hard: %s); max expected fd use: %lu", soft,
	         hard, expected);
	if (expected > files->rlim_cur)
		log_warning(log,
		            "up to %lu open files may be needed, but the limit is %s: raise it, or "
		            "lower max_client_conn or pool sizes",
		            expected, soft);
}

/* ---- privileges: the groups are changed first, since only root may change them ---- */

/* for_good: it cannot become root again. */
static bool become(const struct passwd *entry, bool for_good, struct err *err)
{
	uid_t uid = entry->pw_uid, kept_uid = for_good ? uid : (uid_t)-1;
	gid_t gid = entry->pw_gid, kept_gid = for_good ? gid : (gid_t)-1;

	if (initgroups(entry->pw_name, gid) != 0 || setresgid(kept_gid, gid, kept_gid) != 0 ||
	    setresuid(kept_uid, uid, kept_uid) != 0)
		return err_set(err, ERR_SYSTEM, "cannot switch to user %s: %s", entry->pw_name,
		               strerror(errno));
	if (for_good && entry->pw_uid != 0 && setuid(0) == 0)
		return err_set(err, ERR_SYSTEM, "cannot give up root for user %s", entry->pw_name);
	return true;
}

/* NULL: *err has the reason. */
static const struct passwd *find_user(const char *user, struct err *err)
{
	const struct passwd *entry;

	errno = 0;
	entry = getpwnam(user);
	if (!entry)
		err_set(err, ERR_CONFIG, "cannot switch to user %s: %s", user,
		        errno ? strerror(errno) : "no such user");
	return entry;
}

static bool switch_user(const char *user, struct err *err)
{
	const struct passwd *entry = find_user(user, err);

	if (!entry)
		return false;
	if (geteuid() == 0)
		return become(entry, true, err);
	if (entry->pw_uid == geteuid())
		return true;
	return err_set(err, ERR_CONFIG, "cannot switch to user %s: only root may", user);
}

static bool refuse_root(const char *user, struct err *err)
{
	return err_set(err, ERR_CONFIG,
	               "refusing to run as root: user is %s, which is root; name another one in "
	               "the configuration, or use -u",
	               user);
}

bool privileges_drop(const char *user, struct err *err)
{
	if (user && *user && !switch_user(user, err))
		return false;
	if (getuid() != 0 && geteuid() != 0)
		return true;
	return user && *user ? refuse_root(user, err)
	                     : err_set(err, ERR_CONFIG,
	                               "refusing to run as root: set user= in the "
	                               "configuration, or use -u");
}

bool privileges_borrow(const char *user, struct err *err)
{
	const struct passwd *entry = user && *user ? find_user(user, err) : NULL;

	if (!user || !*user)
		return true;
	if (!entry)
		return false;
	if (entry->pw_uid == 0)
		return refuse_root(user, err);
	return geteuid() != 0 || become(entry, false, err);
}

bool privileges_are_borrowed(void) { return geteuid() != getuid(); }

void privileges_return(void)
{
	if (privileges_are_borrowed() && (seteuid(getuid()) != 0 || setegid(getgid()) != 0))
		abort(); /* cannot fail: the process can become root again */
}

/*
 * ---- daemonize ----
 *
 * The child begins a session. The grandchild is not its leader, so it never gets a terminal again.
 */

static void silence_stdio(int null)
{
	dup2(null, STDIN_FILENO);
	dup2(null, STDOUT_FILENO);
	dup2(null, STDERR_FILENO);
	if (null > STDERR_FILENO)
		close(null);
}

/* In the child: the exit status tells the parent whether there is a grandchild. */
static void fork_again(void)
{
	pid_t pid;

	setsid();
	pid = fork();
	if (pid != 0)
		_exit(pid > 0 ? EXIT_SUCCESS : EXIT_FAILURE);
}

static bool has_grandchild(pid_t child)
{
	int status;

	while (waitpid(child, &status, 0) < 0) {
		if (errno != EINTR)
			return false;
	}
	return WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS;
}

bool daemonize(struct err *err)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	pid_t pid;

	if (null < 0)
		return err_set(err, ERR_SYSTEM, "cannot open /dev/null: %s", strerror(errno));
	/* Otherwise the contents of stdio's buffers would be written twice. */
	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		fork_again();
		silence_stdio(null);
		return true;
	}
	if (pid > 0 && has_grandchild(pid))
		_exit(EXIT_SUCCESS);
	close(null);
	return err_set(err, ERR_SYSTEM, "cannot run in the background: fork failed");
}

/*
 * ---- the pid file ----
 *
 * Hard here: a file of another process may have our own process id, because in a container these
 * begin again after a restart.
 */

pid_t pidfile_read(const char *path, struct err *err)
{
	char text[64];
	int64_t number;
	ssize_t count;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 && errno == ENOENT)
		return 0;
	count = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (count < 0)
		err_set(err, ERR_CONFIG, "cannot read pidfile %s: %s", path, strerror(errno));
	if (fd >= 0)
		close(fd);
	if (count < 0)
		return -1;
	text[count] = 0;
	if (text_to_i64(text_trim(text), &number) && number > 0 && number <= INT_MAX)
		return (pid_t)number;
	err_set(err, ERR_CONFIG,
	        "pidfile %s exists but contains no process ID: remove it if it is stale", path);
	return -1;
}

bool pidfile_check(const char *path, const struct logger *log, struct err *err)
{
	pid_t pid = pidfile_read(path, err);

	if (pid <= 0)
		return pid == 0;
	if (pid != getpid() && (kill(pid, 0) == 0 || errno != ESRCH))
		return err_set(err, ERR_CONFIG,
		               "pidfile %s: process %d is running, cannot start another", path,
		               (int)pid);
	log_info(log, "removing stale pidfile %s of process %d", path, (int)pid);
	if (unlink(path) != 0 && errno != ENOENT)
		return err_set(err, ERR_SYSTEM, "cannot remove stale pidfile %s: %s", path,
		               strerror(errno));
	return true;
}

bool pidfile_write(const char *path, struct err *err)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	bool ok;

	if (fd < 0)
		return err_set(err, ERR_SYSTEM, "cannot write pidfile %s: %s", path,
		               strerror(errno));
	/* Readable for other users, whatever the umask is. */
	ok = (fchmod(fd, 0644) == 0 && dprintf(fd, "%d\n", (int)getpid()) > 0) ||
	     err_set(err, ERR_SYSTEM, "cannot write pidfile %s: %s", path, strerror(errno));
	close(fd);
	if (!ok)
		unlink(path);
	return ok;
}

bool pidfile_replace(const char *path, struct err *err)
{
	char fresh[PATH_MAX];
	bool ok;

	snprintf(fresh, sizeof(fresh), "%s.%d", path, (int)getpid());
	unlink(fresh);
	if (!pidfile_write(fresh, err))
		return false;
	ok = rename(fresh, path) == 0 ||
	     err_set(err, ERR_SYSTEM, "cannot write pidfile %s: %s", path, strerror(errno));
	unlink(fresh);
	return ok;
}

void pidfile_remove(const char *path)
{
	struct err err;

	if (path && *path && pidfile_read(path, &err) == getpid())
		unlink(path);
}

/* ---- messages to the service manager ---- */

#define PATIENCE 100000 /* microseconds */
#define TEXT_MAX 1024

/* The watchdog is for this process if WATCHDOG_PID is not set, or is our process id. */
static usec_t watchdog_of(const char *interval, const char *whose)
{
	int64_t usec, pid;

	if (!interval || !text_to_i64(interval, &usec) || usec <= 0)
		return 0;
	if (whose && (!text_to_i64(whose, &pid) || pid != getpid()))
		return 0;
	return usec;
}

static bool open_socket(struct notify *notify, const char *path, struct err *err)
{
	struct timeval patience = { .tv_usec = PATIENCE };

	if (path[0] != '/' && path[0] != '@')
		return err_set(err, ERR_CONFIG, "it is neither a path nor an abstract name");
	if (!address_unix_name(&notify->name, &notify->name_size, path, err))
		return false;
	notify->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (notify->fd < 0)
		return err_set(err, ERR_SYSTEM, "%s", strerror(errno));
	setsockopt(notify->fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	return true;
}

bool notify_open(struct notify *notify, struct err *err)
{
	const char *path = getenv("NOTIFY_SOCKET");
	bool ok = true;

	*notify = (struct notify){ .fd = -1 };
	if (path && *path)
		ok = open_socket(notify, path, err) ||
		     err_prefix(err, "cannot use NOTIFY_SOCKET=%s: ", path);
	if (notify->fd >= 0)
		notify->watchdog = watchdog_of(getenv("WATCHDOG_USEC"), getenv("WATCHDOG_PID"));
	unsetenv("NOTIFY_SOCKET");
	unsetenv("WATCHDOG_USEC");
	unsetenv("WATCHDOG_PID");
	return ok;
}

void notify_send(const struct notify *notify, const char *format, ...)
{
	char text[TEXT_MAX];
	va_list args;
	int count;

	if (notify->fd < 0)
		return;
	va_start(args, format);
	count = vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (count <= 0)
		return;
	if ((size_t)count >= sizeof(text))
		count = sizeof(text) - 1;
	/* Errors are ignored: a service manager that does not listen must not stop the daemon. */
	(void)!sendto(notify->fd, text, (size_t)count, MSG_NOSIGNAL,
	              (const struct sockaddr *)&notify->name, notify->name_size);
}

void notify_close(struct notify *notify)
{
	if (notify->fd >= 0)
		close(notify->fd);
	notify->fd = -1;
}

/* ---- activation ---- */

#define FIRST 3

/* names: separated by colons, in the order of the descriptors; or NULL. */
static bool take_sockets(struct handed_sockets *sockets, const char *count_text, const char *names,
                         struct err *err)
{
	int64_t count;

	if (!text_to_i64(count_text, &count) || count < 0 || count > ACTIVATION_MAX)
		return err_set(err, ERR_CONFIG, "LISTEN_FDS=%s: a number from 0 to %d is expected",
		               count_text, ACTIVATION_MAX);
	for (int fd = FIRST; fd < FIRST + (int)count; fd++) {
		int flags = fcntl(fd, F_GETFD);

		if (flags < 0 || fcntl(fd, F_SETFD, flags | FD_CLOEXEC) != 0)
			return err_set(err, ERR_CONFIG, "LISTEN_FDS=%s, but descriptor %d: %s",
			               count_text, fd, strerror(errno));
		if (names) {
			size_t length = strcspn(names, ":");

			snprintf(sockets->names[sockets->count], sizeof(sockets->names[0]), "%.*s",
			         (int)length, names);
			names = names[length] ? names + length + 1 : NULL;
		}
		sockets->fds[sockets->count++] = fd;
	}
	return true;
}

bool activation_take(struct handed_sockets *sockets, struct err *err)
{
	const char *count = getenv("LISTEN_FDS"), *whose = getenv("LISTEN_PID");
	int64_t pid;
	bool is_ours = count && whose && text_to_i64(whose, &pid) && pid == getpid();
	bool ok;

	*sockets = (struct handed_sockets){ 0 };
	ok = !is_ours || take_sockets(sockets, count, getenv("LISTEN_FDNAMES"), err);
	unsetenv("LISTEN_FDS");
	unsetenv("LISTEN_PID");
	unsetenv("LISTEN_FDNAMES");
	return ok;
}
