# SPDX-License-Identifier: ISC
"""What one loop finds out is known in all: hosts that are down, what clients have authenticated
with, statements that leave session state.
"""

import re

from .kit.account import free_port
from .kit.daemon import USERS
from .kit.fake import answer
from .kit.wait import wait_until
from .kit.wire import scram_secret

LOOPS = 4
LONG = "900"


def lines(weir, pattern):
    return [line for line in weir.log.splitlines() if re.search(pattern, line)]


def crowd(weir, count=2 * LOOPS, **kw):
    """Clients that are logged in, some in each loop."""
    clients = [weir.client(**kw) for _ in range(count)]
    assert all(row["clients"] for row in weir.admin("SHOW LOOPS"))
    return clients


# -- hosts ----------------------------------------------------------------------------------------


def test_a_host_that_is_down_is_tried_once_for_all(pgweir, fake_server):
    port = free_port()
    weir = pgweir(databases={"app": f"host=127.0.0.1 port={port}"}, loops=LOOPS,
                  server_login_retry=LONG)
    clients = [weir.wire().startup()]
    weir.wait_log("cannot be reached: Connection refused; 1 client waits")
    clients += [weir.wire().startup() for _ in range(2 * LOOPS)]
    weir.wait_pool(cl_waiting=len(clients))
    assert len(lines(weir, "closing because: connect failed")) == 1
    fake_server(port=port).serve(lambda server: server.login().answer_queries())
    weir.admin("RECONNECT app")
    for client in clients:
        client.finish_login("alice")
    weir.wait_log("answers again after")
    assert len(lines(weir, "cannot be reached")) == 1
    assert len(lines(weir, "answers again")) == 1


def test_attempts_go_on_until_it_answers(pgweir, fake_server):
    port = free_port()
    weir = pgweir(databases={"app": f"host=127.0.0.1 port={port}"}, loops=LOOPS,
                  server_login_retry="0.05")
    clients = [weir.wire().startup() for _ in range(2 * LOOPS)]
    wait_until(lambda: sum(row["count"] for row in weir.admin("SHOW ERRORS")
                           if row["reason"] == "server could not be reached") > 2 * LOOPS)
    far = fake_server(port=port).serve(lambda server: server.login().answer_queries())
    for client in clients:
        client.finish_login("alice")
    weir.wait_log("answers again after")
    assert len(lines(weir, "cannot be reached")) == len(lines(weir, "answers again")) == 1
    assert far


def test_fail_fast_refuses_in_all_loops_after_one_attempt(pgweir):
    weir = pgweir(databases={"app": f"host=127.0.0.1 port={free_port()}"}, loops=LOOPS,
                  server_login_retry=LONG, fail_fast=1)
    for _ in range(2 * LOOPS):
        refused = weir.wire().startup().read_refusal()
        assert refused.text.endswith("(fail_fast)")
    assert len(lines(weir, "closing because: connect failed")) == 1


def test_a_host_takes_its_turn_whichever_loop_asks(pgweir, fake_server):
    """Two hosts take turns, counted for the process."""
    port = free_port()
    for number in (2, 3):
        fake_server(host=f"127.0.0.{number}", port=port).serve(
            lambda server, number=number: server.login().answer_queries(
                lambda _: answer(str(number))))
    weir = pgweir(databases={"app": f"host=127.0.0.2,127.0.0.3 port={port}"}, loops=LOOPS,
                  pool_mode="session")
    clients = [weir.client() for _ in range(LOOPS)]
    found = [client.value("SELECT 1") for client in clients]
    assert sorted(found) == ["2", "2", "3", "3"]


# -- what clients have authenticated with ---------------------------------------------------------


def test_what_a_client_has_authenticated_with_is_known_in_all_loops(make_pgweir, fake_server):
    """The file has a SCRAM secret, so servers log in with the password that a client has sent. The
    clients of before know the old one only.
    """
    known = {"bob": "old"}

    def serve(server):
        if server.ask_password().decode() == known["bob"]:
            server.welcome()
            server.answer_queries()

    far = fake_server().serve(serve)
    weir = make_pgweir(databases={"app": far.entry}, loops=LOOPS, auth_type="plain",
                       pool_mode="session", server_login_retry="0.05",
                       userlist={**USERS, "bob": scram_secret("old")})
    weir.start()
    clients = crowd(weir, user="bob", password="old")
    known["bob"] = "new"
    weir.reload(userlist={**USERS, "bob": scram_secret("new")})
    weir.admin("RECONNECT app")
    new = weir.client("bob", password="new")
    for client in (new, *clients):
        assert client.value("SELECT 1") == "1"
