# SPDX-License-Identifier: ISC
"""A column, rows, and an index that cannot be made in a transaction."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


def first_customer(apps, _editor):
    apps.get_model("shop", "Customer").objects.create(name="the first")


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("shop", "0001_initial")]
    operations = [
        migrations.AddField("Order", "details", models.JSONField(default=dict)),
        migrations.RunPython(first_customer, migrations.RunPython.noop),
        AddIndexConcurrently("Order", models.Index(fields=["placed"], name="order_placed")),
    ]
