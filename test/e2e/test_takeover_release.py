# SPDX-License-Identifier: ISC
"""-R between the last release and this program, in both directions: nobody loses anything.

What is handed over is in records, and both sides must have the same tables of them: see
src/main/daemon_priv.h. The rest is in test_takeover.py. PGWEIR_TEST_RELEASE names an
earlier release.
"""

import os
import shutil

import pytest

from .kit import release
from .kit.wait import wait_until
from .kit.wire import bind, describe, execute, message, parse, query, sync
from .test_takeover import SLEEP, Load, refused, wait_asleep

LAST = os.environ.get("PGWEIR_TEST_RELEASE", "0.3.0")
LEAVES_STATE = LAST in ("0.1.0", "0.2.0")  # on its servers, in transaction mode
pytestmark = pytest.mark.one_loop("releases before 0.3.0 do not know the setting")


@pytest.fixture(scope="session")
def last_release(account, place):
    """The last release's program, where the unprivileged user can run it."""
    try:
        path = release.release_binary(LAST)
    except release.Absent as absent:
        pytest.skip(str(absent))
    return account.own(shutil.copy(path, os.path.join(place, f"pgweir-{LAST}")), 0o755)


def read_catalog(weir):
    """Before, any transaction may leave something, which the last release could not know."""
    weir.client().query("SELECT 1")
    weir.wait_log("of the database (can|may) touch session state")


@pytest.fixture(params=("upgrade", "downgrade"))
def move(request, make_pgweir, binary, last_release):
    """Starts the one program; its `move` has the other one take over, and returns the old process."""
    first, second = (last_release, binary) if request.param == "upgrade" else (binary, last_release)

    def start(**settings):
        weir = make_pgweir(pool_mode="transaction", **settings)
        weir.binary = first
        weir.is_downgrade = first == binary
        weir.start()
        weir.move = lambda: weir.take_over(binary=second)
        return weir

    return start


def version_of(weir, binary):
    return weir.run("--version", binary=binary).stdout


def test_these_are_two_programs(pgweir, binary, last_release):
    weir = pgweir()
    assert os.path.getsize(binary) != os.path.getsize(last_release)
    assert LAST in version_of(weir, last_release)


def test_idle_clients_and_servers(move):
    weir = move(default_pool_size=5)
    clients = [weir.client() for _ in range(5)]
    backend = clients[0].value("SELECT pg_backend_pid()")
    assert weir.move().wait(15) == 0
    assert [client.value("SELECT 7") for client in clients] == ["7"] * 5
    # What 0.1.0 and 0.2.0 hand over has no session state in it, and 0.3.0 has another format for
    # that: all understand the plain one. Servers may have state of any client, so they are replaced.
    if not weir.is_downgrade:
        assert clients[0].value("SELECT pg_backend_pid()") != backend
    assert weir.client().value("SELECT 8") == "8"


def test_a_statement_that_takes_all_others_away(move):
    """What is sent behind it, before its answer, does not rely on what was there before."""
    weir = move(default_pool_size=2)
    if weir.is_downgrade:
        read_catalog(weir)
    client = weir.client()
    client.ask(parse("SELECT 1", "s"), parse("DEALLOCATE ALL", "all"), sync())
    weir.disconnect_console()
    assert weir.move().wait(15) == 0
    assert client.ask(bind([], "s"), execute(), sync()).rows == [["1"]]
    got = client.ask(bind([], "all"), execute(), parse("SELECT 1", "t"), bind([], "t"), execute(), sync())
    assert got.rows == [["1"]], got.errors


def test_what_the_last_release_has_left_behind(make_pgweir, binary, last_release):
    """Its servers have what its clients have set; no client of this program meets that."""
    weir = make_pgweir(pool_mode="transaction", default_pool_size=1)
    weir.binary = last_release
    weir.start()
    first, second = weir.client(), weir.client()
    first.query("SET work_mem = '77MB'")
    assert second.value("SHOW work_mem") == ("77MB" if LEAVES_STATE else "4MB")
    first.query("BEGIN")
    assert weir.take_over(binary=binary).wait(15) == 0
    first.query("COMMIT")
    assert second.value("SHOW work_mem") != "77MB"
    assert (first.value("SHOW work_mem") != "77MB") == LEAVES_STATE


