# SPDX-License-Identifier: ISC
"""State that a session can have, and the ways in which a client makes it without saying so."""

import struct
from collections import namedtuple

from attack.guest import quote
from e2e.kit.wire import message, query

# kind: what column of INSPECT shows it; name and value: of parameters; sql: makes it, as a statement;
# select: makes it, as a SELECT, where there is one.
Act = namedtuple("Act", "kind value sql select name", defaults=(None, None))

PARAMETERS = ("hid.a", "hid.b", "hid.c", "search_path", "work_mem", "statement_timeout", "application_name", "role")

INSPECT = """SELECT session_user, current_user, current_setting('role') AS role,
 coalesce(current_setting('hid.a', true), '') AS "hid.a", coalesce(current_setting('hid.b', true), '') AS "hid.b",
 coalesce(current_setting('hid.c', true), '') AS "hid.c", current_setting('search_path') AS search_path,
 current_setting('work_mem') AS work_mem, current_setting('statement_timeout') AS statement_timeout,
 current_setting('application_name') AS application_name,
 (SELECT string_agg(relname, ' ' ORDER BY relname) FROM pg_class
   WHERE relnamespace = pg_my_temp_schema() AND relname <> 'h_gone') AS tables,
 (SELECT string_agg(name, ' ' ORDER BY name) FROM pg_cursors WHERE is_holdable) AS cursors,
 (SELECT string_agg(objid::text, ' ' ORDER BY objid) FROM pg_locks
   WHERE pid = pg_backend_pid() AND locktype = 'advisory' AND classid = 4711) AS locks,
 (SELECT string_agg(c, ' ') FROM pg_listening_channels() c) AS channels"""


def acts(mark, number, own):
    """One act of each kind; `mark` and `number` are unique and show whose they are."""
    for name in ("hid.a", "hid.b", "hid.c", "application_name"):
        yield parameter(name, mark)
    yield parameter("search_path", f"s{own}, {mark}, public")
    yield parameter("work_mem", f"{number}kB")
    yield parameter("statement_timeout", f"{number}ms")
    yield parameter("role", f"r{own}")
    yield Act("tables", f"t_{mark}", f"CREATE TEMP TABLE t_{mark} (n int)")
    yield Act("tables", f"t_{mark}", f"CREATE TEMP TABLE t_{mark} AS SELECT 1 AS n")
    yield Act("cursors", f"k_{mark}", f"DECLARE k_{mark} CURSOR WITH HOLD FOR SELECT 1")
    yield Act("locks", str(number), f"SELECT pg_advisory_lock(4711, {number})",
              f"SELECT pg_advisory_lock(4711, {number})")
    yield Act("channels", f"l_{mark}", f"LISTEN l_{mark}")
    yield Act("seed", "", f"SELECT setseed({seed_of(own)})")


def seed_of(own):
    return round(0.001 + own / 1000, 3)


def parameter(name, value):
    text = value if name == "search_path" else quote(value)
    return Act(name, value, f"SET {name} = {text}", f"SELECT set_config('{name}', {quote(value)}, false)", name)


# -- ways for any statement: {q} is the statement as a constant ------------------------------------

