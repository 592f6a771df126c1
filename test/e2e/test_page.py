# SPDX-License-Identifier: ISC
"""The live page (src/web/page.html) in a real browser, in front of a scripted API."""

import base64
import contextlib
import datetime
import hashlib
import http.server
import json
import os
import pathlib
import re
import threading
import time
import urllib.parse

import pytest

from .kit.account import free_port
from .kit.browser import Browser, find_browser
from .kit.wait import wait_until
from .kit.wire import query

PAGE = pathlib.Path(__file__).parents[2] / "src" / "web" / "page.html"
EVIL = "<img src=x onerror='hurt=1'>\"&amp;<script>hurt=1</script>"  # fewer than 64 bytes
VIEWS = ("overview", "pools", "waiting", "clients", "statements", "applications", "latency",
         "servers", "hosts", "errors", "events", "limits", "loops", "tables")

pytestmark = pytest.mark.skipif(
    not find_browser(), reason="there is no Chromium: ./test/run page installs one")

# Columns of the tables that the page shows; a name that ends with # is a number.
TABLES = {
    "READY": "ready reason",
    "VERSION": "version",
    "POOLS": "database user cl_active# cl_waiting# sv_active# sv_active_cancel# sv_being_canceled#"
             " sv_idle# sv_used# sv_tested# sv_login# maxwait# maxwait_us# pool_mode",
    "WAITING": "database user place# wait# wait_us# reason detail application_name addr port# ptr id#",
    "TRANSACTIONS": "id# database user application_name addr port# ptr server_pid# state state_since"
                    " xact_since wait# seconds# xact_seconds# statement",
    "PINNED": "id# database user application_name addr port# ptr link server_pid# since seconds# why"
              " statement",
    "LIMITS": "limit database user value# source used# hits#",
    "ERRORS": "type reason is_error count# last_time last_database last_user last_message",
    "DATABASES": "name host port# pool_size# current_connections# current_client_connections#"
                 " paused# disabled#",
    "STATS_TOTALS": "database server_assignment_count# xact_count# query_count# bytes_received#"
                    " bytes_sent# xact_time# query_time# wait_time#",
    "CLIENTS": "type user database state addr port# connect_time request_time wait# wait_us# ptr"
               " remote_pid# tls application_name prepared_statements# id#",
    "SERVERS": "type user database state addr port# connect_time request_time wait# wait_us# ptr"
               " remote_pid# tls application_name prepared_statements# id#",
    "LOOPS": "loop# clients# servers# idle_servers# active_servers# turns# cpu_time# servers_in#"
             " servers_out#",
    "LISTS": "list items#",
    "MEM": "name size# used# free# memtotal#",
    "DNS_HOSTS": "hostname ttl# addrs",
    "PEERS": "peer_id# host port# pool_size#",
    "CONFIG": "key value default changeable",
    "COLUMNS": "item column type meaning",
    "HISTORY": "resolution at age_s# xacts# queries# errors# received# sent# wait_p99_us#"
               " statement_p50_us# statement_p95_us# statement_p99_us# xact_p99_us# cl_active#"
               " cl_waiting# sv_active# sv_idle# maxwait_us# logins#",
    "LATENCY": "scope database user kind window count# mean_us# p50_us# p90_us# p95_us# p99_us#"
               " p999_us# max_us#",
    "SQLSTATES": "sqlstate name side severity count# last database user",
    "STATEMENTS": "digest database user application calls# errors# sqlstate total_us# mean_us#"
                  " max_us# p95_us# wait_total_us# wait_mean_us# wait_p95_us# rows# bytes#"
                  " error_bound# since query",
    "APPLICATIONS": "application_name clients# active# waiting# pinned# xacts# errors#"
                    " longest_xact_s#",
    "EVENTS": "at age_s# kind level database user text",
    "HOSTS": "entry host address role timeline# position lag_us# lag_bytes# state since servers#"
             " latency_us# watch lost_bytes# last_error",
}


