"""Lists the connectors, and creates their definitions for apps and workers."""

from functools import cache
from importlib.util import find_spec
from typing import Any
from uuid import UUID

from jobforge import calls
from jobforge.calls import Call
from jobforge.connectors.connector import Connector, ConnectorDefinition, ConnectorTarget
from jobforge.connectors.http_request import HTTP_REQUEST
from jobforge.connectors.report_generate import REPORT_GENERATE
from jobforge.connectors.services import ConnectorServices
from jobforge.connectors.webhook_deliver import WEBHOOK_DELIVER
from jobforge.errors import Invalid
from jobforge.payloads.signature import Shape
from jobforge.sdk.engine_client import EngineClient

SLOTS = 10
_PREFIX = "connector."

CONNECTORS: tuple[Connector[Any], ...] = (HTTP_REQUEST, REPORT_GENERATE, WEBHOOK_DELIVER)


def are_installed() -> bool:
    """Return whether the packages of `pip install "jobforge[connectors]"` are installed."""
    return all(map(find_spec, ("httpx2", "cryptography")))


def make_connectors(
    worker_id: UUID, *, services: ConnectorServices, client: EngineClient
) -> list[ConnectorDefinition]:
    """Return the definitions of all connectors, for one worker."""
    return [ConnectorDefinition(each, worker_id, services, client) for each in CONNECTORS]


def connector_target(key: str, client: EngineClient) -> ConnectorTarget:
    """Return a target for enqueueing jobs of a connector, by `http.request` or the full key."""
    for each in CONNECTORS:
        if key in {each.key, each.key.removeprefix(_PREFIX)}:
            return ConnectorTarget(each, client)
    known = ", ".join(each.key.removeprefix(_PREFIX) for each in CONNECTORS)
    raise Invalid(f"Unknown connector '{key}'; use {known}", field="key")


@cache
def connector_registrations() -> tuple[Call[None], ...]:
    """Return calls that register the connectors in a database where no worker has run yet."""
    return tuple(
        calls.put_definition(
            each.key, each.version, each.settings.registration(Shape(each.payload).schema())
        )
        for each in CONNECTORS
    )
