# SPDX-License-Identifier: ISC
"""[listeners]: several addresses with rules of their own, in front of the same pools."""

import os
import re
import socket
import threading

import pytest

from .kit.account import free_port
from .kit.wait import wait_until
from .kit.wire import Refused, Wire, bind, execute, parse, query, refusal, sync
from .test_systemd import launched


def listeners(weir, **given):
    """Adds the section; a port for each is in weir.ports."""
    weir.ports = getattr(weir, "ports", {})
    entries = {}
    for name, keys in given.items():
        port = weir.ports.setdefault(name, free_port())
        addr = "" if "addr=" in keys or "unix_socket_dir=" in keys else "addr=127.0.0.1 "
        entries[name] = f"{addr}port={port} {keys}".strip()
    weir.sections["listeners"] = entries
    return weir


@pytest.fixture
def make(make_pgweir):
    def start(entries, **settings):
        weir = make_pgweir()
        listeners(weir, **entries)
        return weir.configure(**settings).start()

    return start


def at(weir, name):
    return ("127.0.0.1", weir.ports[name])


def client(weir, name, user="alice", database="app", **kw):
    wire = Wire(at(weir, name))
    weir.connections.append(wire)
    return wire.login(user, database, **kw)


def shown(weir):
    return {row["name"]: row for row in weir.admin("SHOW LISTENERS")}


def reload_fails(weir, pattern):
    since = len(weir.log)
    with pytest.raises(Refused, match="RELOAD failed"):
        weir.admin("RELOAD")
    weir.wait_log(pattern, since=since)


def is_open(port):
    try:
        Wire(("127.0.0.1", port)).close()
        return True
    except ConnectionRefusedError:
        return False


# -- two modes, one pool --------------------------------------------------------------------------


def test_each_has_its_mode_and_one_pool_serves_both(make):
    weir = make({"sessions": "pool_mode=session"}, pool_mode="transaction", default_pool_size=3)
    one, other = client(weir, "sessions"), weir.client()
    assert one.parameters["pgbouncer.pool_mode"] == "session"
    assert other.parameters["pgbouncer.pool_mode"] == "transaction"
    one.query("CREATE TEMP TABLE mine (x int)")
    held = one.value("SELECT pg_backend_pid()")
    assert other.value("SELECT pg_backend_pid()") != held
    one.query("INSERT INTO mine VALUES (1)")
    assert one.value("SELECT x FROM mine") == "1"
    weir.wait_pool(sv_active=1, sv_idle=1, cl_active=2)


def test_a_session_leaves_nothing_for_transactions(make):
    """Also if server_reset_query is empty, as is usual with transaction mode."""
    weir = make({"sessions": "pool_mode=session"}, pool_mode="transaction", default_pool_size=1,
                server_reset_query="")
    one = client(weir, "sessions")
    one.query("CREATE TEMP TABLE mine (x int); PREPARE p AS SELECT 1; SELECT pg_advisory_lock(7)")
    one.query("SET work_mem = '99MB'")
    pid = one.value("SELECT pg_backend_pid()")
    one.close()
    other = weir.client()
    assert other.value("SELECT pg_backend_pid()") == pid
    assert other.query("SELECT * FROM mine").error["C"] == "42P01"
    assert other.value("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'") == "0"
    assert other.value("SELECT count(*) FROM pg_prepared_statements") == "0"
    assert other.value("SHOW work_mem") != "99MB"


def test_a_session_gets_nothing_of_transactions(make):
    weir = make({"sessions": "pool_mode=session"}, pool_mode="transaction", default_pool_size=1)
    other = weir.client()
    other.query("CREATE SEQUENCE IF NOT EXISTS listeners_seq")
    other.query("SELECT nextval('listeners_seq')")
    other.query("SET work_mem = '99MB'")
    one = client(weir, "sessions")
    assert one.query("SELECT lastval()").error["C"] == "55000"
    assert one.value("SHOW work_mem") != "99MB"
    one.close()
    assert other.value("SHOW work_mem") == "99MB"


