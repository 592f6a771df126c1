# SPDX-License-Identifier: ISC
"""Django with its defaults: persistent connections, cursors of the server, a time zone."""

import datetime
import os

import django
from django.conf import settings
from harness import run, same

DATABASE = {"ENGINE": "django.db.backends.postgresql", "NAME": os.environ["PGDATABASE"],
            "USER": os.environ["PGUSER"], "HOST": os.environ["PGHOST"],
            "PORT": os.environ["PGPORT"], "CONN_MAX_AGE": None, "TIME_ZONE": "America/New_York"}

settings.configure(
    DATABASES={"default": DATABASE, "in_role": {**DATABASE, "OPTIONS": {"assume_role": "driver_role"}}},
    INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.auth",
                    "django.contrib.sessions", "django.contrib.postgres", "shop"],
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField", TIME_ZONE="America/New_York", USE_TZ=True,
    SECRET_KEY="a test has none")
django.setup()

# pylint: disable=wrong-import-position
from django.contrib.auth.models import User  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.db import IntegrityError, connections, models, transaction  # noqa: E402
from django.db.models.functions import TruncHour  # noqa: E402
from shop.models import Customer, Order  # noqa: E402

NIGHT = datetime.datetime(2026, 1, 2, 3, 4, tzinfo=datetime.timezone.utc)


class Connections:
    """Those of this thread."""

    def __init__(self):
        connections["default"].ensure_connection()

    @staticmethod
    def close():
        connections.close_all()


def ask(sql, *values, using="default"):
    with connections[using].cursor() as cursor:
        cursor.execute(sql, values or None)
        return cursor.fetchone()[0] if cursor.description else None


def rows(_connections, who):
    customer, _ = Customer.objects.get_or_create(name=who)
    Order.objects.bulk_create(Order(customer=customer, number=number, placed=NIGHT,
                                    details={"who": who}) for number in range(50))
    orders = Order.objects.filter(customer=customer)
    orders.filter(number__gte=40).update(number=models.F("number") * 2)
    same(orders.aggregate(models.Max("number"), models.Count("id")),
         {"number__max": 98, "id__count": 50})
    with transaction.atomic():
        locked = orders.select_for_update().get(number=3)
        locked.number = 1000
        locked.save()
    same(orders.filter(details__who=who, number=1000).count(), 1)
    same(customer.delete()[0], 51)


def savepoints(_connections, who):
    with transaction.atomic():
        Customer.objects.create(name=who)
        try:
            with transaction.atomic():
                Customer.objects.create(name=who)
        except IntegrityError:
            pass
        same(Customer.objects.filter(name=who).count(), 1)
        transaction.set_rollback(True)
    same(Customer.objects.filter(name=who).count(), 0)


def pieces(_connections, who):
    """Without a transaction, a cursor WITH HOLD; other queries come between its pieces."""
    customer = Customer.objects.create(name=f"{who} reads")
    Order.objects.bulk_create(Order(customer=customer, number=number, placed=NIGHT)
                              for number in range(100))
    got = []
    for order in Order.objects.filter(customer=customer).order_by("number").iterator(chunk_size=10):
        got.append(order.number)
        if order.number % 25 == 0:
            same(Customer.objects.get(pk=customer.pk).name, f"{who} reads")
    same(got, list(range(100)))
    customer.delete()


def zone(_connections, who):
    """Set by Django for each connection; what the server computes depends on it."""
    same(ask("SHOW TIME ZONE"), "America/New_York")
    customer = Customer.objects.create(name=f"{who} at night")
    Order.objects.create(customer=customer, number=1, placed=NIGHT)
    hours = Order.objects.filter(customer=customer).annotate(hour=TruncHour("placed"))
    same(hours.get().hour.isoformat(), "2026-01-01T22:00:00-05:00")
    same(ask("SELECT extract(hour FROM placed)::int FROM shop_order WHERE customer_id = %s",
             customer.pk), 22)
    customer.delete()


def tenant(_connections, who):
    """Rows that a policy shows to the tenant of the session only."""
    ask("SELECT set_config('app.tenant', %s, false)", who)
    ask("INSERT INTO tenant_notes VALUES (%s, 'mine')", who)
    for _ in range(3):
        same(ask("SELECT string_agg(DISTINCT tenant, ',') FROM tenant_notes"), who)
    same(ask("DELETE FROM tenant_notes WHERE note = 'mine' RETURNING tenant"), who)
    ask("RESET app.tenant")
    same(ask("SELECT count(*) FROM tenant_notes"), 0)


def schema(_connections, who):
    """As packages for tenants do: a search_path for a whole request."""
    name = who.replace(" ", "_")
    ask(f"CREATE SCHEMA IF NOT EXISTS {name}")
    ask(f"CREATE TABLE IF NOT EXISTS {name}.shop_customer (LIKE public.shop_customer INCLUDING ALL)")
    ask(f"SET search_path = {name}, public")
    Customer.objects.all().delete()
    Customer.objects.create(name=f"{who} in a schema")
    same(list(Customer.objects.values_list("name", flat=True)), [f"{who} in a schema"])
    ask("SET search_path TO DEFAULT")
    same(Customer.objects.filter(name=f"{who} in a schema").count(), 0)


def role(_connections, _who):
    same(ask("SELECT current_user::text", using="in_role"), "driver_role")
    with transaction.atomic(using="in_role"):
        same(ask("SELECT current_user::text", using="in_role"), "driver_role")
    same(ask("SELECT current_user::text"), "alice")


def lock(_connections, who):
    ask("SELECT pg_advisory_lock(70)")
    try:
        Customer.objects.filter(name="the first").update(name="the first")
        ask("UPDATE driver_lock SET holder = %s", who)
        same(ask("SELECT holder FROM driver_lock"), who)
    finally:
        same(ask("SELECT pg_advisory_unlock(70)"), True)


def temporary(_connections, who):
    ask("CREATE TEMPORARY TABLE import (name text)")
    ask("INSERT INTO import SELECT %s FROM generate_series(1, 3)", who)
    same([customer.name for customer in
          Customer.objects.raw("SELECT 0 AS id, name FROM import")], [who] * 3)
    ask("DROP TABLE import")


def users(_connections, who):
    name = who.replace(" ", "-")
    with transaction.atomic():
        user = User.objects.create_user(name, password="secret")
    same(User.objects.get(username=name).check_password("secret"), True)
    user.delete()


call_command("migrate", verbosity=0)
call_command("migrate", "shop", "zero", verbosity=0)
call_command("migrate", verbosity=0)
connections.close_all()
run({function.__name__: function for function in (
    rows, savepoints, pieces, zone, tenant, schema, role, lock, temporary, users)}, Connections)
