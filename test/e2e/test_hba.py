# SPDX-License-Identifier: ISC
"""auth_type = hba: rules, maps, host names, the console, reloads, and invalid files."""

import os
import pwd
import re
import socket

import psycopg
import pytest

from .kit.wait import LIMIT, wait_until
from .kit.wire import Refused, Wire, cstr, md5_secret, message, refusal, scram_secret

SECRET = "correct horse"
LONG = "x" * 65536

SECRETS = {
    "plain": SECRET,
    "md5": md5_secret("alice", SECRET),
    "scram": scram_secret(SECRET),
}

NO_RULE = "no authentication method is found: no rule for host "


class Rules:
    """Starts a daemon with HBA rules, and changes them."""

    def __init__(self, make_pgweir):
        self.make_pgweir = make_pgweir

    def make(self, rules, ident=None, secret=SECRET, **settings):
        weir = self.weir = self.make_pgweir()
        self.path, self.ident_path = f"{weir.dir}/hba.conf", f"{weir.dir}/ident.conf"
        self.write(rules, ident)
        users = {"alice": secret, "bob": SECRET, "admin": "admin secret", "stats": "stats secret"}
        settings.setdefault("databases", {"app": "user=alice password=x", "own": "",
                                          "alice": "dbname=app user=alice password=x"})
        weir.configure(auth_type="hba", auth_hba_file=self.path, userlist=users,
                       auth_ident_file=self.ident_path if ident is not None else None, **settings)
        return weir

    def start(self, *args, **kw):
        return self.make(*args, **kw).start()

    def write(self, rules, ident=None):
        self.weir.account.write(self.path, rules)
        if ident is not None:
            self.weir.account.write(self.ident_path, ident)


@pytest.fixture
def rules(make_pgweir):
    return Rules(make_pgweir)


def codes(weir, **kw):
    client = weir.client(**kw)
    assert client.value("SELECT 1") == "1"
    return client.auth_codes


def unix_refusal(weir, *args, **kw):
    return refusal(weir.socket_path, *args, **kw)


# -- methods --------------------------------------------------------------------------------------

WORKS = {
    ("trust", "plain"): [0],
    ("trust", "scram"): [0],
    ("password", "plain"): [3, 0],
    ("password", "md5"): [3, 0],
    ("password", "scram"): [3, 0],
    ("plain", "plain"): [3, 0],
    ("md5", "plain"): [5, 0],
    ("md5", "md5"): [5, 0],
    ("md5", "scram"): [10, 11, 12, 0],
    ("scram-sha-256", "plain"): [10, 11, 12, 0],
    ("scram-sha-256", "scram"): [10, 11, 12, 0],
}


@pytest.mark.parametrize("method, kind", WORKS)
def test_methods(rules, method, kind):
    weir = rules.start(f"host all all 127.0.0.1/32 {method}\n", secret=SECRETS[kind])
    assert codes(weir, password=SECRET) == WORKS[method, kind]
    assert weir.connect(password=SECRET).execute("SELECT 2").fetchone() == (2,)
    if method == "trust":
        return
    for wrong in ("incorrect", "", LONG):
        assert refusal(weir.address, password=wrong).sqlstate in ("28P01", "08P01")
    known = refusal(weir.address, password="incorrect")
    unknown = refusal(weir.address, "mallory", password="incorrect")
    assert known.sqlstate == "28P01"
    if kind != "scram" or method != "md5":  # with several kinds of secrets, md5 may be requested
        assert (known.sqlstate, known.text) == (unknown.sqlstate, unknown.text)


def test_an_md5_secret_is_nothing_for_scram(rules):
    weir = rules.start("host all all all scram-sha-256\n", secret=SECRETS["md5"])
    assert refusal(weir.address, password=SECRET).sqlstate == "28P01"


def test_trust_lets_nobody_unknown_in(rules):
    weir = rules.start("host all all all trust\n")
    refused = refusal(weir.address, "mallory")
    assert (refused.sqlstate, refused.text) == ("28000", '"trust" authentication failed')


def test_reject(rules):
    weir = rules.start("host app alice 127.0.0.1/32 reject\nhost all all all trust\n")
    refused = refusal(weir.address, password=SECRET)
    assert refused.sqlstate == "28000"
    assert refused.text == ('login rejected: an HBA rule rejects host "127.0.0.1", user "alice", '
                            'database "app", no encryption')
    assert codes(weir, user="bob") == [0]


