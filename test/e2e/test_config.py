# SPDX-License-Identifier: ISC
"""Configuration files: what is accepted, what is refused and how, and all-or-nothing reloads."""

import os

import pytest

from .kit.wait import wait_until
from .kit.wire import Refused, refusal


def config(weir):
    return {row["key"]: row["value"] for row in weir.admin("SHOW CONFIG")}


def check(weir):
    return weir.run("--check", weir.ini)


@pytest.fixture
def weir(make_pgweir):
    return make_pgweir()


# -- --check --------------------------------------------------------------------------------------


def test_check_of_a_good_file(weir):
    done = check(weir)
    assert done.returncode == 0, done.stderr
    assert not os.path.exists(weir.socket_path)


BAD_LINES = {
    "unknown setting": ("pgbouncer", "no_such_setting = 1", "no_such_setting"),
    "not a number": ("pgbouncer", "default_pool_size = many", "default_pool_size"),
    "not a duration": ("pgbouncer", "server_lifetime = soon", "server_lifetime"),
    "negative duration": ("pgbouncer", "server_lifetime = -5", "server_lifetime"),
    "unknown unit": ("pgbouncer", "server_lifetime = 5 fortnights", "server_lifetime"),
    "unknown mode": ("pgbouncer", "pool_mode = quantum", "pool_mode"),
    "unknown auth_type": ("pgbouncer", "auth_type = telepathy", "auth_type"),
    "no equal sign": ("pgbouncer", "default_pool_size 5", ""),
    "unknown key of a database": ("databases", "app = hots=localhost", "hots"),
    "bad port": ("databases", "app = port=zero", "port"),
    "port 0": ("databases", "app = port=0", "port"),
    "unterminated quote": ("databases", "app = password='abc", ""),
    "empty value": ("databases", "app = port=1 host=", ""),
    "console's name": ("databases", "pgbouncer = host=localhost", "pgbouncer"),
    "unknown key of a user": ("users", "alice = favourite_colour=blue", "favourite_colour"),
    "unknown section": ("nonsense", "key = value", "nonsense"),
}


@pytest.mark.parametrize("section, line, names", BAD_LINES.values(), ids=BAD_LINES.keys())
def test_bad_lines_are_told_by_file_line_and_name(weir, section, line, names):
    text = weir.text() + f"\n[{section}]\n; the next line is bad\n{line}\n"
    number = len(text.splitlines()) if section != "nonsense" else len(text.splitlines()) - 2
    weir.configure(ini=text)
    done = check(weir)
    assert done.returncode == 1
    said = done.stderr + done.stdout
    assert f"{weir.ini}:{number}" in said, said
    assert names in said
    weir.may_fail = True
    assert weir.run(weir.ini).returncode == 1


@pytest.mark.parametrize("text, says", (
    ("", ""), ("[databases]\napp = host=localhost\n", ""), ("key = value\n", ""),
    ("[pgbouncer\n", ""), ("[pgbouncer]\n%include /nowhere/at/all\n", "/nowhere/at/all"),
))
def test_broken_files(weir, text, says):
    weir.configure(ini=text)
    done = check(weir)
    assert done.returncode == 1
    assert says in done.stderr + done.stdout


def test_a_file_that_is_not_there(weir):
    done = weir.run("--check", weir.ini + ".not")
    assert done.returncode == 1
    assert weir.ini + ".not" in done.stderr + done.stdout


def test_one_is_not_many(make_pgweir):
    weir = make_pgweir(databases={"app": ""}, userlist={"admin": "secret"})
    assert check(weir).stdout == f"{weir.ini}: the configuration is good: 1 database, 1 user\n"
    weir.configure(databases={"app": "", "*": "", "b": ""}, userlist={"admin": "a", "alice": "b"})
    assert check(weir).stdout == \
        f"{weir.ini}: the configuration is good: 2 databases and *, 2 users\n"


# -- warnings -------------------------------------------------------------------------------------


