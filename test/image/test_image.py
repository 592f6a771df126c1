# SPDX-License-Identifier: ISC
"""The image as operators start it."""

import os
import signal
import subprocess

import psycopg
import pytest

from e2e.kit.account import free_port
from e2e.kit.image import container, root  # noqa: F401


USERS = {"CloudNativePG": (998, 996), "Zalando": (100, 101), "the image's": (70, 70), "Airflow": (65534, 65534), "Bitnami": (1001, 0),
         "OpenShift, without a passwd entry": (1000660000, 0)}


@pytest.mark.parametrize("who", USERS)
def test_any_user_on_a_read_only_root(container, root, postgres, who):
    port = free_port()
    made = container(USERS[who], "/entrypoint", "pgbouncer", DB_HOST="127.0.0.1",
                     DB_PORT=postgres.port, DB_USER="alice", DB_PASSWORD="alice secret",
                     AUTH_TYPE="trust", LISTEN_ADDR="127.0.0.1", LISTEN_PORT=port,
                     UNIX_SOCKET_DIR="/tmp", ADMIN_USERS="alice")
    made.wait_log("process up")
    with psycopg.connect(host="127.0.0.1", port=port, user="alice", dbname="app") as client:
        assert client.execute("SELECT current_database()").fetchone() == ("app",)
    with open(f"/proc/{made.pid()}/status", encoding="ascii") as file:
        facts = dict(line.rstrip("\n").split(":\t", 1) for line in file)
    assert facts["Name"] == "pgbouncer"
    assert facts["Uid"].split() == [str(USERS[who][0])] * 4
    assert {facts[f"Cap{kind}"] for kind in ("Inh", "Prm", "Eff", "Bnd")} == {"0" * 16}
    # What is run beside it: psql over the socket as the process's own user, and pkill.
    asked = made.run("psql", "-XAt", "-h", "/tmp", "-p", str(port), "-U", "pgbouncer",
                     "-c", "SHOW VERSION", "pgbouncer")
    assert asked.stdout.startswith("PgBouncer 1."), asked.stderr
    assert made.run("pgweir", "--ready", f"/tmp/.s.PGSQL.{port}").returncode == 0
    assert made.run("pkill", "-HUP", "--exact", "pgbouncer").returncode == 0
    made.wait_log("got SIGHUP, re-reading config")
    os.kill(made.pid(), signal.SIGTERM)
    assert made.finish() == 0, made.log


def test_nothing_can_be_written(container):
    made = container((998, 996), "/entrypoint", tmp=False, DB_HOST="db")
    # /dev/shm of the image is a directory of its root here.
    assert made.finish() == 1
    assert "no place for the configuration" in made.log


@pytest.mark.parametrize("name", ("/usr/bin/pgbouncer", "/bin/pgbouncer", "pgbouncer", "pgweir",
                                  "/opt/bitnami/pgbouncer/bin/pgbouncer"))
def test_names(container, name):
    made = container((998, 996), name, "--version")
    assert made.finish() == 0
    first = "PgBouncer 1." if name.endswith("pgbouncer") else "pgweir "
    assert made.log.startswith(first)


def test_programs_that_operators_run(container):
    for command in (("sh", "-c", 'exec "$@"', "--", "stat", "--format=%Y", "/etc/passwd"),
                    ("bash", "-c", "[[ a == a ]]"), ("pkill", "--version"), ("pgrep", "--version"),
                    ("killall", "--version"), ("psql", "--version"), ("pg_isready", "--version"), ("openssl", "version")):
        made = container((998, 996), *command)
        assert made.finish() == 0, (command, made.log)


def test_nothing_gains_rights(root):
    found = subprocess.run(["find", root, "-xdev", "-perm", "/6000", "-type", "f"],
                           capture_output=True, text=True, check=True)
    assert found.stdout == ""
