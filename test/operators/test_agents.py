# SPDX-License-Identifier: ISC
"""Telegraf's own plug-in for PgBouncer, at pgweir's console.

The exporter of the Prometheus community and Datadog's agent are not to be had as modules: what they
ask for is replayed in test/e2e/test_monitoring.py.
"""

import re
import subprocess

import pytest

from e2e.kit.daemon import USERS

from . import build

pytestmark = pytest.mark.limit(build.LIMIT)

CONFIG = """[[inputs.pgbouncer]]
address = "host=127.0.0.1 port={port} user=stats password='{password}' dbname=pgbouncer sslmode=disable"
show_commands = ["stats", "pools", "lists", "databases"]
"""


@pytest.mark.parametrize("version", (None, "1.23", "1.24", "1.25"))
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