def utc(seconds=0):
    now = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(seconds=seconds)
    return now.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Stage:
    """Serves the page and what the test wants each table to be: rows (dicts; what is left out is 0
    or empty), a function that returns them, or an HTTP status with which they are refused.
    """

    def __init__(self):
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}/"
        self.rows = {name: [] for name in TABLES}
        self.rows["READY"] = [{"ready": "yes"}]
        self.rows["VERSION"] = [{"version": "PgBouncer 1.26.1 (pgweir 0.3.0)"}]
        self.asked = []
        self.pace = 0  # seconds that an answer takes
        self.now = self.most = 0  # requests at a time
        self._lock = threading.Lock()
        self._server = None

    def start(self):
        stage = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_GET(self):
                if stage._server is None:  # has ended, with connections open
                    self.close_connection = True
                    return
                status, kind, text, fields = stage.answer(self.path)
                body = text.encode()
                self.send_response(status)
                for name, value in {"Content-Type": kind, "Content-Length": len(body), **fields}.items():
                    self.send_header(name, str(value))
                self.end_headers()
                self.wfile.write(body)

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True
            block_on_close = False

            def handle_error(self, *_):
                """A browser that went away is no event."""

        self._server = Server(("127.0.0.1", self.port), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def stop(self):
        server, self._server = self._server, None
        if server:
            server.shutdown()
            server.server_close()

    def answer(self, path):
        path = urllib.parse.urlsplit(path)
        if path.path == "/":
            return 200, "text/html; charset=utf-8", page_text(), {"Content-Security-Policy": policy()}
        with self._lock:
            self.asked.append(f"{path.path}?{path.query}" if path.query else path.path)
            self.now += 1
            self.most = max(self.most, self.now)
        time.sleep(self.pace)
        status, body = self.api(urllib.parse.unquote(path.path))
        with self._lock:
            self.now -= 1
        return status, "application/json", json.dumps(body), {}

    def api(self, path):
        if path == "/api/v1/show":
            return 200, {"tables": [{"name": name, "argument": "[db]", "help": f"What {name} has."} for name in TABLES]}
        name = path.removeprefix("/api/v1/show/").upper()
        rows = self.rows.get(name, 404)
        if isinstance(rows, int):
            return rows, {"error": f"no table {name}", "hint": "SHOW HELP lists them"}
        return 200, table(name, rows() if callable(rows) else rows)


def table(name, rows):
    columns = TABLES[name].split()
    return {"name": name, "at": utc(),
            "columns": [{"name": column.rstrip("#"), "type": "int8" if column.endswith("#") else "text"}
                        for column in columns],
            "rows": [[row.get(column.rstrip("#"), 0 if column.endswith("#") else "")
                      for column in columns] for row in rows]}


def page_text():
    return PAGE.read_text(encoding="utf-8")


def policy():
    """The policy of src/web/web.c: the style and the script are allowed by their hashes."""
    def hashes(name):
        found = re.findall(f"<{name}>(.*?)</{name}>", page_text(), re.DOTALL)
        return " ".join("'sha256-%s'" % base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
                        for text in found)
    return ("default-src 'none'; connect-src 'self'; img-src data:;"
            f" style-src {hashes('style')}; script-src {hashes('script')}; base-uri 'none'; form-action 'none';"
            " frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'")


@pytest.fixture(scope="module")
def browser(account, place):
    made = Browser(account, os.path.join(place, "browser"))
    yield made
    made.close()


@pytest.fixture
def stage():
    made = Stage().start()
    yield made
    made.stop()


@pytest.fixture
def tab(browser, request):
    page = browser.page()
    page.allowed = []  # patterns of problems that the test causes
    yield page
    page.js("1")  # what has come so far
    page.close()
    unexpected = [text for text in page.problems
                  if not any(re.search(pattern, text) for pattern in page.allowed)]
    assert not unexpected, unexpected
    foreign = [url for url in page.requests if not url.startswith(("http://127.0.0.1:", "data:", "about:"))]
    assert not foreign, foreign


def text_of(tab, selector="#body"):
    return (tab.js(f"document.querySelector({selector!r}).innerText") or "").replace("\xa0", " ")


def see(tab, text, selector="#body"):
    """Waits until the text can be seen."""
    wait_until(lambda: text in text_of(tab, selector), what=f"{text!r} on the page")


def column(tab, section, label):
    """The cells of one column of the table with that title."""
    return [cell.replace("\xa0", " ") for cell in tab.js(f"""(() => {{
        const table = document.querySelector('table[aria-label={json.dumps(section)}]');
        const at = [...table.querySelectorAll("thead th")].findIndex(
            head => head.innerText.replace(/[↑↓]/, "").trim() === {json.dumps(label)});
        return [...table.querySelectorAll("tbody tr")].map(row => row.children[at].innerText);
    }})()""")]


def pool(database="app", user="alice", **values):
    return {"database": database, "user": user, "pool_mode": "transaction", **values}


def history(seconds=60, **values):
    return [{"resolution": "second", "at": utc(age), "age_s": age, "xacts": 1200, "queries": 2400,
             "statement_p50_us": 400, "statement_p95_us": 1500, "statement_p99_us": 6100, **values}
            for age in range(seconds, 0, -1)]


# ---- the page as a whole ------------------------------------------------------------------------

def fill(stage, text):
    """A row in each table, with this text wherever a text can be."""
    for name, columns in TABLES.items():
        if name not in ("READY", "VERSION", "COLUMNS"):
            stage.rows[name] = [{each: text for each in columns.split() if not each.endswith("#")}]
    stage.rows["HISTORY"] = history()
    stage.rows["LATENCY"][0].update(scope="pool", kind="statement", window="minute")
    stage.rows["EVENTS"][0]["at"] = utc(5)
    stage.rows["LIMITS"][0].update(value=10, used=9)


def views(url, tab, names=(*VIEWS, "pool?db=app")):
    """Opens one after the other, and waits until each has a table."""
    tab.goto(url)
    for name in names:
        tab.js(f"location.hash = {json.dumps(name)}")
        tab.wait(f"address.view === '{name.partition('?')[0]}'"
                 " && document.querySelectorAll('#body tbody tr').length > 0")
        yield name


def test_names_are_never_markup(stage, tab):
    fill(stage, EVIL)
    stage.rows["READY"] = [{"ready": "no", "reason": EVIL}]
    hostile = urllib.parse.urlencode({"db": EVIL, "user": EVIL})
    for _ in views(stage.url, tab, (*VIEWS, "tables?table=POOLS", f"pool?{hostile}")):
        see(tab, EVIL)
        assert tab.js("document.querySelectorAll('img, #body script, iframe').length") == 0
    assert tab.js("window.hurt") is None


@pytest.mark.parametrize("width", (360, 1280))
def test_nothing_is_wider_than_the_screen(stage, tab, width):
    fill(stage, "a_rather_long_name_of_an_application_without_a_blank_" * 3)
    stage.rows["POOLS"][0].update(database="app")
    tab.size(width, 800)
    for view in views(stage.url, tab):
        assert tab.js("document.documentElement.scrollWidth") <= width, view


# What of a table is beyond the right edge of its box, and must be scrolled to.
CUT = """[...document.querySelectorAll("#body .wide")].filter(box => box.scrollWidth > box.clientWidth + 1)
    .map(box => box.getAttribute("aria-label")).join(", ")"""


@pytest.mark.parametrize("width", (390, 1440))
def test_no_column_is_cut(stage, tab, width):
    """Not with names and numbers of usual length, neither on a desk nor on a phone."""
    fill(stage, "shop_production")
    for name, columns in TABLES.items():
        for row in stage.rows[name] if name not in ("HISTORY", "READY", "VERSION", "COLUMNS") else []:
            row.update({each[:-1]: 1234567 for each in columns.split() if each.endswith("_us#")})
    stage.rows["STATEMENTS"][0].update(query="SELECT total FROM orders WHERE id = $1 " * 5, calls=12345, rows=10**6,
                                       errors=12, sqlstate="40001")
    stage.rows["TRANSACTIONS"][0].update(state="idle in transaction", xact_seconds=4000, seconds=4000)
    stage.rows["CLIENTS"][0].update(tls="TLSv1.3/TLS_AES_256_GCM_SHA384/ECDH=X25519", addr="10.20.30.40", port=50000,
                                    connect_time="2026-11-27 12:00:01 UTC", request_time="2026-11-27 12:40:01 UTC")
    stage.rows["SERVERS"] = stage.rows["CLIENTS"]
    stage.rows["POOLS"][0]["database"] = "app"
    host = "pg-1.shop.example.internal"
    stage.rows["HOSTS"][0].update(host=host, address="10.20.30.40", watch="no: it has no pool yet",
                                  role="standby", state="diverged", since=utc(7200), position="1A/2B3C4D5E",
                                  last_error="could not connect: Connection timed out")
    stage.rows["DATABASES"][0].update(host=f"{host},{host}", port=5432)
    tab.size(width, 900)
    for view in views(stage.url, tab):
        assert tab.js(CUT) == "", view


def test_two_themes_with_enough_contrast(stage, tab):
    fill(stage, "text")
    tab.prefer("dark")
    tab.goto(stage.url)
    see(tab, "text")
    contrasts = {}
    for theme in ("dark", "light"):
        tab.prefer(theme)
        tab.wait(f"document.documentElement.dataset.theme === '{theme}'")
        colors = json.loads(tab.js("""JSON.stringify(Object.fromEntries(
            ["bg", "surface", "soft", "text", "muted", "accent", "tint", "ok", "warn", "bad", "warn-tint", "bad-tint"].map(name =>
            [name, getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim()])))"""))
        for front, back in (("text", "bg"), ("text", "surface"), ("text", "soft"), ("muted", "surface"),
                            ("muted", "bg"), ("muted", "soft"), ("accent", "surface"), ("accent", "tint"),
                            ("ok", "surface"), ("warn", "surface"), ("bad", "surface"),
                            ("warn", "warn-tint"), ("bad", "bad-tint")):
            contrasts[theme, front, back] = contrast(colors[front], colors[back])
    assert not {pair: value for pair, value in contrasts.items() if value < 4.5}


def contrast(one, other):
    """As WCAG 2 has it."""
    def luminance(color):
        digits = color.lstrip("#")
        if len(digits) == 3:
            digits = "".join(digit * 2 for digit in digits)
        parts = [int(digits[at:at + 2], 16) / 255 for at in (0, 2, 4)]
        parts = [part / 12.92 if part <= .03928 else ((part + .055) / 1.055) ** 2.4 for part in parts]
        return .2126 * parts[0] + .7152 * parts[1] + .0722 * parts[2]
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + .05) / (dark + .05)


