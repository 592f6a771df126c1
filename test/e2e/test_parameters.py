# SPDX-License-Identifier: ISC
"""Session parameters follow their client from server to server, and are not left behind."""

import pytest

from .kit import fake
from .kit.wire import (Refused, Wire, bind, execute, message, parse, query, refusal, startup,
                       sync)

PID = "SELECT pg_backend_pid()"


@pytest.fixture
def one(pgweir):
    """Transaction mode with a single server, which all clients share."""
    def start(**settings):
        return pgweir(pool_mode="transaction", default_pool_size=1, **settings)
    return start


def refused(weir, **params):
    """What PostgreSQL says of parameters: at the login if a server is at rest in the client's loop,
    else at the first query.
    """
    client = weir.wire().startup(**params)
    try:
        client.finish_login("alice")
    except Refused as error:
        return error
    client.send(query("SELECT 1"))
    return client.read_refusal()


TRACKED = {
    "DateStyle": ("SQL, DMY", "German, DMY"),
    "client_encoding": ("LATIN1", "UTF8"),
    "TimeZone": ("Asia/Tokyo", "America/New_York"),
    "standard_conforming_strings": ("off", "on"),
    "application_name": ("one", "the other"),
    "IntervalStyle": ("sql_standard", "iso_8601"),
    "default_transaction_read_only": ("on", "off"),
}


@pytest.mark.parametrize("name", TRACKED)
def test_tracked_from_startup(one, name):
    weir = one()
    values = TRACKED[name]
    clients = [weir.client(**{name: value}) for value in values]
    plain = weir.client()
    default = plain.value(f"SHOW {name}")
    for _ in range(3):
        for client, value in zip(clients, values):
            assert client.value(f"SHOW {name}") == value
        assert plain.value(f"SHOW {name}") == default
    assert clients[0].parameters[name] == values[0]


@pytest.mark.parametrize("name", TRACKED)
def test_tracked_after_set(one, name):
    weir = one()
    value, other = TRACKED[name]
    first, second, plain = weir.client(), weir.client(), weir.client()
    default = plain.value(f"SHOW {name}")
    first.query(f"SET {name} = '{value}'")
    second.query(f"SET {name} = '{other}'")
    for _ in range(3):
        assert first.value(f"SHOW {name}") == value
        assert second.value(f"SHOW {name}") == other
        assert plain.value(f"SHOW {name}") == default


def test_strings_with_backslashes(one, postgres):
    """PostgreSQL 19 has none: its refusals come as without a pooler, and concern nobody else."""
    weir, asked = one(), "SET standard_conforming_strings = off"
    plain = weir.client()
    with Wire((postgres.host, postgres.port)).login() as direct:
        want = direct.query(asked)
        changed = weir.client()
        assert changed.query(asked).messages == want.messages
        value = "on" if want.error else "off"
        for _ in range(2):
            assert changed.value("SHOW standard_conforming_strings") == value
            assert plain.value("SHOW standard_conforming_strings") == "on"
    if want.error:
        said = refused(weir, standard_conforming_strings="off")
        assert (said.severity, said.sqlstate, said.text) == ("FATAL", want.error["C"], want.error["M"])
        assert plain.value("SELECT 1") == "1"


def test_read_only_is_nobody_elses(one):
    """One client's default must not make another client's writes fail."""
    weir = one(databases={"app": "user=postgres"})
    reader, writer = weir.client(), weir.client()
    for _ in range(2):
        reader.query("SET default_transaction_read_only = on")
        assert not writer.query("CREATE SCHEMA weir_s; DROP SCHEMA weir_s").errors
        assert reader.query("CREATE SCHEMA weir_s").errors[0]["C"] == "25006"
    assert weir.client().parameters["default_transaction_read_only"] == "off"


def test_session_authorization_is_nobody_elses(pgweir):
    weir = pgweir(pool_mode="transaction", default_pool_size=1,
                  databases={"app": "user=postgres"})
    mighty, other = weir.client(), weir.client()
    who = "SELECT session_user || ' ' || current_user"
    plain = mighty.value(who)
    assert plain == "postgres postgres"
    mighty.query("SET SESSION AUTHORIZATION bob")
    for _ in range(2):
        assert mighty.value(who) == "bob bob"
        assert other.value(who) == plain
    # Parameters that only a superuser may set are set nevertheless.
    tuned = weir.client(log_min_duration_statement="77s", session_authorization="bob")
    for _ in range(2):
        assert tuned.value("SHOW log_min_duration_statement") == "77s"
        assert tuned.value(who) == "bob bob"
        assert mighty.value(who) == "bob bob"
        assert mighty.value("SHOW log_min_duration_statement") != "77s"
    mighty.query("RESET SESSION AUTHORIZATION")
    assert mighty.value(who) == plain and other.value(who) == plain
    assert tuned.value(who) == "bob bob"


