# SPDX-License-Identifier: ISC
"""Prometheus for pgweir: an exporter's scrape of the console, and alerts evaluated on it.

Metrics have the names of prometheus-community/pgbouncer_exporter. The supported part of PromQL is
what the rules in etc/prometheus use: instant vectors without matchers, numbers, + - * /, filtering
comparisons, and, or, unless, brackets. `for` is ignored: an alert "fires" here when its expression
is true.
"""

import math
import operator
import re

import yaml

POOLS = {
    "cl_active": "client_active_connections", "cl_waiting": "client_waiting_connections",
    "cl_active_cancel_req": "client_active_cancel_connections",
    "cl_waiting_cancel_req": "client_waiting_cancel_connections",
    "sv_active": "server_active_connections", "sv_active_cancel": "server_active_cancel_connections",
    "sv_being_canceled": "server_being_canceled_connections", "sv_idle": "server_idle_connections",
    "sv_used": "server_used_connections", "sv_tested": "server_testing_connections",
    "sv_login": "server_login_connections", "maxwait": "client_maxwait_seconds",
}
DATABASES = ("pool_size", "max_connections", "current_connections", "paused", "disabled")
LISTS = ("databases", "users", "pools", "free_clients", "used_clients", "login_clients",
         "free_servers", "used_servers")
CONFIG = {"max_client_conn": "max_client_connections",
          "max_user_connections": "max_user_connections"}


def number(value):
    return math.nan if value is None else float(value)


def labels(row, names):
    return tuple((name, str(row[name] if row[name] is not None else "")) for name in names)


def scrape(ask):
    """{metric: {labels: value}}, by ask(command), which returns rows as dicts."""
    metrics = {"pgbouncer_up": {(): 1.0}}

    def put(name, of, value):
        metrics.setdefault(f"pgbouncer_{name}", {})[of] = number(value)

    for row in ask("SHOW POOLS"):
        for column, name in POOLS.items():
            put(f"pools_{name}", labels(row, ("database", "user")), row[column])
    for row in ask("SHOW DATABASES"):
        of = labels(row, ("name", "host", "port", "database", "force_user", "pool_mode"))
        for column in DATABASES:
            put(f"databases_{column}", of, row[column])
    for row in ask("SHOW LISTS"):
        if row["list"] in LISTS:
            put(row["list"], (), row["items"])
    for row in ask("SHOW CONFIG"):
        if row["key"] in CONFIG:
            put(f"config_{CONFIG[row['key']]}", (), row["value"])
    return metrics


# -- the text format ------------------------------------------------------------------------------

SAMPLE = re.compile(r'([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{((?:[a-zA-Z_]\w*="(?:[^"\\\n]|\\["\\n])*",?)*)\})? (\S+)')
LABEL = re.compile(r'([a-zA-Z_]\w*)="((?:[^"\\\n]|\\["\\n])*)"')
ESCAPES = {'\\"': '"', "\\\\": "\\", "\\n": "\n"}


def parse(text, is_openmetrics=False):
    """({metric: {labels: value}}, {metric: type}) of what /metrics has. Asserts that it is well formed:
    each metric has HELP, TYPE and its samples at one place, and no sample comes twice.
    """
    samples, types, family = {}, {}, None
    lines = text.split("\n")
    assert lines.pop() == ""
    if is_openmetrics:
        assert lines.pop() == "# EOF"
    for line in lines:
        if line.startswith("# HELP "):
            family = line.split(" ")[2]
            assert family not in types, line
            continue
        if line.startswith("# TYPE "):
            name, kind = line.split(" ")[2:]
            assert name == family, line
            types[name] = kind
            continue
        match = SAMPLE.fullmatch(line)
        assert match, line
        name, of, value = match.groups()
        base = name
        if types[family] == "histogram":
            base = re.sub("(_bucket|_sum|_count)$", "", name)
        elif is_openmetrics and types[family] == "counter":
            assert name.endswith("_total"), line
            base = name.removesuffix("_total")
        assert base == family, line
        of = tuple((key, re.sub(r'\\["\\n]', lambda sign: ESCAPES[sign.group()], text))
                   for key, text in LABEL.findall(of or ""))
        assert of not in samples.setdefault(name, {}), line
        samples[name][of] = float(value)
    return samples, types


# -- expressions ----------------------------------------------------------------------------------

TOKEN = re.compile(r"\s*(?:(?P<number>\d+(?:\.\d+)?)|(?P<name>[a-zA-Z_]\w*)"
                   r"|(?P<sign>==|!=|>=|<=|[-+*/()<>]))")
ARITHMETIC = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}
COMPARISONS = {"==": operator.eq, "!=": operator.ne, ">": operator.gt, "<": operator.lt,
               ">=": operator.ge, "<=": operator.le}
LEVELS = ({"or"}, {"and", "unless"}, set(COMPARISONS), {"+", "-"}, {"*", "/"})


def split(text):
    text, at, tokens = text.strip(), 0, []
    while at < len(text):
        match = TOKEN.match(text, at)
        assert match, f"not of the subset: {text[at:]!r}"
        tokens.append(match.group().strip())
        at = match.end()
    return tokens


def combine(sign, one, other):
    """Vectors match by equal labels; a number matches each value."""
    if sign == "or":
        return {**other, **one}
    if sign in ("and", "unless"):
        return {of: value for of, value in one.items() if (of in other) == (sign == "and")}
    if not isinstance(one, dict) and not isinstance(other, dict):
        return ARITHMETIC[sign](one, other)
    result = {}
    for of in one if isinstance(one, dict) else other:
        if all(of in side for side in (one, other) if isinstance(side, dict)):
            left, right = [side[of] if isinstance(side, dict) else side for side in (one, other)]
            if sign in ARITHMETIC:
                result[of] = ARITHMETIC[sign](left, right)
            elif COMPARISONS[sign](left, right):
                result[of] = left if isinstance(one, dict) else right
    return result


class Expression:
    def __init__(self, text, metrics):
        self.tokens, self.metrics = split(text), metrics

    def value(self):
        result = self._level(0)
        assert not self.tokens, f"left over: {self.tokens}"
        return result

    def _level(self, level):
        if level == len(LEVELS):
            return self._atom()
        result = self._level(level + 1)
        while self.tokens and self.tokens[0] in LEVELS[level]:
            result = combine(self.tokens.pop(0), result, self._level(level + 1))
        return result

    def _atom(self):
        token = self.tokens.pop(0)
        if token == "(":
            result = self._level(0)
            assert self.tokens.pop(0) == ")"
            return result
        if token[0].isdigit():
            return float(token)
        is_up = self.metrics["pgbouncer_up"][()]
        assert token in self.metrics or not is_up, f"the exporter has no {token}"
        return self.metrics.get(token, {})


def rules(path):
    """{alert: expression}"""
    with open(path, encoding="utf-8") as file:
        groups = yaml.safe_load(file)["groups"]
    return {rule["alert"]: rule["expr"] for group in groups for rule in group["rules"]}


def firing(of_rules, metrics):
    """{alert: the labels for which it fires}"""
    found = {name: Expression(text, metrics).value() for name, text in of_rules.items()}
    return {name: [dict(of) for of in vector] for name, vector in found.items() if vector}
