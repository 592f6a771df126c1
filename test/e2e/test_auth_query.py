# SPDX-License-Identifier: ISC
"""auth_query: users not in auth_file are looked up in PostgreSQL."""

import os
import pwd
import re
import threading

import psycopg
import pytest

from .kit.daemon import LOOPS
from .kit.fake import complete, error, ready, row
from .kit.wait import wait_until
from .kit.wire import Refused, Wire, cstr, md5_secret, message, refusal, scram_secret
from .test_tls_cert import enter

SECRET = "correct horse"
LONG = "x" * 65536
FILE = {"postgres": "postgres secret", "asker": "asker secret", "carol": "carol secret",
        "admin": "admin secret", "stats": "stats secret"}
WHO = "SELECT name, secret FROM who($1)"
PASSWORD_FAILED = ("FATAL", "28P01", "password authentication failed")
SASL_FAILED = ("FATAL", "28P01", "SASL authentication failed")
CONFIG_ERROR = "bouncer config error"

SETUP = """
DROP SCHEMA IF EXISTS gate CASCADE;
DROP FUNCTION IF EXISTS who(text);
CREATE SCHEMA gate;
CREATE TABLE gate.users (number serial, name text, secret text, asked text);
CREATE TABLE gate.asked (name text);
CREATE FUNCTION who(wanted text) RETURNS TABLE (name text, secret text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = gate AS $$
BEGIN
    INSERT INTO asked VALUES (wanted);
    PERFORM pg_advisory_xact_lock_shared(4711);
    RETURN QUERY SELECT u.name, u.secret FROM users u WHERE coalesce(u.asked, u.name) = wanted
                 ORDER BY number;
END $$;
"""


class Gate:
    """The users for auth_query, and the daemon."""

    def __init__(self, make_pgweir, postgres):
        self.make_pgweir, self.postgres = make_pgweir, postgres
        with postgres.connect("app3") as db:
            db.execute(SETUP)
            if not db.execute("SELECT 1 FROM pg_roles WHERE rolname = 'asker'").fetchall():
                db.execute("CREATE ROLE asker LOGIN")

    def add(self, name, secret, asked=None):
        self.postgres.query("INSERT INTO gate.users (name, secret, asked) VALUES (%s, %s, %s)",
                            name, secret, asked, dbname="app3")

    def change(self, name, secret):
        self.postgres.query("UPDATE gate.users SET secret = %s WHERE name = %s", secret, name,
                            dbname="app3")

    def remove(self, name):
        self.postgres.query("DELETE FROM gate.users WHERE name = %s", name, dbname="app3")

    def asked(self, name="alice"):
        return self.postgres.value("SELECT count(*) FROM gate.asked WHERE name = %s", name,
                                   dbname="app3")

    def start(self, **settings):
        base = dict(auth_type="scram-sha-256", auth_user="asker", auth_query=WHO,
                    auth_dbname="look", userlist=FILE, pool_mode="transaction",
                    databases={"app": "", "app2": "", "look": "dbname=app3"})
        self.weir = self.make_pgweir(**dict(base, **settings)).start()
        return self.weir


@pytest.fixture
def gate(make_pgweir, postgres):
    return Gate(make_pgweir, postgres)


def told(refused):
    return refused.severity, refused.sqlstate, refused.text


# -- logins ----------------------------------------------------------------------------------------

SECRETS = {"plain": SECRET, "md5": md5_secret("alice", SECRET), "scram": scram_secret(SECRET)}
WORKS = {
    ("plain", "plain"): [3, 0], ("plain", "md5"): [3, 0], ("plain", "scram"): [3, 0],
    ("md5", "plain"): [5, 0], ("md5", "md5"): [5, 0], ("md5", "scram"): [10, 11, 12, 0],
    ("scram-sha-256", "plain"): [10, 11, 12, 0], ("scram-sha-256", "scram"): [10, 11, 12, 0],
    ("trust", "plain"): [0], ("hba", "scram"): [10, 11, 12, 0], ("hba", "md5"): [5, 0],
}


