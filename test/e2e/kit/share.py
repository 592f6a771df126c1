# SPDX-License-Identifier: ISC
"""Several processes share the files of one list: each takes the next piece when it has done one.

The list is a text file. A line of it names a file, or a piece of one: "test_x.py 2 3" is the second
of three. Its lock is the file's own. pytest collects all tests, which takes seconds, and then becomes
these processes, so that each of them can run whichever comes next.
"""

import fcntl
import os
import random


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


def once(folder, make):
    """What one of several processes has made, by make(folder), for all of them."""
    done = f"{folder}.done"
    with open(f"{folder}.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.exists(done):
            made = make(folder)
            with open(done, "w", encoding="utf-8") as file:
                file.write(made)
    with open(done, encoding="utf-8") as file:
        return file.read()


def divide(config, path, count):
    """Becomes `count` processes, of which each prints into a file beside the list. Returns None in them,
    and in the first process their worst exit status, at their end.
    """
    children = []
    for number in range(1, count + 1):
        child = os.fork()
        if child == 0:
            random.seed()
            print_into(config, os.path.join(os.path.dirname(path), str(number)))
            return None
        children.append(child)
    # Killed by a signal: a negative number.
    ends = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    return max(ends, key=abs)


def print_into(config, path):
    """Also what pytest prints from now on, and with a file of its own for what a test prints."""
    capture = config.pluginmanager.getplugin("capturemanager")
    capture.stop_global_capturing()
    with open(path, "wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    capture.start_global_capturing()
    capture.suspend_global_capture()


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
