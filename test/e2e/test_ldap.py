# SPDX-License-Identifier: ISC
"""auth_type = ldap and the HBA method ldap: an LDAP server checks the password."""

import os

import pytest

from .kit.account import drop_place
from .kit.directory import (BASE, PEOPLE, RECORD_HEAD, SEARCHER, SEARCHER_SECRET, Directory, Gate,
                            Staller, find_slapd)
from .kit.outside import check_passwords, told
from .kit.wait import wait_until
from .kit.wire import cstr, message

FAILED = ("28000", "LDAP authentication failed")

SIMPLE = f'ldapprefix=uid= ldapsuffix=",{PEOPLE}"'
SEARCH = f'ldapbasedn="{PEOPLE}"'
QUOTED_SECRET = SEARCHER_SECRET.replace('"', '""')

WAYS = {
    "simple": SIMPLE,
    "search": SEARCH,
    "search as somebody": f'ldapbasedn={PEOPLE} ldapbinddn="{SEARCHER}" '
                          f'ldapbindpasswd="{QUOTED_SECRET}" ldapsearchattribute=uid',
    "filter": f"{SEARCH} ldapsearchfilter=(|(uid=$username)(mail=$username))",
}


@pytest.fixture(scope="module")
def directory(account, place):
    if not find_slapd():
        pytest.skip("there is no slapd (Debian: slapd)")
    server = Directory(account, os.path.join(place, "ldap")).start()
    yield server
    server.stop()
    drop_place(server.dir)


@pytest.fixture
def gates():
    made = []

    def make(port, **kw):
        made.append(Gate(port, **kw))
        return made[-1]

    yield make
    for gate in made:
        gate.close()


@pytest.fixture(autouse=True)
def built(make_pgweir, request):
    if request.node.name.startswith("test_without"):
        return
    probe = make_pgweir(auth_type="ldap", auth_ldap_options="ldapserver=a ldapprefix=b")
    said = probe.run("--check", probe.ini)
    if "built without LDAP" in said.stderr + said.stdout:
        pytest.skip("pgweir was built without LDAP (configure --with-ldap)")


@pytest.fixture
def make(make_pgweir, directory):
    """Configures a daemon that uses the directory."""

    def configure(options=SIMPLE, server="ldapserver=127.0.0.1", port=None, **settings):
        settings.setdefault("auth_ldap_options",
                            f"{server} ldapport={port or directory.port} {options}")
        settings.setdefault("databases", {"app": "", "forced": "dbname=app user=alice"})
        return make_pgweir(auth_type="ldap", userlist={}, **settings)

    return configure


@pytest.fixture
def weir(make):
    def start(*args, trusted="ca", **kw):
        daemon = make(*args, **kw)
        return daemon.start(env={"LDAPTLS_CACERT": f"{make.directory.dir}/{trusted}.crt"})

    return start


@pytest.fixture(autouse=True)
def remember(request, make, directory):
    make.directory = directory


# -- passwords ------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
def test_passwords(weir, way):
    weir = weir(WAYS[way])
    check_passwords(weir, FAILED)


@pytest.mark.parametrize("way", WAYS)
def test_names_mean_nothing(weir, way):
    weir = weir(WAYS[way])
    odd = weir.client("o,brien*(x)", "forced", password="odd secret")
    assert odd.value("SELECT current_user") == "alice"
    for name in ("*", "alice*", "a*", "alice)(uid=*", "*)(uid=alice", "alice)", "(", "\\", "\\2a",
                 "alice,ou=people", f"alice,{PEOPLE}", "alice+cn=alice", "#04", "alice\n", "ali\x01",
                 "=", "cn=alice", ";", "<alice>", '"alice"', "\\61lice", "alice\\00", "é", "a" * 127):
        assert told(weir, name, "forced", password="alice secret") == FAILED, name
    assert told(weir, "a" * 128, "forced", password="alice secret")[1] == "username too long"
    assert weir.process.poll() is None