@pytest.mark.parametrize("cache", ("0", "1h"))
@pytest.mark.parametrize("method, kind", WORKS)
def test_methods(gate, method, kind, cache):
    more = {}
    if method == "hba":
        way = "md5" if kind == "md5" else "scram-sha-256"
        more["auth_hba_file"] = gate.make_pgweir().ini + ".hba"
    gate.add("alice", SECRETS[kind])
    weir = gate.make_pgweir()
    if method == "hba":
        weir.account.write(more["auth_hba_file"], f"host all all 127.0.0.1/32 {way}\n")
    weir = gate.start(auth_type=method, auth_query_cache=cache, **more)
    for _ in range(2):
        client = weir.client(password=SECRET)
        assert client.auth_codes == WORKS[method, kind]
        assert client.value("SELECT current_user") == "alice"
    assert gate.asked() == (2 if cache == "0" else 1)
    if method == "trust":
        assert refusal(weir.address, "mallory").sqlstate == "28000"
        return
    for wrong in ("incorrect", "", LONG):
        assert refusal(weir.address, password=wrong).sqlstate in ("28P01", "08P01")
    known = refusal(weir.address, password="incorrect")
    unknown = refusal(weir.address, "mallory", password="incorrect")
    assert known.sqlstate == "28P01"
    assert told(known) == told(unknown)
    assert weir.client(password=SECRET).value("SELECT 1") == "1"


def test_with_libpq(gate):
    gate.add("alice", scram_secret(SECRET))
    weir = gate.start()
    assert weir.connect(password=SECRET).execute("SELECT 2").fetchone() == (2,)
    with pytest.raises(psycopg.OperationalError, match="SASL authentication failed"):
        weir.connect(password="incorrect")


def test_the_default_query(gate, postgres):
    """Reads pg_authid; VALID UNTIL is respected; SCRAM keys are used for the login to PostgreSQL.
    """
    weir = gate.start(auth_query=None, auth_user="postgres", auth_dbname=None)
    for _ in range(2):
        client = weir.client("scram_user", password="scram secret")
        assert client.value("SELECT current_user") == "scram_user"
    assert told(refusal(weir.address, "bob", password="x")) == SASL_FAILED  # has no secret
    try:
        postgres.query("ALTER ROLE scram_user VALID UNTIL '2001-01-01'")
        late = refusal(weir.address, "scram_user", password="scram secret")
        assert told(late) == SASL_FAILED
        postgres.query("ALTER ROLE scram_user VALID UNTIL 'infinity' NOLOGIN")
        assert told(refusal(weir.address, "scram_user", password="scram secret")) == SASL_FAILED
    finally:
        postgres.query("ALTER ROLE scram_user VALID UNTIL 'infinity' LOGIN")
    assert weir.client("scram_user", password="scram secret").value("SELECT 1") == "1"


def test_without_auth_user_nobody_is_asked(gate):
    gate.add("alice", SECRET)
    weir = gate.start(auth_user=None)
    assert told(refusal(weir.address, password=SECRET)) == SASL_FAILED
    assert gate.asked() == 0


def test_an_empty_query_asks_nobody(gate):
    gate.add("alice", SECRET)
    weir = gate.start(auth_query="")
    assert told(refusal(weir.address, password=SECRET)) == SASL_FAILED


def test_auth_file_goes_first(gate):
    gate.add("carol", "another secret")
    weir = gate.start()
    assert told(refusal(weir.address, "carol", password="another secret")) == SASL_FAILED
    assert gate.asked("carol") == 0


def test_keys_of_an_entry(gate):
    """Each entry may have its own auth_query, auth_user and auth_dbname."""
    gate.add("alice", SECRET)
    weir = gate.start(auth_user=None, auth_query=None, auth_dbname=None, auth_type="md5", databases={
        "app": f"auth_user=asker auth_query='{WHO}' auth_dbname=look",
        "app2": "", "look": "dbname=app3",
        "fixed": f"dbname=app user=bob auth_user=asker auth_query='{WHO}' auth_dbname=look",
        "here": f"dbname=app3 user=bob auth_user=asker auth_query='{WHO}'"})
    assert weir.client(password=SECRET).value("SELECT current_user") == "alice"
    assert told(refusal(weir.address, database="app2", password=SECRET)) == PASSWORD_FAILED
    for name in ("fixed", "here"):
        client = weir.client(database=name, password=SECRET)
        assert client.value("SELECT current_user") == "bob"
    assert weir.pool("here", "asker")["sv_idle"] == 1
    assert weir.pool("here", "bob")["sv_idle"] == 1


