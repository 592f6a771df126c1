# SPDX-License-Identifier: ISC
"""late_begin: pgweir responds to BEGIN itself, and sends it together with the next statement.

The responses must be those of PostgreSQL; test_differential.py checks that in general. This file
has individual cases, and checks what is sent to the server.
"""

import pytest

from .kit.fake import complete, error, parameter, ready
from .kit.wait import wait_until
from .kit.wire import (bind, close, describe, execute, message, parse, query, send_cancel, sync)

PID = "SELECT pg_backend_pid()"
BEGUN = message("1") + message("2") + complete("BEGIN") + message("3")


@pytest.fixture
def weir(pgweir):
    return pgweir(pool_mode="transaction", late_begin=1, default_pool_size=2)


@pytest.fixture
def scripted(pgweir, fake_server):
    """A pooler, and its only server, which is scripted by the test."""

    def make(in_hot_standby="off", **settings):
        far = fake_server()
        weir = pgweir(databases={"app": far.entry},
                      **{"pool_mode": "transaction", "late_begin": 1, "default_pool_size": 1, **settings})
        client = weir.wire().startup()
        server = far.accept()
        server.login(**({"in_hot_standby": in_hot_standby} if in_hot_standby else {}))
        client.finish_login("alice")
        server.far = far
        return weir, client, server

    return make


def late(client, sql="BEGIN", tag="BEGIN"):
    """Begins a transaction; the response must be that of PostgreSQL."""
    got = client.query(sql)
    assert (got.types, got.tags, got.status) == ("CZ", [tag], "T")
    return client


def is_late(weir, client_count=1):
    """Waits until this many clients are in a transaction that no server has seen."""
    (cache,) = [row for row in weir.admin("SHOW MEM") if row["name"] == "late_begin_cache"]
    return cache["used"] == client_count


def begin_as_sent(sql="BEGIN", is_query=True):
    plain_bind = message("B", b"\0\0" + b"\0\0" * 3)
    sent = parse(sql) + plain_bind + execute() + close("P", "")
    return sent if is_query else sent + close("S", "")


def one_packet(server):
    return server.sock.recv(65536)


# -- what is sent to the server --------------------------------------------------------------------


def test_it_stands_in_front_of_a_query_in_the_same_packet(scripted):
    _, client, server = scripted()
    late(client)
    client.send(query("SELECT 1"))
    assert one_packet(server) == begin_as_sent() + query("SELECT 1")
    server.send(BEGUN, complete("SELECT 1"), ready("T"))
    got = client.read_result()
    assert (got.types, got.tags, got.status) == ("CZ", ["SELECT 1"], "T")
    client.send(query("COMMIT"))
    assert one_packet(server) == query("COMMIT")
    server.send(complete("COMMIT"), ready())
    assert client.read_result().status == "I"


def test_it_stands_in_front_of_the_extended_protocol_too(scripted):
    _, client, server = scripted(max_prepared_statements=0)
    late(client, "START TRANSACTION READ ONLY", "START TRANSACTION")
    batch = parse("SELECT 1") + bind() + execute() + sync()
    client.send(batch)
    assert one_packet(server) == begin_as_sent("START TRANSACTION READ ONLY", False) + batch
    server.send(BEGUN, message("3"), message("1"), message("2"), complete("SELECT 1"), ready("T"))
    assert client.read_result().types == "12CZ"


def test_its_answer_may_come_in_any_pieces(scripted):
    _, client, server = scripted()
    answers = BEGUN + complete("SELECT 1") + ready("T")
    server.sock.setsockopt(6, 1, 1)  # TCP_NODELAY
    for _ in range(3):
        late(client)
        client.send(query("SELECT 1"))
        server.expect("PBECQ")
        server.send_slowly(answers)
        assert client.read_result().types == "CZ"
        client.send(query("ROLLBACK"))
        server.expect("Q")
        server.send(complete("ROLLBACK"), ready())
        assert client.read_result().status == "I"