def test_prepared_statements_of_transactions_outlive_a_session(make):
    weir = make({"sessions": "pool_mode=session"}, pool_mode="transaction", default_pool_size=1)
    other = weir.client()
    other.ask(parse("SELECT 5 AS five", "mine"), sync())
    for end in ("DEALLOCATE ALL", "DISCARD ALL", "SELECT 1"):
        assert other.ask(bind(name="mine"), execute(), sync()).rows == [["5"]]
        one = client(weir, "sessions")
        one.ask(parse("SELECT 6", "mine"), sync())
        assert one.ask(bind(name="mine"), execute(), sync()).rows == [["6"]]
        one.query(end)
        one.close()
        assert other.ask(bind(name="mine"), execute(), sync()).rows == [["5"]]


def test_transactions_through_a_listener_of_a_pool_of_sessions(make):
    weir = make({"short": "pool_mode=transaction"}, pool_mode="session", default_pool_size=2)
    one = weir.client()
    one.query("CREATE TEMP TABLE mine (x int)")
    clients = [client(weir, "short") for _ in range(5)]
    assert {wire.parameters["pgbouncer.pool_mode"] for wire in clients} == {"transaction"}
    assert len({wire.value("SELECT pg_backend_pid()") for wire in clients}) == 1
    assert one.query("SELECT * FROM mine").errors == []
    pid = one.value("SELECT pg_backend_pid()")
    one.close()
    clients[0].send(query("BEGIN"), query("SELECT pg_sleep(0)"))
    clients[0].read_until("Z"), clients[0].read_until("Z")
    pids = {wire.value("SELECT pg_backend_pid()"): wire for wire in clients[:2]}
    assert pids[pid].query("SELECT * FROM mine").error["C"] == "42P01"


def test_session_state_follows_transactions_only(make):
    weir = make({"short": "pool_mode=transaction", "st": "pool_mode=statement"}, pool_mode="session")
    one = client(weir, "short")
    one.query("SET search_path = pg_catalog")
    client(weir, "short").query("SELECT 1")
    assert one.value("SHOW search_path") == "pg_catalog"
    refused = client(weir, "st")
    refused.send(query("BEGIN"))
    assert "transaction blocks not allowed in statement pooling mode" in str(refused.read_refusal())


def test_the_listener_counts_before_user_and_database(make_pgweir):
    weir = listeners(make_pgweir(), s="pool_mode=session", any="")
    weir.configure(databases={"app": "pool_mode=transaction"}, users={"bob": "pool_mode=statement"})
    weir.start()
    assert client(weir, "s").parameters["pgbouncer.pool_mode"] == "session"
    assert client(weir, "s", "bob").parameters["pgbouncer.pool_mode"] == "session"
    assert client(weir, "any").parameters["pgbouncer.pool_mode"] == "transaction"
    assert client(weir, "any", "bob").parameters["pgbouncer.pool_mode"] == "statement"


class Load(threading.Thread):
    """A client that works until it is told to stop; its faults are in `faults`."""

    def __init__(self, wire, number, is_session):
        super().__init__(daemon=True)
        self.wire, self.number, self.is_session = wire, number, is_session
        self.faults, self.count, self.is_over = [], 0, False
        self.start()

    def run(self):
        try:
            if self.is_session:
                self.wire.query(f"CREATE TEMP TABLE mine AS SELECT {self.number} AS x")
            while not self.is_over:
                self.work()
                self.count += 1
        except Exception as fault:  # pylint: disable=broad-except
            self.faults.append(repr(fault))

    def work(self):
        if self.is_session:
            got = self.wire.value("SELECT x FROM mine")
        else:
            self.wire.query("BEGIN")
            self.wire.query("CREATE TEMP TABLE other (x int) ON COMMIT DROP")
            self.wire.query(f"INSERT INTO other VALUES ({self.number})")
            got = self.wire.value("SELECT x FROM other")
            self.wire.query("COMMIT")
        if got != str(self.number):
            self.faults.append(got)

    def end(self):
        self.is_over = True
        self.join(30)
        assert not self.is_alive() and not self.faults, self.faults
        assert self.count


