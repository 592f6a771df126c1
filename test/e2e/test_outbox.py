# SPDX-License-Identifier: ISC
"""Data written in one turn of the loop is sent at its end, by io_uring or one call each.

A stopped pgweir reads everything that arrived during the stop in one turn.
"""
import pytest

from .kit.wait import wait_until
from .kit.wire import query

CLIENTS = 30


@pytest.fixture(params=(1, 0), ids=("io_uring", "one by one"))
def weir(pgweir, request):
    return pgweir(pool_mode="transaction", default_pool_size=CLIENTS, io_uring=request.param)


def make_clients(weir):
    """Each client uses a server once, so that there is one server per client."""
    clients = [weir.client() for _ in range(CLIENTS)]
    for client in clients:
        client.query("BEGIN")
    for client in clients:
        client.query("COMMIT")
    return clients


def ask_together(weir, clients):
    """Sends in one turn, so that there are writes to combine."""
    with weir.one_turn():
        for client in clients:
            client.send(query("SELECT 1"))
    for client in clients:
        client.read_result()


def is_refused(weir):
    """Whether the system provides no io_uring."""
    return "io_uring is not available" in weir.log


def test_answers_of_one_turn_go_each_to_its_client(weir):
    clients = make_clients(weir)
    for turn in range(5):
        with weir.one_turn():
            for number, client in enumerate(clients):
                client.send(query(f"SELECT 'answer {number} of turn {turn}'"))
        for number, client in enumerate(clients):
            assert client.read_result().rows == [[f"answer {number} of turn {turn}"]]


def test_the_ring_is_used_where_it_is_wanted_and_there(weir):
    clients = make_clients(weir)
    (setting,) = [row for row in weir.admin("SHOW CONFIG") if row["key"] == "io_uring"]
    ask_together(weir, clients)
    assert weir.uses_io_uring() == (setting["value"] == "1" and not is_refused(weir))


def test_the_last_words_of_a_server_that_goes_in_that_turn(weir, postgres):
    """The statement is sent to a closed connection; clients that wait beside it are not affected.
    """
    clients = make_clients(weir)
    victim = clients[0]
    victim.query("BEGIN")
    pid = victim.value("SELECT pg_backend_pid()")
    with weir.one_turn():
        for client in clients:
            client.send(query("SELECT 'well'"))
        postgres.query(f"SELECT pg_terminate_backend({pid}, 10000)")
    assert "terminating connection due to administrator command" in victim.read_refusal().text
    for client in clients[1:]:
        assert client.read_result().rows == [["well"]]


def test_clients_that_go_before_their_answer_does(weir):
    """Half of them reset their connections; the others are served, now and later."""
    clients = make_clients(weir)
    with weir.one_turn():
        for client in clients:
            client.send(query("SELECT 'well'"))
        for client in clients[::2]:
            client.reset()
    for client in clients[1::2]:
        assert client.read_result().rows == [["well"]]
    weir.wait_pool(cl_active=CLIENTS // 2, cl_waiting=0, sv_active=0)
    for client in clients[1::2]:
        assert client.value("SELECT 'still'") == "still"


def test_a_client_that_does_not_read_holds_up_nobody(weir):
    """It gets many short responses, until its socket is full."""
    slow, other = weir.client(), weir.client()
    count = 20000
    slow.send(query("SELECT 1;" * count))
    slow.send(query("SELECT 'end'"))
    for _ in range(50):
        assert other.value("SELECT 'other'") == "other"
    assert slow.read_result().rows == [["1"]] * count
    assert slow.read_result().rows == [["end"]]


def test_it_is_reloaded(pgweir):
    weir = pgweir(pool_mode="transaction", default_pool_size=CLIENTS, io_uring=0)
    clients = make_clients(weir)
    for wanted in (1, 0, 1):
        weir.reload(io_uring=wanted)
        ask_together(weir, clients)
        wait_until(lambda: weir.uses_io_uring() == (wanted == 1 and not is_refused(weir)),
                   what="the ring")
