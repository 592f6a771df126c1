# SPDX-License-Identifier: ISC
"""The opening of a transaction and the first statement behind it, in the ways in which drivers
send them: what a lost server has certainly not run is sent to another one, all else is reported."""

import pytest

from .kit import fake
from .kit.wire import bind, cstr, describe, execute, message, parse, query, sync
from .test_refused_writes import INSERT, RESENT, Scene, be, refusal

READY = fake.ready("T")
DONE = fake.complete("INSERT 0 1")
SET_LOCAL = "SET LOCAL statement_timeout = '5s'"
ISOLATED = "BEGIN TRANSACTION ISOLATION LEVEL READ COMMITTED"
BEGUN_AGAIN = "the server was lost after BEGIN"


def last_words(sqlstate="57P01", routine="ProcessInterrupts"):
    return fake.error("terminating connection", sqlstate, "FATAL", routine)


def run_of(*statements):
    return b"".join(parse(sql) + bind() + describe("P") + execute() for sql in statements)


def ran(*tags):
    return b"".join(message("1") + message("2") + message("n") + fake.complete(tag)
                    for tag in tags)


PARSED = message("1") + message("2") + message("n")


class Form:
    """BEGIN and INSERT as a driver sends them: the writes, and what the server has to say.

    opened: to the opening, if the client gets it before the first statement is answered.
    before: to what precedes the INSERT in the same batch, so that both replies come together.
    """

    def __init__(self, *writes, opened=b"", before=b"", done=DONE, texts=("BEGIN",)):
        self.writes, self.opened, self.before, self.done = writes, opened, before, done
        self.texts = texts
        self.types = types_of(b"".join(writes))

    @property
    def last(self):
        """The types of what is still to be answered behind what is opened."""
        end = 0
        for _ in range(self.opened.count(READY)):
            end = min(at for at in (self.types.find(kind, end) for kind in "QS") if at >= 0) + 1
        return self.types[end:]


def types_of(sent):
    types = ""
    while sent:
        types += chr(sent[0])
        sent = sent[1 + int.from_bytes(sent[1:5], "big"):]
    return types


BEGAN = fake.complete("BEGIN") + READY
FORMS = {
    "Npgsql": Form(query(ISOLATED) + run_of(INSERT) + sync(), opened=BEGAN, before=PARSED,
                   texts=(ISOLATED,)),
    "Queries": Form(query("BEGIN") + query(INSERT), opened=BEGAN),
    "Queries, two writes": Form(query("BEGIN"), query(INSERT), opened=BEGAN),
    "pgjdbc": Form(run_of("BEGIN", INSERT) + sync(), before=ran("BEGIN") + PARSED),
    "psycopg": Form(run_of("BEGIN"), run_of(INSERT), sync(), before=ran("BEGIN") + PARSED),
    "a long opening": Form(query("BEGIN") + query(SET_LOCAL), run_of(SET_LOCAL, INSERT) + sync(),
                           opened=BEGAN + fake.complete("SET") + READY,
                           before=ran("SET") + PARSED, texts=("BEGIN", SET_LOCAL)),
    "a batch of more": Form(query("BEGIN") + run_of(INSERT, "SELECT 1") + sync(), opened=BEGAN,
                            before=PARSED, done=DONE + ran("SELECT 0")),
}


class Opened(Scene):
    def __init__(self, form, pgweir, fake_server, **settings):
        super().__init__(pgweir, fake_server, **settings)
        self.form = form

    def say(self):
        """Each write has arrived at the pooler before the next one is made."""
        for number, write in enumerate(self.form.writes):
            self.client.send(write)
            if number < len(self.form.writes) - 1:
                self.old.expect(types_of(write))

    def arrives(self):
        self.say()
        self.old.expect(types_of(self.form.writes[-1]))

    def is_opened(self):
        """The client has got the replies to the opening."""
        got = b""
        while len(got) < len(self.form.opened):
            part = self.client.read()
            got += message(part.type, part.body)
        assert got == self.form.opened

    def comes_again(self, new, is_opened):
        """As it was sent, or behind an opening of ours; then it runs."""
        types = self.form.types
        if is_opened and self.form.opened:
            types = self.form.last
            for text in self.form.texts:
                assert new.expect("P").body == parse(text)[5:]
                new.expect("BE")
            new.expect("C" if types == "Q" else "CC")
            new.send(ran(*self.form.texts).replace(message("n"), b""),
                     message("3") if types == "Q" else 2 * message("3"))
        new.expect(types)
        if not is_opened or not self.form.opened:
            new.send(self.form.opened)
            self.is_opened()
        new.send(self.form.before, self.form.done, READY)
        got = self.client.read_result()
        assert ("INSERT 0 1" in got.tags, got.errors, got.status) == (True, [], "T")
        self.weir.wait_log(RESENT)


