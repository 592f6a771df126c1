# SPDX-License-Identifier: ISC
"""Tests of the benchmark: made-up figures through its reports, bytes through its relay.

Nothing is measured here.
"""

import asyncio
import contextlib
import json
import os
import pathlib
import re
import select
import shutil
import socket
import subprocess
import sys
import threading
import time
import xml.etree.ElementTree as xml

import pytest

from .kit.daemon import find_binary
from .kit.wait import LIMIT, wait_until

TEST = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TEST / "bench"), str(TEST / "lib")]

import application  # noqa: E402  (the paths come first)
import background  # noqa: E402
import bars  # noqa: E402
import cases  # noqa: E402
import document  # noqa: E402
import overload  # noqa: E402
import pictures  # noqa: E402
import place  # noqa: E402
import report  # noqa: E402
import servers  # noqa: E402
import themes  # noqa: E402
import timeline  # noqa: E402
from case import Case, Goal  # noqa: E402

TARGETS = ["relay", "pgbouncer", "pgweir"]
SVG = "{http://www.w3.org/2000/svg}"


def made_up(name="bsc-16", goals=(Goal("cpu_us", 0.8, "pgbouncer"),)):
    """A case, and results in which pgweir takes 30, PgBouncer 50 and the relay 25."""
    runs = {"relay": [{"cpu_us": 25.0}], "pgbouncer": [{"cpu_us": 45.0}, {"cpu_us": 55.0}],
            "pgweir": [{"cpu_us": 30.0, "tps": 9.0}, {"cpu_us": 29.0}, {"cpu_us": 31.0}]}
    return Case(name, "made up", None, goals=goals), {name: runs}


# -- goals ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("goal, is_met", (
    (Goal("cpu_us", 0.6, "pgbouncer"), True),
    (Goal("cpu_us", 0.59, "pgbouncer"), False),
    (Goal("cpu_us", 1.1, "relay"), False),
    (Goal("cpu_us", 30), True),
    (Goal("cpu_us", 29.9), False),
    (Goal("tps", 9, is_least=True), True),
    (Goal("tps", 9.1, is_least=True), False),
    (Goal("tps", 1, "pgbouncer", is_least=True), None),
    (Goal("cpu_us", 1, "haproxy"), None),
    (Goal("p99_ms", 1), None),
))
def test_goal(goal, is_met):
    case, results = made_up()
    assert goal.is_met(report.medians_of(case, results)) is is_met


def test_goals_belong_to_cases_and_figures():
    names = [case.name for case in cases.make_cases()]
    assert len(names) == len(set(names))
    assert set(cases.GOALS) <= set(names)
    assert {goal.metric for goals in cases.GOALS.values() for goal in goals} <= set(report.METRICS)


def test_every_case_has_its_place():
    for case in cases.make_cases():
        assert case.flavour in place.FLAVOURS, case.name
        assert set(case.targets) <= set(place.TARGETS), case.name
        assert set(case.keeps) <= set(report.METRICS), case.name


@pytest.mark.parametrize("picture", pictures.PICTURES, ids=lambda picture: picture.name)
def test_every_picture_has_cases(picture):
    names = [case.name for case in cases.make_cases()]
    assert picture.metric in report.METRICS
    for begin in picture.cases:
        assert any(name.startswith(begin) for name in names), begin


# -- tables and JSON ------------------------------------------------------------------------------


def cells(table, row):
    return [cell.strip() for cell in table.splitlines()[row].strip("|").split("|")]


def test_table():
    case, results = made_up(goals=(Goal("cpu_us", 0.8, "pgbouncer"), Goal("cpu_us", 1.1, "relay")))
    table = report.table([case], results, TARGETS)
    assert cells(table, 2) == ["bsc-16", "transactions/s", "-", "-", "9 ±0%", "-", "-", "-", "-"]
    assert cells(table, 3) == ["bsc-16", "CPU us/transaction", "25.00", "50.00 ±10%", "30.00 ±3%",
                               "0.60", "1.20", "<= 0.8 x pgbouncer, <= 1.1 x relay", "met, missed"]


