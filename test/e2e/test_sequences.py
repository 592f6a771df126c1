# SPDX-License-Identifier: ISC
"""currval() and lastval() in transaction mode: the client's own value or SQLSTATE 55000, never
the value of another client."""

import random

import pytest

from .kit import wire

UNKNOWN = "55000"


@pytest.fixture
def start(pgweir, postgres):
    """Transaction mode; all clients share a few servers. Two sequences that all use."""
    postgres.query("DROP TABLE IF EXISTS numbered; DROP SEQUENCE IF EXISTS one, two;"
                 "CREATE SEQUENCE one; CREATE SEQUENCE two;"
                 "CREATE TABLE numbered (id bigint DEFAULT nextval('one'), a text);"
                 "GRANT ALL ON numbered, one, two TO PUBLIC")

    def start(servers=1, **settings):
        return pgweir(pool_mode="transaction", default_pool_size=servers, **settings)
    return start


INSERT = "INSERT INTO numbered DEFAULT VALUES RETURNING id"


def ask(client, text="SELECT lastval()"):
    """The value, or the SQLSTATE of the error."""
    result = client.query(text)
    return result.error["C"] if result.error else result.rows[0][0]


def make_aware(client):
    """The client and its pool know that values of sequences are asked for."""
    client.query("SELECT lastval()")


def test_nobody_else(start):
    client = start().client()
    number = client.value(INSERT)
    assert ask(client) == number
    assert ask(client) == number
    assert ask(client, "SELECT currval('one')") == number
    assert client.query("SELECT currval('two')").error["C"] == UNKNOWN


def test_what_drivers_say_between_two_statements_is_no_statement(start):
    """PDO prepares each statement in a batch of its own, and drops the one before by DEALLOCATE."""
    weir = start(servers=2)
    client, other = weir.client(), weir.client()
    make_aware(client)
    for number in range(3):
        client.send(wire.parse(INSERT, f"p{number}") + wire.sync())
        assert client.read_result().types == "1Z"
        client.send(wire.bind(name=f"p{number}") + wire.execute() + wire.sync())
        value = client.read_result().rows[0][0]
        client.send(wire.query(f"DEALLOCATE p{number}"))
        assert client.read_result().tags == ["DEALLOCATE"]
        assert other.value("SELECT 1") == "1"  # takes the server that was used last, if it is free
        client.send(wire.parse("SELECT lastval()", f"q{number}") + wire.sync())
        assert client.read_result().types == "1Z"
        assert other.value("SELECT 1") == "1"
        client.send(wire.bind(name=f"q{number}") + wire.execute() + wire.sync())
        assert client.read_result().rows == [[value]]
        assert client.query(f" deallocate prepare q{number}").tags == ["DEALLOCATE"]


def test_first_question_of_a_pool_is_refused_on_a_used_server(start):
    weir = start()
    first, second = weir.client(), weir.client()
    first.value(INSERT)
    second.query("SELECT 1")
    error = second.query("SELECT lastval()").error
    assert error["C"] == UNKNOWN and "RETURNING" in error["H"]
    assert second.value(INSERT) == ask(second)


def test_first_question_within_a_transaction_is_refused(start):
    weir = start()
    first, second = weir.client(), weir.client()
    first.value(INSERT)
    for _ in range(2):
        second.query("BEGIN")
        number = second.value(INSERT)
        answer = ask(second)
        second.query("ROLLBACK")
    assert answer == number


def test_first_question_says_what_helps(start):
    weir = start()
    first, second = weir.client(), weir.client()
    first.value(INSERT)
    second.query("BEGIN")
    second.query(INSERT)
    error = second.query("SELECT lastval()").error
    assert error["C"] == UNKNOWN and "repeat the transaction" in error["H"]
    second.query("ROLLBACK")
    first.query(INSERT)
    first.query("SELECT 1")
    error = second.query("SELECT lastval()").error
    assert error["C"] == UNKNOWN and "directly after it" in error["H"]


