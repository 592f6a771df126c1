# SPDX-License-Identifier: ISC
"""Every SHOW: exact columns, their types, and their contents."""

import itertools
import re

import pytest

from .kit.wait import wait_until
from .kit.wire import PROTOCOL_3_2, bind, describe, execute, parse, query, sync

TEXT, INT4, INT8, NUMERIC, BYTEA = 25, 23, 20, 1700, 17

SOCKET_COLUMNS = """type:t user:t database:t replication:t state:t addr:t port local_addr:t local_port
connect_time:t request_time:t wait wait_us close_needed ptr:t link:t remote_pid tls:t
application_name:t prepared_statements id"""

STATS = """server_assignment_count xact_count query_count {received} {sent} xact_time query_time
wait_time client_parse_count server_parse_count bind_count client_login_count"""


def numbers(text, prefix=""):
    return " ".join(f"{prefix}{name}:n" for name in text.split())


# name[:type]; without a type: int4. t text, n numeric, b bigint, y bytea.
COLUMNS = {
    "CLIENTS": SOCKET_COLUMNS,
    "SERVERS": SOCKET_COLUMNS,
    "SOCKETS": SOCKET_COLUMNS + " recv_pos pkt_pos pkt_remain send_pos send_remain pkt_avail"
                                " send_avail",
    "ACTIVE_SOCKETS": SOCKET_COLUMNS + " recv_pos pkt_pos pkt_remain send_pos send_remain"
                                       " pkt_avail send_avail",
    "POOLS": """database:t user:t cl_active cl_waiting cl_active_cancel_req cl_waiting_cancel_req
sv_active sv_active_cancel sv_being_canceled sv_idle sv_used sv_tested sv_login maxwait maxwait_us
pool_mode:t load_balance_hosts:t""",
    "DATABASES": """name:t host:t port database:t force_user:t pool_size min_pool_size
reserve_pool_size server_lifetime pool_mode:t load_balance_hosts:t max_connections
current_connections max_client_connections current_client_connections paused disabled""",
    "USERS": """name:t pool_size:t reserve_pool_size:t pool_mode:t max_user_connections
current_connections max_user_client_connections current_client_connections""",
    "STATS": "database:t " + numbers(STATS.format(received="received", sent="sent"), "total_")
             + " " + numbers(STATS.format(received="recv", sent="sent"), "avg_"),
    "STATS_TOTALS": "database:t " + numbers(STATS.format(received="bytes_received",
                                                         sent="bytes_sent")),
    "STATS_AVERAGES": "database:t " + numbers("""server_assignment_count xact_count query_count
bytes_received bytes_sent xact_time query_time wait_time avg_client_parse_count
avg_server_parse_count avg_bind_count avg_client_login_count"""),
    "TOTALS": "name:t value:n",
    "LISTS": "list:t items",
    "CONFIG": "key:t value:t default:t changeable:t",
    "ALL": "name:t setting:t description:t",
    "MEM": "name:t size used free memtotal",
    "DNS_HOSTS": "hostname:t ttl:b addrs:t",
    "DNS_ZONES": "zonename:t serial:b count",
    "PEERS": "peer_id host:t port pool_size",
    "PEER_POOLS": "peer_id cl_active_cancel_req cl_waiting_cancel_req sv_active_cancel sv_login",
    "VERSION": "version:t",
    "HBA": """rule_number file_name:t line_number type:t database:t user_name:t address:t netmask:t
auth_method:t options:t error:t""",
    "IDENT": "map_number file_name:t line_number map_name:t sys_name:t pg_username:t",
    "LISTENERS": """name:t addr:t port unix_socket:t state:t pool_mode:t auth_type:t
client_tls_sslmode:t databases:t clients max_client_conn accepted:b refused:b""",
    "FDS": """fd task:t user:t database:t addr:t port cancel:b link client_encoding:t std_strings:t
datestyle:t timezone:t password:t scram_client_key:y scram_server_key:y""",
    "WAITING": """database:t user:t place wait wait_us reason:t detail:t application_name:t addr:t
port ptr:t id""",
    "TRANSACTIONS": """id database:t user:t application_name:t addr:t port ptr:t server_pid state:t
state_since:t xact_since:t wait seconds xact_seconds statement:t""",
    "PINNED": """id database:t user:t application_name:t addr:t port ptr:t link:t server_pid since:t
seconds why:t objects:t statement:t""",
    "SESSION_STATE": """id database:t user:t application_name:t addr:t port ptr:t parameters:t libraries:t
channels:t pins:t""",
    "LIMITS": "limit:t database:t user:t value source:t used hits:b host:t waiting statement:t",
    "AUDIT": """database:t user:t application_name:t sessions servers feature:t count:b
in_transaction_mode:t example:t found:b""",
    "CATALOG": "database:t state:t since:t why:t kind:t name:t touches:t",
    "LOOPS": """loop clients servers idle_servers active_servers turns:b cpu_time:b servers_in:b
servers_out:b""",
    "READY": "ready:t reason:t",
    "SOURCES": "key:t value:t source:t",
    "ADVICE": """database:t user:t pool_mode:t pool_size servers pinned requests:b used_us:b
wait_p50_us:b wait_p99_us:b wanted_p50 wanted_p99 wanted_max needed_p50 needed_p99 idle_us:b advice:t
setting:t""",
    "SHARES": "database:t user:t group:t priority:t weight cl_waiting sv_active used_us:b",
    "DRAIN": "state:t clients working waiting closed:b cut:b seconds_left",
    "STATEMENTS": """digest:t database:t user:t application:t calls:b errors:b sqlstate:t total_us:b
mean_us:b max_us:b p95_us:b wait_total_us:b wait_mean_us:b wait_p95_us:b rows:b bytes:b
error_bound:b since:t query:t""",
    "APPLICATIONS": """application_name:t clients active waiting pinned xacts:b errors:b
longest_xact_s""",
    "ERRORS": """type:t reason:t is_error:t count:b last_time:t last_database:t last_user:t
last_message:t""",
    "LATENCY": """scope:t database:t user:t kind:t window:t count:b mean_us:b p50_us:b p90_us:b p95_us:b
p99_us:b p999_us:b max_us:b""",
    "HISTOGRAMS": """database:t kind:t count:b sum_us:b le_100us:b le_250us:b le_500us:b le_1ms:b
le_2500us:b le_5ms:b le_10ms:b le_25ms:b le_50ms:b le_100ms:b le_250ms:b le_500ms:b le_1s:b le_2500ms:b
le_5s:b le_10s:b le_30s:b""",
    "SQLSTATES": "sqlstate:t side:t severity:t count:b last:t database:t user:t class:t",
    "CLOSES": "database:t type:t reason:t is_error:t count:b",
    "CERTIFICATES": "setting:t file:t seconds_left:b",
    "EVENTS": "at:t age_s:b kind:t level:t database:t user:t text:t",
    "EVENTS_TOTALS": "event:t count:b",
    "HISTORY": """resolution:t at:t age_s xacts:b queries:b errors:b received:b sent:b wait_p99_us:b
statement_p50_us:b statement_p95_us:b statement_p99_us:b xact_p99_us:b cl_active cl_waiting sv_active
sv_idle maxwait_us:b logins:b""",
    "HOSTS": """entry:t host:t address:t role:t timeline:b position:t lag_us:b lag_bytes:b state:t since:t
servers latency_us:b watch:t lost_bytes:b last_error:t reads:b hosts_from:t""",
    "READS": """database:t user:t servers on_standby:b no_standby:b behind:b waits:b
wait_us:b""",
    "COLUMNS": "item:t column:t type:t meaning:t",
    "STATE": "key:t value:t",
}

