# SPDX-License-Identifier: ISC
"""Host watches: whom they ask and when, logins that are refused, TLS, names with several addresses,
and roles together with what else servers are used for."""

import pytest

from .kit.wait import wait_until
from .kit.wire import query
from .test_listen import heard
from .test_roles import WHERE, entries, hosts, wait_host, watched, where
from .test_takeover import Load

WATCHES = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pgweir host watch'"
OF_DATABASE = WATCHES + " AND datname = %s"


def wait_watches(cluster, count, dbname=None):
    for host in cluster.hosts:
        wait_until(lambda at=host: at.value(*((OF_DATABASE, dbname) if dbname else (WATCHES,)),
                                            dbname="postgres")
                   == count, what=f"{count} watches of {host.name}")


def star(cluster, target="primary"):
    return {"*": f"host={cluster.host_list} port={cluster.port} target_session_attrs={target}"}


# -- when there are watches ------------------------------------------------------------------------


def test_the_automatic_database_is_watched_while_it_has_pools(make_cluster, pgweir):
    cluster = make_cluster(standbys=1)
    weir = pgweir(databases=star(cluster), pool_mode="transaction", host_check_user="alice",
                  server_idle_timeout="0.2", pool_idle_timeout="0.2", autodb_idle_timeout="0.2")
    weir.admin("SHOW HOSTS")
    wait_watches(cluster, 0)
    client = weir.client(database="app")
    assert client.value(WHERE) == cluster.hosts[0].host
    wait_watches(cluster, 1, "app")
    wait_host(weir, cluster.hosts[1], role="standby", lag_us=0)
    second = weir.client(database="app2")
    second.query("SELECT 1")
    client.close()
    wait_until(lambda: "app" not in {row["database"] for row in weir.admin("SHOW POOLS")},
               what="the end of the first pool")
    wait_watches(cluster, 1)
    second.close()
    wait_watches(cluster, 0)


def test_a_database_that_does_not_exist_does_not_keep_the_watches(make_cluster, pgweir):
    cluster = make_cluster(standbys=1)
    weir = pgweir(databases=star(cluster), pool_mode="transaction", host_check_user="alice",
                  server_login_retry="0.1")
    wrong = weir.wire().startup(database="nowhere")
    assert wrong.read_refusal().sqlstate == "3D000"
    assert weir.client(database="app").value(WHERE) == cluster.hosts[0].host
    wait_watches(cluster, 1, "app")


def test_a_user_whose_reads_go_to_standbys_has_the_hosts_watched(make_cluster, pgweir):
    cluster = make_cluster(standbys=1)
    weir = pgweir(databases=entries(cluster, app="any"), pool_mode="transaction",
                  users={"alice": "route_reads=transactions"}, host_check_user="alice")
    weir.client(user="bob").query("SELECT 1")
    wait_watches(cluster, 0)
    client = weir.client()
    assert client.value(WHERE) == cluster.hosts[0].host
    wait_watches(cluster, 1)
    wait_host(weir, cluster.hosts[1], role="standby", state="up")
    weir.reload(users={})
    wait_watches(cluster, 0)


def test_pause_leaves_postgresql_free_to_be_stopped(make_cluster, pgweir):
    """A smart shutdown waits for all connections."""
    cluster = make_cluster(standbys=1)
    old, new = cluster.hosts
    weir = watched(pgweir, cluster)
    client = weir.client()
    assert client.value(WHERE) == old.host
    weir.admin("PAUSE app")
    wait_watches(cluster, 0)
    old.stop(15)
    new.promote()
    client.send(query(WHERE))
    weir.admin("RESUME app")
    assert client.read_result().rows == [[new.host]]
    wait_host(weir, new, role="primary", timeline=2)


def test_pause_of_one_entry_leaves_the_watches_of_another(make_cluster, pgweir):
    cluster = make_cluster(standbys=1)
    weir = pgweir(databases=entries(cluster, app="primary", app2="standby"),
                  host_check_user="alice")
    wait_watches(cluster, 1)
    weir.admin("PAUSE app")
    weir.admin("RESUME app")
    weir.admin("PAUSE app2")
    wait_watches(cluster, 1)
    weir.admin("PAUSE app")
    wait_watches(cluster, 0)
    weir.admin("RESUME app2")
    wait_watches(cluster, 1)
    weir.admin("RESUME app")
    weir.admin("PAUSE")
    wait_watches(cluster, 0)
    weir.admin("RESUME")
    wait_watches(cluster, 1)


