# SPDX-License-Identifier: ISC
"""[statements] and [applications]: limits by digest and by application_name."""

import pytest

from .kit.wait import wait_until
from .kit.wire import Refused, bind, close, describe, execute, flush, parse, query, sync

# Each takes what only its test holds, so it runs as long as the test wants.
LOCK = "SELECT pg_advisory_xact_lock(4711)"


@pytest.fixture(params=["transaction", "session"])
def weir(pgweir, request):
    return pgweir(pool_mode=request.param, track_statements=100)


def digest(weir, text, shown=None):
    """That of a text, which is executed for it."""
    weir.client().query(text)
    return next(row["digest"] for row in weir.admin("SHOW STATEMENTS")
                if shown is None or row["query"] == shown)


def limit(weir, **entries):
    """Entries by digest: as they are from now on. `_` before a digest is dropped."""
    weir.sections["statements"] = {name[1:]: entry for name, entry in entries.items()}
    weir.reload()


@pytest.fixture
def lock(postgres):
    """Holds the lock that LOCK waits for, until it is closed."""
    holder = postgres.connect(dbname="app")
    holder.execute("SELECT pg_advisory_lock(4711)")
    yield holder
    holder.close()


def waiting(postgres):
    return int(postgres.value("SELECT count(*) FROM pg_locks WHERE objid = 4711 AND NOT granted"))


def wait_waiting(postgres, count):
    wait_until(lambda: waiting(postgres) == count, what=f"{count} that wait for the lock")


def refused(result, sqlstate, text):
    assert (result.error["C"], result.error["S"]) == (sqlstate, "ERROR")
    assert text in result.error["M"]
    return result.error


# -- block -----------------------------------------------------------------------------------------


def test_a_blocked_statement(weir):
    blocked = digest(weir, "SELECT 'x', 1")
    client = weir.client()
    limit(weir, **{"_" + blocked: "block=1"})
    error = refused(client.query("SELECT 'x', 1"), "42501", f"statement {blocked} is blocked")
    line = 1 + weir.text().splitlines().index(f"{blocked} = block=1")
    assert error["D"] == f"block in [statements], line {line}."
    for same in ("select 'y',2", "/* a */ SELECT -- b\n 'x', 3;", "Select E'x', -1"):
        refused(client.query(same), "42501", "is blocked")
    for other in ("SELECT 1", "SELECT 'x', 1 WHERE true", "SELECT 'x', 1; SELECT 1"):
        assert not client.query(other).errors
    limit(weir)
    assert client.query("SELECT 'x', 1").rows == [["x", "1"]]


def test_it_needs_no_server(pgweir):
    weir = pgweir(pool_mode="transaction", track_statements=100, default_pool_size=1)
    blocked = digest(weir, "SELECT 1, 1")
    limit(weir, **{"_" + blocked: "block=1"})
    holder, client = weir.client(), weir.client()
    holder.query("BEGIN")
    refused(client.query("SELECT 1, 1"), "42501", "is blocked")
    for _ in range(2):
        refused(client.ask(parse("SELECT 1, 1"), bind(), execute(), sync()), "42501", "is blocked")
    client.send(query("SELECT 1"))
    weir.wait_pool(cl_waiting=1)
    holder.query("COMMIT")
    assert client.read_result().rows == [["1"]]


@pytest.mark.parametrize("mode, late_begin", (("transaction", 0), ("session", 0), ("transaction", 1)))
def test_a_transaction_fails_with_it(pgweir, mode, late_begin):
    weir = pgweir(pool_mode=mode, track_statements=100, late_begin=late_begin)
    blocked = digest(weir, "SELECT 1, 1")
    limit(weir, **{"_" + blocked: "block=1"})
    client = weir.client()
    client.query("BEGIN")
    result = client.query("SELECT 1, 1")
    refused(result, "42501", "is blocked")
    assert result.status == "E"
    assert client.query("SELECT 1").error["C"] == "25P02"
    assert client.query("ROLLBACK").status == "I"
    assert client.value("SELECT 1") == "1"


