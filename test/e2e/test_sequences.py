# SPDX-License-Identifier: ISC
"""currval() and lastval() in transaction mode: the client's own value or SQLSTATE 55000, never
the value of another client."""

import random

import pytest

from .kit import wire
from .kit.wait import wait_until

UNKNOWN = "55000"


QUIET = "no function of the database can touch session state"
FUNCTION = ("CREATE FUNCTION advance() RETURNS bigint LANGUAGE plpgsql AS "
            "$$ DECLARE v bigint; BEGIN INSERT INTO numbered DEFAULT VALUES RETURNING id INTO v; "
            "RETURN v; END $$")


@pytest.fixture
def start(pgweir, postgres):
    """Transaction mode; all clients share a few servers. Two sequences that all use, in a database
    of their own."""
    postgres.query("DROP DATABASE IF EXISTS numbers WITH (FORCE)")
    postgres.query("CREATE DATABASE numbers OWNER alice")
    postgres.query("CREATE SEQUENCE one; CREATE SEQUENCE two;"
                   "CREATE TABLE numbered (id bigint DEFAULT nextval('one'), a text);"
                   "GRANT ALL ON numbered, one, two TO PUBLIC", dbname="numbers")

    def start(servers=1, make=None, **settings):
        if make:
            postgres.query(make, dbname="numbers")
        weir = pgweir(pool_mode="transaction", default_pool_size=servers,
                      databases={"app": "dbname=numbers"}, **settings)
        if settings.get("session_isolation", "known") == "known" and "session_state" not in settings:
            for loop in range(settings.get("loops", 1)):  # each reads the catalog
                weir.client().query("SELECT 1")
            weir.wait_log(QUIET)
        return weir
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


def test_alone_with_several_servers(start):
    """Whatever server it had in between."""
    weir = start(servers=3, server_round_robin=1)
    clients = [weir.client() for _ in range(3)]
    for client in clients:
        client.query("BEGIN")
    for client in clients:
        client.query("COMMIT")
    for run in (wire.run_simple, wire.run_unnamed, wire.run_named):
        number = clients[0].value(INSERT)
        for _ in range(2):
            assert run(clients[0], "SELECT lastval()").rows == [[number]]


def test_questions_that_are_postgresqls_to_answer(start):
    weir = start()
    first, second = weir.client(), weir.client()
    first.value(INSERT)
    assert ask(second, "SELECT currval('nobody')") == "42P01"
    assert ask(first, "SELECT currval('nobody')") == "42P01"
    assert ask(second) == UNKNOWN


def test_first_question_on_a_used_server(start):
    weir = start()
    first, second = weir.client(), weir.client()
    first.value(INSERT)
    second.query("SELECT 1")
    assert ask(second) == UNKNOWN
    assert second.value(INSERT) == ask(second)


def test_reads_of_others_leave_the_value(start):
    weir = start(loops=1)
    first, second = weir.client(), weir.client()
    number = first.value(INSERT)
    for run in (wire.run_simple, wire.run_unnamed, wire.run_named):
        assert run(second, "SELECT count(*) > 0 FROM numbered").rows == [["t"]]
        second.query("BEGIN")
        second.query("SELECT 1")
        second.query("COMMIT")
        assert ask(first) == number


def test_first_question_within_a_transaction(start):
    weir = start()
    first, second = weir.client(), weir.client()
    first.value(INSERT)
    second.query("BEGIN")
    second.query("SELECT 1")
    number = second.value(INSERT)
    assert ask(second) == number
    second.query("ROLLBACK")


def test_a_question_in_a_failed_transaction(start):
    """Nothing can be discarded there, and nothing is answered; after its end, both are."""
    weir = start()
    other, client = weir.client(), weir.client()
    other.query(INSERT)
    client.query("BEGIN")
    client.query("SELECT 1 / 0")
    for text in ("SELECT lastval()", INSERT, "\n with x as (select lastval()) table x"):
        assert ask(client, text) == "25P02"
        assert client.ask(wire.extended(text)).error["C"] == "25P02"
    client.query("ROLLBACK")
    assert ask(client) == UNKNOWN


def test_a_text_that_ends_a_failed_transaction(start):
    """Nothing can be discarded in it."""
    weir = start()
    client, other = weir.client(), weir.client()
    make_aware(client)
    other.query(INSERT)
    client.query("BEGIN")
    client.query("SELECT 1/0")
    assert client.query("ROLLBACK; " + INSERT).error is None
    assert ask(client) == UNKNOWN or ask(client) == client.value("SELECT max(id) FROM numbered")


