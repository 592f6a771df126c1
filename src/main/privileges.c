/* SPDX-License-Identifier: ISC */
/*
 * Giving up root. The groups go first, since only root may change them; and
 * then it is tried whether root can be had back.
 */
#include "pgweir/main/privileges.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <string.h>
#include <unistd.h>

#include "pgweir/base/banned.h"

static bool become(const struct passwd *entry, struct err *err)
{
	if (initgroups(entry->pw_name, entry->pw_gid) != 0 ||
	    setresgid(entry->pw_gid, entry->pw_gid, entry->pw_gid) != 0 ||
	    setresuid(entry->pw_uid, entry->pw_uid, entry->pw_uid) != 0)
		return err_set(err, ERR_SYSTEM, "cannot switch to user %s: %s", entry->pw_name,
		               strerror(errno));
	if (entry->pw_uid != 0 && setuid(0) == 0)
		return err_set(err, ERR_SYSTEM, "cannot give up root for user %s", entry->pw_name);
	return true;
}

static bool switch_user(const char *user, struct err *err)
{
	const struct passwd *entry;

	errno = 0;
	entry = getpwnam(user);
	if (!entry)
		return err_set(err, ERR_CONFIG, "cannot switch to user %s: %s", user,
		               errno ? strerror(errno) : "no such user");
	if (geteuid() == 0)
		return become(entry, err);
	if (entry->pw_uid == geteuid())
		return true;
	return err_set(err, ERR_CONFIG, "cannot switch to user %s: only root may", user);
}

bool privileges_drop(const char *user, struct err *err)
{
	if (user && *user && !switch_user(user, err))
		return false;
	if (getuid() == 0 || geteuid() == 0)
		return err_set(
		    err, ERR_CONFIG,
		    "refusing to run as root: set user= in the configuration, or use -u");
	return true;
}