def test_first_question_while_a_server_stays(start):
    """Its values from before cannot be told apart either; from the next transaction on they can."""
    weir = start(servers=2)
    first, second = weir.client(), weir.client()
    first.value(INSERT)
    second.query("CREATE TEMP TABLE mine (a int)")
    for _ in range(2):
        second.query("BEGIN")
        number = second.value(INSERT)
        answer = ask(second)
        second.query("COMMIT")
    assert answer == number
    assert ask(second) == number
    second.query("DROP TABLE mine")


@pytest.mark.parametrize("max_prepared_statements", [0, 200])
@pytest.mark.parametrize("is_executed", [False, True])
def test_unnamed_statement_of_a_client_whose_server_stays(start, max_prepared_statements, is_executed):
    """What is forgotten ahead of its next transaction does not make PostgreSQL forget the statement."""
    weir = start(servers=2, max_prepared_statements=max_prepared_statements)
    first, second = weir.client(), weir.client()
    first.value(INSERT)
    second.query("CREATE TEMP TABLE mine (a int)")
    second.ask(wire.parse("SELECT 7"), wire.sync())
    run = wire.bind() + wire.execute() + wire.sync()
    if is_executed:
        assert second.ask(run).rows == [["7"]]
    make_aware(first)
    for _ in range(2):
        assert second.ask(run).rows == [["7"]]
    for _ in range(2):
        second.ask(wire.extended("BEGIN"))
        number = second.ask(wire.extended(INSERT)).rows[0][0]
        answer = ask(second)
        second.query("COMMIT")
    assert answer == number


@pytest.mark.parametrize("loops", [1, 3])
def test_a_question_protects_values_in_all_loops(start, loops):
    weir = start(servers=2 * loops, loops=loops)
    asker, others = weir.client(), [weir.client() for _ in range(4 * loops)]
    for client in others:
        client.query(INSERT)
    make_aware(asker)
    for client in others:
        client.query("SELECT 1")  # its loop has heard of it
    for client in others:
        client.query("BEGIN")
        number = client.value(INSERT)
        assert ask(client) == number
        client.query("COMMIT")


def test_first_question_beside_its_insert(start):
    weir = start()
    first, second = weir.client(), weir.client()
    first.value(INSERT)
    result = second.query(f"{INSERT}; SELECT lastval()")
    assert result.rows[0] == result.rows[1]


@pytest.mark.parametrize("servers", [1, 2])
def test_server_is_the_same_after_an_insert(start, servers):
    weir = start(servers=servers)
    clients = [weir.client() for _ in range(servers + 2)]
    for client in clients:
        make_aware(client)
    for _ in range(10):
        writer, *others = clients
        number = writer.value(INSERT)
        assert ask(writer) == number
        assert ask(writer, "SELECT currval('one')") == number
        for other in others:
            other.query(INSERT)
        clients.append(clients.pop(0))


def test_server_does_not_stay_for_long(start):
    weir = start()
    first, second = weir.client(), weir.client()
    make_aware(first)
    first.query(INSERT)
    assert second.value("SELECT 1") == "1"
    assert ask(first) == UNKNOWN


def test_own_value_that_is_out_of_date(start):
    weir = start(servers=2)
    first, second = weir.client(), weir.client()
    make_aware(first)
    old = first.value("SELECT nextval('one')")
    first.query("SELECT 1")
    first.query("SELECT 1")
    pid = first.value("SELECT pg_backend_pid()")
    # The first client uses the other server, while the second has its first one.
    second.query("BEGIN")
    if second.value("SELECT pg_backend_pid()") != pid:
        second.query("COMMIT")
        second, other = weir.client(), second
        other.query("BEGIN")
        second.query("BEGIN")
        other.query("COMMIT")
        assert second.value("SELECT pg_backend_pid()") == pid
    new = first.value("SELECT nextval('one')")
    assert new != old
    first.query("SELECT 1")
    third = weir.client()
    third.query("BEGIN")
    third.query("SELECT 1")
    second.query("COMMIT")
    assert first.value("SELECT pg_backend_pid()") == pid
    assert ask(first, "SELECT currval('one')") == UNKNOWN