def test_the_extended_protocol(weir):
    """What was prepared before the RELOAD, with a name and a portal and without."""
    blocked = digest(weir, "SELECT 1, 1")
    client = weir.client()
    client.ask(parse("SELECT $1::text, 2", "other"), parse("SELECT 1, 1", "mine"), sync())
    limit(weir, **{"_" + blocked: "block=1"})
    for portal in ("", "p"):
        result = client.ask(bind(name="mine", portal=portal), describe("P", portal),
                            execute(portal), sync())
        refused(result, "42501", "is blocked")
    assert client.ask(bind(["x"], name="other"), execute(), sync()).rows == [["x", "2"]]
    for name in ("", "new"):
        refused(client.ask(parse("SELECT 3, 1", name), bind(name=name), execute(), sync()),
                "42501", "is blocked")
    assert client.ask(parse("SELECT 4"), bind(), execute(), sync()).rows == [["4"]]
    limit(weir)
    assert client.ask(bind(name="mine"), execute(), sync()).rows == [["1", "1"]]


@pytest.mark.parametrize("mode", ("transaction", "session", "statement"))
def test_a_pipeline_stays_in_step(pgweir, mode):
    """What is behind a refused message is skipped up to the Sync, and what is behind that is not."""
    weir = pgweir(pool_mode=mode, track_statements=100)
    blocked = digest(weir, "SELECT 1, 1")
    client = weir.client()
    client.ask(parse("SELECT 1, 1", "mine"), parse("SELECT 5", "five"), sync())
    limit(weir, **{"_" + blocked: "block=1"})
    good = parse("SELECT 3") + bind() + execute()
    for bad in (parse("SELECT 1, 1") + bind() + execute(), bind(name="mine") + execute(),
                bind(name="mine") + flush() + execute(),
                parse("SELECT 1, 1", "other") + bind(name="other") + execute()):
        for before in (b"", good):
            for behind in (b"", good, close("S", "five"), parse("SELECT 9", "five")):
                client.send(before, bad, behind, sync(), good, sync(), query("SELECT 1, 1"),
                            query("SELECT 4"), bind(name="five") + execute(), sync())
                refused(client.read_result(), "42501", "is blocked")
                assert client.read_result().rows == [["3"]]
                refused(client.read_result(), "42501", "is blocked")
                assert client.read_result().rows == [["4"]]
                assert client.read_result().rows == [["5"]]


def test_execute_of_sql(pgweir):
    weir = pgweir(pool_mode="transaction", track_statements=100)
    client = weir.client()
    client.query("PREPARE mine AS SELECT 1, 1")
    client.query("EXECUTE mine")
    blocked = next(row["digest"] for row in weir.admin("SHOW STATEMENTS")
                   if row["query"] == "SELECT $1, $2")
    limit(weir, **{"_" + blocked: "block=1"})
    refused(client.query("EXECUTE mine"), "42501", "is blocked")
    assert client.value("SELECT 1") == "1"


def test_a_text_in_pieces(weir):
    blocked = digest(weir, "SELECT 1, 1")
    limit(weir, **{"_" + blocked: "block=1"})
    client = weir.client()
    client.ask(parse("SELECT 7", "mine"), sync())
    client.send_slowly(query("SELECT 1, 1"))
    refused(client.read_result(), "42501", "is blocked")
    client.send_slowly(parse("SELECT 1, 1", "other") + bind(name="other") + execute() + sync(), 3)
    refused(client.read_result(), "42501", "is blocked")
    client.send_slowly(bind(name="mine") + execute() + sync())
    assert client.read_result().rows == [["7"]]


def test_without_track_statements(pgweir):
    weir = pgweir(pool_mode="transaction", track_statements=100)
    blocked = digest(weir, "SELECT 1, 1")
    limit(weir, **{"_" + blocked: "block=1"})
    weir.reload(track_statements=0)
    client = weir.client()
    refused(client.query("SELECT 1, 1"), "42501", "is blocked")
    assert weir.admin("SHOW STATEMENTS") == []
    limit(weir, _0123456789abcdef="block=1")
    client.ask(parse("SELECT 2, 2", "mine"), sync())
    limit(weir, **{"_" + blocked: "block=1"})
    refused(client.ask(bind(name="mine"), execute(), sync()), "42501", "is blocked")
    assert client.value("SELECT 1") == "1"


