# SPDX-License-Identifier: ISC
"""Actions of administrators: in the log, in SHOW WAITING, and how to undo them."""

import re
import signal

import pytest

from .kit.daemon import USERS
from .kit.wait import wait_until
from .kit.wire import Wire, parse, query, sync

WHO = r"LOG C-0x\w+: pgbouncer/admin@127\.0\.0\.1:\d+ "
DATE = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \S+"


@pytest.fixture
def weir(pgweir):
    return pgweir(pool_mode="transaction")


# -- the log ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("command, undo", (
    ("PAUSE", "RESUME"), ("PAUSE app", "RESUME app"), ("KILL app", "RESUME app"), ("RELOAD", None),
    ("DISABLE app", "ENABLE app"), ("RECONNECT", None), ("SUSPEND", "RESUME"),
    ("KILL_CLIENT 99", None)))
def test_commands_are_logged_with_their_user(weir, command, undo):
    for text in filter(None, (command, undo)):
        weir.ask_admin(text)
        word, _, argument = text.partition(" ")
        told = f"{word} '{argument}'" if argument else word
        weir.wait_log(WHO + re.escape(told) + " command issued$")


def test_set_is_logged_with_both_values(weir):
    weir.admin("SET query_timeout = 5")
    weir.wait_log(WHO + r"SET query_timeout = 5 \(was 0\)$")
    weir.admin("SET query_timeout = '1.5min'")
    weir.wait_log(WHO + r"SET query_timeout = 90 \(was 5\)$")
    weir.admin("SET auth_user = lookup")
    weir.wait_log(WHO + r"SET auth_user = lookup \(was \(unset\)\)$")
    weir.admin("SET login_notify_message = hello")
    weir.wait_log(WHO + r"SET login_notify_message = hello \(was empty\)$")
    weir.admin("SET login_notify_message = ''")
    weir.wait_log(WHO + r"SET login_notify_message = empty \(was hello\)$")
    assert "SET command issued" not in weir.log


def test_a_set_that_changes_nothing_is_logged_as_that(weir):
    weir.admin("SET listen_port = 1")
    weir.wait_log(WHO + rf"SET listen_port: takes effect only after a restart, still {weir.port}$")
    weir.admin("SET service_name = other")
    weir.wait_log(WHO + "SET service_name: takes effect only after a restart, still pgbouncer$")
    weir.ask_admin("SET default_pool_size = many")
    weir.wait_log(r"ERROR C-.*@\S+ SET default_pool_size failed: .*many")
    weir.ask_admin("SET default_pol_size = 3")
    weir.wait_log(r"ERROR C-.*@\S+ SET default_pol_size failed: unknown setting .*default_pool_size")


def test_a_password_within_a_setting_is_not_logged(weir):
    secret = "host=127.0.0.1 ldapbindpasswd=sesame"
    for value in (secret, f"{secret} nonsense=1", "host=127.0.0.1 ldapbasedn=x"):
        weir.ask_admin(f"SET auth_ldap_options = '{value}'")
    weir.ask_admin("SET query_timeout = 7")
    weir.wait_log("SET query_timeout = 7")
    assert len(re.findall("SET auth_ldap_options", weir.log)) == 3
    assert "sesame" not in weir.log


@pytest.mark.parametrize("text", ("SET auth_ldap_options 'ldapbindpasswd=sesame'",
                                  "SET auth_ldap_options = 'ldapbindpasswd=sesame' more",
                                  "SETT auth_ldap_options = 'ldapbindpasswd=sesame'",
                                  "SET auth_ldap_optoins 'ldapbindpassword=sesame'"))
def test_a_password_within_a_command_that_is_wrong_is_not_logged(weir, text):
    line = r"ERROR C-.*@\S+ invalid command '(SET auth_ldap_options )?\.\.\.'"
    with Wire(weir.address).login("admin", "pgbouncer", USERS["admin"]) as console:
        assert "sesame" in console.query(text).error["M"]
        assert console.ask(parse(text), sync()).errors
    assert wait_until(lambda: len(re.findall(line, weir.log)) == 2)
    assert "sesame" not in weir.log


# -- pauses ----------------------------------------------------------------------------------------


def detail(weir):
    (row,) = wait_until(lambda: weir.admin("SHOW WAITING"))
    return row["reason"], row["detail"]


@pytest.mark.parametrize("command, reason, undo", (("PAUSE", "paused", "RESUME"),
                                                   ("PAUSE app", "database paused", "RESUME app"),
                                                   ("KILL app", "database paused", "RESUME app"),
                                                   ("KILL", "database paused", "RESUME app")))
def test_a_forgotten_pause(weir, command, reason, undo):
    weir.client().query("SELECT 1")
    weir.admin(command)
    waits = weir.wire().startup() if command.startswith("KILL") else weir.client()
    waits.send(query("SELECT 1"))
    word = command.split()[0]
    assert detail(weir)[0] == reason
    assert re.fullmatch(f"{word} by admin@127.0.0.1 since {DATE}", detail(weir)[1])
    weir.admin(undo)
    wait_until(lambda: weir.admin("SHOW WAITING") == [])


def test_a_forgotten_suspend(pgweir):
    weir = pgweir(pool_mode="transaction", default_pool_size=1)
    weir.client().query("BEGIN")
    weir.client().send(query("SELECT 1"))
    weir.wait_pool(cl_waiting=1)
    weir.admin("SUSPEND")
    assert re.fullmatch(f"SUSPEND by admin@127.0.0.1 since {DATE}", detail(weir)[1])
    weir.admin("RESUME")


def test_a_pause_by_signal(weir):
    client = weir.client()
    weir.signal(signal.SIGUSR1)
    weir.wait_log("got SIGUSR1, pausing all activity")
    client.send(query("SELECT 1"))
    assert re.fullmatch(f"SIGUSR1 since {DATE}", detail(weir)[1])
    weir.signal(signal.SIGUSR2)
    client.read_result()


def test_resume_after_kill_says_what_is_paused(pgweir):
    names = [f"db{number}" for number in range(8)]
    weir = pgweir(databases={name: "dbname=app" for name in ["app", "app-2", *names]})
    error = weir.ask_admin("RESUME").error
    assert error["M"] == "pooler is not paused/suspended" and "H" not in error
    for database in ("app", "app-2"):
        weir.client(database=database).query("SELECT 1")
    weir.admin("KILL")
    error = weir.ask_admin("RESUME").error
    assert error["M"] == "pooler is not paused/suspended"
    assert error["H"] == \
        'Databases that are paused individually: "app", "app-2". ' \
        'Use RESUME with a database name.'
    weir.admin('RESUME "app-2"')
    assert '"app-2"' not in weir.ask_admin("RESUME").error["H"]
    for name in names:
        weir.admin(f"PAUSE {name}")
    assert re.match('Databases that are paused individually: ("[a-z0-9]+"(, )?){5} and 4 more. '
                    "Use RESUME", weir.ask_admin("RESUME").error["H"])