@pytest.mark.parametrize("loops", (1, 3))
def test_pause_of_one_automatic_database(make_cluster, pgweir, loops):
    """The watches are connected to the database of one of them. PAUSE of that one moves them, so that
    it can be dropped.
    """
    cluster = make_cluster(standbys=1)
    weir = pgweir(databases=star(cluster), loops=loops, pool_mode="transaction",
                  host_check_user="alice")
    clients = {name: [weir.client(database=name) for _ in range(3)] for name in ("app", "app2")}
    for client in clients["app"] + clients["app2"]:
        client.query("SELECT 1")
    wait_watches(cluster, 1)
    wait_watches(cluster, 1, "app")
    weir.admin("PAUSE app")
    wait_watches(cluster, 0, "app")
    wait_watches(cluster, 1, "app2")
    cluster.hosts[0].query("ALTER DATABASE app RENAME TO other", dbname="postgres")
    cluster.hosts[0].query("ALTER DATABASE other RENAME TO app", dbname="postgres")
    assert {client.value(WHERE) for client in clients["app2"]} == {cluster.hosts[0].host}
    weir.admin("PAUSE app2")
    wait_watches(cluster, 0)
    weir.admin("RESUME app")
    wait_watches(cluster, 1, "app")
    weir.admin("RESUME app2")
    for client in clients["app"] + clients["app2"]:
        assert client.value(WHERE) == cluster.hosts[0].host


def test_all_loops_share_the_watches(make_cluster, pgweir):
    cluster = make_cluster(standbys=1)
    old, new = cluster.hosts
    weir = pgweir(databases={**entries(cluster, app="primary"), **star(cluster)}, loops=3,
                  pool_mode="transaction", host_check_user="alice")
    clients = [weir.client() for _ in range(9)] + [weir.client(database="app2") for _ in range(3)]
    assert {client.value(WHERE) for client in clients} == {old.host}
    wait_watches(cluster, 1)
    old.kill()
    wait_host(weir, old, state="lost")
    for client in clients:
        client.send(query(WHERE))
    new.promote()
    assert {client.read_result().rows[0][0] for client in clients} == {new.host}


# -- logins ----------------------------------------------------------------------------------------


def refuse(host, user):
    """pg_hba.conf of this host rejects the user."""
    with open(f"{host.dir}/pg_hba.conf", encoding="ascii") as file:
        rules = file.read()
    host.account.write(f"{host.dir}/pg_hba.conf",
                       f"host all {user} 0.0.0.0/0 reject\n{rules}", 0o600)
    host.query("SELECT pg_reload_conf()")


def test_a_watch_that_is_refused(make_cluster, pgweir):
    """Then logins find out the roles; the log has one WARNING for each host."""
    cluster = make_cluster(standbys=1)
    primary, standby = cluster.hosts
    for host in cluster.hosts:
        refuse(host, "bob")
    weir = pgweir(databases=entries(cluster, app="primary", s="standby"), pool_mode="transaction",
                  host_check_user="bob", server_login_retry="0.05")
    for host in cluster.hosts:
        wait_until(lambda at=host: at.log.count('rejects connection for host') >= 4,
                   what="some refused logins of the watch")
    for host in cluster.hosts:
        shown = hosts(weir)[host.host]
        assert "pg_hba.conf rejects connection" in shown["last_error"]
        assert (shown["role"], shown["state"]) == ("unknown", "unknown")
        assert weir.log.count(f"WARNING host {host.host} is not watched: ") == 1
    assert where(weir) == {primary.host}
    assert where(weir, "s") == {standby.host}
    assert hosts(weir)[primary.host]["role"] == "primary"
    assert hosts(weir)[standby.host]["role"] == "standby"


def test_without_a_user_there_are_no_watches(make_cluster, pgweir):
    cluster = make_cluster(standbys=1)
    weir = pgweir(databases=entries(cluster, app="primary"), pool_mode="transaction",
                  host_check_borrow=0)
    assert where(weir) == {cluster.hosts[0].host}
    wait_watches(cluster, 0)
    shown = hosts(weir)[cluster.hosts[0].host]
    assert (shown["role"], shown["lag_us"], shown["latency_us"]) == ("primary", None, 0)


def test_a_watch_by_scram_and_verified_tls(make_cluster, pgweir, ca):
    certificate = ca.issue("hosts", "db.example", names=("127.0.0.2", "127.0.0.3"))
    cluster = make_cluster(standbys=1, ssl="on", ssl_cert_file=certificate.cert,
                           ssl_key_file=certificate.key)
    weir = pgweir(databases=entries(cluster, app="primary"), pool_mode="transaction",
                  host_check_user="scram_user", server_tls_sslmode="verify-full",
                  server_tls_ca_file=ca.cert)
    for host in cluster.hosts:
        wait_host(weir, host, state="up", timeline=1)
        assert host.value("SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)"
                          " WHERE application_name = 'pgweir host watch'"
                          " AND usename = 'scram_user'")


# -- names -----------------------------------------------------------------------------------------


def test_a_primary_behind_a_name_with_two_addresses(make_cluster, make_pgweir):
    cluster = make_cluster(standbys=1)
    old, new = cluster.hosts
    weir = make_pgweir(databases={"app": f"host=db.test port={cluster.port} dbname=app"
                                         " target_session_attrs=primary"},
                       pool_mode="transaction", host_check_user="alice", dns_max_ttl="0.2")
    names = f"{weir.dir}/hosts"
    weir.account.write(names, f"{new.host} db.test\n{old.host} db.test\n", 0o644)
    weir.start(env={"CARES_HOSTS": names})

    def roles():
        return {row["address"]: row["role"] for row in weir.admin("SHOW HOSTS")}

    wait_until(lambda: roles() == {old.host: "primary", new.host: "standby"}, what="both roles")
    assert where(weir) == {old.host}
    old.kill()
    new.promote()
    assert where(weir) == {new.host}
    weir.account.write(names, f"{new.host} db.test\n", 0o644)
    wait_until(lambda: roles() == {new.host: "primary"}, limit=30, what="the address to be gone")
    assert where(weir) == {new.host}


