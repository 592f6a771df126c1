# SPDX-License-Identifier: ISC
"""auth_type = pam and the HBA method pam: PAM modules check the password.

The service is a file in the daemon's directory, configured by its path; /etc/pam.d is not changed.
Its modules are pam_exec, with a script that has the passwords, and pam_permit.
"""

import glob
import os

import pytest

from .kit.outside import check_passwords, told
from .kit.wait import wait_until
from .kit.wire import cstr, message

FAILED = ("28000", "PAM authentication failed")

# Reads the input from pam_exec: the password, followed by a zero byte.
SCRIPT = """#!/bin/sh
password=$(tr -d '\\000')
echo "$PAM_TYPE $PAM_SERVICE $PAM_USER $PAM_RHOST" >>{dir}/asked
case "$PAM_TYPE:$PAM_USER:$password" in
auth:slow:*) read -r line <{dir}/gate ;;
esac
case "$PAM_TYPE:$PAM_USER:$password" in
"auth:alice:alice secret" | "auth:plain_user:plain secret") exit 0 ;;
"auth:md5_user:md5 secret" | "auth:scram_user:scram secret") exit 0 ;;
"auth:admin:admin secret" | "auth:bob:bob secret" | "auth:slow:slow secret") exit 0 ;;
account:bob:*) exit 1 ;;
account:*) exit 0 ;;
esac
exit 1
"""

SERVICE = """auth required pam_exec.so quiet expose_authtok {script}
account required pam_exec.so quiet {script}
"""


@pytest.fixture(autouse=True)
def built(make_pgweir):
    if not glob.glob("/usr/lib/*/security/pam_exec.so") + glob.glob("/*/security/pam_exec.so"):
        pytest.skip("there is no pam_exec.so")
    probe = make_pgweir(auth_type="pam")
    said = probe.run("--check", probe.ini)
    if "built without PAM" in said.stderr + said.stdout:
        pytest.skip("pgweir was built without PAM (configure --with-pam)")


@pytest.fixture
def make(make_pgweir):
    def configure(**settings):
        weir = make_pgweir()
        script = weir.account.write(f"{weir.dir}/judge", SCRIPT.format(dir=weir.dir), 0o755)
        weir.account.mkdir(f"{weir.dir}/pam.d")
        weir.service = f"{weir.dir}/pam.d/database"
        weir.account.write(weir.service, SERVICE.format(script=script))
        settings.setdefault("databases", {"app": "", "slow": "dbname=app user=alice"})
        settings.setdefault("auth_type", "pam")
        settings.setdefault("auth_pam_service", weir.service)
        return weir.configure(userlist={}, **settings)

    return configure


@pytest.fixture
def weir(make):
    return lambda **settings: make(**settings).start()


def asked(weir):
    with open(f"{weir.dir}/asked", encoding="utf-8") as file:
        return file.read().splitlines()


def ask(weir, user, password, database="slow"):
    wire = weir.wire()
    wire.startup(user, database)
    assert wire.read().type == "R"
    wire.send(message("p", cstr(password)))
    return wire


def test_passwords(weir):
    weir = weir()
    check_passwords(weir, FAILED)
    assert asked(weir)[:2] == ["auth database plain_user 127.0.0.1",
                               "account database plain_user 127.0.0.1"]


def test_an_account_that_is_closed(weir):
    weir = weir()
    assert told(weir, "bob", password="bob secret") == FAILED
    weir.wait_log("login refused, pam: PAM: ")
    assert "account database bob 127.0.0.1" in asked(weir)


def test_the_console(weir):
    weir = weir(verbose=3)
    assert weir.client("admin", "pgbouncer", password="admin secret").query("SHOW VERSION").rows
    assert told(weir, "admin", "pgbouncer", "a wrong one") == FAILED
    assert told(weir, "alice", "pgbouncer", "alice secret") == ("28000", "not allowed")
    assert "admin secret" not in weir.log and "a wrong one" not in weir.log