def test_session_state_stays_where_it_is(move):
    """The other program could not follow it. Other clients pass, and these when they have none."""
    weir = move(default_pool_size=5)
    if LEAVES_STATE and not weir.is_downgrade:
        return  # test_what_the_last_release_has_left_behind()
    if weir.is_downgrade:
        read_catalog(weir)
    pinned, touching, free = weir.client(), weir.client(), weir.client()
    pinned.query("CREATE TEMP TABLE mine AS SELECT 6 AS six")
    touching.query("BEGIN")
    touching.query("SET work_mem = '77MB'")
    free.query("SELECT 1")
    weir.disconnect_console()
    old = weir.move()
    wait_until(lambda: "2 remain" in weir.log)
    assert free.value("SELECT 2") == "2"
    assert pinned.value("SELECT six FROM mine") == "6"
    touching.query("COMMIT")
    assert touching.value("SHOW work_mem") == "77MB"
    assert old.poll() is None
    pinned.query("DROP TABLE mine")
    assert old.wait(15) == 0
    assert [client.value("SELECT 3") for client in (pinned, touching, free)] == ["3"] * 3


def test_listeners_stay_with_this_program(make_pgweir, postgres, binary, last_release):
    """The last release could not follow LISTEN, or understands another format."""
    weir = make_pgweir(pool_mode="transaction", default_pool_size=5)
    weir.binary = binary
    weir.start()
    client, free = weir.client(), weir.client()
    client.query("LISTEN news")
    weir.disconnect_console()
    old = weir.take_over(binary=last_release)
    assert free.value("SELECT 2") == "2"
    postgres.query("NOTIFY news, 'x'")
    client.expect("A")
    assert old.poll() is None
    client.query("UNLISTEN news")
    assert old.wait(15) == 0
    assert client.value("SELECT 3") == "3"


def test_transactions_and_who_waits_for_them(move):
    weir = move(default_pool_size=1)
    if weir.is_downgrade:
        read_catalog(weir)
    holder, first, second = weir.client(), weir.client(), weir.client()
    holder.query("BEGIN")
    holder.query("DECLARE c CURSOR FOR SELECT generate_series(1, 5)")
    holder.query("FETCH 2 FROM c")
    first.send(query("SELECT 'first', clock_timestamp()"))
    weir.wait_pool(cl_waiting=1)
    second.send(query("SELECT 'second', clock_timestamp()"))
    weir.wait_pool(cl_waiting=2)
    weir.disconnect_console()
    assert weir.move().wait(15) == 0
    weir.wait_pool(cl_waiting=2)
    assert holder.query("FETCH 2 FROM c").rows == [["3"], ["4"]]
    assert holder.query("COMMIT").status == "I"
    answers = [first.read_result().rows[0], second.read_result().rows[0]]
    assert [answer[0] for answer in answers] == ["first", "second"]
    assert answers[0][1] < answers[1][1]


def test_statements_of_all_sorts(move):
    weir = move(default_pool_size=2)
    client, other, sql = weir.client(timezone="Asia/Tokyo"), weir.client(), weir.client()
    client.query("SET application_name = 'kept'")
    client.ask(parse("SELECT $1::int + 1", "plus"), sync())
    other.ask(parse("SELECT $1::int + 1", "same"), sync())
    client.ask(parse("SELECT 'unnamed', $1::text"), describe("S"), sync())
    sql.query("PREPARE p AS SELECT 6")
    sql.ask(parse("EXECUTE p"), sync())
    assert weir.move().wait(15) == 0
    assert client.ask(bind(["a"]), execute(), sync()).rows == [["unnamed", "a"]]
    assert client.ask(bind(["4"], "plus"), execute(), sync()).rows == [["5"]]
    assert other.ask(bind(["5"], "same"), execute(), sync()).rows == [["6"]]
    assert client.value("SHOW application_name") == "kept"
    assert client.value("SHOW TimeZone") == "Asia/Tokyo"
    assert client.ask(parse("SELECT 1", "plus"), sync()).error["C"] == "42P05"
    assert sql.ask(bind([]), execute(), sync()).rows == [["6"]]
    assert sql.query("EXECUTE p").rows == [["6"]]