def test_a_new_process_has_it(pgweir):
    weir = pgweir(pool_mode="transaction", track_statements=100)
    blocked = digest(weir, "SELECT 1, 1")
    limit(weir, **{"_" + blocked: "block=1"})
    client = weir.client()
    client.ask(parse("SELECT $1::int", "mine"), sync())
    weir.disconnect_console()
    weir.take_over()
    refused(client.query("SELECT 1, 1"), "42501", f"statement {blocked} is blocked")
    assert client.ask(bind(["3"], name="mine"), execute(), sync()).rows == [["3"]]


# -- max_running -----------------------------------------------------------------------------------


@pytest.mark.parametrize("loops", (1, 3))
def test_max_running(pgweir, postgres, lock, loops):
    weir = pgweir(pool_mode="transaction", track_statements=100, default_pool_size=10, loops=loops)
    limited = digest(weir, LOCK.replace("4711", "1"))
    limit(weir, **{"_" + limited: "max_running=2"})
    clients = [weir.client() for _ in range(6)]
    for count, client in enumerate(clients[:2], 1):
        client.send(query(LOCK) if count == 1 else
                    parse(LOCK) + bind() + execute() + sync())
        wait_waiting(postgres, count)
    for client in clients[2:]:
        error = refused(client.query(LOCK), "53300",
                        f"statement {limited} is running 2 times already")
        assert error["D"].startswith("max_running in [statements], line ")
        refused(client.ask(parse(LOCK), bind(), execute(), sync()), "53300", "already")
        assert client.value("SELECT 1") == "1"
    assert waiting(postgres) == 2
    (row,) = [row for row in weir.admin("SHOW LIMITS") if row["statement"]]
    assert (row["limit"], row["statement"], row["value"], row["used"], row["hits"]) == \
        ("max_running", limited, 2, 2, 8)
    lock.close()
    for client in clients[:2]:
        assert client.read_result().tags == ["SELECT 1"]
    for client in clients:
        assert client.query(LOCK).tags == ["SELECT 1"]


def test_what_its_client_has_left_still_runs(pgweir, postgres, lock):
    """It counts until PostgreSQL has ended it, however its client has gone."""
    weir = pgweir(pool_mode="transaction", track_statements=100, default_pool_size=10,
                  cancel_abandoned="10min")
    limited = digest(weir, LOCK.replace("4711", "1"))
    limit(weir, **{"_" + limited: "max_running=1"})
    gone, client = weir.client(), weir.client()
    gone.send(query(LOCK))
    wait_waiting(postgres, 1)
    gone.close()
    weir.wait_pool(sv_being_canceled=1)
    refused(client.query(LOCK), "53300", "already")
    assert waiting(postgres) == 1
    lock.close()
    wait_until(lambda: not client.query(LOCK).errors)


def used(weir):
    return next(row["used"] for row in weir.admin("SHOW LIMITS") if row["statement"])


def newest(weir):
    """The client of the application that has come last."""
    return max(row["id"] for row in weir.admin("SHOW CLIENTS") if row["database"] == "app")


ON_BACKENDS = "SELECT pg_{}_backend(pid) FROM pg_locks WHERE objid = 4711 AND NOT granted"
ENDS = {
    "cancel": lambda weir, postgres, client: postgres.value(ON_BACKENDS.format("cancel")),
    "terminate": lambda weir, postgres, client: postgres.value(ON_BACKENDS.format("terminate")),
    "kill": lambda weir, postgres, client: weir.admin(
        f"KILL_CLIENT {newest(weir)}"),
    "close": lambda weir, postgres, client: client.close(),
    "reset": lambda weir, postgres, client: client.reset(),
    "noise": lambda weir, postgres, client: client.send(b"!\0\0\0\4"),
}


@pytest.mark.usefixtures("lock")
@pytest.mark.parametrize("mode", ("transaction", "session"))
@pytest.mark.parametrize("loops", (1, 3))
def test_however_it_ends_it_is_no_longer_counted(pgweir, postgres, mode, loops):
    weir = pgweir(pool_mode=mode, track_statements=100, default_pool_size=10, loops=loops)
    limited = digest(weir, LOCK.replace("4711", "1"))
    limit(weir, **{"_" + limited: "max_running=1"})
    for end in ENDS.values():
        for last in (sync(), flush()):
            client = weir.client()
            client.send(parse(LOCK) + bind() + execute() + last)
            wait_waiting(postgres, 1)
            assert used(weir) == 1
            end(weir, postgres, client)
            if end is ENDS["cancel"]:
                client.close()
            wait_until(lambda: used(weir) == 0)
            wait_waiting(postgres, 0)


