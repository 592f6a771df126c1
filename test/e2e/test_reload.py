# SPDX-License-Identifier: ISC
"""What a reload changes and what it leaves unchanged: one row for each setting and each key.

A row names a setting, its new value and a scenario: a generator that creates a situation with the
old value, yields while the value is changed, and then checks for an effect of the new value only.
Each change is made by file and RELOAD, and by SET if possible. Beside each scenario there are two
bystanders that must not be disturbed: an idle client, whose server stays (unless the row says that
it is recycled), and one with a running query.
"""

import ctypes
import dataclasses
import os
import re
import signal
import socket
import ssl

import pytest

from .kit.account import free_port
from .kit.daemon import LOOPS, USERS
from .kit.fake import answer as fake_answer
from .kit.fake import error as fake_error
from .kit.names import NameServer
from .kit.wait import LIMIT, wait_until
from .kit.web import Web
from .kit.wire import (CANCEL_REQUEST, SSL_REQUEST, Closed, Refused, Scram, bind, close, cstr, execute,
                       message, parse, query, refusal, sasl_initial, scram_secret, special,
                       startup, sync)
from .test_tls import asked, encrypt, tls_client, trusting

SHORT = "0.3"
PID = "SELECT pg_backend_pid()"

# The bystanders' own limits override what a row sets for all.
SAFE = " ".join(f"{name}=900" for name in (
    "client_idle_timeout", "idle_transaction_timeout", "query_timeout", "query_wait_timeout",
    "transaction_timeout", "pin_idle_timeout"))


def ends(client, sqlstate, text):
    refused = client.read_refusal()
    assert (refused.severity, refused.sqlstate, refused.text) == ("FATAL", sqlstate, text)


class Scene:
    """The daemon of one row, with helpers for scenarios."""

    def __init__(self, weir, far, tools):
        self.weir, self.far, self.tools = weir, far, tools
        self.bystanders = None  # once they are connected
        self.postgres = weir.postgres
        self.mark = 0  # length of the log when the value changed

    def client(self, user="alice", database="app", **parameters):
        return self.weir.client(user, database, password=USERS[user], **parameters)

    def client_of(self, stranger):
        """A client whose user is not in the user list."""
        return self.weir.client(stranger)

    def wait_log(self, pattern):
        return self.weir.wait_log(pattern, since=self.mark)

    def row(self, show, **wanted):
        for row in self.weir.admin(f"SHOW {show}"):
            if wanted.items() <= row.items():
                return row
        return None

    def line(self):
        """A client in a transaction, and one that waits for its server."""
        first, second = self.client(), self.client()
        first.query("BEGIN")
        second.send(query("SELECT 1"))
        self.weir.wait_pool(cl_waiting=1)
        return first, second

    def empty_pool(self):
        """Creates the pool of alice on app, without clients."""
        client = self.client()
        client.query("SELECT 1")
        client.close()
        self.weir.wait_pool(cl_active=0, sv_idle=1)
        self.weir.admin("RECONNECT app")
        self.weir.wait_pool(sv_idle=0)
        assert self.row("POOLS", database="app", user="alice")

    def last_query(self, user):
        rows = self.postgres.query("SELECT query FROM pg_stat_activity WHERE usename = %s", user)
        return rows[0][0] if rows else None


# -- scenarios: the pool ---------------------------------------------------------------------------


def the_line_moves(s):
    _, second = s.line()
    yield
    assert second.read_result().rows == [["1"]]


def begin_holds_no_server(s):
    first = s.client()
    first.query("BEGIN")
    s.weir.wait_pool(sv_active=1)
    yield
    assert first.query("COMMIT").tags == ["COMMIT"]
    for _ in range(2):
        assert first.query("BEGIN").status == "T"
        s.weir.wait_pool(sv_active=0)
        assert s.client().value("SELECT 1") == "1"
        assert first.query("COMMIT").status == "I"


def positions_are_asked(s):
    client = s.client()
    client.query("SELECT 1")
    assert "pg_current_wal_insert_lsn" not in s.last_query("alice")
    yield
    client.query("SELECT 2")
    wait_until(lambda: "pg_current_wal_insert_lsn" in s.last_query("alice"))


def a_second_user_is_served(s):
    s.client().query("BEGIN")
    second = s.weir.wire().startup("limited")
    s.weir.wait_pool(user="limited", cl_waiting=1)
    yield
    second.finish_login("limited")


def a_second_one_may_wait(s):
    s.client().query("BEGIN")
    s.client().send(query("SELECT 1"))
    s.weir.wait_pool(cl_waiting=1)
    yield
    s.client().send(query("SELECT 1"))
    s.weir.wait_pool(cl_waiting=2)


def a_second_database_is_served(s):
    s.client().query("BEGIN")
    second = s.weir.wire().startup(database="other")
    s.weir.wait_pool(database="other", cl_waiting=1)
    yield
    second.finish_login("alice")


def the_pool_fills(s):
    s.client().query("SELECT 1")
    s.weir.wait_pool(sv_idle=1)
    yield
    s.weir.wait_pool(sv_idle=2)


def nobody_else_comes_in(s):
    inside = s.client()
    yield
    refused = refusal(s.weir.address)
    assert refused.sqlstate == "53300" and re.search(r"\(max_\w+\)$", refused.text), refused
    assert inside.value("SELECT 1") == "1"


def a_session_becomes_a_transaction(s):
    first = s.client()
    pid = first.value(PID)
    second = s.client()
    second.send(query(PID))
    s.weir.wait_pool(cl_waiting=1)
    yield
    assert first.value(PID) == pid
    assert second.read_result().rows == [[pid]]


def servers_take_turns(s):
    # With several loops: enough clients that each loop has two servers.
    clients = [s.client() for _ in range(2 if LOOPS == 1 else 4 * LOOPS)]
    for command in ("BEGIN", "COMMIT"):
        for client in clients:
            client.query(command)
    first = clients[0]
    assert first.value(PID) == first.value(PID)
    yield
    assert first.value(PID) != first.value(PID)


def statements_are_given_up(s):
    client = s.client()
    for name in "ab":
        assert client.ask(parse(f"SELECT '{name}'", name), sync()).types == "1Z"
    assert s.row("SERVERS", user="alice")["prepared_statements"] == 2
    yield
    assert client.ask(parse("SELECT 'c'", "c"), sync()).types == "1Z"
    assert s.row("SERVERS", user="alice")["prepared_statements"] == 1
    assert client.ask(bind(name="a"), execute(), sync()).rows == [["a"]]


# -- scenarios: logins -----------------------------------------------------------------------------


def another_file_is_read(s):
    text = s.weir.text() + "[pgbouncer]\nquery_wait_timeout = 77\n"
    s.weir.account.write(f"{s.weir.dir}/other.ini", text)
    yield
    s.weir.admin("RELOAD")
    assert s.row("CONFIG", key="query_wait_timeout")["value"] == "77"


def keys_name_the_peer(s):
    assert s.row("CONFIG", key="peer_id")["value"] == "0"
    old = s.client()
    yield
    key = s.client().key
    assert (key[1] | key[2] << 8, key[7] & 3) == (5, 3)
    assert old.value("SELECT 1") == "1"


def a_parameter_is_dropped(s):
    assert s.client(work_mem="1MB").value("SHOW work_mem") == "1MB"
    yield
    assert s.client(work_mem="1MB").value("SHOW work_mem") != "1MB"


def the_host_is_added(s):
    assert s.client(application_name="x").value("SHOW application_name") == "x"
    yield
    name = s.client(application_name="x").value("SHOW application_name")
    assert name.startswith("x - 127.0.0.1:")


def the_rounds_change(s):
    assert s.client().scram.iterations == 4096
    yield
    assert s.client().scram.iterations == 5000


def a_password_is_asked(s):
    assert s.client().auth_codes == [0]
    yield
    assert s.client().auth_codes == [3, 0]


def nothing_happens(s):
    """Tested by test_pam.py and test_ldap.py."""
    assert s.client().value("SELECT 1") == "1"
    yield
    assert s.client().value("SELECT 1") == "1"


def others_are_known(s):
    s.weir.account.write(f"{s.weir.dir}/others.txt", '"limited" "x"\n"admin" "admin secret"\n')
    inside = s.client()
    assert s.client("limited").value("SELECT 1") == "1"
    yield
    assert refusal(s.weir.address).text == '"trust" authentication failed'
    assert s.client("limited").value("SELECT 1") == "1"
    assert inside.value("SELECT 1") == "1"


EVERYBODY = "SELECT $1::text, 'x'"


def a_stranger_is_known(s):
    assert refusal(s.weir.address, "postgres").text == '"trust" authentication failed'
    yield
    assert s.client_of("postgres").value("SELECT 1") == "1"


def another_place_is_asked(s):
    s.client_of("postgres")
    assert s.row("POOLS", database="app", user="streamer")
    assert not s.row("POOLS", database="other", user="streamer")
    yield
    s.client_of("postgres")
    assert s.row("POOLS", database="other", user="streamer")


def answers_are_kept(s):
    def ask():
        before = s.postgres.value("SELECT nextval('asked')")
        s.client_of("postgres")
        return s.postgres.value("SELECT nextval('asked')") - before - 1

    s.postgres.query("DROP SEQUENCE IF EXISTS asked; CREATE SEQUENCE asked;"
                     " GRANT ALL ON SEQUENCE asked TO streamer")
    assert [ask(), ask()] == [1, 1]
    yield
    assert [ask(), ask()] == [1, 0]


def a_way_of_asking_is_forbidden(s):
    assert s.client("plain_user", "other").value("SELECT 1") == "1"
    yield
    assert refusal(s.weir.address, "plain_user").text == \
        "server login failed: server_require_auth forbids how PostgreSQL asks"