TEXTS = {
    "function": "SELECT h_exec({q})",
    "function in FROM": "SELECT * FROM h_exec({q})",
    "function in WHERE": "SELECT 1 WHERE h_true({q})",
    "function in a CTE": "WITH x AS MATERIALIZED (SELECT h_true({q})) SELECT * FROM x",
    "name in hex": "SELECT h_hex({hex})",
    "nested functions": "SELECT h_outer({q})",
    "recursive function": "SELECT h_deep(4, {q})",
    "body in SQL syntax": "SELECT h_atomic({q})",
    "SECURITY DEFINER": "SELECT h_definer({q})",
    "function with SET": "SELECT h_scoped({q})",
    "exception caught": "SELECT h_caught({q})",
    "attribute notation": "SELECT ({q}::text).h_exec",
    "Unicode name": 'SELECT U&"h\\005fexec"({q})',
    "quoted name": 'SELECT "public" . "h_exec" /* h */ ({q})',
    "trigger": "INSERT INTO h_triggered VALUES ({q})",
    "trigger behind a view": "INSERT INTO h_viewed VALUES ({q})",
    "trigger of a view": "INSERT INTO h_instead VALUES ({q})",
    "trigger of a partition": "INSERT INTO h_parted VALUES (1, {q})",
    "deferred trigger": "INSERT INTO h_deferred VALUES ({q})",
    "MERGE": "MERGE INTO h_triggered t USING (SELECT {q} AS sql) s ON false"
             " WHEN NOT MATCHED THEN INSERT VALUES (s.sql)",
    "rule INSTEAD": "INSERT INTO h_ruled VALUES ({q})",
    "rule ALSO": "INSERT INTO h_also VALUES ({q})",
    "policy": "INSERT INTO h_guarded VALUES ({q})",
    "check": "INSERT INTO h_checked VALUES ({q})",
    "domain": "SELECT {q}::h_domain",
    "domain of a column": "INSERT INTO h_typed VALUES ({q})",
    "operator": "SELECT {q}::text <!!> 1",
    "cast": "SELECT ROW({q})::h_type::bool",
    "aggregate": "SELECT h_agg(v) FROM (VALUES ({q})) AS t (v)",
    "replaced function": "SELECT h_swapped({q})",
    "PL/Perl": "SELECT h_perl({q})",
    "PL/Python": "SELECT h_python({q})",
    "C": "SELECT h_c({q})",
    "CALL": "CALL h_call({q})",
    "CALL with COMMIT": "CALL h_commits({q})",
    "EXPLAIN": "EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off) SELECT h_exec({q})",
    "temporary table of the transaction": "CREATE TEMP TABLE h_gone ON COMMIT DROP AS SELECT h_true({q})",
    "DO": "DO LANGUAGE plpgsql {do}",
    "DO that calls": "DO LANGUAGE plpgsql {do_calls}",
    "query_to_xml": "SELECT query_to_xml({called}, false, false, '')",
    "ts_stat": "SELECT word FROM ts_stat({vector})",
    "cursor": "BEGIN; DECLARE h CURSOR FOR SELECT h_true({q}); FETCH h; COMMIT",
    "several in one text": "SELECT 1; SELECT h_exec({q}); SELECT 2",
}
# Where a transaction block cannot be, or is part of the text.
NOT_IN_BLOCKS = {"CALL with COMMIT", "cursor", "deferred trigger"}
# Where a text shows setseed(), the server stays until the client disconnects.
SEEDED = ("name in hex", "operator", "trigger", "C", "PL/Perl")
BOUND = ("SELECT", "INSERT", "MERGE", "CALL", "WITH")

# -- ways for a SELECT only: {s} -------------------------------------------------------------------

SELECTS = {
    "IMMUTABLE": "SELECT h_constant({s})",
    "generated column": "INSERT INTO h_generated VALUES ({s})",
    "index": "INSERT INTO h_indexed VALUES ({s})",
}

# -- ways for parameters ---------------------------------------------------------------------------

SETTERS = {
    "wrapper in SQL": "SELECT h_set({name}, {value})",
    "wrapper in PL/pgSQL": "SELECT h_perform({name}, {value})",
    "wrapper with dynamic SQL": "SELECT h_format({name}, {value})",
    "wrapper, named arguments": "SELECT h_set(value => {value}, name => {name})",
    "operator on set_config": "SELECT {name}::text ==> {value}::text",
    "set_config": "SELECT set_config({name}, {value}, false)",
    "SetConfigOption in C": "SELECT h_c_set({name}, {value})",
    "EXECUTE": None,
    "function call of the protocol": None,
}
WRAPPERS = {"hid.a": "SELECT h_set_a({value})", "hid.b": "SELECT h_set_b({value})", "hid.c": "SELECT h_set_c({value})"}


def is_possible(way, act, missing):
    if way in ("PL/Perl", "PL/Python") and any(each.startswith(way) for each in missing):
        return False
    if way in ("C", "SetConfigOption in C", "LockAcquire in C", "Async_Listen in C") \
            and any("in C" in each for each in missing):
        return False
    if act.kind == "seed" and way not in SEEDED:
        return False
    # PostgreSQL refuses a role in a function with the rights of another, whose tables nobody could drop.
    if way == "SECURITY DEFINER" and act.kind in ("role", "tables") or way == "foreign key" and act.kind == "role":
        return False
    return way != "wrapper with dynamic SQL" or act.kind != "search_path"  # it would be one quoted name


