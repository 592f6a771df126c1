# SPDX-License-Identifier: ISC
"""What operators do with a pooler: the files they generate, their console commands by position, the
patterns they look for in the log, their signals.
"""

import os
import re
import signal

import psycopg
import pytest

from .kit.wait import wait_until
from .kit.wire import Wire, query
from .test_drain import DRAINING, told

# How the collectors of CloudNativePG, PGO and Datadog split a line.
LOG_PATTERNS = (r"^.* \[\d+\] (LOG|DEBUG|NOISE|WARNING|ERROR|FATAL) .+$",
                r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} [A-Z]{3} \[\d+\] [A-Z]+ ",
                r"^\d{4}-\d{2}-\d{2}\s\d{2}:\d{2}:\d{2}\.\d{3}\s\w+\s\[\d+\]\s[A-Z]+\s")


def assert_log(weir):
    for line in weir.log.splitlines():
        for pattern in LOG_PATTERNS:
            assert re.match(pattern, line), (pattern, line)


@pytest.fixture
def folder(account, place, request):
    return account.mkdir(os.path.join(place, re.sub(r"\W", "_", request.node.name)))


class Generated:
    """A daemon with the file of an operator. Paths and ports are the test's."""

    def __init__(self, weir, account, folder):
        self.weir, self.account, self.folder = weir, account, folder

    def write(self, name, text, mode=0o644):
        return self.account.write(f"{self.folder}/{name}", text.format(
            dir=self.folder, port=self.weir.port, pg=self.weir.postgres.port,
            user=self.account.name, socket=self.weir.dir), mode)

    def start(self, text, **env):
        self.weir.configure(ini=self.write("generated", text) and open(
            f"{self.folder}/generated", encoding="utf-8").read())
        return self.weir.start(env=env)


@pytest.fixture
def generated(make_pgweir, account, folder):
    return Generated(make_pgweir(), account, folder)


# -- CloudNativePG --------------------------------------------------------------------------------

CLOUDNATIVE = """[databases]
* = host=127.0.0.1 port={pg}

[pgbouncer]
pool_mode = transaction
auth_user = postgres
auth_query = SELECT usename, passwd FROM pg_shadow WHERE usename=$1
auth_dbname = app
admin_users = pgbouncer
auth_file = {dir}/userlist.txt
auth_hba_file = {dir}/pg_hba.conf
auth_type = hba
client_tls_sslmode = prefer
client_tls_ca_file = {dir}/ca.crt
client_tls_cert_file = {dir}/tls.crt
client_tls_key_file = {dir}/tls.key
ignore_startup_parameters = extra_float_digits,options
listen_addr = 127.0.0.1
listen_port = {port}
log_stats = 0
server_tls_sslmode = prefer
unix_socket_dir = {socket}
"""


@pytest.fixture
def cloudnative(generated, own, ca):
    for name, path in (("ca.crt", ca.cert), ("tls.crt", own.cert), ("tls.key", own.key)):
        with open(path, encoding="utf-8") as file:
            generated.account.write(f"{generated.folder}/{name}", file.read(), 0o600)
    generated.write("userlist.txt", '"postgres" "not needed"\n', 0o600)
    generated.write("pg_hba.conf", "local pgbouncer pgbouncer peer\nhost all all 0.0.0.0/0 md5\n"
                    "host all all ::/0 md5\n")
    return generated


