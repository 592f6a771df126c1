# SPDX-License-Identifier: ISC
"""Questions of a DBA: which clients wait and why, which limits exist, why connections were closed.
"""

import pathlib
import re

import pytest

from .kit.daemon import USERS
from .kit.account import free_port
from .kit.fake import error
from .kit.wait import wait_until
from .kit.wire import bind, describe, execute, parse, query, refusal, startup, sync


HOLDER = r"longest held by alice@127\.0\.0\.1 \(id \d+\) for \d+ s, idle in transaction"


def waiting(weir, count=1):
    """The rows of SHOW WAITING once there are this many, and none is still being processed."""
    def judged():
        rows = weir.admin("SHOW WAITING")
        return len(rows) == count and "served next" not in {row["reason"] for row in rows} and rows
    return wait_until(judged)


def waits(weir, **kw):
    client = weir.client(**kw)
    client.send(query("SELECT 1"))
    return client


def test_nobody_waits(pgweir):
    assert pgweir().admin("SHOW WAITING") == []


def test_pool_full(pgweir):
    weir = pgweir(pool_mode="transaction", default_pool_size=1)
    weir.client().query("BEGIN")
    waiters = [waits(weir, application_name="first")]
    waiting(weir)
    waiters.append(waits(weir, application_name="second"))
    rows = waiting(weir, 2)
    assert [(row["application_name"], row["place"]) for row in rows] == [("first", 1), ("second", 2)]
    assert {(row["database"], row["user"], row["reason"]) for row in rows} == \
        {("app", "alice", "pool full")}
    assert all(re.fullmatch(rf"1 server, pool_size 1; {HOLDER}", row["detail"]) for row in rows)
    assert rows[0]["wait"] * 1000000 + rows[0]["wait_us"] >= \
        rows[1]["wait"] * 1000000 + rows[1]["wait_us"]
    weir.admin(f"KILL_CLIENT {rows[0]['id']}")
    (row,) = waiting(weir)
    assert (row["application_name"], row["place"]) == ("second", 1)


@pytest.mark.parametrize("setting, reason", (("max_db_connections", "database limit"),
                                             ("max_user_connections", "user limit")))
def test_limits_above_the_pool(pgweir, setting, reason):
    weir = pgweir(pool_mode="transaction", **{setting: 1})
    weir.client().query("BEGIN")
    waiter = waits(weir)
    (row,) = waiting(weir)
    assert row["reason"] == reason
    assert re.fullmatch(rf"1 server, {setting} 1; {HOLDER}", row["detail"])
    (limit,) = [row for row in weir.admin("SHOW LIMITS") if row["limit"] == setting
                and "app" in (row["database"], "app" if row["user"] == "alice" else None)]
    assert (limit["value"], limit["used"], limit["hits"]) == (1, 1, 1)
    waiter.close()


def test_paused_and_suspended(pgweir):
    weir = pgweir(pool_mode="transaction")
    client = weir.client()
    client.query("SELECT 1")
    for pause, resume, reason in (("PAUSE", "RESUME", "paused"),
                                  ("PAUSE app", "RESUME app", "database paused")):
        weir.admin(pause)
        client.send(query("SELECT 1"))
        (row,) = waiting(weir)
        assert row["reason"] == reason
        weir.admin(resume)
        client.read_result()
    weir.admin("SET default_pool_size = 1")
    holder = weir.client()
    holder.query("BEGIN")
    client.send(query("SELECT 1"))
    waiting(weir)
    weir.admin("SUSPEND")
    assert waiting(weir)[0]["reason"] == "suspended"
    weir.admin("RESUME")
    assert waiting(weir)[0]["reason"] == "pool full"


def test_server_login_and_retry(pgweir, fake_server):
    """A server that does not respond, and one that is down."""
    fake = fake_server()
    weir = pgweir(databases={"app": f"host=127.0.0.1 port={fake.port}"},
                  server_login_retry=900, server_connect_timeout=900)
    newcomer = weir.wire()
    newcomer.send(startup(user="alice", database="app"))
    connection = fake.accept()
    (row,) = waiting(weir)
    assert (row["reason"], row["detail"]) == ("server login", "")
    connection.close()
    fake.accept().close()  # the same once more, with the older protocol
    row = wait_until(lambda: [row for row in weir.admin("SHOW WAITING")
                              if row["reason"] == "retry after failure"])[0]
    assert "server closed the connection during login; next try in" in row["detail"]


# -- the same reasons in errors -------------------------------------------------------------------