def test_parameters_are_set_before(scripted):
    weir, first, server = scripted()
    client = weir.wire().startup("alice", datestyle="German")
    assert b"German" in server.expect("Q").body
    server.send(parameter("DateStyle", "German, DMY"), complete("SET"), ready())
    client.finish_login("alice")
    first.send(query("SELECT 0"))
    assert b"ISO" in server.expect("Q").body
    server.send(parameter("DateStyle", "ISO, MDY"), complete("SET"), ready())
    server.expect("Q")
    server.send(complete("SELECT 0"), ready())
    first.read_result()
    with client:
        late(client)
        client.send(query("SELECT 1"))
        assert b"German" in server.expect("Q").body
        server.send(parameter("DateStyle", "German, DMY"), complete("SET"), ready())
        assert one_packet(server) == begin_as_sent() + query("SELECT 1")
        server.send(BEGUN, complete("SELECT 1"), ready("T"))
        assert client.read_result().status == "T"


def test_a_harmless_parameter_goes_in_the_same_write(scripted):
    weir, first, server = scripted()
    first.close()
    with weir.wire().login("alice", application_name="somebody") as client:
        late(client)
        client.send(query("SELECT 1"))
        assert one_packet(server) == (query("SET \"application_name\"='somebody';")
                                      + begin_as_sent() + query("SELECT 1"))
        server.send(complete("SET"), parameter("application_name", "somebody"), ready(),
                    BEGUN, complete("SELECT 1"), ready("T"))
        got = client.read_result()
        assert (got.types, got.status) == ("CZ", "T")


@pytest.mark.parametrize("sql", (
    "BEGIN; SELECT 1", "BEGIN ISOLATION LEVEL NONSENSE", "BEGIN READ ONLY READ WRITE", "BEGIN WORK WORK",
    "START", "BEGIN /* no end", "BEGIN -- \u00e4", "BEGIN\v", "BEGIN" + " " * 300, "COMMIT", "ROLLBACK", "END"))
def test_what_is_not_certain_passes(scripted, sql):
    _, client, server = scripted()
    client.send(query(sql))
    assert one_packet(server) == query(sql)


@pytest.mark.parametrize("text", (b"BEGIN", b"BEGIN\0\0", b"BEGIN\0x\0", b""))
def test_a_broken_query_passes(scripted, text):
    _, client, server = scripted()
    client.send(message("Q", text))
    assert server.expect("Q").body == text


def test_begin_by_the_extended_protocol_passes(scripted):
    _, client, server = scripted()
    batch = parse("BEGIN") + bind() + execute() + sync()
    client.send(batch)
    assert one_packet(server) == batch


def test_with_the_next_statement_at_hand_it_passes(scripted):
    _, client, server = scripted()
    batch = query("BEGIN") + query("SELECT 1") + query("COMMIT")
    client.send(batch)
    assert one_packet(server) == batch


def test_it_may_come_in_pieces(weir):
    client = weir.client()
    client.send_slowly(query("BEGIN"))
    assert client.read_result().status == "T"
    assert is_late(weir)
    client.send_slowly(query("SELECT 1") + query("COMMIT"))
    assert client.read_result().rows == [["1"]]
    assert client.read_result().tags == ["COMMIT"]
    late(client)
    client.send_slowly(query("COMMIT"))
    assert client.read_result().tags == ["COMMIT"]


@pytest.mark.parametrize("sql", ("BEGIN READ WRITE", "BEGIN ISOLATION LEVEL SERIALIZABLE"))
@pytest.mark.parametrize("in_hot_standby", ("off", "on", None))
def test_what_a_standby_would_refuse_is_late_where_there_is_none(scripted, sql, in_hot_standby):
    weir, client, server = scripted(in_hot_standby)
    if in_hot_standby == "off":
        late(client, sql)
        assert is_late(weir)
        return
    client.send(query(sql))
    assert one_packet(server) == query(sql)
    server.send(error("cannot, during recovery", "0A000"), ready())
    assert client.read_result().error["C"] == "0A000"


# -- transactions ----------------------------------------------------------------------------------


@pytest.mark.parametrize("end, tag", (
    ("COMMIT", "COMMIT"), ("end;", "COMMIT"), ("COMMIT TRANSACTION AND NO CHAIN", "COMMIT"),
    ("ROLLBACK", "ROLLBACK"), ("ABORT WORK; -- nothing", "ROLLBACK")))
def test_an_empty_one_takes_no_server(scripted, end, tag):
    weir, client, server = scripted()
    late(client)
    got = client.query(end)
    assert (got.types, got.tags, got.status) == ("CZ", [tag], "I")
    assert is_late(weir, 0)
    client.send(query("SELECT 1"))
    assert one_packet(server) == query("SELECT 1")