def test_first_question_without_a_catalog(start):
    """Nothing has protected the values until then."""
    weir = start(session_isolation="off", loops=1)
    first, second = weir.client(), weir.client()
    first.value(INSERT)
    second.query("BEGIN")
    second.query(INSERT)
    assert ask(second) == UNKNOWN
    second.query("ROLLBACK")
    first.value(INSERT)
    second.query("BEGIN")
    assert second.value(INSERT) == ask(second)
    second.query("COMMIT")


def test_a_database_without_sequences(start, postgres):
    """Nothing is sent; once there is one, all is as with others."""
    weir = start(make="DROP TABLE numbered; DROP SEQUENCE one, two; CREATE TABLE numbered (a text)")
    clients = weir.client(), weir.client()
    for client in clients:
        client.query("SELECT 'what was in doubt before is cleaned'")
    since = len(postgres.log)
    postgres.query("ALTER SYSTEM SET log_statement = 'all'")
    postgres.query("SELECT pg_reload_conf()")
    try:
        wait_until(lambda: clients[0].value("SHOW log_statement") == "all")
        for run in (wire.run_simple, wire.run_unnamed, wire.run_named):
            for client in clients:
                run(client, "INSERT INTO numbered VALUES ('here')")
        wait_until(lambda: postgres.log.count("VALUES ('here')", since) >= 6)
        assert postgres.log.count("DISCARD", since) == 0
    finally:
        postgres.query("ALTER SYSTEM RESET log_statement")
        postgres.query("SELECT pg_reload_conf()")
    clients[0].query("CREATE SEQUENCE one")
    number = clients[0].value("SELECT nextval('one')")
    assert ask(clients[0]) == number
    assert ask(clients[1]) == UNKNOWN


ADD = "BEGIN INSERT INTO numbered DEFAULT VALUES; {} END"
FOUND = {
    "a trigger": ("CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS "
                  f"$$ {ADD.format('RETURN new;')} $$", False),
    "a procedure": (f"CREATE PROCEDURE f() LANGUAGE plpgsql AS $$ {ADD.format('')} $$", False),
    "a function that reads": ("CREATE FUNCTION f() RETURNS bigint LANGUAGE sql AS "
                              "$$ SELECT count(*) FROM numbered $$", False),
    "a body that reads": ("CREATE FUNCTION f() RETURNS bigint BEGIN ATOMIC "
                          "SELECT count(*) FROM numbered; END", False),
    "a view": ("CREATE VIEW v AS SELECT * FROM numbered", False),
    "a function that writes": (FUNCTION, True),
    "a body that writes": ("CREATE FUNCTION f() RETURNS bigint BEGIN ATOMIC "
                           "INSERT INTO numbered (a) VALUES ('x') RETURNING id; END", True),
    "a body that asks": ("CREATE FUNCTION f() RETURNS bigint BEGIN ATOMIC SELECT lastval(); END",
                         True),
    "a default of a function": ("CREATE FUNCTION f(a bigint DEFAULT nextval('one')) RETURNS bigint "
                                "BEGIN ATOMIC SELECT a; END", True),
    "a view that asks": ("CREATE VIEW v AS SELECT nextval('one')", True),
    "a policy": ("CREATE POLICY p ON numbered USING (id < currval('one'))", True),
}


@pytest.mark.parametrize("what", FOUND)
def test_which_texts_use_sequences(start, what):
    """If any text may, the values are gone when the server has got another client."""
    text, is_any = FOUND[what]
    weir = start(make=text, loops=1)
    first, second = weir.client(), weir.client()
    number = first.value(INSERT)
    second.query("SELECT 1")
    assert ask(first) == (UNKNOWN if is_any else number)


def test_transactions_in_one_batch(start):
    """Drivers send BEGIN with the first statement; and pipelines have no Sync between."""
    weir = start()
    first, second = weir.client(), weir.client()
    for texts in (["BEGIN", INSERT, "SELECT lastval()", "COMMIT"],
                  ["SELECT 1", INSERT, "SELECT lastval()"]):
        first.value(INSERT)
        second.query("SELECT 1")
        result = second.ask(*(wire.parse(text) + wire.bind() + wire.execute() for text in texts),
                            wire.sync())
        assert not result.error
        assert result.rows[-1] == result.rows[-2]


def test_first_question_while_a_server_stays(start):
    weir = start(servers=2)
    first, second = weir.client(), weir.client()
    first.value(INSERT)
    second.query("CREATE TEMP TABLE mine (a int)")
    for _ in range(2):
        second.query("BEGIN")
        number = second.value(INSERT)
        assert ask(second) == number
        second.query("COMMIT")
    assert ask(second) == number
    second.query("DROP TABLE mine")