COLUMNS["POOL_HISTOGRAMS"] = COLUMNS["HISTOGRAMS"].replace("database:t", "database:t user:t")

TYPES = {"": INT4, "t": TEXT, "n": NUMERIC, "b": INT8, "y": BYTEA}


def columns_of(item):
    pairs = [word.partition(":") for word in COLUMNS[item].split()]
    return [(name, TYPES[kind]) for name, _, kind in pairs]


@pytest.mark.parametrize("item", COLUMNS)
def test_columns(same_pgweir, item):
    weir = same_pgweir()
    weir.client().query("SELECT 1")
    result = weir.ask_admin(f"SHOW {item}")
    assert not result.errors, result.error
    assert [(column.name, column.type) for column in result.columns] == columns_of(item)
    assert {(column.table, column.modifier, column.format) for column in result.columns} == \
        {(0, -1, 0)}
    assert result.tags == ["SHOW"] and result.status == "I"
    assert all(len(row) == len(result.columns) for row in result.rows)


@pytest.mark.parametrize("item", COLUMNS)
@pytest.mark.parametrize("form", ("show {};", "SHOW  {}  ;", "Show\n\t{}", 'SHOW "{}"', "SELECT {}"))
def test_forms(same_pgweir, item, form):
    weir = same_pgweir()
    result = weir.ask_admin(form.format(item.lower()))
    assert [(column.name, column.type) for column in result.columns] == columns_of(item)


