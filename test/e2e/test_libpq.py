# SPDX-License-Identifier: ISC
"""libpq 18 and later, with selectable protocol versions, and psycopg with it.

Debian's libpq is older; `test/run versions` provides one and runs this with each PostgreSQL
version. The protocol version for a client depends on pgweir only, not on its PostgreSQL.
"""

import threading

import psycopg
import pytest

from .kit.wait import LIMIT, wait_until

ANSWERS = (  # min, max, resulting version; in libpq's form, 30002 for 3.2
    ("3.0", "3.0", 30000),
    ("3.0", "3.2", 30002),
    ("3.2", "3.2", 30002),
    ("3.2", "latest", 30002),
)
protocols = pytest.mark.parametrize("low, high, spoken", ANSWERS)
modes = pytest.mark.parametrize("mode", ("session", "transaction"))


@protocols
@pytest.mark.parametrize("auth", ("trust", "scram-sha-256"))
def test_libpq_gets_what_it_asks_for(pgweir, low, high, spoken, auth):
    weir = pgweir(auth_type=auth)
    connection = weir.connect(user="admin", password="admin secret", min_protocol_version=low,
                              max_protocol_version=high, dbname="pgbouncer")
    assert connection.info.full_protocol_version == spoken
    connection.close()


@protocols
@modes
def test_work_of_all_kinds(pgweir, mode, low, high, spoken):
    weir = pgweir(pool_mode=mode, max_prepared_statements=10)
    connection = weir.connect(min_protocol_version=low, max_protocol_version=high)
    assert connection.info.full_protocol_version == spoken
    assert connection.execute("SELECT %s::int + 1", (41,)).fetchone() == (42,)
    for number in range(3):
        row = connection.execute("SELECT %s::int", (number,), prepare=True).fetchone()
        assert row == (number,)
    with connection.pipeline():
        cursors = [connection.execute("SELECT %s::int", (number,)) for number in range(5)]
    assert [cursor.fetchone()[0] for cursor in cursors] == list(range(5))
    with pytest.raises(psycopg.errors.DivisionByZero):
        connection.execute("SELECT 1 / 0")
    with connection.cursor() as cursor:
        with cursor.copy("COPY (SELECT generate_series(1, 1000)) TO STDOUT") as copy:
            assert sum(1 for _ in copy.rows()) == 1000


@protocols
@modes
@pytest.mark.parametrize("how", ("cancel", "cancel_safe"))
def test_libpq_cancels(pgweir, postgres, mode, low, high, spoken, how):
    weir = pgweir(pool_mode=mode)
    connection = weir.connect(min_protocol_version=low, max_protocol_version=high)
    failures = []

    def work():
        try:
            connection.execute("SELECT pg_sleep(30)")
        except psycopg.Error as failure:
            failures.append(failure)

    worker = threading.Thread(target=work)
    worker.start()
    wait_until(lambda: postgres.value("SELECT count(*) FROM pg_stat_activity WHERE state = 'active'"
                                      " AND query = 'SELECT pg_sleep(30)'") == 1)
    getattr(connection, how)()
    worker.join(LIMIT)
    assert isinstance(failures[0], psycopg.errors.QueryCanceled)
    assert connection.execute("SELECT 1").fetchone() == (1,)


def test_without_a_wish(pgweir):
    """The defaults of libpq; newer versions may request a newer protocol."""
    weir = pgweir()
    connection = weir.connect()
    assert connection.info.full_protocol_version in (30000, 30002)
    assert connection.execute("SELECT 1").fetchone() == (1,)


def test_through_two_daemons(pgweir):
    """The first daemon is the server of the second one."""
    behind = pgweir(pool_mode="transaction")
    front = pgweir(databases={"app": f"host=127.0.0.1 port={behind.port}"})
    connection = front.connect(min_protocol_version="3.2", max_protocol_version="3.2")
    assert connection.info.full_protocol_version == 30002
    assert connection.execute("SELECT current_user").fetchone() == ("alice",)
    (row,) = [row for row in behind.admin("SHOW CLIENTS") if row["database"] == "app"]
    assert row["state"] in ("idle", "active")
