# SPDX-License-Identifier: ISC
"""What one client does to the statements of a server is not the others' business.

Their names there are pgweir's. Every client of the same database user can see them. A text of several
statements or a DO block can take them away: behind that no client may get other rows, and none more
than one error.
"""

import re

import pytest

from .kit.wait import wait_until
from .kit.wire import bind, describe, execute, extended, parse, query, sync

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
    thief.close()  # until then the server stays with it
    for name in ("s", "t", "s"):
        got = victim.ask(bind((), name), execute(), sync())
        assert got.rows == [["mine", name]], got


def test_all_replaced_behind_another_statement(weir, victim):
    """DEALLOCATE ALL in one text with PREPAREs of the same names."""
    thief = weir.client()
    evil = "; ".join(f'PREPARE "{name}" AS SELECT \'not\', \'yours\'' for name in names(thief))
    assert not thief.query(f"SELECT 1; DEALLOCATE ALL; {evil}").errors
    thief.close()
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


@pytest.mark.parametrize("what", ("all", "one"))
def test_gone_in_a_block_is_seen(weir, victim, what):
    """PostgreSQL is asked how many there are, so not even a transaction fails."""
    thief = weir.client()
    gone = GONE if what == "all" else GONE.replace(" ALL", f' "{names(thief)[0]}"')
    assert not thief.query(gone).errors
    victim.query("BEGIN")
    for name in ("t", "s"):
        assert victim.ask(bind((), name), execute(), sync()).rows == [["mine", name]]
    assert victim.query("COMMIT").tags == ["COMMIT"]


def replace(client):
    """Replaces all statements in one block."""
    texts = "".join(f"""EXECUTE 'DEALLOCATE "{name}"';
                        EXECUTE 'PREPARE "{name}" AS SELECT ''not'', ''yours'' ';"""
                    for name in names(client))
    assert not client.query(f"DO $$ BEGIN {texts} END $$").errors


def test_replaced_in_a_block(weir, victim):
    """The server stays with the thief, and is reset when it leaves."""
    thief = weir.client()
    replace(thief)
    wait_until(lambda: "prepared statement" in str(weir.console().query("SHOW PINNED").rows))
    victim.send(USE)
    thief.close()
    assert victim.read_result().rows == [["mine", "s"]]


def test_replaced_in_a_block_and_put_away(weir, victim):
    thief = weir.client()
    texts = [f"""DO $$ BEGIN EXECUTE 'DEALLOCATE "{name}"'; END $$""" for name in names(thief)]
    replace(thief)
    for text in texts:
        assert not thief.query(text).errors
    for name in ("t", "s"):
        assert victim.ask(bind((), name), execute(), sync()).rows == [["mine", name]]


@pytest.fixture
def unseen(pgweir, postgres):
    """Nobody asks what the function has done."""
    postgres.query("CREATE OR REPLACE FUNCTION run(text) RETURNS int LANGUAGE plpgsql AS "
                   "$$ BEGIN EXECUTE $1; RETURN 1; END $$")
    yield pgweir(pool_mode="transaction", default_pool_size=1, session_sample=0,
                 session_isolation="strict", session_state="off")
    postgres.query("DROP FUNCTION run(text)")


def replace_unseen(client):
    for name in names(client):
        for text in (f'DEALLOCATE "{name}"', f"""PREPARE "{name}" AS SELECT 'not', 'yours'"""):
            assert not client.query(f"SELECT run($t${text}$t$)").errors


def test_replaced_in_a_function(unseen):
    """The cleaning ahead of the victim fails: its statement runs on another server."""
    victim, thief = unseen.client(), unseen.client()
    assert not victim.ask(parse("SELECT 'mine', 's'", "s"), sync()).errors
    for _ in range(2):
        replace_unseen(thief)
        assert victim.ask(USE).rows == [["mine", "s"]]
    replace_unseen(thief)
    victim.send(query("BEGIN"), USE)  # the second batch has waited, and follows to the other server
    assert victim.read_result().tags == ["BEGIN"]
    assert victim.read_result().rows == [["mine", "s"]]


def test_replaced_in_a_function_while_it_waits(unseen):
    """The same if it gets the server from a queue."""
    victim, thief = unseen.client(), unseen.client()
    assert not victim.ask(parse("SELECT 'mine', 's'", "s"), sync()).errors
    for _ in range(2):
        assert not thief.query("BEGIN").errors
        replace_unseen(thief)
        victim.send(USE)
        unseen.wait_pool(cl_waiting=1)
        assert not thief.query("COMMIT").errors
        assert victim.read_result().rows == [["mine", "s"]]


def test_prepared_by_a_function_where_nothing_else_is(unseen):
    """The cleaning takes it away, as there is no statement of anybody else."""
    client, other = unseen.client(), unseen.client()
    for _ in range(2):
        assert not client.query("SELECT run('PREPARE left_there AS SELECT 1')").errors
        assert other.query("SELECT 0; EXECUTE left_there").error["C"] == "26000"


def test_gone_unseen_for_execute(weir):
    client = weir.client()
    client.query("PREPARE s AS SELECT 7")
    assert client.query("EXECUTE s").rows == [["7"]]
    assert not weir.client().query(GONE).errors
    assert client.query("EXECUTE s").rows == [["7"]]


def test_what_is_refused_is_refused_whatever_is_prepared(weir):
    """pgweir refuses with a request that must fail, even if a client has used all names of pgweir.
    """
    thief, client = weir.client(), weir.client()
    assert not thief.query('SELECT 1; PREPARE "PGBOUNCER_" AS SELECT 1').errors
    thief.close()
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