def test_a_reload_counts_what_runs(pgweir, postgres, lock):
    weir = pgweir(pool_mode="transaction", track_statements=100, default_pool_size=10)
    limited = digest(weir, LOCK.replace("4711", "1"))
    clients = [weir.client() for _ in range(3)]
    for count, client in enumerate(clients[:2], 1):
        client.send(query(LOCK))
        wait_waiting(postgres, count)
    limit(weir, **{"_" + limited: "max_running=2"})
    refused(clients[2].query(LOCK), "53300", "already")
    limit(weir, **{"_" + limited: "max_running=3"})
    clients[2].send(query(LOCK))
    wait_waiting(postgres, 3)
    lock.close()
    for client in clients:
        assert client.read_result().tags == ["SELECT 1"]


def test_a_pipeline_counts_once(pgweir):
    weir = pgweir(pool_mode="transaction", track_statements=100)
    limited = digest(weir, "SELECT 1, 1")
    limit(weir, **{"_" + limited: "max_running=1"})
    client = weir.client()
    batch = parse("SELECT 1, 1") + (bind() + execute()) * 3 + sync()
    for _ in range(2):
        client.send(batch, query("SELECT 1, 1"), batch)
        for rows in (3, 1, 3):
            assert client.read_result().rows == [["1", "1"]] * rows


# -- query_timeout ---------------------------------------------------------------------------------


@pytest.mark.parametrize("general", (None, "10min"))
def test_query_timeout_of_a_statement(weir, postgres, general):
    limited = digest(weir, "SELECT pg_sleep(0)")
    weir.reload(query_timeout=general)
    limit(weir, **{"_" + limited: "query_timeout=300ms"})
    client, other = weir.client(), weir.client()
    assert client.query("SELECT pg_sleep(0), 1").tags == ["SELECT 1"]
    client.send(query("SELECT pg_sleep(600)"))
    gone = client.read_refusal()
    assert (gone.sqlstate, gone.text) == ("57014", "query timeout")
    assert gone.fields["H"] == "The statement has a query_timeout of its own in [statements]."
    wait_until(lambda: postgres.value("SELECT count(*) FROM pg_stat_activity WHERE query LIKE"
                                      " '%pg_sleep(600)' AND state = 'active'") == 0)
    other.send(parse("SELECT pg_sleep(600)"), bind(), execute(), sync())
    assert other.read_refusal().sqlstate == "57014"


def test_it_may_be_longer_than_that_of_others(pgweir):
    weir = pgweir(pool_mode="transaction", track_statements=100)
    limited = digest(weir, "SELECT pg_sleep(0)")
    weir.reload(query_timeout="300ms")
    limit(weir, **{"_" + limited: "query_timeout=10min"})
    client = weir.client()
    assert client.query("SELECT pg_sleep(1)").tags == ["SELECT 1"]
    client.send(query("SELECT pg_sleep(600), 1"))
    assert client.read_refusal().sqlstate == "57014"


def test_what_it_has_waited_for_a_server_does_not_count(pgweir):
    weir = pgweir(pool_mode="transaction", track_statements=100, default_pool_size=1)
    limited = digest(weir, "SELECT pg_sleep(0)")
    limit(weir, **{"_" + limited: "query_timeout=5s"})
    holder, client = weir.client(), weir.client()
    holder.send(query("SELECT pg_sleep(5.5), 1"))
    weir.wait_pool(sv_active=1)
    client.send(query("SELECT pg_sleep(0.1)"))
    holder.read_result()
    assert client.read_result().tags == ["SELECT 1"]


def test_a_reload_ends_what_runs_too_long(pgweir, postgres):
    weir = pgweir(pool_mode="transaction", track_statements=100)
    limited = digest(weir, "SELECT pg_sleep(0)")
    client, other = weir.client(), weir.client()
    for number, one in enumerate((client, other), 1):
        one.send(query(f"SELECT pg_sleep(60{number})" if one is client else
                       "SELECT pg_sleep(3), 1"))
    wait_until(lambda: postgres.value("SELECT count(*) FROM pg_stat_activity WHERE query LIKE"
                                      " 'SELECT pg_sleep(601)' AND state = 'active'") == 1)
    limit(weir, **{"_" + limited: "query_timeout=300ms"})
    assert client.read_refusal().sqlstate == "57014"
    assert other.read_result().tags == ["SELECT 1"]