def test_the_theme_can_be_switched_and_stays(stage, tab):
    tab.prefer("dark")
    tab.goto(stage.url)
    theme = "document.documentElement.dataset.theme"
    assert tab.js(theme) == "dark"
    tab.press("t")
    tab.wait(f"{theme} === 'light'")
    tab.goto(f"{stage.url}?again")
    assert tab.js(theme) == "light"


NAMED = ("button", "link", "textbox", "searchbox", "combobox", "table", "region", "image", "main",
         "navigation", "heading")


def test_a_screen_reader_finds_its_way(stage, tab):
    fill(stage, "text")
    stage.rows["POOLS"][0]["database"] = "app"
    for view in views(stage.url, tab):
        nodes = tab.call("Accessibility.getFullAXTree")["nodes"]
        names = [(node["role"]["value"], node.get("name", {}).get("value", "")) for node in nodes
                 if not node.get("ignored")]
        roles = {role for role, _ in names}
        assert {"banner", "navigation", "main", "table", "columnheader", "rowheader"} <= roles, view
        assert not [role for role, name in names if not name.strip() and role in NAMED], view
        assert tab.js("document.querySelectorAll('h1').length") == 1
    assert tab.js("document.documentElement.lang") == "en"


# ---- tables: order, filter, links ---------------------------------------------------------------

