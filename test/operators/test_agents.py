# SPDX-License-Identifier: ISC
"""Agents that read PgBouncer's console, at pgweir's: Telegraf's plug-in, and the exporter of the
Prometheus community, of each release that Debian has.

Datadog's agent and jbub's exporter are not to be had: what they ask for is replayed in
test/e2e/test_monitoring.py.
"""

import contextlib
import re
import subprocess
import urllib.error
import urllib.parse
import urllib.request

import pytest

from e2e.kit.account import free_port
from e2e.kit.daemon import USERS
from e2e.kit.wait import wait_exit, wait_until

from . import build

pytestmark = pytest.mark.limit(build.LIMIT)

CONFIG = """[[inputs.pgbouncer]]
address = "host=127.0.0.1 port={port} user=stats password='{password}' dbname=pgbouncer sslmode=disable"
show_commands = ["stats", "pools", "lists", "databases"]
"""


VERSIONS = pytest.mark.parametrize("version", (None, "1.23", "1.24", "1.25"))


@VERSIONS
def test_telegraf(pgweir, tmp_path, version):
    program = build.need("telegraf")
    weir = pgweir(auth_type="scram-sha-256", console_version=version)
    client = weir.client("scram_user", password=USERS["scram_user"])
    assert client.value("SELECT 1") == "1"
    config = tmp_path / "telegraf.conf"
    config.write_text(CONFIG.format(port=weir.port, password=USERS["stats"]), encoding="utf-8")
    done = subprocess.run([program, "--config", config, "--test"], capture_output=True, text=True,
                          timeout=120, check=False)
    assert done.returncode == 0 and " E! " not in done.stderr, done.stderr
    lines = [line for line in done.stdout.splitlines() if "db=app," in line]
    found = dict(re.findall(r"(\w+)=(\d+)i", " ".join(lines)))
    assert found["total_query_count"] == "1" and found["sv_idle"] == "1" or found["sv_active"] == "1"
    assert {"pgbouncer", "pgbouncer_pools", "pgbouncer_lists", "pgbouncer_databases"} <= {
        re.match(r"> (\w+)", line).group(1) for line in done.stdout.splitlines() if line.startswith(">")}


@contextlib.contextmanager
def exporting(weir, suite):
    """The exporter of that suite of Debian's: a function that scrapes it, and the path of its log."""
    program = build.need_package("prometheus-pgbouncer-exporter", suite) / "usr/bin/prometheus-pgbouncer-exporter"
    port, log = free_port(), f"{weir.dir}/exporter.log"
    login = f"stats:{urllib.parse.quote(USERS['stats'])}@127.0.0.1:{weir.port}"
    with open(log, "wb") as file:
        process = subprocess.Popen(
            [program, f"--web.listen-address=127.0.0.1:{port}", f"--pgBouncer.pid-file={weir.dir}/pid",
             f"--pgBouncer.connectionString=postgres://{login}/pgbouncer?sslmode=disable"],
            stdin=subprocess.DEVNULL, stdout=file, stderr=file)

    def read():
        assert process.poll() is None, f"it ended: {log}"
        with contextlib.suppress(urllib.error.URLError):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
                return re.findall(r"^pgbouncer_(\S+) (\S+)$", answer.read().decode(), re.MULTILINE)

    try:
        yield lambda: dict(wait_until(read, what="the exporter")), log
    finally:
        process.kill()
        wait_exit(process, 30)


@VERSIONS
@pytest.mark.parametrize("suite, stats", (("trixie", "stats_"), ("sid", "stats_totals_")))
def test_exporter(make_pgweir, suite, stats, version):
    weir = make_pgweir(auth_type="scram-sha-256", console_version=version)
    weir.configure(pidfile=f"{weir.dir}/pid").start()
    client = weir.client("scram_user", password=USERS["scram_user"])
    assert client.value("SELECT 1") == "1"
    with exporting(weir, suite) as (scrape, log):
        assert scrape()["up"] == "1"
        found = scrape()
        with open(log, encoding="utf-8") as file:
            assert not re.search("level=(warn|error)", file.read(), re.IGNORECASE)
    wanted = {"up": 1, "config_max_client_connections": 500, "used_servers": 1,
              'databases_pool_size{database="app",force_user="",host="127.0.0.1",name="app",pool_mode="",'
              f'port="{weir.postgres.port}"}}': 20,
              'pools_client_active_connections{database="app",user="scram_user"}': 1,
              'pools_client_maxwait_seconds{database="app",user="scram_user"}': 0,
              stats + 'queries_pooled_total{database="app"}': 1}
    assert {name: float(found[name]) for name in wanted} == wanted
    # Of each table that it asks for, and of /proc by the file of the pid.
    families = {name.partition("{")[0] for name in found}
    assert len([name for name in families if name.startswith("pools_")]) == 12
    assert len([name for name in families if name.startswith(stats)]) >= 7
    assert len([name for name in families if name.startswith("databases_")]) >= 5
    assert {"cached_dns_names", "in_flight_dns_queries", "process_open_fds"} <= families
