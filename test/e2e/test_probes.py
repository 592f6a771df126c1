# SPDX-License-Identifier: ISC
"""USDT probes (--enable-probes): which there are, and that they have the right arguments."""

import os
import pathlib
import re
import shutil
import signal
import subprocess

import pytest

from .kit.daemon import find_binary
from .kit.wait import wait_until
from .kit.wire import Refused, query

PAGE = pathlib.Path(__file__).parents[2] / "doc" / "probes.md"

# Their arguments: u, d: numbers, s: a text.
PROBES = {
    "client__login": "ussd",
    "statement__start": "uss",
    "statement__end": "ussdddu",
    "server__lent": "ussd",
    "server__returned": "ussdd",
    "wait": "ussd",
    "error": "usssd",
}
NOTES = subprocess.run(("readelf", "-n", find_binary()), capture_output=True, text=True, timeout=60).stdout
HAS_PROBES = "stapsdt" in NOTES

with_probes = pytest.mark.skipif(not HAS_PROBES, reason="built without --enable-probes: ./test/run probes builds one")


@pytest.mark.skipif(HAS_PROBES, reason="built with --enable-probes")
def test_there_are_none_by_default():
    sections = subprocess.run(("readelf", "-S", find_binary()), capture_output=True, text=True, timeout=60)
    assert ".text" in sections.stdout and "stapsdt" not in sections.stdout
    assert "Build ID" in NOTES


def arguments_of(note):
    return re.search(r"Arguments:(.*)", note).group(1).split()


@with_probes
def test_each_has_its_arguments():
    found = {}
    for note in NOTES.split("NT_STAPSDT")[1:]:
        assert "Provider: pgweir\n" in note
        found.setdefault(re.search(r"Name: (\w+)", note).group(1), []).append(arguments_of(note))
    assert {name: {len(each) for each in notes} for name, notes in found.items()} == {
        name: {len(kinds)} for name, kinds in PROBES.items()}


