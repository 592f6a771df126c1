# SPDX-License-Identifier: ISC
"""Real clients, in all three modes."""

import subprocess

import psycopg
import pytest

from .kit.wire import Wire, extended

MODES = ("session", "transaction", "statement")

modes = pytest.mark.parametrize("mode", MODES)


@modes
def test_simple_and_extended_queries(pgweir, mode):
    weir = pgweir(pool_mode=mode)
    connection = weir.connect()
    assert connection.execute("SELECT 1").fetchone() == (1,)
    assert connection.execute("SELECT %s::int + 1", [41]).fetchone() == (42,)
    assert connection.execute("SELECT %b::int + 1", [41]).fetchone() == (42,)
    assert connection.execute("SELECT current_database(), current_user").fetchone() == ("app", "alice")


@modes
def test_errors_reach_the_client_and_it_goes_on(pgweir, mode):
    connection = pgweir(pool_mode=mode).connect()
    for arguments in (None, [1]):
        with pytest.raises(psycopg.errors.DivisionByZero, match="division by zero"):
            connection.execute("SELECT 1 / 0" if arguments is None else "SELECT %s / 0", arguments)
        assert connection.execute("SELECT 2").fetchone() == (2,)


@modes
def test_several_results_of_one_simple_query(pgweir, mode):
    client = pgweir(pool_mode=mode).client()
    result = client.query("SELECT 1; SELECT 2; SELECT 3")
    assert result.rows == [["1"], ["2"], ["3"]]
    assert result.tags == ["SELECT 1"] * 3
    assert client.query("").types == "IZ"


@modes
def test_a_transaction_in_one_simple_query(pgweir, mode):
    client = pgweir(pool_mode=mode).client()
    result = client.query("BEGIN; SELECT 1; COMMIT")
    assert result.tags == ["BEGIN", "SELECT 1", "COMMIT"]
    assert result.status == "I"


@modes
def test_large_results_and_large_queries(pgweir, mode):
    connection = pgweir(pool_mode=mode).connect()
    rows = connection.execute("SELECT g FROM generate_series(1, 100000) g").fetchall()
    assert [row[0] for row in rows] == list(range(1, 100001))
    wide = connection.execute("SELECT repeat('x', 20000000)").fetchone()[0]
    assert wide == "x" * 20000000
    text = "y" * 5000000
    assert connection.execute("SELECT %s", [text]).fetchone()[0] == text


@pytest.mark.parametrize("end", "\r\n")
def test_names_that_postgresql_19_refuses(pgweir, postgres, end):
    """Each version's error, of PostgreSQL 15 about rights, comes as without a pooler."""
    texts = [f'CREATE ROLE "x{end}y"', f'CREATE DATABASE "x{end}y"', f'ALTER ROLE alice RENAME TO "x{end}y"',
             f"CREATE TABLESPACE \"x{end}y\" LOCATION '/'", f'ALTER DATABASE app RENAME TO "x{end}y"']
    texts += ["DO $$ BEGIN EXECUTE '" + text.replace("'", "''") + "'; END $$" for text in texts]
    with Wire((postgres.host, postgres.port)).login() as direct:
        pooled = pgweir(pool_mode="transaction").client()
        for text in texts:
            want = direct.query(text)
            assert want.error and pooled.query(text).messages == want.messages
        major = int(direct.value("SHOW server_version_num")) // 10000
        assert major < 19 or "newline or carriage return" in direct.query(texts[0]).error["M"]


@modes
def test_notices_pass(pgweir, mode):
    connection = pgweir(pool_mode=mode).connect()
    said = []
    connection.add_notice_handler(lambda diagnostic: said.append(diagnostic.message_primary))
    connection.execute("DO $$ BEGIN RAISE NOTICE 'mind the weir'; END $$")
    assert said == ["mind the weir"]


@pytest.mark.parametrize("mode", ("session", "transaction"))
def test_a_transaction_stays_on_one_server(pgweir, mode):
    weir = pgweir(pool_mode=mode, default_pool_size=5)
    first, second = weir.connect(autocommit=False), weir.connect(autocommit=False)
    pids = [c.execute("SELECT pg_backend_pid()").fetchone()[0] for c in (first, second)]
    assert pids[0] != pids[1]
    for _ in range(5):
        again = [c.execute("SELECT pg_backend_pid()").fetchone()[0] for c in (first, second)]
        assert again == pids


def test_session_mode_keeps_the_session(pgweir):
    weir = pgweir(pool_mode="session", default_pool_size=2)
    connection = weir.connect()
    connection.execute("CREATE TEMP TABLE kept (n int)")
    connection.execute("INSERT INTO kept VALUES (1)")
    connection.execute("PREPARE named AS SELECT n FROM kept")
    weir.connect().execute("SELECT 1")
    assert connection.execute("EXECUTE named").fetchone() == (1,)


