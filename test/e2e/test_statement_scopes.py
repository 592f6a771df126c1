# SPDX-License-Identifier: ISC
"""A parameter that holds for a transaction may decide how PostgreSQL reads a statement that is
prepared in it. Another client's statement of the same text does not get that meaning."""

import pytest

from .kit.wire import bind, execute, parse, query, sync

NULLS = "SELECT count(*) FROM (VALUES (NULL::int)) AS v(a) WHERE a = NULL"
TIME = "SELECT '2020-01-01 00:00'::timestamptz AT TIME ZONE 'UTC'"

# What begins the transaction, and a text whose meaning it changes.
LOCAL = {
    "a parameter": ("BEGIN; SET LOCAL transform_null_equals = on", NULLS),
    "by set_config()": ("BEGIN; SELECT set_config('transform_null_equals', 'on', true)", NULLS),
    "by a computed name":
        ("BEGIN; SELECT set_config('transform_null_' || 'equals', 'on', true)", NULLS),
    "one that is reported": ("BEGIN; SET LOCAL timezone = 'Asia/Tokyo'", TIME),
    "that by set_config()": ("BEGIN; SELECT set_config('TimeZone', 'Asia/Tokyo', true)", TIME),
    "of the session": ("BEGIN; SET transform_null_equals = on", NULLS),
}


def run(name="s"):
    return bind(name=name) + execute() + sync()


@pytest.fixture
def two(pgweir):
    weir = pgweir(pool_mode="transaction", default_pool_size=1)
    return [weir.client(timezone="UTC") for _ in range(2)]


@pytest.mark.parametrize("is_piped", (False, True), ids=("in turn", "in one write"))
@pytest.mark.parametrize("what", LOCAL)
def test_what_a_transaction_sets_changes_no_statement_of_others(two, what, is_piped):
    client, other = two
    begin, text = LOCAL[what]
    other.ask(parse(text, "s"), sync())
    before = other.ask(run()).rows
    use = parse(text, "s") + run()
    if is_piped:
        client.send(query(begin), use, query("COMMIT"))
        results = [client.read_result() for _ in range(3)]
    else:
        results = [client.query(begin), client.ask(use), client.query("COMMIT")]
    assert not [result.error for result in results if result.error]
    assert results[1].rows != before
    assert other.ask(run()).rows == before


def test_nor_what_is_prepared_behind_its_end(two):
    """The report that TimeZone is as before comes behind the COMMIT."""
    client, other = two
    other.query("SET timezone = 'Asia/Tokyo'")
    other.ask(parse(TIME, "s"), sync())
    before = other.ask(run()).rows
    client.query("BEGIN; SET LOCAL timezone = 'Asia/Tokyo'")
    client.send(query("COMMIT"), parse(TIME, "s") + run())
    client.read_result()
    assert client.read_result().rows == [["2020-01-01 00:00:00"]]
    assert other.ask(run()).rows == before


def test_a_reported_one_costs_no_other_parse(two):
    """Its statement is another one then, and stays prepared."""
    client, _ = two
    client.query("BEGIN; SET LOCAL timezone = 'Asia/Tokyo'; COMMIT")
    parses = []
    for _ in range(4):
        client.query("BEGIN; SET LOCAL timezone = 'Asia/Tokyo'")
        if not parses:
            client.ask(parse(TIME, "s"), sync())
        assert client.ask(run()).rows == [["2019-12-31 15:00:00"]]
        parses.append(client.value("SELECT min(prepare_time) FROM pg_prepared_statements "
                                   "WHERE statement LIKE '%2020-01-01%' AND NOT from_sql"))
        client.query("COMMIT")
    assert len(set(parses)) == 1