class Step(namedtuple("Step", "sent acts in_block")):
    """Messages with one response; whether it is this one that makes the state."""


def choose(client, act, missing):
    """A way for this act, and its steps."""
    candidates = [*TEXTS, "view", "foreign key", "PREPARE", "directly", "own function", "COPY", "function call"]
    if act.select:
        candidates += [*SELECTS]
    if act.name and act.name != "role":
        candidates += [*SETTERS] * 2
    if act.name in WRAPPERS:
        candidates += ["wrapper for one name"] * 8
    if act.name in ("work_mem", "statement_timeout", "search_path", "application_name"):
        candidates += ["UPDATE of a view"] * 3
    if act.kind == "locks":
        candidates += ["operator on a lock", "LockAcquire in C", "lock in attribute notation"] * 4
    if act.kind == "channels":
        candidates += ["Async_Listen in C"] * 8
    way = client.rng.choice([way for way in candidates if is_possible(way, act, missing)])
    return way, steps_of(client, way, act)


def steps_of(client, way, act):
    rng, q = client.rng, quote(act.sql)
    if way in TEXTS:
        return [text_step(client, way, TEXTS[way], act.sql)]
    if way in SELECTS:
        return [text_step(client, way, SELECTS[way].replace("{s}", "{q}"), act.select)]
    if way == "EXECUTE":
        name = "e" + client.mark().replace(".", "_")
        return [Step(query(f"PREPARE {name} AS SELECT set_config($1, $2, false)"), False, True),
                Step(query(f"EXECUTE {name}({quote(act.name)}, {quote(act.value)})"), True, True),
                Step(query(f"DEALLOCATE {name}"), False, True)]
    if way == "PREPARE":
        name = "e" + client.mark().replace(".", "_")
        return [Step(query(f"PREPARE {name} AS SELECT h_exec($1)"), False, True),
                Step(query(f"EXECUTE {name}({q})"), True, True), Step(query(f"DEALLOCATE {name}"), False, True)]
    if way == "COPY":
        data = message("d", act.sql.encode() + b"\n") + message("c")
        return [Step(query("COPY h_triggered FROM STDIN") + data, True, True)]
    if way == "function call":
        return [Step(function_call(client.scene.exec_oid, act.sql), True, True)]
    if way == "function call of the protocol":
        return [Step(function_call(client.scene.set_oid, act.name, act.value), True, True)]
    if way in SETTERS:
        return [setter_step(client, SETTERS[way], act)]
    if way == "wrapper for one name":
        return [setter_step(client, WRAPPERS[act.name], act)]
    if way == "UPDATE of a view":
        text = f"UPDATE h_settings SET setting = {quote(act.value)} WHERE name = '{act.name}'"
        return [Step(client.either(text), True, True)]
    if way == "view":
        return [Step(query(f"DELETE FROM h_todo WHERE client = '{client.name}'"), False, True),
                Step(query(f"INSERT INTO h_todo VALUES ('{client.name}', {q})"), False, True),
                Step(query(f"SELECT done FROM h_doing WHERE client = '{client.name}'"), True, True)]
    if way == "foreign key":
        key = client.number_of()
        return [Step(query(f"INSERT INTO h_parents VALUES ({key})"), False, True),
                Step(query(f"INSERT INTO h_children VALUES ({key}, {q})"), False, True),
                Step(query(f"DELETE FROM h_parents WHERE id = {key}"), True, True)]
    if way == "own function":
        name = "h_own_" + client.mark().replace(".", "_")
        is_dynamic = act.sql.startswith(("SELECT", "DECLARE"))  # which PL/pgSQL would read in its own way
        body = quote(f"BEGIN EXECUTE {q}; END" if is_dynamic else f"BEGIN {act.sql}; END")
        return [Step(query(f"CREATE FUNCTION public.{name}() RETURNS void LANGUAGE plpgsql AS {body}"), False, True),
                Step(query(f"SELECT public.{name}()"), True, True),
                Step(query(f"DROP FUNCTION public.{name}"), False, True)]
    text = {"directly": act.sql, "operator on a lock": f"SELECT 4711 @!! {act.value}",
            "LockAcquire in C": f"SELECT h_c_lock(4711, {act.value})",
            "Async_Listen in C": f"SELECT h_c_listen('{act.value}')",
            "lock in attribute notation": f"SELECT ({(4711 << 32) + int(act.value)}::bigint).pg_advisory_lock"
            if act.kind == "locks" else ""}[way]
    return [Step(client.either(text), True, rng.random() < 0.5)]


