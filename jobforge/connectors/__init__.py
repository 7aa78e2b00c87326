"""Definitions that every worker serves: requests, webhooks, reports.

A connector is an ordinary definition, with payloads checked by its JSON Schema, whose handler is
our own code: it runs in the worker's loop and may call the engine. Which ones there are,
registry.py knows.
"""

from jobforge.connectors.connector import QUEUE, Connector, ConnectorJob
from jobforge.connectors.registry import (
    SLOTS,
    are_installed,
    connector_registrations,
    connector_target,
    make_connectors,
)
from jobforge.connectors.services import ConnectorServices

__all__ = [
    "QUEUE",
    "SLOTS",
    "Connector",
    "ConnectorJob",
    "ConnectorServices",
    "are_installed",
    "connector_registrations",
    "connector_target",
    "make_connectors",
]
