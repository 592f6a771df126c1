# SPDX-License-Identifier: ISC
"""Hosts with roles: target_session_attrs."""

import re

from .kit.wait import wait_until
from .kit.wire import query

WHERE = "SELECT host(inet_server_addr())"


def entries(cluster, **targets):
    return {name: f"host={cluster.host_list} port={cluster.port} dbname=app"
                  f" target_session_attrs={target}" for name, target in targets.items()}


def hosts(weir, entry="app"):
    return {row["host"]: row for row in weir.admin("SHOW HOSTS") if row["entry"] == entry}


def wait_host(weir, host, **wanted):
    wait_until(lambda: wanted.items() <= hosts(weir).get(host.host, {}).items(),
               what=f"{host.name} {wanted}")


def where(weir, database="app"):
    """The hosts of more servers than there are hosts."""
    held = [weir.client(database=database) for _ in range(5)]
    for client in held:
        client.query("BEGIN")
    seen = {client.value(WHERE) for client in held}
    for client in held:
        client.query("ROLLBACK")
        client.close()
    return seen


def test_servers_are_opened_where_the_role_fits(make_cluster, pgweir):
    cluster = make_cluster(standbys=2)
    first, second, third = (host.host for host in cluster.hosts)
    weir = pgweir(databases=entries(cluster, app="primary", rw="read-write", ro="read-only",
                                    p="primary", s="standby", f="prefer-standby", a="any"),
                  pool_mode="transaction", host_check_user="alice")
    for host, role in zip(cluster.hosts, ("primary", "standby", "standby")):
        wait_host(weir, host, role=role, timeline=1, state="up")
    assert where(weir, "p") == where(weir, "rw") == {first}
    assert where(weir, "s") == where(weir, "ro") == where(weir, "f") == {second, third}
    assert where(weir, "a") == {first, second, third}
    assert "cannot be reached" not in weir.log and "there was no primary" not in weir.log


def test_clients_wait_for_a_primary(make_cluster, pgweir):
    cluster = make_cluster(standbys=1)
    old, new = cluster.hosts
    weir = pgweir(databases=entries(cluster, app="primary"), pool_mode="transaction",
                  server_login_retry="0.05")
    client = weir.client()
    assert client.value(WHERE) == old.host
    old.kill()
    waiting = weir.client()
    waiting.send(query(WHERE))
    wait_until(lambda: [row["reason"] for row in weir.admin("SHOW WAITING")] == ["no primary"],
               what="a client that waits for a primary")
    new.promote()
    assert waiting.read_result().rows == [[new.host]]
    assert where(weir) == {new.host}


def test_an_old_primary_is_used_again_when_it_is_promoted(make_cluster, pgweir):
    """Nobody watches the hosts: logins find out that it is not fenced any more."""
    cluster = make_cluster(standbys=1)
    old, new = cluster.hosts
    weir = pgweir(databases=entries(cluster, app="primary"), pool_mode="transaction")
    client = weir.client()
    for _ in range(2):  # the server is asked about the catalog after the first one
        assert client.value(WHERE) == old.host
    old.kill()
    new.promote()
    assert client.value(WHERE) == new.host
    old.rewind(new).start()
    cluster.wait_streaming(old)
    new.kill()
    old.promote()
    assert client.value(WHERE) == old.host


def test_a_target_that_no_host_fits(make_cluster, pgweir):
    cluster = make_cluster(standbys=0)
    weir = pgweir(databases=entries(cluster, s="standby", f="prefer-standby"),
                  pool_mode="transaction", query_wait_timeout="1")
    assert where(weir, "f") == {cluster.hosts[0].host}
    client = weir.wire().startup(database="s")
    wait_until(lambda: [row["reason"] for row in weir.admin("SHOW WAITING")] == ["no standby"],
               what="a client that waits for a standby")
    assert "query_wait_timeout" in str(client.read_refusal())


# -- host watches ----------------------------------------------------------------------------------