def test_nobody_takes_more_rights_than_its_server_has(one):
    weir = one()
    other = weir.client()
    assert other.value("SELECT session_user") == "alice"
    assert refused(weir, session_authorization="bob").sqlstate == "42501"
    assert other.value("SELECT session_user") == "alice"


@pytest.mark.parametrize("spelling", ("DATESTYLE", "datestyle", "DateStyle"))
def test_names_in_any_case(one, spelling):
    weir = one()
    client, other = weir.client(**{spelling: "SQL, DMY"}), weir.client()
    for _ in range(2):
        assert client.value("SHOW datestyle") == "SQL, DMY"
        assert other.value("SHOW datestyle") == "ISO, MDY"


def test_a_rolled_back_set_is_not_kept(one):
    weir = one()
    client = weir.client(TimeZone="Asia/Tokyo")
    client.query("BEGIN")
    client.query("SET TimeZone = 'Europe/Oslo'")
    client.query("ROLLBACK")
    assert weir.client().value("SHOW TimeZone") != "Europe/Oslo"
    assert client.value("SHOW TimeZone") == "Asia/Tokyo"


ODD_VALUES = ("it's", 'with "quotes"', "back\\slash", "semi;colon", "x" * 63, "", "a=b", "$1 %s",
              "';DROP TABLE x;--")


@pytest.mark.parametrize("value", ODD_VALUES)
def test_odd_values_are_carried_unchanged(one, value):
    weir = one()
    client, other = weir.client(application_name=value), weir.client(application_name="other")
    for _ in range(2):
        assert client.value("SHOW application_name") == value
        assert other.value("SHOW application_name") == "other"


def test_long_values_are_carried(one):
    weir = one()
    path = ", ".join(f"schema_number_{number}" for number in range(40))
    client, other = weir.client(search_path=path), weir.client()
    for _ in range(2):
        assert client.value("SHOW search_path") == path
        assert other.value("SHOW search_path") == '"$user", public'


# Parameters that PostgreSQL does not report (no ParameterStatus) also belong to the client.
UNTOLD = {
    "search_path": "app_schema, public",
    "work_mem": "7MB",
    "statement_timeout": "12345ms",
    "default_transaction_isolation": "serializable",
    "extra_float_digits": "-3",
    "lock_timeout": "77s",
    "bytea_output": "escape",
    "weir.custom": "anything",
}


@pytest.mark.parametrize("name", UNTOLD)
def test_any_startup_parameter(one, name):
    weir = one()
    plain = weir.client()
    default = None if "." in name else plain.value(f"SHOW {name}")
    client = weir.client(**{name: UNTOLD[name]})
    for _ in range(3):
        assert client.value(f"SELECT current_setting('{name}')") in (
            UNTOLD[name], {"12345ms": "12345ms", "77s": "77s"}.get(UNTOLD[name]))
        if default is None:
            assert not plain.value(f"SELECT coalesce(current_setting('{name}', true), '')")
        else:
            assert plain.value(f"SHOW {name}") == default


@pytest.mark.parametrize("options, expected", (
    ("-c work_mem=6MB", {"work_mem": "6MB"}),
    ("-cwork_mem=6MB", {"work_mem": "6MB"}),
    ("--work_mem=6MB", {"work_mem": "6MB"}),
    ("-c work_mem=6MB -c lock_timeout=3s", {"work_mem": "6MB", "lock_timeout": "3s"}),
    ("  -c   work_mem=6MB  ", {"work_mem": "6MB"}),
    ("-c search_path=one,two", {"search_path": "one,two"}),
    ("-c search_path=one,\\ two", {"search_path": "one, two"}),
    ("-c application_name=with\\ blank", {"application_name": "with blank"}),
    ("-c application_name=back\\\\slash", {"application_name": "back\\slash"}),
    ("-c DateStyle=SQL,DMY", {"datestyle": "SQL, DMY"}),
    ("", {}),
))
def test_options(one, options, expected):
    weir = one()
    client, plain = weir.client(options=options), weir.client()
    for _ in range(2):
        plain.query("SELECT 1")
        for name, value in expected.items():
            assert client.value(f"SHOW {name}") == value
            assert plain.value(f"SHOW {name}") != value


