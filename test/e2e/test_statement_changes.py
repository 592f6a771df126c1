# SPDX-License-Identifier: ISC
"""A new Parse means what it means now, not what it meant when another client prepared the text."""

import pytest

from .kit.wire import bind, describe, execute, parameter_types, parse, sync

FLOAT8, NUMERIC = 701, 1700


@pytest.fixture
def weir(pgweir):
    return pgweir(pool_mode="transaction", default_pool_size=2)


def prepare(client, text, name="s"):
    got = client.ask(parse(text, name), describe("S", name), sync())
    assert not got.errors, got.error
    return parameter_types(next(said.body for said in got.messages if said.type == "t"))


@pytest.mark.parametrize("change", (
    ("ALTER TABLE orders ALTER amount TYPE numeric",),
    ("BEGIN", "ALTER TABLE orders ALTER amount TYPE numeric", "COMMIT"),
    ("DROP TABLE orders; CREATE TABLE orders (amount numeric)",),
    ("DO $$ BEGIN ALTER TABLE orders ALTER amount TYPE numeric; END $$",)))
def test_a_new_client_is_told_the_types_of_now(weir, change):
    admin, one, other = weir.client(), weir.client(), weir.client()
    text = "INSERT INTO orders VALUES ($1)"
    admin.query("DROP TABLE IF EXISTS orders; CREATE TABLE orders (amount float8)")
    assert prepare(one, text) == (FLOAT8,)
    for query in change:
        assert not admin.query(query).errors
    assert prepare(other, text) == (NUMERIC,)
    value = "0.12345678901234567891"
    assert not other.ask(bind((value,), "s"), execute(), sync()).errors
    assert other.query("SELECT amount FROM orders").rows == [[value]]
    admin.query("DROP TABLE orders")


def test_a_table_made_again(weir):
    """The old statement cannot be described any more."""
    admin, one, other = weir.client(), weir.client(), weir.client()
    text = "SELECT * FROM made"
    for kind in ("int", "text", "date"):
        admin.query(f"DROP TABLE IF EXISTS made; CREATE TABLE made (v {kind})")
        for at, client in enumerate((one, other)):
            assert prepare(client, text, f"{kind}{at}") == ()
    admin.query("DROP TABLE made")
