"""JobForge: a job server that is a set of SQL functions in Postgres.

The public names of the package. Each name is imported on first use, so that `jobforge --help` does
not import all modules.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jobforge import errors
    from jobforge.client.client import AsyncClient, Client
    from jobforge.sdk.app import JobForge
    from jobforge.sdk.batch import BatchHandle
    from jobforge.sdk.context import Context
    from jobforge.sdk.definition import Definition
    from jobforge.sdk.definition_settings import Rate
    from jobforge.sdk.handle import Handle
    from jobforge.sdk.middleware import CallNext
    from jobforge.sdk.outcome_exceptions import Cancel, Cancelled, Dead, Retry, Snooze
    from jobforge.sdk.workflow import WorkflowHandle
    from jobforge.sdk.workflow_nodes import Node
    from jobforge.security.webhook_signature import verify_webhook
    from jobforge.types.jobs import JobFilter, JobRequest, Outcome, OutcomeReport

__version__ = "0.1.0"

__all__ = [
    "AsyncClient",
    "BatchHandle",
    "CallNext",
    "Cancel",
    "Cancelled",
    "Client",
    "Context",
    "Dead",
    "Definition",
    "Handle",
    "JobFilter",
    "JobForge",
    "JobRequest",
    "Node",
    "Outcome",
    "OutcomeReport",
    "Rate",
    "Retry",
    "Snooze",
    "WorkflowHandle",
    "errors",
    "verify_webhook",
]

_MODULES = {
    "AsyncClient": "client.client",
    "BatchHandle": "sdk.batch",
    "CallNext": "sdk.middleware",
    "Cancel": "sdk.outcome_exceptions",
    "Cancelled": "sdk.outcome_exceptions",
    "Client": "client.client",
    "Context": "sdk.context",
    "Dead": "sdk.outcome_exceptions",
    "Definition": "sdk.definition",
    "Handle": "sdk.handle",
    "JobFilter": "types.jobs",
    "JobForge": "sdk.app",
    "JobRequest": "types.jobs",
    "Node": "sdk.workflow_nodes",
    "Outcome": "types.jobs",
    "OutcomeReport": "types.jobs",
    "Rate": "sdk.definition_settings",
    "Retry": "sdk.outcome_exceptions",
    "Snooze": "sdk.outcome_exceptions",
    "WorkflowHandle": "sdk.workflow",
    "verify_webhook": "security.webhook_signature",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - the type depends on the name
    from importlib import import_module  # noqa: PLC0415 - imported on first use

    if name == "errors":
        return import_module("jobforge.errors")
    if name not in _MODULES:
        raise AttributeError(f"jobforge has no {name}")
    value = getattr(import_module(f"jobforge.{_MODULES[name]}"), name)
    globals()[name] = value  # later lookups bypass this function
    return value