def a_rule_is_added(s):
    inside = s.client("limited")
    yield
    assert refusal(s.weir.address, user="limited").sqlstate == "28000"
    assert inside.value("SELECT 1") == "1"
    assert s.client().value("SELECT 1") == "1"


def a_map_is_added(s):
    assert not s.weir.admin("SHOW IDENT")
    yield
    assert s.row("IDENT", map_name="staff", sys_name="mary", pg_username="alice")


def a_proxy_introduces(s):
    def ask():
        with s.weir.wire() as wire:
            wire.send(b"PROXY TCP4 192.0.2.7 192.0.2.1 7 8\r\n", startup(user="alice", database="app"))
            return wire.read().type
    assert ask() == "E"
    yield
    assert ask() == "R"


WEB = dict(metrics_listen="127.0.0.1:{web}")


ROLES = {"app": "target_session_attrs=primary"}


def hosts_are_asked_more_often(s):
    def asked():
        return s.postgres.query("SELECT max(query_start) FROM pg_stat_activity"
                                " WHERE application_name = 'pgweir host watch'")[0][0]
    wait_until(lambda: s.row("HOSTS", entry="app", role="primary"))
    before = asked()
    yield
    wait_until(lambda: asked() > before, what="another question")


def a_silent_host_is_lost(s):
    s.far.accept()  # the host watch, which gets no answer
    assert s.row("HOSTS", entry="app", state="unknown")
    yield
    wait_until(lambda: s.row("HOSTS", entry="app", state="lost"), what="a lost host")


def hosts_are_watched(s):
    """By alice; until then, a login of any client's may serve."""
    def watchers():
        return [name for name, in s.postgres.query(
            "SELECT usename FROM pg_stat_activity WHERE application_name = 'pgweir host watch'")]
    assert "alice" not in watchers()
    yield
    wait_until(lambda: "alice" in watchers(), what="a watch by alice")
    wait_until(lambda: s.row("HOSTS", entry="app", role="primary"), what="a known role")


def hosts_are_watched_by_a_login(s):
    s.client().query("SELECT 1")
    assert s.row("HOSTS", entry="app", latency_us=0)
    yield
    s.weir.admin("RECONNECT app")
    s.client().query("SELECT 1")
    wait_until(lambda: not s.row("HOSTS", entry="app", latency_us=0), what="an answer")


def the_web_server_answers(s):
    def ask():
        return Web(s.weir.web_port).ask("/readyz", Host="weir.example").status
    assert ask() == 403
    yield
    assert ask() == 200


def the_web_server_asks_for_a_secret(s):
    s.weir.account.write(f"{s.weir.dir}/secrets", "bearer token\n")
    assert Web(s.weir.web_port).ask("/metrics").status == 200
    yield
    assert Web(s.weir.web_port).ask("/metrics").status == 401
    assert Web(s.weir.web_port).ask("/metrics", Authorization="Bearer token").status == 200


def the_web_server_has_tls(s):
    assert Web(s.weir.web_port).ask("/readyz").status == 200
    yield
    assert Web(s.weir.web_port, context=trusting(alpn=("http/1.1",))).ask("/readyz").status == 200


def guess(s):
    client = s.weir.wire().startup()
    client.expect("R")
    client.send(message("p", b"wrong\0"))
    return client


def failures_wait(s):
    assert guess(s).read_refusal().sqlstate == "28P01"
    yield
    client = guess(s)
    wait_until(lambda: s.row("LISTS", list="login_clients", items=1))
    assert not client.is_closed()


def failures_are_counted(s):
    clients = [guess(s), guess(s)]
    wait_until(lambda: s.row("LISTS", list="login_clients", items=2))
    yield
    assert refusal(s.weir.address).text.startswith("too many failed logins from this address")
    assert not clients[0].is_closed()


def greeted(s):
    assert not s.client().notices
    yield
    assert [notice["M"] for notice in s.client().notices] == ["hello, you"]


def becomes_an_administrator(s):
    assert refusal(s.weir.address, database="pgbouncer").text == "not allowed"
    yield
    assert s.client("alice", "pgbouncer").query("ENABLE app").tags == ["ENABLE"]


def may_look(s):
    assert refusal(s.weir.address, database="pgbouncer").text == "not allowed"
    yield
    client = s.client("alice", "pgbouncer")
    assert client.query("SHOW VERSION").tags == ["SHOW"]
    assert client.query("ENABLE app").error["M"] == "admin access needed"


# -- scenarios: the log ----------------------------------------------------------------------------


def goes_quiet(pattern, act):
    def scenario(s):
        for is_logged in (True, False):
            since = len(s.weir.log)
            act(s)
            s.weir.admin("RECONNECT other")
            s.weir.wait_log("RECONNECT 'other' command issued", since=since)
            assert bool(re.search(pattern, s.weir.log[since:])) == is_logged
            if is_logged:
                yield
    return scenario


def come(s):
    s.client("limited").query("SELECT 1")


def come_and_go(s):
    client = s.client("limited")
    client.close()
    wait_until(lambda: not s.row("CLIENTS", user="limited"))


def be_refused(s):
    refusal(s.weir.address, database="nowhere")


def averages_are_logged(s):
    assert "stats: " not in s.weir.log
    yield
    s.wait_log(r"stats: \d+ xacts/s")


def lines_are_objects(s):
    yield
    s.client()
    s.wait_log(r'^\{"time":"[-0-9T:.+]+","pid":\d+,"level":"LOG","peer":"client",.*"database":"app",'
               r'"user":"alice",.*"message":"login attempt: db=app user=alice')


def slow_ones_are_told(s):
    client = s.client()
    client.query("SELECT 'before'")
    yield
    client.query("SELECT pg_sleep(0.001), 'after'")
    s.wait_log(r"app/alice@.* slow statement: \d+\.\d{3} ms digest=\w{16}: SELECT pg_sleep\(0\.001\), 'after'$")
    assert "'before'" not in s.weir.log


def many_are_suppressed(s):
    yield
    clients = [s.client("limited") for _ in range(20)]
    s.wait_log(r"LOG \d+ more suppressed: login attempt: db\.\.\.$")
    assert len(clients) == 20


def statements_are_counted(s):
    client = s.client()
    client.query("SELECT 'before'")
    yield
    client.query("SELECT 'after'")
    assert [row["calls"] for row in s.weir.admin("SHOW STATEMENTS")] == [1]


def sessions_are_audited(s):
    client = s.client()
    client.query("LISTEN before")
    yield
    client.query("LISTEN after")
    rows = [row for row in s.weir.admin("SHOW AUDIT") if row["feature"]]
    assert [(row["feature"], row["count"]) for row in rows] == [("LISTEN", 1)]


def the_log_goes_to_a_file(s):
    yield
    s.client()

    def is_there():
        with open(f"{s.weir.dir}/more.log", encoding="utf-8") as file:
            return "login attempt: db=app user=alice" in file.read()
    wait_until(is_there)


def states_are_logged(s):
    s.client()
    assert " -> " not in s.weir.log
    yield
    s.client()
    s.wait_log("startup -> authentication")


def said_to_syslog(pattern):
    def scenario(s):
        system = s.tools("syslog")
        yield
        s.client()
        wait_until(lambda: re.search(pattern, system.recv(4096)))
    return scenario


# -- scenarios: checks -----------------------------------------------------------------------------


def come_and_go_asks(s, wanted):
    client = s.client("limited")
    client.query("SELECT 'mine'")
    client.close()
    wait_until(lambda: s.last_query("limited") == wanted, what=wanted)


def sessions_are_reset_by(s):
    come_and_go_asks(s, "DISCARD ALL")
    yield
    come_and_go_asks(s, "SELECT 'reset'")


def transactions_are_reset(s):
    client = s.client("limited")
    client.query("SELECT 'mine'")
    assert s.last_query("limited") == "SELECT 'mine'"
    yield
    client.query("SELECT 'mine'")
    wait_until(lambda: s.last_query("limited") == "DISCARD ALL")


def the_check_fails(s):
    client = s.client()
    assert client.value(PID) == client.value(PID)
    yield
    client.query("SELECT 1")
    s.wait_log("server_check_query failed")


def servers_want_a_check(s):
    client = s.client()
    client.query("SELECT 1")
    s.weir.wait_pool(sv_idle=1)
    yield
    client.query("SELECT 1")
    s.weir.wait_pool(sv_used=1, sv_idle=0)


def sessions_are_ended(s):
    client = s.client()
    client.query("SELECT 1")
    yield
    assert client.value("SELECT 1") == "1"
    s.weir.admin("RECONNECT app")
    assert client.read_refusal().text == "database configuration changed"


def idle_servers_go(reason):
    def scenario(s):
        client = s.client()
        client.query("SELECT 1")
        s.weir.wait_pool(sv_idle=1)
        yield
        s.wait_log(rf"app/alice@.* closing because: {reason} ")
        assert client.value("SELECT 1") == "1"
    return scenario


def a_login_under_way_is_given_up(s):
    s.weir.wire().startup()
    s.far.accept()
    yield
    s.wait_log("closing because: connect timeout")


def it_tries_again(s):
    s.far.serve(lambda channel: channel.send(fake_error("not now", "53300", "FATAL")))
    client = s.weir.wire().startup()
    assert client.read_refusal().text.startswith("not now")
    yield

    def is_asked_again():
        s.weir.wire().startup().read_refusal()
        return len(s.far.accepted) > 4

    # The reload itself allows one more attempt; further ones show the new interval.
    wait_until(is_asked_again, what="further attempts")


def half_a_login_is_ended(s):
    client = s.weir.wire()
    client.send(startup(user="alice", database="app")[:20])
    wait_until(lambda: s.row("LISTS", list="login_clients", items=1))
    yield
    assert client.read_refusal().text == "client_login_timeout"


def the_pool_is_forgotten(s):
    s.empty_pool()
    yield
    wait_until(lambda: not s.row("POOLS", database="app"))