def test_a_warning_shows_in_check_at_start_and_at_reload(make_pgweir):
    weir = make_pgweir()
    weir.settings["logfile"] = weir.dir + "/own.log"
    text, app2 = weir.text(), weir.sections["databases"]["app2"]
    weir.configure(ini=text + f"[databases]\napp = {app2} dbname=app2\n")
    says = f'{weir.ini}:{len(text.splitlines()) + 2}: database "app" is defined twice'
    done = check(weir)
    assert done.returncode == 0
    assert f"warning: {says}" in done.stderr
    assert "configuration is good" in done.stdout

    weir.start()
    with open(weir.dir + "/own.log", encoding="utf-8") as file:
        assert f"WARNING {says}" in file.read()
    before = len(weir.log)
    result = weir.ask_admin("RELOAD")
    assert not result.errors
    assert any(f"warning: {says}" in notice["M"] for notice in result.notices)
    weir.wait_log("WARNING .*is defined twice", since=before)
    assert weir.client().value("SELECT current_database()") == "app2"


def test_values_out_of_range(make_pgweir):
    """PgBouncer starts with such values, so pgweir must start with them too."""
    weir = make_pgweir(default_pool_size=-1, pkt_buf=100, scram_iterations=0, verbose=5,
                       databases={"app": "pool_size=3000000000"})
    done = check(weir)
    assert done.returncode == 0, done.stderr
    for name in ("default_pool_size", "pkt_buf", "scram_iterations", "verbose"):
        assert f'setting "{name}": must be ' in done.stderr
    weir.start()
    now = config(weir)
    assert [now[name] for name in ("default_pool_size", "pkt_buf", "scram_iterations", "verbose")] \
        == ["0", "512", "1", "3"]
    assert weir.client().value("SELECT 1") == "1"
    assert 'WARNING ' + weir.ini + ':' in weir.log and 'database "app": pool_size: must' in weir.log
    result = weir.ask_admin("SET verbose = 7")
    assert result.error and "must be from 0 to 3" in result.notices[0]["M"]


def test_auth_dbname_of_an_entry_that_is_the_console(make_pgweir):
    """Only logins that need the query fail."""
    weir = make_pgweir(auth_type="plain", auth_user="alice",
                       databases={"app": "auth_dbname=pgbouncer", "*": ""})
    done = check(weir)
    assert done.returncode == 0 and 'auth_dbname: "pgbouncer" is the console\'s name' in done.stderr
    weir.start()
    assert weir.client(password="alice secret").value("SELECT 1") == "1"
    refused = refusal(weir.address, "unheard_of", password="x")
    assert (refused.sqlstate, refused.text) == ("F0000", "bouncer config error")
    assert "pgbouncer" not in {row["database"] for row in weir.admin("SHOW POOLS")
                               if row["user"] != "pgbouncer"}


# -- grammar --------------------------------------------------------------------------------------


def test_comments_blanks_and_order(make_pgweir):
    weir = make_pgweir()
    text = weir.text().replace("[databases]", "; one\n# two\n\n   ; three\n[databases]")
    text = text.replace(" = ", "   =    ").replace("listen_addr", "  listen_addr")
    sections = text.split("[pgbouncer]")
    weir.configure(ini="[pgbouncer]" + sections[1] + sections[0])
    weir.start()
    assert weir.client().value("SELECT 1") == "1"


def test_the_section_under_our_own_name(make_pgweir):
    weir = make_pgweir()
    weir.configure(ini=weir.text().replace("[pgbouncer]", "[pgweir]"))
    weir.start()
    assert weir.client().value("SELECT 1") == "1"


def test_a_section_that_comes_again_goes_on(make_pgweir):
    weir = make_pgweir()
    weir.configure(ini=weir.text() + "[pgbouncer]\ndefault_pool_size = 6\n[databases]\nmore ="
                   " dbname=app\n[pgbouncer]\ndefault_pool_size = 7\n")
    weir.start()
    assert config(weir)["default_pool_size"] == "7"
    assert config(weir)["auth_type"] == "trust"
    assert {"app", "more"} <= {row["name"] for row in weir.admin("SHOW DATABASES")}


