# SPDX-License-Identifier: ISC
"""A database that is down: which clients wait, how long, and which errors they get."""

import os
import re
import shutil
import signal
import socket
import tempfile

import pytest

from .kit import fake
from .kit.account import dead_port, free_port
from .kit.wait import wait_until
from .kit.wire import query, refusal

SHORT = "0.3"
LONG = "900"
DOWN = r"retry after failure: connect failed: Connection refused; next try in \d+ s"


def down(more=""):
    """An entry with a port on which nothing listens."""
    return f"host=127.0.0.1 port={dead_port()} {more}"


def ends_with(refused, sqlstate, text, detail=DOWN):
    assert (refused.severity, refused.sqlstate, refused.text) == ("FATAL", sqlstate, text)
    assert re.fullmatch(detail, refused.fields["D"]), refused.fields


# -- query_wait_timeout for clients that wait for the pool's first server -------------------------


@pytest.mark.parametrize("settings", (
    dict(query_wait_timeout=SHORT),
    dict(databases={"app": down(f"query_wait_timeout={SHORT}")}, query_wait_timeout=0),
    dict(users={"alice": f"query_wait_timeout={SHORT}"}, query_wait_timeout=0),
), ids=("global", "database", "user"))
def test_a_first_client_waits_as_long_as_a_query_may(pgweir, settings):
    weir = pgweir(**{"databases": {"app": down()}, "server_login_retry": LONG, **settings})
    ends_with(refusal(weir.address), "53300", "query_wait_timeout")
    weir.wait_log("pooler error: query_wait_timeout: " + DOWN)


@pytest.mark.parametrize("settings", (
    dict(query_timeout=SHORT),
    dict(users={"alice": f"query_timeout={SHORT}"}, query_wait_timeout=5),
), ids=("global", "user"))
def test_a_first_client_waits_no_longer_than_query_timeout(pgweir, settings):
    weir = pgweir(databases={"app": down()}, server_login_retry=LONG, **settings)
    ends_with(refusal(weir.address), "57014", "query_timeout")


@pytest.mark.parametrize("more", (dict(query_wait_timeout=5), dict(query_wait_timeout=0)))
def test_the_limit_of_logins_counts_where_it_is_shorter(pgweir, more):
    weir = pgweir(databases={"app": down()}, server_login_retry=LONG, client_login_timeout=SHORT,
                  **more)
    ends_with(refusal(weir.address), "57P03", "client_login_timeout (server down)")


def test_the_limit_of_waiting_counts_without_one_of_logins(pgweir):
    weir = pgweir(databases={"app": down()}, server_login_retry=LONG, client_login_timeout=0,
                  query_wait_timeout=SHORT)
    ends_with(refusal(weir.address), "53300", "query_wait_timeout")


def test_a_reload_changes_the_limit_of_those_who_wait(pgweir):
    weir = pgweir(databases={"app": down()}, server_login_retry=LONG)
    client = weir.wire().startup()
    weir.wait_pool(cl_waiting=1)
    weir.reload(query_wait_timeout=SHORT)
    ends_with(client.read_refusal(), "53300", "query_wait_timeout")


def test_a_replication_client_waits_as_long_as_a_query_may(pgweir):
    weir = pgweir(default_pool_size=1, query_wait_timeout=SHORT)
    first = weir.client("streamer", replication="database")
    refused = refusal(weir.address, "streamer", replication="database")
    ends_with(refused, "53300", "query_wait_timeout", "pool full: .*")
    assert first.value("SELECT 1") == "1"


def test_a_login_by_auth_query_waits_as_long_as_a_query_may(pgweir):
    weir = pgweir(databases={"app": down()}, server_login_retry=LONG, auth_type="plain",
                  auth_user="asker", auth_query="SELECT $1::text, 'secret'",
                  query_wait_timeout=SHORT, userlist={"asker": "secret"})
    refused = weir.wire().startup().read_refusal()
    assert (refused.sqlstate, refused.text) == ("53300", "query_wait_timeout")
    weir.wait_log("auth_query failed, on app by asker, for alice: query_wait_timeout: " + DOWN)


