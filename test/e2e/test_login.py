# SPDX-License-Identifier: ISC
"""Logins: startup packets, methods, secrets."""

import struct

import psycopg
import pytest

from .kit.wait import wait_until
from .kit.wire import (GSSENC_REQUEST, SSL_REQUEST, Refused, Scram, cstr, md5_secret, message,
                       query, refusal, sasl_initial, scram_secret, special, startup)

SECRET = "correct horse"

SECRETS = {
    "plain": SECRET,
    "md5": md5_secret("alice", SECRET),
    "scram": scram_secret(SECRET),
}


def users(secret):
    return {"alice": secret, "admin": "admin secret"}


# -- methods and secrets --------------------------------------------------------------------------

# The requested method (authentication codes), or None: it cannot work.
WORKS = {
    ("trust", "plain"): [0],
    ("trust", "md5"): [0],
    ("trust", "scram"): [0],
    ("plain", "plain"): [3, 0],
    ("plain", "md5"): [3, 0],
    ("plain", "scram"): [3, 0],
    ("md5", "plain"): [5, 0],
    ("md5", "md5"): [5, 0],
    ("md5", "scram"): [10, 11, 12, 0],
    ("scram-sha-256", "plain"): [10, 11, 12, 0],
    ("scram-sha-256", "md5"): None,
    ("scram-sha-256", "scram"): [10, 11, 12, 0],
}

pairs = pytest.mark.parametrize("method, kind", WORKS)


@pairs
def test_methods_and_secrets(pgweir, method, kind):
    weir = pgweir(auth_type=method, userlist=users(SECRETS[kind]),
                  databases={"app": "user=alice password=unused"})
    if WORKS[method, kind] is None:
        assert refusal(weir.address, password=SECRET).sqlstate == "28P01"
        return
    client = weir.client(password=SECRET)
    assert client.auth_codes == WORKS[method, kind]
    assert client.value("SELECT 1") == "1"


@pairs
def test_psycopg_logs_in(pgweir, method, kind):
    weir = pgweir(auth_type=method, userlist=users(SECRETS[kind]),
                  databases={"app": "user=alice password=unused"})
    if WORKS[method, kind] is None:
        with pytest.raises(psycopg.OperationalError):
            weir.connect(password=SECRET)
    else:
        weir.connect(password=SECRET).execute("SELECT 1")


PROVING = [pair for pair, codes in WORKS.items() if codes and pair[0] != "trust"]

FAILURES = {
    "plain": "password authentication failed",
    "md5": "password authentication failed",
    "scram-sha-256": "SASL authentication failed",
}


def text_of_failure(method, kind):
    return FAILURES["scram-sha-256" if kind == "scram" and method == "md5" else method]


@pytest.mark.parametrize("wrong", ("incorrect", SECRET + " ", SECRET[:-1], "x" * 900))
@pytest.mark.parametrize("method, kind", PROVING)
def test_wrong_passwords(same_pgweir, method, kind, wrong):
    weir = same_pgweir(auth_type=method, userlist=users(SECRETS[kind]))
    refused = refusal(weir.address, password=wrong)
    assert (refused.sqlstate, refused.text) == ("28P01", text_of_failure(method, kind))


@pytest.mark.parametrize("method, kind", PROVING)
def test_empty_password(pgweir, method, kind):
    weir = pgweir(auth_type=method, userlist=users(SECRETS[kind]))
    refused = refusal(weir.address, password="")
    assert refused.sqlstate == "28P01"
    if method == "plain":
        assert refused.text == "empty password returned by client"


@pytest.mark.parametrize("method", ("plain", "md5", "scram-sha-256"))
def test_an_empty_secret_lets_nobody_in(pgweir, method):
    weir = pgweir(auth_type=method, userlist=users(""))
    for password in ("", "x"):
        assert refusal(weir.address, password=password).sqlstate == "28P01"


@pytest.mark.parametrize("method", ("plain", "md5", "scram-sha-256"))
def test_the_secret_itself_is_no_password(pgweir, method):
    """A hash from the user list does not work as a password."""
    for kind in ("md5", "scram"):
        if WORKS[method, kind]:
            weir = pgweir(auth_type=method, userlist=users(SECRETS[kind]))
            assert refusal(weir.address, password=SECRETS[kind]).sqlstate == "28P01"


