# SPDX-License-Identifier: ISC
"""Logical and physical replication through pgweir: PostgreSQL's own tools, and faults.

Each replication client has a dedicated server. The pool beside it is in transaction mode, where
this matters most.
"""

import os
import signal
import struct

import psycopg
import pytest

from .kit import fake
from .kit.account import drop_place
from .kit.wait import wait_until
from .kit.wire import message, parse, query, refusal, send_cancel, sync

MB = 1024 * 1024


@pytest.fixture
def slot(postgres):
    """Creates a slot for test_decoding and yields its name."""
    name = f"slot_{os.urandom(4).hex()}"
    postgres.query("SELECT pg_create_logical_replication_slot(%s, 'test_decoding')", name)
    yield name
    drop_slot(postgres, name)


def drop_slot(postgres, name):
    postgres.query("SELECT pg_terminate_backend(active_pid, 10000) FROM pg_replication_slots"
                   " WHERE slot_name = %s AND active_pid IS NOT NULL", name)
    postgres.query("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots"
                   " WHERE slot_name = %s", name)


@pytest.fixture
def table(postgres):
    name = f"t_{os.urandom(4).hex()}"
    postgres.query(f"CREATE TABLE {name} (a int, b text)")
    postgres.query(f"GRANT ALL ON {name} TO PUBLIC")
    yield name
    postgres.query(f"DROP TABLE {name}")


@pytest.fixture
def folder(account, place):
    path = account.mkdir(os.path.join(place, f"f{os.urandom(4).hex()}"), 0o700)
    yield path
    drop_place(path)


def is_active(postgres, slot):
    return postgres.value("SELECT active FROM pg_replication_slots WHERE slot_name = %s", slot)


def where(weir, user="streamer"):
    """Connection options for PostgreSQL's tools."""
    return ["-h", "127.0.0.1", "-p", str(weir.port), "-U", user, "-w"]


def start(slot):
    return query(f"START_REPLICATION SLOT {slot} LOGICAL 0/0 (\"skip-empty-xacts\" 'on')")


def streaming(weir, slot):
    """A scripted client that has begun to stream."""
    client = weir.client("streamer", replication="database")
    client.send(start(slot))
    client.expect("W")
    return client


def status_update(position=0, wants_reply=False):
    return message("d", b"r" + struct.pack("!QQQqB", position, position, position, 0, wants_reply))


def read_changes(client, until):
    """Reads decoded changes up to a text; keepalives are skipped."""
    seen = []
    while not seen or until not in seen[-1]:
        got = client.read()
        assert got.type == "d", got
        if got.body[:1] == b"w":
            seen.append(got.body[25:].decode())
    return seen


def own_servers(weir):
    return [row for row in weir.admin("SHOW SERVERS") if row["replication"] != "none"]


def wait_servers(weir, count):
    wait_until(lambda: len(own_servers(weir)) == count, what=f"{count} replication servers")


# -- PostgreSQL's own tools -----------------------------------------------------------------------


def test_pg_recvlogical(pgweir, postgres, account, folder, table):
    weir = pgweir(pool_mode="transaction")
    slot, out = f"slot_{os.urandom(4).hex()}", os.path.join(folder, "changes")
    tool = [f"{postgres.bin}/pg_recvlogical", "-d", "app", "-S", slot, *where(weir)]
    try:
        made = account.run([*tool, "--create-slot", "-P", "test_decoding"])
        assert made.returncode == 0, made.stdout
        with account.popen([*tool, "--start", "-n", "-f", out]) as process:
            try:
                wait_until(lambda: is_active(postgres, slot))
                with weir.connect() as connection:
                    for turn in range(50):
                        connection.execute(f"INSERT INTO {table} VALUES ({turn}, 'row {turn}.')")
                wait_until(lambda: os.path.exists(out) and "row 49." in open(out).read())
                (server,) = own_servers(weir)
                assert (server["replication"], server["state"]) == ("logical", "active")
                process.send_signal(signal.SIGINT)
                assert process.wait(20) == 0
            finally:
                process.kill()
        wait_until(lambda: not is_active(postgres, slot))
        assert [line for line in open(out).read().splitlines() if line.startswith("table")] == [
            f"table public.{table}: INSERT: a[integer]:{turn} b[text]:'row {turn}.'"
            for turn in range(50)]
        # Ends by itself, with CopyDone from both sides.
        end = postgres.value("SELECT pg_current_wal_lsn()")
        again = account.run([*tool, "--start", "-n", "--endpos", end, "-f", os.devnull])
        assert again.returncode == 0, again.stdout
        gone = account.run([*tool, "--drop-slot"])
        assert gone.returncode == 0, gone.stdout
        wait_servers(weir, 0)
    finally:
        drop_slot(postgres, slot)


