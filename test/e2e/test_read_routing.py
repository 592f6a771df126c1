# SPDX-License-Identifier: ISC
"""route_reads: reads go to standbys, everything else to the primary.

A server's address says where a statement ran, as each host of a cluster has an address of its own.
"""

import signal

import psycopg
import pytest

from .kit import prometheus
from .kit.account import free_port
from .kit.cluster import Cluster
from .kit.wait import wait_until
from .kit.web import Web
from .kit.wire import bind, close, describe, execute, flush, parse, query, sync

WHERE = "SELECT host(inet_server_addr())"


@pytest.fixture(scope="module")
def pair(account, place, template):
    """A primary and a standby that no test damages."""
    cluster = Cluster(account, place, template, "reads", standbys=1)
    try:
        yield cluster.start()
    finally:
        cluster.stop()


@pytest.fixture
def routed(request):
    """A pooler over a primary and a standby that has been used once; by default one of its own."""

    def start(route_reads="transactions", cluster=None, users=None, entry="", warm=True, make="pgweir", **settings):
        cluster = cluster or request.getfixturevalue("pair")
        make = request.getfixturevalue(make)
        weir = make(databases={"app": f"host={cluster.host_list} port={cluster.port} {entry}"},
                    users=users,
                    **{"pool_mode": "transaction", "route_reads": route_reads,
                       "default_pool_size": 3, **settings})
        weir.cluster = cluster
        if warm:
            wait_until(lambda: of_transaction(weir.client(), "BEGIN READ ONLY") != cluster.primary.host,
                       what="a standby that serves")
        return weir

    return start


def of_transaction(client, begin, *, before=()):
    """Where a transaction of simple queries runs."""
    assert client.query(begin).status == "T"
    for sql in before:
        got = client.query(sql)
        assert got.error is None, got.error
    where = client.value(WHERE)
    assert client.query("COMMIT").status == "I"
    return where


def of_batch(client, *sqls):
    """The same in the extended protocol, in one batch that ends with a Sync."""
    sent = b"".join(parse(sql) + bind() + describe("P") + execute() for sql in sqls)
    got = client.ask(sent, sync())
    assert not got.error, got.error
    return got


PRIMARY, STANDBY = "127.0.0.2", "127.0.0.3"


@pytest.mark.parametrize("begin, where", [
    ("BEGIN READ ONLY", STANDBY),
    ("begin transaction isolation level repeatable read, read only", STANDBY),
    ("START TRANSACTION READ ONLY", STANDBY),
    ("BEGIN", PRIMARY),
    ("BEGIN READ WRITE", PRIMARY),
    ("BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY", PRIMARY),
    ("BEGIN /* ä */ READ ONLY", PRIMARY),  # not certain
])
def test_how_a_transaction_begins_says_where_it_runs(routed, begin, where):
    weir = routed(make="same_pgweir")
    client = weir.client()
    assert of_transaction(client, begin) == where
    assert client.value(WHERE) == PRIMARY  # outside of a transaction
    assert of_transaction(client, begin) == where


@pytest.mark.parametrize("begin, where", [
    ("BEGIN READ ONLY", PRIMARY),
    ("BEGIN READ ONLY, ISOLATION LEVEL REPEATABLE READ", STANDBY),
])
@pytest.mark.parametrize("how", ["transaction", "batch"])
def test_a_read_whose_isolation_is_serializable_by_default(routed, begin, where, how):
    """A standby would refuse its first query."""
    client = routed().client()
    client.query("SET default_transaction_isolation = serializable")
    if how == "transaction":
        assert of_transaction(client, begin) == where
    else:
        assert of_batch(client, begin, WHERE, "COMMIT").rows == [[where]]


def test_set_transaction_as_the_first_statement(routed):
    client = routed().client()
    assert of_transaction(client, "BEGIN", before=["SET TRANSACTION READ ONLY"]) == STANDBY
    assert of_transaction(client, "BEGIN", before=["SELECT 1", "COMMIT", "BEGIN",
                                                   "SET TRANSACTION READ ONLY"]) == STANDBY
    assert of_transaction(client, "BEGIN", before=["SET TRANSACTION READ WRITE"]) == PRIMARY
    assert of_transaction(client, "BEGIN READ ONLY", before=["SET TRANSACTION READ WRITE"]) == PRIMARY
    # All in one packet.
    client.send(query("BEGIN"), query("SET TRANSACTION READ ONLY"), query(WHERE), query("COMMIT"))
    assert [client.read_result() for _ in range(2)][1].tags == ["SET"]
    assert client.read_result().rows == [[STANDBY]]
    assert client.read_result().status == "I"


def test_default_transaction_read_only_of_the_client(routed):
    weir = routed()
    client = weir.client()
    client.query("SET default_transaction_read_only = on")
    assert client.value(WHERE) == STANDBY
    assert of_transaction(client, "BEGIN") == STANDBY
    assert of_transaction(client, "BEGIN READ WRITE") == PRIMARY
    assert of_transaction(client, "BEGIN", before=["SET TRANSACTION READ WRITE"]) == PRIMARY
    client.query("SET default_transaction_read_only = off")
    assert client.value(WHERE) == PRIMARY
    client.query("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY")
    assert client.value(WHERE) == STANDBY
    client.query("RESET default_transaction_read_only")
    assert client.value(WHERE) == PRIMARY
    from_start = weir.wire().login("alice", options="-c default_transaction_read_only=on")
    assert from_start.value(WHERE) == STANDBY
    assert from_start.query("CREATE TABLE t (i int)").error["C"] == "25006"