def count_servers(own):
    return own.execute("SELECT count(*) FROM pg_stat_activity WHERE usename = 'alice'").fetchone()[0]


def published(weir):
    """Sessions at one port, transactions at the other, the same databases and users."""
    return listeners(weir, sessions="pool_mode=session databases=app,app2")


@pytest.mark.parametrize("loops", (1, 3))
def test_sessions_and_transactions_under_load_have_one_limit(make_pgweir, private_postgres, loops):
    own_postgres = private_postgres()
    weir = published(make_pgweir(postgres=own_postgres))
    weir.configure(pool_mode="transaction", default_pool_size=4, loops=loops).start()
    work = [Load(client(weir, "sessions"), number, True) for number in range(2)]
    wait_until(lambda: all(load.count for load in work), what="the sessions have their servers")
    work += [Load(weir.client(), 100 + number, False) for number in range(12)]
    with own_postgres.connect() as own:
        most = max(count_servers(own) for _ in range(20))
        wait_until(lambda: all(load.count > 3 for load in work), what="all have worked")
        most = max(most, count_servers(own))
    for load in work:
        load.end()
    assert 3 <= most <= 4


def test_sessions_leave_a_server_for_transactions(make):
    """They count for max_pinned_servers, whose default is one below pool_size."""
    weir = make({"sessions": "pool_mode=session"}, pool_mode="transaction", default_pool_size=3)
    held = [client(weir, "sessions") for _ in range(2)]
    for wire in held:
        wire.query("CREATE TEMP TABLE mine (x int)")
    third = client(weir, "sessions")
    third.send(query("SELECT 3"))
    wait_until(lambda: weir.admin("SHOW WAITING"))
    assert "max_pinned_servers" in str(weir.admin("SHOW WAITING"))
    assert [row["why"] for row in weir.admin("SHOW PINNED")] == ["session"] * 2
    assert [weir.client().value("SELECT 7") for _ in range(3)] == ["7"] * 3
    held[0].close()
    assert third.read_result().rows[0][0] == "3"
    weir.reload(query_wait_timeout=1)
    fourth = client(weir, "sessions")
    fourth.send(query("SELECT 4"))
    assert fourth.read_refusal().text == "query_wait_timeout"  # the last one is not for a session


# -- each key -------------------------------------------------------------------------------------


def test_databases_that_others_may_not_use(make):
    """They do not exist there, and neither does the console."""
    weir = make({"few": "databases=app,ap*3", "console": "databases=pgbouncer"})
    assert client(weir, "few").value("SELECT 1") == "1"
    assert client(weir, "few", database="app3").value("SELECT 1") == "1"
    for name in ("app2", "pgbouncer", "app33x", "nowhere"):
        refused = refusal(at(weir, "few"), "admin", name, "admin-secret")
        assert refused.sqlstate == "3D000" and f"no such database: {name}" in str(refused)
    assert refusal(at(weir, "console")).sqlstate == "3D000"
    console = client(weir, "console", "admin", "pgbouncer", password="admin-secret")
    assert len(console.query("SHOW LISTENERS").rows) == 3
    assert not [row for row in weir.admin("SHOW POOLS") if row["database"] == "app2"]


def test_a_pattern_of_a_stranger_is_bounded(make):
    """The name is the stranger's, so the time of the comparison may not explode."""
    weir = make({"few": "databases=" + "*a" * 30 + "b"}, databases={"*": ""})
    assert refusal(at(weir, "few"), database="a" * 60).sqlstate == "3D000"


def test_max_client_conn(make):
    weir = make({"few": "max_client_conn=2"})
    held = [client(weir, "few") for _ in range(2)]
    refused = refusal(at(weir, "few"))
    assert refused.sqlstate == "53300"
    assert refused.fields["D"] == "Listener few: 2 of 2"
    assert weir.client().value("SELECT 1") == "1"
    assert (shown(weir)["few"]["clients"], shown(weir)["few"]["refused"]) == (2, 1)
    assert shown(weir)[None]["clients"] == 1
    held[0].close()
    wait_until(lambda: shown(weir)["few"]["clients"] == 1)
    assert client(weir, "few").value("SELECT 1") == "1"