@pytest.fixture
def weir(pgweir):
    return pgweir(pool_mode="transaction", default_pool_size=7)


def by(rows, key, value):
    (row,) = [row for row in rows if row[key] == value]
    return row


def test_version(weir):
    (row,) = weir.admin("SHOW VERSION")
    assert re.fullmatch(r"PgBouncer 1\.26\.1 \(pgweir \d+\.\d+\.\d+\S*\)", row["version"])


NEW_IN_1_24 = {"id", "load_balance_hosts", "max_client_connections", "current_client_connections",
               "max_user_client_connections"}
# How many columns: name of the version, and those of SHOW STATS, POOLS, DATABASES, USERS, CLIENTS.
VERSIONS = {"1.23": ("1.23.1", 17, 16, 14, 5, 20), "1.24": ("1.24.1", 23, 17, 17, 8, 21),
            "1.25": ("1.25.2", 23, 17, 17, 8, 21), "1.26": ("1.26.1", 25, 17, 17, 8, 21)}


def columns_then(version, item):
    """The columns of a table of PgBouncer in this version."""
    columns = columns_of(item)
    if version < "1.26":
        columns = [column for column in columns if not column[0].endswith("client_login_count")]
    if version < "1.24":
        columns = [column for column in columns if column[0] not in NEW_IN_1_24
                   and not column[0].endswith(("_parse_count", "bind_count"))]
        if item == "USERS":
            columns = [column for column in columns if column[0] != "reserve_pool_size"]
        columns = [("reserve_pool" if name == "reserve_pool_size" else name, kind)
                   for name, kind in columns]
    return columns


@pytest.mark.parametrize("version", VERSIONS)
def test_columns_of_older_versions(pgweir, version):
    number, *counts = VERSIONS[version]
    weir = pgweir(pool_mode="transaction", console_version=version)
    weir.client().query("SELECT 1")
    console = weir.console()
    (row,) = console.query("SHOW VERSION").rows
    assert row[0].startswith(f"PgBouncer {number} (pgweir ")
    assert console.query("SELECT version()").rows == [row]
    assert console.value("SHOW server_version") == f"{number}/bouncer"
    assert console.parameters["server_version"] == f"{number}/bouncer"
    assert console.parameters["pgbouncer.version"] == number
    items = ("STATS", "POOLS", "DATABASES", "USERS", "CLIENTS", "SERVERS", "SOCKETS", "ACTIVE_SOCKETS",
             "STATS_TOTALS", "STATS_AVERAGES", "LISTS", "CONFIG", "PEERS", "PEER_POOLS")
    told = {}
    for row in console.query("SHOW COLUMNS").rows:
        told.setdefault(row[0], []).append(row[1])
    for item, count in itertools.zip_longest(items, counts):
        wanted = columns_then(version, item)
        assert count in (None, len(wanted))
        for result in (console.query(f"SHOW {item}"), in_binary(console, f"SHOW {item}")):
            assert [(column.name, column.type) for column in result.columns] == wanted, item
            assert all(len(row) == len(wanted) for row in result.rows)
        assert told[item] == [name for name, _ in wanted]
    # Ours stay as they are.
    assert [(column.name, column.type) for column in console.query("SHOW WAITING").columns] == \
        columns_of("WAITING")
    totals = [row[0] for row in console.query("SHOW TOTALS").rows]
    assert len(totals) == {"1.23": 16, "1.26": 24}.get(version, 22) == len(set(totals))