def test_figures_that_are_not_kept_are_not_shown():
    case, results = made_up()
    case.keeps = ("tps",)
    assert "CPU us" not in report.table([case], results, TARGETS)


def test_a_page_has_the_figures_that_no_picture_draws():
    case, results = made_up(goals=(Goal("cpu_us", 0.8, "pgbouncer"),))
    table = report.table([case], results, TARGETS, on_page=True)
    assert "transactions/s" not in table
    assert cells(table, 2) == ["bsc-16", "CPU us/transaction", "50.00 ±10%", "30.00 ±3%", "0.60"]


def test_table_of_goals():
    case, results = made_up()
    assert cells(report.goals_table([case], results), 2) == [
        "bsc-16", "CPU us/transaction", "<= 0.8 x pgbouncer", "0.60 x", "met"]
    assert report.goals_table([case], {}) == ""


def test_json_is_read_again():
    case, results = made_up()
    facts = {"versions": {"pgweir": "1"}, "cores": 2}
    skipped = {case.name: {"haproxy": "is not there"}}
    written = report.as_json([case], results, facts, skipped)
    assert written["cases"]["bsc-16"]["goals"][0]["is_met"] is True
    assert written["cases"]["bsc-16"]["goals"][0]["limit"] == 40
    assert written["cases"]["bsc-16"]["medians"]["pgweir"]["cpu_us"] == 30
    assert report.from_json([written]) == (results, facts, skipped)


def test_parts_of_a_run_become_one():
    case, results = made_up()
    other, later = made_up("bsc-64")
    again = {case.name: {"pgweir": [{"cpu_us": 1.0}]}}
    parts = [report.as_json([case], results, {"versions": {"relay": "0"}}, {}),
             report.as_json([other], later, {"versions": {"pgweir": "1"}}, {}),
             report.as_json([case], again, {"versions": {}}, {})]
    merged, facts, _ = report.from_json(parts)
    assert merged == {**later, **again}
    assert facts["versions"] == {"relay": "0", "pgweir": "1"}


PGBENCH = """\
transaction type: script.sql
latency average = 0.310 ms
initial connection time = 4.170 ms
tps = 3216.200000 (without initial connection time)
statement latencies in milliseconds and failures:
         0.093           0  BEGIN;
         0.118           0  SELECT 1;
         0.099           0  COMMIT;
"""


def test_pgbench_is_understood():
    assert place.figures_of(PGBENCH) == {
        "mean_ms": 0.31, "initial_ms": 4.17, "tps": 3216.2,
        "begin_ms": 0.093, "select_ms": 0.118, "commit_ms": 0.099}


# -- pictures -------------------------------------------------------------------------------------


def drawn(case, results):
    """The first picture, which shows CPU time."""
    _, _, text = next(pictures.draw([case], results, TARGETS))
    return xml.fromstring(text)


def test_bars_are_as_long_as_their_figures():
    widths = [float(bar.get("width")) for bar in drawn(*made_up()).iter(f"{SVG}rect")]
    assert len(widths) == 3
    assert widths[1] / widths[0] == pytest.approx(2, rel=0.01)
    assert widths[2] / widths[0] == pytest.approx(1.2, rel=0.01)


def test_goal_is_a_line_beside_our_bar():
    svg = drawn(*made_up())
    bar = list(svg.iter(f"{SVG}rect"))[2]
    goal, = [line for line in svg.iter(f"{SVG}line") if line.get("class") == "goal"]
    assert float(goal.get("y1")) < float(bar.get("y")) < float(goal.get("y2"))
    share = (float(goal.get("x1")) - bars.NAMES_WIDTH) / float(bar.get("width"))
    assert share == pytest.approx(40 / 30, rel=0.01)
    assert "goal 40.00" in [text.text for text in svg.iter(f"{SVG}text")]


def test_only_what_spreads_has_whiskers():
    lines = [line for line in drawn(*made_up()).iter(f"{SVG}line") if line.get("class") == "line"]
    assert len(lines) == 2 * 3


