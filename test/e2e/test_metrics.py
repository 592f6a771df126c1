# SPDX-License-Identifier: ISC
"""/metrics: the exporter's names with the console's values, our own, and both formats."""

import re
import socket

import pytest

from .kit import prometheus
from .kit.account import free_port
from .kit.wait import wait_until
from .kit.web import Web
from .kit.wire import Refused, query

# What prometheus-community/pgbouncer_exporter has, with its labels.
POOL = ("database", "user")
DATABASE = ("name", "host", "port", "database", "force_user", "pool_mode")
EXPORTER = {
    "pgbouncer_up": (), "pgbouncer_version_info": ("version",),
    "pgbouncer_client_connections": ("database", "user", "application_name", "state"),
    "pgbouncer_config_max_client_connections": (), "pgbouncer_config_max_user_connections": (),
} | {f"pgbouncer_pools_{name}": POOL for name in prometheus.POOLS.values()} | {
    f"pgbouncer_databases_{name}": DATABASE
    for name in ("pool_size", "reserve_pool", "max_connections", "current_connections", "paused",
                 "disabled")
} | {f"pgbouncer_{name}": () for name in (
    "databases", "users", "pools", "free_clients", "used_clients", "login_clients", "free_servers",
    "used_servers", "cached_dns_names", "cached_dns_zones", "in_flight_dns_queries")
} | {f"pgbouncer_stats_totals_{name}_total": ("database",) for name in (
    "queries_pooled", "sql_transactions_pooled", "server_assignments", "queries_duration_seconds",
    "server_in_transaction_seconds", "client_wait_seconds", "received_bytes", "sent_bytes",
    "client_parses", "server_parses", "binds")}

TOTALS = {
    "queries_pooled_total": ("query_count", 1), "sql_transactions_pooled_total": ("xact_count", 1),
    "server_assignments_total": ("server_assignment_count", 1),
    "queries_duration_seconds_total": ("query_time", 1e6),
    "server_in_transaction_seconds_total": ("xact_time", 1e6),
    "client_wait_seconds_total": ("wait_time", 1e6), "received_bytes_total": ("bytes_received", 1),
    "sent_bytes_total": ("bytes_sent", 1), "client_parses_total": ("client_parse_count", 1),
    "server_parses_total": ("server_parse_count", 1), "binds_total": ("bind_count", 1),
}

OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


@pytest.fixture
def serve(pgweir):
    def start(**settings):
        port = free_port()
        weir = pgweir(**{"metrics_listen": f"127.0.0.1:{port}", "pool_mode": "transaction"} | settings)
        weir.web_port = port
        return weir

    return start


def scrape(weir, path="/metrics"):
    answer = Web(weir.web_port).ask(path)
    assert answer.status == 200
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    return prometheus.parse(answer.text)


def only(metrics, name, /, **labels):
    found = [value for of, value in metrics[name].items() if labels.items() <= dict(of).items()]
    assert len(found) == 1, (name, labels, metrics[name])
    return found[0]


def test_the_exporters_names(serve):
    weir = serve()
    assert weir.client().value("SELECT 1") == "1"
    metrics, types = scrape(weir)
    for name, labels in EXPORTER.items():
        assert {tuple(key for key, _ in of) for of in metrics[name]} == {labels}, name
        assert types[name] == ("counter" if name.endswith("_total") else "gauge"), name
    assert metrics["pgbouncer_up"] == {(): 1}


