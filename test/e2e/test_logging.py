# SPDX-License-Identifier: ISC
"""The log: JSON, rate limits, slow statements, and a reason for every disconnect."""

import json
import os
import re

from .kit.account import free_port
from .kit.wait import LIMIT, wait_until
from .kit.web import Web
from .kit.wire import bind, execute, message, parse, query, refusal, startup, sync


def objects(weir):
    """All complete JSON lines of the log."""
    lines = [line for line in weir.log.split("\n")[:-1] if line.startswith("{")]
    return [json.loads(line) for line in lines]


def wait_object(weir, text, **wanted):
    def find():
        for found in objects(weir):
            if text in found["message"] and wanted.items() <= found.items():
                return found
        return None
    return wait_until(find, what=f"a line with {text!r} and {wanted}")


# -- JSON -----------------------------------------------------------------------------------------


def test_a_line_is_an_object(pgweir):
    weir = pgweir(log_format="json")
    client = weir.client()
    client.query("SELECT 1")
    came = wait_object(weir, "login attempt: db=app user=alice", peer="client")
    assert (came["level"], came["pid"]) == ("LOG", weir.pid)
    assert (came["database"], came["user"]) == ("app", "alice")
    assert re.fullmatch(r"0x[0-9a-f]+", came["pointer"])
    assert re.fullmatch(r"127\.0\.0\.1:\d+", came["address"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d", came["time"])
    assert came["id"] in [row["id"] for row in weir.admin("SHOW CLIENTS")]
    wait_object(weir, "new connection to server", peer="server", database="app", user="alice")
    up = wait_object(weir, "process up")
    assert "peer" not in up and "address" not in up
    # text is the only format until the configuration has been read
    assert all(line.startswith("{") for line in weir.log.splitlines())


def test_what_a_peer_writes_stays_in_its_string(pgweir):
    weir = pgweir(log_format="json")
    name = 'x","level":"FATAL","y":"\n\x1b[2J\\'
    assert refusal(weir.address, user=name).severity == "FATAL"
    wait_object(weir, "login attempt", user=name)
    assert {found["level"] for found in objects(weir)} <= {"LOG", "WARNING"}


def test_broken_utf8_is_made_harmless(pgweir):
    weir = pgweir(log_format="json")
    client = weir.wire()
    client.send(startup(user="aliceXYZ", database="app").replace(b"XYZ", b"\xff\xc3\xa4"))
    wait_object(weir, "login attempt", user="alice\ufffd\u00e4")


def find_event(weir, event, **wanted):
    def find():
        for found in objects(weir):
            if found.get("event") == event and wanted.items() <= found.items():
                return found
        return None
    return wait_until(find, what=f"the event {event} with {wanted}")


def test_events_have_their_facts(pgweir):
    weir = pgweir(log_format="json", pool_mode="transaction", default_pool_size=1,
                  query_wait_timeout="0.1")
    find = lambda event, **wanted: find_event(weir, event, **wanted)
    holder = weir.client(application_name="holder")
    holder.query("BEGIN")
    find("login_attempt", database="app", user="alice", addr="127.0.0.1")
    find("connect", peer="server", addr="127.0.0.1")
    waits = weir.client(application_name="worker-3")
    waits.send(query("SELECT 1"))
    waits.read_refusal()
    who = dict(peer="client", database="app", user="alice", addr="127.0.0.1",
               application_name="worker-3", sqlstate="53300", reason="query_wait_timeout")
    error = find("error", level="WARNING", **who)
    assert error["wait_ms"] >= 100 and "duration_ms" not in error
    end = find("disconnect", level="LOG", **who)
    assert end["duration_ms"] >= error["wait_ms"] and "application_name" not in end["message"]
    weir.admin("SET query_timeout = 5")
    find("command", command="SET", setting="query_timeout", value="5", was="0", user="admin")
    weir.admin("RELOAD")
    find("command", command="RELOAD")
    holder.query("COMMIT")
    holder.close()
    end = find("disconnect", reason="client unexpected eof", application_name="holder")
    assert "sqlstate" not in end


def test_a_slow_statement_has_its_facts(pgweir):
    weir = pgweir(log_format="json", log_min_duration="1us", pool_mode="transaction")
    client = weir.client(application_name="worker-3")
    client.query('SELECT \'a "b"\'')
    found = find_event(weir, "slow_statement", statement='SELECT \'a "b"\'',
                       application_name="worker-3")
    assert found["duration_ms"] > 0 <= found["wait_ms"] and "sqlstate" not in found


def test_a_slow_statement_has_its_digest_and_its_trace(pgweir):
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    comment = f"/*route='%2Fshop',traceparent='{trace}'*/"
    weir = pgweir(log_format="json", log_min_duration="1us", pool_mode="transaction")
    client = weir.client()
    client.query(f"SELECT 'first' {comment}")
    first = find_event(weir, "slow_statement", traceparent=trace)
    client.query("SELECT 'second'")
    second = find_event(weir, "slow_statement", statement="SELECT 'second'")
    assert first["digest"] == second["digest"] and len(first["digest"]) == 16
    assert "traceparent" not in second
    weir.admin("SET track_statements = 10")
    client.ask(parse(f"{comment} SELECT 'x', 3" + " " * 2000, name="s"), bind(name="s"), execute(),
               sync())
    (row,) = weir.admin("SHOW STATEMENTS")
    assert find_event(weir, "slow_statement", digest=row["digest"])["traceparent"] == trace
    weir.admin("SET log_format = text")
    client.query(f"SELECT 'third' {comment}")
    weir.wait_log(rf" ms digest={first['digest']} traceparent={trace}: SELECT 'third' ")


# -- rate limits ----------------------------------------------------------------------------------


def test_what_comes_too_often_is_counted(pgweir):
    weir = pgweir(log_rate_limit=3, max_client_conn=1000)
    for _ in range(60):
        refusal(weir.address, database="nowhere")
    kind = "pooler error: no such database"

    def is_complete():
        told = len(re.findall(rf"WARNING C-0x.* {kind}: nowhere$", weir.log, re.MULTILINE))
        more = re.findall(rf"WARNING (\d+) more suppressed: {kind}\.\.\.$", weir.log, re.MULTILINE)
        return told >= 3 and more and told + sum(map(int, more)) == 60
    wait_until(is_complete)


def test_normal_use_loses_nothing(pgweir):
    weir = pgweir()
    for _ in range(100):
        weir.client("limited").close()
    wait_until(lambda: len(re.findall(r"app/limited@.* closing because: ", weir.log)) >= 100)
    assert len(re.findall("login attempt: db=app user=limited", weir.log)) == 100
    assert "suppressed" not in weir.log


# -- slow statements ------------------------------------------------------------------------------


def test_no_statement_is_told_by_default(pgweir):
    weir = pgweir()
    weir.client().query("SELECT pg_sleep(0.01) AS nobody_knows")
    assert "nobody_knows" not in weir.log


def test_a_slow_statement_is_told_and_a_quick_one_is_not(pgweir):
    weir = pgweir(log_min_duration="200ms")
    client = weir.client()
    client.query("SELECT 'quick'")
    client.query("SELECT pg_sleep(0.25), 'slow'")
    weir.wait_log(r"LOG C-0x\w+: app/alice@\S+ slow statement: \d+\.\d{3} ms digest=\w{16}: "
                  r"SELECT pg_sleep\(0\.25\), 'slow'$")
    assert "'quick'" not in weir.log


def test_waiting_and_running_apart(pgweir):
    weir = pgweir(log_min_duration="50ms", pool_mode="transaction", default_pool_size=1)
    holder, client = weir.client(), weir.client(application_name="worker-3")
    holder.query("BEGIN")
    holder.send(query("SELECT pg_sleep(0.1)"))
    client.send(query("SELECT 'waited'"))
    weir.wait_pool(cl_waiting=1)
    holder.read_result()
    holder.query("COMMIT")
    client.read_result()
    told = weir.wait_log(r'slow statement: (\S+) ms \(waiting (\S+) ms, running (\S+) ms\)'
                         r' application_name="worker-3" digest=\w{16}: SELECT \'waited\'$')
    whole, waiting, running = (float(number) for number in told.groups())
    assert abs(whole - waiting - running) < 0.01 and waiting > running


def test_the_application_name_stands_behind_the_end(pgweir):
    weir = pgweir()
    weir.client(application_name='a"b\nc').close()
    weir.wait_log(r'closing because: client unexpected eof \(age=\d+s\) application_name="a\?b\?c"$')
    weir.client().close()
    weir.wait_log(r"closing because: client unexpected eof \(age=\d+s\)$")


def test_values_of_parameters_are_never_told(pgweir):
    weir = pgweir(log_min_duration="1us", pool_mode="transaction")  # which follows names
    client = weir.client()
    client.ask(parse("SELECT $1::text /* one */", ""), bind(values=["sesame"]), execute(), sync())
    weir.wait_log(r"slow statement: .*SELECT \$1::text /\* one \*/$")
    client.ask(parse("SELECT $1::text /* two */", "named"), sync())
    since = len(weir.log)
    client.ask(bind(name="named", values=["sesame"]), execute(), sync())
    weir.wait_log(r"slow statement: .*SELECT \$1::text /\* two \*/$", since=since)
    assert "sesame" not in weir.log


def test_a_long_text_is_cut(pgweir):
    weir = pgweir(log_min_duration="1us")
    weir.client().query("SELECT '" + "x" * 100000 + "'")
    told = weir.wait_log(r"slow statement: \S+ ms: (SELECT 'x+)$").group(1)
    assert len(told) == 1000


# -- every disconnect has a reason ----------------------------------------------------------------


def test_clients_connected_at_the_end_are_logged_too(pgweir):
    weir = pgweir()
    client, waiting = weir.client(), weir.wire()
    client.query("SELECT 1")
    waiting.send(startup(user="alice", database="app")[:12])
    weir.admin("SHOW VERSION")
    weir.signal(3)
    assert weir.wait_exit() == 0
    assert re.search(r"C-0x\w+: app/alice@\S+ closing because: pooler is shutting down", weir.log)
    assert re.search(r"S-0x\w+: app/alice@\S+ closing because: server shutting down", weir.log)
    assert re.search(r"C-0x\w+: \(nodb\)/\(nouser\)@\S+ closing because: pooler is shutting", weir.log)


def test_as_many_endings_as_beginnings(pgweir):
    weir = pgweir()
    weir.client().close()
    weir.client().query("SELECT 1")
    refusal(weir.address, database="nowhere")
    broken = weir.client()
    broken.send(b"\0" * 10)
    assert broken.read_refusal().severity == "FATAL"
    cut = weir.client()
    cut.send(query("SELECT pg_sleep(5)")[:9])
    cut.close()
    weir.disconnect()
    weir.signal(3)
    assert weir.wait_exit() == 0
    came = re.findall(r"(C-0x\w+): \S+ login attempt", weir.log)
    ended = re.findall(r"(C-0x\w+): \S+ closing because: ", weir.log)
    assert sorted(came) == sorted(ended)
    # a server that was still connecting has a closing line, but no opening line
    assert (set(re.findall(r"(S-0x\w+): \S+ new connection", weir.log)) <=
            set(re.findall(r"(S-0x\w+): \S+ closing because: ", weir.log)))


def test_leaving_before_authentication_is_no_error(pgweir):
    """As pg_isready does, and psql before it prompts for the password."""
    weir = pgweir(auth_type="scram-sha-256")
    for user in ("alice", "nobody_knows"):
        with weir.wire() as probe:
            probe.startup(user)
            probe.expect("R")
    with weir.wire() as probe:
        probe.startup("polite")
        probe.expect("R")
        probe.send(message("X"))
        probe.wait_closed()
    rows = wait_until(lambda: [row for row in weir.admin("SHOW ERRORS") if row["count"] == 3])
    assert [(row["reason"], row["is_error"]) for row in rows] == \
        [("left before authentication", "no")]
    for user in ("alice", "nobody_knows", "polite"):
        lines = [line for line in weir.log.splitlines() if f"/{user}@" in line]
        assert len(lines) == 1 and "login attempt: " in lines[0]
    # A failed attempt is still logged.
    assert refusal(weir.address, "nobody_knows", password="guess").sqlstate == "28P01"
    assert "no such user: nobody_knows" in weir.log and "closing because:" in weir.log


def test_probes_of_the_command_line_are_no_errors(pgweir):
    weir = pgweir()
    for args in (["--ready", weir.socket_path], ["--drain", weir.socket_path],
                 ["--check", weir.ini, "--against", weir.socket_path]):
        assert weir.run(*args).returncode == 0, args
    assert [(row["reason"], row["is_error"]) for row in weir.admin("SHOW ERRORS")] == \
        [("client disconnected", "no")]


def test_a_kill_loses_no_line(make_pgweir):
    """
    An error sent to a client is already in the log, even if the daemon is killed right after it.
    A delayed writer would lose most of these lines, so a few attempts are sufficient.
    """
    weir = make_pgweir(postgres=None, databases={"app": "host=127.0.0.1 port=1"})
    said = []
    for number in range(12):
        weir.start()
        assert refusal(weir.address, database=f"none{number}").sqlstate == "3D000"
        weir.process.kill()
        weir.process.wait(LIMIT)
        said.append(f"closing because: no such database: none{number} (age" in weir.log)
    assert said == [True] * 12
    weir.start()


# -- a full disk ----------------------------------------------------------------------------------


def test_lines_that_a_full_disk_loses_are_counted(make_pgweir):
    """A limit on the size of files stands for the disk: no line is torn, and later the log says it."""
    weir = make_pgweir()
    path, port = weir.dir + "/own.log", free_port()
    weir.configure(logfile=path, metrics_listen=f"127.0.0.1:{port}")
    weir.start()

    def log():
        with open(path, encoding="utf-8") as file:
            return file.read()

    def lost():
        return int(re.search(r"^pgweir_log_lines_lost_total (\d+)$", Web(port).ask("/metrics").text,
                             re.MULTILINE)[1])
    wait_until(lambda: "process up" in log())
    assert lost() == 0

    def limit(size):
        weir.account.run(["prlimit", "--pid", str(weir.pid), f"--fsize={size}:"])
    limit(len(log()) + 1500)
    for _ in range(20):
        assert refusal(weir.address, user="alice", database="nothing").sqlstate == "3D000"
    told = wait_until(lambda: [row["text"] for row in weir.admin("SHOW EVENTS")
                               if row["kind"] == "lines lost"])
    assert told == ["the log file cannot be written: lines are lost"]
    assert log().endswith("\n")
    limit("unlimited")

    def is_told():
        assert weir.client().value("SELECT 1") == "1"
        return re.search(r"WARNING ([1-9]\d*) log lines lost: the log file could not be", log())
    assert lost() >= int(wait_until(is_told)[1])
    assert all(re.match(r"\d{4}-\d\d-\d\d |\t", line) for line in log().splitlines())