def test_nothing_is_outside_of_the_picture():
    svg = drawn(*made_up())
    width, height = (float(svg.get(name)) for name in ("width", "height"))
    for thing in svg.iter():
        for name, limit in (("x", width), ("x1", width), ("x2", width), ("y", height),
                            ("y1", height), ("y2", height)):
            assert 0 <= float(thing.get(name, 0)) <= limit


def test_any_words_are_well_formed():
    bar = bars.Bar("<&>\"'", 0.0, 0.0, 0.0, "0")
    svg = xml.fromstring(bars.picture("<a & \"b\">", "<unit>", [bars.Group("<g>", (bar,))]))
    assert svg.get("aria-label") == '<a & "b">'


def test_pictures_are_written(tmp_path):
    case, results = made_up()
    written = pictures.write(tmp_path / "doc", [case], results, TARGETS)
    assert [name for name, _ in written] == ["cpu.svg", "tps.svg"]
    for name, _ in written:
        xml.parse(tmp_path / "doc" / name)


# -- the pages ------------------------------------------------------------------------------------

DOC = TEST.parent / "doc"
PAGE = DOC / "performance.md"


def page_with_a_place():
    return f"before\n{document.BEGIN}\nold\n{document.END}\nafter\n"


def test_figures_take_the_place_of_figures():
    once = document.place_in(page_with_a_place(), "1\n2")
    assert once == f"before\n{document.BEGIN}\n\n1\n2\n\n{document.END}\nafter\n"
    assert document.place_in(once, "1\n2") == once


@pytest.mark.parametrize("text", ("", document.BEGIN, document.END, document.END + document.BEGIN))
def test_document_without_a_place(text):
    with pytest.raises(document.NoPlace):
        document.place_in(text, "new")


def test_the_page_has_its_place():
    assert "new" in document.place_in(PAGE.read_text(encoding="utf-8"), "new")


def test_pictures_of_the_page_are_there():
    page = PAGE.read_text(encoding="utf-8")
    paths = re.findall(r"!\[[^]]*\]\(([^)]*)\)|(?:src|srcset)=\"([^\"]*)\"", page)
    assert len(paths) > 10
    for path in paths:
        xml.parse(DOC / (path[0] or path[1]))


def test_medians_are_read_back_from_a_page():
    case, results = made_up()
    page = document.place_in(page_with_a_place(), document.figures_as_text(
        [case], results, TARGETS, {"versions": {"pgbouncer": "PgBouncer 1.2.3"}, "cores": 2,
                                   "machine": "m", "kernel": "k", "rounds": 1, "seconds": 1,
                                   "rows": 1}, {}, []))
    assert document.medians_in(page) == {
        ("bsc-16", "CPU us/transaction"): {"pgbouncer": 50, "pgweir": 30}}
    assert document.version_in(page, "PgBouncer") == "1.2.3"
    assert document.version_in(page, "HAProxy") == ""


# -- the small picture ----------------------------------------------------------------------------

FEW = {("bsc-64", "CPU us/transaction"): {"pgbouncer": 50.0, "pgweir": 40.0},
       ("idle-memory", "bytes/client, after a query"): {"pgbouncer": 1000.0, "pgweir": 250.0}}


def test_bars_of_the_small_picture_are_as_long_as_their_figures():
    svg = xml.fromstring(pictures.summary(FEW, "1.2", "dark"))
    cpu, own_cpu, memory, own_memory = (
        float(bar.get("width")) for bar in svg.iter(f"{SVG}rect"))
    assert own_cpu / cpu == pytest.approx(0.8, rel=0.01)
    assert own_memory / memory == pytest.approx(0.25, rel=0.01)
    assert {"50 µs", "250 bytes", "pgweir beside PgBouncer 1.2, less is better"} <= {
        text.text for text in svg.iter(f"{SVG}text")}


def test_the_small_picture_needs_both_poolers():
    assert pictures.has_summary(FEW)
    for row in FEW:
        assert not pictures.has_summary({**FEW, row: {"pgweir": 1.0}})


