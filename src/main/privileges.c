/* SPDX-License-Identifier: ISC */
/*
 * Gives up root. The groups are changed first, since only root may change them. At the end
 * it is checked that the process cannot become root again.
 */
#include "privileges.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
		return become(entry, err);
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

bool privileges_borrow(struct privileges *own, const char *user, struct err *err)
{
	const struct passwd *entry = user && *user ? find_user(user, err) : NULL;

	*own = (struct privileges){ .group = getegid() };
	if (!user || !*user)
		return true;
	if (!entry)
		return false;
	if (entry->pw_uid == 0)
		return refuse_root(user, err);
	if (geteuid() != 0)
		return true;
	own->group_count =
	    getgroups((int)(sizeof(own->groups) / sizeof(own->groups[0])), own->groups);
	if (own->group_count < 0 || initgroups(entry->pw_name, entry->pw_gid) != 0 ||
	    setegid(entry->pw_gid) != 0 || seteuid(entry->pw_uid) != 0)
		return err_set(err, ERR_SYSTEM, "cannot switch to user %s: %s", user,
		               strerror(errno));
	own->is_borrowed = true;
	return true;
}

void privileges_return(const struct privileges *own)
{
	if (own->is_borrowed && (seteuid(0) != 0 || setegid(own->group) != 0 ||
	                         setgroups((size_t)own->group_count, own->groups) != 0))
		abort(); /* cannot fail: the process can become root again */
}