def text_step(client, way, text, sql):
    if sql.startswith("SELECT setseed") and way != "name in hex":
        sql = f"SELECT h_hex('{sql.encode().hex()}')"
    bound = "{q}" in text and text.startswith(BOUND) and client.rng.random() < 0.4 and ";" not in text
    if bound:
        sent = client.bound(text.replace("{q}", "$1::text" if "cast" in way or "VALUES" in text else "$1"), (sql,),
                            client.rng.random() < 0.5)
    else:
        q = quote(sql)
        text = text.format(q=q, hex=quote(sql.encode().hex()), do=quote(f"BEGIN EXECUTE {q}; END"),
                           do_calls=quote(f"BEGIN PERFORM h_exec({q}); END"), called=quote(f"SELECT h_exec({q})"),
                           vector=quote(f"SELECT to_tsvector(h_true({q})::text)"))
        sent = query(text) if ";" in text else client.either(text)
    return Step(sent, True, way not in NOT_IN_BLOCKS)


def setter_step(client, text, act):
    if client.rng.random() < 0.5:
        return Step(client.either(text.format(name=quote(act.name or ""), value=quote(act.value))), True, True)
    values = (act.name, act.value) if "{name}" in text else (act.value,)
    numbers = {"name": "$1::text", "value": "$2::text"} if "{name}" in text else {"value": "$1::text"}
    return Step(client.bound(text.format(**numbers), values, client.rng.random() < 0.5), True, True)


def function_call(oid, *values):
    body = struct.pack("!IHHH", oid, 1, 0, len(values))
    for value in values:
        body += struct.pack("!I", len(value)) + value.encode()
    return message("F", body + struct.pack("!H", 0))


# -- ways in a database that has no function of its own ---------------------------------------------

PLAIN = {
    "directly": "{sql}",
    "DO": "DO LANGUAGE plpgsql {do}",
    "several in one text": "SELECT 1; {sql}; SELECT 2",
    "comments": "/* a */ {sql} -- b",
    "query_to_xml": "SELECT query_to_xml({select}, false, false, '')",
}


def choose_plain(client, act):
    candidates = [way for way in PLAIN if way != "query_to_xml" or act.select]
    if act.name:
        candidates += ["EXECUTE"]
    if act.name and act.name.startswith("hid."):
        candidates += ["blank at the dot", "quoted", "Unicode"] * 2
    if act.kind == "locks":
        candidates += ["lock in attribute notation"] * 3
    if act.kind == "tables":
        candidates += ["search path of the transaction"] * 3
    candidates += ["own function"]
    if act.kind == "seed":
        return "nothing", []
    way = client.rng.choice(candidates)
    if way in PLAIN:
        text = PLAIN[way].format(sql=act.sql, do=quote(f"BEGIN EXECUTE {quote(act.sql)}; END"),
                                 select=quote(act.select or ""))
        return way, [Step(query(text) if ";" in text else client.either(text), True, True)]
    if way == "search path of the transaction":
        return way, [Step(query(f"BEGIN; SET LOCAL search_path = pg_temp, public; CREATE TABLE {act.value} (n int);"
                                " COMMIT"), True, False)]
    spelled = {"blank at the dot": "SET hid . {x} = {v}", "quoted": 'SET "hid" /* . */ . "{x}" = {v}',
               "Unicode": 'SET U&"hid"."{x}" = {v}'}.get(way)
    if spelled:
        return way, [Step(client.either(spelled.format(x=act.name[4:], v=quote(act.value))), True, True)]
    return way, steps_of(client, way, act)


# Ways whose state must never be lost by its client, either.
SURE = {"directly", "DO", "DO that calls", "CALL", "CALL with COMMIT", "set_config", "comments", "startup packet",
        "function call of the protocol", "DISCARD ALL", "Unicode"}