@pytest.mark.parametrize("theme", themes.THEMES)
def test_the_small_picture_shows_the_figures_of_the_page(theme):
    page = PAGE.read_text(encoding="utf-8")
    drawn = pictures.summary(document.medians_in(page), document.version_in(page, "PgBouncer"),
                             theme)
    assert drawn == (DOC / "performance" / f"summary-{theme}.svg").read_text(encoding="utf-8")


# -- the picture of a restart ---------------------------------------------------------------------


def restarts():
    """A second before and after, in two intervals each; the second way has errors."""
    facts = {"before": 1, "after": 1, "interval": 0.5}
    good = {"words": "good", "took": 0.25, "committed": [10, 10, 10, 10], "failed": [0] * 4,
            "refused": [0] * 4}
    bad = {"words": "bad", "took": 0.5, "committed": [10, 10, 0, 5], "failed": [0, 0, 2, 0],
           "refused": [0, 0, 3, 0]}
    return {"facts": facts, "ways": {"good": good, "bad": bad}}


def test_a_restart_is_drawn_with_its_counts():
    svg = xml.fromstring(timeline.draw(restarts(), "light"))
    rects = list(svg.iter(f"{SVG}rect"))
    heights = [float(rect.get("height")) for rect in rects if rect.get("fill")]
    (errors,) = [float(rect.get("height")) for rect in rects if rect.get("class") == "error"]
    bands = [float(rect.get("width")) for rect in rects if rect.get("class") == "band"]
    assert len(heights) == 4 + 3
    assert heights[-1] / heights[0] == pytest.approx(0.5)
    assert errors / heights[0] == pytest.approx(0.5)
    assert bands[1] / bands[0] == pytest.approx(2)


def test_times_are_counted_by_intervals():
    times = (-1.1, -1, -0.6, -0.5, -0.01, 0, 0.4, 0.5, 0.9, 1, 1.5)
    assert timeline.counted(times, before=1, after=1, interval=0.5) == [2, 2, 2, 2]


def test_a_restart_is_put_into_words():
    ways = restarts()["ways"]
    assert timeline.summary(ways["bad"]) == (
        "25 transactions committed, 2 failed, 3 connections refused; the restart took 0.50 s")


READY = b"Z\0\0\0\5I"
ERROR = b"E\0\0\0\x0bMfull\0\0"
FATAL = b"E\0\0\0\x0bMgone\0\0"


def test_the_application_counts_what_it_sees():
    """Its server answers with an error, ends the connection with one, and refuses the next."""
    seen, arrived = application.Seen(), []

    async def serve(reader, writer):
        arrived.append(await reader.read(1000))
        if len(arrived) == 2:
            writer.write(FATAL)
        else:
            writer.write(READY)
            while await reader.read(1000):
                if len(arrived) == 1 and seen.failed:
                    writer.write(FATAL)
                    break
                writer.write(ERROR + READY if len(arrived) == 1 and seen.committed else READY)
        writer.close()

    async def scenario():
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server:
            client = application.Client(server.sockets[0].getsockname()[1], "some", "one",
                                        application.Work(("SELECT 1",), 0.001), seen)
            task = asyncio.create_task(client.run(time.monotonic(), time.monotonic() + LIMIT))
            while len(seen.committed) < 3:
                await asyncio.sleep(0.001)
            task.cancel()

    asyncio.run(asyncio.wait_for(scenario(), LIMIT))
    assert [why for _, why in seen.failed] == ["full", "gone"]
    assert [why for _, why in seen.refused] == ["gone"]
    assert len(arrived) == 3


@pytest.mark.parametrize("name, picture", [("restart", timeline), ("queues", overload)])
@pytest.mark.parametrize("theme", themes.THEMES)
def test_a_picture_shows_what_was_measured(name, picture, theme):
    measured = json.loads((DOC / "performance" / f"{name}.json").read_text())
    assert picture.draw(measured, theme) == (
        DOC / "performance" / f"{name}-{theme}.svg").read_text(encoding="utf-8")