def test_a_service_that_is_not_there(make):
    weir = make(auth_pam_service="/nowhere/at/all")
    done = weir.run("--check", weir.ini)
    assert done.returncode == 1
    assert "cannot read the PAM service /nowhere/at/all: No such file" in done.stderr + done.stdout


def test_rules(make):
    weir = make()
    rules = f"host app alice all pam\nhost app bob all pam pamservice={weir.service}-other\n" \
            f"host pgbouncer all all pam pamservice={weir.service}\nhost all all all reject\n"
    weir.account.write(f"{weir.service}-other", "auth required pam_permit.so\n"
                                                "account required pam_permit.so\n")
    weir.account.write(f"{weir.dir}/hba.conf", rules)
    weir.configure(auth_type="hba", auth_hba_file=f"{weir.dir}/hba.conf").start()
    weir.client("alice", password="alice secret").value("SELECT 1")
    weir.client("bob", password="whatever").value("SELECT 1")
    assert told(weir, password="wrong") == FAILED
    assert told(weir, "bob", password="")[1] == "empty password returned by client"
    shown = weir.client("admin", "pgbouncer", password="admin secret").query("SHOW HBA").dicts()
    assert [row["auth_method"] for row in shown] == ["pam", "pam", "pam", "reject"]
    assert shown[1]["options"] == "{pamservice=%s-other}" % weir.service


def test_the_modules_hold_nobody_up(make):
    weir = make()
    os.mkfifo(f"{weir.dir}/gate")
    weir.account.own(f"{weir.dir}/gate", 0o600)
    weir.account.write(f"{weir.dir}/hba.conf", "host slow all all pam\nhost all all all trust\n")
    weir.configure(auth_type="hba", auth_hba_file=f"{weir.dir}/hba.conf",
                   userlist={"carol": "x", "admin": "admin secret"}).start()
    waiting = [ask(weir, "slow", "slow secret") for _ in range(8)]
    wait_until(lambda: os.path.exists(f"{weir.dir}/asked") and len(asked(weir)) == 4)
    assert weir.client("carol").value("SELECT 1") == "1"
    gone, waiting = waiting[4:], waiting[:4]
    for wire in gone:
        wire.close()
    wait_until(lambda: weir.log.count("client unexpected eof") == len(gone))
    with open(f"{weir.dir}/gate", "w", encoding="ascii") as gate:
        gate.write("go\n" * 4)
        gate.flush()
        for wire in waiting:
            wire.finish_login("slow")
            assert wire.value("SELECT current_user") == "alice"
    assert len([line for line in asked(weir) if line.startswith("auth")]) == 4


def test_the_login_time_counts(make):
    weir = make(client_login_timeout=1)
    os.mkfifo(f"{weir.dir}/gate")
    weir.account.own(f"{weir.dir}/gate", 0o600)
    weir.start()
    assert ask(weir, "slow", "slow secret").read_refusal().text == "client_login_timeout"
    weir.reload(client_login_timeout=60)
    # three threads remain, and the daemon ends although one still waits
    weir.client("alice", password="alice secret").value("SELECT 1")
    weir.signal(3)
    assert weir.wait_exit() == 0
    with open(f"{weir.dir}/gate", "w", encoding="ascii") as gate:
        gate.write("go\n")


def test_a_reload_changes_the_service(weir):
    weir = weir()
    weir.account.write(f"{weir.service}-2", "auth required pam_deny.so\n"
                                            "account required pam_deny.so\n")
    weir.client("alice", password="alice secret")
    console = weir.client("admin", "pgbouncer", password="admin secret")
    weir.configure(auth_pam_service=f"{weir.service}-2")
    assert not console.query("RELOAD").errors
    assert told(weir, password="alice secret") == FAILED
    assert console.query("SET auth_pam_service = 'a/b'").errors
    weir.wait_log("auth_pam_service: the PAM service a/b is neither a name nor an absolute path")
    assert not console.query(f"SET auth_pam_service = '{weir.service}'").errors
    weir.client("alice", password="alice secret").value("SELECT 1")