def test_a_reload_lifts_the_limit_of_what_runs(pgweir):
    weir = pgweir(pool_mode="transaction", track_statements=100)
    limited = digest(weir, "SELECT pg_sleep(0)")
    limit(weir, **{"_" + limited: "query_timeout=5s"})
    client = weir.client()
    client.send(query("SELECT pg_sleep(5.5)"))
    weir.wait_pool(sv_active=1)
    limit(weir)
    assert client.read_result().tags == ["SELECT 1"]


# -- patience --------------------------------------------------------------------------------------


SAYS = "pgweir.wait_timeout='300ms'"


@pytest.mark.parametrize("said", (
    query(f"/*{SAYS}*/ SELECT 1"),
    query(f"SELECT 1 /*action='x',{SAYS},route='%2Fa'*/;"),
    parse(f"SELECT 1 /*{SAYS}*/") + bind() + execute() + sync(),
))
def test_the_patience_of_a_statement(pgweir, said):
    weir = pgweir(pool_mode="transaction", default_pool_size=1)
    holder, client, other = weir.client(), weir.client(), weir.client()
    assert client.ask(said).rows == [["1"]]
    holder.query("BEGIN")
    for text in (f"SELECT '{SAYS.replace(chr(39), chr(39) * 2)}'", f"SELECT 1 /*x{SAYS}*/",
                 "SELECT 1 /*pgweir.wait_timeout='soon'*/"):
        weir.client().send(query(text))
    other.send(query("SELECT 1"))
    client.send(said)
    refusal = client.read_refusal()
    assert (refusal.sqlstate, refusal.text) == ("53300", "query_wait_timeout")
    weir.wait_pool(cl_waiting=4)
    holder.query("COMMIT")
    assert other.read_result().rows == [["1"]]


def test_it_is_that_of_one_statement(pgweir):
    """It may be longer than that of its client, which stands for all others."""
    weir = pgweir(pool_mode="transaction", default_pool_size=1)
    holder = weir.client()
    client = weir.client(**{"pgweir.wait_timeout": "300ms"})
    holder.query("BEGIN")
    client.send(query("SELECT 1 /*pgweir.wait_timeout='10min'*/"))
    weir.wait_pool(cl_waiting=1)
    holder.query("SELECT pg_sleep(1)")
    weir.wait_pool(cl_waiting=1)
    holder.query("COMMIT")
    assert client.read_result().rows == [["1"]]
    holder.query("BEGIN")
    client.send(query("SELECT 1"))
    assert client.read_refusal().text == "query_wait_timeout"


# -- the file --------------------------------------------------------------------------------------


@pytest.mark.parametrize("section, entry, text", (
    ("statements", "123 = block=1",
     'statement "123": its digest must be 16 hexadecimal digits, as in SHOW STATEMENTS'),
    ("statements", "91C1B4A7D0E35A2C = block=1", "its digest must be 16 hexadecimal digits"),
    ("statements", "91c1b4a7d0e35a2c = block=0", "block, max_running and query_timeout are missing"),
    ("statements", "91c1b4a7d0e35a2c = blocks=1", 'unknown key "blocks": did you mean "block"?'),
    ("statements", "91c1b4a7d0e35a2c = query_timeout=x", "query_timeout: "),
    ("applications", "batch* = query_timeoute=1", 'unknown key "query_timeoute"'),
))
def test_bad_entries(pgweir, section, entry, text):
    weir = pgweir()
    name, _, value = entry.partition(" = ")
    weir.sections[section] = {name: value}
    with pytest.raises(Refused):
        weir.reload()
    line = 1 + weir.text().splitlines().index(entry)
    (said,) = [said for said in weir.log.splitlines() if f"{weir.ini}:{line}: " in said]
    assert text in said


# -- by database and by application_name -----------------------------------------------------------