def test_more_than_one_entry(weir, directory):
    daemon = weir(f"ldapbasedn={BASE}")
    assert told(daemon, "bob", password="bob secret") == FAILED
    daemon.wait_log("login refused, ldap: LDAP: more than one entry is this user's")
    daemon.reload(auth_ldap_options=f"ldapport={directory.port} ldapserver=127.0.0.1 "
                  f"ldapbasedn={BASE} ldapsearchfilter=(&(uid=$username)(ou:dn:=others))",
                  admin_users="admin")
    daemon.client("bob", password="bob secret")


def test_the_searcher_must_come_in(weir):
    daemon = weir(f"{SEARCH} ldapbinddn={SEARCHER} ldapbindpasswd=wrong")
    assert told(daemon, password="alice secret") == FAILED
    daemon.wait_log("login refused, ldap: LDAP, bind as ldapbinddn: Invalid credentials")


def test_urls(weir, directory):
    daemon = weir(auth_ldap_options=f"ldapurl=ldap://127.0.0.1:{directory.port}/"
                  f"{BASE.replace(',', '%2C')}?uid?sub")
    daemon.client(password="alice secret")
    assert told(daemon, password="no") == FAILED
    daemon.configure(auth_ldap_options=f"ldapurl=\"ldap://127.0.0.1:{directory.port}/"
                     f"{PEOPLE}?uid?one\"")
    daemon.signal(1)
    daemon.wait_log("got SIGHUP")
    daemon.client(password="alice secret")


def test_the_console(weir):
    daemon = weir()
    assert daemon.client("admin", "pgbouncer", password="admin secret").query("SHOW VERSION").rows
    assert told(daemon, "admin", "pgbouncer", "wrong") == FAILED
    assert told(daemon, "alice", "pgbouncer", "alice secret") == ("28000", "not allowed")


def test_secrets_are_shown_nowhere(weir):
    daemon = weir(WAYS["search as somebody"], verbose=3)
    daemon.client(password="alice secret")
    told(daemon, password="not her secret")
    config = {row["key"]: row["value"] for row in
              daemon.client("admin", "pgbouncer", password="admin secret").query("SHOW CONFIG").dicts()}
    assert "contains a password" in config["auth_ldap_options"]
    for secret in (SEARCHER_SECRET, QUOTED_SECRET, "sear", "alice secret", "not her secret"):
        assert secret not in daemon.log
        assert not any(secret in (value or "") for value in config.values())


# -- TLS ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ("StartTLS", "ldaps", "url"))
def test_tls(weir, directory, how):
    options = {
        "StartTLS": f"ldapserver=127.0.0.1 ldapport={directory.port} ldaptls=1 {SIMPLE}",
        "ldaps": f"ldapserver=127.0.0.1 ldapport={directory.tls_port} ldapscheme=ldaps {SIMPLE}",
        "url": f"ldapurl=ldaps://127.0.0.1:{directory.tls_port}/{PEOPLE}?uid?sub",
    }[how]
    good = weir(auth_ldap_options=options)
    good.client("scram_user", password="scram secret").value("SELECT 1")
    assert told(good, password="wrong") == FAILED
    strict = weir(auth_ldap_options=options, trusted="other")
    assert told(strict, password="alice secret") == FAILED
    strict.wait_log("login refused, ldap: ")


@pytest.mark.parametrize("tls", ("ldaptls=1", "ldapscheme=ldaps"))
def test_a_handshake_that_never_comes(weir, gates, directory, tls):
    gate = gates(directory.port)
    daemon = weir(f"{tls} {SIMPLE}", port=gate.port, client_login_timeout=3)
    wire = ask(daemon)
    assert wire.read_refusal().text in ("client_login_timeout", FAILED[1])
    wait_until(lambda: gate.is_left)
    daemon.configure(auth_ldap_options=f"ldapserver=127.0.0.1 ldapport={directory.port} {SIMPLE}")
    daemon.signal(1)
    daemon.wait_log("got SIGHUP")
    daemon.client(password="alice secret").value("SELECT 1")


@pytest.mark.parametrize("how", (dict(), dict(said=RECORD_HEAD), dict(said=RECORD_HEAD, drops=True)),
                         ids=("silence", "half a record", "drop by drop"))