def test_options_hold(weir):
    client = weir.client()
    late(client, "BEGIN ISOLATION LEVEL SERIALIZABLE, READ ONLY, DEFERRABLE")
    assert client.value("SHOW transaction_isolation") == "serializable"
    assert client.value("SHOW transaction_read_only") == "on"
    assert client.value("SHOW transaction_deferrable") == "on"
    assert client.query("CREATE TABLE never ()").error["C"] == "25006"
    assert client.query("COMMIT").tags == ["ROLLBACK"]


def test_nothing_of_it_is_left_behind(weir):
    """After a simple BEGIN there is no portal and no unnamed statement."""
    for first in (query("SELECT count(*) FROM pg_cursors"),
                  parse("SELECT count(*) FROM pg_cursors WHERE statement LIKE 'BEGIN%'", "s") +
                  bind((), "s") + execute() + sync()):
        client = weir.client()
        assert client.ask(parse("SELECT 'mine'"), sync()).types == "1Z"
        late(client)
        client.send(first)
        assert client.read_result().rows[0][0] in ("0", "1")  # the second one sees itself
        assert client.ask(execute("nowhere"), sync()).error["C"] == "34000"
        client.query("ROLLBACK")
        client.close()
    for begun, code in ((bind(), "26000"), (execute(), "34000"), (describe("S", ""), "26000")):
        client = weir.client()
        assert client.ask(parse("SELECT 'mine'"), sync()).types == "1Z"
        late(client)
        got = client.ask(begun, sync())
        assert (got.error["C"], got.status) == (code, "E")
        client.close()


def test_without_following_statements_too(pgweir):
    weir = pgweir(pool_mode="transaction", late_begin=1, default_pool_size=1, max_prepared_statements=0)
    for begun, code in ((bind(), "26000"), (execute(), "34000")):
        client = weir.client()
        late(client)
        assert client.ask(begun, sync()).error["C"] == code
        client.close()


def test_begin_within_one_is_warned_of(weir):
    client = late(weir.client())
    got = client.query("BEGIN")
    assert (got.tags, got.status) == (["BEGIN"], "T")
    assert [(notice["S"], notice["C"]) for notice in got.notices] == [("WARNING", "25001")]
    assert client.query("COMMIT").tags == ["COMMIT"]


def test_and_chain_passes(weir):
    client = late(weir.client(), "BEGIN ISOLATION LEVEL REPEATABLE READ")
    got = client.query("COMMIT AND CHAIN")
    assert (got.tags, got.status) == (["COMMIT"], "T")
    assert client.value("SHOW transaction_isolation") == "repeatable read"
    assert client.query("COMMIT").status == "I"


def test_what_must_be_within_a_transaction(weir):
    client = weir.client()
    for sql, tag in (("SAVEPOINT a", "SAVEPOINT"), ("SET LOCAL work_mem = 64", "SET"),
                     ("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE", "SET"),
                     ("LOCK TABLE pg_class IN ACCESS SHARE MODE", "LOCK TABLE"),
                     ("DECLARE c CURSOR FOR SELECT 1", "DECLARE CURSOR")):
        got = late(client).query(sql)
        assert (got.tags, got.notices, got.status) == ([tag], [], "T")
        assert client.query("ROLLBACK").status == "I"
    got = late(client).query("VACUUM")
    assert (got.error["C"], got.status) == ("25001", "E")
    assert client.query("COMMIT").tags == ["ROLLBACK"]


def test_an_error_in_the_first_statement_fails_it(weir):
    client = late(weir.client())
    assert client.query("SELEC").status == "E"
    assert client.query("SELECT 1").error["C"] == "25P02"
    assert client.query("COMMIT").tags == ["ROLLBACK"]
    late(client)
    got = client.ask(parse("SELEC"), bind(), execute(), sync())
    assert (got.types, got.status) == ("EZ", "E")
    assert client.query("ROLLBACK").tags == ["ROLLBACK"]


def test_copy(weir, postgres):
    postgres.query("CREATE TABLE IF NOT EXISTS copied (n int)")
    postgres.query("GRANT ALL ON copied TO PUBLIC")
    client = late(weir.client())
    client.send(query("COPY copied FROM STDIN"))
    client.expect("G")
    client.send(message("d", b"1\n2\n"), message("c"))
    assert client.read_result().tags == ["COPY 2"]
    assert client.query("COMMIT").status == "I"
    got = late(client).query("COPY copied TO STDOUT")
    assert got.types == "HddcCZ"
    assert client.query("COMMIT").status == "I"