def run_unnamed(client, text):
    return client.ask(wire.extended(text))


def run_named(client, text):
    client.ask(wire.parse(text, "s"), wire.sync())
    result = client.ask(wire.bind(name="s"), wire.execute(), wire.sync())
    client.ask(wire.close("S", "s"), wire.sync())
    return result


@pytest.mark.parametrize("run", [run_unnamed, run_named])
def test_extended_protocol(start, run):
    weir = start()
    first, second = weir.client(), weir.client()
    first.value(INSERT)
    second.query("SELECT 1")
    assert run(second, "SELECT lastval()").error["C"] == UNKNOWN
    for _ in range(3):
        number = run(second, INSERT).rows[0][0]
        assert run(second, "SELECT lastval()").rows[0][0] == number
        second.query("SELECT 1")
        first.query(INSERT)


def test_pipeline(start):
    weir = start()
    first, second = weir.client(), weir.client()
    make_aware(second)
    for _ in range(3):
        first.value(INSERT)
        second.send(wire.query(INSERT), wire.query("SELECT lastval()"),
                    wire.query("SELECT 1"), wire.query("SELECT lastval()"))
        number = second.read_result().rows[0]
        assert second.read_result().rows[0] == number
        second.read_result()
        assert second.read_result().rows[0] == number
        second.query("SELECT 1")


def test_discard_fails(start):
    """A canceled DISCARD SEQUENCES: the statement behind it must not be answered."""
    weir = start()
    first, second = weir.client(), weir.client()
    make_aware(second)
    for _ in range(20):
        first.value(INSERT)
        try:
            second.send(wire.query("SELECT nextval('two'), currval('one')"))
            wire.send_cancel(weir.address, second.key)
            assert second.read_result().error["C"] in (UNKNOWN, "57014")
        except wire.Closed:
            second = weir.client()


def test_session_state_off(start):
    """The behaviour is that of PgBouncer."""
    weir = start(session_state="off")
    first, second = weir.client(), weir.client()
    number = first.value(INSERT)
    assert ask(second) == number


def test_session_state_refuse(start):
    client = start(session_state="refuse").client()
    assert client.query("SELECT lastval()").error["C"] == "0A000"


class Player:
    """A client that knows all values that it may get."""

    def __init__(self, weir, rng):
        self.client, self.rng = weir.client(), rng
        self.values = {}  # of each sequence; None: lastval()
        self.is_within = self.has_failed = False
        self.right = self.refused = 0

    def ask(self, key):
        text = f"SELECT currval('{key}')" if key else "SELECT lastval()"
        return text, lambda result: self.judge(key, result)

    def judge(self, key, result):
        if result.error:
            assert result.error["C"] in (UNKNOWN, "25P02"), result.error
            self.refused += 1
            self.has_failed = self.is_within
        else:
            assert result.rows[0][0] == self.values.get(key)
            self.right += 1

    def advance(self, key):
        def note(result):
            if not result.error:
                self.values[key] = self.values[None] = result.rows[0][0]
        return f"SELECT nextval('{key}')", note

    def insert(self):
        _, note = self.advance("one")
        return INSERT, note

    def both(self, key):
        """In one Query of two statements."""
        _, note = self.advance(key)

        def judge(result):
            if result.error:
                self.judge(key, result)
                return
            note(result)
            assert result.rows[1] == result.rows[0]
        return f"SELECT nextval('{key}'); SELECT lastval()", judge

    def begin(self):
        def note(result):
            self.is_within, self.has_failed = True, False
        return "BEGIN", note

    def end(self):
        def note(result):
            self.is_within = False
        return "ROLLBACK", note

    def step(self, may_begin):
        """A text, and what judges its result. Values of sequences survive a ROLLBACK."""
        key = self.rng.choice(["one", "two"])
        steps = [lambda: self.ask(None), lambda: self.ask(key), lambda: self.ask(key),
                 lambda: self.advance(key), self.insert, lambda: self.both(key),
                 lambda: ("SELECT 1", lambda result: None)]
        if self.is_within:
            steps += [self.end] * 3
        elif may_begin:
            steps += [self.begin] * 2
        return self.rng.choice(steps)()