def watched(pgweir, cluster, target="primary", **settings):
    weir = pgweir(databases=entries(cluster, app=target), pool_mode="transaction",
                  host_check_user="alice", **settings)
    for host in cluster.hosts:
        wait_host(weir, host, role="standby" if host in cluster.standbys else "primary")
    return weir


def test_a_promotion_is_noticed_without_any_client(make_cluster, pgweir):
    cluster = make_cluster(standbys=1)
    old, new = cluster.hosts
    weir = watched(pgweir, cluster)
    old.kill()
    wait_host(weir, old, role="primary", state="lost")
    new.promote()
    wait_host(weir, new, role="primary", timeline=2, state="up")
    assert where(weir) == {new.host}
    assert f"host {old.host} (primary) is lost: " in weir.log
    assert "there was no primary for " in weir.log
    assert "is fenced" not in weir.log


def test_the_old_primary_that_comes_back_is_fenced(make_cluster, pgweir):
    cluster = make_cluster(standbys=1)
    old, new = cluster.hosts
    weir = watched(pgweir, cluster)
    old.kill()
    new.promote()
    wait_host(weir, new, role="primary")
    old.start()
    wait_host(weir, old, state="fenced")
    assert where(weir) == {new.host}
    assert (f"ERROR host {old.host} is fenced and not used: it says that it is primary (timeline 1),"
            f" but {new.host} is (timeline 2)") in weir.log
    old.stop()
    old.rewind(new).start()
    wait_host(weir, old, state="up", role="standby")
    assert where(weir) == {new.host}


def test_a_host_that_hangs_is_left(make_cluster, pgweir):
    cluster = make_cluster(standbys=1)
    old, new = cluster.hosts
    weir = watched(pgweir, cluster, host_check_timeout="0.3", host_check_interval="0.1")
    held, begun = weir.client(), weir.client()
    held.query("BEGIN")
    held.query("SELECT 1")
    begun.query("BEGIN")
    assert where(weir) == {old.host}
    go_on = old.hang()
    wait_host(weir, old, state="lost")
    new.promote()
    wait_host(weir, new, role="primary")
    assert where(weir) == {new.host}
    assert "host is fenced" in str(held.read_refusal())
    assert begun.value(WHERE) == new.host
    go_on()


def test_lag_of_a_standby(make_cluster, pgweir):
    cluster = make_cluster(standbys=1)
    primary, standby = cluster.hosts
    weir = watched(pgweir, cluster, host_check_interval="0.1")
    wait_host(weir, standby, lag_us=0, lag_bytes=0)
    standby.pause_replay()
    primary.query("CREATE TABLE late (id int)")
    wait_until(lambda: hosts(weir)[standby.host]["lag_bytes"] > 0
               and hosts(weir)[standby.host]["lag_us"] > 200_000, what="a lag")
    standby.resume_replay()
    wait_host(weir, standby, lag_us=0, lag_bytes=0)


# -- DRAIN HOST ------------------------------------------------------------------------------------


def test_a_planned_switchover(make_cluster, pgweir):
    cluster = make_cluster(standbys=1)
    old, new = cluster.hosts
    weir = watched(pgweir, cluster)
    held, waiting = weir.client(), weir.client()
    held.query("BEGIN")
    assert held.value(WHERE) == old.host
    console = weir.console()
    console.send(query(f"DRAIN HOST {old.host}"))
    wait_host(weir, old, state="draining")
    waiting.send(query(WHERE))
    wait_until(lambda: [row["reason"] for row in weir.admin("SHOW WAITING")] == ["no primary"],
               what="a client that waits for a primary")
    assert held.query("COMMIT").tags == ["COMMIT"]
    assert console.read_result().tags == ["DRAIN"]
    wait_host(weir, old, state="drained", servers=0)
    old.stop()
    new.promote()
    assert waiting.read_result().rows == [[new.host]]
    old.rewind(new).start()
    weir.admin(f"ENABLE HOST {old.host}")
    wait_host(weir, old, state="up", role="standby")


