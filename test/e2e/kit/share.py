# SPDX-License-Identifier: ISC
"""Several runs of pytest share the files of one list: each takes the next piece when it has done one.

The list is a text file. A line of it names a file, or a piece of one: "test_x.py 2 3" is the second
of three. Its lock is the file's own. Every run collects all tests, so that each of them can run
whichever comes next.
"""

import fcntl
import os


def take(path):
    """The first line of the list, which is off it then; None: that was all."""
    with open(path, "r+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        lines = file.read().splitlines(keepends=True)
        file.seek(0)
        file.truncate()
        file.writelines(lines[1:])
        return lines[0].strip() if lines else None


def piece(items, number=1, count=1):
    """One of `count` pieces of a file's tests, about the same number in each."""
    begin, end = (len(items) * int(at) // int(count) for at in (int(number) - 1, number))
    return items[begin:end]


def items_taken(items, path):
    """The test items of the files that this run takes from the list."""
    files = {}
    for item in items:
        files.setdefault(item.path.name, []).append(item)
    while line := take(path):
        name, *which = line.split()
        yield from piece(files.get(name, []), *which)


def once(path, name, make):
    """What one of the runs has made, by make(folder), for all of them; beside their list."""
    folder = os.path.join(os.path.dirname(path), name)
    done = f"{folder}.done"
    with open(f"{folder}.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.exists(done):
            made = make(folder)
            with open(done, "w", encoding="utf-8") as file:
                file.write(made)
    with open(done, encoding="utf-8") as file:
        return file.read()


def is_first(path, name):
    """Whether none of the other runs has asked for this name."""
    if not path:
        return True
    mine = os.path.join(os.path.dirname(path), name.replace("/", "-") + ".first")
    try:
        os.close(os.open(mine, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def run(session, path):
    """Runs the items like pytest, which needs the next item to decide when fixtures end."""
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