def test_the_extended_protocol(routed):
    weir = routed()
    client = weir.client()
    assert of_batch(client, "BEGIN READ ONLY", WHERE).rows == [[STANDBY]]
    assert of_batch(client, "COMMIT").status == "I"
    assert of_batch(client, "BEGIN", WHERE).rows == [[PRIMARY]]
    assert of_batch(client, "COMMIT").status == "I"
    # As pgjdbc: BEGIN is prepared, too.
    client.ask(parse("BEGIN READ ONLY", "s1"), sync())
    got = client.ask(bind(name="s1"), execute(), parse(WHERE), bind(), execute(), sync())
    assert got.rows == [[STANDBY]]
    assert of_batch(client, "COMMIT").status == "I"
    got = client.ask(close("S", "nothing"), bind(name="s1"), execute(), parse(WHERE), bind(),
                     execute(), sync())
    assert got.rows == [[STANDBY]]
    assert of_batch(client, "COMMIT").status == "I"
    assert of_batch(client, WHERE).rows == [[PRIMARY]]


def test_every_cut(routed):
    client = routed().client()
    for sent in (query("BEGIN READ ONLY") + query(WHERE) + query("COMMIT"),
                 parse("BEGIN READ ONLY") + bind() + execute() + parse(WHERE) + bind() + execute()
                 + parse("COMMIT") + bind() + execute() + sync()):
        client.send_slowly(sent)
        results = [client.read_result()]
        while len(results) < sent.count(b"Q\0"):
            results.append(client.read_result())
        assert [row for result in results for row in result.rows] == [[STANDBY]]


def test_psycopg(routed):
    weir = routed()
    with weir.connect(autocommit=False) as connection:
        connection.read_only = True
        assert connection.execute(WHERE).fetchone()[0] == STANDBY
        connection.rollback()
        connection.read_only = False
        assert connection.execute(WHERE).fetchone()[0] == PRIMARY


def test_writes_and_reads_by_turns(routed):
    weir = routed()
    client = weir.client()
    client.query("CREATE TABLE turns (i int)")
    for number in range(5):
        assert not client.query(f"INSERT INTO turns VALUES ({number})").error
        assert of_transaction(client, "BEGIN READ ONLY") == STANDBY
    assert client.value("SELECT count(*) FROM turns") == "5"


def whole(sql):
    return parse(sql) + bind() + execute() + sync()


@pytest.mark.parametrize("route_reads, reads", [
    ("transactions", [query("BEGIN READ ONLY"), query(WHERE), query("COMMIT")]),
    ("transactions", [whole("BEGIN READ ONLY"), whole(WHERE), whole("COMMIT")]),
    ("transactions", [whole("BEGIN READ ONLY"), parse(WHERE) + bind() + execute() + parse("ROLLBACK") + bind()
                      + execute() + sync()]),
    ("statements", [query(WHERE)]),
    ("statements", [whole(WHERE), whole("SELECT 1")]),
])
@pytest.mark.parametrize("write", [query, whole])
def test_a_pipeline_goes_to_the_primary_behind_a_read(routed, route_reads, reads, write):
    """The write is sent before the end of the read is answered."""
    client = routed(route_reads, read_functions="inet_server_addr, host").client()
    client.query("CREATE TABLE IF NOT EXISTS behind_a_read (i int)")
    client.send(*reads, write("INSERT INTO behind_a_read VALUES (1)"), query(WHERE), write("BEGIN READ ONLY"),
                query(WHERE), query("COMMIT"))
    rows = []
    for _ in range(len(reads) + 5):
        result = client.read_result()
        assert not result.error, result.error
        rows += result.rows
    assert rows[0] == [STANDBY]
    assert client.query("INSERT INTO behind_a_read VALUES (2)").tags == ["INSERT 0 1"]


def test_off_by_default(routed):
    weir = routed(route_reads=None, warm=False, entry="target_session_attrs=primary")
    assert of_transaction(weir.client(), "BEGIN READ ONLY") == PRIMARY


def test_the_value_of_an_entry_and_of_a_user(routed):
    weir = routed(route_reads="off", entry="route_reads=transactions", users={"bob": "route_reads=off"})
    assert of_transaction(weir.client("bob"), "BEGIN READ ONLY") == PRIMARY
    assert of_transaction(weir.client("alice"), "BEGIN READ ONLY") == STANDBY


def test_prepared_statements_and_parameters_follow(routed):
    weir = routed()
    client = weir.client()
    client.query("SET app.tenant = 'a'")
    client.query("SET search_path = pg_catalog")
    client.ask(parse("SELECT current_setting('app.tenant') || host(inet_server_addr())", "s"), sync())
    for begin, where in (("BEGIN", PRIMARY), ("BEGIN READ ONLY", STANDBY)) * 2:
        client.query(begin)
        assert client.ask(bind(name="s"), execute(), sync()).rows == [[f"a{where}"]]
        assert client.value("SHOW search_path") == "pg_catalog"
        client.query("COMMIT")


def test_what_keeps_a_client_on_its_server_is_left_to_the_primary(routed):
    weir = routed()
    client = weir.client()
    client.query("BEGIN READ ONLY")
    client.query("SELECT pg_advisory_lock(1)")
    assert client.value(WHERE) == PRIMARY
    client.query("COMMIT")
    assert of_transaction(client, "BEGIN READ ONLY") == PRIMARY  # it stays there
    client.query("SELECT pg_advisory_unlock(1)")
    assert of_transaction(client, "BEGIN READ ONLY") == STANDBY


