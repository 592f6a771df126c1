# SPDX-License-Identifier: ISC
"""Secrets do not remain in memory, do not appear in the log, and are not shown.

The test reads the complete memory of the daemon after logins, as an attacker would.
"""

import array
import os
import re
import ssl

import pytest

from .kit.wait import wait_until
from .kit.wire import SSL_REQUEST, Refused, cstr, message, refusal, scram_secret, special

TYPED = "Tell-nobody-4f1c9b"
WRONG = "Wrong-guess-77aa01"
CONFIGURED = "In-the-file-90be22"


PAGE = os.sysconf("SC_PAGE_SIZE")
IN_USE = 3 << 62  # in memory, or swapped out


def runs_in_use(pagemap, first, last):
    """The resident parts of a region: (from, size). Most regions of a sanitizer have none."""
    pagemap.seek(first // PAGE * 8)
    flags = array.array("Q", pagemap.read((last - first) // PAGE * 8))
    at = 0
    while at < len(flags):
        begin = at
        while at < len(flags) and flags[at] & IN_USE:
            at += 1
        if at > begin:
            yield first + begin * PAGE, (at - begin) * PAGE
        at += 1


def memory_of(daemon):
    """Yields the memory of the daemon, piece by piece."""
    place = f"/proc/{daemon.process.pid}"
    try:
        mem, pagemap = open(f"{place}/mem", "rb", 0), open(f"{place}/pagemap", "rb", 0)
    except PermissionError:
        pytest.skip("the memory of other processes cannot be read here")
    with mem, pagemap, open(f"{place}/maps", encoding="ascii") as maps:
        for line in maps:
            bounds, rights = line.split()[:2]
            first, last = (int(at, 16) for at in bounds.split("-"))
            if "rw" not in rights or last - first > 1 << 34:  # a sanitizer's shadow
                continue
            for begin, size in runs_in_use(pagemap, first, last):
                try:
                    mem.seek(begin)
                    yield mem.read(size)
                except OSError:  # unmapped since
                    continue


def places(daemon, text):
    count = 0
    for region in memory_of(daemon):
        at = region.find(text.encode())
        while at >= 0:
            count += 1
            at = region.find(text.encode(), at + 1)
    return count


def is_clean(daemon, *texts):
    """Helper threads may still be working: waits for them, then nothing must be found."""
    for text in texts:
        wait_until(lambda: places(daemon, text) == 0, what=f"{text} to go from memory")


def type_in(daemon, text, pieces=False):
    client = daemon.wire().startup()
    client.expect("R")
    say = message("p", cstr(text))
    if pieces:
        client.send_slowly(say, 7)
    else:
        client.send(say)
    return client


@pytest.fixture
def weir(pgweir):
    """Clients send clear-text passwords; server logins use the password of another user."""
    def start(secret, **settings):
        return pgweir(databases={"app": "user=bob password=x"}, auth_type="plain",
                      userlist={"alice": secret, "admin": "admin secret"}, **settings)
    return start


def test_the_search_finds_what_is_there(weir):
    daemon = weir(CONFIGURED)
    assert places(daemon, CONFIGURED) >= 1
    assert places(daemon, TYPED) == 0


@pytest.mark.parametrize("pieces", (False, True))
def test_typed_passwords_go(weir, pieces):
    daemon = weir(scram_secret(TYPED))
    for _ in range(3):
        assert type_in(daemon, TYPED, pieces).finish_login("alice").value("SELECT 1") == "1"
        assert type_in(daemon, WRONG, pieces).read_refusal().sqlstate == "28P01"
    # together with the startup packet, and while a key is derived
    client = daemon.wire().startup()
    client.send(message("p", cstr(WRONG)), message("p", cstr(TYPED)))
    client.read_refusal()
    assert refusal(daemon.address, "mallory", password=WRONG).sqlstate == "28P01"
    is_clean(daemon, TYPED, WRONG)


def test_long_and_unfinished_passwords_go(weir):
    daemon = weir(scram_secret(TYPED))
    client = daemon.wire().startup()
    client.expect("R")
    say = message("p", cstr(TYPED + "x" * 60000 + WRONG))
    for at in range(0, len(say), 9000):
        client.send(say[at:at + 9000])
    assert client.read_refusal().sqlstate == "28P01"
    half = daemon.wire().startup()
    half.expect("R")
    half.send(message("p", cstr(TYPED))[:-1])
    wait_until(lambda: places(daemon, TYPED) > 0)
    half.close()
    is_clean(daemon, TYPED, WRONG)


def test_delayed_ones_keep_nothing(weir):
    daemon = weir(scram_secret(TYPED), auth_failure_delay=900)
    type_in(daemon, WRONG)
    daemon.wait_log("login refused")
    is_clean(daemon, WRONG)


def test_a_pool_takes_along_what_was_shown_to_it(pgweir):
    """A password for server logins is erased together with its pool."""
    daemon = pgweir(auth_type="plain", pool_idle_timeout="0.1", server_idle_timeout="0.1",
                    userlist={"alice": scram_secret(TYPED), "admin": "admin secret"})
    client = daemon.client(password=TYPED)
    assert client.value("SELECT 1") == "1"
    assert places(daemon, TYPED) >= 1
    client.close()
    is_clean(daemon, TYPED)


def test_passwords_under_tls_go(weir, own):
    daemon = weir(scram_secret(TYPED), client_tls_sslmode="prefer", client_tls_cert_file=own.cert,
                  client_tls_key_file=own.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    for text in (TYPED, WRONG):
        client = daemon.wire()
        client.send(special(SSL_REQUEST))
        assert client.take(1) == b"S"
        client.sock = context.wrap_socket(client.sock)
        try:
            client.login(password=text)
        except Refused:
            assert text == WRONG
    is_clean(daemon, TYPED, WRONG)


def test_old_secrets_of_the_file_go(weir):
    daemon = weir(CONFIGURED)
    assert daemon.client(password=CONFIGURED).value("SELECT 1") == "1"
    daemon.disconnect()
    daemon.reload(userlist={"alice": "another one", "admin": "admin secret"})
    is_clean(daemon, CONFIGURED)


def test_nothing_is_told(weir):
    daemon = weir(CONFIGURED, verbose=2)
    daemon.reload(databases={"app": f"user=bob password={CONFIGURED}"})
    type_in(daemon, CONFIGURED).finish_login("alice").query("SELECT 1")
    type_in(daemon, WRONG).read_refusal()
    for show in ("CONFIG", "DATABASES", "USERS", "CLIENTS", "SERVERS", "POOLS", "SOCKETS"):
        assert CONFIGURED not in str(daemon.admin(f"SHOW {show}"))
    assert CONFIGURED not in daemon.log and WRONG not in daemon.log


def test_memory_is_closed(make_pgweir):
    """Only for normal builds: a sanitizer must be able to inspect its own process."""
    daemon = make_pgweir().start()
    with open(daemon.binary, "rb") as file:
        if re.search(rb"__[at]san_init", file.read()):
            pytest.skip("a build with sanitizers")
    assert os.stat(f"/proc/{daemon.process.pid}/mem").st_uid == 0
    other = make_pgweir(core_dumps=1).start()
    assert os.stat(f"/proc/{other.process.pid}/mem").st_uid == other.account.uid
