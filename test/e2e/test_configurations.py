# SPDX-License-Identifier: ISC
"""Common configurations, each tested with --check, a start and a login.

Comments say what PgBouncer 1.26.1 does. Where pgweir differs on purpose, doc/differences.md must
say so: `differs` is a text in that page.
"""

import os
import re

import pytest

from .kit.wire import Refused, Wire

SAME = "the same, but for the SQLSTATE"
DOC = os.path.join(os.path.dirname(__file__), "..", "..", "doc", "differences.md")

GOOD = ("alice", "app", "alice secret")
UNKNOWN = ("unheard_of", "app", "x")
OK = "ok"


class Case:
    """One configuration. Settings are added to those of the kit; {dir} and {ini} are replaced."""

    def __init__(self, *, check=0, says=(), start="up", login=None, pgbouncer=SAME, differs=None,
                 databases=None, users=None, userlist=None, entries=None, more="", ini=None,
                 files=(), folders=(), mode=0o600, **settings):
        self.check, self.says = check, (says,) if isinstance(says, str) else says
        self.start, self.login = start, login
        self.pgbouncer, self.differs = pgbouncer, differs
        self.databases, self.users, self.userlist = databases, users, userlist
        self.entries, self.more, self.ini = entries, more, ini
        self.files, self.folders, self.mode = dict(files), folders, mode
        self.settings = settings


def warned(says, **kw):
    """Valid, with a warning."""
    return Case(says="warning: .*" + says, **kw)


def refused(says, start=None, **kw):
    """No start: the error is the same as from --check, or `says_at_start`."""
    return Case(check=1, says=says, start=start or says, **kw)


def login_fails(says, sqlstate, text, who=UNKNOWN, **kw):
    """It starts, and a login fails as --check has reported."""
    return Case(check=1, says=says, login=[(who, (sqlstate, text))], **kw)


CLAMPED = dict(pgbouncer="starts, and works by the value as it is",
               differs="replaced by the nearest in it")
UNITS = dict(pgbouncer="refuses the line", differs="may have units")