@pytest.mark.parametrize("method", ("plain", "md5", "scram-sha-256"))
def test_unknown_users_see_the_same_as_known_ones(pgweir, method):
    weir = pgweir(auth_type=method, userlist=users(SECRET))
    known = refusal(weir.address, "alice", password="wrong")
    unknown = refusal(weir.address, "mallory", password="wrong")
    assert (known.sqlstate, known.text) == (unknown.sqlstate, unknown.text)
    weir.wait_log("no such user: mallory")


def test_the_salt_of_an_unknown_user_does_not_change(pgweir):
    """Otherwise two attempts would reveal which users exist."""
    weir = pgweir(auth_type="scram-sha-256", userlist=users(SECRETS["scram"]))

    def first_answer(user):
        with weir.wire() as wire:
            wire.startup(user)
            wire.expect("R")
            wire.send(sasl_initial(b"n,,n=,r=abcdefghijklmnopqrst"))
            fields = wire.expect("R").body[4:].split(b",")
            return fields[1:]

    assert first_answer("mallory") == first_answer("mallory")
    assert first_answer("mallory") != first_answer("trudy")
    assert first_answer("mallory")[1] == first_answer("alice")[1]


def test_trust_needs_a_known_user(pgweir):
    weir = pgweir(auth_type="trust", userlist=users(SECRET))
    refused = refusal(weir.address, "mallory")
    assert refused.text == '"trust" authentication failed'
    assert refused.sqlstate in ("28000", "28P01")


def test_any_ignores_the_name(pgweir):
    weir = pgweir(auth_type="any", databases={"app": "user=bob", "unforced": ""})
    assert weir.client("whoever").value("SELECT current_user") == "bob"
    assert refusal(weir.address, "whoever", "unforced").text == "bouncer config error"


def test_a_removed_user_stays_outside(pgweir):
    weir = pgweir(auth_type="scram-sha-256", userlist={**users(SECRET), "bob": "bob secret"})
    weir.client("bob", password="bob secret").close()
    weir.reload(userlist=users(SECRET))
    assert refusal(weir.address, "bob", password="bob secret").sqlstate == "28P01"
    weir.client(password=SECRET)


def test_a_changed_secret_counts_at_once(pgweir):
    weir = pgweir(auth_type="scram-sha-256", userlist=users(SECRET))
    weir.client(password=SECRET)
    weir.reload(userlist=users("another"))
    assert refusal(weir.address, password=SECRET).sqlstate == "28P01"
    weir.client(password="another")


def test_an_emptied_secret_lets_nobody_in(pgweir):
    weir = pgweir(auth_type="scram-sha-256", userlist=users(SECRET))
    weir.client(password=SECRET)
    weir.reload(userlist=users(""))
    for password in (SECRET, ""):
        assert refusal(weir.address, password=password).sqlstate == "28P01"


ODD_PASSWORDS = ('with "quotes"', "back\\slash", "semi;colon", " blanks ", "säkerhet", "密码",
                 "x" * 500)


@pytest.mark.parametrize("method", ("plain", "md5", "scram-sha-256"))
@pytest.mark.parametrize("password", ODD_PASSWORDS)
def test_odd_passwords(pgweir, method, password):
    weir = pgweir(auth_type=method, userlist=users(password))
    weir.connect(password=password).execute("SELECT 1")


@pytest.mark.parametrize("stored, typed", (
    ("Ⅸ", "IX"),              # NFKC
    ("a\u00a0b", "a b"),       # another blank
    ("I\u00adX", "IX"),        # mapped to nothing
    ("ﬁne", "fine"),
))
def test_passwords_are_prepared_for_scram(pgweir, stored, typed):
    """pgweir applies SASLprep; the scripted client uses the prepared password."""
    weir = pgweir(auth_type="scram-sha-256", userlist=users(stored))
    weir.client(password=typed)


def test_odd_user_names(pgweir, postgres):
    name = 'od"d näme'
    postgres.query('CREATE ROLE "od""d näme" LOGIN')
    try:
        weir = pgweir(auth_type="md5", userlist={name: SECRET, "admin": "admin secret"})
        assert weir.client(name, password=SECRET).value("SELECT current_user") == name
        weir.disconnect()
        weir.stop()
    finally:
        wait_until(lambda: not postgres.backends(name))
        postgres.query('DROP ROLE "od""d näme"')