# -- invalid results -------------------------------------------------------------------------------


@pytest.mark.parametrize("auth_type", ("plain", "md5", "scram-sha-256"))
def test_a_secret_that_is_null(gate, auth_type):
    """Any password is refused, and the user cannot be distinguished from an unknown one."""
    gate.add("alice", None)
    weir = gate.start(auth_type=auth_type)
    for password in ("", "x", SECRET):
        known = refusal(weir.address, password=password)
        assert told(known) == told(refusal(weir.address, "mallory", password=password))
        assert known.sqlstate == "28P01"
    weir.wait_log("login refused, .*: the user has no password")


@pytest.mark.parametrize("auth_type", ("plain", "md5", "scram-sha-256"))
def test_a_secret_that_is_empty(gate, auth_type):
    gate.add("alice", "")
    weir = gate.start(auth_type=auth_type)
    for password in ("", "x"):
        assert refusal(weir.address, password=password).sqlstate == "28P01"


NO_ANSWERS = {
    "one column": ("SELECT 'alice'::text WHERE $1 <> ''", "two columns"),
    "three columns": ("SELECT $1::text, 'x', 'y'", "two columns"),
    "an empty name": ("SELECT '', 'x' WHERE $1 <> ''", "is empty"),
    "a long name": ("SELECT repeat('x', 128), 'x' WHERE $1 <> ''", "too long"),
    "a long secret": ("SELECT $1::text, repeat('x', 70000)", "too long"),
    "very many bytes": ("SELECT $1::text, repeat('x', 7000000)", "too long"),
    "several users": ("SELECT $1::text, g::text FROM generate_series(1, 2) g", "several rows"),
    "many rows": ("SELECT $1::text, 'x' FROM generate_series(1, 100000)", "too many rows"),
    "an error": ("SELECT $1::text, (1 / length(''))::text", None),
    "no such table": ("SELECT name, secret FROM nothing WHERE name = $1", "does not exist"),
    "not allowed": ("SELECT rolname, rolpassword FROM pg_authid WHERE rolname = $1", "denied"),
    "bad grammar": ("SELEC $1", "syntax error"),
    "no parameter": ("SELECT 'alice', 'x'", "parameter"),
    "two statements": ("SELECT $1::text, 'x'; SELECT 1", "multiple commands"),
    "no query": (";", None),
    "a transaction": ("BEGIN", None),
}


@pytest.mark.parametrize("name", NO_ANSWERS)
def test_what_is_no_answer(gate, name):
    text, reason = NO_ANSWERS[name]
    weir = gate.start(auth_type="plain", auth_query=text)
    for user in ("alice", "asked"):
        refused = refusal(weir.address, user, password="x")
        if reason:
            assert refused.text == CONFIG_ERROR and refused.sqlstate == "F0000"
            weir.wait_log(f"auth_query failed, on look by asker, for {user}: .*{reason}")
        else:
            assert refused.text in (CONFIG_ERROR, PASSWORD_FAILED[2])
    assert weir.client("carol", password="carol secret", database="app2") is not None


def test_the_same_row_twice(gate):
    gate.add("alice", SECRET)
    gate.add("alice", SECRET)
    assert gate.start().client(password=SECRET).value("SELECT 1") == "1"


def test_a_name_that_postgresql_cannot_read(gate):
    weir = gate.start(auth_type="plain")
    wire = weir.wire()
    body = b"\0\3\0\0user\0al\xff\xfeice\0database\0app\0\0"
    wire.send(len(body + b"1234").to_bytes(4, "big") + body)
    assert wire.read().type == "R"
    wire.send(message("p", cstr("wrong")))
    assert told(wire.read_refusal()) == PASSWORD_FAILED


def test_names_that_are_attacks(gate):
    gate.add("alice", SECRET)
    weir = gate.start(auth_type="plain")
    for name in ("x' OR '1'='1", "alice'--", "$1", "alice\\", 'al"ice', "a" * 127, "al\nice",
                 "al\rice", "\nalice", "alice\r"):
        assert told(refusal(weir.address, name, password=SECRET)) == PASSWORD_FAILED
        assert gate.asked(name) == 1
    assert refusal(weir.address, "a" * 128, password=SECRET).text == "username too long"
    assert gate.asked("a" * 128) == 0