CASES = {
    # -- values
    "nothing unusual": Case(login=[(GOOD, OK)]),
    "a negative size": warned('setting "default_pool_size": must be at least 0', **CLAMPED,
                              default_pool_size=-1, login=[(GOOD, OK)]),
    "a tiny buffer": warned("must be at least 512", **CLAMPED, pkt_buf=100, login=[(GOOD, OK)]),
    "no iterations": warned("must be at least 1", **CLAMPED, scram_iterations=0,
                            login=[(GOOD, OK)], auth_type="scram-sha-256"),
    "verbose beyond": warned("must be from 0 to 3", **CLAMPED, verbose=5, login=[(GOOD, OK)]),
    "a negative limit": warned("must be at least 0", **CLAMPED, max_client_conn=-5,
                               login=[(GOOD, OK)]),
    "a size of an entry beyond all": warned("2147483647 is used", **CLAMPED,
                                            databases={"app": "pool_size=99999999999"},
                                            login=[(GOOD, OK)]),
    "a negative duration": refused("must be at least 0", server_idle_timeout=-5),
    "a port that is none": refused("must be from 0 to 65535", listen_port=70000,
                                   pgbouncer="does not check it", differs="and so is a port"),
    "a peer_id beyond": refused("must be from 0 to 16383", peer_id=20000,
                                pgbouncer="does not check it",
                                differs="A `peer_id` above 16383 is refused"),
    "no number": refused('"many" is not a whole number', default_pool_size="many"),
    "no number in an entry": refused('"many" is not a whole number',
                                     databases={"app": "pool_size=many"},
                                     pgbouncer="takes it for 0", differs="in entries too"),
    "port 0 of an entry": refused("port: must be from 1", databases={"app": "port=0"}),
    "a word for a switch": Case(server_round_robin="on", login=[(GOOD, OK)],
                                pgbouncer="refuses the line", differs="switches may be words"),
    "a unit": Case(server_idle_timeout="5min", login=[(GOOD, OK)], **UNITS),
    "a unit that is called otherwise": refused('did you mean "5min"', server_idle_timeout="5m"),
    "a number in quotes with a comment": Case(default_pool_size='"5" ; five', **UNITS),
    "a comment behind a number": refused("a comment needs a line of its own",
                                         default_pool_size="5 ; five"),
    "a mode in the plural": refused('did you mean "transaction"', pool_mode="transactions"),
    "half of a word": refused('did you mean "scram-sha-256"', auth_type="scram"),
    # -- the file
    "an unknown setting": refused('did you mean "default_pool_size"', default_pool_sise=5),
    "an unknown section": refused(r"unknown section \[datbases\]: did you mean \[databases\]",
                                  more="[datbases]\nx = host=y\n"),
    "a missing header": refused("is a setting, not a database: .*pgbouncer. is missing",
                                ini="[databases]\napp =\nlisten_addr = 127.0.0.1\n"),
    "no header at all": refused("a line before the first section", ini="listen_port = 6543\n"),
    "no settings": refused("section .pgbouncer. is missing", ini="[databases]\n"),
    "an empty file": refused("section .pgbouncer. is missing", ini=""),
    "an include that is not there": refused("/nowhere: cannot open",
                                            more="%include /nowhere\n"),
    "settings that come again": warned("is set twice", login=[(GOOD, OK)],
                                       more="[pgbouncer]\nmax_client_conn = 40\n",
                                       pgbouncer="forgets the first block of [pgbouncer]",
                                       differs="A section may occur more than once"),
    "a database that comes again": warned('database "app" is defined twice',
                                          login=[(GOOD, OK)], entries=("app",),
                                          pgbouncer="takes the last, in silence",
                                          differs="that occurs twice is a WARNING"),
    "the console's name": refused("this name is reserved for the console", entries=("pgbouncer",)),
    "a name in double quotes": Case(entries=('"my db"',), pgbouncer="refuses the line",
                                    differs="names may be in double quotes"),
    "an unknown key": refused('unknown key "hsot": did you mean "host"',
                              databases={"app": "hsot=a"}),
    "an unknown key of a user": refused('unknown key "pol_size": did you mean "pool_size"',
                                        users={"alice": "pol_size=1"}),
    "a peer without a number": refused("its id must be a number",
                                       more="[peers]\nzero = host=a\n"),
    "a peer without a host": refused("host is missing", more="[peers]\n1 = port=6432\n"),
    # -- logins
    "a broken list of users": refused("broken.txt:2: ", auth_file="{dir}/broken.txt",
                                      files={"broken.txt": '"a" "b"\n"c\n'},
                                      pgbouncer="logs it and keeps the lines before",
                                      differs="the user list included"),
    "rules without a file": refused("auth_type = hba needs auth_hba_file", auth_type="hba",
                                    pgbouncer="starts, and lets nobody in",
                                    differs="A bad line refuses the whole HBA"),
    "rules that cannot be read": refused("cannot open", auth_type="hba", auth_hba_file="/nowhere",
                                         pgbouncer="starts, and lets nobody in",
                                         differs="an unreadable file locks everybody out"),
    "an unknown method": refused("hba.conf:1: unknown method md6: did you mean md5",
                                 auth_type="hba", auth_hba_file="{dir}/hba.conf",
                                 files={"hba.conf": "host all all all md6\n"},
                                 pgbouncer="skips the line", differs="Skipping it, as PgBouncer"),
    "any user without one": login_fails("auth_type = any needs user=", "F0000",
                                        "bouncer config error", auth_type="any"),
    "any user": Case(auth_type="any", databases={"app": "user=alice"}, login=[(UNKNOWN, OK)]),
    "auth_dbname that is not there": login_fails('no such database "nosuch"', "F0000",
                                                 "bouncer config error", auth_type="plain",
                                                 auth_dbname="nosuch", auth_user="alice"),
    "auth_dbname of an entry that is not there": login_fails(
        'database "app": auth_dbname: no such database "nosuch"', "F0000",
        "bouncer config error", auth_type="plain", auth_user="alice",
        databases={"app": "auth_dbname=nosuch"}),
    "auth_dbname is the console": refused("is the console's name", auth_dbname="pgbouncer"),
    "auth_dbname of an entry is the console": warned(
        "auth_query cannot run for this entry", auth_type="plain", auth_user="alice",
        databases={"app": "auth_dbname=pgbouncer"},
        login=[(GOOD, OK), (UNKNOWN, ("F0000", "bouncer config error"))]),
    "auth_dbname that nobody needs": warned('no such database "nosuch"', auth_dbname="nosuch",
                                            login=[(GOOD, OK)]),
    "auth_dbname of an entry that nobody needs": warned(
        'no such database "nosuch"', databases={"app": "auth_dbname=nosuch"},
        login=[(GOOD, OK)]),
    "auth_user without a secret": warned(
        'auth_user "scram_user" has no secret in auth_file: PostgreSQL must let it in without one',
        auth_type="plain", auth_user="scram_user", userlist={"alice": "alice secret"},
        databases={"app": "user=alice"}, login=[(GOOD, OK)]),
    "auth_user that cannot do without a secret": Case(
        check=1, says="server_require_auth forbids a login without one", auth_type="plain",
        auth_user="scram_user", userlist={"alice": "alice secret"}, server_require_auth="!none",
        databases={"app": "user=alice"}, pgbouncer="does not know the setting",
        differs="server_require_auth"),
    "auth_query without auth_user": login_fails(
        "auth_query never runs: auth_user is not set", "28P01", "password authentication failed",
        auth_type="plain", auth_query="SELECT 1, 2", pgbouncer="no such user",
        differs="gets the error of a wrong password in place of"),
    "auth_query of the sample without auth_user": Case(
        auth_type="plain", login=[(GOOD, OK)],
        auth_query="SELECT rolname, CASE WHEN rolvaliduntil < now() THEN NULL ELSE rolpassword "
                   "END FROM pg_authid WHERE rolname=$1 AND rolcanlogin"),
    "a user without a secret": Case(auth_type="plain", stats_users="",
                                    userlist={"alice": "", "admin": "x"},
                                    login=[(("alice", "app", ""), ("28P01", "password"))]),
    "a database that is not there": Case(login=[(("alice", "nosuch", None),
                                                 ("3D000", "no such database"))],
                                         pgbouncer="08P01, with the same text",
                                         differs="3D000 for an unknown database"),
    "certificates of clients without TLS": refused("auth_type = cert needs", auth_type="cert"),
    "TLS without a certificate": refused(r"pgweir.ini:\d+: client_tls_cert_file and "
                                         "client_tls_key_file must be",
                                         client_tls_sslmode="require"),
    "a key that cannot be read": refused("client_tls_key_file: cannot read", files={"c.crt": ""},
                                         client_tls_sslmode="require",
                                         client_tls_cert_file="{own.cert}",
                                         client_tls_key_file="/nowhere"),
    "a client without TLS": Case(client_tls_sslmode="require", client_tls_cert_file="{own.cert}",
                                 client_tls_key_file="{own.key}",
                                 login=[(GOOD, ("28000", "SSL required"))],
                                 pgbouncer="08P01, with the same text",
                                 differs="28P01 and 28000 for logins"),
    "a version of TLS that is none": refused('"legacy" is not one of', client_tls_sslmode="require",
                                             client_tls_cert_file="{own.cert}",
                                             client_tls_key_file="{own.key}",
                                             client_tls_protocols="legacy"),
    # -- requirements of a start
    "no folder for the socket": refused("unix_socket_dir: cannot use the folder /nonexistent",
                                        "cannot listen on unix:/nonexistent",
                                        unix_socket_dir="/nonexistent"),
    "a folder of the service": Case(says="warning: .*the service must create it",
                                    unix_socket_dir="/run/pgweir-of-no-service",
                                    start="cannot listen on unix:/run/pgweir-of-no-service"),
    "something in the socket's place": refused("exists and is not a socket",
                                               folders=(".s.PGSQL.{port}",)),
    "no such group": refused("no such group: nosuchgroup", unix_socket_group="nosuchgroup"),
    "no folder for the log": refused("logfile: cannot use the folder /nonexistent",
                                     "cannot open", logfile="/nonexistent/x.log"),
    "a log that is a folder": refused("logfile: cannot write", "cannot open", logfile="{dir}"),
    "no folder for the pid file": refused("pidfile: cannot use the folder /nonexistent",
                                          "cannot write pidfile", pidfile="/nonexistent/p"),
    "a pid file without a pid": refused("contains no process ID", pidfile="{dir}/p",
                                        files={"p": "nothing\n"}),
    "a folder for a pid file": refused("exists and is not a file", "cannot read pidfile",
                                       pidfile="{dir}/p", folders=("p",)),
    "no such user": refused("cannot switch to user nobodyx: no such user", user="nobodyx"),
    "to be root": refused("refusing to run as root: user is root", "only root may", user="root"),
    "nowhere to listen": warned("neither listen_addr nor unix_socket_dir is set",
                                listen_addr="", unix_socket_dir=""),
    # -- warnings
    "an administrator nobody knows": warned('admin_users: "ghost" is not in auth_file',
                                            admin_users="ghost", login=[(GOOD, OK)]),
    "a list of users that all can read": warned("every user of this machine may read",
                                                auth_file="{dir}/open.txt", mode=0o644,
                                                files={"open.txt": '"alice" "alice secret"\n'},
                                                admin_users="", stats_users="",
                                                login=[(GOOD, OK)]),
    "a reserve without its time": warned("reserve_pool_size is never used", reserve_pool_size=5,
                                         reserve_pool_timeout=0, login=[(GOOD, OK)]),
    "what is followed is dropped": warned("ignore_startup_parameters ignores search_path",
                                          ignore_startup_parameters="extra_float_digits,search_path",
                                          login=[(GOOD, OK)]),
    "what later versions follow, too": warned("ignore_startup_parameters ignores scram_iterations",
                                              ignore_startup_parameters="scram_iterations"),
    "a minimum above the size": warned("min_pool_size is above default_pool_size",
                                       min_pool_size=30),
    "a minimum above the size of an entry": warned("min_pool_size 9 is above its pool_size 3",
                                                   databases={"app": "min_pool_size=9 pool_size=3"}),
    "rules that are not read": warned("auth_hba_file is not read", auth_hba_file="/etc/hba.conf",
                                      login=[(GOOD, OK)]),
    "a notice that comes too late": warned("query_wait_notify has no effect", query_wait_notify=60,
                                           query_wait_timeout=30),
    "a limit that never acts": warned("query_timeout has no effect", query_timeout=60,
                                      transaction_timeout=30),
    "more clients than files": warned("open files may be needed", max_client_conn=2000000000,
                                      login=[(GOOD, OK)]),
    "peers without a number of ours": warned("nothing is forwarded",
                                             more="[peers]\n1 = host=127.0.0.1\n"),
    "an audit of nothing": warned("session_audit has no effect: no pool is in session mode",
                                  session_audit=1, pool_mode="transaction", login=[(GOOD, OK)]),
    "an audit of one database": Case(session_audit=1, pool_mode="transaction",
                                     databases={"app": "pool_mode=session"}, login=[(GOOD, OK)]),
    "state of sessions only": warned("session_state has no effect: all pools are in session mode",
                                     session_state="refuse"),
    "state of one user": Case(session_state="refuse", login=[(GOOD, OK)],
                              users={"alice": "pool_mode=transaction"}),
    "state without statements": warned("session_state does not include prepared statements",
                                       session_state="follow", pool_mode="transaction",
                                       max_prepared_statements=0),
    "pins of sessions": warned("max_pinned_servers has no effect: no pool is in transaction mode",
                               max_pinned_servers=3),
    "a limit for pins that are refused": warned("pin_idle_timeout has no effect",
                                                pool_mode="transaction", session_state="refuse",
                                                pin_idle_timeout=60),
    "functions that pin nothing": warned("pin_functions has no effect", pool_mode="statement",
                                         pin_functions="f, g"),
    "functions of one user": Case(pool_mode="statement", pin_functions="f, g",
                                  users={"alice": "pool_mode=transaction"}, login=[(GOOD, OK)]),
    "a function with arguments": refused(r'"f\(int\)" is not the name of a function',
                                         pin_functions="f(int)"),
    "pins that may be all": warned("max_pinned_servers is not below default_pool_size",
                                   pool_mode="transaction", max_pinned_servers=20),
    "pins that may be all of an entry": warned("max_pinned_servers 3 is not below its pool_size 3",
                                               pool_mode="transaction",
                                               databases={"app": "max_pinned_servers=3 pool_size=3"}),
    "a user that comes again": warned('twice.txt:2: user "alice" is also in line 1',
                                      auth_file="{dir}/twice.txt", admin_users="", stats_users="",
                                      files={"twice.txt": '"alice" "old"\n"alice" "new"\n'}),
    "a variable": warned(r"password contains \${...}", databases={"app": "password=${APP_PW}"}),
    "statements as a switch": warned("track_statements is the number of statements",
                                     track_statements=1),
    "statements on": Case(track_statements="on", login=[(GOOD, OK)]),
    "a word for state": refused('did you mean "refuse"', session_state="refused"),
    "a limit without its delay": warned("auth_failure_limit has no effect", auth_failure_limit=5,
                                        pgbouncer="does not know the setting",
                                        differs="`auth_failure_delay` and `auth_failure_limit`"),
}