@pytest.mark.parametrize("end", "\r\n")
def test_names_with_the_end_of_a_line(pgweir, end):
    """PostgreSQL 19 creates none; of a database each version says that there is none."""
    name = f"no{end}body"
    weir = pgweir(databases={"*": ""}, auth_type="trust", userlist=users(""))
    assert refusal(weir.address, user=name).sqlstate == "28000"
    error = refusal(weir.address, database=name)
    assert (error.sqlstate, error.text) == ("3D000", f'database "{name}" does not exist')
    assert weir.client().value("SELECT 1") == "1"


# -- malformed SCRAM ------------------------------------------------------------------------------


@pytest.fixture
def scram_weir(same_pgweir):
    return same_pgweir(auth_type="scram-sha-256", userlist=users(SECRET))


def scram_talk(weir, scram, bend_final=lambda final: final):
    wire = weir.wire().startup()
    wire.expect("R")
    wire.send(sasl_initial(scram.first()))
    final = scram.final(wire.expect("R").body[4:])
    wire.send(message("p", bend_final(final)))
    return wire


def test_scram_without_channel_binding_is_fine_with_n_and_y(scram_weir):
    for gs2 in (b"n,,", b"y,,"):
        wire = scram_talk(scram_weir, Scram(SECRET, gs2))
        wire.expect("RR")


def test_the_name_within_scram_is_ignored(scram_weir):
    scram_talk(scram_weir, Scram(SECRET, user=b"somebody")).expect("RR")


BENT_FINALS = {
    "proof of zeros": lambda final: final.rpartition(b",p=")[0] + b",p=" + b"A" * 43 + b"=",
    "no proof": lambda final: final.rpartition(b",p=")[0],
    "empty proof": lambda final: final.rpartition(b",p=")[0] + b",p=",
    "short proof": lambda final: final.rpartition(b",p=")[0] + b",p=QUJD",
    "no base64": lambda final: final.rpartition(b",p=")[0] + b",p=" + b"!" * 44,
    "other nonce": lambda final: final.replace(b",r=", b",r=x"),
    "cut nonce": lambda final: final.replace(b",p=", b"", 1),
    "other binding": lambda final: b"c=eSws" + final[6:],
    "nothing": lambda final: b"",
    "zero byte": lambda final: final + b"\0",
    "very long": lambda final: final + b"," + b"x" * 60000,
}


@pytest.mark.parametrize("bend", BENT_FINALS.values(), ids=BENT_FINALS.keys())
def test_bent_scram_proofs(scram_weir, bend):
    refused = scram_talk(scram_weir, Scram(SECRET), bend).read_refusal()
    assert refused.severity == "FATAL"
    scram_weir.client(password=SECRET)


BENT_FIRSTS = {
    "channel binding": sasl_initial(b"p=tls-unique,,n=,r=abcdefgh"),
    "authzid": sasl_initial(b"n,a=bob,n=,r=abcdefgh"),
    "no nonce": sasl_initial(b"n,,n="),
    "nonce not printable": sasl_initial(b"n,,n=,r=abc\x01def"),
    "extension": sasl_initial(b"n,,m=x,n=,r=abcdefgh"),
    "empty": sasl_initial(b""),
    "no flag": sasl_initial(b",,n=,r=abcdefgh"),
    "other mechanism": sasl_initial(b"n,,n=,r=abcdefgh", "SCRAM-SHA-256-PLUS"),
    "unknown mechanism": sasl_initial(b"n,,n=,r=abcdefgh", "PLAIN"),
    "mechanism unterminated": message("p", b"SCRAM-SHA-256"),
    "length beyond the packet": message("p", cstr("SCRAM-SHA-256") + struct.pack("!I", 1 << 30)),
    "length negative": message("p", cstr("SCRAM-SHA-256") + struct.pack("!i", -2)),
    "length that wraps": message("p", cstr("SCRAM-SHA-256") + struct.pack("!i", -18) + b"n,,n"),
    "bytes behind no response": message("p", cstr("SCRAM-SHA-256") + struct.pack("!i", -1) + b"n,,n"),
    "password instead": message("p", cstr(SECRET)),
    "query instead": query("SELECT 1"),
    "terminate instead": message("p", b""),
}