@pytest.mark.parametrize("mode", ("session", "transaction", "statement"))
def test_options_in_all_modes(pgweir, mode):
    weir = pgweir(pool_mode=mode, default_pool_size=1)
    for turn in range(2):
        with weir.client(options="-c search_path=mine") as client:
            assert client.value("SHOW search_path") == "mine"
        with weir.client() as plain:
            assert plain.value("SHOW search_path") == '"$user", public'


def test_pgoptions_of_libpq(one):
    weir = one()
    client = weir.connect(options="-c statement_timeout=100")
    for _ in range(2):
        assert client.execute("SHOW statement_timeout").fetchone() == ("100ms",)
        assert weir.connect().execute("SHOW statement_timeout").fetchone() == ("0",)


@pytest.mark.parametrize("name, value", (
    ("no_such_parameter", "1"),
    ("work_mem", "not a size"),
    ("DateStyle", "nonsense"),
    ("client_encoding", "KLINGON"),
    ("shared_buffers", "1GB"),
))
def test_what_postgresql_does_not_accept(one, name, value):
    """The client gets PostgreSQL's own error, and no other client is affected."""
    weir = one()
    other = weir.client()
    assert other.value("SELECT 1") == "1"
    error = refused(weir, **{name: value})
    assert error.severity == "FATAL" and error.sqlstate.startswith(("22", "42", "55")), error
    assert other.value("SELECT 2") == "2"


def test_a_server_that_has_no_strings_with_backslashes(far_weir):
    """PostgreSQL 19 says so, at the startup and of a SET."""
    far, weir = far_weir
    no_such = fake.error("non-standard string literals are not supported", "0A000") + fake.ready()
    client = weir.wire().startup(standard_conforming_strings="off")
    server = far.accept().login()
    assert b"standard_conforming_strings" in server.expect("Q").body
    server.send(no_such)
    with pytest.raises(Refused) as error:
        client.finish_login("alice")
    assert (error.value.sqlstate, error.value.text) == ("0A000", "non-standard string literals are not supported")
    client = weir.client()
    client.send(query("SET standard_conforming_strings = off"))
    server.expect("Q")
    server.send(no_such)
    assert client.read_result().error["C"] == "0A000"


@pytest.mark.one_loop("the server at rest is in the client's loop")
def test_it_is_refused_at_the_login_where_a_server_is_at_rest(one):
    weir = one()
    for name in ("no_such_parameter", "statement_timeout"):  # the first server, and a known one
        with pytest.raises(Refused) as error:
            weir.client(**{name: "nonsense"})
        assert error.value.sqlstate in ("42704", "22023") and name in error.value.text
    busy = weir.client()
    busy.query("BEGIN")
    client = weir.client(no_such_parameter="1")  # a login waits for nobody
    busy.query("COMMIT")
    client.send(query("SELECT 1"))
    assert client.read_refusal().sqlstate == "42704"


@pytest.mark.one_loop("the server at rest is in the client's loop")
@pytest.mark.parametrize("end", (b"", fake.error("the end", "57P01", "FATAL"),
                                 fake.error("not now", "57014") + fake.ready()))
def test_a_login_outlives_the_server_that_should_try_its_parameters(far_weir, end):
    far, weir = far_weir
    first = weir.wire().startup()
    server = far.accept().login()
    first.finish_login("alice")
    client = weir.wire().startup(TimeZone="EST")
    server.expect("Q")
    server.send(end)
    if not end.endswith(fake.ready()):
        server.close()
    client.finish_login("alice")
    assert client.parameters["TimeZone"] == "EST"


# As a client may spell them, and as PostgreSQL does.
SPELLINGS = {"client_encoding": ("'utf-8'", "UTF8"), "standard_conforming_strings": ("yes", "on"),
             "DateStyle": ("german", "German, DMY"), "TimeZone": ("asia/tokyo", "Asia/Tokyo"),
             "IntervalStyle": ("SQL_STANDARD", "sql_standard"),
             "default_transaction_read_only": ("1", "on")}