def fill(weir, own, value):
    return value.replace("{dir}", weir.dir).replace("{port}", str(weir.port)) \
        .replace("{own.cert}", own.cert).replace("{own.key}", own.key) \
        if isinstance(value, str) else value


def write(weir, own, case):
    """Writes the files of a case; returns the contents of the directory."""
    for name, text in case.files.items():
        weir.account.write(f"{weir.dir}/{name}", text, case.mode)
    for name in case.folders:
        os.mkdir(weir.dir + "/" + fill(weir, own, name))
    settings = {name: fill(weir, own, value) for name, value in case.settings.items()}
    weir.configure(databases=case.databases, users=case.users, userlist=case.userlist, **settings)
    text = weir.text()
    entry = weir.sections["databases"].get("app") or "host=127.0.0.1"
    if case.entries:
        text += "[databases]\n" + "".join(f"{name} = {entry}\n" for name in case.entries)
    text = case.ini if case.ini is not None else text + fill(weir, own, case.more)
    weir.configure(ini=text)
    return sorted(os.listdir(weir.dir))


def log_in(weir, who):
    user, database, password = who
    try:
        with Wire(weir.address) as wire:
            wire.login(user, database, password).query("SELECT 1")
    except Refused as error:
        return error.sqlstate, error.text
    return OK


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_configuration(make_pgweir, own, case):
    weir = make_pgweir()
    before = write(weir, own, case)

    # --check: reports it, and changes no file
    done = weir.run("--check", weir.ini)
    assert done.returncode == case.check, done.stderr + done.stdout
    for says in case.says:
        assert re.search(says, done.stderr), done.stderr
    if case.check == 0 and not case.says:
        assert done.stderr == "", "there is something to say of what is usual"
    assert sorted(os.listdir(weir.dir)) == before

    # start
    if case.start != "up":
        failed = weir.run(weir.ini)
        assert failed.returncode == 1
        assert re.search(case.start, failed.stderr), failed.stderr
        return
    weir.start()

    # login
    for who, expected in case.login or ():
        got = log_in(weir, who)
        if expected == OK:
            assert got == OK
        else:
            assert got[0] == expected[0] and expected[1] in got[1], got