def segment(postgres):
    """Of what is written now: the position between two segments would be in the one before."""
    postgres.query("SELECT pg_logical_emit_message(false, 'test', '')")
    return postgres.value("SELECT pg_walfile_name(pg_current_wal_insert_lsn())")


@pytest.mark.parametrize("entry", ("replication", "*"))
def test_pg_receivewal(pgweir, postgres, account, folder, table, entry):
    weir = pgweir(databases={"app": "", entry: ""}, pool_mode="transaction")
    first = segment(postgres)
    tool = [f"{postgres.bin}/pg_receivewal", "-D", folder, "-n", "--no-sync", *where(weir)]
    with account.popen(tool) as process:
        try:
            wait_servers(weir, 1)
            assert own_servers(weir)[0]["replication"] == "physical"
            assert own_servers(weir)[0]["database"] == "replication"
            with weir.connect() as connection:
                connection.execute(f"INSERT INTO {table} SELECT n, 'x' FROM"
                                   " generate_series(1, 20000) n")
            last = segment(postgres)
            postgres.query("SELECT pg_switch_wal()")
            received = os.path.join(folder, last)
            wait_until(lambda: os.path.exists(received))
            process.send_signal(signal.SIGINT)
            assert process.wait(20) == 0
        finally:
            process.kill()
    for name in {first, last}:
        with open(f"{postgres.dir}/pg_wal/{name}", "rb") as there:
            with open(os.path.join(folder, name), "rb") as here:
                assert here.read() == there.read()
    wait_servers(weir, 0)


@pytest.mark.limit(180)
@pytest.mark.parametrize("words", (["-X", "stream"], ["-X", "fetch", "-z", "-F", "t"],
                                   ["-X", "none", "--compress=server-gzip", "-F", "t"]))
def test_pg_basebackup(pgweir, postgres, account, folder, words):
    weir = pgweir(databases={"*": ""}, pool_mode="transaction", query_timeout=1)
    target = os.path.join(folder, "backup")
    made = account.run([f"{postgres.bin}/pg_basebackup", "-D", target, "-c", "fast", "--no-sync",
                        *words, *where(weir)], timeout=120)
    assert made.returncode == 0, made.stdout
    if "t" in words:
        assert os.path.getsize(f"{target}/base.tar.gz") > MB
    else:
        judged = account.run([f"{postgres.bin}/pg_verifybackup", target])
        assert judged.returncode == 0, judged.stdout
    wait_servers(weir, 0)


@pytest.mark.limit(180)
def test_a_standby(pgweir, private_postgres, account, folder, place):
    """It streams through pgweir, is promoted, and then has a second timeline."""
    primary = private_postgres()
    weir = pgweir(postgres=primary, databases={"*": ""}, pool_mode="transaction")
    standby = private_postgres()
    standby.stop()
    drop_place(standby.dir)
    made = account.run([f"{primary.bin}/pg_basebackup", "-D", standby.dir, "-c", "fast",
                        "--no-sync", "-R", "-X", "stream", *where(weir)], timeout=120)
    assert made.returncode == 0, made.stdout
    standby.start()
    primary.query("CREATE TABLE seen AS SELECT 'by both' AS t")
    wait_until(lambda: standby.value("SELECT to_regclass('seen')"))
    assert standby.value("SELECT t FROM seen") == "by both"
    (server,) = own_servers(weir)
    assert server["replication"] == "physical"
    assert standby.value("SELECT pg_promote()")
    wait_servers(weir, 0)

    # The old timeline ends: the server reports it in a result after CopyDone.
    second = pgweir(postgres=standby, databases={"*": ""})
    client = second.client("streamer", "replication", replication="true")
    (row,) = client.query("IDENTIFY_SYSTEM").rows
    assert row[1] == "2"
    history = client.query("TIMELINE_HISTORY 2").rows[0]
    assert history[0] == "00000002.history"
    start = history[1].split("\t")[1]
    high, low = start.split("/")
    client.send(query(f"START_REPLICATION {high}/{int(low, 16) & ~0x3fffff:X} TIMELINE 1"))
    client.expect("W")
    assert {got.type for got in client.read_until("c")} == {"d", "c"}
    client.send(status_update(), message("c"))
    result = client.read_result()
    assert result.types == "TDCCZ"
    assert result.rows == [["2", start]]
    assert client.query("IDENTIFY_SYSTEM").rows[0][1] == "2"