def drain_notices(weir, host):
    result = weir.ask_admin(f"DRAIN HOST {host.host}")
    assert result.tags == ["DRAIN"]
    return sorted(notice["M"] for notice in result.notices)


def test_a_drain_says_which_standby_has_everything(make_cluster, pgweir):
    """As of a time when nothing of the drained host's clients runs any more."""
    cluster = make_cluster(standbys=2)
    old, behind, whole = cluster.hosts
    weir = watched(pgweir, cluster)
    client = weir.client()
    client.query("CREATE TABLE t AS SELECT 1")
    wait_host(weir, behind, lag_bytes=0)
    behind.stop_receiving()
    client.query("INSERT INTO t SELECT generate_series(1, 10000)")
    said = drain_notices(weir, old)
    assert said[1] == f"standby {whole.host} has replayed all WAL of {old.host}"
    lacks = re.fullmatch(rf"standby {behind.host} has not replayed (\d+) bytes of the WAL of "
                         rf"{old.host}", said[0])
    assert int(lacks[1]) > 100000
    # No drained primary: there is nothing to compare with.
    weir.admin(f"ENABLE HOST {old.host}")
    assert drain_notices(weir, whole) == []
    weir.admin(f"ENABLE HOST {whole.host}")
    behind.stop()
    wait_host(weir, behind, state="lost")
    assert drain_notices(weir, old) == sorted((
        f"standby {whole.host} has replayed all WAL of {old.host}",
        f"whether standby {behind.host} has replayed all WAL of {old.host} is not known"))
    weir.ask_admin("PAUSE")  # which ends the watches, too
    assert all("is not known" in notice for notice in drain_notices(weir, old))
    weir.ask_admin("RESUME")


def test_a_disabled_host_is_left_at_once(make_cluster, pgweir):
    cluster = make_cluster(standbys=1)
    primary, standby = cluster.hosts
    weir = pgweir(databases=entries(cluster, app="any"), pool_mode="transaction")
    held = [weir.client() for _ in range(2)]
    for client in held:
        client.query("BEGIN")
    at = {client.value(WHERE): client for client in held}
    weir.admin(f"DISABLE HOST {standby.host}")
    assert "host was disabled by an administrator" in str(at[standby.host].read_refusal())
    assert where(weir) == {primary.host}
    weir.admin("RELOAD")
    assert hosts(weir)[standby.host]["state"] == "disabled"
    weir.admin(f"ENABLE HOST {standby.host}")
    weir.admin("RECONNECT")
    assert where(weir) == {primary.host, standby.host}
    assert "no entry has the host" in str(weir.ask_admin("DRAIN HOST 192.0.2.1").error)


# -- RELOAD ----------------------------------------------------------------------------------------


def test_hosts_are_added_and_removed_without_touching_the_others(make_cluster, pgweir):
    cluster = make_cluster(standbys=2)
    first, second, third = cluster.hosts

    def entry(*members):
        return {"app": f"host={','.join(host.host for host in members)} port={cluster.port}"
                       " dbname=app target_session_attrs=any"}

    weir = pgweir(databases=entry(first, second), pool_mode="transaction")
    held = [weir.client() for _ in range(2)]
    for client in held:
        client.query("BEGIN")
    at = {client.value(WHERE): client for client in held}
    pid = at[second.host].value("SELECT pg_backend_pid()")
    at[second.host].query("COMMIT")
    weir.reload(databases=entry(third, second))
    assert at[first.host].value(WHERE) == first.host  # until its transaction ends
    at[first.host].query("COMMIT")
    wait_until(lambda: not first.backends("alice"), what="no server at the removed host")
    assert int(pid) in second.backends("alice")
    assert where(weir) == {second.host, third.host}
    assert hosts(weir)[second.host]["servers"] > 0


