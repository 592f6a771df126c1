# SPDX-License-Identifier: ISC
"""A metrics exporter: it logs in as a stats user, like lib/pq, and queries its tables.

doc/monitoring.md describes how to connect one; the columns here are those that the exporter of the
Prometheus community reads by name.
"""

import decimal
import math
import re
import time

import pytest

from .kit.daemon import USERS
from .kit.wire import Wire

# Parameters that lib/pq always puts into the startup packet.
LIBPQ_GO = {"client_encoding": "UTF8", "datestyle": "ISO, MDY", "extra_float_digits": "2"}

NUMBERS = {
    "STATS_TOTALS": "query_count query_time bytes_received bytes_sent wait_time xact_count xact_time"
                    " client_parse_count server_parse_count bind_count",
    "POOLS": "cl_active cl_active_cancel_req cl_waiting cl_waiting_cancel_req sv_active"
             " sv_active_cancel sv_being_canceled sv_idle sv_used sv_tested sv_login maxwait",
    "DATABASES": "pool_size max_connections current_connections paused disabled",
}
LABELS = {
    "STATS_TOTALS": "database",
    "POOLS": "database user",
    "DATABASES": "name host port database force_user pool_mode",
}
LISTS = {"databases", "users", "pools", "free_clients", "used_clients", "login_clients",
         "free_servers", "used_servers", "dns_names", "dns_zones", "dns_queries"}
# What Datadog's agent reads, by name, with psycopg and a row for each line.
DATADOG = {
    "STATS": "total_xact_count total_query_count total_received total_sent total_query_time"
             " total_xact_time total_wait_time avg_xact_count avg_query_count avg_wait_time avg_recv"
             " avg_sent avg_xact_time avg_query_time",
    "POOLS": "cl_active cl_waiting sv_active sv_idle sv_used sv_tested sv_login maxwait maxwait_us",
    "DATABASES": "pool_size max_connections current_connections",
    "CLIENTS": "wait wait_us",
    "SERVERS": "wait wait_us",
}
# What jbub's exporter reads, that of Airflow's chart: texts, those that may be NULL, and integers. Any
# other column is an error to it, also of PgBouncer 1.26.
COUNTS = ("server_assignment_count xact_count query_count sent xact_time query_time wait_time"
          " client_parse_count server_parse_count bind_count").split()
JBUB = {
    "STATS": ("database", "", "total_received avg_recv " + " ".join(
        f"total_{name} avg_{name}" for name in COUNTS)),
    "POOLS": ("database user", "pool_mode load_balance_hosts", "cl_active cl_waiting cl_active_cancel_req"
              " cl_waiting_cancel_req sv_active sv_active_cancel sv_being_canceled sv_idle sv_used"
              " sv_tested sv_login maxwait maxwait_us"),
    "DATABASES": ("name database", "host force_user pool_mode load_balance_hosts",
                  "port pool_size min_pool_size reserve_pool reserve_pool_size server_lifetime"
                  " max_connections current_connections max_client_connections"
                  " current_client_connections paused disabled"),
    "LISTS": ("list", "", "items"),
}
TEXT, NUMERIC, INTEGERS = 25, 1700, (20, 23)


@pytest.fixture
def weir(pgweir):
    weir = pgweir(auth_type="scram-sha-256", pool_mode="transaction", max_client_conn=1)
    client = weir.client("scram_user", password=USERS["scram_user"])
    assert client.value("SELECT 1") == "1"
    client.query("BEGIN")
    return weir


@pytest.fixture
def scrape(weir):
    """Starts like each scrape: a new connection, and a first query."""
    made = []

    def begin(unix=False):
        made.append(Wire(weir.socket_path if unix else weir.address))
        made[-1].login("stats", "pgbouncer", USERS["stats"], **LIBPQ_GO)
        assert made[-1].query("SHOW STATS").tags == ["SHOW"]
        return made[-1]

    yield begin
    for console in made:
        console.close()


def number(value):
    return math.nan if value is None else float(value)