@pytest.mark.parametrize("seed", range(4))
def test_never_the_value_of_another(start, seed):
    """Many clients on three servers, all of which use the same sequences and ask."""
    rng = random.Random(seed)
    weir = start(servers=3)
    players = [Player(weir, rng) for _ in range(9)]
    for _ in range(300):
        within = sum(player.is_within for player in players)
        chosen = rng.sample(players, rng.randrange(1, 6))
        asked = []
        for player in chosen:
            text, judge = player.step(within < 2)
            within += text == "BEGIN"
            if rng.random() < 0.5 and ";" not in text:
                player.client.send(wire.extended(text))
            else:
                player.client.send(wire.query(text))
            asked.append((player, judge))
        for player, judge in asked:
            judge(player.client.read_result())
        if rng.random() < 0.02:
            players[0].client.close()
            players[0] = Player(weir, rng)
    assert sum(player.right for player in players) > 5
    assert sum(player.refused for player in players) > 5


def test_statement_prepared_in_a_batch_of_its_own(start):
    """Drivers do that. It is no statement yet, so the server stays until it is executed."""
    weir = start(servers=2, server_round_robin=1)
    client, other = weir.client(), weir.client()
    client.query("BEGIN")
    other.query("SELECT 1")  # both servers are there: a client that waits would end the stay
    client.query("COMMIT")
    make_aware(client)
    for _ in range(5):
        number = client.value(INSERT)
        client.ask(wire.parse("SELECT lastval()", "s"), wire.describe("S", "s"), wire.sync())
        other.value(INSERT)
        assert client.ask(wire.bind(name="s"), wire.execute(), wire.sync()).rows == [[number]]
        client.ask(wire.close("S", "s"), wire.sync())


def test_deallocate_is_no_statement(start):
    """PHP's PDO deallocates its statement before it asks for the value."""
    weir = start(servers=2, server_round_robin=1)
    client, other = weir.client(), weir.client()
    client.query("BEGIN")
    other.query("SELECT 1")  # both servers are there: a client that waits would end the stay
    client.query("COMMIT")
    make_aware(client)
    for _ in range(5):
        client.ask(wire.parse(INSERT, "pdo"), wire.sync())
        number = client.ask(wire.bind(name="pdo"), wire.execute(), wire.sync()).rows[0][0]
        assert client.query("DEALLOCATE pdo").tags == ["DEALLOCATE"]
        other.value(INSERT)
        other.value(INSERT)
        assert ask(client) == number


def test_a_client_that_has_not_asked_yet(start):
    """The pool has learnt that a question follows this statement."""
    weir = start(servers=2, server_round_robin=1)
    client, other = weir.client(), weir.client()
    client.query("BEGIN")
    other.query("SELECT 1")  # both servers are there: a client that waits would end the stay
    client.query("COMMIT")
    make_aware(client)
    for _ in range(2):
        assert ask(client, f"{INSERT}; SELECT 1") == ask(client)
    for _ in range(3):
        fresh = weir.client()
        number = fresh.query(f"{INSERT}; SELECT 2").rows[0][0]
        other.value("SELECT nextval('one')")
        other.value("SELECT nextval('one')")
        assert ask(fresh) == number
        fresh.close()


def test_who_waits_for_a_server_that_was_kept_in_vain(start):
    weir = start()
    client, other = weir.client(), weir.client()
    make_aware(client)
    for _ in range(3):
        assert client.value(INSERT) == ask(client)
    for _ in range(3):
        client.value(INSERT)
        assert other.value("SELECT 1") == "1"
