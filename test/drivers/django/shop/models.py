# SPDX-License-Identifier: ISC
"""Models of the program."""

from django.db import models


class Customer(models.Model):
    name = models.CharField(max_length=50, unique=True)


class Order(models.Model):
    customer = models.ForeignKey(Customer, on_delete=models.CASCADE)
    number = models.IntegerField()
    placed = models.DateTimeField()
    details = models.JSONField(default=dict)

    class Meta:
        indexes = [models.Index(fields=["placed"], name="order_placed")]
