# SPDX-License-Identifier: ISC
"""Fixtures: one PostgreSQL for the session; private PostgreSQLs and daemons for a test."""

import collections
import functools
import gc
import itertools
import os
import re
import signal
import socket
import subprocess

import psycopg
import pytest

from .kit import share
from .kit.account import drop_place, find_account, has_taken_ports, make_place
from .kit.certificates import Store
from .kit.cluster import Cluster
from .kit.daemon import Pgweir, place_binary
from .kit.fake import FakeServer
from .kit.names import NameServer
from .kit.postgres import Postgres, find_bin, make_template

# These need features of newer libpq versions; `test/run versions` provides one.
collect_ignore = [] if psycopg.pq.version() >= 180000 else ["test_libpq.py"]

TEST_LIMIT = 90  # time limit of one test in seconds, including all waits


@pytest.fixture(scope="session")
def account():
    return find_account()


@pytest.fixture(scope="session")
def place(account):
    path = make_place(account)
    yield path
    drop_place(path)


@pytest.fixture(scope="session")
def template(account, place):
    return make_template(account, place)


@pytest.fixture(scope="session")
def binary(account, place):
    try:
        return place_binary(account, place)
    except FileNotFoundError as absent:
        pytest.exit(str(absent), returncode=3)


@pytest.fixture(scope="session")
def postgres(account, place, template):
    """The PostgreSQL that all tests share. Tests that damage a PostgreSQL use private_postgres."""
    cluster = Postgres(account, place, template, "pg").start()
    yield cluster
    cluster.stop(signal.SIGQUIT)


_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def store(account, place):
    return Store(account, os.path.join(place, "certificates"))


@pytest.fixture(scope="session")
def ca(store):
    return store.authority("ca", "The tests' authority")


@pytest.fixture(scope="session")
def wrong_ca(store):
    return store.authority("wrong_ca", "Somebody else's authority")


@pytest.fixture(scope="session")
def own(ca):
    """The daemon's certificate."""
    return ca.issue("own", "pooler.example", names=("localhost", "127.0.0.1"))


@pytest.fixture(scope="session")
def server_certificate(ca):
    return ca.issue("server", "db.example", names=("localhost",))


@pytest.fixture(scope="session")
def secure_postgres(account, place, template, server_certificate, ca):
    cluster = Postgres(account, place, template, "pgtls", ssl="on",
                       ssl_cert_file=server_certificate.cert, ssl_key_file=server_certificate.key,
                       ssl_ca_file=ca.cert).start()
    yield cluster
    cluster.stop()


@pytest.fixture
def private_postgres(account, place, template):
    """Starts a private PostgreSQL for the test: private_postgres(max_connections=10, ...)."""
    started = []

    def start(**settings):
        cluster = Postgres(account, place, template, f"pg{next(_numbers)}", **settings)
        started.append(cluster)
        return cluster.start()

    yield start
    for cluster in started:
        cluster.stop(signal.SIGQUIT)
        drop_place(cluster.dir)


@pytest.fixture
def name_server():
    try:
        server = NameServer()
    except OSError as refused:
        pytest.skip(f"no name server here: {refused}")
    yield server
    server.close()


@pytest.fixture
def make_cluster(account, place, template):
    """Starts a primary with standbys for the test: make_cluster(standbys=2, ...)."""
    started = []

    def make(**settings):
        cluster = Cluster(account, place, template, f"c{next(_numbers)}h", **settings)
        started.append(cluster)
        return cluster.start()

    yield make
    for cluster in started:
        cluster.stop()


class Kept:
    """A daemon that tests of one file use in turn, as long as they wish for the same settings."""

    def __init__(self):
        self.daemon = self.wish = None

    def end(self):
        daemon, self.daemon = self.daemon, None
        if daemon:
            try:
                daemon.stop()
            finally:
                drop_place(daemon.dir)

    def end_with_backends(self):
        """Between tests: that the next one counts only its own."""
        if self.daemon:
            postgres = self.daemon.postgres
            self.end()
            postgres.end_backends()


@pytest.fixture(scope="module")
def kept(postgres):
    kept = Kept()
    yield kept
    kept.end_with_backends()


