"""Built-in definitions that every worker serves: HTTP requests, webhooks, reports.

A connector is an ordinary definition, with payloads checked by its JSON Schema, whose handler is
part of JobForge: it runs in the worker's loop and may call the engine. registry.py lists the
connectors.
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