def test_the_limit_of_all_counts_too(make):
    weir = make({"few": "max_client_conn=9"}, max_client_conn=1)
    one = weir.client()
    assert refusal(at(weir, "few")).sqlstate == "53300"
    assert shown(weir)["few"]["clients"] == 0
    one.close()
    wait_until(lambda: shown(weir)[None]["clients"] == 0)
    assert client(weir, "few").value("SELECT 1") == "1"


def test_startup_parameters(make):
    weir = make({"slow": "options='-c work_mem=77MB -c application_name=slow -c search_path=a'"},
                ignore_startup_parameters="options", pool_mode="transaction")
    one = client(weir, "slow")
    assert one.value("SHOW work_mem") == "77MB" and one.value("SHOW application_name") == "slow"
    two = client(weir, "slow", application_name="mine", search_path="b")
    assert two.value("SHOW application_name") == "mine" and two.value("SHOW search_path") == "b"
    assert two.value("SHOW work_mem") == "77MB"
    assert weir.client().value("SHOW work_mem") != "77MB"


@pytest.mark.parametrize("main, own, asked", (("trust", "scram-sha-256", 10), ("any", "md5", 5),
                                              ("scram-sha-256", "trust", 0)))
def test_auth_type(make_pgweir, main, own, asked):
    weir = listeners(make_pgweir(), own=f"auth_type={own}")
    weir.configure(auth_type=main, databases={"app": "user=alice"},
                   userlist={"alice": "secret", "admin": "admin-secret"}).start()
    one = client(weir, "own", password="secret")
    assert one.value("SELECT 1") == "1" and one.auth_codes[0] == asked
    other = weir.client(password="secret")
    assert (other.auth_codes[0] == 10) == (main == "scram-sha-256")
    if asked:
        assert refusal(at(weir, "own"), password="wrong").sqlstate == "28P01"


def test_hba_files(make_pgweir):
    """Each has rules of its own; the same file as that of the settings is read once."""
    weir = make_pgweir()
    main, own = f"{weir.dir}/main.hba", f"{weir.dir}/own.hba"
    weir.account.write(main, "host all all 127.0.0.1/32 trust\nlocal all all trust\n", 0o600)
    weir.account.write(own, "host app alice 127.0.0.1/32 trust\n", 0o600)
    listeners(weir, own=f"auth_hba_file={own}", same="", simple="auth_type=trust")
    weir.configure(auth_type="hba", auth_hba_file=main).start()
    assert client(weir, "own").value("SELECT 1") == "1"
    assert "no rule for" in str(refusal(at(weir, "own"), "bob"))
    for name in ("same", "simple"):
        assert client(weir, name, "bob").value("SELECT 1") == "1"
    weir.account.write(own, "host app bob 127.0.0.1/32 trust\n", 0o600)
    weir.admin("RELOAD")
    assert client(weir, "own", "bob").value("SELECT 1") == "1"
    weir.account.write(own, "host app nonsense\n", 0o600)
    reload_fails(weir, f"{own}:1")
    assert client(weir, "own", "bob").value("SELECT 1") == "1"


def test_tls(make_pgweir, own, ca):
    weir = listeners(make_pgweir(), secure=f"client_tls_sslmode=require client_tls_key_file={own.key} "
                                           f"client_tls_cert_file={own.cert}", plain="")
    weir.configure().start()
    secure = dict(sslmode="verify-ca", sslrootcert=ca.cert)
    with weir.connect(port=weir.ports["secure"], **secure) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
    assert "SSL required" in str(refusal(at(weir, "secure")))
    assert client(weir, "plain").value("SELECT 1") == "1"
    with pytest.raises(Exception, match="does not support SSL"):
        weir.connect(port=weir.ports["plain"], **secure)
    assert shown(weir)["secure"]["client_tls_sslmode"] == "require"