@pytest.fixture
def daemons(request, postgres, kept):
    """All daemons of a test; the report of a failure contains their logs."""
    kept.end_with_backends()
    started = request.node.daemons = []
    yield started
    problems = []
    for daemon in started:
        try:
            daemon.stop()
        except AssertionError as problem:
            problems.append(str(problem))
    request.node.daemon_logs = [(daemon.dir, daemon.log) for daemon in started]
    for daemon in started:
        drop_place(daemon.dir)
    if any(daemon.postgres is postgres for daemon in started):
        postgres.end_backends()
    assert not problems, "\n".join(problems)


# Where the catalog is read, as by default. In other tests a question that comes by itself would be
# in the way of what they count; and the last release does not know the setting.
WITH_CATALOG = ("test_session_isolation", "test_session_catalog", "test_session_params", "test_session_scripts",
                "test_session_state", "test_differential", "test_listen", "test_roles", "test_basic",
                "test_takeover_release",
                "test_sequences")


@pytest.fixture
def configured(request, account, binary, place, postgres):
    """Makes a daemon's files: configured(list for it, settings of Pgweir.configure)."""
    has_one_loop = request.node.get_closest_marker("one_loop") is not None

    module = request.node.module.__name__.rpartition(".")[2]

    def make(owned, postgres=postgres, **settings):
        if not module.startswith(WITH_CATALOG):
            settings.setdefault("session_isolation", "off")
        daemon = Pgweir(account, binary, os.path.join(place, f"w{next(_numbers)}"), postgres,
                        has_one_loop)
        owned.append(daemon)
        return daemon.configure(**settings)

    return make


@pytest.fixture
def make_pgweir(configured, daemons):
    """Configures a daemon without starting it; the arguments are those of Pgweir.configure."""
    return functools.partial(configured, daemons)


@pytest.fixture
def pgweir(make_pgweir):
    """Configures and starts a daemon."""

    def start(args=(), open_files=None, **settings):
        return make_pgweir(**settings).start(*args, open_files=open_files)

    return start


@pytest.fixture
def same_pgweir(request, configured, kept):
    """Starts a daemon, or gives the one that the test before had, if it had these settings: for many
    tests that leave nothing in a daemon but counts. It ends with the last of them.
    """
    owned = request.node.daemons = []

    def start(**settings):
        wish = request.node.get_closest_marker("one_loop"), settings
        if kept.daemon and kept.wish == wish:
            owned.append(kept.daemon)
        else:
            kept.end()
            kept.daemon, kept.wish = configured(owned, **settings), wish
            kept.daemon.start()
        return kept.daemon

    yield start
    request.node.daemon_logs = [(daemon.dir, daemon.log) for daemon in owned]
    if kept.daemon:
        kept.daemon.disconnect()
        if request.node.has_failed or not kept.daemon.is_well():
            kept.end()


@pytest.fixture
def fake_server():
    """Makes scripted servers."""
    made = []

    def make(host="127.0.0.1", port=0):
        made.append(FakeServer(host=host, port=port))
        return made[-1]

    yield make
    for server in made:
        server.close()


@pytest.fixture
def deaf_port():
    """A port at which connection requests are dropped: its backlog is full."""
    with socket.socket() as listener, socket.socket() as filler:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        filler.connect(listener.getsockname())
        yield listener.getsockname()[1]


@pytest.fixture
def scripted(pgweir, fake_server):
    """A daemon with a scripted server; returns (daemon, logged-in client, its server)."""

    def start(**settings):
        far = fake_server()
        settings.setdefault("pool_mode", "transaction")
        weir = pgweir(databases={"app": far.entry}, **settings)
        client = weir.wire().startup()
        server = far.accept().login()
        client.finish_login("alice")
        weir.far = far
        return weir, client, server

    return start


@pytest.fixture(autouse=True)
def limit(request):
    """Ends a test that hangs, with its stack in the report."""
    marker = request.node.get_closest_marker("limit")
    seconds = marker.args[0] if marker else TEST_LIMIT

    def over(*_):
        raise TimeoutError(f"the test took more than {seconds} s")

    before = signal.signal(signal.SIGALRM, over)
    signal.alarm(seconds)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    item.has_failed = report.failed
    if not report.failed:
        return
    logs = getattr(item, "daemon_logs", None)
    if logs is None:
        logs = [(daemon.dir, daemon.log) for daemon in getattr(item, "daemons", [])]
    for folder, log in logs:
        report.sections.append((f"log of {os.path.basename(folder)}", log[-20000:]))