@pytest.mark.one_loop("the server at rest is in the client's loop")
@pytest.mark.parametrize("mode", ("transaction", "session"))
def test_values_are_told_in_the_spelling_of_postgresql(pgweir, mode):
    weir = pgweir(pool_mode=mode, default_pool_size=3)
    wishes = {name: asked for name, (asked, _) in SPELLINGS.items()}
    told = {name: said for name, (_, said) in SPELLINGS.items()}
    for number in range(3):  # the third one asks for what is known
        client = weir.client(**wishes, application_name=f"client {number}")
        for name, said in told.items():
            assert client.parameters[name] == said, name
        assert client.parameters["application_name"] == f"client {number}"
        first, second = client.query("SELECT 1"), client.query("SHOW client_encoding")
        assert not [got for got in first.messages + second.messages if got.type == "S"]
        assert second.rows == [["UTF8"]]
    client.query("SET TimeZone = 'CET'")
    result = client.query("RESET TimeZone")
    assert [got.body for got in result.messages if got.type == "S"] == [b"TimeZone\0Asia/Tokyo\0"]


def test_a_value_that_is_the_servers_default_and_is_set_back(one):
    client = one().client(client_encoding="utf-8")
    for text in ("RESET client_encoding", "SELECT 1", "SELECT 2"):
        told = [got.body for got in client.query(text).messages if got.type == "S"]
        assert told in ([], [b"client_encoding\0UTF8\0"]), text


def test_a_spelling_is_corrected_at_the_first_query_if_no_server_was_at_rest(one):
    weir = one()
    busy = weir.client()
    busy.query("BEGIN")
    client = weir.client(standard_conforming_strings="yes", TimeZone="asia/tokyo")
    assert client.parameters["TimeZone"] == "asia/tokyo"
    busy.query("COMMIT")
    told = [[got.body for got in client.query("SELECT 1").messages if got.type == "S"]
            for _ in range(2)]
    assert told == [[b"TimeZone\0Asia/Tokyo\0", b"standard_conforming_strings\0on\0"], []] or \
        told == [[b"standard_conforming_strings\0on\0", b"TimeZone\0Asia/Tokyo\0"], []]

@pytest.mark.parametrize("options", ("-D /tmp", "nonsense", "-c", "-c novalue", "--", "-e -c"))
def test_options_that_are_no_settings(one, options):
    weir = one()
    refused = refusal(weir.address, options=options)
    assert refused.severity == "FATAL"
    weir.client().value("SELECT 1")


def test_ignored_startup_parameters(one):
    weir = one(ignore_startup_parameters="work_mem, lock_timeout no_such_thing")
    client = weir.client(work_mem="9MB", lock_timeout="7s", no_such_thing="1", TimeZone="Asia/Tokyo")
    assert client.value("SHOW work_mem") != "9MB"
    assert client.value("SHOW lock_timeout") == "0"
    assert client.value("SHOW TimeZone") == "Asia/Tokyo"


def test_what_the_console_says_of_followed_names(one):
    weir = one(service_name="pooler")
    config = {row["key"]: row for row in weir.admin("SHOW CONFIG")}
    assert (config["track_extra_parameters"]["value"],
            config["track_extra_parameters"]["default"]) == ("", "")
    assert config["job_name"]["value"] == "pooler" and "service_name" not in config
    users = {row["name"]: row["pool_size"] for row in weir.admin("SHOW USERS")}
    assert users["alice"] == ""


def test_a_followed_name_can_be_ignored(one):
    weir = one(ignore_startup_parameters="TimeZone application_name extra_float_digits")
    client = weir.client(TimeZone="Asia/Tokyo", application_name="mine", DateStyle="SQL, DMY")
    assert client.value("SHOW TimeZone") != "Asia/Tokyo"
    assert client.value("SHOW application_name") == ""
    assert client.value("SHOW DateStyle") == "SQL, DMY"
    client = weir.client(options="-c TimeZone=Asia/Tokyo -c work_mem=3MB")
    assert client.value("SHOW TimeZone") != "Asia/Tokyo"
    assert client.value("SHOW work_mem") == "3MB"
    client.query("SET TimeZone = 'Asia/Tokyo'")  # it is tracked nevertheless
    weir.client().value("SELECT 1")
    assert client.value("SHOW TimeZone") == "Asia/Tokyo"


def test_an_ignored_application_name_still_has_its_host(one):
    weir = one(ignore_startup_parameters="application_name", application_name_add_host=1)
    client = weir.client(application_name="mine")
    port = client.sock.getsockname()[1]
    assert client.value("SHOW application_name") == f"app - 127.0.0.1:{port}"