def test_who_got_in_in_time_is_not_ended_later(pgweir, fake_server):
    far = fake_server()
    weir = pgweir(databases={"app": far.entry}, query_wait_timeout=1)
    client = weir.wire().startup()
    far.accept().login()
    client.finish_login("alice")
    weir.reload(databases={"app": far.entry, "down": down()})
    refusal(weir.address, database="down")  # a whole query_wait_timeout has gone by
    assert not client.is_closed()


# -- fail_fast ------------------------------------------------------------------------------------

FAST = "PostgreSQL cannot be reached: connect failed: Connection refused (fail_fast)"
CLOSED = "PostgreSQL cannot be reached: server closed the connection during login (fail_fast)"
RESET = "PostgreSQL cannot be reached: connect failed: Connection reset by peer (fail_fast)"
TIMED_OUT = "PostgreSQL cannot be reached: connect failed: Connection timed out (fail_fast)"
AGAIN = r'database "app", host \S+ port \d+: (next try in \d+ s|it is being tried again)'


def turned_away(refused, text=FAST):
    assert (refused.severity, refused.sqlstate, refused.text) == ("FATAL", "57P03", text)
    assert re.fullmatch(AGAIN, refused.fields["D"]), refused.fields
    assert "fail_fast = 0" in refused.fields["H"]


def errors(weir, reason):
    return sum(row["count"] for row in weir.admin("SHOW ERRORS") if row["reason"] == reason)


@pytest.mark.parametrize("settings", (
    dict(fail_fast=1),
    dict(databases={"app": down("fail_fast=1")}),
    dict(users={"alice": "fail_fast=1"}),
    dict(databases={"app": down("fail_fast=0")}, users={"alice": "fail_fast=1"}),
), ids=("global", "database", "user", "user before database"))
def test_nobody_waits_for_a_database_that_is_down(pgweir, settings):
    weir = pgweir(**{"databases": {"app": down()}, "server_login_retry": LONG, **settings})
    for _ in range(3):
        turned_away(refusal(weir.address))
    assert errors(weir, "PostgreSQL cannot be reached (fail_fast)") == 3


def test_a_users_own_word_counts_for_that_user(pgweir):
    """Two users in one pool: fail_fast is set for only one of them."""
    weir = pgweir(databases={"app": down("user=carol")}, server_login_retry=LONG, fail_fast=1,
                  users={"bob": "fail_fast=0 query_wait_timeout=1"})
    patient = weir.wire().startup("bob")
    wait_until(lambda: errors(weir, "server could not be reached"))
    turned_away(refusal(weir.address))
    assert weir.pool(user="carol")["cl_waiting"] == 1
    assert patient.read_refusal().text == "query_wait_timeout"


def test_clients_that_are_in_are_turned_away_too(pgweir, private_postgres):
    server = private_postgres()
    weir = pgweir(postgres=server, pool_mode="transaction", fail_fast=1, server_login_retry="0.1")
    first, second, third = [weir.client() for _ in range(3)]
    assert first.value("SELECT 1") == "1"
    server.stop(signal.SIGQUIT)
    weir.wait_pool(sv_idle=0, sv_active=0)
    first.send(query("SELECT 1"))  # its attempt is the first to fail
    turned_away(first.read_refusal())
    second.send(query("SELECT 1"))
    turned_away(second.read_refusal())
    server.start()
    # No client sends anything: the pool makes the attempts by itself.
    weir.wait_pool(sv_idle=1)
    assert third.value("SELECT 1") == "1"


def test_a_server_that_lives_is_waited_for(pgweir, fake_server):
    """Logins fail, but existing servers return to the pool."""
    far = fake_server()
    weir = pgweir(databases={"app": far.entry}, pool_mode="transaction", fail_fast=1,
                  server_login_retry=LONG)
    clients = [weir.wire().startup() for _ in range(3)]
    server = far.accept().login()
    for client in clients:
        client.finish_login("alice")
    clients[0].send(query("SELECT 1"))
    server.expect("Q")
    far.listener.close()
    for client in clients[1:]:
        client.send(query("SELECT 2"))
    wait_until(lambda: errors(weir, "server could not be reached"))
    weir.wait_pool(cl_waiting=2)
    server.send(fake.answer("1"))
    assert clients[0].read_result().rows == [["1"]]
    server.expect("Q")
    weir.wait_pool(cl_waiting=1)
    server.close()  # the last connected server: there is none left to wait for
    # Whichever of them had it: each loop has a queue of its own.
    lost, other = sorted((client.read_refusal() for client in clients[1:]),
                         key=lambda refused: refused.sqlstate != "08006")
    assert lost.sqlstate == "08006"
    # Another loop may have connected just before the listener was closed.
    turned_away(other, other.text if other.text in (CLOSED, RESET) else FAST)


