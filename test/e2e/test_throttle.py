# SPDX-License-Identifier: ISC
"""The login throttle: delayed errors of failed logins, their number, what an unauthenticated client
can learn about existing users, and the time limit of a login."""

import pytest

from .kit.wait import wait_until
from .kit.wire import (GSSENC_REQUEST, SSL_REQUEST, Scram, cstr, md5_secret, message, refusal,
                       sasl_initial, scram_secret, special, startup)
from .test_auth_query import Gate

SECRET = "correct horse"
TOO_MANY = "too many failed logins from this address, try again later"


def password(text):
    return message("p", cstr(text))


@pytest.fixture
def weir(pgweir):
    def start(**settings):
        settings.setdefault("auth_type", "plain")
        daemon = pgweir(databases={"app": "user=alice password=x"},
                        userlist={"alice": SECRET, "admin": "admin secret"}, **settings)
        daemon.console_address = daemon.socket_path
        return daemon
    return start


def logins(daemon):
    return [row["items"] for row in daemon.admin("SHOW LISTS") if row["list"] == "login_clients"][0]


def asked(daemon, user="alice", unix=False):
    """A client that has received the password request."""
    client = daemon.wire(unix).startup(user)
    client.expect("R")
    return client


def guess(daemon, text="wrong", **kw):
    client = asked(daemon, **kw)
    client.send(password(text))
    return client


# -- delayed errors -------------------------------------------------------------------------------


def test_told_late(weir):
    daemon = weir(auth_failure_delay="0.5", max_client_conn=2)
    failed = []
    for count in range(1, 4):
        failed.append(guess(daemon))
        wait_until(lambda: daemon.log.count("login refused, plain: wrong password") == count)
    # Other clients are served, and delayed clients do not count towards limits.
    assert daemon.client(password=SECRET).value("SELECT 1") == "1"
    for client in failed:
        got = client.read_refusal()
        assert (got.sqlstate, got.text) == ("28P01", "password authentication failed")
    assert logins(daemon) == 0


def test_it_waits(weir):
    daemon = weir(auth_failure_delay=900)
    gone, failed = guess(daemon), guess(daemon)
    failed.send(password("another"), b"x" * 1000)
    wait_until(lambda: logins(daemon) == 2)
    gone.close()
    wait_until(lambda: logins(daemon) == 1)
    assert not failed.is_closed()
    daemon.admin("SET auth_failure_delay = 0")
    assert guess(daemon).read_refusal().sqlstate == "28P01"
    assert not failed.is_closed()


def test_it_waits_within_the_time_of_a_login(weir):
    daemon = weir(auth_failure_delay=900, client_login_timeout=1)
    assert guess(daemon).read_refusal().sqlstate == "28P01"


def test_rules_that_refuse_wait_too(make_pgweir):
    daemon = make_pgweir()
    path = daemon.account.write(f"{daemon.dir}/hba.conf", "local all all trust\n")
    daemon.configure(auth_type="hba", auth_hba_file=path, auth_failure_delay=900).start()
    daemon.console_address = daemon.socket_path
    daemon.wire().startup()
    wait_until(lambda: logins(daemon) == 1)


@pytest.mark.one_loop("so many wait in each loop")
def test_a_bounded_number_waits(weir):
    daemon = weir(auth_failure_delay=900, max_client_conn=0)
    first = guess(daemon)
    wait_until(lambda: logins(daemon) == 1)
    others = [guess(daemon) for _ in range(256)]
    assert first.read_refusal().sqlstate == "28P01"
    wait_until(lambda: logins(daemon) == 256)
    assert not others[0].is_closed()
    assert guess(daemon) and others[0].read_refusal().sqlstate == "28P01"
    daemon.wait_log("WARNING more than 256 failed logins wait for auth_failure_delay")
    assert daemon.log.count("more than 256 failed logins") == 1  # two got the error early


# -- auth_failure_limit ---------------------------------------------------------------------------