def test_application_name_add_host(one):
    weir = one(application_name_add_host=1)
    client = weir.client(application_name="tool")
    port = client.sock.getsockname()[1]
    assert client.value("SHOW application_name") == f"tool - 127.0.0.1:{port}"
    nameless = weir.client()
    port = nameless.sock.getsockname()[1]
    assert nameless.value("SHOW application_name") == f"app - 127.0.0.1:{port}"
    unix = weir.wire(unix=True).login(application_name="tool")
    assert unix.value("SHOW application_name").startswith("tool - unix(")


def test_extra_parameters(one):
    """Names that are tracked anyway are accepted there."""
    weir = one(track_extra_parameters="IntervalStyle, search_path, default_transaction_read_only")
    client, plain = weir.client(), weir.client()
    assert len(plain.told) == len(set(plain.told)) and "IntervalStyle" in plain.told
    client.query("SET default_transaction_read_only = on")
    for _ in range(2):
        assert client.value("SHOW default_transaction_read_only") == "on"
        assert plain.value("SHOW default_transaction_read_only") == "off"


def test_discard_all_within_a_transaction_pool(one):
    weir = one()
    client = weir.client(TimeZone="Asia/Tokyo", work_mem="7MB")
    client.query("SET work_mem = '8MB'")
    client.query("DISCARD ALL")
    other = weir.client(TimeZone="Europe/Oslo")
    assert other.value("SHOW TimeZone") == "Europe/Oslo"
    assert client.value("SHOW work_mem") == "7MB"


@pytest.mark.parametrize("reset", ("DISCARD ALL", "RESET ALL"))
def test_a_session_that_resets_has_its_own_defaults_again(pgweir, reset):
    weir = pgweir(pool_mode="session", default_pool_size=1)
    client = weir.client(TimeZone="Asia/Tokyo", work_mem="7MB")
    client.query("SET TimeZone = 'Europe/Oslo'; SET work_mem = '8MB'")
    client.query(reset)
    assert client.value("SHOW TimeZone") == "Asia/Tokyo"
    assert client.value("SHOW work_mem") == "7MB"


@pytest.mark.parametrize("name, own", (("TimeZone", "Asia/Tokyo"), ("work_mem", "7MB")))
def test_a_session_that_resets_one_name_has_its_own_default_again(pgweir, name, own):
    weir = pgweir(pool_mode="session", default_pool_size=1)
    client = weir.client(TimeZone="Asia/Tokyo", work_mem="7MB")
    client.query("SET TimeZone = 'Europe/Oslo'; SET work_mem = '8MB'")
    client.query(f"RESET {name}")
    assert client.value(f"SHOW {name}") == own


def test_reset_goes_back_to_the_clients_own_default(one):
    weir = one()
    client = weir.client(DateStyle="SQL, DMY")
    client.query("SET DateStyle = 'German'")
    assert client.value("SHOW DateStyle") == "German, DMY"
    other = weir.client()
    assert other.value("SHOW DateStyle") == "ISO, MDY"


def test_parameter_status_reaches_the_client(one):
    weir = one()
    client = weir.client()
    result = client.query("SET TimeZone = 'Asia/Tokyo'")
    assert [m.body for m in result.messages if m.type == "S"] == [b"TimeZone\0Asia/Tokyo\0"]


def test_replay_is_not_seen_by_the_client(one):
    weir = one()
    first, second = weir.client(TimeZone="Asia/Tokyo"), weir.client(TimeZone="Europe/Oslo")
    for _ in range(3):
        assert first.query("SELECT 1").types.replace("S", "") == "TDCZ"
        assert second.query("SELECT 1").types.replace("S", "") == "TDCZ"


def test_many_parameters(one):
    weir = one()
    wishes = {f"weir.p{number}": f"value {number}" for number in range(100)}
    wire = weir.wire()
    wire.send(startup(user="alice", database="app", **wishes))
    wire.finish_login("alice")
    for _ in range(2):
        assert wire.value("SELECT current_setting('weir.p99')") == "value 99"
        assert not weir.client().value("SELECT coalesce(current_setting('weir.p99', true), '')")


REFUSED = {"statement_timeout": "never", "work_mem": "1 yard", "DateStyle": "nonsense",
           "no_such_parameter": "1", "session_authorization": "bob", "client_encoding": "KLINGON"}