def test_a_function_call(weir):
    client = late(weir.client())
    # pg_backend_pid(), in binary
    client.send(message("F", b"\0\0\x07\xea\0\0\0\0\0\x01"))
    got = client.read_result()
    assert (got.types, got.status) == ("VZ", "T")
    assert client.query("ROLLBACK").tags == ["ROLLBACK"]


def test_statements_that_the_server_must_learn(weir):
    """Some wait until nothing is owed, and the response to BEGIN without a Sync is not sent yet."""
    client, other = weir.client(), late(weir.client())
    assert not client.ask(parse("SELECT 'named'", "s1"), sync()).errors
    other.value("SELECT 1")  # keeps the server that has it, if the pool's next one does not
    for first in ("EXECUTE s1", "PREPARE s2 AS SELECT 2", "EXECUTE s2", "DEALLOCATE s2"):
        late(client)
        got = client.query(first)
        assert (got.errors, got.status) == ([], "T"), got
        assert client.query("COMMIT").tags == ["COMMIT"]
    late(client)
    assert client.ask(bind((), "s1"), execute(), sync()).rows == [["named"]]
    client.query("COMMIT")
    late(client)
    assert client.query("EXECUTE nowhere").error["C"] == "26000"
    assert client.query("COMMIT").tags == ["ROLLBACK"]


def test_flush(weir):
    client = late(weir.client())
    client.send(message("H"))
    client.send(parse("SELECT 1"), bind(), execute(), message("H"))
    client.expect("12DC")
    assert client.ask(sync()).status == "T"


def test_sync_alone(weir):
    client = late(weir.client())
    assert client.ask(sync()).status == "T"
    assert client.query("COMMIT").tags == ["COMMIT"]


# -- servers ---------------------------------------------------------------------------------------


def test_it_holds_no_server(pgweir):
    weir = pgweir(pool_mode="transaction", late_begin=1, default_pool_size=1)
    waiting = [late(weir.client()) for _ in range(3)]
    assert is_late(weir, 3)
    assert weir.client().value("SELECT 1") == "1"
    assert {row["state"] for row in weir.admin("SHOW CLIENTS") if row["database"] == "app"} == {"idle"}
    for client in waiting:
        assert client.value("SELECT 2") == "2"
        assert client.query("COMMIT").tags == ["COMMIT"]
    assert is_late(weir, 0)


def test_a_client_that_disconnects_leaves_nothing(weir):
    client = late(weir.client())
    client.send(message("X"))
    client.wait_closed()
    late(weir.client()).reset()
    wait_until(lambda: is_late(weir, 0))
    assert "closing because: client disconnect while server was not ready" not in weir.log


def test_a_server_that_dies_before_it_is_needed(private_postgres, pgweir):
    postgres = private_postgres()
    weir = pgweir(postgres=postgres, pool_mode="transaction", late_begin=1)
    client = late(weir.client())
    postgres.end_backends()
    wait_until(lambda: weir.pool()["sv_idle"] == 0)
    assert client.value("SELECT 1") == "1"
    assert client.query("COMMIT").tags == ["COMMIT"]


def test_postgresql_is_down(private_postgres, pgweir):
    postgres = private_postgres()
    weir = pgweir(postgres=postgres, pool_mode="transaction", late_begin=1, query_wait_timeout="0.5")
    client, other = weir.client(), weir.client()
    postgres.stop()
    wait_until(lambda: weir.pool()["sv_idle"] == 0)
    late(client)
    late(other)
    assert other.query("COMMIT").tags == ["COMMIT"]
    client.send(query("SELECT 1"))
    assert client.read_refusal().sqlstate in ("53300", "08006", "57P03")


def test_query_wait_timeout(pgweir):
    weir = pgweir(pool_mode="transaction", late_begin=1, default_pool_size=1, query_wait_timeout="0.3")
    late(weir.client()).query("SELECT 1")
    client = late(weir.client())
    client.send(query("SELECT 1"))
    assert client.read_refusal().text == "query_wait_timeout"
    assert is_late(weir, 0)


