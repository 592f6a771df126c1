# SPDX-License-Identifier: ISC
"""Interactive use of the console: one setting, one database, typing errors, TAB, pgcli."""

import pytest

from .kit.daemon import USERS
from .kit.terminal import Terminal
from .kit.wait import wait_until
from .kit.wire import bind, describe, execute, parse, sync


@pytest.fixture
def weir(pgweir):
    return pgweir(pool_mode="transaction", default_pool_size=7)


# -- settings --------------------------------------------------------------------------------------


def test_one_setting(weir):
    for text in ("SHOW default_pool_size", 'show "DEFAULT_pool_size" ;', "SELECT default_pool_size"):
        result = weir.ask_admin(text)
        assert [(column.name, column.type) for column in result.columns] == \
            [("default_pool_size", 25)]
        assert result.rows == [["7"]] and result.tags == ["SHOW"]
    weir.admin("SET default_pool_size = 8")
    assert weir.ask_admin("SHOW default_pool_size").rows == [["8"]]
    assert weir.ask_admin("SHOW auth_user").rows == [[None]]


def test_one_setting_in_the_extended_protocol(weir):
    console = weir.console("stats")
    console.send(parse("SHOW pool_mode", name="s"), describe("S", "s"), bind(name="s"),
                 describe("P"), execute(), sync())
    result = console.read_result()
    assert [column.name for column in result.columns] == ["pool_mode"]
    assert result.rows == [["transaction"]]


def test_all_settings(weir):
    shown = {row["name"]: row for row in weir.admin("SHOW ALL")}
    told = {row["key"]: row["value"] for row in weir.admin("SHOW CONFIG")}
    assert {name: row["setting"] for name, row in shown.items()} == told
    assert all(len(row["description"]) > 8 for row in shown.values())


def test_time_zone(weir):
    """pgcli 4 sends it first."""
    for text in ("SHOW TIME ZONE", "show time zone;"):
        result = weir.ask_admin(text)
        assert [column.name for column in result.columns] == ["TimeZone"]
        assert result.rows == [["GMT"]]


# -- typing errors ---------------------------------------------------------------------------------


@pytest.mark.parametrize("text, hint", (
    ("SHOW POOL", "Did you mean SHOW POOLS?"),
    ("show clinets;", "Did you mean SHOW CLIENTS?"),
    ("SHOW default_pol_size", "Did you mean SHOW default_pool_size?"),
    ("POOLS", "Did you mean SHOW POOLS?"),
    ("RELAOD", "Did you mean RELOAD?"),
    ("RELOAD now", "Syntax: RELOAD."),
    ("KILL_CLIENTS 3", "Did you mean KILL_CLIENT?"),
    ("SHUTDOWN WAIT_FOR_CLIENT", "Did you mean SHUTDOWN WAIT_FOR_CLIENTS?"),
    ("SHOW VERSION now", "Syntax: SHOW VERSION."),
    ("SHOW LIMITS hits", "Syntax: SHOW LIMITS [HIT]."),
    ("SHOW COLUMNS pool", "Did you mean SHOW COLUMNS POOLS?"),
    ("SET default_pool_size 3", "Syntax: SET key = value."),
    ("NONSENSE", None),
    ("SELECT 1 + 1", None),
))
def test_did_you_mean(same_pgweir, text, hint):
    console = same_pgweir().console()
    for ask in (console.query, lambda text: console.ask(parse(text), sync())):
        error = ask(text).error
        assert (error["C"], error["M"]) == ("42601", f"invalid command '{text}', use SHOW HELP;")
        assert error.get("H") == hint
    # The hint belongs to that error only.
    assert "H" not in console.query("RESUME").error


def test_help(weir):
    for text in ("help", "HELP;"):
        assert weir.ask_admin(text).notices == weir.ask_admin("SHOW HELP").notices


# -- a part of a table -----------------------------------------------------------------------------


def test_columns_of_a_table(weir):
    rows = weir.ask_admin("SHOW COLUMNS pools").rows
    assert {row[0] for row in rows} == {"POOLS"}
    assert [row[1] for row in rows] == \
        [column.name for column in weir.ask_admin("SHOW POOLS").columns]


@pytest.mark.parametrize("item", ("CLIENTS", "SERVERS", "SOCKETS", "POOLS"))
def test_of_one_database(weir, item):
    for database in ("app", "app", "app2"):
        weir.client(database=database).query("SELECT 1")
    whole = weir.ask_admin(f"SHOW {item}").dicts()
    part = weir.ask_admin(f"SHOW {item} app").dicts()
    assert {row["database"] for row in part} == {"app"}
    assert len(part) == len([row for row in whole if row["database"] == "app"])
    assert len(part) < len(whole)
    own = weir.ask_admin(f"SHOW {item} pgbouncer").dicts()
    assert {row["database"] for row in own} <= {"pgbouncer"}
    assert weir.ask_admin(f"SHOW {item} app3").rows == []


def test_of_a_database_whose_name_needs_quotes(pgweir):
    weir = pgweir(databases={"My-app": "dbname=app"})
    weir.client(database="My-app")
    assert len(weir.ask_admin('SHOW CLIENTS "My-app"').rows) == 1