def in_binary(console, text):
    console.send(parse(text), bind(result_formats=(1,)), describe("P"), execute(), sync())
    result = console.read_result()
    assert not result.errors and {column.format for column in result.columns} == {1}
    return result


def test_values_stay_in_their_columns(pgweir):
    """With columns left out in the middle, in both formats."""
    weir = pgweir(pool_mode="transaction", console_version="1.23", default_pool_size=9)
    weir.client().query("SELECT 1")
    console = weir.console()
    text, binary = console.query("SHOW STATS"), in_binary(console, "SHOW STATS")
    (row,) = [row for row in text.dicts() if row["database"] == "app"]
    assert (row["total_xact_count"], row["total_query_count"]) == ("1", "1")
    (bits,) = [bits for bits in binary.dicts() if bits["database"] == "app"]
    one = "\0\1" + 7 * "\0" + "\1"
    assert (bits["total_xact_count"], bits["total_server_assignment_count"]) == (one, one)
    (pool,) = [pool for pool in console.query("SHOW DATABASES").dicts() if pool["name"] == "app"]
    assert (pool["pool_size"], pool["paused"], pool["disabled"]) == ("9", "0", "0")
    assert pool["current_connections"] == "1"


def test_help(weir):
    result = weir.ask_admin("SHOW HELP")
    (notice,) = result.notices
    assert (notice["S"], notice["C"], notice["M"]) == ("NOTICE", "00000", "Console usage")
    for word in ("SHOW", "SET", "RELOAD", "PAUSE", "RESUME", "DISABLE", "ENABLE", "RECONNECT",
                 "KILL", "KILL_CLIENT", "WAIT_CLOSE", "SHUTDOWN"):
        assert word in notice["D"]
    assert result.tags == ["SHOW"] and result.rows == []


def test_state(weir):
    def state():
        return {row["key"]: row["value"] for row in weir.admin("SHOW STATE")}
    assert state() == {"active": "yes", "paused": "no", "suspended": "no"}
    weir.admin("PAUSE")
    assert state() == {"active": "no", "paused": "yes", "suspended": "no"}
    weir.admin("RESUME")
    assert state()["active"] == "yes"


def test_pools(weir):
    client, waiting = weir.client(), weir.client()
    client.query("BEGIN")
    assert waiting.value("SELECT 1") == "1"
    row = weir.wait_pool(sv_idle=1)
    assert (row["cl_active"], row["cl_waiting"], row["sv_active"]) == (2, 0, 1)
    assert row["pool_mode"] == "transaction"
    assert row["load_balance_hosts"] is None
    console = by(weir.admin("SHOW POOLS"), "database", "pgbouncer")
    assert (console["user"], console["pool_mode"]) == ("pgbouncer", "statement")
    assert console["cl_active"] == 1


def test_clients(weir):
    active = weir.client(application_name="worker")
    active.query("BEGIN")
    weir.client("bob", "app2").query("SELECT 1")
    rows = weir.admin("SHOW CLIENTS")
    row = by(rows, "user", "alice")
    host, port = active.sock.getsockname()
    assert (row["type"], row["database"], row["state"], row["replication"]) == \
        ("C", "app", "active", "none")
    assert (row["addr"], row["port"]) == (host, port)
    assert (row["local_addr"], row["local_port"]) == ("127.0.0.1", weir.port)
    assert (row["application_name"], row["tls"], row["close_needed"]) == ("worker", "", 0)
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \S+", row["connect_time"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \S+", row["request_time"])
    assert row["link"] and row["ptr"] != row["link"]
    idle = by(rows, "user", "bob")
    assert (idle["state"], idle["link"]) == ("idle", "")
    assert len({row["id"] for row in rows}) == len(rows)
    server = by(weir.admin("SHOW SERVERS"), "user", "alice")
    assert (server["ptr"], server["link"]) == (row["link"], row["ptr"])