def test_include(make_pgweir, account):
    weir = make_pgweir()
    account.write(f"{weir.dir}/more.ini", "default_pool_size = 8\n[databases]\nmore = dbname=app\n")
    weir.configure(ini=weir.text() + f"%include {weir.dir}/more.ini\nfurther = dbname=app2\n")
    weir.start()
    assert config(weir)["default_pool_size"] == "8"
    assert {"app", "more", "further"} <= {row["name"] for row in weir.admin("SHOW DATABASES")}


def test_include_relative_to_the_working_directory(make_pgweir, account):
    weir = make_pgweir()
    account.write(f"{weir.dir}/more.ini", "default_pool_size = 8\n")
    weir.configure(ini=weir.text() + "%include more.ini\n")
    weir.start()
    assert config(weir)["default_pool_size"] == "8"


def test_errors_in_an_included_file_name_that_file(make_pgweir, account):
    weir = make_pgweir()
    account.write(f"{weir.dir}/more.ini", "\n\nnonsense_setting = 8\n")
    weir.configure(ini=weir.text() + f"%include {weir.dir}/more.ini\n")
    done = check(weir)
    assert done.returncode == 1
    assert f"{weir.dir}/more.ini:3" in done.stderr + done.stdout


def test_include_has_an_end(make_pgweir):
    weir = make_pgweir()
    weir.configure(ini=weir.text() + f"%include {weir.ini}\n")
    assert check(weir).returncode == 1


VALUES = [
    ("server_idle_timeout", "500ms", "0.5"), ("server_idle_timeout", "2min", "120"),
    ("server_idle_timeout", "1h", "3600"), ("server_idle_timeout", "1d", "86400"),
    ("server_idle_timeout", "10s", "10"), ("server_idle_timeout", "250000us", "0.25"),
    ("server_idle_timeout", "1.5", "1.5"), ("server_idle_timeout", "1000000", "1e+06"),
    ("server_round_robin", "on", "1"), ("server_round_robin", "true", "1"),
    ("server_round_robin", "off", "0"), ("server_round_robin", "false", "0"),
    ("default_pool_size", "0x10", "16"), ("default_pool_size", "010", "8"),
    ("unix_socket_mode", "0700", "448"),
    ("max_packet_size", "1MB", "1048576"), ("tcp_socket_buffer", "64kB", "65536"),
    ("pool_mode", "TRANSACTION", "transaction"), ("auth_type", "Trust", "trust"),
]


@pytest.mark.parametrize("name, written, shown", VALUES)
def test_values(pgweir, name, written, shown):
    assert config(pgweir(**{name: written}))[name] == shown


def test_quoted_values_of_databases(pgweir, postgres):
    weir = pgweir(databases={"app": "dbname = 'app' user='bob' connect_query='SELECT ''it''''s'''"})
    assert weir.client().value("SELECT current_user") == "bob"


# -- the userlist ---------------------------------------------------------------------------------


def test_userlist_lines(make_pgweir, account):
    weir = make_pgweir(auth_type="plain")
    account.write(weir.userlist, '; a comment\n\n"admin" "admin secret"\n  "alice"   "s""q" more\n'
                  '"bo""b" "x"\n', 0o600)
    weir.start()
    weir.client(password='s"q')
    assert {"admin", "alice", 'bo"b'} <= {row["name"] for row in weir.admin("SHOW USERS")}


@pytest.mark.parametrize("line", ('"alice', '"alice" secret', 'alice "secret"', '"alice"', "# x",
                                  '"" "x"', '"alice" "unterminated'))
def test_a_broken_userlist_is_told(make_pgweir, account, line):
    weir = make_pgweir()
    account.write(weir.userlist, f'"admin" "admin secret"\n{line}\n', 0o600)
    done = check(weir)
    assert done.returncode == 1
    assert f"{weir.userlist}:2" in done.stderr + done.stdout


def test_a_missing_userlist(make_pgweir):
    weir = make_pgweir(auth_file="/nowhere/userlist.txt")
    done = check(weir)
    assert "/nowhere/userlist.txt" in done.stderr + done.stdout


