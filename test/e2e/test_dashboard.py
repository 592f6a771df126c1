# SPDX-License-Identifier: ISC
"""The dashboard for Grafana, etc/grafana/pgweir.json, and the alerts: their queries, and the metrics that they name."""

import json
import pathlib
import re
import shutil
import subprocess

import pytest
import yaml

from .kit import prometheus
from .kit.account import free_port
from .kit.web import Web

ETC = pathlib.Path(__file__).parents[2] / "etc"
BOARD = json.loads((ETC / "grafana" / "pgweir.json").read_text(encoding="utf-8"))
ALERTS = prometheus.rules(ETC / "prometheus" / "pgweir-metrics-rules.yaml").values()
PANELS = [panel for panel in BOARD["panels"] if panel["type"] != "row"]
MARKS = BOARD["annotations"]["list"]
QUERIES = [target["expr"] for panel in PANELS for target in panel["targets"]] + [mark["expr"] for mark in MARKS]
VARIABLES = {each["name"]: each for each in BOARD["templating"]["list"]}


def metrics_of(text):
    return set(re.findall(r"\b((?:pgbouncer|pgweir|process)_\w+)", text))


def test_each_metric_that_it_names_exists(pgweir):
    port = free_port()
    pgweir(metrics_listen=f"127.0.0.1:{port}").connect().execute("SELECT 1")
    known = set()
    for name, kind in re.findall(r"^# TYPE (\S+) (\S+)$", Web(port).ask("/metrics").text, re.MULTILINE):
        known |= {f"{name}_{end}" for end in ("bucket", "sum", "count")} if kind == "histogram" else {name}
    wanted = metrics_of("\n".join([*QUERIES, *ALERTS, *(each.get("definition", "") for each in VARIABLES.values())]))
    assert len(wanted) > 30
    assert not wanted - known


def test_each_query_is_valid(tmp_path):
    promtool = shutil.which("promtool")
    if not promtool:
        pytest.skip("there is no promtool (package prometheus)")
    rules = [{"record": f"query{number}", "expr": query.replace("$__rate_interval", "1m")}
             for number, query in enumerate(QUERIES)]
    file = tmp_path / "queries.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": rules}]}))
    checked = subprocess.run([promtool, "check", "rules", str(file)], capture_output=True, text=True, timeout=60)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert f"{len(QUERIES)} rules found" in checked.stdout + checked.stderr


def test_its_variables_are_those_that_the_queries_use():
    used = set(re.findall(r"\$(\w+)", "\n".join(QUERIES))) - {"__rate_interval"}
    assert used == set(VARIABLES) - {"datasource"}
    assert all(each["datasource"]["uid"] == "${datasource}" for each in (*PANELS, *MARKS, *(
        variable for variable in VARIABLES.values() if variable["type"] == "query")))


def test_no_panel_covers_another():
    covered = {}
    for panel in BOARD["panels"]:
        at = panel["gridPos"]
        for x in range(at["x"], at["x"] + at["w"]):
            for y in range(at["y"], at["y"] + at["h"]):
                assert covered.setdefault((x, y), panel["title"]) == panel["title"] and x < 24
    assert len({panel["id"] for panel in BOARD["panels"]}) == len(BOARD["panels"])