def test_clients_state_waiting(pgweir):
    weir = pgweir(pool_mode="transaction", default_pool_size=1)
    holder, waiter = weir.client(), weir.client("alice", application_name="waits")
    holder.query("BEGIN")
    waiter.send(query("SELECT 1"))
    weir.wait_pool(cl_waiting=1)
    assert by(weir.admin("SHOW CLIENTS"), "application_name", "waits")["state"] == "waiting"
    holder.query("COMMIT")


def test_clients_over_a_unix_socket(weir):
    weir.wire(unix=True).login()
    row = by(weir.admin("SHOW CLIENTS"), "user", "alice")
    assert row["addr"] == "unix"
    assert row["remote_pid"] > 0


def test_clients_that_log_in_are_not_listed(weir):
    weir.wire().send(b"\0\0")
    assert len(weir.admin("SHOW CLIENTS")) == 1


def test_servers(weir, postgres):
    client = weir.client()
    client.query("BEGIN")
    pid = int(client.value("SELECT pg_backend_pid()"))
    row = by(weir.admin("SHOW SERVERS"), "user", "alice")
    assert (row["type"], row["state"], row["remote_pid"]) == ("S", "active", pid)
    assert (row["addr"], row["port"]) == ("127.0.0.1", postgres.port)
    client.query("COMMIT")
    wait_until(lambda: by(weir.admin("SHOW SERVERS"), "user", "alice")["state"] == "idle")


def test_sockets(weir):
    weir.client().query("BEGIN")
    states = {row["state"] for row in weir.admin("SHOW SOCKETS")}
    assert {"cl_active", "sv_active"} <= states


def test_databases(pgweir, postgres):
    weir = pgweir(default_pool_size=7, min_pool_size=0, databases={
        "one": "dbname=app user=bob pool_size=3 pool_mode=statement max_db_connections=11"
               " max_db_client_connections=12 server_lifetime=77 reserve_pool=2",
        "two": "", "*": ""})
    rows = weir.admin("SHOW DATABASES")
    one, two, console = (by(rows, "name", name) for name in ("one", "two", "pgbouncer"))
    assert one == dict(one, host="127.0.0.1", port=postgres.port, database="app", force_user="bob",
                       pool_size=3, reserve_pool_size=2, server_lifetime=77, pool_mode="statement",
                       max_connections=11, max_client_connections=12, paused=0, disabled=0)
    assert two == dict(two, database="two", force_user=None, pool_size=7, pool_mode=None,
                       server_lifetime=3600, max_connections=0, current_connections=0)
    assert console == dict(console, host=None, port=weir.port, pool_size=2, pool_mode="statement",
                           database="pgbouncer", force_user="pgbouncer")


def test_databases_count_connections(weir):
    for _ in range(3):
        weir.client()
    weir.client().query("BEGIN")
    row = by(weir.admin("SHOW DATABASES"), "name", "app")
    assert row["current_client_connections"] == 4
    assert row["current_connections"] >= 1


def test_users(pgweir):
    weir = pgweir(users={"alice": "pool_size=3 pool_mode=transaction max_user_connections=5"
                                  " max_user_client_connections=6"})
    weir.client().query("BEGIN")
    rows = weir.admin("SHOW USERS")
    alice, bob = by(rows, "name", "alice"), by(rows, "name", "bob")
    assert alice["pool_size"].strip() == "3"
    assert alice == dict(alice, pool_mode="transaction", max_user_connections=5,
                         current_connections=1, max_user_client_connections=6,
                         current_client_connections=1)
    assert (bob["pool_size"], bob["reserve_pool_size"], bob["pool_mode"]) == ("", "", None)
    assert bob["current_connections"] == 0