def test_a_few_of_one_address(weir):
    daemon = weir(auth_failure_delay=900, auth_failure_limit=2)
    early_right, early_wrong = asked(daemon), asked(daemon)
    failed = [guess(daemon), guess(daemon)]
    wait_until(lambda: daemon.log.count("login refused") == 2)
    late = refusal(daemon.address, password=SECRET)
    assert (late.sqlstate, late.text) == ("53300", TOO_MANY)
    # A client already in its login learns nothing either, with a correct or wrong password.
    early_right.send(password(SECRET))
    early_wrong.send(password("wrong"))
    assert early_right.read_refusal().text == early_wrong.read_refusal().text == TOO_MANY
    assert [row["text"] for row in daemon.admin("SHOW EVENTS") if row["kind"] == "limit"] == [
        "auth_failure_limit = 2 is reached by failed logins of one address"]
    assert daemon.wire(unix=True).login(password=SECRET).value("SELECT 1") == "1"
    failed[0].close()
    wait_until(lambda: logins(daemon) == 1)
    assert daemon.client(password=SECRET).value("SELECT 1") == "1"


def test_a_right_scram_proof_is_not_confirmed_past_the_limit(weir):
    daemon = weir(auth_failure_delay=900, auth_failure_limit=1, auth_type="scram-sha-256")
    client = asked(daemon)
    scram = Scram(SECRET)
    client.send(sasl_initial(scram.first()))
    first = client.expect("R").body[4:]
    other = asked(daemon)
    wrong = Scram("wrong")
    other.send(sasl_initial(wrong.first()))
    other.send(message("p", wrong.final(other.expect("R").body[4:])))
    wait_until(lambda: "login refused" in daemon.log)
    client.send(message("p", scram.final(first)))
    assert [got.type for got in client.read_to_end()] == ["E"]


def test_addresses_are_told_apart_behind_a_proxy(weir):
    daemon = weir(auth_failure_delay=900, auth_failure_limit=1, proxy_protocol="require",
                  proxy_protocol_from="127.0.0.1")

    def come(source, text):
        client = daemon.wire()
        family, target = ("TCP6", "::1") if ":" in source else ("TCP4", "192.0.2.1")
        client.send(f"PROXY {family} {source} {target} 1 2\r\n".encode(),
                    startup(user="alice", database="app"))
        if text is None:
            return client.read_refusal().text
        client.expect("R")
        client.send(password(text))
        return client

    come("192.0.2.7", "wrong")
    come("2001:db8::1", "wrong")
    wait_until(lambda: logins(daemon) == 2)
    assert come("192.0.2.7", None) == TOO_MANY
    assert come("2001:db8::ffff:1", None) == TOO_MANY  # the same network
    come("192.0.2.8", SECRET).finish_login("alice")
    come("2001:db8:0:1::1", SECRET).finish_login("alice")


# -- existing and unknown users -------------------------------------------------------------------

SECRETS = {"plain": lambda user: SECRET, "md5": lambda user: md5_secret(user, SECRET),
           "scram": lambda user: scram_secret(SECRET, b"salt of 18 bytes..", 5000)}


def shape(daemon, user):
    """The complete response to a wrong password, without random parts."""
    client, said = daemon.wire().startup(user), []
    scram = Scram("wrong")
    for got in iter(client.read, None):
        if got.type == "E":
            return said + [got.fields]
        code = int.from_bytes(got.body[:4], "big")
        said.append((got.type, code, len(got.body)))
        if code in (3, 5):
            client.send(password("wrong" if code == 3 else "md5" + 32 * "0"))
        elif code == 10:
            client.send(sasl_initial(scram.first()))
        else:
            final = scram.final(got.body[4:])
            said.append((scram.iterations, len(scram.salt)))
            client.send(message("p", final))


@pytest.mark.parametrize("kind", SECRETS)
@pytest.mark.parametrize("auth_type", ("plain", "md5", "scram-sha-256"))
def test_unknown_users_look_like_existing_ones(pgweir, auth_type, kind):
    users = {name: SECRETS[kind](name) for name in ("alice", "bob")}
    daemon = pgweir(auth_type=auth_type, userlist={**users, "nosecret": ""})
    known = shape(daemon, "alice")
    assert known == shape(daemon, "bob")
    for user in ("mallory", "nosecret", "x" * 63):
        assert shape(daemon, user) == known == shape(daemon, user)