POOLS = [pool("one", cl_waiting=3, maxwait=2), pool("two", cl_waiting=0), pool("three", cl_waiting=20),
         pool("ten", "bob", cl_waiting=100)]


def test_order_by_a_column_is_in_the_link(stage, tab):
    stage.rows["POOLS"] = POOLS
    tab.goto(f"{stage.url}#pools")
    see(tab, "one/alice")
    assert column(tab, "Pools", "waiting")[0] == "3"  # longest wait first
    head = "table[aria-label=Pools] th:nth-child(8)"
    tab.click(f"{head} button")
    assert column(tab, "Pools", "waiting") == ["100", "20", "3", "0"]
    assert tab.js(f"document.querySelector('{head}').getAttribute('aria-sort')") == "descending"
    tab.click(f"{head} button")
    assert column(tab, "Pools", "waiting") == ["0", "3", "20", "100"]
    link = tab.js("location.href")
    tab.goto("about:blank")
    tab.goto(link)
    see(tab, "one/alice")
    assert column(tab, "Pools", "waiting") == ["0", "3", "20", "100"]


def test_a_filter_with_words_that_must_and_must_not_occur(stage, tab):
    stage.rows["POOLS"] = POOLS
    tab.goto(f"{stage.url}#pools")
    see(tab, "one/alice")
    tab.press("/")
    tab.type("t alice -three")
    assert column(tab, "Pools", "pool") == ["one/alice", "two/alice"]  # "transaction" has a t
    see(tab, "2 of 4")
    link = tab.js("location.href")
    tab.press("Escape")
    assert len(column(tab, "Pools", "pool")) == 4
    tab.goto("about:blank")
    tab.goto(link)
    see(tab, "2 of 4")
    assert tab.js("document.getElementById('search').value") == "t alice -three"


def test_digits_brackets_and_arrows_change_the_view(stage, tab):
    tab.goto(stage.url)
    title = "document.getElementById('title').textContent"
    for key, wanted in (("2", "Pools"), ("9", "Hosts"), ("0", "Errors"), ("]", "Events"), ("[", "Errors"), ("1", "Overview"),
                        ("[", "All tables")):
        tab.press(key)
        tab.wait(f"{title} === '{wanted}'")
    tab.js("document.querySelector('nav a').focus()")
    tab.press("ArrowDown")
    tab.press("Enter")
    tab.wait(f"{title} === 'Pools'")
    assert tab.js("document.querySelector('nav a[aria-current]').textContent").startswith("Pools")
    tab.press("?")
    tab.wait("document.getElementById('help').open")
    tab.press("Escape")
    tab.wait("!document.getElementById('help').open")


def test_the_first_tab_skips_to_the_content(stage, tab):
    tab.goto(stage.url)
    tab.press("Tab")
    assert tab.js("document.activeElement.id") == "skip"
    tab.press("Enter")
    tab.wait("document.activeElement.id === 'content'")


def test_the_focus_stays_at_its_row(stage, tab):
    waits = [{"one": 1, "two": 2}]
    stage.rows["POOLS"] = lambda: [pool(name, maxwait=wait) for name, wait in waits[-1].items()]
    tab.goto(f"{stage.url}#pools")
    see(tab, "two/alice")
    tab.js("[...document.querySelectorAll('tbody a')].find(a => a.innerText === 'one/alice').focus()")
    waits.append({"one": 5, "two": 2})
    wait_until(lambda: column(tab, "Pools", "pool")[0] == "one/alice")
    assert tab.js("document.activeElement.innerText") == "one/alice"


def test_ten_thousand_clients_do_not_fill_the_page(stage, tab):
    rows = [{"user": "alice", "database": "app", "state": "idle", "ptr": hex(i), "id": i,
             "application_name": f"worker-{i}"} for i in range(10000)]
    stage.rows["CLIENTS"] = rows
    tab.goto(f"{stage.url}#clients")
    see(tab, "10 k")
    assert len(column(tab, "Clients", "id")) == 100
    tab.press("/")
    tab.type("worker-9876")
    assert column(tab, "Clients", "application") == ["worker-9876"]