def test_giving_up_tells_the_last_failure_of_logins(pgweir):
    weir = pgweir(postgres=None, databases={"app": f"host=127.0.0.1 port={free_port()}"},
                  client_login_timeout="0.5", server_login_retry=900)
    refused = refusal(weir.address)
    assert refused.text == "client_login_timeout (server down)"
    said = r"retry after failure: connect failed: Connection refused; next try in \d+ s"
    assert re.fullmatch(said, refused.fields["D"])
    weir.wait_log(r"pooler error: client_login_timeout \(server down\): " + said)


def test_giving_up_tells_a_wrong_host_name(pgweir, secure_postgres, ca):
    weir = pgweir(postgres=secure_postgres, server_tls_sslmode="verify-full",
                  server_tls_ca_file=ca.cert, client_login_timeout=1,
                  databases={"app": f"host=127.0.0.1 port={secure_postgres.port}"})
    refused = refusal(weir.address)
    assert refused.text == "client_login_timeout (server down)"
    assert 'its certificate is not that of host "127.0.0.1"' in refused.fields["D"]


def test_giving_up_when_nothing_is_down(pgweir):
    """A newcomer to a paused database: no server is down, and DETAIL says why it waited."""
    weir = pgweir(client_login_timeout="0.5")
    weir.admin("PAUSE app")
    refused = refusal(weir.address)
    assert (refused.text, refused.fields["D"]) == \
        ("client_login_timeout (server down)", "database paused")


@pytest.mark.one_loop("an error names the holder of a server only if it belongs to the same loop")
def test_giving_up_in_the_line(pgweir):
    weir = pgweir(pool_mode="transaction", default_pool_size=1, query_wait_timeout="0.3")
    holder = weir.client()
    holder.query("BEGIN")
    waiters = [waits(weir) for _ in range(3)]
    for waiter in waiters:
        refused = waiter.read_refusal()
        assert (refused.sqlstate, refused.text) == ("53300", "query_wait_timeout")
        assert re.fullmatch(f"pool full: 1 server, pool_size 1; {HOLDER}", refused.fields["D"])
    weir.wait_log(f"pooler error: query_wait_timeout: pool full: 1 server, pool_size 1; {HOLDER}$")


def test_giving_up_in_the_line_while_logins_fail(pgweir, fake_server):
    """One server is held by another client, and PostgreSQL accepts no second connection."""
    fake = fake_server()
    weir = pgweir(pool_mode="session", databases={"app": fake.entry}, server_login_retry="0.1",
                  query_wait_timeout="0.5", server_connect_timeout=900)
    first = weir.wire().startup()
    server = fake.accept().login()
    first.read_until("Z")
    first.send(query("SELECT 1"))
    server.expect("Q")
    second = waits(weir)
    fake.accept().send(error("sorry", "53300", "FATAL"))
    refused = second.read_refusal()
    assert (refused.sqlstate, refused.text) == ("53300", "query_wait_timeout")
    assert "sorry" in refused.fields["D"]


def test_a_long_line_to_a_slow_reader(pgweir):
    """The rows are created in pieces; none is lost, and none is duplicated."""
    weir = pgweir(pool_mode="transaction", default_pool_size=1)
    weir.client().query("BEGIN")
    waiters = [waits(weir) for _ in range(60)]
    rows = waiting(weir, 60)
    assert [row["place"] for row in rows] == list(range(1, 61))
    assert len({row["id"] for row in rows}) == len(waiters)
    console = weir.console()
    console.send(parse("SHOW WAITING"), bind(), describe("P"), *[execute(limit=7)] * 9, sync())
    result = console.read_result()
    places = [int(row[2]) for row in result.rows]
    assert places == list(range(1, 61))


# -- LIMITS ---------------------------------------------------------------------------------------


def limits(weir):
    return {(row["limit"], row["database"], row["user"]): row for row in weir.admin("SHOW LIMITS")}