@pytest.fixture(params=FORMS, ids=str)
def opened(request, pgweir, fake_server):
    return lambda **settings: Opened(FORMS[request.param], pgweir, fake_server, **settings)


def test_a_former_primary_has_refused_the_write(opened):
    one = opened()
    one.arrives()
    one.old.send(one.form.opened, one.form.before, refusal(), fake.ready("E"))
    one.is_opened()
    one.comes_again(one.demoted(), is_opened=True)
    one.old.expect("X")


def test_a_former_primary_has_refused_the_write_byte_by_byte(opened):
    one = opened()
    one.arrives()
    reply = one.form.opened + one.form.before + refusal()  # then pgweir closes the connection
    for at in range(len(reply)):
        one.old.send(reply[at:at + 1])
    one.is_opened()
    one.comes_again(one.demoted(), is_opened=True)


def test_it_is_refused_twice(opened):
    one = opened()
    one.arrives()
    one.old.send(one.form.opened, one.form.before, refusal(), fake.ready("E"))
    one.is_opened()
    again = be(one.hosts[0].accept())
    again.expect(len(one.form.texts) * "PBE" + "C" if one.form.opened else "PBDE")
    said = message("1") + message("2") + fake.complete("BEGIN")
    for _ in one.form.texts[1:]:
        said += message("1") + message("2") + fake.complete("SET")
    if one.form.opened:
        said += message("3") if one.form.last == "Q" else 2 * message("3")
        again.send(said, one.form.before)
    else:
        again.send(one.form.before)
    again.send(refusal(), fake.ready("E"))
    assert [error["C"] for error in one.client.read_result().errors] == ["25006"]


@pytest.mark.parametrize("sqlstate", ("57P01", "57P02"))
def test_the_session_has_ended_before_the_begin_was_answered(opened, sqlstate):
    one = opened()
    one.arrives()
    one.old.send(last_words(sqlstate))
    one.old.close()
    one.comes_again(be(one.hosts[1].accept()), is_opened=False)


def test_a_pooler_in_between_does_not_know_that(opened):
    one = opened()
    one.arrives()
    one.old.send(last_words(routine=None))
    one.old.close()
    assert one.client.read_refusal().sqlstate == "57P01"
    assert RESENT not in one.weir.log


def test_the_session_has_ended_behind_the_begin(opened):
    """The INSERT may have run."""
    one = opened()
    one.arrives()
    one.old.send(one.form.opened, one.form.before, last_words())
    one.old.close()
    one.is_opened()
    if one.form.before:
        one.client.expect(types_of(one.form.before))
    assert one.client.read_refusal().sqlstate == "57P01"
    assert RESENT not in one.weir.log


@pytest.mark.parametrize("is_opened", (False, True), ids=("no answer", "BEGIN answered"))
def test_the_connection_is_lost(opened, is_opened):
    """The INSERT may have run."""
    one = opened()
    one.arrives()
    if is_opened:
        one.old.send(one.form.opened)
        one.is_opened()
    one.old.close()
    assert one.client.read_refusal().sqlstate == "08006"
    assert RESENT not in one.weir.log and BEGUN_AGAIN not in one.weir.log


def test_the_error_is_about_something_else(opened):
    """A function that the statement has called, which may have done more than that."""
    one = opened()
    one.arrives()
    one.old.send(one.form.opened, one.form.before, refusal("nextval()"), fake.ready("E"))
    got = []
    while not got or got[-1].type != "E":
        got.append(one.client.read())
    assert RESENT not in one.weir.log


@pytest.fixture
def scene(pgweir, fake_server):
    def make(*writes, **settings):
        return Opened(Form(*writes, opened=BEGAN), pgweir, fake_server, **settings)
    return make