@pytest.mark.parametrize("says", BENT_FIRSTS.values(), ids=BENT_FIRSTS.keys())
def test_bent_scram_beginnings(scram_weir, says):
    wire = scram_weir.wire().startup()
    wire.expect("R")
    wire.send(says)
    assert wire.read_refusal().severity == "FATAL"
    scram_weir.client(password=SECRET)


def test_an_empty_initial_response_is_asked_for_again_or_refused(scram_weir):
    wire = scram_weir.wire().startup()
    wire.expect("R")
    wire.send(message("p", cstr("SCRAM-SHA-256") + struct.pack("!i", -1)))
    assert wire.read().type in "RE"


def test_queries_before_the_password(pgweir):
    weir = pgweir(auth_type="md5", userlist=users(SECRET))
    wire = weir.wire().startup()
    wire.expect("R")
    wire.send(query("SELECT 1"))
    assert wire.read_refusal().severity == "FATAL"


def test_password_before_startup(pgweir):
    wire = pgweir().wire()
    wire.send(message("p", cstr(SECRET)))
    assert wire.read_refusal().sqlstate == "08P01"


# -- the startup packet ---------------------------------------------------------------------------


@pytest.fixture
def weir(same_pgweir):
    return same_pgweir()


@pytest.mark.parametrize("asks", ([SSL_REQUEST], [GSSENC_REQUEST], [GSSENC_REQUEST, SSL_REQUEST],
                                  [SSL_REQUEST, GSSENC_REQUEST]))
def test_encryption_is_declined(weir, asks):
    wire = weir.wire()
    for code in asks:
        wire.send(special(code))
        assert wire.take(1) == b"N"
    assert wire.login().value("SELECT 1") == "1"


@pytest.mark.parametrize("code, text", (
    (SSL_REQUEST, "received unencrypted data after SSL request"),
    (GSSENC_REQUEST, "received unencrypted data after GSSAPI encryption request"),
))
def test_bytes_behind_an_encryption_request(weir, code, text):
    """A man in the middle may have inserted them."""
    wire = weir.wire()
    wire.send(special(code) + startup(user="alice", database="app"))
    assert wire.take(1) in (b"N", b"E")
    if wire.buffer[:1] not in (b"E", b""):
        wire.buffer[:0] = b"E"
    last = wire.read_to_end()
    assert last and last[-1].type == "E", last
    assert last[-1].fields["M"] == text


def test_old_protocol(weir):
    wire = weir.wire()
    wire.send(startup(version=0x00020000, user="alice", database="app"))
    assert wire.read_refusal().text == "old V2 protocol not supported"


BROKEN = {
    "unknown code": special(0x7fffffff),
    "code of a future": struct.pack("!II", 8, 0x00040000),
    "http": b"GET / HTTP/1.1\r\nHost: weir\r\n\r\n",
    "tls hello": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 64,
    "length too short": struct.pack("!I", 3) + b"xxxx",
    "length beyond 65535": struct.pack("!II", 70000, 196608) + b"\0" * 100,
    "length beyond 10004": struct.pack("!II", 10005, 196608) + b"\0" * 100,
    "length negative": b"\xff\xff\xff\xff\0\3\0\0",
    "no terminator": startup(user="alice", terminator=b""),
    "bytes behind the terminator": startup(user="alice", terminator=b"\0more\0"),
    "name without value": startup(user="alice", terminator=b"database\0"),
    "unterminated": struct.pack("!II", 12, 196608) + b"user",
    "nothing in it": struct.pack("!II", 8, 196608),
    "no user": startup(database="app"),
    "empty user": startup(user="", database="app"),
}


@pytest.mark.parametrize("says", BROKEN.values(), ids=BROKEN.keys())
def test_broken_startup_packets(weir, says):
    wire = weir.wire()
    wire.send(says)
    for got in wire.read_to_end():
        assert got.type == "E"
        assert got.fields["S"] == "FATAL"
    weir.client()


def test_texts_of_broken_startup_packets(weir):
    texts = {
        startup(database="app"): "no username supplied",
        startup(user="alice", terminator=b"\0more\0"):
            "invalid startup packet layout: expected terminator as last byte",
    }
    for packet, text in texts.items():
        wire = weir.wire()
        wire.send(packet)
        refused = wire.read_refusal()
        assert refused.text == text