def counts(weir):
    """The numbers of users and rules that RELOAD reports."""
    result = weir.ask_admin("RELOAD")
    assert not result.errors
    return [notice["M"] for notice in result.notices if notice["M"].startswith("auth_")]


def against(weir):
    done = weir.run("--check", "--against", weir.socket_path, weir.ini)
    assert done.returncode == 0, done.stderr
    return [line for line in done.stdout.splitlines() if line.startswith("auth_")]


def test_users_that_come_and_go(pgweir):
    weir = pgweir()
    users = dict(weir.users)
    assert counts(weir) == [] and against(weir) == []
    users.pop("bob")
    users.update(alice="another", newcomer="x", further="y")
    weir.configure(userlist=users)
    assert against(weir) == [f"auth_file: {len(users)} users (2 new)"]
    assert counts(weir) == [f"auth_file: {len(users)} users (2 new, 1 gone, 1 changed)"]
    weir.wait_log(rf"LOG auth_file: {len(users)} users \(2 new, 1 gone, 1 changed\)")
    weir.wait_log("changed in the configuration: auth_file")
    assert counts(weir) == [] and against(weir) == []


def test_rules_that_come_and_go(make_pgweir):
    weir = make_pgweir()
    rules = ["local all all trust", "host all all 127.0.0.1/32 trust", 'host "a b",c all all md5',
             "local all all peer"]
    weir.account.write(f"{weir.dir}/hba.conf", "\n".join(rules[:3]) + "\n")
    weir.configure(auth_type="hba", auth_hba_file=f"{weir.dir}/hba.conf").start()
    assert counts(weir) == [] and against(weir) == []
    weir.account.write(f"{weir.dir}/hba.conf",
                       "\n".join([*rules[:2], rules[3], rules[1], "host x all all reject"]) + "\n")
    assert against(weir) == ["auth_hba_file: 5 rules (3 new, 1 gone)"]
    assert counts(weir) == ["auth_hba_file: 5 rules (3 new, 1 gone)"]
    assert counts(weir) == [] and against(weir) == []


# -- reload ---------------------------------------------------------------------------------------


def test_a_failed_reload_changes_nothing(pgweir):
    weir = pgweir(default_pool_size=5, pool_mode="transaction", query_wait_timeout=77,
                  databases={"app": "", "app2": ""})
    before, databases = config(weir), known_databases(weir)
    good = weir.text()
    for text in (
        good.replace("default_pool_size = 5", "default_pool_size = 6\npool_mode = nonsense"),
        good.replace("[pgbouncer]", "[pgbouncer]\nnonsense = 1"),
        good.replace("app2 = ", "new = dbname=app\napp2 = port=none "),
        good + "\n[users]\nalice = nonsense=1\n",
        "", "[databases]\n",
    ):
        weir.configure(ini=text)
        with pytest.raises(Refused) as refused:
            weir.admin("RELOAD")
        assert refused.value.sqlstate == "F0000"
        assert refused.value.text == "RELOAD failed, see logs for additional details"
        assert config(weir) == before
        assert known_databases(weir) == databases
        assert weir.client().value("SELECT 1") == "1"


def known_databases(weir):
    return [(row["name"], row["host"], row["port"], row["database"], row["pool_size"])
            for row in weir.admin("SHOW DATABASES")]


def test_a_failed_reload_keeps_the_users(pgweir, account):
    weir = pgweir(auth_type="plain")
    account.write(weir.userlist, '"admin" "other"\n"broken\n', 0o600)
    with pytest.raises(Refused):
        weir.admin("RELOAD")
    weir.client(password="alice secret")
    weir.wait_log("userlist.txt:2")


def test_a_deleted_line_returns_to_the_default(pgweir):
    weir = pgweir(default_pool_size=5, verbose=1)
    weir.reload(default_pool_size=None, verbose=None)
    now = config(weir)
    assert now["default_pool_size"] == "20"
    assert not now.get("verbose") or now["verbose"] == "0"


