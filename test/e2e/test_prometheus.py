# SPDX-License-Identifier: ISC
"""What we give to Prometheus, judged by its own programs: promtool, and a Prometheus that scrapes."""

import json
import os
import re
import shutil
import signal
import subprocess
import urllib.parse
import urllib.request

import pytest

from .kit.account import free_port
from .kit.wait import LIMIT, wait_until
from .kit.web import Web

FOLDER = os.path.join(os.path.dirname(__file__), "..", "..", "etc", "prometheus")
RULES = ("pgweir-rules.yaml", "pgweir-metrics-rules.yaml")

pytestmark = pytest.mark.skipif(not shutil.which("promtool") or not shutil.which("prometheus"),
                                reason="there is no Prometheus: ./test/run prometheus installs one")


def promtool(*arguments, **kw):
    done = subprocess.run(("promtool", *arguments), capture_output=True, text=True, timeout=60, cwd=FOLDER,
                          **kw)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture
def weir(pgweir):
    port = free_port()
    weir = pgweir(metrics_listen=f"127.0.0.1:{port}", pool_mode="transaction", loops=2)
    weir.web_port = port
    for database in ("app", "app2"):
        assert weir.client(database=database, application_name='shop "1"').value("SELECT 1") == "1"
    return weir


def test_metrics_are_as_they_should_be(weir):
    assert promtool("check", "metrics", input=Web(weir.web_port).ask("/metrics").text) == ""


def test_the_rules():
    for name in RULES:
        with open(os.path.join(FOLDER, name), encoding="utf-8") as file:
            count = len(re.findall(r"^ *- (?:alert|record):", file.read(), re.MULTILINE))
        assert count and f"SUCCESS: {count} rules found" in promtool("check", "rules", name)
    assert "SUCCESS" in promtool("test", "rules", "pgweir-rules-test.yaml")
    promtool("check", "config", "--syntax-only", "scrape.yaml")


def test_the_example_of_opentelemetry():
    yaml = pytest.importorskip("yaml")
    with open(os.path.join(FOLDER, "..", "otel", "collector.yaml"), encoding="utf-8") as file:
        config = yaml.safe_load(file)
    pipeline = config["service"]["pipelines"]["metrics"]
    for part in ("receivers", "processors", "exporters"):
        assert set(pipeline[part]) <= set(config[part])


@pytest.fixture
def prometheus(account, weir):
    port = free_port()
    folder = account.mkdir(f"{weir.dir}/prometheus")
    config = account.write(f"{folder}/prometheus.yml", json.dumps({
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [shutil.copy(os.path.join(FOLDER, name), folder) for name in RULES],
        "scrape_configs": [{"job_name": "pgweir", "static_configs": [
            {"targets": [f"127.0.0.1:{weir.web_port}"]}]}]}))
    for name in RULES:
        account.own(f"{folder}/{name}", 0o644)
    process = account.popen(("prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder}/data",
                             f"--web.listen-address=127.0.0.1:{port}"), cwd=folder,
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def ask(expression):
        query = urllib.parse.urlencode({"query": expression})
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/query?{query}", timeout=LIMIT) as answer:
            return {tuple(sorted(row["metric"].items())): float(row["value"][1])
                    for row in json.load(answer)["data"]["result"]}

    def is_up():
        try:
            return list(ask('up{job="pgweir"}').values()) == [1]
        except OSError:
            return False

    try:
        wait_until(is_up, what="the first scrape")
        yield ask
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def test_prometheus_scrapes(prometheus, weir):
    def value(expression):
        (found,) = prometheus(expression).values()
        return found

    assert value("pgbouncer_up") == 1
    assert value("scrape_samples_scraped") > 100
    assert value('pgbouncer_stats_totals_queries_pooled_total{database="app"}') == 1
    assert value('pgbouncer_client_connections{database="app"}') == 1
    assert 0 < value('histogram_quantile(0.99, pgweir_query_seconds_bucket)') <= 30
    assert value("sum(pgweir_loop_clients)") == 2
    assert prometheus('ALERTS{alertstate="firing"}') == {}
    weir.admin("PAUSE")
    wait_until(lambda: value("pgweir_ready") == 0, what="the next scrape")
    wait_until(lambda: any(("alertname", "PgweirNotReady") in of for of in prometheus("ALERTS")),
               what="a pending alert")