def test_a_handshake_that_stalls_behind_start_tls(make, how):
    """All LDAP threads are blocked, but nothing else is; client_login_timeout frees them."""
    staller = Staller(**how)
    daemon = make(auth_ldap_options=None)
    hba(daemon, f"host app alice all ldap ldapserver=127.0.0.1 ldapport={staller.port} ldaptls=1 "
                f"{SIMPLE}\nhost all all all trust\n")
    daemon.configure(userlist={"carol": "x", "admin": "admin secret"}, client_login_timeout=3)
    daemon.start()
    try:
        stuck = [ask(daemon) for _ in range(8)]
        wait_until(lambda: staller.stalled == len(stuck), what="all of them in the handshake")
        assert daemon.client("carol").value("SELECT 1") == "1"
        for wire in stuck:
            # Both have the same limit; either may be first.
            assert wire.read_refusal().text in ("client_login_timeout", FAILED[1])
        wait_until(lambda: staller.left == len(stuck), what="the threads gave up")
        assert daemon.client("carol").value("SELECT 1") == "1"
    finally:
        staller.close()


# -- servers --------------------------------------------------------------------------------------


def test_the_next_server(weir, gates, directory):
    """The first LDAP server is down."""
    daemon = weir(server='ldapserver="127.0.0.2 127.0.0.1"')
    daemon.client(password="alice secret").value("SELECT 1")
    assert told(daemon, password="wrong") == FAILED


def test_what_a_server_says_holds(weir, gates, directory):
    """A password that the first server refuses is not sent to the next one."""
    other = gates(1, host="127.0.0.2")
    directory_gate = gates(directory.port)
    directory_gate.open()
    daemon = weir(server='ldapserver="127.0.0.1 127.0.0.2"', port=directory_gate.port)
    assert told(daemon, password="wrong") == FAILED
    assert other.waiting == 0


def test_no_server(weir, gates):
    gate = gates(1)
    gate.close()
    daemon = weir(port=gate.port)
    assert told(daemon, password="alice secret") == FAILED
    daemon.wait_log("login refused, ldap: LDAP, .*: Can't contact LDAP server")


def ask(weir, password="alice secret", user="alice"):
    """A login whose password has been sent."""
    wire = weir.wire()
    wire.startup(user, "app")
    assert wire.read().type == "R"
    wire.send(message("p", cstr(password)))
    return wire


def hba(weir, rules):
    path = weir.account.write(f"{weir.dir}/hba.conf", rules)
    return weir.configure(auth_type="hba", auth_hba_file=path)


def test_a_slow_server_holds_nobody_up(make, gates, directory):
    gate = gates(directory.port)
    daemon = make(auth_ldap_options=None)
    hba(daemon, f'host app alice,scram_user all ldap ldapserver=127.0.0.1 ldapport={gate.port} '
                f'{SIMPLE}\nhost all all all trust\n')
    daemon.configure(userlist={"carol": "x", "admin": "admin secret"}).start()
    waiting = [ask(daemon) for _ in range(30)]
    wait_until(lambda: gate.waiting == 8)
    assert daemon.client("carol").value("SELECT 1") == "1"
    gone, waiting = waiting[:10], waiting[10:]
    for wire in gone:
        wire.close()
    wait_until(lambda: daemon.log.count("client unexpected eof") == len(gone))
    gate.open()
    for wire in waiting:
        wire.finish_login("alice")
        assert wire.value("SELECT current_user") == "alice"
    lists = {row["list"]: row["items"] for row in daemon.admin("SHOW LISTS")}
    assert lists["login_clients"] == 0


def test_a_dead_server_costs_the_login_time_at_most(weir, gates, directory):
    gate = gates(directory.port)
    daemon = weir(port=gate.port, client_login_timeout=1)
    waiting = [ask(daemon) for _ in range(12)]
    for wire in waiting:
        refused = wire.read_refusal().text  # either may be first: both have the same limit
        assert refused in ("client_login_timeout", "LDAP authentication failed")
    # then its threads are free for others
    daemon.configure(auth_ldap_options=f"ldapserver=127.0.0.1 ldapport={directory.port} {SIMPLE}",
                     client_login_timeout=30)
    daemon.signal(1)
    daemon.wait_log("got SIGHUP")
    daemon.client(password="alice secret").value("SELECT 1")


def test_the_end_does_not_wait_for_a_server(weir, gates, directory):
    gate = gates(directory.port)
    daemon = weir(port=gate.port, client_login_timeout=0)
    ask(daemon)
    wait_until(lambda: gate.waiting == 1)
    daemon.signal(3)
    assert daemon.wait_exit() == 0