def borrow(weir, pid, text="BEGIN"):
    """A client that has this server, which is idle, in a transaction."""
    clients = []
    while True:
        clients.append(weir.client())
        clients[-1].query("BEGIN")
        if clients[-1].value("SELECT pg_backend_pid()") == pid:
            break
    for client in clients[:-1]:
        client.query("COMMIT")
    return clients[-1]


def is_waiting(weir):
    return [row["reason"] for row in weir.admin("SHOW WAITING")] == ["sequence"]


@pytest.mark.parametrize("message", [
    wire.query("SELECT lastval()"), wire.extended("SELECT lastval()"),
    wire.bind(name="s") + wire.execute() + wire.sync(), wire.query("EXECUTE p")])
def test_the_question_waits_for_the_server(start, message):
    weir = start(servers=2, loops=1)
    client = weir.client()
    client.ask(wire.parse("SELECT lastval()", "s"), wire.sync())
    client.query("PREPARE p AS SELECT lastval()")
    number, pid = client.query("SELECT nextval('one'), pg_backend_pid()").rows[0]
    other = borrow(weir, pid)
    client.send(message)
    wait_until(lambda: is_waiting(weir), what="the question to wait")
    assert weir.client().value("SELECT 1") == "1"
    other.query("COMMIT")
    assert client.read_result().rows == [[number]]


def test_nobody_waits_for_a_value_that_is_gone(start):
    weir = start(servers=2, loops=1)
    client = weir.client()
    pid = client.query("SELECT pg_backend_pid(), nextval('one')").rows[0][0]
    other = borrow(weir, pid)
    client.send(wire.query("SELECT lastval()"))
    wait_until(lambda: is_waiting(weir), what="the question to wait")
    other.query(INSERT)
    assert client.read_result().error["C"] == UNKNOWN


def test_nobody_waits_for_a_server_that_stays(start):
    weir = start(servers=3, loops=1)
    client = weir.client()
    pid = client.query("SELECT pg_backend_pid(), nextval('one')").rows[0][0]
    other = borrow(weir, pid)
    other.query("SELECT pg_advisory_lock(1)")
    other.query("COMMIT")
    assert ask(client) == UNKNOWN


def test_a_client_that_waits_leaves(start):
    weir = start(servers=2, loops=1)
    client = weir.client()
    pid = client.query("SELECT pg_backend_pid(), nextval('one')").rows[0][0]
    other = borrow(weir, pid)
    client.send(wire.query("SELECT lastval()"))
    wait_until(lambda: is_waiting(weir), what="the question to wait")
    client.close()
    wait_until(lambda: not weir.admin("SHOW WAITING"))
    other.query("COMMIT")
    assert ask(other) == UNKNOWN


@pytest.mark.parametrize("text", ["DISCARD SEQUENCES", "DISCARD ALL"])
def test_values_that_a_client_has_discarded(start, text):
    weir = start()
    client, other = weir.client(), weir.client()
    client.value(INSERT)
    client.query(text)
    assert ask(client) == UNKNOWN
    assert client.value(INSERT) == ask(client)
    other.query(text)
    assert ask(other) == UNKNOWN


def test_functions_that_call_nextval(start):
    """Then any text may."""
    weir = start(servers=2, make=FUNCTION)
    first, second = weir.client(), weir.client()
    for _ in range(5):
        number = first.value("SELECT advance()")
        assert ask(first) == number
        other = second.value("SELECT advance()")
        assert ask(first) in (number, UNKNOWN)
        assert ask(second) in (other, UNKNOWN)
        first.query("BEGIN")
        number = first.value("SELECT advance()")
        assert ask(first) == number
        first.query("COMMIT")


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
    for _ in range(3):
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
    second.query(INSERT)
    assert ask(first) == UNKNOWN


def test_own_value_that_is_out_of_date(start):
    """It is on another server than the newest one."""
    weir = start(servers=2, loops=1)
    client = weir.client()
    old, pid = client.query("SELECT nextval('one'), pg_backend_pid()").rows[0]
    other = borrow(weir, pid)
    new = client.value("SELECT nextval('one')")
    other.query("COMMIT")
    for _ in range(3):
        assert old != ask(client) == new
    other.query("BEGIN")
    assert other.query("SELECT currval('one')").error["C"] == UNKNOWN


@pytest.mark.parametrize("run", [wire.run_unnamed, wire.run_named])
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