@pytest.mark.parametrize("unix", (False, True))
@pytest.mark.parametrize("table", sorted(NUMBERS))
def test_a_table_becomes_metrics(scrape, table, unix):
    result = scrape(unix).query(f"SHOW {table};")
    types = {column.name: column.type for column in result.columns}
    rows = result.dicts()
    assert "app" in {row.get("name", row["database"]) for row in rows}
    for name in NUMBERS[table].split():
        assert types[name] in (NUMERIC, *INTEGERS)
        assert not any(math.isinf(number(row[name])) or number(row[name]) < 0 for row in rows)
    # A label must be a text or an int; a numeric would become "<invalid>".
    assert all(types[name] in (TEXT, *INTEGERS) for name in LABELS[table].split())
    labels = [tuple(row[name] for name in LABELS[table].split()) for row in rows]
    assert len(set(labels)) == len(labels)


def test_the_counts_are_right(scrape):
    rows = {row["database"]: row for row in scrape().query("SHOW STATS_TOTALS;").dicts()}
    assert int(rows["app"]["query_count"]) >= 1 and int(rows["app"]["bytes_received"]) > 0
    pools = {(row["database"], row["user"]): row for row in scrape().query("SHOW POOLS;").dicts()}
    assert pools["app", "scram_user"]["sv_active"] == "1"


def test_lists_config_and_version(scrape):
    console = scrape()
    result = console.query("SHOW LISTS;")
    assert len(result.columns) == 2
    assert LISTS <= {row["list"] for row in result.dicts()}
    assert all(float(row["items"]) >= 0 for row in result.dicts())
    result = console.query("SHOW CONFIG;")
    assert len(result.columns) == 4
    values = {row["key"]: row["value"] for row in result.dicts()}
    assert (float(values["max_client_conn"]), float(values["max_user_connections"])) == (1, 0)
    assert console.query("SHOW VERSION;").rows[0][0].startswith("PgBouncer 1.")


def test_what_is_ours_can_be_scraped_too(scrape):
    console = scrape()
    for table in ("LIMITS", "ERRORS", "WAITING"):
        assert console.query(f"SHOW {table};").tags == ["SHOW"]


def test_a_ping_and_nothing_more(scrape):
    console = scrape()
    assert console.query(";").errors == []
    for command in ("RELOAD", "PAUSE", "SHUTDOWN", "SET default_pool_size = 1", "SHOW FDS"):
        assert console.query(command).error["C"] == "42501"


@pytest.mark.parametrize("version", ("1.23", "1.24", "1.25"))
def test_jbubs_exporter(make_pgweir, version):
    weir = make_pgweir(databases={"app": "", "*": ""}, console_version=version, auth_type="scram-sha-256").start()
    assert weir.client("scram_user", password=USERS["scram_user"]).value("SELECT 1") == "1"
    with Wire(weir.address).login("stats", "pgbouncer", USERS["stats"], **LIBPQ_GO) as console:
        assert console.query("SHOW VERSION").tags == ["SHOW"]
        for table, (texts, nullable, integers) in JBUB.items():
            result = console.query(f"SHOW {table}")
            assert result.rows and {column.name for column in result.columns} <= {
                *texts.split(), *nullable.split(), *integers.split()}
            for row in result.dicts():
                assert all(row[name] is not None for name in texts.split())
                assert all(re.fullmatch(r"\d+", row[name]) for name in integers.split() if name in row)


def test_datadogs_agent(weir):
    with weir.connect("pgbouncer", "stats", password=USERS["stats"]) as console:
        def rows(table):
            cursor = console.execute(f"SHOW {table}")
            names = [column.name for column in cursor.description]
            return [dict(zip(names, row)) for row in cursor]

        for table, names in DATADOG.items():
            found = rows(table)
            assert found and all(isinstance(row[name], (int, decimal.Decimal))
                                 for row in found for name in names.split()), table
        for row in rows("CLIENTS") + rows("SERVERS"):
            for name in ("connect_time", "request_time"):
                time.strptime(re.match("[^ ]+ [^ ]+", row[name]).group(), "%Y-%m-%d %H:%M:%S")
        values = {row["key"]: row["value"] for row in rows("CONFIG")}
        assert (values["max_client_conn"], values["max_db_connections"]) == ("1", "0")
        assert re.search(r"\d+\.\d+\.\d+", rows("VERSION")[0]["version"])