def test_busy_clients_follow(move, postgres):
    """A statement that runs, a COPY and half a message stay until they are over."""
    weir = move(default_pool_size=5)
    sleeper, copier, half = weir.client(), weir.client(), weir.client()
    copier.query("BEGIN")
    copier.query("CREATE TEMP TABLE t (a int) ON COMMIT DROP")
    copier.send(query("COPY t FROM STDIN"))
    copier.expect("G")
    whole = query("SELECT 'whole' -- " + "x" * 70000)
    half.send(whole[:8])
    weir.wait_pool(sv_active=2)
    weir.disconnect_console()
    sleeper.send(query(SLEEP))
    wait_asleep(postgres)
    old = weir.move()
    half.send(whole[8:])
    assert half.read_result().rows == [["whole"]]
    copier.send(message("d", b"1\n2\n"), message("c"))
    assert copier.read_result().tags == ["COPY 2"]
    assert copier.value("SELECT count(*) FROM t") == "2"
    assert copier.query("COMMIT").status == "I"
    assert old.poll() is None
    postgres.value("SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE query = %s",
                   SLEEP)
    assert sleeper.read_result().error["C"] == "57014"
    assert old.wait(15) == 0
    assert [one.value("SELECT 3") for one in (sleeper, copier, half)] == ["3"] * 3


def test_what_is_counted_set_and_learnt(move):
    weir = move(auth_type="scram-sha-256", default_pool_size=2)
    client = weir.client("scram_user", "app", password="scram secret")
    other = weir.client("scram_user", "app", password="scram secret")
    for _ in range(10):
        client.query("SELECT 1")
    weir.admin("PAUSE app2")
    weir.admin("DISABLE app3")

    before = weir.totals("app")
    ids = [row["id"] for row in weir.admin("SHOW CLIENTS") if row["database"] == "app"]
    weir.disconnect_console()
    # The first release does not know of servers in doubt, so those do not leave in a transaction.
    texts = [] if weir.is_downgrade else ["BEGIN", "COMMIT"]
    for text in texts[:1]:
        client.query(text)
    assert weir.move().wait(15) == 0
    assert other.value("SELECT 1") == "1"  # by a second server, entered with the keys shown before
    for text in texts[1:]:
        client.query(text)
    after = weir.totals("app")
    assert after["total_query_count"] == before["total_query_count"] + 1 + len(texts)
    assert after["total_client_login_count"] == before["total_client_login_count"]
    assert [row["id"] for row in weir.admin("SHOW CLIENTS") if row["database"] == "app"] == ids
    rows = {row["name"]: row for row in weir.admin("SHOW DATABASES")}
    assert (rows["app2"]["paused"], rows["app3"]["disabled"], rows["app"]["paused"]) == (1, 1, 0)


def test_there_and_back_under_load(make_pgweir, binary, last_release):
    weir = make_pgweir(pool_mode="transaction", default_pool_size=8, query_wait_timeout=60)
    weir.binary = last_release
    weir.start()
    load = Load(weir, 40)
    try:
        load.wait_round()
        for program in (binary, last_release, binary):
            old = weir.take_over(binary=program)
            load.wait_round()
            assert old.wait(15) == 0
    finally:
        load.stop()
    wait_until(lambda: "the take-over is complete" in weir.log)


def test_what_the_last_release_has_not_seen(make_pgweir, postgres, binary, last_release):
    """A server of it may have what a function has set there; no client of this program meets that."""
    weir = make_pgweir(pool_mode="transaction", default_pool_size=1)
    weir.binary = last_release
    weir.start()
    with postgres.connect("app", user="postgres") as connection:
        connection.execute("CREATE OR REPLACE FUNCTION be(text) RETURNS text LANGUAGE sql AS "
                           "$$ SELECT set_config('app.tenant', $1, false) $$")
    first, second = weir.client(), weir.client()
    first.query("PREPARE p AS SELECT set_config($1, $2, false)")
    for _ in range(3):
        first.query("EXECUTE p('app.tenant', 'first')")
        first.query("SELECT be('first')")
    assert weir.take_over(binary=binary).wait(15) == 0
    assert second.value("SELECT current_setting('app.tenant', true)") in (None, "")


def test_the_last_release_refuses_another_format(make_pgweir, last_release):
    """A version is never taken for a number that it is not, also if it has digits in it."""
    weir = make_pgweir()
    weir.binary = last_release
    weir.start()
    client = weir.client()
    error = refused(weir, "TAKEOVER r3333333333333333")
    assert "version r3333333333333333" in error and ": stop it, then start the " in error
    assert client.value("SELECT 1") == "1"