FOR_THE_PRIMARY = ["SELECT pg_advisory_lock(1), pg_advisory_unlock(1)", "SELECT pg_try_advisory_xact_lock(1)",
                   "SELECT txid_current()", "SELECT pg_export_snapshot()", "SELECT pg_current_wal_lsn()",
                   "LOCK TABLE lockable", "DECLARE c CURSOR WITH HOLD FOR SELECT 1"]


@pytest.mark.parametrize("sql", FOR_THE_PRIMARY)
@pytest.mark.parametrize("how", ["simple", "batch", "with BEGIN", "prepared"])
def test_a_first_statement_that_means_the_primary(routed, sql, how):
    client = routed(make="same_pgweir").client()
    client.query("CREATE TABLE IF NOT EXISTS lockable (i int)")
    if how == "prepared":
        client.ask(parse(sql, "s"), sync())
    if how != "with BEGIN":
        client.query("BEGIN READ ONLY")
    if how == "simple":
        got = client.query(sql)
    elif how == "prepared":
        got = client.ask(bind(name="s"), execute(), sync())
    else:
        got = of_batch(client, *["BEGIN READ ONLY"] * (how == "with BEGIN"), sql)
    assert got.error is None, got.error
    assert client.value(WHERE) == PRIMARY
    client.query("COMMIT")


@pytest.mark.parametrize("how", ["simple", "with BEGIN"])
def test_a_common_table_expression_is_a_read(routed, how):
    client = routed().client()
    sql = "WITH a AS (SELECT 1) SELECT host(inet_server_addr()) FROM a"
    if how == "simple":
        client.query("BEGIN READ ONLY")
        assert client.value(sql) == STANDBY
    else:
        assert of_batch(client, "BEGIN READ ONLY", sql).rows == [[STANDBY]]
    assert client.query("COMMIT").status == "I"


@pytest.mark.parametrize("lock", ["pg_advisory_lock", "pg_advisory_xact_lock_shared"])
@pytest.mark.parametrize("how", ["simple", "batch", "prepared"])
def test_no_advisory_lock_on_a_standby(routed, lock, how):
    """It would be another lock than on the primary."""
    weir = routed()
    client = weir.client()
    sql = f"SELECT {lock}(1)"
    client.ask(parse(sql, "s"), sync())
    client.query("BEGIN READ ONLY")
    assert client.value(WHERE) == STANDBY
    if how == "simple":
        got = client.query(sql)
    else:
        got = client.ask(parse(sql) + bind() if how == "batch" else bind(name="s"), execute(), sync())
    assert got.error["C"] == "0A000" and "standby" in got.error["M"]
    assert "READ WRITE" in got.error["H"]
    assert client.query("SELECT 1").error["C"] == "25P02"
    assert client.query("ROLLBACK").status == "I"
    assert client.value("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'") == "0"
    assert client.value(WHERE) == PRIMARY
    assert not weir.admin("SHOW PINNED")


def test_a_session_on_a_standby_has_its_locks(routed):
    """It is there as a whole."""
    weir = routed(route_reads="sessions", pool_mode="session", warm=False)

    def session():
        return weir.wire().login("alice", options="-c default_transaction_read_only=on")

    wait_until(lambda: session().value(WHERE) == STANDBY, what="a session on a standby")
    client = session()
    assert client.value("SELECT pg_try_advisory_lock(1)") == "t"
    assert client.value("SELECT pg_advisory_unlock(1)") == "t"
    error = client.query("CREATE TABLE t (i int)").error
    assert error["C"] == "25006" and "H" not in error


@pytest.mark.parametrize("how", ["simple", "batch", "prepared"])
def test_a_write_of_a_client_that_is_kept_on_a_standby(routed, how):
    client = routed(causal_reads="session", causal_reads_wait="30").client()
    table = f"kept_{how}"
    client.query(f"CREATE TABLE {table} (i int)")
    client.query("BEGIN READ ONLY")
    assert client.value(WHERE) == STANDBY
    # It has said READ ONLY.
    assert not client.query(f"INSERT INTO {table} VALUES (0)").error.keys() & set("DH")
    client.query("ROLLBACK")
    write = f"INSERT INTO {table} VALUES (1)"
    client.ask(parse(write, "s"), sync())
    client.query("BEGIN READ ONLY")
    assert client.value(WHERE) == STANDBY
    client.query("DECLARE c CURSOR WITH HOLD FOR SELECT 1")
    client.query("COMMIT")
    if how == "simple":
        error = client.query(write).error
    elif how == "batch":
        error = client.ask(parse(write), bind(), execute(), sync()).error
    else:
        error = client.ask(bind(name="s"), execute(), sync()).error
    assert (error["C"], error["M"]) == ("25006", "cannot execute INSERT in a read-only transaction")
    assert "stays with the client" in error["D"] and "held cursor" in error["D"]
    assert "READ WRITE" in error["H"]
    error = client.query("SELECT pg_try_advisory_lock(1)").error
    assert error["C"] == "0A000" and "held cursor" in error["D"]
    client.query("CLOSE c")
    assert client.query(write).tags == ["INSERT 0 1"]


def test_session_mode_has_a_session_on_a_standby(routed):
    weir = routed(route_reads="sessions", pool_mode="session", warm=False)

    def where(**params):
        client = weir.wire().login("alice", **params)
        value = client.value(WHERE)
        client.close()
        return value

    wait_until(lambda: where(options="-c default_transaction_read_only=on") == STANDBY,
               what="a session on a standby")
    assert where() == PRIMARY