def addresses_are_kept(s):
    client = s.client()
    client.query("SELECT 1")
    assert not [row for row in s.weir.admin("SHOW DNS_HOSTS") if row["ttl"] > 60]
    yield
    s.weir.admin("RECONNECT app")
    client.query("SELECT 1")
    assert [row["hostname"] for row in s.weir.admin("SHOW DNS_HOSTS") if row["ttl"] > 60]


def failures_are_kept(s):
    names = s.tools("names")
    s.weir.wire().startup()
    wait_until(lambda: names.asked.count(("nowhere.zone.test", 1)) > 2)
    yield
    wait_until(lambda: s.row("DNS_HOSTS", hostname="nowhere.zone.test") and
               s.row("DNS_HOSTS", hostname="nowhere.zone.test")["ttl"] > 60)


def zones_are_watched(s):
    names = s.tools("names")
    s.client().query("SELECT 1")
    assert s.weir.admin("SHOW DNS_ZONES") == []
    yield
    wait_until(lambda: names.asked.count(("zone.test", 6)) > 2)
    assert s.row("DNS_ZONES", zonename="zone.test", serial=7)


def told_to_wait(s):
    first, second = s.line()
    yield
    assert second.expect("N").fields["M"].startswith("No server connection available")


# -- scenarios: time limits ------------------------------------------------------------------------


def a_query_ends(s):
    client = s.client()
    client.send(query("SELECT pg_sleep(60)"))
    s.weir.wait_pool(sv_active=1)
    yield
    ends(client, "57014", "query timeout")


def sends_clients_away(number):
    def scenario(s):
        client = s.client()
        yield
        s.bystanders.judge(False)
        s.bystanders.judge = lambda _: None  # they are disconnected too, now
        s.weir.signal(number)
        assert client.read_refusal().text == "pooler is draining"
    return scenario


def sigterm_is_announced(s):
    client = s.client()
    yield
    s.weir.signal(signal.SIGTERM)
    s.weir.wait_log("got SIGTERM, accepting clients for 3600 s more")
    assert client.value("SELECT 1") == "1"
    s.bystanders.judge(False)
    s.bystanders.judge = lambda _: None  # they are disconnected at the end
    s.weir.signal(signal.SIGTERM)
    assert client.read_refusal().text == "pooler is shutting down"


def a_suspension_gives_up(s):
    """A client in the middle of a message is closed after suspend_timeout."""
    client, console = s.client(), s.weir.console()
    client.query("BEGIN")
    client.send(query("SELECT length('" + "x" * 300000 + "')")[:200000])
    wait_until(lambda: any(row["pkt_remain"] for row in s.weir.admin("SHOW SOCKETS")))
    yield
    assert console.query("SUSPEND").tags == ["SUSPEND"]
    assert client.read_refusal().text == "suspend_timeout"
    s.weir.admin("RESUME")


def waiting_ends(s):
    first, second = s.line()
    yield
    ends(second, "53300", "query_wait_timeout")
    assert first.query("COMMIT").tags == ["COMMIT"]


def nobody_waits(s):
    client = s.weir.wire().startup()
    s.weir.wait_pool(cl_waiting=1)
    yield
    ends(client, "57P03",
         "PostgreSQL cannot be reached: connect failed: Connection refused (fail_fast)")


def a_transaction_ends(sqlstate, text):
    def scenario(s):
        client = s.client()
        client.query("BEGIN")
        yield
        ends(client, sqlstate, text)
    return scenario


def a_lost_transaction_closes_its_server(s):
    client = s.client()
    client.query("BEGIN")
    yield
    client.close()
    s.wait_log("closing because: client disconnect while server was not ready")


def an_abandoned_statement_ends(s):
    client = s.client()
    client.send(query("SELECT pg_sleep(1000)"))
    s.weir.wait_pool(sv_active=1)
    yield
    client.close()
    s.wait_log("cancel request delivered, asked by pgweir")


def resting_ends(s):
    client = s.client()
    client.query("SELECT 1")
    yield
    ends(client, "57P05", "client_idle_timeout")


TEMPORARY = "CREATE TEMP TABLE mine (a int)"


def session_state_is_refused(s):
    client, other = s.client(), s.client()
    client.query(TEMPORARY)
    other.query("SET work_mem = '1MB'")
    yield
    assert client.query("SELECT * FROM mine").tags == ["SELECT 0"]
    assert other.query("SET work_mem = '2MB'").error["C"] == "0A000"
    assert other.value("SHOW work_mem") == "1MB"


def others_are_cleaned(s):
    first, other = s.client(), s.client()
    s.postgres.query("CREATE OR REPLACE FUNCTION leave_memory() RETURNS text LANGUAGE sql AS "
                     "$$ SELECT set_config('work_mem', '77MB', false) $$")
    yield
    first.query("SELECT leave_memory()")
    assert other.value("SHOW work_mem") == "4MB"


def no_further_server_stays(s):
    client, other = s.client(), s.client()
    client.query(TEMPORARY)
    yield
    assert client.query("SELECT * FROM mine").tags == ["SELECT 0"]
    assert other.query(TEMPORARY).error["C"] == "53300"


def resting_with_a_server_ends(s):
    client, other = s.client(), s.client()
    client.query(TEMPORARY)
    client.query("SELECT 1")
    other.send(query("SELECT 1"))
    s.weir.wait_pool(cl_waiting=1)
    yield
    ends(client, "57P05", "pin_idle_timeout")
    assert other.read_result().rows == [["1"]]


def the_server_of_a_function_stays(s):
    client = s.client()
    client.query("SELECT pg_sleep(0)")
    s.weir.wait_pool(sv_active=0)
    yield
    client.query("SELECT 1")
    s.weir.wait_pool(sv_active=0)
    client.query("SELECT pg_sleep(0)")
    wait_until(lambda: [row["why"] for row in s.weir.admin("SHOW PINNED")] ==
               ["function of an extension"])


def a_long_stay_is_logged(s):
    s.client().query(TEMPORARY)
    yield
    s.weir.wait_log("its server has stayed with it for .*: temporary table mine")


def a_waiting_cancel_ends(s):
    client = s.weir.wire().startup()
    server = s.far.accept().login()
    client.finish_login("alice")
    client.send(query("SELECT 1"))
    server.expect("Q")
    first, second = s.weir.wire(), s.weir.wire()
    first.send(special(CANCEL_REQUEST, client.key))
    caller = s.far.accept_raw()
    assert caller.read_startup() is None
    second.send(special(CANCEL_REQUEST, client.key))  # with the server there are 2 x pool_size
    s.weir.wait_pool(cl_waiting_cancel_req=1)
    yield
    second.wait_closed()
    assert not first.is_closed()


# -- scenarios: the network ------------------------------------------------------------------------


def long_messages_are_refused(s):
    client = s.client()
    long = query(f"SELECT length('{'x' * 5000}')")
    assert client.ask(long).rows == [["5000"]]
    yield
    client.send(long)
    assert client.read_refusal().text == "bad packet header"


def long_statements_are_refused(s):
    client = s.client()
    long = parse(f"SELECT length('{'x' * 70000}')", name="long")
    assert client.ask(long, sync()).types == "1Z"
    client.ask(close("S", "long"), sync())
    yield
    client.send(long[:66000])
    client.expect("E")
    client.send(long[66000:], sync())
    assert client.read_result().types == "Z"


def much_still_passes(s):
    """The number of buffers per turn is not visible from outside."""
    client = s.client()
    yield
    assert client.value(f"SELECT length('{'x' * 1000000}')") == "1000000"
    assert len(client.value("SELECT repeat('x', 1000000)")) == 1000000


def it_looks_before_it_sleeps(s):
    """After a response it uses CPU time while idle: three clock ticks within a second."""
    client = s.client()
    yield
    client.value("SELECT 1")
    before = processor_ticks(s.weir.process.pid)
    wait_until(lambda: processor_ticks(s.weir.process.pid) > before + 3,
               what="polling")


def later_clients_are_in_other_loops(s):
    """Nine clients of a pool of one server: before in the loops in which small pools are dealt."""
    if len(s.weir.admin("SHOW LOOPS")) == 1:
        yield
        assert s.client().value("SELECT 1") == "1"
        return

    def places():
        before = [row["clients"] for row in s.weir.admin("SHOW LOOPS")]
        clients = [s.client() for _ in range(9)]
        now = [row["clients"] for row in s.weir.admin("SHOW LOOPS")]
        assert clients[-1].value("SELECT 1") == "1"
        return sum(count > old for count, old in zip(now, before))

    assert places() > 1
    yield
    assert places() == 1


def writes_go_one_by_one(s):
    """Two responses of one turn were sent together, if the system allows it, and are not any more.
    """
    clients = [s.client(), s.client()]

    def ask():
        with s.weir.one_turn():
            for client in clients:
                client.send(query("SELECT 1") + query("SELECT 2"))
        return [[client.read_result().rows for _ in range(2)] for client in clients]

    ask()
    yield
    assert ask() == [[[["1"]], [["2"]]]] * 2
    assert not s.weir.uses_io_uring()


def who_stays_at_a_take_over_has_to_go(s):
    client = s.client()
    client.query("BEGIN")  # a late BEGIN: no server has it, and it is not handed over
    yield
    s.bystanders.gate.close()  # clients with a running query are closed too at the end of the time
    s.weir.wait_pool("working", "bob", sv_active=0)
    s.weir.disconnect_console()
    old = s.weir.take_over()
    assert "takeover_timeout" in client.read_refusal().text
    client.close()  # without waiting for its notification
    assert old.wait(15) == 0


