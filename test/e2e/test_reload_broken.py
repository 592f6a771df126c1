# SPDX-License-Identifier: ISC
"""Invalid files of many kinds: a RELOAD with one changes nothing, and reports the location."""

import os

import pytest

from .kit.daemon import USERS
from .kit.wire import query

# Text appended to the valid configuration file, and the resulting log line.
# {dir} is the daemon's directory, {ini} its file; {line} is the line at which `more` begins.
LINES = {
    "unknown setting": ("defualt_pool_size = 3", "{ini}:{line}: .*defualt_pool_size"),
    "bad unit": ("query_timeout = 5 parsecs", "{ini}:{line}: .*query_timeout"),
    "bad number": ("default_pool_size = many", "{ini}:{line}: .*default_pool_size"),
    "number too large": ("listen_port = 99999", "{ini}:{line}: .*listen_port"),
    "bad word": ("pool_mode = sometimes", "{ini}:{line}: .*pool_mode"),
    "unclosed quote": ("[databases]\nquoted = host='a", "{ini}:.*quoted"),
    "no equals sign": ("default_pool_size", "{ini}:{line}: "),
    "unclosed section": ("[pgbouncer", "{ini}:{line}: "),
    "unknown section": ("[nonsense]\na = b", "{ini}:{line}: .*nonsense"),
    "missing include": ("%include {dir}/nowhere.ini", "{dir}/nowhere.ini"),
    "include loop": ("%include {ini}", "{ini}"),
    "directory as include": ("%include {dir}", "{dir}"),
    "unreadable include": ("%include {dir}/unreadable", "{dir}/unreadable"),
    "bad line in an include": ("%include {dir}/included", "{dir}/included:2: .*nonsense"),
    "binary junk": ("\x01\x02\x7f\x1b junk", "{ini}:{line}: "),
    "bad host list": ("[databases]\nlisted = host=a,,b", "{ini}:"),
    "bad port": ("[databases]\nported = port=99999", "{ini}:"),
    "unknown key of a database": ("[databases]\nkeyed = hsot=a", "{ini}:.*hsot"),
    "reserved database": ("[databases]\npgbouncer = host=a", "{ini}:.*pgbouncer"),
    "unknown key of a user": ("[users]\nalice = pool_sze=1", "{ini}:.*pool_sze"),
    "bad peer": ("[peers]\nx = host=a", "{ini}:.*x"),
    "bad list of users": ("auth_file = {dir}/users", "{dir}/users:2"),
    "list of users that is not there": ("auth_file = {dir}/nowhere", "{dir}/nowhere"),
    "directory as list of users": ("auth_file = {dir}", "{dir}"),
    "bad rule": ("auth_type = hba\nauth_hba_file = {dir}/hba", "{dir}/hba:2"),
    "rules that are not there": ("auth_type = hba\nauth_hba_file = {dir}/nowhere", "{dir}/nowhere"),
    "bad certificate": ("client_tls_sslmode = require\nclient_tls_cert_file = {dir}/junk\n"
                        "client_tls_key_file = {dir}/junk", r"{ini}:\d+: .*client_tls_.*{dir}/junk"),
    "certificate that is not there": ("server_tls_sslmode = verify-ca\n"
                                      "server_tls_ca_file = {dir}/nowhere", r"{ini}:\d+: .*{dir}/nowhere"),
    "bad range of proxies": ("proxy_protocol = accept\nproxy_protocol_from = 10.0.0.0/99",
                             r"{ini}:\d+: .*proxy_protocol_from"),
    "log that cannot be opened": ("logfile = {dir}/nowhere/log", "{dir}/nowhere/log"),
}

FILES = {
    "unreadable": "a = b\n", "included": "[pgbouncer]\nnonsense = 1\n",
    "users": '"alice" "secret"\n"half\n', "junk": "-----BEGIN CERTIFICATE-----\njunk\n",
    "hba": "host all all 127.0.0.1/32 trust\nhost all all 127.0.0.1/33 trust\n",
}

# What replaces the configuration file.
WHOLE = {
    "empty file": "", "no file": None, "no settings": "[databases]\n", "binary file": "\x7fELF\x02\x01\n",
}


def seen(weir):
    """Everything that a reload could have changed."""
    counts = {"current_connections", "current_client_connections"}
    databases = [{name: value for name, value in row.items() if name not in counts}
                 for row in weir.admin("SHOW DATABASES")]
    return weir.admin("SHOW CONFIG"), databases, weir.admin("SHOW PEERS")


@pytest.fixture
def weir(same_pgweir):
    weir = same_pgweir(pool_mode="transaction", default_pool_size=5, query_wait_timeout=77)
    yield weir
    weir.reload()


def break_and_look(weir, pattern):
    """Reloads the current files during a transaction and a running statement."""
    inside, busy = weir.client(), weir.client()
    pid = inside.query("BEGIN") and inside.value("SELECT pg_backend_pid()")
    busy.send(query("SELECT pg_sleep(0.05), 'served'"))
    mark = len(weir.log)
    answer = weir.ask_admin("RELOAD")
    assert answer.error and answer.error["C"] == "F0000", answer
    assert answer.notices, "RELOAD does not say why"
    weir.wait_log(pattern, since=mark)
    assert inside.value("SELECT pg_backend_pid()") == pid
    assert inside.query("COMMIT").tags == ["COMMIT"]
    assert busy.read_result().rows == [["", "served"]]
    assert weir.client().value("SELECT 1") == "1"


@pytest.mark.parametrize("kind", LINES)
def test_a_broken_line(weir, account, kind):
    more, pattern = LINES[kind]
    for name, text in FILES.items():
        account.write(f"{weir.dir}/{name}", text, 0o600)
    if kind == "unreadable include":
        if account.is_other:
            os.chown(f"{weir.dir}/unreadable", 0, 0)
        else:
            os.chmod(f"{weir.dir}/unreadable", 0)
    before = seen(weir)
    good = weir.text()
    names = {"dir": weir.dir, "ini": weir.ini, "line": good.count("\n") + 1}
    weir.configure(ini=good + more.format(**names) + "\n")
    break_and_look(weir, pattern.format(**names))
    assert seen(weir) == before


@pytest.mark.parametrize("kind", WHOLE)
def test_a_broken_file(weir, kind):
    before = seen(weir)
    if WHOLE[kind] is None:
        os.remove(weir.ini)
    else:
        weir.configure(ini=WHOLE[kind])
    break_and_look(weir, weir.ini)
    assert seen(weir) == before


def test_old_secrets_count_after_a_failed_reload(pgweir, account):
    """If one of two files is invalid, neither is applied."""
    weir = pgweir(auth_type="plain", pool_mode="transaction")
    before = seen(weir)
    account.write(weir.userlist, '"alice" "another secret"\n"admin" "x"\n', 0o600)
    weir.account.write(weir.ini, weir.text() + "nonsense = 1\n")
    assert weir.ask_admin("RELOAD").error["C"] == "F0000"
    assert weir.client(password=USERS["alice"]).value("SELECT 1") == "1"
    assert seen(weir) == before