def test_no_rule(rules):
    weir = rules.start("host app bob 127.0.0.1/32 trust\n")
    refused = refusal(weir.address, password=SECRET)
    assert refused.sqlstate == "28000"
    assert refused.text == (NO_RULE + '"127.0.0.1", user "alice", database "app", no encryption')
    # neither the user nor the database needs to exist
    assert refusal(weir.address, "mallory", "nothing").text == (
        NO_RULE + '"127.0.0.1", user "mallory", database "nothing", no encryption')
    assert unix_refusal(weir, "bob").text == (
        NO_RULE + '"[local]", user "bob", database "app", no encryption')


def test_names_that_are_very_long(rules):
    weir = rules.start("host /^(a|aa)+b$ /^(a+)+$ all trust\n")
    assert refusal(weir.address, "a" * 127, "a" * 9000).sqlstate == "28000"
    assert refusal(weir.address, "a" * 9000, "b").text == "username too long"
    assert weir.process.poll() is None


def test_pass_through_of_scram(rules, postgres):
    """The SCRAM key from a login by a rule is used for the login to PostgreSQL."""
    weir = rules.make("host all all all scram-sha-256\n")
    weir.configure(userlist={"scram_user": postgres.secret("scram_user"), "admin": "admin secret"},
                   databases={"app": ""}).start()
    assert codes(weir, user="scram_user", password="scram secret") == [10, 11, 12, 0]


# -- which rule -----------------------------------------------------------------------------------


def test_the_first_rule_counts(rules):
    weir = rules.start("host app alice all md5\nhost app all all trust\nhost all all all password\n")
    assert codes(weir, password=SECRET) == [5, 0]
    assert codes(weir, user="bob") == [0]
    assert codes(weir, database="alice", password=SECRET) == [3, 0]


def test_lists_keywords_quotes_and_expressions(rules):
    weir = rules.start("host sameuser all all trust          # alice on alice\n"
                       'host "sameuser","all" all all trust\n'
                       "host x,app  bob,/^al  all  password \\\n\n")
    assert codes(weir, database="alice") == [0]
    assert codes(weir, password=SECRET) == [3, 0]
    assert codes(weir, user="bob", password=SECRET) == [3, 0]
    assert NO_RULE in refusal(weir.address, "admin").text
    assert NO_RULE in refusal(weir.address, database="own").text


def test_files_of_names_and_rules(rules):
    weir = rules.make("host @databases @users all trust\ninclude more.conf\n"
                      "include_if_exists not-there.conf\ninclude_dir rules.d\n")
    weir.account.write(f"{weir.dir}/databases", "# those\napp\n")
    weir.account.write(f"{weir.dir}/users", "alice,\n@others\n")
    weir.account.write(f"{weir.dir}/others", "carol")
    weir.account.write(f"{weir.dir}/more.conf", "host alice alice all password\n")
    weir.account.mkdir(f"{weir.dir}/rules.d")
    weir.account.write(f"{weir.dir}/rules.d/1.conf", "host pgbouncer all all password\n")
    weir.start()
    assert codes(weir) == [0]
    assert codes(weir, database="alice", password=SECRET) == [3, 0]
    assert NO_RULE in refusal(weir.address, "bob").text
    shown = [(os.path.basename(row["file_name"]), row["line_number"])
             for row in weir.admin("SHOW HBA")]
    assert shown == [("hba.conf", 1), ("more.conf", 1), ("1.conf", 1)]


def test_tls_rules_never_match_a_plain_connection(rules):
    weir = rules.start("hostssl all all all trust\nhostgssenc all all all trust\n"
                       "hostssl all all all cert clientcert=verify-full\n"
                       "hostnossl app all all md5\nhostnogssenc all all all password\n")
    assert codes(weir, password=SECRET) == [5, 0]
    assert codes(weir, database="alice", password=SECRET) == [3, 0]


def has_ipv6():
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
        return True
    except OSError:
        return False


def test_addresses(rules):
    weir = rules.make("host app all 127.0.0.0/30 trust\nhost app all 127.0.0.4 255.255.255.252 md5\n"
                      "host app all ::1/128 password\nlocal app all scram-sha-256\n")
    weir.configure(listen_addr="*" if has_ipv6() else "0.0.0.0")
    weir.start()

    def come(source):
        client = Wire(weir.address, source=(source, 0))
        weir.connections.append(client)
        return client.login("alice", "app", SECRET).auth_codes

    assert come("127.0.0.1") == [0]
    assert come("127.0.0.3") == [0]
    assert come("127.0.0.5") == [5, 0]
    with pytest.raises(Refused, match='"127.0.0.8"'):
        come("127.0.0.8")
    assert weir.wire(unix=True).login("alice", "app", SECRET).auth_codes == [10, 11, 12, 0]
    if has_ipv6():
        client = Wire(("::1", weir.port)).login("alice", "app", SECRET)
        assert client.auth_codes == [3, 0]
        client.close()


