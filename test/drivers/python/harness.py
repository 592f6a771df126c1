# SPDX-License-Identifier: ISC
"""What the Python drivers' programs share: arguments, several connections at once, the lines.

A program opens CONNECTIONS connections; each goes through all scenarios for ROUNDS times, each
beginning with another one, and prints a line for each: "ok NAME" or "failed NAME words".

With "session" as the second argument, the scenarios are those of session.txt, and "listen".
"""

import functools
import os
import pathlib
import sys
import threading

CONNECTIONS = 6
ROUNDS = 3
TEXTS = 8  # more than a server may know when the limit is small
LINES = 200  # that COPY carries


def say(line):
    """In one write, so that what threads say at once does not mix."""
    os.write(sys.stdout.fileno(), (line + "\n").encode())


def ok(name):
    say(f"ok {name}")


def failed(name, connection, error):
    words = f"{type(error).__name__}: {error}".replace("\n", " ")
    say(f"failed {name} connection {connection}: {words}")


def session_steps():
    """The scenarios of session.txt: name -> list of statement and result."""
    scenarios = {}
    for line in pathlib.Path("session.txt").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            name, statement, *result = line.split("\t")
            scenarios.setdefault(name, []).append((statement, result[0] if result else None))
    return scenarios


def follow(execute, steps, connection, who):
    """execute(connection, statement) returns the first value of the result, or None."""
    for statement, result in steps:
        try:
            got = execute(connection, statement.replace("{n}", who[-1]))
        except Exception as error:  # pylint: disable=broad-except
            if result != "*":
                raise AssertionError(f"{statement}: {error}") from error
            continue
        if result not in (None, "*"):
            same((statement, got), (statement, result.replace("{n}", who[-1])))


def chosen(plain, execute, listen):
    """The scenarios that the arguments ask for, from a list of functions."""
    if sys.argv[2:] != ["session"]:
        return {function.__name__: function for function in plain}
    scenarios = {name: functools.partial(follow, execute, steps)
                 for name, steps in session_steps().items()}
    return {**scenarios, "listen": listen}


PAYLOADS = ["0", "1", "2", "own"]


def in_turn(scenarios, number):
    """The scenarios (name -> function) of one connection, in its order."""
    names = list(scenarios)
    start = number % len(names)
    for _ in range(ROUNDS):
        for name in names[start:] + names[:start]:
            yield name, scenarios[name]


def work(scenarios, connect, number):
    name = "connect"
    try:
        connection = connect()
        for name, scenario in in_turn(scenarios, number):
            scenario(connection, f"connection {number}")
            ok(name)
        name = "leave"
        connection.close()
    except Exception as error:  # pylint: disable=broad-except
        failed(name, number, error)


def run(scenarios, connect):
    """A thread for each connection; a scenario is called with it and with a name of its own."""
    threads = [threading.Thread(target=work, args=(scenarios, connect, number))
               for number in range(CONNECTIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def same(got, wanted):
    if got != wanted:
        raise AssertionError(f"{got!r}, not {wanted!r}")


def until_over(cancel, is_over):
    """Cancels again and again: a request that comes before its statement has no effect."""
    while not is_over.wait(0.1):
        cancel()