def test_where_limits_come_from(pgweir):
    weir = pgweir(pool_mode="transaction", default_pool_size=7,
                  databases={"app": "max_db_connections=5", "app2": "pool_size=3"},
                  users={"bob": "pool_size=2 max_user_connections=4"})
    for user, database in (("alice", "app"), ("alice", "app2"), ("bob", "app")):
        weir.client(user, database)
    lines = weir.text().splitlines()

    def place(start):
        (number,) = [number for number, line in enumerate(lines, 1) if line.startswith(start)]
        return f"{weir.ini}:{number}"
    rows = limits(weir)

    def told(limit, database=None, user=None):
        row = rows[limit, database, user]
        return row["value"], row["source"]
    assert told("max_client_conn") == (500, place("max_client_conn"))
    assert told("max_db_connections", "app") == (5, place("app =") + " (database app)")
    assert told("max_db_connections", "app2") == (0, "default")
    assert told("max_user_connections", user="bob") == (4, place("bob =") + " (user bob)")
    assert told("pool_size", "app", "alice") == (7, place("default_pool_size"))
    assert told("pool_size", "app2", "alice") == (3, place("app2 =") + " (database app2)")
    assert told("pool_size", "app", "bob") == (2, place("bob =") + " (user bob)")
    assert told("reserve_pool_size", "app", "bob") == (0, "default")
    weir.admin("SET default_pool_size = 8")
    rows = limits(weir)
    assert told("pool_size", "app", "alice") == (8, "SET")
    assert told("max_client_conn") == (500, place("max_client_conn"))
    weir.admin("RELOAD")
    rows = limits(weir)
    assert told("pool_size", "app", "alice") == (7, place("default_pool_size"))


def test_what_is_used_and_hit(pgweir):
    weir = pgweir(pool_mode="transaction", default_pool_size=1, max_client_conn=2,
                  databases={"app": "max_db_client_connections=2", "app2": ""},
                  users={"bob": "max_user_client_connections=1"})
    first, second = weir.client(), weir.client()
    first.query("BEGIN")
    second.send(query("SELECT 1"))
    waiting(weir)
    rows = limits(weir)
    assert (rows["pool_size", "app", "alice"]["used"], rows["pool_size", "app", "alice"]["hits"]) \
        == (1, 1)
    assert rows["max_client_conn", None, None]["used"] == 2
    assert "max_client_conn" in refusal(weir.address).text
    weir.admin("SET max_client_conn = 10")
    assert "max_db_client_connections" in refusal(weir.address).text
    weir.client("bob", "app2")
    assert "max_user_client_connections" in refusal(weir.address, "bob", "app2").text
    rows = limits(weir)
    assert rows["max_client_conn", None, None]["hits"] == 1
    assert rows["max_db_client_connections", "app", None]["hits"] == 1
    assert rows["max_user_client_connections", None, "bob"]["hits"] == 1


# -- ERRORS ---------------------------------------------------------------------------------------


def endings(weir):
    return {(row["type"], row["reason"]): row for row in weir.admin("SHOW ERRORS")}


def test_how_connections_end(pgweir):
    weir = pgweir(pool_mode="transaction", auth_type="scram-sha-256")
    assert weir.admin("SHOW ERRORS") == []
    for _ in range(2):
        assert "authentication failed" in refusal(weir.address, "alice", "app", "wrong").text
    client = weir.client(password="alice secret")
    client.query("SELECT 1")
    weir.admin("RECONNECT")
    weir.wire().close()
    client.close()

    def all_there():
        rows = endings(weir)
        return rows if len(rows) >= 4 else None
    rows = wait_until(all_there)
    assert rows["C", "left before the first message"]["is_error"] == "no"
    failed = [row for (kind, reason), row in rows.items() if kind == "C"
              and "authentication failed" in reason]
    assert [(row["count"], row["is_error"], row["last_database"], row["last_user"])
            for row in failed] == [(2, "yes", "app", "alice")]
    assert all(row["last_time"] for row in rows.values())
    assert any(kind == "S" for kind, _ in rows)


@pytest.mark.parametrize("change, cause", (
    (lambda weir: weir.admin("RECONNECT"), "RECONNECT"),
    (lambda weir: weir.reload(databases={"app": "connect_query='SELECT 1'"}), "database entry"),
    (lambda weir: weir.reload(server_tls_sslmode="allow"), "server TLS settings"),
), ids=("reconnect", "entry", "tls"))
def test_each_change_of_the_configuration_has_its_own_row(pgweir, change, cause):
    weir = pgweir(pool_mode="transaction", server_tls_sslmode="disable")
    weir.client().query("SELECT 1")
    change(weir)
    reason = f"database configuration changed ({cause})"
    row = wait_until(lambda: endings(weir).get(("S", reason)))
    assert (row["count"], row["is_error"], row["last_message"]) == (1, "no", reason)
    weir.wait_log(r"S-0x\w+: app/alice@\S+ closing because: " + re.escape(reason) + r" \(age=")


