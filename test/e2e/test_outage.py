# SPDX-License-Identifier: ISC
"""A database that is down: who waits for it, for how long, and what is said of it."""

import re

import pytest

from .kit.account import free_port
from .kit.wire import query, refusal

SHORT = "0.3"
LONG = "900"
DOWN = r"retry after failure: connect failed: Connection refused; next try in \d+ s"


def down(more=""):
    """An entry at whose port nobody listens."""
    return f"host=127.0.0.1 port={free_port()} {more}"


def ends_with(refused, sqlstate, text, detail=DOWN):
    assert (refused.severity, refused.sqlstate, refused.text) == ("FATAL", sqlstate, text)
    assert re.fullmatch(detail, refused.fields["D"]), refused.fields


# -- query_wait_timeout for clients that wait for the pool's first server -------------------------


@pytest.mark.parametrize("settings", (
    dict(query_wait_timeout=SHORT),
    dict(databases={"app": down("query_wait_timeout=1")}, query_wait_timeout=0),
    dict(users={"alice": "query_wait_timeout=1"}, query_wait_timeout=0),
), ids=("global", "database", "user"))
def test_a_first_client_waits_as_long_as_a_query_may(pgweir, settings):
    weir = pgweir(**{"databases": {"app": down()}, "server_login_retry": LONG, **settings})
    ends_with(refusal(weir.address), "53300", "query_wait_timeout")
    weir.wait_log("pooler error: query_wait_timeout: " + DOWN)


@pytest.mark.parametrize("settings", (
    dict(query_timeout=SHORT),
    dict(users={"alice": "query_timeout=1"}, query_wait_timeout=5),
), ids=("global", "user"))
def test_a_first_client_waits_no_longer_than_query_timeout(pgweir, settings):
    weir = pgweir(databases={"app": down()}, server_login_retry=LONG, **settings)
    ends_with(refusal(weir.address), "57014", "query_timeout")


@pytest.mark.parametrize("more", (dict(query_wait_timeout=5), dict(query_wait_timeout=0)))
def test_the_limit_of_logins_counts_where_it_is_shorter(pgweir, more):
    weir = pgweir(databases={"app": down()}, server_login_retry=LONG, client_login_timeout=SHORT,
                  **more)
    ends_with(refusal(weir.address), "57P03", "client_login_timeout (server down)")


def test_the_limit_of_waiting_counts_without_one_of_logins(pgweir):
    weir = pgweir(databases={"app": down()}, server_login_retry=LONG, client_login_timeout=0,
                  query_wait_timeout=SHORT)
    ends_with(refusal(weir.address), "53300", "query_wait_timeout")


def test_a_reload_changes_the_limit_of_those_who_wait(pgweir):
    weir = pgweir(databases={"app": down()}, server_login_retry=LONG)
    client = weir.wire().startup()
    weir.wait_pool(cl_waiting=1)
    weir.reload(query_wait_timeout=SHORT)
    ends_with(client.read_refusal(), "53300", "query_wait_timeout")


def test_a_replication_client_waits_as_long_as_a_query_may(pgweir):
    weir = pgweir(default_pool_size=1, query_wait_timeout=SHORT)
    first = weir.client("streamer", replication="database")
    refused = refusal(weir.address, "streamer", replication="database")
    ends_with(refused, "53300", "query_wait_timeout", "pool full: .*")
    assert first.value("SELECT 1") == "1"


def test_a_login_by_auth_query_waits_as_long_as_a_query_may(pgweir):
    weir = pgweir(databases={"app": down()}, server_login_retry=LONG, auth_type="plain",
                  auth_user="asker", auth_query="SELECT $1::text, 'secret'",
                  query_wait_timeout=SHORT, userlist={"asker": "secret"})
    refused = weir.wire().startup().read_refusal()
    assert (refused.sqlstate, refused.text) == ("53300", "query_wait_timeout")
    weir.wait_log("auth_query failed, on app by asker, for alice: query_wait_timeout: " + DOWN)


def test_who_got_in_in_time_is_not_ended_later(pgweir, fake_server):
    far = fake_server()
    weir = pgweir(databases={"app": far.entry}, query_wait_timeout=1)
    client = weir.wire().startup()
    far.accept().login()
    client.finish_login("alice")
    weir.reload(databases={"app": far.entry, "down": down()})
    refusal(weir.address, database="down")  # a whole query_wait_timeout has gone by
    assert not client.is_closed()