def test_proxy_protocol(make):
    weir = make({"proxied": "proxy_protocol=require"}, proxy_protocol_from="127.0.0.1")
    wire = Wire(at(weir, "proxied"))
    weir.connections.append(wire)
    wire.send(b"PROXY TCP4 192.0.2.7 192.0.2.1 5555 6432\r\n")
    wire.login()
    assert "192.0.2.7" in [row["addr"] for row in weir.admin("SHOW CLIENTS")]
    assert "no PROXY header" in str(refusal(at(weir, "proxied")))
    assert weir.client().value("SELECT 1") == "1"


def test_unix_socket(make_pgweir):
    weir = make_pgweir()
    folder = weir.account.mkdir(f"{weir.dir}/own")
    listeners(weir, local=f"unix_socket_dir={folder} pool_mode=session")
    weir.configure().start()
    path = f"{folder}/.s.PGSQL.{weir.ports['local']}"
    wire = Wire(path)
    weir.connections.append(wire)
    assert wire.login().parameters["pgbouncer.pool_mode"] == "session"
    assert shown(weir)["local"]["unix_socket"] == path and shown(weir)["local"]["addr"] is None
    weir.sections["listeners"] = {}
    weir.reload()
    wait_until(lambda: not os.path.exists(path))
    assert wire.value("SELECT 1") == "1"


def test_the_main_listener_alone_is_as_before(make_pgweir):
    weir = make_pgweir().start()
    row, = weir.admin("SHOW LISTENERS")
    assert row["name"] is None and row["port"] == weir.port and row["state"] == "listening"
    assert row["accepted"] >= 1 and row["max_client_conn"] == 500


# -- bad entries ----------------------------------------------------------------------------------

BAD = {
    "addr=127.0.0.1": "port is missing",
    "port=7": "addr and unix_socket_dir are missing",
    "addr=127.0.0.1 port=70000": "port: must be from 1 to 65535",
    "addr=localhost port=7000": 'addr: "localhost" is no IP address',
    "addr=* port=7000 pool_mode=sesion": 'pool_mode: .*did you mean .*session',
    "addr=* port=7000 pol_mode=session": 'unknown key "pol_mode": did you mean "pool_mode"',
    "addr=* port=7000 auth_type=maybe": "auth_type: ",
    "addr=* port=7000 auth_type=hba": "auth_type = hba needs auth_hba_file",
    "addr=* port=7000 auth_type=hba auth_hba_file=/nowhere": "/nowhere",
    "addr=* port=7000 auth_type=cert": "auth_type = cert needs client_tls_sslmode",
    "addr=* port=7000 client_tls_sslmode=require": "client_tls_key_file|client_tls_cert_file",
    "addr=* port=7000 proxy_protocol=accept": "proxy_protocol needs proxy_protocol_from",
    "addr=* port=7000 max_client_conn=many": "max_client_conn: ",
    "addr=* port=7000 options='-c nothing'": "options: ",
    "addr=* port={main}": "listen_addr or unix_socket_dir has it",
    "unix_socket_dir={dir} port={main}": "listen_addr or unix_socket_dir has it",
    "addr=127.0.0.1 port={good}": 'listener "good" has the same place',
}


@pytest.mark.parametrize("entry", BAD)
def test_bad_entries(make_pgweir, entry):
    """--check and the start say which; a RELOAD keeps everything."""
    weir = listeners(make_pgweir(), good="")
    weir.configure().start()
    bad = entry.format(main=weir.port, dir=weir.dir, good=weir.ports["good"])
    weir.sections["listeners"]["bad"] = bad
    weir.configure(log_connections=0)
    checked = weir.run("--check", weir.ini)
    assert checked.returncode == 1
    assert re.search(BAD[entry], checked.stderr) and ('listener "bad"' in checked.stderr or "/nowhere" in entry)
    reload_fails(weir, BAD[entry])
    assert weir.admin("SHOW log_connections") == [{"log_connections": "1"}]
    assert client(weir, "good").value("SELECT 1") == "1"
    assert list(shown(weir)) == [None, "good"]


def test_too_many_listeners(make_pgweir):
    weir = listeners(make_pgweir(), **{f"l{number}": "" for number in range(33)})
    checked = weir.configure().run("--check", weir.ini)
    assert checked.returncode == 1 and 'listener "l32": more than 32 listeners' in checked.stderr