# ---- what it says -------------------------------------------------------------------------------

def test_what_needs_attention(stage, tab):
    stage.rows["READY"] = [{"ready": "no", "reason": "draining"}]
    stage.rows["POOLS"] = [pool("dead", sv_login=1), pool("new", sv_login=1, sv_idle=1),
                           pool("app", "carol", cl_waiting=1, maxwait=7, maxwait_us=500000),
                           pool("app2", "carol", cl_waiting=1, maxwait_us=500000)]
    stage.rows["WAITING"] = [{"database": "app", "user": "carol", "wait": 7, "wait_us": 500000,
                              "reason": "pool full", "detail": "longest held by bob", "ptr": "1"},
                             {"database": "app2", "user": "carol", "wait_us": 500000, "ptr": "2"}]
    stage.rows["DATABASES"] = [{"name": "sleepy", "paused": 1}]
    stage.rows["LIMITS"] = [{"limit": "max_client_conn", "value": 100, "used": 90},
                            {"limit": "pool_size", "database": "full", "value": 4, "used": 4},
                            {"limit": "pool_size", "database": "app2", "user": "carol", "value": 4, "used": 4},
                            {"limit": "max_pinned_servers", "database": "app2", "user": "carol", "value": 4, "used": 3},
                            {"limit": "max_pinned_servers", "database": "app", "user": "carol", "value": 9, "used": 0},
                            {"limit": "max_user_connections", "user": "eve", "value": 10, "used": 7}]
    stage.rows["TRANSACTIONS"] = [{"state": "idle in transaction", "xact_seconds": 95, "ptr": "3",
                                   "application_name": "psql", "database": "app"}]
    tab.goto(stage.url)
    see(tab, "sleepy is paused")
    found = text_of(tab, ".needs")
    for wanted in ("accepts no new work: draining", "dead/alice", "app/carol: 1 client waits, the first for 7.5 s:"
                   " pool full. longest held by bob", "max_client_conn: 90 of 100", "psql at app, is open for 1 min 35 s",
                   "app2/carol: 3 of 4 servers are pinned"):
        assert wanted in found
    for other in ("new/alice", "app2/carol: 1 client", "full", "eve", "of 9"):
        assert other not in found.replace("pool full", "")
    stage.rows.update(READY=[{"ready": "yes"}], POOLS=[], WAITING=[], DATABASES=[], LIMITS=[], TRANSACTIONS=[])
    see(tab, "Nothing.", ".needs")


def test_who_waits_is_of_one_moment(stage, tab):
    stage.rows["POOLS"] = [pool("app", cl_waiting=14, maxwait=6, maxwait_us=500000),
                           pool("app2", cl_waiting=3, maxwait=2, maxwait_us=500000)]
    stage.rows["WAITING"] = [{"database": "app2", "user": "alice", "wait": 40, "reason": "pool full",
                              "detail": "held by bob", "ptr": "1"},
                             {"database": "gone", "user": "alice", "wait": 40, "reason": "pool full", "ptr": "2"}]
    tab.goto(stage.url)
    see(tab, "app/alice: 14 clients wait, the first for 6.5 s", ".needs")
    see(tab, "app2/alice: 3 clients wait, the first for 2.5 s: pool full. held by bob", ".needs")
    assert "gone" not in text_of(tab, ".needs")
    see(tab, "17", ".tiles")
    stage.rows["POOLS"] = []
    see(tab, "Nothing.", ".needs")
    assert "17" not in text_of(tab, ".tiles")


def host(name, role="standby", state="up", entry="app", **values):
    return {"entry": entry, "host": name, "address": name, "role": role, "state": state, "lag_us": None,
            "lag_bytes": None, **values}


def test_hosts_and_their_roles(stage, tab):
    stage.rows["HOSTS"] = [
        host("db1", "primary", servers=4, timeline=2, position="0/3000060", latency_us=420),
        host("db2", address="10.0.0.2", lag_us=90e6, lag_bytes=16777216),
        host("db3", "unknown", "lost", last_error=EVIL)]
    stage.rows["EVENTS"] = [{"at": utc(5), "age_s": 5, "kind": "host role", "level": "INFO",
                             "text": "host db1 is primary now"},
                            {"at": utc(9), "age_s": 9, "kind": "reload", "text": "RELOAD"}]
    tab.goto(f"{stage.url}#hosts")
    see(tab, "db1")
    assert column(tab, "Hosts", "host") == ["db1", "db2 (10.0.0.2)", "db3"]
    assert column(tab, "Hosts", "role") == ["primary", "standby", "unknown"]
    assert column(tab, "Hosts", "state") == ["up", "up", "lost"]
    assert column(tab, "Hosts", "lag") == ["", "1 min 30 s", ""]
    assert column(tab, "Hosts", "behind") == ["", "16.8 MB", ""]
    assert column(tab, "Hosts", "servers") == ["4", "0", "0"]
    assert column(tab, "Hosts", "error")[2] == EVIL
    see(tab, "host db1 is primary now")
    assert "RELOAD" not in text_of(tab)