def reads(weir):
    """The row of SHOW READS."""
    (row,) = weir.admin("SHOW READS app")
    assert (row["database"], row["user"]) == ("app", "alice")
    return row


def reads_by_host(weir):
    return {row["host"]: row["reads"] for row in weir.admin("SHOW HOSTS app")}


def test_show_reads_counts_where_they_were_served(routed):
    port = free_port()
    weir = routed(metrics_listen=f"127.0.0.1:{port}")
    client = weir.client()
    before, by_host = reads(weir), reads_by_host(weir)
    for begin in ("BEGIN READ ONLY", "BEGIN", "BEGIN READ ONLY"):
        of_transaction(client, begin)
    after = reads(weir)
    assert after["on_standby"] == before["on_standby"] + 2
    assert after["no_standby"] == before["no_standby"]
    assert after["servers"] >= 1 and after["behind"] == after["waits"] == 0
    by_host[STANDBY] += 2
    assert reads_by_host(weir) == by_host
    metrics, _ = prometheus.parse(Web(port).ask("/metrics").text)
    assert {dict(of)["host"]: value for of, value in metrics["pgweir_host_reads_total"].items()} == by_host


def test_without_a_standby_the_primary_serves(routed, make_cluster):
    weir = routed(cluster=make_cluster(standbys=1))
    client = weir.client()
    (standby,) = weir.cluster.standbys
    standby.kill()
    assert of_transaction(client, "BEGIN READ ONLY") == PRIMARY
    before = reads(weir)
    assert of_transaction(weir.client(), "BEGIN READ ONLY") == PRIMARY
    after = reads(weir)
    assert after["no_standby"] == before["no_standby"] + 1
    assert after["on_standby"] == before["on_standby"]
    standby.start()
    wait_until(lambda: of_transaction(client, "BEGIN READ ONLY") == STANDBY,
               what="the standby serves again")


def test_one_row_for_the_pair(routed):
    weir = routed(default_pool_size=2, standby_pool_size=1)
    readers = [weir.client() for _ in range(2)]
    assert readers[0].query("BEGIN READ ONLY").status == "T"
    assert readers[0].value(WHERE) == STANDBY
    writer = weir.client()
    writer.query("BEGIN")
    assert writer.value(WHERE) == PRIMARY
    readers[1].query("BEGIN READ ONLY")
    readers[1].send(query(WHERE))
    rows = [row for row in weir.admin("SHOW POOLS") if row["database"] == "app"]
    assert len(rows) == 1
    weir.wait_pool(sv_active=2, cl_waiting=1)
    assert [row["reason"] for row in weir.admin("SHOW WAITING")] == ["pool full"]
    assert readers[0].query("COMMIT").status == "I"
    assert readers[1].read_result().rows == [[STANDBY]]
    readers[1].query("COMMIT")
    writer.query("COMMIT")
    addresses = {row["addr"] for row in weir.admin("SHOW SERVERS")}
    assert addresses == {PRIMARY, STANDBY}


def test_commands_of_the_console_are_about_both(routed):
    weir = routed()
    client = weir.client()
    client.value(WHERE)
    weir.admin("PAUSE app")
    assert not weir.admin("SHOW SERVERS")
    weir.admin("RESUME app")
    assert of_transaction(client, "BEGIN READ ONLY") == STANDBY
    client.query("BEGIN READ ONLY")
    before = client.value("SELECT pg_backend_pid()")
    weir.admin("RECONNECT app")
    assert client.value("SELECT pg_backend_pid()") == before
    client.query("COMMIT")
    client.query("BEGIN READ ONLY")
    assert client.value("SELECT pg_backend_pid()") != before
    client.query("COMMIT")
    weir.admin("KILL app")
    assert "database removed" in str(client.read_refusal())


def test_idle_clients_of_both_pools_are_handed_over(routed):
    weir = routed()
    client = weir.client()
    assert of_transaction(client, "BEGIN READ ONLY") == STANDBY
    weir.take_over()
    assert client.value(WHERE) == PRIMARY
    wait_until(lambda: of_transaction(client, "BEGIN READ ONLY") == STANDBY,
               what="a standby of the new process")


def test_a_transaction_on_a_standby_ends_before_it_is_handed_over(routed):
    weir = routed()
    client = weir.client()
    client.query("BEGIN READ ONLY")
    before = client.value("SELECT pg_backend_pid()")
    old = weir.process
    weir.take_over(wait=False)
    wait_until(lambda: "1 remain" in weir.log, what="the old process has handed over the rest")
    assert client.value("SELECT pg_backend_pid()") == before
    client.query("COMMIT")
    wait_until(lambda: old.poll() is not None, what="the end of the old process")
    assert client.value(WHERE) == PRIMARY


def test_values_of_sequences_stay_on_the_primary(routed):
    weir = routed()
    client = weir.client()
    client.query("CREATE SEQUENCE numbers")
    assert client.value("SELECT nextval('numbers')") == "1"
    client.query("SELECT lastval()")  # right or refused: it has asked
    client.query("BEGIN READ ONLY")
    assert client.value(WHERE) == PRIMARY


def test_a_question_for_the_value_of_a_sequence_does_not_keep_the_standby(routed):
    weir = routed()
    for _ in range(2):  # from the second client on, it is PostgreSQL that answers
        client = weir.client()
        of_batch(client, "BEGIN READ ONLY")
        assert client.value(WHERE) == STANDBY
        got = client.query("SELECT lastval()")
        assert got.error
        client.query("ROLLBACK")
        assert client.value(WHERE) == PRIMARY
    assert "not yet defined" in got.error["M"]