def test_the_values_are_those_of_the_console(serve):
    weir = serve(default_pool_size=1)
    one, two = weir.client(), weir.client()
    one.query("BEGIN")
    two.send(query("SELECT 1"))
    weir.wait_pool(cl_waiting=1)
    assert weir.client(database="app2").value("SELECT 1") == "1"
    console = weir.admin  # connects now: the console counts itself
    console("SHOW VERSION")

    def are_equal():
        expected = prometheus.scrape(console)
        metrics, _ = scrape(weir)
        for name, values in expected.items():
            assert set(metrics[name]) == set(values), name
        return all(metrics[name][of] == value for name, values in expected.items()
                   for of, value in values.items())

    # A second of maxwait may end between the two.
    wait_until(are_equal, what="equal values")
    one.query("COMMIT")
    two.read_until("Z")
    metrics, _ = scrape(weir)
    for row in console("SHOW STATS_TOTALS"):
        if row["database"] == "pgbouncer":
            continue
        for name, (column, unit) in TOTALS.items():
            for prefix in ("pgbouncer_stats_totals_", "pgbouncer_stats_"):
                found = only(metrics, prefix + name, database=row["database"])
                assert found == pytest.approx(float(row[column]) / unit), name


def test_our_own(serve):
    weir = serve(default_pool_size=1, max_client_conn=50)
    one, two = weir.client(), weir.client(application_name="shop \"1\" \\")
    one.query("BEGIN")
    two.send(query("SELECT 1"))
    weir.wait_pool(cl_waiting=1)
    metrics, _ = scrape(weir)
    assert metrics["pgweir_ready"] == {(): 1}
    assert only(metrics, "pgweir_limit", limit="max_client_conn") == 50
    assert only(metrics, "pgweir_limit_used", limit="max_client_conn") == 2
    assert only(metrics, "pgweir_waiting_clients", database="app", user="alice") == 1
    assert only(metrics, "pgbouncer_client_connections", application_name='shop "1" \\') == 1
    assert sum(metrics["pgweir_loop_clients"].values()) == 3  # and the console
    assert only(metrics, "process_open_fds") == pytest.approx(weir.open_files(), abs=2)
    assert only(metrics, "process_resident_memory_bytes") > 1e6
    weir.admin("PAUSE app2")
    assert only(scrape(weir)[0], "pgbouncer_databases_paused", name="app2") == 1
    one.close()
    weir.wait_log("closing because: client unexpected eof")
    closes = scrape(weir)[0]["pgweir_closes_total"]
    assert sum(value for of, value in closes.items() if dict(of)["type"] == "C") >= 1


def test_histograms(serve):
    weir = serve()
    client = weir.client()
    for _ in range(10):
        assert client.value("SELECT 1") == "1"
    assert client.value("SELECT 1 FROM pg_sleep(0.3)") == "1"
    metrics, types = scrape(weir)
    for name, count in (("pgweir_query_seconds", 11), ("pgweir_transaction_seconds", 11),
                        ("pgweir_wait_seconds", 11), ("pgweir_database_query_seconds", 11)):
        assert types[name] == "histogram"
        buckets = [(dict(of)["le"], value) for of, value in metrics[f"{name}_bucket"].items()]
        bounds = [float(bound) for bound, _ in buckets]
        counts = [value for _, value in buckets]
        assert bounds == sorted(bounds) and bounds[-1] == float("inf")
        assert counts == sorted(counts) and counts[-1] >= count
        assert only(metrics, f"{name}_count") == counts[-1]
    below = {dict(of)["le"]: value for of, value in metrics["pgweir_query_seconds_bucket"].items()}
    assert below["0.25"] <= 10 and below["30.0"] == 11
    assert only(metrics, "pgweir_query_seconds_count") == 11
    assert only(metrics, "pgweir_query_seconds_sum") >= 0.3
    rows = {(row["database"], row["kind"]): row for row in weir.admin("SHOW HISTOGRAMS")}
    assert rows[None, "statement"]["count"] == 11
    assert rows["app", "statement"]["le_30s"] == 11
    assert {row["database"] for row in weir.admin("SHOW HISTOGRAMS app")} == {"app"}


