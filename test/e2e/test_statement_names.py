# SPDX-License-Identifier: ISC
"""What one client does to the statements of a server is not the others' business.

Their names there are pgweir's. Every client of the same database user can see them. A text of several
statements or a DO block can take them away: behind that no client may get other rows, and none more
than one error.
"""

import re

import pytest

from .kit.wire import bind, describe, execute, extended, parse, sync

USE = bind((), "s") + execute() + sync()


@pytest.fixture
def weir(pgweir):
    return pgweir(pool_mode="transaction", default_pool_size=1)


@pytest.fixture
def victim(weir):
    client = weir.client()
    for name in ("s", "t"):
        assert not client.ask(parse(f"SELECT 'mine', '{name}'", name), sync()).errors
    return client


def names(client):
    return [row[0] for row in client.query("SELECT name FROM pg_prepared_statements "
                                           "WHERE name <> 'PGBOUNCER_0' ORDER BY 1").rows]


def test_names_have_a_random_part(pgweir):
    stems, numbers = set(), set()
    for _ in range(2):
        client = pgweir(pool_mode="transaction", default_pool_size=1).client()
        for number in range(2):
            client.ask(parse(f"SELECT {number}", f"s{number}"), sync())
        found = [re.fullmatch(r"PGBOUNCER_([a-z2-7]{12})_([0-9]+)", name)
                 for name in names(client)]
        assert all(found) and len(found) == 2
        stems |= {match[1] for match in found}
        numbers |= {match[2] for match in found}
    assert len(stems) == 2 and len(numbers) == 4


def test_replaced_behind_another_statement(weir, victim):
    thief = weir.client()
    first = names(thief)[0]
    got = thief.query(f'SELECT 1; DEALLOCATE "{first}"; PREPARE "{first}" AS SELECT \'not\', \'yours\'')
    assert not got.errors
    for name in ("s", "t", "s"):
        got = victim.ask(bind((), name), execute(), sync())
        assert got.rows == [["mine", name]], got


def test_all_replaced_behind_another_statement(weir, victim):
    """DEALLOCATE ALL in one text with PREPAREs of the same names."""
    thief = weir.client()
    evil = "; ".join(f'PREPARE "{name}" AS SELECT \'not\', \'yours\'' for name in names(thief))
    assert not thief.query(f"SELECT 1; DEALLOCATE ALL; {evil}").errors
    # The server cannot learn them any more. The first who sees it gets the error, and nobody else.
    assert victim.ask(USE).error["C"] == "42P05"
    assert victim.ask(USE).rows == [["mine", "s"]]
    assert victim.ask(bind((), "t"), execute(), sync()).rows == [["mine", "t"]]


GONE = "DO $$ BEGIN EXECUTE 'DEALLOCATE ALL'; END $$"


def test_gone_unseen_heals(weir, victim):
    """As the first of a transaction, by a client that asks for the columns: nobody notices."""
    assert not weir.client().query(GONE).errors
    victim.query("SELECT 1")  # ahead of this the server is cleaned, as the DO leaves it in doubt
    got = victim.ask(bind((), "s"), describe(), execute(), sync())
    assert got.types == "2TDCZ" and got.rows == [["mine", "s"]]
    # And what is gone with it is not believed either.
    assert victim.ask(bind((), "t"), execute(), sync()).rows == [["mine", "t"]]


def test_gone_unseen_is_an_error_once(weir, victim):
    assert not weir.client().query(GONE).errors
    victim.query("BEGIN")
    got = victim.ask(USE)
    assert got.error["C"] == "26000" and '"s"' in got.error["M"]
    assert victim.query("ROLLBACK").tags == ["ROLLBACK"]
    for name in ("t", "s"):
        assert victim.ask(bind((), name), execute(), sync()).rows == [["mine", name]]


def test_gone_unseen_for_execute(weir):
    client = weir.client()
    client.query("PREPARE s AS SELECT 7")
    assert client.query("EXECUTE s").rows == [["7"]]
    assert not weir.client().query(GONE).errors
    assert client.query("EXECUTE s").error["C"] == "26000"
    assert client.query("EXECUTE s").rows == [["7"]]


def test_what_is_refused_is_refused_whatever_is_prepared(weir):
    """pgweir refuses with a request that must fail, even if a client has used all names of pgweir.
    """
    thief, client = weir.client(), weir.client()
    assert not thief.query('SELECT 1; PREPARE "PGBOUNCER_" AS SELECT 1').errors
    assert client.ask(bind((), "PGBOUNCER_1"), sync()).error["C"] == "26000"
    assert client.ask(extended("PREPARE s AS SELECT 1; SELECT 1")).error["C"] == "0A000"
    assert client.value("SELECT 1") == "1"


def test_names_go_on_over_a_take_over(weir, victim):
    before = names(victim)
    assert weir.take_over().wait(15) == 0
    for name in ("s", "t"):
        assert victim.ask(bind((), name), execute(), sync()).rows == [["mine", name]]
    assert names(victim) == before
    assert not victim.ask(parse("SELECT 'new'", "n"), sync()).errors
    after = names(victim)
    assert set(before) < set(after) and len(after) == 3
    # Also a second time, with names of both processes.
    assert weir.take_over().wait(15) == 0
    assert victim.ask(bind((), "n"), execute(), sync()).rows == [["new"]]
    assert victim.ask(USE).rows == [["mine", "s"]]
    assert names(victim) == after