LIMITS = (("query_timeout", "SELECT pg_sleep(600)", "57014"),
          ("transaction_timeout", "BEGIN; SELECT pg_sleep(600)", "25P04"),
          ("idle_transaction_timeout", "BEGIN", "25P03"))


@pytest.mark.parametrize("mode", ("session", "transaction"))
@pytest.mark.parametrize("setting, text, sqlstate", LIMITS)
def test_a_database_has_limits(pgweir, setting, text, sqlstate, mode):
    weir = pgweir(pool_mode=mode, databases={"app": f"{setting}=300ms", "app2": ""})
    other = weir.client(database="app2")
    other.query("BEGIN")
    client = weir.client()
    client.send(query(text))
    assert client.read_refusal().sqlstate == sqlstate
    assert other.query("COMMIT").tags == ["COMMIT"]


def test_a_users_limit_comes_before_that_of_the_database(pgweir):
    weir = pgweir(pool_mode="transaction", databases={"app": "query_timeout=300ms"},
                  users={"bob": "query_timeout=10min"})
    client, bob = weir.client(), weir.client("bob")
    assert bob.query("SELECT pg_sleep(1)").tags == ["SELECT 1"]
    client.send(query("SELECT pg_sleep(600)"))
    assert client.read_refusal().sqlstate == "57014"


@pytest.mark.parametrize("mode", ("session", "transaction"))
@pytest.mark.parametrize("setting, text, sqlstate", LIMITS)
def test_an_application_has_limits(pgweir, setting, text, sqlstate, mode):
    weir = pgweir(pool_mode=mode, **{setting: "10min"})
    weir.sections["applications"] = {"'batch job*'": f"{setting}=300ms",
                                     "*": f"{setting}=20min"}
    weir.reload()
    other = weir.client(application_name="web")
    other.query("BEGIN")
    client = weir.client(application_name="batch job 7")
    client.send(query(text))
    assert client.read_refusal().sqlstate == sqlstate
    assert other.query("COMMIT").tags == ["COMMIT"]


def test_an_application_cannot_get_more_time(pgweir):
    weir = pgweir(pool_mode="transaction", query_timeout="300ms")
    weir.sections["applications"] = {"web": "query_timeout=10min"}
    weir.reload()
    client = weir.client(application_name="web")
    client.send(query("SELECT pg_sleep(600)"))
    assert client.read_refusal().sqlstate == "57014"


def test_a_client_that_takes_another_name(pgweir):
    weir = pgweir(pool_mode="transaction")
    weir.sections["applications"] = {"batch*": "query_timeout=300ms"}
    weir.reload()
    client = weir.client(application_name="web")
    assert client.query("SELECT pg_sleep(0.5)").tags == ["SELECT 1"]
    client.query("SET application_name = 'batch'")
    client.send(query("SELECT pg_sleep(600)"))
    assert client.read_refusal().sqlstate == "57014"


def test_a_reload_gives_limits_to_what_runs(pgweir):
    weir = pgweir(pool_mode="transaction")
    client, idle = weir.client(application_name="batch"), weir.client(application_name="batch")
    other = weir.client(application_name="web")
    idle.query("BEGIN")
    other.query("BEGIN")
    client.send(query("SELECT pg_sleep(600)"))
    weir.wait_pool(sv_active=3)
    weir.sections["applications"] = {"batch": "query_timeout=300ms idle_transaction_timeout=300ms"}
    weir.reload()
    assert client.read_refusal().sqlstate == "57014"
    assert idle.read_refusal().sqlstate == "25P03"
    assert other.query("COMMIT").tags == ["COMMIT"]


def test_a_late_begin_has_limits(pgweir):
    weir = pgweir(pool_mode="transaction", late_begin=1)
    weir.sections["applications"] = {"batch": "idle_transaction_timeout=300ms"}
    weir.reload()
    client = weir.client(application_name="batch")
    client.query("BEGIN")
    assert client.read_refusal().sqlstate == "25P03"


def test_an_idle_transaction_that_was_handed_over(pgweir):
    weir = pgweir(pool_mode="transaction")
    weir.sections["applications"] = {"batch": "transaction_timeout=5s"}
    weir.reload()
    client = weir.client(application_name="batch")
    client.query("BEGIN")
    weir.disconnect_console()
    weir.take_over()
    assert client.read_refusal().sqlstate == "25P04"