def test_what_is_known_of_a_host_survives_another_list(make_cluster, pgweir):
    cluster = make_cluster(standbys=2)
    first, second, third = cluster.hosts

    def entry(*members):
        return {"app": f"host={','.join(host.host for host in members)} port={cluster.port}"
                       " dbname=app target_session_attrs=primary"}

    weir = pgweir(databases=entry(first, second), pool_mode="transaction", host_check_user="alice")
    wait_host(weir, second, role="standby")
    assert where(weir) == {first.host}
    first.kill()
    second.promote()
    wait_host(weir, second, role="primary", timeline=2)
    since = hosts(weir)[second.host]["since"]
    second.stop()
    wait_host(weir, second, state="lost")
    first.start()
    wait_host(weir, first, state="fenced")
    weir.reload(databases=entry(third, first, second))
    wait_host(weir, third, role="standby", state="up")
    shown = hosts(weir)
    assert shown[first.host]["state"] == "fenced"  # the timeline that has counted is known
    assert (shown[second.host]["role"], shown[second.host]["since"]) == ("primary", since)
    second.start()
    wait_host(weir, second, role="primary", timeline=2, state="up")
    assert where(weir) == {second.host}


def test_a_state_survives_another_list(make_cluster, pgweir):
    cluster = make_cluster(standbys=1)
    primary, standby = cluster.hosts
    hosts_of = "host={} port={} dbname=app target_session_attrs=any"
    weir = pgweir(databases={"app": hosts_of.format(cluster.host_list, cluster.port)},
                  pool_mode="transaction")
    weir.admin(f"DISABLE HOST {standby.host}")
    assert where(weir) == {primary.host}
    weir.reload(databases={"app": hosts_of.format(f"{standby.host},{primary.host}", cluster.port)})
    assert where(weir) == {primary.host}
    assert hosts(weir)[standby.host]["state"] == "disabled"


# -- take-over -------------------------------------------------------------------------------------


def test_a_take_over_knows_who_counts(make_cluster, pgweir):
    """The old primary stays fenced while the new one is down, and the hosts' states are kept."""
    cluster = make_cluster(standbys=2)
    first, second, third = cluster.hosts
    weir = watched(pgweir, cluster)
    first.kill()
    second.promote()
    wait_host(weir, second, role="primary", timeline=2)
    client = weir.client()
    assert client.value(WHERE) == second.host
    assert client.value("SELECT 1") == "1"  # what the function has left is asked for before
    weir.admin(f"DRAIN HOST {third.host}")
    second.stop()
    wait_host(weir, second, state="lost")
    first.start()
    wait_host(weir, first, state="fenced")
    before = hosts(weir)
    weir.disconnect_console()
    assert weir.take_over().wait(15) == 0
    after = hosts(weir)
    assert [after[host.host]["since"] for host in cluster.hosts] == [
        before[host.host]["since"] for host in cluster.hosts]
    wait_host(weir, first, state="fenced", role="primary", timeline=1)
    wait_host(weir, third, state="drained", role="standby")
    client.send(query(WHERE))
    wait_until(lambda: [row["reason"] for row in weir.admin("SHOW WAITING")] == ["no primary"],
               what="a client that waits for a primary")
    second.start()
    assert client.read_result().rows == [[second.host]]
    weir.admin(f"ENABLE HOST {third.host}")
    wait_host(weir, third, state="up")


def test_a_lost_host_stays_lost(make_cluster, pgweir):
    """With another list of hosts, and in a new process, until it answers."""
    cluster = make_cluster(standbys=1)
    primary, standby = cluster.hosts
    weir = watched(pgweir, cluster, host_check_timeout="0.3", host_check_interval="0.1")
    go_on = standby.hang()
    try:
        wait_host(weir, standby, state="lost")
        # From now on a watch takes long to find out that it does not answer.
        weir.reload(host_check_timeout=60)
        weir.disconnect_console()
        assert weir.take_over().wait(15) == 0
        assert hosts(weir)[standby.host]["state"] == "lost"
        weir.reload(databases={"app": f"host={standby.host},{primary.host} port={cluster.port}"
                                      " dbname=app target_session_attrs=primary"})
        assert hosts(weir)[standby.host]["state"] == "lost"
    finally:
        go_on()
    wait_host(weir, standby, state="up", role="standby")