@pytest.mark.parametrize("name", REFUSED)
def test_a_server_stays_when_it_refuses_a_value(one, name):
    weir = one()
    other = weir.client(TimeZone="Asia/Tokyo", work_mem="7MB")
    pid = other.value(PID)
    for _ in range(3):
        error = refused(weir, **{name: REFUSED[name], "lock_timeout": "3s"})
        assert error.severity == "FATAL" and error.sqlstate[:2] in ("22", "42"), error
        assert other.value("SHOW lock_timeout") == "0"
        assert other.value("SHOW TimeZone") == "Asia/Tokyo"
        assert other.value("SHOW work_mem") == "7MB"
        assert weir.client().value("SHOW TimeZone") != "Asia/Tokyo"
    assert other.value(PID) == pid


def test_a_refused_value_in_session_mode(pgweir):
    weir = pgweir(pool_mode="session", default_pool_size=1)
    with weir.client() as first:
        pid = first.value(PID)
        first.query("SET lock_timeout = '7s'")
    assert refused(weir, statement_timeout="never").sqlstate == "22023"
    second = weir.client()
    assert second.value(PID) == pid
    assert second.value("SHOW lock_timeout") == "0"


def test_a_server_that_takes_no_parameters_any_more_goes(far_weir):
    far, weir = far_weir
    first = weir.wire().startup(TimeZone="CET")
    server = far.accept().login()
    server.expect("Q")
    server.send(fake.complete("SET"), fake.parameter("TimeZone", "CET"), fake.ready())
    first.finish_login("alice")
    first.send(query("SELECT 1"))
    server.expect("Q")
    server.send(fake.answer("1"))
    assert first.read_result().rows == [["1"]]
    second = weir.wire().startup(TimeZone="EST")
    assert b"EST" in server.expect("Q").body
    server.send(fake.error("no", "42501"), fake.ready())
    with pytest.raises(Refused):
        second.finish_login("alice")
    assert server.expect("Q").body == b"DISCARD ALL\0"
    server.send(fake.error("no", "42501"), fake.ready())
    server.expect("X")
    weir.wait_log("closing because: reset query failed")


# -- SET in front of the client's messages ---------------------------------------------------------


SET_NAME = query("SET \"application_name\"='mine';")


@pytest.fixture
def renamed(pgweir, fake_server):
    """A client whose application_name differs from the server's, and that server, which is
    scripted.
    """
    far = fake_server()
    weir = pgweir(databases={"app": far.entry}, pool_mode="transaction")
    client = weir.wire().startup(application_name="mine")
    server = far.accept().login()
    client.finish_login("alice")
    return weir, client, server


def answered(client, server, *setting):
    server.send(*setting, fake.row("x"), fake.complete("SELECT 1"), fake.ready())
    got = client.read_result()
    assert (got.types, got.rows) == ("DCZ", [["x"]])


def test_a_name_is_not_waited_for(renamed):
    _, client, server = renamed
    client.send(query("SELECT 1"))
    assert server.sock.recv(65536) == SET_NAME + query("SELECT 1")
    answered(client, server, fake.complete("SET"), fake.parameter("application_name", "mine"),
             fake.ready())
    client.send(query("SELECT 2"))
    assert server.expect("Q").body == b"SELECT 2\0"


def test_a_name_goes_before_an_extended_query(renamed):
    _, client, server = renamed
    client.send(parse("SELECT 1"), bind(), execute(), sync())
    server.expect("Q")
    server.send(fake.complete("SET"), fake.parameter("application_name", "mine"), fake.ready())
    for kind in "PBES":
        server.expect(kind)
    server.send(message("1"), message("2"), fake.row("x"), fake.complete("SELECT 1"), fake.ready())
    assert client.read_result().types == "12DCZ"


def test_a_name_that_cannot_be_set_harms_nobody(renamed):
    """A cancel request may arrive at just that moment. The query runs, then the server is closed.
    """
    weir, client, server = renamed
    client.send(query("SELECT 1"))
    server.expect("Q")
    server.expect("Q")
    answered(client, server, fake.error("canceling statement due to user request", "57014"),
             fake.ready())
    server.expect("X")
    weir.wait_log("closing because: parameters could not be set")
    weir.wait_pool(sv_idle=0, sv_active=0)