def test_cloudnativepg(cloudnative, account):
    env = {"PGWEIR_SET_console_version": "1.25", "PGWEIR_SET_shutdown_drain": "3600",
           "PGWEIR_SET_shutdown_drain_signals": "SIGINT"}
    weir = cloudnative.start(CLOUDNATIVE, **env)
    ask = ["psql", "-XAt", "-h", weir.dir, "-p", str(weir.port), "-U", "pgbouncer", "pgbouncer"]

    def console(command):
        done = account.run([*ask, "-c", command], timeout=30)
        assert done.returncode == 0, done.stdout
        return [line.split("|") for line in done.stdout.splitlines()]

    client = Wire(weir.address).login("md5_user", "app", "md5 secret")
    assert client.value("SELECT 1") == "1"
    # By position: 16 or 17 columns, and 15, 17 or 23.
    (pool,) = [row for row in console("SHOW POOLS") if row[:2] == ["app", "md5_user"]]
    assert len(pool) in (16, 17) and pool[15] == "transaction" and all(
        number.isdigit() for number in pool[2:15])
    (stats,) = [row for row in console("SHOW STATS") if row[0] == "app"]
    assert len(stats) in (15, 17, 23) and all(number.isdigit() for number in stats[1:])
    assert stats[1:4] == ["2", "1", "1"]  # a server was lent to auth_query too
    assert {len(row) for row in console("SHOW LISTS")} == {2}
    for command in ("PAUSE", "RESUME", "RELOAD"):
        assert console(command) == [[command]]
    # The files are written one by one, then RELOAD: half of a pair of them changes nothing.
    key = open(f"{cloudnative.folder}/tls.key", encoding="utf-8").read()
    account.write(f"{cloudnative.folder}/tls.key", "half", 0o600)
    failed = account.run([*ask, "-c", "RELOAD"], timeout=30)
    assert failed.returncode == 1
    account.write(f"{cloudnative.folder}/tls.key", key, 0o600)
    assert console("RELOAD") == [["RELOAD"]]
    client.query("BEGIN")
    weir.signal(signal.SIGINT)
    weir.wait_log("got SIGINT, shutting down, disconnecting clients within 3600 s")
    client.send(query("COMMIT"))
    assert client.read_result().tags == ["COMMIT"]
    assert told(client) == DRAINING
    assert weir.wait_exit() == 0
    assert_log(weir)


# -- Crunchy PGO, Percona -------------------------------------------------------------------------

CRUNCHY = """# Generated by an operator.
[pgbouncer]
%include {dir}/pgbouncer.ini
[pgbouncer]
auth_file = {dir}/~operator/users.txt
auth_query = SELECT usename, passwd FROM pg_shadow WHERE usename=$1
auth_user = postgres
client_tls_ca_file = {dir}/ca.crt
client_tls_cert_file = {dir}/tls.crt
client_tls_key_file = {dir}/tls.key
client_tls_sslmode = require
conffile = {dir}/~operator.ini
ignore_startup_parameters = extra_float_digits
listen_addr = 127.0.0.1
listen_port = {port}
server_tls_sslmode = prefer
unix_socket_dir =
stats_users = md5_user
[databases]
* = host=127.0.0.1 port={pg}
"""


@pytest.fixture
def crunchy(generated, own, ca, account):
    """Its files, and a program that is called pgbouncer; not started."""
    folder, weir = generated.folder, generated.weir
    account.mkdir(f"{folder}/~operator")
    for name, path in (("ca.crt", ca.cert), ("tls.crt", own.cert), ("tls.key", own.key)):
        with open(path, encoding="utf-8") as file:
            account.write(f"{folder}/{name}", file.read(), 0o600)
    generated.write("~operator/users.txt", '"postgres" "not needed"\n"md5_user" "md5 secret"\n', 0o600)
    generated.write("pgbouncer.ini", "")
    weir.ini = generated.write("~operator.ini", CRUNCHY)
    link = f"{folder}/pgbouncer"
    os.symlink(weir.binary, link)
    weir.binary = link
    return generated


def test_crunchy(crunchy):
    weir = crunchy.weir.start()
    shown = weir.connect("pgbouncer", "md5_user", password="md5 secret", sslmode="require")
    columns = {}
    for item in ("CLIENTS", "DATABASES", "LISTS", "POOLS", "SERVERS"):
        cursor = shown.execute(f"SHOW {item}")
        columns[item] = {column.name for column in cursor.description}
    assert {"wait", "link"} <= columns["CLIENTS"] and "items" in columns["LISTS"]
    assert "close_needed" in columns["SERVERS"]
    # The second container: pkill -HUP --exact pgbouncer, after its mount has changed.
    with open(f"/proc/{weir.pid}/comm", encoding="ascii") as file:
        assert file.read() == "pgbouncer\n"
    crunchy.write("~operator.ini", CRUNCHY + "[pgbouncer]\ndefault_pool_size = 3\n")
    weir.signal(signal.SIGHUP)
    weir.wait_log("changed in the configuration: .*default_pool_size")
    assert_log(weir)


