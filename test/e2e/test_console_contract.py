# SPDX-License-Identifier: ISC
"""Every command and every SHOW of the console, compared with a table of privileges and results.

The table is written from the compatibility target, not from the code. SHOW HELP finds commands that
are missing in the table, and the other way round.
"""

import re

import pytest

from .kit.daemon import USERS
from .kit.wire import bind, describe, execute, parse, refusal, sync
from .test_console_show import COLUMNS, columns_of

SHOWS = sorted(COLUMNS)
ADMIN_ONLY = {"FDS"}

# Commands and their tags; stats_users may not run them. The daemon is idle, so that each command
# returns at once.
COMMANDS = {
    "SET default_pool_size = 9": "SET default_pool_size=9",
    "RELOAD": "RELOAD",
    "PAUSE": "PAUSE",
    "RESUME": "RESUME",
    "PAUSE app": "PAUSE",
    "RESUME app": "RESUME",
    "SUSPEND": "SUSPEND",
    "resume;": "RESUME",
    "DISABLE app": "DISABLE",
    "ENABLE app": "ENABLE",
    "DISABLE HOST 127.0.0.1": "DISABLE",
    "ENABLE HOST '127.0.0.1'": "ENABLE",
    "DRAIN HOST \"127.0.0.1\"": "DRAIN",
    "enable host 127.0.0.1;": "ENABLE",
    "RECONNECT": "RECONNECT",
    "RECONNECT app": "RECONNECT",
    "WAIT_CLOSE": "WAIT_CLOSE",
    "WAIT_CLOSE app": "WAIT_CLOSE",
    "KILL app": "KILL",
    "RESUME app;": "RESUME",
    "KILL": "KILL",
    "DRAIN 0": "DRAIN",
    "RESUME  ;": "RESUME",
    "SHUTDOWN WAIT_FOR_CLIENTS": "SHUTDOWN",
}
WORDS = {"SHOW HELP", "HELP", "SET", "RELOAD", "PAUSE", "RESUME", "SUSPEND", "DISABLE", "ENABLE",
         "DISABLE HOST", "DRAIN HOST", "ENABLE HOST", "RECONNECT", "RESET STATEMENTS", "WAIT_CLOSE", "KILL", "KILL_CLIENT", "DRAIN", "TAKEOVER", "SHUTDOWN",
         "SHUTDOWN WAIT_FOR_SERVERS", "SHUTDOWN WAIT_FOR_CLIENTS"}


def simple(console, text):
    return console.query(text)


def extended(console, text):
    console.send(parse(text), bind(), describe("P"), execute(), sync())
    return console.read_result()


PROTOCOLS = (simple, extended)


@pytest.fixture
def weir(pgweir):
    weir = pgweir(pool_mode="transaction")
    weir.client().query("BEGIN")
    return weir


@pytest.mark.parametrize("ask", PROTOCOLS)
@pytest.mark.parametrize("user", ("admin", "stats"))
def test_every_show(weir, user, ask):
    console = weir.console(user)
    for item in SHOWS:
        result = ask(console, f"SHOW {item}")
        if user == "stats" and item in ADMIN_ONLY:
            assert (result.error["C"], result.error["M"]) == ("42501", "admin access needed"), item
            continue
        assert not result.errors, (item, result.error)
        assert [(column.name, column.type) for column in result.columns] == columns_of(item), item
        assert result.tags == ["SHOW"] and result.status == "I"
        assert all(len(row) == len(result.columns) for row in result.rows)


@pytest.mark.parametrize("ask", PROTOCOLS)
def test_every_command_as_admin(pgweir, ask):
    weir = pgweir(pool_mode="transaction")
    console = weir.console()
    for text, tag in COMMANDS.items():
        result = ask(console, text)
        assert not result.errors, (text, result.error)
        assert result.tags == [tag] and result.rows == [], text
    console.close()
    weir.disconnect()
    assert weir.wait_exit() == 0


@pytest.mark.parametrize("ask", PROTOCOLS)
def test_every_command_as_stats(weir, ask):
    console = weir.console("stats")
    for text in (*COMMANDS, "KILL_CLIENT 1", "SHUTDOWN", "SHUTDOWN WAIT_FOR_SERVERS"):
        result = ask(console, text)
        assert result.error, text
        assert (result.error["C"], result.error["M"]) == ("42501", "admin access needed"), text
    assert [row[1] for row in console.query("SHOW STATE").rows] == ["yes", "no", "no"]


def test_a_stranger(weir):
    refused = refusal(weir.address, "alice", "pgbouncer", USERS["alice"])
    assert (refused.severity, refused.sqlstate, refused.text) == ("FATAL", "28000", "not allowed")


@pytest.mark.parametrize("user", ("admin", "stats"))
def test_help_has_all_of_them(weir, user):
    (notice,) = weir.console(user).query("SHOW HELP").notices
    lines = [line.strip() for line in notice["D"].splitlines() if line.startswith("\t")]
    heads = {re.sub(r" \[.*]$", "", line.split("  ")[0]) for line in lines}
    assert {head for head in heads if head.startswith("SHOW ")} == \
        {f"SHOW {item}" for item in SHOWS} | {"SHOW HELP", "SHOW name"}
    words = {" ".join(word for word in head.split() if word.isupper()) for head in heads}
    assert {word for word in words if not word.startswith("SHOW")} == WORDS - {"SHOW HELP"}
    # Each has a line with a description.
    assert all(len(line.split("  ", 1)[1].strip()) > 8 for line in lines)


def test_columns_explain_all_of_them(weir):
    rows = weir.admin("SHOW COLUMNS")
    names = {"text": 25, "int4": 23, "int8": 20, "numeric": 1700, "bytea": 17}
    told = {}
    for row in rows:
        told.setdefault(row["item"], []).append((row["column"], names[row["type"]]))
        assert len(row["meaning"]) > 5, row
    assert told == {item: columns_of(item) for item in SHOWS}
    # Each text must be clear alone: it may be read in SHOW COLUMNS table, or among a thousand rows.
    leaning = re.compile(r"(And|Its|It|Of these|The same|Microseconds of it|Who|Why not)\b")
    assert [row for row in rows if leaning.match(row["meaning"])] == []
    assert all(row["meaning"][0].isalnum() and row["meaning"].endswith(".") for row in rows)