# -- roles without a password ----------------------------------------------------------------------


@pytest.mark.parametrize("cache", ("0", "1h"))
def test_a_role_without_a_password_by_trust(gate, cache):
    gate.add("alice", None)
    weir = gate.start(auth_type="trust", auth_query_cache=cache)
    for _ in range(2):
        assert weir.client().value("SELECT current_user") == "alice"
    assert gate.asked() == (2 if cache == "0" else 1)
    assert refusal(weir.address, "mallory").sqlstate == "28000"


def test_a_role_without_a_password_by_peer(gate):
    gate.add("alice", None)
    weir = gate.make_pgweir()
    hba, ident = f"{weir.dir}/hba.conf", f"{weir.dir}/ident.conf"
    weir.account.write(hba, "local all all peer map=m\n")
    weir.account.write(ident, f"m {pwd.getpwuid(os.geteuid()).pw_name} all\n")
    weir = gate.start(auth_type="hba", auth_hba_file=hba, auth_ident_file=ident)
    client = weir.wire(unix=True).login("alice")
    assert client.value("SELECT current_user") == "alice"
    assert refusal(weir.socket_path, "mallory").text == "unix socket login rejected"


def test_a_role_without_a_password_by_its_certificate(gate, own, ca):
    gate.add("alice", None)
    weir = gate.start(auth_type="cert", client_tls_sslmode="verify-full", client_tls_ca_file=ca.cert,
                      client_tls_cert_file=own.cert, client_tls_key_file=own.key)
    client = enter(weir, ca.issue("alice", "alice"))
    assert client.value("SELECT current_user") == "alice"
    with pytest.raises(Refused, match="certificate authentication failed"):
        enter(weir, ca.issue("mallory", "mallory"), "mallory")


def test_a_null_name_is_nobody(gate):
    weir = gate.start(auth_type="plain", auth_query="SELECT NULL, 'x' WHERE $1 <> ''")
    assert told(refusal(weir.address, password="x")) == PASSWORD_FAILED
    weir.wait_log("no such user: alice")


# -- auth_user itself ------------------------------------------------------------------------------


def without_asker():
    return {user: secret for user, secret in FILE.items() if user != "asker"}


def test_auth_user_is_looked_up_like_any_other(gate):
    gate.add("asker", SECRET)
    weir = gate.start(userlist=without_asker())
    client = weir.client("asker", "look", password=SECRET)
    assert client.value("SELECT current_user") == "asker"
    assert told(refusal(weir.address, "asker", password="incorrect")) == SASL_FAILED
    assert gate.asked("asker") == 2


@pytest.mark.parametrize("where", ("*", "app2"))
def test_nobody_becomes_the_auth_user_of_the_entry(gate, where):
    """For a database with its own entry and for one of the * entry."""
    entries = {"app": "", "look": "dbname=app3", where: "auth_user=asker"}
    gate.add("asker", SECRET, asked="alice")
    weir = gate.start(userlist=without_asker(), databases=entries, auth_user="carol")
    assert told(refusal(weir.address, database="app2", password=SECRET)) == SASL_FAILED
    weir.wait_log("auth_query returned for user alice the name asker")


# -- another name ----------------------------------------------------------------------------------


def test_another_name_is_the_name(gate):
    gate.add("bob", SECRET, asked="BOB")
    weir = gate.start()
    client = weir.client("BOB", password=SECRET)
    assert client.value("SELECT current_user") == "bob"
    assert {"bob"} == {line["user"] for line in weir.admin("SHOW CLIENTS")
                       if line["database"] == "app"}


@pytest.mark.parametrize("name", ("asker", "carol", "admin", "postgres"))
def test_nobody_becomes_one_who_is_known(gate, name):
    gate.add(name, SECRET, asked="alice")
    gate.add(name, SECRET)
    weir = gate.start(userlist=without_asker())
    assert told(refusal(weir.address, password=SECRET)) == SASL_FAILED
    weir.wait_log(f"auth_query returned for user alice the name {name}")
    if name == "asker":
        return
    assert told(refusal(weir.address, name, password=SECRET)) == SASL_FAILED
    assert gate.asked(name) == 0


