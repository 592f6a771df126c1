# SPDX-License-Identifier: ISC
"""SHOW EVENTS: what has happened lately."""

import re

import pytest

from .kit.account import free_port
from .kit.wait import wait_until
from .kit.wire import Refused


def events(weir, kind=None):
    return [row for row in weir.admin("SHOW EVENTS") if kind in (None, row["kind"])]


def texts(weir, kind):
    return [row["text"] for row in events(weir, kind)]


def test_the_start(pgweir):
    weir = pgweir()
    (start,) = events(weir)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", start["at"])
    assert (start["kind"], start["level"], start["database"], start["user"]) == ("start", "LOG", None, None)
    assert start["text"].startswith("process up: pgweir ") and 0 <= start["age_s"] < 60


def test_commands_and_settings(pgweir):
    weir = pgweir()
    for command in ("PAUSE app", "RESUME app", "RECONNECT", "SET server_idle_timeout = 100"):
        weir.admin(command)
    weir.reload(query_timeout=900)
    found = events(weir)
    assert [row["kind"] for row in found] == ["start", "pause", "resume", "reconnect", "set", "reload",
                                              "reload"]
    assert found[1]["text"] == "PAUSE 'app' command issued"
    assert (found[1]["database"], found[1]["user"]) == ("pgbouncer", "admin")
    assert found[4]["text"].startswith("SET server_idle_timeout = 100 (was ")
    assert found[6]["text"] == "changed in the configuration: query_timeout, server_idle_timeout"


def test_connections_are_no_events(pgweir):
    weir = pgweir()
    assert weir.client().value("SELECT 1") == "1"
    with pytest.raises(Refused):
        weir.client(database="nothing")
    assert [row["kind"] for row in events(weir)] == ["start"]


def test_limits(pgweir):
    weir = pgweir(max_client_conn=1)
    with weir.client():
        with pytest.raises(Refused):
            weir.client()
    assert texts(weir, "limit")[0].startswith("max_client_conn is reached: ")


def test_hosts(pgweir, fake_server):
    port = free_port()
    weir = pgweir(databases={"app": f"host=127.0.0.1 port={port}"}, server_login_retry="0.1")
    client = weir.wire().startup("alice", "app")
    wait_until(lambda: texts(weir, "host down"), what="the event")
    assert f"app: PostgreSQL at 127.0.0.1:{port} cannot be reached: " in texts(weir, "host down")[0]
    assert events(weir, "host down")[0]["level"] == "WARNING"
    client.close()


def test_only_a_thousand_are_kept(pgweir):
    weir = pgweir(log_rate_limit=0)
    for number in range(1100):
        weir.admin(f"SET server_idle_timeout = {number + 1}")
    found = texts(weir, None)
    assert len(found) == 1000
    assert [int(re.match(r"SET server_idle_timeout = (\d+)", text).group(1)) for text in found] == list(
        range(101, 1101))


def test_a_long_text_is_cut(pgweir):
    weir = pgweir()
    long = ",".join(f"user{number}" for number in range(200))
    weir.admin(f"SET stats_users = '{long[:250]}'")
    (event,) = events(weir, "set")
    assert len(event["text"]) <= 480 and event["text"].startswith("SET stats_users = user0,")


def test_a_take_over(pgweir):
    weir = pgweir()
    weir.take_over()
    kinds = [row["kind"] for row in events(weir)]
    assert kinds[0] == "take-over" and "start" in kinds