def test_ten_times_too_much_is_held_within_the_limits():
    p99, done = overload.ratios(json.loads((DOC / "performance" / "queues.json").read_text()))
    assert p99 <= 2
    assert done >= 0.95


def test_the_ratios_of_the_highest_load():
    def levels(*pairs):
        return [{"p99_ms": p99, "done": done} for p99, done in pairs]

    ways = {"with": levels((30, 150), (150, 190)), "without": levels((30, 200), (900, 198))}
    assert overload.ratios({"target_ms": 100, "ways": ways}) == (1.5, 0.95)


# -- the relay ------------------------------------------------------------------------------------


def listening():
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(LIMIT)
    return listener


def free_port():
    with listening() as probe:
        return probe.getsockname()[1]


@contextlib.contextmanager
def running(name, server_port, *words):
    """Yields the port of a benchmark program in front of a server."""
    program = pathlib.Path(find_binary()).parent / "test" / "bench" / name
    if not os.access(program, os.X_OK):
        pytest.skip(f"no {program}")
    port = free_port()
    process = subprocess.Popen([program, str(port), str(server_port), *words])
    try:
        wait_until(lambda: process.poll() is not None or accepts(port), what=name)
        yield port
        assert process.poll() is None
    finally:
        process.kill()
        process.wait(LIMIT)


def relay_to(server_port):
    return running("relay", server_port)


def accepts(port):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), LIMIT):
        return True
    return False


def connect(port):
    return socket.create_connection(("127.0.0.1", port), LIMIT)


@pytest.fixture
def pair():
    """(client, server), with the relay between them."""
    with listening() as listener, relay_to(listener.getsockname()[1]) as port:
        # The connection that checked whether the relay listens.
        listener.accept()[0].close()
        with connect(port) as client:
            server = listener.accept()[0]
            server.settimeout(LIMIT)
            with server:
                yield client, server


def read_all(sock):
    data = bytearray()
    while part := sock.recv(65536):
        data += part
    return bytes(data)


def test_relay_passes_both_ways(pair):
    client, server = pair
    for source, sink in (pair, pair[::-1]):
        source.sendall(b"some bytes")
        assert sink.recv(100) == b"some bytes"


def test_relay_loses_nothing_when_the_reader_is_slow(pair):
    """More data than the sockets can buffer, from both ends at once; neither end reads at first."""
    sent = {sock: os.urandom(1 << 16) * 300 for sock in pair}
    writers = [threading.Thread(target=sock.sendall, args=(data,)) for sock, data in sent.items()]
    for writer in writers:
        writer.start()
    for sink, source in (pair, pair[::-1]):
        got = bytearray()
        while len(got) < len(sent[source]):
            part = sink.recv(1 << 20)
            assert part, "the relay closed"
            got += part
        assert got == sent[source]
    for writer in writers:
        writer.join(LIMIT)


def test_relay_delivers_the_last_bytes_before_the_end(pair):
    client, server = pair
    data = os.urandom(1 << 16) * 100
    writer = threading.Thread(target=lambda: (server.sendall(data),
                                              server.shutdown(socket.SHUT_WR)))
    writer.start()
    assert read_all(client) == data
    writer.join(LIMIT)


def test_relay_ends_both_sides(pair):
    client, server = pair
    client.close()
    assert server.recv(1) == b""


def test_relay_without_a_server():
    with relay_to(free_port()) as port, connect(port) as client:
        with contextlib.suppress(ConnectionResetError):
            assert client.recv(1) == b""


# -- the bare pool --------------------------------------------------------------------------------

WELCOME = b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I"
SERVERS = 16


@contextlib.contextmanager
def bare_pool():
    """(port, its server connections): the test acts as PostgreSQL."""
    servers = []

    def let_in():
        for _ in range(SERVERS):
            server = listener.accept()[0]
            server.settimeout(LIMIT)
            servers.append(server)
            assert b"user\0somebody\0database\0some\0" in server.recv(1000)
            server.sendall(WELCOME)

    with listening() as listener:
        host = threading.Thread(target=let_in)
        host.start()
        with running("bare_pool", listener.getsockname()[1], "somebody", "some") as port:
            host.join(LIMIT)
            assert len(servers) == SERVERS
            yield port, servers
        for server in servers:
            server.close()


