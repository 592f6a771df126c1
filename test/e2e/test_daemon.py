# SPDX-License-Identifier: ISC
"""The process: command line, signals, exit status, files it creates and removes."""

import os
import re
import shutil
import signal
import stat

import pytest

from .kit.wait import wait_until
from .kit.wire import Closed, Refused, Wire, query


@pytest.fixture
def weir(make_pgweir):
    return make_pgweir(pool_mode="transaction")


# -- command line ---------------------------------------------------------------------------------


@pytest.mark.parametrize("option", ("--version", "-V"))
def test_version(weir, option):
    done = weir.run(option)
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert re.match(r"pgweir \d+\.\d+\.\d+", lines[0])
    assert "libevent" in done.stdout and "tls:" in done.stdout and "adns:" in done.stdout


def test_version_under_the_other_name(weir, account):
    other = account.own(shutil.copy(weir.binary, f"{weir.dir}/pgbouncer"), 0o755)
    done = weir.run("--version", binary=other)
    assert re.match(r"PgBouncer 1\.26\.1 \(pgweir \d+\.\d+\.\d+\S*\)$", done.stdout.splitlines()[0])


@pytest.mark.parametrize("option", ("--help", "-h"))
def test_help(weir, option):
    done = weir.run(option)
    assert done.returncode == 0
    for word in ("--daemon", "--quiet", "--user", "--verbose", "--version", "--check"):
        assert word in done.stdout


@pytest.mark.parametrize("args", ([], ["--nonsense"], ["one.ini", "two.ini"], ["-u"]))
def test_bad_command_lines(weir, args):
    done = weir.run(*args)
    assert done.returncode == 1
    assert "--help" in done.stderr
    if not args:
        assert "no configuration file specified" in done.stderr


def test_quiet(weir):
    weir.start("-q", wait=False)
    wait_until(lambda: answers(weir))
    assert weir.log == ""


def answers(weir):
    try:
        Wire(weir.address).login().close()
        return True
    except (OSError, Closed, Refused):
        return False


def test_verbose(weir):
    weir.start("-v", "-v")
    weir.client().query("SELECT 1")
    weir.wait_log("DEBUG|NOISE")


def test_log_of_the_start(weir):
    weir.start()
    assert re.search(rf"LOG listening on 127\.0\.0\.1:{weir.port}$", weir.log, re.M)
    assert re.search(rf"LOG listening on unix:{re.escape(weir.socket_path)}$", weir.log, re.M)
    assert re.search(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} \S+ \[\d+\] LOG process up: ", weir.log,
                     re.M)


def test_root_is_refused(weir, account):
    if not account.is_other:
        pytest.skip("needs root")
    done = weir.run(weir.ini, as_root=True)
    assert done.returncode == 1
    assert "root" in done.stderr


@pytest.mark.parametrize("how", ("-u", "setting"))
def test_root_becomes_the_user(make_pgweir, account, how):
    if not account.is_other:
        pytest.skip("needs root")
    weir = make_pgweir(user=account.name if how == "setting" else None)
    # A process that changed its user cannot be inspected, so leak detection is not possible.
    weir.start(*(["-u", account.name] if how == "-u" else []), as_root=True,
               env={"ASAN_OPTIONS": f"detect_leaks=0:log_path={weir.dir}/sanitizer"})
    assert weir.client().value("SELECT 1") == "1"
    with open(f"/proc/{weir.pid}/status", encoding="ascii") as file:
        fields = dict(line.rstrip().split(":\t", 1) for line in file if ":\t" in line)
    assert fields["Uid"].split() == [str(account.uid)] * 4
    assert fields["Gid"].split() == [str(account.gid)] * 4
    assert "0" not in fields.get("Groups", "").split()


def test_an_unknown_user(weir, account):
    if not account.is_other:
        pytest.skip("needs root")
    done = weir.run("-u", "no_such_user_here", weir.ini, as_root=True)
    assert done.returncode == 1