@pytest.mark.parametrize("kind", SECRETS)
@pytest.mark.parametrize("auth_type", ("plain", "scram-sha-256"))
def test_the_same_work_is_done_for_unknown_users(pgweir, auth_type, kind):
    """A login that derives keys waits in state looking: for each attempt whose secret needs it."""
    daemon = pgweir(auth_type=auth_type, verbose=2,
                    userlist={name: SECRETS[kind](name) for name in ("alice", "bob")})

    def derivations(user):
        since = len(daemon.log)
        shape(daemon, user)
        daemon.wait_log(f"{user}@.*closing because", since=since)
        return daemon.log[since:].count("authentication -> looking")

    if (auth_type, kind) != ("scram-sha-256", "md5"):
        daemon.client("bob", password=SECRET)  # a user whose keys are cached
    works = (auth_type, kind) in (("scram-sha-256", "plain"), ("plain", "scram"),
                                  ("scram-sha-256", "md5"))
    for user in ("alice", "bob", "mallory"):
        assert [derivations(user) for _ in range(3)] == 3 * [int(works)], user


@pytest.mark.parametrize("kind", SECRETS)
@pytest.mark.parametrize("auth_type", ("plain", "md5", "scram-sha-256"))
def test_auth_query_does_not_reveal_existing_users(make_pgweir, postgres, auth_type, kind):
    """Unknown users get the same exchange as users from auth_query, for any secrets in auth_file.
    """
    gate = Gate(make_pgweir, postgres)
    for name in ("alice", "bob"):
        gate.add(name, SECRETS[kind](name))
    gate.add("nosecret", None)
    daemon = gate.start(auth_type=auth_type, verbose=2)

    def look(user):
        since = len(daemon.log)
        said = shape(daemon, user)
        daemon.wait_log(f"{user}@.*closing because", since=since)
        return said, daemon.log[since:].count("authentication -> looking")

    known = look("alice")
    for user in ("bob", "mallory", "nosecret", "alice", "mallory"):
        assert look(user) == known, user


def test_a_successful_login_is_spared_the_work(pgweir):
    """A failed attempt does not remove its cached keys."""
    daemon = pgweir(auth_type="scram-sha-256", userlist={"alice": SECRET}, verbose=2)
    daemon.client(password=SECRET)
    assert refusal(daemon.address, password="wrong").sqlstate == "28P01"
    since = len(daemon.log)
    daemon.client(password=SECRET)
    assert "authentication -> looking" not in daemon.log[since:]


# -- the time of a login --------------------------------------------------------------------------


def test_the_time_of_a_login_does_not_begin_again(weir):
    """Whatever comes before the startup packet; all of them wait at the same time."""
    daemon = weir(client_login_timeout=5, stats_period=1, log_stats=1, proxy_protocol="accept",
                  proxy_protocol_from="127.0.0.1", tcp_defer_accept=0)
    cases = [(daemon.wire(), header, codes)
             for header in (b"", b"PROXY TCP4 192.0.2.7 192.0.2.1 1 2\r\n")
             for codes in ((SSL_REQUEST,), (GSSENC_REQUEST,), (GSSENC_REQUEST, SSL_REQUEST))]
    wait_until(lambda: logins(daemon) == len(cases))
    for _ in range(2):  # takes more than a second
        daemon.wait_log("stats: ", since=len(daemon.log))
    young = daemon.wire()
    wait_until(lambda: logins(daemon) == len(cases) + 1)
    for old, header, codes in cases:
        old.send(header)
        for code in codes:
            old.send(special(code))
            assert old.take(1) == b"N"
        old.send(startup(user="alice", database="app"))
        old.expect("R")
    for old, header, codes in cases:
        assert old.read_refusal().text == "client_login_timeout", (header, codes)
    assert not young.is_closed()
