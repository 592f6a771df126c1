/* SPDX-License-Identifier: ISC */
/*
 * Limits of direct writes: a number of lines, a share of the time, and no waiting for a reader.
 */
#include "log_direct_priv.h"

#include <linux/magic.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "pgweir/base/banned.h"

#ifndef CIFS_SUPER_MAGIC
#define CIFS_SUPER_MAGIC 0xff534d42
#endif
#ifndef SMB2_SUPER_MAGIC
#define SMB2_SUPER_MAGIC 0xfe534d42
#endif
#ifndef CEPH_SUPER_MAGIC
#define CEPH_SUPER_MAGIC 0x00c36400
#endif
#ifndef FUSE_SUPER_MAGIC
#define FUSE_SUPER_MAGIC 0x65735546
#endif

/* Network and FUSE file systems: their server may not answer for minutes. */
static bool is_remote(unsigned long type)
{
	static const unsigned long types[] = {
		NFS_SUPER_MAGIC,  SMB_SUPER_MAGIC,  CIFS_SUPER_MAGIC,
		SMB2_SUPER_MAGIC, CEPH_SUPER_MAGIC, FUSE_SUPER_MAGIC,
		AFS_SUPER_MAGIC,  CODA_SUPER_MAGIC, V9FS_MAGIC,
	};

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		if ((type & UINT32_MAX) == types[i])
			return true;
	}
	return false;
}

static bool is_near(int fd)
{
	struct stat found;
	struct statfs system;

	return fd >= 0 && fstat(fd, &found) == 0 && S_ISREG(found.st_mode) &&
	       fstatfs(fd, &system) == 0 && !is_remote((unsigned long)system.f_type);
}

void log_direct_look(struct log_direct *direct, struct outlets outlets)
{
	direct->is_file_near = is_near(outlets.fd);
	direct->is_stderr_near = is_near(STDERR_FILENO);
}

/*
 * Whether a pipe, socket or terminal accepts a write at once. false for regular files: poll()
 * always reports them as writable, so a remote file could block.
 */
static bool has_space(int fd)
{
	struct pollfd asked = { .fd = fd, .events = POLLOUT };
	struct stat found;

	return fstat(fd, &found) == 0 && !S_ISREG(found.st_mode) && poll(&asked, 1, 0) == 1 &&
	       asked.revents == POLLOUT;
}

bool log_direct_may(struct log_direct *direct, struct outlets outlets, size_t count, usec_t now)
{
	usec_t paid = (now - direct->owed_at) / LOG_DIRECT_SHARE;

	if (now - direct->window >= LOG_DIRECT_WINDOW) {
		direct->window = now;
		direct->line_count = 0;
	}
	if (direct->line_count >= LOG_DIRECT_LINES)
		return false;
	direct->line_count++;
	if (paid > 0) {
		direct->owed = direct->owed > paid ? direct->owed - paid : 0;
		direct->owed_at = now;
	}
	if (direct->owed > LOG_DIRECT_OWED_MAX || count > LOG_DIRECT_BYTES)
		return false;
	return (outlets.fd < 0 || direct->is_file_near || has_space(outlets.fd)) &&
	       (!outlets.to_stderr || direct->is_stderr_near || has_space(STDERR_FILENO));
}

void log_direct_took(struct log_direct *direct, usec_t took) { direct->owed += took; }