def test_a_new_database(pgweir):
    weir = pgweir(databases={"app": ""})
    assert refusal(weir.address, database="app2").sqlstate == "3D000"
    weir.reload(databases={"app": "", "app2": ""})
    assert weir.client(database="app2").value("SELECT 1") == "1"


def test_a_removed_database(pgweir, postgres):
    weir = pgweir(databases={"app": "", "app2": ""})
    victim, other = weir.client("bob"), weir.client(database="app2")
    victim.query("BEGIN")
    weir.reload(databases={"app2": ""})
    refused = victim.read_refusal()
    assert (refused.sqlstate, refused.text) == ("57P01", "database removed")
    assert other.value("SELECT 1") == "1"
    assert refusal(weir.address).sqlstate == "3D000"
    wait_until(lambda: not postgres.backends("bob"))


def test_the_fallback_can_be_removed(pgweir):
    weir = pgweir(databases={"*": ""})
    weir.client(database="app")
    weir.reload(databases={"app2": ""})
    assert refusal(weir.address, database="app3").sqlstate == "3D000"


@pytest.mark.parametrize("change", ("dbname=app2", "connect_query='SELECT 1'"))
def test_changed_entries_recycle_their_servers(pgweir, change):
    weir = pgweir(databases={"app": ""}, pool_mode="transaction")
    client = weir.client()
    before = client.value("SELECT pg_backend_pid()")
    weir.reload(databases={"app": change})
    assert client.value("SELECT pg_backend_pid()") != before


def test_unchanged_entries_keep_their_servers(pgweir):
    weir = pgweir(databases={"app": ""}, pool_mode="transaction")
    client = weir.client()
    before = client.value("SELECT pg_backend_pid()")
    weir.reload(databases={"app": "pool_size=7"}, default_pool_size=9)
    assert client.value("SELECT pg_backend_pid()") == before


def test_transactions_survive_a_reload(pgweir):
    weir = pgweir(databases={"app": ""}, pool_mode="transaction")
    client = weir.client()
    client.query("BEGIN")
    before = client.value("SELECT pg_backend_pid()")
    weir.reload(databases={"app": "dbname=app2"})
    assert client.value("SELECT pg_backend_pid()") == before
    assert client.query("COMMIT").tags == ["COMMIT"]
    assert client.value("SELECT current_database()") == "app2"


def test_pool_mode_changes_at_reload(pgweir):
    weir = pgweir(pool_mode="session", default_pool_size=1)
    weir.reload(pool_mode="transaction")
    first, second = weir.client(), weir.client()
    assert first.value("SELECT pg_backend_pid()") == second.value("SELECT pg_backend_pid()")


def test_users_lines_removed_return_to_the_default(pgweir):
    weir = pgweir(users={"alice": "pool_size=1"})
    weir.reload(users={})
    (row,) = [row for row in weir.admin("SHOW USERS") if row["name"] == "alice"]
    assert row["pool_size"] == ""


def test_reload_under_load(pgweir):
    weir = pgweir(pool_mode="transaction", default_pool_size=2)
    clients = [weir.client() for _ in range(20)]
    from .kit.wire import query
    for turn in range(10):
        for number, client in enumerate(clients):
            client.send(query(f"SELECT {number}"))
        weir.reload(default_pool_size=2 + turn % 2, databases={"app": f"pool_size={1 + turn % 3}"})
        for number, client in enumerate(clients):
            assert client.read_result().rows == [[str(number)]]


def test_the_largest_reserve(pgweir):
    """The sum of the two limits is more than an int holds."""
    weir = pgweir(pool_mode="transaction", default_pool_size=1, reserve_pool_size=2147483647,
                  reserve_pool_timeout="0.1")
    first, second = weir.client(), weir.client()
    first.query("BEGIN")
    assert second.value("SELECT 'from the reserve'") == "from the reserve"
    weir.reload(default_pool_size=2147483647)
    assert second.value("SELECT 'still'") == "still"
    expected = weir.wait_log(r"max expected fd use: (\d+)").group(1)
    assert int(expected) > 2147483647


# -- what the environment adds --------------------------------------------------------------------