@pytest.mark.parametrize("size", (1, 2, 3, 7))
def test_startup_in_pieces(weir, size):
    wire = weir.wire()
    wire.send_slowly(special(SSL_REQUEST), size)
    assert wire.take(1) == b"N"
    wire.send_slowly(startup(user="alice", database="app", application_name="slow"), size)
    assert wire.finish_login("alice").value("SHOW application_name") == "slow"


def test_a_large_startup_packet(weir):
    """Larger than pkt_buf, still within the 10004 bytes that are allowed."""
    wire = weir.wire()
    wire.login(application_name="x" * 50, options="-c work_mem=3MB" + " " * 9800)
    assert wire.value("SHOW work_mem") == "3MB"


def test_startup_and_query_in_one_packet(weir):
    wire = weir.wire()
    wire.send(startup(user="alice", database="app") + query("SELECT 'eager'"))
    wire.finish_login("alice")
    assert wire.read_result().rows == [["eager"]]


def test_the_database_is_the_users_name_if_not_given(pgweir):
    weir = pgweir(databases={"alice": "dbname=app2"})
    wire = weir.wire()
    wire.send(startup(user="alice"))
    assert wire.finish_login("alice").value("SELECT current_database()") == "app2"


def test_negotiation_comes_once_and_before_authentication(pgweir):
    weir = pgweir(auth_type="scram-sha-256", userlist=users(SECRET))
    wire = weir.wire()
    wire.send(startup(version=0x00030003, user="alice", database="app"))
    assert wire.read().type == "v"
    wire.finish_login("alice", SECRET)
    assert wire.value("SELECT 1") == "1"


# -- databases and limits at login ----------------------------------------------------------------


def test_unknown_database_is_told_after_the_password_only(pgweir):
    weir = pgweir(auth_type="md5", userlist=users(SECRET))
    refused = refusal(weir.address, database="nowhere", password=SECRET)
    assert (refused.sqlstate, refused.text) == ("3D000", "no such database: nowhere")
    refused = refusal(weir.address, database="nowhere", password="wrong")
    assert refused.sqlstate == "28P01"


def test_too_long_names(weir):
    refused = refusal(weir.address, user="u" * 200)
    assert refused.severity == "FATAL"
    refused = refusal(weir.address, database="d" * 200)
    assert refused.severity == "FATAL"


def test_log_of_logins(pgweir):
    weir = pgweir()
    weir.client()
    weir.wait_log(r"LOG C-0x[0-9a-f]+: app/alice@127\.0\.0\.1:\d+ login attempt: "
                  r"db=app user=alice tls=no replication=no")


def test_no_secret_in_the_log(pgweir):
    weir = pgweir(auth_type="plain", userlist=users(SECRET), verbose=3)
    weir.client(password=SECRET).query("SELECT 'text of a query'")
    refusal(weir.address, password="a wrong guess")
    weir.wait_log("pooler error: password authentication failed")
    for secret in (SECRET, "a wrong guess", "admin secret", "text of a query"):
        assert secret not in weir.log


def test_welcome(weir):
    client = weir.client(application_name="greeter")
    for name in ("server_version", "server_encoding", "client_encoding", "DateStyle", "TimeZone",
                 "IntervalStyle", "standard_conforming_strings", "integer_datetimes",
                 "application_name", "session_authorization", "is_superuser"):
        assert name in client.parameters
    assert client.parameters["application_name"] == "greeter"
    assert client.parameters["session_authorization"] == "alice"
    assert len(client.key) == 8 and not client.key[0] & 0x80


def test_keys_differ(weir):
    keys = {weir.client().key for _ in range(50)}
    assert len(keys) == 50


def test_login_notify_message(pgweir):
    weir = pgweir(login_notify_message="mind the weir")
    assert [said["M"] for said in weir.client().notices] == ["mind the weir"]


def test_logins_need_no_server_once_one_is_known(pgweir, postgres):
    weir = pgweir(pool_mode="transaction", default_pool_size=1)
    holder = weir.client()
    holder.query("BEGIN")
    for _ in range(5):
        weir.client()


def test_a_refused_login_leaves_nothing_behind(pgweir):
    weir = pgweir(auth_type="md5", userlist=users(SECRET))
    for _ in range(30):
        with pytest.raises(Refused):
            weir.wire().login(password="wrong")
    lists = {row["list"]: row["items"] for row in weir.admin("SHOW LISTS")}
    assert (lists["used_clients"], lists["login_clients"]) == (1, 0)