def test_hosts_that_need_attention(stage, tab):
    stage.rows["HISTORY"] = history()
    stage.rows["EVENTS"] = [{"at": utc(5), "age_s": 5, "kind": "host role", "level": "ERROR", "text": "fenced"}]
    stage.rows["HOSTS"] = [
        host("db1", "primary", "fenced"), host("db2", "primary"), host("db3", "standby", "lost"),
        host("db4", lag_us=59e6), host("db5", lag_us=61e6),
        *(host("old", "primary", "lost", entry) for entry in ("one", "two", "three")),
        host("db9", entry="reports"), host("db8", "unknown", "unknown", entry="new")]
    tab.goto(stage.url)
    see(tab, "db1 is fenced", ".needs")
    found = text_of(tab, ".needs")
    for wanted in ("app: db1 is fenced: it says that it is primary, but another host counts",
                   "one and 2 more entries: no primary is up: old is lost",
                   "one and 2 more entries: old does not answer",
                   "app: db3 does not answer", "app: db5 lacks what was written in the last 1 min 1 s"):
        assert wanted in found
    for other in ("db2", "db4", "reports", "new", "app: no primary"):
        assert other not in found
    tab.wait("document.querySelectorAll('.charts .mark').length > 0")
    tab.click(".needs a")
    tab.wait("address.view === 'hosts'")
    stage.rows["HOSTS"] = [host("db2", "primary")]
    tab.js("location.hash = 'overview'")
    see(tab, "Nothing.", ".needs")


def test_numbers_have_units_for_people(stage, tab):
    stage.rows["HISTORY"] = history(xacts=1234, queries=2500000)
    stage.rows["POOLS"] = [pool(sv_active=6, sv_idle=7, sv_used=3), pool(user="bob", sv_tested=2, sv_login=6)]
    tab.goto(stage.url)
    see(tab, "1.23 k/s")
    see(tab, "6 active, 7 idle, 5 used or being checked, 6 logging in")
    shown = text_of(tab)
    for wanted in ("2.5 M statements/s", "6.1 ms", "p95 1.5 ms, p50 400 µs"):
        assert wanted in shown
    seen = tab.js("[0, 999, 1000, 1250, 9999.9, 59.9e6, 60e6, 3.7e9, 9e10, null, NaN].map(micros).join('|')")
    assert seen.replace("\xa0", " ") == "0 µs|999 µs|1 ms|1.25 ms|10 ms|59.9 s|1 min|1 h 1 min|1 d 1 h|–|–"


def test_a_chart_has_its_values_by_mouse_keyboard_and_table(stage, tab):
    stage.rows["HISTORY"] = history(xacts=77)
    tab.goto(stage.url)
    see(tab, "77/s", ".charts")
    assert "transactions 77" in tab.js("document.querySelector('.chart svg').getAttribute('aria-label')").replace("\xa0", " ")
    tab.js("document.querySelector('.chart svg').focus()")
    tab.press("ArrowLeft")
    tab.press("ArrowLeft")
    assert re.match(r"\d\d:\d\d:\d\d: transactions 77/s, statements 2\.4.k/s", tab.js("document.getElementById('voice').textContent"))
    assert tab.js("document.querySelectorAll('.chart .cross').length") == 6  # in all charts
    tab.click(".charts section button")
    tab.wait("!!document.querySelector('.charts tbody tr')")
    assert column(tab, "Throughput", "transactions")[0] == "77/s"


def test_an_absent_or_refused_table_is_one_quiet_line(stage, tab):
    tab.allowed += ["404", "403"]  # the browser's own lines
    stage.rows.update(HISTORY=404, EVENTS=403)
    tab.goto(stage.url)
    see(tab, "This pgweir has no SHOW HISTORY.")
    see(tab, "SHOW EVENTS: no table EVENTS. SHOW HELP lists them")
    see(tab, "ready", "#state")
    stage.rows["WAITING"] = 404
    tab.js("location.hash = 'pool?db=gone'")
    see(tab, "SHOW WAITING: no table WAITING")


def test_a_second_without_statements_has_no_percentile(stage, tab):
    stage.rows["HISTORY"] = history() + history(3, queries=0, statement_p99_us=0)
    tab.goto(stage.url)
    see(tab, "6.1 ms", ".tiles")
    assert "p99 6.1 ms" not in text_of(tab, ".charts section:nth-child(2)")


def test_statements_say_how_to_switch_them_on(stage, tab):
    tab.goto(f"{stage.url}#statements")
    see(tab, "SET track_statements = 5000")
    stage.rows["STATEMENTS"] = [{"digest": "1", "query": "SELECT $1", "total_us": 300, "calls": 3, "p95_us": 120},
                                {"digest": "2", "query": "SELECT " + "x, " * 400, "total_us": 900, "errors": 2,
                                 "sqlstate": "22012"}]
    see(tab, "SELECT $1")
    assert column(tab, "Top statements", "of the time") == ["75 %", "25 %"]
    assert column(tab, "Top statements", "errors") == ["2 (22012)", "0"]
    tab.click("button.clamp")
    assert tab.js("document.querySelector('button.clamp').getAttribute('aria-expanded')") == "true"
    tab.click("#controls button:nth-child(2)")
    wait_until(lambda: any("argument=100&argument=BY&argument=calls" in path for path in stage.asked))