def test_ten_thousand_databases(serve):
    """What was never used costs no bytes, and many databases have no histograms of their own."""
    weir = serve(databases={f"tenant_{number:05}": "dbname=app" for number in range(10000)},
                 server_lifetime=0)
    for number in range(100):
        with weir.client(database=f"tenant_{number:05}") as client:
            assert client.value("SELECT 1") == "1"
    answer = Web(weir.web_port).ask("/metrics")
    assert len(answer.body) < 1_000_000 and answer.body.count(b"\n") < 10_000
    metrics, types = prometheus.parse(answer.text)
    assert "pgweir_database_client_login_seconds" not in types
    assert only(metrics, "pgweir_client_login_seconds_count") == 100
    assert len(metrics["pgbouncer_databases_pool_size"]) == 101
    assert only(metrics, "pgbouncer_databases") == 10001
    weir.admin("PAUSE tenant_09999")
    assert only(scrape(weir)[0], "pgbouncer_databases_paused", name="tenant_09999") == 1
    assert len(weir.admin("SHOW DATABASES")) == 10001
    metrics, _ = scrape(weir, "/metrics/histograms?database=tenant_00042")
    assert only(metrics, "pgweir_database_query_seconds_count", database="tenant_00042") == 1


def test_histograms_of_pools(serve):
    weir = serve()
    assert weir.client().value("SELECT 1") == "1"
    assert weir.client(user="bob").value("SELECT 1") == "1"
    assert weir.client(database="app2").value("SELECT 1") == "1"
    metrics, types = scrape(weir, "/metrics/histograms")
    assert set(types) == {f"pgweir_{of}_{what}_seconds" for of in ("database", "pool")
                          for what in ("wait", "query", "transaction", "server_login", "client_login")}
    assert only(metrics, "pgweir_database_query_seconds_count", database="app") == 2
    assert only(metrics, "pgweir_pool_query_seconds_count", database="app", user="bob") == 1
    assert only(metrics, "pgweir_pool_query_seconds_bucket", database="app", user="bob", le="30.0") == 1
    (row,) = [row for row in weir.admin("SHOW POOL_HISTOGRAMS app")
              if (row["user"], row["kind"]) == ("bob", "statement")]
    assert (row["count"], row["le_30s"]) == (1, 1)
    of_one, _ = scrape(weir, "/metrics/histograms?database=app2")
    assert {dict(of)["database"] for values in of_one.values() for of in values} == {"app2"}
    one = Web(weir.web_port)
    assert one.ask("/metrics/histograms?database=nothing").status == 404
    assert one.ask("/metrics/histograms?database=%zz").status == 400
    assert one.ask("/metrics/histograms", "HEAD").status == 200
    assert "pgweir_pool_query_seconds" not in scrape(weir)[1]


def test_transactions(serve):
    weir = serve(default_pool_size=2)
    one, two = weir.client(), weir.client()
    one.query("BEGIN")
    two.query("BEGIN")
    two.send(query("SELECT pg_sleep(30)"))
    wait_until(lambda: {row["state"] for row in weir.admin("SHOW TRANSACTIONS")} ==
               {"running", "idle in transaction"}, what="both states")
    of = {"database": "app", "user": "alice", "state": "idle in transaction"}
    wait_until(lambda: only(scrape(weir)[0], "pgweir_transaction_max_age_seconds", **of) >= 1,
               what="a transaction of a second")
    metrics, _ = scrape(weir)
    assert only(metrics, "pgweir_transactions", **of) == 1
    assert only(metrics, "pgweir_transactions", state="running") == 1
    assert only(metrics, "pgweir_transaction_max_state_seconds", **of) >= 1
    one.query("COMMIT")
    assert tuple(of.items()) not in scrape(weir)[0]["pgweir_transactions"]