def test_waiting_of_one_database(pgweir):
    weir = pgweir(pool_mode="transaction")
    weir.admin("PAUSE")
    clients = [weir.wire().startup(database=name) for name in ("app", "app", "app2")]
    weir.wait_pool(cl_waiting=2)
    weir.wait_pool("app2", cl_waiting=1)
    assert [row["database"] for row in weir.admin("SHOW WAITING app")] == ["app"] * 2
    assert len(weir.admin("SHOW WAITING")) == 3
    assert weir.ask_admin("SHOW WAITING app3").rows == []
    weir.admin("RESUME")
    for client in clients:
        client.finish_login("alice")


def test_of_a_database_that_is_not_there(pgweir):
    weir = pgweir()
    for ask in (weir.console().query, lambda text: weir.console().ask(
            parse(text), bind(), execute(), sync())):
        result = ask("SHOW CLIENTS nosuch")
        assert (result.error["C"], result.error["M"]) == ("3D000", "no such database: nosuch")
        assert "T" not in result.types and result.status == "I"
    weir.reload(databases={"app": "", "*": ""})
    assert weir.ask_admin("SHOW CLIENTS nosuch").rows == []


def test_limits_that_were_hit(pgweir):
    """The matching rows follow thousands of others, more than are processed in one turn."""
    users = {f"a{number:04}": "secret" for number in range(5000)}
    weir = pgweir(userlist={**USERS, **users}, max_user_client_connections=3, max_client_conn=200,
                  users={"alice": "max_user_client_connections=1", "bob": "max_user_connections=5"})
    everything = weir.admin("SHOW LIMITS")
    assert len(everything) > 10000
    assert weir.admin("SHOW LIMITS HIT") == []
    weir.client("alice")  # used up, and no client refused so far
    hit = weir.admin("SHOW LIMITS HIT")
    assert [(row["limit"], row["user"], row["used"], row["hits"]) for row in hit] == \
        [("max_user_client_connections", "alice", 1, 0)]
    weir.disconnect()
    wait_until(lambda: not weir.admin("SHOW CLIENTS app"))
    assert weir.admin("SHOW LIMITS hit") == []


# -- programs --------------------------------------------------------------------------------------


def argv(weir, program, *more):
    return [program, "-h", "127.0.0.1", "-p", str(weir.port), "-U", "admin", *more, "pgbouncer"]


def test_tab_in_psql(weir):
    """Its queries for setting names, for the type of a setting, and for its values get results."""
    psql = Terminal(argv(weir, "psql", "-X"), PGPASSWORD=USERS["admin"])
    try:
        psql.expect("pgbouncer=# ")
        psql.type("SHOW CLIENT_IDL\t;\n")
        psql.expect("client_idle_timeout *;.*\n *0\n.*=# ")
        psql.type("SHOW datab\t;\n")
        psql.expect("databases *;.*force_user.*=# ")
        psql.type("SHOW pe\t\t\t")
        psql.expect("peer_id +peers +peers_secret_file.*peer_pools +peers_dns")
        psql.type("\x15SET default_pool_s\t= 11;\n")
        psql.expect("default_pool_size *= *11;.*SET default_pool_size=11.*=# ")
        psql.type("SET pool_mode TO st\t;\n")
        psql.expect("statement *;.*SET pool_mode=statement.*=# ")
        psql.type("SET pidfi\t\t")  # read at start only
        psql.type("\x15SELECT * FROM po\t\t\x15SHOW VERSION;\n")  # a query without a result
        psql.expect("PgBouncer .*=# ")
    finally:
        psql.close()
    assert weir.ask_admin("SHOW pool_mode").rows == [["statement"]]


@pytest.mark.parametrize("begins, names", (
    ("po", ["pools", "pool_histograms", "pool_idle_timeout", "pool_mode"]),
    (r"pool\_m", ["pool_mode"]),
    ("%POOL\\_M", []),
    ("hel", ["help"]),
    ("nonsense", []),
))
def test_names_for_tab(weir, begins, names):
    result = weir.ask_admin("SELECT pg_catalog.lower(name) FROM pg_catalog.pg_settings  WHERE"
                            f" pg_catalog.lower(name) LIKE pg_catalog.lower('{begins}%')\nLIMIT 1000")
    if not begins.startswith("%"):
        assert [row[0] for row in result.rows] == names
    assert not result.errors


def test_pgcli(weir, place):
    pgcli = Terminal(argv(weir, "pgcli", "--less-chatty"), "xterm", HOME=place,
                     XDG_CONFIG_HOME=place, PGPASSWORD=USERS["admin"])
    try:
        pgcli.expect("pgbouncer>")
        pgcli.type("SHOW VERSION;\r")
        pgcli.expect("PgBouncer ")
        pgcli.type("SHOW LISTS;\r")
        pgcli.expect("used_clients")
        pgcli.type("SHOW POOL;\r")
        pgcli.expect("invalid command.*Did you mean SHOW POOLS")
        pgcli.type("SET default_pool_size = 12;\r")
        pgcli.expect("SET default_pool_size=12")
    finally:
        pgcli.close()
    assert "Traceback" not in pgcli.seen
    assert weir.ask_admin("SELECT 1").rows == [["1"]]  # as connection pools of drivers send it
    assert weir.ask_admin("SHOW default_pool_size").rows == [["12"]]