def processor_ticks(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def sockets_of(weir):
    """Copies of the daemon's own sockets."""
    libc = ctypes.CDLL(None, use_errno=True)
    handle = libc.syscall(434, weir.process.pid, 0)  # pidfd_open
    for number in os.listdir(f"/proc/{weir.process.pid}/fd"):
        copied = libc.syscall(438, handle, int(number), 0)  # pidfd_getfd
        if copied < 0:
            pytest.skip("this user may not look at the daemon's sockets")
        try:
            yield socket.socket(fileno=copied)
        except OSError:
            os.close(copied)
    os.close(handle)


def server_option(s, user, level, option):
    port = s.row("SERVERS", user=user)["local_port"]
    for sock in sockets_of(s.weir):
        with sock:
            if sock.family == socket.AF_INET and sock.getsockname()[1] == port:
                return sock.getsockopt(level, option)
    raise AssertionError(f"no socket at port {port}")


def new_servers_have(level, option, value):
    def scenario(s):
        s.client()
        old = server_option(s, "alice", level, option)
        yield
        assert server_option(s, "alice", level, option) == old != value
        s.client("limited")
        assert server_option(s, "limited", level, option) == value
    return scenario


def silent_ones_are_taken(s):
    def listening():
        for sock in sockets_of(s.weir):
            with sock:
                if (sock.family == socket.AF_INET and
                        sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)):
                    return sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT)
        raise AssertionError("no listening socket")
    assert listening() > 0
    yield
    assert listening() == 0
    assert s.client().value("SELECT 1") == "1"


# -- scenarios: TLS --------------------------------------------------------------------------------


def shaken(s, ciphers=None, **kw):
    """The socket of a client after its handshake."""
    context = trusting(**kw)
    if ciphers:
        context.set_ciphers(ciphers)
    return encrypt(asked(s.weir), context).sock


def plain_is_refused(s):
    assert s.client().value("SELECT 1") == "1"
    yield
    assert refusal(s.weir.address).text == "SSL required"
    assert tls_client(s.weir).value("SELECT 1") == "1"


def another_certificate_is_shown(s):
    before = shaken(s).getpeercert(True)
    yield
    assert shaken(s).getpeercert(True) != before


def another_certificate_for_a_name(s):
    def shown():
        return encrypt(asked(s.weir), server_hostname="other.example").sock.getpeercert(True)

    before = shown()
    yield
    assert shown() != before


def an_old_file_is_not_needed(name, look):
    """The old file is removed before the setting names another one."""
    def scenario(s):
        before = look(s)
        os.unlink(f"{s.weir.dir}/{name}")
        yield
        wait_until(lambda: look(s) != before)
    return scenario


def other_clients_are_trusted(s):
    def come():
        context = trusting()
        context.load_cert_chain(f"{s.weir.dir}/own.crt", f"{s.weir.dir}/own.key")
        return tls_client(s.weir, context).value("SELECT 1")
    with pytest.raises((OSError, Closed)):
        come()
    yield
    assert come() == "1"


def clients_have(what, expected, **kw):
    def scenario(s):
        assert what(shaken(s, **kw)) != expected
        yield
        assert what(shaken(s, **kw)) == expected
    return scenario


def another_group_is_used(s):
    def group():
        client = tls_client(s.weir, user="limited")
        text = s.row("CLIENTS", user="limited")["tls"]
        client.close()
        s.weir.wait_pool(user="limited", cl_active=0)
        return text.split("/")[2]
    assert group() != "ECDH=secp384r1"
    yield
    assert group() == "ECDH=secp384r1"


def classic_exchange_ends(s):
    words = dict(ciphers="DHE-RSA-AES128-GCM-SHA256", maximum_version=ssl.TLSVersion.TLSv1_2)
    assert shaken(s, **words).cipher()[0] == words["ciphers"]
    yield
    with pytest.raises(OSError):
        shaken(s, **words)


def servers_have(column, expected):
    """What PostgreSQL reports about the connection, once it is a new one."""
    sql = f"SELECT {column} FROM pg_stat_ssl WHERE pid = pg_backend_pid()"

    def scenario(s):
        client = s.client()
        assert client.value(sql) != expected
        yield
        wait_until(lambda: client.value(sql) == expected)
    return scenario


def server_pid(s):
    client = s.client()
    assert client.value("SELECT ssl::text FROM pg_stat_ssl WHERE pid = pg_backend_pid()") == "true"
    pid = client.value(PID)
    client.close()
    return pid


def servers_begin_with_tls(s):
    s.weir.wire().startup()
    assert s.far.accept_raw().take(8) == special(SSL_REQUEST)
    yield
    wait_until(lambda: s.far.accept_raw().take(1) == b"\x16")


# -- the tables ------------------------------------------------------------------------------------


@dataclasses.dataclass
class Row:
    """{dir} and {far} in texts: the daemon's folder, the scripted server's address."""

    name: str
    after: str
    scenario: object
    before: dict = dataclasses.field(default_factory=dict)
    databases: dict = dataclasses.field(default_factory=dict)
    is_recycled: bool = False  # also servers that are not part of the scenario
    resolver: bool = False  # names come from a DNS server of our own
    secure: bool = False  # PostgreSQL has TLS, and certificates are in {dir}


TCP, SOL = socket.IPPROTO_TCP, socket.SOL_SOCKET
SMALL = dict(default_pool_size=1)
SIZED = dict(default_pool_size="auto", max_pool_size=1)
CLOSED = {"app": "host=127.0.0.1 port={closed}"}
NAMED = {"app": "host=db.zone.test"}

BY_RULES = dict(auth_type="hba", auth_hba_file="{dir}/all.hba")
FILES = {
    "all.hba": "host all all all trust\n",
    "more.hba": "host all limited all reject\nhost all all all trust\n",
    "more.ident": "staff mary alice\n",
}

TO_CLIENTS = dict(client_tls_sslmode="prefer", client_tls_cert_file="{dir}/own.crt",
                  client_tls_key_file="{dir}/own.key")
TO_SERVERS = dict(server_tls_sslmode="verify-ca", server_tls_ca_file="{dir}/ca.crt",
                  server_tls_cert_file="{dir}/own.crt", server_tls_key_file="{dir}/own.key")
OLD_CIPHER, OLD_SUITE = "ECDHE-ECDSA-AES128-GCM-SHA256", "TLS_AES_128_GCM_SHA256"


def for_clients(name, after, scenario, **before):
    return Row(f"client_tls{name}", after, scenario, {**TO_CLIENTS, **before}, secure=True)


def for_servers(name, after, scenario, **before):
    return Row(f"server_tls{name}", after, scenario, {**TO_SERVERS, **before}, secure=True,
               is_recycled=True)