def test_pause_and_reconnect_do_not_wait_for_it(weir):
    client = late(weir.client())
    assert weir.ask_admin("PAUSE").tags == ["PAUSE"]
    assert late(weir.client()).query("ROLLBACK").status == "I"
    client.send(query("SELECT 1"))
    weir.wait_pool(cl_waiting=1)
    assert weir.ask_admin("RESUME").tags == ["RESUME"]
    assert client.read_result().rows == [["1"]]
    assert client.query("COMMIT").tags == ["COMMIT"]
    late(client)
    assert weir.ask_admin("RECONNECT").tags == ["RECONNECT"]
    assert client.value("SELECT 1") == "1"


def test_kill_ends_it(weir):
    client = late(weir.client())
    weir.admin("KILL app")
    assert client.read_refusal().sqlstate == "57P01"
    assert is_late(weir, 0)


# -- failures of BEGIN itself ----------------------------------------------------------------------


@pytest.mark.parametrize("answered", (b"", message("1"), message("1") + message("2")))
def test_begin_fails_at_the_server(scripted, answered):
    """Messages after it were skipped by the server, and are never run."""
    _, client, server = scripted()
    late(client)
    client.send(query("DELETE FROM everything"))
    server.expect("PBECQ")
    server.send(answered, error("canceling statement due to statement timeout", "57014"))
    refused = client.read_refusal()
    assert (refused.severity, refused.sqlstate) == ("FATAL", "57014")
    assert "statement timeout" in refused.text
    assert [got.type for got in server.read_to_end()] == ["X"]


def test_the_server_ends_at_begin(scripted):
    _, client, server = scripted()
    late(client)
    client.send(query("SELECT 1"))
    server.expect("PBECQ")
    server.send(error("terminating connection", "57P01", "FATAL"))
    server.close()
    assert client.read_refusal().sqlstate == "57P01"


def test_a_server_out_of_step_at_begin(scripted):
    _, client, server = scripted()
    late(client)
    client.send(query("SELECT 1"))
    server.expect("PBECQ")
    server.send(complete("BEGIN"), ready("T"))
    assert client.read_refusal().sqlstate == "08P01"


# -- cancel requests -------------------------------------------------------------------------------


def test_there_is_nothing_to_cancel(weir):
    client = late(weir.client())
    send_cancel(weir.address, client.key)
    assert client.value("SELECT 1") == "1"
    assert client.query("COMMIT").tags == ["COMMIT"]


@pytest.fixture
def cancelled(pgweir):
    """A client whose first statement was canceled in the queue: its transaction has failed."""

    def make(first, types):
        weir = pgweir(pool_mode="transaction", late_begin=1, default_pool_size=1)
        holder = late(weir.client())
        holder.value("SELECT 1")
        client = late(weir.client(), "BEGIN READ ONLY")
        client.send(first)
        weir.wait_pool(cl_waiting=1)
        send_cancel(weir.address, client.key)
        got = client.read_result()
        assert (got.types, got.error["C"], got.status) == (types, "57014", "E")
        assert is_late(weir)
        holder.query("COMMIT")
        return weir, client

    return make


BATCH = parse("SELECT 1") + bind() + execute() + sync()


@pytest.mark.parametrize("first", (query("SELECT 1"), BATCH), ids=("simple", "extended"))
@pytest.mark.parametrize("end", ("COMMIT", "ROLLBACK", "END", "ABORT"))
def test_cancelled_in_the_line_and_ended(cancelled, first, end):
    weir, client = cancelled(first, "EZ")
    got = client.query(end)
    assert (got.types, got.tags, got.status) == ("CZ", ["ROLLBACK"], "I")
    assert is_late(weir, 0)
    assert client.value("SELECT 1") == "1"


@pytest.mark.parametrize("first", (query("SELECT 1"), BATCH), ids=("simple", "extended"))
@pytest.mark.parametrize("then", (query("SELECT 1"), BATCH), ids=("simple", "extended"))
def test_cancelled_in_the_line_and_not_ended(cancelled, first, then):
    weir, client = cancelled(first, "EZ")
    got = client.ask(then)
    assert (got.types, got.error["C"], got.status) == ("EZ", "25P02", "E")
    got = client.ask(parse("ROLLBACK"), bind(), execute(), sync())
    assert (got.types, got.tags, got.status) == ("12CZ", ["ROLLBACK"], "I")
    assert client.value("SELECT 1") == "1"