def test_names_change_with_the_client(one):
    weir = one()
    clients = [weir.client(application_name=f"client {i}") for i in range(3)]
    for _ in range(20):
        for i, client in enumerate(clients):
            assert client.value("SHOW application_name") == f"client {i}"
            assert client.value("SELECT application_name FROM pg_stat_activity"
                                " WHERE pid = pg_backend_pid()") == f"client {i}"
    clients[0].query("SET application_name = 'other'")
    assert clients[1].value("SHOW application_name") == "client 1"
    assert clients[0].value("SHOW application_name") == "other"


NAMES = {"UTF8": "caf\u00e9".encode(), "LATIN1": "caf\u00e9".encode("latin1"),
         "control": b"a\tb\x7f\x1b[1m", "broken": b"\xff\xc3\xe2\x82"}
ENCODINGS = {"LATIN1": "LATIN1"}


@pytest.mark.parametrize("in_options", (False, True))
@pytest.mark.parametrize("kind", NAMES)
def test_a_name_that_is_not_ascii(one, postgres, kind, in_options):
    weir = one()
    name, encoding = NAMES[kind], ENCODINGS.get(kind, "UTF8")
    clean = "".join(chr(byte) if 32 <= byte < 127 else "?" for byte in name)
    given = {"options": b"-c application_name=" + name.replace(b"\t", b"\\\t")} if in_options \
        else {"application_name": name}
    other = weir.client(application_name="other")
    client = weir.client(client_encoding=encoding, **given)
    assert client.parameters["application_name"] == clean
    pid = client.value(PID)
    for _ in range(3):
        assert other.value("SHOW application_name") == "other"
        assert client.value("SHOW application_name") == clean
        assert (client.value(PID), other.value(PID)) == (pid, pid)
    # Later values are sent to PostgreSQL unchanged, and reported back in PostgreSQL's spelling.
    client.query(b"SET application_name = 'x\xc3\xa9'" if encoding == "UTF8"
                 else b"SET application_name = 'x\xe9'")
    spelt = client.value("SHOW application_name")
    assert spelt.startswith("x") and spelt.isascii()
    assert other.value("SHOW application_name") == "other"
    assert client.value("SHOW application_name") == spelt
    assert client.value(PID) == pid


# -- parameters that identify this pooler ----------------------------------------------------------


@pytest.mark.parametrize("mode", ("session", "transaction", "statement"))
def test_a_login_says_what_the_pool_is(pgweir, mode):
    weir = pgweir(pool_mode=mode, max_prepared_statements=77, databases={
        "app": "", "app2": "pool_mode=session"})
    for _ in range(2):  # the second time from the pool's cache
        client = weir.client()
        assert {name: value for name, value in client.parameters.items() if "bouncer" in name} == {
            "pgbouncer.version": "1.26.1", "pgbouncer.pool_mode": mode,
            "pgbouncer.max_prepared_statements": "77"}
    assert weir.client(database="app2").parameters["pgbouncer.pool_mode"] == "session"
    weir.admin("SET max_prepared_statements = 5")
    assert weir.client().parameters["pgbouncer.max_prepared_statements"] == "5"
    with weir.console() as console:
        assert console.parameters["server_version"] == "1.26.1/bouncer"
        assert [name for name in console.told if "." in name] == ["pgbouncer.version"]
        assert console.query("SET extra_float_digits = 2").errors == []


def test_a_server_that_is_a_pooler_too(pgweir):
    behind = pgweir(pool_mode="statement", max_prepared_statements=1)
    host, port = behind.address
    weir = pgweir(databases={"app": f"host={host} port={port}"}, pool_mode="transaction")
    client = weir.client()
    assert len(client.told) == len(set(client.told))
    assert client.parameters["pgbouncer.pool_mode"] == "transaction"


# -- very many parameters --------------------------------------------------------------------------


def numbered(count, value="x"):
    return {f"weir.p{number}": value for number in range(count)}


def refused_startup(weir, **pairs):
    client = weir.wire()
    client.send(startup(user="alice", database="app", **pairs))
    return client.read_refusal()