SETTINGS = (
    # generic
    Row("conffile", "{dir}/other.ini", another_file_is_read),
    Row("peer_id", "5", keys_name_the_peer),
    Row("pool_mode", "transaction", a_session_becomes_a_transaction,
        dict(SMALL, pool_mode="session")),
    Row("max_client_conn", "1", nobody_else_comes_in),
    Row("default_pool_size", "2", the_line_moves, SMALL),
    Row("min_pool_size", "2", the_pool_fills),
    Row("max_pool_size", "2", the_line_moves, SIZED),
    Row("reserve_pool_size", "1", the_line_moves, dict(SMALL, reserve_pool_timeout="0.1")),
    Row("reserve_pool_timeout", "0.1", the_line_moves,
        dict(SMALL, reserve_pool_size=1, reserve_pool_timeout=0)),
    Row("max_db_connections", "2", a_second_user_is_served, dict(max_db_connections=1)),
    Row("max_waiting", "2", a_second_one_may_wait, dict(SMALL, max_waiting=1)),
    Row("max_db_client_connections", "1", nobody_else_comes_in),
    Row("max_user_connections", "2", a_second_database_is_served, dict(max_user_connections=1)),
    Row("max_user_client_connections", "1", nobody_else_comes_in),
    Row("server_round_robin", "1", servers_take_turns),
    Row("ignore_startup_parameters", "work_mem", a_parameter_is_dropped),
    Row("application_name_add_host", "1", the_host_is_added),
    Row("stats_period", "1", averages_are_logged),
    Row("max_prepared_statements", "1", statements_are_given_up),
    Row("late_begin", "1", begin_holds_no_server, SMALL),
    Row("route_reads", "transactions", begin_holds_no_server, SMALL),
    Row("causal_reads", "session", positions_are_asked, dict(SMALL, route_reads="transactions")),
    Row("session_isolation", "strict", others_are_cleaned, dict(SMALL, session_sample=0)),
    Row("session_state", "refuse", session_state_is_refused),
    Row("max_pinned_servers", "0", no_further_server_stays),
    Row("pin_functions", "pg_sleep", the_server_of_a_function_stays),
    Row("pin_idle_timeout", "1", resting_with_a_server_ends, SMALL),
    Row("log_pin_duration", SHORT, a_long_stay_is_logged),
    Row("scram_iterations", "5000", the_rounds_change, dict(auth_type="scram-sha-256")),
    # authentication
    Row("auth_type", "plain", a_password_is_asked),
    Row("auth_pam_service", "other", nothing_happens),
    Row("auth_ldap_options", "ldapserver=a ldapprefix=b", nothing_happens),
    Row("auth_user", "streamer", a_stranger_is_known, dict(auth_query=EVERYBODY)),
    Row("auth_query", EVERYBODY, a_stranger_is_known,
        dict(auth_user="streamer", auth_query="SELECT NULL::text, $1::text")),
    Row("auth_dbname", "other", another_place_is_asked,
        dict(auth_user="streamer", auth_query=EVERYBODY)),
    Row("auth_query_cache", "900", answers_are_kept,
        dict(auth_user="streamer", auth_query=EVERYBODY + " FROM nextval('asked')")),
    Row("auth_file", "{dir}/others.txt", others_are_known),
    Row("auth_hba_file", "{dir}/more.hba", a_rule_is_added, BY_RULES),
    Row("auth_ident_file", "{dir}/more.ident", a_map_is_added, BY_RULES),
    Row("auth_failure_delay", "900", failures_wait, dict(auth_type="plain")),
    Row("auth_failure_limit", "2", failures_are_counted,
        dict(auth_type="plain", auth_failure_delay=900)),
    Row("server_require_auth", "!password, !md5", a_way_of_asking_is_forbidden),
    Row("proxy_protocol", "accept", a_proxy_introduces, dict(proxy_protocol_from="127.0.0.1")),
    Row("proxy_protocol_from", "127.0.0.0/8, ::1", a_proxy_introduces,
        dict(proxy_protocol="accept", proxy_protocol_from="192.0.2.0/24")),
    # roles of hosts
    Row("host_check_borrow", "1", hosts_are_watched_by_a_login, dict(host_check_borrow="0"),
        databases=ROLES),
    Row("host_check_interval", "0.1", hosts_are_asked_more_often,
        dict(host_check_interval="3600", host_check_user="alice"), databases=ROLES),
    Row("host_check_timeout", "0.1", a_silent_host_is_lost,
        dict(host_check_timeout="3600", host_check_user="alice"),
        databases={"app": "{far} target_session_attrs=primary"}),
    Row("host_check_user", "alice", hosts_are_watched, databases=ROLES),
    # the web server
    Row("metrics_allow", "127.0.0.1", the_web_server_answers, WEB | dict(metrics_allow="192.0.2.1", metrics_hosts="*")),
    Row("metrics_hosts", "weir.example", the_web_server_answers, WEB),
    Row("metrics_secret_file", "{dir}/secrets", the_web_server_asks_for_a_secret, WEB),
    Row("metrics_tls", "1", the_web_server_has_tls, WEB | dict(
        client_tls_cert_file="{dir}/own.crt", client_tls_key_file="{dir}/own.key"), secure=True),
    # logging
    Row("log_connections", "0", goes_quiet("login attempt: db=app user=limited", come)),
    Row("log_disconnections", "0", goes_quiet("app/limited@.* closing because", come_and_go)),
    Row("log_pooler_errors", "0", goes_quiet("pooler error: no such database", be_refused)),
    Row("log_format", "json", lines_are_objects),
    Row("log_min_duration", "0.0001", slow_ones_are_told),
    Row("log_rate_limit", "1", many_are_suppressed),
    Row("log_stats", "1", averages_are_logged, dict(log_stats=0, stats_period=1)),
    Row("logfile", "{dir}/more.log", the_log_goes_to_a_file),
    Row("syslog", "1", said_to_syslog(rb"^<30>.*pgbouncer\[\d+\]: .*login attempt")),
    Row("syslog_ident", "somebody", said_to_syslog(rb"somebody\[\d+\]: "), dict(syslog=1)),
    Row("syslog_facility", "local3", said_to_syslog(rb"^<158>"), dict(syslog=1)),
    Row("verbose", "2", states_are_logged),
    Row("track_statements", "100", statements_are_counted),
    Row("session_audit", "1", sessions_are_audited, dict(pool_mode="session")),
    # console
    Row("admin_users", "admin, alice", becomes_an_administrator),
    Row("stats_users", "stats, alice", may_look),
    # checks
    Row("server_reset_query", "SELECT 'reset'", sessions_are_reset_by, dict(pool_mode="session")),
    Row("server_reset_query_always", "1", transactions_are_reset),
    Row("server_check_query", "SELECT 1/0", the_check_fails, dict(server_check_delay=0)),
    Row("server_check_delay", "0", servers_want_a_check),
    Row("server_fast_close", "1", sessions_are_ended, dict(pool_mode="session")),
    Row("server_lifetime", "0.1", idle_servers_go("server lifetime over"), is_recycled=True),
    Row("server_idle_timeout", "0.1", idle_servers_go("server idle timeout"), is_recycled=True),
    Row("server_connect_timeout", SHORT, a_login_under_way_is_given_up,
        databases={"app": "{far}"}),
    Row("server_login_retry", "0.1", it_tries_again, dict(server_login_retry=900),
        databases={"app": "{far}"}),
    Row("client_login_timeout", SHORT, half_a_login_is_ended),
    Row("autodb_idle_timeout", "0.1", the_pool_is_forgotten,
        databases={"app": None, "*": ""}),
    Row("pool_idle_timeout", "0.1", the_pool_is_forgotten),
    Row("dns_max_ttl", "500", addresses_are_kept, dict(dns_max_ttl=0), NAMED, resolver=True),
    Row("dns_nxdomain_ttl", "500", failures_are_kept,
        dict(dns_nxdomain_ttl=0, server_login_retry="0.1"), {"app": "host=nowhere.zone.test"},
        resolver=True),
    Row("dns_zone_check_period", "0.1", zones_are_watched, dict(dns_max_ttl=900), NAMED,
        resolver=True),
    Row("query_wait_notify", "1", told_to_wait, dict(SMALL, query_wait_notify=0)),
    Row("login_notify_message", "hello, you", greeted),
    # time limits
    Row("shutdown_accept", "3600", sigterm_is_announced),
    Row("shutdown_drain_signals", "SIGINT", sends_clients_away(signal.SIGINT), dict(shutdown_drain=3600)),
    Row("shutdown_drain", "3600", sends_clients_away(signal.SIGTERM)),
    Row("suspend_timeout", SHORT, a_suspension_gives_up),
    Row("query_timeout", SHORT, a_query_ends),
    Row("query_wait_timeout", SHORT, waiting_ends, SMALL),
    Row("cancel_abandoned", SHORT, an_abandoned_statement_ends, dict(cancel_abandoned=3600)),
    Row("cancel_grace", "0", a_lost_transaction_closes_its_server),
    Row("cancel_wait_timeout", SHORT, a_waiting_cancel_ends, dict(SMALL, cancel_wait_timeout=0),
        databases={"app": "{far}"}),
    Row("client_idle_timeout", SHORT, resting_ends),
    Row("fail_fast", "1", nobody_waits, dict(server_login_retry=900), CLOSED),
    Row("idle_transaction_timeout", SHORT,
        a_transaction_ends("25P03", "idle transaction timeout")),
    Row("transaction_timeout", SHORT, a_transaction_ends("25P04", "transaction timeout")),
    # TLS
    for_clients("_sslmode", "require", plain_is_refused),
    for_clients("_cert_file", "{dir}/other.crt", another_certificate_is_shown),
    for_clients("_key_file", "{dir}/moved.key",
                an_old_file_is_not_needed("own.key", shaken)),
    for_clients("_name_files", "{dir}/named.pem", another_certificate_for_a_name),
    for_clients("_ca_file", "{dir}/ca.crt", other_clients_are_trusted,
                client_tls_ca_file="{dir}/wrong_ca.crt"),
    for_clients("_protocols", "tlsv1.2", clients_have(ssl.SSLSocket.version, "TLSv1.2")),
    for_clients("_ciphers", OLD_CIPHER,
                clients_have(lambda sock: sock.cipher()[0], OLD_CIPHER,
                             maximum_version=ssl.TLSVersion.TLSv1_2)),
    for_clients("13_ciphers", OLD_SUITE, clients_have(lambda sock: sock.cipher()[0], OLD_SUITE)),
    for_clients("_ecdhcurve", "secp384r1", another_group_is_used),
    for_clients("_dheparams", "none", classic_exchange_ends,
                client_tls_cert_file="{dir}/rsa.crt", client_tls_key_file="{dir}/rsa.key"),
    for_servers("_sslmode", "require", servers_have("ssl::text", "true"),
                server_tls_sslmode="disable"),
    for_servers("_ca_file", "{dir}/both.crt", an_old_file_is_not_needed("ca.crt", server_pid)),
    for_servers("_cert_file", "{dir}/other.crt", servers_have("client_dn", "/CN=other.example")),
    for_servers("_key_file", "{dir}/moved.key", an_old_file_is_not_needed("own.key", server_pid)),
    for_servers("_protocols", "tlsv1.2", servers_have("version", "TLSv1.2")),
    for_servers("_ciphers", OLD_CIPHER, servers_have("cipher", OLD_CIPHER),
                server_tls_protocols="tlsv1.2"),
    for_servers("13_ciphers", OLD_SUITE, servers_have("cipher", OLD_SUITE)),
    Row("server_tls_negotiation", "direct", servers_begin_with_tls,
        dict(server_tls_sslmode="require", server_login_retry="0.1"),
        # PostgreSQL before 17 has no direct TLS; the bystanders' servers use no TLS.
        {"app": "{far}", "resting": "{unix} dbname=app3", "working": "{unix} dbname=app2"},
        is_recycled=True, secure=True),
    # network
    Row("max_packet_size", "2048", long_messages_are_refused),
    Row("max_statement_size", "65536", long_statements_are_refused, dict(pool_mode="transaction")),
    Row("sbuf_loopcnt", "1", much_still_passes),
    Row("busy_poll", "1000000", it_looks_before_it_sleeps),
    Row("io_uring", "0", writes_go_one_by_one),
    Row("servers_per_loop", "7", later_clients_are_in_other_loops, SMALL),
    Row("takeover_timeout", SHORT, who_stays_at_a_take_over_has_to_go, dict(late_begin="1")),
    Row("tcp_defer_accept", "0", silent_ones_are_taken),
    Row("tcp_socket_buffer", "32768", new_servers_have(SOL, socket.SO_RCVBUF, 65536)),
    Row("tcp_keepalive", "0", new_servers_have(SOL, socket.SO_KEEPALIVE, 0)),
    Row("tcp_keepcnt", "4", new_servers_have(TCP, socket.TCP_KEEPCNT, 4)),
    Row("tcp_keepidle", "55", new_servers_have(TCP, socket.TCP_KEEPIDLE, 55)),
    Row("tcp_keepintvl", "44", new_servers_have(TCP, socket.TCP_KEEPINTVL, 44)),
    Row("tcp_user_timeout", "7000", new_servers_have(TCP, socket.TCP_USER_TIMEOUT, 7000)),
)