def test_each_reason_is_given_somewhere():
    """A row of the table that no call names would never be counted."""
    top = pathlib.Path(__file__).resolve().parents[2]
    table = (top / "include/pgweir/base/close_reason.h").read_text(encoding="utf-8")
    names = re.findall(r"^\t(?:X\(|SAME\(X, )(\w+),", table, re.MULTILINE)
    assert len(names) > 80
    used = {name for path in (top / "src").rglob("*.c")
            for name in re.findall(r"\bCLOSE_(\w+)", path.read_text(encoding="utf-8"))}
    assert [name for name in names if name not in used] == []


def test_the_table_is_bounded(pgweir):
    """Text chosen by a peer never creates a row."""
    weir = pgweir()
    for number in range(5):
        wire = weir.wire()
        wire.send(startup(user="alice", database=f"none{number}"))
        wire.read_refusal()
    rows = endings(weir)
    assert rows["C", "no such database"]["count"] == 5
    assert rows["C", "no such database"]["last_database"] == "none4"
    assert len(rows) == 1


def last_message(weir, kind, reason):
    return wait_until(lambda: endings(weir).get((kind, reason)))["last_message"]


@pytest.mark.one_loop("an error names the holder of a server only if it belongs to the same loop")
def test_the_last_message(pgweir):
    """The message of the last connection, in one line: with the detail, without a secret."""
    weir = pgweir(pool_mode="transaction", default_pool_size=1, query_wait_timeout="0.1",
                  auth_type="scram-sha-256", databases={"app": "", "gone": "port=1 host=127.0.0.1"},
                  client_login_timeout="0.2")
    refusal(weir.address, "alice", "app", "sesame")
    assert "authentication failed" in last_message(weir, "C", "SASL authentication failed")
    holder = weir.client(password=USERS["alice"])
    holder.query("BEGIN")
    waits = weir.client(password=USERS["alice"])
    waits.send(query("SELECT 1"))
    waits.read_refusal()
    assert re.fullmatch(f"query_wait_timeout: pool full: 1 server, pool_size 1; {HOLDER}",
                        last_message(weir, "C", "query_wait_timeout"))
    refusal(weir.address, "alice", "gone", USERS["alice"])
    assert "Connection refused" in last_message(weir, "S", "server could not be reached")
    refusal(weir.address, "alice", "no\nsuch\x1b", USERS["alice"])
    assert last_message(weir, "C", "no such database") == "no such database: no such "
    refusal(weir.address, "alice", "d" * 2000, USERS["alice"])
    wait_until(lambda: len(last_message(weir, "C", "no such database")) == 255)
    assert not any("sesame" in row["last_message"] for row in weir.admin("SHOW ERRORS"))


# -- FDS ------------------------------------------------------------------------------------------


def test_fds(pgweir):
    weir = pgweir(pool_mode="transaction")
    client = weir.client(client_encoding="LATIN1")
    client.query("BEGIN")
    rows = weir.admin("SHOW FDS")
    assert {row["task"] for row in rows} == {"pooler", "client", "server"}
    listening = [row for row in rows if row["task"] == "pooler"]
    assert {(row["addr"], row["port"]) for row in listening} == \
        {("127.0.0.1", weir.port), ("unix", weir.port)}
    (mine,) = [row for row in rows if row["task"] == "client" and row["user"] == "alice"]
    (server,) = [row for row in rows if row["task"] == "server"]
    assert (mine["link"], server["link"]) == (server["fd"], mine["fd"])
    assert mine["client_encoding"] == "LATIN1" and mine["std_strings"] == "on"
    # By TCP, no secrets are shown.
    for row in rows:
        assert row["cancel"] == 0
        assert (row["password"], row["scram_client_key"], row["scram_server_key"]) == (None,) * 3


def test_fds_for_the_system_user_of_the_daemon(pgweir, account):
    weir = pgweir(pool_mode="transaction", auth_type="scram-sha-256")
    client = weir.client("plain_user", password=USERS["plain_user"])
    client.query("BEGIN")
    command = ["psql", "-X", "-At", "-h", weir.dir, "-p", str(weir.port), "-U", "pgbouncer", "-d",
               "pgbouncer", "-c", "SHOW FDS"]
    done = account.run(command, timeout=30)
    rows = [line.split("|") for line in done.stdout.splitlines()]
    (mine,) = [row for row in rows if row[1:4] == ["client", "plain_user", "app"]]
    assert mine[6] == str(int.from_bytes(client.key, "big", signed=True))
    (server,) = [row for row in rows if row[1] == "server"]
    assert server[6] != "0" and server[12] == USERS["plain_user"]