def test_the_longest_startup_packet(one):
    weir = one()
    room = 10004 - len(startup(user="alice", database="app", search_path=""))
    path = "x," * (room // 2)
    client = weir.client(search_path=path[:room - 1] + "x")
    assert len(client.value("SHOW search_path")) == room
    refused = refused_startup(weir, search_path="x" * (room + 1))
    assert (refused.sqlstate, refused.text) == (
        "08P01", "startup packet of 10005 bytes is too long: at most 10004 are accepted")


def test_a_long_startup_packet_is_not_waited_for(one):
    client = one().wire()
    packet = startup(user="alice", search_path="x" * 60000)
    client.send(packet[:8])
    assert f"{len(packet)} bytes is too long" in client.read_refusal().text


@pytest.mark.parametrize("auth_type", ("trust", "scram-sha-256"))
def test_so_many_startup_parameters(one, auth_type):
    weir = one(auth_type=auth_type)
    client = weir.client(password="alice secret", **numbered(499))
    assert client.value("SELECT current_setting('weir.p498')") == "x"
    assert "at most 500" in refused_startup(weir, **numbered(501)).text
    assert "at most 500" in refused_startup(
        weir, options=" ".join(f"-cw.p{number}=1" for number in range(501))).text


@pytest.fixture
def far_weir(pgweir, fake_server):
    far = fake_server()
    return far, pgweir(databases={"app": far.entry, "app2": ""}, pool_mode="transaction",
                       server_login_retry="0.1")


@pytest.mark.parametrize("report", (
    lambda number: fake.parameter(f"name{number}", "x"),
    lambda number: fake.parameter("TimeZone", f"zone{number}"),
    lambda number: fake.parameter(f"name{number}", "x" * 1000),
), ids=("names", "values", "bytes"))
def test_a_server_that_reports_too_much_in_its_login(far_weir, report):
    far, weir = far_weir
    client = weir.wire().startup()
    server = far.accept()
    server.send(fake.auth(0), *(report(number) for number in range(501)))
    weir.wait_log("closing because: too many parameters")
    assert client.read_refusal().text == "too many parameters"
    assert weir.client(database="app2").value("SELECT 1") == "1"


def test_a_server_at_rest_that_reports_without_end(far_weir):
    far, weir = far_weir
    client = weir.wire().startup()
    server = far.accept().login()
    client.finish_login("alice")
    server.send(*(fake.parameter("TimeZone", f"zone{number}") for number in range(201)))
    server.expect("X")
    weir.wait_log("closing because: server reports parameters without end")
    client.send(query("SELECT 1"))
    server = far.accept().login()
    server.expect("Q")
    server.send(fake.answer("1"))
    assert client.read_result().rows == [["1"]]


def test_what_is_reported_at_rest_counts(far_weir):
    """For example after a reload of PostgreSQL's configuration."""
    far, weir = far_weir
    client = weir.wire().startup()
    server = far.accept().login()
    client.finish_login("alice")
    for turn in range(3):
        server.send(*(fake.parameter("TimeZone", f"zone{number}") for number in range(150)))
        client.send(query("SELECT 1"))
        got = server.expect("Q").body  # it differs from the client's value
        if b"TimeZone" in got:
            server.send(fake.complete("SET"), fake.parameter("TimeZone", "GMT"), fake.ready())
            server.expect("Q")
        server.send(fake.answer("1"))
        assert client.read_result().rows == [["1"]]


def test_a_server_with_too_many_names_serves_nobody_else(far_weir):
    far, weir = far_weir
    client = weir.wire().startup()
    server = far.accept().login()
    client.finish_login("alice")
    client.send(query("SELECT a_function()"))
    server.expect("Q")
    server.send(*(fake.parameter(f"name{number}", "x") for number in range(501)), fake.answer("1"))
    assert client.read_result().rows == [["1"]]
    server.expect("X")
    weir.wait_log("closing because: its parameters are too many to follow")


@pytest.mark.one_loop("the second client gets the server of the first one")
def test_many_reports_of_one_query(far_weir):
    """PostgreSQL before 14 reports each change immediately, and functions may make many changes."""
    far, weir = far_weir
    client = weir.wire().startup()
    server = far.accept().login()
    client.finish_login("alice")
    client.send(query("SELECT a_function()"))
    server.expect("Q")
    reports = [fake.parameter("TimeZone", f"zone{number}") for number in range(20000)]
    server.send(*reports, fake.answer("1"))
    got = client.read_result()
    assert got.rows == [["1"]]
    assert [m.body for m in got.messages if m.type == "S"][-1] == b"TimeZone\0zone19999\0"
    other = weir.wire().startup()
    other.finish_login("alice")
    other.send(query("SELECT 2"))
    assert server.expect("Q").body == b"SET \"TimeZone\"='GMT';\0"