def test_perconas_pause(crunchy):
    """A startup probe repeats PAUSE, and RESUME is, too: it looks for these words in the error."""
    weir, admin = crunchy.weir, "operators_admin"
    crunchy.write("~operator/users.txt", f'"postgres" "not needed"\n"{admin}" "any"\n', 0o600)
    crunchy.write("~operator.ini", f"{CRUNCHY}[pgbouncer]\npool_mode = transaction\nadmin_users = {admin}\n")
    weir.start()
    client = weir.connect("app", "md5_user", password="md5 secret", sslmode="require")

    def console(command):
        with weir.connect("pgbouncer", admin, password="any", sslmode="require") as asking:
            return asking.execute(command)

    console("PAUSE")
    with pytest.raises(psycopg.Error, match="already suspended/paused"):
        console("PAUSE")
    client.pgconn.send_query(b"SELECT 1")
    wait_until(lambda: [row for row in console("SHOW POOLS") if row[:4] == ("app", "md5_user", 0, 1)],
               what="the client to wait")
    console("RESUME")
    assert client.pgconn.get_result().get_value(0, 0) == b"1"
    with pytest.raises(psycopg.Error, match="pooler is not paused/suspended"):
        console("RESUME")
    assert_log(weir)


# -- Airflow's chart ------------------------------------------------------------------------------

AIRFLOW = """[databases]
metadata = host=127.0.0.1 dbname=app port={pg} pool_size=10
result-backend = host=127.0.0.1 dbname=app2 port={pg} pool_size=5

[pgbouncer]
pool_mode = transaction
listen_port = {port}
listen_addr = 127.0.0.1
auth_type = scram-sha-256
auth_file = {dir}/users.txt
stats_users = scram_user
ignore_startup_parameters = extra_float_digits
max_client_conn = 100
verbose = 0
log_disconnections = 0
log_connections = 0
unix_socket_dir = {socket}
server_tls_sslmode = prefer
server_tls_ciphers = normal
"""


def test_airflow(generated):
    weir = generated.weir
    generated.write("users.txt", '"scram_user" "scram secret"\n', 0o600)
    generated.start(AIRFLOW, PGWEIR_SET_shutdown_drain="60s", PGWEIR_SET_shutdown_drain_signals="SIGINT")
    names = [weir.connect(name, "scram_user", password="scram secret")
             .execute("SELECT current_database()").fetchone()[0] for name in ("metadata", "result-backend")]
    assert names == ["app", "app2"]
    Wire(weir.address).close()  # a TCP probe
    weir.signal(signal.SIGINT)  # the preStop hook
    assert weir.wait_exit() == 0
    assert not re.search(r"ERROR|WARNING .*unexpected", weir.log)
    assert_log(weir)


# -- the functions that operators make in each database, called by their images' queries ------------

ZALANDO = """CREATE SCHEMA pooler;
CREATE FUNCTION pooler.user_lookup(i_username text, OUT uname text, OUT phash text) RETURNS record
AS $$ BEGIN SELECT usename, passwd FROM pg_catalog.pg_shadow WHERE usename = i_username
INTO uname, phash; RETURN; END; $$ LANGUAGE plpgsql SECURITY DEFINER"""
CRUNCHYS = """CREATE SCHEMA pooler;
CREATE FUNCTION pooler.get_auth(asked text) RETURNS TABLE (username text, password text)
LANGUAGE sql STABLE SECURITY DEFINER AS
'SELECT rolname::text, rolpassword::text FROM pg_catalog.pg_authid WHERE rolname = $1 AND NOT rolsuper'"""


@pytest.mark.parametrize("made, auth_query", (
    (ZALANDO, "SELECT * FROM pooler.user_lookup($1)"),
    (CRUNCHYS, "SELECT username, password from pooler.get_auth($1)"),
), ids=("Zalando", "Crunchy"))
def test_lookups(make_pgweir, made, auth_query):
    weir = make_pgweir()
    port = weir.postgres.port
    with weir.postgres.connect("postgres") as admin:
        admin.execute(made)
        try:
            weir.configure(databases={"*": f"host=127.0.0.1 port={port} auth_user=postgres"},
                           auth_type="md5", auth_query=auth_query,
                           auth_dbname="postgres", userlist={"postgres": "not needed"},
                           admin_users="postgres").start()
            client = weir.client("md5_user", "app", password="md5 secret")
            assert client.value("SELECT 1") == "1"
        finally:
            admin.execute("DROP SCHEMA pooler CASCADE")
    assert_log(weir)