@pytest.mark.parametrize("word", ("samehost", "samenet", "all", "localhost"))
def test_our_own_host(rules, word):
    weir = rules.start(f"host all all {word} trust\n")
    assert codes(weir) == [0]


# -- host names -----------------------------------------------------------------------------------


def test_host_names(rules, name_server):
    name_server.hosts = {"127.0.53.10": "app.example.test", "127.0.53.11": "liar.example.test",
                         "127.0.53.12": "other.test"}
    name_server.names = {"app.example.test": ["127.0.53.10"], "liar.example.test": ["127.0.53.99"],
                         "other.test": ["127.0.53.13", "127.0.53.12"]}
    weir = rules.make("host app all app.example.test trust\nhost app all .example.test reject\n"
                      "host app all OTHER.test password\n")
    weir.account.write(f"{weir.dir}/resolv.conf", f"nameserver {name_server.address}\n")
    weir.configure(listen_addr="0.0.0.0", resolv_conf=f"{weir.dir}/resolv.conf").start()

    def come(source):
        client = Wire(weir.address, source=(source, 0))
        weir.connections.append(client)
        return client.login("alice", "app", SECRET).auth_codes

    assert come("127.0.53.10") == [0]
    assert come("127.0.53.12") == [3, 0]
    for source in ("127.0.53.11", "127.0.53.14"):  # a name with another address, and none
        with pytest.raises(Refused, match="no rule for"):
            come(source)


def test_a_name_server_that_says_nothing_holds_nobody_up(rules):
    """Only clients that need the name wait for it; others log in during the wait."""
    mute = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        mute.bind(("127.0.53.2", 53))
    except PermissionError:
        pytest.skip("a DNS server needs port 53")
    weir = rules.make("host alice all some.host.test trust\nhost all all all trust\n")
    weir.account.write(f"{weir.dir}/resolv.conf", "nameserver 127.0.53.2\n")
    weir.configure(listen_addr="0.0.0.0", resolv_conf=f"{weir.dir}/resolv.conf").start()
    waiting = Wire(weir.address, source=("127.0.53.20", 0))
    waiting.startup("alice", "alice")
    mute.settimeout(LIMIT)
    assert mute.recv(512)  # the query has arrived
    assert codes(weir) == [0]
    lists = {row["list"]: row["items"] for row in weir.admin("SHOW LISTS")}
    assert lists["login_clients"] == 1
    waiting.close()
    wait_until(lambda: [row["reason"] for row in weir.admin("SHOW ERRORS")] ==
               ["left before authentication"])
    mute.close()


# -- peer and maps --------------------------------------------------------------------------------

ME = pwd.getpwuid(os.geteuid()).pw_name


def test_peer(rules):
    weir = rules.start("local all all peer\n")
    refused = unix_refusal(weir, "alice", password=SECRET)
    assert (refused.sqlstate, refused.text) == ("28000", "unix socket login rejected")
    rules.weir.configure(userlist={ME: "", "admin": "admin secret"})
    weir.signal(1)
    weir.wait_log("got SIGHUP")
    client = weir.wire(unix=True).login(ME, "app")
    assert client.auth_codes == [0]
    assert client.value("SELECT 1") == "1"


def test_peer_with_a_map(rules):
    ident = f"m {ME} alice\nn /^(.*){ME[-1]}$ \\1{ME[-1]}\nall {ME} all\nnone somebody alice\n"
    weir = rules.start("local app all peer map=m\nlocal alice all peer map=all\n"
                       "local own all peer map=none map=m\n", ident)
    assert weir.wire(unix=True).login("alice", "app").auth_codes == [0]
    assert unix_refusal(weir, "bob", password=SECRET).sqlstate == "28000"
    assert weir.wire(unix=True).login("bob", "alice").auth_codes == [0]
    # a user not in auth_file cannot log in by any map
    refused = unix_refusal(weir, "mallory", "alice")
    assert (refused.sqlstate, refused.text) == ("28000", "unix socket login rejected")
    weir.wait_log("login refused, peer: no such user")


# -- the console ----------------------------------------------------------------------------------


def test_the_console(rules):
    weir = rules.start("host pgbouncer admin 127.0.0.1/32 scram-sha-256\nhost app all all trust\n")
    assert weir.admin("SHOW VERSION")
    refused = refusal(weir.address, "admin", "pgbouncer", password="wrong")
    assert refused.sqlstate == "28P01"
    assert NO_RULE in refusal(weir.address, "stats", "pgbouncer", password="stats secret").text
    assert refusal(weir.address, "alice", "pgbouncer", password=SECRET).text == "not allowed"


