# SPDX-License-Identifier: ISC
"""A primary that hangs: its connections stay open, and nothing answers."""

import contextlib

import pytest

from .kit.wait import wait_until
from .kit.wire import query
from .test_roles import WHERE, drain_notices, entries, hosts, wait_host, watched


@contextlib.contextmanager
def hung(host):
    go_on = host.hang()
    try:
        yield
    finally:
        go_on()


@pytest.fixture
def scene(make_cluster, pgweir):
    """A client in a transaction that has only begun, and one whose statement the host has got."""

    def make(**settings):
        cluster = make_cluster(standbys=1)
        weir = watched(pgweir, cluster, host_check_timeout="0.3", host_check_interval="0.1",
                       **settings)
        begun, running = weir.client(), weir.client()
        begun.query("BEGIN")
        running.send(query("SELECT 17 FROM pg_sleep(5)"))
        weir.wait_pool(sv_active=2)
        return cluster, weir, begun, running

    return make


def test_clients_continue_when_it_answers_again(scene):
    cluster, weir, begun, running = scene()
    with hung(cluster.hosts[0]):
        wait_host(weir, cluster.hosts[0], state="lost")
        wait_until(lambda: weir.pool()["sv_active"] == 1, what="one server that is kept")
        begun.send(query(WHERE))
        wait_until(lambda: [row["reason"] for row in weir.admin("SHOW WAITING")] == ["no primary"],
                   what="a client that waits for a primary")
    assert running.read_result().rows == [["17"]]
    assert begun.read_result().rows == [[cluster.hosts[0].host]]
    assert begun.query("COMMIT").tags == ["COMMIT"]


def test_another_host_is_promoted(scene):
    cluster, weir, begun, running = scene()
    old, new = cluster.hosts
    with hung(old):
        wait_host(weir, old, state="lost")
        begun.send(query(WHERE))
        new.promote()
        assert begun.read_result().rows == [[new.host]]
        refused = running.read_refusal()
        assert "host is fenced" in refused.text
        assert refused.fields["D"] == "The statement might have been executed."


def test_what_has_no_effect_is_sent_to_the_new_primary(scene):
    cluster, weir, begun, _ = scene()
    old, new = cluster.hosts
    with hung(old):
        begun.send(query("SET LOCAL work_mem = '1MB'"))
        wait_host(weir, old, state="lost")
        new.promote()
        assert begun.read_result().tags == ["SET"]
        assert begun.query(WHERE).rows == [[new.host]]


def test_query_timeout_ends_what_it_does_not_answer(scene):
    cluster, weir, _, running = scene(query_timeout="3")
    with hung(cluster.hosts[0]):
        wait_host(weir, cluster.hosts[0], state="lost")
        assert running.read_refusal().text == "query timeout"


def test_without_a_user_for_watches_the_login_of_a_pool_serves(make_cluster, pgweir):
    cluster = make_cluster(standbys=1)
    old, new = cluster.hosts
    weir = pgweir(databases=entries(cluster, app="primary"), pool_mode="transaction",
                  host_check_timeout="0.3", host_check_interval="0.1")
    client = weir.client()
    assert client.value(WHERE) == old.host
    wait_host(weir, old, role="primary", watch="yes")
    wait_host(weir, new, role="standby", watch="yes")
    with hung(old):
        wait_host(weir, old, state="lost")
        client.send(query(WHERE))
        new.promote()
        assert client.read_result().rows == [[new.host]]


def test_before_a_login_there_is_no_watch_and_it_is_said(make_cluster, pgweir):
    cluster = make_cluster(standbys=1)
    weir = pgweir(databases=entries(cluster, app="primary"), pool_mode="transaction")
    weir.wait_log('database "app": no host watch until a login')
    assert {row["watch"][:3] for row in weir.admin("SHOW HOSTS")} == {"no:"}


def test_what_a_promotion_loses_is_measured(make_cluster, pgweir):
    cluster = make_cluster(standbys=1)
    old, new = cluster.hosts
    weir = watched(pgweir, cluster, host_check_interval="0.1")
    new.stop_receiving()
    client = weir.client()
    client.query("CREATE TABLE lost AS SELECT repeat('x', 1000) FROM generate_series(1, 1000)")
    wait_until(lambda: (hosts(weir)[new.host]["lag_bytes"] or 0) > 1000000, what="the lag")
    old.kill()
    new.promote()
    weir.wait_log(rf"WARNING host {new.host} has become primary without what .* bytes of WAL")
    assert hosts(weir)[new.host]["lost_bytes"] > 900000
    assert hosts(weir)[old.host]["lost_bytes"] == 0


def test_a_drain_does_not_wait_for_answers_of_a_host_that_hangs(make_cluster, pgweir):
    cluster = make_cluster(standbys=1)
    old, new = cluster.hosts
    weir = watched(pgweir, cluster, host_check_timeout="0.3")
    with hung(old):
        wait_host(weir, old, state="lost")
        assert drain_notices(weir, old) == [
            f"whether standby {new.host} has replayed all WAL of {old.host} is not known"]