def test_rules_are_asked_again_for_another_name(gate):
    gate.add("bob", SECRET, asked="BOB")
    path = gate.make_pgweir().ini + ".hba"
    gate.make_pgweir().account.write(path, "host all bob all reject\nhost all all all md5\n")
    weir = gate.start(auth_type="hba", auth_hba_file=path)
    refused = refusal(weir.address, "BOB", password=SECRET)
    assert refused.text.startswith('login rejected: an HBA rule rejects host "127.0.0.1", '
                                   'user "bob"')


# -- what a client cannot influence ----------------------------------------------------------------


@pytest.mark.parametrize("mode", ("session", "transaction", "statement"))
def test_nothing_of_a_client_reaches_the_query(gate, postgres, mode):
    """A table, a function and an operator that shadow the real ones, and all ways to reach them."""
    gate.add("alice", SECRET)
    query = "SELECT name, secret FROM users_now WHERE name = $1"
    with postgres.connect("app3") as db:
        db.execute("""CREATE OR REPLACE VIEW public.users_now AS SELECT name, secret
                      FROM gate.users; GRANT SELECT ON public.users_now TO asker;
                      CREATE SCHEMA IF NOT EXISTS evil; GRANT ALL ON SCHEMA evil TO PUBLIC;
                      DROP TABLE IF EXISTS evil.users_now;
                      CREATE TABLE evil.users_now AS SELECT 'alice'::text AS name,
                      'stolen'::text AS secret; GRANT SELECT ON evil.users_now TO PUBLIC""")
    weir = gate.start(auth_query=query, pool_mode=mode, auth_type="plain",
                      userlist=FILE)
    inside = weir.client("carol", "look", password="carol secret", search_path="evil")
    inside.query("SET search_path = evil")
    owner = weir.client("asker", "look", password="asker secret", search_path="evil")
    owner.query("SET search_path = evil")
    owner.query("CREATE TEMP TABLE users_now AS SELECT 'alice'::text AS name, 'x'::text AS secret")
    ways = ({"search_path": "evil"}, {"options": "-c search_path=evil"},
            {"options": "--search_path=evil -c role=postgres"}, {"role": "postgres"})
    for way in ways:
        for password in ("stolen", "x"):
            assert told(refusal(weir.address, database="look", password=password,
                                **way)) == PASSWORD_FAILED
        client = weir.client(database="look", password=SECRET,
                             **{k: v for k, v in way.items() if "role" not in k + v})
        assert client.value("SELECT 1") == "1"
    # One for the client, one for lookups; each loop may open some of its own.
    assert len(postgres.backends("asker")) <= 2 * LOOPS


def test_lookups_have_a_pool(gate):
    gate.add("alice", SECRET)
    weir = gate.start()
    weir.client(password=SECRET)
    assert weir.pool("look", "asker")["sv_idle"] == 1
    (server,) = [line for line in weir.admin("SHOW SERVERS") if line["user"] == "asker"]
    assert (server["database"], server["state"], server["link"]) == ("look", "idle", "")
    assert "alice" in {line["name"] for line in weir.admin("SHOW USERS")}


def test_a_server_under_way_is_shown(gate, postgres):
    gate.add("alice", SECRET)
    weir = gate.start()
    with postgres.connect("app3") as lock:
        lock.execute("SELECT pg_advisory_lock(4711)")
        wire = weir.wire().startup()
        wait_until(lambda: weir.pool("look", "asker")["sv_active"] == 1)
        (server,) = [line for line in weir.admin("SHOW SERVERS") if line["user"] == "asker"]
        assert (server["state"], server["link"]) == ("active", "")
        assert weir.client("carol", password="carol secret", database="app2")
    wire.finish_login("alice", SECRET)


# -- concurrent and repeated logins ----------------------------------------------------------------