# Settings that need a restart, with another value for each.
RESTART = {
    "console_version": "1.24", "core_dumps": "1", "disable_pqexec": "1", "job_name": "other", "listen_addr": "127.0.0.2", "listen_backlog": "64",
    "listen_port": "7777", "loops": "5",
    "metrics_listen": "127.0.0.1:9127", "peers_dns": "pool.test", "peers_secret_file": "/nowhere", "pidfile": "/nowhere/pid", "pkt_buf": "8192", "resolv_conf": "/nowhere",
    "so_reuseport": "1", "tls_records": "openssl", "track_extra_parameters": "search_path", "unix_socket_dir": "/nowhere",
    "unix_socket_group": "nogroup", "unix_socket_mode": "448", "user": "nobody",
}


@pytest.fixture
def tools(account):
    """Tools that only some rows need, created on demand: tools("names"), tools("syslog")."""
    made = {}

    def make_syslog():
        system = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        system.bind("/dev/log")
        os.chmod("/dev/log", 0o666)
        system.settimeout(LIMIT)
        return system

    def make_names():
        server = NameServer()
        server.names["db.zone.test"] = ["127.0.0.1"]
        server.serials["zone.test"] = 7
        return server

    makers = {"syslog": make_syslog, "names": make_names}

    def get(name):
        if name not in made:
            try:
                made[name] = makers[name]()
            except OSError as refused:
                pytest.skip(f"not here: {refused}")
        return made[name]

    yield get
    for thing in made.values():
        thing.close()
    if "syslog" in made:
        os.unlink("/dev/log")


class Bystanders:
    """An idle client, and one whose query ends on demand."""

    def __init__(self, scene):
        self.scene, self.postgres = scene, scene.postgres
        self.resting = scene.client("carol", "resting")
        self.pid = int(self.resting.value(PID))
        self.gate = self.postgres.connect("app2")
        self.gate.execute("SELECT pg_advisory_lock(1)")
        self.working = scene.client("bob", "working")
        self.working.send(query("SELECT pg_advisory_xact_lock_shared(1), 'done'"))
        wait_until(lambda: self.postgres.query("SELECT 1 FROM pg_locks WHERE NOT granted"))

    def judge(self, is_recycled):
        self.gate.close()
        assert self.working.read_result().rows == [["", "done"]]
        assert self.resting.value("SELECT 'well'") == "well"
        if is_recycled:
            wait_until(lambda: self.pid not in self.postgres.backends("carol"))
        else:
            assert self.pid in self.postgres.backends("carol")


def fill_in(texts, **words):
    return {name: text and text.format(**words) for name, text in texts.items()}


@pytest.fixture(scope="session")
def other(ca, own):
    return ca.issue("reload_other", "other.example", key=own)


@pytest.fixture(scope="session")
def rsa(ca):
    """Made once: an RSA key takes longer than a test."""
    return ca.issue("reload_rsa", "rsa.example", key="rsa")


@pytest.fixture
def write_certificates(request):
    """Puts the certificates that rows name into a daemon's folder."""

    def write(weir):
        ca, wrong_ca, own, other, rsa = (request.getfixturevalue(name)
                                         for name in ("ca", "wrong_ca", "own", "other", "rsa"))
        for name, path in (("ca.crt", ca.cert), ("wrong_ca.crt", wrong_ca.cert),
                           ("own.crt", own.cert), ("own.key", own.key), ("moved.key", own.key),
                           ("other.crt", other.cert), ("rsa.crt", rsa.cert), ("rsa.key", rsa.key)):
            with open(path, encoding="ascii") as file:
                weir.account.write(f"{weir.dir}/{name}", file.read())
        with open(ca.cert, encoding="ascii") as one, open(wrong_ca.cert, encoding="ascii") as two:
            weir.account.write(f"{weir.dir}/both.crt", two.read() + one.read())
        with open(other.cert, encoding="ascii") as one, open(other.key, encoding="ascii") as two:
            weir.account.write(f"{weir.dir}/named.pem", one.read() + two.read())

    return write


@pytest.fixture
def play(request, make_pgweir, fake_server, tools, write_certificates):
    """Runs a scenario, with `change` in the middle."""

    def run(row, change, databases=(), users=()):
        far = fake_server()
        settings = {"pool_mode": "transaction"}
        if row.secure:
            settings["postgres"] = request.getfixturevalue("secure_postgres")
        weir = make_pgweir(**settings)
        if row.secure:
            write_certificates(weir)
            weir.console_address = weir.socket_path
        for name, text in FILES.items():
            weir.account.write(f"{weir.dir}/{name}", text)
        weir.web_port = free_port()
        weir.configure(**{name: text.format(dir=weir.dir, web=weir.web_port) if isinstance(text, str) else text
                          for name, text in row.before.items()})
        entries = {"app": "", "other": "dbname=app2", "resting": "dbname=app3",
                   "working": "dbname=app2", **dict(row.databases), **dict(databases)}
        words = {"far": far.entry, "closed": free_port(), "dir": weir.dir,
                 "unix": f"host={weir.postgres.socket_dir} port={weir.postgres.port}"}
        entries = {name: text for name, text in fill_in(entries, **words).items()
                   if text is not None}
        if row.resolver:
            address = tools("names").address
            weir.account.write(f"{weir.dir}/resolv.conf", f"nameserver {address}\n")
            weir.configure(resolv_conf=f"{weir.dir}/resolv.conf")
            entries = {name: f"{text} port={weir.postgres.port}" if "host=" in text else text
                       for name, text in entries.items()}
            entries["app"] += " dbname=app"
        weir.configure(databases=entries,
                       users={"carol": SAFE, "bob": SAFE, **dict(users)}).start()
        scene = Scene(weir, far, tools)
        bystanders = scene.bystanders = Bystanders(scene)
        steps = row.scenario(scene)
        next(steps)
        scene.mark = len(weir.log)
        change(weir, entries)
        with pytest.raises(StopIteration):
            next(steps)
        bystanders.judge(row.is_recycled)

    return run


@pytest.mark.parametrize("way", ("RELOAD", "SET"))
@pytest.mark.parametrize("row", SETTINGS, ids=lambda row: row.name)
def test_a_setting(play, row, way):
    def change(weir, _):
        after = row.after.format(dir=weir.dir)
        if way == "RELOAD":
            weir.reload(**{row.name: after})
        else:
            quoted = after.replace("'", "''")
            answer = weir.ask_admin(f"SET {row.name} = '{quoted}'")
            assert answer.tags == [f"SET {row.name}={after}"], answer
        (shown,) = [line for line in weir.admin("SHOW CONFIG") if line["key"] == row.name]
        assert shown["value"] == after

    play(row, change)


# Their rows come with the code that uses them.
TO_COME = ["session_sample"]
# These need a standby: test_read_routing.py.
WITH_STANDBYS = ["causal_reads_wait", "max_standby_lag", "max_standby_lag_bytes", "read_functions",
                 "standby_pool_size"]
# test_caps.py changes these while there are servers of all pools, or load.
# test_hosts_from.py.
WITH_REST = ["hosts_from_ca_file", "hosts_from_period"]
WITH_LOAD = ["fair_by", "max_host_connections", "max_server_connections", "queue_interval", "queue_target"]


def test_no_setting_is_forgotten(pgweir):
    shown = [row["key"] for row in pgweir().admin("SHOW CONFIG")]
    assert sorted(shown) == sorted([row.name for row in SETTINGS] + list(RESTART) + TO_COME
                                   + WITH_STANDBYS + WITH_LOAD + WITH_REST)


def test_what_is_read_at_the_start_only(pgweir):
    weir = pgweir(servers_per_loop=0)  # what the kit adds where there are several loops
    before = {row["key"]: row for row in weir.admin("SHOW CONFIG")}
    assert {name for name, row in before.items() if row["changeable"] == "no"} == set(RESTART)
    for name, value in RESTART.items():
        assert before[name]["value"] != value
        answer = weir.ask_admin(f"SET {name} = '{value}'")
        assert answer.tags == [f"SET {name}={value}"]
        assert "restart" in answer.notices[0]["M"], answer
    weir.reload(**RESTART)
    said = weir.wait_log("changes that need a restart: (.*)$").group(1)
    assert sorted(said.split(", ")) == sorted(RESTART)
    assert {row["key"]: row for row in weir.admin("SHOW CONFIG")} == before
    assert weir.client().value("SELECT 1") == "1"


# -- entries of [databases] and [users] ------------------------------------------------------------


DATABASE_KEYS = (
    Row("causal_reads", "causal_reads=session", positions_are_asked,
        dict(SMALL, route_reads="transactions")),
    Row("route_reads", "route_reads=transactions", begin_holds_no_server, SMALL),
    Row("fail_fast", "host=127.0.0.1 port=1 fail_fast=1", nobody_waits,
        dict(server_login_retry=900), {"app": "host=127.0.0.1 port=1"}),
    Row("late_begin", "late_begin=1", begin_holds_no_server, SMALL),
    Row("max_db_client_connections", "max_db_client_connections=1", nobody_else_comes_in),
    Row("max_db_connections", "max_db_connections=2", a_second_user_is_served,
        databases={"app": "max_db_connections=1"}),
    Row("max_pinned_servers", "max_pinned_servers=0", no_further_server_stays),
    Row("max_pool_size", "max_pool_size=2", the_line_moves, SIZED),
    Row("min_pool_size", "min_pool_size=2", the_pool_fills),
    Row("pin_functions", "pin_functions=pg_sleep", the_server_of_a_function_stays),
    Row("pool_mode", "pool_mode=transaction", a_session_becomes_a_transaction,
        dict(SMALL, pool_mode="session")),
    Row("pool_size", "pool_size=2", the_line_moves, databases={"app": "pool_size=1"}),
    Row("query_timeout", "query_timeout=1", a_query_ends),
    Row("query_wait_timeout", "query_wait_timeout=1", waiting_ends, SMALL),
    Row("transaction_timeout", "transaction_timeout=1", a_transaction_ends("25P04", "transaction timeout")),
    Row("idle_transaction_timeout", "idle_transaction_timeout=1",
        a_transaction_ends("25P03", "idle transaction timeout")),
    Row("reserve_pool_size", "reserve_pool_size=1", the_line_moves,
        dict(SMALL, reserve_pool_timeout="0.1")),
    Row("server_lifetime", "server_lifetime=1", idle_servers_go("server lifetime over")),
    Row("session_isolation", "session_isolation=strict", others_are_cleaned,
        dict(SMALL, session_sample=0)),
    Row("session_state", "session_state=refuse", session_state_is_refused),
)