@pytest.mark.parametrize("sent", [
    query("BEGIN") + run_of(INSERT) + sync(), run_of("BEGIN", INSERT) + sync(),
    query("BEGIN") + query(INSERT),
], ids=types_of)
def test_all_of_it_has_not_arrived(scene, sent):
    one = scene(sent)
    with one.weir.one_turn():
        one.client.send(sent)
        one.old.close()
    new = be(one.hosts[1].accept())
    new.expect(one.form.types)
    one.weir.wait_log(RESENT)


@pytest.mark.parametrize("sent, said", [
    (query("BEGIN") + query(INSERT) + query("COMMIT"), BEGAN),
    (query("BEGIN") + query("SELECT 1") + query(INSERT), BEGAN + fake.answer("1", status="T")),
    (query("BEGIN") + query(INSERT + " --" + 4096 * "x"), BEGAN),
    (query("BEGIN READ ONLY") + query(INSERT), BEGAN),
    (query("BEGIN") + query("SET TRANSACTION READ ONLY") + query(INSERT),
     BEGAN + fake.complete("SET") + READY),
    (run_of("BEGIN READ ONLY", INSERT) + sync(), ran("BEGIN") + PARSED),
    (run_of("BEGIN", "SELECT 1", INSERT) + sync(), ran("BEGIN", "SELECT 1") + PARSED),
    (query("SET LOCAL a.b = 1") + query(INSERT), fake.complete("SET") + fake.ready()),
    (query("BEGIN" + 300 * " ") + query(INSERT), BEGAN),
    (query("BEGIN") + query(INSERT), fake.notice("x") + BEGAN),
], ids=("COMMIT", "SELECT", "long", "READ ONLY", "SET READ ONLY", "batch READ ONLY",
        "batch with SELECT", "no BEGIN", "long BEGIN", "notice"))
def test_what_is_no_opening_and_one_batch_is_reported(scene, sent, said):
    one = scene(sent)
    one.arrives()
    one.old.send(said, refusal(), fake.ready("E"))
    got = one.client.read()
    while got.type != "E":
        got = one.client.read()
    assert b"25006" in got.body
    assert RESENT not in one.weir.log


def test_a_statement_that_is_followed_by_another(scene):
    """By one that came later, and would not be sent again."""
    one = scene(query("BEGIN") + query(INSERT), query("COMMIT"))
    one.arrives()
    one.old.send(BEGAN, refusal(), fake.ready("E"))
    one.is_opened()
    assert [error["C"] for error in one.client.read_result().errors] == ["25006"]
    assert RESENT not in one.weir.log


def test_a_batch_is_refused_before_its_sync_has_come(scene):
    """PostgreSQL sends an error at once, with what it has kept back."""
    one = scene(run_of("BEGIN"), run_of(INSERT))
    one.arrives()
    one.old.send(ran("BEGIN") + PARSED + refusal())
    new = one.demoted()
    new.expect("PBDEPBDE")
    one.client.send(sync())
    new.expect("S")
    new.send(ran("BEGIN", "INSERT 0 1"), READY)
    got = one.client.read_result()
    assert (got.tags, got.errors, got.status) == (["BEGIN", "INSERT 0 1"], [], "T")


def test_what_follows_a_statement_behind_its_begin_ends_the_opening(scene):
    """The INSERT comes while the BEGIN is not answered, and is too long to be kept."""
    one = scene(query("BEGIN"), query(INSERT + " --" + 4096 * "x"))
    one.arrives()
    one.old.send(BEGAN, DONE, READY)
    one.is_opened()
    assert one.client.read_result().tags == ["INSERT 0 1"]
    one.old.close()
    assert one.client.read_refusal().sqlstate == "08006"
    assert BEGUN_AGAIN not in one.weir.log


def test_all_of_it_is_an_opening(scene):
    """In two batches, of which each was answered."""
    one = scene(query("BEGIN") + run_of(SET_LOCAL) + sync())
    one.arrives()
    one.old.send(BEGAN, ran("SET"), READY)
    one.is_opened()
    one.client.read_result()
    one.old.close()
    one.weir.wait_log(BEGUN_AGAIN)
    one.client.send(query("SELECT 1"))
    new = be(one.hosts[1].accept())
    assert new.expect("P").body == parse("BEGIN")[5:]
    new.expect("BE")
    assert new.expect("P").body == parse(SET_LOCAL)[5:]
    new.expect("BECQ")