# PgBouncer's sample file with all settings uncommented, and the files and users of the test.
SAMPLE = """
[databases]
foodb =
bardb = host=localhost dbname=bazdb
forcedb = host=localhost port=300 user=baz password=foo client_encoding=UNICODE datestyle=ISO \
connect_query='SELECT 1'
nondefaultdb = pool_size=50 min_pool_size=0 reserve_pool_size=10 reserve_pool=10 pool_mode=session \
max_db_connections=0 max_db_client_connections=0 server_lifetime=3600 query_wait_timeout=120 \
load_balance_hosts=round-robin timezone=GMT application_name=x
lookups = auth_user=bar auth_dbname=foodb auth_query='SELECT 1, 2'
* = host=testserver

[users]
user1 = pool_size=5 reserve_pool_size=2 pool_mode=transaction max_user_connections=50 \
max_user_client_connections=0 query_timeout=0 query_wait_timeout=120 idle_transaction_timeout=0 \
transaction_timeout=0 client_idle_timeout=0

[peers]
1 = host=host1.example.com
2 = host=/tmp/pgbouncer-2 port=5555 pool_size=2

[pgbouncer]
conffile = {ini}
auth_file = {userlist}
user = {user}
service_name = pgbouncer
pidfile = /var/run/pgbouncer-of-nobody/pgbouncer.pid
listen_addr = 127.0.0.1
listen_port = 6432
unix_socket_dir = /tmp
unix_socket_mode = 0777
unix_socket_group =
peer_id = 0
pool_mode = session
max_client_conn = 100
default_pool_size = 20
min_pool_size = 0
reserve_pool_size = 0
reserve_pool_timeout = 5
max_db_connections = 0
max_db_client_connections = 0
max_user_connections = 0
max_user_client_connections = 0
server_round_robin = 0
track_extra_parameters = IntervalStyle
ignore_startup_parameters =
disable_pqexec = 0
application_name_add_host = 0
stats_period = 60
max_prepared_statements = 200
scram_iterations = 4096
auth_type = md5
auth_hba_file =
auth_ident_file =
auth_user =
auth_query = SELECT rolname, CASE WHEN rolvaliduntil < now() THEN NULL ELSE rolpassword END FROM pg_authid WHERE rolname=$1 AND rolcanlogin
auth_dbname =
auth_ldap_options =
logfile = /var/log/pgbouncer-of-nobody/pgbouncer.log
syslog = 0
syslog_ident = pgbouncer
syslog_facility = daemon
log_connections = 1
log_disconnections = 1
log_pooler_errors = 1
log_stats = 1
verbose = 0
admin_users =
stats_users =
server_reset_query = DISCARD ALL
server_reset_query_always = 0
server_check_query = <empty>
server_check_delay = 30
server_fast_close = 0
server_lifetime = 3600
server_idle_timeout = 600
server_connect_timeout = 15
server_login_retry = 15
client_login_timeout = 60
autodb_idle_timeout = 3600
pool_idle_timeout = 0
dns_max_ttl = 15
dns_nxdomain_ttl = 15
dns_zone_check_period = 0
resolv_conf =
query_wait_notify = 5
login_notify_message =
suspend_timeout = 10
query_timeout = 0
query_wait_timeout = 120
cancel_wait_timeout = 10
client_idle_timeout = 0
idle_transaction_timeout = 0
transaction_timeout = 0
client_tls_sslmode = disable
client_tls_key_file =
client_tls_cert_file =
client_tls_ca_file =
client_tls_protocols = secure
client_tls_ciphers = default
client_tls13_ciphers =
client_tls_dheparams = auto
client_tls_ecdhcurve = auto
server_tls_sslmode = prefer
server_tls_ca_file =
server_tls_key_file =
server_tls_cert_file =
server_tls_protocols = secure
server_tls_ciphers = default
server_tls13_ciphers =
pkt_buf = 4096
max_packet_size = 2147483647
listen_backlog = 128
sbuf_loopcnt = 5
so_reuseport = 0
tcp_defer_accept = 1
tcp_socket_buffer = 0
tcp_keepalive = 1
tcp_keepcnt = 0
tcp_keepidle = 0
tcp_keepintvl = 0
tcp_user_timeout = 0
"""