def test_session_mode_resets_the_session_for_the_next_client(pgweir):
    weir = pgweir(pool_mode="session", default_pool_size=1)
    with weir.connect() as first:
        first.execute("CREATE TEMP TABLE gone (n int)")
        first.execute("SET work_mem = '77MB'")
        pid = first.execute("SELECT pg_backend_pid()").fetchone()[0]
    second = weir.connect()
    assert second.execute("SELECT pg_backend_pid()").fetchone()[0] == pid
    assert second.execute("SELECT to_regclass('gone')").fetchone() == (None,)
    assert second.execute("SHOW work_mem").fetchone() != ("77MB",)


def test_session_mode_runs_named_statements(pgweir):
    connection = pgweir(pool_mode="session").connect(prepare_threshold=0)
    for number in range(10):
        assert connection.execute("SELECT %s::int", [number]).fetchone() == (number,)
    names = connection.execute("SELECT count(*) FROM pg_prepared_statements").fetchone()
    assert names[0] >= 1


def test_session_mode_delivers_notifications(pgweir):
    weir = pgweir(pool_mode="session")
    listener, speaker = weir.client(), weir.client()
    assert listener.query("LISTEN weir").tags == ["LISTEN"]
    assert speaker.query("NOTIFY weir, 'high water'").tags == ["NOTIFY"]
    assert listener.expect("A").body[4:] == b"weir\0high water\0"


def test_transaction_mode_shares_one_server(pgweir):
    weir = pgweir(pool_mode="transaction", default_pool_size=1)
    clients = [weir.connect() for _ in range(10)]
    pids = {c.execute("SELECT pg_backend_pid()").fetchone()[0] for c in clients * 3}
    assert len(pids) == 1


@pytest.mark.parametrize("begin", ("simple", "extended"))
def test_statement_mode_refuses_transactions(pgweir, postgres, begin):
    weir = pgweir(pool_mode="statement")
    client = weir.client()
    client.send(extended("BEGIN")) if begin == "extended" else client.send(b"Q\0\0\0\x0aBEGIN\0")
    refused = client.read_refusal()
    assert refused.severity == "FATAL"
    assert refused.text == "transaction blocks not allowed in statement pooling mode"
    assert weir.connect().execute("SELECT 1").fetchone() == (1,)


def psql(weir, *args, **kw):
    command = ["psql", "-X", "-h", "127.0.0.1", "-p", str(weir.port), "-U", "alice", "-d", "app",
               *args]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, **kw)


@modes
def test_psql(pgweir, mode):
    weir = pgweir(pool_mode=mode)
    done = psql(weir, "-Atc", "SELECT 6 * 7")
    assert (done.returncode, done.stdout) == (0, "42\n"), done.stderr
    script = "SELECT 1;\nSELECT 1/0;\nSELECT 2 \\gdesc\n\\d\n\\copy (SELECT 3) TO STDOUT\nSELECT 4;\n"
    done = psql(weir, "-At", input=script)
    assert done.returncode == 0
    assert "division by zero" in done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "1" and lines[-2:] == ["3", "4"]


@pytest.fixture(scope="module")
def bench_tables(postgres):
    made = pgbench(postgres.port, "-i", "-s", "1", "-q", user="postgres", database="app3")
    assert made.returncode == 0, made.stderr
    postgres.query("GRANT ALL ON ALL TABLES IN SCHEMA public TO PUBLIC", dbname="app3")


def pgbench(port, *args, user="alice", database="app3"):
    command = ["pgbench", "-h", "127.0.0.1", "-p", str(port), "-U", user, *args, database]
    return subprocess.run(command, capture_output=True, text=True, timeout=80)


BENCHES = [
    (mode, protocol, args)
    for mode in MODES
    for protocol in ("simple", "extended", "prepared")
    for args in (("-c", "100", "-t", "5", "-S"), ("-C", "-c", "8", "-t", "5", "-S"),
                 ("-c", "20", "-t", "5"))
    if (mode, protocol) in (("session", "prepared"),) or protocol != "prepared"
    if mode != "statement" or "-S" in args  # TPC-B works in transactions
    if mode != "session" or "100" not in args or protocol == "simple"
]


@pytest.mark.parametrize("mode, protocol, args", BENCHES,
                         ids=[f"{m}-{p}-{'_'.join(a)}" for m, p, a in BENCHES])
