# SPDX-License-Identifier: ISC
"""Several runs of pytest share the files of one list: each takes the next when it has done one.

The list is a file with a name a line, and its lock is the file's own. Every run collects all
tests, so that each of them can run whichever comes next.
"""

import fcntl


def take(path):
    """The first name on the list, which is off it then; None: that was all."""
    with open(path, "r+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        names = file.read().splitlines(keepends=True)
        file.seek(0)
        file.truncate()
        file.writelines(names[1:])
        return names[0].strip() if names else None


def items_taken(items, path):
    """The items of the files that this run gets, as it asks for them."""
    files = {}
    for item in items:
        files.setdefault(item.path.name, []).append(item)
    while name := take(path):
        yield from files.get(name, ())


def run(session, path):
    """As pytest runs its items. The next one is known before one runs: fixtures end by that."""
    items = items_taken(session.items, path)
    item = next(items, None)
    while item:
        following = next(items, None)
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)
        item = following