def test_a_client_that_listens_stays_on_the_primary(routed):
    weir = routed()
    with weir.connect(autocommit=True) as listener:
        listener.execute("LISTEN news")
        with listener.transaction():
            listener.execute("SET TRANSACTION READ ONLY")
            assert listener.execute(WHERE).fetchone()[0] == PRIMARY
        with weir.connect(autocommit=True) as other:
            other.execute("NOTIFY news, 'x'")
        assert next(listener.notifies()).payload == "x"


def test_a_client_that_listens_no_more_may_leave_the_primary(routed):
    client = routed().client()
    client.query("LISTEN news")
    assert of_transaction(client, "BEGIN READ ONLY") == PRIMARY
    client.query("UNLISTEN news")
    assert of_transaction(client, "BEGIN READ ONLY") == STANDBY


@pytest.mark.parametrize("sql", ("LISTEN news", "NOTIFY news"))
def test_a_transaction_that_reads_cannot_listen(routed, sql):
    weir = routed()
    client = weir.client()
    client.query("BEGIN READ ONLY")
    assert client.value(WHERE) == STANDBY
    assert client.query(sql).error["C"] == "25006"
    assert client.query("ROLLBACK").tags == ["ROLLBACK"]
    assert client.value(WHERE) == PRIMARY


def test_a_client_that_needs_its_password_at_the_standby(routed):
    weir = routed(auth_type="scram-sha-256", warm=False)
    secret = "scram secret"
    with psycopg.connect(host="127.0.0.1", port=weir.port, dbname="app", user="scram_user",
                         password=secret, autocommit=False) as connection:
        connection.read_only = True

        def where():
            value = connection.execute(WHERE).fetchone()[0]
            connection.rollback()
            return value

        wait_until(lambda: where() == STANDBY, what="a login at the standby")


def test_a_reload_changes_the_size_on_standbys(routed):
    weir = routed(standby_pool_size=1)
    first, second = weir.client(), weir.client()
    first.query("BEGIN READ ONLY")
    assert first.value(WHERE) == STANDBY
    second.query("BEGIN READ ONLY")
    second.send(query(WHERE))
    weir.wait_pool(cl_waiting=1)
    weir.reload(standby_pool_size=2)
    assert second.read_result().rows == [[STANDBY]]


# -- route_reads = statements ----------------------------------------------------------------------


@pytest.fixture
def statements(routed):
    """host() and inet_server_addr() are no functions that every SELECT may call on a standby."""
    return lambda **settings: routed("statements", **{"read_functions": "host, INET_server_addr",
                                                      **settings})


@pytest.mark.parametrize("sql, where", [
    (WHERE, STANDBY),
    (WHERE + ";", STANDBY),
    ("VALUES (host(inet_server_addr()))", STANDBY),
    ("WITH a AS (SELECT 1) SELECT host(inet_server_addr()), count(*) FROM a", STANDBY),
    (WHERE + " FROM pg_class LIMIT 1", PRIMARY),
    ("SELECT host(inet_server_addr()), txid_current()", PRIMARY),
    (WHERE + " FOR UPDATE", PRIMARY),
    (WHERE + " FROM (SELECT 1) AS t FOR SHARE", PRIMARY),
    ("SELECT pg_catalog.host(inet_server_addr())", PRIMARY),
    ("SELECT 1;" + WHERE, PRIMARY),
    ("SELECT host(inet_server_addr()), set_config('app.a', 'b', false)", PRIMARY),
    ("SELECT host(inet_server_addr()), 'a\\b'", PRIMARY),
    ("EXPLAIN " + WHERE, None),
])
def test_which_statements_are_reads(statements, sql, where):
    client = statements(make="same_pgweir").client()
    got = client.query(sql)
    if where:
        assert got.error is None, got.error
        assert got.rows[-1][0] == where
    assert of_transaction(client, "BEGIN") == PRIMARY  # there it decides as transactions do
    assert of_transaction(client, "BEGIN READ ONLY") == STANDBY


def test_other_functions_need_to_be_named(routed):
    weir = routed("statements")
    client = weir.client()
    assert client.value(WHERE) == PRIMARY
    weir.reload(read_functions="host,inet_server_addr")
    assert client.value(WHERE) == STANDBY
    weir.reload(read_functions="host,inet_server_addr", route_reads="transactions")
    assert client.value(WHERE) == PRIMARY


def test_a_function_that_writes_after_all(statements):
    weir = statements(read_functions="hidden_write")
    client = weir.client()
    client.query("CREATE TABLE IF NOT EXISTS hidden (i int)")
    client.query("CREATE OR REPLACE FUNCTION hidden_write() RETURNS void LANGUAGE sql"
                 " AS 'INSERT INTO hidden VALUES (1)'")
    wait_until(lambda: client.query("SELECT hidden_write()").error["C"] == "25006",
               what="the function on the standby")
    error = client.query("SELECT hidden_write()").error
    assert "route_reads" in error["D"] and "READ WRITE" in error["H"]
    client.query("BEGIN READ WRITE")
    assert client.query("SELECT hidden_write()").error is None
    client.query("COMMIT")


