# SPDX-License-Identifier: ISC
"""pg8000, of the age when it prepared whatever it ran. It cannot cancel."""

import io
import os

import pg8000
from harness import LINES, PAYLOADS, TEXTS, chosen, run, same

DELETE = "DELETE FROM driver_rows WHERE who = %s"
INSERT = "INSERT INTO driver_rows VALUES (%s, %s)"


def connect():
    connection = pg8000.connect(os.environ["PGUSER"], host=os.environ["PGHOST"],
                                port=int(os.environ["PGPORT"]), database=os.environ["PGDATABASE"])
    connection.autocommit = True
    return connection


def ask(connection, sql, *values):
    cursor = connection.cursor()
    cursor.execute(sql, values)
    return [row[0] for row in cursor.fetchall()] if cursor.description else None


def must_fail(sqlstate, function, *words):
    try:
        function(*words)
    except pg8000.Error as error:
        if sqlstate not in error.args:
            raise
        return
    raise AssertionError("no error came")


def count(connection, who):
    return ask(connection, "SELECT count(*) FROM driver_rows WHERE who = %s", who)[0]


def divide(connection, by):
    return ask(connection, "SELECT 10 / cast(%s AS int)", by)[0]


def simple(connection, _who):
    same(ask(connection, "SELECT 1"), [1])


def prepared(connection, _who):
    for again in (0, 1, 0, 1):
        for number in range(TEXTS):
            same(ask(connection, f"SELECT cast(%s AS int) + {number}", again), [again + number])


def rollback(connection, who):
    connection.autocommit = False
    ask(connection, INSERT, who, 1)
    same(count(connection, who), 1)
    connection.rollback()
    same(count(connection, who), 0)
    ask(connection, INSERT, who, 2)
    connection.commit()
    connection.autocommit = True
    same(count(connection, who), 1)
    ask(connection, DELETE, who)


def recovery(connection, _who):
    must_fail("22012", divide, connection, 0)
    must_fail("42P01", ask, connection, "SELECT cast(%s AS int) FROM nowhere", 1)
    same(divide(connection, 5), 2)
    connection.autocommit = False
    same(divide(connection, 2), 5)
    must_fail("22012", divide, connection, 0)
    must_fail("25P02", divide, connection, 1)
    connection.rollback()
    connection.autocommit = True
    same(divide(connection, 2), 5)


def copy(connection, who):
    lines = "".join(f"{who}\t{number}\n" for number in range(LINES)).encode()
    connection.cursor().execute("COPY driver_rows FROM STDIN", stream=io.BytesIO(lines))
    out = io.BytesIO()
    connection.cursor().execute(
        f"COPY (SELECT * FROM driver_rows WHERE who = '{who}' ORDER BY 2) TO STDOUT", stream=out)
    same(out.getvalue(), lines)
    ask(connection, DELETE, who)


def batch(connection, who):
    connection.cursor().executemany(INSERT, [(who, number) for number in range(20)])
    same(count(connection, who), 20)
    ask(connection, DELETE, who)


def cursor(connection, _who):
    connection.autocommit = False
    pieces = connection.cursor()
    pieces.arraysize = 10
    pieces.execute("SELECT generate_series(1, cast(%s AS int))", (250,))
    same([row[0] for row in pieces], list(range(1, 251)))
    connection.commit()
    connection.autocommit = True


def notices(connection, who):
    told = []

    def listener(said):
        told.append(said)

    connection.NoticeReceived += listener
    ask(connection, f"DO $$ BEGIN RAISE NOTICE '{who}'; END $$")
    connection.NoticeReceived -= listener
    same([who.encode() in str(said).encode() for said in told], [True])


def execute(connection, statement):
    values = ask(connection, statement)
    return values[0] if values else None


def listen(connection, who):
    channel, told = f"channel_{who[-1]}", []

    def listener(data):
        told.append(bytes(data)[4:].split(b"\0")[1].decode())

    connection.NotificationReceived += listener
    ask(connection, f"LISTEN {channel}")
    other = connect()
    for payload in PAYLOADS[:-1]:
        ask(other, "SELECT pg_notify(%s, %s)", channel, payload)
    other.close()
    ask(connection, f"NOTIFY {channel}, '{PAYLOADS[-1]}'")
    while len(told) < len(PAYLOADS):
        ask(connection, "SELECT 1")
    ask(connection, f"UNLISTEN {channel}")
    ask(connection, f"NOTIFY {channel}, 'nobody listens'")
    connection.NotificationReceived -= listener
    same(told, PAYLOADS)


run(chosen((simple, prepared, rollback, recovery, copy, batch, cursor, notices), execute, listen),
    connect)