def test_a_reload_meanwhile(weir, gates, directory):
    gate = gates(directory.port)
    daemon = weir(port=gate.port)
    wire = ask(daemon)
    wait_until(lambda: gate.waiting == 1)
    daemon.configure(auth_ldap_options=f"ldapserver=127.0.0.1 ldapport={directory.port} {SEARCH}")
    daemon.signal(1)
    daemon.wait_log("got SIGHUP")
    daemon.client(password="alice secret")  # with the current settings
    gate.open()
    refused = wire.read_refusal()
    assert (refused.sqlstate, refused.text) == (
        "28000", "the rules of logins have changed meanwhile, try again")


# -- HBA ------------------------------------------------------------------------------------------


def test_rules(make, directory):
    port = directory.port
    daemon = make(auth_ldap_options=None)
    hba(daemon, "host pgbouncer all all trust\n"
        f'host app plain_user all ldap ldapserver=127.0.0.1 ldapport={port} ldapprefix="uid=" '
        f'ldapsuffix=",{PEOPLE}"\n'
        f"host app all all ldap ldapserver=127.0.0.1 ldapport={port} ldapbasedn={PEOPLE} "
        f'ldapbinddn="{SEARCHER}" "ldapbindpasswd={QUOTED_SECRET}"\n')
    daemon.configure(userlist={"admin": "admin secret"}).start()
    for user in ("plain", "scram"):
        daemon.client(f"{user}_user", password=f"{user} secret").value("SELECT 1")
        assert told(daemon, f"{user}_user", password="wrong") == FAILED
    assert told(daemon, "mallory", password="x") == FAILED
    shown = [row["options"] for row in daemon.admin("SHOW HBA")]
    assert shown[0] is None and "ldapprefix=uid=" in shown[1]
    assert "ldapbindpasswd=***" in shown[2] and "sear" not in shown[2].replace("searcher", "")


def test_a_learned_password_outlives_a_reload(weir):
    """Connected clients can still get new servers after a RELOAD."""
    daemon = weir(pool_mode="transaction", server_lifetime=0)
    client = daemon.client("scram_user", password="scram secret")
    assert client.value("SELECT 1") == "1"
    daemon.client("admin", "pgbouncer", password="admin secret").query("RELOAD")
    assert client.value("SELECT 2") == "2"


# -- the file -------------------------------------------------------------------------------------

BROKEN = {
    "": "needs auth_ldap_options",
    "ldapserver=a": "needs ldapprefix, ldapsuffix or ldapbasedn",
    "ldapprefix=a": "needs ldapserver or ldapurl",
    f"ldapserver=a ldapprefix=b {SEARCH}": "cannot be combined with search options",
    "ldapserver=a ldapbasedn=b ldapsearchfilter=(uid=x)": "does not contain $username",
    "ldapserver=a ldapbasedn=b ldapbinddn=c": "must both be set",
    "ldapserver=a ldapprefix=b ldaptls=2": "ldaptls must be 0 or 1",
    "ldapserver=a ldapprefix=b ldapbindpasswd=two words": "LDAP option 4 contains no =",
    'ldapserver=a ldapprefix="b': "unterminated quote",
}


@pytest.mark.parametrize("options", BROKEN)
def test_broken_options(make, options):
    daemon = make(auth_ldap_options=options)
    done = daemon.run("--check", daemon.ini)
    assert done.returncode == 1
    assert BROKEN[options] in done.stderr + done.stdout
    assert "words" not in done.stderr + done.stdout


def test_a_broken_reload_changes_nothing(weir):
    daemon = weir()
    console = daemon.client("admin", "pgbouncer", password="admin secret")
    daemon.configure(auth_ldap_options="ldapserver=a ldapbindpasswd=hidden")
    for command in ("RELOAD", "SET auth_ldap_options = 'ldapserver=a ldapbindpasswd=hidden'"):
        assert console.query(command).errors
        daemon.wait_log("auth_ldap_options: a search needs ldapbasedn")
    assert "hidden" not in daemon.log
    daemon.client(password="alice secret").value("SELECT 1")
