# SPDX-License-Identifier: ISC
"""psycopg 3. The argument is prepare_threshold."""

import sys
import threading

import psycopg
from harness import LINES, PAYLOADS, TEXTS, chosen, run, same, until_over


def connect():
    connection = psycopg.connect("", autocommit=True, prepare_threshold=int(sys.argv[1]))
    connection.notices = []
    connection.add_notice_handler(lambda said: connection.notices.append(said.message_primary))
    return connection


def count(connection, who):
    return connection.execute("SELECT count(*) FROM driver_rows WHERE who = %s",
                              (who,)).fetchone()[0]


def simple(connection, _who):
    cursor = psycopg.ClientCursor(connection)
    cursor.execute("SELECT 1; SELECT 2")
    same(cursor.fetchone(), (1,))
    same(cursor.nextset() and cursor.fetchone(), (2,))


def prepared(connection, _who):
    for _ in range(2):
        for number in range(TEXTS):
            for again in range(2):
                row = connection.execute(f"SELECT %s::int + {number}", (again,)).fetchone()
                same(row, (again + number,))


def rollback(connection, who):
    insert = "INSERT INTO driver_rows VALUES (%s, %s)"
    with connection.transaction(force_rollback=True):
        connection.execute(insert, (who, 1))
        same(count(connection, who), 1)
    same(count(connection, who), 0)
    with connection.transaction():
        connection.execute(insert, (who, 2))
    same(count(connection, who), 1)
    connection.execute("DELETE FROM driver_rows WHERE who = %s", (who,))


def divide(connection, by):
    return connection.execute("SELECT 10 / %s::int", (by,)).fetchone()[0]


def must_fail(error, function, *words):
    try:
        function(*words)
    except error:
        return
    raise AssertionError("no error came")


def recovery(connection, _who):
    must_fail(psycopg.errors.DivisionByZero, divide, connection, 0)
    must_fail(psycopg.errors.UndefinedTable, connection.execute, "SELECT %s FROM nowhere", (1,))
    same(divide(connection, 5), 2)
    with connection.transaction():
        try:
            with connection.transaction():
                divide(connection, 0)
        except psycopg.errors.DivisionByZero:
            pass
        same(divide(connection, 2), 5)
    connection.execute("BEGIN")
    must_fail(psycopg.errors.DivisionByZero, divide, connection, 0)
    must_fail(psycopg.errors.InFailedSqlTransaction, divide, connection, 1)
    connection.execute("ROLLBACK")


def copy(connection, who):
    cursor = connection.cursor()
    with connection.transaction():
        with cursor.copy("COPY driver_rows FROM STDIN") as lines:
            for number in range(LINES):
                lines.write_row((who, number))
    with cursor.copy("COPY (SELECT number FROM driver_rows WHERE who = %s ORDER BY 1) TO STDOUT",
                     (who,)) as lines:
        same([int(row[0]) for row in lines.rows()], list(range(LINES)))
    connection.execute("DELETE FROM driver_rows WHERE who = %s", (who,))


def batch(connection, who):
    connection.cursor().executemany("INSERT INTO driver_rows VALUES (%s, %s)",
                                    [(who, number) for number in range(20)])
    same(count(connection, who), 20)
    connection.execute("DELETE FROM driver_rows WHERE who = %s", (who,))


def pipeline(connection, _who):
    with connection.pipeline():
        cursors = [connection.execute(f"SELECT %s::int * 2 + {number}", (number,))
                   for number in range(TEXTS)]
        same([cursor.fetchone()[0] for cursor in cursors], [3 * n for n in range(TEXTS)])

    def failing():
        with connection.pipeline():
            connection.execute("SELECT %s::int * 2 + 1", (1,))
            divide(connection, 0)

    must_fail(psycopg.errors.DivisionByZero, failing)
    same(divide(connection, 1), 10)


def cursor(connection, _who):
    with connection.transaction():
        with connection.cursor("pieces") as pieces:
            pieces.itersize = 10
            pieces.execute("SELECT generate_series(1, %s::int)", (100,))
            same([row[0] for row in pieces], list(range(1, 101)))


def cancel(connection, _who):
    over = threading.Event()
    canceller = threading.Thread(target=until_over, args=(connection.cancel, over))
    canceller.start()
    try:
        must_fail(psycopg.errors.QueryCanceled, connection.execute, "SELECT pg_sleep(%s)", (60,))
    finally:
        over.set()
        canceller.join()
    same(divide(connection, 5), 2)


def notices(connection, who):
    connection.notices.clear()
    connection.execute(f"DO $$ BEGIN RAISE NOTICE '{who}'; END $$")
    same(connection.notices, [who])


def execute(connection, statement):
    cursor = connection.execute(statement)
    return cursor.fetchone()[0] if cursor.description else None


def listen(connection, who):
    channel, told = f"channel_{who[-1]}", []

    def handler(notification):
        told.append(notification.payload)

    connection.add_notify_handler(handler)
    connection.execute(f"LISTEN {channel}")
    with connect() as other:
        for payload in PAYLOADS[:-1]:
            other.execute("SELECT pg_notify(%s, %s)", (channel, payload))
    connection.execute(f"NOTIFY {channel}, '{PAYLOADS[-1]}'")
    stream = connection.notifies()
    while len(told) < len(PAYLOADS):
        told.append(next(stream).payload)
    stream.close()
    connection.execute(f"UNLISTEN {channel}")
    connection.execute(f"NOTIFY {channel}, 'nobody listens'")
    connection.remove_notify_handler(handler)
    same(told, PAYLOADS)


run(chosen((simple, prepared, rollback, recovery, copy, batch, pipeline, cursor, cancel, notices),
           execute, listen), connect)