# -- with other uses of servers --------------------------------------------------------------------


def test_a_take_over_under_load(make_cluster, pgweir):
    cluster = make_cluster(standbys=1)
    weir = watched(pgweir, cluster, default_pool_size=5)
    load = Load(weir, 8)
    try:
        for _ in range(3):
            before = list(load.rounds)
            wait_until(lambda seen=before: all(now > then for now, then in zip(load.rounds, seen)),
                       what="work of all clients")
            weir.disconnect_console()
            assert weir.take_over().wait(20) == 0
    finally:
        load.is_over.set()
        for thread in load.threads:
            thread.join()
    assert not load.problems
    assert not cluster.hosts[1].backends("alice", "app")[1:]  # only the watch


def test_notifications_come_from_the_new_primary(make_cluster, pgweir):
    cluster = make_cluster(standbys=1)
    old, new = cluster.hosts
    weir = watched(pgweir, cluster)
    listener, teller = weir.client(), weir.client()
    listener.query("LISTEN news")
    teller.query("NOTIFY news, 'old'")
    assert heard(listener, 1) == [("news", "old")]
    old.kill()
    new.promote()
    wait_host(weir, new, role="primary")
    assert "listening connection" in str(listener.read_refusal())
    listener = weir.client()
    listener.query("LISTEN news")
    teller.query("NOTIFY news, 'new'")
    assert heard(listener, 1) == [("news", "new")]


def test_a_drained_host_goes_on_notifying_until_it_stops(make_cluster, pgweir):
    """There is no other primary to listen at."""
    cluster = make_cluster(standbys=1)
    old, new = cluster.hosts
    weir = watched(pgweir, cluster)
    listener = weir.client()
    listener.query("LISTEN news")
    weir.admin(f"DRAIN HOST {old.host}")  # does not wait for it
    old.query("NOTIFY news, 'old'")
    assert heard(listener, 1) == [("news", "old")]
    old.stop()
    new.promote()
    refused = listener.read_refusal()
    assert (refused.sqlstate, "listening connection" in refused.text) == ("08006", True)
    listener = weir.client()
    listener.query("LISTEN news")
    new.query("NOTIFY news, 'new'")
    assert heard(listener, 1) == [("news", "new")]


def test_a_disabled_host_ends_its_listeners(make_cluster, pgweir):
    cluster = make_cluster(standbys=1)
    old = cluster.hosts[0]
    weir = watched(pgweir, cluster)
    listener, other = weir.client(), weir.client()
    listener.query("LISTEN news")
    other.query("SELECT 1")
    weir.admin(f"DISABLE HOST {old.host}")
    refused = listener.read_refusal()
    assert (refused.sqlstate, "host was disabled" in refused.text) == ("08006", True)
    weir.admin(f"ENABLE HOST {old.host}")
    assert other.value(WHERE) == old.host


@pytest.mark.parametrize("target, number", (("primary", 0), ("standby", 1)))
def test_replication_goes_where_the_role_fits(make_cluster, pgweir, target, number):
    cluster = make_cluster(standbys=1)
    weir = watched(pgweir, cluster, target)
    for mode in ("database", "true"):
        client = weir.client("streamer", replication=mode)
        assert client.query("IDENTIFY_SYSTEM").rows[0][1] == "1"
        assert [row["addr"] for row in weir.admin("SHOW SERVERS") if row["user"] == "streamer"] == [
            cluster.hosts[number].host]
        client.close()
        wait_until(lambda: not [row for row in weir.admin("SHOW SERVERS")
                                if row["user"] == "streamer"], what="no replication server")


def test_the_role_changes_while_a_server_stays_with_its_client(make_cluster, pgweir):
    """Its server stays until nothing keeps it; from then on it has servers of a standby."""
    cluster = make_cluster(standbys=2)
    old, new, other = cluster.hosts
    weir = watched(pgweir, cluster, "standby")
    pinned = [weir.client() for _ in range(4)]
    for client in pinned:
        client.query("BEGIN")
        client.query("DECLARE held CURSOR WITH HOLD FOR SELECT generate_series(1, 9)")
        client.query("COMMIT")
    at = {client.value(WHERE): client for client in pinned}
    old.stop()
    new.promote()
    wait_host(weir, new, role="primary")
    client = at[new.host]
    assert client.query("FETCH 2 FROM held").rows == [["1"], ["2"]]
    client.query("CLOSE held")
    assert client.value(WHERE) == other.host
    assert where(weir) == {other.host}