def test_single_selects_of_the_extended_protocol(statements):
    client = statements().client()
    assert of_batch(client, WHERE).rows == [[STANDBY]]
    assert of_batch(client, WHERE, WHERE).rows == [[STANDBY], [STANDBY]]
    # Another statement of the batch writes: all of it is one transaction.
    assert of_batch(client, WHERE, "CREATE TEMP TABLE t ON COMMIT DROP AS SELECT 1").rows == [[PRIMARY]]
    assert of_batch(client, WHERE, "BEGIN").rows == [[PRIMARY]]
    assert of_batch(client, WHERE, "COMMIT").rows == [[PRIMARY]]
    client.ask(parse(WHERE, "s"), sync())
    assert client.ask(bind(name="s"), execute(), sync()).rows == [[STANDBY]]
    client.ask(parse("SELECT host(inet_server_addr()), txid_current() IS NULL", "w"), sync())
    assert client.ask(bind(name="w"), execute(), sync()).rows == [[PRIMARY, "f"]]
    assert client.ask(bind(name="s"), execute(), bind(name="w"), execute(),
                      sync()).rows == [[PRIMARY], [PRIMARY, "f"]]
    # What is behind a Flush is not known when the first part is sent.
    client.send(parse(WHERE), bind(), execute(), flush())
    assert client.expect("12DC")
    assert client.ask(sync()).status == "I"


def test_every_cut_of_a_batch_of_selects(statements):
    client = statements().client()
    sent = (parse(WHERE) + bind() + execute() + sync() + query(WHERE)
            + parse(WHERE, "s") + sync() + bind(name="s") + execute() + sync())
    client.send_slowly(sent)
    rows = [client.read_result().rows for _ in range(4)]
    assert rows == [[[STANDBY]], [[STANDBY]], [], [[STANDBY]]]


def test_a_client_whose_session_is_serializable_stays_on_the_primary(statements):
    client = statements().client()
    client.query("SET default_transaction_isolation = serializable")
    assert client.value(WHERE) == PRIMARY
    client.query("RESET default_transaction_isolation")
    assert client.value(WHERE) == STANDBY


def test_temporary_tables_keep_their_client_on_the_primary(statements):
    client = statements().client()
    client.query("CREATE TEMP TABLE mine AS SELECT 7 AS i")
    assert client.value("SELECT i FROM mine") == "7"
    assert client.value(WHERE) == PRIMARY
    client.query("DROP TABLE mine")
    wait_until(lambda: client.value(WHERE) == STANDBY, what="a client that may leave its server")


def test_single_selects_see_what_their_client_has_written(statements, pausing):
    weir = statements(causal_reads="session", causal_reads_wait="0.01")
    client = weir.client()
    assert client.value(WHERE) == STANDBY
    pausing()
    written(client, "statements_seen")
    got = client.query("SELECT count(*), host(inet_server_addr()) FROM statements_seen")
    assert got.rows == [["1", PRIMARY]]


# -- max_standby_lag -------------------------------------------------------------------------------


def state_of(weir, host):
    (row,) = [row for row in weir.admin("SHOW HOSTS app") if row["host"] == host]
    return row["state"]


def wait_state(weir, host, state):
    wait_until(lambda: state_of(weir, host) == state, what=f"{host} {state}")


@pytest.fixture
def limited(routed):
    def start(**settings):
        return routed(**{"host_check_user": "alice", "host_check_interval": "0.1", **settings})

    return start


LAG = "SELECT pg_logical_emit_message(false, 'lag', repeat('x', 40000))"


@pytest.mark.parametrize("limit", [{"max_standby_lag_bytes": "20kB"}, {"max_standby_lag": "0.5"}])
def test_a_standby_that_is_behind_gets_no_reads(limited, pair, pausing, limit):
    weir = limited(**limit)
    client = weir.client()
    wait_state(weir, STANDBY, "up")
    assert of_transaction(client, "BEGIN READ ONLY") == STANDBY
    pids = {row["remote_pid"] for row in weir.admin("SHOW SERVERS") if row["addr"] == STANDBY} - {0}
    assert pids
    paused = pausing()
    pair.primary.query(LAG)
    wait_state(weir, STANDBY, "lagging")
    before = reads(weir)
    assert of_transaction(client, "BEGIN READ ONLY") == PRIMARY
    after = reads(weir)
    assert after["no_standby"] == before["no_standby"] + 1
    assert weir.wait_log(r"WARNING.* host 127\.0\.0\.3 gets no reads: it is \d+\.\d s and (\d+) bytes"
                         rf" behind the primary \({next(iter(limit))} = ")
    paused.resume_replay()
    wait_state(weir, STANDBY, "up")
    assert of_transaction(client, "BEGIN READ ONLY") == STANDBY
    # Its servers were kept.
    assert pids <= {row["remote_pid"] for row in weir.admin("SHOW SERVERS")}
    weir.wait_log(r"host 127\.0\.0\.3 gets reads again: it is 0\.0 s and 0 bytes behind the primary")
    texts = [row["text"] for row in weir.admin("SHOW EVENTS") if row["kind"] == "host role"]
    assert any("gets no reads" in text for text in texts)


def test_a_read_that_runs_is_not_disturbed_by_a_lag(limited, pair, pausing):
    weir = limited(max_standby_lag_bytes="20kB")
    client = weir.client()
    wait_state(weir, STANDBY, "up")
    client.query("BEGIN READ ONLY")
    assert client.value(WHERE) == STANDBY
    pausing()
    pair.primary.query(LAG)
    wait_state(weir, STANDBY, "lagging")
    assert client.value(WHERE) == STANDBY
    client.query("COMMIT")
    assert of_transaction(client, "BEGIN READ ONLY") == PRIMARY