@with_probes
def test_the_page_has_each():
    rows = re.findall(r"^\| `(\w+)` \| [^|]+ \| ([^|]+) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert {name for name, _ in rows} == set(PROBES)
    for name, arguments in rows:
        assert arguments.count(",") + 1 == len(PROBES[name]), name


# -- gdb -------------------------------------------------------------------------------------------


def gdb_script(path):
    lines = ["set pagination off", "set confirm off", "set print thread-events off"]
    for name, kinds in PROBES.items():
        form = " ".join({"u": "%lu", "d": "%ld", "s": "%s"}[kind] for kind in kinds)
        given = ", ".join((f"(char *)$_probe_arg{n}" if kind == "s" else f"(long)$_probe_arg{n}")
                          for n, kind in enumerate(kinds))
        lines += [f"break -probe-stap pgweir:{name}", "commands", "silent",
                  f'printf "probe {name} {form}\\n", {given}', "continue", "end"]
    path.write_text("\n".join([*lines, 'printf "all are set\\n"', "continue", ""]))
    return str(path)


class Gdb:
    def __init__(self, weir, folder):
        self.path = folder / "gdb.log"
        with open(self.path, "w", encoding="utf-8") as out:
            self.process = subprocess.Popen(
                ("stdbuf", "-oL", "gdb", "-q", "-nx", "-batch", "-p", str(weir.pid), "-x", gdb_script(folder / "script")),
                stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                env=os.environ | {"DEBUGINFOD_URLS": ""})
        wait_until(lambda: "all are set" in self.text() or self.process.poll() is not None, what="gdb")
        if "ptrace: Operation not permitted" in self.text():
            pytest.skip("this system lets nobody trace a process")

    def text(self):
        return self.path.read_text(encoding="utf-8", errors="replace")

    def seen(self, name):
        return [line.split()[2:] for line in self.text().splitlines() if line.startswith(f"probe {name} ")]

    def end(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait(30)


@pytest.fixture
def look(tmp_path):
    if not shutil.which("gdb"):
        pytest.skip("there is no gdb")
    looking = []

    def start(weir):
        looking.append(Gdb(weir, tmp_path))
        return looking[-1]

    yield start
    for gdb in looking:
        gdb.end()


@with_probes
@pytest.mark.one_loop("the second client must wait for the first one's server")
def test_a_client_is_seen(pgweir, look):
    weir = pgweir(pool_mode="transaction", default_pool_size=1, track_statements=10)
    weir.client().close()
    gdb = look(weir)
    client, other = weir.client(), weir.client()
    (first, second) = [row["id"] for row in weir.admin("SHOW CLIENTS") if row["database"] == "app"]
    wait_until(lambda: len(gdb.seen("client__login")) == 2)
    assert [row[:3] for row in gdb.seen("client__login")] == [[str(first), "app", "alice"],
                                                             [str(second), "app", "alice"]]
    client.query("BEGIN")
    pid = client.value("SELECT pg_backend_pid()")
    other.send(query("SELECT 42"))
    wait_until(lambda: [row["id"] for row in weir.admin("SHOW WAITING")] == [second])
    assert client.query("SELECT no_column").error["C"] == "42703"
    client.query("ROLLBACK")
    assert other.read_result().rows == [["42"]]
    with pytest.raises(Refused):
        weir.client(database="nothing")

    who = [str(first), "app", "alice"]
    wait_until(lambda: len(gdb.seen("error")) == 2)
    ends = gdb.seen("statement__end")
    assert [row[:4] for row in ends] == 4 * [[*who, pid]] + [[str(second), "app", "alice", pid]]
    assert [row[:3] for row in gdb.seen("statement__start")] == [
        who, who, [str(second), "app", "alice"], who, who]
    assert all(int(row[4]) > 0 for row in ends)
    assert [int(row[5]) > 0 for row in ends] == [False] * 4 + [True]
    digests = {row["digest"]: row["query"] for row in weir.admin("SHOW STATEMENTS")}
    assert [digests[f"{int(row[6]):016x}"] for row in ends] == [
        "BEGIN", "SELECT pg_backend_pid()", "SELECT no_column", "ROLLBACK", "SELECT $1"]
    assert [row[:4] for row in gdb.seen("server__lent")] == [[*who, pid], [str(second), "app", "alice", pid]]
    returned = gdb.seen("server__returned")
    assert [row[:4] for row in returned] == [[*who, pid], [str(second), "app", "alice", pid]]
    assert all(int(row[4]) > 0 for row in returned)
    (wait,) = gdb.seen("wait")
    assert wait[:3] == [str(second), "app", "alice"] and int(wait[3]) == int(ends[4][5])
    ours, theirs = sorted(gdb.seen("error"), key=lambda row: row[3])
    assert (ours[1:], theirs) == (["nothing", "alice", "3D000", "1"], [*who, "42703", "0"])


@with_probes
def test_a_lost_server_is_seen(pgweir, look, postgres):
    weir = pgweir(pool_mode="transaction")
    client = weir.client()
    client.query("BEGIN")
    pid = client.value("SELECT pg_backend_pid()")
    other = weir.client()
    other.query("BEGIN")
    other_pid = other.value("SELECT pg_backend_pid()")
    gdb = look(weir)
    other.close()
    wait_until(lambda: gdb.seen("server__returned"))
    assert gdb.seen("server__returned")[0][1:4] == ["app", "alice", other_pid]
    postgres.query(f"SELECT pg_terminate_backend({pid})")
    client.read_refusal()
    wait_until(lambda: len(gdb.seen("server__returned")) == 2)
    assert gdb.seen("server__returned")[1][1:4] == ["app", "alice", pid]
    assert gdb.seen("error")[0][1:] == ["app", "alice", "57P01", "0"]


# -- bpftrace: what the page says ------------------------------------------------------------------


def can_trace(binary):
    """Whether bpftrace works here: as root, with a kernel that has all that it needs."""
    if os.geteuid() != 0 or not shutil.which("bpftrace"):
        return False
    tried = subprocess.run(("bpftrace", "-e", f'usdt:{binary}:pgweir:error {{ }} BEGIN {{ exit(); }}'),
                           capture_output=True, timeout=60)
    return tried.returncode == 0


def test_the_commands_of_the_page_find_what_they_say(pgweir, binary, tmp_path):
    if not HAS_PROBES or not can_trace(binary):
        pytest.skip("no probes, not root, no bpftrace, or a kernel without uprobes")
    commands = [line.replace("/usr/bin/pgweir", binary)
                for line in re.findall(r"^bpftrace -e (.*)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)]
    assert len(commands) == 3
    weir = pgweir(pool_mode="transaction")
    running = []
    for number, command in enumerate(commands):
        with open(tmp_path / str(number), "w", encoding="utf-8") as out:
            running.append(subprocess.Popen(("bpftrace", "-e", command.strip("'")), stdout=out,
                                            stderr=subprocess.STDOUT))

    def texts():
        return [(tmp_path / str(number)).read_text(encoding="utf-8") for number in range(3)]

    wait_until(lambda: all("Attaching" in text for text in texts()), what="bpftrace")
    client = weir.client()
    try:
        def is_seen():
            client.query("SELECT pg_sleep(0.15)")
            return "kept server" in texts()[2]

        wait_until(is_seen, what="the first probes")
        client.query("SELECT no_column")
        (row,) = [row for row in weir.admin("SHOW CLIENTS") if row["database"] == "app"]
    finally:
        for process in running:
            process.send_signal(signal.SIGINT)
        for process in running:
            process.wait(30)
    times, errors, kept = texts()
    assert re.search(r"@us\[app, alice\]:", times)
    assert re.search(r"@\[42703, app, alice\]: 1\n", errors)
    assert re.search(rf"client {row['id']} kept server \d+ for [1-9]\d{{5}} us", kept)