def test_psql_and_psycopg(pgweir, postgres, account):
    weir = pgweir(pool_mode="transaction")
    told = account.run([f"{postgres.bin}/psql", "-XAtc", "IDENTIFY_SYSTEM",
                        f"host=127.0.0.1 port={weir.port} user=streamer dbname=app"
                        " replication=database"])
    assert told.returncode == 0 and told.stdout.strip().endswith("|app"), told.stdout
    connection = weir.connect(user="streamer", replication="database")
    assert connection.execute("SELECT current_database()").fetchone() == ("app",)
    assert connection.execute("IDENTIFY_SYSTEM").fetchone()[3] == "app"
    slot = connection.execute('CREATE_REPLICATION_SLOT "brief" TEMPORARY LOGICAL test_decoding')
    assert slot.fetchone()[0] == "brief"
    with pytest.raises(psycopg.errors.SyntaxError):
        connection.execute("START_NONSENSE")
    # Walsenders refuse extended queries, and after PostgreSQL's error the connection still works.
    with pytest.raises(psycopg.errors.ProtocolViolation):
        connection.execute("SELECT %s::int", (1,))
    assert connection.execute("SELECT 1").fetchone() == (1,)


# -- dedicated servers ----------------------------------------------------------------------------


@pytest.mark.one_loop("several loops may open more ordinary servers")
def test_it_is_shared_with_nobody(pgweir, postgres):
    weir = pgweir(pool_mode="transaction", default_pool_size=10)
    first = weir.client("streamer", replication="database")
    second = weir.client("streamer", replication="on")
    pids = {first.value("SELECT pg_backend_pid()")}
    ordinary = [weir.client("streamer") for _ in range(3)]
    for turn in range(3):
        pids |= {client.value("SELECT pg_backend_pid()") for client in ordinary}
    assert len(pids) == 2  # ordinary clients share one
    assert first.query("IDENTIFY_SYSTEM").rows[0][3] == "app"
    assert second.query("IDENTIFY_SYSTEM").rows[0][3] is None
    assert [row["replication"] for row in weir.admin("SHOW CLIENTS") if row["user"] == "streamer"] \
        == ["logical", "physical", "none", "none", "none"]
    assert sorted(row["replication"] for row in weir.admin("SHOW SERVERS")) == \
        ["logical", "none", "physical"]
    weir.wait_pool(user="streamer", sv_active=2, sv_idle=1, cl_active=5, cl_waiting=0)
    second.send(message("X"))
    first.reset()
    wait_servers(weir, 0)
    wait_until(lambda: len(postgres.query("SELECT 1 FROM pg_stat_activity WHERE backend_type ="
                                          " 'walsender'")) == 0)
    weir.wait_pool(user="streamer", sv_active=0, sv_idle=1)
    for word in ("replication=database", "replication=yes", "replication=no"):
        weir.wait_log(f"db=app user=streamer tls=no {word}")


def test_its_parameters_are_its_servers(pgweir):
    weir = pgweir(pool_mode="transaction", databases={"app": "timezone=CET"})
    client = weir.client("streamer", replication="database", application_name="mine",
                         DateStyle="German", search_path='"a b", public',
                         options="-S 7168 --maintenance-work-mem=9MB")  # -S: work_mem
    assert client.parameters["application_name"] == "mine"
    assert client.parameters["DateStyle"].startswith("German")
    assert client.parameters["TimeZone"] == "CET"
    for name, value in (("work_mem", "7MB"), ("maintenance_work_mem", "9MB"),
                        ("search_path", '"a b", public'), ("TimeZone", "CET")):
        assert client.value(f"SHOW {name}") == value
    client.query("SET work_mem = '1MB'")
    assert client.value("SHOW work_mem") == "1MB"
    client.query("DISCARD ALL")
    assert client.value("SHOW work_mem") == "7MB"
    assert client.value("SHOW application_name") == "mine"
    # The next client neither sees them nor gets them at login.
    other = weir.client("streamer")
    assert other.parameters["application_name"] == ""
    assert other.parameters["DateStyle"].startswith("ISO")
    assert other.value("SHOW work_mem") == "4MB"