def test_show_hba_and_ident(rules):
    weir = rules.start("# rules\nlocal all,\"x y\" all peer map=m\n"
                       "host pgbouncer admin 127.0.0.0/8 password\nhost a b .b.test reject\n",
                       "m  root  alice\n")
    first, second, third = weir.admin("SHOW HBA")
    assert first == {"rule_number": 1, "file_name": rules.path, "line_number": 2, "type": "local",
                     "database": '{all,"x y"}', "user_name": "{all}", "address": None,
                     "netmask": None, "auth_method": "peer", "options": "{map=m}", "error": None}
    assert (second["address"], second["netmask"], second["options"]) == ("127.0.0.0", "255.0.0.0",
                                                                         None)
    assert (third["line_number"], third["address"], third["netmask"]) == (4, ".b.test", None)
    assert weir.admin("SHOW IDENT") == [
        {"map_number": 1, "file_name": rules.ident_path, "line_number": 1, "map_name": "m",
         "sys_name": "root", "pg_username": "alice"}]
    config = {row["key"]: row["value"] for row in weir.admin("SHOW CONFIG")}
    assert config["auth_type"] == "hba" and config["auth_hba_file"] == rules.path


def test_show_hba_without_rules(pgweir):
    weir = pgweir()
    assert weir.admin("SHOW HBA") == [] and weir.admin("SHOW IDENT") == []


def test_the_system_user_of_the_daemon_needs_no_rule(rules, account):
    weir = rules.start("host app bob all reject\n")
    script = ("import psycopg,sys; c = psycopg.connect(host=sys.argv[1], port=sys.argv[2], "
              "user='pgbouncer', dbname='pgbouncer', autocommit=True); "
              "print(c.execute('SHOW VERSION').fetchone()[0])")
    done = account.run(["/usr/bin/python3", "-c", script, weir.dir, str(weir.port)])
    assert "PgBouncer" in done.stdout


# -- reload and SET -------------------------------------------------------------------------------

GOOD = "host pgbouncer all all password\nhost app alice all trust\n"


def test_reload(rules):
    weir = rules.start(GOOD)
    old = weir.client()
    rules.write("host pgbouncer all all password\nhost app alice all md5\n")
    weir.admin("RELOAD")
    assert codes(weir, password=SECRET) == [5, 0]
    assert old.value("SELECT 1") == "1"


BROKEN = {
    "host app alice all\n": ":1: the method is missing",
    "host pgbouncer all all trust\n\nhosts app alice all trust\n": ":3: unknown connection type",
    "host app alice 300.2.3.4/8 trust\n": ":1: 300.2.3.4/8 is not an IP address",
    "host app +staff all trust\n": ":1: +staff: groups are not supported",
    "host app /( all trust\n": ":1: /(: ",
    'host app "alice all trust\n': ":1: a quote has no end",
    "host app alice all ldap ldapserver=x\n": ":1: ",
    "hostssl app alice all md5 map=x\n": ":1: map= is only possible with",
    "local app alice peer map=x\n": ":1: there is no map x",
    "host @nowhere alice all trust\n": "nowhere: cannot open",
    "include hba.conf\n": ":1: too many files within each other",
    "# nothing\n": "it contains no rule",
    "host app alice all trust \0\n": "a zero byte",
}


# Lines that PgBouncer accepts: the line, the warning, and the error for a matching client.
LOOSE = "the address has bits outside of its mask: the range begins at 127.0.0.0"
NO_LOGIN = "the rule allows no login"
FLAWED = {
    "host app alice 127.0.0.1 255.0.0.0 trust\n": (f"{LOOSE}: the rule never matches", NO_RULE),
    "host app alice 127.0.0.1/8 trust\n": (f"{LOOSE}: the rule never matches", NO_RULE),
    "host app alice 127.0.0.1/8 reject\n": (f"{LOOSE}: the rule rejects that whole range",
                                            "login rejected: an HBA rule rejects"),
    "host app alice all peer\n": (f"method peer is only possible with local: {NO_LOGIN}",
                                  "login rejected: an HBA rule that allows no login matches host "),
    "host app alice all cert\n": (f"method cert is only possible with hostssl: {NO_LOGIN}",
                                  "login rejected: an HBA rule that allows no login matches host "),
    "host app alice all ldap ldapserver=x ldapprefix=a ldapbasedn=b\n":
        (f"ldapprefix and ldapsuffix cannot be combined with search options: {NO_LOGIN}",
         "login rejected: an HBA rule that allows no login matches host "),
}