def test_pgbench(pgweir, bench_tables, mode, protocol, args):
    # In session mode a client keeps its server, so there must be one per client.
    weir = pgweir(pool_mode=mode, default_pool_size=100 if mode == "session" else 10)
    done = pgbench(weir.port, "-n", "-M", protocol, *args)
    assert done.returncode == 0, done.stderr
    clients, each = int(args[args.index("-c") + 1]), int(args[args.index("-t") + 1])
    assert f"transactions actually processed: {clients * each}/{clients * each}" in done.stdout
    assert "ERROR" not in done.stderr and "error" not in done.stderr


def test_pgbench_fills_its_tables_through_the_pooler(pgweir):
    weir = pgweir(pool_mode="session")
    done = pgbench(weir.port, "-i", "-s", "2", "-q", database="app2")
    assert done.returncode == 0, done.stderr
    connection = weir.connect("app2")
    assert connection.execute("SELECT count(*) FROM pgbench_accounts").fetchone() == (200000,)
    connection.execute("DROP TABLE pgbench_accounts, pgbench_branches, pgbench_tellers,"
                       " pgbench_history")


# -- where clients come from and where servers are ------------------------------------------------


def test_unix_socket(pgweir):
    weir = pgweir()
    assert weir.connect(host=weir.dir).execute("SELECT 1").fetchone() == (1,)


def test_abstract_unix_socket(pgweir):
    name = "@pgweir-test-abstract"
    weir = pgweir(unix_socket_dir=name)
    assert weir.connect(host=name).execute("SELECT 1").fetchone() == (1,)


def test_ipv6_and_several_addresses(pgweir):
    weir = pgweir(listen_addr="127.0.0.1, ::1 ,127.0.0.2")
    for host in ("127.0.0.1", "::1", "127.0.0.2"):
        assert weir.connect(host=host).execute("SELECT 1").fetchone() == (1,)


def test_all_addresses(pgweir):
    weir = pgweir(listen_addr="*")
    for host in ("127.0.0.1", "::1"):
        assert weir.connect(host=host).execute("SELECT 1").fetchone() == (1,)


def test_one_bad_address_only_warns(pgweir):
    weir = pgweir(listen_addr="127.0.0.1,192.0.2.1")
    assert weir.connect().execute("SELECT 1").fetchone() == (1,)
    weir.wait_log(r"192\.0\.2\.1")


@pytest.mark.parametrize("where", ("ip", "name", "unix", "default"))
def test_where_the_server_is(pgweir, postgres, where):
    host = {"ip": "host=127.0.0.1", "name": "host=localhost", "unix": f"host={postgres.socket_dir}",
            "default": ""}[where]
    if where == "default":
        # No host: a Unix socket in our own unix_socket_dir.
        weir = pgweir(postgres=None, unix_socket_dir=postgres.socket_dir,
                      databases={"app": f"port={postgres.port}"})
    else:
        weir = pgweir(databases={"app": f"{host} port={postgres.port}"})
    connection = weir.connect()
    through = connection.execute("SELECT inet_server_addr() IS NULL").fetchone()[0]
    assert through == (where in ("unix", "default"))


def test_database_entries(pgweir):
    weir = pgweir(databases={"alias": "dbname=app2", "forced": "dbname=app user=bob",
                             "*": ""})
    whoami = "SELECT current_database(), current_user"
    assert weir.connect("alias").execute(whoami).fetchone() == ("app2", "alice")
    assert weir.connect("forced").execute(whoami).fetchone() == ("app", "bob")
    assert weir.connect("app2").execute(whoami).fetchone() == ("app2", "alice")
    weir.wait_log("registered new auto-database: app2")


@pytest.mark.parametrize("quoted", ("'my db'", '"my db"'))
def test_quoted_database_names(pgweir, quoted):
    weir = pgweir(databases={quoted: "dbname=app3"})
    assert weir.connect("my db").execute("SELECT current_database()").fetchone() == ("app3",)


def test_connect_query(pgweir):
    weir = pgweir(databases={"app": "connect_query='set work_mem = ''11MB'''"},
                  pool_mode="transaction")
    assert weir.connect().execute("SHOW work_mem").fetchone() == ("11MB",)


def test_a_failing_connect_query_is_no_harm(pgweir):
    weir = pgweir(databases={"app": "connect_query='select 1/0'"})
    assert weir.connect().execute("SELECT 1").fetchone() == (1,)


def test_what_a_database_entry_sets(pgweir):
    weir = pgweir(pool_mode="transaction", databases={
        "app": "client_encoding=LATIN1 datestyle='SQL, DMY' timezone=Asia/Tokyo"
               " application_name=from_entry"})
    client = weir.client()
    assert client.parameters["TimeZone"] == "Asia/Tokyo"
    assert client.parameters["DateStyle"] == "SQL, DMY"
    assert client.value("SHOW timezone") == "Asia/Tokyo"
    assert client.value("SHOW application_name") == "from_entry"