# -- files ----------------------------------------------------------------------------------------


def test_socket_file(make_pgweir):
    weir = make_pgweir(unix_socket_mode="0700").start()
    assert stat.S_IMODE(os.stat(weir.socket_path).st_mode) == 0o700
    weir.signal(signal.SIGINT)
    assert weir.wait_exit() == 0
    assert not os.path.exists(weir.socket_path)


def test_socket_file_left_by_a_crash(weir):
    weir.start()
    weir.process.kill()
    weir.wait_exit()
    assert os.path.exists(weir.socket_path)
    weir.start()
    assert weir.client().value("SELECT 1") == "1"


def test_socket_in_use(weir, make_pgweir):
    weir.start()
    other = make_pgweir(unix_socket_dir=weir.dir, listen_port=weir.port, listen_addr=None)
    other.may_fail = True
    done = other.run(other.ini)
    assert done.returncode == 1
    assert weir.client().value("SELECT 1") == "1"
    assert os.path.exists(weir.socket_path)


def test_port_in_use(weir, make_pgweir):
    weir.start()
    other = make_pgweir(listen_port=weir.port)
    done = other.run(other.ini)
    assert done.returncode == 1
    assert "FATAL" in done.stderr


def test_pidfile(make_pgweir):
    weir = make_pgweir()
    path = f"{weir.dir}/pid"
    weir.configure(pidfile=path).start()
    with open(path, encoding="ascii") as file:
        assert file.read() == f"{weir.pid}\n"
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o644
    weir.signal(signal.SIGINT)
    assert weir.wait_exit() == 0
    assert not os.path.exists(path)


@pytest.mark.parametrize("content, starts", (("{live}", False), ("", False), ("nonsense", False),
                                             ("999999999", True)))
def test_an_old_pidfile(make_pgweir, account, content, starts):
    weir = make_pgweir()
    path = f"{weir.dir}/pid"
    weir.configure(pidfile=path)
    account.write(path, content.format(live=os.getpid()))
    if starts:
        weir.start()
        assert weir.client().value("SELECT 1") == "1"
    else:
        assert weir.run(weir.ini).returncode == 1
        with open(path, encoding="ascii") as file:
            assert file.read() == content.format(live=os.getpid())


def test_daemon(make_pgweir, account):
    weir = make_pgweir()
    pidfile, logfile = f"{weir.dir}/pid", f"{weir.dir}/daemon.log"
    weir.configure(pidfile=pidfile, logfile=logfile)
    done = weir.run("-d", weir.ini)
    assert done.returncode == 0, done.stderr
    wait_until(lambda: answers(weir))
    with open(pidfile, encoding="ascii") as file:
        pid = int(file.read())
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            session = int(file.read().rpartition(")")[2].split()[3])
        assert session != os.getsid(0)
        assert os.readlink(f"/proc/{pid}/fd/0") == "/dev/null"
        assert os.readlink(f"/proc/{pid}/cwd") == weir.dir
        with open(logfile, encoding="utf-8") as file:
            assert "process up" in file.read()
    finally:
        os.kill(pid, signal.SIGINT)
        wait_until(lambda: not os.path.exists(f"/proc/{pid}"))
    assert not os.path.exists(pidfile)


@pytest.mark.parametrize("loops", (1, 2))
def test_the_process_has_the_name_that_it_was_started_by(make_pgweir, account, loops):
    """`pkill --exact pgbouncer` in another container finds it."""
    weir = make_pgweir(loops=loops, servers_per_loop=0)
    own, weir.binary = weir.binary, f"{weir.dir}/pgbouncer"
    os.symlink(own, weir.binary)
    weir.start()
    assert weir.client().value("SELECT 1") == "1"
    with open(f"/proc/{weir.pid}/comm", encoding="utf-8") as file:
        assert file.read() == "pgbouncer\n"
    found = account.run(["pgrep", "--exact", "pgbouncer"], timeout=30)
    assert str(weir.pid) in found.stdout.split()