class Storm:
    """Many logins at the same time."""

    def __init__(self, weir, count):
        self.address = weir.address
        self.outcomes, self.wires = [], []
        self.threads = [threading.Thread(target=self.login) for _ in range(count)]

    def login(self):
        try:
            wire = Wire(self.address, limit=60)
            self.wires.append(wire)
            wire.login("alice", "app", password=SECRET)
            self.outcomes.append("in")
        except Exception as failure:  # identified by the number
            self.outcomes.append(str(failure))

    def start(self):
        for thread in self.threads:
            thread.start()
        return self

    def check_all_in(self):
        for thread in self.threads:
            thread.join(60)
        assert self.outcomes == ["in"] * len(self.threads)
        for wire in self.wires:
            wire.close()


def test_a_storm_is_one_query(gate, postgres):
    gate.add("alice", scram_secret(SECRET))
    weir = gate.start(client_login_timeout=60)
    with postgres.connect("app3") as lock:
        lock.execute("SELECT pg_advisory_lock(4711)")
        storm = Storm(weir, 200).start()
        wait_until(lambda: weir.log.count("login attempt: db=app user=alice") == 200, limit=60)
        assert gate.asked() == 0  # not committed yet
    storm.check_all_in()
    assert gate.asked() <= LOOPS


def test_a_storm_by_the_cache(gate):
    gate.add("alice", scram_secret(SECRET))
    weir = gate.start(auth_query_cache="1h")
    weir.client(password=SECRET)
    Storm(weir, 200).start().check_all_in()
    assert gate.asked() == 1


def test_a_changed_password_and_the_cache(gate):
    gate.add("alice", SECRET)
    weir = gate.start(auth_query_cache="1h")
    assert weir.client(password=SECRET).value("SELECT 1") == "1"
    gate.change("alice", "new secret")
    # the cached old secret still counts; the first failure discards it
    assert weir.client(password=SECRET).value("SELECT 1") == "1"
    assert told(refusal(weir.address, password="new secret")) == SASL_FAILED
    assert weir.client(password="new secret").value("SELECT 1") == "1"
    assert told(refusal(weir.address, password=SECRET)) == SASL_FAILED


def test_a_removed_user(gate):
    gate.add("alice", SECRET)
    weir = gate.start(auth_query_cache="1h")
    inside = weir.client(password=SECRET)
    gate.remove("alice")
    weir.reload()
    assert told(refusal(weir.address, password=SECRET)) == SASL_FAILED
    assert inside.value("SELECT 1") == "1"


def test_a_removed_user_without_a_cache(gate):
    gate.add("alice", SECRET)
    weir = gate.start()
    weir.client(password=SECRET)
    gate.remove("alice")
    assert told(refusal(weir.address, password=SECRET)) == SASL_FAILED


def test_answers_are_forgotten_in_time(gate):
    gate.add("alice", SECRET)
    weir = gate.start(auth_query_cache="0.1")
    weir.client(password=SECRET)
    gate.remove("alice")

    def is_refused():
        try:
            weir.client(password=SECRET)
        except Exception:
            return True
        return False

    wait_until(is_refused)


def test_keys_stay_over_a_reload(gate, postgres):
    """After a reload, a client that logged in with auth_query and SCRAM can still get a server."""
    weir = gate.start(auth_query=None, auth_user="postgres", auth_dbname=None)
    client = weir.client("scram_user", password="scram secret")
    assert client.value("SELECT 1") == "1"
    weir.reload()
    weir.admin("RECONNECT app")
    weir.wait_pool("app", "scram_user", sv_idle=0)
    assert client.value("SELECT current_user") == "scram_user"


def test_a_reload_in_the_middle(gate, postgres):
    """A login in progress continues with the settings that are then in effect."""
    gate.add("alice", SECRET)
    weir = gate.start()
    with postgres.connect("app3") as lock:
        lock.execute("SELECT pg_advisory_lock(4711)")
        same, other = weir.wire().startup(), weir.wire().startup("bob")
        wait_until(lambda: weir.pool("look", "asker")["sv_active"] == 2)
        weir.reload(userlist=dict(FILE, bob="bob secret"))
        late = weir.wire().startup()  # does not share a query started before
        wait_until(lambda: weir.pool("look", "asker")["sv_active"] == 3)
    assert same.finish_login("alice", SECRET).value("SELECT 1") == "1"
    assert late.finish_login("alice", SECRET).value("SELECT 1") == "1"
    assert other.finish_login("bob", "bob secret").value("SELECT 1") == "1"