def test_words_that_mean_no_replication(pgweir):
    weir = pgweir(pool_mode="transaction")
    for word in ("off", "false", "0", "no", "nonsense"):
        with weir.client(replication=word) as client:
            assert client.value("SELECT 1") == "1"
    assert own_servers(weir) == []


# -- refusals and limits --------------------------------------------------------------------------


def test_a_user_without_the_right(pgweir):
    weir = pgweir(pool_mode="transaction")
    beside = weir.client()
    for _ in range(3):
        refused = refusal(weir.address, "alice", replication="database")
        assert refused.sqlstate == "42501"
        assert "replication" in refused.text
        assert beside.value("SELECT 1") == "1"
        with weir.client() as fresh:
            assert fresh.value("SELECT 2") == "2"
    assert refusal(weir.address, "streamer", replication="database", options="-c nonsense=1") \
        .sqlstate == "42704"
    assert refusal(weir.address, "streamer", "nowhere", replication="true").sqlstate == "3D000"


def test_pg_hba_without_a_line_for_it(pgweir, private_postgres, account):
    server = private_postgres()
    account.write(f"{server.dir}/pg_hba.conf", "host all all 0.0.0.0/0 trust\n", 0o600)
    server.query("SELECT pg_reload_conf()")
    weir = pgweir(postgres=server, databases={"*": ""})
    wait_until(lambda: "no pg_hba.conf entry for replication" in
               refusal_or_nothing(weir, "replication", "true"))
    with weir.client("streamer", "app", replication="database") as client:
        assert client.value("SELECT 1") == "1"


def refusal_or_nothing(weir, database, replication):
    try:
        return refusal(weir.address, "streamer", database, replication=replication).text
    except AssertionError:
        return ""


def test_more_than_postgresql_has(pgweir, private_postgres):
    weir = pgweir(postgres=private_postgres(max_wal_senders=1))
    client = weir.client("streamer", replication="database")
    refused = refusal(weir.address, "streamer", replication="database")
    assert refused.sqlstate == "53300" and "max_wal_senders" in refused.text
    assert client.value("SELECT 1") == "1"


def test_it_counts_in_the_pool(pgweir):
    weir = pgweir(pool_mode="transaction", default_pool_size=2)
    ordinary = weir.client("streamer")
    assert ordinary.value("SELECT 1") == "1"
    first = weir.client("streamer", replication="database")
    weir.wait_pool(user="streamer", sv_active=1, sv_idle=1)
    second = weir.client("streamer", replication="database")  # the idle one was closed to make room
    weir.wait_log("closing because: evicted for pool_size")
    weir.wait_pool(user="streamer", sv_active=2, sv_idle=0)
    third = weir.wire().startup("streamer", replication="database")
    weir.wait_pool(user="streamer", cl_waiting=1)
    ordinary.send(query("SELECT 'at last'"))
    weir.wait_pool(user="streamer", cl_waiting=2)
    first.close()
    third.finish_login("streamer")
    assert third.value("SELECT 3") == "3"
    weir.wait_pool(user="streamer", cl_waiting=1, sv_active=2)
    second.close()
    assert ordinary.read_result().rows == [["at last"]]


def test_it_waits_no_longer_than_a_login_may(pgweir):
    weir = pgweir(default_pool_size=1, client_login_timeout="0.5")
    first = weir.client("streamer", replication="database")
    refused = refusal(weir.address, "streamer", replication="database")
    assert (refused.sqlstate, refused.text) == ("57P03", "client_login_timeout (server down)")
    assert first.value("SELECT 1") == "1"


# -- streaming ------------------------------------------------------------------------------------


def test_a_stream_in_a_transaction_pool(pgweir, slot, table):
    weir = pgweir(pool_mode="transaction", default_pool_size=3)
    client = streaming(weir, slot)
    writer = weir.client()
    for turn in range(20):
        client.send(status_update(wants_reply=True))
        assert writer.query(f"INSERT INTO {table} VALUES ({turn}, 'change {turn}.')").error is None
        assert f"change {turn}." in read_changes(client, "COMMIT")[1]
    client.send(message("c"))
    result = client.read_result()
    # A walsender may send a keepalive after its CopyDone.
    assert result.types.replace("d", "") == "cCCZ" and result.status == "I"
    # The connection continues, and streams again.
    assert client.query("IDENTIFY_SYSTEM").rows[0][3] == "app"
    client.send(start(slot), message("c"))
    result = client.read_result()
    assert result.messages[0].type == "W" and result.error is None
    assert client.value("SELECT 1") == "1"