def test_daemon_needs_a_pidfile(weir):
    done = weir.run("-d", weir.ini)
    assert done.returncode == 1
    assert "daemon needs pidfile configured" in done.stderr


def test_logfile(make_pgweir):
    weir = make_pgweir()
    path = f"{weir.dir}/own.log"
    weir.configure(logfile=path).start()
    weir.client()
    read = lambda: open(path, encoding="utf-8").read()  # noqa: E731
    wait_until(lambda: "login attempt" in read())
    weir.wait_log("login attempt")  # a log file does not silence stderr


@pytest.mark.parametrize("how", ("signal", "console"))
def test_logfile_is_reopened(make_pgweir, how):
    """As logrotate needs it."""
    weir = make_pgweir()
    path = f"{weir.dir}/own.log"
    weir.configure(logfile=path).start()
    weir.client()
    wait_until(lambda: os.path.exists(path))
    os.rename(path, path + ".1")
    weir.signal(signal.SIGHUP) if how == "signal" else weir.admin("RELOAD")
    wait_until(lambda: os.path.exists(path))
    weir.client("bob")
    wait_until(lambda: "user=bob" in open(path, encoding="utf-8").read())
    assert "user=bob" not in open(path + ".1", encoding="utf-8").read()


def test_a_log_that_cannot_be_opened(make_pgweir):
    weir = make_pgweir(logfile="/nowhere/at/all.log")
    assert weir.run(weir.ini).returncode == 1


def test_nothing_is_lost_from_the_log_at_exit(make_pgweir):
    weir = make_pgweir()
    path = f"{weir.dir}/own.log"
    weir.configure(logfile=path).start()
    for _ in range(100):
        weir.client().close()
    weir.signal(signal.SIGQUIT)
    assert weir.wait_exit() == 0
    text = open(path, encoding="utf-8").read()
    assert text.count("login attempt") == 100


def test_newlines_in_the_log_are_folded(pgweir):
    weir = pgweir()
    with Wire(weir.address) as wire:
        try:
            wire.login(user="evil\nFATAL forged line")
        except Exception:
            pass
    wait_until(lambda: "evil" in weir.log)
    assert not re.search(r"^FATAL forged", weir.log, re.M)


@pytest.mark.parametrize("setting, pattern", (
    ("log_connections", "login attempt"), ("log_disconnections", "closing because"),
    ("log_pooler_errors", "pooler error")))
def test_what_is_logged_can_be_chosen(pgweir, setting, pattern):
    from .kit.wire import refusal
    on, off = pgweir(), pgweir(**{setting: 0})
    for weir in (on, off):
        weir.client().close()
        refusal(weir.address, database="nowhere")
        weir.admin("SHOW VERSION")
    on.wait_log(pattern)
    assert pattern not in off.log


# -- signals --------------------------------------------------------------------------------------


def test_sighup_reloads(weir):
    weir.start()
    weir.configure(default_pool_size=9)
    weir.signal(signal.SIGHUP)
    weir.wait_log("got SIGHUP, re-reading config")

    def size():
        return {row["key"]: row["value"] for row in weir.admin("SHOW CONFIG")}["default_pool_size"]
    wait_until(lambda: size() == "9")


def test_sighup_with_a_bad_file(weir):
    weir.start()
    weir.configure(default_pool_size=9, pool_mode="nonsense")
    weir.signal(signal.SIGHUP)
    weir.wait_log("pool_mode")
    assert weir.client().value("SELECT 1") == "1"
    values = {row["key"]: row["value"] for row in weir.admin("SHOW CONFIG")}
    assert values["default_pool_size"] == "20"


def test_sigquit_ends_at_once(weir):
    weir.start()
    client = weir.client()
    client.query("BEGIN")
    weir.signal(signal.SIGQUIT)
    assert weir.wait_exit() == 0
    client.wait_closed()