def test_another_host_is_not_given_up(pgweir, fake_server):
    good = fake_server("127.0.0.2")
    good.serve(lambda server: server.login().answer_queries())
    weir = pgweir(databases={"app": f"host=127.0.0.9,127.0.0.2 port={good.port}"}, fail_fast=1,
                  pool_mode="transaction", server_login_retry=LONG)
    client = weir.client()
    assert client.value("SELECT 1") == "1"
    good.close()
    weir.wait_pool(sv_idle=0, sv_active=0)
    client.send(query("SELECT 1"))
    turned_away(client.read_refusal())


def test_a_pause_is_waited_for(pgweir):
    """An administrator has paused the work, and will resume it."""
    weir = pgweir(databases={"app": down()}, server_login_retry=LONG, fail_fast=1)
    turned_away(refusal(weir.address))
    weir.admin("PAUSE app")
    client = weir.wire().startup()
    weir.wait_pool(cl_waiting=1)
    weir.admin("RESUME app")
    turned_away(client.read_refusal())


def test_a_refusal_is_told_as_ever(pgweir, fake_server):
    far = fake_server()
    far.serve(lambda server: server.send(fake.error("no entry for you", "28000", "FATAL")))
    weir = pgweir(databases={"app": far.entry}, fail_fast=1, server_login_retry=LONG)
    assert refusal(weir.address).text == "no entry for you"
    assert refusal(weir.address).text.startswith("server login has been failing, cached error: ")


def test_a_server_that_starts_up_is_not_waited_for(pgweir, fake_server):
    far = fake_server()
    far.serve(lambda server: server.send(fake.error("the database system is starting up", "57P03",
                                                    "FATAL")))
    weir = pgweir(databases={"app": far.entry}, fail_fast=1, server_login_retry=LONG)
    turned_away(refusal(weir.address), "PostgreSQL cannot be reached: the database system is "
                                       "starting up (fail_fast)")


def test_a_reload_changes_it_for_those_who_wait(pgweir):
    weir = pgweir(databases={"app": down()}, server_login_retry=LONG)
    client = weir.wire().startup()
    wait_until(lambda: errors(weir, "server could not be reached"))
    weir.reload(fail_fast=1)
    turned_away(client.read_refusal())
    weir.reload(fail_fast=0)
    client = weir.wire().startup()
    weir.wait_pool(cl_waiting=1)
    weir.reload(query_wait_timeout=SHORT)
    assert client.read_refusal().text == "query_wait_timeout"


def test_replication_does_not_wait_either(pgweir):
    weir = pgweir(databases={"app": down()}, server_login_retry=LONG, fail_fast=1)
    turned_away(refusal(weir.address, "streamer", replication="database"))


def test_a_login_by_auth_query_does_not_wait_either(pgweir):
    weir = pgweir(databases={"app": down()}, server_login_retry=LONG, auth_type="plain",
                  auth_user="asker", auth_query="SELECT $1::text, 'secret'", fail_fast=1,
                  userlist={"asker": "secret"})
    for _ in range(2):
        refused = weir.wire().startup().read_refusal()
        assert (refused.sqlstate, refused.text) == ("57P03", FAST)
    weir.wait_log("auth_query failed, on app by asker, for alice: " + re.escape(FAST))


def test_it_comes_back_without_anybody_waiting(pgweir, fake_server):
    port = free_port()
    weir = pgweir(databases={"app": f"host=127.0.0.1 port={port}"}, server_login_retry="0.1",
                  fail_fast=1)
    turned_away(refusal(weir.address))
    far = fake_server(port=port)
    far.accept().login()  # no client could have caused it
    assert weir.client().parameters["server_version"] == "15.0"


def test_the_attempts_are_no_more_than_without_it(pgweir, deaf_port):
    """One attempt at a time, for any number of refused clients."""
    weir = pgweir(databases={"app": f"host=127.0.0.1 port={deaf_port}"}, fail_fast=1,
                  server_connect_timeout="1")
    turned_away(refusal(weir.address), TIMED_OUT)
    before = errors(weir, "server could not be reached")
    for _ in range(30):
        turned_away(refusal(weir.address), TIMED_OUT)
        assert weir.pool()["sv_login"] <= 1
    assert before >= 1