def test_no_time_limit_ends_a_stream(pgweir, slot, table):
    weir = pgweir(pool_mode="transaction", query_timeout="0.3", client_idle_timeout="0.3",
                  idle_transaction_timeout="0.3", transaction_timeout="0.3",
                  server_lifetime="0.3", server_idle_timeout="0.3")
    client = streaming(weir, slot)
    resting = weir.client("streamer", replication="database")
    for sql in ("SELECT pg_sleep(60)", "BEGIN"):
        other = weir.client()
        other.send(query(sql))
        assert other.read_to_end()[-1].type == "E"
    weir.wait_pool(sv_idle=0, sv_active=0)
    weir.postgres.query(f"INSERT INTO {table} VALUES (1, 'still here')")
    assert "still here" in read_changes(client, "COMMIT")[1]
    assert resting.value("SELECT 1") == "1"


def test_a_client_that_does_not_read(pgweir, slot, table, postgres):
    weir = pgweir(pool_mode="transaction")
    with weir.client() as before:
        assert before.value("SELECT 1") == "1"
    client, memory = streaming(weir, slot), weir.rss()
    rows = 40000
    postgres.query(f"INSERT INTO {table} SELECT n, repeat('y', 1000) FROM"
                   f" generate_series(1, {rows}) n")
    # All buffers are full; the walsender waits, other clients do not.
    wait_until(lambda: postgres.value(
        "SELECT wait_event FROM pg_stat_activity WHERE backend_type = 'walsender'")
        in ("WalSenderWriteData", "ClientWrite"))
    for turn in range(20):
        with weir.client() as other:
            assert other.value("SELECT 1") == "1"
    assert weir.rss() - memory < 16 * MB
    changes = read_changes(client, "COMMIT")
    assert sum("INSERT" in change for change in changes) == rows
    assert weir.rss() - memory < 16 * MB


def test_cancel(pgweir, slot, postgres):
    weir = pgweir(pool_mode="transaction")
    client = streaming(weir, slot)
    send_cancel(weir.address, client.key)
    result = client.read_result()
    assert result.error["C"] == "57014"
    client.send(status_update(), message("c"))  # arrives too late, and has no effect
    assert client.query("IDENTIFY_SYSTEM").rows[0][3] == "app"
    wait_until(lambda: not is_active(postgres, slot))
    client.send(query("SELECT pg_sleep(60)"))
    wait_until(lambda: postgres.query("SELECT 1 FROM pg_stat_activity WHERE query LIKE"
                                      " '%%sleep(60)' AND backend_type = 'walsender'"))
    send_cancel(weir.address, client.key)
    assert client.read_result().error["C"] == "57014"


@pytest.mark.parametrize("nonsense", (sync(), query("SELECT 1"), parse("SELECT 1"),
                                      message("f", b"no\0")))
def test_what_does_not_belong_into_a_stream(pgweir, slot, postgres, nonsense):
    """PostgreSQL closes such a connection with an error, which pgweir forwards."""
    weir = pgweir(pool_mode="transaction")
    client = streaming(weir, slot)
    client.send(nonsense)
    last = client.read_to_end()[-1]
    assert (last.type, last.fields["C"]) == ("E", "08P01")
    wait_until(lambda: not is_active(postgres, slot))
    wait_servers(weir, 0)


# -- disconnects ----------------------------------------------------------------------------------


def test_the_client_vanishes(pgweir, slot, postgres):
    weir = pgweir(pool_mode="transaction")
    streaming(weir, slot).reset()
    wait_until(lambda: not is_active(postgres, slot))
    client = streaming(weir, slot)
    client.send(status_update()[:20])  # half a message
    client.close()
    wait_until(lambda: not is_active(postgres, slot))
    wait_servers(weir, 0)


def test_the_client_vanishes_while_it_waits(pgweir, fake_server):
    far = fake_server()
    weir = pgweir(databases={"app": far.entry})
    client = weir.wire().startup("streamer", replication="true", options="-c a=b")
    server = far.accept()
    assert server.parameters["replication"] == "true"
    assert server.parameters["options"] == "-c a=b"
    client.reset()
    server.wait_closed()
    weir.wait_pool(user="streamer", cl_waiting=0, sv_login=0)


LOGIN = fake.auth(0), fake.parameter("server_version", "15.0"), message("K", fake.KEY), fake.ready()