def logged_in(port):
    client = connect(port)
    client.sendall(b"startup")
    assert client.recv(1000) == WELCOME
    return client


def asked(servers):
    """The only server connection that has data to read."""
    ready = select.select(servers, [], [], LIMIT)[0]
    assert len(ready) == 1
    return ready[0]


def test_the_bare_pool_lets_in_and_serves_one_after_the_other():
    answer = b"C\0\0\0\x09done\0" + WELCOME[-6:]
    with bare_pool() as (port, servers):
        for text in (b"Qone", b"Qtwo"):
            with logged_in(port) as client:
                client.sendall(text)
                server = asked(servers)
                assert server.recv(1000) == text
                server.sendall(answer[:5])
                assert client.recv(1000) == answer[:5]
                server.sendall(answer[5:])
                assert client.recv(1000) == answer[5:]
                client.sendall(b"X")
                assert client.recv(1) == b""


def test_the_bare_pool_survives_a_client_that_disconnects_during_its_query():
    with bare_pool() as (port, servers):
        with logged_in(port) as client:
            client.sendall(b"Qslow")
            server = asked(servers)
            assert server.recv(1000) == b"Qslow"
        server.sendall(b"C\0\0\0\x09done\0" + WELCOME[-6:])
        for _ in range(SERVERS + 1):
            logged_in(port).close()


# -- location of the programs of a run ------------------------------------------------------------


def test_a_program_that_the_servers_user_can_get_at_is_run_where_it_lies():
    with servers.Workplace("test") as workplace:
        assert workplace.program("lister", "/bin/ls") == pathlib.Path("/bin/ls").resolve()


def test_a_program_that_the_servers_user_cannot_get_at_is_copied(tmp_path):
    hidden = tmp_path / "ls"
    shutil.copy("/bin/ls", hidden)
    with servers.Workplace("test") as workplace:
        tmp_path.chmod(0o700)
        program = workplace.program("lister", hidden)
        # Without root, the user owns the directory.
        assert (program != hidden) == bool(servers.account())
        subprocess.run([program, "/"], cwd="/", check=True, **servers.account(),
                       stdout=subprocess.DEVNULL)


# -- idle priority --------------------------------------------------------------------------------


@pytest.fixture
def idler():
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        yield process
        process.stdin.close()


def first_version(root):
    (root / "cpu").mkdir()
    return root / "cpu"


def second_version(root):
    (root / "cgroup.subtree_control").write_text("memory pids")
    return root


@pytest.mark.parametrize("parent_of", (first_version, second_version))
def test_in_a_control_group_that_is_idle(tmp_path, idler, parent_of):
    parent = parent_of(tmp_path)
    with background.Background(tmp_path) as some:
        assert some.is_whole
        some.add(idler.pid)
        (group,) = parent.glob("pgweir-background-*")
        assert (group / "cpu.idle").read_text() == "1"
        assert (group / "cgroup.procs").read_text() == str(idler.pid)


@pytest.mark.parametrize("enabled, within, after", (
    ("memory", "+cpu", "-cpu"), ("cpu memory", "cpu memory", "cpu memory")))
def test_the_controller_is_left_as_it_was_found(tmp_path, enabled, within, after):
    switch = tmp_path / "cgroup.subtree_control"
    switch.write_text(enabled)
    with background.Background(tmp_path):
        assert switch.read_text() == within
    assert switch.read_text() == after


def test_without_control_groups_it_is_idle_within_its_session(tmp_path, idler, capsys):
    with background.Background(tmp_path) as some:
        assert not some.is_whole
        some.add(idler.pid)
        assert os.sched_getscheduler(idler.pid) == os.SCHED_IDLE
    assert "within its own session only" in capsys.readouterr().err