USER_KEYS = (
    Row("causal_reads", "session", positions_are_asked, dict(SMALL, route_reads="transactions")),
    Row("route_reads", "transactions", begin_holds_no_server, SMALL),
    Row("client_idle_timeout", "1", resting_ends),
    Row("fail_fast", "1", nobody_waits, dict(server_login_retry=900), CLOSED),
    Row("idle_transaction_timeout", "1",
        a_transaction_ends("25P03", "idle transaction timeout")),
    Row("late_begin", "1", begin_holds_no_server, SMALL),
    Row("max_user_client_connections", "1", nobody_else_comes_in),
    Row("max_pool_size", "2", the_line_moves, SIZED),
    Row("max_user_connections", "2", a_second_database_is_served, dict(max_user_connections=1)),
    Row("pin_idle_timeout", "1", resting_with_a_server_ends, SMALL),
    Row("pool_mode", "transaction", a_session_becomes_a_transaction,
        dict(SMALL, pool_mode="session")),
    Row("pool_size", "2", the_line_moves, SMALL),
    Row("query_timeout", "1", a_query_ends),
    Row("query_wait_timeout", "1", waiting_ends, SMALL),
    Row("reserve_pool_size", "1", the_line_moves, dict(SMALL, reserve_pool_timeout="0.1")),
    Row("session_isolation", "strict", others_are_cleaned, dict(SMALL, session_sample=0)),
    Row("session_state", "refuse", session_state_is_refused),
    Row("transaction_timeout", "1", a_transaction_ends("25P04", "transaction timeout")),
)

# Effect of a change of each key on existing servers, and properties of new ones.
IS_OTHER, STAYS = True, False
SERVERS = {
    "application_name": (STAYS, "", "application_name=probe", "SHOW application_name", "probe"),
    "client_encoding": (STAYS, "", "client_encoding=LATIN1", "SHOW client_encoding", "LATIN1"),
    "datestyle": (STAYS, "", "datestyle=German", "SHOW datestyle", "German, DMY"),
    "timezone": (STAYS, "", "timezone=Asia/Tokyo", "SHOW timezone", "Asia/Tokyo"),
    "password": (STAYS, "user=plain_user password='plain secret'",
                 "user=plain_user password=wrong", None, "28P01"),
    "auth_user": (STAYS, "", "auth_user=streamer", "SELECT 1", "1"),
    "auth_query": (IS_OTHER, "", "auth_query='SELECT $1, 1'", "SELECT 1", "1"),
    "auth_dbname": (IS_OTHER, "", "auth_dbname=app2", "SELECT 1", "1"),
    "connect_query": (IS_OTHER, "", "connect_query='SET work_mem TO 777'", "SHOW work_mem",
                      "777kB"),
    "dbname": (IS_OTHER, "", "dbname=app2", "SELECT current_database()", "app2"),
    "target_session_attrs": (IS_OTHER, "", "target_session_attrs=primary",
                             "SELECT pg_is_in_recovery()", "f"),
    "host": (IS_OTHER, "", "host={socket_dir} port={port}",
             "SELECT coalesce(inet_server_addr()::text, 'unix')", "unix"),
    "port": (IS_OTHER, "host=localhost port={port}", "host=localhost port={other}", "SELECT 1",
             "other"),
    "load_balance_hosts": (IS_OTHER, "host=localhost,127.0.0.1 port={port}",
                           "host=localhost,127.0.0.1 port={port} load_balance_hosts=disable",
                           "SELECT 1", "1"),
    "user": (IS_OTHER, "user=alice", "user=bob", "SELECT current_user", "bob"),
}


def note(row):
    return row.name


@pytest.mark.parametrize("row", DATABASE_KEYS, ids=note)
def test_a_key_of_a_database(play, row):
    def change(weir, entries):
        weir.reload(databases={**entries, "app": row.after})
    play(row, change)


@pytest.mark.parametrize("row", USER_KEYS, ids=note)
def test_a_key_of_a_user(play, row):
    def change(weir, _):
        weir.reload(users={"alice": f"{row.name}={row.after}", "carol": SAFE, "bob": SAFE})
    play(row, change)


@pytest.mark.parametrize("key", SERVERS)
def test_which_servers_a_key_replaces(pgweir, postgres, fake_server, key):
    """Clients stay connected; idle servers are closed at once, a busy one when it returns to the
    pool.
    """
    is_other, before, after, sql, value = SERVERS[key]
    far = fake_server().serve(
        lambda server: server.login().answer_queries(lambda _: fake_answer("other")))
    words = dict(socket_dir=postgres.socket_dir, port=postgres.port, other=far.port)
    weir = pgweir(databases={"app": before.format(**words)}, pool_mode="transaction")
    idle, busy = weir.client(), weir.client()
    busy.query("BEGIN")
    pids = idle.value(PID), busy.value(PID)
    weir.reload(databases={"app": after.format(**words)})
    assert busy.value(PID) == pids[1]
    assert busy.query("COMMIT").tags == ["COMMIT"]
    known = {str(row["remote_pid"]) for row in weir.admin("SHOW SERVERS")}
    # Several loops may have opened one more.
    assert known.isdisjoint(pids) if is_other else known >= set(pids)
    weir.admin("RECONNECT app")
    if sql is None:
        idle.send(query("SELECT 1"))
        assert idle.read_refusal().sqlstate == value
    else:
        assert weir.client().value(sql) == value
        assert idle.query("SELECT 1").tags == ["SELECT 1"]


def keys_in_source(kind):
    """The names in the table in the source code."""
    path = os.path.join(os.path.dirname(__file__), "..", "..", "include", "pgweir", "config", "entry_table.h")
    with open(path, encoding="utf-8") as file:
        return set(re.findall(rf"^{kind}\([^,]+, (\w+),\s", file.read(), re.MULTILINE))


def test_no_key_is_forgotten():
    names = {row.name for row in DATABASE_KEYS} | set(SERVERS) | {"standby_pool_size", "max_standby_lag", "max_standby_lag_bytes",
                                                              "max_waiting", "weight", "guaranteed_servers",
                                                              "hosts_from"}
    assert keys_in_source("DATABASE") == names
    assert keys_in_source("USER") == {row.name for row in USER_KEYS} | {"max_waiting", "priority", "weight",
                                                                    "guaranteed_servers"}
    assert keys_in_source("PEER") == {"host", "port", "pool_size"}


def test_a_peer_moves(make_pgweir, fake_server):
    """A queued request is sent to the new address of the peer."""
    old, new = fake_server(), fake_server()
    weir = make_pgweir(peer_id=1)
    weir.sections["peers"] = {"2": f"{old.entry} pool_size=1"}
    weir.configure().start()
    key = bytes([1, 2, 0, 0, 0, 0, 0, 3])
    first, second = weir.wire(), weir.wire()
    first.send(special(CANCEL_REQUEST, key))
    on_its_way = old.accept_raw()
    assert on_its_way.read_startup() is None
    second.send(special(CANCEL_REQUEST, key))
    wait_until(lambda: weir.admin("SHOW PEER_POOLS")[0]["cl_waiting_cancel_req"] == 1)
    weir.sections["peers"] = {"2": f"{new.entry} pool_size=2"}
    weir.reload()
    assert weir.admin("SHOW PEERS") == [
        {"peer_id": 2, "host": new.host, "port": new.port, "pool_size": 2}]
    moved = new.accept_raw()
    assert moved.read_startup() is None
    assert not first.is_closed()
    for channel in (on_its_way, moved):
        channel.close()
    for client in (first, second):
        client.wait_closed()


# -- another user is forced on a database ----------------------------------------------------------


def pools(weir, database="app"):
    return {row["user"] for row in weir.admin("SHOW POOLS") if row["database"] == database}


WHO = "SELECT current_user"


@pytest.mark.parametrize("before", ("user=alice", ""))
def test_clients_go_over_to_the_new_forced_user(pgweir, before):
    weir = pgweir(databases={"app": before}, pool_mode="transaction", default_pool_size=1)
    busy, waiting, resting = (weir.client() for _ in range(3))
    assert resting.value(WHO) == "alice"
    busy.query("BEGIN")
    waiting.send(query(WHO))
    weir.wait_pool(cl_waiting=1)
    weir.reload(databases={"app": "user=bob"})
    assert waiting.read_result().rows == [["bob"]]  # it does not wait for alice's servers
    assert resting.value(WHO) == "bob"
    assert busy.value(WHO) == "alice"
    assert pools(weir) == {"alice", "bob"}
    busy.query("COMMIT")
    assert busy.value(WHO) == "bob"
    wait_until(lambda: pools(weir) == {"bob"})
    weir.reload(databases={"app": "user=alice"})
    assert [client.value(WHO) for client in (busy, waiting, resting)] == ["alice"] * 3


LEFT = "CREATE TEMP TABLE left_over AS SELECT 'of alice'; SET work_mem = '777kB'"
FOUND = "SELECT to_regclass('pg_temp.left_over'), current_setting('work_mem')"