def test_another_standby_takes_the_place_in_a_full_pool(limited, make_cluster):
    # With several loops, each would begin with the first host.
    weir = limited(cluster=make_cluster(standbys=2), standby_pool_size=2, max_standby_lag_bytes="20kB",
                   entry="load_balance_hosts=least-connections")
    _, second, third = weir.cluster.hosts
    for host in second, third:
        wait_state(weir, host.host, "up")
    clients = [weir.client() for _ in range(2)]

    def fill():
        for client in clients:
            client.query("BEGIN READ ONLY")
        seen = [client.value(WHERE) for client in clients]
        for client in clients:
            client.query("COMMIT")
        return seen

    assert sorted(fill()) == [second.host, third.host]
    third.pause_replay()
    weir.cluster.primary.query(LAG)
    wait_state(weir, third.host, "lagging")
    wait_state(weir, second.host, "up")
    # The second one may be behind for a moment, too.
    wait_until(lambda: fill() == [second.host] * 2)
    assert "standby is too far behind" in weir.log
    third.resume_replay()


def test_a_lag_that_is_not_known_is_too_much(routed):
    weir = routed(max_standby_lag="3600", host_check_borrow=0, warm=False)
    client = weir.client()
    for _ in range(3):
        assert of_transaction(client, "BEGIN READ ONLY") == PRIMARY
    wait_until(lambda: {row["state"] for row in weir.admin("SHOW HOSTS app")} >= {"lagging"},
               what="a standby of which no lag is known")
    assert of_transaction(client, "BEGIN READ ONLY") == PRIMARY


def test_the_lag_limit_of_an_entry_and_after_a_reload(limited, pair, pausing):
    weir = limited(entry="max_standby_lag_bytes=20kB")
    client = weir.client()
    wait_state(weir, STANDBY, "up")
    pausing()
    pair.primary.query(LAG)
    wait_state(weir, STANDBY, "lagging")
    assert of_transaction(client, "BEGIN READ ONLY") == PRIMARY
    weir.reload(databases={"app": f"host={pair.host_list} port={pair.port}"})
    assert of_transaction(client, "BEGIN READ ONLY") == STANDBY
    weir.reload(max_standby_lag_bytes="20kB")
    assert of_transaction(client, "BEGIN READ ONLY") == PRIMARY
    weir.reload(max_standby_lag_bytes=None, max_standby_lag="0.1")
    wait_until(lambda: state_of(weir, STANDBY) == "lagging", what="the lag as a time")
    assert of_transaction(client, "BEGIN READ ONLY") == PRIMARY


def test_prefer_standby_prefers_one_that_is_not_behind(make_cluster, pgweir):
    cluster = make_cluster(standbys=1)
    primary, standby = cluster.hosts
    weir = pgweir(databases={name: f"host={cluster.host_list} port={cluster.port} dbname=app"
                                   f" target_session_attrs={target}"
                             for name, target in (("app", "prefer-standby"), ("s", "standby"))},
                  pool_mode="transaction", host_check_user="alice", host_check_interval="0.1",
                  max_standby_lag_bytes="20kB")
    wait_state(weir, standby.host, "up")
    standby.pause_replay()
    primary.query(LAG)
    wait_state(weir, standby.host, "lagging")
    assert weir.client(database="app").value(WHERE) == primary.host
    assert weir.client(database="s").value(WHERE) == standby.host  # there is no other one
    standby.resume_replay()


# -- causal_reads ----------------------------------------------------------------------------------


@pytest.fixture
def causal(routed):
    def start(**settings):
        return routed(**{"causal_reads": "session", "causal_reads_wait": "30", **settings})

    return start


def read(client, sql):
    """(value, host) of a transaction that reads."""
    assert client.query("BEGIN READ ONLY").status == "T"
    got = client.query(f"SELECT ({sql})::text, host(inet_server_addr())")
    assert got.error is None, got.error
    assert client.query("COMMIT").status == "I"
    return tuple(got.rows[0])


@pytest.fixture
def pausing(pair):
    """From the call on, the standby replays nothing."""
    (standby,) = pair.standbys

    def pause():
        standby.pause_replay()
        return standby

    yield pause
    standby.resume_replay()


@pytest.fixture
def paused(pausing):
    """The standby replays nothing."""
    return pausing()


def written(client, table):
    assert not client.query(f"CREATE TABLE {table} (i int)").error
    assert not client.query(f"INSERT INTO {table} VALUES (1)").error


def is_waiting(weir):
    return "waiting" in [row["state"] for row in weir.admin("SHOW CLIENTS")]


def waiting_reader(weir, table):
    """A client that has written into a new table, and whose read waits for its standby."""
    client = weir.client()
    written(client, table)
    client.query("BEGIN READ ONLY")
    client.send(query(f"SELECT count(*), host(inet_server_addr()) FROM {table}"))
    wait_until(lambda: is_waiting(weir), what="the wait")
    return client


def test_a_read_waits_for_what_its_client_has_written(causal, paused):
    weir = causal()
    client = waiting_reader(weir, "waits")
    paused.resume_replay()
    assert client.read_result().rows == [["1", STANDBY]]
    client.query("COMMIT")