# ---- asking -------------------------------------------------------------------------------------

def test_it_asks_for_what_the_view_shows_one_at_a_time(stage, tab):
    stage.pace = 0.05
    tab.goto(f"{stage.url}#loops")
    wait_until(lambda: stage.asked.count("/api/v1/show/LOOPS") >= 3)
    asked = {path.rpartition("/")[2] for path in stage.asked}
    assert asked == {"READY", "VERSION", "LOOPS", "LISTS", "MEM", "COLUMNS"}
    assert stage.most <= 2  # once SHOW COLUMNS, at the start, beside the tables


@contextlib.contextmanager
def quiet(stage):
    """Within: no request comes after those that were on their way."""
    wait_until(lambda: stage.now == 0)
    before = len(stage.asked)
    yield
    assert len(stage.asked) <= before + 1


def test_it_rests_while_it_is_hidden_or_paused(stage, tab):
    tab.goto(f"{stage.url}#events")
    see(tab, "No events yet.")
    hide = "Object.defineProperty(document, 'hidden', {{ value: {}, configurable: true }}); document.dispatchEvent(new Event('visibilitychange'))"
    for off, on in ((lambda: tab.js(hide.format("true")), lambda: tab.js(hide.format("false"))),
                    (lambda: tab.press("p"), lambda: tab.press("p"))):
        off()
        with quiet(stage):
            tab.js("new Promise(done => setTimeout(done, 2500))")  # longer than it rests otherwise
        before = len(stage.asked)
        on()
        wait_until(lambda: len(stage.asked) > before)


RATE = "document.querySelector('table[aria-label=Databases] tbody td')?.innerText || ''"


def watch_rate(tab):
    """Records each rate that the table of databases shows."""
    tab.js(f"""window.seen = []; new MutationObserver(() => seen.push({RATE})).observe(
        document.getElementById('body'), {{ subtree: true, characterData: true, childList: true }})""")


def is_rate(text):
    return re.match(r"[\d.]", text) and float(text.split()[0]) > 0


def test_it_survives_a_restart(stage, tab):
    tab.allowed += ["ERR_CONNECTION", "ERR_EMPTY", "ERR_SOCKET"]
    count = [5000]

    def totals():
        count[0] += 1000
        return [{"database": "app", "xact_count": count[0]}]

    stage.rows.update(DATABASES=[{"name": "app"}], STATS_TOTALS=totals)
    tab.goto(f"{stage.url}#pools")
    wait_until(lambda: is_rate(tab.js(RATE)), what="a rate")
    watch_rate(tab)
    stage.stop()
    tab.wait("!document.getElementById('banner').hidden")
    assert "No answer for" in text_of(tab, "#banner")
    assert tab.js("document.getElementById('voice').textContent") == "pgweir does not answer."
    assert tab.js("document.title").startswith("no answer")
    count[0] = 0  # as counters are after a restart
    stage.start()
    tab.js("document.getElementById('retry').click()")
    tab.wait("document.getElementById('banner').hidden")
    see(tab, "ready", "#state")
    wait_until(lambda: tab.js(RATE) == "–", what="no rate")
    wait_until(lambda: is_rate(tab.js(RATE)), what="a rate again")
    assert not [value for value in tab.js("seen") if value.startswith("-")]


def test_counters_that_begin_again_make_no_negative_rate(stage, tab):
    counts = iter((90000, 95000, 10))
    stage.rows.update(DATABASES=[{"name": "app"}],
                      STATS_TOTALS=lambda: [{"database": "app", "xact_count": next(counts, 20)}])
    tab.goto(f"{stage.url}#pools")
    wait_until(lambda: is_rate(tab.js(RATE)), what="a rate")
    watch_rate(tab)
    wait_until(lambda: tab.js(RATE) == "–", what="no rate")
    wait_until(lambda: tab.js(RATE) not in ("", "–"), what="a rate again")
    assert not [value for value in tab.js("seen") if value.startswith("-")]


def test_any_table_by_its_name(stage, tab):
    stage.rows["CONFIG"] = [{"key": "pool_mode", "value": "transaction"}]
    stage.rows["COLUMNS"] = [{"item": "CONFIG", "column": "key", "type": "text", "meaning": "Name of the setting."}]
    tab.goto(f"{stage.url}#tables")
    see(tab, "pool_mode")
    see(tab, "What CONFIG has.")
    tab.click("#body details summary")
    see(tab, "Name of the setting.")
    stage.rows["LISTS"] = [{"list": "databases", "items": 12345678}]
    tab.js("""(() => { const select = document.querySelector("#controls select");
        select.value = "LISTS"; select.dispatchEvent(new Event("change")); })()""")
    see(tab, "12 345 678")
    assert tab.js("location.hash") == "#tables?table=LISTS"
    tab.js("""(() => { const input = document.querySelector("#controls input");
        input.value = "app two"; input.dispatchEvent(new Event("change")); })()""")
    wait_until(lambda: "/api/v1/show/LISTS?argument=app&argument=two" in stage.asked)