def sources(weir):
    return {row["key"]: (row["value"], row["source"]) for row in weir.admin("SHOW SOURCES")}


def test_the_environment_overrides_the_file(make_pgweir, account):
    weir = make_pgweir(default_pool_size=5, pool_mode="session")
    extra = account.write(f"{weir.dir}/extra.ini",
                          "[databases]\napp = dbname=app2 host=127.0.0.1 port=%d\n"
                          "[pgbouncer]\ndefault_pool_size = 6\nmin_pool_size = 1\n"
                          % weir.postgres.port)
    env = {"PGWEIR_EXTRA": extra, "PGWEIR_SET_min_pool_size": "2",
           "PGWEIR_SET_pool_mode": "transaction"}
    done = weir.run("--check", weir.ini, env=env)
    assert (done.returncode, done.stderr) == (0, "")
    weir.start(env=env)
    assert weir.warnings == []
    lines = weir.text().splitlines()
    assert {name: sources(weir)[name] for name in
            ("default_pool_size", "min_pool_size", "pool_mode", "auth_type", "query_timeout")} == {
        "default_pool_size": ("6", f"{extra}:4"),
        "min_pool_size": ("2", "PGWEIR_SET_min_pool_size"),
        "pool_mode": ("transaction", "PGWEIR_SET_pool_mode"),
        "auth_type": ("trust", f"{weir.ini}:{lines.index('auth_type = trust') + 1}"),
        "query_timeout": ("0", "default")}
    assert weir.client().value("SELECT current_database()") == "app2"
    limits = {(row["limit"], row["database"]): row["source"] for row in weir.admin("SHOW LIMITS")}
    assert limits["pool_size", "app"] == f"{extra}:4"
    weir.admin("SET min_pool_size = 0")
    assert sources(weir)["min_pool_size"] == ("0", "SET")
    # A RELOAD reads the second file again; the variables are those of the start.
    account.write(extra, "[pgbouncer]\nmin_pool_size = 1\ndefault_pool_size = 7\n")
    weir.admin("RELOAD")
    assert sources(weir)["default_pool_size"] == ("7", f"{extra}:3")
    assert sources(weir)["min_pool_size"] == ("2", "PGWEIR_SET_min_pool_size")
    assert weir.client().value("SELECT current_database()") == "app"
    # Nothing of it is valid, nothing of it is taken.
    account.write(extra, "[pgbouncer]\nmin_pool_size = 3\ndefault_pool_size = many\n")
    with pytest.raises(Refused):
        weir.admin("RELOAD")
    weir.wait_log(f'{extra}:3: setting "default_pool_size"')
    assert sources(weir)["default_pool_size"] == ("7", f"{extra}:3")


@pytest.mark.parametrize("variable, value, says", (
    ("PGWEIR_SET_default_pool_size", "many",
     'PGWEIR_SET_default_pool_size: setting "default_pool_size": "many" is not a whole number'),
    ("PGWEIR_SET_default_pool_siz", "5",
     'PGWEIR_SET_default_pool_siz: unknown setting "default_pool_siz"'),
    ("PGWEIR_SET_", "5", "PGWEIR_SET_: unknown setting"),
    ("PGWEIR_SET_client_tls_sslmode", "verify-full",
     "PGWEIR_SET_client_tls_sslmode: client_tls_sslmode = verify-full needs client_tls_ca_file"),
    ("PGWEIR_EXTRA", "/nowhere/at/all", "PGWEIR_EXTRA: cannot open /nowhere/at/all: No such file"),
))
def test_errors_name_the_variable(weir, variable, value, says):
    for args in (("--check", weir.ini), (weir.ini,)):
        done = weir.run(*args, env={variable: value})
        assert done.returncode == 1
        assert says in done.stderr, done.stderr
    weir.may_fail = True


def test_warnings_name_the_variable(weir):
    done = weir.run("--check", weir.ini, env={"PGWEIR_SET_default_pool_size": "-5"})
    assert done.returncode == 0
    assert 'warning: PGWEIR_SET_default_pool_size: setting "default_pool_size"' in done.stderr