@pytest.mark.parametrize("fails", ["SELECT 1/0", "SELECT nothing"])
def test_discard_is_skipped(start, fails):
    """Behind an error in its batch: what asks behind the Sync, in the same write, waits."""
    weir = start()
    first, second = weir.client(), weir.client()
    make_aware(second)
    for run in (wire.query, wire.extended):
        first.value(INSERT)
        second.send(wire.parse(fails) + wire.bind() + wire.execute()
                    + wire.parse(INSERT) + wire.bind() + wire.execute() + wire.sync()
                    + run("SELECT lastval()"))
        assert second.read_result().error["C"] in ("22012", "42703")
        assert second.read_result().error["C"] == UNKNOWN
        assert second.value(INSERT) == ask(second)


def test_a_question_behind_another_message_in_a_failed_transaction(start):
    """In the same write: there, nothing can be discarded, and nothing is answered."""
    weir = start()
    first, second = weir.client(), weir.client()
    make_aware(second)
    for run in (wire.query, wire.extended):
        first.value(INSERT)
        second.query("BEGIN")
        second.query("SELECT 1/0")
        second.send(wire.query("SELECT 1") + run("SELECT lastval()"))
        assert second.read_result().error["C"] == "25P02"
        assert second.read_result().error["C"] == "25P02"
        second.query("ROLLBACK")
        assert ask(second) == UNKNOWN


@pytest.mark.parametrize("ahead", [wire.parse("SELECT 1"),
                                   wire.parse("SELECT 1") + wire.bind() + wire.execute()],
                         ids=("Parse", "Execute"))
def test_a_question_behind_messages_without_a_sync(start, ahead):
    weir = start()
    first, second = weir.client(), weir.client()
    make_aware(second)
    first.value(INSERT)
    second.send(ahead + wire.query("SELECT lastval()"))
    result = second.read_result()
    assert result.error and result.error["C"] == UNKNOWN
    second.ask(wire.sync())
    assert second.value(INSERT) == ask(second)


def test_a_question_behind_messages_that_fail(start):
    """PostgreSQL skips the question, and what is put ahead of it."""
    weir = start()
    first, second = weir.client(), weir.client()
    make_aware(second)
    first.value(INSERT)
    for _ in range(2):
        result = second.ask(wire.parse("SELECT nothing"), wire.query("SELECT lastval()"),
                            wire.sync())
        assert result.error["C"] == "42703" and not result.rows
        assert ask(second) == UNKNOWN


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
        steps = [lambda: self.advance(key), self.insert, lambda: self.both(key),
                 lambda: ("SELECT 1", lambda result: None)]
        if self.is_within or not may_begin:
            steps += [lambda: self.ask(None), lambda: self.ask(key), lambda: self.ask(key)]
        if self.is_within:
            steps += [self.end] * 3
        elif may_begin and may_begin != "full":
            steps += [self.begin] * 2
        return self.rng.choice(steps)()


WORLDS = {
    "written": {},
    "called": {"make": FUNCTION},
    "off": {"session_isolation": "off"},
    "strict": {"session_isolation": "strict"},
    "loops": {"loops": 3},
}


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("world", WORLDS)
def test_never_the_value_of_another(start, world, seed):
    """Many clients on three servers, all of which use the same sequences and ask."""
    rng = random.Random(seed)
    weir = start(servers=3, **WORLDS[world])
    players = [Player(weir, rng) for _ in range(9)]
    for _ in range(200):
        within = sum(player.is_within for player in players)
        chosen = rng.sample(players, rng.randrange(1, 6))
        asked = []
        # Nobody may wait for who is in a transaction: they are heard one after the other.
        may_begin = bool(within) or rng.random() < 0.5
        for player in chosen:
            text, judge = player.step("full" if may_begin and within > 1 else may_begin)
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


@pytest.mark.parametrize("isolation", ["known", "strict"])
def test_isolation_that_begins_while_a_server_is_lent(start, isolation):
    """It may have state of others. Until it is returned, its values are those of who has it."""
    weir = start(session_isolation="off", make=FUNCTION)
    client = weir.client()
    client.query("CREATE TEMP TABLE mine (a int)")
    client.query("SELECT set_config('app.mine', 'one', false)")
    weir.reload(session_isolation=isolation)
    for _ in range(2):
        number = client.value(INSERT)
        assert ask(client) == number
        assert not client.query("PREPARE p AS SELECT 1").error
        assert not client.query("DEALLOCATE p").error
    assert client.query("SELECT count(*) FROM mine").rows == [["0"]]


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
    weir = start(servers=2, server_round_robin=1, loops=1)
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


def test_discard_all_allows_no_pipeline(start):
    """Nothing goes ahead of it, in a sample, either."""
    weir = start(session_sample=1)
    client, other = weir.client(), weir.client()
    make_aware(client)
    assert not other.query(INSERT).errors
    assert not client.ask(wire.extended("DISCARD ALL")).errors
    assert ask(client) == UNKNOWN