# These set standard_conforming_strings to off, which PostgreSQL 19 refuses.
OLD_STRINGS = re.compile(
    r"test_tracked_.*\[standard_conforming_strings\]|test_a_session_with\[backslashes"
    r"|test_named_statement_(is_read_once|that_this_server_would_read_otherwise)\[backslash")


@functools.cache
def major_version():
    told = subprocess.run([f"{find_bin()}/postgres", "--version"], capture_output=True, text=True, check=True)
    return int(re.search(r"\d+", told.stdout)[0])


def pytest_runtest_setup(item):
    if OLD_STRINGS.search(item.nodeid) and major_version() >= 19:
        pytest.skip("PostgreSQL 19 has no strings with backslashes")


# Seven thousand items stay to the end: to look at them again and again takes a quarter of the collection.
gc.disable()


def pytest_collection_finish():
    if has_taken_ports():
        raise pytest.UsageError("a file takes a free port when it is collected")
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(items):
    for item in items:
        for marker in item.iter_markers("one_loop"):
            if len(marker.args) != 1 or marker.kwargs or len(str(marker.args[0])) < 10:
                raise pytest.UsageError(f"{item.nodeid}: one_loop needs a reason")


def pytest_runtestloop(session):
    path = os.environ.get("PGWEIR_TEST_SHARE")
    if not path or session.testsfailed or session.config.option.collectonly:
        return None  # pytest reports it
    worst = share.divide(session.config, path, int(os.environ["PGWEIR_TEST_WORKERS"]))
    if worst is None:
        session.config.pluginmanager.getplugin("tally").forget()
        share.run(session, path)
    elif worst not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        pytest.exit(f"one of the processes ended with {worst}", returncode=pytest.ExitCode.INTERNAL_ERROR)
    else:  # it would say that no test ran
        session.config.pluginmanager.unregister(name="terminalreporter")
    return True


class Tally:
    """Counts tests, not phases: a test whose daemon did not stop cleanly has failed."""

    def __init__(self):
        self.outcomes = {}
        self.reasons = {}  # of those that were skipped

    def pytest_runtest_logreport(self, report):
        known = self.outcomes.get(report.nodeid, "passed")
        if report.failed or known == "failed":
            known = "failed"
        elif report.skipped:
            known = "skipped"
            self.reasons[report.nodeid] = why_skipped(report)
        self.outcomes[report.nodeid] = known

    def pytest_collectreport(self, report):
        if report.failed:
            self.outcomes[report.nodeid] = "failed"
        elif report.skipped:
            self.outcomes[report.nodeid] = "skipped"
            self.reasons[report.nodeid] = why_skipped(report)

    def forget(self):
        """What was found before the process divided is counted by the first one."""
        self.outcomes, self.reasons = {}, {}

    def pytest_sessionfinish(self):
        path = os.environ.get("PGWEIR_TEST_TALLY")
        if not path:
            return
        counts = collections.Counter(self.outcomes.values())
        skipped = collections.Counter(
            self.reasons[test] for test, word in self.outcomes.items() if word == "skipped")
        with open(path, "a", encoding="utf-8") as file:
            file.write(f"e2e {counts['passed']} {counts['failed']} 0\n")
            file.writelines(f"e2e 0 0 {count} {reason}\n" for reason, count in skipped.items())


def why_skipped(report):
    if isinstance(report.longrepr, tuple):
        return report.longrepr[2].removeprefix("Skipped: ").replace("\n", " ")
    return "an expected failure"  # xfail, which has no other place in the tally


def pytest_configure(config):
    config.addinivalue_line("markers", "limit(seconds): this test may take so long")
    config.addinivalue_line("markers", "one_loop(reason): the daemon has one event loop, also in"
                            " `test/run loops`")
    config.pluginmanager.register(Tally(), "tally")