def test_auth_query_taken_away_within_a_login(gate):
    gate.add("alice", SECRET)
    weir = gate.start(auth_type="plain")
    wire = weir.wire().startup()
    assert wire.read().type == "R"
    weir.reload(auth_user=None)
    wire.send(message("p", cstr(SECRET)))
    assert told(wire.read_refusal()) == PASSWORD_FAILED


# -- what goes wrong -------------------------------------------------------------------------------


def test_a_place_that_is_not_there(gate):
    weir = gate.start(auth_dbname="nowhere")
    refused = refusal(weir.address, password=SECRET)
    assert told(refused) == ("FATAL", "F0000", CONFIG_ERROR)
    weir.wait_log(r"auth_query cannot be run: auth_dbname \"nowhere\" is not in \[databases\]$")


def test_a_place_that_is_disabled(gate):
    weir = gate.start()
    weir.admin("DISABLE look")
    refused = refusal(weir.address, password=SECRET)
    assert refused.text == 'authentication database "look" is disabled'
    weir.admin("ENABLE look")


def test_the_place_may_not_be_the_console(make_pgweir):
    for status, settings in ((1, dict(auth_dbname="pgbouncer")),
                             (0, dict(databases={"app": "auth_dbname=pgbouncer"}))):
        weir = make_pgweir(**settings)
        done = weir.run("--check", weir.ini)
        assert done.returncode == status
        assert "the console's name" in done.stderr


def test_no_lookup_for_a_database_that_is_not_there(gate):
    gate.add("alice", SECRET)
    weir = gate.start()
    assert told(refusal(weir.address, database="nothing", password=SECRET)) == SASL_FAILED
    assert gate.asked() == 0


def test_an_auth_user_that_cannot_come_in(gate, postgres):
    """PostgreSQL's error about auth_user goes to the log only."""
    weir = gate.start(auth_user="md5_user", userlist=dict(FILE, md5_user="wrong"))
    refused = refusal(weir.address, password=SECRET)
    assert told(refused) == ("FATAL", "F0000", CONFIG_ERROR)
    weir.wait_log("auth_query failed, .*password authentication failed")


def test_the_console(gate):
    gate.add("alice", SECRET)
    weir = gate.start(admin_users="admin, alice")
    wire = weir.client(database="pgbouncer", password=SECRET)
    assert wire.query("SHOW VERSION").rows
    assert refusal(weir.address, "bob", "pgbouncer", password="x").text == "not allowed"
    weir.reload(auth_dbname=None)
    assert told(refusal(weir.address, database="pgbouncer", password=SECRET)) == SASL_FAILED


def test_a_server_that_hangs(gate, postgres):
    """client_login_timeout covers the whole login; no login shares a query that hangs without
    limit.
    """
    gate.add("alice", SECRET)
    weir = gate.start(client_login_timeout="0.5")
    with postgres.connect("app3") as lock:
        lock.execute("SELECT pg_advisory_lock(4711)")
        refused = weir.wire().startup().read_refusal()
        assert (refused.sqlstate, refused.text) in (("57P03", "client_login_timeout"),
                                                    ("57P03", CONFIG_ERROR))
        weir.wait_pool("look", "asker", sv_active=0, cl_active=0)
    assert weir.client(password=SECRET).value("SELECT 1") == "1"


@pytest.mark.one_loop("logins share a query within a loop")
def test_clients_that_disconnect_in_between(gate, postgres):
    gate.add("alice", SECRET)
    weir = gate.start()
    with postgres.connect("app3") as lock:
        lock.execute("SELECT pg_advisory_lock(4711)")
        first, second = weir.wire().startup(), weir.wire().startup()
        wait_until(lambda: weir.pool("look", "asker")["sv_active"] == 1)
        first.close()
        wait_until(lambda: "left before authentication" in
                   [row["reason"] for row in weir.admin("SHOW ERRORS")])
        assert weir.pool("look", "asker")["sv_active"] == 1
        assert "cl_login" in [row["state"] for row in weir.admin("SHOW SOCKETS")]
    second.finish_login("alice", SECRET)