# -- RELOAD ---------------------------------------------------------------------------------------


def test_reload_opens_changes_and_closes(make):
    weir = make({"stays": "pool_mode=session", "goes": "", "moves": ""})
    old = {name: client(weir, name) for name in weir.ports}
    waiting = Wire(at(weir, "stays"))  # connected before the change, and logs in after it
    weir.connections.append(waiting)
    was, weir.ports["moves"] = weir.ports["moves"], free_port()
    listeners(weir, stays="pool_mode=transaction databases=app", moves="", comes="")
    weir.reload()
    assert list(shown(weir)) == [None, "stays", "moves", "comes"]
    assert not is_open(was) and not is_open(weir.ports["goes"])
    assert client(weir, "comes").value("SELECT 1") == "1"
    assert client(weir, "moves").value("SELECT 1") == "1"
    assert client(weir, "stays").parameters["pgbouncer.pool_mode"] == "transaction"
    assert waiting.login().parameters["pgbouncer.pool_mode"] == "transaction"
    assert refusal(at(weir, "stays"), database="app2").sqlstate == "3D000"
    # who is in stays, in the mode that it came with
    old["stays"].query("CREATE TEMP TABLE mine (x int)")
    assert old["stays"].query("SELECT * FROM mine").errors == []
    assert all(wire.value("SELECT 2") == "2" for wire in old.values())
    assert "listener" in weir.log[weir.log.index("changed in the configuration"):]


def test_a_listener_of_a_reload_has_its_settings(make):
    weir = make({}, tcp_defer_accept=60)
    listeners(weir, fresh="").configure(tcp_defer_accept=0).reload()
    silent = Wire(at(weir, "fresh"))
    weir.connections.append(silent)
    wait_until(lambda: int(shown(weir)["fresh"]["accepted"]) == 1, limit=20)


def test_a_port_that_cannot_be_opened_keeps_all(make):
    weir = make({"old": "pool_mode=session"})
    listeners(weir, fresh="", taken="")
    with _listening(weir.ports["taken"]):
        weir.configure(log_connections=0)
        reload_fails(weir, 'listener "taken": .*Address already in use')
    assert list(shown(weir)) == [None, "old"]
    assert not is_open(weir.ports["fresh"])
    assert client(weir, "old").parameters["pgbouncer.pool_mode"] == "session"
    assert weir.admin("SHOW log_connections") == [{"log_connections": "1"}]
    weir.admin("RELOAD")
    assert list(shown(weir)) == [None, "fresh", "taken"]


def _listening(port):
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind(("127.0.0.1", port))
    sock.listen()
    return sock


def test_listeners_that_exchange_their_ports(make):
    weir = make({"a": "pool_mode=session", "b": "pool_mode=transaction"})
    one = client(weir, "a")
    for _ in range(3):
        weir.ports["a"], weir.ports["b"] = weir.ports["b"], weir.ports["a"]
        listeners(weir, a="pool_mode=session", b="pool_mode=transaction")
        weir.reload()
        assert client(weir, "a").parameters["pgbouncer.pool_mode"] == "session"
        assert client(weir, "b").parameters["pgbouncer.pool_mode"] == "transaction"
    assert one.value("SELECT 1") == "1"


def test_listeners_that_exchange_their_unix_sockets(make_pgweir):
    weir = make_pgweir()
    modes = {"a": "session", "b": "transaction"}
    folders = {name: weir.account.mkdir(f"{weir.dir}/{name}") for name in modes}

    def write():
        listeners(weir, **{name: f"unix_socket_dir={folders[name]} pool_mode={modes[name]}" for name in modes})

    write()
    weir.configure().start()
    for _ in range(3):
        for which in (folders, weir.ports):
            which["a"], which["b"] = which["b"], which["a"]
        write()
        weir.reload()
        for name, mode in modes.items():
            one = Wire(f"{folders[name]}/.s.PGSQL.{weir.ports[name]}")
            weir.connections.append(one)
            assert one.login().parameters["pgbouncer.pool_mode"] == mode


