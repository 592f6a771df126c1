# SPDX-License-Identifier: ISC
"""The tables; and one of tenants, with a policy that reads a parameter of the session."""

import django.db.models.deletion
from django.db import migrations, models

TENANTS = """
CREATE TABLE tenant_notes (tenant text NOT NULL, note text);
ALTER TABLE tenant_notes ENABLE ROW LEVEL SECURITY;
ALTER TABLE tenant_notes FORCE ROW LEVEL SECURITY;
CREATE POLICY own ON tenant_notes USING (tenant = current_setting('app.tenant', true));
"""


class Migration(migrations.Migration):
    initial = True
    dependencies = []
    operations = [
        migrations.CreateModel("Customer", [
            ("id", models.BigAutoField(primary_key=True, serialize=False)),
            ("name", models.CharField(max_length=50, unique=True)),
        ]),
        migrations.CreateModel("Order", [
            ("id", models.BigAutoField(primary_key=True, serialize=False)),
            ("customer", models.ForeignKey("shop.Customer", django.db.models.deletion.CASCADE)),
            ("number", models.IntegerField()),
            ("placed", models.DateTimeField()),
        ]),
        migrations.RunSQL(TENANTS, "DROP TABLE tenant_notes"),
    ]