def test_an_opening_that_does_not_open(scene):
    """The server is not in a transaction behind it: nobody knows what that means."""
    one = scene(query("BEGIN") + query(INSERT))
    one.arrives()
    one.old.send(fake.complete("BEGIN"), fake.ready("I"), refusal(), fake.ready("I"))
    one.client.expect("CZ")
    assert [error["C"] for error in one.client.read_result().errors] == ["25006"]


def test_an_opening_that_fails(scene):
    one = scene(query("BEGIN") + query(INSERT))
    one.arrives()
    one.old.send(fake.error("not now", "XX000"), fake.ready("I"), refusal(), fake.ready("I"))
    one.client.expect("EZ")
    assert [error["C"] for error in one.client.read_result().errors] == ["25006"]


@pytest.mark.parametrize("late_begin", (0, 1))
def test_a_begin_is_late_and_the_session_has_ended_before_it_was_answered(scene, late_begin):
    """Ahead of the first statement, where it is answered with nothing that the client gets."""
    one = scene(query(INSERT), late_begin=late_begin)
    one.writes_first("BEGIN", late_begin, is_answered=False)
    one.old.send(last_words())
    one.old.close()
    if not late_begin:
        assert one.client.read_refusal().sqlstate == "57P01"
        return
    new = be(one.hosts[1].accept())
    new.expect("PBEC")
    assert new.expect("Q").body == cstr(INSERT)


def test_a_begin_that_was_answered_here_in_the_same_write(scene):
    """With route_reads, to find out where the transaction runs."""
    one = scene(query("BEGIN") + run_of(INSERT) + sync(), route_reads="transactions")
    one.client.send(one.form.writes[0])
    one.old.expect("PBECCPBDES")
    one.is_opened()
    one.old.send(message("1"), message("2"), fake.complete("BEGIN"), 2 * message("3"), PARSED,
                 refusal(), fake.ready("E"))
    new = one.demoted()
    new.expect("PBECCPBDES")
    new.send(message("1"), message("2"), fake.complete("BEGIN"), 2 * message("3"),
             ran("INSERT 0 1"), READY)
    got = one.client.read_result()
    assert (got.tags, got.errors, got.status) == (["INSERT 0 1"], [], "T")


# -- PostgreSQL ------------------------------------------------------------------------------------


READ_ONLY = fake.parameter("default_transaction_read_only", "on")


def test_the_host_says_that_it_is_read_only_when_it_answers_the_begin(opened):
    one = opened()
    one.arrives()
    opening = one.form.opened.replace(READY, READ_ONLY + READY, 1)
    one.old.send(opening, one.form.before, refusal(), fake.ready("E"))
    if one.form.opened:
        one.client.expect(types_of(opening))
    one.comes_again(one.demoted(), is_opened=True)


def test_the_host_says_so_when_the_begin_is_all_that_was_sent(scene):
    one = scene(query(INSERT))
    one.client.send(query("BEGIN"))
    one.old.expect("Q")
    one.old.send(fake.complete("BEGIN"), READ_ONLY, READY)
    assert one.client.read_result().status == "T"
    one.arrives()
    one.old.send(refusal(), fake.ready("E"))
    new = one.demoted()
    new.expect("PBEC")
    assert new.expect("Q").body == cstr(INSERT)


@pytest.mark.parametrize("form", ("Npgsql", "Queries", "pgjdbc", "psycopg"))
def test_a_host_that_is_made_read_only(form, make_cluster, pgweir):
    cluster = make_cluster(standbys=1)
    old, new = cluster.hosts
    old.query("CREATE TABLE t (id int); GRANT ALL ON t TO PUBLIC;")
    weir = pgweir(host_check_borrow=0, databases={"app": f"host={cluster.host_list} port={cluster.port} dbname=app"
                                    " target_session_attrs=read-write"}, pool_mode="transaction")
    client = weir.wire().startup().finish_login("alice")
    for is_made in (False, True):
        if is_made:
            cluster.wait_replayed(new)
            old.query("ALTER SYSTEM SET default_transaction_read_only = on")
            old.query("SELECT pg_reload_conf()")
            new.promote()
        for write in FORMS[form].writes:
            client.send(write)
        tags = []
        while "INSERT 0 1" not in tags:
            got = client.read_result()
            assert not got.errors
            tags += got.tags
        client.query("COMMIT")
    assert [row[0] for row in new.query("SELECT id FROM t")] == [1, 1]
    weir.wait_log(RESENT)