def leave_something(weir, **kw):
    """Leaves a temporary table, a parameter and a named statement in a session."""
    client = weir.client(**kw)
    assert not client.query(LEFT).errors
    assert not client.ask(parse("SELECT 'of alice'", "s1"), sync()).errors
    return client


def finds_nothing(weir):
    client = weir.client()
    (row,) = client.query(FOUND).rows
    assert row == [None, "4MB"]
    assert client.ask(bind(name="s1"), execute(), sync()).error["C"] == "26000"


def keeps_its_session(weir, client):
    """What the client has made is still its own, and nobody else's, until it leaves."""
    for _ in range(2):
        assert client.value("SELECT count(*) FROM left_over") == "1"
        finds_nothing(weir)
    client.close()
    weir.wait_pool(sv_active=0, sv_tested=0)


@pytest.mark.parametrize("way", ("RELOAD", "SET"))
@pytest.mark.parametrize("reset", ("DISCARD ALL", ""))
@pytest.mark.parametrize("when", ("lent", "at rest", "there and back"))
def test_a_session_leaves_nothing_to_transactions(pgweir, way, reset, when):
    """pool_mode changes while a session has a server, or while a server it has used is idle."""
    weir = pgweir(pool_mode="transaction" if when == "there and back" else "session",
                  server_reset_query=reset, default_pool_size=1 if when == "at rest" else 2)

    def change(mode):
        if way == "SET":
            weir.admin(f"SET pool_mode = '{mode}'")
        else:
            weir.reload(pool_mode=mode)

    if when == "there and back":  # it was assigned for a transaction, then the mode became session
        client = weir.client()
        client.query("BEGIN")
        change("session")
        client.query("COMMIT; " + LEFT)
    else:
        client = leave_something(weir)
    if when == "at rest":
        client.close()
        weir.wait_pool(cl_active=0, sv_active=0, sv_tested=0)
    change("transaction")
    if when != "at rest":
        keeps_its_session(weir, client)
    finds_nothing(weir)


@pytest.mark.parametrize("reset", ("DISCARD ALL", ""))
@pytest.mark.parametrize("when", ("lent", "at rest"))
def test_nor_across_a_take_over(pgweir, reset, when):
    weir = pgweir(pool_mode="session", server_reset_query=reset,
                  default_pool_size=1 if when == "at rest" else 2)
    client = leave_something(weir)
    if when == "at rest":
        client.close()
        weir.wait_pool(cl_active=0, sv_active=0, sv_tested=0)
    weir.disconnect_console()
    weir.configure(pool_mode="transaction")
    assert weir.take_over().wait(15) == 0
    if when == "lent":
        keeps_its_session(weir, client)
    finds_nothing(weir)


def test_a_session_keeps_its_user_to_its_end(pgweir):
    weir = pgweir(databases={"app": "user=alice"}, pool_mode="session")
    client = weir.client()
    assert client.value(WHO) == "alice"
    weir.reload(databases={"app": "user=bob"})
    assert client.value(WHO) == "alice"
    assert weir.client().value(WHO) == "bob"
    client.close()
    wait_until(lambda: pools(weir) == {"bob"})


def test_newcomers_go_over_too(pgweir, fake_server):
    """They wait for the first server of a user that cannot log in."""
    far = fake_server()
    weir = pgweir(databases={"app": far.entry + " user=alice"})
    newcomer = weir.wire().startup("carol")
    assert far.accept().parameters["user"] == "alice"
    weir.reload(databases={"app": far.entry + " user=bob"})
    server = far.accept()
    assert server.parameters["user"] == "bob"
    server.login()
    newcomer.finish_login("carol")


def test_a_user_that_is_forced_no_more(pgweir):
    """Connected clients keep the forced user; new clients use their own user."""
    weir = pgweir(databases={"app": "user=alice"}, pool_mode="transaction")
    inside = weir.client("bob")
    assert inside.value(WHO) == "alice"
    weir.reload(databases={"app": ""})
    assert inside.value(WHO) == "alice"
    assert weir.client("bob").value(WHO) == "bob"


# -- users, and databases that come and go ---------------------------------------------------------


def test_the_userlist_changes(pgweir):
    weir = pgweir(auth_type="plain", pool_mode="transaction")
    staying, leaving = (weir.client(user, password=USERS[user]) for user in ("alice", "bob"))
    users = dict(USERS, alice="changed", newcomer="x")
    del users["bob"]
    weir.reload(userlist=users)
    assert refusal(weir.address, password=USERS["alice"]).sqlstate == "28P01"
    assert refusal(weir.address, "bob", password=USERS["bob"]).sqlstate == "28P01"
    assert weir.client(password="changed").value("SELECT 1") == "1"
    for client in (staying, leaving):
        assert client.value("SELECT 1") == "1"
    assert "newcomer" in {row["name"] for row in weir.admin("SHOW USERS")}


@pytest.mark.parametrize("auth_type, kind", (("plain", str), ("plain", scram_secret),
                                             ("scram-sha-256", str),
                                             ("scram-sha-256", scram_secret)))
def test_a_login_that_began_with_the_old_secret(pgweir, auth_type, kind):
    """It is refused, and its credentials do not replace those for server logins."""
    old, new = "old secret", "scram secret"  # the new one is PostgreSQL's
    users = dict(USERS, scram_user=kind(old))
    weir = pgweir(auth_type=auth_type, pool_mode="transaction", userlist=users)
    late, removed = (weir.wire().startup("scram_user") for _ in range(2))
    asked = [late.read()]
    if auth_type == "scram-sha-256":
        late.scram = Scram(old)
        late.send(sasl_initial(late.scram.first()))
        asked.append(late.read())
    weir.reload(userlist=dict(USERS, scram_user=weir.postgres.secret("scram_user")
                              if kind is scram_secret else new))
    honest = weir.client("scram_user", password=new)
    late.send(message("p", late.scram.final(asked[-1].body[4:]) if auth_type != "plain"
                      else cstr(old)))
    refused = late.read_to_end()
    assert [got.type for got in refused] == ["E"], "the old password was confirmed"
    assert refused[0].fields["C"] == "28P01"
    weir.wait_log("login refused, .*: the user's secret has changed during the login")
    weir.admin("RECONNECT")
    weir.wait_pool("app", "scram_user", sv_idle=0)
    assert honest.value(WHO) == "scram_user"
    del users["scram_user"]
    weir.reload(userlist=users)
    with pytest.raises(Refused):
        removed.finish_login("scram_user", new)


@pytest.mark.parametrize("way", ("RELOAD", "SET"))
def test_users_count_again_when_names_do(pgweir, way):
    """With auth_type = any, auth_file is not used; it is read when the type changes."""
    weir = pgweir(auth_type="any", databases={"app": "user=alice"})
    assert weir.client("anybody").value(WHO) == "alice"
    if way == "RELOAD":
        weir.reload(auth_type="plain")
    else:
        weir.admin("SET auth_type = 'plain'")
    assert refusal(weir.address, "anybody", password="x").sqlstate == "28P01"
    assert weir.client(password=USERS["alice"]).value(WHO) == "alice"


def test_a_made_database_that_gets_an_entry_is_not_forgotten(pgweir):
    weir = pgweir(databases={"*": ""}, autodb_idle_timeout="0.1", pool_idle_timeout="0.1",
                  pool_mode="transaction")
    client = weir.client()
    client.query("SELECT 1")
    weir.reload(databases={"*": "", "app": ""})
    client.close()
    weir.wait_pool(cl_active=0, sv_idle=1)
    weir.admin("RECONNECT app")
    wait_until(lambda: not pools(weir))
    assert [row["name"] for row in weir.admin("SHOW DATABASES") if row["name"] == "app"] == ["app"]
    assert weir.client().value("SELECT 1") == "1"


# -- the change itself -----------------------------------------------------------------------------


def test_what_was_set_is_lost_at_the_next_reload(pgweir):
    weir = pgweir(default_pool_size=5)
    weir.admin("SET default_pool_size = 6")
    weir.admin("RELOAD")
    values = {row["key"]: row["value"] for row in weir.admin("SHOW CONFIG")}
    assert values["default_pool_size"] == "5"


@pytest.mark.parametrize("setting, begin", (
    ("client_idle_timeout", "SELECT 1"), ("idle_transaction_timeout", "BEGIN"),
    ("transaction_timeout", "BEGIN"), ("query_timeout", "SELECT pg_sleep(60)"),
))
def test_reloads_do_not_put_off_a_limit(pgweir, setting, begin):
    weir = pgweir(pool_mode="transaction", **{setting: "1"})
    client = weir.client()
    client.send(query(begin))
    values = iter(range(10**6))

    def is_ended():
        # The limit is changed repeatedly; the time counts from the start of the query.
        weir.reload(**{setting: 1 + next(values) % 2 / 10})
        return b"timeout" in client.buffer or client.is_closed()

    wait_until(is_ended)


def test_many_clients_have_a_new_limit(pgweir):
    """More clients than are processed in one turn."""
    weir = pgweir(pool_mode="transaction", max_client_conn=2000)
    clients = [weir.client() for _ in range(300)]
    weir.reload(client_idle_timeout="0.1")
    for client in clients:
        ends(client, "57P05", "client_idle_timeout")


def test_a_smaller_pool_gives_up_idle_servers(pgweir):
    weir = pgweir(pool_mode="transaction")
    clients = [weir.client() for _ in range(3)]
    for client in clients:
        client.query("BEGIN")
    for client in clients[:2]:
        client.query("COMMIT")
    pid = clients[2].value(PID)
    weir.reload(default_pool_size=1)
    weir.wait_pool(sv_active=1, sv_idle=0)
    assert clients[2].value(PID) == pid
    clients[2].query("COMMIT")
    assert clients[0].value(PID) == pid
