# SPDX-License-Identifier: ISC
"""What the Python drivers' programs share: arguments, several connections at once, the lines.

A program opens CONNECTIONS connections; each goes through all scenarios for ROUNDS times, each
beginning with another one, and prints a line for each: "ok NAME" or "failed NAME words".
"""

import os
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