def test_many_reloads_leave_no_descriptors(make):
    weir = make({"a": ""})
    before = None
    for number in range(300):
        listeners(weir, **{f"n{number % 7}": ""})
        weir.reload()
        before = before or weir.open_files()
    assert weir.open_files() <= before + 1


def test_suspend_and_shutdown_are_for_all(make):
    weir = make({"a": ""})
    weir.console_address = weir.socket_path
    weir.admin("SUSPEND")
    assert {row["state"] for row in weir.admin("SHOW LISTENERS")} == {"paused"}
    listeners(weir, a="", b="")
    weir.reload()
    assert {row["state"] for row in weir.admin("SHOW LISTENERS")} == {"paused"}
    weir.admin("RESUME")
    one = client(weir, "b")
    weir.admin("SHUTDOWN WAIT_FOR_CLIENTS")
    wait_until(lambda: not is_open(weir.ports["a"]) and not is_open(weir.ports["b"]))
    assert one.value("SELECT 1") == "1"
    one.close()
    weir.disconnect()
    weir.wait_exit()


# -- from one process to another ------------------------------------------------------------------


@pytest.mark.parametrize("loops", (1, 3))
def test_a_take_over_under_load(make_pgweir, loops):
    weir = published(make_pgweir())
    weir.configure(pool_mode="transaction", default_pool_size=4, loops=loops).start()
    work = [Load(client(weir, "sessions"), number, True) for number in range(2)]
    work += [Load(weir.client(), 100 + number, False) for number in range(6)]
    wait_until(lambda: all(load.count for load in work))
    weir.disconnect_console()
    for _ in range(2):
        done = [load.count for load in work]
        assert weir.take_over().wait(30) == 0
        wait_until(lambda: all(load.count > before for load, before in zip(work, done)))
    assert shown(weir)["sessions"]["clients"] == 2
    third = client(weir, "sessions")
    assert third.parameters["pgbouncer.pool_mode"] == "session"
    for load in work:
        load.end()


def test_a_take_over_changes_listeners(make):
    """A client keeps its mode also if its listener is gone; its place in the pool, too."""
    weir = make({"sessions": "pool_mode=session", "same": ""}, pool_mode="transaction",
                default_pool_size=2)
    one, two = client(weir, "sessions"), client(weir, "same")
    one.query("CREATE TEMP TABLE mine (x int)")
    port = weir.ports["sessions"]
    listeners(weir, same="", fresh="pool_mode=session")
    weir.configure()
    weir.disconnect_console()
    assert weir.take_over().wait(15) == 0
    assert one.query("SELECT * FROM mine").errors == []
    assert two.value("SELECT 1") == "1"
    wait_until(lambda: not is_open(port))
    fresh = client(weir, "fresh")
    fresh.send(query("SELECT 3"))
    wait_until(lambda: weir.admin("SHOW WAITING"))  # one session holds the only place
    one.close()
    assert fresh.read_result().rows[0][0] == "3"
    assert two.query("SELECT * FROM mine").error["C"] == "42P01"


def test_sockets_of_the_service_manager_by_name(make_pgweir):
    """FileDescriptorName= is the name of the listener; all others are for the main one."""
    weir = listeners(make_pgweir(), sessions="pool_mode=session", own="")
    weir.configure(pool_mode="transaction")
    own, names = weir.binary, ["sessions", "pgweir.socket", "pgweir.socket"]
    launched(weir, str(weir.ports["sessions"]), str(weir.port), weir.socket_path, names=names).start()
    for _ in range(2):
        assert client(weir, "sessions").parameters["pgbouncer.pool_mode"] == "session"
        one = weir.client()
        assert one.parameters["pgbouncer.pool_mode"] == "transaction"
        assert client(weir, "own").value("SELECT 1") == "1"
        weir.disconnect_console()
        assert weir.take_over(binary=own).wait(15) == 0
        assert one.value("SELECT 1") == "1"
    assert all("are ignored for listening" in line for line in weir.warnings)
