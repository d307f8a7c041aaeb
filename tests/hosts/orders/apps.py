"""Registers this host with Django."""

from django.apps import AppConfig


class OrdersConfig(AppConfig):
    """Orders with capture and refund, on a state machine of their own."""

    name = "tests.hosts.orders"
    label = "host_orders"