def test_what_the_queue_refuses_and_what_is_cancelled(serve):
    weir = serve(databases={"app": "", "app2": ""}, default_pool_size=1, max_waiting=1,
                 users={"bob": "query_timeout=200ms"})
    of = {"limit": "max_waiting", "database": "app", "user": "alice"}
    holder, waiter = weir.client(), weir.client()
    holder.query("BEGIN")
    waiter.send(query("SELECT 1"))
    wait_until(lambda: weir.admin("SHOW WAITING"), what="one that waits")
    for count in (1, 2, 3):
        assert weir.client().query("SELECT 1").error["C"] == "53300"
        metrics, types = scrape(weir)
        assert types["pgweir_limit_hits_total"] == "counter"
        assert only(metrics, "pgweir_limit_hits_total", **of) == count
        assert only(metrics, "pgweir_errors_total", sqlstate="53300", severity="ERROR") == count
    holder.query("COMMIT")
    assert waiter.read_result().tags == ["SELECT 1"]
    weir.reload(databases={"app": "", "app2": ""}, default_pool_size=1, max_waiting=0, queue_target="1ms",
                queue_interval="1ms", users={"bob": "query_timeout=200ms"}, pool_mode="transaction",
                metrics_listen=f"127.0.0.1:{weir.web_port}")
    holder.query("BEGIN")
    for client in (waiters := [weir.client() for _ in range(4)]):
        client.send(query("SELECT 1"))
    for client in waiters[1:]:
        assert client.read_result().error["C"] == "53300"
    of["limit"] = "queue_target"
    assert only(scrape(weir)[0], "pgweir_limit_hits_total", **of) == 3
    slow = weir.client("bob", "app2")
    slow.send(query("SELECT pg_sleep(60)"))
    assert slow.read_refusal().sqlstate == "57014"
    metrics, _ = scrape(weir)
    assert only(metrics, "pgweir_errors_total", **{"class": "57", "sqlstate": "57014", "side": "pgweir"}) == 1
    assert only(metrics, "pgweir_closes_total", type="C", reason="query timeout", database="app2") == 1


def test_errors_and_closes_by_database(serve):
    weir = serve()
    client = weir.client()
    client.query("SELECT 1/0")
    client.close()
    with pytest.raises(Refused):
        weir.client(database="nothing")
    with weir.client(database="app2"):
        pass
    wait_until(lambda: len(weir.admin("SHOW CLIENTS")) == 1, what="closed connections")
    metrics, types = scrape(weir)
    assert types["pgweir_errors_total"] == "counter"
    assert only(metrics, "pgweir_errors_total", sqlstate="22012") == 1
    assert only(metrics, "pgweir_errors_total", **{"class": "22", "side": "server", "severity": "ERROR"}) == 1
    assert only(metrics, "pgweir_errors_total", **{"class": "3D", "side": "pgweir"}) == 1
    clients = {}
    for of, value in metrics["pgweir_closes_total"].items():
        of = dict(of)
        if of["type"] == "C":
            clients[of["database"], of["is_error"]] = clients.get((of["database"], of["is_error"]), 0) + value
    assert sum(value for (database, _), value in clients.items() if database == "app") == 1
    assert sum(value for (database, _), value in clients.items() if database == "app2") == 1
    assert clients["", "yes"] == 1  # no such database: no label that a stranger chooses
    assert not [database for database, _ in clients if database == "nothing"]
    by_reason = {(row["type"], row["reason"]): row["count"] for row in weir.admin("SHOW ERRORS")}
    summed = {}
    for row in weir.admin("SHOW CLOSES"):
        key = row["type"], row["reason"]
        summed[key] = summed.get(key, 0) + row["count"]
    assert summed == by_reason


def test_certificates(serve, ca):
    leaf = ca.issue("expiring", "pooler.example")
    weir = serve(client_tls_sslmode="allow", client_tls_cert_file=leaf.cert, client_tls_key_file=leaf.key)
    left = only(scrape(weir)[0], "pgweir_certificate_expiry_seconds", setting="client_tls_cert_file",
                file=leaf.cert)
    (row,) = weir.admin("SHOW CERTIFICATES")
    assert row["file"] == leaf.cert and row["seconds_left"] == pytest.approx(left, abs=60)
    assert left > 3600
    weir.reload(client_tls_sslmode="disable")
    assert not scrape(weir)[0].get("pgweir_certificate_expiry_seconds")
    weir = serve(metrics_tls=1, client_tls_cert_file=leaf.cert, client_tls_key_file=leaf.key)
    assert [row["setting"] for row in weir.admin("SHOW CERTIFICATES")] == ["client_tls_cert_file"]