def test_cancelled_in_the_line_and_prepared(cancelled):
    """A statement that must wait for all responses before it."""
    _, client = cancelled(query("SELECT 1"), "EZ")
    assert client.query("PREPARE s1 AS SELECT 1").error["C"] == "25P02"
    assert client.query("COMMIT").tags == ["ROLLBACK"]


def test_the_first_statement_is_cancelled_at_the_server(weir, postgres):
    client = late(weir.client())
    client.send(query("SELECT pg_sleep(30)"))
    wait_until(lambda: postgres.query("SELECT 1 FROM pg_stat_activity WHERE state = 'active'"
                                      " AND query = 'SELECT pg_sleep(30)'"))
    send_cancel(weir.address, client.key)
    got = client.read_result()
    assert (got.error["C"], got.status) == ("57014", "E")
    assert client.query("COMMIT").tags == ["ROLLBACK"]


# -- time limits, modes, statistics ----------------------------------------------------------------


@pytest.mark.parametrize("limits, sqlstate, text", (
    (dict(idle_transaction_timeout="0.2"), "25P03", "idle transaction timeout"),
    (dict(transaction_timeout="0.2"), "25P04", "transaction timeout"),
    (dict(transaction_timeout="0.2", idle_transaction_timeout=90), "25P04", "transaction timeout"),
    (dict(transaction_timeout=90, idle_transaction_timeout="0.2"), "25P03", "idle transaction timeout"),
    # This limit applies to clients outside of a transaction.
    (dict(client_idle_timeout="0.1", transaction_timeout="0.6"), "25P04", "transaction timeout")))
def test_time_limits(pgweir, limits, sqlstate, text):
    client = late(pgweir(pool_mode="transaction", late_begin=1, **limits).client())
    refused = client.read_refusal()
    assert (refused.severity, refused.sqlstate, refused.text) == ("FATAL", sqlstate, text)


def test_the_limit_is_over_with_the_transaction(pgweir):
    weir = pgweir(pool_mode="transaction", late_begin=1, idle_transaction_timeout="0.2")
    first, second = weir.client(), late(weir.client())
    assert late(first).query("COMMIT").status == "I"
    assert second.read_refusal().sqlstate == "25P03"
    assert first.value("SELECT 1") == "1"


def test_a_transaction_counts_from_its_begin(pgweir):
    client = late(pgweir(pool_mode="transaction", late_begin=1, transaction_timeout="0.4").client())
    client.send(query("SELECT pg_sleep(30)"))
    assert client.read_refusal().sqlstate == "25P04"


def test_a_reload_changes_the_limit(weir):
    client = late(weir.client())
    weir.reload(idle_transaction_timeout="0.2")
    assert client.read_refusal().sqlstate == "25P03"


def test_a_reload_without_it_leaves_those_who_have_begun(weir):
    client = late(weir.client())
    weir.reload(late_begin=0)
    assert client.value("SELECT 1") == "1"
    assert client.query("COMMIT").tags == ["COMMIT"]
    client.query("BEGIN")
    assert is_late(weir, 0)


def test_statement_mode_refuses_as_ever(pgweir):
    weir = pgweir(pool_mode="statement", late_begin=1)
    client = weir.client()
    client.send(query("BEGIN"))
    assert "statement pooling mode" in client.read_refusal().text


def test_session_mode_keeps_its_server(pgweir):
    weir = pgweir(pool_mode="session", late_begin=1)
    client = weir.client()
    pid = client.value(PID)
    client.query("BEGIN")
    assert is_late(weir, 0)
    assert client.value(PID) == pid


def test_figures_are_those_of_without(pgweir):
    """Queries and transactions of the client count, whether PostgreSQL or pgweir responded."""

    def counts(late_begin):
        weir = pgweir(pool_mode="transaction", late_begin=late_begin)
        client = weir.client()
        for texts in (("BEGIN", "SELECT 1", "COMMIT"), ("BEGIN", "ROLLBACK"), ("SELECT 1",),
                      ("BEGIN", "SELEC", "COMMIT")):
            for text in texts:
                client.query(text)
        (row,) = [row for row in weir.admin("SHOW STATS") if row["database"] == "app"]
        return row["total_query_count"], row["total_xact_count"], row["total_server_assignment_count"]

    assert counts(0) == (9, 4, 4)
    assert counts(1) == (9, 4, 3)