# -- what the log says of hosts -------------------------------------------------------------------

QUIET = dict(log_connections=0, log_disconnections=0, log_pooler_errors=0)


def lines(weir, pattern):
    return [line for line in weir.log.splitlines() if re.search(pattern, line)]


def tried(weir, times):
    """Waits until this many attempts to connect have failed."""
    wait_until(lambda: errors(weir, "server could not be reached") >= times)


def test_a_host_that_is_down_has_one_line(pgweir, fake_server):
    port = free_port()
    weir = pgweir(databases={"app": f"host=127.0.0.1 port={port}"}, server_login_retry="0.05",
                  **QUIET)
    client = weir.wire().startup()
    weir.wait_log(rf" WARNING app: PostgreSQL at 127\.0\.0\.1:{port} cannot be reached: "
                  r"Connection refused; 1 client waits$")
    more = [weir.wire().startup(user) for user in ("bob", "carol", "alice")]
    tried(weir, 10)
    fake_server(port=port).serve(lambda server: server.login().answer_queries())
    weir.wait_log(rf" LOG app: PostgreSQL at 127\.0\.0\.1:{port} answers again after \d+ s$")
    for one, user in zip((client, *more), ("alice", "bob", "carol", "alice")):
        one.finish_login(user)
    assert len(lines(weir, "cannot be reached|answers again")) == 2


def test_how_many_wait_is_said_of_all_users(pgweir, fake_server):
    far = fake_server()
    weir = pgweir(databases={"app": far.entry}, server_login_retry=LONG, **QUIET)
    waiting = [weir.wire().startup(user) for user in ("alice", "bob", "bob")]
    weir.wait_pool(user="alice", cl_waiting=1)
    weir.wait_pool(user="bob", cl_waiting=2)
    far.accept().close()
    far.accept().close()
    for _ in range(2):  # once more, with the older protocol
        far.accept().close()
    weir.wait_log("app: PostgreSQL at .* cannot be reached: server closed the connection during "
                  "login; 3 clients wait$")
    tried(weir, 0)
    assert len(waiting) == 3 and len(lines(weir, "cannot be reached")) == 1


def test_a_host_that_comes_and_goes_has_few_lines(pgweir, fake_server):
    port = free_port()
    weir = pgweir(databases={"app": f"host=127.0.0.1 port={port}"}, server_login_retry="0.05",
                  pool_mode="transaction", **QUIET)
    for number in range(1, 6):
        client = weir.wire().startup()
        client.send(query("SELECT 1"))
        tried(weir, number)
        far = fake_server(port=port).serve(lambda server: server.login().answer_queries())
        client.finish_login("alice")
        assert client.read_result().rows == [["1"]]
        far.close()
        weir.wait_pool(sv_idle=0, sv_active=0)
        weir.admin("RECONNECT")  # forgets the welcome, so that the next login needs a server
        client.close()
    assert len(lines(weir, "cannot be reached")) == 1
    assert len(lines(weir, "answers again")) == 1


def test_one_of_two_hosts_has_its_line(pgweir, fake_server):
    """No client waits for it, so no other log line would report it."""
    good = fake_server("127.0.0.2").serve(lambda server: server.login().answer_queries())
    weir = pgweir(databases={"app": f"host=127.0.0.9,127.0.0.2 port={good.port}"},
                  server_login_retry=LONG, **QUIET)
    assert weir.client().value("SELECT 1") == "1"
    weir.wait_log(rf"WARNING app: PostgreSQL at 127\.0\.0\.9:{good.port} cannot be reached: "
                  "Connection refused; 1 client waits")
    assert len(lines(weir, "cannot be reached")) == 1