def test_sigint_waits_for_servers(weir):
    weir.start()
    client = weir.client()
    client.query("BEGIN")
    weir.signal(signal.SIGINT)
    wait_until(lambda: not answers(weir))
    assert client.value("SELECT 1") == "1"
    client.query("COMMIT")
    assert weir.wait_exit() == 0


def test_sigint_tells_those_who_wait(make_pgweir):
    weir = make_pgweir(pool_mode="transaction", default_pool_size=1).start()
    holder, waiter = weir.client(), weir.client()
    holder.query("BEGIN")
    waiter.send(query("SELECT 1"))
    weir.wait_pool(cl_waiting=1)
    weir.signal(signal.SIGINT)
    refused = waiter.read_refusal()
    assert (refused.sqlstate, refused.text) == ("57P01", "server shutting down")
    holder.query("COMMIT")
    assert weir.wait_exit() == 0


def test_sigterm_waits_for_clients(weir):
    weir.start()
    client = weir.client()
    weir.signal(signal.SIGTERM)
    wait_until(lambda: not answers(weir))
    assert client.value("SELECT 1") == "1"
    assert weir.process.poll() is None
    client.close()
    assert weir.wait_exit() == 0


@pytest.mark.parametrize("first", (signal.SIGTERM, signal.SIGINT))
@pytest.mark.parametrize("second", (signal.SIGTERM, signal.SIGINT))
def test_the_second_signal_ends_at_once(weir, first, second):
    weir.start()
    client = weir.client()
    client.query("BEGIN")
    weir.signal(first)
    wait_until(lambda: not answers(weir))
    weir.signal(second)
    assert weir.wait_exit() == 0
    client.wait_closed()


def test_sigusr_pauses_and_resumes(weir):
    weir.start()
    client = weir.client()
    client.query("SELECT 1")
    weir.signal(signal.SIGUSR1)
    state = lambda: {r["key"]: r["value"] for r in weir.admin("SHOW STATE")}["paused"]  # noqa: E731
    wait_until(lambda: state() == "yes")
    client.send(query("SELECT 'later'"))
    weir.wait_pool(cl_waiting=1)
    weir.signal(signal.SIGUSR2)
    assert client.read_result().rows == [["later"]]
    assert state() == "no"


def test_sigusr2_while_shutting_down(weir):
    weir.start()
    client = weir.client()
    client.query("SELECT 1")
    weir.signal(signal.SIGUSR2)
    weir.wait_log("got SIGUSR2, but not paused$")
    weir.signal(signal.SIGTERM)
    weir.wait_log("got SIGTERM, shutting down")
    weir.signal(signal.SIGUSR2)
    weir.wait_log("got SIGUSR2 while shutting down, ignoring$")
    client.close()
    assert weir.wait_exit() == 0


def test_signals_that_must_not_hurt(weir):
    weir.start()
    for number in (signal.SIGPIPE, signal.SIGUSR2, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR1,
                   signal.SIGUSR2):
        weir.signal(number)
    wait_until(lambda: answers(weir))


def test_a_storm_of_reloads(weir):
    weir.start()
    client = weir.client()
    for _ in range(50):
        weir.signal(signal.SIGHUP)
        assert client.value("SELECT 1") == "1"
    weir.wait_log("re-reading config")


# -- leaks ----------------------------------------------------------------------------------------


def test_descriptors_do_not_leak(weir):

    def connect_often():
        for _ in range(50):
            weir.client().query("SELECT 1")
            weir.connections.pop().close()

    weir.start()
    weir.client().query("SELECT 1")
    weir.admin("SHOW VERSION")
    connect_often()  # each loop may keep a server
    before = weir.open_files()
    connect_often()
    weir.admin("RELOAD")
    wait_until(lambda: weir.open_files() <= before)


def test_it_rests_when_there_is_nothing_to_do(weir):
    import time
    weir.start()
    weir.client().query("SELECT 1")
    before = weir.cpu()
    time.sleep(1)  # counts events that must *not* happen during this second
    assert weir.cpu() - before < 0.2