@pytest.mark.parametrize("text", FLAWED)
def test_lines_that_let_nobody_in(rules, text):
    """They load with a warning; if such a line matches, the login fails, or it never matches."""
    warning, words = FLAWED[text]
    behind = "host app alice all trust\n" if words != NO_RULE else ""
    weir = rules.start(GOOD)
    rules.write(text + "host pgbouncer all all trust\n" + behind)
    weir.admin("RELOAD")
    weir.wait_log("WARNING.*" + re.escape(f"{rules.path}:1: {warning}"))
    refused = refusal(weir.address, password=SECRET)
    assert refused.sqlstate == "28000" and refused.text.startswith(words)
    assert weir.admin("SHOW HBA")[0]["error"] == warning
    done = weir.run("--check", weir.ini)
    assert done.returncode == 0 and f"warning: {rules.path}:1: {warning}" in done.stderr


def test_a_mapped_range_is_of_ipv4(rules):
    weir = rules.start("host app alice ::ffff:127.0.0.0/104 reject\nhost all all all trust\n")
    assert refusal(weir.address).text.startswith("login rejected: an HBA rule rejects")


@pytest.mark.parametrize("text", BROKEN)
def test_a_broken_file_changes_nothing(rules, text):
    weir = rules.start(GOOD)
    rules.write(text)
    with pytest.raises(Refused) as refused:
        weir.admin("RELOAD")
    assert refused.value.sqlstate == "F0000"
    weir.wait_log(re.escape(BROKEN[text]))
    assert codes(weir) == [0]
    assert len(weir.admin("SHOW HBA")) == 2
    done = weir.run("--check", weir.ini)
    assert done.returncode == 1 and BROKEN[text] in done.stderr


def test_every_bad_line_is_said(rules):
    weir = rules.make("host app alice all\nlocal x\n", ident="m a\nm b +c\n")
    done = weir.run("--check", weir.ini)
    assert done.returncode == 1
    for where in ("ident.conf:1: ", "ident.conf:2: ", "hba.conf:1: ", "hba.conf:2: "):
        assert where in done.stderr
    done = weir.run(weir.ini)
    assert done.returncode == 1 and "hba.conf:2: " in done.stderr


def test_a_missing_file(rules):
    weir = rules.start(GOOD)
    os.unlink(rules.path)
    with pytest.raises(Refused):
        weir.admin("RELOAD")
    assert codes(weir) == [0]
    assert weir.run("--check", weir.ini).returncode == 1
    weir.configure(auth_hba_file=None)
    done = weir.run("--check", weir.ini)
    assert done.returncode == 1 and "hba needs auth_hba_file" in done.stderr


def test_check_counts_rules(rules):
    weir = rules.make(GOOD)
    done = weir.run("--check", weir.ini)
    assert done.returncode == 0 and "2 rules" in done.stdout


def test_other_methods_do_not_read_the_files(pgweir):
    weir = pgweir(auth_hba_file="/nowhere/hba", auth_ident_file="/nowhere/ident")
    assert codes(weir) == [0]


def test_set(pgweir):
    weir = pgweir()
    weir.account.write(f"{weir.dir}/hba.conf", GOOD)
    weir.admin(f"SET auth_hba_file = '{weir.dir}/hba.conf'")
    weir.admin("SET auth_type = 'hba'")
    assert NO_RULE in refusal(weir.address, "bob").text
    with pytest.raises(Refused):
        weir.admin("SET auth_hba_file = '/nowhere'")
    assert codes(weir) == [0]
    weir.admin("SET auth_type = 'trust'")
    assert codes(weir, user="bob") == [0]


@pytest.mark.parametrize("method", ("password", "reject", "md5"))
def test_rules_that_change_during_a_login(rules, method):
    """A login is refused if the new rules require another method than the one it has used."""
    weir = rules.start("host pgbouncer all all password\nhost app alice all password\n")
    client = weir.wire()
    client.startup("alice", "app")
    client.expect("R")
    rules.write(f"host pgbouncer all all password\nhost app alice all {method}\n")
    weir.admin("RELOAD")
    client.send(message("p", cstr(SECRET)))
    if method == "password":
        client.finish_login("alice")
    else:
        assert client.read_refusal().sqlstate == "28000"


def test_psycopg_sees_the_reason(rules):
    weir = rules.start("host app bob all trust\n")
    with pytest.raises(psycopg.OperationalError, match="no rule for host"):
        weir.connect()