@pytest.mark.parametrize("said", range(len(LOGIN)))
@pytest.mark.parametrize("cut", (0, 3))
@pytest.mark.parametrize("leaves", ("close", "reset"))
def test_the_client_vanishes_while_its_server_logs_in(pgweir, fake_server, said, cut, leaves):
    """The server's remaining messages have no receiver; PgBouncer wrote to a freed client."""
    far = fake_server()
    weir = pgweir(databases={"app": far.entry})
    client = weir.wire().startup("streamer", replication="database")
    server = far.accept()
    whole = b"".join(LOGIN[:said + 1])
    server.send(whole[:len(whole) - len(LOGIN[said]) + cut])
    weir.one_turn()
    getattr(client, leaves)()
    try:
        server.send(whole[len(whole) - len(LOGIN[said]) + cut:], *LOGIN[said + 1:])
    except OSError:
        pass  # it was already closed
    server.wait_closed()
    weir.wait_pool(user="streamer", cl_waiting=0, sv_login=0, sv_active=0)


def test_the_walsender_is_terminated(pgweir, slot, postgres):
    weir = pgweir(pool_mode="transaction")
    beside, client = weir.client(), streaming(weir, slot)
    postgres.query("SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots"
                   " WHERE slot_name = %s", slot)
    last = client.read_to_end()[-1]
    assert (last.type, last.fields["C"]) == ("E", "57P01")
    assert beside.value("SELECT 1") == "1"


def test_the_server_goes_without_a_word(pgweir, fake_server):
    far = fake_server()
    weir = pgweir(databases={"app": far.entry}, pool_mode="transaction")
    client = weir.wire().startup("streamer", replication="database")
    server = far.accept().login()
    client.finish_login("streamer")
    client.send(query("START_REPLICATION"))
    server.expect("Q")
    server.send(message("W", b"\0\0\0"), message("d", b"one"))
    client.expect("Wd")
    server.close()
    assert client.read_refusal().sqlstate == "08006"


def test_it_waits_for_postgresql(pgweir, private_postgres):
    server = private_postgres()
    weir = pgweir(postgres=server, server_login_retry="0.1")
    server.stop()
    client = weir.wire().startup("streamer", replication="database")
    weir.wait_pool(user="streamer", cl_waiting=1)
    weir.wait_log("connect failed")
    server.start()
    assert client.finish_login("streamer").value("SELECT 1") == "1"


# -- administrators -------------------------------------------------------------------------------


def test_reconnect_ends_it_at_once(pgweir, slot, postgres):
    weir = pgweir(pool_mode="transaction")
    client = streaming(weir, slot)
    weir.admin("RECONNECT app")
    refused = client.read_refusal()
    assert (refused.sqlstate, refused.text) == ("57P01", "database configuration changed")
    wait_until(lambda: not is_active(postgres, slot))


def test_kill(pgweir, slot, postgres):
    weir = pgweir(pool_mode="transaction")
    client = streaming(weir, slot)
    weir.admin("KILL app")
    assert client.read_refusal().text == "database removed"
    wait_until(lambda: not is_active(postgres, slot))
    weir.admin("RESUME app")
    client = streaming(weir, slot)
    (row,) = [row for row in weir.admin("SHOW CLIENTS") if row["replication"] == "logical"]
    weir.admin(f"KILL_CLIENT {row['id']}")
    assert client.read_refusal().text == "admin forced disconnect"


def test_pause_waits_for_it(pgweir, slot):
    weir = pgweir(pool_mode="transaction")
    client, console = streaming(weir, slot), weir.console()
    console.send(query("PAUSE app"))
    waiting = weir.wire().startup("streamer", replication="database")
    weir.wait_pool(user="streamer", cl_waiting=1, sv_active=1)
    assert not console.is_closed() and console.buffer == b""
    client.send(message("X"))
    assert console.read_result().tags == ["PAUSE"]
    assert len(own_servers(weir)) == 0
    weir.admin("RESUME app")
    assert waiting.finish_login("streamer").value("SELECT 1") == "1"


def test_a_changed_entry_ends_it(pgweir, slot):
    weir = pgweir(pool_mode="transaction")
    client = streaming(weir, slot)
    weir.reload(databases={"app": "dbname=app2"})
    refused = client.read_refusal()
    assert (refused.sqlstate, refused.text) == ("57P01", "database configuration changed")
    with weir.client("streamer", replication="database") as fresh:
        assert fresh.value("SELECT current_database()") == "app2"