# ---- in front of pgweir itself ------------------------------------------------------------------

@pytest.fixture
def weir(pgweir):
    """A daemon with the page, at `web`, and a pool of one server."""
    port = free_port()
    daemon = pgweir(metrics_listen=f"127.0.0.1:{port}", pool_mode="transaction", session_state="follow",
                    databases={"app": "pool_size=1", "app2": ""})
    daemon.web = f"http://127.0.0.1:{port}/"
    return daemon


def test_it_shows_what_clients_do(weir, tab):
    holder = weir.connect(application_name="holder", autocommit=False)
    holder.execute("SELECT 1")
    waiting = weir.client(application_name=EVIL)
    waiting.send(query("SELECT 2"))
    weir.wait_pool(cl_waiting=1)
    pinned = weir.connect("app2", "bob", application_name="keeper")
    pinned.execute("CREATE TEMPORARY TABLE kept (a int)")
    tab.goto(f"{weir.web}#waiting")
    see(tab, "idle in transaction")
    assert column(tab, "Queues", "pool") == ["app/alice"]
    assert '"holder"' in column(tab, "Queues", "who holds what")[0]
    assert column(tab, "Waiting clients", "application") == [EVIL]
    assert set(column(tab, "Transactions", "application")) >= {"holder", EVIL}
    see(tab, "temporary table kept")
    assert column(tab, "Pinned clients", "application") == ["keeper"]
    tab.press("2")
    wait_until(lambda: tab.js("!!document.querySelector('table[aria-label=Pools] .servers')"))
    rows = dict(zip(column(tab, "Pools", "pool"), column(tab, "Pools", "waiting")))
    assert rows == {"app/alice": "1", "app2/bob": "0"}
    holder.commit()
    waiting.read_result()
    wait_until(lambda: set(column(tab, "Pools", "waiting")) == {"0"})
    tab.press("4")
    see(tab, EVIL)
    assert tab.js("window.hurt") is None and tab.js("document.querySelectorAll('img').length") == 0


def test_the_daemon_is_restarted(weir, tab):
    tab.allowed += ["ERR_CONNECTION", "ERR_EMPTY", "ERR_SOCKET"]
    weir.connect().execute("SELECT 1")
    tab.goto(f"{weir.web}#pools")
    see(tab, "app/alice")
    weir.stop()
    tab.wait("!document.getElementById('banner').hidden")
    weir.start()
    tab.js("document.getElementById('retry').click()")
    tab.wait("document.getElementById('banner').hidden")
    see(tab, "ready", "#state")
    see(tab, "There are no pools yet")


def test_what_the_daemon_does_is_shown_as_its_state(weir, tab):
    tab.goto(weir.web)
    see(tab, "ready", "#state")
    weir.admin("PAUSE app2")
    see(tab, "app2 is paused")
    weir.admin("RESUME app2")
    weir.admin("PAUSE")
    see(tab, "pgweir accepts no new work: paused")
    see(tab, "paused", "#state")


def test_each_view_and_table_of_the_daemon(weir, tab):
    weir.connect().execute("SELECT 1")
    tab.goto(weir.web)
    see(tab, "ready", "#state")
    known = tab.js("fetch('api/v1/show').then(answer => answer.json())"
                   ".then(list => list.tables.map(table => table.name))")
    for view in VIEWS:
        tab.js(f"location.hash = '{view}'")
        tab.wait(f"""address.view === '{view}' && feed.sources.every(each =>
            answerOf(each.key).state === 'ok')""")
    for name in known:
        tab.js(f"location.hash = 'tables?table={name}'")
        tab.wait(f"answerOf('{name}').state === 'ok'")
        see(tab, f"SHOW {name}")


# With PGWEIR_PICTURES=FOLDER, for those who want to look at them.
@pytest.mark.parametrize("theme, width", (("light", 1440), ("dark", 1440), ("light", 360), ("dark", 360)))
def test_pictures(weir, tab, theme, width):
    connections = [weir.connect("app2", user, application_name="worker") for user in ("alice", "bob")]
    for connection in connections:
        connection.execute("SELECT 1")
    tab.prefer(theme)
    tab.size(width, 900)
    seen = set()
    for _ in views(weir.web, tab, ("overview", "pools", "clients")):
        picture = tab.picture()
        assert picture.startswith(b"\x89PNG") and len(picture) > 8000  # an empty page has less
        assert tab.js("document.documentElement.scrollWidth") <= width
        seen.add(picture)
        folder = os.environ.get("PGWEIR_PICTURES")
        if folder:
            name = f"{tab.js('address.view')}-{theme}-{width}.png"
            pathlib.Path(folder, name).write_bytes(picture)
    assert len(seen) == 3
