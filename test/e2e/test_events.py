# SPDX-License-Identifier: ISC
"""SHOW EVENTS: what has happened lately."""

import pathlib
import re

import pytest

from .kit.account import free_port
from .kit.web import Web
from .kit.wait import wait_until
from .kit.wire import Refused, query


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


def test_a_reload_that_failed(pgweir):
    weir = pgweir()
    with pytest.raises(Exception, match="RELOAD failed"):
        weir.reload(pool_mode="nothing")
    assert texts(weir, "reload")[-2:] == ["RELOAD command issued",
                                          "reload failed, keeping the old configuration"]


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


def totals(weir):
    return {row["event"]: row["count"] for row in weir.admin("SHOW EVENTS_TOTALS")}


# The settings, and the event: database, user, text.
SPELLS = {
    "max_db_connections": (dict(databases={"app": "max_db_connections=1"}), ("app", None, "the servers of database app")),
    "max_user_connections": (dict(max_user_connections=1), (None, "alice", "the servers of user alice")),
    "max_db_client_connections": (dict(databases={"app": "max_db_client_connections=1"}),
                                  ("app", None, "the clients of database app")),
    "max_user_client_connections": (dict(max_user_client_connections=1), (None, "alice", "the clients of user alice")),
    "max_pinned_servers": (dict(max_pinned_servers=1, pool_mode="transaction"),
                           ("app", "alice", "the pinned servers of pool app/alice")),
}


@pytest.mark.parametrize("limit", SPELLS)
@pytest.mark.parametrize("log_format", ("text", "json"))
def test_a_limit_is_one_event(pgweir, limit, log_format):
    settings, (database, user, text) = SPELLS[limit]
    weir = pgweir(**settings, log_format=log_format)
    first = weir.client()
    first.query("BEGIN")
    if limit == "max_pinned_servers":
        first.query("CREATE TEMP TABLE mine (a int)")
    for _ in range(3):
        other = weir.wire()
        if "client" in limit:
            with pytest.raises(Refused):
                other.login()
            continue
        other.login()
        if limit == "max_pinned_servers":
            other.send(query("CREATE TEMP TABLE mine (a int)"))
        else:
            other.send(query("SELECT 1"))
    wait_until(lambda: events(weir, "limit"), what="the event")
    (hits,) = [row["hits"] for row in weir.admin("SHOW LIMITS HIT") if row["limit"] == limit]
    (event,) = events(weir, "limit")
    assert hits >= 1 and event["text"] == f"{limit} = 1 is reached by {text}"
    assert (event["database"], event["user"], event["level"]) == (database, user, "WARNING")


def test_totals(pgweir):
    port = free_port()
    weir = pgweir(metrics_listen=f"127.0.0.1:{port}")
    before = totals(weir)
    assert before["start"] == 1 and sum(before.values()) == 1
    for command in ("PAUSE app", "RESUME app", "PAUSE", "RESUME", "RESET STATEMENTS"):
        weir.admin(command)
    after = totals(weir)
    assert after == before | {"pause": 2, "resume": 2, "reset statements": 1}
    scraped = Web(port).ask("/metrics").text
    assert dict(re.findall(r'^pgweir_events_total\{event="(.*)"\} (\d+)$', scraped, re.MULTILINE)) == {
        event: str(count) for event, count in after.items()}


def test_each_kind_is_counted_from_the_start(pgweir):
    source = pathlib.Path(__file__).parents[2] / "src"
    text = "\n".join(file.read_text(encoding="utf-8") for file in source.rglob("*.c"))
    kinds = set(re.findall(r'log_kept\([^"]*?LEVEL_\w+,\s*"([^"]+)"', text))
    kinds |= set(re.findall(r'\.kept = "([^"]+)"', text))
    assert {"start", "take-over", "set", "host down"} <= kinds
    assert kinds <= set(totals(pgweir()))


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