def test_names_and_sockets_are_named(make_pgweir):
    port = free_port()
    weir = make_pgweir(databases={"one": f"host=many.test port={port}",
                                  "two": f"host=nowhere.invalid port={port}",
                                  "three": f"host=/nonexistent port={port}"},
                       server_login_retry=LONG, **QUIET)
    weir.account.write(f"{weir.dir}/hosts", "127.0.0.9 many.test\n", 0o644)
    weir.start(env={"CARES_HOSTS": f"{weir.dir}/hosts"})
    waiting = [weir.wire().startup(database=name) for name in ("one", "two", "three")]
    weir.wait_log(rf"one: PostgreSQL at many\.test \(127\.0\.0\.9:{port}\) cannot be reached: C")
    weir.wait_log(rf"two: PostgreSQL at nowhere\.invalid:{port} cannot be reached: .*DNS")
    weir.wait_log(rf"three: PostgreSQL at /nonexistent/\.s\.PGSQL\.{port} cannot be reached: No")
    assert len(waiting) == 3


def test_a_socket_whose_path_is_too_long_is_no_other(pgweir):
    """Cut to what fits into a socket's name, it is the path of another server."""
    place = tempfile.mkdtemp(dir="/tmp")
    os.chmod(place, 0o755)
    directory = place + "/" + "d" * (93 - len(place))
    os.mkdir(directory)
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(f"{directory}/.s.PGSQL.543")
        os.chmod(f"{directory}/.s.PGSQL.543", 0o777)
        other.listen()
        weir = pgweir(databases={"app": f"host={directory} port=5432"}, **QUIET)
        waiting = weir.wire().startup(database="app")
        weir.wait_log(f"app: PostgreSQL at {directory}:5432 cannot be reached: File name too long")
    assert waiting
    shutil.rmtree(place)


def test_a_refusal_is_an_answer(pgweir, fake_server):
    port = free_port()
    weir = pgweir(databases={"app": f"host=127.0.0.1 port={port}"}, server_login_retry="0.05",
                  **QUIET)
    client = weir.wire().startup()
    weir.wait_log("cannot be reached: Connection refused")
    words = [fake.error("the database system is starting up", "57P03", "FATAL"),
             fake.error("no entry for you", "28000", "FATAL")]
    fake_server(port=port).serve(lambda server: server.send(words.pop(0)))
    assert client.read_refusal().text == "no entry for you"
    weir.wait_log("answers again after")
    log = weir.log
    assert log.index("no entry for you") < log.index("answers again") and not words


def test_a_secret_that_does_not_fit_has_a_line(pgweir, postgres):
    weir = pgweir(userlist={"scram_user": postgres.secret("scram_user")}, **QUIET)
    refusal(weir.address, "scram_user")
    weir.wait_log(r" WARNING S-.*: app/scram_user@.* server login failed: wrong password type")


@pytest.mark.parametrize("is_lent", (False, True), ids=("idle", "lent"))
def test_the_last_words_of_a_server_are_in_the_log(pgweir, postgres, is_lent):
    weir = pgweir(pool_mode="transaction", **QUIET)
    client = weir.client()
    if is_lent:
        client.query("BEGIN")
    pid = int(client.value("SELECT pg_backend_pid()"))
    postgres.query("SELECT pg_terminate_backend(%s)", pid)
    weir.wait_log(r" WARNING S-.*: app/alice@.* server said: FATAL 57P01: terminating connection "
                  "due to administrator command$")
    if is_lent:
        assert client.read_refusal().sqlstate == "57P01"
    assert len(lines(weir, "server said")) == 1


def test_a_request_to_connect_without_an_answer(pgweir, deaf_port):
    weir = pgweir(databases={"app": f"host=127.0.0.1 port={deaf_port}"}, server_login_retry=LONG,
                  server_connect_timeout=SHORT, query_wait_timeout=1)
    ends_with(refusal(weir.address), "53300", "query_wait_timeout",
              r"retry after failure: connect failed: Connection timed out; next try in \d+ s")
    weir.wait_log(r"closing because: connect failed: Connection timed out \(age=0s\)")
    weir.wait_log("WARNING app: PostgreSQL at .* cannot be reached: Connection timed out; 1 client")


def test_a_login_without_an_answer(pgweir, fake_server):
    """Connected, but no response: a different log line."""
    far = fake_server()
    weir = pgweir(databases={"app": far.entry}, server_login_retry=LONG,
                  server_connect_timeout=SHORT, query_wait_timeout=1)
    ends_with(refusal(weir.address), "53300", "query_wait_timeout",
              r"retry after failure: connect timeout; next try in \d+ s")
    weir.wait_log("WARNING app: PostgreSQL at .* cannot be reached: connect timeout; 1 client")