def test_lists(weir):
    weir.client().query("SELECT 1")
    rows = weir.admin("SHOW LISTS")
    assert [row["list"] for row in rows] == [
        "databases", "users", "peers", "pools", "peer_pools", "free_clients", "used_clients",
        "login_clients", "free_servers", "used_servers", "dns_names", "dns_zones", "dns_queries",
        "dns_pending"]
    items = {row["list"]: row["items"] for row in rows}
    assert items["databases"] == 4  # the console is one
    assert items["used_clients"] == 2
    assert items["used_servers"] == 1
    assert items["pools"] == 2


def test_config(weir):
    rows = weir.admin("SHOW CONFIG")
    keys = [row["key"] for row in rows]
    assert [key for key in keys if not key.startswith("pool_")] == \
        sorted(key for key in keys if not key.startswith("pool_"))
    config = {row["key"]: row for row in rows}
    expected = {
        "default_pool_size": ("7", "20", "yes"),
        "pool_mode": ("transaction", "session", "yes"),
        "listen_port": (str(weir.port), "6432", "no"),
        "server_lifetime": ("3600", "3600", "yes"),
        "max_client_conn": ("500", "100", "yes"),
        "server_reset_query": ("DISCARD ALL", "DISCARD ALL", "yes"),
        "unix_socket_mode": ("511", "0777", "no"),
        "auth_type": ("trust", "md5", "yes"),
        "server_idle_timeout": ("600", "600", "yes"),
        "tcp_keepalive": ("1", "1", "yes"),
    }
    for key, (value, default, changeable) in expected.items():
        row = config[key]
        assert (key, row["value"], row["default"], row["changeable"]) == \
            (key, value, default, changeable)


def test_mem(weir):
    weir.client()
    rows = {row["name"]: row for row in weir.admin("SHOW MEM")}
    for name in ("user_cache", "credentials_cache", "db_cache", "peer_cache", "peer_pool_cache",
                 "pool_cache", "outstanding_request_cache", "server_cache", "client_cache",
                 "iobuf_cache", "var_list_cache", "server_prepared_statement_cache"):
        assert name in rows
    assert rows["client_cache"]["used"] == 2


def test_mem_of_long_keys(weir):
    """Only connected clients with protocol 3.2 have a long key."""
    def used():
        return {row["name"]: row["used"] for row in weir.admin("SHOW MEM")}["long_key_cache"]

    weir.client()
    assert used() == 0
    client = weir.client(version=PROTOCOL_3_2)
    assert used() == 1
    client.close()
    wait_until(lambda: used() == 0)


def test_dns_hosts(pgweir, postgres):
    weir = pgweir(databases={"app": f"host=localhost port={postgres.port}"})
    weir.client().query("SELECT 1")
    rows = weir.admin("SHOW DNS_HOSTS")
    assert [row["hostname"] for row in rows] == ["localhost"]
    assert rows[0]["ttl"] > 0
    assert "127.0.0.1:0" in rows[0]["addrs"] or "::1" in rows[0]["addrs"]


# -- counters -------------------------------------------------------------------------------------


def totals(weir, database="app"):
    return by(weir.admin("SHOW STATS_TOTALS"), "database", database)


def settled(weir, database="app", **expected):
    """Counters change after the response was forwarded, which the client may notice earlier."""
    wait_until(lambda: all(totals(weir, database)[key] == n for key, n in expected.items()),
               what=f"{expected}, last {totals(weir, database)}")


def test_counts_of_queries_and_transactions(weir):
    client = weir.client()
    for _ in range(3):
        client.query("SELECT 1")
    settled(weir, query_count=3, xact_count=3, server_assignment_count=3)
    client.query("BEGIN")
    client.query("SELECT 1")
    client.query("COMMIT")
    settled(weir, query_count=6, xact_count=4, server_assignment_count=4)