def test_a_standby_waits_by_itself(causal, paused):
    if paused.value("SHOW server_version_num") < "190000":
        pytest.skip("WAIT FOR is of PostgreSQL 19")
    client = waiting_reader(causal(), "lasts")
    wait_until(lambda: paused.value("SELECT count(*) FROM pg_stat_activity WHERE query ~ 'WAIT FOR'"
                                    " AND wait_event = 'WaitForWalReplay'"), what="the standby's wait")
    paused.resume_replay()
    assert client.read_result().rows == [["1", STANDBY]]
    client.query("COMMIT")


def test_a_reload_changes_the_wait(causal, paused):
    weir = causal()
    client = waiting_reader(weir, "reloaded")
    weir.reload(causal_reads_wait="0.01")
    assert client.read_result().rows == [["1", PRIMARY]]


def test_after_the_wait_the_primary_serves(causal, paused):
    weir = causal(causal_reads_wait="0.01")
    client = weir.client()
    written(client, "served")
    before = reads(weir)
    assert read(client, "SELECT count(*) FROM served") == ("1", PRIMARY)
    after = reads(weir)
    assert after["behind"] == before["behind"] + 1 and after["waits"] == before["waits"] + 1
    assert after["on_standby"] == before["on_standby"] and after["wait_us"] > before["wait_us"]
    client.query("BEGIN")
    client.query("SET TRANSACTION READ ONLY")
    assert client.value("SELECT count(*) FROM served") == "1"
    client.query("COMMIT")
    other = weir.client()  # has not written, and has seen nothing
    assert read(other, "SELECT 1") == ("1", STANDBY)


def test_what_was_read_on_the_primary_is_seen_again(causal, paused):
    weir = causal(causal_reads_wait="0.01")
    writer, reader = weir.client(), weir.client()
    written(writer, "seen")
    assert reader.value("SELECT count(*) FROM seen") == "1"
    assert read(reader, "SELECT count(*) FROM seen") == ("1", PRIMARY)


def test_a_standby_that_has_replayed_serves(causal):
    weir = causal()
    client = weir.client()
    written(client, "replayed")
    for number in range(2, 6):
        assert read(client, "SELECT count(*) FROM replayed") == (str(number - 1), STANDBY)
        client.query(f"INSERT INTO replayed VALUES ({number})")


def test_a_client_that_leaves_while_it_waits(causal, paused):
    weir = causal()
    client = waiting_reader(weir, "gone")
    client.close()
    other = weir.client()
    assert read(other, "SELECT 1") == ("1", STANDBY)


def test_a_standby_that_is_lost_while_a_client_waits(causal, make_cluster):
    weir = causal(cluster=make_cluster(standbys=1))
    (standby,) = weir.cluster.standbys
    standby.pause_replay()
    client = waiting_reader(weir, "lost")
    standby.kill()
    assert client.read_result().rows == [["1", PRIMARY]]
    client.query("COMMIT")


def test_a_client_of_another_process_reads_on_the_primary_first(causal, paused):
    weir = causal(causal_reads_wait="0.01")
    client = weir.client()
    written(client, "handed")
    weir.take_over()
    wait_until(lambda: read(weir.client(), "SELECT 1")[1] == STANDBY, what="a standby that serves")
    assert read(client, "SELECT count(*) FROM handed") == ("1", PRIMARY)


def test_who_may_see_what_a_standby_receives_sees_that_it_follows(causal, make_cluster):
    """For everybody else its control file has a new timeline minutes later, or sooner by chance."""
    weir = causal(cluster=make_cluster(standbys=1), host_check_user="carol")
    client, old = weir.client(), weir.cluster.primary
    written(client, "former")
    old.stop(signal.SIGINT)
    new = weir.cluster.fail_over()
    old.follow(new).start()
    weir.cluster.wait_streaming(old)

    def has_word():
        _, host = read(client, "SELECT count(*) FROM former")
        return host == old.host or ("gets no reads by causal_reads: the timeline of this standby is"
                                    " seen as 1, that of the primary as 2") in weir.log

    wait_until(has_word, what="a word in the log")
    new.query("GRANT pg_read_all_stats TO carol")
    wait_until(lambda: read(client, "SELECT count(*) FROM former")[1] == old.host,
               what="a read on the standby")


def test_nothing_is_stale_behind_a_delay(causal, pair):
    """Each client counts up, and reads its own number and those that others have shown it."""
    (standby,) = pair.standbys
    standby.query("ALTER SYSTEM SET recovery_min_apply_delay = '40ms'")
    standby.query("SELECT pg_reload_conf()")
    try:
        weir = causal(causal_reads_wait="0.03", default_pool_size=4)
        clients = [weir.client() for _ in range(6)]
        clients[0].query("CREATE TABLE numbers_seen (client int PRIMARY KEY, i int)")
        hosts, seen = [], [0] * len(clients)
        for round_number in range(1, 41):
            for number, client in enumerate(clients):
                assert not client.query(f"INSERT INTO numbers_seen VALUES ({number}, {round_number}) ON CONFLICT"
                                        f" (client) DO UPDATE SET i = {round_number}").error
            for number, client in enumerate(clients):
                own, host = read(client, f"SELECT i FROM numbers_seen WHERE client = {number}")
                assert int(own) == round_number
                total, other = read(client, "SELECT sum(i) FROM numbers_seen")
                assert int(total) >= seen[number]
                seen[number] = int(total)
                hosts += [host, other]
        print(f"by the primary: {hosts.count(PRIMARY)} of {len(hosts)}")
        assert STANDBY in hosts
    finally:
        standby.query("ALTER SYSTEM RESET recovery_min_apply_delay")
        standby.query("SELECT pg_reload_conf()")
