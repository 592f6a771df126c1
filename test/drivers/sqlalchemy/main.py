# SPDX-License-Identifier: ISC
"""SQLAlchemy and Alembic with their defaults. The argument is the driver."""

import os
import sys

import sqlalchemy as sa
from alembic.migration import MigrationContext
from alembic.operations import Operations
from harness import run, same
from sqlalchemy import orm

URL = sa.URL.create(f"postgresql+{sys.argv[1]}", os.environ["PGUSER"], host=os.environ["PGHOST"],
                    port=int(os.environ["PGPORT"]), database=os.environ["PGDATABASE"])


class Base(orm.DeclarativeBase):
    pass


class Account(Base):
    __tablename__ = "account"
    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    name: orm.Mapped[str] = orm.mapped_column(unique=True)
    entries: orm.Mapped[list["Entry"]] = orm.relationship(cascade="all, delete-orphan")


class Entry(Base):
    __tablename__ = "entry"
    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    account_id: orm.Mapped[int] = orm.mapped_column(sa.ForeignKey("account.id"))
    number: orm.Mapped[int]


def migrate():
    """Tables by the models, and a change by Alembic."""
    engine = sa.create_engine(URL)
    Base.metadata.drop_all(engine)
    Base.metadata.create_all(engine)
    with engine.begin() as connection:
        operations = Operations(MigrationContext.configure(connection))
        operations.add_column("account", sa.Column("note", sa.Text, server_default="none"))
        operations.create_index("entry_number", "entry", ["number"])
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        operations = Operations(MigrationContext.configure(connection))
        operations.create_index("account_note", "account", ["note"], postgresql_concurrently=True)
    engine.dispose()


class Pool:
    """An engine of its own, whose connections set parameters when they are made."""

    def __init__(self):
        self.engine = sa.create_engine(URL, pool_size=1, max_overflow=1)
        sa.event.listen(self.engine, "connect", self._prepare)

    @staticmethod
    def _prepare(connection, _record):
        with connection.cursor() as cursor:
            cursor.execute("SET TIME ZONE 'Asia/Tokyo'")
            cursor.execute("SET statement_timeout = '55s'")
        connection.commit()

    def ask(self, sql, **values):
        """In a transaction of its own."""
        with self.engine.begin() as connection:
            result = connection.execute(sa.text(sql), values)
            return result.scalar() if result.returns_rows else None

    def close(self):
        self.engine.dispose()


def models(pool, who):
    with orm.Session(pool.engine) as session:
        account = Account(name=who, entries=[Entry(number=number) for number in range(40)])
        session.add(account)
        session.commit()
        account.entries[3].number = 1000
        session.commit()
        same(session.scalar(sa.select(sa.func.max(Entry.number)).join_from(Account, Entry)
                            .where(Account.name == who)), 1000)
        session.execute(sa.select(Account).where(Account.name == who).with_for_update())
        session.rollback()
        session.delete(account)
        session.commit()


def savepoints(pool, who):
    with orm.Session(pool.engine) as session:
        session.add(Account(name=who))
        session.flush()
        try:
            with session.begin_nested():
                session.add(Account(name=who))
        except sa.exc.IntegrityError:
            pass
        same(len(session.scalars(sa.select(Account).where(Account.name == who)).all()), 1)
        session.rollback()
        same(len(session.scalars(sa.select(Account).where(Account.name == who)).all()), 0)


def pieces(pool, _who):
    with pool.engine.connect() as connection:
        rows = connection.execution_options(yield_per=10).execute(
            sa.text("SELECT generate_series(1, 100)"))
        same(list(rows.scalars()), list(range(1, 101)))


def defaults(pool, who):
    """What was set when the connection was made is there in each transaction."""
    for _ in range(3):
        same(pool.ask("SELECT current_setting('TimeZone')"), "Asia/Tokyo")
        same(pool.ask("SHOW statement_timeout"), "55s")
    same(pool.ask("SELECT :who ||"
                  " extract(hour FROM timestamptz '2026-01-01 00:00:00+00')", who=who), f"{who}9")


def tenant(pool, who):
    pool.ask("SELECT set_config('app.tenant', :who, false)", who=who)
    pool.ask(f"SET search_path = {who.replace(' ', '_')}, public")
    same(pool.ask("SELECT current_setting('app.tenant')"), who)
    same(pool.ask("SHOW search_path"), f"{who.replace(' ', '_')}, public")
    with orm.Session(pool.engine) as session:
        same(session.scalar(sa.func.current_setting("app.tenant")), who)
        session.execute(sa.text("SET app.tenant = 'undone'"))
        session.rollback()
        same(session.scalar(sa.func.current_setting("app.tenant")), who)
    pool.ask("RESET search_path")
    pool.ask("RESET app.tenant")
    same(pool.ask("SELECT nullif(current_setting('app.tenant', true), '')"), None)


def autocommit(pool, who):
    """Temporary tables and held cursors of one connection, without a transaction."""
    options = {"isolation_level": "AUTOCOMMIT"}
    with pool.engine.connect().execution_options(**options) as connection:
        table = sa.Table("scratch", sa.MetaData(), sa.Column("name", sa.Text),
                         prefixes=["TEMPORARY"])
        table.create(connection)
        connection.execute(table.insert(), [{"name": who}] * 3)
        same(connection.scalars(sa.select(table.c.name)).all(), [who] * 3)
        connection.execute(sa.text("DECLARE held CURSOR WITH HOLD FOR SELECT name FROM scratch"))
        same(connection.scalar(sa.text("FETCH held")), who)
        same(connection.scalar(sa.text("FETCH held")), who)
        connection.execute(sa.text("CLOSE held"))
        table.drop(connection)


def isolation(pool, _who):
    options = {"isolation_level": "SERIALIZABLE"}
    with pool.engine.connect().execution_options(**options) as connection:
        for _ in range(2):
            same(connection.scalar(sa.text("SHOW transaction_isolation")), "serializable")
            connection.commit()
    same(pool.ask("SHOW transaction_isolation"), "read committed")


def lock(pool, who):
    """Held over the transactions of a connection."""
    with pool.engine.connect() as connection:
        connection.execute(sa.select(sa.func.pg_advisory_lock(71)))
        connection.commit()
        connection.execute(sa.text("UPDATE driver_lock SET holder = :who"), {"who": who})
        connection.commit()
        same(connection.scalar(sa.text("SELECT holder FROM driver_lock")), who)
        connection.commit()
        same(connection.scalar(sa.select(sa.func.pg_advisory_unlock(71))), True)
        connection.commit()


migrate()
run({function.__name__: function for function in (
    models, savepoints, pieces, defaults, tenant, autocommit, isolation, lock)}, Pool)