def test_a_pipeline_counts_as_one_query(weir):
    from .kit.wire import extended
    client = weir.client()
    client.send(extended("SELECT 1") * 5)
    for _ in range(5):
        client.read_result()
    row = totals(weir)
    assert 1 <= row["query_count"] <= 5
    assert row["xact_count"] == row["query_count"]


def test_counts_of_logins(weir):
    for _ in range(4):
        weir.client().close()
    settled(weir, client_login_count=4)


def test_counts_of_bytes(weir):
    client = weir.client()
    client.query("SELECT 1")
    before = totals(weir)
    asked = query("SELECT '" + "x" * 1000 + "'")
    client.send(asked)
    answer = client.read_result()
    size = sum(5 + len(got.body) for got in answer.messages)
    settled(weir, bytes_received=before["bytes_received"] + len(asked),
            bytes_sent=before["bytes_sent"] + size)


def test_times(weir):
    client = weir.client()
    client.query("SELECT pg_sleep(0.3)")
    settled(weir, query_count=1)
    row = totals(weir)
    assert 300000 <= row["query_time"] and 300000 <= row["xact_time"]
    assert row["query_time"] <= row["xact_time"] + 1000


def test_wait_time(pgweir):
    weir = pgweir(pool_mode="transaction", default_pool_size=1)
    holder, waiter = weir.client(), weir.client()
    before = totals(weir)["wait_time"]
    holder.send(query("SELECT pg_sleep(0.3)"))
    weir.wait_pool(sv_active=1)
    waiter.send(query("SELECT 1"))
    waiter.read_result()
    wait_until(lambda: totals(weir)["wait_time"] > before)


def test_totals_rows(weir):
    names = [row["name"] for row in weir.admin("SHOW TOTALS")]
    kinds = """server_assignment_count xact_count query_count client_bytes server_bytes xact_time
query_time wait_time ps_client_parse_count ps_server_parse_count ps_bind_count
client_login_count""".split()
    assert names == [f"total_{kind}" for kind in kinds] + [f"avg_{kind}" for kind in kinds]


def test_totals_are_the_sum(weir):
    weir.client().query("SELECT 1")
    weir.client(database="app2").query("SELECT 1")
    settled(weir, query_count=1)
    settled(weir, "app2", query_count=1)
    rows = {row["name"]: row["value"] for row in weir.admin("SHOW TOTALS")}
    assert rows["total_xact_count"] >= 2


def test_averages(pgweir):
    weir = pgweir(pool_mode="transaction", stats_period=1)
    client = weir.client()

    def average():
        for _ in range(50):
            client.query("SELECT 1")
        return by(weir.admin("SHOW STATS_AVERAGES"), "database", "app")["query_count"]

    wait_until(lambda: average() > 0)
    weir.wait_log(r"LOG stats: \d+ xacts/s, \d+ queries/s, \d+ client parses/s, \d+ server parses/s,"
                  r" \d+ binds/s, \d+ client logins/s, in \d+ B/s, out \d+ B/s,"
                  r" xact \d+ us, query \d+ us, wait \d+ us")


def test_stats_hold_totals_and_averages(weir):
    weir.client().query("SELECT 1")
    settled(weir, query_count=1)
    row = by(weir.admin("SHOW STATS"), "database", "app")
    assert row["total_query_count"] == 1
    assert [entry["database"] for entry in weir.admin("SHOW STATS")].count("pgbouncer") == 1


# -- size -----------------------------------------------------------------------------------------


@pytest.mark.limit(180)
def test_a_slow_reader_of_a_long_table_costs_no_memory(pgweir):
    databases = {f"database_{number}": f"host=127.0.0.1 port=1 dbname={'x' * 60}"
                 for number in range(10000)}
    weir = pgweir(databases=databases)
    console = weir.console()
    before = weir.rss()
    for _ in range(10):  # 20 MB
        console.send(query("SHOW DATABASES"))
    for _ in range(3):
        weir.admin("SHOW STATE")
    assert weir.rss() - before < 4 * 1024 * 1024
    for _ in range(10):
        assert len(console.read_result().rows) == 10001