def test_each_setting_of_the_sample_is_taken(make_pgweir, account):
    weir = make_pgweir()
    weir.configure(ini=SAMPLE.format(ini=weir.ini, userlist=weir.userlist, user=account.name))
    done = weir.run("--check", weir.ini)
    assert done.returncode == 0, done.stderr
    told = "".join(done.stderr.splitlines())
    for says in ("pidfile: directory ", "logfile: directory ",
                 'auth_user "bar" has no secret', "peer_id is not set"):
        assert says in told
    assert told.count("warning: ") == 4, done.stderr


# Differences that appear only after the login; other tests cover them.
FURTHER = ("Errors about the names of prepared statements are PostgreSQL's own",
           "`SET max_prepared_statements = 0`", "When PostgreSQL refuses the login of `auth_user`")


def one_line(text):
    return " ".join(text.split())


def test_each_difference_is_in_the_documentation():
    with open(DOC, encoding="utf-8") as file:
        text = one_line(file.read())
    for anchor in FURTHER:
        assert anchor in text, anchor
    for name, case in CASES.items():
        assert (case.pgbouncer == SAME) == (case.differs is None), name
        assert case.differs is None or one_line(case.differs) in text, (name, case.differs)
    assert len(CASES) >= 60


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to be two users")
def test_root_judges_by_the_rights_of_the_user(make_pgweir, own, account):
    """Root can access files that the daemon cannot access after it has switched its user."""
    weir = make_pgweir()
    key, folder = f"{weir.dir}/root.key", f"{weir.dir}/roots"
    with open(own.key, "rb") as good, open(key, "wb") as file:
        file.write(good.read())
    os.chmod(key, 0o600)
    os.mkdir(folder, 0o700)
    weir.configure(user=account.name, client_tls_sslmode="require", client_tls_cert_file=own.cert,
                   client_tls_key_file=key, logfile=folder + "/x.log")
    done = weir.run("--check", weir.ini, as_root=True)
    assert done.returncode == 1
    assert f"client_tls_key_file: cannot read {key}: Permission denied" in done.stderr
    assert f"logfile: cannot write {folder}/x.log" in done.stderr \
        or f"logfile: cannot write in the folder {folder}" in done.stderr
    # auth_file is read by root at start, and by the user at each RELOAD
    weir.configure(client_tls_key_file=own.key, logfile="")
    os.chown(weir.userlist, 0, 0)
    done = weir.run("--check", weir.ini, as_root=True)
    assert done.returncode == 0
    assert f"user {account.name} may not read {weir.userlist}: RELOAD will fail" in done.stderr
    # running as root is refused, with the same error as at start
    weir.configure(user="root")
    for args in (("--check", weir.ini), (weir.ini,)):
        done = weir.run(*args, as_root=True)
        assert done.returncode == 1
        assert "refusing to run as root: user is root" in done.stderr