def test_kill_of_the_place(gate, postgres):
    gate.add("alice", SECRET)
    weir = gate.start()
    with postgres.connect("app3") as lock:
        lock.execute("SELECT pg_advisory_lock(4711)")
        wire = weir.wire().startup()
        wait_until(lambda: weir.pool("look", "asker")["sv_active"] == 1)
        weir.admin("KILL look")
        assert told(wire.read_refusal()) == ("FATAL", "57P01", "database removed")
    weir.admin("RESUME look")
    assert weir.client(password=SECRET).value("SELECT 1") == "1"


def test_postgresql_restarts(private_postgres, make_pgweir):
    postgres = private_postgres()
    weir = make_pgweir(postgres=postgres, auth_type="scram-sha-256", auth_user="postgres",
                       userlist=FILE, server_login_retry="0.1", auth_query_cache="0").start()
    login = ("scram_user", "app")
    assert weir.client(*login, password="scram secret").value("SELECT 1") == "1"
    postgres.stop()
    wire = weir.wire().startup(*login)
    weir.wait_log("connect failed|connection refused|Connection refused")
    postgres.start()
    assert wire.finish_login("scram_user", "scram secret").value("SELECT 1") == "1"
    postgres.restart()  # the idle server for lookups was closed unnoticed
    assert weir.client(*login, password="scram secret").value("SELECT 1") == "1"


# -- a server that lies ----------------------------------------------------------------------------


def expect_question(server):
    return [server.expect(kind) for kind in "PBES"]


def test_what_is_sent(gate, fake_server):
    """The name is a bound parameter, never part of the query text; the startup packet has no client
    data.
    """
    fake = fake_server()
    weir = gate.start(auth_type="plain", databases={"app": "", "look": fake.entry})
    wire = weir.wire().startup("al'ice", "app", search_path="evil", options="-c work_mem=1MB")
    server = fake.accept()
    assert {"user": "asker", "database": "look"}.items() <= server.parameters.items()
    assert not {"search_path", "options", "work_mem"} & set(server.parameters)
    server.login()
    parse, bind, execute, _ = expect_question(server)
    assert parse.body == cstr("") + cstr(WHO) + b"\0\0"
    assert b"al'ice" in bind.body and b"al'ice" not in parse.body
    server.send(message("1"), message("2"), row("al'ice", SECRET), complete("SELECT 1"), ready())
    assert wire.read().type == "R"
    wire.send(message("p", cstr("wrong")))
    assert told(wire.read_refusal()) == PASSWORD_FAILED


LIES = {
    "an error without a SQLSTATE": [message("1"), message("E", b"SERROR\0Mno\0\0"), ready()],
    "an error behind the row": [message("1"), message("2"), row("alice", SECRET), error("no"),
                                ready()],
    "a row behind an error": [error("no"), row("alice", SECRET), complete("SELECT 1"), ready()],
    "no end": [message("1"), message("2"), row("alice", SECRET), ready()],
    "a broken row": [message("1"), message("2"), message("D", b"\0\2\0\0\0\5ali"),
                     complete("SELECT 1"), ready()],
    "a row that is cut": [message("1"), message("2"), message("D", b"\0\2"),
                          complete("SELECT 1"), ready()],
    "a zero in the name": [message("1"), message("2"), row(b"al\0ce", SECRET),
                           complete("SELECT 1"), ready()],
    "a row before all": [row("alice", SECRET), complete("SELECT 1"), ready()],
}


@pytest.mark.parametrize("name", LIES)
def test_a_server_that_lies(gate, fake_server, name):
    fake = fake_server()

    def lie(server):
        server.login()
        expect_question(server)
        server.send(*LIES[name])
        server.wait_closed()

    fake.serve(lie)
    weir = gate.start(auth_type="plain", databases={"app": "", "look": fake.entry})
    refused = refusal(weir.address, password=SECRET)
    assert refused.text == CONFIG_ERROR
    assert weir.client("carol", password="carol secret")


def test_no_secret_in_the_log(gate):
    gate.add("alice", SECRET)
    weir = gate.start(verbose=2, auth_query_cache="1h")
    weir.client(password=SECRET)
    refusal(weir.address, password="incorrect")
    assert SECRET not in weir.log and not re.search("asker secret", weir.log)