def test_the_certificate_in_use_counts(serve, ca):
    """A file that was replaced, but not read, does not count."""
    leaf, other = ca.issue("first", "pooler.example"), ca.issue("second", "pooler.example", days=(-1, 3))
    weir = serve(client_tls_sslmode="allow", client_tls_cert_file=leaf.cert, client_tls_key_file=leaf.key)
    before = weir.admin("SHOW CERTIFICATES")[0]["seconds_left"]
    for of, to in ((other.cert, leaf.cert), (other.key, leaf.key)):
        with open(of, "rb") as source, open(to, "wb") as target:
            target.write(source.read())
    assert weir.admin("SHOW CERTIFICATES")[0]["seconds_left"] == pytest.approx(before, abs=60)
    weir.admin("RELOAD")
    assert weir.admin("SHOW CERTIFICATES")[0]["seconds_left"] <= 3 * 86400


def test_openmetrics(serve):
    weir = serve()
    assert weir.client().value("SELECT 1") == "1"
    one = Web(weir.web_port)
    answer = one.ask("/metrics", Accept="application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.2")
    assert answer.headers["content-type"] == OPENMETRICS
    metrics, types = prometheus.parse(answer.text, is_openmetrics=True)
    assert types["pgbouncer_stats_totals_queries_pooled"] == "counter"
    assert only(metrics, "pgbouncer_stats_totals_queries_pooled_total", database="app") == 1
    plain, _ = scrape(weir)
    assert set(metrics) == set(plain)
    head = one.ask("/metrics", "HEAD", Accept="application/openmetrics-text")
    assert (head.status, head.body, head.headers["content-type"]) == (200, b"", OPENMETRICS)


def test_http_1_0(serve):
    weir = serve()
    with socket.create_connection(("127.0.0.1", weir.web_port), timeout=30) as sock:
        sock.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        answer = b""
        while part := sock.recv(65536):
            answer += part
    assert b"chunked" not in answer
    prometheus.parse(answer.partition(b"\r\n\r\n")[2].decode())


def test_while_the_daemon_shuts_down(serve):
    weir = serve()
    client = weir.client()
    client.query("BEGIN")
    weir.signal(15)
    wait_until(lambda: scrape(weir)[0]["pgweir_ready"] == {(): 0}, what="the end of readiness")
    client.close()
    assert weir.wait_exit() == 0


def test_several_loops(serve):
    weir = serve(loops=3, default_pool_size=5)
    clients = [weir.client() for _ in range(9)]
    for client in clients:
        assert client.value("SELECT 1") == "1"
    metrics, _ = scrape(weir)
    assert only(metrics, "pgbouncer_stats_totals_queries_pooled_total", database="app") == 9
    assert only(metrics, "pgbouncer_pools_client_active_connections", database="app") == 9
    assert only(metrics, "pgweir_query_seconds_count") == 9
    assert len(metrics["pgweir_loop_cpu_seconds_total"]) == 3


def test_many_scrapes_at_one_time(serve):
    """More than a few are refused: each keeps the rows of a SHOW."""
    weir = serve(databases={f"d{number:04}": "host=127.0.0.1" for number in range(990)})
    readers = []
    for _ in range(5):
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.settimeout(30)
        sock.connect(("127.0.0.1", weir.web_port))
        sock.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        readers.append((sock, sock.recv(12)))
    assert [status for _, status in readers] == [b"HTTP/1.1 200"] * 4 + [b"HTTP/1.1 503"]
    for sock, _ in readers:
        sock.close()
    wait_until(lambda: Web(weir.web_port).ask("/metrics").status == 200, what="a free place")
